"""The [space] section of an experiment: a space of settings in which some have other values or ranges."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from scipy import stats

from skpref.exceptions import DataError
from skpref.search import LogInteger
from skpref.search.default_spaces import limits

if TYPE_CHECKING:
    from skpref.search.loop import Settings


def narrowed(space: Settings, params: Settings, chosen: Mapping[str, Any]) -> tuple[Settings, Settings]:
    """Return a space in which some settings are chosen by the user, and parameters to start from that are in it."""
    space, params = dict(space), dict(params)
    for name, wanted in chosen.items():
        values = space[name] = _distribution(name, space.get(name), wanted)
        if isinstance(values, list) and params.get(name) not in values:
            params[name] = values[0]
    return space, params


def _distribution(name: str, own: Any, wanted: Any) -> Any:
    """Return a list, or a range; `own` is the space of the setting by default, None if it has none."""
    if not isinstance(wanted, Mapping) and wanted != []:
        return [_value(own, value) for value in (wanted if isinstance(wanted, list) else [wanted])]
    given: Any = wanted or {}
    low, high, log = given.get("low"), given.get("high"), given.get("log")
    kind = (limits(own) or ("int" if isinstance(low, int) and isinstance(high, int) else "float",))[0]
    log, whole = kind.startswith("log") if log is None else log, kind.endswith("int")
    types = (int,) if whole else (int, float)
    if not all(type(end) in types and math.isfinite(end) for end in (low, high)) or low >= high or (log and low <= 0):
        what = "whole numbers" if whole else "numbers"
        form = f"a value, a list of them, or {{ low = A, high = B, log = true }} of {what}"
        raise DataError(f"[space] {name} must be {form}; got {wanted!r}")
    if whole:
        return LogInteger(low, high) if log else stats.randint(low, high + 1)
    return stats.loguniform(low, high) if log else stats.uniform(low, high - low)


def _value(own: Any, value: Any) -> Any:
    """Return a value; false is None, which TOML does not have, and true the first other one, unless they are listed."""
    if not isinstance(value, bool) or not isinstance(own, list) or value in own:
        return value
    return next((listed for listed in own if listed is not None), value) if value else None
