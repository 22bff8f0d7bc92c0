"""Posterior of max-margin factorization, and its predictions (docs/maths section 8)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import ndtri
from scipy.stats import qmc
from sklearn.utils.validation import check_consistent_length

from skpref._checks import check_arrays, check_positive, check_types, require
from skpref._math.limits import BLOCK
from skpref.data import Ratings, Vocabulary
from skpref.data.weights import read_weights
from skpref.factorization.max_margin.m3f_chain import expected_user_mean
from skpref.factorization.policy import POLICY

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from skpref._typing import Array, IntArray


class RatingVocabularies(NamedTuple):
    """Ids of users and items, and the levels of ratings."""

    users: Vocabulary
    items: Vocabulary
    levels: NDArray[Any]  # (L,): low to high

    def validate(self) -> None:
        """Raise DataError unless the parts fit together."""
        check_types(self, users=Vocabulary, items=Vocabulary, levels=np.ndarray)
        distinct = self.levels.ndim == 1 and len(set(self.levels.tolist())) == self.levels.size >= 2
        require(distinct, self, "levels", "must be at least 2 levels")
        if self.levels.dtype.kind in "biuf":
            ascending = (np.diff(self.levels.astype(np.float64)) > 0.0).all()
            require(ascending, self, "levels", "must be in ascending order")

    def encode(self, user: Any, item: Any, level: IntArray, sample_weight: Any = None) -> Ratings:
        """Return ratings with ids as row numbers; an unknown id is an error."""
        check_consistent_length(user, level)
        rows = self.users.encode(user, noun="rating", kind="user"), self.items.encode(item, noun="rating")
        weight = read_weights(sample_weight, level.size)
        return Ratings(*rows, level, weight, self.users.size, self.items.size, self.levels.size)

    def extend(self, user: Any, item: Any) -> RatingVocabularies:
        """Return the vocabularies with the new ids of ratings appended."""
        users, items = _extend_vocabulary(self.users, user, "user"), _extend_vocabulary(self.items, item, "item")
        return self._replace(users=users, items=items)


def _extend_vocabulary(old: Vocabulary, column: Any, kind: str) -> Vocabulary:
    """Return a vocabulary with the new ids of a column appended."""
    new = column[old.encode(column, unknown="mark", noun="rating", kind=kind) < 0]
    if not new.size:
        return old
    added = Vocabulary.from_columns(new).ids
    same_dtype = old.ids.dtype == added.dtype
    return Vocabulary(np.concatenate([part if same_dtype else part.astype(object) for part in (old.ids, added)]))


class Factors(NamedTuple):
    """Factors and thresholds of several chains or samples."""

    users: NDArray[Any]  # (S, N, K)
    items: NDArray[Any]  # (S, M, K)
    thresholds: NDArray[Any]  # (S, N, L - 1), or (S, 1, L - 1) where all users share them

    def validate(self) -> None:
        """Raise DataError unless the parts fit together."""
        for name, table in zip(self._fields, self, strict=True):
            sound = isinstance(table, np.ndarray) and table.ndim == 3 and table.dtype.str in {"<f8", "<f4", "|u1"}
            require(sound, self, name, "must be a table of each chain or sample")
            require(table.shape[0] == self.users.shape[0] >= 1, self, name, f"must be of {self.users.shape[0]} samples")
            require(name == "users" or table.dtype.kind == "f", self, name, "must be real numbers")
        require(self.items.shape[2] == self.users.shape[2], self, "items", f"must have {self.users.shape[2]} factors")
        shared = self.thresholds.shape[1] in {1, self.users.shape[1]}
        require(shared and self.thresholds.shape[2] >= 1, self, "thresholds", "must be of all users, or shared")

    def scores(self, user: IntArray, item: IntArray) -> Array:
        """Return x_ij of each sample, 0 for unseen users and items, shape (S, n)."""
        u, v = self._rows(self.users, user), self._rows(self.items, item)
        return np.einsum("snk,snk->sn", u, v).astype(np.float64)

    def prior_variances(self, user: IntArray, item: IntArray, sigma: float) -> Array:
        """Return the prior variance of x_ij for unseen users and items, else 0, shape (S, n)."""
        variance = np.zeros((self.users.shape[0], user.size))
        for unseen, other, table in ((user < 0, item, self.items), (item < 0, user, self.users)):
            rows = self._rows(table, other)
            square = np.einsum("snk,snk->sn", rows, rows).astype(np.float64)
            square[:, other < 0] = table.shape[2] * sigma**2
            variance = np.where(unseen, sigma**2 * square, variance)
        return variance

    def thresholds_of(self, user: IntArray) -> Array:
        """Return the thresholds of each row's user, the mean over users for an unseen one, shape (S, n, L - 1)."""
        if self.thresholds.shape[1] == 1:
            return np.broadcast_to(self.thresholds, (self.thresholds.shape[0], user.size, self.thresholds.shape[2]))
        theta = self.thresholds[:, np.maximum(user, 0)].astype(np.float64)
        theta[:, user < 0] = self.thresholds.mean(axis=1, dtype=np.float64)[:, None]
        return theta

    @staticmethod
    def _rows(table: NDArray[Any], index: IntArray) -> NDArray[Any]:
        rows = table[:, np.maximum(index, 0)]
        rows[:, index < 0] = 0.0
        return rows


class Calibration(NamedTuple):
    """How losses become probabilities: p(y) is in proportion to exp(log_weights[y] - C loss / temperature)."""

    temperature: float
    log_weights: Array  # (L,)

    def validate(self) -> None:
        """Raise DataError unless the temperature is positive and the weights are finite."""
        check_types(self, temperature=float)
        check_positive(self, "temperature")
        check_arrays(self, log_weights="L")
        require(bool(np.isfinite(self.log_weights).all()), self, "log_weights", "must be finite")


@dataclass(frozen=True, eq=False)
class M3FPosterior:
    """Average, last state and kept samples of the chains."""

    average: Factors  # average after burn-in of each chain
    last: Factors  # last state of each chain
    samples: Factors  # kept samples of all chains, in single precision
    cost: float  # C
    calibration: Calibration  # of predictive probabilities
    margin: float  # of the hinge loss
    sigma: float  # prior standard deviation of the factors
    varsigma: float  # prior standard deviation of the thresholds; 0 if all users share them
    learnt_thresholds: bool  # whether unseen users have the means of the others and their thresholds' covariance

    def validate(self) -> None:
        """Raise DataError unless the parts fit together."""
        check_types(self, average=Factors, last=Factors, samples=Factors, varsigma=float, cost=float)
        check_types(self, calibration=Calibration, learnt_thresholds=bool)
        check_positive(self, "margin", "sigma")
        check_positive(self, "cost", "varsigma", zero=True)
        self.calibration.validate()
        check_arrays(self.calibration, {"L": self.n_levels}, log_weights="L")
        parts = self.average, self.last, self.samples
        shapes = {(part.users.shape[1], part.items.shape[1], part.thresholds.shape[1:]) for part in parts}
        require(len(shapes) == 1, self, "average", "is of different users, items or levels")
        n_chains, n_users = self.average.users.shape[:2]
        require(self.last.users.shape[0] == n_chains, self, "last", f"must be of {n_chains} chains")
        require(
            self.samples.users.shape[0] % n_chains == 0,
            self,
            "samples",
            f"must be as many of each of {n_chains} chains",
        )
        require(self.average.users.dtype == np.float64, self, "average", "must be float64")
        own = n_users if self.varsigma > 0.0 else 1
        require(self.average.thresholds.shape[1] == own, self, "average", f"must have thresholds of {own} users")
        for name in ("last", "samples"):
            require(self._holds_users(getattr(self, name).users), self, name, "has users of the wrong kind")

    @staticmethod
    def _holds_users(users: NDArray[Any]) -> bool:
        return bool(users.dtype.kind == "f")

    @property
    def n_levels(self) -> int:
        """Number of levels."""
        return int(self.average.thresholds.shape[2]) + 1

    def _scores(self, factors: Factors, user: IntArray, item: IntArray) -> Array:
        """Return the mean of x_ij given each sample, shape (S, n)."""
        score, new_user = factors.scores(user, item), np.flatnonzero((user < 0) & (item >= 0))
        if new_user.size:
            mean = self._mean_user(factors)
            score[:, new_user] = np.einsum("sk,snk->sn", mean, factors.items[:, item[new_user]])
        return score

    def _mean_user(self, factors: Factors) -> Array:
        """Return the mean of the factors of an unseen user given each sample, shape (S, K)."""
        mean = expected_user_mean(factors.users)
        return mean if self.learnt_thresholds else np.zeros_like(mean)

    def _variances(self, factors: Factors, user: IntArray, item: IntArray) -> Array:
        """Return the variance of x_ij given each sample, shape (S, n)."""
        variance = factors.prior_variances(user, item, self.sigma)
        if (both := (user < 0) & (item < 0)).any():
            variance[:, both] += self.sigma**2 * (self._mean_user(factors) ** 2).sum(axis=1, keepdims=True)
        return variance

    def levels(self, user: IntArray, item: IntArray, rule: str) -> IntArray:
        """Predict levels, shape (n,)."""
        if rule == "median":
            cumulative = np.cumsum(self.probabilities(user, item, self.calibration), axis=1)
            return np.minimum((cumulative < 0.5).sum(axis=1), self.n_levels - 1)
        factors = {"scores": self.samples, "average": self.average, "last": self.last}[rule]
        level = np.empty(user.size, dtype=np.int64)
        for part in parts(user.size, factors):
            score = self._scores(factors, user[part], item[part]).mean(axis=0)
            theta = factors.thresholds_of(user[part]).mean(axis=0)
            level[part] = (score[:, None] >= theta).sum(axis=1)
        return level

    def score_moments(self, user: IntArray, item: IntArray) -> tuple[Array, Array]:
        """Return posterior mean and variance of x_ij over the kept samples, shape (n,)."""
        mean, variance = np.empty(user.size), np.empty(user.size)
        for part in parts(user.size, self.samples):
            score = self._scores(self.samples, user[part], item[part])
            given_sample = self._variances(self.samples, user[part], item[part])
            mean[part] = score.mean(axis=0)
            variance[part] = score.var(axis=0, ddof=min(1, score.shape[0] - 1)) + given_sample.mean(axis=0)
        return mean, variance

    def probabilities(self, user: IntArray, item: IntArray, calibration: Calibration) -> Array:
        """Return calibrated probabilities of the levels, averaged over the kept samples, shape (n, L)."""
        out = np.empty((user.size, self.n_levels))
        has_ratings = (user >= 0) & (item >= 0)
        for part in parts(user.size, self.samples):
            rows = np.arange(user.size)[part]
            trained, unseen = rows[has_ratings[part]], rows[~has_ratings[part]]
            if trained.size:
                score = self._scores(self.samples, user[trained], item[trained])
                theta = self.samples.thresholds_of(user[trained])
                out[trained] = level_probabilities(score, theta, self.cost, self.margin, calibration).mean(axis=0)
            if unseen.size:
                out[unseen] = self._probabilities_of_unseen(user[unseen], item[unseen], calibration)
        return out

    def _threshold_roots(self) -> Array:
        """Return roots of the covariance of an unseen user's thresholds, one or each sample's, (S, L - 1, L - 1)."""
        theta = self.samples.thresholds.astype(np.float64)
        n, size = theta.shape[1:]
        if not self.learnt_thresholds:
            return self.varsigma * np.eye(size)[None]
        deviation = theta - theta.mean(axis=1, keepdims=True)
        scatter = np.swapaxes(deviation, 1, 2) @ deviation + self.varsigma**2 * np.eye(size)
        return np.linalg.cholesky(scatter / (n + 1.0))

    def _probabilities_of_unseen(self, user: IntArray, item: IntArray, calibration: Calibration) -> Array:
        """Return probabilities averaged over the prior scores, and prior thresholds, of unseen users and items."""
        mean, deviation = self._scores(self.samples, user, item), np.sqrt(self._variances(self.samples, user, item))
        theta, root = self.samples.thresholds_of(user), self._threshold_roots()
        total = np.zeros((user.size, self.n_levels))
        for node in _normal_nodes(self.n_levels):
            drawn = theta + (user < 0)[:, None] * (root @ node[1:])[:, None]
            p = level_probabilities(mean + deviation * node[0], drawn, self.cost, self.margin, calibration)
            total += p.mean(axis=0)
        return total / POLICY.unseen_nodes


@dataclass(frozen=True, eq=False)
class IPM3FPosterior(M3FPosterior):
    """Posterior with binary features of an Indian buffet process: an unseen user is its next row."""

    alpha: float  # rate of the Indian buffet process

    def validate(self) -> None:
        """Raise DataError unless the parts fit together."""
        super().validate()
        check_positive(self, "alpha")

    @staticmethod
    def _holds_users(users: NDArray[Any]) -> bool:
        return users.dtype == np.uint8 and not bool((users > 1).any())

    def _shares(self, factors: Factors) -> tuple[Array, float]:
        """Return the probability that the next user holds each feature, and the expected number of new features."""
        n = factors.users.shape[1] + 1.0
        return factors.users.sum(axis=1, dtype=np.float64) / n, self.alpha / n

    def _mean_user(self, factors: Factors) -> Array:
        return self._shares(factors)[0]

    def _variances(self, factors: Factors, user: IntArray, item: IntArray) -> Array:
        variance = np.zeros((factors.users.shape[0], user.size))
        if not (unseen := (user < 0) | (item < 0)).any():
            return variance
        share, n_new = self._shares(factors)
        both, new_item = np.flatnonzero((user < 0) & (item < 0)), np.flatnonzero((user >= 0) & (item < 0))
        new_user = np.flatnonzero(unseen & (item >= 0))
        square = factors.items[:, item[new_user]].astype(np.float64) ** 2
        variance[:, new_user] = np.einsum("sk,snk->sn", share * (1.0 - share), square) + self.sigma**2 * n_new
        held = factors.users[:, user[new_item]].astype(np.float64)
        variance[:, new_item] = self.sigma**2 * np.einsum("snk,snk->sn", held, held)
        variance[:, both] = self.sigma**2 * (share.sum(axis=1) + n_new)[:, None]
        return variance


@lru_cache(maxsize=8)
def _normal_nodes(width: int) -> Array:
    """Return quasi-random standard normal points, the same in every process, shape (256, width)."""
    return np.asarray(ndtri(qmc.Sobol(width, scramble=True, rng=0).random(POLICY.unseen_nodes)))


def level_losses(score: Array, theta: Array, margin: float) -> Array:
    """Return how much the hinge loss of each level exceeds the smallest one, shape (..., L)."""
    distance = theta - score[..., None]
    # Neighbouring levels differ by one threshold.
    above, below = np.maximum(0.0, margin - distance), np.maximum(0.0, margin + distance)
    step = np.concatenate([np.zeros((*score.shape, 1)), np.cumsum(below - above, axis=-1)], axis=-1)
    return step - step.min(axis=-1, keepdims=True)


def level_probabilities(
    score: Array, theta: Array, cost: float, margin: float, calibration: Calibration | None = None
) -> Array:
    """Return the probability of each level, exp(-C hinge loss) over its sum, calibrated."""
    log_p = -cost * level_losses(score, theta, margin)
    if calibration is not None:
        log_p = log_p / calibration.temperature + calibration.log_weights
    p = np.exp(log_p - log_p.max(axis=-1, keepdims=True))
    return p / p.sum(axis=-1, keepdims=True)


def parts(n: int, factors: Factors) -> list[slice]:
    """Return slices of n rows whose factors, of all samples, fit into memory at once."""
    size = max(1, BLOCK // max(factors.items.shape[0] * factors.items.shape[2], 1))
    return [slice(first, first + size) for first in range(0, n, size)]
