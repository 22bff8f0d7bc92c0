"""`VariationalFMOrdinal`: a factorization machine of ratings as ordered levels (docs/maths section 9)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Self, cast

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils._param_validation import Interval, StrOptions

from skpref._callbacks import fit_context
from skpref._estimator import iteration_callback
from skpref._math.random import as_generator
from skpref._sources import accept_collections
from skpref._warn import warn
from skpref.data.levels import encode_levels, with_levels_of
from skpref.exceptions import DataError
from skpref.factorization.machine.base import CONSTRAINTS, FactorizationMachine
from skpref.factorization.machine.chain import ChainOptions, checkpoint_of, sample_chain, warn_not_stationary
from skpref.factorization.machine.heads import LevelHead
from skpref.factorization.policy import POLICY
from skpref.inference.gibbs import effective_sample_size, split_rhat
from skpref.metrics import ordinal_mae
from skpref.settings import CHECKPOINT_CONSTRAINTS, Checkpoint

if TYPE_CHECKING:
    import os

    from numpy.typing import ArrayLike, NDArray
    from sklearn.utils import Tags

    from skpref._typing import Array, MatrixLike
    from skpref.factorization.machine.base import TrainingRows
    from skpref.likelihoods import OrdinalProbit

_MOST_ROWS: Final = 1e9  # of a chain, repeated ones counted
_NO_SWEEPS: Final = (
    "max_iter={} leaves no two sweeps after burn_in={}, so that inference='auto' is variational; increase max_iter, "
    "decrease burn_in, or pass inference='variational'"
)


@dataclass(eq=False, repr=False)
class VariationalFMOrdinal(ClassifierMixin, FactorizationMachine):
    """Bayesian factorization machine for ratings: ordered levels such as stars or grades.

    The model is an ordered probit: y(x), as in `VariationalFM`, plus standard normal noise lies between two of the
    learnt thresholds b_1 < ... < b_(r-1), which gives the level. All rows share the thresholds. Distances between
    levels need not be known. Predictions are probabilities of all levels, whose averages match the frequencies in the
    data. The noisy y(x) of every row is a latent variable that is independent of the parameters in the posterior
    ([AC93]), so all updates of coordinate ascent have closed forms (docs/maths section 9).

    Parameters
    ----------
    n_factors : int, default=10
        Number of factors d per feature. 0 gives a linear model. Superfluous factors shrink to 0, so that too many cost
        time more than accuracy.
    groups : array-like of shape (n_features,), default=None
        Label of each feature's group. The features of a group share the prior of the weight, and of each factor. If
        None, each field of a one-hot design (a range of columns with a single one in every row) is a group; if X is not
        a one-hot design, there is one group. In files each column is a group, with its name.
    categorical_features : array-like of str or str, default=None
        Names of the columns of files that hold ids, such as user, item or shop; each id is a feature. All other columns
        must be numbers. If None, all columns except floats, decimals and booleans hold ids. For data in memory it must
        be None: encode ids by `OneHotDesign`.
    posterior : {"full", "factorised"}, default="full"
        "full" learns a covariance matrix of each feature's weight and factors, "factorised" only variances, as in
        [VRK22]. The default has a better bound, and converges in fewer passes if X has two one-hot fields (users and
        items). It keeps about 4 (1 + d)^2 numbers for each row with measured features. Mini-batches are always
        factorised.
    learn_priors : bool, default=True
        If True, the priors of the groups are learnt, with hyperpriors nu ~ N(0, 1) and lam ~ Gamma(1, 1); "gibbs" draws
        those of the weights and a common scale of a group's factors. If False, all priors are N(0, 1), in units of the
        noise.
    batch_size : int, default=None
        Number of rows in a mini-batch, for Adam. If None, coordinate ascent over all rows is used, which needs no
        learning rate and never lowers the bound.
    max_iter : int, default=150
        Maximum number of passes over all rows; of "gibbs" the number of sweeps of the chain, including burn-in. More
        sweeps make predictions more exact.
    learning_rate : float, default=0.02
        Learning rate of Adam. Coordinate ascent ignores it.
    average : bool, default=True
        If True, predictions after mini-batches use the average of the means and log standard deviations over the last
        half of the epochs.
    early_stopping : bool, default=False
        If True, some rows are held out, and the pass with the best validation loss is kept.
    validation_fraction : float or None, default=0.1
        Share of the rows that `early_stopping` holds out. If None, it uses the bound on all rows instead, and the last
        pass is kept. This is meant for Adam: coordinate ascent stops by `tol`.
    n_iter_no_change : int, default=10
        Number of passes without a better validation loss, or bound, after which `early_stopping` ends the fit.
    tol : float, default=1e-5
        Coordinate ascent has converged if a pass raises the bound by less than this, in nats per row.
    dtype : {"float64", "float32"}, default="float64"
        Precision of the sums that coordinate ascent keeps for each row; everything else is float64.
    n_jobs : int, default=None
        Number of threads. If None, as many as numba may use (`NUMBA_NUM_THREADS`). It does not change the result.
    warm_start : bool, default=False
        If True, `fit` starts from the result of the last fit, if features, groups and `n_factors` are the same.
    verbose : int, default=0
        If positive, print one line per pass.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the first factors, the rows held out and the mini-batches.
    class_order : array-like of shape (n_classes,), default=None
        All levels from low to high, also those absent from `y`. None: the categories of an ordered
        `pandas.Categorical`, also in files, or the sorted numbers. Strings need `class_order`; without it, up to 3 of
        them are sorted alphabetically, with a warning.
    class_weight : dict, "balanced" or None, default=None
        Weights of the levels, which multiply those of the rows; levels that a dict lacks have weight 1. "balanced":
        inversely proportional to the levels' weights in y. Thresholds and probabilities are then those of such a
        population, and no longer those of new rows. Not for rows in files or on a cluster or, mostly, "gibbs", which
        needs whole weights; and "balanced" not for `partial_fit`.
    inference : {"auto", "variational", "gibbs"}, default="auto"
        "variational" maximises the bound. "gibbs" draws from the exact posterior, in a chain that starts from a few
        passes of the variational fit; predictions and attributes are averages over the draws. Its probabilities are
        better if users or items have few ratings, as in questionnaires. A fit takes one to four times as long as a
        variational one, and predictions several times as long. "auto" is "gibbs" if all entries of X are 0 or 1, as
        those of `OneHotDesign`, at most 6,000,000 / (1 + d) of them are 1, and weights are whole numbers; if `max_iter`
        is not above `burn_in` + 1, it warns and is "variational". It is "variational" otherwise, with mini-batches or
        early stopping, in files, on clusters and in `partial_fit`.
    burn_in : int, default=40
        Number of first sweeps, which are not used; at most `max_iter` - 2. At most 200 of the other sweeps are kept,
        evenly spaced and in single precision: 4 (1 + d) bytes for each feature and draw.
    checkpoint : str, path-like or Checkpoint, default=None
        File to which the chain of "gibbs" is saved. If the file exists and belongs to the same data and parameters,
        with an integer `random_state`, `fit` resumes from it, with the same result as without the interruption. A file
        that is damaged or belongs to another fit raises `CheckpointError`. A finished fit deletes the file.

    Attributes
    ----------
    fitted_ : FMFitted
        All that the fit has learnt, in one record; the other attributes are read from it.
    classes_ : ndarray of shape (n_classes,)
        Levels from low to high.
    thresholds_ : ndarray of shape (n_classes - 1,)
        b_1 < ... < b_(r-1), in units of the noise.
    inference_ : {"variational", "gibbs"}
        How the posterior was computed.
    posterior_ : FMPosterior
        Posterior of all parameters.
    weights_, weights_std_ : ndarray of shape (n_features,)
        Posterior means and standard deviations of the weights.
    factors_, factors_std_ : ndarray of shape (n_features, n_factors)
        Posterior means and standard deviations of the factors.
    intercept_ : float
        Posterior mean of w_0. With draws it is 0, because the thresholds include it.
    groups_ : ndarray of shape (n_groups,)
        Labels of the groups.
    group_priors_ : dict
        Means and standard deviations of each group's prior, by label.
    feature_importances_ : ndarray of shape (n_features,)
        Variance that each feature adds, interactions included, if all have mean 0 and variance 1: scale features first.
    lower_bounds_ : ndarray of shape (n_passes,)
        Evidence lower bound after each pass, including the hyperpriors; in mini-batches, its mean estimate.
    lower_bound_ : float
        The last of `lower_bounds_`.
    converged_ : bool
        Whether coordinate ascent has converged.
    log_likelihoods_ : ndarray of shape (n_draws,)
        With draws: log likelihood after burn-in, each time that the thresholds were drawn (in every third sweep).
    r_hat_, effective_sample_size_ : float
        With draws: diagnostics of `log_likelihoods_`. R-hat compares both halves of the chain. If it is above 1.1, or
        in a short chain above what chance explains, ``inference="gibbs"`` gives a `ConvergenceWarning`: use more
        sweeps. "auto" does not warn. NaN without a chain.
    validation_losses_ : ndarray
        Log loss after each pass, with `early_stopping`.
    n_iter_ : int
        Number of passes.
    n_features_in_ : int
        Number of features; with files, the number of their columns.
    design_ : ColumnDesign or None
        After a fit to files, how their columns become features: `design_.get_feature_names_out()` names these, and
        `design_.transform(frame)` returns them, of shape (n, n_features). None after a fit to data in memory.

    See Also
    --------
    skpref.factorization.fm.VariationalFM : Regression, whose predictions have a mean and a standard deviation.
    skpref.factorization.m3f.GibbsM3F : Ratings, with thresholds of every user.

    References
    ----------
    .. [VRK22] J.-J. Vie, T. Rigaux, H. Kashima: Variational factorization machines for preference elicitation in
       large-scale recommender systems. IEEE BigData 2022.
    .. [AC93] J. Albert, S. Chib: Bayesian analysis of binary and polychotomous response data. Journal of the American
       Statistical Association 88, 669-679, 1993.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from skpref import OneHotDesign, VariationalFMOrdinal
    >>> X = [["ann", "tea"], ["ann", "milk"], ["bob", "tea"], ["bob", "milk"], ["cleo", "tea"]]
    >>> model = make_pipeline(OneHotDesign(), VariationalFMOrdinal(n_factors=2, random_state=0))
    >>> model.fit(X, [5, 1, 4, 1, 4]).predict([["cleo", "milk"], ["bob", "tea"]]).tolist()
    [1, 4]
    """

    n_factors: int = 10
    _: KW_ONLY
    class_order: ArrayLike | None = None
    class_weight: dict[Any, float] | str | None = None
    inference: Literal["auto", "variational", "gibbs"] = "auto"
    max_iter: int = 150
    burn_in: int = 40
    checkpoint: str | os.PathLike[str] | Checkpoint | None = None
    n_samples: ClassVar[int] = 0  # type: ignore[misc]  # no parameter here: the bound is in closed form
    kl_weights: ClassVar[Literal["unbiased"]] = "unbiased"  # type: ignore[misc]

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **{name: kinds for name, kinds in CONSTRAINTS.items() if name not in {"n_samples", "kl_weights"}},
        "class_order": ["array-like", None],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "inference": [StrOptions({"auto", "variational", "gibbs"})],
        "burn_in": [Interval(Integral, 0, None, closed="left")],
        **CHECKPOINT_CONSTRAINTS,
    }

    @property
    def _head(self) -> LevelHead:
        return LevelHead(self.class_order)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # on scikit-learn's three blobs, which have no order
        return tags

    @property
    def classes_(self) -> Any:
        """Levels from low to high."""
        return self._learnt.classes

    def _needs_chain(self, data: TrainingRows, *, stream: bool) -> bool:
        """Return whether a chain follows; "auto" has one if rows hold ids, weights count rows, and it takes seconds."""
        if self.inference == "auto":
            n_products = (1 + self.n_factors) * float(data.weight @ np.diff(data.X.indptr))
            sound = bool(np.all(data.X.data == 1.0) and np.all(data.weight == np.round(data.weight)))
            short = n_products <= POLICY.most_products and self.batch_size is None and not self.early_stopping
            if not (sound and short) or stream:
                return False
            if self.burn_in > self.max_iter - 2:
                warn(_NO_SWEEPS.format(self.max_iter, self.burn_in))
                return False
        return self.inference != "variational" and self._check_chain(data.weight)

    def _check_chain(self, weight: Array) -> bool:
        """Raise DataError unless a chain can have these weights and so many sweeps."""
        if self.burn_in > self.max_iter - 2:
            msg = f"burn_in must be at most max_iter - 2; got burn_in={self.burn_in} and"
            raise DataError(f"{msg} max_iter={self.max_iter}. Increase max_iter or decrease burn_in.")
        if np.any(weight != np.round(weight)) or weight.sum() > _MOST_ROWS:
            wrong = weight[np.argmax(np.where(weight != np.round(weight), np.inf, weight))]
            msg = f"with inference='gibbs', sample_weight must be whole numbers with a sum of at most {_MOST_ROWS:g}"
            raise DataError(f"{msg}, because they count copies of a row; got {wrong:g}. Use inference='variational'.")
        return True

    def _sample(self, data: TrainingRows) -> None:
        """Replace the variational posterior by draws of a chain that starts from it."""
        rows = np.repeat(np.arange(data.y.size), data.weight.astype(np.int64))
        hook, n = iteration_callback(self, step="sweep", objective="log likelihood"), self.n_iter_
        reports = hook and (lambda event: hook(replace(event, step=event.step + n, n_max=event.n_max + n)))
        seed = int(as_generator(self.random_state).integers(2**63))
        X, level = data.X[rows], data.y[rows].astype(np.int64)
        settings = seed, self.max_iter, self.burn_in, bool(self.learn_priors)
        options = ChainOptions(
            self.max_iter,
            self.burn_in,
            learn_priors=bool(self.learn_priors),
            checkpoint=checkpoint_of(self.checkpoint, self.posterior_, (X, level), settings),
            on_iteration=reports,
            fitted=lambda posterior: self._snapshot(replace(self.fitted_, posterior=posterior)),
        )
        with self._limit_threads():
            self.fitted_ = replace(self.fitted_, posterior=sample_chain(self.posterior_, X, level, options, seed))
        if self.inference == "gibbs":
            warn_not_stationary(self.posterior_, type(self).__name__)

    @property
    def inference_(self) -> Literal["variational", "gibbs"]:
        """How the posterior was computed."""
        return "variational" if self.posterior_.sampled is None else "gibbs"

    @property
    def log_likelihoods_(self) -> Array:
        """Log likelihood after burn-in, each time that the thresholds were drawn."""
        return np.empty(0) if self.posterior_.sampled is None else self.posterior_.sampled.log_likelihoods

    @property
    def r_hat_(self) -> float:
        """R-hat of the log likelihood; NaN without a chain."""
        return split_rhat(self.log_likelihoods_[None])

    @property
    def effective_sample_size_(self) -> float:
        """Effective sample size of the log likelihood; NaN without a chain."""
        return effective_sample_size(self.log_likelihoods_[None])

    @fit_context
    def partial_fit(
        self,
        X: MatrixLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        freeze: ArrayLike | None = None,
    ) -> Self:
        """Update the posterior with more rows; the present posterior is the prior.

        The posterior of a stream is variational: after draws, the variational fit that the chain started from is the
        prior. Pass each row once: a row that is passed again counts twice. The priors of the groups and the thresholds
        do not change. A column without entries so far (a future user, for which X has a column) starts from the prior
        of its group.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, n_features)
            Features.
        y : array-like of shape (n,)
            Ordered labels.
        classes : array-like of shape (n_classes,), default=None
            All levels from low to high, for the first call, in place of `class_order`. With it the first rows may all
            have the same level.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows.
        freeze : label or array-like of labels, default=None
            Groups that are not updated; w_0 is then not updated either. If all groups except the users are frozen, new
            ratings change only their users.

        Returns
        -------
        VariationalFMOrdinal
            The fitted estimator. The first call is the same as `fit`, but "auto" is then "variational".

        Raises
        ------
        ValueError
            As in `fit`; or if a level is new, a group of `freeze` does not exist, or `n_factors` was changed.
        """
        return self._partial_fit(X, y, classes, sample_weight, freeze)

    @accept_collections
    def predict_proba(self, X: MatrixLike) -> Array:
        """Return the probability of each level, averaged over the posterior.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, n_features)
            Features.

        Returns
        -------
        ndarray of shape (n, n_classes)
            Probabilities, in the order of `classes_`. Their product with numeric `classes_` is the expected rating.
        """
        return self._likelihood.probabilities(*self.latent_mean_and_variance(X))

    @accept_collections
    def predict(self, X: MatrixLike, loss: Literal["zero-one", "absolute"] = "zero-one") -> NDArray[Any]:
        """Predict a level for every row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, n_features)
            Features.
        loss : {"zero-one", "absolute"}, default="zero-one"
            "zero-one": the most probable level. "absolute": the median level, which minimises the expected distance in
            ranks.

        Returns
        -------
        ndarray of shape (n,)
            Labels, from `classes_`.

        Raises
        ------
        ValueError
            For any other loss.
        """
        if not isinstance(loss, str) or loss not in {"zero-one", "absolute"}:
            raise DataError(f"loss must be 'zero-one' or 'absolute'; got {loss!r}.")
        mu, v = self.latent_mean_and_variance(X)
        if loss == "absolute":
            return self.classes_[np.searchsorted(self._likelihood.thresholds, mu)]
        return self.classes_[self._likelihood.probabilities(mu, v).argmax(axis=1)]

    @accept_collections
    def score(self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return minus the mean absolute error in ranks of the median level.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, n_features)
            Features.
        y : array-like of shape (n,)
            Labels. Without `class_order`, a level that no training row has takes its sorted place among the others.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows. None: 1.

        Returns
        -------
        float
            At most 0, for perfect predictions.
        """
        return self._score_of(self.predict(X, loss="absolute"), y, sample_weight)

    def _score_of(self, predicted: NDArray[Any], y: Any, sample_weight: Any) -> float:
        """Return the score of predicted levels."""
        levels = with_levels_of(self.classes_, y) if self.class_order is None else self.classes_
        return -ordinal_mae(encode_levels(y, levels), encode_levels(predicted, levels), sample_weight=sample_weight)

    @property
    def thresholds_(self) -> Array:
        """Thresholds between the levels, in units of the noise, shape (n_classes - 1,)."""
        return np.asarray(self._likelihood.thresholds)

    @property
    def _likelihood(self) -> OrdinalProbit:
        return cast("OrdinalProbit", self._machine.likelihood)
