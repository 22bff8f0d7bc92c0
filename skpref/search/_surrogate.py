"""A Gaussian process over settings: what a trial would find, and what finding more would be worth."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from scipy.linalg import cho_solve, solve_triangular
from scipy.spatial.distance import cdist
from scipy.special import erfcx, ndtr

from skpref._math import linalg
from skpref.inference.hyper import maximise

if TYPE_CHECKING:
    from skpref._typing import Array, BoolArray

_LOG_2PI = np.log(2.0 * np.pi)
_FAR: Final = -1.0  # standard deviations, below which an improvement is taken by its asymptotic form
# Priors of log hyper-parameters of values with variance 1: length-scales that grow with the root of the number of
# settings (or nothing would resemble anything), a scale near 1, and noise of some 5 %: in words, most searches are of
# few settings that matter and of scores that jump a little.
_LENGTH: Final = (np.log(0.5), 1.0)
_SCALE: Final = (0.0, 1.0)
_NOISE: Final = (np.log(0.05), 1.5)
_REACH: Final = 3.0  # standard deviations of the priors, between which each lies


class Scales(NamedTuple):
    """Hyper-parameters."""

    inverse_squares: Array  # (d,): 1 / l_j^2, with l_j the length-scale of a setting
    scale: float  # variance of the function
    noise: float  # variance of what is seen of it


def learnt(X: Array, y: Array, variances: Array, choices: BoolArray) -> Scales:
    """Learn hyper-parameters as the mode of their posterior."""
    d = X.shape[1]
    unit = float(np.std(y)) or 1.0
    z, extra, D = (y - np.mean(y)) / unit, variances / unit**2, squares(X, X, choices)
    centre = np.append(np.full(d, _LENGTH[0] + 0.5 * np.log(d)), [_SCALE[0], _NOISE[0]])
    width = np.append(np.full(d, _LENGTH[1]), [_SCALE[1], _NOISE[1]])
    bounds = np.column_stack([centre - _REACH * width, centre + _REACH * width])
    posterior = partial(log_posterior, D=D, z=z, variances=extra, centre=centre, width=width)
    theta = maximise(posterior, centre, bounds, max_iter=30).theta
    s2, noise = unit**2 * np.exp(2.0 * theta[d:])
    return Scales(np.exp(-2.0 * theta[:d]), float(s2), float(noise))


@dataclass(frozen=True, eq=False)
class Surrogate:
    """Posterior of a function of settings in the unit cube: a radial Matern-5/2 kernel, noise, and a constant mean."""

    X: Array  # (n, d): settings that were tried; a number lies between 0 and 1, of a choice it is the place in its list
    y: Array  # (n,): values
    variances: Array  # (n,): of what is known of a value, beside the noise of all
    choices: BoolArray  # which are choices: two of them are equal or at distance 1
    scales: Scales  # hyper-parameters
    mean: float  # of the function
    _L: Array = field(init=False)
    _weights: Array = field(init=False)

    def __post_init__(self) -> None:
        L = linalg.cholesky(self._covariance(self.X) + np.diag(self.scales.noise + self.variances))
        object.__setattr__(self, "_L", L)
        object.__setattr__(self, "_weights", cho_solve((L, True), self.y - self.mean))

    def believing(self, X: Array) -> Surrogate:
        """Return the posterior with other settings, whose values are to come, at their means."""
        return replace(
            self,
            X=np.concatenate([self.X, X]),
            y=np.append(self.y, self.predict(X)[0]),
            variances=np.append(self.variances, np.zeros(len(X))),
        )

    def predict(self, X: Array) -> tuple[Array, Array]:
        """Return mean and variance of what would be seen at other settings, noise included, shape (m,)."""
        K = self._covariance(X)
        A = solve_triangular(self._L, K, lower=True)
        variance = np.maximum(self.scales.scale - np.einsum("nm,nm->m", A, A), 0.0)
        return self.mean + K.T @ self._weights, variance + self.scales.noise

    def _covariance(self, X: Array) -> Array:
        numbers, by = ~self.choices, self.scales.inverse_squares
        width = np.sqrt(by[numbers])
        r2 = cdist(self.X[:, numbers] * width, X[:, numbers] * width, "sqeuclidean")
        for j in np.flatnonzero(self.choices):
            r2 += by[j] * (self.X[:, j, None] != X[None, :, j])
        return self.scales.scale * _matern(r2)[0]


def log_posterior(
    theta: Array, *, D: Array, z: Array, variances: Array, centre: Array, width: Array
) -> tuple[float, Array]:
    """Return evidence and normal prior of the logarithms of length-scales, scale and noise, both but for a constant."""
    d = len(D)
    K, slope = _matern(np.tensordot(np.exp(-2.0 * theta[:d]), D, 1))
    s2, noise = np.exp(2.0 * theta[d:])
    L = linalg.cholesky(s2 * K + np.diag(noise + variances))
    a = cho_solve((L, True), z)
    W = np.outer(a, a) - cho_solve((L, True), np.eye(len(z)))
    by_length = -s2 * np.exp(-2.0 * theta[:d]) * np.tensordot(D, W * slope, 2)
    gradient = np.append(by_length, [s2 * np.sum(W * K), noise * np.trace(W)])
    off = (theta - centre) / width
    value = -0.5 * float(z @ a) - float(np.sum(np.log(np.diagonal(L)))) - 0.5 * float(off @ off)
    return value, gradient - off / width


def squares(X: Array, Z: Array, choices: BoolArray) -> Array:
    """Return squared distances of settings, each by itself, shape (d, n, m)."""
    D = np.square(X.T[:, :, None] - Z.T[:, None, :])
    D[choices] = D[choices] > 0.0
    return D


def log_expected_improvement(best: float, mean: Array, variance: Array) -> Array:
    """Return log E max(best - y, 0) of normal y."""
    sd = np.sqrt(variance)
    u = (best - mean) / sd
    near = np.maximum(u, _FAR)
    far = np.minimum(u, _FAR)
    # phi(u) + u Phi(u) = phi(u) (1 - |u| m(|u|)) with Mills' ratio m; for large |u| the bracket is 1 / u^2 nearly.
    short = 1.0 + far * np.sqrt(0.5 * np.pi) * erfcx(-far / np.sqrt(2.0))
    bracket = np.where(far > -1e3, short, 1.0 / np.square(far))
    tail = -0.5 * (np.square(far) + _LOG_2PI) + np.log(bracket)
    body = np.log(np.exp(-0.5 * (np.square(near) + _LOG_2PI)) + near * ndtr(near))
    return np.where(u > _FAR, body, tail) + np.log(sd)


def _matern(r2: Array) -> tuple[Array, Array]:
    """Matern-5/2 of squared distances over squared length-scales, and its derivative by them."""
    r = np.sqrt(5.0 * r2)
    fall = np.exp(-r)
    return (1.0 + r + r * r / 3.0) * fall, -5.0 / 6.0 * (1.0 + r) * fall
