"""GPPL: Gaussian-process preference learning, for rows that are items and for rows that are comparisons."""

from skpref.gp.pairwise.classifier import GPPLClassifier
from skpref.gp.pairwise.regressor import GPPLRegressor

__all__ = ["GPPLClassifier", "GPPLRegressor"]
