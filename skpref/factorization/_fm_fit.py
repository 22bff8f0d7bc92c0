"""Coordinate ascent of the factorization machine on all rows (maths.md section 9)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from skpref._compiled.fm import Slopes, fields_of, update_features
from skpref.exceptions import DataError
from skpref.factorization._fm_model import Bias, lines_of
from skpref.tracking.protocol import Iteration

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from skpref._compiled.fm import Lines
    from skpref._typing import Array, Features, IntArray
    from skpref.factorization._fm_model import Machine
    from skpref.tracking.protocol import OnIteration

_SHORTEST = 2.0**-12  # part of a step at which nothing more is to be won
UNLEARNT = 2  # passes before the priors are learnt: factors that still are noise would be told to vanish


@dataclass(frozen=True)
class Rows:
    """What a fit sees: X by rows and columns, targets and weights.

    Parameters
    ----------
    by_row, by_column : Lines
        X.
    fields : ndarray
        Of `fields_of`.
    y, weight : ndarray of shape (n,)
        Targets and sample weights.
    """

    by_row: Lines
    by_column: Lines
    fields: IntArray
    y: Array
    weight: Array


@dataclass(frozen=True)
class Plan:
    """How a fit runs.

    Parameters
    ----------
    n_epochs : int
        Passes at most.
    tol : float
        Gain of the bound per unit of weight below which it has converged.
    learn_priors, learn_noise : bool
        Whether the groups' priors and the noise are learnt.
    free : ndarray of shape (K,)
        Features that are updated.
    free_bias : bool
        Whether w_0 is.
    dtype : dtype
        Of the sums kept for each row.
    on_iteration : callable or None
        Told of every pass.
    stop : callable or None
        Sees the machine after every pass; true ends the fit.
    """

    n_epochs: int
    tol: float
    learn_priors: bool
    learn_noise: bool
    free: NDArray[np.bool_]
    free_bias: bool
    dtype: np.dtype
    on_iteration: OnIteration | None = None
    stop: Callable[[Machine], bool] | None = None


def rows_of(X: Features, y: Array, weight: Array) -> Rows:
    """Return X by rows and by columns.

    Parameters
    ----------
    X : CSR matrix of shape (n, K)
        Canonical.
    y, weight : ndarray of shape (n,)
        Targets and sample weights.

    Returns
    -------
    Rows
        Ready to fit.
    """
    columns = lines_of(X.tocsc())
    return Rows(lines_of(X), columns, fields_of(columns, X.shape[0]), y, weight)


def ascend(machine: Machine, rows: Rows, plan: Plan) -> tuple[Machine, list[float], bool]:
    """Raise the bound pass by pass; it never falls.

    A pass updates w_0 and then feature by feature (exactly, if the likelihood is Gaussian; else with its curvature at
    the beginning of the pass), then the noise, then the priors. Where a pass of a likelihood that is not quadratic
    lowers the bound, it is done again with half the step: short steps follow the natural gradient.

    Parameters
    ----------
    machine : Machine
        Where to start.
    rows : Rows
        Data.
    plan : Plan
        How.

    Returns
    -------
    machine : Machine
        The best found.
    bounds : list of float
        Bound after each pass.
    converged : bool
        Whether the bound stood still.
    """
    n, d = rows.y.size, machine.mean.shape[1] - 1
    S, began, rho = np.empty((n, 3, d), plan.dtype), perf_counter(), 1.0
    bounds: list[float] = []
    moments = _moments(machine, rows, S)
    expected, slopes = machine.slopes(rows.y, *moments, rows.weight)
    bound, enough, converged = machine.bound(expected), plan.tol * rows.weight.sum(), False
    while len(bounds) < plan.n_epochs and not converged:
        tried = _pass(machine, rows, plan, S, slopes, rho)
        moments = _moments(tried, rows, S)
        if plan.learn_noise:
            tried = tried.with_learnt_noise(rows.y, *moments, rows.weight)
        if plan.learn_priors and len(bounds) >= UNLEARNT:
            tried = tried.with_learnt_priors()
        expected, new_slopes = tried.slopes(rows.y, *moments, rows.weight)
        new = tried.bound(expected)
        if not new >= bound:
            # The last pass but for rounding, or too long a step.
            rho, converged = 0.5 * rho, rho <= _SHORTEST or bound - new <= 1e-12 * abs(bound)
            if not converged:
                _moments(machine, rows, S)
            continue
        converged = len(bounds) > UNLEARNT and new - bound < enough * rho
        machine, slopes, bound, rho = tried, new_slopes, new, min(1.0, 2.0 * rho)
        bounds.append(bound)
        told = Iteration(len(bounds), plan.n_epochs, bound, perf_counter() - began)
        if (plan.on_iteration and plan.on_iteration(told)) or (plan.stop and plan.stop(machine)):
            break
    return machine, bounds or [bound], converged


def _moments(machine: Machine, rows: Rows, S: NDArray[np.floating]) -> tuple[Array, Array]:
    mu, v = machine.moments(rows.by_row, S)
    if not (np.isfinite(mu).all() and np.isfinite(v).all()):
        raise DataError(overflow(rows.by_row, mu, v))
    return mu, v


def overflow(by_row: Lines, mu: Array, v: Array) -> str:
    """Return the complaint about rows whose moments are no numbers.

    Parameters
    ----------
    by_row : Lines
        X by rows.
    mu, v : ndarray of shape (n,)
        Moments.

    Returns
    -------
    str
        It names the first such row.
    """
    row = int(np.argmax(~(np.isfinite(mu) & np.isfinite(v))))
    entries = by_row.value[by_row.start[row] : by_row.start[row + 1]]
    largest = float(np.abs(entries).max(initial=0.0))
    return f"overflow in interactions; scale X: row {row} holds values up to {largest:g}."


def _pass(machine: Machine, rows: Rows, plan: Plan, S: NDArray[np.floating], slopes: Slopes, rho: float) -> Machine:
    """One update of everything in q, from the slopes at q; S changes."""
    bias, prior = machine.bias, machine.bias_prior
    if plan.free_bias:
        precision = slopes.weight.sum() + 1.0 / prior.variance
        step = rho * (slopes.pull.sum() + (prior.mean - bias.mean) / prior.variance) / precision
        variance = 1.0 / ((1.0 - rho) / bias.variance + rho * precision)
        bias = Bias(float(bias.mean + step), float(variance))
        slopes = Slopes(slopes.pull - slopes.weight * step, slopes.weight)
    else:
        slopes = Slopes(slopes.pull.copy(), slopes.weight)
    q = machine.mean.copy(), machine.variance.copy()
    if not update_features(rows.by_column, rows.fields, q, machine.prior, plan.free, S, slopes, rho):
        raise DataError("overflow in interactions; scale X: the squares of its values do not fit into float64.")
    return replace(machine, bias=bias, mean=q[0], variance=q[1])
