"""Gibbs sampling of a factorization machine of ordered levels by data augmentation (docs/maths section 9)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from skpref._checks import require
from skpref._compiled.fm_draws import draw_features, drawn_evidence, row_values, truncated_normals
from skpref._compiled.streams import normal_rows
from skpref._estimator import digest
from skpref._warn import warn
from skpref.exceptions import DataError
from skpref.factorization.machine.fields import Design, design_of
from skpref.factorization.machine.model import Bias, Prior
from skpref.factorization.machine.posterior import FMDraws, FMPosterior
from skpref.inference.checkpoint import Checkpoint
from skpref.inference.gibbs import Chain, Info, Plan, run, split_rhat, warning_limit

if TYPE_CHECKING:
    from collections.abc import Callable

    from skpref._events import OnIteration
    from skpref._typing import Array, Features, IntArray
    from skpref.factorization.machine.model import Machine
    from skpref.inference.gibbs import State, Step
    from skpref.likelihoods import OrdinalProbit

PERIOD = 3  # sweeps from one draw of the thresholds, the dearest part of a sweep, to the next
# Correlation of a feature's draw with the one before given the rest [Adl81]: what one errs by, the next makes good.
_RELAXATION = -0.9
_TAU = 10.0  # autocorrelation time of the log likelihood, in draws of the thresholds
_KEPT = ("theta", "bias", "thresholds", "nu", "lam")
# Streams of random numbers, named by seed, sweep and these.
_START, _LATENT, _FEATURES, _COMMON = range(4)


class ChainOptions(NamedTuple):
    """Options of a chain."""

    n_sweeps: int
    burn_in: int
    most_draws: int = 200  # that are kept
    learn_priors: bool = False  # see `drawn_prior`
    checkpoint: Checkpoint | None = None
    on_iteration: OnIteration | None = None
    fitted: Callable[[FMPosterior], Any] | None = None  # an estimator with the posterior so far, for events


@dataclass(frozen=True)
class ChainProblem:
    """Rows, their levels, and what the chain does not change."""

    design: Design
    level: IntArray  # (n,)
    machine: Machine  # where the chain starts
    learn_priors: bool = False


def start_state(machine: Machine, seed: int) -> State:
    """Return a draw from a variational posterior."""
    normals = normal_rows(seed, 0, _START, np.arange(machine.mean.shape[0]), machine.mean.shape[1])
    roots = np.linalg.cholesky(machine.with_posterior(full=True).variance)
    return {
        "theta": machine.mean + np.einsum("kab,kb->ka", roots, normals),
        "bias": np.array(machine.bias.mean),
        "thresholds": np.array(cast("OrdinalProbit", machine.likelihood).thresholds),
        "nu": machine.prior.nu.copy(),
        "lam": machine.prior.lam.copy(),
        "log_p": np.array(0.0),  # log likelihood when the thresholds were drawn
        "seed": np.array(seed, dtype=np.uint64),
    }


def step_of(problem: ChainProblem) -> Step:
    """Return the sweep of a chain."""
    design, level, machine = problem.design, problem.level, problem.machine
    unseen = np.bincount(design.patterns.indices, minlength=machine.mean.shape[0]) == 0
    likelihood, group = cast("OrdinalProbit", machine.likelihood), machine.prior.group
    seen = np.flatnonzero(~unseen)
    members = sparse.csr_array((np.ones(seen.size), (group[seen], seen)), (len(machine.prior.nu), group.size))

    def sweep(state: State, number: int) -> tuple[State, Info]:
        seed, theta = int(state["seed"]), state["theta"].copy()
        rng = np.random.default_rng([seed, number, _COMMON])
        table = design.table(theta)
        values = row_values(design.codes, table)
        thresholds, log_p = state["thresholds"], state["log_p"]
        if number % PERIOD == 1:
            # Thresholds given y(x) alone, then the noisy y(x) given the thresholds: both at once given y(x).
            now = replace(likelihood, thresholds=tuple(thresholds.tolist()))
            now, value = now.drawn_thresholds(level, values + state["bias"], rng)
            thresholds, log_p = np.array(now.thresholds), np.array(value)
        latent = truncated_normals(values + state["bias"], level, thresholds, (seed, number, _LATENT))
        precision = level.size + 1.0 / machine.bias_prior.variance
        bias = (latent - values).sum() / precision + rng.standard_normal() / np.sqrt(precision)
        nu, lam = state["nu"], state["lam"]
        if problem.learn_priors:
            nu, lam = drawn_prior(machine.prior, lam, theta, members, rng)
            if number % PERIOD == 2:
                theta, lam = rescaled(problem, {"theta": theta, "lam": lam}, values, latent - bias, rng)
                table = design.table(theta)
        noise = normal_rows(seed, number, _FEATURES, np.arange(group.size), theta.shape[1])
        for f, (columns, ranges) in enumerate(design.parts):
            evidence = drawn_evidence(f, design.holders, design.codes, design.offsets, latent - bias, table)
            offset = int(design.offsets[f])
            if not draw_features(columns, ranges, offset, theta, (nu, lam, group), evidence, table, noise, _RELAXATION):
                raise DataError(f"a feature's weight and factors overflow in sweep {number}; scale X.")
        theta[unseen] = (nu[group] + noise / np.sqrt(lam[group]))[unseen]
        state = {**state, "theta": theta, "bias": np.array(bias), "nu": nu, "lam": lam}
        state = {**state, "thresholds": thresholds, "log_p": np.array(log_p)}
        return state, Info(float(log_p), {"risk": -float(log_p)}, {})

    return sweep


def drawn_prior(
    prior: Prior, lam: Array, theta: Array, members: sparse.csr_array, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Draw means and precisions of the groups' priors given the features that rows have, shape (G, 1 + d) each.

    Mean and precision of the weights are drawn with the hyper-priors of the variational fit. The factors keep their
    means and the ratios of their precisions: only a common multiple, with a hyper-prior Gamma(1, 1), is drawn.
    """
    n = np.asarray(members.sum(axis=1))
    nu, w, d = prior.nu.copy(), theta[:, 0], theta.shape[1] - 1
    precision = n * lam[:, 0] + 1.0
    drawn = lam[:, 0] * (members @ w) / precision + rng.standard_normal(n.size) / np.sqrt(precision)
    nu[:, 0] = np.where(n > 0.0, drawn, nu[:, 0])
    squares = members @ (theta - nu[prior.group]) ** 2
    of_weights = rng.gamma(1.0 + 0.5 * n) / (1.0 + 0.5 * squares[:, 0])
    multiple = rng.gamma(1.0 + 0.5 * n * d) / (1.0 + 0.5 * (prior.lam * squares)[:, 1:].sum(axis=1))
    drawn = np.column_stack([of_weights, prior.lam[:, 1:] * multiple[:, None]])
    return nu, np.where(n[:, None] > 0.0, drawn, prior.lam)


def sampled(posterior: FMPosterior, X: Features, level: IntArray, options: ChainOptions, seed: int) -> FMPosterior:
    """Return the posterior with draws by a chain that starts from it; unchanged if stopped before it has two."""
    problem = ChainProblem(design_of(X), level, posterior.last, options.learn_priors)
    fitted = options.fitted
    plan = Plan(
        options.n_sweeps,
        options.burn_in,
        options.most_draws,
        keep=lambda state: {name: state[name].astype(np.float32 if name == "theta" else float) for name in _KEPT},
        average=lambda *_: {},
        checkpoint=options.checkpoint,
        check=check_resumed,
        on_iteration=options.on_iteration,
        fitted=None if fitted is None else lambda chains: fitted(with_draws(posterior, chains[0], options.burn_in)),
    )
    (chain,) = run([Chain(start_state(problem.machine, seed))], lambda _: step_of(problem), plan)
    return with_draws(posterior, chain, options.burn_in)


def rescaled(
    problem: ChainProblem, state: State, values: Array, target: Array, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Draw a scale of each group's factors together with their precisions, given the rows' targets of y(x) - w_0."""
    design, (nu, first_lam, group) = problem.design, problem.machine.prior
    theta, lam = state["theta"], state["lam"].copy()
    for g in range(len(lam) if theta.shape[1] > 1 else 0):
        away = np.where(group[:, None] == g, theta - nu[group], 0.0)  # the means of factors are not drawn
        away[:, 0] = 0.0
        # y(x) - w_0 = A + B s + C s^2 where deviations from the prior's mean are s times as large.
        at_zero, at_minus = (row_values(design.codes, design.table(theta - k * away)) for k in (1.0, 2.0))
        terms = np.column_stack([target - at_zero, 0.5 * (values - at_minus), 0.5 * (values + at_minus) - at_zero])
        s = _drawn_scale(terms.T @ terms, lam[g, 1] / first_lam[g, 1], rng)
        theta, values = theta + (s - 1.0) * away, at_zero + s * terms[:, 1] + s * s * terms[:, 2]
        lam[g, 1:] /= s * s
    return theta, lam


def _drawn_scale(gram: Array, c: float, rng: np.random.Generator) -> float:
    """Return a scale by a step of Metropolis and Hastings from 1, given products of target - A, B, C and a multiple."""

    def parts(s: float) -> tuple[float, float, float]:
        """Log density up to a constant, and mean and precision of the proposal."""
        powers, slope = np.array([1.0, -s, -s * s]), np.array([0.0, 1.0, 2.0 * s])
        precision = slope @ gram @ slope
        log_p = -0.5 * powers @ gram @ powers - c / (s * s) - 3.0 * np.log(s)
        return float(log_p), float(s + slope @ gram @ powers / precision), float(precision)

    if not gram[1, 1] > 0.0:  # no row has such factors
        return 1.0
    log_p, mean, precision = parts(1.0)
    s = float(mean + rng.standard_normal() / np.sqrt(precision))
    log_u = np.log(rng.random())
    if s <= 0.0:
        return 1.0
    new_log_p, back, new_precision = parts(s)
    log_q = 0.5 * (np.log(precision) - precision * (s - mean) ** 2)
    log_back = 0.5 * (np.log(new_precision) - new_precision * (1.0 - back) ** 2)
    return s if log_u < new_log_p - log_p + log_back - log_q else 1.0


def warn_not_stationary(posterior: FMPosterior, name: str) -> None:
    """Warn if the log likelihood of the draws still changes from one half of the chain to the other."""
    if posterior.sampled is None:
        return
    trace = posterior.sampled.log_likelihoods
    r_hat, limit = split_rhat(trace[None]), warning_limit(1, PERIOD * trace.size, trace.size, _TAU)
    if r_hat > limit:
        msg = f"The chain of {name} is not stationary: R-hat of the log likelihood is {r_hat:.2f}, above {limit:.2f}."
        warn(f"{msg} Increase n_sweeps and burn_in.", ConvergenceWarning)


def checkpoint_of(
    path: Any, seconds: float, posterior: FMPosterior, data: tuple[Features, IntArray], settings: tuple[Any, ...]
) -> Checkpoint | None:
    """Return where a chain is saved, with a digest of its rows, where it starts, and further settings."""
    if path is None:
        return None
    machine = posterior.last
    tables = machine.mean, machine.variance, machine.prior.nu, machine.prior.lam, machine.prior.group
    return Checkpoint(Path(path), digest((settings, machine.likelihood, machine.bias), *data, *tables), float(seconds))


def check_resumed(start: Chain, chain: Chain) -> None:
    """Raise DataError unless a chain from a checkpoint has the arrays of a chain from this start."""
    kept = {name: start.state[name] for name in _KEPT}
    parts: list[tuple[str, State, State, Any]] = [("state", start.state, chain.state, np.float64)]
    parts += [("samples", kept, sample, np.float32) for sample in chain.samples]
    for part, expected, state, of_theta in parts:
        require(state.keys() == expected.keys(), chain, part, f"must have {', '.join(expected)}")
        for name, table in expected.items():
            dtype = np.dtype(of_theta) if name == "theta" else table.dtype
            sound = state[name].shape == table.shape and state[name].dtype == dtype and np.isfinite(state[name]).all()
            require(bool(sound), chain, part, f"must have finite {name} of shape {table.shape} and type {dtype}")
        ordered = np.all(np.diff(state["thresholds"]) > 0.0) and np.all(state["lam"] > 0.0)
        require(bool(ordered), chain, part, "must have ascending thresholds and positive precisions")
    require(chain.state["seed"] == start.state["seed"], chain, "state", "has another seed")


def with_draws(posterior: FMPosterior, chain: Chain, burn_in: int) -> FMPosterior:
    """Return a posterior with the draws of a chain, and the machine of their means; unchanged by less than two."""
    if len(chain.samples) < 2:
        return posterior
    samples = {name: np.stack([sample[name] for sample in chain.samples]) for name in _KEPT}
    # Of sweeps without a draw of the thresholds it is the one before.
    log_likelihoods = -np.array(chain.trace["risk"])[burn_in:][(np.arange(burn_in, chain.sweep) % PERIOD) == 0]
    # y(x) and the thresholds may move together: only their differences matter.
    centre = samples["thresholds"].mean(axis=1)
    bias = samples["bias"] - centre + centre.mean()
    thresholds = (samples["thresholds"] - centre[:, None]).mean(axis=0) + centre.mean()
    theta, machine = samples["theta"], posterior.last
    likelihood = replace(cast("OrdinalProbit", machine.likelihood), thresholds=tuple(thresholds.tolist()))
    machine = replace(
        machine,
        bias=Bias(float(bias.mean()), float(bias.var())),
        mean=theta.mean(axis=0, dtype=np.float64),
        variance=np.maximum(theta.var(axis=0, dtype=np.float64), np.finfo(np.float64).tiny),
        prior=Prior(samples["nu"].mean(axis=0), samples["lam"].mean(axis=0), machine.prior.group),
        likelihood=likelihood,
    )
    return replace(posterior, machine=machine, sampled=FMDraws(theta, bias, log_likelihoods))
