"""The [space] section of an experiment: a space of settings in which some have other values or ranges."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from skpref.exceptions import DataError
from skpref.search.default_spaces import limits
from skpref.search.loop import require_optuna

if TYPE_CHECKING:
    from skpref.search.loop import Settings

_RANGE = {"low", "high", "log"}


def narrowed(space: Mapping[str, Any], defaults: Settings, chosen: Mapping[str, Any]) -> tuple[Settings, Settings]:
    """Return a space in which some settings are chosen by the user, and the defaults that are in it."""
    space, defaults = dict(space), dict(defaults)
    for name, wanted in chosen.items():
        if name not in space:
            near = difflib.get_close_matches(name, space, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ";"
            raise DataError(f"there is no setting {name!r}{hint} there are {', '.join(space)}")
        space[name] = _distribution(name, space[name], wanted)
        if name in defaults:
            defaults[name] = _nearest(wanted, defaults[name])
    return space, defaults


def _distribution(name: str, own: Any, wanted: Any) -> Any:
    """Return what a setting is drawn from: a list, or a range of Optuna."""
    if isinstance(own, list):
        for value in _values(name, wanted):
            if isinstance(value, Mapping) or not any(type(value) is type(listed) and value == listed for listed in own):
                raise DataError(f"{name} must be one of {own}, or a list of some; got {value!r}")
        return _values(name, wanted)
    kind, low, high = limits(own) or ("float", -math.inf, math.inf)
    is_log, is_whole = kind.startswith("log"), kind.endswith("int")
    what = "a whole number" if is_whole else "a number"
    shown = f"{what}, a list of them, or {{ low = {low}, high = {high}, log = {str(is_log).lower()} }}"
    problem = DataError(f"{name} must be {shown}; got {wanted!r}")
    ends = isinstance(wanted, Mapping)
    numbers = [wanted.get("low"), wanted.get("high")] if ends else _values(name, wanted)
    types = (int,) if is_whole else (int, float)
    if not all(type(number) in types and math.isfinite(number) for number in numbers):
        raise problem
    if not ends:
        return numbers
    log = wanted.get("log", is_log)
    low, high = numbers
    if not set(wanted) <= _RANGE or not isinstance(log, bool) or low > high or (log and low <= 0):
        raise problem
    distributions = require_optuna().distributions
    return (distributions.IntDistribution if is_whole else distributions.FloatDistribution)(low, high, log=log)


def _values(name: str, wanted: Any) -> list[Any]:
    """Return the values of a list that is not empty, or the one value."""
    if isinstance(wanted, list) and not wanted:
        raise DataError(f"{name}: a list of values is empty")
    return list(wanted) if isinstance(wanted, list) else [wanted]


def _nearest(wanted: Any, default: Any) -> Any:
    """Return the default where the choice has it, else what is nearest to it, or the first of a list."""
    if isinstance(wanted, Mapping):
        ends = wanted["low"], wanted["high"]
        return min(max(default, ends[0]), ends[1]) if isinstance(default, int | float) else ends[0]
    values = wanted if isinstance(wanted, list) else [wanted]
    return default if default in values else values[0]
