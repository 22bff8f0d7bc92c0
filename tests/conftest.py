"""Shared by all tests: thread limits, Hypothesis profiles, and where the reference numbers are."""

import gc
import os

# Before numpy and scipy are imported. One BLAS thread: `pytest -n 2` must not ask for four, and results must not
# depend on the machine. SciPy's array API switch makes one of scikit-learn's estimator checks run instead of skip.
for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")
os.environ.setdefault("SCIPY_ARRAY_API", "1")
# No test draws on a screen.
os.environ.setdefault("MPLBACKEND", "Agg")

from contextlib import contextmanager
from pathlib import Path

import hypothesis
import numpy as np
import pytest
import threadpoolctl

from skpref.factorization.policy import POLICY as FACTORIZATION
from skpref.gp.crowd.policy import POLICY as CROWD
from tests import compile_once, global_state, slow_tests
from tests.examples import FULL
from tests.policies import set_policy

ROOT = Path(__file__).resolve().parents[1]

# No deadline: the first call of a compiled function takes seconds. `default` and `ci` draw the same examples every
# time, so that no change is blamed for a failure that it did not cause. `dev` and `nightly` draw new ones, since every
# seed must pass; a failure prints the blob that repeats it. Tests that ask for another number of examples scale with
# the profile (tests/examples.py).
_default = hypothesis.settings(derandomize=True, deadline=None, max_examples=10, print_blob=True)
hypothesis.settings.register_profile("default", _default)
hypothesis.settings.register_profile("ci", _default, max_examples=FULL // 2)
hypothesis.settings.register_profile("dev", _default, max_examples=FULL, derandomize=False)
hypothesis.settings.register_profile("nightly", _default, max_examples=1000, derandomize=False)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

if "PYTEST_XDIST_WORKER" in os.environ:
    compile_once.install()

# Tests with these fixtures are slow.
SLOW_FIXTURES = {
    "cluster",  # starts two workers, and fits in many rounds
    "processes",  # starts two worker processes, in which everything is compiled or loaded again
    "mlflow_server",  # starts a server of MLflow, which takes ten seconds
}


def pytest_addoption(parser):
    """Add the options that write files of the repository."""
    parser.addoption("--update-messages", action="store_true", help="write tests/unit/bad_inputs/messages.txt")
    parser.addoption("--update-slow", action="store_true", help="measure all tests and write tests/slow.txt")


def pytest_configure(config):
    """Measure tests where that is asked for."""
    if config.getoption("update_slow"):
        if "PYTEST_XDIST_WORKER" in os.environ:
            raise pytest.UsageError("--update-slow measures one test at a time: leave out -n")
        config.pluginmanager.register(slow_tests.Clock())


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Collect no garbage while modules are imported, and never look at their objects again: 700,000, half a second."""
    gc.disable()
    collected = yield
    gc.freeze()
    gc.enable()
    return collected


def pytest_collection_modifyitems(config, items):
    """Mark what is slow by its fixtures, or as measured."""
    if not config.getoption("update_slow"):
        slow_tests.mark(items)
    for item in items:
        if SLOW_FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker("slow")


@pytest.fixture(scope="session", autouse=True)
def _one_blas_thread():
    """Hold BLAS to one thread where it was loaded before this file could say so."""
    with threadpoolctl.threadpool_limits(limits=1, user_api="blas"):
        yield


@pytest.fixture(scope="module", autouse=True)
def _module_leaves_no_global_state(request):
    """Fail after a module whose fixtures leave global state that they changed, and restore it."""
    with global_state.restored() as left:
        yield
    left = [name for name in left if name != "numpy_random"]  # which `random_state=None` uses
    assert not left, f"{request.node.nodeid} leaves global state behind: {', '.join(left)}"


@pytest.fixture(autouse=True)
def _restored_global_state():
    """Restore the global state that a test changes, so that no test depends on those before it."""
    with global_state.restored():
        yield


# What the covariance of a crowd is chosen from, and fewer that are chosen from in one fold, or, of choices, by one fit;
# chains of ratings held out, ten of fifteen sweeps, and two of three.
_crowd = {"candidates": CROWD.candidates[:2], "own_shares": CROWD.own_shares[:1], "length_factors": (1.0,)}
FEW = {
    "factorization": {"forgetting_sweeps": 1, "calibration_sweeps": 2, "least_calibration": 80},
    "gp.crowd": {"held_out": 1, "same": np.inf, **_crowd},
}
USUAL = {
    package: {name: getattr(policy, name) for name in FEW[package]}
    for package, policy in (("factorization", FACTORIZATION), ("gp.crowd", CROWD))
}


@contextmanager
def choosing(policies):
    """Choose covariances of crowds, and calibrate chains, by `FEW` or `USUAL`."""
    with pytest.MonkeyPatch.context() as patch:
        for package, fields in policies.items():
            set_policy(patch, package, **fields)
        yield


@pytest.fixture(scope="session", autouse=True)
def _few_candidates():
    """Shorten fits of `CrowdGPPL` and `GibbsM3F`: choice and calibration matter in a few modules only."""
    with choosing(FEW):
        yield


@pytest.fixture(scope="module")
def all_candidates():
    """Choose and calibrate as for users, in a module whose numbers depend on it."""
    with choosing(USUAL):
        yield


@pytest.fixture(scope="session")
def root():
    """The repository."""
    return ROOT


@pytest.fixture(scope="session")
def shared():
    """The folder of papers' notes, reference posteriors and real data that stands beside the repository."""
    folder = Path(os.environ.get("SKPREF_SHARED") or ROOT.parent / "shared")
    if not folder.is_dir():
        pytest.skip(f"reference numbers and real data are not at {folder}; set SKPREF_SHARED to their folder")
    return folder
