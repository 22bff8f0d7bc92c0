"""What kinds of models take of parameters: a record each, and the two messages about a parameter that does not fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from skpref.data.ids import shorten
from skpref.exceptions import DataError

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Capabilities:
    """The values of some parameters that a kind of models takes; it takes any value of the others."""

    models: str
    takes: Mapping[str, tuple[Any, ...]]  # values, or types of values
    instead: str  # what to do otherwise

    def check(self, parameters: Mapping[str, Any]) -> None:
        """Refuse the first of these parameters whose value the models do not take."""
        for name, values in self.takes.items():
            if not any(_is_one(parameters[name], value) for value in values):
                wanted = " or ".join(repr(value) for value in values if not isinstance(value, type))
                raise DataError(
                    f"{name}={shorten(parameters[name])} is not for {self.models}: use {name}={wanted}, or "
                    f"{self.instead}"
                )


def _is_one(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, type):
        return isinstance(value, wanted)
    return value is wanted or (isinstance(value, str | np.bool_) and bool(value == wanted))


def check_unchanged(name: str, now: Any, then: Any) -> None:
    """Refuse a parameter by which the model would not be the one that was fitted."""
    if now != then:
        raise DataError(
            f"{name} differs from that of the fit, which had {shorten(then)}; got {shorten(now)}. Set it back, or call "
            "fit with all comparisons"
        )
