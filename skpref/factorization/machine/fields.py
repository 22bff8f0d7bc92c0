"""X as patterns that many rows share: X = R B, where each row of R picks one row of B, a pattern, for every field.

A field is a one-hot range of columns and the columns that are functions of it: the age of a user, or the items that the
user has rated. With 165 of these columns per row, 160 rows per user and two fields, users and items, a pass reads 1 M
entries of patterns and two patterns per row instead of 130 M entries.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from skpref._compiled.fm import Compressed
from skpref._compiled.fm_draws import pattern_values
from skpref._compiled.fm_fields import codes_of, determined_columns, one_hot_ranges
from skpref._compiled.fm_full import (
    FeaturePosterior,
    Patterns,
    compute_patterns,
    pattern_evidence,
    row_moments_full,
    update_patterns,
)
from skpref._math.limits import BLOCK
from skpref.factorization.policy import POLICY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from skpref._compiled.fm_full import Sites
    from skpref._typing import Array, Features, IntArray


@dataclass(frozen=True)
class Design:
    """The matrices R and B."""

    codes: NDArray[np.int32]  # (n_fields, n): pattern of each row in each field, a row of B
    offsets: IntArray  # (n_fields + 1,): range of each field's patterns
    holders: tuple[IntArray, IntArray]  # rows with each pattern: R in CSC form (start, row)
    patterns: Features  # (n_patterns, K): B

    def field(self, f: int) -> Features:
        """Return the patterns of a field."""
        return self.patterns[self.offsets[f] : self.offsets[f + 1]]

    @cached_property
    def entries(self) -> Compressed:
        """The entries of the patterns."""
        return Compressed(self.patterns.indptr, self.patterns.indices, self.patterns.data)

    @cached_property
    def parts(self) -> list[tuple[Compressed, IntArray]]:
        """The entries of each field's patterns by feature, and ranges of features that share no pattern."""
        parts = [self.field(f) for f in range(self.offsets.size - 1)]
        ranges = [one_hot_ranges(Compressed(part.indptr, part.indices, part.data), part.shape[1]) for part in parts]
        columns = [part.tocsc() for part in parts]
        return [(Compressed(c.indptr, c.indices, c.data), r) for c, r in zip(columns, ranges, strict=True)]

    def table(self, theta: Array) -> Array:
        """Return contribution to y(x) and sum of factors of every pattern, shape (n_patterns, 1 + d)."""
        table = np.empty((self.patterns.shape[0], theta.shape[1]))
        pattern_values(self.entries, theta, table, 0, len(table))
        return table

    @property
    def two_sided(self) -> bool:
        """Whether every row is a one in each of two fields and nothing else: a user and an item."""
        return self.offsets.size == 3 and bool(
            np.all(np.diff(self.patterns.indptr) == 1) and np.all(self.patterns.data == 1.0)
        )


def design_of(X: Features) -> Design:
    """Return the fields and patterns of X."""
    n, K = X.shape
    rows = Compressed(X.indptr, X.indices, X.data)
    bounds = one_hot_ranges(rows, K)
    order = np.argsort(-np.diff(bounds), kind="stable")
    widest = [f for f in order[: POLICY.most_fields].tolist() if bounds[f + 1] - bounds[f] > 1]
    left, codes, parts = np.ones(K, dtype=bool), [], []
    for f in sorted(widest):
        if not left[bounds[f] : bounds[f + 1]].any():
            continue  # functions of an earlier field
        code = codes_of(rows, int(bounds[f]), int(bounds[f + 1]))
        determined, example = determined_columns(rows, code, K)
        if not determined[bounds[f] : bounds[f + 1]].all():
            continue  # a column with several values
        columns = determined & left
        codes.append(code)
        parts.append(_keep_columns(X[example], columns))
        left &= ~columns
    if left[X.indices].any() or not codes:
        codes.append(np.arange(n))
        parts.append(_keep_columns(X, left))
    offsets = np.cumsum([0, *(part.shape[0] for part in parts)])
    return assemble_design(codes, offsets, sparse.vstack(parts, format="csr"))


def assemble_design(codes: Sequence[NDArray[Any]], offsets: IntArray, patterns: Features) -> Design:
    """Return the design of the number of each row's pattern within each field."""
    table = np.array([code + first for code, first in zip(codes, offsets, strict=False)], dtype=np.int32)
    n = table.shape[1]
    entries = np.ones(table.size, dtype=np.int8), table.T.ravel(), np.arange(n + 1) * len(codes)
    R = sparse.csr_array(entries, (n, offsets[-1])).tocsc()
    return Design(table, offsets, (R.indptr, R.indices), patterns)


def _keep_columns(X: Features, columns: NDArray[np.bool_]) -> Features:
    """Return X with the entries of other columns removed."""
    kept = columns[X.indices]
    start = np.concatenate([[0], np.cumsum(kept)])[X.indptr]
    return sparse.csr_array((X.data[kept], X.indices[kept], start), X.shape)


def one_hot_groups(X: Features, group: IntArray) -> IntArray:
    """Return the groups of two columns or more in which every row has exactly one entry, a 1."""
    n, K = X.shape
    parts = np.array_split(X.indices, 1 + X.nnz // BLOCK)
    entries = np.bincount(group, sum(np.bincount(part, minlength=K) for part in parts))
    candidates = (entries == n) & (np.bincount(group) > 1)
    X = _keep_columns(X, candidates[group])
    of_entry = group[X.indices]
    ones = np.bincount(of_entry[X.data == 1.0], minlength=entries.size)
    held = np.zeros((int(candidates.sum()), n), dtype=bool)
    held[(np.cumsum(candidates) - 1)[of_entry], np.repeat(np.arange(n), np.diff(X.indptr))] = True
    candidates[candidates] = held.all(axis=1)
    return np.flatnonzero(candidates & (ones == n))


def find_absent_groups(X: Features, group: IntArray, groups: IntArray) -> NDArray[np.bool_]:
    """Return which rows have only zeros in the columns of each of some groups, shape (n, n_groups)."""
    number = np.full(int(group.max()) + 1, -1)
    number[groups] = np.arange(groups.size)
    X = _keep_columns(X, number[group] >= 0)
    absent = np.ones((X.shape[0], groups.size), dtype=bool)
    absent[np.repeat(np.arange(X.shape[0]), np.diff(X.indptr)), number[group[X.indices]]] = False
    return absent


class DesignSweep:
    """Moments of patterns and rows of a design, and updates of the features of its fields."""

    def __init__(self, design: Design, width: int, dtype: Any = np.float64) -> None:
        self._design, self._width = design, width
        n_patterns, size = design.patterns.shape[0], width * (width + 1) // 2
        self._patterns = Patterns(
            np.empty(n_patterns), np.empty((n_patterns, size), dtype), np.empty((n_patterns, size), dtype)
        )
        # The array of means that each field's patterns were computed from; a sweep never changes it afterwards.
        self._computed_from: list[Any] = [None] * (design.offsets.size - 1)

    def moments(self, q: FeaturePosterior) -> tuple[Array, Array]:
        """Return mean and variance of y(x) - w_0 in every row."""
        self._compute_patterns(q)
        design = self._design
        return row_moments_full(design.holders, design.codes, design.offsets, self._patterns, self._width)

    def update(
        self,
        q: FeaturePosterior,
        prior: tuple[Array, Array, IntArray],
        free: NDArray[np.bool_],
        sites: Sites,
        rho: float,
    ) -> FeaturePosterior | None:
        """Return the next q, updated field by field; None if a number is not finite."""
        self._compute_patterns(q)
        design, q = self._design, FeaturePosterior(q.mean.copy(), q.covariance.copy())
        for f, (part, ranges) in enumerate(design.parts):
            evidence = self._evidence(f, sites)
            ends = int(design.offsets[f]), int(design.offsets[f + 1])
            if not update_patterns(part, ranges, ends, q, prior, free, evidence, self._patterns, rho):
                return None
            if f + 1 < len(self._computed_from):
                self._compute_field(f, q)
        self._computed_from[-1:] = [None] * min(1, len(self._computed_from))
        return q

    def _evidence(self, f: int, sites: Sites) -> tuple[Array, Array]:
        """Return the evidence of all rows on each pattern of a field."""
        design = self._design
        return pattern_evidence(f, design.holders, design.codes, design.offsets, sites, self._patterns, self._width)

    def _compute_patterns(self, q: FeaturePosterior) -> None:
        for f, mean in enumerate(self._computed_from):
            if mean is not q.mean:
                self._compute_field(f, q)

    def _compute_field(self, f: int, q: FeaturePosterior) -> None:
        first, last = int(self._design.offsets[f]), int(self._design.offsets[f + 1])
        compute_patterns(self._design.entries, q, self._patterns, first, last)
        self._computed_from[f] = q.mean
