"""Estimators of max-margin factorization: ids, levels, fitting, predictions ([XZZ13]; docs/maths section 8)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, overload

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import _safe_indexing
from sklearn.utils._param_validation import Interval, InvalidParameterError, StrOptions
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from skpref._callbacks import CallbackMixin, fit_callbacks, fit_context
from skpref._checks import check_types, require
from skpref._compiled.jit import limited_threads
from skpref._estimator import digest, iteration_callback, token_of_content, unchanged_on_failure
from skpref._math.random import as_generator
from skpref._sources import accept_collections
from skpref._validation import as_array, column_names
from skpref._warn import warn
from skpref.data.columns import read_ids
from skpref.data.ids import Vocabulary, shorten, single_id
from skpref.data.ratings import Ratings, rating_levels
from skpref.data.records import frame_or_record
from skpref.data.shards import RatingCounts
from skpref.data.weights import read_weights
from skpref.exceptions import DataError, UnknownIdError
from skpref.factorization.max_margin.calibration import learn_calibration
from skpref.factorization.max_margin.chains import (
    ChainModel,
    check_resumed,
    complete_chains,
    distribution_key,
    drop_tables,
    fold_in_users,
    pool_states,
    restore_tables,
)
from skpref.factorization.max_margin.fitted import M3FFitted
from skpref.factorization.max_margin.m3f_chain import MarginPrior, threshold_means
from skpref.factorization.max_margin.posterior import Calibration, M3FPosterior, RatingVocabularies
from skpref.factorization.max_margin.recommendations import Recommendations
from skpref.inference import gibbs
from skpref.settings import CHECKPOINT_CONSTRAINTS, Checkpoint, HasSettings, run_checkpoint

if TYPE_CHECKING:
    import os
    from contextlib import AbstractContextManager

    from numpy.typing import ArrayLike, NDArray
    from sklearn.utils import Tags

    from skpref._typing import Array, IdRows, IntArray, RandomState
    from skpref.data.shards import RatingCounts
    from skpref.factorization.max_margin.m3f_chain import MarginProblem
    from skpref.factorization.max_margin.sharded import ShardedRatings

# Squares and inverse squares of scales, and products of them, stay far from the ends of the floating-point range.
_SCALE = Interval(Real, 1e-9, 1e9, closed="both")
# Of the parameters that both estimators have.
CONSTRAINTS: dict[str, list[Any]] = {
    "C": [Interval(Real, 0.0, None, closed="left")],
    "margin": [_SCALE],
    "user_thresholds": ["boolean"],
    "threshold_scale": [_SCALE],
    "threshold_means": ["array-like", StrOptions({"symmetric"}), None],
    "levels": ["array-like", None],
    "max_iter": [Interval(Integral, 1, None, closed="left")],
    "burn_in": [Interval(Integral, 0, None, closed="left")],
    "n_chains": [Interval(Integral, 1, None, closed="left")],
    "n_samples": [Interval(Integral, 1, None, closed="left")],
    "sigma": [_SCALE],
    "prediction": [StrOptions({"scores", "median", "average", "last"})],
    "duplicates": [StrOptions({"error", "mean", "last"})],
    "unknown": [StrOptions({"prior", "raise"})],
    "n_jobs": [Integral, None],
    "warm_start": ["boolean"],
    **CHECKPOINT_CONSTRAINTS,
    "verbose": ["verbose"],
    "random_state": ["random_state", np.random.Generator],
}


@dataclass(eq=False, repr=False)
class MaxMarginFactorization(ClassifierMixin, CallbackMixin, HasSettings, ABC):
    """Base class: a subclass gives `_chain_model`, `_problem`, `_model_settings` and its posterior."""

    _: KW_ONLY
    C: float = 0.075
    margin: float = 9.0
    user_thresholds: bool = True
    threshold_scale: float = 1.5
    threshold_means: ArrayLike | Literal["symmetric"] | None = None
    levels: ArrayLike | None = None
    max_iter: int = 50
    burn_in: int = 10
    n_chains: int = 1
    n_samples: int = 20
    sigma: float = 1.0
    prediction: Literal["scores", "median", "average", "last"] = "scores"
    duplicates: Literal["error", "mean", "last"] = "error"
    unknown: Literal["prior", "raise"] = "prior"
    n_jobs: int | None = None
    warm_start: bool = False
    checkpoint: str | os.PathLike[str] | Checkpoint | None = None
    verbose: int = 0
    random_state: RandomState = None

    _chain_model: ClassVar[ChainModel]

    __dask_tokenize__ = token_of_content

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags

    @property
    def _learnt(self) -> M3FFitted:
        check_is_fitted(self, "fitted_")
        return self.fitted_

    @property
    def posterior_(self) -> Any:
        """Averages, last states and kept samples of the chains."""
        return self._learnt.posterior

    @property
    def classes_(self) -> NDArray[Any]:
        """Levels, low to high."""
        return self._learnt.vocabularies.levels

    @property
    def user_ids_(self) -> NDArray[Any]:
        """Ids of the users with ratings."""
        return self._learnt.vocabularies.users.ids

    @property
    def item_ids_(self) -> NDArray[Any]:
        """Ids of the items with ratings."""
        return self._learnt.vocabularies.items.ids

    @property
    def user_factors_(self) -> Array:
        """Averages of the users' factors after burn-in, chains side by side."""
        return self._learnt.factors[0]

    @property
    def item_factors_(self) -> Array:
        """Averages of the items' factors after burn-in, chains side by side."""
        return self._learnt.factors[1]

    @property
    def thresholds_(self) -> Array:
        """Averages of the thresholds after burn-in; one row if all users share them."""
        return self._learnt.thresholds

    @property
    def temperature_(self) -> float:
        """Number by which `predict_proba` divides the loss."""
        return self._learnt.posterior.calibration.temperature

    @property
    def level_weights_(self) -> Array:
        """Factors by which `predict_proba` multiplies the probabilities of the levels, shape (L,)."""
        return np.exp(self._learnt.posterior.calibration.log_weights)

    @property
    def risks_(self) -> Array:
        """Regularised risk after each sweep, shape (n_chains, n_iter)."""
        return self._learnt.trace()

    @property
    def risk_(self) -> float:
        """Regularised risk of the averages, mean over chains."""
        return self._learnt.risk

    @property
    def r_hat_(self) -> float:
        """R-hat of the risks after burn-in."""
        return gibbs.split_rhat(self._learnt.risks)

    @property
    def effective_sample_size_(self) -> float:
        """Effective sample size of the risks after burn-in."""
        return gibbs.effective_sample_size(self._learnt.risks)

    @property
    def n_iter_(self) -> int:
        """Number of sweeps of each chain."""
        return self.risks_.shape[1]

    # ---------------------------------------------------------------- fitting

    @fit_context
    def fit(self, X: IdRows, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the model: run the Gibbs chains.

        Parameters
        ----------
        X : array-like of shape (n, 2)
            Ids of user and item.
        y : array-like of shape (n,)
            Ratings.
        sample_weight : array-like of shape (n,), default=None
            Weights of the ratings. A weight of 2 is the same as passing the rating twice.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        ValueError
            If an id or a rating is missing, a rating is not among the levels, or a user has two different ratings of
            an item and `duplicates` is "error".
        """
        with fit_callbacks(self, X, y, sample_weight):
            return self._fit(X, y, sample_weight, self.levels)

    def _fit(self, X: Any, y: Any, sample_weight: Any, levels: Any) -> Self:
        with unchanged_on_failure(self):
            user, item = self._read(X, reset=True)
            used = None
            if sample_weight is not None and y is not None:
                # Users and items whose ratings all have weight zero count as unseen.
                check_consistent_length(user, y)
                sample_weight = read_weights(sample_weight, len(user))
                used = np.flatnonzero(sample_weight)
                if not used.size:
                    raise DataError("at least 1 rating of positive weight is required; every sample_weight is zero.")
                y = np.asarray(y) if isinstance(y, memoryview) else y  # which takes no list of rows
                user, item, y = user[used], item[used], _safe_indexing(y, used)
                sample_weight = sample_weight[used]
            levels, level = rating_levels(y, levels, user, item, used)
            vocabularies = RatingVocabularies(Vocabulary.from_columns(user), Vocabulary.from_columns(item), levels)
            self._fit_ratings(vocabularies, vocabularies.encode(user, item, level, sample_weight))
        return self

    def _fit_ratings(self, vocabularies: RatingVocabularies, ratings: Ratings | ShardedRatings) -> None:
        """Run the chains, from the last states of an earlier fit if they are to be used again."""
        key = self._warm_start_key_of(vocabularies)
        old: M3FFitted | None = getattr(self, "fitted_", None)
        warm = self.warm_start and old is not None and old.warm_start_key == key
        self._run_chains(vocabularies, ratings, key, old if warm else None)

    @fit_context
    def partial_fit(
        self, X: IdRows, y: ArrayLike, classes: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Add ratings, of old and new users and items, and continue the chains.

        Earlier ratings are kept. The chains continue for `max_iter` sweeps, with new averages after `burn_in` of these.

        Parameters
        ----------
        X : array-like of shape (n, 2)
            Ids of user and item.
        y : array-like of shape (n,)
            Ratings.
        classes : array-like of shape (L,), default=None
            All levels, low to high, in place of the parameter `levels`. Only the first call needs them.
        sample_weight : array-like of shape (n,), default=None
            Weights of the ratings.

        Returns
        -------
        self
            The fitted estimator. The first call is the same as `fit`.

        Raises
        ------
        ValueError
            As in `fit`; or if a rating has a new level, or `n_factors`, `user_thresholds` or `n_chains` was changed.
        """
        if not hasattr(self, "fitted_"):
            return self._fit(X, y, sample_weight, self.levels if classes is None else classes)
        with unchanged_on_failure(self):
            self._check_same_model()
            levels = None if classes is None else np.asarray(classes, dtype=object).tolist()
            if levels is not None and levels != self.classes_.tolist():
                msg = f"classes must be those of the first call, {self.classes_.tolist()}; got {levels}"
                raise DataError(f"{msg}. To change them, call fit with all ratings.")
            if not isinstance(self.fitted_.ratings, Ratings):
                raise DataError(
                    "partial_fit needs the ratings of the fit, and a fit to files or on a cluster keeps none of them: "
                    "fit again with all ratings in memory, or add new users with fold_in"
                )
            vocabularies, added = self._encode_more(X, y, sample_weight)
            ratings = self.fitted_.ratings.followed_by(added)
            self._run_chains(vocabularies, ratings, self._warm_start_key_of(vocabularies), self.fitted_)
        return self

    @fit_context
    def fold_in(self, X: IdRows, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Add new users and leave items and old users unchanged.

        The new users' factors and thresholds are sampled with the items fixed: `max_iter` sweeps with each chain's
        average, then a few with each kept sample. This is much faster than `partial_fit`, which also updates the items.

        Parameters
        ----------
        X : array-like of shape (n, 2)
            Ids of new users and of items that have ratings already.
        y : array-like of shape (n,)
            Ratings, among `classes_`.
        sample_weight : array-like of shape (n,), default=None
            Weights of the ratings.

        Returns
        -------
        self
            The fitted estimator. It keeps the new ratings for `partial_fit`.

        Raises
        ------
        ValueError
            As in `fit`; or if a user has ratings already, an item has none, or `burn_in` is not less than `max_iter`.
        """
        check_is_fitted(self)
        with unchanged_on_failure(self):
            self._check_sweeps()
            self._check_same_model()
            old = self.fitted_.vocabularies
            vocabularies, added = self._encode_more(X, y, sample_weight)
            if vocabularies.items.size > old.items.size:
                item = shorten(vocabularies.items.ids[old.items.size])
                raise UnknownIdError(f"unknown item {item}: fold_in leaves items unchanged; see partial_fit")
            if (old_user := added.user[added.user < old.users.size]).size:
                user = shorten(old.users.ids[old_user[0]])
                raise DataError(f"user {user} has ratings already: fold_in adds new users only; see partial_fit")
            self._fold_in(vocabularies, added)
        return self

    def _read(self, X: Any, *, reset: bool) -> tuple[Any, Any]:
        user, item = read_ids(X, ("user", "item"), noun="rating")
        if reset or column_names(X) is not None:  # pairs of ids need no names, so no warning
            validate_data(self, X, reset=reset, skip_check_array=True)
        return user, item

    def _encode_more(self, X: Any, y: Any, sample_weight: Any) -> tuple[RatingVocabularies, Ratings]:
        """Return the vocabularies with new ids appended, and further ratings."""
        user, item = self._read(X, reset=False)
        old = self.fitted_.vocabularies
        _, level = rating_levels(y, old.levels, user, item)
        vocabularies = old.extend(user, item)
        return vocabularies, vocabularies.encode(user, item, level, sample_weight)

    def _warm_start_key_of(self, vocabularies: RatingVocabularies) -> str:
        """Return a digest of what a fit must share with the last one for a warm start."""
        ids = tuple(part.tolist() for part in (vocabularies.users.ids, vocabularies.items.ids, vocabularies.levels))
        return digest((ids, {name: value for name, (value, _) in self._shape().items()}))

    def _check_same_model(self) -> None:
        for name, (value, fitted) in self._shape().items():
            if value != fitted:
                msg = f"{name} is {value!r}, but the model was fitted with {name}={fitted!r}; set {name} back"
                raise DataError(f"{msg}, or call fit with all ratings.")

    def _check_sweeps(self) -> None:
        if self.burn_in >= self.max_iter:
            raise InvalidParameterError(
                f"burn_in={self.burn_in} must be less than max_iter={self.max_iter}: set burn_in={self.max_iter // 5}, "
                "or a larger max_iter."
            )

    def _prior(self, n_levels: int) -> MarginPrior:
        rho = threshold_means(self.threshold_means, n_levels, self.margin)
        own = bool(self.user_thresholds)
        learnt = own and self.threshold_means is None
        return MarginPrior(float(self.sigma), rho, float(self.threshold_scale * self.margin), own, learnt)

    @abstractmethod
    def _problem(self, ratings: Any) -> MarginProblem:
        """Return what the chains sample."""

    def _shape(self) -> dict[str, tuple[Any, Any]]:
        """Return the parameters that chains cannot change: their present and their fitted values."""
        posterior = getattr(self, "posterior_", None)
        own = posterior is not None and posterior.varsigma > 0.0
        n_chains = 0 if posterior is None else posterior.average.users.shape[0]
        return {"user_thresholds": (self.user_thresholds, own), "n_chains": (self.n_chains, n_chains)}

    @abstractmethod
    def _model_settings(self) -> tuple[Any, ...]:
        """Return the subclass's own parameters of the distribution that is sampled."""

    def _posterior(self, **shared: Any) -> M3FPosterior:
        return M3FPosterior(**shared)

    def _run_chains(
        self, vocabularies: RatingVocabularies, ratings: Ratings | ShardedRatings, warm_key: str, old: M3FFitted | None
    ) -> None:
        """Run the chains on the ratings, from the last states of an earlier fit if there is one."""
        self._check_sweeps()
        merged = ratings.merged(self.duplicates, (vocabularies.users.ids, vocabularies.items.ids, vocabularies.levels))
        problem = self._problem(merged)
        key = distribution_key(problem, merged, float(self.C), self._model_settings())
        if old is None:
            seeds = as_generator(self.random_state).integers(0, 2**63, int(self.n_chains)).tolist()
            starts = self._chain_model.cold_starts(problem, seeds)
        else:
            starts = restore_tables(old.chains, old.posterior)
            if key != old.distribution_key:  # else averages and samples continue, too
                starts = self._chain_model.warm_starts(problem, starts)
        step = self._chain_model.step(problem)
        kept = ratings if isinstance(ratings, Ratings) else ratings.counts()
        record = partial(self._fitted_record, problem.prior, vocabularies, kept, (key, warm_key))
        calibrations: list[Calibration] = []

        def snapshot(chains: list[gibbs.Chain]) -> Self | None:
            """Return a copy fitted by the chains so far; None during burn-in."""
            sampled = [chain for chain in chains if chain.samples]
            if not sampled:
                return None
            other = copy(self)
            other.fitted_ = record(sampled, self._learn_calibration(sampled, merged), float("nan"))
            return other

        with self._limit_threads():
            plan = replace(
                self._plan(key, starts),
                check=partial(check_resumed, self._chain_model, problem),
                fitted=snapshot,
                finished=lambda chains: calibrations.append(self._learn_calibration(chains, merged)),
            )
            chains = complete_chains(gibbs.run(starts, lambda _: step, plan))
            risk = float(np.mean([self._chain_model.risk(problem, chain.average) for chain in chains]))
        self.fitted_ = record(chains, calibrations[0], risk)
        n_averaged, r_hat = chains[0].n_averaged, self.r_hat_
        limit = gibbs.warning_limit(len(chains), n_averaged, n_averaged, self._chain_model.tau)
        if r_hat > limit:
            msg = f"The chains of {type(self).__name__} are not stationary: R-hat of the risk is {r_hat:.2f}, "
            msg += f"above {limit:.2f}. Increase max_iter and burn_in, and n_chains to see when they are enough."
            warn(msg, ConvergenceWarning)

    def _learn_calibration(self, chains: list[gibbs.Chain], merged: Ratings | ShardedRatings) -> Calibration:
        sampled = [chain for chain in chains if chain.samples]  # none if a callback stopped the first during burn-in
        if not sampled:
            return Calibration(1.0, np.zeros(merged.n_levels))
        return learn_calibration(self._chain_model, self._problem, merged, sampled, float(self.C))

    def _limit_threads(self) -> AbstractContextManager[None]:
        return limited_threads(None if self.n_jobs is None else effective_n_jobs(self.n_jobs))

    def _plan(self, key: str, starts: list[gibbs.Chain]) -> gibbs.Plan:
        # Chains hold their seeds; another `random_state` is another run, whose checkpoint must not be used.
        seed = int(self.random_state) if isinstance(self.random_state, Integral) else None
        run = key, seed, self.max_iter, self.burn_in, self.n_samples, [chain.sweep for chain in starts]
        return gibbs.Plan(
            self.max_iter,
            self.burn_in,
            self.n_samples,
            keep=self._chain_model.keep_sample,
            average=self._chain_model.average,
            checkpoint=None if self.checkpoint is None else run_checkpoint(self.checkpoint, digest(run)),
            on_iteration=iteration_callback(self, step="sweep", objective="risk", sign=-1.0),
        )

    def _fitted_record(
        self,
        prior: MarginPrior,
        vocabularies: RatingVocabularies,
        ratings: Ratings | RatingCounts,
        keys: tuple[str | None, str],
        chains: list[gibbs.Chain],
        calibration: Calibration,
        risk: float,
    ) -> M3FFitted:
        """Return all that predictions and later calls need."""
        posterior = self._posterior(
            average=pool_states([chain.average or {} for chain in chains]),
            last=pool_states([chain.state for chain in chains]),
            samples=pool_states([sample for chain in chains for sample in chain.samples]),
            cost=float(self.C),
            calibration=calibration,
            margin=float(self.margin),
            sigma=prior.sigma,
            varsigma=prior.varsigma if prior.own else 0.0,
            learnt_thresholds=prior.learnt,
        )
        return M3FFitted(posterior, [drop_tables(chain) for chain in chains], vocabularies, ratings, risk, *keys)

    def _check_fitted(self) -> None:
        """Raise DataError unless what the chains have learnt belongs to this class."""
        check_types(self, fitted_=M3FFitted)
        kind = self._chain_model.posterior
        require(type(self.fitted_.posterior) is kind, self, "fitted_", f"must hold a {kind.__name__}")
        require(self.n_features_in_ == 2, self, "n_features_in_", "must be 2")

    def _fold_in(self, vocabularies: RatingVocabularies, added: Ratings) -> None:
        old = self.fitted_
        n_old = old.vocabularies.users.size
        columns = added.user - n_old, added.item, added.level, added.weight
        new = Ratings(*columns, vocabularies.users.size - n_old, vocabularies.items.size, added.n_levels)
        names = vocabularies.users.ids[n_old:], vocabularies.items.ids, vocabularies.levels
        problem = self._problem(new.merged(self.duplicates, names))
        with self._limit_threads():
            chains = [
                fold_in_users(
                    chain, self._chain_model.fold_in(problem, int(chain.state["seed"])), self.max_iter, self.burn_in
                )
                for chain in restore_tables(old.chains, old.posterior)
            ]
        ratings, keys = old.ratings.followed_by(added), (None, self._warm_start_key_of(vocabularies))
        record = partial(self._fitted_record, problem.prior, vocabularies, ratings, keys)
        self.fitted_ = record(chains, old.posterior.calibration, old.risk)

    # ------------------------------------------------------------- predicting

    def _rows(self, X: Any) -> tuple[IntArray, IntArray]:
        """Return the rows of users and items, -1 for unseen ones."""
        check_is_fitted(self)
        user, item = self._read(X, reset=False)
        how: Any = {"unknown": "raise" if self.unknown == "raise" else "mark", "noun": "row"}
        known = self.fitted_.vocabularies
        return known.users.encode(user, kind="user", **how), known.items.encode(item, **how)

    @accept_collections
    def predict(self, X: IdRows) -> NDArray[Any]:
        """Predict ratings.

        Parameters
        ----------
        X : array-like of shape (n, 2)
            Ids of user and item. Of an unseen one, the prior mean of x_ij is compared with the (mean) thresholds.

        Returns
        -------
        ndarray of shape (n,)
            Levels, from `classes_`.
        """
        rows = self._rows(X)
        return self.classes_[self.posterior_.levels(*rows, self.prediction)]

    @accept_collections
    def predict_proba(self, X: IdRows) -> Array:
        """Return the probability of each level.

        It is proportional to `level_weights_` times exp(-C loss / `temperature_`), averaged over the kept samples. With
        weights and temperature of 1 this is the pseudo-likelihood of [XZZ13] section 2.1.

        Parameters
        ----------
        X : array-like of shape (n, 2)
            Ids of user and item. Unseen users and items are averaged over the prior.

        Returns
        -------
        ndarray of shape (n, L)
            Probabilities, in the order of `classes_`.
        """
        rows = self._rows(X)
        return self.posterior_.probabilities(*rows, self.posterior_.calibration)

    @overload
    def predict_score(self, X: IdRows, *, return_std: Literal[False] = False) -> Array: ...
    @overload
    def predict_score(self, X: IdRows, *, return_std: Literal[True]) -> tuple[Array, Array]: ...
    @overload
    def predict_score(self, X: IdRows, *, return_std: bool) -> Array | tuple[Array, Array]: ...
    @accept_collections
    def predict_score(self, X: IdRows, *, return_std: bool = False) -> Array | tuple[Array, Array]:
        """Return the posterior mean of the score x_ij, which the user's thresholds cut into levels.

        Parameters
        ----------
        X : array-like of shape (n, 2)
            Ids of user and item.
        return_std : bool, default=False
            Whether to return standard deviations, too.

        Returns
        -------
        mean : ndarray of shape (n,)
            Scores, in the unit of the margin. Only scores of the same user can be compared.
        std : ndarray of shape (n,)
            Posterior standard deviations, if `return_std` is True.
        """
        rows = self._rows(X)
        mean, variance = self.posterior_.score_moments(*rows)
        return (mean, np.sqrt(variance)) if return_std else mean

    @accept_collections
    def score(self, X: IdRows, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the negative mean absolute error, in levels.

        Parameters
        ----------
        X : array-like of shape (n, 2)
            Ids of user and item.
        y : array-like of shape (n,)
            Ratings. Without `levels`, a number that is not among the training ratings counts as a level of its own.
        sample_weight : array-like of shape (n,), default=None
            Weights of the ratings.

        Returns
        -------
        float
            At most 0; higher is better.
        """
        user, item = self._rows(X)
        levels = self._levels_with(y)
        _, level = rating_levels(y, levels, *self._read(X, reset=False))
        check_consistent_length(user, level)
        weight = read_weights(sample_weight, level.size)
        place = np.arange(levels.size) if levels is self.classes_ else np.searchsorted(levels, self.classes_)
        error = np.abs(place[self.posterior_.levels(user, item, self.prediction)] - level)
        return -float(np.average(error, weights=weight))

    def _levels_with(self, y: Any) -> NDArray[Any]:
        """Return the levels and, unless they were declared, the numbers in y that are no training rating."""
        values = as_array(y, "y")
        if self.levels is not None or not {values.dtype.kind, self.classes_.dtype.kind} <= set("iuf"):
            return self.classes_
        return np.union1d(self.classes_, values[np.isfinite(values)])

    def recommend(self, user: Any, n: int = 10, *, exclude_seen: bool = True, optimism: float = 0.0) -> Any:
        """Return the items with the highest expected scores for a user.

        Parameters
        ----------
        user : id
            Id of a user with ratings.
        n : int, default=10
            Number of items, at most.
        exclude_seen : bool, default=True
            Whether to leave out items that the user has rated.
        optimism : float, default=0.0
            Rank by the mean of x_ij plus this many standard deviations. Values of 1 or 2 favour items with uncertain
            scores (exploration); 0 ranks by the mean.

        Returns
        -------
        pandas.DataFrame or Recommendations
            Items, best first: columns `item`, `rating` and `expected_rating` on the user's scale (`expected_rating`
            only if levels are numbers), `score` and `std`. A record with these columns if pandas is not installed.

        Raises
        ------
        UnknownIdError
            If the user has no ratings; add some with `fold_in`.
        """
        check_is_fitted(self)
        asked = single_id(user, "user")
        row = int(self.fitted_.vocabularies.users.encode(asked, "user", unknown="mark", noun="row", kind="user")[0])
        if row < 0:
            msg = f"unknown user {shorten(user)} has no ratings to rank items by"
            raise UnknownIdError(f"{msg}; add some with fold_in or partial_fit")
        if not isinstance(n, Integral) or n < 1:
            raise DataError(f"n must be an integer of at least 1; got {n!r}.")
        if not isinstance(optimism, Real) or not abs(optimism) <= 1e6:
            raise DataError(f"optimism must be a number of standard deviations, up to 1e6; got {optimism!r}.")
        item = np.arange(self.fitted_.vocabularies.items.size)
        if exclude_seen:
            item = np.setdiff1d(item, self._items_of(row))
        mean, variance = self.posterior_.score_moments(np.full(item.size, row), item)
        std = np.sqrt(variance)
        best = np.argsort(-(mean + optimism * std), kind="stable")[:n]
        item, rows = item[best], np.full(best.size, row)
        expected = None
        if self.classes_.dtype.kind in "iuf":
            expected = self.posterior_.probabilities(rows, item, self.posterior_.calibration) @ self.classes_
        level = self.classes_[self.posterior_.levels(rows, item, self.prediction)]
        ids = self.fitted_.vocabularies.items.ids[item]
        return frame_or_record(Recommendations(ids, level, expected, mean[best], std[best]))

    def _items_of(self, user: int) -> IntArray:
        """Return the items that a user has rated."""
        if isinstance(self.fitted_.ratings, Ratings):
            return self.fitted_.ratings.item[self.fitted_.ratings.user == user]
        raise DataError(
            "exclude_seen=True needs the ratings of the fit, and a fit to files or on a cluster keeps none of them: "
            "set exclude_seen=False, and leave out what the user has rated"
        )
