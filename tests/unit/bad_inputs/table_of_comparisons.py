"""The table of bad inputs that are refused, rows 21 to 41: comparisons, their ids, labels and users."""

from functools import partial

import numpy as np

from skpref import Table
from skpref.exceptions import UnknownIdError
from tests.unit.bad_inputs import places as at
from tests.unit.bad_inputs.places import fitted
from tests.unit.bad_inputs.rows import FLOATS, HUGE, Row, call, entry, methods, pick

ROWS_OF_COMPARISONS = [
    Row(21, "item 42", at.NUMBERED_PAIRS, entry((17, 1), 42), "comparison"),
    Row(21, "user 42", at.NUMBERED_TRIPLES, entry((17, 0), 42), "comparison"),
    Row(22, "item -1", at.NUMBERED_PAIRS, entry((3, 0), -1), "item"),
    Row(22, "user -1", at.NUMBERED_TRIPLES, entry((3, 0), -1), "user"),
    Row(23, "item", pick([*at.LEARN_PAIRS, *at.ASK_PAIRS], "items"), entry((3, 1), "who?"), "item", UnknownIdError),
    Row(23, "long item", pick([*at.LEARN_PAIRS, *at.ASK_PAIRS], "items"), entry((0, 1), HUGE), "item", UnknownIdError),
    Row(23, "user", pick(at.LEARN_TRIPLES, "users"), entry((3, 0), "who?"), "user", UnknownIdError),
    Row(23, "long user", pick(at.LEARN_TRIPLES, "users"), entry((3, 0), HUGE), "user", UnknownIdError),
    Row(
        23,
        "names without ids",
        call("CrowdGPPL.fit", lambda: at.crowd(None, at.PEOPLE).fit(at.NAMED_TRIPLES, at.PREFERRED)),
        None,
        "user",
        UnknownIdError,
    ),
    Row(
        23,
        "item",
        [p for name in ("GPPLClassifier(items)", "CrowdGPPL") for p in methods(name, names="utility")],
        ["who"],
        "item",
        UnknownIdError,
    ),
    *(
        Row(23, what, methods("CrowdGPPL(items, users)", [1], names="partial_fit"), row, "ids", UnknownIdError)
        for what, row in (("user", [["who", "x0", "x1"]]), ("item", [["u1", "x0", "who"]]))
    ),
    Row(24, "itself", at.LEARN_PAIRS, lambda rows: [*rows[:9], ["x5", "x5"]], "comparison"),
    Row(24, "itself", at.NUMBERED_PAIRS[:1], [*at.PAIRS, [5, 5]], "comparison"),
    Row(25, "label 2", at.LABELS, entry([1, 5], 2), "comparison"),
    Row(25, "label -1", at.LABELS, entry(1, -1), "labels"),
    Row(27, "other words", at.LABELS, np.where(at.PREFERRED == 1, "home", "away"), "label"),
    Row(27, "numbers as strings", at.LABELS, at.PREFERRED.astype(str).tolist(), "label"),
    Row(
        28,
        "3 columns",
        [*at.LEARN_PAIRS, *at.ASK_PAIRS, *at.NUMBERED_PAIRS],
        np.zeros((at.P, 3), dtype=int),
        "comparisons",
    ),
    Row(28, "one column", pick(at.ASK_PAIRS, without="preference"), [["x1"]], "comparisons"),
    Row(28, "3 names", pick(at.ASK_PAIRS, "Classifier"), [["x1", "x2", "x3"]], "comparisons"),
    Row(28, "no users", at.LEARN_TRIPLES, at.PAIRS, "user"),
    Row(28, "no users", pick(at.ASK_TRIPLES, "predict", without="preference"), [["x0", "x1"]], "comparisons"),
    Row(28, "one short row", at.LEARN_TRIPLES, lambda rows: [*rows[:4], ["x1", "x2"], *rows[5:]], "comparisons"),
    Row(28, "one short row", at.ASK_TRIPLES, [["u0", "x0", "x1"], ["x1", "x2"]], "comparisons"),
    Row(28, "3-D", at.LEARN_TRIPLES, np.zeros((at.P, 3, 3)), r"\bX\b"),
    Row(29, "too few", methods("CrowdGPPL", at.PREFERRED[:-1], names="score"), at.NAMED_TRIPLES, r"\by\b"),
    Row(
        29,
        "qid",
        call("GPPLRegressor.fit", lambda: at.regressor().fit(at.X, at.SCORE, qid=np.zeros(7))),
        None,
        "inconsistent numbers of samples",
    ),
    Row(30, "none", [*at.LEARN_PAIRS, *at.NUMBERED_PAIRS], np.empty((0, 2)), "comparison"),
    Row(30, "empty list", at.LEARN_PAIRS, [], "comparison"),
    Row(30, "equal scores", pick(at.NUMBERS, "GPPL"), np.ones(at.N), "comparison"),
    Row(
        30,
        "groups of one",
        call("GPPLRegressor.fit", lambda: at.regressor().fit(at.X, at.SCORE, qid=np.arange(at.N))),
        None,
        "comparison",
    ),
    Row(
        31,
        "one item",
        [
            *call("GPPLRegressor.fit", lambda: at.regressor().fit(at.X[:1], [1.0])),
            *call("GPPLRegressor.fit(comparisons)", lambda: at.regressor().fit(at.X[:1], comparisons=[[0, 0]])),
            *call("GPPLClassifier.fit", lambda: at.classifier(on_self="drop").fit([["a", "a"]], [1])),
            *call("CrowdGPPL.fit", lambda: at.crowd(on_self="drop").fit([["u", "a", "a"]], [1])),
        ],
        None,
        "items",
    ),
    Row(31, "no weight", pick(at.WEIGHTS, "GPPLClassifier.fit", "CrowdGPPL.fit"), np.zeros(at.P), "items"),
    Row(35, "1.5", at.NUMBERED_PAIRS, lambda pairs: entry((4, 0), 1.5)(pairs.astype(float)), "ids"),
    *(
        Row(35, f"{what} 1.5", at.LEARN_TRIPLES, entry((4, column), 1.5)(FLOATS), "ids")
        for what, column in (("item", 1), ("user", 0))
    ),
    Row(36, "2**63 - 1", at.NUMBERED_PAIRS, entry((2, 0), 2**63 - 1), "item"),
    Row(36, "2**63 - 1", at.NUMBERED_TRIPLES, entry((2, 0), 2**63 - 1), "user"),
    Row(36, "uint64", at.NUMBERED_PAIRS[:1], np.array([[0, 2**64 - 1]], dtype=np.uint64), "item"),
    Row(37, "None", [*at.LEARN_PAIRS, *at.ASK_PAIRS], entry((2, 1), None), "item"),
    Row(37, "NaN", at.LEARN_PAIRS, entry((2, 1), np.nan)(at.PAIRS.astype(float)), "item"),
    Row(37, "no user", [*at.LEARN_TRIPLES, *at.ASK_TRIPLES], entry((2, 0), None), "user"),
    Row(37, "user NaN", at.LEARN_TRIPLES, entry((2, 0), np.nan)(FLOATS), "user"),
    Row(37, "user [1]", at.LEARN_TRIPLES, entry((2, 0), [1]), "user"),
    *(
        Row(
            37,
            what,
            call(
                "CrowdGPPL." + method,
                partial(lambda method, value: getattr(fitted("CrowdGPPL"), method)(**value), method, value),
            ),
            None,
            "user",
        )
        for what, method, value in (
            ("no user", "utility", {"users": ["u0", None]}),
            ("one user", "utility", {"users": "u0"}),
            ("a list", "similar_users", {"user": ["u0"]}),
            ("a list", "rank", {"user": ["u0"]}),
        )
    ),
    *(
        Row(37, what, call("Table", partial(Table, at.X[rows], ids=ids)), None, "ids")
        for what, rows, ids in (
            ("duplicate", [*range(30), 0], [*at.ITEM_NAMES, "x0"]),
            ("too few", range(30), at.ITEM_NAMES[:-1]),
            ("[1]", range(30), [[1]] * 30),
        )
    ),
    Row(39, "user", pick(at.ASK_TRIPLES, "raise"), [at.NAMED_TRIPLES[0], ["who", "x0", "x1"]], "user", UnknownIdError),
    Row(
        64,
        "names and integers",
        [
            *call("GPPLClassifier.fit", lambda: at.classifier().fit([[1, "2"], [2, "3"]], [1, 0])),
            *call("CrowdGPPL.fit", lambda: at.crowd().fit([["u", 1, "2"], ["u", 2, "3"]], [1, 0])),
        ],
        None,
        "ids",
    ),
    Row(64, "numbers as strings", at.NUMBERED_PAIRS[1:], lambda pairs: pairs.astype(str), "comparison", UnknownIdError),
    Row(
        64,
        "masked",
        [*at.LEARN_PAIRS, *at.ASK_PAIRS],
        lambda pairs: [[*pairs[0][:1], np.ma.masked], *pairs[1:]],
        "item",
    ),
    Row(64, "NaT", [*at.LEARN_TRIPLES, *at.ASK_TRIPLES], np.full((at.P, 3), "NaT", dtype="M8[D]"), "user"),
    Row(
        66,
        "winners first",
        [
            *call("GPPLClassifier.fit", lambda: at.classifier(order_effect=True).fit(at.NAMED_PAIRS)),
            *call("CrowdGPPL.fit", lambda: at.crowd(order_effect=True).fit(at.NAMED_TRIPLES, ["left"] * at.P)),
            *call("CrowdGPPL.partial_fit", lambda: at.crowd(order_effect=True).partial_fit(at.NAMED_TRIPLES)),
        ],
        None,
        "label",
    ),
    Row(67, "-1 and 1", at.LABELS, 2 * at.PREFERRED - 1, "labels"),
    *(
        Row(
            39,
            "user",
            call(
                f"{name}.{method}",
                partial(lambda name, method, value: getattr(fitted(name), method)(**value), name, method, value),
            ),
            None,
            "user",
            UnknownIdError,
        )
        for name, method, value in (
            ("CrowdGPPL(unknown_user='raise')", "utility", {"users": [7]}),
            ("CrowdGPPL(unknown_user='raise')", "rank", {"user": "who"}),
            ("CrowdGPPL", "similar_users", {"user": "who"}),
        )
    ),
]
