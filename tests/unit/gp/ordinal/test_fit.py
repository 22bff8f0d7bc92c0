"""The steps of an ordinal fit: the sample of the search, and inducing points of an earlier fit."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
from numpy.testing import assert_allclose

from skpref.gp.ordinal import fit
from skpref.gp.ordinal.evidence import OrdinalData


def draw(n=50):
    rng = np.random.default_rng(0)
    return OrdinalData(np.arange(2.0 * n).reshape(n, 2), rng.integers(0, 3, n), rng.exponential(size=n))


def test_a_search_looks_at_different_rows_with_their_own_weights():
    data, rng = draw(), np.random.default_rng(1)
    assert fit._sample(data, 50, rng) is data
    part = fit._sample(data, 40, rng)
    rows = (part.X[:, 0] / 2.0).astype(int)
    assert part.n == len(set(rows)) == 40
    assert_allclose(part.X, data.X[rows])
    assert_allclose(part.y, data.y[rows])
    assert_allclose(part.weight, data.weight[rows])


def test_a_posterior_at_inducing_points_is_used_again_at_the_same_points_only():
    data, rng, state = draw(), np.random.default_rng(1), object()
    points = data.X[:4].copy()
    config = SimpleNamespace(n_inducing=4, inducing=points)
    for earlier, used in ((points.copy(), True), (points + 1.0, False), (points[:3], False)):
        chosen, again = fit._inducing_points(data, None, config, rng, SimpleNamespace(points=earlier, state=state))
        assert_allclose(chosen, points)
        assert again is (state if used else None)
