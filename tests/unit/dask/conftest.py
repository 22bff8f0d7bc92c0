"""Two clusters: one of threads for the session, and one of processes for the modules that need some."""

from contextlib import contextmanager

import pytest

from tests import global_state

# Clusters that wait: with Dask's own intervals (2 to 500 ms, and a profile every 10 ms), the two of a session take a
# fifth of a core until its end.
QUIET = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "10s",
}


@contextmanager
def running(**options):
    distributed = pytest.importorskip("distributed")
    with global_state.restored(), pytest.importorskip("dask").config.set(QUIET):  # nannies leave variables behind
        started = distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", **options)
    with started:
        yield started


@pytest.fixture(scope="session")
def cluster():
    """Start two workers that are threads of this process, in which everything is compiled already."""
    with running(processes=False) as started:
        yield started


@pytest.fixture(scope="module")
def processes():
    """Start two workers that are processes, to which everything travels, and which can be killed."""
    with running(processes=True) as started:
        yield started


@pytest.fixture
def client(cluster):
    with pytest.importorskip("distributed").Client(cluster) as connected:
        yield connected


@pytest.fixture
def remote(processes):
    with pytest.importorskip("distributed").Client(processes) as connected:
        yield connected
