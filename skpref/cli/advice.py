"""Advice of the library, which names parameters of Python, in the words of the command line."""

from __future__ import annotations

import re
import warnings
from contextlib import contextmanager
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from skpref._estimator import last_step
from skpref.cli.files import say_note
from skpref.cli.options import Data, flag_of
from skpref.exceptions import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from skpref.data.columns import Columns

_DATA = {option.name for option in fields(Data)}
# Parameters of estimators that have an option of their own.
_OPTIONS = "items", "users", "levels", "class_order", "time", "dynamics"
OPTIONS = {name: flag_of(name) for name in _OPTIONS} | {"random_state": "--seed"}
_READERS = {"from_results": "--score", "from_counts": "--counts", "item_ranks=[...]": "--item-ranks"}
_READERS |= {"none=...": "--none WORD", "features={...}": "--features"}
# A parameter and its value; in brackets stands the value that it has, which is no advice.
_ADVICE = re.compile(
    r"(?<![-(\w.])(?<!--set )(?:set )?(?P<name>[a-z]\w*)=(?P<value>\[[^\]]*\]|'[^']*'|\"[^\"]*\"|[\w.+-]*\w)"
)


def as_options(text: str, names: Sequence[str] = (), command: str = "") -> str:
    """Return a text in which order_effect=True is --set order_effect=True, where `names` has the parameter."""

    def option(match: re.Match[str]) -> str:
        name, value = match["name"], match["value"]
        if name in _DATA and value[0] in "'\"[":  # a word or a list, such as on_self='drop' or unranked=[0]
            return f"{flag_of(name)} {value[1:-1] or 'none'}"
        return f"{command}--set {name}={value}" if name in names and name not in OPTIONS else match[0]

    for reader, flag in _READERS.items():
        text = text.replace(f"skpref.data.{reader}", flag).replace(reader, flag)
    return _ADVICE.sub(option, text)


@contextmanager
def as_of_command(sheet: Columns | None = None) -> Iterator[None]:
    """Write advice of the library, which names parameters of Python, as options; name the file of a sheet."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        try:
            yield
        except DataError as error:
            text = as_options(str(error))
            raise DataError(text) if sheet is None else sheet.fault(text) from error
        finally:
            for warning in found:
                say_note(as_options(str(warning.message)))


@contextmanager
def advising_by_options(model: Any, command: str = "") -> Iterator[None]:
    """Write advice of warnings and errors of an estimator as options; `command` is one that takes --set."""
    names, show = list(last_step(model).get_params(deep=False)), warnings.showwarning

    def show_in_options(message: Warning | str, *more: Any) -> None:
        show(as_options(str(message), names, command), *more)

    warnings.showwarning = show_in_options  # type: ignore[assignment]  # the stub wants all six names
    try:
        yield
    except DataError as error:
        raise DataError(as_options(str(error), names, command)) from error
    finally:
        warnings.showwarning = show
