"""Comparisons simulated from the model of docs/maths sections 1 and 2."""

from __future__ import annotations

from numbers import Integral
from typing import TYPE_CHECKING

import numpy as np
from sklearn.utils import Bunch

from skpref._math.random import as_generator
from skpref.data import Table
from skpref.data.ids import shorten
from skpref.exceptions import DataError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from skpref._typing import Array, IntArray

__all__ = ["make_pairwise"]

_WAVES = 2000
_CHUNK = 4096


def make_pairwise(
    n_items: int = 100,
    n_comparisons: int = 1000,
    n_features: int = 5,
    *,
    length_scale: float | Array | None = None,
    scale: float = 1.0,
    ties: float = 0.0,
    random_state: int | np.random.RandomState | np.random.Generator | None = None,
) -> Bunch:
    """Simulate items, their utilities and noisy comparisons.

    Features are standard normal. Utilities f are a draw from GP(0, k/s) with
    the product Matern-3/2 kernel k, approximated by 2000 random waves whose
    frequencies follow the kernel's spectral density, a Student t with 3 degrees
    of freedom in every feature. Pairs of different items are drawn uniformly;
    the left item wins with probability Phi(f(left) - f(right)).

    Parameters
    ----------
    n_items : int, default=100
        Number of items, at least 2.
    n_comparisons : int, default=1000
        Number of comparisons, at least 1.
    n_features : int, default=5
        Number of features, at least 1.
    length_scale : float or ndarray of shape (n_features,), default=None
        Length-scales of the kernel, in units of a feature's standard
        deviation; None means 2 sqrt(n_features), with which utilities vary
        about as much with one feature as with ten.
    scale : float, default=1.0
        Inverse scale s. The variance of the utilities is 1/s and that of the
        noise is 1, so labels are noisier for larger s.
    ties : float, default=0.0
        Share in [0, 1] of the comparisons with the label 0.5: those whose
        noisy difference is nearest to zero.
    random_state : int, RandomState, Generator or None, default=None
        Source of randomness; an int gives the same data at every call.

    Returns
    -------
    Bunch
        `table`, a `Table` whose ids are 0 to n_items - 1; `comparisons`, int64
        array of shape (n_comparisons, 2); `y`, float64 array of shape
        (n_comparisons,), 1 = left, 0 = right, 0.5 = tie; `utilities`, float64
        array of shape (n_items,), the truth; `DESCR`, str.

    Raises
    ------
    DataError
        A number is out of range.

    Examples
    --------
    >>> from skpref.datasets import make_pairwise
    >>> data = make_pairwise(20, 50, 3, random_state=0)
    >>> data.table, data.comparisons.shape, data.utilities.shape
    (Table(n_items=20, n_features=3), (50, 2), (20,))
    """
    check_at_least({"n_items": (n_items, 2), "n_comparisons": (n_comparisons, 1), "n_features": (n_features, 1)})
    ties = share_of(ties, "ties")
    lengths = positive(2.0 * np.sqrt(n_features) if length_scale is None else length_scale, "length_scale", n_features)
    scale = float(positive(scale, "scale", 1)[0])
    rng = as_generator(random_state)
    X = rng.standard_normal((n_items, n_features))
    f = draw_utilities(X / lengths, rng) / np.sqrt(scale)
    left, right = draw_pairs(n_items, n_comparisons, rng)
    y = answer(f[left] - f[right] + rng.standard_normal(n_comparisons), ties)
    return Bunch(
        table=Table(X),
        comparisons=np.column_stack([left, right]),
        y=y,
        utilities=f,
        DESCR="Simulated comparisons: utilities from a Gaussian process, labels by pairwise probit.",
    )


def check_at_least(numbers: dict[str, tuple[int, int]]) -> None:
    for name, (got, least) in numbers.items():
        if not isinstance(got, Integral):
            raise DataError(f"{name} must be a whole number, got {got!r:.80}")
        if got < least:
            raise DataError(f"{name} must be at least {least}, got {got}")


def as_numbers(values: ArrayLike, name: str, wanted: str, shapes: set[tuple[int, ...]]) -> Array:
    """Return numbers as an array of one of the allowed shapes; `wanted` describes them in an error."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        array = np.full((), np.nan)
    if array.shape not in shapes or np.isnan(array).any():
        raise DataError(f"{name} must be {wanted}, got {shorten(values)}")
    return array


def positive(values: ArrayLike, name: str, n: int) -> Array:
    """Return positive numbers, shape (n,), of one number or of n."""
    wanted = f"positive, one number or {n}"
    array = as_numbers(values, name, wanted, {(), (n,)})
    if not (array > 0.0).all():
        raise DataError(f"{name} must be {wanted}, got {shorten(values)}")
    return np.broadcast_to(array, n)


def share_of(value: float, name: str) -> float:
    """Return a number between 0 and 1."""
    share = float(as_numbers(value, name, "a share in [0, 1]", {()}))
    if not 0.0 <= share <= 1.0:
        raise DataError(f"{name} must be a share in [0, 1], got {value}")
    return share


def draw_utilities(X: Array, rng: np.random.Generator) -> Array:
    """Return a sum of cosine waves whose covariance is the product Matern-3/2 kernel, shape (n,)."""
    frequency = rng.standard_t(3, size=(X.shape[1], _WAVES))
    phase = rng.uniform(0.0, 2.0 * np.pi, _WAVES)
    amplitude = rng.standard_normal(_WAVES) * np.sqrt(2.0 / _WAVES)
    starts = range(0, X.shape[0], _CHUNK)
    return np.concatenate([np.cos(X[i : i + _CHUNK] @ frequency + phase) @ amplitude for i in starts])


def draw_pairs(n_items: int, n_comparisons: int, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    left = rng.integers(0, n_items, n_comparisons)
    right = rng.integers(0, n_items - 1, n_comparisons)
    return left, right + (right >= left)


def answer(difference: Array, ties: float) -> Array:
    y = (difference > 0.0).astype(np.float64)
    n_ties = round(ties * y.size)
    y[np.argsort(np.abs(difference), kind="stable")[:n_ties]] = 0.5
    return y
