"""A smooth function of one variable that is evaluated so often that a table of it pays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from skpref._compiled.tables import look_up, mean_over_pairs

if TYPE_CHECKING:
    from collections.abc import Callable

    from skpref._typing import Array, IntArray

_CELLS = 40_000  # cells of a table: cubics leave 1e-11 of a likelihood's curve within 100


class Tabulated:
    """A function with its values on a grid from -reach to reach; beyond, it is called itself."""

    def __init__(self, function: Callable[[Array], Array], reach: float = 40.0) -> None:
        self.function, self.reach = function, reach
        self.step = 2.0 * reach / _CELLS
        self.low = -reach - self.step
        self.table = function(self.low + self.step * np.arange(_CELLS + 3, dtype=np.float64))

    def __call__(self, x: Array) -> Array:
        """Return the function at x, of any shape."""
        if not np.abs(x).max(initial=0.0) <= self.reach:
            return self.function(x)
        return np.asarray(look_up(self.table, self.low, self.step, x.ravel())).reshape(x.shape)

    def mean_over_pairs(self, f: Array, side: Array, left: IntArray, right: IntArray, weight: Array) -> Array:
        """Return the weighted sum over pairs of the function of side (f_left - f_right), f (S, n), shape (S,)."""
        if not np.ptp(f, axis=1).max(initial=0.0) <= self.reach:
            return np.asarray(self.function(side * (f[:, left] - f[:, right])) @ weight)
        f = np.ascontiguousarray(f)
        return np.asarray(mean_over_pairs(self.table, self.low, self.step, f, side, left, right, weight))
