"""Reports on the users of a crowd: agreement, accuracy, reliability, distance from the consensus, position bias."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from scipy.special import ndtri

from skpref._estimator import check_credibility, check_n_samples
from skpref.data.records import ColumnRecord
from skpref.gp.crowd.personal import PersonalPosterior
from skpref.gp.crowd.reliability import learn_reliability, percentiles_of
from skpref.gp.crowd.tabulated import Tabulated
from skpref.likelihoods.ties import left_without_ties

if TYPE_CHECKING:
    import numpy.typing as npt

    from skpref._typing import Array, IntArray
    from skpref.data import Comparisons, IdColumn
    from skpref.gp.crowd.posterior import CrowdPosterior
    from skpref.gp.entities import Items
    from skpref.gp.pairwise.thresholds import TieThresholds
    from skpref.likelihoods import Likelihood

    Posterior: TypeAlias = CrowdPosterior | PersonalPosterior

__all__ = ["Annotators"]

_PAIRS = 300  # compared pairs on which accuracies are measured; the standard error of their average is below 0.03


@dataclass(frozen=True, eq=False)
class Annotators(ColumnRecord):
    """Report on the users of a crowd, one entry per user with comparisons.

    Parameters
    ----------
    user : ndarray of shape (n,)
        Ids.
    n_labels : ndarray of shape (n,)
        Total weights of the comparisons.
    agreement : ndarray of shape (n,)
        Share of the user's answers that agree with the consensus, without ties. A soft label counts partly for each
        side. NaN if there are only ties.
    accuracy : ndarray of shape (n,)
        Posterior mean of the probability that an answer of the user agrees with the consensus, if it is no tie, on
        average over the compared pairs of items, without order effects.
    accuracy_low : ndarray of shape (n,)
        Lower end of its credible interval.
    accuracy_high : ndarray of shape (n,)
        Upper end of its credible interval.
    distance : ndarray of shape (n,)
        Root mean square difference of personal and consensus utilities over the seen items, in units of the answer
        noise.
    reliability : ndarray of shape (n,) or None, default=None
        Posterior mean of rho: the user answers as if the differences of the consensus were rho times as large. 1: an
        average user; 0: random answers; below 0: answers against the consensus. None with ``inference="vb"``.
    reliability_low : ndarray of shape (n,) or None, default=None
        Lower end of its credible interval.
    reliability_high : ndarray of shape (n,) or None, default=None
        Upper end of its credible interval.
    p_random : ndarray of shape (n,) or None, default=None
        Posterior probability that rho = 0: the user answers at random.
    bias : ndarray of shape (n,) or None, default=None
        Posterior mean of the advantage that the user gives to the left side; None without an order effect.
    bias_low : ndarray of shape (n,) or None, default=None
        Lower end of its credible interval.
    bias_high : ndarray of shape (n,) or None, default=None
        Upper end of its credible interval.
    tie_threshold : ndarray of shape (n,) or None, default=None
        Posterior median of the threshold of ties: the user calls differences below it a tie. None if all users share
        one threshold, or with a likelihood without ties.
    tie_threshold_low : ndarray of shape (n,) or None, default=None
        Lower end of its credible interval.
    tie_threshold_high : ndarray of shape (n,) or None, default=None
        Upper end of its credible interval.

    Examples
    --------
    >>> from skpref import CrowdGPPL
    >>> X = [["ann", "tea", "water"], ["bob", "tea", "water"], ["cat", "water", "tea"]]
    >>> model = CrowdGPPL(n_factors=1, random_state=0).fit(X, [1, 1, 1])
    >>> report = model.annotators(n_samples=100)
    >>> list(report["agreement"])
    [1.0, 1.0, 0.0]
    """

    user: npt.NDArray[Any]
    n_labels: Array
    agreement: Array
    accuracy: Array
    accuracy_low: Array
    accuracy_high: Array
    distance: Array
    reliability: Array | None = None
    reliability_low: Array | None = None
    reliability_high: Array | None = None
    p_random: Array | None = None
    bias: Array | None = None
    bias_low: Array | None = None
    bias_high: Array | None = None
    tie_threshold: Array | None = None
    tie_threshold_low: Array | None = None
    tie_threshold_high: Array | None = None


def describe_annotators(
    ids: IdColumn,
    posterior: Posterior,
    seen: tuple[Items, Items],
    comparisons: Comparisons,
    likelihood: Likelihood,
    *,
    credibility: float,
    n_samples: int,
    rng: np.random.Generator,
    thresholds: TieThresholds | None = None,
) -> Annotators:
    """Return the report on the seen users and items."""
    check_credibility(credibility)
    check_n_samples(n_samples)
    users, items = seen
    percentiles = np.array([50.0 * (1.0 - credibility), 50.0 * (1.0 + credibility)])
    pairs = _sample_pairs(comparisons, rng)
    draws = _accuracy_draws(posterior, users, items, pairs, likelihood, n_samples, rng)
    reliability: tuple[Array | None, ...] = (None,) * 4
    factors = None
    if isinstance(posterior, PersonalPosterior) and posterior.half_rows.any():
        learnt = learn_reliability(posterior, comparisons, likelihood, rng, thresholds)
        reliability = *learnt.summary(percentiles), learnt.random
        factors = learnt.accuracy(*pairs, likelihood)
    accuracy = _summary(draws, factors, percentiles)
    bias = _biases(posterior, users, credibility) if posterior.consensus.has_order else (None, None, None)
    n_labels = np.bincount(np.asarray(comparisons.user), comparisons.weight, users.size).astype(np.float64)
    return Annotators(
        np.asarray(ids),
        n_labels,
        _agreement(posterior, items, comparisons, users.size),
        *accuracy,
        _distances(posterior, users, items),
        *reliability,
        *bias,
        *(() if thresholds is None else _thresholds(thresholds, credibility)),
    )


def _sample_pairs(comparisons: Comparisons, rng: np.random.Generator) -> tuple[IntArray, IntArray, Array]:
    """Return compared pairs (left, right, weight): all, or 300 drawn in proportion to their weights."""
    n, weight = comparisons.n_pairs, comparisons.weight / comparisons.weight.sum()
    rows = np.arange(n)
    if n > _PAIRS:
        rows, weight = rng.choice(n, _PAIRS, p=weight), np.full(_PAIRS, 1.0 / _PAIRS)
    sides = np.sort(np.column_stack([comparisons.left, comparisons.right])[rows], axis=1)
    pairs, number = np.unique(sides, axis=0, return_inverse=True)
    return pairs[:, 0], pairs[:, 1], np.asarray(np.bincount(number.ravel(), weight), dtype=np.float64)


def _agreement(posterior: Posterior, items: Items, comparisons: Comparisons, n_users: int) -> Array:
    """Return the share of each user's answers for the side that the consensus prefers; NaN with ties only."""
    utility = posterior.consensus.utility(items)[0]
    side = np.sign(utility[comparisons.left] - utility[comparisons.right])
    decided = np.where(comparisons.y == 0.5, 0.0, comparisons.weight)
    user = np.asarray(comparisons.user)
    total = np.bincount(user, decided, n_users)
    agreeing = np.bincount(user, decided * (0.5 + side * (comparisons.y - 0.5)), n_users)
    return np.divide(agreeing, total, out=np.full(n_users, np.nan), where=total > 0.0)


def _accuracy_draws(
    posterior: Posterior,
    users: Items,
    items: Items,
    pairs: tuple[IntArray, IntArray, Array],
    likelihood: Likelihood,
    n_samples: int,
    rng: np.random.Generator,
) -> Array:
    """Return draws of the probability that an answer of each user agrees with the consensus, shape (U, S)."""
    left, right, weight = pairs
    used, inverse = np.unique(np.concatenate([left, right]), return_inverse=True)
    a, b = np.split(inverse, 2)
    t, draws = posterior.draws(users, items.take(used), n_samples, rng)
    side, predict = np.sign(t[:, a] - t[:, b]), Tabulated(partial(left_without_ties, likelihood))
    result = np.empty((users.size, n_samples))
    for u, f in enumerate(draws):
        result[u] = predict.mean_over_pairs(f, side, a, b, weight)
    return result


def _summary(draws: Array, factors: tuple[Array, Array] | None, percentiles: Array) -> tuple[Array, Array, Array]:
    """Return means and intervals of draws, mixed with a factor of the consensus if there is one.

    Utilities of a user's own know tastes and are too sure of users who are noisy or not like the crowd; the factor is
    the other way round. Half and half covers what either leaves out.
    """
    n = draws.shape[1]
    shared, shares = (np.zeros(0), np.zeros((len(draws), 0))) if factors is None else factors
    result = np.empty((3, len(draws)))
    for u, (values, weight) in enumerate(zip(draws, shares, strict=True)):
        own = np.full(n, (1.0 - 0.5 * weight.sum()) / n)
        value, mixed = np.concatenate([values, shared]), np.concatenate([own, 0.5 * weight])
        used = mixed > 0.0
        result[0, u] = value @ mixed
        result[1:, u] = percentiles_of(value[used], mixed[used], percentiles)
    return result[0], np.minimum(result[1], result[0]), np.maximum(result[2], result[0])


def _distances(posterior: Posterior, users: Items, items: Items) -> Array:
    return np.asarray(np.sqrt(np.mean(posterior.deviations(users, items) ** 2, axis=1)))


def _thresholds(thresholds: TieThresholds, credibility: float) -> tuple[Array, Array, Array]:
    """Return posterior median and credible interval of each user's threshold of ties."""
    half_width = ndtri(0.5 + 0.5 * credibility) * np.sqrt(thresholds.variance)
    return np.exp(thresholds.mean), np.exp(thresholds.mean - half_width), np.exp(thresholds.mean + half_width)


def _biases(posterior: Posterior, users: Items, credibility: float) -> tuple[Array, Array, Array]:
    """Return posterior mean and credible interval of the advantage that each user gives to the left side."""
    mean, variance = posterior.side_effects(users)
    half_width = ndtri(0.5 + 0.5 * credibility) * np.sqrt(variance)
    return mean, mean - half_width, mean + half_width
