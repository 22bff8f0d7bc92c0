"""`OptunaSearch`: the loop of all searches on the surface of scikit-learn's."""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import joblib
import numpy as np
from joblib import effective_n_jobs
from sklearn.base import is_classifier
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import check_cv
from sklearn.model_selection._search import BaseSearchCV
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from skpref.exceptions import DataError
from skpref.search._default_spaces import Distributions, check_distributions, default_space
from skpref.search._loop import ERROR, Step, Work, enqueue_first, open_study, require_optuna, run_trials

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from skpref.search._loop import SearchResult, Settings, TrialRecord

_FOLD = "skpref:fold{}"  # of a trial in a study: what came out of one fold
_KEY = "skpref:key"  # of a study: digest of estimator and data
_STATES = {"COMPLETE": "complete", "PRUNED": "pruned", "FAIL": "failed"}
_KEPT = ("test_scores", "train_scores", "fit_time", "score_time", "n_test_samples")


class OptunaSearch(BaseSearchCV):
    """Search for the parameters of an estimator by cross-validation, each trial with an eye on those before.

    The surface is that of scikit-learn's `RandomizedSearchCV`, the trials are Optuna's. All trials have the same folds.
    A trial whose mean score over the folds so far is below the median of the earlier ones is given up. Finished trials
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
        None: the tree-structured Parzen estimator, after eight trials at random.
    pruner : optuna pruner, "median" or None, default="median"
        When to give up a trial between two folds, once five have been finished; None: never.
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
        From 1 on, a line a trial, beside what scikit-learn prints.
    return_train_score : bool, default=False
        Whether to score the training parts, too.

    Attributes
    ----------
    study_ : optuna.Study
        With all trials.
    cv_results_ : dict of str to ndarray
        As in `RandomizedSearchCV`, a row a trial; ``state`` is "complete", "pruned" or "failed". Folds that were not
        run have NaN.
    best_estimator_, best_params_, best_score_, best_index_, scorer_, n_splits_, refit_time_, multimetric_
        As in `RandomizedSearchCV`.

    See Also
    --------
    default_space : What is searched by default.

    Notes
    -----
    The first trial of a study has the estimator's own parameters, as far as the space holds them.

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
        pruner: Any = "median",
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
        self._gathered = _Gathered(key, X, y)
        try:
            return super().fit(X, y, **params)
        finally:
            del self._gathered

    def _check_settings(self) -> None:
        if self.n_trials is None and self.timeout is None:
            raise DataError("n_trials and timeout are both None: the search would never end; set one of them.")
        if isinstance(self.scoring, list | tuple | set | dict) and not isinstance(self.refit, str):
            msg = (
                f"refit must name the metric of {list(self.scoring)} that is to be maximised; got refit={self.refit!r}."
            )
            raise DataError(msg)

    # ------------------------------------------------------------------ trials

    def _run_search(self, evaluate_candidates: Callable[..., Any], *, callback_ctx: Any = None) -> None:
        space, n_splits, gathered = self._space(), self.n_splits_, self._gathered
        study = self._study(space, gathered.key)
        # scikit-learn 1.8 wants all folds at once; then there is nothing to give up between them.
        splitter = getattr(self, "_checked_cv_orig", None)
        at_once = n_splits if splitter is None else min(effective_n_jobs(self.n_jobs), n_splits)
        folds = _Folds(splitter or check_cv(self.cv, gathered.y, classifier=is_classifier(self.estimator)))
        context = _Context(self, callback_ctx)

        def evaluated(settings: Settings, wanted: range) -> list[dict[str, Any]]:
            folds.wanted, self.n_splits_ = wanted, len(wanted)
            with context.of(len(wanted)) as inner:
                more = {} if inner is None else {"callback_ctx": inner}
                evaluate_candidates([settings], cv=folds, **more)
            return gathered.out[-len(wanted) :]

        def steps(trial: Any, settings: Settings) -> Iterator[Step]:
            for first in range(0, n_splits, at_once):
                wanted = range(first, min(first + at_once, n_splits))
                for fold, out in zip(wanted, evaluated(settings, wanted), strict=True):
                    trial.set_user_attr(_FOLD.format(fold), _plain(out))
                    yield Step(fold, -self._score_of(out))

        work = Work(space, steps, n_splits, catch=() if self.error_score == "raise" else (Exception,), sign=-1.0)
        try:
            few = None if self.n_trials is None else len(space.points(self.n_trials))
            result = self._trials(study, work, few or self.n_trials)
            rows = self._rows(study, space, n_splits)
            # Where fits worked but scores are NaN, the refit tells why, as in scikit-learn's searches.
            if not gathered.out and not any(row.state == "complete" for row in rows):
                raise DataError(_none_succeeded(result, len(rows)))
            if not gathered.out:  # all trials are of an earlier run, but scikit-learn wants to have seen a fold
                best = max((row for row in rows if row.state == "complete"), key=lambda row: row.score)
                evaluated(best.settings, range(1))
        finally:
            self.n_splits_ = n_splits
            context.end()
        gathered.formatted.update(self._whole_results(rows, gathered.out[0]))
        self.study_ = study

    def _space(self) -> Distributions:
        given = self.param_distributions
        given = default_space(self.estimator) if isinstance(given, str) else given
        check_distributions(given)
        return Distributions(given, self.estimator.get_params())

    def _study(self, space: Distributions, key: str | None) -> Any:
        name = self.study_name or ("skpref" if self.storage is not None else None)
        random_state = check_random_state(self.random_state)
        seed = None if self.random_state is None else int(random_state.randint(np.iinfo(np.int32).max))
        options = {"storage": self.storage, "pruner": self.pruner, "direction": "maximize"}
        study = open_study(name, sampler=self.sampler, seed=seed, **options)
        n_before = len(study.get_trials(deepcopy=False))
        if not n_before:
            study.set_user_attr(_KEY, key)
            enqueue_first(study, space, self.n_trials)
        elif study.user_attrs.get(_KEY) != key:
            msg = f"the study {name!r} in storage={self.storage!r} is of another estimator or other data;"
            raise DataError(f"{msg} give another study_name, or another storage.")
        elif seed is not None and self.sampler is None:
            # With the first run's random numbers, the sampler would ask for what it asked for then.
            again = int(np.random.SeedSequence((seed, n_before)).generate_state(1)[0])
            study = open_study(name, seed=again, **options)
        return study

    def _trials(self, study: Any, work: Work, n_trials: int | None) -> SearchResult:
        def enough() -> bool:
            return n_trials is not None and sum(map(_has_ended, study.get_trials(deepcopy=False))) >= n_trials

        def tell(record: TrialRecord) -> None:
            if self.verbose:
                score = f"{-record.score:.4f}" if record.state != "failed" else record.error.splitlines()[0]
                print(f"trial {record.number}: {record.state}, score {score}, {record.seconds:.1f} s")  # noqa: T201
            for callback in self.callbacks or ():
                callback(study, study.trials[-1])

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

    def _rows(self, study: Any, space: Distributions, n_splits: int) -> list[_Row]:
        """All trials of the study that ended, those of other runs and processes too."""
        from optuna.trial import FixedTrial

        rows = []
        for trial in study.get_trials(deepcopy=False):
            if not _has_ended(trial) or not trial.params:
                continue
            outs = [trial.user_attrs.get(_FOLD.format(fold)) for fold in range(n_splits)]
            state = _STATES[trial.state.name]
            score = trial.value if state == "complete" else float("nan")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                settings = space.suggest(FixedTrial(trial.params))
            rows.append(_Row(settings, state, outs, score))
        return rows

    def _whole_results(self, rows: list[_Row], example: dict[str, Any]) -> dict[str, Any]:
        """What scikit-learn makes of all folds of all trials, with blanks where there are none."""
        n_failed = sum(row.state == "failed" for row in rows)
        if n_failed:
            msg = f"{n_failed} of {len(rows)} trials failed; their scores are {self.error_score}."
            warnings.warn(msg, FitFailedWarning, stacklevel=5)
        outs = [
            _blank(example, self.error_score if row.state == "failed" else float("nan"))
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


class _Gathered:
    """What a running fit holds.

    Parameters
    ----------
    key : str or None
        Digest of estimator and data.
    X, y : object
        The data.
    """

    def __init__(self, key: str | None, X: Any, y: Any) -> None:
        self.key = key
        self.X = X
        self.y = y
        self.out: list[dict[str, Any]] = []
        self.formatted: dict[str, Any] = {}


class _Row(NamedTuple):
    """A trial that ended.

    Parameters
    ----------
    settings : dict
        Parameters by name.
    state : {"complete", "pruned", "failed"}
        How it ended.
    outs : list of dict or None
        What came out of each fold; None where it was not run.
    score : float
        Mean over the folds; NaN if it is not complete.
    """

    settings: Settings
    state: str
    outs: list[dict[str, Any] | None]
    score: float


class _Folds:
    """The same folds for all trials, some of them at a time.

    Parameters
    ----------
    splitter : splitter
        It is asked once.
    """

    def __init__(self, splitter: Any) -> None:
        self.wanted = range(0)
        self._splitter = splitter
        self._all: list[Any] = []

    def split(self, X: Any, y: Any = None, **params: Any) -> list[Any]:
        """Return the folds that are wanted.

        Parameters
        ----------
        X, y : array-like
            The data.
        **params : dict
            Such as groups.

        Returns
        -------
        list of (ndarray, ndarray)
            Rows of training and test.
        """
        self._all = self._all or list(self._splitter.split(X, y, **params))
        return [self._all[fold] for fold in self.wanted]


class _Context:
    """Contexts of scikit-learn's callbacks, where there are some.

    Parameters
    ----------
    search : OptunaSearch
        Whose trials they are of.
    root : CallbackContext or None
        Of the fit.
    """

    def __init__(self, search: OptunaSearch, root: Any) -> None:
        self._search = search
        self._context = None
        if root is not None:
            context = root.subcontext(task_name="search", max_subtasks=None)
            self._context = context.call_on_fit_task_begin(estimator=search)

    @contextmanager
    def of(self, n: int) -> Iterator[Any]:
        """Open a context for some folds of a trial.

        Parameters
        ----------
        n : int
            How many.

        Yields
        ------
        CallbackContext or None
            For scikit-learn.
        """
        if self._context is None:
            yield None
            return
        inner = self._context.subcontext(task_name="trial", max_subtasks=n, sequential_subtasks=False)
        inner.call_on_fit_task_begin(estimator=self._search)
        yield inner
        inner.call_on_fit_task_end(estimator=self._search)

    def end(self) -> None:
        """Close the context of all trials."""
        if self._context is not None:
            self._context.call_on_fit_task_end(estimator=self._search)


def _has_ended(trial: Any) -> bool:
    """Whether a trial ended by itself, and not since its process was stopped."""
    return trial.state.name in {"COMPLETE", "PRUNED"} or (trial.state.name == "FAIL" and ERROR in trial.user_attrs)


def _plain(out: dict[str, Any]) -> dict[str, Any]:
    """What a storage can hold of a fold."""
    kept = {name: out[name] for name in _KEPT if name in out}
    return {
        name: {key: float(one) for key, one in value.items()} if isinstance(value, dict) else float(value)
        for name, value in kept.items()
    }


def _blank(example: dict[str, Any], score: Any) -> dict[str, Any]:
    """A fold that was not run: scores alone."""
    blank: dict[str, Any] = {**example, "fit_time": float("nan"), "score_time": float("nan")}
    for name in ("test_scores", "train_scores"):
        if name in example:
            known = example[name]
            blank[name] = dict.fromkeys(known, score) if isinstance(known, dict) else score
    return blank


def _none_succeeded(result: SearchResult, n: int) -> str:
    errors = [trial.error for trial in result.trials if trial.error]
    return f"none of {n} trials succeeded; the first error was: {errors[0] if errors else 'of an earlier run'}"
