"""Shares and part-worths, drawn."""

import sys
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from skpref import CrowdGPPL
from skpref.datasets import make_choices
from skpref.exceptions import DataError
from skpref.plots import PartWorthsDisplay, ShareCurvesDisplay, SharesDisplay, offscreen_axes

OFFERS = {"ours": {"brand": "x", "price": 2.5}, "theirs": {"brand": "y", "price": 2.0}}
CUT = {**OFFERS, "ours": {"brand": "x", "price": 1.5}}


@pytest.fixture(scope="module")
def market():
    data = make_choices(n_users=8, none=True, random_state=0)
    return CrowdGPPL(data.table, random_state=0).fit(data.X, data.y)


def halves(market):
    return {user: ("north", "south")[k % 2] for k, user in enumerate(market.user_ids_)}


def shares_of(*names, **columns):
    """Return columns of a report in which the k-th product has the share 0.1 (k + 1)."""
    share = 0.1 * np.arange(1.0, len(names) + 1.0)
    return {"product": list(names), "share": share, "share_low": 0.9 * share, "share_high": 1.1 * share} | columns


def names_of(ax):
    return [label.get_text() for label in ax.get_yticklabels()]


def legend_of(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def intervals(ax):
    """Return the ends of the horizontal lines and their heights, one row a line."""
    lines = [segment for collection in ax.collections for segment in collection.get_segments()]
    return [[*line[:, 0], *np.unique(line[:, 1])] for line in lines]


# --------------------------------------------------------------------------------------------------------------- shares
def test_shares_are_drawn_with_their_intervals(market):
    report = market.shares(OFFERS, none=True)
    ax = SharesDisplay.from_shares(report, ax=offscreen_axes()).ax_
    assert names_of(ax) == ["ours", "theirs", "none"]
    assert ax.get_legend() is None
    np.testing.assert_allclose(ax.lines[0].get_xdata(), report["share"])
    np.testing.assert_allclose(ax.lines[0].get_ydata(), [0.0, 1.0, 2.0], atol=1e-12)
    np.testing.assert_allclose(np.array(intervals(ax))[:, :2], report[["share_low", "share_high"]])
    assert ax.get_xlim()[0] == 0.0


def test_scenarios_and_segments_have_colours_and_rows_of_their_own(market):
    report = market.shares([OFFERS, CUT], none=True, by=halves(market))
    ax = SharesDisplay.from_shares(report, ax=offscreen_axes()).ax_
    groups = report.groupby(["scenario", "segment"], sort=False)
    assert legend_of(ax) == [f"scenario {k}, {segment}" for (k, segment), _ in groups]
    assert len({line.get_color() for line in ax.lines}) == len(ax.lines) == 4
    for line, (_, own) in zip(ax.lines, groups, strict=True):
        np.testing.assert_allclose(line.get_xdata(), own["share"])
        assert np.round(line.get_ydata()).tolist() == [0, 1, 2]  # beside the names of the products
    heights = np.concatenate([line.get_ydata() for line in ax.lines])
    assert np.diff(np.sort(heights)).min() > 0.1
    lines = np.array(intervals(ax))
    np.testing.assert_allclose(lines[:, 2], heights)
    drawn = pd.concat([own for _, own in groups])
    np.testing.assert_allclose(lines[:, :2], drawn[["share_low", "share_high"]])


def test_scenarios_may_lack_products_and_have_names():
    report = shares_of("a", "b", "c", scenario=["old", "old", "new"])
    ax = SharesDisplay.from_shares(report, ax=offscreen_axes()).ax_
    assert (names_of(ax), legend_of(ax)) == (["a", "b", "c"], ["old", "new"])
    assert [line.get_xdata().size for line in ax.lines] == [2, 1]


def test_names_and_many_groups_fit(tmp_path):
    long = "Juice $5 of a farm whose name is long, in a bottle of glass, number {}"
    report = shares_of(
        *[long.format(k % 12) for k in range(360)], scenario=[f"$\\frac{{$ {k // 12}" for k in range(360)]
    )
    for ax in (None, offscreen_axes()):
        display = SharesDisplay.from_shares(report, ax=ax)
        display.figure_.savefig(tmp_path / "a.png")
        assert len(set(names_of(display.ax_))) == 12
        box = display.ax_.get_legend().get_window_extent()
        assert box.y0 >= 0.0
        assert box.x0 >= display.ax_.get_window_extent().x1
        assert box.x1 <= display.figure_.bbox.x1
        assert len({(line.get_color(), line.get_marker()) for line in display.ax_.lines}) == 30


# --------------------------------------------------------------------------------------------------------------- curves
def test_curves_have_the_numbers_of_the_report(market):
    report = market.sensitivity("price", [3.0, 2.0, 2.5, 2.0], OFFERS, none=True)
    ax = ShareCurvesDisplay.from_sensitivity(report.assign(revenue=1.0), ax=offscreen_axes()).ax_
    assert ax.get_xlabel() == "price"
    assert {text.get_text() for text in ax.texts} == {"ours", "theirs", "none"}
    for line, band, (_, own) in zip(ax.lines, ax.collections, report.groupby("product", sort=False), strict=True):
        wanted = own.sort_values("price", kind="stable")
        np.testing.assert_allclose(line.get_xdata(), [2.0, 2.0, 2.5, 3.0])
        np.testing.assert_allclose(line.get_ydata(), wanted["share"])
        corners = band.get_paths()[0].vertices[:, 1]
        assert corners.min() == pytest.approx(own["share_low"].min())
        assert corners.max() == pytest.approx(own["share_high"].max())
    assert ax.get_ylim()[0] == 0.0


def test_segments_have_line_styles_of_their_own(market):
    report = market.sensitivity("price", [2.0, 3.0], OFFERS, by=halves(market))
    ax = ShareCurvesDisplay.from_sensitivity(report, ax=offscreen_axes()).ax_
    groups = report.groupby(["product", "segment"], sort=False)
    drawn = {tuple(line.get_ydata()): (line.get_color(), line.get_linestyle()) for line in ax.lines}
    looks = {name: drawn[tuple(own["share"])] for name, own in groups}
    assert {text.get_text() for text in ax.texts} == {", ".join(name) for name in looks}
    assert looks["ours", "north"][0] == looks["ours", "south"][0] != looks["theirs", "south"][0]
    assert looks["ours", "north"][1] == looks["theirs", "north"][1] != looks["ours", "south"][1]


@pytest.mark.parametrize("values", [["x", "y", "z"], [2.0]])
def test_values_that_make_no_curve_are_drawn_side_by_side(market, values):
    attribute = "price" if values == [2.0] else "brand"
    report = market.sensitivity(attribute, values, OFFERS)
    ax = ShareCurvesDisplay.from_sensitivity(report, ax=offscreen_axes()).ax_
    assert (names_of(ax), legend_of(ax)) == (list(map(str, values)), ["ours", "theirs"])
    assert ax.get_ylabel() == attribute
    np.testing.assert_allclose(ax.lines[1].get_xdata(), report.loc[report["product"] == "theirs", "share"])


def test_long_names_of_products_are_different_curves():
    names = [f"the same first words of very long names, number {k}" for k in (1, 1, 2, 2)]
    report = shares_of(*names, price=[-1, 1, -1, 1])
    ax = ShareCurvesDisplay.from_sensitivity(report, ax=offscreen_axes(6.4, 4.8)).ax_
    assert len(ax.lines) == len({text.get_text() for text in ax.texts}) == 2
    ax.figure.canvas.draw()
    boxes = [label.get_window_extent() for label in ax.get_xticklabels()]
    assert all(left.x1 < right.x0 for left, right in pairwise(boxes))


def test_an_attribute_may_be_called_segment():
    ax = ShareCurvesDisplay.from_sensitivity(shares_of("a", "a", segment=[1, 2]), ax=offscreen_axes()).ax_
    assert (ax.get_xlabel(), len(ax.lines)) == ("segment", 1)


# ---------------------------------------------------------------------------------------------------------- part-worths
def test_part_worths_of_the_population(market):
    report = market.part_worths()
    ax = PartWorthsDisplay.from_part_worths(report, ax=offscreen_axes()).ax_
    assert names_of(ax) == ["brand=x", "brand=y", "brand=z", "price", "none"]
    zero, means = ax.lines
    assert zero.get_xdata() == [0.0, 0.0]
    np.testing.assert_allclose(means.get_xdata(), report["mean"])
    most, half, mean = np.array(intervals(ax)).reshape(3, 5, 3)[:, :, :2]
    far = report["between_people"].to_numpy()[:, None] * [-1.0, 1.0]
    np.testing.assert_allclose(most, report["mean"].to_numpy()[:, None] + 1.6448536269514722 * far)
    np.testing.assert_allclose(half, report["mean"].to_numpy()[:, None] + 0.6744897501960817 * far)
    np.testing.assert_allclose(mean, report[["low", "high"]])
    report["feature"] = "a rather long name: " + report["feature"]
    ax = PartWorthsDisplay.from_part_worths(report, ax=offscreen_axes(6.4, 4.8)).ax_
    ax.figure.canvas.draw()
    assert ax.xaxis.label.get_window_extent().x1 <= ax.figure.bbox.x1


def test_part_worths_of_people(market):
    report = market.part_worths(market.user_ids_).query("feature != 'none'")
    display = PartWorthsDisplay.from_part_worths(report, ax=offscreen_axes())
    _, *points, means = display.ax_.lines
    assert names_of(display.ax_) == ["brand=x", "brand=y", "brand=z", "price"]
    groups = report.groupby("feature", sort=False)
    np.testing.assert_allclose(means.get_xdata(), groups["mean"].mean())
    for row, (drawn, (_, own)) in enumerate(zip(points, groups, strict=True)):
        np.testing.assert_allclose(drawn.get_xdata(), own["mean"])
        assert np.round(drawn.get_ydata()).tolist() == [row] * 8
    lines = np.array(intervals(display.ax_)).reshape(2, 4, 3)[:, :, :2]
    np.testing.assert_allclose(lines, np.asarray(display.quantiles)[:, [[0, 3], [1, 2]]].swapaxes(0, 1))


def test_bars_are_as_wide_as_people_differ():
    rng = np.random.default_rng(0)
    truth = rng.normal(size=4000)  # each person's answers say as much as the prior
    estimate = 0.5 * (truth + rng.normal(size=4000))
    report = {"user": range(4000), "feature": ["price"] * 4000, "mean": estimate, "std": np.full(4000, 0.5**0.5)}
    display = PartWorthsDisplay.from_part_worths(report | {"low": estimate, "high": estimate}, ax=offscreen_axes())
    wanted = np.quantile(truth, (0.05, 0.25, 0.75, 0.95))
    np.testing.assert_allclose(np.asarray(display.quantiles)[0], wanted, atol=0.1)
    assert np.quantile(estimate, 0.95) < 0.8 * wanted[-1]


def test_part_worths_of_one_person(market):
    report = market.part_worths(market.user_ids_[:1], credibility=0.5)
    ax = PartWorthsDisplay.from_part_worths(report, ax=offscreen_axes()).ax_
    assert len(ax.lines) == 2  # without points
    assert "of one person" in ax.get_xlabel()
    np.testing.assert_allclose(np.array(intervals(ax))[5:, :2], report[["low", "high"]], atol=1e-3)


# -------------------------------------------------------------------------------------------------------------- reports
DRAWINGS = [
    (SharesDisplay.from_shares, shares_of("a", "b")),
    (ShareCurvesDisplay.from_sensitivity, shares_of("a", "a", price=[1.0, 2.0])),
    (
        PartWorthsDisplay.from_part_worths,
        {"feature": ["a"]} | {name: [0.1] for name in ("mean", "std", "low", "high", "between_people")},
    ),
]


class Record:
    """Columns as a record has them where pandas is not installed."""

    def __init__(self, columns):
        self._columns = columns

    def columns(self):
        return self._columns


@pytest.mark.parametrize(("draw", "columns"), DRAWINGS)
def test_dicts_and_records_need_no_pandas(draw, columns, monkeypatch):
    if "price" in columns:
        pytest.importorskip("sklearn.callback", reason="isotonic_regression of scikit-learn 1.8 reads pandas")
    monkeypatch.setitem(sys.modules, "pandas", None)
    for report in (columns, Record(columns)):
        assert draw(report, ax=offscreen_axes()).ax_.get_xlabel()


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize(("draw", "columns"), DRAWINGS)
def test_frames_of_all_kinds(draw, columns, library):
    make = pytest.importorskip(library)
    report = make.table(columns) if library == "pyarrow" else make.DataFrame(columns)
    ax, wanted = (draw(one, ax=offscreen_axes()).ax_ for one in (report, columns))
    for line, same in zip(ax.lines, wanted.lines, strict=True):
        np.testing.assert_array_equal(line.get_data(), same.get_data())


@pytest.mark.parametrize(("draw", "columns"), DRAWINGS)
def test_reports_that_cannot_be_drawn(draw, columns):
    number = list(columns)[1]
    bad = {
        "report must be a data frame or a dict of columns; got float": 3.0,
        f"lack '{number}'": {name: column for name, column in columns.items() if name != number},
        "one row or more, and columns of one length": columns | {number: []},
        "one row or more, and": {name: [] for name in columns},
        f"column '{number}' of report must have numbers; got": columns | {number: ["many"] * len(columns[number])},
        f"column '{number}' of report must have finite numbers; got nan in row 0": columns
        | {number: [np.nan] * len(columns[number])},
    }
    for message, report in bad.items():
        with pytest.raises(DataError, match=message):
            draw(report)
    with pytest.raises(DataError, match="numbers; got"):
        draw(columns | {number: [[1.0, 2.0]] * len(columns[number])})
    twice = pd.DataFrame(columns)
    with pytest.raises(DataError, match=f"more than one column '{number}'"):
        draw(pd.concat([twice, twice[[number]]], axis=1))


def test_reports_of_other_methods(market):
    with pytest.raises(DataError, match=r"result of CrowdGPPL.shares, but its columns .* lack 'product'"):
        SharesDisplay.from_shares(market.importances())
    with pytest.raises(DataError, match="ShareCurvesDisplay draws results of sensitivity"):
        SharesDisplay.from_shares(market.sensitivity("price", [2.0, 3.0], OFFERS))
    with pytest.raises(DataError, match="SharesDisplay draws results of shares"):
        ShareCurvesDisplay.from_sensitivity(market.shares(OFFERS))
    two = pd.concat([market.sensitivity("price", [2.0, 3.0], OFFERS, product=name) for name in OFFERS])
    with pytest.raises(DataError, match="another attribute beside 'price'"):
        ShareCurvesDisplay.from_sensitivity(two)
    with pytest.raises(DataError, match="finite numbers; got inf in row 1"):
        ShareCurvesDisplay.from_sensitivity(shares_of("a", "a", price=[1.0, np.inf]))
    report = market.part_worths()
    with pytest.raises(DataError, match="more than one row for"):
        PartWorthsDisplay.from_part_worths(pd.concat([report, report.assign(mean=0.0)]))
