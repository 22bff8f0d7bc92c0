"""From comparisons by many users to a `CrowdPosterior`: kernels, then inference in stages that drop and add factors."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from skpref import inducing, kernels
from skpref._events import Iteration
from skpref._math.threads import limit_blas_threads
from skpref.gp.capabilities import Capabilities
from skpref.gp.crowd.model import (
    Bases,
    CrowdModel,
    Kernels,
    add_factors,
    drop_factors,
    extend_state,
    negligible_factors,
    start_state,
)
from skpref.gp.crowd.policy import POLICY
from skpref.gp.crowd.posterior import CrowdPosterior, FactorPosterior
from skpref.gp.default_kernels import linear_kernel
from skpref.gp.entities import Items
from skpref.gp.pairwise.fit import PairData, choose_kernel, pair_model, pair_posterior, start_kernel, subsample
from skpref.inference import hyper, svi
from skpref.inference.blocks import DiagonalBlock, StackedBlock
from skpref.inference.problem import view
from skpref.inference.scale import GammaScale
from skpref.inference.terms.entities import EntityTerm
from skpref.inference.terms.pairs import PairTerm
from skpref.inference.terms.products import FactorTerm, FactorView

if TYPE_CHECKING:
    from skpref._events import OnIteration
    from skpref._typing import Array, Features
    from skpref.gp.crowd.model import CrowdConfig, CrowdData
    from skpref.inference.basis import InducingBasis
    from skpref.inference.blocks import Block
    from skpref.inference.terms.base import Segment
    from skpref.likelihoods import Likelihood


_CHECKPOINTS = Capabilities("checkpoints, where it means 'vb' or 'svi'", {"inference": ("ep",)}, "leave checkpoint out")


@dataclass(frozen=True, eq=False)
class CrowdFit:
    """Result of `fit_crowd`."""

    posterior: CrowdPosterior  # for predictions
    state: svi.State  # for a warm start
    segments: dict[str, tuple[Segment, ...]]  # of the variables of each block
    alive: tuple[int, ...]  # numbers of the factors that were not dropped
    likelihood: Likelihood  # with its learnt parameters
    bases: Bases  # kernels with their final hyperparameters, and inducing points
    bounds: list[float]  # objective after each pass
    bound: float  # lower bound at the end (an estimate with mini-batches)
    converged: bool


@dataclass(frozen=True, eq=False)
class WarmStart:
    """What a later fit of the same model starts from."""

    state: svi.State  # posterior of the blocks
    segments: dict[str, tuple[Segment, ...]]  # of the variables of each block, to make room for new entities
    alive: tuple[int, ...]  # numbers of the factors
    kernels: Kernels  # with their learnt hyperparameters, which do not change
    item_points: Features  # inducing points
    user_points: Features


def fit_crowd(
    data: CrowdData, kernels: Kernels, config: CrowdConfig, rng: np.random.Generator, start: WarmStart | None = None
) -> CrowdFit:
    """Choose inducing points and kernels, and infer the posterior; a warm start brings its own kernels."""
    if config.pair.schedule.checkpoint is not None:
        _CHECKPOINTS.check({"inference": config.pair.inference})
    if start is not None and config.choose_priors:
        config = _with_priors_of(start.state, config)
    model, first_kernels = build_model(data, kernels, config, rng, start)
    n_start = _n_start_factors(config, data.comparisons.y.size)
    with limit_blas_threads(model.width):
        if start is None:
            first_kernels = _learn_kernels(model, first_kernels, kernels, rng)
        bases = model.bases(first_kernels)
    with limit_blas_threads(max(model.width, model.pair.dense_size(bases.items) if config.consensus else 0)):
        if start is not None:
            problem, diagonal = model.problem(bases)
            prior = svi.initial_state(problem, model.scales(), diagonal=diagonal)
            # New data may support factors that were dropped.
            dropped = tuple(d for d in range(config.n_factors) if d not in model.alive)
            waiting = dropped[: max(n_start - len(model.alive), 0)]
            state = extend_state(start.state, start.segments, problem, prior)
            return _fit_in_stages(model, bases, problem, state, waiting, rng)
        if config.choose_priors and model.alive and data.comparisons.n_pairs >= POLICY.fewest_to_choose:
            model = _choose_priors(model, bases, rng)
        return _fit_from_scratch(model, bases, rng)


def _fit_from_scratch(model: CrowdModel, bases: Bases, rng: np.random.Generator) -> CrowdFit:
    n_start = _n_start_factors(model.config, model.data.comparisons.y.size)
    waiting, model = model.alive[n_start:], replace(model, alive=model.alive[:n_start])
    problem, diagonal = model.problem(bases)
    state = start_state(model, problem, diagonal, _schedule(model, problem), rng)
    return _fit_in_stages(model, bases, problem, state, waiting, rng)


def _choose_priors(model: CrowdModel, bases: Bases, rng: np.random.Generator) -> CrowdModel:
    """Return the model with the priors of the factors under which held-out comparisons are most likely."""
    config, data, c = model.config, model.data, model.data.comparisons
    # All comparisons of some users, since what can be learnt depends on how many answers each of them gave.
    order = rng.permutation(c.n_users)
    answers = np.cumsum(np.bincount(c.user, minlength=c.n_users)[order])
    used = np.zeros(c.n_users, dtype=bool)
    used[order[: 1 + int(np.searchsorted(answers, POLICY.prior_rows))]] = True
    held = rng.random(c.n_pairs) < POLICY.held_out_share
    test = c.take(used[c.user] & held)
    if not test.n_pairs:
        return model
    data = replace(data, comparisons=c.take(used[c.user] & ~held))
    pair = replace(model.pair, data=PairData(data.items, data.comparisons), last=[])
    schedule = replace(config.pair.schedule, max_iter=POLICY.prior_passes, on_iteration=None)
    part = replace(config, pair=replace(config.pair, schedule=schedule))
    users, items = Items(data.users, np.arange(c.n_users)), Items(data.items, np.arange(c.n_items))
    log_p = []
    for breadth in ((1.0, 1.0), POLICY.broader):
        candidate = replace(model, data=data, pair=pair, config=part.broadened(*breadth))
        fit = _fit_from_scratch(candidate, bases, np.random.default_rng(0))
        asked = (users, np.asarray(test.user)), items, test.left, test.right
        mean, variance = fit.posterior.pairs(*asked, covariates=test.covariates)
        log_p.append(test.weight * fit.likelihood.tilted(test.y, mean, variance)[0])
    gain = log_p[1] - log_p[0]
    # By more than its standard error, so that chance does not choose.
    broader = gain.sum() > np.sqrt(np.sum((gain - gain.mean()) ** 2))
    return replace(model, config=config.broadened(*POLICY.broader)) if broader else model


def _with_priors_of(state: svi.State, config: CrowdConfig) -> CrowdConfig:
    """Return the config with the priors of the factors that an earlier fit chose, if it kept factors."""
    kept = {name[0]: scale for name, scale in state.scales.items() if name[0] in "vw" and isinstance(scale, GammaScale)}
    prior_v, prior_w = (
        (kept[side].shape0, kept[side].rate0) if side in kept else prior
        for side, prior in (("v", config.prior_v), ("w", config.prior_w))
    )
    return replace(config, prior_v=prior_v, prior_w=prior_w)


def _n_start_factors(config: CrowdConfig, n_comparisons: int) -> int:
    """Return the number of factors at the start: all, or as many as full passes allow."""
    affordable = POLICY.full_entries // n_comparisons
    too_many = config.pair.inference == "auto" and POLICY.least_factors <= affordable < config.n_factors
    return affordable if too_many else config.n_factors


def _fit_in_stages(
    model: CrowdModel,
    bases: Bases,
    problem: svi.Problem,
    state: svi.State,
    waiting: tuple[int, ...],
    rng: np.random.Generator,
) -> CrowdFit:
    """Run inference in stages; after each, drop negligible factors, or add the waiting ones if none is negligible."""
    bounds: list[float] = []
    while True:
        schedule = _schedule(model, problem)
        n_left = schedule.max_iter - len(bounds)
        n_passes = min(n_left, _passes_to_check(len(bounds))) if model.alive else n_left
        callback = schedule.on_iteration and _count_from(len(bounds), schedule.on_iteration, schedule)
        result = svi.fit(problem, state, replace(schedule, max_iter=n_passes, on_iteration=callback), rng)
        bounds += result.bounds
        state, stopped = result.state, len(result.bounds) < n_passes and not result.converged
        negligible = negligible_factors(problem, state)
        grows = bool(waiting) and not negligible and (result.converged or len(bounds) >= POLICY.first_checks[-1])
        if stopped or len(bounds) == schedule.max_iter or (result.converged and not negligible and not grows):
            break
        if negligible:
            # The strongest factors came first: where one of them is negligible, the waiting ones would be.
            state, waiting = drop_factors(problem, state, negligible), ()
            model = replace(model, alive=tuple(a for d, a in enumerate(model.alive) if d not in negligible))
        elif grows:
            gradient = svi.evaluate(problem, state).sites.gradient
            model, waiting = replace(model, alive=model.alive + waiting), ()
        if negligible or grows:
            problem, diagonal = model.problem(bases)
        problem = replace(problem, likelihood=result.likelihood)
        if grows:
            prior = svi.initial_state(problem, model.scales(), diagonal=diagonal)
            state = add_factors(problem, state, prior, gradient, rng)
    bound = result.evaluation.bound if result.evaluation is not None else bounds[-1]
    posterior = _posterior(model, problem, state, bases)
    segments = {name: side.segments for name, side in problem.sides.items()}
    trace = bounds, bound, result.converged
    return CrowdFit(posterior, state, segments, model.alive, result.likelihood, bases, *trace)


def _passes_to_check(n_done: int) -> int:
    """Return the number of passes until the next check for negligible factors."""
    later = POLICY.check_every - n_done % POLICY.check_every
    return next((check - n_done for check in POLICY.first_checks if check > n_done), later)


def _count_from(n_done: int, callback: OnIteration, schedule: svi.Schedule) -> OnIteration:
    """Return a callback that counts the passes of all stages."""
    begin = time.perf_counter()

    def call(event: Iteration) -> bool | None:
        return callback(Iteration(n_done + event.step, schedule.max_iter, event.bound, time.perf_counter() - begin))

    return call


def build_model(
    data: CrowdData, kernels: Kernels, config: CrowdConfig, rng: np.random.Generator, start: WarmStart | None
) -> tuple[CrowdModel, Kernels]:
    """Return the model with its inducing points, and the kernels that the search starts from."""
    item_points = user_points = None
    if start is not None:
        kernels, item_points, user_points = start.kernels, start.item_points, start.user_points
    items = None if data.items is None else start_kernel(data.items, kernels.items, rng)
    pair = pair_model(PairData(data.items, data.comparisons), items, config.pair, rng, item_points)
    factors = items
    if data.items is not None and kernels.factors is not None:
        factors = clone(kernels.factors)
    users = None
    if data.users is not None:
        users = start_kernel(data.users, kernels.users, rng)
        if user_points is None:
            scale = getattr(users, "length_scale", None)
            user_points = inducing.choose(data.users, config.pair.n_inducing, "kmeans++", rng, scale, kernel=users)
    alive = tuple(range(config.n_factors)) if start is None else start.alive
    return CrowdModel(data, config, pair, user_points, alive), Kernels(items, factors, users)


def _schedule(model: CrowdModel, problem: svi.Problem) -> svi.Schedule:
    """Return the schedule: full passes, or mini-batches as large as memory allows while there are many factors."""
    config, n_factors = model.config.pair, max(len(model.alive), 1)
    if config.inference == "svi":
        return config.schedule
    full = config.inference != "auto" or problem.n_observations * n_factors <= POLICY.full_entries
    return replace(config.schedule, batch_size=None if full else POLICY.full_entries // (2 * n_factors))


def _learn_kernels(model: CrowdModel, start: Kernels, user_kernels: Kernels, rng: np.random.Generator) -> Kernels:
    """Return kernels: the length-scales of the consensus, then of the factors, then all hyperparameters if asked."""
    config = model.config.pair
    items = start.items
    if items is not None:
        items = choose_kernel(replace(model.pair, config=replace(config, n_restarts=None)), items, rng)
    default = user_kernels.items is None and user_kernels.factors is None
    kernels = Kernels(items, items if default else start.factors, start.users)
    if default and items is not None and config.learn_length_scales and model.alive:
        kernels = _shorten_factor_scales(model, kernels, rng)
    return kernels if config.n_restarts is None else _optimize(model, kernels, config.n_restarts, rng)


def _shorten_factor_scales(model: CrowdModel, kernels: Kernels, rng: np.random.Generator) -> Kernels:
    """Shorten the length-scales of the factors as long as the bound of a small fit rises, or take linear factors."""
    alive = model.alive[: POLICY.search_factors]
    pair = replace(subsample(model.pair, rng), joint_size=0)
    small = replace(
        model, pair=pair, alive=alive, data=replace(model.data, items=pair.data.X, comparisons=pair.data.comparisons)
    )
    schedule = replace(model.config.pair.schedule, batch_size=None, on_iteration=None, max_iter=POLICY.search_passes)

    def bound_of(candidate: Kernels) -> float:
        problem, diagonal = small.problem(small.bases(candidate))
        # The same seed for all candidates, so that only the kernels differ.
        start = start_state(small, problem, diagonal, schedule, np.random.default_rng(0))
        return svi.fit(problem, start, schedule, np.random.default_rng(0)).bounds[-1]

    best = bound_of(kernels)
    while kernels.factors is not None:
        shorter = kernels.factors.clone_with_theta(kernels.factors.theta - np.log(POLICY.shorter))
        value = bound_of(kernels._replace(factors=shorter))
        if value <= best or np.any(shorter.theta < shorter.bounds[:, 0]):
            break
        best, kernels = value, kernels._replace(factors=shorter)
    straight = linear_kernel(model.data.items)
    if straight is not None and bound_of(kernels._replace(factors=straight)) > best:
        return kernels._replace(factors=straight)
    return kernels


def _optimize(model: CrowdModel, kernels: Kernels, n_restarts: int, rng: np.random.Generator) -> Kernels:
    """Maximise the bound over the hyperparameters of all kernels."""
    if kernels.factors is kernels.items and kernels.items is not None:
        kernels = kernels._replace(factors=clone(kernels.items))
    free = [k for k in kernels if k is not None and k.theta.size]
    if not free:
        return kernels
    cuts = np.cumsum([k.theta.size for k in free])[:-1]
    last: list[svi.State] = []

    def kernels_at(theta: Array) -> Kernels:
        moved = iter(k.clone_with_theta(x) for k, x in zip(free, np.split(theta, cuts), strict=True))
        return Kernels(*(next(moved) if k is not None and k.theta.size else k for k in kernels))

    def objective(theta: Array) -> tuple[float, Array]:
        value, gradient, state = bound_and_gradient(model, kernels_at(theta), rng, last[0] if last else None)
        last[:] = [state]
        return value, gradient

    start, bounds = np.concatenate([k.theta for k in free]), np.vstack([k.bounds for k in free])
    best = hyper.maximise(objective, start, bounds, n_restarts=n_restarts, rng=rng, max_iter=20, tol=1e-3)
    return kernels_at(best.theta)


def bound_and_gradient(
    model: CrowdModel, kernels: Kernels, rng: np.random.Generator, start: svi.State | None = None
) -> tuple[float, Array, svi.State]:
    """Return the bound at the optimal q and its gradient in the kernels' theta (docs/maths sections 5 and 6)."""
    bases = model.bases(kernels)
    problem, diagonal = model.problem(bases)
    schedule = replace(model.config.pair.schedule, batch_size=None, on_iteration=None)
    result = svi.fit(problem, start or start_state(model, problem, diagonal, schedule, rng), schedule, rng)
    assert result.evaluation is not None  # noqa: S101 - full passes evaluate the bound
    features = {"items": model.data.items, "factors": model.data.items, "users": model.data.users}
    gradients = [
        kernel_gradient(problem, result.state, result.evaluation, basis, features[which], which)
        for which, basis in bases._asdict().items()
        if basis is not None and basis.kernel.theta.size
    ]
    return result.evaluation.bound, np.concatenate(gradients), result.state


def kernel_gradient(
    problem: svi.Problem,
    state: svi.State,
    evaluation: svi.Evaluation,
    basis: InducingBasis,
    features: Features,
    which: str,
) -> Array:
    """Return the gradient of the bound in the hyperparameters of one kernel at fixed q, shape (n_theta,)."""
    total = np.zeros(basis.kernel.theta.size)
    kind, in_product = (EntityTerm if which == "users" else PairTerm), which != "items"
    for name, block in state.blocks.items():
        block_view = view(problem, evaluation, state.expected, name)
        term = block_view.side.rows if isinstance(block_view, FactorView) else block_view.term
        if isinstance(block_view, FactorView) is not in_product or not isinstance(term, kind) or term.basis is None:
            continue
        parts = _derivatives(block_view, block, state, evaluation, name)
        adjoint = np.sum([term.basis_adjoint(*part) for part in parts], axis=0)
        total = total + basis.rows_gradient(features, term.basis, adjoint)
        if term.residual is not None:
            kappa = np.sum([curvature / s for _, _, curvature, s in parts], axis=0)
            if isinstance(term, EntityTerm):
                total = total + kernels.diagonal_vjp(basis.kernel, features, term.sums(kappa))
            else:
                total = total + basis.kappa_gradient(features, term.left, term.right, kappa)
    return total


def _derivatives(block_view: Any, block: Block, state: svi.State, evaluation: svi.Evaluation, name: str) -> list[Any]:
    """Return each dense part, the derivatives of the fit in the mean and variance of its projection, and E[s]."""
    e, w = evaluation.sites.gradient, evaluation.sites.weight
    if not isinstance(block_view, FactorView):
        return [(block, e, -0.5 * w, state.expected[block_view.term.residual_scale])]
    assert isinstance(block, StackedBlock)  # noqa: S101 - type narrowing: factors of features are stacked
    gradient = block_view.gain * e - block_view.gain_variance * w * evaluation.projections[name].mean
    curvature = -0.5 * block_view.second_moment(w)
    expected = [state.expected[scale] for scale in block_view.side.scales]
    return list(zip(block.parts, gradient, curvature, expected, strict=True))


def _posterior(model: CrowdModel, problem: svi.Problem, state: svi.State, bases: Bases) -> CrowdPosterior:
    config = model.config
    blocks = [(term, state.blocks[name]) for name, term in problem.terms.items() if isinstance(term, PairTerm)]
    pair_config = config.pair if config.consensus else replace(config.pair, offsets=False)
    consensus = pair_posterior(bases.items if config.consensus else None, blocks, dict(state.scales), pair_config)
    consensus = replace(consensus, covariate_scale=model.pair.covariate_scale)
    bias = state.blocks.get("bias")
    empty = np.zeros(0)
    if problem.products:
        product = problem.products[0]
        v = _factors(product.first, state.blocks["items"], state, bases.factors)
        w = _factors(product.second, state.blocks["users"], state, bases.users)
        rows = product.first.rows
        assert isinstance(rows, PairTerm)  # noqa: S101 - type narrowing
        centre = v.mean @ rows.average_item()
    else:
        c = model.data.comparisons
        v, w = (
            FactorPosterior(None, np.zeros((0, n)), np.zeros((0, 0, 0)), np.zeros((0, n)), empty)
            for n in (c.n_items, c.n_users)
        )
        centre = empty
    moments = (empty, empty) if bias is None else (bias.mean, bias.covariance_diagonal)
    return CrowdPosterior(consensus, v, w, *moments, dict(state.scales), centre)


def _factors(side: FactorTerm, block: Block, state: svi.State, basis: InducingBasis | None) -> FactorPosterior:
    expected = np.array([state.scales[name].mean for name in side.scales])
    mean = side.stacked(block.mean)
    if isinstance(block, StackedBlock):
        half = np.array([part.inverse_chol for part in block.parts])
        return FactorPosterior(basis, mean, half, np.zeros((0, mean.shape[1])), expected)
    assert isinstance(block, DiagonalBlock)  # noqa: S101 - type narrowing: factors are stacked or diagonal
    variance = side.stacked(block.covariance_diagonal)
    return FactorPosterior(None, mean, np.zeros((0, 0, 0)), variance, expected)
