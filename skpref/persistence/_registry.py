"""The fixed lists of what a file may hold. A class that stands in none of them is neither saved nor loaded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any


class _Listed(Mapping[str, type[Any]]):
    """Classes by name, each imported when it is asked for: who saves one estimator needs not load all the others."""

    def __init__(self, homes: Mapping[str, str]) -> None:
        self._homes = {name: home for home, names in homes.items() for name in names.split()}

    def __getitem__(self, name: str) -> type[Any]:
        found: type[Any] = getattr(import_module(self._homes[name]), name)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._homes)

    def __len__(self) -> int:
        return len(self._homes)


# A new estimator is one word here (and a check of its own in _checks.py if its parts depend on each other).
ESTIMATORS = _Listed(
    {
        "sklearn.pipeline": "Pipeline",
        "skpref.data": "OneHotDesign",
        "skpref.factorization.fm": "VariationalFM VariationalFMClassifier",
        "skpref.factorization.ipm3f": "GibbsIPM3F",
        "skpref.factorization.m3f": "GibbsM3F",
        "skpref.gp.crowd": "CrowdGPPL",
        "skpref.gp.latent": "BayesianGPLVM",
        "skpref.gp.ordinal": "GPOrdinalRegressor",
        "skpref.gp.pairwise": "GPPLClassifier GPPLRegressor",
        "skpref.gp.sparse": "SVGPClassifier SVGPRegressor",
    }
)  # a Pipeline: of our own steps
# Frozen dataclasses and named tuples, saved field by field.
RECORDS = _Listed(
    {
        "skpref.data": "Comparisons",
        "skpref.data.ratings": "Ratings",
        "skpref.factorization.machine.model": "Bias Machine Prior",
        "skpref.factorization.machine.posterior": "FMPosterior",
        "skpref.factorization.max_margin.posterior": "Factors IPM3FPosterior M3FPosterior RatingVocabularies",
        "skpref.gp.crowd.posterior": "CrowdPosterior FactorPosterior",
        "skpref.gp.latent.bound": "LatentHyper LatentMapping",
        "skpref.gp.posterior": "ExactLatent SparseLatent",
        "skpref.gp.ordinal.fit": "OrdinalMember",
        "skpref.gp.pairwise.posterior": "PairPosterior",
        "skpref.gp.entities": "Entities",
        "skpref.inference.basis": "InducingBasis",
        "skpref.inference.blocks": "DenseBlock DiagonalBlock StackedBlock",
        "skpref.inference.collapsed": "Moments",
        "skpref.inference.gibbs": "Chain",
        "skpref.inference.scale": "FixedScale GammaScale",
        "skpref.inference.svi": "State",
        "skpref.inference.terms.base": "Segment",
        "skpref.likelihoods": "Gaussian OrdinalProbit PairwiseLogit PairwiseProbit PairwiseProbitTies Poisson StudentT",
    }
)
# Saved by get_params. Ours and scikit-learn's have different names, so one list serves both.
KERNELS = _Listed(
    {
        "sklearn.gaussian_process.kernels": "ConstantKernel DotProduct Exponentiation Matern Product RBF "
        "RationalQuadratic Sum WhiteKernel",
        "skpref.kernels": "AdditiveMatern Identity Linear ProductMatern",
    }
)
