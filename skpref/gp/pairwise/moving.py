"""What `GPPLClassifier` does where its utilities move in time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy.special import ndtri
from sklearn.utils.validation import check_is_fitted

from skpref._checks import check_arrays, check_types, require
from skpref._estimator import check_credibility, unchanged_on_failure
from skpref._math.random import as_generator
from skpref._warn import warn
from skpref.data import Comparisons
from skpref.data.comparisons import append_comparisons
from skpref.data.ids import shorten
from skpref.data.labels import are_with_ties
from skpref.data.records import frame_or_record, make_frame
from skpref.data.shards import ComparisonCounts, ShardOptions, check_classes
from skpref.data.times import as_duration, as_grid, as_time, as_times, refuse_other_kind, to_dates
from skpref.exceptions import DataError
from skpref.gp.capabilities import Capabilities, check_unchanged
from skpref.gp.entities import Entities, describe_unknown, holds_features, players_of
from skpref.gp.pairwise.base import (
    as_likelihood,
    check_features,
    connected_components,
    draw_utilities,
    infer,
    set_attributes,
)
from skpref.gp.pairwise.comparison import ComparisonClassifier
from skpref.gp.pairwise.fit import PairData
from skpref.gp.pairwise.levels import units_of_context
from skpref.gp.pairwise.moving_posterior import MovingPosterior
from skpref.gp.pairwise.over_time import Movement, SkillDynamics, UtilityCurves, end_posterior, fit_over_time
from skpref.gp.pairwise.ranking import WinMatrix, predicted_wins, win_matrix
from skpref.gp.pairwise.sharded import bring_all, is_dated, join, merge_if_few, numbered
from skpref.gp.pairwise.tasks import TASKS, encode_tasks
from skpref.gp.pairwise.thresholds import predict_answers
from skpref.likelihoods.ties import share_of_left

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from numpy.typing import ArrayLike

    from skpref._typing import Array, BoolArray, IdRows, IntArray, MatrixLike, RandomState
    from skpref.data import IdColumn, Table
    from skpref.data.shards import ShardSummary
    from skpref.data.tasks import Tasks
    from skpref.gp.entities import Items
    from skpref.gp.pairwise.columns import PairRows
    from skpref.gp.pairwise.fit import PairConfig, PairFit
    from skpref.gp.pairwise.posterior import PairPosterior
    from skpref.inference.chain_groups import GroupDifferences
    from skpref.inference.shards import Shards

_FULL_PASSES = "auto", "vb", "laplace"
_MAX_FILTERED = 100.0  # weight of an answer beyond which the filter's quadrature is inaccurate


_MOVING = Capabilities(
    "models with time, groups, context or teams",
    {
        "inference": ("auto", "vb"),
        "optimizer": ("auto", None),
        "item_effects": (True,),
        "warm_start": (False,),
        "scale_prior": (None,),
        "checkpoint": (None,),
    },
    "fit without these",
)
_STILL = Capabilities("models without time", {"dynamics": ("auto",)}, "name the column of times by time=")


class MovingClassifier(ComparisonClassifier):
    """Fits and predictions of utilities at any time, in groups, and of teams; without a column of times nothing moves.

    Models of groups or teams are those over time in which nothing moves, if there is no column of times.
    """

    time: Any
    dynamics: str
    context_scales_: Array
    team: str
    moving_posterior_: MovingPosterior
    dynamics_: SkillDynamics
    item_ids_: Any
    _items: Entities

    @property
    def _has_teams(self) -> bool:
        """Whether the sides of a comparison are teams of players."""
        return isinstance(self.left, list | tuple)

    def _item_columns(self, rows: PairRows) -> list[IdColumn]:
        """Return the columns of ids of items, one after the other where teams have several."""
        return [players_of(side) if self._has_teams else side for side in (rows.left, rows.right)]

    @property
    def _stands_still(self) -> bool:
        """Whether the model is one over time without a column of times."""
        return self.time is None and (self._has_teams or self._columns.has_levels)

    @property
    def _needs_memory(self) -> bool:
        return super()._needs_memory or self._has_teams or self._columns.has_levels

    def _read(self, X: Any, *, reset: bool, weighted: bool = True) -> PairRows:
        rows = super()._read(X, reset=reset, weighted=weighted)
        return rows._replace(time=np.zeros(len(rows.left))) if self._stands_still else rows

    def _read_tasks(self, X: Any, *, reset: bool = False, weighted: bool = False) -> Tasks:
        tasks = super()._read_tasks(X, reset=reset, weighted=weighted)
        return replace(tasks, time=np.zeros(len(tasks.present))) if self._stands_still else tasks

    def _needs_all(self, summaries: list[ShardSummary]) -> bool:
        """Tell whether a fit needs all comparisons in one place."""
        has_covariates = self.covariates is not None and len(self.covariates) > 0
        labels = [label for summary in summaries for label in summary.labels]
        learns_ties = self.likelihood == "auto" and are_with_ties(np.unique(labels))
        learns = learns_ties or as_likelihood(self.likelihood).has_parameters
        return has_covariates or self.time is not None or learns or self.inference not in _FULL_PASSES

    def _shard_options(self) -> ShardOptions:
        """Return how the comparisons of a shard are read and merged."""
        return ShardOptions(self.on_self, keep_order=self.order_effect, keep_ties=self._keeps_ties)

    def _fit_shards(self, shards: Shards, summaries: list[ShardSummary], rows: list[Any]) -> None:
        """Fit to comparisons in shards, given their summaries and handles on the comparisons."""
        self._set_groups(())
        self._numbers = {}
        self._forget_times()  # a fit that has some sets them
        if self._needs_all(summaries):
            items, number, _, _ = numbered(self, summaries)
            self.classes_ = check_classes([s.classes for s in summaries if s.classes is not None])
            dated = is_dated(self.time, summaries)
            comparisons = bring_all(shards, rows, number, items)
            if comparisons.covariates is not None:
                self._columns.check_sizes(comparisons.covariates)
            self._fit_comparisons(items, comparisons, is_dated=dated)
            return
        items, joined = join(self, shards, summaries, rows)
        self._items, self.item_ids_ = items, items.seen_ids
        self.components_ = connected_components(joined)
        self.classes_ = check_classes([s.classes for s in summaries if s.classes is not None])
        summaries.clear()  # they take 32 bytes for each item and shard
        config = self._config(offsets=self._has_offsets(), order=self.order_effect)
        here = merge_if_few(joined, keep_order=self.order_effect)
        data = PairData(items.seen_features, here, joined)
        set_attributes(self, infer(self, data, config, self.item_ids_))
        self._keep(ComparisonCounts(joined.weight_of_item))

    def _kept_comparisons(self, method: str) -> Comparisons:
        """Return the comparisons of the fit for a method that needs them."""
        if isinstance(self._comparisons, Comparisons):
            return self._comparisons
        raise DataError(
            f"{method} needs the comparisons of the fit, and a fit to data on disk or on a cluster keeps none of them: "
            "fit again with all comparisons in memory"
        )

    def _fit_tasks(self, X: Any, y: Any, sample_weight: Any, old: Comparisons | None, items: Entities | None) -> None:
        """Fit to tasks in memory, in addition to old ones of known items."""
        TASKS.check(vars(self))
        tasks = self._read_tasks(X, reset=items is None, weighted=True)
        if items is not None:
            self._refuse_other_times(tasks)
        else:
            self._form, self.classes_ = "", np.arange(tasks.present.shape[1])
        if items is None:
            items = Entities.read(self.items, *tasks.shown, estimator=self, kind="item")
        self._set_groups(tasks.groups, known=old is not None)
        if old is None:
            self._numbers = units_of_context(self._columns.roles.context, tasks, sample_weight)
        arguments = self._columns, items, tasks, y, sample_weight, np.zeros(len(tasks.present), dtype=np.int64), 1
        group, context = self._levels.groups_of(tasks.groups), self._levels.context_of(tasks)
        covariates = self._covariates_of_tasks(tasks)
        comparisons, answers = encode_tasks(*arguments, group=group, context=context, covariates=covariates)
        comparisons = replace(comparisons, user=None, n_users=0)
        if old is None:
            self._form = answers.form
        else:
            comparisons = append_comparisons(old, comparisons)
        data, config, kept = self._prepare(items, comparisons)
        set_attributes(self, self._infer_utilities(data, config, is_dated=tasks.is_dated, resume=old is not None))
        self._keep(kept)

    def _task_moments(
        self, tasks: Tasks, task: IntArray, pairs: tuple[Items, IntArray, IntArray], covariates: Array | None
    ) -> tuple[Array, Array]:
        self._refuse_other_times(tasks)
        if tasks.time is None:
            return self.posterior_.pairs(*pairs, covariates=covariates)
        levels = self._levels.of_rows(tasks)
        at = tasks.time[task], None if levels is None else levels[task]
        return self.moving_posterior_.pairs(*pairs, at[0], covariates, at[1], order=True)

    def _infer_utilities(self, data: PairData, config: PairConfig, *, is_dated: bool, resume: bool = False) -> PairFit:
        """Fit by `_infer`, or over time where comparisons have times; with `resume`, hyperparameters stay."""
        if self.time is None:
            _STILL.check(vars(self))
        if data.comparisons.time is None:
            fit = infer(self, data, config, self.item_ids_, resume=resume)
            self._forget_times()
            return fit
        _MOVING.check(vars(self))
        check_features(self, data.X)
        earlier = self._earlier() if resume else None
        dynamics = "constant" if self._stands_still else self.dynamics
        movement = Movement(dynamics, self.optimizer is not None, self.kernel, is_dated, earlier, self._columns.widths)
        found = fit_over_time(data, config, movement, as_generator(self.random_state))
        fit, self.moving_posterior_, self.dynamics_ = found
        groups = self.moving_posterior_.items.groups
        variances = np.zeros(0) if groups is None else groups.variances
        self.group_scales_, self.context_scales_ = np.split(variances, [len(self._columns.groups)])
        return fit

    def _forget_times(self) -> None:
        """Leave out what an earlier fit over time or in groups has set."""
        for name in ("moving_posterior_", "dynamics_"):
            if hasattr(self, name):
                delattr(self, name)
        self.group_scales_ = self.context_scales_ = np.zeros(0)

    def _earlier(self) -> tuple[MovingPosterior, SkillDynamics] | None:
        """Return the fit whose dynamics stay; None where all its comparisons had one time, which says nothing."""
        moving, dynamics = self.moving_posterior_, self.dynamics_
        held, likelihood = moving.items.groups, self.likelihood_
        check_unchanged("context", [*self._columns.widths], [] if held is None else held.widths.tolist())
        check_unchanged("team", self.team, "mean" if moving.team_mean else "sum")
        if self.likelihood != "auto":
            check_unchanged("likelihood", type(as_likelihood(self.likelihood)), type(likelihood))
        if self.dynamics != "auto":
            check_unchanged("dynamics", self.dynamics, dynamics.name)
        says_nothing = moving.end <= float(moving.first.min()) and self.time is not None
        return None if says_nothing else (moving, dynamics)

    def _refuse_other_times(self, rows: PairRows | Tasks) -> None:
        """Refuse times that a model without them cannot use, their absence, and dates in the place of numbers."""
        moving = getattr(self, "moving_posterior_", None)
        check_unchanged("whether there are time, groups, context or teams", rows.time is not None, moving is not None)
        if moving is not None:
            refuse_other_kind(self.time, now=rows.is_dated, then=moving.is_dated)

    def update(
        self,
        X: IdRows,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        items: Table | None = None,
    ) -> Self:
        """Filter later comparisons into a model with `time`: microseconds each, without another fit.

        Each comparison, one after the other, changes the utilities of its two items and the effects, and nothing else;
        with `groups`, differences between groups follow when all are filtered, but those of new groups stay unknown.
        Predictions use them. Utilities of other items, hyperparameters, thresholds of ties, the curve of careers and
        the function of features stay as the fit left them: after a fit without ties, a tie is half of each answer.
        `partial_fit` refits instead, with these comparisons and all earlier ones, and is more accurate where items have
        few of them. Each call also takes about a tenth of a second where there are 60,000 earlier comparisons: pass
        many rows at once.

        Parameters
        ----------
        X : array-like of shape (n, n_columns)
            Comparisons with the columns of `fit`, in the order of time. None may be before an earlier one of its items.
        y : array-like of shape (n,), default=None
            Labels, as in `fit`.
        sample_weight : array-like of shape (n,), default=None
            Weights of the comparisons, at most 100; None: all weights are 1.
        items : Table, default=None
            Features of new items, if the model has features. Otherwise new ids are read from X; they start as any new
            item.

        Returns
        -------
        GPPLClassifier
            The estimator.

        Raises
        ------
        ValueError
            As in `partial_fit`. Also if the model was fitted without `time` or to tasks, or rows are not in the order
            of time.

        Examples
        --------
        >>> from skpref import GPPLClassifier
        >>> X = [["x", "y", 1], ["x", "y", 2], ["y", "x", 3], ["y", "x", 4]]
        >>> model = GPPLClassifier(time=2, dynamics="drift").fit(X, [1, 0, 1, 1])
        >>> before = model.utility(["y"])
        >>> bool(model.update([["y", "x", 5], ["y", "z", 6]]).utility(["y"])[0] > before[0])
        True
        """
        moving = self._moving("update")
        self._refuse_tasks("update", "partial_fit")
        self._refuse_other_model()
        old = self._kept_comparisons("update")
        rows = self._with_covariates(self._read(X, reset=False))
        self._refuse_other_times(rows)
        all_items = self._items.with_new(items, *self._item_columns(rows))
        self._set_groups(rows.groups, known=True)
        new = self._encode(all_items, rows, self._grades(y), sample_weight)
        new = new.take(new.weight > 0.0)
        if not new.n_pairs:
            return self
        all_items = all_items.with_seen(new.compact()[1])
        new = new.renumbered(all_items.position, all_items.seen.size)
        self._refuse_earlier(new)
        with unchanged_on_failure(self):
            self.moving_posterior_ = moving.filtered(new, self.likelihood_, all_items.seen_features)
            self.posterior_, self._state = end_posterior(self.moving_posterior_)
            self._items, self.item_ids_ = all_items, all_items.seen_ids
            together = append_comparisons(old, new)
            self.components_ = together.components()[1]
            self._keep(together)
        return self

    def _refuse_other_model(self) -> None:
        """Refuse further comparisons where parameters name another model than the fit."""
        if not self._has_tasks:
            had_teams = getattr(self._comparisons, "left", np.zeros(0)).ndim == 2
            check_unchanged("whether left and right are teams", self._has_teams, had_teams)
        check_unchanged("order_effect", self._has_side, self.posterior_.has_order)
        self._refuse_other_covariates()
        if self.likelihood != "auto":
            check_unchanged("whether likelihood has ties", self._keeps_ties, self.likelihood_.ties_are_answers)

    def _refuse_earlier(self, c: Comparisons) -> None:
        """Refuse comparisons for a filter that are not in the order of time, or too heavy for it."""
        moving = self._moving("update")
        if (np.diff(c.time) < 0.0).any():
            row = int(np.argmax(np.diff(c.time) < 0.0)) + 1
            raise DataError(f"row {row} of X is earlier than the row before; sort X by {self.time!r}")
        last = np.full(c.n_items, -np.inf)
        last[: moving.items.n_chains] = moving.items.last
        early = c.time < np.where(c.players < 0, -np.inf, last[c.players]).max(axis=1)
        if early.any():
            raise DataError(
                f"row {int(np.argmax(early))} of X is earlier than the last comparison of one of its items, which "
                "update cannot take back; use partial_fit, which refits with all comparisons"
            )
        if c.weight.max(initial=0.0) > _MAX_FILTERED:
            raise DataError(
                f"sample_weight is at most {_MAX_FILTERED:g} in update; use partial_fit for heavier answers"
            )

    def _check_groups(self, groups: GroupDifferences | None) -> None:
        """Raise DataError unless names, variances and comparisons are of the posterior's groups."""
        sizes, widths = np.zeros((2, 0), dtype=np.int64) if groups is None else (groups.sizes, groups.widths)
        check_arrays(self, {"n": sizes.size, "m": widths.size}, group_scales_="n", context_scales_="m")
        check_types(self, _numbers=dict)
        sound = all(np.isfinite(pair).all() and pair[1] > 0.0 for pair in self._numbers.values())
        require(sound and len(self._numbers) == widths.sum(), self, "_numbers", f"must be of {widths.sum()} columns")
        held = getattr(self._comparisons, "context", None)
        same = (0 if held is None else held.shape[1]) == len(self._numbers)
        require(same, self, "_comparisons", "must have the context of the posterior")
        self._levels.check_groups(self, sizes.tolist())
        numbers = getattr(self._comparisons, "group", None)
        require((numbers is None) == (not sizes.size), self, "_comparisons", "must have the groups of the posterior")
        if numbers is not None:
            n_ids = np.array([ids.size for ids in self.group_ids_])
            known = numbers.shape[1] == n_ids.size and bool((numbers.max(axis=0) < n_ids).all())
            require(known, self, "_comparisons", "must be of these groups")

    def _check_moving(self) -> None:
        """Raise DataError unless the posterior over time fits the other attributes."""
        if self.time is None and not self._stands_still and not hasattr(self, "moving_posterior_"):
            self._check_groups(None)
            return
        both = {name: getattr(self, name, None) for name in ("moving_posterior_", "dynamics_")}
        found = isinstance(both["moving_posterior_"], MovingPosterior), isinstance(both["dynamics_"], SkillDynamics)
        require(all(found), self, "moving_posterior_", "must be there, with dynamics_, where time is a parameter")
        moving = self.moving_posterior_
        require(
            moving.items.n_chains == self._items.seen.size, self, "moving_posterior_", "must be of the compared items"
        )
        n_basis = self.posterior_.n_basis
        same = moving.n_effects == self.posterior_.mean.size - n_basis and moving.has_order == self.posterior_.has_order
        require(same, self, "moving_posterior_", "must have the effects of posterior_")
        same = n_basis == (0 if moving.features is None else moving.features.mean.size)
        require(same, self, "moving_posterior_", "must have the features of posterior_")
        self._check_groups(moving.items.groups)

    def dynamics_table(self) -> Any:
        """Return how utilities may move, as far as it was tried, the best first.

        Returns
        -------
        pandas.DataFrame
            Columns name; log_posterior, the bound on the log evidence plus the log prior of the hyperparameters, in
            nats; difference, to the best; and chosen.

        Raises
        ------
        ValueError
            If the model was fitted without `time`.
        """
        self._moving("dynamics_table")
        tried = sorted(self.dynamics_.log_posteriors.items(), key=lambda pair: -pair[1])
        names, values = np.array([name for name, _ in tried]), np.array([value for _, value in tried])
        columns = {"name": names, "log_posterior": values, "difference": values - values.max(initial=-np.inf)}
        return make_frame(columns | {"chosen": names == self.dynamics_.name})

    def _moving(self, name: str) -> MovingPosterior:
        """Return the posterior over time, for something that needs it."""
        check_is_fitted(self)
        if not hasattr(self, "moving_posterior_") or self.time is None:
            raise DataError(f"{name} needs utilities that move: fit with time=, a column of X")
        return self.moving_posterior_

    def _level(self, groups: Mapping[Any, Hashable] | None, context: Mapping[Any, float] | None = None) -> Array:
        """Return the groups and the numbers of context that a caller named, shape (n_kinds + n_numbers,)."""
        return np.array([*self._levels.named_groups(groups), *self._levels.named_numbers(context)], dtype=np.float64)

    def _posterior_at(
        self, at: Any, groups: Mapping[Any, Hashable] | None = None, context: Mapping[Any, float] | None = None
    ) -> PairPosterior:
        """Return the posterior of utilities at one time; None is the last comparison, all groups, average context."""
        check_is_fitted(self)
        levels = self._level(groups, context)
        if at is None and not groups and not context:
            return self.posterior_
        moving = self.moving_posterior_ if at is None else self._moving(f"at={shorten(at)}")
        time = moving.end if at is None else as_time(at, "at", is_dated=moving.is_dated)
        return moving.snapshot(time, levels)

    def _active(self, active: Any, at: Any) -> BoolArray:
        """Return which compared items took part in the time before `at`, and had begun by then."""
        moving = self._moving(f"active={shorten(active)}")
        time = moving.end if at is None else float(as_times(at, "at", is_dated=moving.is_dated))
        width = as_duration(active, "active", is_dated=moving.is_dated)
        times, players = self._comparisons.time, self._comparisons.players
        recent = (times <= time) & (times >= time - width)
        result = np.zeros(moving.items.n_chains, dtype=bool)
        result[players[recent][players[recent] >= 0]] = True
        if not result.any():
            before = "the last comparison" if at is None else f"at={shorten(at)}"
            raise DataError(f"active={shorten(active)}: no item took part in that time before {before}")
        return result

    def _begun(self, at: Any) -> BoolArray:
        """Return which compared items had a comparison by a time."""
        moving = self._moving(f"at={shorten(at)}")
        begun = moving.first <= float(as_times(at, "at", is_dated=moving.is_dated))
        if not begun.any():
            raise DataError(f"at={shorten(at)}: no item had been compared by then")
        return np.asarray(begun)

    def _expected(self, comparisons: Comparisons) -> Array | None:
        """Return the predicted labels, a tie as 0.5; None where only the two items count."""
        if comparisons.covariates is None and comparisons.time is None:
            return None
        items = self._items.rows(np.arange(self._items.vocabulary.size))
        pairs, covariates = (items, comparisons.left, comparisons.right), comparisons.covariates
        if comparisons.time is None:
            moments = self.posterior_.pairs(*pairs, covariates=covariates)
        else:
            moments = self.moving_posterior_.pairs(*pairs, comparisons.time, covariates, comparisons.levels, order=True)
        if self.likelihood_.ties_are_answers:
            answers = self._answers_in(moments, comparisons.levels)
            return answers @ np.linspace(1.0, 0.0, answers.shape[1])
        return self.likelihood_.predict(*moments)

    @property
    def tie_thresholds_(self) -> Array | None:
        """Posterior medians of the thresholds of ties in groups; None without ties or groups."""
        check_is_fitted(self)
        moving = getattr(self, "moving_posterior_", None)
        if moving is None or moving.thresholds is None or moving.items.groups is None:
            return None
        return np.exp(moving.thresholds.mean).reshape(moving.items.groups.sizes)

    def _answers_in(self, moments: tuple[Array, Array], levels: Array | None) -> Array:
        """Return the probabilities of the answers to rows in groups, shape (n, L)."""
        likelihood: Any = self.likelihood_
        if self.tie_thresholds_ is None or (log_b := self.moving_posterior_.log_thresholds(levels)) is None:
            return np.asarray(likelihood.predict_answers(*moments))
        return predict_answers(likelihood, *moments, log_b)

    def _answers(self, X: Any) -> Array:
        if self.tie_thresholds_ is None:
            return super()._answers(X)
        rows = self._read(X, reset=False, weighted=False)
        return self._answers_in(self._moments(X), self._levels.of_rows(rows))

    def _left_probability(self, X: Any) -> Array:
        return super()._left_probability(X) if self.tie_thresholds_ is None else share_of_left(self._answers(X))

    def curves(
        self,
        items: ArrayLike | None = None,
        *,
        times: ArrayLike | None = None,
        groups: Mapping[Any, Hashable] | None = None,
        context: Mapping[Any, float] | None = None,
        credibility: float = 0.9,
    ) -> Any:
        """Return the utilities of items over time, with credible intervals that grow while nobody compares.

        Parameters
        ----------
        items : array-like of shape (n,), default=None
            Ids. None: all compared items.
        times : array-like of shape (n_times,), default=None
            Times, as dates where those of `fit` are dates; those after the last comparison are forecasts. None: 100
            times from the first to the last comparison.
        groups : dict, default=None
            Groups of the utilities, as in `utility`.
        context : dict, default=None
            Context of the utilities, as in `utility`.
        credibility : float, default=0.9
            Posterior probability of each interval.

        Returns
        -------
        pandas.DataFrame or UtilityCurves
            One row for each item and time, with the columns of `UtilityCurves`. Before its first comparison, an item
            has the utility that it had there. A data frame if pandas is installed.

        Raises
        ------
        ValueError
            If the model was fitted without `time`, or an id is unknown.
        """
        moving = self._moving("curves")
        check_credibility(credibility)
        grid = as_grid(times, (float(moving.first.min()), moving.end), is_dated=moving.is_dated)
        ids, chosen = self._items.select(self.item_ids_ if items is None else items)
        levels = self._level(groups, context)
        utility, std = (each.ravel() for each in moving.curves(chosen, grid, levels))
        half_width = ndtri(0.5 + 0.5 * credibility) * std
        time = np.tile(to_dates(grid) if moving.is_dated else grid, chosen.size)
        columns = np.repeat(ids, grid.size), time, utility, std, utility - half_width, utility + half_width
        return frame_or_record(UtilityCurves(*columns))

    def _select(self, items: Any, *, new: bool = False) -> tuple[IdColumn, Items]:
        """Return the items that a caller chose; ids of new ones, which begin as any new item, are a warning."""
        check_is_fitted(self)
        known = self._items
        if not new or items is None or known.features is not None or holds_features(items):
            return known.select(items)
        rows = known.vocabulary.encode(items, "items", unknown="mark", noun="row")
        if (rows < 0).any():
            warn(describe_unknown(known, items, rows, "row", "its utility is that of a new item"))
        return known.with_new(None, items).select(items)

    def sample_utility(
        self,
        items: Table | MatrixLike | None = None,
        n_samples: int = 1,
        random_state: RandomState = None,
        *,
        at: Any = None,
        groups: Mapping[Any, Hashable] | None = None,
        context: Mapping[Any, float] | None = None,
    ) -> Array:
        """Draw joint samples of utilities from the posterior.

        Parameters
        ----------
        items : array-like of shape (n,), Table, or array-like of shape (n, n_features), default=None
            Ids, or features of items, at most 10,000. None: all items. Unknown ids are a warning, as in `utility`.
        n_samples : int, default=1
            Number of draws.
        random_state : int, RandomState, Generator or None, default=None
            Seed of the draws.
        at : date or number, default=None
            Time of the utilities, as in `utility`.
        groups : dict, default=None
            Groups of the utilities, as in `utility`.
        context : dict, default=None
            Context of the utilities, as in `utility`.

        Returns
        -------
        ndarray of shape (n, n_samples)
            One draw per column.
        """
        _, chosen = self._select(items, new=True)
        return draw_utilities(self._posterior_at(at, groups, context), chosen, n_samples, as_generator(random_state))

    def win_matrix(self, items: ArrayLike | None = None, *, groups: Mapping[Any, Hashable] | None = None) -> WinMatrix:
        """Return the probability that one item is preferred to another, and how often it was.

        Parameters
        ----------
        items : array-like of shape (n,), default=None
            Ids, at most 10,000. None: all compared items, the best first.
        groups : dict, default=None
            Groups of the comparisons, as in `utility`.

        Returns
        -------
        WinMatrix
            Predicted and observed shares of the item in the row against that in the column, without covariates and the
            order effect. Of teams, comparisons of single players are observed.
        """
        check_is_fitted(self)
        posterior = self._posterior_at(None, groups)
        if items is None:
            mean = posterior.utility(self._items.rows(self._items.seen))[0]
            items = self.item_ids_[np.argsort(-mean, kind="stable")]
        ids, chosen = self._select(items)
        comparisons = self._levels.select(self._kept_comparisons("win_matrix"), groups)
        comparisons = comparisons.decided().single_pairs()
        likelihood = self.likelihood_
        if groups:
            levels = self._level(groups)[None]
            ((likelihood,), _) = self.moving_posterior_.likelihoods(1, levels, likelihood)
        return win_matrix(predicted_wins(posterior, likelihood, chosen), ids, chosen, comparisons)
