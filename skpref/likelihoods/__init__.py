"""Likelihoods: log p(y | z), its derivatives and expectations, pointwise."""

from skpref.likelihoods.base import Likelihood
from skpref.likelihoods.counts import NegativeBinomial, Poisson
from skpref.likelihoods.davidson import PairwiseDavidson
from skpref.likelihoods.gaussian import Gaussian
from skpref.likelihoods.margins import PairwiseMargin
from skpref.likelihoods.ordinal import OrdinalProbit
from skpref.likelihoods.ordinal_mixtures import OrdinalLogit, OrdinalRobust
from skpref.likelihoods.pairwise import Luce, PairwiseLikelihood, PairwiseLogit, PairwiseProbit
from skpref.likelihoods.robust import StudentT
from skpref.likelihoods.softmax import Softmax
from skpref.likelihoods.ties import PairwiseLogitTies, PairwiseProbitTies, PairwiseTies

__all__ = [
    "Gaussian",
    "Likelihood",
    "Luce",
    "NegativeBinomial",
    "OrdinalLogit",
    "OrdinalProbit",
    "OrdinalRobust",
    "PairwiseDavidson",
    "PairwiseLikelihood",
    "PairwiseLogit",
    "PairwiseLogitTies",
    "PairwiseMargin",
    "PairwiseProbit",
    "PairwiseProbitTies",
    "PairwiseTies",
    "Poisson",
    "Softmax",
    "StudentT",
]
