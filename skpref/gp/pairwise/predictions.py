"""What a fitted `GPPLClassifier` predicts: answers to rows, and utilities of items, at any time and in groups."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
from scipy.special import ndtri
from sklearn.utils.validation import check_is_fitted

from skpref._checks import check_arrays, require
from skpref._estimator import check_credibility
from skpref._math.random import as_generator
from skpref._sources import accept_collections
from skpref._warn import warn
from skpref.data import Comparisons
from skpref.data.ids import shorten
from skpref.data.records import frame_or_record, make_frame
from skpref.data.times import as_duration, as_grid, as_time, as_times, to_dates
from skpref.exceptions import DataError
from skpref.gp.entities import describe_unknown, holds_features, players_of
from skpref.gp.pairwise.base import draw_utilities, probability_positive, utility_moments
from skpref.gp.pairwise.comparison import ComparisonClassifier
from skpref.gp.pairwise.moving_posterior import MovingPosterior
from skpref.gp.pairwise.over_time import SkillDynamics, UtilityCurves
from skpref.gp.pairwise.ranking import WinMatrix, predicted_wins, rank_items, whole_numbers, win_matrix

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from numpy.typing import ArrayLike

    from skpref._typing import Array, BoolArray, IdRows, IntArray, MatrixLike, RandomState
    from skpref.data import IdColumn, Table
    from skpref.data.tasks import Tasks
    from skpref.gp.entities import Entities, Items
    from skpref.gp.pairwise.columns import PairRows
    from skpref.gp.pairwise.posterior import PairPosterior
    from skpref.gp.pairwise.ranking import Ranking
    from skpref.inference.chain_groups import GroupDifferences


class PairPredictions(ComparisonClassifier):
    """Predictions of rows and utilities; without `time`, groups, context and teams by `posterior_` alone."""

    time: Any
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

    def _id_columns(self, rows: PairRows | Tasks) -> dict[str, Sequence[IdColumn]]:
        has_teams = self._has_teams and not self._has_tasks
        return {"items": [players_of(side) for side in rows.shown] if has_teams else rows.shown}

    def _number_sides(self, items: Entities, rows: PairRows) -> tuple[IntArray, IntArray]:
        if not self._has_teams:
            return super()._number_sides(items, rows)
        left, right = items.encode_teams(*rows.shown)
        return left, right

    @property
    def _stands_still(self) -> bool:
        """Whether the model is one over time without a column of times."""
        return self.time is None and (self._has_teams or self._columns.has_levels)

    def _read(self, X: Any, *, reset: bool, weighted: bool = True) -> PairRows:
        rows = super()._read(X, reset=reset, weighted=weighted)
        return rows._replace(time=np.zeros(len(rows.left))) if self._stands_still else rows

    def _read_tasks(self, X: Any, *, reset: bool = False, weighted: bool = False) -> Tasks:
        tasks = super()._read_tasks(X, reset=reset, weighted=weighted)
        return replace(tasks, time=np.zeros(len(tasks.present))) if self._stands_still else tasks

    def _kept_comparisons(self, method: str) -> Comparisons:
        """Return the comparisons of the fit for a method that needs them."""
        if isinstance(self._comparisons, Comparisons):
            return self._comparisons
        raise DataError(
            f"{method} needs the comparisons of the fit, and a fit to data on disk or on a cluster keeps none of them: "
            "fit again with all comparisons in memory"
        )

    def _task_moments(
        self, tasks: Tasks, task: IntArray, pairs: tuple[Items, IntArray, IntArray], covariates: Array | None
    ) -> tuple[Array, Array]:
        self._refuse_other_times(tasks)
        if tasks.time is None:
            return self._pair_moments(pairs, covariates)
        levels = self._levels.number_rows(tasks)
        return self._pair_moments(pairs, covariates, tasks.time[task], None if levels is None else levels[task])

    def _pairs(self, rows: PairRows, *, tell_new_apart: bool = False) -> tuple[Items, IntArray, IntArray]:
        """Return the items of rows and the two sides; new items may be told apart from row to row."""
        self._refuse_other_covariates()
        self._refuse_other_times(rows)
        known = self._items
        if tell_new_apart and known.features is None:
            known = known.with_new(None, *self._id_columns(rows)["items"])
        return (known.teams if self._has_teams else known.pairs)(rows.left, rows.right)

    def _moments_of(self, rows: PairRows, *, order: bool = True) -> tuple[Array, Array]:
        pairs, covariates = self._pairs(rows), rows.covariates if order else None
        levels = None if rows.time is None else self._levels.number_rows(rows)
        return self._pair_moments(pairs, covariates, rows.time, levels, order=order)

    def _pair_moments(
        self,
        pairs: tuple[Items, IntArray, IntArray],
        covariates: Array | None,
        time: Array | None = None,
        levels: Array | None = None,
        *,
        order: bool = True,
    ) -> tuple[Array, Array]:
        """Return means and variances of the differences of items, given (items, left, right); over time with times."""
        if time is None:
            return self.posterior_.pairs(*pairs, covariates=covariates, order=order)
        return self.moving_posterior_.pairs(*pairs, time, covariates, levels, order=order)

    def latent_covariance(self, X: IdRows) -> Array:
        """Return the posterior covariance of the utility differences of pairs, all effects included.

        Parameters
        ----------
        X : array-like of shape (n, 2) or (n, n_columns)
            Ids of the left and the right item, or rows with the columns of `fit`, of one time, groups and context;
            at most 10,000 distinct items.

        Returns
        -------
        ndarray of shape (n, n)
            Covariances, in squared units of the answer noise.
        """
        rows = self._asked(X)
        items, left, right = self._pairs(rows, tell_new_apart=True)
        posterior = self.posterior_
        if rows.time is not None:
            levels = self._levels.number_rows(rows)
            moments = np.column_stack([rows.time] + ([] if levels is None else [levels]))
            if (moments != moments[0]).any():
                raise DataError(
                    "latent_covariance is of rows of one time in the same groups and context; call it for each of them"
                )
            posterior = self.moving_posterior_.snapshot(rows.time[0], None if levels is None else levels[0])
        return posterior.pair_covariance(items, left, right, rows.covariates, team_mean=self.team == "mean")

    @accept_collections
    def predict_preference(self, X: IdRows) -> Array:
        """Return the probability that the left item has the larger utility.

        It leaves out the answer noise, covariates and the order effect; groups are those of the row. It predicts
        aggregated answers (the majority of many, a gold standard); `predict_proba` predicts single answers. With more
        data it tends to 0 or 1.

        Parameters
        ----------
        X : array-like of shape (n, 2) or (n, n_columns)
            Ids of the left and the right item, or rows with the columns of `fit`.

        Returns
        -------
        ndarray of shape (n,)
            P(u_left > u_right).
        """
        return probability_positive(*self._moments(X, order=False))

    def _check_groups(self, groups: GroupDifferences | None) -> None:
        """Raise DataError unless names, variances and comparisons are of the posterior's groups."""
        sizes, widths = np.zeros((2, 0), dtype=np.int64) if groups is None else (groups.sizes, groups.widths)
        check_arrays(self, {"n": sizes.size}, group_scales_="n")
        self._levels.check_context(self, widths)
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
        pairs, levels = (items, comparisons.left, comparisons.right), comparisons.levels
        moments = self._pair_moments(pairs, comparisons.covariates, comparisons.time, levels)
        if self.likelihood_.ties_are_answers:
            answers = self._answers_at(moments, self._log_thresholds_in(levels))
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

    def _log_thresholds(self, rows: PairRows) -> tuple[Array, Array] | None:
        return None if self.tie_thresholds_ is None else self._log_thresholds_in(self._levels.number_rows(rows))

    def _log_thresholds_in(self, levels: Array | None) -> tuple[Array, Array] | None:
        """Return moments of the log thresholds of ties of rows in groups; None where all share one."""
        return None if self.tie_thresholds_ is None else self.moving_posterior_.log_thresholds(levels)

    @overload
    def utility(
        self,
        items: Table | MatrixLike | None = None,
        *,
        at: Any = None,
        groups: Mapping[Any, Hashable] | None = None,
        context: Mapping[Any, float] | None = None,
        return_std: Literal[False] = False,
        return_cov: Literal[False] = False,
        item_effects: bool = True,
    ) -> Array: ...
    @overload
    def utility(
        self,
        items: Table | MatrixLike | None = None,
        *,
        at: Any = None,
        groups: Mapping[Any, Hashable] | None = None,
        context: Mapping[Any, float] | None = None,
        return_std: bool = False,
        return_cov: bool = False,
        item_effects: bool = True,
    ) -> tuple[Array, Array]: ...
    def utility(
        self,
        items: Table | MatrixLike | None = None,
        *,
        at: Any = None,
        groups: Mapping[Any, Hashable] | None = None,
        context: Mapping[Any, float] | None = None,
        return_std: bool = False,
        return_cov: bool = False,
        item_effects: bool = True,
    ) -> Any:
        """Return the posterior utilities of items.

        Parameters
        ----------
        items : array-like of shape (n,), Table, or array-like of shape (n, n_features), default=None
            Ids, or features of items; items of a Table with known ids keep their offsets. None: all items. Without
            features, ids that `fit` has not seen have the prior of a new item, and a warning, as they may be misspelt.
        at : date or number, default=None
            Time of the utilities of a model with `time`; `curves` has several. None: that of the last comparison.
        groups : dict, default=None
            One group for each column of the parameter `groups`, by the name of the column, such as ``{"surface":
            "clay"}``. A column that is not in the dict adds nothing.
        context : dict, default=None
            Numbers by the columns of the parameter `context`, such as ``{"prompt_length": 300}``. A column that is not
            in the dict has its mean in `fit`.
        return_std : bool, default=False
            Whether to return standard deviations, too.
        return_cov : bool, default=False
            Whether to return the covariance, too (at most 10,000 items).
        item_effects : bool, default=True
            Whether the standard deviation of an unseen item includes its unknown offset.

        Returns
        -------
        mean : ndarray of shape (n,)
            Utilities, in units of the answer noise; the average over the seen items is 0.
        std or cov : ndarray of shape (n,) or (n, n)
            Only with `return_std` or `return_cov`.
        """
        _, chosen = self._select(items, new=True)
        return utility_moments(
            self._posterior_at(at, groups, context),
            chosen,
            return_std=return_std,
            return_cov=return_cov,
            item_effects=item_effects,
        )

    def rank(
        self,
        items: Table | MatrixLike | None = None,
        *,
        at: Any = None,
        groups: Mapping[Any, Hashable] | None = None,
        context: Mapping[Any, float] | None = None,
        active: Any = None,
        credibility: float = 0.9,
        n_samples: int = 2000,
        random_state: RandomState = 0,
        scale: Literal["utility", "elo"] = "utility",
    ) -> Ranking:
        """Rank items, the best first, with credible intervals of the ranks.

        Parameters
        ----------
        items : array-like of shape (n,), Table, or array-like of shape (n, n_features), default=None
            Ids, or features of items. None: all items, and with `at` those that were compared by then.
        at : date or number, default=None
            Time of the utilities, as in `utility`.
        groups : dict, default=None
            Groups to rank the items in, as in `utility`.
        context : dict, default=None
            Context to rank the items in, as in `utility`.
        active : timedelta, str or number, default=None
            Rank items with a comparison in this time before `at`, such as "365D", or a number in the unit of the times.
            It needs `time`, and `items` to be None. None: all items.
        credibility : float, default=0.9
            Posterior probability of each interval.
        n_samples : int, default=2000
            Posterior draws; the standard error of `probability_best` is at most 0.011.
        random_state : int, RandomState, Generator or None, default=0
            Seed of the draws.
        scale : {"utility", "elo"}, default="utility"
            Units of the answer noise, or Elo points with the average of the compared items at 1500; see
            `Ranking.to_scale`, and `Ranking.anchored` for an item with a given number of points.

        Returns
        -------
        Ranking
            Columns id, utility, std, utility_low, utility_high, rank, probability_best, rank_low, rank_high, tied_rank,
            n_comparisons.
        """
        posterior = self._posterior_at(at, groups, context)
        if active is not None:
            if items is not None:
                raise DataError("pass either items or active to rank")
            items = self.item_ids_[self._active(active, at)]
        elif at is not None and items is None:
            items = self.item_ids_[self._begun(at)]
        ids, chosen = self._select(items)
        of_groups = self._levels.select(self._kept_comparisons("rank"), groups) if groups else self._comparisons
        counts = np.append(of_groups.counts(), 0.0)[chosen.position]
        ranking = rank_items(
            posterior, ids, chosen, credibility, n_samples, as_generator(random_state), whole_numbers(counts)
        )
        return ranking.to_scale(scale, self.likelihood_)

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

    def win_matrix(
        self,
        items: ArrayLike | None = None,
        *,
        groups: Mapping[Any, Hashable] | None = None,
        context: Mapping[Any, float] | None = None,
    ) -> WinMatrix:
        """Return the probability that one item is preferred to another, and how often it was.

        Parameters
        ----------
        items : array-like of shape (n,), default=None
            Ids, at most 10,000. None: all compared items, the best first.
        groups : dict, default=None
            Groups of the comparisons, as in `utility`.
        context : dict, default=None
            Context of the predictions, as in `utility`.

        Returns
        -------
        WinMatrix
            Predicted and observed shares of the item in the row against that in the column, without covariates and the
            order effect. Of teams, comparisons of single players are observed.
        """
        check_is_fitted(self)
        posterior = self._posterior_at(None, groups, context)
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
