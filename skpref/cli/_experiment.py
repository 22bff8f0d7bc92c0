"""``skpref run``: a whole experiment in a TOML file."""

from __future__ import annotations

import argparse
import math
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from skpref.cli._files import nearest
from skpref.cli._models import MODELS, MOST, SPECIAL
from skpref.exceptions import DataError

if TYPE_CHECKING:
    from collections.abc import Callable

_DATASETS = ("travellers",)


class Kind(NamedTuple):
    """What a key may hold."""

    wanted: str  # in words, for messages
    accepts: Callable[[Any], bool]  # whether a value is right


def _whole(low: int) -> Kind:
    return Kind(f"a whole number from {low} to {MOST}", lambda value: type(value) is int and low <= value <= MOST)


_TEXT = Kind(
    "a text that is not empty", lambda value: isinstance(value, str) and bool(value.strip()) and "\0" not in value
)
_FLAG = Kind("true or false", lambda value: isinstance(value, bool))
_POSITIVE = Kind("a positive number", lambda value: type(value) in (int, float) and 0 < value < math.inf)
_NAMES = Kind(
    "a list of texts or numbers without commas",
    lambda value: (
        isinstance(value, list)
        and bool(value)
        and all(type(v) in (str, int, float) and "," not in str(v) for v in value)
    ),
)
_SHARE = Kind(
    'a number between 0.05 and 0.5, or "one"',
    lambda value: value == "one" or (type(value) is float and 0.05 <= value <= 0.5),
)

# Sections, their keys, and the options of `skpref tune` that they are.
_SECTIONS: dict[str, dict[str, tuple[str, Kind]]] = {
    "data": {
        "file": ("data", _TEXT),
        "dataset": ("dataset", Kind(" or ".join(map(repr, _DATASETS)), lambda value: value in _DATASETS)),
        "items": ("items", _TEXT),
        "users": ("users", _TEXT),
        "id": ("id", _TEXT),
        "group": ("group", _TEXT),
        "user": ("user", _TEXT),
        "item": ("item", _TEXT),
        "rating": ("rating", _TEXT),
        "label": ("label", _TEXT),
        "features": ("features", _NAMES),
        "levels": ("levels", _NAMES),
        "class_order": ("class_order", _NAMES),
        "duplicates": (
            "duplicates",
            Kind("'error', 'mean' or 'last'", lambda value: value in ("error", "mean", "last")),
        ),
    },
    "model": {
        "name": (
            "model",
            Kind("one of " + ", ".join(MODELS), lambda value: isinstance(value, str) and value in MODELS),
        ),
        "max_inducing": ("max_inducing", _whole(1)),
        "sweeps": ("sweeps", _whole(2)),
        "factors": ("factors", _whole(1)),
    },
    "search": {
        "trials": ("trials", _whole(1)),
        "timeout": ("timeout", _POSITIVE),
        "folds": ("folds", _whole(2)),
        "holdout": ("holdout", _SHARE),
        "seed": ("seed", _whole(0)),
        "storage": ("storage", _TEXT),
    },
    "tracking": {"mlflow": ("mlflow", _FLAG), "experiment": ("experiment", _TEXT)},
    "output": {"folder": ("out", _TEXT)},
}
_ABOUT = """Do what `tune` does, as a TOML file says in the sections [data], [model], [search], [space],
[tracking] and [output]. Keys are the options of `tune`; [space] holds, by the name of a setting,
one value, a list of values, or { low = ..., high = ..., log = true }. Paths are from the folder
of the file. The same file gives the same numbers. With storage in [search], a run that was stopped
or killed goes on from its finished trials when it is started again.

example:
  [data]
  file = "comparisons.csv"
  items = "items.csv"
  [model]
  name = "gppl"
  [search]
  trials = 30
  seed = 1
  storage = "study.journal"
  [tracking]
  mlflow = false"""
_PATHS = ("data", "items", "users", "out")  # from the folder of the TOML file


def add_run(commands: Any, tune_defaults: Callable[[], argparse.Namespace]) -> None:
    """Add the command to a parser."""
    run = commands.add_parser(
        "run",
        help="run a whole experiment that a TOML file describes",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description=_ABOUT,
    )
    run.add_argument("file", type=Path, metavar="EXPERIMENT.toml")
    run.add_argument("--out", type=Path, metavar="DIR", help="folder of results, in the place of that in the file")
    run.add_argument("--json", action="store_true", help="print JSON for programs, and all else to the standard error")
    run.set_defaults(command="run", tune_defaults=tune_defaults)


def read_experiment(arguments: argparse.Namespace, defaults: argparse.Namespace) -> argparse.Namespace:
    """Read a TOML file as options of `skpref tune`."""
    path = arguments.file
    try:
        given = tomllib.loads(path.read_text("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: is not a text in UTF-8") from error
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"{path}: is not TOML: {error}") from error
    extra = {"data": None, "dataset": None, "mlflow": True, "space": _space(path, given)}
    found: dict[str, Any] = vars(defaults) | extra
    for section, keys in given.items():
        if section == "space":
            continue
        _known(path, "section", section, [*_SECTIONS, "space"], f"[{section}]")
        if not isinstance(keys, dict):
            raise DataError(f"{path}: {section!r} must be a section, [{section}] with keys below it")
        for key, value in keys.items():
            found |= _option(path, section, key, value)
    if (found["data"] is None) == (found["dataset"] is None):
        wanted = f"either file = ... or dataset = {_DATASETS[0]!r}"
        raise DataError(f"{path}: [data] needs {wanted}, {'not both' if found['dataset'] else 'and has neither'}")
    _refuse_others(path, found)
    found |= {"no_mlflow": not found["mlflow"], "json": arguments.json}
    found |= {name: path.parent / found[name] for name in _PATHS if found[name] is not None}
    found["storage"] = _storage(path, found["storage"])
    if arguments.out is not None:
        found["out"] = arguments.out
    return type(defaults)(**found)


def _storage(path: Path, storage: str | None) -> str | Path | None:
    if storage is None or "://" not in storage:
        return None if storage is None else path.parent / storage
    if urlsplit(storage).password is not None:
        why = "must not hold a password, since the file is copied beside the results; see ~/.pgpass of PostgreSQL"
        raise DataError(f"{path}: [search] storage {why}")
    return storage


def _space(path: Path, given: dict[str, Any]) -> dict[str, Any]:
    space = given.get("space", {})
    if not isinstance(space, dict):
        raise DataError(f"{path}: 'space' must be a section, [space] with settings below it")
    if "space" in given and not space:
        raise DataError(f"{path}: [space] is empty; leave it out for the model's own space")
    return space


def _known(path: Path, what: str, name: str, known: list[str], shown: str) -> None:
    if name not in known:
        raise DataError(f"{path}: unknown {what} {shown}{nearest(name, known) or '; known are ' + ', '.join(known)}")


def _option(path: Path, section: str, key: str, value: Any) -> dict[str, Any]:
    keys = _SECTIONS[section]
    _known(path, f"key in [{section}]:", key, list(keys), repr(key))
    name, kind = keys[key]
    if not kind.accepts(value):
        raise DataError(f"{path}: [{section}] {key} must be {kind.wanted}; got {value!r}")
    if kind is _NAMES:
        return {name: ",".join(map(str, value))}
    if kind is _SHARE:
        return {name: 0.0 if value == "one" else value}
    return {name: value}


def _refuse_others(path: Path, found: dict[str, Any]) -> None:
    """Keys that are for other models."""
    model = found["model"]
    if found["dataset"] is not None and model != "gppl":
        raise DataError(f"{path}: [data] dataset = {found['dataset']!r} is for [model] name = 'gppl'; got {model!r}")
    for section, keys in _SECTIONS.items():
        for key, (name, _) in keys.items():
            if name in SPECIAL and name not in MODELS[model].options and found[name] is not None:
                owners = ", ".join(other for other, one in MODELS.items() if name in one.options)
                raise DataError(f"{path}: [{section}] {key} is for {owners}, not for [model] name = {model!r}")
