"""Full covariances of features: moments, exact updates, patterns that rows share, factors that are turned."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from skpref import VariationalFM, VariationalFMClassifier
from skpref._compiled import fm
from skpref._compiled.fm_full import log_determinants
from skpref._compiled.jit import limited_threads
from skpref.factorization.machine.balance import balance_factors, bipartite_sides
from skpref.factorization.machine.fields import design_of
from skpref.factorization.machine.fit import FitOptions, coordinate_ascent
from skpref.factorization.machine.model import Bias, Prior, compress, start_machine
from skpref.factorization.machine.posterior import FMPosterior
from skpref.likelihoods import Gaussian, PairwiseProbit
from tests.examples import examples

KINDS = "pair", "rated", "three", "dense", "scaled"


def features(kind, rng, n=14):
    """Rows of users and items; with what users have rated; with a third field; of anything; of one value a user."""
    if kind == "dense":
        return sparse.random_array((n, 7), density=0.6, rng=rng, data_sampler=rng.standard_normal, format="csr")
    u, i, t = rng.integers(0, 4, n), rng.integers(0, 3, n), rng.integers(0, 3, n)
    parts = [np.eye(4)[u], np.eye(3)[i]]
    if kind == "rated":
        parts.append((rng.integers(0, 2, (4, 3)) * 0.7)[u])
    if kind == "three":
        parts.append(np.eye(3)[t])
    if kind == "scaled":
        parts[0] = parts[0] * rng.standard_normal(4)
    return sparse.csr_array(np.hstack(parts))


def problem(seed, kind, d=2, likelihood=None):
    """A machine with full covariances somewhere, and data that know nothing of it."""
    rng = np.random.default_rng(seed)
    X = features(kind, rng)
    n, K = X.shape
    likelihood = Gaussian(2.0) if likelihood is None else likelihood
    y = rng.standard_normal(n) if isinstance(likelihood, Gaussian) else rng.integers(0, 2, n).astype(float)
    weight, group = rng.uniform(0.2, 3.0, n), (np.arange(K) >= 4).astype(int)
    machine = start_machine(compress(X), weight, group, d, likelihood, rng).convert_posterior(full=True)
    root = rng.standard_normal((K, 1 + d, 1 + d))
    prior = Prior(rng.standard_normal((2, 1 + d)), rng.uniform(0.3, 3.0, (2, 1 + d)), group)
    variance = 0.2 * root @ root.transpose(0, 2, 1) + 0.1 * np.eye(1 + d)
    mean = rng.standard_normal((K, 1 + d))
    machine = replace(machine, bias=Bias(0.4, 0.3), mean=mean, variance=variance, prior=prior)
    return machine, X, y, weight


def evidence_bound(machine, X, y, weight):
    mu, v = machine.moments(compress(X))
    return machine.bound(machine.slopes(y, mu, v, weight)[0])


def plan_of(K, **options):
    return replace(FitOptions(30, 0.0, True, True, np.ones(K, dtype=bool), True, np.dtype(np.float64)), **options)


# -------------------------------------------------------------------------------------------------------------- moments
@examples(20)
@given(st.integers(0, 2**32 - 1), st.sampled_from(KINDS), st.integers(0, 3))
def test_variance_is_the_diagonal_of_the_covariance(seed, kind, d):
    machine, X, *_ = problem(seed, kind, d)
    mu, v = machine.moments(compress(X))
    # Each written down from docs/maths section 9 by itself: the covariance by features, the moments by joining sets.
    np.testing.assert_allclose(np.diagonal(FMPosterior(machine, machine, 0.0, 1.0).covariance(X)), v, rtol=1e-9)
    x, m, V = X.toarray(), machine.mean[:, 0], machine.mean[:, 1:]
    wanted = 0.4 + x @ m + 0.5 * (((x @ V) ** 2).sum(axis=1) - (x**2 @ V**2).sum(axis=1))
    np.testing.assert_allclose(mu, wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("kind", ["pair", "three", "dense"])
def test_draws_have_the_moments_and_the_covariance(kind, full):
    machine, X, *_ = problem(0, kind)
    machine = machine.convert_posterior(full=full)
    posterior, n = FMPosterior(machine, machine, 1.0, 0.5), 2_000
    draws = posterior.draws(X, n, np.random.default_rng(0))
    mean, variance = posterior.moments(X)
    assert np.all(np.abs(draws.mean(axis=1) - mean) < 5.0 * np.sqrt(variance / n))
    centred = draws - draws.mean(axis=1, keepdims=True)
    products = centred[:, None, :] * centred
    se = products.std(axis=2) / np.sqrt(n)
    assert np.all(np.abs(products.mean(axis=2) - posterior.covariance(X)) < 5.5 * se + 1e-12)


@examples(20)
@given(st.integers(0, 2**32 - 1), st.sampled_from(KINDS))
def test_diagonal_matrices_are_the_factorised_posterior(seed, kind):
    machine, X, y, weight = problem(seed, kind)
    independent = machine.convert_posterior(full=False)
    again = independent.convert_posterior(full=True)
    np.testing.assert_array_equal(again.variances, machine.variances)
    for a, b in zip(again.moments(compress(X)), independent.moments(compress(X)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
    bound, wanted = (evidence_bound(m, X, y, weight) for m in (again, independent))
    np.testing.assert_allclose(bound, wanted, rtol=1e-9)


def test_log_determinants():
    root = np.random.default_rng(0).standard_normal((5, 4, 4))
    C = root @ root.transpose(0, 2, 1)
    np.testing.assert_allclose(log_determinants(C), np.linalg.slogdet(C)[1], rtol=1e-10)
    assert np.isnan(log_determinants(-C)).all()


# --------------------------------------------------------------------------------------------------------------- fields
@examples(20)
@given(st.integers(0, 2**32 - 1), st.sampled_from(KINDS))
def test_rows_are_sums_of_patterns(seed, kind):
    X = features(kind, np.random.default_rng(seed))
    design = design_of(X)
    n_fields, n = design.codes.shape
    R = sparse.csr_array((np.ones(n_fields * n), design.codes.T.ravel(), np.arange(n + 1) * n_fields))
    R.resize(n, design.patterns.shape[0])
    np.testing.assert_array_equal((R @ design.patterns).toarray(), X.toarray())
    # A column belongs to one field.
    held = [np.unique(design.field(f).indices) for f in range(n_fields)]
    assert sum(map(len, held)) == np.unique(np.concatenate(held)).size
    start, rows = design.holders
    for p in range(start.size - 1):
        field = np.searchsorted(design.offsets, p, side="right") - 1
        assert rows[start[p] : start[p + 1]].tolist() == np.flatnonzero(design.codes[field] == p).tolist()


def test_what_users_have_rated_is_looked_at_once():
    rng = np.random.default_rng(0)
    u, i = rng.integers(0, 30, 2000), rng.integers(0, 20, 2000)
    rated, age = rng.integers(0, 2, (30, 20)) / 3.0, rng.standard_normal(30)
    X = sparse.csr_array(np.hstack([np.eye(30)[u], np.eye(20)[i], rated[u], age[u][:, None]]))
    design = design_of(X)
    assert design.offsets.tolist() == [0, 30, 50]
    assert not design.two_sided
    assert design_of(X[:, :50]).two_sided
    # One row whose age is another: the age is no function of the user any more, and is a field.
    X = X.toarray()
    X[7, -1] += 1.0
    assert design_of(sparse.csr_array(X)).offsets.tolist() == [0, 30, 50, 2050]


def test_two_values_that_differ_between_rows_are_a_field_of_two_patterns():
    rng = np.random.default_rng(0)
    u, i, answer = (rng.integers(0, size, 2000) for size in (30, 20, 2))
    X = sparse.csr_array(np.hstack([np.eye(30)[u], np.eye(20)[i], np.eye(2)[answer]]))
    assert design_of(X).offsets.tolist() == [0, 30, 50, 52]


# --------------------------------------------------------------------------------------------------------------- ascent
@examples(15)
@given(st.integers(0, 2**32 - 1), st.sampled_from(KINDS), st.integers(0, 3))
def test_an_update_is_the_best_for_its_feature(seed, kind, d):
    machine, X, y, weight = problem(seed, kind, d)
    rng = np.random.default_rng(seed)
    k = int(rng.integers(X.shape[1]))
    free = np.arange(X.shape[1]) == k
    plan = plan_of(free.size, free=free, free_bias=False, learn_priors=False, learn_likelihood=False, max_iter=80)
    after, bounds, _ = coordinate_ascent(machine, (X, y, weight), plan)
    best = evidence_bound(after, X, y, weight)
    np.testing.assert_allclose(bounds[-1], best, rtol=1e-10)
    assert best >= evidence_bound(machine, X, y, weight)
    np.testing.assert_array_equal(after.mean[~free], machine.mean[~free])
    np.testing.assert_array_equal(after.variance[~free], machine.variance[~free])
    root = np.linalg.cholesky(after.variance[k])
    for _ in range(5):
        # In units of the posterior itself every direction matters alike.
        turn = np.eye(1 + d) + 0.03 * rng.standard_normal((1 + d, 1 + d))
        mean, variance = after.mean.copy(), after.variance.copy()
        mean[k] += 0.03 * root @ rng.standard_normal(1 + d)
        variance[k] = root @ turn @ turn.T @ root.T
        assert evidence_bound(replace(after, mean=mean, variance=variance), X, y, weight) <= best + 1e-9 * abs(best)


@pytest.mark.parametrize("kind", KINDS)
def test_the_full_bound_is_tighter(kind):
    machine, X, y, weight = problem(1, kind)
    plan = plan_of(X.shape[1], max_iter=2000, tol=1e-9, learn_priors=False, learn_likelihood=False)
    independent, *_ = coordinate_ascent(machine.convert_posterior(full=False), (X, y, weight), plan)
    start = evidence_bound(independent, X, y, weight)
    _, bounds, _ = coordinate_ascent(independent.convert_posterior(full=True), (X, y, weight), plan)
    assert bounds[-1] > start + 1e-3


@examples(15)
@given(st.integers(0, 2**32 - 1), st.integers(1, 3))
def test_rotated_factors_give_the_same_moments(seed, d):
    machine, X, *_ = problem(seed, "pair", d)
    sides = bipartite_sides(design_of(X), machine.prior.group)
    rotated = balance_factors(machine, sides)
    if np.unique(sides).size < 2:  # no rows with an entry on one side
        assert rotated is None
        return
    for a, b in zip(rotated.moments(compress(X)), machine.moments(compress(X)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-9)
    # Both sides have the same second moments about their means, diagonal, and weights that go with no factor.
    for side in (0, 1):
        features_of_side = sides == side
        far = rotated.mean[features_of_side] - rotated.prior.nu[side]
        S = (far.T @ far + rotated.variance[features_of_side].sum(axis=0)) / features_of_side.sum()
        np.testing.assert_allclose(S[1:, 1:] - np.diag(np.diag(S)[1:]), 0.0, atol=1e-7 * np.trace(S))
        np.testing.assert_allclose(S[0, 1:], 0.0, atol=1e-7 * np.trace(S))

    # The sum over groups of n log E (theta - nu)^2 less the entropy: what learnt priors pay, hyper-priors aside.
    def price(m):
        far = [m.mean[sides == s] - m.prior.nu[s] for s in (0, 1)]
        parts = [f**2 + m.variances[sides == s] for s, f in enumerate(far)]
        return (
            sum(0.5 * len(p) * np.log(p.mean(axis=0)).sum() for p in parts) - 0.5 * log_determinants(m.variance).sum()
        )

    assert price(rotated) <= price(machine) + 1e-9 * abs(price(machine))
    # Which side comes first does not matter.
    np.testing.assert_allclose(price(balance_factors(machine, 1 - sides)), price(rotated), rtol=1e-8)


def test_groups_on_both_sides_are_not_turned():
    machine, X, *_ = problem(0, "pair")
    assert bipartite_sides(design_of(X), machine.prior.group).tolist() == machine.prior.group.tolist()
    assert bipartite_sides(design_of(X), np.zeros(X.shape[1], dtype=int)) is None
    for kind in KINDS[1:]:
        X = features(kind, np.random.default_rng(0))
        assert bipartite_sides(design_of(X), (np.arange(X.shape[1]) >= 4).astype(int)) is None


# ----------------------------------------------------------------------------------------------------------- estimators
@pytest.mark.parametrize("kind", KINDS)
def test_same_bits_for_any_number_of_threads(kind, monkeypatch):
    monkeypatch.setattr(fm, "_SMALL", 0)
    results = []
    for n_threads in (1, 2):
        machine, X, y, weight = problem(2, kind, likelihood=PairwiseProbit())
        with limited_threads(n_threads):
            after, bounds, _ = coordinate_ascent(machine, (X, y, weight), plan_of(X.shape[1], max_iter=3))
        results.append((after.mean, after.variance, np.array(bounds)))
    for a, b in zip(*results, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("make", [VariationalFM, VariationalFMClassifier])
def test_posteriors_may_be_changed_between_fits(make):
    rng = np.random.default_rng(0)
    X = features("rated", rng, n=80)
    z = X @ rng.standard_normal(X.shape[1])
    y = (z > np.median(z[:20])).astype(int)
    model = make(n_factors=1, warm_start=True, random_state=0).fit(X, y)
    assert model.posterior_.machine.variance.shape == (X.shape[1], 2, 2)
    for options, n_axes in (({"posterior": "factorised"}, 2), ({"posterior": "full"}, 3), ({"batch_size": 20}, 2)):
        model.set_params(max_iter=3, **options).fit(X, y)
        assert model.posterior_.machine.variance.ndim == n_axes
        assert model.weights_std_.shape == (X.shape[1],)
        model.partial_fit(X[:20], y[:20])
        assert model.posterior_.machine.variance.ndim == n_axes
