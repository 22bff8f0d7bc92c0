"""Checks of kernels that were read from a file: parameters of the right kind, as wide as the features."""

from __future__ import annotations

from numbers import Real

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from skpref._checks import require
from skpref.kernels.evaluate import cross

_KERNELS = ("k1", "k2", "kernel")
_TABLES = ("knots", "levels")  # tables of a `Warped` kernel


def check_parameters(kernel: Kernel) -> None:
    """Raise DataError unless the parameters of a kernel are positive and its bounds are pairs (low, high)."""
    params = kernel.get_params(deep=False)
    require(vars(kernel).keys() == params.keys(), kernel, "get_params()", "does not name the attributes")
    for name, value in params.items():
        if name in _KERNELS:
            require(isinstance(value, Kernel), kernel, name, "must be a kernel")
        elif name in _TABLES:
            table = isinstance(value, np.ndarray) and value.ndim == 2 and value.dtype == np.float64
            require(table and np.isfinite(value).all(), kernel, name, "must be a table of finite numbers")
            require(bool((np.diff(value) >= 0.0).all()), kernel, name, "must ascend in each row")
        elif name.endswith("_bounds"):
            _check_bounds(kernel, name, value)
        elif name != "columns" and not (name == "origin" and value is None):
            number = isinstance(value, Real) and not isinstance(value, bool)
            vector = isinstance(value, np.ndarray | list | tuple) and np.ndim(value) == 1 and len(value)
            require(number or vector, kernel, name, "must be a number or a vector of numbers")
            low = value >= 0.0 if name == "sigma_0" else np.asarray(value, dtype=np.float64) > 0.0
            require(name == "origin" or np.all(low), kernel, name, "must be positive")
            require(name == "nu" or np.all(np.isfinite(value)), kernel, name, "must be finite")
    require(not np.isnan(kernel.bounds).any(), kernel, "bounds", "must be pairs of positive numbers")


def _check_bounds(kernel: Kernel, name: str, value: object) -> None:
    if isinstance(value, str):
        require(value == "fixed", kernel, name, "must be pairs of numbers or 'fixed'")
        return
    bounds = np.asarray(value)  # raises where pairs are not of one length
    pairs = bounds.dtype.kind in "fi" and bounds.ndim in {1, 2} and bounds.shape[-1] == 2
    require(pairs and (bounds[..., 0] <= bounds[..., 1]).all(), kernel, name, "must be pairs (low, high)")


def check_kernel(record: object, name: str, kernel: object, n_features: int) -> None:
    """Raise DataError unless a part of a record is a kernel that accepts rows of n features."""
    require(isinstance(kernel, Kernel), record, name, "must be a kernel")
    origin = np.zeros((1, n_features))
    try:
        value = cross(kernel, origin, origin)
    except ValueError as error:
        text = f"does not fit {n_features} features: {error}"
        require(condition=False, record=record, name=name, text=text)
    require(np.isfinite(value).all(), record, name, "is not finite at the origin")
