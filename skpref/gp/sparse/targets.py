"""Targets of regression: standardised, equal rows merged, checked for counts; the noise that is added to f."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from skpref.data.tables import unique_rows
from skpref.exceptions import DataError
from skpref.gp.sparse.evidence import GaussianRows
from skpref.likelihoods import Gaussian, Likelihood, Poisson, StudentT

if TYPE_CHECKING:
    from skpref._typing import Array, Features, IntArray
    from skpref.gp.sparse.fit_general import Observations

_START_NOISE: Final = 0.1  # variance, in variances of the targets
_LEAST_RATE: Final = 1e-6  # where there are no counts at all
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
    """Count equal pairs of row and target."""
    if not np.all(weight > 0.0):
        X, y, weight = X[weight > 0.0], y[weight > 0.0], weight[weight > 0.0]
    first, row = unique_rows(X)
    values, place = np.unique(y, return_inverse=True)
    cell, inverse = np.unique(row * values.size + place, return_inverse=True)
    total = np.bincount(inverse, weight).astype(np.float64)
    return Cells(X[first], cell // values.size, values[cell % values.size], total)


def unit_of(cells: Cells) -> Unit:
    """Return mean and standard deviation of the targets; a scale of 1 where they are all equal."""
    # Squares of targets near the end of the floating-point range would overflow.
    largest = float(np.max(np.abs(cells.y), initial=0.0)) or 1.0
    y, share = cells.y / largest, cells.weight / cells.weight.sum()
    mean = float(share @ y)
    deviation = float(np.sqrt(share @ (y - mean) ** 2))
    return Unit(mean * largest, deviation * largest if deviation > _ROUNDING else 1.0)


def gaussian_rows(cells: Cells, unit: Unit) -> GaussianRows:
    """Return distinct rows with the means of their standardised targets."""
    n = cells.X.shape[0]
    y = (cells.y - unit.mean) / unit.scale
    weight = np.bincount(cells.row, cells.weight, n).astype(np.float64)
    mean = np.bincount(cells.row, cells.weight * y, n) / weight
    scatter = float(cells.weight @ (y - mean[cells.row]) ** 2)
    return GaussianRows(cells.X, mean, weight, scatter)


def check_counts(likelihood: str | Likelihood, y: Array) -> None:
    """Refuse targets that are no counts where counts are modelled."""
    wrong = (y < 0.0) | (y != np.floor(y))
    if (likelihood == "poisson" or isinstance(likelihood, Poisson)) and np.any(wrong):
        msg = f"y must be counts 0, 1, 2, ... for a Poisson likelihood; got {y[wrong][0]!r} ({int(wrong.sum())} such)."
        raise DataError(msg)


def start_likelihood(likelihood: str | Likelihood, noise: float | None, data: Observations) -> Likelihood:
    """Return the likelihood with its own parameters where they start."""
    if isinstance(likelihood, Likelihood):
        return likelihood
    if likelihood == "gaussian":
        return Gaussian(1.0 / (_START_NOISE if noise is None else noise))
    if likelihood == "student-t":
        return StudentT(float(np.sqrt(_START_NOISE)))
    mean = float(data.weight @ data.y) / float(data.weight.sum())
    return Poisson(max(mean, _LEAST_RATE))


def noise_of(likelihood: Likelihood) -> float | None:
    """Return the scale of the noise, in units of what the model sees; None where there is none."""
    if isinstance(likelihood, Gaussian):
        return float(likelihood.precision**-0.5)
    return likelihood.scale if isinstance(likelihood, StudentT) else None


def draw_noise(likelihood: Likelihood, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Draw what is added to f."""
    scale = noise_of(likelihood) or 0.0
    unit = rng.standard_t(likelihood.df, shape) if isinstance(likelihood, StudentT) else rng.standard_normal(shape)
    return np.asarray(scale * unit)
