"""What columns of X add to utilities: effects of covariates, groups and context, by the parameters that name them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtr, ndtri

from skpref._estimator import check_credibility
from skpref.data.records import ColumnRecord
from skpref.likelihoods.ties import left_without_ties

if TYPE_CHECKING:
    import numpy.typing as npt

    from skpref._typing import Array
    from skpref.gp.pairwise.posterior import PairPosterior
    from skpref.likelihoods import Likelihood

__all__ = ["CovariateEffects"]


@dataclass(frozen=True, eq=False)
class CovariateEffects(ColumnRecord):
    """Effects of the covariates of comparisons, one entry each; the order effect is the last one.

    Parameters
    ----------
    name : ndarray of shape (n,)
        Names; "left side" is the order effect.
    effect : ndarray of shape (n,)
        Posterior mean of the coefficient: units of the answer noise for one unit of the covariate.
    std : ndarray of shape (n,)
        Posterior standard deviation.
    effect_low : ndarray of shape (n,)
        Lower end of the credible interval.
    effect_high : ndarray of shape (n,)
        Upper end of the credible interval.
    odds_ratio : ndarray of shape (n,)
        Factor on the odds of the left side for one unit of the covariate, between items of equal utility: exp(effect)
        with ``likelihood="logit"``. With a probit likelihood, or with ties as answers of their own, it depends on the
        starting value; here the covariate changes from 0 to 1. Where there are ties, these are the odds of left
        against right.
    probability_positive : ndarray of shape (n,)
        Posterior probability that the coefficient is positive.
    typical : ndarray of shape (n,)
        Root mean square of the covariate in the comparisons of `fit` where it is not 0; 1 if it is 0 in all of them.

    Examples
    --------
    >>> from skpref import GPPLClassifier
    >>> X = [["x", "y", 1], ["y", "x", 1], ["x", "y", -1], ["y", "z", 0], ["z", "x", 1]]
    >>> model = GPPLClassifier(covariates=[2]).fit(X, [1, 1, 0, 1, 1])
    >>> model.covariate_table()["effect"].gt(0).tolist()
    [True]
    """

    name: npt.NDArray[Any]
    effect: Array
    std: Array
    effect_low: Array
    effect_high: Array
    odds_ratio: Array
    probability_positive: Array
    typical: Array


def describe_effects(
    posterior: PairPosterior, names: list[str], likelihood: Likelihood, credibility: float
) -> CovariateEffects:
    """Return the table of the effects of covariates, and of the order where it is learnt."""
    check_credibility(credibility)
    mean, covariance = posterior.coefficients
    std, typical = np.sqrt(np.diagonal(covariance)), posterior.covariate_scale
    if posterior.has_order:
        order_mean, order_variance = posterior.order_effect
        mean, std = np.append(mean, order_mean), np.append(std, np.sqrt(order_variance))
        names, typical = [*names, "left side"], np.append(typical, 1.0)
    half_width = ndtri(0.5 + 0.5 * credibility) * std
    left, right = (left_without_ties(likelihood, z) for z in (mean, -mean))
    return CovariateEffects(
        np.array(names, dtype=object),
        mean,
        std,
        mean - half_width,
        mean + half_width,
        left / np.maximum(right, np.finfo(float).tiny),
        ndtr(mean / std),
        typical,
    )
