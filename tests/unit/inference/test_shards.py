"""Full passes over shards: the sums of a problem in one piece, the same bits wherever equal shards are."""

import errno
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skpref.inference import svi
from skpref.inference.shards import OnDisk, ShardedProblem, ShardRows, Shards, realigned, summed
from skpref.inference.sites import LAPLACE
from tests.policies import set_policy
from tests.unit.inference.conftest import LAYOUTS, draw_problem

SCHEDULE = svi.Schedule(max_iter=40, tol=1e-6)


def cut(case, n_shards):
    """Cut the comparisons of a problem into runs, of which some may be empty."""
    problem = case.problem
    term = next(iter(problem.terms.values()))
    runs = np.array_split(np.arange(problem.n_observations), n_shards)
    residual = term.residual
    arrays = term.left, term.right, problem.y, problem.weight
    return [ShardRows(*(x[run] for x in arrays), None if residual is None else residual[run]) for run in runs]


def sharded(case, shards, n_shards=3):
    rows = [shards.store(part) for part in cut(case, n_shards)]
    return ShardedProblem.from_template(case.problem, shards, rows, case.problem.n_observations)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("rule", ["vb", "laplace"])
@pytest.mark.parametrize("few_rows", [0, 100])
def test_a_fit_in_shards_is_the_fit_in_one_piece(layout, rule, few_rows, monkeypatch):
    set_policy(monkeypatch, "inference", brought_rows=few_rows)
    case = draw_problem(0, layout, order=layout == "features")
    case.problem = replace(case.problem, rule=LAPLACE) if rule == "laplace" else case.problem
    whole = svi.fit(case.problem, case.state, SCHEDULE, case.rng)
    fits = [svi.fit(sharded(case, shards), case.state, SCHEDULE, case.rng) for shards in (Shards(), OnDisk())]
    # Joint means are solved to 1e-7, and of few variables in a number of steps that rounding decides.
    assert_allclose(fits[0].bounds, whole.bounds, rtol=1e-7 if layout == "mean-field" else 1e-9)
    for name, block in whole.state.blocks.items():
        means = [fit.state.blocks[name].mean for fit in fits]
        assert_allclose(means[0], block.mean, atol=1e-7 if layout == "mean-field" else 1e-8)
        np.testing.assert_array_equal(means[0], means[1])
    assert fits[0].bounds == fits[1].bounds


@pytest.mark.parametrize("layout", LAYOUTS)
def test_one_shard_gives_the_bits_of_the_problem_in_one_piece(layout):
    case = draw_problem(5, layout)
    whole = svi.fit(case.problem, case.state, SCHEDULE, case.rng)
    alone = svi.fit(sharded(case, Shards(), 1), case.state, SCHEDULE, case.rng)
    assert alone.bounds == whole.bounds


def test_files_go_with_their_handles_and_the_folder_with_the_last(tmp_path):
    shards = OnDisk(str(tmp_path))
    first, second = shards.store(np.arange(3.0)), shards.store({"a": np.ones(2), "b": "text"})
    (folder,) = tmp_path.iterdir()
    values = list(shards.collect(lambda *x: x, [first, second], [1, 2], shared=["all"]))
    np.testing.assert_array_equal(values[0][0], np.arange(3.0))
    assert (values[1][0]["b"], values[1][1:]) == ("text", (2, "all"))
    assert values[0][0].flags.writeable
    del first
    assert len(list(folder.iterdir())) == 1
    del shards, second
    assert list(Path(tmp_path).iterdir()) == []


def test_folders_of_killed_processes_are_removed_and_those_of_others_kept(tmp_path):
    kill = "import os, sys\nfrom skpref.inference.shards import OnDisk\nx = OnDisk(sys.argv[1]).store([1])\nos._exit(1)"
    subprocess.run([sys.executable, "-c", kill, str(tmp_path)], check=False)
    (orphan,) = tmp_path.iterdir()
    own = OnDisk(str(tmp_path))
    kept = own.store(np.ones(2))
    assert len(list(tmp_path.iterdir())) == 2  # the orphan may be of a process that is about to lock it
    for folder in tmp_path.iterdir():
        os.utime(folder, (0, 0))
    OnDisk(str(tmp_path))
    assert not orphan.exists()
    assert kept.read().tolist() == [1.0, 1.0]


@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_of_any_layout_are_read_as_they_were(tmp_path, order):
    whole = np.asarray(np.arange(24.0).reshape(4, 6), order=order)
    arrays = [whole, whole[::2, 1::2], whole[0, ::2], whole[:0], np.array(3.0), np.array(["a", "bc"])]
    for array, copy in zip(arrays, OnDisk(str(tmp_path)).store(arrays).read(), strict=True):
        np.testing.assert_array_equal(copy, array)


def test_a_full_disk_names_its_folder_and_the_way_out(tmp_path, monkeypatch):
    def full(*_args, **_options):
        raise OSError(errno.ENOSPC, "No space left on device")

    shards = OnDisk(str(tmp_path))
    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(OSError, match=r"No space left on device: .*skpref-shards-.*set TMPDIR") as caught:
        shards.store(np.ones(3))
    assert caught.value.errno == errno.ENOSPC


def test_sums_are_added_in_order():
    parts = [
        {"a": (0.1, np.array([1e16, 1.0]))},
        {"a": (0.2, np.array([1.0, 2.0]))},
        {"a": (0.3, np.array([-1e16, 3.0]))},
    ]
    total = summed(iter(parts))["a"]
    assert total[0] == 0.1 + 0.2 + 0.3
    np.testing.assert_array_equal(total[1], [0.0, 6.0])


def test_realigned_arrays_are_writable_and_start_at_a_multiple_of_64_bytes():
    wire = np.zeros(8 * 5 + 1, dtype=np.uint8)[1:].view(np.float64)
    wire[:] = np.arange(5)
    wire.flags.writeable = False
    copy = realigned({"x": wire})["x"]
    np.testing.assert_array_equal(copy, wire)
    assert copy.flags.writeable
    assert copy.ctypes.data % 64 == 0


def test_residuals_are_those_of_the_pairs():
    case = draw_problem(1, "features")
    term = case.problem.terms["f"]
    rows = replace(cut(case, 1)[0], residual=None)
    problem = ShardedProblem.from_template(case.problem, Shards(), [rows], 1).with_residuals(case.basis, case.X)
    np.testing.assert_array_equal(problem.rows[0].residual, term.residual)


@pytest.mark.parametrize("n", range(1, 70, 7))
def test_what_is_read_from_a_disk_starts_at_a_multiple_of_64_bytes(tmp_path, n):
    arrays = [np.arange(float(n)), np.ones((n, 3), order="F"), np.arange(n, dtype=np.int8)]
    for array, copy in zip(arrays, OnDisk(str(tmp_path)).store(arrays).read(), strict=True):
        assert copy.ctypes.data % 64 == 0
        assert copy.flags.c_contiguous == array.flags.c_contiguous
        assert copy.dtype == array.dtype
        np.testing.assert_array_equal(copy, array)


def test_few_comparisons_are_brought_once_and_many_stay(monkeypatch):
    case = draw_problem(0, "mean-field")
    problem = sharded(case, Shards())
    evaluation = problem.evaluate(case.state)
    names = [name for name, block in case.state.blocks.items()][:1]
    expected = case.state.expected
    calls = []
    collect = Shards.collect
    monkeypatch.setattr(
        Shards, "collect", lambda self, *args, **shared: (calls.append(args[0]), collect(self, *args, **shared))[1]
    )
    x = np.ones(sum(case.state.blocks[name].mean.size for name in names))
    products = []
    n = case.problem.n_observations
    for few_rows, rounds in ((n, 2), (n, 1), (n - 1, 2)):  # items are brought once
        set_policy(monkeypatch, "inference", brought_rows=few_rows)
        calls.clear()
        times = problem.normal_matrix(evaluation, expected, names)
        products.append([times(x), times(2.0 * x)])
        assert len(calls) == rounds
    np.testing.assert_array_equal(products[0], products[1])
    assert_allclose(products[0], products[2])
    assert_allclose(
        products[0][0], case.problem.normal_matrix(svi.evaluate(case.problem, case.state), expected, names)(x)
    )
