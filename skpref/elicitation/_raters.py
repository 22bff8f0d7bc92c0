"""People who rate items, from the samples of a max-margin factorization (docs/maths section 10)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.special import entr

from skpref._math.limits import BLOCK
from skpref._math.linalg import product
from skpref._typing import Array, IntArray
from skpref.elicitation._beliefs import Belief
from skpref.elicitation.policy import POLICY
from skpref.factorization.max_margin.posterior import M3FPosterior, level_probabilities


def belief_from_samples(posterior: M3FPosterior, user: int | None, item: IntArray) -> Belief:
    """Return the belief about ratings of items by a user, given their rows; None is an unseen user."""
    samples = posterior.samples
    n_samples, n_users = samples.users.shape[:2]
    if user is None:
        n_each = min(n_users, -(-POLICY.most_users // n_samples))
        users = np.random.default_rng(0).permuted(np.tile(np.arange(n_users), (n_samples, 1)), axis=1)[:, :n_each]
    else:
        users = np.full((n_samples, 1), user)
    s = np.arange(n_samples)[:, None]
    score = np.einsum("srk,snk->srn", samples.users[s, users].astype(np.float64), samples.items[:, item])
    score = score.reshape(-1, item.size)
    shared = samples.thresholds.shape[1] == 1
    theta = samples.thresholds[s, 0 * users if shared else users].astype(np.float64).reshape(score.shape[0], -1)
    return _from_draws(score, theta, posterior)


def belief_from_draws(posterior: M3FPosterior, draws: tuple[Array, Array, IntArray], item: IntArray) -> Belief:
    """Return the belief about ratings of items by a user, given draws of factors, thresholds and samples."""
    users, theta, sample = draws
    score = np.empty((sample.size, item.size))
    for s, rows in enumerate(posterior.samples.items[:, item]):
        score[sample == s] = users[sample == s] @ rows.T
    return _from_draws(score, theta, posterior)


def _from_draws(score: Array, theta: Array, posterior: M3FPosterior) -> Belief:
    """Return the belief given draws of scores, shape (D, n), and thresholds, shape (D, L - 1)."""
    (n_draws, n), margin, calibration = score.shape, posterior.margin, posterior.calibration
    cost = posterior.cost / calibration.temperature
    probability, within, precision = np.empty((n, theta.shape[1] + 1)), np.empty(n), np.empty(n)
    step = max(1, BLOCK // (n_draws * probability.shape[1]))
    for first in range(0, n, step):
        part = slice(first, first + step)
        distance = theta[:, None, :] - score[:, part, None]
        thresholds = np.broadcast_to(theta[:, None, :], distance.shape)
        p = level_probabilities(score[:, part], thresholds, posterior.cost, margin, calibration)
        probability[part] = p.mean(axis=0)
        within[part] = entr(p).sum(axis=2).mean(axis=0)
        # Derivative of each level's loss: thresholds above a level push the score down, those below push it up.
        above, below = (distance < margin).astype(np.float64), (distance > -margin).astype(np.float64)
        step_up = np.cumsum(-(above + below), axis=2)
        slope = np.concatenate([np.zeros((*score[:, part].shape, 1)), step_up], axis=2)
        centre = (p * slope).sum(axis=2, keepdims=True)
        precision[part] = cost**2 * (p * (slope - centre) ** 2).sum(axis=2).mean(axis=0)
    mean, ddof = score.mean(axis=0), min(1, n_draws - 1)
    gain = np.clip(entr(probability).sum(axis=1) - within, 0.0, np.log(probability.shape[1]))
    deviation = (score - mean) / np.sqrt(max(n_draws - ddof, 1))
    return Belief(
        mean, (deviation**2).sum(axis=0), partial(product, deviation.T, deviation), probability, gain, precision
    )


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
        sample = np.repeat(np.arange(n_samples), -(-POLICY.rater_draws // n_samples))
        rows = samples.items[:, item].astype(np.float64)
        rated = np.concatenate([rows @ self.root[:, :k], self.root[:, k:]], axis=1)[sample]
        centre = np.concatenate([np.einsum("snk,sk->sn", rows, self.mean[:, :k]), self.mean[:, k:]], axis=1)[sample]
        shared = samples.thresholds[sample, 0].astype(np.float64)

        def log_likelihood(latent: Array) -> Array:
            z = centre + latent
            theta = z[:, item.size :] if z.shape[1] > item.size else shared
            thresholds = np.broadcast_to(theta[:, None], (len(z), item.size, theta.shape[1]))
            score, margin, calibration = z[:, : item.size], posterior.margin, posterior.calibration
            p = level_probabilities(score, thresholds, posterior.cost, margin, calibration)
            with np.errstate(divide="ignore"):  # probabilities that underflow
                return np.asarray(np.log(p[:, np.arange(item.size), level]).sum(axis=1))

        white = rng.standard_normal((sample.size, self.mean.shape[1]))
        for _ in range(POLICY.sweeps):
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
    for _ in range(POLICY.shrinks):
        cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
        outside = log_likelihood(cos * z + sin * z_other) < height
        if not outside.any():
            break
        low = np.where(outside & (angle < 0.0), angle, low)
        high = np.where(outside & (angle >= 0.0), angle, high)
        angle = np.where(outside, rng.uniform(low, high), angle)
    stays = outside[:, None]
    return np.where(stays, white, np.cos(angle)[:, None] * white + np.sin(angle)[:, None] * other)
