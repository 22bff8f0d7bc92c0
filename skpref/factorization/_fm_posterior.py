"""What a fitted factorization machine keeps, in the units of the target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from skpref.exceptions import DataError
from skpref.factorization._fm_fit import overflow
from skpref.factorization._fm_model import lines_of

if TYPE_CHECKING:
    from skpref._typing import Array, Features
    from skpref.factorization._fm_model import Machine


@dataclass(frozen=True)
class FMPosterior:
    """The machine that predicts, the last iterate, and what the targets were standardised by.

    Parameters
    ----------
    machine, last : Machine
        Of (y - offset)/scale. They are the same where nothing is averaged.
    offset, scale : float
        0 and 1 in classification.
    """

    machine: Machine
    last: Machine
    offset: float
    scale: float

    def moments(self, X: Features, *, last: bool = False) -> tuple[Array, Array]:
        """Return mean and variance of y(x), without noise.

        Parameters
        ----------
        X : CSR matrix of shape (n, K)
            Canonical.
        last : bool, default=False
            Whether to ask the last iterate.

        Returns
        -------
        mean, variance : ndarray of shape (n,)
            In units of y.

        Raises
        ------
        DataError
            If a number leaves the range of floating point.
        """
        rows = lines_of(X)
        mu, v = (self.last if last else self.machine).moments(rows)
        mean, variance = self.offset + self.scale * mu, self.scale**2 * v
        if not (np.isfinite(mean).all() and np.isfinite(variance).all()):
            raise DataError(overflow(rows, mean, variance))
        return mean, variance

    def covariance(self, X: Features) -> Array:
        """Return the covariance of y(x) between rows, without noise.

        Parameters
        ----------
        X : CSR matrix of shape (n, K)
            Canonical; n^2 numbers are returned.

        Returns
        -------
        ndarray of shape (n, n)
            Exact under q: maths.md section 9 for two rows; its diagonal is the variance.
        """
        machine, squares = self.machine, X.multiply(X).tocsr()
        C = (X * machine.variance[:, 0]) @ X.T
        for m, s2 in zip(machine.mean.T[1:], machine.variance.T[1:], strict=True):
            Q = X @ m
            # x_k (Q - q_k): what row i sees of the others where it meets feature k.
            J = X.multiply(Q[:, None]).tocsr() - squares * m
            B = ((X * s2) @ X.T).toarray()
            C = C + (J * s2) @ J.T + sparse.csr_array(0.5 * (B**2 - ((squares * s2**2) @ squares.T).toarray()))
        return self.scale**2 * (C.toarray() + machine.bias.variance)

    def draws(self, X: Features, n_samples: int, rng: np.random.Generator) -> Array:
        """Draw y(x), without noise: each column belongs to one draw of all parameters.

        Parameters
        ----------
        X : CSR matrix of shape (n, K)
            Canonical.
        n_samples : int
            Number of draws.
        rng : Generator
            Draws.

        Returns
        -------
        ndarray of shape (n, n_samples)
            In units of y.
        """
        out, machine, weights = np.empty((X.shape[0], n_samples)), self.machine, X.multiply(X).tocsr()
        for s in range(n_samples):
            theta = machine.mean + np.sqrt(machine.variance) * rng.standard_normal(machine.mean.shape)
            w, V = theta[:, 0], theta[:, 1:]
            # [VRK22] section III: half of what the square of a sum has beyond the sum of squares.
            pairs = 0.5 * (((X @ V) ** 2).sum(axis=1) - (weights @ V**2).sum(axis=1))
            bias = machine.bias.mean + np.sqrt(machine.bias.variance) * rng.standard_normal()
            out[:, s] = self.offset + self.scale * (bias + X @ w + pairs)
        return out
