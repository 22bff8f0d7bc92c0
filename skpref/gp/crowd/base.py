"""How `CrowdGPPL` fits: from ids to comparisons of positions, to a posterior, to fitted attributes."""

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
from skpref.gp.crowd.fit import CrowdFit, WarmStart, fit_crowd
from skpref.gp.crowd.model import CrowdConfig, CrowdData, Kernels
from skpref.gp.default_kernels import kernel_parameters
from skpref.gp.pairwise.base import ComparisonClassifier, as_likelihood, connected_components

if TYPE_CHECKING:
    from sklearn.gaussian_process.kernels import Kernel

    from skpref._typing import Array, Features, IntArray
    from skpref.data import Comparisons, IdColumn
    from skpref.gp.crowd.posterior import CrowdPosterior
    from skpref.gp.entities import Entities, Items

_DEFAULT_FACTORS = 20  # the default of n_factors: no warning when users are fewer


class CrowdBase(ComparisonClassifier):
    """The steps of a fit."""

    users: Any
    posterior_: CrowdPosterior
    kernel_: Kernel | None
    factor_kernel_: Kernel | None
    user_kernel_: Kernel | None
    inducing_points_: Features
    inducing_users_: Features
    factor_scales_: Array

    def _read(self, X: Any, *, reset: bool) -> tuple[IdColumn, IdColumn, IdColumn]:
        """Return the ids of users, left and right items; store or check the names of the columns."""
        columns = read_triples(X)
        validate_data(self, X, reset=reset, skip_check_array=True)
        return columns

    def _encode(
        self, users: Entities, items: Entities, columns: tuple[IdColumn, IdColumn, IdColumn], y: Any, weight: Any
    ) -> Comparisons:
        user = users.vocabulary.encode(columns[0], "X", kind="user")
        left, right = (items.vocabulary.encode(column, "X") for column in columns[1:])
        comparisons = from_labels(
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
        return self._merge(comparisons)

    def _merge(self, comparisons: Comparisons) -> Comparisons:
        """Merge equal answers only, since `annotators` counts answers."""
        return comparisons.merged(keep_order=self.order_effect, keep_ties=True)

    def _model_digest(self, users: Entities, items: Entities) -> str:
        """Return a digest of all that two fits must share for the second to start from the first."""
        ids = users.seen_ids.tolist(), items.seen_ids.tolist()
        model = self.n_factors, self.consensus, self.item_effects, self.order_effect
        n_points = self.n_inducing, self.n_inducing_users
        kernels = [kernel_parameters(kernel) for kernel in (self.kernel, self.factor_kernel, self.user_kernel)]
        search = self.length_scale_factor, self.optimizer
        points = None if isinstance(self.inducing, str) else self.inducing
        return digest((ids, model, n_points, kernels, search), users.seen_features, items.seen_features, points)

    def _check_same_model(self) -> None:
        """Refuse partial_fit with parameters that make another model than the fitted one."""
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
                msg = f"{name} is {getattr(self, name)!r}, but the fitted model has {name}={value!r}; "
                raise DataError(f"{msg}partial_fit cannot change it. Set it back, or call fit with all comparisons.")
        for entities in (self._items, self._users):
            name = entities.parameter
            if (getattr(self, name) is None) != (entities.features is None):
                states = ("None", "fitted with") if entities.features is not None else ("given", "fitted without")
                msg = f"features of {name} are {states[0]}, but the model was {states[1]} them; "
                raise DataError(
                    f"{msg}partial_fit cannot change it. Set {name} back, or call fit with all comparisons."
                )

    def _warm_start(self) -> WarmStart:
        return WarmStart(
            self._state,
            self._segments,
            self._alive,
            Kernels(self.kernel_, self.factor_kernel_, self.user_kernel_),
            self.inducing_points_,
            self.inducing_users_,
        )

    def _learn(self, users: Entities, items: Entities, comparisons: Comparisons, start: WarmStart | None) -> None:
        seen = comparisons_of_seen(comparisons, users, items)
        self.components_ = connected_components(seen, frames=5)
        ties = as_likelihood(self.likelihood).ties_are_answers
        seen = seen.merged(keep_order=self.order_effect, keep_ties=ties)
        if self.n_factors > max(seen.n_users, 1) and self.n_factors != _DEFAULT_FACTORS:
            msg = (
                f"n_factors={self.n_factors} is more than the {seen.n_users} users with comparisons; additional "
                "factors learn nothing. Set n_factors lower to silence this."
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
        kernels = Kernels(self.kernel, self.factor_kernel, self.user_kernel)
        fit = fit_crowd(data, kernels, self._crowd_config(), as_generator(self.random_state), start)
        self._comparisons = comparisons
        self._users, self._items = users, items
        self._warm_key = self._model_digest(users, items)
        self._set_crowd_attributes(fit)

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

    def _set_crowd_attributes(self, fit: CrowdFit) -> None:
        posterior = self.posterior_ = fit.posterior
        self._state, self._segments, self._alive = fit.state, fit.segments, fit.alive
        self.classes_ = np.array([0, 1])
        self.likelihood_ = fit.likelihood
        self.item_ids_, self.user_ids_ = self._items.seen_ids, self._users.seen_ids
        bases = fit.bases
        self.kernel_, self.factor_kernel_, self.user_kernel_ = (None if b is None else b.kernel for b in bases)
        self.inducing_points_ = None if bases.items is None else bases.items.points
        self.inducing_users_ = None if bases.users is None else bases.users.points
        self._set_factors(fit)
        mean, variance = posterior.consensus.order_effect
        self.order_effect_ = mean, float(np.sqrt(variance))
        self._set_trace(fit, frames=7)

    def _set_factors(self, fit: CrowdFit) -> None:
        """Set scales and means of all factors by number; dropped factors are zero."""
        posterior, alive = fit.posterior, list(fit.alive)
        self.factor_scales_ = np.zeros(self.n_factors)
        self.factor_scales_[alive] = 1.0 / (posterior.items.inverse_scale * posterior.users.inverse_scale)
        items, users = self._seen(self._items), self._seen(self._users)
        self.item_factors_ = np.zeros((items.size, self.n_factors))
        self.item_factors_[:, alive] = (posterior.items.moments(items)[0] - posterior.centre[:, None]).T
        self.user_factors_ = np.zeros((users.size, self.n_factors))
        self.user_factors_[:, alive] = posterior.users.moments(users)[0].T

    @staticmethod
    def _seen(entities: Entities) -> Items:
        return entities.rows(entities.seen)


def refuse_unknown_users(users: Entities, ids: Any, rows: IntArray, noun: str) -> None:
    """Raise if a row is -1, which marks an unknown id."""
    if not rows.size or int(rows.min()) >= 0:
        return
    row, n_more = int(np.argmin(rows)), int(np.count_nonzero(rows < 0)) - 1
    name = f"unknown user {shorten(as_ids(ids, kind='user')[row])} in {noun} {row}"
    more = f" (and {n_more} more)" if n_more else ""
    why = "was not seen by fit" if users.features is None else "is not in the table of users"
    msg = f"{name}{more}: it {why}; use unknown_user='consensus' to predict the consensus for unseen users"
    raise UnknownIdError(msg)


def is_pairs(X: Any) -> bool:
    """Tell whether rows hold two ids each, and no user."""
    if hasattr(X, "shape"):
        return len(X.shape) == 2 and X.shape[1] == 2
    rows = isinstance(X, list | tuple) and all(isinstance(row, list | tuple | np.ndarray) for row in X)
    return rows and {len(row) for row in X} == {2}


def comparisons_of_seen(comparisons: Comparisons, users: Entities, items: Entities) -> Comparisons:
    """Return the comparisons of positive weight, in positions of the seen users and items."""
    used = comparisons.weight > 0.0
    item, user = items.position, users.position
    return replace(
        comparisons,
        left=item[comparisons.left[used]],
        right=item[comparisons.right[used]],
        y=comparisons.y[used],
        weight=comparisons.weight[used],
        n_items=max(items.seen.size, 1),
        user=user[np.asarray(comparisons.user)[used]],
        n_users=users.seen.size,
    )


def mark_seen(comparisons: Comparisons, users: Entities, items: Entities) -> tuple[Entities, Entities]:
    """Add the users and items of comparisons of positive weight to those seen."""
    used = comparisons.weight > 0.0
    items = items.with_seen(np.concatenate([comparisons.left[used], comparisons.right[used]]))
    return users.with_seen(np.asarray(comparisons.user)[used]), items


def append_comparisons(old: Comparisons, new: Comparisons) -> Comparisons:
    """Return old and new comparisons; the rows of the old users and items are the same in both."""
    left, right, y, weight, user = (
        np.concatenate([getattr(old, name), getattr(new, name)]) for name in ("left", "right", "y", "weight", "user")
    )
    return replace(new, left=left, right=right, y=y, weight=weight, user=user)


def nearest_entities(
    entity: Any, n: int, entities: Entities, ids: IdColumn, factors: Array, gram: Array
) -> tuple[IdColumn, Array]:
    """Return ids and distances of the n entities whose factors are nearest to those of one entity."""
    kind = entities.kind
    row = int(entities.vocabulary.encode([entity], kind, unknown="mark", noun="row", kind=kind)[0])
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
