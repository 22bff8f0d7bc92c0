"""Blocks of time: each is tested by what was before it, whatever the order of the rows and the kind of table."""

import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score

from skpref import GPPLClassifier
from skpref.exceptions import DataError
from skpref.search import TimeBlocks


def parts_of(blocks, X):
    return [(train.tolist(), test.tolist()) for train, test in blocks.split(X)]


def matches(n=60, seed=0):
    """Return comparisons of four items over sixty days, in a random order, and labels."""
    rng = np.random.default_rng(seed)
    left = rng.integers(0, 4, n)
    day = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.permutation(n), "D")
    right = (left + rng.integers(1, 4, n)) % 4
    return pd.DataFrame({"left": left, "right": right, "date": day}), rng.integers(0, 2, n)


@given(st.lists(st.integers(-20, 40), min_size=2, max_size=60), st.sampled_from([1.0, 2.5, 7]), st.integers(-5, 20))
def test_each_row_from_the_start_is_tested_once_by_all_rows_before_its_block(times, every, start):
    t = np.array(times)
    assume((t >= start).any())
    first = start + every * np.floor((t[t >= start].min() - start) / every)
    assume((t < first).any())
    found = list(TimeBlocks(0, every=every, start=start).split(t[:, None]))
    assert np.array_equal(np.sort(np.concatenate([test for _, test in found])), np.flatnonzero(t >= start))
    for train, test in found:
        begin = start + every * np.floor((t[test].min() - start) / every)
        assert (t[test] >= begin).all()
        assert (t[test] < begin + every).all()
        assert np.array_equal(train, np.flatnonzero(t < begin))
    assert [t[test].min() for _, test in found] == sorted(t[test].min() for _, test in found)


def test_edges_belong_to_the_block_that_begins_there():
    """0.3 / 0.1 is less than 3, and weeks are no exact parts of a year."""
    tenths = np.arange(12)[:, None] / 10
    assert parts_of(TimeBlocks(0, every=0.1, start=0.1), tenths) == [(list(range(k)), [k]) for k in range(1, 12)]
    weeks = (np.datetime64("1969-03-01") + 7 * np.arange(4000)).astype(object)[:, None]
    found = parts_of(TimeBlocks(0, every="7D", start=weeks[1, 0]), weeks)
    assert found == [(list(range(k)), [k]) for k in range(1, 4000)]


def test_blocks_do_not_depend_on_the_kind_of_table_nor_on_the_order_of_rows():
    X, _ = matches()
    text = X["date"].dt.strftime("%Y-%m-%d")
    want = parts_of(TimeBlocks("date", every="14D", start="2024-01-20"), X)
    assert [len(test) for _, test in want] == [14, 14, 13]
    assert [len(train) for train, _ in want] == [19, 33, 47]
    tables = [
        ("date", pl.from_pandas(X)),
        ("date", X.assign(date=text)),
        (2, X),
        (2, X.to_numpy(dtype=object)),
        (2, X.assign(date=text).to_numpy(dtype=object).tolist()),
    ]
    starts = "2024-01-20", dt.date(2024, 1, 20), pd.Timestamp("2024-01-20"), np.datetime64("2024-01-20")
    for start in starts:
        for every in ("14D", "2W", dt.timedelta(days=14), np.timedelta64(14, "D")):
            for time, table in tables:
                blocks = TimeBlocks(time, every=every, start=start)
                assert parts_of(blocks, table) == want
                assert blocks.get_n_splits(table) == 3
    order = np.random.default_rng(1).permutation(len(X))
    for (train, test), (a, b) in zip(parts_of(blocks, X.iloc[order]), want, strict=True):
        assert (sorted(order[train]), sorted(order[test])) == (a, b)


def test_no_prediction_knows_labels_of_its_block_or_of_later_ones():
    X, y = matches()
    blocks = TimeBlocks("date", every="14D", start="2024-01-20")
    model = GPPLClassifier(left="left", right="right", time="date", dynamics="drift")
    for k, (train, test) in enumerate(blocks.split(X)):
        others = y.copy()
        later = np.flatnonzero(X["date"] >= X["date"].iloc[test].min())
        others[later] = 1 - y[later]
        again, _ = list(blocks.split(X, others))[k]
        p, q = (
            model.fit(X.iloc[rows], labels[rows]).predict_proba(X.iloc[test])
            for rows, labels in ((train, y), (again, others))
        )
        np.testing.assert_array_equal(p, q)
    before = y.copy()
    before[train] = 1 - y[train]  # earlier labels do count
    assert (model.fit(X.iloc[train], before[train]).predict_proba(X.iloc[test]) != p).any()


def test_searches_and_scores_of_scikit_learn_take_them():
    X, y = matches()
    blocks = TimeBlocks("date", every="14D", start="2024-01-20")
    model = GPPLClassifier(left="left", right="right", time="date", dynamics="constant")
    assert cross_val_score(model, X, y, cv=blocks, error_score="raise").shape == (3,)
    numbers = np.column_stack([np.arange(60.0), np.random.default_rng(0).normal(size=60)])
    search = GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=TimeBlocks(0, every=10, start=30))
    assert search.fit(numbers, numbers[:, 1] > 0.0).n_splits_ == 3
    shown = repr(TimeBlocks("date", every="7D", start="2024-01-20"))
    assert shown == "TimeBlocks(every='7D', start='2024-01-20', time='date')"


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        (TimeBlocks("day", every=1, start=2), r"no column 'day'.*Found: left, date"),
        (TimeBlocks(2, every=1, start=2), "no column 2"),
        (TimeBlocks("left", every=0, start=2), "every must be longer than 0; got 0"),
        (TimeBlocks("left", every="7D", start=2), "every must be a number"),
        (TimeBlocks("left", every=1, start="2024-01-02"), "start must be finite numbers"),
        (TimeBlocks("left", every=1, start=[1, 2]), r"start must be one time; got \[1, 2\]"),
        (TimeBlocks("date", every=7, start="2024-01-02"), "every must be a timedelta >= 0 or a text such as '365D'"),
        (TimeBlocks("date", every=dt.timedelta(days=-1), start="2024-01-02"), "every must be a timedelta >= 0"),
        (TimeBlocks("date", every="7D", start=2), "start must be dates"),
        (TimeBlocks("date", every="7D", start="2025-01-01"), "no row is at start='2025-01-01' or later"),
        (TimeBlocks("date", every="1D", start="2024-01-01"), "no row is before the first block with rows"),
        (TimeBlocks("date", every="1D", start="2020-01-01"), "no row is before the first block with rows"),
    ],
)
def test_what_has_no_blocks(blocks, message):
    X = pd.DataFrame({"left": [1, 2, 3], "date": pd.to_datetime(["2024-01-01", "2024-01-02", "2024-01-03"])})
    for call in (blocks.get_n_splits, lambda table: list(blocks.split(table))):
        with pytest.raises(DataError, match=message):
            call(X)


def test_rows_and_their_times_are_needed():
    with pytest.raises(DataError, match=r"depends on the times in X: call get_n_splits\(X\)"):
        TimeBlocks("date", every=1, start=1).get_n_splits()
    with pytest.raises(DataError, match="row 1, column 0: a number is missing"):
        TimeBlocks(0, every=1, start=1).get_n_splits([[0.0], [None], [2.0]])
