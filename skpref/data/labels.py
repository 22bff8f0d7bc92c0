"""Labels of comparisons: numbers from 0 to 1, booleans, or the words left, right and tie."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import column_or_1d

from skpref._text import number
from skpref._typing import AnyArray, Array
from skpref._validation import are_missing, as_array, assert_all_finite, refuse_collection
from skpref._warn import warn
from skpref.data.ids import shorten
from skpref.data.policy import POLICY
from skpref.exceptions import DataError

WORDS = {"left": 1.0, "right": 0.0, "tie": 0.5}
# Verdicts of judges of language models.
_VERDICTS = {"a>>b": 2.0, "a>b": 1.0, "a=b": 0.0, "a<b": -1.0, "a<<b": -2.0}
_VERDICTS |= {"b<<a": 2.0, "b<a": 1.0, "b=a": 0.0, "b>a": -1.0, "b>>a": -2.0}
GRADES = "grades are signed numbers, above 0 where left is better, such as -1, 0, 1, or verdicts such as A>>B, A>B, A=B"
_CASES = str.lower, str.upper, str.title
NUMBERED = "cross_val_predict(method='predict_proba') numbers {what} from 0: loop over the folds instead"
_LABELS = "labels are numbers in [0, 1] (1 = left preferred, 0.5 = a tie), booleans, or the words left, right and tie"


def read_labels(y: Any, n_rows: int | None = None) -> Array:  # any array-like
    """Return labels as numbers, shape (n,): 1 where the left item is preferred; None means that it always is."""
    if y is None:
        return np.ones(n_rows or 0)
    values = _column(y, "label", _LABELS, n_rows)
    labels = _numbers(values)
    assert_all_finite(labels, input_name="y")
    outside = (labels < 0.0) | (labels > 1.0)
    if outside.any():
        row, count = int(np.argmax(outside)), int(np.count_nonzero(outside))
        signs = ""
        if labels.min() < 0.0:
            signs = "; signed grades need likelihood='logit-graded', and their sides are 0.5 + 0.5 * np.sign(y)"
        if set(labels.tolist()) <= {-1.0, 0.0, 1.0}:
            signs = "; labels -1 and +1 become 0 and 1 by (y + 1) / 2"
        got = f"{labels[row]:g} in comparison {row}, and {count} of {labels.size} labels are outside [0, 1]"
        if np.isin(labels, range(POLICY.most_grades)).all() and 0.0 in labels:
            signs = f"; {NUMBERED.format(what='labels')}"
        raise DataError(f"labels must be 0 or 1 (or 0.5 for a tie); got {got}; {_LABELS}, or soft labels{signs}")
    return labels


def name_ties(y: Any) -> bool:  # any array-like
    """Tell whether y, in numbers or words, has labels of wins and ties."""
    try:
        return are_with_ties(np.unique(read_labels(y)))
    except ValueError:  # other answers
        return False


def are_shares(labels: Array) -> bool:
    """Tell whether some labels are neither wins nor ties."""
    return not np.isin(labels, list(WORDS.values())).all()


def are_with_ties(labels: Array) -> bool:
    """Tell whether distinct labels are those of wins and ties, and not shares, or ties alone."""
    return labels.size > 1 and 0.5 in labels and not are_shares(labels)


def _column(y: Any, noun: str, wanted: str, n_rows: int | None = None) -> AnyArray:
    """Return labels or grades as a column without missing ones."""
    refuse_collection(y, "y")
    values: AnyArray = as_array(y, "y")
    if values.dtype.kind not in "biufUSO":
        raise DataError(f"Unknown label type: {values.dtype}; {wanted}")
    values = column_or_1d(values, warn=True)
    if n_rows is not None and values.size != n_rows:
        raise DataError(
            f"Found input variables with inconsistent numbers of samples: X has {n_rows} rows, y has {values.size}"
        )
    for row in np.flatnonzero(are_missing(values))[:1].tolist():
        raise DataError(f"Input y contains NaN: there is no {noun} in comparison {row}; leave such rows out")
    return values


def _numbers(values: AnyArray) -> Array:
    """Return the numbers of words or numbers; refuse other strings, even those that look like numbers."""
    cells = values.tolist() if values.dtype.kind in "USO" else []
    if not any(isinstance(cell, str | bytes) for cell in cells):
        try:
            return values.astype(np.float64)
        except (TypeError, ValueError, OverflowError) as error:
            raise DataError(f"Unknown label type: {error}; {_LABELS}") from error
    numbers = [WORDS.get(cell.lower()) if isinstance(cell, str) else None for cell in cells]
    if None in numbers:
        row = numbers.index(None)
        got = f"Unknown label type: {cells[row]!r:.80} in comparison {row}; {_LABELS}"
        raise DataError(f"{got}; a column of winners is read by skpref.data.from_winners")
    return np.array(numbers, dtype=np.float64)


def is_of_one_side(values: Array) -> bool:
    """Tell whether a covariate is never negative, and not of 0 and 1: it is hardly a difference of two sides."""
    return values.size >= POLICY.many_rows and float(values.min()) >= 0.0 and not np.isin(values, (0.0, 1.0)).all()


def refuse_one_side(y: Array, weight: Array, covariate: str | None = None) -> None:
    """Refuse to learn an advantage of a side from comparisons which the same side always won."""
    used = y[weight > 0.0]
    if used.size and (used[0] in {0.0, 1.0}) and (used == used[0]).all():
        side = "left" if used[0] else "right"
        remedy = "the order effect out: order_effect=False" if covariate is None else "it out"
        what = f"every label says that the {side} item won, as where rows are (winner, loser)"
        advice = f"Say which side was shown first (y = 1 where left won, else 0), or leave {remedy}"
        raise DataError(f"{covariate or 'order_effect=True'}, but {what}: an advantage would be learnt. {advice}")


def classes_of(y: Any) -> AnyArray:  # any array-like
    """Return the two sides as y writes them, sorted: [0, 1], [False, True] or ["left", "right"], shape (2,)."""
    values = np.asarray([] if y is None else y).ravel()
    cells = values.tolist() if values.dtype.kind in "OU" else values[:1].tolist()
    if cells and all(isinstance(cell, bool) for cell in cells):
        return np.array([False, True])
    if cells and isinstance(cells[0], str):
        word = next((cell for cell in cells if cell.lower() != "tie"), "left")
        case = next((case for case in _CASES if case(word) == word), str.lower)
        return np.array([case("left"), case("right")])
    return np.array([0, 1])


def left_column(classes: AnyArray) -> int:
    """Return the position of the left side among the two classes."""
    return 0 if str(classes[0]).lower() == "left" else 1


def read_grades(y: Any, known: AnyArray | None = None) -> tuple[Array, AnyArray]:
    """Return grades as labels from 0 to 1, (n,), and all grades, those of both sides, ascending, (L,); or the known."""
    signed = signed_grades(y, known)
    if known is not None:
        unseen = ~np.isin(signed, known)
        if unseen.any():
            row = int(np.argmax(unseen))
            raise DataError(
                f"y: {signed[row]:g} in comparison {row} is no grade of the fit, which had {known.tolist()}"
            )
        return np.searchsorted(known, signed) / (known.size - 1.0), known
    _refuse_one_sign(signed)
    sizes = np.unique(np.abs(signed))
    if sizes.size < 2:
        got = f"y has the grades {np.unique(signed).tolist()}; grades have two sizes or more, such as -1, 0, 1"
        raise DataError(f"{got}. Two answers have likelihood='probit' or 'logit'")
    if sizes.size > POLICY.most_grades:
        advice = "likelihood='margin' learns from numbers; or group them by np.sign(y) * np.digitize(abs(y), [1, 3, 7])"
        raise DataError(f"y has grades of {sizes.size} sizes, and {POLICY.most_grades} at most are learnt. {advice}")
    classes = np.unique(np.concatenate([-sizes, sizes]))
    # Grades below which are whole numbers of 64 bits.
    whole = (classes == np.rint(classes)).all() and classes[-1] < 2.0**53
    classes = classes.astype(np.int64) if whole else classes + 0.0
    if isinstance(as_array(y, "y").ravel().tolist()[0], str):
        what = f"y has verdicts, which are read as the grades {classes.tolist()}, and so are predictions"
        warn(f"{what}. Pass these numbers to metrics of scikit-learn, which would take words in alphabetical order")
    return np.searchsorted(classes, signed) / (classes.size - 1.0), classes


def read_signed_margins(y: Any, known: AnyArray | None = None) -> tuple[Array, AnyArray]:
    """Return margins, (n,), and what they can say of the sides: -1, 0 and 1, integers if margins are; or the known."""
    signed = signed_grades(y, known)
    if known is not None:
        return signed, known
    _refuse_one_sign(signed)
    if not signed.any():
        raise DataError(f"y: all margins are 0; {GRADES}")
    return signed, np.array([-1, 0, 1], dtype=np.int64 if (signed == np.rint(signed)).all() else np.float64)


def _refuse_one_sign(signed: Array) -> None:
    """Refuse grades or margins that say of one side only that it won."""
    if signed.size >= POLICY.many_rows and (signed.min() >= 0.0 or signed.max() <= 0.0):
        got = f"y has grades from {signed.min():g} to {signed.max():g}, as if one side never won; {GRADES}"
        advice = "Subtract the middle of a scale such as 1 to 5; turn every second row (winner, loser, margin) around"
        raise DataError(f"{got}. {advice}. {NUMBERED.format(what='grades')}")


def signed_grades(y: Any, known: AnyArray | None = None) -> Array:
    """Return grades as numbers, (n,), known or not; decimals without the errors of sums such as 0.1 + 0.2."""
    if y is None:
        raise DataError(f"y is None: pass grades; {GRADES}")
    cells = _column(y, "grade", GRADES).tolist()
    signed = np.array(
        [verdict(c) if isinstance(c, str) else np.nan if isinstance(c, bool) else number(c) for c in cells], np.float64
    )
    for row in np.flatnonzero(~np.isfinite(signed))[:1].tolist():
        raise DataError(f"y: {shorten(cells[row])} in comparison {row} is no grade; {GRADES}")
    decimal = signed != np.rint(signed)
    signed[decimal] = [float(f"{grade:.{POLICY.grade_digits}g}") for grade in signed[decimal].tolist()]
    largest = np.abs(np.append(signed, 0.0 if known is None else known[-1])).max()
    return np.where(decimal & (np.abs(signed) < 10.0**-POLICY.grade_digits * largest), 0.0, signed)


def sides_of_grades(y: Any, known: AnyArray) -> Array:
    """Return the labels of grades that tell the side alone: 1, 0.5 and 0, shape (n,)."""
    return 0.5 + 0.5 * np.sign(signed_grades(y, known))


def verdict(word: str) -> float:
    """Return the grade of a verdict such as A>>B, NaN of another word."""
    return _VERDICTS.get(word.lower().replace(" ", "").strip("[]"), np.nan)


def are_grades(classes: object, n_levels: int) -> bool:
    """Tell whether an array is one of grades that `read_grades` returns."""
    if not (isinstance(classes, np.ndarray) and classes.dtype.kind in "if" and classes.shape == (n_levels,)):
        return False
    return bool(np.array_equal(classes, -classes[::-1]) and (np.diff(classes) > 0.0).all())


def are_classes(classes: object) -> bool:
    """Tell whether an array is one that `classes_of` returns."""
    wanted: list[Any] = [[0, 1], *([case("left"), case("right")] for case in _CASES)]  # [0, 1] == [False, True]
    return isinstance(classes, np.ndarray) and classes.dtype.kind in "biU" and classes.tolist() in wanted
