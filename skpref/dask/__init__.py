"""Estimators on collections of Dask: the same parameters and results as in memory, on a cluster."""

from skpref.dask.classifier import DaskGPPLClassifier
from skpref.dask.crowd import DaskCrowdGPPL
from skpref.dask.feature_classifier import DaskSVGPClassifier
from skpref.dask.group_regressor import DaskGPPLRegressor
from skpref.dask.machine import DaskVariationalFM
from skpref.dask.machine_classifier import DaskVariationalFMClassifier
from skpref.dask.machine_ordinal import DaskVariationalFMOrdinal
from skpref.dask.ratings import DaskGibbsM3F
from skpref.dask.regressor import DaskSVGPRegressor

__all__ = [
    "DaskCrowdGPPL",
    "DaskGPPLClassifier",
    "DaskGPPLRegressor",
    "DaskGibbsM3F",
    "DaskSVGPClassifier",
    "DaskSVGPRegressor",
    "DaskVariationalFM",
    "DaskVariationalFMClassifier",
    "DaskVariationalFMOrdinal",
]
