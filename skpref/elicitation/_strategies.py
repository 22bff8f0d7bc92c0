"""By what a question is chosen."""

from __future__ import annotations

from numbers import Integral
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from skpref.exceptions import DataError

if TYPE_CHECKING:
    from skpref._typing import Array, IntArray
    from skpref.elicitation._beliefs import Belief

#: What a question may be chosen by.
STRATEGIES: Final = ("random", "mean", "variance", "information", "determinant")


def check_strategy(strategy: str) -> None:
    """Complain of a strategy that there is not."""
    if strategy not in STRATEGIES:
        raise DataError(f"strategy must be one of {', '.join(STRATEGIES)}; got {strategy!r}.")


def check_number(name: str, n: Any) -> None:
    """Complain of a number of questions that is none."""
    if not isinstance(n, Integral) or isinstance(n, bool) or n < 1:
        raise DataError(f"{name} must be an integer of at least 1; got {n!r:.80}.")


def choose(belief: Belief, rows: IntArray, n: int, strategy: str) -> IntArray:
    """Choose among candidates by what is believed, shape (at most n,)."""
    if strategy == "determinant" and n > 1:
        return rows[_most_together(belief.covariance()[np.ix_(rows, rows)], belief.precision[rows], n)]
    if strategy == "mean":
        value = -np.abs(_of_two(belief.probability) - 0.5)
    else:
        values = {"variance": belief.variance, "information": belief.gain}
        # Of a single question, the determinant needs no covariance.
        value = values[strategy] if strategy in values else belief.precision * belief.variance
    return rows[np.argsort(-value[rows], kind="stable")[:n]]


def _of_two(probability: Array | None) -> Array:
    if probability is None or probability.shape[1] != 2:
        what = "a regression has none" if probability is None else f"here are {probability.shape[1]} answers"
        advice = "take 'information' or 'determinant'"
        raise DataError(
            f"strategy 'mean' asks where the probability of one of two answers is nearest 1/2; {what}: {advice}."
        )
    return probability[:, 1]


def _most_together(covariance: Array, precision: Array, n: int) -> IntArray:
    """Greedy log det(I + W^1/2 C W^1/2): each choice conditions the covariance on a noisy look at it."""
    C, chosen = covariance.copy(), list[int]()
    for _ in range(min(n, C.shape[0])):
        value = np.log1p(precision * np.maximum(np.diagonal(C), 0.0))
        value[chosen] = -1.0
        best = int(np.argmax(value))
        chosen.append(best)
        C -= np.outer(C[best], C[best]) * (precision[best] / (1.0 + precision[best] * max(C[best, best], 0.0)))
    return np.array(chosen, dtype=np.int64)
