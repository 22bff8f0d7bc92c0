"""The softmax likelihood: one function for each of many classes.

log p(c | f) = f_c - log sum_k exp(f_k), for a vector f of shape (K,).  It has no site in one projection, so it is no
`Likelihood`: `skpref.inference.softmax` finds the mode of all functions together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from skpref._typing import Array

__all__ = ["Softmax"]


@dataclass(frozen=True)
class Softmax:
    """Softmax (multinomial logit) likelihood of classes without an order.

    Examples
    --------
    >>> from skpref.likelihoods import Softmax
    >>> Softmax().predict([[0.0, 0.0], [0.0, 100.0]]).tolist()
    [[0.5, 0.5], [3.720075976020836e-44, 1.0]]
    """

    def log_prob(self, f: ArrayLike) -> Array:
        """Return log p(c | f) of all classes.

        Parameters
        ----------
        f : array_like of shape (n, n_classes)
            Values of the functions.

        Returns
        -------
        ndarray of shape (n, n_classes)
            log p(c | f), in nats.
        """
        f = np.asarray(f, dtype=np.float64)
        shifted = f - f.max(axis=1, keepdims=True)
        return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True)))

    def predict(self, f: ArrayLike) -> Array:
        """Return the probabilities of all classes.

        Parameters
        ----------
        f : array_like of shape (n, n_classes)
            Values of the functions.

        Returns
        -------
        ndarray of shape (n, n_classes)
            p(c | f); rows sum to 1.
        """
        return np.asarray(np.exp(self.log_prob(f)))
