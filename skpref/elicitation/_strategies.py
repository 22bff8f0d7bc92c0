"""Strategies: how to choose the next questions."""

from __future__ import annotations

from numbers import Integral
from typing import Any, Final, Literal, TypeAlias, get_args

import numpy as np

from skpref._typing import Array, IntArray
from skpref.elicitation._beliefs import Belief
from skpref.exceptions import DataError

Strategy: TypeAlias = Literal["random", "mean", "variance", "information", "determinant"]
#: Names of the strategies.
STRATEGIES: Final[tuple[Strategy, ...]] = get_args(Strategy)


def check_strategy(strategy: str) -> None:
    """Raise an error for an unknown strategy."""
    if strategy not in STRATEGIES:
        raise DataError(f"strategy must be one of {', '.join(STRATEGIES)}; got {strategy!r}.")


def check_number(name: str, n: Any) -> None:
    """Raise an error for a number of questions that is not a positive integer."""
    if not isinstance(n, Integral) or isinstance(n, bool) or n < 1:
        raise DataError(f"{name} must be an integer of at least 1; got {n!r:.80}.")


def choose(belief: Belief, rows: IntArray, n: int, strategy: str) -> IntArray:
    """Return the chosen candidates, best first, shape (at most n,)."""
    if strategy == "determinant" and n > 1:
        return rows[_greedy_determinant(belief.covariance()[np.ix_(rows, rows)], belief.precision[rows], n)]
    if strategy == "mean":
        value = -np.abs(_probability_of_second(belief.probability) - 0.5)
    else:
        values = {"variance": belief.variance, "information": belief.gain}
        # Of a single question, the determinant needs no covariance.
        value = values[strategy] if strategy in values else belief.precision * belief.variance
    return rows[np.argsort(-value[rows], kind="stable")[:n]]


def _probability_of_second(probability: Array | None) -> Array:
    if probability is None or probability.shape[1] != 2:
        answers = "real numbers as answers" if probability is None else f"{probability.shape[1]} possible answers"
        raise DataError(
            f"strategy 'mean' needs exactly two possible answers; the model has {answers}. "
            "Use 'information' or 'determinant'."
        )
    return probability[:, 1]


def _greedy_determinant(covariance: Array, precision: Array, n: int) -> IntArray:
    """Maximise log det(I + W^1/2 C W^1/2) greedily: each choice conditions C on its noisy observation."""
    C, chosen = covariance.copy(), list[int]()
    for _ in range(min(n, C.shape[0])):
        value = np.log1p(precision * np.maximum(np.diagonal(C), 0.0))
        value[chosen] = -1.0
        best = int(np.argmax(value))
        chosen.append(best)
        C -= np.outer(C[best], C[best]) * (precision[best] / (1.0 + precision[best] * max(C[best, best], 0.0)))
    return np.array(chosen, dtype=np.int64)
