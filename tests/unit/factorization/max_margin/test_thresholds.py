"""Thresholds of users with a mean and a covariance that are learnt."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.utils._param_validation import InvalidParameterError

from skpref import GibbsIPM3F, GibbsM3F
from skpref.factorization.max_margin import m3f_chain
from skpref.factorization.max_margin.m3f_chain import MarginPrior, Population, draw_population, draw_thresholds

pytestmark = pytest.mark.filterwarnings("ignore:The chains of Gibbs.* are not stationary")
RHO = np.array([-2.0, 0.0, 3.0])


def draw_shifts(seed=0, n_users=150, n_items=60, n=3500):
    """Eight levels, most of them high; users differ by a shift."""
    rng = np.random.default_rng(seed)
    X = np.unique(np.column_stack([rng.integers(0, n_users, n), rng.integers(0, n_items, n)]), axis=0)
    z = 0.7 * rng.standard_normal(n_users)[X[:, 0]] + 0.5 * rng.standard_normal(n_items)[X[:, 1]]
    z += 0.8 * rng.standard_normal(len(X))
    return X, np.searchsorted(np.quantile(z, np.cumsum([0.02, 0.03, 0.04, 0.08, 0.12, 0.2, 0.24])), z)


def test_independent_thresholds_are_a_diagonal_precision():
    rng = np.random.default_rng(0)
    own, linear, common = rng.uniform(0.1, 2.0, (40, 3)), rng.standard_normal((40, 3)), np.array([0.5, 1.0, 2.0])
    wanted = draw_thresholds(own, linear, Population(RHO, common), 1, 2)
    assert_allclose(draw_thresholds(own, linear, Population(RHO, np.diag(common)), 1, 2), wanted, rtol=1e-12)


def test_joint_draws_have_mean_and_covariance(monkeypatch):
    rng, n = np.random.default_rng(0), 60_000
    root = rng.standard_normal((3, 3))
    common, own, linear = root @ root.T, np.array([0.3, 1.0, 0.1]), np.array([1.0, -2.0, 0.5])
    monkeypatch.setattr(m3f_chain, "BLOCK", 9 * 7_000)  # several parts
    theta = draw_thresholds(np.tile(own, (n, 1)), np.tile(linear, (n, 1)), Population(RHO, common), 1, 2)
    covariance = np.linalg.inv(common + np.diag(own))
    error = np.sqrt(np.diag(covariance) / n)
    assert np.all(np.abs(theta.mean(axis=0) - covariance @ (linear + common @ RHO)) < 6.0 * error)
    assert_allclose(np.cov(theta.T), covariance, atol=6.0 * np.sqrt(2.0 / n) * covariance.max())


def test_many_users_tell_the_population():
    rng, root = np.random.default_rng(0), np.array([[2.0, 0.0, 0.0], [1.5, 0.5, 0.0], [1.0, 0.2, 0.3]])
    theta = RHO + 1.0 + rng.standard_normal((50_000, 3)) @ root.T
    prior = MarginPrior(1.0, RHO, 1.5, own=True, learnt=True)
    population = draw_population(theta, prior, 3, 4)
    assert_allclose(population.mean, RHO + 1.0, atol=0.06)
    assert_allclose(np.linalg.inv(population.precision), root @ root.T, atol=0.15)
    many = draw_population(np.tile(theta, 20), MarginPrior(1.0, np.tile(RHO, 20), 1.5, own=True, learnt=True), 3, 4)
    assert_allclose(1.0 / many.precision, np.tile((root @ root.T).diagonal(), 20), rtol=0.05)


def test_all_users_at_the_start_are_given_the_room_of_the_prior():
    prior = MarginPrior(1.0, RHO, 1.5, own=True, learnt=True)
    population = draw_population(np.tile(RHO, (9, 1)), prior, 3, 4)
    assert_allclose(population.precision, 1.5**-2)


@pytest.mark.parametrize("model", [GibbsM3F(30), GibbsIPM3F(prediction="scores")], ids=["m3f", "ipm3f"])
def test_most_levels_high_are_no_trouble(model):
    X, y = draw_shifts()
    test = np.random.default_rng(1).random(len(y)) < 0.25
    error = {}
    for means in (None, "symmetric"):
        # The errors of single chains differ by a hundredth.
        chains = [clone(model).set_params(threshold_means=means, random_state=seed) for seed in range(3)]
        error[means] = -np.mean([chain.fit(X[~test], y[~test]).score(X[test], y[test]) for chain in chains])
    always = np.abs(np.median(y[~test]) - y[test]).mean()
    assert error[None] < min(0.95 * always, 0.98 * error["symmetric"])


@pytest.mark.parametrize("model", [GibbsM3F(3), GibbsIPM3F()], ids=["m3f", "ipm3f"])
def test_new_users_are_folded_into_the_population(model):
    X, y = draw_shifts()
    old = X[:, 0] < 120
    model = clone(model).set_params(max_iter=15, burn_in=5, random_state=0).fit(X[old], y[old])
    few = ~old & (np.arange(len(y)) % 6 == 0)
    model.fold_in(X[few], y[few])
    rows = np.isin(np.arange(model.user_ids_.size), np.flatnonzero(model.user_ids_ >= 120))
    of_new, of_old = model.thresholds_[rows], model.thresholds_[~rows]
    assert_allclose(of_new.mean(axis=0), of_old.mean(axis=0), atol=3.0 * of_old.std(axis=0).max())
    assert np.all(of_new.std(axis=0) < 2.0 * of_old.std(axis=0) + 1.0)


def test_means_are_listed_or_symmetric():
    X, y = draw_shifts(n=400)
    with pytest.raises(InvalidParameterError, match="threshold_means"):
        GibbsM3F(threshold_means="data").fit(X, y)
    plain = GibbsM3F(2, max_iter=4, burn_in=1, threshold_means="symmetric", random_state=0).fit(X, y)
    listed = GibbsM3F(2, max_iter=4, burn_in=1, threshold_means=27.0 * (np.arange(1, 8) - 4.0), random_state=0).fit(
        X, y
    )
    assert np.array_equal(plain.thresholds_, listed.thresholds_)


@pytest.mark.parametrize("copies", [1, 11])
def test_draws_of_the_population_of_few_users_have_the_moments_of_its_posterior(copies):
    # With more than 30 thresholds these are independent, each with its marginal posterior.
    rng, n, draws = np.random.default_rng(0), 4, 3000
    theta, rho = np.tile(rng.standard_normal((n, 3)), copies), np.tile(RHO, copies)
    prior = MarginPrior(1.0, rho, 1.5, own=True, learnt=True)
    scatter, size = prior.threshold_scatter(theta), rho.size
    drawn = [draw_population(theta, prior, 5, sweep) for sweep in range(draws if copies == 1 else 400)]
    mean, precision = np.array([p.mean for p in drawn]), np.array([p.precision for p in drawn])
    centre = (rho + theta.sum(axis=0)) / (n + 1.0)
    if copies == 1:
        assert_allclose(precision.mean(axis=0), (size + 2 + n) * np.linalg.inv(scatter), atol=0.06)
        assert_allclose(np.cov(mean.T), scatter / (n + 1.0) ** 2, atol=0.1)
    else:
        diagonal = np.diag(scatter)
        assert np.mean(precision * diagonal) == pytest.approx(3 + n, rel=0.03)
        assert np.mean((mean - centre) ** 2 * precision) == pytest.approx(1.0 / (n + 1.0), rel=0.03)
    error = np.sqrt(np.diag(scatter)) / (n + 1.0)
    assert np.all(np.abs(mean.mean(axis=0) - centre) < 6.0 * error / np.sqrt(len(drawn)))


@pytest.mark.parametrize(("size", "joint"), [(30, True), (31, False)])
def test_up_to_thirty_thresholds_are_correlated(size, joint):
    theta, rho = np.random.default_rng(0).standard_normal((5, size)), np.linspace(-2.0, 2.0, size)
    prior = MarginPrior(1.0, rho, 1.5, own=True, learnt=True)
    scatter = prior.threshold_scatter(theta)
    assert draw_population(theta, prior, 1, 2).precision.ndim == 1 + joint
    expected = m3f_chain.expected_population(theta, prior)
    precision = 6.0 * (np.linalg.inv(scatter) if joint else 1.0 / np.diag(scatter))
    assert_allclose(expected["threshold_precision"], precision, rtol=1e-4, atol=1e-4)
    assert_allclose(expected["threshold_mean"], (rho + theta.sum(axis=0)) / 6.0, rtol=1e-5)
    # Minus the log of a multivariate t with size + 2 degrees of freedom, or of its marginals with 3.
    parts = [scatter] if joint else scatter.diagonal()[:, None, None]
    wanted = sum(0.5 * (5 + len(part) + 2.0) * np.linalg.slogdet(part / 1.5**2)[1] for part in parts)
    assert_allclose(m3f_chain.threshold_penalty(theta, prior), wanted)
    fixed = MarginPrior(1.0, rho, 1.5, own=True)
    assert_allclose(m3f_chain.threshold_penalty(theta, fixed), ((theta - rho) ** 2).sum() / (2.0 * 1.5**2))
    plain = m3f_chain.expected_population(theta, fixed)
    assert_allclose(plain["threshold_precision"], np.full(size, 1.5**-2))
    assert plain["threshold_mean"] is rho
