"""Preferences of a crowd."""

from skpref.gp.crowd.estimator import CrowdGPPL

__all__ = ["CrowdGPPL"]
