"""Events that a running fit sends out: plain Python, so that every level may use them."""

from __future__ import annotations

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
        Iterations at most.
    bound : float
        Value of the objective (lower bound, log joint), in nats.
    seconds : float
        Time since the fit began.
    fitted : callable, default=None
        Gives the estimator as if its fit had ended now, or None where there is nothing to predict with yet. None: it is
        not known what that would be.
    """

    step: int
    n_max: int
    bound: float
    seconds: float
    fitted: Callable[[], Any] | None = None

    @property
    def eta(self) -> float:
        """Seconds still to go if all iterations are needed."""
        return self.seconds / self.step * (self.n_max - self.step)


# Called after every iteration; a true answer stops the fit, which keeps what it has.
OnIteration = Callable[[Iteration], "bool | None"]
