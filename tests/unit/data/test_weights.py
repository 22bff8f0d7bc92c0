"""Weights of rows."""

from __future__ import annotations

import numpy as np
import pytest

from skpref.data.weights import read_weights
from skpref.exceptions import DataError


@pytest.mark.parametrize("weights", [[], (), np.zeros(0), np.zeros(0, dtype=int), None])
def test_no_rows_have_no_weights(weights: object) -> None:
    assert read_weights(weights, 0).shape == (0,)


@pytest.mark.parametrize(("weights", "n_rows"), [([1.0], 0), ([], 1), (np.zeros((0, 1)), 0), ([1.0, 2.0], 3)])
def test_there_is_one_weight_for_each_row(weights: object, n_rows: int) -> None:
    with pytest.raises(DataError, match="sample_weight must be numbers, one per row"):
        read_weights(weights, n_rows)
