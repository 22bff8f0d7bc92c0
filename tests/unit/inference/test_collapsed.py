"""The collapsed bound as a function of sums: dense formulas, differences, several columns of targets."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal

from skpref.exceptions import DataError
from skpref.inference.collapsed import Moments, collapse

RNG = np.random.default_rng(3)
PHI, Y, R, BETA = RNG.standard_normal((30, 5)), RNG.standard_normal((30, 2)), RNG.uniform(0.0, 0.3, 30), 2.5


def moments(phi=PHI, y=Y, r=R, weight=None):
    w = np.ones(len(phi)) if weight is None else weight
    scaled = phi * w[:, None]
    prior = float(w @ (r + np.sum(phi**2, axis=1)))
    return Moments(phi.T @ scaled, scaled.T @ y, prior, float(w @ np.sum(y**2, axis=1)), float(w.sum()))


def dense(beta=BETA):
    covariance = PHI @ PHI.T + np.eye(30) / beta
    return sum(multivariate_normal.logpdf(column, cov=covariance) for column in Y.T) - beta * R.sum()


def test_value_and_posterior_are_those_of_dense_formulas():
    seen = collapse(moments(), BETA)
    assert_allclose(seen.value, dense(), rtol=1e-12)
    wanted = np.linalg.solve(np.eye(5) / BETA + PHI.T @ PHI, PHI.T @ Y)
    assert_allclose(seen.mean, wanted, rtol=1e-10)
    assert_allclose(seen.block.mean, wanted[:, 0], rtol=1e-10)
    assert_allclose(np.linalg.inv(seen.precision), np.linalg.inv(np.eye(5) + BETA * PHI.T @ PHI), rtol=1e-9)


def test_gradients_are_those_of_differences():
    seen, here, h = collapse(moments(), BETA), moments(), 1e-5
    slope = (dense(BETA * np.exp(h)) - dense(BETA * np.exp(-h))) / (2.0 * h)
    assert_allclose(seen.log_beta, slope, rtol=1e-7)
    for name, direction in (("gram", PHI.T @ np.diag(R) @ PHI), ("cross", RNG.standard_normal((5, 2)))):
        ends = [collapse(Moments(**{**vars(here), name: vars(here)[name] + s * h * direction}), BETA) for s in (1, -1)]
        assert_allclose(np.sum(getattr(seen, name) * direction), (ends[0].value - ends[1].value) / (2.0 * h), rtol=1e-7)


def test_sums_of_two_samples_add():
    halves = [moments(PHI[part], Y[part], R[part]) for part in (slice(0, 11), slice(11, 30))]
    total = halves[0] + halves[1]
    assert_allclose(collapse(total, BETA).value, collapse(moments(), BETA).value, rtol=1e-12)


def test_a_weight_counts_copies():
    weight = RNG.integers(0, 4, 30).astype(float)
    copies = np.repeat(np.arange(30), weight.astype(int))
    weighted, repeated = moments(weight=weight), moments(PHI[copies], Y[copies], R[copies])
    assert_allclose(collapse(weighted, BETA).value, collapse(repeated, BETA).value, rtol=1e-12)


@pytest.mark.parametrize("beta", [1e-8, 1e8])
def test_noise_may_be_huge_or_tiny(beta):
    seen = collapse(moments(), beta)
    assert np.all(np.isfinite([seen.value, seen.log_beta]))
    assert np.all(np.isfinite(seen.gram))


def test_sums_may_be_zero_and_weights_not():
    replace(moments(), prior=0.0, square=0.0).validate()
    for name, value in (("prior", -1e-9), ("square", -1e-9), ("weight", 0.0), ("gram", np.eye(4))):
        with pytest.raises(DataError, match=name if name != "gram" else "cross"):
            replace(moments(), **{name: value}).validate()
