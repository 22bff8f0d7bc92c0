"""Displays: what is drawn, and where."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

from skpref import CrowdGPPL, GPPLClassifier
from skpref.exceptions import DataError, MissingExtraError
from skpref.plots import (
    AnnotatorDisplay,
    BoundDisplay,
    CovariateEffectsDisplay,
    PairCalibrationDisplay,
    RankingDisplay,
    WinMatrixDisplay,
    offscreen_axes,
)

if TYPE_CHECKING:
    from pathlib import Path

matplotlib = pytest.importorskip("matplotlib")

X = np.array([(i, j) for i in range(6) for j in range(6) if i != j])
Y = (X[:, 0] > X[:, 1]).astype(float)


@pytest.fixture(scope="module")
def model() -> GPPLClassifier:
    return GPPLClassifier(random_state=0).fit(X, Y)


def test_the_bound_after_each_pass(model: GPPLClassifier) -> None:
    ax = offscreen_axes()
    display = BoundDisplay.from_estimator(model, ax=ax)
    assert display.ax_ is ax
    assert display.figure_ is ax.figure
    (line,) = ax.lines
    assert line.get_xdata().tolist() == list(range(1, model.n_iter_ + 1))
    assert line.get_ydata().tolist() == model.lower_bounds_
    assert ax.get_title() == "GPPLClassifier"


def test_the_best_stands_on_top(model: GPPLClassifier) -> None:
    display = RankingDisplay.from_estimator(model, n_items=4, ax=offscreen_axes())
    ax = display.ax_
    labels = [tick.get_text() for tick in ax.get_yticklabels()]
    assert labels[0].startswith("5  [1-")
    assert len(labels) == 4
    low, high = ax.get_ylim()
    assert low > high
    assert ax.get_title() == "best 4 of 6 items"
    assert list(display.utility) == sorted(display.utility, reverse=True)


def test_a_ranking_in_elo_points_says_so(model: GPPLClassifier) -> None:
    ax = RankingDisplay.from_ranking(model.rank(scale="elo"), ax=offscreen_axes()).ax_
    assert ax.get_xlabel() == "Elo points (mean and 90 % interval)"


def test_some_items_only(model: GPPLClassifier) -> None:
    display = RankingDisplay.from_estimator(model, [2, 4], ax=offscreen_axes())
    assert list(display.ids) == [4, 2]


def test_a_win_matrix_is_a_heat_map(model: GPPLClassifier) -> None:
    display = WinMatrixDisplay.from_estimator(model, which="observed", n_items=3, ax=offscreen_axes())
    ax = display.ax_
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["5", "4", "3"]
    assert [text.get_text() for text in ax.texts] == ["1.00", "1.00", ".00", "1.00", ".00", ".00"]
    (image,) = ax.images
    np.testing.assert_array_equal(np.asarray(image.get_array().filled(np.nan)), model.win_matrix().observed[:3, :3])
    assert ax.images[0].get_clim() == (0.0, 1.0)
    assert {text.get_text(): text.get_color() for text in ax.texts} == {"1.00": "white", ".00": "white"}
    middle = WinMatrixDisplay(["a", "b"], [[np.nan, 0.7], [0.3, np.nan]]).plot(ax=offscreen_axes()).ax_
    assert {text.get_position(): text.get_color() for text in middle.texts} == {(1, 0): "black", (0, 1): "black"}
    few = WinMatrixDisplay(list(range(15)), np.full((15, 15), 0.5)).plot(ax=offscreen_axes())
    assert len(few.ax_.texts) == 225
    many = WinMatrixDisplay(list(range(16)), np.full((16, 16), 0.5)).plot(ax=offscreen_axes())
    assert len(many.ax_.texts) == 0


def test_long_names_are_cut() -> None:
    display = RankingDisplay(["x" * 100], [1.0], [0.1]).plot(ax=offscreen_axes())
    assert len(display.ax_.get_yticklabels()[0].get_text()) == 30


def test_intervals_are_of_90_per_cent() -> None:
    ax = RankingDisplay(["a"], [2.0], [0.5]).plot(ax=offscreen_axes()).ax_
    (segment,) = ax.collections[0].get_segments()
    assert segment[:, 0] == pytest.approx([2.0 - 1.645 * 0.5, 2.0 + 1.645 * 0.5])


def test_calibration_from_estimator_and_from_predictions(model: GPPLClassifier) -> None:
    one = PairCalibrationDisplay.from_estimator(model, X, Y, n_bins=4, ax=offscreen_axes())
    p = model.predict_proba(X)[:, 1]
    two = PairCalibrationDisplay.from_predictions(Y, p, n_bins=4, ax=offscreen_axes())
    assert one.calibration.mean_observed.tolist() == two.calibration.mean_observed.tolist()
    assert one.calibration.count.sum() == len(Y)
    offsets = np.asarray(one.ax_.collections[-1].get_offsets())
    assert offsets[:, 0] == pytest.approx(one.calibration.mean_predicted)
    assert offsets[:, 1] == pytest.approx(one.calibration.mean_observed)
    c, ax = one.calibration, one.ax_
    assert [line.get_xydata().tolist() for line in ax.lines] == [[[0.0, 0.0], [1.0, 1.0]]]  # perfect
    error = np.sqrt(c.mean_predicted * (1.0 - c.mean_predicted) / c.count)
    ends = [np.clip(c.mean_predicted + sign * error, 0.0, 1.0) for sign in (-1.0, 1.0)]
    (band,) = ax.collections[0].get_paths()
    wanted = {(x, y) for x, *both in np.transpose([c.mean_predicted, *ends]).round(9).tolist() for y in both}
    assert {tuple(point) for point in band.vertices.round(9).tolist()} == wanted
    assert (ax.get_xlim(), ax.get_ylim()) == ((0.0, 1.0), (0.0, 1.0))
    area = ax.collections[-1].get_sizes()
    assert area.argmax() == c.count.argmax()
    assert np.argsort(area, kind="stable").tolist() == np.argsort(c.count, kind="stable").tolist()


def test_annotators_from_estimator_and_from_their_report() -> None:
    rng = np.random.default_rng(0)
    rows = np.array([(f"judge {u}", *rng.choice(5, 2, replace=False)) for u in range(4) for _ in range(5 + 3 * u)])
    y = (rows[:, 1].astype(int) > rows[:, 2].astype(int)).astype(float)
    crowd = CrowdGPPL(n_factors=1, random_state=0).fit(rows, y)
    one = AnnotatorDisplay.from_estimator(crowd, n_names=2, ax=offscreen_axes())
    two = AnnotatorDisplay.from_annotators(crowd.annotators(), n_names=2, ax=offscreen_axes())
    assert one.accuracy == two.accuracy
    points, *_ = one.ax_.containers[0]
    assert points.get_xdata().tolist() == [5.0, 8.0, 11.0, 14.0]
    assert points.get_ydata().tolist() == one.accuracy
    least = [one.user[row] for row in np.argsort(one.accuracy)[:2]]
    assert [text.get_text() for text in one.ax_.texts] == least
    assert one.ax_.get_title().startswith("4 annotators")
    assert one.ax_.get_ylim() == (0.0, 1.0)


def test_intervals_of_annotators_reach_from_end_to_end() -> None:
    display = AnnotatorDisplay(["a", "b"], [2, 300], [0.9, 0.5], [0.7, 0.4], [0.95, 0.8], n_names=0)
    ax = display.plot(ax=offscreen_axes()).ax_
    bars = ax.containers[0][2][0].get_segments()
    assert bars[0][:, 1] == pytest.approx([0.7, 0.95])
    assert bars[1][:, 1] == pytest.approx([0.4, 0.8])
    assert ax.get_xscale() == "log"
    assert not ax.texts


def test_a_mean_outside_its_interval_is_drawn_all_the_same() -> None:
    ax = AnnotatorDisplay(["x" * 90], [3], [0.5], [0.55], [0.6]).plot(ax=offscreen_axes()).ax_
    assert ax.containers[0][2][0].get_segments()[0][:, 1] == pytest.approx([0.5, 0.6])
    assert len(ax.texts[0].get_text()) == 30
    assert ax.get_xscale() == "linear"


def test_saving_needs_no_pyplot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    BoundDisplay([-2.0, -1.0]).plot(ax=offscreen_axes()).figure_.savefig(tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_without_axes_a_figure_is_made() -> None:
    import matplotlib.pyplot as plt

    display = BoundDisplay([-2.0, -1.0]).plot()
    assert plt.fignum_exists(display.figure_.number)
    plt.close(display.figure_)


@pytest.mark.parametrize("module", ["matplotlib.pyplot", "matplotlib.figure"])
def test_the_extra_is_named(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=r"skpref\[plots\]"):
        BoundDisplay([1.0]).plot(ax=None if module.endswith("pyplot") else offscreen_axes())


def test_names_are_drawn_literally(tmp_path: Path) -> None:
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


def test_effects_are_drawn_for_typical_values():
    rng = np.random.default_rng(0)
    pairs = np.array([rng.permutation(4)[:2] for _ in range(100)])
    X = np.column_stack([pairs, 10.0 * rng.choice([-1, 1], 100)])
    model = GPPLClassifier(covariates=[2], order_effect=True).fit(X, rng.integers(0, 2, 100))
    display = CovariateEffectsDisplay.from_estimator(model, credibility=0.8, ax=offscreen_axes())
    assert display.names == ["2", "left side"]
    np.testing.assert_allclose(display.effect, [10.0 * model.coef_[0], model.order_effect_[0]])
    assert "80 %" in display.ax_.get_xlabel()
    with pytest.raises(DataError, match="no effects to plot"):
        CovariateEffectsDisplay.from_estimator(GPPLClassifier().fit(pairs))
