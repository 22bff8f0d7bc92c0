"""Settings as points of a unit cube, and back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from skpref._typing import Array, BoolArray

_DIGITS: Final = 12  # to which a place is rounded, so that it does not depend on the way there


@dataclass(frozen=True, eq=False)
class Cube:
    """A space of settings that do not depend on each other."""

    space: Mapping[str, Any]  # by the setting's name
    # which settings are choices; of them, a point has the place in the list instead of a number from 0 to 1
    choices: BoolArray = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "choices", np.array([hasattr(known, "choices") for known in self.space.values()]))

    def points(self, settings: Sequence[Mapping[str, Any]]) -> Array:
        """Return settings as points, shape (n, d)."""
        columns = [
            _place(known, np.array([known.to_internal_repr(one[name]) for one in settings], dtype=np.float64))
            for name, known in self.space.items()
        ]
        return np.stack(columns, axis=1)

    def params(self, point: Array) -> dict[str, Any]:
        """Return a point as settings."""
        pairs = zip(self.space.items(), point, strict=True)
        return {name: known.to_external_repr(_inside(known, np.array(place)).item()) for (name, known), place in pairs}

    def spread(self, u: Array) -> Array:
        """Take uniform numbers to points that are settings, shape (n, d)."""
        columns = zip(self.space.values(), u.T, strict=True)
        return np.stack([_place(known, _inside(known, _scaled(known, column))) for known, column in columns], axis=1)

    def around(self, points: Array, width: float, rng: np.random.Generator) -> Array:
        """Draw neighbours: about half of the settings of each differ, shape (n, d)."""
        moved = np.clip(points + width * rng.standard_normal(points.shape), 0.0, 1.0)
        others = rng.random(points.shape)
        kept = rng.random(points.shape) < 0.5
        columns = [
            _place(known, _inside(known, _scaled(known, others[:, j]) if self.choices[j] else moved[:, j]))
            for j, known in enumerate(self.space.values())
        ]
        return np.where(kept, points, np.stack(columns, axis=1))


def _ends(known: Any) -> tuple[float, float]:
    """Both ends of a range of numbers, half a step beyond where they have steps, on the scale on which it is even."""
    half = 0.5 * (known.step or 0.0)
    # With a logarithm, optuna's steps are 1 for whole numbers, and none for others.
    ends = (known.low - half, known.high + half)
    return (float(np.log(ends[0])), float(np.log(ends[1]))) if known.log else (float(ends[0]), float(ends[1]))


def _place(known: Any, value: Array) -> Array:
    """Where values are, of optuna's internal kind."""
    if hasattr(known, "choices"):
        return value
    low, high = _ends(known)
    at = np.log(value) if known.log else value
    return np.round((at - low) / (high - low), _DIGITS)


def _scaled(known: Any, u: Array) -> Array:
    """Uniform numbers as places."""
    return np.floor(u * len(known.choices)) if hasattr(known, "choices") else u


def _inside(known: Any, place: Array) -> Array:
    """Values at places: the nearest that there are."""
    if hasattr(known, "choices"):
        return np.clip(place, 0, len(known.choices) - 1)
    low, high = _ends(known)
    at = low + (high - low) * place
    value = np.exp(at) if known.log else at
    if known.step:
        value = known.low + known.step * np.round((value - known.low) / known.step)
    return np.clip(value, known.low, known.high)
