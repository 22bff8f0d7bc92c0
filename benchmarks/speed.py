"""Speed of GPPL against its floor: an SVI step, a full pass, and a large fit.

The floor of a step (docs/maths section 4) is |B| M^2 flops for the Gram matrix (syrk), |B| M^2 for the variances (a
triangular solve) and M^3 / 3 for the Cholesky factor, at the dgemm rate that this machine shows in the same run. The
large fit is 1e6 comparisons of 1e5 items with 50 features; its memory is the peak of the process.

Run with one thread: ``OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1 python benchmarks/speed.py``.
"""

from __future__ import annotations

import argparse
import resource
import time
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from threadpoolctl import threadpool_limits

from skpref import GPPLClassifier, Table
from skpref.inference import svi
from skpref.inference.scale import GammaScale
from skpref.inference.terms.pairs import PairTerm
from skpref.likelihoods import PairwiseProbit

if TYPE_CHECKING:
    from collections.abc import Callable


def best(function: Callable[[], object], repeats: int = 7) -> float:
    """Shortest wall time of some calls, in seconds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def dgemm_rate(n: int = 1500) -> float:
    """Flops a second of a product of two n x n matrices."""
    a = np.random.default_rng(0).standard_normal((n, n))
    return 2.0 * n**3 / best(lambda: a @ a)


def step_problem(m: int, n_items: int, n_pairs: int) -> tuple[svi.Problem, svi.State]:
    """A problem of random comparisons and a state in the middle of a fit."""
    rng = np.random.default_rng(0)
    basis = rng.standard_normal((n_items, m)) / np.sqrt(m)
    left = rng.integers(0, n_items, n_pairs)
    right = (left + rng.integers(1, n_items, n_pairs)) % n_items
    y = rng.integers(0, 2, n_pairs).astype(np.float64)
    term = PairTerm(basis, left, right, n_items, residual=np.full(n_pairs, 0.1))
    problem = svi.Problem({"f": term}, PairwiseProbit(), y, np.ones(n_pairs))
    state = svi.initial_state(problem, {"f": GammaScale.prior(2.0, 2.0)})
    state, _ = svi.minibatch_step(problem.batch(np.arange(1000)), state, 0.5)
    return problem, state


def one_step(problem: svi.Problem, state: svi.State, index: np.ndarray) -> None:
    """One mini-batch step, the gathering of its rows included."""
    svi.minibatch_step(problem.batch(index), state, 0.01)


def report_steps(rate: float) -> None:
    """Print time and floor of mini-batch steps and of full passes."""
    print(f"dgemm {rate / 1e9:.1f} GFlop/s")
    print(f"{'M':>5} {'batch':>6} {'step ms':>8} {'floor ms':>9} {'ratio':>6}")
    for m in (100, 300, 500):
        problem, state = step_problem(m, 20_000, 50_000)
        index = np.random.default_rng(1).permutation(50_000)[:1000]
        seconds = best(partial(one_step, problem, state, index), 15)
        floor = (2 * len(index) * m**2 + m**3 / 3) / rate
        print(f"{m:5d} {len(index):6d} {1e3 * seconds:8.2f} {1e3 * floor:9.2f} {seconds / floor:6.2f}")


def report_large(n_pairs: int, n_items: int, n_features: int) -> None:
    """Fit simulated comparisons at size and print time, memory and accuracy."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_items, n_features))
    u = np.sin(X[:, 0]) + 0.5 * X[:, 1] * X[:, 2] + 0.3 * X[:, 3:8].sum(axis=1)
    left = rng.integers(0, n_items, n_pairs)
    right = (left + rng.integers(1, n_items, n_pairs)) % n_items
    y = (rng.standard_normal(n_pairs) < u[left] - u[right]).astype(int)
    pairs = np.column_stack([left, right])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    for inference in ("vb", "svi"):
        model = GPPLClassifier(Table(X), inference=inference, item_effects=False, max_iter=20, random_state=0)
        start, cpu = time.perf_counter(), time.process_time()
        model.fit(pairs, y)
        wall, cpu = time.perf_counter() - start, time.process_time() - cpu
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
        held = model.utility(np.arange(2000))
        r = np.corrcoef(held, u[:2000])[0, 1]
        print(
            f"{inference}: {n_pairs} comparisons of {n_items} items, {n_features} features, M={model.inducing}: "
            f"{wall:.1f} s wall, {cpu:.1f} s CPU, {model.n_iter_} passes, peak {peak:.0f} MB (data {before:.0f} MB), "
            f"correlation with the truth {r:.3f}",
            flush=True,
        )


def main() -> None:
    """Parse arguments and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=1_000_000)
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--features", type=int, default=50)
    parser.add_argument("--skip-large", action="store_true")
    options = parser.parse_args()
    with threadpool_limits(limits=1, user_api="blas"):
        report_steps(dgemm_rate())
    if not options.skip_large:
        report_large(options.pairs, options.items, options.features)


if __name__ == "__main__":
    main()
