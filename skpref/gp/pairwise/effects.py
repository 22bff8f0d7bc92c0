"""Effects of covariates: the table of their coefficients."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtr, ndtri

from skpref._estimator import check_credibility
from skpref.data.records import make_frame

if TYPE_CHECKING:
    import numpy.typing as npt

    from skpref._typing import Array
    from skpref.gp.pairwise.posterior import PairPosterior
    from skpref.likelihoods import Likelihood

__all__ = ["CovariateEffects"]


@dataclass(frozen=True, eq=False)
class CovariateEffects:
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
        with a logit likelihood. With a probit one it depends on where one starts; this is from 0 to 1.
    probability_positive : ndarray of shape (n,)
        Posterior probability that the coefficient is positive.
    typical : ndarray of shape (n,)
        Root mean square of the covariate in the comparisons of `fit`; 1 if it is 0 in all of them.

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

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """Return the columns by name, in order.

        Returns
        -------
        dict of str to ndarray
            What a data frame can be made of.
        """
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def to_frame(self) -> Any:
        """Return a data frame of pandas.

        Returns
        -------
        pandas.DataFrame
            One row for each effect.

        Raises
        ------
        MissingExtraError
            If pandas is not installed.
        """
        return make_frame(self.columns())

    def __len__(self) -> int:
        """Number of effects."""
        return len(self.name)


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
    zeros = np.zeros(mean.size)
    right = likelihood.predict(-mean, zeros)
    return CovariateEffects(
        np.array(names, dtype=object),
        mean,
        std,
        mean - half_width,
        mean + half_width,
        likelihood.predict(mean, zeros) / np.maximum(right, np.finfo(float).tiny),
        ndtr(mean / std),
        typical,
    )
