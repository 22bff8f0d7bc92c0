"""Groups and numbers that columns of X name, such as surfaces or the length of a prompt, in which utilities differ."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from skpref._checks import check_types, require
from skpref._text import nearest
from skpref._warn import warn
from skpref.data.comparisons import from_labels
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
    from skpref.data import Comparisons, IdColumn
    from skpref.data.comparisons import OnSelf
    from skpref.data.tasks import Tasks
    from skpref.gp.pairwise.columns import PairRows

_FAR = 1e100  # size of a number of context, in standard deviations, whose square is finite


class NamesGroups:
    """An estimator of comparisons whose parameters `groups` and `context` name columns of X."""

    groups: Any
    on_self: OnSelf
    group_ids_: list[IdColumn]
    group_scales_: Any
    _groups: dict[Any, Entities]  # by the column of each kind
    _numbers: dict[Any, tuple[float, float]]  # mean and standard deviation, by the column of each number of context
    _columns: Any

    def _set_groups(self, columns: Sequence[Any], *, known: bool = False) -> None:
        """Store the groups of rows, and keep the known ones."""
        if known:
            self._refuse_other_groups()
            pairs = zip(self._groups.values(), columns, strict=True)
            kinds = [kind.with_new(None, ids) for kind, ids in pairs]
        else:
            kinds = [Entities.read(None, ids, estimator=self, kind="group") for ids in columns]
        self._name_groups(kinds)

    def _name_groups(self, kinds: Sequence[Entities]) -> None:
        """Store the groups of each kind."""
        self._groups = dict(zip(self._group_columns, kinds, strict=True)) if kinds else {}
        self.group_ids_ = [kind.vocabulary.ids.copy() for kind in kinds]

    def _set_context(self, rows: PairRows | Tasks, sample_weight: Any) -> None:
        """Store the columns of numbers of context, and the means and standard deviations in rows."""
        self._numbers = {}
        if self._columns is None or rows.context is None:
            return
        weight = read_weights(sample_weight if rows.weight is None else rows.weight, len(rows.context))
        used = rows.context[weight > 0.0] if weight.any() else rows.context  # a fit without weights is refused
        weight = weight[weight > 0.0] if weight.any() else np.ones(len(rows.context))
        mean = np.average(used, axis=0, weights=weight)
        deviation = root_mean_square(used - mean, weight)
        for column, is_constant in zip(self._columns.roles.context, (used == used[0]).all(axis=0), strict=True):
            if is_constant:
                warn(f"context: column {column!r} is the same in every row, so that nothing is learnt of it")
        pairs = zip(mean.tolist(), deviation.tolist(), strict=True)
        self._numbers = dict(zip(self._columns.roles.context, pairs, strict=True))

    def _context_of(self, rows: PairRows | Tasks) -> Array | None:
        """Return the numbers of context in units of standard deviations from the means, shape (n, n_numbers)."""
        self._refuse_other_groups()
        return None if rows.context is None else self._standardised(rows.context)

    def _standardised(self, numbers: Array) -> Array:
        """Return numbers of context (n, n_numbers) in units of standard deviations from the means."""
        mean, deviation = np.array([*self._numbers.values()]).reshape(-1, 2).T
        with np.errstate(over="ignore"):
            found: Array = (numbers - mean) / deviation
        if (far := ~(np.abs(found) <= _FAR)).any():
            column = shorten([*self._numbers][int(np.argmax(far.any(axis=0)))])
            what = f"a number of column {column} is {_FAR:g} standard deviations or more from the mean"
            raise DataError(f"context: {what} of the fit; use the unit of the fit")
        return found

    def _levels_in(self, rows: PairRows | Tasks) -> Array | None:
        """Return groups, -1 where one is unknown, and numbers of context, for predictions; None without any."""
        columns = [self._numbers_of_groups(rows.groups, "mark"), self._context_of(rows)]
        held = [column for column in columns if column is not None]
        return np.hstack(held).astype(np.float64) if held else None

    @property
    def _group_columns(self) -> list[Any]:
        """The columns that the parameter names."""
        return [] if self._columns is None else list(self._columns.groups)

    def _numbers_of_groups(
        self, columns: Sequence[Any], unknown: Literal["raise", "mark"] = "raise"
    ) -> IntArray | None:
        """Return the groups of rows, shape (n, n_kinds), -1 where one is unknown; None without groups."""
        self._refuse_other_groups()
        if not len(columns):
            return None
        pairs = zip(self._groups.values(), columns, strict=True)
        return np.column_stack([kind.vocabulary.encode(ids, unknown=unknown, kind="group") for kind, ids in pairs])

    def _compare(
        self, items: Entities, left: IntArray, right: IntArray, rows: PairRows, y: Any, weight: Any, **users: Any
    ) -> Comparisons:
        """Return the comparisons of rows, given the numbers of their items and, of a crowd, of their users."""
        return from_labels(
            left,
            right,
            y,
            items.vocabulary.size,
            sample_weight=weight if rows.weight is None else rows.weight,
            on_self=self.on_self,
            names=items.vocabulary.ids,
            covariates=rows.covariates,
            group=self._numbers_of_groups(rows.groups),
            context=self._context_of(rows),
            time=rows.time,
            **users,
        )

    def _check_group_ids(self, sizes: Sequence[int]) -> None:
        """Raise DataError unless ids are of groups as numerous as a posterior has, or new ones beside these."""
        check_types(self, _groups=dict, group_ids_=list)
        kinds = self._groups.values()
        require(all(isinstance(kind, Entities) for kind in kinds), self, "_groups", "must be ids of groups")
        same = len(kinds) == len(self.group_ids_) == len(sizes) == len(self.group_scales_)
        require(same, self, "_groups", f"must be of {len(sizes)} kinds")
        for kind, public, size in zip(kinds, self.group_ids_, sizes, strict=True):
            require(np.array_equal(kind.vocabulary.ids, public), self, "group_ids_", "must be the ids of the groups")
            require(size <= public.size, self, "_groups", f"must be at least {size}")

    def _named_levels(self, groups: Mapping[Any, Hashable] | None) -> list[int]:
        """Return the number of the group of each kind that a caller named."""
        columns = list(self.groups or ())
        if groups:
            self._refuse_other_groups()
        if groups is not None and not isinstance(groups, Mapping):
            raise DataError(f'groups must be a dict such as {{"category": "coding"}}; got {shorten(groups)}')
        for column in groups or ():
            if column not in columns:
                wanted = f"the columns of groups are {columns}" if columns else "the model was fitted without groups"
                raise DataError(f"groups names the column {shorten(column)}, but {wanted}")
        levels = [LEFT_OUT] * len(self._groups)
        for kind, column in enumerate(columns):
            if groups is not None and column in groups:
                ids, vocabulary = single_id(groups[column], "group"), [*self._groups.values()][kind].vocabulary
                level = vocabulary.encode(ids, "groups", unknown="mark", noun="row", kind="group")
                if level[0] < 0:
                    self._refuse_unknown_group(kind, ids[0], "without the column it is the consensus")
                levels[kind] = int(level[0])
        return levels

    def _named_numbers(self, context: Mapping[Any, float] | None) -> list[float]:
        """Return the numbers of context that a caller gave in units of standard deviations; 0, the mean, of others."""
        if context is not None and not isinstance(context, Mapping):
            raise DataError(f'context must be a dict such as {{"length": 300}}; got {shorten(context)}')
        self._refuse_other_groups()
        for column, value in (context or {}).items():
            if column not in self._numbers:
                wanted = f"the columns of context are {[*self._numbers]}"
                wanted = wanted if self._numbers else "the model was fitted without context"
                raise DataError(f"context names the column {shorten(column)}, but {wanted}")
            if not isinstance(value, Real) or not np.isfinite(value):
                raise DataError(f"context: the number of {shorten(column)} must be finite; got {shorten(value)}")
        row = [float((context or {}).get(column, mean)) for column, (mean, _) in self._numbers.items()]
        return list(map(float, self._standardised(np.array([row]))[0]))

    def _refuse_other_groups(self) -> None:
        """Refuse other columns of groups and of context than the fit had."""
        columns = () if self._columns is None else self._columns.roles.context
        check_unchanged("context", [*columns], [*getattr(self, "_numbers", ())])
        check_unchanged("groups", self._group_columns, [*self._groups])

    def _refuse_unknown_group(self, kind: int, group: Any, advice: str) -> None:
        """Raise the error of a group that the fit has not seen."""
        seen = self.group_ids_[kind].tolist()
        raise UnknownIdError(
            f"unknown group {shorten(group)} of groups={list(self.groups)[kind]!r}: fit has seen {shorten(seen)}; "
            f"{advice}{nearest(group, seen)}"
        )

    def _select_groups(self, comparisons: Comparisons, groups: Mapping[Any, Hashable] | None) -> Comparisons:
        """Return the comparisons in the groups that a caller named."""
        for kind, level in enumerate(self._named_levels(groups)):
            if level != LEFT_OUT and comparisons.group is not None:
                comparisons = comparisons.take(comparisons.group[:, kind] == level)
        return comparisons
