"""Gaussian processes for many rows: `SVGPRegressor` and `SVGPClassifier`."""

from skpref.gp._sparse_classifier import SVGPClassifier
from skpref.gp._sparse_regressor import SVGPRegressor

__all__ = ["SVGPClassifier", "SVGPRegressor"]
