"""Ordinal regression."""

from skpref.gp.ordinal.estimator import GPOrdinalRegressor

__all__ = ["GPOrdinalRegressor"]
