"""From labelled rows to a posterior of f, thresholds and noise: the search for hyper-parameters and the last fit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from skpref import inducing, kernels
from skpref._math.threads import limit_blas_threads
from skpref.data import unique_rows
from skpref.data.tables import same_rows
from skpref.exceptions import DataError
from skpref.gp.default_kernels import named_kernel
from skpref.gp.ordinal.evidence import ExactEvidence, SparseEvidence
from skpref.gp.ordinal.families import Found, weigh_families, with_absent_levels
from skpref.gp.ordinal.hyperparameters import Objective, Space, search
from skpref.gp.posterior import ExactLatent, SparseLatent
from skpref.inference import svi
from skpref.inference.basis import InducingBasis
from skpref.inference.blocks import DenseBlock
from skpref.inference.ep import variational_bound
from skpref.inference.scale import FixedScale
from skpref.likelihoods import OrdinalProbit

if TYPE_CHECKING:
    from collections.abc import Callable

    from sklearn.gaussian_process.kernels import Kernel

    from skpref._typing import Features
    from skpref.gp.ordinal.evidence import Evidence, OrdinalData

_SEARCH_ROWS = 20_000  # rows that the search of the sparse inference looks at
FINAL_TOL = 1e-6  # gap of the moments of the last exact fit
_SEARCH_TOL = 1e-3  # within a search: the evidence is stationary in the sites, so its error is of the order n 1e-6


@dataclass(frozen=True)
class OrdinalConfig:
    """What an estimator's parameters ask of a fit."""

    inference: str  # how the posterior is found; "auto" is resolved by then
    evidence: str  # what a search with "ep" maximises
    optimizer: str | None  # whether hyper-parameters are learnt
    n_restarts: int  # further starts of the search
    n_inducing: int  # inducing points of "vb" and "svi" at most
    inducing: str | Features  # how they are chosen
    schedule: svi.Schedule  # iterations, tolerance, mini-batches
    on_value: Callable[[float], object] | None = None  # told the evidence at every evaluation of an exact search


@dataclass(frozen=True, eq=False)
class OrdinalStart:
    """Where an earlier fit ended: what a warm start goes on from."""

    kernel: Kernel | None  # with its learnt hyper-parameters
    likelihood: OrdinalProbit  # thresholds and noise
    points: Features = None  # (M, d): inducing points
    state: svi.State | None = None  # posterior of their variables


@dataclass(frozen=True, eq=False)
class OrdinalMember:
    """One of the models that predictions average over."""

    weight: float  # its posterior probability among them
    latent: ExactLatent | SparseLatent  # posterior of f
    likelihood: OrdinalProbit  # thresholds and noise


@dataclass(frozen=True, eq=False)
class OrdinalFit:
    """Result of `fit_ordinal`."""

    latent: ExactLatent | SparseLatent  # posterior of f
    end: OrdinalStart  # hyper-parameters and state
    evidence: float  # log evidence by the inference that was asked for, in nats
    bound: float  # variational lower bound on it
    bounds: list[float]  # values of the search, or of the passes of a sparse fit
    n_iter: int  # iterations of the last inference; site updates that it left out
    n_skipped: int  # iterations of the last inference; site updates that it left out
    converged: bool  # whether it met its tolerance
    members: tuple[OrdinalMember, ...] = ()  # all models that predictions average over, this one first


def fit_ordinal(
    data: OrdinalData,
    n_levels: int,
    kernel: Kernel | str | None,
    config: OrdinalConfig,
    rng: np.random.Generator,
    start: OrdinalStart | None = None,
    *,
    held: bool = False,
) -> OrdinalFit:
    """Fit the model."""
    exact = config.inference in {"ep", "laplace"}
    with limit_blas_threads(data.n if exact else config.n_inducing):
        chosen, likelihood = _start(data, n_levels, kernel, rng, start)
        points, state = None, None
        if exact:
            evidence: Evidence = exact_evidence(data, config)
        else:
            points, state = _resumed(data, chosen, config, rng, start)
            thin = _thinned(data, rng)
            evidence = SparseEvidence(thin, points, _everything(thin, points, chosen), config.schedule)
        if kernel == "auto" and start is None and config.optimizer is not None:
            found = weigh_families(evidence, data.X, data.y, likelihood)
        else:
            found = [_learn(evidence, data, (chosen, likelihood), config, rng, held=held)]
        if exact:
            results = [_last_exact(data, one, config) for one in found]
        else:
            if isinstance(evidence, SparseEvidence) and evidence.last:
                state = evidence.last[0][1] if len(found) == 1 else None
            ends = [OrdinalStart(one.kernel, one.likelihood, points, state) for one in found]
            results = [last_sparse(data, end, config, rng) for end in ends]
    members = [
        OrdinalMember(one.weight, result.latent, result.end.likelihood)
        for one, result in zip(found, results, strict=True)
    ]
    return replace(results[0], members=tuple(members))


def exact_evidence(data: OrdinalData, config: OrdinalConfig, *, final: bool = False) -> ExactEvidence:
    """Return the evidence that a search maximises."""
    tol, told = (FINAL_TOL, None) if final else (_SEARCH_TOL, config.on_value)
    return ExactEvidence(
        data, config.inference, config.evidence == "bound", config.schedule.max_iter, tol, on_value=told
    )


def _start(
    data: OrdinalData, n_levels: int, kernel: Kernel | str | None, rng: np.random.Generator, start: OrdinalStart | None
) -> tuple[Kernel | None, OrdinalProbit]:
    """Where the search starts."""
    if start is not None:
        return start.kernel, start.likelihood
    likelihood = OrdinalProbit.start(data.y, n_levels, data.weight)
    if data.K is not None:
        return None, likelihood
    if kernel is None or isinstance(kernel, str):
        named = named_kernel(kernel or "", data.X, rng)
        if not np.all(np.isfinite(named.theta)):
            msg = "X holds numbers whose squares overflow or vanish in floating point: scale the features."
            raise DataError(msg)
        return named, likelihood
    return clone(kernel), likelihood


def _learn(
    evidence: Evidence,
    data: OrdinalData,
    first: tuple[Kernel | None, OrdinalProbit],
    config: OrdinalConfig,
    rng: np.random.Generator,
    *,
    held: bool,
) -> Found:
    """The hyper-parameters that the evidence prefers."""
    kernel, likelihood = first
    if config.optimizer is None:
        return Found(float("nan"), kernel, likelihood, [])
    if held:
        objective = Objective(_holding(evidence, kernel), with_absent_levels(Space(None, likelihood), data.y))
        _, likelihood, best = search(objective)
        return Found(best.value, kernel, likelihood, objective.trace)
    objective = Objective(evidence, with_absent_levels(Space(kernel, likelihood), data.y))
    kernel, likelihood, best = search(objective, n_restarts=config.n_restarts, rng=rng)
    return Found(best.value, kernel, likelihood, objective.trace)


def _holding(evidence: Evidence, kernel: Kernel | None) -> Evidence:
    """The evidence as a function of noise and thresholds alone."""
    return lambda _, likelihood: evidence(kernel, likelihood)._replace(in_kernel=np.zeros(0))


def _last_exact(data: OrdinalData, found: Found, config: OrdinalConfig) -> OrdinalFit:
    kernel, likelihood = found.kernel, found.likelihood
    _, q = exact_evidence(data, config, final=True).infer(kernel, likelihood)
    prior = float("nan") if data.K is None else float(np.mean(np.diagonal(data.K)))
    latent = ExactLatent(kernel, data.X, q.alpha, q.root_w, q.chol, prior)
    bound = variational_bound(likelihood, data.y, data.weight, q)
    end = OrdinalStart(kernel, likelihood)
    return OrdinalFit(latent, end, q.log_evidence, bound, found.trace, q.n_iter, q.n_skipped, q.converged)


def last_sparse(data: OrdinalData, start: OrdinalStart, config: OrdinalConfig, rng: np.random.Generator) -> OrdinalFit:
    """Infer through inducing points with the kernel held, thresholds and noise learnt on the way."""
    kernel, points = start.kernel, start.points
    assert kernel is not None  # noqa: S101 - a given covariance has no inducing points
    evidence = SparseEvidence(data, points, _everything(data, points, kernel), config.schedule)
    basis = InducingBasis.at(kernel, points)
    problem = evidence.problem(basis, start.likelihood, learns=config.optimizer is not None)
    state = svi.initial_state(problem, {"f": FixedScale(1.0)})
    if start.state is not None:
        state = svi.State(start.state.blocks, state.scales)
    schedule = config.schedule if config.inference == "svi" else replace(config.schedule, batch_size=None)
    result = svi.fit(problem, state, schedule, rng)
    block = result.state.blocks[0]
    assert isinstance(block, DenseBlock)  # noqa: S101
    assert isinstance(result.likelihood, OrdinalProbit)  # noqa: S101
    latent = SparseLatent(basis, block.mean, np.ascontiguousarray(block.inverse_chol))
    bound = result.bounds[-1] if result.evaluation is None else result.evaluation.bound
    end = OrdinalStart(kernel, result.likelihood, points, result.state)
    return OrdinalFit(latent, end, bound, bound, result.bounds, len(result.bounds), 0, result.converged)


def _resumed(
    data: OrdinalData,
    kernel: Kernel | None,
    config: OrdinalConfig,
    rng: np.random.Generator,
    start: OrdinalStart | None,
) -> tuple[Features, svi.State | None]:
    """Inducing points, and the state of their variables to go on from: points stay once they are as many as may be."""
    before = None if start is None else start.points
    if start is None or before is None:
        return _points(data, kernel, config, rng), None
    if isinstance(config.inducing, str) and before.shape[0] >= config.n_inducing:
        return before, start.state
    points = _points(data, kernel, config, rng)
    same = before.shape == points.shape and same_rows(before, points)
    return points, start.state if same else None


def _points(data: OrdinalData, kernel: Kernel | None, config: OrdinalConfig, rng: np.random.Generator) -> Features:
    scale: Any = getattr(kernel, "length_scale", None)
    scale = scale if scale is None or np.all(np.isfinite(scale)) else None
    return inducing.choose(data.X, config.n_inducing, config.inducing, rng, scale, kernel=kernel)


def _everything(data: OrdinalData, points: Features, kernel: Kernel | None) -> bool:
    """Whether the inducing points are the rows themselves, so that they leave nothing open."""
    distinct = data.X[unique_rows(data.X)[0]]
    if points.shape != distinct.shape or not same_rows(points, distinct):
        return False
    # White noise is in the inducing points' covariance but not in the rows.
    return np.array_equal(kernels.diagonal(kernel, points), kernels.paired(kernel, points, points))


def _thinned(data: OrdinalData, rng: np.random.Generator) -> OrdinalData:
    """A sample of the rows that stands for all."""
    if data.n <= _SEARCH_ROWS:
        return data
    index = np.sort(rng.choice(data.n, _SEARCH_ROWS, replace=False))
    weight = data.weight[index]
    return replace(data, X=data.X[index], y=data.y[index], weight=weight * (data.weight.sum() / weight.sum()))
