"""No test leaves global state to those after it (tests/global_state.py, fixtures in tests/conftest.py)."""

import os
import random
import sys
import warnings

import numpy as np
import pytest

from tests.global_state import GlobalState, dask_client, restored

pytest_plugins = ["pytester"]


def test_whatever_a_block_changes_is_named_and_restored(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("CHANGED", "1")
    monkeypatch.setenv("REMOVED", "1")
    before = GlobalState.now()
    with restored() as left:
        os.chdir(tmp_path)
        os.environ |= {"CHANGED": "2", "ADDED": "1"}
        del os.environ["REMOVED"]
        random.seed(1)
        np.random.seed(1)  # noqa: NPY002
        mlflow.set_tracking_uri("file:elsewhere")
        mlflow.set_registry_uri("file:elsewhere")
    changed = {"folder", "CHANGED", "ADDED", "REMOVED", "python_random", "numpy_random"}
    assert changed | {"_tracking_uri", "_registry_uri"} <= set(left)
    assert GlobalState.now() == before


def test_a_client_of_dask_is_closed():
    distributed = pytest.importorskip("distributed")
    with restored() as left:
        client = distributed.Client(processes=False, dashboard_address=":0")
        with restored() as within:
            pass
        assert client.status == "running"
    assert (left, within) == (["dask_client"], [])
    assert client.status == "closed"
    assert dask_client() is None


def test_an_error_restores_it_too():
    before = GlobalState.now()
    with pytest.raises(TypeError), restored():
        random.seed([random.random()])
    assert GlobalState.now() == before


LEAKS = """
import os, random, warnings
import pytest

@pytest.fixture(scope="module")
def careless():
    os.environ["OF_A_FIXTURE"] = "1"

def test_first(careless):
    os.environ["OF_A_TEST"] = "1"
    random.seed(1)
    warnings.simplefilter("ignore")

def test_second():
    assert "OF_A_TEST" not in os.environ
    assert os.environ["OF_A_FIXTURE"] == "1"
"""
AFTER = """
import os

def test_third():
    assert "OF_A_FIXTURE" not in os.environ
"""


def test_a_module_that_leaves_state_is_named_as_the_error(pytester):
    from tests import conftest

    pytester.makeini("[pytest]\nmarkers = slow")
    pytester.makeconftest(
        "from tests.conftest import _module_leaves_no_global_state, _restored_global_state  # noqa: F401"
    )
    pytester.makepyfile(test_a_leaks=LEAKS, test_b_after=AFTER)
    filters = list(warnings.filters)
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:xdist")
    result.assert_outcomes(passed=3, errors=1)
    result.stdout.fnmatch_lines(["*test_a_leaks.py leaves global state behind: OF_A_FIXTURE"])
    assert warnings.filters == filters
    assert conftest.__name__ in sys.modules
