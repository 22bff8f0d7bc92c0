"""Regression by sums over the rows, which may be in memory, in a stream or in files: `SVGPRegressor`."""

from __future__ import annotations

from abc import abstractmethod
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Self

import numpy as np

from skpref._estimator import check_memory, digest, iteration_callback
from skpref._math.limits import LARGEST_SQUARED
from skpref._math.random import as_generator
from skpref._math.threads import limit_blas_threads
from skpref._sources import become_unfitted, feature_columns, read_batch, refuse_parameters
from skpref.exceptions import DataError
from skpref.gp.default_kernels import drop_white_noise
from skpref.gp.sparse.base import SparseGP
from skpref.gp.sparse.evidence import moments
from skpref.gp.sparse.fit import fit_collapsed, refit_from_moments
from skpref.gp.sparse.fit_general import Observations, fit_by_sums
from skpref.gp.sparse.policy import POLICY
from skpref.gp.sparse.search import SparseParameters
from skpref.gp.sparse.targets import (
    TargetScale,
    distinct_targets,
    gaussian_rows,
    initial_likelihood,
    kernel_priors,
    noise_of,
    noise_variance,
    rounding_step,
    standardised,
)
from skpref.inference.shards import summed
from skpref.inference.summed import sums_over
from skpref.likelihoods import Gaussian, Likelihood
from skpref.settings import inducing_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sklearn.gaussian_process.kernels import Kernel

    from skpref._sources import Source, SourceRows
    from skpref._typing import Array, Features, IntArray
    from skpref.gp.posterior import WarmStart
    from skpref.gp.sparse.fit import SparseFit
    from skpref.gp.sparse.fit_general import GeneralFit
    from skpref.gp.sparse.search import SparseConfig
    from skpref.gp.sparse.targets import DistinctTargets
    from skpref.inference.basis import InducingBasis
    from skpref.inference.collapsed import Moments
    from skpref.inference.summed import Sums
    from skpref.inference.svi import Problem, State

_STANDARDISED: Final = ("gaussian", "student-t")


class _Targets(NamedTuple):
    """Mean and spread of targets, which add up over batches without cancellation."""

    weight: float = 0.0
    mean: float = 0.0
    squares: float = 0.0  # sum of w (y - mean)^2
    largest: float = 0.0  # size of a target

    @classmethod
    def from_batch(cls, y: Array, weight: Array) -> _Targets:
        """Return weight, mean and spread of a batch."""
        largest = float(np.abs(y).max())
        if largest > LARGEST_SQUARED:
            raise DataError(f"y must be at most {LARGEST_SQUARED:g} in size; got {largest:g}. Use another unit")
        total = float(weight.sum())
        mean = float(weight @ y) / total
        return cls(total, mean, float(weight @ (y - mean) ** 2), largest)

    def merged(self, other: _Targets) -> _Targets:
        """Return weight, mean and spread of both parts together."""
        total, gap = self.weight + other.weight, other.mean - self.mean
        squares = self.squares + other.squares + gap**2 * self.weight * other.weight / total
        return _Targets(total, self.mean + gap * other.weight / total, squares, max(self.largest, other.largest))

    @property
    def scale(self) -> TargetScale:
        """Mean and standard deviation."""
        return TargetScale.from_moments(self.mean, float(np.sqrt(self.squares / self.weight)), self.largest)


class SummedRegressor(SparseGP):
    """A regressor that is fitted by sums over the rows."""

    _takes_collections: ClassVar[bool] = True
    likelihood: Any
    noise: float | str
    random_state: Any
    converged_: bool
    likelihood_: Likelihood
    noise_: float | None
    _state: State | None
    _sums: Moments | None
    _by_evidence: bool  # whether the noise is that of the exact evidence of a subset

    @abstractmethod
    def _read(
        self, X: Any, y: Any, sample_weight: Any, exposure: Any, *, reset: bool = True
    ) -> tuple[Features, Array, Array]:
        """Return rows of positive weight, targets and weights."""

    @abstractmethod
    def _learn(self, start: WarmStart | None) -> None:
        """Fit all rows that are kept."""

    def _collapses(self) -> bool:
        """Tell whether the inference is in closed form."""
        gaussian = self.likelihood == "gaussian" and not self._uses_adam()
        if self.inference == "collapsed" and not gaussian:
            msg = (
                "inference='collapsed' needs likelihood='gaussian' and an optimizer other than 'adam'; got "
                f"likelihood={self.likelihood!r}, optimizer={self.optimizer!r}. Use inference='auto'."
            )
            raise DataError(msg)
        return gaussian and self.inference in {"auto", "collapsed"}

    def _max_points(self, n_distinct: int, *, streams: bool = False) -> int:
        """Return the largest number of inducing points, before any loss; fewer where a pass is repeated often."""
        repeats = streams or not self._collapses()
        most = POLICY.inducing if repeats or n_distinct > POLICY.exact_rows else POLICY.exact_rows
        return inducing_of(self.inducing, most)[0]

    def _config(self, scale: TargetScale, n_distinct: int, *, streams: bool = False) -> SparseConfig:
        """Return the settings of the searches; a stream has few points, for which every update is fast."""
        noise = None if self.noise == "learn" else float(self.noise) / scale.deviation
        if noise is not None and not 1e-100 < noise < 1e100:
            raise DataError(
                f"noise={self.noise:g} is {noise:g} standard deviations of y ({scale.deviation:g}), and its square "
                "overflows or underflows: set noise in the units of y, or noise='learn'."
            )
        size, collapses = self._max_points(n_distinct, streams=streams), self._collapses()
        most = POLICY.exact_rows if collapses and not streams and n_distinct <= POLICY.all_rows else 0
        return self._sparse_config(size, None if noise is None else noise**2, self.tol, most, scale.rounding)

    def _update_posterior(self, new_rows: tuple[Features, Array, Array], sums: Moments | None) -> Self:
        """Update noise and posterior by new rows and the sums over earlier ones; kernel and points stay."""
        scale = TargetScale(self.y_mean_, self.y_scale_, rounding_step(new_rows[1]))
        rows = gaussian_rows(distinct_targets(*new_rows), scale)
        parameters = SparseParameters(self.kernel_, noise_variance(self.likelihood_), self.inducing_points_)
        basis = self.posterior_.basis
        with limit_blas_threads(basis.chol.shape[0]):
            total = moments(rows, basis) if sums is None else sums + moments(rows, basis)
            config = self._config(scale, rows.n)
            fit = refit_from_moments(total, parameters, basis, config, by_evidence=self._by_evidence)
            self._store(fit, scale)
        self._sums = total
        return self

    def _store(self, result: SparseFit, scale: TargetScale) -> None:
        """Set the attributes of a collapsed fit."""
        self._state, self.inference_, self._by_evidence = None, "collapsed", result.by_evidence
        self.kernel_, self.inducing_points_ = result.parameters.kernel, result.parameters.points
        self.likelihood_ = Gaussian(1.0 / result.parameters.noise)
        self.noise_ = float(np.sqrt(result.parameters.noise)) * scale.deviation
        self.y_mean_, self.y_scale_ = scale.mean, scale.deviation
        self.posterior_ = result.latent
        self.n_samples_seen_ = result.moments.weight
        jacobian = self.n_samples_seen_ * float(np.log(scale.deviation))
        self.lower_bound_ = result.bound - jacobian
        self.lower_bounds_ = [value - jacobian for value in result.bounds]
        self.n_iter_, self.converged_ = result.n_iter, result.converged
        self._cut_short = result.cut_short

    def _store_general(self, result: GeneralFit, scale: TargetScale, weight: float) -> None:
        """Set the attributes of a fit by natural-gradient steps to rows of a total weight."""
        self._state, self._sums, self.inference_ = result.end.state, None, result.inference
        self._by_evidence = False
        self.kernel_, self.inducing_points_ = result.end.kernel, result.end.points
        self.likelihood_, self.posterior_ = result.end.likelihood, result.latent
        noise = noise_of(self.likelihood_)
        self.noise_ = None if noise is None else noise * scale.deviation
        self.y_mean_, self.y_scale_ = scale.mean, scale.deviation
        self.n_samples_seen_ = weight
        jacobian = weight * float(np.log(scale.deviation))
        self.lower_bounds_ = [value - jacobian for value in result.bounds]
        self.lower_bound_ = self.lower_bounds_[-1]
        self.n_iter_, self.converged_ = result.n_iter, result.converged
        self._cut_short = result.cut_short

    def _is_standardised(self) -> bool:
        """Tell whether the model sees standardised targets."""
        return self.likelihood in _STANDARDISED

    # ------------------------------------------------------------- rows that are not in memory
    def _fit_source(self, source: Source, exposure: Any) -> None:
        """Fit to rows that are elsewhere: hyper-parameters to a sample, noise and posterior to the sums over all."""
        self._check_sums_suffice(exposure)
        rows, names = feature_columns(source)
        n = rows.n_rows
        if n <= POLICY.sample_rows:
            self._rows = self._read(*rows.everything(), None)
            self._learn(None)
            return
        check_memory(1, self._max_points(n), whose="rows")
        become_unfitted(self, names)
        self.exposure_scale_ = 1.0
        rng = as_generator(self.random_state)
        totals, sample = self._totals_and_sample(rows, np.sort(rng.choice(n, POLICY.sample_rows, replace=False)))
        scale = totals.scale if self._is_standardised() else TargetScale(0.0, 1.0)
        fit = self._fit_gaussian if self._collapses() else self._fit_passes
        targets = distinct_targets(*sample)
        fit(rows, targets, totals, scale._replace(step=rounding_step(targets.y)), rng)
        self._rows, self._rows_until_search = None, n
        self._warm_key = digest(self._settings())

    def _totals_and_sample(self, rows: SourceRows, index: IntArray) -> tuple[_Targets, tuple[Features, Array, Array]]:
        """Return the spread of all targets, and the rows of a sample."""
        totals, sample = _Targets(), []
        for part in rows.collect(_totals_and_sample, copy(self), index):
            if part is not None:
                totals = totals.merged(part[0])
                sample.append(part[1])
        if not sum(len(y) for _, y, _ in sample):
            raise DataError(
                "at least 1 row of positive weight is required; "
                + ("every sample_weight is zero." if not totals.weight else "leave rows of sample_weight zero out.")
            )
        X, y, weight = (np.concatenate(part) for part in zip(*sample, strict=True))
        return totals, (X, y, weight)

    def _prior_kernel(self) -> Kernel | None:
        """Return the kernel, without white noise that it adds to f where Gaussian noise is learnt."""
        learns_noise = self.likelihood == "gaussian" and self.noise == "learn" and self.optimizer is not None
        return drop_white_noise(self.kernel) if learns_noise and self.kernel is not None else self.kernel

    def _fit_gaussian(
        self, rows: SourceRows, sample: DistinctTargets, totals: _Targets, scale: TargetScale, rng: np.random.Generator
    ) -> None:
        """Fit to the sums that determine the posterior under Gaussian noise: one more pass."""
        del totals
        config = self._config(scale, rows.n_rows)
        search = fit_collapsed(gaussian_rows(sample, scale), self._prior_kernel(), config, rng)
        basis = search.latent.basis
        with limit_blas_threads(basis.chol.shape[0]):
            parts = rows.collect(_batch_moments, copy(self), basis, scale)
            total = summed(part for part in parts if part is not None)
            fit = refit_from_moments(total, search.parameters, basis, config, by_evidence=search.by_evidence)
        bounds, converged = [*search.bounds[:-1], fit.bound], search.converged and fit.converged
        cut_short = search.cut_short or fit.cut_short
        n_iter = max(search.n_iter, fit.n_iter)
        self._store(replace(fit, bounds=bounds, n_iter=n_iter, converged=converged, cut_short=cut_short), scale)
        self._sums = total

    def _fit_passes(
        self, rows: SourceRows, sample: DistinctTargets, totals: _Targets, scale: TargetScale, rng: np.random.Generator
    ) -> None:
        """Fit to sums at each of several posteriors: a pass for every natural-gradient step."""
        shell = copy(self)

        def collect(template: Problem, state: State) -> Iterator[Sums | None]:
            return rows.collect(_batch_sums, shell, scale, template, state)

        data = Observations(sample.X[sample.row], standardised(sample, scale), sample.weight)
        config = self._config(scale, rows.n_rows)
        likelihood = initial_likelihood(self.likelihood, config.noise, totals.mean, rounding=config.rounding)
        general = self._general_config(config, "vb", iteration_callback(self), kernel_priors(likelihood))
        result = fit_by_sums(data, likelihood, self._prior_kernel(), general, rng, collect)
        self._store_general(result, scale, totals.weight)

    def _check_sums_suffice(self, exposure: Any) -> None:
        """Refuse models that need the rows themselves."""
        inferences = {"auto", "collapsed"} if self.likelihood == "gaussian" else {"auto", "vb"}
        refuse_parameters(
            {
                "exposure": exposure is not None,
                f"inference={self.inference!r} with likelihood={self.likelihood!r}": self.inference not in inferences,
                f"optimizer={self.optimizer!r}": self._uses_adam(),
                f"window={self.window!r}": self.window is not None,
            },
            "in full passes, by inference='auto' and optimizer='l-bfgs-b' or None, without window and exposure",
        )


def _totals_and_sample(
    X: Any, y: Any, weight: Any, start: int, shell: Any, index: IntArray
) -> tuple[_Targets, tuple[Features, Array, Array]] | None:
    """Return the spread of the targets of a batch, and the batch's rows in a sample."""
    batch = read_batch(X, y, weight, shell)
    if batch is None:
        return None
    numbers = np.arange(len(X)) if weight is None else np.flatnonzero(np.asarray(weight) > 0.0)
    chosen = np.flatnonzero(np.isin(start + numbers, index, assume_unique=True))
    rows, targets, used = (part[chosen] for part in batch)
    return _Targets.from_batch(batch[1], batch[2]), (rows, targets, used)


def _batch_moments(
    X: Any, y: Any, weight: Any, start: int, shell: Any, basis: InducingBasis, scale: TargetScale
) -> Moments | None:
    """Return the sums over a batch."""
    del start
    batch = read_batch(X, y, weight, shell)
    return None if batch is None else moments(gaussian_rows(distinct_targets(*batch), scale), basis)


def _batch_sums(
    X: Any, y: Any, weight: Any, start: int, shell: Any, scale: TargetScale, template: Problem, state: State
) -> Sums | None:
    """Return the sums over a batch at a posterior."""
    del start
    batch = read_batch(X, y, weight, shell)
    if batch is None:
        return None
    targets = distinct_targets(*batch)
    return sums_over(template, state, targets.rows, standardised(targets, scale), targets.weight)
