"""Latent inputs of a Gaussian process: `BayesianGPLVM`, a nonlinear principal component analysis with uncertainty."""

from __future__ import annotations

import time
from dataclasses import dataclass
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, _fit_context
from sklearn.decomposition import PCA
from sklearn.neighbors import NearestNeighbors
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from skpref import inducing
from skpref._callbacks import Followed, followed
from skpref._estimator import check_memory, on_iteration, unchanged_on_failure, warn_not_converged
from skpref._math.random import as_generator
from skpref.exceptions import DataError
from skpref.gp._gplvm import Inputs, LatentHyper, bound_and_gradient, mapping_of
from skpref.inference.hyper import Optimum, maximise
from skpref.tracking.protocol import Iteration

if TYPE_CHECKING:
    from typing import Self

    from numpy.typing import ArrayLike

    from skpref._typing import Array

# Where the search starts decides where it ends, the bound having many optima. Far from certain coordinates and much
# noise first, so that no detail is caught by a coordinate that principal components happen to have: on a curve in five
# dimensions all of 12 starts found the one coordinate, none with a variance of 0.5 and a ratio of 100.
_SIGNAL_TO_NOISE = 5.0
_START_VARIANCE = 0.9
_CORRELATION = 0.25  # minus the logarithm of the kernel between rows at the mean distance
_FIRST = 0.1  # share of the iterations in which amplitude and noise are held
_WIDEST = 10  # latent dimensions by default
_STEPS, _GAIN = 200, 1e-5  # of the search for the input of a row: more changes nothing in the third decimal
_LOG_S, _LOG = (-15.0, 3.0), (-25.0, 15.0)


class BayesianGPLVM(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Followed, BaseEstimator):
    """Bayesian Gaussian process latent variable model ([TL10]; [HFL13] section 4.3).

    Every feature is a smooth function, a Gaussian process with a squared exponential kernel, of a few coordinates that
    nobody has observed. Coordinates come with standard deviations, and those that are not needed are switched off: the
    length-scale of each (automatic relevance determination) is learnt by the same bound.

    Parameters
    ----------
    n_components : int, default=None
        Latent dimensions Q at most. None = as many as features, 10 at most: those that are not needed get a
        `relevance_` near 0.
    n_inducing : int, default=50
        Inducing points M; an iteration takes time n M^2 Q.
    max_iter : int, default=1000
        Iterations of L-BFGS-B; the first tenth with the noise held at a fifth of the data's variance.
    tol : float, default=1e-4
        The fit ends when an iteration gains less than a hundredth of this, relative to the bound.
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
        Spread of a coordinate over the rows in units of its length-scale, squared: near 0 = not used. Falling.
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
    The bound has several optima; principal components are where the search starts. Time n M^2 Q an iteration, memory
    n (M + Q): all rows in every iteration.

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
        with followed(self, X), unchanged_on_failure(self):
            before = getattr(self, "mapping_", None) if self.warm_start else None
            table = validate_data(self, X, dtype=np.float64, ensure_min_samples=2)
            n, D = table.shape
            Q = min(D, _WIDEST) if self.n_components is None else self.n_components
            check_memory(n, min(self.n_inducing, n), whose="rows")
            mean, scale, Y = _standardised(table)
            if before is not None and self.embedding_.shape == (n, Q) and before.V.shape[1] == D:
                start, first = (Inputs(self.embedding_, self.embedding_std_**2), before.hyper), 0
            else:
                first = int(np.ceil(_FIRST * self.max_iter)) if self.max_iter > 1 else 0
                start = _start(Y, Q, self.n_inducing, as_generator(self.random_state))
            self._keep(Y, _Search(Y, start, self._show()).run(first, self.max_iter, self.tol), mean, scale)
        return self

    def _show(self) -> Any:
        return on_iteration(self, step="evaluation")

    def _keep(self, Y: Array, found: _Found, mean: Array, scale: float) -> None:
        # The search moves all rows together; each for itself is where `transform` ends.
        mapping = mapping_of(Y, found.inputs, found.hyper)
        inputs, hyper = _ordered(mapping.infer(Y, found.inputs, max_iter=_STEPS, tol=_GAIN)[0], found.hyper)
        self.mapping_ = mapping_of(Y, inputs, hyper)
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
    """L-BFGS-B over everything at once: means, log variances, Z, log w, log a, log beta."""

    def __init__(self, Y: Array, start: tuple[Inputs, LatentHyper], show: Any) -> None:
        inputs, hyper = start
        self._Y, self._show, self._began = Y, show, time.perf_counter()
        self._n, self._Q = inputs.mu.shape
        self._cuts = np.cumsum([inputs.mu.size, inputs.s.size, hyper.Z.size, self._Q, 1])
        self._theta = self._packed(Inputs(inputs.mu, np.log(inputs.s)), hyper)
        self._calls = self._most = 0
        self._best = -np.inf

    def run(self, first: int, max_iter: int, tol: float) -> _Found:
        """Search with amplitude and noise held, then with everything free."""
        self._most = max_iter
        n_iter = 0
        if first:
            n_iter = self._ascend(first, tol, held=True).n_iter
        best = self._ascend(max(max_iter - n_iter, 1), tol, held=False)
        return _Found(*self._unpacked(self._theta), n_iter + best.n_iter, best.converged)

    def _ascend(self, max_iter: int, tol: float, *, held: bool) -> Optimum:
        bounds = np.full((self._theta.size, 2), [-np.inf, np.inf])
        bounds[self._cuts[0] : self._cuts[1]] = _LOG_S
        bounds[self._cuts[2] :] = _LOG
        if held:
            bounds[self._cuts[3] :] = self._theta[self._cuts[3] :, None]
        best = maximise(self._objective, self._theta, bounds, max_iter=max_iter, tol=tol)
        self._theta = best.theta
        return best

    def _objective(self, theta: Array) -> tuple[float, Array]:
        inputs, hyper = self._unpacked(theta)
        value, in_inputs, in_hyper = bound_and_gradient(self._Y, inputs, hyper)
        self._calls += 1
        self._best = max(self._best, value)
        if self._show is not None:
            seconds = time.perf_counter() - self._began
            self._show(Iteration(self._calls, max(self._most, self._calls), self._best, seconds))
        return value, self._packed(in_inputs._replace(s=in_inputs.s * inputs.s), in_hyper)

    def _packed(self, inputs: Inputs, hyper: LatentHyper) -> Array:
        parts = (inputs.mu.ravel(), inputs.s.ravel(), hyper.Z.ravel(), hyper.log_w, [hyper.log_a], [hyper.log_beta])
        return np.concatenate(parts)

    def _unpacked(self, theta: Array) -> tuple[Inputs, LatentHyper]:
        mu, log_s, Z, log_w, log_a, log_beta = np.split(theta, self._cuts)
        inputs = Inputs(mu.reshape(self._n, self._Q), np.exp(log_s).reshape(self._n, self._Q))
        return inputs, LatentHyper(Z.reshape(-1, self._Q), log_w, float(log_a[0]), float(log_beta[0]))
