"""The collapsed bound of Gaussian observations, q(v) at its optimum (docs/maths section 11).

It depends on the data through sums only: Phi^T W Phi, Phi^T W Y and three numbers, with the whitened rows Phi of the
inducing basis. Where inputs are uncertain, expectations of the sums (psi statistics) take their place.

With noise precision beta, B = I + beta Phi^T W Phi, S = B^-1 and m = beta S Phi^T W Y, for D columns of Y:

    L = D/2 (sum w (log beta - log 2 pi) - log|B| - beta (sum w k - tr Phi^T W Phi)) - beta/2 sum w y^2
        + beta/2 tr (Phi^T W Y)^T m.

The full step of `svi` gives the same q from any state, since the site of a Gaussian observation is exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from skpref._checks import check_arrays, check_positive
from skpref._math.linalg import cholesky_precision, log_det, product, solve_lower, solve_lower_t
from skpref._math.special import LOG_TWO_PI
from skpref.inference.blocks import DenseBlock
from skpref.inference.exact import inverse_spd

if TYPE_CHECKING:
    from skpref._typing import Array


@dataclass(frozen=True, eq=False)
class Moments:
    """The sums over observations that determine the collapsed bound; sums of two samples add up."""

    gram: Array  # (M, M): sum_i w_i phi_i phi_i^T, both triangles
    cross: Array  # (M, D): sum_i w_i phi_i y_i^T
    prior: float  # sum_i w_i k(x_i, x_i)
    square: float  # sum_i w_i |y_i|^2
    weight: float  # sum_i w_i

    def validate(self) -> None:
        """Raise DataError unless the parts fit together."""
        check_arrays(self, gram="M M", cross="M D")
        check_positive(self, "prior", "square", zero=True)
        check_positive(self, "weight")

    def __add__(self, other: Moments) -> Moments:
        """Return the sums over the observations of both."""
        return Moments(
            self.gram + other.gram,
            self.cross + other.cross,
            self.prior + other.prior,
            self.square + other.square,
            self.weight + other.weight,
        )


class Collapsed(NamedTuple):
    """The bound, the optimal q and the gradients."""

    value: float  # L, in nats
    mean: Array  # (M, D): m
    precision: Array  # (M, M): b
    gram: Array  # (M, M): gradients in the sums of the same name; in `prior` it is -D beta/2
    cross: Array  # (M, M): gradients in the sums of the same name; in `prior` it is -D beta/2
    log_beta: float  # gradient in log beta

    @property
    def block(self) -> DenseBlock:
        """q(v) of the first column of Y."""
        return DenseBlock(self.precision, product(self.precision, self.mean)[:, 0])


def collapse(moments: Moments, beta: float) -> Collapsed:
    """Return the bound at its best q, with its gradients."""
    A, b, n_outputs = moments.gram, moments.cross, moments.cross.shape[1]
    precision = beta * A
    precision.flat[:: A.shape[0] + 1] += 1.0
    chol = cholesky_precision(precision)
    mean = solve_lower_t(chol, solve_lower(chol, beta * np.asfortranarray(b)))
    S = inverse_spd(chol)
    unexplained = moments.prior - float(np.trace(A))
    fitted = float(np.sum(b * mean))
    value = 0.5 * n_outputs * (moments.weight * (np.log(beta) - LOG_TWO_PI) - log_det(chol) - beta * unexplained)
    value += 0.5 * beta * (fitted - moments.square)
    # tr(S A) = (M - tr S) / beta, without a product.
    spent = (S.shape[0] - float(np.trace(S))) / beta
    inner = float(np.sum(mean * product(A, mean)))
    log_beta = 0.5 * n_outputs * (moments.weight / beta - spent - unexplained) - 0.5 * moments.square + fitted
    in_gram = -n_outputs * S
    in_gram -= product(mean, mean.T)
    in_gram.flat[:: A.shape[0] + 1] += n_outputs
    in_gram *= 0.5 * beta
    return Collapsed(float(value), mean, precision, in_gram, beta * mean, float(beta * (log_beta - 0.5 * inner)))
