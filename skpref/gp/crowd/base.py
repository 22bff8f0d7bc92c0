"""How `CrowdGPPL` fits: from ids to comparisons of positions, to a posterior, to fitted attributes."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from skpref._checks import check_arrays, check_features, check_indices, check_positive, check_types, is_count, require
from skpref._estimator import check_memory, digest, warn_constant
from skpref._math.random import as_generator
from skpref._math.threads import limit_blas_threads
from skpref.data import Comparisons
from skpref.data.comparisons import append_comparisons
from skpref.data.ids import shorten, single_id
from skpref.data.labels import refuse_one_side
from skpref.data.shards import ShardOptions, check_classes
from skpref.exceptions import DataError, UnknownIdError
from skpref.gp.capabilities import Capabilities, check_unchanged
from skpref.gp.crowd.consensus import heaviest_user
from skpref.gp.crowd.fit import CrowdFit, WarmStart, fit_crowd
from skpref.gp.crowd.fit_hierarchy import HierarchicalFit, Regularisation, fit_crowd_hierarchy
from skpref.gp.crowd.groups import PARTS, variances
from skpref.gp.crowd.hierarchy import are_few
from skpref.gp.crowd.model import CrowdConfig, CrowdData, Kernels
from skpref.gp.crowd.personal import PersonalPosterior
from skpref.gp.crowd.places import Places
from skpref.gp.crowd.policy import POLICY
from skpref.gp.crowd.posterior import CrowdPosterior
from skpref.gp.crowd.sharded import bounds_of, hierarchies_of, join_users, number_groups, number_users
from skpref.gp.crowd.shards import ShardedAnswers
from skpref.gp.crowd.timeline import Timeline
from skpref.gp.default_kernels import kernel_parameters
from skpref.gp.entities import Entities, describe_unknown
from skpref.gp.pairwise.base import DEFAULT_SETTINGS, as_likelihood, connected_components, max_inducing, set_trace
from skpref.gp.pairwise.comparison import ComparisonClassifier
from skpref.gp.pairwise.fit import typical_size
from skpref.gp.pairwise.sharded import is_dated, numbered
from skpref.gp.pairwise.tasks import TASKS
from skpref.gp.pairwise.thresholds import TieThresholds
from skpref.gp.posterior import check_blocks
from skpref.inference.blocks import StackedBlock
from skpref.inference.problem import State
from skpref.inference.scale import check_scales
from skpref.inference.terms.base import Segment
from skpref.kernels.checks import check_kernel
from skpref.likelihoods import Likelihood, PairwiseTies
from skpref.settings import FactorPrior, Gamma

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sklearn.gaussian_process.kernels import Kernel

    from skpref._typing import Array, BoolArray, Features, IntArray
    from skpref.data import IdColumn
    from skpref.data.shards import ShardSummary
    from skpref.data.tasks import Tasks
    from skpref.gp.crowd.posterior import FactorPosterior
    from skpref.gp.entities import Items
    from skpref.gp.pairwise.columns import PairRows
    from skpref.gp.pairwise.over_time import SkillDynamics
    from skpref.inference.shards import Shards
    from skpref.settings import Settings


_ALWAYS = {"inference": ("auto", "ep"), "optimizer": ("auto", None), "consensus": (True,)}
_GROUPS = Capabilities(
    "models with groups, context or time",
    _ALWAYS,
    "fit without these, such as one model to the rows of each group",
)
_TIMES = Capabilities("models with time", {"warm_start": (False,)}, "fit without time")
_TASKS = replace(TASKS, takes={**TASKS.takes, **_ALWAYS})
_PART_WORTHS = Capabilities(
    "part-worths, which are the same in all groups, in any context and at all times",
    {"groups": (None,), "context": (None,), "time": (None,)},
    "pass a kernel, or leave out the features of the items",
)


class CrowdBase(ComparisonClassifier):
    """The steps of a fit."""

    _settings_defaults: ClassVar[dict[str, Settings]] = DEFAULT_SETTINGS | {
        "scale_prior": Gamma(2.0, 2.0),
        "factor_prior": FactorPrior(item_scale=Gamma(2.0, 0.2), user_scale=Gamma(2.0, 0.2)),
    }
    _batch_size: ClassVar[int] = 10_000  # each step factors one matrix for each factor
    _sides: ClassVar[tuple[str, ...]] = ("user", "left", "right")
    _times_go_with: ClassVar[str] = "is time"
    users: Any
    context: Any
    context_scales_: Array
    posterior_: CrowdPosterior | PersonalPosterior
    dynamics_: SkillDynamics
    _thresholds: Any  # TieThresholds; None where all users share one
    _state: Any  # what a warm start needs besides: a State, or the Regularisations of a hierarchy
    _alive: tuple[int, ...]
    kernel_: Kernel | None
    factor_kernel_: Kernel | None
    user_kernel_: Kernel | None
    inducing_points_: Features
    inducing_users_: Features
    factor_scales_: Array

    def _id_columns(self, rows: PairRows | Tasks) -> dict[str, Sequence[IdColumn]]:
        return super()._id_columns(rows) | {"users": [rows.user]}

    def _merge(self, comparisons: Comparisons) -> Comparisons:
        """Merge equal answers only, since `annotators` counts answers."""
        return comparisons.merged(keep_order=self.order_effect, keep_ties=True)

    def _model_digest(self, users: Entities, items: Entities) -> str:
        """Return a digest of all that two fits must share for the second to start from the first."""
        ids = users.seen_ids.tolist(), items.seen_ids.tolist()
        hierarchical = self._is_hierarchical(items.seen.size)
        columns = self._columns
        levels = columns.groups, columns.roles.context, columns.widths
        names = () if columns.is_empty else (*columns.names, str(levels), self.time)
        crowd = self._crowd_config()
        kinds = hierarchical, self._has_tasks, crowd.part_worths, getattr(crowd.pair.likelihood, "n_levels", 2)
        model = self.n_factors, self.consensus, self.item_effects, self.order_effect, kinds, names
        config = crowd.pair
        kernels = [kernel_parameters(kernel) for kernel in self._given_kernels()]
        search = config.learn_length_scales, config.n_restarts
        points = None if isinstance(config.inducing, str) else config.inducing
        settings = ids, model, config.n_inducing, kernels, search
        return digest(settings, users.seen_features, items.seen_features, points)

    def _given_kernels(self) -> Kernels:
        """Return the kernels that the parameters name."""
        prior = self._setting("factor_prior")
        return Kernels(self.kernel, prior.item_kernel, prior.user_kernel)

    def _refuse_other_model(self) -> None:
        scales = self.posterior_.scales
        fitted: dict[str, Any] = {
            "n_factors": self.factor_scales_.size,
            "consensus": not {"f", "offset"}.isdisjoint(scales),
            "order_effect": self.posterior_.consensus.has_order or (self._has_tasks and self.order_effect),
        }
        if fitted["consensus"] and self._items.features is not None and not self._crowd_config().part_worths:
            fitted["item_effects"] = "offset" in scales
        for name, value in fitted.items():
            check_unchanged(name, getattr(self, name), value)
        self._refuse_other_covariates()
        self._levels.refuse_others()
        for entities in (self._items, self._users):
            name = entities.parameter
            check_unchanged(
                f"whether {name} have features", getattr(self, name) is not None, entities.features is not None
            )

    def _warm_start(self, changed: BoolArray | None = None) -> WarmStart | HierarchicalFit:
        """Return the start of the next fit; `changed` are the users with new answers, by position."""
        if isinstance(self.posterior_, PersonalPosterior):
            kernels = Kernels(self.kernel_, self.factor_kernel_, self.user_kernel_)
            fitted = self.posterior_, self._state, kernels, self.inducing_points_, self.likelihood_
            return HierarchicalFit(*fitted, self._thresholds, changed=changed)
        return WarmStart(
            self._state,
            self._segments,
            self._alive,
            Kernels(self.kernel_, self.factor_kernel_, self.user_kernel_),
            self.inducing_points_,
            self.inducing_users_,
        )

    def _start_alike(self, users: Entities, items: Entities) -> WarmStart | HierarchicalFit | None:
        """Return the start of a fit with `warm_start`, where the earlier fit was of the same model."""
        same = self.warm_start and getattr(self, "_warm_key", None) == self._model_digest(users, items)
        return self._warm_start() if same else None

    def _start_beside(self, new: Comparisons, users: Entities) -> WarmStart | HierarchicalFit | None:
        """Return the start of a fit with more comparisons, by users among all."""
        answered = np.asarray(new.user)[new.weight > 0.0]
        return self._warm_start(np.bincount(users.position[answered], minlength=users.seen.size) > 0)

    def _is_hierarchical(self, n_items: int) -> bool:
        """Tell whether users have posteriors of their own, with correlations, instead of a factorised one."""
        if self._has_tasks:
            return True
        if self._columns.has_levels or self.time is not None:
            _GROUPS.check(vars(self))
            if self.time is not None:
                _TIMES.check(vars(self))
            return True
        if self.inference != "auto":
            return self.inference == "ep"
        return n_items <= POLICY.most_items and self._keeps_kernels() and self.n_factors > 0

    def _keeps_kernels(self) -> bool:
        """Tell whether no optimizer changes the hyperparameters of all kernels."""
        return self.optimizer in {"auto", None}

    def _check_tasks(self) -> None:
        _TASKS.check(vars(self))
        if self._has_part_worths():
            _PART_WORTHS.check({"groups": self.groups or None, "context": self.context or None, "time": self.time})

    def _learn_new(self, answers: Comparisons, entities: list[Entities], *, resume: bool) -> None:
        items, users = entities
        users, items = mark_seen(answers, users, items)
        if resume:
            start = self._start_beside(answers, users)
            answers = append_comparisons(self._comparisons, answers)
        else:
            items = replace(items, has_own=self._has_tasks and self._have_own_effects(items, answers))
            start = self._start_alike(users, items)
        self._learn(users, items, self._merge(answers), start)

    def _task_moments(
        self, tasks: Tasks, task: IntArray, pairs: tuple[Items, IntArray, IntArray], covariates: Array | None
    ) -> tuple[Array, Array]:
        assert isinstance(self.posterior_, PersonalPosterior)  # noqa: S101 - type narrowing: tasks have a hierarchy
        users, number = self._users_of_rows(tasks.user)
        asked = (users, number[task]), *pairs
        levels = self._levels_of_rows(tasks)
        return self.posterior_.pairs(*asked, covariates=covariates, levels=None if levels is None else levels[task])

    def _learn(
        self,
        users: Entities,
        items: Entities,
        comparisons: Comparisons,
        start: WarmStart | HierarchicalFit | None,
    ) -> None:
        compared = comparisons_of_seen(comparisons, users, items)
        if self._has_side:
            refuse_one_side(compared.y, compared.weight)
        # Effects of features relate all items.
        part_worths = self._crowd_config().part_worths
        self.components_ = compared.components()[1] if part_worths else connected_components(compared)
        # The site of a win, or of a loss, has a closed form; that of their mean takes quadrature.
        has_ties = compared.has_ties if self.likelihood == "auto" else self._keeps_ties
        apart = has_ties or self._is_hierarchical(compared.n_items)
        compared = compared.merged(keep_order=self.order_effect, keep_ties=apart)
        data = CrowdData(items.seen_features, users.seen_features, compared)
        if compared.time is not None:
            timeline = self._timeline(compared, items, start)
            data = replace(data, timeline=timeline)
            if isinstance(start, HierarchicalFit) and timeline and start.posterior.places.timeline is None:
                start = None  # all earlier comparisons had one time, which says nothing of how utilities move
        self._infer_crowd(users, items, comparisons, data, start)

    def _timeline(self, c: Comparisons, items: Entities, start: Any) -> Timeline | None:
        """Return the steps of the times of comparisons, which continue the steps of an earlier fit."""
        if isinstance(start, HierarchicalFit) and (timeline := start.posterior.places.timeline) is not None:
            return timeline.until(c.time)
        features = items.seen_features
        width = items.seen.size + (0 if features is None else max_inducing(self, features))
        n_places = len(Places.from_comparisons(c, order=False).group)
        return Timeline.cut(c.time, width, n_places, is_dated=self._is_dated)

    def _infer_crowd(
        self,
        users: Entities,
        items: Entities,
        comparisons: Comparisons,
        data: CrowdData,
        start: WarmStart | HierarchicalFit | None,
    ) -> None:
        """Fit to data, which stand for comparisons by ids, and set the attributes."""
        compared = data.comparisons
        if (features := items.seen_features) is not None:
            width = features.shape[1] if self._crowd_config().part_worths else max_inducing(self, features)
            check_memory(features.shape[0], width)
            warn_constant(features)
        if (features := users.seen_features) is not None:
            check_memory(features.shape[0], min(self._crowd_config().pair.n_inducing, features.shape[0]), whose="users")
            warn_constant(features, "the users who compared")
        kernels = self._given_kernels()
        many = compared.n_items > POLICY.most_items and self.inference == "auto" and self._keeps_kernels()
        fit: CrowdFit | HierarchicalFit
        small = self.inference != "auto" or heaviest_user(compared) <= POLICY.most_weight
        config = self._crowd_config()
        config = replace(config, pair=self._config_of_ties(config.pair, comparisons))
        likelihood = config.pair.likelihood
        adds = isinstance(start, HierarchicalFit) and start.changed is not None
        are_first_ties = start is not None and type(self.likelihood_) is not type(likelihood)
        if are_first_ties or (adds and are_few(compared.n_pairs)):
            start = None
        hierarchical = self._is_hierarchical(compared.n_items) and (small or self._has_tasks)
        hierarchical = isinstance(start, HierarchicalFit) or (start is None and hierarchical)
        own = hierarchical and isinstance(likelihood, PairwiseTies) and likelihood.learn
        config = replace(config, choose_priors=many, own_thresholds=own, n_own=items.width - items.n_features)
        arguments = data, kernels, config, as_generator(self.random_state)
        if hierarchical:
            with limit_blas_threads(compared.n_items):
                fit = fit_crowd_hierarchy(*arguments, start if isinstance(start, HierarchicalFit) else None)
            items = replace(items, has_own=items.has_own and fit.posterior.places.n_attributes == items.width)
            if items.has_own:
                fit = replace(fit, posterior=fit.posterior.widened_for_new_items(items.seen.size))
        else:
            fit = fit_crowd(*arguments, start if isinstance(start, WarmStart) else None)
        self._comparisons = comparisons
        self._users, self._items = users, items
        self._warm_key = self._model_digest(users, items)
        self._set_crowd_attributes(fit)

    # ----------------------------------------------------------------------------------------------- rows not in memory
    def _shard_options(self) -> ShardOptions:
        """Return how rows are read: equal answers are merged, since `annotators` counts answers."""
        return ShardOptions(self.on_self, keep_order=self.order_effect, keep_ties=True)

    def _fit_shards(self, shards: Shards, summaries: list[ShardSummary], rows: list[Any]) -> None:
        """Fit to comparisons in shards, given their summaries and handles on the rows as read."""
        items, item_numbers, weight, component = numbered(self, summaries)
        users, user_numbers, counts = number_users(self, summaries)
        kinds, levels = number_groups(self, summaries)
        self.classes_ = check_classes([s.classes for s in summaries if s.classes is not None])
        n_shards = sum(summary.n_pairs > 0 for summary in summaries)
        n_read = sum(summary.n_pairs for summary in summaries)
        self._is_dated = is_dated(self.time, summaries)
        summaries.clear()  # they take 32 bytes for each id and shard
        if not n_read:
            connected_components(ShardedAnswers(shards, [], counts, 1, weight, component))  # refuses
        bounds = bounds_of(counts, n_shards)
        numbers = item_numbers, user_numbers, levels
        joined = join_users(shards, rows, numbers, bounds, items.seen.size, keep_order=self.order_effect)
        answers, kept, sizes = joined
        comparisons = answers.renumbered(items.seen, items.vocabulary.size)  # by the vocabularies, as in memory
        of_users = {"user": users.seen[np.asarray(answers.user)], "n_users": users.vocabulary.size}
        comparisons = replace(comparisons, **of_users)
        if comparisons.covariates is not None:
            self._columns.check_sizes(comparisons.covariates)
            self._columns.check_varying(comparisons)
        self._name_groups(kinds, {})
        start = self._start_alike(users, items)
        if answers.n_pairs <= POLICY.most_choice or not self._takes_shards(answers):
            self._learn(users, items, self._merge(comparisons), start)
            return
        timeline = None if answers.time is None else self._timeline(answers, items, start)
        places = Places.from_comparisons(answers, order=self.order_effect, timeline=timeline)
        scale = np.ones(0)
        if answers.covariates is not None:
            scale = typical_size(answers.covariates, answers.weight)
        kept = hierarchies_of(shards, kept, places, scale)
        columns = sizes, items.seen.size, weight, component, scale, bounds, answers, places
        sharded = ShardedAnswers(shards, kept, *columns)
        self.components_ = connected_components(sharded)
        data = CrowdData(items.seen_features, users.seen_features, sharded.empty(), sharded)
        self._infer_crowd(users, items, comparisons, data, start)

    @property
    def _needs_memory(self) -> bool:
        return super()._needs_memory or bool(self.context)

    def _takes_shards(self, answers: Comparisons) -> bool:
        """Tell whether a fit sees one shard of users after the other; all other fits are to comparisons in memory."""
        likelihood = as_likelihood(self.likelihood)
        shares_none = isinstance(likelihood, PairwiseTies) or not likelihood.has_parameters
        return shares_none and self._is_hierarchical(answers.n_items) and heaviest_user(answers) <= POLICY.most_weight

    def _check_fitted(self) -> None:
        """Raise DataError unless the fitted attributes fit together."""
        check_types(self, posterior_=CrowdPosterior | PersonalPosterior, likelihood_=Likelihood)
        check_types(self, _items=Entities, _users=Entities, _comparisons=Comparisons, _is_dated=bool)
        if not self._has_tasks:
            self._check_classes()
            self._columns.check_width(self)
        thresholds = getattr(self, "_thresholds", None)
        if thresholds is not None:
            check_types(self, _thresholds=TieThresholds)
            require(thresholds.mean.size == self._users.seen.size, self, "_thresholds", "must be of the users")
            require(isinstance(self.likelihood_, PairwiseTies), self, "_thresholds", "needs a likelihood with ties")
        posterior, items = self.posterior_, self._items
        self._check_comparisons()
        self._check_effects(self._comparisons)
        check_indices(self, "components_", self.components_, 0, items.seen.size, items.seen.size)
        consensus = posterior.consensus
        sound = consensus.basis is None or consensus.basis.points.shape[1] == items.width
        sound = sound and (not consensus.has_offsets or consensus.n_seen == items.seen.size)
        require(sound, self, "posterior_", "has a consensus of other items")
        n = check_arrays(self, factor_scales_="D")["D"]
        check_positive(self, "factor_scales_", zero=True)
        for name, entities in (("item", items), ("user", self._users)):
            check_arrays(self, {"n": entities.seen.size, "D": n}, **{f"{name}_factors_": "n D"})
            same = np.array_equal(getattr(self, f"{name}_ids_"), entities.seen_ids)
            require(same, self, f"{name}_ids_", "must be the ids of the seen entities")
        if isinstance(posterior, PersonalPosterior):
            self._check_hierarchy(posterior)
        else:
            self._check_factorised(posterior, n)

    def _check_factorised(self, posterior: CrowdPosterior, n_factors: int) -> None:
        """Raise DataError unless the fitted attributes fit to the posterior of products of factors."""
        check_types(self, _state=State)
        item_kernels = {"kernel_": self.kernel_, "factor_kernel_": self.factor_kernel_}
        self._check_side("items", posterior.items, item_kernels, self.inducing_points_)
        self._check_side("users", posterior.users, {"user_kernel_": self.user_kernel_}, self.inducing_users_)
        n_biases = self._users.seen.size if "bias" in posterior.scales else 0
        require(posterior.bias_mean.size == n_biases, self, "posterior_", f"must have the biases of {n_biases} users")
        self._check_state(posterior, n_biases)
        self._check_alive(posterior, n_factors)

    def _check_hierarchy(self, posterior: PersonalPosterior) -> None:
        """Raise DataError unless the fitted attributes fit to the posterior of a hierarchy."""
        check_types(self, _state=tuple)
        sound = bool(self._state) and all(isinstance(part, Regularisation) for part in self._state)
        require(sound, self, "_state", "must be regularisations")
        items, users, covariates = self._items, self._users, posterior.covariates
        sound = posterior.n_seen == (posterior.places.n_attributes or items.seen.size)
        sound = sound and posterior.n_users == users.seen.size
        require(sound, self, "posterior_", "has other items or users")
        self._check_groups(posterior)
        with_features = items.features is not None
        require(posterior.basis is None or with_features, self, "posterior_", "needs features of items")
        if posterior.basis is not None:
            width = posterior.basis.points.shape[1]
            require(width == items.width, self, "posterior_", "is of items with other features")
        if covariates is not None:
            width = covariates.centre.size if covariates.basis is None else covariates.basis.points.shape[1]
            require(width == users.n_features, self, "posterior_", "is of users with other features")
        parts = (self.inducing_points_, self.kernel_, self.factor_kernel_)
        require({part is not None for part in parts} == {with_features}, self, "kernel_", "must go with features")
        if with_features:
            width = check_features(self, "inducing_points_", self.inducing_points_)
            require(width == items.width, self, "inducing_points_", "has other features")
            for name in ("kernel_", "factor_kernel_"):
                check_kernel(self, name, getattr(self, name), items.width)

    def _check_groups(self, posterior: PersonalPosterior) -> None:
        """Raise DataError unless the comparisons and the posterior have the same groups."""
        places = posterior.places
        group, compared = self._comparisons.group, comparisons_of_seen(self._comparisons, self._users, self._items)
        sizes = places.n_levels.tolist()[: -1 if places.timeline is not None else None]
        self._levels.check_groups(self, sizes)
        self._levels.check_context(self, places.widths)
        require((group is None) == (not sizes), self, "_comparisons", "disagree on groups")
        timed = places.timeline is None or (compared.time is not None and self.time is not None)
        require(timed, self, "_comparisons", "must have times, as the posterior has")
        columns = () if group is None else group.T
        require(len(columns) == len(sizes), self, "_comparisons", f"must have {len(sizes)} columns of groups")
        for ids, column in zip(self.group_ids_, columns, strict=True):
            require(int(column.max(initial=0)) < ids.size, self, "_groups", "leaves out groups of comparisons")
        cells = places.cells(compared)
        if cells is not None:
            complete = all(places.have(side, cells) for side in (compared.left, compared.right))
            require(complete, self, "posterior_", "lacks items of some groups")

    def _check_comparisons(self) -> None:
        """Raise DataError unless the comparisons are of the users and items that are held."""
        comparisons = self._comparisons
        used = comparisons.weight > 0.0
        for name, entities, columns in (
            ("items", self._items, (comparisons.left, comparisons.right)),
            ("users", self._users, (np.asarray(comparisons.user),)),
        ):
            size = entities.vocabulary.size
            require(getattr(comparisons, f"n_{name}") == size, self, "_comparisons", f"must be of {size} {name}")
            complete = all((entities.position[column[used]] >= 0).all() for column in columns)
            require(complete, self, f"_{name}", "leaves out some that occur in the comparisons")

    def _check_side(self, name: str, factors: FactorPosterior, kernels: dict[str, Any], points: Features) -> None:
        """Raise DataError unless factors, kernels and inducing points of one side fit its features."""
        entities = getattr(self, f"_{name}")
        without = {part is None for part in (entities.features, points, *kernels.values())}
        require(len(without) == 1, self, f"_{name}", "and its kernels and inducing points disagree on features")
        if points is not None:
            require(
                check_features(self, f"_{name}", points) == entities.n_features, self, f"_{name}", "has other features"
            )
            for part, kernel in kernels.items():
                check_kernel(self, part, kernel, entities.n_features)
            require(factors.basis is not None or not factors.n_factors, self, "posterior_", f"has no basis of {name}")
        if factors.basis is None:
            size = entities.seen.size
            require(factors.mean.shape[1] == size, self, "posterior_", f"must have the factors of {size} {name}")
        else:
            same = np.shape(points) == factors.basis.points.shape
            require(same, self, "posterior_", f"has other inducing points of {name}")

    def _check_state(self, posterior: CrowdPosterior, n_biases: int) -> None:
        """Raise DataError unless the blocks of the state have the sizes of the posterior."""
        state, consensus = self._state, posterior.consensus
        sides = {"items": posterior.items, "users": posterior.users}
        offsets = 0 if consensus.offset_variance is None else consensus.n_seen
        sizes = {"f": consensus.mean.size, "offsets": offsets, "bias": n_biases}
        check_blocks(self, state, sizes | {name: factors.mean.size for name, factors in sides.items()})
        for name in sides.keys() & state.blocks.keys():
            fits = isinstance(state.blocks[name], StackedBlock) == (sides[name].basis is not None)
            require(fits, self, "_state", f"has a block of the wrong kind for {name}")
        runs = isinstance(self._segments, dict) and all(
            isinstance(run, tuple) and all(isinstance(segment, Segment) for segment in run)
            for run in self._segments.values()
        )
        require(runs, self, "_segments", "must be runs of variables by block")
        held = {name: sum(segment.size for segment in run) for name, run in self._segments.items()}
        wanted = {name: block.size for name, block in state.blocks.items()}
        require(held == wanted, self, "_segments", f"must add up to {wanted}")
        needed = {segment.scale for run in self._segments.values() for segment in run}
        check_scales(self, "_state", state.scales, needed)

    def _check_alive(self, posterior: CrowdPosterior, n_factors: int) -> None:
        """Raise DataError unless the reported factors have the numbers of the posterior's factors."""
        alive = self._alive
        numbers = isinstance(alive, tuple) and all(is_count(d) and d < n_factors for d in alive)
        distinct = numbers and len(set(alive)) == len(alive) == posterior.items.n_factors
        require(distinct, self, "_alive", f"must name {posterior.items.n_factors} of {n_factors} factors")
        check_scales(self, "posterior_", posterior.scales, {f"{side}{d}" for side in "vw" for d in alive})

    def _crowd_config(self) -> CrowdConfig:
        prior, default = self._setting("factor_prior"), self._settings_defaults["factor_prior"]
        part_worths = self._has_tasks and self._has_part_worths()
        return CrowdConfig(
            pair=self._config(offsets=self._has_offsets() and not part_worths, order=self.order_effect),
            n_factors=int(self.n_factors),
            consensus=self.consensus,
            prior_v=_shape_and_rate(prior.item_scale or default.item_scale),
            prior_w=_shape_and_rate(prior.user_scale or default.user_scale),
            part_worths=part_worths,
            widths=self._columns.widths,
        )

    def _has_part_worths(self) -> bool:
        """Tell whether utilities of items in tasks are linear in their features, with effects of each user's own."""
        return self.items is not None and self.kernel is None

    def _have_own_effects(self, items: Entities, comparisons: Comparisons) -> bool:
        """Tell whether items have effects beside the part-worths: where they are few, and each was shown often."""
        if not (self.item_effects and self._has_part_worths()):
            return False
        n, n_shown = items.seen.size, np.count_nonzero(comparisons.weight) / items.seen.size
        cost = comparisons.n_pairs * (items.n_features + n) ** 2
        return bool(n_shown >= POLICY.shown_often and n <= POLICY.most_effects and cost <= POLICY.most_work)

    def _set_dynamics(self) -> None:
        """Set how the consensus moves, where it does."""
        if hasattr(self, "dynamics_"):
            del self.dynamics_
        timeline = self.posterior_.places.timeline if isinstance(self.posterior_, PersonalPosterior) else None
        if timeline is not None:
            start = [1.0 / self.posterior_.scales[name].mean for name in PARTS if name in self.posterior_.scales]
            moved = float(variances(self.posterior_.scales, len(self._groups) + 1)[-1])
            self.dynamics_ = timeline.dynamics(sum(start), moved)

    def _set_crowd_attributes(self, fit: CrowdFit | HierarchicalFit) -> None:
        self.posterior_ = fit.posterior
        self.likelihood_ = fit.likelihood
        self._thresholds = fit.thresholds if isinstance(fit, HierarchicalFit) else None
        self.tie_thresholds_ = self._medians_of_thresholds()
        self.item_ids_, self.user_ids_ = self._items.seen_ids, self._users.seen_ids
        n_kinds = fit.posterior.places.sizes.size if isinstance(fit, HierarchicalFit) else 0
        of_kinds, n = variances(fit.posterior.scales, n_kinds), len(self._columns.widths)
        self.group_scales_, self.context_scales_ = of_kinds[: len(self._groups)], of_kinds[n_kinds - n :]
        self._set_dynamics()
        if isinstance(fit, HierarchicalFit):
            self._state, self._segments, self._alive = fit.chosen, {}, ()
            self.kernel_, self.factor_kernel_, self.user_kernel_ = fit.kernels
            covariates = fit.posterior.covariates
            self.inducing_points_ = fit.item_points
            self.inducing_users_ = None if covariates is None or covariates.basis is None else covariates.basis.points
            self.factor_scales_, self.item_factors_, self.user_factors_ = fit.posterior.factors(
                int(self.n_factors), self._seen(self._items)
            )
        else:
            self._state, self._segments, self._alive = fit.state, fit.segments, fit.alive
            bases = fit.bases
            self.kernel_, self.factor_kernel_, self.user_kernel_ = (None if b is None else b.kernel for b in bases)
            self.inducing_points_ = None if bases.items is None else bases.items.points
            self.inducing_users_ = None if bases.users is None else bases.users.points
            self._set_factors(fit)
        self._set_effects()
        set_trace(self, fit)

    def _medians_of_thresholds(self) -> Array | None:
        """Return the threshold of ties of each user, shape (U,); None of a likelihood without thresholds."""
        if not isinstance(self.likelihood_, PairwiseTies):
            return None
        if self._thresholds is None:
            return np.full(self._users.seen.size, self.likelihood_.threshold)
        return np.exp(self._thresholds.mean)

    def _log_thresholds(self, rows: PairRows) -> tuple[Array, Array] | None:
        return None if self._thresholds is None else self._log_thresholds_of(*self._users_of_rows(rows.user))

    def _log_thresholds_of(self, users: Items, number: IntArray) -> tuple[Array, Array] | None:
        """Return moments of the log thresholds of ties of users by number, -1 of an unseen one; None: all share one."""
        return None if self._thresholds is None else self._thresholds.moments(np.append(users.position, -1)[number])

    def _set_factors(self, fit: CrowdFit) -> None:
        """Set scales and means of all factors by number; dropped factors are zero."""
        posterior, alive = fit.posterior, list(fit.alive)
        n_factors = int(self.n_factors)
        self.factor_scales_ = np.zeros(n_factors)
        self.factor_scales_[alive] = 1.0 / (posterior.items.inverse_scale * posterior.users.inverse_scale)
        items, users = self._seen(self._items), self._seen(self._users)
        self.item_factors_ = np.zeros((items.size, n_factors))
        self.item_factors_[:, alive] = (posterior.items.moments(items)[0] - posterior.centre[:, None]).T
        self.user_factors_ = np.zeros((users.size, n_factors))
        self.user_factors_[:, alive] = posterior.users.moments(users)[0].T

    @staticmethod
    def _seen(entities: Entities) -> Items:
        return entities.rows(entities.seen)


def refuse_unknown_users(users: Entities, ids: Any, rows: IntArray, noun: str) -> None:
    """Raise if a row is -1, which marks an unknown id."""
    if rows.size and int(rows.min()) < 0:
        advice = "use unknown_user='consensus' to predict the consensus for unseen users"
        raise UnknownIdError(describe_unknown(users, ids, rows, noun, advice))


def comparisons_of_seen(comparisons: Comparisons, users: Entities, items: Entities) -> Comparisons:
    """Return the comparisons of positive weight, in positions of the seen users and items."""
    used = comparisons.take(comparisons.weight > 0.0)
    item, user = items.position, users.position
    return replace(
        used,
        left=item[used.left],
        right=item[used.right],
        n_items=max(items.seen.size, 1),
        user=user[np.asarray(used.user)],
        n_users=users.seen.size,
    )


def mark_seen(comparisons: Comparisons, users: Entities, items: Entities) -> tuple[Entities, Entities]:
    """Add the users and items of comparisons of positive weight to the seen ones."""
    used = comparisons.weight > 0.0
    items = items.with_seen(np.concatenate([comparisons.left[used], comparisons.right[used]]))
    return users.with_seen(np.asarray(comparisons.user)[used]), items


def nearest_entities(
    entity: Any, n: int, entities: Entities, ids: IdColumn, factors: Array, gram: Array
) -> tuple[IdColumn, Array]:
    """Return ids and distances of the n entities with the factors nearest to one entity's."""
    kind = entities.kind
    row = int(entities.vocabulary.encode(single_id(entity, kind), kind, unknown="mark", noun="row", kind=kind)[0])
    position = int(entities.position[row])
    if position < 0:
        name = f"{'unknown ' if row < 0 else ''}{kind} {shorten(entity)}"
        raise UnknownIdError(f"{name} is in no comparison that fit has seen; choose one of {kind}_ids_")
    if not isinstance(n, Integral) or n < 1:
        raise DataError(f"n must be an integer of at least 1; got {n!r}.")
    difference = factors - factors[position]
    distance = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", difference, gram, difference), 0.0))
    order = np.argsort(distance, kind="stable")
    order = order[order != position][:n]
    return ids[order], distance[order]


def _shape_and_rate(prior: Gamma) -> tuple[float, float]:
    return float(prior.shape), float(prior.rate)
