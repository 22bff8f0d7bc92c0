"""Thresholds of ties in groups."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skpref.gp.pairwise.thresholds import TiesOfGroups, TieThresholds, cells_of
from skpref.inference.chain_groups import LEFT_OUT
from skpref.likelihoods import PairwiseLogitTies, PairwiseProbitTies

RNG = np.random.default_rng(0)
Y, MU, V = RNG.choice([0.0, 0.5, 1.0], 60), RNG.normal(size=60), RNG.uniform(0.1, 1.0, 60)
LEVEL = np.column_stack([RNG.integers(0, 2, 60), RNG.integers(0, 3, 60)])


def test_cells_are_combinations_of_groups():
    level = np.array([[0, 0], [1, 2], [0, 2], [-1, 0], [1, LEFT_OUT], [2, 0], [0, 3]])
    assert_array_equal(cells_of(level, np.array([2, 3])), [0, 5, 2, -1, -1, -1, -1])
    assert_array_equal(cells_of(level[:, :1], np.array([2])), [0, 1, 0, -1, 1, -1, 0])


@pytest.mark.parametrize("likelihood", [PairwiseLogitTies(0.4), PairwiseProbitTies(0.4, ratios=(2.5,))])
def test_rows_have_the_threshold_of_their_cell(likelihood):
    sizes = np.array([2, 3])
    same = TiesOfGroups.start(likelihood, LEVEL, sizes)
    assert_allclose(same.expectation(Y, MU, V), likelihood.expectation(Y, MU, V))
    assert_allclose(same.derivatives(Y, MU), likelihood.derivatives(Y, MU), atol=1e-9)
    log_b = np.log(0.4) + 0.3 * np.arange(6)
    own = replace(same, thresholds=replace(same.thresholds, mean=log_b))
    for cell in range(6):
        rows = cells_of(LEVEL, sizes) == cell
        alone = replace(likelihood, threshold=float(np.exp(log_b[cell])))
        assert_allclose(np.array(own.expectation(Y, MU, V))[:, rows], alone.expectation(Y[rows], MU[rows], V[rows]))
        slope, step = alone.slopes(Y, MU, V, np.ones(60))[0], 1e-5
        ends = [alone.stretched(0, sign * step).expectation(Y, MU, V)[0].sum() for sign in (1.0, -1.0)]
        assert slope == pytest.approx((ends[0] - ends[1]) / (2.0 * step), rel=1e-4)


def test_steps_end_where_slopes_and_the_prior_balance():
    """Of many answers, at the threshold with no slope; a group without answers is at the centre."""
    rng, weight = np.random.default_rng(1), np.full(4000, 50.0)
    level, mu = rng.integers(0, 2, (4000, 1)), rng.normal(size=4000)
    b, z = np.array([0.2, 1.0])[level[:, 0]], mu + rng.logistic(size=4000)
    y, v = np.where(z > b, 1.0, np.where(z < -b, 0.0, 0.5)), np.full(4000, 1e-6)
    moved = TiesOfGroups.start(PairwiseLogitTies(0.4), level, np.array([3]))
    for _ in range(30):
        moved = moved.learnt(y, mu, v, weight)
    for cell in (0, 1):
        rows = level[:, 0] == cell
        alone = replace(moved.shared, threshold=float(np.exp(moved.thresholds.mean[cell])))
        assert abs(alone.slopes(y[rows], mu[rows], v[rows], weight[rows])[0]) < 5.0  # of 2,000 answers of weight 50
    assert_allclose(np.exp(moved.thresholds.mean[:2]), [0.2, 1.0], rtol=0.1)
    assert moved.thresholds.mean[2] == pytest.approx(moved.thresholds.centre, abs=1e-3)
    assert isinstance(moved.thresholds, TieThresholds)
    assert moved.shared.threshold == pytest.approx(np.exp(moved.thresholds.centre))
