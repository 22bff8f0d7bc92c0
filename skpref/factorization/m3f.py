"""`GibbsM3F`: rows are (user, item), targets are ratings ([XZZ13]; docs/maths section 8)."""

from __future__ import annotations

from contextlib import closing
from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from skpref._callbacks import fit_callbacks, fit_context
from skpref._estimator import precision, unchanged_on_failure
from skpref._sources import as_source, is_elsewhere, set_features, target_column
from skpref._validation import column_names
from skpref.data import Ratings, Vocabulary
from skpref.data.shards import RatingColumns, levels_of_all, rating_columns, read_rating_shard, without_repeats
from skpref.exceptions import DataError
from skpref.factorization.max_margin.base import CONSTRAINTS, MaxMarginFactorization
from skpref.factorization.max_margin.chains import ChainModel
from skpref.factorization.max_margin.m3f_chain import fold_in_of, problem_of, risk_of, start_state, step_of
from skpref.factorization.max_margin.posterior import M3FPosterior, RatingVocabularies
from skpref.factorization.max_margin.sharded import sharded_ratings
from skpref.inference.gibbs import running_mean

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, DTypeLike

    from skpref._sources import Source
    from skpref._typing import IdRows, Stored
    from skpref.data.shards import RatingSummary
    from skpref.factorization.max_margin.m3f_chain import MarginProblem
    from skpref.factorization.max_margin.sharded import ShardedRatings
    from skpref.inference.shards import Shards


@dataclass(eq=False, repr=False)
class GibbsM3F(MaxMarginFactorization):
    """Recommendations from ratings: max-margin matrix factorization by Gibbs sampling.

    The score of item j for user i is x_ij = U_i V_j^T. The user's thresholds theta_i1, ..., theta_i(L-1) cut the scores
    into L levels: the rating is 1 + the number of thresholds that are at most x_ij. Each rating has a hinge loss for
    every threshold ([XZZ13] section 2), and the pseudo-posterior is exp(-C loss) times Gaussian priors. With data
    augmentation all conditionals are Gaussian; a sweep draws item factors, user factors and thresholds.

    Parameters
    ----------
    n_factors : int, default=100
        Number of factors K, as in [XZZ13].
    C : float, default=0.075
        Weight of the loss relative to the prior. [XZZ13] chooses among eleven values from 0.1**0.75 to 0.1**2. The
        default is one of them, 0.1**1.125; it was chosen on simulated ratings and surveys of 3 to 50 ratings per user.
    margin : float, default=9.0
        Margin of the hinge loss, and the unit of the scores x_ij ([XZZ13] section 4). It, `threshold_scale` and
        `sigma` must lie in [1e-9, 1e9].
    user_thresholds : bool, default=True
        If True, every user has their own thresholds; if False, all users share them.
    threshold_scale : float, default=1.5
        Prior standard deviation of the thresholds, in margins. If it is learnt, the start value.
    threshold_means : "symmetric" or array-like of shape (L - 1,), default=None
        Prior means of the thresholds, ascending. None: mean and covariance of the users' thresholds are learnt, so that
        predictions follow the frequencies of the levels. The mean of the users' factors is learnt too, because nearly
        all users like some items. "symmetric": around 0 and three margins apart, as in [XZZ13]. Shared thresholds are
        always learnt, from this start, without a mean of factors.
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
    sigma : float, default=1.0
        Prior standard deviation of the factors.
    prediction : {"scores", "median", "average", "last"}, default="scores"
        How `predict` chooses a level: "scores" counts the average thresholds below the average x_ij of the kept
        samples; "median" takes the median of `predict_proba`; "last" is the last sample alone. "average" multiplies
        the averages of U and V after burn-in, as [XZZ13] does: factors rotate, so with longer chains these averages
        shrink to zero and predictions get worse.
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
    user, item : str, default=None
        Columns of X with the ids, if X is a data frame, files or a frame of Dask. None: the first and the second
        column; with Parquet files, the columns named user and item.
    dtype : {"float64", "float32"}, default="float64"
        Precision of the sums over ratings. The state and all matrix factorizations are in float64.

    Attributes
    ----------
    fitted_ : M3FFitted
        All that the fit has learnt, in one record; the other attributes are read from it.
    classes_ : ndarray of shape (L,)
        Levels, low to high.
    user_ids_, item_ids_ : ndarray of shape (n_users,) and (n_items,)
        Ids of the users and items with ratings.
    user_factors_, item_factors_ : ndarray of shape (n_users, K) and (n_items, K)
        Averages after burn-in. The factors of several chains are side by side, so that their product is the mean of
        the chains' scores.
    thresholds_ : ndarray of shape (n_users, L - 1) or (L - 1,)
        Averages after burn-in; one row if all users share them.
    posterior_ : M3FPosterior
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
    risk_ : float
        Regularised risk of the averages, mean over chains.
    r_hat_, effective_sample_size_ : float
        Diagnostics of the risks after burn-in; NaN for fewer than four sweeps. If R-hat is above 1.1 (for a single
        short chain: above what chance explains), `fit` gives a `ConvergenceWarning`: use more sweeps.
    n_iter_ : int
        Number of sweeps of each chain.
    n_features_in_ : int
        Always 2: user and item.

    See Also
    --------
    skpref.factorization.ipm3f.GibbsIPM3F : Learns the number of factors.

    References
    ----------
    .. [XZZ13] Xu, Zhu and Zhang: Fast max-margin matrix factorization with data augmentation. ICML 2013.

    Examples
    --------
    >>> from skpref.factorization.m3f import GibbsM3F
    >>> X = [("ann", "tea"), ("ann", "milk"), ("bob", "tea"), ("bob", "milk"), ("cleo", "tea")]
    >>> model = GibbsM3F(n_factors=2, C=1.0, levels=[1, 2, 3], random_state=0).fit(X, [3, 1, 3, 1, 3])
    >>> model.predict(X).tolist()
    [3, 1, 3, 1, 3]
    """

    n_factors: int = 100
    _: KW_ONLY
    user: str | None = None
    item: str | None = None
    dtype: DTypeLike = "float64"

    _chain_model: ClassVar[ChainModel] = ChainModel(
        start_state, step_of, fold_in_of, risk_of, running_mean, np.float32, M3FPosterior, 2.0
    )

    _takes_collections: ClassVar[bool] = True
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **CONSTRAINTS,
        "n_factors": [Interval(Integral, 1, None, closed="left")],
        "user": [str, None],
        "item": [str, None],
        "dtype": [StrOptions({"float64", "float32"}), type],
    }

    @fit_context
    def fit(self, X: IdRows | Stored, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the model: run the Gibbs chains.

        Files are read once. Their ratings are written to the folder for temporary files, by user and by item, and a
        part of them is in memory at a time. Factors and thresholds stay in memory. The result is equal to the bit to
        that of the same ratings in memory. The ratings are not kept, so `partial_fit`, and `recommend` with
        ``exclude_seen=True``, raise an error.

        Parameters
        ----------
        X : array-like of shape (n, 2), str, Path, Dataset or collection
            Ids of user and item; or a Parquet file, a folder of them or a dataset with these columns.
            Or a frame or array of Dask: `y` and `sample_weight` are then columns of it by name, or collections with the
            same partitions.
        y : array-like of shape (n,) or str, default=None
            Ratings; with files, the name of the column, "y" by default.
        sample_weight : array-like of shape (n,) or str, default=None
            Weights of the ratings; with files, the name of the column. A weight of 2 is the same as passing the rating
            twice.

        Returns
        -------
        GibbsM3F
            The fitted estimator.

        Raises
        ------
        ValueError
            If an id or a rating is missing, a rating is not among the levels, or a user has two different ratings of an
            item and `duplicates` is "error". If files lack a column, or have no ratings.
        """
        with fit_callbacks(self, X, y, sample_weight):
            return self._fit(X, y, sample_weight, self.levels)

    def _read(self, X: Any, *, reset: bool) -> tuple[Any, Any]:
        names = column_names(X)
        if names is not None and (self.user, self.item) != (None, None):
            X = X[list(rating_columns(names, self._id_columns(*names[:2]))[:2])]
        return super()._read(X, reset=reset)

    def _id_columns(self, *first: str) -> RatingColumns:
        """Return the columns of users and items: named by parameters, or else the first two."""
        user, item, *_ = [*first, "a second column", "a third"]
        return RatingColumns(user if self.user is None else self.user, item if self.item is None else self.item)

    def _fit(self, X: Any, y: Any, sample_weight: Any, levels: Any) -> Self:
        if not is_elsewhere(X):
            return super()._fit(X, y, sample_weight, levels)
        with unchanged_on_failure(self):
            source = as_source(X, y, sample_weight)
            columns = self._columns_of(source)
            rows = source.rows(() if source.names is None else columns[:2], *columns[2:])
            shards, summaries, kept = rows.keep(read_rating_shard, columns[:2], levels)
            del rows  # with it the memory of partitions goes
            with closing(shards):
                self._fit_shards(shards, summaries, kept, 2 if source.names is None else list(columns[:2]))
        return self

    def _columns_of(self, source: Source) -> RatingColumns:
        """Return the columns of files or of a collection."""
        y = target_column(source)
        if source.names is None:
            if source.width != 2:
                raise DataError(f"Expected 2D array of 2 columns for X, got {source.width} columns instead")
            return RatingColumns(0, 1)
        first = ["user", "item"]
        if source.has_order:
            first = [name for name in source.names if name not in {y, source.weight}]
        return rating_columns(source.names, self._id_columns(*first[:2])._replace(y=y, weight=source.weight))

    def _fit_shards(
        self, shards: Shards, summaries: list[RatingSummary], rows: list[Any], names: list[str] | int
    ) -> None:
        """Fit to ratings in shards, given their summaries and handles on the ratings."""
        levels = levels_of_all(summaries)
        ids = ([getattr(summary, side) for summary in summaries if summary.n_rows] for side in ("users", "items"))
        users, items = (Vocabulary.from_columns(*without_repeats(column)) for column in ids)
        vocabularies = RatingVocabularies(users, items, levels)
        ratings = sharded_ratings(
            shards, summaries, rows, vocabularies, self.duplicates, int(self.n_factors), len(summaries)
        )
        summaries.clear()
        rows.clear()  # with the handles their files go, and their memory on a cluster
        set_features(self, names)
        self._fit_ratings(vocabularies, ratings)

    def _problem(self, ratings: Ratings | ShardedRatings) -> MarginProblem:
        prior = self._prior(ratings.n_levels)
        settings = float(self.C), prior, int(self.n_factors), float(self.margin), precision(self.dtype)
        return problem_of(ratings, *settings) if isinstance(ratings, Ratings) else ratings.problem(*settings)

    def _shape(self) -> dict[str, tuple[Any, Any]]:
        fitted = self.posterior_.average.users.shape[2] if hasattr(self, "posterior_") else 0
        return {"n_factors": (self.n_factors, fitted), **super()._shape()}

    def _model_settings(self) -> tuple[Any, ...]:
        return self.n_factors, np.dtype(self.dtype).name
