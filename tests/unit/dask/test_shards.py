"""Shards on workers: what is kept there and brought here, and that no worker has more than its share."""

import os
import signal
import threading
from collections import Counter
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skpref.dask.shards import OnDask
from skpref.dask.source import DaskSource
from tests.unit.dask.conftest import running
from tests.unit.dask.lazily import LIMIT, lazy, restore_workers

distributed = pytest.importorskip("distributed")
dask = pytest.importorskip("dask")
pd = pytest.importorskip("pandas")


def twofold(number, power):
    return number, np.arange(3.0) ** power + number


def test_first_results_are_brought_and_second_ones_kept(client):
    shards = OnDask(client)
    brought, kept = shards.keep(twofold, [5, 6], shared=[2])
    assert brought == [5, 6]
    for k, value in zip(brought, shards.collect(np.copy, kept), strict=True):
        assert_array_equal(value, np.arange(3.0) ** 2 + k)
    assert [future.key.split("-")[0] for future in kept] == ["twofold", "twofold"]
    _, again = shards.keep(partial(twofold, power=1), [7, 8])
    assert list(shards.collect(np.dot, kept, again)) == [5 * 7 + 6 * 8 + 9 * 9, 6 * 8 + 7 * 9 + 10 * 10]


def test_no_worker_has_more_than_its_share(remote):
    shards, full = OnDask(remote), min(remote.nthreads())
    with dask.annotate(workers=[full]):
        _, kept = shards.keep(twofold, list(range(6)), shared=[1])
    assert set(remote.who_has(kept).values()) == {(full,)}
    balanced = shards.balanced(kept)
    del kept
    distributed.wait(balanced)
    places = Counter(places[0] for places in remote.who_has(balanced).values())
    assert len(places) == 2
    assert max(places.values()) < 6
    assert [value[0] for value in shards.collect(np.copy, balanced)] == list(range(6))
    again = shards.balanced(balanced)
    assert [value[0] for value in shards.collect(np.copy, again)] == list(range(6))


def next_sites(number, before, file):
    """Return twice the value before, and write down that it was asked for."""
    with file.open("a") as log:
        log.write(f"{number}\n")
    return None, 1.0 if before is None else 2.0 * before


def test_what_is_backed_up_is_not_computed_again_from_the_first_pass_on(processes, remote, tmp_path):
    shards, log, numbers = OnDask(remote), tmp_path / "log", list(range(4))
    kept = [None] * 4
    for n_passes in range(6):
        kept = shards.keep(next_sites, numbers, kept, shared=[log])[1]
        if n_passes == 3:
            kept = shards.backed_up(kept)
    log.write_text("")
    for pid in remote.run(os.getpid).values():
        os.kill(pid, signal.SIGKILL)
    assert list(shards.collect(float, kept)) == [32.0] * 4
    assert Counter(log.read_text().split()) == {str(number): 2 for number in numbers}  # the passes after the copies
    restore_workers(processes, remote)


def added(row, few, many):
    return None, row + few + many[:2]


def test_lost_results_are_computed_again_from_what_arrays_were():
    rows, many = np.arange(8.0).reshape(4, 2), np.ones(20_000)
    with running(processes=False) as cluster, distributed.Client(cluster) as client:
        shards = OnDask(client)
        _, kept = shards.keep(added, list(rows), shared=[rows[0], shards.share(many)])
        rows[...], many[...] = 99.0, 99.0  # as a sampler writes its next state
        cluster.sync(next(iter(cluster.workers.values())).close)  # and takes half of the results with it
        found = [value.tolist() for value in shards.collect(np.copy, kept)]
    assert found == [[k + 1.0, k + 3.0] for k in range(0, 8, 2)]


def summed_up(number, *shared):
    return number + sum(float(np.sum(values)) for values in shared), number


def finished(function):
    """Return a result that may never come: what hangs is left behind."""
    results = []
    thread = threading.Thread(target=lambda: results.append(function()), daemon=True)
    thread.start()
    thread.join(LIMIT)
    assert results, "hangs"
    return results[0]


@pytest.mark.parametrize("sizes", [[20_000], [6_000] * 3], ids=["one is large", "they are large together"])
def test_large_values_reach_every_shard(client, sizes):
    shards, arrays = OnDask(client), [np.full(size, k + 1.0) for k, size in enumerate(sizes)]
    wanted = [sum(size * (k + 1.0) for k, size in enumerate(sizes)) + number for number in (1, 2)]
    for shared in (arrays, list(map(shards.share, arrays))):
        brought, kept = finished(partial(shards.keep, summed_up, [1, 2], shared=shared))
        assert brought == wanted
        assert [first for first, _ in shards.collect(summed_up, kept, shared=shared)] == wanted


def width(X, *_):
    return int(X.shape[1])


def test_tables_have_thousands_of_columns(client):
    names = [f"feature_{k}" for k in range(3000)]
    table = lazy(pd.DataFrame(np.ones((4, 3001)), columns=[*names, "y"]), 3)
    rows = DaskSource(table, "y", None).rows(names, "y", None)
    assert finished(lambda: list(rows.collect(width))) == [3000] * 3
