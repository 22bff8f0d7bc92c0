"""The fixed lists of what a file may hold. A class that stands in none of them is neither saved nor loaded."""

from __future__ import annotations

from typing import Any

from sklearn.gaussian_process import kernels as sklearn_kernels
from sklearn.pipeline import Pipeline

from skpref import kernels
from skpref.data import Comparisons, OneHotDesign
from skpref.data.ratings import Ratings
from skpref.factorization._fm_model import Bias, Machine, Prior
from skpref.factorization._fm_posterior import FMPosterior
from skpref.factorization._m3f_posterior import Factors, IPM3FPosterior, M3FPosterior
from skpref.factorization._max_margin import Known
from skpref.factorization.fm import VariationalFM, VariationalFMClassifier
from skpref.factorization.ipm3f import GibbsIPM3F
from skpref.factorization.m3f import GibbsM3F
from skpref.gp._crowd_posterior import CrowdPosterior, FactorPosterior
from skpref.gp._gplvm import LatentHyper, LatentMapping
from skpref.gp._latent_posterior import ExactLatent, SparseLatent
from skpref.gp._ordinal_fit import OrdinalMember, OrdinalStart
from skpref.gp._pair_posterior import PairPosterior
from skpref.gp._roster import Roster
from skpref.gp._sparse_general import GeneralStart
from skpref.gp.crowd import CrowdGPPL
from skpref.gp.latent import BayesianGPLVM
from skpref.gp.ordinal import GPOrdinalRegressor
from skpref.gp.pairwise import GPPLClassifier, GPPLRegressor
from skpref.gp.sparse import SVGPClassifier, SVGPRegressor
from skpref.inference.basis import InducingBasis
from skpref.inference.blocks import DenseBlock, DiagonalBlock, StackedBlock
from skpref.inference.collapsed import Moments
from skpref.inference.gibbs import Chain
from skpref.inference.scale import FixedScale, GammaScale
from skpref.inference.svi import State
from skpref.inference.terms import Segment
from skpref.likelihoods import (
    Gaussian,
    OrdinalProbit,
    PairwiseLogit,
    PairwiseProbit,
    PairwiseProbitTies,
    Poisson,
    StudentT,
)


def _by_name(*classes: type) -> dict[str, type[Any]]:
    return {cls.__name__: cls for cls in classes}


# A new estimator is one line here (and a check of its own in _checks.py if its parts depend on each other).
ESTIMATORS = _by_name(
    BayesianGPLVM,
    CrowdGPPL,
    GPOrdinalRegressor,
    GPPLClassifier,
    GPPLRegressor,
    GibbsIPM3F,
    GibbsM3F,
    SVGPClassifier,
    SVGPRegressor,
    OneHotDesign,
    Pipeline,  # of our own steps
    VariationalFM,
    VariationalFMClassifier,
)
# Frozen dataclasses and named tuples, saved field by field.
RECORDS = _by_name(
    Bias,
    Chain,
    Comparisons,
    CrowdPosterior,
    DenseBlock,
    DiagonalBlock,
    ExactLatent,
    FMPosterior,
    FactorPosterior,
    Factors,
    FixedScale,
    GammaScale,
    Gaussian,
    GeneralStart,
    IPM3FPosterior,
    InducingBasis,
    Known,
    LatentHyper,
    LatentMapping,
    M3FPosterior,
    Moments,
    Machine,
    OrdinalMember,
    OrdinalProbit,
    OrdinalStart,
    PairPosterior,
    PairwiseLogit,
    PairwiseProbit,
    PairwiseProbitTies,
    Poisson,
    Prior,
    Ratings,
    Roster,
    Segment,
    SparseLatent,
    StackedBlock,
    State,
    StudentT,
)
# Saved by get_params. Ours and scikit-learn's have different names, so one list serves both.
KERNELS = _by_name(
    kernels.AdditiveMatern,
    kernels.Identity,
    kernels.Linear,
    kernels.ProductMatern,
    sklearn_kernels.ConstantKernel,
    sklearn_kernels.DotProduct,
    sklearn_kernels.Exponentiation,
    sklearn_kernels.Matern,
    sklearn_kernels.Product,
    sklearn_kernels.RBF,
    sklearn_kernels.RationalQuadratic,
    sklearn_kernels.Sum,
    sklearn_kernels.WhiteKernel,
)
