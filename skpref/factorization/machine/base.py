"""Base class of the factorization machines: input, groups, fitting, updates, attributes (docs/maths section 9)."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Self

import numpy as np
from joblib import effective_n_jobs
from scipy import sparse
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.model_selection import train_test_split
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from skpref._callbacks import CallbackMixin
from skpref._checks import check_arrays, check_indices, check_types, is_count, require
from skpref._compiled.fm_fields import one_hot_ranges
from skpref._compiled.jit import limited_threads
from skpref._estimator import iteration_callback, precision
from skpref._math.random import as_generator
from skpref._validation import validate_data
from skpref._warn import warn
from skpref.data.ids import shorten
from skpref.data.levels import check_labels
from skpref.data.tables import canonical, unique_rows
from skpref.data.weights import read_weights
from skpref.exceptions import DataError, DataWarning
from skpref.factorization.machine.fields import one_hot_groups, rows_without
from skpref.factorization.machine.fit import FitOptions, coordinate_ascent
from skpref.factorization.machine.fit_batches import adam_ascent
from skpref.factorization.machine.model import Prior, compressed, start_machine
from skpref.factorization.machine.posterior import FMPosterior
from skpref.likelihoods import OrdinalProbit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray
    from sklearn.utils import Tags

    from skpref._typing import Array, Features, IntArray, MatrixLike
    from skpref.factorization.machine.model import Machine
    from skpref.likelihoods import Likelihood

CONSTRAINTS: Final[dict[str, list[Any]]] = {
    "n_factors": [Interval(Integral, 0, None, closed="left")],
    "groups": ["array-like", None],
    "posterior": [StrOptions({"full", "factorised"})],
    "learn_priors": ["boolean"],
    "batch_size": [Interval(Integral, 1, None, closed="left"), None],
    "n_epochs": [Interval(Integral, 1, None, closed="left")],
    "learning_rate": [Interval(Real, 0.0, None, closed="neither")],
    "average": ["boolean"],
    "n_samples": [Interval(Integral, 0, None, closed="left")],
    "kl_weights": [StrOptions({"unbiased", "normalised"})],
    "early_stopping": ["boolean"],
    "validation_fraction": [Interval(Real, 0.0, 1.0, closed="neither"), None],
    "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
    "tol": [Interval(Real, 0.0, None, closed="left")],
    "dtype": [str, type, np.dtype],
    "n_jobs": [Integral, None],
    "warm_start": ["boolean"],
    "verbose": ["verbose"],
    "random_state": ["random_state", np.random.Generator],
}

_LARGEST: Final = 1e25  # limit on features: the squares of curvatures are eighth powers and must fit into float64
_PROBE: Final = 2000  # rows looked at for repeats


class TrainingRows(NamedTuple):
    """Rows of positive weight."""

    X: Features  # canonical CSR
    y: Array  # standardised
    weight: Array

    def take(self, rows: IntArray) -> TrainingRows:
        """Return some rows."""
        return TrainingRows(self.X[rows], self.y[rows], self.weight[rows])

    def merged(self) -> TrainingRows:
        """Return each distinct row once with the sum of its weights if most rows are repeated, else all rows."""
        probe = self.take(np.linspace(0, self.y.size - 1, min(self.y.size, _PROBE)).astype(np.int64))
        if probe.distinct()[0].size > probe.y.size / 2:
            return self
        first, number = self.distinct()
        rows = self.take(first)
        return rows._replace(weight=np.bincount(number, self.weight, first.size).astype(np.float64, copy=False))

    def distinct(self) -> tuple[IntArray, IntArray]:
        """Return one example of each distinct row, and the number of every row's example."""
        return unique_rows(sparse.hstack([self.X, self.y[:, None]], format="csr"))


class _EarlyStopping:
    """The machine with the best validation loss so far, and whether to stop."""

    def __init__(self, data: TrainingRows, loss: Callable[[Machine, TrainingRows], float], patience: int) -> None:
        self._data, self._loss, self._patience = data, loss, patience
        self.best: Machine | None = None
        self.losses: list[float] = []

    def __call__(self, machine: Machine) -> bool:
        self.losses.append(self._loss(machine, self._data))
        best = int(np.argmin(self.losses))
        if best == len(self.losses) - 1:
            self.best = machine
        return len(self.losses) - 1 - best >= self._patience


class FMBase(CallbackMixin, BaseEstimator):
    """Base class of the factorization machines."""

    _likelihoods: ClassVar[tuple[type[Likelihood], ...]]  # that a machine of this class may have

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # ---------------------------------------------------------------- fitting

    def _read(self, X: Any, y: Any, *, reset: bool = False) -> tuple[Features, NDArray[Any]]:
        numeric = isinstance(self, RegressorMixin)
        X, y = validate_data(
            self,
            X,
            y if numeric else check_labels(y),
            accept_sparse="csr",
            dtype=np.float64,
            y_numeric=numeric,
            reset=reset,
        )
        return checked_features(X), y

    def _features(self, X: Any) -> Features:
        check_is_fitted(self)
        X = checked_features(validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False))
        self._warn_of_zeros(X)
        return X

    def _warn_of_zeros(self, X: Features) -> None:
        """Warn of rows that lack the one which all training rows have in a group: an unknown id, in most cases."""
        absent = rows_without(X, self.posterior_.machine.prior.group, self._one_hot_groups)
        for row, g in np.argwhere(absent)[:1].tolist():
            label, others = self.groups_[self._one_hot_groups[g]], int(absent.any(axis=1).sum()) - 1
            msg = (
                f"row {row} (and {others} more) has a column of zeros where a known group should be: all columns of "
                f"group {shorten(label)} are 0, and every training row has a 1 there. An unknown id that was encoded "
                "so is left out of the prediction and its uncertainty; OneHotDesign has a column for unseen ids."
            )
            warn(msg, DataWarning)

    def _positive_rows(self, X: Features, y: NDArray[Any], sample_weight: Any) -> tuple[Features, NDArray[Any], Array]:
        """Return the rows of positive weight, and the weights."""
        weight = read_weights(sample_weight, X.shape[0])
        if sample_weight is None:
            return X, y, weight
        used = np.flatnonzero(weight)
        if not used.size:
            raise DataError("at least 1 row of positive weight is required; every sample_weight is zero.")
        return X[used], y[used], weight[used]

    def _feature_groups(self, X: Features) -> tuple[NDArray[Any], IntArray]:
        """Return the labels of the groups, and the group of each feature, shape (n_features,)."""
        if self.groups is None:
            fields = one_hot_ranges(compressed(X), X.shape[1])
            one_hot = 1 < fields.size - 1 < X.shape[1] and bool(np.all(np.diff(X.indptr) == fields.size - 1))
            code = np.repeat(np.arange(fields.size - 1), np.diff(fields)) if one_hot else np.zeros(X.shape[1], int)
            return np.arange(code[-1] + 1), code
        groups = np.asarray(self.groups)
        if groups.shape != (X.shape[1],):
            raise DataError(f"groups must name the group of each of {X.shape[1]} features; got shape {groups.shape}.")
        labels, code = np.unique(groups, return_inverse=True)
        return labels, code.astype(np.int64)

    def _can_warm_start(self, X: Features) -> bool:
        """Return whether `warm_start` is on and the last fit has the shape of this one."""
        shape = X.shape[1], 1 + self.n_factors
        return self.warm_start and hasattr(self, "posterior_") and self.posterior_.machine.mean.shape == shape

    def _fit_machine(
        self,
        data: TrainingRows,
        likelihood: Likelihood,
        units: tuple[float, float],
        *,
        warm: bool,
        most_passes: int | None = None,
    ) -> Self:
        """Fit a new machine, or the last iterate of the last fit if `warm` and its groups are the same."""
        rng = as_generator(self.random_state)
        labels, code = self._feature_groups(data.X)
        if warm and np.array_equal(code, self.posterior_.machine.prior.group):
            machine = self.posterior_.last
        else:
            machine = start_machine(compressed(data.X), data.weight, code, int(self.n_factors), likelihood, rng)
        self.groups_, self._one_hot_groups = labels, one_hot_groups(data.X, code)
        plan = self._plan(np.ones(data.X.shape[1], dtype=bool), code, learn=True)
        plan = replace(plan, n_epochs=min(plan.n_epochs, most_passes or plan.n_epochs))
        return self._optimise(machine, data, plan, units, rng)

    def _update_machine(self, data: TrainingRows, freeze: Any) -> Self:
        """Update the posterior with more rows; the present posterior is the prior."""
        old = self.posterior_
        fitted_factors = old.machine.mean.shape[1] - 1
        if self.n_factors != fitted_factors:
            msg = f"n_factors is {self.n_factors}, but the model was fitted with {fitted_factors}; set n_factors back"
            raise DataError(f"{msg}, or call fit with all rows.")
        before = old.machine if old.sampled is None else old.last
        frozen = np.atleast_1d(np.asarray([] if freeze is None else freeze, dtype=object))
        unknown = [label for label in frozen.tolist() if label not in self.groups_.tolist()]
        if unknown:
            raise DataError(f"freeze names group {unknown[0]!r}, which is not one of {self.groups_.tolist()}.")
        free = ~np.isin(before.prior.group, np.flatnonzero([label in frozen for label in self.groups_.tolist()]))
        lam = np.asarray(np.linalg.inv(before.variance), np.float64) if before.full else 1.0 / before.variance
        prior = Prior(before.mean, lam, np.arange(free.size))
        plan = replace(self._plan(free, before.prior.group, learn=False), free_bias=frozen.size == 0)
        machine = replace(before, bias_prior=before.bias, prior=prior, hyper_prior=False)
        return self._optimise(machine, data, plan, (old.offset, old.scale), as_generator(self.random_state), before)

    def _plan(self, free: NDArray[np.bool_], groups: IntArray, *, learn: bool) -> FitOptions:
        return FitOptions(
            n_epochs=self.n_epochs,
            tol=float(self.tol),
            learn_priors=learn and bool(self.learn_priors),
            learn_likelihood=learn,
            free=free,
            free_bias=True,
            dtype=precision(self.dtype),
            on_iteration=iteration_callback(self),
            patience=self.n_iter_no_change if self.early_stopping and self.validation_fraction is None else None,
            divergence_groups=groups if self.kl_weights == "normalised" else None,
        )

    def _optimise(
        self,
        machine: Machine,
        data: TrainingRows,
        plan: FitOptions,
        units: tuple[float, float],
        rng: np.random.Generator,
        before: Machine | None = None,
    ) -> Self:
        stopping = None
        if self.early_stopping and self.validation_fraction is not None:
            stratify = None if not hasattr(self, "link") else data.y
            seed = int(rng.integers(2**31))
            kept, held_out = train_test_split(
                np.arange(data.y.size), test_size=self.validation_fraction, random_state=seed, stratify=stratify
            )
            stopping = _EarlyStopping(data.take(held_out), self._loss, self.n_iter_no_change)
            data, plan = data.take(np.sort(kept)), replace(plan, stop=stopping)
        plan = replace(plan, fitted=lambda machine: self._snapshot(machine, units))
        with limited_threads(None if self.n_jobs is None else effective_n_jobs(self.n_jobs)):
            last, average, bounds, converged = self._run(machine, data, plan, rng)
        best = stopping.best if stopping is not None and stopping.best is not None else average
        if before is not None:
            # Priors stay those of the first fit.
            best, last = (
                replace(m, bias_prior=before.bias_prior, prior=before.prior, hyper_prior=True) for m in (best, last)
            )
        losses = [] if stopping is None else stopping.losses
        return self._store(best, last, units, bounds, data.weight.sum(), losses, converged=converged)

    def _store(
        self,
        best: Machine,
        last: Machine,
        units: tuple[float, float],
        bounds: list[float],
        total_weight: float,
        losses: Sequence[float] = (),
        *,
        converged: bool,
    ) -> Self:
        """Set the attributes of a fit."""
        self.posterior_ = FMPosterior(best, last, *units)
        self.lower_bounds_ = np.array(bounds) - total_weight * np.log(units[1])
        self.lower_bound_, self.n_iter_, self.converged_ = float(self.lower_bounds_[-1]), len(bounds), converged
        self.validation_losses_ = np.array(losses, dtype=np.float64)
        return self

    def _check_fitted(self) -> None:
        """Raise DataError unless the fitted attributes fit together."""
        check_types(self, posterior_=FMPosterior, lower_bound_=float, validation_losses_=np.ndarray)
        posterior = self.posterior_
        width, n_groups = posterior.machine.mean.shape[0], posterior.machine.prior.nu.shape[0]
        require(self._n_features() == width, self, "n_features_in_", f"must be {width}")
        require(np.shape(self.groups_) == (n_groups,), self, "groups_", f"must be {n_groups} labels")
        require(check_arrays(self, lower_bounds_="n")["n"] >= 1, self, "lower_bounds_", "are missing")
        require(is_count(self.n_iter_), self, "n_iter_", "must be a whole number")
        check_indices(self, "_one_hot_groups", self._one_hot_groups, 0, n_groups)
        columns = np.bincount(posterior.machine.prior.group, minlength=n_groups)[self._one_hot_groups]
        require((columns > 1).all(), self, "_one_hot_groups", "names a group of fewer than two columns")
        likelihood = posterior.machine.likelihood
        require(isinstance(likelihood, self._likelihoods), self, "posterior_", "has another likelihood")
        if not isinstance(self, RegressorMixin):
            n_labels = likelihood.n_levels if isinstance(likelihood, OrdinalProbit) else 2
            require(np.shape(self.classes_) == (n_labels,), self, "classes_", f"must be {n_labels} labels")
            unit = (posterior.offset, posterior.scale) == (0.0, 1.0)
            require(unit, self, "posterior_", "must have the units 0 and 1 of a classifier")

    def _n_features(self) -> Any:
        """Return the number of features of the machine."""
        return self.n_features_in_

    def _snapshot(self, machine: Machine, units: tuple[float, float]) -> Self:
        """Return a copy fitted by a machine so far."""
        other = copy(self)
        other.posterior_ = FMPosterior(machine, machine, *units)
        return other

    def _run(
        self, machine: Machine, data: TrainingRows, plan: FitOptions, rng: np.random.Generator
    ) -> tuple[Machine, Machine, list[float], bool]:
        if self.batch_size is None and self.n_samples == 0:
            last, bounds, converged = coordinate_ascent(
                machine.with_posterior(full=self.posterior == "full"), data.merged(), plan
            )
            return last, last, bounds, converged
        n = data.y.size
        if self.batch_size is not None and self.batch_size > n:
            msg = f"batch_size={self.batch_size} is more than the {n} rows; a batch has all of them."
            warn(msg, DataWarning)
        settings = min(self.batch_size or n, n), float(self.learning_rate), int(self.n_samples)
        last, average, bounds, converged = adam_ascent(machine.with_posterior(full=False), data, plan, settings, rng)
        return last, average if self.average else last, bounds, converged

    def _loss(self, machine: Machine, data: TrainingRows) -> float:
        mu, v = machine.moments(compressed(data.X))
        return self._loss_of(data.y, mu, v, data.weight)

    # ------------------------------------------------------------- predicting

    def latent_mean_and_variance(self, X: MatrixLike) -> tuple[Array, Array]:
        """Return the posterior mean and variance of y(x), without noise or link.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, n_features)
            Features. A column without training entries has the prior of its group, with its larger variance. If every
            training row has a one in a group, a row of zeros there gives a warning, because it leaves out an unknown
            id.

        Returns
        -------
        mean, variance : ndarray of shape (n,)
            Posterior mean and variance of each row's y(x).
        """
        X = self._features(X)
        return self.posterior_.moments(X)

    def latent_covariance(self, X: MatrixLike) -> Array:
        """Return the posterior covariance of y(x) between rows, without noise or link.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, n_features)
            Features. The result has n^2 numbers, so pass few rows.

        Returns
        -------
        ndarray of shape (n, n)
            Posterior covariance matrix.
        """
        X = self._features(X)
        return self.posterior_.covariance(X)

    # ------------------------------------------------------------- attributes

    @property
    def intercept_(self) -> float:
        """Posterior mean of w_0."""
        check_is_fitted(self)
        return self.posterior_.offset + self.posterior_.scale * self.posterior_.machine.bias.mean

    @property
    def weights_(self) -> Array:
        """Posterior means of the weights w, shape (n_features,)."""
        return self._parameters(self._machine.mean)[0]

    @property
    def weights_std_(self) -> Array:
        """Posterior standard deviations of the weights, shape (n_features,)."""
        return self._parameters(np.sqrt(self._machine.variances))[0]

    @property
    def factors_(self) -> Array:
        """Posterior means of the factors V, shape (n_features, n_factors)."""
        return self._parameters(self._machine.mean)[1]

    @property
    def factors_std_(self) -> Array:
        """Posterior standard deviations of the factors, shape (n_features, n_factors)."""
        return self._parameters(np.sqrt(self._machine.variances))[1]

    @property
    def group_priors_(self) -> dict[Any, dict[str, Any]]:
        """Means and standard deviations of the priors of the weight and of each factor, by group label."""
        nu, lam, _ = self._machine.prior
        (w_mean, v_mean), (w_std, v_std) = self._parameters(nu), self._parameters(1.0 / np.sqrt(lam))
        return {
            label: {
                "weight_mean": float(w_mean[g]),
                "weight_std": float(w_std[g]),
                "factor_means": v_mean[g],
                "factor_stds": v_std[g],
            }
            for g, label in enumerate(self.groups_.tolist())
        }

    @property
    def _machine(self) -> Machine:
        check_is_fitted(self)
        return self.posterior_.machine

    def _parameters(self, table: Array) -> tuple[Array, Array]:
        """Return weights and factors in units of y; a product of two factors has the unit of y."""
        scale = self.posterior_.scale
        return scale * table[:, 0], np.sqrt(scale) * table[:, 1:]


def checked_features(X: Features) -> Features:
    """Return X as CSR without explicit zeros and duplicates; the input is not changed."""
    X = canonical(sparse.csr_array(X))
    if np.abs(X.data).max(initial=0.0) > _LARGEST:
        row = int(np.searchsorted(X.indptr, np.argmax(np.abs(X.data)), side="right")) - 1
        largest = np.abs(X.data).max()
        raise DataError(f"overflow in interactions; scale X: row {row} holds values up to {largest:g}.")
    return X
