"""GPPL: Gaussian-process preference learning, for rows that are items and for rows that are comparisons."""

from skpref.gp._pairwise_classifier import GPPLClassifier
from skpref.gp._pairwise_regressor import GPPLRegressor

__all__ = ["GPPLClassifier", "GPPLRegressor"]
