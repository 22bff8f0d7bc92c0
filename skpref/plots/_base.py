"""What all displays share: axes, colours and short names."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.isotonic import isotonic_regression
from sklearn.utils.validation import check_is_fitted

from skpref._estimator import last_step
from skpref._text import printable
from skpref._warn import importing
from skpref.exceptions import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from skpref._typing import Array

COLOUR = "#1f5fa8"
PALE = "#9fbfe0"
_LONGEST_NAME = 30
_LINE = 1.5  # height of a line in heights of its letters
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
    with importing(_MISSING):
        import matplotlib.pyplot as plt
    # Room of a label in a new figure.
    size = [max(usual, 0.22 * n) for usual, n in zip(plt.rcParams["figure.figsize"], n_labels, strict=True)]
    return plt.subplots(figsize=size, layout="constrained")[1]


def fitting(ax: Axes, n: int) -> tuple[int, float]:
    """Return how many of n names in a column share one, where letters would be too small, and the height of letters."""
    box = ax.get_window_extent()  # in dots
    height = box.height if ax.get_aspect() == "auto" else min(box.height, box.width)
    room = 72.0 / ax.figure.dpi * height / max(n, 1)  # in points
    step = math.ceil(_LINE * 3.0 / room)  # height of letters in points
    return step, step * room / _LINE


def label_size(ax: Axes, n: int) -> float:
    """Return the height of letters with which n names fit into a column beside the axes."""
    return min(ax.xaxis.label.get_fontsize(), fitting(ax, n)[1])


def label_rows(ax: Axes, names: Sequence[str]) -> None:
    """Name the rows from top to bottom, so that no two names overlap; where there is no room, not every row."""
    step, size = fitting(ax, len(names))
    ax.set_yticks(range(0, len(names), step), names[::step], parse_math=False)  # "$" is a dollar
    for label in ax.get_yticklabels():
        label.set_fontsize(min(label.get_fontsize(), size))
    ax.set_ylim(len(names) - 0.5, -0.5)


def heights_apart(ax: Axes, heights: Array, size: float) -> Array:
    """Return the heights nearest to ascending ones at which names of a font size do not overlap."""
    low, high = ax.get_ylim()
    ax.set_ylim(low, high)  # the names are placed for these limits
    gap = (high - low) * _LINE * size / (72.0 / ax.figure.dpi * ax.get_window_extent().height)
    gaps = gap * np.arange(heights.size)  # without which the heights only have to ascend
    return np.asarray(gaps + isotonic_regression(heights - gaps, y_min=low, y_max=high - gaps[-1]))


def label_ends(
    ax: Axes, ends: Array, names: Sequence[str], colours: Sequence[str], places: Array | None = None
) -> None:
    """Name lines right of the axes by the heights of their ends, so that no two names overlap, as in `label_rows`.

    With places on the other axis, the names are those of points.
    """
    if not ends.size:
        return
    step, size = fitting(ax, len(names))
    order = np.argsort(ends, kind="stable")[::step]
    size = min(size, ax.xaxis.label.get_fontsize())
    beside = ax.get_yaxis_transform()
    style = {"va": "center", "fontsize": size, "parse_math": False, "annotation_clip": False, "textcoords": beside}
    x, style["xycoords"] = (np.ones(ends.size), beside) if places is None else (places, "data")
    for line, place in zip(order.tolist(), heights_apart(ax, ends[order], size).tolist(), strict=True):
        leader = {"arrowstyle": "-", "color": colours[line], "linewidth": 0.6, "relpos": (0.0, 0.5), "shrinkB": 0.0}
        text = {"xytext": (1.03, place), "color": colours[line], "arrowprops": leader}
        ax.annotate(names[line], (x[line], ends[line]), **style, **text)


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
    with importing(_MISSING):
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure.subplots()


def shortened(name: Any) -> str:
    """Return a name of at most 30 characters: long names have a gap, since their ends tell them apart."""
    text, end = printable(name), _LONGEST_NAME // 3
    return text if len(text) <= _LONGEST_NAME else f"{text[: _LONGEST_NAME - 1 - end]}…{text[-end:]}"


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
