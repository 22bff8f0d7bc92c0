"""Groups of comparisons and numbers of context, in which items differ, by the parameters that name their columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from skpref._checks import check_arrays, check_types, require
from skpref._math.limits import LARGEST
from skpref._text import nearest
from skpref._warn import warn
from skpref.data.ids import shorten, single_id
from skpref.data.weights import read_weights
from skpref.exceptions import DataError, UnknownIdError
from skpref.gp.capabilities import check_unchanged
from skpref.gp.entities import Entities
from skpref.gp.pairwise.fit import root_mean_square
from skpref.inference.chain_groups import LEFT_OUT

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from skpref._typing import Array, IntArray
    from skpref.data import Comparisons
    from skpref.data.tasks import Tasks
    from skpref.gp.pairwise.columns import PairColumns, PairRows


@dataclass(frozen=True, eq=False)
class GroupLevels:
    """Groups and numbers of context that a fit has seen, and the columns that parameters name now."""

    columns: PairColumns
    groups: dict[Any, Entities]  # by the column of each kind
    numbers: dict[Any, tuple[float, float]]  # mean and standard deviation, by the column of each number of context

    def refuse_others(self) -> None:
        """Refuse other columns of groups and of context than the fit had."""
        check_unchanged("context", [*self.columns.roles.context], [*self.numbers])
        check_unchanged("groups", [*self.columns.groups], [*self.groups])

    def with_new(self, columns: Sequence[Any]) -> list[Entities]:
        """Return the groups of each kind, with the groups of more rows."""
        self.refuse_others()
        return [kind.with_new(None, ids) for kind, ids in zip(self.groups.values(), columns, strict=True)]

    def groups_of(self, columns: Sequence[Any], unknown: Literal["raise", "mark"] = "raise") -> IntArray | None:
        """Return the groups of rows, shape (n, n_kinds), -1 where one is unknown; None without groups."""
        self.refuse_others()
        if not len(columns):
            return None
        pairs = zip(self.groups.values(), columns, strict=True)
        return np.column_stack([kind.vocabulary.encode(ids, unknown=unknown, kind="group") for kind, ids in pairs])

    def context_of(self, rows: PairRows | Tasks) -> Array | None:
        """Return the numbers of context in units of standard deviations from the means, shape (n, n_numbers)."""
        self.refuse_others()
        return None if rows.context is None else self._standardised(rows.context)

    def _standardised(self, numbers: Array) -> Array:
        """Return numbers of context (n, n_numbers) in units of standard deviations from the means."""
        mean, deviation = np.array([*self.numbers.values()]).reshape(-1, 2).T
        with np.errstate(over="ignore"):
            found: Array = (numbers - mean) / deviation
        if (far := ~(np.abs(found) <= LARGEST)).any():
            column = shorten([*self.numbers][int(np.argmax(far.any(axis=0)))])
            what = f"a number of column {column} is {LARGEST:g} standard deviations or more from the mean"
            raise DataError(f"context: {what} of the fit; use the unit of the fit")
        return found

    def number_rows(self, rows: PairRows | Tasks) -> Array | None:
        """Return groups, -1 where one is unknown, and numbers of context, for predictions; None without any."""
        columns = [self.groups_of(rows.groups, "mark"), self.context_of(rows)]
        held = [column for column in columns if column is not None]
        return np.hstack(held).astype(np.float64) if held else None

    def named_groups(self, groups: Mapping[Any, Hashable] | None) -> list[int]:
        """Return the number of the group of each kind that a caller named."""
        columns = list(self.columns.group_names)
        if groups:
            self.refuse_others()
        if groups is not None and not isinstance(groups, Mapping):
            raise DataError(f'groups must be a dict such as {{"category": "coding"}}; got {shorten(groups)}')
        for column in groups or ():
            if column not in columns:
                wanted = f"the columns of groups are {columns}" if columns else "the model was fitted without groups"
                raise DataError(f"groups names the column {shorten(column)}, but {wanted}")
        levels = [LEFT_OUT] * len(self.groups)
        for kind, column in enumerate(columns):
            if groups is not None and column in groups:
                ids, vocabulary = single_id(groups[column], "group"), [*self.groups.values()][kind].vocabulary
                level = vocabulary.encode(ids, "groups", unknown="mark", noun="row", kind="group")
                if level[0] < 0:
                    self.refuse_unknown(kind, ids[0], "without the column it is the consensus")
                levels[kind] = int(level[0])
        return levels

    def named_numbers(self, context: Mapping[Any, float] | None) -> list[float]:
        """Return the numbers of context that a caller gave in units of standard deviations; 0, the mean, of others."""
        if context is not None and not isinstance(context, Mapping):
            raise DataError(f'context must be a dict such as {{"length": 300}}; got {shorten(context)}')
        self.refuse_others()
        for column, value in (context or {}).items():
            if column not in self.numbers:
                wanted = f"the columns of context are {[*self.numbers]}"
                wanted = wanted if self.numbers else "the model was fitted without context"
                raise DataError(f"context names the column {shorten(column)}, but {wanted}")
            if not isinstance(value, Real) or not np.isfinite(value):
                raise DataError(f"context: the number of {shorten(column)} must be finite; got {shorten(value)}")
        row = [float((context or {}).get(column, mean)) for column, (mean, _) in self.numbers.items()]
        return list(map(float, self._standardised(np.array([row]))[0]))

    def refuse_unknown(self, kind: int, group: Any, advice: str) -> None:
        """Raise the error of a group that the fit has not seen."""
        seen = [*self.groups.values()][kind].vocabulary.ids.tolist()
        raise UnknownIdError(
            f"unknown group {shorten(group)} of groups={self.columns.group_names[kind]!r}: fit has seen "
            f"{shorten(seen)}; {advice}{nearest(group, seen)}"
        )

    def select(self, comparisons: Comparisons, groups: Mapping[Any, Hashable] | None) -> Comparisons:
        """Return the comparisons in the groups that a caller named."""
        for kind, level in enumerate(self.named_groups(groups)):
            if level != LEFT_OUT and comparisons.group is not None:
                comparisons = comparisons.take(comparisons.group[:, kind] == level)
        return comparisons

    def check_context(self, owner: Any, widths: IntArray) -> None:
        """Raise DataError unless the units, the variances and the comparisons are of as many numbers."""
        check_types(owner, _numbers=dict)
        check_arrays(owner, {"m": widths.size}, context_scales_="m")
        sound = all(np.isfinite(pair).all() and pair[1] > 0.0 for pair in self.numbers.values())
        require(sound and len(self.numbers) == widths.sum(), owner, "_numbers", f"must be of {widths.sum()} columns")
        held = getattr(vars(owner)["_comparisons"], "context", None)
        same = (0 if held is None else held.shape[1]) == len(self.numbers)
        require(same, owner, "_comparisons", "must have the context of the posterior")

    def check_groups(self, owner: Any, sizes: Sequence[int]) -> None:
        """Raise DataError unless ids are of groups as numerous as a posterior has, or new ones beside these."""
        check_types(owner, _groups=dict, group_ids_=list)
        kinds, listed = self.groups.values(), owner.group_ids_
        require(all(isinstance(kind, Entities) for kind in kinds), owner, "_groups", "must be ids of groups")
        same = len(kinds) == len(listed) == len(sizes) == len(owner.group_scales_)
        require(same, owner, "_groups", f"must be of {len(sizes)} kinds")
        for kind, public, size in zip(kinds, listed, sizes, strict=True):
            require(np.array_equal(kind.vocabulary.ids, public), owner, "group_ids_", "must be the ids of the groups")
            require(size <= public.size, owner, "_groups", f"must be at least {size}")


def units_of_context(columns: Sequence[Any], context: Array, weight: Any) -> dict[Any, tuple[float, float]]:
    """Return the mean and the standard deviation of each column of numbers of context, in rows with weights."""
    weight = read_weights(weight, len(context))
    if weight.any():  # a fit without weights is refused
        context, weight = context[weight > 0.0], weight[weight > 0.0]
    else:
        weight = np.ones(len(context))
    mean = np.average(context, axis=0, weights=weight)
    deviation = root_mean_square(context - mean, weight)
    for column, is_constant in zip(columns, (context == context[0]).all(axis=0), strict=True):
        if is_constant:
            warn(f"context: column {column!r} is the same in every row, so that nothing is learnt of it")
    return dict(zip(columns, zip(mean.tolist(), deviation.tolist(), strict=True), strict=True))
