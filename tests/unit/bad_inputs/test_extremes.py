"""Extreme but legal input: every estimator gives finite, normalised results, or one error that names the remedy.

Warnings other than our own are errors here, as everywhere: an overflow inside is the package's, not the user's.
"""

import re
from functools import cache, partial
from time import process_time

import numpy as np
import pytest

from skpref import VariationalFM
from skpref.exceptions import DataError
from tests.unit.bad_inputs import places as at
from tests.unit.bad_inputs.places import CLASS, LEVEL, MAKERS, PAIRS, PREFERRED, RATED, RATING, SCORE, N, X

pytestmark = pytest.mark.filterwarnings(
    "ignore::skpref.exceptions.DataWarning", "ignore::sklearn.exceptions.ConvergenceWarning"
)
SECONDS = 10.0
SINGULAR = "a feature's weight and factors have no posterior in float64; scale X or sample_weight"

# What cannot be computed, and the message that says so.
REFUSED = {
    "GPPLRegressor-one row": "at least 2 items are needed",
    "GPOrdinalRegressor-one row": "at least 2 classes",
    "SVGPClassifier-one row": "number of classes has to be greater than one",
    "VariationalFMClassifier-one row": "only one class",
    "VariationalFMOrdinal-one row": "at least 2 classes",
    "BayesianGPLVM-one row": "minimum of 2 is required",
    "BayesianGPLVM-one value": "all rows are the same",
    "BayesianGPLVM-denormal": "their differences are below 1e-300",
    **{f"{name}-units": SINGULAR for name in at.MACHINES},
}
TOO_LARGE = {
    **dict.fromkeys(at.MACHINES, SINGULAR),
    **dict.fromkeys(at.GIBBS, "C, margin, sigma, threshold_scale and sample_weight set the scale"),
}


def results(model, rows):
    """Return all predictions that a model makes of rows."""
    out = [at.output(model, rows)]
    out += [model.predict(rows)] if hasattr(model, "predict") else [model.reconstruct(rows), model.score_samples(rows)]
    with_std = {"GPPLRegressor": "predict", "SVGPRegressor": "predict", "VariationalFM": "predict"}
    latent = with_std.get(type(model).__name__, "predict_latent")
    return [*out, *(getattr(model, latent)(rows, return_std=True) if hasattr(model, latent) else ())]


def finite_or_refused(message, name, model, *data, **more):
    """Fit and predict; a message says that the fit must be refused with it."""
    at.fitted(name)  # compiled code is compiled
    start = process_time()
    if message is not None:
        with pytest.raises(ValueError, match=re.escape(message)):
            model.fit(*data, **more)
        return
    model.fit(*data, **more)
    for values in map(np.asarray, results(model, data[0])):
        assert values.dtype.kind not in "fc" or np.isfinite(values).all()
    if hasattr(model, "predict_proba"):
        p = model.predict_proba(data[0])
        assert p.min() >= 0.0
        np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-9)
    assert process_time() - start < SECONDS


# ---------------------------------------------------------------------------------------------------------------- rows
EXTREME_ROWS = {
    "one row": lambda X: X[:1],
    "constant columns": lambda X: np.column_stack([X, np.full(N, 7.0), np.zeros(N)]),
    "one value": np.ones_like,
    "1e12": lambda X: 1e12 * X,
    "1e-12": lambda X: 1e-12 * X,
    "denormal": lambda X: X * 5e-324,
    "denormal column": lambda X: np.column_stack([X, np.full(N, 5e-324) * (np.arange(N) % 2)]),
    "units": lambda X: X * [1e12, 1.0, 1e-12],
    "equal rows": lambda X: np.repeat(X[:3], N // 3, axis=0),
    "one row differs": lambda X: np.where(np.arange(N)[:, None] == 3, 2.0, np.ones_like(X)),
    "separated": lambda X: np.sort(X, axis=0),
}
FEATURES = [name for name, data in at.TRAINING.items() if data[0] is X]
VARIANTS = {
    **{name: partial(MAKERS[name]) for name in FEATURES},
    **{f"{name}, factorised": partial(MAKERS[name], posterior="factorised") for name in at.MACHINES},
    "GPOrdinalRegressor, auto": partial(at.ordinal, kernel="auto"),
    "GPOrdinalRegressor, laplace": partial(at.ordinal, inference="laplace"),
    "GPOrdinalRegressor, vb": partial(at.ordinal, inference="vb"),
}


@cache
def compile_variant(name):
    """Fit a variant to ordinary data: compilation does not count as its time."""
    VARIANTS[name]().fit(*at.TRAINING[name.split(",", maxsplit=1)[0]])


@pytest.mark.parametrize("case", EXTREME_ROWS)
@pytest.mark.parametrize("name", VARIANTS)
def test_rows(name, case):
    estimator = name.split(",", maxsplit=1)[0]
    rows = EXTREME_ROWS[case](X)
    targets = at.TRAINING[estimator][1:]
    targets = tuple(np.sort(y) if case == "separated" else y[: len(rows)] for y in targets)
    message = REFUSED.get(f"{estimator}-{case}")
    compile_variant(name)
    finite_or_refused(message, estimator, VARIANTS[name](), rows, *targets)


@pytest.mark.parametrize("size", [1e160, 1e300])
@pytest.mark.parametrize("name", FEATURES)
def test_squares_of_rows_that_overflow(name, size):
    """Refused in words, or finite."""
    try:
        finite_or_refused(None, name, MAKERS[name](), size * X, *at.TRAINING[name][1:])
    except DataError as error:
        assert re.search(r"overflow.*scale", str(error))  # noqa: PT017


@pytest.mark.parametrize("name", ["GPOrdinalRegressor", "GPOrdinalRegressor, auto", "SVGPRegressor", "SVGPClassifier"])
@pytest.mark.parametrize("size", [1e155, 1e300, 5e-324])
def test_predictions_far_from_the_rows(name, size):
    estimator = name.split(",", maxsplit=1)[0]
    model = VARIANTS[name]().fit(*at.TRAINING[estimator])
    try:
        assert np.isfinite(at.output(model, np.full((2, 3), size))).all()
    except DataError as error:
        assert re.search(r"overflow.*scale", str(error))  # noqa: PT017


def test_rows_too_far_from_those_of_a_latent_variable_model():
    with pytest.raises(DataError, match=r"row 1 of X is more than 1e\+140 standard deviations .* overflow"):
        at.fitted("BayesianGPLVM").transform([X[0], [1e300, 0.0, 0.0]])


@pytest.mark.parametrize("shift", [1e6, 1e8, 1e12])
def test_rows_far_from_zero(shift):
    """All families of "auto" are tried, a linear part among them."""
    finite_or_refused(None, "GPOrdinalRegressor", at.ordinal(kernel="auto", optimizer="l-bfgs-b"), shift + X, LEVEL)


# ------------------------------------------------------------------------------------------------------------- targets
@pytest.mark.parametrize("name", ["GPPLRegressor", "SVGPRegressor", "VariationalFM"])
@pytest.mark.parametrize("size", [1e12, 1e-12, 1e140, 1e-140])
def test_sizes_of_targets(name, size):
    finite_or_refused(None, name, MAKERS[name](), X, size * SCORE)


@pytest.mark.parametrize("size", [1e160, 1e300, 1e-160, 5e-324])
def test_targets_whose_squares_are_no_floats(size):
    with pytest.raises(DataError, match="whose square does not fit into float64; scale y"):
        VariationalFM(random_state=0).fit(X, size * SCORE)


@pytest.mark.parametrize("name", ["SVGPRegressor", "VariationalFM"])
@pytest.mark.parametrize("value", [0.0, 3.0, 1e12, 1e300])
def test_equal_targets(name, value):
    finite_or_refused(None, name, MAKERS[name](), X, np.full(N, value))


# ------------------------------------------------------------------------------------------------------------- weights
WEIGHTS = {
    "1e12": [1e12],
    "1e300": [1e300],
    "1e-300": [1e-300],
    "one counts": [1.0, 1e-12],
    "zero and 1e300": [0.0, 1.0, 1e300],
    "denormal": [1.0, 5e-324],
}
WEIGHED = [name for name in MAKERS if name != "BayesianGPLVM"]


@pytest.mark.parametrize("case", WEIGHTS)
@pytest.mark.parametrize("name", WEIGHED)
def test_weights(name, case):
    rows, y = at.TRAINING[name]
    weight = np.resize(WEIGHTS[case], len(y))
    try:
        finite_or_refused(None, name, MAKERS[name](), rows, y, sample_weight=weight)
    except DataError as error:
        wanted = TOO_LARGE.get(name) if weight.max() > 1.0 else "all comparisons have weight zero"
        assert wanted is not None and wanted in str(error)  # noqa: PT017, PT018


@pytest.mark.parametrize("weight", [1e60, 1e300])
def test_one_answer_of_each_user_with_a_huge_weight(weight):
    """Factors of users are pulled along by answers whose curvature is lost in rounding error."""
    rows = [["u3", "x0", "x4"], ["u2", "x1", "x2"], ["u1", "x2", "x3"]]
    model = MAKERS["CrowdGPPL"]().fit(rows, [0, 0, 0], sample_weight=weight)
    assert (model.predict_proba(rows)[:, 1] < 1e-50).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "weight"),
    [
        *(("GPPLRegressor", weight) for weight in ([1e12], [1.0, 1e300])),
        *(("GPOrdinalRegressor", weight) for weight in ([1e3], [1.0, 1e300])),
    ],
    ids=str,
)
def test_weights_with_a_search(name, weight):
    settings = {"kernel": "auto", "optimizer": "l-bfgs-b"} if name[2] == "O" else {"optimizer": "auto"}
    rows, y = at.TRAINING[name]
    finite_or_refused(None, name, MAKERS[name](**settings), rows, y, sample_weight=np.resize(weight, len(y)))


# --------------------------------------------------------------------------------------------------------- comparisons
CHAIN = [[i, j] for i in range(8) for j in range(i + 1, 8)]
EXTREME_PAIRS = {
    "one comparison": ([[0, 1]], [1], None),
    "all ties": (PAIRS, np.full(len(PAIRS), 0.5), None),
    "separated": (CHAIN, np.ones(len(CHAIN)), None),
    "disconnected": ([[0, 1], [2, 3], [4, 5]], [1, 0, 1], None),
    **{
        f"items, {name}": (PAIRS, PREFERRED, EXTREME_ROWS[name](X))
        for name in ("constant columns", "one value", "1e12", "1e-12", "denormal", "denormal column", "equal rows")
    },
}


def with_judges(pairs):
    """Put three users before the pairs, by turns."""
    return np.column_stack([np.arange(len(pairs)) % 3, pairs])


@pytest.mark.parametrize("case", EXTREME_PAIRS)
@pytest.mark.parametrize("name", ["GPPLClassifier", "CrowdGPPL"])
def test_comparisons(name, case):
    pairs, y, items = EXTREME_PAIRS[case]
    rows = with_judges(pairs) if name == "CrowdGPPL" else np.asarray(pairs)
    finite_or_refused(None, name, MAKERS[name](items), rows, y)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["GPPLClassifier", "CrowdGPPL", *FEATURES, *at.GIBBS])
def test_many_equal_rows(name):
    n = 1000 if name == "BayesianGPLVM" else 100_000
    if name in FEATURES:
        rows, targets = np.repeat(X[:2], n // 2, axis=0), (np.repeat([0, 1], n // 2),)
        targets = targets if len(at.TRAINING[name]) > 1 else ()
    elif name in at.GIBBS:
        rows, targets = np.tile(RATED[:1], (n, 1)), (np.full(n, 4.0),)
    else:
        rows, targets = np.tile([[0, 1]], (n, 1)), (np.ones(n),)
        rows = with_judges(rows) if name == "CrowdGPPL" else rows
    model = MAKERS[name](**({"duplicates": "last"} if name in at.GIBBS else {}))
    finite_or_refused(None, name, model, rows, *targets)


# ------------------------------------------------------------------------------------------------------------- ratings
@pytest.mark.parametrize("name", at.GIBBS)
@pytest.mark.parametrize(
    ("rows", "ratings"),
    [
        (RATED[:1], RATING[:1]),
        (RATED, np.full(len(RATED), 3.0)),
        ([[0, 0], [1, 1], [2, 2]], [1.0, 5.0, 3.0]),
        (np.column_stack([np.zeros(500, int), np.arange(500)]), np.arange(500) % 5 + 1.0),
    ],
    ids=["one rating", "one level", "disconnected", "one user"],
)
def test_ratings(name, rows, ratings):
    finite_or_refused(None, name, MAKERS[name](), np.asarray(rows), ratings)


def test_levels_and_classes_of_one_row_each():
    finite_or_refused(None, "GPOrdinalRegressor", at.ordinal(), X[:3], [0, 1, 2])
    finite_or_refused(None, "SVGPClassifier", MAKERS["SVGPClassifier"](), X[:2], CLASS[np.argsort(CLASS)][[0, -1]])
    finite_or_refused(None, "GPOrdinalRegressor", at.ordinal(), X, (LEVEL[0] == LEVEL).astype(int))
