"""Rows 1 to 20 and 42 to 45 of the table of bad inputs (shared/bad-inputs.md), for `GPOrdinalRegressor`.

A clear error, of the type and with the words given there; or accepted, with finite and equal results.
"""

from __future__ import annotations

import re
import warnings
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import RBF
from sklearn.utils._param_validation import InvalidParameterError

from skpref import GPOrdinalRegressor
from skpref.exceptions import DataWarning

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_rng = np.random.default_rng(11)
N = 30
X = _rng.standard_normal((N, 3))
Y = np.digitize(X[:, 0] + 0.3 * _rng.standard_normal(N), [-0.5, 0.5])
NAMES = np.array(["poor", "fair", "good"])
K = RBF(1.5)(X)
V, T = ValueError, TypeError


def ordinal(**options: Any) -> GPOrdinalRegressor:
    return GPOrdinalRegressor(**{"optimizer": None, "random_state": 0, **options})


def given_(**options: Any) -> GPOrdinalRegressor:
    return ordinal(kernel="precomputed", **options)


class Bad(NamedTuple):
    row: int
    name: str
    error: type[Exception]
    text: str
    call: Callable[[], Any]


FITTED: dict[str, Any] = {}


def fitted(kind: str = "rows") -> GPOrdinalRegressor:
    """Fitted once, when it is first asked for."""
    if not FITTED:
        FITTED["rows"] = ordinal().fit(X, Y)
        FITTED["given"] = given_().fit(K, Y)
    return FITTED[kind]


def with_entry(array: Any, where: Any, value: Any) -> np.ndarray:
    array = np.array(array, dtype=object if isinstance(value, str) or value is None else None)
    array[where] = value
    return array


def frame(columns: str, values: Any = X) -> Any:
    return pytest.importorskip("pandas").DataFrame(values, columns=list(columns))


def everywhere(row: int, text: str, features: Any, error: type[Exception] = V) -> list[Bad]:
    """The same bad features for every method that takes features."""
    n = np.shape(features)[0]
    calls = {
        "fit": lambda: ordinal().fit(features, Y[:n]),
        "fit vb": lambda: ordinal(inference="vb").fit(features, Y[:n]),
        "fit auto": lambda: ordinal(kernel="auto").fit(features, Y[:n]),
        "partial_fit": lambda: ordinal().partial_fit(X, Y).partial_fit(features, Y[:n]),
        "predict": lambda: fitted().predict(features),
        "predict_proba": lambda: fitted().predict_proba(features),
        "predict_latent": lambda: fitted().predict_latent(features),
        "score": lambda: fitted().score(features, Y[:n]),
    }
    return [Bad(row, name, error, text, call) for name, call in calls.items()]


def labels(row: int, text: str, y: Any, error: type[Exception] = V, **options: Any) -> list[Bad]:
    calls = {
        "fit": lambda: ordinal(**options).fit(X, y),
        "fit vb": lambda: ordinal(inference="vb", **options).fit(X, y),
        "fit precomputed": lambda: given_(**options).fit(K, y),
        "partial_fit": lambda: ordinal(**options).partial_fit(X, y),
    }
    return [Bad(row, name, error, text, call) for name, call in calls.items()]


PARAMETERS = {
    "kernel": "rbf",
    "inference": "mcmc",
    "optimizer": "adam",
    "n_restarts_optimizer": -1,
    "evidence": "laplace",
    "n_inducing": 0,
    "inducing": "grid",
    "batch_size": 0,
    "max_iter": 0,
    "tol": -1.0,
    "delay": -1.0,
    "forgetting_rate": 0.5,
    "n_max_exact": 0,
    "class_order": 5,
    "warm_start": 3,
    "verbose": "loud",
}
METHODS = {
    "predict": lambda m: m.predict(X),
    "predict_proba": lambda m: m.predict_proba(X),
    "predict_latent": lambda m: m.predict_latent(X),
    "score": lambda m: m.score(X, Y),
    "log_marginal_likelihood": lambda m: m.log_marginal_likelihood(),
    "relevance_": lambda m: m.relevance_,
}


def fit_with(name: str, value: Any, method: str) -> Any:
    return getattr(ordinal(**{name: value}), method)(X, Y)


def weighted(weight: Any, inference: str) -> Any:
    return ordinal(inference=inference).fit(X, Y, sample_weight=weight)


ERRORS = [
    *everywhere(1, "Input X contains NaN", with_entry(X, (3, 1), np.nan)),
    *everywhere(2, "Input X contains infinity or a value too large", with_entry(X, (3, 1), np.inf)),
    *everywhere(2, "Input X contains infinity or a value too large", [*X.tolist()[:-1], [1.0, 2.0, float("1e309")]]),
    *everywhere(3, r"Found array with 0 sample\(s\)", X[:0]),
    *everywhere(4, r"Found array with 0 feature\(s\)|X has 0 features", X[:, :0]),
    *everywhere(5, "Expected 2D array, got 1D array", X[:, 0]),
    *everywhere(6, "could not convert string to float", with_entry(X.astype(object), (3, 1), "red")),
    *everywhere(8, "Complex data not supported", X.astype(complex)),
    Bad(9, "fit", T, "Sparse data was passed for X, but dense data is required", lambda: given_().fit(_csr(K), Y)),
    Bad(9, "predict", T, "Sparse data was passed", lambda: fitted("given").predict(_csr(K))),
    *(
        Bad(10, name, V, "X has 2 features, but .* is expecting 3 features", partial(call, X[:, :2]))
        for name, call in {
            "predict": lambda rows: fitted().predict(rows),
            "predict_latent": lambda rows: fitted().predict_latent(rows),
            "partial_fit": lambda rows: ordinal().partial_fit(X, Y).partial_fit(rows, Y),
        }.items()
    ),
    Bad(10, "precomputed", V, "X has 3 features, but .* is expecting 30", lambda: fitted("given").predict(X)),
    *(
        Bad(11, name, NotFittedError, "is not fitted yet", lambda call=call: call(ordinal()))
        for name, call in METHODS.items()
    ),
    Bad(12, "predict", V, "feature names should match", lambda: ordinal().fit(frame("abc"), Y).predict(frame("acb"))),
    Bad(
        12,
        "partial_fit",
        V,
        "feature names should match",
        lambda: ordinal().partial_fit(frame("abc"), Y).partial_fit(frame("abd"), Y),
    ),
    *(
        Bad(15, f"{method} {name}", InvalidParameterError, name, partial(fit_with, name, value, method))
        for method in ("fit", "partial_fit")
        for name, value in PARAMETERS.items()
    ),
    *(
        Bad(16, method, InvalidParameterError, "random_state", partial(fit_with, "random_state", "a", method))
        for method in ("fit", "partial_fit")
    ),
    Bad(
        19,
        "exact",
        V,
        r"needs 80\.0 GB.*set inference='vb', or n_max_exact",
        lambda: ordinal(n_max_exact=10**6).fit(np.arange(1e5)[:, None], np.arange(100_000) % 3),
    ),
    Bad(
        19,
        "inducing",
        V,
        r"needs 80\.0 GB.*set n_inducing",
        lambda: ordinal(n_inducing=10**6).fit(np.arange(1e5)[:, None], np.arange(100_000) % 3),
    ),
    *(
        bad
        for text, weight in {
            "Negative values in data passed to `sample_weight`": -np.ones(N),
            "sample_weight contains NaN": np.full(N, np.nan),
            "sample_weight contains infinity": np.full(N, np.inf),
            r"sample_weight.shape == \(7,\), expected \(30,\)": np.ones(7),
            "at least one non-zero number|at least 2 classes": np.zeros(N),
            r"at least 2 classes \(levels\) must have rows of positive weight": (Y == 1).astype(float),
            "could not convert string to float": ["heavy"] * N,
        }.items()
        for bad in [Bad(38, i, V, text, partial(weighted, weight, i)) for i in ("auto", "laplace", "vb")]
    ),
    *labels(42, "Unknown label type: continuous", Y + 0.5),
    *labels(42, "Input y contains NaN", np.where(Y == 1, np.nan, Y)),
    *labels(42, "Input y contains infinity", np.where(Y == 1, np.inf, Y)),
    *labels(42, r"Input y contains NaN|Input contains NaN", [None, *NAMES[Y].tolist()[1:]]),
    *labels(42, r"Input y contains NaN|Input contains NaN", [*NAMES[Y].tolist()[:-1], float("nan")]),
    *labels(42, "Unknown label type", [1, *NAMES[Y].tolist()[1:]]),
    *labels(42, "requires y to be passed, but the target y is None", None),
    *labels(42, "y should be a 1d array", np.column_stack([Y, Y])),
    *labels(42, "inconsistent numbers of samples", Y[:-1]),
    *labels(43, r"at least 2 classes \(levels\); got 1 class: 1 ", np.ones(N, dtype=int)),
    *labels(43, r"at least 2 classes", np.ones(N), class_order=[0.0, 1.0]),
    *labels(43, r"at least 2 classes", ["good"] * N),
    *labels(44, r"y holds 'good' .*, which is not among the levels 'poor', 'fair'", NAMES[Y], class_order=NAMES[:2]),
    *labels(44, "class_order must list every level once", Y, class_order=[0, 1, 2, 1]),
    *labels(44, "class_order must list every level once", Y, class_order=[0, 1, 2, None]),
    *labels(44, "class_order must list every level once", Y, class_order=[[0, 1], [1, 2]]),
    Bad(0, "not square", V, r"Precomputed matrix must be square.*got shape \(30, 3\)", lambda: given_().fit(X, Y)),
    Bad(0, "not symmetric", V, r"must be symmetric; got K\[\d+, \d+\]=", lambda: given_().fit(np.tril(K), Y)),
    Bad(0, "not definite", V, "positive semi-definite; its lowest", lambda: given_().fit(K - np.eye(N), Y)),
    Bad(0, "sparse inference", V, "needs rows of features", lambda: given_(inference="vb").fit(K, Y)),
    Bad(0, "parts", V, "partial_fit needs rows of features", lambda: given_().partial_fit(K, Y)),
    Bad(0, "relevance", AttributeError, "precomputed' has none", lambda: fitted("given").relevance_),
    Bad(
        0, "length-scales", V, "wanted one number or one per feature", lambda: ordinal(kernel=RBF([1.0] * 2)).fit(X, Y)
    ),
    Bad(0, "inducing", V, "features", lambda: ordinal(inference="vb", inducing=X[:4, :2]).fit(X, Y)),
    Bad(0, "inducing NaN", V, "contains NaN", lambda: ordinal(inference="vb", inducing=X[:4] * np.nan).fit(X, Y)),
    Bad(
        0,
        "squares overflow",
        V,
        "overflow or underflow: scale the features",
        lambda: quietly(lambda: ordinal().fit(1e300 * X, Y)),
    ),
]


def quietly(call: Callable[[], Any]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # numpy's own, of the overflow
        return call()


def _csr(array: np.ndarray) -> Any:
    return sparse.csr_array(array)


@pytest.mark.parametrize("bad", ERRORS, ids=lambda bad: f"row{bad.row}-{bad.name}")
def test_a_clear_error(bad: Bad) -> None:
    with pytest.raises(bad.error) as caught:
        bad.call()
    message = str(caught.value)
    assert re.search(bad.text, message, re.DOTALL), message
    assert len(message) < 2500


def test_every_row_is_here() -> None:
    accepted = {7, 13, 14, 17, 18, 20, 45}  # 21 to 37 are of pairs; row 14 is in gp/test_ordinal.py
    assert {bad.row for bad in ERRORS} | accepted == {*range(21), 38, *range(42, 46)}


@pytest.mark.parametrize("size", [1e160, 1e300, 1e-300])
@pytest.mark.parametrize("kernel", [None, "auto", "ard"])
@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value", "ignore:divide by zero", "ignore:underflow")
def test_features_whose_squares_overflow_are_refused_or_computed(size: float, kernel: Any) -> None:
    refused_or(lambda: ordinal(kernel=kernel, optimizer="l-bfgs-b").fit(size * X, Y).predict_proba(size * X))


# ------------------------------------------------------------------------------------------------------------- accepted
def memmap(path: Path) -> np.ndarray:
    np.save(path / "X.npy", X)
    return np.load(path / "X.npy", mmap_mode="r")


@pytest.mark.parametrize(
    "kind", ["row7-object", "row13-memmap", "row13-fortran", "row13-strided", "row13-list", "row13-frame", "row13-csr"]
)
@pytest.mark.parametrize("inference", ["ep", "vb"])
def test_containers_give_equal_results(kind: str, inference: str, tmp_path: Path) -> None:
    same: Any = {
        "row7-object": lambda: X.astype(object),
        "row13-memmap": lambda: memmap(tmp_path),
        "row13-fortran": lambda: np.asfortranarray(X),
        "row13-strided": lambda: np.repeat(X, 2, axis=0)[::2],
        "row13-list": X.tolist,
        "row13-frame": lambda: frame("abc"),
        "row13-csr": lambda: sparse.csr_array(X),
    }[kind]()
    atol = 1e-6 if kind == "row13-csr" else 1e-12  # another order of sums
    wanted = ordinal(inference=inference).fit(X, Y).predict_proba(X)
    model = ordinal(inference=inference).fit(same, Y)
    np.testing.assert_allclose(model.predict_proba(same), wanted, atol=atol)


@pytest.mark.parametrize("kernel", [None, "ard"])  # to a linear kernel a constant is an offset
def test_row17_constant_features(kernel: Any) -> None:
    options = {"kernel": kernel, "optimizer": "l-bfgs-b", "n_restarts_optimizer": 0}
    wide = np.column_stack([X, np.full(N, 7.0)])
    with pytest.warns(DataWarning, match=r"1 of 4 features are constant over all rows \(columns 3\)") as caught:
        model = ordinal(**options).fit(wide, Y)
    assert caught[0].filename == __file__
    np.testing.assert_allclose(model.predict_proba(wide), ordinal(**options).fit(X, Y).predict_proba(X), atol=0.01)
    assert model.relevance_[3] == 0.0


@pytest.mark.parametrize("kernel", [None, "auto", "ard", "linear-ard"])
def test_row17_nothing_but_constant_features(kernel: Any) -> None:
    flat = np.ones((N, 2))
    with pytest.warns(DataWarning, match="2 of 2 features are constant"):
        model = ordinal(kernel=kernel, optimizer="l-bfgs-b", n_restarts_optimizer=0).fit(flat, Y)
    frequency = np.bincount(Y) / N  # all that is there to learn
    np.testing.assert_allclose(model.predict_proba(flat[:1])[0], frequency, atol=0.05)
    assert np.all(np.isfinite(model.kernel_.theta))


@pytest.mark.parametrize("inference", ["ep", "laplace", "vb"])
def test_row18_duplicate_rows(inference: str) -> None:
    twice = np.vstack([X, X])
    model = ordinal(inference=inference).fit(twice, np.append(Y, Y))
    p = model.predict_proba(twice)
    np.testing.assert_array_equal(p[:N], p[N:])
    other = ordinal(inference=inference).fit(twice, np.append(Y, 2 - Y))
    assert np.all(np.isfinite(other.predict_proba(twice)))
    doubled = given_(inference="ep" if inference == "vb" else inference).fit(np.tile(K, (2, 2)), np.append(Y, Y))
    assert np.all(np.isfinite(doubled.predict_proba(np.tile(K, (1, 2)))))


@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "uint8", "float16"])
def test_row20_small_types_are_computed_in_double(dtype: str) -> None:
    small = (X > 0 if dtype == "bool" else (X * 40).clip(0 if dtype == "uint8" else -127, 127)).astype(dtype)
    with np.errstate(over="raise", invalid="raise"):
        wanted = ordinal().fit(small.astype(np.float64), Y).predict_proba(small.astype(np.float64))
        np.testing.assert_array_equal(ordinal().fit(small, Y).predict_proba(small), wanted)


def test_row45_labels_of_any_start() -> None:
    wanted = fitted().predict_proba(X)
    for values in ([0, 1, 2], [-7, 100, 10**15], [0.0, 1.0, 2.0], ["a", "b", "c"], ["", "a" * 1000, "ä"]):
        model = ordinal().fit(X, np.array(values)[Y])
        np.testing.assert_array_equal(model.predict_proba(X), wanted)
        assert model.classes_.tolist() == values


def test_separated_levels_are_finite() -> None:
    rows = np.linspace(-3.0, 3.0, 40)[:, None]
    for inference in ("ep", "laplace", "vb"):
        model = GPOrdinalRegressor(inference=inference, n_restarts_optimizer=0).fit(rows, np.arange(40) // 10)
        p = model.predict_proba(np.vstack([rows, [[1e6]]]))
        assert np.all(np.isfinite(p))
        np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-12)
        assert model.score(rows, np.arange(40) // 10) > -0.05


@pytest.mark.parametrize("size", [1e-300, 1e-12, 1.0, 1e6, 1e12, 1e300])
def test_weights_of_any_size_are_finite(size: float) -> None:
    model = ordinal().fit(X, Y, sample_weight=np.full(N, size))
    assert np.all(np.isfinite(model.predict_proba(X)))


# ----------------------------------------------------------------------------------------------------------- any input
DTYPES = ["float64", "float32", "int64", "int8", "uint64", "bool", "object", "complex128", "U8"]
CELLS = st.one_of(st.integers(-3, 6), st.sampled_from([0.5, np.nan, np.inf, -np.inf, 1e308, 1e-320, 2.0**63, -0.0]))
LABELS = st.one_of(st.integers(0, 3), st.sampled_from(["a", "b", "", 1.0, 0.5, True, None, np.nan, 2**70, b"a", (1,)]))


def refused_or(call: Callable[[], np.ndarray]) -> None:
    message = None
    try:
        result = call()
    except (ValueError, TypeError) as error:
        message = str(error)
    assert np.all(np.isfinite(result)) if message is None else 10 < len(message) < 2500


@settings(max_examples=60)
@given(
    data=st.data(),
    dtype=st.sampled_from(DTYPES),
    inference=st.sampled_from(["ep", "laplace", "vb"]),
    wild_labels=st.booleans(),
)
def test_any_input_is_refused_or_gives_probabilities(data: Any, dtype: str, inference: str, wild_labels: bool) -> None:
    n, d = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 3))
    cells = data.draw(st.lists(st.lists(CELLS, min_size=d, max_size=d), min_size=n, max_size=n))
    y = data.draw(st.lists(LABELS if wild_labels else st.integers(0, 3), min_size=n, max_size=n))
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            features = np.asarray(cells, dtype=object).astype(dtype)
        except (OverflowError, ValueError):
            return  # numpy itself cannot make such an array
        features.flags.writeable = False
        refused_or(lambda: ordinal(inference=inference).fit(features, y).predict_proba(features))
