"""Leaderboards of a crowd: utilities, rankings and matrices of wins, by the consensus or by one user."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skpref._math.random import as_generator
from skpref.data.ids import single_id
from skpref.exceptions import DataError
from skpref.gp.crowd.base import CrowdBase, comparisons_of_seen, refuse_unknown_users
from skpref.gp.crowd.posterior import UNSEEN_USER
from skpref.gp.entities import holds_features
from skpref.gp.pairwise.ranking import Ranking, rank_draws, rank_items, whole_numbers
from skpref.gp.pairwise.win_matrix import WinMatrix, win_matrix

if TYPE_CHECKING:
    from collections.abc import Hashable

    from numpy.typing import ArrayLike

    from skpref._typing import Array, BoolArray, MatrixLike, RandomState
    from skpref.data import Comparisons, Table
    from skpref.gp.crowd.personal import PersonalPosterior
    from skpref.gp.crowd.posterior import CrowdPosterior
    from skpref.gp.entities import Items

_MAX_PERSONAL = 2**27  # entries of a table of personal utilities: 1 GB
_MAX_MATRIX = 2_000  # items of a win matrix, which has a prediction for each pair
_MAX_DRAWN = 2**24  # entries of factors drawn at once: 128 MB


class CrowdLeaderboards(CrowdBase):
    """What the items are worth to all, or to one user."""

    def utility(
        self,
        items: Table | MatrixLike | None = None,
        users: Table | MatrixLike | None = None,
        *,
        return_std: bool = False,
    ) -> Array | tuple[Array, Array]:
        """Return the posterior utilities of items, for the consensus or for users.

        Parameters
        ----------
        items : array-like of shape (n,), Table, or array-like of shape (n, n_features), default=None
            Ids, or features of items. None: all items.
        users : array-like of shape (n_users,), Table, or array-like of shape (n_users, n_user_features), default=None
            Ids, or features of users. None: the consensus. For unseen users see `unknown_user`.
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
            If an item, or with `unknown_user="raise"` a user, is unknown, or if the result takes more than 1 GB.
        """
        check_is_fitted(self)
        _, chosen = self._items.select(items)
        if users is None:
            mean, variance = self.posterior_.consensus.utility(chosen, centred=True)
            return (mean, np.sqrt(variance)) if return_std else mean
        known_users, is_known = self._select_users(users)
        if is_known.size * chosen.size > _MAX_PERSONAL:
            msg = (
                f"Utilities of {is_known.size} users by {chosen.size} items take "
                f"{is_known.size * chosen.size / 1.25e8:.1f} GB; pass fewer users or items at a time."
            )
            raise DataError(msg)
        mean, variance = self.posterior_.utility(known_users, chosen)
        if not is_known.all():
            # One more row, for all unknown users.
            row = np.where(is_known, np.cumsum(is_known) - 1, known_users.size)
            unseen = self.posterior_.for_unseen_users().utility(UNSEEN_USER, chosen)
            mean, variance = (np.vstack(pair)[row] for pair in zip((mean, variance), unseen, strict=True))
        return (mean, np.sqrt(variance)) if return_std else mean

    def rank(
        self,
        items: Table | MatrixLike | None = None,
        user: Hashable = None,
        *,
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
            Id of the user whose ranking it is. None: the consensus. For unseen users see `unknown_user`.
        credibility : float, default=0.9
            Posterior probability of each interval.
        n_samples : int, default=2000
            Posterior draws; the standard error of `probability_best` is at most 0.011.
        random_state : int, RandomState, Generator or None, default=0
            Seed of the draws.
        scale : {"utility", "elo"}, default="utility"
            Units of the answer noise, or Elo points with the average of the compared items at 1500; see
            `Ranking.on_scale`, and `Ranking.anchored` for an item with a given number of points.

        Returns
        -------
        Ranking
            Columns id, utility, std, utility_low, utility_high, rank, probability_best, rank_low, rank_high, tied_rank,
            n_comparisons (of all users, or of `user`).
        """
        check_is_fitted(self)
        ids, chosen = self._items.select(items)
        rng = as_generator(random_state)
        counts = np.append(self._answers_of(user).counts(), 0.0)[chosen.position]
        arguments = credibility, n_samples
        if user is None:
            consensus = self.posterior_.consensus
            return rank_items(consensus, ids, chosen, *arguments, rng, whole_numbers(counts)).on_scale(
                scale, self.likelihood_
            )
        posterior, one_user = self._of_one_user(single_id(user, "user"))
        mean, variance = posterior.utility(one_user, chosen)

        def draws() -> Array:
            # A draw holds one number per factor and item: a few draws at a time.
            step = max(1, _MAX_DRAWN // max(1, chosen.size * self.factor_scales_.size))
            sizes = [min(step, n_samples - start) for start in range(0, n_samples, step)]
            return np.vstack([posterior.sample(one_user, chosen, size, rng)[:, 0] for size in sizes])

        ranking = rank_draws(ids, (mean[0], variance[0]), *arguments, draws, whole_numbers(counts))
        return ranking.on_scale(scale, self.likelihood_)

    def win_matrix(self, items: ArrayLike | None = None, user: Hashable = None) -> WinMatrix:
        """Return the probability that one item is preferred to another, and how often it was.

        Parameters
        ----------
        items : array-like of shape (n,), default=None
            Ids, at most 2,000. None: all compared items, the best first.
        user : hashable, default=None
            Id of the user whose answers they are. None: those of all, and predictions for an unseen user, of whose
            taste only the prior is known.

        Returns
        -------
        WinMatrix
            Predicted and observed shares of the item in the row against that in the column, without order effects.
        """
        check_is_fitted(self)
        if items is None:
            mean = np.ravel(self.utility(self.item_ids_, None if user is None else single_id(user, "user")))
            items = self.item_ids_[np.argsort(-mean, kind="stable")]
        ids, chosen = self._items.select(items)
        users, is_known = self._select_users(np.empty(0, dtype=object) if user is None else single_id(user, "user"))
        if chosen.size > _MAX_MATRIX:
            raise DataError(f"win_matrix of {chosen.size} items: it takes at most {_MAX_MATRIX}; name the items")
        left, right = np.divmod(np.arange(chosen.size**2), chosen.size)
        number = np.full(left.size, 0 if is_known.any() else -1)
        moments = self.posterior_.pairs((users, number), chosen, left, right, order=False)
        predicted = self.likelihood_.predict(*moments).reshape(chosen.size, chosen.size)
        return win_matrix(predicted, ids, chosen, self._answers_of(user))

    def _answers_of(self, user: Hashable) -> Comparisons:
        """Return the comparisons of a user, or of all, by the positions of the seen items."""
        seen = comparisons_of_seen(self._comparisons, self._users, self._items)
        if user is None:
            return seen
        row = self._users.vocabulary.encode(single_id(user, "user"), "user", unknown="mark", noun="row", kind="user")
        return seen.take(np.flatnonzero(np.asarray(seen.user) == self._users.position[row[0]]))

    def _select_users(self, users: Any) -> tuple[Items, BoolArray]:
        """Return the known ones of the users that a caller chose, and which of them are known."""
        if holds_features(users):
            chosen = self._users.select(users)[1]
            return chosen, np.ones(chosen.size, dtype=bool)
        rows = self._users.vocabulary.encode(users, "users", unknown="mark", noun="row", kind="user")
        if self.unknown_user == "raise":
            refuse_unknown_users(self._users, users, rows, "row")
        return self._users.rows(rows[rows >= 0]), rows >= 0

    def _of_one_user(self, users: Any) -> tuple[CrowdPosterior | PersonalPosterior, Items]:
        """Return the user that a caller chose, with the posterior to ask, which differs for an unknown one."""
        chosen, is_known = self._select_users(users)
        if is_known.all():
            return self.posterior_, chosen
        return self.posterior_.for_unseen_users(), UNSEEN_USER
