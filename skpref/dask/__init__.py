"""Estimators on collections of Dask: the same parameters and results as in memory, on a cluster."""

from skpref.dask.estimators import DaskGPPLClassifier

__all__ = ["DaskGPPLClassifier"]
