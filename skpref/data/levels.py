"""Ordered labels: the levels in order, and the number of the level of each label."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import column_or_1d

from skpref._validation import are_missing, as_array, check_numbers, refuse_collection
from skpref._warn import warn
from skpref.data.ids import shorten
from skpref.exceptions import DataError, DataWarning

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from skpref._typing import Array, IntArray

_FEW = 8  # levels that a message shows
_NUMBERS = "biuf"
_MOST_STEPS = 100  # distinct numbers with fractions that are taken for levels
_MOST_GUESSED = 3  # names that scikit-learn's checks of classifiers fit without an order ("one", "two", "three")

__all__ = [
    "as_labels",
    "encode_levels",
    "levels_of_parts",
    "numbers_of_levels",
    "ordered_levels",
    "read_labels",
    "with_levels_of",
]


def ordered_levels(
    y: ArrayLike,
    class_order: ArrayLike | None = None,
    *,
    fewest: int = 2,
    steps: bool = False,
    are_rows: bool = True,
) -> tuple[NDArray[Any], IntArray]:
    """Return the levels of ordered labels, low to high, and the number of each label's level, shape (n,).

    With `steps`, few numbers with fractions, such as half stars, are levels, too. Unless they `are_rows`, labels are
    distinct ones of many rows.
    """
    dtype = getattr(y, "dtype", None)
    categories = getattr(dtype, "categories", None)
    values = column_or_1d(read_labels(y), warn=True)
    if not (steps and _are_steps(values)):
        # Many labels that are all different would be numbers.
        check_classification_targets(values if are_rows else np.repeat(values, 2))
    if class_order is not None:
        classes = _checked_order(class_order)
    elif getattr(dtype, "ordered", False):
        classes = np.asarray(categories)
    else:
        classes = np.unique(values)
    level = _label_encoded(values, classes) if class_order is not None else None
    if level is None:
        level = encode_levels(values, classes, are_rows=are_rows)
    present = np.unique(level).size
    if present < fewest:
        msg = (
            f"y must have at least {fewest} classes (levels); got 1 class: {_plain(values[0])!r} "
            f"(type of target: {type_of_target(values)})."
        )
        raise DataError(msg)
    if class_order is None and not getattr(dtype, "ordered", False):
        _check_natural_order(classes, categorical=categories is not None)
    return classes, level


def levels_of_parts(
    labels: Sequence[NDArray[Any]], orders: Sequence[NDArray[Any]], class_order: ArrayLike | None
) -> tuple[NDArray[Any], list[IntArray]]:
    """Return the levels of all parts of the data, low to high, and the numbers of the distinct labels of each part.

    Orders are those that parts state themselves, by ordered categories.
    """
    if class_order is None and orders:
        class_order = _common_order(orders)
    distinct = np.unique(np.asarray(read_labels(np.concatenate(labels))))
    classes, _ = ordered_levels(distinct, class_order, steps=True, are_rows=False)
    return classes, [encode_levels(own, classes, are_rows=False) for own in labels]


def _common_order(orders: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Return the longest of some orders, in which the others must be contained."""
    longest = max(orders, key=len)
    for order in orders:
        if order.tolist() != [level for level in longest.tolist() if level in order.tolist()]:
            differ = "whose order differs between parts of the data"
            if not set(order.tolist()) <= set(longest.tolist()):
                differ = "and no part of the data has all of them"
            few = " and ".join(", ".join(map(shorten, some.tolist()[:_FEW])) for some in (longest, order))
            raise DataError(
                f"y holds ordered categories, {differ}: {few}; state the order "
                "of the levels: class_order=[...], low to high."
            )
    return longest


def _are_steps(values: NDArray[Any]) -> bool:
    """Return whether numbers with fractions are levels, such as half stars; refuse many of them: measurements."""
    if values.dtype.kind != "f" or not np.isfinite(values).all():
        return False
    distinct = np.unique(values)
    if distinct.size > _MOST_STEPS and np.any(distinct != np.floor(distinct)):
        raise DataError(
            f"Unknown label type: continuous. y holds {distinct.size} different numbers with fractions, and at most "
            f"{_MOST_STEPS} are taken for levels. Round them, or use a model of numbers, such as VariationalFM."
        )
    return bool(distinct.size <= _MOST_STEPS)


def _check_natural_order(classes: NDArray[Any], *, categorical: bool) -> None:
    """Refuse levels whose order is unknown; up to three names are taken in alphabetical order, with a warning."""
    named = any(isinstance(level, str) for level in classes.tolist())
    if not (categorical or named):
        return
    few = ", ".join(map(shorten, classes[:_FEW].tolist())) + (", ..." if classes.size > _FEW else "")
    kind = "an unordered Categorical" if categorical else "strings"
    advice = "state the order of the levels: class_order=[...], low to high, or pass an ordered Categorical"
    if categorical or classes.size > _MOST_GUESSED:
        raise DataError(f"y holds {kind}, whose order is unknown ({few}); {advice}.")
    msg = f"y holds strings; their alphabetical order is used, low to high: {few}. If it is another one, {advice}."
    warn(msg, DataWarning)


def encode_levels(y: ArrayLike, classes: NDArray[Any], *, are_rows: bool = True) -> IntArray:
    """Return the number of each label's level, shape (n,)."""
    values = column_or_1d(as_labels(y))
    try:
        order = np.argsort(classes)
        ranked = classes[order]
        place = np.minimum(np.searchsorted(ranked, values), classes.size - 1)
        wrong = np.flatnonzero(ranked[place] != values)
    except TypeError:  # strings among numbers
        number = {level: k for k, level in enumerate(classes.tolist())}
        order, place = np.array([number.get(label, -1) for label in values.tolist()]), np.arange(values.size)
        wrong = np.flatnonzero(order < 0)
    if wrong.size:
        few = ", ".join(map(repr, classes[:10].tolist())) + (", ..." if classes.size > 10 else "")
        row = f" (row {wrong[0]})," if are_rows else ","
        msg = f"y holds {_plain(values[wrong[0]])!r:.80}{row} which is not among the levels {few}."
        written = {str(level) for level in classes.tolist()}
        hint = " They are of another type: convert one of them." if str(_plain(values[wrong[0]])) in written else ""
        raise DataError(f"{msg}{hint} Name all levels in class_order, low to high.")
    return np.asarray(order[place], dtype=np.int64)


def numbers_of_levels(levels: Sequence[Any]) -> Array | None:
    """Return levels as numbers; None unless they ascend, so that a higher number is a higher level."""
    if not all(isinstance(level, int | float) for level in levels):
        return None
    numbers = np.array(levels, dtype=np.float64)
    return numbers if np.all(np.diff(numbers) > 0.0) else None


def with_levels_of(classes: NDArray[Any], y: ArrayLike) -> NDArray[Any]:
    """Return the levels and those of y that are not among them, if their order is that of numbers or the alphabet."""
    values = column_or_1d(read_labels(y))
    alike = all(isinstance(label, str) for label in (*classes.tolist(), *values.tolist()))
    alike = alike or (classes.dtype.kind in _NUMBERS and values.dtype.kind in _NUMBERS)
    if not alike or np.isin(values, classes).all() or np.any(classes[:-1] > classes[1:]):
        return classes
    return np.union1d(classes, values)


def as_labels(y: ArrayLike) -> NDArray[Any]:
    """Return labels as an array of unchanged values, whereas NumPy turns a NaN among strings into the string 'nan'."""
    refuse_collection(y, "y")
    values = as_array(y, "y")
    if values.dtype.kind in "US" and isinstance(y, list | tuple) and not all(isinstance(v, str | bytes) for v in y):
        values = np.asarray(y, dtype=object)
    return values


def read_labels(y: ArrayLike | None) -> NDArray[Any] | None:
    """Return class labels as an array without missing ones; None stays None, and scikit-learn refuses it."""
    if y is None:
        return None
    check_numbers(y, "y")
    values = as_labels(y)
    absent = are_missing(np.atleast_1d(values))
    missing = np.flatnonzero(absent.any(axis=tuple(range(1, absent.ndim))))
    if missing.size:
        raise DataError(f"Input y contains NaN (row {missing[0]}); every row needs a label: leave such rows out.")
    if values.dtype.kind == "O":
        try:
            np.unique(values)
        except (TypeError, OverflowError) as error:
            kinds = ", ".join(sorted({type(label).__name__ for label in values.ravel().tolist()}))
            raise DataError(f"Unknown label type: y mixes labels of several types ({kinds}); use one type.") from error
    return values


def _checked_order(class_order: ArrayLike) -> NDArray[Any]:
    classes = as_labels(class_order)
    listed = classes.tolist() if classes.ndim == 1 else []
    if not listed or are_missing(classes).any() or len(set(listed)) != len(listed):
        msg = f"class_order must list every level once, low to high; got {class_order!r:.200}."
        raise DataError(msg)
    return classes


def _plain(label: object) -> object:
    """Return a label as a Python object, for messages."""
    return label.item() if isinstance(label, np.generic) else label


def _label_encoded(values: NDArray[Any], classes: NDArray[Any]) -> IntArray | None:
    """Return the levels of labels that scikit-learn's `cross_val_predict` has replaced by integers, or None.

    It does so for probabilities, by the order of the sorted labels. If all levels are names, integers cannot be
    anything else.
    """
    named = classes.dtype.kind in "US" or all(isinstance(label, str) for label in classes.tolist())
    if not named or values.dtype.kind not in "iu" or values.min() < 0 or values.max() >= classes.size:
        return None
    return np.asarray(np.argsort(classes)[values], dtype=np.int64)
