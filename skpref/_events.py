"""Events of a running fit, as plain Python that every level can import."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Iteration:
    """One finished iteration of a fit.

    Parameters
    ----------
    step : int
        Number of iterations done, from 1.
    n_max : int
        Maximum number of iterations.
    bound : float
        Value of the objective (lower bound, log joint), in nats.
    seconds : float
        Time since the fit began.
    fitted : callable, default=None
        Returns the estimator as if the fit had ended now, or None if it cannot predict yet. None if the fit does not
        offer this.
    """

    step: int
    n_max: int
    bound: float
    seconds: float
    fitted: Callable[[], Any] | None = None

    @property
    def eta(self) -> float:
        """Estimated remaining seconds if all iterations are needed."""
        return self.seconds / self.step * (self.n_max - self.step)


def seconds_since(begin: float, step: int, n_before: int) -> float:
    """Return the time of a fit whose process began at `begin`, plus an estimate for `n_before` earlier steps."""
    return (time.perf_counter() - begin) * step / (step - n_before)


# Called after every iteration. If it returns True, the fit stops and keeps its current result.
OnIteration = Callable[[Iteration], "bool | None"]
