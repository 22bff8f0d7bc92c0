"""Records of columns as data frames of pandas, where it is installed."""

from __future__ import annotations

import importlib.util
from typing import Any

from skpref.exceptions import MissingExtraError


def make_frame(values: Any, **labels: Any) -> Any:  # what pandas takes and gives
    """Return a data frame of pandas; refuse in words where it is not installed."""
    try:
        import pandas as pd
    except ImportError as error:
        raise MissingExtraError("to_frame needs pandas: pip install 'skpref[frames]'") from error
    return pd.DataFrame(values, **labels)


def frame_or_record(record: Any) -> Any:  # a frame of pandas
    """Return the data frame of a record where pandas is installed, else the record itself."""
    return record if importlib.util.find_spec("pandas") is None else record.to_frame()
