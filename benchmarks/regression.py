"""Gaussian-process regression on the sets of ``$SKPREF_SHARED/data/gp`` (their splits), side by side in one run.

For each set and model: root mean squared error and negative log predictive density of standardised targets on the test
rows of the first splits, nats a row of the bound, CPU seconds of the fit.  One thread unless ``--threads`` says more::

    python benchmarks/regression.py --sets yacht,concrete,kin8nm --models gpytorch,exact,ours,ours-held
    python benchmarks/regression.py --out regression.json        # everything; started again, it goes on where it was
    python benchmarks/regression.py --out regression.json --table
    SKPREF_GPYTORCH_STEPS=1000 python benchmarks/regression.py --splits 1 --out regression.json
    python benchmarks/regression.py --steps                      # a natural-gradient step at batch 1000: three ways
    python benchmarks/regression.py --fit 10000 --inducing 300   # a full fit with hyper-parameters, 8 features
    python benchmarks/regression.py --fit 1000000 --inducing 500 --threads 2
    python benchmarks/regression.py --sets nycflights,ukhouse --rows 20000 --models linear,boosting,ours-default

``exact`` is scikit-learn's `GaussianProcessRegressor` (fewer than 2,000 training rows), ``gpytorch`` its SVGP in an
environment of its own (``_gpytorch.py``), ``ours`` `SVGPRegressor`, ``ours-held`` with the inducing points where
k-means++ put them, ``ours-default`` with as many as it takes by itself, ``ours-student`` with heavy tails.  All have an
amplitude times the squared exponential with a length-scale a feature, and the first three sparse ones the same number
of inducing points.  ``linear`` is scikit-learn's `BayesianRidge`.  ``boosting`` is its `HistGradientBoostingRegressor`:
one for the mean, one for each end of the intervals by quantile loss; its density is the Student t that fits residuals
of a fifth of the rows, held out.  Flights are without the scheduled departure, which gives the delay away, and
prices are logs.  ``--rows`` draws so many training rows and half as many test rows.
"""

from __future__ import annotations

import os
import sys

# Read by the pools when they are loaded, hence before the first import of numpy.
os.environ["NUMBA_NUM_THREADS"] = sys.argv[sys.argv.index("--threads") + 1] if "--threads" in sys.argv else "1"
os.environ["OMP_NUM_THREADS"] = os.environ["NUMBA_NUM_THREADS"]
os.environ["OPENBLAS_NUM_THREADS"] = os.environ["NUMBA_NUM_THREADS"]

import argparse
import gzip
import json
import math
import resource
import statistics
import subprocess
import tempfile
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

if TYPE_CHECKING:
    from collections.abc import Callable

Array = NDArray[np.float64]

DATA = Path(os.environ.get("SKPREF_SHARED", Path(__file__).resolve().parents[2] / "shared")) / "data" / "gp"
#: Interpreter that has torch and gpytorch; never the one of the project.
GPYTORCH_PYTHON = Path(os.environ.get("SKPREF_BOTORCH_PYTHON", "/root/botorch/bin/python"))
#: Sets that are regression, and how many of their splits are run.
SETS = {
    "yacht": 3,
    "boston": 3,
    "energy": 3,
    "concrete": 3,
    "airfoil": 3,
    "wine_red": 3,
    "kin8nm": 1,
    "power": 1,
    "naval": 1,
    "pumadyn32nm": 1,
    "kin40k": 1,
    "protein": 1,
    "nycflights": 1,
    "ukhouse": 1,
}
LEVELS = 0.5, 0.8, 0.95
#: Training rows up to which the exact model is fitted.
MOST_EXACT = 2000
#: Steps of GPyTorch: its bound still rises, by some thousandths of a nat a row in a hundred steps.
GPYTORCH_STEPS = int(os.environ.get("SKPREF_GPYTORCH_STEPS", "1500"))
BATCH = 1000


class Split(NamedTuple):
    """Standardised by the training rows."""

    X: Array
    y: Array
    X_test: Array
    y_test: Array


class Said(NamedTuple):
    """Predictions of new y, nats a row of the bound (nan if unknown), CPU seconds."""

    mean: Array
    variance: Array
    bound: float
    cpu_seconds: float
    log_density: Array | None = None  # of the test targets; None: normal
    inside: tuple[float, ...] | None = None  # share of test targets in the intervals of LEVELS; None: normal


def table(path: Path) -> Array:
    with gzip.open(path, "rt") as file:
        return np.genfromtxt(file, delimiter=",", skip_header=1)


def load(name: str, number: int, n_rows: int | None = None) -> Split:
    """One split of one set, or of a part of its rows."""
    rows = table(DATA / name / "data.csv.gz")
    test = table(DATA / name / "splits.csv.gz").reshape(len(rows), -1)[:, number] == 1.0
    if name == "nycflights":
        rows = np.delete(rows, 8, axis=1)
    if name == "ukhouse":
        rows[:, -1] = np.log(rows[:, -1])
    train, held = rows[~test], rows[test]
    if n_rows is not None:
        rng = np.random.default_rng(number)
        train, held = (rng.permutation(part)[:size] for part, size in ((train, n_rows), (held, n_rows // 2)))
    mean, scale = train.mean(axis=0), train.std(axis=0)
    train, held = ((part - mean) / np.where(scale > 0.0, scale, 1.0) for part in (train, held))
    return Split(train[:, :-1].copy(), train[:, -1].copy(), held[:, :-1].copy(), held[:, -1].copy())


def made(n: int, d: int = 8, seed: int = 0) -> Split:
    """Rows with a smooth function of a few of their features, and noise."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n + 1000, d))
    f = np.sin(1.5 * X[:, 0]) + 0.5 * X[:, 1] * np.cos(X[:, 2]) + 0.3 * X[:, 3]
    y = f + 0.3 * rng.standard_normal(n + 1000)
    y = (y - y.mean()) / y.std()
    return Split(X[:n], y[:n], X[n:], y[n:])


# ------------------------------------------------------------------------------ models
def ours(split: Split, n_inducing: int | str, learn_inducing: bool | str = "auto") -> Said:
    from skpref import SVGPRegressor

    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = SVGPRegressor(inducing=n_inducing, learn_inducing=learn_inducing, random_state=0)
        model.fit(split.X, split.y)
    cpu_seconds = time.process_time() - start
    mean, std = model.predict(split.X_test, return_std=True)
    return Said(mean, std**2, model.lower_bound_ / len(split.y), cpu_seconds)


def ours_held(split: Split, n_inducing: int) -> Said:
    return ours(split, n_inducing, learn_inducing=False)


def ours_default(split: Split, n_inducing: int) -> Said:
    del n_inducing
    return ours(split, "auto")


def ours_student(split: Split, n_inducing: int) -> Said:
    from scipy.stats import t

    from skpref import SVGPRegressor

    del n_inducing
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = SVGPRegressor(likelihood="student-t", random_state=0).fit(split.X, split.y)
    cpu_seconds = time.process_time() - start
    mean, std = model.predict(split.X_test, return_std=True, noise=False)
    noise, freedom = float(model.noise_ or 0.0), model.likelihood_.df
    # f is normal, so y has the mean of the noise's density over f: Gauss-Hermite.
    nodes, weight = np.polynomial.hermite_e.hermegauss(20)
    gap = (split.y_test - mean)[:, None] - std[:, None] * nodes
    weight = weight / weight.sum()
    log_density = np.log(t.pdf(gap, freedom, scale=noise) @ weight)
    rank = t.cdf(gap, freedom, scale=noise) @ weight
    inside = tuple(float(np.mean(np.abs(rank - 0.5) <= 0.5 * level)) for level in LEVELS)
    return Said(mean, np.full(len(mean), np.nan), model.lower_bound_ / len(split.y), cpu_seconds, log_density, inside)


def linear(split: Split, n_inducing: int) -> Said:
    from sklearn.linear_model import BayesianRidge

    del n_inducing
    start = time.process_time()
    model = BayesianRidge().fit(split.X, split.y)
    cpu_seconds = time.process_time() - start
    mean, std = model.predict(split.X_test, return_std=True)
    return Said(mean, std**2, math.nan, cpu_seconds)


def boosting(split: Split, n_inducing: int) -> Said:
    from scipy.stats import t
    from sklearn.ensemble import HistGradientBoostingRegressor

    del n_inducing
    start = time.process_time()
    cut = len(split.y) * 4 // 5
    part = HistGradientBoostingRegressor(random_state=0).fit(split.X[:cut], split.y[:cut])
    residuals = t.fit(split.y[cut:] - part.predict(split.X[cut:]), floc=0.0)
    mean = HistGradientBoostingRegressor(random_state=0).fit(split.X, split.y).predict(split.X_test)
    inside = []
    for level in LEVELS:
        low, high = (
            HistGradientBoostingRegressor(loss="quantile", quantile=0.5 + side * level, random_state=0)
            .fit(split.X, split.y)
            .predict(split.X_test)
            for side in (-0.5, 0.5)
        )
        inside.append(float(np.mean((split.y_test >= low) & (split.y_test <= high))))
    cpu_seconds = time.process_time() - start
    log_density = t.logpdf(split.y_test - mean, *residuals)
    return Said(mean, np.full(len(mean), math.nan), math.nan, cpu_seconds, log_density, tuple(inside))


def exact(split: Split, n_inducing: int) -> Said | None:
    del n_inducing
    n, d = split.X.shape
    if n > MOST_EXACT:
        return None
    kernel = ConstantKernel(1.0, (1e-4, 1e4)) * RBF(np.full(d, d**0.5), (1e-2, 1e4)) + WhiteKernel(0.1, (1e-7, 1e2))
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = GaussianProcessRegressor(kernel).fit(split.X, split.y)
    cpu_seconds = time.process_time() - start
    mean, std = model.predict(split.X_test, return_std=True)
    return Said(mean, std**2, model.log_marginal_likelihood_value_ / n, cpu_seconds)


def ask_gpytorch(split: Split, n_inducing: int, n_steps: int, *, classes: bool = False) -> dict[str, Array]:
    """Run GPyTorch in its environment."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "in.npz"), Path(folder, "out.npz")
        given = {"X": split.X, "y": split.y, "X_test": split.X_test}
        sizes = {"n_inducing": min(n_inducing, len(split.y)), "batch_size": BATCH, "n_steps": n_steps}
        np.savez(source, **given, **sizes, classes=classes)
        script = Path(__file__).with_name("_gpytorch.py")
        subprocess.run([str(GPYTORCH_PYTHON), str(script), str(source), str(target)], check=True)
        with np.load(target) as answer:
            return {name: answer[name] for name in answer.files}


def gpytorch(split: Split, n_inducing: int) -> Said | None:
    if not GPYTORCH_PYTHON.exists():
        return None
    said = ask_gpytorch(split, n_inducing, GPYTORCH_STEPS)
    return Said(said["mean"], said["variance"], float(said["bound"]), float(said["cpu_seconds"]))


MODELS = {
    "linear": linear,
    "boosting": boosting,
    "gpytorch": gpytorch,
    "exact": exact,
    "ours": ours,
    "ours-held": ours_held,
    "ours-default": ours_default,
    "ours-student": ours_student,
}


# ------------------------------------------------------------------------------ scores
def coverage(said: Said, y: Array) -> tuple[float, ...]:
    """Share of targets in the central intervals of LEVELS."""
    if said.inside is not None:
        return said.inside
    half = np.sqrt(said.variance)
    return tuple(
        float(np.mean(np.abs(y - said.mean) <= statistics.NormalDist().inv_cdf(0.5 + 0.5 * level) * half))
        for level in LEVELS
    )


def run(rows: list[dict[str, Any]], name: str, number: int, model: str, options: argparse.Namespace) -> None:
    """Fit and score what the rows have not got."""
    key = {"set": name, "split": number, "model": model, "n_inducing": options.inducing}
    key |= {} if options.rows is None else {"rows": options.rows}
    if any(key.items() <= row.items() and row.get("rows") == options.rows for row in rows):
        return
    split = load(name, number, options.rows)
    said = MODELS[model](split, options.inducing)
    if said is None:
        return
    gap = split.y_test - said.mean
    log_density = said.log_density
    if log_density is None:
        log_density = -0.5 * (np.log(2.0 * np.pi * said.variance) + gap**2 / said.variance)
    row = key | {
        "n": len(split.y),
        "rmse": math.sqrt(float(np.mean(gap**2))),
        "density": -float(np.mean(log_density)),
        "coverage": coverage(said, split.y_test),
        "bound": said.bound,
        "cpu_seconds": said.cpu_seconds,
    }
    rows.append(row)
    print(f"# {name} {number} {model}: {row['rmse']:.4f} {row['density']:.4f} {said.cpu_seconds:.1f} s", flush=True)


def show(rows: list[dict[str, Any]]) -> None:
    """Means over the splits that all models of a set have."""
    print(
        f"\n{'set':12} {'n':>6} {'model':12} {'splits':>6} {'RMSE':>8} {'-log p':>8} {'bound':>8} {'CPU s':>8}"
        "   50 %  80 %  95 %"
    )
    for name, n in sorted({(row["set"], row["n"]) for row in rows}, key=lambda pair: (list(SETS).index(pair[0]), pair)):
        here = [row for row in rows if (row["set"], row["n"]) == (name, n)]
        models = [model for model in MODELS if any(row["model"] == model for row in here)]
        shared = set.intersection(*({r["split"] for r in here if r["model"] == m} for m in models))
        for model in models:
            own = [row for row in here if row["model"] == model and row["split"] in shared]
            if own:
                means = [statistics.fmean(row[k] for row in own) for k in ("rmse", "density", "bound", "cpu_seconds")]
                text = "{:8.4f} {:8.4f} {:8.4f} {:8.1f}".format(*means)
                inside = np.mean([row["coverage"] for row in own if "coverage" in row] or [[math.nan] * 3], axis=0)
                shares = " ".join(f"{100.0 * share:5.1f}" for share in inside)
                print(f"{name:12} {n:6d} {model:12} {len(own):6d} {text}  {shares}")


# ------------------------------------------------------------------------------- speed
def median_seconds(step: Callable[[], None], repeats: int = 15) -> float:
    """CPU seconds of a step; the first third does not count."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        step()
        times.append(time.process_time() - start)
    return statistics.median(times[repeats // 3 :])


def our_step(split: Split, n_inducing: int) -> float:
    """A step of the engine: rows of the batch from the kernel, sites, natural parameters.

    Its share of the bound of an epoch's ten batches, which is worked out once at the end, is counted.
    """
    from skpref.inference import svi
    from skpref.inference.basis import InducingBasis
    from skpref.inference.gaussian import Epoch
    from skpref.inference.scale import FixedScale
    from skpref.inference.terms.inducing import InducingTerm
    from skpref.likelihoods import Gaussian

    d = split.X.shape[1]
    basis = InducingBasis.from_points(ConstantKernel(1.0) * RBF(np.full(d, d**0.5)), split.X[:n_inducing])
    problem = svi.Problem({"f": InducingTerm(basis, split.X)}, Gaussian(10.0), split.y, np.ones(len(split.y)))
    state, index = svi.initial_state(problem, {"f": FixedScale(1.0)}), np.arange(BATCH)

    epoch = Epoch(problem)

    def step() -> None:
        nonlocal state
        state = epoch.step(problem.batch(index), state, 0.1)

    def end() -> None:
        nonlocal state
        state = epoch.step(problem.batch(index), state, 0.1)
        epoch.bound(state)

    alone, with_bound = median_seconds(step), median_seconds(end)
    return alone + (with_bound - alone) * BATCH / len(split.y)


def plain_step(split: Split, n_inducing: int) -> float:
    """The same step in a dozen lines of numpy and scipy, as a yardstick."""
    from scipy.linalg import cholesky, solve_triangular

    d, n = split.X.shape[1], len(split.y)
    scaled, beta, rho = split.X / d**0.5, 10.0, 0.1
    Z = scaled[:n_inducing]

    def cross(A: Array) -> Array:
        return np.exp(A @ Z.T - 0.5 * np.sum(A**2, 1)[:, None] - 0.5 * np.sum(Z**2, 1))

    L = cholesky(cross(Z) + 1e-8 * np.eye(n_inducing), lower=True)
    precision, linear = np.eye(n_inducing), np.zeros(n_inducing)

    def step() -> None:
        nonlocal precision, linear
        phi = solve_triangular(L, cross(scaled[:BATCH]).T, lower=True).T
        c = n / BATCH
        precision = (1 - rho) * precision + rho * (np.eye(n_inducing) + c * beta * phi.T @ phi)
        linear = (1 - rho) * linear + rho * c * beta * phi.T @ split.y[:BATCH]
        half = cholesky(precision, lower=True)
        mean = solve_triangular(half, solve_triangular(half, linear, lower=True), lower=True, trans=1)
        spread = solve_triangular(half, phi.T, lower=True)
        # Mean and variance at the batch, which the bound's estimate needs.
        _ = phi @ mean, np.sum(spread**2, axis=0)

    return median_seconds(step)


def steps() -> None:
    """CPU milliseconds of a natural-gradient step, three ways."""
    split = made(10_000)
    print(f"{'M':>4} {'GPyTorch':>9} {'numpy':>9} {'ours':>9}  ms CPU a step, batch {BATCH}, 8 features")
    for n_inducing in (100, 300, 500):
        theirs = float(ask_gpytorch(split, n_inducing, 0)["step_seconds"]) if GPYTORCH_PYTHON.exists() else math.nan
        times = [theirs, plain_step(split, n_inducing), our_step(split, n_inducing)]
        print(f"{n_inducing:4d} " + " ".join(f"{1e3 * t:9.2f}" for t in times), flush=True)


def full_fit(n: int, n_inducing: int) -> None:
    """Seconds of fits with hyper-parameters, and the memory they need beside the data."""
    ours(made(2000), 50)  # everything compiled and loaded
    split = made(n)
    for held in (True, False):
        before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
        said = ours(split, n_inducing, learn_inducing=False if held else "auto")
        seconds = time.perf_counter() - start
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024.0  # kB on Linux
        rmse = float(np.sqrt(np.mean((said.mean - split.y_test) ** 2)))
        label = "points held " if held else "points moved"
        print(
            f"n={n} M={n_inducing} {label}: {seconds:.1f} s, {said.cpu_seconds:.1f} s CPU, {grown:.0f} MB more, "
            f"RMSE {rmse:.4f}, bound {said.bound:.4f} a row",
            flush=True,
        )


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default=",".join(SETS), help="sets, separated by commas")
    parser.add_argument("--models", default=",".join(MODELS), help="models, separated by commas")
    parser.add_argument("--splits", type=int, help="splits a set; the default differs between sets")
    parser.add_argument("--rows", type=int, help="training rows, drawn from those of a split")
    parser.add_argument("--inducing", type=int, default=300, help="inducing points")
    parser.add_argument("--out", type=Path, help="file that keeps the results")
    parser.add_argument("--table", action="store_true", help="show what is in the file")
    parser.add_argument("--steps", action="store_true", help="time steps")
    parser.add_argument("--fit", type=int, help="time full fits of so many rows")
    parser.add_argument("--threads", type=int, default=1, help="threads of all pools")
    given = parser.parse_args()
    if given.steps or given.fit:
        if given.steps:
            steps()
        if given.fit:
            full_fit(given.fit, given.inducing)
        return
    rows: list[dict[str, Any]] = json.loads(given.out.read_text()) if given.out and given.out.exists() else []
    for name in [] if given.table else given.sets.split(","):
        for number in range(given.splits or SETS[name]):
            for model in given.models.split(","):
                run(rows, name, number, model, given)
                if given.out:
                    given.out.write_text(json.dumps(rows, indent=1) + "\n")
    show(rows)


if __name__ == "__main__":
    main()
