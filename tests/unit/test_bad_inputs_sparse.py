"""Rows of the table of bad inputs (shared/bad-inputs.md) that concern `SVGPRegressor` and `SVGPClassifier`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.utils._param_validation import InvalidParameterError

from skpref import SVGPClassifier, SVGPRegressor

RNG = np.random.default_rng(0)
X = RNG.standard_normal((30, 3))
TARGETS: dict[type, np.ndarray] = {SVGPRegressor: X[:, 0] + 0.1, SVGPClassifier: (X[:, 0] > 0).astype(int)}


def make(kind: type, **options: Any) -> Any:
    return kind(**{"optimizer": None, "random_state": 0, **options})


def with_entry(value: Any, dtype: Any = float) -> np.ndarray:
    out = X.astype(dtype)
    out[3, 1] = value
    return out


FEATURES = {
    1: (with_entry(np.nan), "Input X contains NaN"),
    2: (with_entry(np.inf), "Input X contains infinity or a value too large"),
    3: (X[:0], r"Found array with 0 sample\(s\)"),
    4: (X[:, :0], r"Found array with 0 feature\(s\)"),
    5: (X[:, 0], "Expected 2D array, got 1D array"),
    6: (with_entry("a", object), "could not convert string to float"),
    8: (with_entry(1j, complex), "Complex data not supported"),
}


@pytest.mark.parametrize("kind", TARGETS)
@pytest.mark.parametrize("row", FEATURES)
def test_bad_features_are_refused(kind: type, row: int) -> None:
    features, text = FEATURES[row]
    y = TARGETS[kind][: len(features)]
    for call in (make(kind).fit, make(kind).partial_fit):
        with pytest.raises(ValueError, match=text):
            call(features, y)
    with pytest.raises(ValueError, match=text):
        make(kind).fit(X, TARGETS[kind]).predict(features)


@pytest.mark.parametrize("kind", TARGETS)
def test_other_bad_inputs_are_refused(kind: type) -> None:
    y = TARGETS[kind]
    fitted = make(kind).fit(X, y)
    with pytest.raises(ValueError, match=r"X has 2 features, but .* is expecting 3 features as input"):
        fitted.predict(X[:, :2])
    with pytest.raises(NotFittedError, match="is not fitted yet"):
        make(kind).predict(X)
    for options in ({"n_inducing": 0}, {"random_state": "a"}, {"tol": -1.0}, {"learn_inducing": "perhaps"}):
        with pytest.raises(InvalidParameterError, match=next(iter(options))):
            make(kind, **options).fit(X, y)
    with pytest.raises(ValueError, match="contains NaN"):
        make(kind).fit(X, np.where(np.arange(30) == 2, np.nan, y))
    with pytest.raises(ValueError, match=r"(?i)negative"):
        make(kind).fit(X, y, sample_weight=-np.ones(30))
    with pytest.raises(ValueError, match=r"needs .* GB.* n_inducing"):
        make(kind, n_inducing=10**6).fit(np.arange(40_000.0)[:, None], np.resize(y, 40_000))


@pytest.mark.parametrize("kind", TARGETS)
def test_other_containers_give_the_same_and_stay_as_they_are(kind: type) -> None:
    y = TARGETS[kind]
    wanted = make(kind).fit(X, y).predict(X)
    for other in (np.asfortranarray(X), X.astype(object), X.tolist(), np.repeat(X, 2, axis=0)[::2]):
        assert np.array_equal(make(kind).fit(other, y).predict(X), wanted)
    small = (10.0 * X).astype(np.int8)
    assert np.array_equal(
        make(kind).fit(small, y).predict(small), make(kind).fit(small.astype(float), y).predict(small)
    )
    before = X.copy(), y.copy()
    make(kind, optimizer="l-bfgs-b", tol=1.0).fit(X, y)
    assert np.array_equal(before[0], X)
    assert np.array_equal(before[1], y)
