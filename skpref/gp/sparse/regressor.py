"""`SVGPRegressor`: Gaussian-process regression for many rows ([T09], [HFL13]; docs/maths section 11)."""

from __future__ import annotations

from functools import partial
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, overload

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from skpref._callbacks import fit_callbacks, fit_context
from skpref._checks import check_features, check_positive, check_types, require
from skpref._estimator import (
    check_memory,
    check_n_samples,
    digest,
    iteration_callback,
    unchanged_on_failure,
    warn_constant,
    warn_not_converged,
)
from skpref._math.limits import MOST_JOINT
from skpref._math.linalg import cholesky
from skpref._math.random import as_generator
from skpref._math.threads import limit_blas_threads
from skpref._sources import accept_collections, as_source, is_elsewhere, refuse_more_rows
from skpref._validation import validate_data
from skpref.data.tables import canonical
from skpref.data.weights import read_weights
from skpref.exceptions import DataError
from skpref.gp.default_kernels import kernel_parameters
from skpref.gp.posterior import SparseLatent, WarmStart, check_inducing_state, check_kept_rows, check_latent
from skpref.gp.sparse.base import SHARED_CONSTRAINTS
from skpref.gp.sparse.evidence import bound
from skpref.gp.sparse.fit import fit_collapsed
from skpref.gp.sparse.fit_general import Observations, fit_general
from skpref.gp.sparse.policy import POLICY
from skpref.gp.sparse.scoring import ScoredCounts
from skpref.gp.sparse.sums import SummedRegressor
from skpref.gp.sparse.targets import (
    TargetScale,
    check_counts,
    distinct_targets,
    draw_noise,
    function_variance,
    gaussian_rows,
    initial_likelihood,
    kernel_priors,
    noise_variance,
    read_exposure,
    scale_by_exposure,
    standardised,
    target_scale,
    variance_rule,
    warn_of_repeats,
    warn_of_spread,
)
from skpref.inference.basis import InducingBasis
from skpref.inference.collapsed import Moments
from skpref.likelihoods import Gaussian, Likelihood, Poisson, StudentT
from skpref.settings import SVI, Adam, Inducing, inference_name

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
    from sklearn.gaussian_process.kernels import Kernel

    from skpref._typing import Array, Features, MatrixLike, Stored
    from skpref.gp.sparse.targets import DistinctTargets


class SVGPRegressor(ScoredCounts, SummedRegressor):
    """Sparse Gaussian process regression for many rows: numbers, counts, data with outliers.

    f has a Gaussian-process prior, and y is f plus noise. M inducing points represent all rows: computing time grows as
    n M^2, and memory does not depend on n. Kernel, noise and inducing points maximise a lower bound on the evidence
    ([T09]_), which equals the evidence for M = n. Targets are standardised inside, and predictions are in units of y.

    Parameters
    ----------
    kernel : Kernel, default=None
        Covariance of f, in variances of the targets: a kernel of `skpref.kernels` or scikit-learn. None: an amplitude
        times a Matern kernel of smoothness 3/2 with one length-scale per feature (ARD). With Gaussian noise the
        evidence may choose a squared exponential instead, and add a linear part. Skewed features may enter halfway to
        their ranks, see `Warped`, where that has the larger evidence. Length-scales start at the standard
        deviations of the features, so features need no scaling. Weak priors keep most of them similar, learnt noise
        from vanishing, and log rates of counts from varying without limit. A `WhiteKernel` that is added says again
        what the noise says: it is left out where Gaussian noise is learnt.
    inducing : int, "auto", Inducing or array-like of shape (M, n_features), default="auto"
        Largest number of inducing points M; there are never more than distinct rows. They are spread out over the rows;
        `Inducing` chooses them otherwise. Or the points. "auto": all of up to 1,500 distinct rows; of more rows 500, or
        1,500 where 500 lose more than .02 nats per row. `partial_fit`, likelihoods other than the Gaussian, and more
        than a million rows have 500.
    learn_inducing : bool or "auto", default="auto"
        Whether the positions of the inducing points are learnt by the gradient of the bound, which is slow. "auto": if
        `inducing` says how many they may be, they are at most two thirds of the rows, and lose more than a thousandth
        of a nat per row; with ``inducing="auto"`` more points are better and faster, but in streams and with other
        likelihoods they are moved, too. They stay fixed for sparse rows and for kernels other than `Linear`,
        scikit-learn's `RBF`, `Matern`, `ConstantKernel` and their sums and products.
    likelihood : {"gaussian", "student-t", "poisson", "negative-binomial"} or Likelihood, default="gaussian"
        Distribution of y given f. "student-t": noise with heavy tails (4 degrees of freedom), robust to outliers.
        "poisson": counts with mean proportional to exp(f). "negative-binomial": counts that vary more than that. With a
        `Likelihood` of `skpref.likelihoods`, y is not standardised.
    noise : "learn" or float, default="learn"
        Standard deviation of Gaussian noise, in units of y.
    inference : {"auto", "collapsed", "vb", "svi"} or SVI, default="auto"
        "collapsed": closed form, for Gaussian noise. "vb": full passes of natural-gradient steps. "svi": steps on
        mini-batches, see `SVI`; all rows in one give full passes, as "vb". "auto": "collapsed" for Gaussian noise, else
        "vb" if the rows of kernel values fit in 2 GiB, else "svi".
    optimizer : {"l-bfgs-b", "adam"}, Adam or None, default="l-bfgs-b"
        How hyper-parameters and points are learnt. "l-bfgs-b": by maximising the bound, with the best posterior for
        each value. "adam": a step after every mini-batch of "svi", which it implies, with a tenth of all rows at most;
        full passes follow at the end; see `Adam`. For Gaussian noise "l-bfgs-b" is much better. None: the kernel is not
        changed, and the noise is 0.3 standard deviations of the targets unless `noise` is a number.
    max_iter : int, default=200
        Largest number of iterations of each search, and of passes of "vb" and "svi".
    tol : float, default=1e-4
        A search ends when an iteration gains less than ``tol / 10`` nats per row: 0.1 nats in all for 10,000 rows, too
        little to prefer one model to another. "vb" ends when a pass raises the bound by less than ``tol / 100`` of its
        size, "svi" when the mean bound of a pass changes by less than `tol` of its size.
    window : int, default=None
        Number of the latest rows that `partial_fit` uses. None: all.
    warm_start : bool, default=False
        Whether `fit` starts from the result of the previous fit, if kernel, likelihood and number of features are the
        same.
    verbose : int, default=0
        1 prints a line at every evaluation of the bound: its number of about `max_iter`, value and time left.
    random_state : int, RandomState, Generator or None, default=None
        Seed for inducing points, samples of rows and mini-batches.

    Attributes
    ----------
    kernel_ : Kernel
        Kernel with learnt hyper-parameters.
    likelihood_ : Likelihood
        Likelihood with learnt parameters, of standardised targets ("poisson" and `Likelihood`: of y).
    noise_ : float or None
        Standard deviation of the noise ("student-t": its scale), in units of y; None for other likelihoods.
    inducing_points_ : {ndarray, CSR} of shape (M, n_features)
        Inducing points.
    posterior_ : SparseLatent
        Posterior of f, of standardised targets.
    y_mean_, y_scale_ : float
        Mean and standard deviation of the targets; 0 and 1 where they are not standardised.
    exposure_scale_ : float
        Exposure that the rate of `likelihood_` is of: the mean exposure of the first fit, 1 without exposures.
    inference_ : {"collapsed", "vb", "svi"}
        The inference that was used.
    lower_bound_ : float
        Lower bound on the log evidence of y, in nats.
    lower_bounds_ : list of float
        The bound at every evaluation (of a sample of the rows where the search used one, and with the log density of
        the priors of the default kernel), or after every pass.
    n_iter_ : int
        Iterations of the longest search, or number of passes; at most `max_iter`.
    converged_ : bool
        Whether searches and inference met their tolerance.
    n_samples_seen_ : float
        Sum of the weights of the rows in the posterior ("poisson": times exposures over `exposure_scale_`).
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str
        Names of the features, if X has some.

    See Also
    --------
    SVGPClassifier : Classes instead of numbers.
    GPOrdinalRegressor : Ordered levels.

    Notes
    -----
    A fit has five stages. (1) Hyper-parameters by the exact evidence of 400 rows; for the default kernel from two
    starts. (2) The same from there with 1,500 rows. Inducing points are then chosen by the length-scales. Where 500 of
    them lose much, hyper-parameters stay, and the posterior has 1,500: the bound would explain what is lost by noise.
    (3) Elsewhere hyper-parameters by the bound of at most 10,000 rows; up to 2,000 rows from a cold start as well. (4)
    Inducing points and hyper-parameters together, if `learn_inducing` allows. (5) From 10,000 to a million rows in
    memory, up to 10 more iterations on all rows; in files, Gaussian noise is learnt from all rows, parameters of other
    likelihoods from the 10,000. The posterior always uses all rows. Equal rows count as one row with their mean target.
    Other likelihoods, sparse rows and kernels whose points stay have neither stage 2 nor more points.

    References
    ----------
    .. [T09] Titsias, "Variational learning of inducing variables in sparse Gaussian processes", AISTATS 2009.
    .. [HFL13] Hensman, Fusi and Lawrence, "Gaussian processes for big data", UAI 2013.

    Examples
    --------
    >>> import numpy as np
    >>> from skpref import SVGPRegressor
    >>> X = np.linspace(0, 6, 200)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).standard_normal(200)
    >>> model = SVGPRegressor(inducing=20, random_state=0).fit(X, y)
    >>> mean, std = model.predict([[1.5]], return_std=True)
    >>> round(float(mean[0]), 1), round(float(std[0]), 1), round(model.noise_, 1)
    (1.0, 0.1, 0.1)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = SHARED_CONSTRAINTS | {
        "likelihood": [StrOptions({"gaussian", "student-t", "poisson", "negative-binomial"}), Likelihood],
        "noise": [StrOptions({"learn"}), Interval(Real, 0.0, None, closed="neither")],
        "inference": [StrOptions({"auto", "collapsed", "vb", "svi"}), SVI],
    }

    def __init__(
        self,
        kernel: Kernel | None = None,
        *,
        inducing: int | str | Inducing | MatrixLike = "auto",
        learn_inducing: bool | str = "auto",
        likelihood: str | Likelihood = "gaussian",
        noise: float | str = "learn",
        inference: str | SVI = "auto",
        optimizer: str | Adam | None = "l-bfgs-b",
        max_iter: int = 200,
        tol: float = 1e-4,
        window: int | None = None,
        warm_start: bool = False,
        verbose: int = 0,
        random_state: int | np.random.RandomState | np.random.Generator | None = None,
    ) -> None:
        self.kernel = kernel
        self.inducing = inducing
        self.learn_inducing = learn_inducing
        self.likelihood = likelihood
        self.noise = noise
        self.inference = inference
        self.optimizer = optimizer
        self.max_iter = max_iter
        self.tol = tol
        self.window = window
        self.warm_start = warm_start
        self.verbose = verbose
        self.random_state = random_state

    # ------------------------------------------------------------- fitting

    @fit_context
    def fit(
        self,
        X: MatrixLike | Stored,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        exposure: ArrayLike | None = None,
    ) -> Self:
        """Learn kernel, noise, inducing points and the posterior of f.

        Parameters
        ----------
        X : {array-like, CSR} of shape (n, n_features), str, Path, Dataset or collection
            Rows. Or a Parquet file, a folder of them, a dataset, or a frame or array of Dask: all columns but those of
            y and the weights are features. Not with exposures, a window, "svi" and "adam".
        y : array-like of shape (n,) or str
            Targets; of files the name of their column, of Dask that or a collection with the same partitions.
        sample_weight : array-like of shape (n,) or str, default=None
            Weights >= 0 of the log likelihoods; a weight of 2 is the same as two copies of the row. None: 1.
        exposure : array-like of shape (n,), default=None
            Time, area or population > 0 of a count: its mean is this times the rate that f describes. None: 1.

        Returns
        -------
        SVGPRegressor
            The fitted estimator.

        Raises
        ------
        ValueError
            If X or y is not finite, a weight is negative, or all of them are zero.

        Warns
        -----
        ConvergenceWarning
            If a search or the inference did not meet its tolerance in `max_iter` iterations, or if rounding errors
            stopped a search before. The message says which, and what to try.
        """
        with fit_callbacks(self, X, y, sample_weight), unchanged_on_failure(self):
            if is_elsewhere(X):
                self._fit_source(as_source(X, y, sample_weight), exposure)
            else:
                self._rows = self._read(X, y, sample_weight, exposure)
                self._learn(self._warm_start("resume") if self.warm_start else None)
            if not self.converged_:
                warn_not_converged(self, self.n_iter_, cut_short=self._cut_short)
        return self

    def partial_fit(
        self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None = None, exposure: ArrayLike | None = None
    ) -> Self:
        """Update the fit with more rows.

        Rows are added to the sums that determine noise and posterior, while kernel and points stay. Up to 10,000 rows
        are kept too, and kernel, noise and points are learnt from all of them again whenever their number has doubled
        since. After that they are dropped, so memory does not grow. With `window`, the latest rows are kept instead,
        and only they count.

        Likelihoods other than the Gaussian have no such sums: all rows (or those in the window) are kept. While
        inducing points are fewer than 500, or `inducing`, all is learnt again whenever the number of rows has doubled.
        Then the kernel stays, and the inference resumes at the earlier posterior.

        Parameters
        ----------
        X : {array-like, CSR} of shape (n, n_features)
            New rows.
        y : array-like of shape (n,)
            Their targets.
        sample_weight : array-like of shape (n,), default=None
            Their weights >= 0. None: 1.
        exposure : array-like of shape (n,), default=None
            Their exposures > 0, as in `fit`. None: 1.

        Returns
        -------
        SVGPRegressor
            The updated estimator.

        Raises
        ------
        ValueError
            If X or y is not finite, X has another number of features than before, a weight is negative, or all of
            them are zero.
        """
        self._validate_params()
        with unchanged_on_failure(self):
            first = not hasattr(self, "posterior_")
            if not first and self._rows is None and self._state is not None:
                refuse_more_rows()
            new_rows = self._read(X, y, sample_weight, exposure, reset=first)
            if first:
                self._rows = self._cut_window(new_rows)
            elif self._rows is None:
                return self._update_posterior(new_rows, self._sums)
            else:
                self._add_rows(new_rows)
            rows, collapses = self._rows, self._collapses()
            few = rows[1].shape[0] <= POLICY.sample_rows
            if not first:
                self._rows_until_search -= new_rows[1].shape[0]
            if first or not collapses or (few and self._rows_until_search <= 0):
                few_points = first or not self._by_evidence  # a stream after `fit` has the points of `fit`
                anew = first or (not collapses and self._has_few_points(POLICY.inducing))
                self._learn(None if anew else self._warm_start("compare" if collapses else "skip"), streams=few_points)
                if not collapses and not self.converged_:
                    warn_not_converged(self, self.n_iter_, cut_short=self._cut_short)
                return self
            has_sums = self.window is None and self._sums is not None
            if self.window is None and not few:
                self._rows = None
            return self._update_posterior(new_rows if has_sums else rows, self._sums if has_sums else None)

    def _read(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None, exposure: ArrayLike | None, *, reset: bool = True
    ) -> tuple[Any, ...]:
        """Return rows of positive weight, targets, weights, and offsets of f if there are any."""
        rows, targets = validate_data(
            self, X, y, accept_sparse="csr", dtype=np.float64, order="C", y_numeric=True, reset=reset
        )
        targets = np.asarray(targets, dtype=np.float64)
        weight = read_weights(sample_weight, rows.shape[0])
        used = weight > 0.0
        if not np.any(used):
            msg = "at least 1 row of positive weight is required; every sample_weight is zero."
            raise DataError(msg)
        check_counts(self.likelihood, targets)
        exposures = read_exposure(exposure, rows.shape[0], self.likelihood)
        if reset:
            self.exposure_scale_ = 1.0 if exposures is None else float(exposures[used].mean())
        columns: tuple[Array, ...] = (targets, weight)
        if exposures is not None or self.exposure_scale_ != 1.0:
            relative = (np.ones_like(targets) if exposures is None else exposures) / self.exposure_scale_
            columns = scale_by_exposure(targets, weight, relative, self.likelihood)
        # A copy: the rows are kept, and the caller may change the table later.
        return canonical(rows[used]), *(column[used] for column in columns)

    def _check_fitted(self) -> None:
        """Raise DataError unless the fitted attributes fit together."""
        width = self.n_features_in_
        check_latent(self, self.posterior_, self.kernel_, width)
        check_types(self, posterior_=SparseLatent, likelihood_=Likelihood, y_mean_=float)
        check_types(self, _sums=Moments | None, _rows_until_search=int, _by_evidence=bool)
        require(np.isfinite(self.y_mean_), self, "y_mean_", "must be finite")
        size = self.posterior_.basis.points.shape[0]
        same = check_features(self, "inducing_points_", self.inducing_points_, size) == width
        require(same, self, "inducing_points_", f"must have {width} columns")
        check_positive(self, "exposure_scale_", "y_scale_", *(["noise_"] if self.inference_ == "collapsed" else []))
        if self._rows is not None:
            check_kept_rows(self, self._rows, width, may_have_offsets=True)
        sums = self._sums
        sufficient = sums is not None or self._rows is not None or self._state is not None
        require(sufficient, self, "_rows", "and _sums are both missing")
        require(sums is None or sums.gram.shape[0] == size, self, "_sums", f"must be of {size} inducing points")
        if self._state is not None:
            check_inducing_state(self, self._state, self.posterior_)

    def _settings(self) -> object:
        """Return the settings that an earlier fit must share for a warm start."""
        return kernel_parameters(self.kernel), self.n_features_in_, repr(self.likelihood), self._collapses()

    def _warm_start(self, search: Literal["resume", "compare", "skip"]) -> WarmStart | None:
        """Return the end of the earlier fit, if it was of the same model."""
        if not self._can_resume():
            return None
        return WarmStart(self.kernel_, self.likelihood_, self.inducing_points_, self._state, search)

    def _learn(self, start: WarmStart | None, *, streams: bool = False) -> None:
        """Fit all rows that are kept, from the end of an earlier fit or from scratch."""
        targets = distinct_targets(*self._rows)
        n = targets.X.shape[0]
        if n > 1:
            warn_constant(targets.X, "all rows")
        check_memory(1, min(self._max_points(n), n), whose="rows")
        rng = as_generator(self.random_state)
        scale = target_scale(targets) if self._is_standardised() else TargetScale(0.0, 1.0)
        if self._collapses():
            warn_of_repeats(targets)
            rows = gaussian_rows(targets, scale)
            config = self._config(scale, n, streams=streams)
            self._store(fit_collapsed(rows, self._prior_kernel(), config, rng, start), scale)
        else:
            if start is not None and start.search == "skip":
                # The posterior to resume at is in these units.
                scale = scale._replace(mean=self.y_mean_, deviation=self.y_scale_)
            self._learn_general(targets, scale, rng, start)
        self._sums = None
        self._rows_until_search: int = self._rows[1].shape[0]
        self._warm_key = digest(self._settings())

    def _learn_general(
        self, targets: DistinctTargets, scale: TargetScale, rng: np.random.Generator, start: WarmStart | None
    ) -> None:
        """Fit by natural-gradient steps, for any likelihood and for mini-batches."""
        config = self._config(scale, targets.X.shape[0])
        y = standardised(targets, scale)
        data = Observations(targets.rows, y, targets.weight, targets.offset)
        searches = start is None or start.search != "skip"
        if self.likelihood == "gaussian" and self.optimizer == "l-bfgs-b" and searches:
            # For Gaussian noise the collapsed bound, at the optimal posterior, is the best guide for the search.
            sample = gaussian_rows(targets, scale).sample(POLICY.sample_rows, rng)
            end = fit_collapsed(sample, self._prior_kernel(), config, rng, start).parameters
            start = WarmStart(end.kernel, Gaussian(1.0 / end.noise), end.points, search="skip")
        exposure = data.weight if data.offset is None else data.weight * np.exp(data.offset)
        mean = float(data.weight @ data.y) / float(exposure.sum())
        likelihood = initial_likelihood(self.likelihood, config.noise, mean, rounding=config.rounding)
        inference = "auto" if self.inference == "collapsed" else inference_name(self.inference)
        general = self._general_config(config, inference, iteration_callback(self), kernel_priors(likelihood))
        result = fit_general(data, likelihood, self._prior_kernel(), general, rng, start)
        self._store_general(result, scale, float(targets.weight.sum()))
        if searches and isinstance(self.likelihood_, Poisson):
            warn_of_spread(self.likelihood_, self.posterior_, data)

    # ------------------------------------------------------------- predicting

    @overload
    def predict(
        self,
        X: MatrixLike,
        return_std: Literal[False] = False,
        return_cov: Literal[False] = False,
        *,
        noise: bool = ...,
        exposure: ArrayLike | None = ...,
    ) -> Array: ...
    @overload
    def predict(
        self,
        X: MatrixLike,
        return_std: Literal[True],
        return_cov: Literal[False] = False,
        *,
        noise: bool = ...,
        exposure: ArrayLike | None = ...,
    ) -> tuple[Array, Array]: ...
    @overload
    def predict(
        self,
        X: MatrixLike,
        return_std: bool = False,
        *,
        return_cov: Literal[True],
        noise: bool = ...,
        exposure: ArrayLike | None = ...,
    ) -> tuple[Array, Array]: ...
    @overload
    def predict(
        self,
        X: MatrixLike,
        return_std: bool = False,
        return_cov: bool = False,
        *,
        noise: bool = ...,
        exposure: ArrayLike | None = ...,
    ) -> Array | tuple[Array, Array]: ...
    @accept_collections
    def predict(
        self,
        X: MatrixLike,
        return_std: bool = False,
        return_cov: bool = False,
        *,
        noise: bool = True,
        exposure: ArrayLike | None = None,
    ) -> Array | tuple[Array, Array]:
        """Predict targets.

        Parameters
        ----------
        X : {array-like, CSR} of shape (n, n_features)
            Rows.
        return_std : bool, default=False
            Whether to return standard deviations too.
        return_cov : bool, default=False
            Whether to return the covariance too, of at most 10,000 rows.
        noise : bool, default=True
            Whether they are those of a new y, as in scikit-learn's `BayesianRidge`, or without noise: of f, or of the
            rate of counts.
        exposure : array-like of shape (n,), default=None
            Exposures > 0 of the counts, as in `fit`. None: 1.

        Returns
        -------
        mean : ndarray of shape (n,)
            Expected targets, in units of y.
        std or cov : ndarray of shape (n,) or (n, n)
            Only with ``return_std=True`` or ``return_cov=True``.

        Raises
        ------
        ValueError
            If both are asked for, or a covariance of too many rows.
        """
        if return_std and return_cov:
            msg = "return_std and return_cov cannot both be True: ask for one of them."
            raise DataError(msg)
        rows = self._check_new_rows(X)
        exposures = read_exposure(exposure, rows.shape[0], self.likelihood)
        if return_cov:
            mean, covariance = self._joint(rows)
            covariance.flat[:: rows.shape[0] + 1] += noise_variance(self.likelihood_) if noise else 0.0
            return self._to_units_of_y(mean), covariance * self.y_scale_**2
        linear = self._is_linear()
        mean, variance = self.posterior_.latent(rows, variance=return_std or not linear)
        if exposures is not None or self.exposure_scale_ != 1.0:
            mean = mean + np.log((1.0 if exposures is None else exposures) / self.exposure_scale_)
        predicted = self._to_units_of_y(mean if linear else self.likelihood_.predict(mean, variance))
        if not return_std:
            return predicted
        if not linear:
            spread = variance_rule(self.likelihood_) if noise else partial(function_variance, self.likelihood_)
            return predicted, np.sqrt(spread(mean, variance))
        noise_deviation = np.sqrt(noise_variance(self.likelihood_)) if noise else 0.0
        return predicted, np.hypot(np.sqrt(variance), noise_deviation) * self.y_scale_

    @overload
    def predict_latent(self, X: MatrixLike, return_std: Literal[False] = False) -> Array: ...
    @overload
    def predict_latent(self, X: MatrixLike, return_std: Literal[True]) -> tuple[Array, Array]: ...
    @overload
    def predict_latent(self, X: MatrixLike, return_std: bool) -> Array | tuple[Array, Array]: ...
    def predict_latent(self, X: MatrixLike, return_std: bool = False) -> Array | tuple[Array, Array]:
        """Predict f on the scale of the likelihood: standardised targets, or the log of counts over `likelihood_.rate`.

        Parameters
        ----------
        X : {array-like, CSR} of shape (n, n_features)
            Rows.
        return_std : bool, default=False
            Whether to return posterior standard deviations too.

        Returns
        -------
        mean : ndarray of shape (n,)
            Posterior mean of f.
        std : ndarray of shape (n,)
            Only with ``return_std=True``.
        """
        mean, variance = self.posterior_.latent(self._check_new_rows(X), variance=return_std)
        return (mean, np.sqrt(variance)) if return_std else mean

    def sample_y(
        self,
        X: MatrixLike,
        n_samples: int = 1,
        random_state: int | np.random.RandomState | np.random.Generator | None = None,
        *,
        noise: bool = True,
    ) -> Array:
        """Draw joint samples from the posterior.

        Parameters
        ----------
        X : {array-like, CSR} of shape (n, n_features)
            Rows, at most 10,000.
        n_samples : int, default=1
            Number of samples.
        random_state : int, RandomState, Generator or None, default=None
            Seed of the samples.
        noise : bool, default=True
            Whether to sample a new y, or f without noise.

        Returns
        -------
        ndarray of shape (n, n_samples)
            Samples, in units of y.
        """
        check_n_samples(n_samples)
        mean, covariance = self._joint(self._check_new_rows(X))
        rng = as_generator(random_state)
        f = mean[:, None] + cholesky(covariance) @ rng.standard_normal((mean.size, n_samples))
        return self._to_units_of_y(f + draw_noise(self.likelihood_, f.shape, rng) if noise else f)

    def _is_linear(self) -> bool:
        """Tell whether y is f plus noise."""
        return isinstance(self.likelihood_, Gaussian | StudentT)

    def _joint(self, rows: Features) -> tuple[Array, Array]:
        """Return mean and covariance of the joint posterior of f."""
        if not self._is_linear():
            name = type(self.likelihood_).__name__
            msg = f"covariances and samples need likelihood='gaussian' or 'student-t'; got {name}: use predict_latent."
            raise DataError(msg)
        if rows.shape[0] > MOST_JOINT:
            msg = (
                f"X must have at most {MOST_JOINT} rows for covariances and samples; got {rows.shape[0]}. "
                "Use return_std=True, or parts of X."
            )
            raise DataError(msg)
        return self.posterior_.joint(rows)

    def _to_units_of_y(self, mean: Array) -> Array:
        """Undo the standardisation."""
        return self.y_mean_ + self.y_scale_ * mean

    # ------------------------------------------------------------- evidence

    def log_marginal_likelihood(
        self, theta: ArrayLike | None = None, eval_gradient: bool = False
    ) -> float | tuple[float, Array]:
        """Return the lower bound on the log evidence at given hyper-parameters; the evidence itself for M = n.

        Parameters
        ----------
        theta : array-like of shape (n_theta,), default=None
            The kernel's theta, then the log of the noise's standard deviation in units of y. None: the learnt values.
        eval_gradient : bool, default=False
            Whether to return the gradient in theta too.

        Returns
        -------
        value : float
            Bound in nats, with the inducing points of the fit.
        gradient : ndarray of shape (n_theta,)
            Only with ``eval_gradient=True``.

        Raises
        ------
        ValueError
            If theta has another length or is not finite, or `partial_fit` has dropped the rows.
        """
        check_is_fitted(self)
        if theta is None and not eval_gradient:
            return self.lower_bound_
        if self.inference_ != "collapsed":
            msg = (
                "log_marginal_likelihood at other hyper-parameters, or with a gradient, needs inference='collapsed'; "
                f"got {self.inference_!r}."
            )
            raise DataError(msg)
        learnt_theta = np.append(self.kernel_.theta, np.log(self.noise_ or 0.0))
        theta = learnt_theta if theta is None else np.asarray(theta, dtype=np.float64)
        if theta.shape != learnt_theta.shape or not np.all(np.isfinite(theta)):
            msg = f"theta must be {learnt_theta.size} finite numbers (kernel, then log noise); got {theta!r:.200}."
            raise DataError(msg)
        if self._rows is None:
            msg = (
                "log_marginal_likelihood with theta needs the training rows, which partial_fit drops after 10,000: "
                "call fit, or leave theta out."
            )
            raise DataError(msg)
        scale = TargetScale(self.y_mean_, self.y_scale_)
        rows = gaussian_rows(distinct_targets(*self._rows), scale)
        kernel = self.kernel_.clone_with_theta(theta[:-1])
        noise = float(np.exp(2.0 * (theta[-1] - np.log(scale.deviation))))
        with limit_blas_threads(self.inducing_points_.shape[0]):
            basis = InducingBasis.from_points(kernel, self.inducing_points_)
            result = bound(rows, basis, noise, gradient=eval_gradient)
        value = result.value - result.moments.weight * float(np.log(scale.deviation))
        return (value, np.append(result.theta, 2.0 * result.log_noise)) if eval_gradient else value

    def _latents(self) -> list[SparseLatent]:
        """Return the posterior of the function."""
        return [self.posterior_]
