"""Bayesian preference learning for scikit-learn users."""

from skpref.data.tables import Table
from skpref.gp.pairwise import GPPLClassifier, GPPLRegressor

__all__ = ["GPPLClassifier", "GPPLRegressor", "Table"]
__version__ = "0.1.0"
