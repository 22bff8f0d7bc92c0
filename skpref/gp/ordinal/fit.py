"""Fit of an ordinal model: a search for the hyper-parameters, then the inference at full precision."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from sklearn.base import clone

from skpref import inducing
from skpref._checks import check_indices, check_positive, check_types, require
from skpref._math.threads import limit_blas_threads
from skpref.data.tables import same_rows
from skpref.exceptions import DataError
from skpref.gp.default_kernels import named_kernel
from skpref.gp.ordinal.evidence import EvidenceValue, ExactEvidence, SparseEvidence
from skpref.gp.ordinal.families import FamilyFit, SearchRows, weigh_families, with_absent_levels
from skpref.gp.ordinal.forward import add_features, has_many_weights
from skpref.gp.ordinal.hyperparameters import HyperparameterSpace, LogPosterior, search
from skpref.gp.ordinal.policy import POLICY
from skpref.gp.points import determine_rows
from skpref.gp.posterior import (
    ExactLatent,
    SparseLatent,
    WarmStart,
    check_inducing_state,
    check_kept_rows,
    check_latent,
)
from skpref.inference import svi
from skpref.inference.basis import InducingBasis
from skpref.inference.blocks import DenseBlock
from skpref.inference.ep import cavities, variational_bound
from skpref.inference.scale import FixedScale
from skpref.likelihoods import OrdinalLogit, OrdinalProbit, OrdinalRobust

if TYPE_CHECKING:
    from collections.abc import Callable

    from sklearn.gaussian_process.kernels import Kernel

    from skpref._typing import Array, Features
    from skpref.gp.ordinal.evidence import Evidence, OrdinalData

LIKELIHOODS: Final = {"probit": OrdinalProbit, "logit": OrdinalLogit, "robust": OrdinalRobust}


@dataclass(frozen=True)
class OrdinalConfig:
    """Settings of a fit, from the estimator's parameters."""

    inference: str  # "ep", "laplace", "vb" or "svi"
    likelihood: str  # "auto" or one of LIKELIHOODS
    evidence: str  # objective of a search with "ep": "ep" or "bound"
    n_restarts: int | None  # further starts of the search; None: hyper-parameters stay as they are
    n_inducing: int  # largest number of inducing points of "vb" and "svi"
    inducing: str | Features  # how they are chosen, or the points
    schedule: svi.Schedule  # iterations, tolerance, mini-batches
    on_value: Callable[[float], object] | None = None  # called with the evidence at every evaluation of an exact search


@dataclass(frozen=True, eq=False)
class OrdinalMember:
    """One of the models that predictions average over."""

    weight: float  # its posterior probability
    latent: ExactLatent | SparseLatent  # posterior of f
    likelihood: OrdinalProbit  # thresholds and noise

    def validate(self) -> None:
        """Raise DataError unless the parts fit together."""
        check_positive(self, "weight")
        check_types(self, latent=ExactLatent | SparseLatent, likelihood=OrdinalProbit)


@dataclass(frozen=True, eq=False)
class OrdinalFit:
    """Result of a fit."""

    latent: ExactLatent | SparseLatent  # posterior of f
    kernel: Kernel | None  # with its learnt hyper-parameters
    likelihood: OrdinalProbit  # thresholds and noise
    state: svi.State | None  # posterior of the inducing variables
    evidence: float  # log evidence by the inference that was asked for, in nats
    bound: float  # variational lower bound on it
    bounds: list[float]  # values of the search, or after the passes of a sparse inference
    n_iter: int  # iterations of the last inference
    n_skipped: int  # site updates that it left out
    converged: bool  # whether it met its tolerance
    members: tuple[OrdinalMember, ...] = ()  # all models that predictions average over, this one first


def fit_ordinal(
    data: OrdinalData,
    n_levels: int,
    kernel: Kernel | str | None,
    config: OrdinalConfig,
    rng: np.random.Generator,
    start: WarmStart | None = None,
) -> OrdinalFit:
    """Search for the hyper-parameters, then infer the posterior of every model that is kept."""
    exact = config.inference in {"ep", "laplace"}
    with limit_blas_threads(data.n if exact else config.n_inducing):
        first_kernel, likelihood = _first_hyperparameters(data, n_levels, kernel, config, rng, start)
        fixed_kernel = start is not None and start.search == "skip"
        if kernel == "auto" and start is None and config.n_restarts is not None:
            families = _sampled_families(_seen(data, rng), likelihood, config, rng)
            fits = [
                _infer_exact(data, family, config)
                if exact
                else _infer_sparse(data, family, _choose_points(data, family.kernel, config, rng), None, config, rng)
                for family in families
            ]
        elif exact:
            evidence = _exact_evidence(data, config)
            families = [_search(evidence, data, first_kernel, likelihood, config, rng, fixed_kernel=fixed_kernel)]
            fits = [_infer_exact(data, families[0], config)]
        else:
            points, state = _inducing_points(data, first_kernel, config, rng, start)
            sparse_evidence = _sparse_evidence(_sample(data, POLICY.sample_rows, rng), points, first_kernel, config)
            families = [
                _search(sparse_evidence, data, first_kernel, likelihood, config, rng, fixed_kernel=fixed_kernel)
            ]
            state = state if sparse_evidence.last is None else sparse_evidence.last[1]
            fits = [_infer_sparse(data, families[0], points, state, config, rng)]
    members = [
        OrdinalMember(family.weight, fit.latent, fit.likelihood) for family, fit in zip(families, fits, strict=True)
    ]
    return replace(fits[0], members=tuple(members))


def _first_hyperparameters(
    data: OrdinalData,
    n_levels: int,
    kernel: Kernel | str | None,
    config: OrdinalConfig,
    rng: np.random.Generator,
    start: WarmStart | None,
) -> tuple[Kernel | None, OrdinalProbit]:
    """Return kernel and likelihood at the start of the search."""
    if start is not None:
        assert isinstance(start.likelihood, OrdinalProbit)  # noqa: S101
        return start.kernel, start.likelihood
    likelihood = LIKELIHOODS.get(config.likelihood, OrdinalProbit).start(data.y, n_levels, data.weight)
    if data.K is not None:
        return None, likelihood
    if kernel is None or isinstance(kernel, str):
        default = named_kernel(kernel or "", data.X, rng)
        if not np.all(np.isfinite(default.theta)):
            msg = "X holds numbers whose squares overflow or underflow: scale the features, e.g. by StandardScaler."
            raise DataError(msg)
        return default, likelihood
    return clone(kernel), likelihood


# --------------------------------------------------------------------------------------------------------------- search
def _exact_evidence(data: OrdinalData, config: OrdinalConfig, *, final: bool = False) -> ExactEvidence:
    """Return the objective by exact inference, for a search or for the final inference."""
    tol, on_value = (POLICY.final_tol, None) if final else (POLICY.search_tol, config.on_value)
    return ExactEvidence(
        data, config.inference, config.evidence == "bound", config.schedule.max_iter, tol, on_value=on_value
    )


def _sparse_evidence(
    data: OrdinalData, points: Features, kernel: Kernel | None, config: OrdinalConfig
) -> SparseEvidence:
    """Return the objective of a search through inducing points."""
    return SparseEvidence(data, points, determine_rows(points, data.X, kernel), config.schedule)


def _search(
    evidence: Evidence,
    data: OrdinalData,
    kernel: Kernel | None,
    likelihood: OrdinalProbit,
    config: OrdinalConfig,
    rng: np.random.Generator,
    *,
    fixed_kernel: bool,
) -> FamilyFit:
    """Return the hyper-parameters of the highest evidence."""
    if config.n_restarts is None:
        return FamilyFit(float("nan"), kernel, likelihood, [], HyperparameterSpace(kernel, likelihood))
    if fixed_kernel:
        space = with_absent_levels(HyperparameterSpace(None, likelihood), data.y)
        objective = LogPosterior(_with_fixed_kernel(evidence, kernel), space)
        _, likelihood, optimum = search(objective)
    else:
        objective = LogPosterior(evidence, with_absent_levels(HyperparameterSpace(kernel, likelihood), data.y))
        optimum_at = search(objective, n_restarts=config.n_restarts, rng=rng)
        if isinstance(evidence, ExactEvidence) and kernel is not None and has_many_weights(kernel, data.n):
            space = HyperparameterSpace(*add_features(evidence, kernel, likelihood))
            other = LogPosterior(evidence, with_absent_levels(space, data.y), trace=objective.trace)
            objective, optimum_at = max(
                (objective, optimum_at), (other, search(other)), key=lambda found: found[1][2].value
            )
        kernel, likelihood, optimum = optimum_at
    return FamilyFit(optimum.value, kernel, likelihood, objective.trace, objective.space)


def _sampled_families(
    data: OrdinalData, likelihood: OrdinalProbit, config: OrdinalConfig, rng: np.random.Generator
) -> list[FamilyFit]:
    """Search all families at samples of rows, then thresholds and noise of the best at all rows, by "ep".

    Laplace's evidence overrates kernels with little noise: a mode between two thresholds has hardly any curvature.
    """
    exact = config.inference in {"ep", "laplace"}  # else thresholds and noise are learnt with the posterior
    config = replace(config, inference="ep")
    sizes = POLICY.few_rows, POLICY.more_rows if exact else POLICY.sparse_rows
    few, more = (_sample(data, size, rng) for size in sizes)
    others = (OrdinalLogit, OrdinalRobust) if config.likelihood == "auto" and exact else ()
    few_rows, more_rows = (
        SearchRows(replace(_exact_evidence(rows, config), tol=POLICY.rough_tol), rows.X, rows.y) for rows in (few, more)
    )
    with limit_blas_threads(more.n):
        families = weigh_families(few_rows, more_rows if more.n > few.n else None, likelihood, others)
    return [_refined(data, family, config) for family in families] if exact and data.n > more.n else families


def _refined(data: OrdinalData, family: FamilyFit, config: OrdinalConfig) -> FamilyFit:
    """Fit thresholds and noise to the predictions of each row by all others, with the kernel as it is.

    At a fixed point this maximises the evidence, whose gradient is that of the predictions ([RW06] section 5.5.2).
    """
    evidence = replace(_exact_evidence(data, config), tol=POLICY.rough_tol)
    likelihood, trace = family.likelihood, list(family.trace)
    for _ in range(POLICY.refinements):
        _, q = evidence.infer(family.kernel, likelihood)
        space = with_absent_levels(HyperparameterSpace(None, likelihood), data.y)
        _, likelihood, optimum = search(LogPosterior(_left_out(data, *cavities(q)), space), tol=POLICY.rough_tol)
        trace.append(optimum.value)
    return family._replace(likelihood=likelihood, trace=trace, last=evidence.last)


def _left_out(data: OrdinalData, mean: Array, variance: Array) -> Evidence:
    """Return the log probability of all labels where each f_i ~ N(mean_i, variance_i), as an evidence."""

    def evidence(kernel: Kernel | None, likelihood: OrdinalProbit) -> EvidenceValue:
        del kernel
        value = float(data.weight @ likelihood.tilted(data.y, mean, variance)[0])
        in_theta = likelihood.theta_tilted(data.y, mean, variance) @ data.weight
        return EvidenceValue(value, np.zeros(0), in_theta, converged=True)

    return evidence


def _with_fixed_kernel(evidence: Evidence, kernel: Kernel | None) -> Evidence:
    """Return the evidence as a function of noise and thresholds alone."""
    return lambda _, likelihood: evidence(kernel, likelihood)._replace(in_kernel=np.zeros(0))


# ------------------------------------------------------------------------------------------------------ final inference
def _infer_exact(data: OrdinalData, family: FamilyFit, config: OrdinalConfig) -> OrdinalFit:
    """Return the posterior at all rows."""
    kernel, likelihood = family.kernel, family.likelihood
    _, q = replace(_exact_evidence(data, config, final=True), last=family.last).infer(kernel, likelihood)
    prior = float("nan") if data.K is None else float(np.mean(np.diagonal(data.K)))
    latent = ExactLatent(kernel, data.X, q.alpha, q.root_w, q.chol, prior)
    bound = variational_bound(likelihood, data.y, data.weight, q)
    return OrdinalFit(
        latent, kernel, likelihood, None, q.log_evidence, bound, family.trace, q.n_iter, q.n_skipped, q.converged
    )


def _infer_sparse(
    data: OrdinalData,
    family: FamilyFit,
    points: Features,
    state: svi.State | None,
    config: OrdinalConfig,
    rng: np.random.Generator,
) -> OrdinalFit:
    """Return the posterior through inducing points; thresholds and noise are learnt on the way."""
    basis = InducingBasis.from_points(family.kernel, points)
    evidence = _sparse_evidence(data, points, family.kernel, config)
    problem = evidence.problem(basis, family.likelihood, learns=config.n_restarts is not None)
    start = svi.initial_state(problem, {"f": FixedScale(1.0)})
    if state is not None:
        start = svi.State(state.blocks, start.scales)
    schedule = config.schedule if config.inference == "svi" else replace(config.schedule, batch_size=None)
    result = svi.fit(problem, start, schedule, rng)
    block, likelihood = result.state.blocks["f"], result.likelihood
    assert isinstance(block, DenseBlock)  # noqa: S101
    assert isinstance(likelihood, OrdinalProbit)  # noqa: S101
    latent = SparseLatent(basis, block.mean, np.ascontiguousarray(block.inverse_chol))
    bound = result.bounds[-1] if result.evaluation is None else result.evaluation.bound
    n_iter = len(result.bounds)
    return OrdinalFit(
        latent, family.kernel, likelihood, result.state, bound, bound, result.bounds, n_iter, 0, result.converged
    )


# ------------------------------------------------------------------------------------------------------ inducing points
def _inducing_points(
    data: OrdinalData, kernel: Kernel | None, config: OrdinalConfig, rng: np.random.Generator, start: WarmStart | None
) -> tuple[Features, svi.State | None]:
    """Return the points of the earlier fit once there are `n_inducing`, else new ones; and the posterior at them."""
    if start is None or start.points is None:
        return _choose_points(data, kernel, config, rng), None
    if isinstance(config.inducing, str) and start.points.shape[0] >= config.n_inducing:
        return start.points, start.state
    points = _choose_points(data, kernel, config, rng)
    same = same_rows(start.points, points)
    return points, start.state if same else None


def _choose_points(
    data: OrdinalData, kernel: Kernel | None, config: OrdinalConfig, rng: np.random.Generator
) -> Features:
    """Choose inducing points by distances in the kernel's length-scales, shape (M, d)."""
    scale: Any = getattr(kernel, "length_scale", None)
    scale = scale if scale is None or np.all(np.isfinite(scale)) else None
    return inducing.choose(data.X, config.n_inducing, config.inducing, rng, scale, kernel=kernel)


def _seen(data: OrdinalData, rng: np.random.Generator) -> OrdinalData:
    """Return rows of weight >= 1 for "ep": one of weight w < 1 is seen with probability w, more often in small data."""
    if not np.any(data.weight < 1.0):
        return data
    p = np.minimum(data.weight, 1.0)
    p = np.minimum(p * max(1.0, POLICY.few_rows / float(p.sum())), 1.0)
    by_level = np.argsort(data.y, kind="stable")  # of every level a share
    index = np.sort(by_level[np.diff(np.floor(np.cumsum(p[by_level]) + rng.random()), prepend=0.0) > 0.0])
    return replace(data, X=data.X[index], y=data.y[index], weight=np.maximum(data.weight[index], 1.0))


def _sample(data: OrdinalData, n_rows: int, rng: np.random.Generator) -> OrdinalData:
    """Draw rows for a search, with their own weights: the evidence is the sample's."""
    if data.n <= n_rows:
        return data
    index = np.sort(rng.choice(data.n, n_rows, replace=False))
    return replace(data, X=data.X[index], y=data.y[index], weight=data.weight[index])


def check_fitted(estimator: Any) -> None:
    """Raise DataError unless the attributes of a fitted GPOrdinalRegressor fit together."""
    r, width, members, held = estimator.classes_.size, estimator.n_features_in_, estimator.ensemble_, vars(estimator)
    check_types(estimator, ensemble_=list, _precomputed=bool)
    models = bool(members) and all(isinstance(member, OrdinalMember) for member in members)
    require(models, estimator, "ensemble_", "must be a list of models")
    total = sum(member.weight for member in members)
    # Rounding of the sum of the members' weights.
    require(abs(total - 1.0) < 1e-6, estimator, "ensemble_", "has weights that do not add up to 1")
    likelihoods = [*(member.likelihood for member in members), estimator.likelihood_]
    levels = all(isinstance(held, OrdinalProbit) and held.n_levels == r for held in likelihoods)
    require(levels, estimator, "likelihood_", f"must be of {r} levels")
    require(estimator.thresholds_.shape == (r - 1,), estimator, "thresholds_", f"must be {r - 1}")
    n = check_kept_rows(estimator, held["_rows"], None if held["_precomputed"] else width)
    check_indices(estimator, "_rows", held["_rows"][1], 0, r, n)
    latents = [*(member.latent for member in members), estimator.posterior_]
    if held["_precomputed"]:
        exact = all(isinstance(q, ExactLatent) and q.kernel is None and q.alpha.size == n for q in latents)
        require(exact and estimator.kernel_ is None, estimator, "posterior_", f"must be of {n} rows without a kernel")
        check_indices(estimator, "_used", held["_used"], 0, width, n)
        require(np.unique(held["_used"]).size == n, estimator, "_used", "names a row twice")
        return
    for latent in latents:
        check_latent(estimator, latent, estimator.kernel_, width)
    if held["_state"] is not None:
        check_inducing_state(estimator, held["_state"], estimator.posterior_)
