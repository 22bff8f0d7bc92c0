"""Psi statistics: expectations, their adjoints, and the search for the input of a row."""

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from skpref._compiled.psi import fit_rows, psi_first, psi_products, psi_statistics, psi_vjp
from tests.examples import examples

seeds = st.integers(0, 2**32 - 1)
few = examples(25)


def draw(seed):
    rng = np.random.default_rng(seed)
    n, M, Q = rng.integers(1, 20), rng.integers(1, 6), rng.integers(1, 4)
    mu, s = rng.normal(size=(n, Q)), np.exp(rng.normal(-1.0, 1.0, (n, Q)))
    return rng, mu, s, rng.normal(size=(M, Q)), np.exp(rng.normal(-1.0, 1.0, Q)), float(np.exp(rng.normal()))


def plain(mu, s, Z, w, a):
    """The formulas at the head of the module, as arrays."""
    d = mu[:, None] - Z
    c = w / (w * s + 1.0)
    e = w / (2.0 * w * s + 1.0)
    psi1 = a / np.sqrt(np.prod(w * s + 1.0, axis=1))[:, None] * np.exp(-0.5 * np.einsum("nq,nmq->nm", c, d**2))
    apart = np.einsum("q,mlq->ml", w, (Z[:, None] - Z) ** 2)
    both = np.einsum("nq,nmlq->nml", e, (d[:, :, None] + d[:, None]) ** 2)
    scale = a**2 / np.sqrt(np.prod(2.0 * w * s + 1.0, axis=1))
    return psi1, np.sum(scale[:, None, None] * np.exp(-0.25 * (apart + both)), axis=0)


@few
@given(seed=seeds)
def test_statistics_equal_the_plain_twin(seed):
    _, *given_ = draw(seed)
    for ours, reference in zip(psi_statistics(*given_), plain(*given_), strict=True):
        assert_allclose(ours, reference, rtol=1e-12, atol=1e-14)


def test_statistics_are_expectations():
    # Gauss-Hermite quadrature in each of two dimensions is exact to rounding for these smooth functions.
    _, mu, s, Z, w, a = draw(1)
    mu, s, Z, w = mu[:1, :1], s[:1, :1], Z[:, :1], w[:1]
    node, weight = np.polynomial.hermite_e.hermegauss(60)
    x = mu[0, 0] + np.sqrt(s[0, 0]) * node
    k = a * np.exp(-0.5 * w[0] * (x[:, None] - Z[:, 0]) ** 2)
    weight = weight / weight.sum()
    psi1, psi2 = psi_statistics(mu, s, Z, w, a)
    assert_allclose(psi1[0], weight @ k, rtol=1e-10)
    assert_allclose(psi2, (k.T * weight) @ k, rtol=1e-10)


@few
@given(seed=seeds)
def test_a_point_gives_kernel_values(seed):
    _, mu, s, Z, w, a = draw(seed)
    K = a * np.exp(-0.5 * np.einsum("q,nmq->nm", w, (mu[:, None] - Z) ** 2))
    psi1, psi2 = psi_statistics(mu, 0.0 * s, Z, w, a)
    assert_allclose(psi1, K, rtol=1e-12, atol=1e-300)
    assert_allclose(psi2, K.T @ K, rtol=1e-12, atol=1e-300)


@few
@given(seed=seeds)
def test_adjoints_are_slopes(seed):
    rng, mu, s, Z, w, a = draw(seed)
    G1, G2 = rng.normal(size=(mu.shape[0], Z.shape[0])), rng.normal(size=(Z.shape[0], Z.shape[0]))
    G2 = G2 + G2.T
    arguments = [mu, np.log(s), Z, np.log(w), np.log(a)]
    directions = [rng.normal(size=np.shape(x)) for x in arguments]

    def value(t):
        m, log_s, z, log_w, log_a = (x + t * u for x, u in zip(arguments, directions, strict=True))
        psi1, psi2 = psi_statistics(m, np.exp(log_s), z, np.exp(log_w), float(np.exp(log_a)))
        return np.array([np.sum(G1 * psi1), np.sum(G2 * psi2)])

    h = 1e-4
    slope = (value(-2 * h) - 8.0 * value(-h) + 8.0 * value(h) - value(2 * h)) / (12.0 * h)
    for k, pair in enumerate([(G1, 0.0 * G2), (0.0 * G1, G2)]):
        gmu, gs, gZ, gw, ga = psi_vjp(mu, s, Z, w, a, *pair)
        parts = [np.sum(g * u) for g, u in zip((gmu, gs * s, gZ, gw * w, ga), directions, strict=True)]
        size = sum(map(abs, parts)) + np.abs(value(0.0)[k])
        assert abs(sum(parts) - slope[k]) < 1e-8 * max(size, np.abs(pair[k]).sum() * a ** (k + 1))


def test_threads_do_not_change_bits():
    rng = np.random.default_rng(0)
    mu, Z, w = rng.normal(size=(50, 3)), rng.normal(size=(7, 3)), np.ones(3)
    s, G1, G2 = np.exp(rng.normal(size=(50, 3))), rng.normal(size=(50, 7)), np.eye(7)
    here = []

    def everything(into):
        into.extend(psi_statistics(mu, s, Z, w, 1.3))
        into.extend(psi_vjp(mu, s, Z, w, 1.3, G1, G2))
        into.extend(fit_rows(mu, s, Z, w, 1.3, G1, -G2, max_iter=20, tol=1e-9))

    everything(here)
    there = []
    worker = threading.Thread(target=everything, args=(there,))  # where only the serial loops may run
    worker.start()
    worker.join()
    for part, other in zip(here, there, strict=True):
        assert_array_equal(part, other)


@few
@given(seed=seeds)
def test_rows_climb_and_end_where_the_gradient_is_zero(seed):
    rng, mu, s, Z, w, a = draw(seed)
    G = rng.normal(size=(mu.shape[0], Z.shape[0]))
    root = rng.normal(size=(Z.shape[0], Z.shape[0]))
    W = -0.3 * root @ root.T

    def objective(m, v):
        psi1 = psi_statistics(m, v, Z, w, a)[0]
        psi2 = [np.sum(W * psi_statistics(m[i : i + 1], v[i : i + 1], Z, w, a)[1]) for i in range(m.shape[0])]
        return np.sum(G * psi1, axis=1) + psi2 - 0.5 * np.sum(m**2 + v - 1.0 - np.log(v), axis=1)

    before = (mu.copy(), s.copy())
    end_mu, end_s, value = fit_rows(mu, s, Z, w, a, G, W, max_iter=2000, tol=1e-13)
    assert_array_equal(mu, before[0])
    assert_array_equal(s, before[1])
    assert np.all(end_s > 0.0)
    assert np.all(value >= objective(mu, s) - 1e-10)
    assert_allclose(value, objective(end_mu, end_s), rtol=1e-9, atol=1e-9)
    for i in range(mu.shape[0]):
        gmu, gs, *_ = psi_vjp(end_mu[i : i + 1], end_s[i : i + 1], Z, w, a, G[i : i + 1], W)
        slope = np.sqrt(end_s[i]) * (gmu[0] - end_mu[i])
        stretch = end_s[i] * (gs[0] - 0.5) + 0.5
        assert np.sum(slope**2 + stretch**2) < 1e-5


def test_rows_are_independent():
    rng, mu, s, Z, w, a = draw(3)
    G = rng.normal(size=(mu.shape[0], Z.shape[0]))
    together = fit_rows(mu, s, Z, w, a, G, -np.eye(Z.shape[0]), max_iter=30, tol=1e-6)
    alone = fit_rows(mu[-1:], s[-1:], Z, w, a, G[-1:], -np.eye(Z.shape[0]), max_iter=30, tol=1e-6)
    for part, other in zip(together, alone, strict=True):
        assert_array_equal(part[-1:], other)


@pytest.mark.parametrize("scale", [1e-8, 1e8])
def test_far_and_near_inputs_stay_finite(scale):
    _, mu, s, Z, w, a = draw(5)
    G = np.ones((mu.shape[0], Z.shape[0]))
    for out in fit_rows(mu * scale, s, Z, w, a, G, -np.eye(Z.shape[0]), max_iter=50, tol=1e-9):
        assert np.all(np.isfinite(out))


@few
@given(seed=seeds)
def test_quadratic_forms_are_those_of_a_row_alone(seed):
    rng, mu, s, Z, w, a = draw(seed)
    H = rng.normal(size=(2, Z.shape[0], Z.shape[0]))
    H = H + H.transpose(0, 2, 1)
    each = [psi_statistics(mu[i : i + 1], s[i : i + 1], Z, w, a) for i in range(mu.shape[0])]
    assert_allclose(psi_first(mu, s, Z, w, a), np.vstack([psi1 for psi1, _ in each]), rtol=1e-12, atol=1e-14)
    forms = [[np.sum(h * two) for h in H] for _, two in each]
    assert_allclose(psi_products(mu, s, Z, w, a, H), forms, rtol=1e-10, atol=1e-10 * a**2)


def test_many_tiles_and_blocks_make_one_sum():
    # 300 rows in 8 blocks, 1,275 pairs in 2 tiles, with a rest of each.
    rng = np.random.default_rng(8)
    mu, Z, w = rng.normal(size=(300, 2)), rng.normal(size=(50, 2)), np.array([0.7, 2.0])
    s, G1, G2 = np.exp(rng.normal(-2.0, 1.0, (300, 2))), rng.normal(size=(300, 50)), rng.normal(size=(50, 50))
    G2 = G2 + G2.T
    halves = [slice(0, 131), slice(131, 300)]
    parts = [psi_vjp(mu[h], s[h], Z, w, 1.3, G1[h], G2) for h in halves]
    gmu, gs, *shared = psi_vjp(mu, s, Z, w, 1.3, G1, G2)
    assert_allclose(gmu, np.vstack([part[0] for part in parts]), rtol=1e-9, atol=1e-9)
    assert_allclose(gs, np.vstack([part[1] for part in parts]), rtol=1e-9, atol=1e-9)
    for k, ours in enumerate(shared, start=2):
        assert_allclose(ours, parts[0][k] + parts[1][k], rtol=1e-9, atol=1e-9)
    assert_allclose(psi_statistics(mu, s, Z, w, 1.3)[1], plain(mu, s, Z, w, 1.3)[1], rtol=1e-11)


@pytest.mark.parametrize("far", [1e3, 1e155, 1e300])
def test_rows_far_from_all_points_see_nothing(far):
    _, _, _, Z, w, a = draw(5)
    mu, s = np.full((1, Z.shape[1]), far), np.ones((1, Z.shape[1]))
    assert np.all(psi_first(mu, s, Z, w, a) == 0.0)
    assert np.all(psi_statistics(mu, s, Z, w, a)[1] == 0.0)
    for pulled in psi_vjp(mu, s, Z, w, a, np.ones((1, Z.shape[0])), np.ones((Z.shape[0], Z.shape[0]))):
        assert np.all(pulled == 0.0)
