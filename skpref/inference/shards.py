"""Full passes over comparisons in shards: in memory, on disk or on the workers of a cluster.

A pass takes the state to the shards and brings sums back, which are added in the order of the shards: equal shards give
equal bits, wherever they are. `ShardedProblem` is a `Problem` for the loop of `skpref.inference.svi`; a shard is a
plain `Problem` of its own comparisons.
"""

from __future__ import annotations

import io
import os
import pickle
import shutil
import tempfile
import time
import weakref
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from skpref.inference.blocks import DiagonalBlock
from skpref.inference.checkpoint import content_digest
from skpref.inference.policy import POLICY
from skpref.inference.problem import Evaluation, Problem, objectives
from skpref.inference.sites import Sites
from skpref.inference.terms.pairs import PairTerm

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from skpref._typing import Array, IntArray
    from skpref.inference.basis import InducingBasis
    from skpref.inference.problem import State
_NOTHING = np.empty(0)
_PREFIX = "skpref-shards-"  # prefix of the names of folders
_ALIGNMENT = 64  # bytes; NumPy and BLAS may take another route to other bits for arrays that start elsewhere


class Shards:
    """Where shards are, here in memory: runs functions there and keeps or brings their results, in the order of shards.

    A column has an entry for each shard: a plain value, or a handle of `keep`. What is shared goes to all of them.
    Elsewhere functions may run in any order.
    """

    def share(self, value: Any) -> Any:  # noqa: ANN401 - anything
        """Return a handle on a value for all shards."""
        return value

    def keep(
        self, function: Callable[..., tuple[Any, Any]], *columns: Sequence[Any], shared: Sequence[Any] = ()
    ) -> tuple[list[Any], list[Any]]:
        """Run function(*entries of a shard, *shared) and return its first results, and handles on its second ones."""
        brought, kept = [], []
        for first, second in self.collect(function, *columns, shared=shared):
            brought.append(first)
            kept.append(self.store(second))
        return brought, kept

    def store(self, value: Any) -> Any:  # noqa: ANN401 - anything
        """Return a handle on a value."""
        return value

    def collect(
        self, function: Callable[..., Any], *columns: Sequence[Any], shared: Sequence[Any] = ()
    ) -> Iterator[Any]:
        """Yield function(*entries of a shard, *shared) for one shard after the other."""
        return (function(*entries, *shared) for entries in zip(*columns, strict=True))

    def split(
        self,
        function: Callable[..., Sequence[Any]],
        sizes: Sequence[int],  # noqa: ARG002 - of shards whose results are not here
        *columns: Sequence[Any],
        shared: Sequence[Any] = (),
    ) -> list[list[Any]]:
        """Run function(*entries of a shard, *shared); return handles on its results, as many as in `sizes`."""
        return [[self.store(part) for part in parts] for parts in self.collect(function, *columns, shared=shared)]

    def backed_up(self, kept: Sequence[Any]) -> Sequence[Any]:
        """Return handles on the same values that a lost place does not lose."""
        return kept

    def close(self) -> None:
        """Remove all that was kept, even where the traceback of an error still refers to the handles."""


class OnDisk(Shards):
    """Shards in files of a temporary folder; one is in memory at a time."""

    def __init__(self, folder: str | None = None) -> None:
        _remove_leftovers(Path(folder or tempfile.gettempdir()))
        self._folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=folder))
        if fcntl is not None:
            # Locked as long as this object and its process live.
            weakref.finalize(self, os.close, _locked(self._folder))
        self._numbers = count()
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)

    def store(self, value: Any) -> Any:  # noqa: ANN401 - anything
        """Write a value to a file of its own, which is removed with the handle that is returned."""
        try:
            return _Stored(self, self._folder / str(next(self._numbers)), value)
        except OSError as error:
            advice = f"shards are written to {self._folder}; set TMPDIR to a folder with more room"
            raise OSError(error.errno, f"{error.strerror}: {advice}") from error

    def collect(
        self, function: Callable[..., Any], *columns: Sequence[Any], shared: Sequence[Any] = ()
    ) -> Iterator[Any]:
        """Yield the results."""
        for entries in zip(*columns, strict=True):
            yield function(*(entry.read() if isinstance(entry, _Stored) else entry for entry in entries), *shared)

    def close(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self._folder, ignore_errors=True)


def _locked(folder: Path) -> int:
    """Return a descriptor that locks a folder as long as it is open; OSError if another process has locked it."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _remove_leftovers(parent: Path) -> None:
    """Remove the folders of killed processes, which nobody locks any more."""
    for folder in parent.glob(f"{_PREFIX}*") if fcntl is not None else ():
        with suppress(OSError):
            if time.time() - folder.stat().st_mtime > POLICY.new_seconds:  # a new one may not be locked yet
                os.close(_locked(folder))
                shutil.rmtree(folder, ignore_errors=True)


class _Stored:
    """A value in a file: a pickle of its frame, then its arrays."""

    def __init__(self, shards: OnDisk, path: Path, value: Any) -> None:  # noqa: ANN401 - anything
        self._shards, self._path = shards, path  # the folder lives as long as a file of it is needed
        frame, arrays = taken_apart(value)
        with path.open("wb") as file:
            pickle.dump((frame, [_layout(array) for array in arrays]), file)
            for array in arrays:
                file.write(_flat(array).data)
        weakref.finalize(self, path.unlink, missing_ok=True)

    def read(self) -> Any:  # noqa: ANN401 - anything
        with self._path.open("rb") as file:
            frame, layouts = pickle.load(file)  # noqa: S301 - written by this process into a folder of its own
            arrays = [_aligned(*layout) for layout in layouts]
            for array in arrays:
                file.readinto(_flat(array).data)
        return put_together(frame, arrays)


def realigned(value: Any) -> Any:  # noqa: ANN401 - anything
    """Return a copy of a value with writable, aligned arrays; arrays from a network may be neither."""
    frame, arrays = taken_apart(value)
    copies = [_aligned(*_layout(array)) for array in arrays]
    for copy, array in zip(copies, arrays, strict=True):
        copy[...] = array
    return put_together(frame, copies)


class _FramePickler(pickle.Pickler):
    """Pickles a value without its arrays."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.arrays: list[NDArray[Any]] = []

    def persistent_id(self, value: Any) -> int | None:  # noqa: ANN401 - anything
        if type(value) is not np.ndarray or value.dtype.hasobject:
            return None
        self.arrays.append(value)
        return len(self.arrays) - 1


class _FrameUnpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, arrays: Sequence[NDArray[Any]]) -> None:
        super().__init__(file)
        self._arrays = arrays

    def persistent_load(self, number: int) -> NDArray[Any]:
        return self._arrays[number]


def taken_apart(value: Any) -> tuple[bytes, list[NDArray[Any]]]:  # noqa: ANN401 - anything
    """Return a value without its arrays as a pickle, and the arrays."""
    file = io.BytesIO()
    pickler = _FramePickler(file)
    pickler.dump(value)
    return file.getvalue(), pickler.arrays


def put_together(frame: bytes, arrays: Sequence[NDArray[Any]]) -> Any:  # noqa: ANN401 - anything
    """Return the value of a pickle and arrays."""
    return _FrameUnpickler(io.BytesIO(frame), arrays).load()


def content_of(value: Any) -> str:  # noqa: ANN401 - anything
    """Return a digest of the arrays of a value."""
    return content_digest({}, taken_apart(value)[1])


def _layout(array: NDArray[Any]) -> tuple[tuple[int, ...], str, str]:
    """Return shape, type and order of an array."""
    return array.shape, array.dtype.str, "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"


def _flat(array: NDArray[Any]) -> NDArray[np.uint8]:
    """Return the bytes of an array in its order; a view of a contiguous one."""
    order = _layout(array)[2]
    return array.ravel(order).view(np.uint8)  # type: ignore[arg-type]


def _aligned(shape: tuple[int, ...], dtype: str, order: Any) -> NDArray[Any]:  # noqa: ANN401 - "C" or "F"
    """Return an array without values whose address is a multiple of 64."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    wide = np.empty(size + _ALIGNMENT, dtype=np.uint8)
    start = -wide.ctypes.data % _ALIGNMENT
    return np.ndarray(shape, dtype, wide[start : start + size].data, order=order)


# ------------------------------------------------------------------------------------------------------------ a shard
@dataclass(frozen=True, eq=False)
class ShardRows:
    """The comparisons of a shard, as arrays."""

    left: IntArray  # (P,): items
    right: IntArray  # (P,)
    y: Array  # (P,): labels
    weight: Array  # (P,)
    residual: Array | None = None  # (P,): what inducing points leave


def _part(template: Problem, rows: ShardRows) -> Problem:
    """Return the problem of a shard's comparisons."""
    terms = {}
    for name, term in template.terms.items():
        assert isinstance(term, PairTerm)  # noqa: S101 - shards hold comparisons of items
        residual = None if term.basis is None else rows.residual
        terms[name] = replace(term, left=rows.left, right=rows.right, residual=residual)
    return replace(template, terms=terms, y=rows.y, weight=rows.weight)


def _with_residuals(rows: ShardRows, template: Problem, basis: InducingBasis, X: Any) -> tuple[None, ShardRows]:  # noqa: ANN401 - features
    """Return the comparisons of a shard with the residual variance of each."""
    (phi,) = (term.basis for term in template.terms.values() if isinstance(term, PairTerm) and term.basis is not None)
    return None, replace(rows, residual=basis.pair_residual(X, phi, rows.left, rows.right))


def _see(
    rows: ShardRows, earlier: Evaluation | None, template: Problem, state: State, moved: Collection[str]
) -> tuple[tuple[float, dict[str, float]], Evaluation]:
    """Return a shard's part of the objective and of the residuals' pulls, and values to use again."""
    part = _part(template, rows)
    evaluation = part.evaluate(state, earlier, moved)
    pulls = part.pulls(evaluation, state.expected) if part.rule.integrates else {}
    sites = evaluation.sites
    # Projections of independent offsets cost less than the memory that they take.
    blocks = state.blocks
    costly = {k: p for k, p in evaluation.projections.items() if not isinstance(blocks[k], DiagonalBlock)}
    short = Sites(_NOTHING, sites.gradient, sites.weight)
    return (float(np.sum(sites.value)), pulls), Evaluation(costly, _NOTHING, _NOTHING, short, np.nan, np.nan)


def _normal_equations(
    rows: ShardRows,
    evaluation: Evaluation,
    template: Problem,
    expected: Mapping[str, float],
    diagonal: Mapping[str, bool],
) -> dict[str, tuple[Any, Array]]:
    return _part(template, rows).normal_equations(evaluation, expected, diagonal)


def _normal_product(
    rows: ShardRows,
    evaluation: Evaluation,
    template: Problem,
    expected: Mapping[str, float],
    names: Sequence[str],
    x: Array,
) -> Array:
    return _part(template, rows).normal_matrix(evaluation, expected, names)(x)


def _pairs(rows: ShardRows) -> tuple[IntArray, IntArray]:
    return rows.left, rows.right


def _weights(evaluation: Evaluation) -> Array:
    return evaluation.sites.weight


def split_by_shard(index: IntArray, sizes: IntArray) -> list[IntArray]:
    """Split ascending numbers over all shards into numbers within each shard."""
    ends = np.cumsum(sizes)
    parts = np.split(index, np.searchsorted(index, ends[:-1]))
    return [part - end + size for part, end, size in zip(parts, ends, sizes, strict=True)]


def summed(results: Iterable[Any]) -> Any:  # noqa: ANN401 - numbers and arrays in tuples and dicts
    """Return the sum of results in their order: numbers, arrays, or tuples and dicts of numbers and arrays."""
    total = None
    for result in results:
        total = result if total is None else _added(total, result)
    return total


def _added(a: Any, b: Any) -> Any:  # noqa: ANN401 - numbers and arrays in tuples and dicts
    if isinstance(a, dict):
        return {name: _added(value, b[name]) for name, value in a.items()}
    if isinstance(a, tuple):
        return tuple(_added(x, y) for x, y in zip(a, b, strict=True))
    return a + b


# --------------------------------------------------------------------------------------------------------- the problem
@dataclass(frozen=True, eq=False)
class _ShardedEvaluation(Evaluation):
    """A sharded problem seen from a state: the arrays are with the shards."""

    views: Sequence[Any] = ()  # handles on the shards' evaluations
    pulled: dict[str, float] = field(default_factory=dict)  # what smaller residuals add to the bound
    gradients: dict[str, Array] = field(default_factory=dict)  # of the blocks whose normal equations were asked for


@dataclass(frozen=True, eq=False)
class ShardedProblem(Problem):
    """A problem whose comparisons are in shards; terms, y and weight have no rows."""

    shards: Shards = field(default_factory=Shards)
    rows: Sequence[Any] = ()  # handles on the `ShardRows` of each shard
    template: Any = None  # handle on this problem without its shards
    n_rows: int = 0  # number of comparisons
    brought: dict[str, IntArray] = field(default_factory=dict)  # items of all comparisons, if they are few

    @classmethod
    def from_template(cls, template: Problem, shards: Shards, rows: Sequence[Any], n_rows: int) -> ShardedProblem:
        """Return the problem of the shards' comparisons with the terms, likelihood and rule of a template."""
        empty = np.empty(0, dtype=np.int64)
        template = _part(template, ShardRows(empty, empty, _NOTHING, _NOTHING, _NOTHING))
        parts = template.terms, template.likelihood, template.y, template.weight, template.rule
        return cls(*parts, shards=shards, rows=rows, template=shards.share(template), n_rows=n_rows)

    @classmethod
    def divided(cls, problem: Problem, size: int) -> Problem:
        """Return a problem in memory, divided into parts of n comparisons; undivided if shards cannot hold it.

        Arrays of more than 32 MB come from the system at each use, and clearing their pages takes as long as the pass.
        """
        rows, first = [], next(iter(problem.terms.values()))
        assert isinstance(first, PairTerm)  # noqa: S101 - shards hold comparisons of items
        if first.covariates is not None or problem.likelihood.has_parameters or problem.offset is not None:
            return problem
        for start in range(0, problem.n_observations, size):
            part = slice(start, start + size)
            residual = None if first.residual is None else first.residual[part]
            rows.append(ShardRows(first.left[part], first.right[part], problem.y[part], problem.weight[part], residual))
        return cls.from_template(problem, Shards(), rows, problem.n_observations)

    def with_residuals(self, basis: InducingBasis, X: Any) -> ShardedProblem:  # noqa: ANN401 - features
        """Return the problem with the residual variance of each comparison."""
        shared = self.template, self.shards.share(basis), self.shards.share(X)
        return replace(self, rows=self.shards.keep(_with_residuals, self.rows, shared=shared)[1])

    def evaluate(self, state: State, earlier: Evaluation | None = None, moved: Collection[str] = ()) -> Evaluation:
        """Return the bound at a state; values of single comparisons stay in the shards."""
        # Where nothing is used again a lost shard can be made anew without its history.
        before: Sequence[Any] = [None] * len(self.rows)
        if isinstance(earlier, _ShardedEvaluation) and not set(self.terms) <= set(moved):
            before = earlier.views
        shared = self.template, self.shards.share(state), tuple(moved)
        totals, views = self.shards.keep(_see, self.rows, before, shared=shared)
        fit, pulled = summed(totals)
        sites, both = Sites(_NOTHING, _NOTHING, _NOTHING), objectives(self, state, fit)
        return _ShardedEvaluation({}, _NOTHING, _NOTHING, sites, *both, views=views, pulled=pulled)

    def normal_equations(
        self, evaluation: Evaluation, expected: Mapping[str, float], diagonal: Mapping[str, bool]
    ) -> dict[str, tuple[Any, Array]]:
        """Return the sums of the shards' equations."""
        assert isinstance(evaluation, _ShardedEvaluation)  # noqa: S101 - what `evaluate` returns
        shared = self.template, expected, diagonal
        equations = summed(self.shards.collect(_normal_equations, self.rows, evaluation.views, shared=shared))
        evaluation.gradients.update({name: gradient for name, (_, gradient) in equations.items()})
        return dict(equations)

    def gradient(self, evaluation: Evaluation, _expected: Mapping[str, float], names: Sequence[str]) -> Array:
        """Return the gradient of the fit, which the normal equations brought along."""
        assert isinstance(evaluation, _ShardedEvaluation)  # noqa: S101 - what `evaluate` returns
        return np.concatenate([evaluation.gradients[name] for name in names])

    def normal_matrix(
        self, evaluation: Evaluation, expected: Mapping[str, float], names: Sequence[str]
    ) -> Callable[[Array], Array]:
        """Return the function x -> A^T diag(weight) A x: a round over the shards unless comparisons are few."""
        assert isinstance(evaluation, _ShardedEvaluation)  # noqa: S101 - what `evaluate` returns
        views = evaluation.views
        if self.n_rows <= POLICY.brought_rows:
            if "left" not in self.brought:
                sides = zip(*self.shards.collect(_pairs, self.rows), strict=True)
                self.brought["left"], self.brought["right"] = (np.concatenate(side) for side in sides)
            left, right = self.brought["left"], self.brought["right"]
            weight = np.concatenate(list(self.shards.collect(_weights, views)))
            whole = _part(self, ShardRows(left, right, _NOTHING, weight))
            curvatures = Evaluation({}, _NOTHING, _NOTHING, Sites(_NOTHING, _NOTHING, weight), np.nan, np.nan)
            return Problem.normal_matrix(whole, curvatures, expected, names)

        def times(x: Array) -> Array:
            shared = self.template, expected, tuple(names), self.shards.share(x)
            return np.asarray(summed(self.shards.collect(_normal_product, self.rows, views, shared=shared)))

        return times

    def pulls(self, evaluation: Evaluation, _expected: Mapping[str, float]) -> dict[str, float]:
        """Return the sums of the shards' pulls."""
        assert isinstance(evaluation, _ShardedEvaluation)  # noqa: S101 - what `evaluate` returns
        return evaluation.pulled
