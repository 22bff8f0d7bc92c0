"""Weights of rows: the one place where `sample_weight` is checked."""

from __future__ import annotations

import inspect
from numbers import Number
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.validation import _check_sample_weight

from skpref._math.limits import LARGEST
from skpref._typing import Array
from skpref._validation import assert_all_finite, check_numbers
from skpref.exceptions import DataError

# Larger weights count as this, as sums and squares must be finite; smaller ones, whose inverses overflow, count as 0.
_SMALLEST = float(np.finfo(np.float64).tiny)
# scikit-learn 1.9 refuses weights that are all zero by default; 1.8 has no such option.
_ZEROS_ALLOWED = {
    name: True for name in inspect.signature(_check_sample_weight).parameters if name == "allow_all_zero_weights"
}


def read_weights(sample_weight: object, n_rows: int, *, relative: bool = False) -> Array:
    """Return the weights of the rows, finite and >= 0, shape (n_rows,); None: each row has weight 1.

    Relative weights, of which only the ratios matter, are divided by the largest where they are extreme.
    """
    if sample_weight is None:
        return np.ones(n_rows)
    check_numbers(sample_weight, "sample_weight")
    try:
        weight = _as_floats(sample_weight, n_rows)
        assert_all_finite(weight, input_name="sample_weight")  # scikit-learn does not look at a single number
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"sample_weight must be numbers, one per row: {error}") from error
    if n_rows and float(weight.min()) < 0.0:
        row = int(np.argmax(weight < 0.0))
        msg = f"Negative values in data passed to `sample_weight`: {weight[row]:g} in row {row}; weights are >= 0"
        raise DataError(msg)
    extreme = n_rows and (weight.max() > LARGEST or np.any((weight > 0.0) & (weight < _SMALLEST)))
    if extreme and relative:
        return weight / (weight.max() or 1.0)
    return np.where(weight < _SMALLEST, 0.0, np.minimum(weight, LARGEST)) if extreme else weight


def class_weights(class_weight: Any, labels: NDArray[Any], sample_weight: object) -> Any:
    """Return the weights of rows times those of their classes, as scikit-learn's `class_weight` gives them."""
    if class_weight is None:
        return sample_weight
    weight = read_weights(sample_weight, labels.size)
    classes, number = np.unique(labels, return_inverse=True)
    if isinstance(class_weight, str):
        totals = np.bincount(number, weight)
        factors = weight.sum() / (classes.size * np.where(totals > 0.0, totals, 1.0))
    else:
        try:
            factors = compute_class_weight(class_weight, classes=classes, y=labels)
        except (TypeError, ValueError) as error:
            raise DataError(f"class_weight must be numbers by class, of {classes.tolist()!r:.200}: {error}") from error
        if not (np.isfinite(factors) & (factors >= 0.0)).all():
            raise DataError(f"class_weight must be numbers >= 0; got {class_weight!r:.200}")
    return weight * factors[number]


def refuse_balanced(class_weight: Any) -> None:
    """Refuse weights by the classes' sizes where rows come in parts."""
    if isinstance(class_weight, str):
        advice = "pass the weights as a dict, by compute_class_weight of scikit-learn"
        raise DataError(f"class_weight='balanced' needs all rows at once, which partial_fit does not have; {advice}")


def _as_floats(sample_weight: Any, n_rows: int) -> Array:
    """Return the weights as an array; scikit-learn's check takes 0.2 ms, which records checked before do without."""
    if isinstance(sample_weight, np.ndarray) and sample_weight.dtype == float and sample_weight.shape == (n_rows,):
        return sample_weight
    if isinstance(sample_weight, Number):
        return np.full(n_rows, float(sample_weight))  # type: ignore[arg-type]  # refuses complex numbers
    if n_rows == 0 and np.shape(sample_weight) == (0,):
        return np.ones(0)
    with np.errstate(invalid="ignore", over="ignore"):  # scikit-learn adds up infinities of both signs
        weight: Array = _check_sample_weight(sample_weight, np.empty(n_rows), dtype=np.float64, **_ZEROS_ALLOWED)
    return weight
