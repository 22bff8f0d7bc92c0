"""Gaussian noise in closed form: fits by sums over the rows, which may be in memory, in a stream or in files."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

import numpy as np

from skpref._estimator import check_memory, digest
from skpref._math.random import as_generator
from skpref._math.threads import limit_blas_threads
from skpref.data.shards import dataset_rows, located
from skpref.exceptions import DataError
from skpref.gp.sparse.base import SparseGP
from skpref.gp.sparse.evidence import moments
from skpref.gp.sparse.fit import SAMPLE_ROWS, fit_collapsed, refit_from_moments
from skpref.gp.sparse.search import SparseParameters
from skpref.gp.sparse.targets import TargetScale, distinct_targets, gaussian_rows, noise_variance
from skpref.likelihoods import Gaussian, Likelihood

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skpref._typing import Array, Features, IntArray
    from skpref.gp.posterior import WarmStart
    from skpref.gp.sparse.fit import SparseFit
    from skpref.gp.sparse.search import SparseConfig
    from skpref.inference.collapsed import Moments
    from skpref.inference.svi import State

_N_INDUCING, _N_INDUCING_FEW_ROWS, _FEW_ROWS = 500, 1000, 2000  # n_inducing="auto": 1000 up to 2000 distinct rows
_LARGEST: Final = 1e150  # of targets that are squared
_ROUNDING: Final = 1e-12  # relative standard deviation below which all targets are equal


class _Targets(NamedTuple):
    """Mean and spread of targets, which add up over batches without cancellation."""

    weight: float = 0.0
    mean: float = 0.0
    squares: float = 0.0  # sum of w (y - mean)^2
    largest: float = 0.0  # size of a target

    def and_those(self, y: Array, weight: Array) -> _Targets:
        """Return mean and spread with those of a batch."""
        largest = max(self.largest, float(np.abs(y).max()))
        if largest > _LARGEST:
            raise DataError(f"y must be at most {_LARGEST:g} in size; got {largest:g}. Use another unit")
        added = float(weight.sum())
        mean, total = float(weight @ y) / added, self.weight + added
        gap = mean - self.mean
        squares = self.squares + float(weight @ (y - mean) ** 2) + gap**2 * self.weight * added / total
        return _Targets(total, self.mean + gap * added / total, squares, largest)

    @property
    def scale(self) -> TargetScale:
        """Mean and standard deviation; where all targets are equal, 1 or what exceeds rounding."""
        deviation, rounding = float(np.sqrt(self.squares / self.weight)), _ROUNDING * self.largest
        return TargetScale(self.mean, deviation if deviation > rounding else max(1.0, rounding))


class SummedRegressor(SparseGP):
    """A regressor that is fitted by sums over the rows where noise is Gaussian."""

    likelihood: Any
    inference: str
    n_inducing: int | str
    noise: float | str
    random_state: Any
    converged_: bool
    likelihood_: Likelihood
    noise_: float | None
    _state: State | None
    _sums: Moments | None

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
        gaussian = self.likelihood == "gaussian" and self.optimizer != "adam"
        if self.inference == "collapsed" and not gaussian:
            msg = (
                "inference='collapsed' needs likelihood='gaussian' and an optimizer other than 'adam'; got "
                f"likelihood={self.likelihood!r}, optimizer={self.optimizer!r}. Use inference='auto'."
            )
            raise DataError(msg)
        return gaussian and self.inference in {"auto", "collapsed"}

    def _max_points(self, n_distinct: int) -> int:
        """Return the largest number of inducing points."""
        if self.n_inducing == "auto":
            return _N_INDUCING_FEW_ROWS if n_distinct <= _FEW_ROWS else _N_INDUCING
        return int(self.n_inducing)

    def _config(self, scale: TargetScale, n_distinct: int) -> SparseConfig:
        """Return the settings of the searches."""
        noise = None if self.noise == "learn" else float(self.noise) / scale.deviation
        if noise is not None and not 1e-100 < noise < 1e100:
            raise DataError(
                f"noise={self.noise:g} is {noise:g} standard deviations of y ({scale.deviation:g}), and its square "
                "overflows or underflows: set noise in the units of y, or noise='learn'."
            )
        return self._sparse_config(self._max_points(n_distinct), None if noise is None else noise**2, self.tol)

    def _update_posterior(self, new_rows: tuple[Features, Array, Array], sums: Moments | None) -> Self:
        """Update noise and posterior by new rows and the sums over earlier ones; kernel and points stay."""
        scale = TargetScale(self.y_mean_, self.y_scale_)
        rows = gaussian_rows(distinct_targets(*new_rows), scale)
        parameters = SparseParameters(self.kernel_, noise_variance(self.likelihood_), self.inducing_points_)
        basis = self.posterior_.basis
        with limit_blas_threads(basis.chol.shape[0]):
            total = moments(rows, basis) if sums is None else sums + moments(rows, basis)
            self._store(refit_from_moments(total, parameters, basis, self._config(scale, rows.n)), scale)
        self._sums = total
        return self

    def _store(self, result: SparseFit, scale: TargetScale) -> None:
        """Set the attributes of a collapsed fit."""
        self._state, self.inference_ = None, "collapsed"
        self.kernel_, self.inducing_points_ = result.parameters.kernel, result.parameters.points
        self.likelihood_ = Gaussian(1.0 / result.parameters.noise)
        self.noise_ = float(np.sqrt(result.parameters.noise)) * scale.deviation
        self.y_mean_, self.y_scale_ = scale
        self.posterior_ = result.latent
        self.n_samples_seen_ = result.moments.weight
        jacobian = self.n_samples_seen_ * float(np.log(scale.deviation))
        self.lower_bound_ = result.bound - jacobian
        self.lower_bounds_ = [value - jacobian for value in result.bounds]
        self.n_iter_, self.converged_ = result.n_iter, result.converged

    def _fit_dataset(self, dataset: Any, y: Any, sample_weight: Any, exposure: Any) -> None:
        """Fit to a dataset of pyarrow: hyper-parameters to a sample of its rows, noise and posterior to all."""
        reasons = {
            "exposure": exposure is not None,
            f"likelihood={self.likelihood!r}": self.likelihood != "gaussian",
            f"inference={self.inference!r} with optimizer={self.optimizer!r}": not self._collapses(),
            f"window={self.window!r}": self.window is not None,
        }
        for parameter, refused in reasons.items():
            if refused:
                raise DataError(
                    f"{parameter} needs all rows in memory; files are fitted in closed form, by likelihood='gaussian', "
                    "inference='auto' and optimizer='l-bfgs-b' or None, without window and exposure"
                )
        names = "y" if y is None else y, sample_weight
        n = int(dataset.count_rows())
        if n <= SAMPLE_ROWS:
            ((X, targets, weight, _),) = dataset_rows(dataset, *names, batch_rows=SAMPLE_ROWS)
            self._rows = self._read(X, targets, weight, None)
            self._learn(None)
            return
        check_memory(1, self._max_points(n), whose="rows")
        rng = as_generator(self.random_state)
        index = np.sort(rng.choice(n, SAMPLE_ROWS, replace=False))
        totals, sample = _Targets(), []
        for X, y_batch, weight, numbers in self._batches(dataset, names):
            totals = totals.and_those(y_batch, weight)
            chosen = np.flatnonzero(np.isin(numbers, index, assume_unique=True))
            sample.append((X[chosen], y_batch[chosen], weight[chosen]))
        scale = totals.scale
        drawn = gaussian_rows(distinct_targets(*(np.concatenate(part) for part in zip(*sample, strict=True))), scale)
        config = self._config(scale, n)
        search = fit_collapsed(drawn, self.kernel, config, rng)
        basis, total = search.latent.basis, None
        with limit_blas_threads(basis.chol.shape[0]):
            for X, y_batch, weight, _ in self._batches(dataset, names):
                part = moments(gaussian_rows(distinct_targets(X, y_batch, weight), scale), basis)
                total = part if total is None else total + part
            assert total is not None  # noqa: S101 - there are rows
            fit = refit_from_moments(total, search.parameters, basis, config)
        bounds, converged = [*search.bounds[:-1], fit.bound], search.converged and fit.converged
        self._store(replace(fit, bounds=bounds, n_iter=len(bounds), converged=converged), scale)
        self._rows, self._sums, self._rows_until_search = None, total, n
        self._warm_key = digest(self._settings())

    def _batches(self, dataset: Any, names: tuple[str, str | None]) -> Iterator[tuple[Any, Array, Array, IntArray]]:
        """Yield rows, targets, weights and numbers of the rows of positive weight, a million rows at a time."""
        first = True
        for X, y, weight, start in dataset_rows(dataset, *names):
            if weight is not None and not np.any(weight):
                continue
            try:
                rows, targets, used = self._read(X, y, weight, None, reset=first)
            except ValueError as error:
                raise located(error, f"rows {start} to {start + len(X) - 1} of X") from error
            first = False
            numbers = np.arange(len(X)) if weight is None else np.flatnonzero(weight > 0.0)
            yield rows, targets, used, start + numbers
        if first:
            raise DataError("at least 1 row of positive weight is required; every sample_weight is zero.")
