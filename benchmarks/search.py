"""OptunaSearch beside RandomizedSearchCV in the same time, and beside itself without pruning.

    python benchmarks/search.py --ratings u.data                     # both tasks, five seeds: about 30 CPU minutes
    python benchmarks/search.py --tasks ukpconvarg --seeds 2 --seconds 15

Time is CPU time of this one process (run it with OMP_NUM_THREADS=1 and NUMBA_NUM_THREADS=1), because the machine may
have other things to do. All searches of a seed have the same space, `default_space`, and the same five folds; a search
has what ended within the budget. "best" is the lowest mean log-loss over the folds, "test" that of the best settings,
fitted to all folds, on a fifth of the rows that no search saw. RandomizedSearchCV draws until the time is up.
What pruning saves is seen in two ways. "repeated" are the very settings that OptunaSearch tried, none given up: what
they cost more, and whether the best was among those given up. "unpruned" is OptunaSearch with `pruner=None` and as many
trials, which soon are others.

ukpconvarg : one worker's judgement each of 1,805 pairs of arguments of four topics, ties as 0.5; `GPPLClassifier` with
    121 features of the arguments.
movielens : the ratings of 300 users of MovieLens-100k (`u.data`; `movielens/README.md` of the data says how to obtain
    it); `GibbsM3F` with 20 sweeps.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from _data import shared_data
from sklearn.base import clone
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, KFold, RandomizedSearchCV, train_test_split

from skpref import GibbsM3F, GPPLClassifier, Table
from skpref.metrics import cross_entropy
from skpref.search import OptunaSearch, default_space

if TYPE_CHECKING:
    from collections.abc import Callable

    from optuna import Study
    from optuna.trial import FrozenTrial


_HOURS = 1e5


@dataclass(frozen=True)
class Task:
    """What is searched: an estimator, its rows, and how a fitted one is scored (the more the better)."""

    model: Any
    X: np.ndarray
    y: np.ndarray
    score: Callable[[Any, np.ndarray, np.ndarray], float]


@dataclass
class Run:
    """One search: (CPU seconds since its begin, mean log-loss or NaN, parameters) of every trial that ended."""

    trials: list[tuple[float, float, dict[str, Any]]] = field(default_factory=list)

    def within(self, seconds: float) -> tuple[int, float, dict[str, Any]]:
        """Trials that ended in time, and the best of them."""
        done = [trial for trial in self.trials if trial[0] <= seconds] or self.trials[:1]
        losses = np.array([loss for _, loss, _ in done])
        best = int(np.nanargmin(losses))
        return len(done), float(losses[best]), done[best][2]

    @property
    def seconds(self) -> float:
        """CPU seconds until the last trial ended."""
        return self.trials[-1][0]


def ukpconvarg(_: Path | None) -> Task:
    """Comparisons of arguments."""
    folder = shared_data() / "ukpconvarg"
    table = pd.read_csv(folder / "comparisons.csv.gz")
    table = table[table["fold"] < 4]
    features = np.load(folder / "features.npz")["X"].astype(np.float64)
    items = Table(features, ids=np.arange(len(features)))

    def score(model: GPPLClassifier, X: np.ndarray, y: np.ndarray) -> float:
        return -float(cross_entropy(y, model.predict_proba(X)[:, 1]))

    model = GPPLClassifier(items, random_state=0)
    return Task(model, table[["left", "right"]].to_numpy(), table["label"].to_numpy(), score)


def movielens(ratings: Path | None) -> Task:
    """Ratings of films."""
    if ratings is None:
        raise SystemExit("movielens needs --ratings u.data; movielens/README.md of the data says how to obtain it")
    table = pd.read_csv(ratings, sep="\t", header=None).to_numpy()
    users = np.random.default_rng(0).choice(np.unique(table[:, 0]), 300, replace=False)
    table = table[np.isin(table[:, 0], users)]
    levels = np.arange(1, 6)

    def score(model: GibbsM3F, X: np.ndarray, y: np.ndarray) -> float:
        return -float(log_loss(y, model.predict_proba(X), labels=levels))

    return Task(GibbsM3F(max_iter=20, burn_in=5, levels=levels, random_state=0), table[:, :2], table[:, 2], score)


TASKS = {"ukpconvarg": ukpconvarg, "movielens": movielens}


def random_search(task: Task, rows: np.ndarray, folds: list[Any], seed: int, seconds: float) -> Run:
    """One candidate after the other, until the time is up."""
    run, began, state = Run(), time.process_time(), np.random.RandomState(seed)
    while not run.trials or run.seconds < seconds:
        search = RandomizedSearchCV(
            task.model,
            default_space(task.model),
            n_iter=1,
            scoring=task.score,
            cv=folds,
            refit=False,
            random_state=state,
        )
        search.fit(task.X[rows], task.y[rows])
        results = search.cv_results_
        run.trials.append((time.process_time() - began, -results["mean_test_score"][0], results["params"][0]))
    return run


def optuna_search(
    task: Task,
    rows: np.ndarray,
    folds: list[Any],
    seed: int,
    *,
    seconds: float = np.inf,
    n_trials: float = np.inf,
    pruner: str | None = "racing",
) -> Run:
    """Until the time is up, or so many trials are done."""
    run, began = Run(), time.process_time()

    def heard(study: Study, trial: FrozenTrial) -> None:
        loss = -trial.value if trial.state.name == "COMPLETE" else np.nan
        run.trials.append((time.process_time() - began, loss, dict(trial.params)))
        if run.seconds >= seconds or len(run.trials) >= n_trials:
            study.stop()

    search = OptunaSearch(
        task.model,
        n_trials=None,
        timeout=_HOURS,  # time is what is short, but it is counted here
        scoring=task.score,
        cv=folds,
        refit=False,
        random_state=seed,
        callbacks=[heard],
        pruner=pruner,
    )
    search.fit(task.X[rows], task.y[rows])
    found = search.cv_results_["params"]  # as the estimator takes them
    run.trials = [(end, loss, params) for (end, loss, _), params in zip(run.trials, found, strict=True)]
    return run


def repeated(task: Task, rows: np.ndarray, folds: list[Any], first: Run) -> Run:
    """The trials of another search, all of them whole."""
    run, began = Run(), time.process_time()
    for _, _, params in first.trials:
        grid = {name: [value] for name, value in params.items()}
        search = GridSearchCV(task.model, grid, scoring=task.score, cv=folds, refit=False)
        search.fit(task.X[rows], task.y[rows])
        run.trials.append((time.process_time() - began, -search.cv_results_["mean_test_score"][0], params))
    return run


@dataclass(frozen=True)
class Line:
    """What one search of one seed found."""

    task: str
    seed: int
    search: str
    trials: int
    seconds: float
    best: float
    test: float


def measured(name: str, task: Task, seed: int, seconds: float) -> list[Line]:
    """All searches of one seed."""
    rows, held = train_test_split(np.arange(len(task.y)), test_size=0.2, random_state=seed)
    folds = list(KFold(5, shuffle=True, random_state=seed).split(rows))
    pruned = optuna_search(task, rows, folds, seed, seconds=seconds)
    runs = {
        "OptunaSearch": (pruned, seconds),
        "RandomizedSearchCV": (random_search(task, rows, folds, seed, seconds), seconds),
        "repeated": (repeated(task, rows, folds, pruned), np.inf),
        "unpruned": (optuna_search(task, rows, folds, seed, n_trials=len(pruned.trials), pruner=None), np.inf),
    }
    lines = []
    for search, (run, limit) in runs.items():
        n, best, params = run.within(limit)
        model = clone(task.model).set_params(**params).fit(task.X[rows], task.y[rows])
        test = -task.score(model, task.X[held], task.y[held])
        lines.append(Line(name, seed, search, n, round(run.seconds, 1), best, test))
        print(
            f"{name:11} seed {seed}  {search:19} {n:4} trials {run.seconds:6.1f} s  best {best:.5f}  test {test:.5f}",
            flush=True,
        )
    return lines


def summary(lines: list[Line]) -> str:
    """Means over seeds, and what the issue asks."""
    table = pd.DataFrame([asdict(line) for line in lines])
    text = []
    for task, part in table.groupby("task"):
        best, seconds = (part.pivot_table(index="seed", columns="search", values=name) for name in ("best", "seconds"))
        means = part.groupby("search")[["trials", "seconds", "best", "test"]].mean()
        gain = best["RandomizedSearchCV"] - best["OptunaSearch"]
        error = gain.std(ddof=1) / np.sqrt(len(gain)) if len(gain) > 1 else float("nan")
        text.append(f"\n{task}, means of {len(gain)} seeds\n{means.round(5).to_string()}")
        text.append(f"better than RandomizedSearchCV by {gain.mean():.5f} nats, standard error {error:.5f}")
        text.append(f"better in {int((gain > 0).sum())} of {len(gain)} seeds")
        for other in ("repeated", "unpruned"):
            saved = 1.0 - seconds["OptunaSearch"] / seconds[other]
            away = best["OptunaSearch"] - best[other]
            text.append(
                f"{other}: pruning saves {saved.mean():.0%} of the time ({saved.min():.0%} to {saved.max():.0%}), "
                f"its best is {away.mean():+.5f} nats away ({away.min():+.5f} to {away.max():+.5f})"
            )
    return "\n".join(text)


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", default="ukpconvarg,movielens", help="comma-separated")
    parser.add_argument("--ratings", type=Path, help="u.data of MovieLens-100k")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=45.0, help="CPU seconds of a search")
    parser.add_argument("--out", type=Path, help="write all lines to this JSON file")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    lines = []
    for name in options.tasks.split(","):
        task = TASKS[name](options.ratings)
        task.model.fit(task.X[:200], task.y[:200])  # compiles
        for seed in range(options.first_seed, options.first_seed + options.seeds):
            lines += measured(name, task, seed, options.seconds)
            if options.out is not None:
                options.out.write_text(json.dumps([asdict(line) for line in lines], indent=1), "utf-8")
    print(summary(lines))


if __name__ == "__main__":
    main()
