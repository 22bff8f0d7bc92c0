"""The settings among which a search chooses, and the estimators that they stand for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from skpref import kernels
from skpref.gp.crowd import CrowdGPPL
from skpref.gp.pairwise import GPPLClassifier

if TYPE_CHECKING:
    from sklearn.gaussian_process.kernels import Kernel

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
_FEW_ITEMS = 100  # up to here all items are inducing points, and their number is no question
_BOUNDS = (1e-2, 1e3)  # of a length-scale that ARD learns, relative to where it starts
_MOST_FACTORS = 20


@dataclass(frozen=True)
class Space:
    """The settings to choose from.

    Parameters
    ----------
    has_features : bool, default=True
        Whether items have features; without, only likelihood and prior are left to choose.
    n_items : int, default=1000
        Number of items: bounds the number of inducing points.
    max_inducing : int, default=500
        Inducing points at most. A pass costs their square times the number of items.

    Examples
    --------
    >>> from skpref.search import Space
    >>> Space(has_features=False).default()
    {'likelihood': 'probit', 'shape_s0': 2.0, 'rate_s0': 2.0}
    """

    has_features: bool = True
    n_items: int = 1000
    max_inducing: int = 500

    def default(self) -> Settings:
        """Return the settings of an estimator that is not tuned: always the first trial.

        Returns
        -------
        dict
            Settings by name.
        """
        params = GPPLClassifier().get_params(deep=False)
        settings: Settings = {name: params[name] for name in ("likelihood", "shape_s0", "rate_s0")}
        if not self.has_features:
            return settings
        settings |= {"kernel": _DEFAULT_KERNEL, "length_scale": "auto", "ard": params["optimizer"] is not None}
        settings["item_effects"] = params["item_effects"]
        if self.n_items > _FEW_ITEMS:
            settings["n_inducing"] = min(params["n_inducing"], self.max_inducing, self.n_items)
        return settings

    def suggest(self, trial: Any) -> Settings:
        """Draw settings.

        Parameters
        ----------
        trial : optuna.Trial
            Source of the draws.

        Returns
        -------
        dict
            Settings by name.
        """
        settings: Settings = {
            "likelihood": trial.suggest_categorical("likelihood", ["probit", "logit"]),
            "shape_s0": trial.suggest_float("shape_s0", 0.5, 20.0, log=True),
            "rate_s0": trial.suggest_float("rate_s0", 0.2, 50.0, log=True),
        }
        if self.has_features:
            settings |= self._suggest_kernel(trial)
        return settings

    def _suggest_kernel(self, trial: Any) -> Settings:
        settings: Settings = {"kernel": trial.suggest_categorical("kernel", list(_KERNELS))}
        # The estimator chooses the factor by its bound for its default kernel only.
        settings |= _suggest_length_scale(trial, automatic=settings["kernel"] == _DEFAULT_KERNEL)
        settings["ard"] = trial.suggest_categorical("ard", [False, True])
        settings["item_effects"] = trial.suggest_categorical("item_effects", [False, True])
        if self.n_items > _FEW_ITEMS:
            settings["n_inducing"] = _suggest_inducing(trial, "n_inducing", min(self.max_inducing, self.n_items))
        return settings


@dataclass(frozen=True, eq=False)
class Builder:
    """Turns settings into estimators.

    Parameters
    ----------
    items : Table or None
        The items' features.
    seed : int, default=0
        `random_state` of the estimators, and of the median heuristic.

    Examples
    --------
    >>> from skpref.search import Builder, Space
    >>> Builder(None)(Space(has_features=False).default())
    GPPLClassifier(random_state=0)
    """

    items: Table | None
    seed: int = 0

    def __call__(self, settings: Settings) -> GPPLClassifier:
        """Return the estimator, not fitted.

        Parameters
        ----------
        settings : dict
            As `Space` draws them.

        Returns
        -------
        GPPLClassifier
            A new one.
        """
        shared = {name: settings[name] for name in ("likelihood", "shape_s0", "rate_s0")}
        model = GPPLClassifier(self.items, random_state=self.seed, **shared)
        if self.items is None:
            return model
        model.set_params(item_effects=settings["item_effects"], optimizer="l-bfgs-b" if settings["ard"] else None)
        if "n_inducing" in settings:
            model.set_params(n_inducing=settings["n_inducing"])
        if settings["length_scale"] == "auto":
            return model
        return model.set_params(kernel=self._kernel(settings["kernel"], settings["length_scale_factor"]))

    def _kernel(self, name: str, factor: float) -> Kernel:
        """A kernel at `factor` times the median heuristic; a product over d features at sqrt(d) times that.

        Length-scales of a product must grow with the number of features or nothing resembles anything; in a mean over
        features each stands for itself.
        """
        assert self.items is not None  # noqa: S101 - asked for with features only
        cls, nu = _KERNELS[name]
        scales = kernels.median_length_scales(self.items.features, np.random.default_rng(self.seed))
        width = np.sqrt(scales.size) if cls is kernels.ProductMatern else 1.0
        start = factor * width * scales
        return cls(start, np.column_stack([_BOUNDS[0] * start, _BOUNDS[1] * start]), nu=nu)


@dataclass(frozen=True)
class CrowdSpace:
    """The settings to choose from for a crowd.

    Parameters
    ----------
    n_items, n_users : int, default=1000
        Number of items and of users: bound the numbers of inducing points and of factors.
    has_features, has_user_features : bool, default=True, False
        Whether items and users have features.
    has_ties : bool, default=False
        Whether there are ties (y = 0.5): then a likelihood that knows them is among the choices.
    has_sides : bool, default=True
        Whether left and right are where the items were shown: then there may be an advantage of the left side.
    max_inducing : int, default=500
        Inducing points at most, of items and of users.

    Examples
    --------
    >>> from skpref.search import CrowdSpace
    >>> CrowdSpace(n_users=7, has_features=False, has_sides=False).default()["n_factors"]
    7
    """

    n_items: int = 1000
    n_users: int = 1000
    has_features: bool = True
    has_user_features: bool = False
    has_ties: bool = False
    has_sides: bool = True
    max_inducing: int = 500

    @property
    def most_factors(self) -> int:
        """Factors at most: 20, or the number of users, beyond which factors have nothing to learn."""
        return min(_MOST_FACTORS, max(self.n_users, 1))

    def default(self) -> Settings:
        """Return the settings of an estimator that is not tuned: always the first trial.

        Returns
        -------
        dict
            Settings by name.
        """
        params = CrowdGPPL().get_params(deep=False)
        names = ["likelihood", "shape_s0", "rate_s0", "rate_sd0", "rate_sw0"]
        names += ["order_effect"] if self.has_sides else []
        names += ["item_effects"] if self.has_features else []
        settings: Settings = {name: params[name] for name in names}
        settings["n_factors"] = min(params["n_factors"], self.most_factors)
        if self.has_features:
            settings["length_scale"] = "auto"
        return settings | {name: min(params[name], most) for name, most in self._inducing().items()}

    def suggest(self, trial: Any) -> Settings:
        """Draw settings.

        Parameters
        ----------
        trial : optuna.Trial
            Source of the draws.

        Returns
        -------
        dict
            Settings by name.
        """
        likelihoods = ["probit", "logit", *(["probit-ties"] if self.has_ties else [])]
        settings: Settings = {
            "n_factors": trial.suggest_int("n_factors", 0, self.most_factors),
            "likelihood": trial.suggest_categorical("likelihood", likelihoods),
            "shape_s0": trial.suggest_float("shape_s0", 0.5, 20.0, log=True),
            "rate_s0": trial.suggest_float("rate_s0", 0.2, 50.0, log=True),
            "rate_sd0": trial.suggest_float("rate_sd0", 0.02, 20.0, log=True),
        }
        settings["rate_sw0"] = settings["rate_sd0"]  # only the product of the two sides' scales matters
        if self.has_sides:
            settings["order_effect"] = trial.suggest_categorical("order_effect", [False, True])
        if self.has_features:
            settings["item_effects"] = trial.suggest_categorical("item_effects", [False, True])
            settings |= _suggest_length_scale(trial)
        return settings | {name: _suggest_inducing(trial, name, most) for name, most in self._inducing().items()}

    def _inducing(self) -> dict[str, int]:
        """Numbers of inducing points that are a question, and their upper ends."""
        sides = {
            "n_inducing": (self.has_features, self.n_items),
            "n_inducing_users": (self.has_user_features, self.n_users),
        }
        return {name: min(self.max_inducing, n) for name, (asked, n) in sides.items() if asked and n > _FEW_ITEMS}


def _suggest_length_scale(trial: Any, *, automatic: bool = True) -> Settings:
    """Every trial draws both, used or not, since the sampler compares trials by what all of them have."""
    kind = trial.suggest_categorical("length_scale", ["auto", "factor"])
    factor = trial.suggest_float("length_scale_factor", 0.2, 30.0, log=True)
    return (
        {"length_scale": "auto"}
        if automatic and kind == "auto"
        else {"length_scale": "factor", "length_scale_factor": factor}
    )


def _suggest_inducing(trial: Any, name: str, most: int) -> int:
    return int(trial.suggest_int(name, min(50, most), most, log=True))


@dataclass(frozen=True, eq=False)
class CrowdBuilder:
    """Turns settings into estimators of a crowd.

    Parameters
    ----------
    items, users : Table or None
        Features of the items and of the users.
    seed : int, default=0
        `random_state` of the estimators.

    Examples
    --------
    >>> from skpref.search import CrowdBuilder, CrowdSpace
    >>> CrowdBuilder(None, None)(CrowdSpace(has_features=False).default() | {"n_factors": 3})
    CrowdGPPL(n_factors=3, random_state=0)
    """

    items: Table | None
    users: Table | None
    seed: int = 0

    def __call__(self, settings: Settings) -> CrowdGPPL:
        """Return the estimator, not fitted.

        Parameters
        ----------
        settings : dict
            As `CrowdSpace` draws them.

        Returns
        -------
        CrowdGPPL
            A new one.
        """
        params = {name: value for name, value in settings.items() if name != "length_scale"}
        return CrowdGPPL(self.items, self.users, random_state=self.seed, **params)
