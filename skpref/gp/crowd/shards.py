"""A crowd in shards: each shard has all comparisons of its users, and returns sums over users.

The sites of comparisons stay in the shards. A pass takes the covariance of tastes and the consensus to them, in two
rounds, and brings the information about the consensus and the second moments of tastes, matrices of the size of the
items.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from skpref.gp.crowd.hierarchy import Hierarchy, Informed, Seen
from skpref.gp.crowd.policy import POLICY
from skpref.gp.crowd.users import UserRows, effect_columns
from skpref.gp.pairwise.sharded import ShardedComparisons
from skpref.inference.shards import Shards, summed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from skpref._typing import Array, BoolArray, IntArray
    from skpref.data import Comparisons
    from skpref.gp.crowd.hierarchy import HierarchyFit, HierarchyState
    from skpref.gp.crowd.places import Places
    from skpref.gp.pairwise.thresholds import TieThresholds

__all__ = ["ShardedAnswers", "ShardedHierarchy", "shard_of"]

_NOTHING = np.empty(0)
_NO_ROWS = np.empty(0, dtype=np.int64)


class _Sites(NamedTuple):
    """The sites of a shard, the new sites that they move to, and what the posterior needs."""

    tau: Array
    nu: Array
    new_tau: Array
    new_nu: Array
    alpha: Array


class _Moving(NamedTuple):
    """Sites of all shards, a share of the way to the new ones."""

    handles: Sequence[Any]  # on `_Sites`; None where there are none yet
    damping: float
    n_passes: int = 0  # so far


# ------------------------------------------------------------------------------------------------------------- a shard
def shard_of(comparisons: Comparisons, places: Places, scale: Array) -> Hierarchy:
    """Return the users of a shard, numbered from 0, with their comparisons, in the places of all shards."""
    c = comparisons
    left, right = (places.find(side, places.cells(c)) for side in (c.left, c.right))
    extra = effect_columns(c, scale, order=places.order)
    sizes = (c.n_users, len(places.group)), places.items_or_none
    users = UserRows.from_comparisons(c.user, left, right, extra, *sizes, c.context)
    empty = np.empty((0, 0))
    return Hierarchy(users, c.y, c.weight, empty, (), places, empty, None, 1.0, 1.0, None, 0)


def _kept(x: Any) -> tuple[None, Any]:
    return None, x


def _damp_sites(shard: Hierarchy, sites: _Sites | None, damping: float, state: HierarchyState) -> HierarchyState:
    """Return the state with the sites of a shard, moved by a damped step towards the new ones."""
    if sites is None:
        tau, nu = shard.start_sites()
        return replace(state, tau=tau, nu=nu)
    new = Seen(_NOTHING, 0.0, 0.0, None, state.likelihood, sites.new_tau, sites.new_nu, _NOTHING)
    return shard.mixed(replace(state, tau=sites.tau, nu=sites.nu), new, damping)


def _moved(
    shard: Hierarchy, x: Array | None, sites: _Sites | None, damping: float, state: HierarchyState
) -> tuple[Array, Array]:
    """Return the sites of a shard where they move to."""
    state = _damp_sites(replace(shard, covariates=x), sites, damping, state)
    return state.tau, state.nu


def _integrate_out(
    shard: Hierarchy, x: Array | None, sites: _Sites | None, damping: float, state: HierarchyState
) -> tuple[tuple[Any, ...], tuple[Array, Array, Array]]:
    """Return the sums over a shard's users, and the sites that they are of."""
    shard, state = replace(shard, covariates=x), _damp_sites(shard, sites, damping, state)
    informed = shard.integrate_out(state)
    return informed[:4], (state.tau, state.nu, informed.rest)


def _see(
    shard: Hierarchy,
    x: Array | None,
    sites: tuple[Array, Array, Array],
    thresholds: TieThresholds | None,
    state: HierarchyState,
    m: Array,
    V: Array,
) -> tuple[tuple[Any, ...], _Sites]:
    """Return the sums over a shard's users, given the consensus, and the new sites."""
    tau, nu, shift = sites
    informed = Informed(_NOTHING, _NOTHING, 0.0, 0.0, shift)
    state = replace(state, tau=tau, nu=nu, thresholds=thresholds)
    seen = replace(shard, covariates=x).see(state, informed, m, V)
    slope = 0.0 if seen.slope is None else seen.slope
    sums = seen.moment, seen.squared, seen.log_sites, slope, seen.of_thresholds
    return sums, _Sites(tau, nu, seen.tau, seen.nu, seen.alpha)


def _curvature(
    shard: Hierarchy, x: Array | None, sites: _Sites, damping: float, state: HierarchyState, B: Array
) -> float:
    return replace(shard, covariates=x).effect_curvature(_damp_sites(shard, sites, damping, state), B)


def _columns(sites: _Sites) -> tuple[Array, Array, Array]:
    return sites.tau, sites.nu, sites.alpha


# ----------------------------------------------------------------------------------------------------------- all shards
@dataclass(frozen=True, eq=False)
class ShardedAnswers(ShardedComparisons):
    """Comparisons by users in shards of whole users, which come one shard after the other."""

    first_user: IntArray = field(default_factory=lambda: _NO_ROWS)  # (n_shards + 1,): of each shard
    answers: Any = None  # all `Comparisons`, which the model keeps, in the order of the shards
    places: Any = None  # `Places`

    def take(self, index: IntArray) -> Comparisons:
        """Return some comparisons."""
        c: Comparisons = self.answers.take(index)
        return c

    def empty(self) -> Comparisons:
        """Return no comparisons of these items and users."""
        return self.take(_NO_ROWS)

    def hierarchy(self, model: Hierarchy) -> ShardedHierarchy:
        """Return the model of these comparisons, given a model without comparisons."""
        x: Sequence[Any] = [None] * len(self.rows)
        if model.covariates is not None:
            x = self.shards.keep(_kept, np.split(model.covariates, self.first_user[1:-1]))[1]
        counts = np.searchsorted(self.answers.user, np.arange(self.answers.n_users + 1))
        values = {item.name: getattr(model, item.name) for item in fields(model)}
        values["users"] = replace(model.users, rows=counts)
        return ShardedHierarchy(**values, shards=self.shards, answers=self, x=x)


@dataclass(frozen=True, eq=False)
class ShardedHierarchy(Hierarchy):
    """A hierarchy whose users are in shards; `users` has their numbers of comparisons, and y and weight are empty."""

    shards: Shards = field(default_factory=Shards)
    answers: Any = None  # `ShardedAnswers`
    x: Sequence[Any] = ()  # handles on the covariates of each shard's users

    @property
    def rows(self) -> list[Sequence[Any]]:
        """Handles on the shards and on their covariates."""
        return [self.answers.rows, self.x]

    def select_users(self, chosen: BoolArray) -> Hierarchy:
        """Return the model of some users, chosen (U,), in memory."""
        answers = self.answers.answers
        c = answers.take(np.flatnonzero(chosen[answers.user]))
        here = shard_of(c, self.places, self.answers.covariate_scale)
        values = {item.name: getattr(self, item.name) for item in fields(Hierarchy)}
        values |= {"users": here.users, "y": here.y, "weight": here.weight}
        return Hierarchy.select_users(Hierarchy(**values), chosen)

    def start_sites(self) -> tuple[Any, Any]:
        """Return no sites yet: the shards make them."""
        return _Moving([None] * len(self.x), 1.0), None

    def _shared(self, state: HierarchyState) -> Any:
        """Return a handle on the parts of a state that the shards need."""
        empty = np.empty((0, 0))
        needed = replace(state, tau=None, nu=None, thresholds=None, scales={})
        return self.shards.share(replace(needed, effects=empty, effect_variance=empty, effect_bases=(empty, empty)))

    def integrate_out(self, state: HierarchyState) -> Informed:
        """Return the sums over the users of all shards."""
        handles, damping = state.tau[:2]
        needed = self._shared(state)
        sums, sites = self.shards.keep(_integrate_out, *self.rows, handles, shared=(damping, needed))
        G, h, log_det, constant = summed(sums)
        return Informed(G, h, log_det, constant, (needed, sites))

    def see(self, state: HierarchyState, informed: Informed, m: Array, V: Array) -> Seen:
        """Return the sums over the users of all shards; the new sites stay there."""
        needed, before = informed.rest
        users = [np.arange(*ends) for ends in pairwise(self.answers.first_user.tolist())]
        thresholds = [None if state.thresholds is None else state.thresholds.take(of_shard) for of_shard in users]
        sums, sites = self.shards.keep(_see, *self.rows, before, thresholds, shared=(needed, m, self.shards.share(V)))
        moment, squared, log_sites, slope = summed(of_shard[:-1] for of_shard in sums)
        slope = None if self.covariates is None else slope
        of_thresholds: Any = None
        if state.thresholds is not None:
            measured = zip(*(of_shard[-1] for of_shard in sums), strict=True)
            of_thresholds = tuple(np.concatenate(column) for column in measured)
        return Seen(moment, squared, log_sites, slope, state.likelihood, sites, None, sites, of_thresholds)

    def mixed(self, state: HierarchyState, seen: Seen, damping: float) -> HierarchyState:
        """Return the state whose sites the shards move when they are asked next."""
        handles, n_passes = seen.tau, state.tau.n_passes + 1
        if n_passes % POLICY.backup == 0:
            # Sites depend on those before them: a lost shard would be computed again from the first pass on.
            handles = self.shards.backed_up(handles)
        return replace(state, tau=_Moving(handles, damping, n_passes), nu=None)

    def site_sizes(self) -> dict[str, int]:
        """Return the sizes of the arrays of `sites_of`."""
        names = [(f"tau {k}", f"nu {k}") for k in range(len(self.x))]
        return {name: int(size) for pair, size in zip(names, self.answers.sizes, strict=True) for name in pair}

    def sites_of(self, state: HierarchyState) -> dict[str, Array]:
        """Bring the sites here, for a checkpoint."""
        handles, damping = state.tau[:2]
        sites = self.shards.collect(_moved, *self.rows, handles, shared=(damping, self._shared(state)))
        return {
            f"{name} {k}": part for k, pair in enumerate(sites) for name, part in zip(("tau", "nu"), pair, strict=True)
        }

    def with_sites(self, state: HierarchyState, arrays: Mapping[str, Array]) -> HierarchyState:
        """Return the state with these sites in the shards."""
        pairs = [(arrays[f"tau {k}"], arrays[f"nu {k}"]) for k in range(len(self.x))]
        sites = [_Sites(*pair, *pair, _NOTHING) for pair in pairs]
        return replace(state, tau=_Moving(self.shards.keep(_kept, sites)[1], 1.0), nu=None)

    def effect_curvature(self, state: HierarchyState, B: Array) -> float:
        """Return minus the second derivative of the log evidence along B."""
        handles, damping = state.tau[:2]
        shared = damping, self._shared(state), B
        return float(summed(self.shards.collect(_curvature, *self.rows, handles, shared=shared)))

    def columns(self, fit: HierarchyFit) -> tuple[UserRows, Array, Array, Array]:
        """Return all comparisons, and bring their sites and alpha here."""
        answers = self.answers
        users = shard_of(answers.answers, self.places, answers.covariate_scale).users
        columns = zip(*self.shards.collect(_columns, fit.alpha), strict=True)
        tau, nu, alpha = (np.concatenate(column) for column in columns)
        return users, tau, nu, alpha
