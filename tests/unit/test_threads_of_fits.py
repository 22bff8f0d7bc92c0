"""Fits to few rows run on one BLAS thread: more would spin on the cores that the next small product wants."""

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import skpref
from tests.unit.callbacks import Callback

_RNG = np.random.default_rng(0)
_X = _RNG.normal(size=(40, 3))
_IDS = np.column_stack([_RNG.integers(4, size=40), (left := _RNG.integers(6, size=40)), (left + 1) % 6])
_RATED = np.column_stack([np.repeat(np.arange(8), 5), np.tile(np.arange(5), 8)])
_LEVELS, _SIDES = np.tile([1, 2, 3, 2], 10), np.tile([0, 1, 1, 0], 10)


class _Threads(Callback):
    """A callback that notes the number of BLAS threads after each iteration."""

    def __init__(self):
        self.seen = set()

    def on_iteration(self, estimator, context, iteration):
        self.seen |= {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}
        return False


@pytest.mark.parametrize(
    ("estimator", "X", "y"),
    [
        (skpref.BayesianGPLVM(n_components=1), _X, None),
        (skpref.CrowdGPPL(), _IDS, _SIDES),
        (skpref.CrowdGPPL(inference="vb"), _IDS, _SIDES),
        (skpref.GPOrdinalRegressor(inference="svi"), _X, _LEVELS),
        (skpref.GPPLClassifier(), _IDS[:, 1:], _SIDES),
        (skpref.GPPLRegressor(), _X, _X[:, 0]),
        (skpref.SVGPClassifier(), _X, _SIDES),
        (skpref.SVGPRegressor(likelihood="student-t"), _X, _X[:, 0]),
        (skpref.GibbsM3F(max_iter=4, burn_in=1), _RATED, _LEVELS),
        (skpref.GibbsIPM3F(max_iter=4, burn_in=1), _RATED, _LEVELS),
        (skpref.VariationalFM(), _X, _X[:, 0]),
        (skpref.VariationalFMClassifier(), _X, _SIDES),
        (skpref.VariationalFMOrdinal(), _X, _LEVELS),
        (skpref.VariationalFMOrdinal(inference="gibbs", max_iter=4, burn_in=1), _X, _LEVELS),
    ],
    ids=lambda value: f"{type(value).__name__}-{getattr(value, 'inference', '')}" if hasattr(value, "fit") else "",
)
@pytest.mark.filterwarnings("ignore")
def test_fits_to_few_rows_take_one_blas_thread(estimator, X, y):
    threads = _Threads()
    if hasattr(estimator, "max_iter"):
        estimator.set_params(max_iter=3)
    with threadpool_limits(2, user_api="blas"):
        before = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
        estimator.set_params(random_state=0).set_callbacks(threads).fit(X, y)
        after = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
    assert threads.seen == {1}
    assert before == after
    assert max(before) > 1
