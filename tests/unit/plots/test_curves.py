"""Utilities over time, drawn."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from skpref import GPPLClassifier
from skpref.exceptions import DataError
from skpref.plots import RankingDisplay, SkillCurvesDisplay, WinMatrixDisplay, offscreen_axes
from skpref.plots._base import label_ends


def fitted(*, dated=False):
    """Return a model of seven items, the larger number the better; item 6 is compared from time 50 on."""
    rng = np.random.default_rng(0)
    left = rng.integers(0, 7, 300)
    right = (left + rng.integers(1, 7, 300)) % 7
    late = (left == 6) | (right == 6)
    time = np.where(late, rng.integers(50, 101, 300), rng.integers(0, 101, 300))
    if dated:
        time = pd.Timestamp("2024-01-01") + pd.to_timedelta(time, "D")
    X = pd.DataFrame({"left": left, "right": right, "time": time})
    y = rng.random(300) < 1.0 / (1.0 + np.exp((right - left) / 2.0))
    return GPPLClassifier(time="time", dynamics="drift", likelihood="logit").fit(X, y)


@pytest.fixture(scope="module")
def moving():
    return fitted()


def texts(display):
    return list(display.ax_.texts)


def test_the_five_best_are_drawn_and_forecast(moving):
    display = SkillCurvesDisplay.from_estimator(moving, credibility=0.8, ax=offscreen_axes())
    assert list(display.ids) == moving.rank().id[:5].tolist()
    time = np.asarray(display.time)
    assert (time[0], time[-1], display.end) == (0.0, pytest.approx(110.0), 100.0)
    assert 100.0 in time
    curves = moving.curves(display.ids, times=time, credibility=0.8)
    drawn = np.asarray(display.utility)
    begun = ~np.isnan(drawn)
    for name in ("utility", "utility_low", "utility_high"):
        want = curves[name].to_numpy().reshape(drawn.shape)
        np.testing.assert_allclose(np.asarray(getattr(display, name))[begun], want[begun], atol=1e-12)
    width = np.asarray(display.utility_high) - np.asarray(display.utility_low)
    assert (np.diff(width[:, time >= 100.0], axis=1) > 0.0).all()  # bands fan out
    assert display.ax_.get_ylabel() == "utility (mean and 80 % interval)"
    *lines, last = display.ax_.lines
    assert len(lines) == len(display.ax_.collections) == 5
    assert last.get_xdata()[0] == 100.0


def test_a_line_begins_at_the_first_comparison(moving):
    times = [110, 40, 60, 40, 80]
    display = SkillCurvesDisplay.from_estimator(moving, [6, 0], times=times, ax=offscreen_axes())
    assert np.asarray(display.time).tolist() == [40, 60, 80, 110]
    assert np.isnan(np.asarray(display.utility)).tolist() == [[True, False, False, False], [False] * 4]
    with pytest.raises(DataError, match="item 6 has its first comparison after all times"):
        SkillCurvesDisplay.from_estimator(moving, [0, 6], times=[10, 20])


def test_displays_are_of_the_groups_that_are_named(moving):
    held = moving._comparisons
    X = pd.DataFrame({"left": held.left, "right": held.right, "time": held.time, "where": held.left % 2})
    model = GPPLClassifier(time="time", groups=["where"], dynamics="constant").fit(X, held.y)
    options = {"groups": {"where": 1}}
    assert not np.array_equal(model.utility(), model.utility(**options))
    best = model.rank(**options)
    ranking = RankingDisplay.from_estimator(model, **options, ax=offscreen_axes())
    assert list(ranking.utility) == best.utility.tolist()
    shares = WinMatrixDisplay.from_estimator(model, **options, ax=offscreen_axes()).shares
    np.testing.assert_array_equal(shares, model.win_matrix(**options).predicted)
    display = SkillCurvesDisplay.from_estimator(model, times=[100.0], **options, ax=offscreen_axes())
    assert list(display.ids) == best.id[:5].tolist()
    np.testing.assert_allclose(np.ravel(display.utility), best.utility[:5])


def test_times_before_the_last_comparison_draw_no_line_there(moving):
    ax = SkillCurvesDisplay.from_estimator(moving, [0], times=[10, 20, 30], ax=offscreen_axes()).ax_
    assert len(ax.lines) == 1
    assert ax.get_xlim() == (10.0, 30.0)


def test_dates_are_drawn_as_dates(moving):
    dated = fitted(dated=True)
    display = SkillCurvesDisplay.from_estimator(dated, [0, 5], ax=offscreen_axes())
    assert display.end == np.datetime64("2024-04-10")
    assert np.asarray(display.time)[[0, -1]].astype("datetime64[D]").tolist() == [
        np.datetime64("2024-01-01").astype(object),
        np.datetime64("2024-04-20").astype(object),
    ]
    display.figure_.canvas.draw()
    assert any("2024" in tick.get_text() for tick in display.ax_.get_xticklabels())
    same = SkillCurvesDisplay.from_estimator(moving, [0, 5], ax=offscreen_axes())
    np.testing.assert_allclose(np.asarray(display.utility), np.asarray(same.utility), atol=1e-3)
    one = SkillCurvesDisplay.from_estimator(dated, [0], times=["2024-02-01", "2024-03-01"], ax=offscreen_axes())
    assert np.asarray(one.time).astype("datetime64[D]").astype(str).tolist() == ["2024-02-01", "2024-03-01"]


def test_elo_points_are_those_of_rank(moving):
    display = SkillCurvesDisplay.from_estimator(moving, scale="elo", times=[100], ax=offscreen_axes())
    ranking = moving.rank(scale="elo")[:5]
    np.testing.assert_allclose(np.asarray(display.utility)[:, 0], ranking.utility)
    high = moving.curves(display.ids, times=[100]).utility_high
    np.testing.assert_allclose(np.asarray(display.utility_high)[:, 0], 1500.0 + 400.0 / np.log(10.0) * high)
    assert display.ax_.get_ylabel() == "Elo points (mean and 90 % interval)"
    with pytest.raises(DataError, match="scale must be 'utility' or 'elo'; got 'points'"):
        SkillCurvesDisplay.from_estimator(moving, scale="points")


@pytest.mark.parametrize(("n", "spread"), [(1, 1.0), (5, 0.0), (20, 0.01), (60, 1.0), (120, 0.0)])
def test_names_never_overlap_and_stay_in_order(n, spread):
    rng = np.random.default_rng(n)
    ends = spread * rng.normal(size=n)
    lines = np.column_stack([np.linspace(-1.0, 1.0, n), ends])
    names = [f"item {k} of $n" for k in range(n)]
    display = SkillCurvesDisplay(names, [0, 1], lines, lines - 0.1, lines + 0.1).plot(ax=offscreen_axes())
    display.figure_.canvas.draw()
    heights = [(text.get_position()[1], text.get_fontsize()) for text in texts(display)]
    room = display.ax_.get_window_extent().height / np.ptp(display.ax_.get_ylim()) * 72.0 / display.figure_.dpi
    for (low, size), (high, _) in pairwise(heights):
        assert (high - low) * room > size
    shown = {text.get_text(): k for k, text in enumerate(texts(display))}
    order = [names[k] for k in np.argsort(ends, kind="stable") if names[k] in shown]
    assert list(shown) == order
    assert len(shown) == n or n > 20
    right = max(text.get_window_extent().x1 for text in texts(display))
    assert right <= display.figure_.bbox.x1


def test_names_stay_at_the_ends_where_there_is_room():
    ax = offscreen_axes()
    ax.set_ylim(0.0, 10.0)
    label_ends(ax, np.array([9.0, 1.0, 5.0]), ["a", "b", "c"], ["C0", "C1", "C2"])
    assert [(text.get_text(), text.get_position()[1]) for text in ax.texts] == [("b", 1.0), ("c", 5.0), ("a", 9.0)]


def test_what_has_no_curves(moving, model):
    with pytest.raises(DataError, match="no curves to plot: fit it with time="):
        SkillCurvesDisplay.from_estimator(model)
    with pytest.raises(DataError, match="nothing to plot"):
        SkillCurvesDisplay.from_estimator(moving, times=[])
    with pytest.raises(DataError, match="99"):
        SkillCurvesDisplay.from_estimator(moving, [99])
    with pytest.raises(DataError, match="times must be finite numbers"):
        SkillCurvesDisplay.from_estimator(moving, times=["2024-01-01"])
