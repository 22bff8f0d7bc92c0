"""`OptunaSearch`: the loop of all searches on the surface of scikit-learn's."""

from __future__ import annotations

import os
import warnings
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Self

import joblib
import numpy as np
from joblib import effective_n_jobs
from sklearn.base import is_classifier
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import check_cv
from sklearn.model_selection._search import BaseSearchCV
from sklearn.model_selection._validation import _score
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.validation import _check_method_params

from skpref.exceptions import DataError
from skpref.search.contexts import PARTS, Contexts, Watch
from skpref.search.default_spaces import Distributions, check_distributions, default_space
from skpref.search.loop import Step, Work, enqueue_first, open_study, require_optuna, run_trials
from skpref.search.outcomes import Folds, Gathered, Row, blank, has_ended, in_a_line, none_succeeded, plain
from skpref.search.pruner import RacingPruner

if TYPE_CHECKING:
    from collections.abc import Callable

    from skpref.search.loop import SearchResult, Settings, Tell, TrialRecord

_FOLD = "skpref:fold{}"  # of a trial in a study: what came out of one fold
_KEY = "skpref:key"  # of a study: digest of estimator and data
_STATES = {"COMPLETE": "complete", "PRUNED": "pruned", "FAIL": "failed"}


class OptunaSearch(BaseSearchCV):
    """Search for the parameters of an estimator by cross-validation, each trial with an eye on those before.

    The surface is that of scikit-learn's `RandomizedSearchCV`, the trials are Optuna's. All trials have the same folds.
    A trial that is clearly behind the best one after as many folds, or inside a fit, is given up. Finished trials
    survive a process that is killed if `storage` is given: the next `fit` to the same data goes on from there.

    Parameters
    ----------
    estimator : estimator
        Template; it is cloned.
    param_distributions : dict of str or "default", default="default"
        By the parameter's name (``step__parameter`` in a Pipeline): a list of values, a distribution of `scipy.stats`,
        a `LogInteger`, or a distribution of optuna. "default": see `default_space`. A dict holds for any estimator.
    n_trials : int or None, default=30
        Trials of the study, those of earlier runs and of other processes included; fewer where a space of lists has no
        more to try. None: until `timeout`.
    timeout : float, default=None
        Seconds after which no further trial begins. None: no limit.
    scoring : str, callable, list, tuple or dict, default=None
        As in `RandomizedSearchCV`. Of several metrics, `refit` names the one that is maximised.
    cv : int, splitter or iterable, default=None
        As in `RandomizedSearchCV`.
    refit : bool, str or callable, default=True
        As in `RandomizedSearchCV`.
    sampler : optuna sampler, default=None
        None: after eight trials that are spread over the space, a Gaussian process over all trials so far says what is
        worth trying, those that were given up included; see Notes.
    pruner : optuna pruner, "racing" or None, default="racing"
        When to give up a trial; None: never. "racing": when it is further behind the best one than differences to the
        best one moved in its complete rivals, from there to their end (by Student's t, at the 10 % level after a fold
        and at the 5 % level inside a fit); see Notes. Trials are compared after each fold and, where folds run one at a
        time, once inside the first fit, at a quarter of its iterations (where a chain is in its burn-in then, at the
        next quarter): there, the estimator is scored on the test part as if its fit had ended. That needs scikit-learn
        1.9 and a fit that tells what it has so far: `GibbsM3F`, `GibbsIPM3F` and the factorization machines do, by
        themselves or as the last step of a Pipeline. Looking does not change a fit.
    storage : path-like, str or optuna storage, default=None
        Where the study is kept: a file (a journal, which several processes may share), the address of a database such
        as ``postgresql://...``, or optuna's own. None: in memory.
    study_name : str, default=None
        Name of the study in the storage; None: "skpref".
    n_jobs : int, default=None
        Folds of a trial at the same time, as in `RandomizedSearchCV`. Trials come one after the other, since each
        learns from those before; for more, start several processes with one `storage`, each with its own seed.
    error_score : "raise" or float, default=nan
        Score of a trial that raised; "raise" ends the search.
    callbacks : list of callable, default=None
        Each is called with (study, trial) after every trial, as optuna's are.
    random_state : int, RandomState or None, default=None
        Seed of the sampler.
    verbose : int, default=0
        1: a line a trial; from 2 on, scikit-learn's lines of each fold, too.
    return_train_score : bool, default=False
        Whether to score the training parts, too.

    Attributes
    ----------
    study_ : optuna.Study
        With all trials.
    cv_results_ : dict of str to ndarray
        As in `RandomizedSearchCV`, a row a trial; ``state`` is "complete", "pruned" or "failed". Folds that were not
        finished have NaN, and so has the mean of a pruned trial; how far it had come is in its ``study_.trials``. Those
        of a failed trial have `error_score`.
    best_estimator_, best_params_, best_score_, best_index_, scorer_, n_splits_, refit_time_, multimetric_
        As in `RandomizedSearchCV`.

    See Also
    --------
    default_space : What is searched by default.

    Notes
    -----
    The first trial of a study has the estimator's own parameters, as far as the space holds them. After eight, a trial
    has the largest expected improvement [2]_ under a Gaussian process with a length-scale for each parameter. Where
    `n_trials` is None, so that time is what is short, improvements count by the second that a trial is expected to
    take; otherwise a search does not depend on the clock, and the same `random_state` gives the same trials.

    A pruner is told the mean score over the folds that were run: after k folds as step 4 k, and by the look into the
    first fit as step 1, 2 or 3. Racing is after Maron and Moore [1]_: since folds are the same for all trials, the
    difference of two of them says more after a few folds than the value of either. It begins with the third trial.

    References
    ----------
    .. [1] O. Maron and A. W. Moore (1997). The racing algorithm: model selection for lazy learners. Artificial
       Intelligence Review 11, 193-225.
    .. [2] D. R. Jones, M. Schonlau and W. J. Welch (1998). Efficient global optimization of expensive black-box
       functions. Journal of Global Optimization 13, 455-492.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.svm import SVC
    >>> from scipy.stats import loguniform
    >>> from skpref.search import OptunaSearch
    >>> X, y = load_iris(return_X_y=True)
    >>> search = OptunaSearch(SVC(), {"C": loguniform(0.01, 100)}, n_trials=3, random_state=0).fit(X, y)
    >>> bool(search.best_score_ > 0.9), search.cv_results_["params"][0]
    (True, {'C': 1.0})
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BaseSearchCV._parameter_constraints,  # noqa: SLF001 - as scikit-learn's own searches do
        "param_distributions": [StrOptions({"default"}), dict],
        "n_trials": [Interval(Integral, 1, None, closed="left"), None],
        "timeout": [Interval(Real, 0.0, None, closed="neither"), None],
        "sampler": "no_validation",
        "pruner": "no_validation",
        "storage": "no_validation",
        "study_name": [str, None],
        "callbacks": [list, tuple, None],
        "random_state": ["random_state"],
    }
    del _parameter_constraints["pre_dispatch"]

    n_splits_: int

    def __init__(
        self,
        estimator: Any,
        param_distributions: Any = "default",
        *,
        n_trials: int | None = 30,
        timeout: float | None = None,
        scoring: Any = None,
        cv: Any = None,
        refit: Any = True,
        sampler: Any = None,
        pruner: Any = "racing",
        storage: Any = None,
        study_name: str | None = None,
        n_jobs: int | None = None,
        error_score: Any = np.nan,
        callbacks: Any = None,
        random_state: Any = None,
        verbose: int = 0,
        return_train_score: bool = False,
    ) -> None:
        self.estimator = estimator
        self.param_distributions = param_distributions
        self.n_trials = n_trials
        self.timeout = timeout
        self.scoring = scoring
        self.cv = cv
        self.refit = refit
        self.sampler = sampler
        self.pruner = pruner
        self.storage = storage
        self.study_name = study_name
        self.n_jobs = n_jobs
        self.error_score = error_score
        self.callbacks = callbacks
        self.random_state = random_state
        self.verbose = verbose
        self.return_train_score = return_train_score

    @property
    def pre_dispatch(self) -> str:
        """How many folds are sent out at the same time: all of them."""
        return "all"

    def fit(self, X: Any, y: Any = None, **params: Any) -> Self:
        """Run the trials, and fit the best parameters to everything.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows.
        y : array-like of shape (n,), default=None
            Targets.
        **params : dict of str to object
            As in `RandomizedSearchCV`: sliced by fold where as long as X, or routed.

        Returns
        -------
        OptunaSearch
            Itself, fitted.

        Raises
        ------
        ValueError
            If all trials failed, the space is none, or the study in the storage is of other data.
        """
        require_optuna()
        self._check_settings()
        # Asked for by a storage only: it takes time.
        key = None if self.storage is None else joblib.hash([self.estimator, X, y])
        self._gathered = Gathered(key, X, y)
        try:
            return super().fit(X, y, **params)
        finally:
            del self._gathered

    def _check_settings(self) -> None:
        if self.n_trials is None and self.timeout is None:
            raise DataError("n_trials and timeout are both None: the search would never end; set one of them.")
        wanted = {
            "sampler": ("sample_relative", "a sampler of optuna, such as optuna.samplers.RandomSampler(), or None"),
            "pruner": ("prune", "'racing', a pruner of optuna, such as optuna.pruners.MedianPruner(), or None"),
            "storage": ("create_new_study", "a file, the address of a database, a storage of optuna, or None"),
        }
        for name, (method, what) in wanted.items():
            given = getattr(self, name)
            known = {"pruner": given == "racing", "storage": isinstance(given, str | os.PathLike)}.get(name, False)
            if not (given is None or known or (hasattr(given, method) and not isinstance(given, type))):
                raise DataError(f"{name} must be {what}; got {given!r}.")
        for callback in self.callbacks or ():
            if not callable(callback):
                raise DataError(f"callbacks must be functions of (study, trial); got {callback!r} among them.")
        if isinstance(self.scoring, list | tuple | set | dict) and not isinstance(self.refit, str):
            msg = (
                f"refit must name the metric of {list(self.scoring)} that is to be maximised; got refit={self.refit!r}."
            )
            raise DataError(msg)

    # ------------------------------------------------------------------ trials

    def _run_search(self, evaluate_candidates: Callable[..., Any], *, callback_ctx: Any = None) -> None:
        space, n_splits, gathered = self._space(), self.n_splits_, self._gathered
        if not n_splits:
            raise DataError(f"cv={self.cv!r} has no folds; give a number, a splitter, or a list of (train, test).")
        study = self._study(space, gathered.key)
        # scikit-learn 1.8 wants all folds at once; then there is nothing to give up between them.
        splitter = getattr(self, "_checked_cv_orig", None)
        at_once = n_splits if splitter is None else min(effective_n_jobs(self.n_jobs), n_splits)
        looks = self.pruner is not None and at_once == 1 and callback_ctx is not None
        folds = Folds(splitter or check_cv(self.cv, gathered.y, classifier=is_classifier(self.estimator)))
        contexts = Contexts(self, callback_ctx)

        def evaluated(settings: Settings, wanted: range, context: dict[str, Any]) -> list[dict[str, Any]]:
            folds.wanted, self.n_splits_ = wanted, len(wanted)
            verbose, self.verbose = self.verbose, 0  # no line for each call of it
            try:
                evaluate_candidates([settings], cv=folds, **context)
            finally:
                self.verbose = verbose
            return gathered.out[-len(wanted) :]

        def run(trial: Any, settings: Settings, tell: Tell) -> None:
            with contexts.trial(trial.number, settings) as task:
                for first in range(0, n_splits, at_once):
                    wanted = range(first, min(first + at_once, n_splits))
                    # Later folds are not looked into: what survives the first is seldom poor, and looks cost time.
                    watch = Watch(self._look(folds, tell)) if looks and first == 0 else None
                    with task.folds(len(wanted), watch) as context:
                        outs = evaluated(settings, wanted, context)
                    if watch is not None and watch.stopped:
                        task.pruned = True
                        return
                    for fold, out in zip(wanted, outs, strict=True):
                        trial.set_user_attr(_FOLD.format(fold), plain(out))
                        score = self._score_of(out)
                        task.add(out)
                        task.pruned |= tell(Step(fold, -score, PARTS * (fold + 1)))
                    if task.pruned:
                        return

        catch = () if self.error_score == "raise" else (Exception,)
        work = Work(space, run, PARTS * n_splits, catch=catch, sign=-1.0)
        learnt = None
        try:
            few = None if self.n_trials is None else len(space.points(self.n_trials))
            result = self._trials(study, work, few or self.n_trials)
            rows = self._rows(study, space, n_splits)
            # Where fits worked but scores are NaN, the refit tells why, as in scikit-learn's searches.
            if not gathered.out and not any(row.state == "complete" for row in rows):
                raise DataError(none_succeeded(result, len(rows)))
            if not gathered.out:  # all trials are of an earlier run, but scikit-learn wants to have seen a fold
                best = max((row for row in rows if row.state == "complete"), key=lambda row: row.score)
                evaluated(best.settings, range(1), {})
            learnt = study
        finally:
            self.n_splits_ = n_splits
            contexts.end(learnt)
        gathered.formatted.update(self._whole_results(rows, gathered.out[0]))
        self.study_ = study

    def _look(self, folds: Folds, tell: Tell) -> Callable[[Any, int], bool]:
        """What scores an estimator, as if its fit had ended now, on the test part of the first fold."""
        X, y, scorers, params = self._gathered.scoring()

        def look(estimator: Any, parts: int) -> bool:
            train, test = folds.rows(0)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the finished fit says it again
                held = _safe_split(estimator, X, y, test, train)
                of_rows = _check_method_params(X, params=params, indices=test)
                out = {"test_scores": _score(estimator, *held, scorers, of_rows, float("nan"))}
            try:
                loss = -self._score_of(out)
            except DataError:  # nothing can be said yet
                return False
            return tell(Step(0, loss, parts))

        return look

    def _get_scorers(self) -> Any:
        """Keep what scikit-learn scores with, to look into fits with the same."""
        found = super()._get_scorers()
        self._gathered.scorers = found[0]
        return found

    def _get_routed_params_for_fit(self, params: Any) -> Any:
        """Keep what scikit-learn hands to scorers."""
        found = super()._get_routed_params_for_fit(params)
        self._gathered.score_params = found.scorer.score
        return found

    def _space(self) -> Distributions:
        given = self.param_distributions
        given = default_space(self.estimator) if isinstance(given, str) else given
        check_distributions(given)
        return Distributions(given, self.estimator.get_params())

    def _study(self, space: Distributions, key: str | None) -> Any:
        name = self.study_name or ("skpref" if self.storage is not None else None)
        random_state = check_random_state(self.random_state)
        seed = None if self.random_state is None else int(random_state.randint(np.iinfo(np.int32).max))
        pruner = RacingPruner(PARTS) if self.pruner == "racing" else self.pruner
        timed = self.n_trials is None and self.timeout is not None
        options = {"storage": self.storage, "pruner": pruner, "direction": "maximize", "per_second": timed}
        study = open_study(name, sampler=self.sampler, seed=seed, **options)
        n_before = len(study.get_trials(deepcopy=False))
        if not n_before:
            study.set_user_attr(_KEY, key)
            enqueue_first(study, space, self.n_trials)
        elif study.user_attrs.get(_KEY) != key:
            msg = f"the study {name!r} in storage={self.storage!r} is of another estimator or other data;"
            raise DataError(f"{msg} give another study_name, or another storage.")
        return study

    def _trials(self, study: Any, work: Work, n_trials: int | None) -> SearchResult:
        def enough() -> bool:
            return n_trials is not None and sum(map(has_ended, study.get_trials(deepcopy=False))) >= n_trials

        def tell(record: TrialRecord) -> None:
            if self.verbose:
                score = f"{-record.score:.4f}" if record.state != "failed" else in_a_line(record.error)
                print(f"trial {record.number}: {record.state}, score {score}, {record.seconds:.1f} s")  # noqa: T201
            for callback in self.callbacks or ():
                callback(study, study.get_trials(deepcopy=False)[record.number])

        result = run_trials(study, work, n_trials=None, timeout=self.timeout, on_trial=tell, enough=enough)
        if result.interrupted:
            raise KeyboardInterrupt
        return result

    def _score_of(self, out: dict[str, Any]) -> float:
        scores = out["test_scores"]
        if isinstance(scores, dict):
            if not isinstance(self.refit, str) or self.refit not in scores:
                raise DataError(f"refit must name one of the metrics {sorted(scores)}; got refit={self.refit!r}.")
            scores = scores[self.refit]
        if not np.isfinite(scores):
            raise DataError(f"the score of a fold is {scores}")
        return float(scores)

    # ----------------------------------------------------------------- results

    def _rows(self, study: Any, space: Distributions, n_splits: int) -> list[Row]:
        """All trials of the study that ended, those of other runs and processes too."""
        from optuna.trial import FixedTrial

        rows = []
        for trial in study.get_trials(deepcopy=False):
            if not has_ended(trial) or not trial.params:
                continue
            outs = [trial.user_attrs.get(_FOLD.format(fold)) for fold in range(n_splits)]
            state = _STATES[trial.state.name]
            score = trial.value if state == "complete" else float("nan")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                settings = space.suggest(FixedTrial(trial.params))
            rows.append(Row(settings, state, outs, score))
        return rows

    def _whole_results(self, rows: list[Row], example: dict[str, Any]) -> dict[str, Any]:
        """What scikit-learn makes of all folds of all trials, with blanks where there are none."""
        n_failed = sum(row.state == "failed" for row in rows)
        if n_failed:
            msg = f"{n_failed} of {len(rows)} trials failed; their scores are {self.error_score}."
            warnings.warn(msg, FitFailedWarning, stacklevel=5)
        outs = [
            blank(example, self.error_score if row.state == "failed" else float("nan"))
            if out is None or row.state == "failed"
            else {**example, **out}
            for row in rows
            for out in row.outs
        ]
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="One or more of the", category=UserWarning)
            more = {"state": [row.state for row in rows]}
            settings = [row.settings for row in rows]
            return dict(super()._format_results(settings, self.n_splits_, outs, more))

    def _format_results(
        self, candidate_params: list[Any], n_splits: int, out: list[dict[str, Any]], more_results: Any = None
    ) -> dict[str, Any]:
        """Keep what came out of the folds; the table is made once, at the end."""
        del candidate_params, n_splits, more_results
        self._gathered.out = out
        self._gathered.formatted = {}
        return self._gathered.formatted
