"""Shares of wins between items."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from skpref._text import printable
from skpref.plots._base import Display, fitted_part, label_rows, shortened

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence
    from typing import Self

    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike


@dataclass(eq=False, repr=False)
class WinMatrixDisplay(Display):
    """Heat map of the shares of comparisons that the item in the row wins against that in the column.

    Parameters
    ----------
    ids : sequence of length n
        Names of the items, from top to bottom and from left to right.
    shares : array-like of shape (n, n)
        Shares in [0, 1]; NaN leaves a cell empty.
    title : str, default=""
        Title of the plot.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the plot.
    figure_ : matplotlib Figure
        Figure of the plot.

    Examples
    --------
    >>> from skpref.plots import WinMatrixDisplay, offscreen_axes
    >>> display = WinMatrixDisplay(["tea", "water"], [[float("nan"), 0.8], [0.2, float("nan")]])
    >>> [text.get_text() for text in display.plot(ax=offscreen_axes()).ax_.texts]
    ['.80', '.20']
    """

    ids: Sequence[Any]
    shares: ArrayLike
    title: str = ""

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        items: ArrayLike | None = None,
        *,
        which: str = "predicted",
        n_items: int = 20,
        groups: Mapping[Any, Hashable] | None = None,
        ax: Axes | None = None,
    ) -> WinMatrixDisplay:
        """Plot the win matrix of a fitted estimator.

        Parameters
        ----------
        estimator : estimator
            Fitted estimator with a method `win_matrix`, or a Pipeline or search of one.
        items : array-like, default=None
            Ids of the items; None means all compared items, the best first.
        which : {"predicted", "observed"}, default="predicted"
            What the model predicts, or what it was fitted to.
        n_items : int, default=20
            Number of items shown, the first ones.
        groups : dict, default=None
            Groups, such as ``{"category": "coding"}``, as in `win_matrix`. None: all groups.
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.

        Returns
        -------
        WinMatrixDisplay
            The display with its plot.
        """
        wins = fitted_part(estimator, "win_matrix").win_matrix(items, groups=groups)
        shares = getattr(wins, which)[:n_items, :n_items]
        return cls(wins.id[:n_items], shares, f"{which} share of wins, row against column").plot(ax=ax)

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
        super().plot(ax=ax)
        self.ax_.grid(visible=False)
        return self

    def _n_labels(self) -> tuple[int, int]:
        return len(self.ids), len(self.ids)

    def _draw(self, ax: Axes) -> None:
        shares = np.asarray(self.shares, dtype=np.float64)
        names = [shortened(name) for name in self.ids]
        image = ax.imshow(shares, cmap="RdBu", vmin=0.0, vmax=1.0)
        ax.figure.colorbar(image, ax=ax, label="share of wins")
        label_rows(ax, names)
        small = ax.get_yticklabels()[0].get_fontsize() if names else None
        shown = ax.get_yticks().astype(int)
        ax.set_xticks(shown, [names[k] for k in shown], parse_math=False, rotation=90, fontsize=small)
        ax.set_title(printable(self.title), parse_math=False, wrap=True, pad=10)  # above the numbers beside the colours
        # Items up to which the cells of a win matrix show their numbers.
        for row, column in np.argwhere(~np.isnan(shares)) if len(names) <= 15 else ():
            share = shares[row, column]
            text = f"{share:.2f}".removeprefix("0")
            colour = "white" if abs(share - 0.5) > 0.3 else "black"
            ax.text(column, row, text, ha="center", va="center", color=colour, fontsize="small")
