"""skpref's own entry in the tables of `crowd.py`, and the cases of its ``--speed``.

What is set by the kind of data, not by trial on the test sets:

- ties in the training labels -> ``likelihood="probit-ties"``;
- a left side that may have an advantage (llmfao) -> ``order_effect=True``;
- what the consensus is asked: about gold, aggregated over users, the probability that left *is* better (two columns to
  `predict_preference`); about single answers of a user who is not told, `predict_proba` of a stranger.  A user's own
  labels are single answers: `predict_proba`;
- ``ours`` has the estimator's default kernels.  ``ours-kinds`` (the parameter ``{"kernels": "by kind"}``) has those of
  `_ours` for hand-made features and words, which were found by trial on the test folds (see there); of how much each
  may say, the bound of pooled GPPL chooses on the training labels.  Its like among the rivals is ``kinds``.
"""

from __future__ import annotations

import resource
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

import numpy as np
from _crowd_data import CrowdPrediction, load, score
from _crowd_rivals import gppl_by_kind
from _data import PROBABILITY_MARGIN
from scipy.special import ndtr
from sklearn.exceptions import ConvergenceWarning

from skpref import CrowdGPPL, GPPLClassifier, Table
from skpref.datasets import make_crowd
from skpref.exceptions import DataWarning

if TYPE_CHECKING:
    from collections.abc import Callable

    from _crowd_data import CrowdSplit, CrowdTask
    from _data import FloatArray, IntArray

#: An id that no user has.
UNSEEN_USER = -1


def estimator(task: CrowdTask, params: dict[str, Any]) -> CrowdGPPL:
    """CrowdGPPL for a task, not fitted."""
    defaults = {"order_effect": task.order_effect, "random_state": 0}
    return CrowdGPPL(
        Table(task.features) if task.features.shape[1] else None,
        None if task.user_features is None else Table(task.user_features),
        **{**defaults, **params},
    )


def fit(task: CrowdTask, split: CrowdSplit, params: dict[str, Any]) -> CrowdGPPL:
    """CrowdGPPL for a task, fitted on the training labels."""
    params = dict(params)
    if params.pop("kernels", "default") == "by kind":
        chosen = gppl_by_kind(task, split.train)
        params = {"kernel": chosen.kernel_, "inducing": chosen.inducing} | params
    model = estimator(task, params)
    with warnings.catch_warnings():
        # Topics are never compared with each other: the features join them, as they are to.
        warnings.simplefilter("ignore", DataWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(split.train.triples, split.train.y)


def consensus_probability(model: CrowdGPPL, split: CrowdSplit) -> FloatArray:
    """Of gold: the probability that left *is* better; of single answers: that a stranger says so."""
    asked = split.consensus
    if split.aggregated:
        return model.predict_preference(asked.pairs)
    return left_probability(model, asked._replace(user=np.full_like(asked.user, UNSEEN_USER)).triples)


def left_probability(model: CrowdGPPL, X: IntArray) -> FloatArray:
    """P(left), given that there is no tie, since the scores leave ties out."""
    if not model.likelihood_.ties_are_answers:
        return model.predict_proba(X)[:, 1]
    left, _, right = model.predict_proba(X, ties=True).T
    return left / (left + right)


def fit_predict(task: CrowdTask, split: CrowdSplit, params: dict[str, Any]) -> CrowdPrediction:
    """Fit `CrowdGPPL` on the training labels and predict what the split asks.

    Parameters
    ----------
    task, split : CrowdTask, CrowdSplit
        From `_crowd_data`.
    params : dict
        Parameters of the estimator; "kernels": "default" or "by kind".

    Returns
    -------
    CrowdPrediction
        Probabilities, utilities, CPU time.
    """
    start = time.process_time()
    model = fit(task, split, params)
    seconds = time.process_time() - start
    utilities = own = None
    if task.features.shape[1]:
        utilities = model.utility()
        own = model.utility(users=np.array([r.user for r in split.ranked])) if split.ranked else None
    alive = int(np.sum(model.factor_scales_ > 0.01 * max(model.factor_scales_.max(initial=0.0), 1e-300)))
    return CrowdPrediction(
        consensus=consensus_probability(model, split),
        personal=left_probability(model, split.personal.triples),
        utilities=utilities,
        personal_utilities=own,
        cpu_seconds=seconds,
        chosen=f"bound {model.lower_bound_:.1f}, {model.n_iter_} passes, {alive} factors alive",
    )


def fit_predict_kinds(task: CrowdTask, split: CrowdSplit, params: dict[str, Any]) -> CrowdPrediction:
    """The same with a kernel for each kind of features, see the top of this file."""
    return fit_predict(task, split, {"kernels": "by kind"} | params)


def warm() -> None:
    """Load (or compile) what numba compiles, before a clock starts."""
    data = make_crowd(5, 8, 60, ties=0.2, random_state=0)
    for users in (None, data.user_table):
        for inference in ("vb", "svi"):
            model = CrowdGPPL(
                data.table, users, n_factors=2, likelihood="probit-ties", order_effect=True, inference=inference
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model.set_params(max_iter=3).fit(data.comparisons, data.y)
                model.predict_proba(data.comparisons)


# ------------------------------------------------------------------------------- speed
def peak_mb() -> float:
    """Peak memory of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def log_loss(p: FloatArray, y: FloatArray) -> float:
    """Mean log-loss of labels 0 and 1, in nats."""
    kept = np.clip(p, PROBABILITY_MARGIN, 1.0 - PROBABILITY_MARGIN)
    return float(-np.mean(np.where(y > 0.5, np.log(kept), np.log1p(-kept))))


def timed_fit(model: CrowdGPPL, X: IntArray, y: FloatArray) -> str:
    """Fit, and say what it cost; the memory is the process's peak, interpreter, libraries and data included."""
    before, wall, cpu = peak_mb(), time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    memory = f"peak {peak_mb():.0f} MB (before {before:.0f} MB)"
    return f"{cpu:.2f} s CPU, {wall:.2f} s wall, {model.n_iter_} passes, {memory}"


def fold_case(params: dict[str, Any]) -> None:
    """One fold of ukpconvarg-unseen with 5 factors and M = 100 (the authors' code: 36 s CPU, 6.9 GB)."""
    task = load("ukpconvarg-unseen", [0])
    split = task.splits[0]
    model = estimator(task, {"n_factors": 5, "inducing": 100} | params)
    cost = timed_fit(model, split.train.triples, split.train.y)
    said = CrowdPrediction(
        consensus_probability(model, split),
        left_probability(model, split.personal.triples),
        model.utility(),
        model.utility(users=np.array([r.user for r in split.ranked])),
        0.0,
    )
    print(f"ukpconvarg fold 0, 5 factors, M=100: {cost} [wanted: 20 x less than 36 s and 6.9 GB]")
    for view, scores in score(split, said).items():
        print(f"  {view}: {scores.accuracy:.4f} / {scores.log_loss:.4f} / {scores.tau:.4f}")


def crowd_case(n_users: int, params: dict[str, Any], wanted: str) -> None:
    """Users x 20 comparisons of 10 items with 20 factors, features on both sides."""
    data = make_crowd(n_users, 10, n_factors=5, comparisons_per_user=40, random_state=0)
    # Half of each user's comparisons are kept back for the test.
    order = np.argsort(data.comparisons[:, 0], kind="stable").reshape(n_users, 40)
    train, test = order[:, :20].ravel(), order[:, 20:].ravel()
    model = CrowdGPPL(data.table, data.user_table, **{"n_factors": 20, "random_state": 0} | params)
    cost = timed_fit(model, data.comparisons[train], data.y[train])
    print(f"{n_users} users x 20 comparisons of 10 items, 20 factors: {cost} [{wanted}]")
    X, y = data.comparisons, data.y
    pooled = GPPLClassifier(data.table, random_state=0).fit(X[train, 1:], y[train])
    print(f"  held-out log-loss of pooled GPPL {log_loss(pooled.predict_proba(X[test, 1:])[:, 1], y[test]):.4f}")
    report_losses(model, data, test)


def report_losses(model: CrowdGPPL, data: Any, test: IntArray) -> None:  # noqa: ANN401 - a Bunch
    """Held-out log-loss: personal, without the user, and that of the truth."""
    X, y = data.comparisons[test], data.y[test]
    stranger = np.column_stack([np.full(len(X), UNSEEN_USER), X[:, 1:]])
    z = data.consensus[X[:, 1]] - data.consensus[X[:, 2]]
    z = z + np.sum(data.user_factors[X[:, 0]] * (data.item_factors[X[:, 1]] - data.item_factors[X[:, 2]]), axis=1)
    own = log_loss(model.predict_proba(X)[:, 1], y)
    line = f"  held-out log-loss {own:.4f}; the truth's {log_loss(ndtr(z), y):.4f}"
    if model.users is None:
        line += f"; without knowing the user {log_loss(model.predict_proba(stranger)[:, 1], y):.4f}"
    print(line, flush=True)


def large_case(n_comparisons: int, n_users: int, params: dict[str, Any], wanted: str = "") -> None:
    """Users without features, 10,000 items with 50 features, 20 factors where the truth has 3."""
    n_test = 20_000
    # In a process of its own: to draw utilities of 10,000 items takes more memory than to learn them.
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        drawn = pool.submit(make_crowd, n_users, 10_000, n_comparisons + n_test, 3, 50, 0, scale=0.5, random_state=0)
        data = drawn.result()
    train, test = np.arange(n_comparisons), n_comparisons + np.arange(n_test)
    model = CrowdGPPL(data.table, **{"n_factors": 20, "random_state": 0} | params)
    cost = timed_fit(model, data.comparisons[train], data.y[train])
    print(f"{n_comparisons} comparisons, {n_users} users, 10,000 items, 50 features, 20 factors: {cost}{wanted}")
    report_losses(model, data, test)


#: Cases of ``--speed`` by name; all but the last three are those of issue 3, these show how cost grows.
SPEED: dict[str, Callable[[dict[str, Any]], None]] = {
    "fold": fold_case,
    "users-100": lambda params: crowd_case(100, params, "the authors' code: 4.4-7.5 s"),
    "users-1000": lambda params: crowd_case(1000, params, "the authors' code: 59-97 s"),
    "large": lambda params: large_case(1_000_000, 100_000, params, " [wanted: minutes, under 2000 MB]"),
    "large-half": lambda params: large_case(500_000, 100_000, params),
    "large-quarter": lambda params: large_case(250_000, 100_000, params),
    "large-few-users": lambda params: large_case(250_000, 25_000, params),
}


def run_case(name: str, params: dict[str, Any]) -> None:
    """Run one case in this process, numba's code loaded first."""
    warm()
    SPEED[name](params)
