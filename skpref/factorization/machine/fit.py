"""Coordinate ascent of the factorization machine on all rows (docs/maths section 9)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from skpref._compiled.fm import Slopes, update_features
from skpref._compiled.fm_fields import one_hot_ranges
from skpref._compiled.fm_full import Belief, Sites
from skpref._events import Iteration
from skpref.exceptions import DataError
from skpref.factorization.machine.balance import balanced, sides_of
from skpref.factorization.machine.fields import DesignSweep, design_of
from skpref.factorization.machine.model import Bias, diagonals, lines_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from skpref._compiled.fm import Lines
    from skpref._events import OnIteration
    from skpref._typing import Array, Features
    from skpref.factorization.machine.model import Machine

_SHORTEST = 2.0**-12  # part of a step at which nothing more is to be won
UNLEARNT = 2  # passes before the priors are learnt: factors that still are noise would be told to vanish


@dataclass(frozen=True)
class Plan:
    """How a fit runs."""

    n_epochs: int  # passes at most
    tol: float  # gain of the bound per unit of weight below which it has converged
    learn_priors: bool  # whether the groups' priors and the noise are learnt
    learn_noise: bool  # whether the groups' priors and the noise are learnt
    free: NDArray[np.bool_]  # (K,): features that are updated
    free_bias: bool  # whether w_0 is
    dtype: np.dtype  # of the sums kept for each row
    on_iteration: OnIteration | None = None  # told of every pass
    stop: Callable[[Machine], bool] | None = None  # sees the machine after every pass; true ends the fit
    fitted: Callable[[Machine], Any] | None = None  # what an estimator with a machine is, for the events

    def stops(self, bounds: list[float], began: float, machine: Machine) -> bool:
        """Tell of a pass."""
        fitted = None if self.fitted is None else partial(self.fitted, machine)
        told = Iteration(len(bounds), self.n_epochs, bounds[-1], perf_counter() - began, fitted)
        return bool((self.on_iteration and self.on_iteration(told)) or (self.stop and self.stop(machine)))


def ascend(machine: Machine, data: tuple[Features, Array, Array], plan: Plan) -> tuple[Machine, list[float], bool]:
    """Raise the bound pass by pass; it never falls.

    A pass updates w_0 and then feature by feature (exactly, if the likelihood is Gaussian; else with its curvature at
    the beginning of the pass), then the noise, then the priors. Where a pass of a likelihood that is not quadratic
    lowers the bound, it is done again with half the step: short steps follow the natural gradient.
    """
    X, y, weight = data
    began, rho = perf_counter(), 1.0
    sweep = _FullSweep(X, machine, plan) if machine.full else _Sweep(X, machine, plan)
    bounds: list[float] = []
    moments = _finite(sweep.moments(machine), X)
    expected, slopes = machine.slopes(y, *moments, weight)
    bound, enough, converged = machine.bound(expected), plan.tol * weight.sum(), False
    while len(bounds) < plan.n_epochs and not converged:
        tried = sweep.update(*_with_bias(machine, slopes, moments[0], plan, rho), rho)
        new_moments = _finite(sweep.moments(tried), X)
        if plan.learn_noise:
            tried = tried.with_learnt_noise(y, *new_moments, weight)
        if plan.learn_priors and len(bounds) >= UNLEARNT:
            tried = sweep.with_learnt_priors(tried)
        expected, new_slopes = tried.slopes(y, *new_moments, weight)
        new = tried.bound(expected)
        if not new >= bound:
            # The last pass but for rounding, or too long a step.
            rho, converged = 0.5 * rho, rho <= _SHORTEST or bound - new <= 1e-12 * abs(bound)
            if not converged:
                sweep.moments(machine)
            continue
        converged = len(bounds) > UNLEARNT and new - bound < enough * rho
        machine, slopes, moments, bound, rho = tried, new_slopes, new_moments, new, min(1.0, 2.0 * rho)
        bounds.append(bound)
        if plan.stops(bounds, began, machine):
            break
    return machine, bounds or [bound], converged


def _with_bias(machine: Machine, slopes: Slopes, mu: Array, plan: Plan, rho: float) -> tuple[Machine, Slopes, Array]:
    """Update w_0: the machine, and slopes and means of the rows that know of it."""
    bias, prior = machine.bias, machine.bias_prior
    if not plan.free_bias:
        return machine, Slopes(slopes.pull.copy(), slopes.weight), mu
    precision = slopes.weight.sum() + 1.0 / prior.variance
    step = rho * (slopes.pull.sum() + (prior.mean - bias.mean) / prior.variance) / precision
    variance = 1.0 / ((1.0 - rho) / bias.variance + rho * precision)
    machine = replace(machine, bias=Bias(float(bias.mean + step), float(variance)))
    return machine, Slopes(slopes.pull - slopes.weight * step, slopes.weight), mu + step


class _Sweep:
    """Moments and updates of all features, all weights and factors independent: three sums a row and factor."""

    def __init__(self, X: Features, machine: Machine, plan: Plan) -> None:
        self._by_row, self._by_column = lines_of(X), lines_of(X.tocsc())
        self._fields, self._free = one_hot_ranges(self._by_row, X.shape[1]), plan.free
        self._S = np.empty((X.shape[0], 3, machine.mean.shape[1] - 1), plan.dtype)

    def moments(self, machine: Machine) -> tuple[Array, Array]:
        """Of every row; what `update` goes from."""
        return machine.moments(self._by_row, self._S)

    def update(self, machine: Machine, slopes: Slopes, mu: Array, rho: float) -> Machine:
        """One update of every feature, from the slopes at q, of which the pulls change."""
        del mu
        q = machine.mean.copy(), machine.variance.copy()
        args = self._by_column, self._fields, q, machine.prior, self._free, self._S, slopes, rho
        return _after(machine, q if update_features(*args) else None)

    @staticmethod
    def with_learnt_priors(machine: Machine) -> Machine:
        """Return the machine with priors that are better."""
        return machine.with_learnt_priors()


class _FullSweep:
    """Moments and updates of all features, with the covariances of each one's weight and factors."""

    def __init__(self, X: Features, machine: Machine, plan: Plan) -> None:
        design = design_of(X)
        self._sweep, self._free = DesignSweep(design, machine.mean.shape[1], plan.dtype), plan.free
        self._unseen = np.bincount(design.patterns.indices, minlength=X.shape[1]) == 0
        self._sides = sides_of(design, machine.prior.group) if plan.free.all() else None

    def moments(self, machine: Machine) -> tuple[Array, Array]:
        """Of every row; what `update` goes from."""
        mu, v = self._sweep.moments(Belief(machine.mean, machine.variance))
        return mu + machine.bias.mean, v + machine.bias.variance

    def update(self, machine: Machine, slopes: Slopes, mu: Array, rho: float) -> Machine:
        """One update of every feature, from the slopes at q and mean mu of y(x)."""
        nu, lam, group = machine.prior
        target = slopes.pull + slopes.weight * (mu - machine.bias.mean)
        prior = nu, diagonals(lam) if lam.ndim == 2 else lam, group
        was = Belief(machine.mean, machine.variance)
        q = self._sweep.update(was, prior, self._free, Sites(slopes.weight, target), rho)
        if q is not None and lam.ndim == 2:  # else they have their prior already
            k = np.flatnonzero(self._unseen & self._free)
            q.mean[k], q.covariance[k] = nu[group[k]], diagonals(1.0 / lam[group[k]])
        return _after(machine, q)

    def with_learnt_priors(self, machine: Machine) -> Machine:
        """Return the machine with priors that are better, and the factors turned to where these are best."""
        plain = machine.with_learnt_priors()
        if self._sides is None:
            return plain
        turned = balanced(machine, self._sides)
        if turned is None:
            return plain
        turned = turned.with_learnt_priors()
        return turned if turned.bound(0.0) > plain.bound(0.0) else plain


def _after(machine: Machine, q: tuple[Array, Array] | None) -> Machine:
    if q is None:
        raise DataError("overflow in interactions; scale X: the squares of its values do not fit into float64.")
    return replace(machine, mean=q[0], variance=q[1])


def _finite(moments: tuple[Array, Array], X: Features) -> tuple[Array, Array]:
    if not (np.isfinite(moments[0]).all() and np.isfinite(moments[1]).all()):
        raise DataError(overflow(lines_of(X), *moments))
    return moments


def overflow(by_row: Lines, mu: Array, v: Array) -> str:
    """Return the complaint about rows whose moments are no numbers."""
    row = int(np.argmax(~(np.isfinite(mu) & np.isfinite(v))))
    entries = by_row.value[by_row.start[row] : by_row.start[row + 1]]
    largest = float(np.abs(entries).max(initial=0.0))
    return f"overflow in interactions; scale X: row {row} holds values up to {largest:g}."
