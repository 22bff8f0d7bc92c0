"""The steps of an ordinal fit: the sample of the search, and inducing points of an earlier fit."""

from __future__ import annotations

import numpy as np
from numpy.testing import assert_allclose

from skpref.gp.ordinal import fit
from skpref.gp.ordinal.evidence import OrdinalData


def draw(n=50):
    rng = np.random.default_rng(0)
    return OrdinalData(np.arange(2.0 * n).reshape(n, 2), rng.integers(0, 3, n), rng.exponential(size=n))


def test_a_search_looks_at_different_rows_whose_weights_add_up_to_those_of_all(monkeypatch):
    data, rng = draw(), np.random.default_rng(1)
    monkeypatch.setattr(fit, "_SAMPLE_ROWS", 50)
    assert fit._sample(data, rng) is data
    monkeypatch.setattr(fit, "_SAMPLE_ROWS", 40)
    part = fit._sample(data, rng)
    rows = (part.X[:, 0] / 2.0).astype(int)
    assert part.n == len(set(rows)) == 40
    assert_allclose(part.X, data.X[rows])
    assert_allclose(part.y, data.y[rows])
    assert_allclose(part.weight / data.weight[rows], data.weight.sum() / data.weight[rows].sum())
