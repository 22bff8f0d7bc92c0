"""Earlier address of `Iteration` and `OnIteration`; import them from `skpref.tracking`."""

from skpref._events import Iteration, OnIteration

__all__ = ["Iteration", "OnIteration"]
