"""Estimators on collections of Dask: the same parameters and results as in memory, on a cluster."""

from skpref.dask.classifier import DaskGPPLClassifier
from skpref.dask.regressor import DaskSVGPRegressor

__all__ = ["DaskGPPLClassifier", "DaskSVGPRegressor"]
