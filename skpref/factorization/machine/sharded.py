"""Rows of a factorization machine in shards: coordinate ascent by sums over the shards (docs/maths section 9).

Fields and their patterns are those of `fields.py`: a column of ids with the columns that are functions of it. The
update of a field needs the sums of its patterns' evidence over the rows, which is a round: the moments of all patterns
go to the shards and sums come back, which are added in the order of the shards. Columns that belong to no field take a
round each, numbers one by one and the ids of a column at once, since no row has two of them. One more round finds mean
and variance of y(x) in every row, and another the slopes there; both stay with the shards.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse

from skpref._compiled.fm import Compressed
from skpref._compiled.fm_full import (
    FeaturePosterior,
    Patterns,
    compute_patterns,
    feature_evidence,
    pattern_evidence,
    row_moments_full,
    step_features,
)
from skpref._compiled.jit import limited_threads, n_threads
from skpref.exceptions import DataError
from skpref.factorization.machine.balance import bipartite_sides
from skpref.factorization.machine.fields import Design, DesignSweep, assemble_design
from skpref.factorization.machine.fit import (
    apply_bias_step,
    learn_rotated_priors,
    sites_of,
    update_bias,
    update_posterior,
)
from skpref.factorization.machine.model import slopes_of
from skpref.factorization.policy import POLICY
from skpref.inference.shards import summed
from skpref.likelihoods import Gaussian, OrdinalProbit

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from skpref._compiled.fm import Slopes
    from skpref._compiled.fm_full import Sites
    from skpref._typing import Array, IntArray
    from skpref.data.design import ColumnDesign
    from skpref.data.shards import RowShard, RowSummary
    from skpref.factorization.machine.fit import FitOptions
    from skpref.factorization.machine.model import Bias, Machine
    from skpref.inference.shards import Shards
    from skpref.likelihoods import Likelihood


class ShardPart(NamedTuple):
    """Rows of a shard."""

    design: Design  # of the shared patterns only numbers; `patterns` are those of each row alone
    y: Array  # standardised
    weight: Array


@dataclass(frozen=True, eq=False)
class ShardedRows:
    """Rows in shards, and the patterns that they share."""

    shards: Shards
    parts: list[Any]  # handles on a `ShardPart` each
    design: Design  # of no rows: the shared patterns
    own: IntArray  # features of the columns that belong to no field
    own_ranges: list[tuple[int, int]]  # of each such column, among `own`
    total_weight: float

    def collect(self, function: Any, *columns: Sequence[Any], shared: Sequence[Any] = ()) -> Iterator[Any]:
        """Yield function(part, *entries of a shard, *shared) for one shard after the other."""
        return self.shards.collect(function, self.parts, *columns, shared=shared)


# ------------------------------------------------------------------------------------------------------- distribution
def sharded_rows(
    shards: Shards,
    rows: Sequence[Any],
    places: Sequence[Any],
    summaries: Sequence[RowSummary],
    design: ColumnDesign,
    targets: tuple[float, float, Sequence[Any]],
    width: int,
) -> ShardedRows:
    """Return rows by their patterns, given the place of each shard's distinct ids among all.

    Targets are (y - offset)/scale, or the values of each shard's labels.
    """
    sizes = [summary.n_rows for summary in summaries]
    fields, own_columns = _fields(shards, rows, places, design)
    starts = design.starts.tolist()
    own_ranges, end = [], 0
    for k in own_columns:
        own_ranges.append((end, end + starts[k + 1] - starts[k]))
        end = own_ranges[-1][1]
    own = np.flatnonzero(np.isin(design.groups, own_columns))
    patterns = [design.matrix(columns) for columns in fields.values()]
    offsets = np.cumsum([0, *(part.shape[0] for part in patterns)])
    largest = max(POLICY.least_shard_rows, POLICY.own_bytes // (32 * width * width)) if own_columns else max(sizes)
    n_parts = [-(-size // largest) for size in sizes]
    layout = _Layout(design, list(fields), offsets, own_columns, own, *targets[:2])
    split = shards.split(_parts, n_parts, rows, places, n_parts, targets[2], shared=[shards.share(layout)])
    table = sparse.vstack([sparse.csr_array((0, starts[-1])), *patterns], format="csr")
    nothing = np.empty((len(fields), 0), dtype=np.int32), offsets, (np.empty(0, np.int64), np.empty(0, np.int64))
    total_weight = sum(summary.weight for summary in summaries)
    return ShardedRows(
        shards, [part for parts in split for part in parts], Design(*nothing, table), own, own_ranges, total_weight
    )


def _fields(
    shards: Shards, rows: Sequence[Any], places: Sequence[Any], design: ColumnDesign
) -> tuple[dict[int, list[NDArray[Any] | None]], list[int]]:
    """Return the values of all columns in the patterns of each field, by its column of ids, and the other columns."""
    widths = [0 if ids is None else width for ids, width in zip(design.ids, design.widths, strict=True)]
    order = np.argsort(-np.array(widths), kind="stable").tolist()
    widest = sorted(k for k in order[: POLICY.most_fields] if widths[k])
    functions = reduce(_merge_functions, shards.collect(_find_functions, rows, places, shared=(widest, widths)))
    left, fields = set(range(len(widths))), {}
    for f in widest:
        if f not in left:
            continue  # a function of an earlier field
        columns: list[NDArray[Any] | None] = [None] * len(widths)
        columns[f] = np.arange(widths[f] - 1)
        for k in sorted(left - {f}):
            table = functions[f, k]
            columns[k] = table if table is None or not widths[k] else table.astype(np.int64)
        fields[f] = columns
        left -= {k for k, column in enumerate(columns) if column is not None}
    return fields, sorted(left)


def _find_functions(rows: RowShard, places: Any, widest: list[int], widths: list[int]) -> dict[tuple[int, int], Any]:
    """Find columns that are determined by another one (film: genre). NaN: level not seen. None: not determined."""
    columns = _columns(rows, places)
    functions: dict[tuple[int, int], Any] = {}
    for f in widest:
        for k, column in enumerate(columns):
            functions[f, k] = None
            if k != f:
                for n in (POLICY.probe_rows, None):
                    code, value, table = columns[f][:n], column[:n], np.full(widths[f] - 1, np.nan)
                    table[code] = value
                    if not np.array_equal(table[code], value):
                        break
                else:
                    functions[f, k] = table
    return functions


def _merge_functions(a: dict[tuple[int, int], Any], b: dict[tuple[int, int], Any]) -> dict[tuple[int, int], Any]:
    """Return the functions that two sets of rows agree on."""
    total: dict[tuple[int, int], Any] = {}
    for pair, table in a.items():
        other, total[pair] = b[pair], None
        if table is not None and other is not None:
            both = ~np.isnan(table) & ~np.isnan(other)
            if np.array_equal(table[both], other[both]):
                total[pair] = np.where(np.isnan(table), other, table)
    return total


def _columns(rows: RowShard, places: Any) -> list[NDArray[Any]]:
    """Return the columns of a shard, ids by their place among all."""
    return [c if place is None else place[c] for c, place in zip(rows.columns, places, strict=True)]


class _Layout(NamedTuple):
    """How rows become patterns."""

    design: ColumnDesign
    fields: list[int]  # column of each
    offsets: IntArray  # range of each field's patterns
    own_columns: list[int]  # columns that belong to no field
    own: IntArray  # their features
    offset: float  # of the targets
    scale: float


def _parts(rows: RowShard, places: Any, n_parts: int, labels: Array | None, layout: _Layout) -> list[ShardPart]:
    """Return the rows of a shard in parts of about equal size."""
    columns, parts = _columns(rows, places), []
    for part in np.array_split(np.arange(rows.y.size), n_parts):
        of_part = slice(int(part[0]), int(part[-1]) + 1)
        y, codes = rows.y[of_part], [columns[f][of_part] for f in layout.fields]
        patterns, offsets = sparse.csr_array((0, 0)), layout.offsets
        if layout.own_columns:
            held = [c[of_part] if k in layout.own_columns else None for k, c in enumerate(columns)]
            patterns, offsets = layout.design.matrix(held)[:, layout.own], np.append(offsets, offsets[-1] + y.size)
            codes.append(np.arange(y.size))
        y = (y - layout.offset) / layout.scale if labels is None else labels[y.astype(np.int64)]
        parts.append(ShardPart(assemble_design(codes, offsets, patterns), y, rows.weight[of_part]))
    return parts


def _own_entries(part: ShardPart) -> IntArray:
    """Return the number of entries of each feature that belongs to no field."""
    patterns = part.design.patterns
    return np.bincount(patterns.indices, minlength=patterns.shape[1])


# ------------------------------------------------------------------------------------------------------------- rounds
class _Shared(NamedTuple):
    """What a round takes to the shards."""

    patterns: Patterns  # moments of the shared ones
    own: FeaturePosterior  # of the features that belong to no field

    def all_patterns(self, part: ShardPart) -> tuple[Patterns, int]:
        """Return the moments of all patterns of a shard, and the number of the shared ones."""
        first, n = self.patterns.level.size, part.y.size
        entries = part.design.patterns
        if not entries.shape[1]:
            return self.patterns, first
        every = Patterns(*(np.concatenate([a, np.empty((n, *a.shape[1:]), a.dtype)]) for a in self.patterns))
        alone = Patterns(*(a[first:] for a in every))
        compute_patterns(Compressed(entries.indptr, entries.indices, entries.data), self.own, alone, 0, n)
        return every, first


def _moments(part: ShardPart, shared: _Shared, bias: Bias) -> tuple[float, tuple[Array, Array]]:
    """Return the weighted sum of the expected squared residuals; and mean and variance of y(x) in every row."""
    design = part.design
    with limited_threads(n_threads()):
        patterns, _ = shared.all_patterns(part)
        mu, v = row_moments_full(design.holders, design.codes, design.offsets, patterns, _width(shared))
    mu, v = mu + bias.mean, v + bias.variance
    if not (np.isfinite(mu).all() and np.isfinite(v).all()):
        raise DataError("overflow in interactions; scale the columns of numbers of X")
    return float(part.weight @ ((part.y - mu) ** 2 + v)), (mu, v)


def _slopes(
    part: ShardPart, moments: tuple[Array, Array], likelihood: Likelihood
) -> tuple[tuple[float, float, float], Slopes]:
    """Return sums of the expected log-likelihood and of its slopes; and the slopes."""
    expected, slopes = slopes_of(likelihood, part.y, *moments, part.weight)
    return (expected, float(slopes.pull.sum()), float(slopes.weight.sum())), slopes


def _threshold_sums(part: ShardPart, moments: tuple[Array, Array], likelihood: OrdinalProbit) -> Array:
    return likelihood.threshold_sums(part.y, moments[0], part.weight)


def _log_likelihood(part: ShardPart, moments: tuple[Array, Array], likelihood: OrdinalProbit) -> float:
    """Return the weighted log-likelihood of the means of a shard's rows."""
    return float(part.weight @ likelihood.expectation(part.y, moments[0], np.zeros(part.y.size))[0])


def _field_evidence(
    part: ShardPart, moments: tuple[Array, Array], slopes: Slopes, shared: _Shared, bias: Bias, step: float, f: int
) -> tuple[Array, Array]:
    """Return the evidence of a shard's rows on each pattern of a field."""
    with limited_threads(n_threads()):
        return _evidence(part, f, _sites(moments, slopes, bias, step), shared.all_patterns(part)[0], _width(shared))


def _own_evidence(
    part: ShardPart,
    moments: tuple[Array, Array],
    slopes: Slopes,
    shared: _Shared,
    bias: Bias,
    step: float,
    ends: tuple[int, int],
) -> tuple[Array, Array]:
    """Return the evidence of a shard's rows on features of a column that belongs to no field."""
    f, columns = part.design.codes.shape[0] - 1, part.design.patterns[:, slice(*ends)].tocsc()
    q = FeaturePosterior(*(table[slice(*ends)] for table in shared.own))
    with limited_threads(n_threads()):
        patterns, first = shared.all_patterns(part)
        evidence = _evidence(part, f, _sites(moments, slopes, bias, step), patterns, _width(shared))
        alone = Patterns(*(a[first:] for a in patterns))
        return feature_evidence(Compressed(columns.indptr, columns.indices, columns.data), q, evidence, alone)


def _width(shared: _Shared) -> int:
    return int(shared.own.mean.shape[1])


def _sites(moments: tuple[Array, Array], slopes: Slopes, bias: Bias, step: float) -> Sites:
    return sites_of(*apply_bias_step(slopes, moments[0], step), bias)


def _evidence(part: ShardPart, f: int, sites: Sites, patterns: Patterns, width: int) -> tuple[Array, Array]:
    design = part.design
    return pattern_evidence(f, design.holders, design.codes, design.offsets, sites, patterns, width)


# -------------------------------------------------------------------------------------------------------------- sweeps
class _Slopes(NamedTuple):
    """Slopes of all rows."""

    kept: list[Any]  # handles on those of each shard
    pull: float  # sums
    weight: float


class _Moments(NamedTuple):
    """Moments of all rows."""

    kept: list[Any]  # handles on those of each shard
    squares: float  # weighted sum of the expected squared residuals


class _RowSites(NamedTuple):
    """What the rounds of a pass find at the rows."""

    moments: list[Any]
    slopes: list[Any]
    bias: Bias  # w_0, after its update
    step: float  # of w_0


class _ShardedDesignSweep(DesignSweep):
    """Updates of the features of fields, then of the other columns, by sums over shards."""

    def __init__(self, rows: ShardedRows, width: int, dtype: Any) -> None:
        super().__init__(rows.design, width, dtype)
        self._rows = rows

    def shared(self, q: FeaturePosterior) -> Any:
        """Return a handle on what a round takes to the shards."""
        self._compute_patterns(q)
        own = FeaturePosterior(q.mean[self._rows.own], q.covariance[self._rows.own])
        return self._rows.shards.share(_Shared(self._patterns, own))

    def update(
        self, q: FeaturePosterior, prior: tuple[Array, Array, IntArray], free: NDArray[np.bool_], sites: Any, rho: float
    ) -> FeaturePosterior | None:
        """Return the next q; None if a number is not finite."""
        self._own = FeaturePosterior(q.mean[self._rows.own], q.covariance[self._rows.own])
        new = super().update(q, prior, free, sites, rho)
        if new is None:
            return None
        for ends in self._rows.own_ranges:
            self._compute_patterns(new)
            self._own = FeaturePosterior(new.mean[self._rows.own], new.covariance[self._rows.own])
            evidence = self._sums(_own_evidence, sites, ends)
            if not step_features(self._rows.own[slice(*ends)], evidence, new, prior, free, rho):
                return None
        return new

    def _evidence(self, f: int, sites: Any) -> tuple[Array, Array]:
        return self._sums(_field_evidence, sites, f)

    def _sums(self, function: Any, sites: _RowSites, which: Any) -> tuple[Array, Array]:
        shared = self._rows.shards.share(_Shared(self._patterns, self._own)), sites.bias, sites.step, which
        parts = self._rows.collect(function, sites.moments, sites.slopes, shared=shared)
        A, B = summed(parts)
        return A, B


class ShardedSweep:
    """Moments and updates of a full posterior with rows in shards."""

    def __init__(self, rows: ShardedRows, machine: Machine, plan: FitOptions) -> None:
        self._rows, self._free, self._free_bias = rows, plan.free, plan.free_bias
        self._sweep = _ShardedDesignSweep(rows, machine.mean.shape[1], plan.dtype)
        self._unseen = np.bincount(rows.design.patterns.indices, minlength=plan.free.size) == 0
        if rows.own.size:
            self._unseen[rows.own] = summed(rows.collect(_own_entries)) == 0
        self._sides = None if rows.own.size else bipartite_sides(rows.design, machine.prior.group)
        self.total_weight = rows.total_weight

    def moments(self, machine: Machine) -> _Moments:
        """Return mean and variance of y(x) in every row, which stay with the shards."""
        shared = self._sweep.shared(FeaturePosterior(machine.mean, machine.variance)), machine.bias
        squares, kept = self._rows.shards.keep(_moments, self._rows.parts, shared=shared)
        return _Moments(kept, sum(squares))

    def learn_likelihood(self, machine: Machine, moments: _Moments) -> Machine:
        """Return the machine with the best noise, or better thresholds, given q."""
        likelihood = machine.likelihood
        if isinstance(likelihood, OrdinalProbit):

            def objective(trial: OrdinalProbit) -> float:
                return float(sum(self._rows.collect(_log_likelihood, moments.kept, shared=(trial,))))

            sums = summed(self._rows.collect(_threshold_sums, moments.kept, shared=(likelihood,)))
            return replace(machine, likelihood=likelihood.with_better_thresholds(sums, objective))
        if not isinstance(likelihood, Gaussian):
            return machine
        return replace(machine, likelihood=Gaussian(self.total_weight / (moments.squares + 2.0)))

    def slopes(self, machine: Machine, moments: _Moments) -> tuple[float, _Slopes]:
        """Return the expected log-likelihood, and its derivatives in every row, which stay with the shards."""
        columns = self._rows.parts, moments.kept
        sums, kept = self._rows.shards.keep(_slopes, *columns, shared=(machine.likelihood,))
        expected, pull, weight = (sum(parts) for parts in zip(*sums, strict=True))
        return expected, _Slopes(kept, pull, weight)

    def update(self, machine: Machine, slopes: _Slopes, moments: _Moments, rho: float) -> Machine | None:
        """Return the machine after an update of w_0 and of every feature; None where one has no posterior."""
        machine, step = update_bias(machine, slopes.pull, slopes.weight, rho, free=self._free_bias)
        sites = _RowSites(moments.kept, slopes.kept, machine.bias, step)
        return update_posterior(self._sweep, machine, sites, self._free, self._unseen, rho)

    def learn_priors(self, machine: Machine) -> Machine:
        """Return the machine with the best priors given q."""
        return learn_rotated_priors(machine, self._sides)

    def singular_message(self) -> str:
        """Return the message of an error about a feature without a posterior."""
        return (
            "a feature's weight and factors have no posterior in float64: precisions differ by a factor of more than "
            "1e16, or overflow. Standardise the columns of numbers of X, drop constant ones, or take fewer factors."
        )
