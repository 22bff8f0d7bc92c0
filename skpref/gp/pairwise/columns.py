"""Which columns of X hold the ids, the covariates and the weights of comparisons."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from skpref.data import read_pairs
from skpref.data.frames import TableReader, column_names
from skpref.data.ids import shorten
from skpref.data.labels import refuse_one_side
from skpref.exceptions import DataError, DataWarning

if TYPE_CHECKING:
    from skpref._typing import Array
    from skpref.data import Comparisons, IdColumn

Column = str | int  # name or position
_WANTED = (
    "covariates must be columns, or pairs of columns whose difference counts; got {}. Write them as "
    'covariates=["home", ("length_a", "length_b")]'
)
_LARGEST = 1e150  # size of a covariate: squares stay finite, and so do effects of one unit


class PairRows(NamedTuple):
    """Comparisons as they stand in X."""

    left: IdColumn  # (n,)
    right: IdColumn  # (n,)
    covariates: Array | None  # (n, q); None: none, or all zero
    weight: Array | None  # (n,); None: not in X


@dataclass(frozen=True)
class PairColumns:
    """The columns that an estimator reads, by name or by position."""

    left: Column
    right: Column
    covariates: tuple[Column | tuple[Column, Column], ...]  # a pair of columns is their difference
    names: list[str]  # of the covariates
    weight: Column | None

    @classmethod
    def of(cls, left: Any, right: Any, covariates: Any, weight: Any) -> PairColumns | None:
        """Return the columns that parameters name; None if they name none, and X has two columns of ids."""
        for name, column in (("left", left), ("right", right), ("weight", weight)):
            if not (column is None or _is_column(column)):
                raise DataError(f"{name} must be a column of X, by name or by position; got {shorten(column)}")
        if not (covariates is None or isinstance(covariates, Mapping | list | tuple) or np.ndim(covariates) == 1):
            raise DataError(_WANTED.format(shorten(covariates)))
        if left is None and right is None and weight is None and (covariates is None or not len(covariates)):
            return None
        named = isinstance(covariates, Mapping)
        terms = tuple(map(_covariate, covariates.values() if named else [] if covariates is None else covariates))
        names = [str(name) for name in covariates] if named else [_name(term) for term in terms]
        return cls(0 if left is None else left, 1 if right is None else right, terms, names, weight)

    @property
    def _others(self) -> list[Column]:
        """Columns of covariates and weights."""
        terms = [c for term in self.covariates for c in (term if isinstance(term, tuple) else [term])]
        return terms if self.weight is None else [*terms, self.weight]

    @property
    def by_name(self) -> bool:
        """Whether no column is a position."""
        return all(isinstance(c, str) for c in [self.left, self.right, *self._others])

    def read(self, X: Any, *, weighted: bool = True) -> PairRows:
        """Return the ids, covariates and, if asked for, weights of rows that have all the columns."""
        reader = _reader(X)
        covariates = [_numbers(reader, term, name) for term, name in zip(self.covariates, self.names, strict=True)]
        return PairRows(
            reader.ids(_named(reader, self.left)),
            reader.ids(_named(reader, self.right)),
            np.column_stack(covariates) if covariates else None,
            self._weights(reader) if weighted else None,
        )

    def _weights(self, reader: TableReader) -> Array | None:
        if self.weight is None:
            return None
        try:
            return reader.weights(_named(reader, self.weight))
        except DataError as error:
            raise DataError(f"weight={self.weight!r} of X: {error}") from error

    def read_ids(self, X: Any) -> PairRows:
        """Return the ids of rows of two columns, left and right unless their names say otherwise."""
        names = set(column_names(X) or [])
        if names & {column for column in self._others if isinstance(column, str)}:
            return self.read(X, weighted=False)  # says which columns are missing
        if {self.left, self.right} == names:
            reader = TableReader(X)
            return PairRows(reader.ids(self.left), reader.ids(self.right), None, None)
        return PairRows(*read_pairs(X), None, None)

    def check_varying(self, comparisons: Comparisons, frames: int) -> None:
        """Warn of a covariate that is the same in all comparisons of positive weight; refuse one that explains all."""
        if comparisons.covariates is None:
            return
        used = comparisons.covariates[comparisons.weight > 0.0]
        for name, values in zip(self.names, used.T, strict=True):
            if not values.size or (values != values[0]).any():
                continue
            where = f"covariate {name!r} is {values[0]:g} in every comparison"
            if values[0]:
                refuse_one_side(comparisons.y, comparisons.weight, where)
                meaning = "its effect is an advantage of a side, as that of order_effect=True"
            else:
                meaning = "its effect has the prior's mean, 0, and the prior's standard deviation for a unit of 1"
            warnings.warn(f"{where}: {meaning}. Leave it out, or add comparisons.", DataWarning, stacklevel=frames)


def _name(term: Column | tuple[Column, Column]) -> str:
    """Return the name of a covariate; that of a difference has both columns."""
    return " - ".join(map(str, term)) if isinstance(term, tuple) else str(term)


def _covariate(term: Any) -> Column | tuple[Column, Column]:
    if _is_column(term):
        return term
    if isinstance(term, list | tuple) and len(term) == 2 and all(map(_is_column, term)):
        return term[0], term[1]
    raise DataError(_WANTED.format(shorten(term)))


def _is_column(name: Any) -> bool:
    return isinstance(name, str | Integral) and not isinstance(name, bool)


def _named(reader: TableReader, column: Any) -> Any:
    """Return a column by its name: positions in a frame become names."""
    if isinstance(column, tuple):
        return tuple(_named(reader, part) for part in column)
    if isinstance(column, str) and reader.names and isinstance(reader.names[0], int):
        raise DataError(f"column {column!r} is not in X, whose columns have no names: pass a data frame, or positions")
    if isinstance(column, str) or column in reader.names:
        return column
    if not 0 <= column < len(reader.names):
        raise DataError(f"there is no column {column} in X, which has {len(reader.names)}; positions start at 0")
    return reader.names[column]


def _numbers(reader: TableReader, term: Any, name: str) -> Array:
    """Return a covariate, shape (n,); refuse numbers whose effects leave float64."""
    try:
        with np.errstate(over="ignore"):
            values = reader.numbers(_named(reader, term))
    except DataError as error:
        raise DataError(f"covariate {name!r} of X: {error}") from error
    largest = float(np.abs(values).max(initial=0.0))
    if largest > _LARGEST or 0.0 < largest < 1.0 / _LARGEST:
        raise DataError(
            f"covariate {name!r}: its largest number is {largest:g}, which must be from {1.0 / _LARGEST:g} to "
            f"{_LARGEST:g}; use another unit"
        )
    return values


def _reader(X: Any) -> TableReader:
    if isinstance(X, Mapping):
        raise DataError("X is a dict; make a data frame of it: pandas.DataFrame(X)")
    names = column_names(X)
    if names is not None:
        twice = [name for name, count in Counter(names).items() if count > 1]
        if twice:
            raise DataError(f"X has more than one column {twice[0]!r}; give columns different names")
        return TableReader(X)
    rows = np.array(X, dtype=object) if isinstance(X, Sequence | np.ma.MaskedArray) else np.asarray(X)
    if rows.ndim != 2:
        raise DataError(f"Expected 2D array, got {rows.ndim}D array instead: X must have one row for each comparison")
    if not rows.shape[0]:
        raise DataError(f"Found array with 0 sample(s) (shape={rows.shape}) while a minimum of 1 is required for X")
    if np.ma.isMaskedArray(X):
        rows[np.ma.getmaskarray(X)] = None  # missing ids and numbers are refused where they are read
    return TableReader({column: rows[:, column] for column in range(rows.shape[1])})


def refuse_two_weights(weight: Any, sample_weight: Any) -> None:
    """Refuse weights of a column of X and others beside them."""
    if weight is not None and sample_weight is not None:
        raise DataError(f"weights are given twice: by weight={weight!r} and by sample_weight; give one of them")


def is_pairs(X: Any) -> bool:
    """Tell whether rows hold two ids each, and nothing else."""
    if hasattr(X, "shape"):
        return len(X.shape) == 2 and X.shape[1] == 2
    rows = isinstance(X, list | tuple) and all(isinstance(row, list | tuple | np.ndarray) for row in X)
    return rows and {len(row) for row in X} == {2}
