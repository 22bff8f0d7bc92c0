"""Ids and features of the items or users of a model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from scipy import sparse

from skpref._checks import are_names, check_features, check_indices, check_types, require
from skpref._text import nearest
from skpref._warn import warn
from skpref.data import Table, Vocabulary, as_ids
from skpref.data.comparisons import refuse_same_item
from skpref.data.ids import shorten
from skpref.data.tables import stack
from skpref.exceptions import DataError, DataWarning, UnknownIdError

if TYPE_CHECKING:
    from skpref._typing import Features, IntArray
    from skpref.data import IdColumn


def _warn_of_spaces(ids: IdColumn, kind: str) -> None:
    """Warn of ids that are others without the spaces at their ends, or blank."""
    words = [i for i in ids.tolist() if isinstance(i, str)] if ids.dtype == object else []
    padded = [i for i in words if i != i.strip() or not i]
    known = {"", *words} if padded else set()
    twins = [i for i in padded if i.strip() in known]
    if twins:
        other = f"the {kind} {shorten(twins[0].strip())}" if twins[0].strip() else "a missing id"
        warn(
            f"Of the {kind} ids, {len(twins)} differ from others only in spaces at their ends, or are blank: "
            f"{shorten(twins[0])} is not {other}. Clean the column first, such as by table[column].str.strip().",
            DataWarning,
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class Entities:
    """All items or all users of a model; `seen` has the order of the posterior's variables."""

    estimator: str  # name of the model's class, for error messages
    kind: str  # "item", "user" or "group"; the parameter of the estimator is the plural
    vocabulary: Vocabulary  # ids
    features: Features  # (n, d); None without a table
    feature_names: tuple[str, ...] | None
    seen: IntArray  # (n_seen,): rows of the vocabulary that occur in a comparison of positive weight
    has_own: bool = False  # whether each seen entity has a feature of its own, behind the others

    def validate(self) -> None:
        """Raise DataError unless the parts fit together."""
        check_types(self, vocabulary=Vocabulary, estimator=str, has_own=bool)
        owns = self.features is not None and self.kind == "item"
        require(not self.has_own or owns, self, "has_own", "needs features of items")
        require(self.kind in {"item", "user", "group"}, self, "kind", "must be item, user or group")
        size = self.vocabulary.size
        if self.features is not None:
            width = check_features(self, "features", self.features, size)
            require(are_names(self.feature_names, width), self, "feature_names", f"must be {width} names")
        check_indices(self, "seen", self.seen, 0, size)
        require(np.unique(self.seen).size == self.seen.size, self, "seen", "names an entity twice")

    @classmethod
    def read(cls, table: Any, *columns: Any, estimator: Any, kind: str) -> Entities:
        """Read the features that a caller gave; without features, the ids come from the columns."""
        if table is None:
            vocabulary, features, names = Vocabulary.from_columns(*columns), None, None
            _warn_of_spaces(vocabulary.ids, kind)
        else:
            table = read_table(table, f"{kind}s", estimator if kind == "item" else None)
            vocabulary, features, names = table.vocabulary, table.features, table.feature_names
        return cls(
            estimator=type(estimator).__name__,
            kind=kind,
            vocabulary=vocabulary,
            features=features,
            feature_names=names,
            seen=np.zeros(0, dtype=np.int64),
        )

    @property
    def parameter(self) -> str:
        """Name of the parameter that holds the table: "items" or "users"."""
        return f"{self.kind}s"

    @property
    def n_features(self) -> int:
        """Number of features; 0 without a table."""
        return 0 if self.features is None else int(self.features.shape[1])

    @property
    def width(self) -> int:
        """Number of features, with the own ones of seen entities."""
        return self.n_features + self.has_own * self.seen.size

    def described(self, features: Features, position: IntArray) -> Items:
        """Return items with these features, and at their positions with the feature of their own; -1: it is 0."""
        if not self.has_own:
            return Items(features, position)
        own = sparse.csr_array(
            (np.ones(np.count_nonzero(position >= 0)), (np.flatnonzero(position >= 0), position[position >= 0])),
            shape=(position.size, self.seen.size),
        )
        if sparse.issparse(features):
            return Items(sparse.hstack([features, own], format="csr"), position)
        return Items(np.hstack([features, own.toarray()]), position)

    @property
    def seen_ids(self) -> IdColumn:
        """Ids of the seen entities."""
        return self.vocabulary.ids[self.seen]

    @property
    def seen_features(self) -> Features:
        """Features of the seen entities."""
        return None if self.features is None else self.rows(self.seen).features

    @property
    def position(self) -> IntArray:
        """Position in the posterior of every row of the vocabulary, -1 if unseen; the last entry is for unknown ids."""
        position = np.full(self.vocabulary.size + 1, -1)
        position[self.seen] = np.arange(self.seen.size)
        return position

    def with_seen(self, rows: IntArray) -> Entities:
        """Add rows to the seen ones; earlier rows keep their positions."""
        return replace(self, seen=np.concatenate([self.seen, np.setdiff1d(rows, self.seen)]))

    def with_new(self, table: Any, *columns: Any) -> Entities:
        """Add the entities of a table, or new ids of the columns; the earlier ones keep their rows."""
        extended = self if table is None else self._with_table(read_table(table, self.parameter))
        columns = tuple(as_ids(column, kind=self.kind) for column in columns)
        rows = [extended.vocabulary.encode(column, unknown="mark", kind=self.kind) for column in columns]
        new = [column[row < 0] for column, row in zip(columns, rows, strict=True)]
        if not any(ids.size for ids in new):
            return extended
        if self.features is not None:
            first = min(int(np.argmax(row < 0)) for row in rows if (row < 0).any())
            unknown = next(column[first] for column, row in zip(columns, rows, strict=True) if row[first] < 0)
            msg = (
                f"unknown {self.kind} {shorten(unknown)} in comparison {first}: this model has features of "
                f"{self.parameter}; pass those of new {self.parameter} to partial_fit, "
                f"{self.parameter}=Table(features, ids=...)"
            )
            raise UnknownIdError(msg)
        ids = _concatenate_ids(self.vocabulary.ids, Vocabulary.from_columns(reduce(_concatenate_ids, new)).ids)
        return replace(self, vocabulary=Vocabulary(ids, self.parameter))

    def _with_table(self, table: Table) -> Entities:
        self.check_features(table)
        if self.vocabulary.positional or table.vocabulary.positional:
            msg = f"new {self.parameter} need ids, here and at fit: pass {self.parameter}=Table(features, ids=...)."
            raise DataError(msg)
        repeated = np.flatnonzero(
            self.vocabulary.encode(table.ids, self.parameter, unknown="mark", kind=self.kind) >= 0
        )
        if repeated.size:
            msg = (
                f"{self.kind} {shorten(table.ids[repeated[0]])} in row {repeated[0]} of {self.parameter} has features "
                f"already ({repeated.size} such rows); pass new {self.parameter} only"
            )
            raise DataError(msg)
        vocabulary = Vocabulary(_concatenate_ids(self.vocabulary.ids, table.ids), self.parameter)
        return replace(self, vocabulary=vocabulary, features=stack(self.features, table.features))

    def check_features(self, table: Table) -> None:
        """Refuse a table with another number of features, or other feature names."""
        if table.n_features != self.n_features:
            msg = (
                f"{self.parameter} has {table.n_features} features, but {self.estimator} is expecting "
                f"{self.n_features} features"
            )
            raise DataError(msg + (" as input." if self.n_features else f": it was fitted without {self.parameter}."))
        if self.feature_names and table.feature_names and self.feature_names != table.feature_names:
            msg = (
                f"{self.parameter}: the feature names should match those that {self.estimator} was fitted with, in "
                f"the same order; got {table.feature_names[:5]}, wanted {self.feature_names[:5]}."
            )
            raise DataError(msg)

    def rows(self, rows: IntArray) -> Items:
        """Return the entities in rows of the vocabulary; a row of -1 is an unknown id."""
        return self.described(None if self.features is None else self.features[rows], self.position[rows])

    def select(self, chosen: Any) -> tuple[IdColumn, Items]:
        """Return the entities that a caller chose by ids, by a table or by features; None chooses all."""
        if chosen is None:
            return self.vocabulary.ids, self.rows(np.arange(self.vocabulary.size))
        if holds_features(chosen):
            table = read_table(chosen, self.parameter)
            self.check_features(table)
            rows = np.full(table.n_items, -1)
            if not (table.vocabulary.positional or self.vocabulary.positional):
                rows = self.vocabulary.encode(table.ids, self.parameter, unknown="mark", noun="row", kind=self.kind)
            return table.ids, self.described(table.features, self.position[rows])
        rows = self.vocabulary.encode(chosen, self.parameter, noun="row", kind=self.kind)
        return self.vocabulary.ids[rows], self.rows(rows)

    def encode_teams(self, *sides: IdColumn, unknown: Literal["raise", "mark"] = "raise") -> list[IntArray]:
        """Return the rows of the players of teams, shape (n, S) each: -1 after these, -2 if marked as unknown."""
        found, S = [], max(len(as_team(team)) for side in sides for team in side.tolist())
        for side in sides:
            sizes = np.array([len(as_team(team)) for team in side.tolist()])
            rows = self.vocabulary.encode(players_of(side), "X", unknown=unknown, noun="player")
            places = np.full((sizes.size, S), -1)
            places[np.arange(S) < sizes[:, None]] = np.where(rows < 0, -2, rows)
            found.append(places)
        return found

    def teams(self, left: IdColumn, right: IdColumn) -> tuple[Items, IntArray, IntArray]:
        """Return the distinct players of teams, and their positions in both, shape (n, S) each; -1: no player."""
        unknown: Any = "mark" if self.features is None else "raise"
        first, second = self.encode_teams(left, right, unknown=unknown)
        refuse_same_item(first, second, self.vocabulary.ids)
        both = np.hstack([first, second])
        is_new, is_there, size = both == -2, both != -1, self.vocabulary.size
        both[is_new] = size + np.arange(np.count_nonzero(is_new))  # unknown players are different ones
        item, inverse = np.unique(both[is_there], return_inverse=True)
        both[is_there] = inverse
        first, second = np.hsplit(both, 2)
        return self.rows(np.where(item < size, item, -1)), first, second

    def pairs(self, left: Any, right: Any) -> tuple[Items, IntArray, IntArray]:
        """Return the distinct items of pairs of ids, and for each pair the positions of its two items among them."""
        unknown: Any = "mark" if self.features is None else "raise"
        a, b = (self.vocabulary.encode(side, "X", unknown=unknown) for side in (left, right))
        # Two ids that are both unknown are two different items.
        item, inverse = np.unique(np.concatenate([a, np.where(b < 0, -2, b)]), return_inverse=True)
        first, second = np.split(inverse, 2)
        return self.rows(np.maximum(item, -1)), first, second


class Items(NamedTuple):
    """Items or users to predict for."""

    features: Features  # (n, d); None when the model has no features
    position: IntArray  # (n,): position in the posterior of the variables of each; -1 when unseen

    @classmethod
    def new(cls, features: Features) -> Items:
        """Return unseen items that have features only."""
        return cls(features, np.full(features.shape[0], -1))

    @property
    def size(self) -> int:
        """Number of items."""
        return int(self.position.shape[0])

    def take(self, index: IntArray | slice) -> Items:
        """Select items."""
        return Items(None if self.features is None else self.features[index], self.position[index])


def as_team(team: Any) -> tuple[Any, ...]:
    """Return the players of a team; an id that is no tuple is a team of one."""
    return team if isinstance(team, tuple) else (team,)


def players_of(side: IdColumn) -> IdColumn:
    """Return the ids of the players of teams, one after the other."""
    return as_ids([player for team in side.tolist() for player in as_team(team)], "X", "player")


def read_table(features: Any, parameter: str, estimator: Any = None) -> Table:
    """Return the features as a table; an error names the parameter. Some may be missing where an estimator is given."""
    try:
        table = features if isinstance(features, Table) else Table(features)
    except (TypeError, ValueError) as error:
        raise DataError(f"{parameter}: {error}") from error
    if table.incomplete.size and (estimator is None or not _is_stationary(estimator)):
        first = shorten(table.ids[table.incomplete[0]])
        raise DataError(
            f"{parameter}: {first} lacks features (missing='item effect' of the Table), which only items of fit may, "
            "and only with a stationary kernel: name items of the fit by their ids, fill the features in, or pass "
            "kernel=skpref.kernels.ProductMatern(...), since tastes of users may be linear in the features without it"
        )
    return table


def _is_stationary(estimator: Any) -> bool:
    """Tell whether all covariances over the features of items vanish at large distances."""
    named = [getattr(estimator, name, None) for name in ("kernel", "factor_kernel")]
    kernels = [kernel for kernel in named if kernel is not None]
    has_default_tastes = not kernels and bool(getattr(estimator, "n_factors", 0))
    return not has_default_tastes and all(kernel.is_stationary() for kernel in kernels)


def holds_features(chosen: Any) -> bool:
    """Tell whether entities were chosen by rows of features, and not by ids."""
    if isinstance(chosen, list):
        return bool(chosen) and all(isinstance(row, list | np.ndarray) for row in chosen)
    return isinstance(chosen, Table) or getattr(chosen, "ndim", None) == 2


def describe_unknown(entities: Entities, ids: Any, rows: IntArray, noun: str, advice: str) -> str:
    """Return a message on the first unknown entity, whose row is -1; it ends with the known one of the nearest name."""
    row, n_more, kind = int(np.argmin(rows)), int(np.count_nonzero(rows < 0)) - 1, entities.kind
    name = as_ids(ids, kind=kind)[row]
    more = f" (and {n_more} more)" if n_more else ""
    why = "was not seen by fit" if entities.features is None else f"is not in the table of {entities.parameter}"
    hint = nearest(name, entities.vocabulary.ids.tolist())
    return f"unknown {kind} {shorten(name)} in {noun} {row}{more}: it {why}; {advice}{hint}"


def _concatenate_ids(first: IdColumn, second: IdColumn) -> IdColumn:
    """Return the ids of two columns; integers next to strings stay integers."""
    if first.dtype == second.dtype:
        return np.concatenate([first, second])
    return np.concatenate([first.astype(object), second.astype(object)])
