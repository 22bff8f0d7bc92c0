"""`GibbsM3F` and `GibbsIPM3F` on MovieLens-1M: NMAE, all but one, and seconds a sweep beside their floor.

::

    python benchmarks/ratings.py nmae --ratings ml-1m/ratings.csv.gz            # three partitions, C by validation
    python benchmarks/ratings.py nmae --ratings ... --C 0.075 --chains 4        # without a search
    python benchmarks/ratings.py nmae --ratings ... --model ipm3f
    python benchmarks/ratings.py rivals --ratings ... --C 0.075 --rivals PYTHON  # baselines
    python benchmarks/ratings.py rivals --ratings ... --rivals PYTHON --only myfm fm-16-gibbs  # some
    python benchmarks/ratings.py speed --ratings ml-1m/ratings.csv.gz
    python benchmarks/ratings.py speed --ratings ... --model ipm3f --C 0.11 --sweeps 20  # as the features grow
    python benchmarks/ratings.py large                                          # 20 million simulated ratings, K = 50

The ratings are not redistributed: see `_ratings_data`. NMAE is the mean absolute error over 1.6. Weak users are in
training; strong ones are folded in. PYTHON is the interpreter of an environment with myFM and scikit-surprise; these
know no folding in and are trained with the strong users' ratings too. So is `VariationalFMOrdinal`: fm-10 has 10
factors, fm-16-gibbs 16 and a chain, fm-10-implicit also the items that a user has rated as features. Max-margin
factorisation with the smooth hinge (`_ratings_smooth_hinge`), the first baseline of [XZZ13], needs no PYTHON. C is
chosen among the eleven values of [XZZ13] by the error on one rating of each weak user, which joins the training ratings
of the fit that is tested. The floor of a sweep is what BLAS takes, in the same run and with as many threads, for one
`dsyrk` and one `dpotrf` for every row; of `GibbsIPM3F`, for every item and as wide as there are features at the end,
or, lower than that, for one `dpotrf` as wide as the item has ratings if these are fewer. Seconds of CPU are printed
beside wall time: a machine that others use too shows by the difference.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numba
import numpy as np
import pandas as pd
from _ratings_data import CHANCE, Partition, Rated, partitions, simulated
from _ratings_smooth_hinge import predicted as smooth_hinge
from scipy.linalg.blas import dsyrk
from scipy.linalg.lapack import dpotrf
from threadpoolctl import threadpool_limits

from skpref.data.design import OneHotDesign
from skpref.data.ratings import Ratings
from skpref.factorization.fm_ordinal import VariationalFMOrdinal
from skpref.factorization.ipm3f import GibbsIPM3F
from skpref.factorization.m3f import GibbsM3F
from skpref.factorization.max_margin import ipm3f_chain as ipm3f_fit
from skpref.factorization.max_margin.m3f_chain import MarginPrior, MarginProblem, problem_of, start_state, step_of

if TYPE_CHECKING:
    from collections.abc import Callable

SHARED = Path(os.environ.get("SKPREF_SHARED") or Path(__file__).resolve().parents[2] / "shared")
GRID = 0.1 ** np.linspace(0.75, 2.0, 11)
RULES = ("scores", "median", "average", "last")
LEVELS = [1, 2, 3, 4, 5]
RIVALS = ("medians", "smooth-hinge", "myfm", "surprise", "m3f", "fm-10", "fm-20", "fm-16-gibbs")


def estimator(kind: str, **params: Any) -> GibbsM3F | GibbsIPM3F:  # noqa: ANN401
    """One of the two, with the paper's prior of the factors."""
    if kind == "m3f":
        return GibbsM3F(**params)
    return GibbsIPM3F(sigma=1.0, **{name: value for name, value in params.items() if name != "dtype"})


def nmae(model: GibbsM3F | GibbsIPM3F, rated: Rated) -> float:
    """Error of a model."""
    return -model.score(rated.X, rated.y) / CHANCE


def chosen(kind: str, part: Partition, params: dict[str, Any], grid: list[float]) -> float:
    """C with the least error on the validation ratings of weak users."""
    if len(grid) == 1:
        return grid[0]
    errors = {}
    for C in grid:
        model = estimator(kind, C=C, **params).fit(part.weak_train.X, part.weak_train.y)
        errors[C] = nmae(model, part.weak_valid)
        print(f"    C {C:.4f}  validation {errors[C]:.4f}", flush=True)
    return min(errors, key=lambda C: errors[C])


def run_nmae(args: argparse.Namespace) -> None:
    params = {
        "max_iter": args.sweeps,
        "burn_in": args.burn_in,
        "n_chains": args.chains,
        "dtype": args.dtype,
        "levels": LEVELS,
        "threshold_means": None if args.learn_thresholds else "symmetric",
        "random_state": args.seed,
    }
    grid = [args.C] if args.C else [float(C) for C in args.grid.split(",")] if args.grid else GRID.tolist()
    found: dict[tuple[str, str], list[float]] = {}
    for part in partitions(args.ratings, SHARED / "data/movielens/splits")[: args.partitions]:
        search = {**params, "n_chains": 1}
        C = chosen(args.model, part, search, grid)
        start = time.perf_counter()
        weak, strong = part.final("weak"), part.final("strong")
        model = estimator(args.model, C=C, **params).fit(weak.X, weak.y)
        seconds = time.perf_counter() - start
        start = time.perf_counter()
        known = np.isin(strong.X[:, 1], model.item_ids_)
        model.fold_in(strong.X[known], strong.y[known])
        folding = time.perf_counter() - start
        factors = "" if args.model == "m3f" else f"K {model.n_factors_[:, -1].mean():.0f}, "
        line = [
            f"{part.name}: {factors}C {C:.4f}, fit {seconds:.0f} s, fold-in {folding:.1f} s, R-hat {model.r_hat_:.2f}"
        ]
        for rule in RULES:
            model.set_params(prediction=rule)
            for group in ("weak", "strong"):
                error = nmae(model, getattr(part, f"{group}_test"))
                found.setdefault((rule, group), []).append(error)
                line.append(f"{rule} {group} {error:.4f}")
        print(", ".join(line), flush=True)
    for (rule, group), errors in found.items():
        print(f"mean {rule:8} {group:7} {statistics.mean(errors):.4f}")


def medians(train: Rated, X: Any) -> Any:  # noqa: ANN401 - levels of pairs
    """Mean of the user's and the item's median, rounded."""
    found = []
    for column in (0, 1):
        table = pd.Series(train.y).groupby(train.X[:, column]).median()
        found.append(table.reindex(X[:, column]).fillna(np.median(train.y)).to_numpy())
    return np.rint(np.mean(found, axis=0))


def rival(python: str, kind: str, train: Rated, X: Any) -> tuple[Any, float]:  # noqa: ANN401
    """Levels that another package predicts, and its CPU seconds."""
    with tempfile.TemporaryDirectory() as folder:
        data, out = Path(folder, "data.npz"), Path(folder, "out.npz")
        np.savez(data, X=train.X, y=train.y, X_test=X)
        script = Path(__file__).with_name("_ratings_rivals.py")
        subprocess.run([python, str(script), str(data), str(out), kind], check=True, stdout=subprocess.DEVNULL)
        with np.load(out) as found:
            return found["predicted"], float(found["seconds"])


def machine_levels(name: str, train: Rated, X: Any) -> tuple[Any, float]:  # noqa: ANN401
    """Median levels of an ordinal factorization machine, such as fm-10-implicit, and its CPU seconds."""
    _, n_factors, *options = name.split("-")
    design = OneHotDesign(implicit="implicit" in options).fit(train.X)
    rows, held_out = design.transform(train.X), design.transform(X)
    start = time.process_time()
    inference = "gibbs" if "gibbs" in options else "variational"
    model = VariationalFMOrdinal(int(n_factors), groups=design.groups_, inference=inference, random_state=0)
    model.fit(rows, train.y)
    return model.predict(held_out, loss="absolute"), time.process_time() - start


def m3f_levels(weak: Rated, strong: Rated, X: Any, args: argparse.Namespace) -> tuple[Any, float]:  # noqa: ANN401
    """Levels of `GibbsM3F` that folds strong users in, and its CPU seconds."""
    start = time.process_time()
    model = GibbsM3F(C=args.C or 0.075, max_iter=args.sweeps, n_chains=args.chains, levels=LEVELS, random_state=0)
    model.fit(weak.X, weak.y)
    known = np.isin(strong.X[:, 1], model.item_ids_)
    model.fold_in(strong.X[known], strong.y[known])
    return model.predict(X), time.process_time() - start


def smooth_hinge_levels(part: Partition, n_factors: int) -> tuple[Any, float]:
    """Levels of the first baseline of [XZZ13], and its CPU seconds."""
    start = time.process_time()
    level, C = smooth_hinge(part, GRID.tolist(), n_factors)
    print(f"{part.name} smooth hinge has C {C:.4f}")
    return level, time.process_time() - start


def run_rivals(args: argparse.Namespace) -> None:
    errors: dict[str, list[Any]] = {}
    for part in partitions(args.ratings, SHARED / "data/movielens/splits")[: args.partitions]:
        weak, strong = part.final("weak"), part.final("strong")
        tests = {"weak": part.weak_test, "strong": part.strong_test}
        train = Rated(np.vstack([weak.X, strong.X]), np.concatenate([weak.y, strong.y]))
        X = np.vstack([test.X for test in tests.values()])
        for name in args.only or RIVALS:
            if name in {"myfm", "surprise"}:
                level, seconds = rival(args.rivals, name, train, X)
            elif name == "medians":
                level, seconds = medians(train, X), 0.0
            elif name == "smooth-hinge":
                level, seconds = smooth_hinge_levels(part, args.factors)
            elif name == "m3f":
                level, seconds = m3f_levels(weak, strong, X, args)
            else:
                level, seconds = machine_levels(name, train, X)
            parts = np.split(level, [part.weak_test.y.size])
            error = [np.abs(guess - test.y).mean() / CHANCE for guess, test in zip(parts, tests.values(), strict=True)]
            errors.setdefault(name, []).append([*error, seconds])
            print(f"{part.name} {name:24} weak {error[0]:.4f} strong {error[1]:.4f}, {seconds:.0f} s CPU", flush=True)
    for name, rows in errors.items():
        weak_error, strong_error, seconds = np.mean(rows, axis=0)
        print(f"mean {name:24} weak {weak_error:.4f} strong {strong_error:.4f}, {seconds:.0f} s CPU")


def numbered(rated: Rated) -> tuple[Ratings, MarginPrior]:
    """All users and items numbered, and the prior of the paper."""
    (users, user), (items, item) = (np.unique(column, return_inverse=True) for column in rated.X.T)
    ratings = Ratings(user, item, rated.y - 1, np.ones(user.size), users.size, items.size, 5).merged()
    rho = 27.0 * (np.arange(1.0, 5.0) - 2.5)
    return ratings, MarginPrior(1.0, rho, 13.5, own=True)


def problem(rated: Rated, n_factors: int, dtype: str) -> MarginProblem:
    """The sampler's problem."""
    ratings, prior = numbered(rated)
    return problem_of(ratings, 0.0562, prior, n_factors, 9.0, np.dtype(dtype))


class Timed(NamedTuple):
    """What something took."""

    wall: float
    cpu: float

    def __str__(self) -> str:
        return f"{self.wall:.2f} s ({self.cpu:.2f} s of CPU)"


def timed(work: Callable[..., Any], *args: Any) -> tuple[Any, Timed]:  # noqa: ANN401 - whatever it takes
    """A result, and what it took."""
    wall, cpu = time.perf_counter(), time.process_time()
    found = work(*args)
    return found, Timed(time.perf_counter() - wall, time.process_time() - cpu)


def ipm3f_seconds(rated: Rated, C: float, n: int) -> None:
    """Print time and features as a chain of the nonparametric model finds them."""
    ratings, prior = numbered(rated)
    given = ipm3f_fit.problem_of(ratings, C, prior, 9.0, 3.0, 10)
    state, step = ipm3f_fit.start_state(given, 0), ipm3f_fit.step_of(given)
    for sweep in range(1, n + 1):
        (state, _), took = timed(step, state, sweep)
        K, held = state["feature"].size, state["users"].sum() / given.n_users
        print(f"sweep {sweep}: K {K}, {held:.1f} a user, {took}, load {os.getloadavg()[0]:.1f}", flush=True)
    lengths = np.diff(given.items.start)
    print(f"floor of a dense pass over items: {floor_seconds(lengths, K)}", flush=True)
    print(f"floor of its Cholesky factors alone, no wider than ratings: {floor_seconds(lengths, K, gram=False)}")


def sweep_seconds(given: MarginProblem, n: int) -> list[Timed]:
    """What some sweeps take after a first one."""
    state, step, seconds = start_state(given, 0), step_of(given), []
    for sweep in range(n + 1):
        (state, _), took = timed(step, state, sweep + 1)
        seconds.append(took)
    return seconds[1:]


def floor_seconds(lengths: Any, width: int, *, gram: bool = True) -> Timed:  # noqa: ANN401 - an array
    """What one dsyrk and one dpotrf a row take, in threads; without the former, dpotrf is no wider than ratings."""
    lengths = lengths[np.random.default_rng(0).permutation(lengths.size)]
    pool = np.asfortranarray(np.random.default_rng(0).standard_normal((width, max(int(lengths.max()), 1))))
    ready = np.asfortranarray(pool @ pool.T + np.eye(width))

    def some(part: Any) -> None:  # noqa: ANN401 - an array of lengths
        for n in part:
            if gram:
                product = dsyrk(1.0, pool[:, : max(n, 1)])
                product[np.diag_indices(width)] += 1.0
                dpotrf(product, overwrite_a=1)
            elif n:
                dpotrf(ready[:n, :n])

    parts = np.array_split(lengths, 64)
    with threadpool_limits(1), ThreadPoolExecutor(numba.get_num_threads()) as threads:
        return timed(lambda: list(threads.map(some, parts)))[1]


def run_speed(args: argparse.Namespace) -> None:
    table = pd.read_csv(args.ratings).to_numpy(dtype=np.int64)
    rated = Rated(table[:, :2], table[:, 2])
    print(f"{numba.get_num_threads()} threads, load {os.getloadavg()[0]:.1f}")
    if args.model == "ipm3f":
        ipm3f_seconds(rated, args.C or 0.1, args.sweeps)
    for dtype in ("float64", "float32") if args.model == "m3f" else ():
        given = problem(rated, args.factors, dtype)
        took = sweep_seconds(given, args.sweeps)
        floor = floor_seconds(
            np.concatenate([np.diff(side.start) for side in (given.users, given.items)]), args.factors
        )
        median = statistics.median(part.cpu for part in took)
        print(
            f"{dtype}: K {args.factors}, {min(took)} a sweep, median {median:.2f} s of CPU; floor {floor}", flush=True
        )
    print(
        f"load {os.getloadavg()[0]:.1f}, peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB"
    )


def run_large(args: argparse.Namespace) -> None:
    for n_ratings in (args.size // 4, args.size // 2, args.size):
        share = n_ratings / args.size
        rated = simulated(n_ratings, int(138_000 * share), int(27_000 * share), 10)
        took = min(sweep_seconds(problem(rated, args.factors, args.dtype), args.sweeps), key=lambda part: part.cpu)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        each = took.cpu / rated.y.size * 1e6
        print(
            f"{rated.y.size} ratings: {took} a sweep, {each:.3f} s of CPU a million ratings; {memory:.1f} GB",
            flush=True,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["nmae", "rivals", "speed", "large"])
    parser.add_argument("--ratings", type=Path)
    parser.add_argument("--model", choices=["m3f", "ipm3f"], default="m3f")
    parser.add_argument("--C", type=float)
    parser.add_argument("--learn-thresholds", action="store_true", help="nmae: with the default prior of thresholds")
    parser.add_argument("--grid", help="values of C instead of the eleven, with commas")
    parser.add_argument("--rivals", help="interpreter with myFM and scikit-surprise")
    parser.add_argument("--only", nargs="+", metavar="NAME", help=f"rivals only: some of {', '.join(RIVALS)}")
    parser.add_argument("--sweeps", type=int, default=50)
    parser.add_argument("--burn-in", type=int, default=10)
    parser.add_argument("--chains", type=int, default=1)
    parser.add_argument("--partitions", type=int, default=3)
    parser.add_argument("--factors", type=int, default=100)
    parser.add_argument("--size", type=int, default=20_000_000)
    parser.add_argument("--dtype", default="float64")
    parser.add_argument("--seed", type=int, default=0)
    given_args = parser.parse_args()
    {"nmae": run_nmae, "rivals": run_rivals, "speed": run_speed, "large": run_large}[given_args.what](given_args)
