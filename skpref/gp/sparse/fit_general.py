"""Any likelihood through inducing points: full passes or mini-batches of natural-gradient steps, with Adam between."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from skpref import kernels
from skpref._math.threads import limit_blas_threads
from skpref.data.tables import unique_rows
from skpref.gp.default_kernels import warp
from skpref.gp.hyperpriors import log_density, no_priors
from skpref.gp.posterior import SparseLatent, WarmStart
from skpref.gp.sparse.fit import (
    choose_points,
    initial_parameters,
    may_move_points,
    resumed_parameters,
    with_shorter_scales,
    with_strong_linear_part,
    with_warped_features,
)
from skpref.gp.sparse.policy import POLICY
from skpref.gp.sparse.search import ObjectiveValue, SparseParameters, SparseSearch, length_scales
from skpref.inference import svi
from skpref.inference.adam import Adam
from skpref.inference.basis import InducingBasis, full_passes_fit
from skpref.inference.blocks import DenseBlock
from skpref.inference.ep import ep_gradient, expectation_propagation
from skpref.inference.scale import FixedScale
from skpref.inference.sites import VARIATIONAL
from skpref.inference.summed import SummedProblem, empty_problem
from skpref.inference.terms.inducing import InducingTerm, inducing_gradient, row_term
from skpref.likelihoods import Gaussian

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sklearn.gaussian_process.kernels import Kernel

    from skpref._events import Iteration
    from skpref._typing import Array, Features, IntArray
    from skpref.gp.hyperpriors import Priors, PriorsOfKernel
    from skpref.gp.sparse.search import SparseConfig
    from skpref.inference.exact import ExactPosterior
    from skpref.inference.sites import Sites
    from skpref.inference.summed import Sums
    from skpref.inference.terms.base import LinearTerm
    from skpref.likelihoods import Likelihood

__all__ = ["GeneralConfig", "GeneralFit", "Observations", "balanced_sizes", "fit_by_sums", "fit_general"]


@dataclass(frozen=True, eq=False)
class Observations:
    """Rows and their observations."""

    X: Features  # (n, d): rows
    y: Array  # (n,): observations
    weight: Array  # (n,): their weights, > 0
    offset: Array | None = None  # (n,): what is added to f, such as log exposures; None: 0

    @property
    def n(self) -> int:
        """Number of observations."""
        return int(self.y.shape[0])

    def sample(self, size: int, rng: np.random.Generator) -> Observations:
        """Draw observations without replacement; two classes are balanced, and weights correct for it.

        What a rare class looks like is learnt from its own rows. The classes weigh as in all rows, and together as
        much as a simple random sample with as certain log odds: weighed as all rows, a search fits the sample's noise.
        """
        if size >= self.n:
            return self
        values, counts = np.unique(self.y, return_counts=True)
        if values.size != 2:
            return self._take(np.sort(rng.choice(self.n, size, replace=False)), 1.0)
        sizes, factors = balanced_sizes(counts, size)
        drawn = [
            rng.choice(np.flatnonzero(self.y == value), class_size, replace=False)
            for value, class_size in zip(values, sizes, strict=True)
        ]
        index = np.concatenate(drawn)
        order = np.argsort(index)
        return self._take(index[order], np.repeat(factors, sizes)[order])

    def _take(self, index: IntArray, factor: Array | float) -> Observations:
        """Return some observations, with their weights times a factor."""
        offset = None if self.offset is None else self.offset[index]
        return Observations(self.X[index], self.y[index], self.weight[index] * factor, offset)

    def simple_sample(self, size: int, rng: np.random.Generator) -> Observations:
        """Draw observations without replacement, with their own weights; all if there are no more."""
        return self if size >= self.n else self._take(np.sort(rng.choice(self.n, size, replace=False)), 1.0)

    def problem(self, term: LinearTerm, likelihood: Likelihood, *, learns: bool = True) -> svi.Problem:
        """Return the inference of f, given the term that projects its variables to the rows."""
        return svi.Problem({"f": term}, likelihood, self.y, self.weight, learns=learns, offset=self.offset)


def balanced_sizes(counts: IntArray, size: int) -> tuple[IntArray, Array]:
    """Return how many rows of each of two classes a sample has, and the factors on their weights."""
    rarer = int(np.argmin(counts))
    sizes = np.zeros(2, dtype=np.int64)
    sizes[rarer] = min(counts[rarer], size // 2)
    sizes[1 - rarer] = size - sizes[rarer]
    return sizes, (sizes / size)[::-1] / (counts / counts.sum())[::-1]


@dataclass(frozen=True)
class GeneralConfig:
    """Settings of a fit, from an estimator's parameters."""

    sparse: SparseConfig  # inducing points and searches; its `optimizer` may be "adam"
    inference: str  # "vb": full passes, "svi": mini-batches, "auto": full passes while their rows fit in memory
    schedule: svi.Schedule  # iterations, tolerance, mini-batches
    learning_rate: float  # step of Adam
    priors: Callable[[Features, Kernel], Priors]  # of the default kernel's theta, for these features
    search_rows: int = POLICY.sample_rows  # rows that a search looks at


@dataclass(frozen=True, eq=False)
class GeneralFit:
    """Result of `fit_general`."""

    latent: SparseLatent  # posterior of f
    end: WarmStart  # hyper-parameters, inducing points and posterior, to start a later fit from
    inference: str  # "vb" or "svi"
    bounds: list[float]  # bound after each pass of the last inference
    n_iter: int  # number of these passes
    converged: bool  # whether inference and searches met their tolerance
    cut_short: bool  # whether one of them did not, and more iterations may help


# --------------------------------------------------------------------------------------------------------------- search
@dataclass(eq=False)
class _OptimalBound:
    """The bound at its optimal q as a function of kernel and points; each inference starts at the end of the best.

    The last one may have been a step of a search that went too far, from whose q others are far. A start is made in one
    of two ways, by the higher bound: with the same q of the whitened variables, or with the same
    sites, to which q is conjugate in the new basis ([ACKS21]_). Where noise is large the sites hardly depend on the
    kernel, and the latter saves half of the steps.

    .. [ACKS21] Adam, Chang, Khan, Solin: Dual parameterization of sparse variational Gaussian processes. NeurIPS 2021.
    """

    data: Observations
    likelihood: Likelihood
    max_iter: int
    state: svi.State | None = None
    evaluation: svi.Evaluation | None = None
    priors: Priors = ()  # of the kernel's theta
    best: float = -np.inf  # the highest value so far; likelihood, state, evaluation and the rest are those of it
    lost: float = 0.0  # nats that the inducing points lose

    def __call__(self, parameters: SparseParameters) -> tuple[ObjectiveValue, float]:
        """Return the bound with its gradients, and the sum of the weights."""
        basis = InducingBasis.from_points(parameters.kernel, parameters.points)
        problem = self.data.problem(row_term(basis, self.data.X, "f"), self.likelihood)
        start = self._start(problem)
        tol = POLICY.search_tol_of_parameters if self.likelihood.has_parameters else POLICY.search_tol
        schedule = svi.Schedule(self.max_iter, tol, on_iteration=self._is_hopeless)
        result = svi.fit(problem, start, schedule, np.random.default_rng(0))
        evaluation, term = result.evaluation, problem.terms["f"]
        assert evaluation is not None  # noqa: S101 - full data
        theta, points = inducing_gradient(basis, self.data.X, problem, result.state, evaluation)
        prior, slope = log_density(self.priors, parameters.kernel.theta)
        value = evaluation.bound + prior
        if value > self.best:
            self.best, self.likelihood, self.state, self.evaluation = value, result.likelihood, result.state, evaluation
            self.lost = 0.0 if term.residual is None else 0.5 * float(evaluation.sites.weight @ term.residual)
        return ObjectiveValue(value, theta + slope, 0.0, points), float(self.data.weight.sum())

    def _is_hopeless(self, event: Iteration) -> bool:
        """Tell whether an inference is long, and so far below the best that the search will reject its kernel."""
        return event.step >= POLICY.hopeless_passes and event.bound < self.best - POLICY.hopeless_nats * float(
            self.data.weight.sum()
        )

    def _start(self, problem: svi.Problem) -> svi.State:
        """Return the best start: q or the sites of the last evaluation, the likelihood's guess or the prior."""
        starts = [] if self.state is None else [self.state]
        if self.state is not None and self.evaluation is not None:
            starts.append(_conjugate(problem, self.state, self.evaluation.sites, self.evaluation.mu))
        guess = problem.likelihood.guess(problem.y)
        if guess is not None:
            exact = np.zeros_like(guess)
            sites = VARIATIONAL(problem.likelihood, problem.y, (guess, exact, exact), problem.weight)
            starts.append(_conjugate(problem, _initial_state(problem), sites, guess))
        starts = starts or [_initial_state(problem)]
        return max(starts, key=lambda state: svi.evaluate(problem, state).bound) if len(starts) > 1 else starts[0]


@dataclass(eq=False)
class _ExactEvidence:
    """The evidence by expectation propagation at the rows as a function of the kernel; each starts at the last one."""

    data: Observations
    likelihood: Likelihood
    last: ExactPosterior | None = None

    def __call__(self, parameters: SparseParameters) -> tuple[ObjectiveValue, float]:
        """Return the evidence with its gradient, and the sum of the weights."""
        K, pull = kernels.cross_pullback(parameters.kernel, self.data.X, self.data.X)
        y, weight = self.data.y, self.data.weight
        q = expectation_propagation(K.copy(), self.likelihood, y, weight, self.last, tol=POLICY.ep_tol)
        self.last = q if q.converged else None
        theta, _ = pull(np.ascontiguousarray(ep_gradient(q)))
        return ObjectiveValue(q.log_evidence, theta, 0.0, None), float(self.data.weight.sum())


def _initial_state(problem: svi.Problem) -> svi.State:
    """Return the prior as the first q."""
    return svi.initial_state(problem, {"f": FixedScale(1.0)})


def _conjugate(problem: svi.Problem, state: svi.State, sites: Sites, mu: Array) -> svi.State:
    """Return the state whose q(f) is conjugate to sites that were formed at mu, the offset included."""
    term = problem.terms["f"]
    mu = mu if problem.offset is None else mu - problem.offset
    precision = term.gram(sites.weight)
    precision[np.diag_indices_from(precision)] += 1.0
    return state.with_blocks({"f": DenseBlock(precision, term.rmatvec(sites.pseudo_linear(mu)))})


def fit_general(
    data: Observations,
    likelihood: Likelihood,
    kernel: Kernel | None,
    config: GeneralConfig,
    rng: np.random.Generator,
    start: WarmStart | None = None,
) -> GeneralFit:
    """Fit kernel, inducing points and posterior under any likelihood: a search, then the inference on all rows."""
    searched = start is not None and start.search == "skip"
    with limit_blas_threads(min(config.sparse.n_inducing, data.n)):
        search, likelihood, state = _learn(data, likelihood, kernel, config, rng, start)
        adam = config.sparse.optimizer == "adam" and not searched
        result = _infer(data, likelihood, search.parameters, state, config, rng, adam=adam)
        return _with_search(result, search)


def fit_by_sums(
    sample: Observations,
    likelihood: Likelihood,
    kernel: Kernel | None,
    config: GeneralConfig,
    rng: np.random.Generator,
    collect: Callable[[svi.Problem, svi.State], Iterator[Sums | None]],
) -> GeneralFit:
    """Fit kernel, points and the likelihood's parameters to a sample, and the posterior to sums over all rows."""
    with limit_blas_threads(min(config.sparse.n_inducing, sample.n)):
        search, likelihood, state = _learn(sample, likelihood, kernel, config, rng, None)
        basis = InducingBasis.from_points(search.parameters.kernel, search.parameters.points)
        problem = SummedProblem.from_template(empty_problem(basis, likelihood), collect)
        result = svi.fit(problem, state or _initial_state(problem), replace(config.schedule, batch_size=None), rng)
        fit = _finished(result, basis, "vb")
        return _with_search(fit, search)


def _with_search(fit: GeneralFit, search: SparseSearch) -> GeneralFit:
    """Return a fit that has converged only if the search before it has."""
    return replace(fit, converged=fit.converged and search.converged, cut_short=fit.cut_short or search.cut_short)


def _learn(
    data: Observations,
    likelihood: Likelihood,
    kernel: Kernel | None,
    config: GeneralConfig,
    rng: np.random.Generator,
    start: WarmStart | None,
) -> tuple[SparseSearch, Likelihood, svi.State | None]:
    """Return the search for kernel and points on a sample, with the likelihood and the posterior at its end."""
    sparse = replace(config.sparse, noise=1.0)  # in a search noise is a parameter of the likelihood
    first = unique_rows(data.X)[0]
    distinct = data.X if first.size == data.n else data.X[np.sort(first)]
    state = None
    if start is None:
        parameters = initial_parameters(distinct, kernel, sparse, rng)
    else:
        parameters = resumed_parameters(distinct, start, sparse, rng)
        likelihood = start.likelihood
        state = start.state if parameters.points is start.points else None
    search = SparseSearch(sparse, parameters)
    if sparse.optimizer != "l-bfgs-b" or (start is not None and start.search == "skip"):
        return search, likelihood, state
    sample = data.sample(config.search_rows, rng)
    priors = partial(config.priors, distinct) if kernel is None else no_priors
    starts = [parameters]
    if kernel is None and start is None and (features := warp(distinct)) is not None:
        starts.append(with_warped_features(parameters, features))
    exact = _has_exact_evidence(data, likelihood, parameters, sparse)
    state = None if exact else state  # points are chosen anew
    first_objective = _OptimalBound(sample, likelihood, config.schedule.max_iter, state)
    most_rows = POLICY.subset_rows if len(starts) > 1 else POLICY.cold_start_rows
    if exact:
        search = _search_exactly(data, likelihood, SparseSearch(sparse, parameters, priors=priors), starts[1:], rng)
        search.parameters = _with_points(search.parameters, distinct, sparse, rng)
        if _needs_more_points(search.parameters, first_objective):
            most = replace(sparse, n_inducing=sparse.most_inducing)
            search.parameters = _with_points(search.parameters, distinct, most, rng)
            return search, likelihood, None
        starts = [search.parameters]
    # Shorter length-scales are for few rows, whose bound has several optima; the third search is slow with many.
    elif kernel is None and start is None and data.n <= most_rows:
        starts.append(with_shorter_scales(parameters))
    # Of many rows a part chooses the kernel, at which the search begins: half of the time of two searches by all.
    elif len(starts) > 1 and data.n > POLICY.cold_start_rows:
        few = replace(first_objective, data=data.sample(POLICY.ep_rows, rng))
        chosen, found = _search(few, starts, sparse, priors)
        starts = [chosen.parameters]
        first_objective = replace(first_objective, likelihood=found.likelihood, state=found.state)
    is_few = kernel is None and start is None and data.n <= sparse.linear_rows
    strong = with_strong_linear_part(parameters) if is_few else None
    search, objective = _search(first_objective, starts, sparse, priors, strong)
    if not exact:
        _move_points(search, objective, distinct)
    return search, objective.likelihood, objective.state


def _has_exact_evidence(
    data: Observations, likelihood: Likelihood, parameters: SparseParameters, config: SparseConfig
) -> bool:
    """Tell whether expectation propagation at a subset of the rows can guide the search."""
    counts = np.unique(data.y, return_counts=True)[1]
    return bool(
        config.most_inducing
        and data.n > config.linear_rows
        and not likelihood.has_parameters
        and counts.size == 2
        and counts.min() >= POLICY.exact_share * data.n
        and data.offset is None
        and data.weight.min() >= 1.0
        and kernels.moves_points(parameters.kernel, data.X)
    )


def _search_exactly(
    data: Observations,
    likelihood: Likelihood,
    search: SparseSearch,
    others: list[SparseParameters],
    rng: np.random.Generator,
) -> SparseSearch:
    """Search by the exact evidence of few rows from several starts, and of more from the best one."""
    few, more = data.simple_sample(POLICY.subset_rows, rng), data.simple_sample(POLICY.ep_rows, rng)
    objective = _ExactEvidence(few, likelihood)
    shorter = with_shorter_scales(search.parameters)
    search.ascend(objective, tol=POLICY.sample_tol * search.config.tol)
    search.compare([shorter, *others], objective)
    search = SparseSearch(search.config, search.parameters, scale=search.scale, priors=search.priors)
    search.ascend(_ExactEvidence(more, likelihood), tol=POLICY.sample_tol * search.config.tol)
    return search


def _with_points(
    parameters: SparseParameters, X: Features, config: SparseConfig, rng: np.random.Generator
) -> SparseParameters:
    """Return the parameters with inducing points that are chosen by their kernel."""
    return replace(parameters, points=choose_points(X, parameters.kernel, config, rng))


def _needs_more_points(parameters: SparseParameters, objective: _OptimalBound) -> bool:
    """Tell whether inducing points lose so much that their bound is no guide to the kernel."""
    trial = replace(objective)
    _, weight = trial(parameters)
    return trial.lost > POLICY.class_worth_more * weight


def _search(
    objective: _OptimalBound,
    starts: list[SparseParameters],
    config: SparseConfig,
    priors: PriorsOfKernel = no_priors,
    other: SparseParameters | None = None,
) -> tuple[SparseSearch, _OptimalBound]:
    """Search from every start; return the search of the highest bound, with the objective and its last posterior.

    From the other start, too, if it is higher than where these searches end.
    """
    # Few rows can have several optima: on ``ionosphere`` (34 features) they are .01 nats per row apart.
    runs = [(SparseSearch(config, start), replace(objective, priors=priors(start.kernel))) for start in starts]
    for search, own_objective in runs:
        search.ascend(own_objective)
    best = max(runs, key=lambda run: run[0].height)
    if other is not None:
        search, own_objective = SparseSearch(config, other), replace(objective, priors=priors(other.kernel))
        if search.value(own_objective) > best[0].height:
            search.ascend(own_objective)
            return search, own_objective
    return best


def _move_points(search: SparseSearch, objective: _OptimalBound, distinct: Features) -> None:
    """Search for inducing points and hyper-parameters together, where the points lose enough to be worth it."""
    config, weight = search.config, float(objective.data.weight.sum())
    if may_move_points(distinct, search.parameters, config) and (
        config.learn_inducing is True or objective.lost > POLICY.worth_moving * weight
    ):
        search.ascend(objective, move_points=True)


# ------------------------------------------------------------------------------------------------------------ inference
def _infer(
    data: Observations,
    likelihood: Likelihood,
    parameters: SparseParameters,
    state: svi.State | None,
    config: GeneralConfig,
    rng: np.random.Generator,
    *,
    adam: bool,
) -> GeneralFit:
    """Find the posterior given all rows; kernel and points are fixed, or moved by Adam between mini-batches."""
    basis = InducingBasis.from_points(parameters.kernel, parameters.points)
    rows_fit = full_passes_fit(data.n, basis.chol.shape[0])
    inference = config.inference
    if inference == "auto":
        inference = "vb" if rows_fit else "svi"
    inference = "svi" if adam else inference
    # One batch of all rows is full-data inference.
    in_batches = adam or (inference == "svi" and (config.schedule.batch_size or data.n) < data.n)
    term = row_term(basis, data.X, "f") if rows_fit and not in_batches else InducingTerm(basis, data.X)
    learns = config.sparse.optimizer is not None
    problem = data.problem(term, likelihood, learns=learns)
    state = _initial_state(problem) if state is None else svi.State(state.blocks, state.scales)
    full_passes = replace(config.schedule, batch_size=None)
    schedule = config.schedule if in_batches else full_passes
    if adam:
        tuner = _AdamTuner(data, basis, config)
        tuned = svi.fit(problem, state, tuner.schedule(schedule), rng)
        basis, likelihood = tuner.basis, tuner.likelihood or tuned.likelihood
        # q still belongs in part to earlier kernels: full passes make it the one of the last kernel.
        term = row_term(basis, data.X, "f") if rows_fit else InducingTerm(basis, data.X)
        problem = replace(problem, terms={"f": term}, likelihood=likelihood)
        result = svi.fit(problem, tuned.state, replace(full_passes, on_iteration=None), rng)
        result = replace(result, bounds=tuned.bounds + result.bounds, converged=tuned.converged and result.converged)
    else:
        result = svi.fit(problem, state, schedule, rng)
    return _finished(result, basis, inference)


def _finished(result: svi.Fit, basis: InducingBasis, inference: str) -> GeneralFit:
    """Return the posterior at the end of the loop."""
    block = result.state.blocks["f"]
    assert isinstance(block, DenseBlock)  # noqa: S101
    inverse_chol = _inverse_chol(block, result.likelihood.share_of_information)
    latent = SparseLatent(basis, block.mean, np.ascontiguousarray(inverse_chol))
    end = WarmStart(basis.kernel, result.likelihood, basis.points, result.state)
    n_passes, cut_short = len(result.bounds), not result.converged
    return GeneralFit(latent, end, inference, result.bounds, n_passes, result.converged, cut_short)


def _inverse_chol(block: DenseBlock, share: float) -> Array:
    """Return L^-1, where L L^T = share * precision + (1 - share) I."""
    if share == 1.0:
        return block.inverse_chol
    precision = share * block.precision
    precision[np.diag_indices_from(precision)] += 1.0 - share
    return DenseBlock(precision, block.linear).inverse_chol


@dataclass(eq=False)
class _AdamTuner:
    """Adam on kernel, points and Gaussian noise, between natural-gradient steps and at the q between them."""

    data: Observations
    basis: InducingBasis
    config: GeneralConfig
    likelihood: Gaussian | None = None  # with the learnt noise
    adam: Adam | None = None

    def schedule(self, schedule: svi.Schedule) -> svi.Schedule:
        """Return a schedule whose q follows the kernel; it ends where the bound of many steps no longer rises."""
        size = min(schedule.batch_size or self.data.n, -(-self.data.n // POLICY.adam_batches))
        return replace(
            schedule,
            batch_size=size,
            min_step=min(POLICY.adam_step, POLICY.adam_batches * size / self.data.n),
            tune=self,
            window=-(-POLICY.adam_window * size // self.data.n),
        )

    def __call__(
        self, problem: svi.Problem, batch: svi.Problem, index: IntArray, state: svi.State, evaluation: svi.Evaluation
    ) -> svi.Problem:
        """Take one step by the gradient of a mini-batch, and return the problem at the new parameters."""
        if state.step < POLICY.adam_delay:
            return problem
        sparse, likelihood = self.config.sparse, problem.likelihood
        theta, moved = inducing_gradient(self.basis, self.data.X[index], batch, state, evaluation)
        parameters = SparseParameters(self.basis.kernel, 1.0, self.basis.points)
        parts = [theta, np.zeros(0), np.zeros(0)]
        if isinstance(likelihood, Gaussian) and sparse.noise is None:
            square = (batch.y - evaluation.mu) ** 2 + evaluation.v
            parts[1] = np.array([0.5 * float(batch.weight @ (square * likelihood.precision - 1.0))])
        if moved is not None and may_move_points(self.data.X, parameters, sparse):
            parts[2] = np.ravel(moved * length_scales(parameters))
        gradient = np.concatenate(parts) / float(self.data.weight.sum())
        if self.adam is None:
            self.adam = Adam(gradient.shape, self.config.learning_rate)
        steps = np.split(self.adam.step(gradient), np.cumsum([part.size for part in parts])[:-1])
        if isinstance(likelihood, Gaussian) and steps[1].size:
            noise = np.clip(float(np.exp(steps[1][0])) / likelihood.precision, *sparse.noise_bounds)
            self.likelihood = likelihood = Gaussian(1.0 / float(noise))
        self.basis = _moved(parameters, steps[0], steps[2])
        return replace(problem, terms={"f": InducingTerm(self.basis, self.data.X)}, likelihood=likelihood)


def _moved(parameters: SparseParameters, in_theta: Array, in_points: Array) -> InducingBasis:
    """Return the basis after a step in theta, and in points in units of length-scales."""
    kernel, points = parameters.kernel, parameters.points
    if in_points.size:
        points = points + in_points.reshape(points.shape) * length_scales(parameters)
    bounds = np.reshape(kernel.bounds, (-1, 2))
    return InducingBasis.from_points(kernel.clone_with_theta(np.clip(kernel.theta + in_theta, *bounds.T)), points)
