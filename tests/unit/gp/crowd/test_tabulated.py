"""Tables give what the function gives, inside their reach and beyond."""

import numpy as np
import pytest

from skpref.gp.crowd.annotators import Tabulated, _tabulate_log_prob
from skpref.likelihoods import PairwiseLogit, PairwiseLogitTies, PairwiseProbit, PairwiseProbitTies


@pytest.mark.parametrize("likelihood", [PairwiseProbit(), PairwiseLogit(), PairwiseProbitTies(), PairwiseLogitTies()])
def test_predictions_and_answers(likelihood):
    def predict(z):
        return likelihood.predict(z, np.zeros_like(z))

    table, rng = Tabulated(predict), np.random.default_rng(0)
    x = rng.uniform(-39.0, 39.0, (50, 6)) * rng.random((50, 1)) ** 3
    np.testing.assert_allclose(table(x), predict(x), rtol=0.0, atol=1e-10)
    y = rng.choice([0.0, 0.5, 1.0], 6)
    z = 2.5 * x
    np.testing.assert_allclose(
        _tabulate_log_prob(likelihood, y)(y, z), likelihood.log_prob(y, z), rtol=1e-9, atol=1e-10
    )


@pytest.mark.parametrize("size", [1.0, 100.0])
def test_means_over_pairs(size):
    rng = np.random.default_rng(1)
    f, side = size * rng.standard_normal((7, 4)), rng.choice([-1.0, 0.0, 1.0], (7, 3))
    left, right, weight = np.array([0, 1, 2]), np.array([3, 2, 0]), np.array([0.5, 0.2, 0.3])
    wanted = np.tanh(side * (f[:, left] - f[:, right])) @ weight
    np.testing.assert_allclose(Tabulated(np.tanh).mean_over_pairs(f, side, left, right, weight), wanted, atol=1e-10)


def test_beyond_its_reach_the_function_is_called():
    x = np.array([-100.0, 0.0, 1e300])
    np.testing.assert_array_equal(Tabulated(np.arctan)(x), np.arctan(x))


def test_many_labels_need_no_tables():
    y, z = np.linspace(0.0, 1.0, 20), np.linspace(-3.0, 3.0, 20)
    np.testing.assert_array_equal(_tabulate_log_prob(PairwiseProbit(), y)(y, z), PairwiseProbit().log_prob(y, z))
