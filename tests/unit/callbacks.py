"""A callback of scikit-learn's that does nothing: tests overwrite what they want to hear."""

from __future__ import annotations

from typing import Any


class Callback:
    """Hears all of a fit and stops nothing."""

    def setup(self, estimator: Any, context: Any) -> None: ...

    def teardown(self, estimator: Any, context: Any) -> None: ...

    def on_fit_task_begin(self, estimator: Any, context: Any, *, X: Any = None, y: Any = None) -> None: ...

    def on_fit_task_end(self, estimator: Any, context: Any, *, fitted_estimator: Any = None) -> None: ...

    def on_iteration(self, estimator: Any, context: Any, iteration: Any) -> bool:
        return False


class StopAfter(Callback):
    """Stops a fit after some iterations, and counts them."""

    def __init__(self, n: int) -> None:
        self.n, self.steps = n, list[int]()

    def on_iteration(self, estimator: Any, context: Any, iteration: Any) -> bool:
        self.steps.append(iteration.step)
        return bool(iteration.step >= self.n)
