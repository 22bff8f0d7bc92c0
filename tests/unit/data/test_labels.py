"""Labels of comparisons: numbers, booleans and words."""

import numpy as np
import pytest

from skpref.data.labels import are_classes, classes_of, left_column, read_labels, refuse_one_side
from skpref.exceptions import DataError


@pytest.mark.parametrize(
    ("y", "expected", "classes"),
    [
        (None, [1.0, 1.0, 1.0], [0, 1]),
        ([1, 0, 0.5], [1.0, 0.0, 0.5], [0, 1]),
        ([True, False, True], [1.0, 0.0, 1.0], [False, True]),
        (np.array([True, False, True], dtype=object), [1.0, 0.0, 1.0], [False, True]),
        (["left", "right", "tie"], [1.0, 0.0, 0.5], ["left", "right"]),
        (["Tie", "Right", "Right"], [0.5, 0.0, 0.0], ["Left", "Right"]),
        (np.array(["LEFT", "tie", "Right"], dtype=object), [1.0, 0.5, 0.0], ["LEFT", "RIGHT"]),
        (["tie", "tie", "tie"], [0.5, 0.5, 0.5], ["left", "right"]),
    ],
)
def test_row_67_what_labels_mean(y, expected, classes):
    assert read_labels(y, 3).tolist() == expected
    assert classes_of(y).tolist() == classes
    assert are_classes(classes_of(y))
    assert classes[left_column(classes_of(y))] in {1, "left", "Left", "LEFT"}


def test_row_67_pandas_categories_and_missing_words():
    pd = pytest.importorskip("pandas")
    y = pd.Series(["left", "right"], dtype="category")
    assert read_labels(y, 2).tolist() == [1.0, 0.0]
    assert classes_of(y).tolist() == ["left", "right"]
    for dtype in (object, "category", "str"):
        with pytest.raises(ValueError, match="Input y contains NaN: there is no label in comparison 1"):
            read_labels(pd.Series(["left", None], dtype=dtype), 2)


@pytest.mark.parametrize(
    ("y", "text"),
    [
        ([1, -1, 1], r"got -1 in comparison 1, .* labels -1 and \+1 become 0 and 1 by \(y \+ 1\) / 2"),
        ([2, 0, 1], "got 2 in comparison 0, .* soft labels; cross_val_predict.* numbers labels from 0"),
        (["left", "west", "tie"], "Unknown label type: 'west' in comparison 1; .*right and tie; .*from_winners$"),
        (["1", "0", "1"], "Unknown label type: '1' in comparison 0"),
        (np.array(["left", 1, "right"], dtype=object), "Unknown label type: 1 in comparison 1"),
        ([1, 0], "inconsistent numbers of samples: X has 3 rows, y has 2"),
    ],
)
def test_row_67_what_is_no_label(y, text):
    with pytest.raises(DataError, match=text):
        read_labels(y, 3)


def test_pandas_na_among_words():
    pd = pytest.importorskip("pandas")
    with pytest.raises(DataError, match="Input y contains NaN: there is no label in comparison 1"):
        read_labels(["left", pd.NA, "right"], 3)


def test_labels_without_an_end_on_both_sides():
    with pytest.raises(ValueError, match="Input y contains infinity"):
        read_labels([np.inf, -np.inf, 1.0], 3)


def test_row_66_one_side():
    ones = np.ones(3)
    for y in (ones, 0.0 * ones):
        with pytest.raises(DataError, match=r"every label says that the (left|right) item won, as where rows are"):
            refuse_one_side(y, ones)
    with pytest.raises(DataError, match="says that the left item won"):
        refuse_one_side(np.array([1.0]), np.ones(1))
    with pytest.raises(DataError, match="Say which side was shown first"):
        refuse_one_side(np.array([1.0, 1.0, 0.0]), np.array([1.0, 2.0, 0.0]))
    refuse_one_side(np.array([1.0, 1.0, 0.5]), ones)
    refuse_one_side(0.5 * ones, ones)


def test_classes_are_the_two_sides_from_right_to_left():
    for sound in ([0, 1], [False, True], ["left", "right"], ["LEFT", "RIGHT"], ["Left", "Right"]):
        assert are_classes(np.array(sound))
        assert not are_classes(sound)
    for wrong in (
        [1, 0],
        [1, 1],
        [True, True],
        [False, False],
        [0, 1, 2],
        [0.0, 1.0],
        ["left", "left"],
        ["Left", "right"],
    ):
        assert not are_classes(np.array(wrong))
    assert not are_classes(np.array(["left", "right"], dtype=object))
