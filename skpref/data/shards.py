"""Comparisons in shards: what is read of each shard where it is, and what all shards must agree on."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from skpref._checks import check_arrays, check_positive
from skpref.data.columns import Columns
from skpref.data.comparisons import Comparisons, from_labels
from skpref.data.ids import objects
from skpref.data.labels import classes_of
from skpref.data.stored import column_values
from skpref.data.vocabulary import Vocabulary
from skpref.exceptions import DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from skpref._typing import Array, IntArray
    from skpref.data.comparisons import OnSelf
    from skpref.data.ids import IdColumn
    from skpref.data.roles import Roles


class ShardOptions(NamedTuple):
    """How the comparisons of a shard are read and merged."""

    on_self: OnSelf
    keep_order: bool
    keep_ties: bool


class ShardSummary(NamedTuple):
    """Summary of a shard that is needed before the fit."""

    ids: IdColumn  # distinct ids of its rows
    used: IntArray  # those, by number, that occur in a comparison of positive weight
    component: IntArray  # connected component of each of them
    weight: Array  # total weight of the comparisons of each of them
    n_pairs: int  # merged comparisons
    labels: tuple[float, float] | None  # least and greatest label of positive weight; None without any
    classes: NDArray[Any] | None  # the two sides as the labels write them; None without rows
    users: IdColumn | None = None  # distinct ids of the users
    pairs_of_user: IntArray | None = None  # (n_users,): merged comparisons of each


@dataclass(frozen=True, eq=False)
class ComparisonCounts:
    """What is left of comparisons that were in shards: how often each item was compared."""

    weight: Array  # (n_items,): total weights

    def validate(self) -> None:
        """Raise DataError unless there is a weight of each item."""
        check_arrays(self, weight="N")
        check_positive(self, "weight", zero=True)

    @property
    def n_items(self) -> int:
        """Number of items."""
        return int(self.weight.size)

    def counts(self) -> Array:
        """Return the total weight of the comparisons of each item, shape (n_items,)."""
        return self.weight


def read_shard(
    table: Any, y: Any, weight: Any, start: int, roles: Roles, options: ShardOptions
) -> tuple[ShardSummary, Comparisons]:
    """Return the summary of a table of a shard and its merged comparisons, by the numbers of `used`."""
    del start
    y = None if y is None else column_values(y)
    columns = Columns.of(table, "X", leave_out="")
    left, right = columns.ids(roles.left), columns.ids(roles.right)
    users = user_rows = None
    if roles.user is not None:
        user = columns.ids(roles.user, "user")
        users = Vocabulary.from_columns(user)
        user_rows = users.encode(user, kind="user")
    vocabulary = Vocabulary.from_columns(left, right)
    rows = from_labels(
        vocabulary.encode(left),
        vocabulary.encode(right),
        y,
        vocabulary.size,
        sample_weight=weight,
        on_self=options.on_self,
        names=vocabulary.ids,
        user=user_rows,
        n_users=0 if users is None else users.size,
    )
    labels = rows.y[rows.weight > 0.0]
    merged, used = rows.merged(keep_order=options.keep_order, keep_ties=options.keep_ties).compact()
    summary = ShardSummary(
        vocabulary.ids,
        used,
        merged.components()[1][: used.size],
        merged.counts()[: used.size],
        merged.n_pairs,
        (float(labels.min()), float(labels.max())) if labels.size else None,
        classes_of(y) if left.size else None,
        None if users is None else users.ids,
        None if users is None else np.bincount(np.asarray(merged.user), minlength=users.size),
    )
    return summary, merged


def with_shared_ids(summary: Any, ids: dict[Any, Any]) -> Any:  # a summary of a shard
    """Return a summary whose strings are those of `ids`, to which new ones are added: shards share most of them."""
    return type(summary)(*(_shared(value, ids) for value in summary))


def _shared(value: Any, ids: dict[Any, Any]) -> Any:  # a field of a summary
    if isinstance(value, list):
        return [_shared(column, ids) for column in value]
    if not isinstance(value, np.ndarray) or value.dtype != object:
        return value
    return objects([ids.setdefault(one, one) for one in value.tolist()])


def without_repeats(columns: list[IdColumn]) -> list[IdColumn]:
    """Return one column of the distinct ids, where all are objects; shards share most of them."""
    if any(column.dtype != object for column in columns):
        return columns
    return [objects(list(dict.fromkeys(chain.from_iterable(column.tolist() for column in columns))))]


def check_classes(classes: list[NDArray[Any]]) -> NDArray[Any]:
    """Return the two sides as the labels of all shards write them."""
    first = classes[0]
    other = next((c for c in classes if c.tolist() != first.tolist() or c.dtype.kind != first.dtype.kind), None)
    if other is not None:
        raise DataError(
            f"y holds {first.tolist()} in one shard and {other.tolist()} in another: write the labels of all of them "
            "in the same way"
        )
    return first
