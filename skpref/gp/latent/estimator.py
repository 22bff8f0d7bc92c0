"""`BayesianGPLVM`: nonlinear dimension reduction by a Gaussian process with unobserved inputs."""

from __future__ import annotations

import time
from dataclasses import KW_ONLY, dataclass, replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Literal, overload

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.decomposition import PCA
from sklearn.neighbors import NearestNeighbors
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from skpref import inducing
from skpref._callbacks import CallbackMixin, fit_callbacks, fit_context
from skpref._checks import check_arrays, check_positive, check_types, require
from skpref._compiled.psi import psi_first
from skpref._estimator import (
    check_memory,
    iteration_callback,
    token_of_content,
    unchanged_on_failure,
    warn_not_converged,
)
from skpref._events import Iteration
from skpref._math.linalg import cholesky, inverse_lower
from skpref._math.random import as_generator
from skpref._math.threads import limit_blas_threads
from skpref._validation import check_array, validate_data
from skpref.exceptions import DataError
from skpref.gp.latent.batches import LatentFit, fit_batches, infer_rows
from skpref.gp.latent.bound import Inputs, LatentHyper, LatentMapping, bound_and_gradient, kernel_matrix, mapping_of
from skpref.gp.latent.policy import POLICY
from skpref.inference.hyper import Optimum, maximise

if TYPE_CHECKING:
    from typing import Self

    from numpy.typing import ArrayLike

    from skpref._events import OnIteration
    from skpref._typing import Array, RandomState

_SMALLEST, _FARTHEST = 1e-300, 1e140  # differences of rows; distances from them in standard deviations


@dataclass(eq=False, repr=False)
class BayesianGPLVM(ClassNamePrefixFeaturesOutMixin, TransformerMixin, CallbackMixin, BaseEstimator):
    """Bayesian Gaussian process latent variable model: nonlinear dimension reduction with uncertainty.

    Every feature is a smooth function of a few unobserved coordinates: a Gaussian process with a squared exponential
    kernel. Each row has a posterior mean and standard deviation for each coordinate. Each coordinate has a length-scale
    that is learnt (automatic relevance determination), so coordinates that are not needed have no effect.

    Parameters
    ----------
    n_components : int, default=None
        Largest number Q of coordinates. None: the number of features, at most 10. Coordinates that are not needed have
        a standard deviation of 1 (the prior's) in `embedding_std_` and a `relevance_` near 0.
    inducing : int, default=50
        Number M of inducing points; the time of an iteration grows with n M^2 Q.
    batch_size : int, default=None
        Rows of a mini-batch, for 10,000 rows or more. None: an iteration uses all rows, which finds better optima.
        Mini-batches start from a fit to a sample of 2,000 rows; then each step infers the coordinates of a batch and
        moves functions and hyperparameters ([HFL13]_).
    max_iter : int, default=1000
        Largest number of iterations of L-BFGS-B, in rounds of at most 100; with `batch_size`, of passes over the rows.
        During the first 30 iterations the noise is fixed at a fiftieth of the variance of the data.
    tol : float, default=1e-4
        A round ends when an iteration gains less than ``tol / 100`` nats per entry of X, and the fit when a round gains
        less than ``tol`` nats per entry; with `batch_size`, when a pass does. For 1,000 rows of 12 features this is 1.2
        nats; different starts end hundreds of nats apart.
    warm_start : bool, default=False
        Whether `fit` starts from the result of the previous fit, if the numbers of rows and features are the same.
    verbose : int, default=0
        1 prints a line at every evaluation of the bound.
    random_state : int, RandomState instance, Generator or None, default=None
        Seed for inducing points, and for coordinates beyond the rank of the data.

    Attributes
    ----------
    embedding_ : ndarray of shape (n, Q)
        Posterior means of the rows' coordinates, the most relevant coordinate first. The prior is N(0, 1).
    embedding_std_ : ndarray of shape (n, Q)
        Posterior standard deviations of the coordinates.
    length_scale_ : ndarray of shape (Q,)
        Length-scales, in prior standard deviations of the coordinates; large: not needed.
    relevance_ : ndarray of shape (Q,)
        Variance of each coordinate over the rows in squared length-scales, in descending order. It measures how
        nonlinear the functions are. Near 0 the functions are linear in the coordinate, or it is not needed: then
        `embedding_std_` is near 1.
    amplitude_ : float
        Standard deviation of the functions, in units of X.
    noise_ : float
        Standard deviation of the noise, in units of X.
    inducing_points_ : ndarray of shape (M, Q)
        Inducing points in the space of the coordinates.
    mean_ : ndarray of shape (n_features,)
        Mean of X, which is subtracted first.
    scale_ : float
        Root mean square of the centred X over all features, by which it is divided. It is one number, so features keep
        their proportions: put a `StandardScaler` before to weight them equally.
    lower_bound_ : float
        Lower bound on log p(X), in nats.
    n_iter_ : int
        Number of iterations.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, if X has some.

    See Also
    --------
    sklearn.decomposition.PCA : The linear method, at whose components the search starts.

    Notes
    -----
    The bound has many optima. The search starts at the principal components; of fits with several seeds take the one
    with the highest `lower_bound_`. An iteration uses all rows: time n M^2 Q, memory n (M + Q).

    References
    ----------
    .. [HFL13] Hensman, Fusi and Lawrence, "Gaussian processes for big data", UAI 2013.
    .. [TL10] Titsias and Lawrence, "Bayesian Gaussian process latent variable model", AISTATS 2010.

    Examples
    --------
    >>> import numpy as np
    >>> from skpref import BayesianGPLVM
    >>> t = np.linspace(0.0, 3.0, 40)[:, None]
    >>> X = np.hstack([np.sin(t), np.cos(t), t])
    >>> model = BayesianGPLVM(2, inducing=12, random_state=0).fit(X)
    >>> bool(abs(np.corrcoef(model.embedding_[:, 0], t[:, 0])[0, 1]) > 0.95)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "inducing": [Interval(Integral, 1, None, closed="left")],
        "batch_size": [Interval(Integral, 1, None, closed="left"), None],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0.0, None, closed="left")],
        "warm_start": ["boolean"],
        "verbose": ["verbose"],
        "random_state": ["random_state", np.random.Generator],
    }

    n_components: int | None = None
    _: KW_ONLY
    inducing: int = 50
    batch_size: int | None = None
    max_iter: int = 1000
    tol: float = 1e-4
    warm_start: bool = False
    verbose: int = 0
    random_state: RandomState = None

    __dask_tokenize__ = token_of_content

    @fit_context
    def fit(self, X: ArrayLike, y: None = None) -> Self:  # noqa: ARG002 - scikit-learn's signature
        """Learn the coordinates of the rows, and the functions from coordinates to features.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Rows, at least two that differ.
        y : None
            Ignored.

        Returns
        -------
        BayesianGPLVM
            The fitted estimator.

        Raises
        ------
        ValueError
            If X is not finite or has no two different rows, or a parameter is out of its range.

        Warns
        -----
        ConvergenceWarning
            If the fit did not meet its tolerance in `max_iter` iterations.
        """
        with fit_callbacks(self, X), unchanged_on_failure(self):
            earlier = getattr(self, "mapping_", None) if self.warm_start else None
            table = validate_data(self, X, dtype=np.float64, order="C", ensure_min_samples=2)
            n, D = table.shape
            Q = min(D, POLICY.most_components) if self.n_components is None else int(self.n_components)
            check_memory(n, min(self.inducing, n), whose="rows")
            mean, scale, Y = _standardised(table)
            rng, start = as_generator(self.random_state), None
            if earlier is not None and self.embedding_.shape == (n, Q) and earlier.V.shape[1] == D:
                start = Inputs(self.embedding_, self.embedding_std_**2), earlier.hyper
            with limit_blas_threads(min(self.inducing, n)):
                if self.batch_size is None or self.batch_size >= n:
                    cold, start = start is None, start or _initial(Y, Q, self.inducing, rng)
                    end = self._full_passes(Y, start, cold=cold)
                else:
                    start = start or _start_from_sample(Y, Q, self.inducing, self.tol, rng)
                    end = fit_batches(Y, start, self.batch_size, rng, self.max_iter, self.tol, iteration_callback(self))
                self._store(end, mean, scale)
        return self

    def _full_passes(self, Y: Array, start: tuple[Inputs, LatentHyper], *, cold: bool) -> LatentFit:
        """Fit by L-BFGS-B on all rows at once."""
        search = _Search(Y, start, iteration_callback(self, step="evaluation"))
        result = search.run(self.max_iter, self.tol, cold=cold)
        # The search moves all rows together. `transform` infers each row by itself, so this ends the same way.
        mapping, _ = mapping_of(Y, result.inputs, result.hyper)
        inputs, _ = mapping.infer(Y, result.inputs, *POLICY.new_row)
        return LatentFit(inputs, mapping, [mapping_of(Y, inputs, result.hyper)[1]], result.n_iter, result.converged)

    def _check_fitted(self) -> None:
        """Raise DataError unless the fitted attributes fit together."""
        check_types(self, mapping_=LatentMapping)
        width, n_features = self.mapping_.hyper.Z.shape[1], self.mapping_.V.shape[1]
        same = (self.n_features_in_, self._n_features_out) == (n_features, width)
        require(same, self, "n_features_in_", f"must be {n_features}, with {width} coordinates")
        sizes = check_arrays(self, {"D": n_features, "Q": width}, mean_="D", embedding_="n Q", embedding_std_="n Q")
        require(sizes["n"] >= 1, self, "embedding_", "has no rows")
        check_positive(self, "scale_", "embedding_std_")

    def _store(self, end: LatentFit, mean: Array, scale: float) -> None:
        """Set the attributes of a fit."""
        inputs, hyper = _sorted_by_relevance(end.inputs, end.mapping.hyper)
        self.mapping_ = replace(end.mapping, hyper=hyper)
        self.mean_, self.scale_ = mean, scale
        self.embedding_, self.embedding_std_ = inputs.mu, np.sqrt(inputs.s)
        self.inducing_points_ = hyper.Z
        self.length_scale_ = np.exp(-0.5 * hyper.log_w)
        self.relevance_ = _relevance(inputs, hyper)
        self.amplitude_ = scale * float(np.exp(0.5 * hyper.log_a))
        self.noise_ = scale * float(np.exp(-0.5 * hyper.log_beta))
        self.lower_bound_ = end.bounds[-1] - inputs.mu.shape[0] * mean.size * float(np.log(scale))
        self.n_iter_ = end.n_iter
        self._n_features_out = inputs.mu.shape[1]
        if not end.converged:
            warn_not_converged(self, self.n_iter_)

    def fit_transform(self, X: ArrayLike, y: None = None, **fit_params: Any) -> Array:
        """Fit, and return the coordinates of the same rows.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Rows.
        y : None
            Ignored.
        **fit_params : dict
            Not used.

        Returns
        -------
        ndarray of shape (n, Q)
            Posterior means of the coordinates.
        """
        coordinates: Array = self.fit(X, y, **fit_params).transform(X)
        return coordinates

    @overload
    def transform(self, X: ArrayLike, *, return_std: Literal[False] = False) -> Array: ...
    @overload
    def transform(self, X: ArrayLike, *, return_std: Literal[True]) -> tuple[Array, Array]: ...
    @overload
    def transform(self, X: ArrayLike, *, return_std: bool) -> Array | tuple[Array, Array]: ...
    def transform(self, X: ArrayLike, *, return_std: bool = False) -> Array | tuple[Array, Array]:
        """Infer the coordinates of rows, each by itself, with the learnt functions.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Rows.
        return_std : bool, default=False
            Whether to return standard deviations too.

        Returns
        -------
        mean : ndarray of shape (n, Q)
            Posterior means.
        std : ndarray of shape (n, Q)
            Posterior standard deviations; only with ``return_std=True``.
        """
        inputs, _ = self._infer(X)
        return (inputs.mu, np.sqrt(inputs.s)) if return_std else inputs.mu

    @overload
    def inverse_transform(self, X: ArrayLike, *, return_std: Literal[False] = False) -> Array: ...
    @overload
    def inverse_transform(self, X: ArrayLike, *, return_std: Literal[True]) -> tuple[Array, Array]: ...
    @overload
    def inverse_transform(self, X: ArrayLike, *, return_std: bool) -> Array | tuple[Array, Array]: ...
    def inverse_transform(self, X: ArrayLike, *, return_std: bool = False) -> Array | tuple[Array, Array]:
        """Predict the features at given coordinates.

        Parameters
        ----------
        X : array-like of shape (n, Q)
            Coordinates.
        return_std : bool, default=False
            Whether to return standard deviations too, noise included.

        Returns
        -------
        mean : ndarray of shape (n, n_features)
            Expected features.
        std : ndarray of shape (n, n_features)
            Only with ``return_std=True``.
        """
        check_is_fitted(self)
        points = check_array(X, dtype=np.float64, input_name="X", estimator=self)
        if points.shape[1] != self._n_features_out:
            msg = (
                f"X must have {self._n_features_out} columns, one per coordinate; got {points.shape[1]}. "
                "Coordinates are what transform returns."
            )
            raise DataError(msg)
        # A variance of 0 would have an infinite logarithm; this one is 0 for the kernel.
        return self._features(Inputs(points, np.full(points.shape, np.finfo(np.float64).tiny)), return_std=return_std)

    @overload
    def reconstruct(self, X: ArrayLike, *, return_std: Literal[False] = False) -> Array: ...
    @overload
    def reconstruct(self, X: ArrayLike, *, return_std: Literal[True]) -> tuple[Array, Array]: ...
    @overload
    def reconstruct(self, X: ArrayLike, *, return_std: bool) -> Array | tuple[Array, Array]: ...
    def reconstruct(self, X: ArrayLike, *, return_std: bool = False) -> Array | tuple[Array, Array]:
        """Predict the features of rows from their inferred coordinates, whose uncertainty is taken into account.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Rows.
        return_std : bool, default=False
            Whether to return standard deviations too, noise included.

        Returns
        -------
        mean : ndarray of shape (n, n_features)
            Expected features.
        std : ndarray of shape (n, n_features)
            Only with ``return_std=True``.
        """
        return self._features(self._infer(X)[0], return_std=return_std)

    def score_samples(self, X: ArrayLike) -> Array:
        """Return a lower bound on the log density of each row; rows unlike the training data have low values.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n,)
            Bounds, in nats.
        """
        bound = self._infer(X)[1]
        return bound - self.mean_.size * float(np.log(self.scale_))

    def score(self, X: ArrayLike, y: None = None) -> float:  # noqa: ARG002 - scikit-learn's signature
        """Return the mean of `score_samples`.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Rows.
        y : None
            Ignored.

        Returns
        -------
        float
            Mean bound, in nats.
        """
        return float(np.mean(self.score_samples(X)))

    def _infer(self, X: ArrayLike) -> tuple[Inputs, Array]:
        """Return the posterior of the rows' coordinates, and the bounds on their log densities, shape (n,)."""
        check_is_fitted(self)
        with np.errstate(over="ignore"):
            Y = (validate_data(self, X, dtype=np.float64, order="C", reset=False) - self.mean_) / self.scale_
        if np.abs(Y).max() > _FARTHEST:
            row = int(np.argmax(np.abs(Y).max(axis=1)))
            msg = f"row {row} of X is more than {_FARTHEST:g} standard deviations from the rows of fit, whose squares"
            raise DataError(f"{msg} overflow: scale the features as in fit.")
        training = Inputs(self.embedding_, self.embedding_std_**2)
        return self.mapping_.infer(Y, _nearest(self.mapping_, training, Y), *POLICY.new_row)

    def _features(self, inputs: Inputs, *, return_std: bool) -> Any:
        """Return the mean of the features at uncertain coordinates, with standard deviations if asked for."""
        if not return_std:
            return self.mean_ + self.scale_ * self.mapping_.mean(inputs)
        mean, variance = self.mapping_.moments(inputs)
        noise = np.exp(-self.mapping_.hyper.log_beta)
        return self.mean_ + self.scale_ * mean, self.scale_ * np.sqrt(variance + noise)


def _standardised(X: Array) -> tuple[Array, float, Array]:
    """Return the mean of X, its common scale, and X without both."""
    with np.errstate(over="ignore", invalid="ignore"):
        mean = X.mean(axis=0)
        Y = X - mean
    # Divided first: squares of 1e200 are infinite.
    largest = 0.0 if (X[0] == X).all() else float(np.abs(Y).max())  # a mean of equal rows is equal up to rounding
    if not _SMALLEST < largest < np.inf:
        flow = f"are below {_SMALLEST:g}" if largest < 1.0 else "overflow"
        problem = "all rows are the same" if largest == 0.0 else f"their differences {flow}: scale the features"
        msg = f"X must have rows that differ by finite amounts; {problem}."
        raise DataError(msg)
    scale = largest * float(np.sqrt(np.mean((Y / largest) ** 2)))
    return mean, scale, Y / scale


def _initial(Y: Array, Q: int, n_inducing: int, rng: np.random.Generator) -> tuple[Inputs, LatentHyper]:
    """Return principal components as coordinates, and length-scales at which rows at the mean distance correlate."""
    n, D = Y.shape
    rank = min(Q, n - 1, D)
    pca = PCA(rank, random_state=int(rng.integers(2**31))).fit(Y)
    share = np.zeros(Q)
    share[:rank] = pca.explained_variance_ / pca.explained_variance_.sum()
    mu = 0.1 * rng.standard_normal((n, Q))
    used = np.flatnonzero(share > np.finfo(np.float64).eps)
    mu[:, used] = np.asarray(pca.transform(Y))[:, used] / np.sqrt(pca.explained_variance_[used])
    w = POLICY.correlation * np.maximum(share, 1e-3)
    Z = np.array(inducing.choose(mu, n_inducing, rng=rng))
    hyper = LatentHyper(Z, np.log(w), 0.0, float(np.log(POLICY.signal_to_noise)))
    return Inputs(mu, np.full((n, Q), POLICY.variance)), hyper


def _relevance(inputs: Inputs, hyper: LatentHyper) -> Array:
    """Return the variance of each coordinate over the rows, in squared length-scales, shape (Q,)."""
    spread: Array = np.exp(hyper.log_w) * inputs.mu.var(axis=0)
    return spread


def _sorted_by_relevance(inputs: Inputs, hyper: LatentHyper) -> tuple[Inputs, LatentHyper]:
    """Return both with the most relevant coordinate first."""
    order = np.argsort(-_relevance(inputs, hyper), kind="stable")
    ordered = Inputs(np.ascontiguousarray(inputs.mu[:, order]), np.ascontiguousarray(inputs.s[:, order]))
    return ordered, hyper._replace(Z=np.ascontiguousarray(hyper.Z[:, order]), log_w=hyper.log_w[order])


def _start_from_sample(
    Y: Array, Q: int, n_inducing: int, tol: float, rng: np.random.Generator
) -> tuple[Inputs, LatentHyper]:
    """Return the start of mini-batches: hyperparameters learnt on a sample, and the inputs of all rows given them."""
    n = Y.shape[0]
    chosen = np.arange(n) if n <= POLICY.first_sample else np.sort(rng.choice(n, POLICY.first_sample, replace=False))
    sample = Y[chosen]
    end = _Search(sample, _initial(sample, Q, n_inducing, rng), None).run(POLICY.first_iterations, tol, cold=True)
    mapping, _ = mapping_of(sample, end.inputs, end.hyper)
    start = _nearest(mapping, end.inputs, Y)
    start.mu[chosen], start.s[chosen] = end.inputs
    return infer_rows(Y, start, mapping), end.hyper


def _nearest(mapping: LatentMapping, training: Inputs, Y: Array) -> Inputs:
    """Return, for each row, the input of the training row with the nearest reconstruction."""
    nearest = NearestNeighbors(n_neighbors=1).fit(mapping.mean(training)).kneighbors(Y, return_distance=False)[:, 0]
    return Inputs(training.mu[nearest], training.s[nearest])


@dataclass(frozen=True, eq=False)
class _SearchResult:
    """The end of a search."""

    inputs: Inputs
    hyper: LatentHyper
    n_iter: int
    converged: bool


class _Search:
    """L-BFGS-B over means, log variances, Z, log w, log a, log beta and warps at once, in rounds.

    A round measures every variable in units in which the bound is about equally curved along all of them: means in
    posterior standard deviations, Z in length-scales. The bound is flat along smooth warps of rows and inducing inputs
    together, so these have variables of their own: alpha moves a point x by root k(Z, x) alpha, where root^T root is
    the inverse of the kernel matrix at the start of the round.
    """

    def __init__(self, Y: Array, start: tuple[Inputs, LatentHyper], callback: OnIteration | None) -> None:
        self._Y, self._callback, self._start_time = Y, callback, time.perf_counter()
        self._inputs, self._hyper = start
        self._calls = self._max_iter = 0
        self._best = -np.inf

    def run(self, max_iter: int, tol: float, *, cold: bool) -> _SearchResult:
        """Search until a round converges with a small gain; from a cold start the first round has fixed noise."""
        self._max_iter = max_iter
        n_iter, converged = 0, False
        small_gain = POLICY.later_rounds * 0.01 * tol * self._Y.size
        lengths = iter(POLICY.first_rounds if cold else ())
        while n_iter < max_iter and not converged:
            before, learns_noise = self._best, not cold or n_iter > 0
            length = min(next(lengths, POLICY.later_rounds), max_iter - n_iter)
            end = self._ascend(length, tol, fixed_noise=not learns_noise and length < max_iter)
            n_iter += max(end.n_iter, 1)
            # A round also converges where its line search fails: gains are then below the rounding error of the bound.
            stopped = end.converged or end.n_iter < length
            converged = learns_noise and stopped and self._best - before < small_gain
        return _SearchResult(self._inputs, self._hyper, n_iter, converged)

    def _ascend(self, max_iter: int, tol: float, *, fixed_noise: bool) -> Optimum:
        """Run one round."""
        inputs, hyper = self._inputs, self._hyper
        variables = _Variables.from_start(inputs, hyper, self._Y.size)
        theta = variables.packed(Inputs(inputs.mu, np.log(inputs.s)), hyper)
        bounds = np.full((theta.size, 2), [-np.inf, np.inf])
        cuts = variables.cuts
        bounds[cuts[0] : cuts[1]] = POLICY.log_variance_bounds
        bounds[cuts[2] : cuts[5]] = POLICY.log_bounds
        if fixed_noise:  # and the amplitude
            bounds[cuts[3] : cuts[5]] = theta[cuts[3] : cuts[5], None]

        def objective(theta: Array) -> tuple[float, Array]:
            return self._objective(theta, variables)

        memory, unit = POLICY.memory, variables.unit
        best = maximise(objective, theta, bounds, max_iter=max_iter, tol=tol, memory=memory, scale=unit)
        self._inputs, self._hyper = variables.unpacked(best.theta)
        return best

    def _objective(self, theta: Array, variables: _Variables) -> tuple[float, Array]:
        """Return the bound per entry of the data, and its gradient."""
        inputs, hyper = variables.unpacked(theta)
        value, in_inputs, in_hyper = bound_and_gradient(self._Y, inputs, hyper)
        self._calls += 1
        self._best = max(self._best, value)
        if self._callback is not None:
            seconds = time.perf_counter() - self._start_time
            self._callback(Iteration(self._calls, max(self._max_iter, self._calls), self._best, seconds))
        slope = variables.packed(in_inputs._replace(s=in_inputs.s * inputs.s), in_hyper)
        slope[variables.cuts[5] :] = variables.pull_to_warps(in_inputs.mu, in_hyper.Z)
        return value / self._Y.size, slope / self._Y.size


@dataclass(frozen=True, eq=False)
class _Variables:
    """The variables of a round as one vector: their layout and units, and the basis functions of the warps."""

    shape: tuple[int, int]  # (n, Q)
    cuts: Any  # where means, log variances, Z, log w, log a and log beta end
    unit: Array  # (n_variables,)
    rows: Array  # (n, M): basis functions at the rows
    points: Array  # (M, M): basis functions at the inducing inputs

    @classmethod
    def from_start(cls, inputs: Inputs, hyper: LatentHyper, size: int) -> _Variables:
        """Return the variables of a round that starts here, with `size` numbers in the data."""
        (n, Q), M = inputs.mu.shape, hyper.Z.shape[0]
        cuts = np.cumsum([n * Q, n * Q, M * Q, Q, 1, 1])
        standard = hyper._replace(log_a=0.0)
        K = kernel_matrix(standard)
        root = inverse_lower(cholesky(K))
        rows = psi_first(inputs.mu, np.zeros((n, Q)), hyper.Z, np.exp(hyper.log_w), 1.0) @ root.T
        length = np.minimum(np.exp(-0.5 * hyper.log_w), 1.0)
        parts = [
            np.sqrt(inputs.s).ravel() * np.sqrt(size),
            np.full(n * Q, np.sqrt(2.0 * size)),
            np.tile(POLICY.point_unit * np.sqrt(M) * length, M),
            np.full(Q + 2, POLICY.shared_unit),
            np.tile(POLICY.warp_unit * np.sqrt(size) * length, M),
        ]
        return cls((n, Q), cuts, np.concatenate(parts), rows, K @ root.T)

    def packed(self, inputs: Inputs, hyper: LatentHyper) -> Array:
        """Return the vector of means, log variances and hyperparameters, with warps of 0."""
        warps = np.zeros(self.rows.shape[1] * self.shape[1])
        parts = (inputs.mu.ravel(), inputs.s.ravel(), hyper.Z.ravel(), hyper.log_w, [hyper.log_a], [hyper.log_beta])
        return np.concatenate([*parts, warps])

    def pull_to_warps(self, mu: Array, Z: Array) -> Array:
        """Pull the gradients in means and inducing inputs back to the warps, shape (M * Q,)."""
        return np.ravel(self.rows.T @ mu + self.points.T @ Z)

    def unpacked(self, theta: Array) -> tuple[Inputs, LatentHyper]:
        """Return inputs and hyperparameters of a vector."""
        mu, log_s, Z, log_w, log_a, log_beta, warps = np.split(theta, self.cuts)
        alpha = warps.reshape(-1, self.shape[1])
        inputs = Inputs(mu.reshape(self.shape) + self.rows @ alpha, np.exp(log_s).reshape(self.shape))
        points = Z.reshape(alpha.shape) + self.points @ alpha
        return inputs, LatentHyper(points, log_w, float(log_a[0]), float(log_beta[0]))
