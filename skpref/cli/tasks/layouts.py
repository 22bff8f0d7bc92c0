"""The layouts of files of comparisons: options, or usual names of columns, say which column is what."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from skpref._text import is_number, other_side, plain
from skpref._typing import AnyArray, Array
from skpref.cli.files import RATINGS, USERS, counted, say_note
from skpref.cli.ids import read_levels
from skpref.cli.options import Data, Predict, flag_of
from skpref.cli.tasks.base import require_asked
from skpref.data.choices import TASK, long_table
from skpref.data.columns import WHOLE_NUMBER, Columns, listed
from skpref.data.labels import is_of_one_side
from skpref.data.policy import POLICY
from skpref.data.roles import Roles
from skpref.exceptions import DataError

_COLUMNS = (
    "A file of comparisons has the columns left, right and label; or model_a, model_b and winner; or winner and loser; "
    "others are named by --left, --right, --label, --winner, --loser, --score and --counts, choices and rankings by "
    "--offered, --ranking, --item-ranks or --contest; ratings need a --model"
)
_COLUMNS_OF_TASKS = (
    "Choices are named by --offered A,B,... and --chosen COLUMN, rankings by --ranking or --item-ranks A,B,...; where "
    "a row is one item, both are by --contest and --item, with --chosen or --rank"
)
# The option that says what a row holds, and options that may stand beside it; the first one that is named counts.
_LAYOUTS: dict[str | None, tuple[str, ...]] = {
    **dict.fromkeys(("ranking", "item_ranks", "item_ratings"), ()),
    "contest": ("item", "rank", "chosen", "worst"),
    "offered": ("chosen", "worst"),
    "loser": ("winner",),
    **dict.fromkeys(("counts", "score", "label", "winner", None), ("left", "right")),
}
_NEEDS = dict.fromkeys(("chosen", "worst"), "--offered A,B,... or --contest COLUMN")
_NEEDS |= dict.fromkeys(("rank", "item"), "--contest COLUMN, which tells rankings of one item in a row apart")

_SHOWN = 3  # examples in a note
_C1 = re.compile(r"[\x80-\x9f]")  # control characters, which are letters and quotes in encodings of Windows
_GRIDS = 'It was asked for by --item-ratings, which takes names of columns, or a pattern such as "Q3_*"'
_FEWEST_LEVELS, _MOST_LEVELS = 3, 11  # of a scale, such as 0 to 10
_OF_LEVELS = "m3f", "ipm3f", "fm-ordinal"


def _has(sheet: Columns, *names: str) -> bool:
    """Tell whether a column has one of some usual names."""
    return sheet.usual(*names) in sheet.values


def side_names(sheet: Columns, options: Data | Predict) -> tuple[Any, Any]:
    """Return the columns of the left and the right items, several ones of teams."""
    plain, arena = _has(sheet, "left") and _has(sheet, "right"), _has(sheet, "model_a") and _has(sheet, "model_b")
    if plain and arena and None in {options.left, options.right}:
        raise sheet.fault("left and right, or model_a and model_b, may be the items; name them by --left and --right")
    left, right = map(sheet.usual, ("model_a", "model_b") if arena else ("left", "right"))
    sides = options.left or left, options.right or right
    is_team = [side not in sheet.values and "," in side for side in sides]
    if not any(is_team):
        return sides
    if getattr(options, "model", None) == "crowd":
        raise DataError("--left A,B,... names the players of teams, which are for --model gppl")
    first, second = (tuple(map(str.strip, side.split(","))) for side in sides)
    return first, second


def user_column(sheet: Columns, options: Data) -> str | None:
    """Return the column of users, of a crowd; refuse to choose among several."""
    if options.model != "crowd":
        return None
    found = [sheet.usual(name) for name in USERS if _has(sheet, name)]
    if options.user is None and len(found := list(dict.fromkeys(found))) > 1 and "user" not in found:
        raise sheet.fault(f"{' or '.join(map(repr, found))} may be the column of users; name it by --user")
    return options.user or sheet.usual(*USERS)


def roles_of(sheet: Columns, options: Data) -> Roles:
    """Return which column is what."""
    user = user_column(sheet, options)
    if user is not None:
        sheet.require((user,), f"--model crowd needs a column of users: {user}, or another one named by --user")
    codes, likelihood = options.unranked, dict(options.settings or ()).get("likelihood")
    names = {str(name).rpartition("-")[2] for name in np.ravel(likelihood or [])}  # of a search, a list of names
    graded = names in ({"graded"}, {"margin"})
    common: dict[str, Any] = {
        "user": user,
        "weight": options.weight,
        "groups": options.groups or (),
        "context": options.context or (),
        "time": options.time,
        "once": tuple(filter(None, [options.group, options.time_split])),
        "rest": options.rest,
        "unranked": None if codes is None else tuple(code for code in codes if code != "none"),
        "mirrored": options.mirrored or "raise",
        "drop_self": options.on_self == "drop",
        "graded": graded,
    }
    require_asked(sheet, options, "weight", "groups", "context", "time", "group", "time_split")
    taken = user, options.weight, options.time, *common["groups"], *common["context"], *common["once"]
    layout = _layout(sheet, options, taken)
    items = next(filter(None, map(layout.get, ("offered", "ranking", "item_ranks", "item_ratings"))), ())
    terms = tuple(
        _of_items(sheet, name, tuple(items)) if "*" in name and name not in sheet.values else covariate(sheet, name)
        for name in options.covariates or ()
    )
    roles = Roles(**common, **layout, covariates=terms)
    if graded and (roles.several or roles.loser is not None or roles.scores or roles.counts):
        raise DataError(f"--set likelihood={likelihood}: grades stand in one column beside two items: --label COLUMN")
    sheet.require(roles.columns(), _COLUMNS_OF_TASKS if roles.several else _COLUMNS)
    _check_lists(sheet, options, roles)
    _refuse_second_meanings(sheet, roles)
    return roles


def _of_items(sheet: Columns, pattern: str, items: tuple[str, ...]) -> tuple[str, ...]:
    """Return the columns of a covariate, one for each item: price_left and price_right for opt_left and opt_right."""
    words = [*names_like(sheet, pattern).values()]
    ends = [max((word for word in words if word and item.endswith(word)), key=len, default="") for item in items]
    if {*ends} == {*words} and len(ends) == len(words):
        return matching(sheet, pattern, ends)
    columns = matching(sheet, pattern)
    if items and not all(map(str.isdecimal, words)):
        say_note(f"{pattern}: {listed(columns)} are taken for {listed(items)}, in the order of the file")
    return columns


def saved_columns(sheet: Columns, options: Data, roles: Roles) -> dict[str, str]:
    """Return the names of the columns that rows to predict have, by their options, and the form of dates."""
    lists = {"offered": roles.offered or roles.ranking, "contest": options.contest, "features": options.features}
    lists["context"] = options.context
    lists["covariates"] = tuple(name for term in roles.covariates if isinstance(term, tuple) for name in term)
    columns = {f"{role}:{k}": name for role, names in lists.items() for k, name in enumerate(names or ())}
    sides = {"left": roles.left or roles.winner, "right": roles.right or roles.loser}
    one = {**sides, "user": roles.user, "time": roles.time, "item": next(iter(roles.item), None), "none": options.none}
    one["dates"] = sheet.dates.get(roles.time)
    joined = {role: ",".join(name) if isinstance(name, tuple) else name for role, name in one.items()}
    return columns | {role: str(name) for role, name in joined.items() if name is not None}


def _check_lists(sheet: Columns, options: Data, roles: Roles) -> None:
    """Refuse a column twice, groups of part-worths, and covariates that have not a column for each item of a row."""
    for option in ("ranking", "item_ranks", "contest", "offered", "features", "groups", "context", "covariates"):
        names = getattr(options, option) or ()
        if len({*names}) < len(names):
            raise sheet.fault(f"{flag_of(option)} names a column twice")
    of_crowd = {"--context": roles.context, "--time": roles.time} if roles.user else {}
    for option, names in {"--groups": roles.groups, **of_crowd}.items():
        if names and roles.several and (options.items or options.features):
            what = "part-worths of features are the same in all groups, in any context and at all times"
            raise sheet.fault(f"{option} is for utilities of items, and {what}")
    items = roles.offered or roles.ranking or tuple(roles.item_ranks or roles.item_ratings)
    for name, term in zip(options.covariates or (), roles.covariates, strict=True):
        is_pattern = isinstance(term, tuple) and "*" in name
        if is_pattern and not items:
            raise sheet.fault(f"--covariates {name}: patterns are for rows of several items, which have columns each")
        if items and not (is_pattern and len(term) == len(items)):
            found = len(term) if is_pattern else 1
            wanted = f'a pattern of {len(items)} columns, one for each of {listed(items)}, such as "price_*"'
            raise sheet.fault(f"--covariates {name}: expected {wanted}; got {found}")


def _layout(sheet: Columns, options: Data, taken: tuple[str | None, ...]) -> dict[str, Any]:
    """Return the columns of items and answers."""
    layout = _layout_option(options)
    if layout == "item_ratings":
        return {"item_ratings": {name: name for name in item_columns(sheet, options, taken)}}
    if layout == "item_ranks":
        return {"item_ranks": {name: name for name in options.item_ranks or ()}}
    if layout == "ranking":
        return {"ranking": options.ranking}
    choice = {"chosen": options.chosen or sheet.usual("chosen"), "worst": options.worst}
    if layout == "offered":
        return {"offered": options.offered, **choice}
    if layout == "contest":
        item = () if options.features else (options.item or sheet.usual("item"),)
        task = {"task": options.contest, "item": item, "features": options.features or ()}
        is_choice = options.chosen or options.worst or (_has(sheet, "chosen") and not _has(sheet, "rank"))
        ranked = options.rank is not None or not is_choice
        return {**task, "rank": options.rank or sheet.usual("rank")} if ranked else {**task, **choice}
    if layout == "loser" or (layout in {"winner", None} and _has_losers(sheet, options)):
        return {"winner": options.winner or sheet.usual("winner"), "loser": options.loser or _loser(sheet)}
    sides = dict(zip(("left", "right"), side_names(sheet, options), strict=True))
    if layout in {"score", "counts"}:
        if len(options.score or ()) > 2:
            raise DataError(f"--score takes one or two columns; got {len(options.score or ())}")
        return {**sides, "scores": options.score or (), "counts": options.counts or ()}
    found = [sheet.usual(name) for name in ("label", "winner") if _has(sheet, name)]
    if layout is None and len(found) > 1:
        raise sheet.fault(f"{' or '.join(map(repr, found))} may say who won; name it by --label or --winner")
    return {**sides, "winner": options.label or options.winner or (found[0] if found else sheet.usual("label"))}


def _loser(sheet: Columns) -> str:
    """Return the usual column of losers; where there is none, but two columns are sides, ask for their names."""
    left, right = next(filter(all, ((name, other_side(sheet.names, name)) for name in sheet.names)), (None, None))
    if left is not None and not _has(sheet, "loser"):
        raise sheet.fault(f"which columns are the two sides? If {left} and {right}: --left {left} --right {right}")
    return sheet.usual("loser")


def _layout_option(options: Data) -> str | None:
    """Return the option that says what a row holds; refuse options of another layout."""
    names = [*filter(None, _LAYOUTS), "left", "right", *_NEEDS]
    named = [name for name in names if getattr(options, name) is not None]
    layout = next((name for name in _LAYOUTS if name in named), None)
    others = [name for name in named if name not in {layout, *_LAYOUTS[layout]}]
    for name in others:
        if name in _NEEDS and layout not in {"offered", "contest"}:
            raise DataError(f"{flag_of(name)} needs {_NEEDS[name]}")
    if others and layout is not None:
        raise DataError(f"{flag_of(layout)} says what a row holds; leave {' and '.join(map(flag_of, others))} out")
    if options.rank is not None and (options.chosen or options.worst):
        raise DataError("--rank is of rankings, and --chosen and --worst are of choices; leave one of them out")
    return layout


def _has_losers(sheet: Columns, options: Data) -> bool:
    """Tell whether rows are (winner, loser) by the usual names of columns."""
    has_sides = _has(sheet, "left", "right", "model_a", "model_b") or "label" in sheet.values
    named = options.left is not None or options.right is not None
    return not (has_sides or named) and (options.winner is not None or _has(sheet, "winner", "loser"))


def _refuse_second_meanings(sheet: Columns, roles: Roles) -> None:
    """Refuse a column that is named for two different things."""
    item = () if roles.item == roles.once else roles.item
    more: dict[str, Any] = {"covariates": (), "groups": (), "context": (), "once": (), "features": ()}
    plain = replace(roles, item=item, user=None, weight=None, time=None, **more)
    taken = {*plain.columns()}
    terms = {part for term in roles.covariates for part in (term if isinstance(term, tuple) else (term,))}
    own = {"--user": {roles.user} - {None, *roles.task}, "--groups": {*roles.groups}, "--covariates": terms}
    own |= {"--features": {*roles.features}, "--context": {*roles.context} - {*terms, roles.time}}
    own |= {"--weight": {roles.weight} - {None, *terms}, "--time": {roles.time} - {None, *terms, *roles.once}}
    for option, names in own.items():
        for name in sorted(names & taken):
            raise sheet.fault(f"this column has another meaning; {option} must name another", None, name)
        taken |= names


def covariate(sheet: Columns, name: str) -> str | tuple[str, str]:
    """Return a column, or the two columns A and B of a difference A-B."""
    cuts = [] if name in sheet.values else [i for i, character in enumerate(name) if character == "-"]
    pairs = [(name[:i].strip(), name[i + 1 :].strip()) for i in cuts]
    found = next((pair for pair in pairs if {*pair} <= sheet.values.keys()), None)
    if found is None:
        sheet.require((name,), "It was asked for by --covariates; A-B is the difference of the columns A and B")
    return found or name


# --------------------------------------------------------------------------------------------------------------- grids
def item_columns(sheet: Columns, options: Data, taken: Iterable[str | None]) -> tuple[str, ...]:
    """Return the columns that names and patterns of --item-ratings stand for; `taken` have another meaning."""
    others, named, found = set(taken), set(), set()
    for text in options.item_ratings or ():
        if text in sheet.values or "*" not in text:
            sheet.require((text,), _GRIDS)
            if text in others:
                raise sheet.fault("this column has another meaning; --item-ratings must name others", None, text)
            named.add(text)
            continue
        alike = [name for name in names_like(sheet, text) if name not in others]
        if not alike:
            raise sheet.fault(f"no column has a name like {text!r}. {_GRIDS}")
        found.update(alike)
    names = tuple(name for name in sheet.names if name in named | found)
    if len(names) < 2:
        raise sheet.fault(f"--item-ratings wants the columns of two items at least; got {names[0]!r}")
    numbers = {name: _numbers(sheet, name) for name in names}
    _check_alike(sheet, numbers, found - named)
    if options.levels is None:
        _check_codes(sheet, numbers, is_error=options.model in _OF_LEVELS)
    return names


def names_like(sheet: Columns, pattern: str) -> dict[str, str]:
    """Return the columns whose names are like a pattern, in which a * is any text, and this text."""
    form = re.compile("(.*)".join(map(re.escape, pattern.split("*"))), re.DOTALL)
    found = {name: form.fullmatch(name) for name in sheet.names}
    return {name: "".join(match.groups()).strip("_-. ") for name, match in found.items() if match}


def _numbers(sheet: Columns, name: str) -> Array:
    """Return a column as far as it has finite numbers, NaN elsewhere, shape (n,)."""
    cells = [sheet.with_point(cell) for cell in sheet.values[name]]
    values = np.array([float(cell) if is_number(cell) else np.nan for cell in cells])
    return np.where(np.isfinite(values), values, np.nan)


def _check_codes(sheet: Columns, numbers: dict[str, Array], *, is_error: bool) -> None:
    """Complain of numbers beyond the largest gap between ratings: 9 or 99 often stand for no answer."""
    ratings = np.concatenate(list(numbers.values()))
    values = np.unique(ratings[np.isfinite(ratings)])
    if values.size <= _FEWEST_LEVELS:
        return
    cut = int(np.argmax(np.diff(values))) + 1
    few, rest = sorted((values[:cut], values[cut:]), key=len)
    gap = values[cut] - values[cut - 1]
    is_far, is_scale = gap > np.ptp(rest), rest.size <= _MOST_LEVELS and few.size == 1
    if rest.size < _FEWEST_LEVELS or not (is_far or (is_scale and gap >= 2.0 * np.max(np.diff(rest)))):
        return
    name = next(name for name, column in numbers.items() if np.isin(column, few).any())
    row, count = int(np.argmax(np.isin(numbers[name], few))), int(np.isin(ratings, few).sum())
    where = f"{'far' if is_far else 'apart'} from the other ratings, {rest[0]:g} to {rest[-1]:g} ({count} such cells)"
    fault = sheet.fault(
        f"{numbers[name][row]:g} is {where}; if it stands for no answer, leave the cell empty", row, name
    )
    if is_far and is_error:
        raise DataError(f"{fault}; if it is a rating, name all levels by --levels")
    say_note(f"{fault}; now it counts as a rating")


def _check_alike(sheet: Columns, numbers: dict[str, Array], found: set[str]) -> None:
    """Refuse a column that a pattern found if its numbers are unlike those of the others: it is no item, but an age."""
    levels = {name: values[np.isfinite(values)] for name, values in numbers.items()}
    levels = {name: values for name, values in levels.items() if values.size}
    if len(levels) < 3:  # fewer have none that is unlike the others
        return
    low, high = (float(np.median([end(values) for values in levels.values()])) for end in (np.min, np.max))
    for name in [name for name in levels if name in found]:
        values = levels[name]
        far = np.mean((values < 2.0 * low - high) | (values > 2.0 * high - low))
        others = np.unique(np.concatenate([column for other, column in levels.items() if other != name]))
        if far > 0.5 or np.unique(values).size > 2 * others.size:
            what = f"its numbers are {values.min():g} to {values.max():g}, unlike those of other columns, {low:g} to"
            advice = "if it has the ids of the persons, name it by --user; if it is no item, name the items one by one"
            raise sheet.fault(f"{what} {high:g}; {advice}", None, name)


# --------------------------------------------------------------------------------------------------------------- shown
def matching(sheet: Columns, pattern: str, order: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the columns that a name, or a pattern with *, stands for: by numbers, or else by `order`, or the file."""
    if pattern in sheet.values or "*" not in pattern:
        sheet.require((pattern,))
        return (pattern,)
    found = names_like(sheet, pattern)
    if len(found) < 2:
        raise sheet.fault(f"{counted(len(found), 'columns')} with a name such as {pattern}; two at least are needed")
    texts = list(found.values())
    if all(map(str.isdecimal, texts)):
        return tuple(sorted(found, key=lambda name: int(found[name])))
    if order and len(texts) == len(order) and {*texts} != {*order}:
        raise sheet.fault(f"the columns {pattern} have {listed(texts)} for *, and the first attribute {listed(order)}")
    return tuple(sorted(found, key=lambda name: [found[name] == text for text in order], reverse=True))


def with_plain_items(sheet: Columns, items: Sequence[str], answers: Sequence[str | None] = ()) -> Columns:
    """Return a file whose items have no spaces around them, and no .0 behind whole numbers, as pandas writes them."""
    texts = {name: sheet.texts(name) for name in (*items, *filter(None, answers))}
    if all(WHOLE_NUMBER.fullmatch(text) for name in items for text in texts[name] if text):
        texts = {name: [text.removesuffix(".0") for text in column] for name, column in texts.items()}
    return replace(sheet, values={**sheet.values, **texts})


def columns_of_features(sheet: Columns, options: Data | Predict) -> dict[str, tuple[str, ...]]:
    """Return the columns of each attribute in a wide table, one for each position, by the name of the attribute."""
    order = [*names_like(sheet, next(iter(options.features or ()), "")).values()]
    features = {feature_name(name): matching(sheet, name, order) for name in options.features or ()}
    if options.missing == "drop":
        raise DataError("--missing drop leaves rows of tasks out, and a wide table would lose alternatives: fill them")
    if "" in features:
        raise sheet.fault("--features *: a pattern has the name of an attribute, as in brand_*")
    if len(features) < len(options.features or ()):
        raise sheet.fault("two patterns of --features would have the same name: rename columns")
    return features


def feature_name(pattern: str) -> str:
    """Return the name of an attribute whose columns have names like a pattern."""
    return pattern.replace("*", "").strip("_-. ")


def with_long_rows(sheet: Columns, options: Data) -> tuple[Columns, Data]:
    """Return a wide table of alternatives with a row for each of them, and the options that say so."""
    features = columns_of_features(sheet, options)
    once = [options.user, options.group, options.weight, options.time, options.time_split]
    once += [*(options.groups or ()), *(options.context or ())]
    if options.model == "crowd" and options.user is None:
        once.append(user_column(sheet, options))
    answers = [options.chosen or sheet.usual("chosen"), *filter(None, [options.worst])]
    names: list[str] = list(dict.fromkeys(filter(None, once)))
    sheet.require((*names, *answers))
    read = {name for own in features.values() for name in own}
    long = long_table(sheet, names, features, answers, options.none)
    others = {
        name: [column[row] for row in long.values[TASK]]
        for name, column in sheet.values.items()
        if name not in read and name not in long.values
    }
    return replace(long, values={**long.values, **others}), replace(
        options, contest=(TASK,), features=tuple(features), chosen=answers[0]
    )


def with_coded_words(sheet: Columns, names: tuple[str, ...]) -> Columns:
    """Return a file of items with the columns that `read_shown_items` makes of words, such as brand=A of brand."""
    levels: dict[str, dict[str, str]] = {}  # names by level and column
    for name in names:
        cuts = [match.start() for match in re.finditer("=", name) if name[: match.start()] in sheet.values]
        if cuts and name not in sheet.values:
            levels.setdefault(name[: cuts[0]], {})[name[cuts[0] + 1 :]] = name
    coded: dict[str, list[Any]] = {}
    for column, name_of in levels.items():
        cells = read_levels(sheet, column, list(name_of))
        coded |= {name: [float(cell == level) for cell in cells] for level, name in name_of.items()}
    return replace(sheet, values={**sheet.values, **coded})


# -------------------------------------------------------------------------------------------------------------- doubts
def say_doubts(sheet: Columns, notes: list[str]) -> None:
    """Tell the user what looks like a mistake in a file."""
    for note in notes:
        say_note(f"{sheet.source}: {note}")


def notes_on_columns(ids: dict[str, AnyArray | None]) -> list[str]:
    """Return notes on ids that differ only in case, and on ids that were read in a wrong encoding, by their noun."""
    notes = []
    for noun, column in ids.items():
        names, by_case = sorted(set([] if column is None else column.ravel().tolist())), defaultdict(list)
        for name in names:
            by_case[name.lower()].append(name)
        if alike := [same for same in by_case.values() if len(same) > 1]:
            shown = "; ".join(", ".join(repr(name[:80]) for name in same) for same in alike[:_SHOWN])
            more = f"; and {len(alike) - _SHOWN} more" if len(alike) > _SHOWN else ""
            notes.append(f"{noun}s whose names differ only in case are different {noun}s: {shown}{more}")
        if odd := next(filter(_C1.search, names), None):
            why = "as in a file that is read in a wrong encoding; try --encoding cp1252 or cp1250"
            notes.append(f"{noun} {odd[:80]!r} has a control character, {why}")
    return notes


def notes_on_sides(names: Sequence[str], left: AnyArray, right: AnyArray) -> list[str]:
    """Return a note if no item is in both columns of items."""
    if left.size < POLICY.many_rows or set(left.tolist()) & set(right.tolist()):
        return []
    return [f"no item is in both columns, {names[0]!r} and {names[1]!r}; are these the columns of the items?"]


def notes_on_answers(sheet: Columns, roles: Roles, none: str | None = None) -> list[str]:
    """Return a note on winners of 0 and 1, on ratings that are read as ranks, or on a level called none."""
    name, rank = str(roles.winner), str(roles.rank)
    if plain(name).startswith("winner") and roles.loser is None and set(sheet.texts(name)) == {"0", "1"}:
        return [f"1 in {name!r} is the left item and 0 the right one; if 0 is the first, write left and right"]
    if plain(rank) in RATINGS:
        return [f"{rank!r} is read as ranks, of which 1 is the best; of ratings, --item-ratings reads a grid"]
    words = {text for attribute in roles.features for text in sheet.texts(attribute)}
    if none is None and (word := next((word for word in words if word.lower() == "none"), None)):
        return [f"{word!r} is a level of an attribute; if it stands for none of the others, --none {word} says so"]
    return []


def notes_on_covariate(sheet: Columns, column: str, values: Array) -> list[str]:
    """Return a note on a covariate that is no difference of the two sides, and not of 0 and 1."""
    if not is_of_one_side(values):
        return []
    other = other_side(sheet.names, column)
    advice = "--covariates A-B takes the difference of two columns"
    if other is not None:
        advice = f"did you mean the difference, --covariates {column}-{other}?"
    return [f"covariate {column!r} is never negative, and a positive value favours the left side; {advice}"]
