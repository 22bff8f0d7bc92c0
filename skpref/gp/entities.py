"""Who is known: ids and features of the entities of one kind (items or users), and which of them were seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from skpref.data import Table, Vocabulary, as_ids
from skpref.data.ids import shorten
from skpref.data.tables import stack
from skpref.exceptions import DataError, UnknownIdError

if TYPE_CHECKING:
    from skpref._typing import Array, Features, IntArray


@dataclass(frozen=True, eq=False)
class Roster:
    """Entities of one kind."""

    vocabulary: Vocabulary  # ids of all known entities
    features: Features  # (n, d): their features
    names: tuple[str, ...] | None  # names of the features
    # (n_seen,): rows of the vocabulary that occur in the comparisons, in the order in which the posterior holds them
    seen: IntArray

    @classmethod
    def of(cls, given: Any, name: str, *columns: Any) -> Roster:
        """Start from a table, or from the ids that occur."""
        nobody = np.zeros(0, dtype=np.int64)
        if given is None:
            return cls(Vocabulary.from_columns(*columns), None, None, nobody)
        table = read_table(given, name)
        return cls(table.vocabulary, table.features, table.feature_names, nobody)

    @property
    def n_features(self) -> int:
        """Columns of the features; 0 without any."""
        return 0 if self.features is None else int(self.features.shape[1])

    @property
    def seen_ids(self) -> Any:
        """Ids of the entities seen."""
        return self.vocabulary.ids[self.seen]

    @property
    def seen_features(self) -> Features:
        """Features of the entities seen."""
        return None if self.features is None else self.features[self.seen]

    @property
    def position(self) -> IntArray:
        """Position in the posterior of every row of the vocabulary, and a last entry for an unknown id; -1 = unseen."""
        position = np.full(self.vocabulary.size + 1, -1)
        position[self.seen] = np.arange(self.seen.size)
        return position

    def with_seen(self, rows: IntArray) -> Roster:
        """Note further rows as seen, behind those seen already."""
        new = np.setdiff1d(rows, self.seen)
        return Roster(self.vocabulary, self.features, self.names, np.concatenate([self.seen, new]))

    def extended(self, given: Any, name: str, *columns: Any) -> Roster:
        """Add entities, the known ones first."""
        grown = self if given is None else self._with_features(read_table(given, name), name)
        columns = tuple(as_ids(column, kind=name[:-1]) for column in columns)
        rows = [grown.vocabulary.encode(column, unknown="mark") for column in columns]
        new = [column[row < 0] for column, row in zip(columns, rows, strict=True)]
        if not any(ids.size for ids in new):
            return grown
        if self.features is not None:
            first = min(int(np.argmax(row < 0)) for row in rows if (row < 0).any())
            who = next(column[first] for column, row in zip(columns, rows, strict=True) if row[first] < 0)
            msg = (
                f"unknown {name[:-1]} {shorten(who)} in comparison {first}: {name} have features here, so new ones need"
            )
            raise UnknownIdError(f"{msg} theirs; give them to partial_fit as {name}=Table(features, ids=...)")
        added = Vocabulary.from_columns(*new).ids
        return Roster(Vocabulary(_joined(self.vocabulary.ids, added), name), None, None, self.seen)

    def _with_features(self, table: Table, name: str) -> Roster:
        self.check(table, name)
        if self.vocabulary.positional or table.vocabulary.positional:
            msg = f"{name} can be added to a Table with ids only: give Table(features, ids=...), at fit as well."
            raise DataError(msg)
        known = np.flatnonzero(self.vocabulary.encode(table.ids, name, unknown="mark") >= 0)
        if known.size:
            who = f"{name[:-1]} {shorten(table.ids[known[0]])} in row {known[0]} of {name}"
            msg = f"{who} has features already ({known.size} such rows); give {name} that are new"
            raise DataError(msg)
        ids = _joined(self.vocabulary.ids, table.ids)
        return Roster(Vocabulary(ids, name), stack(self.features, table.features), self.names, self.seen)

    def check(self, table: Table, name: str) -> None:
        """Refuse features of another width or of other names."""
        if table.n_features != self.n_features:
            msg = f"{name} has {table.n_features} features, but CrowdGPPL is expecting {self.n_features} features"
            alone = f": it was fitted without a table of {name}, so that ids are all it knows of them"
            raise DataError(msg + ("." if self.n_features else alone))
        if self.names and table.feature_names and self.names != table.feature_names:
            msg = (
                f"The feature names of {name} should match those of the fit, in the same order; "
                f"got {table.feature_names[:5]}, wanted {self.names[:5]}."
            )
            raise DataError(msg)

    def rows(self, rows: IntArray) -> Items:
        """Return the record of entities by their rows in the vocabulary."""
        return Items(None if self.features is None else self.features[rows], self.position[rows])

    def select(self, chosen: Any, name: str) -> tuple[Any, Items]:
        """Return ids and record of what a caller named."""
        if chosen is None:
            rows = np.arange(self.vocabulary.size)
            return self.vocabulary.ids, self.rows(rows)
        if holds_features(chosen):
            table = read_table(chosen, name)
            self.check(table, name)
            known = np.full(table.n_items, -1)
            if not (table.vocabulary.positional or self.vocabulary.positional):
                known = self.vocabulary.encode(table.ids, name, unknown="mark", noun="row")
            return table.ids, Items(table.features, self.position[known])
        rows = self.vocabulary.encode(chosen, name, noun="row", kind=name[:-1])
        return self.vocabulary.ids[rows], self.rows(rows)


def read_table(given: Any, name: str) -> Table:
    """Read what a caller gave as features, and name the parameter where it cannot be read."""
    try:
        return as_table(given)
    except (TypeError, ValueError) as error:
        raise DataError(f"{name}: {error}") from error


def holds_features(chosen: Any) -> bool:
    """Whether a caller named entities by rows of features, and not by ids."""
    if isinstance(chosen, list):
        return bool(chosen) and all(isinstance(row, list | np.ndarray) for row in chosen)
    return isinstance(chosen, Table) or getattr(chosen, "ndim", None) == 2


def _joined(a: Array, b: Array) -> Any:
    """Two columns of ids behind each other; integers next to strings stay integers."""
    if a.dtype == b.dtype:
        return np.concatenate([a, b])
    return np.concatenate([a.astype(object), b.astype(object)])


class Items(NamedTuple):
    """Items to predict for."""

    features: Features  # (n, d): feature rows; None when the model has no features
    seen: IntArray  # (n,): position of the item's offset in the posterior; -1 for an item without comparisons

    @property
    def size(self) -> int:
        """Number of items."""
        return int(self.seen.shape[0])

    def take(self, index: IntArray | slice) -> Items:
        """Select items."""
        return Items(None if self.features is None else self.features[index], self.seen[index])


def as_table(items: Any) -> Table:
    """Return a Table as it is, anything else as the features of a new one."""
    return items if isinstance(items, Table) else Table(items)
