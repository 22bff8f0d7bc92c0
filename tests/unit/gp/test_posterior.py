"""Posterior records of one latent function: both forms against the textbook's formulas."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from skpref.exceptions import DataError
from skpref.gp import posterior
from skpref.gp.posterior import ExactLatent, SparseLatent, check_kept_rows, check_latent
from skpref.inference.basis import InducingBasis
from tests.examples import examples

KERNEL = ConstantKernel(1.5) * RBF([1.0, 2.0])


def regression(seed, n=12):
    """Rows, targets, precisions of the noise, and new rows."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 2)), rng.normal(size=n), rng.uniform(0.5, 5.0, n), rng.normal(size=(7, 2))


def textbook(X, y, precision, new):
    """Mean and covariance of f at new rows."""
    k = KERNEL(new, X)
    C = KERNEL(X) + np.diag(1.0 / precision)
    return k @ np.linalg.solve(C, y), KERNEL(new) - k @ np.linalg.solve(C, k.T)


def exact_latent(X, y, precision):
    K, root_w = KERNEL(X), np.sqrt(precision)
    alpha = np.linalg.solve(K + np.diag(1.0 / precision), y)
    return ExactLatent(KERNEL, X, alpha, root_w, np.linalg.cholesky(np.eye(y.size) + root_w[:, None] * K * root_w))


def sparse_latent(X, y, precision):
    """Posterior through inducing points at all rows."""
    basis = InducingBasis.from_points(KERNEL, X)
    phi = basis.rows(X)
    B = np.eye(y.size) + phi.T @ (precision[:, None] * phi)
    return SparseLatent(basis, np.linalg.solve(B, phi.T @ (precision * y)), np.linalg.inv(np.linalg.cholesky(B)))


@examples(20)
@given(seed=st.integers(0, 2**32 - 1))
def test_both_forms_are_the_posterior_of_regression(seed):
    X, y, precision, new = regression(seed)
    mean, covariance = textbook(X, y, precision, new)
    for latent in (exact_latent(X, y, precision), sparse_latent(X, y, precision)):
        got = latent.latent(new)
        assert_allclose(got[0], mean, rtol=1e-9, atol=1e-9)
        assert_allclose(got[1], np.diagonal(covariance), rtol=1e-9, atol=1e-9)
        without = latent.latent(new, variance=False)
        assert_allclose(without[0], got[0], rtol=1e-12)
    joint = sparse_latent(X, y, precision).joint(new)
    assert_allclose(joint[0], mean, rtol=1e-9, atol=1e-9)
    assert_allclose(joint[1], covariance, rtol=1e-9, atol=1e-9)


def test_a_precomputed_covariance_stands_for_the_rows():
    X, y, precision, new = regression(0)
    by_rows = exact_latent(X, y, precision)
    by_covariance = ExactLatent(None, None, by_rows.alpha, by_rows.root_w, by_rows.chol, prior_variance=1.5)
    for got, wanted in zip(by_covariance.latent(KERNEL(new, X)), by_rows.latent(new), strict=True):
        assert_allclose(got, wanted, rtol=1e-12)


def test_blocks_of_rows_give_the_whole(monkeypatch):
    X, y, precision, new = regression(1)
    latent = exact_latent(X, y, precision)
    whole = latent.latent(new)
    monkeypatch.setattr(posterior, "BLOCK", 12 * 3)  # three rows at a time
    for got, wanted in zip(latent.latent(new), whole, strict=True):
        assert_allclose(got, wanted, rtol=1e-12)


def test_white_noise_counts_in_variances_alone():
    X, y, precision, new = regression(2)
    latent = sparse_latent(X, y, precision)
    noisy = SparseLatent(InducingBasis(KERNEL + WhiteKernel(0.3), X, latent.basis.chol), latent.mean, latent.half)
    covariance, with_noise = latent.joint(new)[1], noisy.joint(new)[1]
    assert_allclose(with_noise - covariance, 0.3 * np.eye(7), atol=1e-9)


def test_sites_and_variances_may_be_zero_and_not_negative():
    sound = exact_latent(*regression(0)[:3])
    without = replace(sound, kernel=None, X=None, prior_variance=0.0)
    for latent, name in ((sound, "root_w"), (without, "root_w")):
        latent.validate()
        some = latent.root_w.copy()
        some[0] = 0.0
        replace(latent, root_w=some).validate()
        with pytest.raises(DataError, match=name):
            replace(latent, root_w=some - 1e-9).validate()
    for wrong in (-1e-9, np.nan):
        with pytest.raises(DataError, match="prior_variance"):
            replace(without, prior_variance=wrong).validate()
    with pytest.raises(DataError, match="X needs a kernel"):
        replace(without, X=sound.X).validate()


TARGET, WEIGHT = np.zeros(4), np.ones(4)


@pytest.mark.parametrize(
    "rows",
    [
        [np.ones((4, 2)), TARGET, WEIGHT],
        (np.ones((4, 2)), TARGET),
        (np.ones((4, 3)), TARGET, WEIGHT),
        (np.ones((3, 2)), TARGET, WEIGHT),
        (np.ones((4, 2)), TARGET[:3], WEIGHT),
        (np.ones((4, 2)), TARGET[:, None], WEIGHT),
        (np.ones((4, 2)), TARGET, WEIGHT[:, None]),
        (np.ones((4, 2)), TARGET.tolist(), WEIGHT),
        (np.ones((4, 2)), TARGET, np.array([1.0, 1.0, 1.0, 0.0])),
    ],
)
def test_rows_that_a_fit_keeps_have_a_target_and_a_positive_weight_each(rows):
    assert check_kept_rows(object(), (np.ones((4, 2)), TARGET, WEIGHT), 2) == 4
    assert check_kept_rows(object(), (np.eye(4), TARGET, WEIGHT), None) == 4
    with pytest.raises(DataError, match="_rows"):
        check_kept_rows(object(), rows, 2)
    with pytest.raises(DataError, match="_rows must have 4 columns"):
        check_kept_rows(object(), (np.ones((4, 2)), TARGET, WEIGHT), None)


def test_a_posterior_without_rows_predicts_no_new_ones():
    latent = ExactLatent(None, None, np.zeros(2), np.ones(2), np.eye(2), 1.0)
    latent.validate()
    with pytest.raises(DataError, match="must be a posterior of 3 features"):
        check_latent(object(), latent, RBF(), 3)
