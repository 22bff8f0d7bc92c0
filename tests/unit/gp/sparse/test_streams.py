"""When `partial_fit` of sparse regression learns again, updates sums, and forgets rows; learning is scripted."""

import numpy as np
import pytest

from skpref import SVI, SVGPRegressor
from skpref.exceptions import DataError
from skpref.gp.sparse.targets import TargetScale
from skpref.settings import schedule_of


@pytest.fixture
def log(monkeypatch):
    """What is learnt from: (start of a search, rows), or (rows of an update, sums it adds to)."""
    calls = []

    def learn(self, start, *, streams):
        assert streams
        calls.append((start, self._rows[1].size))
        self.posterior_, self._sums, self._state, self.converged_ = "posterior", None, None, True
        self._rows_until_search, self._by_evidence = self._rows[1].size, False

    def update(self, rows, sums):
        calls.append((rows[1].size, sums))
        self._sums = "sums"
        return self

    monkeypatch.setattr(SVGPRegressor, "_learn", learn)
    monkeypatch.setattr(SVGPRegressor, "_update_posterior", update)
    monkeypatch.setattr(SVGPRegressor, "_warm_start", lambda _, search: search)
    return calls


def stream(model, *sizes):
    for n in sizes:
        model.partial_fit(np.zeros((n, 1)), np.arange(float(n)))
    return model


def test_all_is_learnt_again_whenever_rows_have_doubled_up_to_ten_thousand(log):
    model = stream(SVGPRegressor(), 4000, 3000, 999, 1)
    # The first update after a search is by all rows that are kept, the others by the new ones.
    assert log == [(None, 4000), (7000, None), (999, "sums"), ("compare", 8000)]
    log.clear()
    stream(model, 2000)
    assert model._rows[1].size == 10_000
    stream(model, 1)
    assert model._rows is None
    stream(model, 20_000)
    assert log == [(10_000, None), (1, "sums"), (20_000, "sums")]
    log.clear()
    # More at once than is kept.
    stream(SVGPRegressor(), 6000, 6000, 5)
    assert log == [(None, 6000), (12_000, None), (5, "sums")]


def test_a_window_keeps_the_latest_rows_and_has_no_sums(log):
    model = stream(SVGPRegressor(window=50), 80, 20, 29)
    assert log == [(None, 50), (50, None), (50, None)]
    np.testing.assert_array_equal(model._rows[1], [79.0, *range(20), *range(29)])
    log.clear()
    stream(model, 1)
    assert log == [("compare", 50)]


def test_other_likelihoods_learn_from_all_rows_with_the_kernel_as_it_is(log):
    stream(SVGPRegressor(likelihood="poisson", inducing=np.zeros((1, 1))), 30, 20, 10_000)
    assert log == [(None, 30), ("skip", 50), ("skip", 10_050)]


def test_settings_of_a_fit_are_in_units_of_the_targets():
    scale = TargetScale(5.0, 2.0)
    assert SVGPRegressor()._config(scale, 50).noise is None
    config = SVGPRegressor(noise=3.0, tol=0.02, max_iter=7, optimizer="adam", learn_inducing=False)._config(scale, 50)
    assert config.noise == 1.5**2
    assert (config.tol, config.max_iter, config.optimizer, config.learn_inducing) == (0.02, 7, "adam", False)
    assert SVGPRegressor(noise=1.9e100)._config(scale, 50).noise == pytest.approx(0.95e100**2)
    for noise in (1e-101, 2.1e100):
        with pytest.raises(DataError, match=r"noise=.* is .* standard deviations of y \(2\), and its square"):
            SVGPRegressor(noise=noise)._config(scale, 50)
    schedule = schedule_of(SVGPRegressor(inference=SVI(30, 2.0, 0.7), tol=0.02, max_iter=7), 1000, print)
    assert (schedule.batch_size, schedule.delay, schedule.forgetting_rate) == (30, 2.0, 0.7)
    assert (schedule.tol, schedule.max_iter, schedule.on_iteration) == (0.02, 7, print)
    sizes = [SVGPRegressor(inducing="auto")._config(scale, n) for n in (1, 1500, 1501, 10**6, 10**6 + 1)]
    assert [size.n_inducing for size in sizes] == [1500, 1500, 500, 500, 500]
    assert [size.most_inducing for size in sizes] == [1500, 1500, 1500, 1500, 0]
    few = SVGPRegressor()._config(scale, 10, streams=True), SVGPRegressor(likelihood="poisson")._config(scale, 10)
    assert [(size.n_inducing, size.most_inducing) for size in few] == [(500, 0)] * 2
    for given in (SVGPRegressor(inducing=77), SVGPRegressor(learn_inducing=True)):
        assert given._config(scale, 5000).most_inducing == 0
    assert SVGPRegressor(inducing=77)._config(scale, 10).n_inducing == 77
