"""MovieLens-1M under the all-but-one protocol of [XZZ13], and ratings simulated from the model.

GroupLens does not allow redistribution. `movielens/README.md` of the data says how to obtain `ml-1m/ratings.csv.gz`
(user,item,rating) and what the partitions are: 5,000 weak users, of whom one rating each is tested and the others
teach, and 1,040 strong users, of whom all but one are folded in. A further rating each, the first of the file's
validation items, chooses C; the fits that are tested are trained with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pandas as pd

if TYPE_CHECKING:
    from pathlib import Path

IntArray = npt.NDArray[np.int64]

#: NMAE is the mean absolute error over that of two independent uniform ratings.
CHANCE = 1.6


@dataclass(frozen=True)
class Rated:
    """Ratings: pairs of user and item, shape (n, 2), and levels 1..5, shape (n,)."""

    X: IntArray
    y: IntArray


@dataclass(frozen=True)
class Partition:
    """One of the three partitions; the validation ratings are in no training part."""

    name: str
    weak_train: Rated
    weak_valid: Rated
    weak_test: Rated
    strong_train: Rated
    strong_valid: Rated
    strong_test: Rated

    def final(self, group: str) -> Rated:
        """Training ratings of a group with its validation ratings."""
        train, valid = (getattr(self, f"{group}_{part}") for part in ("train", "valid"))
        return Rated(np.vstack([train.X, valid.X]), np.concatenate([train.y, valid.y]))


def partitions(ratings: Path, splits: Path) -> list[Partition]:
    """The partitions, by their numbers."""
    table = pd.read_csv(ratings).to_numpy(dtype=np.int64)
    return [_partition(table, path) for path in sorted(splits.glob("ml-1m_allbutone_part*.csv.gz"))]


def _partition(table: IntArray, path: Path) -> Partition:
    users = pd.read_csv(path)
    key = table[:, 0] * 100_000 + table[:, 1]  # sorted, as the file is
    weak = np.isin(table[:, 0], users["user"][users["group"] == "weak"])
    part = np.zeros(len(table), dtype=np.int64)
    for number, column in enumerate(("test_item", "valid1_item"), 1):
        rows = np.searchsorted(key, users["user"].to_numpy() * 100_000 + users[column].to_numpy())
        if (key[rows] != users["user"].to_numpy() * 100_000 + users[column].to_numpy()).any():
            msg = f"{path.name} names ratings that the table lacks"
            raise ValueError(msg)
        part[rows] = number
    groups = [
        Rated(table[mask & (part == p), :2], table[mask & (part == p), 2]) for mask in (weak, ~weak) for p in (0, 2, 1)
    ]
    return Partition(path.name.split("_")[2], *groups)


def simulated(n_ratings: int, n_users: int, n_items: int, n_factors: int, seed: int = 0) -> Rated:
    """Ratings by users and items of uneven zeal and fame, from a low-rank model with noise."""
    rng = np.random.default_rng(seed)
    fame = 1.0 / (np.arange(n_items) + 50.0) ** 0.8
    item_cdf = np.cumsum(fame) / fame.sum()
    # More than are asked for, because pairs drawn twice go.
    n = int(1.25 * n_ratings)
    user = np.minimum((n_users * rng.random(n) ** 1.5).astype(np.int64), n_users - 1)
    item = np.searchsorted(item_cdf, rng.random(n))
    key = np.unique(user * n_items + item)
    key = np.sort(rng.permutation(key)[:n_ratings])
    user, item = np.divmod(key, n_items)
    U, V = rng.standard_normal((n_users, n_factors)), rng.standard_normal((n_items, n_factors))
    y = np.empty(key.size, dtype=np.int64)
    for first in range(0, key.size, 1 << 20):
        rows = slice(first, first + (1 << 20))
        score = np.einsum("nk,nk->n", U[user[rows]], V[item[rows]]) / np.sqrt(n_factors)
        score += rng.standard_normal(score.size)
        y[rows] = 1 + np.searchsorted([-2.0, -0.7, 0.7, 2.0], score)
    return Rated(np.column_stack([user, item]), y)
