"""Which columns of X hold the ids, the covariates and the weights of comparisons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import combinations, product
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from scipy.sparse import issparse
from sklearn.utils.validation import validate_data

from skpref._checks import require
from skpref._validation import column_names, refuse_repeated_columns
from skpref._warn import warn
from skpref.data import read_pairs, read_triples
from skpref.data.frames import TableReader
from skpref.data.ids import refuse_other_roles, shorten
from skpref.data.labels import refuse_one_side
from skpref.exceptions import DataError, DataWarning

if TYPE_CHECKING:
    from skpref._typing import Array
    from skpref.data import Comparisons, IdColumn

Column = str | int  # name, or position where no column has this name
_WANTED = (
    "covariates must be columns, or pairs of columns whose difference counts; got {}. Write them as "
    'covariates=["home", ("length_a", "length_b")]'
)
_LARGEST = 1e150  # size of a covariate: squares stay finite, and so do effects of one unit


class _Place(int):
    """A position even where names of columns are integers: that of an id whose column no parameter names."""


class PairRows(NamedTuple):
    """Comparisons as they stand in X."""

    left: IdColumn  # (n,)
    right: IdColumn  # (n,)
    covariates: Array | None = None  # (n, q); None: none, or all zero
    weight: Array | None = None  # (n,); None: not in X
    user: Any = None  # (n,): ids; None: one view for all
    groups: tuple[IdColumn, ...] = ()  # (n,) each: ids of the group, of each kind


@dataclass(frozen=True)
class PairColumns:
    """The columns that an estimator reads, by name or by position."""

    ids: dict[str, Column]  # left and right, perhaps after user
    covariates: tuple[Column | tuple[Column, Column], ...]  # a pair of columns is their difference
    names: list[str]  # of the covariates
    weight: Column | None
    groups: tuple[Column, ...] = ()  # ids of groups, one column for each kind

    @classmethod
    def of(cls, ids: dict[str, Any], covariates: Any, weight: Any, groups: Any = None) -> PairColumns | None:
        """Return the columns that parameters name; None if they name none, and X has columns of ids only."""
        for name, column in (*ids.items(), ("weight", weight)):
            if not (column is None or _is_column(column)):
                raise DataError(f"{name} must be a column of X, by name or by position; got {shorten(column)}")
        if not (covariates is None or isinstance(covariates, Mapping | list | tuple) or np.ndim(covariates) == 1):
            raise DataError(_WANTED.format(shorten(covariates)))
        groups = _groups(groups)
        if {*ids.values(), weight} == {None} and (covariates is None or not len(covariates)) and not groups:
            return None
        named = isinstance(covariates, Mapping)
        terms = tuple(map(_covariate, covariates.values() if named else [] if covariates is None else covariates))
        names = [str(name) for name in covariates] if named else [_name(term) for term in terms]
        if named and len({*names}) < len(names):
            raise DataError(f"covariates has two equal names: {shorten(list(covariates))}; use different names")
        places = {name: _Place(place) if column is None else column for place, (name, column) in enumerate(ids.items())}
        return cls(places, terms, names, weight, groups)

    @property
    def _others(self) -> list[Column]:
        """Columns of covariates, groups and weights."""
        terms = [c for term in self.covariates for c in (term if isinstance(term, tuple) else [term])]
        terms += self.groups
        return terms if self.weight is None else [*terms, self.weight]

    @property
    def by_name(self) -> bool:
        """Whether no column is a position."""
        return all(isinstance(c, str) for c in [*self.ids.values(), *self._others])

    def read(self, X: Any, *, weighted: bool = True) -> PairRows:
        """Return the ids, covariates and, if asked for, weights of rows that have all the columns."""
        reader = _reader(X)
        terms = [_named(reader, term) for term in self.covariates]
        ids = {name: _named(reader, column) for name, column in self.ids.items()}
        groups = {f"groups={column!r}": _named(reader, column) for column in self.groups}
        refuse_other_roles(ids, "X", {name for name in ids if isinstance(self.ids[name], _Place)})
        self._check_distinct(ids | groups, terms)
        covariates = [_numbers(reader, term, name) for term, name in zip(terms, self.names, strict=True)]
        rows = {name: self._ids(reader, name, column) for name, column in ids.items()}
        if not rows["left"].size:
            raise DataError("Found array with 0 sample(s) while a minimum of 1 is required for X: it has no rows")
        weight = self._weights(reader) if weighted else None
        numbers: list[tuple[str, AbstractSet[Any]]] = [
            (f"covariate {name!r}", _parts(term)) for name, term in zip(self.names, terms, strict=True)
        ]
        if weight is not None:
            numbers.append((f"weight={self.weight!r}", {_named(reader, self.weight)}))
        for (what, columns), (side, column) in product(numbers, (ids | groups).items()):
            if column in columns:
                where = f"column {column!r} of X holds the ids of {side}; name a column of numbers"
                raise DataError(f"{what}: {where}, and set {side}= if the ids are elsewhere")
        levels = tuple(self._ids(reader, name, column, "group") for name, column in groups.items())
        numbers_of_rows = np.column_stack(covariates) if covariates else None
        return PairRows(**rows, covariates=numbers_of_rows, weight=weight, groups=levels)

    def _check_distinct(self, ids: dict[str, Any], terms: list[Any]) -> None:
        """Refuse a column that is two ids, and covariates that are the same but for their sign."""
        for (first, column), (second, other) in combinations(ids.items(), 2):
            if column == other:
                named = ", ".join(f"{name}={self.ids[name]!r}" if name in self.ids else name for name in ids)
                same = f"{first} and {second} are the same column of X, {column!r} ({named})"
                raise DataError(f"{same}; name all of {', '.join(self.ids)}")
        for (first, term), (second, other) in combinations(zip(self.names, terms, strict=True), 2):
            if _parts(term) == _parts(other):
                raise DataError(f"covariates: {first!r} and {second!r} are the same column of X; leave one of them out")
        for name, term in zip(self.names, terms, strict=True):
            if isinstance(term, tuple) and term[0] == term[1]:
                raise DataError(f"covariate {name!r} is the difference of a column and itself, which is 0 in every row")

    def _ids(self, reader: TableReader, name: str, column: Any, kind: str = "item") -> IdColumn:
        try:
            return reader.ids(column, "user" if name == "user" else kind)
        except DataError as error:
            if column in reader.names:
                raise
            raise DataError(
                f"{name}={self.ids[name]!r}: {error}" if name in self.ids else f"{name}: {error}"
            ) from error

    def _weights(self, reader: TableReader) -> Array | None:
        if self.weight is None:
            return None
        try:
            return reader.weights(_named(reader, self.weight))
        except DataError as error:
            raise DataError(f"weight={self.weight!r} of X: {error}") from error

    def read_ids(self, X: Any, sides: tuple[str, ...]) -> PairRows:
        """Return the ids of rows that hold these and nothing else, in their order unless their names say otherwise."""
        names = set(column_names(X) or [])
        if names & {column for column in self._others if isinstance(column, str)}:
            return self.read(X, weighted=False)  # says which columns are missing
        chosen = {side: None if isinstance(self.ids[side], _Place) else self.ids[side] for side in sides}
        columns = PairColumns.of(chosen, None, None)
        by_name = names == {*chosen.values()} or any(isinstance(c, str) and c in names for c in chosen.values())
        return columns.read(X) if columns and by_name else read_id_columns(X, len(sides))

    def check_varying(self, comparisons: Comparisons) -> None:
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
            warn(f"{where}: {meaning}. Leave it out, or add comparisons.", DataWarning)


def _name(term: Column | tuple[Column, Column]) -> str:
    """Return the name of a covariate; that of a difference has both columns."""
    return " - ".join(map(str, term)) if isinstance(term, tuple) else str(term)


def _covariate(term: Any) -> Column | tuple[Column, Column]:
    if _is_column(term):
        return term
    if isinstance(term, list | tuple) and len(term) == 2 and all(map(_is_column, term)):
        return term[0], term[1]
    raise DataError(_WANTED.format(shorten(term)))


def _parts(term: Any) -> frozenset[Any]:
    """Return the columns of a covariate."""
    return frozenset(term if isinstance(term, tuple) else [term])


def _groups(columns: Any) -> tuple[Column, ...]:
    """Return the columns of groups that a parameter names."""
    listed = columns is None or (isinstance(columns, Sequence | Mapping) and not isinstance(columns, str))
    groups = tuple(columns.values() if isinstance(columns, Mapping) else columns or ()) if listed else ()
    if not listed or not all(map(_is_column, groups)):
        raise DataError(f'groups must be a list of columns of X, such as groups=["category"]; got {shorten(columns)}')
    if len({*groups}) < len(groups):
        raise DataError(f"groups names a column twice: {shorten(list(groups))}")
    return groups


def _is_column(name: Any) -> bool:
    return isinstance(name, str | Integral) and not isinstance(name, bool)


def _named(reader: TableReader, column: Any) -> Any:
    """Return a column by its name: positions in a frame become names."""
    if isinstance(column, tuple):
        return tuple(_named(reader, part) for part in column)
    if isinstance(column, str) and reader.names and isinstance(reader.names[0], int):
        raise DataError(f"column {column!r} is not in X, whose columns have no names: pass a data frame, or positions")
    if isinstance(column, str) or (column in reader.names and not isinstance(column, _Place)):
        return column
    if not 0 <= column < len(reader.names):
        raise DataError(f"there is no column {column} in X, which has {len(reader.names)}; positions start at 0")
    return reader.names[column]


def _numbers(reader: TableReader, term: Any, name: str) -> Array:
    """Return a covariate by the names of its columns, shape (n,); refuse numbers whose effects leave float64."""
    try:
        with np.errstate(over="ignore"):
            values = reader.numbers(term)
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
    if issparse(X):
        raise TypeError("Sparse data was passed for X, but dense data is required: columns of ids and numbers")
    if isinstance(X, Mapping):
        raise DataError("X is a dict; make a data frame of it: pandas.DataFrame(X)")
    if column_names(X) is not None:
        refuse_repeated_columns(X, "X")
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


def read_id_columns(X: Any, width: int) -> PairRows:
    """Return rows of (left, right), or of (user, left, right)."""
    if width == 2:
        return PairRows(*read_pairs(X))
    user, left, right = read_triples(X)
    return PairRows(left, right, user=user)


def has_columns(X: Any, width: int) -> bool:
    """Tell whether rows hold so many cells each."""
    if hasattr(X, "shape"):
        return len(X.shape) == 2 and X.shape[1] == width
    rows = isinstance(X, list | tuple) and all(isinstance(row, list | tuple | np.ndarray) for row in X)
    return rows and {len(row) for row in X} == {width}


class ReadsColumns:
    """An estimator whose parameters name columns of X."""

    weight: Any
    n_features_in_: int
    _sides: ClassVar[tuple[str, ...]] = ("left", "right")  # the columns of ids, in the order of X without names

    @property
    def _columns(self) -> PairColumns | None:
        """The columns of X that parameters name; None where X has columns of ids only."""
        ids = {name: getattr(self, name) for name in self._sides}
        return PairColumns.of(ids, getattr(self, "covariates", None), self.weight, getattr(self, "groups", None))

    def _read(self, X: Any, *, reset: bool, weighted: bool = True) -> PairRows:
        """Return the columns of X; store or check their names.

        After a fit of more columns, or of named ones, rows with as many as there are ids have covariates of 0.
        """
        columns, width = self._columns, len(self._sides)
        if not reset and columns is not None and not columns.groups and has_columns(X, width):
            nameless = columns.by_name and column_names(X) is None
            if nameless or self.n_features_in_ > width:
                return columns.read_ids(X, self._sides)
        rows = read_id_columns(X, width) if columns is None else columns.read(X, weighted=weighted)
        if reset or columns is None or not columns.by_name:
            validate_data(self, X, reset=reset, skip_check_array=True)
        return rows

    def _check_width(self) -> None:
        """Raise DataError unless X may have had the number of columns of the fit."""
        width, n = len(self._sides), self.n_features_in_
        fits = n == width if self._columns is None else n >= width
        require(fits, self, "n_features_in_", f"must be {width}, or more where columns are named")
