"""Real comparisons as plain arrays, and the one function that scores them.

Every rival and ours see the same `Split` and are scored by the same `score`, so a
difference in a table is a difference between models.

Tasks
-----
``ukpconvarg-unseen``
    Leave one fold out, 32 splits.  Train: one worker's label a pair of the other
    folds, ties as 0.5.  Test: the strict gold pairs of the fold (MACE-aggregated, no
    ties).  Tau: utilities against gold rank scores of the fold's items, with the sign
    of the gold turned because a lower ``gold_rank_score`` is more convincing.
``ukpconvarg-random``
    Five random 80/20 splits of the same labels; nearly all items are seen.  Test
    labels that are ties are left out of accuracy and log-loss.  Tau: mean over the
    32 folds of the tau within the fold (utilities of different topics have no gold
    order).
``humour-random``
    Five splits; all labels of 20 % of the pairs are held out.  Tau: all items
    against the best-worst-scaling score.
``humour-unseen``
    Five splits; train: labels of pairs without the 806 held-out items, test: labels
    of pairs inside them.  Tau: the held-out items.
``nba-random``
    Five random 80/20 splits of games, left = home.  Accuracy and log-loss only.

The data are read from ``$SKPREF_SHARED/data``, else from ``../shared (data)`` beside the
repository; nothing of them is kept here.
"""

from __future__ import annotations

import csv
import gzip
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import kendalltau

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

#: Probabilities are kept this far from 0 and 1 in the log-loss: a rival that says 1.0
#: to a wrong answer is charged 34.5 nats, not infinity.
PROBABILITY_MARGIN = 1e-15


@dataclass(frozen=True)
class Split:
    """One training set, one test set and the gold order of some items.

    Attributes
    ----------
    name : str
        The fold or repetition, e.g. ``"fold04"``.
    train_left, train_right : ndarray of shape (n_train,)
        Rows of `Task.features`.
    train_y : ndarray of shape (n_train,)
        1 = left preferred, 0 = right, 0.5 = tie.
    train_group : ndarray of shape (n_train,)
        Group (topic, season) of each training pair; inner validation that is to look
        like unseen items holds out whole groups.
    test_left, test_right : ndarray of shape (n_test,)
        Rows of `Task.features`.
    test_y : ndarray of shape (n_test,)
        1 or 0; ties were left out.
    gold : tuple of (items, score)
        Groups of items within which tau is taken; a higher score is better.  Empty
        when the data have no gold order.
    """

    name: str
    train_left: IntArray
    train_right: IntArray
    train_y: FloatArray
    train_group: IntArray
    test_left: IntArray
    test_right: IntArray
    test_y: FloatArray
    gold: tuple[tuple[IntArray, FloatArray], ...] = ()


@dataclass(frozen=True)
class Task:
    """Items with features, and the splits of their comparisons.

    Attributes
    ----------
    name : str
        One of `TASKS`.
    features : ndarray of shape (n_items, n_features)
        As shipped: standardised for ukpconvarg and humour; salary over the mean salary
        of its season, standardised, for nba.
    splits : tuple of Split
        The given splits.
    unseen_items : bool
        Whether the test items are absent from training.
    item_group : ndarray of shape (n_items,)
        Topic or season of each item, 0 for all where there is none.
    order_effect : bool
        Whether the left side may have an advantage (nba: left = home).
    """

    name: str
    features: FloatArray
    splits: tuple[Split, ...]
    unseen_items: bool
    item_group: IntArray
    order_effect: bool = False

    @property
    def n_items(self) -> int:
        """Number of items, seen or not."""
        return int(self.features.shape[0])


@dataclass(frozen=True)
class Prediction:
    """What a model says about one split.

    Attributes
    ----------
    probabilities : ndarray of shape (n_test,)
        Probability that the left item of each test pair is preferred.
    utilities : ndarray of shape (n_items,) or None
        Utility of every item of the task, higher = better; None: no tau.
    cpu_seconds : float
        CPU time of the fit, inner validation included, of this one process.
    peak_mb : float or None
        Peak memory in MB where it was measured.
    chosen : str
        Hyper-parameters chosen inside, for the record.
    """

    probabilities: FloatArray
    utilities: FloatArray | None
    cpu_seconds: float
    peak_mb: float | None = None
    chosen: str = ""


#: What a rival implements, and what `benchmarks/_ours.py` offers as ``fit_predict``.
FitPredict = Callable[[Task, Split, dict[str, Any]], Prediction]


@dataclass(frozen=True)
class Scores:
    """Accuracy, log-loss (nats), Kendall tau-b (nan without gold) and cost of one fit."""

    accuracy: float
    log_loss: float
    tau: float
    cpu_seconds: float
    peak_mb: float


def score(split: Split, prediction: Prediction) -> Scores:
    """Score one prediction.

    A probability of exactly 0.5 counts as half right.
    """
    p, y = prediction.probabilities, split.test_y
    if p.shape != y.shape or not np.isfinite(p).all():
        message = f"probabilities: got shape {p.shape}, wanted {y.shape}, all finite"
        raise ValueError(message)
    hits = np.where(p == 0.5, 0.5, (p > 0.5) == (y > 0.5))
    kept = np.clip(p, PROBABILITY_MARGIN, 1.0 - PROBABILITY_MARGIN)
    losses = -(y * np.log(kept) + (1.0 - y) * np.log1p(-kept))
    peak = prediction.peak_mb
    return Scores(
        accuracy=float(hits.mean()),
        log_loss=float(losses.mean()),
        tau=mean_tau(split, prediction.utilities),
        cpu_seconds=prediction.cpu_seconds,
        peak_mb=float("nan") if peak is None else peak,
    )


def mean_tau(split: Split, utilities: FloatArray | None) -> float:
    """Mean over the gold groups of Kendall's tau-b; nan when there is nothing to compare."""
    if utilities is None or not split.gold:
        return float("nan")
    taus = [kendalltau(utilities[items], gold).statistic for items, gold in split.gold]
    return float(np.nanmean(taus))


def shared_data() -> Path:
    """Folder of the shared data sets.

    Raises
    ------
    FileNotFoundError
        When neither ``$SKPREF_SHARED`` nor ``../shared`` holds ``data``.
    """
    default = Path(__file__).resolve().parents[2] / "shared"
    folder = Path(os.environ.get("SKPREF_SHARED", default)) / "data"
    if not folder.is_dir():
        message = f"no data in {folder}: set SKPREF_SHARED to the folder that holds data/"
        raise FileNotFoundError(message)
    return folder


def read_columns(path: Path, names: Sequence[str]) -> list[FloatArray]:
    """Read numeric columns of a gzipped CSV file, each of shape (n_rows,)."""
    with gzip.open(path, "rt", encoding="utf-8", newline="") as stream:
        rows = [[float(row[name]) for name in names] for row in csv.DictReader(stream)]
    return list(np.array(rows, dtype=np.float64).T)


def _ints(values: FloatArray) -> IntArray:
    return values.astype(np.int64)


def _wanted(n_splits: int, only: Iterable[int] | None) -> list[int]:
    chosen = list(range(n_splits)) if only is None else list(only)
    bad = [i for i in chosen if not 0 <= i < n_splits]
    if bad:
        message = f"folds: got {bad}, wanted numbers in 0..{n_splits - 1}"
        raise ValueError(message)
    return chosen


def _ukpconvarg_items(folder: Path) -> tuple[FloatArray, IntArray, FloatArray]:
    with np.load(folder / "features.npz") as stored:
        features = np.ascontiguousarray(stored["X"], dtype=np.float64)
    fold, rank_score = read_columns(folder / "items.csv.gz", ["fold", "gold_rank_score"])
    # Lower rank score = more convincing; the sign is turned once, here.
    return features, _ints(fold), -rank_score


def _gold_within(fold: IntArray, gold: FloatArray) -> dict[int, tuple[IntArray, FloatArray]]:
    members = {int(f): np.flatnonzero(fold == f) for f in np.unique(fold)}
    return {f: (items, gold[items]) for f, items in members.items()}


def _ukpconvarg_unseen(only: Iterable[int] | None) -> Task:
    folder = shared_data() / "ukpconvarg"
    features, fold, gold = _ukpconvarg_items(folder)
    names = ["fold", "left", "right", "label"]
    group, left, right, y = read_columns(folder / "comparisons.csv.gz", names)
    g_group, g_left, g_right, g_y, strict = read_columns(folder / "gold_pairs.csv.gz", [*names, "strict"])
    groups = _gold_within(fold, gold)
    splits = []
    for f in _wanted(len(groups), only):
        train, test = group != f, (g_group == f) & (strict == 1)
        splits.append(
            Split(
                name=f"fold{f:02d}",
                train_left=_ints(left[train]),
                train_right=_ints(right[train]),
                train_y=y[train],
                train_group=_ints(group[train]),
                test_left=_ints(g_left[test]),
                test_right=_ints(g_right[test]),
                test_y=g_y[test],
                gold=(groups[f],),
            )
        )
    return Task("ukpconvarg-unseen", features, tuple(splits), unseen_items=True, item_group=fold)


def _row_split(
    rep: int,
    test_rows: IntArray,
    left: IntArray,
    right: IntArray,
    y: FloatArray,
    group: IntArray,
    gold: tuple[tuple[IntArray, FloatArray], ...] = (),
) -> Split:
    """Hold out `test_rows`; ties among them are left out of the test."""
    train = np.ones(y.size, dtype=bool)
    train[test_rows] = False
    test = ~train & (y != 0.5)
    return Split(
        name=f"rep{rep:02d}",
        train_left=left[train],
        train_right=right[train],
        train_y=y[train],
        train_group=group[train],
        test_left=left[test],
        test_right=right[test],
        test_y=y[test],
        gold=gold,
    )


def _ukpconvarg_random(only: Iterable[int] | None) -> Task:
    folder = shared_data() / "ukpconvarg"
    features, fold, gold = _ukpconvarg_items(folder)
    group, left, right, y = read_columns(folder / "comparisons.csv.gz", ["fold", "left", "right", "label"])
    groups = tuple(_gold_within(fold, gold).values())
    with np.load(folder / "splits" / "random80.npz") as stored:
        splits = tuple(
            _row_split(
                rep,
                stored[f"rep{rep:02d}_test"].astype(np.int64),
                _ints(left),
                _ints(right),
                y,
                _ints(group),
                groups,
            )
            for rep in _wanted(5, only)
        )
    return Task("ukpconvarg-random", features, splits, unseen_items=False, item_group=fold)


def _humour_table() -> tuple[Path, FloatArray, FloatArray, IntArray, IntArray, FloatArray]:
    folder = shared_data() / "humour"
    with np.load(folder / "features.npz") as stored:
        features = np.ascontiguousarray(stored["X"], dtype=np.float64)
    (bws,) = read_columns(folder / "items.csv.gz", ["bws_score"])
    winner, loser = map(_ints, read_columns(folder / "comparisons.csv.gz", ["winner", "loser"]))
    # The file names the winner first; the smaller row number goes left so that the side
    # tells a model nothing about the answer.
    left, right = np.minimum(winner, loser), np.maximum(winner, loser)
    return folder, features, bws, left, right, (winner == left).astype(np.float64)


def _humour_random(only: Iterable[int] | None) -> Task:
    folder, features, bws, left, right, y = _humour_table()
    no_group = np.zeros(y.size, dtype=np.int64)
    gold = ((np.arange(bws.size), bws),)
    with np.load(folder / "splits" / "splits.npz") as stored:
        splits = tuple(
            _row_split(
                rep,
                stored[f"rep{rep:02d}_test"].astype(np.int64),
                left,
                right,
                y,
                no_group,
                gold,
            )
            for rep in _wanted(5, only)
        )
    one_group = np.zeros(bws.size, dtype=np.int64)
    return Task("humour-random", features, splits, unseen_items=False, item_group=one_group)


def _humour_unseen(only: Iterable[int] | None) -> Task:
    folder, features, bws, left, right, y = _humour_table()
    splits = []
    with np.load(folder / "splits" / "splits.npz") as stored:
        for rep in _wanted(5, only):
            items = stored[f"rep{rep:02d}_testitems"].astype(np.int64)
            held_out = np.zeros(bws.size, dtype=bool)
            held_out[items] = True
            train = ~held_out[left] & ~held_out[right]
            test = held_out[left] & held_out[right]
            splits.append(
                Split(
                    name=f"rep{rep:02d}",
                    train_left=left[train],
                    train_right=right[train],
                    train_y=y[train],
                    train_group=np.zeros(int(train.sum()), dtype=np.int64),
                    test_left=left[test],
                    test_right=right[test],
                    test_y=y[test],
                    gold=((items, bws[items]),),
                )
            )
    one_group = np.zeros(bws.size, dtype=np.int64)
    return Task("humour-unseen", features, tuple(splits), unseen_items=True, item_group=one_group)


def _nba_random(only: Iterable[int] | None) -> Task:
    folder = shared_data() / "nba"
    season, salary = read_columns(folder / "items.csv.gz", ["season_start", "salary"])
    game_season, home, away, y = read_columns(
        folder / "comparisons.csv.gz", ["season_start", "home", "away", "home_wins"]
    )
    # Payrolls grew by half in four seasons; what matters is being richer than the others.
    seasons, where = np.unique(season, return_inverse=True)
    mean = np.array([salary[season == s].mean() for s in seasons])[where]
    ratio = salary / mean
    features = ((ratio - ratio.mean()) / ratio.std())[:, None]
    with np.load(folder / "splits" / "splits.npz") as stored:
        splits = tuple(
            _row_split(
                rep,
                stored[f"rep{rep:02d}_test"].astype(np.int64),
                _ints(home),
                _ints(away),
                y,
                _ints(game_season),
            )
            for rep in _wanted(5, only)
        )
    return Task(
        "nba-random",
        features,
        splits,
        unseen_items=False,
        item_group=_ints(season),
        order_effect=True,
    )


#: Loader of each task by name.
TASKS: dict[str, Callable[[Iterable[int] | None], Task]] = {
    "ukpconvarg-unseen": _ukpconvarg_unseen,
    "ukpconvarg-random": _ukpconvarg_random,
    "humour-random": _humour_random,
    "humour-unseen": _humour_unseen,
    "nba-random": _nba_random,
}


def load(name: str, folds: Iterable[int] | None = None) -> Task:
    """Load a task.

    Parameters
    ----------
    name : str
        One of `TASKS`.
    folds : iterable of int, default=None
        Which of the given splits; None = all (32 for ukpconvarg-unseen, else 5).

    Returns
    -------
    Task
        Features and splits as plain arrays.

    Raises
    ------
    ValueError
        For an unknown name or a split that does not exist.
    """
    if name not in TASKS:
        message = f"data: got {name!r}, wanted one of {', '.join(TASKS)}"
        raise ValueError(message)
    return TASKS[name](folds)
