"""Targets in units of their own, and equal rows as one: what a fit of regression sees of its data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from skpref.data.tables import unique_rows
from skpref.gp._sparse_collapsed import GaussianRows

if TYPE_CHECKING:
    from skpref._typing import Array, Features, IntArray

__all__ = ["Cells", "Unit", "cells_of", "gaussian_rows", "unit_of"]

_ROUNDING: Final = 1e-12  # of a standard deviation beside the largest target: below, all targets are equal


class Unit(NamedTuple):
    """Targets are mean + scale times what the model sees."""

    mean: float
    scale: float


class Cells(NamedTuple):
    """Distinct pairs of row and target, in an order of their own: equal samples give equal bits, however they come.

    `X` holds the distinct rows, `row` the number of each cell's, `y` its target and `weight` how often it occurs.
    """

    X: Features
    row: IntArray
    y: Array
    weight: Array


def cells_of(X: Features, y: Array, weight: Array) -> Cells:
    """Count equal pairs of row and target.

    Parameters
    ----------
    X : {ndarray, CSR} of shape (n, d)
        Rows.
    y, weight : ndarray of shape (n,)
        Targets; weights, of which those of 0 are left out.

    Returns
    -------
    Cells
        Distinct pairs.
    """
    if not np.all(weight > 0.0):
        X, y, weight = X[weight > 0.0], y[weight > 0.0], weight[weight > 0.0]
    first, row = unique_rows(X)
    values, place = np.unique(y, return_inverse=True)
    cell, inverse = np.unique(row * values.size + place, return_inverse=True)
    total = np.bincount(inverse, weight).astype(np.float64)
    return Cells(X[first], cell // values.size, values[cell % values.size], total)


def unit_of(cells: Cells) -> Unit:
    """Return mean and standard deviation of the targets; a scale of 1 where they are all equal.

    Parameters
    ----------
    cells : Cells
        Rows and targets.

    Returns
    -------
    Unit
        Finite for any finite targets.
    """
    # Squares of targets near the end of the floating-point range would overflow.
    largest = float(np.max(np.abs(cells.y), initial=0.0)) or 1.0
    y, share = cells.y / largest, cells.weight / cells.weight.sum()
    mean = float(share @ y)
    deviation = float(np.sqrt(share @ (y - mean) ** 2))
    return Unit(mean * largest, deviation * largest if deviation > _ROUNDING else 1.0)


def gaussian_rows(cells: Cells, unit: Unit) -> GaussianRows:
    """Return distinct rows with the means of their standardised targets.

    Parameters
    ----------
    cells : Cells
        Rows and targets.
    unit : Unit
        From `unit_of`.

    Returns
    -------
    GaussianRows
        What the collapsed bound needs of them.
    """
    n = cells.X.shape[0]
    y = (cells.y - unit.mean) / unit.scale
    weight = np.bincount(cells.row, cells.weight, n).astype(np.float64)
    mean = np.bincount(cells.row, cells.weight * y, n) / weight
    scatter = float(cells.weight @ (y - mean[cells.row]) ** 2)
    return GaussianRows(cells.X, mean, weight, scatter)
