"""Ordered labels and ratings: the levels in order, and the number of the level of each label."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import narwhals as nw
import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import column_or_1d

from skpref._typing import AnyArray, Array, IntArray
from skpref._validation import are_missing, as_array, as_frame, as_series, check_numbers, refuse_collection
from skpref._warn import warn
from skpref.data.ids import shorten
from skpref.data.policy import POLICY
from skpref.exceptions import DataError

if TYPE_CHECKING:
    Place: TypeAlias = Callable[[int], str]  # the words for a row in messages

_NUMBERS = "biuf"


def _row(row: int) -> str:
    return f"row {row}"


def ordered_levels(
    y: ArrayLike,
    class_order: ArrayLike | None = None,
    *,
    fewest: int = 2,
    are_rows: bool = True,
    column: Any = None,  # any array-like
) -> tuple[AnyArray, IntArray]:
    """Return the levels of ordered labels, low to high, and the number of each label's level, shape (n,).

    Few numbers with fractions, such as half stars, are levels, too, in rows at least twice as many or an order. Unless
    they `are_rows`, labels are distinct ones of many rows. The column, by default y, is what the labels were read from
    and may have categories.
    """
    values = column_or_1d(check_labels(y), warn=True)
    stated, categorical = (None, False) if class_order is not None else stated_order(y if column is None else column)
    has_order = class_order is not None or stated is not None or not are_rows
    most = POLICY.most_steps if has_order else min(POLICY.most_steps, values.size // 2)
    if not _are_steps(values, most):
        # Many labels that are all different would be numbers.
        check_classification_targets(values if are_rows else np.repeat(values, 2))
    if class_order is not None:
        classes = check_order(class_order)
        values = _named(values, classes)
    else:
        classes = np.unique(values) if stated is None else stated
    level = encode_levels(values, classes, are_rows=are_rows)
    if np.unique(level).size < fewest:
        msg = f"y must have at least {fewest} classes (levels); got 1 class: {_plain(values[0])!r}"
        raise DataError(f"{msg} (type of target: {type_of_target(values)}).")
    if class_order is None and stated is None:
        _check_natural_order(classes, categorical=categorical)
    return classes, level


def stated_order(y: Any) -> tuple[AnyArray | None, bool]:  # any array-like
    """Return the categories of a column of pandas, polars or pyarrow if they have an order; and whether it has any."""
    frame = as_frame(y)
    y = y if frame is None or frame.shape[1] != 1 else frame.to_native()[frame.columns[0]]
    dtype: Any = getattr(y, "dtype", None)
    if hasattr(dtype, "ordered") and hasattr(dtype, "categories"):  # pandas
        return (np.asarray(dtype.categories) if dtype.ordered else None), True
    series = as_series(y)
    if series is None or not isinstance(series.dtype, nw.Categorical | nw.Enum):
        return None, False
    if isinstance(series.dtype, nw.Enum):
        return np.array(series.dtype.categories, dtype=object), True
    ordered = getattr(getattr(y, "type", None), "ordered", False)
    return (np.array(series.to_arrow().dictionary.to_pylist(), dtype=object) if ordered else None), True


def levels_of_parts(
    labels: Sequence[AnyArray], orders: Sequence[AnyArray], class_order: ArrayLike | None
) -> tuple[AnyArray, list[IntArray]]:
    """Return the levels of all parts of the data, low to high, and the numbers of the distinct labels of each part.

    Orders are those that parts state themselves, by ordered categories.
    """
    if class_order is None and orders:
        class_order = _common_order(orders)
    distinct = np.unique(np.asarray(check_labels(np.concatenate(labels))))
    classes, _ = ordered_levels(distinct, class_order, are_rows=False)
    return classes, [encode_levels(own, classes, are_rows=False) for own in labels]


def _common_order(orders: Sequence[AnyArray]) -> AnyArray:
    """Return the longest of some orders, in which the others must be contained."""
    longest = max(orders, key=len)
    for order in orders:
        if order.tolist() != [level for level in longest.tolist() if level in order.tolist()]:
            differ = "whose order differs between parts of the data"
            if not set(order.tolist()) <= set(longest.tolist()):
                differ = "and no part of the data has all of them"
            few = " and ".join(", ".join(map(shorten, some.tolist()[: POLICY.shown])) for some in (longest, order))
            raise DataError(f"y holds ordered categories, {differ}: {few}; state class_order=[...], low to high.")
    return longest


def _are_steps(values: AnyArray, most: int) -> bool:
    """Return whether numbers with fractions are levels, such as half stars; refuse many of them: measurements."""
    if values.dtype.kind != "f" or not np.isfinite(values).all():
        return False
    distinct = np.unique(values)
    if distinct.size > most and np.any(distinct != np.floor(distinct)):
        got = f"y holds {distinct.size} numbers with fractions, and at most {most} are taken for levels here"
        advice = "Round them, state class_order=[...], or use a model of numbers: SVGPRegressor, VariationalFM."
        raise DataError(f"Unknown label type: continuous. {got}. {advice}")
    return bool(distinct.size <= most)


def _check_natural_order(classes: AnyArray, *, categorical: bool) -> None:
    """Refuse levels whose order is unknown; up to three names are taken in alphabetical order, with a warning."""
    named = any(isinstance(level, str) for level in classes.tolist())
    if not (categorical or named):
        return
    few = ", ".join(map(shorten, classes[: POLICY.shown].tolist())) + (", ..." if classes.size > POLICY.shown else "")
    kind = "an unordered Categorical" if categorical else "strings"
    advice = "state the order of the levels: class_order=[...], low to high, or pass an ordered Categorical"
    if categorical or classes.size > POLICY.most_guessed:
        raise DataError(f"y holds {kind}, whose order is unknown ({few}); {advice}.")
    warn(f"y holds strings; their alphabetical order is used, low to high: {few}. If it is another one, {advice}.")


def encode_levels(
    y: ArrayLike, classes: AnyArray, *, are_rows: bool = True, place: Place = _row, order: str = "class_order"
) -> IntArray:
    """Return the number of each label's level, shape (n,); `order` is the parameter that lists the levels."""
    values = column_or_1d(as_labels(y))
    if values.dtype.kind in _NUMBERS and classes.dtype.kind in _NUMBERS:
        sorter = np.argsort(classes)
        level = sorter[np.minimum(np.searchsorted(classes, values, sorter=sorter), classes.size - 1)]
        wrong = np.flatnonzero(classes[level] != values)
    else:
        number = {name: k for k, name in enumerate(classes.tolist())}
        try:
            level = np.array([number.get(label, -1) for label in values.tolist()], dtype=np.int64)
        except TypeError as error:
            raise DataError(f"y must hold numbers or words, the levels: {error}") from error
        wrong = np.flatnonzero(level < 0)
    if wrong.size:
        label, more = _plain(values[wrong[0]]), f", and {wrong.size - 1} more" if wrong.size > 1 else ""
        where = f" ({place(int(wrong[0]))}{more})," if are_rows else ","
        hint = " They are of another type: convert one of them." if str(label) in map(str, classes.tolist()) else ""
        got = f"y holds {label!r:.80}{where} which is not among the levels {format_levels(classes, shorten)}"
        raise DataError(f"{got}.{hint} Name all levels in {order}, low to high.")
    return np.asarray(level, dtype=np.int64)


def format_levels(levels: AnyArray, write: Callable[[object], str] = str) -> str:
    """Return levels as text for a message: 1..5, or the first ten."""
    if levels.dtype.kind in "iuf" and levels.size > 2 and (np.diff(levels) == 1).all() and levels[0] % 1 == 0:
        return f"{int(levels[0])}..{int(levels[-1])}"
    return ", ".join(map(write, levels[:10].tolist())) + (", ..." if levels.size > 10 else "")


def numbers_of_levels(levels: Sequence[Any]) -> Array | None:
    """Return levels as numbers; None unless they ascend, so that a higher number is a higher level."""
    if not all(isinstance(level, int | float) for level in levels):
        return None
    numbers = np.array(levels, dtype=np.float64)
    return numbers if np.all(np.diff(numbers) > 0.0) else None


def with_levels_of(classes: AnyArray, y: ArrayLike) -> AnyArray:
    """Return the levels and those of y that are not among them, if their order is that of numbers or the alphabet."""
    values = column_or_1d(check_labels(y))
    alike = all(isinstance(label, str) for label in (*classes.tolist(), *values.tolist()))
    alike = alike or (classes.dtype.kind in _NUMBERS and values.dtype.kind in _NUMBERS)
    if not alike or np.isin(values, classes).all() or np.any(classes[:-1] > classes[1:]):
        return classes
    return np.union1d(classes, values)


def as_labels(y: ArrayLike) -> AnyArray:
    """Return labels as an array of unchanged values, whereas NumPy turns a NaN among strings into the string 'nan'."""
    refuse_collection(y, "y")
    values = as_array(y, "y")
    if values.dtype.kind in "US" and isinstance(y, list | tuple) and not all(isinstance(v, str | bytes) for v in y):
        values = np.asarray(y, dtype=object)
    return values


def check_labels(y: ArrayLike | None, *, place: Place = _row, mixed: bool = False) -> AnyArray | None:
    """Return labels as an array without missing ones, `mixed` or of one type; scikit-learn refuses None."""
    if y is None:
        return None
    check_numbers(y, "y")
    values = as_labels(y)
    absent = are_missing(np.atleast_1d(values))
    for row in np.flatnonzero(absent.any(axis=tuple(range(1, absent.ndim))))[:1].tolist():
        raise DataError(f"Input y contains NaN ({place(row)}); every row needs a label: leave such rows out.")
    if values.dtype.kind == "O" and not mixed:
        try:
            sorted(set(values.ravel().tolist()))
        except (TypeError, OverflowError) as error:
            kinds = ", ".join(sorted({type(label).__name__ for label in values.ravel().tolist()}))
            raise DataError(f"Unknown label type: y mixes labels of several types ({kinds}); use one type.") from error
    return values


def check_order(levels: ArrayLike, name: str = "class_order") -> AnyArray:
    """Return levels that a caller lists, each of them once."""
    classes = as_labels(levels)
    listed = classes.tolist() if classes.ndim == 1 else []
    if not listed or are_missing(classes).any() or len(set(listed)) != len(listed):
        raise DataError(f"{name} must list every level once, low to high; got {levels!r:.200}.")
    return classes


def _plain(label: object) -> object:
    """Return a label as a Python object, for messages."""
    return label.item() if isinstance(label, np.generic) else label


def _named(values: AnyArray, classes: AnyArray) -> AnyArray:
    """Return the names of labels that scikit-learn's `cross_val_predict` has replaced by integers.

    It does so for probabilities, by the order of the sorted labels. If all levels are names, integers cannot be
    anything else.
    """
    named = classes.dtype.kind in "US" or all(isinstance(label, str) for label in classes.tolist())
    if not named or values.dtype.kind not in "iu" or values.min() < 0 or values.max() >= classes.size:
        return values
    return np.asarray(np.sort(classes)[values])
