"""Differences of the normal distribution function in logs: what compiled bands are compared with."""

import numpy as np

from skpref._math.special import log_ndtr

LEGENDRE_X, LEGENDRE_W = np.polynomial.legendre.leggauss(12)


def log_diff_ndtr(upper, lower):
    """Return log(Phi(upper) - Phi(lower)), narrow intervals (width * (1 + |middle|) < 1) by quadrature."""
    a, b = np.broadcast_arrays(np.asarray(lower, dtype=np.float64), np.asarray(upper, dtype=np.float64))
    reflect = a > -b  # so that left tails are taken apart
    low, high = np.where(reflect, -b, a), np.where(reflect, -a, b)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        middle, width = 0.5 * (low + high), high - low
        t = 0.5 * width[..., None] * LEGENDRE_X
        mean = 0.5 * np.exp(-middle[..., None] * t - 0.5 * t * t) @ LEGENDRE_W
        narrow = np.log(width) + np.log(mean) - 0.5 * middle * middle - 0.5 * np.log(2.0 * np.pi)
        wide = log_ndtr(high) + np.log1p(-np.exp(log_ndtr(low) - log_ndtr(high)))
    return np.where(width * (1.0 + np.abs(middle)) < 1.0, narrow, wide)
