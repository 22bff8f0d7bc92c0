"""Features of users that `GibbsIPM3F` finds: the table of who holds them and what they like."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from skpref.data.records import ColumnRecord
from skpref.factorization.policy import POLICY

if TYPE_CHECKING:
    import numpy.typing as npt

    from skpref._typing import Array, IntArray
    from skpref.factorization.max_margin.posterior import Factors, RatingVocabularies

__all__ = ["UserFeatures"]


@dataclass(frozen=True, eq=False)
class UserFeatures(ColumnRecord):
    """Binary features of users, one entry each, the most frequent first.

    Features that no user has with a probability of at least 0.5 are left out.

    Parameters
    ----------
    chain : ndarray of shape (n,)
        Number of the chain that found the feature. Different chains number the same features differently.
    share : ndarray of shape (n,)
        Share of the users that have the feature: the posterior probability, averaged over users.
    strength : ndarray of shape (n,)
        Root mean square over the items of what the feature adds to the score, in units of `sigma`.
    users : ndarray of shape (n,) of lists
        Ids of the users who have the feature with the highest probability, at least 0.5.
    liked : ndarray of shape (n,) of lists
        Ids of the items whose score it raises most.
    disliked : ndarray of shape (n,) of lists
        Ids of the items whose score it lowers most.

    Examples
    --------
    >>> from skpref import GibbsIPM3F
    >>> X = [("ann", "tea"), ("ann", "milk"), ("bob", "tea"), ("bob", "milk"), ("cleo", "tea")]
    >>> model = GibbsIPM3F(C=1.0, levels=[1, 2, 3], random_state=0).fit(X, [3, 1, 3, 1, 3])
    >>> sorted(model.feature_table().columns)
    ['chain', 'disliked', 'liked', 'share', 'strength', 'users']
    """

    chain: IntArray
    share: Array
    strength: Array
    users: npt.NDArray[Any]
    liked: npt.NDArray[Any]
    disliked: npt.NDArray[Any]


def describe_features(average: Factors, vocabularies: RatingVocabularies, sigma: float, n_ids: int) -> UserFeatures:
    """Return the features of the chains' averages."""
    n_chains, n_users, width = average.users.shape
    held = average.users.transpose(0, 2, 1).reshape(-1, n_users)
    added = average.items.transpose(0, 2, 1).reshape(n_chains * width, -1)
    share = held.mean(axis=1)
    order = np.argsort(-share, kind="stable")
    order = order[held[order].max(axis=1, initial=0.0) >= POLICY.held_feature]
    users, items = vocabularies.users.ids, vocabularies.items.ids

    def named(scores: Array, ids: Any, least: float) -> npt.NDArray[Any]:
        """Return the ids of the highest scores from the least on, highest first, for each feature."""
        best = np.argsort(-scores, axis=1, kind="stable")[:, :n_ids]
        out = np.empty(len(scores), dtype=object)
        for k, row in enumerate(best):
            out[k] = [ids[i] for i in row if scores[k, i] >= least]
        return out

    return UserFeatures(
        order // width,
        share[order],
        np.sqrt(np.mean(added[order] ** 2, axis=1)) / sigma,
        named(held[order], users, POLICY.held_feature),
        named(added[order], items, np.finfo(float).tiny),
        named(-added[order], items, np.finfo(float).tiny),
    )
