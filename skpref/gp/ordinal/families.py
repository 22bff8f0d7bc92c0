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
from sklearn.gaussian_process.kernels import RBF

from skpref.gp.default_kernels import deviations, far_from_zero, feature_scales, linear, stationary
from skpref.gp.hyperpriors import SHARED_SD, NormalPrior, length_scale_priors, mean_log_scales, one_hot
from skpref.gp.ordinal.hyperparameters import HyperparameterSpace, LogPosterior, search
from skpref.gp.ordinal.policy import POLICY

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sklearn.gaussian_process.kernels import Kernel

    from skpref._typing import Array, Features
    from skpref.gp.ordinal.evidence import Evidence
    from skpref.inference.exact import ExactPosterior
    from skpref.likelihoods import OrdinalProbit


class FamilyFit(NamedTuple):
    """The end of the search of one kernel family."""

    evidence: float  # log evidence with hyper-parameters integrated out; after a plain search its maximum
    kernel: Kernel | None  # with its learnt hyper-parameters
    likelihood: OrdinalProbit  # thresholds and noise
    trace: list[float]  # objective at every evaluation
    space: HyperparameterSpace  # what was searched
    occam: float = 0.0  # what was added to the maximum: log of the share of the prior that the data leave
    weight: float = 1.0  # posterior probability of the family
    last: ExactPosterior | None = None  # posterior at which the next inference starts


class SearchRows(NamedTuple):
    """Rows that a search looks at."""

    evidence: Evidence
    X: Features
    y: Array


def weigh_families(
    few: SearchRows, more: SearchRows | None, likelihood: OrdinalProbit, others: Iterable[type[OrdinalProbit]]
) -> list[FamilyFit]:
    """Search all families, at few rows and then at more, and return the families of enough weight, best first.

    The best kernel is tried with the `others`, too. With `more` rows their weights tell, and fewer models are kept.
    """
    fits = _search_families(few, likelihood)
    if more is not None:
        fits = _rescored(more.evidence, fits)
    rows = more or few
    fits = _with_single_scales(rows, fits, few)
    fits.sort(key=lambda fit: -fit.evidence)
    variants = [fits[0], *(_with_other_likelihood(rows.evidence, fits[0], kind) for kind in others)]
    if more is None:
        return _weigh([*variants, *fits[1:]], POLICY.least_weight)
    return _weigh([max(variants, key=lambda fit: fit.evidence), *fits[1:]], POLICY.least_large_weight)


def _search_families(rows: SearchRows, likelihood: OrdinalProbit) -> list[FamilyFit]:
    """Search the families of few hyper-parameters, each from the end of the one before."""
    evidence, X, y = rows
    scale = feature_scales(X)
    fits: list[FamilyFit] = []
    for nu in POLICY.smoothness:
        start = fits[0].likelihood if fits else likelihood
        fits.append(_fit_family(evidence, _one_scale_space(stationary(nu, scale), start), y))
    if not far_from_zero(X, deviations(X)).any():
        best = max(fits, key=lambda fit: fit.evidence)
        fits.append(_fit_family(evidence, _linear_space(scale, fits[0].likelihood), y, POLICY.linear_odds))
        fits.append(_fit_family(evidence, _linear_part_space(best, scale), y, POLICY.linear_odds))
    return fits


def _rescored(evidence: Evidence, fits: list[FamilyFit]) -> list[FamilyFit]:
    """Evaluate families at more rows, and continue the search of the best."""
    fits = sorted((_continued(evidence, fit, 0) for fit in fits), key=lambda fit: -fit.evidence)
    return [_continued(evidence, fits[0], POLICY.more_iterations), *fits[1:]]


def _with_single_scales(rows: SearchRows, fits: list[FamilyFit], few: SearchRows) -> list[FamilyFit]:
    """Add the best family of one length-scale with one per feature, searched at few rows first."""
    scale = feature_scales(rows.X)
    if not 1 < scale.size <= POLICY.most_single_scales:
        return fits
    best = max((fit for fit in fits if isinstance(fit.kernel, RBF)), key=lambda fit: fit.evidence)
    space = _single_scales_space(best, scale)
    if few is not rows:
        objective = LogPosterior(few.evidence, with_absent_levels(space, few.y))
        _, likelihood, optimum = search(objective, tol=POLICY.maximise_tol)
        # Half way: few rows may give up a relevant feature, and a search does not come back from there.
        free = 0.5 * (objective.space.start + optimum.theta)
        space = replace(space, kernel=objective.space.evaluate(free)[0], likelihood=likelihood)
    return [*fits, _fit_family(rows.evidence, space, rows.y)]


def _weigh(fits: list[FamilyFit], min_weight: float) -> list[FamilyFit]:
    """Return the families of enough weight, best first."""
    ranked = sorted(fits, key=lambda fit: -fit.evidence)
    weight = np.exp([fit.evidence - ranked[0].evidence for fit in ranked])
    kept = weight >= min_weight * weight.sum()
    share = (weight / weight[kept].sum()).tolist()
    return [fit._replace(weight=w) for fit, w, keep in zip(ranked, share, kept, strict=True) if keep]


# --------------------------------------------------------------------------------------------------------- the families
def _one_scale_space(kernel: Kernel, likelihood: OrdinalProbit) -> HyperparameterSpace:
    """Return the space of one factor on all length-scales, which start at their prior mean."""
    n, r = kernel.theta.size, likelihood.n_levels
    scale = NormalPrior(one_hot(n + r, 0), float(kernel.theta[0]), SHARED_SD)
    return HyperparameterSpace(
        kernel, likelihood, np.zeros(n, dtype=np.int64), (scale, _noise_prior(likelihood, n + r, n))
    )


def _linear_space(scale: Array, likelihood: OrdinalProbit) -> HyperparameterSpace:
    """Return the space of a linear kernel of unit prior variance."""
    kernel, n, r = linear(scale, 1.0), scale.size, likelihood.n_levels
    # Thresholds, noise and the scale of f are determined up to a factor: noise alone is learnt.
    fixed_scale = NormalPrior(one_hot(n + r, 0), float(kernel.theta[0]), POLICY.fixed_scale_sd)
    priors = _noise_prior(likelihood, n + r, n), fixed_scale
    return HyperparameterSpace(kernel.clone_with_theta(kernel.theta), likelihood, np.zeros(n, dtype=np.int64), priors)


def _linear_part_space(fit: FamilyFit, scale: Array) -> HyperparameterSpace:
    """Return the space with a linear part, which starts at its prior mean."""
    d, r = scale.size, fit.likelihood.n_levels
    size, (log_variance, sd) = 2 * d + r, POLICY.linear_prior
    priors = (
        NormalPrior(one_hot(size, 0), float(mean_log_scales(scale)[0]), SHARED_SD),
        NormalPrior(one_hot(size, d), float(np.log(1.0 / (d * scale[0] ** 2)) + log_variance), sd),
        _noise_prior(fit.likelihood, size, 2 * d),
    )
    start = fit.kernel + linear(scale, float(np.exp(log_variance)))
    return HyperparameterSpace(start, fit.likelihood, np.repeat([0, 1], d), priors)


def _single_scales_space(fit: FamilyFit, scale: Array) -> HyperparameterSpace:
    """Return the space of one length-scale per feature."""
    d = scale.size
    size = d + fit.likelihood.n_levels
    priors = *length_scale_priors(mean_log_scales(scale), size), _noise_prior(fit.likelihood, size, d)
    return HyperparameterSpace(fit.kernel, fit.likelihood, None, priors)


def _noise_prior(likelihood: OrdinalProbit, size: int, place: int) -> NormalPrior:
    """Return the prior of the noise."""
    mean, sd = POLICY.noise_prior
    return NormalPrior(one_hot(size, place), mean - float(np.log(likelihood.width)), sd)


# -------------------------------------------------------------------------------------------------------- their weights
def _fit_family(evidence: Evidence, space: HyperparameterSpace, y: Array, odds: float = 0.0) -> FamilyFit:
    """Search one family and return its evidence with hyper-parameters integrated out."""
    space = with_absent_levels(space, y)
    objective = LogPosterior(evidence, space)
    kernel, likelihood, optimum = search(objective, tol=POLICY.maximise_tol)
    trace = list(objective.trace)
    occam = 0.5 * (_log_prior_determinant(space) - _log_curvature(objective, optimum.theta)) - odds
    return FamilyFit(optimum.value + occam, kernel, likelihood, trace, space, occam)


def _with_other_likelihood(evidence: Evidence, fit: FamilyFit, kind: type[OrdinalProbit]) -> FamilyFit:
    """Search a family again with another likelihood, from its end."""
    old = fit.likelihood
    shift, n = float(np.log(kind.width / old.width)), fit.space.kernel_theta.size
    priors = tuple(prior._replace(mean=prior.mean - prior.weights[n] * shift) for prior in fit.space.priors)
    likelihood = kind(old.thresholds, old.noise * old.width / kind.width)
    start = _continued(evidence, fit._replace(likelihood=likelihood, space=replace(fit.space, priors=priors)), 0)
    return _continued(evidence, start) if start.evidence > fit.evidence - POLICY.hopeless else start


def _continued(evidence: Evidence, fit: FamilyFit, max_iter: int = 100) -> FamilyFit:
    """Continue the search of a family, perhaps by another evidence; the curvature is taken to be the same."""
    space = replace(fit.space, kernel=fit.kernel, likelihood=fit.likelihood)
    objective = LogPosterior(evidence, space)
    if max_iter == 0:
        return fit._replace(evidence=objective(space.start)[0] + fit.occam, space=space)
    kernel, likelihood, optimum = search(objective, max_iter=max_iter, tol=POLICY.maximise_tol)
    value = optimum.value + fit.occam
    return FamilyFit(value, kernel, likelihood, fit.trace + objective.trace, space, fit.occam)


def _log_prior_determinant(space: HyperparameterSpace) -> float:
    """Return log |P / (2 pi)| of the precision P of the priors, which makes them a density."""
    weights = np.array([space.free_gradient(prior.weights) / prior.sd for prior in space.priors])
    used = np.any(weights != 0.0, axis=0)
    P = weights[:, used].T @ weights[:, used]
    return float(np.linalg.slogdet(P / (2.0 * np.pi))[1])


def _log_curvature(objective: LogPosterior, free: Array) -> float:
    """Return log |H / (2 pi)| in kernel and noise by differences of the gradient."""
    k = objective.space.n_kernel + 1
    at_optimum = objective(free)[1]
    h = POLICY.curvature_step
    H = np.array([(at_optimum - objective(free + h * step)[1])[:k] / h for step in np.eye(k, free.size)])
    values = np.linalg.eigvalsh(0.5 * (H + H.T))
    return float(np.sum(np.log(np.maximum(values, POLICY.least_curvature) / (2.0 * np.pi))))


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
    widths = tuple(NormalPrior(one_hot(n + r, n + k), float(start[k]), POLICY.absent_sd) for k in places)
    return replace(space, priors=space.priors + widths)
