"""Accuracy of annotators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from skpref.plots._base import COLOUR, PALE, Display, fitted_part, fitting, label_ends, shortened

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes


@dataclass(eq=False, repr=False)
class AnnotatorDisplay(Display):
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
    >>> accuracy, low, high = [0.9, 0.55], [0.8, 0.4], [0.95, 0.7]
    >>> display = AnnotatorDisplay(["ann", "bob"], [40, 12], accuracy, low, high, n_names=1)
    >>> ax = display.plot(ax=offscreen_axes()).ax_
    >>> ax.get_xlabel(), [text.get_text() for text in ax.texts]
    ('number of labels', ['bob'])
    """

    user: Sequence[Any]
    n_labels: Sequence[float]
    accuracy: Sequence[float]
    accuracy_low: Sequence[float]
    accuracy_high: Sequence[float]
    n_names: int = 3

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, credibility: float = 0.9, n_names: int = 3, ax: Axes | None = None
    ) -> AnnotatorDisplay:
        """Plot the annotators of a fitted crowd model.

        Parameters
        ----------
        estimator : estimator
            Fitted estimator with a method `annotators`, or a Pipeline or search of one.
        credibility : float, default=0.9
            Probability of the credible intervals.
        n_names : int, default=3
            Number of names shown, those of the least accurate annotators; no more than have room.
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.

        Returns
        -------
        AnnotatorDisplay
            The display with its plot.
        """
        annotators = fitted_part(estimator, "annotators").annotators(credibility=credibility)
        return cls.from_annotators(annotators, n_names=n_names, ax=ax)

    @classmethod
    def from_annotators(cls, annotators: Any, *, n_names: int = 3, ax: Axes | None = None) -> AnnotatorDisplay:
        """Plot a report on annotators.

        Parameters
        ----------
        annotators : pandas.DataFrame or record
            Result of `CrowdGPPL.annotators`.
        n_names : int, default=3
            Number of names shown, those of the least accurate annotators; no more than have room.
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
        ax.errorbar(n, mean, yerr=reach, fmt="o", markersize=4, color=COLOUR, ecolor=PALE, elinewidth=2, alpha=0.8)
        # Ratio of the most to the fewest labels from which their axis is logarithmic.
        if n.size and n.max() > 20.0 * n.min():
            ax.set_xscale("log")
        else:
            ax.xaxis.get_major_locator().set_params(integer=True)
        title = f"{n.size} annotators (0.5 = random answers)"
        ax.set(xlabel="number of labels", ylabel="probability to agree with the consensus", ylim=(0, 1), title=title)
        worst = np.argsort(mean, kind="stable")[: self.n_names]
        step, _ = fitting(ax, worst.size)
        worst = worst[: -(-worst.size // step)]  # as many as fit
        names = [shortened(self.user[row]) for row in worst]
        label_ends(ax, mean[worst], names, ["grey"] * worst.size, n[worst])
