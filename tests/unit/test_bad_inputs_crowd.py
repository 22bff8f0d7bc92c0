"""The table of bad inputs (shared/bad-inputs.md) for CrowdGPPL: rows of pairs (21 to 38) and of crowds (39 to 41).

A clear error, of the type and with the words given there; or accepted, with finite and equal results. Rows 1 to 20 are
repeated where a crowd reads something that the other estimators do not: the features of users, the third column.
"""

from __future__ import annotations

import re
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.utils._param_validation import InvalidParameterError

from skpref import CrowdGPPL, Table
from skpref.exceptions import DataError, DataWarning, UnknownIdError

if TYPE_CHECKING:
    from collections.abc import Callable

_rng = np.random.default_rng(12)
N, U, P = 30, 6, 90
FEATURES, PEOPLE = _rng.standard_normal((N, 3)), _rng.standard_normal((U, 2))
LEFT = np.concatenate([np.arange(N), _rng.integers(0, N, P - N)])
RIGHT, USER = (LEFT + 1) % N, _rng.integers(0, U, P)
Y = (FEATURES[LEFT, 0] + _rng.standard_normal(P) > FEATURES[RIGHT, 0]).astype(int)
X = np.column_stack([USER, LEFT, RIGHT])
NAMES, WHO = [f"x{i}" for i in range(N)], [f"u{i}" for i in range(U)]
NAMED = [[WHO[u], NAMES[a], NAMES[b]] for u, a, b in X]
TABLE, USERS = Table(FEATURES, ids=NAMES), Table(PEOPLE, ids=WHO)


def crowd(items: Any = None, users: Any = None, **options: Any) -> CrowdGPPL:
    return CrowdGPPL(items, users, **{"n_factors": 2, "length_scale_factor": 1.0, "random_state": 0, **options})


@cache
def fitted(kind: str) -> CrowdGPPL:
    """Fitted once, when it is first asked for."""
    return {"ids": crowd, "tables": partial(crowd, TABLE, USERS), "strict": partial(crowd, unknown_user="raise")}[
        kind
    ]().fit(NAMED, Y)


def with_entry(rows: Any, row: int, column: int, value: Any) -> list[list[Any]]:
    rows = [list(r) for r in rows]
    rows[row][column] = value
    return rows


def labels(row: Any, value: float) -> np.ndarray:
    y = Y.astype(float)
    y[row] = value
    return y


class Bad(NamedTuple):
    row: int
    name: str
    error: type[Exception]
    text: str
    call: Callable[[], Any]


V, T = ValueError, TypeError


def learns(row: int, error: type[Exception], text: str, rows: Any = NAMED, y: Any = Y, **options: Any) -> list[Bad]:
    """The same bad comparisons to be fitted without and with features, and to be added later."""
    return [
        Bad(row, "ids", error, text, lambda: crowd().fit(rows, y, **options)),
        Bad(row, "tables", error, text, lambda: crowd(TABLE, USERS).fit(rows, y, **options)),
        Bad(row, "partial_fit", error, text, lambda: fitted("ids").partial_fit(rows, y, **options)),
    ]


def asks(row: int, error: type[Exception], text: str, rows: Any, *, kinds: str = "ids tables") -> list[Bad]:
    """The same bad comparisons to be predicted."""
    methods = ("predict", "predict_proba", "decision_function", "predict_preference")
    return [
        Bad(row, f"{kind} {name}", error, text, lambda kind=kind, name=name: getattr(fitted(kind), name)(rows))
        for kind in kinds.split()
        for name in methods
    ]


def features(row: int, text: str, bad: Any) -> list[Bad]:
    """The same bad features for every place that takes features of users or items."""
    named: dict[str, Callable[[], Any]] = {
        "items": lambda: crowd(bad).fit(X, Y),
        "users": lambda: crowd(None, bad).fit(X, Y),
        "items ": lambda: fitted("tables").utility(bad),
        "users ": lambda: fitted("tables").utility(users=bad),
        "items  ": lambda: fitted("tables").partial_fit(NAMED, Y, items=bad),
        "users  ": lambda: fitted("tables").partial_fit(NAMED, Y, users=bad),
    }
    return [Bad(row, name, V, f"{name.strip()}: {text}", call) for name, call in named.items()]


FLOAT = X.astype(float)
HUGE = [["u0", "x0", "z" * 10_000_000]]
FIT_OPTIONS = {
    "items": 7,
    "users": "ann",
    "n_factors": -1,
    "kernel": "matern",
    "factor_kernel": 3,
    "user_kernel": "rbf",
    "consensus": "yes",
    "item_effects": 2,
    "order_effect": None,
    "unknown_user": "ignore",
    "on_self": "keep",
    "likelihood": "cauchit",
    "inference": "laplace",
    "n_inducing": 0,
    "n_inducing_users": 1.5,
    "inducing": "all",
    "batch_size": 0,
    "max_iter": 0,
    "tol": -1.0,
    "delay": -1.0,
    "forgetting_rate": 0.5,
    "shape_s0": 0.0,
    "rate_s0": -2.0,
    "shape_sd0": 0.0,
    "rate_sd0": -1.0,
    "shape_sw0": 0.0,
    "rate_sw0": np.nan,
    "length_scale_factor": 0.0,
    "optimizer": "adam",
    "n_restarts_optimizer": -1,
    "warm_start": 3,
    "verbose": "loud",
    "random_state": "a",
}
ERRORS = [
    *features(1, "Input X contains NaN", np.full((2, 2), np.nan)),
    *features(2, "Input X contains infinity or a value too large", np.full((2, 2), np.inf)),
    *features(3, r"Found array with 0 sample\(s\)", np.empty((0, 2))),
    *learns(3, V, r"Found array with 0 sample\(s\)", rows=np.empty((0, 3)), y=[]),
    *asks(3, V, r"Found array with 0 sample\(s\)", np.empty((0, 3))),
    *asks(3, V, r"Found array with 0 sample\(s\)", []),
    *features(4, r"Found array with 0 feature\(s\)", np.empty((6, 0))),
    *learns(4, V, r"expected shape \(n_comparisons, 3\)", rows=np.empty((P, 0))),
    *learns(5, V, "Expected 2D array, got 1D array", rows=LEFT),
    *asks(5, V, "Expected 2D array, got 1D array", ["u0", "x1", "x2"]),
    *learns(5, V, "Expected 2D array, got scalar array", rows="u0 x1 x2"),
    Bad(5, "users", V, "users: Expected 2D array, got 1D array", lambda: crowd(None, PEOPLE[:, 0]).fit(X, Y)),
    *features(6, "could not convert string to float", [["red", "blue"]] * 2),
    *features(8, "Complex data not supported", PEOPLE.astype(complex)),
    *learns(8, V, "Complex data not supported", rows=X.astype(complex)),
    *learns(9, T, "Sparse data was passed for X, but dense data is required", rows=sparse.csr_array(X)),
    *asks(9, T, "Sparse data was passed for X, but dense data is required", sparse.csr_array(X)),
    Bad(9, "two columns", T, "Sparse data", lambda: fitted("ids").predict_preference(sparse.csr_array(X[:, 1:]))),
    *(
        Bad(10, f"{kind} {name}", V, f"{name} has 4 features, but .* is expecting {n}", call)
        for kind, name, n, call in (
            ("tables", "items", 3, lambda: fitted("tables").utility(np.zeros((2, 4)))),
            ("tables", "users", 2, lambda: fitted("tables").utility(users=np.zeros((2, 4)))),
            ("tables", "users", 2, lambda: fitted("tables").partial_fit(NAMED, Y, users=np.zeros((2, 4)))),
            ("ids", "items", 0, lambda: fitted("ids").utility(np.zeros((2, 4)))),
            ("ids", "users", 0, lambda: fitted("ids").utility(users=[[0.0] * 4])),
        )
    ),
    *(
        Bad(11, name, NotFittedError, "is not fitted yet", lambda call=call: call(crowd()))
        for name, call in {
            "predict": lambda m: m.predict(NAMED),
            "predict_proba": lambda m: m.predict_proba(NAMED),
            "decision_function": lambda m: m.decision_function(NAMED),
            "predict_preference": lambda m: m.predict_preference(NAMED),
            "score": lambda m: m.score(NAMED, Y),
            "utility": lambda m: m.utility(),
            "rank": lambda m: m.rank(),
            "annotators": lambda m: m.annotators(),
            "similar_users": lambda m: m.similar_users("u0"),
            "similar_items": lambda m: m.similar_items("x0"),
        }.items()
    ),
    *(
        Bad(
            15,
            name,
            InvalidParameterError,
            f"'{name}' parameter",
            partial(lambda o: crowd(**o).fit(X, Y), {name: value}),
        )
        for name, value in FIT_OPTIONS.items()
        if name != "random_state"
    ),
    Bad(16, "random_state", InvalidParameterError, "random_state", lambda: crowd(random_state="a").fit(X, Y)),
    Bad(16, "rank", V, "random_state", lambda: fitted("ids").rank(random_state="a")),
    Bad(19, "items", V, r"30000 items .* needs 7\.2 GB.* set n_inducing to", lambda: many("items", 30_000)),
    Bad(19, "users", V, r"30000 users .* needs 7\.2 GB.* set n_inducing_users to", lambda: many("users", 30_000)),
    Bad(21, "items", V, "comparison 17 refers to item 42, but there are 30 items", lambda: numbered(17, 2, 42)),
    Bad(21, "users", V, "comparison 17 refers to user 42, but there are 6 users", lambda: numbered(17, 0, 42)),
    Bad(22, "items", V, "negative item index -1 in comparison 3", lambda: numbered(3, 1, -1)),
    Bad(22, "users", V, "negative user index -1 in comparison 3", lambda: numbered(3, 0, -1)),
    *(
        Bad(23, name, UnknownIdError, text, lambda rows=rows: crowd(TABLE, USERS).fit(rows, Y))
        for name, text, rows in (
            ("items", r"unknown item 'who\?' in comparison 3", with_entry(NAMED, 3, 2, "who?")),
            ("users", r"unknown user 'who\?' in comparison 3", with_entry(NAMED, 3, 0, "who?")),
            ("long", r"unknown user 'z{80}'\.\.\. in comparison 3", with_entry(NAMED, 3, 0, "z" * 10_000_000)),
        )
    ),
    *asks(23, UnknownIdError, r"unknown item 'z{80}'\.\.\. in comparison 0", HUGE, kinds="tables"),
    Bad(
        23,
        "positional",
        UnknownIdError,
        "unknown user 'u.'.*pass `ids` to the Table",
        lambda: crowd(None, PEOPLE).fit(NAMED, Y),
    ),
    Bad(23, "utility", UnknownIdError, "unknown item 'who' in row 0", lambda: fitted("ids").utility(["who"])),
    Bad(
        23,
        "partial_fit",
        UnknownIdError,
        r"unknown user 'who'.*users=Table\(features, ids=",
        lambda: later("who", "x1"),
    ),
    Bad(
        23,
        "partial_fit ",
        UnknownIdError,
        r"unknown item 'who'.*items=Table\(features, ids=",
        lambda: later("u1", "who"),
    ),
    *learns(24, V, "comparison 9 compares item 'x5' with itself", rows=[*NAMED[:9], ["u0", "x5", "x5"]], y=Y[:10]),
    *learns(25, V, r"labels must be 0 or 1 \(or 0.5 for a tie\); got 2 in comparison 1, and 2 of", y=labels([1, 5], 2)),
    *learns(25, V, r"labels must be 0 or 1 \(or 0.5 for a tie\); got -1", y=labels(1, -1)),
    *learns(26, V, "Input y contains NaN", y=labels(1, np.nan)),
    *learns(26, V, "Input y contains infinity", y=labels(1, np.inf)),
    *learns(27, V, "Unknown label", y=np.where(Y == 1, "left", "right")),
    *learns(27, V, "Unknown label", y=Y.astype(str).tolist()),
    *learns(28, V, r"has shape \(90, 2\), expected shape \(n_comparisons, 3\): user, left, right", rows=X[:, 1:]),
    *learns(28, V, r"has shape \(90, 4\), expected shape \(n_comparisons, 3\)", rows=np.zeros((P, 4), dtype=int)),
    *learns(28, V, r"\(90, 2\) in row 4, expected shape", rows=[*NAMED[:4], ["x1", "x2"], *NAMED[5:]]),
    *learns(28, V, "dim 3, while dim <= 2", rows=np.zeros((P, 3, 3))),
    *asks(28, V, r"expected shape \(n_comparisons, 3\)", [["u0"]]),
    *asks(28, V, r"expected shape \(n_comparisons, 3\)", [["u0", "x0", "x1"], ["x1", "x2"]]),
    Bad(28, "predict", V, r"expected shape \(n_comparisons, 3\)", lambda: fitted("ids").predict([["x0", "x1"]])),
    *learns(29, V, "inconsistent numbers of samples", y=Y[:-1]),
    Bad(29, "score", V, "inconsistent numbers of samples", lambda: fitted("ids").score(NAMED, Y[:-1])),
    *learns(30, V, "at least 1 comparison is required", rows=[], y=[]),
    Bad(31, "one item", V, "at least 2 items", lambda: crowd(on_self="drop").fit([["u", "a", "a"]], [1])),
    Bad(31, "no weight", V, "at least 2 items.*zero", lambda: crowd().fit(NAMED, Y, sample_weight=np.zeros(P))),
    *learns(35, V, "numeric item ids must be integers, got 1.5 in comparison 4", rows=with_entry(FLOAT, 4, 1, 1.5)),
    *learns(35, V, "numeric user ids must be integers, got 1.5 in comparison 4", rows=with_entry(FLOAT, 4, 0, 1.5)),
    Bad(36, "item", V, f"item {2**63 - 1}, but there are 30", lambda: numbered(2, 1, 2**63 - 1)),
    Bad(36, "user", V, f"user {2**63 - 1}, but there are 6", lambda: numbered(2, 0, 2**63 - 1)),
    *learns(37, V, "missing item id in comparison 2", rows=with_entry(NAMED, 2, 1, None)),
    *learns(37, V, "missing user id in comparison 2", rows=with_entry(NAMED, 2, 0, None)),
    *learns(37, V, "missing user id in comparison 2", rows=np.array(with_entry(FLOAT, 2, 0, np.nan))),
    *learns(37, V, "user ids must be hashable", rows=with_entry(NAMED, 2, 0, [1])),
    *asks(37, V, "missing user id in comparison 2", with_entry(NAMED, 2, 0, None)),
    Bad(37, "utility", V, "missing user id in row 1 of users", lambda: fitted("ids").utility(users=["u0", None])),
    Bad(37, "one user", V, "for one user, give a list with its id", lambda: fitted("ids").utility(users="u0")),
    Bad(37, "similar", V, "user ids must be hashable", lambda: fitted("ids").similar_users(["u0"])),
    *(
        bad
        for text, weight in {
            "Negative values in data passed to `sample_weight`: -1 in row 0": -np.ones(P),
            "sample_weight contains NaN": np.full(P, np.nan),
            "sample_weight contains infinity": np.full(P, np.inf),
            r"sample_weight.shape == \(7,\), expected \(90,\)": np.ones(7),
            "sample_weight must be numbers": ["heavy"] * P,
        }.items()
        for bad in learns(38, V, text, sample_weight=weight)
    ),
    *asks(39, UnknownIdError, "unknown user 'who' in comparison 1", [NAMED[0], ["who", "x0", "x1"]], kinds="strict"),
    Bad(39, "utility", UnknownIdError, "unknown user 7 in row 0", lambda: fitted("strict").utility(users=[7])),
    Bad(39, "rank", UnknownIdError, "unknown user 'who'", lambda: fitted("strict").rank(user="who")),
    Bad(39, "similar", UnknownIdError, "unknown user 'who'", lambda: fitted("ids").similar_users("who")),
    *learns(0, V, "requires y to be passed, but the target y is None", y=None),
    Bad(
        0,
        "inducing",
        V,
        "inducing points have 5 features, but X has 3",
        lambda: crowd(TABLE, inducing=np.eye(5)).fit(NAMED, Y),
    ),
]


def numbered(row: int, column: int, value: int) -> Any:
    """Fit of items and users by their numbers, with a wrong one."""
    rows = X.copy()
    rows[row, column] = value
    return crowd(FEATURES, PEOPLE).fit(rows, Y)


def later(user: str, item: str) -> Any:
    return fitted("tables").partial_fit([[user, "x0", item]], [1])


def many(side: str, n: int) -> Any:
    """More inducing points than fit into memory."""
    column, zero = np.arange(n), np.zeros(n, dtype=int)
    table = np.arange(n, dtype=float)[:, None]
    if side == "items":
        return crowd(table, n_inducing=n).fit(np.column_stack([zero, column, np.roll(column, 1)]), np.ones(n))
    return crowd(None, table, n_inducing_users=n).fit(np.column_stack([column, zero, zero + 1]), np.ones(n))


@pytest.mark.filterwarnings("ignore:n_factors=2 is more")
@pytest.mark.parametrize("bad", ERRORS, ids=lambda bad: f"row{bad.row}-{bad.name}")
def test_a_clear_error(bad: Bad) -> None:
    with pytest.raises(bad.error) as caught:
        bad.call()
    message = str(caught.value)
    assert re.search(bad.text, message, re.DOTALL), message
    assert len(message) < 2500


def test_every_row_is_here() -> None:
    accepted = {7, 12, 13, 14, 17, 18, 20, 32, 33, 34, 40, 41}
    assert {bad.row for bad in ERRORS} | accepted == set(range(42))


def test_refusals_have_left_the_fits_as_they_were() -> None:
    for kind in ("ids", "tables"):
        before = fitted(kind).predict_proba(NAMED)
        for bad in ERRORS:
            if "partial_fit" in bad.name:
                with pytest.raises(bad.error):
                    bad.call()
        np.testing.assert_array_equal(fitted(kind).predict_proba(NAMED), before)


# ------------------------------------------------------------------------------------------------------------- accepted
def test_row12_frames_with_other_columns() -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(NAMED, columns=["user", "left", "right"])
    model = crowd().fit(frame, Y)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame[["left", "right", "user"]])
    with pytest.raises(ValueError, match="feature names should match"):
        model.partial_fit(frame.rename(columns={"user": "who"}), Y)


@pytest.mark.parametrize(
    "kind", ["row7-object", "row13-fortran", "row13-strided", "row13-list", "row13-frame", "row13-csr"]
)
def test_containers_of_features_give_equal_results(kind: str) -> None:
    wrap: Any = {
        "row7-object": lambda a: a.astype(object),
        "row13-fortran": np.asfortranarray,
        "row13-strided": lambda a: np.repeat(a, 2, axis=0)[::2],
        "row13-list": np.ndarray.tolist,
        "row13-frame": lambda a: pytest.importorskip("pandas").DataFrame(a),
        "row13-csr": sparse.csr_array,
    }[kind]
    model = crowd(Table(wrap(FEATURES), ids=NAMES), Table(wrap(PEOPLE), ids=WHO)).fit(NAMED, Y)
    atol = 1e-5 if kind == "row13-csr" else 1e-12  # another order of sums
    np.testing.assert_allclose(model.predict_proba(NAMED), fitted("tables").predict_proba(NAMED), atol=atol)


def test_rows17_18_constant_and_equal_users() -> None:
    with pytest.warns(DataWarning, match="2 of 2 features are constant over the users who compared"):
        same = crowd(None, Table(np.ones((U, 2)), ids=WHO)).fit(NAMED, Y)
    personal = same.utility(users=WHO)
    np.testing.assert_allclose(personal, np.tile(personal[:1], (U, 1)), atol=1e-9)
    twins = Table(np.vstack([PEOPLE[:3], PEOPLE[:3]]), ids=WHO)
    personal = crowd(None, twins).fit(NAMED, Y).utility(users=WHO)
    np.testing.assert_allclose(personal[:3], personal[3:], atol=1e-9)


@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "uint8", "float16"])
def test_row20_small_types_are_computed_in_double(dtype: str) -> None:
    small = (PEOPLE > 0 if dtype == "bool" else (PEOPLE * 40).clip(0 if dtype == "uint8" else -127, 127)).astype(dtype)
    with np.errstate(all="raise", under="ignore"):
        wanted = crowd(None, Table(small.astype(np.float64), ids=WHO)).fit(NAMED, Y).predict_proba(NAMED)
    np.testing.assert_array_equal(crowd(None, Table(small, ids=WHO)).fit(NAMED, Y).predict_proba(NAMED), wanted)


def test_row24_comparisons_with_itself_can_be_dropped() -> None:
    rows = [["u0", "x5", "x5"], *NAMED, ["a user who says nothing else", "x0", "x0"]]
    model = crowd(on_self="drop").fit(rows, [1, *Y, 0])
    np.testing.assert_array_equal(model.predict_proba(NAMED), fitted("ids").predict_proba(NAMED))
    assert model.user_ids_.tolist() == WHO


def test_rows25_27_soft_labels_and_booleans() -> None:
    assert np.all(np.isfinite(crowd().fit(NAMED, np.full(P, 0.3)).predict_proba(NAMED)))
    np.testing.assert_array_equal(
        crowd().fit(NAMED, Y.astype(bool)).predict_proba(NAMED), fitted("ids").predict_proba(NAMED)
    )


@pytest.mark.parametrize("likelihood", ["probit", "logit", "probit-ties"])
@pytest.mark.parametrize("tables", [False, True])
def test_row32_all_ties(likelihood: str, tables: bool) -> None:
    model = crowd(*((TABLE, USERS) if tables else ()), likelihood=likelihood).fit(NAMED, np.full(P, 0.5))
    np.testing.assert_allclose(model.predict_proba(NAMED), 0.5, atol=1e-3)
    np.testing.assert_allclose(model.utility(), 0.0, atol=1e-3)
    np.testing.assert_allclose(model.utility(users=WHO), 0.0, atol=0.05)


@pytest.mark.filterwarnings("ignore:.*did not converge", "ignore:n_factors")
@pytest.mark.parametrize("inference", ["vb", "svi", "linearised"])
def test_row33_separation(inference: str) -> None:
    # "best" wins always; and each user contradicts the other about the rest, always.
    rows = [[u, "best", f"other {i}"] for u in "ab" for i in range(4)] * 20
    rows += [["a" if sign else "b", f"other {i}", f"other {i + 1}"] for i in range(3) for sign in (0, 1)] * 20
    y = [1.0] * 160 + [0.0, 1.0] * 60
    model = crowd(inference=inference, max_iter=300).fit(rows, y)
    mean, std = model.utility(users=["a", "b", "stranger"], return_std=True)
    assert np.all(np.isfinite(mean))
    assert np.all(std > 0.0)
    assert model.rank().id[0] == "best"
    assert np.all(np.isfinite(model.annotators(n_samples=20).drop(columns="user").to_numpy()))


def test_row34_pieces() -> None:
    with pytest.warns(DataWarning, match="2 connected components"):
        model = crowd().fit([["u", "a", "b"], ["v", "c", "d"], ["u", "b", "a"]], [1, 0, 1])
    assert model.components_.tolist() == [0, 0, 1, 1]
    assert np.all(np.isfinite(model.predict_proba([["u", "a", "c"]])))


@pytest.mark.parametrize("base", [2**63 - 20, 2**63 + 5, 2**64 - 31])
def test_rows35_36_integral_floats_and_huge_ids(base: int) -> None:
    small = fitted("ids")  # whose names have the order of the numbers only by chance
    wanted = crowd().fit(X, Y).predict_proba(X)
    np.testing.assert_array_equal(crowd().fit(FLOAT, Y).predict_proba(FLOAT), wanted)
    np.testing.assert_allclose(small.predict_proba(NAMED), wanted, atol=0.01)
    huge = X.astype(np.uint64) + np.uint64(base)
    np.testing.assert_array_equal(crowd().fit(huge, Y).predict_proba(huge), wanted)


def test_row37_ids_of_any_kind() -> None:
    ids = ["x" * 10_000_000, b"bytes", 3, ("a", 1), "3", frozenset({1})]
    around = [[ids[i % 3], ids[i], ids[(i + 1) % 6]] for i in range(6)]
    model = crowd().fit(around, [1, 1, 1, 1, 1, 0])
    assert model.item_ids_.size == 6
    assert model.user_ids_.size == 3
    assert model.predict_proba([[ids[0], ids[0], ids[5]]])[0, 1] > 0.5
    assert model.utility(users=[ids[0], ids[1]]).shape == (2, 6)


@pytest.mark.parametrize("kind", ["ids", "tables"])
def test_row39_users_never_seen_get_the_consensus(kind: str) -> None:
    model = fitted(kind)
    asked = [[who, *row[1:]] for who in ("stranger", 7, ("t", 1)) for row in NAMED[:5]]
    proba = model.predict_proba(asked).reshape(3, 5, 2)
    np.testing.assert_array_equal(proba[0], proba[1])
    np.testing.assert_array_equal(proba[0], proba[2])
    np.testing.assert_array_equal(proba[0, :, 1] > 0.5, model.predict_preference([row[1:] for row in NAMED[:5]]) > 0.5)
    np.testing.assert_allclose(model.utility(users=["stranger"])[0], model.utility(), atol=1e-12)


def test_row40_users_without_comparisons() -> None:
    silent = crowd(None, Table(np.vstack([PEOPLE, [[40.0, -40.0]]]), ids=[*WHO, "silent"])).fit(NAMED, Y)
    plain = crowd(None, USERS).fit(NAMED, Y)
    np.testing.assert_allclose(silent.predict_proba(NAMED), plain.predict_proba(NAMED), atol=1e-9)
    # So far from all others that nothing is known of the user: the consensus.
    np.testing.assert_allclose(silent.utility(users=["silent"])[0], silent.utility(), atol=1e-3)
    weighted = crowd().fit([*NAMED, ["silent", "x0", "x1"]], [*Y, 1], [1.0] * P + [0.0])
    np.testing.assert_array_equal(weighted.predict_proba(NAMED), fitted("ids").predict_proba(NAMED))
    np.testing.assert_allclose(weighted.utility(users=["silent"])[0], weighted.utility(), atol=1e-12)


def test_row41_more_factors_than_users() -> None:
    with pytest.warns(DataWarning, match="n_factors=9 is more than the 6 users with comparisons"):
        model = crowd(n_factors=9).fit(NAMED, Y)
    assert model.user_factors_.shape == (U, 9)
    np.testing.assert_allclose(model.predict_proba(NAMED), fitted("ids").predict_proba(NAMED), atol=0.1)


@pytest.mark.parametrize("weight", [1e-300, 1e-9, 1e9, 1e150])
def test_any_weights_give_finite_results(weight: float) -> None:
    model = crowd(order_effect=True).fit(NAMED, Y, np.full(P, weight))
    assert np.all(np.isfinite(model.predict_proba(NAMED)))
    assert np.all(np.isfinite(model.utility(users=WHO, return_std=True)))
    assert model.annotators(n_samples=5)["accuracy"].between(0.0, 1.0).all()


def test_one_comparison_is_enough() -> None:
    model = crowd(n_factors=1).fit([["ann", "tea", "coffee"]], [1])
    assert model.predict_proba([["ann", "tea", "coffee"], ["bob", "tea", "coffee"]])[:, 1].min() > 0.5
    assert model.rank(user="ann").id.tolist() == ["tea", "coffee"]
    assert model.similar_users("ann")[0].size == 0
    assert len(model.annotators(n_samples=5)) == 1


# ----------------------------------------------------------------------------------------------------------- any input
IDS = st.one_of(
    st.integers(0, 3), st.sampled_from(["a", "b", "", "x" * 200, b"a", None, np.nan, 1.5, 2.0, 2**70, (1,)])
)
LABELS = st.one_of(st.sampled_from([0, 1, 0.5, 0.25]), st.sampled_from([2, -1, np.nan, "1", True, None]))


@pytest.mark.filterwarnings("ignore::skpref.exceptions.DataWarning", "ignore::sklearn.exceptions.ConvergenceWarning")
@settings(max_examples=40)
@given(rows=st.lists(st.tuples(IDS, IDS, IDS, LABELS), min_size=1, max_size=8), as_array=st.booleans())
def test_any_comparisons_are_refused_or_give_probabilities(rows: Any, as_array: bool) -> None:
    given_: Any = [row[:3] for row in rows]
    if as_array:
        array = np.empty((len(rows), 3), dtype=object)
        for i, row in enumerate(given_):
            for j, value in enumerate(row):
                array[i, j] = value
        given_ = array
    message = None
    try:
        model = crowd(max_iter=20).fit(given_, [row[3] for row in rows])
        results = model.predict_proba(given_), model.utility(users=model.user_ids_), model.annotators(n_samples=3)
    except (ValueError, TypeError) as error:
        message = str(error)
    if message is not None:
        assert 10 < len(message) < 2500
        return
    assert np.all(np.isfinite(results[0]))
    assert np.all(np.isfinite(results[1]))
    assert np.all(np.isfinite(results[2]["accuracy"]))


def test_messages_are_errors_of_data() -> None:
    """What is wrong with ids and labels is a DataError, so that callers can tell it from a bug."""
    for row in (21, 22, 24, 25, 28, 35, 37):
        bad = next(bad for bad in ERRORS if bad.row == row)
        with pytest.raises(DataError):
            bad.call()
