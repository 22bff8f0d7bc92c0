"""Numerics of a method and priors, as parameters of estimators: `inference=SVI(batch_size=500)`."""

from __future__ import annotations

import os
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from sklearn.base import BaseEstimator, clone
from sklearn.gaussian_process.kernels import Kernel
from sklearn.utils._param_validation import Interval, StrOptions

from skpref.data.ids import shorten
from skpref.exceptions import DataError
from skpref.inference.checkpoint import Checkpoint as RunCheckpoint
from skpref.inference.scale import FixedScale, GammaScale
from skpref.inference.svi import Schedule

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skpref._events import OnIteration
    from skpref._typing import MatrixLike
    from skpref.inference.scale import Scale

__all__ = ["LBFGS", "SVI", "Adam", "Checkpoint", "FactorPrior", "Fixed", "Gamma", "Inducing"]

# Shapes, rates and values of priors; beyond these, scales overflow or the iteration no longer gets anywhere.
_PRIOR_NUMBER = Interval(Real, 1e-6, 1e6, closed="both")
_METHODS = StrOptions({"kmeans++", "kmeans", "random", "variance"})


class HasSettings(BaseEstimator):
    """Estimators some of whose parameters are settings: a word or None stands for settings by default."""

    _settings_defaults: ClassVar[Mapping[str, Settings]] = {}  # by parameter

    def _validate_params(self) -> None:
        """Check the parameters, and the fields of the settings."""
        super()._validate_params()
        for value in self.get_params(deep=False).values():
            if isinstance(value, Settings):
                value._validate_params()  # noqa: SLF001 - scikit-learn's name

    def _setting(self, name: str) -> Any:
        """Return the settings of a parameter; None means the defaults."""
        value = getattr(self, name)
        return self._settings_defaults[name] if value is None else value

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Get the parameters of this estimator.

        Parameters
        ----------
        deep : bool, default=True
            Whether to return the parameters of settings, too, such as `inference__batch_size`. A word, a number or None
            has those of the settings that it stands for.

        Returns
        -------
        dict
            Values by name.
        """
        params: dict[str, Any] = super().get_params(deep)
        for name, default in self._settings_defaults.items() if deep else ():
            settings = _read_settings(params[name], default)
            if settings is not None and settings is not params[name]:
                params |= {f"{name}__{key}": value for key, value in settings.get_params().items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set the parameters of this estimator.

        Parameters
        ----------
        **params : dict
            Values by name. A parameter of settings changes a word, a number or None into the settings that it stands
            for: with `inference__batch_size`, "auto" becomes an `SVI`; with `inducing__method`, 50 becomes
            ``Inducing(50)``.

        Returns
        -------
        estimator instance
            Itself.

        Raises
        ------
        ValueError
            If there is no such parameter, or a value stands for no settings, such as ``inference="vb"``.
        """
        for name, default in self._settings_defaults.items():
            own = {key: params[key] for key in params if key.startswith(f"{name}__")}
            value = params.get(name, getattr(self, name))
            if not own or isinstance(value, Settings):
                continue
            settings = _read_settings(value, default)
            if settings is None:
                kind = type(default).__name__
                raise DataError(f"{name}={shorten(value)} has no parameters; to set {', '.join(own)}, pass {kind}(...)")
            before = settings.get_params()
            settings.set_params(**{key.removeprefix(f"{name}__"): each for key, each in own.items()})
            params = {key: each for key, each in params.items() if key not in own}
            # All of `get_params()` together make no settings of a word.
            if name not in params or settings.get_params() != before:
                params[name] = settings
        return super().set_params(**params)


class Settings(HasSettings):
    """Base of parameters that have parameters, which searches name as in `inference__batch_size`."""

    _words: ClassVar[tuple[str | None, ...]] = (None,)  # values of a parameter that stand for the settings by default

    def __eq__(self, other: object) -> bool:
        """Tell whether two settings are of one kind and have equal parameters."""
        return type(self) is type(other) and self.get_params() == other.get_params()

    def __hash__(self) -> int:
        """Return one number for each kind, since parameters may change."""
        return hash(type(self))


class SVI(Settings):
    """Stochastic variational inference: natural-gradient steps on mini-batches.

    Parameters
    ----------
    batch_size : int, default=None
        Rows of a mini-batch. None: 1,000, and 10,000 for `CrowdGPPL`, each of whose steps factors one matrix for each
        factor of the tastes.
    delay : float, default=1.0
        Step t has size ``(t + delay) ** -forgetting_rate``. A larger value makes the first steps smaller.
    forgetting_rate : float, default=0.9
        Exponent in (0.5, 1], so that steps converge. A larger value makes later steps smaller.

    Examples
    --------
    >>> from skpref import SVI, GPPLClassifier
    >>> GPPLClassifier(inference=SVI(batch_size=500)).get_params()["inference__batch_size"]
    500
    """

    _words: ClassVar[tuple[str | None, ...]] = ("auto", "svi")
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "batch_size": [Interval(Integral, 1, None, closed="left"), None],
        "delay": [Interval(Real, 0.0, None, closed="left")],
        "forgetting_rate": [Interval(Real, 0.5, 1.0, closed="right")],
    }

    def __init__(self, batch_size: int | None = None, delay: float = 1.0, forgetting_rate: float = 0.9) -> None:
        self.batch_size = batch_size
        self.delay = delay
        self.forgetting_rate = forgetting_rate


class Inducing(Settings):
    """Inducing points: how many there are, and how they are chosen from the rows.

    Parameters
    ----------
    n : int or "auto", default="auto"
        Largest number of points. "auto": the default of the estimator.
    method : {"kmeans++", "kmeans", "random", "variance"}, default="kmeans++"
        "kmeans++": rows that are spread out, by the seeding of k-means, which is fast. "kmeans": centres of k-means.
        "random": random rows. "variance": one after the other, the row with the largest variance given those before.

    Examples
    --------
    >>> from skpref import GPPLClassifier, Inducing
    >>> GPPLClassifier(inducing=Inducing(100, method="variance")).get_params()["inducing__n"]
    100
    """

    _words: ClassVar[tuple[str | None, ...]] = ("auto",)
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "method": [_METHODS],
    }

    def __init__(self, n: int | str = "auto", method: str = "kmeans++") -> None:
        self.n = n
        self.method = method


class Gamma(Settings):
    """Gamma prior of an inverse variance, which data update; in units of inverse variances of the answer noise.

    Parameters
    ----------
    shape : float in [1e-6, 1e6]
        Shape. The prior weighs as much as 2 `shape` variables.
    rate : float in [1e-6, 1e6]
        Rate, not scale: the mean is `shape / rate`.

    Examples
    --------
    >>> from skpref import Gamma, GPPLClassifier
    >>> model = GPPLClassifier(scale_prior=Gamma(0.5, 0.1))
    >>> model = model.fit([["tea", "milk"], ["tea", "water"]], [1, 1])
    >>> model.scale_.shape0
    0.5
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {"shape": [_PRIOR_NUMBER], "rate": [_PRIOR_NUMBER]}

    def __init__(self, shape: float, rate: float) -> None:
        self.shape = shape
        self.rate = rate


class Fixed(Settings):
    """An inverse variance that is known: a prior from which data learn nothing.

    Parameters
    ----------
    value : float in [1e-6, 1e6]
        The inverse variance, in inverse variances of the answer noise.

    Examples
    --------
    Utilities are standard normal before the first answer, and their variance is not learnt:

    >>> from skpref import Fixed, GPPLClassifier
    >>> model = GPPLClassifier(scale_prior=Fixed(1.0)).fit([["tea", "milk"], ["tea", "water"]], [1, 1])
    >>> model.scale_.mean
    1.0
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {"value": [_PRIOR_NUMBER]}

    def __init__(self, value: float) -> None:
        self.value = value


class FactorPrior(Settings):
    """Prior of the factors of tastes of a `CrowdGPPL` ([SG20] section 3.2).

    The scales are of the factorised posterior, ``inference="vb"``, "svi" and "linearised".

    Parameters
    ----------
    item_kernel : Kernel, default=None
        Covariance of the item factors v_d over the features of items. None: the kernel of the consensus.
    user_kernel : Kernel, default=None
        Covariance of the user factors w_d over the features of users. None: a `ProductMatern` (nu = 3/2) whose
        length-scales are the median distances.
    item_scale : Gamma, default=None
        Prior of the inverse variance of each item factor. None: ``Gamma(2.0, 0.2)``. With its mean of 10, factors that
        the data do not support shrink to a hundredth of the variance of the answer noise; the data of a dozen items
        outweigh the prior.
    user_scale : Gamma, default=None
        Prior of the inverse variance of each user factor. None: ``Gamma(2.0, 0.2)``.

    Examples
    --------
    >>> from skpref import CrowdGPPL, FactorPrior, Gamma
    >>> model = CrowdGPPL(inference="vb", factor_prior=FactorPrior(item_scale=Gamma(2.0, 1.0)))
    >>> model.get_params()["factor_prior__item_scale__rate"]
    1.0
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "item_kernel": [Kernel, None],
        "user_kernel": [Kernel, None],
        "item_scale": [Gamma, None],
        "user_scale": [Gamma, None],
    }

    def __init__(
        self,
        item_kernel: Kernel | None = None,
        user_kernel: Kernel | None = None,
        item_scale: Gamma | None = None,
        user_scale: Gamma | None = None,
    ) -> None:
        self.item_kernel = item_kernel
        self.user_kernel = user_kernel
        self.item_scale = item_scale
        self.user_scale = user_scale


class LBFGS(Settings):
    """The optimizer L-BFGS-B, which maximises the bound or the evidence over all hyperparameters.

    Parameters
    ----------
    n_restarts : int, default=None
        Further starts at random hyperparameters within the bounds of the kernel; the best end wins. None: 0, and 2 for
        `GPOrdinalRegressor`.

    Examples
    --------
    >>> from skpref import LBFGS, GPOrdinalRegressor
    >>> GPOrdinalRegressor("ard", optimizer=LBFGS(n_restarts=5)).get_params()["optimizer__n_restarts"]
    5
    """

    _words: ClassVar[tuple[str | None, ...]] = ("auto", "l-bfgs-b")
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_restarts": [Interval(Integral, 0, None, closed="left"), None]
    }

    def __init__(self, n_restarts: int | None = None) -> None:
        self.n_restarts = n_restarts


class Adam(Settings):
    """The optimizer Adam: a step of the hyperparameters after every mini-batch of `SVI`, which it implies.

    Parameters
    ----------
    learning_rate : float, default=0.01
        Step, in logs of hyperparameters and in length-scales.

    Examples
    --------
    >>> from skpref import SVI, Adam, SVGPRegressor
    >>> model = SVGPRegressor(inference=SVI(batch_size=200), optimizer=Adam(learning_rate=0.05))
    """

    _words: ClassVar[tuple[str | None, ...]] = ("adam",)
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "learning_rate": [Interval(Real, 0.0, None, closed="neither")]
    }

    def __init__(self, learning_rate: float = 0.01) -> None:
        self.learning_rate = learning_rate


class Checkpoint(Settings):
    """A file to which `fit` saves its passes, and how often.

    Parameters
    ----------
    path : str or path-like
        The file.
    seconds : float, default=30.0
        Time between two saves, in seconds.

    Examples
    --------
    >>> from skpref import Checkpoint, GPPLClassifier
    >>> model = GPPLClassifier(checkpoint=Checkpoint("fit.checkpoint", seconds=300.0), random_state=0)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "path": [str, os.PathLike],
        "seconds": [Interval(Real, 0.0, None, closed="left")],
    }

    def __init__(self, path: str | os.PathLike[str], seconds: float = 30.0) -> None:
        self.path = path
        self.seconds = seconds


# ----------------------------------------------------------------------------------------- what estimators make of them
INDUCING_CONSTRAINTS: list[Any] = [Interval(Integral, 1, None, closed="left"), Inducing, "array-like", "sparse matrix"]
CHECKPOINT_CONSTRAINTS: dict[str, list[Any]] = {"checkpoint": [str, os.PathLike, Checkpoint, None]}


def inference_name(inference: str | SVI) -> str:
    """Return the name of an inference."""
    return "svi" if isinstance(inference, SVI) else inference


def inducing_of(inducing: Any, n: int) -> tuple[int, str | MatrixLike]:
    """Return the largest number of inducing points, n by default, and how they are chosen, or the points."""
    if isinstance(inducing, Inducing):
        return n if inducing.n == "auto" else int(inducing.n), inducing.method
    if isinstance(inducing, Integral):
        return int(inducing), "kmeans++"
    return n, "kmeans++" if isinstance(inducing, str) else inducing


def n_restarts_of(optimizer: str | LBFGS | None, default: int = 0) -> int | None:
    """Return the number of further starts of L-BFGS-B; None with another optimizer."""
    if isinstance(optimizer, LBFGS):
        return default if optimizer.n_restarts is None else int(optimizer.n_restarts)
    return default if optimizer == "l-bfgs-b" else None


def scale_of(prior: Gamma | Fixed) -> Scale:
    """Return an inverse variance under its prior."""
    if isinstance(prior, Fixed):
        return FixedScale(float(prior.value))
    return GammaScale.prior(float(prior.shape), float(prior.rate))


def schedule_of(
    estimator: Any, batch_size: int, on_iteration: OnIteration | None, checkpoint: RunCheckpoint | None = None
) -> Schedule:
    """Return passes, tolerance and steps of an estimator."""
    steps = estimator.inference if isinstance(estimator.inference, SVI) else SVI()
    return Schedule(
        max_iter=estimator.max_iter,
        tol=estimator.tol,
        batch_size=steps.batch_size or batch_size,
        delay=steps.delay,
        forgetting_rate=steps.forgetting_rate,
        on_iteration=on_iteration,
        checkpoint=checkpoint,
    )


def checkpoint_of(estimator: Any) -> RunCheckpoint | None:
    """Return where a fit saves its passes, if it does."""
    value = getattr(estimator, "checkpoint", None)
    if value is None:
        return None
    if not isinstance(estimator.random_state, Integral):
        # A resumed fit draws the same numbers and makes the same choices again.
        raise DataError(
            f"checkpoint needs random_state to be an integer, so that a resumed fit makes the same choices; got "
            f"random_state={estimator.random_state!r}. Set random_state=0"
        )
    return run_checkpoint(value, str(int(estimator.random_state)))


def run_checkpoint(value: str | os.PathLike[str] | Checkpoint, key: str) -> RunCheckpoint:
    """Return where a run with a key saves what it has, and how often."""
    given = value if isinstance(value, Checkpoint) else Checkpoint(value)
    return RunCheckpoint(Path(given.path), key, float(given.seconds))


def _read_settings(value: Any, default: Settings) -> Settings | None:
    """Return the settings that a value stands for; None if it stands for none."""
    if isinstance(value, Settings):
        return value
    if isinstance(default, Inducing) and isinstance(value, Integral):
        return Inducing(int(value), default.method)
    return clone(default) if isinstance(value, str | None) and value in default._words else None  # noqa: SLF001
