"""A cluster of two worker processes for each module."""

from __future__ import annotations

import pytest

from tests import global_state


@pytest.fixture(scope="module")
def cluster():
    """Start two worker processes."""
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": ":0"}
    # Nannies leave environment variables behind.
    with global_state.restored(), distributed.LocalCluster(**options) as started:
        yield started


@pytest.fixture(scope="module")
def client(cluster):
    distributed = pytest.importorskip("distributed")
    with distributed.Client(cluster) as connected:
        yield connected
