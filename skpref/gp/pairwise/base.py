"""What `GPPLRegressor`, `GPPLClassifier` and `CrowdGPPL` share: parameters, checks of input, fitted attributes."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtr
from sklearn.gaussian_process.kernels import Kernel
from sklearn.utils._param_validation import Interval, StrOptions

from skpref._checks import check_types, require
from skpref._estimator import (
    check_memory,
    check_n_samples,
    digest,
    iteration_callback,
    warn_constant,
    warn_not_converged,
)
from skpref._math.random import as_generator
from skpref._validation import validate_data
from skpref._warn import warn
from skpref.data import Table
from skpref.data.comparisons import from_scores
from skpref.data.tables import canonical
from skpref.exceptions import DataError, DataWarning
from skpref.gp.default_kernels import kernel_parameters
from skpref.gp.pairwise.fit import NAMED_KERNELS, PairConfig, PairData, PairFit, WarmStart, fit_pairs
from skpref.gp.pairwise.policy import POLICY
from skpref.gp.pairwise.posterior import PairPosterior
from skpref.gp.posterior import check_blocks
from skpref.inference.problem import State
from skpref.inference.scale import check_scales
from skpref.kernels.checks import check_kernel
from skpref.likelihoods import (
    Likelihood,
    Luce,
    PairwiseDavidson,
    PairwiseLogit,
    PairwiseLogitTies,
    PairwiseMargin,
    PairwiseProbit,
    PairwiseProbitTies,
)
from skpref.settings import (
    CHECKPOINT_CONSTRAINTS,
    INDUCING_CONSTRAINTS,
    LBFGS,
    SVI,
    Fixed,
    Gamma,
    Inducing,
    Settings,
    checkpoint_of,
    inducing_of,
    inference_name,
    n_restarts_of,
    scale_of,
    schedule_of,
)

if TYPE_CHECKING:
    from skpref._typing import Array, Features, IntArray
    from skpref.data import Comparisons, IdColumn
    from skpref.gp.entities import Items
    from skpref.gp.pairwise.sharded import ShardedComparisons

LIKELIHOODS = {
    "auto": PairwiseProbit,  # and with ties `PairwiseProbitTies`
    "luce": Luce,
    "plackett-luce": Luce,
    "probit": PairwiseProbit,
    "logit": PairwiseLogit,
    "probit-ties": PairwiseProbitTies,
    "logit-ties": PairwiseLogitTies,
    "davidson": PairwiseDavidson,
    "probit-graded": PairwiseProbitTies,
    "logit-graded": PairwiseLogitTies,
    "margin": PairwiseMargin,
}
_NOT_OF_PAIRS = {"auto", "luce", "probit-graded", "logit-graded", "margin"}
SHARED_CONSTRAINTS: dict[str, list[Any]] = {
    "kernel": [Kernel, None],
    "likelihood": [StrOptions(set(LIKELIHOODS) - _NOT_OF_PAIRS), Likelihood],
    "inference": [StrOptions({"auto", "vb", "svi", "laplace", "linearised"}), SVI],
    "inducing": INDUCING_CONSTRAINTS,
    "max_iter": [Interval(Integral, 1, None, closed="left")],
    "tol": [Interval(Real, 0.0, None, closed="left")],
    "scale_prior": [Gamma, Fixed, None],
    "optimizer": [StrOptions({"auto", "l-bfgs-b"}), LBFGS, None],
    "warm_start": ["boolean"],
    "verbose": ["verbose"],
    "random_state": ["random_state", np.random.Generator],
}
CLASSIFIER_CONSTRAINTS: dict[str, list[Any]] = {
    **SHARED_CONSTRAINTS,
    **CHECKPOINT_CONSTRAINTS,
    "items": [Table, "array-like", "sparse matrix", None],
    "kernel": [Kernel, StrOptions(set(NAMED_KERNELS)), None],
    "item_effects": ["boolean"],
    "order_effect": ["boolean"],
    "covariates": ["array-like", dict, None],
    "groups": ["array-like", dict, None],
    "context": [list, tuple, None],
    "time": [str, Integral, None],
    "weight": [str, Integral, None],
    "on_self": [StrOptions({"raise", "drop"})],
    "likelihood": [StrOptions(set(LIKELIHOODS) - {"plackett-luce"}), Likelihood],
}
DEFAULT_SETTINGS: dict[str, Settings] = {
    "inference": SVI(),
    "inducing": Inducing(),
    "scale_prior": Gamma(1.0, 1.0),
    "optimizer": LBFGS(),
}
# Prior of the inverse variance of utilities of ids alone. Gamma(1, 1) expects them near the noise of an answer: at 44,
# for teams that differ by .15, its density is e^-44. In simulations of 18 items with 8 answers each, excess log loss at
# standard deviations of .15 to 2.5 is .020, .035, .074, .096 and .125 for .046, .049, .076, .095 and .126.
PRIOR_OF_IDS = Gamma(0.5, 0.1)


def config_of(estimator: Any, *, offsets: bool, order: bool, batch_size: int = 1000) -> PairConfig:
    """Return the parameters of an estimator as a fit needs them, with the default size of mini-batches."""
    n_inducing, inducing = inducing_of(estimator.inducing, POLICY.inducing)
    return PairConfig(
        likelihood=as_likelihood(estimator.likelihood),
        inference=inference_name(estimator.inference),
        n_inducing=n_inducing,
        inducing=inducing,
        schedule=schedule_of(estimator, batch_size, iteration_callback(estimator), checkpoint_of(estimator)),
        scale=scale_of(estimator._setting("scale_prior")),  # noqa: SLF001 - of this package
        offsets=offsets,
        order=order,
        learn_length_scales=estimator.optimizer is not None and not isinstance(estimator.kernel, Kernel),
        team_mean=getattr(estimator, "team", "sum") == "mean",
        n_restarts=n_restarts_of(estimator.optimizer),
    )


def infer(
    estimator: Any, data: PairData, config: PairConfig, ids: IdColumn | None = None, *, resume: bool = False
) -> PairFit:
    """Fit, or with `resume` only update the posterior of the earlier fit: kernel and inducing points stay."""
    check_features(estimator, data.X)
    start, key = warm_start(estimator, data, config, ids), _digest(estimator, data, config, ids)
    if resume:
        start = _earlier(estimator)
        config = replace(config, learn_length_scales=False, n_restarts=None)
    vars(estimator)["_warm_key"] = key
    return fit_pairs(data, estimator.kernel, config, as_generator(estimator.random_state), start)


def check_features(estimator: Any, X: Features) -> None:
    """Refuse features of items whose fit leaves memory, and warn of constant ones."""
    if X is not None:
        check_memory(X.shape[0], max_inducing(estimator, X))
        warn_constant(X)


def warm_start(estimator: Any, data: PairData, config: PairConfig, ids: IdColumn | None = None) -> WarmStart | None:
    """Return the earlier fit if this one is to start from it."""
    key = vars(estimator).get("_warm_key") if estimator.warm_start else None
    return _earlier(estimator) if key is not None and key == _digest(estimator, data, config, ids) else None


def _earlier(estimator: Any) -> WarmStart:
    return WarmStart(vars(estimator)["_state"], estimator.kernel_, estimator.inducing_points_)


def _digest(estimator: Any, data: PairData, config: PairConfig, ids: IdColumn | None) -> str:
    """Return a digest of all that two fits must share for the second to start from the first."""
    search = config.learn_length_scales, config.n_restarts
    model = kernel_parameters(estimator.kernel), config.n_inducing, config.offsets, config.order, search
    points = None if isinstance(config.inducing, str) else config.inducing
    return digest(model, data.X, points, ids)


def max_inducing(estimator: Any, X: Features) -> int:
    """Return the largest number of inducing points of a fit."""
    n, points = inducing_of(estimator.inducing, POLICY.inducing)
    if isinstance(points, str):
        return min(n, X.shape[0])
    # A number is refused where the points are read.
    return int((*points.shape, 1)[0]) if hasattr(points, "shape") else len(points)  # type: ignore[arg-type]


def set_attributes(estimator: Any, fit: PairFit) -> None:
    """Set the fitted attributes of an estimator."""
    basis = fit.posterior.basis
    estimator.posterior_ = fit.posterior
    vars(estimator)["_state"] = fit.state
    estimator.likelihood_ = fit.likelihood
    estimator.kernel_ = fit.kernel
    estimator.inducing_points_ = None if basis is None else basis.points
    estimator.scale_ = fit.posterior.scales["f" if basis is not None else "offset"]
    set_trace(estimator, fit)


def set_trace(estimator: Any, fit: Any) -> None:
    """Set the bounds and the number of passes of a fit, and warn if it did not converge."""
    estimator.lower_bound_ = fit.bound
    estimator.lower_bounds_ = list(fit.bounds)
    estimator.n_iter_ = len(fit.bounds)
    estimator.converged_ = fit.converged
    if not fit.converged:
        warn_not_converged(estimator, estimator.n_iter_)


def check_attributes(estimator: Any) -> None:
    """Raise DataError unless the attributes that `set_attributes` sets fit together."""
    check_types(estimator, posterior_=PairPosterior, _state=State, likelihood_=Likelihood)
    posterior, basis, state = estimator.posterior_, estimator.posterior_.basis, vars(estimator)["_state"]
    offsets = 0 if posterior.offset_variance is None else posterior.n_seen
    check_blocks(estimator, state, {"f": posterior.mean.size, "offsets": offsets})
    check_scales(estimator, "_state", state.scales, posterior.scales)
    if basis is not None:
        check_kernel(estimator, "kernel_", estimator.kernel_, basis.points.shape[1])
        same = getattr(estimator.inducing_points_, "shape", None) == basis.points.shape
        require(same, estimator, "inducing_points_", f"must have shape {basis.points.shape}")


def as_likelihood(likelihood: str | Likelihood) -> Likelihood:
    """Return the likelihood of a name, or a likelihood as it is."""
    return LIKELIHOODS[likelihood]() if isinstance(likelihood, str) else likelihood


def connected_components(comparisons: Comparisons | ShardedComparisons) -> IntArray:
    """Return the connected component of each item; warn if there are several, raise if nothing is compared."""
    if not comparisons.n_pairs:
        msg = (
            "at least 2 items with a comparison of positive weight are needed; got none: every sample_weight is zero, "
            "or every comparison is of an item with itself."
        )
        raise DataError(msg)
    n_components, component = comparisons.components()
    if n_components > 1:
        msg = (
            f"The comparisons form {n_components} connected components (see components_). No comparison links items of "
            "different components: only the prior and the features relate their utilities."
        )
        warn(msg, DataWarning)
    return component


def check_rows(estimator: Any, X: Any, y: Any, comparisons: Any) -> tuple[Features, Any]:
    """Return X in canonical form, and y, which is None where comparisons are given."""
    options = {"accept_sparse": "csr", "dtype": np.float64, "order": "C"}
    if comparisons is not None and y is not None:
        raise ValueError("Pass either y or comparisons, not both: each of them says which rows are preferred.")
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
    comparisons = from_scores(
        y,
        qid,
        pairs_per_item=estimator.pairs_per_item,
        # A stream of its own: inducing points and mini-batches draw from the parent.
        rng=as_generator(estimator.random_state).spawn(1)[0],
        sample_weight=sample_weight,
        items=item,
        n_items=n_items,
    )
    if comparisons.left.size == 0 and n_items > 1:
        msg = (
            "at least 1 comparison is required; got none: y has equal values (or zero weights) within every group. "
            "Pass scores that differ, or comparisons."
        )
        raise DataError(msg)
    return comparisons


def probability_positive(mean: Array, variance: Array) -> Array:
    """Return P(z > 0) of Gaussians; 1/2 where the variance is 0, which is an item compared with itself."""
    positive = variance > 0.0
    return np.where(positive, ndtr(mean / np.sqrt(np.where(positive, variance, 1.0))), 0.5)


def utility_moments(
    posterior: PairPosterior, items: Items, *, return_std: bool, return_cov: bool, item_effects: bool = True
) -> Any:
    """Return the mean utility, and its standard deviation or covariance where asked for."""
    if return_std and return_cov:
        raise ValueError("At most one of return_std and return_cov can be True; got both.")
    if return_cov:
        return posterior.covariance(items, item_effects=item_effects, centred=True)
    mean, variance = posterior.utility(items, item_effects=item_effects, centred=True)
    return (mean, np.sqrt(variance)) if return_std else mean


def draw_utilities(posterior: PairPosterior, items: Items, n_samples: int, rng: np.random.Generator) -> Array:
    """Draw joint utilities from the posterior, shape (n_items, n_samples)."""
    check_n_samples(n_samples)
    mean, covariance = posterior.covariance(items, centred=True)
    if not mean.size:  # NumPy draws no vectors of length 0
        return np.empty((0, n_samples))
    return rng.multivariate_normal(mean, covariance, n_samples, method="eigh", check_valid="ignore").T
