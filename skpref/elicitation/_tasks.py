"""Questions in which several items are shown: the user whom a session about choices asks."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from functools import partial
from typing import Any

import numpy as np
from scipy.special import entr, softmax

from skpref._typing import Array
from skpref.data.ids import shorten
from skpref.elicitation._beliefs import Belief, Estimates, ignore_missing_names
from skpref.elicitation.policy import POLICY
from skpref.exceptions import DataError
from skpref.gp.crowd import CrowdGPPL
from skpref.gp.entities import Items
from skpref.gp.pairwise import GPPLClassifier


class TaskUser:
    """A user who chooses one of several items; of a `GPPLClassifier`, nobody in particular."""

    def __init__(self, model: GPPLClassifier | CrowdGPPL, candidates: list[tuple[Any, ...]], user: Any) -> None:
        self.model, self.candidates, self._user = model, candidates, user
        self.labels = tuple(model.classes_.tolist())
        shown = np.full((len(candidates), len(self.labels)), None, dtype=object)
        for row, items in enumerate(candidates):
            shown[row, : len(items)] = items
        self._X = shown if user is None else np.column_stack([np.full(len(shown), user, dtype=object), shown])
        tasks = model._read_tasks(self._X)  # noqa: SLF001 - of this package
        known = model._items  # noqa: SLF001 - of this package
        numbers = tasks.numbers(known.vocabulary)  # refuses unknown items, and an item twice
        rows = np.unique(numbers[numbers >= 0])
        self._items, self._ids = known.rows(rows), known.vocabulary.ids[rows]
        self._present, self._place = tasks.present, np.maximum(np.searchsorted(rows, numbers), 0)

    def __len__(self) -> int:
        return len(self.candidates)

    @classmethod
    def from_model(cls, model: Any, candidates: Any, user: Any, ids: Any, rng: np.random.Generator) -> TaskUser:
        """Return the user of a session; by default the candidates are random sets of items."""
        most = model.classes_.size
        if candidates is None:
            size = min(most, len(ids))
            candidates = [rng.choice(len(ids), size, replace=False) for _ in range(POLICY.tasks)]
            candidates = [tuple(ids[place].tolist()) for place in candidates]
        candidates = candidates.to_numpy() if hasattr(candidates, "to_numpy") else candidates
        if isinstance(candidates, str) or not hasattr(candidates, "__len__"):
            raise DataError(f"candidates must be lists of the items that tasks show; got {shorten(candidates)}")
        if not 0 < len(candidates) <= POLICY.most_tasks:
            left = "no candidate left: candidates is empty." if len(candidates) == 0 else "too many candidates"
            raise DataError(f"{left} From 1 to {POLICY.most_tasks} tasks can be candidates; got {len(candidates)}")
        sets = [tuple(task) if isinstance(task, list | tuple | np.ndarray) else (task,) for task in candidates]
        for row, task in enumerate(sets):
            if not 2 <= len(task) <= most:
                raise DataError(f"candidate {row} must show 2 to {most} items, as in fit; got {shorten(list(task))}")
        return cls(model, sets, user)

    def read(self, answer: Any) -> float:
        """Return the position of the item chosen, as a number."""
        if isinstance(answer, bool) or answer not in self.labels:
            raise DataError(f"an answer must be the position of the item chosen, from 0; got {shorten(answer)}")
        return float(answer)

    def belief(self, answers: Mapping[int, float]) -> Belief:
        """Return the belief from draws of the user's utilities.

        Its latent value is the utility of the best item; "determinant" orders tasks by what they tell each.
        """
        utilities = self._draws(answers)
        shown = np.where(self._present, utilities[:, self._place], -np.inf)  # (S, n, K)
        p, best = softmax(shown, axis=2), shown.max(axis=2)
        probability, within = p.mean(axis=0), entr(p).sum(axis=2).mean(axis=0)
        gain = np.clip(entr(probability).sum(axis=1) - within, 0.0, np.log(len(self.labels)))
        spread = np.where(self._present, np.var(utilities, axis=0)[self._place], 0.0).sum(axis=1)
        precision = np.expm1(2.0 * gain) / np.maximum(spread, np.finfo(np.float64).tiny)
        items = Estimates(self._ids.tolist(), utilities.mean(axis=0), *np.quantile(utilities, (0.05, 0.95), axis=0))
        return Belief(best.mean(axis=0), spread, partial(np.diag, spread), probability, gain, precision, items)

    def _draws(self, answers: Mapping[int, float]) -> Array:
        """Return draws of the user's utilities, relative to their mean, given answers, shape (S, n_items)."""
        model = self.updated(answers)
        if isinstance(model, CrowdGPPL):
            people, is_known = model._select_users([self._user])  # noqa: SLF001 - of this package
            people = people if is_known.any() else Items(None, np.array([-1]))
            (draws,) = model._draws(people, self._items, POLICY.draws, 0)  # noqa: SLF001
        else:
            draws = model.sample_utility(self._ids, POLICY.draws, random_state=0).T
        return np.asarray(draws - draws.mean(axis=1, keepdims=True))

    def estimates(self, belief: Belief) -> Estimates:
        """Return utilities of the items, relative to their mean."""
        assert belief.items is not None  # noqa: S101 - type narrowing: a belief of this user
        return belief.items

    @ignore_missing_names()
    def updated(self, answers: Mapping[int, float]) -> Any:
        """Return a copy of the model after `partial_fit`."""
        if not answers:
            return self.model
        model, rows = deepcopy(self.model), list(answers)
        ranks = np.full((len(rows), len(self.labels)), np.nan)
        ranks[np.arange(len(rows)), [int(place) for place in answers.values()]] = 1.0
        return model.partial_fit(self._X[rows], ranks)
