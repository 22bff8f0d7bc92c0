"""The nine ordinal data sets of Chu & Ghahramani (2005), their printed results, and the one function that scores.

A cell of the paper's tables is a data set and a number of bins, written ``pyrimidines/5``: 18 cells of 20 published
partitions each, whose training rows are listed; all others are for the test.

Training rows are published sorted by level.  They are shuffled here, by the number of the partition, so that no rival's
folds hold one level each.  Features are centred and divided by their standard deviation (ddof=0), both of the training
rows, and what is constant among these is dropped.  The paper does not say how it scaled.  That it did is certain: raw
features of machinecpu reach 64,000, its start is kappa = 1/d with one kappa for all features, and Chu's programs have a
switch that normalises inputs.  With this scaling a plain EP meets the printed pyrimidines/5 to the second decimal.

Levels are numbered 0..r-1.  Every level occurs in every training part of these partitions; inner folds may lack some.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from _data import PROBABILITY_MARGIN, FloatArray, IntArray, read_columns, shared_data

from skpref.metrics import mean_zero_one_error, ordinal_mae, ranked_probability_score

#: Folders of the data, in the order of the paper's tables.
SETS = (
    "diabetes",
    "pyrimidines",
    "triazines",
    "wisconsin",
    "machinecpu",
    "autompg",
    "bostonhousing",
    "stocksdomain",
    "abalone",
)

#: Names of the cells, 5 bins before 10.
CELLS = tuple(f"{name}/{bins}" for bins in (5, 10) for name in SETS)

#: Cells in which the paper's EP only ties a constant, or whose published labels were adjusted by hand (diabetes).
WITHOUT_SIGNAL = frozenset({"diabetes/5", "diabetes/10", "triazines/5", "wisconsin/5", "wisconsin/10"})

N_PARTITIONS = 20


class Printed(NamedTuple):
    """Mean and standard deviation over the 20 partitions, in per cent, as printed."""

    zero_one: tuple[float, float]
    mae: tuple[float, float]


#: Tables 2 and 3 of the paper.
PRINTED: dict[str, dict[str, Printed]] = {
    cell: {
        method: Printed(zero_one, mae)
        for method, zero_one, mae in zip(("SVM", "MAP", "EP"), row[:3], row[3:], strict=True)
    }
    for cell, row in zip(
        CELLS,
        (
            ((57.31, 12.09), (54.23, 13.78), (54.23, 13.78), (74.62, 14.14), (66.15, 13.76), (66.54, 13.73)),
            ((41.46, 8.49), (39.79, 7.21), (36.46, 6.47), (45.00, 11.36), (42.71, 9.06), (39.17, 7.45)),
            ((54.19, 1.48), (52.91, 2.15), (52.62, 2.66), (69.77, 2.59), (68.72, 2.29), (68.78, 2.95)),
            ((70.78, 3.73), (65.00, 4.71), (65.16, 4.65), (100.31, 7.27), (101.02, 9.37), (101.41, 9.32)),
            ((17.37, 3.56), (16.53, 3.56), (16.78, 3.88), (19.15, 4.23), (18.47, 4.04), (18.56, 4.24)),
            ((25.73, 2.24), (23.78, 1.85), (23.75, 1.74), (25.96, 2.30), (24.11, 1.89), (24.11, 1.86)),
            ((25.56, 1.98), (24.88, 2.02), (24.49, 1.85), (26.72, 1.90), (26.04, 2.06), (25.85, 2.00)),
            ((10.81, 1.70), (11.99, 2.34), (12.00, 2.06), (10.81, 1.70), (11.99, 2.34), (12.00, 2.06)),
            ((21.58, 0.32), (21.50, 0.22), (21.56, 0.36), (22.93, 0.38), (23.22, 0.25), (23.37, 0.72)),
            ((90.38, 7.00), (83.46, 5.73), (83.08, 5.91), (245.77, 43.69), (213.85, 33.17), (214.23, 33.14)),
            ((59.37, 7.63), (55.42, 8.01), (54.38, 7.70), (91.87, 18.95), (87.71, 17.49), (82.92, 13.38)),
            ((67.91, 3.63), (63.72, 4.34), (64.01, 3.78), (123.08, 8.74), (119.94, 6.71), (120.12, 6.80)),
            ((85.86, 3.78), (78.52, 3.58), (78.52, 3.51), (212.50, 15.00), (213.91, 17.97), (214.37, 17.90)),
            ((32.63, 3.84), (33.81, 3.91), (33.73, 3.64), (43.98, 6.88), (47.46, 7.27), (46.86, 7.63)),
            ((44.01, 2.30), (43.96, 2.81), (43.88, 2.60), (50.81, 2.63), (49.90, 3.52), (49.79, 3.40)),
            ((42.06, 2.49), (41.53, 2.77), (41.26, 2.86), (49.71, 3.05), (49.20, 3.30), (48.96, 3.46)),
            ((17.74, 2.15), (19.90, 1.72), (19.44, 1.91), (18.04, 2.13), (20.06, 1.66), (19.60, 1.84)),
            ((42.84, 0.86), (42.60, 0.91), (42.27, 0.46), (51.60, 0.87), (51.40, 0.75), (51.13, 0.53)),
        ),
        strict=True,
    )
}


@dataclass(frozen=True)
class OrdinalSplit:
    """One partition of one cell.

    Attributes
    ----------
    cell : str
        One of `CELLS`.
    number : int
        Of the partition, 0..19.
    n_levels : int
        r.
    train_X, test_X : ndarray of shape (n, n_features)
        Standardised on the training rows.
    train_y, test_y : ndarray of shape (n,)
        Levels 0..r-1.
    """

    cell: str
    number: int
    n_levels: int
    train_X: FloatArray
    train_y: IntArray
    test_X: FloatArray
    test_y: IntArray


@dataclass(frozen=True)
class OrdinalPrediction:
    """What a model says about the test rows of one partition.

    Attributes
    ----------
    probabilities : ndarray of shape (n_test, r)
        Of the levels, lowest first.
    cpu_seconds : float
        CPU time of the fit, inner validation included.
    own : ndarray of shape (n_test,) or None
        The levels that the model itself predicts, where these need not be the most probable ones.
    median : ndarray of shape (n_test,) or None
        The model's own median levels; None: those of the probabilities.
    chosen : str
        Hyper-parameters chosen inside, for the record.
    """

    probabilities: FloatArray
    cpu_seconds: float
    own: IntArray | None = None
    median: IntArray | None = None
    chosen: str = ""


#: What a rival implements, and what `_ordinal_ours.py` offers.
OrdinalFitPredict = Callable[[OrdinalSplit, dict[str, Any]], OrdinalPrediction]


# -------------------------------------------------------------------------------- data
def _training_rows(name: str, bins: int) -> list[IntArray]:
    """Row numbers of each partition, as published."""
    path = shared_data() / "ordinal" / name / f"splits{bins}.csv.gz"
    return [rows.astype(np.int64) for rows in np.loadtxt(path, delimiter=",", ndmin=2)]


def load(cell: str, partitions: Iterable[int] | None = None) -> tuple[OrdinalSplit, ...]:
    """Partitions of a cell, all 20 of them if none are named."""
    if cell not in CELLS:
        message = f"cell: got {cell!r}, wanted one of {', '.join(CELLS)}"
        raise ValueError(message)
    name, _, bins = cell.partition("/")
    path = shared_data() / "ordinal" / name / "data.csv.gz"
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        columns = stream.readline().strip().split(",")
    *features, level = read_columns(path, [c for c in columns if c.startswith("x")] + [f"y{bins}"])
    X, y = np.column_stack(features), level.astype(np.int64) - 1
    published = _training_rows(name, int(bins))
    wanted = range(N_PARTITIONS) if partitions is None else partitions
    return tuple(_split(cell, number, X, y, published[number]) for number in wanted)


def _split(cell: str, number: int, X: FloatArray, y: IntArray, rows: IntArray) -> OrdinalSplit:
    train = np.random.default_rng(number).permutation(rows)
    test = np.setdiff1d(np.arange(y.size), rows)
    kept = np.ptp(X[train], axis=0) > 0.0
    centre, scale = X[train][:, kept].mean(axis=0), X[train][:, kept].std(axis=0)
    return OrdinalSplit(
        cell=cell,
        number=number,
        n_levels=int(cell.partition("/")[2]),
        train_X=(X[train][:, kept] - centre) / scale,
        train_y=y[train],
        test_X=(X[test][:, kept] - centre) / scale,
        test_y=y[test],
    )


# ------------------------------------------------------------------------------ scores
@dataclass(frozen=True)
class Scores:
    """Errors of the most probable level, of the median level and of the model's own, and scores of probabilities.

    Log-loss is in nats, with probabilities at least `PROBABILITY_MARGIN`: a level that was said to be impossible costs
    34.5.  Errors of the own levels are those of the most probable ones where a model has no others.
    """

    zero_one: float
    mae: float
    mae_median: float
    zero_one_own: float
    mae_own: float
    log_loss: float
    rps: float


def median_level(p: FloatArray) -> IntArray:
    """Lowest level with at least half of the probability at or below it."""
    # Rounding must not move a median that lies on a threshold.
    return np.argmax(np.cumsum(p, axis=1) >= 0.5 - 1e-12, axis=1)


def score(split: OrdinalSplit, said: OrdinalPrediction) -> Scores:
    """Score a prediction of the test rows."""
    p, y = said.probabilities, split.test_y
    if p.shape != (y.size, split.n_levels) or not np.isfinite(p).all():
        message = f"probabilities: wanted finite values of shape {(y.size, split.n_levels)}, got shape {p.shape}"
        raise ValueError(message)
    mode = np.argmax(p, axis=1)
    median = median_level(p) if said.median is None else said.median
    own = mode if said.own is None else said.own
    return Scores(
        zero_one=mean_zero_one_error(y, mode),
        mae=ordinal_mae(y, mode),
        mae_median=ordinal_mae(y, median),
        zero_one_own=mean_zero_one_error(y, own),
        mae_own=ordinal_mae(y, own),
        log_loss=float(-np.mean(np.log(np.maximum(p[np.arange(y.size), y], PROBABILITY_MARGIN)))),
        rps=ranked_probability_score(y, p, labels=np.arange(split.n_levels)),
    )
