"""Elicitation on the 100 x 100 task of [VRK22]: which films has a person rated? Asked about four others at a time.

usage: elicitation.py FOLDER [--n-factors 5 10] [--models 3] [--more 20 --ratings ratings.csv.gz]
       elicitation.py --sessions 3

--sessions simulates that many data sets for every model of sessions, each with ten new people, and tells the mean
absolute error and the coverage of the 90 % intervals of `Session.estimates` after 0, 1, 2, 4, 8 and 16 answers to
random questions: of utilities from their mean, of expected ratings, and of ratings not asked for (`GibbsM3F`).

FOLDER holds `movie10k_seed*.csv`; `movielens/README.md` of the data says how they and `ratings.csv.gz` are made. --more
draws further matrices by the same rule, of which the paired differences to random are told. One thread.
"""

from __future__ import annotations

import argparse
import os

os.environ.setdefault("NUMBA_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.stats import norm
from sklearn.pipeline import make_pipeline

from skpref import CrowdGPPL, GibbsM3F, GPPLClassifier, VariationalFM, VariationalFMClassifier
from skpref.data import OneHotDesign
from skpref.datasets import make_crowd
from skpref.elicitation import STRATEGIES, Session, replay

Array = npt.NDArray[np.float64]


class Matrix(NamedTuple):
    """Who rated what; people to ask; items to predict."""

    rated: npt.NDArray[np.int64]
    people: npt.NDArray[np.bool_]
    held: npt.NDArray[np.bool_]


def read(path: Path) -> Matrix:
    """One of the five."""
    table = pd.read_csv(path)
    people = table.iloc[1:, 1].to_numpy(dtype=int) == 1
    return Matrix(table.iloc[1:, 2:].to_numpy(dtype=int), people, table.iloc[0, 2:].to_numpy(dtype=int) == 1)


def drawn(ratings: Path, seed: int) -> Matrix:
    """Another one: 100 users with at least one, but not all, of the 100 films rated most."""
    given = pd.read_csv(ratings)[["user", "item"]].to_numpy()
    count = np.bincount(given[:, 1])
    items = np.sort(np.lexsort((np.arange(len(count)), -count))[:100])
    given = given[np.isin(given[:, 1], items)]
    number = np.bincount(given[:, 0])
    rng = np.random.default_rng(seed)
    users = np.sort(rng.choice(np.flatnonzero((number >= 1) & (number < 100)), 100, replace=False))
    given = given[np.isin(given[:, 0], users)]
    rated = np.zeros((100, 100), dtype=np.int64)
    rated[np.searchsorted(users, given[:, 0]), np.searchsorted(items, given[:, 1])] = 1
    people, held = np.zeros(100, dtype=bool), np.zeros(100, dtype=bool)
    people[rng.choice(100, 20, replace=False)] = True
    held[rng.choice(100, 50, replace=False)] = True
    return Matrix(rated, people, held)


def run(matrix: Matrix, n_factors: int, seed: int) -> dict[str, Array]:
    """AUC after 0, 4, ..., 20 questions, by strategy."""
    known = np.flatnonzero(~matrix.people)
    pairs = np.column_stack([np.repeat(known, 100), np.tile(np.arange(100), known.size)])
    design = OneHotDesign()
    groups = design.fit(pairs).groups_
    machine = VariationalFMClassifier(n_factors, groups=groups, random_state=seed)
    model = make_pipeline(design, machine).fit(pairs, matrix.rated[known].ravel())

    session = Session(model)

    def start(person: int, strategy: str, of_run: int) -> Session:
        return session.fresh(strategy, random_state=1000 * of_run + person)

    found = replay(start, matrix.rated[matrix.people], matrix.held, seeds=(seed,))
    return {strategy: scores[0] for strategy, scores in found.scores.items()}


Answer: TypeAlias = Callable[[Session, int], object]  # to a question, by its row
Truth: TypeAlias = Callable[[Session, list[int]], tuple[Array, Any]]  # of the items that count, and their rows

ANSWERS = (0, 1, 2, 4, 8, 16)
PEOPLE = 10  # new ones of a data set


def person_scores(session: Session, answer: Answer, truth: Truth) -> Array:
    """Mean absolute error and coverage of a session after each number of answers, shape (6, 2)."""
    out = []
    for more in np.diff(ANSWERS, prepend=0):
        if more:
            session.tell({row: answer(session, row) for row in session.ask(int(more)).tolist()})
        estimates = session.estimates()
        true, rows = truth(session, list(estimates.ids))
        value, low, high = (part[rows] for part in (estimates.value, estimates.low, estimates.high))
        out.append((np.abs(value - true).mean(), ((low <= true) & (true <= high)).mean()))
    return np.array(out)


def pair_person(model: GPPLClassifier | CrowdGPPL, utility: Array, seed: int) -> Array:
    """A person who compares items by these utilities, with the noise of a probit."""
    rng = np.random.default_rng(seed)

    def answer(session: Session, row: int) -> int:
        left, right = session.candidates_[row]
        return int(rng.random() < norm.cdf(utility[left] - utility[right]))

    def truth(session: Session, ids: list[int]) -> tuple[Array, slice]:
        del session
        return utility[ids] - utility[ids].mean(), slice(None)

    return person_scores(Session(model, strategy="random", random_state=seed), answer, truth)


def gppl_people(seed: int) -> list[Array]:
    """One person at a time: 60 comparisons of 25 items are known, and asking goes on."""
    out = []
    for person in range(PEOPLE):
        rng = np.random.default_rng([seed, person])
        crowd = make_crowd(1, 25, 60, n_factors=0, n_features=2, random_state=int(rng.integers(2**31)))
        model = GPPLClassifier(items=crowd.table).fit(crowd.comparisons[:, 1:], crowd.y)
        out.append(pair_person(model, crowd.utilities[0], person))
    return out


def crowd_people(seed: int) -> list[Array]:
    """New users among 60, of 25 items and two factors of taste."""
    crowd = make_crowd(60 + PEOPLE, 25, 2500, n_user_features=0, random_state=seed)
    known = crowd.comparisons[:, 0] < 60
    model = CrowdGPPL(items=crowd.table, random_state=seed).fit(crowd.comparisons[known], crowd.y[known])
    return [pair_person(model, crowd.utilities[user], user) for user in range(60, 60 + PEOPLE)]


def latent_ratings(seed: int) -> tuple[Array, Array, npt.NDArray[np.bool_], Array]:
    """Expected and noisy ratings of 60 items by 160 people, which were made, and limits of levels of each person."""
    rng = np.random.default_rng(seed)
    tastes, items = rng.normal(size=(160, 4)), rng.normal(size=(60, 4))
    expected = 0.5 * rng.normal(size=(160, 1)) + 0.6 * rng.normal(size=60) + 0.5 * tastes @ items.T
    limits = np.array([-1.5, -0.5, 0.4, 1.4]) + 0.25 * rng.normal(size=(160, 1))
    return expected, expected + 0.6 * rng.normal(size=expected.shape), rng.random(expected.shape) < 0.35, limits


def machine_people(seed: int) -> list[Array]:
    """New users of a factorization machine: expected ratings."""
    expected, noisy, made, _ = latent_ratings(seed)
    pairs = np.argwhere(made[:-PEOPLE])
    model = make_pipeline(OneHotDesign(), VariationalFM(random_state=seed)).fit(pairs, noisy[pairs[:, 0], pairs[:, 1]])

    def of(user: int) -> Array:
        return person_scores(
            Session(model, strategy="random", random_state=user),
            lambda session, row: noisy[user, session.candidates_[row]],
            lambda _, ids: (expected[user, ids], slice(None)),
        )

    return [of(user) for user in range(160 - PEOPLE, 160)]


def rating_people(seed: int) -> list[Array]:
    """New users of a `GibbsM3F`: levels of the items that were not asked for."""
    _, noisy, made, limits = latent_ratings(seed)
    level = 1 + (noisy[:, :, None] > limits[:, None]).sum(axis=2)
    pairs = np.argwhere(made[:-PEOPLE])
    model = GibbsM3F(n_factors=20, random_state=seed).fit(pairs, level[pairs[:, 0], pairs[:, 1]])

    def of(user: int) -> Array:
        def truth(session: Session, ids: list[int]) -> tuple[Array, Any]:
            rest = np.setdiff1d(np.arange(len(ids)), list(session.answers_))
            return level[user, np.array(ids)[rest]].astype(float), rest

        session = Session(model, strategy="random", random_state=user)
        return person_scores(session, lambda session, row: level[user, session.candidates_[row]], truth)

    return [of(user) for user in range(160 - PEOPLE, 160)]


def report_sessions(n_sets: int) -> None:
    """Print error and coverage by number of answers, for every model."""
    for name, people in {
        "GPPLClassifier": gppl_people,
        "CrowdGPPL": crowd_people,
        "VariationalFM": machine_people,
        "GibbsM3F": rating_people,
    }.items():
        began = time.process_time()
        scores = np.array([of_person for seed in range(n_sets) for of_person in people(seed)])
        mean, error = scores.mean(axis=0), scores.std(axis=0, ddof=1) / np.sqrt(len(scores))
        print(f"{name}, {len(scores)} people, {time.process_time() - began:.0f} s CPU; after {ANSWERS} answers")
        for column, label in enumerate(("absolute error", "coverage of 90 %")):
            cells = "  ".join(f"{m:.3f}+-{e:.3f}" for m, e in zip(mean[:, column], error[:, column], strict=True))
            print(f"  {label:16s} {cells}", flush=True)


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--sessions", type=int, default=0, help="data sets for the table of sessions by model")
    parser.add_argument("--n-factors", nargs="+", type=int, default=[5])
    parser.add_argument("--models", type=int, default=1, help="starts of the machine for each matrix (default: 1)")
    parser.add_argument("--more", type=int, default=0, help="further matrices")
    parser.add_argument("--ratings", type=Path, help="ratings.csv.gz of ML-1M, for --more")
    args = parser.parse_args()
    if args.sessions:
        report_sessions(args.sessions)
    if args.folder is None:
        if not args.sessions:
            parser.error("pass FOLDER or --sessions")
        return
    matrices = [read(path) for path in sorted(args.folder.glob("movie10k_seed*.csv"))]
    if args.more:
        matrices = [drawn(args.ratings, seed) for seed in range(5, 5 + args.more)]
    for n_factors in args.n_factors:
        began = time.process_time()
        runs = [[run(matrix, n_factors, seed) for seed in range(args.models)] for matrix in matrices]
        auc = {s: np.array([[one[s] for one in of_one] for of_one in runs]).mean(axis=1) for s in STRATEGIES}
        print(
            f"rank {n_factors}, {len(matrices)} matrices, {args.models} starts, {time.process_time() - began:.0f} s CPU"
        )
        for strategy, table in auc.items():
            steps = "  ".join(f"{m:.3f}+-{s:.3f}" for m, s in zip(table.mean(axis=0), table.std(axis=0), strict=True))
            apart = table - auc["random"]
            error = apart.std(axis=0, ddof=1) / np.sqrt(len(table))
            print(f"  {strategy:12s} AUC after 0, 4, ..., 20: {steps}")
            print(
                f"  {'':12s} less random, after 4 and 20: {apart[:, 1].mean():+.3f} ({error[1]:.3f})"
                f"  {apart[:, 5].mean():+.3f} ({error[5]:.3f})",
                flush=True,
            )


if __name__ == "__main__":
    main()
