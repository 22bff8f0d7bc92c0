"""Latent-variable models."""

from skpref.gp.latent.estimator import BayesianGPLVM

__all__ = ["BayesianGPLVM"]
