"""Log Phi, log s, and their derivatives.

Phi is the standard normal distribution function, phi its density and
s(z) = 1/(1 + exp(-z)). No other module computes log Phi: a floor or a jitter
put there costs the tails (log Phi(-10) = -53.23, with a floor of 1e-6 -13.8).
Every function is finite for |z| up to 1e6 and takes any shape.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.special import erfcx, expit, log_expit
from scipy.special import log_ndtr as _log_ndtr

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from skpref._typing import Array

SQRT_HALF: Final = float(np.sqrt(0.5))
_SQRT_TWO_OVER_PI: Final = float(np.sqrt(2.0 / np.pi))
LOG_TWO_PI: Final = float(np.log(2.0 * np.pi))
INVERSE_SQRT_TWO_PI: Final = float(1.0 / np.sqrt(2.0 * np.pi))
# Below this z the sum phi/Phi + z cancels (it tends to 1/|z|); the continued
# fraction is used instead. At -12 the sum still has 13 digits and 12 levels
# of the fraction have 16.
_FRACTION_BELOW: Final = -12.0
_FRACTION_LEVELS: Final = 12


def log_ndtr(z: ArrayLike) -> Array:
    """Logarithm of the standard normal distribution function, log Phi(z)."""
    return np.asarray(_log_ndtr(np.asarray(z, dtype=np.float64)))


def log_ndtr_derivatives(z: ArrayLike) -> tuple[Array, Array, Array]:
    """Values and first two derivatives of log Phi from one erfcx per element.

    With r = phi/Phi: l' = r and l'' = -r (r + z), which lies in [-1, 0].
    """
    z = np.asarray(z, dtype=np.float64)
    left = z < 0.0
    scaled = erfcx(SQRT_HALF * np.abs(z))
    half_square = 0.5 * z * z
    gauss = np.exp(-half_square)
    tail = 0.5 * scaled * gauss
    # One log1p serves both halves: log(erfcx/2) - z^2/2 and log(1 - Phi(-z)).
    value = np.log1p(np.where(left, 0.5 * scaled - 1.0, -tail))
    value = np.where(left, value - half_square, value)
    first = np.where(left, _SQRT_TWO_OVER_PI / scaled, INVERSE_SQRT_TWO_PI * gauss / (1.0 - tail))
    return value, first, -first * _ratio_plus(z, first)


def _ratio_plus(z: Array, ratio: Array) -> Array:
    """phi/Phi + z without cancellation, given the ratio."""
    total = np.asarray(ratio + z)
    far = z < _FRACTION_BELOW
    if np.any(far):
        # Laplace's continued fraction of the Mills ratio, its first level
        # taken off: phi/Phi = t + 1/(t + 2/(t + 3/(t + ...))), t = -z.
        t = -z[far]
        tail = t
        for level in range(_FRACTION_LEVELS, 1, -1):
            tail = t + level / tail
        total[far] = 1.0 / tail
    return total


def log_expit_derivatives(z: ArrayLike) -> tuple[Array, Array, Array]:
    """Values and first two derivatives of log s, s(z) = 1/(1 + exp(-z)).

    l' = s(-z) and l'' = -s(z) s(-z), which lies in [-1/4, 0].
    """
    z = np.asarray(z, dtype=np.float64)
    first = np.asarray(expit(-z))
    return np.asarray(log_expit(z)), first, np.asarray(-first * expit(z))
