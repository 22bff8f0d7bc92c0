"""Which stages a fit of sparse regression has."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn.utils._param_validation import InvalidParameterError

from skpref import SVGPClassifier, SVGPRegressor
from skpref.gp.sparse import fit


@pytest.mark.parametrize(
    ("n", "n_sample", "searched"),
    [(500, 500, False), (10_001, 10_000, True), (10**6, 10_000, True), (10**6 + 1, 10_000, False)],
)
def test_all_rows_are_searched_where_they_are_more_than_the_sample_and_at_most_a_million(
    monkeypatch: pytest.MonkeyPatch, n: int, n_sample: int, *, searched: bool
) -> None:
    calls: list[tuple[Any, int]] = []

    def ascend(objective: Any, max_iter: int) -> None:
        calls.append((objective, max_iter))

    def rows_of(n: int) -> Any:
        return SimpleNamespace(n=n)

    monkeypatch.setattr(fit, "bound_objective", lambda rows: rows.n)
    fit._search_all_rows(SimpleNamespace(ascend=ascend), rows_of(n), rows_of(n_sample))
    assert calls == [(n, 10)] * searched


@pytest.mark.parametrize("kind", [SVGPRegressor, SVGPClassifier])
def test_one_inducing_point_is_enough_and_none_is_refused(kind: Any) -> None:
    X = np.linspace(-1.0, 1.0, 8)[:, None]
    model = kind(n_inducing=1, optimizer=None, random_state=0).fit(X, X[:, 0] > 0.0)
    assert np.isfinite(model.lower_bound_)
    with pytest.raises(InvalidParameterError, match="n_inducing"):
        kind(n_inducing=0).fit(X, X[:, 0] > 0.0)
