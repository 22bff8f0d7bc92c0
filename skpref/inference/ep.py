"""Expectation propagation at n inputs ([CG05] appendix B, [RW06] section 3.6), in natural site parameters.

An observation of weight w >= 1 is w observations with equal sites: its cavity takes out one of them, and the tilted
distribution holds p(y | f) to the first power. For w that is no whole number this is power EP with power 1/w.

All sites move at once: an iteration is one Cholesky factor and one triangular inverse. Where the fixed point is near,
the last few steps are combined such that their residuals cancel (Anderson acceleration). This does not change the fixed
point and stops oscillations of the sites.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from skpref._math.linalg import log_det
from skpref.exceptions import DataError
from skpref.inference.exact import ExactPosterior, check_problem, conjugate, explicit_gradient, log_normaliser
from skpref.inference.policy import POLICY

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from skpref._typing import Array
    from skpref.inference.exact import Conjugate
    from skpref.likelihoods import Likelihood


@dataclass(frozen=True, eq=False)
class _Tilted:
    """All tilted distributions: log Z, the sites that match them (all copies together), and the distance to these."""

    log_z: Array
    mu: Array
    v: Array
    tau: Array
    nu: Array
    sound: NDArray[np.bool_]
    gap: float


def expectation_propagation(
    K: Array,
    likelihood: Likelihood,
    y: Array,
    weight: Array,
    start: ExactPosterior | None = None,
    *,
    max_iter: int = 200,
    tol: float = 1e-8,
) -> ExactPosterior:
    """Approximate the posterior by expectation propagation."""
    check_problem(K, y, weight)
    if np.any((weight > 0.0) & (weight < 1.0)):
        raise DataError(
            "weight: expectation propagation takes weights of 0 or at least 1 (a whole number counts copies); got "
            f"{float(np.min(weight[weight > 0.0])):.3g}. Divide the weights by the smallest one, or use Laplace"
        )
    n = y.shape[0]
    tau, nu = np.zeros(n), np.zeros(n)
    if start is not None and start.tau.shape == (n,):
        tau, nu = start.tau.copy(), start.nu.copy()
    mixer, skipped, n_iter = _Mixer(), 0, 0
    while True:
        state = conjugate(K, tau, nu)
        tilted = _tilt(likelihood, y, weight, state, (tau, nu))
        if not tilted.gap > tol or n_iter == max_iter:
            break
        n_iter += 1
        skipped += int(np.sum(~tilted.sound))
        tau, nu = mixer.step(state, tau, nu, tilted)
    return ExactPosterior(
        **vars(state),
        tau=tau,
        nu=nu,
        weight=weight,
        log_evidence=_log_evidence(state, (tau, nu), tilted, weight),
        n_iter=n_iter,
        converged=tilted.gap <= tol,
        n_skipped=skipped,
    )


def ep_gradient(posterior: ExactPosterior) -> Array:
    """Return the gradient in K of log Z_EP at a fixed point, which equals the one at fixed sites, shape (n, n).

    The same matrix is the gradient in K of the variational bound at a fixed posterior ([CG05] eq. 28).

    In a parameter of the likelihood the gradient is sum_i w_i d log Z_i, at the cavities of `cavities`.
    """
    return explicit_gradient(posterior)


def cavities(posterior: ExactPosterior) -> tuple[Array, Array]:
    """Return the cavities: the posterior of f_i without (one copy of) observation i, shape (n,)."""
    share = _share(posterior.weight)
    v = posterior.variance / _kept(share, posterior.retained)
    return posterior.mean - v * share * posterior.alpha, v


def variational_bound(likelihood: Likelihood, y: Array, weight: Array, posterior: ExactPosterior) -> float:
    """Return the variational bound at a posterior ([CG05] eq. 27), sum_i w_i E[log p(y_i | f_i)] - KL(q || prior)."""
    expected = likelihood.expectation(y, posterior.mean, posterior.variance)[0]
    trace = float(np.sum(posterior.retained - 1.0))
    divergence = 0.5 * (log_det(posterior.chol) + trace + float(posterior.mean @ posterior.alpha))
    return float(weight @ expected) - divergence


def matching_sites(first: Array, second: Array, mu: Array, shrink: Array) -> tuple[Array, Array]:
    """Return tau and nu with which a cavity of mean mu has the moments of the tilted distribution.

    `first` and `second` are the derivatives of log Z in mu, and shrink = 1 + v second is the tilted variance over v.
    """
    return -second / shrink, (first - mu * second) / shrink


def log_site_integrals(tau: Array, nu: Array, mu: Array, v: Array) -> Array:
    """Return log of the integrals of exp(nu f - tau f^2/2) over the cavities N(f; mu, v), shape (n,)."""
    tv = tau * v
    return np.asarray(0.5 * (v * nu**2 + 2.0 * mu * nu - tau * mu**2) / (1.0 + tv) - 0.5 * np.log1p(tv))


def _share(weight: Array) -> Array:
    """Return 1/w, the share of a site that its cavity removes; 0 where the weight is 0, shape (n,)."""
    return np.divide(1.0, weight, out=np.zeros_like(weight), where=weight > 0.0)


def _kept(share: Array, retained: Array) -> Array:
    """The cavity's precision in units of the posterior's, 1 - share tau S.

    For w = 1 it is (B^-1)_ii, positive and without cancellation where the site dominates.
    """
    return 1.0 - share + share * retained


def _tilt(likelihood: Likelihood, y: Array, weight: Array, state: Conjugate, sites: tuple[Array, Array]) -> _Tilted:
    share = _share(weight)
    kept = _kept(share, state.retained)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        v = state.variance / kept
        mu = state.mean - v * share * state.alpha
        usable = np.isfinite(v) & np.isfinite(mu) & (v >= 0.0)
        v, mu = np.where(usable, v, state.variance), np.where(usable, mu, state.mean)
        log_z, first, second = likelihood.tilted(y, mu, v)
        shrink = 1.0 + v * second
        tau, nu = matching_sites(first, second, mu, shrink)
        sound = usable & (shrink > 0.0) & (tau >= 0.0) & np.isfinite(tau) & np.isfinite(nu)
        counts = sound & (weight > 0.0)
        in_mean = np.sqrt(v / kept) * np.abs(first - share * state.alpha)
        gaps = np.maximum(in_mean, np.abs(shrink / kept - 1.0))[counts]
    tau, nu = np.where(sound, weight * tau, sites[0]), np.where(sound, weight * nu, sites[1])
    return _Tilted(log_z, mu, v, tau, nu, sound, float(np.max(gaps, initial=0.0)))


def _log_evidence(state: Conjugate, sites: tuple[Array, Array], tilted: _Tilted, weight: Array) -> float:
    """Return log Z_EP: the normaliser of the sites, each scaled to integrate to Z_i under its cavity."""
    share = _share(weight)
    of_sites = log_site_integrals(share * sites[0], share * sites[1], tilted.mu, tilted.v)
    return log_normaliser(state, sites[1]) + float(weight @ (tilted.log_z - of_sites))


@dataclass(eq=False)
class _Mixer:
    """The parallel step: towards the matching sites, and near the fixed point a mix of the last steps."""

    damping: float = 1.0
    last: float = np.inf
    sites: list[Array] = field(default_factory=list)
    residuals: list[Array] = field(default_factory=list)

    def step(self, state: Conjugate, tau: Array, nu: Array, tilted: _Tilted) -> tuple[Array, Array]:
        """Return the next sites."""
        fell = tilted.gap < self.last
        if fell:
            self.damping = min(1.0, POLICY.ep_recovers * self.damping)
        else:
            self.damping = max(POLICY.ep_shrinks * self.damping, min(self.damping, POLICY.ep_least_damping))
        if not fell or tilted.gap > POLICY.ep_near:
            self.sites, self.residuals = [], []
        self.last = tilted.gap
        n, old = tau.shape[0], np.concatenate([tau, nu])
        residual = np.concatenate([tilted.tau - tau, tilted.nu - nu])
        last = POLICY.ep_memory
        self.sites, self.residuals = [*self.sites[-last:], old], [*self.residuals[-last:], residual]
        new = old + self.damping * residual
        if len(self.sites) > 1:
            unit = np.concatenate([state.variance, np.sqrt(state.variance)])
            d_residual = np.diff(np.array(self.residuals), axis=0)
            d_sites = np.diff(np.array(self.sites), axis=0)
            mix = np.linalg.lstsq((d_residual * unit).T, residual * unit, rcond=POLICY.ep_condition)[0]
            mixed = new - mix @ (d_sites + self.damping * d_residual)
            if np.all(mixed[:n] >= 0.0):
                new = mixed
            else:
                self.sites, self.residuals = [], []
        return new[:n], new[n:]
