"""The layouts of files of comparisons: which columns hold the two items, and who won."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from skpref._text import lacks_number
from skpref.cli.advice import as_options
from skpref.cli.files import USERS, is_number, say_left_out, say_note
from skpref.cli.tasks.base import weight_column
from skpref.cli.tasks.doubts import notes_on_covariate, score_of_one_side
from skpref.cli.tasks.grids import item_columns, say_items
from skpref.data import Table, from_choices, from_rankings
from skpref.data.winners import labels_of_winners, margins_of_scores, score_fault, winner_fault
from skpref.exceptions import DataError, DataWarning

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from skpref._typing import Array, IntArray
    from skpref.cli.files import Sheet
    from skpref.cli.options import Data, Predict
    from skpref.data.frames import ComparisonRows

_COLUMNS = (
    "A file of comparisons has the columns left, right and label; or model_a, model_b and winner; or winner and loser; "
    "others are named by --left, --right, --label, --winner, --loser and --score"
)
_LABEL = "1 = left preferred, 0 = right preferred, 0.5 = a tie"


class Answers(NamedTuple):
    """Comparisons of a file."""

    left: NDArray[Any]  # (n,): ids
    right: NDArray[Any]  # (n,)
    y: Array | None  # (n,): labels; None: the left item always won, and nobody knows which was shown first
    names: tuple[str, ...]  # columns of the two items, then those of the answer
    origin: IntArray  # (n,): row of the file
    share: Array  # (n,): weight in that row, below 1 where a row makes several comparisons
    # Whether a row is one comparison, and the first two names are those of its items. If not, sides mean nothing.
    pairs: bool = True

    def take(self, kept: NDArray[np.bool_]) -> Answers:
        """Return some of the comparisons."""
        y = None if self.y is None else self.y[kept]
        columns = {name: getattr(self, name)[kept] for name in ("left", "right", "origin", "share")}
        return self._replace(y=y, **columns)


def side_names(sheet: Sheet, options: Data | Predict) -> tuple[str, str]:
    """Return the columns of the left and the right items."""
    arena = not _has(sheet, "left") and _has(sheet, "model_a", "model_b")
    left, right = map(sheet.usual, ("model_a", "model_b") if arena else ("left", "right"))
    return options.left or left, options.right or right


def _has(sheet: Sheet, *names: str) -> bool:
    """Tell whether a column has one of some usual names."""
    return sheet.usual(*names) in sheet.columns


def usable_rows(sheet: Sheet, options: Data, user: str | None) -> Sheet:
    """Return the rows without those that options leave out, and say how many these are."""
    kept = np.ones(len(sheet.lines), dtype=bool)
    if options.missing == "drop":
        kept = _are_complete(sheet, options, user)
        say_left_out(int(np.sum(~kept)), "row", "", "incomplete")
    if options.on_self == "drop":
        names = _needed(sheet, options)
        if len(names) > 1 and not _are_several(options) and set(names[:2]) <= sheet.columns.keys():
            same = np.array([a == b for a, b in zip(*map(sheet.texts, names[:2]), strict=True)]) & kept
            kept &= ~same
            say_left_out(int(np.sum(same)), "row", "", "of an item with itself")
    if not kept.any():
        raise sheet.fault("every row is left out by --missing or --on-self")
    return sheet if kept.all() else sheet.take(np.flatnonzero(kept).tolist())


def _are_complete(sheet: Sheet, options: Data, user: str | None) -> NDArray[np.bool_]:
    """Tell which rows have all cells that are read, shape (n,)."""
    needed = _needed(sheet, options)
    texts = {*needed, *filter(None, [user, options.group]), *(options.groups or ()), *(options.features or ())}
    numbers = {part for name in options.covariates or () for part in next(iter(_differences(sheet, name)), (name,))}
    numbers |= {*(options.score or ()), *filter(None, [weight_column(sheet, options), options.time_split])}
    kept = np.ones(len(sheet.lines), dtype=bool)
    for name in (texts | numbers) & sheet.columns.keys():
        kept &= [cell != "" for cell in sheet.texts(name)]
    for name in numbers & sheet.columns.keys():
        kept &= [not lacks_number(cell) for cell in sheet.texts(name)]
    if options.contest is not None and _are_rankings(options) and _rank(sheet, options) in sheet.columns:
        kept &= [is_number(sheet.with_point(cell)) for cell in sheet.texts(_rank(sheet, options))]  # which DNF is not
    elif not _are_several(options) and set(needed) <= sheet.columns.keys():
        items = {cell for name in needed[:2] for cell in sheet.texts(name)}
        for name in needed[2:]:
            kept &= [cell in items or not lacks_number(cell) for cell in sheet.texts(name)]
    return kept


def _needed(sheet: Sheet, options: Data) -> tuple[str, ...]:
    """Return the columns in which no cell may be empty, the items first."""
    if options.contest is not None:
        answer = (_rank(sheet, options),) if _are_rankings(options) else _choice_columns(sheet, options)
        return *options.contest, *_item_columns(sheet, options), *answer
    if options.offered is not None:
        return _choice_columns(sheet, options)
    if _are_several(options):
        return ()
    if _has_losers(sheet, options):
        return options.winner or sheet.usual("winner"), options.loser or sheet.usual("loser")
    return *side_names(sheet, options), *_answer_columns(sheet, options)


def _rank(sheet: Sheet, options: Data) -> str:
    return options.rank or sheet.usual("rank")


def _choice_columns(sheet: Sheet, options: Data) -> tuple[str, ...]:
    """Return the columns of the item that was chosen, and of the worst one."""
    return (options.chosen or sheet.usual("chosen"), *filter(None, [options.worst]))


def _are_rankings(options: Data) -> bool:
    """Tell whether contests have ranks, and not a choice."""
    return options.chosen is None and options.worst is None


def noun_of_several(options: Data) -> str:
    """Return what has several comparisons: tasks of choices, rankings, or rows of ratings."""
    if options.item_ratings is not None:
        return "rows"
    return "rankings" if options.offered is None and _are_rankings(options) else "tasks"


def _are_several(options: Data) -> bool:
    """Tell whether a row holds a ranking, a choice, or a part of one."""
    several = (
        *(options.ranking, options.item_ranks, options.item_ratings, options.contest, options.rank, options.item),
        *(options.offered, options.chosen, options.worst),
    )
    return any(option is not None for option in several)


def read_answers(sheet: Sheet, options: Data) -> Answers:
    """Read and check the columns of items and of who won."""
    every, ones = np.arange(len(sheet.lines)), np.ones(len(sheet.lines))
    if _are_several(options):
        return _several(sheet, options)
    if _has_losers(sheet, options):
        names = _needed(sheet, options)
        sheet.require(names, _COLUMNS)
        return Answers(*_ids(sheet, names), None, names, every, ones)
    sides, columns = side_names(sheet, options), _answer_columns(sheet, options)
    names = (*sides, *columns)
    sheet.require(names, _COLUMNS)
    left, right = _ids(sheet, names)
    if options.score is not None:
        y = 0.5 + 0.5 * np.sign(_margins(sheet, columns))
    else:
        y = _labels(sheet, columns[0], left, right, sides, words=columns[0] != (options.label or sheet.usual("label")))
    return Answers(left, right, y, names, every, ones)


def read_covariates(sheet: Sheet, names: tuple[str, ...], *, vary: bool = True) -> Array:
    """Return columns of numbers, and of differences A-B of two, shape (n, q); refuse constant ones unless `vary`."""
    columns = []
    for name in names:
        parts = next(iter(_differences(sheet, name)), (name,))
        sheet.require(parts, "It was asked for by --covariates; A-B is the difference of the columns A and B")
        numbers = [sheet.numbers(part, meaning="a covariate") for part in parts]
        values = numbers[0] if len(parts) == 1 else numbers[0] - numbers[1]
        if vary and values.size and (values == values[0]).all():
            raise sheet.fault(f"covariate {name!r} is {values[0]:g} in every row: it has no effect to learn")
        if vary and len(parts) == 1:
            for note in notes_on_covariate(sheet, name, values):
                say_note(f"{sheet.path}: {note}")
        columns.append(values)
    return np.column_stack(columns)


def _differences(sheet: Sheet, name: str) -> list[tuple[str, str]]:
    """Return how a name that is no column is the difference of two columns."""
    if name in sheet.columns:
        return []
    cuts = [i for i, character in enumerate(name) if character == "-"]
    pairs = [(name[:i].strip(), name[i + 1 :].strip()) for i in cuts]
    return [pair for pair in pairs if set(pair) <= sheet.columns.keys()]


def _several(sheet: Sheet, options: Data) -> Answers:
    """Return the comparisons of rankings, or of choices among several items."""
    _check_several(options)
    if options.item_ranks is not None:
        sheet.require(options.item_ranks, "It was asked for by --item-ranks")
        cells = {name: [sheet.with_point(cell) or None for cell in sheet.texts(name)] for name in options.item_ranks}
        return _ranked_items(sheet, cells)
    if options.item_ratings is not None:
        return _rated_items(sheet, options)
    if options.contest is not None:
        return _contests(sheet, options)
    items, answers = options.ranking or options.offered or (), _choice_columns(sheet, options)
    names = items if options.ranking is not None else (*items, *answers)
    sheet.require(names, "It was asked for by --ranking, --offered or --chosen")
    # The row stands where users do; no column has an empty name.
    columns: dict[str, Any] = {"": range(len(sheet.lines))}
    columns |= {name: [cell or None for cell in sheet.texts(name)] for name in names}
    if options.ranking is None:
        columns |= {name: _by_position(sheet, name, items, columns) for name in answers}
    try:
        if options.ranking is not None:
            rows = from_rankings(columns, items, user="")
        else:
            rows = from_choices(columns, items, answers[0], worst=options.worst, user="")
    except DataError as error:
        raise _of_file(sheet, error) from error
    return _of_several(rows, names)


def _by_position(sheet: Sheet, name: str, offered: tuple[str, ...], columns: dict[str, Any]) -> list[str | None]:
    """Return choices by item or column; positions, 1 for the first column, become columns if no item is a number."""
    cells: list[str | None] = columns[name]
    places = {str(place): column for place, column in enumerate(offered, 1)}
    items = {cell for column in offered for cell in columns[column]} | set(offered)
    if not set(cells) <= {None, *places}:
        return cells
    if any(map(is_number, items)):
        return cells  # `from_choices` says that these are read as items
    sheet.notes.append(f"column {name!r} has positions, 1 for {offered[0]!r} to {len(offered)} for {offered[-1]!r}")
    return [None if cell is None else places[cell] for cell in cells]


def _of_file(sheet: Sheet, error: DataError) -> DataError:
    """Return a complaint of a reader of skpref.data as one of the file: its line, and the option for the argument."""
    text = as_options(str(error))
    row = re.search(r" in row ([0-9]+)", text)
    if row is None:
        return sheet.fault(text)
    return sheet.fault(text.replace(f"begins{row[0]}", "begins here").replace(row[0], "", 1), int(row[1]))


def _check_several(options: Data) -> None:
    """Complain of options that say different things of what a row holds."""
    sides = ("left", "right", "winner", "loser", "label", "score")
    others = (*sides, "ranking", "item_ranks", "item_ratings", "contest")
    named = [f"--{name.replace('_', '-')}" for name in others if getattr(options, name) is not None]
    if len(named) + (options.offered is not None) > 1:
        asked = "one of --ranking, --item-ranks, --item-ratings, --contest and --offered says what a row holds"
        raise DataError(f"{asked}; leave {' and '.join(named)} out")
    if options.offered is None and options.contest is None and not _are_rankings(options):
        name, columns = "--worst" if options.chosen is None else "--chosen", "the columns of the items offered"
        one = "--contest COLUMN, if a row is one of the items offered"
        raise DataError(f"{name} needs --offered A,B,...: {columns}; or {one}")
    if options.rank is not None and not _are_rankings(options):
        raise DataError("--rank is of rankings, and --chosen and --worst are of choices; leave one of them out")
    if options.contest is None and (options.rank is not None or options.item is not None):
        name = "--item" if options.rank is None else "--rank"
        raise DataError(f"{name} needs --contest COLUMN, which tells rankings of one item in a row apart")


def _ranked_items(sheet: Sheet, ranks: dict[str, list[Any]]) -> Answers:
    """Return the comparisons of rankings in columns of ranks, one for each item."""
    names = tuple(ranks)
    try:
        rows = from_rankings({"": range(len(sheet.lines)), **ranks}, item_ranks=names, user="")
    except DataError as error:
        raise _of_file(sheet, error) from error
    return _of_several(rows, names)


def _rated_items(sheet: Sheet, options: Data) -> Answers:
    """Return the comparisons of ratings in columns of items, in which the higher rating of a row wins."""
    users = (options.user or sheet.usual(*USERS)) if options.model == "crowd" else None
    others = (users, weight_column(sheet, options), options.group, options.time_split, *(options.groups or ()))
    names = item_columns(sheet, options, others)
    ratings = {
        name: sheet.numbers_or_none(name, "a rating; --item-ratings takes this column for an item") for name in names
    }
    say_items(sheet, names)
    ranks = {name: [None if cell is None else -cell for cell in cells] for name, cells in ratings.items()}
    return _ranked_items(sheet, ranks)


# ------------------------------------------------------------------------------------------------------------ contests
def _contests(sheet: Sheet, options: Data) -> Answers:
    """Return the comparisons of rankings or choices of which a row is one item."""
    names = _needed(sheet, options)
    sheet.require(names, "With --contest, a row is one item; columns are named by --item, --rank, --chosen, --features")
    n_contests, n_items = len(options.contest or ()), len(_item_columns(sheet, options))
    answers = list(names[n_contests + n_items :])
    contests, items = _contest_of_rows(sheet, options), _items_of_rows(sheet, options)
    rows_of: dict[str, list[int]] = {}
    for row, name in enumerate(contests):
        rows_of.setdefault(name, []).append(row)
    _check_constant(sheet, options, rows_of)
    if not _are_rankings(options):
        return _of_several(_choices(sheet, options, rows_of, items, answers), names)
    ranks = sheet.numbers(answers[0], meaning="a rank")
    columns = {"": range(len(sheet.lines)), "contest": contests, "item": items, "rank": ranks}
    try:
        return _of_several(from_rankings(columns, by="contest", user=""), names)
    except DataError as error:
        raise _of_file(sheet, error) from error


def _item_columns(sheet: Sheet, options: Data) -> tuple[str, ...]:
    """Return the column of the item in a row of a contest, or those of its features, which then stand for it."""
    named = options.item is not None or options.features is None or _has(sheet, "item")
    return (options.item or sheet.usual("item"),) if named else (options.features or ())


def _items_of_rows(sheet: Sheet, options: Data) -> NDArray[Any]:
    """Return the item in each row of a contest, shape (n,)."""
    columns = [sheet.ids(name, "item" if name == (options.item or sheet.usual("item")) else "feature")
               for name in _item_columns(sheet, options)]  # fmt: skip
    return columns[0] if len(columns) == 1 else np.array(list(map(" ".join, zip(*columns, strict=True))), dtype=object)


def read_shown_items(sheet: Sheet, options: Data) -> Table | None:
    """Return the features of the items that rows of contests show; words become columns of 0 and 1."""
    if options.features is None:
        return None
    sheet.require(options.features, "It was asked for by --features")
    items = _items_of_rows(sheet, options)
    first: dict[str, int] = {}
    for row, item in enumerate(items):
        first.setdefault(item, row)
    columns: dict[str, Array] = {}
    for name in options.features:
        cells = sheet.ids(name, "feature")
        for row, item in enumerate(items):
            if cells[row] != cells[first[item]]:
                other = f"{cells[first[item]][:80]!r} on {sheet.unit} {sheet.lines[first[item]]}"
                raise sheet.fault(f"item {item[:80]!r} has {cells[row][:80]!r} here, but {other}", row, name)
        shown = cells[list(first.values())]
        if all(is_number(sheet.with_point(cell)) for cell in shown):
            columns[name] = sheet.take(list(first.values())).numbers(name, meaning="a feature")
        else:
            columns |= {f"{name}={level}": (shown == level).astype(np.float64) for level in sorted(set(shown))}
    ids = np.array(list(first), dtype=object)
    return Table(np.column_stack(list(columns.values())), ids, feature_names=tuple(columns))


def with_coded_words(sheet: Sheet, names: tuple[str, ...]) -> Sheet:
    """Return a file of items with the columns that `read_shown_items` makes of words, such as brand=A of brand."""
    levels: dict[str, dict[str, str]] = {}  # names by level and column
    for name in names:
        cuts = [match.start() for match in re.finditer("=", name) if name[: match.start()] in sheet.columns]
        if cuts and name not in sheet.columns:
            levels.setdefault(name[: cuts[0]], {})[name[cuts[0] + 1 :]] = name
    coded: dict[str, list[Any]] = {}
    for column, name_of in levels.items():
        sheet.ids(column, "feature")  # refuses empty cells
        cells = sheet.texts(column)
        for row, cell in enumerate(cells):
            if cell not in name_of:
                seen = ", ".join(name_of)[:200]
                raise sheet.fault(f"the model was fitted to {seen}, and not to {cell[:80]!r}", row, column)
        coded |= {name: [float(cell == level) for cell in cells] for level, name in name_of.items()}
    return replace(sheet, columns={**sheet.columns, **coded})


def _contest_of_rows(sheet: Sheet, options: Data) -> list[str]:
    """Return the contest of each row; each user of a crowd has contests of the user's own."""
    names = options.contest or ()
    user = options.user or sheet.usual(*USERS)
    if options.model == "crowd" and user in sheet.columns and user not in names:
        names = (user, *names)
    columns = [sheet.ids(name, name).tolist() for name in names]
    return columns[0] if len(columns) == 1 else [_joined(cells) for cells in zip(*columns, strict=True)]


def _joined(cells: tuple[str, ...]) -> str:
    """Return cells with commas between them; those that hold a comma are quoted, so that the text is of no others."""
    return ", ".join(repr(cell) if "," in cell else cell for cell in cells)


def _check_constant(sheet: Sheet, options: Data, rows_of: dict[str, list[int]]) -> None:
    """Refuse a contest whose rows differ in what is read once for it."""
    once = {*filter(None, [weight_column(sheet, options), options.group, options.time_split]), *(options.groups or ())}
    for name in sorted(once & sheet.columns.keys()):
        cells = sheet.texts(name)
        for contest, rows in rows_of.items():
            for row in rows:
                if cells[row] != cells[rows[0]]:
                    first = f"{cells[rows[0]][:80]!r} on {sheet.unit} {sheet.lines[rows[0]]}"
                    why = f"contest {contest[:80]} has one value of this column"
                    raise sheet.fault(f"{cells[row][:80]!r} differs from {first}, but {why}", row, name)


def _choices(
    sheet: Sheet, options: Data, rows_of: dict[str, list[int]], items: NDArray[Any], answers: list[str]
) -> ComparisonRows:
    """Return the comparisons of tasks in each of which one row is the chosen item."""
    flags = {answer: _flags(sheet, answer) for answer in answers}
    tasks = [(rows, [_hit(sheet, options, name, rows, answer, flags[answer]) for answer in answers])
             for name, rows in rows_of.items()]  # fmt: skip
    kept = [(rows, hits) for rows, hits in tasks if None not in hits]
    say_left_out(len(tasks) - len(kept), "task", "", "without an answer")
    offered = [f"item {place}" for place in range(max((len(rows) for rows, _ in kept), default=0))]
    if len(offered) < 2:
        contest = " and ".join(map(repr, options.contest or ()))
        raise sheet.fault(f"no task has a choice between two items; column {contest} tells tasks apart")
    columns: dict[str, list[Any]] = {"": [rows[0] for rows, _ in kept]}
    for place, name in enumerate(offered):
        columns[name] = [items[rows[place]] if place < len(rows) else None for rows, _ in kept]
    for place, answer in enumerate(answers):
        columns[f"answer {answer}"] = [items[hits[place]] for _, hits in kept]
    for rows, hits in kept:
        _check_task(sheet, options, rows, hits, items)
    best, *worst = (f"answer {answer}" for answer in answers)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # answers are items here, and no positions
        return from_choices(columns, offered, best, worst=next(iter(worst), None), user="")


def _flags(sheet: Sheet, name: str) -> Array:
    """Return a column of 1 for the item that was the answer, and 0 for the others."""
    values = sheet.numbers(name, meaning="1 for the item that was the answer, 0 for others")
    for row in np.flatnonzero((values != 0.0) & (values != 1.0))[:1].tolist():
        raise sheet.fault(f"expected 1 for the item that was the answer, or 0; got {values[row]:g}", row, name)
    return values


def _hit(sheet: Sheet, options: Data, task: str, rows: list[int], answer: str, flags: Array) -> int | None:
    """Return the row of a task that is the answer; None if there is none and such tasks are left out."""
    hits = [row for row in rows if flags[row]]
    if len(hits) > 1:
        why = "people may have tasks of the same number: name both columns, --contest PERSON,TASK"
        first = f"{sheet.unit} {sheet.lines[hits[0]]}"
        raise sheet.fault(f"task {task[:80]} has a second 1 (first on {first}); {why}", hits[1], answer)
    if not hits and options.missing != "drop":
        raise sheet.fault(f"no row of task {task[:80]} has a 1; --missing drop leaves such tasks out", rows[0], answer)
    return next(iter(hits), None)


def _check_task(sheet: Sheet, options: Data, rows: list[int], hits: list[int | None], items: NDArray[Any]) -> None:
    """Refuse a task that shows an item twice, or of which the best item is the worst."""
    first: dict[str, int] = {}
    for row in rows:
        if first.setdefault(items[row], row) != row:
            before = f"{sheet.unit} {sheet.lines[first[items[row]]]}"
            by_features = _item_columns(sheet, options) == options.features
            advice = "; if these items differ, name all their features by --features" if by_features else ""
            raise sheet.fault(f"item {items[row][:80]!r} is in this task twice (first on {before}){advice}", row)
    if len(set(hits)) < len(hits):
        raise sheet.fault(f"item {items[hits[0]][:80]!r} is both the best and the worst of its task", hits[0])


def _of_several(rows: ComparisonRows, names: tuple[str, ...]) -> Answers:
    """Return comparisons of which several come from one row; their users are the numbers of these rows."""
    origin = rows.X[:, 0].astype(np.int64)
    return Answers(rows.X[:, 1], rows.X[:, 2], rows.y, names, origin, rows.sample_weight, pairs=False)


def _has_losers(sheet: Sheet, options: Data) -> bool:
    """Tell whether rows are (winner, loser)."""
    others = {f"--{name}": getattr(options, name) for name in ("left", "right", "label", "score")}
    named = [name for name, value in others.items() if value is not None]
    if options.loser is not None and named:
        raise DataError(f"--loser is for rows of winner and loser; leave {' and '.join(named)} out")
    if options.loser is not None or named:
        return options.loser is not None
    has_sides = _has(sheet, "left", "right", "model_a", "model_b") or "label" in sheet.columns
    return not has_sides and (options.winner is not None or _has(sheet, "winner", "loser"))


def _answer_columns(sheet: Sheet, options: Data) -> tuple[str, ...]:
    """Return the columns that say who won."""
    named = {"label": options.label, "winner": options.winner, "score": options.score}
    chosen = [name for name, value in named.items() if value is not None]
    if len(chosen) > 1:
        raise DataError(f"one of --label, --winner and --score says who won; got {' and '.join(chosen)}")
    if options.score is not None:
        if len(options.score) > 2:
            raise DataError(f"--score takes one or two columns; got {len(options.score)}")
        return options.score
    usual = "winner" if _has(sheet, "winner") and "label" not in sheet.columns else "label"
    return (options.label or options.winner or sheet.usual(usual),)


def _margins(sheet: Sheet, columns: tuple[str, ...]) -> Array:
    """Return the left score minus the right one, shape (n,), from two columns, or from one of differences or of 2-1."""
    cells = sheet.texts(columns[0])
    margins = margins_of_scores(cells) if len(columns) == 1 else None
    if margins is None:
        scores = [sheet.numbers(name, meaning="a score") for name in columns]
        if len(scores) > 1:
            return scores[0] - scores[1]
        if fault := score_of_one_side(sheet, columns[0], scores[0]):
            raise fault
        return scores[0]
    for row in np.flatnonzero(np.isnan(margins)).tolist():
        raise sheet.fault(as_options(score_fault(cells[row])), row, columns[0])
    return margins


def _labels(
    sheet: Sheet, column: str, left: NDArray[Any], right: NDArray[Any], sides: tuple[str, str], *, words: bool
) -> Array:
    """Return labels of a column of words, or of numbers where the first cell is no word."""
    cells = sheet.texts(column)
    y = labels_of_winners(cells, left, right, sides)
    if not words and (is_number(cells[0]) or np.isnan(y[0])):
        return sheet.numbers(column, 0.0, 1.0, _LABEL)
    for row in np.flatnonzero(np.isnan(y))[:1].tolist():
        fault = winner_fault(cells[row], left[row], right[row], "--score in the place of --winner")
        raise sheet.fault(as_options(fault), row, column)
    return y


def _ids(sheet: Sheet, names: tuple[str, ...]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the two columns of items, and refuse an item that is compared with itself."""
    left, right = sheet.ids(names[0]), sheet.ids(names[1])
    for row in np.flatnonzero(left == right)[:1].tolist():
        raise sheet.fault(
            f"item {left[row]!r} is compared with itself (columns {names[0]!r} and {names[1]!r}); "
            "--on-self drop leaves such rows out",
            row,
        )
    return left, right
