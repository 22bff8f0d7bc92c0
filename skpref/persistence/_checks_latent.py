"""What must hold between the parts of a latent variable model before anything is computed with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from skpref.gp.latent import BayesianGPLVM
from skpref.gp.latent.bound import LatentHyper, LatentMapping
from skpref.persistence._checks import array, positive, require

if TYPE_CHECKING:
    from collections.abc import Callable


def _check_hyper(hyper: LatentHyper, where: str) -> None:
    _, width = array(hyper.Z, f"{where}.Z", (None, None)).shape
    array(hyper.log_w, f"{where}.log_w", (width,))
    for name in ("log_a", "log_beta"):
        value = getattr(hyper, name)
        require(isinstance(value, float) and abs(value) < 100.0, f"{where}.{name}", "must be a logarithm below 100")
    require(bool(np.all(np.abs(hyper.log_w) < 100.0)), f"{where}.log_w", "must be logarithms below 100")


def _check_mapping(mapping: LatentMapping, where: str) -> None:
    require(isinstance(mapping.hyper, LatentHyper), f"{where}.hyper", "is missing")
    size = mapping.hyper.Z.shape[0]
    array(mapping.V, f"{where}.V", (size, None))
    array(mapping.gap, f"{where}.gap", (size, size))


def _check_estimator(estimator: BayesianGPLVM, where: str) -> None:
    if not hasattr(estimator, "mapping_"):
        return  # saved before it was fitted
    prefix = f"{where}." if where else ""
    mapping = estimator.mapping_
    require(isinstance(mapping, LatentMapping), f"{prefix}mapping_", "is no mapping")
    width, n_features = mapping.hyper.Z.shape[1], mapping.V.shape[1]
    same = estimator.n_features_in_ == n_features and estimator._n_features_out == width  # noqa: SLF001
    require(same, f"{prefix}n_features_in_", f"must be {n_features}, and {width} coordinates")
    array(estimator.mean_, f"{prefix}mean_", (n_features,))
    positive(estimator.scale_, f"{prefix}scale_")
    n, _ = array(estimator.embedding_, f"{prefix}embedding_", (None, width)).shape
    std = array(estimator.embedding_std_, f"{prefix}embedding_std_", (n, width))
    require(n >= 1 and bool((std > 0.0).all()), f"{prefix}embedding_std_", "must be positive, of at least a row")


LATENT_CHECKS: dict[type[Any], Callable[[Any, str], None]] = {
    LatentHyper: _check_hyper,
    LatentMapping: _check_mapping,
    BayesianGPLVM: _check_estimator,
}
