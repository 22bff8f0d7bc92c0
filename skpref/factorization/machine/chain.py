"""Gibbs sampling of a factorization machine of ordered levels by data augmentation (docs/maths section 9)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skpref._checks import require
from skpref._compiled.fm_draws import draw_features, drawn_evidence, row_values, truncated_normals
from skpref._compiled.streams import normal_rows
from skpref._estimator import digest
from skpref._warn import warn
from skpref.exceptions import DataError
from skpref.factorization.machine.fields import design_of
from skpref.factorization.machine.model import Bias, Prior
from skpref.factorization.machine.moves import ChainProblem, draw_thresholds_and_scales
from skpref.factorization.machine.posterior import FMDraws, FMPosterior
from skpref.factorization.policy import POLICY
from skpref.inference.gibbs import Chain, Info, Plan, run, split_rhat, warning_limit
from skpref.settings import run_checkpoint

if TYPE_CHECKING:
    from collections.abc import Callable

    from skpref._events import OnIteration
    from skpref._typing import Array, Features, IntArray
    from skpref.factorization.machine.model import Machine
    from skpref.inference.checkpoint import Checkpoint
    from skpref.inference.gibbs import State, Step
    from skpref.likelihoods import OrdinalProbit

_TINY = np.finfo(np.float64).tiny
_KEPT = ("theta", "thresholds", "nu", "lam")
# Streams of random numbers, named by seed, sweep and these.
_START, _LATENT, _FEATURES, _COMMON = range(4)


class ChainOptions(NamedTuple):
    """Options of a chain."""

    n_sweeps: int
    burn_in: int
    most_draws: int = 200  # that are kept
    learn_priors: bool = False  # see `draw_prior`
    checkpoint: Checkpoint | None = None
    on_iteration: OnIteration | None = None
    fitted: Callable[[FMPosterior], Any] | None = None  # an estimator with the posterior so far, for events


def start_state(machine: Machine, seed: int) -> State:
    """Return a draw from a variational posterior, with w_0 in the thresholds."""
    normals = normal_rows(seed, 0, _START, np.arange(machine.mean.shape[0]), machine.mean.shape[1])
    roots = np.linalg.cholesky(machine.convert_posterior(full=True).variance)
    return {
        "theta": machine.mean + np.einsum("kab,kb->ka", roots, normals),
        "thresholds": np.array(cast("OrdinalProbit", machine.likelihood).thresholds) - machine.bias.mean,
        "nu": machine.prior.nu.copy(),
        "lam": machine.prior.lam.copy(),
        "log_p": np.array(0.0),  # log likelihood when the thresholds were drawn
        "seed": np.array(seed, dtype=np.uint64),
    }


def step_of(problem: ChainProblem) -> Step:
    """Return the sweep of a chain."""
    design, level, group = problem.design, problem.level, problem.machine.prior.group
    unseen = np.bincount(problem.seen, minlength=group.size) == 0

    def sweep(state: State, number: int) -> tuple[State, Info]:
        seed = int(state["seed"])
        rng = np.random.default_rng([seed, number, _COMMON])
        state = draw_thresholds_and_scales(problem, state, rng) if number % POLICY.thresholds_period == 1 else state
        theta, thresholds, nu, lam = (state[name] for name in ("theta", "thresholds", "nu", "lam"))
        theta, table = theta.copy(), design.table(theta)
        latent = truncated_normals(row_values(design.codes, table), level, thresholds, (seed, number, _LATENT))
        if problem.learn_priors:
            nu, lam = draw_prior(problem, theta, nu, lam, rng)
        noise = normal_rows(seed, number, _FEATURES, np.arange(group.size), theta.shape[1])
        for f, (columns, ranges) in enumerate(design.parts):
            evidence = drawn_evidence(f, design.holders, design.codes, design.offsets, latent, table)
            offset = int(design.offsets[f])
            prior, a = (nu, lam, group), POLICY.relaxation
            if not draw_features(columns, ranges, offset, theta, prior, evidence, table, noise, a):
                raise DataError(f"a feature's weight and factors overflow in sweep {number}; scale X.")
        theta[unseen] = (nu[group] + noise / np.sqrt(lam[group]))[unseen]
        log_p = float(state["log_p"])
        return {**state, "theta": theta, "nu": nu, "lam": lam}, Info(log_p, {"risk": -log_p}, {})

    return sweep


def draw_prior(
    problem: ChainProblem, theta: Array, nu: Array, lam: Array, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Draw means and precisions of the groups' priors given the features that rows have, shape (G, 1 + d) each.

    Mean and precision of the weights are drawn with the hyper-priors of the variational fit, but a mean that thresholds
    can make up for is 0. The factors keep their means and the ratios of their precisions: only a common multiple, with
    a hyper-prior Gamma(1, 1), is drawn.
    """
    first, members, d = problem.machine.prior, problem.members, theta.shape[1] - 1
    n, nu = problem.sizes, nu.copy()
    precision = n * lam[:, 0] + 1.0
    drawn = lam[:, 0] * (members @ theta[:, 0]) / precision + rng.standard_normal(n.size) / np.sqrt(precision)
    nu[:, 0] = np.where(problem.sums != 0.0, 0.0, np.where(n > 0.0, drawn, nu[:, 0]))
    squares = members @ (theta - nu[first.group]) ** 2
    of_weights = rng.gamma(1.0 + 0.5 * n) / (1.0 + 0.5 * squares[:, 0])
    multiple = rng.gamma(1.0 + 0.5 * n * d) / (1.0 + 0.5 * (first.lam * squares)[:, 1:].sum(axis=1))
    drawn = np.column_stack([of_weights, first.lam[:, 1:] * multiple[:, None]])
    return nu, np.where(n[:, None] > 0.0, drawn, first.lam)


def sample_chain(posterior: FMPosterior, X: Features, level: IntArray, options: ChainOptions, seed: int) -> FMPosterior:
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
        fitted=None if fitted is None else lambda chains: fitted(add_draws(posterior, chains[0], options, problem)),
    )
    (chain,) = run([Chain(start_state(problem.machine, seed))], lambda _: step_of(problem), plan)
    return add_draws(posterior, chain, options, problem)


def warn_not_stationary(posterior: FMPosterior, name: str) -> None:
    """Warn if the log likelihood of the draws still changes from one half of the chain to the other."""
    if posterior.sampled is None:
        return
    trace = posterior.sampled.log_likelihoods
    n_sweeps = POLICY.thresholds_period * trace.size
    r_hat, limit = split_rhat(trace[None]), warning_limit(1, n_sweeps, trace.size, POLICY.chain_tau)
    if r_hat > limit:
        msg = f"The chain of {name} is not stationary: R-hat of the log likelihood is {r_hat:.2f}, above {limit:.2f}."
        warn(f"{msg} Increase max_iter and burn_in.", ConvergenceWarning)


def checkpoint_of(
    value: Any, posterior: FMPosterior, data: tuple[Features, IntArray], settings: tuple[Any, ...]
) -> Checkpoint | None:
    """Return where a chain is saved, with a digest of its rows, where it starts, and further settings."""
    if value is None:
        return None
    machine = posterior.last
    tables = machine.mean, machine.variance, machine.prior.nu, machine.prior.lam, machine.prior.group
    return run_checkpoint(value, digest((settings, machine.likelihood, machine.bias), *data, *tables))


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


def add_draws(posterior: FMPosterior, chain: Chain, options: ChainOptions, problem: ChainProblem) -> FMPosterior:
    """Return a posterior with the draws of a chain, and the machine of their means; unchanged by less than two.

    Features that no row has get the mean and the variance of the prior, averaged over the draws.
    """
    if len(chain.samples) < 2:
        return posterior
    burn_in = options.burn_in
    samples = {name: np.stack([sample[name] for sample in chain.samples]) for name in _KEPT}
    # Of sweeps without a draw of the thresholds it is the one before.
    with_thresholds = np.arange(burn_in, chain.sweep) % POLICY.thresholds_period == 0
    log_likelihoods = -np.array(chain.trace["risk"])[burn_in:][with_thresholds]
    # y(x) and the thresholds move together: only their differences matter.
    centre = samples["thresholds"].mean(axis=1)
    bias = centre.mean() - centre
    thresholds = (samples["thresholds"] - centre[:, None]).mean(axis=0) + centre.mean()
    theta, machine, nu, lam = samples["theta"], posterior.last, samples["nu"], samples["lam"]
    prior = Prior(nu.mean(axis=0), lam.mean(axis=0), machine.prior.group)
    seen = np.isin(np.arange(prior.group.size), problem.seen)[:, None]
    of_groups = (1.0 / lam).mean(axis=0) + nu.var(axis=0)
    likelihood = replace(cast("OrdinalProbit", machine.likelihood), thresholds=tuple(thresholds.tolist()))
    machine = replace(
        machine,
        bias=Bias(float(bias.mean()), float(bias.var())),
        mean=np.where(seen, theta.mean(axis=0, dtype=np.float64), prior.nu[prior.group]),
        variance=np.where(seen, np.maximum(theta.var(axis=0, dtype=np.float64), _TINY), of_groups[prior.group]),
        prior=prior,
        likelihood=likelihood,
    )
    return replace(posterior, machine=machine, sampled=FMDraws(theta, bias, log_likelihoods))
