"""Rankings, drawn."""

from itertools import pairwise

import numpy as np
import pytest

from skpref.plots import CovariateEffectsDisplay, RankingDisplay, WinMatrixDisplay, offscreen_axes


def test_the_best_stands_on_top(model):
    display = RankingDisplay.from_estimator(model, n_items=4, ax=offscreen_axes())
    ax = display.ax_
    labels = [tick.get_text() for tick in ax.get_yticklabels()]
    assert labels[0].startswith("5  [1")
    assert len(labels) == 4
    low, high = ax.get_ylim()
    assert low > high
    assert ax.get_title() == "best 4 of 6 items  [90 % interval of the rank]"
    assert list(display.utility) == sorted(display.utility, reverse=True)


def test_the_title_says_what_is_shown(model):
    everything = RankingDisplay.from_estimator(model, ax=offscreen_axes())
    assert everything.ax_.get_title() == "6 items  [90 % interval of the rank]"
    plain = RankingDisplay(["tea", "milk"], [0.4, -0.4], [0.2, 0.3], n_total=3).plot(ax=offscreen_axes())
    assert plain.ax_.get_title() == "best 2 of 3 items"
    assert [tick.get_text() for tick in plain.ax_.get_yticklabels()] == ["tea", "milk"]


def test_a_ranking_in_elo_points_says_so(model):
    ax = RankingDisplay.from_ranking(model.rank(scale="elo"), ax=offscreen_axes()).ax_
    assert ax.get_xlabel() == "Elo points (mean and 90 % interval)"


def test_some_items_only(model):
    display = RankingDisplay.from_estimator(model, [2, 4], ax=offscreen_axes())
    assert list(display.ids) == [4, 2]


def test_long_names_are_cut():
    display = RankingDisplay(["x" * 100], [1.0], [0.1]).plot(ax=offscreen_axes())
    assert len(display.ax_.get_yticklabels()[0].get_text()) == 30


def test_intervals_are_of_90_per_cent():
    ax = RankingDisplay(["a"], [2.0], [0.5]).plot(ax=offscreen_axes()).ax_
    (segment,) = ax.collections[0].get_segments()
    assert segment[:, 0] == pytest.approx([2.0 - 1.645 * 0.5, 2.0 + 1.645 * 0.5])


def test_from_estimator_takes_the_scale_of_rank(model):
    display = RankingDisplay.from_estimator(model, scale="elo", ax=offscreen_axes())
    assert list(display.utility) == model.rank(scale="elo").utility.tolist()
    assert display.ax_.get_xlabel() == "Elo points (mean and 90 % interval)"
    with pytest.raises(ValueError, match="scale"):
        RankingDisplay.from_estimator(model, scale="points", ax=offscreen_axes())


def test_a_rank_without_doubt_is_one_number():
    display = RankingDisplay(["tea", "milk"], [0.4, -0.4], [0.2, 0.3], [1, 1], [1, 2]).plot(ax=offscreen_axes())
    assert [tick.get_text() for tick in display.ax_.get_yticklabels()] == ["tea  [1]", "milk  [1-2]"]


@pytest.mark.parametrize(("n", "own"), [(5, True), (40, False), (80, True)])
def test_labels_never_overlap(n, own):
    import matplotlib.pyplot as plt

    names = [f"a rather long name of item {number}" for number in range(n)]
    shares = np.full((n, n), 0.5)
    rows = RankingDisplay(names, np.zeros(n), np.ones(n)), CovariateEffectsDisplay(names, np.zeros(n), np.ones(n))
    for display in (*rows, WinMatrixDisplay(names, shares, "observed share of wins, row against column")):
        display.plot(ax=None if own else offscreen_axes())
        display.figure_.canvas.draw()
        labels = display.ax_.get_yticklabels()
        boxes = [label.get_window_extent() for label in labels]
        assert all(below.y1 <= above.y0 + 1.0 for above, below in pairwise(boxes))
        if display in rows:
            assert not own or labels[0].get_fontsize() > 8.0
        else:  # the numbers beside the colours
            beside = display.figure_.axes[1].get_yticklabels()[-1].get_window_extent()
            assert not beside.overlaps(display.ax_.title.get_window_extent())
        plt.close(display.figure_)
