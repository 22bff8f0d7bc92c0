"""`CrowdGPPL`: rows are comparisons by a user ([SG20] sections 3.2 and 4.4; docs/maths section 6)."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from sklearn.gaussian_process.kernels import Kernel
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from skpref._callbacks import fit_context
from skpref._math.random import as_generator
from skpref._sources import accept_collections
from skpref.data import Table
from skpref.data.ids import shorten
from skpref.data.records import frame_or_record
from skpref.exceptions import DataError
from skpref.gp.crowd.annotators import describe_annotators
from skpref.gp.crowd.base import (
    comparisons_of_seen,
    nearest_entities,
    refuse_unknown_users,
)
from skpref.gp.crowd.market import CrowdMarket
from skpref.gp.crowd.personal import PersonalPosterior
from skpref.gp.entities import Items
from skpref.gp.pairwise.base import CLASSIFIER_CONSTRAINTS, probability_positive
from skpref.gp.pairwise.columns import has_columns
from skpref.settings import SVI, FactorPrior

if TYPE_CHECKING:
    import os
    from collections.abc import Hashable, Mapping, Sequence

    from numpy.typing import ArrayLike

    from skpref._typing import Array, IdRows, IntArray, MatrixLike, RandomState, Stored
    from skpref.data import Comparisons, IdColumn
    from skpref.gp.crowd.posterior import CrowdPosterior
    from skpref.gp.pairwise.columns import PairRows
    from skpref.likelihoods import Likelihood
    from skpref.settings import LBFGS, Checkpoint, Fixed, Gamma, Inducing


class CrowdGPPL(CrowdMarket):
    """Preferences of many people from their comparisons: a consensus, personal utilities, and reliabilities.

    Rows of X are comparisons: (user id, left id, right id), or rows of a table with columns of these. The utility of
    item x for user u is f(x, u) = t(x) + sum_d w_d(u) v_d(x): a consensus t plus `n_factors` products of a user factor
    w_d and an item factor v_d, all Gaussian processes ([SG20] section 3.2). The left item is preferred with probability
    Phi(f(left, u) - f(right, u)). By default the personal parts have a learnt covariance over the items, and the
    posterior of each user includes all correlations. ``inference="vb"`` is the factorised posterior of [SG20].

    Parameters
    ----------
    items : Table, array-like or CSR of shape (n_items, n_features), default=None
        Features of the items. Rows of an array or a data frame have the ids 0, 1, ...; use
        ``Table(frame, ids=frame.index)`` for other ids. None: the items have no features, and their ids are read from
        X.
    users : Table, array-like or CSR of shape (n_users, n_user_features), default=None
        Features of the users, given in the same way. They have linear effects on the utilities of all items, and each
        user has a personal taste in addition. (With the factorised posterior, the factors w_d are functions of them.)
        None: users are independent.
    n_factors : int, default=20
        Largest number of factors, the directions in which users differ. Factors that the answers do not support are
        left out. 0: the consensus, and of "ep" the effects of the users' features, as in a multinomial logit with
        characteristics of people. Of tasks, smaller numbers than that of items or features change little.
    factor_prior : FactorPrior, default=None
        Kernels of the factors of items and users, and priors of their scales; None: those of ``FactorPrior()``.
    kernel : Kernel or str, default=None
        Covariance of t, with unit amplitude: a kernel of `skpref.kernels` or scikit-learn, or a name as in
        `GPPLClassifier`. None: "product-matern-3/2", and of tasks part-worths, which are linear in the features.
    consensus : bool, default=True
        Whether the model has a consensus t. False gives a variant of [SG20] without one, for comparison.
    item_effects : bool, default=True
        Whether each item has an offset in the consensus, in addition to a function of its features. Of tasks with
        part-worths: whether items that were shown often may have effects of their own, shared and personal ones.
    order_effect : bool, default=False
        Whether to learn an advantage of the left side: one that all users share, and the deviation of each user
        (the position bias of a judge). Of tasks, advantages of positions that all users share.
    covariates : list of str, int or pair, or dict of them by name, default=None
        Columns of X whose effects are learnt, the same for all users, as in `GPPLClassifier`.
    groups : list of str or int, or dict of them by name, default=None
        Columns of X with groups of comparisons, such as ``["category"]``. They are for few groups with many answers
        each, and at most 2,000 different pairs of an item and a group. Utilities are then u = m + sum_j c_j + b_user,
        where c_j belongs to the group in column j. The variance of c_j is learnt for each column: a group with few
        answers borrows strength from the consensus m, and c_j vanishes if groups do not differ.
        ``rank(groups={"category": "coding"})`` is the leaderboard of a group. If there are many groups with few answers
        each, or groups but no judges, pass the column of groups as `user` instead. Only with "ep".
    context : list of str, int or lists of them, default=None
        Columns of X with numbers on which the consensus depends, such as ``["prompt_length"]``, as in `GPPLClassifier`:
        a vector is a list of columns within the list. Utilities are then u = m + sum_j b_j x_j + b_user, where x_j is
        the number, less its mean and in units of its standard deviation in `fit`. The variance of the slopes b_j of the
        items is learnt for each column or vector; tastes do not depend on it. Items times numbers are at most 2,000.
        ``rank(context={"prompt_length": 300})`` is the leaderboard there. Only with "ep", and not for
        part-worths.
    time : str or int, default=None
        Column of X with the time of each answer: dates, or numbers in any unit. The consensus then moves, tastes stay,
        and predictions need the column, too. Time is cut into at most 40 steps, fewer with many items, such that items
        times steps are about 1,000: what changes within a step is averaged. A random walk and three lengths of a form
        that comes and goes are compared by evidence, and the size of the moves is learnt, see `dynamics_`.
        `GPPLClassifier` has finer times for one view. Only with "ep", and not for part-worths.
    user, left, right : str or int, default=None
        Columns of X with the ids, by name or by position; None: the first, the second and the third one.
    weight : str or int, default=None
        Column of X with the weights of the comparisons, read by `fit`; None: see `sample_weight`.
    unknown_user : {"consensus", "raise"}, default="consensus"
        Prediction for rows of X of an unseen user or group: the consensus, with the variance of personal utilities
        added; or an error. A user or a group that is named alone, as in `rank`, must be known.
    on_self : {"raise", "drop"}, default="raise"
        What `fit` does with a comparison of an item with itself, usually a mistake in the data: raise an error, or
        leave it out.
    likelihood : str or Likelihood, default="auto"
        "auto": "probit-ties" if labels are wins and ties, 0.5, and no shares; otherwise "probit". "probit":
        Thurstone-Mosteller. "logit": Bradley-Terry. With both, a tie is half of each answer, and tastes look weak.
        "probit-ties" and "logit-ties": the same with ties as a third answer: a difference of utilities below a
        threshold is answered with a tie. "probit-graded" and "logit-graded": the same with grades, each of which has a
        threshold. With "ep" each user has a threshold, or scale of thresholds, shrunk towards that of the crowd; it is
        shrunk more if the user gave few answers or if users differ little. "davidson": the logit with ties after
        Davidson, of which all users share the weight; give a `PairwiseDavidson` or `PairwiseLogitTies` with
        ``learn=False`` if it, or the threshold, is known. "margin": the noisy difference itself is observed, in a unit
        that is learnt. "luce": rows of X are tasks, with the multinomial logit for choices and the model of Plackett
        and Luce for rankings. Rows that can only be tasks always have it, see `fit`.
    inference : {"auto", "ep", "vb", "svi", "linearised"} or SVI, default="auto"
        How the posterior is computed:

        - "ep": expectation propagation in a hierarchy. Users are integrated out one by one, and the covariance of their
          tastes over the items is learnt, with a regularisation chosen on held-out comparisons. Of more than 120 items
          it may be that of the factors, if these predict better, and of more than 500 that or one number.
        - "vb": the factorised posterior of [SG20], by variational Bayes with full passes, each of which raises the
          bound. It drops tastes that few answers support.
        - "svi": the same with mini-batches, see `SVI`. If users have no features, a batch has all comparisons of its
          users.
        - "linearised": the approximation of [SG20].
        - "auto": "ep" for up to 2,000 compared items, as it is most accurate and best calibrated. For more items,
          with ``optimizer="l-bfgs-b"``, or if a user's answers about an item weigh more than 3e5: "vb", or "svi" if
          comparisons times factors exceed 8 million. For more items and without "l-bfgs-b", held-out comparisons
          choose between the given priors of the factors and broader ones (rates times 10 for items, times 100 for
          users).
    inducing : int, Inducing or array-like of shape (M, n_features), default=300
        Largest number M of inducing points of the items, and of the users, which are spread out; `Inducing` chooses
        those of the items otherwise. Or the points of the items themselves.
    max_iter : int, default=200
        Largest number of passes over the comparisons.
    tol : float, default=1e-3
        Stop when a full pass changes the bound by less than ``tol / 100`` of its size; with "ep" two passes in a row.
        For "svi": when the mean bound of a pass changes by less than `tol` of its size. It is larger than in
        `GPPLClassifier`, because factors still rotate slowly when predictions no longer change.
    scale_prior : Gamma or Fixed, default=None
        Prior of the inverse variances of t, of the offsets and of the position biases. None: ``Gamma(2.0, 2.0)``.
        `Fixed`: these variances are known.
    optimizer : {"auto", "l-bfgs-b"}, LBFGS or None, default="auto"
        How hyperparameters of kernels are learnt. "auto": a length-scale for each feature of the items from the
        consensus, under a weak prior about their median distances (with more than 256 features, one factor on the
        medians); a `Kernel` does not change. "l-bfgs-b": the hyperparameters of all kernels maximise the bound; `LBFGS`
        has further starts. None: nothing is learnt.
    warm_start : bool, default=False
        Whether `fit` starts from the previous posterior and kernels. It needs the same items, users and model;
        otherwise it is a cold start.
    checkpoint : str, path-like or Checkpoint, default=None
        File to which `fit` saves its passes, for "ep", every 30 seconds or as `Checkpoint` says. If it exists and is of
        the same data and parameters, `fit` resumes from it, to the same bits as without the interruption; `max_iter`
        and `tol` may change. A file that is damaged or of another fit raises `CheckpointError`; one that cannot be
        written costs a `CheckpointWarning`. A finished fit deletes it. It needs an integer `random_state`, since the
        kernel and the like are chosen again.
    verbose : int, default=0
        Whether to print one line per pass.
    random_state : int, RandomState, Generator or None, default=None
        Seed of inducing points, start values of the factors and mini-batches.

    Attributes
    ----------
    classes_ : ndarray of shape (2,) or (K,)
        Labels of the two sides, in the form of the `y` of `fit`: [0, 1] or [False, True] for right and left preferred,
        or ["left", "right"]. Of tasks: positions 0 to K - 1. Of grades: all grades, ascending.
    posterior_ : PersonalPosterior or CrowdPosterior
        Posterior of consensus and tastes, which predictions use; without the features.
    item_ids_ : ndarray of shape (n_seen_items,)
        Ids of the items that were compared.
    user_ids_ : ndarray of shape (n_seen_users,)
        Ids of the users with comparisons.
    group_ids_ : list of ndarray
        Ids of the groups in each column of `groups`.
    group_scales_ : ndarray of shape (n_group_columns,)
        Learnt variance of utilities between the groups of each column.
    context_scales_ : ndarray of shape (n_context,)
        Learnt variance of slopes in each column or vector of `context`, whose numbers have unit variance.
    dynamics_ : SkillDynamics
        How the consensus moves; only with `time`. Its `start_sd` is of utilities on average over the span, and
        `log_posteriors` is empty.
    components_ : ndarray of shape (n_seen_items,)
        Number of the connected component of each of these items in the graph of comparisons.
    user_factors_ : ndarray of shape (n_seen_users, n_factors)
        Posterior means of w.
    item_factors_ : ndarray of shape (n_seen_items, n_factors)
        Directions in which users differ: principal axes of the learnt covariance, the strongest first. With the
        factorised posterior, posterior means of v, minus their averages.
    factor_scales_ : ndarray of shape (n_factors,)
        Variance of utilities due to each factor; 0 for factors that were left out.
    order_effect_ : tuple of float
        Posterior mean and standard deviation of the shared advantage of the left side; zeros without `order_effect`.
    coef_ : ndarray of shape (n_covariates,)
        Posterior means of the effects of the covariates: units of the answer noise for one unit of the covariate. Only
        with `covariates`.
    coef_std_ : ndarray of shape (n_covariates,)
        Their posterior standard deviations; `covariate_table` has credible intervals. Only with `covariates`.
    covariate_names_ : ndarray of shape (n_covariates,)
        Names of the covariates.
    kernel_ : Kernel or None
        Kernel of t with its final hyperparameters; None without features of items.
    factor_kernel_ : Kernel or None
        Final kernel of the v_d.
    user_kernel_ : Kernel or None
        Final kernel of the w_d; None without features of users.
    inducing_points_ : ndarray or CSR of shape (M, n_features), or None
        Inducing points of the items.
    inducing_users_ : ndarray or CSR, or None
        Inducing points of the users; None if their features are used directly as covariates.
    likelihood_ : Likelihood
        The likelihood with its learnt parameters. Its threshold of ties is that of the median user.
    tie_thresholds_ : ndarray of shape (n_users,) or None
        Posterior median of the threshold of ties of each user of `user_ids_`; None with a likelihood without ties.
    lower_bound_ : float
        Lower bound on the log evidence, in nats, of the model with the factors that were kept; it may exceed the
        evidence of the model with all factors. With "ep": an approximation of the log evidence minus the penalties of
        the hyperparameters, which is not a bound.
    lower_bounds_ : list of float
        The same after each pass.
    n_iter_ : int
        Number of passes.
    converged_ : bool
        Whether `tol` was met.
    n_features_in_ : int
        Number of columns of X.

    See Also
    --------
    GPPLClassifier : One utility function for all users.

    References
    ----------
    .. [SG20] Simpson and Gurevych, "Scalable Bayesian preference learning for crowds", Machine Learning, 2020.

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
        **CLASSIFIER_CONSTRAINTS,
        "users": [Table, "array-like", "sparse matrix", None],
        "n_factors": [Interval(Integral, 0, None, closed="left")],
        "factor_prior": [FactorPrior, None],
        "consensus": ["boolean"],
        "user": [str, Integral, None],
        "left": [str, Integral, None],
        "right": [str, Integral, None],
        "unknown_user": [StrOptions({"consensus", "raise"})],
        "inference": [StrOptions({"auto", "ep", "vb", "svi", "linearised"}), SVI],
    }

    def __init__(
        self,
        items: Table | MatrixLike | None = None,
        users: Table | MatrixLike | None = None,
        *,
        n_factors: int = 20,
        factor_prior: FactorPrior | None = None,
        kernel: Kernel | None = None,
        consensus: bool = True,
        item_effects: bool = True,
        order_effect: bool = False,
        covariates: Sequence[Any] | Mapping[str, Any] | None = None,
        groups: Sequence[str | int] | Mapping[str, str | int] | None = None,
        context: Sequence[str | int | Sequence[str | int]] | None = None,
        time: str | int | None = None,
        user: str | int | None = None,
        left: str | int | None = None,
        right: str | int | None = None,
        weight: str | int | None = None,
        unknown_user: str = "consensus",
        on_self: Literal["raise", "drop"] = "raise",
        likelihood: str | Likelihood = "auto",
        inference: str | SVI = "auto",
        inducing: int | Inducing | MatrixLike = 300,
        max_iter: int = 200,
        tol: float = 1e-3,
        scale_prior: Gamma | Fixed | None = None,
        optimizer: str | LBFGS | None = "auto",
        warm_start: bool = False,
        checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
        verbose: int = 0,
        random_state: RandomState = None,
    ) -> None:
        self.items = items
        self.users = users
        self.n_factors = n_factors
        self.factor_prior = factor_prior
        self.kernel = kernel
        self.consensus = consensus
        self.item_effects = item_effects
        self.order_effect = order_effect
        self.covariates = covariates
        self.groups = groups
        self.context = context
        self.time = time
        self.user = user
        self.left = left
        self.right = right
        self.weight = weight
        self.unknown_user = unknown_user
        self.on_self = on_self
        self.likelihood = likelihood
        self.inference = inference
        self.inducing = inducing
        self.max_iter = max_iter
        self.tol = tol
        self.scale_prior = scale_prior
        self.optimizer = optimizer
        self.warm_start = warm_start
        self.checkpoint = checkpoint
        self.verbose = verbose
        self.random_state = random_state

    # ---------------------------------------------------------------- fitting

    @fit_context
    def fit(self, X: IdRows | Stored, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the consensus and the personal utilities.

        Parameters
        ----------
        X : array-like of shape (n, 3) or (n, n_columns), str, Path, Dataset or collection
            Ids of the user, the left and the right item: integers, strings or other hashables, in an array, a list of
            triples or a data frame (pandas, polars). With `user`, `left`, `right`, `weight`, `covariates`, `groups`,
            `context` or `time`: rows of a table that has these columns; other columns are ignored. Or a Parquet file, a
            folder of them, a dataset, or a frame of Dask with columns user, left, right and y, unless parameters name
            others. Or tasks, shape (n, 1 + K): the user, and ids of the items shown, None where there are fewer than K.
            With ``likelihood="luce"`` rows are tasks; otherwise where `y` cannot be labels of comparisons. If items
            have features, utilities are linear in them, with effects of each user's own, the part-worths. A `kernel`
            makes them a function of the features plus effects of the items.
        y : array-like of shape (n,) or str, default=None
            1: left preferred; 0: right preferred; 0.5: a tie; other values in [0, 1] are soft labels. Or booleans, True
            for left; or the words "left", "right" and "tie". None: left preferred in every row, so that rows are
            (winner, loser). Of tasks: what was chosen, its id or its position from 0; the best and the worst, shape
            (n, 2), None where one is not known; or ranks, 1 the best, shape (n, K), NaN where an item has none. Grades
            and margins are signed, above 0 for left.
        sample_weight : array-like of shape (n,), default=None
            Weights of the comparisons; None: all weights are 1. A weight of 2 counts a comparison twice.

        Returns
        -------
        CrowdGPPL
            The fitted estimator.

        Raises
        ------
        ValueError
            If an id is unknown or missing, an item is compared with itself, a label is outside [0, 1], a weight is
            negative, ids are integers in one column and strings in another, or `order_effect` is True and the same side
            won all comparisons. If a column of `covariates` is missing or holds something other than finite numbers.

        Warns
        -----
        DataWarning
            If `y` has booleans and all are False. If `y` is None, and X has a column such as "winner". If a covariate
            is the same in all comparisons. If ids differ only in spaces at their ends.
        """
        return self._fit_answers(X, y, sample_weight)

    @fit_context
    def partial_fit(
        self,
        X: IdRows,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        items: Table | None = None,
        users: Table | None = None,
        classes: ArrayLike | None = None,  # noqa: ARG002 - of scikit-learn's protocol
    ) -> Self:
        """Learn from more comparisons, which may be by new users or of new items.

        Earlier comparisons are kept. With "ep" and up to 20,000 comparisons all is learnt again, as by one fit. Other
        fits start from the previous posterior; up to the tolerance, the result is that of one fit with all comparisons.
        With "ep" and more than 20,000 comparisons, only the users of X get a new posterior, until the number of
        comparisons has grown by a quarter. The covariance of tastes and the sites of other users stay the same. This
        takes about two passes, and, up to 100,000 comparisons, some twenty for what is not known of the covariance.
        Kernels and inducing points do not change. Neither do priors of factors that were chosen by held-out comparisons
        at the first call (see `inference`), so the first call should have many comparisons.

        Parameters
        ----------
        X : array-like of shape (n, 3) or (n, n_columns)
            Ids of the user, the left and the right item, or rows with the columns of `fit`.
        y : array-like of shape (n,), default=None
            Labels, as in `fit`; the first call is the same as `fit` and sets `classes_`.
        sample_weight : array-like of shape (n,), default=None
            Weights of the comparisons; None: all weights are 1.
        items : Table, default=None
            Features of new items, if the model has features of items. Otherwise new ids are read from X.
        users : Table, default=None
            Features of new users, if the model has features of users.
        classes : array-like of shape (2,), default=None
            Ignored, as the two sides are known; scikit-learn's tools pass it.

        Returns
        -------
        CrowdGPPL
            The fitted estimator.

        Raises
        ------
        ValueError
            As in `fit`. Also if features of new items or users are missing or do not match those of the first call, or
            if a parameter that defines the model has changed (`n_factors`, `order_effect`, ...).
        """
        return self._fit_more(X, y, sample_weight, items=items, users=users)

    # ------------------------------------------------------------- predicting

    def _moments_of(self, rows: PairRows, *, order: bool = True) -> tuple[Array, Array]:
        self._refuse_other_covariates()
        pairs = self._items.pairs(rows.left, rows.right)
        users = self._users_of_rows(rows.user)
        covariates = rows.covariates if order else None
        levels = self._levels_of_rows(rows)
        return self.posterior_.pairs(users, *pairs, covariates=covariates, order=order, levels=levels)

    def _users_of_rows(self, user: Any) -> tuple[Items, IntArray]:
        """Return the distinct known users, and for each row the number of its user among them; -1 if unknown."""
        rows = self._users.vocabulary.encode(user, "X", unknown="mark", kind="user")
        if self.unknown_user == "raise":
            refuse_unknown_users(self._users, user, rows, "task" if self._has_tasks else "comparison")
        distinct, index = np.unique(rows[rows >= 0], return_inverse=True)
        number = np.full(rows.size, -1)
        number[rows >= 0] = index
        return self._users.rows(distinct), number

    def latent_covariance(self, X: IdRows) -> Array:
        """Return the posterior covariance of the utility differences of pairs for one user, all effects included.

        Parameters
        ----------
        X : array-like of shape (n, 3) or (n, n_columns)
            Ids of one user (who may be unseen), the left and the right item; or rows with the columns of `fit`, all of
            the same groups, context and time.

        Returns
        -------
        ndarray of shape (n, n)
            Covariances, in squared units of the answer noise.

        Raises
        ------
        ValueError
            If the rows are of several users, groups, contexts or times.
        """
        self._refuse_tasks("latent_covariance", "part_worths or utility")
        rows = self._read(X, reset=False, weighted=False)
        user = np.asarray(rows.user)
        if len(set(user.tolist())) > 1:
            raise DataError(f"X must be of one user; got {shorten(user[0])} and others.")
        self._refuse_other_covariates()
        fitted, levels = self.posterior_, self._levels_of_rows(rows)
        if isinstance(fitted, PersonalPosterior) and levels is not None:
            if (levels != levels[0]).any():
                one = f"one group in each column of groups={self.groups!r}, of one context"
                raise DataError(f"X must be of {one}, and of one time")
            fitted = fitted.select_groups(levels[0].tolist())
        posterior, one_user = self._select_user(user[:1], fitted)
        return posterior.pair_covariance(one_user, *self._items.pairs(rows.left, rows.right), rows.covariates)

    @accept_collections
    def predict_preference(self, X: IdRows) -> Array:
        """Return the probability that the left item has the larger utility for the user, or for the consensus.

        It leaves out the answer noise and the order effects; `predict_proba` predicts single answers.

        Parameters
        ----------
        X : array-like of shape (n, 3), (n, n_columns) or (n, 2)
            Ids of the user, the left and the right item, or rows with the columns of `fit`. With two columns (left and
            right item): the consensus, of all groups.

        Returns
        -------
        ndarray of shape (n,)
            P(f(left, u) > f(right, u)).
        """
        check_is_fitted(self)
        if has_columns(X, 2):
            rows = self._columns.read_ids(X, ("left", "right"))
            pairs = self._items.pairs(rows.left, rows.right)
            return probability_positive(*self._group_posterior(None).consensus.pairs(*pairs, order=False))
        return probability_positive(*self._moments(X, order=False))

    # ---------------------------------------- consensus and personal utilities

    def annotators(self, *, credibility: float = 0.9, n_samples: int = 200, random_state: RandomState = 0) -> Any:
        """Describe every user with comparisons: agreement, accuracy, reliability, distance from the consensus, bias.

        Parameters
        ----------
        credibility : float, default=0.9
            Posterior probability of each interval.
        n_samples : int, default=200
            Posterior draws of the users' utilities, for the accuracies and their intervals.
        random_state : int, RandomState, Generator or None, default=0
            Seed of the draws.

        Returns
        -------
        pandas.DataFrame or Annotators
            One row per user, with the columns of `Annotators`. Those of the bias are there only with `order_effect`,
            and those of the threshold of ties only if each user has a threshold. A data frame if pandas is installed.
        """
        self._refuse_tasks("annotators", "utility")
        report = describe_annotators(
            self.user_ids_,
            *self._flatten_groups(),
            self.likelihood_,
            credibility=credibility,
            n_samples=n_samples,
            rng=as_generator(random_state),
            thresholds=getattr(self, "_thresholds", None),
        )
        return frame_or_record(report)

    def _flatten_groups(self) -> tuple[CrowdPosterior | PersonalPosterior, tuple[Items, Items], Comparisons]:
        """Return posterior, seen users and items, and comparisons; each item in each group is a separate item."""
        seen = comparisons_of_seen(self._comparisons, self._users, self._items)
        posterior, users = self.posterior_, self._seen(self._users)
        if not isinstance(posterior, PersonalPosterior) or posterior.groups is None:
            return posterior, (users, self._seen(self._items)), seen
        places = posterior.places
        left, right = (places.find(side, places.cells(seen)) for side in (seen.left, seen.right))
        n = places.compared.size
        seen = replace(seen, left=left, right=right, n_items=n, group=None, time=None)
        return posterior.flattened(), (users, Items(None, np.arange(n))), seen

    def similar_users(self, user: Hashable, n: int = 10) -> tuple[IdColumn, Array]:
        """Return the users whose personal utilities are nearest to a user's.

        Parameters
        ----------
        user : hashable
            Id of a seen user.
        n : int, default=10
            Number of users to return.

        Returns
        -------
        ids : ndarray of shape (n,)
            The nearest first, without the user.
        distance : ndarray of shape (n,)
            Root mean square difference of their utilities over the seen items, in units of the answer noise.
        """
        check_is_fitted(self)
        of_users, of_items = self._tastes()
        gram = of_items.T @ of_items / max(len(of_items), 1)
        return nearest_entities(user, n, self._users, self.user_ids_, of_users, gram)

    def similar_items(self, item: Hashable, n: int = 10) -> tuple[IdColumn, Array]:
        """Return the items that are most similar to an item: the same users like them more than others do.

        Parameters
        ----------
        item : hashable
            Id of a seen item.
        n : int, default=10
            Number of items to return.

        Returns
        -------
        ids : ndarray of shape (n,)
            The nearest first, without the item.
        distance : ndarray of shape (n,)
            Root mean square difference of their personal utilities over the seen users, in units of the answer noise.
        """
        check_is_fitted(self)
        of_users, of_items = self._tastes()
        gram = of_users.T @ of_users / max(len(of_users), 1)
        return nearest_entities(item, n, self._items, self.item_ids_, of_items, gram)

    def _tastes(self) -> tuple[Array, Array]:
        """Return vectors of the seen users and items whose products are the personal parts of utilities."""
        if isinstance(self.posterior_, PersonalPosterior):
            users, items = self._seen(self._users), self._seen(self._items)
            return self.posterior_.deviations(users, items), np.eye(items.size)
        return self.user_factors_, self.item_factors_
