"""What must hold between the parts of a factorization machine, a design and a pipeline of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from sklearn.pipeline import Pipeline

from skpref.data import OneHotDesign, Vocabulary
from skpref.factorization.machine.base import FMBase
from skpref.factorization.machine.model import Bias, Machine, Prior
from skpref.factorization.machine.posterior import FMPosterior
from skpref.likelihoods import Gaussian, PairwiseLogit, PairwiseProbit
from skpref.persistence._checks import array, positive, require

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


def _check_bias(bias: Bias, where: str) -> None:
    require(isinstance(bias.mean, float), f"{where}.mean", "must be a number")
    positive(bias.variance, f"{where}.variance")


def _check_prior(prior: Prior, where: str) -> None:
    shape = array(prior.nu, f"{where}.nu", (None, None)).shape
    require(shape[0] >= 1 and shape[1] >= 1, f"{where}.nu", "is of no group")
    require((array(prior.lam, f"{where}.lam", shape) > 0.0).all(), f"{where}.lam", "must be positive")
    group = array(prior.group, f"{where}.group", (None,), np.int64)
    inside = group.size >= 1 and 0 <= group.min() <= group.max() < shape[0]
    require(inside, f"{where}.group", f"must be numbers of {shape[0]} groups")


def _check_machine(machine: Machine, where: str) -> None:
    for name, kind in (("bias", Bias), ("bias_prior", Bias), ("prior", Prior)):
        require(isinstance(getattr(machine, name), kind), f"{where}.{name}", f"must be a {kind.__name__}")
    shape = machine.prior.group.size, machine.prior.nu.shape[1]
    array(machine.mean, f"{where}.mean", shape)
    require(isinstance(machine.variance, np.ndarray), f"{where}.variance", "must be an array")
    if machine.variance.ndim == 2:
        require(
            (array(machine.variance, f"{where}.variance", shape) > 0.0).all(), f"{where}.variance", "must be positive"
        )
    else:
        _check_covariances(array(machine.variance, f"{where}.variance", (*shape, shape[1])), f"{where}.variance")
    known = Gaussian | PairwiseProbit | PairwiseLogit
    require(isinstance(machine.likelihood, known), f"{where}.likelihood", "is not one of a factorization machine")


def _check_covariances(matrices: NDArray[np.float64], where: str) -> None:
    # An inverse or an average of such matrices is symmetric up to rounding only.
    rounding = 1e-10 * np.abs(matrices).max(axis=(1, 2), keepdims=True, initial=0.0)
    differences = np.abs(matrices - matrices.transpose(0, 2, 1))
    require((differences <= rounding).all(), where, "must be symmetric")
    try:
        np.linalg.cholesky(matrices)
    except np.linalg.LinAlgError:
        require(condition=False, where=where, text="must be positive definite")


def _check_posterior(posterior: FMPosterior, where: str) -> None:
    parts = posterior.machine, posterior.last
    require(all(isinstance(part, Machine) for part in parts), where, "must have a machine and its last iterate")
    require(parts[0].mean.shape == parts[1].mean.shape, f"{where}.last", f"must be of shape {parts[0].mean.shape}")
    require(type(parts[0].likelihood) is type(parts[1].likelihood), f"{where}.last", "has another likelihood")
    require(isinstance(posterior.offset, float), f"{where}.offset", "must be a number")
    positive(posterior.scale, f"{where}.scale")


def _check_estimator(estimator: FMBase, where: str) -> None:
    if not hasattr(estimator, "posterior_"):
        return  # saved before it was fitted
    prefix = f"{where}." if where else ""
    posterior = estimator.posterior_
    require(isinstance(posterior, FMPosterior), f"{prefix}posterior_", "must be an FMPosterior")
    machine = posterior.machine
    width, n_groups = machine.mean.shape[0], machine.prior.nu.shape[0]
    require(estimator.n_features_in_ == width, f"{prefix}n_features_in_", f"must be {width}")
    for name, size in (("groups_", n_groups), ("feature_names_in_", width)):
        labels = getattr(estimator, name, None)
        found = isinstance(labels, np.ndarray) and labels.shape == (size,)
        require(found or (name != "groups_" and labels is None), f"{prefix}{name}", f"must be {size} labels")
    classes = getattr(estimator, "classes_", None)
    require(
        (classes is None) == isinstance(machine.likelihood, Gaussian), f"{prefix}posterior_", "has another likelihood"
    )
    require(hasattr(estimator, "link") == (classes is not None), f"{prefix}classes_", "are of a classifier")
    if classes is not None:
        two = isinstance(classes, np.ndarray) and classes.shape == (2,) and classes[0] != classes[1]
        require(two, f"{prefix}classes_", "must be two labels")
        require((posterior.offset, posterior.scale) == (0.0, 1.0), f"{prefix}posterior_", "has units, but classifies")
    _check_trace(estimator, prefix)


def _check_trace(estimator: FMBase, prefix: str) -> None:
    bounds = array(estimator.lower_bounds_, f"{prefix}lower_bounds_", (None,))
    require(bounds.size >= 1, f"{prefix}lower_bounds_", "are missing")
    require(isinstance(estimator.lower_bound_, float), f"{prefix}lower_bound_", "must be a number")
    array(estimator.validation_losses_, f"{prefix}validation_losses_", (None,))
    require(type(estimator.n_iter_) is int and estimator.n_iter_ >= 0, f"{prefix}n_iter_", "must be a whole number")
    require(isinstance(estimator.converged_, bool), f"{prefix}converged_", "must be true or false")


def _check_design(design: OneHotDesign, where: str) -> None:
    if not hasattr(design, "_users"):
        return
    prefix = f"{where}." if where else ""
    known = design._users, design._items  # noqa: SLF001 - of this package
    for name, one in zip(("_users", "_items"), known, strict=True):
        require(isinstance(one, Vocabulary) and one.size >= 1, f"{prefix}{name}", "must be ids")
    require(design.n_features_in_ == 2, f"{prefix}n_features_in_", "must be 2")
    names = getattr(design, "feature_names_in_", None)
    require(names is None or np.shape(names) == (2,), f"{prefix}feature_names_in_", "must be two names")
    rated, shape = design.rated_, (known[0].size + 1, known[1].size)
    if rated is None:
        return
    sound = isinstance(rated, sparse.csr_array) and rated.shape == shape and rated.dtype == np.float64
    require(sound, f"{prefix}rated_", f"must be a sparse matrix of shape {shape}")
    require(rated.indptr[-1] == rated.indptr[-2], f"{prefix}rated_", "knows items of those who were not seen")


def _check_pipeline(pipeline: Pipeline, where: str) -> None:
    prefix = f"{where}." if where else ""
    steps = pipeline.steps
    sound = isinstance(steps, list) and bool(steps) and all(_is_step(step) for step in steps)
    require(sound, f"{prefix}steps", "must be names and estimators")
    require(len({name for name, _ in steps}) == len(steps), f"{prefix}steps", "must have different names")
    designs = all(isinstance(step, OneHotDesign) for _, step in steps[:-1])
    require(designs, f"{prefix}steps", "must be designs, and an estimator behind them")
    require(pipeline.memory is None, f"{prefix}memory", "must be None: a cache is no part of a model")
    require(pipeline.transform_input is None, f"{prefix}transform_input", "must be None")
    design, last = steps[0][1], steps[-1][1]
    if isinstance(design, OneHotDesign) and isinstance(last, FMBase) and len(steps) == 2:
        fitted = hasattr(design, "_users") and hasattr(last, "posterior_")
        fits = not fitted or design.groups_.size == last.n_features_in_
        require(fits, f"{prefix}steps", "have other columns than their estimator")


def _is_step(step: Any) -> bool:
    pair = isinstance(step, tuple) and len(step) == 2 and isinstance(step[0], str)
    return pair and hasattr(step[1], "get_params") and not isinstance(step[1], Pipeline)


MACHINE_CHECKS: dict[type[Any], Callable[[Any, str], None]] = {
    Bias: _check_bias,
    Prior: _check_prior,
    Machine: _check_machine,
    FMPosterior: _check_posterior,
    FMBase: _check_estimator,
    OneHotDesign: _check_design,
    Pipeline: _check_pipeline,
}
