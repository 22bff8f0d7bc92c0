"""`GPPLClassifier`: rows are comparisons ([SG20] sections 3 and 4; docs/maths sections 1 to 5).

The way of a fit, for readers of the code: `fit` below reads the columns of X (`columns.py`) and numbers their ids
(`data.Comparisons`). `base.infer` calls `fit.fit_pairs`, which chooses kernel and inducing points; `PairModel` there
states the problem, which is a `PairTerm` (`inference/terms/pairs.py`), a likelihood and priors of scales.
`inference/svi.py` solves it, with the equations of one observation in `inference/sites.py`. The result is a
`PairPosterior` (`posterior.py`), by which `predictions.py` and `comparison.py` predict. With `time`, groups or context
(`levels.py`), `over_time.py` stands in the place of `fit.py`. Tasks come in by `tasks.py`.
"""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from sklearn.gaussian_process.kernels import Kernel
from sklearn.utils._param_validation import StrOptions

from skpref._callbacks import fit_context
from skpref._checks import check_indices, check_types, require
from skpref._estimator import unchanged_on_failure
from skpref.data import Comparisons, Table
from skpref.data.comparisons import append_comparisons
from skpref.data.labels import are_with_ties, refuse_one_side
from skpref.data.shards import ComparisonCounts, ShardOptions, check_classes
from skpref.gp.capabilities import check_unchanged
from skpref.gp.entities import Entities
from skpref.gp.pairwise.base import (
    CLASSIFIER_CONSTRAINTS,
    DEFAULT_SETTINGS,
    PRIOR_OF_IDS,
    as_likelihood,
    check_attributes,
    connected_components,
    infer,
    set_attributes,
)
from skpref.gp.pairwise.columns import warn_of_sides
from skpref.gp.pairwise.fit import PairData
from skpref.gp.pairwise.over_time import DYNAMICS, STILL, end_posterior, infer_over_time, refuse_earlier
from skpref.gp.pairwise.predictions import PairPredictions
from skpref.gp.pairwise.sharded import bring_all, is_dated, join, merge_if_few, numbered

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike

    from skpref._typing import IdRows, MatrixLike, RandomState, Stored
    from skpref.data.shards import ShardSummary
    from skpref.inference.shards import Shards
    from skpref.likelihoods import Likelihood
    from skpref.settings import LBFGS, SVI, Checkpoint, Fixed, Gamma, Inducing, Settings

_FULL_PASSES = "auto", "vb", "laplace"


class GPPLClassifier(PairPredictions):
    """Preferences between named items, learnt from comparisons: a Bayesian Bradley-Terry or Thurstone model.

    Rows of X are comparisons: (left id, right id), or rows of a table with columns of both ids. The utility of an item
    is u = f(x) + o: a Gaussian process over its features plus an offset of its own. The left item is preferred with
    probability Phi(u_left - u_right) ([SG20] eq. 3). Without features this is a Bayesian Thurstone model. Covariates c
    of a comparison, such as who is at home or which answer is longer, add c^T beta to the difference.

    Parameters
    ----------
    items : Table, array-like or CSR of shape (n_items, n_features), default=None
        Features of the items. Rows of an array or a data frame have the ids 0, 1, ...; use
        ``Table(frame, ids=frame.index)`` for other ids. None: the items have no features, and their ids are read from
        X.
    kernel : Kernel or str, default=None
        Covariance of f, with unit amplitude: a kernel of `skpref.kernels` or scikit-learn. Or the name of one whose
        length-scales are learnt, see `optimizer`: "product-matern-1/2", "product-matern-3/2",
        "product-matern-5/2" and "squared-exponential" are a `ProductMatern`; "additive-matern-3/2" and
        "additive-matern-5/2" are an `AdditiveMatern`, which has no interactions. None: "product-matern-3/2".
    item_effects : bool, default=True
        Whether each item has an offset in addition to the function of its features. The offset of an unseen item is
        unknown and adds to its variance. Without `items`, or with `time`, it must be True.
    order_effect : bool, default=False
        Whether to learn an advantage of the left side (the home team, the answer shown first); of tasks, of positions.
    covariates : list of str, int or pair, or dict of them by name, default=None
        Columns of X whose effects are learnt, by name or by position. A pair of columns means their difference:
        ``["home", ("length_a", "length_b")]``. A single column must change its sign when the sides are exchanged:
        "home" is 1 where the left side is at home, -1 where the right one is, and 0 on neutral ground. A positive
        effect favours the left side where the column is positive. The coefficients share a normal prior in units of the
        root mean square of their columns where these are not 0; its scale is learnt. Rows with only the two ids are
        predicted with covariates of 0. Of tasks, a covariate has a column for each position: ``{"price": ["price_1",
        "price_2"]}``.
    left, right : str, int or list of them, default=None
        Columns of X with the ids; None: the first and the second one. Of teams, lists of the columns of their players,
        such as ``left=["home_1", "home_2"]``: items are then players. An empty cell is no player, and a cell may be a
        list of players.
    team : {"sum", "mean"}, default="sum"
        Utility of a team, where `left` and `right` are lists: the sum of its players' utilities, as in TrueSkill, in
        which a further player helps if he is above average; or their mean.
    groups : list of str or int, or dict of them by name, default=None
        Columns of X with groups of comparisons, such as ``["surface"]`` or ``["category"]``. In a group, an item has
        the utility u + c: c is its difference there, and the standard deviation of these differences is learnt for
        each column. So a group with few comparisons borrows strength from the others, and c vanishes if groups do not
        differ. ``rank(groups={"surface": "clay"})`` is the ranking in a group. Thresholds of ties differ by group, too.
    context : list of str, int or lists of them, default=None
        Columns of X with numbers on which utilities depend, such as ``["prompt_length"]``. An item has the utility
        u + b x, where x is the number, less its mean and in units of its standard deviation in `fit`. The standard
        deviation of the slopes b is learnt for each column, and b vanishes if items do not differ. A list of columns
        within the list is a vector, such as an embedding, whose slopes share one standard deviation.
        ``rank(context={"prompt_length": 300})`` is the ranking there.
    weight : str or int, default=None
        Column of X with the weights of the comparisons, read by `fit`; None: see `sample_weight`.
    time : str or int, default=None
        Column of X with the time of each comparison: dates, or numbers in any unit. Utilities and effects then move in
        time as `dynamics` says, and predictions need the column, too; the function of the features of items stays. By
        ``inference="auto"`` or "vb". None: nothing moves.
    dynamics : str, default="auto"
        How utilities move, with `time`. "constant"; "drift": a random walk from an item's first comparison; "form":
        stationary ups and downs about a constant level; "drift+form": both. With "+career", such as
        "drift+form+career", all items share a function of the time since their first comparison. "auto": the evidence
        chooses between "constant", "drift+form" and "drift+form+career". Effects of covariates and of the left side
        drift unless it is "constant". Standard deviations and lengths are learnt under priors that are relative to
        the time between the first and the last comparison, unless ``optimizer=None``. The kernel is then that of a fit
        without `time`.
    on_self : {"raise", "drop"}, default="raise"
        What `fit` does with a comparison of an item with itself, usually a mistake in the data: raise an error, or
        leave it out.
    likelihood : str or Likelihood, default="auto"
        "auto": "probit-ties" if labels are wins and ties, 0.5, and no shares; otherwise "probit". "probit":
        Thurstone-Mosteller. "logit": Bradley-Terry. With both, a tie is half of each answer. "probit-ties",
        "logit-ties": the same with ties as a third answer, see ``predict_proba(ties=True)``. "davidson": the logit with
        ties after Davidson, in proportion to the geometric mean of the wins. "probit-graded", "logit-graded": the same
        with grades. "margin": the noisy difference of utilities itself is observed, in a unit that is learnt: points,
        goals, seconds; see `predict_margin`. "luce": rows of X are tasks. See `fit`. A threshold or weight of ties that
        is known: ``PairwiseLogitTies(0.5, learn=False)``.
    inference : {"auto", "vb", "svi", "laplace", "linearised"} or SVI, default="auto"
        "vb": variational Bayes with full passes, none of which lowers the bound on the evidence. Up to 1,500 item
        effects and inducing points keep their joint posterior. With more, each item effect has its own variance, and
        intervals of covariates are slightly too narrow where items have few comparisons. "svi": with mini-batches, see
        `SVI`. It learns item effects slowly; until then effects of covariates are overestimated, and the fit warns.
        "laplace": a Gaussian at the mode, as accurate where there are many data. "linearised": the approximation of
        [SG20], which has no bound and is overconfident. "auto": "vb" while the kernel rows of the items fit into 2
        GiB, else "svi".
    inducing : int, Inducing or array-like of shape (M, n_features), default=300
        Largest number M of inducing points, which are spread out over the items; `Inducing` chooses them otherwise. Or
        the points themselves. A pass costs O(N M^2); M >= the number of distinct items is exact.
    max_iter : int, default=500
        Largest number of passes over the comparisons.
    tol : float, default=1e-4
        Stop when a full pass raises the bound by less than ``tol / 100`` of its size. For "svi": when the mean bound
        of a pass changes by less than `tol` of its size.
    scale_prior : Gamma or Fixed, default=None
        Prior of the inverse variances of f and of the offsets, in units of the answer noise. None: without features of
        items ``Gamma(0.5, 0.1)``, which hardly prefers any standard deviation of utilities between .2 and 2; with them
        ``Gamma(1.0, 1.0)``, which has mean 1 and the weight of two variables. The prior of the offsets beside features
        has an eighth of this shape and rate, so that offsets vanish if the features explain everything. `Fixed`: these
        variances are known.
    optimizer : {"auto", "l-bfgs-b"}, LBFGS or None, default="auto"
        How the hyperparameters of the kernel are learnt. "auto": a length-scale for each feature of the default kernel,
        or of a named one, under a weak prior about the median distances of the items (with more than 256 features, one
        factor on the medians); a `Kernel` does not change. "l-bfgs-b": all hyperparameters maximise the bound; unlike
        "auto", this may overfit a few dozen items. `LBFGS` has further starts. None: nothing is learnt.
    warm_start : bool, default=False
        Whether `fit` starts from the previous posterior and kernel. It needs the same items, kernel, inducing points
        and model; otherwise it is a cold start.
    checkpoint : str, path-like or Checkpoint, default=None
        File to which `fit` saves its passes, every 30 seconds or as `Checkpoint` says. If it exists and is of the same
        data and parameters, `fit` resumes from it, to the same bits as without the interruption; `max_iter` and `tol`
        may change. A file that is damaged or of another fit raises `CheckpointError`; one that cannot be written costs
        a `CheckpointWarning`. A finished fit deletes it. It needs an integer `random_state`, since the kernel and the
        like are chosen again.
    verbose : int, default=0
        Whether to print one line per pass.
    random_state : int, RandomState, Generator or None, default=None
        Seed of inducing points, mini-batches and restarts, and of the part of more than 50,000 comparisons that chooses
        `dynamics`.

    Attributes
    ----------
    classes_ : ndarray of shape (2,) or (K,)
        Labels of the two sides, in the form of the `y` of `fit`: [0, 1] or [False, True] for right and left preferred,
        or ["left", "right"]. Of tasks: positions 0 to K - 1. Of grades: all grades, ascending. Of margins: -1, 0, 1.
    posterior_ : PairPosterior
        Posterior of the utilities, which predictions use; without the features of the items.
    item_ids_ : ndarray of shape (n_seen,)
        Ids of the items that were compared.
    components_ : ndarray of shape (n_seen,)
        Number of the connected component of each of these items in the graph of comparisons. No comparisons connect
        items of different components.
    order_effect_ : tuple of float
        Posterior mean and standard deviation of the advantage of the left side; zeros without `order_effect`.
    coef_ : ndarray of shape (n_covariates,)
        Posterior means of the effects of the covariates: units of the answer noise for one unit of the covariate. With
        `time`, these and `order_effect_` are those at the last comparison. Only with `covariates`.
    coef_std_ : ndarray of shape (n_covariates,)
        Their posterior standard deviations; `covariate_table` has credible intervals. Only with `covariates`.
    covariate_names_ : ndarray of shape (n_covariates,)
        Names of the covariates.
    kernel_ : Kernel or None
        The kernel with its final hyperparameters; None without features.
    dynamics_ : SkillDynamics
        How utilities move; only with `time`, `groups`, `context` or teams, and "constant" without `time`.
    moving_posterior_ : MovingPosterior
        Their posterior at all times and in all groups; only with `time`, `groups`, `context` or teams. `posterior_` is
        then that at the last comparison, of no group, at the mean context.
    group_ids_ : list of ndarray
        Ids of the groups in each column of `groups`.
    group_scales_ : ndarray of shape (n_group_columns,)
        Learnt variance of utilities between the groups of each column.
    context_scales_ : ndarray of shape (n_context,)
        Learnt variance of slopes in each column or vector of `context`, whose numbers have unit variance.
    inducing_points_ : ndarray or CSR of shape (M, n_features), or None
        Inducing points.
    likelihood_ : Likelihood
        The likelihood with its learnt parameters. With `groups`, its threshold is that of a typical group.
    tie_thresholds_ : ndarray of shape (n_groups,) or (n_groups, n_other_groups, ...), or None
        Posterior medians of the thresholds of ties in the groups of `group_ids_` that `fit` has seen; of several
        columns, in their combinations. None without `groups`, or with a likelihood without ties.
    scale_ : GammaScale or FixedScale
        Posterior of the inverse variance of f, or of the offsets without features.
    lower_bound_ : float
        Bound on the log evidence, in nats.
    lower_bounds_ : list of float
        The bound after each pass.
    n_iter_ : int
        Number of passes.
    converged_ : bool
        Whether `tol` was met.
    n_features_in_ : int
        Number of columns of X.

    See Also
    --------
    GPPLRegressor : Rows are items.
    CrowdGPPL : Comparisons by many users who differ.
    Table : Features with ids.

    References
    ----------
    .. [SG20] Simpson and Gurevych, "Scalable Bayesian preference learning for crowds", Machine Learning, 2020.

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
        **CLASSIFIER_CONSTRAINTS,
        "left": [str, Integral, list, tuple, None],
        "right": [str, Integral, list, tuple, None],
        "team": [StrOptions({"sum", "mean"})],
        "dynamics": [StrOptions(DYNAMICS)],
    }

    @property
    def _settings_defaults(self) -> dict[str, Settings]:  # type: ignore[override]  # a constant of other classes
        """The defaults: without features of items, the scale of utilities has a prior of its own."""
        return DEFAULT_SETTINGS if self.items is not None else DEFAULT_SETTINGS | {"scale_prior": PRIOR_OF_IDS}

    def __init__(
        self,
        items: Table | MatrixLike | None = None,
        kernel: Kernel | str | None = None,
        *,
        item_effects: bool = True,
        order_effect: bool = False,
        covariates: Sequence[Any] | Mapping[str, Any] | None = None,
        left: str | int | Sequence[str | int] | None = None,
        right: str | int | Sequence[str | int] | None = None,
        team: Literal["sum", "mean"] = "sum",
        groups: Sequence[str | int] | Mapping[str, str | int] | None = None,
        context: Sequence[str | int | Sequence[str | int]] | None = None,
        weight: str | int | None = None,
        time: str | int | None = None,
        dynamics: str = "auto",
        on_self: Literal["raise", "drop"] = "raise",
        likelihood: str | Likelihood = "auto",
        inference: str | SVI = "auto",
        inducing: int | Inducing | MatrixLike = 300,
        max_iter: int = 500,
        tol: float = 1e-4,
        scale_prior: Gamma | Fixed | None = None,
        optimizer: str | LBFGS | None = "auto",
        warm_start: bool = False,
        checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
        verbose: int = 0,
        random_state: RandomState = None,
    ) -> None:
        self.items = items
        self.kernel = kernel
        self.item_effects = item_effects
        self.order_effect = order_effect
        self.covariates = covariates
        self.left = left
        self.right = right
        self.team = team
        self.groups = groups
        self.context = context
        self.weight = weight
        self.time = time
        self.dynamics = dynamics
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

    @fit_context
    def fit(self, X: IdRows | Stored, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the utilities of the items.

        Parameters
        ----------
        X : array-like of shape (n, 2) or (n, n_columns), str, Path, Dataset or collection
            Ids of the left and the right item: integers, strings or other hashables, in an array, a list of pairs or a
            data frame (pandas, polars). With `covariates`, `left`, `right` or `weight`: rows of a table that has these
            columns; other columns are ignored. Or a Parquet file, a folder of them, or a dataset with columns left,
            right and y, unless parameters name others: at most a million rows are then in memory at a time.
            Or a frame or array of Dask: `y` and `sample_weight` are then columns of it by name, or collections with the
            same partitions. Or tasks, shape (n, K): ids of the items shown, None where there are fewer than K. With
            ``likelihood="luce"`` rows are tasks; otherwise where `y` cannot be labels of comparisons.
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
        GPPLClassifier
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
            If one side wins more often than the items explain, and `order_effect` is False. If `y` has booleans and all
            are False. If `y` is None, and X has a column such as "winner". If a covariate is the same in all
            comparisons. If ids differ only in spaces at their ends.
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
        classes: ArrayLike | None = None,  # noqa: ARG002 - of scikit-learn's protocol
    ) -> Self:
        """Learn from more comparisons, which may be of new items.

        Earlier comparisons are kept. So the result is that of one fit with all comparisons, up to the tolerance. The
        kernel, the inducing points and the dynamics do not change; while there are no new items and no times, the fit
        starts from the previous posterior.

        Parameters
        ----------
        X : array-like of shape (n, 2) or (n, n_columns)
            Ids of the left and the right item, or rows with the columns of `fit`.
        y : array-like of shape (n,), default=None
            Labels, as in `fit`; the first call is the same as `fit` and sets `classes_`.
        sample_weight : array-like of shape (n,), default=None
            Weights of the comparisons; None: all weights are 1.
        items : Table, default=None
            Features of new items, if the model has features. Otherwise new ids are read from X.
        classes : array-like of shape (2,), default=None
            Ignored, as the two sides are known; scikit-learn's tools pass it.

        Returns
        -------
        GPPLClassifier
            The fitted estimator.

        Raises
        ------
        ValueError
            As in `fit`. Also if features of new items are missing or do not match, or if `covariates`, `order_effect`
            or the treatment of ties has changed since the first call.
        """
        return self._fit_more(X, y, sample_weight, items=items)

    def update(
        self,
        X: IdRows,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        items: Table | None = None,
    ) -> Self:
        """Filter later comparisons into a model with `time`: microseconds each, without another fit.

        Each comparison, one after the other, changes the utilities of its two items and the effects, and nothing else;
        with `groups`, differences between groups follow when all are filtered, but those of new groups stay unknown.
        Predictions use them. Utilities of other items, hyperparameters, thresholds of ties, the curve of careers and
        the function of features stay as the fit left them: after a fit without ties, a tie is half of each answer.
        `partial_fit` refits instead, with these comparisons and all earlier ones, and is more accurate where items have
        few of them. Each call also takes about a tenth of a second where there are 60,000 earlier comparisons: pass
        many rows at once.

        Parameters
        ----------
        X : array-like of shape (n, n_columns)
            Comparisons with the columns of `fit`, in the order of time. None may be before an earlier one of its items.
        y : array-like of shape (n,), default=None
            Labels, as in `fit`.
        sample_weight : array-like of shape (n,), default=None
            Weights of the comparisons, at most 100; None: all weights are 1.
        items : Table, default=None
            Features of new items, if the model has features. Otherwise new ids are read from X; they start as any new
            item.

        Returns
        -------
        GPPLClassifier
            The estimator.

        Raises
        ------
        ValueError
            As in `partial_fit`. Also if the model was fitted without `time` or to tasks, or rows are not in the order
            of time.

        Examples
        --------
        >>> from skpref import GPPLClassifier
        >>> X = [["x", "y", 1], ["x", "y", 2], ["y", "x", 3], ["y", "x", 4]]
        >>> model = GPPLClassifier(time=2, dynamics="drift").fit(X, [1, 0, 1, 1])
        >>> before = model.utility(["y"])
        >>> bool(model.update([["y", "x", 5], ["y", "z", 6]]).utility(["y"])[0] > before[0])
        True
        """
        moving = self._moving("update")
        self._refuse_tasks("update", "partial_fit")
        self._refuse_other_model()
        old = self._kept_comparisons("update")
        new, (all_items,) = self._read_more(X, y, sample_weight, {"items": items})
        new = new.take(new.weight > 0.0)
        if not new.n_pairs:
            return self
        all_items = all_items.with_seen(new.compact()[1])
        new = new.renumbered(all_items.position, all_items.seen.size)
        refuse_earlier(moving, new, self.time)
        with unchanged_on_failure(self):
            self.moving_posterior_ = moving.filtered(new, self.likelihood_, all_items.seen_features)
            self.posterior_, self._state = end_posterior(self.moving_posterior_)
            self._items, self.item_ids_ = all_items, all_items.seen_ids
            together = append_comparisons(old, new)
            self.components_ = together.components()[1]
            self._keep(together)
        return self

    def _learn_new(self, answers: Comparisons, entities: list[Entities], *, resume: bool) -> None:
        (items,) = entities
        if resume:
            old = self._kept_comparisons("partial_fit")
            answers = append_comparisons(old.renumbered(self._items.seen, answers.n_items), answers)
        self._learn(items, answers, resume=resume)
        if not (resume or self._has_tasks or self.order_effect):
            warn_of_sides(answers, self._expected(answers))

    def _learn(self, items: Entities, comparisons: Comparisons, *, resume: bool = False) -> None:
        """Fit to comparisons by rows of the vocabulary; with `resume`, hyperparameters stay."""
        if self._has_side:
            refuse_one_side(comparisons.y, comparisons.weight)
        kept, seen = comparisons.merged(keep_order=self.order_effect, keep_ties=self._keeps_ties).compact()
        self._items = items = replace(items, seen=seen)
        self.components_, self.item_ids_ = connected_components(kept), items.seen_ids
        config = self._config_of_ties(self._config(offsets=self._has_offsets(), order=self.order_effect), kept)
        merged = kept if config.likelihood.ties_are_answers else kept.merged(keep_order=self.order_effect)
        data = PairData(items.seen_features, merged)
        if self.time is None:
            STILL.check(vars(self))
        if merged.time is None:
            fit = infer(self, data, config, self.item_ids_, resume=resume)
            self._forget_times()
        else:
            fit = infer_over_time(self, data, config, self._columns.widths, is_dated=self._is_dated, resume=resume)
        set_attributes(self, fit)
        self._keep(kept)

    def _forget_times(self) -> None:
        """Leave out what an earlier fit over time or in groups has set."""
        for name in ("moving_posterior_", "dynamics_"):
            if hasattr(self, name):
                delattr(self, name)
        self.group_scales_ = self.context_scales_ = np.zeros(0)

    def _keep(self, comparisons: Comparisons | ComparisonCounts) -> None:
        """Store the results of a fit besides the posterior."""
        self._comparisons = comparisons
        self._set_effects()

    def _refuse_other_model(self) -> None:
        if not self._has_tasks:
            had_teams = getattr(self._comparisons, "left", np.zeros(0)).ndim == 2
            check_unchanged("whether left and right are teams", self._has_teams, had_teams)
        check_unchanged("order_effect", self._has_side, self.posterior_.has_order)
        self._refuse_other_covariates()
        if self.likelihood != "auto":
            check_unchanged("whether likelihood has ties", self._keeps_ties, self.likelihood_.ties_are_answers)

    @property
    def _needs_memory(self) -> bool:
        return super()._needs_memory or self._has_teams or self._columns.has_levels

    def _needs_all(self, summaries: list[ShardSummary]) -> bool:
        """Tell whether a fit needs all comparisons in one place."""
        has_covariates = self.covariates is not None and len(self.covariates) > 0
        labels = [label for summary in summaries for label in summary.labels]
        learns_ties = self.likelihood == "auto" and are_with_ties(np.unique(labels))
        learns = learns_ties or as_likelihood(self.likelihood).has_parameters
        return has_covariates or self.time is not None or learns or self.inference not in _FULL_PASSES

    def _shard_options(self) -> ShardOptions:
        """Return how the comparisons of a shard are read and merged."""
        return ShardOptions(self.on_self, keep_order=self.order_effect, keep_ties=self._keeps_ties)

    def _fit_shards(self, shards: Shards, summaries: list[ShardSummary], rows: list[Any]) -> None:
        """Fit to comparisons in shards, given their summaries and handles on the comparisons."""
        self._name_groups((), {})
        self._forget_times()  # a fit that has some sets them
        self._is_dated = is_dated(self.time, summaries)
        if self._needs_all(summaries):
            items, number, _, _ = numbered(self, summaries)
            self.classes_ = check_classes([s.classes for s in summaries if s.classes is not None])
            comparisons = bring_all(shards, rows, number, items)
            if comparisons.covariates is not None:
                self._columns.check_sizes(comparisons.covariates)
            self._columns.check_varying(comparisons)
            self._learn(items, comparisons)
            return
        items, joined = join(self, shards, summaries, rows)
        self._items, self.item_ids_ = items, items.seen_ids
        self.components_ = connected_components(joined)
        self.classes_ = check_classes([s.classes for s in summaries if s.classes is not None])
        summaries.clear()  # they take 32 bytes for each item and shard
        config = self._config(offsets=self._has_offsets(), order=self.order_effect)
        here = merge_if_few(joined, keep_order=self.order_effect)
        data = PairData(items.seen_features, here, joined)
        set_attributes(self, infer(self, data, config, self.item_ids_))
        self._keep(ComparisonCounts(joined.weight_of_item))

    def _check_fitted(self) -> None:
        """Raise DataError unless the fitted attributes fit together."""
        check_attributes(self)
        check_types(self, _items=Entities, _comparisons=Comparisons | ComparisonCounts, _is_dated=bool)
        posterior, items = self.posterior_, self._items
        require(self._comparisons.n_items == items.seen.size, self, "_comparisons", "must be of the compared items")
        same = np.array_equal(self.item_ids_, items.seen_ids)
        require(same, self, "item_ids_", "must be the ids of the compared items")
        check_indices(self, "components_", self.components_, 0, items.seen.size, items.seen.size)
        if not self._has_tasks:
            self._check_classes()
            self._columns.check_width(self)
        self._check_effects(self._comparisons)
        self._check_moving()
        sound = not posterior.has_offsets or posterior.n_seen == items.seen.size
        require(sound, self, "posterior_", f"must have the offsets of {items.seen.size} items")
        width = 0 if posterior.basis is None else posterior.basis.points.shape[1]
        require(items.width == width, self, "_items", f"must have {width} features")
