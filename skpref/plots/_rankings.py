"""Rankings of items."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from skpref.plots._base import COLOUR, PALE, Display, fitted_part, label_rows, shortened

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike


@dataclass(eq=False, repr=False)
class RankingDisplay(Display):
    """Utilities of the best items with credible intervals, the best item on top.

    Parameters
    ----------
    ids : sequence
        Names of the items, the best first.
    utility, std : array-like of shape (n,)
        Posterior means and standard deviations.
    rank_low, rank_high : array-like of shape (n,), default=None
        Credible interval of each rank, shown next to the item.
    n_total : int, default=None
        Number of items ranked, for the title.
    unit : str, default="utility"
        Unit of the axis.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the plot.
    figure_ : matplotlib Figure
        Figure of the plot.

    Examples
    --------
    >>> from skpref.plots import RankingDisplay, offscreen_axes
    >>> display = RankingDisplay(["tea", "water"], [0.4, -0.4], [0.2, 0.3])
    >>> display.plot(ax=offscreen_axes()).ax_.get_xlabel()
    'utility (mean and 90 % interval)'
    """

    ids: Sequence[Any]
    utility: Sequence[float]
    std: Sequence[float]
    rank_low: Sequence[int] | None = None
    rank_high: Sequence[int] | None = None
    n_total: int | None = None
    unit: str = "utility"

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        items: ArrayLike | None = None,
        *,
        n_items: int = 20,
        scale: Literal["utility", "elo"] = "utility",
        groups: Mapping[Any, Hashable] | None = None,
        ax: Axes | None = None,
    ) -> RankingDisplay:
        """Plot the ranking of a fitted estimator.

        Parameters
        ----------
        estimator : estimator
            Fitted estimator with a method `rank`, or a Pipeline or search of one.
        items : array-like, default=None
            Items to rank; None means all items of the estimator.
        n_items : int, default=20
            Number of items shown, the best ones.
        scale : {"utility", "elo"}, default="utility"
            Scale of the axis, as in `rank`: utilities, or Elo points with 1500 for the average item. For other anchors
            pass ``rank(scale="elo").anchored(...)`` to `from_ranking`.
        groups : dict, default=None
            Groups, such as ``{"category": "coding"}``, as in `rank`. None: all groups.
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.

        Returns
        -------
        RankingDisplay
            The display with its plot.
        """
        named = {} if groups is None else {"groups": groups}
        ranking = fitted_part(estimator, "rank").rank(items, scale=scale, **named)
        return cls.from_ranking(ranking, n_items=n_items, ax=ax)

    @classmethod
    def from_ranking(cls, ranking: Any, *, n_items: int = 20, ax: Axes | None = None) -> RankingDisplay:
        """Plot a ranking.

        Parameters
        ----------
        ranking : Ranking
            Result of `rank`.
        n_items : int, default=20
            Number of items shown, the best ones.
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.

        Returns
        -------
        RankingDisplay
            The display with its plot.
        """
        top = slice(n_items)
        display = cls(
            ranking.id[top],
            ranking.utility[top],
            ranking.std[top],
            ranking.rank_low[top],
            ranking.rank_high[top],
            len(ranking),
            "Elo points" if ranking.scale == "elo" else "utility",
        )
        return display.plot(ax=ax)

    def _n_labels(self) -> tuple[int, int]:
        return 0, len(self.ids)

    def _draw(self, ax: Axes) -> None:
        rows = np.arange(len(self.ids))
        spread = 1.645 * np.asarray(self.std)  # 90 % of a normal distribution
        ax.errorbar(self.utility, rows, xerr=spread, fmt="o", color=COLOUR, ecolor=PALE, elinewidth=3, capsize=0)
        label_rows(ax, [self._label(row) for row in range(len(rows))])
        title = f"best {len(rows)} of {self.n_total} items" if self.n_total else ""
        if self.n_total == len(rows):
            title = f"{len(rows)} items"
        if self.rank_low is not None and self.rank_high is not None:
            title += "  [90 % interval of the rank]"
        ax.set(xlabel=f"{self.unit} (mean and 90 % interval)", title=title.strip())

    def _label(self, row: int) -> str:
        name = shortened(self.ids[row])
        if self.rank_low is None or self.rank_high is None:
            return name
        low, high = self.rank_low[row], self.rank_high[row]
        return f"{name}  [{low}]" if low == high else f"{name}  [{low}-{high}]"
