"""`CrowdGPPL` on tasks: choices of one among several, the best and the worst, rankings (docs/maths section 14)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from skpref.data.comparisons import append_comparisons
from skpref.gp.capabilities import Capabilities
from skpref.gp.crowd.base import mark_seen
from skpref.gp.crowd.leaderboards import CrowdLeaderboards
from skpref.gp.crowd.personal import PersonalPosterior
from skpref.gp.entities import Entities
from skpref.gp.pairwise.tasks import TASKS

if TYPE_CHECKING:
    from skpref._typing import Array, IntArray
    from skpref.data import Comparisons
    from skpref.data.tasks import Answers, Tasks
    from skpref.gp.crowd.model import CrowdConfig
    from skpref.gp.entities import Items


# Items have effects of their own beside part-worths where each stood in so many pairs, there are at most so many, and
# a pass over the pairs takes less than about a second.
_SHOWN_OFTEN, _MOST_EFFECTS, _MOST_WORK = 30, 200, 1e9


_ALWAYS = {"inference": ("auto", "ep"), "optimizer": ("auto", None), "consensus": (True,)}
_TASKS = replace(TASKS, takes={**TASKS.takes, **_ALWAYS})
_PART_WORTHS = Capabilities(
    "part-worths, which are the same in all groups and at all times",
    {"groups": (None,), "time": (None,)},
    "pass a kernel, or leave out the features of the items",
)


class CrowdChoices(CrowdLeaderboards):
    """Fits to tasks, each answered by one person, of several people."""

    def _refuse_parameters_of_comparisons(self) -> None:
        """Refuse parameters that models of tasks do not have."""
        _TASKS.check(vars(self))
        if self._has_part_worths():
            _PART_WORTHS.check({"groups": self.groups or None, "time": self.time})

    def _crowd_config(self) -> CrowdConfig:
        config = super()._crowd_config()
        if not self._has_tasks:
            return config
        part_worths = self._has_part_worths()
        pair = replace(config.pair, offsets=config.pair.offsets and not part_worths)
        return replace(config, pair=pair, part_worths=part_worths)

    def _has_part_worths(self) -> bool:
        """Tell whether utilities of items in tasks are linear in their features, with effects of each user's own."""
        return self.items is not None and self.kernel is None

    def _have_own_effects(self, items: Entities, comparisons: Comparisons) -> bool:
        """Tell whether items have effects beside the part-worths: where they are few, and each was shown often."""
        if not (self.item_effects and self._has_part_worths()):
            return False
        n, n_shown = items.seen.size, np.count_nonzero(comparisons.weight) / items.seen.size
        cost = comparisons.n_pairs * (items.n_features + n) ** 2
        return bool(n_shown >= _SHOWN_OFTEN and n <= _MOST_EFFECTS and cost <= _MOST_WORK)

    def _is_hierarchical(self, n_items: int) -> bool:
        return self._has_tasks or super()._is_hierarchical(n_items)

    def _fit_tasks(self, X: Any, y: Any, sample_weight: Any) -> None:
        """Fit to tasks in memory."""
        self._refuse_parameters_of_comparisons()
        tasks = self._read_tasks(X, reset=True, weighted=True)
        self._is_dated = tasks.is_dated
        items = Entities.read(self.items, *tasks.shown, estimator=self, kind="item")
        users = Entities.read(self.users, tasks.user, estimator=self, kind="user")
        self._set_groups(tasks.groups)
        self._form, self.classes_ = "", np.arange(tasks.present.shape[1])
        comparisons, answers = self._encode_users(users, items, tasks, y, sample_weight)
        self._form = answers.form
        users, items = mark_seen(comparisons, users, items)
        items = replace(items, has_own=self._have_own_effects(items, comparisons))
        warm = self.warm_start and getattr(self, "_warm_key", None) == self._model_digest(users, items)
        self._learn(users, items, comparisons, self._warm_start() if warm else None)

    def _encode_users(
        self, users: Entities, items: Entities, tasks: Tasks, y: Any, sample_weight: Any
    ) -> tuple[Comparisons, Answers]:
        """Return choices by rows of the vocabularies, and the answers."""
        user = users.vocabulary.encode(tasks.user, "X", noun="row", kind="user")
        group = self._numbers_of_groups(tasks.groups)
        return self._encode_tasks(items, tasks, y, sample_weight, user, users.vocabulary.size, group)

    def _learn_more_tasks(self, X: Any, y: Any, sample_weight: Any, new_items: Any, new_users: Any) -> None:
        """Learn from more tasks, from the fitted posterior on."""
        self._refuse_parameters_of_comparisons()
        tasks = self._read_tasks(X, weighted=True)
        self._refuse_other_times(tasks)
        users, items = self._users.with_new(new_users, tasks.user), self._items.with_new(new_items, *tasks.shown)
        self._set_groups(tasks.groups, known=True)
        new, _ = self._encode_users(users, items, tasks, y, sample_weight)
        users, items = mark_seen(new, users, items)
        comparisons = append_comparisons(self._comparisons, new)
        changed = np.zeros(users.seen.size, dtype=bool)
        changed[users.position[np.asarray(new.user)[new.weight > 0.0]]] = True
        self._learn(users, items, comparisons, self._warm_start(changed))

    def _task_moments(
        self, tasks: Tasks, task: IntArray, pairs: tuple[Items, IntArray, IntArray], covariates: Array | None
    ) -> tuple[Array, Array]:
        assert isinstance(self.posterior_, PersonalPosterior)  # noqa: S101 - type narrowing: tasks have a hierarchy
        users, number = self._users_of_rows(tasks.user)
        asked = (users, number[task]), *pairs
        if self.posterior_.groups is not None:
            return self.posterior_.pairs(*asked, covariates=covariates, levels=self._levels_of_rows(tasks)[task])
        return self.posterior_.pairs(*asked, covariates=covariates)
