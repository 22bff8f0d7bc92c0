"""How `CrowdGPPL` learns: from ids to numbers, to a fit, to fitted attributes."""

from __future__ import annotations

import warnings
from dataclasses import replace
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import validate_data

from skpref._estimator import check_memory, digest, warn_constant
from skpref._math.random import as_generator
from skpref.data import as_ids, from_labels, read_triples
from skpref.data.ids import shorten
from skpref.exceptions import DataError, DataWarning, UnknownIdError
from skpref.gp.crowd.fit import CrowdFit, fit_crowd
from skpref.gp.crowd.model import CrowdConfig, CrowdData, Earlier, Kernels
from skpref.gp.default_kernels import kernel_parameters
from skpref.gp.pairwise.base import PairwiseGP, as_likelihood, connected_components

if TYPE_CHECKING:
    from sklearn.gaussian_process.kernels import Kernel

    from skpref._typing import Array, Features, IntArray
    from skpref.data import Comparisons
    from skpref.gp.crowd.posterior import CrowdPosterior
    from skpref.gp.entities import Entities, Items

_DEFAULT_FACTORS = 20  # a bound that nobody set, hence not worth a warning where users are few


class CrowdLearner(PairwiseGP):
    """The estimator's way from comparisons to a posterior."""

    posterior_: CrowdPosterior
    kernel_: Kernel | None
    factor_kernel_: Kernel | None
    user_kernel_: Kernel | None
    inducing_points_: Features
    inducing_users_: Features
    factor_scales_: Array

    def _read(self, X: Any, *, reset: bool) -> tuple[Any, Any, Any]:
        """Ids of users, left and right items; columns and their names are noted or compared."""
        columns = read_triples(X)
        validate_data(self, X, reset=reset, skip_check_array=True)
        return columns

    def _encode(
        self, users: Entities, items: Entities, columns: tuple[Any, Any, Any], y: Any, weight: Any
    ) -> Comparisons:
        user = users.vocabulary.encode(columns[0], "X", kind="user")
        left, right = (items.vocabulary.encode(column, "X") for column in columns[1:])
        given = from_labels(
            left,
            right,
            y,
            items.vocabulary.size,
            sample_weight=weight,
            on_self=self.on_self,
            names=items.vocabulary.ids,
            user=user,
            n_users=users.vocabulary.size,
        )
        return self._remembered(given)

    def _remembered(self, given: Comparisons) -> Comparisons:
        """Equal answers as one. Different ones to the same pair stay apart, for `annotators` counts answers."""
        return given.merged(keep_order=self.order_effect, keep_ties=True)

    def _key(self, users: Entities, items: Entities) -> str:
        """Digest of all that an earlier posterior must share to be gone on from."""
        ids = users.seen_ids.tolist(), items.seen_ids.tolist()
        model = self.n_factors, self.consensus, self.item_effects, self.order_effect
        points = self.n_inducing, self.n_inducing_users
        kernels = [kernel_parameters(kernel) for kernel in (self.kernel, self.factor_kernel, self.user_kernel)]
        search = self.length_scale_factor, self.optimizer
        given = None if isinstance(self.inducing, str) else self.inducing
        return digest((ids, model, points, kernels, search), users.seen_features, items.seen_features, given)

    def _refuse_another_model(self) -> None:
        """More comparisons go into the model that was fitted; parameters that make another one must not change."""
        scales = self.posterior_.scales
        fitted: dict[str, Any] = {
            "n_factors": self.factor_scales_.size,
            "consensus": not {"f", "offset"}.isdisjoint(scales),
            "order_effect": "bias" in scales,
        }
        if fitted["consensus"] and self._items.features is not None:
            fitted["item_effects"] = "offset" in scales
        for name, value in fitted.items():
            if getattr(self, name) != value:
                msg = f"{name} is {getattr(self, name)!r}, but the model that partial_fit would go on from has "
                raise DataError(f"{msg}{name}={value!r}; set that again, or start anew by fit with all comparisons.")
        for name, roster in (("items", self._items), ("users", self._users)):
            if (getattr(self, name) is None) != (roster.features is None):
                given, had = ("None", "some") if getattr(self, name) is None else ("given", "none")
                msg = f"features of {name} are {given}, but the model that partial_fit would go on from has {had}; "
                raise DataError(f"{msg}set {name} again as it was, or start anew by fit with all comparisons.")

    def _learn(self, users: Entities, items: Entities, given: Comparisons, *, going_on: bool) -> None:
        seen = among_seen(given, users, items)
        self.components_ = connected_components(seen, frames=5)
        ties = as_likelihood(self.likelihood).ties_are_answers
        seen = seen.merged(keep_order=self.order_effect, keep_ties=ties)
        if self.n_factors > max(seen.n_users, 1) and self.n_factors != _DEFAULT_FACTORS:
            msg = (
                f"n_factors={self.n_factors} is more than the {seen.n_users} users who compared anything; factors "
                "beyond their number have nothing to learn. Set n_factors lower to silence this."
            )
            warnings.warn(msg, DataWarning, stacklevel=4)
        if (features := items.seen_features) is not None:
            check_memory(features.shape[0], self._max_inducing(features))
            warn_constant(features)
        if (features := users.seen_features) is not None:
            points = min(self.n_inducing_users, features.shape[0])
            check_memory(features.shape[0], points, "n_inducing_users", "users")
            warn_constant(features, "the users who compared")
        data = CrowdData(items.seen_features, users.seen_features, seen)
        rng = as_generator(self.random_state)
        if going_on:
            earlier = Earlier(self._state, self._segments, self._alive, self.inducing_points_, self.inducing_users_)
            kernels = Kernels(self.kernel_, self.factor_kernel_, self.user_kernel_)
            result = fit_crowd(data, kernels, self._crowd_config(), rng, earlier)
        else:
            kernels = Kernels(self.kernel, self.factor_kernel, self.user_kernel)
            result = fit_crowd(data, kernels, self._crowd_config(), rng)
        self._comparisons = given
        self._users, self._items = users, items
        self._keep_crowd(result)

    def _crowd_config(self) -> CrowdConfig:
        offsets = self.items is None or self.item_effects
        return CrowdConfig(
            pair=self._config(offsets=offsets, order=self.order_effect),
            n_factors=self.n_factors,
            consensus=self.consensus,
            n_inducing_users=self.n_inducing_users,
            prior_v=(self.shape_sd0, self.rate_sd0),
            prior_w=(self.shape_sw0, self.rate_sw0),
        )

    def _keep_crowd(self, result: CrowdFit) -> None:
        posterior = self.posterior_ = result.posterior
        self._state, self._segments, self._alive = result.state, result.segments, result.alive
        self.classes_ = np.array([0, 1])
        self.likelihood_ = result.likelihood
        self.item_ids_, self.user_ids_ = self._items.seen_ids, self._users.seen_ids
        bases = result.bases
        self.kernel_, self.factor_kernel_, self.user_kernel_ = (None if b is None else b.kernel for b in bases)
        self.inducing_points_ = None if bases.items is None else bases.items.points
        self.inducing_users_ = None if bases.users is None else bases.users.points
        self._keep_factors(result)
        mean, variance = posterior.consensus.order_effect
        self.order_effect_ = mean, float(np.sqrt(variance))
        self._set_trace(result, frames=7)

    def _keep_factors(self, result: CrowdFit) -> None:
        """Factors in the order in which they were numbered; those that were dropped are zero."""
        posterior, alive = result.posterior, list(result.alive)
        self.factor_scales_ = np.zeros(self.n_factors)
        self.factor_scales_[alive] = 1.0 / (posterior.items.inverse_scale * posterior.users.inverse_scale)
        items, users = self._seen(self._items), self._seen(self._users)
        self.item_factors_ = np.zeros((items.size, self.n_factors))
        self.item_factors_[:, alive] = (posterior.items.moments(items)[0] - posterior.centre[:, None]).T
        self.user_factors_ = np.zeros((users.size, self.n_factors))
        self.user_factors_[:, alive] = posterior.users.moments(users)[0].T

    @staticmethod
    def _seen(roster: Entities) -> Items:
        return roster.rows(roster.seen)


def refuse_unseen_users(users: Entities, ids: Any, rows: IntArray, noun: str) -> None:
    """Raise if an id was marked as unknown."""
    if not rows.size or int(rows.min()) >= 0:
        return
    row, more = int(np.argmin(rows)), int(np.count_nonzero(rows < 0)) - 1
    what = f"unknown user {shorten(as_ids(ids, kind='user')[row])} in {noun} {row}" + (
        f" (and {more} more)" if more else ""
    )
    why = "was not seen by fit" if users.features is None else "is not in the table of users"
    raise UnknownIdError(f"{what}: it {why}; unknown_user='consensus' predicts the consensus for strangers")


def is_pairs(X: Any) -> bool:
    """Whether rows hold two ids each, and no user."""
    if hasattr(X, "shape"):
        return len(X.shape) == 2 and X.shape[1] == 2
    rows = isinstance(X, list | tuple) and all(isinstance(row, list | tuple | np.ndarray) for row in X)
    return rows and {len(row) for row in X} == {2}


def among_seen(given: Comparisons, users: Entities, items: Entities) -> Comparisons:
    """The comparisons in numbers of the entities seen."""
    used = given.weight > 0.0
    place, person = items.position, users.position
    return replace(
        given,
        left=place[given.left[used]],
        right=place[given.right[used]],
        y=given.y[used],
        weight=given.weight[used],
        n_items=max(items.seen.size, 1),
        user=person[np.asarray(given.user)[used]],
        n_users=users.seen.size,
    )


def behind(old: Comparisons, new: Comparisons) -> Comparisons:
    """Old and new comparisons, in the new one's numbers of items and users (which keep the old ones)."""
    left, right, y, weight, user = (
        np.concatenate([getattr(old, name), getattr(new, name)]) for name in ("left", "right", "y", "weight", "user")
    )
    return replace(new, left=left, right=right, y=y, weight=weight, user=user)


def nearest(one: Any, n: int, roster: Entities, ids: Any, factors: Array, gram: Array, kind: str) -> tuple[Any, Array]:
    """Return the ids and the distances of the n entities of a kind that are most like one of them."""
    row = int(roster.vocabulary.encode([one], kind, unknown="mark", noun="row", kind=kind)[0])
    place = int(roster.position[row])
    if place < 0:
        who = f"{'unknown ' if row < 0 else ''}{kind} {shorten(one)}"
        why = "made no comparison" if kind == "user" else "is in no comparison"
        raise UnknownIdError(f"{who} {why} that fit has seen, so it has no neighbours; those who have: {kind}_ids_")
    if not isinstance(n, Integral) or n < 1:
        raise DataError(f"n must be an integer of at least 1; got {n!r}.")
    apart = factors - factors[place]
    distance = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", apart, gram, apart), 0.0))
    order = np.argsort(distance, kind="stable")
    order = order[order != place][:n]
    return ids[order], distance[order]
