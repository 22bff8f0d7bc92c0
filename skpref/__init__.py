"""Bayesian preference learning for scikit-learn users.

The public names are loaded when they are first used, so that `import skpref` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from skpref._version import __version__ as __version__

if TYPE_CHECKING:
    from skpref._show_versions import show_versions
    from skpref.data.design import OneHotDesign
    from skpref.data.tables import Table
    from skpref.factorization.fm import VariationalFM
    from skpref.factorization.fm_classifier import VariationalFMClassifier
    from skpref.factorization.fm_ordinal import VariationalFMOrdinal
    from skpref.factorization.ipm3f import GibbsIPM3F
    from skpref.factorization.m3f import GibbsM3F
    from skpref.gp.crowd import CrowdGPPL
    from skpref.gp.latent import BayesianGPLVM
    from skpref.gp.ordinal import GPOrdinalRegressor
    from skpref.gp.pairwise import GPPLClassifier, GPPLRegressor
    from skpref.gp.sparse import SVGPClassifier, SVGPRegressor
    from skpref.persistence import load, save
    from skpref.settings import LBFGS, SVI, Adam, Checkpoint, FactorPrior, Fixed, Gamma, Inducing

__all__ = [
    "LBFGS",
    "SVI",
    "Adam",
    "BayesianGPLVM",
    "Checkpoint",
    "CrowdGPPL",
    "FactorPrior",
    "Fixed",
    "GPOrdinalRegressor",
    "GPPLClassifier",
    "GPPLRegressor",
    "Gamma",
    "GibbsIPM3F",
    "GibbsM3F",
    "Inducing",
    "OneHotDesign",
    "SVGPClassifier",
    "SVGPRegressor",
    "Table",
    "VariationalFM",
    "VariationalFMClassifier",
    "VariationalFMOrdinal",
    "load",
    "save",
    "show_versions",
]

_HOMES = {
    "LBFGS": "skpref.settings",
    "SVI": "skpref.settings",
    "Adam": "skpref.settings",
    "BayesianGPLVM": "skpref.gp.latent",
    "Checkpoint": "skpref.settings",
    "CrowdGPPL": "skpref.gp.crowd",
    "FactorPrior": "skpref.settings",
    "Fixed": "skpref.settings",
    "GPOrdinalRegressor": "skpref.gp.ordinal",
    "GPPLClassifier": "skpref.gp.pairwise",
    "GPPLRegressor": "skpref.gp.pairwise",
    "Gamma": "skpref.settings",
    "GibbsIPM3F": "skpref.factorization.ipm3f",
    "GibbsM3F": "skpref.factorization.m3f",
    "Inducing": "skpref.settings",
    "OneHotDesign": "skpref.data.design",
    "SVGPClassifier": "skpref.gp.sparse",
    "SVGPRegressor": "skpref.gp.sparse",
    "Table": "skpref.data.tables",
    "VariationalFM": "skpref.factorization.fm",
    "VariationalFMClassifier": "skpref.factorization.fm_classifier",
    "VariationalFMOrdinal": "skpref.factorization.fm_ordinal",
    "load": "skpref.persistence",
    "save": "skpref.persistence",
    "show_versions": "skpref._show_versions",
}


_SUBMODULES = (
    *("dask", "data", "datasets", "elicitation", "exceptions", "gp", "inducing", "kernels", "likelihoods"),
    *("metrics", "persistence", "plots", "search", "settings", "testing", "tracking"),
)


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the name stands for
    if name in _SUBMODULES:
        return import_module(f"skpref.{name}")
    if name not in _HOMES:
        msg = f"module 'skpref' has no attribute {name!r}"
        raise AttributeError(msg)
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *_SUBMODULES, *(name for name in globals() if name.startswith("__"))})
