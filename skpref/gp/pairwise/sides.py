"""Warnings of comparisons that were probably read otherwise than they were meant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from skpref._validation import column_names
from skpref._warn import warn
from skpref.exceptions import DataWarning

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from skpref._typing import Array
    from skpref.data import Comparisons

_MANY = 10  # rows that hardly ever have one winner's side by chance
_NEVER_LEFT = (
    "y is False in all {} comparisons. If it is a test such as table['winner'] == table['model_a'], the winners may be "
    "words for sides, such as 'model_a', and not ids: skpref.data.from_winners reads both. If rows are (loser, "
    "winner), exchange the columns and leave y out."
)
_LABELS = {"winner", "label", "y", "won", "outcome", "result", "preferred", "preference", "verdict", "chosen"}
_UNLABELLED = (
    "y is None, so the left item wins in every row, but X has the column {!r}. Give labels as y, such as "
    "skpref.data.from_winners(X).y; or pass the columns of ids alone."
)
_FAR = 3.5  # standard errors: about one warning in 2,000 data sets without an advantage of a side


def warn_never_left(comparisons: Comparisons, classes: NDArray[Any]) -> None:
    """Warn if labels that are booleans, which may come from a test, are False in all of many comparisons."""
    used = comparisons.y[comparisons.weight > 0.0]
    if classes.dtype == bool and used.size >= _MANY and not used.any():
        warn(_NEVER_LEFT.format(used.size), DataWarning)


def warn_unlabelled(X: Any, y: Any, used: Sequence[Any]) -> None:
    """Warn if there are no labels, but X has a column besides the `used` ones that looks like labels."""
    columns = [] if y is not None else column_names(X) or []
    named = [name for name in columns if name not in used and str(name).lower() in _LABELS]
    if named and len(columns) > len(used):
        warn(_UNLABELLED.format(named[0]), DataWarning)


def warn_of_sides(comparisons: Comparisons, expected: Array | None) -> None:
    """Warn if a side wins more often than `expected` (n,) by the model; None: as often as in the other order."""
    used = comparisons.take(comparisons.weight > 0.0)
    if not used.n_pairs or (used.y == used.y[0]).all():  # rows are (winner, loser)
        return
    z = side_advantage(used, used.y - (0.5 if expected is None else expected[comparisons.weight > 0.0]))
    if abs(z) <= _FAR:
        return
    side, others = "left" if z > 0 else "right", "" if comparisons.covariates is None else " and covariates"
    msg = (
        f"The {side} side wins more often than the items{others} explain ({abs(z):.1f} standard errors; it wins "
        f"{np.mean(used.y if z > 0 else 1.0 - used.y):.1%} of all). Learn the advantage by order_effect=True. If the "
        "sides were chosen after the answer, such as winners first, swap the sides of random rows instead."
    )
    warn(msg, DataWarning)


def side_advantage(comparisons: Comparisons, residual: Array) -> float:
    """Return by how many standard errors the left side does better than the right one.

    It compares the rows (a, b) with the rows (b, a) of the same two items, so that it does not depend on utilities: the
    test of Cochran, Mantel and Haenszel, where residuals replace wins. 0 where nobody met in both orders.
    """
    c = comparisons
    if c.left.ndim == 2:  # teams hardly ever meet again: what players do not explain
        return float(residual.sum() / max(np.sqrt(residual @ residual), np.finfo(np.float64).tiny))
    swap = c.left > c.right
    code = np.minimum(c.left, c.right) * np.int64(c.n_items) + np.maximum(c.left, c.right)
    pair = np.unique(code, return_inverse=True)[1]
    # Of the item with the lower number, in either order; the other one's residual is its negative.
    lower = np.where(swap, -residual, residual)
    n, n_left = np.bincount(pair), np.bincount(pair, ~swap)
    mean = np.bincount(pair, lower) / n
    excess = np.bincount(pair, np.where(swap, 0.0, lower)) - n_left * mean
    spread = np.bincount(pair, np.square(lower - mean[pair]))
    variance = float((n_left * (n - n_left) / (n * np.maximum(n - 1.0, 1.0)) * spread).sum())
    # Soft answers that agree in both orders differ by rounding alone, which is no advantage of a side.
    return float(excess.sum() / np.sqrt(variance)) if variance > n.sum() * np.finfo(np.float64).eps else 0.0
