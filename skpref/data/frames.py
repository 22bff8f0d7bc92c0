"""Tables of comparisons as people keep them, and what `fit` takes: pairs, labels, weights, covariates."""

from __future__ import annotations

import difflib
import math
from collections import Counter
from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np

from skpref._text import lacks_number
from skpref._validation import column_names, refuse_collection
from skpref._warn import warn
from skpref.data.ids import LEAVE_OUT, as_ids, is_missing, shorten
from skpref.data.weights import read_weights
from skpref.data.winners import labels_of_winners, margins_of_scores, score_fault, winner_fault
from skpref.exceptions import DataError, DataWarning

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from skpref._typing import Array, IntArray
    from skpref.data.ids import IdColumn

__all__ = ["ComparisonRows", "from_choices", "from_rankings", "from_results", "from_winners"]

Frame: TypeAlias = Any  # of pandas, polars or pyarrow, or a dict of columns
Cell: TypeAlias = Any
Column: TypeAlias = str | int  # name, or the position in an array
Group: TypeAlias = tuple[int, list[Any], Any]  # a ranking: its first row, items, and their ranks
Missing: TypeAlias = Literal["raise", "drop"]  # what to do with rows that lack a cell

_MOST_PAIRS = 20_000_000  # that rankings are taken apart into: a gigabyte


class ComparisonRows(NamedTuple):
    """Arguments of `fit`: pairs of ids, labels, weights and covariates.

    Parameters
    ----------
    X : ndarray of shape (n, 2) or (n, 3)
        Ids of the left and the right item for `GPPLClassifier`; of the user, the left and the right item for
        `CrowdGPPL`, where a column of users was named.
    y : ndarray of shape (n,)
        1 = left preferred, 0 = right preferred, 0.5 = a tie.
    sample_weight : ndarray of shape (n,)
        Weights of the comparisons.
    covariates : ndarray of shape (n, n_covariates), or None
        Columns that were asked for.

    Examples
    --------
    >>> from skpref import GPPLClassifier
    >>> from skpref.data import from_winners
    >>> battles = {"left": ["x", "y", "x"], "right": ["y", "z", "z"], "winner": ["left", "right", "tie"]}
    >>> rows = from_winners(battles)
    >>> model = GPPLClassifier().fit(rows.X, rows.y, rows.sample_weight)
    """

    X: NDArray[Any]
    y: Array
    sample_weight: Array
    covariates: Array | None


# -------------------------------------------------------------------------------------------------------------- readers
def from_winners(
    frame: Frame,
    left: str = "left",
    right: str = "right",
    winner: str = "winner",
    *,
    loser: str | None = None,
    user: str | None = None,
    sample_weight: str | None = None,
    covariates: Sequence[str | tuple[str, str]] = (),
    missing: Missing = "raise",
) -> ComparisonRows:
    """Read a table that names the winner of each comparison.

    Parameters
    ----------
    frame : data frame of pandas or polars, pyarrow Table, or dict of str to sequence
        One row for each comparison.
    left, right : str, default="left", "right"
        Columns of the two items.
    winner : str, default="winner"
        Column of the winner: the id of one of the two items; or a word for its side in upper or lower case: left,
        right; a, b; model_a, model_b; first, second; 1, 2; home, away; h, a; white, black; win, loss; 1-0, 0-1; the
        names of the two columns; or for none: tie, draw, both bad. "Home win" is read as home. Numbers
        1, 0 and 0.5 are labels, as in `fit`.
    loser : str, default=None
        Column of the loser. With it, `winner` holds ids, and `left` and `right` are not read: rows are (winner, loser).
    user : str, default=None
        Column of the users, who become the first column of X.
    sample_weight : str, default=None
        Column of the weights; None: each row has weight 1.
    covariates : sequence of str or (str, str), default=()
        Columns of numbers that describe a comparison; a pair of columns is their difference.
    missing : {"raise", "drop"}, default="raise"
        What to do with a row that lacks an item, an answer, or another cell that is read, or has text such as NA for a
        number: raise an error, or leave the row out.

    Returns
    -------
    ComparisonRows
        What `fit` takes: X, y, sample_weight, covariates.

    Raises
    ------
    DataError
        If a column is missing, an id is missing, or a winner is neither of the two items nor a word for a side. The
        message names the column and the row, from 0.

    See Also
    --------
    from_results : Scores in place of the winner.
    from_choices : One of several was chosen.
    from_rankings : Rankings of several items.

    Examples
    --------
    >>> from skpref.data import from_winners
    >>> battles = {"model_a": ["x", "y"], "model_b": ["y", "z"], "winner": ["model_b", "tie (bothbad)"]}
    >>> rows = from_winners(battles, left="model_a", right="model_b")
    >>> rows.X.tolist(), rows.y.tolist()
    ([['x', 'y'], ['y', 'z']], [0.0, 0.5])
    >>> matches = {"winner_name": ["ann", "bob"], "loser_name": ["bob", "cleo"]}
    >>> from_winners(matches, winner="winner_name", loser="loser_name").y.tolist()
    [1.0, 1.0]
    """
    answer = (left, right, winner) if loser is None else (winner, loser)
    words = (left, right, winner) if loser is None else None
    reader = _complete(frame, missing, (*answer, user), (sample_weight, *covariates), words=words)
    if loser is not None:
        first, second = reader.ids(winner), reader.ids(loser)
        y = np.ones(first.size)
    else:
        first, second = reader.ids(left), reader.ids(right)
        y = reader.labels(winner, (left, first), (right, second))
    return _rows(reader, (first, second), y, user, sample_weight, covariates)


def from_results(
    frame: Frame,
    left: str = "left",
    right: str = "right",
    score: str | tuple[str, str] = "score",
    *,
    user: str | None = None,
    sample_weight: str | None = None,
    covariates: Sequence[str | tuple[str, str]] = (),
    missing: Missing = "raise",
) -> ComparisonRows:
    """Read a table of scores: the higher one wins, equal ones are a tie.

    Parameters
    ----------
    frame : data frame of pandas or polars, pyarrow Table, or dict of str to sequence
        One row for each comparison.
    left, right : str, default="left", "right"
        Columns of the two items.
    score : str or (str, str), default="score"
        Column of the left score minus the right one, or of both as text, such as 2-1 or 2:1; or the two columns of the
        left and of the right score, which may hold votes, goals, or 1 for the winner and 0 for the others.
    user, sample_weight : str, default=None
        Columns of the users and of the weights, as in `from_winners`.
    covariates : sequence of str or (str, str), default=()
        Columns of numbers, as in `from_winners`.
    missing : {"raise", "drop"}, default="raise"
        What to do with a row that lacks a cell, as in `from_winners`.

    Returns
    -------
    ComparisonRows
        What `fit` takes: X, y, sample_weight, covariates.

    Raises
    ------
    DataError
        If a column, an id or a score is missing.

    Examples
    --------
    >>> from skpref.data import from_results
    >>> games = {"home": ["ajax", "psv"], "away": ["psv", "ajax"], "goals": [3, 0], "against": [1, 0]}
    >>> from_results(games, "home", "away", ("goals", "against")).y.tolist()
    [1.0, 0.5]
    >>> from_results(games | {"score": ["3-1", "0-0"]}, "home", "away").y.tolist()
    [1.0, 0.5]
    """
    reader = _complete(frame, missing, (left, right, user), (score, sample_weight, *covariates))
    first, second = reader.ids(left), reader.ids(right)
    y = 0.5 + 0.5 * np.sign(reader.margins(score))
    return _rows(reader, (first, second), y, user, sample_weight, covariates)


def from_choices(
    frame: Frame,
    offered: Sequence[str],
    chosen: str = "chosen",
    *,
    worst: str | None = None,
    user: str | None = None,
    sample_weight: str | None = None,
    missing: Missing = "raise",
) -> ComparisonRows:
    """Read a table of choices: one of several items was chosen; in best-worst scaling (MaxDiff), the worst one, too.

    The chosen item won against each of the other k - 1. These comparisons share one answer, so each has the weight 2 /
    k. Together they then carry as much information about the utilities as the choice, if it follows Luce's rule and the
    items have similar utilities. The worst item is a choice among the k - 1 others: it lost to each of them, with the
    weight 2 / (k - 1).

    Parameters
    ----------
    frame : data frame of pandas or polars, pyarrow Table, or dict of str to sequence
        One row for each choice.
    offered : sequence of str
        Columns of the items offered, two at least. A cell may be empty where fewer were offered.
    chosen : str, default="chosen"
        Column of the choice, or of the best item: an id, or the name of the column that has it.
    worst : str, default=None
        Column of the worst item, in best-worst scaling: an id, or the name of the column that has it.
    user, sample_weight : str, default=None
        Columns of the users and of the weights, as in `from_winners`.
    missing : {"raise", "drop"}, default="raise"
        What to do with a row without an answer, as in `from_winners`.

    Returns
    -------
    ComparisonRows
        What `fit` takes: X, y (which is 1 everywhere), sample_weight, and no covariates.

    Raises
    ------
    DataError
        If a column is missing, the choice is none of the items offered, or the worst item is also the best.

    Warns
    -----
    DataWarning
        If choices may be positions: 1 for the first column, and so on. They are read as items.

    Examples
    --------
    >>> from skpref.data import from_choices
    >>> menus = {"a": ["tea", "milk"], "b": ["milk", "water"], "c": ["water", None], "chosen": ["tea", "b"]}
    >>> rows = from_choices(menus, ["a", "b", "c"])
    >>> rows.X.tolist(), rows.sample_weight.round(2).tolist()
    ([['tea', 'milk'], ['tea', 'water'], ['water', 'milk']], [0.67, 0.67, 1.0])
    >>> sets = {"a": ["tea"], "b": ["milk"], "c": ["water"], "best": ["tea"], "worst": ["water"]}
    >>> from_choices(sets, ["a", "b", "c"], "best", worst="worst").X.tolist()
    [['tea', 'milk'], ['tea', 'water'], ['milk', 'water']]
    """
    reader = _complete(frame, missing, (chosen, worst, user), (sample_weight,))
    best = reader.choices(chosen, offered)
    lowest = [None] * len(best) if worst is None else reader.choices(worst, offered)
    pairs, origin, share = [], [], []
    for row, (items, top, last) in enumerate(zip(reader.lists(offered), best, lowest, strict=True)):
        place = f"row {reader.row_of(row)}"
        if last == top:
            raise DataError(
                f"columns {chosen!r} and {worst!r}: {shorten(top)} is both the best and the worst in {place}"
            )
        others = [item for item in items if item is not None and item != top]
        _check_distinct([item for item in items if item is not None], place)
        between = [item for item in others if item != last] if last is not None else []
        pairs += [(top, other) for other in others] + [(other, last) for other in between]
        origin += [row] * (len(others) + len(between))
        share += [2.0 / (len(others) + 1)] * len(others) + [2.0 / (len(between) + 1)] * len(between)
    rows = np.array(origin, dtype=np.int64)
    return _pairs_of_rows(reader, pairs, np.ones(len(pairs)), rows, reader.weights(sample_weight)[rows] * share, user)


def from_rankings(
    frame: Frame,
    columns: Sequence[str] | None = None,
    *,
    item_ranks: Sequence[str] | Mapping[str, Any] | None = None,
    item: str = "item",
    rank: str = "rank",
    by: str | None = None,
    user: str | None = None,
    sample_weight: str | None = None,
    missing: Missing = "raise",
) -> ComparisonRows:
    """Read rankings: every item won against those behind it.

    All pairs of a ranking of k items share its noise, so each has the weight 3 / (k + 1). Together they then carry as
    much information about the utilities as the ranking, to within 2 %, if the items have similar utilities and their
    noise is normal.

    Parameters
    ----------
    frame : data frame of pandas or polars, pyarrow Table, or dict of str to sequence
        One row for each ranking, with `columns` or `item_ranks`; or one row for each item of a ranking, with `by`.
    columns : sequence of str, default=None
        Columns of the items of a ranking, the best first. Cells at the end may be empty.
    item_ranks : sequence of str, or dict of str to id, default=None
        Columns of ranks, one for each item, as surveys export ranking questions. The name of a column is the id of its
        item; a dict gives other ids. Items without a rank are left out of a ranking.
    item, rank : str, default="item", "rank"
        With `by`: columns of the item and of its rank. 1 is the best, equal ranks are a tie.
    by : str, default=None
        Column that tells the rankings apart, such as the race.
    user, sample_weight : str, default=None
        Columns of the users and of the weights, as in `from_winners`; of a ranking, those of its first row are used.
    missing : {"raise", "drop"}, default="raise"
        What to do with a row that lacks a cell, as in `from_winners`. With `by`, a rank that is no number, such as DNF,
        is missing, too: that item is left out of that ranking.

    Returns
    -------
    ComparisonRows
        What `fit` takes: X, y, sample_weight, and no covariates.

    Raises
    ------
    DataError
        If a column or a rank is missing, or not exactly one of `columns`, `item_ranks` and `by` is given.

    Warns
    -----
    DataWarning
        If the cells of `columns` look like ranks, which belong to `item_ranks`.

    Examples
    --------
    >>> from skpref.data import from_rankings
    >>> from_rankings({"1st": ["tea"], "2nd": ["milk"], "3rd": ["water"]}, ["1st", "2nd", "3rd"]).X.tolist()
    [['tea', 'milk'], ['tea', 'water'], ['milk', 'water']]
    >>> survey = {"Q5_tea": [1, 2], "Q5_milk": [2, 1]}
    >>> rows = from_rankings(survey, item_ranks={"Q5_tea": "tea", "Q5_milk": "milk"})
    >>> rows.X.tolist(), rows.y.tolist()
    ([['tea', 'milk'], ['tea', 'milk']], [1.0, 0.0])
    >>> races = {"race": [1, 1, 2, 2], "driver": ["ann", "bob", "bob", "cleo"], "place": [1, 2, 1, 1]}
    >>> from_rankings(races, by="race", item="driver", rank="place").y.tolist()
    [1.0, 0.5]
    """
    if sum(layout is not None for layout in (columns, item_ranks, by)) != 1:
        raise DataError(
            "from_rankings needs one of columns (items, the best first), item_ranks (a column of ranks for each item) "
            "and by (one row for each item)"
        )
    each = () if by is None else (by, item)
    ranks = None if by is None else rank
    reader = _complete(frame, missing, (*each, user), (sample_weight,), ranks=ranks)
    if columns is not None:
        groups = _listed(reader, columns)
    elif item_ranks is not None:
        groups = _ranked(reader, item_ranks)
    else:
        ids, place = reader.ids(item).tolist(), reader.ranks(rank)
        members: dict[Any, list[int]] = {}
        for row, group in enumerate(reader.ids(str(by)).tolist()):
            members.setdefault(group, []).append(row)
        groups = [(rows[0], [ids[row] for row in rows], place[rows]) for rows in members.values()]
        for group, (row, items, _) in zip(members, groups, strict=True):
            _check_distinct(items, f"{shorten(group)}, which begins in row {reader.row_of(row)}")
    weight = reader.weights(sample_weight)
    total = sum(len(items) * (len(items) - 1) // 2 for _, items, _ in groups)
    if total > _MOST_PAIRS:
        raise DataError(f"the rankings make {total} comparisons, more than {_MOST_PAIRS}; keep the top of each ranking")
    pairs, labels, origin = [], [np.empty(0)], [np.empty(0, dtype=np.int64)]
    for row, items, place_of in groups:
        a, b = np.triu_indices(len(items), 1)
        pairs += [(items[i], items[j]) for i, j in zip(a.tolist(), b.tolist(), strict=True)]
        labels.append(0.5 + 0.5 * np.sign(place_of[b] - place_of[a]))
        origin.append(np.full(a.size, row))
        weight[row] *= 3.0 / (len(items) + 1)
    rows_of_pairs = np.concatenate(origin)
    return _pairs_of_rows(reader, pairs, np.concatenate(labels), rows_of_pairs, weight[rows_of_pairs], user)


def _check_distinct(items: list[Any], place: str) -> None:
    """Refuse an item that a choice or a ranking has twice."""
    if not all(isinstance(item, Hashable) for item in items):
        return  # it is no id, which is said later
    for item, count in Counter(items).items():
        if count > 1:
            raise DataError(f"item {shorten(item)} occurs twice in {place}")


def _listed(reader: TableReader, columns: Sequence[str]) -> list[Group]:
    """Return rankings of items in columns, the best first."""
    rows = [[cell for cell in items if cell is not None] for items in reader.lists(columns)]
    for row, items in enumerate(rows):
        _check_distinct(items, f"row {reader.row_of(row)}")
    ranks = [{_number(cell) for cell in items} for items in rows]
    if len(set(map(tuple, rows))) > 1 and all(cells == set(range(1, len(columns) + 1)) for cells in ranks):
        warn(
            f"The cells of {shorten(list(columns))} are 1 to {len(columns)} in every row. If each column is an item "
            "and its cells are ranks, pass item_ranks=[...] in the place of columns.",
            DataWarning,
        )
    return [(row, items, np.arange(float(len(items)))) for row, items in enumerate(rows)]


def _ranked(reader: TableReader, item_ranks: Sequence[str] | Mapping[str, Any]) -> list[Group]:
    """Return rankings from columns of ranks, one for each item."""
    items = list(item_ranks.values()) if isinstance(item_ranks, Mapping) else list(item_ranks)
    if isinstance(item_ranks, str) or len(items) < 2:
        raise DataError(f"item_ranks must name the columns of two items at least; got {item_ranks!r:.80}")
    _check_distinct(items, "item_ranks")
    ranks = np.column_stack([reader.ranks(name, allow_missing=True) for name in item_ranks])
    ranked = [np.flatnonzero(np.isfinite(places)) for places in ranks]
    return [(row, [items[i] for i in some], ranks[row, some]) for row, some in enumerate(ranked)]


# -------------------------------------------------------------------------------------------------------------- columns
class TableReader:
    """Columns of a table, by name; `leave_out` says how to leave incomplete rows out."""

    def __init__(self, frame: Frame, leave_out: str = LEAVE_OUT) -> None:
        refuse_collection(frame, "frame")
        names = column_names(frame)
        if names is None:
            raise DataError(f"frame must be a data frame or a dict of columns; got {type(frame).__name__}")
        self._frame, self.names, self._leave_out = frame, names, leave_out
        self._rows: list[int] | None = None  # None: all
        lengths = {str(name): len(frame[name]) for name in names} if isinstance(frame, Mapping) else {}
        if len(set(lengths.values())) > 1:
            raise DataError(f"the columns of frame have different lengths: {shorten(lengths)}")

    def row_of(self, row: int) -> int:
        """Return the row of the table, from 0, that a row of this reader is."""
        return row if self._rows is None else self._rows[row]

    def cells(self, name: Column) -> list[Cell]:
        """Return the values of a column, None where one is missing."""
        return [None if is_missing(cell) else cell for cell in _as_list(self._column(name))]

    def ids(self, name: Column, kind: str = "item") -> IdColumn:
        """Return a column of ids, shape (n,)."""
        column = self._column(name)
        cells = column.to_pylist() if hasattr(column, "to_pylist") else column
        return as_ids(cells, f"column {name!r}", "row", kind, self._leave_out)

    def lists(self, names: Sequence[str]) -> list[tuple[Any, ...]]:
        """Return the cells of several columns, row by row."""
        if isinstance(names, str) or len(names) < 2:
            raise DataError(f"two columns of items at least are needed; got {names!r:.80}")
        return list(zip(*(self.cells(name) for name in names), strict=True))

    def numbers(self, name: Column | tuple[Column, Column]) -> Array:
        """Return a column of numbers, or the difference between two, shape (n,)."""
        if isinstance(name, tuple):
            first, second = name
            return self.numbers(first) - self.numbers(second)
        column = self._column(name)
        if getattr(getattr(column, "dtype", None), "kind", "O") in "biuf":  # of numpy
            values = np.asarray(column, dtype=np.float64)
        else:
            values = np.array([_number(cell) for cell in self.cells(name)])
        if not np.isfinite(values).all():
            row = int(np.argmin(np.isfinite(values)))
            cell = self.cells(name)[row]
            advice = f"; {self._leave_out}" if lacks_number(cell) else ""
            raise DataError(
                f"column {name!r} must hold finite numbers; got {shorten(cell)} in row {self.row_of(row)}{advice}"
            )
        return values

    def margins(self, score: str | tuple[str, str]) -> Array:
        """Return the left score minus the right one, shape (n,)."""
        cells = [] if isinstance(score, tuple) else self.cells(score)
        margins = margins_of_scores(cells)
        if margins is None:
            return self.numbers(score)
        for row in np.flatnonzero(np.isnan(margins)).tolist():
            raise DataError(f"column {score!r}, row {self.row_of(row)}: {score_fault(cells[row])}")
        return margins

    def labels(self, winner: str, left: tuple[str, IdColumn], right: tuple[str, IdColumn]) -> Array:
        """Return labels of a column of winners, shape (n,)."""
        cells = self.cells(winner)
        if not all(isinstance(cell, Hashable) for cell in cells):
            raise DataError(f"column {winner!r} must hold ids or words; got {shorten(cells[0])}")
        y = labels_of_winners(cells, left[1], right[1], (left[0], right[0]))
        if np.isnan(y).any():
            row = int(np.argmax(np.isnan(y)))
            fault = winner_fault(cells[row], left[1][row], right[1][row])
            raise DataError(f"column {winner!r}, row {self.row_of(row)}: {fault}")
        return y

    def ranks(self, name: str, *, allow_missing: bool = False) -> Array:
        """Return a column of ranks, shape (n,); with `allow_missing`, NaN where a cell is empty."""
        cells = self.cells(name)
        values = np.array([_number(cell) for cell in cells])
        for row in np.flatnonzero(~np.isfinite(values)).tolist():
            if not allow_missing or (cells[row] is not None and str(cells[row]).strip()):
                leave = "an empty cell" if allow_missing else "missing='drop'"
                raise DataError(
                    f"column {name!r} must hold ranks, which are numbers; got {shorten(cells[row])} in row "
                    f"{self.row_of(row)}. "
                    f"Write a number larger than the other ranks, or leave the item out of this ranking by {leave}"
                )
        return values

    def choices(self, name: str, offered: Sequence[str]) -> list[Any]:
        """Return the item that was chosen in each row; a cell holds its id or the name of its column."""
        chosen, sets, cells = [], self.lists(offered), self.cells(name)
        advised = f"if it has positions, write the names of the columns, such as {offered[0]!r} for 1"
        may_be_places = _may_be_places(cells, sets, offered)
        for row, (items, cell) in enumerate(zip(sets, cells, strict=True)):
            choice = cell if cell in items else dict(zip(offered, items, strict=True)).get(cell)
            if choice is None:
                advice = f"; {self._leave_out}" if cell is None else f"; {advised}" if may_be_places else ""
                where = f"in row {self.row_of(row)}"
                raise DataError(f"column {name!r}: {shorten(cell)} {where} is none of the items offered{advice}")
            chosen.append(choice)
        if may_be_places:
            note = f"column {name!r} is read as items, not as positions; {advised}"
            warn(note, DataWarning)
        return chosen

    def without(self, incomplete: NDArray[np.bool_]) -> TableReader:
        """Return a reader of the other rows."""
        reader = TableReader(self._frame, self._leave_out)
        reader._rows = np.flatnonzero(~incomplete).tolist()
        return reader

    def weights(self, name: Column | None) -> Array:
        """Return a column of weights, or ones, shape (n,)."""
        n = len(self._column(self.names[0]))
        return np.ones(n) if name is None else read_weights(self.numbers(name), n).copy()

    def _column(self, name: Column) -> Sequence[Cell]:
        if not isinstance(name, Hashable):
            kind = type(name).__name__
            raise DataError(f"a column is given by its name; got a {kind}: put it into the frame, and give its name")
        if self.names.count(name) != 1:
            near = difflib.get_close_matches(str(name), [str(other) for other in self.names], n=1)
            hint = f"; did you mean {near[0]!r}?" if near else "."
            what = "there are two columns" if name in self.names else "there is no column"
            raise DataError(f"{what} {name!r}{hint} Found: {', '.join(map(str, self.names[:20]))}")
        column: Sequence[Cell] = self._frame[name]
        if self._rows is None:
            return column
        cells = _as_list(column)
        return [cells[row] for row in self._rows]


def _may_be_places(cells: list[Cell], sets: list[tuple[Any, ...]], offered: Sequence[str]) -> bool:
    """Tell whether choices may be positions, from 1, of which at least one is not also the item in that place."""
    places = {str(place): place for place in range(1, len(offered) + 1)}
    found = [None if cell is None else places.get(str(cell).removesuffix(".0")) for cell in cells]
    if any((place is None) != (cell is None) or cell in offered for place, cell in zip(found, cells, strict=True)):
        return False
    shown = [(cell, items[place - 1]) for place, items, cell in zip(found, sets, cells, strict=True) if place]
    return any(item is not None and item != cell for cell, item in shown)


def _as_list(column: Cell) -> Sequence[Cell]:
    """Return the values of a column of any frame."""
    method = next((m for m in ("to_pylist", "tolist", "to_list") if hasattr(column, m)), None)
    return column if method is None else getattr(column, method)()  # type: ignore[no-any-return]


def _number(cell: Cell) -> float:
    try:
        return float(cell)
    except (TypeError, ValueError, OverflowError):
        return np.nan


def _complete(
    frame: Frame,
    missing: Missing,
    columns: Sequence[str | None],
    numbers: Sequence[Any],
    *,
    ranks: str | None = None,
    words: tuple[str, str, str] | None = None,
) -> TableReader:
    """Read the rows with all cells in some columns, and text such as NA in none of numbers; `ranks` has numbers only.

    `words` are the columns of two items and of the winner, where NA may be an item.
    """
    if missing not in {"raise", "drop"}:
        raise DataError(f"missing must be 'raise' or 'drop'; got {missing!r:.80}")
    reader = TableReader(frame, "leave such rows out by missing='drop'")
    if missing == "raise":
        return reader
    flat = [name for entry in numbers for name in (entry if isinstance(entry, tuple) else (entry,))]
    lacking = [[cell is None for cell in reader.cells(name)] for name in columns if name is not None]
    lacking += [[lacks_number(cell) for cell in reader.cells(name)] for name in flat if name is not None]
    if ranks is not None:
        lacking += [[not math.isfinite(_number(cell)) for cell in reader.cells(ranks)]]
    if words is not None:
        items = {cell for name in words[:2] for cell in reader.cells(name) if isinstance(cell, str)}
        lacking += [[lacks_number(cell) and cell not in items for cell in reader.cells(words[2])]]
    return reader.without(np.any(lacking, axis=0)) if lacking else reader


def _rows(
    reader: TableReader,
    sides: tuple[IdColumn, IdColumn],
    y: Array,
    user: str | None,
    sample_weight: str | None,
    covariates: Sequence[str | tuple[str, str]],
) -> ComparisonRows:
    columns = sides if user is None else (reader.ids(user, "user"), *sides)
    if isinstance(covariates, str):
        raise DataError(f"covariates must be a list of columns, or of pairs of columns; got {covariates!r:.80}")
    C = np.column_stack([reader.numbers(name) for name in covariates]) if len(covariates) else None
    return ComparisonRows(np.column_stack(columns), y, reader.weights(sample_weight), C)


def _pairs_of_rows(
    reader: TableReader, pairs: list[tuple[Any, Any]], y: Array, origin: IntArray, weight: Array, user: str | None
) -> ComparisonRows:
    """Return pairs that come from rows of a table, each with its weight and the user of its row."""
    if not pairs:
        raise DataError("at least 1 comparison is required: no row has two items")
    left, right = (as_ids([pair[side] for pair in pairs], "items") for side in (0, 1))
    columns = (left, right) if user is None else (reader.ids(user, "user")[origin], left, right)
    return ComparisonRows(np.column_stack(columns), y, weight, None)
