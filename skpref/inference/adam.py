"""Adam: steps of stochastic gradient ascent with a size for each parameter (Kingma and Ba, 2015)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from skpref._typing import Array, IntArray

_DECAY = 0.9, 0.999  # decay of the averages of the gradient and of its square


class Adam:
    """Averages of gradients, for the rows of a table each with its own count of steps."""

    def __init__(self, shape: tuple[int, ...], rate: float) -> None:
        self._first, self._second = np.zeros(shape), np.zeros(shape)
        self._steps, self._rate = np.zeros((shape[0], *(1 for _ in shape[1:]))), rate

    def step(self, gradient: Array, rows: IntArray | slice = slice(None)) -> Array:
        """Return the step of some rows of the parameters."""
        self._steps[rows] += 1.0
        first = _DECAY[0] * self._first[rows] + (1.0 - _DECAY[0]) * gradient
        second = _DECAY[1] * self._second[rows] + (1.0 - _DECAY[1]) * gradient**2
        self._first[rows], self._second[rows] = first, second
        mean, square = (
            part / (1.0 - decay ** self._steps[rows]) for part, decay in zip((first, second), _DECAY, strict=True)
        )
        step: Array = self._rate * mean / (np.sqrt(square) + 1e-8)
        return step
