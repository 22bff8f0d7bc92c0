"""Chains of max-margin factorization: starts, warm starts, checkpoints, new users, pooled samples."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from skpref._checks import LARGEST_COUNT, check_indices, require
from skpref._estimator import digest
from skpref.data.ratings import Ratings, fingerprint
from skpref.exceptions import DataError
from skpref.factorization.max_margin.ipm3f_chain import IBPProblem
from skpref.factorization.max_margin.posterior import Factors, IPM3FPosterior
from skpref.factorization.policy import POLICY
from skpref.inference.gibbs import Average, Chain, Plan, State, Step, run

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from skpref.factorization.max_margin.m3f_chain import FoldIn, MarginProblem
    from skpref.factorization.max_margin.posterior import M3FPosterior
    from skpref.factorization.max_margin.sharded import ShardedRatings

_TABLES = Factors._fields
_LARGEST = {"users": 1e15, "items": 1e15, "thresholds": 1e30}  # products of two are in the range of single precision


class ChainModel(NamedTuple):
    """The functions in which the two models differ."""

    start_state: Callable[..., State]  # (problem, seed, earlier state or None) -> state
    step: Callable[..., Step]  # problem -> sweep
    fold_in: Callable[..., FoldIn]  # (problem of the new users, seed) -> how to sample them
    risk: Callable[..., float]  # (problem, state) -> regularised risk
    average: Average  # how a chain averages its states
    users_dtype: Any  # of the users' table in kept samples
    posterior: type[M3FPosterior]
    tau: float  # autocorrelation time of the risk, in sweeps, as measured on simulated ratings and MovieLens

    def cold_starts(self, problem: MarginProblem, seeds: Sequence[int]) -> list[Chain]:
        """Return new chains, drawn from the prior."""
        return [Chain(self.start_state(problem, seed)) for seed in seeds]

    def warm_starts(self, problem: MarginProblem, chains: Sequence[Chain]) -> list[Chain]:
        """Return new chains that start from the last states of earlier ones, for other data or parameters."""
        return [c.redirected(self.start_state(problem, int(c.state["seed"]), c.state)) for c in chains]

    def keep_sample(self, state: State) -> State:
        """Return a sample in single precision, without what only the chain needs."""
        dtype = {"users": self.users_dtype}
        names = {name: state[name] for name in ("feature",) if name in state}
        return {**names, **{name: np.asarray(state[name], dtype=dtype.get(name, np.float32)) for name in _TABLES}}


def check_resumed(model: ChainModel, problem: MarginProblem, start: Chain, chain: Chain) -> None:
    """Raise DataError unless a chain from a checkpoint has the arrays of chains of this problem, with such values."""
    require(chain.state.keys() == start.state.keys(), chain, "state", f"must have {', '.join(start.state)}")
    _check_number(chain, "seed", np.uint64, (1 << 63) - 1)
    born, binary = 0, isinstance(problem, IBPProblem)
    if binary:
        born = _check_number(chain, "born", np.int64, LARGEST_COUNT)
    double, users_dtype = np.float64, start.state["users"].dtype
    parts: list[tuple[str, State, Any, Any]] = [("state", chain.state, users_dtype, double)]
    parts += [] if chain.average is None else [("average", chain.average, double, double)]
    parts += [("samples", sample, model.users_dtype, np.float32) for sample in chain.samples]
    for part, state, users, other in parts:
        tables = {name: table for name, table in state.items() if name not in {"seed", "born"}}
        require(tables.keys() == start.state.keys() - {"seed", "born"}, chain, part, "has other tables")
        width = problem.n_factors
        if binary:
            feature = tables.pop("feature")
            check_indices(chain, part, feature, 0, born)
            require((np.diff(feature) > 0).all(), chain, part, "must name its features in order")
            width = feature.size
        shapes = {"users": (problem.n_users, width), "items": (problem.n_items, width)}
        shapes["thresholds"] = (problem.n_users if problem.prior.own else 1, problem.prior.rho.size)
        for name, table in tables.items():
            shape, dtype = shapes[name], users if name == "users" else other
            sound = table.shape == shape and table.dtype == dtype
            require(sound, chain, part, f"has {name} of {table.shape} {table.dtype}, expected {shape}")
            low, high = (0, 1) if binary and name == "users" else (-_LARGEST[name], _LARGEST[name])
            sound = ((table >= low) & (table <= high)).all()
            require(sound, chain, part, f"has {name} outside {low:g} to {high:g}")
    _check_trace(chain, born if binary else None)


def _check_number(chain: Chain, name: str, dtype: Any, most: int) -> int:
    number = chain.state[name]
    sound = number.dtype == dtype and number.ndim == 0 and 0 <= int(number) <= most
    require(sound, chain, "state", f"has a {name} that is no number from 0 to {most}")
    return int(number)


def _check_trace(chain: Chain, born: int | None) -> None:
    names = {"risk"} if born is None else {"risk", "n_factors"}
    require(chain.trace.keys() == (names if chain.sweep > chain.begin else set()), chain, "trace", "has other names")
    widths = np.array(chain.trace.get("n_factors", []))
    sound = ((widths == widths.round()) & (widths >= 0) & (widths <= (born or 0))).all()
    require(sound, chain, "trace", "must hold numbers of features")


def distribution_key(
    problem: MarginProblem, ratings: Ratings | ShardedRatings, cost: float, settings: tuple[Any, ...]
) -> str:
    """Return a digest of the distribution that the chains sample."""
    prior = problem.prior
    scales = cost, problem.margin, prior.sigma, prior.varsigma, prior.own, prior.learnt, prior.rho.tolist()
    sizes = ratings.n_users, ratings.n_items, ratings.n_levels, *settings
    if isinstance(ratings, Ratings):
        code = fingerprint(ratings.user, ratings.item, ratings.level, ratings.weight)
    else:
        code = ratings.fingerprint()
    return digest((scales, sizes), code)


def complete_chains(chains: list[Chain]) -> list[Chain]:
    """Return the chains that ran as long as the first one; a callback may have stopped the others."""
    if not chains[0].n_averaged:
        raise DataError("a callback stopped the fit during burn-in, before there was a sample to predict from.")
    return [chain for chain in chains if chain.n_averaged == chains[0].n_averaged]


def fold_in_users(chain: Chain, fold: FoldIn, n_sweeps: int, burn_in: int) -> Chain:
    """Return a chain with new users: sampled with the chain's average fixed, then along its kept samples."""
    (new,) = run(
        [Chain(fold.start(chain.average or {}, None), chain.sweep)], lambda _: fold.step, Plan(n_sweeps, burn_in)
    )
    state, sweep, joined = new.state, new.sweep, []
    for sample in (*chain.samples, chain.state):
        state = fold.start(sample, state)
        for _ in range(POLICY.sweeps_per_sample):
            sweep += 1
            state, _ = fold.step(state, sweep)
        joined.append(fold.join(sample, state))
    average = fold.join(chain.average or {}, new.average or {})
    return replace(chain, state=joined[-1], sweep=sweep, average=average, samples=tuple(joined[:-1]))


def pool_states(states: Sequence[State]) -> Factors:
    """Return the tables of several states, stacked; narrower ones are padded with zero factors."""
    width = max(state["items"].shape[1] for state in states)

    def pad(name: str, table: NDArray[Any]) -> NDArray[Any]:
        return table if name == "thresholds" else np.pad(table, ((0, 0), (0, width - table.shape[1])))

    return Factors(*(np.stack([pad(name, state[name]) for state in states]) for name in _TABLES))


def drop_tables(chain: Chain) -> Chain:
    """Return a chain without its tables, which the posterior holds."""

    def others(state: State) -> State:
        return {name: value for name, value in state.items() if name not in _TABLES}

    samples = tuple(others(sample) for sample in chain.samples)
    return replace(chain, state=others(chain.state), average=others(chain.average or {}), samples=samples)


def restore_tables(chains: Sequence[Chain], posterior: M3FPosterior) -> list[Chain]:
    """Return chains with their tables, taken from the posterior."""
    sample_numbers = count()

    def complete(state: State, tables: Factors, number: int) -> State:
        parts = {name: table[number] for name, table in zip(_TABLES, tables, strict=True)}
        if "feature" in state:  # without the zero factors that `pooled` added
            for name in ("users", "items"):
                parts[name] = np.ascontiguousarray(parts[name][:, : state["feature"].size])
        return {**state, **parts}

    return [
        replace(
            chain,
            state=complete(chain.state, posterior.last, number),
            average=complete(chain.average or {}, posterior.average, number),
            samples=tuple(complete(state, posterior.samples, next(sample_numbers)) for state in chain.samples),
        )
        for number, chain in enumerate(chains)
    ]


def check_chain(record: object, chain: Chain, posterior: M3FPosterior) -> None:
    """Raise DataError unless a chain without its tables names the columns of the posterior's tables."""
    average = chain.average or {}
    n_samples = posterior.samples.users.shape[0] // posterior.average.users.shape[0]
    require(len(chain.samples) == n_samples, record, "chains", f"must have {n_samples} samples")
    names = {"seed", "feature", "born"} if isinstance(posterior, IPM3FPosterior) else {"seed"}
    kept = all(set(state) == names - {"seed", "born"} for state in (average, *chain.samples))
    require(kept and set(chain.state) == names, record, "chains", f"must have the states {', '.join(sorted(names))}")
    if names == {"seed"}:
        return
    samples = ((sample, posterior.samples) for sample in chain.samples)
    for state, tables in ((chain.state, posterior.last), (average, posterior.average), *samples):
        feature, width = state["feature"], tables.items.shape[2]
        check_indices(record, "chains", feature, 0, int(chain.state["born"]))
        ascending = feature.size <= width and (np.diff(feature) > 0).all()
        require(ascending, record, "chains", f"must name at most {width} features, in order")
