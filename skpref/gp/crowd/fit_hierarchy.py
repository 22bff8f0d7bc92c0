"""From comparisons by many users to a `PersonalPosterior`: which covariance of items, then inference.

The covariance S of the personal parts has a prior shape (a kernel of the items' features and a share of independent
items), a floor, and a penalty on its trace, which leaves it few strong directions. All are chosen by prediction or
evidence, since a wrong choice either explains noise or prunes taste: kernel and share by the evidence of S = scale *
shape, the rest by the likelihood of comparisons that were held out.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import softmax
from sklearn.base import clone

from skpref import inducing
from skpref._checks import check_positive
from skpref._math.linalg import cholesky, solve_lower, solve_lower_t
from skpref.exceptions import DataError
from skpref.gp.crowd.consensus import check_data, choose_timeline, design_of, take_fewer_steps
from skpref.gp.crowd.groups import GroupPosterior, prior_scales
from skpref.gp.crowd.held_out import (
    choose_factors,
    draw_users,
    folds_of,
    log_likelihood,
    some_users,
    tastes_with_factors,
)
from skpref.gp.crowd.hierarchy import (
    Hierarchy,
    HierarchyFit,
    HierarchyState,
    fit_hierarchy,
    hold_still,
    is_update,
    start_state,
    update_hierarchy,
)
from skpref.gp.crowd.model import Kernels
from skpref.gp.crowd.personal import AtS, Covariates, PersonalPosterior
from skpref.gp.crowd.places import Places
from skpref.gp.crowd.policy import POLICY
from skpref.gp.crowd.shape import Shape, attribute_variances, choose_shape, fit_to_choose
from skpref.gp.crowd.spread import correction_of_scale, fits_beside, log_evidence_of_weights, mixed_half
from skpref.gp.crowd.users import UserRows, effect_columns, order_by_user
from skpref.gp.default_kernels import kernel_parameters
from skpref.gp.pairwise.fit import PairData, choose_kernel, pair_model, root_mean_square, run_checkpoint, start_kernel
from skpref.gp.pairwise.policy import POLICY as PAIRWISE
from skpref.gp.pairwise.posterior import AverageResidual, PairPosterior
from skpref.inference.basis import InducingBasis
from skpref.kernels import Linear, median_length_scales

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sklearn.gaussian_process.kernels import Kernel

    from skpref._typing import Array, BoolArray, Features
    from skpref.data import Comparisons
    from skpref.gp.crowd.model import CrowdConfig, CrowdData
    from skpref.gp.pairwise.fit import PairModel
    from skpref.gp.pairwise.thresholds import TieThresholds
    from skpref.inference.checkpoint import Checkpoint
    from skpref.inference.scale import Scale
    from skpref.likelihoods import Likelihood

_EFFECTS = {"covariate", "order"}  # parts of the consensus that belong to a comparison, not to an item


@dataclass(frozen=True, eq=False)
class Regularisation:
    """How the covariance of the personal parts was held down."""

    floor: float  # scale of the prior
    prior_weight: float = POLICY.least_weight  # users that the prior counts for
    penalty: float | None = None  # of the trace; None: S = scale * shape
    share: float = 1.0  # in the average of the covariances
    # Least share of the prior's shape in an S that is the second moment of factors and stays; None: S is learnt.
    own: float | None = None

    def validate(self) -> None:
        """Raise DataError unless the values are positive."""
        check_positive(self, "floor", "prior_weight", "share", *(() if self.penalty is None else ("penalty",)))
        check_positive(self, *(() if self.own is None else ("own",)))

    def apply_to(self, model: Hierarchy) -> Hierarchy:
        """Return the model with this regularisation."""
        model = replace(model, floor=self.floor, prior_weight=self.prior_weight, penalty=self.penalty)
        return replace(model, learn_S=self.own is None)

    @classmethod
    def candidate(cls, number: int, scale: float, n_items: int) -> Regularisation:
        """Return one of the candidates, given the scale of S = scale * shape."""
        weight, share, penalty = POLICY.candidates[number]
        return cls(share * scale, max(weight * n_items, POLICY.least_weight), penalty)


@dataclass(frozen=True, eq=False)
class HierarchicalFit:
    """Result of `fit_crowd_hierarchy`, and what a later fit of the same model starts from."""

    posterior: PersonalPosterior
    chosen: tuple[Regularisation, ...]  # whose covariances were averaged
    kernels: Kernels  # with their final hyperparameters
    item_points: Features
    likelihood: Likelihood  # with its learnt parameters
    thresholds: TieThresholds | None = None  # of the users, where each has one
    bounds: Sequence[float] = ()  # penalised log evidence after each pass
    bound: float = np.nan
    converged: bool = True
    changed: BoolArray | None = None  # (U,): users with new answers, of a later fit; None: any


@np.errstate(invalid="ignore", over="ignore", divide="ignore")  # a posterior that is not finite is refused in words
def fit_crowd_hierarchy(
    data: CrowdData,
    kernels: Kernels,
    config: CrowdConfig,
    rng: np.random.Generator,
    start: HierarchicalFit | None = None,
) -> HierarchicalFit:
    """Choose kernels, shape and penalty of the personal covariance, and infer the posterior."""
    c = data.comparisons
    check_data(data, config)
    c = c.take(order_by_user(c))
    of_rows = partial(Places.from_comparisons, order=config.pair.order, timeline=data.timeline, widths=config.widths)
    places = of_rows(c) if data.shards is None else data.shards.places
    if config.part_worths and data.items is not None:
        data, kernels, start = _with_attributes(replace(data, comparisons=c), kernels, config, rng, start)
        places = _places_of_attributes(data, order=config.pair.order)
    pair, items, basis = _consensus_basis(replace(data, comparisons=c), kernels, config, rng, start)
    covariates, user_kernel = _covariates(data.users, kernels.users, config, rng, start)
    x = None if covariates is None else covariates.rows(data.users)
    model = _hierarchy(c, places, pair, basis, x, config)
    model = model if data.shards is None else data.shards.hierarchy(model)
    scales = {name: scale for name, scale in pair.scales().items() if config.consensus or name in _EFFECTS}
    scales |= prior_scales([name for name in scales if name not in _EFFECTS], places)
    if basis is not None and places.n_attributes:
        shape: Shape | None = Shape.from_attributes(basis, order=config.pair.order)
    elif start is not None:
        arguments = start.posterior.basis, data.items, c.n_items, start.posterior.own_share
        shape = Shape.from_basis(*arguments, order=config.pair.order)
    else:
        shape = None  # to be chosen
    update = start is not None and start.changed is not None and is_update(model, start.posterior, start.changed)
    if start is None or (model.stage is not None and not update):
        few = some_users(model, POLICY.most_choice if model.stage is None else POLICY.most_pairs, rng)
        few, model = _choose_steps(few, model, _columns_of_items(pair, basis, config), scales, config)
        shape = choose_shape(few, data, items, kernels, scales, config, pair) if shape is None else shape
        few, model = replace(few, shape=shape.matrix), replace(model, shape=shape.matrix)
        chosen, learnt, first = _cold_start(few, model, scales, config, rng)
    else:
        assert shape is not None  # noqa: S101 - type narrowing
        model, chosen = replace(model, shape=shape.matrix), start.chosen
        learnt = [_grown(start.posterior.S, chosen[0].floor * shape.matrix, order=config.pair.order)]
        first = replace(start_state(model, scales, config.pair.likelihood, 1.0), S=learnt[0])
    n_learnt, schedule = int(model.users.rows[-1]), config.pair.schedule
    chosen = chosen if n_learnt <= POLICY.most_choice else (replace(chosen[0], share=1.0),)
    model = chosen[0].apply_to(model)
    if start is not None and start.changed is not None and update:
        n_learnt = start.posterior.n_learnt
        if start.thresholds is not None and first.thresholds is not None:
            numbers = np.arange(model.n_users)
            old = start.thresholds.take(np.where(numbers < start.thresholds.mean.size, numbers, -1))
            first = replace(first, thresholds=old)
        fit = update_hierarchy(model, first, start.posterior, start.changed, start.likelihood, schedule)
    else:
        report = schedule.on_iteration
        if n_learnt <= POLICY.most_averaged and model.max_rank and model.stage is None and model.learn_S:
            again = start is not None or n_learnt > POLICY.most_choice
            model, first = _averaged(model, first, chosen, learnt, again=again)
        saved = _run_checkpoint(data, (items, user_kernel), chosen, config)
        limits: dict[str, Any] = {"max_iter": schedule.max_iter, "tol": schedule.tol, "on_iteration": report}
        fit = fit_hierarchy(model, first, **limits, checkpoint=saved)
        model, fit = _with_right_scale(model, fit, limits)
    if not np.isfinite(fit.bounds[-1]):
        raise DataError(
            f"The posterior left floating point after {len(fit.bounds)} iterations of "
            f"inference={config.pair.inference!r}. Use inference='vb', or smaller weights."
        )
    settings = data.items, basis, shape, covariates, n_learnt, pair.covariate_scale
    posterior = _with_points(_posterior(model, fit, *settings), model, fit, settings)
    factor_kernel = None if data.items is None else items if shape.basis is None else shape.basis.kernel
    kernels, trace = Kernels(items, factor_kernel, user_kernel), (fit.bounds, fit.bounds[-1], fit.converged)
    return HierarchicalFit(posterior, chosen, kernels, pair.points, fit.state.likelihood, fit.state.thresholds, *trace)


def _cold_start(
    few: Hierarchy, model: Hierarchy, scales: dict[str, Scale], config: CrowdConfig, rng: np.random.Generator
) -> tuple[tuple[Regularisation, ...], list[Array], HierarchyState]:
    """Return regularisations, their S, and the state that a fit of the model starts from, by a model of few users."""
    likelihood, scale = config.pair.likelihood, 1.0 if config.n_factors else POLICY.no_taste
    whole = few.n_users == model.n_users and type(few) is type(model)
    if few.stage is None and len(few.shape) > POLICY.many_items and not whole:
        few = model.select_users(draw_users(model, POLICY.most_averaged, rng))
    rough = replace(few, coarse=True)
    first = fit_to_choose(rough, start_state(few, scales, likelihood, scale))
    if few.stage is None or not few.max_rank:
        chosen, learnt = _regularise(few, first, scales, config)
    else:
        regularisation, first, _ = _weigh_prior(rough, first)
        chosen, learnt = (regularisation,), [first.state.S]
    if chosen[0].own is not None:
        more = few if few.n_users == model.n_users else model.select_users(draw_users(model, POLICY.most_averaged, rng))
        # The scale stays from here on, and fits that choose end while it still moves.
        begin = first.state if more is few else replace(start_state(more, scales, likelihood, 1.0), S=first.state.S)
        isotropic = fit_to_choose(more, begin, 0.1 * POLICY.choice_tol).state.S
        learnt = [tastes_with_factors(more, isotropic, chosen[0].own, config)]
    if whole:
        return chosen, learnt, first.state if chosen[0].own is None else replace(first.state, S=learnt[0])
    state = start_state(model, scales, likelihood, scale)
    S = learnt[0]
    if few.stage is None and chosen[0].own is None:
        S = _learn_from_more_users(chosen[0].apply_to(model), state, S, rng)
    return chosen, learnt, replace(state, S=S)


def _choose_steps(
    few: Hierarchy, model: Hierarchy, of_items: dict[str, Array], scales: dict[str, Scale], config: CrowdConfig
) -> tuple[Hierarchy, Hierarchy]:
    """Choose how the consensus moves, if it does; the model of few users gets fewer steps for all other choices."""
    if model.places.timeline is None:
        return few, model
    fewer = some_users(few, POLICY.most_times, np.random.default_rng(0))
    places = choose_timeline(fewer, of_items, scales, config.pair.likelihood)
    consensus, _ = design_of(places, of_items, model.users.extra.shape[1])
    return take_fewer_steps(replace(few, places=places), of_items), replace(model, places=places, consensus=consensus)


def _places_of_attributes(data: CrowdData, *, order: bool) -> Places:
    covariates = data.comparisons.covariates
    return Places.from_attributes(data.items.shape[1], 0 if covariates is None else covariates.shape[1], order=order)


def _with_attributes(
    data: CrowdData,
    kernels: Kernels,
    config: CrowdConfig,
    rng: np.random.Generator,
    start: HierarchicalFit | None,
) -> tuple[CrowdData, Kernels, HierarchicalFit | None]:
    """Return the attributes of items with their kernel, in units in which people differ as much in each.

    Effects of single items, the last attributes, have the best share: they vary so many times as much as all others.
    They are left out where attributes explain the choices without them. A warm start keeps units and share.
    """
    n_own, n = config.n_own, data.items.shape[1] - config.n_own
    if start is not None:
        known = np.atleast_1d(getattr(start.kernels.items, "variance", 1.0))
        kernels = kernels._replace(items=Linear(np.append(known[:n], np.full(n_own, known[-1])), "fixed"))
        return data, kernels, replace(start, kernels=start.kernels._replace(items=kernels.items))
    alone, best, highest = replace(data, items=data.items[:, :n]), 0.0, -np.inf
    variance = attribute_variances(alone.items, data.comparisons)
    model, state = _rough_model(alone, variance, kernels, config, rng)
    if model.max_rank and n > 1:
        state = fit_to_choose(replace(model, own_scales=True), state).state
        scales = np.diagonal(state.S)[:n]
        variance = variance * scales / np.exp(np.log(scales).mean())
    for share in POLICY.effect_shares if n_own else ():
        shown, of_shown = (data, np.append(variance, np.full(n_own, 0.5 * share * n))) if share else (alone, variance)
        model, first = _rough_model(shown, of_shown, kernels, config, rng)
        fit = fit_to_choose(model, replace(first, tau=state.tau, nu=state.nu), POLICY.soon)
        _, fit, of_weight = _weigh_prior(model, fit, 2)
        state = fit.state
        if fit.evidence + of_weight < highest - POLICY.hopeless:
            break
        if fit.evidence + of_weight > highest:
            best, highest = share, fit.evidence + of_weight
    if best:
        alone, variance = data, np.append(variance, np.full(n_own, 0.5 * best * n))
    return alone, kernels._replace(items=Linear(variance, "fixed")), None


def _rough_model(
    data: CrowdData, variance: Array, kernels: Kernels, config: CrowdConfig, rng: np.random.Generator
) -> tuple[Hierarchy, HierarchyState]:
    """Return the model of few users' choices by attributes of variances, and a state to start from."""
    pair, _, basis = _consensus_basis(data, kernels._replace(items=Linear(variance, "fixed")), config, rng, None)
    places = _places_of_attributes(data, order=config.pair.order)
    model = _hierarchy(data.comparisons, places, pair, basis, None, config)
    rough = replace(some_users(model, POLICY.most_pairs, np.random.default_rng(0)), coarse=True)
    return rough, start_state(rough, dict(pair.scales()), config.pair.likelihood, 1.0)


def _run_checkpoint(
    data: CrowdData, kernels: tuple[Kernel | None, ...], chosen: tuple[Regularisation, ...], config: CrowdConfig
) -> Checkpoint | None:
    """Return where the last fit saves its passes, named by all that was chosen for it."""
    pair, pairs = config.pair, PairData(data.items, data.comparisons, data.shards)
    if pair.schedule.checkpoint is None:
        return None
    settings = [kernel_parameters(kernel) for kernel in kernels], chosen, pair.likelihood, pair.inference
    return run_checkpoint(pair.schedule.checkpoint, pairs, settings, data.users)


def _consensus_basis(
    data: CrowdData, kernels: Kernels, config: CrowdConfig, rng: np.random.Generator, start: HierarchicalFit | None
) -> tuple[PairModel, Kernel | None, InducingBasis | None]:
    """Return the model of the consensus alone, its kernel and its basis."""
    pair_data = PairData(data.items, data.comparisons, data.shards)
    if data.shards is not None and data.items is not None:
        few = np.arange(data.shards.n_pairs if data.shards.n_pairs <= PAIRWISE.hyper_pairs else 0)
        pair_data = PairData(data.items, data.shards.take(few), data.shards)
    items = kernels.items if start is None else start.kernels.items
    items = None if data.items is None else start_kernel(data.items, items, rng)
    points = None if start is None else start.item_points
    if config.part_worths and isinstance(items, Linear):  # whose effects are the inducing values
        points = np.diag(1.0 / np.sqrt(np.atleast_1d(items.variance)))
    pair = pair_model(pair_data, items, config.pair, rng, points)
    if start is None and items is not None and not config.part_worths:
        items = choose_kernel(pair, items, rng)
    return pair, items, pair.basis(items)


def _hierarchy(
    c: Comparisons,
    places: Places,
    pair: PairModel,
    basis: InducingBasis | None,
    x: Array | None,
    config: CrowdConfig,
) -> Hierarchy:
    """Return the hierarchy without a shape of the personal covariance."""
    attributes = None if basis is None or not places.n_attributes else basis.rows(pair.data.X)
    left, right = (places.find(side, places.cells(c)) for side in (c.left, c.right))
    extra = effect_columns(c, pair.covariate_scale, order=places.order)
    if attributes is not None:
        extra, left = np.hstack([attributes[left] - attributes[right], extra]), np.zeros_like(left)
        right = left
    sizes_of_rows = (c.n_users, len(places.group)), places.items_or_none
    users = UserRows.from_comparisons(c.user, left, right, extra, *sizes_of_rows, c.context)
    rows, parts = design_of(places, _columns_of_items(pair, basis, config), extra.shape[1])
    n_covariates = extra.shape[1] - places.n_attributes - places.order
    sizes = ("f", places.n_attributes), ("covariate", n_covariates), ("order", int(places.order))
    parts += [(name, size) for name, size in sizes if size]
    return Hierarchy(
        users,
        c.y,
        c.weight,
        rows,
        tuple(parts),
        places,
        np.eye((places.n_attributes or c.n_items) + places.order),
        x,
        1.0,
        1.0,
        None,
        config.n_factors,
        own_thresholds=config.own_thresholds,
        stage=c.stage,
    )


def _columns_of_items(pair: PairModel, basis: InducingBasis | None, config: CrowdConfig) -> dict[str, Array]:
    """Return the columns of each part of the consensus, shape (n_items, size); attributes are effects of places."""
    if not config.consensus or config.part_worths:
        return {}
    columns = {} if basis is None else {"f": basis.rows(pair.data.X)}
    return columns | ({"offset": np.eye(pair.data.comparisons.n_items)} if config.pair.offsets else {})


def _weigh_prior(
    model: Hierarchy, isotropic: HierarchyFit, n_fits: int = POLICY.weighings
) -> tuple[Regularisation, HierarchyFit, float]:
    """Return the prior of S around S = scale * shape whose weight has the largest evidence, a fit, and this evidence.

    Choices of several items say more than comparisons, and their evidence is enough. Where people have tastes of their
    own in all directions, it leaves nothing but the scale.
    """
    least = len(model.shape) + POLICY.freedom
    chosen, fit = Regularisation(model.item_scale(isotropic.state.S), least, POLICY.no_penalty), isotropic
    weights = least * np.geomspace(1.0, POLICY.most_freedom, POLICY.weights)
    for _ in range(n_fits):
        weighed = chosen.apply_to(model)
        fit = fit_to_choose(weighed, fit.state, POLICY.soon)
        evidence = log_evidence_of_weights(weighed, fit, np.append(weights, chosen.prior_weight))
        if evidence.max() - evidence[-1] < POLICY.same:
            break
        ratio = float(weights[np.argmax(evidence[:-1])]) / chosen.prior_weight
        # S follows the weight: the best one is farther away than it looks.
        weight = min(chosen.prior_weight * ratio**2, least * POLICY.most_freedom)
        chosen = replace(chosen, prior_weight=weight)
    return chosen, fit, float(evidence.max())


def _regularise(
    model: Hierarchy, isotropic: HierarchyFit, scales: dict[str, Scale], config: CrowdConfig
) -> tuple[tuple[Regularisation, ...], list[Array]]:
    """Return the regularisations with the largest likelihoods of held-out comparisons, the best first, and their S.

    Each S is the average over the folds.
    """
    scale, n_items = model.item_scale(isotropic.state.S), len(model.shape)
    if not model.max_rank:
        return (Regularisation(POLICY.no_taste, penalty=1.0),), [isotropic.state.S]
    if model.y.size < n_items:  # items hardly recur: only their features tell what their utilities share
        return (Regularisation(scale),), [isotropic.state.S]
    n_candidates = 0 if n_items > POLICY.many_items else len(POLICY.candidates)
    fold, total = folds_of(model, isotropic), np.zeros(1 + n_candidates)
    learnt: list[list[Array]] = [[] for _ in total]
    # Each fit starts anew: one from the S of the fold before remembers what its fold holds out, and with few users of
    # many items the candidate that follows noise best was chosen.
    for k in range(int(np.clip(round(POLICY.folds * POLICY.held_out / model.y.size), 1, POLICY.folds))):
        part, held = model.select_rows(fold != k), model.select_rows(fold == k)
        fit = fit_to_choose(part, start_state(part, scales, config.pair.likelihood, scale))
        total[0] += log_likelihood(part, fit, held)
        learnt[0].append(fit.state.S)
        part_scale = model.item_scale(fit.state.S)
        for number in np.flatnonzero(np.isfinite(total[1:])).tolist():
            candidate = Regularisation.candidate(number, part_scale, n_items).apply_to(part)
            of_candidate = fit_to_choose(candidate, fit.state)
            total[number + 1] += log_likelihood(candidate, of_candidate, held)
            learnt[number + 1].append(of_candidate.state.S)
        total = np.nan_to_num(total, nan=-np.inf)
        if k == 0 and n_items > POLICY.several_items:  # factors take long: one fold is enough
            own, log_p = choose_factors(part, fit, held, config)
            if log_p > total.max() + POLICY.clearly:
                return (Regularisation(scale, own=own),), [isotropic.state.S]
        total[1:][total[1:] < total.max() - POLICY.hopeless] = -np.inf
    shares = softmax(POLICY.trust * np.maximum(total, -1e9))
    best = int(np.argmax(total >= total.max() - POLICY.tie))
    order = np.argsort(-shares, kind="stable").tolist()
    kept = [best, *(k for k in order if k != best and shares[k] > POLICY.least_share)]
    chosen = [Regularisation.candidate(k - 1, scale, n_items) if k else Regularisation(scale) for k in kept]
    parts = (replace(part, share=shares[k] / shares[kept].sum()) for k, part in zip(kept, chosen, strict=True))
    # A fold leaves out answers, and S = scale * shape tells how much less taste they show.
    unit = scale / model.item_scale(np.mean(learnt[0], axis=0))
    return tuple(parts), [unit * np.mean(learnt[k], axis=0) for k in kept]


def _learn_from_more_users(model: Hierarchy, state: HierarchyState, S: Array, rng: np.random.Generator) -> Array:
    """Return S learnt from up to 100,000 comparisons, so that larger data need few passes."""
    if not model.max_rank or model.users.rows[-1] <= POLICY.most_averaged:
        return S
    part = some_users(model, POLICY.most_averaged, rng)
    return fit_to_choose(part, replace(start_state(part, state.scales, state.likelihood, 1.0), S=S)).state.S


def _averaged(
    model: Hierarchy, state: HierarchyState, chosen: tuple[Regularisation, ...], learnt: list[Array], *, again: bool
) -> tuple[Hierarchy, HierarchyState]:
    """Return model and state to start from: S is the average over the regularisations, which stays.

    That of the logarithms of its traces and that of its shapes: a plain average would be as wide as the widest. The
    trace is shrunk to that of S = scale * shape. `learnt` holds the S of each; or, if they are learnt `again` from all
    comparisons, the S to start from. What folds learnt is what was tested: with few users of many items a fit to all of
    their answers may follow noise where the fits to folds did not.
    """
    if len(chosen) == 1 and chosen[0].penalty is None:
        return model, state
    state = fit_to_choose(replace(model, penalty=None), replace(state, S=model.isotropic(state.S))).state
    log_size, shape = POLICY.of_isotropic * np.log(model.item_scale(state.S)), np.zeros_like(state.S)
    for number, part in enumerate(chosen):
        if part.penalty is None:
            S = state.S
        else:
            S = fit_to_choose(part.apply_to(model), replace(state, S=learnt[0])).state.S if again else learnt[number]
        size = model.item_scale(S)
        log_size += (1.0 - POLICY.of_isotropic) * part.share * np.log(size)
        shape += part.share / size * S
    return replace(model, learn_S=False), replace(state, S=np.exp(log_size) * shape)


def _with_right_scale(model: Hierarchy, fit: HierarchyFit, limits: dict[str, Any]) -> tuple[Hierarchy, HierarchyFit]:
    """Return model and fit with the scale of S that follows from what expectation propagation leaves out."""
    if not model.max_rank or model.stage is not None:
        return model, fit
    chosen = draw_users(model, POLICY.most_choice, np.random.default_rng(0))
    few, at = model, fit
    if not chosen.all():
        few, thresholds = model.select_users(chosen), fit.state.thresholds
        thresholds = None if thresholds is None else thresholds.take(np.flatnonzero(chosen))
        tau, nu = few.start_sites()
        start = replace(fit.state, tau=tau, nu=nu, thresholds=thresholds)
        at = fit_hierarchy(hold_still(few), start, max_iter=limits["max_iter"], tol=limits["tol"])
    change = correction_of_scale(few, at)
    if not change:
        return model, fit
    grown = np.ones(len(fit.state.S))
    grown[: grown.size - model.places.order] = np.exp(0.5 * change)
    model = replace(model, learn_S=False)
    return model, fit_hierarchy(model, replace(fit.state, S=grown[:, None] * fit.state.S * grown), **limits)


def _covariates(
    users: Features,
    kernel: Kernel | None,
    config: CrowdConfig,
    rng: np.random.Generator,
    start: HierarchicalFit | None,
) -> tuple[Covariates | None, Kernel | None]:
    """Return the covariates of users with features, and the kernel that they stand for."""
    if users is None:
        return None, None
    if start is not None:
        return start.posterior.covariates, start.kernels.users
    basis = None
    if kernel is not None or users.shape[1] > POLICY.most_covariates:
        kernel = Linear() if kernel is None else clone(kernel)
        scale = getattr(kernel, "length_scale", None)
        points = inducing.choose(users, config.pair.n_inducing, "kmeans++", rng, scale, kernel=kernel)
        basis = InducingBasis.from_points(kernel, points)
    width = users.shape[1] if basis is None else basis.chol.shape[0]
    rows = Covariates(basis, np.zeros(width), np.ones(width)).rows(users)
    mean = rows.mean(axis=0)
    # Columns of features have units of their own; rows of a kernel are in its units. In units of its standard deviation
    # the indicator of a rare category is large, and its effect would fit the few users who have it.
    unit = np.ones(width)
    if basis is None:
        unit = root_mean_square(rows - mean, np.ones(len(rows)))
        unit *= np.maximum(1.0, 0.5 * median_length_scales((rows - mean) / unit, rng))
    return Covariates(basis, mean, unit), Linear() if kernel is None else kernel


def _with_points(
    posterior: PersonalPosterior, model: Hierarchy, fit: HierarchyFit, settings: tuple[Any, ...]
) -> PersonalPosterior:
    """Add the posteriors beside its S and the shared moments of their mixture, unless many answers make S known.

    With many items only the scale of S is uncertain, and four further posteriors would take hundreds of megabytes.
    """
    if not model.max_rank or posterior.n_learnt > POLICY.most_averaged or len(model.shape) > POLICY.many_items:
        return posterior
    fits = fits_beside(model, fit)
    parts = [_posterior(model, one, *settings) for one in fits]
    points = tuple(AtS(**{item.name: getattr(part, item.name) for item in fields(AtS)}) for part in parts)
    mixture = _posterior(model, replace(fit, half=mixed_half(fits)), *settings)
    return replace(posterior, points=points, consensus=mixture.consensus, groups=mixture.groups)


def _grown(S: Array, prior: Array, *, order: bool) -> Array:
    """Return S for more items, which follow the prior given the old ones; the left side stays last."""
    if S.shape == prior.shape:
        return S
    old = np.arange(S.shape[0])
    if order:
        old[-1] = prior.shape[0] - 1
    among_old = prior[np.ix_(old, old)]
    chol = cholesky(among_old)
    reach = solve_lower_t(chol, solve_lower(chol, prior[old]))
    grown = prior + reach.T @ (S - among_old) @ reach
    return np.asarray(0.5 * (grown + grown.T))


def _posterior(
    model: Hierarchy,
    fit: HierarchyFit,
    X: Features,
    basis: InducingBasis | None,
    shape: Shape,
    covariates: Covariates | None,
    n_learnt: int,
    covariate_scale: Array,
) -> PersonalPosterior:
    state, order = fit.state, model.places.order
    users, tau, nu, alpha = model.columns(fit)
    n_items = len(state.S) - order
    sizes = dict(model.parts)
    consensus_basis = basis if "f" in sizes else None
    n_points, has_offsets = sizes.get("f", 0), "offset" in sizes
    attributes = consensus_basis.rows(X).mean(axis=0) if consensus_basis is not None else None
    parts = {"f", "offset"} | _EFFECTS
    size = sum(sizes.get(name, 0) for name in parts)
    # The factor is lower triangular: the last rows and columns are that of the last variables alone.
    start = fit.mean.size - size
    mean, half = fit.mean[start:], np.ascontiguousarray(fit.half[start:, start:])
    average = np.zeros(size)
    if attributes is not None:
        average[:n_points] = attributes
    average[n_points : n_points + n_items * has_offsets] = 1.0 / n_items
    scales = {name: scale for name, scale in state.scales.items() if name in parts}
    consensus = PairPosterior(
        consensus_basis,
        mean,
        half,
        mean[n_points : n_points + n_items * has_offsets].copy(),
        None,
        has_offsets,
        order,
        scales,
        float(average @ mean),
        half @ average,
        None if consensus_basis is None else AverageResidual.from_basis(consensus_basis, X),
        covariate_scale,
    )
    groups = None
    if model.places.sizes.size:
        of_groups = {name: scale for name, scale in state.scales.items() if name not in scales}
        half_of_groups, n_variables = np.ascontiguousarray(fit.half[:, :start]), n_points + n_items * has_offsets
        groups = GroupPosterior(fit.mean[:start].copy(), half_of_groups, average[:n_variables], of_groups)
    extension = solve_lower(chol := cholesky(shape.matrix), shape.rows.T)
    extension = solve_lower_t(chol, extension).T
    p = state.B.shape[1]
    posterior = PersonalPosterior(
        consensus=consensus,
        places=model.places,
        m=model.consensus @ fit.mean,
        half_rows=model.consensus @ fit.half.T,
        S=state.S,
        S_new=fit.second_moment,
        user=users.user,
        left=users.left,
        right=users.right,
        extra=users.extra,
        context=users.context,
        n_users=model.n_users,
        tau=tau,
        nu=nu,
        alpha=alpha,
        basis=shape.basis,
        shape_rows=shape.rows,
        extension=np.ascontiguousarray(extension),
        own_share=float(shape.share),
        rest_scale=model.item_scale(state.S),
        covariates=covariates,
        B=state.B,
        effect_rows=state.effect_bases[0],
        effect_rotation=state.effect_bases[1],
        effect_variance=state.effect_variance,
        effect_precision=float(state.effect_precision),
        n_learnt=n_learnt,
        x=np.zeros((model.n_users, p)) if model.covariates is None else model.covariates,
        scales=dict(state.scales),
        groups=groups,
        centre=attributes if model.places.n_attributes else None,
        are_choices=model.stage is not None,
    )
    vars(posterior)["users"] = users  # which it would derive from the comparisons
    return posterior
