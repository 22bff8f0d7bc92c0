"""Many classes by one softmax model: kernel and inducing points are shared, each class has a function.

The functions are those of the mode of the posterior. The evidence is no guide to their kernel: Laplace's approximation
of it picks amplitudes that are far too small where classes hardly overlap. So amplitude and length-scales follow from
the log-loss of rows left out, by searches from three starts: the kernel as it is, the one by the evidence of a
regression on the indicators of the classes, and one halfway between: length-scales that a few hundred rows call for are
too far apart for many rows. Few rows left out hardly tell close values apart, and the lowest log-loss is partly luck:
the kernel is the mean of all that were tried, weighted by the likelihood of these rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from scipy.special import softmax
from sklearn.gaussian_process.kernels import ConstantKernel, Sum

from skpref._math.linalg import product, solve_lower
from skpref._math.threads import limit_blas_threads
from skpref.gp.default_kernels import feature_scales, stationary, warp, warped_rows
from skpref.gp.hyperpriors import length_scale_priors, log_density, mean_log_scales
from skpref.gp.posterior import SparseLatent, WarmStart
from skpref.gp.sparse.evidence import GaussianRows
from skpref.gp.sparse.fit import choose_points
from skpref.gp.sparse.fit_general import GeneralFit
from skpref.gp.sparse.policy import POLICY
from skpref.gp.sparse.search import ObjectiveValue, SparseParameters, SparseSearch, evidence_objective
from skpref.inference.basis import InducingBasis
from skpref.inference.softmax import softmax_covariance, softmax_mode
from skpref.inference.terms.inducing import row_term
from skpref.likelihoods import Softmax

if TYPE_CHECKING:
    from sklearn.gaussian_process.kernels import Kernel

    from skpref._typing import Array, Features, IntArray
    from skpref.gp.hyperpriors import NormalPrior
    from skpref.gp.sparse.search import SparseConfig

__all__ = ["ClassCounts", "fit_softmax"]

_STEPS: Final = {"constant_value": 1.2, "variance": 1.2, "length_scale": 0.7}  # first steps of their logs, halved later


@dataclass(frozen=True, eq=False)
class ClassCounts:
    """Distinct rows and the weights of their classes."""

    X: Features  # (n, d): rows
    counts: Array  # (n, K): sum of the weights of each class, > 0 for one of a row at least

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.counts.shape[0])

    def take(self, index: IntArray | Array) -> ClassCounts:
        """Return some rows."""
        return ClassCounts(self.X[index], self.counts[index])

    def sample(self, size: int, rng: np.random.Generator) -> ClassCounts:
        """Draw rows without replacement; all if there are no more."""
        return self if size >= self.n else self.take(np.sort(rng.choice(self.n, size, replace=False)))

    def indicators(self) -> GaussianRows:
        """Return the shares of the classes, standardised together, as targets of a regression."""
        weight = self.counts.sum(axis=1)
        share = self.counts / weight[:, None]
        centred = share - self.counts.sum(axis=0) / weight.sum()
        within = float(np.sum(self.counts * (1.0 - share)))
        variance = (float(weight @ np.sum(centred**2, axis=1)) + within) / (weight.sum() * share.shape[1])
        variance = variance or 1.0  # of rows of one class
        return GaussianRows(self.X, centred / np.sqrt(variance), weight, within / variance)


def fit_softmax(
    data: ClassCounts,
    kernel: Kernel | None,
    config: SparseConfig,
    rng: np.random.Generator,
    start: SparseLatent | None = None,
    *,
    search: bool = True,
    n_jobs: int | None = None,
) -> GeneralFit:
    """Fit kernel, inducing points and functions; from an earlier fit, and without `search` the functions alone."""
    if start is not None and not search:
        return _posterior(data, start.basis, config, start.mean)
    is_default = kernel is None
    if start is not None:
        kernel = start.basis.kernel
    elif kernel is None:
        kernel = _default_kernel(data.X, config)
    priors = _scale_priors(kernel, data.X) if is_default else ()
    with limit_blas_threads(1):
        if config.optimizer is not None and kernel.n_dims and data.n >= POLICY.folds:
            kernel = _search(data, kernel, priors, config, rng, n_jobs)
    with limit_blas_threads(min(config.n_inducing, data.n)):
        basis = InducingBasis.from_points(kernel, choose_points(data.X, kernel, config, rng))
    return _posterior(data, basis, config, None)


def _default_kernel(X: Features, config: SparseConfig) -> Kernel:
    """Return a kernel of the features and, where some have many values, one of features halfway to their ranks."""
    variance, bounds, warped = POLICY.softmax_variance, POLICY.variance_bounds, warp(X)
    plain = stationary(config.smoothness, feature_scales(X))
    if warped is None:
        return ConstantKernel(variance, bounds) * plain
    warped.set_params(kernel=stationary(config.smoothness, feature_scales(warped.map_rows(X))))
    return ConstantKernel(0.5 * variance, bounds) * plain + ConstantKernel(0.5 * variance, bounds) * warped


def _scale_priors(kernel: Any, X: Features) -> tuple[NormalPrior, ...]:
    """Return the priors of the length-scales of a default kernel."""
    tables = [X, warped_rows(X, kernel)] if isinstance(kernel, Sum) else [X]
    means = [mean_log_scales(feature_scales(table)) for table in tables]
    starts = 1 + np.arange(len(means)) * (1 + X.shape[1])
    size = len(means) * (1 + X.shape[1])
    return tuple(
        prior
        for first, mean in zip(starts.tolist(), means, strict=True)
        for prior in length_scale_priors(mean, size, first=first)
    )


def _posterior(data: ClassCounts, basis: InducingBasis, config: SparseConfig, start: Array | None) -> GeneralFit:
    """Return the mode of the functions with their covariance."""
    with limit_blas_threads(basis.chol.shape[0]):
        term = row_term(basis, data.X, "f")
        limits = config.max_iter, config.tol
        mode = softmax_mode(term, data.counts, start, *limits, on_value=config.on_value)
        latent = SparseLatent(basis, mode.mean, softmax_covariance(term, data.counts, mode.mean))
        likelihood: Any = Softmax()  # it is no `Likelihood`
        end = WarmStart(basis.kernel, likelihood, basis.points)
        return GeneralFit(latent, end, "map", [mode.value], mode.n_iter, mode.converged, mode.cut_short)


# --------------------------------------------------------------------------------------------------------------- search
class _Fold(NamedTuple):
    """Rows to learn from and rows left out."""

    train: ClassCounts
    test: ClassCounts
    points: Features  # (M, d): inducing points
    kernel: Kernel  # where the search starts; it has not seen the rows left out
    values: Array | None = None  # (M, K): functions at the points, for the next start


def _search(
    data: ClassCounts,
    kernel: Kernel,
    priors: tuple[NormalPrior, ...],
    config: SparseConfig,
    rng: np.random.Generator,
    n_jobs: int | None,
) -> Kernel:
    """Return the mean kernel of three searches, in logarithms, weighted by the likelihood of rows left out."""
    sample = data.sample(POLICY.softmax_rows, rng)
    tol = POLICY.sample_tol * config.tol
    config = replace(config, n_inducing=POLICY.softmax_points, inducing="kmeans++", tol=tol, noise=None)
    number, n_folds = _fold_numbers(sample, rng), int(np.clip(POLICY.left_out_rows // sample.n, 1, POLICY.folds))
    parts = [(sample.take(number != fold), sample.take(number == fold)) for fold in range(n_folds)]
    points = [choose_points(train.X, kernel, config, rng) for train, _ in parts]
    subsets = [rows.sample(POLICY.subset_rows, rng) for rows in (sample, *(train for train, _ in parts))]
    parallel = Parallel(n_jobs)
    learnt = parallel(delayed(_learn_from_indicators)(rows, kernel, priors, config) for rows in subsets)
    starts = [[_interpolate(kernel, end, share) for end in learnt] for share in POLICY.indicator_shares]
    tasks = [
        [_Fold(*part, Z, own) for part, Z, own in zip(parts, points, kernels, strict=True)] for _, *kernels in starts
    ]
    ways = parallel(delayed(_descend)(folds, config) for folds in tasks)
    places = [
        (_shifted(start, shift).theta, loss)
        for (start, *_), way in zip(starts, ways, strict=True)
        for shift, loss in way
    ]
    theta, loss = (np.array(column) for column in zip(*places, strict=True))
    return kernel.clone_with_theta(softmax(-loss) @ theta)


def _fold_numbers(data: ClassCounts, rng: np.random.Generator) -> IntArray:
    """Return a fold for each row, all with the same shares of the classes, shape (n,)."""
    number = np.empty(data.n, dtype=np.int64)
    number[np.lexsort((rng.random(data.n), data.counts.argmax(axis=1)))] = np.arange(data.n) % POLICY.folds
    return number


def _learn_from_indicators(
    data: ClassCounts, kernel: Kernel, priors: tuple[NormalPrior, ...], config: SparseConfig
) -> Kernel:
    """Return the kernel of highest evidence in a regression on the indicators, with the variance that it had before."""
    # The indicators of a row are one label, so their evidence counts once: otherwise it drowns the priors.
    rows = data.indicators()
    evidence, n_functions = evidence_objective(rows), rows.n_functions

    def objective(parameters: SparseParameters) -> tuple[ObjectiveValue, float]:
        result, weight = evidence(parameters)
        prior, slope = log_density(priors, parameters.kernel.theta)
        value, theta = result.value / n_functions + prior, result.theta / n_functions + slope
        return ObjectiveValue(value, theta, result.log_noise / n_functions, None), weight

    search = SparseSearch(config, SparseParameters(kernel, POLICY.initial_noise, data.X))
    search.ascend(objective, max_iter=POLICY.indicator_iterations)
    return search.parameters.kernel


def _interpolate(kernel: Kernel, end: Kernel, share: float) -> Kernel:
    """Return a kernel whose log length-scales are interpolated towards another kernel's."""
    return _shifted(kernel, share * np.where(_step(kernel, "length_scale") > 0.0, end.theta - kernel.theta, 0.0))


def _descend(folds: list[_Fold], config: SparseConfig) -> list[tuple[Array, float]]:
    """Search along the variance and the length-scales; return all shifts of theta with their log-losses and priors."""
    kernel = folds[0].kernel
    steps = [_step(kernel, "constant_value", "variance"), _step(kernel, "length_scale")]
    ways = [sign * way for way in np.eye(2)[[np.any(step) for step in steps]] for sign in (1.0, -1.0)]
    visited: dict[tuple[float, ...], float] = {}

    def loss(place: Array) -> float:
        results = [_left_out(fold, place @ steps, config) for fold in folds]
        folds[:] = [fold._replace(values=values) for fold, (_, values) in zip(folds, results, strict=True)]
        visited[tuple(place)] = sum(value for value, _ in results) + 0.5 * float(place @ place) / POLICY.shift_sd**2
        return visited[tuple(place)]

    best = np.zeros(2)
    lowest = loss(best)
    for size in (1.0, 0.5):
        queue = ways
        while queue:
            way, *queue = queue
            trial = best + size * way
            if tuple(trial) not in visited and (value := loss(trial)) < (1.0 - POLICY.worth_step) * lowest:
                best, lowest = trial, value
                queue = [way, *(other for other in ways if other is not way)]
    return [(np.array(place) @ steps, value) for place, value in visited.items()]


def _left_out(fold: _Fold, shift: Array, config: SparseConfig) -> tuple[float, Array]:
    """Return the log-loss of the rows left out, summed over their weights, and the functions at the points."""
    basis = InducingBasis.from_points(_shifted(fold.kernel, shift), fold.points)
    start = None if fold.values is None else solve_lower(basis.chol, fold.values)
    term = row_term(basis, fold.train.X, "f")
    mode = softmax_mode(term, fold.train.counts, start, config.max_iter, config.tol)
    log_p = Softmax().log_prob(product(basis.rows(fold.test.X), mode.mean))
    return -float(np.vdot(fold.test.counts, log_p)), product(basis.chol, mode.mean)


def _step(kernel: Kernel, *names: str) -> Array:
    """Return the first step of hyper-parameters whose name ends so, 0 for the others, shape (n_theta,)."""
    own = [h.name for h in kernel.hyperparameters if not h.fixed for _ in range(h.n_elements)]
    return np.array([sum(_STEPS[end] for end in names if name.endswith(end)) for name in own], dtype=np.float64)


def _shifted(kernel: Kernel, shift: Array) -> Kernel:
    """Return the kernel with its logarithms of hyper-parameters moved within their bounds."""
    return kernel.clone_with_theta(np.clip(kernel.theta + shift, *np.reshape(kernel.bounds, (-1, 2)).T))
