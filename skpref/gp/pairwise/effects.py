"""What columns of X add to utilities: effects of covariates, groups and context, by the parameters that name them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from scipy.special import ndtr, ndtri
from sklearn.utils.validation import check_is_fitted, validate_data

from skpref._checks import check_types, require
from skpref._estimator import check_credibility
from skpref._text import nearest
from skpref._validation import column_names
from skpref._warn import warn
from skpref.data.comparisons import from_labels
from skpref.data.ids import shorten, single_id
from skpref.data.records import ColumnRecord, frame_or_record
from skpref.data.shards import ComparisonCounts
from skpref.data.weights import read_weights
from skpref.exceptions import DataError, UnknownIdError
from skpref.gp.capabilities import check_unchanged
from skpref.gp.entities import Entities
from skpref.gp.pairwise.columns import PairColumns, has_columns, read_id_columns
from skpref.gp.pairwise.fit import root_mean_square
from skpref.inference.chain_groups import LEFT_OUT
from skpref.likelihoods.ties import left_without_ties

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    import numpy.typing as npt

    from skpref._typing import Array, IntArray
    from skpref.data import Comparisons, IdColumn
    from skpref.data.comparisons import OnSelf
    from skpref.data.tasks import Tasks
    from skpref.gp.pairwise.columns import PairRows
    from skpref.gp.pairwise.posterior import PairPosterior
    from skpref.likelihoods import Likelihood

__all__ = ["CovariateEffects"]

_FAR = 1e100  # size of a number of context, in standard deviations, whose square is finite


@dataclass(frozen=True, eq=False)
class CovariateEffects(ColumnRecord):
    """Effects of the covariates of comparisons, one entry each; the order effect is the last one.

    Parameters
    ----------
    name : ndarray of shape (n,)
        Names; "left side" is the order effect.
    effect : ndarray of shape (n,)
        Posterior mean of the coefficient: units of the answer noise for one unit of the covariate.
    std : ndarray of shape (n,)
        Posterior standard deviation.
    effect_low : ndarray of shape (n,)
        Lower end of the credible interval.
    effect_high : ndarray of shape (n,)
        Upper end of the credible interval.
    odds_ratio : ndarray of shape (n,)
        Factor on the odds of the left side for one unit of the covariate, between items of equal utility: exp(effect)
        with ``likelihood="logit"``. With a probit likelihood, or with ties as answers of their own, it depends on the
        starting value; here the covariate changes from 0 to 1. Where there are ties, these are the odds of left
        against right.
    probability_positive : ndarray of shape (n,)
        Posterior probability that the coefficient is positive.
    typical : ndarray of shape (n,)
        Root mean square of the covariate in the comparisons of `fit`; 1 if it is 0 in all of them.

    Examples
    --------
    >>> from skpref import GPPLClassifier
    >>> X = [["x", "y", 1], ["y", "x", 1], ["x", "y", -1], ["y", "z", 0], ["z", "x", 1]]
    >>> model = GPPLClassifier(covariates=[2]).fit(X, [1, 1, 0, 1, 1])
    >>> model.covariate_table()["effect"].gt(0).tolist()
    [True]
    """

    name: npt.NDArray[Any]
    effect: Array
    std: Array
    effect_low: Array
    effect_high: Array
    odds_ratio: Array
    probability_positive: Array
    typical: Array


def describe_effects(
    posterior: PairPosterior, names: list[str], likelihood: Likelihood, credibility: float
) -> CovariateEffects:
    """Return the table of the effects of covariates, and of the order where it is learnt."""
    check_credibility(credibility)
    mean, covariance = posterior.coefficients
    std, typical = np.sqrt(np.diagonal(covariance)), posterior.covariate_scale
    if posterior.has_order:
        order_mean, order_variance = posterior.order_effect
        mean, std = np.append(mean, order_mean), np.append(std, np.sqrt(order_variance))
        names, typical = [*names, "left side"], np.append(typical, 1.0)
    half_width = ndtri(0.5 + 0.5 * credibility) * std
    left, right = (left_without_ties(likelihood, z) for z in (mean, -mean))
    return CovariateEffects(
        np.array(names, dtype=object),
        mean,
        std,
        mean - half_width,
        mean + half_width,
        left / np.maximum(right, np.finfo(float).tiny),
        ndtr(mean / std),
        typical,
    )


class NamesColumns:
    """An estimator of comparisons whose parameters name columns of X: of ids, covariates, groups and context."""

    posterior_: Any
    likelihood_: Likelihood
    covariate_names_: npt.NDArray[Any]
    coef_: Array
    coef_std_: Array
    weight: Any
    n_features_in_: int
    _sides: ClassVar[tuple[str, ...]] = ("left", "right")  # the columns of ids, in the order of X without names
    groups: Any
    on_self: OnSelf
    group_ids_: list[IdColumn]
    group_scales_: Any
    _groups: dict[Any, Entities]  # by the column of each kind
    _numbers: dict[Any, tuple[float, float]]  # mean and standard deviation, by the column of each number of context

    @property
    def _columns(self) -> PairColumns | None:
        """The columns of X that parameters name; None where X has columns of ids only."""
        ids = {name: getattr(self, name) for name in self._sides}
        more = (getattr(self, name, None) for name in ("groups", "time", "context"))
        return PairColumns.from_parameters(ids, getattr(self, "covariates", None), self.weight, *more)

    def _read(self, X: Any, *, reset: bool, weighted: bool = True) -> PairRows:
        """Return the columns of X; store or check their names.

        After a fit of more columns, or of named ones, rows with as many as there are ids have covariates of 0.
        """
        columns, width = self._columns, len(self._sides)
        has_more = columns is not None and (columns.groups or columns.widths or columns.roles.time is not None)
        if not reset and columns is not None and not has_more and has_columns(X, width):
            nameless = columns.are_named and column_names(X) is None
            if nameless or self.n_features_in_ > width:
                return columns.read_ids(X, self._sides)
        rows = read_id_columns(X, self._sides) if columns is None else columns.read(X, weighted=weighted)
        if reset or columns is None or not columns.are_named:
            validate_data(self, X, reset=reset, skip_check_array=True)
        return rows

    def _check_width(self) -> None:
        """Raise DataError unless X may have had the number of columns of the fit."""
        width, n = len(self._sides), self.n_features_in_
        fits = n == width if self._columns is None else n >= width
        require(fits, self, "n_features_in_", f"must be {width}, or more where columns are named")

    # ---------------------------------------------------------------------------------------------------- covariates
    @property
    def _shared(self) -> PairPosterior:
        """The part of the posterior that has the effects."""
        posterior: PairPosterior = getattr(self.posterior_, "consensus", self.posterior_)
        return posterior

    @property
    def _effect_names(self) -> list[str]:
        """Names of the covariates by the parameters."""
        return [] if self._columns is None else self._columns.names

    def _set_effects(self) -> None:
        """Set the attributes of effects after a fit."""
        mean, variance = self._shared.order_effect
        self.order_effect_ = mean, float(np.sqrt(variance))
        coefficients, covariance = self._shared.coefficients
        for name, values in (("coef_", coefficients), ("coef_std_", np.sqrt(np.diagonal(covariance)))):
            # scikit-learn's selectors take an empty `coef_` for the importance of columns, and keep none.
            vars(self).pop(name, None)
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

    # -------------------------------------------------------------------------------------------- groups and context
    def _set_groups(self, columns: Sequence[Any], *, known: bool = False) -> None:
        """Store the groups of rows, and keep the known ones."""
        if known:
            self._refuse_other_groups()
            pairs = zip(self._groups.values(), columns, strict=True)
            kinds = [kind.with_new(None, ids) for kind, ids in pairs]
        else:
            kinds = [Entities.read(None, ids, estimator=self, kind="group") for ids in columns]
        self._name_groups(kinds)

    def _name_groups(self, kinds: Sequence[Entities]) -> None:
        """Store the groups of each kind."""
        self._groups = dict(zip(self._group_columns, kinds, strict=True)) if kinds else {}
        self.group_ids_ = [kind.vocabulary.ids.copy() for kind in kinds]

    def _set_context(self, rows: PairRows | Tasks, sample_weight: Any) -> None:
        """Store the columns of numbers of context, and the means and standard deviations in rows."""
        self._numbers = {}
        if self._columns is None or rows.context is None:
            return
        weight = read_weights(sample_weight if rows.weight is None else rows.weight, len(rows.context))
        used = rows.context[weight > 0.0] if weight.any() else rows.context  # a fit without weights is refused
        weight = weight[weight > 0.0] if weight.any() else np.ones(len(rows.context))
        mean = np.average(used, axis=0, weights=weight)
        deviation = root_mean_square(used - mean, weight)
        for column, is_constant in zip(self._columns.roles.context, (used == used[0]).all(axis=0), strict=True):
            if is_constant:
                warn(f"context: column {column!r} is the same in every row, so that nothing is learnt of it")
        pairs = zip(mean.tolist(), deviation.tolist(), strict=True)
        self._numbers = dict(zip(self._columns.roles.context, pairs, strict=True))

    def _context_of(self, rows: PairRows | Tasks) -> Array | None:
        """Return the numbers of context in units of standard deviations from the means, shape (n, n_numbers)."""
        self._refuse_other_groups()
        return None if rows.context is None else self._standardised(rows.context)

    def _standardised(self, numbers: Array) -> Array:
        """Return numbers of context (n, n_numbers) in units of standard deviations from the means."""
        mean, deviation = np.array([*self._numbers.values()]).reshape(-1, 2).T
        with np.errstate(over="ignore"):
            found: Array = (numbers - mean) / deviation
        if (far := ~(np.abs(found) <= _FAR)).any():
            column = shorten([*self._numbers][int(np.argmax(far.any(axis=0)))])
            what = f"a number of column {column} is {_FAR:g} standard deviations or more from the mean"
            raise DataError(f"context: {what} of the fit; use the unit of the fit")
        return found

    def _levels_in(self, rows: PairRows | Tasks) -> Array | None:
        """Return groups, -1 where one is unknown, and numbers of context, for predictions; None without any."""
        columns = [self._numbers_of_groups(rows.groups, "mark"), self._context_of(rows)]
        held = [column for column in columns if column is not None]
        return np.hstack(held).astype(np.float64) if held else None

    @property
    def _group_columns(self) -> list[Any]:
        """The columns that the parameter names."""
        return [] if self._columns is None else list(self._columns.groups)

    def _numbers_of_groups(
        self, columns: Sequence[Any], unknown: Literal["raise", "mark"] = "raise"
    ) -> IntArray | None:
        """Return the groups of rows, shape (n, n_kinds), -1 where one is unknown; None without groups."""
        self._refuse_other_groups()
        if not len(columns):
            return None
        pairs = zip(self._groups.values(), columns, strict=True)
        return np.column_stack([kind.vocabulary.encode(ids, unknown=unknown, kind="group") for kind, ids in pairs])

    def _compare(
        self, items: Entities, left: IntArray, right: IntArray, rows: PairRows, y: Any, weight: Any, **users: Any
    ) -> Comparisons:
        """Return the comparisons of rows, given the numbers of their items and, of a crowd, of their users."""
        return from_labels(
            left,
            right,
            y,
            items.vocabulary.size,
            sample_weight=weight if rows.weight is None else rows.weight,
            on_self=self.on_self,
            names=items.vocabulary.ids,
            covariates=rows.covariates,
            group=self._numbers_of_groups(rows.groups),
            context=self._context_of(rows),
            time=rows.time,
            **users,
        )

    def _check_group_ids(self, sizes: Sequence[int]) -> None:
        """Raise DataError unless ids are of groups as numerous as a posterior has, or new ones beside these."""
        check_types(self, _groups=dict, group_ids_=list)
        kinds = self._groups.values()
        require(all(isinstance(kind, Entities) for kind in kinds), self, "_groups", "must be ids of groups")
        same = len(kinds) == len(self.group_ids_) == len(sizes) == len(self.group_scales_)
        require(same, self, "_groups", f"must be of {len(sizes)} kinds")
        for kind, public, size in zip(kinds, self.group_ids_, sizes, strict=True):
            require(np.array_equal(kind.vocabulary.ids, public), self, "group_ids_", "must be the ids of the groups")
            require(size <= public.size, self, "_groups", f"must be at least {size}")

    def _named_levels(self, groups: Mapping[Any, Hashable] | None) -> list[int]:
        """Return the number of the group of each kind that a caller named."""
        columns = list(self.groups or ())
        if groups:
            self._refuse_other_groups()
        if groups is not None and not isinstance(groups, Mapping):
            raise DataError(f'groups must be a dict such as {{"category": "coding"}}; got {shorten(groups)}')
        for column in groups or ():
            if column not in columns:
                wanted = f"the columns of groups are {columns}" if columns else "the model was fitted without groups"
                raise DataError(f"groups names the column {shorten(column)}, but {wanted}")
        levels = [LEFT_OUT] * len(self._groups)
        for kind, column in enumerate(columns):
            if groups is not None and column in groups:
                ids, vocabulary = single_id(groups[column], "group"), [*self._groups.values()][kind].vocabulary
                level = vocabulary.encode(ids, "groups", unknown="mark", noun="row", kind="group")
                if level[0] < 0:
                    self._refuse_unknown_group(kind, ids[0], "without the column it is the consensus")
                levels[kind] = int(level[0])
        return levels

    def _named_numbers(self, context: Mapping[Any, float] | None) -> list[float]:
        """Return the numbers of context that a caller gave in units of standard deviations; 0, the mean, of others."""
        if context is not None and not isinstance(context, Mapping):
            raise DataError(f'context must be a dict such as {{"length": 300}}; got {shorten(context)}')
        self._refuse_other_groups()
        for column, value in (context or {}).items():
            if column not in self._numbers:
                wanted = f"the columns of context are {[*self._numbers]}"
                wanted = wanted if self._numbers else "the model was fitted without context"
                raise DataError(f"context names the column {shorten(column)}, but {wanted}")
            if not isinstance(value, Real) or not np.isfinite(value):
                raise DataError(f"context: the number of {shorten(column)} must be finite; got {shorten(value)}")
        row = [float((context or {}).get(column, mean)) for column, (mean, _) in self._numbers.items()]
        return list(map(float, self._standardised(np.array([row]))[0]))

    def _refuse_other_groups(self) -> None:
        """Refuse other columns of groups and of context than the fit had."""
        columns = () if self._columns is None else self._columns.roles.context
        check_unchanged("context", [*columns], [*getattr(self, "_numbers", ())])
        check_unchanged("groups", self._group_columns, [*self._groups])

    def _refuse_unknown_group(self, kind: int, group: Any, advice: str) -> None:
        """Raise the error of a group that the fit has not seen."""
        seen = self.group_ids_[kind].tolist()
        raise UnknownIdError(
            f"unknown group {shorten(group)} of groups={list(self.groups)[kind]!r}: fit has seen {shorten(seen)}; "
            f"{advice}{nearest(group, seen)}"
        )

    def _select_groups(self, comparisons: Comparisons, groups: Mapping[Any, Hashable] | None) -> Comparisons:
        """Return the comparisons in the groups that a caller named."""
        for kind, level in enumerate(self._named_levels(groups)):
            if level != LEFT_OUT and comparisons.group is not None:
                comparisons = comparisons.take(comparisons.group[:, kind] == level)
        return comparisons
