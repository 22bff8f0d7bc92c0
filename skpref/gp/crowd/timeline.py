"""Time in a crowd: groups in a row, whose parts of the utilities are alike the nearer they are (docs/maths 12).

The span of the comparisons is cut into steps, and each step is a group. A user's answers are integrated out together,
so that what all users share needs a dense matrix: steps, in place of a node at each time, keep it small.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from skpref._checks import check_positive, check_types, is_count, require
from skpref._math.linalg import cholesky, solve_lower
from skpref._warn import warn
from skpref.exceptions import DataError
from skpref.gp.crowd.policy import POLICY
from skpref.gp.pairwise.over_time import SkillDynamics

if TYPE_CHECKING:
    from skpref._typing import Array, IntArray

_WALK = 6.0  # inverse of the variance that a random walk of unit span has, on average, around its average


class Reach(NamedTuple):
    """How the part of a group follows from independent variables of unit variance."""

    weights: Array  # (n_levels,)
    rest: float  # variance that they leave
    variance: float


@dataclass(frozen=True, eq=False)
class Timeline:
    """Steps of equal length, and how utilities move between them."""

    origin: float
    step: float
    n_steps: int  # from the first to the last comparison
    span: float  # unit of the random walk and of the length
    walk: float = 1.0  # share of a random walk in the variance; the rest is the form, which comes and goes
    length: float = 1.0  # steps in which the correlation of the form falls to 1/e
    is_dated: bool = False  # whether times are years since 1970

    def validate(self) -> None:
        """Raise DataError unless the parts fit together."""
        check_types(self, is_dated=bool)
        check_positive(self, "step", "span", "length")
        check_positive(self, "walk", zero=True)
        require(np.isfinite(self.origin) and self.walk <= 1.0, self, "walk", "must be a share, and origin finite")
        is_number = is_count(self.n_steps) and 0 < self.n_steps <= POLICY.most_variables
        require(is_number, self, "n_steps", "must be a number")

    @classmethod
    def cut(cls, time: Array, width: int, n_places: int, *, is_dated: bool) -> Timeline | None:
        """Return steps for times, as many as their variables and places allow; None where all times are equal."""
        first, last = float(time.min()), float(time.max())
        most = min(POLICY.most_variables // max(width, 1), POLICY.most_places // max(n_places, 1))
        n = int(np.clip(most, 2, POLICY.most_steps))
        if last <= first:
            warn("time: all comparisons have the same time, so that nothing can move: the model without time is fitted")
            return None
        return cls(first, (last - first) / (n - 1), n, float(n - 1), is_dated=is_dated)

    def until(self, time: Array) -> Timeline:
        """Return the timeline with steps up to the last of these times, none before its first one."""
        if float(time.min()) < self.origin - 0.5 * self.step:
            raise DataError("time: X has comparisons before those of fit; call fit with all comparisons")
        n = float(self.levels_of(time.max())) + 1.0
        if n > POLICY.most_variables:
            raise DataError(
                f"time: X ends {n:.3g} steps after the first comparison, in steps of {self.step:.3g}; at most "
                f"{POLICY.most_variables} are possible. Call fit with all comparisons, which takes longer steps"
            )
        return replace(self, n_steps=max(self.n_steps, int(self.steps_of(time).max()) + 1))

    def coarser(self, width: int) -> Timeline:
        """Return fewer steps over the same time, in which utilities move as here, by the variables of each step."""
        n = min(self.n_steps, int(np.clip(POLICY.few_variables // max(width, 1), 2, POLICY.few_steps)))
        factor = (self.n_steps - 1) / max(n - 1, 1)
        moving = self.span / factor, self.walk, self.length / factor
        return Timeline(self.origin, self.step * factor, n, *moving, is_dated=self.is_dated)

    def candidates(self) -> tuple[Timeline, ...]:
        """Return the ways in which utilities may move."""
        return tuple(replace(self, walk=walk, length=length * self.span) for walk, length in POLICY.kinds)

    def steps_of(self, time: Array) -> IntArray:
        """Return the step of each time, which may be after the last one."""
        # Times in the middle of two go up, whatever their unit.
        return np.floor(self.levels_of(time) + 0.5 + 1e-6).astype(np.int64)

    def levels_of(self, time: Array, parts: int | None = None) -> Array:
        """Return times in steps, perhaps in whole parts of steps; before the first, utilities are as there."""
        level = np.maximum((time - self.origin) / self.step, 0.0)
        return np.asarray(level if parts is None else np.rint(parts * level) / parts)

    @property
    def end(self) -> float:
        """Time of the last step."""
        return self.origin + (self.n_steps - 1) * self.step

    def time_of(self, step: IntArray) -> Array:
        """Return the times of steps."""
        return np.asarray(self.origin + step * self.step, dtype=np.float64)

    @cached_property
    def root(self) -> Array:
        """Root of the covariance of the steps: rows are their parts of independent variables, shape (n, n)."""
        return cholesky(self._covariance(np.arange(self.n_steps), np.arange(self.n_steps)))

    def dynamics(self, start: float, moved: float) -> SkillDynamics:
        """Return how utilities move, given variances of their average and of what moves."""
        drift = float(np.sqrt(_WALK * self.walk * moved / (self.span * self.step)))
        form = float(np.sqrt((1.0 - self.walk) * moved))
        length = self.length * self.step if form else 0.0
        sizes = float(np.sqrt(start)), drift, form, length, 0.0, 0.0, 0.0
        return SkillDynamics("drift" if drift else "form", *sizes, {})

    def reach(self, level: float) -> Reach:
        """Return how the part of a time in steps, perhaps after the last one, follows from the variables."""
        own = self._covariance(np.array([level]), np.array([level])).item()
        if level < self.n_steps and level == int(level):
            return Reach(self.root[int(level)], 0.0, own)
        weights = solve_lower(self.root, self._covariance(np.arange(self.n_steps), np.array([level]))[:, 0])
        return Reach(weights, max(own - float(weights @ weights), 0.0), own)

    def _covariance(self, a: Any, b: Any) -> Array:
        """Return the covariance of steps, whose average over the span is 1; the walk is around its average."""
        s, t = a[:, None] / self.span, b[None, :] / self.span
        around = [np.where(x <= 1.0, x - 0.5 * x**2, 0.5) for x in (s, t)]
        walk = _WALK * (np.minimum(s, t) - around[0] - around[1] + 1.0 / 3.0)
        form = np.exp(-np.abs(s - t) * (self.span / self.length))
        return np.asarray(self.walk * walk + (1.0 - self.walk) * form)
