"""`CrowdGPPL` on tasks: choices of one among several, the best and the worst, rankings (docs/maths section 14)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from skpref._warn import warn
from skpref.data.comparisons import append_comparisons
from skpref.data.ids import shorten
from skpref.data.tasks import ID, Answers, Tasks, are_tasks, as_comparisons, pairs_of_tasks, read_answers
from skpref.exceptions import DataError, DataWarning
from skpref.gp.crowd.base import mark_seen
from skpref.gp.crowd.leaderboards import CrowdLeaderboards
from skpref.gp.crowd.personal import PersonalPosterior
from skpref.gp.entities import Entities
from skpref.gp.pairwise.columns import has_columns
from skpref.inference.choices import shares_of
from skpref.likelihoods import Luce

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from skpref._typing import Array, BoolArray, IdRows, IntArray
    from skpref.data import Comparisons, IdColumn
    from skpref.gp.crowd.model import CrowdConfig

_OF_CHOICES = {"auto", "luce", "logit"}  # likelihoods that tasks may have


class CrowdChoices(CrowdLeaderboards):
    """What fits and predicts answers about several items that were shown together."""

    shown: Any

    def _holds_tasks(self, X: Any, y: Any) -> bool:
        """Tell whether rows of X are tasks; named columns of both sides say that they are not."""
        if self.shown is not None or self.likelihood == "luce":
            return True
        named = (self.left, self.right, self.covariates, self.groups, self.weight)
        return all(column is None for column in named) and are_tasks(X, y)

    def _refuse_with_tasks(self) -> None:
        """Refuse parameters that models of tasks do not have."""
        faults = {
            name: getattr(self, name)
            for name in ("left", "right", "covariates", "groups", "weight")
            if getattr(self, name) is not None
        }
        faults |= {"order_effect": True} if self.order_effect else {}
        faults |= {} if self.consensus else {"consensus": False}
        faults |= {} if self.inference in {"auto", "ep"} else {"inference": self.inference}
        faults |= {} if self._keeps_kernels() else {"optimizer": self.optimizer}
        if not (isinstance(self.likelihood, Luce) or self.likelihood in _OF_CHOICES):
            faults["likelihood"] = self.likelihood
        for name, value in faults.items():
            raise DataError(
                f"{name}={shorten(value)} belongs to comparisons of two items, but rows of X are tasks in which several "
                "items were shown: leave it at its default. Tasks have likelihood='luce' and inference='ep'"
            )

    def _crowd_config(self) -> CrowdConfig:
        config = super()._crowd_config()
        if not self._has_tasks:
            return config
        part_worths = self._has_part_worths()
        pair = replace(config.pair, likelihood=Luce(), offsets=config.pair.offsets and not part_worths)
        return replace(config, pair=pair, part_worths=part_worths)

    def _has_part_worths(self) -> bool:
        """Tell whether utilities are linear in the features of items, whose effects are each user's own."""
        return self._has_tasks and self.items is not None and self.kernel is None

    def _n_coordinates(self, n_items: int) -> int:
        return self._items.n_features if self._has_part_worths() else n_items

    def _is_hierarchical(self, n_items: int) -> bool:
        return self._has_tasks or super()._is_hierarchical(n_items)

    def _fit_tasks(self, X: Any, y: Any, sample_weight: Any) -> None:
        """Fit to tasks in memory."""
        self._refuse_with_tasks()
        tasks = Tasks.read(X, self.user, self.shown)
        items = Entities.read(self.items, *tasks.shown, estimator=self, kind="item")
        users = Entities.read(self.users, tasks.user, estimator=self, kind="user")
        comparisons, answers = self._encode_tasks(users, items, tasks, y, sample_weight)
        self._groups, self._form = (), answers.form
        self.classes_ = np.arange(tasks.present.shape[1])
        validate_data(self, X, reset=True, skip_check_array=True)
        users, items = mark_seen(comparisons, users, items)
        warm = self.warm_start and getattr(self, "_warm_key", None) == self._model_digest(users, items)
        self._learn(users, items, comparisons, self._warm_start() if warm else None)

    def _encode_tasks(
        self, users: Entities, items: Entities, tasks: Tasks, y: Any, sample_weight: Any
    ) -> tuple[Comparisons, Answers]:
        numbers = tasks.numbers(items.vocabulary)
        answers = read_answers(y, tasks, numbers, items.vocabulary)
        alone = int(np.count_nonzero(tasks.present.sum(axis=1) < 2))
        if alone:
            warn(f"{alone} tasks of X show fewer than two items and say nothing: they are left out.", DataWarning)
        user = users.vocabulary.encode(tasks.user, "X", noun="row", kind="user")
        return (
            as_comparisons(answers, numbers, items.vocabulary.size, user, users.vocabulary.size, sample_weight),
            answers,
        )

    def _learn_more_tasks(self, X: Any, y: Any, sample_weight: Any, new_items: Any, new_users: Any) -> None:
        """Learn from more tasks, from the fitted posterior on."""
        self._refuse_with_tasks()
        tasks = self._read_tasks(X)
        users, items = self._users.with_new(new_users, tasks.user), self._items.with_new(new_items, *tasks.shown)
        new, _ = self._encode_tasks(users, items, tasks, y, sample_weight)
        users, items = mark_seen(new, users, items)
        comparisons = append_comparisons(self._comparisons, new)
        changed = np.zeros(users.seen.size, dtype=bool)
        changed[users.position[np.asarray(new.user)[new.weight > 0.0]]] = True
        self._learn(users, items, comparisons, self._warm_start(changed))

    # ------------------------------------------------------------------------------------------------------ predictions
    def _read_tasks(self, X: Any) -> Tasks:
        """Return tasks as wide as those of the fit, or narrower."""
        tasks = Tasks.read(X, self.user, self.shown)
        K = tasks.present.shape[1]
        if self.shown is not None or K != self.classes_.size:
            if K > self.classes_.size:
                raise DataError(
                    f"X has {K + 1} features (columns), but {type(self).__name__} is expecting {self.n_features_in_} "
                    f"features as input: a user and up to {self.classes_.size} items"
                )
            return tasks
        validate_data(self, X, reset=False, skip_check_array=True)
        return tasks

    def _shares(self, tasks: Tasks) -> Array:
        """Return the probability that each position is chosen, 0 where nothing was shown, shape (n, K)."""
        assert isinstance(self.posterior_, PersonalPosterior)  # noqa: S101 - type narrowing: tasks have a hierarchy
        numbers = tasks.numbers(self._items.vocabulary, "raise" if self._items.features is not None else "mark")
        none = ~tasks.present.any(axis=1)
        if none.any():
            raise DataError(f"task {int(np.argmax(none))} of X shows no item")
        # Items that the fit does not know are different ones, of which nothing is known but the prior.
        known = np.where(numbers == -2, -3 - np.arange(numbers.size).reshape(numbers.shape), numbers)
        left, right, task, order = pairs_of_tasks(known)
        distinct = np.unique(known[known != -1])
        items = self._items.rows(np.maximum(distinct, -1))
        users, number = self._users_of_rows(tasks.user)
        asked = (users, number[task]), items, np.searchsorted(distinct, left), np.searchsorted(distinct, right)
        moments = self.posterior_.pairs(*asked)
        sizes = tasks.present[order].sum(axis=1)
        out, several = np.zeros(numbers.shape), sizes > 1
        pairs = np.concatenate([[0], np.cumsum((sizes * (sizes - 1) // 2)[several])])
        of_tasks = np.where(tasks.present[order[~several]], 1.0, 0.0)
        out[order[~several]] = of_tasks
        shares = np.zeros((int(several.sum()), numbers.shape[1]))
        shares[tasks.present[order[several]]] = shares_of(pairs, *moments)
        out[order[several]] = shares
        return out

    def predict_proba(self, X: IdRows, *, ties: bool = False) -> Array:
        """Return the probabilities of the answers to comparisons or tasks.

        Parameters
        ----------
        X : array-like of shape (n, n_columns)
            Comparisons or tasks, with the columns of `fit`.
        ties : bool, default=False
            Whether to return the probability of a tie, too. It needs ``likelihood="probit-ties"`` or ``"logit-ties"``.
            With these likelihoods and ``ties=False``, the two probabilities are conditional on no tie.

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
        ids: NDArray[Any] = np.empty(tasks.present.shape, dtype=object)
        for k, column in enumerate(tasks.shown):
            ids[tasks.present[:, k], k] = column.tolist()
        chosen = ids[np.arange(place.size), place]
        return np.array(chosen.tolist()) if self.item_ids_.dtype != object or _are_text(chosen) else chosen

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
        tasks = self._read_tasks(X)
        numbers = tasks.numbers(self._items.vocabulary, "mark")
        right = np.argmax(self._shares(tasks), axis=1) == read_answers(y, tasks, numbers, self._items.vocabulary).first
        return float(np.average(right, weights=sample_weight))

    def _refuse_tasks(self, method: str, instead: str) -> None:
        """Refuse a method of comparisons where the model is of tasks."""
        check_is_fitted(self)
        if self._has_tasks:
            raise DataError(f"{method} is for comparisons of two items; the model was fitted to tasks: use {instead}")

    def _moments(self, X: Any, *, order: bool = True) -> tuple[Array, Array]:
        self._refuse_tasks("this method", "predict_proba, utility or rank")
        return super()._moments(X, order=order)


def _are_text(ids: IdColumn) -> bool:
    return all(isinstance(value, str) for value in ids.tolist())
