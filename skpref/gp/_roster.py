"""Who is known: ids and features of the entities of one kind (items or users), and which of them were seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from skpref.data import Table, Vocabulary
from skpref.exceptions import DataError
from skpref.gp._pair_posterior import Items
from skpref.gp._pairwise_base import stack

if TYPE_CHECKING:
    from skpref._typing import Array, Features, IntArray


@dataclass(frozen=True, eq=False)
class Roster:
    """Entities of one kind.

    Parameters
    ----------
    vocabulary : Vocabulary
        Ids of all known entities.
    features : {ndarray, CSR} of shape (n, d) or None
        Their features.
    names : tuple of str or None
        Names of the features.
    seen : ndarray of shape (n_seen,)
        Rows of the vocabulary that occur in the comparisons, in the order in which the posterior holds them.
    """

    vocabulary: Vocabulary
    features: Features
    names: tuple[str, ...] | None
    seen: IntArray

    @classmethod
    def of(cls, table: Table | None, *columns: Any) -> Roster:
        """Start from a table, or from the ids that occur.

        Parameters
        ----------
        table : Table or None
            Features and ids.
        *columns : array-like of shape (P,)
            Columns of ids; they make the vocabulary where there is no table.

        Returns
        -------
        Roster
            With nobody seen yet.
        """
        nobody = np.zeros(0, dtype=np.int64)
        if table is None:
            return cls(Vocabulary.from_columns(*columns), None, None, nobody)
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
        """Note further rows as seen, behind those seen already.

        Parameters
        ----------
        rows : ndarray
            Rows of the vocabulary, with repetitions.

        Returns
        -------
        Roster
            The same entities.
        """
        new = np.setdiff1d(rows, self.seen)
        return Roster(self.vocabulary, self.features, self.names, np.concatenate([self.seen, new]))

    def extended(self, table: Table | None, name: str, *columns: Any) -> Roster:
        """Add entities, the known ones first.

        Parameters
        ----------
        table : Table or None
            Features of the new ones, where entities have features.
        name : str
            "items" or "users", for messages.
        *columns : array-like
            Ids that occur; the new ones among them are added where entities have no features.

        Returns
        -------
        Roster
            The old rows keep their numbers.

        Raises
        ------
        DataError
            If features are given where there are none, or of another width, or for an id that has some already.
        """
        if table is None:
            if self.features is not None:
                return self
            rows = [self.vocabulary.encode(column, "X", unknown="mark") for column in columns]
            new = [np.asarray(column)[row < 0] for column, row in zip(columns, rows, strict=True)]
            if not any(ids.size for ids in new):
                return self
            added = Vocabulary.from_columns(*new).ids
            return Roster(Vocabulary(_joined(self.vocabulary.ids, added), name), None, None, self.seen)
        self.check(table, name)
        if self.vocabulary.positional or table.vocabulary.positional:
            msg = f"{name} can be added to a Table with ids only: give Table(features, ids=...), at fit as well."
            raise DataError(msg)
        ids = _joined(self.vocabulary.ids, table.ids)
        return Roster(Vocabulary(ids, name), stack(self.features, table.features), self.names, self.seen)

    def check(self, table: Table, name: str) -> None:
        """Refuse features of another width or of other names.

        Parameters
        ----------
        table : Table
            New entities.
        name : str
            "items" or "users".

        Raises
        ------
        DataError
            If they do not fit those of the fit.
        """
        if table.n_features != self.n_features:
            msg = f"{name} has {table.n_features} features, but CrowdGPPL is expecting {self.n_features} features."
            raise DataError(msg)
        if self.names and table.feature_names and self.names != table.feature_names:
            msg = (
                f"The feature names of {name} should match those of the fit, in the same order; "
                f"got {table.feature_names[:5]}, wanted {self.names[:5]}."
            )
            raise DataError(msg)

    def rows(self, rows: IntArray) -> Items:
        """Return the record of entities by their rows in the vocabulary.

        Parameters
        ----------
        rows : ndarray of shape (n,)
            Rows; -1, for an unknown id, only where there are no features.

        Returns
        -------
        Items
            What posteriors predict for.
        """
        return Items(None if self.features is None else self.features[rows], self.position[rows])

    def select(self, chosen: Any, name: str) -> tuple[Any, Items]:
        """Return ids and record of what a caller named.

        Parameters
        ----------
        chosen : array-like of ids, Table, features of shape (n, d), or None
            None = all known entities.
        name : str
            "items" or "users".

        Returns
        -------
        ids : ndarray of shape (n,)
            Ids, or numbers of rows.
        items : Items
            The record.
        """
        if chosen is None:
            rows = np.arange(self.vocabulary.size)
            return self.vocabulary.ids, self.rows(rows)
        if not isinstance(chosen, Table) and getattr(chosen, "ndim", None) == 2:
            chosen = Table(chosen)
        if isinstance(chosen, Table):
            self.check(chosen, name)
            known = np.full(chosen.n_items, -1)
            if not (chosen.vocabulary.positional or self.vocabulary.positional):
                known = self.vocabulary.encode(chosen.ids, name, unknown="mark", noun="row")
            return chosen.ids, Items(chosen.features, self.position[known])
        rows = self.vocabulary.encode(chosen, name, noun="row")
        return self.vocabulary.ids[rows], self.rows(rows)


def _joined(a: Array, b: Array) -> Any:
    """Two columns of ids behind each other; integers next to strings stay integers."""
    if a.dtype == b.dtype:
        return np.concatenate([a, b])
    return np.concatenate([a.astype(object), b.astype(object)])
