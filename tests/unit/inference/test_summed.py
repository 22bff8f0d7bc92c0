"""Sums over rows that are elsewhere: the bound, its gradient and its curvature of a problem that holds its rows."""

import numpy as np
from numpy.testing import assert_allclose
from sklearn.gaussian_process.kernels import RBF

from skpref.inference import svi
from skpref.inference.basis import InducingBasis
from skpref.inference.blocks import DenseBlock
from skpref.inference.scale import FixedScale
from skpref.inference.summed import SummedProblem, empty_problem, sums_over
from skpref.inference.terms.inducing import row_term
from skpref.likelihoods import PairwiseProbit

_rng = np.random.default_rng(0)
X = _rng.uniform(-2, 2, (90, 2))
Y, WEIGHT = (X[:, 0] + 0.3 * _rng.normal(size=90) > 0).astype(float), _rng.uniform(0.5, 2.0, 90)
BASIS = InducingBasis.from_points(RBF([0.8, 2.0]), _rng.uniform(-2, 2, (7, 2)))
PROBLEM = svi.Problem({"f": row_term(BASIS, X, "f")}, PairwiseProbit(), Y, WEIGHT)


def collect(template, state):
    yield None  # a batch without rows
    for part in (slice(0, 40), slice(40, 90)):
        yield sums_over(template, state, X[part], Y[part], WEIGHT[part])


SUMMED = SummedProblem.from_template(empty_problem(BASIS, PairwiseProbit()), collect)


def test_a_problem_of_sums_is_that_of_its_rows():
    root = _rng.normal(size=(7, 7))
    state = svi.State({"f": DenseBlock(root @ root.T + np.eye(7), _rng.normal(size=7))}, {"f": FixedScale(1.0)})
    wanted, evaluation = PROBLEM.evaluate(state), SUMMED.evaluate(state)
    assert_allclose([evaluation.bound, evaluation.objective], [wanted.bound, wanted.objective])
    (wanted_gram,), wanted_gradient = PROBLEM.normal_equations(wanted, state.expected, {"f": False})["f"]
    for _ in range(2):  # the loop writes into a matrix that it is given
        (gram,), gradient = SUMMED.normal_equations(evaluation, state.expected, {"f": False})["f"]
        assert_allclose(np.tril(gram), np.tril(wanted_gram))
        assert_allclose(gradient, wanted_gradient)
        gram += 1.0


def test_the_loop_takes_one_round_a_pass():
    rounds = []

    def counted(template, state):
        rounds.append(1)
        return collect(template, state)

    problem, start = (
        SummedProblem.from_template(empty_problem(BASIS, PairwiseProbit()), counted),
        {"f": FixedScale(1.0)},
    )
    schedule = svi.Schedule(max_iter=20, tol=1e-6)
    fit = svi.fit(problem, svi.initial_state(problem, start), schedule, np.random.default_rng(0))
    wanted = svi.fit(PROBLEM, svi.initial_state(PROBLEM, start), schedule, np.random.default_rng(0))
    assert_allclose(fit.bounds, wanted.bounds)
    assert_allclose(fit.state.blocks["f"].mean, wanted.state.blocks["f"].mean, atol=1e-10)
    assert len(rounds) == len(fit.bounds) + 1
