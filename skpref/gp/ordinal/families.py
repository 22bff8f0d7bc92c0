"""Kernels of ordinal models: the default, the families that "auto" averages over, and what is believed of them.

The families are weighed by their evidence with hyper-parameters integrated out by Laplace's method,

    log p(D) ~= max_theta [log p(D | theta) + log p(theta)] - log |H| / 2,   H = minus the second derivatives there,

since the highest evidence alone always prefers many length-scales: on bostonhousing per-feature ones gain 9 nats and
predict no better. Thresholds have the same flat prior in every family. Averaged predictions are better than those of
the best family where the evidence is near a tie: small data.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from sklearn.gaussian_process.kernels import RBF, Matern

from skpref.gp.default_kernels import SHARED_LOG_SCALE, deviations, linear, stationary
from skpref.gp.ordinal.hyperparameters import Belief, Objective, Space, search

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sklearn.gaussian_process.kernels import Kernel

    from skpref._typing import Array, Features
    from skpref.gp.ordinal.evidence import Evidence
    from skpref.likelihoods import OrdinalProbit

_ABSENT_SD = 1.0  # of the log width of a level of which the data show no end
# Beliefs of "auto", mean and standard deviation in e-folds: log noise; log of a length-scale that all features share,
# in standard deviations of a feature times sqrt(d); a feature's departure from it; log of the variance of the linear
# part.
_NOISE, _SHARED, _DEPARTURE, _LINEAR = (-1.0, 1.5), (SHARED_LOG_SCALE, 1.0), (0.0, 0.5), (-0.7, 1.5)
_LINEAR_ODDS = 1.0  # nats against a linear part, which predicts worst where it is wrong: far out
_WORTH = 0.02  # weight below which a family is left out
_MOST_FEATURES = 64  # beyond, per-feature length-scales are not tried
_STEP = 0.05  # of the differences of gradients that give H
_LEAST = 1e-2  # least eigenvalue of H: a direction of which the data say nothing is as wide as 10 e-folds


class Found(NamedTuple):
    """The end of a search: log evidence (see above), hyper-parameters, all values on the way, posterior weight."""

    evidence: float
    kernel: Kernel | None
    likelihood: OrdinalProbit
    trace: list[float]
    weight: float = 1.0


def weigh_families(evidence: Evidence, X: Features, y: Array, likelihood: OrdinalProbit) -> list[Found]:
    """Search one family after the other, each from where a simpler one ended, and weigh them."""
    scale = deviations(X)
    smooth, rough = (
        _searched(evidence, _shared(kernel, likelihood), y)
        for kernel in (stationary(RBF, scale), stationary(Matern, scale))
    )
    best = max(smooth, rough, key=lambda found: found.evidence)
    results = [smooth, rough, _searched(evidence, _linear(scale, likelihood), y, _LINEAR_ODDS)]
    results += [_searched(evidence, space, y, odds) for space, odds in _richer(best, scale)]
    results.sort(key=lambda found: -found.evidence)
    weight = np.exp([found.evidence - results[0].evidence for found in results])
    kept = weight >= _WORTH * weight.sum()
    share = (weight / weight[kept].sum()).tolist()
    return [found._replace(weight=w) for found, w, keep in zip(results, share, kept, strict=True) if keep]


def _shared(kernel: Kernel, likelihood: OrdinalProbit) -> Space:
    """One factor on all length-scales; the kernel starts at the mean of the belief in it."""
    n, r = kernel.theta.size, likelihood.n_levels
    first = Belief(_unit(n + r, 0), float(kernel.theta[0]), _SHARED[1])
    return Space(kernel, likelihood, np.zeros(n, dtype=np.int64), (first, _belief(n + r, n, _NOISE)))


def _linear(scale: Array, likelihood: OrdinalProbit) -> Space:
    """A weighted sum of features with unit prior variance."""
    kernel, n, r = linear(scale, 1.0), scale.size, likelihood.n_levels
    # f of unit variance: its scale beside the noise is the noise's.
    fixed = kernel.clone_with_theta(kernel.theta)
    group = np.zeros(n, dtype=np.int64)
    beliefs = _belief(n + r, n, _NOISE), Belief(_unit(n + r, 0), float(kernel.theta[0]), 1e-2)
    return Space(fixed, likelihood, group, beliefs)


def _richer(found: Found, scale: Array) -> Iterator[tuple[Space, float]]:
    """What may be added to a kernel with one factor on all length-scales, and the odds against it.

    A linear part, or a factor a feature.
    """
    r, d, likelihood = found.likelihood.n_levels, scale.size, found.likelihood
    mean = np.log(np.exp(_SHARED[0]) * np.sqrt(d) * scale)
    size = 2 * d + r
    beliefs = (
        Belief(_unit(size, 0), float(mean[0]), _SHARED[1]),
        Belief(_unit(size, d), float(np.log(1.0 / (d * scale[0] ** 2)) + _LINEAR[0]), _LINEAR[1]),
        _belief(size, 2 * d, _NOISE),
    )
    start = found.kernel + linear(scale, float(np.exp(_LINEAR[0])))
    yield Space(start, likelihood, np.repeat([0, 1], d), beliefs), _LINEAR_ODDS
    if 1 < d <= _MOST_FEATURES:
        size = d + r
        average = np.zeros(size)
        average[:d] = 1.0 / d
        shift = mean.mean()
        departures = [Belief(_unit(size, k) - average, float(mean[k] - shift), _DEPARTURE[1]) for k in range(d)]
        shared = Belief(average, float(shift), _SHARED[1])
        yield Space(found.kernel, likelihood, None, (shared, *departures, _belief(size, d, _NOISE))), 0.0


def _belief(size: int, place: int, normal: tuple[float, float]) -> Belief:
    return Belief(_unit(size, place), *normal)


def _searched(evidence: Evidence, space: Space, y: Array, odds: float = 0.0) -> Found:
    space = with_absent_levels(space, y)
    objective = Objective(evidence, space)
    kernel, likelihood, optimum = search(objective)
    assert kernel is not None  # noqa: S101 - families have kernels
    trace = list(objective.trace)
    value = optimum.value + 0.5 * (_log_belief(space) - _log_curvature(objective, optimum.theta))
    return Found(value - odds, kernel, likelihood, trace)


def _log_belief(space: Space) -> float:
    """Log |P/(2 pi)| of the precision of what is believed: what makes the prior a density."""
    weights = np.array([space.gathered(belief.weights) / belief.sd for belief in space.beliefs])
    used = np.any(weights != 0.0, axis=0)
    P = weights[:, used].T @ weights[:, used]
    return float(np.linalg.slogdet(P / (2.0 * np.pi))[1])


def _log_curvature(objective: Objective, free: Array) -> float:
    """Log |H/(2 pi)| by differences of the gradient."""
    here = objective(free)[1]
    rows = [(here - objective(free + _STEP * step)[1]) / _STEP for step in np.eye(free.size)]
    H = np.array(rows)
    values = np.linalg.eigvalsh(0.5 * (H + H.T))
    return float(np.sum(np.log(np.maximum(values, _LEAST) / (2.0 * np.pi))))


def with_absent_levels(space: Space, y: Array) -> Space:
    """Add a belief in the start's width of every level of which the data do not show both ends.

    Without it the evidence would close an absent level between two others, and widen the first level that occurs for
    ever where lower ones do not.
    """
    r = space.likelihood.n_levels
    present = np.unique(y).astype(np.int64)
    loose = set(range(1, r - 1)) - set(present.tolist())
    loose |= {int(end) for end in (present[0], present[-1]) if 0 < end < r - 1}
    if not loose:
        return space
    n, start = space.kernel_theta.size, space.likelihood.theta
    # theta holds log noise, b_1, and then the log widths of levels 1 to r - 2.
    places = [1 + level for level in sorted(loose)]
    more = tuple(Belief(_unit(n + r, n + k), float(start[k]), _ABSENT_SD) for k in places)
    return replace(space, beliefs=space.beliefs + more)


def _unit(size: int, place: int) -> Array:
    out = np.zeros(size)
    out[place] = 1.0
    return out
