"""What `SVGPRegressor` and `SVGPClassifier` share: settings, rows of a stream, warm starts, feature relevance."""

from __future__ import annotations

from abc import ABC, abstractmethod
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
from sklearn.gaussian_process.kernels import Kernel
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from skpref._callbacks import CallbackMixin
from skpref._estimator import digest, evaluation_callback
from skpref._validation import validate_data
from skpref.data.tables import canonical, stack, unique_rows
from skpref.gp.relevance import posterior_relevance
from skpref.gp.sparse.fit_general import GeneralConfig
from skpref.gp.sparse.policy import POLICY
from skpref.gp.sparse.search import SparseConfig
from skpref.settings import INDUCING_CONSTRAINTS, SVI, Adam, HasSettings, Inducing, inducing_of, schedule_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike
    from sklearn.utils import Tags

    from skpref._events import OnIteration
    from skpref._typing import Array, Features
    from skpref.gp.posterior import SparseLatent
    from skpref.settings import Settings

__all__ = ["SHARED_CONSTRAINTS", "SparseGP"]

# Of the parameters that both estimators have.
SHARED_CONSTRAINTS: Final[dict[str, list[Any]]] = {
    "kernel": [Kernel, None],
    "inducing": [StrOptions({"auto"}), *INDUCING_CONSTRAINTS],
    "learn_inducing": ["boolean", StrOptions({"auto"})],
    "optimizer": [StrOptions({"l-bfgs-b", "adam"}), Adam, None],
    "max_iter": [Interval(Integral, 1, None, closed="left")],
    "tol": [Interval(Real, 0.0, None, closed="left")],
    "window": [Interval(Integral, 1, None, closed="left"), None],
    "warm_start": ["boolean"],
    "verbose": ["verbose"],
    "random_state": ["random_state", np.random.Generator],
}


class SparseGP(CallbackMixin, HasSettings, ABC):
    """Base of the Gaussian processes for many rows."""

    _settings_defaults: ClassVar[dict[str, Settings]] = {
        "inference": SVI(),
        "inducing": Inducing(),
        "optimizer": Adam(),
    }
    kernel: Kernel | None
    learn_inducing: bool | str
    inducing: Any
    inference: str | SVI
    optimizer: str | Adam | None
    max_iter: int
    tol: float
    window: int | None
    verbose: int
    _rows: Any  # rows, targets or numbers of classes, weights, and offsets if any: those that a later fit needs

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # ------------------------------------------------------------- rows
    def _add_rows(self, rows: tuple[Any, ...]) -> None:
        """Add rows to the rows of earlier calls, within the window; missing offsets are 0."""
        width = max(len(self._rows), len(rows))
        old, new = (part + (np.zeros(len(part[1])),) * (width - len(part)) for part in (self._rows, rows))
        columns = (np.append(first, second) for first, second in zip(old[1:], new[1:], strict=True))
        self._rows = self._cut_window((stack(old[0], new[0]), *columns))

    def _cut_window(self, rows: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the latest rows, at most `window`."""
        return rows if self.window is None else tuple(part[-self.window :] for part in rows)

    def _has_few_points(self, most: int) -> bool:
        """Return whether distinct rows are twice the inducing points, and there may be more points."""
        largest, points = inducing_of(self.inducing, most)
        if not isinstance(points, str):
            return False
        n = self.posterior_.basis.points.shape[0]
        return n < largest and 2 * n <= self._rows[1].size and 2 * n <= unique_rows(self._rows[0])[0].size

    def _check_new_rows(self, X: ArrayLike) -> Features:
        """Return rows to predict."""
        check_is_fitted(self)
        return canonical(validate_data(self, X, accept_sparse="csr", dtype=np.float64, order="C", reset=False))

    # ------------------------------------------------------------- settings
    @abstractmethod
    def _settings(self) -> object:
        """Return the settings that an earlier fit must share for a warm start."""

    def _can_resume(self) -> bool:
        """Tell whether there is an earlier fit of the same model."""
        return getattr(self, "_warm_key", None) == digest(self._settings())

    def _sparse_config(
        self, n_inducing: int, noise: float | None, tol: float, most_inducing: int = 0, rounding: float = 0.0
    ) -> SparseConfig:
        """Return the settings of the searches; points that are given, or to be moved, never become more."""
        given, _ = inducing_of(self.inducing, 0)
        n_inducing, inducing = inducing_of(self.inducing, n_inducing)
        if given or self.learn_inducing is True or not isinstance(inducing, str):
            most_inducing = 0
        return SparseConfig(
            optimizer="adam" if self._uses_adam() else self.optimizer,
            n_inducing=n_inducing,
            inducing=inducing,
            learn_inducing=self.learn_inducing,
            noise=noise,
            rounding=rounding,
            max_iter=self.max_iter,
            tol=tol,
            on_value=evaluation_callback(self, "bound per row"),
            most_inducing=most_inducing,
        )

    def _uses_adam(self) -> bool:
        """Tell whether Adam moves the hyper-parameters."""
        return isinstance(self.optimizer, Adam) or self.optimizer == "adam"

    def _general_config(
        self,
        sparse: SparseConfig,
        inference: str,
        on_iteration: OnIteration | None,
        priors: Callable[..., Any],
        *search_rows: int,
    ) -> GeneralConfig:
        """Return the settings of a fit that is not Gaussian."""
        adam = self.optimizer if isinstance(self.optimizer, Adam) else Adam()
        schedule = schedule_of(self, POLICY.batch_size, on_iteration)
        return GeneralConfig(sparse, inference, schedule, adam.learning_rate, priors, *search_rows)

    # ------------------------------------------------------------- relevance
    @abstractmethod
    def _latents(self) -> list[SparseLatent]:
        """Return the posteriors of the functions."""

    @property
    def relevance_(self) -> Array:
        """Relevance of each feature, shape (n_features,).

        Half the expected square of f(x) - f(x') under the prior, where x' is an inducing point x with this feature
        taken from another point: 0 for a feature that f ignores. A linear part of the default kernel counts by its
        posterior slopes instead. The mean over classes where each has its own f.
        """
        check_is_fitted(self)
        return np.asarray(np.mean([posterior_relevance(latent) for latent in self._latents()], axis=0))

    @property
    def feature_importances_(self) -> Array:
        """`relevance_` under the name that `SelectFromModel` and `RFE` look for."""
        return self.relevance_
