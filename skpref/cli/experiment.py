"""The TOML file of ``skpref run``: what could be typed, in sections."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from skpref._text import nearest
from skpref.cli.options import Demo, Run, Tune, flag_of, parse
from skpref.exceptions import DataError

if TYPE_CHECKING:
    from pathlib import Path

_SECTIONS = "data", "model", "search", "space", "tracking", "output"
_KEYS = {"name": "model", "folder": "out"}  # keys that are not called as their options
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
    return replace(options, settings=tuple(sections.get("space", {}).items()))


def _typed(sections: dict[str, Any], folder: Path) -> list[str]:
    """Return the arguments that say the same; paths are from the folder of the file."""
    argv = ["tune"]
    for section, keys in sections.items():
        if section not in _SECTIONS or not isinstance(keys, dict):
            hint = nearest(section, _SECTIONS) or f"; known are {', '.join(_SECTIONS)}"
            raise DataError(f"unknown section [{section}]{hint}")
        for key, value in keys.items() if section != "space" else ():
            parts = value if isinstance(value, list) else [value]
            if any(isinstance(part, dict | list) or (part is not value and "," in str(part)) for part in parts):
                form = "one value, or a list of texts or numbers without commas"
                raise DataError(f"[{section}] {key} must be {form}; got {value!r}")
            text = ",".join(map(str, parts))
            text = str(folder / text) if key in _PATHS and text.strip() and "://" not in text else text
            flag = flag_of(str(_KEYS.get(key, key)))
            if key == "file":
                argv.append(text)
            elif key == "dataset":
                argv[0] = "demo"
                argv.append(f"{flag}={text}")
            elif key == "mlflow" and isinstance(value, bool):
                argv += [] if value else ["--no-mlflow"]
            else:
                argv.append(f"{flag}={text}")
    return argv
