"""Effects of the covariates of comparisons."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri

from skpref.data.records import columns_of_report
from skpref.exceptions import DataError
from skpref.plots._base import COLOUR, PALE, Display, fitted_part, label_rows, shortened

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike


@dataclass(eq=False, repr=False)
class CovariateEffectsDisplay(Display):
    """Effects of the covariates of comparisons with credible intervals, each for a typical value of its covariate.

    Parameters
    ----------
    names : sequence of str
        Names of the covariates.
    effect, std : array-like of shape (n,)
        Posterior means and standard deviations, for the root mean square of each covariate.
    credibility : float, default=0.9
        Posterior probability of the intervals.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the plot.
    figure_ : matplotlib Figure
        Figure of the plot.

    Examples
    --------
    >>> from skpref.plots import CovariateEffectsDisplay, offscreen_axes
    >>> display = CovariateEffectsDisplay(["home", "length"], [0.4, -0.1], [0.1, 0.1])
    >>> display.plot(ax=offscreen_axes()).ax_.get_xlabel()
    'effect on the left side (mean and 90 % interval)'
    """

    names: Sequence[str]
    effect: ArrayLike
    std: ArrayLike
    credibility: float = 0.9

    @classmethod
    def from_estimator(cls, estimator: Any, *, credibility: float = 0.9, ax: Axes | None = None) -> Self:
        """Plot the effects of a fitted estimator.

        Parameters
        ----------
        estimator : GPPLClassifier
            Fitted with `covariates`, `order_effect` or both; or a Pipeline or search of one.
        credibility : float, default=0.9
            Posterior probability of the intervals.
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.

        Returns
        -------
        CovariateEffectsDisplay
            The display with its plot.
        """
        report = fitted_part(estimator, "covariate_table").covariate_table(credibility=credibility)
        columns = columns_of_report(report)
        if not len(columns["name"]):
            raise DataError("the estimator has no effects to plot: fit it with covariates=[...] or order_effect=True")
        effect, std = (np.asarray(columns["typical"] * columns[name]) for name in ("effect", "std"))
        names = [f"{name} = {typical:.3g}" for name, typical in zip(columns["name"], columns["typical"], strict=True)]
        return cls(names, effect, std, credibility).plot(ax=ax)

    def _n_labels(self) -> tuple[int, int]:
        return 0, len(self.names)

    def _draw(self, ax: Axes) -> None:
        place, half_width = np.arange(len(self.names)), ndtri(0.5 + 0.5 * self.credibility) * np.asarray(self.std)
        ax.axvline(0.0, color="black", linewidth=0.8)
        ax.errorbar(np.asarray(self.effect), place, xerr=half_width, fmt="o", color=COLOUR, ecolor=PALE, elinewidth=3)
        label_rows(ax, [shortened(name) for name in self.names])
        ax.set_xlabel(f"effect on the left side (mean and {100 * self.credibility:g} % interval)")
