"""Choice of inducing points (docs/maths section 2)."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from scipy import sparse
from sklearn.cluster import KMeans, kmeans_plusplus
from sklearn.exceptions import ConvergenceWarning

from skpref._validation import check_array
from skpref.data.tables import unique_rows
from skpref.exceptions import DataError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from skpref._typing import Array, Features, IntArray

__all__ = ["METHODS", "choose"]

METHODS = ("kmeans++", "kmeans", "random", "variance")

# Candidate rows for each inducing point: more would hardly improve the spread, and
# the cost is of order m**2 instead of n m.
_ROWS_PER_POINT = 20


class Kernel(Protocol):
    """The part of scikit-learn's kernel interface that is used here."""

    def __call__(self, X: Any, Y: Any = None) -> Any:  # noqa: ANN401  # arrays or CSR
        """Return the covariance of every row of X with every row of Y."""

    def diag(self, X: Any) -> Any:  # noqa: ANN401  # array or CSR
        """Return the variance of every row of X, shape (n,)."""


def choose(
    X: Features,
    n_inducing: int,
    method: str | ArrayLike = "kmeans++",
    rng: np.random.Generator | int | None = None,
    kernel_scale: float | Array | None = None,
    *,
    weights: Array | None = None,
    kernel: Kernel | None = None,
) -> Features:
    """Choose inducing inputs Z among, or near, the rows of X.

    Parameters
    ----------
    X : ndarray or CSR of shape (n, n_features)
        Finite features in float64.
    n_inducing : int
        Maximum number of points. If X has no more distinct rows than that, Z
        is all of them in their order, and the residual r_i of docs/maths
        section 2 is zero.
    method : {"kmeans++", "kmeans", "random", "variance"} or array-like, \
            default="kmeans++"
        "kmeans++": rows of X, spread out by the seeding of k-means. "kmeans":
        centres of k-means after that seeding, as in [SG20] section 4.2, for
        dense X only. "random": random rows. "variance": greedily the row with
        the largest variance given the earlier ones; needs `kernel`. An array of
        shape (m, n_features) is used as it is, without repeated rows.
    rng : numpy.random.Generator, int or None, default=None
        Source of randomness.
    kernel_scale : float or ndarray of shape (n_features,), default=None
        Length-scales for distances; None means 1.
    weights : ndarray of shape (n,), default=None
        Number of observations of each row, for "kmeans++" and "kmeans".
    kernel : scikit-learn kernel, default=None
        Covariance for "variance": `kernel(A, B)` and `kernel.diag(A)`.

    Returns
    -------
    ndarray or csr_array of shape (m, n_features)
        Z with m <= n_inducing; sparse if X is, unless `method` is an array.

    Raises
    ------
    DataError
        `n_inducing` is below 1, `method` is unknown, or its number of features
        differs from that of X.
    TypeError
        `method` is "kmeans" and X is sparse.

    Notes
    -----
    Except for "random", a random sample of 20 rows per point represents large X.

    Examples
    --------
    >>> import numpy as np
    >>> from skpref.inducing import choose
    >>> X = np.array([[0.0], [0.0], [1.0]])
    >>> choose(X, 5)
    array([[0.],
           [1.]])
    """
    if not isinstance(method, str):
        return _read_points(method, X)
    if method not in METHODS:
        raise DataError(
            f"inducing must be one of {', '.join(METHODS)} or an array of shape (m, n_features), got {method!r}"
        )
    n_inducing = int(n_inducing)  # NumPy's small integers overflow
    if n_inducing < 1:
        raise DataError(f"n_inducing must be at least 1, got {n_inducing}")
    distinct, inverse = unique_rows(X)
    if n_inducing >= distinct.size:
        return X[np.sort(distinct)]
    mass = np.bincount(inverse, weights, distinct.size).astype(np.float64)
    order = np.argsort(distinct)
    candidates = distinct[order], mass[order]
    return _select(X, candidates, n_inducing, method, np.random.default_rng(rng), kernel_scale, kernel)


def _select(  # every argument of `choose`, once X is known to be large
    X: Features,
    candidates: tuple[IntArray, Array],
    n_inducing: int,
    method: str,
    rng: np.random.Generator,
    kernel_scale: float | Array | None,
    kernel: Kernel | None,
) -> Features:
    rows, mass = candidates
    if method == "random":
        return X[np.sort(rng.choice(rows, n_inducing, replace=False))]
    if rows.size > _ROWS_PER_POINT * n_inducing:
        keep = np.sort(rng.choice(rows.size, _ROWS_PER_POINT * n_inducing, replace=False))
        rows, mass = rows[keep], mass[keep]
    if method == "variance":
        return X[rows[_largest_variance(X[rows], n_inducing, kernel)]]
    scale = _scale(X[rows], kernel_scale)
    scaled = _divide(X[rows], scale)
    if method == "kmeans":
        return _centres(scaled, mass, n_inducing, rng) * scale
    return X[rows[_spread(scaled, mass, n_inducing, rng)]]


def _read_points(Z: ArrayLike, X: Features) -> Features:
    values = check_array(Z, accept_sparse="csr", dtype=np.float64, order="C", copy=True, input_name="inducing")
    if values.shape[1] != X.shape[1]:
        raise DataError(f"the inducing points have {values.shape[1]} features, but X has {X.shape[1]} features")
    if sparse.issparse(values):
        values = sparse.csr_array(values)
        values.sum_duplicates()
        values.eliminate_zeros()
    first, _ = unique_rows(values)
    return values[np.sort(first)]


def _scale(X: Features, kernel_scale: float | Array | None) -> Array:
    """Return length-scales times a power of two, such that squared distances cannot overflow, shape (d,)."""
    scale = np.broadcast_to(np.asarray(1.0 if kernel_scale is None else kernel_scale, dtype=np.float64), X.shape[1:])
    if not (np.isfinite(scale).all() and (scale > 0.0).all()):
        raise DataError(f"kernel_scale must be positive and finite, got {kernel_scale}")
    if sparse.issparse(X):
        largest = np.max(np.abs(X.data) / scale[X.indices], initial=0.0)
    else:
        largest = np.max(np.abs(X) / scale)
    return scale * 2.0 ** int(np.frexp(largest)[1])


def _divide(X: Features, scale: Array) -> Features:
    if sparse.issparse(X):
        return sparse.csr_array(X.multiply(1.0 / scale))
    return X / scale


def _seed(rng: np.random.Generator) -> int:
    return int(rng.integers(2**31 - 1))


def _spread(scaled: Features, mass: Array, n_inducing: int, rng: np.random.Generator) -> IntArray:
    _, picked = kmeans_plusplus(scaled, n_inducing, sample_weight=mass, random_state=_seed(rng))
    # When all weighted distances are zero, the seeding repeats points.
    _, first = np.unique(picked, return_index=True)
    picked = picked[np.sort(first)]
    not_picked = np.setdiff1d(np.arange(scaled.shape[0]), picked)
    return np.concatenate([picked, rng.choice(not_picked, n_inducing - picked.size, replace=False)])


def _centres(scaled: Features, mass: Array, n_inducing: int, rng: np.random.Generator) -> Array:
    if sparse.issparse(scaled):
        raise TypeError(
            'Sparse data was passed for X, but dense data is required by inducing="kmeans", whose centres are '
            'dense; use "kmeans++", which takes rows of X'
        )
    with warnings.catch_warnings():
        # Rows that differ by less than rounding share a centre; repeated centres are removed below.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = KMeans(n_inducing, n_init=1, random_state=_seed(rng)).fit(scaled, sample_weight=mass)
    centres: NDArray[np.float64] = model.cluster_centers_
    first, _ = unique_rows(centres)
    return centres[np.sort(first)]


def _largest_variance(X: Features, n_inducing: int, kernel: Kernel | None) -> IntArray:
    """Return the pivots of the Cholesky factorisation of K(X, X), computing only the rows that are used."""
    if kernel is None:
        raise DataError('inducing="variance" needs the kernel: pass kernel=')
    residual = np.array(kernel.diag(X), dtype=np.float64)
    # A variance below this is rounding: the row is a combination of earlier ones.
    least = np.finfo(np.float64).eps * residual.size * residual.max()
    factor = np.empty((n_inducing, residual.size))
    picked: list[int] = []
    while len(picked) < n_inducing and residual.max() > least:
        pivot, step = int(np.argmax(residual)), len(picked)
        row = np.asarray(kernel(X[[pivot]], X))[0] - factor[:step, pivot] @ factor[:step]
        factor[step] = row / np.sqrt(residual[pivot])
        residual -= factor[step] ** 2
        residual[pivot] = 0.0
        picked.append(pivot)
    return np.array(picked, dtype=np.int64)
