"""Gaussian processes for many rows: `SVGPRegressor`."""

from skpref.gp._sparse_regressor import SVGPRegressor

__all__ = ["SVGPRegressor"]
