"""Rows in partitions, and what a fit leaves on a cluster."""

import gc
import time

import pytest

LIMIT = 60  # seconds after which a fit hangs


def lazy(table, n=4):
    """Return a table in n partitions, the second of which is empty."""
    frames = pytest.importorskip("dask.dataframe")
    parts = frames.from_pandas(table, npartitions=n - 1)
    empty = frames.from_pandas(table.iloc[:0], npartitions=1)
    return frames.concat([parts.partitions[0], empty, *(parts.partitions[k] for k in range(1, parts.npartitions))])


def tasks(dask_scheduler):
    return {str(key) for key in dask_scheduler.tasks}


def left_on_cluster(client, before):
    """Return the tasks on the scheduler that were not there before."""
    gc.collect()
    for _ in range(100):  # of .1 s: news travel to the scheduler
        if not (left := client.run_on_scheduler(tasks) - before):
            break
        time.sleep(0.1)
    return left


def restore_workers(cluster, client):
    """Wait for two workers after a fault; start them anew if a nanny did not, as happens on a busy machine."""
    cluster.scale(2)
    try:
        client.wait_for_workers(2, timeout=15)
    except TimeoutError:
        cluster.scale(0)
        cluster.scale(2)
        client.wait_for_workers(2, timeout=LIMIT)
