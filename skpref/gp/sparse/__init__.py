"""Gaussian processes for many rows: `SVGPRegressor` and `SVGPClassifier`."""

from skpref.gp.sparse.classifier import SVGPClassifier
from skpref.gp.sparse.regressor import SVGPRegressor

__all__ = ["SVGPClassifier", "SVGPRegressor"]
