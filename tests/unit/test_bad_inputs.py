"""Rows 1 to 38 of the table of bad inputs (shared/bad-inputs.md), for both estimators, by row number.

A clear error, of the type and with the words given there; or accepted, with finite and equal results.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils._param_validation import InvalidParameterError

from skpref import GPPLClassifier, GPPLRegressor, Table
from skpref.exceptions import DataWarning, UnknownIdError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_rng = np.random.default_rng(11)
N, P = 30, 40
X = _rng.standard_normal((N, 3))
SCORE = X[:, 0] + 0.3 * _rng.standard_normal(N)
NAMES = [f"x{i}" for i in range(N)]
LEFT = np.concatenate([np.arange(N), _rng.integers(0, N, P - N)])
RIGHT = (LEFT + 1) % N
Y = (SCORE[LEFT] > SCORE[RIGHT]).astype(int)
PAIRS = np.column_stack([LEFT, RIGHT])
NAMED = [[NAMES[a], NAMES[b]] for a, b in PAIRS]
TABLE = Table(X, ids=NAMES)


def regressor(**options: Any) -> GPPLRegressor:
    return GPPLRegressor(**{"length_scale_factor": 1.0, "random_state": 0, **options})


def classifier(items: Any = None, **options: Any) -> GPPLClassifier:
    return GPPLClassifier(items, **{"length_scale_factor": 1.0, "random_state": 0, **options})


def with_entry(array: Any, where: Any, value: Any) -> np.ndarray:
    array = np.array(array, dtype=object if isinstance(value, str) or value is None else None)
    array[where] = value
    return array


def fit_with(make: Callable[..., Any], name: str, value: Any) -> Any:
    return make(**{name: value}).fit(*((X, SCORE) if make is regressor else (NAMED, Y)))


class Bad(NamedTuple):
    row: int
    name: str
    error: type[Exception]
    text: str
    call: Callable[[], Any]


V, T = ValueError, TypeError
NAN, INF = with_entry(X, (3, 1), np.nan), with_entry(X, (3, 1), np.inf)
COMPLEX = X.astype(complex)
STRINGS = with_entry(X.astype(object), (3, 1), "red")
FITTED: dict[str, Any] = {}


def fitted(kind: str) -> Any:
    """Fitted once, when it is first asked for."""
    if not FITTED:
        FITTED["regressor"] = regressor().fit(X, SCORE)
        FITTED["table"] = classifier(TABLE).fit(NAMED, Y)
        FITTED["ids"] = classifier().fit(NAMED, Y)
    return FITTED[kind]


def frame(columns: str, values: Any = X) -> Any:
    return pytest.importorskip("pandas").DataFrame(values, columns=list(columns))


def both(row: int, text: str, features: Any) -> list[Bad]:
    """The same bad features for every place that takes features."""
    return [
        Bad(row, "fit", V, text, lambda: regressor().fit(features, SCORE[: np.shape(features)[0]])),
        Bad(row, "fit comparisons", V, text, lambda: regressor().fit(features, comparisons=[[0, 1]])),
        Bad(row, "predict", V, text, lambda: fitted("regressor").predict(features)),
        Bad(row, "predict_preference", V, text, lambda: fitted("regressor").predict_preference(features, features)),
        Bad(row, "Table", V, text, lambda: Table(features)),
        Bad(row, "items", V, text, lambda: classifier(features).fit(PAIRS, Y)),
        Bad(row, "utility", V, text, lambda: fitted("table").utility(np.asarray(features))),
    ]


def one_d() -> list[Bad]:
    text = "Expected 2D array, got 1D array"
    return [bad for bad in both(5, text, X[:, 0]) if bad.name != "utility"]  # a list of one dimension holds ids there


FITS: dict[str, Callable[..., Any]] = {
    "ids": lambda pairs=NAMED, y=Y, **options: classifier().fit(pairs, y, **options),
    "table": lambda pairs=NAMED, y=Y, **options: classifier(TABLE).fit(pairs, y, **options),
}


def pairs(row: int, error: type[Exception], text: str, *, kinds: str = "ids table", **given_: Any) -> list[Bad]:
    """The same bad comparisons for the classifier with and without a table."""
    return [Bad(row, kind, error, text, lambda kind=kind: FITS[kind](**given_)) for kind in kinds.split()]


def compared(comparisons: Any, **options: Any) -> Callable[[], Any]:
    return lambda: regressor().fit(X, comparisons=comparisons, **options)


FAR = PAIRS.copy()
FAR[17, 1] = 42
BEHIND = PAIRS.copy()
BEHIND[3, 0] = -1
ITSELF = [list(pair) for pair in NAMED]
ITSELF[9] = ["x5", "x5"]
UNKNOWN = [list(pair) for pair in NAMED]
UNKNOWN[3] = ["x9", "who?"]
LONG = [list(pair) for pair in NAMED]
LONG[3] = ["x9", "z" * 10_000_000]
NOTHING = [list(pair) for pair in NAMED]
NOTHING[2] = ["x1", None]  # type: ignore[list-item]
HALF = PAIRS.astype(float)
HALF[4, 0] = 1.5
SELF_ROWS = np.vstack([PAIRS, [5, 5]])
FIT_OPTIONS = {
    "kernel": "matern",
    "likelihood": "cauchit",
    "inference": "mcmc",
    "n_inducing": 0,
    "batch_size": 0,
    "max_iter": 0,
    "tol": -1.0,
    "delay": -1.0,
    "forgetting_rate": 0.5,
    "shape_s0": 0.0,
    "rate_s0": -2.0,
    "length_scale_factor": 0.0,
    "optimizer": "adam",
    "n_restarts_optimizer": -1,
    "warm_start": 3,
    "verbose": "loud",
}
ERRORS = [
    *both(1, "Input X contains NaN", NAN),
    *both(2, "Input X contains infinity or a value too large", INF),
    *both(2, "Input X contains infinity or a value too large", [*X.tolist()[:-1], [1.0, 2.0, float("1e309")]]),
    *both(3, r"Found array with 0 sample\(s\)", X[:0]),
    *pairs(3, V, r"Found array with 0 sample\(s\)", pairs=np.empty((0, 2)), y=[]),
    *both(4, r"Found array with 0 feature\(s\)", X[:, :0]),
    *pairs(4, V, r"expected shape \(n_pairs, 2\)", pairs=np.empty((P, 0))),
    *one_d(),
    *pairs(5, V, "Expected 2D array, got 1D array", pairs=LEFT),
    *both(6, "could not convert string to float", STRINGS),
    *both(8, "Complex data not supported", COMPLEX),
    *pairs(8, V, "Complex data not supported", pairs=PAIRS.astype(complex)),
    *pairs(9, T, "Sparse data was passed for X, but dense data is required", pairs=sparse.csr_array(PAIRS)),
    Bad(
        10,
        "predict",
        V,
        "X has 2 features, but .* is expecting 3 features",
        lambda: fitted("regressor").predict(X[:, :2]),
    ),
    Bad(10, "pairs", V, r"expected shape \(n_pairs, 2\)", lambda: fitted("ids").predict([["x1", "x2", "x3"]])),
    Bad(10, "utility", V, "has 2 features, but .* is expecting 3 features", lambda: fitted("table").utility(X[:, :2])),
    Bad(10, "no features", V, "has 2 features, but .* is expecting 0", lambda: fitted("ids").utility(X[:, :2])),
    *(
        Bad(11, f"regressor.{name}", NotFittedError, "is not fitted yet", lambda call=call: call(regressor()))
        for name, call in {
            "predict": lambda m: m.predict(X),
            "score": lambda m: m.score(X, SCORE),
            "sample_y": lambda m: m.sample_y(X),
            "predict_preference": lambda m: m.predict_preference(X, X),
        }.items()
    ),
    *(
        Bad(11, f"classifier.{name}", NotFittedError, "is not fitted yet", lambda call=call: call(classifier()))
        for name, call in {
            "predict": lambda m: m.predict(NAMED),
            "predict_proba": lambda m: m.predict_proba(NAMED),
            "decision_function": lambda m: m.decision_function(NAMED),
            "score": lambda m: m.score(NAMED, Y),
            "utility": lambda m: m.utility(),
            "rank": lambda m: m.rank(),
            "sample_utility": lambda m: m.sample_utility(),
        }.items()
    ),
    Bad(
        12,
        "predict",
        V,
        "feature names should match",
        lambda: regressor().fit(frame("abc"), SCORE).predict(frame("acb")),
    ),
    Bad(
        12,
        "pairs",
        V,
        "feature names should match",
        lambda: classifier().fit(frame("lr", NAMED), Y).predict(frame("rl", NAMED)),
    ),
    Bad(
        12,
        "utility",
        V,
        "feature names should match",
        lambda: classifier(frame("abc")).fit(PAIRS, Y).utility(frame("acb")),
    ),
    *(
        Bad(15, f"{make.__name__} {name}", InvalidParameterError, name, partial(fit_with, make, name, value))
        for make in (regressor, classifier)
        for name, value in FIT_OPTIONS.items()
    ),
    Bad(
        15, "pairs_per_item", InvalidParameterError, "pairs_per_item", lambda: regressor(pairs_per_item=0).fit(X, SCORE)
    ),
    Bad(15, "item_effects", InvalidParameterError, "item_effects", lambda: classifier(item_effects="no").fit(NAMED, Y)),
    Bad(15, "order_effect", InvalidParameterError, "order_effect", lambda: classifier(order_effect=2).fit(NAMED, Y)),
    Bad(15, "on_self", InvalidParameterError, "on_self", lambda: classifier(on_self="keep").fit(NAMED, Y)),
    Bad(15, "items", InvalidParameterError, "items", lambda: classifier(7).fit(NAMED, Y)),
    Bad(16, "regressor", InvalidParameterError, "random_state", lambda: regressor(random_state="a").fit(X, SCORE)),
    Bad(16, "classifier", InvalidParameterError, "random_state", lambda: classifier(random_state="a").fit(NAMED, Y)),
    Bad(19, "regressor", V, r"needs 80\.0 GB.* set n_inducing", lambda: many_items(100_000)),
    Bad(19, "classifier", V, r"needs 7\.2 GB.* set n_inducing", lambda: many_ids(30_000)),
    Bad(
        19,
        "return_cov",
        V,
        r"needs 3\.2 GB",
        lambda: fitted("regressor").predict(np.zeros((20_000, 3)), return_cov=True),
    ),
    Bad(21, "regressor", V, "comparison 17 refers to item 42, but there are 30 items", compared(FAR)),
    Bad(21, "table", V, "comparison 17 refers to item 42, but there are 30 items", lambda: classifier(X).fit(FAR, Y)),
    Bad(22, "regressor", V, "negative item index -1 in comparison 3", compared(BEHIND)),
    Bad(22, "table", V, "negative item index -1 in comparison 3", lambda: classifier(X).fit(BEHIND, Y)),
    *pairs(23, UnknownIdError, r"unknown item 'who\?' in comparison 3", kinds="table", pairs=UNKNOWN),
    *pairs(23, UnknownIdError, r"unknown item 'z{80}'\.\.\. in comparison 3", kinds="table", pairs=LONG),
    Bad(
        23, "predict", UnknownIdError, r"unknown item 'who\?' in comparison 3", lambda: fitted("table").predict(UNKNOWN)
    ),
    Bad(23, "utility", UnknownIdError, "unknown item 'who'", lambda: fitted("table").utility(["who"])),
    *pairs(24, V, "comparison 9 compares item 'x5' with itself", pairs=ITSELF),
    Bad(24, "regressor", V, "comparison 40 compares item 5 with itself", compared(SELF_ROWS)),
    *pairs(
        25,
        V,
        r"labels must be 0 or 1 \(or 0.5 for a tie\); got 2 in comparison 1, and 2 of",
        y=with_entry(Y, [1, 5], 2),
    ),
    *pairs(25, V, r"labels must be 0 or 1 \(or 0.5 for a tie\); got -1", y=with_entry(Y, 1, -1)),
    *pairs(26, V, "Input y contains NaN", y=with_entry(Y.astype(float), 1, np.nan)),
    Bad(26, "regressor", V, "Input y contains NaN", lambda: regressor().fit(X, with_entry(SCORE, 1, np.nan))),
    Bad(26, "regressor inf", V, "Input y contains infinity", lambda: regressor().fit(X, with_entry(SCORE, 1, np.inf))),
    *pairs(27, V, "Unknown label", y=np.where(Y == 1, "left", "right")),
    *pairs(27, V, "Unknown label", y=Y.astype(str).tolist()),
    *pairs(28, V, r"expected shape \(n_pairs, 2\)", pairs=np.zeros((P, 3), dtype=int)),
    Bad(28, "regressor", V, r"expected shape \(n_pairs, 2\)", compared(np.zeros((P, 3), dtype=int))),
    *pairs(29, V, "inconsistent numbers of samples", y=Y[:-1]),
    Bad(29, "regressor", V, "inconsistent numbers of samples", lambda: regressor().fit(X, SCORE[:-1])),
    Bad(29, "qid", V, "inconsistent numbers of samples", lambda: regressor().fit(X, SCORE, qid=np.zeros(7))),
    *pairs(30, V, "at least 1 comparison is required", pairs=np.empty((0, 2)), y=[]),
    Bad(30, "regressor", V, "at least 1 comparison is required", compared(np.empty((0, 2)))),
    Bad(30, "equal scores", V, "at least 1 comparison is required", lambda: regressor().fit(X, np.ones(N))),
    Bad(
        30, "groups of one", V, "at least 1 comparison is required", lambda: regressor().fit(X, SCORE, qid=np.arange(N))
    ),
    Bad(31, "regressor", V, "at least 2 items", lambda: regressor().fit(X[:1], [1.0])),
    Bad(31, "comparisons", V, "at least 2 items", lambda: regressor().fit(X[:1], comparisons=[[0, 0]])),
    Bad(31, "classifier", V, "at least 2 items", lambda: classifier(on_self="drop").fit([["a", "a"]], [1])),
    Bad(31, "no weight", V, "at least 2 items.*zero", lambda: classifier().fit(NAMED, Y, sample_weight=np.zeros(P))),
    Bad(35, "regressor", V, "must be integers", compared(HALF)),
    Bad(35, "classifier", V, "must be integers", lambda: classifier(X).fit(HALF, Y)),
    Bad(
        36,
        "regressor",
        V,
        f"refers to item {2**63 - 1}, but there are 30",
        compared(with_entry(PAIRS, (2, 0), 2**63 - 1)),
    ),
    Bad(36, "uint64", V, f"refers to item {2**64 - 1}, but", compared(np.array([[0, 2**64 - 1]], dtype=np.uint64))),
    Bad(36, "table", V, f"item {2**63 - 1}", lambda: classifier(X).fit(with_entry(PAIRS, (2, 0), 2**63 - 1), Y)),
    *pairs(37, V, "missing item id in comparison 2", pairs=NOTHING),
    *pairs(37, V, "missing item id in comparison 2", pairs=with_entry(PAIRS.astype(float), (2, 1), np.nan)),
    Bad(
        37,
        "duplicate ids",
        V,
        "duplicate item id 'x0' in ids: rows 0 and 30",
        lambda: Table(X[[*range(30), 0]], ids=[*NAMES, "x0"]),
    ),
    Bad(37, "too few ids", V, "29 ids for 30 rows", lambda: Table(X, ids=NAMES[:-1])),
    Bad(37, "unhashable", V, "hashable", lambda: Table(X, ids=[[1]] * 30)),
    *(
        bad
        for text, weight in {
            "Negative values in data passed to `sample_weight`": -np.ones(P),
            "sample_weight contains NaN": np.full(P, np.nan),
            "sample_weight contains infinity": np.full(P, np.inf),
            r"sample_weight.shape == \(7,\), expected \(40,\)": np.ones(7),
            "sample_weight must be numbers": ["heavy"] * P,
        }.items()
        for bad in (
            *pairs(38, V, text, sample_weight=weight),
            Bad(38, "regressor", V, text, compared(PAIRS, sample_weight=weight)),
        )
    ),
    Bad(38, "regressor y", V, "Negative values", lambda: regressor().fit(X, SCORE, sample_weight=-np.ones(N))),
    Bad(0, "neither", V, "requires y to be passed, but the target y is None", lambda: regressor().fit(X)),
    Bad(0, "both", V, "either y or comparisons", lambda: regressor().fit(X, SCORE, comparisons=PAIRS)),
    Bad(0, "no y", V, "requires y to be passed, but the target y is None", lambda: classifier().fit(NAMED, None)),
    Bad(0, "rows differ", V, "same number of rows", lambda: fitted("regressor").predict_preference(X, X[:2])),
    Bad(0, "std and cov", V, "return_cov", lambda: fitted("regressor").predict(X, return_std=True, return_cov=True)),
]


def many_items(n: int) -> Any:
    comparisons = np.arange(n).reshape(-1, 2)
    return regressor(n_inducing=n).fit(np.arange(n, dtype=float)[:, None], comparisons=comparisons)


def many_ids(n: int) -> Any:
    around = np.column_stack([np.arange(n), np.roll(np.arange(n), 1)])
    return classifier(np.arange(n, dtype=float)[:, None], n_inducing=n).fit(around, np.ones(n))


@pytest.mark.parametrize("bad", ERRORS, ids=lambda bad: f"row{bad.row}-{bad.name}")
def test_a_clear_error(bad: Bad) -> None:
    with pytest.raises(bad.error) as caught:
        bad.call()
    message = str(caught.value)
    assert re.search(bad.text, message, re.DOTALL), message
    assert len(message) < 2500


def test_every_row_is_here() -> None:
    accepted = {7, 13, 14, 17, 18, 20, 32, 33, 34}
    assert {bad.row for bad in ERRORS} | accepted == set(range(39))


# ------------------------------------------------------------------------------------------------------------- accepted
def memmap(path: Path) -> np.ndarray:
    np.save(path / "X.npy", X)
    return np.load(path / "X.npy", mmap_mode="r")


@pytest.mark.parametrize(
    "kind", ["row7-object", "row13-memmap", "row13-fortran", "row13-strided", "row13-list", "row13-frame", "row13-csr"]
)
def test_containers_give_equal_results(kind: str, tmp_path: Path) -> None:
    same: Any = {
        "row7-object": lambda: X.astype(object),
        "row13-memmap": lambda: memmap(tmp_path),
        "row13-fortran": lambda: np.asfortranarray(X),
        "row13-strided": lambda: np.repeat(X, 2, axis=0)[::2],
        "row13-list": X.tolist,
        "row13-frame": lambda: frame("abc"),
        "row13-csr": lambda: sparse.csr_array(X),
    }[kind]()
    atol = 1e-5 if kind == "row13-csr" else 1e-12  # another order of sums
    wanted = fitted("regressor").predict(X)
    model = regressor().fit(same, SCORE)
    np.testing.assert_allclose(model.predict(same), wanted, atol=atol)
    from_table = classifier(Table(same, ids=NAMES)).fit(NAMED, Y).predict_proba(NAMED)
    np.testing.assert_allclose(from_table, fitted("table").predict_proba(NAMED), atol=atol)


def test_row14_input_is_left_as_it_was() -> None:
    features, scores, weight = X.copy(), SCORE.copy(), np.ones(N)
    csr = sparse.csr_array(np.where(X > 0, X, 0.0))
    csr.data[::7] = 0.0
    data, comparisons = csr.data.copy(), PAIRS.copy()
    regressor().fit(features, scores, sample_weight=weight).predict(features)
    regressor().fit(csr, comparisons=comparisons).predict(csr)
    np.testing.assert_array_equal(features, X)
    np.testing.assert_array_equal(scores, SCORE)
    np.testing.assert_array_equal(csr.data, data)
    np.testing.assert_array_equal(comparisons, PAIRS)


def test_row17_constant_features() -> None:
    wide = np.column_stack([X, np.full(N, 7.0)])
    with pytest.warns(DataWarning, match=r"1 of 4 features are constant .*columns 3"):
        model = regressor().fit(wide, SCORE)
    np.testing.assert_allclose(model.predict(wide), fitted("regressor").predict(X), atol=1e-8)
    around = [[0, 1], [1, 2], [2, 3]]
    with pytest.warns(DataWarning, match="constant"):
        flat = classifier(np.ones((4, 2))).fit(around, [1, 1, 1])
    assert np.all(np.isfinite(flat.predict_proba([[0, 3]])))
    assert np.all(np.isfinite(flat.kernel_.theta))


def test_row18_duplicate_items() -> None:
    twice = np.vstack([X, X])
    model = regressor().fit(twice, np.concatenate([SCORE, SCORE]))
    utility = model.predict(twice)
    np.testing.assert_array_equal(utility[:N], utility[N:])
    table = Table(np.vstack([X[:2], X[:2]]), ids=list("abcd"))
    model = classifier(table, item_effects=False).fit([["a", "b"], ["c", "d"], ["a", "d"]], [1, 1, 0])
    assert model.predict_proba([["a", "c"]])[0, 1] == pytest.approx(0.5, abs=1e-9)


@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "uint8", "float16"])
def test_row20_small_types_are_computed_in_double(dtype: str) -> None:
    small = (X > 0 if dtype == "bool" else (X * 40).clip(0 if dtype == "uint8" else -127, 127)).astype(dtype)
    with np.errstate(all="raise"):
        wanted = regressor().fit(small.astype(np.float64), SCORE).predict(small.astype(np.float64))
    np.testing.assert_allclose(regressor().fit(small, SCORE).predict(small), wanted, atol=1e-12)


def test_row24_comparisons_with_itself_can_be_dropped() -> None:
    left_out = [pair for pair in ITSELF if pair[0] != pair[1]]
    keep = [i for i, pair in enumerate(ITSELF) if pair[0] != pair[1]]
    wanted = classifier().fit(left_out, Y[keep]).predict_proba(NAMED)
    got = classifier(on_self="drop").fit(ITSELF, Y).predict_proba(NAMED)
    np.testing.assert_array_equal(got, wanted)


def test_rows25_27_soft_labels_and_booleans() -> None:
    assert np.all(np.isfinite(classifier().fit(NAMED, np.full(P, 0.3)).predict_proba(NAMED)))
    wanted = fitted("ids").predict_proba(NAMED)
    np.testing.assert_array_equal(classifier().fit(NAMED, Y.astype(bool)).predict_proba(NAMED), wanted)


@pytest.mark.parametrize("likelihood", ["probit", "logit"])
def test_row32_all_ties(likelihood: str) -> None:
    for items in (None, TABLE):
        model = classifier(items, likelihood=likelihood).fit(NAMED, np.full(P, 0.5))
        np.testing.assert_allclose(model.predict_proba(NAMED), 0.5, atol=1e-3)
        np.testing.assert_allclose(model.utility(), 0.0, atol=1e-3)


@pytest.mark.filterwarnings("ignore:.*did not converge")  # "linearised" need not
@pytest.mark.parametrize("inference", ["vb", "svi", "laplace", "linearised"])
def test_row33_one_item_always_wins(inference: str) -> None:
    won = [["best", f"other {i}"] for i in range(5)] * 40
    model = classifier(inference=inference, max_iter=2000).fit(won, np.ones(200))
    mean, std = model.utility(return_std=True)
    assert np.all(np.isfinite(mean))
    assert np.all(std > 0.0)
    assert model.rank().id[0] == "best"


def test_row34_pieces() -> None:
    with pytest.warns(DataWarning, match="2 connected components"):
        model = classifier().fit([["a", "b"], ["c", "d"], ["b", "a"]], [1, 0, 1])
    assert model.components_.tolist() == [0, 0, 1, 1]
    assert np.all(np.isfinite(model.predict_proba([["a", "c"]])))


def test_row35_integral_floats() -> None:
    wanted = regressor().fit(X, comparisons=PAIRS).predict(X)
    np.testing.assert_array_equal(regressor().fit(X, comparisons=PAIRS.astype(float)).predict(X), wanted)


@pytest.mark.parametrize("base", [2**63 - 20, 2**63 + 5, 2**64 - 31])
def test_row36_huge_ids(base: int) -> None:
    huge = np.array([[base + int(a), base + int(b)] for a, b in PAIRS % 20], dtype=np.uint64)
    small = classifier().fit(PAIRS % 20, Y).predict_proba(PAIRS % 20)
    np.testing.assert_allclose(classifier().fit(huge, Y).predict_proba(huge), small, atol=1e-9)


def test_row37_ids_of_any_kind() -> None:
    ids = ["x" * 10_000_000, b"bytes", 3, ("a", 1), "3", frozenset({1})]
    around = [[ids[i], ids[(i + 1) % 6]] for i in range(6)]
    model = classifier().fit(around, [1, 1, 1, 1, 1, 0])
    assert model.item_ids_.size == 6
    assert model.predict_proba([[ids[0], ids[5]]])[0, 1] > 0.5
    assert model.predict_proba([[3, "3"]])[0, 1] != 0.5


def test_more_inducing_points_than_items_are_clipped() -> None:
    model = regressor(n_inducing=5000).fit(X, SCORE)
    assert model.inducing_points_.shape == (N, 3)


def test_items_that_are_all_the_same_have_the_same_utility() -> None:
    with pytest.warns(DataWarning, match="constant"):
        model = regressor().fit(np.ones((4, 2)), comparisons=[[0, 1], [2, 3]])
    np.testing.assert_array_equal(model.predict([[1.0, 1.0], [1.0, 1.0]]), 0.0)


# ----------------------------------------------------------------------------------------------------------- any input
DTYPES = ["float64", "float32", "int64", "int32", "int8", "uint64", "bool", "object", "complex128", "U8"]
CELLS = st.one_of(st.integers(-3, 6), st.sampled_from([0.5, np.nan, np.inf, -np.inf, 1e308, 1e-320, 2.0**63, -0.0]))
IDS = st.one_of(
    st.integers(0, 5), st.sampled_from(["a", "b", "", "x" * 200, b"a", None, np.nan, 1.5, 2.0, 2**70, (1,)])
)
LABELS = st.one_of(st.sampled_from([0, 1, 0.5, 0.25]), st.sampled_from([2, -1, np.nan, "1", True, None]))


def laid_out(values: Any, dtype: str, order: str, *, writeable: bool) -> np.ndarray:
    with np.errstate(all="ignore"):
        array = np.asarray(values, dtype=object).astype(dtype)
    array = (
        np.asfortranarray(array) if order == "F" else np.repeat(array, 2, axis=0)[::2] if order == "strided" else array
    )
    array.flags.writeable = writeable
    return array


def refused_or(call: Callable[[], np.ndarray]) -> None:
    message = None
    try:
        result = call()
    except (ValueError, TypeError) as error:
        message = str(error)
    assert np.all(np.isfinite(result)) if message is None else 10 < len(message) < 2500


@pytest.mark.filterwarnings("ignore")  # overflow of the drawn values in numpy's own conversions
@settings(max_examples=40)
@given(
    data=st.data(), dtype=st.sampled_from(DTYPES), order=st.sampled_from(["C", "F", "strided"]), writeable=st.booleans()
)
def test_any_features_are_refused_or_give_finite_utilities(data: Any, dtype: str, order: str, writeable: bool) -> None:
    n, d = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 3))
    cells = data.draw(st.lists(st.lists(CELLS, min_size=d, max_size=d), min_size=n, max_size=n))
    scores = data.draw(st.lists(CELLS, min_size=n, max_size=n))
    try:
        features = laid_out(cells, dtype, order, writeable=writeable)
    except (OverflowError, ValueError):
        return  # numpy itself cannot make such an array
    refused_or(lambda: regressor(max_iter=20).fit(features, scores).predict(features))


@pytest.mark.filterwarnings("ignore::skpref.exceptions.DataWarning", "ignore::sklearn.exceptions.ConvergenceWarning")
@settings(max_examples=60)
@given(
    rows=st.lists(st.tuples(IDS, IDS, LABELS), min_size=1, max_size=8),
    container=st.sampled_from(["list", "C", "F", "strided"]),
    writeable=st.booleans(),
)
def test_any_comparisons_are_refused_or_give_probabilities(rows: Any, container: str, writeable: bool) -> None:
    pairs_ = np.empty((len(rows), 2), dtype=object)
    for i, (a, b, _) in enumerate(rows):
        pairs_[i, 0], pairs_[i, 1] = a, b
    given_: Any = [row[:2] for row in rows]
    if container != "list":
        given_ = laid_out(pairs_, "object", container, writeable=writeable)
    labels = [row[2] for row in rows]
    refused_or(lambda: classifier(max_iter=20).fit(given_, labels).predict_proba(given_))


def test_not_converged_is_a_warning() -> None:
    with pytest.warns(ConvergenceWarning, match=r"GPPLRegressor did not converge in 1 iterations \(max_iter=1\)"):
        regressor(max_iter=1).fit(X, SCORE)
