"""Where displays draw, and the names they show."""

import sys

import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from skpref import GPPLClassifier
from skpref.exceptions import DataError, MissingExtraError
from skpref.plots import (
    AnnotatorDisplay,
    BoundDisplay,
    PairCalibrationDisplay,
    RankingDisplay,
    WinMatrixDisplay,
    offscreen_axes,
)
from skpref.plots._base import shortened


def test_saving_needs_no_pyplot(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    BoundDisplay([-2.0, -1.0]).plot(ax=offscreen_axes()).figure_.savefig(tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_without_axes_a_figure_is_made():
    import matplotlib.pyplot as plt

    display = BoundDisplay([-2.0, -1.0]).plot()
    assert plt.fignum_exists(display.figure_.number)
    plt.close(display.figure_)


@pytest.mark.parametrize("module", ["matplotlib.pyplot", "matplotlib.figure"])
def test_the_extra_is_named(module, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=r"skpref\[plots\]"):
        BoundDisplay([1.0]).plot(ax=None if module.endswith("pyplot") else offscreen_axes())


def test_names_are_drawn_literally(tmp_path):
    names = ["Juice $5 (\\50% off $2)", "a\nb\x1b", "$\\frac{$"]
    shown = ["Juice $5 (\\50% off $2)", "a\\nb\\x1b", "$\\frac{$"]
    ranked = RankingDisplay(names, [3.0, 2.0, 1.0], [0.1] * 3).plot(ax=offscreen_axes())
    assert [tick.get_text() for tick in ranked.ax_.get_yticklabels()] == shown
    people = AnnotatorDisplay(names, [3, 4, 5], [0.5, 0.6, 0.7], [0.4] * 3, [0.8] * 3).plot(ax=offscreen_axes())
    assert [text.get_text() for text in people.ax_.texts] == shown
    bound = BoundDisplay([1.0, 2.0], names[0]).plot(ax=offscreen_axes())
    predictions = PairCalibrationDisplay.from_predictions(
        [1, 0], [0.9, 0.2], estimator_name=names[0], ax=offscreen_axes()
    )
    for display in (ranked, people, bound, predictions):
        display.figure_.savefig(tmp_path / "a.png")


def test_pipelines_and_searches_are_drawn_and_others_refused(comparisons, model):
    wraps = [make_pipeline(model), GridSearchCV(model, {"tol": [1e-3]}, cv=2).fit(*comparisons)]
    for wrapped in wraps:
        for display in (RankingDisplay, WinMatrixDisplay, BoundDisplay):
            assert display.from_estimator(wrapped, ax=offscreen_axes()).ax_ is not None
    with pytest.raises(DataError, match="a GPPLClassifier has no annotators, which this display draws"):
        AnnotatorDisplay.from_estimator(model)
    with pytest.raises(DataError, match="a LogisticRegression has no rank, which this display draws"):
        RankingDisplay.from_estimator(LogisticRegression().fit([[0.0], [1.0]], [0, 1]))
    with pytest.raises(NotFittedError):
        BoundDisplay.from_estimator(GPPLClassifier())


def test_long_names_keep_their_ends():
    assert shortened("a" * 30) == "a" * 30
    assert shortened("a" * 30 + " = 10") == "a" * 19 + "…" + "aaaaa = 10"
