"""What happens to a cluster while a fit runs: workers die, come, go or stop for a while; the bits stay the same."""

import os
import pickle
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone

import skpref
from skpref import (
    Checkpoint,
    CrowdGPPL,
    GibbsM3F,
    GPPLClassifier,
    GPPLRegressor,
    SVGPClassifier,
    SVGPRegressor,
    VariationalFM,
    VariationalFMOrdinal,
)
from skpref.dask.shards import OnDask
from skpref.gp.crowd import fit_hierarchy
from skpref.gp.crowd.fit_hierarchy import Regularisation
from skpref.inference.passes import Passes
from tests.policies import set_policy
from tests.unit.dask import test_classifier, test_crowd, test_group_regressor, test_machine, test_ratings
from tests.unit.dask.lazily import LIMIT, lazy, left_on_cluster, restore_workers, tasks
from tests.unit.factorization.machine import test_files
from tests.unit.factorization.max_margin import test_sharded
from tests.unit.gp.sparse import test_class_sums, test_sums

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # a round costs 30 ms


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    set_policy(monkeypatch, "gp.pairwise", joint_size=0)
    set_policy(monkeypatch, "inference", brought_rows=0)
    set_policy(monkeypatch, "gp.crowd", most_choice=100, backup=2)
    chosen = (Regularisation(0.3, 1.0, 0.5),)
    monkeypatch.setattr(fit_hierarchy, "_regularise", lambda _, isotropic, *__: (chosen, [isotropic.state.S]))
    set_policy(monkeypatch, "gp.sparse", sample_rows=100)
    set_policy(monkeypatch, "gp.pairwise", all_rows=40, most_rounds=2)


def of_pairs(model):
    return [model.lower_bounds_, model.utility()]


def of_sparse(model):
    rows = test_class_sums.X if isinstance(model, SVGPClassifier) else test_sums.X
    return [model.predict_proba(rows) if isinstance(model, SVGPClassifier) else model.predict(rows)]


class Family(NamedTuple):
    """A model, what it is fitted to, and the numbers that must be the same."""

    model: Any
    rows: Any
    numbers: Callable[[Any], list[Any]]
    y: str = "y"
    options: Any = MappingProxyType({})
    at: int = 14  # the round in which something happens

    def fit(self, model=None, **parameters):
        model = clone(self.model).set_params(**parameters) if model is None else model
        rows = test_group_regressor.lazy() if "qid" in self.options else lazy(self.rows)
        return self.numbers(model.fit(rows, self.y, **self.options))


IDS, MACHINE = ["user", "item"], test_machine.FAST
TIMES = {"sample_weight": "times"}
FAMILIES = {
    "pairs": Family(
        GPPLClassifier(tol=0.1, random_state=0), test_classifier.rows()[["left", "right", "y"]], numbers=of_pairs
    ),
    "crowd": Family(
        CrowdGPPL(tol=10.0, random_state=0),
        test_crowd.rows()[["user", "left", "right", "y"]],
        lambda model: [*of_pairs(model), model.utility(users=test_crowd.USERS), model.posterior_.tau],
    ),
    "ratings": Family(GibbsM3F(**test_ratings.FAST), test_ratings.FRAME[[*IDS, "y"]], test_sharded.numbers),
    "machine": Family(VariationalFM(**MACHINE), test_machine.FRAME[[*IDS, "price", "y"]], test_files.numbers),
    "levels": Family(
        VariationalFMOrdinal(**MACHINE), test_machine.LEVELS[[*IDS, "stars"]], test_files.numbers, "stars"
    ),
    "sparse": Family(SVGPRegressor(inducing=20, random_state=0), test_sums.TABLE, of_sparse, "price", TIMES, at=2),
    "sparse classes": Family(
        SVGPClassifier(**test_class_sums.LEARNT), test_class_sums.TABLE[["a", "b", "side"]], of_sparse, "side", at=4
    ),
    "grades": Family(
        GPPLRegressor(**test_group_regressor.FIXED, max_iter=5),
        None,
        lambda model: [model.predict(test_group_regressor.X)],
        "grade",
        TIMES | {"qid": "query"},
    ),
}


def pids(client):
    return sorted(client.run(os.getpid).values())


def kill(_, client, number, at):
    """Kill a worker, which the nanny replaces."""
    if number == at:
        os.kill(pids(client)[0], signal.SIGKILL)


def leave(cluster, _, number, at):
    """Have one worker from now on."""
    if number == at:
        cluster.scale(1)


def pause(_, client, number, at):
    """Stop a worker for two seconds, as a machine does that swaps."""
    if number == at:
        pid = pids(client)[0]
        os.kill(pid, signal.SIGSTOP)
        threading.Timer(2.0, os.kill, (pid, signal.SIGCONT)).start()


# A worker that leaves takes nothing with it that one that dies does not.
CASES = [(kill, name) for name in FAMILIES if name != "machine"]  # levels do what numbers do
CASES += [(pause, "pairs"), (leave, "ratings")]


@pytest.mark.parametrize(("fault", "family"), CASES, ids=[f"{fault.__name__} {family}" for fault, family in CASES])
def test_a_fit_on_processes_ends_with_the_same_bits(fault, family, processes, remote, monkeypatch):
    case, rounds = FAMILIES[family], []
    wanted = case.fit()
    collect, keep = OnDask.collect, OnDask.keep

    def counted(method):
        def run(self, *args, **options):
            rounds.append(1)
            fault(processes, remote, len(rounds), case.at)
            return method(self, *args, **options)

        return run

    monkeypatch.setattr(OnDask, "collect", counted(collect))
    monkeypatch.setattr(OnDask, "keep", counted(keep))
    try:
        with ThreadPoolExecutor(1) as threads:
            found = threads.submit(case.fit).result(LIMIT)
    finally:
        restore_workers(processes, remote)
    assert len(rounds) > case.at  # something had happened
    for a, b in zip(found, wanted, strict=True):
        assert_array_equal(a, b)


@pytest.mark.usefixtures("client")
@pytest.mark.parametrize("family", FAMILIES)
def test_models_are_ordinary_ones_and_are_saved(family, tmp_path):
    case = FAMILIES[family]
    wanted = case.fit(model := clone(case.model))
    skpref.save(model, tmp_path / "model.skpref")
    for other in (skpref.load(tmp_path / "model.skpref"), pickle.loads(pickle.dumps(model))):
        for a, b in zip(case.numbers(other), wanted, strict=True):
            assert_array_equal(a, b)


@pytest.mark.parametrize("family", ["pairs", "crowd", "ratings", "machine"])
def test_an_interrupted_fit_leaves_the_earlier_one_and_the_cluster_as_they_were(family, client, monkeypatch):
    case = FAMILIES[family]
    before = client.run_on_scheduler(tasks)  # errors of other tests may refer to futures
    model = clone(case.model)
    wanted, rounds = case.fit(model), []

    def interrupted(method):
        def run(self, *args, **options):
            rounds.append(method(self, *args, **options))  # still running
            if len(rounds) == 10:
                raise KeyboardInterrupt
            return rounds[-1]

        return run

    with monkeypatch.context() as patch:
        for name in ("collect", "keep"):
            patch.setattr(OnDask, name, interrupted(getattr(OnDask, name)))
        with pytest.raises(KeyboardInterrupt):
            case._replace(rows=case.rows[::-1].reset_index(drop=True)).fit(model)
    for a, b in zip(case.numbers(model), wanted, strict=True):
        assert_array_equal(a, b)
    rounds.clear()
    assert left_on_cluster(client, before) == set()


@pytest.mark.usefixtures("client")
@pytest.mark.parametrize("family", ["pairs", "machine"])
def test_two_fits_at_once(family):
    case = FAMILIES[family]
    cases = [case, case if case.rows is None else case._replace(rows=case.rows[::-1].reset_index(drop=True))]
    with ThreadPoolExecutor(2) as threads:
        running = [threads.submit(case.fit) for case in cases]
        for run, alone in zip(running, cases, strict=True):
            for a, b in zip(run.result(LIMIT), alone.fit(), strict=True):
                assert_array_equal(a, b)


class StopError(Exception):
    pass


@pytest.mark.usefixtures("client")
@pytest.mark.parametrize("family", ["pairs", "crowd"])
def test_a_client_that_died_resumes_from_its_checkpoint_to_the_same_bits(family, monkeypatch, tmp_path):
    fit, wanted = FAMILIES[family].fit, FAMILIES[family].fit()
    checkpoint = Checkpoint(tmp_path / "run", 0.0)
    write, resume = Passes.write, Passes.resumed

    def fragile(self, bounds, arrays):
        write(self, bounds, arrays)
        if self._checkpoint is not None and len(bounds) == 2:
            raise StopError

    with monkeypatch.context() as patch:
        patch.setattr(Passes, "write", fragile)
        with pytest.raises(StopError):
            fit(checkpoint=checkpoint)
    assert (tmp_path / "run").exists()
    found_passes = []

    def told(self):
        saved = resume(self)
        found_passes.append(0 if saved is None else len(saved[1]))
        return saved

    monkeypatch.setattr(Passes, "resumed", told)
    found = fit(checkpoint=checkpoint)
    assert not (tmp_path / "run").exists()
    assert max(found_passes) == 2  # which are not repeated
    for a, b in zip(found, wanted, strict=True):
        assert_array_equal(a, b)
