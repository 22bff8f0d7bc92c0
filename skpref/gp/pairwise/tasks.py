"""What `GPPLClassifier` and `CrowdGPPL` share where rows of X are tasks: several items that were shown together."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from skpref._sources import as_source, bring_rows, feature_columns, is_elsewhere, set_features
from skpref._warn import warn
from skpref.data.columns import Columns
from skpref.data.ids import LEAVE_OUT
from skpref.data.roles import Roles
from skpref.data.shards import read_shard
from skpref.data.stored import MOST_STORED
from skpref.data.tasks import (
    ID,
    TABLE_OF_TASKS,
    Answers,
    Tasks,
    are_tasks,
    as_comparisons,
    pairs_of_tasks,
    read_answers,
    shown_twice,
)
from skpref.exceptions import DataError, DataWarning
from skpref.gp.capabilities import Capabilities
from skpref.gp.pairwise.base import ComparisonClassifier
from skpref.gp.pairwise.columns import PairColumns, refuse_two_weights
from skpref.gp.pairwise.sharded import may_show_several, roles_of
from skpref.inference.choices import shares_of
from skpref.likelihoods import Luce
from skpref.metrics import pair_accuracy

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from skpref._sources import Source
    from skpref._typing import Array, IdRows, IntArray
    from skpref.data import Comparisons
    from skpref.data.shards import ShardOptions, ShardSummary
    from skpref.gp.entities import Entities, Items
    from skpref.gp.pairwise.columns import PairRows
    from skpref.gp.pairwise.fit import PairConfig
    from skpref.inference.shards import Shards

# Tasks have likelihood="luce", whatever they are given.
TASKS = Capabilities(
    "tasks, which show several items",
    {
        "likelihood": ("luce", "auto", "probit", "logit", Luce),
        "inference": ("auto", "vb"),
        "left": (None,),
        "right": (None,),
    },
    "pass comparisons of two items",
)
_SEVERAL = "if a row shows several items, of which one was chosen, likelihood='luce' says so"
_FEW_TASKS = 10  # tasks of which columns of items may share no id by chance


class TaskClassifier(ComparisonClassifier):
    """Predictions for comparisons or, after a fit to tasks, for tasks."""

    _items: Entities
    _form: str | None  # how answers name what was chosen; None where rows are comparisons
    _takes_collections: ClassVar[bool] = True
    order_effect: bool

    @property
    def _has_tasks(self) -> bool:
        """Whether the rows of the fit are tasks, and not comparisons."""
        return getattr(self, "_form", None) is not None

    @property
    def _has_side(self) -> bool:
        """Whether the left side has an effect; positions of tasks are covariates."""
        return bool(self.order_effect) and not self._has_tasks

    def _holds_tasks(self, X: Any, y: Any) -> bool:
        """Tell whether rows of X are tasks; named columns of the sides say that they are not."""
        if self.likelihood == "luce" or isinstance(self.likelihood, Luce) or self._has_grades:
            return not self._has_grades
        named = X is None or any(getattr(self, name, None) is not None for name in ("left", "right"))
        return not named and are_tasks(X, y, len(self._sides))

    def _read(self, X: Any, *, reset: bool, weighted: bool = True) -> PairRows:
        try:
            return super()._read(X, reset=reset, weighted=weighted)
        except DataError as error:
            shape: tuple[int, ...] = getattr(X, "shape", ())
            if not (reset and self._columns is None and len(shape) == 2 and shape[1] > len(self._sides)):
                raise
            raise DataError(f"{error}; {_SEVERAL}") from error

    def _config(self, *, offsets: bool, order: bool) -> PairConfig:
        config = super()._config(offsets=offsets, order=order and not self._has_tasks)
        return replace(config, likelihood=Luce()) if self._has_tasks else config

    def _read_tasks(self, X: Any, *, reset: bool = False, weighted: bool = False) -> Tasks:
        """Return tasks; after a fit they may show fewer items than in the fit."""
        if isinstance(X, Mapping):
            raise DataError("X is a dict, but an array or a data frame is required: try pandas.DataFrame(X)")
        named = self._columns or PairColumns(Roles(), self._sides, [])
        tasks = named.read_tasks(Columns.of(X, "X", "X", LEAVE_OUT, TABLE_OF_TASKS), weighted=weighted)
        if tasks.covariates is not None:
            named.check_sizes(tasks.covariates)
        K = tasks.present.shape[1]
        if not reset:
            self._refuse_other_covariates()
            if self.classes_.size < K:
                raise DataError(
                    f"X shows up to {K} items in a task, but {type(self).__name__} is expecting {self.n_features_in_} "
                    f"features (columns) as input: at most {self.classes_.size} items"
                )
            if self.classes_.size > K and all(isinstance(name, str) for name in named.roles.columns()):
                return tasks  # of fewer columns, of which none is named by its position
        validate_data(self, X, reset=reset, skip_check_array=True)
        return tasks

    def _with_positions(self, tasks: Tasks) -> Array | None:
        """Return the covariates of the alternatives, indicators of positions at the end, shape (n, K, q)."""
        if not self.order_effect:
            return tasks.covariates
        n, K = tasks.present.shape
        place = np.broadcast_to(np.eye(K, self.classes_.size - 1), (n, K, self.classes_.size - 1))
        return place if tasks.covariates is None else np.concatenate([tasks.covariates, place], axis=2)

    @property
    def _effect_names(self) -> list[str]:
        positions = range(1, self.classes_.size) if self._has_tasks and self.order_effect else ()
        return [*super()._effect_names, *(f"position {k}" for k in positions)]

    def _encode_tasks(
        self,
        items: Entities,
        tasks: Tasks,
        y: Any,
        sample_weight: Any,
        user: IntArray,
        n_users: int,
        group: IntArray | None = None,
        context: Array | None = None,
    ) -> tuple[Comparisons, Answers]:
        """Return choices by rows of the vocabularies, and the answers that they follow from."""
        has_profiles = items.features is not None
        numbers = tasks.numbers(items.vocabulary, profiles=has_profiles)
        answers = read_answers(y, tasks)
        if (twice := shown_twice(numbers)).any():
            warn(
                f"{int(twice.sum())} tasks show an item more than once, first task {int(np.argmax(twice))}: each copy "
                "counts as an alternative. If they are different items, give them ids of their own.",
                DataWarning,
            )
        columns = [set(ids.tolist()) for ids in tasks.shown]
        alike = [any(own & other for other in columns if other is not own) for own in columns]
        if not has_profiles and len(numbers) >= _FEW_TASKS and any(alike) and not all(alike):
            place = alike.index(False) + ("user" in self._sides)
            warn(
                f"Column {place} of X has ids that no other column has: if it holds no items, leave it out of X.",
                DataWarning,
            )
        alone = int(np.count_nonzero(tasks.present.sum(axis=1) < 2))
        if alone:
            warn(f"{alone} tasks of X show fewer than two items and say nothing: they are left out.", DataWarning)
        refuse_two_weights(None if tasks.weight is None else self.weight, sample_weight)
        comparisons = as_comparisons(
            *(answers, numbers, items.vocabulary.size, user, n_users),
            sample_weight if tasks.weight is None else tasks.weight,
            self._with_positions(tasks),
            time=tasks.time,
            group=group,
            context=context,
        )
        if self._columns is not None:
            self._columns.check_varying(comparisons)
        return comparisons, answers

    # ------------------------------------------------------------------------------------------------------ predictions
    @abstractmethod
    def _task_moments(
        self, tasks: Tasks, task: IntArray, pairs: tuple[Items, IntArray, IntArray], covariates: Array | None
    ) -> tuple[Array, Array]:
        """Return posterior means and variances of pairs, each of one task."""

    def _shares(self, tasks: Tasks) -> Array:
        """Return the probability that each position is chosen, 0 where nothing was shown, shape (n, K)."""
        has_profiles = self._items.features is not None
        unknown = "raise" if has_profiles else "mark"
        numbers = tasks.numbers(self._items.vocabulary, unknown, profiles=has_profiles)
        # Items that the fit does not know are different ones, of which nothing is known but the prior.
        known = np.where(numbers == -2, -3 - np.arange(numbers.size).reshape(numbers.shape), numbers)
        left, right, task, order = pairs_of_tasks(tasks.present)
        distinct = np.unique(known[known != -1])
        items, C = self._items.rows(np.maximum(distinct, -1)), self._with_positions(tasks)
        pairs = items, np.searchsorted(distinct, known[task, left]), np.searchsorted(distinct, known[task, right])
        moments = self._task_moments(tasks, task, pairs, None if C is None else C[task, left] - C[task, right])
        sizes = tasks.present[order].sum(axis=1)
        out, several = np.zeros(numbers.shape), sizes > 1
        starts = np.concatenate([[0], np.cumsum((sizes * (sizes - 1) // 2)[several])])
        out[order[~several]] = np.where(tasks.present[order[~several]], 1.0, 0.0)
        shares = np.zeros((int(several.sum()), numbers.shape[1]))
        shares[tasks.present[order[several]]] = shares_of(starts, *moments)
        out[order[several]] = shares
        return out

    def predict_proba(self, X: IdRows, *, ties: bool = False) -> Array:
        """Return the probabilities of the answers to comparisons or tasks.

        Parameters
        ----------
        X : array-like of shape (n, n_columns)
            Comparisons or tasks, with the columns of `fit`.
        ties : bool, default=False
            Whether to return the probability of a tie, too. It needs ``likelihood="probit-ties"``, ``"logit-ties"`` or
            ``"davidson"``, or "auto" and ties in `y`. With ``ties=False`` a tie counts as half of each side.

        Returns
        -------
        ndarray of shape (n, 2), (n, 3) or (n, K)
            Probabilities of the two sides in the order of `classes_`: right, left for numbers or booleans, and left,
            right for words. With `ties`: always left, tie, right. Of tasks: the probability that the item at each
            position is chosen, the best of those shown; 0 where there is none.
        """
        check_is_fitted(self)
        if not self._has_tasks:
            return super().predict_proba(X, ties=ties)
        if ties:
            raise DataError("ties=True is for comparisons of two items; the model was fitted to tasks")
        return self._shares(self._read_tasks(X))

    def predict(self, X: IdRows) -> NDArray[Any]:
        """Return the preferred side of each comparison, or the item that is most probably chosen in each task.

        Parameters
        ----------
        X : array-like of shape (n, n_columns)
            Comparisons or tasks, with the columns of `fit`.

        Returns
        -------
        ndarray of shape (n,)
            In the form of the `y` of `fit`. Sides: 1 or 0, True or False, "left" or "right". Choices: ids, or positions
            from 0.
        """
        check_is_fitted(self)
        if not self._has_tasks:
            return super().predict(X)
        tasks = self._read_tasks(X)
        place = np.argmax(self._shares(tasks), axis=1)
        if self._form != ID:
            return place
        chosen = tasks.ids[np.arange(place.size), place]
        plain = all(isinstance(value, str | int) for value in chosen.tolist())
        return np.array(chosen.tolist()) if plain else chosen

    def score(self, X: IdRows, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> float:
        """Return the share of correct predictions: of sides (ties do not count), or of what was chosen in tasks.

        Parameters
        ----------
        X : array-like of shape (n, n_columns)
            Comparisons or tasks, with the columns of `fit`.
        y : array-like of shape (n,), (n, 2) or (n, K), default=None
            Answers as in `fit`; a soft label counts as the side that it favours, and of a ranking the best item counts.
        sample_weight : array-like of shape (n,), default=None
            Weights of the answers; None: all weights are 1.

        Returns
        -------
        float
            Share of correct predictions, in [0, 1].
        """
        check_is_fitted(self)
        if not self._has_tasks:
            return super().score(X, y, sample_weight)
        right = np.argmax(self._shares(self._read_tasks(X)), axis=1) == self._chosen_places(X, y)
        return pair_accuracy(np.ones(right.size), right.astype(np.float64), sample_weight=sample_weight)

    def _chosen_places(self, X: Any, y: Any) -> IntArray:
        """Return the position of what was chosen, or is the best, in each task, shape (n,)."""
        place = read_answers(y, self._read_tasks(X)).first
        if (place < 0).any():
            row = int(np.argmax(place < 0))
            raise DataError(f"y: task {row} has no best item, which scores are about; leave such tasks out of scores")
        return place

    @property
    def _needs_memory(self) -> bool:
        """Whether a fit brings rows of files or a cluster into memory first."""
        return bool(self._has_grades) or self._holds_tasks(None, None)

    def _brought(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
        """Return the arguments of `fit`; tasks and grades of files or a cluster are brought into memory."""
        source = as_source(X, y, sample_weight) if is_elsewhere(X) else None
        if source is None or not (self._needs_memory or may_show_several(self, source)):
            return X, y, sample_weight
        rows = feature_columns(source)[0]
        if not self._needs_memory and rows.n_rows > MOST_STORED:
            return X, y, sample_weight
        brought = bring_rows(rows, "tasks, grades, groups and teams")
        return brought if self._needs_memory or self._holds_tasks(*brought[:2]) else (X, y, sample_weight)

    @abstractmethod
    def _shard_options(self) -> ShardOptions:
        """Return how the comparisons of a shard are read and merged."""

    @abstractmethod
    def _fit_shards(self, shards: Shards, summaries: list[ShardSummary], rows: list[Any]) -> None:
        """Fit to comparisons in shards, given their summaries and handles on the comparisons."""

    def _fit_source(self, source: Source) -> None:
        """Fit to comparisons that are not in memory."""
        try:
            roles = roles_of(self, source)
        except DataError as error:
            if not may_show_several(self, source):
                raise
            raise DataError(f"{error}; {_SEVERAL}") from error
        names: list[str] | int = source.width
        if source.names is not None:
            names = source.names if self._columns is not None else [getattr(roles, side) for side in self._sides]
        named = [] if source.names is None else replace(roles, winner=None, weight=None).columns()
        read = source.rows(named, roles.winner, roles.weight).keep(read_shard, roles, self._shard_options())
        self._fit_shards(*read)
        set_features(self, names)

    def _refuse_tasks(self, method: str, instead: str) -> None:
        """Refuse a method of comparisons where the model is of tasks."""
        check_is_fitted(self)
        if self._has_tasks:
            raise DataError(f"{method} is for comparisons of two items; the model was fitted to tasks: use {instead}")
