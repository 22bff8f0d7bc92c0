"""The TOML file of ``skpref run``, as arguments of ``skpref tune``."""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from skpref._text import nearest
from skpref.exceptions import DataError

if TYPE_CHECKING:
    from pathlib import Path

PAIRS = ("user", "item", "rating", "item_ratings")
SIDES = (
    *("left", "right", "winner", "loser", "score", "ranking", "item_ranks", "contest", "rank", "offered", "chosen"),
    *("worst", "on_self"),
)
_LISTS = (
    "features",
    "levels",
    "class_order",
    "score",
    "ranking",
    "item_ranks",
    "item_ratings",
    "contest",
    "offered",
    "covariates",
    "groups",
    "columns",
)
_SECTIONS = {
    "data": [
        *(
            "file",
            "dataset",
            "columns",
            "separator",
            "decimal",
            "encoding",
            "missing",
            "items",
            "users",
            "id",
            "group",
            "groups",
            "time_split",
        ),
        *(*PAIRS, *SIDES, "covariates", "label", "weight", "features", "levels", "class_order", "duplicates"),
    ],
    "model": ["name", "max_inducing", "sweeps", "factors"],
    "search": ["trials", "timeout", "folds", "holdout", "seed", "storage"],
    "tracking": ["mlflow", "experiment"],
    "output": ["folder"],
}
_OPTIONS = {"name": "model", "folder": "out"}  # keys that are called otherwise than their options
_DATASET = "travellers"


def read_arguments(file: Path) -> tuple[list[str], dict[str, Any], bool]:
    """Return a TOML file as arguments of `skpref tune`, its section [space], and whether it names a file of data."""
    try:
        sections = tomllib.loads(file.read_text("utf-8-sig"))
        _check_integers(sections)
    except UnicodeDecodeError as error:
        raise DataError(f"{file}: is not a text in UTF-8") from error
    except ValueError as error:  # of TOML, or of a number with thousands of digits
        raise DataError(f"{file}: is not TOML: {error}") from error
    except RecursionError as error:
        raise DataError(f"{file}: lists or tables are nested too deeply") from error
    try:
        space = _checked_space(sections)
        return _arguments(sections, file.parent), space, "file" in sections["data"]
    except DataError as error:
        raise DataError(f"{file}: {by_key(str(error))}") from error


def _check_integers(value: Any) -> None:
    """Refuse integers that TOML does not have; Python prints no integer of thousands of digits."""
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ValueError("a whole number has more than 64 bits")
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _check_integers(part)


def _arguments(sections: dict[str, Any], folder: Path) -> list[str]:
    """Return the sections of a file as arguments of `skpref tune`."""
    argv = []
    for section, keys in sections.items():
        if section == "space":
            continue
        _require_known("section", section, f"[{section}]", [*_SECTIONS, "space"])
        if not isinstance(keys, dict):
            raise DataError(f"{section!r} must be a section, [{section}] with keys below it")
        for key, value in keys.items():
            _require_known(f"key in [{section}]:", key, repr(key), _SECTIONS[section])
            argv += _argument(section, key, value, folder)
    data = sections.get("data", {})
    if ("file" in data) == ("dataset" in data):
        state = "not both" if "file" in data else "and has neither"
        raise DataError(f"[data] needs either file = ... or dataset = {_DATASET!r}, {state}")
    if "dataset" in data and sections.get("model", {}).get("name", "gppl") != "gppl":
        raise DataError("[data] dataset is for [model] name = 'gppl'")
    return ["tune", *argv, "--", str(folder / str(data.get("file", _DATASET)))]


def _argument(section: str, key: str, value: Any, folder: Path) -> list[str]:
    """Return one key as an argument; the value as it would be typed."""
    name = f"[{section}] {key}"
    if key == "mlflow":
        if not isinstance(value, bool):
            raise DataError(f"{name} must be true or false; got {value!r}")
        return [] if value else ["--no-mlflow"]
    if key in _LISTS and isinstance(value, list):
        if any(not isinstance(entry, str | int | float) or "," in str(entry) for entry in value):
            raise DataError(f"{name} must be a list of texts or numbers without commas; got {value!r}")
        value = ",".join(map(str, value))
    if isinstance(value, list | dict):
        raise DataError(f"{name} must be one value; got {value!r}")
    if key in {"file", "dataset"}:
        if not str(value).strip() or (key == "dataset" and value != _DATASET):
            raise DataError(f"{name} must be {repr(_DATASET) if key == 'dataset' else 'a file'}; got {value!r}")
        return []
    return [f"--{_OPTIONS.get(key, key).replace('_', '-')}={_from_folder(name, key, str(value), folder)}"]


def _from_folder(name: str, key: str, text: str, folder: Path) -> str:
    """Return a value, with paths from the folder of the file."""
    if key == "storage" and "://" in text:
        if urlsplit(text).password is not None:
            why = "must not hold a password, since the file is copied to the results; see ~/.pgpass of PostgreSQL"
            raise DataError(f"{name} {why}")
        return text
    is_path = key in {"items", "users", "folder", "storage"} and text.strip()
    return str(folder / text) if is_path else text


def _checked_space(sections: dict[str, Any]) -> dict[str, Any]:
    space = sections.get("space", {})
    if not isinstance(space, dict):
        raise DataError("'space' must be a section, [space] with settings below it")
    if "space" in sections and not space:
        raise DataError("[space] is empty; leave it out for the model's own space")
    return space


def _require_known(what: str, name: str, shown: str, names: list[str]) -> None:
    if name not in names:
        raise DataError(f"unknown {what} {shown}{nearest(name, names) or '; known are ' + ', '.join(names)}")


def by_key(message: str) -> str:
    """Return a complaint about an option as one about the key in the file."""
    keys = {_OPTIONS.get(key, key).replace("_", "-"): (s, key) for s, keys in _SECTIONS.items() for key in keys}

    def shown(match: re.Match[str]) -> str:
        section, key = keys[match[1]]
        return f"[{section}] {key}"

    return re.sub(r"^(?:argument )?--(" + "|".join(sorted(keys, key=len, reverse=True)) + r")\b", shown, message)
