"""Posterior of a new user of a `GibbsM3F`, who is one of the population of trained users (docs/maths section 10)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from skpref._typing import Array, IntArray
from skpref.factorization.max_margin.posterior import M3FPosterior, level_probabilities

_DRAWS: Final = 400  # draws over all kept samples
_SWEEPS: Final = 30  # sweeps of each draw, from the prior
_SHRINKS: Final = 60  # reductions of an angle's bracket after which a draw stays where it is


class Newcomers(NamedTuple):
    """Prior of a new user given each kept sample: normal, as the trained users are."""

    mean: Array  # (S, Q): of factors and of thresholds of his own
    root: Array  # (S, Q, Q): root root^T is the covariance

    @classmethod
    def from_posterior(cls, posterior: M3FPosterior) -> Newcomers:
        """Return mean and covariance over the trained users, with Q draws of the model's prior added to them."""
        samples = posterior.samples
        shared = samples.thresholds.shape[1] == 1
        parts = [samples.users] if shared else [samples.users, samples.thresholds]
        users = np.concatenate(parts, axis=2, dtype=np.float64)
        n_users, size = users.shape[1:]
        spread = np.full(size, posterior.sigma**2)
        spread[samples.users.shape[2] :] = posterior.varsigma**2
        mean = users.mean(axis=1)
        deviation = users - mean[:, None]
        covariance = np.swapaxes(deviation, 1, 2) @ deviation + size * np.diag(spread)
        return cls(mean, np.linalg.cholesky(covariance / (n_users + size)))

    def draw(self, posterior: M3FPosterior, item: IntArray, level: IntArray) -> tuple[Array, Array, IntArray]:
        """Return draws given ratings: factors (D, K), thresholds (D, L - 1), and the kept sample of each (D,)."""
        samples, rng = posterior.samples, np.random.default_rng(0)
        n_samples, _, k = samples.users.shape
        sample = np.repeat(np.arange(n_samples), -(-_DRAWS // n_samples))
        rows = samples.items[:, item].astype(np.float64)
        rated = np.concatenate([rows @ self.root[:, :k], self.root[:, k:]], axis=1)[sample]
        centre = np.concatenate([np.einsum("snk,sk->sn", rows, self.mean[:, :k]), self.mean[:, k:]], axis=1)[sample]
        shared = samples.thresholds[sample, 0].astype(np.float64)

        def log_likelihood(latent: Array) -> Array:
            z = centre + latent
            theta = z[:, item.size :] if z.shape[1] > item.size else shared
            p = level_probabilities(
                z[:, : item.size],
                np.broadcast_to(theta[:, None], (len(z), item.size, theta.shape[1])),
                posterior.cost,
                posterior.margin,
                posterior.calibration,
            )
            with np.errstate(divide="ignore"):  # probabilities that underflow
                return np.asarray(np.log(p[:, np.arange(item.size), level]).sum(axis=1))

        white = rng.standard_normal((sample.size, self.mean.shape[1]))
        for _ in range(_SWEEPS):
            white = _elliptical_slice(white, rated, log_likelihood, rng)
        user = self.mean[sample] + np.einsum("dqr,dr->dq", self.root[sample], white)
        return user[:, :k], user[:, k:] if user.shape[1] > k else shared, sample


def _elliptical_slice(
    white: Array, project: Array, log_likelihood: Callable[[Array], Array], rng: np.random.Generator
) -> Array:
    """Move every draw by elliptical slice sampling (Murray, Adams, MacKay: AISTATS 2010), shape (D, Q)."""
    other = rng.standard_normal(white.shape)
    z, z_other = (np.einsum("dnq,dq->dn", project, x) for x in (white, other))
    height = log_likelihood(z) - rng.exponential(size=len(white))
    angle = rng.uniform(0.0, 2.0 * np.pi, len(white))
    low, high = angle - 2.0 * np.pi, angle.copy()
    for _ in range(_SHRINKS):
        cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
        outside = log_likelihood(cos * z + sin * z_other) < height
        if not outside.any():
            break
        low = np.where(outside & (angle < 0.0), angle, low)
        high = np.where(outside & (angle >= 0.0), angle, high)
        angle = np.where(outside, rng.uniform(low, high), angle)
    stays = outside[:, None]
    return np.where(stays, white, np.cos(angle)[:, None] * white + np.sin(angle)[:, None] * other)
