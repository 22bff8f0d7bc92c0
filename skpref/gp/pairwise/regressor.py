"""`GPPLRegressor`: rows are items ([SG20] sections 3 and 4; docs/maths sections 1 to 5)."""

from __future__ import annotations

from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, overload

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from skpref._callbacks import CallbackMixin, fit_callbacks, fit_context
from skpref._checks import require
from skpref._estimator import unchanged_on_failure
from skpref._math.random import as_generator
from skpref._sources import accept_collections, as_source, bring_rows, feature_columns, is_elsewhere
from skpref._validation import validate_data
from skpref._warn import warn
from skpref.data import Vocabulary, as_ids, unique_rows
from skpref.data.columns import read_ids
from skpref.data.comparisons import from_labels
from skpref.data.tables import canonical, stack
from skpref.data.tasks import rankings_of_scores
from skpref.data.weights import read_weights
from skpref.exceptions import DataError, DataWarning
from skpref.gp.capabilities import Capabilities
from skpref.gp.entities import Items
from skpref.gp.pairwise.base import (
    DEFAULT_SETTINGS,
    SHARED_CONSTRAINTS,
    as_likelihood,
    check_attributes,
    check_rows,
    compare_scores,
    config_of,
    draw_utilities,
    infer,
    set_attributes,
    utility_moments,
    warm_start,
)
from skpref.gp.pairwise.fit import PairData
from skpref.gp.pairwise.ranking import Ranking, rank_items
from skpref.gp.pairwise.scored_groups import are_few, check_columns, fit_groups, weigh_pairs_of_scores
from skpref.gp.relevance import prior_relevance
from skpref.likelihoods import Luce
from skpref.metrics import concordance
from skpref.settings import HasSettings

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray
    from sklearn.gaussian_process.kernels import Kernel
    from sklearn.utils import Tags

    from skpref._sources import Source
    from skpref._typing import Array, MatrixLike, RandomState, Stored
    from skpref.likelihoods import Likelihood
    from skpref.settings import LBFGS, SVI, Fixed, Gamma, Inducing, Settings


_RANKINGS = Capabilities(
    "rankings, likelihood='plackett-luce'",
    {"comparisons": (None,), "inference": ("auto", "vb")},
    "use likelihood='logit', which is the same for pairs",
)


class GPPLRegressor(RegressorMixin, CallbackMixin, HasSettings):
    """Learning to rank by a Gaussian process: utilities of items from scores, grades, ranks or comparisons.

    Rows of X are items. The model learns a utility f(x) such that x is preferred to x' with probability
    Phi(f(x) - f(x')) ([SG20] eq. 3). It is used like a learning-to-rank model: `fit(X, y, qid=...)`.

    Parameters
    ----------
    kernel : Kernel, default=None
        Covariance of the utilities, with unit amplitude: a kernel of `skpref.kernels` or scikit-learn. None:
        `ProductMatern` (nu = 3/2) with a length-scale for each feature, see `optimizer`.
    likelihood : str or Likelihood, default="probit"
        "probit": Thurstone-Mosteller. "logit": Bradley-Terry. "probit-ties" and "logit-ties": the same with ties as a
        third answer (which only `GPPLClassifier` can observe). "davidson": the logit with other ties. "plackett-luce":
        the scores of a group are one ranking, without pairs: a choice of the best row, of the best of the rest, and so
        on. It is for scores of at most 50 rows in a group, by ``inference="auto"`` or "vb".
    inference : {"auto", "vb", "svi", "laplace", "linearised"} or SVI, default="auto"
        "vb": variational Bayes with full passes. "svi": with mini-batches, see `SVI`. "laplace": a Gaussian at the
        mode. "linearised": the approximation of [SG20], which is overconfident. "auto": "vb" while the kernel rows of
        the items fit into 2 GiB, else "svi".
    inducing : int, Inducing or array-like of shape (M, n_features), default=300
        Largest number M of inducing points, which are spread out over the items; `Inducing` chooses them otherwise. Or
        the points themselves. A pass costs O(N M^2); M >= the number of distinct items is exact.
    max_iter : int, default=200
        Largest number of passes over the comparisons.
    tol : float, default=1e-4
        Stop when a full pass raises the bound by less than ``tol / 100`` of its size. For "svi": when the mean bound
        of a pass changes by less than `tol` of its size.
    scale_prior : Gamma or Fixed, default=None
        Prior of the inverse variance of the utilities, in units of the answer noise. None: ``Gamma(1.0, 1.0)``, which
        has mean 1 and the weight of two variables. `Fixed`: it is known.
    optimizer : {"auto", "l-bfgs-b"}, LBFGS or None, default="auto"
        How the hyperparameters of the kernel are learnt. "auto": a length-scale for each feature of the default
        kernel, under a weak prior about the median distances of the items (with more than 256 features, one factor on
        the medians); a `Kernel` does not change. "l-bfgs-b": all hyperparameters maximise the bound; unlike "auto",
        this may overfit a few dozen items. `LBFGS` has further starts. None: nothing is learnt.
    pairs_per_item : int, default=10
        Number of random partners with which each item of a large group is compared, if comparisons are made from `y`.
        Rankings ("plackett-luce") have none.
    warm_start : bool, default=False
        Whether `fit` starts from the previous posterior and kernel. It needs the same items, kernel, inducing points
        and model; otherwise it is a cold start.
    verbose : int, default=0
        Whether to print one line per pass.
    random_state : int, RandomState, Generator or None, default=None
        Seed of inducing points, partners, mini-batches and restarts.

    Attributes
    ----------
    posterior_ : PairPosterior
        Posterior of the utilities, which predictions use.
    kernel_ : Kernel
        The kernel with its final hyperparameters.
    inducing_points_ : ndarray or CSR of shape (M, n_features)
        Inducing points.
    feature_importances_ : ndarray of shape (n_features,)
        Relevance of each feature, as `relevance_` of `SVGPRegressor`, for `SelectFromModel` and `RFE`.
    likelihood_ : Likelihood
        The likelihood with its learnt parameters.
    scale_ : GammaScale or FixedScale
        Posterior of the inverse variance of the utilities.
    lower_bound_ : float
        Bound on the log evidence, in nats.
    lower_bounds_ : list of float
        The bound after each pass.
    n_iter_ : int
        Number of passes.
    converged_ : bool
        Whether `tol` was met.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str
        Their names, if X had any.

    See Also
    --------
    GPPLClassifier : Rows are comparisons of items named by ids.

    Notes
    -----
    If comparisons never contradict each other, such as those of a `y` without noise, they determine the order of the
    utilities but not their scale. The scale then grows with the number of comparisons and depends on its prior.

    References
    ----------
    .. [SG20] Simpson and Gurevych, "Scalable Bayesian preference learning for crowds", Machine Learning, 2020.

    Examples
    --------
    >>> import numpy as np
    >>> from skpref import GPPLRegressor
    >>> X = np.arange(8.0).reshape(-1, 1)
    >>> model = GPPLRegressor(random_state=0).fit(X, y=[0, 1, 1, 2, 3, 3, 4, 5])
    >>> model.score(X, [0, 1, 1, 2, 3, 3, 4, 5])
    1.0
    >>> winners = [[3, 0], [5, 3], [7, 5], [7, 0]]
    >>> model = GPPLRegressor(random_state=0).fit(X, comparisons=winners)
    >>> bool(model.predict_preference([[7.0]], [[0.0]])[0] > 0.5)
    True

    Two choices, of one item among four each:

    >>> model = GPPLRegressor(likelihood="plackett-luce", random_state=0)
    >>> model = model.fit(X, y=[0, 0, 0, 1, 0, 0, 0, 1], qid=[1, 1, 1, 1, 2, 2, 2, 2])
    >>> bool(model.predict([[7.0]])[0] > model.predict([[4.0]])[0])
    True
    """

    _settings_defaults: ClassVar[dict[str, Settings]] = DEFAULT_SETTINGS
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **SHARED_CONSTRAINTS,
        "pairs_per_item": [Interval(Integral, 1, None, closed="left")],
    }
    _takes_collections: ClassVar[bool] = True
    # With metadata routing, fit and score receive `qid` without a request by the user.
    __metadata_request__fit: ClassVar[dict[str, bool]] = {"qid": True}
    __metadata_request__score: ClassVar[dict[str, bool]] = {"qid": True}

    def __init__(
        self,
        kernel: Kernel | None = None,
        *,
        likelihood: str | Likelihood = "probit",
        inference: str | SVI = "auto",
        inducing: int | Inducing | MatrixLike = 300,
        max_iter: int = 200,
        tol: float = 1e-4,
        scale_prior: Gamma | Fixed | None = None,
        optimizer: str | LBFGS | None = "auto",
        pairs_per_item: int = 10,
        warm_start: bool = False,
        verbose: int = 0,
        random_state: RandomState = None,
    ) -> None:
        self.kernel = kernel
        self.likelihood = likelihood
        self.inference = inference
        self.inducing = inducing
        self.max_iter = max_iter
        self.tol = tol
        self.scale_prior = scale_prior
        self.optimizer = optimizer
        self.pairs_per_item = pairs_per_item
        self.warm_start = warm_start
        self.verbose = verbose
        self.random_state = random_state

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    @fit_context
    def fit(
        self,
        X: MatrixLike | Stored,
        y: ArrayLike | None = None,
        *,
        comparisons: ArrayLike | None = None,
        qid: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn the utilities.

        Parameters
        ----------
        X : {array-like, CSR} of shape (n_items, n_features), str, Path, Dataset or collection
            Items; equal rows are one item. Or a Parquet file, a folder of them, or a dataset, whose rows are sorted by
            `qid`: all columns except those that other arguments name are features, and at most a million rows are in
            memory at a time.
            Or a frame or array of Dask: `y` and `sample_weight` are then columns of it by name, or collections with the
            same partitions.
        y : array-like of shape (n_items,) or str, default=None
            Scores, grades or ranks, the higher the better; with files, the name of the column. Only their order within
            a group matters; equal values are not compared. All pairs of an item share the noise of its score, so `fit`
            gives each pair less weight than an independent comparison. Required unless `comparisons` are given. With
            "plackett-luce" each group is one ranking: 1 for a single row and 0 for the others is a choice of it. Equal
            lowest scores say nothing about each other. Of other equal scores, each row is chosen before all rows with
            lower scores; of two such rows, each is also chosen before the other, with half the weight.
        comparisons : array-like of shape (n_comparisons, 2), default=None
            Row numbers of X: (winner, loser). Not with "plackett-luce".
        qid : array-like of shape (n_items,) or str, default=None
            Groups (queries): `y` compares items of the same group only. None: one group. Groups of one row say nothing.
            With files, the name of the column, which is required.
        sample_weight : array-like of shape (n_items,) or (n_comparisons,), or str, default=None
            Weights of the items if `y` is given (a comparison has the product of two), else of the comparisons. None:
            all weights are 1. With "plackett-luce" the rows of a group have one weight, that of its ranking.

        Returns
        -------
        GPPLRegressor
            The fitted estimator.

        Raises
        ------
        ValueError
            If the input is not finite, refers to rows that do not exist or compares nothing, or if both or neither of
            `y` and `comparisons` are given. With "plackett-luce": if a group has more than 50 rows or different
            weights, or if `comparisons` or another `inference` are given.

        Warns
        -----
        DataWarning
            If a comparison is of two rows with the same features.
        """
        with fit_callbacks(self, X, y, sample_weight), unchanged_on_failure(self):
            if is_elsewhere(X):
                self._fit_source(as_source(X, y, sample_weight), comparisons, qid)
            else:
                self._fit_rows(X, y, comparisons, qid, sample_weight)
        return self

    @property
    def _ranks_groups(self) -> bool:
        """Whether scores of a group are one ranking, and not pairs."""
        return isinstance(as_likelihood(self.likelihood), Luce)

    def _fit_source(self, source: Source, comparisons: Any, qid: Any) -> None:
        """Fit to rows in whole groups: points and kernel by a sample, the posterior by sums over all comparisons."""
        check_columns(source, comparisons, qid)
        found: list[Any] = list(feature_columns(source, qid))
        if are_few(found[0]) or not self._sums_suffice:
            X, y, weight = bring_rows(found[0], "fits by mini-batches or with learnt likelihoods")
            self._fit_rows(X.drop(columns=qid), y, None, X[qid].to_numpy(), weight)
            return
        set_attributes(self, fit_groups(found, self, qid, config_of(self, offsets=False, order=False)))

    @property
    def _sums_suffice(self) -> bool:
        """Whether a fit takes sums over comparisons; all other fits are to rows in memory."""
        learns = self._ranks_groups or as_likelihood(self.likelihood).has_parameters
        return self.inference in {"auto", "vb", "laplace"} and not learns

    def _fit_rows(self, X: Any, y: Any, comparisons: Any, qid: Any, sample_weight: Any) -> None:
        """Fit to rows in memory."""
        if self._ranks_groups:
            _RANKINGS.check(vars(self) | {"comparisons": comparisons})
        features, y = check_rows(self, X, y, comparisons)
        first, item = unique_rows(features)
        if self._ranks_groups:
            pairs, first = rankings_of_scores(y, qid, sample_weight, item, first)
        elif comparisons is None:
            pairs = compare_scores(self, y, qid, sample_weight, item, first.size)
        else:
            known, sides = Vocabulary.range(features.shape[0]), read_ids(comparisons, ("left", "right"), "comparisons")
            winner, loser = (known.encode(side, "comparisons") for side in sides)
            rows = from_labels(winner, loser, None, known.size, sample_weight=sample_weight)
            _warn_of_twins(item[rows.left] == item[rows.right])
            pairs = from_labels(
                item[rows.left], item[rows.right], rows.y, first.size, sample_weight=rows.weight, on_self="drop"
            )
        if pairs.n_pairs and not pairs.total_weight:
            raise DataError("sample_weight: all comparisons have weight zero; give at least one a positive weight.")
        pairs, seen = pairs.merged(keep_ties=as_likelihood(self.likelihood).ties_are_answers).compact()
        data = PairData(features[first[seen]] if seen.size else features[first[:1]], pairs)
        if comparisons is None and not self._ranks_groups:
            n_scores = np.bincount(item, read_weights(sample_weight, item.size), first.size)[seen]
            data = self._weigh(data, n_scores.astype(np.float64))
        set_attributes(self, infer(self, data, config_of(self, offsets=False, order=False)))

    def _weigh(self, data: PairData, n_scores: Array) -> PairData:
        """Return the comparisons of scores, weighted by their worth (`worth_of`)."""
        config = config_of(self, offsets=False, order=False)
        start, rng = warm_start(self, data, config), lambda: as_generator(self.random_state)
        return PairData(data.X, weigh_pairs_of_scores(data, n_scores, self.kernel, config, start, rng))

    def _check_fitted(self) -> None:
        """Raise DataError unless the fitted attributes fit together."""
        check_attributes(self)
        basis = self.posterior_.basis
        fits = basis is not None and self.n_features_in_ == basis.points.shape[1]
        require(fits, self, "n_features_in_", "does not fit the inducing points")

    @property
    def feature_importances_(self) -> Array:
        """Relevance of each feature under the prior, shape (n_features,), for `SelectFromModel` and `RFE`."""
        check_is_fitted(self)
        return prior_relevance(self.kernel_, self.inducing_points_)

    def _rows(self, X: Any) -> Items:
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, order="C", reset=False)
        return Items.new(canonical(X))

    @overload
    def predict(
        self, X: MatrixLike, return_std: Literal[False] = False, return_cov: Literal[False] = False
    ) -> Array: ...
    @overload
    def predict(self, X: MatrixLike, return_std: Literal[True], return_cov: bool = False) -> tuple[Array, Array]: ...
    @overload
    def predict(self, X: MatrixLike, *, return_cov: Literal[True]) -> tuple[Array, Array]: ...
    @overload
    def predict(self, X: MatrixLike, return_std: bool, return_cov: bool = False) -> Array | tuple[Array, Array]: ...
    @accept_collections
    def predict(self, X: MatrixLike, return_std: bool = False, return_cov: bool = False) -> Array | tuple[Array, Array]:
        """Return the posterior utilities of items.

        Parameters
        ----------
        X : {array-like, CSR} of shape (n, n_features)
            Items.
        return_std : bool, default=False
            Whether to return standard deviations, too.
        return_cov : bool, default=False
            Whether to return the covariance, too (at most 10,000 items).

        Returns
        -------
        mean : ndarray of shape (n,)
            Utilities, in units of the answer noise; the average over the compared items is 0.
        std or cov : ndarray of shape (n,) or (n, n)
            Only with `return_std` or `return_cov`.

        Raises
        ------
        ValueError
            If both `return_std` and `return_cov` are True.
        """
        items = self._rows(X)
        return utility_moments(self.posterior_, items, return_std=return_std, return_cov=return_cov)

    def sample_y(self, X: MatrixLike, n_samples: int = 1, random_state: RandomState = None) -> Array:
        """Draw joint samples of the utilities from the posterior.

        Parameters
        ----------
        X : {array-like, CSR} of shape (n, n_features)
            Items, at most 10,000.
        n_samples : int, default=1
            Number of draws.
        random_state : int, RandomState, Generator or None, default=None
            Seed of the draws.

        Returns
        -------
        ndarray of shape (n, n_samples)
            One draw per column.
        """
        items = self._rows(X)
        return draw_utilities(self.posterior_, items, n_samples, as_generator(random_state))

    def rank(
        self,
        X: MatrixLike,
        ids: ArrayLike | None = None,
        *,
        credibility: float = 0.9,
        n_samples: int = 2000,
        random_state: RandomState = 0,
        scale: Literal["utility", "elo"] = "utility",
    ) -> Ranking:
        """Rank items, the best first, with credible intervals of the ranks.

        Parameters
        ----------
        X : {array-like, CSR} of shape (n, n_features)
            Items.
        ids : array-like of shape (n,), default=None
            Their names; None: their row numbers.
        credibility : float, default=0.9
            Posterior probability of each interval.
        n_samples : int, default=2000
            Posterior draws; the standard error of `probability_best` is at most 0.011.
        random_state : int, RandomState, Generator or None, default=0
            Seed of the draws.
        scale : {"utility", "elo"}, default="utility"
            Units of the answer noise, or Elo points with the average of the compared items at 1500; see
            `Ranking.to_scale`.

        Returns
        -------
        Ranking
            Columns id, utility, std, utility_low, utility_high, rank, probability_best, rank_low, rank_high, tied_rank.

        Raises
        ------
        ValueError
            If the names are not distinct, or are not as many as the rows.
        """
        items = self._rows(X)
        names = np.arange(items.size) if ids is None else as_ids(ids, "ids", "row")
        if names.size != items.size:
            raise DataError(f"ids must name each of the {items.size} rows of X; got {names.size} ids")
        rng = as_generator(random_state)
        ranking = rank_items(self.posterior_, names, items, credibility, n_samples, rng)
        return ranking.to_scale(scale, self.likelihood_)

    def predict_preference(self, X_left: MatrixLike, X_right: MatrixLike) -> Array:
        """Return the probability that an answer prefers the left item, row by row.

        Parameters
        ----------
        X_left : {array-like, CSR} of shape (n, n_features)
            Left items.
        X_right : {array-like, CSR} of shape (n, n_features)
            Right items.

        Returns
        -------
        ndarray of shape (n,)
            Probabilities; 1/2 for equal rows.

        Raises
        ------
        ValueError
            If the numbers of rows differ.
        """
        left, right = self._rows(X_left), self._rows(X_right)
        if left.size != right.size:
            msg = f"X_left and X_right must have the same number of rows; got {left.size} and {right.size}."
            raise ValueError(msg)
        features = stack(left.features, right.features)
        first, item = unique_rows(features)
        mean, variance = self.posterior_.pairs(Items.new(features[first]), *np.split(item, 2))
        return self.likelihood_.predict(mean, variance)

    @accept_collections
    def score(
        self, X: MatrixLike, y: ArrayLike, qid: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> float:
        """Return the concordance of the predicted and the given order.

        Parameters
        ----------
        X : {array-like, CSR} of shape (n, n_features)
            Items.
        y : array-like of shape (n,)
            Scores, grades or ranks.
        qid : array-like of shape (n,), default=None
            Groups; only pairs within a group count. None: one group.
        sample_weight : array-like of shape (n,), default=None
            Weights of the items; a pair has the product of two. None: all weights are 1.

        Returns
        -------
        float
            Share of the pairs with different `y` that are ordered correctly, in [0, 1]; predicted ties count half.
        """
        return concordance(y, self.predict(X), qid=qid, sample_weight=sample_weight)


def _warn_of_twins(same: NDArray[np.bool_]) -> None:
    """Warn of comparisons of two rows with the same features, whose utilities are one."""
    if same.any():
        warn(
            f"comparison {np.argmax(same)} is of two rows of X with the same features, and teaches nothing "
            f"({np.sum(same)} such comparisons are left out)",
            DataWarning,
        )
