"""A space of settings for each estimator: plain lists and distributions, which scikit-learn's searches take as well."""

from __future__ import annotations

import difflib
import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

import numpy as np
from scipy import stats
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state

from skpref.data.ids import shorten
from skpref.data.labels import name_ties
from skpref.exceptions import DataError
from skpref.search.loop import Settings
from skpref.search.policy import POLICY
from skpref.settings import Fixed

_NOWHERE = object()
_PRIMITIVES = (type(None), bool, int, float, str)  # types that optuna stores unchanged
_KERNELS = None, "product-matern-1/2", "squared-exponential", "additive-matern-3/2"
_AUTO = ["auto", "logit"]  # likelihoods where nothing is known of the labels
_KINDS = "a list, a distribution of scipy.stats (anything with `rvs`), a LogInteger, or a distribution of optuna"


@dataclass(frozen=True)
class LogInteger:
    """Whole numbers whose logarithm is uniform.

    Parameters
    ----------
    low, high : int
        Smallest and largest number, at least 1.

    Raises
    ------
    DataError
        If they are not whole, less than 1, or in the wrong order.

    Examples
    --------
    >>> from skpref.search import LogInteger
    >>> 5 <= LogInteger(5, 200).rvs(random_state=0) <= 200
    True
    """

    low: int
    high: int

    def __post_init__(self) -> None:
        whole = all(isinstance(end, Integral) and not isinstance(end, bool) for end in (self.low, self.high))
        if not whole or not 1 <= self.low <= self.high:
            raise DataError(f"LogInteger wants whole numbers, 1 <= low <= high; got {self.low!r} and {self.high!r}.")

    def rvs(self, size: Any = None, random_state: Any = None) -> Any:
        """Draw, as scikit-learn's `RandomizedSearchCV` asks for it.

        Parameters
        ----------
        size : int, default=None
            Number of draws; None: a single number.
        random_state : int, RandomState or None, default=None
            Source of the draws.

        Returns
        -------
        int or ndarray of int
            Numbers from low to high.
        """
        u = check_random_state(random_state).uniform(np.log(self.low - 0.5), np.log(self.high + 0.5), size)
        drawn = np.clip(np.rint(np.exp(u)), self.low, self.high).astype(np.int64)
        return int(drawn) if size is None else drawn


def default_space(estimator: Any, y: Any = None) -> dict[str, Any]:
    """Return the hyperparameters of an estimator that are worth tuning, with lists or distributions of their values.

    Length-scales, noise and thresholds of the Gaussian-process models are not included: each fit learns them by
    gradients. The space has choices of structure and of priors.

    Parameters
    ----------
    estimator : estimator
        An estimator of skpref, or a Pipeline with one: parameters then have the name of the step in front
        (``step__parameter``).
    y : array-like, default=None
        Targets. If they are wins and ties, all likelihoods of the space give ties a probability.

    Returns
    -------
    dict of str
        For `OptunaSearch`, or for scikit-learn's `RandomizedSearchCV`.

    Raises
    ------
    DataError
        If there is no estimator of skpref.

    Examples
    --------
    >>> from skpref import GibbsM3F
    >>> from skpref.search import default_space
    >>> default_space(GibbsM3F())
    {'C': loguniform(0.01, 1.0),
     'n_factors': LogInteger(low=5, high=200),
     'margin': loguniform(3.0, 30.0),
     'threshold_scale': loguniform(0.3, 5.0),
     'user_thresholds': [True, False]}
    """
    space = _space_of(estimator)
    if not space:
        msg = f"there is no default space for {type(estimator).__name__}, only for skpref's estimators and Pipelines "
        raise DataError(f"{msg}of them; give param_distributions as a dict of {_KINDS}.")
    if y is not None and _AUTO in space.values() and name_ties(y):
        space = {name: ["auto", "logit-ties"] if values == _AUTO else values for name, values in space.items()}
    return _Space(space)


class _Space(dict[str, Any]):
    """A space that prints as it would be typed."""

    def __repr__(self) -> str:
        lines = [f" {name!r}: {_shown(values)},\n" for name, values in self.items()]
        return "{" + "".join(lines).strip().removesuffix(",") + "}"


def _shown(values: Any) -> str:
    """Return a list or distribution as it would be typed; scipy prints the address of a distribution."""
    if not hasattr(values, "dist"):
        return repr(values)
    arguments = [*map(repr, values.args), *(f"{name}={value!r}" for name, value in values.kwds.items())]
    return f"{values.dist.name}({', '.join(arguments)})"


def _space_of(estimator: Any) -> dict[str, Any]:
    if isinstance(estimator, Pipeline):
        spaces = {name: _space_of(step) for name, step in estimator.steps}
        return {f"{name}__{key}": value for name, space in spaces.items() for key, value in space.items()}
    for cls in type(estimator).__mro__:
        if cls.__name__ in _SPACES and cls.__module__.startswith("skpref."):
            return _SPACES[cls.__name__](estimator)
    return {}


def _pairwise(estimator: Any) -> dict[str, Any]:
    # Tasks, margins and the linearisation have one likelihood. Rankings may be read as pairs, but not the reverse.
    has_one = str(estimator.likelihood) == "luce" or getattr(estimator, "_has_margins", False)
    has_one |= estimator.inference == "linearised"
    likelihoods = [*_AUTO] if str(estimator.likelihood) == "auto" else ["probit", "logit"]
    space: dict[str, Any] = {} if has_one else {"likelihood": likelihoods}
    if space and getattr(estimator, "_ranks_groups", False):
        space["likelihood"].append("plackett-luce")
    # Priors are those of the dynamics, and items have effects.
    moves = getattr(estimator, "time", None) is not None or getattr(estimator, "_stands_still", False)
    if moves and not space:
        return {"order_effect": [False, True]} if estimator.time is None else {"dynamics": ["auto", "constant"]}
    if not (moves or isinstance(estimator.scale_prior, Fixed)):
        space |= {"scale_prior__shape": stats.loguniform(0.5, 20.0), "scale_prior__rate": stats.loguniform(0.1, 50.0)}
    items = getattr(estimator, "items", None)
    if items is None:
        return space
    if not moves:
        space["item_effects"] = [False, True]
    if items.ids.size > POLICY.few_items:
        space["inducing"] = LogInteger(50, min(500, items.ids.size))
    return space


def _answers(estimator: Any) -> dict[str, Any]:
    """Return the space of what an answer depends on besides utilities: sides, covariates, ties."""
    space: dict[str, Any] = {} if str(estimator.likelihood) == "luce" else {"order_effect": [False, True]}
    if estimator.covariates is not None and not (estimator.left is None and estimator.right is None):
        space["covariates"] = [estimator.covariates, None]
    if str(estimator.likelihood).endswith("-ties"):
        space["likelihood"] = ["probit-ties", "logit-ties"]
    if estimator.likelihood == "davidson":
        space["likelihood"] = ["logit-ties", "davidson"]
    if estimator._has_grades and not estimator._has_margins:  # noqa: SLF001 - of this package
        space["likelihood"] = ["probit-graded", "logit-graded"]
    return space


def _items(estimator: Any) -> dict[str, Any]:
    space, items = _pairwise(estimator) | _answers(estimator), estimator.items
    if items is not None and estimator.kernel is None:
        space["kernel"] = list(_KERNELS)
    if items is not None and items.features.shape[1] <= POLICY.many_features:
        space["optimizer"] = ["auto", "l-bfgs-b"]
    elif items is not None and estimator.kernel is None:
        space["optimizer"] = ["auto"]
    return space


def _rows(estimator: Any) -> dict[str, Any]:
    space = _pairwise(estimator) | {"inducing": LogInteger(50, 500)}
    return space if estimator.kernel is None else space | {"optimizer": ["auto", "l-bfgs-b"]}


def _crowd(estimator: Any) -> dict[str, Any]:
    space = _pairwise(estimator) | _answers(estimator) | {"n_factors": stats.randint(0, 21)}
    if estimator.factor_prior is None or estimator.factor_prior.item_scale is not None:
        space["factor_prior__item_scale__rate"] = stats.loguniform(0.02, 20.0)
    items, has_tasks = estimator.items, str(estimator.likelihood) == "luce"
    if has_tasks and estimator.kernel is None and items is not None and items.ids.size <= POLICY.most_smooth:
        space["kernel"] = [None, "product-matern-3/2"]  # part-worths, or a smooth function
    return space


def _m3f(_: Any) -> dict[str, Any]:
    # Without `sigma`: with C, only its ratio to the margin matters.
    return {
        "C": stats.loguniform(0.01, 1.0),
        "n_factors": LogInteger(5, 200),
        "margin": stats.loguniform(3.0, 30.0),
        "threshold_scale": stats.loguniform(0.3, 5.0),
        "user_thresholds": [True, False],
    }


def _ipm3f(estimator: Any) -> dict[str, Any]:
    space = _m3f(estimator) | {"alpha": stats.loguniform(0.5, 20.0)}
    del space["n_factors"]
    return space


def _machine(_: Any) -> dict[str, Any]:
    return {"n_factors": stats.randint(0, 33), "learn_priors": [True, False]}


def _sparse(estimator: Any, likelihoods: list[str]) -> dict[str, Any]:
    # "auto" takes as many points as are cheap: held-out rows would only ask for more.
    points = {"inducing": LogInteger(50, 500)} if isinstance(estimator.inducing, Integral) else {}
    return {"likelihood": likelihoods, **points}


# An estimator is a line here. By name: a search of one family need not import the others.
_SPACES: dict[str, Callable[[Any], dict[str, Any]]] = {
    "GPPLClassifier": _items,
    "GPPLRegressor": _rows,
    "CrowdGPPL": _crowd,
    "GPOrdinalRegressor": lambda _: {"kernel": [None, "ard", "linear-ard", "auto"]},
    "GibbsM3F": _m3f,
    "GibbsIPM3F": _ipm3f,
    "VariationalFM": _machine,
    "VariationalFMClassifier": lambda estimator: _machine(estimator) | {"link": ["probit", "logit"]},
    "VariationalFMOrdinal": _machine,
    "SVGPRegressor": lambda estimator: _sparse(estimator, ["gaussian", "student-t"]),
    "SVGPClassifier": lambda estimator: _sparse(estimator, ["probit", "logit"]),
    "BayesianGPLVM": lambda _: {"n_components": [None, 1, 2, 3, 5], "inducing": LogInteger(20, 100)},
}


@dataclass(frozen=True, eq=False)
class Distributions:
    """A space of settings that are drawn independently of each other."""

    distributions: Mapping[str, Any]  # by name: a list, a distribution of scipy.stats or of optuna, a LogInteger
    start: Mapping[str, Any] = field(default_factory=dict)  # settings to try first, such as an estimator's own

    def points(self, most: int) -> list[Settings]:
        """Return all settings of a space, the default first; none if there are more than `most`."""
        lists = {name: _values(distribution) for name, distribution in self.distributions.items()}
        plain = all(values and all(isinstance(v, _PRIMITIVES) for v in values) for values in lists.values())
        if not plain or math.prod(map(len, lists.values())) > most:
            return []
        points = [dict(zip(lists, values, strict=True)) for values in itertools.product(*lists.values())]
        default = self.default()
        return sorted(points, key=lambda settings: settings != default)

    def default(self) -> Settings:
        """Return the settings that are tried first: the values of `start`, clipped to the ranges.

        What the space does not hold otherwise is left to the sampler.
        """
        near = {name: _nearest(own, self.start[name]) for name, own in self.distributions.items() if name in self.start}
        return {name: value for name, value in near.items() if value is not _NOWHERE}

    def encoded(self, settings: Settings) -> Settings:
        """Return settings as a trial has them: values that no storage can hold as text, or by their places."""
        return {name: _encoded(_values(self.distributions[name]), value) for name, value in settings.items()}

    def suggest(self, trial: Any) -> Settings:
        """Draw settings."""
        return {name: _suggest(trial, name, distribution) for name, distribution in self.distributions.items()}


def check_distributions(distributions: Any) -> None:
    """Raise an error, before any fit, unless this is a space."""
    if not hasattr(distributions, "items") or not distributions:
        msg = f"param_distributions must be 'default' or a dict that is not empty; got {distributions!r}"
        raise DataError(f"{msg}. Each parameter has {_KINDS}.")
    for name, distribution in distributions.items():
        if not (_values(distribution) or hasattr(distribution, "rvs") or _is_of_optuna(distribution)):
            raise DataError(f"param_distributions[{name!r}] must be {_KINDS}; got {distribution!r}.")
        if isinstance(distribution, type | stats.rv_continuous | stats.rv_discrete):
            msg = f"param_distributions[{name!r}] has no parameters yet: call it, as in scipy.stats.loguniform(0.01, 1)"
            raise DataError(f"{msg}; got {distribution!r}.")
        kind, low, high = limits(distribution) or ("", 0, 0)
        if not -math.inf < low <= high < math.inf or (kind.startswith("log") and low <= 0):
            raise DataError(f"param_distributions[{name!r}] is not a range: it goes from {low} to {high}.")


def check_names(distributions: Mapping[str, Any], estimator: Any) -> None:
    """Refuse parameters that the estimator does not have, before any fit."""
    names = estimator.get_params(deep=True)
    for name in distributions:
        steps = name.split("__")
        around = {"__".join(steps[:k]) for k in range(1, len(steps))}
        if name in names or around & set(distributions):  # what replaces a step may have other parameters
            continue
        try:
            clone(estimator).set_params(**{name: None})  # some take parameters that they do not list
        except (ValueError, TypeError, AttributeError) as error:
            near = difflib.get_close_matches(name, names, n=1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            what = f"a {type(estimator).__name__} has no parameter {name!r}; {hint}it has {', '.join(sorted(names))}"
            raise DataError(f"param_distributions: {what}.") from error


def _values(distribution: Any) -> list[Any]:
    """The values of a list, tuple or array; nothing of anything else."""
    return list(distribution) if isinstance(distribution, list | tuple | np.ndarray) else []


def _is_of_optuna(distribution: Any) -> bool:
    return type(distribution).__module__.startswith("optuna.")


def limits(distribution: Any) -> tuple[str, Any, Any] | None:
    """Return scale and both ends of a range that optuna knows."""
    if isinstance(distribution, LogInteger):
        return "log int", distribution.low, distribution.high
    kind = {"loguniform": "log float", "reciprocal": "log float", "uniform": "float", "randint": "int"}
    name = getattr(getattr(distribution, "dist", None), "name", None)
    if name not in kind:
        return None
    low, high = distribution.support()
    whole = int if name == "randint" and np.isfinite([low, high]).all() else float  # NaN: there is no such range
    return kind[name], whole(low), whole(high)


def _suggest(trial: Any, name: str, distribution: Any) -> Any:
    if values := _values(distribution):
        choices = _choices(values)
        return values[choices.index(trial.suggest_categorical(name, choices))]
    if _is_of_optuna(distribution):
        return trial._suggest(name, distribution)  # noqa: SLF001 - what all of its public methods end in
    scale = limits(distribution)
    if scale is not None:
        kind, low, high = scale
        draw = trial.suggest_int if kind.endswith("int") else trial.suggest_float
        return draw(name, low, high, log=kind.startswith("log"))
    if hasattr(distribution, "ppf"):
        # Probability of each tail in which no quantile is computed.
        value = distribution.ppf(trial.suggest_float(name, 1e-12, 1.0 - 1e-12))
        return value.item() if isinstance(value, np.generic) else value
    return distribution.rvs(random_state=trial.suggest_int(name, 0, (2**31 - 1)))


def _nearest(distribution: Any, value: Any) -> Any:
    """Return the value of a range or list that is nearest to a given one, if it can be tried first."""
    values = _values(distribution)
    if values:
        return value if any(_same(value, listed) for listed in values) else _NOWHERE
    scale = limits(distribution)
    if scale is not None and isinstance(value, int | float) and not isinstance(value, bool):
        return type(scale[1])(np.clip(value, scale[1], scale[2]))
    if _is_of_optuna(distribution) and isinstance(value, _PRIMITIVES):
        return value if distribution._contains(distribution.to_internal_repr(value)) else _NOWHERE  # noqa: SLF001 - nothing public says it
    return _NOWHERE


def _same(value: Any, other: Any) -> bool:
    return value is other or (isinstance(other, _PRIMITIVES) and type(value) is type(other) and value == other)


def _encoded(values: list[Any], value: Any) -> Any:
    places = (place for place, listed in enumerate(values) if _same(value, listed))
    return next((_choices(values)[place] for place in places), value)


def _choices(values: list[Any]) -> list[Any]:
    """Return values as a storage holds them: as text where one is an object, or by their places."""
    if all(isinstance(value, _PRIMITIVES) for value in values):
        return values
    texts = [shorten(value) for value in values]
    same_everywhere = len({*texts}) == len(texts) and " at 0x" not in "".join(texts)
    return texts if same_everywhere else list(range(len(values)))
