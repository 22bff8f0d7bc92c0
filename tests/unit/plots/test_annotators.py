"""Annotators, drawn."""

import itertools

import numpy as np
import pytest

from skpref import CrowdGPPL
from skpref.plots import AnnotatorDisplay, offscreen_axes

Text = pytest.importorskip("matplotlib.text").Text


def test_annotators_from_estimator_and_from_their_report():
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


def test_intervals_of_annotators_reach_from_end_to_end():
    display = AnnotatorDisplay(["a", "b"], [2, 300], [0.9, 0.5], [0.7, 0.4], [0.95, 0.8], n_names=0)
    ax = display.plot(ax=offscreen_axes()).ax_
    bars = ax.containers[0][2][0].get_segments()
    assert bars[0][:, 1] == pytest.approx([0.7, 0.95])
    assert bars[1][:, 1] == pytest.approx([0.4, 0.8])
    assert ax.get_xscale() == "log"
    assert not ax.texts


def test_a_mean_outside_its_interval_is_drawn_all_the_same():
    ax = AnnotatorDisplay(["x" * 90], [3], [0.5], [0.55], [0.6]).plot(ax=offscreen_axes()).ax_
    assert ax.containers[0][2][0].get_segments()[0][:, 1] == pytest.approx([0.5, 0.6])
    assert len(ax.texts[0].get_text()) == 30
    assert ax.get_xscale() == "linear"


def test_names_that_have_no_room_are_left_out():
    n = 200
    names, accuracy = [f"judge {k}" for k in range(n)], np.linspace(0.82, 0.85, n).tolist()
    shown = AnnotatorDisplay(names, [25.0] * n, accuracy, accuracy, accuracy, n).plot(ax=offscreen_axes())
    shown.ax_.figure.canvas.draw()
    axes = shown.ax_.get_window_extent()
    boxes = [Text.get_window_extent(text) for text in shown.ax_.texts]  # without the lines to the points
    assert 20 < len(boxes) < n
    assert all(axes.y0 - box.height <= box.y0 and box.y1 <= axes.y1 + box.height for box in boxes)
    ends = sorted((box.y0, box.y1) for box in boxes)
    assert all(low >= high - 1.0 for (_, high), (low, _) in itertools.pairwise(ends))


@pytest.mark.parametrize("n", [5, 40, 200])
def test_names_lie_beside_all_points(n):
    rng = np.random.default_rng(n)
    accuracy, counts = rng.uniform(0.4, 0.95, n), rng.integers(1, 400, n)
    names = [f"annotator {k:03d} of a long name" for k in range(n)]
    shown = AnnotatorDisplay(names, counts, accuracy, accuracy - 0.1, accuracy + 0.05, 12).plot(ax=offscreen_axes())
    shown.ax_.figure.canvas.draw()
    boxes = [Text.get_window_extent(text) for text in shown.ax_.texts]
    assert len(boxes) == min(n, 12)
    points = shown.ax_.transData.transform(np.column_stack([counts, accuracy]))
    assert points[:, 0].max() < min(box.x0 for box in boxes)
    assert max(box.x1 for box in boxes) <= shown.ax_.figure.bbox.x1
    ends = sorted((box.y0, box.y1) for box in boxes)
    assert all(low >= high - 1.0 for (_, high), (low, _) in itertools.pairwise(ends))
