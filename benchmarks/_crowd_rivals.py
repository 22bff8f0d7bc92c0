"""Models that CrowdGPPL is compared with, under one interface, `CrowdFitPredict` of `_crowd_data`.

==========  ==========================================================================
name        what it is
==========  ==========================================================================
pooled      `skpref.GPPLClassifier`, users ignored; probit-ties where labels have ties
kinds       the same with the kernels of `_ours` for hand-made features and words (which
            were found by trial, see there), their ratio by the bound; ukpconvarg only
per-user    one `GPPLClassifier` a user with at least `OWN_LABELS` labels, the pooled one
            for the others; length-scales are the pooled model's (20 labels choose
            none).  Its consensus is the mean over these users
logistic    logistic regression on feature differences (`_rivals.logistic`); C as there
logistic-cv the same with C from an inner hold-out of single answers
onehot      the same with one-hot item differences (`_rivals.onehot`); seen items only
choix       ridge-regularised Bradley-Terry (`_rivals.bradley_terry`); seen items only
bt          crowd-kit's `BradleyTerry`, ties dropped (it knows none)
noisy-bt    crowd-kit's `NoisyBradleyTerry`, ties dropped.  Consensus: scores alone, as
            in the figures of issue 3.  Personal: with the worker's skill and bias
evalica     evalica's `bradley_terry`, ties as draws
==========  ==========================================================================

What was seen when their output was checked (crowd-kit 1.4.2, evalica 0.4.2):

- `BradleyTerry` always stops after two iterations: it keeps the array of the last scores, not a copy, so the change is
  zero.  That early stop is a regulariser; the row is no maximum-likelihood fit.
- `NoisyBradleyTerry`'s gradient is not that of its objective: worker entries are assigned, not summed, one place too
  early, and the regulariser has the wrong sign (checked by finite differences).
- evalica's `bradley_terry` gives all items one score on split 3 of ukpconvarg-random; such a split is skipped, and
  the table says of how many splits a row is the mean.
- an item that never won has score 0 in both Bradley-Terrys; 0 against 0 is taken as one half here.
"""

from __future__ import annotations

import time
import warnings
from typing import TYPE_CHECKING, Any

import _ours
import _rivals
import numpy as np
from _crowd_data import Answers, CrowdFitPredict, CrowdPrediction, CrowdSplit, CrowdTask, as_pairwise
from _rivals import NotApplicableError, library
from scipy.special import expit, logit
from sklearn.exceptions import ConvergenceWarning

from skpref import GPPLClassifier, Table
from skpref.datasets import make_pairwise
from skpref.exceptions import DataWarning

if TYPE_CHECKING:
    from collections.abc import Callable

    from _data import FitPredict, FloatArray

#: Labels from which on a user gets a model of their own.
OWN_LABELS = 10


# -------------------------------------------------------------------------------- GPPL
def gppl(task: CrowdTask, train: Answers, **params: Any) -> GPPLClassifier:  # noqa: ANN401 - parameters of GPPL
    """Fit `GPPLClassifier` on labels whose users are ignored."""
    items = Table(task.features) if task.features.shape[1] else None
    likelihood = "probit-ties" if np.any(train.y == 0.5) else "probit"
    settings: dict[str, Any] = {"likelihood": likelihood, "order_effect": task.order_effect, "random_state": 0} | params
    model = GPPLClassifier(items=items, **settings)
    with warnings.catch_warnings():
        # Topics are never compared with each other: the features join them, as they are to.
        warnings.simplefilter("ignore", DataWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(train.pairs, train.y)


def _consensus(model: GPPLClassifier, split: CrowdSplit) -> FloatArray:
    """Of gold: the probability that left *is* better; of single answers: that an answer says so."""
    pairs = split.consensus.pairs
    return model.predict_preference(pairs) if split.aggregated else model.predict_proba(pairs)[:, 1]


def _utilities(model: GPPLClassifier, task: CrowdTask) -> FloatArray | None:
    return model.utility() if task.features.shape[1] else None


def gppl_by_kind(task: CrowdTask, train: Answers, **params: Any) -> GPPLClassifier:  # noqa: ANN401 - parameters of GPPL
    """The same with a kernel for each kind of features; the bound chooses how much each may say."""
    kinds = _ours.kinds_of_columns(task)
    if kinds is None:
        raise NotApplicableError("the features are not of two kinds")
    settings = {"inducing": _ours.N_INDUCING} | params
    several = [gppl(task, train, kernel=_ours.kernel_by_kind(*kinds, r), **settings) for r in _ours.RATIOS]
    return max(several, key=lambda model: model.lower_bound_)


def pooled(task: CrowdTask, split: CrowdSplit, params: dict[str, Any]) -> CrowdPrediction:
    """GPPL that ignores who answered."""
    return _pooled(gppl, task, split, params)


def pooled_kinds(task: CrowdTask, split: CrowdSplit, params: dict[str, Any]) -> CrowdPrediction:
    """GPPL that ignores who answered, with a kernel for each kind of features."""
    return _pooled(gppl_by_kind, task, split, params)


def _pooled(
    fit: Callable[..., GPPLClassifier], task: CrowdTask, split: CrowdSplit, params: dict[str, Any]
) -> CrowdPrediction:
    start = time.process_time()
    model = fit(task, split.train, **params)
    seconds = time.process_time() - start
    return CrowdPrediction(
        consensus=_consensus(model, split),
        personal=model.predict_proba(split.personal.pairs)[:, 1],
        utilities=_utilities(model, task),
        personal_utilities=None,
        cpu_seconds=seconds,
        chosen=f"bound {model.lower_bound_:.1f}, {model.n_iter_} passes",
    )


def _own_models(
    task: CrowdTask, train: Answers, shared: GPPLClassifier, least: int, params: dict[str, Any]
) -> dict[int, GPPLClassifier]:
    """A model a user who has at least `least` labels that are no ties."""
    counts = np.bincount(train.user[train.y != 0.5], minlength=task.n_users)
    settings = params | ({"kernel": shared.kernel_} if task.features.shape[1] else {})
    return {int(u): gppl(task, train.take(train.user == u), **settings) for u in np.flatnonzero(counts >= least)}


def _own_probabilities(models: dict[int, GPPLClassifier], shared: GPPLClassifier, asked: Answers) -> FloatArray:
    """Each user's own model where there is one."""
    p = shared.predict_proba(asked.pairs)[:, 1]
    for user in np.unique(asked.user):
        if (model := models.get(int(user))) is not None:
            rows = asked.user == user
            p[rows] = model.predict_proba(asked.pairs[rows])[:, 1]
    return p


def per_user(task: CrowdTask, split: CrowdSplit, params: dict[str, Any]) -> CrowdPrediction:
    """A GPPL a user, and the pooled one for users with few labels."""
    least, params = int(params.get("least", OWN_LABELS)), {k: v for k, v in params.items() if k != "least"}
    start = time.process_time()
    shared = gppl(task, split.train, **params)
    models = _own_models(task, split.train, shared, least, params)
    seconds = time.process_time() - start
    several = list(models.values()) or [shared]
    utilities = own = None
    if task.features.shape[1]:
        of_user = {user: model.utility() for user, model in models.items()}
        everybody = shared.utility()
        utilities = np.mean([everybody] if not of_user else list(of_user.values()), axis=0)
        own = np.array([of_user.get(r.user, everybody) for r in split.ranked])
    return CrowdPrediction(
        consensus=np.mean([_consensus(model, split) for model in several], axis=0),
        personal=_own_probabilities(models, shared, split.personal),
        utilities=utilities,
        personal_utilities=own,
        cpu_seconds=seconds,
        chosen=f"{len(models)} users with a model of their own",
    )


def warm() -> None:
    """Load (or compile) what numba compiles, before a clock starts."""
    data = make_pairwise(12, 60, 2, ties=0.2, random_state=0)
    for items, likelihood in ((data.table, "probit-ties"), (data.table, "probit"), (None, "probit-ties")):
        model = GPPLClassifier(items, likelihood=likelihood, order_effect=items is None, max_iter=3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(data.comparisons, data.y).predict_proba(data.comparisons)


# ------------------------------------------------------------- rivals that ignore users
def ignoring_users(model: FitPredict, **fixed: Any) -> CrowdFitPredict:  # noqa: ANN401 - parameters of a rival
    """A rival of `_rivals` under the interface of this file."""

    def fit_predict(task: CrowdTask, split: CrowdSplit, params: dict[str, Any]) -> CrowdPrediction:
        said = model(*as_pairwise(task, split), fixed | params)
        consensus, personal = np.split(said.probabilities, [split.consensus.y.size])
        return CrowdPrediction(consensus, personal, said.utilities, None, said.cpu_seconds, said.chosen)

    return fit_predict


def logistic(task: CrowdTask, split: CrowdSplit, params: dict[str, Any]) -> CrowdPrediction:
    """Logistic regression on feature differences."""
    if not task.features.shape[1]:
        raise NotApplicableError("there are no features; onehot is the logistic regression for that")
    return ignoring_users(_rivals.logistic)(task, split, params)


def _ratio(scores: FloatArray, asked: Answers) -> FloatArray:
    """Bradley-Terry probabilities from positive scores."""
    a, b = scores[asked.left], scores[asked.right]
    nobody = a + b <= 0.0
    return np.where(nobody, 0.5, a / np.where(nobody, 1.0, a + b))


def _of_scores(scores: FloatArray, split: CrowdSplit, seconds: float, chosen: str = "") -> CrowdPrediction:
    return CrowdPrediction(
        _ratio(scores, split.consensus), _ratio(scores, split.personal), scores, None, seconds, chosen
    )


def _only_seen(task: CrowdTask) -> None:
    if task.unseen_items:
        raise NotApplicableError("Bradley-Terry knows nothing of an unseen item")


def _differ(name: str, scores: FloatArray) -> FloatArray:
    """The scores, unless they are all the same or not finite: such a fit is not quoted."""
    if not np.isfinite(scores).all() or np.ptp(scores) == 0.0:
        raise NotApplicableError(f"{name} returned no usable scores: {scores[:3]}...")
    return scores


def _frame(train: Answers) -> Any:  # noqa: ANN401 - a pandas frame
    """Decided labels as crowd-kit wants them: `label` is the winner."""
    pandas = library("pandas")
    clear = train.take(train.y != 0.5)
    winner = np.where(clear.y > 0.5, clear.left, clear.right)
    return pandas.DataFrame({"worker": clear.user, "left": clear.left, "right": clear.right, "label": winner})


def _by_row(series: Any, n: int, missing: float) -> FloatArray:  # noqa: ANN401 - a pandas series
    """Values by id, for ids 0 to n - 1."""
    values: FloatArray = series.reindex(range(n)).fillna(missing).to_numpy(dtype=np.float64)
    return values


def bt(task: CrowdTask, split: CrowdSplit, params: dict[str, Any]) -> CrowdPrediction:
    """crowd-kit's `BradleyTerry`; an unseen item has the mean score."""
    _only_seen(task)
    crowdkit = library("crowdkit.aggregation.pairwise")
    start = time.process_time()
    fitted = crowdkit.BradleyTerry(n_iter=int(params.get("n_iter", 100))).fit(_frame(split.train)).scores_
    seconds = time.process_time() - start
    return _of_scores(_differ("BradleyTerry", _by_row(fitted, task.n_items, fitted.mean())), split, seconds)


def noisy_bt(task: CrowdTask, split: CrowdSplit, params: dict[str, Any]) -> CrowdPrediction:
    """crowd-kit's `NoisyBradleyTerry`: Phi replaced by a mixture of a logistic answer and a biased coin."""
    _only_seen(task)
    crowdkit = library("crowdkit.aggregation.pairwise")
    start = time.process_time()
    fitted = crowdkit.NoisyBradleyTerry(n_iter=int(params.get("n_iter", 100))).fit(_frame(split.train))
    seconds = time.process_time() - start
    margin = 1e-12  # the scores are expit of the utilities, which are wanted back
    s = logit(np.clip(_by_row(fitted.scores_, task.n_items, 0.5), margin, 1.0 - margin))
    s = _differ("NoisyBradleyTerry", s)
    skill = _by_row(fitted.skills_, task.n_users, fitted.skills_.mean())
    bias = _by_row(fitted.biases_, task.n_users, 0.5)
    alone = expit(s[split.consensus.left] - s[split.consensus.right])
    asked, user = split.personal, split.personal.user
    personal = skill[user] * expit(s[asked.left] - s[asked.right]) + (1.0 - skill[user]) * bias[user]
    return CrowdPrediction(alone, personal, s, None, seconds)


def evalica(task: CrowdTask, split: CrowdSplit, params: dict[str, Any]) -> CrowdPrediction:
    """Evalica's `bradley_terry`, ties as draws (half a win each way)."""
    _only_seen(task)
    library("pandas")
    package = library("evalica")
    train = split.train
    names = {1.0: package.Winner.X, 0.0: package.Winner.Y, 0.5: package.Winner.Draw}
    winners = [names[label] for label in train.y.tolist()]
    start = time.process_time()
    result = package.bradley_terry(train.left.tolist(), train.right.tolist(), winners, **params)
    seconds = time.process_time() - start
    scores = _by_row(result.scores, task.n_items, result.scores.mean())
    return _of_scores(_differ("evalica", scores), split, seconds, f"{result.iterations} iterations")


#: Rivals by the name used on the command line.
RIVALS: dict[str, CrowdFitPredict] = {
    "pooled": pooled,
    "kinds": pooled_kinds,
    "per-user": per_user,
    "logistic": logistic,
    "logistic-cv": ignoring_users(_rivals.logistic, c=(1e-4, 1e-3, 1e-2, 0.1)),
    "onehot": ignoring_users(_rivals.onehot),
    "choix": ignoring_users(_rivals.bradley_terry),
    "bt": bt,
    "noisy-bt": noisy_bt,
    "evalica": evalica,
}
