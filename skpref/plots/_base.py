"""What all displays share: axes, colours and short names."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from sklearn.utils.validation import check_is_fitted

from skpref._estimator import last_step
from skpref._text import printable
from skpref.exceptions import DataError, MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOUR = "#1f5fa8"
PALE = "#9fbfe0"
_LONGEST_NAME = 30
_INCHES_OF_LABEL = 0.22  # room of a label in a new figure
_LINE = 1.5  # height of a line in heights of its letters
_SMALLEST = 3.0  # height of letters in points
_MISSING = "plots need matplotlib: pip install 'skpref[plots]'"


def fitted_part(estimator: Any, attribute: str) -> Any:
    """Return what predicts, of a Pipeline or a search; refuse an estimator without an attribute that is drawn."""
    model = last_step(estimator)
    check_is_fitted(model)
    if not hasattr(model, attribute):
        raise DataError(f"a {type(model).__name__} has no {attribute}, which this display draws")
    return model


def _axes(ax: Axes | None, *n_labels: int) -> Axes:
    """Return the axes to draw on; None: of a new figure, which is larger if it has many labels in a column or row."""
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise MissingExtraError(_MISSING) from error
    size = [max(usual, _INCHES_OF_LABEL * n) for usual, n in zip(plt.rcParams["figure.figsize"], n_labels, strict=True)]
    return plt.subplots(figsize=size, layout="constrained")[1]


def label_rows(ax: Axes, names: Sequence[str]) -> None:
    """Name the rows from top to bottom, so that no two names overlap; where there is no room, not every row."""
    box = ax.get_window_extent()  # in dots
    height = box.height if ax.get_aspect() == "auto" else min(box.height, box.width)
    room = 72.0 / ax.figure.dpi * height / max(len(names), 1)  # in points
    step = math.ceil(_LINE * _SMALLEST / room)  # rows that share a label, where letters would be too small
    ax.set_yticks(range(0, len(names), step), names[::step], parse_math=False)  # "$" is a dollar
    for label in ax.get_yticklabels():
        label.set_fontsize(min(label.get_fontsize(), step * room / _LINE))
    ax.set_ylim(len(names) - 0.5, -0.5)


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
        ax = _axes(ax, *self._n_labels())
        self._draw(ax)
        ax.grid(alpha=0.3)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _n_labels(self) -> tuple[int, int]:
        """Return the numbers of labels side by side and one below the other."""
        return 0, 0

    @abstractmethod
    def _draw(self, ax: Axes) -> None:
        """Draw on the axes."""
