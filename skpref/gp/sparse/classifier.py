"""`SVGPClassifier`: Gaussian-process classification for many rows (docs/maths sections 1 to 5)."""

from __future__ import annotations

from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.gaussian_process.kernels import Kernel
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
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
from skpref.data.tables import canonical, stack
from skpref.data.weights import read_weights
from skpref.exceptions import DataError
from skpref.gp.default_kernels import kernel_parameters
from skpref.gp.relevance import prior_relevance
from skpref.gp.sparse.fit import SparseConfig
from skpref.gp.sparse.fit_general import GeneralConfig, Observations, fit_general
from skpref.gp.sparse.targets import cells_of
from skpref.inference.svi import Schedule
from skpref.likelihoods import PairwiseLogit, PairwiseProbit

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from sklearn.utils import Tags

    from skpref._typing import Array, Features, IntArray
    from skpref.gp.sparse.fit_general import GeneralFit

# A pair's answer is a class of two: z is f(x) in place of a difference.
_LIKELIHOODS = {"probit": PairwiseProbit, "logit": PairwiseLogit}

_MOST_ROWS: Final = 10_000  # that a search looks at
_SHARED_ROWS, _LEAST_ROWS = 20_000, 3_000  # that those of many classes share, but for so many each
_COARSE: Final = 10.0  # times the tolerance where classes are many: an iteration gains 1e-4 nats a row and class


class SVGPClassifier(ClassifierMixin, CallbackMixin, BaseEstimator):
    """Gaussian-process classification through inducing points: any number of rows, time n M^2.

    Of two classes, the probability of the second is Phi(f(x)) or 1/(1 + exp(-f(x))), f with a Gaussian-process prior.
    Of more classes each has an f of its own against all others, and probabilities are brought to a sum of 1. Kernel
    and inducing points are learnt by the gradient of a lower bound on the evidence.

    Parameters
    ----------
    kernel : Kernel, default=None
        Covariance of f: one of `skpref.kernels` or of scikit-learn. None stands for an amplitude times the squared
        exponential with a length-scale a feature (ARD), which starts at the deviations of the features.
    likelihood : {"probit", "logit"}, default="probit"
        How classes come from f. Probabilities with "probit" are in closed form.
    n_inducing : int, default=300
        Inducing points M at most; never more than there are distinct rows.
    inducing : {"kmeans++", "kmeans", "random", "variance"} or array-like of shape (M, n_features), default="kmeans++"
        Where they start.
    learn_inducing : bool or "auto", default="auto"
        Whether they are moved by the gradient of the bound, as in `SVGPRegressor`.
    inference : {"auto", "vb", "svi"}, default="auto"
        "vb": full passes of natural-gradient steps; "svi": steps on mini-batches. "auto": "vb" while its rows fit in
        2 GiB, else "svi".
    optimizer : {"l-bfgs-b", "adam"} or None, default="l-bfgs-b"
        How kernel and points are learnt. "l-bfgs-b": by the bound with q at its optimum, of at most 10,000 rows;
        "adam": a step after every step of "svi", for which it stands; None: not at all. More than two classes share
        20,000 rows, but 3,000 each at least; of a larger set half are of the class, or all that it has, and rows
        count for as many as they stand for.
    batch_size : int, default=1000
        Rows a step of "svi".
    learning_rate : float, default=0.01
        Step of "adam".
    delay, forgetting_rate : float, default=1.0, 0.9
        Step size (t + delay)^-forgetting_rate of "svi".
    max_iter : int, default=200
        Iterations of each search, passes of "vb" and "svi" at most.
    tol : float, default=1e-4
        When searches and passes end, as in `SVGPRegressor`.
    window : int or None, default=None
        How many of the latest rows `partial_fit` counts. None: all.
    warm_start : bool, default=False
        Whether `fit` starts where the earlier fit ended, for the same kernel, classes and number of features.
    verbose : int, default=0
        Whether to print a line an evaluation of the bound.
    random_state : int, RandomState, Generator or None, default=None
        Inducing points, samples of rows, mini-batches.
    n_jobs : int, default=None
        Processes (joblib) that more than two classes are shared by; None means 1, -1 all cores. The result is the
        same. With more than one, callbacks are not told of passes.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes.
    kernels_ : list of Kernel
        Kernels with their learnt hyper-parameters: one for two classes, else one a class.
    posteriors_ : list of SparseLatent
        Posteriors of f, in the same order.
    kernel_, posterior_ : Kernel, SparseLatent
        The first of each: all there is for two classes.
    lower_bound_ : float
        Lower bound on the log evidence, in nats; summed over the classes where there are more than two.
    lower_bounds_ : list of float
        The (first) bound after each pass of the last inference.
    inference_ : {"vb", "svi"}
        What "auto" chose.
    n_iter_ : int
        Passes of the last inference, the most of any class.
    converged_ : bool
        Whether searches and passes met their tolerances.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str
        Their names, when X had some.

    See Also
    --------
    SVGPRegressor : Numbers and counts instead of classes.
    GPOrdinalRegressor : Classes in an order.

    References
    ----------
    .. [HMG15] Hensman, Matthews and Ghahramani, "Scalable variational Gaussian process classification", AISTATS 2015.

    Examples
    --------
    >>> import numpy as np
    >>> from skpref import SVGPClassifier
    >>> X = np.random.default_rng(0).uniform(-2, 2, (200, 2))
    >>> y = np.where(np.hypot(X[:, 0], X[:, 1]) < 1.2, "inside", "outside")
    >>> model = SVGPClassifier(n_inducing=20, random_state=0).fit(X, y)
    >>> model.predict([[0.0, 0.0], [1.8, 1.8]]).tolist()
    ['inside', 'outside']
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "kernel": [Kernel, None],
        "likelihood": [StrOptions(set(_LIKELIHOODS))],
        "n_inducing": [Interval(Integral, 1, None, closed="left")],
        "inducing": [StrOptions({"kmeans++", "kmeans", "random", "variance"}), "array-like", "sparse matrix"],
        "learn_inducing": ["boolean", StrOptions({"auto"})],
        "inference": [StrOptions({"auto", "vb", "svi"})],
        "optimizer": [StrOptions({"l-bfgs-b", "adam"}), None],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "learning_rate": [Interval(Real, 0.0, None, closed="neither")],
        "delay": [Interval(Real, 0.0, None, closed="left")],
        "forgetting_rate": [Interval(Real, 0.5, 1.0, closed="right")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0.0, None, closed="left")],
        "window": [Interval(Integral, 1, None, closed="left"), None],
        "warm_start": ["boolean"],
        "verbose": ["verbose"],
        "random_state": ["random_state", np.random.Generator],
        "n_jobs": [Integral, None],
    }

    def __init__(
        self,
        kernel: Kernel | None = None,
        *,
        likelihood: str = "probit",
        n_inducing: int = 300,
        inducing: Any = "kmeans++",
        learn_inducing: bool | str = "auto",
        inference: str = "auto",
        optimizer: str | None = "l-bfgs-b",
        batch_size: int = 1000,
        learning_rate: float = 0.01,
        delay: float = 1.0,
        forgetting_rate: float = 0.9,
        max_iter: int = 200,
        tol: float = 1e-4,
        window: int | None = None,
        warm_start: bool = False,
        verbose: int = 0,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.likelihood = likelihood
        self.n_inducing = n_inducing
        self.inducing = inducing
        self.learn_inducing = learn_inducing
        self.inference = inference
        self.optimizer = optimizer
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.delay = delay
        self.forgetting_rate = forgetting_rate
        self.max_iter = max_iter
        self.tol = tol
        self.window = window
        self.warm_start = warm_start
        self.verbose = verbose
        self.random_state = random_state
        self.n_jobs = n_jobs

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # ------------------------------------------------------------- fitting

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn kernels and inducing points, and the posterior of f.

        Parameters
        ----------
        X : {array-like, CSR} of shape (n, n_features)
            Rows.
        y : array-like of shape (n,)
            Classes.
        sample_weight : array-like of shape (n,), default=None
            Weights >= 0 that multiply log likelihoods; a whole number counts copies.

        Returns
        -------
        SVGPClassifier
            Itself, fitted.

        Raises
        ------
        ValueError
            If X is not finite, y holds no classes or one only, or a weight is negative.

        Warns
        -----
        ConvergenceWarning
            If a search or the inference did not meet its tolerance in `max_iter` iterations.
        """
        with fit_callbacks(self, X, y, sample_weight), unchanged_on_failure(self):
            self._rows = self._read(X, y, sample_weight, None)
            return self._learn(going_on=self.warm_start)

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn from more rows: earlier ones are remembered, or as many of the latest as `window` says.

        Kernel and inducing points stay as they were learnt from the first call, and the inference goes on from where
        it stands.

        Parameters
        ----------
        X, y : array-like
            As in `fit`.
        classes : array-like of shape (n_classes,), default=None
            All classes; only needed at the first call, where `y` may lack some.
        sample_weight : array-like of shape (n,), default=None
            As in `fit`.

        Returns
        -------
        SVGPClassifier
            Itself.

        Raises
        ------
        ValueError
            As in `fit`, or if `y` holds classes that the first call did not know.
        """
        self._validate_params()
        with unchanged_on_failure(self):
            if not hasattr(self, "posteriors_"):
                self._rows = self._read(X, y, sample_weight, classes)
                return self._learn(going_on=False)
            if classes is not None and not np.array_equal(np.unique(classes), self.classes_):
                msg = f"classes must be those of the first call, {self.classes_.tolist()}; got {classes!r:.200}."
                raise DataError(msg)
            old, new = self._rows, self._read(X, y, sample_weight, self.classes_, reset=False)
            self._rows = stack(old[0], new[0]), np.append(old[1], new[1]), np.append(old[2], new[2])
            if self.window is not None:
                rows, label, weight = self._rows
                self._rows = rows[-self.window :], label[-self.window :], weight[-self.window :]
            return self._learn(going_on=True, held=True)

    def _read(
        self, X: Any, y: Any, sample_weight: Any, classes: Any, *, reset: bool = True
    ) -> tuple[Features, IntArray, Array]:
        """Rows of positive weight, numbers of their classes and weights; sets `classes_`."""
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, order="C", reset=reset)
        check_classification_targets(y)
        weight = read_weights(sample_weight, X.shape[0])
        used = weight > 0.0
        found, label = np.unique(y, return_inverse=True)
        if classes is None:
            self.classes_ = found
        else:
            self.classes_ = np.unique(classes)
            unknown = np.setdiff1d(found, self.classes_)
            if unknown.size:
                msg = f"y holds classes that `classes` lacks: {unknown.tolist()!r:.200}. Name all at the first call."
                raise DataError(msg)
            label = np.searchsorted(self.classes_, found)[label]
        if self.classes_.size < 2 or (classes is None and np.unique(label[used]).size < 2):
            msg = (
                "The number of classes has to be greater than one: at least 2 classes must have rows of positive "
                f"weight; got {np.unique(label[used]).size}. Rows of sample_weight zero do not count."
            )
            raise DataError(msg)
        return canonical(X[used]), label[used].astype(np.int64), weight[used]

    def _learn(self, *, going_on: bool, held: bool = False) -> Self:
        cells = cells_of(self._rows[0], self._rows[1].astype(np.float64), self._rows[2])
        if cells.X.shape[0] > 1:
            warn_constant(cells.X, "all rows")
        check_memory(1, min(self.n_inducing, cells.X.shape[0]), whose="rows")
        key = digest((kernel_parameters(self.kernel), self.classes_.tolist(), self.likelihood, cells.X.shape[1]))
        goes_on = going_on and getattr(self, "_warm_key", None) == key
        rows, likelihood, config = cells.X[cells.row], _LIKELIHOODS[self.likelihood](), self._config()
        numbers = [1] if self.classes_.size == 2 else range(self.classes_.size)
        tasks = [
            delayed(fit_general)(
                Observations(rows, (cells.y == k).astype(np.float64), cells.weight),
                likelihood,
                self.kernel,
                config,
                rng,
                self._ends[place] if goes_on else None,
                held=held and goes_on,
            )
            for place, (k, rng) in enumerate(
                zip(numbers, as_generator(self.random_state).spawn(len(numbers)), strict=True)
            )
        ]
        fits: list[GeneralFit] = list(Parallel(self.n_jobs)(tasks))
        self._warm_key = key
        return self._keep(fits)

    def _config(self) -> GeneralConfig:
        name, many = type(self).__name__, self.classes_.size > 2
        sparse = SparseConfig(
            optimizer=self.optimizer,
            n_inducing=self.n_inducing,
            inducing=self.inducing,
            learn_inducing=self.learn_inducing,
            noise=None,
            max_iter=self.max_iter,
            tol=_COARSE * self.tol if many else self.tol,
            on_value=(lambda value: print(f"{name}: bound {value:.6f} a row")) if self.verbose else None,  # noqa: T201
        )
        schedule = Schedule(
            max_iter=self.max_iter,
            tol=self.tol,
            batch_size=self.batch_size,
            delay=self.delay,
            forgetting_rate=self.forgetting_rate,
            # What follows the fit stays in this process.
            on_iteration=None if many and effective_n_jobs(self.n_jobs) > 1 else on_iteration(self),
        )
        most_rows = max(_LEAST_ROWS, _SHARED_ROWS // self.classes_.size) if many else _MOST_ROWS
        return GeneralConfig(sparse, self.inference, schedule, self.learning_rate, most_rows)

    def _keep(self, fits: list[GeneralFit]) -> Self:
        self._ends = [fit.end for fit in fits]
        self.kernels_ = [fit.end.kernel for fit in fits]
        self.posteriors_ = [fit.latent for fit in fits]
        self.kernel_, self.posterior_ = self.kernels_[0], self.posteriors_[0]
        self.lower_bounds_ = fits[0].bounds
        self.lower_bound_ = sum(fit.bounds[-1] for fit in fits)
        self.inference_ = fits[0].inference
        self.n_iter_ = max(fit.n_iter for fit in fits)
        self.converged_ = all(fit.converged for fit in fits)
        if not self.converged_:
            warn_not_converged(self, self.n_iter_, 5)
        return self

    # ------------------------------------------------------------- predicting

    def _new(self, X: Any) -> Features:
        check_is_fitted(self)
        return canonical(validate_data(self, X, accept_sparse="csr", dtype=np.float64, order="C", reset=False))

    def predict_latent(self, X: Any, return_std: bool = False) -> Array | tuple[Array, Array]:
        """Return posterior means of f.

        Parameters
        ----------
        X : {array-like, CSR} of shape (n, n_features)
            Rows.
        return_std : bool, default=False
            Whether to add posterior standard deviations.

        Returns
        -------
        mean : ndarray of shape (n,) or (n, n_classes)
            f of the second class of two, or of each class against all others.
        std : ndarray of the same shape
            Only when asked for.
        """
        rows = self._new(X)
        pairs = [posterior.latent(rows, variance=return_std) for posterior in self.posteriors_]
        mean, variance = (np.column_stack(parts) for parts in zip(*pairs, strict=True))
        if len(pairs) == 1:
            mean, variance = mean[:, 0], variance[:, 0]
        return (mean, np.sqrt(variance)) if return_std else mean

    def predict_proba(self, X: Any) -> Array:
        """Return the probabilities of all classes.

        Parameters
        ----------
        X : {array-like, CSR} of shape (n, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n, n_classes)
            In the order of `classes_`; rows sum to 1.
        """
        rows, likelihood = self._new(X), _LIKELIHOODS[self.likelihood]()
        p = np.column_stack([likelihood.predict(*posterior.latent(rows)) for posterior in self.posteriors_])
        if p.shape[1] == 1:
            return np.column_stack([1.0 - p[:, 0], p[:, 0]])
        total = p.sum(axis=1, keepdims=True)
        # Where every class is next to impossible all are alike.
        return np.divide(p, total, out=np.full_like(p, 1.0 / p.shape[1]), where=total > 0.0)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of every row.

        Parameters
        ----------
        X : {array-like, CSR} of shape (n, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n,)
            Classes.
        """
        p = self.predict_proba(X)
        return np.asarray(self.classes_[p.argmax(axis=1)])

    # ------------------------------------------------------------- looking inside

    @property
    def relevance_(self) -> Array:
        """How much each feature matters to the prior of f, shape (n_features,).

        As in `SVGPRegressor`; the mean over classes where there are more than two.
        """
        check_is_fitted(self)
        each = [prior_relevance(end.kernel, end.points) for end in self._ends]
        return np.asarray(np.mean(each, axis=0))

    @property
    def feature_importances_(self) -> Array:
        """`relevance_` under the name that `SelectFromModel` and `RFE` look for."""
        return self.relevance_
