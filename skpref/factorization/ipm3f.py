"""`GibbsIPM3F`: rows are (user, item), targets are ratings ([XZZ13] section 3; docs/maths section 8)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from skpref._checks import is_count
from skpref.data.records import frame_or_record
from skpref.exceptions import DataError
from skpref.factorization.max_margin.base import CONSTRAINTS, MaxMarginFactorization
from skpref.factorization.max_margin.chains import ChainModel
from skpref.factorization.max_margin.features import describe_features
from skpref.factorization.max_margin.ipm3f_chain import (
    aligned_mean,
    fold_in_of,
    problem_of,
    risk_of,
    start_state,
    step_of,
)
from skpref.factorization.max_margin.posterior import IPM3FPosterior

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from skpref.data.ratings import Ratings
    from skpref.factorization.max_margin.m3f_chain import MarginProblem


@dataclass(eq=False, repr=False)
class GibbsIPM3F(MaxMarginFactorization):
    """Recommendations from ratings: matrix factorization that learns the number of factors, by Gibbs sampling.

    As in `GibbsM3F`, but the user factors are binary: a user has a feature or not, and x_ij is the sum of item j's
    factors over the features of user i. The prior of the features is an Indian buffet process: a user has each feature
    of other users with a probability equal to the share of users who have it, and some new ones ([XZZ13] section 3). A
    sweep draws the item factors, then the features of one user after the other, then the thresholds.

    Parameters
    ----------
    C : float, default=0.075
        Weight of the loss relative to the prior. A smaller C gives fewer features.
    margin : float, default=9.0
        Margin of the hinge loss, and the unit of the scores x_ij ([XZZ13] section 4). It, `threshold_scale` and
        `sigma` must lie in [1e-9, 1e9].
    user_thresholds : bool, default=True
        If True, every user has their own thresholds; if False, all users share them.
    threshold_scale : float, default=1.5
        Prior standard deviation of the thresholds, in margins. If it is learnt, the start value.
    threshold_means : "symmetric" or array-like of shape (L - 1,), default=None
        Prior means of the thresholds, ascending. None: mean and covariance of the users' thresholds are learnt, so that
        predictions follow the frequencies of the levels. "symmetric": around 0 and three margins apart, as in [XZZ13].
        Shared thresholds are always learnt, from this start.
    levels : array-like of shape (L,), default=None
        All possible ratings, low to high, including those that no user gave. If None, the categories of an ordered
        `pandas.Categorical`, or else the distinct numbers in y.
    max_iter : int, default=50
        Sweeps of each chain, including burn-in. All are made, unless a callback stops the fit.
    burn_in : int, default=10
        First sweeps of each chain, which are not used for predictions. Must be less than `max_iter`.
    n_chains : int, default=1
        Independent chains, run one after the other. Predictions are averaged over them.
    n_samples : int, default=20
        Number of samples kept of each chain, at most, for probabilities and standard deviations.
    sigma : float, default=1.5
        Prior standard deviation of the item factors; 1 in [XZZ13]. With few ratings for each item a larger one predicts
        better: ``sigma=3, C=0.0562`` for fewer than about 20,000 ratings. With a million, 1 is a little better.
    prediction : {"median", "scores", "average", "last"}, default="median"
        How `predict` chooses a level: "median" takes the median of `predict_proba`; "scores" counts the average
        thresholds below the average x_ij of the kept samples; "last" is the last sample alone. "average" multiplies
        the averages of Z and V after burn-in: features that do not persist shrink, and with longer chains predictions
        get worse.
    duplicates : {"error", "mean", "last"}, default="error"
        What to do with different ratings of an item by the same user: raise an error, take their mean rounded to a
        level (halves up), or take the last one.
    unknown : {"prior", "raise"}, default="prior"
        Predictions for users and items without ratings: from the prior, or an error.
    n_jobs : int, default=None
        Number of threads. If None, as many as numba may use (`NUMBA_NUM_THREADS`). It does not change the result.
    warm_start : bool, default=False
        If True, `fit` continues the chains of the last fit, if users, items, levels and the shape of the model are the
        same. Averages and samples continue, too, if ratings and parameters are the same; otherwise they start again
        after `burn_in` sweeps.
    checkpoint : str, path-like or Checkpoint, default=None
        File to which `fit` saves its chains. If the file exists and belongs to the same data and parameters, `fit`
        resumes from it, with the same result as without the interruption. A file that is damaged or belongs to another
        fit raises `CheckpointError`. If the file cannot be written, the fit continues with a `CheckpointWarning`. A
        finished fit deletes the file.
    verbose : int, default=0
        If positive, print one line per sweep.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the chains.
    alpha : float, default=3.0
        Rate of the Indian buffet process: the prior mean of the number of features of a user ([XZZ13] section 4). At
        most 10,000.
    max_new : int, default=10
        Largest number of features that only one user has. Time grows linearly with it.

    Attributes
    ----------
    fitted_ : M3FFitted
        All that the fit has learnt, in one record; the other attributes are read from it.
    classes_ : ndarray of shape (L,)
        Levels, low to high.
    user_ids_, item_ids_ : ndarray of shape (n_users,) and (n_items,)
        Ids of the users and items with ratings.
    user_factors_, item_factors_ : ndarray of shape (n_users, K) and (n_items, K)
        Averages after burn-in. A feature counts as zero in sweeps in which it does not exist. Features that no longer
        exist and that hardly any user had are left out. The factors of several chains are side by side.
    thresholds_ : ndarray of shape (n_users, L - 1) or (L - 1,)
        Averages after burn-in; one row if all users share them.
    posterior_ : IPM3FPosterior
        Averages, last states and kept samples of the chains.
    temperature_ : float
        Number by which `predict_proba` divides the loss, learnt from held-out ratings: after its last sweep, the first
        chain runs 15 more sweeps without a tenth of the ratings. This is repeated with further tenths until 3,000
        ratings, or all, were held out. 1 for fewer than 10 ratings.
    level_weights_ : ndarray of shape (L,)
        Factors by which `predict_proba` multiplies the probabilities of the levels, learnt from the same ratings,
        because levels of equal loss need not be equally frequent.
    risks_ : ndarray of shape (n_chains, n_iter)
        Regularised risk after each sweep.
    n_factors_ : ndarray of shape (n_chains, n_iter), dtype int64
        Number of features after each sweep.
    risk_ : float
        Regularised risk of the averages, mean over chains.
    r_hat_, effective_sample_size_ : float
        Diagnostics of the risks after burn-in; NaN for fewer than four sweeps. If R-hat is above 1.1 (for a single
        short chain: above what chance explains, at most 2), `fit` gives a `ConvergenceWarning`: use more sweeps, often
        several hundred while the number of features (`n_factors_`) still grows.
    n_iter_ : int
        Number of sweeps of each chain.
    n_features_in_ : int
        Always 2: user and item.

    See Also
    --------
    skpref.factorization.m3f.GibbsM3F : The number of factors is a parameter.

    References
    ----------
    .. [XZZ13] Xu, Zhu and Zhang: Fast max-margin matrix factorization with data augmentation. ICML 2013.

    Examples
    --------
    >>> from skpref.factorization.ipm3f import GibbsIPM3F
    >>> X = [("ann", "tea"), ("ann", "milk"), ("bob", "tea"), ("bob", "milk"), ("cleo", "tea")]
    >>> model = GibbsIPM3F(C=1.0, levels=[1, 2, 3], random_state=0).fit(X, [3, 1, 3, 1, 3])
    >>> model.predict(X).tolist()
    [3, 1, 3, 1, 3]
    """

    _: KW_ONLY
    alpha: float = 3.0
    max_new: int = 10
    sigma: float = 1.5
    prediction: Literal["scores", "median", "average", "last"] = "median"

    _chain_model: ClassVar[ChainModel] = ChainModel(
        start_state, step_of, fold_in_of, risk_of, aligned_mean, np.uint8, IPM3FPosterior, 20.0
    )

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **CONSTRAINTS,
        "alpha": [Interval(Real, 0.0, 1e4, closed="right")],
        "max_new": [Interval(Integral, 0, None, closed="left")],
    }

    def _problem(self, ratings: Ratings) -> MarginProblem:
        prior = self._prior(ratings.n_levels)
        return problem_of(ratings, float(self.C), prior, float(self.margin), float(self.alpha), int(self.max_new))

    def _model_settings(self) -> tuple[Any, ...]:
        return float(self.alpha), int(self.max_new)

    def _posterior(self, **shared: Any) -> IPM3FPosterior:
        return IPM3FPosterior(**shared, alpha=float(self.alpha))

    @property
    def n_factors_(self) -> NDArray[np.int64]:
        """Number of features after each sweep, shape (n_chains, n_iter)."""
        return self._learnt.trace("n_factors").astype(np.int64)

    def feature_table(self, n_ids: int = 5) -> Any:
        """Describe the features that users have: how many users have them, and which items they favour.

        Parameters
        ----------
        n_ids : int, default=5
            Largest number of users and items that are named for each feature.

        Returns
        -------
        pandas.DataFrame or UserFeatures
            One row per feature, the most frequent first, with the columns of `UserFeatures`: `chain`, `share`,
            `strength`, `users`, `liked`, `disliked`. A data frame if pandas is installed.

        Raises
        ------
        ValueError
            If `n_ids` is not a positive integer.
        """
        check_is_fitted(self)
        if not is_count(n_ids, 1):
            raise DataError(f"n_ids must be a positive integer; got {n_ids!r}")
        average = self.posterior_.average
        return frame_or_record(describe_features(average, self.fitted_.vocabularies, self.posterior_.sigma, int(n_ids)))
