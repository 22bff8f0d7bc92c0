"""Gibbs sampling of a factorization machine of ordered levels by data augmentation (docs/maths section 9)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from skpref._compiled.fm_draws import draw_features, drawn_evidence, row_values, truncated_normals
from skpref._compiled.streams import normal_rows
from skpref.exceptions import DataError
from skpref.factorization.machine.fields import Design, design_of
from skpref.factorization.machine.model import Bias
from skpref.factorization.machine.posterior import FMDraws, FMPosterior
from skpref.inference.gibbs import Chain, Info, Plan, run

if TYPE_CHECKING:
    from skpref._events import OnIteration
    from skpref._typing import Features, IntArray
    from skpref.factorization.machine.model import Machine
    from skpref.inference.gibbs import State, Step
    from skpref.likelihoods import OrdinalProbit

_PERIOD = 3  # sweeps from one draw of the thresholds, the dearest part of a sweep, to the next
# Streams of random numbers, named by seed, sweep and these.
_START, _LATENT, _FEATURES, _COMMON = range(4)


class ChainOptions(NamedTuple):
    """Options of a chain."""

    n_sweeps: int
    burn_in: int
    most_draws: int = 200  # that are kept
    on_iteration: OnIteration | None = None


@dataclass(frozen=True)
class ChainProblem:
    """Rows, their levels, and what the chain does not change."""

    design: Design
    level: IntArray  # (n,)
    machine: Machine  # where the chain starts; its priors stay


def start_state(machine: Machine, seed: int) -> State:
    """Return a draw from a variational posterior."""
    normals = normal_rows(seed, 0, _START, np.arange(machine.mean.shape[0]), machine.mean.shape[1])
    roots = np.linalg.cholesky(machine.with_posterior(full=True).variance)
    return {
        "theta": machine.mean + np.einsum("kab,kb->ka", roots, normals),
        "bias": np.array(machine.bias.mean),
        "thresholds": np.array(cast("OrdinalProbit", machine.likelihood).thresholds),
        "log_p": np.array(0.0),  # log likelihood when the thresholds were drawn
        "seed": np.array(seed, dtype=np.uint64),
    }


def step_of(problem: ChainProblem) -> Step:
    """Return the sweep of a chain."""
    design, level, machine = problem.design, problem.level, problem.machine
    unseen = np.bincount(design.patterns.indices, minlength=machine.mean.shape[0]) == 0
    likelihood, (nu, lam, group) = cast("OrdinalProbit", machine.likelihood), machine.prior

    def sweep(state: State, number: int) -> tuple[State, Info]:
        seed, theta = int(state["seed"]), state["theta"].copy()
        rng = np.random.default_rng([seed, number, _COMMON])
        table = design.table(theta)
        values = row_values(design.codes, table)
        thresholds, log_p = state["thresholds"], state["log_p"]
        if number % _PERIOD == 1:
            # Thresholds given y(x) alone, then the noisy y(x) given the thresholds: both at once given y(x).
            now = replace(likelihood, thresholds=tuple(thresholds.tolist()))
            now, value = now.drawn_thresholds(level, values + state["bias"], rng)
            thresholds, log_p = np.array(now.thresholds), np.array(value)
        latent = truncated_normals(values + state["bias"], level, thresholds, (seed, number, _LATENT))
        precision = level.size + 1.0 / machine.bias_prior.variance
        bias = (latent - values).sum() / precision + rng.standard_normal() / np.sqrt(precision)
        noise = normal_rows(seed, number, _FEATURES, np.arange(group.size), theta.shape[1])
        for f, (columns, ranges) in enumerate(design.parts):
            evidence = drawn_evidence(f, design.holders, design.codes, design.offsets, latent - bias, table)
            offset = int(design.offsets[f])
            if not draw_features(columns, ranges, offset, theta, machine.prior, evidence, table, noise):
                raise DataError(f"a feature's weight and factors overflow in sweep {number}; scale X.")
        theta[unseen] = (nu[group] + noise / np.sqrt(lam[group]))[unseen]
        state = {**state, "theta": theta, "bias": np.array(bias)}
        return {**state, "thresholds": thresholds, "log_p": log_p}, Info(float(log_p), {"risk": -float(log_p)}, {})

    return sweep


def sampled(posterior: FMPosterior, X: Features, level: IntArray, options: ChainOptions, seed: int) -> FMPosterior:
    """Return the posterior with draws by a chain that starts from it; unchanged if stopped before it has two."""
    problem = ChainProblem(design_of(X), level, posterior.last)
    kept = ("theta", "bias", "thresholds")
    plan = Plan(
        options.n_sweeps,
        options.burn_in,
        options.most_draws,
        keep=lambda state: {name: state[name].astype(np.float32 if name == "theta" else float) for name in kept},
        on_iteration=options.on_iteration,
    )
    (chain,) = run([Chain(start_state(problem.machine, seed))], lambda _: step_of(problem), plan)
    if len(chain.samples) < 2:
        return posterior
    return with_draws(posterior, {name: np.stack([sample[name] for sample in chain.samples]) for name in kept})


def with_draws(posterior: FMPosterior, samples: dict[str, Any]) -> FMPosterior:
    """Return a posterior with these draws, and the machine of their means and variances."""
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
        likelihood=likelihood,
    )
    return replace(posterior, machine=machine, sampled=FMDraws(theta, bias))
