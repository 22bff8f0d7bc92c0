"""Samplers of Optuna side by side in `OptunaSearch`: our Gaussian process, TPE (multivariate) and random search.

    OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1 python benchmarks/samplers.py --out samplers.json

Five searches on real data, five seeds each. A search is judged twice: by its best cross-validated loss after
`--trials` trials, and after `--seconds` CPU seconds of this process. Nothing is pruned, so that only the sampler
differs; all searches of a seed have the same folds and the same first trial. Losses of a task are put on one scale by
the standard deviation of all its results, and a difference is the mean over 25 pairs with its standard error.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import optuna
import pandas as pd
from _data import shared_data
from scipy import stats
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from skpref import CrowdGPPL, GPPLClassifier, OneHotDesign, Table, VariationalFMClassifier
from skpref.metrics import cross_entropy
from skpref.search import LogInteger, OptunaSearch, default_space
from skpref.search.sampler import SurrogateSampler

if TYPE_CHECKING:
    from collections.abc import Callable

    from optuna.samplers import BaseSampler

SAMPLERS = ("gaussian process", "tpe", "random")
_HOURS = 1e5


@dataclass(frozen=True)
class Task:
    """An estimator, its space, its rows, and the score of a fitted estimator (higher is better)."""

    model: Any
    space: dict[str, Any]
    X: Any
    y: np.ndarray
    score: str | Callable[[Any, Any, np.ndarray], float]


def pair_score(model: GPPLClassifier | CrowdGPPL, X: np.ndarray, y: np.ndarray) -> float:
    """Minus the log-loss of answers to comparisons, ties as one half."""
    return -float(cross_entropy(y, model.predict_proba(X)[:, 1]))


def sample(table: pd.DataFrame, n: int) -> pd.DataFrame:
    """Draw n rows."""
    return table.sample(n, random_state=0).reset_index(drop=True)


def nba() -> Task:
    """Games of basketball teams, with their payroll."""
    folder = shared_data() / "nba"
    items = pd.read_csv(folder / "items.csv.gz")
    games = sample(pd.read_csv(folder / "comparisons.csv.gz"), 1000)
    salary = StandardScaler().fit_transform(items[["salary", "season_start"]])
    model = GPPLClassifier(Table(salary, ids=items["item"].to_numpy()), order_effect=True, random_state=0)
    return Task(
        model, default_space(model), games[["home", "away"]].to_numpy(), games["home_wins"].to_numpy(), pair_score
    )


def llmfao() -> Task:
    """Judgements of language models by a crowd."""
    answers = sample(pd.read_csv(shared_data() / "llmfao/comparisons.csv.gz"), 2000)
    model = CrowdGPPL(random_state=0, max_iter=100)
    space = default_space(model)
    return Task(model, space, answers[["worker", "left", "right"]].to_numpy(), answers["label"].to_numpy(), pair_score)


def duolingo() -> Task:
    """Mistakes of learners of French."""
    words = sample(pd.read_csv(shared_data() / "duolingo/fr_en_sample_7933.csv.gz"), 3000)
    model = make_pipeline(OneHotDesign(), VariationalFMClassifier(random_state=0))
    space = {
        "variationalfmclassifier__n_factors": LogInteger(1, 32),
        "variationalfmclassifier__learn_priors": [True, False],
        "variationalfmclassifier__link": ["probit", "logit"],
    }
    return Task(model, space, words[["user_id", "token"]].to_numpy(), words["label"].to_numpy(), "neg_log_loss")


def ionosphere() -> Task:
    """Radar returns, by a support vector machine."""
    rows = pd.read_csv(shared_data() / "gp/ionosphere/data.csv.gz")
    space = {
        "svc__C": stats.loguniform(1e-2, 1e3),
        "svc__gamma": stats.loguniform(1e-4, 1e1),
        "svc__kernel": ["rbf", "sigmoid"],
        "svc__class_weight": [None, "balanced"],
    }
    X, y = rows.iloc[:, :-1].to_numpy(), rows.iloc[:, -1].to_numpy()
    return Task(make_pipeline(StandardScaler(), SVC()), space, X, y, "roc_auc")


def wine() -> Task:
    """Grades of red wines, by gradient boosting."""
    rows = pd.read_csv(shared_data() / "gp/wine_red/data.csv.gz")
    space = {
        "learning_rate": stats.loguniform(1e-2, 1.0),
        "max_leaf_nodes": LogInteger(2, 64),
        "min_samples_leaf": LogInteger(1, 100),
        "l2_regularization": stats.loguniform(1e-3, 1e2),
        "max_features": stats.uniform(0.1, 0.9),
    }
    model = HistGradientBoostingRegressor(max_iter=60, early_stopping=False, random_state=0)
    X, y = rows.iloc[:, :-1].to_numpy(), rows.iloc[:, -1].to_numpy()
    return Task(model, space, X, y, "neg_root_mean_squared_error")


TASKS = {"nba": nba, "llmfao": llmfao, "duolingo": duolingo, "ionosphere": ionosphere, "wine": wine}


def sampler_of(name: str, seed: int, *, per_second: bool) -> BaseSampler:
    """Return a sampler by its name."""
    if name == "tpe":
        return optuna.samplers.TPESampler(seed=seed, multivariate=True)
    if name == "random":
        return optuna.samplers.RandomSampler(seed=seed)
    return SurrogateSampler(seed, per_second=per_second)


def losses(task: Task, sampler: BaseSampler, seed: int, n_trials: int, seconds: float) -> list[tuple[float, float]]:
    """Search until both the trials and the seconds are spent; return (CPU seconds, loss) of every trial."""
    ended: list[tuple[float, float]] = []
    start = time.process_time()

    def record(study: optuna.Study, trial: optuna.trial.FrozenTrial) -> None:
        ended.append((time.process_time() - start, -trial.value if trial.value is not None else np.inf))
        if len(ended) >= n_trials and ended[-1][0] >= seconds:
            study.stop()

    OptunaSearch(
        task.model,
        task.space,
        n_trials=None,
        timeout=_HOURS,
        scoring=task.score,
        cv=list(KFold(3, shuffle=True, random_state=seed).split(task.y)),
        refit=False,
        random_state=seed,
        sampler=sampler,
        callbacks=[record],
        pruner=None,
    ).fit(task.X, task.y)
    return ended


def measure(name: str, task: Task, seed: int, n_trials: int, seconds: float) -> list[dict[str, Any]]:
    """Return the best losses of all samplers for one seed."""
    lines = []
    for sampler in SAMPLERS:
        by_trials = losses(task, sampler_of(sampler, seed, per_second=False), seed, n_trials, 0.0)
        timed = sampler_of(sampler, seed, per_second=True)
        by_seconds = losses(task, timed, seed, 1, seconds)
        in_time = [loss for end, loss in by_seconds if end <= seconds] or [by_seconds[0][1]]
        line = {
            "task": name,
            "seed": seed,
            "sampler": sampler,
            "trials": min(loss for _, loss in by_trials[:n_trials]),
            "seconds": min(in_time),
            "n_in_time": len(in_time),
        }
        print(line, flush=True)
        lines.append(line)
    return lines


def summary(lines: list[dict[str, Any]]) -> str:
    """Return means by task, and the differences to the Gaussian process in standard deviations."""
    table = pd.DataFrame(lines)
    text = [table.groupby(["task", "sampler"])[["trials", "seconds", "n_in_time"]].mean().round(5).to_string()]
    for budget in ("trials", "seconds"):
        scale = table.groupby("task")[budget].transform(lambda values: values.std() or 1.0)
        scaled = table.assign(loss=table[budget] / scale).pivot_table("loss", ["task", "seed"], "sampler")
        for other in SAMPLERS[1:]:
            gain = scaled[other] - scaled["gaussian process"]
            error = gain.std(ddof=1) / np.sqrt(len(gain))
            text.append(
                f"equal {budget}, against {other}: {gain.mean():+.2f} standard deviations (error {error:.2f}), "
                f"better in {int((gain > 0).sum())}, worse in {int((gain < 0).sum())} of {len(gain)}"
            )
    return "\n".join(text)


def main() -> None:
    """Run all searches and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", default=",".join(TASKS), help="comma-separated")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--trials", type=int, default=25)
    parser.add_argument("--seconds", type=float, default=12.0, help="CPU seconds")
    parser.add_argument("--out", type=Path, help="write all results to this JSON file")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    lines: list[dict[str, Any]] = []
    for name in options.tasks.split(","):
        task = TASKS[name]()
        losses(task, optuna.samplers.RandomSampler(seed=0), 0, 2, 0.0)  # compiles
        for seed in range(options.seeds):
            lines += measure(name, task, seed, options.trials, options.seconds)
            if options.out is not None:
                options.out.write_text(json.dumps(lines, indent=1), "utf-8")
    print(summary(lines))


if __name__ == "__main__":
    main()
