"""Default kernels, with hyper-parameters that suit the scales of the features."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Kernel, Matern, Sum, WhiteKernel

from skpref import kernels
from skpref._math.limits import LARGEST_SQUARED
from skpref.exceptions import DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from skpref._typing import Array, Features, IntArray


_SCALE_BOUNDS = (1e-2, 1e3)  # bounds of length-scales, as factors on their start
_OVERFLOW = "X holds numbers whose squares overflow or underflow: scale the features, e.g. by StandardScaler."
# Distance of a feature's mean from 0, in standard deviations, beyond which float64 holds too little of a linear kernel:
# its values are the squares of such distances.
_FAR = 1e5
_FEW_VALUES, _KNOTS = 10, 33  # values of a feature up to which it is not warped, and knots of one with more
SHARED_LOG_SCALE = 0.5  # log of the first length-scales, in standard deviations of a feature times sqrt(d)


def default_kernel(X: Features, rng: np.random.Generator) -> Kernel:
    """Return exp(-|x - x'|^2 / (2 l^2)) with l at the median distance of rows ([CG05])."""
    # A constant column adds nothing to distances, and its length-scale is arbitrary.
    varies = standard_deviations(X) > 0.0
    scales = kernels.median_length_scales(X, rng)[varies]
    distance = float(np.linalg.norm(scales)) if scales.size else 1.0
    return RBF(distance, (_SCALE_BOUNDS[0] * distance, _SCALE_BOUNDS[1] * distance))


def named_kernel(name: str, X: Features, rng: np.random.Generator) -> Kernel:
    """Return the "ard", "linear", "linear-ard" or default kernel for the features of X."""
    if name == "ard":
        return stationary(np.inf, deviations(X))
    if name in {"linear", "linear-ard"}:
        scale = deviations(X)
        far = np.flatnonzero(far_from_zero(X, scale))
        if far.size:
            msg = f"column {far[0]} of X lies more than {_FAR:g} standard deviations from 0, where a linear kernel is"
            raise DataError(f"{msg} rounding error: centre the features, e.g. by StandardScaler.")
        each = linear(scale, 1.0)
        return (
            each if name == "linear-ard" else ConstantKernel(1.0, (1e-6, 1e3)) * kernels.Linear(each.variance, "fixed")
        )
    return default_kernel(X, rng)


def stationary(nu: float, scale: Array) -> Kernel:
    """Return a Matern kernel with one length-scale per feature, an RBF for nu = inf; `scale` has its unit, (d,)."""
    start = np.exp(SHARED_LOG_SCALE) * np.sqrt(scale.size) * scale
    bounds = np.column_stack([_SCALE_BOUNDS[0] * start, _SCALE_BOUNDS[1] * start])
    return RBF(start, bounds) if nu == np.inf else Matern(start, bounds, nu=nu)


def warp(X: Features) -> kernels.Warped | None:
    """Return a kernel without hyperparameters whose features are halfway to their ranks; None if none has many values.

    Ranks are in the units of a feature, with its mean and standard deviation.
    """
    columns, knots, levels = [], [], []
    for column in [] if sparse.issparse(X) else range(X.shape[1]):
        values, counts = np.unique(X[:, column], return_counts=True)
        if values.size <= _FEW_VALUES:
            continue
        share = (np.cumsum(counts) - 0.5 * counts) / counts.sum() - 0.5
        chosen = np.searchsorted(share, np.linspace(share[0], share[-1], _KNOTS)).clip(max=share.size - 1)
        columns.append(column)
        knots.append(values[chosen])
        levels.append(X[:, column].mean() + X[:, column].std() * np.sqrt(12.0) * share[chosen])
    return kernels.Warped(kernels.Identity(), columns, np.array(knots), np.array(levels)) if columns else None


def warped_rows(X: Features, kernel: Kernel) -> Features:
    """Return the rows as a kernel warps them, if a part of it does."""
    part = next((part for part in kernel.get_params().values() if isinstance(part, kernels.Warped)), None)
    return X if part is None else part.map_rows(X)


def linear(scale: Array, variance: float) -> Kernel:
    """Return a linear kernel of total `variance`, one weight variance per feature; `scale` has its unit, shape (d,)."""
    if scale.min() < 1.0 / LARGEST_SQUARED:
        raise DataError(_OVERFLOW)
    weights = variance / (scale.size * scale**2)
    return kernels.Linear(weights, np.column_stack([1e-6 * weights, 1e3 * weights]))


def linear_kernel(X: Features) -> Kernel | None:
    """Return a linear kernel of unit variance, or None if no feature varies or one is too far from zero for it."""
    scale = deviations(X)
    constant = not np.any(standard_deviations(X))
    return None if constant or np.any(far_from_zero(X, scale)) else linear(scale, 1.0)


def far_from_zero(X: Features, scale: Array) -> NDArray[np.bool_]:
    """Return which features are too far from 0 for a linear kernel, with the `deviations` of X, shape (d,)."""
    return np.asarray(np.abs(np.asarray(X.mean(axis=0)).ravel()) > _FAR * scale)


def deviations(X: Features) -> Array:
    """Return the standard deviation of every feature, shape (d,); a constant one has its size, at least 1."""
    deviation, size = standard_deviations(X), np.abs(X).max(axis=0)
    size = size.toarray().ravel() if sparse.issparse(X) else size
    return np.where(deviation > 0.0, deviation, np.maximum(size, 1.0))


def feature_scales(X: Features) -> Array:
    """Return the `deviations` of the features, shape (d,); with two values, their distance over sqrt(2).

    In units of its deviation a rare category would be far from all others.
    """
    low, high = _ends(X)
    if sparse.issparse(X):
        at_end = X.data == high[X.indices]
        counts = [np.bincount(X.indices[kind], minlength=X.shape[1]) for kind in (at_end, ~at_end)]
        often, other = counts  # stored numbers: the other value is 0
        two_values = (low == 0.0) & (often > 0) & (other == 0)
    else:
        two_values = (low < high) & np.all((low == X) | (high == X), axis=0)
    return np.where(two_values, (high - low) / np.sqrt(2.0), deviations(X))


def rows_apart(X: Features) -> IntArray:
    """Return in how many rows a feature is not at its median, shape (d,): few where it is a rare category."""
    if not sparse.issparse(X):
        return np.sum(np.median(X, axis=0) != X, axis=0)
    apart = np.bincount(X.indices, X.data != 0.0, X.shape[1]).astype(np.int64)
    often = np.flatnonzero(2 * apart > X.shape[0])
    apart[often] = rows_apart(X[:, often].toarray())
    return apart


def standard_deviations(X: Features) -> Array:
    """Return the standard deviation of every feature, exactly 0 where it is constant, shape (d,)."""
    if np.abs(X.data if sparse.issparse(X) else X).max(initial=0.0) > LARGEST_SQUARED:
        raise DataError(_OVERFLOW)
    if sparse.issparse(X):
        n, d = X.shape
        mean = np.asarray(X.mean(axis=0)).ravel()
        squares = np.bincount(X.indices, (X.data - mean[X.indices]) ** 2, d)
        deviation = np.sqrt((squares + (n - np.bincount(X.indices, minlength=d)) * mean**2) / n)
    else:
        deviation = X.std(axis=0)
    low, high = _ends(X)
    return np.where(high > low, deviation, 0.0)  # rounding can give equal numbers a positive standard deviation


def _ends(X: Features) -> list[Array]:
    """Return the smallest and the largest value of every feature, shape (d,) each."""
    return [end.toarray().ravel() if sparse.issparse(X) else end for end in (X.min(axis=0), X.max(axis=0))]


def kernel_parameters(kernel: Kernel | str | None) -> Any:
    """Return class and parameters of a kernel in full precision, where its repr has three digits; or its name."""
    if not isinstance(kernel, Kernel):
        return kernel
    params = kernel.get_params(deep=True).items()
    inner = [(k, kernel_parameters(v) if isinstance(v, Kernel) else np.asarray(v).tolist()) for k, v in params]
    return [type(kernel).__name__, *inner]


def drop_white_noise(kernel: Kernel) -> Kernel:
    """Return a kernel without the `WhiteKernel`s among its summands, unless nothing else is left."""
    if not isinstance(kernel, Sum):
        return kernel
    parts = [part for part in (kernel.k1, kernel.k2) if not isinstance(part, WhiteKernel)]
    rest = [drop_white_noise(part) for part in parts or [kernel.k1]]
    return Sum(*rest) if len(rest) == 2 else rest[0]
