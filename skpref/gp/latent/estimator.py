"""Latent inputs of a Gaussian process: `BayesianGPLVM`, a nonlinear principal component analysis with uncertainty."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, _fit_context
from sklearn.decomposition import PCA
from sklearn.neighbors import NearestNeighbors
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from skpref import inducing
from skpref._callbacks import CallbackMixin, fit_callbacks
from skpref._compiled.psi import psi_first
from skpref._estimator import check_memory, on_iteration, unchanged_on_failure, warn_not_converged
from skpref._events import Iteration
from skpref._math.linalg import cholesky, inverse_lower
from skpref._math.random import as_generator
from skpref._math.threads import limit_blas_threads
from skpref.exceptions import DataError
from skpref.gp.latent.bound import Inputs, LatentHyper, bound_and_gradient, kernel_matrix, mapping_of
from skpref.inference.hyper import Optimum, maximise

if TYPE_CHECKING:
    from typing import Self

    from numpy.typing import ArrayLike

    from skpref._typing import Array

# Where the search starts decides where it ends, the bound having many optima. Far from certain coordinates, so that no
# detail is caught by one that principal components happen to have; and little noise, or what is smooth but small is
# taken for noise: on the oil-flow data two starts with a ratio of 5 ended some 2,000 nats below those with 50; on six
# other sets none with 50 ended more than 0.2 % below one with 5.
_SIGNAL_TO_NOISE = 50.0
_START_VARIANCE = 0.9
_CORRELATION = 0.25  # minus the logarithm of the kernel between rows at the mean distance
_ROUNDS, _ROUND = (30, 30, 40), 100  # iterations of the first rounds, and of all others
_MEMORY = 30
# Units of the variables, in which the bound is about as curved along all of them; the first two stand for a number of
# data each, so that means and variances come in posterior standard deviations.
_POINT, _SHARED, _WARP = 0.5, 3.0, 0.1
_WIDEST = 10  # latent dimensions by default
_STEPS, _GAIN = 200, 1e-5  # of the search for the input of a row: more changes nothing in the third decimal
_LOG_S, _LOG = (-15.0, 3.0), (-25.0, 15.0)


class BayesianGPLVM(ClassNamePrefixFeaturesOutMixin, TransformerMixin, CallbackMixin, BaseEstimator):
    """Bayesian Gaussian process latent variable model ([TL10]; [HFL13] section 4.3).

    Every feature is a smooth function, a Gaussian process with a squared exponential kernel, of a few coordinates that
    nobody has observed. Coordinates come with standard deviations, and those that are not needed are switched off: the
    length-scale of each (automatic relevance determination) is learnt by the same bound.

    Parameters
    ----------
    n_components : int, default=None
        Latent dimensions Q at most. None = as many as features, 10 at most: those that are not needed keep the
        prior's standard deviation of 1 in `embedding_std_`, and get a `relevance_` near 0.
    n_inducing : int, default=50
        Inducing points M; an iteration takes time n M^2 Q.
    max_iter : int, default=1000
        Iterations of L-BFGS-B, in rounds of 100 at most; the first 30 with the noise held at a fiftieth of the data's
        variance.
    tol : float, default=1e-4
        A round ends when an iteration gains less than a hundredth of this a number of the data, in nats, and the fit
        with a round that gains less than a hundred such iterations: 1.2 nats at 1,000 rows of 12 features, where
        starts end hundreds apart. As in `SVGPRegressor`, the size of the data is the measure, not that of the
        bound, which may be near 0.
    warm_start : bool, default=False
        Whether `fit` goes on from the earlier fit when it gets as many rows and features.
    verbose : int, default=0
        1 = a line every evaluation of the bound.
    random_state : int, RandomState instance, Generator or None, default=None
        Seed of the inducing points and of coordinates beyond the rank of the data.

    Attributes
    ----------
    embedding_ : ndarray of shape (n, Q)
        Posterior means of the rows' coordinates, most relevant first. Prior: N(0, 1) each.
    embedding_std_ : ndarray of shape (n, Q)
        Their posterior standard deviations.
    length_scale_ : ndarray of shape (Q,)
        In units of the prior's standard deviation; large = not used.
    relevance_ : ndarray of shape (Q,)
        Spread of a coordinate over the rows in units of its length-scale, squared: how far from straight the functions
        are along it. Falling; near 0 = straight, or not used at all, which `embedding_std_` near 1 tells.
    amplitude_ : float
        Standard deviation of the functions, in units of X.
    noise_ : float
        Standard deviation of the noise, in units of X.
    inducing_points_ : ndarray of shape (M, Q)
        Inducing inputs.
    mean_ : ndarray of shape (n_features,)
        Mean of X, taken off first.
    scale_ : float
        Root mean square of what remains, over all features: one number, so that features keep their proportions. Put
        a `StandardScaler` before to give all the same weight.
    lower_bound_ : float
        Bound on log p(X), in nats, on the scale of X.
    n_iter_ : int
        Iterations done.
    n_features_in_ : int
        Features seen by `fit`.
    feature_names_in_ : ndarray of shape (n_features,)
        Their names, if X has them.

    Raises
    ------
    ValueError
        At `fit`, if X is no finite table of at least two different rows, or a parameter is out of its range.

    Warns
    -----
    ConvergenceWarning
        If `max_iter` ends the fit.

    See Also
    --------
    sklearn.decomposition.PCA : The linear map this starts from.

    Notes
    -----
    The bound has many optima; principal components are where the search starts, and of fits with several seeds the one
    with the highest `lower_bound_` is the best. Time n M^2 Q an iteration, memory n (M + Q): all rows in every
    iteration.

    Examples
    --------
    >>> import numpy as np
    >>> from skpref import BayesianGPLVM
    >>> t = np.linspace(0.0, 3.0, 40)[:, None]
    >>> X = np.hstack([np.sin(t), np.cos(t), t])
    >>> model = BayesianGPLVM(2, n_inducing=12, random_state=0).fit(X)
    >>> bool(abs(np.corrcoef(model.embedding_[:, 0], t[:, 0])[0, 1]) > 0.95)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "n_inducing": [Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0.0, None, closed="left")],
        "warm_start": ["boolean"],
        "verbose": ["verbose"],
        "random_state": ["random_state", np.random.Generator],
    }

    def __init__(
        self,
        n_components: int | None = None,
        *,
        n_inducing: int = 50,
        max_iter: int = 1000,
        tol: float = 1e-4,
        warm_start: bool = False,
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.n_inducing = n_inducing
        self.max_iter = max_iter
        self.tol = tol
        self.warm_start = warm_start
        self.verbose = verbose
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike, y: None = None) -> Self:  # noqa: ARG002 - scikit-learn's signature
        """Find the coordinates of rows, and the functions from coordinates to features.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Rows.
        y : None
            Ignored.

        Returns
        -------
        BayesianGPLVM
            Itself.
        """
        with fit_callbacks(self, X), unchanged_on_failure(self):
            before = getattr(self, "mapping_", None) if self.warm_start else None
            table = validate_data(self, X, dtype=np.float64, ensure_min_samples=2)
            n, D = table.shape
            Q = min(D, _WIDEST) if self.n_components is None else self.n_components
            check_memory(n, min(self.n_inducing, n), whose="rows")
            mean, scale, Y = _standardised(table)
            if before is not None and self.embedding_.shape == (n, Q) and before.V.shape[1] == D:
                start, held = (Inputs(self.embedding_, self.embedding_std_**2), before.hyper), False
            else:
                start, held = _start(Y, Q, self.n_inducing, as_generator(self.random_state)), True
            with limit_blas_threads(start[1].Z.shape[0]):
                self._keep(Y, _Search(Y, start, self._show()).run(self.max_iter, self.tol, held=held), mean, scale)
        return self

    def _show(self) -> Any:
        return on_iteration(self, step="evaluation")

    def _keep(self, Y: Array, found: _Found, mean: Array, scale: float) -> None:
        # The search moves all rows together; each for itself, with the functions held, is where `transform` ends.
        mapping = mapping_of(Y, found.inputs, found.hyper)
        inputs, hyper = _ordered(mapping.infer(Y, found.inputs, max_iter=_STEPS, tol=_GAIN)[0], found.hyper)
        self.mapping_ = replace(mapping, hyper=hyper)
        self.mean_, self.scale_ = mean, scale
        self.embedding_, self.embedding_std_ = inputs.mu, np.sqrt(inputs.s)
        self.inducing_points_ = hyper.Z
        self.length_scale_ = np.exp(-0.5 * hyper.log_w)
        self.relevance_ = _relevance(inputs, hyper)
        self.amplitude_ = scale * float(np.exp(0.5 * hyper.log_a))
        self.noise_ = scale * float(np.exp(-0.5 * hyper.log_beta))
        self.lower_bound_ = bound_and_gradient(Y, inputs, hyper)[0] - Y.size * float(np.log(scale))
        self.n_iter_ = found.n_iter
        self._n_features_out = inputs.mu.shape[1]
        if not found.converged:
            warn_not_converged(self, self.n_iter_)

    def fit_transform(self, X: ArrayLike, y: None = None, **fit_params: Any) -> Array:
        """Fit, then `transform` the same rows.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Rows.
        y : None
            Ignored.
        **fit_params : dict
            None are known.

        Returns
        -------
        ndarray of shape (n, Q)
            Posterior means of their coordinates.
        """
        coordinates: Array = self.fit(X, y, **fit_params).transform(X)
        return coordinates

    def transform(self, X: ArrayLike, *, return_std: bool = False) -> Any:
        """Find the coordinates of rows, the functions held.

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

    def inverse_transform(self, X: ArrayLike, *, return_std: bool = False) -> Any:
        """Return the features at given coordinates.

        Parameters
        ----------
        X : array-like of shape (n, Q)
            Coordinates.
        return_std : bool, default=False
            Whether to return standard deviations too, of what would be observed: noise included.

        Returns
        -------
        mean : ndarray of shape (n, n_features)
            Expected features, in units of X at `fit`.
        std : ndarray of shape (n, n_features)
            Only with ``return_std=True``.
        """
        check_is_fitted(self)
        points = check_array(X, dtype=np.float64, input_name="X", estimator=self)
        if points.shape[1] != self._n_features_out:
            msg = f"X must have {self._n_features_out} columns, one a coordinate; got {points.shape[1]}."
            raise DataError(msg)
        # A variance this small is a point for the kernel, and its logarithm is finite.
        return self._features(Inputs(points, np.full(points.shape, np.finfo(np.float64).tiny)), return_std=return_std)

    def reconstruct(self, X: ArrayLike, *, return_std: bool = False) -> Any:
        """Return rows as the model sees them: `transform`, and back with the coordinates' uncertainty.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Rows.
        return_std : bool, default=False
            Whether to return standard deviations too, of what would be observed again.

        Returns
        -------
        mean : ndarray of shape (n, n_features)
            Expected features.
        std : ndarray of shape (n, n_features)
            Only with ``return_std=True``.
        """
        return self._features(self._infer(X)[0], return_std=return_std)

    def score_samples(self, X: ArrayLike) -> Array:
        """Return a lower bound on the log density of each row, in nats: low = unlike the rows of `fit`.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n,)
            Bounds.
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
            Nats a row.
        """
        return float(np.mean(self.score_samples(X)))

    def _infer(self, X: ArrayLike) -> tuple[Inputs, Array]:
        check_is_fitted(self)
        Y = (validate_data(self, X, dtype=np.float64, reset=False) - self.mean_) / self.scale_
        learnt = Inputs(self.embedding_, self.embedding_std_**2)
        # The row of `fit` that looks most alike says where to start; its features are known from its coordinates.
        looks = self.mapping_.mean(learnt)
        nearest = NearestNeighbors(n_neighbors=1).fit(looks).kneighbors(Y, return_distance=False)[:, 0]
        start = Inputs(learnt.mu[nearest], learnt.s[nearest])
        return self.mapping_.infer(Y, start, max_iter=_STEPS, tol=_GAIN)

    def _features(self, inputs: Inputs, *, return_std: bool) -> Any:
        if not return_std:
            return self.mean_ + self.scale_ * self.mapping_.mean(inputs)
        mean, variance = self.mapping_.moments(inputs)
        noise = np.exp(-self.mapping_.hyper.log_beta)
        return self.mean_ + self.scale_ * mean, self.scale_ * np.sqrt(variance + noise)


def _standardised(X: Array) -> tuple[Array, float, Array]:
    """Mean, common scale, and X without both."""
    with np.errstate(over="ignore", invalid="ignore"):
        mean = X.mean(axis=0)
        Y = X - mean
    # Divided first: squares of 1e200 are infinite.
    largest = float(np.abs(Y).max())
    if not np.isfinite(largest) or largest == 0.0:
        what = "all rows are the same" if largest == 0.0 else "differences overflow"
        msg = f"X must have rows that differ by finite amounts; {what}."
        raise DataError(msg)
    scale = largest * float(np.sqrt(np.mean((Y / largest) ** 2)))
    return mean, scale, Y / scale


def _start(Y: Array, Q: int, n_inducing: int, rng: np.random.Generator) -> tuple[Inputs, LatentHyper]:
    """Principal components as coordinates, and as length-scales what keeps rows at the mean distance alike."""
    n, D = Y.shape
    rank = min(Q, n - 1, D)
    pca = PCA(rank, random_state=int(rng.integers(2**31))).fit(Y)
    share = np.zeros(Q)
    share[:rank] = pca.explained_variance_ / pca.explained_variance_.sum()
    mu = 0.1 * rng.standard_normal((n, Q))
    used = np.flatnonzero(share > np.finfo(np.float64).eps)
    mu[:, used] = pca.transform(Y)[:, used] / np.sqrt(pca.explained_variance_[used])
    w = _CORRELATION * np.maximum(share, 1e-3)
    Z = np.array(inducing.choose(mu, n_inducing, rng=rng))
    hyper = LatentHyper(Z, np.log(w), 0.0, float(np.log(_SIGNAL_TO_NOISE)))
    return Inputs(mu, np.full((n, Q), _START_VARIANCE)), hyper


def _relevance(inputs: Inputs, hyper: LatentHyper) -> Array:
    spread: Array = np.exp(hyper.log_w) * inputs.mu.var(axis=0)
    return spread


def _ordered(inputs: Inputs, hyper: LatentHyper) -> tuple[Inputs, LatentHyper]:
    order = np.argsort(-_relevance(inputs, hyper), kind="stable")
    shown = Inputs(np.ascontiguousarray(inputs.mu[:, order]), np.ascontiguousarray(inputs.s[:, order]))
    return shown, hyper._replace(Z=np.ascontiguousarray(hyper.Z[:, order]), log_w=hyper.log_w[order])


@dataclass(frozen=True, eq=False)
class _Found:
    inputs: Inputs
    hyper: LatentHyper
    n_iter: int
    converged: bool


class _Search:
    """L-BFGS-B over everything at once, in rounds: means, log variances, Z, log w, log a, log beta, and warps.

    A round measures every variable in units in which the bound is about as curved along all of them: means in posterior
    standard deviations, Z in length-scales. What remains flat are smooth warps that take rows and inducing inputs along
    together, which the data hardly see. They get variables of their own: alpha moves whatever lies at x by
    root k(Z, x) alpha, root^T root the inverse of the kernel's matrix at the round's start. Units and warps of one
    round serve the next one badly, when rows have moved and have become surer.
    """

    def __init__(self, Y: Array, start: tuple[Inputs, LatentHyper], show: Any) -> None:
        self._Y, self._show, self._began = Y, show, time.perf_counter()
        self._inputs, self._hyper = start
        self._calls = self._most = 0
        self._best = -np.inf

    def run(self, max_iter: int, tol: float, *, held: bool) -> _Found:
        """Search until a round that ends by itself has gained next to nothing; `held`: noise in the first round."""
        self._most = max_iter
        n_iter, converged = 0, False
        little = _ROUND * 0.01 * tol * self._Y.size
        lengths = iter(_ROUNDS if held else ())
        while n_iter < max_iter and not converged:
            before, free = self._best, not held or n_iter > 0
            length = min(next(lengths, _ROUND), max_iter - n_iter)
            end = self._ascend(length, tol, held=not free and length < max_iter)
            n_iter += max(end.n_iter, 1)
            # Also where a fresh line search fails: gains are below the bound's rounding error then.
            converged = free and (end.converged or end.n_iter < length) and self._best - before < little
        return _Found(self._inputs, self._hyper, n_iter, converged)

    def _ascend(self, max_iter: int, tol: float, *, held: bool) -> Optimum:
        inputs, hyper = self._inputs, self._hyper
        variables = _Variables.around(inputs, hyper, self._Y.size)
        theta = variables.packed(Inputs(inputs.mu, np.log(inputs.s)), hyper)
        bounds = np.full((theta.size, 2), [-np.inf, np.inf])
        cuts = variables.cuts
        bounds[cuts[0] : cuts[1]] = _LOG_S
        bounds[cuts[2] : cuts[5]] = _LOG
        if held:
            bounds[cuts[3] : cuts[5]] = theta[cuts[3] : cuts[5], None]

        def objective(theta: Array) -> tuple[float, Array]:
            return self._objective(theta, variables)

        best = maximise(objective, theta, bounds, max_iter=max_iter, tol=tol, memory=_MEMORY, scale=variables.unit)
        self._inputs, self._hyper = variables.unpacked(best.theta)
        return best

    def _objective(self, theta: Array, variables: _Variables) -> tuple[float, Array]:
        inputs, hyper = variables.unpacked(theta)
        value, in_inputs, in_hyper = bound_and_gradient(self._Y, inputs, hyper)
        self._calls += 1
        self._best = max(self._best, value)
        if self._show is not None:
            seconds = time.perf_counter() - self._began
            self._show(Iteration(self._calls, max(self._most, self._calls), self._best, seconds))
        slope = variables.packed(in_inputs._replace(s=in_inputs.s * inputs.s), in_hyper)
        slope[variables.cuts[5] :] = variables.through_warps(in_inputs.mu, in_hyper.Z)
        return value / self._Y.size, slope / self._Y.size


@dataclass(frozen=True, eq=False)
class _Variables:
    """What a round searches over: how it is laid out, in which units, and the features of the warps."""

    shape: tuple[int, int]
    cuts: Any
    unit: Array
    rows: Array
    points: Array

    @classmethod
    def around(cls, inputs: Inputs, hyper: LatentHyper, size: int) -> _Variables:
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
            np.tile(_POINT * np.sqrt(M) * length, M),
            np.full(Q + 2, _SHARED),
            np.tile(_WARP * np.sqrt(size) * length, M),
        ]
        return cls((n, Q), cuts, np.concatenate(parts), rows, K @ root.T)

    def packed(self, inputs: Inputs, hyper: LatentHyper) -> Array:
        warps = np.zeros(self.rows.shape[1] * self.shape[1])
        parts = (inputs.mu.ravel(), inputs.s.ravel(), hyper.Z.ravel(), hyper.log_w, [hyper.log_a], [hyper.log_beta])
        return np.concatenate([*parts, warps])

    def through_warps(self, mu: Array, Z: Array) -> Array:
        """Gradient in the warps, from that in what they move."""
        return np.ravel(self.rows.T @ mu + self.points.T @ Z)

    def unpacked(self, theta: Array) -> tuple[Inputs, LatentHyper]:
        mu, log_s, Z, log_w, log_a, log_beta, warps = np.split(theta, self.cuts)
        alpha = warps.reshape(-1, self.shape[1])
        inputs = Inputs(mu.reshape(self.shape) + self.rows @ alpha, np.exp(log_s).reshape(self.shape))
        points = Z.reshape(alpha.shape) + self.points @ alpha
        return inputs, LatentHyper(points, log_w, float(log_a[0]), float(log_beta[0]))
