"""Predicted against observed frequencies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from skpref._text import printable
from skpref.data.labels import left_column, read_labels, sides_of_grades
from skpref.likelihoods.ties import share_of_left
from skpref.metrics import calibration
from skpref.plots._base import COLOUR, Display

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike

    from skpref.metrics import Calibration


@dataclass(eq=False, repr=False)
class PairCalibrationDisplay(Display):
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

    calibration: Calibration
    estimator_name: str | None = None

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
            Labels in [0, 1], or grades, of which the side counts.
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
        if estimator.classes_.size > 2:  # grades
            p, y = share_of_left(estimator.predict_proba(X)[:, ::-1]), sides_of_grades(y, estimator.classes_)
        else:
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
        ax.scatter(*points, s=size, color=COLOUR, alpha=0.8, label=label, clip_on=False, zorder=3)
        ax.set(xlabel="predicted probability of the left item", ylabel="observed frequency", xlim=(0, 1), ylim=(0, 1))
        for text in ax.legend(loc="upper left", markerscale=0.6).get_texts():
            text.set_parse_math(False)
