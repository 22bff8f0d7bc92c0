"""What all displays share: axes, colours and short names."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from skpref._text import printable
from skpref.exceptions import MissingExtraError

if TYPE_CHECKING:
    from typing import Self

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOUR = "#1f5fa8"
PALE = "#9fbfe0"
_LONGEST_NAME = 30
_MISSING = "plots need matplotlib: pip install 'skpref[plots]'"


def _axes(ax: Axes | None) -> Axes:
    """Return the axes to draw on, of a new figure for None."""
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise MissingExtraError(_MISSING) from error
    return plt.subplots(layout="constrained")[1]


def offscreen_axes(width: float = 7.0, height: float = 4.5) -> Axes:
    """Return axes of a new figure that is saved to a file, not shown on a screen.

    It does not use pyplot, so it needs no display and changes no settings or open figures of pyplot.

    Parameters
    ----------
    width, height : float, default=7.0, 4.5
        Size of the figure in inches.

    Returns
    -------
    matplotlib Axes
        Pass them as `ax`; save the figure with ``ax.figure.savefig(path)``.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.

    Examples
    --------
    >>> from skpref.plots import BoundDisplay, offscreen_axes
    >>> display = BoundDisplay([-20.0, -12.0, -11.5]).plot(ax=offscreen_axes())
    >>> display.ax_.get_xlabel()
    'pass'
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError(_MISSING) from error
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure.subplots()


def shortened(name: Any) -> str:
    text = printable(name)
    return text if len(text) <= _LONGEST_NAME else text[: _LONGEST_NAME - 1] + "…"


class Display(ABC):
    """Base class of the displays: `plot` makes the axes, `_draw` fills them."""

    ax_: Axes
    figure_: Figure

    def plot(self, *, ax: Axes | None = None) -> Self:
        """Draw the plot.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.

        Returns
        -------
        object
            The display itself.
        """
        ax = _axes(ax)
        self._draw(ax)
        ax.grid(alpha=0.3)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    @abstractmethod
    def _draw(self, ax: Axes) -> None:
        """Draw on the axes."""
