"""Any likelihood through inducing points, on the engine's one loop: full passes, mini-batches, Adam between them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from skpref._math.threads import limit_blas_threads
from skpref.data.tables import unique_rows
from skpref.gp.posterior import SparseLatent
from skpref.gp.sparse.fit import Run, Slopes, SparseStart, first_start, going_on, may_move, pays_to_move, shorter
from skpref.inference import svi
from skpref.inference.basis import InducingBasis, full_passes_fit
from skpref.inference.blocks import DenseBlock
from skpref.inference.scale import FixedScale
from skpref.inference.terms.inducing import InducingTerm, inducing_gradient, row_term
from skpref.likelihoods import Gaussian

if TYPE_CHECKING:
    from sklearn.gaussian_process.kernels import Kernel

    from skpref._typing import Array, Features, IntArray
    from skpref.gp.sparse.fit import SparseConfig
    from skpref.likelihoods import Likelihood

__all__ = ["GeneralConfig", "GeneralFit", "GeneralStart", "Observations", "fit_general"]

_FEW: Final = 10_000  # rows that a search looks at
_ALL: Final = 2_000  # rows up to which a search with the default kernel begins at shorter length-scales as well
_SEARCH_TOL: Final = 1e-2  # of a fit within a search, as `Schedule.tol`
_FORGETS: Final = (0.9, 0.999)  # of Adam's two averages
_TINY: Final = 1e-8


@dataclass(frozen=True, eq=False)
class Observations:
    """Rows and what was observed there."""

    X: Features  # (n, d): rows
    y: Array  # (n,): observations and their weights, > 0
    weight: Array  # (n,): observations and their weights, > 0

    @property
    def n(self) -> int:
        """Number of observations."""
        return int(self.y.shape[0])

    def sample(self, size: int, rng: np.random.Generator) -> Observations:
        """Return some observations that stand for all.

        Of two answers the rarer one gets half of the places, or as many as it has rows, and each row stands for more
        of the other: what a rare class looks like is told by its own rows.
        """
        if size >= self.n:
            return self
        values, counts = np.unique(self.y, return_counts=True)
        if values.size != 2:
            return self._part(np.sort(rng.choice(self.n, size, replace=False)), 1.0)
        rarer = int(np.argmin(counts))
        places = np.zeros(2, dtype=np.int64)
        places[rarer] = min(counts[rarer], size // 2)
        places[1 - rarer] = size - places[rarer]
        drawn = [
            rng.choice(np.flatnonzero(self.y == value), place, replace=False)
            for value, place in zip(values, places, strict=True)
        ]
        index = np.concatenate(drawn)
        order = np.argsort(index)
        return self._part(index[order], np.repeat(counts / np.maximum(places, 1), places)[order])

    def _part(self, index: IntArray, times: Array | float) -> Observations:
        return Observations(self.X[index], self.y[index], self.weight[index] * times)


@dataclass(frozen=True)
class GeneralConfig:
    """What an estimator's parameters ask of a fit."""

    sparse: SparseConfig  # inducing points, searches; its `optimizer` may be "adam"
    inference: str  # full passes, mini-batches, or the former while their rows fit in 2 GiB
    schedule: svi.Schedule  # iterations, tolerance, mini-batches
    learning_rate: float  # step of Adam
    most_rows: int = _FEW  # rows that a search looks at


@dataclass(frozen=True, eq=False)
class GeneralStart:
    """Where an earlier fit ended."""

    kernel: Kernel  # with its learnt hyper-parameters
    points: Features  # (M, d): inducing points
    likelihood: Likelihood  # with its own parameters learnt
    state: svi.State | None = None  # posterior of the inducing points' variables


@dataclass(frozen=True, eq=False)
class GeneralFit:
    """Result of `fit_general`."""

    latent: SparseLatent  # posterior of f
    end: GeneralStart  # hyper-parameters, inducing points and state
    inference: str  # what "auto" stood for
    bounds: list[float]  # bound after each pass of the last inference
    n_iter: int  # number of these passes
    converged: bool  # whether it and the searches met their tolerance


@dataclass(eq=False)
class _Evidence:
    """The bound at its best q as a function of kernel and points; each call starts where the last one ended.

    It does so in two ways, of which the higher bound wins: with the same q of the whitened variables, or with the same
    sites, to which q is conjugate in the new basis ([ACKS21]_). Where noise is much of it the sites hardly depend on
    the kernel, and the latter saves half of the steps.

    .. [ACKS21] Adam, Chang, Khan and Solin, "Dual parameterization of sparse variational Gaussian processes", NeurIPS
       2021.
    """

    data: Observations
    likelihood: Likelihood
    max_iter: int
    state: svi.State | None = None
    seen: svi.Evaluation | None = None
    left_open: float = 0.0

    def __call__(self, here: SparseStart) -> tuple[Slopes, float]:
        basis = InducingBasis.at(here.kernel, here.points)
        problem = svi.Problem((row_term(basis, self.data.X, "f"),), self.likelihood, self.data.y, self.data.weight)
        start = self._start(problem)
        result = svi.fit(problem, start, svi.Schedule(self.max_iter, _SEARCH_TOL), np.random.default_rng(0))
        seen, term = result.evaluation, problem.terms[0]
        assert seen is not None  # noqa: S101 - full data
        self.state, self.likelihood, self.seen = result.state, result.likelihood, seen
        theta, points = inducing_gradient(basis, self.data.X, problem, result.state, seen)
        if term.residual is not None:
            self.left_open = 0.5 * float(seen.sites.weight @ term.residual)
        return Slopes(seen.bound, theta, 0.0, points), float(self.data.weight.sum())

    def _start(self, problem: svi.Problem) -> svi.State:
        if self.state is None:
            return _first_state(problem)
        if self.seen is None:
            return self.state
        sites, term = self.seen.sites, problem.terms[0]
        precision = term.gram(sites.weight)
        precision[np.diag_indices_from(precision)] += 1.0
        block = DenseBlock(precision, term.rmatvec(sites.pseudo_linear(self.seen.mu)))
        other = self.state.with_blocks({0: block})
        return max((self.state, other), key=lambda state: svi.evaluate(problem, state).bound)


def _first_state(problem: svi.Problem) -> svi.State:
    return svi.initial_state(problem, {"f": FixedScale(1.0)})


def fit_general(
    data: Observations,
    likelihood: Likelihood,
    kernel: Kernel | None,
    config: GeneralConfig,
    rng: np.random.Generator,
    start: GeneralStart | None = None,
    *,
    held: bool = False,
) -> GeneralFit:
    """Fit f through inducing points under any likelihood."""
    sparse = replace(config.sparse, noise=1.0)  # what noise there is belongs to the likelihood
    distinct = data.X[np.sort(unique_rows(data.X)[0])]
    with limit_blas_threads(min(sparse.n_inducing, data.n)):
        state = None
        if start is None:
            first = first_start(distinct, kernel, sparse, rng)
        else:
            earlier = SparseStart(start.kernel, 1.0, start.points)
            first = earlier if held else going_on(distinct, earlier, sparse, rng)
            likelihood = start.likelihood
            state = start.state if first.points is start.points else None
        run = Run(sparse, first)
        if sparse.optimizer == "l-bfgs-b" and not held:
            sample = data.sample(config.most_rows, rng)
            starts = [first, shorter(first)] if kernel is None and start is None and data.n <= _ALL else [first]
            looks = [_Evidence(sample, likelihood, config.schedule.max_iter, state) for _ in starts]
            runs = [Run(sparse, begin) for begin in starts]
            for one, look in zip(runs, looks, strict=True):
                one.search(look)
            # Few rows may have several optima: on ``ionosphere`` (34 features) they are .01 nats a row apart.
            run, look = max(zip(runs, looks, strict=True), key=lambda pair: max(pair[0].trace, default=-np.inf))
            if may_move(distinct, run.end, sparse) and (
                sparse.learn_inducing is True or pays_to_move(look.left_open, float(sample.weight.sum()))
            ):
                run.search(look, points=True)
            state, likelihood = look.state, look.likelihood
        result = _last(data, likelihood, run.end, state, config, rng, held=held)
        return replace(result, converged=result.converged and run.converged)


def _last(
    data: Observations,
    likelihood: Likelihood,
    end: SparseStart,
    state: svi.State | None,
    config: GeneralConfig,
    rng: np.random.Generator,
    *,
    held: bool,
) -> GeneralFit:
    """The last inference, on all rows."""
    basis, sparse = InducingBasis.at(end.kernel, end.points), config.sparse
    whole = full_passes_fit(data.n, basis.chol.shape[0])
    adam = sparse.optimizer == "adam" and not held
    inference = config.inference
    if inference == "auto":
        inference = "vb" if whole and not adam else "svi"
    in_batches = inference == "svi"
    term = row_term(basis, data.X, "f") if whole and not in_batches else InducingTerm(basis, data.X)
    learns = sparse.optimizer is not None
    problem = svi.Problem((term,), likelihood, data.y, data.weight, learns=learns)
    state = _first_state(problem) if state is None else svi.State(state.blocks, state.scales)
    schedule = config.schedule if in_batches else replace(config.schedule, batch_size=None)
    if in_batches and config.schedule.batch_size is not None:
        schedule = replace(schedule, batch_size=min(config.schedule.batch_size, max(1, data.n - 1)))
    tuner = _Tuner(data, basis, config) if adam and in_batches else None
    if tuner is not None:
        schedule = replace(schedule, tune=tuner)
    result = svi.fit(problem, state, schedule, rng)
    basis = basis if tuner is None else tuner.basis
    likelihood = result.likelihood if tuner is None or tuner.learnt is None else tuner.learnt
    block = result.state.blocks[0]
    assert isinstance(block, DenseBlock)  # noqa: S101
    latent = SparseLatent(basis, block.mean, np.ascontiguousarray(block.inverse_chol))
    ended = GeneralStart(basis.kernel, basis.points, likelihood, result.state)
    return GeneralFit(latent, ended, inference, result.bounds, len(result.bounds), result.converged)


@dataclass(eq=False)
class _Tuner:
    """Adam on kernel, points and Gaussian noise between the natural-gradient steps, at the q of the step before."""

    data: Observations
    basis: InducingBasis
    config: GeneralConfig
    learnt: Gaussian | None = None
    step: int = 0
    averages: Array | None = None

    def __call__(self, problem: svi.Problem, batch: svi.Problem, index: IntArray, state: svi.State) -> svi.Problem:
        sparse, here = self.config.sparse, problem.likelihood
        seen = svi.evaluate(batch, state)
        theta, moved = inducing_gradient(self.basis, self.data.X[index], batch, state, seen)
        kernel, points = self.basis.kernel, self.basis.points
        parts = [theta, np.zeros(0), np.zeros(0)]
        if isinstance(here, Gaussian) and sparse.noise is None:
            square = (batch.y - seen.mu) ** 2 + seen.v
            parts[1] = np.array([0.5 * float(batch.weight @ (square * here.precision - 1.0))])
        if moved is not None and may_move(self.data.X, SparseStart(kernel, 1.0, points), sparse):
            parts[2] = np.ravel(moved)
        ascent = self._step(np.concatenate(parts) / float(self.data.weight.sum()))
        in_theta, in_noise, in_points = np.split(ascent, np.cumsum([part.size for part in parts])[:-1])
        bounds = np.reshape(kernel.bounds, (-1, 2))
        kernel = kernel.clone_with_theta(np.clip(kernel.theta + in_theta, bounds[:, 0], bounds[:, 1]))
        if isinstance(here, Gaussian) and in_noise.size:
            here = Gaussian(here.precision * float(np.exp(-in_noise[0])))
            self.learnt = here
        if in_points.size:
            points = points + in_points.reshape(points.shape)
        self.basis = InducingBasis.at(kernel, points)
        return replace(problem, terms=(InducingTerm(self.basis, self.data.X),), likelihood=here)

    def _step(self, gradient: Array) -> Array:
        self.step += 1
        if self.averages is None:
            self.averages = np.zeros((2, gradient.size))
        forgets = np.array(_FORGETS)[:, None]
        self.averages = forgets * self.averages + (1.0 - forgets) * np.array([gradient, gradient**2])
        first, second = self.averages / (1.0 - forgets**self.step)
        return np.asarray(self.config.learning_rate * first / (np.sqrt(second) + _TINY))
