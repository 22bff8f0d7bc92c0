"""Any likelihood through inducing points: full passes or mini-batches of natural-gradient steps, with Adam between."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from skpref._math.threads import limit_blas_threads
from skpref.data.tables import unique_rows
from skpref.gp.posterior import SparseLatent, WarmStart
from skpref.gp.sparse.fit import (
    COLD_START_ROWS,
    SAMPLE_ROWS,
    initial_parameters,
    may_move_points,
    resumed_parameters,
    with_shorter_scales,
    worth_moving,
)
from skpref.gp.sparse.search import ObjectiveValue, SparseParameters, SparseSearch
from skpref.inference import svi
from skpref.inference.basis import InducingBasis, full_passes_fit
from skpref.inference.blocks import DenseBlock
from skpref.inference.scale import FixedScale
from skpref.inference.terms.inducing import InducingTerm, inducing_gradient, row_term
from skpref.likelihoods import Gaussian

if TYPE_CHECKING:
    from sklearn.gaussian_process.kernels import Kernel

    from skpref._typing import Array, Features, IntArray
    from skpref.gp.sparse.search import SparseConfig
    from skpref.likelihoods import Likelihood

__all__ = ["GeneralConfig", "GeneralFit", "Observations", "fit_general"]

_SEARCH_TOL: Final = 1e-2  # tolerance of the inference within a search, as `Schedule.tol`
_ADAM_DECAY: Final = (0.9, 0.999)  # of Adam's averages of the gradient and of its square
_ADAM_EPSILON: Final = 1e-8


@dataclass(frozen=True, eq=False)
class Observations:
    """Rows and their observations."""

    X: Features  # (n, d): rows
    y: Array  # (n,): observations
    weight: Array  # (n,): their weights, > 0

    @property
    def n(self) -> int:
        """Number of observations."""
        return int(self.y.shape[0])

    def sample(self, size: int, rng: np.random.Generator) -> Observations:
        """Draw observations without replacement; of two classes the rarer is half of them, and weights make up for it.

        What a rare class looks like is learnt from its own rows.
        """
        if size >= self.n:
            return self
        values, counts = np.unique(self.y, return_counts=True)
        if values.size != 2:
            return self._take(np.sort(rng.choice(self.n, size, replace=False)), 1.0)
        rarer = int(np.argmin(counts))
        sizes = np.zeros(2, dtype=np.int64)
        sizes[rarer] = min(counts[rarer], size // 2)
        sizes[1 - rarer] = size - sizes[rarer]
        drawn = [
            rng.choice(np.flatnonzero(self.y == value), class_size, replace=False)
            for value, class_size in zip(values, sizes, strict=True)
        ]
        index = np.concatenate(drawn)
        order = np.argsort(index)
        return self._take(index[order], np.repeat(counts / np.maximum(sizes, 1), sizes)[order])

    def _take(self, index: IntArray, factor: Array | float) -> Observations:
        """Return some observations, with their weights times a factor."""
        return Observations(self.X[index], self.y[index], self.weight[index] * factor)


@dataclass(frozen=True)
class GeneralConfig:
    """Settings of a fit, from an estimator's parameters."""

    sparse: SparseConfig  # inducing points and searches; its `optimizer` may be "adam"
    inference: str  # "vb": full passes, "svi": mini-batches, "auto": full passes while their rows fit in memory
    schedule: svi.Schedule  # iterations, tolerance, mini-batches
    learning_rate: float  # step of Adam
    search_rows: int = SAMPLE_ROWS  # rows that a search looks at


@dataclass(frozen=True, eq=False)
class GeneralFit:
    """Result of `fit_general`."""

    latent: SparseLatent  # posterior of f
    end: WarmStart  # hyper-parameters, inducing points and posterior, to start a later fit from
    inference: str  # "vb" or "svi"
    bounds: list[float]  # bound after each pass of the last inference
    n_iter: int  # number of these passes
    converged: bool  # whether inference and searches met their tolerance


# --------------------------------------------------------------------------------------------------------------- search
@dataclass(eq=False)
class _OptimalBound:
    """The bound at its optimal q as a function of kernel and points; each inference starts at the end of the last.

    It starts in one of two ways, by the higher bound: with the same q of the whitened variables, or with the same
    sites, to which q is conjugate in the new basis ([ACKS21]_). Where noise is large the sites hardly depend on the
    kernel, and the latter saves half of the steps.

    .. [ACKS21] Adam, Chang, Khan, Solin: Dual parameterization of sparse variational Gaussian processes. NeurIPS 2021.
    """

    data: Observations
    likelihood: Likelihood
    max_iter: int
    state: svi.State | None = None
    evaluation: svi.Evaluation | None = None
    lost: float = 0.0  # nats that the inducing points lose

    def __call__(self, parameters: SparseParameters) -> tuple[ObjectiveValue, float]:
        """Return the bound with its gradients, and the sum of the weights."""
        basis = InducingBasis.at(parameters.kernel, parameters.points)
        problem = svi.Problem({"f": row_term(basis, self.data.X, "f")}, self.likelihood, self.data.y, self.data.weight)
        start = self._start(problem)
        result = svi.fit(problem, start, svi.Schedule(self.max_iter, _SEARCH_TOL), np.random.default_rng(0))
        evaluation, term = result.evaluation, problem.terms["f"]
        assert evaluation is not None  # noqa: S101 - full data
        self.state, self.likelihood, self.evaluation = result.state, result.likelihood, evaluation
        theta, points = inducing_gradient(basis, self.data.X, problem, result.state, evaluation)
        if term.residual is not None:
            self.lost = 0.5 * float(evaluation.sites.weight @ term.residual)
        return ObjectiveValue(evaluation.bound, theta, 0.0, points), float(self.data.weight.sum())

    def _start(self, problem: svi.Problem) -> svi.State:
        """Return the better of the two starts."""
        if self.state is None:
            return _initial_state(problem)
        if self.evaluation is None:
            return self.state
        sites, term = self.evaluation.sites, problem.terms["f"]
        precision = term.gram(sites.weight)
        precision[np.diag_indices_from(precision)] += 1.0
        block = DenseBlock(precision, term.rmatvec(sites.pseudo_linear(self.evaluation.mu)))
        same_sites = self.state.with_blocks({"f": block})
        return max((self.state, same_sites), key=lambda state: svi.evaluate(problem, state).bound)


def _initial_state(problem: svi.Problem) -> svi.State:
    """Return the prior as the first q."""
    return svi.initial_state(problem, {"f": FixedScale(1.0)})


def fit_general(
    data: Observations,
    likelihood: Likelihood,
    kernel: Kernel | None,
    config: GeneralConfig,
    rng: np.random.Generator,
    start: WarmStart | None = None,
) -> GeneralFit:
    """Fit kernel, inducing points and posterior under any likelihood: a search, then the inference on all rows."""
    sparse = replace(config.sparse, noise=1.0)  # in a search noise is a parameter of the likelihood
    distinct = data.X[np.sort(unique_rows(data.X)[0])]
    searched = start is not None and start.search == "skip"
    with limit_blas_threads(min(sparse.n_inducing, data.n)):
        state = None
        if start is None:
            parameters = initial_parameters(distinct, kernel, sparse, rng)
        else:
            parameters = resumed_parameters(distinct, start, sparse, rng)
            likelihood = start.likelihood
            state = start.state if parameters.points is start.points else None
        search = SparseSearch(sparse, parameters)
        if sparse.optimizer == "l-bfgs-b" and not searched:
            sample = data.sample(config.search_rows, rng)
            starts = [parameters]
            if kernel is None and start is None and data.n <= COLD_START_ROWS:
                starts.append(with_shorter_scales(parameters))
            first_objective = _OptimalBound(sample, likelihood, config.schedule.max_iter, state)
            search, objective = _search(first_objective, starts, sparse)
            _move_points(search, objective, distinct)
            state, likelihood = objective.state, objective.likelihood
        adam = sparse.optimizer == "adam" and not searched
        result = _infer(data, likelihood, search.parameters, state, config, rng, adam=adam)
        return replace(result, converged=result.converged and search.converged)


def _search(
    objective: _OptimalBound, starts: list[SparseParameters], config: SparseConfig
) -> tuple[SparseSearch, _OptimalBound]:
    """Search from every start; return the search of the highest bound, with the objective and its last posterior."""
    # Few rows can have several optima: on ``ionosphere`` (34 features) they are .01 nats per row apart.
    runs = [(SparseSearch(config, start), replace(objective)) for start in starts]
    for search, own_objective in runs:
        search.ascend(own_objective)
    return max(runs, key=lambda run: max(run[0].trace, default=-np.inf))


def _move_points(search: SparseSearch, objective: _OptimalBound, distinct: Features) -> None:
    """Search for inducing points and hyper-parameters together, where the points lose enough to be worth it."""
    config, weight = search.config, float(objective.data.weight.sum())
    if may_move_points(distinct, search.parameters, config) and (
        config.learn_inducing is True or worth_moving(objective.lost, weight)
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
    """Find the posterior given all rows, kernel and points as they are, or moved by Adam between mini-batches."""
    basis = InducingBasis.at(parameters.kernel, parameters.points)
    rows_fit = full_passes_fit(data.n, basis.chol.shape[0])
    inference = config.inference
    if inference == "auto":
        inference = "vb" if rows_fit and not adam else "svi"
    in_batches = inference == "svi"
    term = row_term(basis, data.X, "f") if rows_fit and not in_batches else InducingTerm(basis, data.X)
    learns = config.sparse.optimizer is not None
    problem = svi.Problem({"f": term}, likelihood, data.y, data.weight, learns=learns)
    state = _initial_state(problem) if state is None else svi.State(state.blocks, state.scales)
    schedule = config.schedule if in_batches else replace(config.schedule, batch_size=None)
    if in_batches and config.schedule.batch_size is not None:
        schedule = replace(schedule, batch_size=min(config.schedule.batch_size, max(1, data.n - 1)))
    tuner = _AdamTuner(data, basis, config) if adam and in_batches else None
    if tuner is not None:
        schedule = replace(schedule, tune=tuner)
    result = svi.fit(problem, state, schedule, rng)
    basis = basis if tuner is None else tuner.basis
    likelihood = result.likelihood if tuner is None or tuner.likelihood is None else tuner.likelihood
    block = result.state.blocks["f"]
    assert isinstance(block, DenseBlock)  # noqa: S101
    latent = SparseLatent(basis, block.mean, np.ascontiguousarray(block.inverse_chol))
    end = WarmStart(basis.kernel, likelihood, basis.points, result.state)
    return GeneralFit(latent, end, inference, result.bounds, len(result.bounds), result.converged)


@dataclass(eq=False)
class _AdamTuner:
    """Adam on kernel, points and Gaussian noise between the natural-gradient steps, at the q of the step before."""

    data: Observations
    basis: InducingBasis
    config: GeneralConfig
    likelihood: Gaussian | None = None  # with the learnt noise
    step: int = 0
    averages: Array | None = None  # (2, n): of the gradient and of its square

    def __call__(self, problem: svi.Problem, batch: svi.Problem, index: IntArray, state: svi.State) -> svi.Problem:
        """Take one step by the gradient of a mini-batch, and return the problem at the new parameters."""
        sparse, likelihood = self.config.sparse, problem.likelihood
        evaluation = svi.evaluate(batch, state)
        theta, moved = inducing_gradient(self.basis, self.data.X[index], batch, state, evaluation)
        kernel, points = self.basis.kernel, self.basis.points
        parts = [theta, np.zeros(0), np.zeros(0)]
        if isinstance(likelihood, Gaussian) and sparse.noise is None:
            square = (batch.y - evaluation.mu) ** 2 + evaluation.v
            parts[1] = np.array([0.5 * float(batch.weight @ (square * likelihood.precision - 1.0))])
        if moved is not None and may_move_points(self.data.X, SparseParameters(kernel, 1.0, points), sparse):
            parts[2] = np.ravel(moved)
        ascent = self._ascent(np.concatenate(parts) / float(self.data.weight.sum()))
        in_theta, in_noise, in_points = np.split(ascent, np.cumsum([part.size for part in parts])[:-1])
        bounds = np.reshape(kernel.bounds, (-1, 2))
        kernel = kernel.clone_with_theta(np.clip(kernel.theta + in_theta, bounds[:, 0], bounds[:, 1]))
        if isinstance(likelihood, Gaussian) and in_noise.size:
            likelihood = Gaussian(likelihood.precision * float(np.exp(-in_noise[0])))
            self.likelihood = likelihood
        if in_points.size:
            points = points + in_points.reshape(points.shape)
        self.basis = InducingBasis.at(kernel, points)
        return replace(problem, terms={"f": InducingTerm(self.basis, self.data.X)}, likelihood=likelihood)

    def _ascent(self, gradient: Array) -> Array:
        """Return Adam's step, shape (n,)."""
        self.step += 1
        if self.averages is None:
            self.averages = np.zeros((2, gradient.size))
        decay = np.array(_ADAM_DECAY)[:, None]
        self.averages = decay * self.averages + (1.0 - decay) * np.array([gradient, gradient**2])
        first, second = self.averages / (1.0 - decay**self.step)
        return np.asarray(self.config.learning_rate * first / (np.sqrt(second) + _ADAM_EPSILON))
