"""Comparisons of many users as plain arrays, and the one function that scores them.

Tasks
-----
``ukpconvarg-unseen``
    Leave one fold (topic x stance) out, 32 splits.  Train: one worker's label a pair of the other folds, ties as 0.5.
    Consensus: strict gold pairs of the fold (aggregated over five workers, no ties) and gold ranks.  Personal: the
    workers' own labels of the fold, and the ranks of a worker's own labels where they rank at least `RANKED` items;
    98 % of the labels are by workers who are seen in training, half of them 20 times at most.
``ukpconvarg-full``
    The same with all labels, five a pair, in training and as personal labels.
``ukpconvarg-random``
    Five random 80/20 splits of the one-label-a-pair set, nearly all items seen.  Personal: the held-out labels.
    Consensus: strict gold of the held-out pairs (nobody's training label is of these pairs) and gold ranks, mean
    over the folds.
``llmfao``
    Five random 80/20 splits of 124 judges' comparisons of 59 language models without features; 39 % ties; left may
    have an advantage.  Consensus and personal are about the same held-out labels: once the judge is not told, once
    they are.

Ties are left out of accuracy and of log-loss.  `Scores.log_loss_ties` counts them in, a tie as half of each answer.
The figures of issue 3 (crowd-kit .707 / .574 and .705 / .654, evalica .701 / .587) are without ties: with them the
three log-losses are .657, .849 and .645.

Both gold rank scores and workers' rank scores fall with convincingness; their signs are turned where they are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from _data import (
    PROBABILITY_MARGIN,
    FloatArray,
    IntArray,
    Split,
    Task,
    _gold_within,
    _ints,
    _ukpconvarg_items,
    _wanted,
    read_columns,
    shared_data,
)
from scipy.stats import kendalltau

#: Items that a worker must have ranked in a fold for a personal tau.
RANKED = 5


class Answers(NamedTuple):
    """Labels of users, each array of shape (n_labels,); y: 1 = left, 0 = right, 0.5 = tie."""

    user: IntArray
    left: IntArray
    right: IntArray
    y: FloatArray

    def take(self, rows: Any) -> Answers:  # noqa: ANN401 - a mask or row numbers
        """Some of the labels."""
        return Answers(*(column[rows] for column in self))

    @property
    def triples(self) -> IntArray:
        """User, left and right as columns."""
        return np.column_stack([self.user, self.left, self.right])

    @property
    def pairs(self) -> IntArray:
        """Left and right as columns."""
        return np.column_stack([self.left, self.right])


class Ranked(NamedTuple):
    """A user's own order of some items; a higher score is better."""

    user: int
    items: IntArray
    score: FloatArray


@dataclass(frozen=True)
class CrowdSplit:
    """One training set and what is asked after it.

    Attributes
    ----------
    name : str
        The fold or repetition.
    train : Answers
        Training labels.
    train_group : ndarray of shape (n_train,)
        Topic of each of them.
    consensus : Answers
        Labels that the consensus is to predict; their users are not told.
    personal : Answers
        Labels of known users.
    aggregated : bool
        Whether the labels of `consensus` are gold, aggregated over users, rather than single answers.
    gold : tuple of (items, score)
        Groups of items with a gold order, a higher score being better.
    ranked : tuple of Ranked
        Users' own orders.
    """

    name: str
    train: Answers
    train_group: IntArray
    consensus: Answers
    personal: Answers
    aggregated: bool
    gold: tuple[tuple[IntArray, FloatArray], ...] = ()
    ranked: tuple[Ranked, ...] = ()


@dataclass(frozen=True)
class CrowdTask:
    """Items, users and the splits of their comparisons.

    Attributes
    ----------
    name : str
        One of `TASKS`, or of a simulation.
    features : ndarray of shape (n_items, n_features)
        Features of the items; no columns where there are none.
    n_users : int
        Number of users.
    splits : tuple of CrowdSplit
        The given splits.
    unseen_items : bool
        Whether the test items are absent from training.
    item_group : ndarray of shape (n_items,)
        Topic of each item.
    user_features : ndarray of shape (n_users, n_user_features) or None
        Features of the users.
    order_effect : bool
        Whether the left side may have an advantage.
    """

    name: str
    features: FloatArray
    n_users: int
    splits: tuple[CrowdSplit, ...]
    unseen_items: bool
    item_group: IntArray
    user_features: FloatArray | None = None
    order_effect: bool = False

    @property
    def n_items(self) -> int:
        """Number of items, seen or not."""
        return int(self.features.shape[0])


@dataclass(frozen=True)
class CrowdPrediction:
    """What a model says about one split.

    Attributes
    ----------
    consensus, personal : ndarray of shape (n_consensus,), (n_personal,)
        Probability that the left item of each pair is preferred.
    utilities : ndarray of shape (n_items,) or None
        The consensus; None: no tau.
    personal_utilities : ndarray of shape (n_ranked, n_items) or None
        Utilities to the user of each of `CrowdSplit.ranked`; None: everybody's are the consensus.
    cpu_seconds : float
        CPU time of the fit.
    chosen : str
        Hyper-parameters chosen inside, for the record.
    """

    consensus: FloatArray
    personal: FloatArray
    utilities: FloatArray | None
    personal_utilities: FloatArray | None
    cpu_seconds: float
    chosen: str = ""


#: What a rival implements, and what `_crowd_ours.py` offers as ``fit_predict``.
CrowdFitPredict = Callable[[CrowdTask, CrowdSplit, dict[str, Any]], CrowdPrediction]


# ------------------------------------------------------------------------------ scores
@dataclass(frozen=True)
class Scores:
    """Accuracy and log-loss (nats) without ties, log-loss with ties as halves, Kendall's tau-b."""

    accuracy: float
    log_loss: float
    log_loss_ties: float
    tau: float


def score_answers(p: FloatArray, y: FloatArray, tau: float) -> Scores:
    """Score probabilities of the left answer; one of exactly 0.5 counts as half right."""
    if p.shape != y.shape or not np.isfinite(p).all():
        message = f"probabilities: got shape {p.shape}, wanted {y.shape}, all finite"
        raise ValueError(message)
    clear = y != 0.5
    hits = np.where(p == 0.5, 0.5, (p > 0.5) == (y > 0.5))
    kept = np.clip(p, PROBABILITY_MARGIN, 1.0 - PROBABILITY_MARGIN)
    losses = -(y * np.log(kept) + (1.0 - y) * np.log1p(-kept))
    return Scores(float(hits[clear].mean()), float(losses[clear].mean()), float(losses.mean()), tau)


def _mean_tau(pairs: Iterable[tuple[FloatArray, FloatArray]]) -> float:
    taus = [kendalltau(u, gold).statistic for u, gold in pairs]
    return float(np.nanmean(taus)) if taus and not np.isnan(taus).all() else float("nan")


def score(split: CrowdSplit, prediction: CrowdPrediction) -> dict[str, Scores]:
    """Scores of the consensus and of the personal predictions."""
    u, own = prediction.utilities, prediction.personal_utilities
    tau = personal_tau = float("nan")
    if u is not None:
        own = np.broadcast_to(u, (len(split.ranked), u.size)) if own is None else own
        tau = _mean_tau((u[items], gold) for items, gold in split.gold)
        personal_tau = _mean_tau((v[r.items], r.score) for v, r in zip(own, split.ranked, strict=True))
    return {
        "consensus": score_answers(prediction.consensus, split.consensus.y, tau),
        "personal": score_answers(prediction.personal, split.personal.y, personal_tau),
    }


def as_pairwise(task: CrowdTask, split: CrowdSplit) -> tuple[Task, Split]:
    """The same problem without users; the test pairs are those of the consensus, then the personal ones."""
    train, tests = split.train, (split.consensus, split.personal)
    plain = Split(
        name=split.name,
        train_left=train.left,
        train_right=train.right,
        train_y=train.y,
        train_group=split.train_group,
        test_left=np.concatenate([t.left for t in tests]),
        test_right=np.concatenate([t.right for t in tests]),
        test_y=np.concatenate([t.y for t in tests]),
        gold=split.gold,
    )
    return Task(task.name, task.features, (plain,), task.unseen_items, task.item_group, task.order_effect), plain


# ---------------------------------------------------------------------------- real data
def _answers(path: Any) -> tuple[Answers, IntArray]:  # noqa: ANN401 - a path
    """Labels of a file of ukpconvarg, and their folds."""
    worker, fold, left, right, y = read_columns(path, ["worker", "fold", "left", "right", "label"])
    return Answers(_ints(worker), _ints(left), _ints(right), y), _ints(fold)


def _strict_gold(folder: Any) -> tuple[Answers, IntArray]:  # noqa: ANN401 - a path
    fold, left, right, y, strict = read_columns(
        folder / "gold_pairs.csv.gz", ["fold", "left", "right", "label", "strict"]
    )
    nobody = np.full(y.size, -1)
    return Answers(nobody, _ints(left), _ints(right), y).take(strict == 1), _ints(fold)[strict == 1]


def _worker_ranks(folder: Any) -> dict[int, tuple[Ranked, ...]]:  # noqa: ANN401 - a path
    """Orders of at least `RANKED` items by fold; a worker who ties all of them has none."""
    columns = read_columns(folder / "worker_ranks.csv.gz", ["fold", "worker", "item", "rank_score"])
    fold, worker, item = map(_ints, columns[:3])
    # Lower rank score = more convincing; the sign is turned once, here.
    value = -columns[3]
    found: dict[int, list[Ranked]] = {}
    keys, inverse, counts = np.unique(fold * (worker.max() + 1) + worker, return_inverse=True, return_counts=True)
    for place in np.flatnonzero(counts >= RANKED):
        f, w = divmod(int(keys[place]), int(worker.max()) + 1)
        mine = inverse == place
        if np.ptp(value[mine]) > 0.0:
            found.setdefault(f, []).append(Ranked(w, item[mine], value[mine]))
    return {f: tuple(ranked) for f, ranked in found.items()}


def _ukpconvarg_unseen(only: Iterable[int] | None, labels: str = "comparisons", name: str = "unseen") -> CrowdTask:
    folder = shared_data() / "ukpconvarg"
    features, item_fold, gold_score = _ukpconvarg_items(folder)
    answers, fold = _answers(folder / f"{labels}.csv.gz")
    gold, gold_fold = _strict_gold(folder)
    groups, ranks = _gold_within(item_fold, gold_score), _worker_ranks(folder)
    splits = tuple(
        CrowdSplit(
            name=f"fold{f:02d}",
            train=answers.take(fold != f),
            train_group=fold[fold != f],
            consensus=gold.take(gold_fold == f),
            personal=answers.take(fold == f),
            aggregated=True,
            gold=(groups[f],),
            ranked=ranks.get(f, ()),
        )
        for f in _wanted(len(groups), only)
    )
    n_users = int(answers.user.max()) + 1
    return CrowdTask(f"ukpconvarg-{name}", features, n_users, splits, unseen_items=True, item_group=item_fold)


def _ukpconvarg_full(only: Iterable[int] | None) -> CrowdTask:
    return _ukpconvarg_unseen(only, "comparisons_full", "full")


def _among(pairs: Answers, wanted: Answers, n_items: int) -> Answers:
    """Those of `pairs` whose two items are compared in `wanted`, whichever side they stand on."""

    def code(a: Answers) -> IntArray:
        return np.minimum(a.left, a.right) * n_items + np.maximum(a.left, a.right)

    return pairs.take(np.isin(code(pairs), code(wanted)))


def _ukpconvarg_random(only: Iterable[int] | None) -> CrowdTask:
    folder = shared_data() / "ukpconvarg"
    features, item_fold, gold_score = _ukpconvarg_items(folder)
    answers, fold = _answers(folder / "comparisons.csv.gz")
    gold, _ = _strict_gold(folder)
    groups = tuple(_gold_within(item_fold, gold_score).values())
    splits = []
    with np.load(folder / "splits" / "random80.npz") as stored:
        for rep in _wanted(5, only):
            test = np.zeros(fold.size, dtype=bool)
            test[stored[f"rep{rep:02d}_test"]] = True
            held = answers.take(test)
            splits.append(
                CrowdSplit(
                    name=f"rep{rep:02d}",
                    train=answers.take(~test),
                    train_group=fold[~test],
                    consensus=_among(gold, held, item_fold.size),
                    personal=held,
                    aggregated=True,
                    gold=groups,
                )
            )
    n_users = int(answers.user.max()) + 1
    return CrowdTask("ukpconvarg-random", features, n_users, tuple(splits), unseen_items=False, item_group=item_fold)


def _llmfao(only: Iterable[int] | None) -> CrowdTask:
    folder = shared_data() / "llmfao"
    *columns, y = read_columns(folder / "comparisons.csv.gz", ["worker", "left", "right", "label"])
    answers = Answers(*map(_ints, columns), y)
    n_items = int(max(answers.left.max(), answers.right.max())) + 1
    splits = []
    with np.load(folder / "splits" / "random80.npz") as stored:
        for rep in _wanted(5, only):
            test = np.zeros(y.size, dtype=bool)
            test[stored[f"rep{rep:02d}_test"]] = True
            held, train = answers.take(test), answers.take(~test)
            group = np.zeros(train.y.size, dtype=np.int64)
            splits.append(CrowdSplit(f"rep{rep:02d}", train, group, held, held, aggregated=False))
    return CrowdTask(
        "llmfao",
        np.empty((n_items, 0)),
        int(answers.user.max()) + 1,
        tuple(splits),
        unseen_items=False,
        item_group=np.zeros(n_items, dtype=np.int64),
        order_effect=True,
    )


#: Loader of each task by name.
TASKS: dict[str, Callable[[Iterable[int] | None], CrowdTask]] = {
    "ukpconvarg-unseen": _ukpconvarg_unseen,
    "ukpconvarg-random": _ukpconvarg_random,
    "llmfao": _llmfao,
    "ukpconvarg-full": _ukpconvarg_full,
}


def load(name: str, folds: Iterable[int] | None = None) -> CrowdTask:
    """Load a task.

    Parameters
    ----------
    name : str
        One of `TASKS`.
    folds : iterable of int, default=None
        Which of the given splits; None = all (32 where a fold is left out, else 5).

    Returns
    -------
    CrowdTask
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
