"""Columns of times."""

import datetime as dt
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skpref.data.columns import Columns
from skpref.data.times import as_duration, as_times, date_of_file, read_times, to_dates, to_years
from skpref.exceptions import DataError

DATES = np.array(["2020-01-01", "2020-01-02T12:00", "1969-12-31"], dtype="datetime64[s]")
YEARS = to_years(DATES)


def columns_of_dates():
    yield "numpy", DATES
    yield "text", ["2020-01-01", "2020-01-02 12:00", " 1969-12-31"]
    yield "objects", [dt.date(2020, 1, 1), dt.datetime(2020, 1, 2, 12), np.datetime64("1969-12-31").astype(object)]  # noqa: DTZ001
    east = dt.timezone(dt.timedelta(hours=2))
    yield "zones", [dt.datetime(2020, 1, 1, 2, tzinfo=east), "2020-01-02T14:00+02:00", "1969-12-31T00:00Z"]


@pytest.mark.parametrize("column", [pytest.param(column, id=name) for name, column in columns_of_dates()])
def test_dates_of_any_kind_are_years(column):
    years, is_dated = read_times(Columns.of({"when": column}), "when")
    assert is_dated
    assert_allclose(years, YEARS, atol=1e-9)


def test_frames():
    pd = pytest.importorskip("pandas")
    for values in (pd.Series(DATES), pd.Series(DATES).dt.tz_localize("UTC"), pd.Series(DATES.astype("datetime64[ns]"))):
        assert_allclose(read_times(Columns.of(pd.DataFrame({"when": values})), "when")[0], YEARS, atol=1e-9)
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({"when": DATES.astype("datetime64[us]"), "day": [dt.date(2020, 1, 1)] * 3})
    assert_allclose(read_times(Columns.of(frame), "when")[0], YEARS, atol=1e-9)
    assert_allclose(read_times(Columns.of(frame), "day")[0], YEARS[:1].repeat(3), atol=1e-9)


@pytest.mark.parametrize("column", [[1, 2, 3], np.array([1.0, 2.0, 3.0]), ["1", "2", "3"]])
def test_numbers_stay_numbers(column):
    times, is_dated = read_times(Columns.of({"when": column}), "when")
    assert not is_dated
    assert_array_equal(times, [1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (["2020-01-01", None], "column 'when', row 1: a time is missing"),
        (["2020-01-01", "31.12.2020"], "got '31.12.2020'; pandas.to_datetime reads other"),
        (["2020-01-01", 7], "expected a date"),
        ([1.0, None], "a number is missing"),
        (np.array(["2020-01-01", "NaT"], dtype="datetime64[D]"), "column 'when', row 1: a time is missing"),
        ([np.inf, 1.0], "finite"),
        (np.array(["2020-01-01", "300000-01-01"], dtype="datetime64[s]"), "row 1: expected a date of the years 1 to"),
        ([1.0, 1e101], "1e\\+101 is outside the range"),
        ([20240131, 20240201], "row 0: 20240131 may be a date, or a number"),
        (["31.12.2020", "30.12.2020"], "expected a date such as 2024-05-31, got"),
        ([31122020, 30122020], "row 0: 31122020 may be a date, or a number"),
    ],
)
def test_cells_that_are_no_times_are_refused(column, message):
    with pytest.raises(DataError, match=message):
        read_times(Columns.of({"when": column}), "when")


def test_years_and_dates_are_inverse():
    dates = np.array(["1800-05-01T13:14:15", "2024-02-29", "2100-12-31"], dtype="datetime64[us]")
    assert_array_equal(to_dates(to_years(dates)), dates)


def test_times_that_a_caller_gives():
    assert_allclose(as_times("2020-01-01", "at", is_dated=True), YEARS[0])
    assert_allclose(as_times([dt.date(2020, 1, 1)], "at", is_dated=True), YEARS[:1])
    assert as_times(3, "at", is_dated=False) == 3.0
    east = dt.datetime(2020, 1, 1, 2, tzinfo=dt.timezone(dt.timedelta(hours=2)))
    assert_allclose(as_times([east, "2020-01-01T00:00Z"], "at", is_dated=True), YEARS[[0, 0]])
    for wrong, is_dated in (
        ("soon", True),
        ("3", True),
        (3.0, True),
        (np.datetime64("NaT", "s"), True),
        (np.nan, False),
        ("3", False),
    ):
        with pytest.raises(DataError, match="at must be"):
            as_times(wrong, "at", is_dated=is_dated)


def test_lengths_of_time():
    assert_allclose(as_duration("365.25D", "active", is_dated=True), 1.0)
    assert_allclose(as_duration("52 W", "active", is_dated=True), 364.0 / 365.25)
    assert_allclose(
        [as_duration(text, "every", is_dated=True) for text in ("1Y", "12M", "24h")], [1.0, 1.0, 1.0 / 365.25]
    )
    assert_allclose(as_duration(dt.timedelta(days=365.25), "active", is_dated=True), 1.0)
    assert as_duration(np.timedelta64(2, "Y"), "active", is_dated=True) == 2.0
    assert_allclose(as_duration(np.timedelta64(6, "h"), "active", is_dated=True), 0.25 / 365.25)
    assert as_duration(3, "active", is_dated=False) == 3.0
    for wrong, is_dated in (
        (3, True),
        ("3 years", True),
        ("365D", False),
        (-1.0, False),
        (True, False),
        (np.nan, False),
    ):
        with pytest.raises(DataError, match="active must be"):
            as_duration(wrong, "active", is_dated=is_dated)


# ------------------------------------------------------------------------------------------------- dates in files
def file_of(*cells):
    """Return the column of a file."""
    lines = [2 + k for k in range(len(cells))]
    return Columns({"day": list(cells)}, lines, "line", Path("games.csv"), is_text=True)


def days(columns):
    """Return dates of a column as they are read, by the second."""
    times, _ = read_times(columns, "day", is_order_enough=True)
    return [str(date).removesuffix("T00:00:00") for date in to_dates(times).astype("datetime64[s]")]


@pytest.mark.parametrize(
    ("first", "cells"),
    [
        ("the day first, as 23.08.2024 shows", ("23.08.2024", "1.2.2024")),
        ("the day first, as 23/08/2024 shows", ("23/08/2024", "01/02/2024")),
        ("the day first, as 23-08-2024 shows", ("23-08-2024", "01-02-2024")),
        ("the month first, as 08/23/2024 shows", ("08/23/2024", "02/01/2024")),
        ("", ("2024-08-23", "2024-02-01")),
        ("", ("2024/08/23", "2024.2.1")),
        ("", ("23 Aug 2024", "01 February 2024")),
        ("", ("Aug 23, 2024", "february 1, 2024")),
        ("", (dt.date(2024, 8, 23), dt.date(2024, 2, 1))),
    ],
)
def test_dates_have_the_day_or_the_month_first(first, cells):
    columns = file_of(*cells)
    assert days(columns) == ["2024-08-23", "2024-02-01"]
    assert columns.notes == ([f"games.csv: column 'day' has {first}"] if first else [])


@pytest.mark.parametrize(
    ("text", "form", "wanted"),
    [
        ("01/02/1970", "%d-%m-%Y", "1970-02-01"),
        ("01.01.1970", "%d-%m-%Y", "1970-01-01"),  # which NumPy takes for nothing
        ("01/02/1970", "%m-%d-%Y", "1970-01-02"),
        ("1 Feb 1970", None, "1970-02-01"),
        ("01/02/1970", None, "01/02/1970"),
        ("soon", "%d-%m-%Y", "soon"),
    ],
)
def test_a_date_is_read_as_in_a_file(text, form, wanted):
    assert str(date_of_file(text, form)).removesuffix("T00:00:00.000000") == wanted


def test_dates_have_times():
    assert days(file_of("23.08.2024 18:30", "24.08.2024")) == ["2024-08-23T18:30:00", "2024-08-24"]
    assert days(file_of("23 Aug 2024 18:30", "Aug. 24, 2024")) == ["2024-08-23T18:30:00", "2024-08-24"]
    assert days(file_of("2024-08-23T18:30:15", "2024")) == ["2024-08-23T18:30:15", "2024-01-01"]


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (("01.02.2024", "03.04.2024"), "line 2, column 'day': 01.02.2024 has the day or the month first, and no date"),
        (("2024-08-23", "1/2/2024"), "line 3, column 'day': 1/2/2024 has the day or the month first"),
        (("23/08/2024", "08/23/2024"), "line 3, column 'day': 08/23/2024 begins with the month, but 23/08/2024 on"),
        (("23.08.2024", "31.02.2024"), "line 3, column 'day': expected a date such as 2024-05-31 or 31.05.2024"),
        (("23.08.24", "24.08.24"), "expected a date such as 2024-05-31 or 31.05.2024"),
        (("23.08.2024", "NA"), "line 3, column 'day': a time is missing"),
        (("01-02", "03-04"), "expected a date such as 2024-05-31 or 31.05.2024"),  # which NumPy takes for years
        (("2024-01-01", "today"), "got 'today'"),
        (("23 Aug 2024", "23 Au 2024"), "got '23 Au 2024'"),
        (("31012026", "01022026"), "line 2, column 'day': 31012026 may be a date, or a number"),
        ((1312026, 12252025), "line 2, column 'day': 1312026 may be a date, or a number"),
    ],
)
def test_dates_that_can_be_read_in_two_ways_are_refused(cells, message):
    with pytest.raises(DataError) as error:
        days(file_of(*cells))
    assert message in str(error.value)


@pytest.mark.parametrize(
    "cells", [("20260131", "20251225"), ("31012026", "99999999"), (2026, 2025), (1.5e7, 1.6e7 + 0.5)]
)
def test_other_numbers_are_sorted_by_size(cells):
    times, is_dated = read_times(file_of(*cells), "day", is_order_enough=True)
    assert not is_dated
    assert_array_equal(times, [float(cell) for cell in cells])
