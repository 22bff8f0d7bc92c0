"""Tables of comparisons as people keep them, and what `fit` takes: pairs or tasks, answers, weights, covariates."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from skpref._text import number
from skpref._validation import column_names, refuse_collection
from skpref._warn import warn
from skpref.data.columns import Columns
from skpref.data.ids import as_ids, shorten
from skpref.data.roles import ComparisonRows, Mirrored, Missing, Rest, Roles, read
from skpref.data.stored import whole_table
from skpref.exceptions import DataError

Frame: TypeAlias = Any  # of pandas, polars or pyarrow, or a dict of columns

_ALTERNATIVE = re.compile(r"#\s*ALTERNATIVE NAME\s+([0-9]+)\s*:(.*)", re.DOTALL)
_PLACE = r"\s*(?:[0-9]+|\{[0-9,\s]*\})\s*"  # 4, or {2,3} of equal rank, or {} of an empty category
_ORDER = re.compile(rf"\s*([0-9]+)\s*:({_PLACE}(?:,{_PLACE})*)")


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
    mirrored: Mirrored = "raise",
) -> ComparisonRows:
    """Read a table that names the winner of each comparison.

    Parameters
    ----------
    frame : data frame of pandas or polars, pyarrow Table, dict of str to sequence, or path to Parquet files
        One row for each comparison.
    left, right : str, default="left", "right"
        Columns of the two items.
    winner : str, default="winner"
        Column of the winner: the id of one of the two items; or a word for its side in upper or lower case: left,
        right; a, b; model_a, model_b; first, second; 1, 2; 1, -1; home, away; h, a; white, black; win, loss; true,
        false; 1-0, 0-1; the names of the two columns; or for none: tie, draw, both bad. "Home win" is read as home.
        Numbers from 0 to 1 are labels, as in `fit`. A column that can be read in two ways is refused.
    loser : str, default=None
        Column of the loser. With it, `winner` holds ids, and `left` and `right` are not read: rows are (winner, loser).
    user : str, default=None
        Column of the users, who become the first column of X.
    sample_weight : str, default=None
        Column of the weights; None: each row has weight 1.
    covariates : sequence of str or (str, str), default=()
        Columns of numbers that describe a comparison; a pair of columns is their difference. True and False are 1 and
        0.
    missing : {"raise", "drop"}, default="raise"
        What to do with a row that lacks an item, an answer, or another cell that is read, or has text such as NA for a
        number: raise an error, or leave the row out.
    mirrored : {"raise", "drop", "keep"}, default="raise"
        What to do if every comparison is listed for both sides, with the answer exchanged, as in tables with a row for
        each team of a game: raise an error; read each pair of rows once; or read both, as two independent answers.

    Returns
    -------
    ComparisonRows
        What `fit` takes, X, y, sample_weight, covariates, and `read_`, what was read.

    Raises
    ------
    DataError
        If a column is missing, an id is missing, a winner is neither of the two items nor a word for a side, the words
        have two readings, or comparisons are mirrored. The message names the column and the row, from 0.

    See Also
    --------
    from_results : Scores in place of the winner.
    from_counts : Counts of wins and ties.
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
    sides: dict[str, Any] = {"left": left, "right": right} if loser is None else {"loser": loser}
    rest = _common(user, sample_weight, covariates, mirrored)
    return _rows(frame, Roles(winner=winner, **sides, **rest), missing)


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
    mirrored: Mirrored = "raise",
    margins: float | None = None,
) -> ComparisonRows:
    """Read a table of scores of games: the higher one wins, equal ones are a tie; or by how much it wins.

    Parameters
    ----------
    frame : data frame of pandas or polars, pyarrow Table, dict of str to sequence, or path to Parquet files
        One row for each game.
    left, right : str, default="left", "right"
        Columns of the two items.
    score : str or (str, str), default="score"
        Column of the left score minus the right one, or of both as text, such as 2-1 or 2:1; or the two columns of the
        left and of the right score of one game. How much higher a score is counts with `margins` only; counts of wins
        or votes are read by `from_counts`.
    user, sample_weight : str, default=None
        Columns of the users and of the weights, as in `from_winners`.
    covariates : sequence of str or (str, str), default=()
        Columns of numbers, as in `from_winners`.
    missing : {"raise", "drop"}, default="raise"
        What to do with a row that lacks a cell, as in `from_winners`.
    mirrored : {"raise", "drop", "keep"}, default="raise"
        What to do with games that are listed for both teams, as in `from_winners`.
    margins : float, default=None
        Largest margin, such as 3 goals: `y` is then the left score minus the right one, and larger margins count as
        this one, for ``likelihood="logit-graded"``. ``np.inf``: no limit, for ``likelihood="margin"``. None: `y` says
        who won.

    Returns
    -------
    ComparisonRows
        What `fit` takes, X, y, sample_weight, covariates, and `read_`, what was read.

    Raises
    ------
    DataError
        If a column, an id or a score is missing, a single column of margins is never negative, or `margins` is no
        positive number.

    Warns
    -----
    DataWarning
        If the names of the columns of scores look like counts of wins or votes.

    Examples
    --------
    >>> from skpref.data import from_results
    >>> games = {"home": ["ajax", "psv"], "away": ["psv", "ajax"], "goals": [3, 0], "against": [1, 0]}
    >>> from_results(games, "home", "away", ("goals", "against")).y.tolist()
    [1.0, 0.5]
    >>> from_results(games | {"score": ["3-1", "0-0"]}, "home", "away").y.tolist()
    [1.0, 0.5]
    >>> from_results(games, "home", "away", ("goals", "against"), margins=3).y.tolist()
    [2.0, 0.0]
    """
    if margins is not None and not number(margins) > 0.0:
        raise DataError(f"margins must be the largest margin that counts, a positive number; got {shorten(margins)}")
    scores = tuple(score) if isinstance(score, tuple | list) else (score,)
    rest = _common(user, sample_weight, covariates, mirrored)
    return _rows(frame, Roles(left=left, right=right, scores=scores, margins=margins, **rest), missing)


def from_counts(
    frame: Frame,
    left: str = "left",
    right: str = "right",
    counts: tuple[str, str] | tuple[str, str, str] = ("wins", "losses"),
    *,
    user: str | None = None,
    sample_weight: str | None = None,
    missing: Missing = "raise",
) -> ComparisonRows:
    """Read a table of counts: how often the left item won, how often it lost, and perhaps the ties.

    Parameters
    ----------
    frame : data frame of pandas or polars, pyarrow Table, dict of str to sequence, or path to Parquet files
        One row for each pair of items, perhaps of each user; or one row for each comparison, with a flag of 1 in one of
        the columns.
    left, right : str, default="left", "right"
        Columns of the two items.
    counts : (str, str) or (str, str, str), default=("wins", "losses")
        Columns of the wins of the left item, of the right one, and of the ties.
    user, sample_weight : str, default=None
        Columns of the users and of the weights, as in `from_winners`; weights multiply counts.
    missing : {"raise", "drop"}, default="raise"
        What to do with a row that lacks a cell, as in `from_winners`.

    Returns
    -------
    ComparisonRows
        A row for each count above 0, which is its weight.

    Raises
    ------
    DataError
        If a column or a cell is missing, or a count is negative.

    Examples
    --------
    >>> from skpref.data import from_counts
    >>> journals = {"left": ["Biometrika", "JASA"], "right": ["JASA", "JRSS-B"]}
    >>> journals |= {"wins": [730, 221], "losses": [498, 0]}
    >>> rows = from_counts(journals)
    >>> rows.y.tolist(), rows.sample_weight.tolist()
    ([1.0, 0.0, 1.0], [730.0, 498.0, 221.0])
    """
    roles = Roles(left=left, right=right, counts=tuple(counts), user=user, weight=sample_weight)
    return _rows(frame, roles, missing)


def from_win_matrix(matrix: ArrayLike, items: ArrayLike | None = None) -> ComparisonRows:
    """Read a square matrix of wins: entry (i, j) counts how often item i won against item j.

    Parameters
    ----------
    matrix : array-like of shape (n_items, n_items)
        Counts >= 0. The diagonal must be 0 or empty. A data frame may name the items by its columns.
    items : array-like of shape (n_items,), default=None
        Ids of the items; None: the names of the columns of a data frame, else the numbers of the rows.

    Returns
    -------
    ComparisonRows
        A row for each entry above 0, which is its weight; the left item won.

    Raises
    ------
    DataError
        If the matrix is not square, has a count of an item against itself, or a negative or infinite count.

    Examples
    --------
    >>> from skpref.data import from_win_matrix
    >>> rows = from_win_matrix([[0, 3], [1, 0]], ["ann", "bob"])
    >>> rows.X.tolist(), rows.sample_weight.tolist()
    ([['ann', 'bob'], ['bob', 'ann']], [3.0, 1.0])
    """
    frame: Any = matrix
    names: Any = getattr(frame, "columns", None) if items is None else items
    if items is None and names is not None and hasattr(frame, "index"):  # of pandas
        rows = list(frame.index)
        if rows not in (list(names), list(range(len(rows)))):
            both = f"{shorten(rows)} and {shorten(list(names))}"
            raise DataError(f"rows and columns of matrix have other names, or another order: {both}; or pass items")
    try:
        wins = np.asarray(matrix, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"matrix must hold counts of wins, which are numbers: {error}") from error
    if wins.ndim != 2 or wins.shape[0] != wins.shape[1]:
        raise DataError(f"matrix must be square, items by items; got shape {wins.shape}")
    ids = np.arange(wins.shape[0]) if names is None else as_ids(list(names), "items", "row")
    if ids.size != wins.shape[0]:
        raise DataError(f"items must have one id for each of the {wins.shape[0]} rows of matrix; got {ids.size} ids")
    wins = np.where(np.isnan(wins), 0.0, wins)
    for i, j in np.argwhere((wins < 0.0) | np.isinf(wins) | (np.eye(ids.size, dtype=bool) & (wins != 0.0)))[
        :1
    ].tolist():
        got = f"{wins[i, j]:g} for {shorten(ids[i])} against {shorten(ids[j])}"
        raise DataError(f"matrix counts wins of rows against columns, >= 0 and none on the diagonal; got {got}")
    i, j = np.nonzero(wins)
    if i.size and np.allclose((wins + wins.T)[i, j], 1.0) and np.any(2.0 * wins % 1.0):
        what = "matrix seems to hold shares of wins, which add up to 1: each pair then counts as one comparison"
        warn(f"{what}, and intervals are too wide. Multiply it by the numbers of comparisons.")
    table = {"left": ids[i], "right": ids[j], "wins": wins[i, j], "losses": np.zeros(i.size)}
    return from_counts(table)


def from_pair_columns(
    frame: Frame,
    pairs: Mapping[str, tuple[Any, Any]],
    *,
    user: str | None = None,
    sample_weight: str | None = None,
    missing: Missing = "raise",
) -> ComparisonRows:
    """Read a survey with one column for each pair of items, and one row for each person.

    Parameters
    ----------
    frame : data frame of pandas or polars, pyarrow Table, dict of str to sequence, or path to Parquet files
        One row for each person. A cell says who won, in the ways of `from_winners`, such as 1 and 2, or 1, 0 and -1
        where 0 is a tie, or the id of an item. An empty cell is no answer.
    pairs : dict of str to (id, id)
        The left and the right item of each column.
    user, sample_weight : str, default=None
        Columns of the users and of the weights, as in `from_winners`.
    missing : {"raise", "drop"}, default="raise"
        What to do with a row without a user or a weight.

    Returns
    -------
    ComparisonRows
        A row for each answer.

    Raises
    ------
    DataError
        If a column is missing, or a cell says nothing about its pair.

    Examples
    --------
    >>> from skpref.data import from_pair_columns
    >>> survey = {"tea_milk": [1, 2], "tea_water": [1, None]}
    >>> rows = from_pair_columns(survey, {"tea_milk": ("tea", "milk"), "tea_water": ("tea", "water")})
    >>> rows.X.tolist(), rows.y.tolist()
    ([['tea', 'milk'], ['tea', 'milk'], ['tea', 'water']], [1.0, 0.0, 1.0])
    """
    if not isinstance(pairs, Mapping) or not all(isinstance(p, tuple | list) and len(p) == 2 for p in pairs.values()):
        raise DataError(f'pairs must be a dict such as {{"q1": ("tea", "milk")}}; got {shorten(pairs)}')
    roles = Roles(pairs={name: tuple(pair) for name, pair in pairs.items()}, user=user, weight=sample_weight)
    return _rows(frame, roles, missing)


def from_choices(
    frame: Frame,
    offered: Sequence[str],
    chosen: str | None = "chosen",
    *,
    worst: str | None = None,
    user: str | None = None,
    sample_weight: str | None = None,
    covariates: Mapping[str, Sequence[str]] | None = None,
    missing: Missing = "raise",
) -> ComparisonRows:
    """Read a table of choices: one of several items was chosen; in best-worst scaling (MaxDiff), the worst one, too.

    Each choice is one row, a task, for `CrowdGPPL` and `GPPLClassifier`: the user and the items offered, None where
    there are fewer. Choices among items with attributes, such as prices, which have no ids, are read by `from_tasks`.

    Parameters
    ----------
    frame : data frame of pandas or polars, pyarrow Table, dict of str to sequence, or path to Parquet files
        One row for each choice.
    offered : sequence of str
        Columns of the items offered, two at least. A cell may be empty where fewer were offered.
    chosen : str, default="chosen"
        Column of the choice, or of the best item: an id, the name of the column that has it, or, where no item has
        such an id, the position of the column, from 1 or by the letters from A.
    worst : str, default=None
        Column of the worst item, in best-worst scaling, written in the same ways. One of the two cells of a row may be
        empty; ``chosen=None``: only the worst item is known.
    user, sample_weight : str, default=None
        Columns of the users and of the weights, as in `from_winners`.
    covariates : dict of str to sequence of str, default=None
        Columns of numbers that describe the items offered in this choice, one for each of the columns `offered`:
        ``{"price": ["price_a", "price_b"]}``.
    missing : {"raise", "drop"}, default="raise"
        What to do with a row without an answer, as in `from_winners`.

    Returns
    -------
    ComparisonRows
        What `fit` takes: X, y, sample_weight, covariates, and `read_`, what was read. y has the items chosen, or the
        best and the worst one, shape (n, 2). Where these may be labels, such as 1, 2 and "a", y has ranks for one
        choice: 1 for the item chosen and 2 for the others.

    Raises
    ------
    DataError
        If a column or covariate is missing, the choice is none of the items offered, or the best item is the worst.

    Warns
    -----
    DataWarning
        If choices are read as items, but may be positions: 1 for the first column, and so on.

    Examples
    --------
    >>> from skpref.data import from_choices
    >>> menus = {"a": ["tea", "milk"], "b": ["milk", "water"], "c": ["water", None]}
    >>> menus["chosen"] = ["tea", "b"]
    >>> rows = from_choices(menus, ["a", "b", "c"])
    >>> rows.X.tolist(), rows.y.tolist()
    ([['tea', 'milk', 'water'], ['milk', 'water', None]], ['tea', 'water'])
    >>> sets = {"a": ["tea"], "b": ["milk"], "c": ["water"], "best": ["tea"], "worst": ["water"]}
    >>> from_choices(sets, ["a", "b", "c"], "best", worst="worst").y.tolist()
    [['tea', 'water']]
    """
    common = _task_roles(user, sample_weight, covariates)
    return _rows(frame, Roles(offered=_names(offered), chosen=chosen, worst=worst, **common), missing)


def from_rankings(
    frame: Frame,
    columns: Sequence[str] | None = None,
    *,
    item_ranks: Sequence[str] | Mapping[str, Any] | None = None,
    item_ratings: Sequence[str] | Mapping[str, Any] | None = None,
    item: str = "item",
    rank: str = "rank",
    by: str | None = None,
    rest: Rest | None = None,
    unranked: Sequence[float | str] | None = None,
    user: str | None = None,
    sample_weight: str | None = None,
    covariates: Mapping[str, Sequence[str]] | Sequence[str] | None = None,
    missing: Missing = "raise",
) -> ComparisonRows:
    """Read rankings of several items: each is one row, a task.

    Parameters
    ----------
    frame : data frame of pandas or polars, pyarrow Table, dict of str to sequence, or path to Parquet files
        One row for each ranking; or, with `by`, one row for each item of a ranking.
    columns : sequence of str, default=None
        Columns of the items of a ranking, the best first. Cells at the end may be empty.
    item_ranks : sequence of str, or dict of str to id, default=None
        Columns of ranks, one for each item; their names are the ids of the items, or a dict gives others.
    item_ratings : sequence of str, or dict of str to id, default=None
        Columns of ratings or grades, one for each item: the higher one is the better rank, equal ones are a tie.
    item, rank : str, default="item", "rank"
        With `by`: columns of the item and of its rank. 1 is the best, equal ranks are a tie.
    by : str, default=None
        Column that tells the rankings apart, such as the race. Each user has rankings of the user's own.
    rest : {"unknown", "lost"}, default=None
        What is known about the items that a ranking does not name: nothing; or that they lost against those that it
        names, as in a top three of all items. None: unknown; rankings of one item, which then say nothing, are refused,
        or with `item_ratings` and `by` left out.
    unranked : sequence of float or str, default=None
        Ranks that mean "not ranked", such as 0, 99 or "DNF"; with `columns`, cells that name no item, such as 0 or
        "undervote". None: cells that may mean this are refused; []: all are ranks or items.
    user, sample_weight : str, default=None
        Columns of the users and of the weights, as in `from_winners`; with `by`, equal in all rows of a ranking.
    covariates : sequence of str, or dict of str to sequence of str, default=None
        With `by`: columns of numbers that describe an item in its ranking, such as the place at the start of a race.
        Otherwise, as in `from_choices`, columns for each of `columns`, `item_ranks` or `item_ratings`.
    missing : {"raise", "drop"}, default="raise"
        What to do with a row that lacks a cell, as in `from_winners`. With `by`, a rank that is no number, such as DNF,
        is missing, too: that item is left out of that ranking.

    Returns
    -------
    ComparisonRows
        What `fit` takes, X, y, sample_weight, covariates, and `read_`, what was read. y has ranks of the items in a row
        of X, NaN for items behind all others.

    Raises
    ------
    DataError
        If a column or a rank is missing, a rank may be a code for "not ranked", a ranking names one item and `rest` is
        not given, or not exactly one of `columns`, `item_ranks`, `item_ratings` and `by` is given.

    Warns
    -----
    DataWarning
        If the cells of `columns` look like ranks, which belong to `item_ranks`.

    Examples
    --------
    >>> from skpref.data import from_rankings
    >>> votes = {"1st": ["tea"], "2nd": ["milk"], "3rd": ["water"]}
    >>> from_rankings(votes, ["1st", "2nd", "3rd"]).X.tolist()
    [['tea', 'milk', 'water']]
    >>> from_rankings({"Q5_tea": [1, 2], "Q5_milk": [2, 1]}, item_ranks=["Q5_tea", "Q5_milk"]).y.tolist()
    [[1.0, 2.0], [2.0, 1.0]]
    >>> races = {"race": [1, 1, 2, 2], "driver": ["ann", "bob", "bob", "cleo"], "place": [1, 2, 2, 1]}
    >>> from_rankings(races, by="race", item="driver", rank="place").y.tolist()
    [[1.0, 2.0], [2.0, 1.0]]
    """
    if sum(layout is not None for layout in (columns, item_ranks, item_ratings, by)) != 1:
        wanted = "columns (items, the best first), item_ranks or item_ratings (a column for each item) and by (one row"
        raise DataError(f"from_rankings needs one of {wanted} for each item)")
    if rest not in {None, "unknown", "lost"}:
        raise DataError(f"rest must be 'unknown' or 'lost'; got {shorten(rest)}")
    layout: dict[str, Any] = {"task": (by,), "item": (item,), "rank": rank}
    if columns is not None:
        layout = {"ranking": _names(columns)}
    for role, named in (("item_ranks", item_ranks), ("item_ratings", item_ratings)):
        if named is not None:
            layout = {role: named if isinstance(named, Mapping) else {name: name for name in _names(named)}}
    if isinstance(unranked, str) or not isinstance(unranked, Iterable | None):
        raise DataError(f"unranked must be a list, such as unranked=[{shorten(unranked)}]; got {shorten(unranked)}")
    codes = None if unranked is None else tuple(unranked)
    common = _task_roles(user, sample_weight, covariates, by)
    return _rows(frame, Roles(**layout, rest=rest, unranked=codes, **common), missing)


def from_preflib(path: str | PathLike[str], *, rest: Rest | None = None) -> ComparisonRows:
    r"""Read a file of rankings of PrefLib: .soc, .soi, .toc or .toi.

    Parameters
    ----------
    path : str or path
        The file: lines of a count and a ranking, with braces around items of equal rank.
    rest : {"unknown", "lost"}, default=None
        What is known about items that a ranking does not name, as in `from_rankings`.

    Returns
    -------
    ComparisonRows
        A task for each ranking, weighted by its count.

    Raises
    ------
    DataError
        If the file is none of PrefLib's, or a line cannot be read.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from skpref.data import from_preflib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "drinks.toi")
    >>> _ = path.write_text("# ALTERNATIVE NAME 1: tea\n# ALTERNATIVE NAME 2: milk\n12: 1,2\n3: 2,1\n")
    >>> rows = from_preflib(path)
    >>> rows.X.tolist(), rows.y.tolist(), rows.sample_weight.tolist()
    ([['tea', 'milk'], ['tea', 'milk']], [[1.0, 2.0], [2.0, 1.0]], [12.0, 3.0])
    """
    with Path(path).open(encoding="utf-8") as file:
        table, _ = read_preflib(file)
    names = [name for name in table if name != "count"]
    return from_rankings(table, item_ranks=names, rest=rest, sample_weight="count")


def read_preflib(lines: Iterable[str]) -> tuple[dict[str, list[int | None]], list[int]]:
    """Return columns of ranks by alternative and one of numbers of voters, `count`; and the line of each order."""
    names: dict[int, str] = {}
    counts: list[int | None] = []
    orders: list[dict[int, int]] = []
    places: list[int] = []
    for place, line in enumerate(lines, 1):
        if match := _ALTERNATIVE.match(line):
            names[int(match[1])] = match[2].strip()
        elif line.strip() and not line.startswith("#"):
            count, ranks = _order(line, place, names)
            counts.append(count)
            orders.append(ranks)
            places.append(place)
    columns: dict[str, list[int | None]] = {}
    for alternative, name in names.items():
        if not name or name in {*columns, "count"}:
            raise DataError(f"alternative {alternative}: the name {name!r} is empty, or has another meaning; change it")
        columns[name] = [ranks.get(alternative) for ranks in orders]
    return {**columns, "count": counts}, places


def _order(line: str, number: int, names: dict[int, str]) -> tuple[int, dict[int, int]]:
    """Return the number of voters of a line, and the rank of each alternative that they ranked."""
    match = _ORDER.fullmatch(line)
    if match is None:
        got = repr(line.strip()[:60])
        raise DataError(f"line {number}: expected a number of voters and their order, such as 5: 1,{{2,3}}; got {got}")
    ranks: dict[int, int] = {}
    for rank, place in enumerate(re.findall(r"\{[^}]*\}|[0-9]+", match[2]), 1):
        for alternative in map(int, re.findall("[0-9]+", place)):
            if alternative not in names or alternative in ranks:
                why = "is ranked twice" if alternative in names else "has no line # ALTERNATIVE NAME"
                raise DataError(f"line {number}: alternative {alternative} {why}")
            ranks[alternative] = rank
    return int(match[1]), ranks


def _names(columns: Any) -> tuple[Any, ...]:
    """Return names of columns of items as a tuple."""
    if isinstance(columns, str) or not isinstance(columns, Iterable):
        raise DataError(f"two columns of items at least are needed; got {columns!r:.80}")
    names = tuple(columns)
    if any(names.count(name) > 1 for name in names):
        raise DataError(f"a column is named twice among those of items: {shorten(list(names))}")
    return names


def _terms(covariates: Any) -> tuple[Any, ...]:
    """Return columns of covariates, or the columns of each, as a tuple."""
    if isinstance(covariates, str) or not isinstance(covariates, Iterable):
        raise DataError(f"covariates must be a list of columns, or of pairs of columns; got {covariates!r:.80}")
    return tuple(
        term if isinstance(term, str) or not isinstance(term, Iterable) else tuple(term) for term in covariates
    )


def _common(user: Any, weight: Any, covariates: Any, mirrored: Any) -> dict[str, Any]:
    """Return the roles that tables of one comparison in a row share."""
    if mirrored not in {"raise", "drop", "keep"}:
        raise DataError(f"mirrored must be 'raise', 'drop' or 'keep'; got {shorten(mirrored)}")
    return {"user": user, "weight": weight, "covariates": _terms(covariates), "mirrored": mirrored}


def _task_roles(user: Any, weight: Any, covariates: Any, by: Any = None) -> dict[str, Any]:
    """Return the roles that tables of choices and rankings share; covariates have columns for each position."""
    if covariates is None or isinstance(covariates, Mapping) == (by is None):
        terms = () if covariates is None else _terms(covariates if by is not None else covariates.values())
        return {"user": user, "weight": weight, "covariates": terms}
    wanted = 'a dict such as {"price": ["price_1", "price_2", ...]}' if by is None else "a list of columns, with by=..."
    raise DataError(f"covariates must be {wanted}; got {shorten(covariates)}")


def _rows(frame: Frame, roles: Roles, missing: Missing) -> ComparisonRows:
    """Return what `fit` takes of a table with these roles."""
    refuse_collection(frame, "frame")
    frame = whole_table(frame)
    if not isinstance(frame, Columns) and column_names(frame) is None:
        raise DataError(f"frame must be a data frame or a dict of columns; got {type(frame).__name__}")
    rows = read(frame, roles, missing)
    X = np.column_stack(rows.items if rows.user is None else (rows.user, *rows.items))
    y = np.ones(rows.weight.size) if rows.y is None else rows.y
    return ComparisonRows(X, y, rows.weight, rows.covariates, rows.read_, rows.origin)
