"""Rows that are not in memory: files, or the partitions of a cluster, of which a batch is read at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import numpy as np

from skpref.data.shards import dataset_rows, feature_columns, located, stored_names
from skpref.exceptions import DataError
from skpref.inference.shards import OnDisk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from skpref._typing import Features
    from skpref.inference.shards import Shards

__all__ = [
    "FileRows",
    "RowSource",
    "become_unfitted",
    "read_batch",
    "refuse_more_rows",
    "refuse_no_rows",
    "refuse_parameters",
]


class RowSource(Protocol):
    """Rows that are not in memory."""

    n_rows: int
    feature_names: list[str] | int  # or their number, if they have no names

    def everything(self) -> tuple[Any, Any, Any]:
        """Return all rows, targets and weights."""

    def collect(self, function: Callable[..., Any], *shared: Any) -> Iterator[Any]:
        """Yield function(X, y, weight, number of the first row, *shared) of one batch after the other."""

    def keep(self, function: Callable[..., tuple[Any, Any]], *shared: Any) -> tuple[Shards, list[Any], list[Any]]:
        """Return shards of the batches, the first results of such a function, and handles on its second ones."""


class FileRows:
    """Rows of a dataset of pyarrow."""

    def __init__(self, dataset: Any, y: str | None, weight: str | None, group: str | None = None) -> None:
        """Read batches; where a column of groups is named they consist of whole groups."""
        self._dataset, self._names, self._group = dataset, ("y" if y is None else y, weight), group
        self.n_rows = int(dataset.count_rows())
        self.feature_names: list[str] | int = feature_columns(stored_names(dataset), *self._names)

    def everything(self) -> tuple[Any, Any, Any]:
        """Return all rows, targets and weights."""
        X, y, weight, _ = next(dataset_rows(self._dataset, *self._names, batch_rows=self.n_rows))
        return X, y, weight

    def collect(self, function: Callable[..., Any], *shared: Any) -> Iterator[Any]:
        """Yield the results."""
        batches = dataset_rows(self._dataset, *self._names, group=self._group)
        return (function(*batch, *shared) for batch in batches)

    def keep(self, function: Callable[..., tuple[Any, Any]], *shared: Any) -> tuple[Shards, list[Any], list[Any]]:
        """Return shards on disk."""
        shards, brought, kept = OnDisk(), [], []
        for first, second in self.collect(function, *shared):
            brought.append(first)
            kept.append(shards.store(second))
        return shards, brought, kept


def refuse_no_rows(source: RowSource) -> None:
    """Refuse a source without rows, as scikit-learn refuses an empty table."""
    if not source.n_rows:
        raise DataError("Found array with 0 sample(s) while a minimum of 1 is required for X: it has no rows")


def refuse_parameters(reasons: dict[str, bool], instead: str) -> None:
    """Refuse models that need the rows themselves: those whose reason is true."""
    for parameter, refused in reasons.items():
        if refused:
            raise DataError(f"{parameter} needs all rows in memory; rows in files or on a cluster are fitted {instead}")


def refuse_more_rows() -> NoReturn:
    """Refuse to add rows to a fit that kept neither its rows nor sums that determine it."""
    raise DataError(
        "partial_fit needs the rows of the fit, and a fit to files or on a cluster keeps none of them: fit again with "
        "all rows in memory"
    )


def become_unfitted(estimator: Any, names: list[str] | int) -> None:
    """Make an estimator forget an earlier fit, and remember the features: their names, or how many there are."""
    private = {"_rows", "_sums", "_state", "_states", "_warm_key"}
    for name in [name for name in vars(estimator) if name.endswith("_") or name in private]:
        delattr(estimator, name)
    estimator.n_features_in_ = names if isinstance(names, int) else len(names)
    if not isinstance(names, int):
        estimator.feature_names_in_ = np.array(names, dtype=object)


def read_batch(
    X: Any, y: Any, weight: Any, start: int, shell: Any, classes: Any = None
) -> tuple[Features, Any, Any] | None:
    """Return rows of positive weight, targets and weights of a batch; None if there are none."""
    if not len(X) or (weight is not None and not np.any(weight)):
        return None
    try:
        # Regressors take no classes, but exposures there.
        rows: tuple[Features, Any, Any] = shell._read(X, y, weight, classes, reset=False)  # noqa: SLF001 - its own
    except ValueError as error:
        raise located(error, f"rows {start} to {start + len(X) - 1} of X") from error
    return rows
