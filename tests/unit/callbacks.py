"""A callback of scikit-learn's that does nothing: tests overwrite what they want to hear."""


class Callback:
    """Hears all of a fit and stops nothing."""

    def setup(self, estimator, context): ...

    def teardown(self, estimator, context): ...

    def on_fit_task_begin(self, estimator, context, *, X=None, y=None): ...

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None): ...

    def on_iteration(self, estimator, context, iteration):
        return False


class StopAfter(Callback):
    """Stops a fit after some iterations, and counts them."""

    def __init__(self, n):
        self.n, self.steps = n, list[int]()

    def on_iteration(self, estimator, context, iteration):
        self.steps.append(iteration.step)
        return bool(iteration.step >= self.n)
