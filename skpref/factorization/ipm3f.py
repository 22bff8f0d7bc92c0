"""`GibbsIPM3F`: rows are (user, item), targets are ratings ([XZZ13] section 3; docs/maths section 8)."""

from __future__ import annotations

from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval

from skpref.factorization.max_margin.base import CONSTRAINTS, MaxMarginFactorization, Sampler
from skpref.factorization.max_margin.ipm3f_chain import (
    aligned_mean,
    folding_of,
    problem_of,
    risk_of,
    start_state,
    step_of,
)
from skpref.factorization.max_margin.posterior import IPM3FPosterior

if TYPE_CHECKING:
    from skpref.data.ratings import Ratings
    from skpref.factorization.max_margin.m3f_chain import Problem


class GibbsIPM3F(MaxMarginFactorization):
    """Max-margin matrix factorisation of ratings with as many features as the data want, sampled by Gibbs.

    The model of `GibbsM3F`, but a user either holds a feature or does not: x_ij is the sum of item j's factors of the
    features that user i holds. Features have the prior of the Indian buffet process: a user takes those that others
    hold with the probability of their share among users, and a few of their own ([XZZ13] section 3). A sweep draws all
    item factors, then user by user the features held and the new ones that come up, and all thresholds.

    Parameters
    ----------
    alpha : float, default=3.0
        Rate of the Indian buffet: the expected number of features that a user holds, before any rating.
    C : float, default=0.1
        Weight of the loss against the prior. It decides how many features there are: the less, the fewer.
    max_new : int, default=10
        Features that a user may have to themselves, at most; the time that they take is proportional to it.
    margin : float, default=9.0
        Margin l of the hinge loss. It sets the unit of x_ij.
    user_thresholds : bool, default=True
        Whether every user has thresholds of their own.
    threshold_scale : float, default=1.5
        Prior standard deviation of the thresholds, in margins.
    threshold_means : array-like of shape (L - 1,), default=None
        Prior means of the thresholds, ascending. None: symmetric around 0, three margins apart.
    levels : array-like of shape (L,), default=None
        All levels that ratings may take, low to high, those that nobody gave included. None: the categories of an
        ordered `pandas.Categorical`, else the distinct numbers in y.
    n_sweeps : int, default=50
        Sweeps of each chain, burn-in included.
    burn_in : int, default=10
        Sweeps that are neither averaged nor kept.
    n_chains : int, default=1
        Independent chains, run one after the other. Predictions are averaged over them.
    n_samples : int, default=20
        Samples kept at most of each chain, for probabilities and standard deviations.
    sigma : float, default=1.0
        Prior standard deviation of the item factors.
    prediction : {"median", "average", "last"}, default="median"
        What `predict` does: take the median of `predict_proba`; or count the thresholds below x_ij with the factors and
        thresholds averaged after burn-in, which asks for features that live long (many ratings), or with the last
        sample alone.
    duplicates : {"error", "mean", "last"}, default="error"
        What to do where a user rated an item more than once, and differently: an error, the mean rounded to a level,
        halves upwards, or the rating given last.
    unknown : {"prior", "raise"}, default="prior"
        What to predict for users and items without ratings: what the prior says, with its wide uncertainty, or an
        error.
    n_jobs : int, default=None
        Threads. None: as many as numba may use (`NUMBA_NUM_THREADS`). The result does not depend on it.
    warm_start : bool, default=False
        Whether `fit` goes on from where the chains of the last fit stand, if users, items, levels and the shape of the
        model are the same. The average goes on too if all the rest is; else it starts anew after `burn_in` sweeps.
    checkpoint : str or path-like, default=None
        File to which `fit` writes all it has, every `checkpoint_seconds`. A fit of the same data with the same
        parameters that finds the file goes on from there, to the same bits. The file is removed when a fit ends.
    checkpoint_seconds : float, default=30.0
        Time between two writings.
    verbose : int, default=0
        Whether to print a line a sweep.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the chains.

    Attributes
    ----------
    classes_ : ndarray of shape (L,)
        Levels, low to high.
    user_ids_, item_ids_ : ndarray of shape (n_users,) and (n_items,)
        Ids of the users and items known.
    user_factors_, item_factors_ : ndarray of shape (n_users, K) and (n_items, K)
        Averages after burn-in, a feature aligned with itself while it lives and counted as zero before and after;
        features that are gone and had hardly a holder are left out. Of several chains, side by side.
    thresholds_ : ndarray of shape (n_users, L - 1) or (L - 1,)
        Averages after burn-in.
    posterior_ : IPM3FPosterior
        All that predictions need: averages, last states, kept samples.
    risks_ : ndarray of shape (n_chains, n)
        Regularised risk of the state after each sweep.
    n_factors_ : ndarray of shape (n_chains, n), dtype int64
        Number of features after each sweep.
    risk_ : float
        Regularised risk of the averages, mean over chains.
    r_hat_, effective_sample_size_ : float
        Of the risks after burn-in; NaN where there are less than four.
    n_iter_ : int
        Sweeps of each chain.
    n_features_in_ : int
        2.

    See Also
    --------
    skpref.factorization.m3f.GibbsM3F : With a number of factors that is given.

    References
    ----------
    .. [XZZ13] M. Xu, J. Zhu, B. Zhang: Fast max-margin matrix factorization with data augmentation. ICML 2013.

    Examples
    --------
    >>> from skpref.factorization.ipm3f import GibbsIPM3F
    >>> X = [("ann", "tea"), ("ann", "milk"), ("bob", "tea"), ("bob", "milk"), ("cleo", "tea")]
    >>> model = GibbsIPM3F(C=1.0, levels=[1, 2, 3], random_state=0).fit(X, [3, 1, 3, 1, 3])
    >>> model.predict(X).tolist()
    [3, 1, 3, 1, 3]
    """

    _sampler: ClassVar[Sampler] = Sampler(start_state, step_of, folding_of, risk_of, aligned_mean, np.uint8)

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **CONSTRAINTS,
        "alpha": [Interval(Real, 0.0, None, closed="neither")],
        "max_new": [Interval(Integral, 0, None, closed="left")],
    }

    def __init__(
        self,
        *,
        alpha: float = 3.0,
        C: float = 0.1,
        max_new: int = 10,
        margin: float = 9.0,
        user_thresholds: bool = True,
        threshold_scale: float = 1.5,
        threshold_means: Any = None,
        levels: Any = None,
        n_sweeps: int = 50,
        burn_in: int = 10,
        n_chains: int = 1,
        n_samples: int = 20,
        sigma: float = 1.0,
        prediction: str = "median",
        duplicates: Any = "error",
        unknown: str = "prior",
        n_jobs: int | None = None,
        warm_start: bool = False,
        checkpoint: Any = None,
        checkpoint_seconds: float = 30.0,
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.alpha = alpha
        self.C = C
        self.max_new = max_new
        self.margin = margin
        self.user_thresholds = user_thresholds
        self.threshold_scale = threshold_scale
        self.threshold_means = threshold_means
        self.levels = levels
        self.n_sweeps = n_sweeps
        self.burn_in = burn_in
        self.n_chains = n_chains
        self.n_samples = n_samples
        self.sigma = sigma
        self.prediction = prediction
        self.duplicates = duplicates
        self.unknown = unknown
        self.n_jobs = n_jobs
        self.warm_start = warm_start
        self.checkpoint = checkpoint
        self.checkpoint_seconds = checkpoint_seconds
        self.verbose = verbose
        self.random_state = random_state

    def _problem(self, ratings: Ratings) -> Problem:
        prior = self._prior(ratings.n_levels)
        return problem_of(ratings, float(self.C), prior, float(self.margin), float(self.alpha), int(self.max_new))

    def _model_settings(self) -> tuple[Any, ...]:
        return float(self.alpha), int(self.max_new)

    def _posterior(self, **shared: Any) -> IPM3FPosterior:
        return IPM3FPosterior(**shared, alpha=float(self.alpha))

    def _keep_traces(self, problem: Problem) -> None:
        super()._keep_traces(problem)
        self.n_factors_ = np.array([chain.trace["n_factors"] for chain in self._chains]).astype(np.int64)
