"""Grades predicted by `GPOrdinalRegressor` as it comes, beside what else one would pick, in one run.

::

    python benchmarks/grades.py FOLDER                     # every set of `SETS` whose file is in the folder
    python benchmarks/grades.py FOLDER --only ERA,skill --out grades.json

Sets from github.com/genyang/datasets (ERA, ESL, LEV, car; cpu_act and elevators in five grades by quantiles),
gagolews/ordinal-regression-data and any copy of the UCI student set (G3 in five grades, without G1 and G2). `KNOWN`
were measured while the default was chosen; the others were named before their only run. Each is split three times,
into at most 1,000 training rows and at most 2,000 test rows.

Printed are zero-one error of the mode, mean absolute error of the median level (of a regression: its rounded mean),
log-loss and ranked probability score; then the differences of ours to each rival with their standard errors over
all test rows, and where ours is behind by more than one.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mord
import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from statsmodels.miscmodels.ordinal_model import OrderedModel

from skpref import GPOrdinalRegressor

if TYPE_CHECKING:
    from collections.abc import Callable

#: File and column of the grades.
SETS = {
    "ERA": ("ERA.arff", -1),
    "ESL": ("ESL.arff", -1),
    "affairs": ("affairs.csv", 0),
    "cement": ("cement_strength.csv", 0),
    "skill": ("skill.csv", 0),
    "wine-white": ("winequality-white.csv", 0),
    "kinematics": ("kinematics.csv", 0),
    "ailerons": ("ailerons.csv", 0),
    "fireman": ("fireman_example.csv", 0),
    "student": ("student-por.csv", -1),
    "cpu-act": ("cpu_act.arff", -1),
    "elevators": ("elevators.arff", -1),
    "LEV": ("LEV.arff", -1),
    "car": ("car.arff", -1),
    "wine-red": ("winequality-red.csv", 0),
}
KNOWN = ("LEV", "car", "wine-red")
CAR = {"unacc": 0, "acc": 1, "good": 2, "vgood": 3}
SPLITS, TRAIN_ROWS, TEST_ROWS = 3, 1000, 2000
TINY = 1e-12


def load(path: Path, column: int) -> tuple[np.ndarray, np.ndarray]:
    """Return features, words as one-hot columns, and grades from 0."""
    if path.suffix == ".arff":
        rows = path.read_text().lower().split("@data")[1]
        lines = [line for line in rows.splitlines() if line.strip() and not line.startswith("%")]
        table = pd.DataFrame([line.split(",") for line in lines]).map(lambda text: text.strip(" '\""))
        table = table.apply(lambda c: pd.to_numeric(c) if c.str.fullmatch(r"[-+.\de]*\d[-+.\de]*").all() else c)
    else:
        table = pd.read_csv(path, sep=None, engine="python")
    grade = table.iloc[:, column]
    table = table.drop(columns=[grade.name, *({"G1", "G2"} & set(table.columns))])
    if path.name.startswith("student"):
        grade = pd.cut(grade, [-1, 9, 11, 13, 15, 20], labels=False)
    elif path.stem in {"cpu_act", "elevators"}:
        grade = np.searchsorted(np.quantile(grade, [0.1, 0.3, 0.7, 0.9]), grade)
    elif path.stem == "car":
        grade = grade.map(CAR)
    X = pd.get_dummies(table).to_numpy(dtype=np.float64)
    return X, np.unique(grade, return_inverse=True)[1]


def splits(X: np.ndarray, y: np.ndarray) -> Any:  # noqa: ANN401
    """Yield standardised training and test parts; grades that training lacks are left out of the test."""
    for seed in range(SPLITS):
        order = np.random.default_rng(seed).permutation(y.size)
        n = min(TRAIN_ROWS, int(0.7 * y.size))
        train, test = order[:n], order[n : n + TEST_ROWS]
        levels = np.unique(y[train])
        test = test[np.isin(y[test], levels)]
        mean, scale = X[train].mean(axis=0), X[train].std(axis=0)
        Z = (X - mean)[:, scale > 0.0] / scale[scale > 0.0]
        code = np.searchsorted(levels, y)
        yield Z[train], code[train], Z[test], code[test]


def ours(X: np.ndarray, y: np.ndarray, Z: np.ndarray) -> np.ndarray:
    return GPOrdinalRegressor(random_state=0).fit(X, y).predict_proba(Z)


def ordered(X: np.ndarray, y: np.ndarray, Z: np.ndarray) -> np.ndarray:
    return np.asarray(OrderedModel(y, X, distr="logit").fit(method="bfgs", disp=0).predict(exog=Z))


def rounded(X: np.ndarray, y: np.ndarray, Z: np.ndarray) -> np.ndarray:
    mean = HistGradientBoostingRegressor(max_iter=60, random_state=0).fit(X, y).predict(Z)
    return np.eye(y.max() + 1)[np.clip(np.rint(mean).astype(int), 0, y.max())]


def of(model: Any) -> Callable[..., np.ndarray]:  # noqa: ANN401
    return lambda X, y, Z: model.fit(X, y).predict_proba(Z)


MODELS = {
    "ours": ours,
    "forest": of(RandomForestClassifier(300, min_samples_leaf=2, random_state=0)),
    "boosting": of(HistGradientBoostingClassifier(max_iter=60, random_state=0)),
    "rounded": rounded,
    "ordered": ordered,
    "mord": of(mord.LogisticAT(alpha=1.0)),
    "logistic": of(LogisticRegression(max_iter=1000)),
}
MEASURES = ("zero-one", "MAE", "log-loss", "RPS")


def losses(p: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the four losses of every row, shape (4, n)."""
    cumulative = np.cumsum(p, axis=1)
    median = (cumulative[:, :-1] < 0.5 - TINY).sum(axis=1)
    step = y[:, None] <= np.arange(p.shape[1])
    log_loss = -np.log(np.maximum(p[np.arange(y.size), y], TINY))
    return np.array([p.argmax(axis=1) != y, np.abs(median - y), log_loss, ((cumulative - step) ** 2).sum(axis=1)])


def run(X: np.ndarray, y: np.ndarray) -> dict[str, dict[str, Any]]:
    """Return the losses of all test rows and the CPU seconds of a fit with its predictions, by model."""
    out: dict[str, dict[str, Any]] = {name: {"losses": [], "cpu": 0.0} for name in MODELS}
    for train_X, train_y, test_X, test_y in splits(X, y):
        for name, model in MODELS.items():
            start = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    p = model(train_X, train_y, test_X)
                except (np.linalg.LinAlgError, ValueError) as error:
                    print(f"# {name}: {error!r:.100}", flush=True)
                    p = np.full((test_y.size, train_y.max() + 1), np.nan)
            out[name]["cpu"] += (time.process_time() - start) / SPLITS
            out[name]["losses"].append(losses(p, test_y))
    return {name: {"losses": np.hstack(row["losses"]), "cpu": row["cpu"]} for name, row in out.items()}


def report(name: str, n: int, d: int, results: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Print a set's table and return its figures."""
    print(f"\n{name}: {n} rows, {d} features{', measured before' * (name in KNOWN)}")
    print(f"{'model':10}" + "".join(f"{measure:>10}" for measure in (*MEASURES, "CPU s")))
    behind, figures = [], {}
    for model, row in results.items():
        means = row["losses"].mean(axis=1)
        shown = [f"{value:10.3f}" if i < 2 or model != "rounded" else f"{'-':>10}" for i, value in enumerate(means)]
        print(f"{model:10}" + "".join(shown) + f"{row['cpu']:10.2f}")
        gap = results["ours"]["losses"] - row["losses"]
        error = gap.std(axis=1) / np.sqrt(gap.shape[1])
        wins = [
            m for m, g, e, s in zip(MEASURES, gap.mean(axis=1), error, shown, strict=True) if g > e and "-" not in s
        ]
        behind += [f"{model} {measure}" for measure in wins]
        figures[model] = {**dict(zip(MEASURES, means.tolist(), strict=True)), "cpu": row["cpu"]}
    print("ours is behind by more than one standard error:", ", ".join(behind) or "nowhere", flush=True)
    return figures


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default=",".join(SETS), help="sets, separated by commas")
    parser.add_argument("--out", type=Path, help="file for the figures")
    options = parser.parse_args()
    figures = {}
    for name in options.only.split(","):
        file, column = SETS[name]
        if not (options.folder / file).exists():
            print(f"\n{name}: no file {file}, skipped")
            continue
        X, y = load(options.folder / file, column)
        figures[name] = report(name, *X.shape, run(X, y))
        if options.out:
            options.out.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
