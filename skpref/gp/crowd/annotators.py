"""Reports on the users of a crowd: agreement, accuracy, reliability, distance from the consensus, position bias."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from scipy.special import logsumexp, ndtri, softmax

from skpref._compiled.tables import look_up, mean_over_pairs
from skpref._estimator import check_credibility, check_n_samples
from skpref.data.records import ColumnRecord
from skpref.gp.crowd.blocks import iterate_users
from skpref.gp.crowd.personal import PersonalPosterior
from skpref.gp.crowd.policy import POLICY
from skpref.gp.crowd.users import UserRows, effect_columns, order_by_user
from skpref.gp.pairwise.thresholds import learn_population
from skpref.likelihoods import PairwiseTies
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
    from collections.abc import Callable

    from skpref._typing import BoolArray

__all__ = ["Annotators"]


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
        average over the compared pairs of items, without order effects; with ``context``, at the numbers of the rows,
        where slopes are at their posterior means.
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
    shift = _shifts(posterior, comparisons)
    pairs = _sample_pairs(comparisons, shift, rng)
    draws = _accuracy_draws(posterior, users, items, pairs, likelihood, n_samples, rng)
    reliability: tuple[Array | None, ...] = (None,) * 4
    factors = None
    if isinstance(posterior, PersonalPosterior) and posterior.half_rows.any():
        learnt = learn_reliability(posterior, comparisons, likelihood, thresholds)
        reliability = *learnt.summary(percentiles), learnt.random
        factors = learnt.accuracy(*pairs, likelihood)
    accuracy = _summary(draws, factors, percentiles)
    bias: tuple[Array | None, ...] = (None, None, None)
    if posterior.consensus.has_order:
        moments = _biases(posterior) if isinstance(posterior, PersonalPosterior) else posterior.side_effects(users)
        bias = _intervals(*moments, credibility)
    ties = () if thresholds is None else map(np.exp, _intervals(thresholds.mean, thresholds.variance, credibility))
    n_labels = np.bincount(np.asarray(comparisons.user), comparisons.weight, users.size).astype(np.float64)
    return Annotators(
        np.asarray(ids),
        n_labels,
        _agreement(posterior, items, comparisons, shift, users.size),
        *accuracy,
        np.sqrt(np.mean(posterior.deviations(users, items) ** 2, axis=1)),
        *reliability,
        *bias,
        *ties,
    )


def _shifts(posterior: Posterior, comparisons: Comparisons) -> Array:
    """Return what slopes add to differences of comparisons, at their posterior means, shape (P,)."""
    if comparisons.context is None or not isinstance(posterior, PersonalPosterior):
        return np.zeros(comparisons.n_pairs)
    slopes = posterior.slopes
    return np.sum(comparisons.context * (slopes[comparisons.left] - slopes[comparisons.right]), axis=1)


def _sample_pairs(
    comparisons: Comparisons, shift: Array, rng: np.random.Generator
) -> tuple[IntArray, IntArray, Array, Array]:
    """Return compared pairs (left, right, weight, shift): all, or 300 drawn in proportion to their weights."""
    n, weight = comparisons.n_pairs, comparisons.weight / comparisons.weight.sum()
    rows = np.arange(n)
    if n > POLICY.annotator_pairs:
        n = POLICY.annotator_pairs
        rows, weight = rng.choice(comparisons.n_pairs, n, p=weight), np.full(n, 1.0 / n)
    left, right, shift = comparisons.left[rows], comparisons.right[rows], shift[rows]
    if shift.any():
        return left, right, weight, shift
    pairs, number = np.unique(np.sort(np.column_stack([left, right]), axis=1), axis=0, return_inverse=True)
    weight = np.bincount(number.ravel(), weight).astype(np.float64)
    return pairs[:, 0], pairs[:, 1], weight, np.zeros(weight.size)


def _agreement(posterior: Posterior, items: Items, comparisons: Comparisons, shift: Array, n_users: int) -> Array:
    """Return the share of each user's answers for the side that the consensus prefers; NaN with ties only."""
    utility = posterior.consensus.utility(items)[0]
    side = np.sign(utility[comparisons.left] - utility[comparisons.right] + shift)
    decided = np.where(comparisons.y == 0.5, 0.0, comparisons.weight)
    user = np.asarray(comparisons.user)
    total = np.bincount(user, decided, n_users)
    agreeing = np.bincount(user, decided * (0.5 + side * (comparisons.y - 0.5)), n_users)
    return np.divide(agreeing, total, out=np.full(n_users, np.nan), where=total > 0.0)


def _accuracy_draws(
    posterior: Posterior,
    users: Items,
    items: Items,
    pairs: tuple[IntArray, IntArray, Array, Array],
    likelihood: Likelihood,
    n_samples: int,
    rng: np.random.Generator,
) -> Array:
    """Return draws of the probability that an answer of each user agrees with the consensus, shape (U, S)."""
    left, right, weight, shift = pairs
    used, inverse = np.unique(np.concatenate([left, right]), return_inverse=True)
    a, b = np.split(inverse, 2)
    t, draws = posterior.draws(users, items.take(used), n_samples, rng)
    side, predict = np.sign(t[:, a] - t[:, b] + shift), Tabulated(partial(left_without_ties, likelihood))
    result, ends = np.empty((users.size, n_samples)), (a, b)
    if shift.any():  # each comparison has sides of its own
        ends = np.arange(a.size), a.size + np.arange(a.size)
        draws = (np.hstack([f[:, a] + shift, f[:, b]]) for f in draws)
    for u, f in enumerate(draws):
        result[u] = predict.mean_over_pairs(f, side, *ends, weight)
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


def _intervals(mean: Array, variance: Array, credibility: float) -> tuple[Array, Array, Array]:
    """Return means of normal distributions and the ends of their credible intervals."""
    half_width = ndtri(0.5 + 0.5 * credibility) * np.sqrt(variance)
    return mean, mean - half_width, mean + half_width


def _biases(posterior: PersonalPosterior) -> tuple[Array, Array]:
    """Return means and variances of the advantage that each user gives to the left side, shape (U,).

    Users are of two kinds, so that a few with large biases keep them. Given the sites, all answers of a user are one
    measurement of the bias, whose errors include tastes and the consensus.
    """
    pull, known = np.empty((2, posterior.n_users))
    effects = posterior.x @ posterior.places.spread(posterior.B).T
    sites = posterior.users, posterior.S_places, posterior.tau, posterior.nu
    for u, (P, _, D, d) in enumerate(iterate_users(np.arange(posterior.n_users), *sites)):
        A = posterior.users.user_rows(u)
        C, mean = P + A @ posterior.V @ A.T, A @ (posterior.m + effects[u])
        C[-1] = C[:, -1] = 0.0
        mean[-1] = effects[u, -1]
        parts = np.column_stack([d - D @ mean, D[:, -1]])
        pull[u], known[u] = np.linalg.solve(np.eye(len(D)) + D @ C, parts)[-1]
    found = learn_population(pull, np.maximum(known, _LEAST), 0.0, POLICY.prior_of_bias)
    return found.mean + effects[:, -1], found.variance


# ------- how closely each user follows the consensus: rho in z = rho (m_left - m_right), m the consensus of the others
# It has the role of Crowd-BT's reliability, with a posterior for each user. Its prior is learnt from the crowd: rho is
# 0 (answers at random), log-normal, or minus that (answers the other way round). Three things keep intervals honest.
# The consensus is that of the other users; where they say little of the user's pairs, rho keeps its prior. Its
# errors are noise of the answers, rho^2 times their variance: of many items, each answer has an error of its own. And
# where a user has tastes, answers go astray together,
# so that they count for the share of their information that is not about tastes.

_SIZES = np.geomspace(0.1, 10.0, 20)  # values of rho; an average user has 1
_GRID = np.concatenate([-_SIZES[::-1], [0.0], _SIZES])
_PSEUDO_USERS = np.array([0.5, 0.5, 9.0])  # numbers of users who contradict, ignore and follow the consensus
_LEAST = 1e-12  # least divisor


@dataclass(frozen=True, eq=False)
class Reliability:
    """Posterior of rho on a grid."""

    weight: Array  # (U, G): probability of each grid point
    consensus: Array  # (n,): posterior mean of m
    known: BoolArray  # (U,): whether the other users know the consensus on the user's pairs
    tastes: Array  # (n, n): covariance of the tastes that do not follow the consensus, which are noise to it

    @property
    def random(self) -> Array:
        """Probability that a user answers at random, shape (U,)."""
        return self.weight[:, _SIZES.size]

    def summary(self, percentiles: Array) -> tuple[Array, Array, Array]:
        """Return posterior means of rho and the ends of its intervals, shape (U,) each."""
        ends = np.array([percentiles_of(_GRID, weight, percentiles) for weight in self.weight])
        return self.weight @ _GRID, ends[:, 0], ends[:, 1]

    def accuracy(
        self, left: IntArray, right: IntArray, weight: Array, shift: Array, likelihood: Likelihood
    ) -> tuple[Array, Array]:
        """Return accuracies at the grid points, the same for all users (G,), and their probabilities (U, G).

        The accuracy is the probability that an answer to one of these pairs, weighted, agrees with m if it is no tie.
        Probabilities are zero for users of whose pairs the others know nothing.
        """
        S, size = self.tastes, np.diag(self.tastes)
        apart = np.abs(self.consensus[left] - self.consensus[right] + shift)
        apart /= np.sqrt(1.0 + np.maximum(size[left] + size[right] - 2.0 * S[left, right], 0.0))
        predict = Tabulated(partial(left_without_ties, likelihood))
        return predict(_GRID[:, None] * apart) @ weight, self.known[:, None] * self.weight


def percentiles_of(value: Array, weight: Array, percentiles: Array) -> Array:
    """Return percentiles of values that have weights, which sum to one."""
    order = np.argsort(value)
    below = np.cumsum(weight[order]) - 0.5 * weight[order]
    return np.asarray(np.interp(percentiles / 100.0, below, value[order]))


def learn_reliability(
    posterior: PersonalPosterior,
    comparisons: Comparisons,
    likelihood: Likelihood,
    thresholds: TieThresholds | None = None,
) -> Reliability:
    """Return the posterior of the reliability of all seen users, who may have thresholds of ties of their own."""
    log_likelihood, known, tastes = _log_likelihoods(posterior, comparisons, likelihood, thresholds)
    weight, n = softmax(log_likelihood + _learnt_prior(log_likelihood), axis=1), posterior.n_seen
    return Reliability(weight, posterior.m[:n], known, tastes[:n, :n])


def _log_likelihoods(
    posterior: PersonalPosterior,
    comparisons: Comparisons,
    likelihood: Likelihood,
    thresholds: TieThresholds | None,
) -> tuple[Array, BoolArray, Array]:
    """Return log p(answers of a user | rho), shape (U, G), whose pairs others know, and tastes."""
    c = comparisons.take(order_by_user(comparisons))
    n, order = posterior.n_seen, posterior.consensus.has_order
    extra = effect_columns(c, posterior.consensus.covariate_scale, order=order)
    sizes = (posterior.n_users, n), posterior.users.item
    # The rows of `posterior.users`, and its sites, may be in another order: by group and time.
    users = UserRows.from_comparisons(np.asarray(c.user), c.left, c.right, extra, *sizes, c.context)
    n_extra, B = extra.shape[1], posterior.places.spread(posterior.B)
    centred = posterior.m - posterior.m[:n].mean()
    centred[n:] = 0.0
    unexplained = np.eye(len(centred)) - np.outer(centred, centred) / max(float(centred @ centred), _LEAST)
    tastes = unexplained @ posterior.S_places @ unexplained.T
    of_user, result = _user_log_probs(likelihood, c.y, thresholds), np.zeros((posterior.n_users, _GRID.size))
    known = np.zeros(posterior.n_users, dtype=bool)
    sites = posterior.users, posterior.S_places, posterior.tau, posterior.nu
    for u, (P, W, D, linear) in enumerate(iterate_users(np.arange(posterior.n_users), *sites)):
        A = users.user_rows(u)
        mean, shift = A @ posterior.m, A @ B @ posterior.x[u]
        d = linear - D @ shift
        residual = d - D @ mean
        value = mean + shift + P @ (residual - W @ (P @ residual))
        others, half = _consensus_of_others(mean, A @ posterior.half_rows, W, d - W @ (P @ d))
        of_items = slice(len(A) - n_extra)
        known[u] = _is_known(others[of_items], half[of_items], D[of_items, of_items])
        if not known[u]:
            continue
        own, rows = slice(users.rows[u], users.rows[u + 1]), users.seen_rows(u)
        rows[:, of_items.stop :] = 0.0
        seen = rows @ A
        errors = np.sum(np.square(rows @ half), axis=1)
        scale = 1.0 / np.sqrt(1.0 + np.sum(seen @ tastes * seen, axis=1) + _GRID[:, None] ** 2 * errors)
        z = _GRID[:, None] * (rows @ others) + users.extra[own] @ value[of_items.stop :]
        along = D @ (A @ centred)
        of_consensus, of_tastes = float(A @ centred @ along), float(along @ (A @ tastes @ A.T) @ along)
        share = of_consensus / max(of_consensus + of_tastes, _LEAST)
        result[u] = share * (of_user(u)(c.y[own], z, scale) @ c.weight[own])
    return result, known, tastes


def _user_log_probs(
    likelihood: Likelihood, y: Array, thresholds: TieThresholds | None
) -> Callable[[int], Callable[[Array, Array, Array], Array]]:
    """Return log p(y | z) of each user, where z and thresholds of ties are multiplied by the scale of a row."""
    if thresholds is None or not isinstance(likelihood, PairwiseTies):
        shared = _tabulate_log_prob(likelihood, y)
        return lambda _: lambda y, z, scale: shared(y, scale * z)
    b, side = np.exp(thresholds.mean), Tabulated(partial(_log_prob_of, likelihood.side, 1.0), POLICY.table_reach)
    return lambda u: partial(_log_prob_with_threshold, likelihood, side, float(b[u]))


def _log_prob_with_threshold(
    likelihood: PairwiseTies, side: Tabulated, threshold: float, y: Array, z: Array, scale: Array
) -> Array:
    """Return log p(y | z) of answers with a threshold, given log p(left | z) without ties; both have a scale."""
    result, outer, z = np.empty(z.shape), np.ones(y.shape, dtype=bool), scale * z
    for rows, centre, half in likelihood.inner_levels(y):
        # As in `threshold_derivatives`, from the side on which both terms are small.
        b = threshold * scale[:, rows]
        far, outer = np.abs(z[..., rows] - b * centre), outer & ~rows
        upper, lower = side(b * half - far), side(-b * half - far)
        result[..., rows] = upper + np.log1p(-np.exp(lower - upper))
    last, sided = threshold * scale[:, outer] * likelihood.multiples[-2], z[..., outer]
    result[..., outer] = y[outer] * side(sided - last) + (1.0 - y[outer]) * side(-sided - last)
    return result


def _tabulate_log_prob(likelihood: Likelihood, y: Array) -> Callable[[Array, Array], Array]:
    """Return log p(y | z), from a table for each label if there are few labels."""
    labels = np.unique(y)
    if labels.size > POLICY.most_tables:
        return likelihood.log_prob
    tables = [Tabulated(partial(_log_prob_of, likelihood, label), POLICY.table_reach) for label in labels]

    def log_prob(answers: Array, z: Array) -> Array:
        result = np.empty(z.shape)
        for label, table in zip(labels, tables, strict=True):
            result[..., answers == label] = table(z[..., answers == label])
        return result

    return log_prob


def _log_prob_of(likelihood: Likelihood, label: float, z: Array) -> Array:
    return likelihood.log_prob(np.full(z.shape, label), z)


def _is_known(mean: Array, half: Array, D: Array) -> bool:
    """Tell whether the others' consensus on a user's pairs, N(mean, half half^T), is larger than its errors."""
    return float(mean @ D @ mean) > float(np.sum(D @ half * half))


def _consensus_of_others(mean: Array, half: Array, W: Array, linear: Array) -> tuple[Array, Array]:
    """Return the mean of A m given the answers of all other users, and a factor of its covariance.

    It is (I - Q W)^-1 Q = H (I - H^T W H)^-1 H^T, where the posterior of A m has the covariance Q = H H^T. Pairs of few
    items have few directions H.
    """
    size, directions = np.linalg.eigh(half @ half.T)
    kept = size > _LEAST * size[-1]
    scale, directions = np.sqrt(size[kept]), directions[:, kept]
    H = directions * scale
    left, basis = np.linalg.eigh(np.eye(scale.size) - H.T @ W @ H)
    wider = H @ basis / np.sqrt(np.maximum(left, _LEAST))  # times its transpose, the covariance
    centre = mean - H @ (H.T @ linear)
    centre = centre + wider @ (wider.T @ (W @ centre))
    return centre, np.asarray(wider)


def _learnt_prior(log_likelihood: Array) -> Array:
    """Return the log prior of the grid points by EM over the users, shape (G,)."""
    n, log_size = _SIZES.size, np.log(_SIZES)
    kinds, centre, spread = _PSEUDO_USERS / _PSEUDO_USERS.sum(), 0.0, POLICY.reliability_sd
    for _ in range(POLICY.em_steps):
        of_size = -0.5 * ((log_size - centre) / spread) ** 2
        of_size -= logsumexp(of_size)
        reverse, chance, with_it = np.log(kinds)
        log_prior = np.concatenate([reverse + of_size[::-1], [chance], with_it + of_size])
        post = log_likelihood + log_prior
        total = np.exp(post - logsumexp(post, axis=1, keepdims=True)).sum(axis=0)
        of_sizes = total[:n][::-1] + total[n + 1 :]
        counts = _PSEUDO_USERS + np.array([total[:n].sum(), total[n], total[n + 1 :].sum()])
        kinds = counts / counts.sum()
        n_sized = of_sizes.sum() + POLICY.reliability_users
        centre = float(of_sizes @ log_size) / n_sized
        squares = of_sizes @ (log_size - centre) ** 2 + POLICY.reliability_users * POLICY.reliability_sd**2
        spread = float(np.sqrt(squares / n_sized))
    return np.asarray(log_prior)


# --------------------------------- a smooth function of one variable that is evaluated so often that a table of it pays


class Tabulated:
    """A function with its values on a grid from -reach to reach; beyond, it is called itself."""

    def __init__(self, function: Callable[[Array], Array], reach: float = 40.0) -> None:
        self.function, self.reach = function, reach
        self.step = 2.0 * reach / POLICY.table_cells
        self.low = -reach - self.step
        self.table = function(self.low + self.step * np.arange(POLICY.table_cells + 3, dtype=np.float64))

    def __call__(self, x: Array) -> Array:
        """Return the function at x, of any shape."""
        if not np.abs(x).max(initial=0.0) <= self.reach:
            return self.function(x)
        return np.asarray(look_up(self.table, self.low, self.step, x.ravel())).reshape(x.shape)

    def mean_over_pairs(self, f: Array, side: Array, left: IntArray, right: IntArray, weight: Array) -> Array:
        """Return the weighted sum over pairs of the function of side (f_left - f_right), f (S, n), shape (S,)."""
        if not np.ptp(f, axis=1).max(initial=0.0) <= self.reach:
            return np.asarray(self.function(side * (f[:, left] - f[:, right])) @ weight)
        f = np.ascontiguousarray(f)
        return np.asarray(mean_over_pairs(self.table, self.low, self.step, f, side, left, right, weight))
