"""The factorization machine: constructor, input, fitting, updates, attributes (docs/maths section 9)."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import closing
from copy import copy
from dataclasses import KW_ONLY, dataclass, replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, NamedTuple, Self, cast

import numpy as np
from joblib import effective_n_jobs
from scipy import sparse
from sklearn.base import RegressorMixin, clone
from sklearn.model_selection import train_test_split
from sklearn.utils import validation
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from skpref._callbacks import CallbackMixin, fit_callbacks, fit_context
from skpref._checks import check_types, require
from skpref._compiled.fm_fields import one_hot_ranges
from skpref._compiled.jit import limited_threads
from skpref._estimator import check_n_samples, iteration_callback, precision, token_of_content, unchanged_on_failure
from skpref._math.random import as_generator
from skpref._sources import as_source, feature_columns, is_elsewhere, refuse_parameters
from skpref._validation import check_array, validate_data
from skpref._warn import warn
from skpref.data.ids import shorten
from skpref.data.levels import check_labels
from skpref.data.shards import design_of_shards, read_rows, row_columns
from skpref.data.stored import is_stored
from skpref.data.tables import canonical, unique_rows
from skpref.data.weights import class_weights, read_weights, refuse_balanced
from skpref.exceptions import DataError, DataWarning
from skpref.factorization.machine.fields import find_absent_groups, one_hot_groups
from skpref.factorization.machine.fit import FitOptions, ascend, coordinate_ascent
from skpref.factorization.machine.fit_batches import adam_ascent
from skpref.factorization.machine.model import Prior, compress, start_for_squares, start_machine
from skpref.factorization.machine.posterior import FMFitted, FMPosterior
from skpref.factorization.machine.sharded import ShardedSweep, sharded_rows
from skpref.factorization.policy import POLICY
from skpref.settings import HasSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from numpy.typing import ArrayLike, DTypeLike, NDArray
    from sklearn.utils import Tags

    from skpref._sources import Source
    from skpref._typing import Array, Features, IntArray, MatrixLike, RandomState, Stored
    from skpref.data.design import ColumnDesign
    from skpref.data.shards import RowColumns, RowSummary
    from skpref.factorization.machine.heads import ClassHead, Head, LevelHead
    from skpref.factorization.machine.model import Machine
    from skpref.inference.shards import Shards

CONSTRAINTS: Final[dict[str, list[Any]]] = {
    "n_factors": [Interval(Integral, 0, None, closed="left")],
    "groups": ["array-like", None],
    "categorical_features": ["array-like", str, None],
    "posterior": [StrOptions({"full", "factorised"})],
    "learn_priors": ["boolean"],
    "batch_size": [Interval(Integral, 1, None, closed="left"), None],
    "max_iter": [Interval(Integral, 1, None, closed="left")],
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


class TrainingRows(NamedTuple):
    """Rows of positive weight."""

    X: Features  # canonical CSR
    y: Array  # standardised
    weight: Array

    def take(self, rows: IntArray) -> TrainingRows:
        """Return some rows."""
        return TrainingRows(self.X[rows], self.y[rows], self.weight[rows])

    def merge_repeats(self) -> TrainingRows:
        """Return each distinct row once with the sum of its weights if most rows are repeated, else all rows."""
        probe = self.take(np.linspace(0, self.y.size - 1, min(self.y.size, POLICY.probe_rows)).astype(np.int64))
        if probe.number_rows()[0].size > probe.y.size / 2:
            return self
        first, number = self.number_rows()
        rows = self.take(first)
        return rows._replace(weight=np.bincount(number, self.weight, first.size).astype(np.float64, copy=False))

    def number_rows(self) -> tuple[IntArray, IntArray]:
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


@dataclass(eq=False, repr=False)
class FactorizationMachine(CallbackMixin, HasSettings):
    """The factorization machine; a subclass gives the head of its targets, and predictions of them."""

    n_factors: int = 5
    _: KW_ONLY
    groups: ArrayLike | None = None
    categorical_features: Sequence[str] | str | None = None
    posterior: Literal["full", "factorised"] = "full"
    learn_priors: bool = True
    batch_size: int | None = None
    max_iter: int = 100
    learning_rate: float = 0.02
    average: bool = True
    n_samples: int = 0
    kl_weights: Literal["unbiased", "normalised"] = "unbiased"
    early_stopping: bool = False
    validation_fraction: float | None = 0.1
    n_iter_no_change: int = 10
    tol: float = 1e-5
    dtype: DTypeLike = "float64"
    n_jobs: int | None = None
    warm_start: bool = False
    verbose: int = 0
    random_state: RandomState = None

    _takes_collections: ClassVar[bool] = True
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = CONSTRAINTS

    @property
    @abstractmethod
    def _head(self) -> Head:
        """How targets are read."""

    __dask_tokenize__ = token_of_content

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # ---------------------------------------------------------------- fitting

    @fit_context
    def fit(
        self, X: MatrixLike | Stored, y: ArrayLike | str | None = None, sample_weight: ArrayLike | str | None = None
    ) -> Self:
        """Fit the model.

        Files are read once. Their rows are written to the folder for temporary files, and a part of them is in memory
        at a time. The result is that of the same features in memory, up to rounding errors. Other methods then take
        rows in memory with the columns of the files. An id that is not in the files has the prior of its column.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, n_features), str, Path, Dataset or collection
            Features. Sparse input stays sparse. Or a Parquet file, a folder of them, or a dataset: all columns except y
            and the weights are features, ids or numbers (see `categorical_features`).
            Or a frame or array of Dask: `y` and `sample_weight` are then columns of it by name, or collections with the
            same partitions.
        y : array-like of shape (n,) or str, default=None
            Targets; with files, the name of the column, "y" by default. `VariationalFM` takes numbers,
            `VariationalFMClassifier` labels of two classes, `VariationalFMOrdinal` ordered labels: numbers with
            fractions, such as half stars, are levels if they are at most 100, and with files only rows of positive
            weight define levels.
        sample_weight : array-like of shape (n,) or str, default=None
            Weights of the rows; with files, the name of the column. A weight of 2 is the same as passing the row twice.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        ValueError
            If X, y or the weights are invalid; if y has other than two classes, fewer than two levels, a level that is
            not in `class_order`, or strings without `class_order`; if files lack a column or have no rows, or if a
            parameter needs rows in memory.
        """
        with fit_callbacks(self, X, y, sample_weight), unchanged_on_failure(self):
            if is_elsewhere(X):
                return self._fit_source(as_source(X, y, sample_weight))
            return self._fit_rows(X, y, None, sample_weight)

    def _fit_rows(self, X: Any, y: Any, classes: Any, sample_weight: Any, *, stream: bool = False) -> Self:
        """Fit to rows in memory, all or the first of a stream."""
        X, labels = self._read(X, y, reset=True)
        sample_weight = class_weights(self._class_weight, labels, sample_weight)
        used, weight = _read_used_rows(X.shape[0], sample_weight)
        values, classes = self._head.read(labels, used, classes, y)
        X = X if sample_weight is None else X[used]
        groups, code = self._feature_groups(X)
        old = self._find_start(classes, X.shape[1])
        units = self._head.units(values, weight) if old is None else (old.posterior.offset, old.posterior.scale)
        data = TrainingRows(X, (values - units[0]) / units[1], weight)
        draws = self._needs_chain(data, stream=stream)
        rng = as_generator(self.random_state)
        if old is not None and np.array_equal(code, old.posterior.machine.prior.group):
            machine = old.posterior.last
        else:
            likelihood = self._head.start(values, weight, classes)
            machine = start_machine(compress(X), weight, code, int(self.n_factors), likelihood, rng)
        start = FMFitted(FMPosterior(machine, machine, *units), groups, one_hot_groups(X, code), classes)
        plan = self._plan(np.ones(code.size, dtype=bool), code, learn=True)
        if draws:
            plan = replace(plan, max_iter=min(plan.max_iter, POLICY.passes_before_chain))
        self._optimise(start, machine, data, plan, rng)
        if draws:
            self._sample(data)
        return self

    @property
    def _class_weight(self) -> Any:
        return getattr(self, "class_weight", None)  # regressors have none

    def _needs_chain(self, data: TrainingRows, *, stream: bool) -> bool:  # noqa: ARG002 - of the levels' machine
        """Return whether a chain follows the variational fit."""
        return False

    def _sample(self, data: TrainingRows) -> None:
        """Replace the variational posterior by draws of a chain."""

    def _find_start(self, classes: Any, n_features: int, design: ColumnDesign | None = None) -> FMFitted | None:
        """Return the last fit if `warm_start` is on and it has this shape, these classes and this design."""
        old: FMFitted | None = getattr(self, "fitted_", None)
        if old is None or not self.warm_start or old.posterior.machine.mean.shape != (n_features, 1 + self.n_factors):
            return None
        if design is not None and not design.same_as(old.design):
            return None
        return old if classes is None or old.list_classes() == classes.tolist() else None

    def _partial_fit(self, X: Any, y: Any, classes: Any, sample_weight: Any, freeze: Any) -> Self:
        """Update the posterior with more rows; the present posterior is the prior."""
        refuse_balanced(self._class_weight)
        with unchanged_on_failure(self):
            if not hasattr(self, "fitted_"):
                return self._fit_rows(X, y, classes, sample_weight, stream=True)
            record, old = self.fitted_, self.fitted_.posterior
            if (
                classes is not None
                and (given := cast("ClassHead | LevelHead", self._head).list_classes(classes)) != record.list_classes()
            ):
                msg = f"classes must be those of the first call, {record.list_classes()}; got {given!r:.200}"
                raise DataError(f"{msg}. To change them, call fit with all rows.")
            X, labels = self._read(X, y)
            sample_weight = class_weights(self._class_weight, labels, sample_weight)
            used, weight = _read_used_rows(X.shape[0], sample_weight)
            values = self._head.encode(labels, used, record.classes)
            data = TrainingRows(X if sample_weight is None else X[used], (values - old.offset) / old.scale, weight)
            fitted_factors = old.machine.mean.shape[1] - 1
            if self.n_factors != fitted_factors:
                msg = f"n_factors is {self.n_factors}, but the model was fitted with {fitted_factors}; set n_factors"
                raise DataError(f"{msg} back, or call fit with all rows.")
            before = old.machine if old.sampled is None else old.last
            group, labels = before.prior.group, self.groups_.tolist()
            frozen = np.atleast_1d(np.asarray([] if freeze is None else freeze, dtype=object))
            unknown = [label for label in frozen.tolist() if label not in labels]
            if unknown:
                raise DataError(f"freeze names group {unknown[0]!r}, which is not one of {labels}.")
            free = ~np.isin(group, np.flatnonzero([label in frozen for label in labels]))
            lam = np.asarray(np.linalg.inv(before.variance), np.float64) if before.full else 1.0 / before.variance
            prior = Prior(before.mean, lam, np.arange(free.size))
            plan = replace(self._plan(free, group, learn=False), free_bias=frozen.size == 0)
            machine = replace(before, bias_prior=before.bias, prior=prior, hyper_prior=False)
            self._optimise(record, machine, data, plan, as_generator(self.random_state), before)
        return self

    def _plan(self, free: NDArray[np.bool_], groups: IntArray, *, learn: bool) -> FitOptions:
        return FitOptions(
            max_iter=self.max_iter,
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
        start: FMFitted,
        machine: Machine,
        data: TrainingRows,
        plan: FitOptions,
        rng: np.random.Generator,
        before: Machine | None = None,
    ) -> None:
        """Fit a machine to rows in memory; `before` has the priors that an update restores."""
        stopping = None
        if self.early_stopping and self.validation_fraction is not None:
            kept, held_out = train_test_split(
                np.arange(data.y.size),
                test_size=self.validation_fraction,
                random_state=int(rng.integers(2**31)),
                stratify=data.y if self._head.stratified else None,
            )
            stopping = _EarlyStopping(data.take(held_out), self._loss, self.n_iter_no_change)
            data, plan = data.take(np.sort(kept)), replace(plan, stop=stopping)
        plan = replace(plan, fitted=lambda machine: self._snapshot(start.replace_machines(machine, machine)))
        with self._limit_threads():
            last, average, bounds, converged = self._run(machine, data, plan, rng)
        best = stopping.best if stopping is not None and stopping.best is not None else average
        if before is not None:
            # Priors stay those of the first fit.
            best, last = (
                replace(m, bias_prior=before.bias_prior, prior=before.prior, hyper_prior=True) for m in (best, last)
            )
        losses = [] if stopping is None else stopping.losses
        self.fitted_ = start.finish(best, last, bounds, data.weight.sum(), losses, converged=converged)

    def _snapshot(self, fitted: FMFitted) -> Self:
        """Return a copy with what the fit has learnt so far."""
        other = copy(self)
        other.fitted_ = fitted
        return other

    def _limit_threads(self) -> AbstractContextManager[None]:
        return limited_threads(None if self.n_jobs is None else effective_n_jobs(self.n_jobs))

    def _run(
        self, machine: Machine, data: TrainingRows, plan: FitOptions, rng: np.random.Generator
    ) -> tuple[Machine, Machine, list[float], bool]:
        if self.batch_size is None and self.n_samples == 0:
            last, bounds, converged = coordinate_ascent(
                machine.convert_posterior(full=self.posterior == "full"), data.merge_repeats(), plan
            )
            return last, last, bounds, converged
        n = data.y.size
        if self.batch_size is not None and self.batch_size > n:
            msg = f"batch_size={self.batch_size} is more than the {n} rows; a batch has all of them."
            warn(msg, DataWarning)
        settings = min(self.batch_size or n, n), float(self.learning_rate), int(self.n_samples)
        last, average, bounds, converged = adam_ascent(machine.convert_posterior(full=False), data, plan, settings, rng)
        return last, average if self.average else last, bounds, converged

    def _loss(self, machine: Machine, data: TrainingRows) -> float:
        mu, v = machine.moments(compress(data.X))
        return self._head.loss(machine.likelihood, data.y, mu, v, data.weight)

    # ---------------------------------------------------------- files and collections

    def _fit_source(self, source: Source) -> Self:
        """Fit to files or a collection."""
        self._check_sums_suffice()
        rows, names = feature_columns(source)
        if isinstance(names, int):
            raise DataError("X must be a frame of Dask, whose columns have names; got an array")
        columns = row_columns(source.schema(names), names, self.categorical_features)
        shards, summaries, kept = rows.keep(read_rows, columns, not isinstance(self, RegressorMixin))
        del rows  # with it the memory of partitions goes
        with closing(shards):
            return self._fit_shards(shards, summaries, kept, columns)

    def _check_sums_suffice(self) -> None:
        """Refuse settings that need the rows themselves."""
        reasons: dict[str, bool] = {
            f"groups={type(self.groups).__name__}": self.groups is not None,
            f"posterior={self.posterior!r}": self.posterior != "full",
            f"batch_size={self.batch_size!r}": self.batch_size is not None,
            f"n_samples={self.n_samples!r}": self.n_samples > 0,
            "early_stopping=True": self.early_stopping,
            "inference='gibbs'": getattr(self, "inference", None) == "gibbs",
            f"class_weight={self._class_weight!r}": self._class_weight is not None,
        }
        refuse_parameters(
            reasons,
            "by coordinate ascent of the full posterior, and each column is a group: leave this parameter at its "
            "default",
        )

    def _fit_shards(self, shards: Shards, summaries: list[RowSummary], rows: list[Any], columns: RowColumns) -> Self:
        """Fit to rows in shards, given their summaries and handles on the rows."""
        for number in reversed([k for k, summary in enumerate(summaries) if not summary.n_rows]):
            del summaries[number], rows[number]
        design, places = design_of_shards(columns, summaries)
        likelihood, labels, classes = self._head.start_of_shards(summaries)
        old = self._find_start(classes, int(design.starts[-1]), design)
        units = (
            self._head.units_of_shards(shards, summaries, rows)
            if old is None
            else (old.posterior.offset, old.posterior.scale)
        )
        width = 1 + int(self.n_factors)
        sharded = sharded_rows(shards, rows, places, summaries, design, (*units, labels), width)
        rows.clear()  # with the handles their files go
        rng, squares = as_generator(self.random_state), sum(summary.squares for summary in summaries)
        squared, group = squares / sharded.total_weight, design.groups
        machine = start_for_squares(squared, group, width - 1, likelihood, rng) if old is None else old.posterior.last
        names = np.array(design.names, dtype=object)
        self.n_features_in_, self.feature_names_in_ = names.size, names
        columns_of_ids = np.flatnonzero([ids is not None for ids in design.ids])
        start = FMFitted(FMPosterior(machine, machine, *units), names, columns_of_ids, classes, design)
        plan = self._plan(np.ones(group.size, dtype=bool), group, learn=True)
        plan = replace(plan, fitted=lambda machine: self._snapshot(start.replace_machines(machine, machine)))
        with self._limit_threads():
            machine = machine.convert_posterior(full=True)
            last, bounds, converged = ascend(machine, ShardedSweep(sharded, machine, plan), plan)
        self.fitted_ = start.finish(last, last, bounds, sharded.total_weight, converged=converged)
        return self

    # ------------------------------------------------------------- rows in memory

    def _validate_rows(self, X: Any, y: Any, *, reset: bool = False) -> tuple[Features, NDArray[Any]]:
        numeric = isinstance(self, RegressorMixin)
        labels = y if numeric else check_labels(y)
        X, y = validate_data(self, X, labels, accept_sparse="csr", dtype=np.float64, y_numeric=numeric, reset=reset)
        return canonical_features(X), y

    def _read(self, X: Any, y: Any, *, reset: bool = False) -> tuple[Features, NDArray[Any]]:
        if reset and self.categorical_features is not None:
            raise DataError(
                "categorical_features names columns of files; in memory X holds numbers: encode ids by "
                "OneHotDesign or OneHotEncoder, or write X to a Parquet file"
            )
        if reset or self.design_ is None:
            return self._validate_rows(X, y, reset=reset)
        # The checks of another estimator: this one has the columns of the files.
        return clone(self)._validate_rows(self._encode(X), y, reset=True)  # noqa: SLF001

    def _features(self, X: Any) -> Features:
        if self.design_ is not None:
            return self._encode(X)
        X = canonical_features(validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False))
        self._warn_of_zeros(X)
        return X

    def _encode(self, X: Any) -> Features:
        """Return rows in memory as the features of the files' columns; a sparse matrix holds these features already."""
        design = self.fitted_.design
        assert design is not None  # noqa: S101 - asked by the caller
        if sparse.issparse(X):
            width = int(design.starts[-1])
            if X.shape[1] != width:
                raise DataError(f"a sparse X must hold the {width} features of design_; got {X.shape[1]} columns")
            return canonical_features(check_array(X, accept_sparse="csr", dtype=np.float64))
        if not is_stored(X):
            validation.validate_data(self, X, reset=False, skip_check_array=True)
        return design.transform(X)

    def _warn_of_zeros(self, X: Features) -> None:
        """Warn of rows that lack the one which all training rows have in a group: an unknown id, in most cases."""
        fitted = self.fitted_
        absent = find_absent_groups(X, fitted.posterior.machine.prior.group, fitted.one_hot_groups)
        for row, g in np.argwhere(absent)[:1].tolist():
            label, others = fitted.groups[fitted.one_hot_groups[g]], int(absent.any(axis=1).sum()) - 1
            msg = (
                f"row {row} (and {others} more) has a column of zeros where a known group should be: all columns of "
                f"group {shorten(label)} are 0, and every training row has a 1 there. An unknown id that was encoded "
                "so is left out of the prediction and its uncertainty; OneHotDesign has a column for unseen ids."
            )
            warn(msg, DataWarning)

    def _feature_groups(self, X: Features) -> tuple[NDArray[Any], IntArray]:
        """Return the labels of the groups, and the group of each feature, shape (n_features,)."""
        if self.groups is None:
            if X.shape[1] == 2 and not np.any(X.data % 1.0) and min(np.unique(c).size for c in X.toarray().T) > 20:
                warn("X has two columns of whole numbers. If they are ids, put OneHotDesign() before this estimator.")
            fields = one_hot_ranges(compress(X), X.shape[1])
            one_hot = 1 < fields.size - 1 < X.shape[1] and bool(np.all(np.diff(X.indptr) == fields.size - 1))
            code = np.repeat(np.arange(fields.size - 1), np.diff(fields)) if one_hot else np.zeros(X.shape[1], int)
            return np.arange(code[-1] + 1), code
        groups = np.asarray(self.groups)
        if groups.shape != (X.shape[1],):
            raise DataError(f"groups must name the group of each of {X.shape[1]} features; got shape {groups.shape}.")
        labels, code = np.unique(groups, return_inverse=True)
        return labels, code.astype(np.int64)

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

    def sample_y(self, X: MatrixLike, n_samples: int = 1, random_state: RandomState = 0) -> NDArray[Any]:
        """Draw targets from the predictive distribution; a draw has the same parameters in all rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, n_features)
            Features.
        n_samples : int, default=1
            Number of draws.
        random_state : int, RandomState, Generator or None, default=0
            Seed.

        Returns
        -------
        ndarray of shape (n, n_samples)
            Targets: numbers, including noise, or labels from `classes_`.
        """
        X = self._features(X)
        check_n_samples(n_samples)
        rng, fitted = as_generator(random_state), self.fitted_
        drawn = self._head.draw(fitted.posterior, fitted.posterior.draws(X, n_samples, rng), rng)
        return drawn if fitted.classes is None else fitted.classes[drawn]

    # ------------------------------------------------------------- attributes

    @property
    def _learnt(self) -> FMFitted:
        check_is_fitted(self, "fitted_")
        return self.fitted_

    @property
    def posterior_(self) -> FMPosterior:
        """Posterior of all parameters."""
        return self._learnt.posterior

    @property
    def groups_(self) -> NDArray[Any]:
        """Labels of the groups."""
        return self._learnt.groups

    @property
    def design_(self) -> ColumnDesign | None:
        """How columns of files become features; None after a fit to data in memory."""
        return self._learnt.design

    @property
    def lower_bounds_(self) -> Array:
        """Evidence lower bound after each pass."""
        return self._learnt.lower_bounds

    @property
    def lower_bound_(self) -> float:
        """The last of `lower_bounds_`."""
        return float(self._learnt.lower_bounds[-1])

    @property
    def n_iter_(self) -> int:
        """Number of passes."""
        return self._learnt.lower_bounds.size

    @property
    def converged_(self) -> bool:
        """Whether the fit ended before `max_iter` because the bound no longer rose."""
        return self._learnt.converged

    @property
    def validation_losses_(self) -> Array:
        """Loss of the rows held out after each pass, with `early_stopping`."""
        return self._learnt.validation_losses

    @property
    def intercept_(self) -> float:
        """Posterior mean of w_0."""
        posterior = self._learnt.posterior
        return posterior.offset + posterior.scale * posterior.machine.bias.mean

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
    def feature_importances_(self) -> Array:
        """Variance that each feature adds, interactions included, if all have mean 0 and variance 1, (n_features,)."""
        weights, factors = self._parameters(self._machine.mean)
        own = np.sum(factors**2, axis=1)
        return weights**2 + np.maximum(np.sum((factors @ (factors.T @ factors)) * factors, axis=1) - own**2, 0.0)

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
        return self._learnt.posterior.machine

    def _parameters(self, table: Array) -> tuple[Array, Array]:
        """Return weights and factors in units of y; a product of two factors has the unit of y."""
        scale = self.posterior_.scale
        return scale * table[:, 0], np.sqrt(scale) * table[:, 1:]

    def _check_fitted(self) -> None:
        """Raise DataError unless what the fit has learnt belongs to this class."""
        check_types(self, fitted_=FMFitted)
        fitted = self.fitted_
        design, width = fitted.design, fitted.posterior.machine.mean.shape[0]
        n_columns = width if design is None else len(design.names)
        require(self.n_features_in_ == n_columns, self, "n_features_in_", f"must be {n_columns}")
        sound = isinstance(fitted.posterior.machine.likelihood, self._head.likelihoods)
        require(sound, self, "fitted_", "has another likelihood")


def _read_used_rows(n_rows: int, sample_weight: Any) -> tuple[Any, Array]:
    """Return an index of the rows of positive weight, and their weights."""
    weight = read_weights(sample_weight, n_rows)
    if sample_weight is None:
        return slice(None), weight
    used = np.flatnonzero(weight)
    if not used.size:
        raise DataError("at least 1 row of positive weight is required; every sample_weight is zero.")
    return used, weight[used]


def canonical_features(X: Features) -> Features:
    """Return X as CSR without explicit zeros and duplicates; the input is not changed."""
    X = canonical(sparse.csr_array(X))
    if np.abs(X.data).max(initial=0.0) > _LARGEST:
        row = int(np.searchsorted(X.indptr, np.argmax(np.abs(X.data)), side="right")) - 1
        largest = np.abs(X.data).max()
        raise DataError(f"overflow in interactions; scale X: row {row} holds values up to {largest:g}.")
    return X
