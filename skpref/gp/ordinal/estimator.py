"""`GPOrdinalRegressor`: ordered labels ([CG05]; docs/maths section 7)."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, overload

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.gaussian_process.kernels import CompoundKernel, Kernel
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from skpref._callbacks import CallbackMixin, fit_callbacks, fit_context
from skpref._estimator import (
    check_memory,
    digest,
    evaluation_callback,
    iteration_callback,
    unchanged_on_failure,
    warn_constant,
    warn_not_converged,
)
from skpref._math.random import as_generator
from skpref._math.threads import limit_blas_threads
from skpref._validation import validate_data
from skpref._warn import warn
from skpref.data.levels import check_labels, encode_levels, ordered_levels, with_levels_of
from skpref.data.tables import canonical, stack, unique_rows
from skpref.data.weights import class_weights, read_weights, refuse_balanced
from skpref.exceptions import DataError
from skpref.gp.default_kernels import kernel_parameters
from skpref.gp.ordinal.evidence import ExactEvidence, OrdinalData, check_covariance
from skpref.gp.ordinal.fit import LIKELIHOODS, OrdinalConfig, OrdinalFit, check_fitted, fit_ordinal
from skpref.gp.ordinal.policy import POLICY
from skpref.gp.posterior import ExactLatent, SparseLatent, WarmStart
from skpref.gp.relevance import features_share_scales, prior_relevance
from skpref.inference.basis import full_passes_fit
from skpref.metrics import ordinal_mae
from skpref.settings import (
    INDUCING_CONSTRAINTS,
    LBFGS,
    SVI,
    HasSettings,
    Inducing,
    inducing_of,
    inference_name,
    n_restarts_of,
    schedule_of,
)

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray
    from sklearn.utils import Tags

    from skpref._typing import Array, Features, IntArray, MatrixLike
    from skpref.settings import Settings


class GPOrdinalRegressor(ClassifierMixin, CallbackMixin, HasSettings):
    """Gaussian-process regression on ordered labels such as grades, stars or stages.

    A latent function f(x) with a Gaussian-process prior of unit amplitude, plus noise, lies between two of r - 1 learnt
    thresholds ([CG05]_ eq. 5). Distances between levels need not be known, and predictions are probabilities of all
    levels. To scikit-learn it is a classifier: folds are stratified, and `VotingClassifier` takes it.

    Parameters
    ----------
    kernel : Kernel, {"auto", "ard", "linear", "linear-ard", "precomputed"} or None, default="auto"
        Covariance of f: a kernel of `skpref.kernels` or scikit-learn, or

        - "auto": an average over smooth and rough kernels, with one length-scale or one per feature, with and without a
          linear part, weighted by their evidence under weak priors. The search is by "ep" and uses samples of 250 and
          then 600 rows (1,000 before "vb" and "svi"). Thresholds and noise are then fitted to all rows. Rows of weight
          w < 1 take part with probability w. Features need no scaling, and
          there are no random starts. If a feature is more than 1e5 standard deviations away from 0, linear
          parts are not tried: centre it.
        - None: the squared exponential of [CG05]_ with one length-scale, which starts at the median distance of rows.
          Standardise the features first.
        - "ard": a squared exponential with one length-scale per feature.
        - "linear": a linear kernel with one weight variance, in units of the features' standard deviations.
        - "linear-ard": a linear kernel with one weight variance per feature. "ard", "linear" and "linear-ard" adapt to
          the number of features, which `RFE` changes.
        - "precomputed": X is the covariance of the rows.
    likelihood : {"auto", "probit", "logit", "robust"}, default="auto"
        Probability of the levels given f: "probit" has normal noise, "logit" logistic noise (proportional odds), and
        "robust" is "probit" with 3 in 100 labels at random. "auto": by evidence where ``kernel="auto"`` and the
        inference is "ep" or "laplace", which "logit" and "robust" need; else "probit".
    inference : {"auto", "ep", "laplace", "vb", "svi"} or SVI, default="auto"
        "ep": expectation propagation with all rows, time n^3; the most accurate. "laplace": a Gaussian at the mode,
        faster; its evidence is too optimistic on small noisy data. "vb": variational Bayes with inducing points and
        full passes, time linear in n. "svi": the same with mini-batches, see `SVI`. "auto": "ep" up to `n_max_exact`
        distinct rows ("laplace" if weights lie between 0 and 1), else "vb" if the rows of kernel values fit in 2 GiB,
        else "svi".
    optimizer : {"l-bfgs-b"}, LBFGS or None, default="l-bfgs-b"
        "l-bfgs-b": kernel, noise and thresholds maximise the evidence, from two further starts at random
        hyperparameters; `LBFGS` has another number of these. None: the kernel is not changed, the noise is 1, and
        thresholds match the frequencies of the levels.
    evidence : {"ep", "bound"}, default="ep"
        Objective of the search with "ep": its approximation of the evidence, or the variational bound of [CG05]_
        eq. 13.
    inducing : int, Inducing or array-like of shape (M, n_features), default=300
        Largest number of inducing points of "vb" and "svi", which are spread out over the rows; `Inducing` chooses them
        otherwise. Or the points themselves.
    max_iter : int, default=200
        Largest number of iterations of the inference: sweeps of "ep", Newton steps of "laplace", passes of "vb" and
        "svi".
    tol : float, default=1e-4
        "vb" ends when a pass raises the bound by less than ``tol / 100`` of its size, "svi" when the mean bound of a
        pass changes by less than `tol` of its size. "ep" and "laplace" end when changes are below 1e-6 posterior
        standard deviations.
    n_max_exact : int, default=4000
        Largest number of distinct rows for "ep" and "laplace", whose time grows with the cube of this number.
    class_order : array-like of shape (n_classes,), default=None
        All levels from low to high, also those absent from `y`. None: the categories of an ordered
        `pandas.Categorical`, or the sorted numbers. Strings need `class_order`; without it, up to 3 of them are sorted
        alphabetically, with a warning. Also set it for ``cross_val_predict(..., method="predict_proba")``, which
        replaces labels by numbers in alphabetical order.
    class_weight : dict, "balanced" or None, default=None
        Weights of the levels, which multiply those of the rows; levels that a dict lacks have weight 1. "balanced":
        inversely proportional to the levels' weights in y. Thresholds and probabilities are then those of such a
        population, and no longer those of new rows. "balanced" is not for `partial_fit`.
    warm_start : bool, default=False
        Whether `fit` starts from the result of the previous fit, if kernel, levels and number of features are the same.
        "auto" always searches from scratch.
    verbose : int, default=0
        1 prints a line at every evaluation of the evidence, or after every pass of "vb" and "svi".
    random_state : int, RandomState, Generator or None, default=None
        Seed for restarts, inducing points and mini-batches.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The levels from low to high.
    kernel_ : Kernel or None
        Kernel with learnt hyperparameters; None for "precomputed".
    thresholds_ : ndarray of shape (n_classes - 1,)
        b_1 < ... < b_{r-1}, in prior standard deviations of f (for a kernel of unit amplitude).
    noise_ : float
        Standard deviation of the noise (the scale of logistic noise), in the same unit.
    log_marginal_likelihood_value_ : float
        Log evidence in nats, as approximated by the inference.
    lower_bound_ : float
        Variational lower bound on the log evidence.
    lower_bounds_ : list of float
        Objective at every evaluation of the search ("auto": of the best model); for "vb" and "svi" the bound after each
        pass of the last inference.
    posterior_ : ExactLatent or SparseLatent
        Posterior of f.
    ensemble_ : list of OrdinalMember
        Models whose probabilities are averaged, with their weights, the best first. With "auto" there can be several;
        the other attributes are those of the best one.
    likelihood_ : OrdinalProbit, OrdinalLogit or OrdinalRobust
        Likelihood with learnt thresholds and noise.
    inference_ : {"ep", "laplace", "vb", "svi"}
        The inference that was used.
    n_iter_ : int
        Number of iterations of the last inference.
    n_skipped_ : int
        Number of site updates that "ep" skipped because they would have given a negative variance.
    converged_ : bool
        Whether the last inference met its tolerance.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str
        Names of the features, if X has some.

    See Also
    --------
    GPPLRegressor : For ratings whose order within a group is all that counts.
    SVGPClassifier : Classes without an order.

    References
    ----------
    .. [CG05] Chu and Ghahramani, "Gaussian processes for ordinal regression", JMLR 6, 2005.

    Examples
    --------
    >>> import numpy as np
    >>> from skpref import GPOrdinalRegressor
    >>> X = np.linspace(-3, 3, 30)[:, None]
    >>> y = np.where(X[:, 0] < -1, "bad", np.where(X[:, 0] < 1, "fair", "good"))
    >>> model = GPOrdinalRegressor(class_order=["bad", "fair", "good"], random_state=0).fit(X, y)
    >>> model.predict([[-2.0], [0.0], [2.0]]).tolist()
    ['bad', 'fair', 'good']
    >>> bool(np.allclose(model.predict_proba(X).sum(axis=1), 1.0))
    True
    """

    _settings_defaults: ClassVar[dict[str, Settings]] = {
        "inference": SVI(),
        "inducing": Inducing(),
        "optimizer": LBFGS(),
    }
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "kernel": [Kernel, StrOptions({"auto", "ard", "linear", "linear-ard", "precomputed"}), None],
        "likelihood": [StrOptions({"auto", *LIKELIHOODS})],
        "inference": [StrOptions({"auto", "ep", "laplace", "vb", "svi"}), SVI],
        "optimizer": [StrOptions({"l-bfgs-b"}), LBFGS, None],
        "evidence": [StrOptions({"ep", "bound"})],
        "inducing": INDUCING_CONSTRAINTS,
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0.0, None, closed="left")],
        "n_max_exact": [Interval(Integral, 1, None, closed="left")],
        "class_order": ["array-like", None],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "warm_start": ["boolean"],
        "verbose": ["verbose"],
        "random_state": ["random_state", np.random.Generator],
    }

    def __init__(
        self,
        kernel: Kernel | str | None = "auto",
        *,
        likelihood: str = "auto",
        inference: str | SVI = "auto",
        optimizer: str | LBFGS | None = "l-bfgs-b",
        evidence: str = "ep",
        inducing: int | Inducing | MatrixLike = 300,
        max_iter: int = 200,
        tol: float = 1e-4,
        n_max_exact: int = 4000,
        class_order: ArrayLike | None = None,
        class_weight: dict[Any, float] | str | None = None,
        warm_start: bool = False,
        verbose: int = 0,
        random_state: int | np.random.RandomState | np.random.Generator | None = None,
    ) -> None:
        self.kernel = kernel
        self.likelihood = likelihood
        self.inference = inference
        self.optimizer = optimizer
        self.evidence = evidence
        self.inducing = inducing
        self.max_iter = max_iter
        self.tol = tol
        self.n_max_exact = n_max_exact
        self.class_order = class_order
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.verbose = verbose
        self.random_state = random_state

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = isinstance(self.kernel, str) and self.kernel == "precomputed"
        tags.input_tags.sparse = not tags.input_tags.pairwise
        return tags

    # ------------------------------------------------------------- fitting

    @fit_context
    def fit(self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn kernel, noise, thresholds and the posterior of f.

        Parameters
        ----------
        X : {array-like, CSR} of shape (n, n_features)
            Rows; with ``kernel="precomputed"`` their covariance, of shape (n, n).
        y : array-like of shape (n,)
            Ordered labels.
        sample_weight : array-like of shape (n,), default=None
            Weights >= 0 of the log likelihoods; a weight of 2 is the same as two copies of the row. None: 1. "ep"
            needs weights of 0 or at least 1.

        Returns
        -------
        GPOrdinalRegressor
            The fitted estimator.

        Raises
        ------
        ValueError
            If X or y is not finite; if y has fewer than 2 levels, a level that is not in `class_order`, or strings
            without `class_order`; if a weight is negative; if "ep" or "laplace" gets more than `n_max_exact` distinct
            rows; or if a precomputed covariance is not symmetric and positive semi-definite.

        Warns
        -----
        DataWarning
            If 2 or 3 strings are sorted alphabetically, for want of `class_order`.
        ConvergenceWarning
            If the last inference did not meet its tolerance in `max_iter` iterations.
        """
        with fit_callbacks(self, X, y, sample_weight), unchanged_on_failure(self):
            self._rows = self._read(X, y, sample_weight)
            # "auto" searches under priors; a search from its end would maximise the evidence without them.
            start = self._warm_start("resume") if self.warm_start and self.kernel != "auto" else None
            data = self._data()
            self._learn(data, self._resolve_inference(data), start)
            if not self.converged_:
                warn_not_converged(self, self.n_iter_)
        return self

    def partial_fit(
        self, X: MatrixLike, y: ArrayLike, classes: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Update the fit with more rows, through inducing points.

        All rows are kept, and the inference resumes from the earlier posterior. The kernel does not change, and
        inducing points do not change once their number is the largest. Thresholds and noise are learnt from all
        rows. "vb" replaces "ep" and "laplace".

        Parameters
        ----------
        X : {array-like, CSR} of shape (n, n_features)
            New rows.
        y : array-like of shape (n,)
            Their ordered labels.
        classes : array-like of shape (n_classes,), default=None
            All levels from low to high, for the first call, in place of `class_order`. With it the first rows may all
            have the same level.
        sample_weight : array-like of shape (n,), default=None
            Their weights >= 0. None: 1.

        Returns
        -------
        GPOrdinalRegressor
            The updated estimator.

        Raises
        ------
        ValueError
            With ``kernel="precomputed"``, if `classes` differ from those of the first call, or if rows, labels or
            weights are refused by `fit`.
        """
        if isinstance(self.kernel, str) and self.kernel == "precomputed":
            msg = "partial_fit needs rows of features; got kernel='precomputed'. Call fit with all rows."
            raise DataError(msg)
        self._validate_params()
        refuse_balanced(self.class_weight)
        with unchanged_on_failure(self):
            start = None
            if not hasattr(self, "posterior_"):
                order = self.class_order if classes is None else classes
                self._rows = self._read(X, y, sample_weight, order=order, min_levels=2 if classes is None else 1)
            else:
                if classes is not None and not np.array_equal(np.asarray(classes), self.classes_):
                    msg = f"classes must be those of the first call, {self.classes_.tolist()}; got {classes!r:.200}."
                    raise DataError(msg)
                new_rows = self._read(X, y, sample_weight, order=self.classes_, reset=False)
                rows, level, weight = self._rows
                self._rows = stack(rows, new_rows[0]), np.append(level, new_rows[1]), np.append(weight, new_rows[2])
                start = self._warm_start("skip")
            data = self._data()
            inference = self._resolve_inference(data)
            self._learn(data, inference if inference in {"vb", "svi"} else "vb", start)
            if not self.converged_:
                warn_not_converged(self, self.n_iter_)
        return self

    def _read(
        self,
        X: MatrixLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None,
        *,
        order: ArrayLike | None = None,
        reset: bool = True,
        min_levels: int = 2,
    ) -> tuple[Features, IntArray, Array]:
        """Return rows of positive weight, their levels and weights; set `classes_`."""
        if y is None:
            msg = f"This {type(self).__name__} estimator requires y to be passed, but the target y is None."
            raise ValueError(msg)
        precomputed = self.kernel == "precomputed"
        rows, labels = validate_data(
            self,
            X,
            check_labels(y),
            accept_sparse=False if precomputed else "csr",
            dtype=np.float64,
            order="C",
            reset=reset,
        )
        order = self.class_order if order is None else order
        if reset:
            self.classes_, level = ordered_levels(labels, order, column=y, fewest=min_levels)
        else:
            level = encode_levels(labels, self.classes_)
        weight = read_weights(class_weights(self.class_weight, labels, sample_weight), rows.shape[0])
        self._precomputed = precomputed
        if precomputed:
            check_covariance(rows)
        used = weight > 0.0
        if reset and np.unique(level[used]).size < min_levels:
            raise DataError(
                f"at least {min_levels} classes (levels) must have rows of positive weight; got "
                f"{np.unique(level[used]).size}. Rows of sample_weight zero do not count."
            )
        if precomputed:
            self._used = np.flatnonzero(used)
            return np.ascontiguousarray(rows[np.ix_(used, used)]), level[used], weight[used]
        return canonical(rows[used]), level[used], weight[used]

    def _settings(self) -> object:
        """Return the settings that an earlier fit must share for a warm start."""
        kernel = kernel_parameters(self.kernel) if isinstance(self.kernel, Kernel) else self.kernel
        return kernel, self.classes_.tolist(), None if self._precomputed else self.n_features_in_

    _check_fitted = check_fitted

    def _warm_start(self, search: Literal["resume", "skip"]) -> WarmStart | None:
        """Return the end of the earlier fit, if it was of the same model."""
        if getattr(self, "_warm_key", None) != digest(self._settings()):
            return None
        points = self.posterior_.basis.points if isinstance(self.posterior_, SparseLatent) else None
        return WarmStart(self.kernel_, self.likelihood_, points, self._state, search)

    def _learn(self, data: OrdinalData, inference: str, start: WarmStart | None) -> None:
        """Fit all rows that are kept, from the end of an earlier fit or from scratch."""
        if data.X is not None:
            warn_constant(data.X, "all rows")
        config = self._config(data, inference)
        rng = as_generator(self.random_state)
        result = fit_ordinal(data, self.classes_.size, self._checked_kernel(), config, rng, start)
        self._store(result, inference)
        self._warm_key = digest(self._settings())

    def _checked_kernel(self) -> Kernel | str | None:
        """Return the kernel parameter, None for a precomputed covariance."""
        if isinstance(self.kernel, CompoundKernel):
            msg = (
                f"kernel must be one covariance function; got {self.kernel!r:.200}, a CompoundKernel of several. "
                "Add or multiply them, for example RBF() + Matern()."
            )
            raise DataError(msg)
        return None if isinstance(self.kernel, str) and self.kernel == "precomputed" else self.kernel

    def _data(self) -> OrdinalData:
        """Return the distinct labelled rows, sorted, so that the order of rows does not change the bits of a fit."""
        X, level, weight = self._rows
        if self._precomputed:
            return OrdinalData(None, level.astype(np.float64), weight, X)
        first, row = unique_rows(X)
        # Rows in the order of the hashes of their contents, and labels within rows.
        pair, inverse = np.unique(row * self.classes_.size + level, return_inverse=True)
        rows = first[pair // self.classes_.size]
        return OrdinalData(
            X[rows], (pair % self.classes_.size).astype(np.float64), np.bincount(inverse, weight).astype(np.float64)
        )

    def _resolve_inference(self, data: OrdinalData) -> str:
        """Return the inference, with a choice for "auto"."""
        if self.inference != "auto":
            return inference_name(self.inference)
        if data.n <= self.n_max_exact or data.K is not None:
            return "laplace" if np.any(data.weight < 1.0) else "ep"
        return "vb" if full_passes_fit(data.n, min(inducing_of(self.inducing, POLICY.inducing)[0], data.n)) else "svi"

    def _config(self, data: OrdinalData, inference: str) -> OrdinalConfig:
        """Return the settings of the fit, once it is known to be possible."""
        n_inducing, points = inducing_of(self.inducing, POLICY.inducing)
        if inference in {"vb", "svi"}:
            if data.K is not None:
                msg = (
                    f"inference={inference!r} needs rows of features; got kernel='precomputed'. Use 'ep' or 'laplace'."
                )
                raise DataError(msg)
            if self.likelihood not in {"auto", "probit"}:
                msg = (
                    f"likelihood={self.likelihood!r} needs inference='ep' or 'laplace'; got {inference!r}. Use "
                    "likelihood='probit', or inference='ep' and n_max_exact at least the number of rows."
                )
                raise DataError(msg)
            check_memory(data.n, min(n_inducing, data.n), whose="rows")
        else:
            if data.n > self.n_max_exact:
                msg = (
                    f"inference={inference!r} takes time n^3 and memory n^2: n_max_exact={self.n_max_exact} distinct "
                    f"rows at most; got {data.n}. Use inference='vb' or 'svi', or raise n_max_exact."
                )
                raise DataError(msg)
            check_memory(data.n, data.n, "inference='vb', or n_max_exact", "rows")
        schedule = schedule_of(self, POLICY.batch_size, iteration_callback(self))
        return OrdinalConfig(
            inference=inference,
            likelihood=self.likelihood,
            evidence=self.evidence,
            n_restarts=n_restarts_of(self.optimizer, POLICY.restarts),
            n_inducing=n_inducing,
            inducing=points,
            schedule=schedule if inference == "svi" else replace(schedule, batch_size=None),
            on_value=evaluation_callback(self, "log evidence"),
        )

    def _store(self, result: OrdinalFit, inference: str) -> None:
        """Set the attributes of a fit."""
        self._state = result.state
        self.posterior_ = result.latent
        self.ensemble_ = list(result.members)
        self.kernel_ = result.kernel
        self.likelihood_ = result.likelihood
        self.thresholds_ = np.array(self.likelihood_.thresholds)
        self.noise_ = self.likelihood_.noise
        self.inference_ = inference
        self.log_marginal_likelihood_value_ = result.evidence
        self.lower_bound_ = result.bound
        self.lower_bounds_ = list(result.bounds)
        self.n_iter_ = result.n_iter
        self.n_skipped_ = result.n_skipped
        self.converged_ = result.converged

    # ------------------------------------------------------------- predicting

    def _check_new_rows(self, X: MatrixLike) -> Features:
        """Return rows to predict, or their covariance with the training rows of positive weight."""
        check_is_fitted(self)
        precomputed = self.kernel_ is None
        rows = validate_data(
            self, X, accept_sparse=False if precomputed else "csr", dtype=np.float64, order="C", reset=False
        )
        return np.ascontiguousarray(rows[:, self._used]) if precomputed else canonical(rows)

    @overload
    def predict_latent(self, X: MatrixLike, return_std: Literal[False] = False) -> Array: ...
    @overload
    def predict_latent(self, X: MatrixLike, return_std: Literal[True]) -> tuple[Array, Array]: ...
    @overload
    def predict_latent(self, X: MatrixLike, return_std: bool) -> Array | tuple[Array, Array]: ...
    def predict_latent(self, X: MatrixLike, return_std: bool = False) -> Array | tuple[Array, Array]:
        """Predict f.

        Parameters
        ----------
        X : {array-like, CSR} of shape (n, n_features)
            Rows; with ``kernel="precomputed"`` their covariance with the training rows. Their prior variance is then
            assumed to be the mean prior variance of the training rows.
        return_std : bool, default=False
            Whether to return posterior standard deviations too.

        Returns
        -------
        mean : ndarray of shape (n,)
            Posterior mean of f, in prior standard deviations (for a kernel of unit amplitude).
        std : ndarray of shape (n,)
            Only with ``return_std=True``. Use it only to compare rows of one model: the levels do not determine the
            unit of f, and the uncertainty of the unit is not included. For everything else use `predict_proba`.
        """
        rows = self._check_new_rows(X)
        mean, variance = self.posterior_.latent(rows, variance=return_std)
        return (mean, np.sqrt(variance)) if return_std else mean

    def predict_proba(self, X: MatrixLike) -> Array:
        """Predict the probabilities of all levels.

        Parameters
        ----------
        X : {array-like, CSR} of shape (n, n_features)
            Rows; with ``kernel="precomputed"`` their covariance with the training rows.

        Returns
        -------
        ndarray of shape (n, n_classes)
            Probabilities in the order of `classes_`; rows sum to 1.
        """
        rows = self._check_new_rows(X)
        parts = [
            member.weight * member.likelihood.probabilities(*member.latent.latent(rows)) for member in self.ensemble_
        ]
        return np.sum(parts, axis=0) if len(parts) > 1 else parts[0]

    def predict(self, X: MatrixLike, loss: Literal["zero-one", "absolute"] = "zero-one") -> NDArray[Any]:
        """Predict a level for every row.

        Parameters
        ----------
        X : {array-like, CSR} of shape (n, n_features)
            Rows; with ``kernel="precomputed"`` their covariance with the training rows.
        loss : {"zero-one", "absolute"}, default="zero-one"
            "zero-one": the most probable level. "absolute": the median level, which minimises the expected distance in
            ranks.

        Returns
        -------
        ndarray of shape (n,)
            Labels.

        Raises
        ------
        ValueError
            For any other loss.
        """
        if not isinstance(loss, str) or loss not in {"zero-one", "absolute"}:
            msg = f"loss must be 'zero-one' or 'absolute'; got {loss!r}."
            raise DataError(msg)
        p = self.predict_proba(X)
        # 1/2 up to rounding.
        level = p.argmax(axis=1) if loss == "zero-one" else np.sum(np.cumsum(p[:, :-1], axis=1) < (0.5 - 1e-12), axis=1)
        return self.classes_[level]

    def score(self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return minus the mean absolute error in ranks of the median level.

        Parameters
        ----------
        X : {array-like, CSR} of shape (n, n_features)
            Rows; with ``kernel="precomputed"`` their covariance with the training rows.
        y : array-like of shape (n,)
            Labels. Without `class_order`, a level that no training row has takes its sorted place among the others.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows. None: 1.

        Returns
        -------
        float
            At most 0, for perfect predictions.
        """
        predicted = self.predict(X, loss="absolute")  # checks that the estimator is fitted
        levels = with_levels_of(self.classes_, y) if self.class_order is None else self.classes_
        return -ordinal_mae(encode_levels(y, levels), encode_levels(predicted, levels), sample_weight=sample_weight)

    # ------------------------------------------------------------- evidence and relevance

    def log_marginal_likelihood(
        self, theta: ArrayLike | None = None, eval_gradient: bool = False
    ) -> float | tuple[float, Array]:
        """Return the log evidence at given hyperparameters, by "ep" or "laplace".

        Parameters
        ----------
        theta : array-like of shape (n_theta,), default=None
            The kernel's theta, then log noise, b_1, and the logs of the gaps between thresholds. None: the learnt
            values.
        eval_gradient : bool, default=False
            Whether to return the gradient in theta too.

        Returns
        -------
        value : float
            Log evidence in nats; the variational bound with ``evidence="bound"``.
        gradient : ndarray of shape (n_theta,)
            Only with ``eval_gradient=True``.

        Raises
        ------
        ValueError
            If theta has another length or is not finite, or the model was fitted through inducing points.
        """
        check_is_fitted(self)
        if not isinstance(self.posterior_, ExactLatent):
            msg = (
                f"log_marginal_likelihood needs inference='ep' or 'laplace'; got {self.inference_!r}. "
                "Use lower_bound_ instead."
            )
            raise DataError(msg)
        kernel_theta = np.zeros(0) if self.kernel_ is None else self.kernel_.theta
        learnt_theta = np.concatenate([kernel_theta, self.likelihood_.theta])
        theta = learnt_theta if theta is None else np.asarray(theta, dtype=np.float64)
        n, size = kernel_theta.size, learnt_theta.size
        if theta.shape != (size,) or not np.all(np.isfinite(theta)):
            msg = (
                f"theta must be {size} finite numbers ({n} of the kernel, then {size - n}); got {theta!r:.200}. "
                "The order is: kernel theta, log noise, b_1, logs of the gaps between thresholds."
            )
            raise DataError(msg)
        kernel = None if self.kernel_ is None else self.kernel_.clone_with_theta(theta[:n])
        data = self._data()
        evidence = ExactEvidence(data, self.inference_, self.evidence == "bound", self.max_iter, POLICY.final_tol)
        with limit_blas_threads(data.n):
            result = evidence(kernel, self.likelihood_.with_theta(theta[n:]))
        gradient = np.concatenate([result.in_kernel, result.in_likelihood])
        return (result.value, gradient) if eval_gradient else result.value

    @property
    def relevance_(self) -> Array:
        """Relevance of each feature, shape (n_features,).

        Half the expected square of f(x) - f(x') under the prior, where x' is a training row x (or inducing point) with
        this feature taken from another row: 0 for a feature that f ignores; for "linear-ard" the feature's weight
        variance times its variance. Not available for "precomputed".
        """
        check_is_fitted(self)
        if self.kernel_ is None:
            msg = "relevance_ needs features; kernel='precomputed' has none."
            raise AttributeError(msg)
        latent = self.posterior_
        X = latent.X if isinstance(latent, ExactLatent) else latent.basis.points
        relevance = prior_relevance(self.kernel_, X)
        if np.count_nonzero(relevance) > 1 and features_share_scales(self.kernel_):
            warn(
                "The kernel has the same scale for all features, so relevance_ hardly depends on the labels: "
                "kernel='ard' learns a scale for each."
            )
        return relevance

    @property
    def feature_importances_(self) -> Array:
        """`relevance_` under the name that `SelectFromModel` and `RFE` look for."""
        return self.relevance_
