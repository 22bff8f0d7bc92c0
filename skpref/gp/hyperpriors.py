"""Normal priors of logarithms of hyper-parameters, weak ones that keep a search from the ends of their ranges."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from skpref.gp.default_kernels import SHARED_LOG_SCALE, feature_scales

if TYPE_CHECKING:
    from collections.abc import Iterable

    from skpref._typing import Array, Features

# Means and standard deviations of logarithms:
_VARIANCE = (1.0, 1.5)  # variance of f of a classifier
SHARED_SD = 1.0  # a length-scale that features share, about its `mean_log_scales`
_SINGLE_SD = 0.5  # the length-scale of a feature, about the shared one


class NormalPrior(NamedTuple):
    """A normal prior of a weighted sum of hyper-parameters, weights^T theta ~ N(mean, sd^2)."""

    weights: Array
    mean: float
    sd: float


def log_density(priors: Iterable[NormalPrior], theta: Array) -> tuple[float, Array]:
    """Return the log density of the priors at theta, up to a constant, with its gradient."""
    value, gradient = 0.0, np.zeros_like(theta)
    for weights, mean, sd in priors:
        off = (float(weights @ theta) - mean) / sd
        value -= 0.5 * off * off
        gradient -= off / sd * weights
    return value, gradient


def classifier_priors(X: Features) -> tuple[NormalPrior, ...]:
    """Return the priors of a variance times an RBF kernel with one length-scale per feature."""
    size = 1 + X.shape[1]
    return NormalPrior(one_hot(size, 0), *_VARIANCE), *length_scale_priors(feature_scales(X), size, first=1)


def length_scale_priors(scale: Array, size: int, *, first: int = 0) -> tuple[NormalPrior, ...]:
    """Return the priors of one length-scale per feature, which stand from `first` on among `size` hyper-parameters.

    The first prior is of the average of their logarithms, the others are of each about that average; `scale` has the
    units of the features, shape (d,).
    """
    d, mean, average = scale.size, mean_log_scales(scale), np.zeros(size)
    average[first : first + d] = 1.0 / d
    shared = float(mean.mean())
    single = (NormalPrior(one_hot(size, first + k) - average, float(mean[k]) - shared, _SINGLE_SD) for k in range(d))
    return NormalPrior(average, shared, SHARED_SD), *single


def mean_log_scales(scale: Array) -> Array:
    """Return the prior means of log length-scales, shape (d,)."""
    return np.log(np.exp(SHARED_LOG_SCALE) * np.sqrt(scale.size) * scale)


def one_hot(size: int, place: int) -> Array:
    """Return the unit vector, shape (size,)."""
    out = np.zeros(size)
    out[place] = 1.0
    return out
