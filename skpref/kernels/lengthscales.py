"""Initial length-scales."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from skpref.exceptions import DataError
from skpref.kernels._layouts import as_features

if TYPE_CHECKING:
    from skpref._typing import Array, Features, IntArray

# Numbers held at once (8 MiB).
_CHUNK = 1 << 20
# Inverses of length-scales, and sums of many, are finite.
_SMALLEST, _LARGEST = 1e-300, 1e300


def median_length_scales(X: Features, rng: np.random.Generator, n_pairs: int = 10_000) -> Array:
    """Return the median distance between rows in every feature.

    Parameters
    ----------
    X : array-like or CSR of shape (n, d)
        Rows.
    rng : numpy.random.Generator
        Source of the random pairs; not used if there are at most `n_pairs` pairs.
    n_pairs : int, default=10_000
        Number of random pairs of rows; 10,000 determine the rank of the median to 0.5 %.

    Returns
    -------
    ndarray of shape (d,)
        median ``|x_if - x_jf|`` over the pairs, in the features' units; where that is 0 (sparse or binary features)
        the median of the other distances, and 1 where there are none (constant features).

    Raises
    ------
    DataError
        A number is larger than 1e300, so that sums of differences overflow.

    Notes
    -----
    docs/maths section 5. A product over d features wants these times sqrt(d) or more.

    Examples
    --------
    >>> import numpy as np
    >>> from skpref.kernels import median_length_scales
    >>> X = np.array([[0.0, 0.0, 7.0], [1.0, 0.0, 7.0], [5.0, 0.0, 7.0], [6.0, 1.0, 7.0]])
    >>> median_length_scales(X, np.random.default_rng(0))
    array([4.5, 0.5, 1. ])
    """
    X = as_features(X)
    if np.abs(X.data if sparse.issparse(X) else X).max(initial=0.0) > _LARGEST:
        raise DataError("X holds numbers whose differences overflow: scale the features, e.g. by StandardScaler.")
    i, j = _pairs(X.shape[0], rng, n_pairs)
    if i.shape[0] == 0:
        return np.ones(X.shape[1])
    # Not their mean: a rare category's is so small that two items of other categories had nothing in common.
    median, of_others = _sparse_distances(X, i, j) if sparse.issparse(X) else _dense_distances(X, i, j)
    scales = np.where(median > 0.0, median, of_others)
    return np.where(scales > 0.0, np.maximum(scales, _SMALLEST), 1.0)


def _pairs(n: int, rng: np.random.Generator, n_pairs: int) -> tuple[IntArray, IntArray]:
    """All pairs i < j when they are few, else a sample of pairs i != j."""
    if n * (n - 1) // 2 <= n_pairs:
        i, j = np.triu_indices(n, 1)
        return i.astype(np.int64), j.astype(np.int64)
    i = rng.integers(n, size=n_pairs)
    return i, (i + rng.integers(1, n, size=n_pairs)) % n


def _dense_distances(X: Array, i: IntArray, j: IntArray) -> tuple[Array, Array]:
    """Return medians of all distances and, where these are 0, of the distances that are not, shapes (d,)."""
    median, of_others = np.empty(X.shape[1]), np.zeros(X.shape[1])
    step = max(1, _CHUNK // i.shape[0])
    for first in range(0, X.shape[1], step):
        columns = np.ascontiguousarray(X[:, first : first + step].T)
        distance = np.abs(columns[:, i] - columns[:, j])
        median[first : first + step] = np.median(distance, axis=1)
        rare = np.flatnonzero(median[first : first + step] == 0.0)
        values = np.sort(distance[rare], axis=1)
        starts = values.shape[1] * np.arange(rare.size) + (values == 0.0).sum(axis=1)
        of_others[first + rare] = _medians(values.ravel(), starts, (values > 0.0).sum(axis=1))
    return median, of_others


def _sparse_distances(X: sparse.csr_array, i: IntArray, j: IntArray) -> tuple[Array, Array]:
    """Return the same from the stored differences of each feature alone; all others are 0."""
    difference = abs(X[i] - X[j]).tocsc()
    difference.eliminate_zeros()
    n, start, stored = i.shape[0], difference.indptr[:-1], np.diff(difference.indptr)
    values = difference.data[np.lexsort((difference.data, np.repeat(np.arange(X.shape[1]), stored)))]
    median = np.zeros(X.shape[1])
    for f in np.flatnonzero(2 * stored >= n):
        median[f] = np.median(np.concatenate([values[start[f] : start[f] + stored[f]], np.zeros(n - stored[f])]))
    return median, _medians(values, start, stored)


def _medians(values: Array, start: IntArray, count: IntArray) -> Array:
    """Return the median of each ascending run of values, 0 where there are none."""
    out, some = np.zeros(start.size), count > 0
    middle = start[some] + count[some] // 2
    out[some] = 0.5 * (values[middle - 1 + count[some] % 2] + values[middle])
    return out
