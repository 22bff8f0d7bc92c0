"""The one natural-gradient loop (maths.md sections 3 to 5): full data or mini-batches, any terms, any site rule.

An iteration forms the sites at the current q, finds the Gaussian that is conjugate to them, and moves towards it in
natural parameters. With the full data the step is 1 and is halved while it lowers the objective; with mini-batches it
is the Robbins-Monro step (t + delay)^-forgetting_rate. The scales follow in closed form.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse.linalg import LinearOperator, cg

from skpref.inference.blocks import DenseBlock, DiagonalBlock
from skpref.inference.sites import VARIATIONAL
from skpref.inference.terms import precision_of
from skpref.tracking.protocol import Iteration

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skpref._typing import Array, IntArray
    from skpref.inference.blocks import Block
    from skpref.inference.scale import Scale
    from skpref.inference.sites import Rule, Sites
    from skpref.inference.terms import LinearTerm
    from skpref.likelihoods import Likelihood
    from skpref.tracking.protocol import OnIteration

_MAX_HALVINGS = 30
_LEARNING_ROWS = 20_000  # observations from which mini-batches learn the likelihood's own parameters
_CG_RTOL = 1e-7
_MAX_RATIO = 0.95  # of two successive changes of log E[s]: a jump of at most 19 changes
_WORTH_A_JUMP = 1e-3
_SLACK = 1e-12  # relative rounding error of a bound, below which a fall is no fall


@dataclass(frozen=True, eq=False)
class Problem:
    """What is to be inferred: terms, likelihood, observations, and the rule for the sites.

    Parameters
    ----------
    terms : tuple of LinearTerm
        One block of variables each; their projections add up to z.
    likelihood : Likelihood
        p(y | z).
    y : ndarray of shape (P,)
        Observations.
    weight : ndarray of shape (P,)
        Observation weights.
    rule : Rule, default=VARIATIONAL
        Site rule.
    """

    terms: tuple[LinearTerm, ...]
    likelihood: Likelihood
    y: Array
    weight: Array
    rule: Rule = VARIATIONAL

    @property
    def n_observations(self) -> int:
        """P."""
        return int(self.y.shape[0])

    def batch(self, index: IntArray) -> Problem:
        """Return the mini-batch of some observations, weighted so that its expectation is the full problem.

        Parameters
        ----------
        index : ndarray of shape (B,)
            Observations.

        Returns
        -------
        Problem
            The same variables; weights times c = P / B.
        """
        c = self.n_observations / len(index)
        terms = tuple(term.take(index) for term in self.terms)
        return replace(self, terms=terms, y=self.y[index], weight=c * self.weight[index])


@dataclass(frozen=True, eq=False)
class State:
    """The posterior q: a Gaussian a term, a Gamma a scale.

    Parameters
    ----------
    blocks : tuple of Block
        q of each term's variables.
    scales : mapping of str to Scale
        q(s), by the name that segments use.
    step : int, default=0
        Mini-batch steps made so far; the next one is number t = step + 1.
    """

    blocks: tuple[Block, ...]
    scales: Mapping[str, Scale]
    step: int = 0

    @property
    def expected(self) -> dict[str, float]:
        """E[s] of every scale."""
        return {name: float(scale.mean) for name, scale in self.scales.items()}

    def log_mean(self, name: str) -> float:
        """Return log E[s] of one scale.

        Parameters
        ----------
        name : str
            Which.

        Returns
        -------
        float
            Its logarithm.
        """
        return float(np.log(self.scales[name].mean))

    @property
    def log_scales(self) -> Array:
        """Log of E[s] of every scale, shape (n_scales,)."""
        return np.asarray(np.log([scale.mean for scale in self.scales.values()]))


@dataclass(frozen=True, eq=False)
class Evaluation:
    """A problem seen from a state.

    Parameters
    ----------
    mu : ndarray of shape (P,)
        Posterior means of the projections.
    spread : ndarray of shape (P,)
        Their variances without the residual's share.
    sites : Sites
        Sites at (mu, v).
    objective : float
        What the step must not lower: the bound, or the log joint (Laplace).
    bound : float
        Lower bound on the log evidence, or Laplace's approximation of the latter.
    """

    mu: Array
    spread: Array
    sites: Sites
    objective: float
    bound: float


@dataclass(frozen=True)
class Schedule:
    """How the loop runs.

    Parameters
    ----------
    max_iter : int, default=200
        Passes over the data at most.
    tol : float, default=1e-4
        Stop when a pass gains less than tol (1 + |objective|) / 100 nats (full data), or when the mean bound of
        an epoch of mini-batches changes by less than tol (1 + |bound|).
    batch_size : int or None, default=None
        Observations a step; None = all of them.
    delay, forgetting_rate : float
        Step size (t + delay)^-forgetting_rate of mini-batches.
    on_iteration : callable, default=None
        Called after every pass; a true answer stops the loop.
    """

    max_iter: int = 200
    tol: float = 1e-4
    batch_size: int | None = None
    delay: float = 1.0
    forgetting_rate: float = 0.9
    on_iteration: OnIteration | None = None


@dataclass(frozen=True, eq=False)
class Fit:
    """Result of the loop.

    Parameters
    ----------
    state : State
        The posterior.
    likelihood : Likelihood
        The likelihood with its own parameters learnt.
    bounds : list of float
        Objective after each pass.
    converged : bool
        Whether the tolerance was met.
    evaluation : Evaluation or None
        The full data seen from `state` (full-data loop only).
    """

    state: State
    likelihood: Likelihood
    bounds: list[float] = field(default_factory=list)
    converged: bool = False
    evaluation: Evaluation | None = None


def initial_state(problem: Problem, scales: Mapping[str, Scale], *, diagonal: tuple[bool, ...] | None = None) -> State:
    """Start at the prior.

    Parameters
    ----------
    problem : Problem
        Terms whose variables are to be inferred.
    scales : mapping of str to Scale
        q(s) to start from, one for each name that the segments use.
    diagonal : tuple of bool, default=None
        Which terms have a diagonal block; None = none of them.

    Returns
    -------
    State
        Zero means, prior variances.
    """
    expected = {name: scale.mean for name, scale in scales.items()}
    kinds = diagonal or (False,) * len(problem.terms)
    blocks: list[Block] = []
    for term, is_diagonal in zip(problem.terms, kinds, strict=True):
        precision = precision_of(term.segments, expected)
        kind = DiagonalBlock if is_diagonal else DenseBlock
        blocks.append(kind.isotropic(precision, np.zeros_like(precision)))
    return State(tuple(blocks), dict(scales))


def evaluate(problem: Problem, state: State) -> Evaluation:
    """Form projections, sites and bound at a state.

    Parameters
    ----------
    problem : Problem
        The observations.
    state : State
        The posterior.

    Returns
    -------
    Evaluation
        What the next step needs.
    """
    pairs = zip(problem.terms, state.blocks, strict=True)
    mu = np.sum([term.matvec(block.mean) for term, block in pairs], axis=0)
    # Laplace looks at the mode alone.
    spread = _spread(problem, state) if problem.rule.integrates else np.zeros_like(mu)
    return _form_sites(problem, state, mu, spread)


def _spread(problem: Problem, state: State) -> Array:
    pairs = zip(problem.terms, state.blocks, strict=True)
    return np.asarray(np.sum([term.variance(block) for term, block in pairs], axis=0))


def _form_sites(problem: Problem, state: State, mu: Array, spread: Array) -> Evaluation:
    expected, v = state.expected, _variances(problem, state, spread)
    prior = v
    if problem.rule.name == "linearised":
        prior = np.sum([term.prior_variance(expected) for term in problem.terms], axis=0)
    sites = problem.rule(problem.likelihood, problem.y, (mu, v, prior), problem.weight)
    fit = float(np.sum(sites.value))
    if problem.rule.integrates:
        bound = fit - divergence(problem, state)
        return Evaluation(mu, spread, sites, bound, bound)
    return Evaluation(mu, spread, sites, *_laplace_objective(problem, state, fit))


def _variances(problem: Problem, state: State, spread: Array) -> Array:
    """Variances of the projections, the residual's share added."""
    v = spread.copy()
    for term in problem.terms:
        if term.residual is not None:
            v += term.residual / state.expected[term.segments[0].scale]
    return v


def _second_moments(problem: Problem, state: State) -> dict[str, tuple[int, float, float]]:
    """Size, |m|^2 and tr S of the variables under each scale."""
    totals: dict[str, tuple[int, float, float]] = {}
    for term, block in zip(problem.terms, state.blocks, strict=True):
        start, mean, variance = 0, block.mean, block.covariance_diagonal
        for segment in term.segments:
            part = slice(start, start + segment.size)
            size, square, trace = totals.get(segment.scale, (0, 0.0, 0.0))
            totals[segment.scale] = (
                size + segment.size,
                square + float(mean[part] @ mean[part]),
                trace + float(variance[part].sum()),
            )
            start += segment.size
    return totals


def divergence(problem: Problem, state: State) -> float:
    """Return KL(q(v, s) || p(v, s)), the expectation over q(s) included (maths.md section 5).

    Parameters
    ----------
    problem : Problem
        For the segments of its terms.
    state : State
        The posterior.

    Returns
    -------
    float
        Nats.
    """
    total = -sum(block.log_det_covariance for block in state.blocks)
    for name, (size, square, trace) in _second_moments(problem, state).items():
        scale = state.scales[name]
        total += scale.mean * (square + trace) - size - size * scale.mean_log
    return 0.5 * total + sum(scale.kl for scale in state.scales.values())


def _laplace_objective(problem: Problem, state: State, fit: float) -> tuple[float, float]:
    """Log joint at the mode, and Laplace's log evidence; q(s) enters through its expectations."""
    joint, volume = fit, sum(block.log_det_covariance for block in state.blocks)
    for name, (size, square, _) in _second_moments(problem, state).items():
        joint -= 0.5 * state.scales[name].mean * square
        volume += size * state.scales[name].mean_log
    return joint, joint + 0.5 * volume - sum(scale.kl for scale in state.scales.values())


def conjugate_blocks(problem: Problem, state: State, evaluation: Evaluation) -> tuple[Block, ...]:
    """Return the blocks that are conjugate to the current sites: the targets of the natural-gradient step.

    Each block is treated with the others at their current means. With g = sites.gradient the linear parameter of the
    target is (Lambda* - prior) m + A^T g, the natural gradient for dense and for diagonal blocks alike.

    Parameters
    ----------
    problem : Problem
        The observations (or a mini-batch of them).
    state : State
        Current posterior.
    evaluation : Evaluation
        Its sites.

    Returns
    -------
    tuple of Block
        One target a term.
    """
    expected, sites = state.expected, evaluation.sites
    targets: list[Block] = []
    for term, block in zip(problem.terms, state.blocks, strict=True):
        prior = precision_of(term.segments, expected)
        if isinstance(block, DiagonalBlock):
            gram = term.gram_diagonal(sites.weight)
            targets.append(DiagonalBlock(prior + gram, gram * block.mean + term.rmatvec(sites.gradient)))
            continue
        precision = term.gram(sites.weight)
        precision[np.diag_indices_from(precision)] += prior
        linear = term.rmatvec(sites.weight * term.matvec(block.mean) + sites.gradient)
        targets.append(DenseBlock(precision, linear))
    return tuple(targets)


def joint_means(
    problem: Problem, state: State, evaluation: Evaluation, targets: tuple[Block, ...]
) -> tuple[Block, ...]:
    """Replace the targets' means by the joint solution of all terms' normal equations.

    Terms that explain the same comparisons (features and offsets) would crawl if each waited for the other, and so
    would the entries of a diagonal block. Conjugate gradients solve for all means at once, with the targets' own
    precisions as preconditioner: one dense term is solved as it stands.

    Parameters
    ----------
    problem : Problem
        The observations.
    state : State
        Current posterior.
    evaluation : Evaluation
        Its sites.
    targets : tuple of Block
        From `conjugate_blocks`.

    Returns
    -------
    tuple of Block
        The same precisions, the joint means.
    """
    if len(targets) == 1 and isinstance(targets[0], DenseBlock):
        return targets
    expected, weight = state.expected, evaluation.sites.weight
    prior = np.concatenate([precision_of(term.segments, expected) for term in problem.terms])
    cuts = np.cumsum([block.size for block in targets])[:-1]

    def stacked(g: Array) -> Array:
        return np.concatenate([term.rmatvec(g) for term in problem.terms])

    def normal_matrix(x: Array) -> Array:
        parts = np.split(x, cuts)
        z = np.sum([term.matvec(part) for term, part in zip(problem.terms, parts, strict=True)], axis=0)
        return prior * x + stacked(weight * z)

    def preconditioner(x: Array) -> Array:
        return np.concatenate([block.solve(part) for block, part in zip(targets, np.split(x, cuts), strict=True)])

    shape = (len(prior), len(prior))
    mean, _ = cg(
        LinearOperator(shape, normal_matrix, dtype=np.float64),
        stacked(evaluation.sites.pseudo_linear(evaluation.mu)),
        x0=np.concatenate([block.mean for block in state.blocks]),
        rtol=_CG_RTOL,
        M=LinearOperator(shape, preconditioner, dtype=np.float64),
    )
    parts = zip(targets, np.split(mean, cuts), strict=True)
    return tuple(type(target)(target.precision, target.times_precision(part)) for target, part in parts)


def full_step(problem: Problem, state: State, evaluation: Evaluation) -> tuple[State, Evaluation]:
    """One iteration on the full data: blocks, then scales; a step that lowers the objective is halved.

    Parameters
    ----------
    problem : Problem
        The observations.
    state : State
        Current posterior.
    evaluation : Evaluation
        The problem seen from it.

    Returns
    -------
    state : State
        The next posterior (the same object when no step raises the objective any more).
    evaluation : Evaluation
        The problem seen from it.
    """
    targets = joint_means(problem, state, evaluation, conjugate_blocks(problem, state, evaluation))
    for halving in range(_MAX_HALVINGS):
        rho = 0.5**halving
        blocks = tuple(_towards(block, target, rho) for block, target in zip(state.blocks, targets, strict=True))
        candidate = replace(state, blocks=blocks)
        seen = evaluate(problem, candidate)
        if not problem.rule.monotone or _no_fall(evaluation, seen):
            break
    else:
        candidate, seen = state, evaluation
    return _scale_step(problem, candidate, seen)


def _towards(block: Block, target: Block, rho: float) -> Block:
    # Joint means ascend as means; in natural parameters a block's own precision would bend them, and no halving helps.
    if rho == 1.0:
        return target
    moved = block.mixed(target, rho)
    mean = (1.0 - rho) * block.mean + rho * target.mean
    return type(moved)(moved.precision, moved.times_precision(mean))


def _no_fall(before: Evaluation, after: Evaluation) -> bool:
    return after.objective >= before.objective - _SLACK * (1.0 + abs(before.objective))


def _scale_step(problem: Problem, state: State, evaluation: Evaluation) -> tuple[State, Evaluation]:
    targets = conjugate_scales(problem, state, evaluation)
    for halving in range(_MAX_HALVINGS):
        rho = 0.5**halving
        scales = {name: scale.mixed(targets[name], rho) for name, scale in state.scales.items()}
        candidate = replace(state, scales=scales)
        seen = _form_sites(problem, candidate, evaluation.mu, evaluation.spread)
        # Under Laplace the log joint at another scale is another function, so it cannot be compared.
        comparable = problem.rule.monotone and problem.rule.integrates
        if not comparable or _no_fall(evaluation, seen):
            return candidate, seen
    return state, evaluation


def conjugate_scales(problem: Problem, state: State, evaluation: Evaluation) -> dict[str, Scale]:
    """Return the stationary q(s) given the blocks, the residual's pull included (maths.md section 4).

    Parameters
    ----------
    problem : Problem
        The observations (or a mini-batch of them).
    state : State
        Current posterior.
    evaluation : Evaluation
        Its sites.

    Returns
    -------
    dict of str to Scale
        One target a scale.
    """
    pull = dict.fromkeys(state.scales, 0.0)
    for term in problem.terms:
        if term.residual is not None and problem.rule.integrates:
            pull[term.segments[0].scale] += 0.5 * float(evaluation.sites.weight @ term.residual)
    scales = dict(state.scales)
    for name, (size, square, trace) in _second_moments(problem, state).items():
        scales[name] = scales[name].updated(size, square + trace, pull[name])
    return scales


def minibatch_step(problem: Problem, state: State, rho: float) -> tuple[State, Evaluation]:
    """One stochastic natural-gradient step of size rho on a mini-batch ([SG20] section 4.3).

    Parameters
    ----------
    problem : Problem
        The mini-batch, from `Problem.batch`.
    state : State
        Current posterior.
    rho : float
        Step in (0, 1].

    Returns
    -------
    state : State
        The next posterior.
    evaluation : Evaluation
        The mini-batch seen from the *old* state; its bound is an unbiased estimate.
    """
    evaluation = evaluate(problem, state)
    targets = conjugate_blocks(problem, state, evaluation)
    blocks = tuple(block.mixed(target, rho) for block, target in zip(state.blocks, targets, strict=True))
    moved = replace(state, blocks=blocks, step=state.step + 1)
    scale_targets = conjugate_scales(problem, moved, evaluation)
    scales = {name: scale.mixed(scale_targets[name], rho) for name, scale in moved.scales.items()}
    return replace(moved, scales=scales), evaluation


def fit(problem: Problem, state: State, schedule: Schedule, rng: np.random.Generator) -> Fit:
    """Run the loop.

    Parameters
    ----------
    problem : Problem
        The observations.
    state : State
        Where to start: `initial_state`, or an earlier posterior (warm start).
    schedule : Schedule
        Iterations, tolerance, mini-batches.
    rng : numpy.random.Generator
        For the order of the mini-batches.

    Returns
    -------
    Fit
        The posterior and the trace.
    """
    if schedule.batch_size is None or schedule.batch_size >= problem.n_observations:
        return _fit_full(problem, state, schedule)
    return _fit_minibatches(problem, state, schedule, rng)


def _fit_full(problem: Problem, state: State, schedule: Schedule) -> Fit:
    start, bounds, converged = time.perf_counter(), [], False
    evaluation = evaluate(problem, state)
    path = [state.log_scales]
    for step in range(1, schedule.max_iter + 1):
        before = evaluation.bound
        state, evaluation = _accelerated_step(problem, state, evaluation, path)
        problem, evaluation = _learn_likelihood(problem, state, evaluation)
        bounds.append(evaluation.bound)
        gain = evaluation.bound - before
        # A rule that halves its steps loses nothing but rounding: no gain means that there is none left.
        gain = gain if problem.rule.monotone and problem.rule.integrates else abs(gain)
        converged = gain <= 0.01 * schedule.tol * (1.0 + abs(before))
        if _stops(schedule, step, evaluation.bound, start) or converged:
            break
    return Fit(state, problem.likelihood, bounds, converged, evaluation)


def _learn_likelihood(problem: Problem, state: State, evaluation: Evaluation) -> tuple[Problem, Evaluation]:
    """Fit the likelihood's own parameters at fixed q: one more coordinate of the bound."""
    if not problem.likelihood.has_parameters:
        return problem, evaluation
    spread = evaluation.spread if problem.rule.integrates else _spread(problem, state)
    v = _variances(problem, state, spread)
    likelihood = problem.likelihood.learnt(problem.y, evaluation.mu, v, problem.weight)
    if likelihood == problem.likelihood:
        return problem, evaluation
    problem = replace(problem, likelihood=likelihood)
    return problem, _form_sites(problem, state, evaluation.mu, evaluation.spread)


def _accelerated_step(
    problem: Problem, state: State, evaluation: Evaluation, path: list[Array]
) -> tuple[State, Evaluation]:
    """A full step; every third one starts from extrapolated scales (Aitken), and is taken only if the bound rises.

    q(v) and q(s) wait for each other, so E[s] approaches its limit geometrically, and slowly where the data say
    little about it. Two plain steps show the rate, and the third jumps to the limit that it implies.
    """
    if problem.rule.integrates and problem.rule.monotone and len(path) > 2:
        first, second = path[-2] - path[-3], path[-1] - path[-2]
        ratio = np.clip(np.divide(second, first, out=np.zeros_like(first), where=first != 0.0), 0.0, _MAX_RATIO)
        shift = second * ratio / (1.0 - ratio)
        if np.any(np.abs(shift) > _WORTH_A_JUMP):
            scales = {name: scale.moved(d) for (name, scale), d in zip(state.scales.items(), shift, strict=True)}
            far = replace(state, scales=scales)
            next_state, seen = full_step(problem, far, _form_sites(problem, far, evaluation.mu, evaluation.spread))
            if seen.objective > evaluation.objective:
                path[:] = [next_state.log_scales]
                return next_state, seen
            path.clear()
    state, evaluation = full_step(problem, state, evaluation)
    path.append(state.log_scales)
    return state, evaluation


def _fit_minibatches(problem: Problem, state: State, schedule: Schedule, rng: np.random.Generator) -> Fit:
    start, bounds, converged = time.perf_counter(), [], False
    n_batches = -(-problem.n_observations // (schedule.batch_size or 1))
    for epoch in range(1, schedule.max_iter + 1):
        estimates = []
        for index in np.array_split(rng.permutation(problem.n_observations), n_batches):
            rho = (state.step + 1 + schedule.delay) ** -schedule.forgetting_rate
            state, seen = minibatch_step(problem.batch(index), state, rho)
            estimates.append(seen.bound)
        if problem.likelihood.has_parameters:
            # Parameters are few, but a rare answer must occur: thousands of observations, once a pass.
            some = problem.batch(rng.permutation(problem.n_observations)[:_LEARNING_ROWS])
            problem = replace(problem, likelihood=_learn_likelihood(some, state, evaluate(some, state))[0].likelihood)
        bounds.append(float(np.mean(estimates)))
        converged = epoch > 1 and abs(bounds[-1] - bounds[-2]) <= schedule.tol * (1.0 + abs(bounds[-1]))
        if _stops(schedule, epoch, bounds[-1], start) or converged:
            break
    return Fit(state, problem.likelihood, bounds, converged)


def _stops(schedule: Schedule, step: int, bound: float, start: float) -> bool:
    if schedule.on_iteration is None:
        return False
    return bool(schedule.on_iteration(Iteration(step, schedule.max_iter, bound, time.perf_counter() - start)))
