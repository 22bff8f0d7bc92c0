"""Ties after Davidson (1970): a tie has nu times the geometric mean of the weights of the two wins.

    p(left | z) = exp(z/2) / D,   p(right | z) = exp(-z/2) / D,   p(tie | z) = nu / D,   D = 2 cosh(z/2) + nu.

Given that there is no tie this is the logit, so that a tie says as much about z as half a win of each side. For the
nearest zero of D, |Im z| is between pi and 2 pi: expectations need no more nodes than those of the logit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from skpref._math.quadrature import expectation as gaussian_expectation
from skpref.exceptions import DataError
from skpref.likelihoods.base import Likelihood
from skpref.likelihoods.policy import POLICY
from skpref.likelihoods.ties import share_of_left

if TYPE_CHECKING:
    from skpref._typing import Array
    from skpref.likelihoods.base import Triple

__all__ = ["PairwiseDavidson"]


@dataclass(frozen=True)
class PairwiseDavidson(Likelihood):
    """Bradley-Terry with ties, after Davidson ([D70]); y = 1 left, 0 right, exactly 0.5 a tie.

    Other labels in [0, 1] are soft: y log p(y=1) + (1 - y) log p(y=0).

    Parameters
    ----------
    nu : float, default=1.0
        Weight of ties: equal items tie with probability nu / (2 + nu), so that the default is the prior guess of a
        third.
    learn : bool, default=True
        Whether a fit learns `nu`. False: it is known.

    Raises
    ------
    DataError
        If `nu` is not positive and finite, or `learn` is no bool.

    Examples
    --------
    >>> import numpy as np
    >>> from skpref.likelihoods import PairwiseDavidson
    >>> PairwiseDavidson(1.0).predict_answers(np.zeros(1), np.zeros(1)).round(4).tolist()
    [[0.3333, 0.3333, 0.3333]]
    """

    ties_are_answers: ClassVar[bool] = True
    bends_over: ClassVar[float] = 1.0
    n_levels: ClassVar[int] = 3

    nu: float = 1.0
    learn: bool = True

    def __post_init__(self) -> None:
        """Check the parameter."""
        if not (np.isfinite(self.nu) and self.nu > 0.0):
            raise DataError(f"nu must be a positive finite number; got {self.nu!r}. Equal items tie with nu / (2 + nu)")
        if not isinstance(self.learn, bool):
            raise DataError(f"learn must be True or False; got {self.learn!r}")

    @property
    def has_parameters(self) -> bool:
        """Whether `learnt` fits nu."""
        return self.learn

    def _log_answers(self, z: Array) -> Triple:
        """Return log p of left, tie and right."""
        size = np.abs(z)
        log_total = 0.5 * size + np.log1p(np.exp(-size) + self.nu * np.exp(-0.5 * size))
        return 0.5 * z - log_total, np.log(self.nu) - log_total, -0.5 * z - log_total

    def _derivatives(self, y: Array, z: Array) -> Triple:
        left, tie, right = self._log_answers(z)
        value = np.where(y == 0.5, tie, y * left + (1.0 - y) * right)
        p, q = np.exp(left), np.exp(right)
        return value, (y - 0.5) - 0.5 * (p - q), 0.25 * ((p - q) ** 2 - (p + q))

    def _predict(self, mu: Array, v: Array) -> Array:
        return share_of_left(self.predict_answers(mu, v))

    def predict_answers(self, mu: Array, v: Array) -> Array:
        """Return the probabilities of the answers.

        Parameters
        ----------
        mu, v : ndarray of shape (n,)
            Means and variances (>= 0) of z.

        Returns
        -------
        ndarray of shape (n, 3)
            Left, tie, right. Rows sum to 1.
        """
        return np.stack(gaussian_expectation(lambda z: tuple(map(np.exp, self._log_answers(z))), mu, v), axis=-1)

    def learnt(self, y: Array, mu: Array, v: Array, weight: Array) -> Self:
        """Return the likelihood after a Newton step in log nu on sum_i w_i E[log p] over N(mu, v).

        Parameters
        ----------
        y, mu, v, weight : ndarray of shape (n,)
            Labels, means and variances of z, weights.

        Returns
        -------
        PairwiseDavidson
            The step is halved until the objective, which is concave in log nu, does not fall.
        """
        if not self.learn:
            return self

        def moments(z: Array) -> Triple:
            log_p = self._log_answers(z)
            tie = np.exp(log_p[1])
            return log_p[1], tie, tie * (1.0 - tie)

        _, tied, bend = np.stack(gaussian_expectation(moments, mu, v)) @ weight
        slope = float(weight @ (y == 0.5) - tied)
        step = float(np.clip(slope / max(bend, POLICY.least_curvature), -1.0, 1.0))
        value = weight @ self._expectation(y, mu, v)[0]
        for _ in range(POLICY.halvings if abs(step) >= POLICY.least_step else 0):
            trial = replace(self, nu=self.nu * float(np.exp(step)))
            if weight @ trial._expectation(y, mu, v)[0] >= value:  # noqa: SLF001 - its own class
                return trial
            step *= 0.5
        return self
