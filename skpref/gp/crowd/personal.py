"""The posterior of a hierarchy of users and the predictions from it (docs/maths section 6)."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse

from skpref import kernels
from skpref._checks import check_arrays, check_indices, check_positive, check_types, require
from skpref._math.linalg import cholesky
from skpref.gp.crowd.blocks import iterate_users, personal_moments
from skpref.gp.crowd.groups import GroupPosterior, consensus_of_pairs, views_of
from skpref.gp.crowd.places import Places
from skpref.gp.crowd.policy import POLICY
from skpref.gp.crowd.posterior import UNSEEN_USER
from skpref.gp.crowd.spread import mixed_variance
from skpref.gp.crowd.users import UserRows
from skpref.gp.entities import Items
from skpref.gp.pairwise.posterior import PairPosterior
from skpref.inference.basis import InducingBasis, chunks
from skpref.inference.scale import FixedScale, check_scales

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from skpref._typing import Array, Features, IntArray
    from skpref.inference.scale import Scale

_MOST_ENTRIES = 2**20  # entries of the covariances of items with all places, for some users at a time


class _Reach(NamedTuple):
    """How items follow from the n seen ones: b(x) = weights b + an independent rest."""

    weights: Array  # (n_items, n)
    rest: Array  # (n_items,): variance
    half: Array  # (n_items, K): rows of the consensus, whose covariance is half half^T


@dataclass(frozen=True, eq=False)
class Covariates:
    """Features of users as covariates: centred and scaled, or the rows of a kernel at inducing points."""

    basis: InducingBasis | None  # None: the features themselves
    centre: Array  # (p,)
    spread: Array  # (p,)

    def validate(self) -> None:
        """Raise DataError unless the parts fit together."""
        check_types(self, basis=InducingBasis | None)
        size = check_arrays(self, centre="p", spread="p")["p"]
        check_positive(self, "spread")
        fits = self.basis is None or self.basis.chol.shape[0] == size
        require(fits, self, "basis", "does not fit the covariates")

    def rows(self, features: Features) -> Array:
        """Return the covariates of users, shape (U, p)."""
        if self.basis is not None:
            rows = self.basis.rows(features)
        else:
            rows = features.toarray() if sparse.issparse(features) else np.asarray(features)
        return np.asarray((rows - self.centre) / self.spread)


@dataclass(frozen=True, eq=False)
class AtS:
    """The parts of a posterior that depend on S."""

    S: Array
    S_new: Array
    consensus: PairPosterior
    groups: GroupPosterior | None
    m: Array
    half_rows: Array
    alpha: Array
    tau: Array
    nu: Array

    def validate(self) -> None:
        """Raise DataError unless the parts fit together; the posterior checks the rest."""
        check_types(self, consensus=PairPosterior, groups=GroupPosterior | None)
        K = self.consensus.mean.size + (0 if self.groups is None else self.groups.mean.size)
        check_arrays(self, {"K": K}, m="L", half_rows="L K", S="n n", S_new="n n", alpha="C", tau="P", nu="P")


@dataclass(frozen=True, eq=False)
class PersonalPosterior:
    """Posterior of u(x, user) = m(x) + x_user^T B(x) + b_user(x), with b_user ~ N(0, S) over the seen items.

    An order effect is one more item, the left side. Given m, users are independent, and that of one user follows from
    the sites of its comparisons. m, half_rows, left and right are about places: items in groups, covariates, the left
    side. `select_groups` has the utilities in a group instead of those of the consensus.
    """

    consensus: PairPosterior  # m and the shared effects
    places: Places
    m: Array  # (L,): posterior mean of the consensus and of the effects at the places
    half_rows: Array  # (L, K): its covariance is half_rows half_rows^T
    S: Array  # (n, n): covariance of b
    # (n, n): of b of new users, the mean of E[b b^T] over the users. S is what predicts the answers of users who gave
    # some best, so its penalty makes it smaller than what they show of their tastes.
    S_new: Array
    user: IntArray  # (P,): of each comparison, sorted
    left: IntArray  # (P,)
    right: IntArray  # (P,)
    extra: Array  # (P, E): what the effects multiply
    context: Array  # (P, n_numbers): what the slopes multiply
    n_users: int
    tau: Array  # (P,): site precisions
    nu: Array  # (P,): site linear terms
    alpha: Array  # (C,): E[b_user] = S A_user^T alpha
    basis: InducingBasis | None  # of the personal parts over features of items; None without features
    shape_rows: Array  # (M, n): covariance of the inducing values and the seen items in S's prior, unit scale
    extension: Array  # (M, n): shape_rows times the inverse of the prior's covariance of the items
    # Share of that prior in which items are independent; of effects beside attributes, mean square over rest_scale.
    own_share: float
    rest_scale: float  # scale of the prior of items that were not compared
    covariates: Covariates | None
    B: Array  # (n, p): effects of the covariates
    effect_rows: Array  # (n, n): with the next two, the posterior variance of B
    effect_rotation: Array  # (p, p)
    effect_variance: Array  # (n, p)
    effect_precision: float  # of the prior of B
    n_learnt: int  # comparisons from which S and all else that users share was learnt
    x: Array  # (U, p): covariates of the seen users
    scales: dict[str, Scale]  # of the consensus, and of the parts of groups
    groups: GroupPosterior | None = None
    centre: Array | None = None  # (n,): mean attributes of the seen items, where there are attributes in place of items
    are_choices: bool = False  # whether the comparisons are pairs of choices of one among several
    # At S and at draws of S, none where S is known; `consensus` and `groups` have the moments of the draws' mixture.
    points: tuple[AtS, ...] = ()

    def validate(self) -> None:
        """Raise DataError unless the parts fit together."""
        check_types(self, consensus=PairPosterior, basis=InducingBasis | None, covariates=Covariates | None)
        check_types(self, n_users=int, own_share=float, rest_scale=float, effect_precision=float, n_learnt=int)
        groups, order = self.groups, self.consensus.has_order
        check_types(self, groups=GroupPosterior | None, places=Places)
        K = self.consensus.mean.size + (0 if groups is None else groups.mean.size)
        sizes = check_arrays(self, {"K": K}, m="L", half_rows="L K", S="n n", tau="P", nu="P", alpha="C", B="n p")
        places, n_covariates = self.places, self.consensus.covariate_scale.size
        check_indices(places, "item", places.item, -1, sizes["n"], sizes["L"])
        n_effects = places.n_attributes + n_covariates + order
        sound = places.item.size == places.n_of_items + n_effects == sizes["L"] and places.order == order
        require(sound, places, "item", "must be of the items, the covariates and the left side")
        require(not order or places.item[-1] == sizes["n"] - 1, places, "item", "must end with the left side")
        require((groups is None) == (not places.sizes.size), self, "groups", "must be of the groups of the places")
        if groups is None:
            n = sizes["n"] - order
            own = places.item[: places.n_attributes] if places.n_attributes else places.compared
            require(np.array_equal(own, np.arange(n)), places, "item", f"must be the {n} items")
        else:
            check_arrays(groups, sizes, half="K G")
            groups.check_with(self.consensus, places.sizes)
        require(0 <= self.n_learnt <= sizes["P"], self, "n_learnt", "must be a number of its comparisons")
        check_scales(self, "scales", self.scales)
        n_points = 0 if self.basis is None else self.basis.chol.shape[0]
        sizes |= {"M": n_points, "U": self.n_users}
        check_arrays(self, sizes, S_new="n n", shape_rows="M n", extension="M n", x="U p")
        if sizes["p"]:
            sound = self.covariates is not None and self.covariates.centre.size == sizes["p"]
            require(sound, self, "covariates", f"must be of {sizes['p']} columns")
            check_arrays(self, sizes, effect_rows="n n", effect_rotation="p p", effect_variance="n p")
            check_positive(self, "effect_variance", zero=True)
        check_types(self, are_choices=bool, centre=np.ndarray | None)
        check_positive(self, "effect_precision", *(() if self.are_choices else ("tau",)))
        require((self.centre is None) == (not places.n_attributes), self, "centre", "must go with attributes")
        if self.centre is not None:
            check_arrays(self, {"n": places.n_attributes}, centre="n")
        check_positive(self, "own_share", "rest_scale", zero=True)
        for name in ("left", "right"):
            check_indices(self, name, getattr(self, name), 0, max(len(places.group), 1), sizes["P"])
        sizes_of_rows = {"P": sizes["P"], "E": n_effects, "K": int(places.widths.sum())}
        check_arrays(self, sizes_of_rows, extra="P E", context="P K")
        check_indices(self, "user", self.user, 0, self.n_users, sizes["P"])
        require(bool((np.diff(self.user) >= 0).all()), self, "user", "must be sorted")
        require(sizes["C"] == self.users.first.size, self, "alpha", f"must have {self.users.first.size} entries")
        for name, S in (("S", self.S), ("S_new", self.S_new)):
            positive = np.array_equal(S, S.T) and np.linalg.eigvalsh(S)[0] > 0.0
            require(positive, self, name, "must be a covariance")
        check_types(self, points=tuple)
        require(len(self.points) not in {1, 2}, self, "points", "must be those at S and at draws of it, or none")
        for part in self.points:
            require(isinstance(part, AtS), self, "points", "must be posteriors at an S")
            replace(self, **vars(part), points=()).validate()

    @cached_property
    def mixture(self) -> tuple[PersonalPosterior, ...]:
        """The posteriors at S and at draws of it, which are mixed; this one alone where S is known."""
        parts = tuple(replace(self, **vars(part), points=()) for part in self.points)
        for part in parts:
            vars(part)["users"] = self.users
        return parts or (self,)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without cached values."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @cached_property
    def users(self) -> UserRows:
        """The comparisons in each user's coordinates."""
        sizes = (self.n_users, len(self.places.group)), self.places.items_or_none
        return UserRows.from_comparisons(self.user, self.left, self.right, self.extra, *sizes, self.context)

    @property
    def S_people(self) -> Array:
        """Covariance of tastes between people, with what their features explain, shape (n, n)."""
        effects = (self.x - self.x.mean(axis=0)) @ self.B.T
        return np.asarray(self.S_new + effects.T @ effects / max(self.n_users, 1))

    @cached_property
    def V(self) -> Array:
        """Posterior covariance of m at the seen items, or places of groups, shape (L, L)."""
        return np.asarray(self.half_rows @ self.half_rows.T)

    @property
    def slopes(self) -> Array:
        """Posterior means of the slopes of each place's item on numbers of context, shape (n_places, n_numbers)."""
        item, n_numbers = np.asarray(self.users.item)[: len(self.places.group)], self.context.shape[1]
        return self.m[item.size :][: n_numbers * (item.max() + 1)].reshape(-1, n_numbers)[item]

    @cached_property
    def S_places(self) -> Array:
        """Covariance of b there, shape (L, L)."""
        return self.places.spread_covariance(self.S)

    @cached_property
    def root(self) -> Array:
        """A root of S, shape (n, n)."""
        return cholesky(self.S)

    @cached_property
    def root_new(self) -> Array:
        """A root of S_new, shape (n, n)."""
        return cholesky(self.S_new)

    def select_groups(self, levels: Sequence[float]) -> PersonalPosterior:
        """Return the posterior of utilities in one group of each kind, unseen or left out ones too, and at numbers."""
        if self.groups is None:
            return self
        consensus = self.groups.consensus_of(self.consensus, levels, self.places)
        new = np.zeros((self.m.size, consensus.half.shape[0] - self.half_rows.shape[1]))
        view = replace(self, consensus=consensus, half_rows=np.hstack([new, self.half_rows]))
        vars(view).update(users=self.users, V=self.V, S_places=self.S_places, root=self.root, root_new=self.root_new)
        vars(view).update(_scores=self._scores)
        if self.points:
            vars(view).update(mixture=tuple(part.select_groups(levels) for part in self.mixture))
        return view

    def flattened(self) -> PersonalPosterior:
        """Return the posterior in which the items of each group are items of their own, without features."""
        if self.groups is None:
            return self
        n = len(self.places.group)
        item, places = self.places.item[self.places.item >= 0], self.places.as_items()
        average = np.concatenate([np.full(n, 1.0 / n), np.zeros(self.m.size - n)])
        consensus = replace(
            self.consensus,
            basis=None,
            mean=self.m,
            half=np.ascontiguousarray(self.half_rows.T),
            offset_mean=self.m[:n],
            has_offsets=True,
            scales=self.scales | {"offset": FixedScale(1.0)},
            centre_mean=float(average @ self.m),
            centre_half=average @ self.half_rows,
            average_residual=None,
        )
        flat = replace(
            self,
            consensus=consensus,
            places=places,
            S=self.S[np.ix_(item, item)],
            S_new=self.S_new[np.ix_(item, item)],
            basis=None,
            shape_rows=np.zeros((0, item.size)),
            extension=np.zeros((0, item.size)),
            B=self.B[item],
            effect_rows=self.effect_rows[item],
            groups=None,
        )
        vars(flat).update(users=self.users, V=self.V, root=self.root[item], root_new=self.root_new[item])
        if self.points:
            vars(flat).update(mixture=tuple(part.flattened() for part in self.mixture))
        return flat

    def _expand_to_places(self, rows: Array) -> Array:
        """Return rows of numbers of items at the places, shape (P, L)."""
        return rows if self.places.are_items else np.ascontiguousarray(self.places.spread(rows.T).T)

    @property
    def n_seen(self) -> int:
        """Number of seen items, or of attributes in their place, without the left side."""
        return self.S.shape[0] - int(self.consensus.has_order)

    def unseen_user_posterior(self) -> PersonalPosterior:
        """Return the posterior for users without a position: this one."""
        return self

    def _placed(self, items: Items) -> Items:
        """Return items with their positions among the coordinates; where these are attributes, -2 for seen items.

        Placed items stay as they are.
        """
        return Items(items.features, np.where(items.position == -1, -1, -2)) if self.places.n_attributes else items

    def widened_for_new_items(self, n_own: int) -> PersonalPosterior:
        """Return the posterior with unknown effects of new items, as the last `n_own` attributes are of seen ones."""
        own = slice(self.places.n_attributes - n_own, self.places.n_attributes)
        units = np.atleast_1d(vars(self.basis)["kernel"].variance)[own]  # squared: utilities of one unit
        shared = float(np.mean(units * (self.m[own] ** 2 + np.diag(self.V)[own])))
        share = float(np.mean(units * np.diag(self.S_new)[own])) / self.rest_scale

        def widened(consensus: PairPosterior) -> PairPosterior:
            return replace(consensus, scales=consensus.scales | {"offset": FixedScale(1.0 / shared)})

        points = tuple(replace(part, consensus=widened(part.consensus)) for part in self.points)
        result = replace(self, own_share=share, consensus=widened(self.consensus), points=points)
        vars(result)["users"] = self.users
        return result

    def _reach(self, items: Items, *, centred: bool = False) -> _Reach:
        items = self._placed(items)
        return _Reach(*self._weights(items, centred=centred), self.consensus.half_rows(items, centred=centred))

    def _weights(self, items: Items, *, centred: bool = False) -> tuple[Array, Array]:
        """Return the first two parts of `_reach`."""
        n, seen = self.S.shape[0], np.flatnonzero(items.position >= 0)
        weights, rest = np.zeros((items.size, n)), np.zeros(items.size)
        new = np.flatnonzero(items.position < 0)
        if new.size:
            rest[new] = self.rest_scale * self.own_share * (items.position[new] == -1)
            if self.basis is not None:
                features = items.take(new).features
                phi = self.basis.rows(features)
                weights[new] = phi @ self.extension
                prior = (1.0 - self.own_share) * kernels.diagonal(self.basis.kernel, features)
                explained = np.einsum("ij,ij->i", weights[new], phi @ self.shape_rows)
                rest[new] += self.rest_scale * np.maximum(prior - explained, 0.0)
        weights[seen, items.position[seen]] = 1.0
        if centred:
            weights[:, : self.n_seen] -= 1.0 / self.n_seen if self.centre is None else self.centre
        return weights, rest

    def _effects(self, users: Items) -> Array:
        """Return the covariates of users, zero where there are no features, shape (U, p)."""
        if self.covariates is None or users.features is None:
            return np.zeros((users.size, self.B.shape[1]))
        return self.covariates.rows(users.features)

    def _effect_covariance(self, rows: Array, x: Array, users: Items) -> Array:
        """Return the covariance of rows of B x for a new user, whose x may be unknown, shape (n_rows, n_rows)."""
        if not self.B.shape[1]:
            return np.zeros((rows.shape[0], rows.shape[0]))
        known = users.features is not None
        moment = np.outer(x, x) if known else self.x.T @ self.x / max(self.n_users, 1)
        of_rotated = np.einsum("ij,ik,kj->j", self.effect_rotation, moment, self.effect_rotation)
        lifted, effects = rows @ self.effect_rows, rows @ self.B
        covariance = (lifted * (self.effect_variance @ of_rotated)) @ lifted.T
        return np.asarray(covariance if known else covariance + effects @ moment @ effects.T)

    def _effect_variance(self, rows: Array, x: Array, users: Items) -> Array:
        """Return the variance of row r of B x_r for new users, whose x may be unknown, shape (n_rows,)."""
        if not self.B.shape[1]:
            return np.zeros(rows.shape[0])
        # Not by BLAS, in which the bits of a row depend on its place among the others.
        squared = np.einsum("rn,nk->rk", rows, self.effect_rows) ** 2
        squared = np.einsum("rk,kp->rp", squared, self.effect_variance)
        if users.features is not None:
            return np.asarray(np.einsum("rp,rp->r", squared, np.einsum("rp,pk->rk", x, self.effect_rotation) ** 2))
        moment, effects = self.x.T @ self.x / max(self.n_users, 1), np.einsum("rn,np->rp", rows, self.B)
        of_rotated = np.einsum("ij,ik,kj->j", self.effect_rotation, moment, self.effect_rotation)
        of_effects = np.einsum("rp,pq,rq->r", effects, moment, effects)
        return np.asarray(np.einsum("rp,p->r", squared, of_rotated) + of_effects)

    def _effect_columns(self, n_pairs: int, covariates: Array | None, *, order: bool = True) -> Array:
        """Return what the effects multiply, shape (P, E); covariates that are None are zero."""
        columns = np.zeros((n_pairs, self.m.size - self.places.n_of_items))
        if covariates is not None:
            first = self.places.n_attributes
            columns[:, first : first + covariates.shape[1]] = covariates / self.consensus.covariate_scale
        columns[:, columns.shape[1] - self.consensus.has_order :] = float(order)
        return columns

    def pairs(
        self,
        users_of_pairs: tuple[Items, IntArray],
        items: Items,
        left: IntArray,
        right: IntArray,
        *,
        covariates: Array | None = None,
        order: bool = True,
        levels: Array | None = None,
    ) -> tuple[Array, Array]:
        """Return posterior means and variances of the projections z of pairs, one user each, shape (P,).

        `levels` has the groups of each pair and its numbers of context, shape (P, n_kinds + n_numbers), None for
        utilities as they are.
        """
        asked = users_of_pairs, items, left, right, covariates
        return self._mixed([part.pairs_at_S(*asked, order=order, levels=levels) for part in self.mixture])

    def _mixed(self, moments: Sequence[tuple[Array, Array]]) -> tuple[Array, Array]:
        """Return the means at S, and the variances of the mixture over S."""
        if len(moments) == 1:
            return moments[0]
        means, variances = (np.array(column) for column in zip(*moments, strict=True))
        return means[0], mixed_variance(means, variances)

    def common_of(self, items: Items) -> Array:
        """Return the posterior covariance of the consensus of items and of m at the places, shape (n, L)."""
        half = self.consensus.half_rows(items)
        if self.groups is not None:
            return np.einsum("nk,lk->nl", half, self.half_rows)
        common, new = self.V[items.position], np.flatnonzero(items.position < 0)
        common[new] = half[new] @ self.half_rows.T
        return np.asarray(common)

    def pairs_at_S(
        self,
        users_of_pairs: tuple[Items, IntArray],
        items: Items,
        left: IntArray,
        right: IntArray,
        covariates: Array | None,
        *,
        order: bool = True,
        levels: Array | None = None,
    ) -> tuple[Array, Array]:
        """Return what `pairs` does at this S."""
        items, (mean, variance) = self._placed(items), np.empty((2, left.size))
        columns = self._effect_columns(left.size, covariates, order=order)
        users, index = users_of_pairs
        position = np.append(users.position, -1)[index]
        x = np.vstack([self._effects(users), np.zeros((1, self.B.shape[1]))])
        sided = order and self.consensus.has_order
        by_user = np.argsort(position, kind="stable")
        for part in chunks(left.shape[0]):
            rows = by_user[part]
            used, inverse = np.unique(np.concatenate([left[rows], right[rows]]), return_inverse=True)
            a, b = np.split(inverse, 2)
            compared, common = items.take(used), np.empty((rows.size, self.m.size))
            for views, numbers, few in views_of(self, None if levels is None else levels[rows]):
                of_few = columns[rows[few]], None if covariates is None else covariates[rows[few]]
                found = consensus_of_pairs(views, numbers, compared, (a[few], b[few]), *of_few, order=order)
                mean[rows[few]], variance[rows[few]], common[few] = found
            reach = self._reach(compared)
            weights = reach.weights[a] - reach.weights[b]
            if sided:
                weights[:, -1] += 1.0
            if columns.shape[1]:
                common += np.einsum("re,el->rl", columns[rows], self.V[self.places.effects])
            distinct = a != b
            who, effects = position[rows], x[index[rows]]
            own = np.empty_like(weights)
            for asked, S in ((who >= 0, self.S), (who < 0, self.S_new)):
                own[asked] = _pair_covariances(S, compared.position, reach, (a[asked], b[asked]), sided=sided)
            mean[rows] += np.einsum("rn,rn->r", weights, effects @ self.B.T)
            variance[rows] += np.einsum("rn,rn->r", own, weights) + distinct * (reach.rest[a] + reach.rest[b])
            for new, kind in ((index[rows] < 0, UNSEEN_USER), ((who < 0) & (index[rows] >= 0), users)):
                variance[rows[new]] += self._effect_variance(weights[new], effects[new], kind)
            old = who >= 0
            at_places = who[old], self._expand_to_places(own[old]), common[old], self.S_places, self.V
            added = personal_moments(*at_places, self.users, self.tau, self.nu, self.alpha, explain=self.B.size > 0)
            mean[rows[old]] += added[0]
            # What the user's answers do not explain keeps the uncertainty of the effects.
            unexplained = weights[old] - self.places.sum_by_item(added[2])
            variance[rows[old]] += added[1] + self._effect_variance(unexplained, effects[old], users)
        return mean, np.maximum(variance, 0.0)

    def _one_user(self, position: int) -> tuple[Array, Array, Array, Array]:
        """Return the rows A of b for the user's coordinates, A^T alpha, W, and the half rows of m."""
        start, stop = self.users.starts[position : position + 2]
        _, W, _, _ = next(iterate_users(np.array([position]), self.users, self.S_places, self.tau, self.nu))
        at_places = self.users.user_rows(position)
        rows = self.places.sum_by_item(at_places)
        return rows, rows.T @ self.alpha[start:stop], W, at_places @ self.half_rows

    def pair_covariance(
        self, user: Items, items: Items, left: IntArray, right: IntArray, covariates: Array | None = None
    ) -> Array:
        """Return the posterior covariance of the projections z of pairs for one user, all effects included."""
        asked = items, left, right, covariates
        covariances = np.array([part.pair_covariance_at_S(user, *asked) for part in self.mixture])
        if len(covariances) == 1:
            return np.asarray(covariances[0])
        of_user = user, np.zeros(left.size, dtype=np.int64)
        means = np.array([part.pairs_at_S(of_user, *asked)[0] for part in self.mixture])
        rest = means[1:] - means[1:].mean(axis=0)
        return np.asarray((covariances[1:] + rest[:, :, None] * rest[:, None, :]).mean(axis=0))

    def pair_covariance_at_S(
        self, user: Items, items: Items, left: IntArray, right: IntArray, covariates: Array | None
    ) -> Array:
        """Return what `pair_covariance` does at this S."""
        covariance = self.consensus.pair_covariance(items, left, right, covariates)
        reach = self._reach(items)
        weights, half = reach.weights[left] - reach.weights[right], reach.half[left] - reach.half[right]
        if self.consensus.has_order:
            weights[:, -1] += 1.0
        half = half + self._effect_columns(left.size, covariates) @ self.half_rows[self.places.effects]
        own = weights @ (self.S_new if user.position[0] < 0 else self.S)
        rest = np.where(np.eye(items.size, dtype=bool), reach.rest[:, None], 0.0)
        rest = rest[left] - rest[right]
        covariance = covariance + own @ weights.T + rest[:, left] - rest[:, right]
        if user.position[0] < 0:
            return np.asarray(covariance + self._effect_covariance(weights, self._effects(user)[0], user))
        rows, _, W, common_rows = self._one_user(int(user.position[0]))
        explained = own @ rows.T @ W
        common = half @ common_rows.T
        cross = common @ explained.T
        shared = explained @ common_rows
        covariance = covariance + self._effect_covariance(weights - explained @ rows, self._effects(user)[0], user)
        return np.asarray(covariance - explained @ (own @ rows.T).T + shared @ shared.T - cross - cross.T)

    def utility(self, users: Items, items: Items) -> tuple[Array, Array]:
        """Return posterior means and variances of personal utilities, shape (n_users, n)."""
        return self._mixed([part.utility_at_S(users, items) for part in self.mixture])

    def utility_at_S(self, users: Items, items: Items) -> tuple[Array, Array]:
        """Return what `utility` does at this S."""
        t, t_variance = self.consensus.utility(items, centred=True)
        reach = self._reach(items, centred=True)
        x = self._effects(users)
        mean = t + x @ (reach.weights @ self.B).T
        of_tastes = [np.einsum("in,in->i", reach.weights @ S, reach.weights) for S in (self.S, self.S_new)]
        variance = t_variance + reach.rest + np.where((users.position < 0)[:, None], of_tastes[1], of_tastes[0])
        own_places, common = self._expand_to_places(reach.weights @ self.S), reach.half @ self.half_rows.T
        step = max(1, _MOST_ENTRIES // max(own_places.size, 1))
        for same in (np.flatnonzero(users.position >= 0), np.flatnonzero(users.position < 0)):
            for some in (same[low : low + step] for low in range(0, same.size, step)):
                who, tiles = np.repeat(users.position[some], items.size), (some.size, 1)
                unexplained = np.tile(reach.weights, tiles)
                if who.max(initial=-1) >= 0:
                    asked = who, np.tile(own_places, tiles), np.tile(common, tiles), self.S_places, self.V
                    added = personal_moments(*asked, self.users, self.tau, self.nu, self.alpha, explain=self.B.size > 0)
                    mean[some] += added[0].reshape(some.size, -1)
                    variance[some] += added[1].reshape(some.size, -1)
                    unexplained -= self.places.sum_by_item(added[2])
                of_effects = self._effect_variance(unexplained, np.repeat(x[some], items.size, axis=0), users)
                variance[some] += of_effects.reshape(some.size, -1)
        return mean, np.maximum(variance, 0.0)

    def deviations(self, users: Items, items: Items) -> Array:
        """Return posterior means of personal minus consensus utilities, shape (n_users, n)."""
        weights, seen = self._reach(items, centred=True).weights, users.position >= 0
        mean = self._effects(users) @ self.B.T
        mean[seen] += self._scores[users.position[seen]] @ self.S
        return np.asarray(mean @ weights.T)

    @cached_property
    def _scores(self) -> sparse.csr_array:
        """A_user^T alpha of each user, shape (U, n)."""
        scores = self.users.sum_by_user(self.alpha)
        return scores if self.places.are_items else scores @ self.places.to_items.T

    def draws(
        self, users: Items, items: Items, n_samples: int, rng: np.random.Generator, *, product: IntArray | None = None
    ) -> tuple[Array, Iterator[Array]]:
        """Return draws of the consensus (n_samples, n), and for each user draws of its utilities, in order.

        By Matheron's rule: a draw of the prior is corrected by what the user's sites say of it. It is shared by all
        users, which is faster, so that only draws of one user, with those of the consensus, are a joint sample. All are
        one where the product of each item is given, by number: items of one product differ by their features alone.
        """
        if len(self.mixture) == 1:
            return self.draws_at_S(users, items, n_samples, rng, product=product)
        beside = self.mixture[1:]
        numbers = n_samples // len(beside) + (rng.permutation(len(beside)) < n_samples % len(beside))
        drawn = [
            part.draws_at_S(users, items, n, rng, product=product)
            for part, n in zip(beside, numbers.tolist(), strict=True)
            if n
        ]
        t, of_users = (list(column) for column in zip(*drawn, strict=True))
        # Their means are those at S, as in `utility`.
        means = np.array([part.consensus.utility(items, centred=True)[0] for part in self.mixture])
        personal = means[:, None] + np.array([part.deviations(users, items) for part in self.mixture])
        shift, shifts = (column[0] - column[1:].mean(axis=0) for column in (means, personal))
        personal_draws = zip(shifts, *of_users, strict=True)
        return np.concatenate(t) + shift, (np.concatenate(parts) + own for own, *parts in personal_draws)

    def draws_at_S(
        self, users: Items, items: Items, n_samples: int, rng: np.random.Generator, *, product: IntArray | None = None
    ) -> tuple[Array, Iterator[Array]]:
        """Return what `draws` does at this S."""
        number = np.arange(items.size) if product is None else product

        def rest_of(variance: Array) -> Array:
            """Draw what products do not share, shape (n_samples, n)."""
            return rng.standard_normal((n_samples, number.max(initial=0) + 1))[:, number] * np.sqrt(variance)

        reach, (t, t_variance) = self._reach(items, centred=True), self.consensus.utility(items, centred=True)
        shared = rng.standard_normal((n_samples, self.half_rows.shape[1]))
        own_variance = np.maximum(t_variance - np.einsum("ij,ij->i", reach.half, reach.half), 0.0)
        t, m = t + shared @ reach.half.T + rest_of(own_variance), self.m + shared @ self.half_rows.T

        def drawn() -> tuple[Array, Array, Array]:
            """Draw utilities of a trained user and of a new one from the prior, and what a trained user compared."""
            white = rng.standard_normal((n_samples, self.root.shape[1]))
            rest = t + rest_of(reach.rest)
            b, of_new = white @ self.root.T, white @ self.root_new.T
            return rest + b @ reach.weights.T, rest + of_new @ reach.weights.T, m + self._expand_to_places(b)

        drawn_once = drawn() if product is None else None
        priors = ((drawn() if drawn_once is None else drawn_once) for _ in range(users.size))
        return t, self._corrected(users, priors, n_samples, reach.weights, rng)

    def _corrected(
        self,
        users: Items,
        priors: Iterator[tuple[Array, Array, Array]],
        n_samples: int,
        weights: Array,
        rng: np.random.Generator,
    ) -> Iterator[Array]:
        """Yield posterior draws of each user's utilities from draws of the prior; users are trained or new."""
        x, own, known = self._effects(users), weights @ self.S, users.position[users.position >= 0]
        blocks = iterate_users(known, self.users, self.S_places, self.tau, self.nu)
        for position, covariates, (prior, of_new, seen) in zip(users.position.tolist(), x, priors, strict=True):
            effects = self._effect_draws(covariates, n_samples, users, rng)
            if position < 0:
                yield of_new + effects @ weights.T
                continue
            at_places = self.users.user_rows(position)
            rows = self.places.sum_by_item(at_places)
            P, W, D, d = next(blocks)
            size, directions = np.linalg.eigh(D)
            noise = rng.standard_normal((n_samples, len(d))) * np.sqrt(np.maximum(size, 0.0)) @ directions.T
            residual = d + noise - (seen + self._expand_to_places(effects)) @ at_places.T @ D
            yield prior + effects @ weights.T + (residual - residual @ P @ W) @ (own @ rows.T).T

    def _effect_draws(self, x: Array, n_samples: int, users: Items, rng: np.random.Generator) -> Array:
        """Draw B x at the seen items, x of the population where a user's is unknown, shape (n_samples, n)."""
        if not self.B.shape[1]:
            return np.zeros((1, self.S.shape[0]))
        known = users.features is not None
        rows = np.tile(x, (n_samples, 1)) if known else self.x[rng.integers(self.n_users, size=n_samples)]
        of_basis = np.sqrt((rows @ self.effect_rotation) ** 2 @ self.effect_variance.T)
        return np.asarray(rows @ self.B.T + rng.standard_normal(of_basis.shape) * of_basis @ self.effect_rows.T)

    def sample(self, users: Items, items: Items, n_samples: int, rng: np.random.Generator) -> Array:
        """Draw personal utilities from the posterior, shape (n_samples, n_users, n)."""
        return np.stack(list(self.draws(users, items, n_samples, rng)[1]), axis=1)

    def factors(self, n_factors: int, seen: Items) -> tuple[Array, Array, Array]:
        """Return the principal directions of tastes, strongest first: scales (D,), items (n_seen, D), users (U, D)."""
        n, D = self.n_seen, n_factors
        centred = self._weights(self._placed(seen), centred=True)[0][:, :n]
        spread = self.B[:n] @ self.x.T / np.sqrt(max(self.n_users, 1))
        half = centred @ cholesky(self.S[:n, :n] + spread @ spread.T)
        directions, size, _ = np.linalg.svd(half, full_matrices=False)
        kept = np.arange(min(D, int(np.count_nonzero(size > POLICY.least_direction * size.max(initial=0.0)))))
        scales, items, of_users = np.zeros(D), np.zeros((seen.size, D)), np.zeros((self.n_users, D))
        scales[: kept.size] = size[kept] ** 2 / max(seen.size, 1)
        items[:, : kept.size] = directions[:, kept] * size[kept]
        for part in chunks(self.n_users):
            mean = self._scores[part] @ self.S[:, :n] + self.x[part] @ self.B[:n].T
            of_users[part, : kept.size] = mean @ (centred.T @ directions[:, kept]) / size[kept]
        return scales, items, of_users


def _pair_covariances(
    S: Array, position: IntArray, reach: _Reach, pairs: tuple[IntArray, IntArray], *, sided: bool
) -> Array:
    """Return the covariances of pairs of items and the seen ones, shape (P, n)."""
    # Rows of the seen items are looked up, so that the bits do not depend on what else is asked.
    rows, new = S[position], np.flatnonzero(position < 0)
    rows[new] = reach.weights[new] @ S
    rows = rows[pairs[0]] - rows[pairs[1]]
    return rows + S[-1] if sided else rows
