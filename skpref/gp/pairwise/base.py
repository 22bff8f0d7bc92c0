"""What `GPPLRegressor`, `GPPLClassifier` and `CrowdGPPL` share: parameters, checks of input, fitted attributes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.special import ndtr
from sklearn.base import ClassifierMixin
from sklearn.gaussian_process.kernels import Kernel
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from skpref._callbacks import CallbackMixin
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
from skpref._sources import accept_collections
from skpref._validation import validate_data
from skpref._warn import warn
from skpref.data import Table
from skpref.data.comparisons import from_scores
from skpref.data.labels import (
    are_classes,
    are_grades,
    left_column,
    read_grades,
    read_labels,
    read_signed_margins,
    signed_grades,
)
from skpref.data.tables import canonical
from skpref.exceptions import DataError, DataWarning
from skpref.gp.capabilities import check_unchanged
from skpref.gp.default_kernels import kernel_parameters
from skpref.gp.pairwise.effects import NamesColumns
from skpref.gp.pairwise.fit import NAMED_KERNELS, PairConfig, PairData, PairFit, WarmStart, fit_pairs
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
    PairwiseTies,
)
from skpref.likelihoods.ties import sum_of_sides
from skpref.metrics import pair_accuracy
from skpref.settings import (
    CHECKPOINT_CONSTRAINTS,
    INDUCING_CONSTRAINTS,
    LBFGS,
    SVI,
    Fixed,
    Gamma,
    HasSettings,
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
    from numpy.typing import ArrayLike, NDArray
    from sklearn.utils import Tags

    from skpref._typing import Array, Features, IdRows, IntArray
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
    "time": [str, Integral, None],
    "weight": [str, Integral, None],
    "on_self": [StrOptions({"raise", "drop"})],
    "likelihood": [StrOptions(set(LIKELIHOODS) - {"plackett-luce"}), Likelihood],
}
_N_INDUCING = 300
_THREE = 3  # levels of answers with ties, which are no grades
DEFAULT_SETTINGS: dict[str, Settings] = {
    "inference": SVI(),
    "inducing": Inducing(),
    "scale_prior": Gamma(1.0, 1.0),
    "optimizer": LBFGS(),
}


class PairwiseGP(CallbackMixin, HasSettings, ABC):
    """From merged comparisons of the seen items to fitted attributes."""

    _settings_defaults: ClassVar[dict[str, Settings]] = DEFAULT_SETTINGS
    _batch_size: ClassVar[int] = 1000  # of SVI

    items: Any
    posterior_: Any
    classes_: NDArray[Any]
    _warm_key: str

    def _config(self, *, offsets: bool, order: bool) -> PairConfig:
        n_inducing, inducing = inducing_of(self.inducing, _N_INDUCING)
        return PairConfig(
            likelihood=as_likelihood(self.likelihood),
            inference=inference_name(self.inference),
            n_inducing=n_inducing,
            inducing=inducing,
            schedule=schedule_of(self, self._batch_size, iteration_callback(self), checkpoint_of(self)),
            scale=scale_of(self._setting("scale_prior")),
            offsets=offsets,
            order=order,
            learn_length_scales=self.optimizer is not None and not isinstance(self.kernel, Kernel),
            team_mean=getattr(self, "team", "sum") == "mean",
            n_restarts=n_restarts_of(self.optimizer),
        )

    def _infer(
        self, data: PairData, config: PairConfig, ids: IdColumn | None = None, *, resume: bool = False
    ) -> PairFit:
        """Fit, or with `resume` only update the posterior of the earlier fit: kernel and inducing points stay."""
        if data.X is not None:
            check_memory(data.X.shape[0], self._max_inducing(data.X))
            warn_constant(data.X)
        start = self._start(data, config, ids)
        self._warm_key = self._digest(data, config, ids)
        if resume:
            start = WarmStart(self._state, self.kernel_, self.inducing_points_)
            config = replace(config, learn_length_scales=False, n_restarts=None)
        return fit_pairs(data, self.kernel, config, as_generator(self.random_state), start)

    def _start(self, data: PairData, config: PairConfig, ids: IdColumn | None = None) -> WarmStart | None:
        """Return the earlier fit if this one is to start from it."""
        if not self.warm_start or getattr(self, "_warm_key", None) != self._digest(data, config, ids):
            return None
        return WarmStart(self._state, self.kernel_, self.inducing_points_)

    def _digest(self, data: PairData, config: PairConfig, ids: IdColumn | None) -> str:
        """Return a digest of all that two fits must share for the second to start from the first."""
        search = config.learn_length_scales, config.n_restarts
        model = kernel_parameters(self.kernel), config.n_inducing, config.offsets, config.order, search
        points = None if isinstance(config.inducing, str) else config.inducing
        return digest(model, data.X, points, ids)

    def _max_inducing(self, X: Features) -> int:
        n, points = inducing_of(self.inducing, _N_INDUCING)
        if isinstance(points, str):
            return min(n, X.shape[0])
        # A number is refused where the points are read.
        return int((*points.shape, 1)[0]) if hasattr(points, "shape") else len(points)  # type: ignore[arg-type]

    def _set_attributes(self, fit: PairFit) -> None:
        self.posterior_ = fit.posterior
        self._state = fit.state
        self.likelihood_ = fit.likelihood
        self.kernel_ = fit.kernel
        basis = fit.posterior.basis
        self.inducing_points_ = None if basis is None else basis.points
        self.scale_ = fit.posterior.scales["f" if basis is not None else "offset"]
        self._set_trace(fit)

    def _check_fitted(self) -> None:
        """Raise DataError unless the fitted attributes fit together."""
        check_types(self, posterior_=PairPosterior, _state=State, likelihood_=Likelihood)
        posterior, basis = self.posterior_, self.posterior_.basis
        offsets = 0 if posterior.offset_variance is None else posterior.n_seen
        check_blocks(self, self._state, {"f": posterior.mean.size, "offsets": offsets})
        check_scales(self, "_state", self._state.scales, posterior.scales)
        if basis is not None:
            check_kernel(self, "kernel_", self.kernel_, basis.points.shape[1])
            same = getattr(self.inducing_points_, "shape", None) == basis.points.shape
            require(same, self, "inducing_points_", f"must have shape {basis.points.shape}")

    def _set_trace(self, fit: Any) -> None:
        self.lower_bound_ = fit.bound
        self.lower_bounds_ = list(fit.bounds)
        self.n_iter_ = len(fit.bounds)
        self.converged_ = fit.converged
        if not fit.converged:
            warn_not_converged(self, self.n_iter_)


class ComparisonClassifier(NamesColumns, ClassifierMixin, PairwiseGP):
    """Predictions of a model whose rows of X are comparisons, once the moments of their projections are known."""

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.classifier_tags.multi_class = False
        tags.target_tags.required = False
        return tags

    @property
    def _has_grades(self) -> bool:
        """Whether the likelihood is one of signed answers: grades or margins."""
        if isinstance(self.likelihood, str):
            return self.likelihood.endswith("-graded") or self._has_margins
        return self._has_margins or (isinstance(self.likelihood, PairwiseTies) and self.likelihood.n_levels != _THREE)

    @property
    def _has_margins(self) -> bool:
        """Whether answers are margins, as numbers."""
        return self.likelihood == "margin" or isinstance(self.likelihood, PairwiseMargin)

    def _grades(self, y: Any, *, reset: bool = False) -> Any:
        """Return labels from 0 to 1 of grades, and store or check these; other labels stay as they are."""
        if not reset:
            check_unchanged("whether likelihood has grades", self._has_grades, not are_classes(self.classes_))
        if not self._has_grades:
            return y
        if self._has_margins:
            margins, self.classes_ = read_signed_margins(y, None if reset else self.classes_)
            return PairwiseMargin.labels_of(margins)
        labels, self.classes_ = read_grades(y, None if reset else self.classes_)
        wanted = getattr(self.likelihood, "n_levels", self.classes_.size)
        if wanted != self.classes_.size:
            raise DataError(f"likelihood has {wanted} levels, and y has {self.classes_.size}: {self.classes_.tolist()}")
        return labels

    def _config(self, *, offsets: bool, order: bool) -> PairConfig:
        config = super()._config(offsets=offsets, order=order)
        if not (self._has_grades and isinstance(self.likelihood, str)):
            return config
        likelihood: Any = config.likelihood
        if self._has_margins:
            return replace(config, likelihood=replace(likelihood, step=float(self.classes_.dtype.kind == "i")))
        return replace(config, likelihood=likelihood.from_levels(self.classes_.size))

    @property
    def _keeps_ties(self) -> bool | None:
        """Whether ties stay apart from wins where comparisons are merged; None: unless they are shares."""
        return None if self.likelihood == "auto" else as_likelihood(self.likelihood).ties_are_answers

    def _config_of_ties(self, config: PairConfig, c: Comparisons) -> PairConfig:
        """Return the config in which "auto" is a likelihood with ties if there are some."""
        if self.likelihood != "auto" or config.inference == "linearised" or not c.has_ties:
            return config
        return replace(config, likelihood=PairwiseProbitTies())

    def _check_classes(self) -> None:
        """Raise DataError unless `classes_` are two sides, or the grades of the likelihood."""
        n_levels = getattr(self.likelihood_, "n_levels", 2)
        right = are_grades(self.classes_, n_levels) or (n_levels <= _THREE and are_classes(self.classes_))
        require(right, self, "classes_", "must be 0 and 1, False and True, left and right, or grades")

    def _has_offsets(self) -> bool:
        """Tell whether items have offsets; without features, these are all that they have."""
        if self.items is None and not self.item_effects:
            raise DataError(
                "item_effects=False leaves items nothing but the function of their features, and items=None has no "
                "features: pass items=Table(...), or leave item_effects at True"
            )
        return bool(self.item_effects)

    @abstractmethod
    def _moments(self, X: Any, *, order: bool = True) -> tuple[Array, Array]:
        """Return the posterior mean and variance of the projection of each row, with or without the order effect."""

    def latent_mean_and_variance(self, X: IdRows) -> tuple[Array, Array]:
        """Return the posterior mean and variance of the utility difference, left minus right.

        Covariates and the order effect are included, the answer noise is not.

        Parameters
        ----------
        X : array-like of shape (n, n_columns)
            Comparisons, with the columns of `fit`.

        Returns
        -------
        mean : ndarray of shape (n,)
            Means, in units of the answer noise.
        variance : ndarray of shape (n,)
            Variances.
        """
        return self._moments(X)

    @accept_collections
    def decision_function(self, X: IdRows) -> Array:
        """Return the posterior mean of the utility difference, of the second class of `classes_` minus the first.

        That is left minus right for labels that are numbers or booleans, and right minus left for words.

        Parameters
        ----------
        X : array-like of shape (n, n_columns)
            Comparisons, with the columns of `fit`.

        Returns
        -------
        ndarray of shape (n,)
            Positive where `predict` returns the second class, in units of the answer noise.
        """
        mean = self._moments(X)[0]
        return mean if left_column(self.classes_) else -mean

    @accept_collections
    def predict_proba(self, X: IdRows, *, ties: bool = False) -> Array:
        """Return the probabilities of the answers to each comparison.

        Parameters
        ----------
        X : array-like of shape (n, n_columns)
            Comparisons, with the columns of `fit`.
        ties : bool, default=False
            Whether to return the probability of a tie, too. It needs ``likelihood="probit-ties"``, ``"logit-ties"`` or
            ``"davidson"``, or "auto" and ties in `y`. With ``ties=False`` a tie counts as half of each side.

        Returns
        -------
        ndarray of shape (n, 2), (n, 3) or (n, L)
            Probabilities of the two sides in the order of `classes_`: right, left for numbers or booleans, and left,
            right for words; of grades, those of all L `classes_`. With `ties`: always left, tie, right.
        """
        check_is_fitted(self)
        if ties:
            return sum_of_sides(self._answers(X))
        if self.classes_.size > 2:
            return self._answers(X)[:, ::-1]
        left = self._left_probability(X)
        return np.column_stack([1.0 - left, left] if left_column(self.classes_) else [left, 1.0 - left])

    def _answers(self, X: Any) -> Array:
        """Return the probabilities of left, tie and right, or of all grades, the largest first, shape (n, L)."""
        moments = self._moments(X)  # checks that the estimator is fitted
        likelihood: Any = self.likelihood_
        if not likelihood.ties_are_answers:
            raise DataError(
                f"ties=True needs a likelihood in which a tie is an answer; got {type(likelihood).__name__}. "
                "Fit with likelihood='probit-ties', 'logit-ties' or 'davidson', or with 'auto' and a y of wins and "
                "ties, without soft labels"
            )
        return np.asarray(likelihood.predict_answers(*moments))

    def _left_probability(self, X: Any) -> Array:
        """Return the probability that the left item is preferred, shape (n,)."""
        mean, variance = self._moments(X)  # checks that the estimator is fitted
        return self.likelihood_.predict(mean, variance)

    @accept_collections
    def predict_margin(self, X: IdRows) -> tuple[Array, Array]:
        """Return the expected margin of each comparison, and its standard deviation; for ``likelihood="margin"``.

        Parameters
        ----------
        X : array-like of shape (n, n_columns)
            Comparisons, with the columns of `fit`.

        Returns
        -------
        mean : ndarray of shape (n,)
            Expected margins in units of the `y` of `fit`, positive where left is ahead.
        std : ndarray of shape (n,)
            Standard deviations of new margins, noise included: about 90 % lie within 1.645 of these from the mean.

        Raises
        ------
        DataError
            If the fit has another likelihood.

        Examples
        --------
        >>> from skpref import GPPLClassifier
        >>> games = [("ann", "bob"), ("bob", "cy"), ("ann", "cy"), ("cy", "ann")]
        >>> model = GPPLClassifier(likelihood="margin").fit(games, [3, 1, 5, -2])
        >>> mean, std = model.predict_margin([("ann", "cy"), ("cy", "ann")])
        >>> bool(0.0 < mean[0] == -mean[1])
        True
        """
        mean, variance = self._moments(X)  # checks that the estimator is fitted
        if not isinstance(self.likelihood_, PairwiseMargin):
            raise DataError(f"margins need likelihood='margin'; the fit has {type(self.likelihood_).__name__}")
        return self.likelihood_.scale * mean, self.likelihood_.scale * np.sqrt(1.0 + variance)

    @accept_collections
    def predict(self, X: IdRows) -> NDArray[Any]:
        """Return the preferred side of each comparison, or the most probable grade.

        Parameters
        ----------
        X : array-like of shape (n, n_columns)
            Comparisons, with the columns of `fit`.

        Returns
        -------
        ndarray of shape (n,)
            The sides, in the form of the `y` of `fit`: 1 or 0, True or False, "left" or "right"; or grades, and of
            margins their signs.
        """
        check_is_fitted(self)
        if self.classes_.size > 2:
            return self.classes_[self.predict_proba(X).argmax(axis=1)]
        second = self.decision_function(X) > 0.0
        return self.classes_[second.astype(np.intp)]

    @accept_collections
    def score(self, X: IdRows, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> float:
        """Return the accuracy of the predicted sides, without ties, or of the predicted grades.

        Parameters
        ----------
        X : array-like of shape (n, n_columns)
            Comparisons, with the columns of `fit`.
        y : array-like of shape (n,), default=None
            Labels as in `fit`; a soft label counts as the side that it favours.
        sample_weight : array-like of shape (n,), default=None
            Weights of the comparisons; None: all weights are 1.

        Returns
        -------
        float
            Share of correct predictions, in [0, 1].
        """
        check_is_fitted(self)
        if self.classes_.size > 2:
            predicted, grade = self.predict(X), signed_grades(y, self.classes_)
            grade = np.sign(grade) if self._has_margins else grade
            check_consistent_length(predicted, grade)
            right = predicted == grade
            return pair_accuracy(np.ones(right.size), right.astype(np.float64), sample_weight=sample_weight)
        left = self._left_probability(X)
        return pair_accuracy(read_labels(y, left.size), left, sample_weight=sample_weight)


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
