"""Leaderboards of a crowd: utilities, rankings and matrices of wins, by the consensus or by one user."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
from scipy.special import ndtri
from sklearn.utils.validation import check_is_fitted

from skpref._estimator import check_credibility
from skpref._math.random import as_generator
from skpref._warn import warn
from skpref.data.ids import shorten, single_id
from skpref.data.records import frame_or_record
from skpref.data.times import as_grid, as_time, to_dates
from skpref.exceptions import DataError, DataWarning, UnknownIdError
from skpref.gp.crowd.base import CrowdBase, comparisons_of_seen, refuse_unknown_users
from skpref.gp.crowd.personal import PersonalPosterior
from skpref.gp.crowd.policy import POLICY
from skpref.gp.crowd.posterior import UNSEEN_USER
from skpref.gp.entities import describe_unknown, holds_features
from skpref.gp.pairwise.over_time import UtilityCurves
from skpref.gp.pairwise.ranking import Ranking, WinMatrix, rank_draws, rank_items, whole_numbers, win_matrix

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from numpy.typing import ArrayLike

    from skpref._typing import Array, BoolArray, MatrixLike, RandomState
    from skpref.data import Comparisons, IdColumn, Table
    from skpref.data.tasks import Tasks
    from skpref.gp.crowd.posterior import CrowdPosterior
    from skpref.gp.crowd.timeline import Timeline
    from skpref.gp.entities import Items
    from skpref.gp.pairwise.columns import PairRows

_MAX_DRAWN = 2**24  # entries of factors drawn at once: 128 MB


class CrowdLeaderboards(CrowdBase):
    """What the items are worth to all, or to one user."""

    @overload
    def utility(
        self,
        items: Table | MatrixLike | None = None,
        users: Table | MatrixLike | None = None,
        *,
        groups: Mapping[Any, Hashable] | None = None,
        context: Mapping[Any, float] | None = None,
        at: Any = None,
        return_std: Literal[False] = False,
    ) -> Array: ...
    @overload
    def utility(
        self,
        items: Table | MatrixLike | None = None,
        users: Table | MatrixLike | None = None,
        *,
        groups: Mapping[Any, Hashable] | None = None,
        context: Mapping[Any, float] | None = None,
        at: Any = None,
        return_std: Literal[True],
    ) -> tuple[Array, Array]: ...
    @overload
    def utility(
        self,
        items: Table | MatrixLike | None = None,
        users: Table | MatrixLike | None = None,
        *,
        groups: Mapping[Any, Hashable] | None = None,
        context: Mapping[Any, float] | None = None,
        at: Any = None,
        return_std: bool,
    ) -> Array | tuple[Array, Array]: ...
    def utility(
        self,
        items: Table | MatrixLike | None = None,
        users: Table | MatrixLike | None = None,
        *,
        groups: Mapping[Any, Hashable] | None = None,
        context: Mapping[Any, float] | None = None,
        at: Any = None,
        return_std: bool = False,
    ) -> Array | tuple[Array, Array]:
        """Return the posterior utilities of items, for the consensus or for users.

        Parameters
        ----------
        items : array-like of shape (n,), Table, or array-like of shape (n, n_features), default=None
            Ids, or features of items. None: all items.
        users : array-like of shape (n_users,), Table, or array-like of shape (n_users, n_user_features), default=None
            Ids, or features of users. None: the consensus. Unseen users get the consensus with a larger variance, and
            a warning, since their ids may be misspelt; or an error with `unknown_user="raise"`.
        groups : dict, default=None
            One group for each column of the parameter `groups`, by the name of the column, such as ``{"category":
            "coding"}``. A column that is not in the dict adds nothing; None: the consensus of all groups.
        context : dict, default=None
            Numbers by the columns of the parameter `context`, such as ``{"prompt_length": 300}``. A column that is not
            in the dict has its mean in `fit`.
        at : datetime, str or number, default=None
            Time of the utilities of a model with `time`; `curves` has several. None: that of the last comparison.
        return_std : bool, default=False
            Whether to return standard deviations, too.

        Returns
        -------
        mean : ndarray of shape (n,) or (n_users, n)
            Utilities, in units of the answer noise; the average over the seen items is 0.
        std : ndarray of shape (n,) or (n_users, n)
            Only with `return_std`.

        Raises
        ------
        ValueError
            If an item, a group, a column of `groups` or `context`, or with `unknown_user="raise"` a user, is unknown,
            or if the result takes more than 1 GB.
        """
        check_is_fitted(self)
        _, chosen = self._items.select(items)
        posterior = self._group_posterior(groups, at, context)
        if users is None:
            mean, variance = posterior.consensus.utility(chosen, centred=True)
            return (mean, np.sqrt(variance)) if return_std else mean
        known_users, is_known = self._select_users(users)
        if not is_known.all():
            rows = np.where(is_known, 0, -1)
            warn(describe_unknown(self._users, users, rows, "row", "its utilities are the consensus"), DataWarning)
        if is_known.size * chosen.size > POLICY.most_personal:
            msg = (
                f"Utilities of {is_known.size} users by {chosen.size} items take "
                f"{is_known.size * chosen.size / 1.25e8:.1f} GB; pass fewer users or items at a time."
            )
            raise DataError(msg)
        mean, variance = posterior.utility(known_users, chosen)
        if not is_known.all():
            # One more row, for all unknown users.
            row = np.where(is_known, np.cumsum(is_known) - 1, known_users.size)
            unseen = posterior.unseen_user_posterior().utility(UNSEEN_USER, chosen)
            mean, variance = (np.vstack(pair)[row] for pair in zip((mean, variance), unseen, strict=True))
        return (mean, np.sqrt(variance)) if return_std else mean

    def rank(
        self,
        items: Table | MatrixLike | None = None,
        user: Hashable = None,
        *,
        groups: Mapping[Any, Hashable] | None = None,
        context: Mapping[Any, float] | None = None,
        at: Any = None,
        credibility: float = 0.9,
        n_samples: int = 2000,
        random_state: RandomState = 0,
        scale: Literal["utility", "elo"] = "utility",
    ) -> Ranking:
        """Rank items, the best first, with credible intervals of the ranks.

        Parameters
        ----------
        items : array-like of shape (n,), Table, or array-like of shape (n, n_features), default=None
            Ids, or features of items. None: all items.
        user : hashable, default=None
            Id of the user whose ranking it is. None: the consensus.
        groups : dict, default=None
            Groups to rank the items in, as in `utility`: ``rank(groups={"category": "coding"})``.
        context : dict, default=None
            Context to rank the items in, as in `utility`.
        at : datetime, str or number, default=None
            Time of the ranking, as in `utility`.
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
            n_comparisons (of all users, or of `user`; and in these groups).

        Raises
        ------
        ValueError
            If an item, the user, a group, or a column of `groups` or `context` is unknown.
        """
        check_is_fitted(self)
        ids, chosen = self._items.select(items)
        rng = as_generator(random_state)
        counts = np.append(self._answers_of(user, groups).counts(), 0.0)[chosen.position]
        arguments = credibility, n_samples
        if user is None:
            consensus = self._group_posterior(groups, at, context).consensus
            return rank_items(consensus, ids, chosen, *arguments, rng, whole_numbers(counts)).to_scale(
                scale, self.likelihood_
            )
        posterior, (one_user, _) = (
            self._group_posterior(groups, at, context),
            self._select_users(self._named_user(user)),
        )
        mean, variance = posterior.utility(one_user, chosen)

        def draws() -> Array:
            # A draw holds one number per factor and item: a few draws at a time.
            step = max(1, _MAX_DRAWN // max(1, chosen.size * self.factor_scales_.size))
            sizes = [min(step, n_samples - start) for start in range(0, n_samples, step)]
            return np.vstack([posterior.sample(one_user, chosen, size, rng)[:, 0] for size in sizes])

        ranking = rank_draws(ids, (mean[0], variance[0]), *arguments, draws, whole_numbers(counts))
        return ranking.to_scale(scale, self.likelihood_)

    def curves(
        self,
        items: ArrayLike | None = None,
        user: Hashable = None,
        *,
        groups: Mapping[Any, Hashable] | None = None,
        context: Mapping[Any, float] | None = None,
        times: ArrayLike | None = None,
        credibility: float = 0.9,
    ) -> Any:
        """Return the utilities of items over time, with credible intervals that grow after the last comparison.

        Parameters
        ----------
        items : array-like of shape (n,), default=None
            Ids. None: all compared items.
        user : hashable, default=None
            Id of the user whose utilities they are. None: the consensus.
        groups : dict, default=None
            Groups of the utilities, as in `utility`.
        context : dict, default=None
            Context of the utilities, as in `utility`.
        times : array-like of shape (n_times,), default=None
            Times, as dates where those of `fit` are dates; those after the last comparison are forecasts. None: 100
            times from the first to the last comparison.
        credibility : float, default=0.9
            Posterior probability of each interval.

        Returns
        -------
        pandas.DataFrame or UtilityCurves
            One row for each item and time, with the columns of `UtilityCurves`. A data frame if pandas is installed.

        Raises
        ------
        ValueError
            If the model was fitted without `time`, or an id is unknown.
        """
        check_is_fitted(self)
        check_credibility(credibility)
        timeline = self._timeline_or_none
        if timeline is None:
            raise DataError("curves needs utilities that move: fit with time=, a column of X")
        grid = as_grid(times, (timeline.origin, timeline.end), is_dated=timeline.is_dated)
        dates = to_dates(grid) if timeline.is_dated else grid
        ids, _ = self._items.select(self.item_ids_ if items is None else items)
        of_user = None if user is None else self._named_user(user)
        moments = [self.utility(ids, of_user, groups=groups, context=context, at=at, return_std=True) for at in dates]
        mean, std = (np.array([np.ravel(each[k]) for each in moments]).T.ravel() for k in (0, 1))
        half_width = ndtri(0.5 + 0.5 * credibility) * std
        columns = np.repeat(ids, grid.size), np.tile(dates, len(ids)), mean, std, mean - half_width, mean + half_width
        return frame_or_record(UtilityCurves(*columns))

    def win_matrix(
        self,
        items: ArrayLike | None = None,
        user: Hashable = None,
        *,
        groups: Mapping[Any, Hashable] | None = None,
        context: Mapping[Any, float] | None = None,
        at: Any = None,
    ) -> WinMatrix:
        """Return the probability that one item is preferred to another, and how often it was.

        Parameters
        ----------
        items : array-like of shape (n,), default=None
            Ids, at most 2,000. None: all compared items, the best first.
        user : hashable, default=None
            Id of the user whose answers are counted and predicted. None: the answers of all users, and predictions for
            an unseen user.
        groups : dict, default=None
            Groups in which the items are compared, as in `utility`.
        context : dict, default=None
            Context of the predictions, as in `utility`.
        at : datetime, str or number, default=None
            Time of the predictions, as in `utility`.

        Returns
        -------
        WinMatrix
            Predicted and observed shares of the item in the row against that in the column, without order effects.
        """
        check_is_fitted(self)
        if items is None:
            users_or_none = None if user is None else self._named_user(user)
            mean = np.ravel(self.utility(self.item_ids_, users_or_none, groups=groups, context=context, at=at))
            items = self.item_ids_[np.argsort(-mean, kind="stable")]
        ids, chosen = self._items.select(items)
        users, is_known = self._select_users(np.empty(0, dtype=object) if user is None else self._named_user(user))
        if chosen.size > POLICY.most_matrix:
            raise DataError(f"win_matrix of {chosen.size} items: it takes at most {POLICY.most_matrix}; name the items")
        left, right = np.divmod(np.arange(chosen.size**2), chosen.size)
        number = np.full(left.size, 0 if is_known.size else -1)
        moments = self._group_posterior(groups, at, context).pairs((users, number), chosen, left, right, order=False)
        predicted = self._left_at(moments, self._log_thresholds_of(users, number)).reshape(chosen.size, chosen.size)
        return win_matrix(predicted, ids, chosen, self._answers_of(user, groups))

    def _levels_at(
        self, groups: Mapping[Any, Hashable] | None, at: Any = None, context: Mapping[Any, float] | None = None
    ) -> list[float]:
        """Return the group of each kind that a caller named, by number, the step of a time, and numbers of context."""
        timeline = self._timeline_or_none
        if at is not None or timeline is not None:
            time = self._time_of(at)
        steps = [] if timeline is None else [float(timeline.levels_of(np.asarray(time)))]
        return [*self._levels.named_groups(groups), *steps, *self._levels.named_numbers(context)]

    @property
    def _timeline_or_none(self) -> Timeline | None:
        """Steps in which the consensus moves; None where it does not."""
        return self.posterior_.places.timeline if isinstance(self.posterior_, PersonalPosterior) else None

    def _time_of(self, at: Any) -> float:
        """Return one time as a number; None is the last comparison."""
        timeline = self._timeline_or_none
        if timeline is None:
            raise DataError(f"at={shorten(at)} needs utilities that move: fit with time=, a column of X")
        return timeline.end if at is None else as_time(at, "at", is_dated=timeline.is_dated)

    def _levels_of_rows(self, rows: PairRows | Tasks) -> Array | None:
        """Return the groups of rows, -1 where one is unseen, steps in time and context, shape (n, n_kinds + n_numbers).

        None of a model without groups, steps or context.
        """
        self._refuse_other_times(rows)
        groups = self._levels.groups_of(rows.groups, "mark")
        columns: list[Any] = [] if groups is None else list(groups.T)
        for kind, ids in enumerate(rows.groups):
            if self.unknown_user == "raise" and (new := columns[kind] < 0).any():
                advice = "use unknown_user='consensus' to predict the consensus for unseen groups"
                self._levels.refuse_unknown(kind, ids[int(np.argmax(new))], advice)
        if (timeline := self._timeline_or_none) is not None and rows.time is not None:
            columns.append(timeline.levels_of(rows.time, POLICY.parts_of_step))
        if (numbers := self._levels.context_of(rows)) is not None:
            columns += list(numbers.T)
        return np.column_stack(columns) if columns else None

    def _group_posterior(
        self, groups: Mapping[Any, Hashable] | None, at: Any = None, context: Mapping[Any, float] | None = None
    ) -> CrowdPosterior | PersonalPosterior:
        """Return the posterior of utilities in the groups that a caller named, at a time, and at numbers of context."""
        levels = self._levels_at(groups, at, context)
        return (
            self.posterior_.select_groups(levels) if isinstance(self.posterior_, PersonalPosterior) else self.posterior_
        )

    def _answers_of(self, user: Hashable, groups: Mapping[Any, Hashable] | None = None) -> Comparisons:
        """Return the comparisons of a user, or of all, in some groups, by the positions of the seen items."""
        seen = self._levels.select(comparisons_of_seen(self._comparisons, self._users, self._items).decided(), groups)
        if user is None:
            return seen
        row = self._users.vocabulary.encode(self._named_user(user), "user", unknown="mark", noun="row", kind="user")
        return seen.take(np.flatnonzero(np.asarray(seen.user) == self._users.position[row[0]]))

    def _named_user(self, user: Hashable) -> IdColumn:
        """Return the id of one user as a column, shape (1,); raise if it is unknown."""
        ids = single_id(user, "user")
        row = self._users.vocabulary.encode(ids, "user", unknown="mark", noun="row", kind="user")
        if row[0] < 0:
            raise UnknownIdError(describe_unknown(self._users, ids, row, "row", "user=None is the consensus"))
        return ids

    def _select_users(self, users: Any) -> tuple[Items, BoolArray]:
        """Return the known users among the requested ones, and a mask of the known."""
        if holds_features(users):
            chosen = self._users.select(users)[1]
            return chosen, np.ones(chosen.size, dtype=bool)
        rows = self._users.vocabulary.encode(users, "users", unknown="mark", noun="row", kind="user")
        if self.unknown_user == "raise":
            refuse_unknown_users(self._users, users, rows, "row")
        return self._users.rows(rows[rows >= 0]), rows >= 0

    def _select_user(
        self, users: Any, posterior: CrowdPosterior | PersonalPosterior
    ) -> tuple[CrowdPosterior | PersonalPosterior, Items]:
        """Return the posterior to use for a requested user, and the user; unknown users have another posterior."""
        chosen, is_known = self._select_users(users)
        return (posterior, chosen) if is_known.all() else (posterior.unseen_user_posterior(), UNSEEN_USER)
