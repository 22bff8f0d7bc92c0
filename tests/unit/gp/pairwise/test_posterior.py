"""The record of a fit, and what is predicted from it, against dense Gaussian algebra."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

from skpref.data import Comparisons
from skpref.exceptions import DataError
from skpref.gp.entities import Items
from skpref.gp.pairwise import posterior as pair_posterior
from skpref.gp.pairwise.fit import PairConfig, PairData, fit_pairs
from skpref.inference.basis import InducingBasis
from skpref.inference.scale import GammaScale
from skpref.inference.svi import Schedule
from skpref.kernels import ProductMatern
from skpref.likelihoods import PairwiseProbit
from tests.examples import examples

KERNEL = ProductMatern([1.0, 2.0])
seeds = st.integers(0, 2**32 - 1)
few = examples(10)


def make(seed=0, *, features=True, offsets=True, order=True, n_inducing=3, inference="vb"):
    """A fit of 5 items, and 4 new ones."""
    rng = np.random.default_rng(seed)
    X, left = rng.normal(size=(5, 2)), rng.integers(0, 5, 12)
    right = (left + rng.integers(1, 5, 12)) % 5
    comparisons = Comparisons(left, right, rng.integers(0, 2, 12).astype(float), np.ones(12), 5)
    config = PairConfig(
        likelihood=PairwiseProbit(),
        inference=inference,
        n_inducing=n_inducing,
        inducing="random",
        schedule=Schedule(max_iter=5),
        scale=GammaScale.prior(2.0, 2.0),
        offsets=offsets,
        order=order,
        learn_length_scales=False,
        n_restarts=None,
    )
    fit = fit_pairs(PairData(X if features else None, comparisons), KERNEL if features else None, config, rng)
    table = np.vstack([X, rng.normal(size=(4, 2))])
    return rng, fit, Items(table if features else None, np.array([0, 1, 2, 3, 4, -1, -1, -1, -1]))


def dense(fit, items, *, item_effects=True):
    """Mean and covariance of (u, order effect) from the blocks of the state."""
    posterior, state, n = fit.posterior, fit.state, items.size
    seen = items.position >= 0
    pick = np.zeros((n, 5))
    pick[np.flatnonzero(seen), items.position[seen]] = 1.0
    columns, C = [], np.zeros((n + 1, n + 1))
    if posterior.basis is not None:
        L, points = np.tril(posterior.basis.chol), posterior.basis.points
        phi = np.linalg.solve(L, KERNEL(points, items.features)).T
        columns.append(phi)
        C[:n, :n] += (KERNEL(items.features) - phi @ phi.T) / state.scales["f"].mean
    mean = np.zeros(n + 1)
    if posterior.has_offsets and posterior.offset_variance is None:
        columns.append(pick)
    elif posterior.has_offsets:
        offsets = state.blocks["offsets"]
        mean[:n] += pick @ offsets.mean
        C[:n, :n] += pick @ np.diag(offsets.covariance_diagonal) @ pick.T
    if posterior.has_offsets and item_effects:
        C[:n, :n] += np.diag(np.where(seen, 0.0, 1.0 / state.scales["offset"].mean))
    A = np.hstack([*columns, np.zeros((n, int(posterior.has_order)))])
    if posterior.has_order:
        A = np.vstack([A, np.eye(A.shape[1])[-1]])
    else:
        A = np.vstack([A, np.zeros(A.shape[1])])
    if A.shape[1]:
        block = state.blocks["f"]
        S = np.linalg.inv(np.tril(block.precision) + np.tril(block.precision, -1).T)
        mean += A @ (S @ block.linear)
        C += A @ S @ A.T
    return mean, C


PARTS = [
    {"features": f, "offsets": o, "order": e}
    for f in (True, False)
    for o in (True, False)
    for e in (True, False)
    if f or o
]


@pytest.mark.parametrize("parts", PARTS, ids=lambda p: "-".join(k for k, v in p.items() if v))
@pytest.mark.parametrize("mean_field", [False, True])
@few
@given(seed=seeds)
def test_predictions_are_dense_gaussian_algebra(parts, mean_field, seed):
    with pytest.MonkeyPatch.context() as patch:
        if mean_field:
            patch.setattr("skpref.gp.pairwise.fit.PairModel.joint", lambda self, basis: not self.config.offsets)
        rng, fit, items = make(seed, **parts)
    posterior, n = fit.posterior, items.size
    mean, C = dense(fit, items)
    assert_allclose(posterior.utility(items)[0], mean[:n], atol=1e-8)
    assert_allclose(posterior.utility(items)[1], np.diag(C)[:n], rtol=1e-7, atol=1e-9)
    assert_allclose(posterior.covariance(items)[0], mean[:n], atol=1e-8)
    assert_allclose(posterior.covariance(items)[1], C[:n, :n], atol=1e-8)
    left = rng.integers(0, n, 20)
    right = (left + rng.integers(1, n, 20)) % n
    D = np.eye(n + 1)[left] - np.eye(n + 1)[right] + np.eye(n + 1)[-1]
    for pairs, dense_C in ((posterior.pairs(items, left, right), C),):
        assert_allclose(pairs[0], D @ mean, atol=1e-8)
        assert_allclose(pairs[1], np.einsum("ij,jk,ik->i", D, dense_C, D), rtol=1e-7, atol=1e-8)
    without = dense(fit, items, item_effects=False)[1]
    assert_allclose(posterior.utility(items, item_effects=False)[1], np.diag(without)[:n], rtol=1e-7, atol=1e-9)
    assert_allclose(
        posterior.pairs(items, left, right, item_effects=False)[1],
        np.einsum("ij,jk,ik->i", D, without, D),
        rtol=1e-7,
        atol=1e-8,
    )
    assert_allclose(posterior.order_effect, (mean[-1], C[-1, -1]), rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("mean_field", [False, True])
@pytest.mark.parametrize("n_inducing", [5, 3])
@few
@given(seed=seeds)
def test_centred_utilities_are_measured_from_the_average_of_the_seen(n_inducing, mean_field, seed):
    with pytest.MonkeyPatch.context() as patch:
        if mean_field:
            patch.setattr("skpref.gp.pairwise.fit.PairModel.joint", lambda self, basis: False)
        _, fit, items = make(seed, n_inducing=n_inducing)
    mean, C = dense(fit, items)
    n = items.size
    T = np.eye(n)
    T[:, :5] -= 0.2
    got_mean, got = fit.posterior.covariance(items, centred=True)
    assert_allclose(got_mean, T @ mean[:n], atol=1e-8)
    assert_allclose(got, T @ C[:n, :n] @ T.T, atol=1e-7)
    assert abs(got_mean[:5].mean()) < 1e-8
    assert_allclose(fit.posterior.utility(items, centred=True)[1], np.diag(got), atol=1e-8)


def test_white_noise_of_an_item_is_in_its_average_residual():
    rng = np.random.default_rng(0)
    X, kernel = rng.normal(size=(6, 2)), RBF(1.0) + WhiteKernel(0.5)
    basis = InducingBasis.from_points(kernel, rng.normal(size=(2, 2)))
    phi = np.linalg.solve(basis.chol, RBF(1.0)(basis.points, X)).T
    R = kernel(X) - phi @ phi.T
    average = pair_posterior.AverageResidual.from_basis(basis, X[:4])
    assert_allclose(average.covariance(basis, X, phi, np.array([0, 1, 2, 3, -1, -1])), R[:, :4].mean(axis=1))
    assert_allclose(average.variance, R[:4, :4].mean())


@few
@given(seed=seeds)
def test_an_item_against_itself_differs_by_the_order_effect_alone(seed):
    _, fit, items = make(seed)
    a = np.arange(items.size)
    mean, variance = fit.posterior.pairs(items, a, a)
    assert_allclose(mean, fit.posterior.order_effect[0], atol=1e-12)
    assert_allclose(variance, fit.posterior.order_effect[1], rtol=1e-8, atol=1e-12)


def test_chunks_do_not_show(monkeypatch):
    rng, fit, items = make(1)
    left = rng.integers(0, 9, 30)
    right = (left + rng.integers(1, 9, 30)) % 9
    whole = *fit.posterior.utility(items), *fit.posterior.pairs(items, left, right)
    original = pair_posterior.chunks
    monkeypatch.setattr(pair_posterior, "chunks", lambda n: original(n, 4))
    parts = *fit.posterior.utility(items), *fit.posterior.pairs(items, left, right)
    for a, b in zip(whole, parts, strict=True):
        assert_allclose(a, b, rtol=1e-10, atol=1e-12)


def test_draws_have_the_moments_of_the_posterior():
    # 40,000 draws: five standard errors of means and of variances.
    _, fit, items = make(2)
    draws = fit.posterior.sample_residuals_independently(items, 40_000, np.random.default_rng(3))
    mean, variance = fit.posterior.utility(items, centred=True)
    assert (np.abs(draws.mean(axis=0) - mean) < 5.0 * np.sqrt(variance / 40_000)).all()
    assert_allclose(draws.var(axis=0), variance, rtol=5.0 * np.sqrt(2.0 / 40_000))


def test_a_joint_covariance_of_too_many_items_is_refused(monkeypatch):
    _, fit, items = make(3)
    monkeypatch.setattr(pair_posterior, "MOST_JOINT", 8)
    with pytest.raises(DataError, match="return_std"):
        fit.posterior.covariance(items)


def test_taking_items():
    _, _, items = make(4)
    taken = items.take(np.array([6, 1]))
    assert_array_equal(taken.position, [-1, 1])
    assert_array_equal(taken.features, items.features[[6, 1]])
    assert taken.size == 2


def test_unseen_items_may_stand_anywhere_and_seen_ones_twice():
    # Items without a row of their own are told apart by their place, which must not be mistaken for a seen item's row.
    rng, fit, items = make(5)
    mixed = items.take(np.array([5, 6, 0, 7, 1, 2, 2, 8, 3, 4, 1]))
    mean, C = dense(fit, mixed)
    n = mixed.size
    assert_allclose(fit.posterior.covariance(mixed)[1], C[:n, :n], atol=1e-8)
    left, right = rng.integers(0, n, 30), rng.integers(0, n, 30)
    D = np.eye(n + 1)[left] - np.eye(n + 1)[right] + np.eye(n + 1)[-1]
    assert_allclose(fit.posterior.pair_covariance(mixed, left, right), D @ C @ D.T, atol=1e-8)
    assert_allclose(fit.posterior.pairs(mixed, left, right)[0], D @ mean, atol=1e-8)


def test_as_many_items_as_allowed_have_a_joint_covariance(monkeypatch):
    _, fit, items = make(3)
    monkeypatch.setattr(pair_posterior, "MOST_JOINT", items.size)
    assert fit.posterior.covariance(items)[1].shape == (items.size, items.size)


def test_white_noise_of_an_item_is_in_its_variance(monkeypatch):
    monkeypatch.setitem(globals(), "KERNEL", RBF(1.0) + WhiteKernel(0.5))
    _, fit, items = make(3)
    mean, C = dense(fit, items)
    assert_allclose(fit.posterior.utility(items)[1], np.diag(C)[:9], rtol=1e-7)
    assert_allclose(fit.posterior.covariance(items)[0], mean[:9], atol=1e-8)
    assert_allclose(fit.posterior.covariance(items)[1], C[:9, :9], atol=1e-8)
