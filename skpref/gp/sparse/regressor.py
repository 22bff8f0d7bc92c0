"""`SVGPRegressor`: Gaussian-process regression for many rows ([T09], [HFL13]; docs/maths section 11)."""

from __future__ import annotations

from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, _fit_context
from sklearn.gaussian_process.kernels import Kernel
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from skpref._callbacks import CallbackMixin, fit_callbacks
from skpref._estimator import (
    check_memory,
    check_n_samples,
    digest,
    on_iteration,
    unchanged_on_failure,
    warn_constant,
    warn_not_converged,
)
from skpref._math.linalg import cholesky
from skpref._math.random import as_generator
from skpref._math.threads import limit_blas_threads
from skpref.data.tables import canonical, stack
from skpref.data.weights import read_weights
from skpref.exceptions import DataError
from skpref.gp.default_kernels import kernel_parameters
from skpref.gp.relevance import prior_relevance
from skpref.gp.sparse.evidence import bound, moments
from skpref.gp.sparse.fit import SparseConfig, SparseStart, fit_collapsed, follow
from skpref.gp.sparse.fit_general import GeneralConfig, GeneralStart, Observations, fit_general
from skpref.gp.sparse.targets import (
    Unit,
    cells_of,
    check_counts,
    draw_noise,
    gaussian_rows,
    noise_of,
    start_likelihood,
    unit_of,
)
from skpref.inference.basis import InducingBasis
from skpref.inference.svi import Schedule
from skpref.likelihoods import Gaussian, Likelihood, StudentT

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike
    from sklearn.utils import Tags

    from skpref._typing import Array, Features
    from skpref.gp.sparse.evidence import GaussianRows
    from skpref.gp.sparse.fit import SparseFit
    from skpref.gp.sparse.targets import Cells
    from skpref.inference.collapsed import Moments

_REMEMBERED = 10_000  # rows of a stream from which kernel, noise and points are learnt
_MOST_JOINT = 10_000  # rows of a joint posterior
_POINTS, _MANY_POINTS, _FEW_ROWS = 500, 1000, 2000  # of n_inducing="auto"
_STANDARDISED = ("gaussian", "student-t")


class SVGPRegressor(RegressorMixin, CallbackMixin, BaseEstimator):
    """Gaussian-process regression through inducing points: any number of rows, time n M^2, flat memory.

    f has a Gaussian-process prior, y is f plus noise. M inducing points stand for all rows; kernel, noise and the
    points themselves are learnt by the gradient of a lower bound on the evidence ([T09]), which for M = n is the
    evidence itself. Targets are standardised inside and predictions mapped back.

    Parameters
    ----------
    kernel : Kernel, default=None
        Covariance of f in variances of the targets: one of `skpref.kernels` or of scikit-learn. None stands for an
        amplitude times the squared exponential with a length-scale a feature (ARD), which starts at the deviations of
        the features, so these need no standardisation.
    n_inducing : int or "auto", default="auto"
        Inducing points M at most; never more than there are distinct rows. "auto": 500; 1,000 where there are at most
        2,000 distinct rows, which a pass is cheap for and the exact Gaussian process would still be fitted to.
    inducing : {"kmeans++", "kmeans", "random", "variance"} or array-like of shape (M, n_features), default="kmeans++"
        Where they start.
    learn_inducing : bool or "auto", default="auto"
        Whether they are moved by the gradient of the bound. "auto": where they leave more than a thousandth of a nat
        a row open, are at most two thirds of the rows, and are not given. Dense rows and kernels made of scikit-learn's
        `RBF`, `Matern` and `ConstantKernel` only; otherwise they stay.
    likelihood : {"gaussian", "student-t", "poisson"} or Likelihood, default="gaussian"
        How y comes from f. "student-t": noise with heavy tails (4 degrees of freedom), so that outliers hardly matter;
        "poisson": counts, of mean rate exp(f). Others of `skpref.likelihoods` see y as it is.
    noise : "learn" or float, default="learn"
        Standard deviation of Gaussian noise, in units of y.
    inference : {"auto", "collapsed", "vb", "svi"}, default="auto"
        "collapsed": q at its optimum, Gaussian noise only; "vb": full passes of natural-gradient steps; "svi": steps on
        mini-batches. "auto": "collapsed" for Gaussian noise; else "vb" while its rows fit in 2 GiB, else "svi".
    optimizer : {"l-bfgs-b", "adam"} or None, default="l-bfgs-b"
        How kernel, noise and points are learnt. "l-bfgs-b": by the bound with q at its optimum. "adam": a step after
        every step of "svi", for which it stands. None keeps the kernel's, with noise 0.3 standard deviations of the
        targets unless `noise` says otherwise.
    batch_size : int, default=1000
        Rows a step of "svi".
    learning_rate : float, default=0.01
        Step of "adam".
    delay, forgetting_rate : float, default=1.0, 0.9
        Step size (t + delay)^-forgetting_rate of "svi".
    max_iter : int, default=200
        Iterations of each search, passes of "vb" and "svi" at most.
    tol : float, default=1e-4
        A search ends when an iteration gains less than ``tol / 10`` nats a row (or after `max_iter` iterations): a
        tenth of a nat in all for 10,000 rows, which no comparison of models can tell apart.
        "vb" and "svi" end as in `GPPLRegressor`.
    window : int or None, default=None
        How many of the latest rows `partial_fit` counts. None: all, none is ever forgotten.
    warm_start : bool, default=False
        Whether `fit` starts where the earlier fit ended, for the same kernel and number of features.
    verbose : int, default=0
        Whether to print a line an evaluation of the bound.
    random_state : int, RandomState, Generator or None, default=None
        Inducing points, samples of rows.

    Attributes
    ----------
    kernel_ : Kernel
        Kernel with its learnt hyper-parameters.
    likelihood_ : Likelihood
        With its own parameters learnt, of standardised targets ("poisson": of y itself).
    noise_ : float or None
        Standard deviation of the noise (scale of Student's t), in units of y; None for likelihoods without noise.
    inducing_points_ : {ndarray, CSR} of shape (M, n_features)
        Where the inducing points ended.
    posterior_ : SparseLatent
        All that predictions of f (of standardised targets) need.
    y_mean_, y_scale_ : float
        Mean and standard deviation of the targets; 0 and 1 where they are not standardised.
    inference_ : {"collapsed", "vb", "svi"}
        What "auto" chose.
    lower_bound_ : float
        Lower bound on the log evidence of y, in nats.
    lower_bounds_ : list of float
        Its values in the search (where that looked at a sample of the rows, of the sample), first glances left out.
    n_iter_ : int
        Evaluations of the bound, as many as `lower_bounds_` has values.
    converged_ : bool
        Whether the searches for kernel and noise ended by themselves.
    n_samples_seen_ : float
        Sum of the weights behind the posterior.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str
        Their names, when X had some.

    See Also
    --------
    SVGPClassifier : Classes instead of numbers.
    GPOrdinalRegressor : Ordered levels.

    Notes
    -----
    The evidence of 400 rows themselves, from two starts (of the default kernel), tells where to begin and by which
    length-scales to choose inducing points; up to 2,000 rows, the plain start is tried as well. Up to 10,000 rows are
    searched with as they are. Of more, a sample of 10,000 finds kernel, noise and inducing points first; then, up to a
    million rows, kernel and noise are searched for with all of them, for at most 10 iterations. The posterior is that
    of all rows in any case. Equal rows count as one row with their mean target.

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
    >>> model = SVGPRegressor(n_inducing=20, random_state=0).fit(X, y)
    >>> mean, std = model.predict([[1.5]], return_std=True)
    >>> round(float(mean[0]), 1), round(float(std[0]), 1), round(model.noise_, 1)
    (1.0, 0.1, 0.1)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "kernel": [Kernel, None],
        "n_inducing": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "inducing": [StrOptions({"kmeans++", "kmeans", "random", "variance"}), "array-like", "sparse matrix"],
        "learn_inducing": ["boolean", StrOptions({"auto"})],
        "likelihood": [StrOptions({"gaussian", "student-t", "poisson"}), Likelihood],
        "noise": [StrOptions({"learn"}), Interval(Real, 0.0, None, closed="neither")],
        "inference": [StrOptions({"auto", "collapsed", "vb", "svi"})],
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
    }

    def __init__(
        self,
        kernel: Kernel | None = None,
        *,
        n_inducing: int | str = "auto",
        inducing: Any = "kmeans++",
        learn_inducing: bool | str = "auto",
        likelihood: str | Likelihood = "gaussian",
        noise: float | str = "learn",
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
    ) -> None:
        self.kernel = kernel
        self.n_inducing = n_inducing
        self.inducing = inducing
        self.learn_inducing = learn_inducing
        self.likelihood = likelihood
        self.noise = noise
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

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # ------------------------------------------------------------- fitting

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn kernel, noise and inducing points, and the posterior of f.

        Parameters
        ----------
        X : {array-like, CSR} of shape (n, n_features)
            Rows.
        y : array-like of shape (n,)
            Targets.
        sample_weight : array-like of shape (n,), default=None
            Weights >= 0 that multiply log likelihoods; a whole number counts copies.

        Returns
        -------
        SVGPRegressor
            Itself, fitted.

        Raises
        ------
        ValueError
            If X or y is not finite, a weight is negative, or all of them are zero.

        Warns
        -----
        ConvergenceWarning
            If a search did not meet its tolerance in `max_iter` iterations.
        """
        with fit_callbacks(self, X, y, sample_weight), unchanged_on_failure(self):
            self._rows: tuple[Features, Array, Array] | None = self._read(X, y, sample_weight)
            self._sums: Moments | None = None
            return self._learn(going_on=self.warm_start)

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from more rows.

        The first 10,000 rows are kept, and kernel, noise and points are learnt anew with every call, from where they
        stand. After that these stay, but for the noise; rows are added to the sums that the posterior is a function
        of, and then dropped: nothing is forgotten, and memory does not grow. With `window` the latest rows alone count.
        Other likelihoods than the Gaussian have no such sums: there all rows (or the window's) are kept, the kernel
        stays as it was learnt from the first call, and the inference goes on from where it stands.

        Parameters
        ----------
        X, y, sample_weight : array-like
            As in `fit`.

        Returns
        -------
        SVGPRegressor
            Itself.

        Raises
        ------
        ValueError
            As in `fit`.
        """
        self._validate_params()
        with unchanged_on_failure(self):
            first = not hasattr(self, "posterior_")
            new = self._read(X, y, sample_weight, reset=first)
            if first:
                self._rows, self._sums = new, None
            elif self._rows is not None:
                old = self._rows
                self._rows = stack(old[0], new[0]), np.append(old[1], new[1]), np.append(old[2], new[2])
            else:
                return self._add(new)
            if self.window is not None:
                X, y, weight = self._rows
                self._rows = X[-self.window :], y[-self.window :], weight[-self.window :]
            rows = self._rows
            if first or rows[1].shape[0] <= _REMEMBERED or not self._collapses():
                return self._learn(going_on=not first, streaming=True)
            if self.window is None:
                self._rows = None
            return self._add(rows, anew=True)

    def _read(self, X: Any, y: Any, sample_weight: Any, *, reset: bool = True) -> tuple[Features, Array, Array]:
        """Rows of positive weight, targets and weights."""
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, order="C", y_numeric=True, reset=reset)
        y = np.asarray(y, dtype=np.float64)
        weight = read_weights(sample_weight, X.shape[0])
        used = weight > 0.0
        if not np.any(used):
            msg = "at least 1 row of positive weight is required; every sample_weight is zero."
            raise DataError(msg)
        # A copy, since the rows outlive this call and the caller may change his.
        return canonical(X[used]), y[used], weight[used]

    def _gaussian_rows(self, unit: Unit | None = None) -> tuple[GaussianRows, Unit]:
        if self._rows is None:
            msg = (
                "the training rows are not kept: partial_fit drops them after the first 10,000. "
                "Call fit, or log_marginal_likelihood() without theta."
            )
            raise DataError(msg)
        cells = cells_of(*self._rows)
        unit = unit_of(cells) if unit is None else unit
        return gaussian_rows(cells, unit), unit

    def _learn(self, *, going_on: bool, streaming: bool = False) -> Self:
        assert self._rows is not None  # noqa: S101 - there is something to learn from
        check_counts(self.likelihood, self._rows[1])
        cells = cells_of(*self._rows)
        if cells.X.shape[0] > 1:
            warn_constant(cells.X, "all rows")
        check_memory(1, min(self._most_points(cells.X.shape[0]), cells.X.shape[0]), whose="rows")
        key = digest((kernel_parameters(self.kernel), cells.X.shape[1], repr(self.likelihood), self._collapses()))
        goes_on = going_on and getattr(self, "_warm_key", None) == key
        rng = as_generator(self.random_state)
        unit = unit_of(cells) if self.likelihood in _STANDARDISED else Unit(0.0, 1.0)
        if self._collapses():
            start = self._start() if goes_on else None
            rows = gaussian_rows(cells, unit)
            result = fit_collapsed(rows, self.kernel, self._config(unit, rows.n), rng, start, anew=streaming)
            self._warm_key = key
            return self._keep(result, unit, warned=not streaming)
        if goes_on and streaming:
            unit = Unit(self.y_mean_, self.y_scale_)  # the scale of f, which stays
        self._general(cells, unit, rng, goes_on=goes_on, held=streaming)
        self._warm_key = key
        return self

    def _collapses(self) -> bool:
        gaussian = self.likelihood == "gaussian" and self.optimizer != "adam"
        if self.inference == "collapsed" and not gaussian:
            msg = (
                f"inference='collapsed' is of likelihood='gaussian' without optimizer='adam'; got {self.likelihood!r}, "
                f"{self.optimizer!r}. Use inference='auto'."
            )
            raise DataError(msg)
        return gaussian and self.inference in {"auto", "collapsed"}

    def _general(self, cells: Cells, unit: Unit, rng: np.random.Generator, *, goes_on: bool, held: bool) -> None:
        """Fit on the engine's loop."""
        data = Observations(cells.X[cells.row], (cells.y - unit.mean) / unit.scale, cells.weight)
        config, end = self._config(unit, cells.X.shape[0]), getattr(self, "_end", None)
        start = end if goes_on else None
        held = held and start is not None
        if self.likelihood == "gaussian" and self.optimizer == "l-bfgs-b" and not held:
            # Whatever finds q, kernel and noise are found best where it is at its optimum.
            sample = gaussian_rows(cells, unit).sample(_REMEMBERED, rng)
            earlier = self._start() if goes_on else None
            found = fit_collapsed(sample, self.kernel, config, rng, earlier).end
            start, held = GeneralStart(found.kernel, found.points, Gaussian(1.0 / found.noise)), True
        likelihood = start_likelihood(self.likelihood, config.noise, data)
        schedule = Schedule(
            max_iter=self.max_iter,
            tol=self.tol,
            batch_size=self.batch_size,
            delay=self.delay,
            forgetting_rate=self.forgetting_rate,
            on_iteration=on_iteration(self),
        )
        inference = "auto" if self.inference == "collapsed" else self.inference
        general = GeneralConfig(config, inference, schedule, self.learning_rate)
        result = fit_general(data, likelihood, self.kernel, general, rng, start, held=held)
        self._end: GeneralStart | None = result.end
        self.inference_ = result.inference
        self.kernel_, self.inducing_points_ = result.end.kernel, result.end.points
        self.likelihood_, self.posterior_ = result.end.likelihood, result.latent
        noise = noise_of(self.likelihood_)
        self.noise_: float | None = None if noise is None else noise * unit.scale
        self.y_mean_, self.y_scale_ = unit
        self.n_samples_seen_ = float(cells.weight.sum())
        jacobian = self.n_samples_seen_ * float(np.log(unit.scale))
        self.lower_bounds_ = [value - jacobian for value in result.bounds]
        self.lower_bound_ = self.lower_bounds_[-1]
        self.n_iter_, self.converged_ = result.n_iter, result.converged
        if not result.converged:
            warn_not_converged(self, self.n_iter_, 6)

    def _most_points(self, n_distinct: int) -> int:
        if self.n_inducing == "auto":
            return _MANY_POINTS if n_distinct <= _FEW_ROWS else _POINTS
        return int(self.n_inducing)

    def _start(self) -> SparseStart:
        assert isinstance(self.likelihood_, Gaussian)  # noqa: S101 - it knows the noise in the model's units
        return SparseStart(self.kernel_, 1.0 / self.likelihood_.precision, self.inducing_points_)

    def _config(self, unit: Unit, n_distinct: int) -> SparseConfig:
        return SparseConfig(
            optimizer=self.optimizer,
            n_inducing=self._most_points(n_distinct),
            inducing=self.inducing,
            learn_inducing=self.learn_inducing,
            noise=None if self.noise == "learn" else (float(self.noise) / unit.scale) ** 2,
            max_iter=self.max_iter,
            tol=self.tol,
            on_value=_printer(type(self).__name__) if self.verbose else None,
        )

    def _add(self, new: tuple[Features, Array, Array], *, anew: bool = False) -> Self:
        """Add rows to the sums behind the posterior, or start these anew, with the kernel as it is."""
        unit = Unit(self.y_mean_, self.y_scale_)
        rows = gaussian_rows(cells_of(*new), unit)
        start = self._start()
        basis = self.posterior_.basis
        with limit_blas_threads(basis.chol.shape[0]):
            sums = moments(rows, basis)
            if not anew and self._sums is not None:
                sums = self._sums + sums
            self._keep(follow(sums, start, basis, self._config(unit, rows.n)), unit, warned=False)
        self._sums = sums
        return self

    def _keep(self, result: SparseFit, unit: Unit, *, warned: bool) -> Self:
        self._end, self.inference_ = None, "collapsed"
        self.kernel_, self.inducing_points_ = result.end.kernel, result.end.points
        self.likelihood_ = Gaussian(1.0 / result.end.noise)
        self.noise_ = float(np.sqrt(result.end.noise)) * unit.scale
        self.y_mean_, self.y_scale_ = unit
        self.posterior_ = result.latent
        weight = result.moments.weight
        jacobian = weight * float(np.log(unit.scale))
        self.lower_bound_ = result.bound - jacobian
        self.lower_bounds_ = [value - jacobian for value in result.bounds]
        self.n_samples_seen_ = weight
        self.n_iter_ = result.n_iter
        self.converged_ = result.converged
        if not result.converged and warned:
            warn_not_converged(self, self.n_iter_, 5)
        return self

    # ------------------------------------------------------------- predicting

    def _new(self, X: Any) -> Features:
        check_is_fitted(self)
        return canonical(validate_data(self, X, accept_sparse="csr", dtype=np.float64, order="C", reset=False))

    def predict(
        self, X: Any, return_std: bool = False, return_cov: bool = False, *, noise: bool = True
    ) -> Array | tuple[Array, Array]:
        """Return predicted targets.

        Parameters
        ----------
        X : {array-like, CSR} of shape (n, n_features)
            Rows.
        return_std : bool, default=False
            Whether to add standard deviations.
        return_cov : bool, default=False
            Whether to add the covariance instead (at most 10,000 rows).
        noise : bool, default=True
            Whether these are of a new y (as `BayesianRidge` has it) or of f, the function without noise.

        Returns
        -------
        mean : ndarray of shape (n,)
            In units of y.
        std or cov : ndarray of shape (n,) or (n, n)
            Only when asked for.

        Raises
        ------
        ValueError
            If both are asked for, or a covariance of too many rows.
        """
        if return_std and return_cov:
            msg = "return_std and return_cov: only one of the two can be asked for."
            raise DataError(msg)
        rows = self._new(X)
        if return_cov:
            mean, covariance = self._joint(rows)
            covariance.flat[:: rows.shape[0] + 1] += self._own_variance() if noise else 0.0
            return self._mapped(mean), covariance * self.y_scale_**2
        linear = self._is_linear()
        mean, variance = self.posterior_.latent(rows, variance=return_std or not linear)
        predicted = self._mapped(mean if linear else self.likelihood_.predict(mean, variance))
        if not return_std:
            return predicted
        if noise and not linear:
            return predicted, np.sqrt(self._predictive()(mean, variance))
        own = np.sqrt(self._own_variance()) if noise else 0.0
        return predicted, np.hypot(np.sqrt(variance), own) * self.y_scale_

    def predict_latent(self, X: Any, return_std: bool = False) -> Array | tuple[Array, Array]:
        """Return posterior means of f as the likelihood sees it: of standardised targets, or logs of counts.

        Parameters
        ----------
        X : {array-like, CSR} of shape (n, n_features)
            Rows.
        return_std : bool, default=False
            Whether to add posterior standard deviations.

        Returns
        -------
        mean : ndarray of shape (n,)
            f.
        std : ndarray of shape (n,)
            Only when asked for.
        """
        mean, variance = self.posterior_.latent(self._new(X), variance=return_std)
        return (mean, np.sqrt(variance)) if return_std else mean

    def _is_linear(self) -> bool:
        """Whether a new y is f plus noise."""
        return isinstance(self.likelihood_, Gaussian | StudentT)

    def _predictive(self) -> Callable[[Array, Array], Array]:
        found: Callable[[Array, Array], Array] | None = getattr(self.likelihood_, "predictive_variance", None)
        if found is None:
            msg = f"{type(self.likelihood_).__name__} tells no variance of a new y: use predict_latent."
            raise DataError(msg)
        return found

    def _own_variance(self) -> float:
        """Variance of the noise, in variances of the targets."""
        if isinstance(self.likelihood_, Gaussian):
            return 1.0 / self.likelihood_.precision
        return float(self._predictive()(np.zeros(1), np.zeros(1))[0])

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = None, *, noise: bool = True) -> Array:
        """Draw joint samples from the posterior.

        Parameters
        ----------
        X : {array-like, CSR} of shape (n, n_features)
            Rows, at most 10,000.
        n_samples : int, default=1
            Number of draws.
        random_state : int, RandomState, Generator or None, default=None
            Source of randomness.
        noise : bool, default=True
            Whether samples are of new y or of f.

        Returns
        -------
        ndarray of shape (n, n_samples)
            In units of y.
        """
        check_n_samples(n_samples)
        mean, covariance = self._joint(self._new(X))
        rng = as_generator(random_state)
        f = mean[:, None] + cholesky(covariance) @ rng.standard_normal((mean.size, n_samples))
        return self._mapped(f + draw_noise(self.likelihood_, f.shape, rng) if noise else f)

    def _joint(self, rows: Features) -> tuple[Array, Array]:
        if not self._is_linear():
            msg = f"a joint posterior is of y = f + noise; with {type(self.likelihood_).__name__} use predict_latent."
            raise DataError(msg)
        if rows.shape[0] > _MOST_JOINT:
            msg = (
                f"a joint posterior is of at most {_MOST_JOINT} rows; got {rows.shape[0]}. Use return_std, or batches."
            )
            raise DataError(msg)
        return self.posterior_.joint(rows)

    def _mapped(self, mean: Array) -> Array:
        return self.y_mean_ + self.y_scale_ * mean

    # ------------------------------------------------------------- looking inside

    def log_marginal_likelihood(
        self, theta: ArrayLike | None = None, eval_gradient: bool = False
    ) -> float | tuple[float, Array]:
        """Return the lower bound on the log evidence at given hyper-parameters; for M = n the evidence itself.

        Parameters
        ----------
        theta : array-like of shape (n_theta,), default=None
            The kernel's theta, then the log of the noise's standard deviation in units of y. None = the learnt ones.
        eval_gradient : bool, default=False
            Whether to add the gradient in theta.

        Returns
        -------
        value : float
            In nats, at the inducing points of the fit.
        gradient : ndarray of shape (n_theta,)
            Only when asked for.

        Raises
        ------
        ValueError
            If theta has another length or is not finite, or `partial_fit` has dropped the rows that it needs.
        """
        check_is_fitted(self)
        if theta is None and not eval_gradient:
            return self.lower_bound_
        if self.inference_ != "collapsed":
            msg = f"log_marginal_likelihood at other hyper-parameters is of 'collapsed'; got {self.inference_!r}."
            raise DataError(msg)
        own = np.append(self.kernel_.theta, np.log(self.noise_ or 0.0))
        theta = own if theta is None else np.asarray(theta, dtype=np.float64)
        if theta.shape != own.shape or not np.all(np.isfinite(theta)):
            msg = f"theta must be {own.size} finite numbers (the kernel's, then log noise); got {theta!r:.200}."
            raise DataError(msg)
        rows, unit = self._gaussian_rows(Unit(self.y_mean_, self.y_scale_))
        kernel = self.kernel_.clone_with_theta(theta[:-1])
        noise = float(np.exp(2.0 * (theta[-1] - np.log(unit.scale))))
        with limit_blas_threads(self.inducing_points_.shape[0]):
            basis = InducingBasis.at(kernel, self.inducing_points_)
            seen = bound(rows, basis, noise, gradient=eval_gradient)
        value = seen.value - seen.moments.weight * float(np.log(unit.scale))
        return (value, np.append(seen.theta, 2.0 * seen.log_noise)) if eval_gradient else value

    @property
    def relevance_(self) -> Array:
        """How much each feature matters to the prior of f, shape (n_features,).

        Half the expected square of f(x) - f(x'), where x' is an inducing point x with this feature taken from another:
        0 for a feature that f ignores.
        """
        check_is_fitted(self)
        return prior_relevance(self.kernel_, self.inducing_points_)

    @property
    def feature_importances_(self) -> Array:
        """`relevance_` under the name that `SelectFromModel` and `RFE` look for."""
        return self.relevance_


def _printer(name: str) -> Callable[[float], None]:
    return lambda value: print(f"{name}: bound {value:.6f} a row")  # noqa: T201 - asked for
