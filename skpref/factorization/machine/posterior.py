"""Posterior of a factorization machine, in the units of the target (docs/maths section 9)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from skpref._checks import check_positive, check_types, require
from skpref.exceptions import DataError
from skpref.factorization.machine.fit import overflow_message
from skpref.factorization.machine.model import Machine, compressed

if TYPE_CHECKING:
    from skpref._typing import Array, Features


@dataclass(frozen=True)
class FMPosterior:
    """The machine that predicts, the last iterate, and the units of the targets."""

    machine: Machine  # for (y - offset)/scale
    last: Machine  # for (y - offset)/scale
    offset: float  # 0 in classification
    scale: float  # 1 in classification

    def validate(self) -> None:
        """Raise DataError unless the parts fit together."""
        check_types(self, machine=Machine, last=Machine, offset=float)
        check_positive(self, "scale")
        require(1e-150 < self.scale < 1e150, self, "scale", "must have a square in the range of floats")
        shape, kind = self.machine.mean.shape, type(self.machine.likelihood)
        require(self.last.mean.shape == shape, self, "last", f"must be of shape {shape}")
        require(type(self.last.likelihood) is kind, self, "last", "has another likelihood")

    def moments(self, X: Features, *, last: bool = False) -> tuple[Array, Array]:
        """Return mean and variance of y(x), without noise, shape (n,)."""
        rows = compressed(X)
        mu, v = (self.last if last else self.machine).moments(rows)
        mean, variance = self.offset + self.scale * mu, self.scale**2 * v
        if not (np.isfinite(mean).all() and np.isfinite(variance).all()):
            raise DataError(overflow_message(rows, mean, variance))
        return mean, variance

    def covariance(self, X: Features) -> Array:
        """Return the covariance of y(x) between rows, without noise, shape (n, n)."""
        machine, squares = self.machine, X.multiply(X).tocsr()
        m, C = machine.mean, machine.with_posterior(full=True).variance
        # x_k (1, Q - q_k), the derivatives of y(x) in the weight and factors of feature k.
        jacobian = [X, *(X.multiply((X @ v)[:, None]).tocsr() - squares * v for v in m.T[1:])]
        total = sparse.csr_array((X.shape[0], X.shape[0]))
        for a, b in product(range(m.shape[1]), repeat=2):
            if not machine.full and a != b:
                continue
            total = total + (jacobian[a] * C[:, a, b]) @ jacobian[b].T
            if a > 0 and b > 0:
                pairs = ((X * C[:, a, b]) @ X.T).toarray() ** 2 - ((squares * C[:, a, b] ** 2) @ squares.T).toarray()
                total = total + sparse.csr_array(0.5 * pairs)
        return self.scale**2 * (total.toarray() + machine.bias.variance)

    def draws(self, X: Features, n_samples: int, rng: np.random.Generator) -> Array:
        """Draw y(x) without noise; each column has one draw of all parameters, shape (n, n_samples)."""
        out, machine, weights = np.empty((X.shape[0], n_samples)), self.machine, X.multiply(X).tocsr()
        root = np.linalg.cholesky(machine.variance) if machine.full else np.sqrt(machine.variance)
        for s in range(n_samples):
            noise = rng.standard_normal(machine.mean.shape)
            theta = machine.mean + (np.einsum("kab,kb->ka", root, noise) if machine.full else root * noise)
            w, V = theta[:, 0], theta[:, 1:]
            # [VRK22] section III: half the square of the sum, minus the sum of squares.
            pairs = 0.5 * (((X @ V) ** 2).sum(axis=1) - (weights @ V**2).sum(axis=1))
            bias = machine.bias.mean + np.sqrt(machine.bias.variance) * rng.standard_normal()
            out[:, s] = self.offset + self.scale * (bias + X @ w + pairs)
        return out
