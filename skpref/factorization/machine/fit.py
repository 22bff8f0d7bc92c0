"""Coordinate ascent of the factorization machine on all rows (docs/maths section 9)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from skpref._compiled.fm import Slopes, update_features
from skpref._compiled.fm_fields import one_hot_ranges
from skpref._compiled.fm_full import FeaturePosterior, Sites
from skpref._events import Iteration
from skpref.exceptions import DataError
from skpref.factorization.machine.balance import balance_factors, bipartite_sides
from skpref.factorization.machine.fields import DesignSweep, design_of
from skpref.factorization.machine.model import Bias, compress, diagonals
from skpref.factorization.policy import POLICY

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from skpref._compiled.fm import Compressed
    from skpref._events import OnIteration
    from skpref._typing import Array, Features, IntArray
    from skpref.factorization.machine.model import Machine


@dataclass(frozen=True)
class FitOptions:
    """Options of a fit."""

    max_iter: int  # maximum number of passes
    tol: float  # converged if a pass raises the bound by less, per unit of weight
    learn_priors: bool  # whether the groups' priors are learnt
    learn_likelihood: bool  # whether its noise or thresholds are learnt
    free: NDArray[np.bool_]  # (K,): features that are updated
    free_bias: bool  # whether w_0 is updated
    dtype: np.dtype  # of the sums kept for each row
    on_iteration: OnIteration | None = None  # called after every pass
    stop: Callable[[Machine], bool] | None = None  # called after every pass; true ends the fit
    fitted: Callable[[Machine], Any] | None = None  # an estimator with the machine, for events
    # Of mini-batches
    patience: int | None = None  # passes without a higher bound that end the fit; None: they do not
    divergence_groups: IntArray | None = None  # (K,): in which weights of divergences are normalised; None: unbiased

    def stops(self, bounds: list[float], start_time: float, machine: Machine) -> bool:
        """Report a pass, and return whether to stop."""
        fitted = None if self.fitted is None else partial(self.fitted, machine)
        event = Iteration(len(bounds), self.max_iter, bounds[-1], perf_counter() - start_time, fitted)
        return bool((self.on_iteration and self.on_iteration(event)) or (self.stop and self.stop(machine)))


class Sweep(Protocol):
    """Rows, wherever they are, and the updates of a pass over them; moments and slopes stay with the rows."""

    total_weight: float

    def moments(self, machine: Machine) -> Any:
        """Return mean and variance of y(x) in every row, and prepare `update`."""

    def learn_likelihood(self, machine: Machine, moments: Any) -> Machine:
        """Return the machine with the best noise or thresholds given q."""

    def slopes(self, machine: Machine, moments: Any) -> tuple[float, Any]:
        """Return the expected log-likelihood and its derivatives in every row."""

    def update(self, machine: Machine, slopes: Any, moments: Any, rho: float) -> Machine | None:
        """Return the machine after an update of w_0 and of every feature; None where one has no posterior."""

    def learn_priors(self, machine: Machine) -> Machine:
        """Return the machine with the best priors given q."""

    def singular_message(self) -> str:
        """Return the message of an error about a feature without a posterior."""


def coordinate_ascent(
    machine: Machine, data: tuple[Features, Array, Array], plan: FitOptions
) -> tuple[Machine, list[float], bool]:
    """Return the machine that maximises the bound for rows in memory, the bounds, and whether it converged."""
    return ascend(machine, (_FullSweep if machine.full else _FactorisedSweep)(data, machine, plan), plan)


def ascend(machine: Machine, sweep: Sweep, plan: FitOptions) -> tuple[Machine, list[float], bool]:
    """Return the machine that maximises the bound, the bounds after each pass, and whether it converged.

    A pass updates w_0, one feature after the other (exactly for a Gaussian likelihood, else with the curvature at the
    start of the pass), the noise or the thresholds, and the priors. A pass that lowers the bound, which only
    likelihoods that are not quadratic can cause, is repeated with half the step: short steps follow the natural
    gradient.
    """
    start_time, rho = perf_counter(), 1.0
    bounds: list[float] = []
    moments = sweep.moments(machine)
    expected, slopes = sweep.slopes(machine, moments)
    bound, min_gain, converged = machine.bound(expected), plan.tol * sweep.total_weight, False
    while len(bounds) < plan.max_iter and not converged:
        candidate = sweep.update(machine, slopes, moments, rho)
        if candidate is None:
            raise DataError(sweep.singular_message())
        new_moments = sweep.moments(candidate)
        if plan.learn_likelihood:
            candidate = sweep.learn_likelihood(candidate, new_moments)
        if plan.learn_priors and len(bounds) >= POLICY.first_prior_pass:
            candidate = sweep.learn_priors(candidate)
        expected, new_slopes = sweep.slopes(candidate, new_moments)
        new = candidate.bound(expected)
        if not new >= bound:
            # Converged but for rounding, or too long a step.
            # The search for a better bound ends at a small share of a full step.
            rho, converged = 0.5 * rho, rho <= 2.0**-12 or bound - new <= 1e-12 * abs(bound)
            if not converged:
                sweep.moments(machine)
            continue
        converged = len(bounds) > POLICY.first_prior_pass and new - bound < min_gain * rho
        machine, slopes, moments, bound, rho = candidate, new_slopes, new_moments, new, min(1.0, 2.0 * rho)
        bounds.append(bound)
        if plan.stops(bounds, start_time, machine):
            break
    return machine, bounds or [bound], converged


def update_bias(
    machine: Machine, pull: float, curvature: float, rho: float, *, free: bool = True
) -> tuple[Machine, float]:
    """Return the machine with w_0 updated, given sums of the rows' slopes, and by how much its mean has changed."""
    bias, prior = machine.bias, machine.bias_prior
    if not free:
        return machine, 0.0
    precision = curvature + 1.0 / prior.variance
    step = rho * (pull + (prior.mean - bias.mean) / prior.variance) / precision
    variance = 1.0 / ((1.0 - rho) / bias.variance + rho * precision)
    return replace(machine, bias=Bias(float(bias.mean + step), float(variance))), float(step)


class _RowsInMemory:
    """What sweeps over rows in memory share."""

    def __init__(self, data: tuple[Features, Array, Array], plan: FitOptions) -> None:
        self._X, self._y, self._weight = data
        self._free, self._free_bias = plan.free, plan.free_bias
        self.total_weight = float(self._weight.sum())

    def learn_likelihood(self, machine: Machine, moments: tuple[Array, Array]) -> Machine:
        return machine.learn_likelihood(self._y, *moments, self._weight)

    def slopes(self, machine: Machine, moments: tuple[Array, Array]) -> tuple[float, Slopes]:
        return machine.slopes(self._y, *moments, self._weight)

    def singular_message(self) -> str:
        return singular_message(self._X, self._weight)

    def _update_bias(self, machine: Machine, slopes: Slopes, mu: Array, rho: float) -> tuple[Machine, Slopes, Array]:
        """Return the machine with w_0 updated, and the rows' slopes and means that follow."""
        sums = float(slopes.pull.sum()), float(slopes.weight.sum())
        machine, step = update_bias(machine, *sums, rho, free=self._free_bias)
        return machine, *apply_bias_step(slopes, mu, step)


def apply_bias_step(slopes: Slopes, mu: Array, step: float) -> tuple[Slopes, Array]:
    """Return the rows' slopes and means after the mean of w_0 has changed."""
    return Slopes(slopes.pull - slopes.weight * step, slopes.weight), mu + step


class _FactorisedSweep(_RowsInMemory):
    """Moments and updates with independent weights and factors: three sums per row and factor."""

    def __init__(self, data: tuple[Features, Array, Array], machine: Machine, plan: FitOptions) -> None:
        super().__init__(data, plan)
        self._by_row, self._by_column = compress(self._X), compress(self._X.tocsc())
        self._fields = one_hot_ranges(self._by_row, self._X.shape[1])
        self._S = np.empty((self._X.shape[0], 3, machine.mean.shape[1] - 1), plan.dtype)

    def moments(self, machine: Machine) -> tuple[Array, Array]:
        return _check_finite(machine.moments(self._by_row, self._S), self._X)

    def update(self, machine: Machine, slopes: Slopes, moments: tuple[Array, Array], rho: float) -> Machine | None:
        machine, slopes, _ = self._update_bias(machine, slopes, moments[0], rho)
        q = machine.mean.copy(), machine.variance.copy()
        args = self._by_column, self._fields, q, machine.prior, self._free, self._S, slopes, rho
        return _replace_posterior(machine, q if update_features(*args) else None)

    @staticmethod
    def learn_priors(machine: Machine) -> Machine:
        return machine.learn_priors()


class _FullSweep(_RowsInMemory):
    """Moments and updates with a covariance matrix of each feature's weight and factors."""

    def __init__(self, data: tuple[Features, Array, Array], machine: Machine, plan: FitOptions) -> None:
        super().__init__(data, plan)
        design = design_of(self._X)
        self._sweep = DesignSweep(design, machine.mean.shape[1], plan.dtype)
        self._unseen = np.bincount(design.patterns.indices, minlength=self._X.shape[1]) == 0
        self._sides = bipartite_sides(design, machine.prior.group) if plan.free.all() else None

    def moments(self, machine: Machine) -> tuple[Array, Array]:
        mu, v = self._sweep.moments(FeaturePosterior(machine.mean, machine.variance))
        return _check_finite((mu + machine.bias.mean, v + machine.bias.variance), self._X)

    def update(self, machine: Machine, slopes: Slopes, moments: tuple[Array, Array], rho: float) -> Machine | None:
        machine, slopes, mu = self._update_bias(machine, slopes, moments[0], rho)
        sites = sites_of(slopes, mu, machine.bias)
        return update_posterior(self._sweep, machine, sites, self._free, self._unseen, rho)

    def learn_priors(self, machine: Machine) -> Machine:
        return learn_rotated_priors(machine, self._sides)


def sites_of(slopes: Slopes, mu: Array, bias: Bias) -> Sites:
    """Return each row's expected log-likelihood as a quadratic function of y(x) - w_0."""
    return Sites(slopes.weight, slopes.pull + slopes.weight * (mu - bias.mean))


def update_posterior(
    sweep: DesignSweep, machine: Machine, sites: Any, free: NDArray[np.bool_], unseen: NDArray[np.bool_], rho: float
) -> Machine | None:
    """Return the machine with all features updated, None where a precision matrix has no inverse."""
    nu, lam, group = machine.prior
    prior = nu, diagonals(lam) if lam.ndim == 2 else lam, group
    q = sweep.update(FeaturePosterior(machine.mean, machine.variance), prior, free, sites, rho)
    if q is not None and lam.ndim == 2:  # after partial_fit they have their prior already
        k = np.flatnonzero(unseen & free)
        q.mean[k], q.covariance[k] = nu[group[k]], diagonals(1.0 / lam[group[k]])
    return _replace_posterior(machine, q)


def learn_rotated_priors(machine: Machine, sides: IntArray | None) -> Machine:
    """Return the machine with the best priors given q, with rotated factors if that raises the bound."""
    unrotated = machine.learn_priors()
    if sides is None:
        return unrotated
    rotated = balance_factors(machine, sides)
    if rotated is None:
        return unrotated
    rotated = rotated.learn_priors()
    return rotated if rotated.bound(0.0) > unrotated.bound(0.0) else unrotated


def _replace_posterior(machine: Machine, q: tuple[Array, Array] | None) -> Machine | None:
    return None if q is None else replace(machine, mean=q[0], variance=q[1])


def singular_message(X: Features, weight: Array) -> str:
    """Return the message of an error about a precision matrix of a feature's weight and factors without an inverse."""
    sizes = np.abs(X.data)
    return (
        "a feature's weight and factors have no posterior in float64; scale X or sample_weight: with entries of X from "
        f"{sizes.min(initial=np.inf):g} to {sizes.max(initial=0.0):g} in size and weights up to {weight.max():g} the "
        "precisions differ by a factor of more than 1e16, or overflow. Standardise the columns of X and drop constant "
        "ones, take fewer factors, or posterior='factorised', which needs fewer digits."
    )


def _check_finite(moments: tuple[Array, Array], X: Features) -> tuple[Array, Array]:
    if not (np.isfinite(moments[0]).all() and np.isfinite(moments[1]).all()):
        raise DataError(overflow_message(compress(X), *moments))
    return moments


def overflow_message(by_row: Compressed, mu: Array, v: Array) -> str:
    """Return the message of an error about rows whose moments are not finite."""
    row = int(np.argmax(~(np.isfinite(mu) & np.isfinite(v))))
    entries = by_row.value[by_row.start[row] : by_row.start[row + 1]]
    largest = float(np.abs(entries).max(initial=0.0))
    return f"overflow in interactions; scale X: row {row} holds values up to {largest:g}."
