"""`CrowdGPPL`: rows are comparisons by a user ([SG20] sections 3.2 and 4.4; docs/maths section 6)."""

from __future__ import annotations

from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from scipy.special import ndtr
from sklearn.base import ClassifierMixin, _fit_context
from sklearn.gaussian_process.kernels import Kernel
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from skpref._callbacks import fit_callbacks
from skpref._estimator import unchanged_on_failure
from skpref._math.random import as_generator
from skpref.data import Table, read_pairs
from skpref.data.ids import shorten
from skpref.exceptions import DataError
from skpref.gp.crowd.annotators import Annotators, describe_annotators
from skpref.gp.crowd.base import CrowdLearner, among_seen, behind, is_pairs, nearest, refuse_unseen_users
from skpref.gp.crowd.posterior import UNSEEN_USER
from skpref.gp.entities import Entities, holds_features
from skpref.gp.pairwise.base import SHARED_CONSTRAINTS, require_labels
from skpref.gp.pairwise.ranking import Ranking, rank_draws, rank_items
from skpref.metrics import pair_accuracy

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from sklearn.utils import Tags

    from skpref._typing import Array, IntArray
    from skpref.gp.entities import Items
    from skpref.likelihoods import Likelihood

_POSITIVE = Interval(Real, 0.0, None, closed="neither")
_MAX_PERSONAL = 2**27  # numbers of a table of personal utilities: 1 GB
_MAX_DRAWN = 2**24  # numbers of factors drawn at once: 128 MB


class CrowdGPPL(ClassifierMixin, CrowdLearner):
    """Preferences of a crowd: a consensus, personal views, and how far each annotator is from the others.

    Rows of X are comparisons: (user id, left id, right id). User u values item x at
    f(x, u) = t(x) + sum_d w_d(u) v_d(x): a consensus t and n_factors products of a user's factor w_d and an item's
    factor v_d, all of them Gaussian processes ([SG20] section 3.2). The left item is preferred with probability
    Phi(f(left, u) - f(right, u)). Factors that the data do not ask for are switched off by their scales.

    Parameters
    ----------
    items : Table, array-like or CSR of shape (n_items, n_features), default=None
        Features of the items, as in `GPPLClassifier`. None: items have no features, and their ids are learnt from X.
    users : Table, array-like or CSR of shape (n_users, n_user_features), default=None
        Features of the users. None: users are independent of each other, with one number a user and factor.
    n_factors : int, default=20
        Number of factors D at most. Those that move no answer are dropped on the way; 0 leaves the consensus.
    kernel : Kernel, default=None
        Covariance of t over the items' features, as in `GPPLRegressor`, and of the v_d unless `factor_kernel` is given.
    factor_kernel : Kernel, default=None
        Covariance of the v_d. None: `kernel`, if that is given; else the default kernel with a factor of its own on
        the length-scales, since views may differ in finer things than the consensus knows.
    user_kernel : Kernel, default=None
        Covariance of the w_d over the users' features; None stands for the product Matern 3/2 with median
        length-scales times the square root of the number of features.
    consensus : bool, default=True
        Whether there is a consensus t; False is an ablation of [SG20].
    item_effects : bool, default=True
        Whether, in the consensus, every item has an offset besides what its features say.
    order_effect : bool, default=False
        Whether to learn an advantage of the left side: one that all users share, and each user's departure from it
        (the position bias of a judge).
    unknown_user : {"consensus", "raise"}, default="consensus"
        What to predict for a user never seen: the consensus, with the variance of personal views added, or an error.
    on_self : {"raise", "drop"}, default="raise"
        What `fit` does with a comparison of an item with itself.
    likelihood : {"probit", "logit", "probit-ties"} or Likelihood, default="probit"
        As in `GPPLClassifier`.
    inference : {"auto", "vb", "svi", "linearised"}, default="auto"
        "vb": full passes, the bound rises at every one. "svi": mini-batches, which hold all comparisons of a user when
        users have no features. "linearised": the approximation of [SG20]. "auto": vb, but
        mini-batches as large as memory allows while comparisons times factors not yet dropped are above 8 million.
    n_inducing, n_inducing_users : int, default=300
        Inducing points of the items and of the users at most.
    inducing : str or array-like, default="kmeans++"
        Where the items' inducing points come from, as in `GPPLRegressor`.
    batch_size : int, default=10_000
        Comparisons a step of "svi". Each step factors a matrix for every factor, so larger than for `GPPLClassifier`.
    max_iter : int, default=200
        Passes over the comparisons at most.
    tol : float, default=1e-3
        As in `GPPLRegressor`. Factors turn slowly into their best position long after predictions have settled, hence
        larger than there.
    delay, forgetting_rate : float
        Step size (t + delay)^-forgetting_rate of "svi".
    shape_s0, rate_s0 : float, default=2.0
        Gamma prior of the inverse scales of t, of the offsets and of the biases.
    shape_sd0, rate_sd0 : float, default=2.0, 0.2
        Gamma prior of the inverse scale s_d of each item factor. Its mean of 10 lets a factor that the data do not ask
        for fade to a hundredth of the noise's variance (both sides together), while entities by the dozen outweigh it.
    shape_sw0, rate_sw0 : float, default=2.0, 0.2
        Gamma prior of the inverse scale of each user factor, likewise.
    length_scale_factor : float or "auto", default="auto"
        Of the items' default kernel: "auto" takes what is best for the consensus.
    optimizer : {"l-bfgs-b"}, default=None
        Whether the length-scales of both kernels are learnt by the gradient of the bound.
    n_restarts_optimizer : int, default=0
        Further starts of the optimiser.
    warm_start : bool, default=False
        Whether `fit` goes on from the posterior of the last fit where items, users and model are the same.
    verbose : int, default=0
        Whether to print a line a pass.
    random_state : int, RandomState, Generator or None, default=None
        Inducing points, the start of the factors beyond what the data tell, mini-batches.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        [0, 1]: right preferred, left preferred.
    posterior_ : CrowdPosterior
        All that predictions need, features aside.
    item_ids_, user_ids_ : ndarray of shape (n_seen,)
        Ids of the items that were compared, and of the users who compared.
    components_ : ndarray of shape (n_seen_items,)
        Connected component of each item in the graph of comparisons.
    user_factors_ : ndarray of shape (n_seen_users, n_factors)
        Posterior means of w.
    item_factors_ : ndarray of shape (n_seen_items, n_factors)
        Posterior means of v, from their averages.
    factor_scales_ : ndarray of shape (n_factors,)
        Prior variance 1 / (E[s_d] E[s_d^w]) that each factor gives to utilities; zero, as its factors, where one was
        dropped because it moved no answer.
    order_effect_ : tuple of float
        Posterior mean and standard deviation of the left side's advantage that users share; zeros without one.
    kernel_, factor_kernel_, user_kernel_ : Kernel or None
        Kernels with their final hyper-parameters.
    inducing_points_, inducing_users_ : ndarray or CSR, or None
        Inducing points.
    likelihood_ : Likelihood
        The likelihood with its own parameters learnt.
    lower_bound_, lower_bounds_, n_iter_, converged_, n_features_in_
        As in `GPPLRegressor`.

    See Also
    --------
    GPPLClassifier : One view for all users.

    Examples
    --------
    >>> from skpref import CrowdGPPL
    >>> from skpref.datasets import make_crowd
    >>> data = make_crowd(n_users=20, n_items=10, n_comparisons=400, n_factors=1, random_state=0)
    >>> model = CrowdGPPL(data.table, n_factors=3, random_state=0).fit(data.comparisons, data.y)
    >>> model.utility().shape, model.utility(users=[0, 1]).shape
    ((10,), (2, 10))
    >>> bool(model.score(data.comparisons, data.y) > 0.7)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **{key: value for key, value in SHARED_CONSTRAINTS.items() if key != "inference"},
        "items": [Table, "array-like", "sparse matrix", None],
        "users": [Table, "array-like", "sparse matrix", None],
        "n_factors": [Interval(Integral, 0, None, closed="left")],
        "factor_kernel": [Kernel, None],
        "user_kernel": [Kernel, None],
        "consensus": ["boolean"],
        "item_effects": ["boolean"],
        "order_effect": ["boolean"],
        "unknown_user": [StrOptions({"consensus", "raise"})],
        "on_self": [StrOptions({"raise", "drop"})],
        "inference": [StrOptions({"auto", "vb", "svi", "linearised"})],
        "n_inducing_users": [Interval(Integral, 1, None, closed="left")],
        "shape_sd0": [_POSITIVE],
        "rate_sd0": [_POSITIVE],
        "shape_sw0": [_POSITIVE],
        "rate_sw0": [_POSITIVE],
    }

    def __init__(
        self,
        items: Any = None,
        users: Any = None,
        *,
        n_factors: int = 20,
        kernel: Kernel | None = None,
        factor_kernel: Kernel | None = None,
        user_kernel: Kernel | None = None,
        consensus: bool = True,
        item_effects: bool = True,
        order_effect: bool = False,
        unknown_user: str = "consensus",
        on_self: str = "raise",
        likelihood: str | Likelihood = "probit",
        inference: str = "auto",
        n_inducing: int = 300,
        n_inducing_users: int = 300,
        inducing: Any = "kmeans++",
        batch_size: int = 10_000,
        max_iter: int = 200,
        tol: float = 1e-3,
        delay: float = 1.0,
        forgetting_rate: float = 0.9,
        shape_s0: float = 2.0,
        rate_s0: float = 2.0,
        shape_sd0: float = 2.0,
        rate_sd0: float = 0.2,
        shape_sw0: float = 2.0,
        rate_sw0: float = 0.2,
        length_scale_factor: float | str = "auto",
        optimizer: str | None = None,
        n_restarts_optimizer: int = 0,
        warm_start: bool = False,
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.items = items
        self.users = users
        self.n_factors = n_factors
        self.kernel = kernel
        self.factor_kernel = factor_kernel
        self.user_kernel = user_kernel
        self.consensus = consensus
        self.item_effects = item_effects
        self.order_effect = order_effect
        self.unknown_user = unknown_user
        self.on_self = on_self
        self.likelihood = likelihood
        self.inference = inference
        self.n_inducing = n_inducing
        self.n_inducing_users = n_inducing_users
        self.inducing = inducing
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.tol = tol
        self.delay = delay
        self.forgetting_rate = forgetting_rate
        self.shape_s0 = shape_s0
        self.rate_s0 = rate_s0
        self.shape_sd0 = shape_sd0
        self.rate_sd0 = rate_sd0
        self.shape_sw0 = shape_sw0
        self.rate_sw0 = rate_sw0
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

    # ---------------------------------------------------------------- fitting

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn consensus and personal views.

        Parameters
        ----------
        X : array-like of shape (P, 3)
            Ids of the user, the left and the right item.
        y : array-like of shape (P,)
            1 = left preferred, 0 = right preferred, 0.5 = a tie; values in between are soft labels.
        sample_weight : array-like of shape (P,), default=None
            Weights of the comparisons; 2 is the same as giving the comparison twice.

        Returns
        -------
        CrowdGPPL
            Itself, fitted.

        Raises
        ------
        ValueError
            If an id is unknown or missing, an item is compared with itself, or a label is outside [0, 1].
        """
        with fit_callbacks(self, X, y, sample_weight), unchanged_on_failure(self):
            user, left, right = self._read(X, reset=True)
            require_labels(self, y)
            items = Entities.read(self.items, left, right, estimator=self, kind="item")
            users = Entities.read(self.users, user, estimator=self, kind="user")
            given = self._encode(users, items, (user, left, right), y, sample_weight)
            used = given.weight > 0.0
            items = items.with_seen(np.concatenate([given.left[used], given.right[used]]))
            users = users.with_seen(np.asarray(given.user)[used])
            key = self._key(users, items)
            warm = self.warm_start and getattr(self, "_warm_key", None) == key
            self._learn(users, items, given, going_on=warm)
            self._warm_key = key
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None, *, items: Any = None, users: Any = None) -> Self:
        """Learn from more comparisons, by old and new users of old and new items, without starting again.

        The comparisons of earlier calls are remembered, and the fit goes on from where it stands: the result is that
        of one fit with all of them, up to the tolerance. Kernels and inducing points stay as they are.

        Parameters
        ----------
        X, y, sample_weight : array-like
            As in `fit`; the first call is the same as `fit`.
        items, users : Table, default=None
            Features of new items and users, where they have features. Elsewhere new ids are taken from X.

        Returns
        -------
        CrowdGPPL
            Itself.

        Raises
        ------
        ValueError
            As in `fit`; or if features of new items or users are missing or do not fit those of the first call; or if
            a parameter that makes another model was changed since (`n_factors`, `order_effect`, ...).
        """
        if not hasattr(self, "posterior_"):
            if items is not None or users is not None:
                msg = "items and users of partial_fit hold what is new; at the first call, give them to CrowdGPPL."
                raise DataError(msg)
            return self.fit(X, y, sample_weight)
        with unchanged_on_failure(self):
            self._refuse_another_model()
            user, left, right = self._read(X, reset=False)
            require_labels(self, y)
            people = self._users.with_new(users, user)
            things = self._items.with_new(items, left, right)
            new = self._encode(people, things, (user, left, right), y, sample_weight)
            used = new.weight > 0.0
            things = things.with_seen(np.concatenate([new.left[used], new.right[used]]))
            people = people.with_seen(np.asarray(new.user)[used])
            self._learn(people, things, self._remembered(behind(self._comparisons, new)), going_on=True)
            self._warm_key = self._key(people, things)
        return self

    # ------------------------------------------------------------- predicting

    def _projections(self, X: Any, *, order: bool = True) -> tuple[Array, Array]:
        check_is_fitted(self)
        user, left, right = self._read(X, reset=False)
        return self.posterior_.pairs(self._people(user), *self._items.pairs(left, right), order=order)

    def _people(self, user: Any) -> tuple[Items, IntArray]:
        """Distinct known users, and the number among them of each row's user; -1 for a stranger."""
        rows = self._users.vocabulary.encode(user, "X", unknown="mark")
        if self.unknown_user == "raise":
            refuse_unseen_users(self._users, user, rows, "comparison")
        known, index = np.unique(rows[rows >= 0], return_inverse=True)
        number = np.full(rows.size, -1)
        number[rows >= 0] = index
        return self._users.rows(known), number

    def latent_mean_and_variance(self, X: Any) -> tuple[Array, Array]:
        """Return mean and variance of f(left, user) - f(right, user) (+ order effects), without noise or link.

        Parameters
        ----------
        X : array-like of shape (n, 3)
            Ids of user, left and right item.

        Returns
        -------
        mean, variance : ndarray of shape (n,)
            Under the posterior, in units of the answer noise.
        """
        return self._projections(X)

    def latent_covariance(self, X: Any) -> Array:
        """Return the covariance of f(left, user) - f(right, user) (+ order effects) between pairs, for one user.

        Parameters
        ----------
        X : array-like of shape (n, 3)
            Ids of one user, perhaps one never seen, and of the left and the right item.

        Returns
        -------
        ndarray of shape (n, n)
            Under the posterior.

        Raises
        ------
        ValueError
            If rows are of different users.
        """
        check_is_fitted(self)
        user, left, right = self._read(X, reset=False)
        if len(set(user.tolist())) > 1:
            raise DataError(f"X must be of one user; got {shorten(user[0])} and others.")
        person, known = self._named_users(user[:1])
        posterior = self.posterior_
        if not known.all():
            posterior, person = posterior.of_strangers(), UNSEEN_USER
        return posterior.pair_covariance(person, *self._items.pairs(left, right))

    def decision_function(self, X: Any) -> Array:
        """Return the posterior mean of f(left, user) - f(right, user) (+ order effects).

        Parameters
        ----------
        X : array-like of shape (n, 3)
            Ids of user, left and right item.

        Returns
        -------
        ndarray of shape (n,)
            Positive where the user prefers the left item, in units of the answer noise.
        """
        return self._projections(X)[0]

    def predict_proba(self, X: Any) -> Array:
        """Return the probabilities of the two answers of a user.

        Parameters
        ----------
        X : array-like of shape (n, 3)
            Ids of user, left and right item. A user never seen gets the consensus with wider uncertainty.

        Returns
        -------
        ndarray of shape (n, 2)
            Probability that the right item, and that the left item is preferred.
        """
        mean, variance = self._projections(X)  # first of all it looks whether there is a fit
        left = self.likelihood_.predict(mean, variance)
        return np.column_stack([1.0 - left, left])

    def predict_preference(self, X: Any) -> Array:
        """Return the probability that the left item is the better one for the user, whatever a single answer says.

        Parameters
        ----------
        X : array-like of shape (n, 3) or (n, 2)
            Ids of user, left and right item; of two columns (left and right item), the consensus is asked.

        Returns
        -------
        ndarray of shape (n,)
            Noise of the answers and order effects left out.
        """
        check_is_fitted(self)
        if is_pairs(X):
            mean, variance = self.posterior_.consensus.pairs(*self._items.pairs(*read_pairs(X)), order=False)
        else:
            mean, variance = self._projections(X, order=False)
        return np.where(variance > 0.0, ndtr(mean / np.sqrt(np.where(variance > 0.0, variance, 1.0))), 0.5)

    def predict(self, X: Any) -> IntArray:
        """Return the preferred side.

        Parameters
        ----------
        X : array-like of shape (n, 3)
            Ids of user, left and right item.

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
        X : array-like of shape (n, 3)
            Ids of user, left and right item.
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

    # ---------------------------------------------------- consensus and views

    def utility(self, items: Any = None, users: Any = None, *, return_std: bool = False) -> Array | tuple[Array, Array]:
        """Return posterior utilities of items, of the consensus or of users.

        Parameters
        ----------
        items : array-like of shape (n,), Table, or array-like of shape (n, n_features), default=None
            Ids; or items by their features; None = all known items.
        users : array-like of shape (n_users,), Table, or array-like of shape (n_users, n_user_features), default=None
            Ids; or users by their features; None = the consensus. For a user never seen, see `unknown_user`.
        return_std : bool, default=False
            Whether to add standard deviations.

        Returns
        -------
        mean : ndarray of shape (n,) or (n_users, n)
            Utilities in units of the answer noise, from the average of the items seen.
        std : ndarray of the same shape
            Only when asked for.

        Raises
        ------
        ValueError
            If an item, or with `unknown_user="raise"` a user, is not known, or the table of personal utilities would
            take more than 1 GB.
        """
        check_is_fitted(self)
        _, chosen = self._items.select(items)
        if users is None:
            mean, variance = self.posterior_.consensus.utility(chosen, centred=True)
            return (mean, np.sqrt(variance)) if return_std else mean
        people, known = self._named_users(users)
        if known.size * chosen.size > _MAX_PERSONAL:
            msg = (
                f"{known.size} users by {chosen.size} items are {known.size * chosen.size / 1.25e8:.1f} GB of "
                "personal utilities; ask for fewer users or items at a time."
            )
            raise DataError(msg)
        mean, variance = self.posterior_.utility(people, chosen)
        if not known.all():
            # One row for all strangers, behind those of the others.
            row = np.where(known, np.cumsum(known) - 1, people.size)
            stranger = self.posterior_.of_strangers().utility(UNSEEN_USER, chosen)
            mean, variance = (np.vstack([a, b])[row] for a, b in zip((mean, variance), stranger, strict=True))
        return (mean, np.sqrt(variance)) if return_std else mean

    def _named_users(self, users: Any) -> tuple[Items, NDArray[np.bool_]]:
        """Users whom a caller named, as far as they are known, and who is."""
        if holds_features(users):
            people = self._users.select(users)[1]
            return people, np.ones(people.size, dtype=bool)
        rows = self._users.vocabulary.encode(users, "users", unknown="mark", noun="row", kind="user")
        if self.unknown_user == "raise":
            refuse_unseen_users(self._users, users, rows, "row")
        return self._users.rows(rows[rows >= 0]), rows >= 0

    def rank(
        self,
        items: Any = None,
        user: Any = None,
        *,
        credibility: float = 0.9,
        n_samples: int = 2000,
        random_state: Any = 0,
    ) -> Ranking:
        """Rank items, the best first, with what is not known about the order.

        Parameters
        ----------
        items : array-like, default=None
            As in `utility`.
        user : id, default=None
            Whose ranking; None = the consensus.
        credibility : float, default=0.9
            Probability that the interval of a rank holds.
        n_samples : int, default=2000
            Posterior draws behind `probability_best` and the intervals.
        random_state : int, RandomState, Generator or None, default=0
            Source of the draws.

        Returns
        -------
        Ranking
            Columns id, utility, std, rank, probability_best, rank_low, rank_high.
        """
        check_is_fitted(self)
        ids, chosen = self._items.select(items)
        rng = as_generator(random_state)
        if user is None:
            return rank_items(self.posterior_.consensus, ids, chosen, credibility, n_samples, rng)
        person, known = self._named_users([user])
        posterior = self.posterior_
        if not known.all():
            posterior, person = posterior.of_strangers(), UNSEEN_USER
        mean, variance = posterior.utility(person, chosen)

        def draws() -> Array:
            # Each draw has a number for every factor and item: a few at a time.
            step = max(1, _MAX_DRAWN // max(1, chosen.size * posterior.items.n_factors))
            sizes = [min(step, n_samples - start) for start in range(0, n_samples, step)]
            return np.vstack([posterior.sample(person, chosen, size, rng)[:, 0] for size in sizes])

        return rank_draws(ids, (mean[0], variance[0]), credibility, n_samples, draws)

    def annotators(self, *, credibility: float = 0.9, n_samples: int = 500, random_state: Any = 0) -> Any:
        """Report on every user who compared anything.

        Parameters
        ----------
        credibility : float, default=0.9
            Mass of the credible intervals.
        n_samples : int, default=500
            Posterior draws behind them.
        random_state : int, RandomState, Generator or None, default=0
            Source of the draws.

        Returns
        -------
        pandas.DataFrame or Annotators
            One row a user: `user`; `n_labels`, their total weight; `agreement`, the share of the user's answers that
            the consensus agrees with, ties left out (a soft label is a part of an answer for either side); `accuracy`,
            the probability that an answer of theirs agrees with the consensus on the pairs of items compared in the
            data, with `accuracy_low` and `accuracy_high`; `distance`, root mean square difference of personal and
            consensus utilities over the items seen; and with an order effect `bias`, `bias_low`, `bias_high`, the
            advantage that they give to the left side. A data frame where pandas is installed.
        """
        check_is_fitted(self)
        seen = among_seen(self._comparisons, self._users, self._items)
        report: Annotators = describe_annotators(
            self.posterior_,
            self.user_ids_,
            (self._seen(self._users), self._seen(self._items), seen),
            self.likelihood_,
            (credibility, n_samples),
            as_generator(random_state),
        )
        return report.frame()

    def similar_users(self, user: Any, n: int = 10) -> tuple[Any, Array]:
        """Return the users whose personal views are nearest to a user's.

        Parameters
        ----------
        user : id
            Of a user seen.
        n : int, default=10
            How many.

        Returns
        -------
        ids : ndarray of shape (n,)
            The nearest first, the user left out.
        distance : ndarray of shape (n,)
            Root mean square difference of their utilities over the items seen, in units of the answer noise.
        """
        check_is_fitted(self)
        gram = self.item_factors_.T @ self.item_factors_ / max(len(self.item_factors_), 1)
        return nearest(user, n, self._users, self.user_ids_, self.user_factors_, gram, "user")

    def similar_items(self, item: Any, n: int = 10) -> tuple[Any, Array]:
        """Return the items of which users think most alike, the consensus left out.

        Parameters
        ----------
        item : id
            Of an item seen.
        n : int, default=10
            How many.

        Returns
        -------
        ids : ndarray of shape (n,)
            The nearest first, the item left out.
        distance : ndarray of shape (n,)
            Root mean square difference of their personal parts over the users seen, in units of the answer noise.
        """
        check_is_fitted(self)
        gram = self.user_factors_.T @ self.user_factors_ / max(len(self.user_factors_), 1)
        return nearest(item, n, self._items, self.item_ids_, self.item_factors_, gram, "item")
