"""From comparisons by many users to a `CrowdPosterior`: kernels, the loop, factors dropped when they fade."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from skpref import inducing, kernels
from skpref._events import Iteration
from skpref._math.threads import limit_blas_threads
from skpref.gp.crowd.model import Bases, CrowdModel, Kernels, faded, grown_state, start_state, with_factors, without
from skpref.gp.crowd.posterior import CrowdPosterior, FactorPosterior
from skpref.gp.pairwise.fit import PairData, choose_kernel, pair_model, pair_posterior, start_kernel, subsample
from skpref.inference import hyper, svi
from skpref.inference.blocks import DiagonalBlock, StackedBlock
from skpref.inference.problem import view
from skpref.inference.terms.entities import EntityTerm
from skpref.inference.terms.pairs import PairTerm
from skpref.inference.terms.products import FactorTerm, FactorView

if TYPE_CHECKING:
    from skpref._events import OnIteration
    from skpref._typing import Array, Features
    from skpref.gp.crowd.model import CrowdConfig, CrowdData, Earlier
    from skpref.inference.basis import InducingBasis
    from skpref.inference.blocks import Block
    from skpref.inference.terms.base import Segment
    from skpref.likelihoods import Likelihood

_FULL_NUMBERS = 2**23  # numbers P D up to which "auto" takes full passes, whose dozen arrays are 64 MB each then
_FEWEST = 4  # factors with which full passes are worth to begin
_LOOKS = (1, 2, 4)  # passes after which to look for faded factors at first; they cost as much as the others
_DROP_EVERY = 8  # passes between looks later on
_TRIED_FACTORS = 3  # factors with which the length-scales of the factors are tried
_TRIED_PASSES = 10
_ROUGHER = 4.0  # the length-scales tried for the factors are this many times shorter, again and again


@dataclass(frozen=True, eq=False)
class CrowdFit:
    """Result of `fit_crowd`."""

    posterior: CrowdPosterior  # what predictions need
    state: svi.State  # what going on needs
    segments: dict[str, tuple[Segment, ...]]  # runs of variables of each block of the state, by which it can grow
    alive: tuple[int, ...]  # numbers of the factors that were not dropped
    likelihood: Likelihood  # the likelihood with its own parameters learnt
    bases: Bases  # kernels with their final hyper-parameters, and inducing points
    bounds: list[float]  # objective after each pass
    bound: float  # lower bound (an estimate, for mini-batches)
    converged: bool  # whether the tolerance was met


def fit_crowd(
    data: CrowdData, given: Kernels, config: CrowdConfig, rng: np.random.Generator, earlier: Earlier | None = None
) -> CrowdFit:
    """Fit the model."""
    model, start_kernels = _prepare(data, given, config, rng, earlier)
    with limit_blas_threads(model.width):
        learnt = start_kernels if earlier is not None else _learn_kernels(model, start_kernels, given, rng)
        bases = model.bases(learnt)
    with limit_blas_threads(max(model.width, model.pair.dense_size(bases.items) if config.consensus else 0)):
        if earlier is not None:
            problem, diagonal = model.problem(bases)
            prior = svi.initial_state(problem, model.scales(), diagonal=diagonal)
            # Factors that were dropped may be asked for by what is new.
            dropped = tuple(d for d in range(config.n_factors) if d not in model.alive)
            room = max(_first_wave(config, data.comparisons.y.size) - len(model.alive), 0)
            return _run(model, bases, problem, grown_state(earlier, problem, prior), dropped[:room], rng)
        wave = _first_wave(config, data.comparisons.y.size)
        model = replace(model, alive=model.alive[:wave])
        problem, diagonal = model.problem(bases)
        start = start_state(model, problem, diagonal, _schedule(model, problem), rng)
        return _run(model, bases, problem, start, tuple(range(wave, config.n_factors)), rng)


def _first_wave(config: CrowdConfig, n_comparisons: int) -> int:
    """Number of factors to begin with: all, or where they are too many for full passes, the strongest."""
    room = _FULL_NUMBERS // n_comparisons
    many = config.pair.inference == "auto" and _FEWEST <= room < config.n_factors
    return room if many else config.n_factors


def _run(
    model: CrowdModel,
    bases: Bases,
    problem: svi.Problem,
    state: svi.State,
    waiting: tuple[int, ...],
    rng: np.random.Generator,
) -> CrowdFit:
    """The loop in stages: after each of them, factors that have faded are dropped, and if none has, others join."""
    bounds: list[float] = []
    while True:
        schedule = _schedule(model, problem)
        left = schedule.max_iter - len(bounds)
        stage = min(left, _next_look(len(bounds))) if model.alive else left
        watch = None if schedule.on_iteration is None else _counting_on(schedule.on_iteration, len(bounds), schedule)
        result = svi.fit(problem, state, replace(schedule, max_iter=stage, on_iteration=watch), rng)
        bounds += result.bounds
        state, stopped = result.state, len(result.bounds) < stage and not result.converged
        dead = faded(problem, state)
        grows = bool(waiting) and not dead and (result.converged or len(bounds) >= _LOOKS[-1])
        if stopped or len(bounds) == schedule.max_iter or (result.converged and not dead and not grows):
            break
        if dead:
            # The strongest came first: where one of them fades, the others would.
            state, waiting = without(problem, state, dead), ()
            model = replace(model, alive=tuple(a for d, a in enumerate(model.alive) if d not in dead))
        elif grows:
            gradient = svi.evaluate(problem, state).sites.gradient
            model, waiting = replace(model, alive=model.alive + waiting), ()
        if dead or grows:
            problem, diagonal = model.problem(bases)
        problem = replace(problem, likelihood=result.likelihood)
        if grows:
            prior = svi.initial_state(problem, model.scales(), diagonal=diagonal)
            state = with_factors(problem, state, prior, gradient, rng)
    bound = result.evaluation.bound if result.evaluation is not None else bounds[-1]
    posterior = _posterior(model, problem, state, bases)
    segments = {name: side.segments for name, side in problem.sides.items()}
    trace = bounds, bound, result.converged
    return CrowdFit(posterior, state, segments, model.alive, result.likelihood, bases, *trace)


def _next_look(done: int) -> int:
    """Passes until faded factors are looked for."""
    return next((look - done for look in _LOOKS if look > done), _DROP_EVERY - done % _DROP_EVERY)


def _counting_on(watch: OnIteration, done: int, schedule: svi.Schedule) -> OnIteration:
    """A callback that sees the passes of all stages as one row."""
    start = time.perf_counter()

    def seen(event: Iteration) -> bool | None:
        return watch(Iteration(done + event.step, schedule.max_iter, event.bound, time.perf_counter() - start))

    return seen


def _prepare(
    data: CrowdData, given: Kernels, config: CrowdConfig, rng: np.random.Generator, earlier: Earlier | None
) -> tuple[CrowdModel, Kernels]:
    """Inducing points of both sides, and the kernels from which the search starts."""
    item_points, user_points = (None, None) if earlier is None else (earlier.item_points, earlier.user_points)
    items = None if data.items is None else start_kernel(data.items, given.items, config.pair, rng)
    pair = pair_model(PairData(data.items, data.comparisons), items, config.pair, rng, item_points)
    factors = items
    if data.items is not None and given.factors is not None:
        factors = clone(given.factors)
    users = None
    if data.users is not None:
        users = start_kernel(data.users, given.users, replace(config.pair, length_scale_factor="auto"), rng)
        if user_points is None:
            scale = getattr(users, "length_scale", None)
            number = config.n_inducing_users
            user_points = inducing.choose(data.users, number, "kmeans++", rng, scale, kernel=users)
    alive = tuple(range(config.n_factors)) if earlier is None else earlier.alive
    return CrowdModel(data, config, pair, user_points, alive), Kernels(items, factors, users)


def _schedule(model: CrowdModel, problem: svi.Problem) -> svi.Schedule:
    """Full passes, or mini-batches as large as memory allows while there are many factors."""
    config, n_factors = model.config.pair, max(len(model.alive), 1)
    if config.inference == "svi":
        return config.schedule
    full = config.inference != "auto" or problem.n_observations * n_factors <= _FULL_NUMBERS
    return replace(config.schedule, batch_size=None if full else _FULL_NUMBERS // (2 * n_factors))


def _learn_kernels(model: CrowdModel, start: Kernels, given: Kernels, rng: np.random.Generator) -> Kernels:
    """The consensus finds the factor on its length-scales, then the factors theirs; then all by gradient, if asked."""
    config = model.config.pair
    items = start.items
    if items is not None:
        items = choose_kernel(replace(model.pair, config=replace(config, optimizer=None)), items, rng)
    free = given.items is None and given.factors is None
    found = Kernels(items, items if free else start.factors, start.users)
    if free and items is not None and config.length_scale_factor == "auto" and model.alive:
        found = _rougher_factors(model, found, rng)
    return found if config.optimizer is None else _ascend(model, found, rng)


def _rougher_factors(model: CrowdModel, found: Kernels, rng: np.random.Generator) -> Kernels:
    """Try shorter length-scales for the factors, as long as the bound of a small fit rises."""
    alive = model.alive[:_TRIED_FACTORS]
    pair = replace(subsample(model.pair, rng), joint_size=0)
    small = replace(
        model, pair=pair, alive=alive, data=replace(model.data, items=pair.data.X, comparisons=pair.data.comparisons)
    )
    schedule = replace(model.config.pair.schedule, batch_size=None, on_iteration=None, max_iter=_TRIED_PASSES)

    def bound_of(tried: Kernels) -> float:
        problem, diagonal = small.problem(small.bases(tried))
        # The same seed for all: what is compared is the kernel.
        start = start_state(small, problem, diagonal, schedule, np.random.default_rng(0))
        return svi.fit(problem, start, schedule, np.random.default_rng(0)).bounds[-1]

    best = bound_of(found)
    while found.factors is not None:
        shorter = found.factors.clone_with_theta(found.factors.theta - np.log(_ROUGHER))
        value = bound_of(found._replace(factors=shorter))
        if value <= best or np.any(shorter.theta < shorter.bounds[:, 0]):
            return found
        best, found = value, found._replace(factors=shorter)
    return found


def _ascend(model: CrowdModel, found: Kernels, rng: np.random.Generator) -> Kernels:
    """All kernels' hyper-parameters at once, by the bound's gradient."""
    if found.factors is found.items and found.items is not None:
        found = found._replace(factors=clone(found.items))
    given = [k for k in found if k is not None and k.theta.size]
    if not given:
        return found
    cuts = np.cumsum([k.theta.size for k in given])[:-1]
    warm: list[svi.State] = []

    def parts(theta: Array) -> Kernels:
        moved = iter(k.clone_with_theta(x) for k, x in zip(given, np.split(theta, cuts), strict=True))
        return Kernels(*(next(moved) if k is not None and k.theta.size else k for k in found))

    def objective(theta: Array) -> tuple[float, Array]:
        value, gradient, state = bound_and_gradient(model, parts(theta), rng, warm[0] if warm else None)
        warm[:] = [state]
        return value, gradient

    start, bounds = np.concatenate([k.theta for k in given]), np.vstack([k.bounds for k in given])
    restarts = model.config.pair.n_restarts
    return parts(hyper.maximise(objective, start, bounds, n_restarts=restarts, rng=rng, max_iter=20, tol=1e-3).theta)


def bound_and_gradient(
    model: CrowdModel, tried: Kernels, rng: np.random.Generator, start: svi.State | None = None
) -> tuple[float, Array, svi.State]:
    """Return the bound at the optimal q and its gradient in the kernels' theta (docs/maths sections 5 and 6)."""
    bases = model.bases(tried)
    problem, diagonal = model.problem(bases)
    schedule = replace(model.config.pair.schedule, batch_size=None, on_iteration=None)
    result = svi.fit(problem, start or start_state(model, problem, diagonal, schedule, rng), schedule, rng)
    assert result.evaluation is not None  # noqa: S101 - full data
    seen = problem, result.state, result.evaluation
    features = {"items": model.data.items, "factors": model.data.items, "users": model.data.users}
    gradients = [
        kernel_gradient(*seen, basis, features[which], which)
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
    """Return the bound's gradient in one kernel, at fixed q, shape (n_theta,)."""
    total = np.zeros(basis.kernel.theta.size)
    wanted, in_product = (EntityTerm if which == "users" else PairTerm), which != "items"
    for name, block in state.blocks.items():
        seen = view(problem, evaluation, state.expected, name)
        term = seen.side.rows if isinstance(seen, FactorView) else seen.term
        if isinstance(seen, FactorView) is not in_product or not isinstance(term, wanted) or term.basis is None:
            continue
        parts = _derivatives(seen, block, state, evaluation, name)
        adjoint = np.sum([term.basis_adjoint(*part) for part in parts], axis=0)
        total = total + basis.rows_gradient(features, term.basis, adjoint)
        if term.residual is not None:
            kappa = np.sum([curvature / s for _, _, curvature, s in parts], axis=0)
            if isinstance(term, EntityTerm):
                total = total + kernels.diagonal_vjp(basis.kernel, features, term.sums(kappa))
            else:
                total = total + basis.kappa_gradient(features, term.left, term.right, kappa)
    return total


def _derivatives(seen: Any, block: Block, state: svi.State, evaluation: svi.Evaluation, name: str) -> list[Any]:
    """Of every dense part: the part, derivatives of the fit in its projection's mean and variance, and E[s]."""
    e, w = evaluation.sites.gradient, evaluation.sites.weight
    if not isinstance(seen, FactorView):
        return [(block, e, -0.5 * w, state.expected[seen.term.residual_scale])]
    assert isinstance(block, StackedBlock)  # noqa: S101 - factors of features
    gradient = seen.gain * e - seen.gain_variance * w * evaluation.projections[name].mean
    curvature = -0.5 * seen.second_moment(w)
    expected = [state.expected[scale] for scale in seen.side.scales]
    return list(zip(block.parts, gradient, curvature, expected, strict=True))


def _posterior(model: CrowdModel, problem: svi.Problem, state: svi.State, bases: Bases) -> CrowdPosterior:
    config = model.config
    pairs = [(term, state.blocks[name]) for name, term in problem.terms.items() if isinstance(term, PairTerm)]
    pair_config = config.pair if config.consensus else replace(config.pair, offsets=False)
    consensus = pair_posterior(bases.items if config.consensus else None, pairs, dict(state.scales), pair_config)
    bias = state.blocks.get("bias")
    none = np.zeros(0)
    if problem.products:
        product = problem.products[0]
        v = _factors(product.first, state.blocks["items"], state, bases.factors)
        w = _factors(product.second, state.blocks["users"], state, bases.users)
        rows = product.first.rows
        assert isinstance(rows, PairTerm)  # noqa: S101
        centre = v.mean @ rows.average_item()
    else:
        c = model.data.comparisons
        v, w = (
            FactorPosterior(None, np.zeros((0, n)), np.zeros((0, 0, 0)), np.zeros((0, n)), none)
            for n in (c.n_items, c.n_users)
        )
        centre = none
    moments = (none, none) if bias is None else (bias.mean, bias.covariance_diagonal)
    return CrowdPosterior(consensus, v, w, *moments, dict(state.scales), centre)


def _factors(side: FactorTerm, block: Block, state: svi.State, basis: InducingBasis | None) -> FactorPosterior:
    expected = np.array([state.scales[name].mean for name in side.scales])
    mean = side.stacked(block.mean)
    if isinstance(block, StackedBlock):
        half = np.array([part.inverse_chol for part in block.parts])
        return FactorPosterior(basis, mean, half, np.zeros((0, mean.shape[1])), expected)
    assert isinstance(block, DiagonalBlock)  # noqa: S101 - factors are stacked or diagonal
    variance = side.stacked(block.covariance_diagonal)
    return FactorPosterior(None, mean, np.zeros((0, 0, 0)), variance, expected)
