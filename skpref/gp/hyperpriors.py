"""Normal priors of logarithms of hyper-parameters, weak ones that keep a search from the ends of their ranges."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from skpref.gp.default_kernels import SHARED_LOG_SCALE, feature_scales

if TYPE_CHECKING:
    from collections.abc import Iterable

    from skpref._typing import Array, Features

# Of classifiers, means and standard deviations of logarithms:
_VARIANCE = (1.0, 1.5)  # variance of f
_SHARED_SD = 1.0  # a length-scale that features share, about `SHARED_LOG_SCALE`
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
    d = X.shape[1]
    mean = SHARED_LOG_SCALE + np.log(np.sqrt(d) * feature_scales(X))
    unit, average = np.eye(d + 1), np.append(0.0, np.full(d, 1.0 / d))
    single = (NormalPrior(unit[1 + k] - average, float(mean[k] - mean.mean()), _SINGLE_SD) for k in range(d))
    return NormalPrior(unit[0], *_VARIANCE), NormalPrior(average, float(mean.mean()), _SHARED_SD), *single
