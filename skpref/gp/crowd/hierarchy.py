"""Expectation propagation for the hierarchy of a crowd: u_user = m + B x_user + b_user, b_user ~ N(0, S).

m is the consensus over the items, with Gaussian priors on its parts; x are covariates of the users; S is a covariance
of items that is learnt. Given the sites, the posterior of m and all b is exact: users are independent given m, so that
each costs matrices of the size of its own comparisons. S, B and the scales maximise the evidence by Fisher scoring: if
all users were alike, E[A^T W A] =: G/U would be the information of each about its b, and the curvature of the evidence
in S the product of two of these. Where EM needs hundreds of steps because few answers say little of each user, this
needs some twenty.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from skpref._events import Iteration, seconds_since
from skpref._math.linalg import cholesky, inverse_lower, log_det, solve_lower
from skpref.gp.crowd.blocks import UserBlocks, integrate_out, marginals
from skpref.gp.crowd.policy import POLICY
from skpref.gp.crowd.tastes import next_S, penalty_of_tastes
from skpref.gp.pairwise.thresholds import TieThresholds, learn_ratios, threshold_derivatives
from skpref.inference.choices import choice_sites, start_sites
from skpref.inference.ep import log_site_integrals, matching_sites
from skpref.inference.passes import (
    Passes,
    arrays_of_likelihood,
    arrays_of_scales,
    with_arrays_of_likelihood,
    with_arrays_of_scales,
)
from skpref.inference.scale import GammaScale, learnt_scale
from skpref.likelihoods import PairwiseTies

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scipy import sparse

    from skpref._events import OnIteration
    from skpref._typing import Array, BoolArray, IntArray
    from skpref.gp.crowd.personal import PersonalPosterior
    from skpref.gp.crowd.places import Places
    from skpref.gp.crowd.users import UserRows
    from skpref.inference.checkpoint import Checkpoint
    from skpref.inference.scale import Scale
    from skpref.inference.svi import Schedule
    from skpref.likelihoods import Likelihood

_LEAST_SITE = 1e-10  # precision of a site that says nothing


@dataclass(frozen=True, eq=False)
class Hierarchy:
    """The parts of a hierarchy that inference does not change."""

    users: UserRows
    y: Array  # (P,)
    weight: Array  # (P,)
    # (L, K): m = consensus @ v, v the inducing values, offsets and effects of the consensus, after those of groups
    consensus: Array | sparse.csr_array
    parts: tuple[tuple[str, int], ...]  # names of the scales of v and how many variables each has
    # Where users compare: `users`, `consensus` and `others` are about these, the users' b and B about the items.
    places: Places
    shape: Array  # (n, n): covariance of the items that S shrinks to, unit scale
    covariates: Array | None  # (U, p): x, standardised
    floor: float  # scale of `shape` in the prior of S
    prior_weight: float  # users that this prior counts for
    penalty: float | None  # of tr(shape^-1 S): large values leave few directions; None means S = scale * shape
    max_rank: int  # directions in which S exceeds its floor
    # What users outside of the model say of m, the precision (L, L) and the linear term (L,). With these S, B, the
    # scales and the likelihood stay as they are.
    others: tuple[Array, Array] | None = None
    own_thresholds: bool = False  # whether each user has a threshold of ties
    learn_S: bool = True
    stage: IntArray | None = None  # (P,): number of each row's choice; None where rows are answers of their own
    own_scales: bool = False  # whether S = diag(scales) where `penalty` is None, and not S = scale * shape
    coarse: bool = False  # whether sites of choices are only needed roughly

    @property
    def damping(self) -> float:
        """Largest share of the way that sites move."""
        return POLICY.damping if self.stage is None else POLICY.damping_of_choices

    @property
    def own_left(self) -> bool:
        """Whether the variance of the left side is a parameter of its own, and not the variance of an extra item."""
        return self.places.order and (self.penalty is None or not self.learn_S)

    def item_scale(self, S: Array) -> float:
        """Return the average variance of the items in S, in units of `shape`; the left side is not an item."""
        n = len(S) - self.places.order
        return float(np.trace(S[:n, :n]) / np.trace(self.shape[:n, :n]))

    def isotropic(self, S: Array) -> Array:
        """Return S = scale * shape of the same size, with the same variance of the left side."""
        result = self.item_scale(S) * self.shape
        if self.places.order:
            result[-1, -1] = S[-1, -1]
        return result

    def sum_moment(self, moment: Array) -> Array:
        """Sum a matrix of the places, shape (L, L), over the places of each item."""
        return self.places.sum_by_item(self.places.sum_by_item(moment).T)

    def select_users(self, chosen: BoolArray) -> Hierarchy:
        """Return the model of some users, chosen (U,)."""
        rows = chosen[self.users.user]
        kept = self.users.take(rows, chosen)
        x = None if self.covariates is None else self.covariates[chosen]
        return replace(self, users=kept, covariates=x, **self.answers(rows))

    def select_rows(self, rows: BoolArray) -> Hierarchy:
        """Return the model of some comparisons, of the same users and items."""
        return replace(self, users=self.users.take(rows), **self.answers(rows))

    def answers(self, rows: BoolArray) -> dict[str, Any]:
        """Return answers, weights and choices of some comparisons."""
        stage = None if self.stage is None else self.stage[rows]
        return {"y": self.y[rows], "weight": self.weight[rows], "stage": stage}

    @property
    def n_users(self) -> int:
        """Number of users."""
        return int(self.users.starts.size) - 1

    def columns(self, fit: HierarchyFit) -> tuple[UserRows, Array, Array, Array]:
        """Return the comparisons, their sites tau and nu, and alpha of a fit."""
        return self.users, fit.state.tau, fit.state.nu, fit.alpha

    def start_sites(self) -> tuple[Any, Any]:
        """Return sites that lean towards the answers, tau and nu."""
        if self.stage is not None:
            return start_sites(self.stage, self.weight)
        tau = POLICY.start_site * self.weight
        return tau, tau * (2.0 * self.y - 1.0)

    def integrate_out(self, state: HierarchyState) -> Informed:
        """Return the terms of the sites in the consensus."""
        blocks, shift = self.blocks_of(state), prior_means(self, state.B)
        return Informed(*integrate_out(blocks, shift), shift, blocks)

    def blocks_of(self, state: HierarchyState, nu: Array | None = None) -> UserBlocks:
        """Return the matrices of the users, perhaps with other linear terms of the sites."""
        return UserBlocks(self.users, self.places.spread_covariance(state.S), state.tau, state.nu if nu is None else nu)

    def see(self, state: HierarchyState, informed: Informed, m: Array, V: Array) -> Seen:
        """Return new sites and the sums over the users, given the consensus N(m, V)."""
        blocks = informed.blocks or self.blocks_of(state)
        mean, variance, moment, alpha, squared = marginals(blocks, m, V, informed.rest)
        tau, nu, log_sites, likelihood, measured = _sites(self, state, mean, variance)
        slope = None
        if self.covariates is not None:
            of_places = self.users.incidence(alpha).T @ self.covariates[self.users.owner]
            slope = self.places.sum_by_item(of_places.T).T
        return Seen(moment, squared, log_sites, slope, likelihood, tau, nu, alpha, measured)

    def site_sizes(self) -> dict[str, int]:
        """Return the sizes of the arrays of `sites_of`."""
        return {"tau": self.y.size, "nu": self.y.size}

    def sites_of(self, state: HierarchyState) -> dict[str, Array]:
        """Return the sites as arrays, for a checkpoint."""
        return {"tau": state.tau, "nu": state.nu}

    def with_sites(self, state: HierarchyState, arrays: Mapping[str, Array]) -> HierarchyState:
        """Return the state with these sites."""
        return replace(state, tau=arrays["tau"], nu=arrays["nu"])

    def mixed(self, state: HierarchyState, seen: Seen, damping: float) -> HierarchyState:
        """Return the state with its sites moved towards the new ones."""
        tau, nu = ((1.0 - damping) * old + damping * new for old, new in ((state.tau, seen.tau), (state.nu, seen.nu)))
        return replace(state, tau=tau, nu=nu, likelihood=seen.likelihood)

    def covariate_moment(self) -> Array:
        """Return the sum of x x^T over the users, shape (p, p)."""
        assert self.covariates is not None  # noqa: S101 - type narrowing: only called with covariates
        return np.asarray(self.covariates.T @ self.covariates)

    def effect_curvature(self, state: HierarchyState, B: Array) -> float:
        """Return minus the second derivative of the log evidence along B."""
        blocks, means = self.blocks_of(state, np.zeros_like(state.nu)), prior_means(self, B)
        return -float(integrate_out(blocks, means)[3])


@dataclass(frozen=True, eq=False)
class HierarchyState:
    """What inference learns."""

    S: Array  # (n, n): covariance of the personal parts
    B: Array  # (n, p): effects of the covariates
    effect_precision: float  # of B, in units of `shape`
    effects: Array  # (n, p): E in B = basis E rotation^T, where its entries are nearly independent
    effect_variance: Array  # (n, p): posterior variances of E
    effect_bases: tuple[Array, Array]  # basis (n, n) and rotation (p, p)
    scales: dict[str, Scale]  # of the parts of the consensus
    tau: Any  # (P,): site precisions, an array; handles on the sites where comparisons are in shards, and no `nu`
    nu: Any  # (P,): site linear terms
    likelihood: Likelihood
    thresholds: TieThresholds | None = None  # of the users, where they differ
    spread: float = 1.0  # variance of the logarithms of own scales


class Informed(NamedTuple):
    """Terms of the sites in m, with all b integrated out."""

    G: Array  # (L, L): precision
    h: Array  # (L,): linear term
    log_det: float  # sum of log |I + D P|
    constant: float  # of the exponent, twice
    rest: Any  # what `Hierarchy.see` needs besides: prior means of the coordinates
    blocks: UserBlocks | None = None  # of the users, where they are here


class Seen(NamedTuple):
    """The users seen from a consensus."""

    moment: Array  # (L, L): sum of A^T E[alpha alpha^T - W] A
    squared: float  # sum of tr (P W)^2
    log_sites: float  # log normalisers of the old sites
    slope: Array | None  # (n, p): gradient of the evidence in B; None without covariates
    likelihood: Likelihood  # with its learnt parameters
    tau: Any  # new sites
    nu: Any
    alpha: Any
    of_thresholds: tuple[Array, Array] | None = None  # slope and information of the log thresholds of the users


@dataclass(frozen=True, eq=False)
class HierarchyFit:
    """Result of `fit_hierarchy`."""

    state: HierarchyState
    mean: Array  # (K,): of v
    half: Array  # (K, K): its covariance is half^T half
    alpha: Any  # (C,): the posterior mean of b_user is S A_user^T alpha
    second_moment: Array  # (n, n): mean over the users of E[b_user b_user^T]
    bounds: list[float]  # penalised log evidence after each pass
    evidence: float  # approximate log evidence at the end
    converged: bool


@dataclass(frozen=True, eq=False)
class _Consensus:
    """Posterior of m given the sites, all b integrated out, and the evidence of the sites."""

    mean: Array
    half: Array
    m: Array
    V: Array
    information: Array  # sum of A^T W A, by items
    log_integral: float


def start_state(model: Hierarchy, scales: dict[str, Scale], likelihood: Likelihood, scale: float) -> HierarchyState:
    """Return S = scale * shape, no effects, and sites that lean towards the answers."""
    n, p = model.shape.shape[0], 0 if model.covariates is None else model.covariates.shape[1]
    tau, nu = model.start_sites()
    return HierarchyState(
        S=scale * model.shape,
        B=np.zeros((n, p)),
        effect_precision=1.0,
        effects=np.zeros((n, p)),
        effect_variance=np.ones((n, p)),
        effect_bases=(np.zeros((n, n)), np.zeros((p, p))),
        scales=scales,
        tau=tau,
        nu=nu,
        likelihood=likelihood,
        thresholds=_start_thresholds(model, likelihood),
    )


def _start_thresholds(model: Hierarchy, likelihood: Likelihood) -> TieThresholds | None:
    """Return the threshold of the likelihood for all users, where each has one of its own."""
    if not (model.own_thresholds and isinstance(likelihood, PairwiseTies)):
        return None
    return TieThresholds.start(likelihood.threshold, model.n_users)


def fit_hierarchy(
    model: Hierarchy,
    state: HierarchyState,
    *,
    max_iter: int,
    tol: float,
    on_iteration: OnIteration | None = None,
    checkpoint: Checkpoint | None = None,
) -> HierarchyFit:
    """Alternate sites and hyperparameters until the penalised evidence changes by less than tol / 100 of its size.

    Twice in a row, since it may turn. The size is that of the evidence: the penalty has arbitrary constants.
    """
    begin, bounds, radius, damping, n_still = time.perf_counter(), list[float](), POLICY.radius, model.damping, 0
    shape_chol = cholesky(model.shape)
    first = {} if checkpoint is None else _arrays_of(state, radius, damping, n_still)
    passes = Passes(checkpoint, first, {} if checkpoint is None else model.site_sizes())
    saved = passes.resumed()
    if saved is not None:
        state, bounds = model.with_sites(_resumed(state, saved[0]), saved[0]), list(saved[1])
        radius, damping, n_still = saved[0]["steps"].tolist()
    n_before = len(bounds)
    while True:
        informed = model.integrate_out(state)
        consensus = _consensus(model, state, informed)
        seen = model.see(state, informed, consensus.m, consensus.V)
        thresholds = state.thresholds
        if thresholds is not None and seen.of_thresholds is not None:
            thresholds = thresholds.updated(*seen.of_thresholds, learn_prior=model.others is None)
        evidence = seen.log_sites + consensus.log_integral + (0.0 if thresholds is None else thresholds.log_evidence)
        bounds.append(evidence - _penalty(model, state, shape_chol))
        change = bounds[-1] - bounds[-2] if len(bounds) > 1 else np.inf
        size = max(abs(evidence), POLICY.least_size)
        if change < -POLICY.falls * size:
            radius, damping = max(0.5 * radius, POLICY.least_radius), max(0.6 * damping, POLICY.least_damping)
        else:
            radius, damping = min(1.2 * radius, POLICY.radius), min(1.1 * damping, model.damping)
        n_still = n_still + 1 if len(bounds) > POLICY.full_rank and abs(change) < 0.01 * tol * size else 0
        converged = n_still == 2
        event = Iteration(len(bounds), max_iter, bounds[-1], seconds_since(begin, len(bounds), n_before))
        stopped = on_iteration is not None and bool(on_iteration(event))
        if converged or stopped or len(bounds) >= max_iter or not np.isfinite(bounds[-1]):
            passes.finish()
            return _fit_at(model, state, consensus, seen, bounds, converged=converged)
        after = model.mixed(state, seen, damping)
        if thresholds is not None:
            likelihood: Any = after.likelihood
            likelihood = replace(likelihood, threshold=float(np.exp(thresholds.centre)))
            after = replace(after, thresholds=thresholds, likelihood=likelihood)
        if len(bounds) > POLICY.warm_up and model.others is None:
            after = replace(after, scales=_scales(model, state, consensus))
            if (model.learn_S and model.max_rank) or model.places.order:
                limited = len(bounds) > POLICY.full_rank
                moment = _moment_of_tastes(model, state, seen, consensus.information)
                known = consensus.information, seen.squared
                S, spread = next_S(model, state, known, moment, shape_chol, radius, limited=limited)
                after = replace(after, S=S, spread=spread)
            if seen.slope is not None:
                after = _effects(model, after, consensus.information, seen.slope, shape_chol)
        state = after
        passes.write(bounds, partial(_arrays_with_sites, model, state, radius, damping, n_still))


def _fit_at(
    model: Hierarchy,
    state: HierarchyState,
    consensus: _Consensus,
    seen: Seen,
    bounds: Sequence[float] = (),
    *,
    converged: bool = True,
) -> HierarchyFit:
    """Return the fit of a state, given its pass over the users."""
    added = state.S @ model.sum_moment(seen.moment) @ state.S / max(model.n_users, 1)
    second_moment = state.S + 0.5 * (added + added.T)
    parts = state, consensus.mean, consensus.half, seen.alpha, second_moment
    return HierarchyFit(*parts, list(bounds), seen.log_sites + consensus.log_integral, converged)


def end_of_fit(model: Hierarchy, state: HierarchyState) -> tuple[HierarchyFit, Array, float]:
    """Return the fit at a state, the information about the users' tastes (n, n), and the sum of tr (P W)^2."""
    informed = model.integrate_out(state)
    consensus = _consensus(model, state, informed)
    seen = replace(model, coarse=True).see(state, informed, consensus.m, consensus.V)  # its new sites are not used
    return _fit_at(model, state, consensus, seen), consensus.information, seen.squared


def hold_still(model: Hierarchy) -> Hierarchy:
    """Return the model in which only sites move."""
    size = model.places.item.size
    return replace(model, others=(np.zeros((size, size)), np.zeros(size)))


def marginals_of(model: Hierarchy, fit: HierarchyFit, V: Array) -> tuple[Array, Array, Array]:
    """Return the variances of z (P,), and means and variances of the cavities, given the consensus' covariance."""
    state, shift = fit.state, prior_means(model, fit.state.B)
    mean, variance, *_ = marginals(model.blocks_of(state), model.consensus @ fit.mean, V, shift)
    return variance, *_cavities(model, state, mean, variance)


def _arrays_of(state: HierarchyState, radius: float, damping: float, n_still: float) -> dict[str, Array]:
    """Return the arrays that the next pass depends on, besides the sites."""
    basis, rotation = state.effect_bases
    parts = {"S": state.S, "B": state.B, "effects": state.effects, "effect variance": state.effect_variance}
    parts |= {"basis": basis, "rotation": rotation, "effect precision": np.array(state.effect_precision)}
    parts |= {"steps": np.array([radius, damping, n_still])} | arrays_of_scales(state.scales)
    parts |= arrays_of_likelihood(state.likelihood)
    if state.thresholds is not None:
        mean, variance, *numbers = (np.asarray(value, dtype=np.float64) for value in vars(state.thresholds).values())
        parts |= {"threshold": mean, "threshold variance": variance, "thresholds": np.array(numbers)}
    return parts


def _arrays_with_sites(
    model: Hierarchy, state: HierarchyState, radius: float, damping: float, n_still: float
) -> dict[str, Array]:
    return _arrays_of(state, radius, damping, n_still) | model.sites_of(state)


def _resumed(state: HierarchyState, arrays: Mapping[str, Array]) -> HierarchyState:
    """Return the state with these arrays and its own sites."""
    thresholds = state.thresholds
    if thresholds is not None:
        thresholds = TieThresholds(arrays["threshold"], arrays["threshold variance"], *arrays["thresholds"].tolist())
    return replace(
        state,
        S=arrays["S"],
        B=arrays["B"],
        effect_precision=float(arrays["effect precision"]),
        effects=arrays["effects"],
        effect_variance=arrays["effect variance"],
        effect_bases=(arrays["basis"], arrays["rotation"]),
        scales=with_arrays_of_scales(state.scales, arrays),
        likelihood=with_arrays_of_likelihood(state.likelihood, arrays),
        thresholds=thresholds,
    )


def prior_means(model: Hierarchy, B: Array) -> Array:
    """Return the prior means of the coordinates that effects B of the covariates give, shape (C,)."""
    if model.covariates is None:
        return np.zeros(model.users.first.size)
    rows = model.users.map_to_coordinates(model.places.spread(B))
    return np.asarray(np.einsum("cp,cp->c", rows, model.covariates[model.users.owner]))


def _consensus(model: Hierarchy, state: HierarchyState, informed: Informed) -> _Consensus:
    G, h, log_det_users, constant = informed[:4]
    if model.others is not None:
        G, h = G + model.others[0], h + model.others[1]
    prior = np.concatenate([np.full(size, state.scales[name].mean) for name, size in model.parts] or [np.zeros(0)])
    precision = np.asarray(model.consensus.T @ G @ model.consensus)
    precision[np.diag_indices_from(precision)] += prior
    chol = cholesky(precision)
    half = inverse_lower(chol)
    linear = model.consensus.T @ h
    mean = half.T @ (half @ linear)
    rows = model.consensus @ half.T
    log_integral = 0.5 * (constant + linear @ mean - log_det_users - log_det(chol) + np.log(prior).sum())
    information = model.sum_moment(G)
    return _Consensus(mean, half, model.consensus @ mean, rows @ rows.T, information, float(log_integral))


def _cavities(model: Hierarchy, state: HierarchyState, mean: Array, variance: Array) -> tuple[Array, Array]:
    """Return means and variances of z without its site; of w equal sites of a weight w >= 1 one is left out."""
    share = 1.0 / np.maximum(model.weight, 1.0)
    retained = np.maximum(1.0 - share * state.tau * variance, _LEAST_SITE)
    return (mean - variance * share * state.nu) / retained, variance / retained


def _sites(
    model: Hierarchy, state: HierarchyState, mean: Array, variance: Array
) -> tuple[Array, Array, float, Likelihood, tuple[Array, Array] | None]:
    """Return new sites, the log normalisers of the old ones, the learnt likelihood, and what thresholds follow from."""
    w, y, likelihood, thresholds = model.weight, model.y, state.likelihood, state.thresholds
    if model.stage is not None:
        sites = choice_sites(model.stage, (mean, variance), w, (state.tau, state.nu), coarse=model.coarse)
        return *sites, likelihood, None
    (mu, v), measured = _cavities(model, state, mean, variance), None
    if thresholds is not None and isinstance(likelihood, PairwiseTies):
        b = np.exp(thresholds.mean[model.users.user])
        log_z, first, second, slope = threshold_derivatives(likelihood, y, mu, v, b)
        measured = thresholds.measured(likelihood, model.users.user, (mu, v, w), slope)
        if likelihood.ratios and model.others is None:
            likelihood = learn_ratios(likelihood, (y, mu, v, w), b)
    else:
        if likelihood.has_parameters and model.others is None:
            likelihood = likelihood.learnt(y, mean, variance, w)
        log_z, first, second = likelihood.tilted(y, mu, v)
    tau, nu = matching_sites(first, second, mu, np.maximum(1.0 + second * v, _LEAST_SITE))
    log_sites = float(w @ (log_z - log_site_integrals(state.tau / w, state.nu / w, mu, v)))
    return w * np.maximum(tau, _LEAST_SITE), w * nu, log_sites, likelihood, measured


def _penalty(model: Hierarchy, state: HierarchyState, shape_chol: Array) -> float:
    """Return the penalties of the log evidence by the priors of S, of the effects and of the scales."""
    known = [scale for scale in state.scales.values() if isinstance(scale, GammaScale)]
    penalty = sum(scale.rate0 * scale.mean - scale.shape0 * np.log(scale.mean) for scale in known)
    if model.covariates is not None:
        E, precision, variance = state.effects, state.effect_precision, state.effect_variance
        penalty += 0.5 * precision * float(np.sum(E**2)) - 0.5 * float(np.sum(np.log(precision * variance)))
        shape, rate = POLICY.effect_prior
        penalty += rate / E.shape[1] * precision - shape * np.log(precision)
    return float(penalty) + penalty_of_tastes(model, state, shape_chol)


def _scales(model: Hierarchy, state: HierarchyState, consensus: _Consensus) -> dict[str, Scale]:
    """Return the scales of the consensus: the prior's pseudo-counts and the variables that the data determine."""
    scales, start = dict(state.scales), 0
    for name, size in model.parts:
        part = slice(start, start + size)
        scale = scales[name]
        determined = size - scale.mean * float(np.sum(consensus.half[:, part] ** 2))
        scales[name] = learnt_scale(scale, max(determined, 0.0), float(np.sum(consensus.mean[part] ** 2)))
        start += size
    return scales


def _moment_of_tastes(model: Hierarchy, state: HierarchyState, seen: Seen, information: Array) -> Array:
    """Return the users' sum of A^T E[alpha alpha^T - W] A by items, shape (n, n)."""
    moment = model.sum_moment(seen.moment)
    return moment if seen.slope is None else moment + _moment_of_effects(model, state, information)


def _moment_of_effects(model: Hierarchy, state: HierarchyState, information: Array) -> Array:
    """Return the part of the users' sum of A^T E[alpha alpha^T - W] A by the effects' uncertainty, shape (n, n).

    Without it S would be the covariance around effects that follow the users' tastes: too small.
    """
    basis, rotation = state.effect_bases
    spread = np.einsum("kp,kl,lp->p", rotation, model.covariate_moment(), rotation)
    half = information @ basis * np.sqrt(state.effect_variance @ spread) / model.n_users
    return np.asarray(half @ half.T)


def _effects(
    model: Hierarchy, state: HierarchyState, information: Array, slope_of_users: Array, shape_chol: Array
) -> HierarchyState:
    """Return the state after a Newton step of B, whose columns have the prior N(0, shape / precision).

    The information about B is taken for the product of that about items and that of the covariates, as if all users
    were asked alike; where they are not, the best length of the step is less than one.
    """
    w, Q = np.linalg.eigh(shape_chol.T @ information @ shape_chol / model.n_users)
    spread, rotation = np.linalg.eigh(model.covariate_moment())
    basis = shape_chol @ Q
    known = np.outer(np.maximum(w, 0.0), np.maximum(spread, 0.0))
    gradient = basis.T @ slope_of_users @ rotation
    E = Q.T @ solve_lower(shape_chol, state.B) @ rotation
    precision = known + state.effect_precision
    slope = gradient - state.effect_precision * E
    step = slope / precision
    curvature = model.effect_curvature(state, basis @ step @ rotation.T)
    curvature += state.effect_precision * float(np.sum(step**2))
    E = E + min(float(np.sum(slope * step)) / max(curvature, _LEAST_SITE), 1.0) * step
    determined = float(np.sum(known / precision))
    shape, rate = POLICY.effect_prior
    effect_precision = (2.0 * shape + determined) / (2.0 * rate / E.shape[1] + float(np.sum(E**2)))
    return replace(
        state,
        B=basis @ E @ rotation.T,
        effect_precision=effect_precision,
        effects=E,
        effect_variance=1.0 / precision,
        effect_bases=(basis, rotation),
    )


# ------------------------- more answers by some users: their sites move; all other users enter the consensus as one sum
# The covariance of tastes, the scales, the effects and the sites of the other users stay. Of these the consensus needs
# sum A^T W A and sum A^T (I - W P) d, of the size of the items; so the time is that of two passes over all comparisons,
# which make this sum and the means of all users, where a fit takes some twenty to forty. That all of these stay is an
# approximation as good as the answers are few: up to 20,000 comparisons, and once they have grown by a quarter, all is
# learnt again.


def are_few(n_comparisons: int) -> bool:
    """Tell whether all is learnt again, as by one fit, when comparisons are added."""
    return n_comparisons <= POLICY.few_comparisons


def is_update(model: Hierarchy, old: PersonalPosterior, changed: BoolArray | None) -> bool:
    """Tell whether the changed users have few enough answers to keep the shared parameters."""
    n = model.y.size
    if changed is None or are_few(n) or n > POLICY.growth * old.n_learnt:
        return False
    grown_effects = bool(old.B.shape[1]) and old.S.shape != model.shape.shape
    return not grown_effects and bool(changed[model.users.user].mean() <= POLICY.most_changed)


def update_hierarchy(
    model: Hierarchy,
    state: HierarchyState,
    old: PersonalPosterior,
    changed: BoolArray,
    likelihood: Likelihood,
    schedule: Schedule,
) -> HierarchyFit:
    """Move the sites of the users that changed until they fit; `state` has the covariance and sites for new answers."""
    rows, kept = changed[model.users.user], ~changed[old.user]
    tau, nu = state.tau.copy(), state.nu.copy()
    tau[~rows], nu[~rows] = old.tau[kept], old.nu[kept]
    state = replace(state, scales=dict(old.scales), likelihood=likelihood)
    if old.B.shape[1]:
        state = replace(
            state,
            B=old.B,
            effect_precision=old.effect_precision,
            effects=np.linalg.solve(old.effect_rows, old.B) @ old.effect_rotation,
            effect_variance=old.effect_variance,
            effect_bases=(old.effect_rows, old.effect_rotation),
        )
    # Users whose sites are zero say nothing.
    sites, users = (np.where(rows, 0.0, tau), np.where(rows, 0.0, nu)), model.users
    blocks = UserBlocks(users, model.places.spread_covariance(state.S), *sites)
    others = integrate_out(blocks, prior_means(model, state.B))
    part = replace(model.select_users(changed), others=others[:2])
    thresholds = state.thresholds
    local = fit_hierarchy(
        part,
        replace(
            state,
            tau=tau[rows],
            nu=nu[rows],
            thresholds=None if thresholds is None else thresholds.take(np.flatnonzero(changed)),
        ),
        max_iter=schedule.max_iter,
        tol=schedule.tol,
        on_iteration=schedule.on_iteration,
    )
    tau[rows], nu[rows] = local.state.tau, local.state.nu
    if thresholds is not None and local.state.thresholds is not None:
        thresholds = thresholds.with_users(changed, local.state.thresholds)
    whole = fit_hierarchy(model, replace(state, tau=tau, nu=nu, thresholds=thresholds), max_iter=1, tol=schedule.tol)
    return replace(whole, converged=local.converged)
