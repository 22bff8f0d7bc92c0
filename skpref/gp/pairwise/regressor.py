"""`GPPLRegressor`: rows are items ([SG20] sections 3 and 4; docs/maths sections 1 to 5)."""

from __future__ import annotations

from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import RegressorMixin, _fit_context
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted, validate_data

from skpref._callbacks import fit_callbacks
from skpref._estimator import unchanged_on_failure
from skpref._math.random import as_generator
from skpref.data import from_labels, from_winners, unique_rows
from skpref.data.tables import canonical, stack
from skpref.exceptions import DataError
from skpref.gp.entities import Items
from skpref.gp.pairwise.base import (
    SHARED_CONSTRAINTS,
    PairwiseGP,
    as_likelihood,
    checked_rows,
    compare_scores,
    draw,
    moments,
)
from skpref.gp.pairwise.fit import PairData
from skpref.metrics import concordance

if TYPE_CHECKING:
    from sklearn.gaussian_process.kernels import Kernel
    from sklearn.utils import Tags

    from skpref._typing import Array
    from skpref.likelihoods import Likelihood


class GPPLRegressor(RegressorMixin, PairwiseGP):
    """Gaussian-process utilities of items, learnt from scores, grades, ranks or comparisons.

    Rows of X are items. What is learnt is a utility f(x) such that x is preferred to x' with probability
    Phi(f(x) - f(x')) ([SG20] eq. 3). It stands where a learning-to-rank model stands: `fit(X, y, qid=...)`.

    Parameters
    ----------
    kernel : Kernel, default=None
        Covariance of the utilities with unit amplitude: one of `skpref.kernels` or of scikit-learn. None stands for
        `ProductMatern` (nu = 3/2) with a length-scale per feature from the median heuristic, times
        `length_scale_factor`.
    likelihood : {"probit", "logit", "probit-ties"} or Likelihood, default="probit"
        Thurstone-Mosteller, Bradley-Terry, or the former with ties as an answer of their own (which only
        `GPPLClassifier` is ever given).
    inference : {"auto", "vb", "svi", "laplace", "linearised"}, default="auto"
        "vb": full passes, monotone bound; "svi": mini-batches of `batch_size`; "laplace": Gaussian at the mode;
        "linearised": the approximation of [SG20], for comparison only (it is overconfident); "auto": "vb" while the
        items' kernel rows fit in 2 GiB, else "svi".
    n_inducing : int, default=300
        Inducing points M at most; a pass costs N M^2. With at least as many as distinct items the sparse
        approximation is exact.
    inducing : {"kmeans++", "kmeans", "random", "variance"} or array-like of shape (M, n_features), default="kmeans++"
        Where they come from.
    batch_size : int, default=1000
        Comparisons a step of "svi".
    max_iter : int, default=200
        Passes over the comparisons at most.
    tol : float, default=1e-4
        Stop when a full pass raises the bound by less than ``tol / 100`` of its size; for "svi", when the mean bound
        of a pass changes by less than `tol` of its size.
    delay, forgetting_rate : float, default=1.0, 0.9
        Step size (t + delay)^-forgetting_rate of "svi"; forgetting_rate in (0.5, 1].
    shape_s0, rate_s0 : float, default=2.0, 2.0
        Gamma prior (shape, rate) of the inverse scale s of the utilities, in units of the squared answer noise: prior
        mean 1, broad.
    length_scale_factor : "auto" or float, default="auto"
        Factor on the median heuristic of the default kernel; "auto" lets the bound choose it. Not used with `kernel`.
    optimizer : {"l-bfgs-b"} or None, default=None
        Whether to learn all hyper-parameters of the kernel (relevance of each feature) by the bound's gradient.
    n_restarts_optimizer : int, default=0
        Further random starts of the optimiser within the kernel's bounds.
    pairs_per_item : int, default=10
        Partners sampled for each item of a large group when comparisons are formed from `y`.
    warm_start : bool, default=False
        Whether `fit` goes on from the earlier posterior and hyper-parameters, where items, kernel, inducing points and
        the parts of the model are the same as before; else it starts afresh.
    verbose : int, default=0
        Whether to print a line a pass.
    random_state : int, RandomState, Generator or None, default=None
        Inducing points, partners, mini-batches, restarts.

    Attributes
    ----------
    posterior_ : PairPosterior
        All that predictions need.
    kernel_ : Kernel
        Kernel with its learnt hyper-parameters.
    inducing_points_ : {ndarray, CSR} of shape (M, n_features)
        Inducing inputs.
    scale_ : GammaScale
        Posterior of s.
    lower_bound_, lower_bounds_ : float, list of float
        Bound on the log evidence in nats: final, and after each pass.
    n_iter_ : int
        Passes made.
    converged_ : bool
        Whether `tol` was met.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of str
        Their names, when X had some.

    See Also
    --------
    GPPLClassifier : Rows are comparisons of items named by ids.

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
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **SHARED_CONSTRAINTS,
        "pairs_per_item": [Interval(Integral, 1, None, closed="left")],
    }
    # With metadata routing on, groups of rows travel to fit and score without being asked for.
    __metadata_request__fit: ClassVar[dict[str, bool]] = {"qid": True}
    __metadata_request__score: ClassVar[dict[str, bool]] = {"qid": True}

    def __init__(
        self,
        kernel: Kernel | None = None,
        *,
        likelihood: str | Likelihood = "probit",
        inference: str = "auto",
        n_inducing: int = 300,
        inducing: Any = "kmeans++",
        batch_size: int = 1000,
        max_iter: int = 200,
        tol: float = 1e-4,
        delay: float = 1.0,
        forgetting_rate: float = 0.9,
        shape_s0: float = 2.0,
        rate_s0: float = 2.0,
        length_scale_factor: float | str = "auto",
        optimizer: str | None = None,
        n_restarts_optimizer: int = 0,
        pairs_per_item: int = 10,
        warm_start: bool = False,
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.likelihood = likelihood
        self.inference = inference
        self.n_inducing = n_inducing
        self.inducing = inducing
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.tol = tol
        self.delay = delay
        self.forgetting_rate = forgetting_rate
        self.shape_s0 = shape_s0
        self.rate_s0 = rate_s0
        self.length_scale_factor = length_scale_factor
        self.optimizer = optimizer
        self.n_restarts_optimizer = n_restarts_optimizer
        self.pairs_per_item = pairs_per_item
        self.warm_start = warm_start
        self.verbose = verbose
        self.random_state = random_state

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self, X: Any, y: Any = None, *, comparisons: Any = None, qid: Any = None, sample_weight: Any = None
    ) -> Self:
        """Learn the utilities.

        Parameters
        ----------
        X : {array-like, CSR} of shape (n_items, n_features)
            Items; equal rows are one item.
        y : array-like of shape (n_items,), default=None
            Scores, grades or ranks, the higher the better; only their order within a group matters, and equal values
            say nothing. Needed unless `comparisons` are given.
        comparisons : array-like of shape (P, 2), default=None
            (winner, loser) rows of X.
        qid : array-like of shape (n_items,), default=None
            Groups (queries): only items of one group are compared by `y`.
        sample_weight : array-like, default=None
            Weights of the items (with `y`; a comparison weighs the product) or of the comparisons.

        Returns
        -------
        GPPLRegressor
            Itself, fitted.

        Raises
        ------
        ValueError
            If the input is not finite, refers to rows that do not exist, compares nothing, or gives both or neither
            of `y` and `comparisons`.
        """
        with fit_callbacks(self, X, y, sample_weight), unchanged_on_failure(self):
            X, y = checked_rows(self, X, y, comparisons)
            first, item = unique_rows(X)
            if comparisons is None:
                found = compare_scores(self, y, qid, sample_weight, item, first.size)
            else:
                rows = from_winners(comparisons, X.shape[0], sample_weight=sample_weight)
                found = from_labels(
                    item[rows.left], item[rows.right], rows.y, first.size, sample_weight=rows.weight, on_self="drop"
                )
            if found.n_pairs and not found.total_weight:
                raise DataError("sample_weight: all comparisons have weight zero; give at least one a positive weight.")
            comparisons, seen = found.merged(keep_ties=as_likelihood(self.likelihood).ties_are_answers).compact()
            data = PairData(X[first[seen]] if seen.size else X[first[:1]], comparisons)
            self._keep(self._infer(data, self._config(offsets=False, order=False)))
        return self

    def _rows(self, X: Any) -> Items:
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, order="C", reset=False)
        return Items(canonical(X), np.full(X.shape[0], -1))

    def predict(self, X: Any, return_std: bool = False, return_cov: bool = False) -> Array | tuple[Array, Array]:
        """Return posterior utilities.

        Parameters
        ----------
        X : {array-like, CSR} of shape (n, n_features)
            Items.
        return_std : bool, default=False
            Whether to add posterior standard deviations.
        return_cov : bool, default=False
            Whether to add the posterior covariance instead (at most 10,000 items).

        Returns
        -------
        mean : ndarray of shape (n,)
            Utilities, in units of the answer noise.
        std or cov : ndarray of shape (n,) or (n, n)
            Only when asked for.

        Raises
        ------
        ValueError
            If both are asked for.
        """
        items = self._rows(X)
        return moments(self.posterior_, items, return_std=return_std, return_cov=return_cov)

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = None) -> Array:
        """Draw joint samples of the utilities from the posterior.

        Parameters
        ----------
        X : {array-like, CSR} of shape (n, n_features)
            Items, at most 10,000.
        n_samples : int, default=1
            Number of draws.
        random_state : int, RandomState, Generator or None, default=None
            Source of randomness.

        Returns
        -------
        ndarray of shape (n, n_samples)
            A draw a column.
        """
        items = self._rows(X)
        return draw(self.posterior_, items, n_samples, as_generator(random_state))

    def predict_preference(self, X_left: Any, X_right: Any) -> Array:
        """Return the probability that an answer prefers the left item, row by row.

        Parameters
        ----------
        X_left, X_right : {array-like, CSR} of shape (n, n_features)
            Items to compare.

        Returns
        -------
        ndarray of shape (n,)
            Probabilities; 1/2 for equal rows.

        Raises
        ------
        ValueError
            If the two have different numbers of rows.
        """
        left, right = self._rows(X_left), self._rows(X_right)
        if left.size != right.size:
            msg = f"X_left and X_right must have the same number of rows; got {left.size} and {right.size}."
            raise ValueError(msg)
        features = stack(left.features, right.features)
        first, item = unique_rows(features)
        a, b = np.split(item, 2)
        mean, variance = self.posterior_.pairs(Items(features[first], np.full(first.size, -1)), a, b)
        return self.likelihood_.predict(mean, variance)

    def score(self, X: Any, y: Any, qid: Any = None, sample_weight: Any = None) -> float:
        """Return the concordance of predicted and given order.

        Parameters
        ----------
        X : {array-like, CSR} of shape (n, n_features)
            Items.
        y : array-like of shape (n,)
            Scores, grades or ranks.
        qid : array-like of shape (n,), default=None
            Groups; only pairs within a group count.
        sample_weight : array-like of shape (n,), default=None
            Weights of the items; a pair weighs the product.

        Returns
        -------
        float
            Fraction of pairs with different y that are ordered right, ties of the prediction counting half; in [0, 1].
        """
        return concordance(y, self.predict(X), qid=qid, sample_weight=sample_weight)
