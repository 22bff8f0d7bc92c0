"""What `GPPLClassifier` and `CrowdGPPL` share: rows of X are comparisons, or tasks, whose answers they predict."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_consistent_length, check_is_fitted
from sklearn.utils.validation import validate_data as validate_names

from skpref._callbacks import CallbackMixin, fit_callbacks
from skpref._checks import require
from skpref._estimator import unchanged_on_failure
from skpref._sources import accept_collections, as_source, bring_rows, feature_columns, is_elsewhere, set_features
from skpref.data.comparisons import from_labels
from skpref.data.ids import shorten
from skpref.data.labels import (
    are_classes,
    are_grades,
    classes_of,
    left_column,
    read_grades,
    read_labels,
    read_signed_margins,
    signed_grades,
)
from skpref.data.policy import POLICY
from skpref.data.records import frame_or_record
from skpref.data.shards import ComparisonCounts, read_shard
from skpref.data.tasks import Tasks, are_tasks, read_answers
from skpref.data.times import refuse_other_kind
from skpref.exceptions import DataError
from skpref.gp.capabilities import check_unchanged
from skpref.gp.entities import Entities
from skpref.gp.pairwise.base import DEFAULT_SETTINGS, as_likelihood, config_of
from skpref.gp.pairwise.columns import SEVERAL, PairColumns, refuse_two_weights, warn_never_left, warn_unlabelled
from skpref.gp.pairwise.effects import describe_effects
from skpref.gp.pairwise.levels import GroupLevels, units_of_context
from skpref.gp.pairwise.sharded import may_show_several, roles_of
from skpref.gp.pairwise.tasks import TASKS, add_positions, chosen_items, encode_tasks, predict_shares
from skpref.gp.pairwise.thresholds import predict_answers
from skpref.likelihoods import Luce, PairwiseMargin, PairwiseProbitTies, PairwiseTies
from skpref.likelihoods.ties import share_of_left, sum_of_sides
from skpref.metrics import pair_accuracy
from skpref.settings import HasSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray
    from sklearn.utils import Tags

    from skpref._sources import Source
    from skpref._typing import Array, IdRows, IntArray
    from skpref.data import Comparisons, IdColumn
    from skpref.data.comparisons import OnSelf
    from skpref.data.shards import ShardOptions, ShardSummary
    from skpref.gp.entities import Items
    from skpref.gp.pairwise.columns import PairRows
    from skpref.gp.pairwise.fit import PairConfig
    from skpref.gp.pairwise.posterior import PairPosterior
    from skpref.inference.shards import Shards
    from skpref.likelihoods import Likelihood
    from skpref.settings import Settings


class ComparisonClassifier(ClassifierMixin, CallbackMixin, HasSettings, ABC):
    """Predictions of a model whose rows of X are comparisons, once the moments of their projections are known.

    After a fit to tasks, rows show several items: the functions of `tasks.py` then stand in the place of likelihoods.
    """

    _settings_defaults: ClassVar[dict[str, Settings]] = DEFAULT_SETTINGS
    _batch_size: ClassVar[int] = 1000  # of SVI
    _sides: ClassVar[tuple[str, ...]] = ("left", "right")  # the columns of ids, in the order of X without names
    _takes_collections: ClassVar[bool] = True
    _times_go_with: ClassVar[str] = "are time, groups, context or teams"  # a model with one of them is one over time
    items: Any
    time: Any
    _is_dated: bool  # whether times are years since 1970
    _comparisons: Any
    fit: Any
    posterior_: Any
    likelihood_: Likelihood
    classes_: NDArray[Any]
    _items: Entities
    _form: str | None  # how answers name what was chosen; None where rows are comparisons
    _groups: dict[Any, Entities]  # by the column of each kind
    _numbers: dict[Any, tuple[float, float]]  # mean and standard deviation, by the column of each number of context
    order_effect: bool
    on_self: OnSelf
    n_features_in_: int
    group_ids_: list[IdColumn]
    covariate_names_: NDArray[Any]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.classifier_tags.multi_class = False
        tags.target_tags.required = False
        return tags

    # ----------------------------------------------------------------------------------------------------- rows and fit
    @property
    def _columns(self) -> PairColumns:
        """The columns of X that parameters name."""
        return PairColumns.read_parameters(self, self._sides)

    @property
    def _levels(self) -> GroupLevels:
        """Groups and numbers of context of the fit."""
        return GroupLevels(self._columns, vars(self).get("_groups", {}), vars(self).get("_numbers", {}))

    def _read(self, X: Any, *, reset: bool, weighted: bool = True) -> PairRows:
        """Return the columns of X; store or check their names."""
        return self._columns.read_rows(self, X, reset=reset, weighted=weighted)

    def _set_levels(self, rows: PairRows | Tasks, sample_weight: Any) -> None:
        """Store the groups of rows, and the units of numbers of context."""
        kinds = [Entities.read(None, ids, estimator=self, kind="group") for ids in rows.groups]
        units: dict[Any, tuple[float, float]] = {}
        if rows.context is not None:
            weight = sample_weight if rows.weight is None else rows.weight
            units = units_of_context(self._columns.roles.context, rows.context, weight)
        self._name_groups(kinds, units)

    def _name_groups(self, kinds: Sequence[Entities], units: dict[Any, tuple[float, float]]) -> None:
        """Store the groups of each kind, and the units of numbers of context."""
        self._numbers = units
        self._groups = dict(zip(self._columns.groups, kinds, strict=True)) if kinds else {}
        self.group_ids_ = [kind.vocabulary.ids.copy() for kind in kinds]

    def _id_columns(self, rows: PairRows | Tasks) -> dict[str, Sequence[IdColumn]]:
        """Return the columns of ids, by the parameter whose table has their features."""
        return {"items": rows.shown}

    def _number_sides(self, items: Entities, rows: PairRows) -> tuple[IntArray, IntArray]:
        """Return the items of the left and the right side, by rows of the vocabulary."""
        left, right = (items.vocabulary.encode(side, "X") for side in rows.shown)
        return left, right

    def _fit_answers(self, X: Any, y: Any, sample_weight: Any) -> Self:
        """Fit to comparisons or tasks in memory, in files or on a cluster."""
        with fit_callbacks(self, X, y, sample_weight), unchanged_on_failure(self):
            self._form = None
            X, y, sample_weight = self._brought(X, y, sample_weight)
            if is_elsewhere(X):
                self._fit_source(as_source(X, y, sample_weight))
            else:
                self._learn_new(*self._read_first(X, y, sample_weight), resume=False)
        return self

    def _fit_more(self, X: Any, y: Any, sample_weight: Any, **tables: Any) -> Self:
        """Fit to the rows of earlier calls and to these, with tables of new items and users."""
        if not hasattr(self, "posterior_"):
            if any(table is not None for table in tables.values()):
                what = f"{' and '.join(tables)} of partial_fit are for new ones"
                raise DataError(f"{what}; before the first call, pass them to {type(self).__name__}.")
            self.fit(X, y, sample_weight)
            return self
        with unchanged_on_failure(self):
            self._refuse_other_model()
            self._learn_new(*self._read_more(X, y, sample_weight, tables), resume=True)
        return self

    def _read_first(self, X: Any, y: Any, sample_weight: Any) -> tuple[Comparisons, list[Entities]]:
        """Return answers, all items and, of a crowd, all users; set what columns say of the model."""
        rows: PairRows | Tasks
        labels = y
        if self._holds_tasks(X, y):
            self._check_tasks()
            rows = self._read_tasks(X, reset=True, weighted=True)
            self._form, self.classes_ = "", np.arange(rows.present.shape[1])
        else:
            rows = self._read(X, reset=True)
            labels = self._grades(y, reset=True)
        self._is_dated = rows.is_dated
        entities = [
            Entities.read(getattr(self, name), *ids, estimator=self, kind=name.removesuffix("s"))
            for name, ids in self._id_columns(rows).items()
        ]
        self._set_levels(rows, sample_weight)
        answers = self._encode(rows, labels, sample_weight, *entities)
        self._columns.check_varying(answers)
        if not self._has_tasks:
            self.classes_ = self.classes_ if self._has_grades else classes_of(y)
            warn_unlabelled(X, y, [getattr(self, side) for side in self._sides])
            if not self.order_effect:
                warn_never_left(answers, self.classes_)
        return answers, entities

    def _read_more(self, X: Any, y: Any, sample_weight: Any, tables: Any) -> tuple[Comparisons, list[Entities]]:
        """Return further answers, and all items and users with these; `tables` have features of new ones, by name."""
        rows: PairRows | Tasks
        if self._has_tasks:
            self._check_tasks()
            rows = self._read_tasks(X, weighted=True)
        else:
            rows, y = self._with_covariates(self._read(X, reset=False)), self._grades(y)
        self._refuse_other_times(rows)
        columns = self._id_columns(rows)
        entities = [getattr(self, f"_{name}").with_new(tables[name], *ids) for name, ids in columns.items()]
        self._name_groups(self._levels.with_new(rows.groups), self._numbers)
        return self._encode(rows, y, sample_weight, *entities), entities

    def _encode(
        self, rows: PairRows | Tasks, y: Any, sample_weight: Any, items: Entities, users: Entities | None = None
    ) -> Comparisons:
        """Return answers by rows of the vocabularies."""
        refuse_two_weights(None if rows.weight is None else self._columns.roles.weight, sample_weight)
        weight = sample_weight if rows.weight is None else rows.weight
        levels = self._levels
        more: dict[str, Any] = {
            "group": levels.groups_of(rows.groups),
            "context": levels.context_of(rows),
            "time": rows.time,
        }
        if users is not None:
            noun = "row" if self._has_tasks else "comparison"
            user = users.vocabulary.encode(rows.user, "X", noun=noun, kind="user")
            more |= {"user": user, "n_users": users.vocabulary.size}
        if isinstance(rows, Tasks):
            covariates = self._covariates_of_tasks(rows)
            choices, answers = encode_tasks(self._sides, items, rows, y, weight, covariates=covariates, **more)
            self._form = self._form or answers.form
            return choices
        more |= {"on_self": self.on_self, "names": items.vocabulary.ids, "covariates": rows.covariates}
        left, right = self._number_sides(items, rows)
        return from_labels(left, right, y, items.vocabulary.size, sample_weight=weight, **more)

    def _check_tasks(self) -> None:
        """Refuse parameters that tasks cannot have."""
        TASKS.check(vars(self))

    @abstractmethod
    def _learn_new(self, answers: Comparisons, entities: list[Entities], *, resume: bool) -> None:
        """Fit to answers by rows of the vocabularies; with `resume`, in addition to earlier ones."""

    @abstractmethod
    def _refuse_other_model(self) -> None:
        """Refuse further answers where parameters name another model than the fit."""

    def _refuse_other_times(self, rows: PairRows | Tasks) -> None:
        """Refuse times that a model without them cannot use, their absence, and dates in the place of numbers."""
        had_times = getattr(self._comparisons, "time", None) is not None
        check_unchanged(f"whether there {self._times_go_with}", rows.time is not None, had_times)
        if rows.time is not None:
            refuse_other_kind(self.time, now=rows.is_dated, then=self._is_dated)

    @property
    def _has_grades(self) -> bool:
        """Whether the likelihood is one of signed answers: grades or margins."""
        if isinstance(self.likelihood, str):
            return self.likelihood.endswith("-graded") or self._has_margins
        return self._has_margins or (isinstance(self.likelihood, PairwiseTies) and self.likelihood.n_levels != 3)

    @property
    def _has_margins(self) -> bool:
        """Whether answers are margins, as numbers."""
        return self.likelihood == "margin" or isinstance(self.likelihood, PairwiseMargin)

    def _grades(self, y: Any, *, reset: bool = False) -> Any:
        """Return labels from 0 to 1 of grades, and store or check these; other labels stay as they are."""
        if not reset:
            check_unchanged("whether likelihood has grades", self._has_grades, not are_classes(self.classes_))
        if not self._has_grades:
            return y
        if self._has_margins:
            margins, self.classes_ = read_signed_margins(y, None if reset else self.classes_)
            return PairwiseMargin.labels_of(margins)
        labels, self.classes_ = read_grades(y, None if reset else self.classes_)
        wanted = getattr(self.likelihood, "n_levels", self.classes_.size)
        if wanted != self.classes_.size:
            raise DataError(f"likelihood has {wanted} levels, and y has {self.classes_.size}: {self.classes_.tolist()}")
        return labels

    def _config(self, *, offsets: bool, order: bool) -> PairConfig:
        order = order and not self._has_tasks
        config = config_of(self, offsets=offsets, order=order, batch_size=self._batch_size)
        if self._has_tasks:
            return replace(config, likelihood=Luce())
        if not (self._has_grades and isinstance(self.likelihood, str)):
            return config
        likelihood: Any = config.likelihood
        if self._has_margins:
            return replace(config, likelihood=replace(likelihood, step=float(self.classes_.dtype.kind == "i")))
        return replace(config, likelihood=likelihood.from_levels(self.classes_.size))

    @property
    def _keeps_ties(self) -> bool | None:
        """Whether ties stay apart from wins where comparisons are merged; None: unless they are shares."""
        return None if self.likelihood == "auto" else as_likelihood(self.likelihood).ties_are_answers

    def _config_of_ties(self, config: PairConfig, c: Comparisons) -> PairConfig:
        """Return the config in which "auto" is a likelihood with ties if there are some."""
        if self.likelihood != "auto" or config.inference == "linearised" or not c.has_ties:
            return config
        return replace(config, likelihood=PairwiseProbitTies())

    def _check_classes(self) -> None:
        """Raise DataError unless `classes_` are two sides, or the grades of the likelihood."""
        n_levels = getattr(self.likelihood_, "n_levels", 2)
        right = are_grades(self.classes_, n_levels) or (n_levels <= 3 and are_classes(self.classes_))
        require(right, self, "classes_", "must be 0 and 1, False and True, left and right, or grades")

    def _has_offsets(self) -> bool:
        """Tell whether items have offsets; without features, these are all that they have."""
        if self.items is None and not self.item_effects:
            raise DataError(
                "item_effects=False leaves items nothing but the function of their features, and items=None has no "
                "features: pass items=Table(...), or leave item_effects at True"
            )
        return bool(self.item_effects)

    # ------------------------------------------------------------------------------------------------------ predictions
    @abstractmethod
    def _moments_of(self, rows: PairRows, *, order: bool = True) -> tuple[Array, Array]:
        """Return the posterior mean and variance of the projection of each row, with or without the order effect."""

    @abstractmethod
    def _log_thresholds(self, rows: PairRows) -> tuple[Array, Array] | None:
        """Return means and variances of the log thresholds of ties of each row; None where all rows share one."""

    def _asked(self, X: Any) -> PairRows:
        """Return comparisons to predict."""
        self._refuse_tasks("this method", "predict_proba, utility or rank")
        return self._read(X, reset=False, weighted=False)

    def _moments(self, X: Any, *, order: bool = True) -> tuple[Array, Array]:
        return self._moments_of(self._asked(X), order=order)

    def latent_mean_and_variance(self, X: IdRows) -> tuple[Array, Array]:
        """Return the posterior mean and variance of the utility difference, left minus right.

        Covariates and the order effect are included, the answer noise is not.

        Parameters
        ----------
        X : array-like of shape (n, n_columns)
            Comparisons, with the columns of `fit`.

        Returns
        -------
        mean : ndarray of shape (n,)
            Means, in units of the answer noise.
        variance : ndarray of shape (n,)
            Variances.
        """
        return self._moments(X)

    @accept_collections
    def decision_function(self, X: IdRows) -> Array:
        """Return the posterior mean of the utility difference, of the second class of `classes_` minus the first.

        That is left minus right for labels that are numbers or booleans, and right minus left for words.

        Parameters
        ----------
        X : array-like of shape (n, n_columns)
            Comparisons, with the columns of `fit`.

        Returns
        -------
        ndarray of shape (n,)
            Positive where `predict` returns the second class, in units of the answer noise.
        """
        mean = self._moments(X)[0]
        return mean if left_column(self.classes_) else -mean

    @accept_collections
    def predict_proba(self, X: IdRows, *, ties: bool = False) -> Array:
        """Return the probabilities of the answers to comparisons or tasks.

        Parameters
        ----------
        X : array-like of shape (n, n_columns)
            Comparisons or tasks, with the columns of `fit`.
        ties : bool, default=False
            Whether to return the probability of a tie, too. It needs ``likelihood="probit-ties"``, ``"logit-ties"`` or
            ``"davidson"``, or "auto" and ties in `y`. With ``ties=False`` a tie counts as half of each side.

        Returns
        -------
        ndarray of shape (n, 2), (n, 3), (n, L) or (n, K)
            Probabilities of the two sides in the order of `classes_`: right, left for numbers or booleans, and left,
            right for words; of grades, those of all L `classes_`. With `ties`: always left, tie, right. Of tasks: the
            probability that the item at each position is chosen, the best of those shown; 0 where there is none.
        """
        check_is_fitted(self)
        if self._has_tasks:
            if ties:
                raise DataError("ties=True is for comparisons of two items; the model was fitted to tasks")
            return self._shares(self._read_tasks(X))
        if ties:
            return sum_of_sides(self._answers(X))
        if self.classes_.size > 2:
            return self._answers(X)[:, ::-1]
        left = self._left_probability(X)
        return np.column_stack([1.0 - left, left] if left_column(self.classes_) else [left, 1.0 - left])

    def _answers(self, X: Any) -> Array:
        """Return the probabilities of left, tie and right, or of all grades, the largest first, shape (n, L)."""
        rows = self._asked(X)
        likelihood: Any = self.likelihood_
        if not likelihood.ties_are_answers:
            raise DataError(
                f"ties=True needs a likelihood in which a tie is an answer; got {type(likelihood).__name__}. "
                "Fit with likelihood='probit-ties', 'logit-ties' or 'davidson', or with 'auto' and a y of wins and "
                "ties, without soft labels"
            )
        return self._answers_at(self._moments_of(rows), self._log_thresholds(rows))

    def _answers_at(self, moments: tuple[Array, Array], log_b: tuple[Array, Array] | None) -> Array:
        """Return the probabilities of the answers, given moments of the differences and of the log thresholds."""
        likelihood: Any = self.likelihood_
        if log_b is None:
            return np.asarray(likelihood.predict_answers(*moments))
        return predict_answers(likelihood, *moments, log_b)

    def _left_at(self, moments: tuple[Array, Array], log_b: tuple[Array, Array] | None) -> Array:
        """Return the probability that the left item is preferred, given the same."""
        return self.likelihood_.predict(*moments) if log_b is None else share_of_left(self._answers_at(moments, log_b))

    def _left_probability(self, X: Any) -> Array:
        """Return the probability that the left item is preferred, shape (n,)."""
        rows = self._asked(X)
        return self._left_at(self._moments_of(rows), self._log_thresholds(rows))

    @accept_collections
    def predict_margin(self, X: IdRows) -> tuple[Array, Array]:
        """Return the expected margin of each comparison, and its standard deviation; for ``likelihood="margin"``.

        Parameters
        ----------
        X : array-like of shape (n, n_columns)
            Comparisons, with the columns of `fit`.

        Returns
        -------
        mean : ndarray of shape (n,)
            Expected margins in units of the `y` of `fit`, positive where left is ahead.
        std : ndarray of shape (n,)
            Standard deviations of new margins, noise included: about 90 % lie within 1.645 of these from the mean.

        Raises
        ------
        DataError
            If the fit has another likelihood.

        Examples
        --------
        >>> from skpref import GPPLClassifier
        >>> games = [("ann", "bob"), ("bob", "cy"), ("ann", "cy"), ("cy", "ann")]
        >>> model = GPPLClassifier(likelihood="margin").fit(games, [3, 1, 5, -2])
        >>> mean, std = model.predict_margin([("ann", "cy"), ("cy", "ann")])
        >>> bool(0.0 < mean[0] == -mean[1])
        True
        """
        mean, variance = self._moments(X)  # checks that the estimator is fitted
        if not isinstance(self.likelihood_, PairwiseMargin):
            raise DataError(f"margins need likelihood='margin'; the fit has {type(self.likelihood_).__name__}")
        return self.likelihood_.scale * mean, self.likelihood_.scale * np.sqrt(1.0 + variance)

    @accept_collections
    def predict(self, X: IdRows) -> NDArray[Any]:
        """Return the preferred side of each comparison, its most probable grade, or what is chosen in each task.

        Parameters
        ----------
        X : array-like of shape (n, n_columns)
            Comparisons or tasks, with the columns of `fit`.

        Returns
        -------
        ndarray of shape (n,)
            In the form of the `y` of `fit`. Sides: 1 or 0, True or False, "left" or "right"; or grades, and of margins
            their signs. Choices: the ids that are most probably chosen, or their positions from 0.
        """
        check_is_fitted(self)
        if self._has_tasks:
            tasks = self._read_tasks(X)
            return chosen_items(tasks, np.argmax(self._shares(tasks), axis=1), self._form)
        if self.classes_.size > 2:
            return self.classes_[self.predict_proba(X).argmax(axis=1)]
        second = self.decision_function(X) > 0.0
        return self.classes_[second.astype(np.intp)]

    @accept_collections
    def score(self, X: IdRows, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> float:
        """Return the share of correct predictions: of sides (ties do not count), of grades, or of choices in tasks.

        Parameters
        ----------
        X : array-like of shape (n, n_columns)
            Comparisons or tasks, with the columns of `fit`.
        y : array-like of shape (n,), (n, 2) or (n, K), default=None
            Answers as in `fit`; a soft label counts as the side that it favours, and of a ranking the best item counts.
        sample_weight : array-like of shape (n,), default=None
            Weights of the comparisons; None: all weights are 1.

        Returns
        -------
        float
            Share of correct predictions, in [0, 1].
        """
        check_is_fitted(self)
        if self._has_tasks:
            right = np.argmax(self._shares(self._read_tasks(X)), axis=1) == self._chosen_places(X, y)
            return pair_accuracy(np.ones(right.size), right.astype(np.float64), sample_weight=sample_weight)
        if self.classes_.size > 2:
            predicted, grade = self.predict(X), signed_grades(y, self.classes_)
            grade = np.sign(grade) if self._has_margins else grade
            check_consistent_length(predicted, grade)
            right = predicted == grade
            return pair_accuracy(np.ones(right.size), right.astype(np.float64), sample_weight=sample_weight)
        left = self._left_probability(X)
        return pair_accuracy(read_labels(y, left.size), left, sample_weight=sample_weight)

    # ------------------------------------------------------------------------------------------------------- covariates
    @property
    def _shared(self) -> PairPosterior:
        """The part of the posterior that has the effects."""
        posterior: PairPosterior = getattr(self.posterior_, "consensus", self.posterior_)
        return posterior

    @property
    def _effect_names(self) -> list[str]:
        """Names of the covariates by the parameters, and of the positions of tasks."""
        positions = range(1, self.classes_.size) if self._has_tasks and self.order_effect else ()
        return [*self._columns.names, *(f"position {k}" for k in positions)]

    def _set_effects(self) -> None:
        """Set the attributes of effects after a fit."""
        mean, variance = self._shared.order_effect
        self.order_effect_ = mean, float(np.sqrt(variance))
        coefficients, covariance = self._shared.coefficients
        for name, values in (("coef_", coefficients), ("coef_std_", np.sqrt(np.diagonal(covariance)))):
            # scikit-learn's selectors take an empty `coef_` for the importance of columns, and keep none.
            self.__dict__.pop(name, None)
            if values.size:
                setattr(self, name, values)
        self.covariate_names_ = np.array(self._effect_names, dtype=str)

    def _refuse_other_covariates(self) -> None:
        """Refuse covariates that the fit did not have, or had in another order."""
        check_unchanged("covariates", self._effect_names, self.covariate_names_.tolist())

    def _with_covariates(self, rows: PairRows) -> PairRows:
        """Return rows to learn from; ids without covariates have zeros."""
        if rows.covariates is not None or not self.covariate_names_.size:
            return rows
        return rows._replace(covariates=np.zeros((rows.left.size, self.covariate_names_.size)))

    def _check_effects(self, comparisons: Any) -> None:
        """Raise DataError unless parameters, posterior and comparisons have the same covariates."""
        same = self.covariate_names_.tolist() == self._effect_names
        require(same, self, "covariate_names_", "must be the names of the covariates")
        n = self.covariate_names_.size
        require(self._shared.covariate_scale.size == n, self, "posterior_", "must have the effects of covariates")
        held = getattr(comparisons, "covariates", None)
        kept = (0 if held is None else held.shape[1]) == n or isinstance(comparisons, ComparisonCounts)
        require(kept, self, "_comparisons", f"must have {n} covariates")

    def covariate_table(self, *, at: Any = None, credibility: float = 0.9) -> Any:
        """Return the effects of covariates with their uncertainty.

        Parameters
        ----------
        at : datetime, str or number, default=None
            Time of the effects of a `GPPLClassifier` with `time`, which drift. None: that of the last comparison.
        credibility : float, default=0.9
            Posterior probability of each interval.

        Returns
        -------
        pandas.DataFrame or CovariateEffects
            One row for each covariate, and one for the order effect if it is learnt, with the columns of
            `CovariateEffects`. A data frame if pandas is installed.
        """
        check_is_fitted(self)
        names = self.covariate_names_.tolist()
        posterior = self._shared if at is None else self._posterior_at(at)
        return frame_or_record(describe_effects(posterior, names, self.likelihood_, credibility))

    def _posterior_at(self, at: Any) -> PairPosterior:
        """Return the posterior at a time, where effects move."""
        raise DataError(f"at={shorten(at)} is for effects that drift, in a GPPLClassifier that was fitted with time=")

    # ----------------------------------------------------------------------------------------------- rows not in memory
    @property
    def _needs_memory(self) -> bool:
        """Whether a fit brings rows of files or a cluster into memory first."""
        return bool(self._has_grades) or self._holds_tasks(None, None)

    def _brought(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
        """Return the arguments of `fit`; tasks and grades of files or a cluster are brought into memory."""
        source = as_source(X, y, sample_weight) if is_elsewhere(X) else None
        if source is None or not (self._needs_memory or may_show_several(self, source)):
            return X, y, sample_weight
        rows = feature_columns(source)[0]
        if not self._needs_memory and rows.n_rows > POLICY.most_stored:
            return X, y, sample_weight
        brought = bring_rows(rows, "tasks, grades, groups and teams")
        return brought if self._needs_memory or self._holds_tasks(*brought[:2]) else (X, y, sample_weight)

    @abstractmethod
    def _shard_options(self) -> ShardOptions:
        """Return how the comparisons of a shard are read and merged."""

    @abstractmethod
    def _fit_shards(self, shards: Shards, summaries: list[ShardSummary], rows: list[Any]) -> None:
        """Fit to comparisons in shards, given their summaries and handles on the comparisons."""

    def _fit_source(self, source: Source) -> None:
        """Fit to comparisons that are not in memory."""
        try:
            roles = roles_of(self, source)
        except DataError as error:
            if not may_show_several(self, source):
                raise
            raise DataError(f"{error}; {SEVERAL}") from error
        names: list[str] | int = source.width
        if source.names is not None:
            names = [getattr(roles, side) for side in self._sides] if self._columns.is_empty else source.names
        named = [] if source.names is None else replace(roles, winner=None, weight=None).columns()
        read = source.rows(named, roles.winner, roles.weight).keep(read_shard, roles, self._shard_options())
        self._fit_shards(*read)
        set_features(self, names)

    # ------------------------------------------------------------------------------------------------------------ tasks
    @property
    def _has_tasks(self) -> bool:
        """Whether the rows of the fit are tasks, and not comparisons."""
        return getattr(self, "_form", None) is not None

    @property
    def _has_side(self) -> bool:
        """Whether the left side has an effect; positions of tasks are covariates."""
        return bool(self.order_effect) and not self._has_tasks

    def _holds_tasks(self, X: Any, y: Any) -> bool:
        """Tell whether rows of X are tasks; named columns of the sides say that they are not."""
        if self.likelihood == "luce" or isinstance(self.likelihood, Luce) or self._has_grades:
            return not self._has_grades
        named = X is None or any(getattr(self, name, None) is not None for name in ("left", "right"))
        return not named and are_tasks(X, y, len(self._sides))

    def _read_tasks(self, X: Any, *, reset: bool = False, weighted: bool = False) -> Tasks:
        """Return tasks; after a fit they may show fewer items than in the fit."""
        named = self._columns
        tasks = named.read_tasks(X, weighted=weighted)
        K = tasks.present.shape[1]
        if not reset:
            self._refuse_other_covariates()
            if self.classes_.size < K:
                raise DataError(
                    f"X shows up to {K} items in a task, but {type(self).__name__} is expecting {self.n_features_in_} "
                    f"features (columns) as input: at most {self.classes_.size} items"
                )
            if self.classes_.size > K and all(isinstance(name, str) for name in named.roles.columns()):
                return tasks  # of fewer columns, of which none is named by its position
        validate_names(self, X, reset=reset, skip_check_array=True)
        return tasks

    def _covariates_of_tasks(self, tasks: Tasks) -> Array | None:
        """Return the covariates of the alternatives, indicators of positions at the end, shape (n, K, q)."""
        return add_positions(tasks, self.classes_.size) if self.order_effect else tasks.covariates

    @abstractmethod
    def _task_moments(
        self, tasks: Tasks, task: IntArray, pairs: tuple[Items, IntArray, IntArray], covariates: Array | None
    ) -> tuple[Array, Array]:
        """Return posterior means and variances of pairs, each of one task."""

    def _shares(self, tasks: Tasks) -> Array:
        """Return the probability that each position is chosen, 0 where nothing was shown, shape (n, K)."""
        return predict_shares(tasks, self._items, self._covariates_of_tasks(tasks), partial(self._task_moments, tasks))

    def _chosen_places(self, X: Any, y: Any) -> IntArray:
        """Return the position of what was chosen, or is the best, in each task, shape (n,)."""
        place = read_answers(y, self._read_tasks(X)).first
        if (place < 0).any():
            row = int(np.argmax(place < 0))
            raise DataError(f"y: task {row} has no best item, which scores are about; leave such tasks out of scores")
        return place

    def _refuse_tasks(self, method: str, instead: str) -> None:
        """Refuse a method of comparisons where the model is of tasks."""
        check_is_fitted(self)
        if self._has_tasks:
            raise DataError(f"{method} is for comparisons of two items; the model was fitted to tasks: use {instead}")
