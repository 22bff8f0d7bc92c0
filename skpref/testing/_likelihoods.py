"""Conformance checks of likelihoods: what every inference rule relies on."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import ArrayLike

from skpref._typing import Array
from skpref.likelihoods import Likelihood, PairwiseLikelihood

_Check: TypeAlias = "Callable[[Likelihood, Array, np.random.Generator], None]"

# Step and allowance of fourth-order central differences: their own error is 1e-8 of the fifth derivative.
_STEP = 1e-2
_DIFFERENCE = 1e-6
# Allowance against a fine sum, which reaches far enough for tilted distributions off the centre.
_REACH = 16.0
_QUADRATURE = 1e-8
_FAR = 1e6
_ADVICE = "; if log p has a kink or bends over less than a unit of z, replace the quadrature by a closed form"


def check_likelihood(likelihood: Likelihood, y: ArrayLike | None = None, seed: int = 0) -> None:
    """Check that a likelihood behaves as `skpref.likelihoods.Likelihood` documents.

    Parameters
    ----------
    likelihood : Likelihood
        The likelihood to check.
    y : array_like of shape (n,), default=None
        Observations to check it with. None draws labels in [0, 1], hard and soft, for a `PairwiseLikelihood`, and
        standard normal values for any other.
    seed : int, default=0
        Seed of the projections, means and variances drawn.

    Raises
    ------
    AssertionError
        If a check fails; the message names the method.

    Notes
    -----
    Checked are: derivatives in z, mu and v against central differences; expectations, log Z and predictions against a
    fine sum, which allows a kink of log p at z = y; v = 0; Jensen's inequality and dE/dv <= 0 where log p is concave;
    finite values for z up to +-1e6; batch equal to element by element, for lists, integers and read-only arrays, which
    stay as they are; equality, copies and pickles. For pairs: p(y=1) + p(y=0) = 1, left and right swapped, linearity in
    soft labels.

    Examples
    --------
    >>> from skpref.likelihoods import PairwiseProbit
    >>> from skpref.testing import check_likelihood
    >>> check_likelihood(PairwiseProbit())
    """
    rng = np.random.default_rng(seed)
    assert isinstance(likelihood, Likelihood), f"{likelihood!r} is not a Likelihood"
    paired = isinstance(likelihood, PairwiseLikelihood)
    observed = _observations(rng, paired=paired) if y is None else np.asarray(y, dtype=np.float64)
    for check in (*_CHECKS, *(_PAIR_CHECKS if paired else ())):
        check(likelihood, observed, rng)


def _observations(rng: np.random.Generator, *, paired: bool) -> Array:
    if not paired:
        return rng.standard_normal(24)
    return np.concatenate([rng.integers(0, 2, 12), [0.5, 0.5], rng.random(10)]).astype(np.float64)


def _gaussians(y: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return means and variances; the variances cover several quadrature rules."""
    return rng.uniform(-4.0, 4.0, y.shape), np.exp(rng.uniform(np.log(0.05), np.log(20.0), y.shape))


def _difference(function: Callable[[Array], Array], at: Array) -> Array:
    """Return a fourth-order central difference."""
    h = _STEP
    outer = function(at + 2.0 * h) - function(at - 2.0 * h)
    inner = function(at + h) - function(at - h)
    return (8.0 * inner - outer) / (12.0 * h)


def _gaussian_nodes(y: Array, mu: Array, v: Array) -> tuple[Array, Array]:
    """Return nodes and weights (n, k) of Gauss-Legendre panels that meet at z = y, where log p may have a kink."""
    sd = np.sqrt(v)[:, None]
    n_panels = int(2.0 * _REACH * sd.max(initial=1.0) / 0.5) + 1  # largest length of a panel in z, with ten nodes
    nodes, weights = np.polynomial.legendre.leggauss(10)
    share = (np.arange(n_panels)[:, None] + 0.5 + 0.5 * nodes).ravel() / n_panels
    kink = np.clip((y - mu)[:, None] / sd, -_REACH, _REACH)
    x = np.hstack([-_REACH + (kink + _REACH) * share, kink + (_REACH - kink) * share])
    w = np.hstack([(kink + _REACH) * np.tile(weights, n_panels), (_REACH - kink) * np.tile(weights, n_panels)])
    w *= np.exp(-0.5 * x * x)
    return mu[:, None] + sd * x, w / w.sum(axis=1, keepdims=True)


def _check_is_a_value(likelihood: Likelihood, y: Array, rng: np.random.Generator) -> None:
    del y, rng
    for twin in (copy.deepcopy(likelihood), pickle.loads(pickle.dumps(likelihood))):  # noqa: S301 - made just here
        assert twin == likelihood, f"{likelihood!r} differs from its own copy {twin!r}"
        assert hash(twin) == hash(likelihood), f"{likelihood!r} and its copy have different hashes"
    assert type(likelihood).__name__ in repr(likelihood), "repr does not name the class"


def _check_derivatives(likelihood: Likelihood, y: Array, rng: np.random.Generator) -> None:
    z = rng.uniform(-6.0, 6.0, y.shape)
    z += np.where(np.abs(z - y) < 3.0 * _STEP, 6.0 * _STEP, 0.0)  # differences do not cross a kink at y
    value, first, second = likelihood.derivatives(y, z)
    assert_allclose(value, likelihood.log_prob(y, z), rtol=1e-14, err_msg="derivatives: value is not log_prob")
    numeric = _difference(lambda at: likelihood.derivatives(y, at)[0], z)
    assert_allclose(first, numeric, _DIFFERENCE, _DIFFERENCE, err_msg="derivatives: first")
    numeric = _difference(lambda at: likelihood.derivatives(y, at)[1], z)
    assert_allclose(second, numeric, _DIFFERENCE, _DIFFERENCE, err_msg="derivatives: second")


def _check_expectation(likelihood: Likelihood, y: Array, rng: np.random.Generator) -> None:
    mu, v = _gaussians(y, rng)
    value, d_mu, d_v = likelihood.expectation(y, mu, v)
    z, w = _gaussian_nodes(y, mu, v)
    wanted = np.sum(likelihood.log_prob(y[:, None], z) * w, axis=1)
    assert_allclose(value, wanted, _QUADRATURE, _QUADRATURE, err_msg=f"expectation: value{_ADVICE}")
    numeric = _difference(lambda at: likelihood.expectation(y, at, v)[0], mu)
    assert_allclose(d_mu, numeric, _DIFFERENCE, _DIFFERENCE, err_msg="expectation: derivative in mu")
    numeric = _difference(lambda at: likelihood.expectation(y, mu, v * np.exp(at))[0], np.zeros_like(v)) / v
    assert_allclose(d_v, numeric, _DIFFERENCE, _DIFFERENCE, err_msg="expectation: derivative in v")


def _check_no_variance(likelihood: Likelihood, y: Array, rng: np.random.Generator) -> None:
    mu, _ = _gaussians(y, rng)
    value, first, second = likelihood.derivatives(y, mu)
    for got, wanted in zip(likelihood.expectation(y, mu, 0.0), (value, first, 0.5 * second), strict=True):
        assert_allclose(got, wanted, rtol=1e-12, atol=1e-12, err_msg="expectation at v = 0 is not the value at mu")
    log_z = likelihood.tilted(y, mu, 0.0)[0]
    assert_allclose(log_z, value, rtol=1e-12, atol=1e-12, err_msg="tilted at v = 0 is not the value at mu")


def _check_tilted(likelihood: Likelihood, y: Array, rng: np.random.Generator) -> None:
    mu, v = _gaussians(y, rng)
    log_z, first, second = likelihood.tilted(y, mu, v)
    z, w = _gaussian_nodes(y, mu, v)
    wanted = np.log(np.sum(np.exp(likelihood.log_prob(y[:, None], z)) * w, axis=1))
    assert_allclose(log_z, wanted, _QUADRATURE, _QUADRATURE, err_msg=f"tilted: log Z{_ADVICE}")
    numeric = _difference(lambda at: likelihood.tilted(y, at, v)[0], mu)
    assert_allclose(first, numeric, _DIFFERENCE, _DIFFERENCE, err_msg="tilted: first derivative")
    numeric = _difference(lambda at: likelihood.tilted(y, at, v)[1], mu)
    assert_allclose(second, numeric, _DIFFERENCE, _DIFFERENCE, err_msg="tilted: second derivative")


def _check_concavity(likelihood: Likelihood, y: Array, rng: np.random.Generator) -> None:
    mu, v = _gaussians(y, rng)
    grid = np.linspace(-50.0, 50.0, 2001)
    if np.any(likelihood.derivatives(y[:, None], grid)[2] > 0.0):
        return
    value, _, d_v = likelihood.expectation(y, mu, v)
    assert np.all(value <= likelihood.log_prob(y, mu) + 1e-12), "expectation exceeds log_prob(mu), against Jensen"
    assert np.all(d_v <= 0.0), "expectation: dE/dv > 0 for a concave log p"


def _check_prediction(likelihood: Likelihood, y: Array, rng: np.random.Generator) -> None:
    mu, v = _gaussians(y, rng)
    z, w = _gaussian_nodes(y, mu, v)
    wanted = np.sum(likelihood.predict(z, 0.0) * w, axis=1)
    assert_allclose(likelihood.predict(mu, v), wanted, _QUADRATURE, _QUADRATURE, err_msg="predict: not the mean")


def _check_far_out(likelihood: Likelihood, y: Array, rng: np.random.Generator) -> None:
    del rng
    for z in (-_FAR, -1e3, -40.0, 40.0, 1e3, _FAR):
        assert np.all(np.isfinite(likelihood.derivatives(y, z))), f"derivatives are not finite at z = {z:g}"
        assert np.all(np.isfinite(likelihood.expectation(y, z, 1.0))), f"expectation is not finite at mu = {z:g}"
        assert np.all(np.isfinite(likelihood.tilted(y, z, 1.0))), f"tilted is not finite at mu = {z:g}"
        assert np.all(np.isfinite(likelihood.predict(z, 1.0))), f"predict is not finite at mu = {z:g}"


def _check_shapes(likelihood: Likelihood, y: Array, rng: np.random.Generator) -> None:
    mu, v = _gaussians(y, rng)
    batch = np.stack([*likelihood.expectation(y, mu, v), *likelihood.tilted(y, mu, v), likelihood.predict(mu, v)])
    single = [
        [*likelihood.expectation(*row), *likelihood.tilted(*row), likelihood.predict(*row[1:])]
        for row in zip(y, mu, v, strict=True)
    ]
    assert_allclose(batch.T, np.array(single, dtype=np.float64), rtol=1e-13, atol=1e-13, err_msg="batch != row by row")
    square = likelihood.expectation(y[:, None], mu, v)[1]
    assert square.shape == (y.size, mu.size), f"arguments do not broadcast: got shape {square.shape}"
    assert likelihood.tilted([], [], [])[0].shape == (0,), "empty input does not give empty output"


def _check_input(likelihood: Likelihood, y: Array, rng: np.random.Generator) -> None:
    arguments = np.stack([y, *_gaussians(y, rng)])
    before = arguments.copy()
    arguments.flags.writeable = False
    for method in (likelihood.expectation, likelihood.tilted):
        result = method(*arguments)
        assert_array_equal(arguments, before, err_msg="an argument was changed")
        assert_array_equal(result, method(*arguments.tolist()), err_msg="lists and arrays give different results")
    whole = np.arange(-3, 4)
    got, wanted = likelihood.log_prob(1, whole), likelihood.log_prob(1.0, whole.astype(np.float64))
    assert_array_equal(got, wanted, err_msg="integers and floats give different results")


def _check_pair_probabilities(likelihood: Likelihood, y: Array, rng: np.random.Generator) -> None:
    mu, v = _gaussians(y, rng)
    total = np.exp(likelihood.log_prob(1.0, mu)) + np.exp(likelihood.log_prob(0.0, mu))
    assert_allclose(total, 1.0, rtol=1e-14, err_msg="log_prob: p(y=1) + p(y=0) is not 1")
    p = likelihood.predict(mu, v)
    assert_array_equal(p + likelihood.predict(-mu, v), 1.0, err_msg="predict: p(left) + p(right) is not exactly 1")
    assert_array_equal(likelihood.predict(0.0, v), 0.5, err_msg="predict: equal items are not at 0.5")
    far = likelihood.predict([-_FAR, _FAR], 1.0)
    assert np.all((p >= 0.0) & (p <= 1.0)), "predict: outside [0, 1]"
    assert_array_equal(far, [0.0, 1.0], err_msg="predict: far out")


def _check_pair_swap(likelihood: Likelihood, y: Array, rng: np.random.Generator) -> None:
    mu, v = _gaussians(y, rng)
    for method in (likelihood.expectation, likelihood.tilted):
        here, there = method(y, mu, v), method(1.0 - y, -mu, v)
        for k, sign in enumerate((1.0, -1.0, 1.0)):
            assert_allclose(
                here[k], sign * there[k], rtol=1e-10, atol=1e-12, err_msg=f"{method.__name__}[{k}]: left/right swap"
            )


def _check_pair_soft_labels(likelihood: Likelihood, y: Array, rng: np.random.Generator) -> None:
    mu, v = _gaussians(y, rng)
    left, right = likelihood.expectation(1.0, mu, v), likelihood.expectation(0.0, mu, v)
    for mixed, at_one, at_zero in zip(likelihood.expectation(y, mu, v), left, right, strict=True):
        wanted = y * at_one + (1.0 - y) * at_zero
        assert_allclose(mixed, wanted, rtol=1e-12, atol=1e-13, err_msg="expectation is not linear in the label")


_CHECKS: tuple[_Check, ...] = (
    _check_is_a_value,
    _check_derivatives,
    _check_expectation,
    _check_no_variance,
    _check_tilted,
    _check_concavity,
    _check_prediction,
    _check_far_out,
    _check_shapes,
    _check_input,
)
_PAIR_CHECKS: tuple[_Check, ...] = (_check_pair_probabilities, _check_pair_swap, _check_pair_soft_labels)
