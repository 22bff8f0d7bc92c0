"""Rows 46 to 51 of the table of bad inputs (shared/bad-inputs.md), for `GibbsM3F` and `GibbsIPM3F`.

A clear error, of the type and with the words given there; or accepted, with finite results.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest
from scipy import sparse
from sklearn.utils._param_validation import InvalidParameterError

from skpref import GibbsIPM3F, GibbsM3F
from skpref.data import from_matrix

if TYPE_CHECKING:
    from collections.abc import Callable

_rng = np.random.default_rng(3)
X = np.argwhere(_rng.random((12, 10)) < 0.5)
Y = _rng.integers(1, 6, len(X)).astype(float)
LEVELS = [1, 2, 3, 4, 5]
V = ValueError
P = InvalidParameterError
SHORT = {"n_sweeps": 6, "burn_in": 2, "n_samples": 2, "levels": LEVELS, "random_state": 0}
MODELS: dict[str, Callable[..., Any]] = {
    "m3f": lambda **params: GibbsM3F(**{"n_factors": 2, **SHORT, **params}),
    "ipm3f": lambda **params: GibbsIPM3F(**{**SHORT, **params}),
}


@pytest.fixture(params=MODELS)
def model(request: Any) -> Callable[..., Any]:
    return MODELS[request.param]


class Bad(NamedTuple):
    row: int
    name: str
    error: type[Exception]
    text: str
    call: Callable[[Callable[..., Any]], Any]


def rated(value: Any, place: int = 4) -> list[Any]:
    y: list[Any] = Y.tolist()
    y[place] = value
    return y


def for_every_call(row: int, name: str, text: str, rows: Any, y: Any) -> list[Bad]:
    calls: dict[str, Callable[[Any], Any]] = {
        "fit": lambda make: make().fit(rows, y),
        "partial_fit": lambda make: make().fit(X, Y).partial_fit(rows, y),
        "score": lambda make: make().fit(X, Y).score(rows, y),
    }
    return [Bad(row, f"{name}, {method}", V, text, call) for method, call in calls.items()]


AT_9 = [(3, 9), (3, 8)]
TWICE = [*X.tolist(), X[0].tolist()]
STRANGE = [*Y.tolist(), 6.0 - Y[0] if Y[0] != 3 else 1.0]


def with_zero() -> Any:
    matrix = sparse.csr_array(np.array([[5.0, 3.0], [0.0, 1.0]]))
    matrix.data[1] = 0.0
    return matrix


ERRORS = [
    *for_every_call(46, "above", r"rating 7 is outside 1\.\.5 for user 3, item 9", AT_9, [7, 2]),
    *for_every_call(46, "zero", r"rating 0(\.0)? is outside 1\.\.5", X, rated(0.0)),
    *for_every_call(46, "between", r"rating 2\.5 is outside 1\.\.5", X, rated(2.5)),
    *for_every_call(46, "infinite", "infinite rating", X, rated(np.inf)),
    *for_every_call(46, "NaN", "Input y contains NaN", X, rated(np.nan)),
    Bad(47, "twice", V, "duplicate ratings that differ", lambda make: make().fit(TWICE, STRANGE)),
    Bad(47, "again", V, "duplicate ratings", lambda make: make().fit(X, Y).partial_fit(X[:1], STRANGE[-1:])),
    Bad(49, "explicit zero", V, "explicit zero", lambda make: make().fit(*from_matrix(with_zero()))),
    Bad(51, "means that fall", P, "threshold_means", lambda make: make(threshold_means=[3, 2, 1, 0]).fit(X, Y)),
    Bad(51, "means too few", P, "threshold_means", lambda make: make(threshold_means=[0, 1]).fit(X, Y)),
    Bad(51, "means of NaN", P, "threshold_means", lambda make: make(threshold_means=[0, 1, 2, np.nan]).fit(X, Y)),
    *(
        Bad(51, f"{name}={value}", P, name, lambda make, name=name, value=value: make(**{name: value}).fit(X, Y))
        for name in ("threshold_scale", "margin", "sigma")
        for value in (0.0, -1.0, np.nan, "wide")
    ),
]


@pytest.mark.parametrize("bad", ERRORS, ids=lambda bad: f"{bad.row} {bad.name}")
def test_refused(bad: Bad, model: Callable[..., Any]) -> None:
    with pytest.raises(bad.error, match=bad.text):
        bad.call(model)


@pytest.mark.parametrize("duplicates", ["mean", "last"])
def test_47_duplicates_are_accepted_when_told_how(duplicates: str, model: Callable[..., Any]) -> None:
    fitted = model(duplicates=duplicates).fit(TWICE, STRANGE)
    assert np.isfinite(fitted.predict_proba(X)).all()


def test_48_users_and_items_without_ratings_have_the_prior(model: Callable[..., Any]) -> None:
    fitted = model().fit(X, Y)
    rows = [(0, 77), (77, 0), (77, 77)]
    mean, std = fitted.predict_score(rows, return_std=True)
    assert np.isfinite(mean).all()
    assert (std > 0.0).all()
    assert mean[2] == 0.0
    # The level that thresholds give to a score of 0
    average = model(prediction="average").fit(X, Y)
    assert average.predict(rows[2:])[0] == 1 + int((average.thresholds_.mean(axis=0) <= 0.0).sum())


def test_48_a_user_whose_ratings_all_weigh_nothing(model: Callable[..., Any]) -> None:
    weight = (X[:, 0] != 2).astype(float)
    fitted = model().fit(X, Y, sample_weight=weight)
    assert 2 not in fitted.user_ids_
    assert set(fitted.predict(X[X[:, 0] == 2])) <= set(LEVELS)


def test_49_unsorted_indices_are_the_same_ratings(model: Callable[..., Any]) -> None:
    matrix = sparse.csr_array((Y, (X[:, 0], X[:, 1])), shape=(12, 10))
    turned = matrix.copy()
    for i in range(12):
        part = slice(turned.indptr[i], turned.indptr[i + 1])
        turned.indices[part], turned.data[part] = turned.indices[part][::-1].copy(), turned.data[part][::-1].copy()
    a, b = (model().fit(*from_matrix(given)) for given in (matrix, turned))
    np.testing.assert_array_equal(a.predict_proba(X), b.predict_proba(X))


def test_50_wide_indices(model: Callable[..., Any]) -> None:
    matrix = sparse.csr_array((Y, (X[:, 0], X[:, 1])), shape=(12, 10))
    wide = matrix.copy()
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    a, b = (model().fit(*from_matrix(given)) for given in (matrix, wide))
    np.testing.assert_array_equal(a.predict_proba(X), b.predict_proba(X))
