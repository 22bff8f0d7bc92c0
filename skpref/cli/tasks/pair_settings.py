"""Settings of comparisons: what is searched, and the estimators that settings stand for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy import stats
from sklearn.base import BaseEstimator

from skpref import kernels
from skpref.gp.crowd import CrowdGPPL
from skpref.gp.pairwise import GPPLClassifier
from skpref.search import LogInteger

if TYPE_CHECKING:
    from sklearn.gaussian_process.kernels import Kernel

    from skpref._typing import Array
    from skpref.data import Table
    from skpref.search.loop import Settings

_KERNELS = {
    "product-matern-1/2": (kernels.ProductMatern, 0.5),
    "product-matern-3/2": (kernels.ProductMatern, 1.5),
    "product-matern-5/2": (kernels.ProductMatern, 2.5),
    "squared-exponential": (kernels.ProductMatern, np.inf),
    "additive-matern-3/2": (kernels.AdditiveMatern, 1.5),
    "additive-matern-5/2": (kernels.AdditiveMatern, 2.5),
}
_DEFAULT_KERNEL = "product-matern-3/2"
_FEW_ITEMS = 100  # up to here all items are inducing points, and their number is not searched
_BOUNDS = (1e-2, 1e3)  # of a length-scale that ARD learns, relative to where it starts
_MOST_FACTORS = 20
_PRIORS = {"shape_s0": stats.loguniform(0.5, 20.0), "rate_s0": stats.loguniform(0.2, 50.0)}
# Every trial has both, used or not, since the sampler compares trials by what all of them have.
_LENGTH_SCALE = {"length_scale": ["auto", "factor"], "length_scale_factor": stats.loguniform(0.2, 30.0)}


class PairEstimator(BaseEstimator):
    """An estimator of comparisons whose parameters are settings, such as kernel="additive-matern-3/2"."""

    def __init__(self, kind: Pairs | Crowd, **settings: Any) -> None:
        self.kind = kind
        self.settings = settings

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the settings by name."""
        del deep
        return {"kind": self.kind, **self.settings}

    def set_params(self, **params: Any) -> Self:
        """Change settings."""
        self.settings = self.settings | params
        return self

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the estimator that the settings stand for."""
        self.model_ = self.kind.build(self.settings).fit(X, y, sample_weight=sample_weight)
        return self

    def predict_proba(self, X: Any) -> Array:
        """Return the probabilities of 0 and 1, shape (n, 2)."""
        return np.asarray(self.model_.predict_proba(X))

    @property
    def lower_bounds_(self) -> list[float]:
        """The bound after each iteration."""
        return list(self.model_.lower_bounds_)


def shares_of_left(model: Any, X: Any) -> Array:
    """Return the probability that left is preferred plus half of that of a tie, shape (n,), by any likelihood."""
    if getattr(model, "model_", model).likelihood_.ties_are_answers:
        left, tie, _ = answers_of(model, X).T
        return np.asarray(left + 0.5 * tie)
    return np.asarray(model.predict_proba(X)[:, 1])


def answers_of(model: Any, X: Any) -> Array:
    """Return the probabilities of left, tie and right, shape (n, 3), by a likelihood with ties."""
    return np.asarray(getattr(model, "model_", model).predict_proba(X, ties=True))


@dataclass(frozen=True, eq=False)
class Pairs:
    """One view for all: `GPPLClassifier`."""

    items: Table | None
    n_items: int
    max_inducing: int
    seed: int = 0
    has_ties: bool = False  # y = 0.5 occurs: then likelihoods with ties are among the choices
    has_sides: bool = False  # left and right are where the items were shown: then the left side may have an advantage
    covariates: tuple[str, ...] = ()  # names of the columns of X after those of the items

    def space(self) -> dict[str, Any]:
        """Return what to choose from."""
        space: dict[str, Any] = {"likelihood": _likelihoods(ties=self.has_ties), **_PRIORS}
        if self.has_sides:
            space["order_effect"] = [False, True]
        if self.covariates:
            space["covariates"] = [True, False]
        if self.items is None:
            return space
        space |= {"kernel": list(_KERNELS), **_LENGTH_SCALE, "ard": [False, True], "item_effects": [False, True]}
        return space | _inducing("n_inducing", self.max_inducing, self.n_items)

    def defaults(self) -> Settings:
        """Return the settings of an estimator that is not tuned."""
        params = GPPLClassifier().get_params(deep=False)
        names = [name for name in ("likelihood", "shape_s0", "rate_s0", "order_effect") if name in self.space()]
        settings: Settings = {name: params[name] for name in names}
        if self.covariates:
            settings["covariates"] = True
        if self.items is None:
            return settings
        settings |= {"kernel": _DEFAULT_KERNEL, "length_scale": "auto", "ard": params["optimizer"] is not None}
        settings["item_effects"] = params["item_effects"]
        number = _inducing("n_inducing", self.max_inducing, self.n_items)
        return settings | {name: min(params[name], numbers.high) for name, numbers in number.items()}

    def resolve(self, params: Settings) -> Settings:
        """Return settings without those that mean nothing."""
        if self.items is None:
            return params
        # The estimator chooses the factor by its bound for its default kernel only.
        automatic = params["kernel"] == _DEFAULT_KERNEL and params["length_scale"] == "auto"
        return _with_length_scale(params, automatic=automatic)

    def build(self, settings: Settings) -> GPPLClassifier:
        """Return the estimator that settings stand for, not fitted."""
        settings = self.resolve(settings)
        names = ("likelihood", "shape_s0", "rate_s0", "order_effect")
        shared = {name: settings[name] for name in names if name in settings}
        model = GPPLClassifier(self.items, random_state=self.seed, **shared)
        _with_covariates(model, self.covariates, 2, chosen=settings.get("covariates", False))
        if self.items is None:
            return model
        model.set_params(item_effects=settings["item_effects"], optimizer="l-bfgs-b" if settings["ard"] else None)
        if "n_inducing" in settings:
            model.set_params(n_inducing=settings["n_inducing"])
        if settings["length_scale"] == "auto":
            return model
        kernel = self._kernel(self.items, settings["kernel"], settings["length_scale_factor"])
        return model.set_params(kernel=kernel)

    def _kernel(self, items: Table, name: str, factor: float) -> Kernel:
        """Return a kernel at `factor` times the median heuristic; a product over d features at sqrt(d) times that.

        Length-scales of a product must grow with the number of features or nothing resembles anything; in a mean over
        features each stands for itself.
        """
        cls, nu = _KERNELS[name]
        scales = kernels.median_length_scales(items.features, np.random.default_rng(self.seed))
        width = np.sqrt(scales.size) if cls is kernels.ProductMatern else 1.0
        start = factor * width * scales
        return cls(start, np.column_stack([_BOUNDS[0] * start, _BOUNDS[1] * start]), nu=nu)


@dataclass(frozen=True, eq=False)
class Crowd:
    """A consensus and a view of each user: `CrowdGPPL`."""

    items: Table | None
    users: Table | None
    n_items: int
    n_users: int
    max_inducing: int
    seed: int = 0
    has_ties: bool = False  # as in `Pairs`, and the next two
    has_sides: bool = False
    covariates: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()  # names of the columns of X after those of the items; then there are no covariates

    @property
    def most_factors(self) -> int:
        """Factors at most: 20, or the number of users, beyond which factors have nothing to learn."""
        return min(_MOST_FACTORS, max(self.n_users, 1))

    def space(self) -> dict[str, Any]:
        """Return what to choose from."""
        space: dict[str, Any] = {
            "n_factors": stats.randint(0, self.most_factors + 1),
            "likelihood": _likelihoods(ties=self.has_ties),
            **_PRIORS,
            "rate_sd0": stats.loguniform(0.02, 20.0),
        }
        if self.has_sides:
            space["order_effect"] = [False, True]
        if self.covariates:
            space["covariates"] = [True, False]
        if self.items is not None:
            space |= {"item_effects": [False, True], **_LENGTH_SCALE}
            space |= _inducing("n_inducing", self.max_inducing, self.n_items)
        return space | ({} if self.users is None else _inducing("n_inducing_users", self.max_inducing, self.n_users))

    def defaults(self) -> Settings:
        """Return the settings of an estimator that is not tuned."""
        params, space = CrowdGPPL().get_params(deep=False), self.space()
        most = {name: numbers.high for name, numbers in space.items() if isinstance(numbers, LogInteger)}
        most["n_factors"] = self.most_factors
        names = [name for name in space if name in params and name != "length_scale_factor"]
        settings = {name: min(params[name], most[name]) if name in most else params[name] for name in names}
        if self.covariates:
            settings["covariates"] = True
        return settings if self.items is None else {**settings, "length_scale": "auto"}

    def resolve(self, params: Settings) -> Settings:
        """Return settings without those that mean nothing."""
        settings: Settings = {}
        for name, value in params.items():
            settings[name] = value
            if name == "rate_sd0":  # only the product of the two sides' scales matters
                settings["rate_sw0"] = value
        if self.items is None:
            return settings
        return _with_length_scale(settings, automatic=settings["length_scale"] == "auto")

    def build(self, settings: Settings) -> CrowdGPPL:
        """Return the estimator that settings stand for, not fitted."""
        left_out = "length_scale", "covariates"
        params = {name: value for name, value in self.resolve(settings).items() if name not in left_out}
        model = CrowdGPPL(self.items, self.users, random_state=self.seed, **params)
        if self.groups:
            return model.set_params(left=1, right=2, groups={name: 3 + k for k, name in enumerate(self.groups)})
        return _with_covariates(model, self.covariates, 3, chosen=settings.get("covariates", False))


def _with_covariates(model: Any, names: tuple[str, ...], first: int, *, chosen: bool) -> Any:
    """Return the estimator with the columns of X from `first` on as its covariates, or as columns that it ignores."""
    if not names:
        return model
    columns = {name: first + k for k, name in enumerate(names)} if chosen else None
    return model.set_params(left=first - 2, right=first - 1, covariates=columns)


def _with_length_scale(settings: Settings, *, automatic: bool) -> Settings:
    """Return settings with a factor of the length-scale only where the estimator does not choose it."""
    kept = {name: value for name, value in settings.items() if name != "length_scale_factor" or not automatic}
    return kept | {"length_scale": "auto" if automatic else "factor"}


def _likelihoods(*, ties: bool) -> list[str]:
    """Return the likelihoods to choose from; both of ties and without, the probit first."""
    return ["probit", "logit", *(["probit-ties", "logit-ties"] if ties else [])]


def _inducing(name: str, most: int, n: int) -> dict[str, LogInteger]:
    """Return the range of a number of inducing points, where it is searched."""
    most = min(most, n)
    return {name: LogInteger(min(50, most), most)} if n > _FEW_ITEMS else {}
