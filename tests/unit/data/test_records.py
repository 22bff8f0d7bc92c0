"""Records as data frames."""

import importlib.util
import sys

import numpy as np
import pytest

from skpref.data.records import columns_of_report, frame_or_record
from skpref.exceptions import DataError, MissingExtraError
from skpref.factorization.max_margin.features import UserFeatures
from skpref.factorization.max_margin.recommendations import Recommendations
from skpref.gp.crowd.annotators import Annotators
from skpref.gp.pairwise.effects import CovariateEffects
from skpref.gp.pairwise.ranking import Ranking, WinMatrix

ONE = np.ones(1)
RECORDS = [
    Annotators(*[ONE] * 7),
    CovariateEffects(*[ONE] * 8),
    Ranking(*[ONE] * 7),
    WinMatrix(ONE, *[np.eye(1)] * 3),
    UserFeatures(*[ONE] * 6),
    Recommendations(*[ONE] * 5),
]


@pytest.mark.parametrize("record", RECORDS)
def test_all_records_have_one_name_for_their_frame(record):
    assert len(record.to_frame()) == 1
    assert not hasattr(record, "frame")


@pytest.mark.parametrize("record", RECORDS)
def test_without_pandas_the_extra_is_named(record, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtraError, match=r"data frames need pandas: pip install 'skpref\[frames\]'"):
        record.to_frame()


def test_a_record_is_returned_where_pandas_is_not_installed(monkeypatch):
    assert frame_or_record(RECORDS[0]).shape == (1, 7)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert frame_or_record(RECORDS[0]) is RECORDS[0]


def test_columns_of_records_frames_and_dicts():
    record = RECORDS[0]
    wanted = record.columns()
    for report in (record, record.to_frame(), wanted):
        columns = columns_of_report(report)
        assert {name: np.asarray(column).tolist() for name, column in columns.items()} == {
            name: np.asarray(column).tolist() for name, column in wanted.items()
        }
    with pytest.raises(DataError, match="report must be a data frame or a dict of columns; got ndarray"):
        columns_of_report(ONE)
