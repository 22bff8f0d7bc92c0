"""From files to a job: comparisons, the table of items, and a hash of both."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from skpref.cli._files import Sheet, nearest, read_sheet
from skpref.data import Table, Vocabulary
from skpref.search import Answers

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

_COLUMNS = "A file of comparisons has the columns left, right and label, or winner and loser, and may have weight"
_USERS = "A file of users has the column {name} or id, and numeric features"
_LABEL = "1 = left preferred, 0 = right preferred, 0.5 = a tie"
_FEWEST = 10  # comparisons below which a hold-out of 20 % says nothing


@dataclass(frozen=True, eq=False)
class Problem:
    """What is to be learnt."""

    answers: Answers  # comparisons by ids
    items: Table | None  # features of the items
    source: str  # where the data are from
    group: str | None = None  # name of the group's column
    profiles: Table | None = None  # further items that are worth a ranking of their own
    user: str | None = None  # name of the users' column; None: the answers do not tell users apart
    users: Table | None = None  # features of the users
    # whether left and right are where the items were shown, and not drawn for winners and losers
    has_sides: bool = True

    @property
    def n_items(self) -> int:
        """Number of items that are known."""
        return len(set(self.answers.X[:, -2:].ravel().tolist())) if self.items is None else self.items.n_items

    @property
    def n_users(self) -> int:
        """Number of users who compared; 0 where they are not told apart."""
        return 0 if self.user is None else len(set(self.answers.X[:, 0].tolist()))

    @property
    def digest(self) -> str:
        """SHA-256 of comparisons, items and users, 64 hexadecimal digits."""
        digest = hashlib.sha256(json.dumps(self.answers.X.tolist()).encode())
        for column in (self.answers.y, self.answers.weight):
            digest.update(np.ascontiguousarray(column, dtype="<f8").data)
        if self.answers.groups is not None:
            digest.update(json.dumps([str(group) for group in self.answers.groups]).encode())
        for name, table in (("", self.items), ("users", self.users)):
            if table is not None:
                digest.update(f"{name}{table.digest}".encode())
        return digest.hexdigest()

    def describe(self) -> dict[str, Any]:
        """Return shape and hash of the data, for the tracker (never the data themselves)."""
        groups = self.answers.groups
        crowd = {
            "data.n_users": self.n_users,
            "data.n_user_features": 0 if self.users is None else self.users.n_features,
        }
        return {
            "data.source": self.source,
            "data.sha256": self.digest,
            "data.n_comparisons": self.answers.size,
            "data.n_items": self.n_items,
            "data.n_features": 0 if self.items is None else self.items.n_features,
            "data.n_groups": 0 if groups is None else len(set(groups.tolist())),
            **(crowd if self.user is not None else {}),
        }


@dataclass(frozen=True)
class Sources:
    """Where a job's data are."""

    comparisons: Path  # file of comparisons
    items: Path | None = None  # file of items
    id_column: str = "id"  # column of ids in the file of items
    group: str | None = None  # column of the comparisons whose values stay together in splits
    user: str | None = None  # column of the comparisons that tells who answered; None: users are not told apart
    users: Path | None = None  # file of users; its ids stand in a column of the same name as `user`, or in `id`


def read_problem(sources: Sources, seed: int) -> Problem:
    """Read and check a job's files."""
    sheet = read_sheet(sources.comparisons)
    items = None if sources.items is None else read_items(sources.items, sources.id_column)
    left_name, right_name = _side_columns(sheet)
    left, right = sheet.ids(left_name), sheet.ids(right_name)
    _check_sides(sheet, left, right, left_name, right_name)
    if items is not None:
        for name, column in ((left_name, left), (right_name, right)):
            _check_known(sheet, name, column, items.vocabulary, str(sources.items))
    user, users = _read_users(sheet, sources, (left_name, right_name))
    answers = _answers(sheet, (user, left, right), sources.group, seed)
    if answers.size < _FEWEST:
        raise sheet.fault(f"{answers.size} comparisons; at least {_FEWEST} are needed for an honest hold-out")
    files = [str(path) for path in (sources.comparisons, sources.items, sources.users) if path is not None]
    return Problem(
        answers,
        items,
        " + ".join(files),
        sources.group,
        user=sources.user,
        users=users,
        has_sides="label" in sheet.columns,
    )


def _read_users(sheet: Sheet, sources: Sources, sides: tuple[str, str]) -> tuple[NDArray[Any] | None, Table | None]:
    """The column of who answered, and the table of users."""
    name = sources.user
    if name is None:
        return None, None
    purpose = f"--model crowd needs a column that tells who answered: {name}, or another one named by --user"
    sheet.require((name,), purpose)
    if name in {*sides, "label", "weight"}:
        raise sheet.fault(
            "this column has another meaning; --user must name the one that tells who answered", None, name
        )
    user = sheet.ids(name, "user")
    if sources.users is None:
        return user, None
    people = read_sheet(sources.users)
    users = _read_table(people, name if name in people.columns else "id", _USERS.format(name=name), "user")
    _check_known(sheet, name, user, users.vocabulary, str(sources.users), "user")
    return user, users


def _side_columns(sheet: Sheet) -> tuple[str, str]:
    """Names of the two columns of ids, after checking that all columns are there."""
    wins = [name for name in ("winner", "loser") if name in sheet.columns]
    sides = [name for name in ("left", "right", "label") if name in sheet.columns]
    if wins and not sides:
        sheet.require(("winner", "loser"), _COLUMNS)
        return "winner", "loser"
    sheet.require(("left", "right", "label"), _COLUMNS)
    return "left", "right"


def _check_sides(sheet: Sheet, left: NDArray[Any], right: NDArray[Any], *names: str) -> None:
    same = np.flatnonzero(left == right)
    if same.size:
        row = int(same[0])
        raise sheet.fault(f"item {left[row]!r} is compared with itself (columns {names[0]!r} and {names[1]!r})", row)


def _check_known(
    sheet: Sheet, name: str, ids: NDArray[Any], vocabulary: Vocabulary, where: str, noun: str = "item"
) -> None:
    unknown = np.flatnonzero(vocabulary.encode(ids, unknown="mark") < 0)
    if unknown.size:
        row = int(unknown[0])
        more = f" ({unknown.size} such cells)" if unknown.size > 1 else ""
        known = [str(item) for item in vocabulary.ids[:5000]]
        raise sheet.fault(
            f"unknown {noun} {ids[row][:80]!r}, not in {where}{nearest(ids[row], known)}{more}", row, name
        )


def _answers(
    sheet: Sheet, columns: tuple[NDArray[Any] | None, NDArray[Any], NDArray[Any]], group: str | None, seed: int
) -> Answers:
    user, left, right = columns
    n = left.size
    weight = sheet.numbers("weight", low=0.0, meaning="weight") if "weight" in sheet.columns else np.ones(n)
    if not (weight > 0.0).any():
        raise sheet.fault("all weights are zero", column="weight")
    groups = None
    if group is not None:
        sheet.require((group,), "It was asked for by --group")
        groups = np.array([str(cell).strip() for cell in sheet.columns[group]], dtype=object)
    if "label" in sheet.columns:
        y = sheet.numbers("label", 0.0, 1.0, _LABEL)
    else:  # with the winner always on the left, calibration would see ones only
        swap = np.random.default_rng(seed).random(n) < 0.5
        left, right, y = np.where(swap, right, left), np.where(swap, left, right), np.where(swap, 0.0, 1.0)
    ids = [left, right] if user is None else [user, left, right]
    return Answers(np.column_stack(ids), y, weight, groups)


def read_items(path: Path, id_column: str, names: tuple[str, ...] | None = None) -> Table:
    """Read a file of items."""
    purpose = f"A file of items has the column {id_column} (or another one, named by --id) and numeric features"
    return _read_table(read_sheet(path), id_column, purpose, "item", names)


def _read_table(sheet: Sheet, id_column: str, purpose: str, noun: str, names: tuple[str, ...] | None = None) -> Table:
    sheet.require((id_column, *(names or ())), purpose)
    wanted = names or tuple(name for name in sheet.names if name != id_column)
    if not wanted:
        raise sheet.fault(f"there are no features beside {id_column!r}; without features, leave --{noun}s out")
    ids = sheet.ids(id_column, noun)
    _check_distinct(sheet, ids, id_column, noun)
    features = np.column_stack([sheet.numbers(name, meaning="features are numeric") for name in wanted])
    return Table(features, ids, feature_names=wanted)


def read_ids(path: Path, id_column: str) -> NDArray[Any]:
    """Read the ids of a file of items whose features do not matter, shape (n,)."""
    sheet = read_sheet(path)
    sheet.require((id_column,), f"A file of items has the column {id_column}")
    ids = sheet.ids(id_column)
    _check_distinct(sheet, ids, id_column)
    return ids


def _check_distinct(sheet: Sheet, ids: NDArray[Any], column: str, noun: str = "item") -> None:
    first: dict[str, int] = {}
    for row, name in enumerate(ids.tolist()):
        if first.setdefault(name, row) != row:
            line = f"{sheet.unit} {sheet.lines[first[name]]}"
            raise sheet.fault(f"{noun} {name[:80]!r} occurs twice (first on {line})", row, column)


def demo_problem() -> Problem:
    """Return the choices of 210 travellers among air, train, bus and car.

    The waiting time is left out: for the modes not taken the data hold constants (69 or 64 minutes for air, 34 or 44
    for the train, 35 or 53 for the bus), which no traveller who took them reports, so that it gives the answer away.
    """
    from skpref.datasets import load_modechoice

    data = load_modechoice()
    keep = [column for column, name in enumerate(data.feature_names) if name != "ttme"]
    names = tuple(data.feature_names[column] for column in keep)
    answers = Answers(data.comparisons.astype(object), data.y.astype(np.float64), np.ones(data.y.size), data.groups)
    items = Table(np.asarray(data.table.features)[:, keep], data.table.ids, feature_names=names)
    modes = np.array([str(name).partition(":")[2] for name in items.ids])
    kinds = np.unique(modes)
    means = np.vstack([items.features[modes == kind].mean(axis=0) for kind in kinds])
    profiles = Table(means, np.array([f"average {kind}" for kind in kinds], dtype=object), feature_names=names)
    return Problem(answers, items, "modechoice (statsmodels)", "traveller", profiles)
