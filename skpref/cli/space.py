"""The [space] section of an experiment: a space of settings in which some have other values or ranges."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from scipy import stats

from skpref._text import nearest
from skpref.exceptions import DataError
from skpref.search import LogInteger
from skpref.search.default_spaces import limits

if TYPE_CHECKING:
    from skpref.search.loop import Settings


def narrowed(space: Settings, params: Settings, chosen: Mapping[str, Any]) -> tuple[Settings, Settings]:
    """Return a space in which some settings are chosen by the user, and parameters to start from that are in it.

    Any parameter of the estimator can be chosen; it says by itself which values it takes.
    """
    space, params = dict(space), dict(params)
    for name, wanted in chosen.items():
        if name not in params:
            raise DataError(
                f"there is no setting {name!r}{nearest(name, list(params)) or ';'} there are {', '.join(space)}"
            )
        values = _distribution(name, space.get(name), wanted)
        space[name] = values
        if isinstance(values, list) and params[name] not in values:
            params[name] = values[0]
    return space, params


def values_of(wanted: Any) -> list[Any]:
    """Return the values, or the ends of a range, that a user chose."""
    if isinstance(wanted, Mapping):
        return [wanted["low"], wanted["high"]]
    return list(wanted) if isinstance(wanted, list) else [wanted]


def _distribution(name: str, own: Any, wanted: Any) -> Any:
    """Return a list, or a range; `own` is the space of the setting by default, None if it has none."""
    if not isinstance(wanted, Mapping):
        values = [_value(own, value) for value in values_of(wanted)]
        if not values:
            raise DataError(f"{name}: a list of values is empty")
        return values
    ends: list[Any] = [wanted.get("low"), wanted.get("high")]
    low, high = ends
    kind = (limits(own) or ("int" if isinstance(low, int) and isinstance(high, int) else "float",))[0]
    log, whole = wanted.get("log", kind.startswith("log")), kind.endswith("int")
    types = (int,) if whole else (int, float)
    known = set(wanted) <= {"low", "high", "log"} and isinstance(log, bool)
    numbers = all(type(end) in types and math.isfinite(end) for end in ends)
    if not known or not numbers or low > high or (log and low <= 0):
        what = "whole numbers" if whole else "numbers"
        raise DataError(f"{name} must be a value, a list of them, or {{ low = A, high = B, log = true }} of {what}; "
                        f"got {wanted!r}")  # fmt: skip
    if low == high:
        return [low]
    if whole:
        return LogInteger(low, high) if log else stats.randint(low, high + 1)
    return stats.loguniform(low, high) if log else stats.uniform(low, high - low)


def _value(own: Any, value: Any) -> Any:
    """Return a value; false is None, which TOML does not have, and true the first other one, unless they are listed."""
    if not isinstance(value, bool) or not isinstance(own, list) or value in own:
        return value
    return next((listed for listed in own if listed is not None), value) if value else None
