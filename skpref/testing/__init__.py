"""Conformance kits: what a kernel, a likelihood or an estimator of comparisons must do to work in skpref."""

from skpref.testing._comparisons import IdColumns, check_comparison_estimator
from skpref.testing._kernels import check_kernel
from skpref.testing._likelihoods import check_likelihood

__all__ = ["IdColumns", "check_comparison_estimator", "check_kernel", "check_likelihood"]
