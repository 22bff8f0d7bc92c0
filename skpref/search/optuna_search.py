"""`OptunaSearch`: the loop of all searches on the surface of scikit-learn's."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import joblib
import numpy as np
from joblib import effective_n_jobs
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator, is_classifier
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import BaseCrossValidator, check_cv
from sklearn.model_selection._search import BaseSearchCV
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from skpref._doc_link import doc_link
from skpref._text import error_line
from skpref._validation import check_structure
from skpref._warn import warn
from skpref.exceptions import DataError
from skpref.search.default_spaces import Distributions, check_distributions, check_names, default_space
from skpref.search.evaluation import STATES, Evaluation, Folds, Gathered, TrialRecord, blank, records_of, score_of
from skpref.search.loop import enqueue_first, open_study, require_optuna, run_trials
from skpref.search.policy import POLICY
from skpref.search.pruner import RacingPruner
from skpref.search.sampler import ERROR
from skpref.search.sharing import has_ended, locked, readable

_KEY = "skpref:key"  # attribute of a study: digest of estimator and data


class OptunaSearch(BaseSearchCV):
    """Hyperparameter search by cross-validation (Bayesian optimisation), with early stopping of poor trials.

    It is used like scikit-learn's `RandomizedSearchCV`, and runs trials of Optuna that learn from earlier trials. All
    trials have the same folds. A trial that is clearly worse than the best one on the same folds, or during a fit, is
    pruned. With `storage`, a search that was killed resumes at the next `fit` to the same data, and ends with the same
    trials as if it had not been killed.

    Parameters
    ----------
    estimator : estimator
        Template; it is cloned. It needs a method `score`, or `scoring` must be given.
    param_distributions : dict of str or "default", default="default"
        For each parameter by name (``step__parameter`` in a Pipeline): a list of values, a distribution of
        `scipy.stats`, a `LogInteger`, or a distribution of optuna. "default": see `default_space`. A dict works for any
        estimator.
    n_trials : int or None, default=30
        Number of trials of the study, including those of earlier runs and of other processes. If the space has only
        lists, there are at most as many trials as settings. None: until `timeout`.
    timeout : float, default=None
        Seconds after which no further trial begins. None: no limit.
    scoring : str, callable, list, tuple or dict, default=None
        What is maximised on the held-out rows. None: the estimator's `score`. A name of scikit-learn's such as
        "neg_log_loss"; a function of (estimator, X, y) that returns a number; or several metrics, as a list of names
        or a dict of names and functions: then `refit` names the one that is maximised.
    cv : int, splitter or iterable, default=None
        An int: the number of folds, stratified for a classifier. A splitter of scikit-learn, or `WithinUserKFold`. Or
        pairs of training and test rows. None: 5 folds.
    refit : bool, str or callable, default=True
        Whether to fit the best parameters to all rows at the end, as `best_estimator_`. With several metrics, the name
        of the one that is maximised. A function takes `cv_results_` and returns the index of the best trial.
    sampler : optuna sampler, default=None
        None: after eight trials that are spread over the space, a Gaussian process over all trials so far, including
        pruned ones, chooses the next trial; see Notes.
    pruner : optuna pruner, "racing" or None, default="racing"
        When to prune a trial; None: never. "racing": when the trial is clearly worse than the best one. Complete trials
        show how much such a gap still changes until the end. A trial is pruned if its gap is larger than that, by
        Student's t at the 10 % level after a fold and at the 5 % level inside a fit; see Notes. Trials are compared
        after each fold. If folds run one at a time, they are also compared once during the first fit, after a quarter
        of its iterations (for a chain that is still in its burn-in, after the next quarter): the estimator is then
        scored on the test part as if its fit had ended. This needs scikit-learn 1.9 and a fit that reports its state:
        `GibbsM3F`, `GibbsIPM3F` and the factorization machines, alone or as the last step of a Pipeline. It does not
        change a fit.
    storage : path-like, str or optuna storage, default=None
        Where the study is kept: a file (a journal, which several processes may share), the address of a database such
        as ``postgresql://...``, or optuna's own. None: in memory.
    study_name : str, default=None
        Name of the study in the storage; None: "skpref".
    n_jobs : int, default=None
        Number of folds of a trial that run at the same time; -1: as many as there are processors. Trials run one after
        the other, because each learns from the earlier ones. To run several at once, start several processes with one
        `storage`, each with its own seed.
    error_score : "raise" or float, default=nan
        Score of a trial that raised; "raise" ends the search.
    callbacks : list of callable, default=None
        Functions that are called with (study, trial) after every trial, as in optuna.
    random_state : int, RandomState or None, default=None
        Seed of the sampler.
    verbose : int, default=0
        1: one line per trial, with the best score so far and the time left. 2 or more: also the lines of scikit-learn
        for each fold.
    return_train_score : bool, default=False
        Whether to score the training parts, too.

    Attributes
    ----------
    study_ : optuna.Study
        With all trials.
    cv_results_ : dict of str to ndarray
        A row for each trial, with the columns of `RandomizedSearchCV` (``params``, ``mean_test_score``,
        ``split0_test_score``, ``mean_fit_time``, ...) and ``state``: "complete", "pruned" or "failed". Folds that were
        not finished have NaN, and so has the mean of a pruned trial; its intermediate values are in ``study_.trials``.
        Those of a failed trial have `error_score`.
    best_estimator_ : estimator
        Fitted to all rows with the best parameters; only with `refit`.
    best_params_ : dict of str
        The best parameters.
    best_score_ : float
        Mean score of the best trial over the folds.
    best_index_ : int
        Row of the best trial in `cv_results_`.
    scorer_ : callable or dict of callable
        Function that scores the held-out rows.
    n_splits_ : int
        Number of folds.
    refit_time_ : float
        Seconds of the final fit.
    multimetric_ : bool
        Whether there are several metrics.

    See Also
    --------
    default_space : What is searched by default.
    WithinUserKFold : Splitter for known users, who have rows in the training part.

    Notes
    -----
    The first trial of a study has the estimator's own parameters, as far as the space contains them. After eight, a
    trial has the largest expected improvement [2]_ under a Gaussian process with a length-scale for each parameter. If
    `n_trials` is None, the expected improvement is divided by the expected duration of a trial. Otherwise a search does
    not depend on the clock, and the same `random_state` gives the same trials.

    A pruner gets the mean score over the finished folds: after k folds as step 4 k, and during the first fit as step 1,
    2 or 3. Racing follows Maron and Moore [1]_. All trials have the same folds, so after a few folds the difference of
    two trials is more certain than either score. Racing begins with the third trial.

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
    _get_doc_link = doc_link

    def __init__(
        self,
        estimator: BaseEstimator,
        param_distributions: Mapping[str, Any] | str = "default",
        *,
        n_trials: int | None = 30,
        timeout: float | None = None,
        scoring: str | Callable[..., Any] | Iterable[str] | Mapping[str, Any] | None = None,
        cv: int | BaseCrossValidator | Iterable[Any] | None = None,
        refit: bool | str | Callable[[Any], int] = True,
        sampler: Any = None,
        pruner: Any = "racing",
        storage: str | os.PathLike[str] | Any = None,
        study_name: str | None = None,
        n_jobs: int | None = None,
        error_score: float | str = np.nan,
        callbacks: Sequence[Callable[[Any, Any], None]] | None = None,
        random_state: int | np.random.RandomState | None = None,
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
        """How many folds are sent out at the same time: all."""
        return "all"

    def fit(self, X: ArrayLike, y: ArrayLike | None = None, **params: Any) -> Self:
        """Run the trials, and fit the best parameters to everything.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows.
        y : array-like of shape (n,), default=None
            Targets.
        **params : dict of str to object
            Arguments of the estimator's `fit`, such as `sample_weight`: arrays with as many rows as X are split with
            it. `groups` go to the splitter. With scikit-learn's metadata routing enabled, they are routed.

        Returns
        -------
        OptunaSearch
            Itself, fitted. After Ctrl-C it keeps `study_` and `cv_results_`.

        Raises
        ------
        ValueError
            If all trials failed or were pruned, a parameter is wrong or the estimator does not have it, the study in
            the storage is of other data, or the storage failed.
        """
        require_optuna()
        self._check_settings()
        if sparse.issparse(X):
            check_structure(X)  # folds are cut out of it before an estimator looks at it
        # The digest takes time, and only a storage needs it.
        key = None if self.storage is None else joblib.hash([self.estimator, X, y])
        self._gathered = Gathered(key, X, y, params.get("groups"))
        try:
            return super().fit(X, y, **params)
        except KeyboardInterrupt:
            self._keep_trials()
            raise
        finally:
            del self._gathered

    def _keep_trials(self) -> None:
        """Keep the trials of an interrupted search, and nothing of an earlier one."""
        gathered = self._gathered
        for name in ("best_estimator_", "best_index_", "best_params_", "best_score_", "cv_results_", "study_"):
            self.__dict__.pop(name, None)
        if gathered.study is not None:
            self.study_ = gathered.study
            rows = records_of(gathered.study, gathered.space, self.n_splits_)
            if rows and gathered.out:
                self.cv_results_ = self._whole_results(rows, gathered.out[0])

    def _check_settings(self) -> None:
        if self.n_trials is None and self.timeout is None:
            raise DataError("n_trials and timeout are both None: the search would never end; set one of them.")
        wanted = {
            "sampler": ("sample_relative", "a sampler of optuna, such as optuna.samplers.RandomSampler(), or None"),
            "pruner": ("prune", "'racing', a pruner of optuna, such as optuna.pruners.MedianPruner(), or None"),
            "storage": ("create_new_study", "a file, the address of a database, a storage of optuna, or None"),
        }
        for name, (method, what) in wanted.items():
            value = getattr(self, name)
            by_name = {"pruner": value == "racing", "storage": isinstance(value, str | os.PathLike)}.get(name, False)
            if not (value is None or by_name or (hasattr(value, method) and not isinstance(value, type))):
                raise DataError(f"{name} must be {what}; got {value!r}.")
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
        splitter, gathered = getattr(self, "_checked_cv_orig", None), self._gathered
        is_old = splitter is None
        if is_old:  # scikit-learn 1.8 counts folds later, and wants all at once: nothing to prune between them
            splitter = check_cv(self.cv, gathered.y, classifier=is_classifier(self.estimator))
            self.n_splits_ = splitter.get_n_splits(gathered.X, gathered.y, gathered.groups)
        n_splits = self.n_splits_
        if not n_splits:
            raise DataError(f"cv={self.cv!r} has no folds; give a number, a splitter, or a list of (train, test).")
        space, lock = self._space(gathered.y), self._lock()
        hint = "trials that ended before are kept there: with the storage back, the same search resumes"
        with readable(self.storage, "failed", hint), locked(lock):
            study = self._study(space, gathered.key, lock)
        gathered.study, gathered.space = study, space
        at_once = n_splits if is_old else min(effective_n_jobs(self.n_jobs), n_splits)
        evaluation = Evaluation(self, gathered, space, evaluate_candidates, Folds(splitter), at_once, callback_ctx)
        finished = None
        try:
            with readable(self.storage, "failed", hint):
                self._run_trials(study, space, evaluation, lock)
                rows = records_of(study, space, n_splits)
            self._require_a_fit(rows, evaluation)
            finished = study
        finally:
            self.n_splits_ = n_splits
            evaluation.contexts.end(finished)
        gathered.formatted.update(self._whole_results(rows, gathered.out[0]))
        self.study_ = study

    def _run_trials(self, study: Any, space: Distributions, evaluation: Evaluation, lock: str | None) -> None:
        """Run trials until enough have ended, or time is up."""
        n_trials = self.n_trials
        if n_trials is not None:
            n_trials = len(space.points(n_trials)) or n_trials

        began, numbers = time.monotonic(), count(1)

        def ended(trial: Any) -> None:
            n_run, seconds, state = next(numbers), time.monotonic() - began, STATES[trial.state.name]
            if self.verbose:
                failed = state == "failed"
                result = error_line(trial.user_attrs[ERROR]) if failed else f"score {score_of(trial):.4f}"
                trials = study.get_trials(deepcopy=False)
                best = max((trial.value for trial in trials if trial.state.name == "COMPLETE"), default=float("nan"))
                left = [] if n_trials is None else [max(n_trials - sum(map(has_ended, trials)), 0) * seconds / n_run]
                left += [] if self.timeout is None else [max(self.timeout - seconds, 0.0)]
                took = trial.duration.total_seconds()
                text = f"trial {trial.number}: {state}, {result}, {took:.1f} s; best {best:.4f}"
                print(f"{text}, ETA {min(left):.0f} s")  # noqa: T201
            for callback in self.callbacks or ():
                callback(study, trial)

        catch = () if self.error_score == "raise" else (Exception,)
        limits: dict[str, Any] = {"n_trials": n_trials, "timeout": self.timeout}
        run_trials(study, evaluation.run_trial, catch=catch, on_trial=ended, lock=lock, **limits)

    def _require_a_fit(self, rows: list[TrialRecord], evaluation: Evaluation) -> None:
        """Complain where every trial failed; fit one fold where all trials are of an earlier run."""
        complete = [row for row in rows if row.state == "complete"]
        if not complete and any(row.state == "pruned" for row in rows):
            raise DataError(f"none of {len(rows)} trials is complete: pruner={self.pruner!r} pruned too many of them")
        if self._gathered.out:  # where fits worked but scores are NaN, the refit raises, as in scikit-learn's searches
            return
        if not complete:
            error = next((row.error for row in rows if row.error), "none")
            msg = f"none of {len(rows)} trials succeeded; the first error was: {error}"
            raise DataError(f"{msg}; error_score='raise' gives its traceback")
        best = max(complete, key=lambda row: row.score)
        evaluation.evaluate(best.settings, range(1), {})  # scikit-learn takes the names of scores from a fold

    def _get_scorers(self) -> Any:
        """Keep the scorers of scikit-learn, to score unfinished fits with them."""
        scorers = super()._get_scorers()
        self._gathered.scorers = scorers[0]
        return scorers

    def _get_routed_params_for_fit(self, params: Any) -> Any:
        """Keep the parameters that scikit-learn passes to scorers."""
        routed = super()._get_routed_params_for_fit(params)
        self._gathered.score_params = routed.scorer.score
        return routed

    def _space(self, y: ArrayLike | None = None) -> Distributions:
        space = self.param_distributions
        space = default_space(self.estimator, y) if isinstance(space, str) else space
        check_distributions(space)
        check_names(space, self.estimator)
        return Distributions(space, self.estimator.get_params())

    def _name(self) -> str | None:
        return self.study_name or ("skpref" if self.storage is not None else None)

    def _lock(self) -> str | None:
        """Return the name of the lock of a study that other processes may have, too."""
        in_memory = self.storage is None or type(self.storage).__name__ == "InMemoryStorage"
        return None if in_memory else self._name()

    def _study(self, space: Distributions, key: str | None, lock: str | None) -> Any:
        name = self._name()
        random_state = check_random_state(self.random_state)
        seed = None if self.random_state is None else int(random_state.randint(np.iinfo(np.int32).max))
        pruner = RacingPruner(POLICY.parts) if self.pruner == "racing" else self.pruner
        timed = self.n_trials is None and self.timeout is not None
        more: dict[str, Any] = {"seed": seed, "direction": "maximize", "per_second": timed}
        study = open_study(name, storage=self.storage, sampler=self.sampler, pruner=pruner, **more)
        # Trials that were added to a study by hand are taken to be of this estimator and these data.
        if study.user_attrs.get(_KEY, key) != key:
            msg = f"the study {name!r} in storage={self.storage!r} is of another estimator or other data;"
            raise DataError(f"{msg} give another study_name, or another storage.")
        if _KEY not in study.user_attrs:
            study.set_user_attr(_KEY, key)
        enqueue_first(study, space, self.n_trials, lock)
        return study

    # ----------------------------------------------------------------- results

    def _whole_results(self, rows: list[TrialRecord], example: dict[str, Any]) -> dict[str, Any]:
        """Return scikit-learn's table of all trials, with NaN for the folds that were not run."""
        n_failed = sum(row.state == "failed" for row in rows)
        if n_failed:
            warn(f"{n_failed} of {len(rows)} trials failed; their scores are {self.error_score}.", FitFailedWarning)
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
        """Keep the results of the folds; the table is made once, at the end."""
        del candidate_params, n_splits, more_results
        self._gathered.out = out
        self._gathered.formatted = {}
        return self._gathered.formatted
