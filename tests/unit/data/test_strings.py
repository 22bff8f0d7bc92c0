"""Strings by pyarrow: the same vocabularies and rows as Python's dictionaries give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from skpref.data import Vocabulary, as_ids, strings
from skpref.data.ids import encoding_of, objects
from skpref.exceptions import DataError

pytest.importorskip("pyarrow")
WORDS = ["b", "", "a\0", "a", "\U0001f600", "\uffff", "Z", "é", "e\u0301", "aa"]


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Convert short columns, too."""
    monkeypatch.setattr(strings, "_LONG", 1)


def by_python(columns: list[Any]) -> list[str]:
    return sorted({word for column in columns for word in column})


def test_vocabulary_and_rows_are_those_of_python(always: None) -> None:
    rng = np.random.default_rng(0)
    columns = [objects(rng.choice(objects(WORDS), n)) for n in (0, 40, 1, 0, 7)]
    assert strings.arrow_strings(columns) is not None
    vocabulary = Vocabulary.from_columns(*columns)
    assert vocabulary.ids.tolist() == by_python(columns)
    for column in columns:
        assert vocabulary.ids[vocabulary.encode(column)].tolist() == column.tolist()
    ids, rows = strings.encoded_strings(columns) or (None, [])
    assert ids is not None
    assert [ids[row].tolist() for row in rows] == [column.tolist() for column in columns]


def test_an_unknown_string_is_marked(always: None) -> None:
    vocabulary = Vocabulary(objects(["a", "c"]))
    assert vocabulary.encode(objects(["c", "b", "a"]), unknown="mark").tolist() == [1, -1, 0]
    with pytest.raises(DataError, match="unknown item 'b' in comparison 1"):
        vocabulary.encode(objects(["c", "b", "a"]))


@pytest.mark.parametrize("other", [b"a", 1, ("a", 1), "\ud800"])
def test_what_arrow_cannot_tell_apart_or_hold_is_left_to_python(always: None, other: Any) -> None:
    column = objects(["b", other, "a", "b"])
    assert strings.arrow_strings([column]) is None
    vocabulary = Vocabulary.from_columns(column)
    assert set(vocabulary.ids.tolist()) == set(column.tolist())
    assert vocabulary.ids[vocabulary.encode(column)].tolist() == column.tolist()


@pytest.mark.parametrize("dtype", ["str", "string[pyarrow]", "category"])
def test_columns_of_pandas_are_encoded_once(dtype: str) -> None:
    pandas = pytest.importorskip("pandas")
    words = ["b", "a", "b", "c"]
    ids = as_ids(pandas.Series(words).astype(dtype))
    distinct, codes = encoding_of(ids)
    assert (distinct.tolist(), ids.tolist()) == (["b", "a", "c"], words)
    assert distinct[codes].tolist() == words
    assert as_ids(ids) is ids
    assert encoding_of(ids[1:])[0].tolist() == words[1:]  # what is cut out has no encoding
    vocabulary = Vocabulary.from_columns(ids, ["d"])
    assert vocabulary.ids.tolist() == ["a", "b", "c", "d"]
    assert vocabulary.encode(ids).tolist() == [1, 0, 1, 2]
    with pytest.raises(DataError, match="unknown item 'c' in comparison 3"):
        Vocabulary(["a", "b"]).encode(ids)


@pytest.mark.parametrize(("n", "converted"), [(19_998, False), (19_999, True)])
def test_short_columns_are_left_to_python(n: int, converted: bool) -> None:
    columns = [objects(["a"] * n), objects(["b"])]
    assert (strings.arrow_strings(columns) is not None) == converted
    assert strings.arrow_strings([columns[0], np.arange(1)]) is None
