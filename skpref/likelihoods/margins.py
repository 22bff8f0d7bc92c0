"""Margins of a comparison, such as goal differences, as numbers: the noisy difference itself, in units of its own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Final, Self

import numpy as np
from scipy.special import ndtr

from skpref.exceptions import DataError
from skpref.likelihoods.base import Likelihood
from skpref.likelihoods.gaussian import Gaussian
from skpref.likelihoods.ties import share_of_left

if TYPE_CHECKING:
    from skpref._typing import Array
    from skpref.likelihoods.base import Triple

__all__ = ["PairwiseMargin"]

_STANDARD: Final = Gaussian()
_LEAST: Final = float(np.finfo(np.float64).eps)  # distance of labels from 0 and 1, which would be infinite margins


@dataclass(frozen=True)
class PairwiseMargin(Likelihood):
    """A margin is scale (z + e), e ~ N(0, 1), so that left wins with probability Phi(z) where there are no ties.

    Labels are y = (1 + m / (1 + abs(m))) / 2 of the margin m, as of soft labels: 1/2 a tie, above it left is ahead.

    Parameters
    ----------
    scale : float, default=1.0
        Standard deviation of the noise, in units of margins; `learnt` fits it.
    step : float, default=0.0
        Distance of margins from each other, 1 for goals: a tie is then a noisy margin within half of it from 0.

    Raises
    ------
    DataError
        If `scale` is not positive and finite, or `step` is negative or not finite.

    Examples
    --------
    >>> import numpy as np
    >>> from skpref.likelihoods import PairwiseMargin
    >>> PairwiseMargin(1.5, step=1.0).predict_answers(np.zeros(1), np.zeros(1)).round(4).tolist()
    [[0.3694, 0.2611, 0.3694]]
    """

    ties_are_answers: ClassVar[bool] = True
    n_levels: ClassVar[int] = 3

    scale: float = 1.0
    step: float = 0.0

    def __post_init__(self) -> None:
        """Check the parameters."""
        for name, least in (("scale", np.nextafter(0.0, 1.0)), ("step", 0.0)):
            value = getattr(self, name)
            if not (np.isfinite(value) and value >= least):
                what = "positive" if least else "non-negative"
                raise DataError(f"{name} must be a {what} finite number; got {value!r}, in units of margins")

    @staticmethod
    def labels_of(margin: Array) -> Array:
        """Return margins as labels from 0 to 1.

        Parameters
        ----------
        margin : ndarray of shape (n,)
            Margins, positive where left is ahead.

        Returns
        -------
        ndarray of shape (n,)
            The labels.
        """
        return np.asarray(0.5 + 0.5 * margin / (1.0 + np.abs(margin)))

    def _scaled(self, y: Array) -> Array:
        """Return the margins of labels, over the scale."""
        t = 2.0 * y - 1.0
        return np.asarray(t / (np.maximum(1.0 - np.abs(t), _LEAST) * self.scale))

    def _derivatives(self, y: Array, z: Array) -> Triple:
        value, first, second = _STANDARD.derivatives(self._scaled(y), z)
        return value - np.log(self.scale), first, second

    def _expectation(self, y: Array, mu: Array, v: Array) -> Triple:
        value, first, second = _STANDARD.expectation(self._scaled(y), mu, v)
        return value - np.log(self.scale), first, second

    def _tilted(self, y: Array, mu: Array, v: Array) -> Triple:
        value, first, second = _STANDARD.tilted(self._scaled(y), mu, v)
        return value - np.log(self.scale), first, second

    def _predict(self, mu: Array, v: Array) -> Array:
        return share_of_left(self.predict_answers(mu, v))

    def predict_answers(self, mu: Array, v: Array) -> Array:
        """Return the probabilities of the results.

        Parameters
        ----------
        mu, v : ndarray of shape (n,)
            Means and variances (>= 0) of z.

        Returns
        -------
        ndarray of shape (n, 3)
            Left ahead, tie, right ahead. Rows sum to 1.
        """
        width, half = np.sqrt(1.0 + v), 0.5 * self.step / self.scale
        left, right = ndtr((mu - half) / width), ndtr((-mu - half) / width)
        return np.stack([left, np.maximum(1.0 - left - right, 0.0), right], axis=-1)

    def learnt(self, y: Array, mu: Array, v: Array, weight: Array) -> Self:
        """Return the likelihood with the scale that is best for sum_i w_i E[log p] over N(mu, v).

        Parameters
        ----------
        y, mu, v, weight : ndarray of shape (n,)
            Labels, means and variances of z, weights.

        Returns
        -------
        PairwiseMargin
            1 / scale is the root of a quadratic equation.
        """
        del v
        m = self._scaled(y)
        squares, along = float(weight @ m**2), float(weight @ (m * mu))
        if not squares > 0.0:
            return self
        inverse = (along + np.sqrt(along**2 + 4.0 * squares * weight.sum())) / (2.0 * squares)
        return replace(self, scale=self.scale / float(inverse))
