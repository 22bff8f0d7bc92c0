"""`GPOrdinalRegressor`: ordered labels ([CG05]; docs/maths section 7)."""

from __future__ import annotations

from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.gaussian_process.kernels import CompoundKernel, Kernel
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from skpref._callbacks import CallbackMixin, fit_callbacks
from skpref._estimator import (
    check_memory,
    digest,
    on_iteration,
    unchanged_on_failure,
    warn_constant,
    warn_not_converged,
)
from skpref._math.random import as_generator
from skpref._math.threads import limit_blas_threads
from skpref.data.levels import encode_levels, ordered_levels, read_labels
from skpref.data.tables import canonical, stack, unique_rows
from skpref.data.weights import read_weights
from skpref.exceptions import DataError
from skpref.gp.default_kernels import kernel_parameters
from skpref.gp.ordinal.evidence import ExactEvidence, OrdinalData
from skpref.gp.ordinal.fit import FINAL_TOL, OrdinalConfig, OrdinalFit, fit_ordinal
from skpref.gp.posterior import ExactLatent
from skpref.gp.relevance import prior_relevance
from skpref.inference.basis import full_passes_fit
from skpref.inference.svi import Schedule
from skpref.metrics import ordinal_mae

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike, NDArray
    from sklearn.utils import Tags

    from skpref._typing import Array, Features, IntArray

_SYMMETRY = 1e-8  # of a precomputed covariance, relative to its largest entry
_HALF = 0.5 - 1e-12  # a level whose cumulative probability is 1/2 up to rounding is the median


class GPOrdinalRegressor(ClassifierMixin, CallbackMixin, BaseEstimator):
    """Gaussian-process regression on ordered labels: grades, stars, stages of a disease.

    A latent f(x) with a Gaussian-process prior of unit amplitude, plus noise, falls between two of r - 1 learnt
    thresholds ([CG05] eq. 5). Levels need no distances between them; predictions are probabilities of all levels.

    Parameters
    ----------
    kernel : Kernel, {"auto", "ard", "linear-ard", "precomputed"} or None, default=None
        Covariance of f: one of `skpref.kernels` or of scikit-learn. None stands for the squared exponential of
        [CG05] with one length-scale, which starts at the median distance: standardise features first. "auto"
        averages over smooth and rough, isotropic and per-feature (ARD), and linear kernels, weighed by their evidence
        under weak priors; it needs no standardised features, and no restarts. "ard": squared exponential with a
        length-scale a feature; "linear-ard": linear with a weight variance a feature; both follow the number of
        features, as `RFE` wants. "precomputed": X is the covariance.
    inference : {"auto", "ep", "laplace", "vb", "svi"}, default="auto"
        "ep": expectation propagation at all rows, n^3; "laplace": a Gaussian at the mode, faster and less accurate;
        "vb": full passes through `n_inducing` inducing points, linear in n, a monotone bound; "svi": the same in
        mini-batches. "auto": "ep" up to `n_max_exact` distinct rows ("laplace" where weights lie between 0 and 1),
        then "vb" while its rows fit in 2 GiB, else "svi".
    optimizer : {"l-bfgs-b"} or None, default="l-bfgs-b"
        Whether length-scales, noise and thresholds are learnt by the gradient of the evidence. None keeps the
        kernel's, with thresholds at the frequencies of the levels and noise 1.
    n_restarts_optimizer : int, default=2
        Further starts of the search, at random length-scales and noise; the highest evidence wins.
    evidence : {"ep", "bound"}, default="ep"
        What the search with "ep" maximises: its approximate evidence, or the variational bound of [CG05] eq. 13.
    n_inducing : int, default=300
        Inducing points of "vb" and "svi" at most.
    inducing : {"kmeans++", "kmeans", "random", "variance"} or array-like of shape (M, n_features), default="kmeans++"
        Where they come from.
    batch_size : int, default=1000
        Rows a step of "svi".
    max_iter : int, default=200
        Iterations of the inference at most: rounds of "ep", Newton steps of "laplace", passes of "vb" and "svi".
    tol : float, default=1e-4
        When "vb" and "svi" stop, as in `GPPLRegressor`. "ep" and "laplace" end at a gap of 1e-6 posterior standard
        deviations.
    delay, forgetting_rate : float, default=1.0, 0.9
        Step size (t + delay)^-forgetting_rate of "svi".
    n_max_exact : int, default=4000
        Distinct rows up to which "auto" infers at all of them, and beyond which "ep" and "laplace" refuse.
    class_order : array-like of shape (n_classes,), default=None
        All levels, low to high, those absent from `y` included. None = the categories of an ordered
        `pandas.Categorical`, else the sorted labels. For probabilities `cross_val_predict` replaces labels by their
        places in alphabetical order, which would lose the order of a Categorical: name it here, and it is kept.
    warm_start : bool, default=False
        Whether `fit` starts at the hyper-parameters (and for "vb" and "svi" the posterior) of the earlier fit, where
        kernel, levels and number of features are the same. "auto" always searches anew.
    verbose : int, default=0
        Whether to print a line an iteration of "vb" and "svi", or an evaluation of the evidence.
    random_state : int, RandomState, Generator or None, default=None
        Restarts, inducing points, mini-batches.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The levels, low to high.
    kernel_ : Kernel or None
        Kernel with its learnt hyper-parameters; None for "precomputed".
    thresholds_ : ndarray of shape (n_classes - 1,)
        b_1 < ... < b_{r-1}, in prior standard deviations of f (for a kernel of unit amplitude).
    noise_ : float
        Standard deviation of the noise added to f, in the same unit.
    log_marginal_likelihood_value_ : float
        Log evidence in nats, as approximated by the inference.
    lower_bound_ : float
        Variational lower bound on it at the posterior.
    lower_bounds_ : list of float
        Objective at every evaluation of the search; for "vb" and "svi" the bound after each pass of the last fit.
    posterior_ : ExactLatent or SparseLatent
        All that predictions of f need.
    ensemble_ : list of OrdinalMember
        The models that probabilities are averages of, with their weights, the best first: several with "auto", where
        all other attributes are those of the best.
    likelihood_ : OrdinalProbit
        Thresholds and noise as they enter the likelihood.
    inference_ : {"ep", "laplace", "vb", "svi"}
        What "auto" chose.
    n_iter_ : int
        Iterations of the last inference.
    n_skipped_ : int
        Site updates that "ep" left out since they would have broken positive definiteness.
    converged_ : bool
        Whether the last inference met its tolerance.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str
        Their names, when X had some.

    See Also
    --------
    GPPLRegressor : Only the order of scores within a group counts.

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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "kernel": [Kernel, StrOptions({"auto", "ard", "linear-ard", "precomputed"}), None],
        "inference": [StrOptions({"auto", "ep", "laplace", "vb", "svi"})],
        "optimizer": [StrOptions({"l-bfgs-b"}), None],
        "n_restarts_optimizer": [Interval(Integral, 0, None, closed="left")],
        "evidence": [StrOptions({"ep", "bound"})],
        "n_inducing": [Interval(Integral, 1, None, closed="left")],
        "inducing": [StrOptions({"kmeans++", "kmeans", "random", "variance"}), "array-like", "sparse matrix"],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0.0, None, closed="left")],
        "delay": [Interval(Real, 0.0, None, closed="left")],
        "forgetting_rate": [Interval(Real, 0.5, 1.0, closed="right")],
        "n_max_exact": [Interval(Integral, 1, None, closed="left")],
        "class_order": ["array-like", None],
        "warm_start": ["boolean"],
        "verbose": ["verbose"],
        "random_state": ["random_state", np.random.Generator],
    }

    def __init__(
        self,
        kernel: Kernel | str | None = None,
        *,
        inference: str = "auto",
        optimizer: str | None = "l-bfgs-b",
        n_restarts_optimizer: int = 2,
        evidence: str = "ep",
        n_inducing: int = 300,
        inducing: Any = "kmeans++",
        batch_size: int = 1000,
        max_iter: int = 200,
        tol: float = 1e-4,
        delay: float = 1.0,
        forgetting_rate: float = 0.9,
        n_max_exact: int = 4000,
        class_order: ArrayLike | None = None,
        warm_start: bool = False,
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.inference = inference
        self.optimizer = optimizer
        self.n_restarts_optimizer = n_restarts_optimizer
        self.evidence = evidence
        self.n_inducing = n_inducing
        self.inducing = inducing
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.tol = tol
        self.delay = delay
        self.forgetting_rate = forgetting_rate
        self.n_max_exact = n_max_exact
        self.class_order = class_order
        self.warm_start = warm_start
        self.verbose = verbose
        self.random_state = random_state

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.kernel != "precomputed"
        tags.input_tags.pairwise = isinstance(self.kernel, str) and self.kernel == "precomputed"
        return tags

    # ------------------------------------------------------------- fitting

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn kernel, noise and thresholds, and the posterior of f.

        Parameters
        ----------
        X : {array-like, CSR} of shape (n, n_features)
            Rows; with ``kernel="precomputed"`` their covariance, of shape (n, n).
        y : array-like of shape (n,)
            Ordered labels.
        sample_weight : array-like of shape (n,), default=None
            Weights >= 0; a whole number counts copies. "ep" needs weights of 0 or at least 1.

        Returns
        -------
        GPOrdinalRegressor
            Itself, fitted.

        Raises
        ------
        ValueError
            If X or y is not finite, y has fewer than 2 levels or one that `class_order` lacks, a weight is negative,
            there are more than `n_max_exact` rows for "ep" or "laplace", or a given covariance is none.

        Warns
        -----
        ConvergenceWarning
            If the last inference did not meet its tolerance in `max_iter` iterations.
        """
        with fit_callbacks(self, X, y, sample_weight), unchanged_on_failure(self):
            X, level, weight = self._read(X, y, sample_weight)
            self._rows = X, level, weight
            self._learn(going_on=self.warm_start)
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn from more rows without starting again: through inducing points, whatever `inference` says.

        Earlier rows are remembered, and the fit goes on from where it stands: thresholds and noise move with all rows
        seen so far, the kernel stays as it is, and so do the inducing points once there are `n_inducing`.

        Parameters
        ----------
        X, y : array-like
            As in `fit`.
        classes : array-like of shape (n_classes,), default=None
            All levels, low to high; only needed at the first call, where `class_order` is another place for them. Where
            they are given here, the first rows may be of one level.
        sample_weight : array-like of shape (n,), default=None
            As in `fit`.

        Returns
        -------
        GPOrdinalRegressor
            Itself.

        Raises
        ------
        ValueError
            As in `fit`; or with ``kernel="precomputed"``, or if `classes` are others than before.
        """
        if isinstance(self.kernel, str) and self.kernel == "precomputed":
            msg = 'partial_fit needs rows of features; kernel="precomputed" gives covariances: call fit with all rows.'
            raise DataError(msg)
        self._validate_params()
        with unchanged_on_failure(self):
            if not hasattr(self, "posterior_"):
                order = self.class_order if classes is None else classes
                X, level, weight = self._read(X, y, sample_weight, order=order, fewest=2 if classes is None else 1)
                self._rows = X, level, weight
                return self._learn(going_on=False, streaming=True)
            if classes is not None and not np.array_equal(np.asarray(classes), self.classes_):
                msg = f"classes must be those of the first call, {self.classes_.tolist()}; got {classes!r:.200}."
                raise DataError(msg)
            X, level, weight = self._read(X, y, sample_weight, order=self.classes_, reset=False)
            old_X, old_level, old_weight = self._rows
            self._rows = stack(old_X, X), np.append(old_level, level), np.append(old_weight, weight)
            return self._learn(going_on=True, streaming=True)

    def _read(
        self, X: Any, y: Any, sample_weight: Any, *, order: Any = None, reset: bool = True, fewest: int = 2
    ) -> tuple[Features, IntArray, Array]:
        """Rows of positive weight, their levels and weights; sets `classes_`."""
        if y is None:
            msg = f"This {type(self).__name__} estimator requires y to be passed, but the target y is None."
            raise ValueError(msg)
        given = self.kernel == "precomputed"
        X, values = validate_data(
            self,
            X,
            read_labels(y),
            accept_sparse=False if given else "csr",
            dtype=np.float64,
            order="C",
            reset=reset,
        )
        order = self.class_order if order is None else order
        if reset:
            # A column of a data frame knows the order of its categories, an array does not.
            column = y.iloc[:, 0] if getattr(y, "ndim", 1) == 2 and hasattr(y, "iloc") else y
            categorical = hasattr(getattr(column, "dtype", None), "categories")
            self.classes_, level = ordered_levels(column if categorical else values, order, fewest=fewest)
        else:
            level = encode_levels(values, self.classes_)
        weight = read_weights(sample_weight, X.shape[0])
        self._given = given
        if given:
            _check_covariance(X)
        used = weight > 0.0
        if reset and np.unique(level[used]).size < fewest:
            raise DataError(
                f"at least {fewest} classes (levels) must have rows of positive weight; got "
                f"{np.unique(level[used]).size}. Rows of sample_weight zero do not count."
            )
        if given:
            self._used = np.flatnonzero(used)
            return np.ascontiguousarray(X[np.ix_(used, used)]), level[used], weight[used]
        return canonical(X[used]), level[used], weight[used]

    def _learn(self, *, going_on: bool, streaming: bool = False) -> Self:
        data = self._data()
        if data.X is not None:
            warn_constant(data.X, "all rows")
        config = self._config(data, streaming=streaming)
        own = kernel_parameters(self.kernel) if isinstance(self.kernel, Kernel) else self.kernel
        key = digest((own, self.classes_.tolist(), None if data.X is None else data.X.shape[1]))
        # "auto" has starts of its own: the bare evidence would leave the family that was chosen under its priors.
        goes_on = going_on and getattr(self, "_warm_key", None) == key and (streaming or self.kernel != "auto")
        start = self._end if goes_on else None
        held = streaming and start is not None
        rng = as_generator(self.random_state)
        result = fit_ordinal(data, self.classes_.size, self._kernel(), config, rng, start, held=held)
        self._warm_key = key
        self._keep(result, config)
        return self

    def _kernel(self) -> Any:
        if isinstance(self.kernel, CompoundKernel):
            msg = (
                "kernel: a CompoundKernel (several kernels at once) cannot be used here; "
                f"got {self.kernel!r:.200}. Add or multiply its parts: RBF() + Matern()."
            )
            raise DataError(msg)
        return None if isinstance(self.kernel, str) and self.kernel == "precomputed" else self.kernel

    def _data(self) -> OrdinalData:
        """Distinct rows in an order of their own: equal samples give equal bits, in whatever order they come."""
        X, level, weight = self._rows
        if self._given:
            return OrdinalData(None, level.astype(np.float64), weight, X)
        first, item = unique_rows(X)
        # Rows in the order of their contents' hashes, and labels within rows.
        cell, inverse = np.unique(item * self.classes_.size + level, return_inverse=True)
        rows = first[cell // self.classes_.size]
        return OrdinalData(
            X[rows], (cell % self.classes_.size).astype(np.float64), np.bincount(inverse, weight).astype(np.float64)
        )

    def _config(self, data: OrdinalData, *, streaming: bool) -> OrdinalConfig:
        inference = _resolved(self.inference, data, self.n_max_exact, self.n_inducing)
        if streaming and inference in {"ep", "laplace"}:
            inference = "vb"
        if inference in {"ep", "laplace"} and data.n > self.n_max_exact:
            msg = (
                f"inference={inference!r} takes time n^3 and memory n^2: n_max_exact={self.n_max_exact} distinct rows "
                f"at most; got {data.n}. Use inference='vb' or 'svi', or raise n_max_exact."
            )
            raise DataError(msg)
        if inference in {"vb", "svi"}:
            if data.K is not None:
                msg = f"inference={inference!r} needs rows of features: kernel='precomputed' has 'ep' and 'laplace'."
                raise DataError(msg)
            check_memory(data.n, min(self.n_inducing, data.n), whose="rows")
        else:
            check_memory(data.n, data.n, "inference='vb', or n_max_exact", "rows")
        schedule = Schedule(
            max_iter=self.max_iter,
            tol=self.tol,
            batch_size=self.batch_size if inference == "svi" else None,
            delay=self.delay,
            forgetting_rate=self.forgetting_rate,
            on_iteration=on_iteration(self),
        )
        return OrdinalConfig(
            inference=inference,
            evidence=self.evidence,
            optimizer=self.optimizer,
            n_restarts=self.n_restarts_optimizer,
            n_inducing=self.n_inducing,
            inducing=self.inducing,
            schedule=schedule,
            on_value=_printer(type(self).__name__) if self.verbose else None,
        )

    def _keep(self, result: OrdinalFit, config: OrdinalConfig) -> None:
        self._end = result.end
        self.posterior_ = result.latent
        self.ensemble_ = list(result.members)
        self.kernel_ = result.end.kernel
        self.likelihood_ = result.end.likelihood
        self.thresholds_ = np.array(self.likelihood_.thresholds)
        self.noise_ = self.likelihood_.noise
        self.inference_ = config.inference
        self.log_marginal_likelihood_value_ = result.evidence
        self.lower_bound_ = result.bound
        self.lower_bounds_ = list(result.bounds)
        self.n_iter_ = result.n_iter
        self.n_skipped_ = result.n_skipped
        self.converged_ = result.converged
        if not result.converged:
            warn_not_converged(self, self.n_iter_, 6)

    # ------------------------------------------------------------- predicting

    def _new(self, X: Any) -> Features:
        check_is_fitted(self)
        given = self.kernel_ is None
        X = validate_data(self, X, accept_sparse=False if given else "csr", dtype=np.float64, order="C", reset=False)
        return np.ascontiguousarray(X[:, self._used]) if given else canonical(X)

    def predict_latent(self, X: Any, return_std: bool = False) -> Array | tuple[Array, Array]:
        """Return posterior means of f.

        Parameters
        ----------
        X : {array-like, CSR} of shape (n, n_features)
            Rows; for "precomputed" their covariance with the training rows, whose mean variance then stands for
            theirs.
        return_std : bool, default=False
            Whether to add posterior standard deviations.

        Returns
        -------
        mean : ndarray of shape (n,)
            f, in prior standard deviations (for a kernel of unit amplitude).
        std : ndarray of shape (n,)
            Only when asked for.
        """
        rows = self._new(X)
        mean, variance = self.posterior_.latent(rows, variance=return_std)
        return (mean, np.sqrt(variance)) if return_std else mean

    def predict_proba(self, X: Any) -> Array:
        """Return the probabilities of all levels.

        Parameters
        ----------
        X : {array-like, CSR} of shape (n, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n, n_classes)
            In the order of `classes_`; rows sum to 1.
        """
        rows = self._new(X)
        parts = [one.weight * one.likelihood.probabilities(*one.latent.latent(rows)) for one in self.ensemble_]
        return np.sum(parts, axis=0) if len(parts) > 1 else parts[0]

    def predict(self, X: Any, loss: str = "zero-one") -> NDArray[Any]:
        """Return a level for every row.

        Parameters
        ----------
        X : {array-like, CSR} of shape (n, n_features)
            Rows.
        loss : {"zero-one", "absolute"}, default="zero-one"
            "zero-one": the most probable level. "absolute": the median level, which minimises the expected distance
            in ranks.

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
        level = p.argmax(axis=1) if loss == "zero-one" else np.sum(np.cumsum(p[:, :-1], axis=1) < _HALF, axis=1)
        return self.classes_[level]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return minus the mean absolute error in ranks of the median level.

        Parameters
        ----------
        X : {array-like, CSR} of shape (n, n_features)
            Rows.
        y : array-like of shape (n,)
            Labels.
        sample_weight : array-like of shape (n,), default=None
            Weights.

        Returns
        -------
        float
            At most 0: levels that predictions are off by, on average.
        """
        predicted = encode_levels(self.predict(X, loss="absolute"), self.classes_)
        return -ordinal_mae(encode_levels(y, self.classes_), predicted, sample_weight=sample_weight)

    # ------------------------------------------------------------- looking inside

    def log_marginal_likelihood(
        self, theta: ArrayLike | None = None, eval_gradient: bool = False
    ) -> float | tuple[float, Array]:
        """Return the log evidence at given hyper-parameters.

        Parameters
        ----------
        theta : array-like of shape (n_theta,), default=None
            The kernel's theta, then log noise, b_1, and the logarithms of the gaps between thresholds. None = the
            learnt ones.
        eval_gradient : bool, default=False
            Whether to add the gradient in theta.

        Returns
        -------
        value : float
            Log evidence by "ep" or "laplace" (the variational bound with ``evidence="bound"``), in nats.
        gradient : ndarray of shape (n_theta,)
            Only when asked for.

        Raises
        ------
        ValueError
            If theta has another length, or the model was fitted through inducing points.
        """
        check_is_fitted(self)
        if not isinstance(self.posterior_, ExactLatent):
            msg = f"log_marginal_likelihood is of 'ep' and 'laplace'; for {self.inference_!r} see lower_bound_."
            raise DataError(msg)
        own = np.zeros(0) if self.kernel_ is None else self.kernel_.theta
        theta = np.concatenate([own, self.likelihood_.theta]) if theta is None else np.asarray(theta, dtype=np.float64)
        n, size = own.size, own.size + self.classes_.size
        if theta.shape != (size,) or not np.all(np.isfinite(theta)):
            msg = f"theta must be {size} finite numbers ({n} of the kernel, then {self.classes_.size}); got {theta!r}."
            raise DataError(msg)
        kernel = None if self.kernel_ is None else self.kernel_.clone_with_theta(theta[:n])
        data = self._data()
        evidence = ExactEvidence(data, self.inference_, self.evidence == "bound", self.max_iter, FINAL_TOL)
        with limit_blas_threads(data.n):
            seen = evidence(kernel, self.likelihood_.with_theta(theta[n:]))
        return (seen.value, np.concatenate([seen.in_kernel, seen.in_likelihood])) if eval_gradient else seen.value

    @property
    def relevance_(self) -> Array:
        """How much each feature matters to the prior of f, shape (n_features,).

        Half the expected square of f(x) - f(x'), where x' is a training row x (or inducing point) with this feature
        taken from another: 0 for a feature that f ignores; for the ARD linear kernel the feature's weight variance
        times its variance. Not there for "precomputed".
        """
        check_is_fitted(self)
        if self.kernel_ is None:
            msg = "relevance_ is of features; kernel='precomputed' has none."
            raise AttributeError(msg)
        latent = self.posterior_
        X = latent.X if isinstance(latent, ExactLatent) else latent.basis.points
        return prior_relevance(self.kernel_, X)

    @property
    def feature_importances_(self) -> Array:
        """`relevance_` under the name that `SelectFromModel` and `RFE` look for."""
        return self.relevance_


def _resolved(inference: str, data: OrdinalData, n_max_exact: int, n_inducing: int) -> str:
    """What "auto" stands for."""
    if inference != "auto":
        return inference
    if data.n <= n_max_exact or data.K is not None:
        return "laplace" if np.any(data.weight < 1.0) else "ep"
    return "vb" if full_passes_fit(data.n, min(n_inducing, data.n)) else "svi"


def _printer(name: str) -> Callable[[float], None]:
    return lambda value: print(f"{name}: log evidence {value:.4f}")  # noqa: T201 - asked for


def _check_covariance(K: Array) -> None:
    if K.shape[0] != K.shape[1]:
        msg = f"Precomputed matrix must be square: a covariance of the training rows; got shape {K.shape}."
        raise DataError(msg)
    off = np.abs(K - K.T)
    if off.max(initial=0.0) > _SYMMETRY * np.abs(K).max(initial=1.0):
        i, j = np.unravel_index(int(np.argmax(off)), K.shape)
        msg = f"a precomputed covariance must be symmetric; got K[{i}, {j}]={K[i, j]:.6g}, K[{j}, {i}]={K[j, i]:.6g}."
        raise DataError(msg)
    low = float(np.linalg.eigvalsh(K)[0])
    if low < -_SYMMETRY * float(np.abs(np.diagonal(K)).max(initial=1.0)) * K.shape[0]:
        msg = f"a precomputed covariance must be positive semi-definite; its lowest eigenvalue is {low:.3g}."
        raise DataError(msg)
