"""Models that GPOrdinalRegressor is compared with, under one interface, `OrdinalFitPredict` of `_ordinal_data`.

==========  ==========================================================================
name        what it is
==========  ==========================================================================
constant    frequencies of the training levels; its mode is the majority class
mord-at     mord's `LogisticAT`: linear, ridge, logistic loss at every threshold
mord-it     mord's `LogisticIT`: the same at the two thresholds around the level
probit      statsmodels' `OrderedModel(distr="probit")`: linear, no ridge
gpr         `GaussianProcessRegressor` on level numbers, constant x RBF (one
            length-scale) + white noise; a level's probability is the Gaussian's between
            the half-levels around it.  Its own level: the mean, rounded
gpr-ard     the same with a length-scale a feature
svm         Frank & Hall: an `SVC` (Gaussian kernel) a threshold, one C and kappa for
            all; its own level: the number of thresholds passed.  Probabilities: Platt's
            sigmoid a threshold, sorted where they cross
plain-ep    the paper's model as one would write it in numpy: parallel EP, one
            length-scale, L-BFGS-B on log Z_EP from the paper's start.  The yardstick of
            speed, and what the paper's figures are worth on these files
==========  ==========================================================================

How each is tuned, on the training rows alone (folds are shuffled):

- mord: alpha among `ALPHAS` by log-loss, 5 folds.  mord gives probability 0 to a level whose thresholds coincide.
- svm: the paper's first grid for (log10 C, log10 kappa), 7 x 7 in [-3, 3]^2, then the 8 neighbours of its best node at
  half a step (the paper: 81 in steps of 0.2); 5 folds, 3 from `LARGE` training rows on.  Chosen by ranked probability
  score.
- gpr, gpr-ard: marginal likelihood, `RESTARTS` random restarts, none from `LARGE` rows on.
- probit: nothing to tune.  Where it has nearly as many features as rows it separates the levels and is sure of them.

Levels that a training part lacks get probability 0 from mord and probit, which know only what they have seen; the
frequencies count half an observation more of every level; the Gaussian and the sigmoids know them anyway.
"""

from __future__ import annotations

import itertools
import time
import warnings
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from _ordinal_data import OrdinalFitPredict, OrdinalPrediction, OrdinalSplit, median_level
from _rivals import NotApplicableError, library
from scipy.linalg import cho_solve, cholesky, solve_triangular
from scipy.optimize import minimize
from scipy.special import expit, log_ndtr, ndtr
from scipy.stats import norm
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import SVC

from skpref.metrics import ranked_probability_score

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from _data import FloatArray, IntArray
    from numpy.typing import NDArray

#: Ridge of mord.
ALPHAS: Final = (1e-2, 1e-1, 1.0, 1e1, 1e2, 1e3)

#: Training rows from which on an inner search is smaller.
LARGE: Final = 600

#: Random restarts of the marginal likelihood of Gaussian process regression, below `LARGE`.
RESTARTS: Final = 2

#: log10 C and log10 kappa of the first search of the SVM.
COARSE: Final = tuple(itertools.product(np.arange(-3.0, 3.5), repeat=2))

#: Iterations of libsvm at most: with C = 1000 and noisy levels it might take minutes.
SVM_ITERATIONS: Final = 100_000


# ------------------------------------------------------------------------ common parts
def folds(y: IntArray, n_folds: int) -> Iterator[tuple[IntArray, IntArray]]:
    """Shuffled folds, stratified as far as the levels go round."""
    with warnings.catch_warnings():
        # A level with fewer rows than folds is missing in some: the rivals are told how to do without.
        warnings.filterwarnings("ignore", message="The least populated class")
        yield from StratifiedKFold(n_folds, shuffle=True, random_state=0).split(y[:, None], y)


def of_cumulative(cumulative: FloatArray) -> FloatArray:
    """Probabilities of the levels from those to lie at or below each but the last."""
    return np.diff(np.clip(cumulative, 0.0, 1.0), axis=1, prepend=0.0, append=1.0)


def log_loss(p: FloatArray, y: IntArray) -> float:
    """Mean log-loss in nats; floored well above the final score's, so one sure mistake does not choose alone."""
    return float(-np.mean(np.log(np.maximum(p[np.arange(y.size), y], 1e-6))))


def on_present_levels(
    fit: Callable[[FloatArray, IntArray], Callable[[FloatArray], FloatArray]], X: FloatArray, y: IntArray, n_levels: int
) -> Callable[[FloatArray], FloatArray]:
    """Fit a model that wants levels 0..k-1 without gaps; those it has not seen have probability 0."""
    present, code = np.unique(y, return_inverse=True)
    predict = fit(X, code)

    def probabilities(x: FloatArray) -> FloatArray:
        p = np.zeros((x.shape[0], n_levels))
        p[:, present] = predict(x)
        return p

    return probabilities


# ---------------------------------------------------------------------------- constant
def constant(split: OrdinalSplit, params: dict[str, Any]) -> OrdinalPrediction:
    """Training frequencies."""
    del params
    start = time.process_time()
    counts = np.bincount(split.train_y, minlength=split.n_levels) + 0.5
    seconds = time.process_time() - start
    return OrdinalPrediction(np.tile(counts / counts.sum(), (split.test_y.size, 1)), seconds)


# -------------------------------------------------------------------------------- mord
def _mord(name: str, split: OrdinalSplit) -> OrdinalPrediction:
    kind = getattr(library("mord"), name)

    def fitted(alpha: float, rows: IntArray) -> Callable[[FloatArray], FloatArray]:
        def fit(X: FloatArray, y: IntArray) -> Callable[[FloatArray], FloatArray]:
            if y.max() == 0:
                return lambda x: np.ones((x.shape[0], 1))
            return kind(alpha=alpha).fit(X, y).predict_proba

        return on_present_levels(fit, split.train_X[rows], split.train_y[rows], split.n_levels)

    start = time.process_time()
    losses = np.zeros(len(ALPHAS))
    for train, held in folds(split.train_y, 5):
        for a, alpha in enumerate(ALPHAS):
            losses[a] += held.size * log_loss(fitted(alpha, train)(split.train_X[held]), split.train_y[held])
    alpha = ALPHAS[int(np.argmin(losses))]
    model = fitted(alpha, np.arange(split.train_y.size))
    seconds = time.process_time() - start
    p = model(split.test_X)
    # mord's `predict` counts the thresholds below w.x: with its logistic noise, the median.
    return OrdinalPrediction(p, seconds, own=median_level(p), chosen=f"alpha {alpha:g}")


def mord_at(split: OrdinalSplit, params: dict[str, Any]) -> OrdinalPrediction:
    """All-threshold logistic regression."""
    del params
    return _mord("LogisticAT", split)


def mord_it(split: OrdinalSplit, params: dict[str, Any]) -> OrdinalPrediction:
    """Immediate-threshold logistic regression."""
    del params
    return _mord("LogisticIT", split)


# -------------------------------------------------------------------------- statsmodels
def probit(split: OrdinalSplit, params: dict[str, Any]) -> OrdinalPrediction:
    """Ordered probit by maximum likelihood."""
    del params
    ordered = library("statsmodels.miscmodels.ordinal_model").OrderedModel
    converged: list[bool] = []

    def fit(X: FloatArray, y: IntArray) -> Callable[[FloatArray], FloatArray]:
        model = ordered(y, X, distr="probit")
        found = model.fit(method="bfgs", maxiter=1000, disp=False)
        converged.append(bool(found.mle_retvals["converged"]))
        return lambda x: np.asarray(model.predict(found.params, exog=x))

    start = time.process_time()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        # Separated levels: the likelihood has no maximum, its Hessian no inverse.
        warnings.simplefilter("ignore")
        model = on_present_levels(fit, split.train_X, split.train_y, split.n_levels)
        seconds = time.process_time() - start
        p = np.clip(model(split.test_X), 0.0, 1.0)
    total = p.sum(axis=1, keepdims=True)
    if not np.isfinite(p).all() or (total <= 0.0).any():
        raise NotApplicableError("OrderedModel's parameters are not finite")
    return OrdinalPrediction(p / total, seconds, chosen="" if converged[0] else "not converged")


# ---------------------------------------------------------- Gaussian process regression
def _gpr(split: OrdinalSplit, *, ard: bool) -> OrdinalPrediction:
    n, d = split.train_X.shape
    scale = np.full(d, np.sqrt(d)) if ard else np.sqrt(d)
    kernel = ConstantKernel(1.0) * RBF(scale) + WhiteKernel(0.5)
    model = GaussianProcessRegressor(
        kernel, normalize_y=True, n_restarts_optimizer=RESTARTS if n < LARGE else 0, random_state=0
    )
    start = time.process_time()
    with warnings.catch_warnings():
        # An irrelevant feature's length-scale runs to its bound, which scikit-learn remarks on.
        warnings.simplefilter("ignore")
        model.fit(split.train_X, split.train_y)
    seconds = time.process_time() - start
    mean, sd = model.predict(split.test_X, return_std=True)
    half_levels = np.arange(split.n_levels - 1) + 0.5
    return OrdinalPrediction(
        of_cumulative(ndtr((half_levels - mean[:, None]) / sd[:, None])),
        seconds,
        own=np.clip(np.rint(mean), 0, split.n_levels - 1).astype(np.int64),
        chosen="" if ard else str(model.kernel_),
    )


def gpr(split: OrdinalSplit, params: dict[str, Any]) -> OrdinalPrediction:
    """Gaussian process regression on level numbers."""
    del params
    return _gpr(split, ard=False)


def gpr_ard(split: OrdinalSplit, params: dict[str, Any]) -> OrdinalPrediction:
    """The same with a length-scale a feature."""
    del params
    return _gpr(split, ard=True)


# -------------------------------------------------------------------------------- SVM
Node = tuple[float, float]
Sigmoid = tuple[float, float]


def machines(inner: FloatArray, cross: FloatArray, y: IntArray, n_levels: int, node: Node) -> FloatArray:
    """Train a machine a threshold and return their values at other rows.

    Parameters
    ----------
    inner, cross : ndarray of shape (n, n), (n_rows, n)
        Squared distances between the training rows, and of other rows to them.
    y : ndarray of shape (n,)
        Training levels.
    n_levels : int
        r.
    node : tuple of float
        log10 C, log10 kappa.

    Returns
    -------
    ndarray of shape (n_rows, r - 1)
        Positive: above the threshold.
    """
    K, k_cross = (np.exp(-0.5 * 10.0 ** node[1] * D) for D in (inner, cross))
    values = np.empty((cross.shape[0], n_levels - 1))
    for k in range(n_levels - 1):
        above = y > k
        if above.all() or not above.any():
            values[:, k] = 1.0 if above.all() else -1.0
        else:
            machine = SVC(C=10.0 ** node[0], kernel="precomputed", max_iter=SVM_ITERATIONS)
            values[:, k] = machine.fit(K, above).decision_function(k_cross)
    return values


def platt(value: FloatArray, above: NDArray[np.bool_]) -> Sigmoid:
    """Slope >= 0 and intercept of Platt's sigmoid, with his targets that keep it from 0 and 1."""
    n_above = float(np.sum(above))
    n_below = above.size - n_above
    target = np.where(above, (n_above + 1.0) / (n_above + 2.0), 1.0 / (n_below + 2.0))

    def loss(ab: FloatArray) -> tuple[float, FloatArray]:
        z = ab[0] * value + ab[1]
        residual = expit(z) - target
        return float(np.sum(np.logaddexp(0.0, z) - target * z)), np.array([residual @ value, residual.sum()])

    start = np.array([1.0, np.log((n_above + 1.0) / (n_below + 1.0))])
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=((0.0, None), (None, None)))
    return float(found.x[0]), float(found.x[1])


def calibrated(values: FloatArray, sigmoids: list[Sigmoid]) -> FloatArray:
    """Probabilities of the levels; sigmoids that cross are sorted, which brings them no further from monotone ones."""
    below = np.column_stack([expit(-a * f - b) for f, (a, b) in zip(values.T, sigmoids, strict=True)])
    return of_cumulative(np.sort(below, axis=1))


class SVMSearch:
    """Out-of-fold values of the machines at the nodes of a grid, and what they are worth once calibrated."""

    def __init__(self, D: FloatArray, y: IntArray, n_levels: int) -> None:
        self.D, self.y, self.n_levels = D, y, n_levels
        self.folds = list(folds(y, 5 if y.size < LARGE else 3))
        self.tried: dict[Node, tuple[float, list[Sigmoid]]] = {}

    def risk(self, node: Node) -> float:
        """Ranked probability score of a node."""
        if node not in self.tried:
            values = np.empty((self.y.size, self.n_levels - 1))
            for train, held in self.folds:
                inner, cross = self.D[np.ix_(train, train)], self.D[np.ix_(held, train)]
                values[held] = machines(inner, cross, self.y[train], self.n_levels, node)
            sigmoids = [platt(values[:, k], self.y > k) for k in range(self.n_levels - 1)]
            p = calibrated(values, sigmoids)
            self.tried[node] = ranked_probability_score(self.y, p, labels=np.arange(self.n_levels)), sigmoids
        return self.tried[node][0]

    def best(self) -> Node:
        """The best node of the coarse grid and then of its neighbours."""
        log_c, log_kappa = min(COARSE, key=self.risk)
        steps = (0.0, -0.5, 0.5)
        return min(((log_c + i, log_kappa + j) for i, j in itertools.product(steps, repeat=2)), key=self.risk)


def svm(split: OrdinalSplit, params: dict[str, Any]) -> OrdinalPrediction:
    """Frank & Hall's reduction to binary support vector machines."""
    del params
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Solver terminated early")
        start = time.process_time()
        D = euclidean_distances(split.train_X, squared=True)
        search = SVMSearch(D, split.train_y, split.n_levels)
        node = search.best()
        cross = euclidean_distances(split.test_X, split.train_X, squared=True)
        values = machines(D, cross, split.train_y, split.n_levels, node)
        seconds = time.process_time() - start
    p = calibrated(values, search.tried[node][1])
    own = np.sum(values > 0.0, axis=1)
    return OrdinalPrediction(p, seconds, own=own, chosen=f"log10 C {node[0]:g}, log10 kappa {node[1]:g}")


# --------------------------------------------------------------------- EP in plain numpy
#: Largest move of a mean, in posterior standard deviations, at which EP stops.
TOLERANCE: Final = 1e-5

#: Rounds of EP at most.
ROUNDS: Final = 200


def log_band(low: FloatArray, high: FloatArray) -> FloatArray:
    """log(Phi(high) - Phi(low)) in the lower tail, by logs: a line search may throw thresholds 50 deviations away."""
    flip = low > 0.0
    below, above = np.where(flip, -high, low), np.where(flip, -low, high)
    return log_ndtr(above) + np.log1p(-np.exp(np.minimum(log_ndtr(below) - log_ndtr(above), -1e-15)))


class Moments(NamedTuple):
    """log Z of the tilted distributions, their first and minus their second derivative in the cavity mean."""

    log_z: FloatArray
    slope: FloatArray
    curvature: FloatArray
    density: tuple[FloatArray, FloatArray]
    weighted: FloatArray


def _moments(m: FloatArray, v: FloatArray, low: FloatArray, high: FloatArray, noise: float) -> Moments:
    sd = np.sqrt(v + noise**2)
    z1, z2 = (high - m) / sd, (low - m) / sd
    log_z = log_band(z2, z1)
    phi1, phi2 = np.exp(norm.logpdf(z1) - log_z), np.exp(norm.logpdf(z2) - log_z)
    # At the infinite outer thresholds z phi is 0.
    weighted = np.where(np.isfinite(z1), z1, 0.0) * phi1 - np.where(np.isfinite(z2), z2, 0.0) * phi2
    slope = -(phi1 - phi2) / sd
    return Moments(log_z, slope, slope**2 + weighted / sd**2, (phi1 / sd, phi2 / sd), weighted)


class PlainEP:
    """Gaussian process ordinal regression by EP, one length-scale and unit amplitude ([CG05] appendix B)."""

    def __init__(self, D: FloatArray, y: IntArray, n_levels: int, n_features: int) -> None:
        self.D, self.y, self.n_levels = D, y, n_levels
        self.tau, self.nu = np.zeros(y.size), np.zeros(y.size)
        # The paper's start: log kappa, log sigma, b_1, log Delta.
        self.theta = np.r_[-np.log(n_features), 0.0, -1.0, np.full(n_levels - 2, np.log(2.0 / n_levels))]
        self.n_evaluations = 0

    def thresholds(self) -> FloatArray:
        """All r + 1 of them, the outer ones infinite."""
        return np.r_[-np.inf, np.cumsum(np.r_[self.theta[2], np.exp(self.theta[3:])]), np.inf]

    def inference(self) -> tuple[float, FloatArray]:
        """Run EP at `theta` from the present sites; log Z_EP and its gradient."""
        self.n_evaluations += 1
        kappa, noise = np.exp(self.theta[:2])
        b = self.thresholds()
        low, high = b[self.y], b[self.y + 1]
        self.K = np.exp(-0.5 * kappa * self.D)
        step, last = 1.0, np.inf
        for i in range(ROUNDS):
            root = np.sqrt(self.tau)
            self.L = cholesky(np.eye(root.size) + root[:, None] * self.K * root, lower=True)
            V = solve_triangular(self.L, root[:, None] * self.K, lower=True)
            variance = 1.0 - np.einsum("ij,ij->j", V, V)
            mean = self.K @ self.nu - V.T @ (V @ self.nu)
            cavity_tau = 1.0 / variance - self.tau
            v = 1.0 / cavity_tau
            m = v * (mean / variance - self.nu)
            tilted = _moments(m, v, low, high, noise)
            tau = tilted.curvature / (1.0 - v * tilted.curvature)
            nu = (tilted.slope + m * tilted.curvature) / (1.0 - v * tilted.curvature)
            gap = np.max(np.abs(m + v * tilted.slope - mean) / np.sqrt(variance))
            if gap < TOLERANCE or i == ROUNDS - 1:
                break
            # Sites that move together may jump to and fro: shorter steps where the gap does not fall.
            step, last = (step if gap < last else max(0.7 * step, 0.1)), gap
            # The paper's rule: a site that would not be positive stays as it is.
            sound = (tau > 0.0) & np.isfinite(tau) & np.isfinite(nu)
            self.tau = np.where(sound, self.tau + step * (tau - self.tau), self.tau)
            self.nu = np.where(sound, self.nu + step * (nu - self.nu), self.nu)
        log_z = (
            np.sum(tilted.log_z)
            - np.sum(np.log(np.diag(self.L)))
            + 0.5 * np.sum(np.log1p(self.tau * v))
            + 0.5 * (self.nu @ mean - np.sum(self.nu**2 / (cavity_tau + self.tau)))
            + 0.5 * np.sum(m * cavity_tau * (self.tau * m - 2.0 * self.nu) / (cavity_tau + self.tau))
        )
        inverse = root[:, None] * cho_solve((self.L, True), np.diag(root))
        self.weights = self.nu - inverse @ (self.K @ self.nu)
        # Sites are held: at the fixed point log Z_EP does not change with them.
        inner = np.outer(self.weights, self.weights) - inverse
        in_kappa = -0.25 * kappa * np.sum(inner * self.D * self.K)
        in_noise = -np.sum(tilted.weighted * noise**2 / (v + noise**2))
        upper, lower = tilted.density
        in_b = np.bincount(self.y, upper, self.n_levels)[:-1] - np.bincount(self.y, lower, self.n_levels)[1:]
        # b_j is b_1 and all steps up to j.
        in_steps = np.cumsum(in_b[::-1])[::-1]
        return float(log_z), np.r_[in_kappa, in_noise, in_steps[0], in_steps[1:] * np.exp(self.theta[3:])]

    def fit(self) -> PlainEP:
        """Maximise log Z_EP."""
        best, sites = -np.inf, (self.tau, self.nu)

        def minus_evidence(theta: FloatArray) -> tuple[float, FloatArray]:
            nonlocal best, sites
            # From the best sites so far: a line search's first step may go far, and its sites do not come back.
            self.theta, (self.tau, self.nu) = theta.copy(), sites
            value, gradient = self.inference()
            if value > best:
                best, sites = value, (self.tau, self.nu)
            return -value, -gradient

        bounds = [(-12.0, 6.0), (-5.0, 4.0), (-10.0, 10.0)] + [(-8.0, 4.0)] * (self.n_levels - 2)
        found = minimize(minus_evidence, self.theta, jac=True, method="L-BFGS-B", bounds=bounds)
        self.theta, (self.tau, self.nu) = found.x, sites
        self.log_z, _ = self.inference()
        return self

    def predict(self, D: FloatArray) -> FloatArray:
        """Probabilities at rows with squared distances D to the training rows."""
        kappa, noise = np.exp(self.theta[:2])
        k = np.exp(-0.5 * kappa * D)
        half = solve_triangular(self.L, np.sqrt(self.tau)[:, None] * k.T, lower=True)
        sd = np.sqrt(noise**2 + 1.0 - np.einsum("ij,ij->j", half, half))
        return of_cumulative(ndtr((self.thresholds()[1:-1] - (k @ self.weights)[:, None]) / sd[:, None]))


def plain_ep(split: OrdinalSplit, params: dict[str, Any]) -> OrdinalPrediction:
    """EP with one length-scale, as one would write it in numpy."""
    del params
    X = split.train_X
    start = time.process_time()
    model = PlainEP(euclidean_distances(X, squared=True), split.train_y, split.n_levels, X.shape[1]).fit()
    seconds = time.process_time() - start
    p = model.predict(euclidean_distances(split.test_X, X, squared=True))
    kappa, noise = np.exp(model.theta[:2])
    chosen = f"log Z {model.log_z:.2f}, {model.n_evaluations} evaluations, kappa {kappa:.3g}, noise {noise:.3g}"
    return OrdinalPrediction(p, seconds, chosen=chosen)


#: Rivals by the name used on the command line.
RIVALS: dict[str, OrdinalFitPredict] = {
    "constant": constant,
    "mord-at": mord_at,
    "mord-it": mord_it,
    "probit": probit,
    "gpr": gpr,
    "gpr-ard": gpr_ard,
    "svm": svm,
    "plain-ep": plain_ep,
}
