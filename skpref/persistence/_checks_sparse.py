"""What must hold between the parts of a sparse Gaussian process before anything is computed with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from skpref.gp.posterior import SparseLatent
from skpref.gp.sparse import SVGPClassifier, SVGPRegressor
from skpref.inference.blocks import DenseBlock
from skpref.inference.collapsed import Moments
from skpref.inference.svi import State
from skpref.likelihoods import Likelihood
from skpref.persistence._checks import array, features, indices, kernel_width, positive, require

if TYPE_CHECKING:
    from collections.abc import Callable


def _check_moments(moments: Moments, where: str) -> None:
    size, _ = array(moments.cross, f"{where}.cross", (None, None)).shape
    array(moments.gram, f"{where}.gram", (size, size))
    for name in ("prior", "square"):
        value = getattr(moments, name)
        require(isinstance(value, float) and 0.0 <= value < np.inf, f"{where}.{name}", "must be >= 0")
    positive(moments.weight, f"{where}.weight")


def _check_state(state: Any, where: str, size: int) -> None:
    require(isinstance(state, State), where, "is no state")
    block = state.blocks.get("f")
    fits = len(state.blocks) == 1 and isinstance(block, DenseBlock) and block.size == size
    require(fits, f"{where}.blocks", f"must have {size} variables")
    require("f" in state.scales, f"{where}.scales", "must hold the scale f")


def _check_latent(latent: Any, where: str, width: int) -> None:
    require(isinstance(latent, SparseLatent), where, "is no posterior")
    require(latent.basis.points.shape[1] == width, f"{where}.basis", f"must be of {width} features")


def _check_rows(rows: Any, where: str, width: int) -> int:
    """Number of the rows that a later fit uses."""
    require(isinstance(rows, tuple) and len(rows) == 3, where, "must be rows, targets and weights")
    n = int(array(rows[2], f"{where}.weight", (None,)).size)
    require((rows[2] > 0.0).all(), f"{where}.weight", "must be positive")
    require(features(rows[0], f"{where}.X", n) == width, f"{where}.X", f"must have {width} columns")
    return n


def _check_width(estimator: Any, prefix: str) -> int:
    width = estimator.n_features_in_
    require(type(width) is int and width >= 1, f"{prefix}n_features_in_", "must be a whole number >= 1")
    return int(width)


def _check_regressor(estimator: SVGPRegressor, where: str) -> None:
    if not hasattr(estimator, "posterior_"):
        return  # saved before it was fitted
    prefix = f"{where}." if where else ""
    width = _check_width(estimator, prefix)
    _check_latent(estimator.posterior_, f"{prefix}posterior_", width)
    kernel_width(estimator.kernel_, f"{prefix}kernel_", width)
    size = estimator.posterior_.basis.points.shape[0]
    same = features(estimator.inducing_points_, f"{prefix}inducing_points_", size) == width
    require(same, f"{prefix}inducing_points_", f"must have {width} columns")
    require(isinstance(estimator.likelihood_, Likelihood), f"{prefix}likelihood_", "is missing")
    positive(estimator.y_scale_, f"{prefix}y_scale_")
    require(isinstance(estimator.y_mean_, float), f"{prefix}y_mean_", "must be a number")
    if estimator.inference_ == "collapsed":
        positive(estimator.noise_, f"{prefix}noise_")
    rows, sums, state = estimator._rows, estimator._sums, estimator._state  # noqa: SLF001
    if rows is not None:
        array(rows[1], f"{prefix}_rows.y", (_check_rows(rows, f"{prefix}_rows", width),))
    if sums is not None:
        sound = isinstance(sums, Moments) and sums.gram.shape == (size, size)
        require(sound, f"{prefix}_sums", f"must be of {size} inducing points")
    require(rows is not None or sums is not None, f"{prefix}_rows", "and _sums are both missing")
    if state is not None:
        _check_state(state, f"{prefix}_state", size)


def _check_classifier(estimator: SVGPClassifier, where: str) -> None:
    if not hasattr(estimator, "posteriors_"):
        return  # saved before it was fitted
    prefix = f"{where}." if where else ""
    width, n_classes = _check_width(estimator, prefix), np.size(estimator.classes_)
    require(np.ndim(estimator.classes_) == 1 and n_classes >= 2, f"{prefix}classes_", "must be at least 2 classes")
    n_models = 1 if n_classes == 2 else n_classes
    for name in ("posteriors_", "kernels_", "_states"):
        value = getattr(estimator, name)
        sound = isinstance(value, list) and len(value) == n_models
        require(sound, f"{prefix}{name}", f"must be {n_models} of {n_classes} classes")
    for latent, kernel, state in zip(estimator.posteriors_, estimator.kernels_, estimator._states, strict=True):  # noqa: SLF001
        _check_latent(latent, f"{prefix}posteriors_", width)
        kernel_width(kernel, f"{prefix}kernels_", width)
        _check_state(state, f"{prefix}_states", latent.basis.points.shape[0])
    n = _check_rows(estimator._rows, f"{prefix}_rows", width)  # noqa: SLF001
    indices(estimator._rows[1], f"{prefix}_rows.label", 0, n_classes, (n,))  # noqa: SLF001


SPARSE_CHECKS: dict[type[Any], Callable[[Any, str], None]] = {
    Moments: _check_moments,
    SVGPRegressor: _check_regressor,
    SVGPClassifier: _check_classifier,
}
