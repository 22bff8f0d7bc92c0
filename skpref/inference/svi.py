"""The one natural-gradient loop (docs/maths sections 3 to 6): full data or mini-batches, any terms, any site rule.

An iteration forms the sites at the current q, finds the Gaussian that is conjugate to them, and moves towards it in
natural parameters, one group of blocks after the other. With the full data the step is 1 and is halved while it lowers
the objective; with mini-batches it is the Robbins-Monro step (t + delay)^-forgetting_rate. The scales follow in closed
form.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse.linalg import LinearOperator, cg

from skpref._compiled.factors import stationary_scale
from skpref._events import Iteration, seconds_since
from skpref._math.linalg import symmetric_product
from skpref.inference.blocks import DenseBlock, DiagonalBlock, StackedBlock
from skpref.inference.gaussian import Epoch, has_constant_sites
from skpref.inference.passes import (
    Passes,
    arrays_of_likelihood,
    arrays_of_scales,
    with_arrays_of_likelihood,
    with_arrays_of_scales,
)
from skpref.inference.policy import POLICY
from skpref.inference.problem import (
    Evaluation,
    MiniBatch,
    Problem,
    State,
    divergence,
    evaluate,
    initial_state,
    second_moments,
)
from skpref.inference.scale import GammaScale, learnt_scale, mixed_scale, moved_scale
from skpref.inference.sites import VARIATIONAL
from skpref.inference.terms.base import Projection, precision_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from skpref._events import OnIteration
    from skpref._typing import Array, IntArray
    from skpref.inference.blocks import Block
    from skpref.inference.checkpoint import Checkpoint
    from skpref.inference.scale import Scale
    from skpref.inference.terms.products import ProductTerm
    from skpref.likelihoods import Likelihood

__all__ = [
    "Evaluation",
    "Fit",
    "MiniBatch",
    "Problem",
    "Schedule",
    "State",
    "conjugate_blocks",
    "conjugate_scales",
    "divergence",
    "evaluate",
    "fit",
    "full_step",
    "initial_state",
    "joint_means",
    "minibatch_step",
]

_ROUNDING = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Schedule:
    """How the loop runs."""

    max_iter: int = 200  # passes over the data at most
    # stop when a pass gains less than tol (1 + |objective|) / 100 nats (full data), or when the mean bound of an
    # epoch of mini-batches (where sites are constant, the bound at its end) changes by less than tol (1 + |bound|)
    tol: float = 1e-4
    batch_size: int | None = None  # observations a step; None = all of them
    delay: float = 1.0  # step size (t + delay)^-forgetting_rate of mini-batches
    forgetting_rate: float = 0.9  # step size (t + delay)^-forgetting_rate of mini-batches
    on_iteration: OnIteration | None = None  # called after every pass; a true answer stops the loop
    min_step: float = 0.0  # below which the step size of mini-batches does not fall
    # called after every step on a mini-batch with the problem, the mini-batch, its observations, and the state before
    # the step with its evaluation; returns the problem of the next step, with hyper-parameters moved
    tune: Callable[[Problem, MiniBatch, IntArray, State, Evaluation], Problem] | None = None
    window: int = 1  # epochs whose mean bound is compared with that of as many epochs before
    checkpoint: Checkpoint | None = None  # of full passes: where to save what an interrupted loop resumes from


@dataclass(frozen=True, eq=False)
class Fit:
    """Result of the loop."""

    state: State  # the posterior
    likelihood: Likelihood  # the likelihood with its own parameters learnt
    bounds: list[float] = field(default_factory=list)  # objective after each pass
    converged: bool = False  # whether the tolerance was met
    evaluation: Evaluation | None = None  # evaluation of the full data at `state` (full-data loop only)


def conjugate_blocks(
    problem: Problem, state: State, evaluation: Evaluation, group: tuple[str, ...] | None = None
) -> dict[str, Block]:
    """Return the blocks that are conjugate to the current sites: the targets of the natural-gradient step.

    Each block is treated with the others at their current moments.
    """
    diagonal = {name: isinstance(state.blocks[name], DiagonalBlock) for name in group or problem.sides}
    equations = problem.normal_equations(evaluation, state.expected, diagonal)
    return {name: _conjugate(problem, state, name, *equations[name]) for name in diagonal}


def _conjugate(problem: Problem, state: State, name: str, curvature: Any, gradient: Array) -> Block:  # noqa: ANN401 - of `normal_equations`
    block, prior = state.blocks[name], precision_of(problem.sides[name].segments, state.expected)
    # The linear parameter is (Lambda* - prior) m + the gradient of the fit.
    if isinstance(block, DiagonalBlock):
        return DiagonalBlock(prior + curvature, curvature * block.mean + gradient)
    parts = []
    runs = (np.split(x, len(curvature)) for x in (prior, block.mean, gradient))
    for gram, p, m, g in zip(curvature, *runs, strict=True):
        linear = symmetric_product(gram, m) + g
        gram[np.diag_indices_from(gram)] += p
        parts.append(DenseBlock(gram, linear))
    return StackedBlock(tuple(parts)) if isinstance(block, StackedBlock) else parts[0]


def joint_means(
    problem: Problem, state: State, evaluation: Evaluation, targets: Mapping[str, Block]
) -> dict[str, Block]:
    """Replace the targets' means by the joint solution of their normal equations.

    Blocks that explain the same comparisons (features and offsets, several factors) would converge slowly if each
    waited for the others, and so would the entries of a diagonal block. Conjugate gradients solve for all means at
    once, in units of the targets' own standard deviations: one dense block needs no solving.
    """
    names = list(targets)
    if len(names) == 1 and isinstance(targets[names[0]], DenseBlock):
        return dict(targets)
    expected = state.expected
    prior = np.concatenate([precision_of(problem.sides[name].segments, expected) for name in names])
    cuts = np.cumsum([targets[name].size for name in names])[:-1]
    curvature_times = problem.normal_matrix(evaluation, expected, names)

    def normal_matrix(x: Array) -> Array:
        return np.asarray(prior * x + curvature_times(x))

    def whiten(x: Array) -> Array:
        parts = zip(names, np.split(x, cuts), strict=True)
        return np.concatenate([targets[name].whiten(part) for name, part in parts])

    def colour(x: Array) -> Array:
        parts = zip(names, np.split(x, cuts), strict=True)
        return np.concatenate([targets[name].colour(part) for name, part in parts])

    start = np.concatenate([state.blocks[name].mean for name in names])
    gradient = whiten(problem.gradient(evaluation, expected, names) - prior * start)
    shape = (len(prior), len(prior))
    operator = LinearOperator(shape, lambda x: whiten(normal_matrix(colour(x))), dtype=np.float64)
    norm = float(np.linalg.norm(gradient))
    # The other side of a product moves next anyway, so an approximate step is enough.
    tolerance = POLICY.mean_tol * max(norm, 1.0)
    if problem.products:
        tolerance = max(POLICY.mean_tol_of_products * norm, 1e-200)  # positive at a zero gradient
    step, _ = cg(operator, gradient, rtol=0.0, atol=tolerance)
    mean = start + colour(step)
    return {name: targets[name].with_mean(part) for name, part in zip(names, np.split(mean, cuts), strict=True)}


def full_step(problem: Problem, state: State, evaluation: Evaluation) -> tuple[State, Evaluation]:
    """One iteration on the full data: groups of blocks, then scales; a step that lowers the objective is halved."""
    for group in problem.groups:
        state, evaluation = _group_step(problem, state, evaluation, group)
    return balance(problem, *_scale_step(problem, state, evaluation))


def _group_step(
    problem: Problem, state: State, evaluation: Evaluation, group: tuple[str, ...]
) -> tuple[State, Evaluation]:
    targets = joint_means(problem, state, evaluation, conjugate_blocks(problem, state, evaluation, group))
    for halving in range(POLICY.halvings):
        rho = 0.5**halving
        moved = {name: _interpolate(state.blocks[name], target, rho) for name, target in targets.items()}
        candidate = state.with_blocks(moved)
        after = problem.evaluate(candidate, evaluation, group)
        if not problem.rule.monotone or _no_fall(evaluation, after):
            return candidate, after
    return state, evaluation


def _interpolate(block: Block, target: Block, rho: float) -> Block:
    # Joint means are interpolated as means: in natural parameters the precisions would distort them, however small rho.
    if rho == 1.0:
        return target
    return block.mixed(target, rho).with_mean((1.0 - rho) * block.mean + rho * target.mean)


def _no_fall(before: Evaluation, after: Evaluation) -> bool:
    return after.objective >= before.objective - POLICY.slack * (1.0 + abs(before.objective))


def _scale_step(problem: Problem, state: State, evaluation: Evaluation) -> tuple[State, Evaluation]:
    # Under Laplace the log joint at another scale is another function, so it cannot be compared.
    comparable = problem.rule.monotone and problem.rule.integrates
    targets = conjugate_scales(problem, state, evaluation)
    closed_form = _closed_form_scales(problem, state) if comparable else {}
    for name, (block_name, part) in closed_form.items():
        targets[name] = _stationary_scale(state, name, state.blocks[block_name], part) or targets[name]
    moved = {block_name for block_name, _ in closed_form.values()}
    for halving in range(POLICY.halvings):
        rho = 0.5**halving
        scales = {name: mixed_scale(scale, targets[name], rho) for name, scale in state.scales.items()}
        candidate = _with_rescaled_blocks(state, replace(state, scales=scales), closed_form)
        after = problem.evaluate(candidate, evaluation, moved)
        if not comparable or _no_fall(evaluation, after):
            return candidate, after
    return state, evaluation


def _closed_form_scales(problem: Problem, state: State) -> dict[str, tuple[str, slice]]:
    """Return the scales of independent variables, with their block and their place in it.

    The posterior of such a variable depends on its scale and its sites only, so it follows the scale at no cost. If
    the two waited for each other, they would converge slowly where the data say little about many variables (the
    users of a crowd).
    """
    places: dict[str, list[tuple[str, slice]]] = {}
    for name, side in problem.sides.items():
        independent, start = isinstance(state.blocks[name], DiagonalBlock), 0
        for segment in side.segments:
            place = slice(start, start + segment.size) if independent else slice(0)
            places.setdefault(segment.scale, []).append((name, place))
            start += segment.size
    return {scale: uses[0] for scale, uses in places.items() if len(uses) == 1 and uses[0][1].stop}


def _stationary_scale(state: State, name: str, block: Block, part: slice) -> Scale | None:
    """Return the q(s) that is stationary together with q(v), given the sites and all other variables, if there is one.

    Sites whose curvature is lost in the rounding error of the precision pull at v without end, and s falls to 0.
    """
    assert isinstance(block, DiagonalBlock)  # noqa: S101 - `_closed_form_scales` returns diagonal blocks
    scale = state.scales[name]
    if not isinstance(scale, GammaScale):
        return scale
    shape = scale.shape0 + 0.5 * (part.stop - part.start)
    gram, linear = _gram_of(block, part, scale), block.linear[part]
    mean = stationary_scale(gram, linear, (shape, scale.rate0), scale.mean)
    return replace(scale, shape=shape, rate=shape / mean) if mean > _ROUNDING * scale.mean else None


def _gram_of(block: DiagonalBlock, part: slice, scale: Scale) -> Array:
    """Return the sites' part of the precision."""
    return np.maximum(block.precision[part] - scale.mean, 0.0)


def _with_rescaled_blocks(state: State, candidate: State, closed_form: Mapping[str, tuple[str, slice]]) -> State:
    """Return the candidate with the independent variables moved to the prior precision of its scales."""
    moved: dict[str, Block] = {}
    for scale, (name, part) in closed_form.items():
        block = moved.get(name, state.blocks[name])
        assert isinstance(block, DiagonalBlock)  # noqa: S101
        precision = block.precision.copy()
        precision[part] = _gram_of(block, part, state.scales[scale]) + candidate.scales[scale].mean
        moved[name] = DiagonalBlock(precision, block.linear)
    return candidate.with_blocks(moved)


def conjugate_scales(problem: Problem, state: State, evaluation: Evaluation) -> dict[str, Scale]:
    """Return the stationary q(s) given the blocks, the residual's pull included (docs/maths section 4)."""
    pull = problem.pulls(evaluation, state.expected) if problem.rule.integrates else {}
    scales = dict(state.scales)
    for name, (size, square, trace) in second_moments(problem, state).items():
        scales[name] = learnt_scale(scales[name], size, square + trace, pull.get(name, 0.0))
    return scales


def minibatch_step(batch: MiniBatch, state: State, rho: float) -> tuple[State, Evaluation]:
    """One stochastic natural-gradient step of size rho on a mini-batch ([SG20] section 4.3).

    Local variables (those of the batch's clusters) are solved for first: the batch has all their observations.
    """
    moved = batch.restrict(state)
    evaluation = evaluate(batch, moved)
    local = tuple(name for name in batch.sides if name in batch.local)
    if local:
        own = batch.uninflated
        moved, _ = _group_step(own, moved, own.evaluate(moved, evaluation), local)
        evaluation = batch.evaluate(moved, evaluation, local)
    current, groups = evaluation, [tuple(name for name in group if name not in batch.local) for group in batch.groups]
    for number, group in enumerate(filter(None, groups)):
        current = batch.evaluate(moved, current, groups[number - 1]) if number else current
        targets = conjugate_blocks(batch, moved, current, group)
        moved = moved.with_blocks({name: moved.blocks[name].mixed(target, rho) for name, target in targets.items()})
    scale_targets = conjugate_scales(batch, moved, evaluation)
    scales = {name: mixed_scale(scale, scale_targets[name], rho) for name, scale in moved.scales.items()}
    return replace(batch.expand(moved, state), scales=scales, step=state.step + 1), evaluation


def fit(problem: Problem, state: State, schedule: Schedule, rng: np.random.Generator) -> Fit:
    """Run the loop."""
    if schedule.batch_size is None or schedule.batch_size >= problem.n_observations:
        return _fit_full(problem, state, schedule)
    return _fit_minibatches(problem, state, schedule, rng)


def _fit_full(problem: Problem, state: State, schedule: Schedule) -> Fit:
    start, converged = time.perf_counter(), False
    path, bounds = [state.log_scales], list[float]()
    passes = Passes(schedule.checkpoint, _arrays_of(problem, state, path) if schedule.checkpoint is not None else {})
    saved = passes.resumed()
    if saved is not None:
        problem, state, path = _resumed(problem, state, saved[0])
        bounds = list(saved[1])
    n_before, evaluation = len(bounds), evaluate(problem, state)
    for step in range(n_before + 1, schedule.max_iter + 1):
        before = evaluation.bound
        state, evaluation = _accelerated_step(problem, state, evaluation, path)
        problem, state, evaluation = _move_level(problem, state, evaluation)
        problem, evaluation = _learn_likelihood(problem, state, evaluation)
        bounds.append(evaluation.bound)
        gain = evaluation.bound - before
        # A rule that halves its steps falls by rounding only, so no gain means convergence.
        gain = gain if problem.rule.monotone and problem.rule.integrates else abs(gain)
        converged = bool(gain <= 0.01 * schedule.tol * (1.0 + abs(before)))
        if _stops(schedule, step, evaluation.bound, start, n_before) or converged:
            break
        passes.write(bounds, partial(_arrays_of, problem, state, path))
    passes.finish()
    return Fit(state, problem.likelihood, bounds, converged, evaluation)


def _arrays_of(problem: Problem, state: State, path: list[Array]) -> dict[str, Array]:
    """Return the arrays that the next pass depends on: q, the likelihood's parameters and the path of the scales."""
    arrays = {"path": np.array(path[-3:]).reshape(-1, len(state.scales))}
    for name, block in state.blocks.items():
        assert not isinstance(block, StackedBlock)  # noqa: S101 - models with products have no checkpoints
        arrays |= {f"{name} precision": block.precision, f"{name} linear": block.linear, f"{name} mean": block.mean}
    return arrays | arrays_of_scales(state.scales) | arrays_of_likelihood(problem.likelihood)


def _resumed(problem: Problem, start: State, arrays: Mapping[str, Array]) -> tuple[Problem, State, list[Array]]:
    """Return problem, state and path from these arrays."""
    blocks = dict(start.blocks)
    for name, block in start.blocks.items():
        kind = DenseBlock if isinstance(block, DenseBlock) else DiagonalBlock
        blocks[name] = kind(arrays[f"{name} precision"], arrays[f"{name} linear"])
        if kind is DenseBlock:
            vars(blocks[name])["mean"] = arrays[f"{name} mean"]  # the joint one, which differs by rounding
    problem = replace(problem, likelihood=with_arrays_of_likelihood(problem.likelihood, arrays))
    return problem, State(blocks, with_arrays_of_scales(start.scales, arrays), start.step), list(arrays["path"])


def _learn_likelihood(problem: Problem, state: State, evaluation: Evaluation) -> tuple[Problem, Evaluation]:
    """Fit the likelihood's own parameters at fixed q: one more coordinate of the bound."""
    if not (problem.learns and problem.likelihood.has_parameters):
        return problem, evaluation
    # Laplace has no variances of z.
    v = evaluation.v if problem.rule.integrates else replace(problem, rule=VARIATIONAL).evaluate(state).v
    likelihood = problem.likelihood.learnt(problem.y, evaluation.mu, v, problem.weight)
    if likelihood == problem.likelihood:
        return problem, evaluation
    problem = replace(problem, likelihood=likelihood)
    return problem, problem.evaluate(state, evaluation)


def _move_level(problem: Problem, state: State, evaluation: Evaluation) -> tuple[Problem, State, Evaluation]:
    """Move the likelihood's level by Newton's step along which the means of q follow, if there is one dense block.

    If each waited for the other, the level of counts would take hundreds of passes.
    """
    ((name, block),) = state.blocks.items() if len(state.blocks) == 1 else (("", None),)
    if not (
        problem.learns and problem.rule.integrates and problem.likelihood.has_level and isinstance(block, DenseBlock)
    ):
        return problem, state, evaluation
    term, sites = problem.terms[name], evaluation.sites
    prior = precision_of(term.segments, state.expected)
    follow = -block.solve(term.rmatvec(sites.weight))  # change of the means with the level
    z = 1.0 + term.matvec(follow)  # change of z
    slope = float(sites.gradient @ z - follow @ (prior * block.mean))
    # The curvature is 0 where every rate underflows, and then tells nothing of the length of the step.
    curvature = float(sites.weight @ z**2 + follow @ (prior * follow))
    step = slope / curvature if curvature > 1e-300 else float(np.copysign(POLICY.most_level_step, slope))
    for _ in range(POLICY.level_halvings):
        moved = replace(problem, likelihood=problem.likelihood.with_level(step, problem.y, problem.weight))
        candidate = state.with_blocks({name: block.with_mean(block.mean + step * follow)})
        after = moved.evaluate(candidate, evaluation, (name,))
        if after.objective > evaluation.objective:
            return moved, candidate, after
        step *= 0.5
    return problem, state, evaluation


def _accelerated_step(
    problem: Problem, state: State, evaluation: Evaluation, path: list[Array]
) -> tuple[State, Evaluation]:
    """Make a full step; every third one starts from extrapolated scales (Aitken), and counts only if the bound rises.

    q(v) and q(s) are updated in turn, so E[s] converges geometrically, and slowly where the data say little about it.
    Two plain steps show the rate, and the third starts from the limit that it implies.
    """
    if problem.rule.integrates and problem.rule.monotone and len(path) > 2:
        first, second = path[-2] - path[-3], path[-1] - path[-2]
        ratio = np.clip(np.divide(second, first, out=np.zeros_like(first), where=first != 0.0), 0.0, POLICY.most_ratio)
        shift = np.clip(second * ratio / (1.0 - ratio), -POLICY.most_jump, POLICY.most_jump)
        if np.any(np.abs(shift) > POLICY.worth_jump):
            scales = {name: moved_scale(scale, d) for (name, scale), d in zip(state.scales.items(), shift, strict=True)}
            far = replace(state, scales=scales)
            next_state, after = full_step(problem, far, problem.evaluate(far, evaluation))
            if after.objective > evaluation.objective:
                path[:] = [next_state.log_scales]
                return next_state, after
            path.clear()
    state, evaluation = full_step(problem, state, evaluation)
    path.append(state.log_scales)
    return state, evaluation


def _fit_minibatches(problem: Problem, state: State, schedule: Schedule, rng: np.random.Generator) -> Fit:
    start, bounds, converged = time.perf_counter(), [], False
    for number in range(1, schedule.max_iter + 1):
        estimates = []
        epoch = Epoch(problem) if schedule.tune is None and has_constant_sites(problem, state) else None
        for index in _batches(problem, schedule.batch_size or 1, rng):
            rho = max((state.step + 1 + schedule.delay) ** -schedule.forgetting_rate, schedule.min_step)
            batch = problem.batch(index)
            if epoch is not None:
                state = epoch.step(batch, state, rho)
                continue
            before = state
            state, evaluation = minibatch_step(batch, state, rho)
            estimates.append(evaluation.bound)
            if schedule.tune is not None:
                problem = schedule.tune(problem, batch, index, before, evaluation)
        if problem.learns and problem.likelihood.has_parameters:
            # Once a pass, on many observations, so that rare answers occur.
            sample = problem.batch(rng.permutation(problem.n_observations)[: POLICY.learning_rows])
            learnt, _ = _learn_likelihood(sample, state, evaluate(sample, state))
            problem = replace(problem, likelihood=learnt.likelihood)
        bounds.append(float(np.mean(estimates)) if epoch is None else epoch.bound(state))
        converged = _is_stationary(bounds, schedule)
        if _stops(schedule, number, bounds[-1], start) or converged:
            break
    return Fit(state, problem.likelihood, bounds, converged)


def _is_stationary(bounds: list[float], schedule: Schedule) -> bool:
    """Tell whether the mean bound of the latest epochs differs little from the mean of as many epochs before."""
    if len(bounds) < 2 * schedule.window:
        return False
    before, after = np.mean(np.reshape(bounds[-2 * schedule.window :], (2, -1)), axis=1)
    change = after - before if schedule.tune is not None else abs(after - before)
    return bool(change <= schedule.tol * (1.0 + abs(after)))


def _batches(problem: Problem, size: int, rng: np.random.Generator) -> Iterator[IntArray]:
    """Yield the mini-batches of an epoch: all observations in random order, whole clusters for local blocks."""
    n_batches = -(-problem.n_observations // size)
    if problem.cluster is None or not problem.local:
        yield from np.array_split(rng.permutation(problem.n_observations), n_batches)
        return
    place = rng.permutation(int(problem.cluster.max()) + 1)[problem.cluster]
    order = np.argsort(place, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(place[order])) + 1, order.size)
    cuts = np.unique(ends[np.searchsorted(ends, np.arange(1, n_batches + 1) * order.size / n_batches)])
    yield from np.split(order, cuts[:-1])


def _stops(schedule: Schedule, step: int, bound: float, start: float, n_before: int = 0) -> bool:
    if schedule.on_iteration is None:
        return False
    event = Iteration(step, schedule.max_iter, bound, seconds_since(start, step, n_before))
    return bool(schedule.on_iteration(event))


# ------------------------------------------------------------------------------------------------------- rescaling
# v_d -> c v_d and w_d -> w_d / c change no projection of a product, only the prior densities. Without it the two scales
# of a factor converge slowly along this direction. The best c has a closed form.


def balance(problem: Problem, state: State, evaluation: Evaluation) -> tuple[State, Evaluation]:
    """Rescale every factor optimally: the bound rises, and z keeps its moments."""
    if not problem.products or not problem.rule.integrates:
        return state, evaluation
    scales, blocks, projections = dict(state.scales), dict(state.blocks), dict(evaluation.projections)
    for product in problem.products:
        c = _stretch(product, state)
        for (block_name, side), by in zip(product.sides.items(), (c, 1.0 / c), strict=True):
            block = blocks[block_name]
            assert not isinstance(block, DenseBlock)  # noqa: S101 - sides of products are stacked or diagonal
            blocks[block_name] = block.stretched(by)
            old = projections[block_name]
            projections[block_name] = Projection(old.mean * by[:, None], old.spread * by[:, None] ** 2)
            for name, factor in zip(side.scales, by, strict=True):
                scales[name] = moved_scale(scales[name], -2.0 * float(np.log(factor)))
    state = replace(state, scales=scales, blocks=blocks)
    bound = float(np.sum(evaluation.sites.value)) - divergence(problem, state)
    return state, replace(evaluation, projections=projections, bound=bound, objective=bound)


def _stretch(product: ProductTerm, state: State) -> Array:
    """Return the best c of every factor, shape (D,).

    With x = log c^2 it minimises (a_v - a_w) x + b_v E[s_v] e^-x + b_w E[s_w] e^x.
    """
    c = np.ones(product.first.n_factors)
    for d, names in enumerate(zip(product.first.scales, product.second.scales, strict=True)):
        v, w = (state.scales[name] for name in names)
        if isinstance(v, GammaScale) and isinstance(w, GammaScale):
            tilt = v.shape0 - w.shape0
            a, b = v.rate0 * v.mean, w.rate0 * w.mean
            root = np.sqrt(tilt**2 + 4.0 * a * b)
            # The positive root of b e^x + tilt - a e^-x = 0, without cancellation.
            c[d] = np.sqrt(2.0 * a / (root + tilt) if tilt > 0.0 else (root - tilt) / (2.0 * b))
    return c
