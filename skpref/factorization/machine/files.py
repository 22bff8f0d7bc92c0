"""Factorization machines that are fitted to rows in files: columns of ids and of numbers."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from joblib import effective_n_jobs
from scipy import sparse
from sklearn.base import RegressorMixin, clone
from sklearn.utils import validation
from sklearn.utils.validation import check_is_fitted

from skpref._checks import check_types, require
from skpref._compiled.jit import limited_threads
from skpref._math.random import as_generator
from skpref._sources import feature_columns, refuse_parameters
from skpref._validation import check_array
from skpref.data.design import ColumnDesign
from skpref.data.shards import design_of_shards, read_rows, row_columns
from skpref.data.stored import is_stored
from skpref.exceptions import DataError
from skpref.factorization.machine.base import FMBase, checked_features
from skpref.factorization.machine.fit import ascend
from skpref.factorization.machine.model import start_for_squares
from skpref.factorization.machine.posterior import FMPosterior
from skpref.factorization.machine.sharded import ShardedSweep, sharded_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from skpref._sources import Source
    from skpref._typing import Features
    from skpref.data.shards import RowColumns, RowSummary
    from skpref.factorization.machine.model import Machine
    from skpref.factorization.machine.sharded import ShardedRows
    from skpref.inference.shards import Shards
    from skpref.likelihoods import Likelihood


class FMFiles(FMBase):
    """A factorization machine that takes rows in files as well as rows in memory."""

    _takes_collections: ClassVar[bool] = True
    categorical_features: Any
    _column_design: ColumnDesign | None

    @property
    def design_(self) -> ColumnDesign | None:
        """How columns of files become features; None after a fit to data in memory."""
        check_is_fitted(self, "posterior_")
        return self._design

    @property
    def _design(self) -> ColumnDesign | None:
        return getattr(self, "_column_design", None)

    # ---------------------------------------------------------------- fitting
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
        }
        refuse_parameters(
            reasons,
            "by coordinate ascent of the full posterior, and each column is a group: leave this parameter at its "
            "default",
        )

    def _fit_shards(self, shards: Shards, summaries: list[RowSummary], rows: list[Any], columns: RowColumns) -> Self:
        """Fit to rows in shards: summaries of them, and handles."""
        for number in reversed([k for k, summary in enumerate(summaries) if not summary.n_rows]):
            del summaries[number], rows[number]
        design, places = design_of_shards(columns, summaries)
        old, old_classes = self._last_of(design), self._classes()
        likelihood, labels = self._start_of_shards(summaries)
        warm = old if self._classes() == old_classes else None
        units = self._units_of_shards(shards, summaries, rows) if warm is None else (warm.offset, warm.scale)
        width = 1 + int(self.n_factors)
        sharded = sharded_rows(shards, rows, places, summaries, design, (*units, labels), width)
        rows.clear()  # with the handles their files go
        rng, squares = as_generator(self.random_state), sum(summary.squares for summary in summaries)
        squared = squares / sharded.total_weight
        start = start_for_squares(squared, design.groups, width - 1, likelihood, rng) if warm is None else warm.last
        self._column_design, self.groups_ = design, np.array(design.names, dtype=object)
        self.n_features_in_, self.feature_names_in_ = len(design.names), np.array(design.names, dtype=object)
        self._one_hot_groups = np.flatnonzero([ids is not None for ids in design.ids])
        return self._ascend_shards(start, sharded, units)

    def _last_of(self, design: ColumnDesign) -> FMPosterior | None:
        """Return the last fit if `warm_start` is on, and it has these features."""
        old = getattr(self, "posterior_", None)
        if old is None or not self.warm_start or not design.same_as(self._design):
            return None
        return old if old.machine.mean.shape[1] == 1 + self.n_factors else None

    def _classes(self) -> list[Any]:
        return list(getattr(self, "classes_", np.empty(0)).tolist())

    def _ascend_shards(self, machine: Machine, rows: ShardedRows, units: tuple[float, float]) -> Self:
        group = machine.prior.group
        plan = self._plan(np.ones(group.size, dtype=bool), group, learn=True)
        plan = replace(plan, fitted=lambda machine: self._snapshot(machine, units))
        with limited_threads(None if self.n_jobs is None else effective_n_jobs(self.n_jobs)):
            machine = machine.with_posterior(full=True)
            last, bounds, converged = ascend(machine, ShardedSweep(rows, machine, plan), plan)
        return self._store(last, last, units, bounds, rows.total_weight, converged=converged)

    @abstractmethod
    def _start_of_shards(self, summaries: Sequence[RowSummary]) -> tuple[Likelihood, list[Any]]:
        """Return the likelihood at the start, and the target of each distinct label of each shard."""

    def _units_of_shards(
        self, shards: Shards, summaries: Sequence[RowSummary], rows: Sequence[Any]
    ) -> tuple[float, float]:
        """Return offset and scale of the targets; labels have the units 0 and 1."""
        del shards, summaries, rows
        return 0.0, 1.0

    # ------------------------------------------------------------- rows in memory
    def _read(self, X: Any, y: Any, *, reset: bool = False) -> tuple[Features, NDArray[Any]]:
        if reset:
            if self.categorical_features is not None:
                raise DataError(
                    "categorical_features names columns of files; in memory X holds numbers: encode ids by "
                    "OneHotDesign or OneHotEncoder, or write X to a Parquet file"
                )
            self._column_design = None
            return super()._read(X, y, reset=True)
        if self._design is None:
            return super()._read(X, y)
        # The checks of another estimator: this one has the columns of the files.
        return FMBase._read(clone(self).set_params(categorical_features=None), self._encoded(X), y, reset=True)  # noqa: SLF001

    def _features(self, X: Any) -> Features:
        check_is_fitted(self)
        return super()._features(X) if self._design is None else self._encoded(X)

    def _encoded(self, X: Any) -> Features:
        """Return rows in memory as the features of the files' columns; a sparse matrix holds these features already."""
        assert self._design is not None  # noqa: S101 - asked by the caller
        if sparse.issparse(X):
            width = int(self._design.starts[-1])
            if X.shape[1] != width:
                raise DataError(f"a sparse X must hold the {width} features of design_; got {X.shape[1]} columns")
            return checked_features(check_array(X, accept_sparse="csr", dtype=np.float64))
        if not is_stored(X):
            validation.validate_data(self, X, reset=False, skip_check_array=True)
        return self._design.transform(X)

    def _check_fitted(self) -> None:
        if self._design is not None:
            check_types(self, _column_design=ColumnDesign, posterior_=FMPosterior)
            group = self.posterior_.machine.prior.group
            require(np.array_equal(group, self._design.groups), self, "_column_design", "has other features")
            require(self.n_features_in_ == len(self._design.names), self, "n_features_in_", "must count the columns")
        super()._check_fitted()

    def _n_features(self) -> Any:
        return super()._n_features() if self._design is None else int(self._design.starts[-1])
