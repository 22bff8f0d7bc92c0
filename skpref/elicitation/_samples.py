"""Belief about a user's ratings from the samples of a max-margin factorization."""

from __future__ import annotations

from functools import partial
from typing import Final

import numpy as np
from scipy.special import entr

from skpref._math.linalg import product
from skpref._typing import Array, IntArray
from skpref.elicitation._beliefs import Belief
from skpref.factorization.max_margin.posterior import M3FPosterior, level_probabilities

_MAX_USERS: Final = 400  # trained users, over all samples, that stand for an unseen one
_MAX_HELD: Final = 1 << 22  # probabilities that are held at once


def belief_from_samples(posterior: M3FPosterior, user: int | None, item: IntArray) -> Belief:
    """Return the belief about ratings of items by a user, given their rows; None is an unseen user."""
    samples = posterior.samples
    n_samples, n_users = samples.users.shape[:2]
    if user is None:
        n_each = min(n_users, -(-_MAX_USERS // n_samples))
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
    step = max(1, _MAX_HELD // (n_draws * probability.shape[1]))
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
