"""Ordered levels: z plus noise falls between two thresholds (Chu & Ghahramani, JMLR 6, 2005).

    p(y | z) = Phi((b_{y+1} - z)/noise) - Phi((b_y - z)/noise),   y = 0..r-1,   b_0 = -inf,   b_r = +inf.

Gradients are with respect to theta = (log noise, b_1, log Delta_2, .., log Delta_{r-1}), Delta_j = b_j - b_{j-1}, which
is unconstrained. E[log p] is concave in (1, b_1, .., b_{r-1})/noise, the coordinates in which `learnt` takes its steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Self

import numpy as np
from scipy.linalg import block_diag, cho_solve
from scipy.special import ndtr, ndtri

from skpref._compiled.ordinal import ENDS, SCORES, THRESHOLDS, VALUES, expected_levels, levels_at
from skpref._math.bands import band, mirrored, tail_band
from skpref.exceptions import DataError
from skpref.likelihoods.base import Likelihood, broadcast
from skpref.likelihoods.policy import POLICY

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray

    from skpref._math.bands import Band
    from skpref._typing import Array, IntArray
    from skpref.likelihoods.base import Triple

__all__ = ["OrdinalProbit", "level_numbers"]


class Projections(NamedTuple):
    """Latent values of n rows at some parameters u, shape (P,), with derivatives in u."""

    z: Array  # (n,)
    slopes: Array  # (n, P): dz/du
    log_prior: float = 0.0  # log p(u)
    gradient: Array | float = 0.0  # (P,): of log p(u)
    precision: Array | float = 0.0  # (P,): diagonal of minus the Hessian matrix of log p(u)


@dataclass(frozen=True)
class OrdinalProbit(Likelihood):
    """Ordinal probit; y is the number of a level, 0..r-1.

    Parameters
    ----------
    thresholds : tuple of float, length r - 1
        b_1 < .. < b_{r-1}, in units of z; level j lies between b_j and b_{j+1}.
    noise : float, default=1.0
        Standard deviation > 0 of the noise added to z.

    Raises
    ------
    DataError
        If thresholds are missing, not finite or not ascending, or `noise` is not positive and finite. The methods raise
        it if y has values that are not numbers of levels.

    Notes
    -----
    Expectations are sums over the nodes of `skpref._math.quadrature.rules` for variance v/noise^2. Levels without
    observations are allowed.

    References
    ----------
    Chu and Ghahramani: Gaussian processes for ordinal regression. JMLR 6, 1019-1041, 2005.

    Examples
    --------
    >>> from skpref.likelihoods import OrdinalProbit
    >>> likelihood = OrdinalProbit((-1.0, 0.5), noise=0.7)
    >>> likelihood.probabilities([0.0, 2.0], [0.5, 0.5]).round(3)
    array([[0.157, 0.535, 0.308],
           [0.001, 0.065, 0.934]])
    """

    # Standard deviation of the normal noise that is most like this one at noise=1.
    width: ClassVar[float] = 1.0

    thresholds: tuple[float, ...]
    noise: float = 1.0

    def __post_init__(self) -> None:
        """Check the parameters; thresholds may be any sequence."""
        b = np.asarray(self.thresholds, dtype=np.float64)
        if b.ndim != 1 or b.size == 0 or not np.all(np.isfinite(b)) or np.any(np.diff(b) <= 0.0):
            raise DataError(f"thresholds must be finite and strictly ascending, at least one; got {self.thresholds!r}")
        if not (np.isfinite(self.noise) and self.noise > 0.0):
            raise DataError(f"noise must be a positive finite number; got {self.noise!r}")
        object.__setattr__(self, "thresholds", tuple(b.tolist()))
        object.__setattr__(self, "noise", float(self.noise))

    @classmethod
    def start(cls, y: ArrayLike, n_levels: int, weight: ArrayLike | None = None) -> Self:
        """Return a likelihood whose levels, for z ~ N(0, 1), have the frequencies in the data.

        Parameters
        ----------
        y : array_like of shape (n,)
            Numbers of levels.
        n_levels : int
            r >= 2.
        weight : array_like of shape (n,), default=None
            Weights >= 0; None means 1 each.

        Returns
        -------
        OrdinalProbit
            The noise has a standard deviation of 1. Each level counts half an observation more than it has, so levels
            without observations keep an interval between their neighbours.

        Raises
        ------
        DataError
            If `n_levels` is below 2, or y has values that are not numbers of levels.
        """
        if n_levels < 2:
            raise DataError(f"n_levels must be at least 2; got {n_levels}")
        level = level_numbers(np.asarray(y, dtype=np.float64), n_levels).ravel()
        mass = None if weight is None else np.asarray(weight, dtype=np.float64).ravel()
        count = np.bincount(level, mass, minlength=n_levels) + 0.5
        # From the nearer end, so that small tails keep their digits.
        lower, upper = np.cumsum(count)[:-1] / count.sum(), (np.cumsum(count[::-1])[::-1] / count.sum())[1:]
        b = np.where(lower < upper, ndtri(lower), -ndtri(upper))
        return cls(tuple((np.sqrt(2.0) * b).tolist()), 1.0 / cls.width)

    @property
    def n_levels(self) -> int:
        """Number of levels r."""
        return len(self.thresholds) + 1

    @property
    def theta(self) -> Array:
        """The parameters without constraints, (log noise, b_1, log Delta_2, .., log Delta_{r-1}): a new array."""
        b = np.asarray(self.thresholds)
        return np.concatenate([[np.log(self.noise)], b[:1], np.log(np.diff(b))])

    def with_theta(self, theta: ArrayLike) -> Self:
        """Return a likelihood with other parameters.

        Parameters
        ----------
        theta : array_like of shape (r,)
            log noise, b_1, and the logarithms of the r - 2 gaps between thresholds.

        Returns
        -------
        OrdinalProbit
            A likelihood with these parameters.

        Raises
        ------
        DataError
            If theta has a wrong length, or two thresholds are equal in floating point.
        """
        theta = np.asarray(theta, dtype=np.float64)
        if theta.shape != (self.n_levels,):
            raise DataError(f"theta must have shape ({self.n_levels},); got {theta.shape}")
        with np.errstate(over="ignore"):
            b = np.cumsum(np.concatenate([theta[1:2], np.exp(theta[2:])]))
            return type(self)(tuple(b.tolist()), float(np.exp(theta[0])))

    def probabilities(self, mu: ArrayLike, v: ArrayLike) -> Array:
        """Return the probability of every level for z ~ N(mu, v).

        Parameters
        ----------
        mu, v : array_like of shape (n,)
            Mean and variance (>= 0) of z.

        Returns
        -------
        ndarray of shape (n, r)
            Probabilities; rows sum to 1.
        """
        mean, variance = broadcast(mu, v)
        ends = (np.asarray(self.thresholds) - mean[..., None]) / np.sqrt(self.noise**2 + variance)[..., None]
        left, right = ndtr(ends), ndtr(-ends)
        out = np.empty((*mean.shape, self.n_levels))
        out[..., 0], out[..., -1] = left[..., 0], right[..., -1]
        # Differences of tails are computed on the side where they are small.
        rightwards = ends[..., :-1] + ends[..., 1:] > 0.0
        out[..., 1:-1] = np.where(rightwards, right[..., :-1] - right[..., 1:], left[..., 1:] - left[..., :-1])
        return np.maximum(out, 0.0)

    def third_derivative(self, y: ArrayLike, z: ArrayLike) -> Array:
        """Return d3 log p(y | z)/dz3 (for the gradient of Laplace's evidence).

        Parameters
        ----------
        y : array_like of shape (n,)
            Numbers of levels.
        z : array_like of shape (n,)
            Projections.

        Returns
        -------
        ndarray of shape (n,)
            The derivative.
        """
        y, z = broadcast(y, z)
        level = level_numbers(y, self.n_levels)
        third = self._stack_by_level(level, lambda k, at: (_third(self._band(k, at, self.noise)),), z)[0]
        return np.asarray(third / self.noise**3)

    def theta_derivatives(self, y: ArrayLike, z: ArrayLike) -> Triple:
        """Return the derivatives in theta of l = log p(y | z), of dl/dz and of d2l/dz2.

        Parameters
        ----------
        y : array_like of shape (n,)
            Numbers of levels.
        z : array_like of shape (n,)
            Projections.

        Returns
        -------
        value, first, second : ndarray of shape (r, n)
            dl/dtheta, d2l/(dtheta dz) and d3l/(dtheta dz2).
        """
        s, (y, z) = self.noise, broadcast(y, z)
        level = level_numbers(y, self.n_levels)
        parts = self._stack_by_level(level, lambda k, at: _theta_channels(self._band(k, at, s)), z)
        value, first, second = (
            self._theta_derivatives(level, -part[0] / s ** (k + 1), part[1] / s ** (k + 1), part[2] / s**k)
            for k, part in enumerate(parts.reshape((3, 3, *level.shape)))
        )
        return value, first, second

    def theta_expectation(self, y: ArrayLike, mu: ArrayLike, v: ArrayLike) -> Array:
        """Return the derivatives in theta of E = E_{N(z; mu, v)}[log p(y | z)].

        Parameters
        ----------
        y : array_like of shape (n,)
            Numbers of levels.
        mu, v : array_like of shape (n,)
            Mean and variance (>= 0) of z.

        Returns
        -------
        ndarray of shape (r, n)
            dE/dtheta.
        """
        y, mu, v = broadcast(y, mu, v)
        level = level_numbers(y, self.n_levels)
        by_z, by_upper, _, by_scale = self._expected(SCORES, level, mu, v)
        return self._theta_derivatives(level, -by_z / self.noise, by_upper / self.noise, by_scale)

    def theta_tilted(self, y: ArrayLike, mu: ArrayLike, v: ArrayLike) -> Array:
        """Return the derivatives in theta of log Z, Z = E_{N(z; mu, v)}[p(y | z)].

        Parameters
        ----------
        y : array_like of shape (n,)
            Numbers of levels.
        mu, v : array_like of shape (n,)
            Mean and variance (>= 0) of the cavity.

        Returns
        -------
        ndarray of shape (r, n)
            d log Z/dtheta.
        """
        y, mu, v = broadcast(y, mu, v)
        level, width = level_numbers(y, self.n_levels), np.sqrt(self.noise**2 + v)
        by_z, by_upper, _, by_scale = self._evaluate(SCORES, level, mu, width)
        return self._theta_derivatives(level, -by_z / width, by_upper / width, by_scale * (self.noise / width) ** 2)

    def augmented(self, y: ArrayLike, mu: ArrayLike, v: ArrayLike) -> Triple:
        """Return log p(y | mu) - v/(2 noise^2), a lower bound on E_{N(z; mu, v)}[log p(y | z)], and its derivatives.

        It is the bound of a q that has z and z plus noise independent ([AC93]_ by variational inference). The curvature
        is the same at every row, 1/noise^2, so an update of coordinate ascent never lowers it, and a row costs one
        evaluation of log p.

        Parameters
        ----------
        y : array_like of shape (n,)
            Numbers of levels.
        mu, v : array_like of shape (n,)
            Mean and variance (>= 0) of z.

        Returns
        -------
        value, d_mu, d_v : ndarray of shape (n,)
            The bound, in nats, and its derivatives in mu and v.

        References
        ----------
        .. [AC93] J. Albert, S. Chib: Bayesian analysis of binary and polychotomous response data. Journal of the
           American Statistical Association 88, 669-679, 1993.
        """
        y, mu, v = broadcast(y, mu, v)
        value, first, _ = self._derivatives(y, mu)
        d_v = np.full(mu.shape, -0.5 / self.noise**2)
        return value + v * d_v, first, d_v

    def learnt(self, y: Array, mu: Array, v: Array, weight: Array) -> Self:
        """Return the likelihood after a Newton step in noise and thresholds on sum_i w_i E[log p] over N(mu, v).

        Parameters
        ----------
        y, mu, v, weight : ndarray of shape (n,)
            Numbers of levels, means and variances of z, weights.

        Returns
        -------
        OrdinalProbit
            The step is halved until the objective does not fall. Levels without weight keep their widths, in units of
            the noise. With fewer than two levels with weight, the likelihood is returned unchanged.
        """
        return self._newton_step((y, mu, v, weight), learn_noise=True)

    def learnt_thresholds(self, y: Array, mu: Array, weight: Array) -> Self:
        """Return the likelihood after a Newton step in the thresholds alone on sum_i w_i log p(y_i | mu_i).

        Parameters
        ----------
        y, mu, weight : ndarray of shape (n,)
            Numbers of levels, projections, weights.

        Returns
        -------
        OrdinalProbit
            As `learnt`, with the same noise. The bound of `augmented` does not fall, whatever the variances.
        """
        return self._newton_step((y, mu, np.zeros(mu.shape), weight), learn_noise=False)

    def threshold_sums(self, y: Array, mu: Array, weight: Array) -> Array:
        """Return what `with_better_thresholds` needs to know of rows; results of several parts are added.

        Parameters
        ----------
        y, mu, weight : ndarray of shape (n,)
            Numbers of levels, projections, weights.

        Returns
        -------
        ndarray of shape (11, r)
            Weight, log-likelihood and its derivatives of each level.
        """
        return self._sums(level_numbers(y, self.n_levels), mu, np.zeros(mu.shape), weight)

    def with_better_thresholds(self, sums: Array, objective: Callable[[Self], float]) -> Self:
        """Return the likelihood after the step of `learnt_thresholds`, given sums over rows that are elsewhere.

        Parameters
        ----------
        sums : ndarray of shape (11, r)
            Sum of the `threshold_sums` of all rows.
        objective : callable
            Returns the weighted log-likelihood of all rows under a likelihood.

        Returns
        -------
        OrdinalProbit
            As `learnt_thresholds`.
        """
        return self._step_from_sums(sums, objective, learn_noise=False)

    def drawn_thresholds(
        self,
        y: Array | IntArray,
        here: Projections,
        rng: np.random.Generator,
        moved: Callable[[Array], Projections] | None = None,
    ) -> tuple[Self, Array, float]:
        """Draw the thresholds, and parameters u that move z, together by a step of Metropolis and Hastings.

        Parameters
        ----------
        y : ndarray of shape (n,)
            Numbers of levels.
        here : Projections
            Latent values without noise at u = 0.
        rng : Generator
            Source of random numbers.
        moved : callable, default=None
            Returns the projections at another u, of shape (P,). None if `here` has no parameters.

        Returns
        -------
        likelihood : OrdinalProbit
            With the same noise. The proposal is a Newton step plus a normal draw with the inverse of the negative
            Hessian matrix as its covariance, so that nearly all are accepted. The prior of the thresholds is flat.
            Levels without rows keep their widths.
        u : ndarray of shape (P,)
            The other parameters: zeros unless the proposal is accepted.
        value : float
            The log likelihood before the step.
        """
        level = level_numbers(np.asarray(y, dtype=np.float64), self.n_levels)
        stay = np.zeros(here.slopes.shape[1])
        free = self._free_directions(np.bincount(level, minlength=self.n_levels) > 0)
        if free is None:
            return self, stay, float(self._evaluate(VALUES, level, here.z, np.full(here.z.shape, self.noise))[0].sum())
        free = free[1:, 1:]
        value, step, root = self._normal_at(level, here, free)
        noise, log_u = rng.standard_normal(step.size), np.log(rng.random())
        move = step + np.linalg.solve(root.T, noise)
        thresholds, u = np.asarray(self.thresholds) + self.noise * (free @ move[: free.shape[1]]), move[free.shape[1] :]
        if not np.all(np.diff(thresholds) > 0.0):
            return self, stay, value
        trial, there = type(self)(tuple(thresholds.tolist()), self.noise), here if moved is None else moved(u)
        new_value, new_step, new_root = trial._normal_at(level, there, free)  # noqa: SLF001 - its own class
        back = new_root.T @ (-move - new_step)
        log_ratio = 0.5 * (noise @ noise - back @ back) + np.log(np.diag(new_root) / np.diag(root)).sum()
        accepted = log_u < new_value - value + there.log_prior - here.log_prior + log_ratio
        return (trial, u, value) if accepted else (self, stay, value)

    def _normal_at(self, level: IntArray, there: Projections, free: Array) -> tuple[float, Array, Array]:
        """Return the log likelihood, a Newton step in thresholds/noise and u, and the root of the negative Hessian."""
        r, slopes = self.n_levels, there.slopes / self.noise
        value, up, low, up_z, low_z = self._evaluate(ENDS, level, there.z, np.full(there.z.shape, self.noise))
        both = up * low

        def sum_by_level(part: Array) -> Array:
            return np.bincount(level, part, minlength=r).astype(np.float64)

        precision = np.zeros((r - 1 + slopes.shape[1],) * 2)
        b, u = np.arange(r - 1), np.arange(r - 1, len(precision))
        precision[b, b] = sum_by_level(up_z + both)[:-1] + sum_by_level(low_z + both)[1:]
        precision[b[1:], b[:-1]] = precision[b[:-1], b[1:]] = -sum_by_level(both)[1:-1]
        precision[np.ix_(u, u)] = slopes.T @ (slopes * (up_z + low_z)[:, None]) + np.diag(
            np.broadcast_to(there.precision, u.shape)
        )
        for number, slope in zip(u, slopes.T, strict=True):
            precision[b, number] = precision[number, b] = (
                -sum_by_level(up_z * slope)[:-1] - sum_by_level(low_z * slope)[1:]
            )
        gradient = np.concatenate([sum_by_level(up)[:-1] - sum_by_level(low)[1:], (low - up) @ slopes + there.gradient])
        free = block_diag(free, np.eye(u.size))
        root = np.linalg.cholesky(free.T @ precision @ free)
        step = cho_solve((root, True), free.T @ gradient)
        return float(value.sum()), np.asarray(step, np.float64), np.asarray(root, np.float64)

    def _newton_step(self, data: tuple[Array, Array, Array, Array], *, learn_noise: bool) -> Self:
        y, mu, v, weight = data

        def objective(trial: Self) -> float:
            return float(weight @ trial._expectation(y, mu, v)[0])

        sums = self._sums(level_numbers(y, self.n_levels), mu, v, weight)
        return self._step_from_sums(sums, objective, learn_noise=learn_noise)

    def _step_from_sums(self, sums: Array, objective: Callable[[Self], float], *, learn_noise: bool) -> Self:
        free = self._free_directions(sums[0] > 0.0)
        if free is None:
            return self
        free = free if learn_noise else free[:, 1:]
        value, gradient, hessian = self._derivatives_of(sums)
        slope, curvature = free.T @ gradient, free.T @ -hessian @ free
        scale = np.sqrt(np.maximum(np.diag(curvature), np.finfo(np.float64).tiny))
        curvature = curvature / scale[:, None] / scale + 1e-12 * np.eye(scale.size)
        step = np.linalg.solve(curvature, slope / scale) / scale
        if slope @ step <= POLICY.least_gain * abs(value):
            return self
        return self._halved(free @ step, value, objective)

    def _halved(self, step: Array, value: float, objective: Callable[[Self], float]) -> Self:
        """Halve a step in (1, b)/noise, in units of 1/noise, until the parameters are valid and the objective rises."""
        now = np.concatenate([[1.0], np.asarray(self.thresholds) / self.noise])
        # 1/noise and the gaps must stay positive; how fast they fall along the step.
        left = np.concatenate([now[:1], np.diff(now[1:])])
        falls = -np.concatenate([step[:1], np.diff(step[1:])])
        keep = POLICY.left
        share = min(1.0, *((1.0 - keep) * left[falls > 0.0] / falls[falls > 0.0]), 1.0 / (keep * max(step[0], 1.0)))
        for _ in range(POLICY.halvings):
            inverse, *b = now + share * step
            b = np.asarray(b) / inverse * self.noise
            if np.all(np.diff(b) > 0.0) and np.all(np.isfinite(b)):
                trial = type(self)(tuple(b.tolist()), float(self.noise / inverse))
                if objective(trial) >= value:
                    return trial
            share *= 0.5
        return self

    def _free_directions(self, present: NDArray[np.bool_]) -> Array | None:
        """Return directions of (1/noise, b/noise) in columns: thresholds without weight between them move together."""
        levels = np.flatnonzero(present)
        if levels.size < 2:
            return None
        # Threshold j, from 0, is the upper end of level j; those beyond the outer levels move with the nearest one.
        group = np.clip(np.searchsorted(levels, np.arange(1, self.n_levels)) - 1, 0, levels.size - 2)
        free = np.zeros((self.n_levels, levels.size))
        free[0, 0] = 1.0
        free[np.arange(1, self.n_levels), 1 + group] = 1.0
        return free

    def _sums(self, level: IntArray, mu: Array, v: Array, weight: Array) -> Array:
        """Return weight, objective and derivatives (in thresholds: at the ends of each level), shape (11, r)."""
        parts = self._expected(THRESHOLDS, level, mu, v) * weight
        return np.stack([np.bincount(level, part, minlength=self.n_levels) for part in (weight, *parts)])

    def _derivatives_of(self, sums: Array) -> tuple[float, Array, Array]:
        """Return the objective and its derivatives in (1, b)/noise, the first in units of 1/noise."""
        r = self.n_levels
        value, scale, up, low, scale_2, scale_up, scale_low, up_2, low_2, up_low = sums[1:]
        gradient, hessian = np.zeros(r), np.zeros((r, r))
        gradient[0], hessian[0, 0] = scale.sum(), scale_2.sum()
        gradient[1:] = up[:-1] - low[1:]
        hessian[0, 1:] = hessian[1:, 0] = scale_up[:-1] + scale_low[1:]
        inner = np.arange(1, r)
        hessian[inner, inner] = -(up_2[:-1] + low_2[1:])
        hessian[inner[:-1], inner[1:]] = hessian[inner[1:], inner[:-1]] = up_low[1:-1]
        return float(value.sum()), gradient, hessian

    def _derivatives(self, y: Array, z: Array) -> Triple:
        s = self.noise
        value, first, second = self._evaluate(VALUES, level_numbers(y, self.n_levels), z, np.full(z.shape, s))
        return value, first / s, second / s**2

    def _expectation(self, y: Array, mu: Array, v: Array) -> Triple:
        value, first, second = self._expected(VALUES, level_numbers(y, self.n_levels), mu, v)
        return value, first / self.noise, 0.5 * second / self.noise**2

    def _tilted(self, y: Array, mu: Array, v: Array) -> Triple:
        width = np.sqrt(self.noise**2 + v)
        log_z, first, second = self._evaluate(VALUES, level_numbers(y, self.n_levels), mu, width)
        return log_z, first / width, second / width**2

    def _predict(self, mu: Array, v: Array) -> Array:
        # The expected level is the sum of the probabilities to lie above each threshold.
        width = np.sqrt(self.noise**2 + v)
        return np.asarray(sum(ndtr((mu - b) / width) for b in self.thresholds))

    def _band(self, k: int, z: Array, scale: Array | float) -> Band:
        """Return the terms of level k at z, for noise of standard deviation `scale`."""
        b = self.thresholds
        if k == 0:
            return tail_band((b[0] - z) / scale)
        if k == len(b):
            return mirrored(tail_band((z - b[-1]) / scale))
        return band((0.5 * b[k - 1] + 0.5 * b[k] - z) / scale, (b[k] - b[k - 1]) / scale)

    def _stack_by_level(self, level: IntArray, rule: Callable[..., tuple[Array, ...]], *columns: Array) -> Array:
        """Stack the values of rule(level, columns), which is called once for each level there is."""
        flat, columns = level.ravel(), tuple(column.ravel() for column in columns)
        out = np.empty((len(rule(0, *(column[:0] for column in columns))), flat.size))
        for k in np.flatnonzero(np.bincount(flat)).tolist():
            rows = flat == k
            out[:, rows] = rule(k, *(column[rows] for column in columns))
        return out.reshape((len(out), *level.shape))

    def _evaluate(self, wanted: int, level: IntArray, z: Array, scale: Array) -> Array:
        """Return the wanted terms at z, for noise of standard deviation `scale`, stacked."""
        out = levels_at(wanted, level.ravel(), z.ravel(), scale.ravel(), np.asarray(self.thresholds))
        return out.reshape((wanted, *level.shape))

    def _expected(self, wanted: int, level: IntArray, mu: Array, v: Array) -> Array:
        """Return expectations of the wanted terms over N(mu, v), stacked."""
        if not v.any():
            return self._evaluate(wanted, level, mu, np.full(mu.shape, self.noise))
        b = np.asarray(self.thresholds)
        out = expected_levels(wanted, level.ravel(), mu.ravel(), v.ravel(), b, self.noise)
        return out.reshape((wanted, *level.shape))

    def _theta_derivatives(self, level: IntArray, by_all: Array, by_upper: Array, by_scale: Array) -> Array:
        """Return derivatives in theta from derivatives in a shift of all thresholds, the upper threshold and log noise.

        A threshold is b_1 plus the gaps up to it: a gap below the level moves both its ends, its own the upper end.
        """
        j = np.arange(1, self.n_levels).reshape((-1,) + (1,) * level.ndim)
        moved = np.where(j <= level, by_all, np.where(j == level + 1, by_upper, 0.0))
        moved *= np.concatenate([[1.0], np.diff(self.thresholds)]).reshape(j.shape)
        return np.concatenate([by_scale[None], moved])


def _value_channels(terms: Band) -> Triple:
    """Return the derivatives of log p in z, in the upper threshold and in log noise."""
    return terms.mean, terms.at_upper, terms.bend + terms.mean**2


def _third(terms: Band) -> Array:
    """Return the third derivative of log p in z."""
    *_, to_upper, to_lower, variance = terms
    return terms.at_lower * (to_lower**2 - variance) - terms.at_upper * (to_upper**2 - variance)


def _theta_channels(terms: Band) -> tuple[Array, ...]:
    """Return the derivatives in z, in the upper threshold and in log noise of log p, of its slope and its curvature."""
    _, at_upper, at_lower, mean, bend, to_upper, to_lower, variance = terms
    upper_first, upper_second = at_upper * to_upper, at_upper * (to_upper**2 - variance)
    lower_second = at_lower * (variance - to_lower**2)
    third = -_third(terms)
    # The ends are m + (u - m) and m - (m - w): sums in them split so that the large m comes with exact factors.
    scale_first = mean * bend - at_upper * to_upper**2 + at_lower * to_lower**2 - mean
    scale_second = to_lower * lower_second - to_upper * upper_second - mean * third - 2.0 * bend
    return (*_value_channels(terms), *(bend, upper_first, scale_first), *(-third, upper_second, scale_second))


def level_numbers(y: Array, n_levels: int) -> IntArray:
    """Return y as whole numbers 0..r-1."""
    with np.errstate(invalid="ignore"):
        level = y.astype(np.int64)
    if not np.array_equal(level, y) or np.any((level < 0) | (level >= n_levels)):
        wrong = y[~((level == y) & (level >= 0) & (level < n_levels))]
        raise DataError(f"y must hold numbers of levels, 0 to {n_levels - 1}; got {wrong.flat[0]:g}")
    return level
