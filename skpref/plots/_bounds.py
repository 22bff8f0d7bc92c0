"""The bound after each pass of a fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from skpref._text import printable
from skpref.plots._base import COLOUR, Display, fitted_part

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes


@dataclass(eq=False, repr=False)
class BoundDisplay(Display):
    """The lower bound on the log evidence after each pass of a fit.

    Parameters
    ----------
    lower_bounds : sequence of float
        Bounds in nats.
    estimator_name : str, default=None
        Title of the plot.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the plot.
    figure_ : matplotlib Figure
        Figure of the plot.

    Examples
    --------
    >>> from skpref.plots import BoundDisplay, offscreen_axes
    >>> BoundDisplay([-20.0, -12.0, -11.5]).plot(ax=offscreen_axes()).ax_.get_ylabel()
    'lower bound (nats)'
    """

    lower_bounds: Sequence[float]
    estimator_name: str | None = None

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Axes | None = None) -> BoundDisplay:
        """Plot the bounds of a fitted estimator.

        Parameters
        ----------
        estimator : estimator
            Fitted estimator with `lower_bounds_`, or a Pipeline or search of one.
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.

        Returns
        -------
        BoundDisplay
            The display with its plot.
        """
        model = fitted_part(estimator, "lower_bounds_")
        return cls(model.lower_bounds_, type(model).__name__).plot(ax=ax)

    def _draw(self, ax: Axes) -> None:
        passes = np.arange(1, len(self.lower_bounds) + 1)
        ax.plot(passes, self.lower_bounds, marker="o", markersize=3, color=COLOUR)
        ax.set(xlabel="pass", ylabel="lower bound (nats)")
        ax.set_title(printable(self.estimator_name or ""), parse_math=False)
        ax.xaxis.get_major_locator().set_params(integer=True)
