"""Which columns of X hold the ids, the covariates and the weights of comparisons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations
from numbers import Integral
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.utils.validation import validate_data

from skpref._checks import require
from skpref._math.limits import LARGEST_SQUARED
from skpref._validation import column_names
from skpref._warn import warn
from skpref.data.columns import NO_ROWS, Columns, listed, read_ids, refuse_other_roles
from skpref.data.ids import LEAVE_OUT, shorten
from skpref.data.labels import is_of_one_side, refuse_one_side
from skpref.data.roles import Roles, read
from skpref.data.tasks import TABLE_OF_TASKS, Tasks
from skpref.exceptions import DataError, DataWarning
from skpref.gp.pairwise.policy import POLICY

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from skpref._typing import Array
    from skpref.data import Comparisons, IdColumn

_WANTED = (
    "covariates must be columns, or columns of the two sides or of all positions; got {}. Write them as "
    'covariates=["home", ("length_a", "length_b")], and of tasks as covariates={{"price": ["price_1", "price_2", ...]}}'
)
SEVERAL = "if a row shows several items, of which one was chosen, likelihood='luce' says so"


class PairRows(NamedTuple):
    """Comparisons as they stand in X."""

    left: IdColumn  # (n,)
    right: IdColumn  # (n,)
    covariates: Array | None = None  # (n, q); None: none, or all zero
    weight: Array | None = None  # (n,); None: not in X
    user: Any = None  # (n,): ids; None: one view for all
    groups: tuple[IdColumn, ...] = ()  # (n,) each: ids of the group, of each kind
    time: Array | None = None  # (n,): years since 1970 where they are dates
    is_dated: bool = False
    context: Array | None = None  # (n, n_numbers)

    @property
    def shown(self) -> tuple[IdColumn, IdColumn]:
        """The columns of ids of items, as tasks have them."""
        return self.left, self.right


@dataclass(frozen=True)
class PairColumns:
    """The columns that an estimator reads, by name or by position; a side without one is at its usual position."""

    roles: Roles
    sides: tuple[str, ...]  # left and right, perhaps after user
    names: list[str]  # of the covariates
    widths: tuple[int, ...] = ()  # numbers of each kind of context: 1, or those of a vector
    group_names: tuple[Any, ...] = ()  # of the columns of groups, as callers name them

    @classmethod
    def read_parameters(cls, estimator: Any, sides: Sequence[str]) -> PairColumns:
        """Return the columns that the parameters of an estimator name."""
        ids = {side: getattr(estimator, side) for side in sides}
        more = (getattr(estimator, name, None) for name in ("covariates", "weight", "groups", "time", "context"))
        return cls.from_parameters(ids, *more)

    @classmethod
    def from_parameters(
        cls,
        ids: dict[str, Any],
        covariates: Any = None,
        weight: Any = None,
        groups: Any = None,
        time: Any = None,
        context: Any = None,
    ) -> PairColumns:
        """Return the columns that parameters name."""
        ids = {name: _as_columns(column) if name in {"left", "right"} else column for name, column in ids.items()}
        for name, column in (*ids.items(), ("weight", weight), ("time", time)):
            if not (column is None or _is_column(column) or isinstance(column, tuple)):
                raise DataError(f"{name} must be a column of X, by name or by position; got {shorten(column)}")
        teams = {name for name, column in ids.items() if isinstance(column, tuple)}
        if teams and teams != {"left", "right"}:
            raise DataError(
                f"left={shorten(ids.get('left'))} and right={shorten(ids.get('right'))}: of teams, both are lists of "
                "columns of players"
            )
        if not (covariates is None or isinstance(covariates, Mapping | list | tuple) or np.ndim(covariates) == 1):
            raise DataError(_WANTED.format(shorten(covariates)))
        kinds, vectors = _groups(groups), _vectors(context)
        numbers = tuple(chain.from_iterable(vectors))
        named = isinstance(covariates, Mapping)
        terms = tuple(map(_covariate, covariates.values() if named else [] if covariates is None else covariates))
        names = [str(name) for name in covariates] if named else [_name(term) for term in terms]
        if named and len({*names}) < len(names):
            raise DataError(f"covariates has two equal names: {shorten(list(covariates))}; use different names")
        roles = Roles(**ids, covariates=terms, weight=weight, groups=kinds, context=numbers, time=time)
        return cls(roles, tuple(ids), names, tuple(map(len, vectors)), tuple(groups or ()))

    @property
    def is_empty(self) -> bool:
        """Whether no parameter names a column: X has columns of ids only."""
        return self.roles == Roles()

    @property
    def has_levels(self) -> bool:
        """Whether items differ in groups or by context."""
        return bool(self.groups or self.widths)

    @property
    def groups(self) -> tuple[Any, ...]:
        """Columns of groups."""
        return self.roles.groups

    @property
    def are_named(self) -> bool:
        """Whether no column is a position."""
        return None not in self._ids.values() and all(isinstance(column, str) for column in self.roles.columns())

    @property
    def _ids(self) -> dict[str, Any]:
        return {side: getattr(self.roles, side) for side in self.sides}

    def read_rows(self, estimator: Any, X: Any, *, reset: bool, weighted: bool = True) -> PairRows:
        """Return the columns of X; the estimator stores or checks their names.

        After a fit of more columns, or of named ones, rows with as many as there are ids have covariates of 0.
        """
        width, has_more = len(self.sides), self.has_levels or self.roles.time is not None
        if not (reset or self.is_empty or has_more) and has_columns(X, width):
            nameless = self.are_named and column_names(X) is None
            if nameless or estimator.n_features_in_ > width:
                return self.read_ids(X, self.sides)
        rows = read_id_columns(X, self.sides, may_be_tasks=reset) if self.is_empty else self.read(X, weighted=weighted)
        if reset or not self.are_named:
            validate_data(estimator, X, reset=reset, skip_check_array=True)
        return rows

    def check_width(self, estimator: Any) -> None:
        """Raise DataError unless X may have had the number of columns of the fit."""
        width, n = len(self.sides), estimator.n_features_in_
        fits = n == width if self.is_empty else n >= width
        require(fits, estimator, "n_features_in_", f"must be {width}, or more where columns are named")

    def read(self, X: Any, *, weighted: bool = True) -> PairRows:
        """Return the ids, covariates and, if asked for, weights of rows that have all the columns."""
        if isinstance(X, Mapping):
            raise DataError("X is a dict, but an array or a data frame is required: try pandas.DataFrame(X)")
        columns = Columns.of(X, "X", "X", LEAVE_OUT)
        if not columns.size:
            raise DataError(NO_ROWS.format("X", "rows"))
        ids = {
            side: _name_at(columns, self.sides.index(side)) if column is None else _named(columns, column)
            for side, column in self._ids.items()
        }
        by_place = [side for side, column in self._ids.items() if column is None]
        others = set(columns.names) - {*self.roles.columns()}
        if len(others) > len(by_place) > 0 and any(isinstance(column, str) for column in self._ids.values()):
            what = f"{by_place[0]}= names no column of X, as those of the other ids do, and several are left"
            raise DataError(f"{what}: name all of {', '.join(self.sides)}. Found: {listed(columns.names)}")
        refuse_other_roles(ids, "X", by_place)
        for name, term in zip(self.names, self.roles.covariates, strict=True):
            if isinstance(term, tuple) and len(term) > len(("left", "right")):
                raise DataError(
                    f"covariate {name!r} has {len(term)} columns, but rows of X compare two items: name one column, or "
                    "two, whose difference counts. If they show several items, likelihood='luce' says so"
                )
        roles = self._resolved(columns, ids, weighted=weighted)
        weight = roles.weight
        rows = read(columns, roles)
        if rows.covariates is not None:
            self.check_sizes(rows.covariates)
        weights = None if weight is None else rows.weight
        left, right = rows.items
        more = rows.user, rows.groups, rows.time, rows.is_dated, rows.context
        return PairRows(left, right, rows.covariates, weights, *more)

    def read_tasks(self, X: Any, *, weighted: bool) -> Tasks:
        """Return the tasks of a table; columns that no parameter names are items, after the column of users."""
        if isinstance(X, Mapping):
            raise DataError("X is a dict, but an array or a data frame is required: try pandas.DataFrame(X)")
        columns = Columns.of(X, "X", "X", LEAVE_OUT, TABLE_OF_TASKS)
        ids, weight = {}, self.roles.weight
        if "user" in self.sides:
            ids["user"] = _name_at(columns, 0) if self.roles.user is None else _named(columns, self.roles.user)
        roles = self._resolved(columns, ids, weighted=weighted)
        if weight is not None and not weighted:  # it may be there, and is no item
            name = columns.names[weight] if isinstance(weight, int) and weight < len(columns.names) else weight
            columns = replace(columns, values={key: own for key, own in columns.values.items() if key != name})
        tasks = Tasks.read(columns, roles)
        if tasks.covariates is not None:
            self.check_sizes(tasks.covariates)
        return tasks

    def _resolved(self, columns: Columns, ids: dict[str, Any], *, weighted: bool) -> Roles:
        """Return the roles by names of columns."""
        terms = tuple(_named(columns, term) for term in self.roles.covariates)
        groups, context = (
            tuple(_named(columns, column) for column in listed) for listed in (self.roles.groups, self.roles.context)
        )
        weight = None if self.roles.weight is None or not weighted else _named(columns, self.roles.weight)
        time = None if self.roles.time is None else _named(columns, self.roles.time)
        self.check_distinct(ids, terms, groups, weight, time, context)
        return Roles(**ids, covariates=terms, weight=weight, groups=groups, context=context, time=time)

    def check_distinct(
        self,
        ids: dict[str, Any],
        terms: Sequence[Any],
        groups: Sequence[Any],
        weight: Any,
        time: Any = None,
        context: Sequence[Any] = (),
    ) -> None:
        """Refuse a column with two meanings, and covariates that are the same but for their sign."""
        places = {side: column for side, column in ids.items() if not isinstance(column, tuple)}
        teams = {side: column for side, column in ids.items() if isinstance(column, tuple)}
        places |= {f"{side}[{k}]": part for side, column in teams.items() for k, part in enumerate(column)}
        places |= {f"groups={column!r}": column for column in groups}
        self._refuse_equal(places)
        for (first, term), (second, other) in combinations(zip(self.names, terms, strict=True), 2):
            if _parts(term) == _parts(other):
                raise DataError(f"covariates: {first!r} and {second!r} are the same column of X; leave one of them out")
        numbers = [(f"covariate {name!r}", term) for name, term in zip(self.names, terms, strict=True)]
        for name, column in (("weight", weight), ("time", time)):
            numbers += [] if column is None else [(f"{name}={getattr(self.roles, name)!r}", column)]
        numbers += [(f"context={column!r}", column) for column in context]
        for what, term in numbers:
            if isinstance(term, tuple) and len({*term}) < len(term):
                raise DataError(f"{what} names a column twice; of two sides, the difference would be 0 in every row")
            for side, column in places.items():
                if column in _parts(term):
                    where = f"column {column!r} of X holds the ids of {side}; name a column of numbers"
                    raise DataError(f"{what}: {where}, and set {side.split('=')[0]}= if the ids are elsewhere")

    def _refuse_equal(self, places: dict[str, Any]) -> None:
        """Refuse a column that has the ids of two sides or groups."""
        for (first, column), (second, other) in combinations(places.items(), 2):
            if column == other:
                usual = {side: place for place, side in enumerate(self.sides)} | {
                    side: own for side, own in self._ids.items() if own is not None
                }
                named = ", ".join(f"{name}={usual[name]!r}" if name in usual else name for name in places)
                same = f"{first} and {second} are the same column of X, {column!r} ({named})"
                raise DataError(f"{same}; name all of {', '.join(self.sides)}")

    def check_sizes(self, covariates: Array) -> None:
        """Refuse numbers whose effects leave float64."""
        largest_of_all = np.abs(covariates).reshape(-1, len(self.names)).max(axis=0, initial=0.0)
        for name, largest in zip(self.names, largest_of_all.tolist(), strict=True):
            if not largest <= LARGEST_SQUARED or 0.0 < largest < 1.0 / LARGEST_SQUARED:
                wanted = f"from {1.0 / LARGEST_SQUARED:g} to {LARGEST_SQUARED:g}; use another unit"
                raise DataError(f"covariate {name!r}: its largest number is {largest:g}, which must be {wanted}")

    def read_ids(self, X: Any, sides: tuple[str, ...]) -> PairRows:
        """Return the ids of rows that hold only ids, by the names of the columns or else by their order."""
        names = set(column_names(X) or [])
        ids = {side: self._ids[side] for side in sides}
        own = [*chain.from_iterable(c if isinstance(c, tuple) else (c,) for c in ids.values())]
        if names & {column for column in set(self.roles.columns()) - {*own} if isinstance(column, str)}:
            return self.read(X, weighted=False)  # says which columns are missing
        columns = PairColumns.from_parameters(ids)
        by_name = names == {*own} or any(isinstance(c, str) and c in names for c in own)
        return columns.read(X) if by_name else read_id_columns(X, sides)

    def check_varying(self, comparisons: Comparisons) -> None:
        """Warn of a covariate of one side alone, or the same in all comparisons; refuse one that explains all."""
        if comparisons.covariates is None:
            return
        used = comparisons.covariates[comparisons.weight > 0.0]
        for name, term, values in zip(self.names, self.roles.covariates, used.T, strict=False):  # then positions
            if not values.size or (values != values[0]).any():
                if not isinstance(term, tuple) and is_of_one_side(values):
                    what = f"covariate {name!r} is never negative, and a positive value favours the left side"
                    warn(f"{what}. If it describes one side, pass both columns as a pair: their difference counts.")
                continue
            where = f"covariate {name!r} is {values[0]:g} in every comparison"
            if values[0]:
                refuse_one_side(comparisons.y, comparisons.weight, where)
                meaning = "its effect is an advantage of a side, as that of order_effect=True"
            else:
                meaning = "its effect has the prior's mean, 0, and the prior's standard deviation for a unit of 1"
            warn(f"{where}: {meaning}. Leave it out, or add comparisons.", DataWarning)


def _name(term: Any) -> str:
    """Return the name of a covariate; a difference is named after both columns."""
    return " - ".join(map(str, term)) if isinstance(term, tuple) else str(term)


def _covariate(term: Any) -> Any:
    if _is_column(term):
        return term
    if isinstance(term, list | tuple | range) and len(term) >= 2 and all(map(_is_column, term)):
        return tuple(term)
    raise DataError(_WANTED.format(shorten(term)))


def _parts(term: Any) -> frozenset[Any]:
    """Return the columns of a covariate."""
    return frozenset(term if isinstance(term, tuple) else [term])


def _groups(columns: Any) -> tuple[Any, ...]:
    """Return the columns of groups that a parameter names."""
    listed = columns is None or (isinstance(columns, Sequence | Mapping) and not isinstance(columns, str))
    groups = tuple(columns.values() if isinstance(columns, Mapping) else columns or ()) if listed else ()
    if not listed or not all(map(_is_column, groups)):
        raise DataError(f'groups must be a list of columns of X, such as groups=["category"]; got {shorten(columns)}')
    if len({*groups}) < len(groups):
        raise DataError(f"groups names a column twice: {shorten(list(groups))}")
    return groups


def _vectors(columns: Any) -> tuple[tuple[Any, ...], ...]:
    """Return the columns of each kind of context that a parameter names; vectors have several."""
    is_list = columns is None or (isinstance(columns, Sequence) and not isinstance(columns, str))
    vectors = [tuple(one) if isinstance(one, list | tuple) else (one,) for one in columns or ()] if is_list else []
    if not is_list or not all(vector and all(map(_is_column, vector)) for vector in vectors):
        wanted = 'context=["length"], and vectors as lists of theirs, such as context=[["x_1", "x_2"]]'
        raise DataError(f"context must be a list of columns of X, such as {wanted}; got {shorten(columns)}")
    names = [*chain.from_iterable(vectors)]
    if len({*names}) < len(names):
        raise DataError(f"context names a column twice: {shorten(names)}")
    return tuple(vectors)


def _as_columns(columns: Any) -> Any:
    """Return columns of players as a tuple, and a single column as it is."""
    is_several = isinstance(columns, list | tuple) and len(columns) > 0 and all(map(_is_column, columns))
    return tuple(columns) if is_several else columns


def _is_column(name: Any) -> bool:
    return isinstance(name, str | Integral) and not isinstance(name, bool)


def _named(columns: Columns, column: Any) -> Any:
    """Return a column by its name: positions in a frame become names."""
    if isinstance(column, tuple):
        return tuple(_named(columns, part) for part in column)
    if isinstance(column, str) and columns.names and isinstance(columns.names[0], int):
        advice = "pass a data frame (transformers make one after set_output(transform='pandas')), or positions"
        raise DataError(f"column {column!r} is not in X, whose columns have no names: {advice}")
    return column if isinstance(column, str) or column in columns.values else _name_at(columns, column)


def _name_at(columns: Columns, place: int) -> Any:
    """Return the name of the column at a position."""
    if not 0 <= place < len(columns.names):
        raise DataError(f"there is no column {place} in X, which has {len(columns.names)}; positions start at 0")
    return columns.names[place]


def refuse_two_weights(weight: Any, sample_weight: Any) -> None:
    """Refuse weights of a column of X and others beside them."""
    if weight is not None and sample_weight is not None:
        raise DataError(f"weights are given twice: by weight={weight!r} and by sample_weight; give one of them")


def read_id_columns(X: Any, sides: Sequence[str], *, may_be_tasks: bool = False) -> PairRows:
    """Return rows of the ids of these sides; the error of more columns says what tasks are, if X may be some."""
    try:
        ids: dict[str, Any] = dict(zip(sides, read_ids(X, sides), strict=True))
    except DataError as error:
        shape: tuple[int, ...] = getattr(X, "shape", ())
        if not (may_be_tasks and len(shape) == 2 and shape[1] > len(sides)):
            raise
        raise DataError(f"{error}; {SEVERAL}") from error
    return PairRows(**ids)


def has_columns(X: Any, width: int) -> bool:
    """Tell whether each row holds n cells."""
    if hasattr(X, "shape"):
        return len(X.shape) == 2 and X.shape[1] == width
    rows = isinstance(X, list | tuple) and all(isinstance(row, list | tuple | np.ndarray) for row in X)
    return rows and {len(row) for row in X} == {width}


# --------------------------------------- warnings of comparisons that were probably read otherwise than they were meant
_NEVER_LEFT = (
    "y is False in all {} comparisons. If it is a test such as table['winner'] == table['model_a'], the winners may be "
    "words for sides, such as 'model_a', and not ids: skpref.data.from_winners reads both. If rows are (loser, "
    "winner), exchange the columns and leave y out."
)
_LABELS = {"winner", "label", "y", "won", "outcome", "result", "preferred", "preference", "verdict", "chosen"}
_UNLABELLED = (
    "y is None, so the left item wins in every row, but X has the column {!r}. Give labels as y, such as "
    "skpref.data.from_winners(X).y; or pass the columns of ids alone."
)


def warn_never_left(comparisons: Comparisons, classes: NDArray[Any]) -> None:
    """Warn if labels that are booleans, which may come from a test, are False in all of many comparisons."""
    used = comparisons.y[comparisons.weight > 0.0]
    # Rows that hardly ever have one winner's side by chance.
    if classes.dtype == bool and used.size >= 10 and not used.any():
        warn(_NEVER_LEFT.format(used.size), DataWarning)


def warn_unlabelled(X: Any, y: Any, used: Sequence[Any]) -> None:
    """Warn if there are no labels, but X has a column besides the `used` ones that looks like labels."""
    columns = [] if y is not None else column_names(X) or []
    named = [name for name in columns if name not in used and str(name).lower() in _LABELS]
    if named and len(columns) > len(used):
        warn(_UNLABELLED.format(named[0]), DataWarning)


def warn_of_sides(comparisons: Comparisons, expected: Array | None) -> None:
    """Warn if a side wins more often than `expected` (n,) by the model; None: as often as in the other order."""
    used = comparisons.take(comparisons.weight > 0.0)
    if not used.n_pairs or (used.y == used.y[0]).all():  # rows are (winner, loser)
        return
    z = side_advantage(used, used.y - (0.5 if expected is None else expected[comparisons.weight > 0.0]))
    if abs(z) <= POLICY.side_errors:
        return
    side, others = "left" if z > 0 else "right", "" if comparisons.covariates is None else " and covariates"
    msg = (
        f"The {side} side wins more often than the items{others} explain ({abs(z):.1f} standard errors; it wins "
        f"{np.mean(used.y if z > 0 else 1.0 - used.y):.1%} of all). Learn the advantage by order_effect=True. If the "
        "sides were chosen after the answer, such as winners first, swap the sides of random rows instead."
    )
    warn(msg, DataWarning)


def side_advantage(comparisons: Comparisons, residual: Array) -> float:
    """Return by how many standard errors the left side does better than the right one.

    It compares the rows (a, b) with the rows (b, a) of the same two items, so that it does not depend on utilities: the
    test of Cochran, Mantel and Haenszel, where residuals replace wins. 0 where nobody met in both orders.
    """
    c = comparisons
    if c.left.ndim == 2:  # teams hardly ever meet again: what players do not explain
        return float(residual.sum() / max(np.sqrt(residual @ residual), np.finfo(np.float64).tiny))
    swap = c.left > c.right
    code = np.minimum(c.left, c.right) * np.int64(c.n_items) + np.maximum(c.left, c.right)
    pair = np.unique(code, return_inverse=True)[1]
    # Of the item with the lower number, in either order; the other one's residual is its negative.
    lower = np.where(swap, -residual, residual)
    n, n_left = np.bincount(pair), np.bincount(pair, ~swap)
    mean = np.bincount(pair, lower) / n
    excess = np.bincount(pair, np.where(swap, 0.0, lower)) - n_left * mean
    spread = np.bincount(pair, np.square(lower - mean[pair]))
    variance = float((n_left * (n - n_left) / (n * np.maximum(n - 1.0, 1.0)) * spread).sum())
    # Soft answers that agree in both orders differ by rounding alone, which is no advantage of a side.
    return float(excess.sum() / np.sqrt(variance)) if variance > n.sum() * np.finfo(np.float64).eps else 0.0
