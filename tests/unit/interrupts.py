"""Ctrl-C at any moment of a fit is KeyboardInterrupt, searches stop, and a tracked run was killed.

``test_interrupts.py`` runs these tests in a process of their own. An interrupt that falls between the lines in which
Python's ``logging`` takes its lock leaves it taken, and other threads of the process (a client of Dask) wait for ever.
"""

import signal
import time
from contextlib import contextmanager

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from skpref import CrowdGPPL, GibbsM3F, GPOrdinalRegressor, GPPLClassifier, SVGPRegressor, VariationalFM
from skpref.datasets import make_crowd
from skpref.search import OptunaSearch
from skpref.tracking import MLflowCallback

# Fits of tenths of a second that are interrupted twenty times each, at other moments in every run.
pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs setitimer")
N_TIMES = 20
RNG = np.random.default_rng(0)
CROWD = make_crowd(random_state=0)
PAIRS = RNG.permuted(np.tile(np.arange(40), (40_000, 1)), axis=1)[:, :2]
X = RNG.normal(size=(300, 4))
RATINGS = np.column_stack([RNG.integers(0, 60, 2_000), RNG.integers(0, 40, 2_000)])
FITS = {
    "crowd": (CrowdGPPL(n_factors=1, max_iter=5, random_state=0), CROWD.comparisons[:100], CROWD.y[:100]),
    "pairs": (GPPLClassifier(likelihood="logit", tol=1e-10), PAIRS, np.ones(40_000)),
    "levels": (GPOrdinalRegressor(), X[:50], np.digitize(X[:50, 0], [-0.5, 0.5])),
    "rows": (SVGPRegressor(inducing=30, random_state=0), X[:150], X[:150, 0] ** 2),
    "ratings": (
        GibbsM3F(max_iter=20, burn_in=5, duplicates="last", random_state=0),
        RATINGS,
        RNG.integers(1, 6, 2_000),
    ),
    "machine": (VariationalFM(max_iter=50, tol=0.0, random_state=0), X, X[:, 0] * X[:, 1]),
}
each = pytest.mark.parametrize("name", FITS)
# Searches and tracked fits of the fast ones are for every run, the others for the night.
NIGHTLY = {"search": {"levels", "ratings", "rows", "crowd"}, "tracked": {"levels", "ratings", "rows", "crowd", "pairs"}}
each_search, each_tracked = (
    pytest.mark.parametrize(
        "name", [pytest.param(name, marks=pytest.mark.nightly if name in NIGHTLY[way] else ()) for name in FITS]
    )
    for way in ("search", "tracked")
)
quiet = pytest.mark.filterwarnings("ignore::Warning")


@contextmanager
def interrupted_after(seconds):
    """Give a Ctrl-C once some time of the processor has passed, however busy it is."""
    ctrl_c = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it in the background
    before = signal.signal(signal.SIGPROF, lambda *_: signal.raise_signal(signal.SIGINT))
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)
        signal.signal(signal.SIGINT, ctrl_c)


def interrupt(fit, least=N_TIMES // 2):
    """Interrupt at random moments; return how often. Where a try is no KeyboardInterrupt, the fit had ended."""
    took = []
    for _ in range(4):  # the first one compiles, and any may be slow beside other tests
        began = time.process_time()
        fit()
        took.append(time.process_time() - began)
    whole, n_interrupted = min(took), 0
    for share in np.random.default_rng().uniform(0.02, 0.9, N_TIMES):
        began = time.process_time()
        try:
            with interrupted_after(share * whole):
                fit()
        except KeyboardInterrupt:
            n_interrupted += 1
        else:
            whole = min(whole, time.process_time() - began)  # fits are faster than they were beside other tests
    assert n_interrupted >= least
    return n_interrupted


def score(model, rows, y):
    return float(np.mean(model.predict(rows[:5]) == y[:5]))


@quiet
@each
def test_an_interrupt_at_any_moment_is_one(name):
    model, rows, y = FITS[name]
    interrupt(lambda: model.fit(rows, y))


@quiet
@each_search
def test_a_grid_search_stops(name):
    model, rows, y = FITS[name]
    search = GridSearchCV(model, {"verbose": [0, False]}, cv=2, scoring=score)
    interrupt(lambda: search.fit(rows, y))


@quiet
@each_search
def test_an_optuna_search_stops_and_keeps_its_trials(name):
    model, rows, y = FITS[name]
    kept = []

    def fit():
        search = OptunaSearch(model, {"verbose": [0, False]}, n_trials=2, cv=2, scoring=score)
        try:
            search.fit(rows, y)
        except KeyboardInterrupt:
            states = {trial.state.name for trial in search.study_.trials} if hasattr(search, "study_") else set()
            kept.append(hasattr(search, "cv_results_") or not states & {"COMPLETE", "PRUNED"})
            raise

    interrupt(fit)
    assert all(kept)


@quiet
@each_tracked
def test_a_tracked_run_was_killed(name, tmp_path):
    mlflow = pytest.importorskip("mlflow")
    uri = f"sqlite:///{tmp_path / 'runs.db'}"
    model, rows, y = FITS[name]
    model = clone(model).set_callbacks(MLflowCallback("fits", uri, log_model=False, plots=False, spool=tmp_path))
    n_interrupted = interrupt(lambda: model.fit(rows, y), least=2)  # later fits are faster than the first two
    model.fit(rows, y)
    client = mlflow.MlflowClient(uri)
    runs = client.search_runs([client.get_experiment_by_name("fits").experiment_id])
    status = [run.info.status for run in runs]
    assert set(status) <= {"FINISHED", "KILLED"}
    assert status.count("KILLED") <= n_interrupted  # others were interrupted before the run began
    assert status.count("FINISHED") >= 5
