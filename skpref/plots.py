"""Plots with scikit-learn's display interface: `XDisplay.from_estimator(...)` draws and sets `ax_` and `figure_`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri

from skpref._text import printable
from skpref.data.labels import left_column, read_labels
from skpref.exceptions import DataError, MissingExtraError
from skpref.metrics import calibration

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import ArrayLike

    from skpref.metrics import Calibration

__all__ = [
    "AnnotatorDisplay",
    "BoundDisplay",
    "CovariateEffectsDisplay",
    "PairCalibrationDisplay",
    "RankingDisplay",
    "WinMatrixDisplay",
    "offscreen_axes",
]

_COLOUR = "#1f5fa8"
_PALE = "#9fbfe0"
_LONGEST_NAME = 30
_MOST_NUMBERS = 15  # items up to which the cells of a win matrix show their numbers
_WIDE = 20.0  # ratio of the most to the fewest labels from which their axis is logarithmic
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


def _shortened(name: Any) -> str:
    text = printable(name)
    return text if len(text) <= _LONGEST_NAME else text[: _LONGEST_NAME - 1] + "…"


class _Display(ABC):
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


class BoundDisplay(_Display):
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

    def __init__(self, lower_bounds: Sequence[float], estimator_name: str | None = None) -> None:
        self.lower_bounds = lower_bounds
        self.estimator_name = estimator_name

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Axes | None = None) -> BoundDisplay:
        """Plot the bounds of a fitted estimator.

        Parameters
        ----------
        estimator : estimator
            Fitted estimator with `lower_bounds_`.
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.

        Returns
        -------
        BoundDisplay
            The display with its plot.
        """
        return cls(estimator.lower_bounds_, type(estimator).__name__).plot(ax=ax)

    def _draw(self, ax: Axes) -> None:
        passes = np.arange(1, len(self.lower_bounds) + 1)
        ax.plot(passes, self.lower_bounds, marker="o", markersize=3, color=_COLOUR)
        ax.set(xlabel="pass", ylabel="lower bound (nats)")
        ax.set_title(printable(self.estimator_name or ""), parse_math=False)
        ax.xaxis.get_major_locator().set_params(integer=True)


class CovariateEffectsDisplay(_Display):
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

    def __init__(self, names: Sequence[str], effect: ArrayLike, std: ArrayLike, credibility: float = 0.9) -> None:
        self.names = names
        self.effect = effect
        self.std = std
        self.credibility = credibility

    @classmethod
    def from_estimator(cls, estimator: Any, *, credibility: float = 0.9, ax: Axes | None = None) -> Self:
        """Plot the effects of a fitted estimator.

        Parameters
        ----------
        estimator : GPPLClassifier
            Fitted with `covariates`, `order_effect` or both.
        credibility : float, default=0.9
            Posterior probability of the intervals.
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.

        Returns
        -------
        CovariateEffectsDisplay
            The display with its plot.
        """
        columns = estimator.covariate_table(credibility=credibility)
        columns = columns.columns() if callable(columns.columns) else columns
        if not len(columns["name"]):
            raise DataError("the estimator has no effects to plot: fit it with covariates=[...] or order_effect=True")
        effect, std = (np.asarray(columns["typical"] * columns[name]) for name in ("effect", "std"))
        return cls(list(columns["name"]), effect, std, credibility).plot(ax=ax)

    def _draw(self, ax: Axes) -> None:
        place, half_width = np.arange(len(self.names)), ndtri(0.5 + 0.5 * self.credibility) * np.asarray(self.std)
        ax.axvline(0.0, color="black", linewidth=0.8)
        ax.errorbar(np.asarray(self.effect), place, xerr=half_width, fmt="o", color=_COLOUR, ecolor=_PALE, elinewidth=3)
        ax.set_yticks(place, [_shortened(name) for name in self.names], parse_math=False)
        ax.invert_yaxis()
        ax.set_xlabel(f"effect on the left side (mean and {100 * self.credibility:g} % interval)")


class RankingDisplay(_Display):
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
        What the axis counts.

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

    def __init__(
        self,
        ids: Sequence[Any],
        utility: Sequence[float],
        std: Sequence[float],
        rank_low: Sequence[int] | None = None,
        rank_high: Sequence[int] | None = None,
        n_total: int | None = None,
        unit: str = "utility",
    ) -> None:
        self.ids = ids
        self.unit = unit
        self.utility = utility
        self.std = std
        self.rank_low = rank_low
        self.rank_high = rank_high
        self.n_total = n_total

    @classmethod
    def from_estimator(
        cls, estimator: Any, items: ArrayLike | None = None, *, n_items: int = 20, ax: Axes | None = None
    ) -> RankingDisplay:
        """Plot the ranking of a fitted estimator.

        Parameters
        ----------
        estimator : estimator
            Fitted estimator with a method `rank`.
        items : array-like, default=None
            Items to rank; None means all items of the estimator.
        n_items : int, default=20
            Number of items shown, the best ones.
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.

        Returns
        -------
        RankingDisplay
            The display with its plot.
        """
        return cls.from_ranking(estimator.rank(items), n_items=n_items, ax=ax)

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

    def _draw(self, ax: Axes) -> None:
        rows = np.arange(len(self.ids))
        spread = 1.645 * np.asarray(self.std)  # 90 % of a normal distribution
        ax.errorbar(self.utility, rows, xerr=spread, fmt="o", color=_COLOUR, ecolor=_PALE, elinewidth=3, capsize=0)
        ax.set_yticks(rows, [self._label(row) for row in range(len(rows))], parse_math=False)  # "$" is a dollar
        ax.set_ylim(len(rows) - 0.5, -0.5)
        shown = f"best {len(rows)} of {self.n_total} items" if self.n_total else ""
        ax.set(xlabel=f"{self.unit} (mean and 90 % interval)", title=shown)

    def _label(self, row: int) -> str:
        name = _shortened(self.ids[row])
        if self.rank_low is None or self.rank_high is None:
            return name
        return f"{name}  [{self.rank_low[row]}-{self.rank_high[row]}]"


class WinMatrixDisplay(_Display):
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

    def __init__(self, ids: Sequence[Any], shares: ArrayLike, title: str = "") -> None:
        self.ids = ids
        self.shares = shares
        self.title = title

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        items: ArrayLike | None = None,
        *,
        which: str = "predicted",
        n_items: int = 20,
        ax: Axes | None = None,
    ) -> WinMatrixDisplay:
        """Plot the win matrix of a fitted estimator.

        Parameters
        ----------
        estimator : estimator
            Fitted estimator with a method `win_matrix`.
        items : array-like, default=None
            Ids of the items; None means all compared items, the best first.
        which : {"predicted", "observed"}, default="predicted"
            What the model predicts, or what it was fitted to.
        n_items : int, default=20
            Number of items shown, the first ones.
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.

        Returns
        -------
        WinMatrixDisplay
            The display with its plot.
        """
        wins = estimator.win_matrix(items)
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

    def _draw(self, ax: Axes) -> None:
        shares = np.asarray(self.shares, dtype=np.float64)
        names, places = [_shortened(name) for name in self.ids], np.arange(len(self.ids))
        image = ax.imshow(shares, cmap="RdBu", vmin=0.0, vmax=1.0)
        ax.figure.colorbar(image, ax=ax, label="share of wins")
        ax.set_yticks(places, names, parse_math=False)
        ax.set_xticks(places, names, parse_math=False, rotation=90)
        ax.set_title(printable(self.title), parse_math=False)
        for row, column in np.argwhere(~np.isnan(shares)) if len(names) <= _MOST_NUMBERS else ():
            share = shares[row, column]
            text = f"{share:.2f}".removeprefix("0")
            colour = "white" if abs(share - 0.5) > 0.3 else "black"
            ax.text(column, row, text, ha="center", va="center", color=colour, fontsize="small")


class PairCalibrationDisplay(_Display):
    """Predicted against observed frequencies of comparisons.

    Parameters
    ----------
    calibration : Calibration
        Result of `skpref.metrics.calibration`.
    estimator_name : str, default=None
        Name in the legend.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the plot.
    figure_ : matplotlib Figure
        Figure of the plot.

    Examples
    --------
    >>> from skpref.plots import PairCalibrationDisplay, offscreen_axes
    >>> display = PairCalibrationDisplay.from_predictions([1, 0, 1], [0.9, 0.2, 0.6], ax=offscreen_axes())
    >>> display.ax_.get_ylabel()
    'observed frequency'
    """

    def __init__(self, calibration: Calibration, estimator_name: str | None = None) -> None:
        self.calibration = calibration
        self.estimator_name = estimator_name

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: ArrayLike,
        y: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        n_bins: int = 10,
        ax: Axes | None = None,
    ) -> PairCalibrationDisplay:
        """Plot the calibration of a fitted classifier of comparisons.

        Parameters
        ----------
        estimator : estimator
            Fitted classifier with `predict_proba`.
        X : array-like of shape (P, 2)
            Comparisons that were not used to fit.
        y : array-like of shape (P,)
            Labels in [0, 1].
        sample_weight : array-like of shape (P,), default=None
            Weights.
        n_bins : int, default=10
            Number of bins.
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.

        Returns
        -------
        PairCalibrationDisplay
            The display with its plot.
        """
        p = estimator.predict_proba(X)[:, left_column(estimator.classes_)]
        y = read_labels(y, p.size)
        name = type(estimator).__name__
        return cls.from_predictions(y, p, sample_weight=sample_weight, n_bins=n_bins, estimator_name=name, ax=ax)

    @classmethod
    def from_predictions(
        cls,
        y: ArrayLike,
        p: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        n_bins: int = 10,
        estimator_name: str | None = None,
        ax: Axes | None = None,
    ) -> PairCalibrationDisplay:
        """Plot the calibration of predicted probabilities.

        Parameters
        ----------
        y : array-like of shape (P,)
            Labels in [0, 1].
        p : array-like of shape (P,)
            Predicted probabilities of y = 1.
        sample_weight : array-like of shape (P,), default=None
            Weights.
        n_bins : int, default=10
            Number of bins.
        estimator_name : str, default=None
            Name in the legend.
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.

        Returns
        -------
        PairCalibrationDisplay
            The display with its plot.
        """
        return cls(calibration(y, p, n_bins, sample_weight), estimator_name).plot(ax=ax)

    def _draw(self, ax: Axes) -> None:
        c = self.calibration
        # A calibrated model stays within this band about two times in three.
        expected = np.sqrt(np.maximum(c.mean_predicted * (1.0 - c.mean_predicted), 0.0) / np.maximum(c.count, 1))
        ax.plot([0, 1], [0, 1], linestyle=":", color="grey", label="perfect")
        ax.fill_between(
            c.mean_predicted,
            np.clip(c.mean_predicted - expected, 0, 1),
            np.clip(c.mean_predicted + expected, 0, 1),
            color="grey",
            alpha=0.15,
            linewidth=0,
            label="perfect ± 1 standard error",
        )
        size = 20.0 + 180.0 * c.count / max(int(c.count.max()), 1)
        label = f"{printable(self.estimator_name or 'predictions')} (error {c.expected_calibration_error:.3f})"
        points = (c.mean_predicted, c.mean_observed)
        ax.scatter(*points, s=size, color=_COLOUR, alpha=0.8, label=label, clip_on=False, zorder=3)
        ax.set(xlabel="predicted probability of the left item", ylabel="observed frequency", xlim=(0, 1), ylim=(0, 1))
        for text in ax.legend(loc="upper left", markerscale=0.6).get_texts():
            text.set_parse_math(False)


class AnnotatorDisplay(_Display):
    """Expected accuracy of annotators with credible intervals, by their number of labels.

    Parameters
    ----------
    user : sequence of length n
        Names of the annotators.
    n_labels : array-like of shape (n,)
        Number of labels (or total weight) of each annotator.
    accuracy : array-like of shape (n,)
        Probability that an answer agrees with the consensus.
    accuracy_low, accuracy_high : array-like of shape (n,)
        Ends of the credible interval of the accuracy.
    n_names : int, default=3
        Number of names shown, those of the least accurate annotators.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the plot.
    figure_ : matplotlib Figure
        Figure of the plot.

    Examples
    --------
    >>> from skpref.plots import AnnotatorDisplay, offscreen_axes
    >>> display = AnnotatorDisplay(["ann", "bob"], [40, 12], [0.9, 0.55], [0.8, 0.4], [0.95, 0.7], n_names=1)
    >>> ax = display.plot(ax=offscreen_axes()).ax_
    >>> ax.get_xlabel(), [text.get_text() for text in ax.texts]
    ('number of labels', ['bob'])
    """

    def __init__(
        self,
        user: Sequence[Any],
        n_labels: Sequence[float],
        accuracy: Sequence[float],
        accuracy_low: Sequence[float],
        accuracy_high: Sequence[float],
        n_names: int = 3,
    ) -> None:
        self.user = user
        self.n_labels = n_labels
        self.accuracy = accuracy
        self.accuracy_low = accuracy_low
        self.accuracy_high = accuracy_high
        self.n_names = n_names

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, credibility: float = 0.9, n_names: int = 3, ax: Axes | None = None
    ) -> AnnotatorDisplay:
        """Plot the annotators of a fitted crowd model.

        Parameters
        ----------
        estimator : estimator
            Fitted estimator with a method `annotators`.
        credibility : float, default=0.9
            Probability of the credible intervals.
        n_names : int, default=3
            Number of names shown, those of the least accurate annotators.
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.

        Returns
        -------
        AnnotatorDisplay
            The display with its plot.
        """
        return cls.from_annotators(estimator.annotators(credibility=credibility), n_names=n_names, ax=ax)

    @classmethod
    def from_annotators(cls, annotators: Any, *, n_names: int = 3, ax: Axes | None = None) -> AnnotatorDisplay:
        """Plot a report on annotators.

        Parameters
        ----------
        annotators : pandas.DataFrame or record
            Result of `CrowdGPPL.annotators`.
        n_names : int, default=3
            Number of names shown, those of the least accurate annotators.
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.

        Returns
        -------
        AnnotatorDisplay
            The display with its plot.
        """
        a = annotators
        columns = (a.user, a.n_labels, a.accuracy, a.accuracy_low, a.accuracy_high)
        user, n_labels, accuracy, low, high = (np.asarray(column).tolist() for column in columns)
        return cls(user, n_labels, accuracy, low, high, n_names).plot(ax=ax)

    def _draw(self, ax: Axes) -> None:
        n, mean = np.asarray(self.n_labels, dtype=np.float64), np.asarray(self.accuracy, dtype=np.float64)
        # A mean can lie outside its interval, but error bars must not be negative.
        reach = np.maximum([mean - np.asarray(self.accuracy_low), np.asarray(self.accuracy_high) - mean], 0.0)
        ax.axhline(0.5, linestyle=":", color="grey")
        ax.errorbar(n, mean, yerr=reach, fmt="o", markersize=4, color=_COLOUR, ecolor=_PALE, elinewidth=2, alpha=0.8)
        for row in np.argsort(mean, kind="stable")[: self.n_names]:
            style = {"xytext": (5, -3), "textcoords": "offset points", "fontsize": "small", "parse_math": False}
            ax.annotate(_shortened(self.user[row]), (n[row], mean[row]), **style)
        if n.size and n.max() > _WIDE * n.min():
            ax.set_xscale("log")
        else:
            ax.xaxis.get_major_locator().set_params(integer=True)
        title = f"{n.size} annotators (0.5 = random answers)"
        ax.set(xlabel="number of labels", ylabel="probability to agree with the consensus", ylim=(0, 1), title=title)
