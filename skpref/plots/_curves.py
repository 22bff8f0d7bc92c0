"""Utilities that move in time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from skpref.data.ids import shorten
from skpref.data.times import as_times, to_dates
from skpref.exceptions import DataError
from skpref.gp.pairwise.ranking import Ranking
from skpref.plots._base import COLOUR, Display, fitted_part, label_ends, shortened

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence
    from typing import Self

    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike

    from skpref._typing import Array

_N_TIMES = 200
_STYLES = "-", "--", ":", "-."  # line styles, of the first ten lines, the next ten ...


@dataclass(eq=False, repr=False)
class SkillCurvesDisplay(Display):
    """Utilities of items over time with credible intervals, which grow after the last comparison.

    The average over all compared items is 0 (1500 Elo points) at each time. A thin vertical line is at the last
    comparison.

    Parameters
    ----------
    ids : sequence
        Names of the items.
    time : array-like of shape (n_times,)
        Numbers or dates, ascending.
    utility, utility_low, utility_high : array-like of shape (n, n_times)
        Posterior means, and ends of the credible intervals; NaN where an item has no line.
    end : number or date, default=None
        Time of the last comparison; None draws no line there.
    credibility : float, default=0.9
        Posterior probability of the intervals.
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
    >>> from skpref.plots import SkillCurvesDisplay, offscreen_axes
    >>> display = SkillCurvesDisplay(
    ...     ["tea"], [1, 2, 3], [[0, 0.1, 0.1]], [[-0.2, -0.1, -0.3]], [[0.2, 0.3, 0.5]], end=2
    ... )
    >>> display.plot(ax=offscreen_axes()).ax_.get_ylabel()
    'utility (mean and 90 % interval)'
    """

    ids: Sequence[Any]
    time: ArrayLike
    utility: ArrayLike
    utility_low: ArrayLike
    utility_high: ArrayLike
    end: Any = None
    credibility: float = 0.9
    unit: str = "utility"

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        items: ArrayLike | None = None,
        *,
        times: ArrayLike | None = None,
        credibility: float = 0.9,
        scale: Literal["utility", "elo"] = "utility",
        groups: Mapping[Any, Hashable] | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Plot the curves of a fitted estimator; the line of an item begins at its first comparison.

        Parameters
        ----------
        estimator : GPPLClassifier or CrowdGPPL
            Fitted with `time`, or a Pipeline or search of one.
        items : array-like of shape (n,), default=None
            Ids. None: the five best at the last comparison.
        times : array-like of shape (n_times,), default=None
            Dates or numbers, as the times of `fit`. None: from the first comparison to the last one, and a tenth of
            that time ahead.
        credibility : float, default=0.9
            Posterior probability of the intervals.
        scale : {"utility", "elo"}, default="utility"
            Units of the answer noise, or Elo points with the average of the compared items at 1500.
        groups : dict, default=None
            Groups, such as ``{"category": "coding"}``, as in `curves`. None: all groups.
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.

        Returns
        -------
        SkillCurvesDisplay
            The display with its plot.

        Raises
        ------
        ValueError
            If the estimator was fitted without `time`, an id is unknown, or an item was first compared after `times`.
        """
        model = fitted_part(estimator, "curves")
        first, end, is_dated = _span_of(model)
        if items is None:
            best = np.argsort(-model.utility(model.item_ids_, groups=groups), kind="stable")
            items = model.item_ids_[best[:5]]
        if times is None:
            start = min(first.values())
            later = end + 0.1 * (end - start or 1.0)  # forecast
            grid = np.append(np.linspace(start, end, _N_TIMES), np.linspace(end, later, _N_TIMES // 10))
        else:
            grid = as_times(times, "times", is_dated=is_dated)
        grid = np.unique(grid)
        to_axis = to_dates if is_dated else np.asarray
        curves = model.curves(items, times=to_axis(grid), credibility=credibility, groups=groups)
        if not len(curves):
            raise DataError(f"there is nothing to plot: got items={shorten(items)} and times={shorten(times)}")
        ids = np.asarray(curves.id).tolist()[:: grid.size]
        hidden = grid < np.array([[first[name]] for name in ids])
        if hidden.all(axis=1).any():
            name = ids[int(np.argmax(hidden.all(axis=1)))]
            raise DataError(f"item {shorten(name)} has its first comparison after all times; add later times")
        unit = Ranking(*np.ones((7, 1))).to_scale(scale, model.likelihood_)  # an item with utility 1 and deviation 1

        def lines(column: Any) -> Array:
            points = unit.utility + unit.std * (np.asarray(column).reshape(hidden.shape) - 1.0)
            return np.where(hidden, np.nan, points)

        bands = lines(curves.utility), lines(curves.utility_low), lines(curves.utility_high)
        axis = "Elo points" if scale == "elo" else "utility"
        return cls(ids, to_axis(grid), *bands, to_axis(np.asarray(end)), credibility, axis).plot(ax=ax)

    def _n_labels(self) -> tuple[int, int]:
        return 0, len(self.ids)

    def _draw(self, ax: Axes) -> None:
        time, lines = np.asarray(self.time), np.asarray(self.utility)
        colours = [COLOUR] if len(lines) == 1 else [f"C{k % 10}" for k in range(len(lines))]
        bands = zip(np.asarray(self.utility_low), np.asarray(self.utility_high), strict=True)
        for k, (line, (low, high), colour) in enumerate(zip(lines, bands, colours, strict=True)):
            ax.fill_between(time, low, high, color=colour, alpha=0.2 / len(lines) ** 0.5, linewidth=0)
            ax.plot(time, line, color=colour, linestyle=_STYLES[k // 10 % len(_STYLES)])
        if self.end is not None and time[0] <= self.end <= time[-1]:
            ax.axvline(self.end, color="black", linewidth=0.8)
        ax.margins(x=0.0)
        if time.dtype.kind == "M":  # at most seven labels, of which each says only what has changed
            import matplotlib.dates as mdates

            locator = mdates.AutoDateLocator(minticks=3, maxticks=7)
            ax.xaxis.set(major_locator=locator, major_formatter=mdates.ConciseDateFormatter(locator))
        else:
            ax.locator_params(axis="x", nbins=5)
        ends = np.array([line[np.isfinite(line)][-1] for line in lines])
        label_ends(ax, ends, [shortened(name) for name in self.ids], colours)
        ax.set(xlabel="time", ylabel=f"{self.unit} (mean and {100 * self.credibility:g} % interval)")


def _span_of(model: Any) -> tuple[dict[Any, float], float, bool]:
    """Return where the curves of items begin, by id, the time of the last comparison, and whether times are dates.

    The consensus of a crowd moves in steps, and has a value of each item at all of them.
    """
    moving, ids = getattr(model, "moving_posterior_", None), model.item_ids_.tolist()
    timeline = getattr(getattr(model.posterior_, "places", None), "timeline", None)
    if moving is not None:
        return dict(zip(ids, moving.first.tolist(), strict=True)), moving.end, moving.is_dated
    if timeline is None:
        raise DataError("the estimator has no curves to plot: fit it with time=, the column of X with the times")
    return dict.fromkeys(ids, timeline.origin), timeline.end, timeline.is_dated
