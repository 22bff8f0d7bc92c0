"""The TOML file of ``skpref run``: what could be typed, in sections."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from skpref._text import is_number, nearest
from skpref.cli.options import Demo, Run, Tune, flag_of, parse
from skpref.exceptions import DataError

_SECTIONS = "data", "model", "search", "space", "tracking", "output"
_KEYS = {"name": "model", "folder": "out", "file": "data"}  # keys that are not called as their options
_SECTION_OF = {
    name: "search" if option.metadata["place"][0] == "job" else "data"
    for name, option in Demo.__dataclass_fields__.items()
    if option.metadata and name not in {"settings", "json", "model", "out"}
} | {"file": "data", "group": "data", "name": "model", "folder": "output"}
_SECTION_OF |= {"mlflow": "tracking", "experiment": "tracking"}
_PATHS = "file", "items", "users", "storage", "folder"


def run(options: Run) -> int:
    """Tune a model with the options in a TOML file."""
    from skpref.cli.tune import demo, tune  # only now: they wait for numba

    typed = read_experiment(options)
    return demo(typed) if isinstance(typed, Demo) else tune(typed)


def read_experiment(run: Run) -> Tune:
    """Return a TOML file as options of `skpref tune`, or of `skpref demo` for data that come with the package."""
    try:
        sections = tomllib.loads(run.file.read_text("utf-8-sig"))
        argv = _typed(sections, run.file.parent)
        argv += ["--json"] * run.json + ([] if run.out is None else [f"--out={run.out}"])
        options: Tune = parse(argv)
    except DataError as error:
        raise DataError(f"{run.file}: {error}") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{run.file}: is not a text in UTF-8") from error
    except ValueError as error:  # of TOML, or of a number with thousands of digits
        raise DataError(f"{run.file}: is not TOML: {error}") from error
    except RecursionError as error:
        raise DataError(f"{run.file}: lists or tables are nested too deeply") from error
    for section, key, value in _keys(sections):
        is_text = isinstance(value, str) and is_number(value)
        if is_text and isinstance(getattr(options, _KEYS.get(key, key)), int | float):
            raise DataError(f"{run.file}: [{section}] {key} must be a number; got the text {value!r}")
    return replace(options, settings=tuple(sections.get("space", {}).items()))


def _keys(sections: dict[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Yield section, key and value of what is an option; refuse unknown sections, and keys of another section."""
    for section, keys in sections.items():
        if not isinstance(keys, dict):
            raise DataError(f"{section!r} is in no section; they are [{'], ['.join(_SECTIONS)}]")
        if section not in _SECTIONS:
            hint = nearest(section, _SECTIONS) or f"; known are {', '.join(_SECTIONS)}"
            raise DataError(f"unknown section [{section}]{hint}")
        for key, value in keys.items() if section != "space" else ():
            if key not in _SECTION_OF:
                own = {option: f"; write {name} in [{_SECTION_OF[name]}]" for name, option in _KEYS.items()}
                hint = own.get(key) or nearest(key, [name for name in _SECTION_OF if _SECTION_OF[name] == section])
                raise DataError(f"[{section}] has no key {key!r}{hint}; parameters of the estimator are in [space]")
            if _SECTION_OF[key] != section:
                raise DataError(f"[{section}] {key}: this key is of section [{_SECTION_OF[key]}]")
            yield section, key, value


def _typed(sections: dict[str, Any], folder: Path) -> list[str]:
    """Return the arguments that say the same; paths are from the folder of the file."""
    argv = ["tune"]
    for section, key, value in _keys(sections):
        parts = value if isinstance(value, list) else [value]
        if any(isinstance(part, dict | list) or (part is not value and "," in str(part)) for part in parts):
            form = "one value, or a list of texts or numbers without commas"
            raise DataError(f"[{section}] {key} must be {form}; got {value!r}")
        text = ",".join(map(str, parts))
        text = str(folder / text) if key in _PATHS and text.strip() and "://" not in text else text
        if key == "file":
            argv.append(text)
        elif key == "mlflow" and isinstance(value, bool):
            argv += [] if value else ["--no-mlflow"]
        else:
            argv[0] = "demo" if key == "dataset" else argv[0]
            argv.append(f"{flag_of(_KEYS.get(key, key))}={text}")
    return argv
