"""The TOML file of ``skpref run``, as options of ``skpref tune``."""

from __future__ import annotations

import re
import tomllib
from argparse import ArgumentTypeError
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from skpref._text import nearest
from skpref.cli.options import TRAVELLERS, Run, Tune, keys_of_toml
from skpref.cli.values import read_names, read_path
from skpref.exceptions import DataError

if TYPE_CHECKING:
    from dataclasses import Field
    from pathlib import Path


def run(options: Run) -> int:
    """Tune a model with the options in a TOML file."""
    from skpref.cli.tune import tune  # only now: it waits for numba

    return tune(read_experiment(options))


def read_experiment(run: Run) -> Tune:
    """Return a TOML file as options of `skpref tune`."""
    try:
        sections = tomllib.loads(run.file.read_text("utf-8-sig"))
        _check_integers(sections)
    except UnicodeDecodeError as error:
        raise DataError(f"{run.file}: is not a text in UTF-8") from error
    except ValueError as error:  # of TOML, or of a number with thousands of digits
        raise DataError(f"{run.file}: is not TOML: {error}") from error
    except RecursionError as error:
        raise DataError(f"{run.file}: lists or tables are nested too deeply") from error
    try:
        options = _options(sections, run.file.parent)
    except DataError as error:
        raise DataError(f"{run.file}: {_by_key(str(error))}") from error
    return replace(options, file=run.file, json=run.json, out=options.out if run.out is None else run.out)


def _check_integers(value: Any) -> None:
    """Refuse integers that TOML does not have; Python prints no integer of thousands of digits."""
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ValueError("a whole number has more than 64 bits")
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _check_integers(part)


def _options(sections: dict[str, Any], folder: Path) -> Tune:
    known, values, places = keys_of_toml(), {}, {}
    for section, keys in sections.items():
        _require_known("section", section, f"[{section}]", [*known, "space"])
        if not isinstance(keys, dict):
            raise DataError(f"{section!r} must be a section, [{section}] with keys below it")
        for key, value in keys.items() if section != "space" else ():
            names = [*known[section], *(("file", "dataset") if section == "data" else ())]
            _require_known(f"key in [{section}]:", key, repr(key), names)
            if key in known[section]:
                option = known[section][key]
                values[option.name] = _value(f"[{section}] {key}", option, value, folder)
            else:
                places[key] = value
    if "space" in sections and not sections["space"]:
        raise DataError("[space] is empty; leave it out for the model's own space")
    data = _data(places, values.get("model", "gppl"), folder)
    return Tune(data=data, space=sections.get("space", {}), **values)


def _data(places: dict[str, Any], model: str, folder: Path) -> Path | None:
    """Return the file of data; None for the travellers."""
    if len(places) != 1:
        state = "not both" if places else "and has neither"
        raise DataError(f"[data] needs either file = ... or dataset = {TRAVELLERS!r}, {state}")
    key, value = next(iter(places.items()))
    if not isinstance(value, str) or not value.strip() or (key == "dataset" and value != TRAVELLERS):
        raise DataError(f"[data] {key} must be {repr(TRAVELLERS) if key == 'dataset' else 'a file'}; got {value!r}")
    if key == "dataset" and model != "gppl":
        raise DataError("[data] dataset is for [model] name = 'gppl'")
    return folder / value if key == "file" else None


def _value(name: str, option: Field[Any], value: Any, folder: Path) -> Any:
    """Return the value of an option, read as if it was typed; paths are from the folder of the file."""
    entry = option.metadata
    if "action" in entry:  # on or off
        if not isinstance(value, bool):
            raise DataError(f"{name} must be true or false; got {value!r}")
        return value
    if entry.get("type") is read_names and isinstance(value, list):
        if any(not isinstance(part, str | int | float) or "," in str(part) for part in value):
            raise DataError(f"{name} must be a list of texts or numbers without commas; got {value!r}")
        value = ",".join(map(str, value))
    if isinstance(value, list | dict):
        raise DataError(f"{name} must be one value; got {value!r}")
    text = str(value)
    if "choices" in entry and text not in entry["choices"]:
        raise DataError(f"{name}: invalid choice: {text!r} (choose from {', '.join(map(repr, entry['choices']))})")
    is_address = option.name == "storage" and "://" in text
    if is_address and urlsplit(text).password is not None:
        why = "must not hold a password, since the file is copied to the results; see ~/.pgpass of PostgreSQL"
        raise DataError(f"{name} {why}")
    if (entry.get("type") is read_path or option.name == "storage") and text.strip() and not is_address:
        text = str(folder / text)
    try:
        return entry.get("type", str)(text)
    except ArgumentTypeError as error:
        raise DataError(f"{name}: {error}") from error


def _require_known(what: str, name: str, shown: str, names: list[str]) -> None:
    if name not in names:
        raise DataError(f"unknown {what} {shown}{nearest(name, names) or '; known are ' + ', '.join(names)}")


def _by_key(message: str) -> str:
    """Return a complaint that begins with an option as one about the key in the file."""
    places = {option.name: (section, key) for section, keys in keys_of_toml().items() for key, option in keys.items()}
    match = re.match(r"--([\w-]+)", message)
    place = places.get(match[1].replace("-", "_")) if match else None
    return message if match is None or place is None else f"[{place[0]}] {place[1]}{message[match.end() :]}"
