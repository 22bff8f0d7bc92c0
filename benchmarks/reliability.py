"""Are probabilities right on real data? Calibration and log-loss of our classifiers, next to plain rivals.

::

    python benchmarks/reliability.py FOLDER                        # every set whose file is in the folder
    python benchmarks/reliability.py FOLDER --only crowd,grades    # models or sets whose name has one of these words
    python benchmarks/reliability.py FOLDER --out docs/examples/reliability.json

`_reliability_data.py` names the sets, three for each model, and the public repositories that they come from. None took
part in choosing a default. Each row is predicted once, in three-fold cross-validation. Ours have default settings
(``order_effect=True`` where the left side is the home team). The rivals are logistic regression with its penalty chosen
by log-loss, a random forest of 300 trees with at least five rows a leaf, and the shares of the training labels.

Events are "the label is above level k", pooled over k; of two classes that is the second one. Their expected
calibration error (ten bins, `skpref.metrics.calibration`) is above zero even for true probabilities, so the 95th
percentile of what these would have, on as many rows, is printed next to it. Differences of log-loss have standard
errors over rows.

docs/examples/plot_reliability.py draws the file of ``--out``, which keeps the rows of sets that were not run.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from _reliability_data import CLASSES, COMPARISONS, GRADES, RATINGS, Compared, Labelled, Rated
from scipy import sparse
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skpref import (
    CrowdGPPL,
    GibbsIPM3F,
    GibbsM3F,
    GPOrdinalRegressor,
    GPPLClassifier,
    SVGPClassifier,
    VariationalFMClassifier,
)
from skpref.data import OneHotDesign
from skpref.metrics import calibration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
#: Of one fold: the labels of the test rows, and the probabilities that each model gives to their levels.
Fold = tuple[IntArray, "dict[str, Callable[[], FloatArray]]"]


# -------------------------------------------------------------------------------------------------------------- rivals
def logistic(*, intercept: bool = True, shuffle: bool = True) -> GridSearchCV:
    """Logistic regression with its penalty chosen by log-loss on folds of rows or, unless shuffled, of users."""
    model = LogisticRegression(max_iter=1000, fit_intercept=intercept)
    folds = StratifiedKFold(3, shuffle=shuffle, random_state=0 if shuffle else None)
    return GridSearchCV(model, {"C": [0.01, 0.1, 1.0, 10.0]}, scoring="neg_log_loss", cv=folds)


def forest() -> RandomForestClassifier:
    """Return a forest whose leaves are large enough to have probabilities."""
    return RandomForestClassifier(300, min_samples_leaf=5, random_state=0)


def shares(y: IntArray, n_levels: int, n_rows: int) -> FloatArray:
    """Return the same probabilities for every row."""
    return np.tile(np.bincount(y, minlength=n_levels) / y.size, (n_rows, 1))


def all_levels(model: Any, X: Any, n_levels: int) -> FloatArray:  # noqa: ANN401 - any classifier, any matrix
    """Return probabilities of levels 0, 1, ..., also of those that training lacked."""
    out = np.full((X.shape[0], n_levels), 1e-6)
    out[:, np.asarray(model.classes_, dtype=int)] = model.predict_proba(X)
    return out / out.sum(axis=1, keepdims=True)


def leave_one_out_means(ids: IntArray, values: FloatArray, asked: IntArray | None = None) -> FloatArray:
    """Return the mean of each id without the row itself, shrunk by two rows of the common mean, and its count."""
    n = int(max(ids.max(), -1 if asked is None else asked.max())) + 1
    total, count = np.bincount(ids, values, n), np.bincount(ids, minlength=n).astype(float)
    if asked is None:
        total, count = total[ids] - values, count[ids] - 1.0
    else:
        total, count = total[asked], count[asked]
    return np.column_stack([(total + 2.0 * values.mean()) / (count + 2.0), count])


# --------------------------------------------------------------------------------------------------------------- folds
def splits(n: int) -> Iterator[tuple[IntArray, IntArray]]:
    """Three folds."""
    return KFold(3, shuffle=True, random_state=0).split(np.arange(n))


def compared(data: Compared) -> Iterator[Fold]:
    """GPPL of comparisons, with features of the items or without."""
    n_items = int(data.X.max()) + 1
    rows, known = np.arange(len(data.X)), data.features
    one_hot = sparse.csr_matrix(
        (np.repeat([1.0, -1.0], len(rows)), (np.tile(rows, 2), data.X.T.ravel())), (len(rows), n_items)
    )
    difference = one_hot if known is None else known[data.X[:, 0]] - known[data.X[:, 1]]
    for train, test in splits(len(rows)):
        y = data.y[train]

        def gppl(train: IntArray = train, test: IntArray = test) -> FloatArray:
            model = GPPLClassifier(items=known, order_effect=data.order_effect, random_state=0)
            return all_levels(model.fit(data.X[train], data.y[train]), data.X[test], 2)

        def line(train: IntArray = train, test: IntArray = test) -> FloatArray:
            model = logistic(intercept=data.order_effect).fit(difference[train], data.y[train])
            return all_levels(model, difference[test], 2)

        def trees(train: IntArray = train, test: IntArray = test) -> FloatArray:
            inputs = difference
            if known is None:
                # Share and number of the wins of both sides in the training matches.
                ids = np.concatenate([data.X[train, 0], data.X[train, 1]])
                won = np.concatenate([data.y[train], 1 - data.y[train]]).astype(float)
                own = np.hstack(np.split(leave_one_out_means(ids, won), 2))
                model = forest().fit(own, data.y[train])
                asked = [leave_one_out_means(ids, won, data.X[test, side]) for side in (0, 1)]
                return all_levels(model, np.hstack(asked), 2)
            return all_levels(forest().fit(inputs[train], data.y[train]), inputs[test], 2)

        yield (
            data.y[test],
            {
                "ours": gppl,
                "logistic regression": line,
                "random forest": trees,
                "shares": lambda y=y, test=test: shares(y, 2, test.size),
            },
        )


def partners(rng: np.random.Generator, data: Rated, rows: IntArray, n: int) -> IntArray:
    """Draw pairs of ratings by one user with different levels, n or fewer for each rating."""
    order = rows[np.argsort(data.X[rows, 0], kind="stable")]
    start = np.searchsorted(data.X[order, 0], np.arange(data.X[:, 0].max() + 2))
    pairs = []
    for row in rows:
        own = order[start[data.X[row, 0]] : start[data.X[row, 0] + 1]]
        own = own[data.y[own] != data.y[row]]
        pairs += [(row, other) for other in rng.permutation(own)[:n]]
    return np.unique(np.sort(np.array(pairs, dtype=np.int64).reshape(-1, 2), axis=1), axis=0)


def crowd(data: Rated) -> Iterator[Fold]:
    """CrowdGPPL of comparisons derived from ratings: which of two items did the user rate higher.

    Both ratings of a test pair were held out, so no test answer follows from training answers.
    """
    for train, test in splits(len(data.X)):
        rng = np.random.default_rng(1)
        sides = []
        for pairs in (partners(rng, data, train, 2), partners(rng, data, test, 1)):
            turned = np.where(rng.random(len(pairs))[:, None] < 0.5, pairs, pairs[:, ::-1])
            turned = turned[np.argsort(data.X[turned[:, 0], 0], kind="stable")]  # user by user
            rows = np.column_stack([data.X[turned[:, 0], 0], data.X[turned[:, 0], 1], data.X[turned[:, 1], 1]])
            sides.append((rows, (data.y[turned[:, 0]] > data.y[turned[:, 1]]).astype(np.int64)))
        (X, y), (asked, answers) = sides
        n_users, n_items = data.X.max(axis=0) + 1

        def design(rows: IntArray, *, personal: bool, size: tuple[int, int] = (n_users, n_items)) -> sparse.csr_matrix:
            at, number = np.arange(len(rows)), np.prod(size)
            columns, values = [rows[:, 1], rows[:, 2]], [np.ones(len(rows)), -np.ones(len(rows))]
            if personal:
                columns += [size[1] + rows[:, 0] * size[1] + rows[:, side] for side in (1, 2)]
                values += values
            places = np.tile(at, len(columns)), np.concatenate(columns)
            return sparse.csr_matrix((np.concatenate(values), places), (len(rows), size[1] + int(number) * personal))

        def gppl(X: IntArray = X, y: IntArray = y, asked: IntArray = asked) -> FloatArray:
            return all_levels(CrowdGPPL(random_state=0).fit(X, y), asked, 2)

        def line(personal: bool, X: IntArray = X, y: IntArray = y, asked: IntArray = asked) -> FloatArray:
            # Comparisons of a user share ratings, so they must not be on both sides; they stand together.
            model = logistic(intercept=False, shuffle=False).fit(design(X, personal=personal), y)
            return all_levels(model, design(asked, personal=personal), 2)

        def trees(X: IntArray = X, y: IntArray = y, asked: IntArray = asked) -> FloatArray:
            ids, won = np.concatenate([X[:, 1], X[:, 2]]), np.concatenate([y, 1 - y]).astype(float)
            model = forest().fit(np.hstack(np.split(leave_one_out_means(ids, won), 2)), y)
            return all_levels(model, np.hstack([leave_one_out_means(ids, won, asked[:, side]) for side in (1, 2)]), 2)

        yield (
            answers,
            {
                "ours": gppl,
                "logistic regression": lambda f=line: f(False),
                "logistic regression, user x item": lambda f=line: f(True),
                "random forest": trees,
                "shares": lambda answers=answers: np.full((answers.size, 2), 0.5),
            },
        )


def rated(data: Rated, ours: Callable[[Rated, Rated, int], FloatArray]) -> Iterator[Fold]:
    """Levels of ratings by user and item."""
    n_levels = int(data.y.max()) + 1
    for train, test in splits(len(data.X)):
        learn, ask = Rated(data.X[train], data.y[train]), Rated(data.X[test], data.y[test])

        def line(learn: Rated = learn, ask: Rated = ask) -> FloatArray:
            encoder = OneHotEncoder(handle_unknown="ignore").fit(learn.X)
            return all_levels(logistic().fit(encoder.transform(learn.X), learn.y), encoder.transform(ask.X), n_levels)

        def trees(learn: Rated = learn, ask: Rated = ask) -> FloatArray:
            y = learn.y.astype(float)
            own = np.hstack([leave_one_out_means(learn.X[:, side], y) for side in (0, 1)])
            model = forest().fit(own, learn.y)
            asked = np.hstack([leave_one_out_means(learn.X[:, side], y, ask.X[:, side]) for side in (0, 1)])
            return all_levels(model, asked, n_levels)

        yield (
            ask.y,
            {
                "ours": lambda learn=learn, ask=ask: ours(learn, ask, n_levels),
                "logistic regression": line,
                "random forest": trees,
                "shares": lambda y=learn.y, test=test: shares(y, n_levels, test.size),
            },
        )


def max_margin(estimator: type) -> Callable[[Rated, Rated, int], FloatArray]:
    """Return the probabilities of a Gibbs sampler."""

    def predict(train: Rated, test: Rated, n_levels: int) -> FloatArray:
        model = estimator(levels=np.arange(n_levels), random_state=0).fit(train.X, train.y)
        return all_levels(model, test.X, n_levels)

    return predict


def machine(train: Rated, test: Rated, n_levels: int) -> FloatArray:
    """Return the probabilities of a factorization machine."""
    design = OneHotDesign().fit(train.X)
    model = VariationalFMClassifier(random_state=0).fit(design.transform(train.X), train.y)
    return all_levels(model, design.transform(test.X), n_levels)


def likes(data: Rated) -> Rated:
    """Cut levels in two where the halves are most alike."""
    above = [(data.y > level).mean() for level in range(int(data.y.max()))]
    return Rated(data.X, (data.y > int(np.argmin(np.abs(np.array(above) - 0.5)))).astype(np.int64))


def labelled(data: Labelled, ours: Any) -> Iterator[Fold]:  # noqa: ANN401 - a function from nothing to a classifier
    """Grades or classes of rows of features."""
    n_levels = int(data.y.max()) + 1
    for train, test in splits(len(data.y)):
        models = {
            "ours": ours,
            "logistic regression": logistic,
            "random forest": forest,
        }

        def predict(make: Callable[[], Any], train: IntArray = train, test: IntArray = test) -> FloatArray:
            model = make_pipeline(StandardScaler(), make()).fit(data.X[train], data.y[train])
            return all_levels(model, data.X[test], n_levels)

        yield (
            data.y[test],
            {
                **{name: lambda f=predict, make=make: f(make) for name, make in models.items()},
                "shares": lambda y=data.y[train], test=test: shares(y, n_levels, test.size),
            },
        )


# --------------------------------------------------------------------------------------------------------------- score
@dataclass(frozen=True)
class Job:
    """One of our models on one set."""

    model: str
    name: str
    folds: Callable[[Path], Iterator[Fold]]


def jobs() -> list[Job]:
    """Return all models on all their sets."""
    out = [Job("GPPLClassifier", n, lambda f, g=g: compared(g(f))) for n, g in COMPARISONS.items()]
    out += [Job("CrowdGPPL", n, lambda f, g=g: crowd(g(f))) for n, g in RATINGS.items()]
    ordinal, svgp = lambda: GPOrdinalRegressor(random_state=0), lambda: SVGPClassifier(random_state=0)
    out += [Job("GPOrdinalRegressor", n, lambda f, g=g: labelled(g(f), ordinal)) for n, g in GRADES.items()]
    out += [Job("SVGPClassifier", n, lambda f, g=g: labelled(g(f), svgp)) for n, g in CLASSES.items()]
    for sampler in (GibbsM3F, GibbsIPM3F):
        ours = max_margin(sampler)
        out += [Job(sampler.__name__, n, lambda f, g=g, o=ours: rated(g(f), o)) for n, g in RATINGS.items()]
    return out + [
        Job("VariationalFMClassifier", n, lambda f, g=g: rated(likes(g(f)), machine)) for n, g in RATINGS.items()
    ]


def events(y: IntArray, p: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return whether each label is above each level, and its probabilities."""
    above = np.clip(1.0 - np.cumsum(p, axis=1)[:, :-1], 0.0, 1.0)
    return (y[:, None] > np.arange(p.shape[1] - 1)).astype(float).ravel(), above.ravel()


def error_of_true_probabilities(p: FloatArray, n_draws: int = 200) -> float:
    """Return the 95th percentile of the calibration error where labels are drawn from the probabilities."""
    rng, cumulative = np.random.default_rng(0), np.cumsum(p, axis=1)
    errors = []
    for _ in range(n_draws):
        y = (rng.random((len(p), 1)) > cumulative[:, :-1]).sum(axis=1)
        errors.append(calibration(*events(y, p)).expected_calibration_error)
    return float(np.quantile(errors, 0.95))


def measure(job: Job, folder: Path) -> dict[str, Any]:
    """Cross-validate every model of a job."""
    labels: list[IntArray] = []
    predictions: dict[str, list[FloatArray]] = {}
    seconds: dict[str, float] = {}
    for y, models in job.folds(folder):
        labels.append(y)
        for name, predict in models.items():
            start = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                predictions.setdefault(name, []).append(predict())
            seconds[name] = seconds.get(name, 0.0) + (time.process_time() - start) / 3.0
    y = np.concatenate(labels)
    losses, models_out = {}, {}
    for name, parts in predictions.items():
        p = np.vstack(parts)
        losses[name] = -np.log(np.maximum(p[np.arange(y.size), y], 1e-15))
        curve = calibration(*events(y, p))
        models_out[name] = {
            "log_loss": round(float(losses[name].mean()), 4),
            "error": round(curve.expected_calibration_error, 4),
            "error_if_true": round(error_of_true_probabilities(p), 4),
            "predicted": curve.mean_predicted.round(4).tolist(),
            "observed": curve.mean_observed.round(4).tolist(),
            "count": curve.count.tolist(),
            "seconds": round(seconds[name], 2),
        }
        gap = losses["ours"] - losses[name]
        models_out[name]["ours_minus_this"] = round(float(gap.mean()), 4)
        models_out[name]["standard_error"] = round(float(gap.std(ddof=1) / np.sqrt(gap.size)), 4)
    return {"model": job.model, "set": job.name, "n_rows": int(y.size), "models": models_out}


def show(result: dict[str, Any]) -> None:
    """Print a job: ! where ours loses by two standard errors, * where true probabilities are refuted."""
    print(f"\n{result['model']}, {result['set']}, {result['n_rows']} rows")
    for name, row in result["models"].items():
        worse = row["ours_minus_this"] > 2.0 * row["standard_error"] and name != "ours"
        wrong = row["error"] > row["error_if_true"]
        loss = f"log-loss {row['log_loss']:.4f}"
        gap = f"ours is worse by {row['ours_minus_this']:+.4f} ({row['standard_error']:.4f}){' !' if worse else '  '}"
        error = f"calibration error {row['error']:.4f}{'*' if wrong else ' '} (if true {row['error_if_true']:.4f})"
        print(f"  {name:34s} {loss}  {gap}  {error}  {row['seconds']:.1f} s", flush=True)


def keep(results: list[dict[str, Any]], path: Path) -> None:
    """Put measured rows into a file in the order of the jobs, in place of older ones."""
    git = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()
    old = json.loads(path.read_text("utf-8")) if path.exists() else []
    merged = {(row["model"], row["set"]): row for row in [*old, *({**row, "commit": commit} for row in results)]}
    keys = [(job.model, job.name) for job in jobs() if (job.model, job.name) in merged]
    path.write_text("[\n" + ",\n".join(json.dumps(merged[key]) for key in keys) + "\n]\n", "utf-8")


def main(arguments: list[str] | None = None) -> int:
    """Run the jobs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder with the files of the sets")
    parser.add_argument("--only", default="", help="comma-separated words; a job runs if its model or set contains one")
    parser.add_argument("--out", type=Path, help="JSON file of the results")
    options = parser.parse_args(arguments)
    words = [word.strip().lower() for word in options.only.split(",")]
    for job in jobs():
        if any(word in f"{job.model} {job.name}".lower() for word in words):
            try:
                result = measure(job, options.folder)
            except FileNotFoundError as error:
                print(f"\n{job.model}, {job.name}: skipped, {error.filename} is absent", flush=True)
                continue
            show(result)
            if options.out:
                keep([result], options.out)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
