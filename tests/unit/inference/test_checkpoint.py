"""Checkpoints of the chain runner: resuming, refusing, and disks that are full."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import textwrap
import zipfile

import numpy as np
import pytest

from skpref.exceptions import CheckpointError, CheckpointWarning
from skpref.inference.checkpoint import Checkpoint, Writer, read_checkpoint, write_checkpoint
from skpref.inference.gibbs import Chain, Plan, run
from tests.unit.inference.test_gibbs import same, starts, step


class StopError(Exception):
    pass


def interrupted_at(n, n_chains, checkpoint, plan):
    done = []

    def fragile(state, sweep):
        done.append(sweep)
        if len(done) > n:
            raise StopError
        return step(state, sweep)

    with pytest.raises(StopError):
        run(starts(n_chains), lambda _: fragile, Plan(**plan, checkpoint=checkpoint))


@pytest.mark.parametrize("n", [1, 7, 12, 13, 30, 59])
def test_an_interrupted_run_ends_with_the_bits_of_one_that_was_not(n, tmp_path):
    plan = {"n_sweeps": 20, "burn_in": 6, "n_samples": 5}
    checkpoint = Checkpoint(tmp_path / "run", "key", seconds=0.0)
    interrupted_at(n, 3, checkpoint, plan)
    assert checkpoint.path.exists()
    events = []
    again = run(starts(3), lambda _: step, Plan(**plan, checkpoint=checkpoint, on_iteration=events.append))
    for a, b in zip(again, run(starts(3), lambda _: step, Plan(**plan)), strict=True):
        same(a, b)
    assert list(tmp_path.iterdir()) == []
    assert [e.step for e in events] == list(range(n + 1, 61))  # the sweeps before the interruption were not repeated


@pytest.mark.parametrize("n_samples", [0, 2, 9, 40])
def test_a_chain_that_goes_on_resumes_as_well(n_samples, tmp_path):
    (first,) = run(starts(), lambda _: step, Plan(20, 5, n_samples))
    checkpoint = Checkpoint(tmp_path / "run", "key", seconds=0.0)
    for begun in (first, first.redirected(first.state)):
        plan = Plan(15, 5, n_samples, checkpoint=checkpoint)
        for sweeps in (1, 6, 14):
            (stopped,) = run(
                [begun], lambda _: step, Plan(15, 5, n_samples, on_iteration=lambda e, n=sweeps: e.step == n)
            )
            write_checkpoint(checkpoint, [stopped])
            same(run([begun], lambda _: step, plan)[0], run([begun], lambda _: step, Plan(15, 5, n_samples))[0])


def test_a_checkpoint_of_another_run_or_a_stranger_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "run"
    checkpoint = Checkpoint(path, "key", seconds=0.0)
    interrupted_at(3, 1, checkpoint, {"n_sweeps": 9, "burn_in": 1})
    with pytest.raises(CheckpointError, match="other data or parameters"):
        run(starts(), lambda _: step, Plan(9, 1, checkpoint=Checkpoint(path, "other")))
    with pytest.raises(CheckpointError, match="other data or parameters"):
        run(starts(2), lambda _: step, Plan(9, 1, checkpoint=checkpoint))
    whole = path.read_bytes()
    for content in (b"", b"no archive", whole[: len(whole) // 2], whole.replace(b'"sweep":3', b'"sweep":2')):
        path.write_bytes(content)
        message = f"checkpoint: {path} is damaged, or no checkpoint of this fit .* Delete the file to start afresh"
        with pytest.raises(CheckpointError, match=message):
            run(starts(), lambda _: step, Plan(9, 1, checkpoint=checkpoint))
        assert path.read_bytes() == content
    np.savez(path.with_suffix(".npz"), x=np.zeros(2))
    os.mkfifo(tmp_path / "pipe")  # nobody writes to it: who waits, waits for ever
    with pytest.raises(CheckpointError, match=f"checkpoint is the path of a file, got the folder '{tmp_path}'; add a"):
        run(starts(), lambda _: step, Plan(9, 1, checkpoint=Checkpoint(tmp_path, "key")))
    for other in (path.with_suffix(".npz"), tmp_path / "pipe"):
        with pytest.raises(CheckpointError, match="no checkpoint of this fit"):
            run(starts(), lambda _: step, Plan(9, 1, checkpoint=Checkpoint(other, "key")))
    with pytest.raises(CheckpointError, match="does not exist"):
        run(starts(), lambda _: step, Plan(9, 1, checkpoint=Checkpoint(tmp_path / "no" / "run", "key")))


COUNTS = [
    ({"sweep": 10}, "sweep must be 0 to 9"),
    ({"sweep": 3.0}, "sweep must be a whole number"),
    ({"sweep": 2}, "n_averaged must be 1"),
    ({"begin": 1}, "begin must be 0"),
    ({"n_averaged": 9}, "n_averaged must be 2"),
    ({"average": None}, "average must be of the sweeps"),
    ({"samples": ()}, "samples must be 1"),
    ({"trace": {"square": [1.0, 2.0]}}, "trace must be of 3 sweeps"),
    ({"trace": {"square": [1.0, 2.0, np.nan]}}, "trace must hold finite numbers of square"),
]


@pytest.mark.parametrize(("counts", "message"), COUNTS, ids=[message for _, message in COUNTS])
def test_counts_that_no_such_run_has_are_refused(counts, message, tmp_path):
    checkpoint = Checkpoint(tmp_path / "run", "key")
    plan = Plan(9, 1, 4, checkpoint=checkpoint)
    (stopped,) = run(starts(), lambda _: step, Plan(9, 1, 4, on_iteration=lambda e: e.step == 3))
    write_checkpoint(checkpoint, [Chain(**vars(stopped) | counts)])
    with pytest.raises(CheckpointError, match=message):
        run(starts(), lambda _: step, plan)


def test_arrays_of_another_file_are_refused(tmp_path):
    checkpoint, other = Checkpoint(tmp_path / "run", "key"), Checkpoint(tmp_path / "other", "key")
    write_checkpoint(checkpoint, starts())
    write_checkpoint(other, [Chain({"x": np.ones(3), "seed": np.array(0)})])
    with zipfile.ZipFile(checkpoint.path) as archive:
        header = archive.read("schema.json")
    with zipfile.ZipFile(other.path) as old, zipfile.ZipFile(checkpoint.path, "w") as new:
        for name in old.namelist():
            new.writestr(name, header if name == "schema.json" else old.read(name))
    assert json.loads(header)["key"] == "key"
    with pytest.raises(CheckpointError, match="digest: not that of the arrays"):
        read_checkpoint(checkpoint, starts(), lambda *_: None)


# --------------------------------------------------------------------------
# disks that are full, processes that are killed


def test_a_disk_that_is_full_costs_one_warning_and_the_earlier_checkpoint_is_kept(tmp_path):
    checkpoint, plan = Checkpoint(tmp_path / "run", "key", seconds=0.0), {"n_sweeps": 20, "burn_in": 5}
    interrupted_at(4, 1, checkpoint, plan)
    before, after = checkpoint.path.read_bytes(), []
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    def full(state, sweep):
        after.append((checkpoint.path.read_bytes(), len(list(tmp_path.iterdir()))))
        return step(state, sweep)

    resource.setrlimit(resource.RLIMIT_FSIZE, (700, hard))
    try:
        with pytest.warns(
            CheckpointWarning, match=r"/run could not be written \(File too large\); the fit continues"
        ) as told:
            (chain,) = run(starts(), lambda _: full, Plan(**plan, checkpoint=checkpoint))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert len(told) == 1
    assert after == [(before, 1)] * 16
    same(chain, run(starts(), lambda _: step, Plan(**plan))[0])
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_gone_costs_one_warning(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()

    def removed(state, sweep):
        shutil.rmtree(folder, ignore_errors=True)
        return step(state, sweep)

    with pytest.warns(CheckpointWarning, match=f"{folder / 'run'} could not be written .*no such folder"):
        (chain,) = run(
            starts(), lambda _: removed, Plan(9, 1, checkpoint=Checkpoint(folder / "run", "key", seconds=0.0))
        )
    same(chain, run(starts(), lambda _: step, Plan(9, 1))[0])


def test_chains_that_are_too_large_are_not_written(tmp_path):
    writer = Writer(Checkpoint(tmp_path / "run", "key", seconds=0.0))
    huge = np.broadcast_to(np.zeros(1), 1 << 28)
    with pytest.warns(CheckpointWarning, match="more than 2 GiB"):
        writer.write([Chain({"x": huge})])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("place", ["sweep", "write"])
def test_a_killed_process_resumes_to_the_same_bits(place, tmp_path, root):
    code = textwrap.dedent(f"""
        import os, signal
        import numpy as np
        from pathlib import Path
        from skpref.inference.checkpoint import Checkpoint
        from skpref.inference.gibbs import Chain, Info, Plan, run
        sweeps = []
        def killed(*_):
            os.kill(os.getpid(), signal.SIGKILL)
        def step(state, sweep):
            if sweep == 11:
                os.fsync = killed
                {"killed()" if place == "sweep" else ""}
            x = 0.9 * state["x"] + np.random.default_rng([int(state["seed"]), sweep]).standard_normal(3)
            return {{"x": x, "seed": state["seed"]}}, Info(0.0, {{"square": float(x @ x)}}, {{"x": x}})
        start = [Chain({{"x": np.zeros(3), "seed": np.array(0)}})]
        checkpoint = Checkpoint(Path({str(tmp_path / "run")!r}), "key", seconds=0.0)
        run(start, lambda _: step, Plan(20, 5, n_samples=3, checkpoint=checkpoint))
    """)
    done = subprocess.run([sys.executable, "-c", code], check=False, env={**os.environ, "PYTHONPATH": str(root)})
    assert done.returncode == -signal.SIGKILL
    assert len(list(tmp_path.iterdir())) == (1 if place == "sweep" else 2)
    plan = {"n_sweeps": 20, "burn_in": 5, "n_samples": 3}
    (resumed,) = run(starts(), lambda _: step, Plan(**plan, checkpoint=Checkpoint(tmp_path / "run", "key")))
    same(resumed, run(starts(), lambda _: step, Plan(**plan))[0])
    assert list(tmp_path.iterdir()) == []


def test_files_of_running_processes_are_left_alone(tmp_path):
    names = [f".run.{os.getppid()}-0123456789ab.tmp", ".run.1-x.tmp", ".other.999999999-0123456789ab.tmp", "run.tmp"]
    for name in (*names, f".run.{os.getpid()}-0123456789ab.tmp", ".run.999999999-0123456789ab.tmp"):
        (tmp_path / name).touch()
    run(starts(), lambda _: step, Plan(9, 1, checkpoint=Checkpoint(tmp_path / "run", "key")))
    assert {file.name for file in tmp_path.iterdir()} == set(names)
