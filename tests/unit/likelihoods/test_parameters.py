"""A likelihood says that it has parameters exactly if it learns some, and what it learns fits the data better."""

import numpy as np
import pytest

from skpref import likelihoods

LEVELS, ANSWERS, NUMBERS, COUNTS = range(3), (0.0, 0.5, 1.0), (-3.0, -0.5, 0.0, 0.7, 6.0), range(8)
LIKELIHOODS = [
    (likelihoods.PairwiseProbit(), ANSWERS),
    (likelihoods.PairwiseLogit(), ANSWERS),
    (likelihoods.Gaussian(), NUMBERS),
    (likelihoods.PairwiseProbitTies(), ANSWERS),
    (likelihoods.PairwiseLogitTies(), ANSWERS),
    (likelihoods.PairwiseLogitTies(learn=False), ANSWERS),
    (likelihoods.PairwiseDavidson(), ANSWERS),
    (likelihoods.PairwiseDavidson(20.0), ANSWERS),
    (likelihoods.OrdinalProbit((-1.0, 1.0), 0.7), LEVELS),
    (likelihoods.OrdinalLogit((-1.0, 1.0), 0.7), LEVELS),
    (likelihoods.OrdinalRobust((-1.0, 1.0), 0.7), LEVELS),
    (likelihoods.Poisson(), COUNTS),
    (likelihoods.NegativeBinomial(), COUNTS),
    (likelihoods.NegativeBinomial(0.1, 20.0), COUNTS),
    (likelihoods.StudentT(), NUMBERS),
    (likelihoods.StudentT(scale=20.0), NUMBERS),
    (likelihoods.StudentT(scale=0.01), NUMBERS),
]


def data(values, seed):
    rng = np.random.default_rng(seed)
    return rng.choice(values, 60).astype(float), rng.normal(size=60), rng.random(60), rng.random(60)


@pytest.mark.parametrize(("likelihood", "values"), LIKELIHOODS, ids=repr)
def test_a_likelihood_has_parameters_if_it_learns_some(likelihood, values):
    assert (likelihood.learnt(*data(values, 0)) != likelihood) == likelihood.has_parameters


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("likelihood", "values"), [pair for pair in LIKELIHOODS if pair[0].has_parameters], ids=repr)
def test_learning_ends_where_no_number_fits_better(likelihood, values, seed):
    y, mu, v, weight = data(values, seed)

    def fit(some):
        return float(weight @ some.expectation(y, mu, v)[0])

    before, now = likelihood, likelihood.learnt(y, mu, v, weight)
    for _ in range(60):
        assert fit(now) >= fit(before) - 1e-9
        before, now = now, now.learnt(y, mu, v, weight)
    again = now.learnt(y, mu, v, weight)
    assert fit(again) == pytest.approx(fit(now), abs=1e-5)
