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


def classes_of(y: np.ndarray) -> np.ndarray:
    return (y > 0.0).astype(int)


# What must be learnt all the same: rows, classes, weights and the least accuracy on the rows.
NASTY: dict[str, tuple[np.ndarray, np.ndarray, np.ndarray | None, float]] = {
    "huge": (1e6 * X, classes_of(X[:, 0]), None, 0.9),
    "tiny": (1e-6 * X, classes_of(X[:, 0]), None, 0.9),
    "units": (X * [1e6, 1.0, 1e-6], classes_of(X[:, 0]), None, 0.9),
    "far away": (X + 1e8, classes_of(X[:, 0]), None, 0.9),
    "constant column": (np.column_stack([X, np.full(30, 7.0)]), classes_of(X[:, 0]), None, 0.9),
    "conflicting copies": (np.repeat(X[:5], 6, axis=0), np.resize([0, 1], 30), None, 0.5),
    "equal rows": (np.ones((30, 3)), np.resize([0, 1, 2], 30), None, 1.0 / 3.0),
    "two rows": (X[:2], np.array([0, 1]), None, 1.0),
    "three rows of three classes": (X[:3], np.array([2, 0, 1]), None, 1.0),
    "one row of a class": (X, (np.arange(30) == 5).astype(int), None, 0.9),
    "no weight on a class": (X, np.digitize(X[:, 0], [-0.5, 0.5]), (np.abs(X[:, 0]) > 0.5).astype(float), 0.4),
    "weights of nothing": (X, classes_of(X[:, 0]), np.full(30, 1e-12), 0.0),
    "weights of everything": (X, classes_of(X[:, 0]), np.full(30, 1e12), 0.9),
    "names": (X, np.where(X[:, 0] > 0.0, "up", "down"), None, 0.9),
}


@pytest.mark.filterwarnings("ignore:.*constant over all rows", "ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("case", NASTY)
def test_classes_of_nasty_rows_are_learnt(case: str) -> None:
    rows, y, weight, accuracy = NASTY[case]
    model = SVGPClassifier(n_inducing=10, tol=1e-2, random_state=0).fit(rows, y, sample_weight=weight)
    for new in (rows, np.full((2, rows.shape[1]), 1e300)):
        p = model.predict_proba(new)
        assert np.all((p >= 0.0) & (p <= 1.0))
        np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
        assert np.all(np.isfinite(model.predict_latent(new, return_std=True)))
    assert model.score(rows, y) >= accuracy
    if case == "no weight on a class":
        assert np.all(model.predict_proba(rows)[:, 1] < 0.2)
        assert np.array_equal(model.classes_, [0, 1, 2])
    if case == "equal rows":
        np.testing.assert_allclose(model.predict_proba(rows), 1.0 / 3.0, atol=1e-3)


def test_one_class_alone_and_rows_beyond_floating_point_are_refused() -> None:
    for rows, y, weight in (
        (X, np.zeros(30), None),
        (X[:1], np.zeros(1), None),
        (X, TARGETS[SVGPClassifier], 1.0 - TARGETS[SVGPClassifier]),
    ):
        with pytest.raises(ValueError, match="number of classes has to be greater than one"):
            SVGPClassifier().fit(rows, y, sample_weight=weight)
    with pytest.raises(ValueError, match="scale the features"):
        SVGPClassifier().fit(1e300 * X, TARGETS[SVGPClassifier])
    with pytest.raises(ValueError, match="Unknown label type"):
        SVGPClassifier().fit(X, X[:, 0])
