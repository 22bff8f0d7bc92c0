"""Checks that records and fitted estimators make of their own parts before anything is computed with them.

`skpref.load` calls ``validate()`` of every record that it reads. Finiteness of arrays and the structure of sparse
matrices are checked there, of all of them alike; what is left here are types, shapes, signs and ranges.
"""

from __future__ import annotations

from numbers import Integral, Real
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from skpref.exceptions import DataError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import UnionType

    from skpref._typing import Features, IntArray

LARGEST_COUNT = 1 << 40
# Attributes of scikit-learn's transformers whose last axis is that of the features.
_PER_FEATURE = {
    *("mean_", "var_", "scale_", "min_", "data_min_", "data_max_", "data_range_", "max_abs_", "center_"),
    *("statistics_", "variances_", "components_", "lambdas_", "quantiles_", "idf_", "cluster_centers_"),
}


def require(condition: object, record: object, name: str, text: str) -> None:
    """Raise a DataError that names the part of a record unless a condition holds."""
    if not condition:
        raise DataError(f"{type(record).__name__}.{name} {text}")


def check_arrays(record: object, sizes: Mapping[str, int] | None = None, /, **shapes: str) -> dict[str, int]:
    """Check float64 arrays against shapes like "K K" or "D 3", equal letters being equal sizes; return the sizes."""
    bound = dict(sizes or {})
    for name, text in shapes.items():
        value, axes = getattr(record, name), text.split()
        require(isinstance(value, np.ndarray) and value.dtype == np.float64, record, name, "must be an array of floats")
        fits = value.ndim == len(axes) and all(
            size == (int(axis) if axis.isdigit() else bound.setdefault(axis, size))
            for axis, size in zip(axes, value.shape, strict=True)
        )
        known_sizes = ", ".join(f"{axis} = {bound[axis]}" for axis in dict.fromkeys(axes) if axis in bound)
        wanted = f"({', '.join(axes)})" + (f" with {known_sizes}" if known_sizes else "")
        require(fits, record, name, f"has shape {np.shape(value)}, expected {wanted}")
    return bound


def check_positive(record: object, *names: str, zero: bool = False) -> None:
    """Check that numbers and arrays are finite and above zero, or at least zero."""
    for name in names:
        value = getattr(record, name)
        number = isinstance(value, np.ndarray | Real) and not isinstance(value, bool)
        sound = number and np.all((value >= 0.0) if zero else (value > 0.0)) and np.all(np.isfinite(value))
        require(sound, record, name, "must be >= 0" if zero else "must be positive")


def check_diagonals(record: object, *names: str) -> None:
    """Check that triangular factors, shape (..., K, K), have positive diagonals."""
    for name in names:
        diagonal = np.diagonal(getattr(record, name), axis1=-2, axis2=-1)
        require((diagonal > 0.0).all(), record, name, "must have a positive diagonal")


def check_indices(record: object, name: str, rows: IntArray, low: int, high: int, size: int | None = None) -> None:
    """Check a vector of int64 indices from `low` to `high` - 1, of a given length if there is one."""
    sound = isinstance(rows, np.ndarray) and rows.dtype == np.int64 and rows.ndim == 1
    require(sound, record, name, "must be a vector of int64")
    require(size is None or rows.size == size, record, name, f"must have {size} entries, has {rows.size}")
    inside = not rows.size or (int(rows.min()) >= low and int(rows.max()) < high)
    require(inside, record, name, f"holds an index outside {low} to {high - 1}")


def check_features(record: object, name: str, X: Features, n_rows: int | None = None) -> int:
    """Check a table of float64 features, dense or CSR, and return the number of its columns."""
    table = (isinstance(X, np.ndarray) and X.ndim == 2) or (sparse.issparse(X) and X.format == "csr")
    require(table and X.dtype == np.float64, record, name, "must be a table of floats")
    require(min(X.shape) >= 1, record, name, "has no rows or no columns")
    require(n_rows is None or X.shape[0] == n_rows, record, name, f"has {X.shape[0]} rows, expected {n_rows}")
    return int(X.shape[1])


def check_types(record: object, **types: type | UnionType) -> None:
    """Check the types of parts: a class or a union of classes each."""
    for name, kind in types.items():
        value = getattr(record, name)
        bad_bool = isinstance(value, bool) and kind in (int, float)
        sound = isinstance(value, kind) and not bad_bool
        require(sound, record, name, f"must not be of type {type(value).__name__}")


def is_count(value: object, least: int = 0) -> bool:
    """Say whether a value is a whole number of a size that something can be counted to."""
    return isinstance(value, Integral) and not isinstance(value, bool) and least <= int(value) < LARGEST_COUNT


def are_names(names: object, size: int) -> bool:
    """Tell whether names of columns are a tuple of n strings, or None."""
    return names is None or (
        isinstance(names, tuple) and len(names) == size and all(isinstance(name, str) for name in names)
    )


def check_columns(estimator: object) -> None:
    """Check the stored columns, classes, ids and words of an estimator of any kind, also of scikit-learn's."""
    held = vars(estimator)
    width = held.get("n_features_in_")
    sound = width is None or (is_count(width, 1) and int(width) < 1 << 31)
    require(sound, estimator, "n_features_in_", "must be a whole number >= 1")
    names = held.get("feature_names_in_")
    if names is not None:
        sound = names.shape == (width,) and all(isinstance(column, str) for column in names.tolist())
        require(sound, estimator, "feature_names_in_", f"must be {width} names")
    for name, least in (("classes_", 2), ("item_ids_", 0), ("user_ids_", 0)):
        values = held.get(name)
        if values is not None:
            sound = values.ndim == 1 and len(set(values.tolist())) == values.size >= least
            require(sound, estimator, name, f"must be different values, at least {least}")
    bounds = held.get("lower_bounds_")
    if bounds is not None:
        require(np.isfinite(np.asarray(bounds, dtype=np.float64)).all(), estimator, "lower_bounds_", "must be finite")
    words = held.get("vocabulary_")
    if words is not None:  # of a text: compiled code follows these numbers
        sound = sorted(words.values()) == list(range(len(words)))
        require(sound, estimator, "vocabulary_", "must number its words")
    if type(estimator).__module__.startswith("sklearn."):
        for name in _PER_FEATURE:
            table = held.get(name)
            fits = width is None or not isinstance(table, np.ndarray) or table.shape[-1:] == (width,)
            require(fits, estimator, name, f"must be of {width} features")
        if isinstance(held.get("features_"), np.ndarray):  # of a MissingIndicator
            check_indices(estimator, "features_", held["features_"], 0, int(held["n_features_in_"]))
