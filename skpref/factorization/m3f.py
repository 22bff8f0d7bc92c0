"""`GibbsM3F`: rows are (user, item), targets are ratings ([XZZ13]; docs/maths section 8)."""

from __future__ import annotations

from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, InvalidParameterError, StrOptions

from skpref.factorization.max_margin.base import CONSTRAINTS, MaxMarginFactorization, Sampler
from skpref.factorization.max_margin.m3f_chain import folding_of, problem_of, risk_of, start_state, step_of
from skpref.inference.gibbs import running_mean

if TYPE_CHECKING:
    from skpref.data.ratings import Ratings
    from skpref.factorization.max_margin.m3f_chain import Problem


class GibbsM3F(MaxMarginFactorization):
    """Max-margin matrix factorisation of ratings, sampled by Gibbs.

    User i's rating of item j depends on x_ij = U_i V_j^T and the user's thresholds theta_i1, ..., theta_i(L-1): it is
    1 + the number of thresholds not above x_ij. The loss of a rating is the sum over thresholds of the hinge loss with
    a margin ([XZZ13] section 2), its pseudo-posterior exp(-C loss) times Gaussian priors. Data augmentation makes all
    conditionals Gaussian; a sweep draws all item factors, all user factors and all thresholds.

    Parameters
    ----------
    n_factors : int, default=100
        Width K of the factors.
    C : float, default=0.0562
        Weight of the loss against the prior; 0.1**1.25 did best among [XZZ13]'s eleven values on MovieLens-1M.
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
        Prior standard deviation of the factors.
    prediction : {"average", "median", "last"}, default="average"
        What `predict` does: count the thresholds below x_ij with the factors and thresholds averaged after burn-in, or
        with the last sample alone; or take the median of `predict_proba`.
    duplicates : {"error", "mean", "last"}, default="error"
        What to do where a user rated an item more than once, and differently: an error, the mean rounded to a level,
        halves upwards, or the rating given last.
    unknown : {"prior", "raise"}, default="prior"
        What to predict for users and items without ratings: what the prior says, with its wide uncertainty, or an
        error.
    dtype : {"float64", "float32"}, default="float64"
        Precision of the sums over ratings. Matrices are factored, and the state is held, in float64.
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
        Averages after burn-in; of several chains, side by side, so that their product is the mean of the chains'.
    thresholds_ : ndarray of shape (n_users, L - 1) or (L - 1,)
        Averages after burn-in.
    posterior_ : M3FPosterior
        All that predictions need: averages, last states, kept samples.
    risks_ : ndarray of shape (n_chains, n)
        Regularised risk of the state after each sweep.
    risk_ : float
        Regularised risk of the averages, mean over chains.
    r_hat_, effective_sample_size_ : float
        Of the risks after burn-in; NaN where there are less than four.
    n_iter_ : int
        Sweeps of each chain.
    n_features_in_ : int
        2.

    References
    ----------
    .. [XZZ13] M. Xu, J. Zhu, B. Zhang: Fast max-margin matrix factorization with data augmentation. ICML 2013.

    Examples
    --------
    >>> from skpref.factorization.m3f import GibbsM3F
    >>> X = [("ann", "tea"), ("ann", "milk"), ("bob", "tea"), ("bob", "milk"), ("cleo", "tea")]
    >>> model = GibbsM3F(n_factors=2, C=1.0, levels=[1, 2, 3], random_state=0).fit(X, [3, 1, 3, 1, 3])
    >>> model.predict(X).tolist()
    [3, 1, 3, 1, 3]
    """

    _sampler: ClassVar[Sampler] = Sampler(start_state, step_of, folding_of, risk_of, running_mean, np.float32)

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **CONSTRAINTS,
        "n_factors": [Interval(Integral, 1, None, closed="left")],
        "dtype": [StrOptions({"float64", "float32"}), type],
    }

    def __init__(
        self,
        n_factors: int = 100,
        *,
        C: float = 0.0562,
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
        prediction: str = "average",
        duplicates: Any = "error",
        unknown: str = "prior",
        dtype: Any = "float64",
        n_jobs: int | None = None,
        warm_start: bool = False,
        checkpoint: Any = None,
        checkpoint_seconds: float = 30.0,
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.n_factors = n_factors
        self.C = C
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
        self.dtype = dtype
        self.n_jobs = n_jobs
        self.warm_start = warm_start
        self.checkpoint = checkpoint
        self.checkpoint_seconds = checkpoint_seconds
        self.verbose = verbose
        self.random_state = random_state

    def _problem(self, ratings: Ratings) -> Problem:
        dtype = np.dtype(self.dtype)
        if dtype not in (np.float64, np.float32):
            raise InvalidParameterError(f"dtype must be float64 or float32; got {self.dtype!r}.")
        prior = self._prior(ratings.n_levels)
        return problem_of(ratings, float(self.C), prior, self.n_factors, float(self.margin), dtype)

    def _shape(self) -> dict[str, tuple[Any, Any]]:
        fitted = self.posterior_.average.users.shape[2] if hasattr(self, "posterior_") else 0
        return {"n_factors": (self.n_factors, fitted), **super()._shape()}

    def _model_settings(self) -> tuple[Any, ...]:
        return self.n_factors, np.dtype(self.dtype).name
