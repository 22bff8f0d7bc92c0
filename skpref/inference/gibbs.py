"""The one chain runner: sweeps, burn-in, running averages, kept samples, traces, checkpoints, diagnostics.

It knows nothing of any model. A model gives a `Step`, a function of the state and the number of the sweep alone (its
random numbers are named by that number), so an interrupted chain resumes to the same bits.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from skpref._checks import check_types, is_count, require
from skpref._events import Iteration
from skpref.exceptions import DataError

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
        numbers = all(isinstance(value, float) for values in self.trace.values() for value in values)
        lengths = {len(values) for values in self.trace.values()}
        sound = numbers and len(lengths) == 1 and 1 <= max(lengths) <= n_sweeps
        require(sound, self, "trace", f"must be a number for each of at most {n_sweeps} sweeps")

    def redirected(self, state: State) -> Chain:
        """Return a new chain from a state, with an unused random stream."""
        return Chain(state, self.sweep, self.sweep)


@dataclass(frozen=True)
class Checkpoint:
    """Where and how often a run saves its chains."""

    path: Path  # the file
    key: str  # digest of the model and its data: another run's file is refused
    seconds: float = 30.0  # time between two writings


@dataclass(frozen=True, eq=False)
class Plan:
    """How to run chains."""

    n_sweeps: int  # sweeps to do, burn-in included
    burn_in: int  # sweeps since a chain's begin that are neither averaged nor kept
    n_samples: int = 0  # samples to keep at most of each chain, evenly spaced after burn-in
    keep: Callable[[State], State] = dict  # what to keep of a state
    average: Average = running_mean  # how to average
    checkpoint: Checkpoint | None = None  # where to write down what there is
    # called after every sweep; a true answer stops the chain it was about and those behind it
    on_iteration: OnIteration | None = None
    fitted: Callable[[list[Chain]], Any] | None = None  # what an estimator with these chains is, for the events


def run(starts: Sequence[Chain], step_of: Callable[[int], Step], plan: Plan) -> list[Chain]:
    """Run chains one after the other, from their starts or from a checkpoint of this run."""
    chains, ends = list(starts), [chain.sweep + plan.n_sweeps for chain in starts]
    saved = None if plan.checkpoint is None else read_checkpoint(plan.checkpoint, len(chains))
    chains = [replace(c, trace={k: list(v) for k, v in c.trace.items()}) for c in chains] if saved is None else saved
    clock = _Clock(plan, sum(chain.sweep - end for chain, end in zip(chains, ends, strict=True)), len(chains))
    for number, end in enumerate(ends):
        step, stopped = step_of(number), False
        while chains[number].sweep < end and not stopped:
            chains[number], objective = advanced(chains[number], step, plan, end)
            stopped = clock.tell(objective, chains)
            if plan.checkpoint is not None and clock.due() and not stopped:
                write_checkpoint(plan.checkpoint, chains)
        if stopped:
            break
    if plan.checkpoint is not None:
        plan.checkpoint.path.unlink(missing_ok=True)
    return chains


class _Clock:
    """Sends events and decides when to save a checkpoint."""

    def __init__(self, plan: Plan, left: int, n_chains: int) -> None:
        self._plan = plan
        self._n_max = plan.n_sweeps * n_chains
        self._done = self._first = self._n_max + left
        self._start = self._written = time.perf_counter()

    def tell(self, objective: float, chains: list[Chain]) -> bool:
        self._done += 1
        if self._plan.on_iteration is None:
            return False
        # Seconds are of this process; those before an interruption are estimated from them.
        seconds = (time.perf_counter() - self._start) * self._done / (self._done - self._first)
        fitted = None if self._plan.fitted is None else partial(self._plan.fitted, chains)
        return bool(self._plan.on_iteration(Iteration(self._done, self._n_max, objective, seconds, fitted)))

    def due(self) -> bool:
        checkpoint, now = self._plan.checkpoint, time.perf_counter()
        if checkpoint is None or now - self._written < checkpoint.seconds:
            return False
        self._written = now
        return True


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
# checkpoints


def write_checkpoint(checkpoint: Checkpoint, chains: Sequence[Chain]) -> None:
    """Write chains to a file atomically: an interrupted write leaves the earlier file."""
    arrays: dict[str, NDArray[Any]] = {}
    about = []
    for i, chain in enumerate(chains):
        states = {"state": chain.state, **{f"sample{k}": sample for k, sample in enumerate(chain.samples)}}
        if chain.average is not None:
            states["average"] = chain.average
        arrays |= {f"{i}/{part}/{name}": value for part, state in states.items() for name, value in state.items()}
        # float.hex: the numbers come back to the bit.
        trace = {name: [float(value).hex() for value in values] for name, values in chain.trace.items()}
        counts = {"sweep": chain.sweep, "begin": chain.begin, "n_averaged": chain.n_averaged}
        about.append({**counts, "n_samples": len(chain.samples), "trace": trace})
    header = json.dumps({"skpref": "chains", "version": 1, "key": checkpoint.key, "chains": about})
    arrays["header"] = np.frombuffer(header.encode(), dtype=np.uint8)
    path = checkpoint.path
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        try:
            np.savez(file, allow_pickle=False, **arrays)
            file.flush()
            os.fsync(file.fileno())
            Path(file.name).replace(path)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise


def read_checkpoint(checkpoint: Checkpoint, n_chains: int) -> list[Chain] | None:
    """Return the chains of a checkpoint file; None if there is no file."""
    path = checkpoint.path
    if not path.parent.is_dir():
        raise DataError(f"checkpoint: the folder {path.parent} does not exist; make it first")
    try:
        # np.load would leave a file open that it cannot read.
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        header = json.loads(arrays.pop("header").tobytes())
        chains = [_chain(i, about, arrays) for i, about in enumerate(header["chains"])]
        is_checkpoint = header["skpref"] == "chains" and header["version"] == 1
    except FileNotFoundError:
        return None
    except (KeyError, TypeError, ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        msg = f"checkpoint: {path} is not a checkpoint of skpref, or damaged ({error}); delete it or give another path"
        raise DataError(msg) from error
    if not is_checkpoint or header["key"] != checkpoint.key or len(chains) != n_chains:
        msg = f"checkpoint: {path} is of a fit with other data or parameters; delete it or give another path"
        raise DataError(msg)
    return chains


def _chain(number: int, about: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Chain:
    def part(name: str) -> State:
        prefix = f"{number}/{name}/"
        return {key.removeprefix(prefix): value for key, value in arrays.items() if key.startswith(prefix)}

    return Chain(
        part("state"),
        about["sweep"],
        about["begin"],
        part("average") or None,
        about["n_averaged"],
        tuple(part(f"sample{k}") for k in range(about["n_samples"])),
        {name: [float.fromhex(value) for value in values] for name, values in about["trace"].items()},
    )


# --------------------------------------------------------------------------
# diagnostics


def split_rhat(draws: Array) -> float:
    """Return the potential scale reduction of split chains (Gelman et al., Bayesian Data Analysis, section 11.4)."""
    half = draws.shape[1] // 2
    if half < 2:
        return float("nan")
    parts = np.concatenate([draws[:, :half], draws[:, draws.shape[1] - half :]])
    within = float(parts.var(axis=1, ddof=1).mean())
    between = float(parts.mean(axis=1).var(ddof=1))
    return float(np.sqrt((half - 1) / half + between / within)) if within > 0.0 else float("nan")


def effective_sample_size(draws: Array) -> float:
    """Return the effective sample size (Geyer's initial monotone sequence over all chains)."""
    n_chains, n = draws.shape
    if n < 4:
        return float("nan")
    centred = draws - draws.mean(axis=1, keepdims=True)
    spectrum = np.fft.rfft(centred, 2 * n, axis=1)
    autocovariance = np.fft.irfft(np.abs(spectrum) ** 2, axis=1)[:, :n].mean(axis=0) / n
    within = autocovariance[0] * n / (n - 1)
    total = autocovariance[0] + (float(draws.mean(axis=1).var(ddof=1)) if n_chains > 1 else 0.0)
    if not within > 0.0:
        return float("nan")
    correlation = 1.0 - (within - autocovariance * n / (n - 1)) / total if n_chains > 1 else autocovariance / total
    correlation[0] = 1.0
    pairs = correlation[: n // 2 * 2].reshape(-1, 2).sum(axis=1)
    pairs = pairs[: int(np.argmax(pairs < 0.0))] if (pairs < 0.0).any() else pairs
    time_scale = 2.0 * float(np.minimum.accumulate(pairs).sum()) - 1.0
    # Anticorrelated draws are worth more than independent ones, but nobody should believe how much more.
    return float(n_chains * n / max(time_scale, 1.0 / np.log10(n_chains * n)))
