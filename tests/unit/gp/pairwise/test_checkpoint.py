"""Fits of comparisons that are interrupted and resume from a checkpoint, to the same bits."""

import signal
import subprocess
import sys

import numpy as np
import pytest

from skpref import Checkpoint, CrowdGPPL, Gamma, GPPLClassifier, Table
from skpref.exceptions import CheckpointError
from skpref.gp.crowd import fit_hierarchy
from skpref.gp.crowd.fit_hierarchy import Regularisation
from skpref.inference.passes import Passes
from tests.policies import set_policy


class StopError(Exception):
    pass


def rows(n=400, n_items=12, n_users=0, seed=0):
    rng = np.random.default_rng(seed)
    utility = rng.normal(size=n_items)
    left = rng.integers(n_items, size=n)
    right = (left + rng.integers(1, n_items, size=n)) % n_items
    columns = [left, right]
    difference = utility[left] - utility[right]
    if n_users:
        user, taste = rng.integers(n_users, size=n), rng.normal(size=(n_users, n_items))
        difference += taste[user, left] - taste[user, right]
        columns.insert(0, user)
    return np.column_stack(columns), (difference + rng.normal(size=n) > 0).astype(int)


def interrupted(monkeypatch, model, X, y, after):
    """Fit until a number of passes are saved."""
    write, n_written = Passes.write, []

    def fragile(self, bounds, arrays):
        write(self, bounds, arrays)
        if self._checkpoint is not None:
            n_written.append(len(bounds))
            if len(n_written) == after:
                raise StopError

    with monkeypatch.context() as patch:
        patch.setattr(Passes, "write", fragile)
        with pytest.raises(StopError):
            model.fit(X, y)
    return n_written


def same_bits(a, b):
    assert a.lower_bounds_ == b.lower_bounds_
    assert a.converged_ == b.converged_
    for one, other in zip(a.utility(return_std=True), b.utility(return_std=True), strict=True):
        np.testing.assert_array_equal(one, other)


VALUES = np.random.default_rng(1).normal(size=(12, 2))
FEATURES = Table(VALUES, ids=np.arange(12))
PAIRS = {
    "offsets": {},
    "features": {"items": FEATURES},
    "few points": {"items": FEATURES, "inducing": 4, "order_effect": True},
    "ties": {"likelihood": "logit-ties"},
    "laplace": {"inference": "laplace"},
}


@pytest.mark.parametrize("after", [1, 4])
@pytest.mark.parametrize("options", PAIRS.values(), ids=PAIRS)
@pytest.mark.parametrize("diagonal", [False, True])
def test_an_interrupted_fit_ends_with_the_bits_of_one_that_was_not(options, diagonal, after, monkeypatch, tmp_path):
    set_policy(monkeypatch, "gp.pairwise", joint_size=0 if diagonal else 1500)
    X, y = rows()
    options = {"random_state": 0, "tol": 1e-6, **options}
    path = tmp_path / "run"
    resumed = GPPLClassifier(checkpoint=Checkpoint(path, 0.0), **options)
    saved = interrupted(monkeypatch, resumed, X, y, after)
    assert path.exists()
    seen = []
    resumed.set_params(verbose=0)
    monkeypatch.setattr("skpref.gp.pairwise.base.iteration_callback", lambda _: seen.append)
    resumed.fit(X, y)
    assert not path.exists()
    assert next(event.step for event in seen) == saved[-1] + 1  # the passes before were not repeated
    same_bits(resumed, GPPLClassifier(**options).fit(X, y))


CROWDS = {
    "ep": {"inference": "ep"},
    "auto with features of both": {"items": FEATURES, "users": Table(VALUES[:8], ids=np.arange(8))},
    "order": {"inference": "ep", "order_effect": True},
    "thresholds": {"inference": "ep", "likelihood": "logit-ties"},
}


@pytest.mark.parametrize(("options", "after"), list(zip(CROWDS.values(), [1, 6, 1, 6], strict=True)), ids=CROWDS)
def test_an_interrupted_crowd_ends_with_the_same_bits(options, after, monkeypatch, tmp_path):
    X, y = rows(n_users=8)
    if "likelihood" in options:
        y = np.where(np.arange(y.size) % 9, y, 0.5)
        chosen = (Regularisation(0.3, 1.0, 0.5),)  # the choice takes four times as long as the fit
        monkeypatch.setattr(fit_hierarchy, "_regularise", lambda _, isotropic, *__: (chosen, [isotropic.state.S]))
    options = {"random_state": 0, "tol": 1e-4, **options}
    path = tmp_path / "run"
    resumed = CrowdGPPL(checkpoint=Checkpoint(path, 0.0), **options)
    interrupted(monkeypatch, resumed, X, y, after)
    resumed.fit(X, y)
    assert not path.exists()
    whole = CrowdGPPL(**options).fit(X, y)
    same_bits(resumed, whole)
    np.testing.assert_array_equal(resumed.predict_proba(X), whole.predict_proba(X))


@pytest.mark.parametrize(
    "change",
    [{"likelihood": "logit"}, {"scale_prior": Gamma(2.0, 1.0)}, {"order_effect": True}, {"random_state": 1}, "y", "X"],
)
def test_a_checkpoint_of_another_fit_is_refused(change, monkeypatch, tmp_path):
    X, y = rows()
    model = GPPLClassifier(checkpoint=Checkpoint(tmp_path / "run", 0.0), random_state=0)
    interrupted(monkeypatch, model, X, y, 1)
    if change == "y":
        y = np.where(np.arange(y.size) == 3, 1 - y, y)
    elif change == "X":
        X = X[:-1].copy()
        y = y[:-1]
    else:
        model.set_params(**change)
    with pytest.raises(CheckpointError, match="other data or parameters"):
        model.fit(X, y)
    assert not hasattr(model, "posterior_")


def test_a_damaged_checkpoint_is_refused(monkeypatch, tmp_path):
    X, y = rows()
    path = tmp_path / "run"
    model = GPPLClassifier(checkpoint=Checkpoint(path, 0.0), random_state=0)
    interrupted(monkeypatch, model, X, y, 2)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match="damaged"):
        model.fit(X, y)


def test_a_checkpoint_needs_a_seed_and_full_passes(tmp_path):
    X, y = rows()
    with pytest.raises(ValueError, match="random_state to be an integer"):
        GPPLClassifier(checkpoint=tmp_path / "run").fit(X, y)
    with pytest.raises(ValueError, match="inference='vb'"):
        GPPLClassifier(checkpoint=tmp_path / "run", random_state=0, inference="svi").fit(X, y)
    X, y = rows(n_users=4)
    with pytest.raises(ValueError, match="inference='ep', or leave"):
        CrowdGPPL(checkpoint=tmp_path / "run", random_state=0, inference="vb").fit(X, y)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_resumed_fit_may_have_more_passes(monkeypatch, tmp_path):
    X, y = rows()
    model = GPPLClassifier(checkpoint=Checkpoint(tmp_path / "run", 0.0), random_state=0, max_iter=5, tol=0.0)
    interrupted(monkeypatch, model, X, y, 3)
    model.set_params(max_iter=9).fit(X, y)
    same_bits(model, GPPLClassifier(random_state=0, max_iter=9, tol=0.0).fit(X, y))


@pytest.mark.parametrize("crowd", [False, True], ids=["pairs", "crowd"])
def test_a_fit_to_files_resumes_to_the_same_bits(crowd, monkeypatch, tmp_path):
    pandas = pytest.importorskip("pandas")
    X, y = rows(n_users=8 if crowd else 0)
    names = ["user", "left", "right"][-X.shape[1] :]
    (tmp_path / "rows").mkdir()
    for number, part in enumerate(np.array_split(np.arange(y.size), 3)):
        frame = pandas.DataFrame(X[part], columns=names).assign(y=y[part])
        frame.to_parquet(tmp_path / "rows" / f"{number}.parquet")
    options = {"random_state": 0, "tol": 1e-6, "items": FEATURES}
    options |= {"inference": "ep"} if crowd else {"inducing": 4}
    estimator = CrowdGPPL if crowd else GPPLClassifier
    model = estimator(checkpoint=Checkpoint(tmp_path / "run", 0.0), **options)
    interrupted(monkeypatch, model, str(tmp_path / "rows"), "y", 2)
    model.fit(str(tmp_path / "rows"), "y")
    same_bits(model, estimator(**options).fit(str(tmp_path / "rows"), "y"))


KILLED = """
import os, signal, sys
import numpy as np
from skpref import Checkpoint, GPPLClassifier
from skpref.gp.pairwise import base

def killed(event):
    if event.step == 3:
        os.kill(os.getpid(), signal.SIGKILL)

base.iteration_callback = lambda _: killed
rows = np.load(sys.argv[1])
model = GPPLClassifier(checkpoint=Checkpoint(sys.argv[2], 0.0), random_state=0, tol=1e-6)
model.fit(rows[:, :2], rows[:, 2])
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs a system with SIGKILL")
def test_a_killed_process_leaves_a_checkpoint(monkeypatch, tmp_path):
    X, y = rows()
    np.save(tmp_path / "rows.npy", np.column_stack([X, y]))
    script = [sys.executable, "-c", KILLED, str(tmp_path / "rows.npy"), str(tmp_path / "run")]
    assert subprocess.run(script, check=False).returncode == -signal.SIGKILL
    steps = []
    monkeypatch.setattr("skpref.gp.pairwise.base.iteration_callback", lambda _: lambda event: steps.append(event.step))
    model = GPPLClassifier(checkpoint=tmp_path / "run", random_state=0, tol=1e-6).fit(X, y)
    assert steps[0] == 3  # the passes that were saved are not repeated
    same_bits(model, GPPLClassifier(random_state=0, tol=1e-6).fit(X, y))
