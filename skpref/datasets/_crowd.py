"""Comparisons by many users, simulated from the model of docs/maths section 6."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from sklearn.utils import Bunch, check_array

from skpref._math.limits import LARGEST
from skpref._math.random import as_generator
from skpref.data import Table
from skpref.data.ids import shorten
from skpref.datasets._simulated import (
    answer,
    as_numbers,
    check_at_least,
    draw_pairs,
    draw_utilities,
    positive,
    share_of,
)
from skpref.exceptions import DataError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from skpref._typing import Array, IntArray

__all__ = ["make_crowd"]

_MOST_UTILITIES = 2**27  # float64: 1 GiB


def make_crowd(
    n_users: int = 50,
    n_items: int = 50,
    n_comparisons: int = 2000,
    n_factors: int = 2,
    n_features: int = 2,
    n_user_features: int = 2,
    *,
    item_features: ArrayLike | None = None,
    user_features: ArrayLike | None = None,
    length_scale: ArrayLike | None = None,
    user_length_scale: ArrayLike | None = None,
    scale: float = 1.0,
    factor_scale: ArrayLike = 1.0,
    user_factor_scale: ArrayLike = 1.0,
    noise: ArrayLike = 1.0,
    ties: float = 0.0,
    order_effect: tuple[float, float] = (0.0, 0.0),
    share_random: float = 0.0,
    comparisons_per_user: ArrayLike | None = None,
    random_state: int | np.random.RandomState | np.random.Generator | None = None,
) -> Bunch:
    """Simulate users with individual tastes and their noisy comparisons of items.

    The utility of item x to user u is f(x, u) = t(x) + sum_d w_d(u) v_d(x), with a consensus t and D factors. Each
    function is a draw from a Gaussian process of the features, as in `make_pairwise`, or is independent noise where
    there are no features. User u prefers the left item if f(left, u) - f(right, u) + b_u + noise > 0, where b_u is the
    user's bias for the left side. With the same `random_state`, all random draws stay the same when the scales,
    `noise`, `ties`, `order_effect` and `share_random` change.

    Parameters
    ----------
    n_users, n_items, n_comparisons : int, default=50, 50 and 2000
        Sizes, at least 1, 2 and 1. Users and pairs of different items are drawn uniformly.
    n_factors : int, default=2
        Number of factors D; with 0 all users have the same utilities.
    n_features, n_user_features : int, default=2
        Numbers of standard normal features of items and users; with 0, items (users) are independent.
    item_features, user_features : array-like of shape (n_items, n_features) or (n_users, n_user_features), default=None
        Features to use instead of random ones, for example a grid; they determine the sizes above.
    length_scale, user_length_scale : float or array-like of shape (n_features,) or (n_user_features,), default=None
        Length-scales of the kernels, in units of the features; None means 2 sqrt(number of features), with which
        utilities vary about as much with one feature as with ten.
    scale : float, default=1.0
        Inverse scale s_t: the variance of the consensus is 1/s_t. Infinity means no consensus.
    factor_scale, user_factor_scale : float or array-like of shape (n_factors,), default=1.0
        Inverse scales s_d and s_d^w: the variances of v_d and w_d are 1/s_d and 1/s_d^w; infinity removes a factor.
    noise : float or array-like of shape (n_users,), default=1.0
        Standard deviation of the noise of an answer. The model assumes 1; with 0 there are no errors.
    ties : float, default=0.0
        Share in [0, 1] of the comparisons with the label 0.5: those whose noisy difference is nearest to zero.
    order_effect : tuple of float (mean, standard deviation), default=(0.0, 0.0)
        Normal distribution of b_u over users, in units of utility; positive favours the left side.
    share_random : float, default=0.0
        Share in [0, 1] of the users, drawn at random, whose answers are random.
    comparisons_per_user : int or array-like of shape (n_users,), default=None
        Number of comparisons of each user, 0 or more, instead of `n_comparisons`; rows are shuffled.
    random_state : int, RandomState, Generator or None, default=None
        Source of randomness; an int gives the same data at every call.

    Returns
    -------
    Bunch
        The data: `table` of the items and `user_table`, each a `Table` whose ids are row numbers, or None without
        features; `comparisons`, int64 array of shape (n_comparisons, 3) with user, left and right; `y` of shape
        (n_comparisons,), 1 = left, 0 = right, 0.5 = tie. The truth: `consensus` of shape (n_items,); `item_factors`
        (n_items, n_factors); `user_factors` (n_users, n_factors); `utilities` (n_users, n_items), consensus +
        user_factors @ item_factors.T, or None if they need more than 1 GiB; `position_bias` (n_users,), the b_u;
        `random_users` (n_users,), bool, users whose answers are random. `DESCR`, str.

    Raises
    ------
    DataError
        A number is out of range or an array has a wrong shape.

    Examples
    --------
    >>> from skpref.datasets import make_crowd
    >>> data = make_crowd(30, 20, 500, n_user_features=0, random_state=0)
    >>> data.table, data.user_table, data.comparisons.shape, data.utilities.shape
    (Table(n_items=20, n_features=2), None, (500, 3), (30, 20))
    """
    check_at_least({"n_users": (n_users, 1), "n_items": (n_items, 2), "n_comparisons": (n_comparisons, 1)})
    check_at_least(
        {"n_factors": (n_factors, 0), "n_features": (n_features, 0), "n_user_features": (n_user_features, 0)}
    )
    rng = as_generator(random_state)
    X = _read_features(item_features, "item_features", (n_items, n_features), rng)
    X_users = _read_features(user_features, "user_features", (n_users, n_user_features), rng)
    at, at_users = _scaled(X, length_scale, "length_scale"), _scaled(X_users, user_length_scale, "user_length_scale")
    t = _draw_functions(at, positive(scale, "scale", 1), rng)[:, 0]
    V = _draw_functions(at, positive(factor_scale, "factor_scale", n_factors), rng)
    W = _draw_functions(at_users, positive(user_factor_scale, "user_factor_scale", n_factors), rng)
    crowd = _Crowd(t, V, W, _draw_bias(order_effect, len(W), rng), _draw_random_users(share_random, len(W), rng))
    user = _draw_users(len(W), n_comparisons, comparisons_per_user, rng)
    left, right = draw_pairs(len(t), user.size, rng)
    y = answer(crowd.differences(user, left, right, noise, rng), share_of(ties, "ties"))
    return crowd.bunch(X, X_users, np.column_stack([user, left, right]), y)


@dataclass(frozen=True)
class _Crowd:
    """The truth about N items and U users."""

    consensus: Array  # (N,)
    item_factors: Array  # (N, D)
    user_factors: Array  # (U, D)
    position_bias: Array  # (U,)
    random_users: NDArray[np.bool_]  # (U,)

    def differences(
        self, user: IntArray, left: IntArray, right: IntArray, noise: ArrayLike, rng: np.random.Generator
    ) -> Array:
        """Noisy differences of the utilities of left and right, shape (P,)."""
        z = self.consensus[left] - self.consensus[right] + self.position_bias[user]
        for v, w in zip(self.item_factors.T, self.user_factors.T, strict=True):  # memory for one factor, not for D
            z += w[user] * (v[left] - v[right])
        error = rng.standard_normal(user.size)
        z += _read_noise(noise, len(self.user_factors))[user] * error
        return np.where(self.random_users[user], error, z)

    def bunch(self, X: Array, X_users: Array, comparisons: IntArray, y: Array) -> Bunch:
        return Bunch(
            table=Table(X) if X.shape[1] else None,
            user_table=Table(X_users) if X_users.shape[1] else None,
            comparisons=comparisons,
            y=y,
            consensus=self.consensus,
            item_factors=self.item_factors,
            user_factors=self.user_factors,
            utilities=self.utilities(),
            position_bias=self.position_bias,
            random_users=self.random_users,
            DESCR="Simulated comparisons by many users: Gaussian processes for a consensus and factors of taste, "
            "labels by pairwise probit.",
        )

    def utilities(self) -> Array | None:
        if len(self.user_factors) * len(self.consensus) > _MOST_UTILITIES:
            return None
        return self.consensus + self.user_factors @ self.item_factors.T


# --------------------------------------------------------------------------
# draws


def _draw_functions(X: Array, scales: Array, rng: np.random.Generator) -> Array:
    """Return one draw per scale s from GP(0, k/s) at the rows of X, length-scale 1, shape (n, n_scales)."""
    n, n_features = X.shape
    draws = [draw_utilities(X, rng) if n_features else rng.standard_normal(n) for _ in scales]
    return np.stack(draws, axis=1) / np.sqrt(scales) if draws else np.empty((n, 0))


def _draw_bias(order_effect: tuple[float, float], n_users: int, rng: np.random.Generator) -> Array:
    wanted = f"two numbers up to {LARGEST:g}, a mean and a standard deviation >= 0"
    values = as_numbers(order_effect, "order_effect", wanted, {(2,)})
    if np.abs(values).max() > LARGEST or values[1] < 0.0:
        raise DataError(f"order_effect must be {wanted}, got {shorten(order_effect)}")
    mean, deviation = values.tolist()
    return mean + deviation * rng.standard_normal(n_users)


def _draw_random_users(share: float, n_users: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    return rng.permutation(n_users) < round(share_of(share, "share_random") * n_users)


def _draw_users(n_users: int, n_comparisons: int, per_user: ArrayLike | None, rng: np.random.Generator) -> IntArray:
    """Return the row of the user of every comparison."""
    if per_user is None:
        return rng.integers(0, n_users, n_comparisons)
    counts = np.asarray(per_user)
    fits = counts.dtype.kind in "iu" and counts.shape in {(), (n_users,)} and counts.min() >= 0 and counts.max() > 0
    if not fits:
        raise DataError(
            f"comparisons_per_user must be integers >= 0, one or {n_users}, one per user, and not all 0, "
            f"got {shorten(per_user)}"
        )
    return rng.permutation(np.repeat(np.arange(n_users), counts))


# --------------------------------------------------------------------------
# arguments


def _read_features(features: ArrayLike | None, name: str, shape: tuple[int, int], rng: np.random.Generator) -> Array:
    """Return the caller's features, or standard normal ones of that shape."""
    if features is None:
        return rng.standard_normal(shape)
    least = 2 if name == "item_features" else 1
    return check_array(features, dtype=np.float64, input_name=name, ensure_min_samples=least, estimator="make_crowd")


def _scaled(X: Array, length_scale: ArrayLike | None, name: str) -> Array:
    n_features = X.shape[1]
    if not n_features:
        return X
    return X / positive(2.0 * np.sqrt(n_features) if length_scale is None else length_scale, name, n_features)


def _read_noise(noise: ArrayLike, n_users: int) -> Array:
    wanted = f"from 0 to {LARGEST:g}, one number or {n_users}, one per user"
    array = as_numbers(noise, "noise", wanted, {(), (n_users,)})
    if array.min() < 0.0 or array.max() > LARGEST:
        raise DataError(f"noise must be {wanted}, got {shorten(noise)}")
    return np.broadcast_to(array, n_users)
