"""A likelihood of one's own: two methods, and what follows from them by quadrature."""

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.stats import norm

from skpref import SVGPRegressor
from skpref.likelihoods import Likelihood, PairwiseLogit, PairwiseProbit, Poisson
from skpref.testing import check_likelihood


@dataclass(frozen=True)
class LogisticErrors(Likelihood):
    scale: float = 1.0

    def _derivatives(self, y, z):
        u = np.abs(y - z) / self.scale
        t = np.tanh(0.5 * u)
        value = -u - 2.0 * np.log1p(np.exp(-u)) - np.log(self.scale)
        return value, np.sign(y - z) * t / self.scale, -0.5 * (1.0 - t**2) / self.scale**2

    def _predict(self, mu, v):
        del v
        return mu.copy()


@dataclass(frozen=True)
class LearntErrors(LogisticErrors):
    def learnt(self, y, mu, v, weight):
        scales = self.scale * np.exp(np.linspace(-0.5, 0.5, 21))
        return max((LearntErrors(s) for s in scales), key=lambda one: weight @ one.expectation(y, mu, v)[0])


def test_a_class_that_defines_learnt_has_parameters_which_a_fit_learns():
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 6.0, (300, 1))
    y = 4.0 * np.sin(X[:, 0]) + rng.logistic(scale=0.4, size=300)
    assert not LogisticErrors().has_parameters
    model = SVGPRegressor(likelihood=LearntErrors(), inducing=20, random_state=0).fit(X, y)
    # 300 errors tell a scale within 5 % (one standard error).
    assert model.likelihood_.scale == pytest.approx(0.4, rel=0.2)


@dataclass(frozen=True)
class LaplaceErrors(Likelihood):
    def _derivatives(self, y, z):
        return -np.abs(y - z) - np.log(2.0), np.sign(y - z), np.zeros_like(z)

    def _predict(self, mu, v):
        del v
        return mu.copy()


@dataclass(frozen=True)
class ExactLaplaceErrors(LaplaceErrors):
    def _expectation(self, y, mu, v):
        sd = np.sqrt(np.maximum(v, 1e-300))
        a = (y - mu) / sd
        density = norm.pdf(a)
        slope = 1.0 - 2.0 * norm.cdf(-a)
        value = -(y - mu) * slope - 2.0 * np.sqrt(v) * density - np.log(2.0)
        return value, slope, -np.where(v > 0.0, density / sd, 0.0)

    def _tilted(self, y, mu, v):
        e, sd = y - mu, np.sqrt(np.maximum(v, 1e-300))
        left, right = -e + norm.logcdf(e / sd - sd), e + norm.logcdf(-e / sd - sd)
        total = np.logaddexp(left, right)
        first = np.exp(left - total) - np.exp(right - total)
        kink = np.where(v > 0.0, np.exp(norm.logpdf(e / sd) - 0.5 * v - total) / sd, 0.0)
        return 0.5 * v + total - np.log(2.0), first, 1.0 - 2.0 * kink - first**2


@pytest.mark.parametrize("seed", range(5))
def test_the_kit_allows_a_kink_where_averages_are_exact(seed):
    check_likelihood(ExactLaplaceErrors(), seed=seed)
    with pytest.raises(AssertionError, match=r"has a kink .* replace the quadrature by a closed form"):
        check_likelihood(LaplaceErrors(), seed=seed)


@pytest.mark.parametrize("scale", [1.0, 3.0])
@pytest.mark.parametrize("seed", range(3))
def test_two_methods_pass_the_kit(scale, seed):
    check_likelihood(LogisticErrors(scale), seed=seed)


@pytest.mark.parametrize(("y", "mu", "v"), [(0.0, 0.0, 1.0), (3.0, 0.0, 4.0), (5.0, 0.0, 20.0), (300.0, 0.0, 2.0)])
def test_both_averages_against_adaptive_quadrature(y, mu, v):
    likelihood, reach = LogisticErrors(), 14.0 * np.sqrt(v)

    def average(function):
        def weighted(z):
            return (
                function(float(likelihood.log_prob(y, z))) * np.exp(-0.5 * (z - mu) ** 2 / v) / np.sqrt(2.0 * np.pi * v)
            )

        return quad(weighted, mu - reach, mu + reach, points=[min(y, mu + 0.9 * reach)], epsabs=0.0, limit=500)[0]

    assert_allclose(likelihood.expectation(y, mu, v)[0], average(lambda log_p: log_p), rtol=1e-9)
    peak = float(likelihood.log_prob(y, mu))
    assert_allclose(
        likelihood.tilted(y, mu, v)[0], peak + np.log(average(lambda log_p: np.exp(log_p - peak))), rtol=1e-9
    )


@pytest.mark.parametrize("likelihood", [PairwiseLogit(), PairwiseProbit()])
def test_they_are_the_closed_forms_of_ours(likelihood):
    rng = np.random.default_rng(0)
    y, mu, v = rng.integers(0, 2, 50).astype(float), rng.normal(0.0, 3.0, 50), np.exp(rng.normal(size=50))
    for method in ("_expectation", "_tilted"):
        got, wanted = (getattr(kind, method)(likelihood, y, mu, v) for kind in (Likelihood, type(likelihood)))
        for one, other in zip(got, wanted, strict=True):
            assert_allclose(one, other, rtol=1e-6, atol=1e-8)


def test_counts_have_the_closed_form_of_their_expectation():
    y, mu, v = np.array([0.0, 3.0, 20.0]), np.array([-1.0, 0.5, 2.0]), np.array([0.1, 0.5, 1.0])
    for one, other in zip(Likelihood._expectation(Poisson(), y, mu, v), Poisson().expectation(y, mu, v), strict=True):
        assert_allclose(one, other, rtol=1e-9)
