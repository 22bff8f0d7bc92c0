"""Plots with scikit-learn's display interface: `XDisplay.from_estimator(...)` draws and sets `ax_` and `figure_`."""

from skpref.plots._annotators import AnnotatorDisplay
from skpref.plots._base import offscreen_axes
from skpref.plots._bounds import BoundDisplay
from skpref.plots._calibrations import PairCalibrationDisplay
from skpref.plots._choices import PartWorthsDisplay, ShareCurvesDisplay, SharesDisplay
from skpref.plots._curves import SkillCurvesDisplay
from skpref.plots._effects import CovariateEffectsDisplay
from skpref.plots._rankings import RankingDisplay
from skpref.plots._wins import WinMatrixDisplay

__all__ = [
    "AnnotatorDisplay",
    "BoundDisplay",
    "CovariateEffectsDisplay",
    "PairCalibrationDisplay",
    "PartWorthsDisplay",
    "RankingDisplay",
    "ShareCurvesDisplay",
    "SharesDisplay",
    "SkillCurvesDisplay",
    "WinMatrixDisplay",
    "offscreen_axes",
]
