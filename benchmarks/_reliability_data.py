"""Sets of `reliability.py`, named before the script first ran: none took part in choosing a default of skpref.

All are read from one folder. A set whose file is absent is skipped.

| file | from the public repository (commit) |
|---|---|
| atp_matches_2022.csv, atp_matches_2023.csv | JeffSackmann/tennis_atp (5b6263d) |
| international_results.csv | martj42/international_results, results.csv (65d212a) |
| winequality-white.csv, new-thyroid.csv, phoneme.csv, german.csv, mammography.csv | jbrownlee/Datasets (d20fcb6) |
| coat_train.txt | guoguibing/librec, data/coat/train/ratings_1.txt (c1ce6b9) |
| jester.csv | kbsooo/GNN_and_Bigdata, jester_ratings.csv (b9bbaa8) |
| restaurants.csv | Michelebradley/data612, rating_final.csv (45d674e) |

The diabetes set comes with scikit-learn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pandas as pd

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
MOST_ROWS = 20_000


@dataclass(frozen=True)
class Labelled:
    """Rows of features, shape (n, d), and levels or classes 0, 1, ..., shape (n,)."""

    X: FloatArray
    y: IntArray


@dataclass(frozen=True)
class Rated:
    """Pairs of user and item, numbered, shape (n, 2), and levels 0, 1, ..., shape (n,)."""

    X: IntArray
    y: IntArray


@dataclass(frozen=True)
class Compared:
    """Pairs of items, numbered, shape (n, 2), 1 where the left one won, and what is known of the items."""

    X: IntArray
    y: IntArray
    features: FloatArray | None = None
    order_effect: bool = False


def _sample(n: int, at_most: int) -> IntArray:
    return np.sort(np.random.default_rng(0).permutation(n)[:at_most])


def _levels(target: npt.ArrayLike) -> IntArray:
    return np.unique(target, return_inverse=True)[1].astype(np.int64)


def _numbered(*columns: npt.ArrayLike) -> IntArray:
    """Number ids of users and items, each by itself."""
    return np.column_stack([_levels(column) for column in columns])


# -------------------------------------------------------------------------------------------------------- comparisons
def _won(winner: npt.ArrayLike, loser: npt.ArrayLike) -> Compared:
    """Put the winner left or right by a coin."""
    ids = _levels(np.concatenate([np.asarray(winner), np.asarray(loser)])).reshape(2, -1).T
    y = np.random.default_rng(0).integers(0, 2, len(ids))
    return Compared(np.where(y[:, None] == 1, ids, ids[:, ::-1]), y)


def tennis(folder: Path) -> Compared:
    """Matches of the men's tour in 2022 and 2023 between players with at least five."""
    table = pd.concat([pd.read_csv(folder / f"atp_matches_{year}.csv") for year in (2022, 2023)])
    players = pd.concat([table["winner_id"], table["loser_id"]]).value_counts()
    often = players.index[players >= 5]
    table = table[table["winner_id"].isin(often) & table["loser_id"].isin(often)]
    return _won(table["winner_id"], table["loser_id"])


def football(folder: Path) -> Compared:
    """Internationals of 2019 to 2022 that were no draws and not on neutral ground: the home team is left."""
    table = pd.read_csv(folder / "international_results.csv").dropna()
    neutral = table["neutral"].astype(str).str.upper() == "TRUE"
    table = table[table["date"].between("2019", "2023") & ~neutral & (table["home_score"] != table["away_score"])]
    ids = _levels(np.concatenate([table["home_team"], table["away_team"]])).reshape(2, -1).T
    return Compared(ids, (table["home_score"] > table["away_score"]).to_numpy(np.int64), order_effect=True)


def wines(folder: Path) -> Compared:
    """Pairs of white wines with different grades, each wine in one pair; which has the better grade."""
    table = pd.read_csv(folder / "winequality-white.csv", header=None).to_numpy(np.float64)
    pairs = np.random.default_rng(0).permutation(len(table))[: len(table) // 2 * 2].reshape(-1, 2)
    pairs = pairs[table[pairs[:, 0], -1] != table[pairs[:, 1], -1]][:1500]
    X = table[:, :-1]
    y = (table[pairs[:, 0], -1] > table[pairs[:, 1], -1]).astype(np.int64)
    return Compared(pairs, y, features=(X - X.mean(axis=0)) / X.std(axis=0))


# ------------------------------------------------------------------------------------------------------------- ratings
def coat(folder: Path) -> Rated:
    """Grades 1 to 5 that 290 people gave to 24 coats each, of their own choice."""
    table = np.loadtxt(folder / "coat_train.txt", dtype=np.int64)
    return _rated(table[:, 0], table[:, 1], table[:, 2])


def jester(folder: Path) -> Rated:
    """Jokes on a slider from -10 to 10, cut into five levels of equal width."""
    table = pd.read_csv(folder / "jester.csv")
    return _rated(table["userId"], table["jokeId"], np.digitize(table["rating"], [-6.0, -2.0, 2.0, 6.0]))


def restaurants(folder: Path) -> Rated:
    """Grades 0 to 2 of 130 restaurants by 138 people."""
    table = pd.read_csv(folder / "restaurants.csv").to_numpy(np.int64)
    return _rated(*table.T)


def _rated(user: npt.ArrayLike, item: npt.ArrayLike, y: npt.ArrayLike) -> Rated:
    frame = pd.DataFrame({"user": np.asarray(user), "item": np.asarray(item), "y": np.asarray(y)})
    frame = frame.drop_duplicates(["user", "item"])
    frame = frame.iloc[_sample(len(frame), MOST_ROWS)]
    return Rated(_numbered(frame["user"], frame["item"]), _levels(frame["y"]))


# --------------------------------------------------------------------------------------------------- grades and classes
def wine_grades(folder: Path) -> Labelled:
    """Grades of 1,000 white wines; the two lowest and the two highest levels are merged."""
    table = pd.read_csv(folder / "winequality-white.csv", header=None).to_numpy(np.float64)
    table = table[_sample(len(table), 1000)]
    return Labelled(table[:, :-1], _levels(np.clip(table[:, -1], 4, 8)))


def thyroid(folder: Path) -> Labelled:
    """Underactive, normal and overactive thyroid glands by five laboratory values."""
    table = pd.read_csv(folder / "new-thyroid.csv", header=None).to_numpy(np.float64)
    return Labelled(table[:, :-1], np.array([1, 2, 0])[table[:, -1].astype(np.int64) - 1])


def diabetes(_: Path) -> Labelled:
    """Progression of diabetes after a year in quartiles, by ten measurements."""
    from sklearn.datasets import load_diabetes

    X, target = load_diabetes(return_X_y=True)
    return Labelled(X, np.digitize(target, np.quantile(target, [0.25, 0.5, 0.75])))


def phoneme(folder: Path) -> Labelled:
    """Nasal or oral vowels by the amplitudes of five harmonics; 2,000 rows."""
    table = pd.read_csv(folder / "phoneme.csv", header=None).to_numpy(np.float64)
    table = table[_sample(len(table), 2000)]
    return Labelled(table[:, :-1], table[:, -1].astype(np.int64))


def german(folder: Path) -> Labelled:
    """Good and bad credit risks by 20 attributes, one-hot encoded."""
    table = pd.read_csv(folder / "german.csv", header=None)
    return Labelled(pd.get_dummies(table.iloc[:, :-1]).to_numpy(np.float64), _levels(table.iloc[:, -1]))


def mammography(folder: Path) -> Labelled:
    """Microcalcifications, 2 % of the spots of mammograms; 4,000 rows."""
    table = pd.read_csv(folder / "mammography.csv", header=None)
    table = table.iloc[_sample(len(table), 4000)]
    return Labelled(table.iloc[:, :-1].to_numpy(np.float64), (table.iloc[:, -1].str.strip("'") == "1").to_numpy(int))


COMPARISONS: dict[str, Callable[[Path], Compared]] = {"tennis": tennis, "football": football, "wines": wines}
RATINGS: dict[str, Callable[[Path], Rated]] = {"coat": coat, "jester": jester, "restaurants": restaurants}
GRADES: dict[str, Callable[[Path], Labelled]] = {"wine grades": wine_grades, "thyroid": thyroid, "diabetes": diabetes}
CLASSES: dict[str, Callable[[Path], Labelled]] = {"phoneme": phoneme, "german": german, "mammography": mammography}
