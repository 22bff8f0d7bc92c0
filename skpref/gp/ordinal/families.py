"""The kernel families that "auto" averages over, their priors and their weights.

Families are weighted by their evidence with hyper-parameters integrated out by Laplace's method,

    log p(D) ~= max_theta [log p(D | theta) + log p(theta)] - log |H| / 2,   H = minus the second derivatives there,

since the maximum of the evidence always prefers many length-scales: on bostonhousing those of single features gain 9
nats and predict no better. Thresholds have the same flat prior in every family. On small data, where several families
have nearly the same evidence, averaged predictions are better than those of the best one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from sklearn.gaussian_process.kernels import RBF, Matern

from skpref.gp.default_kernels import SHARED_LOG_SCALE, deviations, far_from_zero, linear, stationary
from skpref.gp.ordinal.hyperparameters import HyperparameterSpace, LogPosterior, NormalPrior, search

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sklearn.gaussian_process.kernels import Kernel

    from skpref._typing import Array, Features
    from skpref.gp.ordinal.evidence import Evidence
    from skpref.likelihoods import OrdinalProbit

# Priors of "auto", means and standard deviations of logarithms:
_NOISE = (-1.0, 1.5)  # noise
_SHARED_SCALE = (SHARED_LOG_SCALE, 1.0)  # a length-scale that features share, in deviations of a feature times sqrt(d)
_SCALE_SD = 0.5  # the length-scale of a feature, about the shared one
_LINEAR = (-0.7, 1.5)  # variance of the linear part
_LINEAR_FIXED_SD = 1e-2  # the scale of a linear kernel alone, which the noise determines
_ABSENT_SD = 1.0  # width of a level between thresholds that the data do not determine
_LINEAR_ODDS = 1.0  # nats against a linear part: where it is wrong it predicts badly far from the data
_MIN_WEIGHT = 0.02  # below which a family is left out
_MAX_ARD_FEATURES = 64  # beyond which length-scales of single features are not tried
_STEP = 0.05  # of the differences of gradients that give H
_MIN_CURVATURE = 1e-2  # least eigenvalue of H: a direction without information is 10 e-folds wide


class FamilyFit(NamedTuple):
    """The end of the search of one kernel family."""

    evidence: float  # log evidence with hyper-parameters integrated out; after a plain search its maximum
    kernel: Kernel | None  # with its learnt hyper-parameters
    likelihood: OrdinalProbit  # thresholds and noise
    trace: list[float]  # objective at every evaluation
    weight: float = 1.0  # posterior probability of the family


def weigh_families(evidence: Evidence, X: Features, y: Array, likelihood: OrdinalProbit) -> list[FamilyFit]:
    """Search every family, richer ones from the end of simpler ones, and return those of enough weight, best first."""
    scale = deviations(X)
    near = not far_from_zero(X, scale).any()
    smooth, rough = (
        _fit_family(evidence, _one_scale_space(kernel, likelihood), y)
        for kernel in (stationary(RBF, scale), stationary(Matern, scale))
    )
    best = max(smooth, rough, key=lambda fit: fit.evidence)
    spaces = [(_linear_space(scale, likelihood), _LINEAR_ODDS)] if near else []
    spaces += _extended_spaces(best, scale, linear_part=near)
    fits = [smooth, rough, *(_fit_family(evidence, space, y, odds) for space, odds in spaces)]
    fits.sort(key=lambda fit: -fit.evidence)
    weight = np.exp([fit.evidence - fits[0].evidence for fit in fits])
    kept = weight >= _MIN_WEIGHT * weight.sum()
    share = (weight / weight[kept].sum()).tolist()
    return [fit._replace(weight=w) for fit, w, keep in zip(fits, share, kept, strict=True) if keep]


# --------------------------------------------------------------------------------------------------------- the families
def _one_scale_space(kernel: Kernel, likelihood: OrdinalProbit) -> HyperparameterSpace:
    """Return the space of one factor on all length-scales, which start at their prior mean."""
    n, r = kernel.theta.size, likelihood.n_levels
    scale = NormalPrior(_one_hot(n + r, 0), float(kernel.theta[0]), _SHARED_SCALE[1])
    return HyperparameterSpace(
        kernel, likelihood, np.zeros(n, dtype=np.int64), (scale, _single_prior(n + r, n, _NOISE))
    )


def _linear_space(scale: Array, likelihood: OrdinalProbit) -> HyperparameterSpace:
    """Return the space of a linear kernel of unit prior variance."""
    kernel, n, r = linear(scale, 1.0), scale.size, likelihood.n_levels
    # Thresholds, noise and the scale of f are determined up to a factor: noise alone is learnt.
    fixed_scale = NormalPrior(_one_hot(n + r, 0), float(kernel.theta[0]), _LINEAR_FIXED_SD)
    priors = _single_prior(n + r, n, _NOISE), fixed_scale
    return HyperparameterSpace(kernel.clone_with_theta(kernel.theta), likelihood, np.zeros(n, dtype=np.int64), priors)


def _extended_spaces(fit: FamilyFit, scale: Array, *, linear_part: bool) -> Iterator[tuple[HyperparameterSpace, float]]:
    """Yield the spaces with a linear part, and with one length-scale per feature, and the odds against them in nats."""
    r, d, likelihood = fit.likelihood.n_levels, scale.size, fit.likelihood
    mean = np.log(np.exp(_SHARED_SCALE[0]) * np.sqrt(d) * scale)
    size = 2 * d + r
    priors = (
        NormalPrior(_one_hot(size, 0), float(mean[0]), _SHARED_SCALE[1]),
        NormalPrior(_one_hot(size, d), float(np.log(1.0 / (d * scale[0] ** 2)) + _LINEAR[0]), _LINEAR[1]),
        _single_prior(size, 2 * d, _NOISE),
    )
    if linear_part:
        start = fit.kernel + linear(scale, float(np.exp(_LINEAR[0])))
        yield HyperparameterSpace(start, likelihood, np.repeat([0, 1], d), priors), _LINEAR_ODDS
    if 1 < d <= _MAX_ARD_FEATURES:
        size = d + r
        average = np.zeros(size)
        average[:d] = 1.0 / d
        shift = mean.mean()
        single = [NormalPrior(_one_hot(size, k) - average, float(mean[k] - shift), _SCALE_SD) for k in range(d)]
        shared = NormalPrior(average, float(shift), _SHARED_SCALE[1])
        noise = _single_prior(size, d, _NOISE)
        yield HyperparameterSpace(fit.kernel, likelihood, None, (shared, *single, noise)), 0.0


def _single_prior(size: int, place: int, normal: tuple[float, float]) -> NormalPrior:
    """Return the prior of one hyper-parameter."""
    return NormalPrior(_one_hot(size, place), *normal)


def _one_hot(size: int, place: int) -> Array:
    """Return the unit vector, shape (size,)."""
    out = np.zeros(size)
    out[place] = 1.0
    return out


# -------------------------------------------------------------------------------------------------------- their weights
def _fit_family(evidence: Evidence, space: HyperparameterSpace, y: Array, odds: float = 0.0) -> FamilyFit:
    """Search one family and return its evidence with hyper-parameters integrated out."""
    space = with_absent_levels(space, y)
    objective = LogPosterior(evidence, space)
    kernel, likelihood, optimum = search(objective)
    trace = list(objective.trace)
    value = optimum.value + 0.5 * (_log_prior_determinant(space) - _log_curvature(objective, optimum.theta))
    return FamilyFit(value - odds, kernel, likelihood, trace)


def _log_prior_determinant(space: HyperparameterSpace) -> float:
    """Return log |P / (2 pi)| of the precision P of the priors, which makes them a density."""
    weights = np.array([space.free_gradient(prior.weights) / prior.sd for prior in space.priors])
    used = np.any(weights != 0.0, axis=0)
    P = weights[:, used].T @ weights[:, used]
    return float(np.linalg.slogdet(P / (2.0 * np.pi))[1])


def _log_curvature(objective: LogPosterior, free: Array) -> float:
    """Return log |H / (2 pi)| by differences of the gradient."""
    at_optimum = objective(free)[1]
    H = np.array([(at_optimum - objective(free + _STEP * step)[1]) / _STEP for step in np.eye(free.size)])
    values = np.linalg.eigvalsh(0.5 * (H + H.T))
    return float(np.sum(np.log(np.maximum(values, _MIN_CURVATURE) / (2.0 * np.pi))))


# -------------------------------------------------------------------------------------------------------- absent levels
def with_absent_levels(space: HyperparameterSpace, y: Array) -> HyperparameterSpace:
    """Add a prior of the width for every level whose two thresholds the data do not determine, at the start's width.

    Without it the evidence would close an absent level between two others, and widen the lowest level that occurs
    without limit where lower ones are absent.
    """
    r = space.likelihood.n_levels
    present = np.unique(y).astype(np.int64)
    undetermined = set(range(1, r - 1)) - set(present.tolist())
    undetermined |= {int(level) for level in (present[0], present[-1]) if 0 < level < r - 1}
    if not undetermined:
        return space
    n, start = space.kernel_theta.size, space.likelihood.theta
    # theta: log noise, b_1, then the log widths of levels 1 to r - 2.
    places = [1 + level for level in sorted(undetermined)]
    widths = tuple(NormalPrior(_one_hot(n + r, n + k), float(start[k]), _ABSENT_SD) for k in places)
    return replace(space, priors=space.priors + widths)
