"""`GPPLClassifier`: rows are comparisons ([SG20] sections 3 and 4; docs/maths sections 1 to 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from scipy.special import ndtr
from sklearn.base import ClassifierMixin, _fit_context
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from skpref._callbacks import fit_callbacks
from skpref._estimator import unchanged_on_failure
from skpref._math.random import as_generator
from skpref.data import Comparisons, Table, Vocabulary, from_labels, read_pairs
from skpref.gp.entities import Items, as_table
from skpref.gp.pairwise.base import (
    SHARED_CONSTRAINTS,
    PairwiseGP,
    as_likelihood,
    draw,
    joined,
    moments,
    new_items,
    require_labels,
)
from skpref.gp.pairwise.fit import PairData
from skpref.gp.pairwise.ranking import Ranking, rank_items
from skpref.metrics import pair_accuracy

if TYPE_CHECKING:
    from sklearn.gaussian_process.kernels import Kernel
    from sklearn.utils import Tags

    from skpref._typing import Array, IntArray
    from skpref.likelihoods import Likelihood


class GPPLClassifier(ClassifierMixin, PairwiseGP):
    """Gaussian-process preference learning from comparisons of items that are named by ids.

    Rows of X are comparisons: (left id, right id). The utility of an item is u = f(x) + o, a Gaussian process over
    its features plus an offset of its own, and the left item is preferred with probability Phi(u_left - u_right)
    ([SG20] eq. 3). Without features it is a Bayesian Thurstone model.

    Parameters
    ----------
    items : Table, array-like or CSR of shape (n_items, n_features), default=None
        Features of the items; the ids of an array's rows are 0, 1, ..., and so are those of a data frame, whose index
        is not used (give ``Table(frame, ids=frame.index)``). None: items have no features, and their ids are learnt
        from X.
    kernel : Kernel, default=None
        Covariance of f, as in `GPPLRegressor`.
    item_effects : bool, default=True
        Whether every item has its own offset besides what its features say. An unseen item has an offset as well,
        unknown, which its probabilities and standard deviations account for.
    order_effect : bool, default=False
        Whether to learn an advantage of the left side (the home team, the answer shown first).
    on_self : {"raise", "drop"}, default="raise"
        What `fit` does with a comparison of an item with itself, which usually shows an error in the data.
    likelihood, inference : str
        As in `GPPLRegressor`, and so are all that follow.
    n_inducing, inducing : int, str or array-like
        How many inducing points, and where they come from.
    batch_size, max_iter : int
        Comparisons a step of "svi"; passes over the comparisons at most.
    tol, delay, forgetting_rate : float
        When to stop; step size of "svi".
    shape_s0, rate_s0 : float
        Gamma prior of the inverse scales, of f and of the offsets.
    length_scale_factor, optimizer, n_restarts_optimizer : float or str, str or None, int
        How length-scales are learnt.
    warm_start, verbose, random_state : bool, int, random state
        As everywhere.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        [0, 1]: right preferred, left preferred.
    posterior_ : PairPosterior
        All that predictions need, the features of the items aside.
    item_ids_ : ndarray of shape (n_seen,)
        Ids of the items that were compared.
    components_ : ndarray of shape (n_seen,)
        Connected component of each of them in the graph of comparisons.
    order_effect_ : tuple of float
        Posterior mean and standard deviation of the left side's advantage, in units of z; zeros without one.
    kernel_, inducing_points_, scale_, lower_bound_, lower_bounds_, n_iter_, converged_, n_features_in_
        As in `GPPLRegressor`; `scale_` is that of f, or of the offsets where there are no features.

    See Also
    --------
    GPPLRegressor : Rows are items.
    Table : Holds features and ids; costs nothing to clone.

    Examples
    --------
    >>> from skpref import GPPLClassifier
    >>> X = [["tea", "coffee"], ["coffee", "water"], ["tea", "water"], ["water", "tea"]]
    >>> model = GPPLClassifier().fit(X, [1, 1, 1, 0])
    >>> model.rank().id.tolist()
    ['tea', 'coffee', 'water']
    >>> bool(model.predict_proba([["tea", "water"]])[0, 1] > 0.5)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **SHARED_CONSTRAINTS,
        "items": [Table, "array-like", "sparse matrix", None],
        "item_effects": ["boolean"],
        "order_effect": ["boolean"],
        "on_self": [StrOptions({"raise", "drop"})],
    }

    def __init__(
        self,
        items: Any = None,
        kernel: Kernel | None = None,
        *,
        item_effects: bool = True,
        order_effect: bool = False,
        on_self: str = "raise",
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
        warm_start: bool = False,
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.items = items
        self.kernel = kernel
        self.item_effects = item_effects
        self.order_effect = order_effect
        self.on_self = on_self
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
        self.warm_start = warm_start
        self.verbose = verbose
        self.random_state = random_state

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.classifier_tags.multi_class = False
        return tags

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn the utilities of the items.

        Parameters
        ----------
        X : array-like of shape (P, 2)
            Ids of the left and the right item: integers, strings or any hashables; an array, a list of pairs or a
            data frame with two columns.
        y : array-like of shape (P,)
            1 = left preferred, 0 = right preferred, 0.5 = a tie; values in between are soft labels.
        sample_weight : array-like of shape (P,), default=None
            Weights of the comparisons; 2 is the same as giving the comparison twice.

        Returns
        -------
        GPPLClassifier
            Itself, fitted.

        Raises
        ------
        ValueError
            If an id is unknown or missing, an item is compared with itself, or a label is outside [0, 1].
        """
        with fit_callbacks(self, X, y, sample_weight), unchanged_on_failure(self):
            left, right = self._read(X, reset=True)
            require_labels(self, y)
            self._table = None if self.items is None else as_table(self.items)
            vocabulary = Vocabulary.from_columns(left, right) if self._table is None else self._table.vocabulary
            left, right = vocabulary.encode(left, "X"), vocabulary.encode(right, "X")
            options = {"sample_weight": sample_weight, "on_self": self.on_self, "names": vocabulary.ids}
            given = from_labels(left, right, y, vocabulary.size, **options)
            keep_ties = as_likelihood(self.likelihood).ties_are_answers
            comparisons, seen = given.merged(keep_order=self.order_effect, keep_ties=keep_ties).compact()
            self._remember(vocabulary, comparisons, seen)
            features = None if self._table is None else self._table.features[seen]
            offsets = features is None or self.item_effects
            config = self._config(offsets=offsets, order=self.order_effect)
            self._keep(self._infer(PairData(features, comparisons), config, self.item_ids_))
            mean, variance = self.posterior_.order_effect
            self.order_effect_ = mean, float(np.sqrt(variance))
        return self

    def _read(self, X: Any, *, reset: bool) -> tuple[Any, Any]:
        """Ids of the left and the right items; columns and their names are noted or compared."""
        left, right = read_pairs(X)
        validate_data(self, X, reset=reset, skip_check_array=True)
        return left, right

    def _remember(self, vocabulary: Vocabulary, comparisons: Comparisons, seen: IntArray) -> None:
        self.components_ = joined(comparisons)
        self.classes_ = np.array([0, 1])
        self.item_ids_ = vocabulary.ids[seen]
        self._vocabulary = vocabulary
        # Row of the vocabulary -> position among the seen items; the last entry stands for an unknown id (-1).
        self._position = np.full(vocabulary.size + 1, -1)
        self._position[seen] = np.arange(seen.size)

    def _items(self, rows: IntArray) -> Items:
        features = None if self._table is None else self._table.features[rows]
        return Items(features, self._position[rows])

    def _projections(self, X: Any, *, item_effects: bool = True, order: bool = True) -> tuple[Any, Any]:
        items, left, right = self._pairs(X)
        return self.posterior_.pairs(items, left, right, item_effects=item_effects, order=order)

    def _pairs(self, X: Any) -> tuple[Items, IntArray, IntArray]:
        """Distinct items, and the numbers among them of each row's."""
        check_is_fitted(self)
        left, right = self._read(X, reset=False)
        unknown: Any = "mark" if self._table is None else "raise"
        a, b = (self._vocabulary.encode(side, "X", unknown=unknown) for side in (left, right))
        # Two ids that are both unknown are two different items.
        item, inverse = np.unique(np.concatenate([a, np.where(b < 0, -2, b)]), return_inverse=True)
        first, second = np.split(inverse, 2)
        return self._items(np.maximum(item, -1)), first, second

    def latent_mean_and_variance(self, X: Any) -> tuple[Array, Array]:
        """Return mean and variance of u(left) - u(right) (+ the order effect), without noise or link.

        Parameters
        ----------
        X : array-like of shape (n, 2)
            Ids.

        Returns
        -------
        mean, variance : ndarray of shape (n,)
            Under the posterior, in units of the answer noise.
        """
        mean, variance = self._projections(X)
        return mean, variance

    def latent_covariance(self, X: Any) -> Array:
        """Return the covariance between pairs of u(left) - u(right) (+ the order effect).

        Parameters
        ----------
        X : array-like of shape (n, 2)
            Ids, of at most 10,000 different items.

        Returns
        -------
        ndarray of shape (n, n)
            Under the posterior.
        """
        return self.posterior_.pair_covariance(*self._pairs(X))

    def decision_function(self, X: Any) -> Array:
        """Return the posterior mean of u(left) - u(right) (+ the order effect).

        Parameters
        ----------
        X : array-like of shape (n, 2)
            Ids.

        Returns
        -------
        ndarray of shape (n,)
            Positive where the left item is preferred, in units of the answer noise.
        """
        return self._projections(X)[0]

    def predict_proba(self, X: Any) -> Array:
        """Return the probabilities of the two answers.

        Parameters
        ----------
        X : array-like of shape (n, 2)
            Ids.

        Returns
        -------
        ndarray of shape (n, 2)
            Probability that the right item, and that the left item is preferred.
        """
        mean, variance = self._projections(X)
        left = self.likelihood_.predict(mean, variance)
        return np.column_stack([1.0 - left, left])

    def predict_preference(self, X: Any) -> Array:
        """Return the probability that the left item is the better one, whatever a single answer would say.

        Noise of the answers and the order effect are left out, so this is what aggregated answers (a majority of
        many, a gold standard) are to be compared with; `predict_proba` is for single ones. With much data it tends
        to 0 or 1, where `predict_proba` tends to the share of answers.

        Parameters
        ----------
        X : array-like of shape (n, 2)
            Ids.

        Returns
        -------
        ndarray of shape (n,)
            P(u_left > u_right).
        """
        mean, variance = self._projections(X, order=False)
        return np.where(variance > 0.0, ndtr(mean / np.sqrt(np.where(variance > 0.0, variance, 1.0))), 0.5)

    def predict(self, X: Any) -> IntArray:
        """Return the preferred side.

        Parameters
        ----------
        X : array-like of shape (n, 2)
            Ids.

        Returns
        -------
        ndarray of shape (n,)
            1 where the left item is preferred, else 0.
        """
        left = self.decision_function(X) > 0.0
        return self.classes_[left.astype(np.intp)]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy, ties left out.

        Parameters
        ----------
        X : array-like of shape (n, 2)
            Ids.
        y : array-like of shape (n,)
            Labels in [0, 1]; a soft label counts as the side that it favours.
        sample_weight : array-like of shape (n,), default=None
            Weights of the comparisons.

        Returns
        -------
        float
            Fraction predicted right.
        """
        return pair_accuracy(y, self.predict_proba(X)[:, 1], sample_weight=sample_weight)

    def _select(self, items: Any) -> tuple[Any, Items]:
        """Ids (or row numbers) and record of what a user asked the utility of."""
        check_is_fitted(self)
        if items is None:
            rows = np.arange(self._vocabulary.size)
            return self._vocabulary.ids, self._items(rows)
        if isinstance(items, Table):
            return items.ids, new_items(self, items)._replace(seen=self._position[self._known(items)])
        if getattr(items, "ndim", None) == 2:
            table = as_table(items)
            return table.ids, new_items(self, table)
        rows = self._vocabulary.encode(items, "items", noun="row")
        return self._vocabulary.ids[rows], self._items(rows)

    def _known(self, table: Table) -> IntArray:
        """Rows of a table's ids in the vocabulary, -1 for new ones; numbers of rows are no names."""
        if table.vocabulary.positional or self._vocabulary.positional:
            return np.full(table.n_items, -1)
        return self._vocabulary.encode(table.ids, "items", unknown="mark", noun="row")

    def utility(
        self, items: Any = None, *, return_std: bool = False, return_cov: bool = False, item_effects: bool = True
    ) -> Array | tuple[Array, Array]:
        """Return posterior utilities of items.

        Parameters
        ----------
        items : array-like of shape (n,), Table, or array-like of shape (n, n_features), default=None
            Ids; or items by their features, of which a Table's known ids keep their own offsets; None = all known
            items.
        return_std, return_cov : bool, default=False
            Whether to add standard deviations, or the covariance (at most 10,000 items).
        item_effects : bool, default=True
            Whether the standard deviation of an item without comparisons counts its unknown offset.

        Returns
        -------
        mean : ndarray of shape (n,)
            Utilities, in units of the answer noise.
        std or cov : ndarray of shape (n,) or (n, n)
            Only when asked for.
        """
        _, chosen = self._select(items)
        return moments(self.posterior_, chosen, return_std=return_std, return_cov=return_cov, item_effects=item_effects)

    def sample_utility(self, items: Any = None, n_samples: int = 1, random_state: Any = None) -> Array:
        """Draw joint samples of utilities from the posterior.

        Parameters
        ----------
        items : array-like, default=None
            As in `utility`; at most 10,000.
        n_samples : int, default=1
            Number of draws.
        random_state : int, RandomState, Generator or None, default=None
            Source of randomness.

        Returns
        -------
        ndarray of shape (n, n_samples)
            A draw a column.
        """
        _, chosen = self._select(items)
        return draw(self.posterior_, chosen, n_samples, as_generator(random_state))

    def rank(
        self, items: Any = None, *, credibility: float = 0.9, n_samples: int = 2000, random_state: Any = 0
    ) -> Ranking:
        """Rank items, the best first, with what is not known about the order.

        Parameters
        ----------
        items : array-like, default=None
            As in `utility`.
        credibility : float, default=0.9
            Probability that the interval of a rank holds.
        n_samples : int, default=2000
            Posterior draws behind `probability_best` and the intervals: standard error of a probability <= 0.011.
        random_state : int, RandomState, Generator or None, default=0
            Source of the draws.

        Returns
        -------
        Ranking
            Columns id, utility, std, rank, probability_best, rank_low, rank_high.
        """
        ids, chosen = self._select(items)
        return rank_items(self.posterior_, ids, chosen, credibility, n_samples, as_generator(random_state))
