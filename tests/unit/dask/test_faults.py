"""What happens to a cluster while a fit runs: workers die, come, go or stop for a while; the bits stay the same."""

from __future__ import annotations

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from numpy.testing import assert_array_equal

from skpref import (
    Checkpoint,
    CrowdGPPL,
    GibbsM3F,
    GPPLClassifier,
    VariationalFM,
    VariationalFMClassifier,
    VariationalFMOrdinal,
)
from skpref.dask.shards import OnDask
from skpref.factorization.max_margin import calibration
from skpref.factorization.policy import POLICY
from skpref.gp.crowd import fit_hierarchy, sharded
from skpref.gp.crowd.fit_hierarchy import Regularisation
from skpref.inference.passes import Passes
from tests.unit.dask import test_classifier, test_crowd, test_machine, test_ratings
from tests.unit.dask.test_regressor import lazy
from tests.unit.factorization.machine import test_files
from tests.unit.factorization.max_margin import test_sharded

distributed = pytest.importorskip("distributed")
LIMIT = 60  # seconds after which a fit hangs
PAIRS, CROWD = test_classifier.rows(), test_crowd.rows()
FILMS, LEVELS, STARS = test_machine.FRAME, test_machine.LEVELS, test_ratings.FRAME
IDS = ["user", "item"]


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr("skpref.gp.pairwise.fit._JOINT_SIZE", 0)
    monkeypatch.setattr("skpref.inference.shards._FEW_ROWS", 0)
    for module in (fit_hierarchy, sharded):
        monkeypatch.setattr(module, "MAX_CHOICE", 100)
    chosen = (Regularisation(0.3, 1.0, 0.5),)
    monkeypatch.setattr(fit_hierarchy, "_regularise", lambda _, isotropic, *__: (chosen, [isotropic.state.S]))
    # Two tenths of the ratings are held out instead of all ten.
    few = replace(POLICY, forgetting_sweeps=1, calibration_sweeps=2, least_calibration=80)
    monkeypatch.setattr(calibration, "POLICY", few)


def pairs(**options: Any) -> list[Any]:
    model = GPPLClassifier(tol=0.1, **options).fit(lazy(4, PAIRS)[["left", "right", "y"]])
    return [model.lower_bounds_, model.utility()]


def crowd(**options: Any) -> list[Any]:
    model = CrowdGPPL(tol=10.0, random_state=0, **options).fit(lazy(4, CROWD)[["user", "left", "right", "y"]])
    return [model.lower_bounds_, model.utility(), model.posterior_.tau]


def ratings() -> list[Any]:
    return test_sharded.numbers(GibbsM3F(**test_ratings.FAST).fit(lazy(4, STARS)[[*IDS, "y"]]))


def machine() -> list[Any]:
    return test_files.numbers(VariationalFM(**test_machine.FAST).fit(lazy(4, FILMS)[[*IDS, "y"]]))


def classifier() -> list[Any]:
    model = VariationalFMClassifier(**test_machine.FAST)
    return test_files.numbers(model.fit(lazy(4, FILMS)[[*IDS, "side"]], "side"))


def ordinal() -> list[Any]:
    model = VariationalFMOrdinal(**test_machine.FAST)
    return test_files.numbers(model.fit(lazy(4, LEVELS)[[*IDS, "stars"]], "stars"))


def pids(client: Any) -> list[int]:
    return sorted(client.run(os.getpid).values())


def kill(_: Any, client: Any, number: int) -> None:
    """Kill a worker, which the nanny replaces."""
    if number == 9:
        os.kill(pids(client)[0], signal.SIGKILL)


def resize(cluster: Any, _: Any, number: int) -> None:
    """Have three workers, then one."""
    if number in {5, 10}:
        cluster.scale(3 if number == 5 else 1)


def pause(_: Any, client: Any, number: int) -> None:
    """Stop a worker for two seconds, as a machine does that swaps."""
    if number == 9:
        pid = pids(client)[0]
        os.kill(pid, signal.SIGSTOP)
        threading.Timer(2.0, os.kill, (pid, signal.SIGCONT)).start()


# The other families have tests of their own of a worker that dies.
CASES = [(kill, classifier), (kill, ordinal), (pause, pairs), (pause, ratings), (pause, machine)]
CASES += [(resize, fit) for fit in (pairs, crowd, ratings, machine, ordinal)]


@pytest.mark.parametrize(("fault", "fit"), CASES, ids=[f"{fault.__name__} {fit.__name__}" for fault, fit in CASES])
def test_a_fit_ends_with_the_same_bits(fault: Any, fit: Any, cluster, client, monkeypatch) -> None:
    wanted, rounds = fit(), []
    collect, keep = OnDask.collect, OnDask.keep

    def counted(method: Any) -> Any:
        def run(self: Any, *args: Any, **options: Any) -> Any:
            rounds.append(1)
            fault(cluster, client, len(rounds))
            return method(self, *args, **options)

        return run

    monkeypatch.setattr(OnDask, "collect", counted(collect))
    monkeypatch.setattr(OnDask, "keep", counted(keep))
    try:
        with ThreadPoolExecutor(1) as threads:
            found = threads.submit(fit).result(LIMIT)
    finally:
        cluster.scale(2)
        client.wait_for_workers(2, timeout=LIMIT)
    assert len(rounds) > 10
    for a, b in zip(found, wanted, strict=True):
        assert_array_equal(a, b)


class StopError(Exception):
    pass


@pytest.mark.usefixtures("client")
@pytest.mark.parametrize("fit", [pairs, crowd])
def test_a_client_that_died_resumes_from_its_checkpoint_to_the_same_bits(fit, monkeypatch, tmp_path) -> None:
    wanted = fit(random_state=0) if fit is pairs else fit()
    options = {"checkpoint": Checkpoint(tmp_path / "run", 0.0)}
    options |= {"random_state": 0} if fit is pairs else {}
    write, resume = Passes.write, Passes.resumed

    def fragile(self: Any, bounds: Any, arrays: Any) -> None:
        write(self, bounds, arrays)
        if self._checkpoint is not None and len(bounds) == 2:
            raise StopError

    with monkeypatch.context() as patch:
        patch.setattr(Passes, "write", fragile)
        with pytest.raises(StopError):
            fit(**options)
    assert (tmp_path / "run").exists()
    found_passes = []

    def told(self: Any) -> Any:
        saved = resume(self)
        found_passes.append(0 if saved is None else len(saved[1]))
        return saved

    monkeypatch.setattr(Passes, "resumed", told)
    found = fit(**options)
    assert not (tmp_path / "run").exists()
    assert max(found_passes) == 2  # which are not repeated
    for a, b in zip(found, wanted, strict=True):
        assert_array_equal(a, b)
