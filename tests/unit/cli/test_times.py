"""Dates by which rows are split, as they are written in several countries."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from skpref.cli.tasks.times import read_times
from skpref.data.columns import Columns
from skpref.exceptions import DataError


def days(*cells: Any) -> list[str]:
    """Return dates of a column as they are read."""
    lines = [2 + k for k in range(len(cells))]
    times = read_times(Columns({"day": list(cells)}, lines, "line", Path("games.csv"), is_text=True), "day")
    assert times is not None
    return [str(np.datetime64(int(time), "s")).removesuffix("T00:00:00") for time in times]


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
def test_dates_have_the_day_or_the_month_first(
    first: str, cells: tuple[Any, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert days(*cells) == ["2024-08-23", "2024-02-01"]
    assert capsys.readouterr().err == (f"skpref: note: games.csv: column 'day' has {first}\n" if first else "")


def test_dates_have_times() -> None:
    assert days("23.08.2024 18:30", "24.08.2024") == ["2024-08-23T18:30:00", "2024-08-24"]
    assert days("23 Aug 2024 18:30", "Aug. 24, 2024") == ["2024-08-23T18:30:00", "2024-08-24"]
    assert days("2024-08-23T18:30:15", "2024") == ["2024-08-23T18:30:15", "2024-01-01"]


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (("01.02.2024", "03.04.2024"), "line 2, column 'day': 01.02.2024 has the day or the month first, and no date"),
        (("2024-08-23", "1/2/2024"), "line 3, column 'day': 1/2/2024 has the day or the month first"),
        (
            ("23/08/2024", "08/23/2024"),
            "line 3, column 'day': 08/23/2024 begins with the month, but 23/08/2024 on line 2",
        ),
        (("23.08.2024", "31.02.2024"), "line 3, column 'day': expected a number or a date such as 2026-01-31"),
        (("23.08.24", "24.08.24"), "expected a number or a date such as 2026-01-31"),
        (("23.08.2024", "NA"), "line 3, column 'day': a date is missing"),
        (("01-02", "03-04"), "expected a number or a date such as 2026-01-31"),  # which NumPy takes for years
        (("2024-01-01", "today"), "got 'today'"),
        (("23 Aug 2024", "23 Au 2024"), "got '23 Au 2024'"),
        (("31012026", "01022026"), "line 2, column 'day': 31012026 looks like a date with its year at the end"),
        ((1312026, 12252025), "line 2, column 'day': 1312026 looks like a date with its year at the end"),
    ],
)
def test_dates_that_can_be_read_in_two_ways_are_refused(cells: tuple[str, ...], message: str) -> None:
    with pytest.raises(DataError) as error:
        days(*cells)
    assert message in str(error.value)


@pytest.mark.parametrize(
    "cells", [("20260131", "20251225"), ("31012026", "99999999"), (2026, 2025), (1.5e7, 1.6e7 + 0.5)]
)
def test_other_numbers_are_sorted_by_size(cells: tuple[Any, ...]) -> None:
    times = read_times(Columns({"day": list(cells)}, [2, 3], "line", Path("games.csv"), is_text=True), "day")
    np.testing.assert_array_equal(times, [float(cell) for cell in cells])
