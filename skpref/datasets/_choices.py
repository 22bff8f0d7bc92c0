"""Choices among products with attributes by many people, simulated from the model of docs/maths section 14."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from sklearn.utils import Bunch

from skpref._math.random import as_generator
from skpref.data.choices import from_tasks
from skpref.data.ids import shorten
from skpref.datasets._simulated import check_at_least
from skpref.exceptions import DataError

if TYPE_CHECKING:
    from skpref._typing import RandomState

__all__ = ["make_choices"]

_BRANDS = "x", "y", "z"
_MEAN, _SPREAD = np.array([0.5, 0.0, -0.5, -1.0]), np.array([0.8, 0.8, 0.8, 0.4])  # part-worths: brands, price
_PRICES = 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0


def make_choices(
    n_users: int = 50, n_tasks: int = 10, n_shown: int = 3, *, none: bool = False, random_state: RandomState = None
) -> Bunch:
    """Simulate a conjoint study: people choose among products of three brands at several prices.

    The part-worths of a person are normal: those of the brands x, y and z have the means 0.5, 0 and -0.5 and the
    standard deviation 0.8, and that of the price has the mean -1 and the standard deviation 0.4.

    Parameters
    ----------
    n_users : int, default=50
        Number of people.
    n_tasks : int, default=10
        Tasks of each.
    n_shown : int, default=3
        Products that a task shows, 2 to 7: their prices differ.
    none : bool, default=False
        Whether a task offers to choose none of them, too, whose utility is -2.
    random_state : int, RandomState, Generator or None, default=None
        Seed.

    Returns
    -------
    Bunch
        X, y and `table`, the items, as of `from_tasks`; `shown`, the long table, a dict of columns; and `part_worths`,
        shape (n_users, 4), of the brands and the price.

    Raises
    ------
    ValueError
        If a number is too small or too large, or `none` is no boolean.

    Examples
    --------
    >>> from skpref.datasets import make_choices
    >>> data = make_choices(n_users=2, n_tasks=3, random_state=0)
    >>> data.X.shape, data.y.shape, data.table.feature_names
    ((6, 4), (6,), ('brand=x', 'brand=y', 'brand=z', 'price'))
    """
    check_at_least({"n_users": (n_users, 1), "n_tasks": (n_tasks, 1), "n_shown": (n_shown, 2)})
    if n_shown > len(_PRICES):
        raise DataError(f"n_shown must be at most {len(_PRICES)}, got {n_shown}")
    if not isinstance(none, bool | np.bool_):
        raise DataError(f"none must be True or False, got {shorten(none)}")
    rng = as_generator(random_state)
    part_worths = _MEAN + _SPREAD * rng.standard_normal((int(n_users), _MEAN.size))
    rows: list[tuple[str, int, str, float, int]] = []
    for user in range(n_users):
        for task in range(n_tasks):
            brands, prices = rng.integers(3, size=n_shown), rng.permutation(len(_PRICES))[:n_shown]
            utility = [
                part_worths[user, b] + part_worths[user, 3] * _PRICES[p] for b, p in zip(brands, prices, strict=True)
            ]
            utility += [-2.0] * none
            chosen = int(np.argmax(np.array(utility) + rng.gumbel(size=len(utility))))
            offers = [(_BRANDS[b], _PRICES[p]) for b, p in zip(brands, prices, strict=True)] + [("none", 0.0)] * none
            rows += [(f"person {user}", task, *offer, int(k == chosen)) for k, offer in enumerate(offers)]
    shown = dict(zip(("person", "task", "brand", "price", "chosen"), map(list, zip(*rows, strict=True)), strict=True))
    X, y, items = from_tasks(shown, features=["brand", "price"], none="none" if none else None)
    return Bunch(X=X, y=y, table=items, shown=shown, part_worths=part_worths)
