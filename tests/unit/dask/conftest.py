"""Two clusters for the whole session: one of threads, and one of processes, where it matters that they are some."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tests import global_state

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def running(**options: Any) -> Iterator[Any]:
    distributed = pytest.importorskip("distributed")
    with global_state.restored():  # nannies leave environment variables behind
        started = distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", **options)
    with started:
        yield started


@pytest.fixture(scope="session")
def cluster():
    """Start two workers that are threads of this process, in which everything is compiled already."""
    with running(processes=False) as started:
        yield started


@pytest.fixture(scope="session")
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
