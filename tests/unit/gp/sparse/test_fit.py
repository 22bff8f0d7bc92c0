"""One search of a sparse regression: what caps its iterations and the looks along a line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from skpref.gp.sparse.fit import Run, Slopes, SparseConfig, SparseStart

if TYPE_CHECKING:
    from collections.abc import Callable


def run_of(max_iter: int = 50) -> Run:
    config = SparseConfig("l-bfgs-b", 2, "kmeans++", "auto", None, max_iter, 1e-9)
    kernel = ConstantKernel(1.0, (1e-3, 1e3)) * RBF(1.0, (1e-3, 1e3))
    return Run(config, SparseStart(kernel, 0.1, np.array([[0.0], [1.0]])))


def counted(
    value: Callable[[SparseStart], tuple[Slopes, float]],
) -> tuple[Callable[..., tuple[Slopes, float]], list[SparseStart]]:
    calls: list[SparseStart] = []

    def look(here: SparseStart) -> tuple[Slopes, float]:
        calls.append(here)
        return value(here)

    return look, calls


def valley(here: SparseStart) -> tuple[Slopes, float]:
    """Rosenbrock's function of log amplitude and log length-scale, upside down: two dozen iterations to its top."""
    x, y = here.kernel.theta
    slope = np.array([400.0 * x * (y - x * x) + 2.0 * (1.0 - x), -200.0 * (y - x * x)])
    log_noise = float(np.log(here.noise))
    return Slopes(-100.0 * (y - x * x) ** 2 - (1.0 - x) ** 2 - log_noise**2, slope, -2.0 * log_noise, None), 1.0


def lie(here: SparseStart) -> tuple[Slopes, float]:
    """Promises to rise wherever one goes, and falls."""
    return Slopes(-float(np.sum(here.kernel.theta)), np.ones(2), 0.0, None), 1.0


def test_a_search_that_may_end_early_is_no_failure() -> None:
    look, calls = counted(valley)
    plain = run_of()
    plain.search(look)
    assert plain.converged
    assert np.allclose(plain.end.kernel.theta, 1.0, atol=1e-2)
    all_calls = len(calls)
    look, calls = counted(valley)
    capped = run_of()
    capped.search(look, most=5)
    assert capped.converged
    assert len(calls) < all_calls / 2
    assert max(capped.trace) < max(plain.trace)
    assert valley(capped.end)[0].value == max(capped.trace)


def test_the_parameters_cap_is_a_failure_and_holds_with_another_one_too() -> None:
    for most, converged in ((None, False), (30, True)):
        look, calls = counted(valley)
        run = run_of(max_iter=5)
        run.search(look, most=most)
        assert run.converged is converged
        assert len(calls) <= 15


@pytest.mark.parametrize(("most", "looks"), [(None, 20), (10, 4)])
def test_looks_along_a_line(most: int | None, looks: int) -> None:
    look, calls = counted(lie)
    run = run_of()
    run.search(look, most=most)
    assert len(calls) == 1 + looks
    assert np.all(run.end.kernel.theta == 0.0)
