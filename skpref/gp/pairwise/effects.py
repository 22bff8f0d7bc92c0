"""Effects of covariates: the table of their coefficients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtr, ndtri
from sklearn.utils.validation import check_is_fitted

from skpref._checks import require
from skpref._estimator import check_credibility
from skpref.data.ids import shorten
from skpref.data.records import ColumnRecord, frame_or_record
from skpref.data.shards import ComparisonCounts
from skpref.exceptions import DataError
from skpref.gp.capabilities import check_unchanged
from skpref.likelihoods.ties import left_without_ties

if TYPE_CHECKING:
    import numpy.typing as npt

    from skpref._typing import Array
    from skpref.gp.pairwise.columns import PairRows
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


class LearnsEffects:
    """An estimator of comparisons with effects of covariates in the part of its posterior that all users share."""

    posterior_: Any
    likelihood_: Likelihood
    covariate_names_: npt.NDArray[Any]
    coef_: Array
    coef_std_: Array
    _columns: Any

    @property
    def _shared(self) -> PairPosterior:
        """The part of the posterior that has the effects."""
        posterior: PairPosterior = getattr(self.posterior_, "consensus", self.posterior_)
        return posterior

    @property
    def _effect_names(self) -> list[str]:
        """Names of the covariates by the parameters."""
        return [] if self._columns is None else self._columns.names

    def _set_effects(self) -> None:
        """Set the attributes of effects after a fit."""
        mean, variance = self._shared.order_effect
        self.order_effect_ = mean, float(np.sqrt(variance))
        coefficients, covariance = self._shared.coefficients
        for name, values in (("coef_", coefficients), ("coef_std_", np.sqrt(np.diagonal(covariance)))):
            # scikit-learn's selectors take an empty `coef_` for the importance of columns, and keep none.
            vars(self).pop(name, None)
            if values.size:
                setattr(self, name, values)
        self.covariate_names_ = np.array(self._effect_names, dtype=str)

    def _refuse_other_covariates(self) -> None:
        """Refuse other covariates than those of the fit."""
        check_unchanged("covariates", self._effect_names, self.covariate_names_.tolist())

    def _with_covariates(self, rows: PairRows) -> PairRows:
        """Return rows to learn from; ids without covariates have zeros."""
        if rows.covariates is not None or not self.covariate_names_.size:
            return rows
        return rows._replace(covariates=np.zeros((rows.left.size, self.covariate_names_.size)))

    def _check_effects(self, comparisons: Any) -> None:
        """Raise DataError unless parameters, posterior and comparisons have the same covariates."""
        same = self.covariate_names_.tolist() == self._effect_names
        require(same, self, "covariate_names_", "must be the names of the covariates")
        n = self.covariate_names_.size
        require(self._shared.covariate_scale.size == n, self, "posterior_", "must have the effects of covariates")
        held = getattr(comparisons, "covariates", None)
        kept = (0 if held is None else held.shape[1]) == n or isinstance(comparisons, ComparisonCounts)
        require(kept, self, "_comparisons", f"must have {n} covariates")

    def covariate_table(self, *, at: Any = None, credibility: float = 0.9) -> Any:
        """Return the effects of covariates with their uncertainty.

        Parameters
        ----------
        at : datetime, str or number, default=None
            Time of the effects of a `GPPLClassifier` with `time`, which drift. None: that of the last comparison.
        credibility : float, default=0.9
            Posterior probability of each interval.

        Returns
        -------
        pandas.DataFrame or CovariateEffects
            One row for each covariate, and one for the order effect if it is learnt, with the columns of
            `CovariateEffects`. A data frame if pandas is installed.
        """
        check_is_fitted(self)
        names = self.covariate_names_.tolist()
        posterior = self._shared if at is None else self._posterior_at(at)
        return frame_or_record(describe_effects(posterior, names, self.likelihood_, credibility))

    def _posterior_at(self, at: Any) -> PairPosterior:
        """Return the posterior at a time, where effects move."""
        raise DataError(f"at={shorten(at)} is for effects that drift, in a GPPLClassifier that was fitted with time=")
