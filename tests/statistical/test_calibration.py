"""G8 and G9: intervals cover, and scales are found, on data drawn from the model itself.

False alarms: an independent implementation measured 0.884 (1,500 simulations) and 0.860 (1,000 of the harder case); the
gates lie three to four standard errors away. Ours, once: 0.900 and 0.857; the linearised rule 0.837 and 0.684. Seeds
are fixed; a failure is one only if another seed fails as well.
"""

import numpy as np
import pytest
from scipy import stats

from skpref.inference import svi
from skpref.inference.basis import InducingBasis
from skpref.inference.scale import FixedScale, GammaScale
from skpref.inference.sites import LINEARISED, VARIATIONAL
from skpref.inference.terms.pairs import PairTerm
from skpref.kernels import ProductMatern
from skpref.likelihoods import PairwiseProbit

KERNEL = ProductMatern([1.0, 1.5])
SCHEDULE = svi.Schedule(max_iter=100, tol=1e-6)


def simulate(rng, n, p, s):
    """Draw items, utilities and answers from the model."""
    X = rng.normal(size=(n, 2))
    left = rng.integers(0, n, p)
    right = (left + rng.integers(1, n, p)) % n
    basis = InducingBasis.from_points(KERNEL, X)
    f = np.tril(basis.chol) @ rng.standard_normal(n) / np.sqrt(s)
    y = (f[left] - f[right] + rng.standard_normal(p) > 0.0).astype(float)
    return basis, PairTerm(basis.rows(X), left, right, n), f, y


def infer(term, y, scale, rule=VARIATIONAL):
    problem = svi.Problem({"f": term}, PairwiseProbit(), y, np.ones(y.size), rule)
    start = svi.initial_state(problem, {"f": scale})
    return svi.fit(problem, start, SCHEDULE, np.random.default_rng(0)).state


def standardised_errors(seed, n_simulations, n, p, s, rule=VARIATIONAL):
    """(f_0 - f_1 - its mean) / its standard deviation; standard normal where q is the posterior."""
    rng, out = np.random.default_rng(seed), np.empty(n_simulations)
    for i in range(n_simulations):
        _, term, f, y = simulate(rng, n, p, s)
        block = infer(term, y, FixedScale(s), rule).blocks["f"]
        row = term.basis[0] - term.basis[1]
        out[i] = (f[0] - f[1] - row @ block.mean) / np.sqrt(row @ block.solve(row))
    return out


def coverage(errors, level=0.9):
    return float(np.mean(np.abs(errors) < stats.norm.ppf(0.5 + 0.5 * level)))


def test_intervals_cover_in_a_small_sample():
    # 80 simulations of a coverage near 0.88: below 0.73 is 4 standard errors away.
    assert coverage(standardised_errors(11, 80, n=6, p=12, s=0.5)) > 0.73


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("n_simulations", "p", "s", "low", "high"), [(1500, 12, 0.5, 0.85, 0.92), (1000, 60, 0.1, 0.83, 0.92)]
)
def test_ninety_per_cent_intervals(n_simulations, p, s, low, high):
    assert low <= coverage(standardised_errors(1, n_simulations, n=6, p=p, s=s)) <= high


@pytest.mark.statistical
def test_posterior_quantiles_of_the_truth_are_uniform():
    errors = standardised_errors(2, 1500, n=6, p=12, s=0.5)
    assert stats.kstest(errors, "norm").pvalue > 1e-4


@pytest.mark.statistical
def test_the_linearised_rule_covers_less_where_answers_are_sure():
    options = {"n_simulations": 1000, "n": 6, "p": 60, "s": 0.1}
    assert coverage(standardised_errors(3, rule=LINEARISED, **options)) < coverage(standardised_errors(3, **options))


@pytest.mark.statistical
def test_the_scale_is_recovered():
    # E[s] of one data set has a spread of 42 %, so five standard errors are 0.2; the prior and the mean field leave a
    # bias of the same size (measured once: 0.16).
    rng, ratios = np.random.default_rng(4), []
    for _ in range(100):
        _, term, _, y = simulate(rng, 30, 400, 0.5)
        ratios.append(np.log(infer(term, y, GammaScale.prior(1.0, 1.0)).scales["f"].mean / 0.5))
    assert abs(np.mean(ratios)) < 0.4
