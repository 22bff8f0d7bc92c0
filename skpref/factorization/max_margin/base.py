"""Base class of max-margin factorisation: ids, levels, chains, predictions ([XZZ13]; docs/maths section 8)."""

from __future__ import annotations

import os
from copy import copy
from dataclasses import replace
from itertools import count
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.utils import _safe_indexing
from sklearn.utils._param_validation import Interval, InvalidParameterError, StrOptions
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from skpref._callbacks import CallbackMixin, fit_callbacks
from skpref._compiled.m3f import limited_threads
from skpref._estimator import digest, on_iteration, unchanged_on_failure
from skpref._math.random import as_generator
from skpref.data import Vocabulary
from skpref.data.ids import shorten
from skpref.data.ratings import Ratings, rating_levels, read_rated
from skpref.exceptions import DataError, UnknownIdError
from skpref.factorization.max_margin.m3f_chain import Folding, Prior, Problem, folded
from skpref.factorization.max_margin.posterior import Factors, M3FPosterior
from skpref.inference import gibbs

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from numpy.typing import NDArray
    from sklearn.utils import Tags

    from skpref._typing import Array, IntArray
    from skpref.inference.gibbs import Chain, State, Step

_POSITIVE = Interval(Real, 0.0, None, closed="neither")
_STEP = 3.0  # from one threshold's prior mean to the next, in margins ([XZZ13] section 4)
_PARTS = Factors._fields
# Of the parameters that all models share.
CONSTRAINTS: dict[str, list[Any]] = {
    "C": [Interval(Real, 0.0, None, closed="left")],
    "margin": [_POSITIVE],
    "user_thresholds": ["boolean"],
    "threshold_scale": [_POSITIVE],
    "threshold_means": ["array-like", None],
    "levels": ["array-like", None],
    "n_sweeps": [Interval(Integral, 1, None, closed="left")],
    "burn_in": [Interval(Integral, 0, None, closed="left")],
    "n_chains": [Interval(Integral, 1, None, closed="left")],
    "n_samples": [Interval(Integral, 1, None, closed="left")],
    "sigma": [_POSITIVE],
    "prediction": [StrOptions({"average", "median", "last"})],
    "duplicates": [StrOptions({"error", "mean", "last"})],
    "unknown": [StrOptions({"prior", "raise"})],
    "n_jobs": [Integral, None],
    "warm_start": ["boolean"],
    "checkpoint": [str, os.PathLike, None],
    "checkpoint_seconds": [Interval(Real, 0.0, None, closed="left")],
    "verbose": ["verbose"],
    "random_state": ["random_state", np.random.Generator],
}


class Sampler(NamedTuple):
    """Functions of a model."""

    start: Callable[..., State]  # (problem, seed, earlier state or None) -> state
    step: Callable[..., Step]  # problem -> sweep
    folding: Callable[..., Folding]  # (problem of new users, seed) -> way to add them
    risk: Callable[..., float]  # (problem, state) -> regularised risk
    average: gibbs.Average  # how a chain averages its states
    users_dtype: Any  # of the users' side in kept samples


class Known(NamedTuple):
    """Users, items and levels."""

    users: Vocabulary
    items: Vocabulary
    levels: NDArray[Any]


class MaxMarginFactorization(ClassifierMixin, CallbackMixin, BaseEstimator):
    """Rows are (user, item), targets are ratings: a model says what it samples by `_sampler` and `_problem`."""

    C: float
    margin: float
    user_thresholds: bool
    threshold_scale: float
    threshold_means: Any
    levels: Any
    n_sweeps: int
    burn_in: int
    n_chains: int
    n_samples: int
    sigma: float
    prediction: str
    duplicates: Any
    unknown: str
    n_jobs: int | None
    warm_start: bool
    checkpoint: Any
    checkpoint_seconds: float
    verbose: int
    random_state: Any

    _sampler: ClassVar[Sampler]
    _chains: list[Chain]
    _known: Known
    _key: str | None

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags

    @property
    def user_ids_(self) -> NDArray[Any]:
        """Ids of the users known."""
        return self._known.users.ids

    @property
    def item_ids_(self) -> NDArray[Any]:
        """Ids of the items known."""
        return self._known.items.ids

    # ---------------------------------------------------------------- fitting

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Run the chains.

        Parameters
        ----------
        X : array-like of shape (n, 2)
            Ids of user and item.
        y : array-like of shape (n,)
            Ratings.
        sample_weight : array-like of shape (n,), default=None
            Weights of the ratings; 2 is the same as giving the rating twice.

        Returns
        -------
        self
            Itself, fitted.

        Raises
        ------
        ValueError
            If an id or rating is missing, a rating is not among the levels, or a user rated an item differently twice.
        """
        with fit_callbacks(self, X, y, sample_weight):
            return self._start(X, y, sample_weight, self.levels)

    def _start(self, X: Any, y: Any, sample_weight: Any, levels: Any) -> Self:
        with unchanged_on_failure(self):
            user, item = self._read(X, reset=True)
            if sample_weight is not None:
                # Users and items whose ratings all weigh nothing are strangers.
                sample_weight = _weights(sample_weight)
                check_consistent_length(user, y, sample_weight)
                used = np.flatnonzero(sample_weight)
                if not used.size:
                    raise DataError("at least 1 rating of positive weight is required; every sample_weight is zero.")
                user, item, y = user[used], item[used], _safe_indexing(y, used)
                sample_weight = sample_weight[used]
            levels, level = rating_levels(y, levels, user, item)
            known = Known(Vocabulary.from_columns(user), Vocabulary.from_columns(item), levels)
            given = self._given(known, user, item, level, sample_weight)
            shape = self._shape_key(known)
            warm = self.warm_start and getattr(self, "_warm_key", None) == shape
            self._learn(known, given, self._whole_chains() if warm else None)
            self._warm_key = shape
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn from more ratings, by old and new users of old and new items, without starting again.

        The ratings of earlier calls are remembered. The chains go on from where they stand for `n_sweeps` sweeps, and
        average anew after `burn_in` of them.

        Parameters
        ----------
        X, y : array-like
            As in `fit`; the first call is the same as `fit`.
        classes : array-like of shape (L,), default=None
            All levels, low to high, in the place of the parameter `levels`; later calls need not repeat them.
        sample_weight : array-like of shape (n,), default=None
            As in `fit`.

        Returns
        -------
        self
            Itself.

        Raises
        ------
        ValueError
            As in `fit`; or if a rating is not among the levels of the first call, or a parameter that makes another
            model (`n_factors`, `user_thresholds`, `n_chains`) was changed since.
        """
        if not hasattr(self, "posterior_"):
            return self._start(X, y, sample_weight, self.levels if classes is None else classes)
        with unchanged_on_failure(self):
            self._refuse_another_model()
            if classes is not None and list(classes) != self.classes_.tolist():
                msg = f"classes are {list(classes)}, but those of the first call were {self.classes_.tolist()}"
                raise DataError(f"{msg}; start anew by fit with all ratings.")
            known, given = self._extended(X, y, sample_weight)
            self._learn(known, given, self._whole_chains())
            self._warm_key = self._shape_key(known)
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def fold_in(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn factors and thresholds of new users, with those of the items as they are.

        With each chain's averaged items, the new users' conditionals are sampled for `n_sweeps` sweeps, of which those
        after `burn_in` are averaged; then once more along the kept samples. Much cheaper than `partial_fit`, which
        would let the new ratings move the items.

        Parameters
        ----------
        X : array-like of shape (n, 2)
            Ids of users that are not known yet, and of items that are.
        y : array-like of shape (n,)
            Ratings, among the levels known.
        sample_weight : array-like of shape (n,), default=None
            Weights of the ratings.

        Returns
        -------
        self
            Itself; the new users are known from now on, and their ratings are remembered for `partial_fit`.

        Raises
        ------
        ValueError
            As in `fit`; or if a user is known already, or an item is not.
        """
        check_is_fitted(self)
        with unchanged_on_failure(self):
            self._refuse_another_model()
            old = self._known
            known, given = self._extended(X, y, sample_weight)
            if known.items.size > old.items.size:
                what = shorten(known.items.ids[old.items.size])
                raise UnknownIdError(f"unknown item {what}: fold_in learns users with items fixed; see partial_fit")
            new = slice(self._ratings.size, None)
            if (familiar := given.user[new][given.user[new] < old.users.size]).size:
                who = shorten(old.users.ids[familiar[0]])
                raise DataError(f"user {who} is known already: fold_in learns new users only; see partial_fit")
            self._fold(known, given, new)
        return self

    def _read(self, X: Any, *, reset: bool) -> tuple[Any, Any]:
        columns = read_rated(X)
        validate_data(self, X, reset=reset, skip_check_array=True)
        return columns

    def _given(self, known: Known, user: Any, item: Any, level: IntArray, sample_weight: Any) -> Ratings:
        weight = np.ones(level.size) if sample_weight is None else _weights(sample_weight)
        check_consistent_length(user, level, weight)
        return Ratings(
            known.users.encode(user, noun="rating", kind="user"),
            known.items.encode(item, noun="rating"),
            level,
            weight,
            known.users.size,
            known.items.size,
            known.levels.size,
        )

    def _extended(self, X: Any, y: Any, sample_weight: Any) -> tuple[Known, Ratings]:
        """What is known with further ratings, which stand behind the old ones."""
        user, item = self._read(X, reset=False)
        _, level = rating_levels(y, self._known.levels, user, item)
        users, items = (_grown(*pair) for pair in ((self._known.users, user), (self._known.items, item)))
        known = Known(users, items, self._known.levels)
        return known, self._ratings.followed_by(self._given(known, user, item, level, sample_weight))

    def _shape_key(self, known: Known) -> str:
        """Digest of all that earlier states must share to be gone on from."""
        ids = known.users.ids.tolist(), known.items.ids.tolist(), known.levels.tolist()
        return digest((ids, {name: value for name, (value, _) in self._shape().items()}))

    def _refuse_another_model(self) -> None:
        for name, (value, fitted) in self._shape().items():
            if value != fitted:
                msg = f"{name} is {value!r}, but the model to go on from has {name}={fitted!r}; set that"
                raise DataError(f"{msg} again, or start anew by fit with all ratings.")

    def _prior(self, n_levels: int) -> Prior:
        if self.threshold_means is None:
            rho = _STEP * self.margin * (np.arange(1.0, n_levels) - n_levels / 2.0)
        else:
            rho = np.asarray(self.threshold_means, dtype=np.float64)
            if rho.shape != (n_levels - 1,) or not np.isfinite(rho).all() or (np.diff(rho) <= 0.0).any():
                msg = f"threshold_means must be {n_levels - 1} ascending numbers, one fewer than levels; got"
                raise InvalidParameterError(f"{msg} {self.threshold_means!r}.")
        return Prior(float(self.sigma), rho, float(self.threshold_scale * self.margin), bool(self.user_thresholds))

    def _problem(self, ratings: Ratings) -> Problem:
        raise NotImplementedError

    def _shape(self) -> dict[str, tuple[Any, Any]]:
        """Parameters that earlier states depend on: as they are set, and as the model fitted has them."""
        posterior = getattr(self, "posterior_", None)
        own = posterior is not None and posterior.varsigma > 0.0
        n_chains = 0 if posterior is None else posterior.average.users.shape[0]
        return {"user_thresholds": (self.user_thresholds, own), "n_chains": (self.n_chains, n_chains)}

    def _model_settings(self) -> tuple[Any, ...]:
        """Settings of a model beyond those that all share, which make the distribution sampled from."""
        raise NotImplementedError

    def _posterior(self, **shared: Any) -> M3FPosterior:
        return M3FPosterior(**shared)

    def _learn(self, known: Known, given: Ratings, going_on: list[Chain] | None) -> None:
        if self.burn_in >= self.n_sweeps:
            raise InvalidParameterError(f"burn_in={self.burn_in} must be less than n_sweeps={self.n_sweeps}.")
        ratings = given.merged(self.duplicates, (known.users.ids, known.items.ids, known.levels))
        problem = self._problem(ratings)
        key = self._data_key(problem, ratings)
        if going_on is None:
            seeds = as_generator(self.random_state).integers(0, 2**63, self.n_chains).tolist()
            starts = [gibbs.Chain(self._sampler.start(problem, seed)) for seed in seeds]
        elif key == self._key:
            starts = going_on
        else:
            starts = [c.redirected(self._sampler.start(problem, int(c.state["seed"]), c.state)) for c in going_on]
        step = self._sampler.step(problem)
        with self._threads():
            plan = replace(self._plan(key, starts), fitted=lambda chains: self._as_of(chains, known, problem.prior))
            self._chains = gibbs.run(starts, lambda _: step, plan)
            self._keep_traces(problem)
        self._known, self._ratings, self._key = known, given, key
        self._keep(problem.prior)

    def _threads(self) -> AbstractContextManager[None]:
        return limited_threads(None if self.n_jobs is None else effective_n_jobs(self.n_jobs))

    def _data_key(self, problem: Problem, ratings: Ratings) -> str:
        """Digest of all that makes the distribution sampled from."""
        prior = problem.prior
        scales = float(self.C), problem.margin, prior.sigma, prior.varsigma, prior.own, prior.rho.tolist()
        columns = ratings.user, ratings.item, ratings.level, ratings.weight
        sizes = ratings.n_users, ratings.n_items, ratings.n_levels, *self._model_settings()
        return digest((scales, sizes), *columns)

    def _plan(self, key: str, starts: list[Chain]) -> gibbs.Plan:
        checkpoint = None
        if self.checkpoint is not None:
            # The seed is part of the state; where it was given, a file of another seed is another run's.
            seed = int(self.random_state) if isinstance(self.random_state, Integral) else None
            run = key, seed, self.n_sweeps, self.burn_in, self.n_samples, [chain.sweep for chain in starts]
            checkpoint = gibbs.Checkpoint(Path(self.checkpoint), digest(run), float(self.checkpoint_seconds))
        show = on_iteration(self, step="sweep", objective="risk", sign=-1.0)
        return gibbs.Plan(
            self.n_sweeps,
            self.burn_in,
            self.n_samples,
            keep=self._kept,
            average=self._sampler.average,
            checkpoint=checkpoint,
            on_iteration=show,
        )

    def _kept(self, state: State) -> State:
        """What is kept of a sample: 7 digits are enough for a prediction."""
        dtype = {"users": self._sampler.users_dtype}
        names = {name: state[name] for name in ("feature",) if name in state}
        return {**names, **{name: np.asarray(state[name], dtype=dtype.get(name, np.float32)) for name in _PARTS}}

    def _as_of(self, chains: list[Chain], known: Known, prior: Prior) -> Self | None:
        """A copy that holds what chains have gathered so far; None during burn-in."""
        begun = [chain for chain in chains if chain.samples]
        if not begun:
            return None
        other = copy(self)
        other.__dict__ |= {"_chains": begun, "_known": known}
        other._keep(prior)  # noqa: SLF001 - our own
        return other

    def _keep(self, prior: Prior) -> None:
        chains = self._chains
        average = _stacked([chain.average for chain in chains])
        samples = _stacked([sample for chain in chains for sample in chain.samples])
        self.posterior_ = self._posterior(
            average=average,
            last=_stacked([chain.state for chain in chains]),
            samples=samples,
            cost=float(self.C),
            margin=float(self.margin),
            sigma=prior.sigma,
            varsigma=prior.varsigma if prior.own else 0.0,
        )
        # Held once: tables and samples are the posterior's.
        self._chains = [
            replace(
                chain,
                state=_bare(chain.state),
                average=_bare(chain.average or {}),
                samples=tuple(map(_bare, chain.samples)),
            )
            for chain in chains
        ]
        self.classes_ = self._known.levels
        # Mean over chains of U V^T, in factors side by side.
        self.user_factors_ = np.concatenate(list(average.users), axis=1) / len(chains)
        self.item_factors_ = np.concatenate(list(average.items), axis=1)
        theta = average.thresholds.mean(axis=0)
        self.thresholds_ = theta if prior.own else theta[0]

    def _keep_traces(self, problem: Problem) -> None:
        chains = self._chains
        self.risks_ = np.array([chain.trace["risk"] for chain in chains])
        self.risk_ = float(
            np.mean([self._sampler.risk(problem, chain.average) for chain in chains if chain.average is not None])
        )
        burnt = self.risks_[:, self.risks_.shape[1] - chains[0].n_averaged :]
        self.r_hat_, self.effective_sample_size_ = gibbs.split_rhat(burnt), gibbs.effective_sample_size(burnt)
        self.n_iter_ = self.risks_.shape[1]

    def _whole_chains(self) -> list[Chain]:
        """The chains with their tables and samples."""
        posterior, numbers = self.posterior_, count()

        def filled(bare: State, tables: Factors, number: int) -> State:
            found = {name: table[number] for name, table in zip(_PARTS, tables, strict=True)}
            if "feature" in bare:  # without the zeros that make chains alike
                for name in ("users", "items"):
                    found[name] = np.ascontiguousarray(found[name][:, : bare["feature"].size])
            return {**bare, **found}

        return [
            replace(
                chain,
                state=filled(chain.state, posterior.last, i),
                average=filled(chain.average or {}, posterior.average, i),
                samples=tuple(filled(sample, posterior.samples, next(numbers)) for sample in chain.samples),
            )
            for i, chain in enumerate(self._chains)
        ]

    def _fold(self, known: Known, given: Ratings, new: slice) -> None:
        first = self._known.users.size
        columns = given.user[new] - first, given.item[new], given.level[new], given.weight[new]
        fresh = Ratings(*columns, known.users.size - first, known.items.size, given.n_levels)
        problem = self._problem(fresh.merged(self.duplicates, (known.users.ids[first:], known.items.ids, known.levels)))
        plan = gibbs.Plan(self.n_sweeps, self.burn_in)
        with self._threads():
            self._chains = [
                folded(chain, self._sampler.folding(problem, int(chain.state["seed"])), plan)
                for chain in self._whole_chains()
            ]
        self._known, self._ratings, self._key = known, given, None
        self._warm_key = self._shape_key(known)
        self._keep(problem.prior)

    # ------------------------------------------------------------- predicting

    def _rows(self, X: Any) -> tuple[IntArray, IntArray]:
        """Rows of users and items; -1 where they are not known."""
        check_is_fitted(self)
        user, item = self._read(X, reset=False)
        strict: Any = "raise" if self.unknown == "raise" else "mark"
        known = self._known
        return (
            known.users.encode(user, unknown=strict, noun="row", kind="user"),
            known.items.encode(item, unknown=strict, noun="row"),
        )

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the levels that users are expected to give.

        Parameters
        ----------
        X : array-like of shape (n, 2)
            Ids of user and item. Of a user or an item without ratings nothing but the prior is known: x_ij = 0 is held
            against the user's thresholds, or the mean of all users'.

        Returns
        -------
        ndarray of shape (n,)
            Levels, of `classes_`.
        """
        user, item = self._rows(X)
        return self.classes_[self.posterior_.levels(user, item, self.prediction)]

    def predict_proba(self, X: Any) -> Array:
        """Return the probabilities of the levels.

        The loss of each level turned into a probability, exp(-C loss) over its sum ([XZZ13] section 2.1), averaged over
        the kept samples.

        Parameters
        ----------
        X : array-like of shape (n, 2)
            Ids of user and item. What is not known of users or items without ratings is averaged over the prior.

        Returns
        -------
        ndarray of shape (n, L)
            In the order of `classes_`.
        """
        user, item = self._rows(X)
        return self.posterior_.probabilities(user, item)

    def predict_score(self, X: Any, *, return_std: bool = False) -> Array | tuple[Array, Array]:
        """Return the posterior mean of x_ij, which the user's thresholds cut into levels.

        Parameters
        ----------
        X : array-like of shape (n, 2)
            Ids of user and item.
        return_std : bool, default=False
            Whether to add standard deviations.

        Returns
        -------
        mean : ndarray of shape (n,)
            In the unit of the margin. Comparable among the items of one user.
        std : ndarray of shape (n,)
            Only when asked for.
        """
        user, item = self._rows(X)
        mean, variance = self.posterior_.score_moments(user, item)
        return (mean, np.sqrt(variance)) if return_std else mean

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return minus the mean absolute error in levels.

        Parameters
        ----------
        X : array-like of shape (n, 2)
            Ids of user and item.
        y : array-like of shape (n,)
            Ratings.
        sample_weight : array-like of shape (n,), default=None
            Weights of the ratings.

        Returns
        -------
        float
            At most 0; the nearer to 0 the better.
        """
        user, item = self._rows(X)
        _, level = rating_levels(y, self.classes_, *self._read(X, reset=False))
        weight = None if sample_weight is None else _weights(sample_weight)
        check_consistent_length(user, level, weight)
        error = np.abs(self.posterior_.levels(user, item, self.prediction) - level)
        return -float(np.average(error, weights=weight))

    def recommend(
        self, user: Any, n: int = 10, *, exclude_seen: bool = True, optimism: float = 0.0
    ) -> tuple[NDArray[Any], Array]:
        """Return the items that a user is expected to like most.

        Parameters
        ----------
        user : id
            Of a user with ratings.
        n : int, default=10
            How many items at most.
        exclude_seen : bool, default=True
            Whether to leave out items that the user has rated.
        optimism : float, default=0.0
            Standard deviations of x_ij added to its mean before items are ranked. With 1 or 2, items come up that may
            turn out well and of which much is to be learnt.

        Returns
        -------
        ids : ndarray of shape (at most n,)
            The best first.
        value : ndarray of the same shape
            What they were ranked by.

        Raises
        ------
        UnknownIdError
            If the user has no ratings: all items would be alike. See `fold_in`.
        """
        check_is_fitted(self)
        row = int(self._known.users.encode([user], "user", unknown="mark", noun="row", kind="user")[0])
        if row < 0:
            why = "has no ratings, so that all items would be alike; give some to fold_in or partial_fit"
            raise UnknownIdError(f"unknown user {shorten(user)} {why}")
        if not isinstance(n, Integral) or n < 1:
            raise DataError(f"n must be an integer of at least 1; got {n!r}.")
        item = np.arange(self._known.items.size)
        if exclude_seen:
            item = np.setdiff1d(item, self._ratings.item[self._ratings.user == row])
        mean, variance = self.posterior_.score_moments(np.full(item.size, row), item)
        value = mean + optimism * np.sqrt(variance)
        best = np.argsort(-value, kind="stable")[:n]
        return self._known.items.ids[item[best]], value[best]


def _weights(sample_weight: Any) -> Array:
    weight = np.asarray(sample_weight, dtype=np.float64)
    if weight.ndim != 1:
        raise DataError(f"sample_weight must be one-dimensional, one weight a rating; got shape {weight.shape}.")
    wrong = ~np.isfinite(weight) | (weight < 0.0)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(f"sample_weight must be finite and >= 0; got {weight[row]} in row {row}.")
    return weight


def _grown(old: Vocabulary, column: Any) -> Vocabulary:
    """The ids of a vocabulary, and behind them the new ones of a column."""
    new = column[old.encode(column, unknown="mark") < 0]
    if not new.size:
        return old
    added = Vocabulary.from_columns(new).ids
    alike = old.ids.dtype == added.dtype
    return Vocabulary(np.concatenate([part if alike else part.astype(object) for part in (old.ids, added)]))


def _bare(state: State) -> State:
    return {name: value for name, value in state.items() if name not in _PARTS}


def _stacked(states: list[Any]) -> Factors:
    """Side by side; where numbers of factors differ, with zeros behind the last."""
    width = max(state["items"].shape[1] for state in states)

    def wide(name: str, table: NDArray[Any]) -> NDArray[Any]:
        return table if name == "thresholds" else np.pad(table, ((0, 0), (0, width - table.shape[1])))

    return Factors(*(np.stack([wide(name, state[name]) for state in states]) for name in _PARTS))
