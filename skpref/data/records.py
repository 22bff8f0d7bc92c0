"""Reports: records of columns, or data frames of pandas where it is installed."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from skpref._validation import as_frame, refuse_repeated_columns
from skpref._warn import importing
from skpref.exceptions import DataError


def make_frame(values: Any, **labels: Any) -> Any:  # what pandas takes and gives
    """Return a data frame of pandas; refuse in words where it is not installed."""
    with importing("data frames need pandas: pip install 'skpref[frames]'"):
        import pandas as pd
    return pd.DataFrame(values, **labels)


def frame_or_record(record: Any) -> Any:  # a frame of pandas
    """Return the data frame of a record where pandas is installed, else the record itself."""
    return record if importlib.util.find_spec("pandas") is None else record.to_frame()


def columns_of_report(report: Any) -> dict[str, Any]:
    """Return the columns of a record, a data frame or a dict; refuse anything else."""
    if callable(getattr(report, "columns", None)):
        return dict(report.columns())
    refuse_repeated_columns(report, "report")
    frame = as_frame(report)
    if frame is not None:
        return {column.name: column.to_numpy() for column in frame.iter_columns()}
    if not isinstance(report, Mapping):
        raise DataError(f"report must be a data frame or a dict of columns; got {type(report).__name__}")
    return dict(report)


class ColumnRecord:
    """A record of columns with an entry for each row, such as a report on users."""

    def columns(self) -> dict[str, Any]:
        """Return the columns by name, in order; columns that are None are left out.

        Returns
        -------
        dict of str to ndarray
            What a data frame can be made of.
        """
        values: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        return {name: value for name, value in values.items() if value is not None}

    def to_frame(self) -> Any:
        """Return a data frame of pandas.

        Returns
        -------
        pandas.DataFrame
            The columns.

        Raises
        ------
        MissingExtraError
            If pandas is not installed.
        """
        return make_frame(self.columns())

    def __len__(self) -> int:
        """Number of rows."""
        return len(next(iter(self.columns().values())))
