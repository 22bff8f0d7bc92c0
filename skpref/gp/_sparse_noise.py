"""What the likelihoods of regression start from, and their noise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from skpref.exceptions import DataError
from skpref.likelihoods import Gaussian, Likelihood, Poisson, StudentT

if TYPE_CHECKING:
    from skpref._typing import Array
    from skpref.gp._sparse_general import Observations

__all__ = ["check_counts", "draw_noise", "noise_of", "start_likelihood"]

_START_NOISE: Final = 0.1  # variance, in variances of the targets
_LEAST_RATE: Final = 1e-6  # where there are no counts at all


def check_counts(likelihood: str | Likelihood, y: Array) -> None:
    """Refuse targets that are no counts where counts are modelled.

    Parameters
    ----------
    likelihood : str or Likelihood
        As the estimator has it.
    y : ndarray of shape (n,)
        Targets.

    Raises
    ------
    DataError
        If one is negative or not whole.
    """
    wrong = (y < 0.0) | (y != np.floor(y))
    if (likelihood == "poisson" or isinstance(likelihood, Poisson)) and np.any(wrong):
        msg = f"y must be counts 0, 1, 2, ... for a Poisson likelihood; got {y[wrong][0]!r} ({int(wrong.sum())} such)."
        raise DataError(msg)


def start_likelihood(likelihood: str | Likelihood, noise: float | None, data: Observations) -> Likelihood:
    """Return the likelihood with its own parameters where they start.

    Parameters
    ----------
    likelihood : str or Likelihood
        As the estimator has it.
    noise : float or None
        Variance of Gaussian noise, where it is given.
    data : Observations
        For the mean count.

    Returns
    -------
    Likelihood
        Of the targets as the model sees them.
    """
    if isinstance(likelihood, Likelihood):
        return likelihood
    if likelihood == "gaussian":
        return Gaussian(1.0 / (_START_NOISE if noise is None else noise))
    if likelihood == "student-t":
        return StudentT(float(np.sqrt(_START_NOISE)))
    mean = float(data.weight @ data.y) / float(data.weight.sum())
    return Poisson(max(mean, _LEAST_RATE))


def noise_of(likelihood: Likelihood) -> float | None:
    """Return the scale of the noise, in units of what the model sees; None where there is none.

    Parameters
    ----------
    likelihood : Likelihood
        Observation model.

    Returns
    -------
    float or None
        Standard deviation (of Student's t: scale).
    """
    if isinstance(likelihood, Gaussian):
        return float(likelihood.precision**-0.5)
    return likelihood.scale if isinstance(likelihood, StudentT) else None


def draw_noise(likelihood: Likelihood, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Draw what is added to f.

    Parameters
    ----------
    likelihood : Gaussian or StudentT
        Observation model.
    shape : tuple of int
        How many.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    ndarray of that shape
        In units of what the model sees.
    """
    scale = noise_of(likelihood) or 0.0
    unit = rng.standard_t(likelihood.df, shape) if isinstance(likelihood, StudentT) else rng.standard_normal(shape)
    return np.asarray(scale * unit)
