"""Shares of products, and part-worths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri

from skpref._text import printable
from skpref.data.ids import shorten
from skpref.data.records import columns_of_report
from skpref.exceptions import DataError
from skpref.plots._base import COLOUR, PALE, Display, label_ends, label_rows, label_size, shortened

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence
    from typing import Self

    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike

    from skpref._typing import Array

_SHARE = "share", "share_low", "share_high"
_PART_WORTH = "mean", "std", "low", "high"
_AXIS = "share (mean and credible interval)"
_MARKERS = "os^Dv"  # markers of the first ten groups, the next ten ...
_STYLES = "-", "--", ":", "-."  # line styles of segments
_OF_PEOPLE = 0.05, 0.25, 0.75, 0.95  # ends of the bars: nine of ten people, and half of them
_NORMAL = ndtri((np.arange(99) + 0.5) / 99)  # points of a normal distribution


def _read(report: Any, names: Sequence[str], numbers: Sequence[str], method: str) -> dict[str, Any]:
    """Return the columns of a report; refuse one that is not the result of a method."""
    columns = columns_of_report(report)
    lacking = [name for name in (*names, *numbers) if name not in columns]
    if lacking:
        raise DataError(
            f"report must be a result of CrowdGPPL.{method}, but its columns {shorten([*columns])} lack {lacking[0]!r}"
        )
    lengths = {len(column) if hasattr(column, "__len__") else 1 for column in columns.values()}
    if len(lengths) > 1 or lengths == {0}:
        raise DataError("report must have one row or more, and columns of one length")
    return columns | {name: _finite(columns[name], name) for name in numbers}


def _finite(column: Any, name: str) -> Array:
    try:
        numbers = np.asarray(column, dtype=np.float64).reshape(len(column))
    except (TypeError, ValueError) as error:
        raise DataError(f"column {name!r} of report must have numbers; got {shorten(list(column))}") from error
    bad = np.flatnonzero(~np.isfinite(numbers))
    if bad.size:
        raise DataError(f"column {name!r} of report must have finite numbers; got {numbers[bad[0]]} in row {bad[0]}")
    return numbers


def _refuse_repeated(keys: Sequence[Hashable], numbers: Array, advice: str) -> None:
    """Refuse rows about the same thing that differ."""
    first: dict[Hashable, float] = {}
    for key, number in zip(keys, numbers.tolist(), strict=True):
        if abs(first.setdefault(key, number) - number) > 1e-6:
            raise DataError(f"report has more than one row for {shorten(key)}{advice}")


def _rows_by(labels: Sequence[Hashable]) -> dict[Any, list[int]]:
    """Return the rows of each label, in the order of first appearance."""
    rows: dict[Any, list[int]] = {}
    for row, label in enumerate(labels):
        rows.setdefault(label, []).append(row)
    return rows


def _joined(names: Sequence[Any]) -> str:
    return ", ".join(map(str, names))


@dataclass(eq=False, repr=False)
class SharesDisplay(Display):
    """Shares of products with credible intervals, side by side for several scenarios or segments of people.

    Parameters
    ----------
    product : sequence of length n
        Names of the products.
    share, share_low, share_high : array-like of shape (n,)
        Shares, and ends of their intervals.
    group : sequence of length n, default=None
        Name of the scenario, the segment or both of each share, for the legend; None where there is one.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the plot.
    figure_ : matplotlib Figure
        Figure of the plot.

    Examples
    --------
    >>> from skpref.plots import SharesDisplay, offscreen_axes
    >>> display = SharesDisplay(["ours", "theirs"], [0.6, 0.4], [0.5, 0.3], [0.7, 0.5])
    >>> display = display.plot(ax=offscreen_axes())
    >>> [label.get_text() for label in display.ax_.get_yticklabels()]
    ['ours', 'theirs']
    """

    product: Sequence[Any]
    share: ArrayLike
    share_low: ArrayLike
    share_high: ArrayLike
    group: Sequence[Any] | None = None

    @classmethod
    def from_shares(cls, report: Any, *, ax: Axes | None = None) -> Self:
        """Plot predicted shares.

        Parameters
        ----------
        report : pandas.DataFrame, other data frame or dict of columns
            Result of `CrowdGPPL.shares`, also for several scenarios or segments. Names may replace the numbers in the
            column scenario.
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.

        Returns
        -------
        SharesDisplay
            The display with its plot.

        Raises
        ------
        ValueError
            If the report lacks a column, has no finite shares, or several for one product.
        """
        columns = _read(report, ["product"], _SHARE, "shares")
        product, (share, low, high) = list(columns["product"]), (columns[name] for name in _SHARE)
        scenario = [k if isinstance(k, str) else f"scenario {k}" for k in columns.get("scenario", [])]
        parts = [part for part in (scenario, list(columns.get("segment", []))) if part]
        group = [_joined(row) for row in zip(*parts, strict=True)] if parts else None
        keys = list(zip(product, group or product, strict=True))
        _refuse_repeated(keys, share, "; ShareCurvesDisplay draws results of sensitivity")
        return cls(product, share, low, high, group).plot(ax=ax)

    def _n_labels(self) -> tuple[int, int]:
        n, n_groups = len(set(self.product)), 1 if self.group is None else len(set(self.group))
        return 0, max(n, n_groups, n * n_groups // 2)

    def _draw(self, ax: Axes) -> None:
        groups = _rows_by([None] * len(self.product) if self.group is None else self.group)
        place = {product: k for k, product in enumerate(_rows_by(self.product))}
        mean, low, high = map(np.asarray, (self.share, self.share_low, self.share_high))
        for k, (group, rows) in enumerate(groups.items()):
            colour, pale = (COLOUR, PALE) if len(groups) == 1 else (f"C{k % 10}", f"C{k % 10}")
            shift = 0.8 * ((k + 0.5) / len(groups) - 0.5)
            heights = [place[self.product[row]] + shift for row in rows]
            ax.hlines(heights, low[rows], high[rows], color=pale, linewidth=3, alpha=1.0 if pale == PALE else 0.4)
            marker = _MARKERS[k // 10 % len(_MARKERS)]
            ax.plot(mean[rows], heights, marker, color=colour, markersize=5, label=shortened(group))
        label_rows(ax, [shortened(product) for product in place])
        if len(groups) > 1:
            size = label_size(ax, len(groups))
            legend = ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=size)
            for text in legend.get_texts():
                text.set_parse_math(False)
        ax.set_xlim(left=0.0)
        ax.set_xlabel(_AXIS)


@dataclass(eq=False, repr=False)
class ShareCurvesDisplay(Display):
    """Shares of products over the values of an attribute with credible intervals, such as a price curve.

    Values that are words have no order: their shares are drawn side by side, not as curves.

    Parameters
    ----------
    product : sequence of length n
        Names of the products.
    value : array-like of shape (n,)
        Values of the attribute, numbers or words.
    share, share_low, share_high : array-like of shape (n,)
        Shares, and ends of their intervals.
    segment : sequence of length n, default=None
        Segments of people, which have lines of their own; None where there is one.
    attribute : str, default="value"
        Name of the axis.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the plot.
    figure_ : matplotlib Figure
        Figure of the plot.

    Examples
    --------
    >>> from skpref.plots import ShareCurvesDisplay, offscreen_axes
    >>> share, low, high = [0.6, 0.4], [0.5, 0.3], [0.7, 0.5]
    >>> display = ShareCurvesDisplay(["ours"] * 2, [2, 3], share, low, high, attribute="price")
    >>> display.plot(ax=offscreen_axes()).ax_.get_xlabel()
    'price'
    """

    product: Sequence[Any]
    value: ArrayLike
    share: ArrayLike
    share_low: ArrayLike
    share_high: ArrayLike
    segment: Sequence[Any] | None = None
    attribute: str = "value"

    @classmethod
    def from_sensitivity(cls, report: Any, *, ax: Axes | None = None) -> Self:
        """Plot how shares depend on an attribute.

        Parameters
        ----------
        report : pandas.DataFrame, other data frame or dict of columns
            Result of `CrowdGPPL.sensitivity`, also for several segments.
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.

        Returns
        -------
        ShareCurvesDisplay
            The display with its plot.

        Raises
        ------
        ValueError
            If the report lacks a column, has no finite shares, or several for one product and value.
        """
        columns = _read(report, ["product"], _SHARE, "sensitivity")
        others = [name for name in columns if name not in ("product", "std", *_SHARE)]
        if not others:
            raise DataError("report has no column of an attribute; SharesDisplay draws results of shares")
        attribute = next((name for name in others if name != "segment"), others[0])
        segment = list(columns["segment"]) if "segment" in others and attribute != "segment" else None
        product, value = list(columns["product"]), np.asarray(columns[attribute])
        share, low, high = (columns[name] for name in _SHARE)
        if value.dtype.kind in "iuf":
            value = _finite(value, attribute)
        keys = list(zip(product, value.tolist(), *([segment] if segment else []), strict=True))
        _refuse_repeated(keys, share, f", as if it had another attribute beside {attribute!r}; draw a part of it")
        return cls(product, value, share, low, high, segment, str(attribute)).plot(ax=ax)

    def _n_labels(self) -> tuple[int, int]:
        return 0, len(set(self._curves()))

    def _curves(self) -> list[tuple[Any, ...]]:
        """Return the product of each share, and its segment where there are some."""
        return list(zip(self.product, *([] if self.segment is None else [self.segment]), strict=True))

    def _draw(self, ax: Axes) -> None:
        value, curves, shares = np.asarray(self.value), self._curves(), (self.share, self.share_low, self.share_high)
        if value.dtype.kind not in "iuf" or np.unique(value).size == 1:
            SharesDisplay(value.tolist(), *shares, list(map(_joined, curves))).plot(ax=ax)
            ax.set_ylabel(printable(self.attribute), parse_math=False)
            return
        mean, low, high = map(np.asarray, shares)
        products, segments = list(_rows_by(self.product)), list(_rows_by([] if self.segment is None else self.segment))
        rows_of = {curve: sorted(rows, key=value.__getitem__) for curve, rows in _rows_by(curves).items()}
        colours = [f"C{products.index(product) % 10}" for product, *_ in rows_of]
        for (curve, rows), colour in zip(rows_of.items(), colours, strict=True):
            style = _STYLES[segments.index(curve[-1]) % len(_STYLES)] if segments else "-"
            alpha = 0.35 / len(rows_of) ** 0.5
            ax.fill_between(value[rows], low[rows], high[rows], color=colour, alpha=alpha, linewidth=0)
            ax.plot(value[rows], mean[rows], marker=".", color=colour, linestyle=style)
        ax.margins(x=0.0)
        ax.locator_params(axis="x", nbins=5)  # the names beside the axes make these narrow
        ax.set_ylim(bottom=0.0)
        ends = np.array([mean[rows[-1]] for rows in rows_of.values()])
        label_ends(ax, ends, [shortened(_joined(curve)) for curve in rows_of], colours)
        ax.set_xlabel(printable(self.attribute), parse_math=False)
        ax.set_ylabel(_AXIS)


@dataclass(eq=False, repr=False)
class PartWorthsDisplay(Display):
    """How the part-worths of each feature are distributed over people: half of the people, and nine of ten.

    Parameters
    ----------
    feature : sequence of length n
        Names of the features.
    mean : array-like of shape (n,)
        Mean over people.
    quantiles : array-like of shape (n, 4)
        Quantiles of the people at 5, 25, 75 and 95 %.
    low, high : array-like of shape (n,), default=None
        Ends of the credible interval of the mean; None where it is not known.
    people : sequence of n arrays, default=None
        Estimates of people, which are drawn as points.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the plot.
    figure_ : matplotlib Figure
        Figure of the plot.

    Examples
    --------
    >>> from skpref.plots import PartWorthsDisplay, offscreen_axes
    >>> display = PartWorthsDisplay(["price"], [-0.9], [[-1.5, -1.2, -0.7, -0.3]])
    >>> display = display.plot(ax=offscreen_axes())
    >>> [label.get_text() for label in display.ax_.get_yticklabels()]
    ['price']
    """

    feature: Sequence[Any]
    mean: ArrayLike
    quantiles: ArrayLike
    low: ArrayLike | None = None
    high: ArrayLike | None = None
    people: Sequence[ArrayLike] | None = None

    @classmethod
    def from_part_worths(cls, report: Any, *, ax: Axes | None = None) -> Self:
        """Plot part-worths of the population, or of people.

        Parameters
        ----------
        report : pandas.DataFrame, other data frame or dict of columns
            Result of `CrowdGPPL.part_worths`; with users, such as ``part_worths(model.user_ids_)``, it has points, too.
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.

        Returns
        -------
        PartWorthsDisplay
            The display with its plot.

        Raises
        ------
        ValueError
            If the report lacks a column, has no finite numbers, or several rows for one feature and user.

        Notes
        -----
        Few answers of a person leave an estimate near the mean, so that points lie closer together than people do. The
        bars are quantiles of people as the model knows them: each person counts with the posterior distribution.
        """
        have_users = "user" in columns_of_report(report)
        names = ["user", "feature"] if have_users else ["feature"]
        numbers = _PART_WORTH if have_users else (*_PART_WORTH, "between_people")
        columns = _read(report, names, numbers, "part_worths")
        mean, std, rows_by = columns["mean"], columns["std"], _rows_by(list(columns["feature"]))
        _refuse_repeated(list(zip(*(columns[name] for name in names), strict=True)), mean, "")
        if not have_users:
            quantiles = mean[:, None] + columns["between_people"][:, None] * ndtri(_OF_PEOPLE)
            return cls(list(columns["feature"]), mean, quantiles, columns["low"], columns["high"]).plot(ax=ax)
        people = [mean[rows] for rows in rows_by.values()]
        spread = [mean[rows] + std[rows] * _NORMAL[:, None] for rows in rows_by.values()]
        quantiles = [np.quantile(points, _OF_PEOPLE, method="hazen") for points in spread]
        means = [own.mean() for own in people]
        return cls(list(rows_by), means, quantiles, people=people).plot(ax=ax)

    def _n_labels(self) -> tuple[int, int]:
        return 0, 2 * len(self.feature)

    def _draw(self, ax: Axes) -> None:
        rows, quantiles = np.arange(len(self.feature)), np.asarray(self.quantiles)
        ax.axvline(0.0, color="black", linewidth=0.8)
        ax.hlines(rows, quantiles[:, 0], quantiles[:, 3], color=PALE, linewidth=2)
        ax.hlines(rows, quantiles[:, 1], quantiles[:, 2], color=PALE, linewidth=7)
        text, bars = "mean", "half of the people, and 90 %"
        points_of = [] if self.people is None else [np.asarray(own) for own in self.people]
        if all(points.size == 1 for points in points_of) and points_of:
            points_of, bars = [], "50 % and 90 % intervals of one person"
        for row, points in enumerate(points_of):
            heights = row + 0.6 * (np.arange(points.size) * 0.618 % 1.0 - 0.5)  # golden section: neighbours stay apart
            ax.plot(points, heights, ".", color="grey", markersize=3, alpha=0.5)
        if self.low is not None and self.high is not None:
            ax.hlines(rows, self.low, self.high, color=COLOUR, linewidth=2)
            text = "mean with interval"
        ax.plot(np.asarray(self.mean), rows, "o", color=COLOUR)
        label_rows(ax, [shortened(name) for name in self.feature])
        ax.set_xlabel(f"part-worth ({text})\nbars: {bars}")
