"""`SVGPClassifier`: Gaussian-process classification for many rows (docs/maths sections 1 to 5 and 11)."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, overload

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from sklearn.base import ClassifierMixin
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.multiclass import check_classification_targets

from skpref._callbacks import fit_callbacks, fit_context
from skpref._checks import check_indices, check_types, require
from skpref._estimator import (
    check_memory,
    digest,
    iteration_callback,
    unchanged_on_failure,
    warn_constant,
    warn_not_converged,
)
from skpref._math.random import as_generator
from skpref._sources import accept_collections, as_source, is_elsewhere, refuse_more_rows
from skpref._validation import validate_data
from skpref.data.levels import check_labels
from skpref.data.tables import canonical
from skpref.data.weights import class_weights, read_weights, refuse_balanced
from skpref.exceptions import DataError
from skpref.gp.default_kernels import kernel_parameters
from skpref.gp.hyperpriors import classifier_priors
from skpref.gp.posterior import WarmStart, check_inducing_state, check_kept_rows, check_latent
from skpref.gp.sparse.base import SHARED_CONSTRAINTS
from skpref.gp.sparse.class_sums import SummedClassifier, too_few_classes
from skpref.gp.sparse.fit_general import GeneralConfig, Observations, fit_general
from skpref.gp.sparse.fit_softmax import ClassCounts, fit_softmax
from skpref.gp.sparse.policy import POLICY
from skpref.gp.sparse.targets import distinct_targets
from skpref.inference.basis import full_passes_fit
from skpref.likelihoods import PairwiseLogit, PairwiseProbit, Softmax
from skpref.settings import SVI, Adam, Inducing, inference_name

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray
    from sklearn.gaussian_process.kernels import Kernel

    from skpref._typing import Array, Features, IntArray, MatrixLike, Stored
    from skpref.gp.posterior import SparseLatent
    from skpref.gp.sparse.fit_general import GeneralFit
    from skpref.gp.sparse.targets import DistinctTargets
    from skpref.likelihoods import Likelihood

# A class of two is the answer to a comparison whose latent difference is f(x).
_LIKELIHOODS = {"probit": PairwiseProbit, "logit": PairwiseLogit}


class SVGPClassifier(ClassifierMixin, SummedClassifier):
    """Sparse Gaussian process classification for many rows, with two or more classes.

    With two classes, the probability of the second is Phi(f(x)) or 1/(1 + exp(-f(x))), where f has a Gaussian-process
    prior. With more classes, each class has an f, and the probabilities are proportional to exp(f(x)) (softmax); or
    each class has a model of its own against all others. M inducing points represent all rows: computing time grows as
    n M^2. With two classes, or one against all others, kernel and inducing points maximise a lower bound on the
    evidence ([HMG15]_). The softmax model takes the most probable f, and averages the kernels of a search, weighted by
    the likelihood of held-out rows. It can be chosen for two classes, too: it is better if they hardly overlap and
    there are thousands of rows.

    Parameters
    ----------
    kernel : Kernel, default=None
        Covariance of f: a kernel of `skpref.kernels` or scikit-learn. None: an amplitude times a Matern kernel
        (nu = 5/2) with one length-scale per feature (ARD), which start at the standard deviations of the features, so
        features need no scaling. Weak priors keep length-scales similar and the amplitude finite. For two classes, or
        one against the others, of at most 500 different rows, a `Linear` kernel about the mean is added: few rows
        hardly tell a smooth function from a linear one. Features with more than 10 values may enter halfway to their
        ranks, see `Warped`, so that skewed ones need no transformation: for two classes where the evidence is larger;
        for more classes the kernel is the mean of both.
    likelihood : {"probit", "logit"}, default="probit"
        Probability of one of two classes given f. Predictive probabilities of "probit" have a closed form. The softmax
        model does not use it.
    multi_class : {"auto", "softmax", "one_vs_rest"}, default="auto"
        How classes are modelled. "softmax": one model, whose functions share kernel and inducing points.
        "one_vs_rest": for each class a model of two classes; their probabilities are divided by their sum. "auto": with
        two classes one function, with more the softmax, except in cases that it does not support: ``inference="vb"`` or
        "svi", ``optimizer="adam"``, ``learn_inducing=True``, kernel values of more than 2 GiB, or more than 10,000 rows
        in files or on a cluster.
    inducing : int, "auto", Inducing or array-like of shape (M, n_features), default="auto"
        Largest number of inducing points M; there are never more than distinct rows. They are spread out over the rows;
        `Inducing` chooses them otherwise. Or the points. "auto": 2,000 points for the softmax, else 300, or 1,000 where
        300 lose more than a tenth of a nat per row (not in streams, and files of more than 10,000 rows).
    learn_inducing : bool or "auto", default="auto"
        Whether the positions of the inducing points are learnt by the gradient of the bound, which is slow. "auto": if
        they are at most two thirds of the rows, lose more than a thousandth of a nat per row, and there may not be
        more: `inducing` says how many, or a class has less than a tenth of the rows. They stay fixed
        for sparse rows, for kernels other than scikit-learn's `RBF`, `Matern`, `ConstantKernel` and their sums and
        products, and with the softmax model.
    inference : {"auto", "vb", "svi"} or SVI, default="auto"
        "vb": full passes of natural-gradient steps. "svi": steps on mini-batches, see `SVI`; with as many rows as there
        are, or more, full passes as "vb". "auto": "vb" if the rows of kernel values fit in 2 GiB, else "svi"; with the
        softmax the most probable f given all rows.
    optimizer : {"l-bfgs-b", "adam"}, Adam or None, default="l-bfgs-b"
        How kernel and inducing points are learnt. "l-bfgs-b": by maximising the bound on a sample of 10,000 rows, with
        the best posterior for each value; with more than two classes, 20,000 rows are divided among them, at least
        3,000 for each. Half of a sample, or as much as there is, is of the rarer class, and weights correct for this.
        With more than 500 rows, of which each class has a tenth, the search begins with expectation propagation at 400
        and 1,000 rows, and ends there if inducing points lose much. No weight may be below 1 for this.
        "adam": a step after every mini-batch of "svi", which it implies, with a tenth of all rows at most; see `Adam`.
        None: kernel and points are not changed. The kernel of the softmax model is learnt from 3,000 rows, by the
        log-loss on held-out ones.
    max_iter : int, default=200
        Largest number of iterations of each search, and of passes of "vb" and "svi".
    tol : float, default=1e-4
        A search ends when an iteration gains less than ``tol / 10`` nats per row (`tol` with more than two classes).
        "vb" ends when a pass raises the bound by less than ``tol / 100`` of its size, "svi" when the mean bound of a
        pass changes by less than `tol` of its size. The search for the f of the softmax ends when an iteration gains
        less than ``tol / 100`` nats per row.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, which multiply those of the rows; classes that a dict lacks have weight 1. "balanced":
        inversely proportional to the classes' weights in y. Probabilities are then those of such a population, and no
        longer those of new rows. Not for rows in files or on a cluster, and "balanced" not for `partial_fit`.
    window : int, default=None
        Number of the latest rows that `partial_fit` uses. None: all.
    warm_start : bool, default=False
        Whether `fit` starts from the result of the previous fit, if kernel, likelihood, classes and number of features
        are the same.
    verbose : int, default=0
        1 prints a line at every evaluation of the bound: its number of about `max_iter`, value and time left.
    random_state : int, RandomState, Generator or None, default=None
        Seed for inducing points, samples of rows and mini-batches.
    n_jobs : int, default=None
        Number of processes (joblib) for more than two classes; None: 1, -1: all cores. It does not change the result.
        With more than one process, and with the softmax, callbacks are not called after passes.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes.
    likelihood_ : Likelihood
        The likelihood of the fit, `Softmax` or that of two classes.
    kernels_ : list of Kernel
        Kernels with learnt hyper-parameters: one for two classes or the softmax, else one per class.
    posteriors_ : list of SparseLatent
        Posteriors of f, in the same order; that of the softmax holds the functions of all classes.
    kernel_, posterior_ : Kernel, SparseLatent
        The first of each.
    lower_bound_ : float
        Lower bound on the log evidence in nats; the sum over the classes if each has a model of its own. Of the softmax
        it is the log joint density of rows and f, up to a constant, and no bound.
    lower_bounds_ : list of float
        The bound after each pass, of the first class if each has a model of its own; of the softmax the last one only.
    inference_ : {"vb", "svi", "map"}
        The inference that was used; "map", the most probable f, belongs to the softmax.
    n_iter_ : int
        Number of passes, the largest of any class; of the softmax the iterations of the search for f.
    converged_ : bool
        Whether searches and inference met their tolerance.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str
        Names of the features, if X has some.

    See Also
    --------
    SVGPRegressor : Numbers and counts instead of classes.
    GPOrdinalRegressor : Ordered classes.

    References
    ----------
    .. [HMG15] Hensman, Matthews and Ghahramani, "Scalable variational Gaussian process classification", AISTATS 2015.

    Examples
    --------
    >>> import numpy as np
    >>> from skpref import SVGPClassifier
    >>> X = np.random.default_rng(0).uniform(-2, 2, (200, 2))
    >>> y = np.where(np.hypot(X[:, 0], X[:, 1]) < 1.2, "inside", "outside")
    >>> model = SVGPClassifier(inducing=20, random_state=0).fit(X, y)
    >>> model.predict([[0.0, 0.0], [1.8, 1.8]]).tolist()
    ['inside', 'outside']
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = SHARED_CONSTRAINTS | {
        "likelihood": [StrOptions(set(_LIKELIHOODS))],
        "multi_class": [StrOptions({"auto", "softmax", "one_vs_rest"})],
        "inference": [StrOptions({"auto", "vb", "svi"}), SVI],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "n_jobs": [Integral, None],
    }

    def __init__(
        self,
        kernel: Kernel | None = None,
        *,
        likelihood: str = "probit",
        multi_class: str = "auto",
        inducing: int | str | Inducing | MatrixLike = "auto",
        learn_inducing: bool | str = "auto",
        inference: str | SVI = "auto",
        optimizer: str | Adam | None = "l-bfgs-b",
        max_iter: int = 200,
        tol: float = 1e-4,
        class_weight: dict[Any, float] | str | None = None,
        window: int | None = None,
        warm_start: bool = False,
        verbose: int = 0,
        random_state: int | np.random.RandomState | np.random.Generator | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.likelihood = likelihood
        self.multi_class = multi_class
        self.inducing = inducing
        self.learn_inducing = learn_inducing
        self.inference = inference
        self.optimizer = optimizer
        self.max_iter = max_iter
        self.tol = tol
        self.class_weight = class_weight
        self.window = window
        self.warm_start = warm_start
        self.verbose = verbose
        self.random_state = random_state
        self.n_jobs = n_jobs

    # ------------------------------------------------------------- fitting

    @fit_context
    def fit(self, X: MatrixLike | Stored, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn kernels, inducing points and the posterior of f.

        Parameters
        ----------
        X : {array-like, CSR} of shape (n, n_features), str, Path, Dataset or collection
            Rows. Or a Parquet file, a folder of them, or a dataset: all columns but those of y and the weights are
            features, and a million rows at a time are in memory.
            Or a frame or array of Dask: `y` and `sample_weight` are then columns of it by name, or collections with the
            same partitions.
        y : array-like of shape (n,) or str
            Classes; of files the name of their column.
        sample_weight : array-like of shape (n,) or str, default=None
            Weights >= 0 of the log likelihoods; a weight of 2 is the same as two copies of the row. None: 1.

        Returns
        -------
        SVGPClassifier
            The fitted estimator.

        Raises
        ------
        ValueError
            If X is not finite, y has fewer than two classes, a weight is negative, or ``multi_class="softmax"`` meets
            a parameter that it lacks.

        Warns
        -----
        ConvergenceWarning
            If a search or the inference did not meet its tolerance in `max_iter` iterations, or if rounding errors
            stopped a search before. The message says which, and what to try.
        """
        with fit_callbacks(self, X, y, sample_weight), unchanged_on_failure(self):
            if is_elsewhere(X):
                self._fit_source(as_source(X, y, sample_weight))
            else:
                self._rows = self._read(X, y, sample_weight, None)
                self._learn(self._warm_starts("resume") if self.warm_start else None)
            if not self.converged_:
                warn_not_converged(self, self.n_iter_, cut_short=self._cut_short)
        return self

    def partial_fit(
        self, X: MatrixLike, y: ArrayLike, classes: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Update the fit with more rows.

        All rows are kept, or those in `window`. While inducing points are fewer than 300, or `inducing`, all is learnt
        again whenever the number of rows has doubled. Then kernel and points stay, and the inference resumes at the
        earlier posterior.

        Parameters
        ----------
        X : {array-like, CSR} of shape (n, n_features)
            New rows.
        y : array-like of shape (n,)
            Their classes.
        classes : array-like of shape (n_classes,), default=None
            All classes, needed by the first call if its `y` lacks some.
        sample_weight : array-like of shape (n,), default=None
            Their weights >= 0. None: 1.

        Returns
        -------
        SVGPClassifier
            The updated estimator.

        Raises
        ------
        ValueError
            If X is not finite or has another number of features than before, a weight is negative, or `y` has classes
            that are not among `classes_`.
        """
        self._validate_params()
        refuse_balanced(self.class_weight)
        with unchanged_on_failure(self):
            if not hasattr(self, "posteriors_"):
                self._rows = self._read(X, y, sample_weight, classes)
                self._learn(None, streams=True)
            elif self._rows is None:
                refuse_more_rows()
            else:
                if classes is not None and not np.array_equal(np.unique(classes), self.classes_):
                    msg = f"classes must be those of the first call, {self.classes_.tolist()}; got {classes!r:.200}."
                    raise DataError(msg)
                self._add_rows(self._read(X, y, sample_weight, self.classes_, reset=False))
                few = self._has_few_points(POLICY.class_inducing)
                self._learn(None if few else self._warm_starts("skip"), streams=few)
            if not self.converged_:
                warn_not_converged(self, self.n_iter_, cut_short=self._cut_short)
        return self

    def _read(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None, classes: ArrayLike | None, *, reset: bool = True
    ) -> tuple[Features, IntArray, Array]:
        """Return rows of positive weight, numbers of their classes and weights; set `classes_`."""
        rows, targets = validate_data(
            self, X, check_labels(y), accept_sparse="csr", dtype=np.float64, order="C", reset=reset
        )
        check_classification_targets(targets)
        weight = read_weights(class_weights(self.class_weight, targets, sample_weight), rows.shape[0])
        used = weight > 0.0
        present, label = np.unique(targets, return_inverse=True)
        if classes is None:
            self.classes_ = present
        else:
            self.classes_ = np.unique(classes)
            unknown = np.setdiff1d(present, self.classes_)
            if unknown.size:
                msg = (
                    f"y has classes that `classes` lacks: {unknown.tolist()!r:.200}. "
                    "Pass all classes to the first call of partial_fit."
                )
                raise DataError(msg)
            label = np.searchsorted(self.classes_, present)[label]
        n_present = np.unique(label[used]).size
        if self.classes_.size < 2 or (classes is None and n_present < 2):
            raise too_few_classes(n_present)
        return canonical(rows[used]), label[used].astype(np.int64), weight[used]

    def _check_fitted(self) -> None:
        """Raise DataError unless the fitted attributes fit together."""
        check_types(self, likelihood_=PairwiseProbit | PairwiseLogit | Softmax)
        width, n_classes, shared = self.n_features_in_, self.classes_.size, isinstance(self.likelihood_, Softmax)
        n_models = 1 if n_classes == 2 or shared else n_classes
        for name in ("posteriors_", "kernels_", "_states"):
            value = getattr(self, name)
            require(
                isinstance(value, list) and len(value) == n_models,
                self,
                name,
                f"must be {n_models} of {n_classes} classes",
            )
        for latent, kernel, state in zip(self.posteriors_, self.kernels_, self._states, strict=True):
            check_latent(self, latent, kernel, width)
            shape = (n_classes,) if shared else ()
            require(latent.mean.shape[1:] == shape, self, "posteriors_", f"must have means of shape {('M', *shape)}")
            if shared:
                require(state is None, self, "_states", "must be empty")
            else:
                check_inducing_state(self, state, latent)
        if self._rows is not None:  # a fit to files keeps none
            n = check_kept_rows(self, self._rows, width)
            check_indices(self, "_rows", self._rows[1], 0, n_classes, n)

    def _settings(self) -> object:
        """Return the settings that an earlier fit must share for a warm start."""
        ways = self.likelihood, self.multi_class
        return kernel_parameters(self.kernel), self.classes_.tolist(), *ways, self.n_features_in_

    def _warm_starts(self, search: Literal["resume", "skip"]) -> list[WarmStart] | None:
        """Return the ends of the earlier fits, one per posterior, if they were of the same model."""
        if not self._can_resume():
            return None
        return [
            WarmStart(posterior.basis.kernel, self.likelihood_, posterior.basis.points, state, search)
            for posterior, state in zip(self.posteriors_, self._states, strict=True)
        ]

    def _learn(self, warm_starts: list[WarmStart] | None, *, streams: bool = False) -> None:
        """Fit all rows that are kept, one f after the other, from the ends of earlier fits or from scratch."""
        X, label, weight = self._rows
        targets = distinct_targets(X, label.astype(np.float64), weight)
        n = targets.X.shape[0]
        if n > 1:
            warn_constant(targets.X, "all rows")
        by_softmax = self._takes_softmax(n)
        if warm_starts is not None and by_softmax != isinstance(self.likelihood_, Softmax):
            warm_starts = None
        config = self._config(None if streams else n, by_softmax=by_softmax)
        check_memory(1, min(config.sparse.n_inducing, n), whose="rows")
        self.likelihood_: Any = Softmax() if by_softmax else self._initial_likelihood()
        fit = self._fit_softmax if by_softmax else self._fit_each
        self._store(fit(targets, config, warm_starts))
        self._warm_key = digest(self._settings())

    def _takes_softmax(self, n: int) -> bool:
        """Tell whether one model is fitted to all classes of n distinct rows; raise an error if it lacks an option."""
        if self.multi_class == "one_vs_rest" or (self.multi_class == "auto" and self.classes_.size == 2):
            return False
        faults = {
            "inference": inference_name(self.inference) in {"vb", "svi"},
            "optimizer": self._uses_adam(),
            "learn_inducing": self.learn_inducing is True,
        }
        lacks = [f"{name}={getattr(self, name)!r}" for name, is_fault in faults.items() if is_fault]
        if self.multi_class == "auto":
            return not lacks and full_passes_fit(n, min(self._config(by_softmax=True).sparse.n_inducing, n))
        if lacks:
            msg = (
                "multi_class='softmax' finds the most probable functions given all rows, and inducing points stay; got "
                f"{', '.join(lacks)}. Leave that out, or set multi_class='one_vs_rest'."
            )
            raise DataError(msg)
        return True

    def _fit_softmax(
        self, targets: DistinctTargets, config: GeneralConfig, warm_starts: list[WarmStart] | None
    ) -> list[GeneralFit]:
        """Fit one model to all classes, from the end of an earlier fit or from scratch."""
        counts = np.zeros((targets.X.shape[0], self.classes_.size))
        counts[targets.row, targets.y.astype(np.int64)] = targets.weight
        start = None if warm_starts is None else self.posterior_
        search = warm_starts is None or warm_starts[0].search == "resume"
        rng, data = as_generator(self.random_state), ClassCounts(targets.X, counts)
        return [fit_softmax(data, self.kernel, config.sparse, rng, start, search=search, n_jobs=self.n_jobs)]

    def _fit_each(
        self, targets: DistinctTargets, config: GeneralConfig, warm_starts: list[WarmStart] | None
    ) -> list[GeneralFit]:
        """Fit one model to two classes, or one to each of more, from the ends of earlier fits or from scratch."""
        rows = targets.rows
        positive_classes = [1] if self.classes_.size == 2 else list(range(self.classes_.size))
        starts = [None] * len(positive_classes) if warm_starts is None else warm_starts
        rngs = as_generator(self.random_state).spawn(len(positive_classes))
        tasks = [
            delayed(fit_general)(
                Observations(rows, (targets.y == positive).astype(np.float64), targets.weight),
                self.likelihood_,
                self.kernel,
                config,
                rng,
                start,
            )
            for positive, rng, start in zip(positive_classes, rngs, starts, strict=True)
        ]
        return list(Parallel(self.n_jobs)(tasks))

    def _initial_likelihood(self) -> Likelihood:
        """Return the likelihood of a class against the others."""
        return _LIKELIHOODS[self.likelihood]()

    def _config(self, n_distinct: int | None = None, *, by_softmax: bool = False) -> GeneralConfig:
        """Return the settings of searches and inference; None: rows in a stream or in files, which have few points."""
        many = self.classes_.size > 2 or by_softmax
        # Callbacks belong to this process.
        elsewhere = many and effective_n_jobs(self.n_jobs) > 1
        callback = None if elsewhere else iteration_callback(self)
        shared_rows = max(POLICY.least_shared_rows, POLICY.shared_rows // self.classes_.size)
        n_points = POLICY.shared_inducing if by_softmax else POLICY.class_inducing
        inference = inference_name(self.inference)
        few = n_distinct is not None and full_passes_fit(n_distinct, POLICY.ep_rows) and inference != "svi"
        tol = POLICY.shared_tol * self.tol if many else self.tol
        sparse = self._sparse_config(n_points, None, tol, POLICY.ep_rows if few and not by_softmax else 0)
        on_value = None if elsewhere else sparse.on_value
        smoothness, linear_rows = POLICY.class_smoothness, POLICY.linear_rows
        sparse = replace(sparse, on_value=on_value, smoothness=smoothness, linear_rows=linear_rows)
        rows = shared_rows if many else POLICY.sample_rows
        return self._general_config(sparse, inference, callback, classifier_priors, rows)

    def _store(self, fits: list[GeneralFit]) -> None:
        """Set the attributes of a fit."""
        self._states = [fit.end.state for fit in fits]
        self.kernels_ = [fit.end.kernel for fit in fits]
        self.posteriors_ = [fit.latent for fit in fits]
        self.kernel_, self.posterior_ = self.kernels_[0], self.posteriors_[0]
        self.lower_bounds_ = fits[0].bounds
        self.lower_bound_ = sum(fit.bounds[-1] for fit in fits)
        self.inference_ = fits[0].inference
        self.n_iter_ = max(fit.n_iter for fit in fits)
        self.converged_ = all(fit.converged for fit in fits)
        self._cut_short = any(fit.cut_short for fit in fits)

    # ------------------------------------------------------------- predicting

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
            Rows.
        return_std : bool, default=False
            Whether to return posterior standard deviations too.

        Returns
        -------
        mean : ndarray of shape (n,) or (n, n_classes)
            Posterior mean of f: of the second of two classes, or of each class; of the softmax the most probable f.
            The softmax of two classes has two functions: this is the second one minus the first.
        std : ndarray of the same shape
            Only with ``return_std=True``. The softmax of more than two classes has one for all of them, of Laplace's
            approximation: times sqrt(2) it is that of the difference of two classes that are the only ones in question.
            It is large where
            classes are separated with certainty, and `predict_proba` does not use it.
        """
        rows = self._check_new_rows(X)
        if isinstance(self.likelihood_, Softmax):
            mean, variance = self.posterior_.latent(rows, variance=return_std)
            std = np.sqrt(variance)[:, None].repeat(mean.shape[1], axis=1) if return_std else None
            if mean.shape[1] == 2:
                mean, std = mean[:, 1] - mean[:, 0], None if std is None else np.sqrt(2.0) * std[:, 0]
            return mean if std is None else (mean, std)
        moments = [posterior.latent(rows, variance=return_std) for posterior in self.posteriors_]
        mean, variance = (np.column_stack(columns) for columns in zip(*moments, strict=True))
        if len(moments) == 1:
            mean, variance = mean[:, 0], variance[:, 0]
        return (mean, np.sqrt(variance)) if return_std else mean

    @accept_collections
    def predict_proba(self, X: MatrixLike) -> Array:
        """Predict the probabilities of all classes.

        Those of the softmax are at the most probable f: how uncertain f is enters by the kernel, which was chosen by
        the log-loss of such probabilities on rows left out, and by f itself, which goes to 0 far from all rows.

        Parameters
        ----------
        X : {array-like, CSR} of shape (n, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n, n_classes)
            Probabilities in the order of `classes_`; rows sum to 1.
        """
        rows = self._check_new_rows(X)
        if isinstance(self.likelihood_, Softmax):
            return self.likelihood_.predict(self.posterior_.latent(rows, variance=False)[0])
        p = np.column_stack([self.likelihood_.predict(*posterior.latent(rows)) for posterior in self.posteriors_])
        if p.shape[1] == 1:
            return np.column_stack([1.0 - p[:, 0], p[:, 0]])
        total = p.sum(axis=1, keepdims=True)
        # Where the probabilities of all classes underflow they are equal.
        return np.divide(p, total, out=np.full_like(p, 1.0 / p.shape[1]), where=total > 0.0)

    @accept_collections
    def predict(self, X: MatrixLike) -> NDArray[Any]:
        """Predict the most probable class of every row.

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

    score = accept_collections(ClassifierMixin.score)

    def _latents(self) -> list[SparseLatent]:
        """Return the posteriors of the functions."""
        return self.posteriors_
