"""The one chain runner: sweeps, burn-in, running averages, kept samples, traces, diagnostics.

It knows nothing of any model. A model gives a `Step`, a function of the state and the number of the sweep alone (its
random numbers are named by that number), so an interrupted chain resumes to the same bits.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from skpref._checks import check_types, is_count, require
from skpref._events import Iteration, seconds_since
from skpref.exceptions import DataError
from skpref.inference.checkpoint import Checkpoint, Writer, read_checkpoint, refusal

if TYPE_CHECKING:
    from skpref._events import OnIteration
    from skpref._typing import Array


State: TypeAlias = Mapping[str, NDArray[Any]]


class Info(NamedTuple):
    """What a sweep returns."""

    objective: float  # log joint density, up to a constant: what events show
    trace: Mapping[str, float]  # numbers of which the chain keeps the history
    estimate: State | None = None  # what to average in the state's place


# (state, number of the sweep from 1) -> the next state, in new arrays, and what to report.
Step: TypeAlias = Callable[[State, int], tuple[State, Info]]
# (average so far or None, what a sweep adds, how many it averages with this one) -> average.
Average: TypeAlias = Callable[[State | None, State, int], State]


def running_mean(average: State | None, added: State, n: int) -> State:
    """Return the mean of n states from the mean of the first n - 1."""
    if average is None:
        return {name: np.array(value, dtype=np.float64) for name, value in added.items()}
    return {name: mean + (added[name] - mean) / n for name, mean in average.items()}


@dataclass(frozen=True, eq=False)
class Chain:
    """A chain with its samples, averages and traces."""

    state: State  # where it stands
    sweep: int = 0  # sweeps done, those before it was last redirected included: numbers of sweeps name random numbers
    begin: int = 0  # sweeps done before those that its trace, average and samples are about
    average: State | None = None  # running average after burn-in
    n_averaged: int = 0  # sweeps in the average
    samples: tuple[State, ...] = ()  # kept samples
    trace: dict[str, list[float]] = field(default_factory=dict)  # history of what the sweeps reported

    def validate(self) -> None:
        """Raise DataError unless the parts fit together."""
        check_types(self, samples=tuple, trace=dict)
        for name in ("begin", "sweep", "n_averaged"):
            require(is_count(getattr(self, name)), self, name, "must be a whole number >= 0")
        n_sweeps = self.sweep - self.begin
        require(n_sweeps >= self.n_averaged >= 1, self, "n_averaged", f"must be among {n_sweeps} sweeps")
        states = (self.state, self.average, *self.samples)
        require(all(isinstance(state, dict) for state in states), self, "samples", "must be states, as the average")
        seed = self.state.get("seed")
        sound = isinstance(seed, np.ndarray | np.uint64) and seed.dtype == np.uint64 and np.ndim(seed) == 0
        require(sound, self, "state", "must have a seed")
        lists = all(isinstance(values, list) for values in self.trace.values())
        require(lists and "risk" in self.trace, self, "trace", "must hold lists, the risk among them")
        numbers = all(isinstance(v, float) and math.isfinite(v) for values in self.trace.values() for v in values)
        lengths = {len(values) for values in self.trace.values()}
        sound = numbers and len(lengths) == 1 and 1 <= max(lengths) <= n_sweeps
        require(sound, self, "trace", f"must be a number for each of at most {n_sweeps} sweeps")

    def redirected(self, state: State) -> Chain:
        """Return a new chain from a state, with an unused random stream."""
        return Chain(state, self.sweep, self.sweep)


@dataclass(frozen=True, eq=False)
class Plan:
    """How to run chains."""

    n_sweeps: int  # sweeps to do, burn-in included
    burn_in: int  # sweeps since a chain's begin that are neither averaged nor kept
    n_samples: int = 0  # samples to keep at most of each chain, evenly spaced after burn-in
    keep: Callable[[State], State] = dict  # what to keep of a state
    average: Average = running_mean  # how to average
    checkpoint: Checkpoint | None = None  # where to write down what there is
    # (start, chain of a checkpoint): raises DataError unless the model can make such arrays from this start
    check: Callable[[Chain, Chain], None] | None = None
    # called after every sweep; a true answer stops the chain it was about and those behind it
    on_iteration: OnIteration | None = None
    fitted: Callable[[list[Chain]], Any] | None = None  # what an estimator with these chains is, for the events
    finished: Callable[[list[Chain]], Any] | None = None  # called before the checkpoint of a complete run is removed


def run(starts: Sequence[Chain], step_of: Callable[[int], Step], plan: Plan) -> list[Chain]:
    """Run chains one after the other, from their starts or from a checkpoint of this run."""
    chains, ends = list(starts), [chain.sweep + plan.n_sweeps for chain in starts]
    saved = None if plan.checkpoint is None else read_checkpoint(plan.checkpoint, starts, partial(_check_resumed, plan))
    chains = [replace(c, trace={k: list(v) for k, v in c.trace.items()}) for c in chains] if saved is None else saved
    writer = Writer(plan.checkpoint)
    clock = _Clock(plan, sum(chain.sweep - end for chain, end in zip(chains, ends, strict=True)), len(chains))
    for number, end in enumerate(ends):
        step, stopped = step_of(number), False
        while chains[number].sweep < end and not stopped:
            try:
                chains[number], objective = advanced(chains[number], step, plan, end)
            except DataError as error:
                if saved is None or plan.checkpoint is None:
                    raise
                raise refusal(plan.checkpoint.path, error) from error
            stopped = clock.tell(objective, chains)
            if not stopped:
                writer.write(chains)
        if stopped:
            break
    if plan.finished is not None:
        plan.finished(chains)
    writer.finish()
    return chains


class _Clock:
    """Sends events."""

    def __init__(self, plan: Plan, left: int, n_chains: int) -> None:
        self._plan = plan
        self._n_max = plan.n_sweeps * n_chains
        self._done = self._first = self._n_max + left
        self._start = time.perf_counter()

    def tell(self, objective: float, chains: list[Chain]) -> bool:
        self._done += 1
        if self._plan.on_iteration is None:
            return False
        seconds = seconds_since(self._start, self._done, self._first)
        fitted = None if self._plan.fitted is None else partial(self._plan.fitted, chains)
        return bool(self._plan.on_iteration(Iteration(self._done, self._n_max, objective, seconds, fitted)))


def _check_resumed(plan: Plan, start: Chain, chain: Chain) -> None:
    """Raise DataError unless a run of the plan from this start can reach this chain."""
    end = start.sweep + plan.n_sweeps
    for name in ("sweep", "begin", "n_averaged"):
        require(type(getattr(chain, name)) is int, chain, name, "must be a whole number")
    require(start.sweep <= chain.sweep <= end, chain, "sweep", f"must be {start.sweep} to {end}")
    require(chain.begin == start.begin, chain, "begin", f"must be {start.begin}")
    # The sweeps after `first` are averaged, and some of them kept.
    first = max(start.begin + plan.burn_in, start.sweep)
    n_after = max(0, chain.sweep - first)
    n_averaged = start.n_averaged + n_after
    require(chain.n_averaged == n_averaged, chain, "n_averaged", f"must be {n_averaged} after {chain.sweep} sweeps")
    require((chain.average is not None) == (n_averaged > 0), chain, "average", "must be of the sweeps after burn-in")
    n_kept = min(plan.n_samples, end - first) * n_after // max(end - first, 1)
    n_samples = len(start.samples) + n_kept
    n_samples = min(n_samples, plan.n_samples) if n_kept else n_samples
    require(len(chain.samples) == n_samples, chain, "samples", f"must be {n_samples}")
    n_sweeps = chain.sweep - start.begin
    for name, values in chain.trace.items():
        numbers = isinstance(values, list) and all(isinstance(value, float) for value in values)
        require(numbers and np.isfinite(values).all(), chain, "trace", f"must hold finite numbers of {name:.80}")
        require(len(values) == n_sweeps, chain, "trace", f"must be of {n_sweeps} sweeps")
    if plan.check is not None:
        plan.check(start, chain)


def advanced(chain: Chain, step: Step, plan: Plan, end: int) -> tuple[Chain, float]:
    """Do one sweep."""
    sweep = chain.sweep + 1
    state, info = step(chain.state, sweep)
    for name, value in info.trace.items():
        chain.trace.setdefault(name, []).append(float(value))  # in place: a copy a sweep would be quadratic
    chain = replace(chain, state=state, sweep=sweep)
    first = max(chain.begin + plan.burn_in, end - plan.n_sweeps)
    if sweep <= chain.begin + plan.burn_in:
        return chain, info.objective
    n = chain.n_averaged + 1
    average = plan.average(chain.average, state if info.estimate is None else info.estimate, n)
    samples = chain.samples
    if is_kept(sweep - first, end - first, plan.n_samples):
        samples = thinned((*samples, plan.keep(state)), plan.n_samples)
    return replace(chain, average=average, n_averaged=n, samples=samples), info.objective


def is_kept(number: int, n: int, n_samples: int) -> bool:
    """Return whether sweep `number` of n is kept, such that samples are evenly spaced and include the last sweep."""
    most = min(n_samples, n)
    return most > 0 and number * most // n > (number - 1) * most // n


def thinned(samples: tuple[State, ...], n_samples: int) -> tuple[State, ...]:
    """Thin the samples of a resumed chain evenly to the maximum number."""
    return tuple(s for i, s in enumerate(samples, 1) if is_kept(i, len(samples), n_samples))


# --------------------------------------------------------------------------
# diagnostics


def split_rhat(draws: Array) -> float:
    """Return the potential scale reduction of split chains (Gelman et al., Bayesian Data Analysis, section 11.4)."""
    half = draws.shape[1] // 2
    if half < 2:
        return float("nan")
    draws = _scale_to_order_one(draws)
    parts = np.concatenate([draws[:, :half], draws[:, draws.shape[1] - half :]])
    within = float(parts.var(axis=1, ddof=1).mean())
    between = float(parts.mean(axis=1).var(ddof=1))
    return float(np.sqrt((half - 1) / half + between / within)) if within > 0.0 else float("nan")


def _scale_to_order_one(draws: Array) -> Array:
    """Return the draws divided by a power of 2, so that their squares are finite and no other bit changes."""
    _, exponent = np.frexp(np.abs(draws).max())
    return np.asarray(np.ldexp(draws, -exponent))


def rhat_limit(n_chains: int, n_draws: int, tau: float) -> float:
    """Return the R-hat above which chains are not stationary: 1.1, or more for a single short chain.

    The means of the two halves of one stationary chain differ by chance: R-hat^2 - 1 is about tau / half times an F
    variable, of which one in 1,000 is above the limit; tau is the autocorrelation time.
    """
    half = max(n_draws // 2, 2)
    by_chance = float(np.sqrt(1.0 + tau / half * stats.f.isf(1e-3, 1, 2 * (half - 1))))
    return 1.1 if n_chains > 1 else max(1.1, by_chance)


def warning_limit(n_chains: int, n_sweeps: int, n_draws: int, tau: float) -> float:
    """Return the R-hat to warn of: `rhat_limit`, at most 2 after 40 sweeps or more.

    Where chance explains more than that, the chain is too short for averages.
    """
    limit = rhat_limit(n_chains, n_draws, tau)
    return min(limit, 2.0) if n_sweeps >= 40 else limit


def effective_sample_size(draws: Array) -> float:
    """Return the effective sample size (Geyer's initial monotone sequence over all chains)."""
    n_chains, n = draws.shape
    if n < 4:
        return float("nan")
    draws = _scale_to_order_one(draws)
    centred = draws - draws.mean(axis=1, keepdims=True)
    spectrum = np.fft.rfft(centred, 2 * n, axis=1)
    autocovariance = np.fft.irfft(np.abs(spectrum) ** 2, axis=1)[:, :n].mean(axis=0) / n
    within = autocovariance[0] * n / (n - 1)
    total = autocovariance[0] + (float(draws.mean(axis=1).var(ddof=1)) if n_chains > 1 else 0.0)
    if not within > 0.0:
        return float("nan")
    correlation = 1.0 - (within - autocovariance * n / (n - 1)) / total if n_chains > 1 else autocovariance / total
    pairs = correlation[: n // 2 * 2].reshape(-1, 2).sum(axis=1)
    pairs = pairs[: int(np.argmax(pairs < 0.0))] if (pairs < 0.0).any() else pairs
    time_scale = 2.0 * float(np.minimum.accumulate(pairs).sum()) - 1.0
    # Anticorrelated draws are worth more than independent ones, but nobody should believe how much more.
    return float(n_chains * n / max(time_scale, 1.0 / np.log10(n_chains * n)))
