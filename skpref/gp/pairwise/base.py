"""What `GPPLRegressor` and `GPPLClassifier` share: parameters, the way to a fit, and small steps around it."""

from __future__ import annotations

import warnings
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.gaussian_process.kernels import Kernel
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import validate_data

from skpref._callbacks import CallbackMixin
from skpref._estimator import (
    check_memory,
    check_n_samples,
    digest,
    on_iteration,
    warn_constant,
    warn_not_converged,
)
from skpref._math.random import as_generator
from skpref.data import Comparisons, Table, from_scores
from skpref.data.tables import canonical
from skpref.exceptions import DataError, DataWarning
from skpref.gp.default_kernels import kernel_parameters
from skpref.gp.entities import Items
from skpref.gp.pairwise.fit import PairConfig, PairData, PairFit, fit_pairs
from skpref.inference.svi import Schedule
from skpref.likelihoods import Likelihood, PairwiseLogit, PairwiseProbit, PairwiseProbitTies

if TYPE_CHECKING:
    from skpref._typing import Array, Features, IntArray
    from skpref.gp.pairwise.posterior import PairPosterior

_LIKELIHOODS = {"probit": PairwiseProbit, "logit": PairwiseLogit, "probit-ties": PairwiseProbitTies}
SHARED_CONSTRAINTS: dict[str, list[Any]] = {
    "kernel": [Kernel, None],
    "likelihood": [StrOptions(set(_LIKELIHOODS)), Likelihood],
    "inference": [StrOptions({"auto", "vb", "svi", "laplace", "linearised"})],
    "n_inducing": [Interval(Integral, 1, None, closed="left")],
    "inducing": [StrOptions({"kmeans++", "kmeans", "random", "variance"}), "array-like", "sparse matrix"],
    "batch_size": [Interval(Integral, 1, None, closed="left")],
    "max_iter": [Interval(Integral, 1, None, closed="left")],
    "tol": [Interval(Real, 0.0, None, closed="left")],
    "delay": [Interval(Real, 0.0, None, closed="left")],
    "forgetting_rate": [Interval(Real, 0.5, 1.0, closed="right")],
    "shape_s0": [Interval(Real, 0.0, None, closed="neither")],
    "rate_s0": [Interval(Real, 0.0, None, closed="neither")],
    "length_scale_factor": [StrOptions({"auto"}), Interval(Real, 0.0, None, closed="neither")],
    "optimizer": [StrOptions({"l-bfgs-b"}), None],
    "n_restarts_optimizer": [Interval(Integral, 0, None, closed="left")],
    "warm_start": ["boolean"],
    "verbose": ["verbose"],
    "random_state": ["random_state", np.random.Generator],
}


class PairwiseGP(CallbackMixin, BaseEstimator):
    """What the estimators share: from merged comparisons of seen items to fitted attributes."""

    posterior_: Any
    _warm_key: Any

    def _config(self, *, offsets: bool, order: bool) -> PairConfig:
        schedule = Schedule(
            max_iter=self.max_iter,
            tol=self.tol,
            batch_size=self.batch_size,
            delay=self.delay,
            forgetting_rate=self.forgetting_rate,
            on_iteration=on_iteration(self),
        )
        return PairConfig(
            likelihood=as_likelihood(self.likelihood),
            inference=self.inference,
            n_inducing=self.n_inducing,
            inducing=self.inducing,
            schedule=schedule,
            shape_s0=self.shape_s0,
            rate_s0=self.rate_s0,
            offsets=offsets,
            order=order,
            length_scale_factor=self.length_scale_factor if self.kernel is None else None,
            optimizer=self.optimizer,
            n_restarts=self.n_restarts_optimizer,
        )

    def _infer(self, data: PairData, config: PairConfig, names: Any = None) -> PairFit:
        if data.X is not None:
            check_memory(data.X.shape[0], self._most_points(data.X))
            warn_constant(data.X)
        rng = as_generator(self.random_state)
        earlier, self._warm_key = getattr(self, "_warm_key", None), self._identity(data, config, names)
        if self.warm_start and earlier == self._warm_key:
            return fit_pairs(data, self.kernel_, config, rng, self._state, self.inducing_points_)
        return fit_pairs(data, self.kernel, config, rng)

    def _identity(self, data: PairData, config: PairConfig, names: Any) -> str:
        """Digest of all that an earlier posterior must share to be gone on from: items and the shape of the model."""
        given = None if isinstance(self.inducing, str) else self.inducing
        ids = None if names is None else list(names)
        search = self.length_scale_factor, self.optimizer
        model = kernel_parameters(self.kernel), self.n_inducing, config.offsets, config.order, search, ids
        return digest(model, data.X, given)

    def _most_points(self, X: Features) -> int:
        if isinstance(self.inducing, str):
            return min(self.n_inducing, X.shape[0])
        return self.inducing.shape[0] if hasattr(self.inducing, "shape") else len(self.inducing)

    def _keep(self, result: PairFit) -> None:
        self.posterior_ = result.posterior
        self._state = result.state
        self.likelihood_ = result.likelihood
        self.kernel_ = result.kernel
        basis = result.posterior.basis
        self.inducing_points_ = None if basis is None else basis.points
        self.scale_ = result.posterior.scales["f" if basis is not None else "offset"]
        self._keep_trace(result)

    def _keep_trace(self, result: Any, frames: int = 5) -> None:
        self.lower_bound_ = result.bound
        self.lower_bounds_ = list(result.bounds)
        self.n_iter_ = len(result.bounds)
        self.converged_ = result.converged
        if not result.converged:
            warn_not_converged(self, self.n_iter_, frames)


def as_likelihood(likelihood: str | Likelihood) -> Likelihood:
    """Return the likelihood of a name, or a likelihood as it is."""
    return _LIKELIHOODS[likelihood]() if isinstance(likelihood, str) else likelihood


def require_labels(estimator: Any, y: Any) -> None:
    """Refuse a missing y in scikit-learn's words."""
    if y is None:
        msg = f"This {type(estimator).__name__} estimator requires y to be passed, but the target y is None."
        raise ValueError(msg)


def joined(comparisons: Comparisons) -> IntArray:
    """Connected component of every item; a warning if there are several, an error if nothing is compared."""
    if not comparisons.n_pairs:
        msg = (
            "at least 2 items with a comparison of positive weight are needed; got none: every sample_weight is zero, "
            "or every comparison is of an item with itself."
        )
        raise DataError(msg)
    n_components, component = comparisons.components()
    if n_components > 1:
        msg = (
            f"The comparisons form {n_components} connected components (see components_): utilities of items in "
            "different components are related by the prior and the features alone."
        )
        warnings.warn(msg, DataWarning, stacklevel=5)
    return component


def checked_rows(estimator: Any, X: Any, y: Any, comparisons: Any) -> tuple[Features, Any]:
    """X in canonical form, and y unless comparisons stand in its place."""
    options = {"accept_sparse": "csr", "dtype": np.float64, "order": "C"}
    if comparisons is not None and y is not None:
        msg = "Give either y or comparisons, not both: each of them says which rows are preferred."
        raise ValueError(msg)
    if comparisons is None:
        X, y = validate_data(estimator, X, y, y_numeric=True, **options)
    else:
        X = validate_data(estimator, X, **options)
    if X.shape[0] < 2:
        msg = f"at least 2 items are needed to compare them; got n_samples = {X.shape[0]}."
        raise DataError(msg)
    return canonical(X), y


def compare_scores(estimator: Any, y: Any, qid: Any, sample_weight: Any, item: IntArray, n_items: int) -> Comparisons:
    """Return the comparisons that scores imply within their groups."""
    found = from_scores(
        y,
        qid,
        pairs_per_item=estimator.pairs_per_item,
        # A stream of its own: inducing points and mini-batches draw from the parent.
        rng=as_generator(estimator.random_state).spawn(1)[0],
        sample_weight=sample_weight,
        items=item,
        n_items=n_items,
    )
    if found.left.size == 0 and n_items > 1:
        msg = (
            "at least 1 comparison is required; got none: y has equal values (or zero weights) within every group. "
            "Give scores that differ, or comparisons."
        )
        raise DataError(msg)
    return found


def new_items(estimator: Any, table: Table) -> Items:
    """Items known by their features alone, of the width and the names that the estimator was fitted with."""
    name, fitted = type(estimator).__name__, estimator._table  # noqa: SLF001 - the classifier's other half
    wanted = 0 if fitted is None else fitted.n_features
    if table.n_features != wanted:
        msg = f"items has {table.n_features} features, but {name} is expecting {wanted} features as input."
        raise ValueError(msg)
    if fitted.feature_names and table.feature_names and fitted.feature_names != table.feature_names:
        msg = (
            f"The feature names should match those of the table that {name} was fitted with, in the same order; "
            f"got {table.feature_names[:5]}, wanted {fitted.feature_names[:5]}."
        )
        raise ValueError(msg)
    return Items(table.features, np.full(table.n_items, -1))


def moments(
    posterior: PairPosterior, items: Items, *, return_std: bool, return_cov: bool, item_effects: bool = True
) -> Any:
    """Return the mean utility, and its standard deviation or covariance where asked for."""
    if return_std and return_cov:
        msg = "At most one of return_std and return_cov can be asked for; got both."
        raise ValueError(msg)
    if return_cov:
        return posterior.covariance(items, item_effects=item_effects, centred=True)
    mean, variance = posterior.utility(items, item_effects=item_effects, centred=True)
    return (mean, np.sqrt(variance)) if return_std else mean


def draw(
    posterior: PairPosterior, items: Items, n_samples: int, rng: np.random.Generator, *, item_effects: bool = True
) -> Array:
    """Draw joint utilities from the posterior, shape (n_items, n_samples)."""
    check_n_samples(n_samples)
    mean, covariance = posterior.covariance(items, item_effects=item_effects, centred=True)
    return rng.multivariate_normal(mean, covariance, n_samples, method="eigh", check_valid="ignore").T
