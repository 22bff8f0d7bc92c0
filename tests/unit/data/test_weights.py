"""Weights of rows."""

import numpy as np
import pytest

from skpref.data.weights import read_weights
from skpref.exceptions import DataError


@pytest.mark.parametrize("weights", [[], (), np.zeros(0), np.zeros(0, dtype=int), None])
def test_no_rows_have_no_weights(weights):
    assert read_weights(weights, 0).shape == (0,)


@pytest.mark.parametrize(("weights", "n_rows"), [([1.0], 0), ([], 1), (np.zeros((0, 1)), 0), ([1.0, 2.0], 3)])
def test_there_is_one_weight_for_each_row(weights, n_rows):
    with pytest.raises(DataError, match="sample_weight must be numbers, one per row"):
        read_weights(weights, n_rows)


TINY = float(np.finfo(np.float64).tiny)


@pytest.mark.parametrize(
    ("weights", "plain", "relative"),
    [
        ([1e100, 1.0], [1e100, 1.0], [1e100, 1.0]),
        ([1.5e100, 0.75e100], [1e100, 0.75e100], [1.0, 0.5]),
        ([TINY, 2.0], [TINY, 2.0], [TINY, 2.0]),
        ([0.5 * TINY, 2.0], [0.0, 2.0], [0.25 * TINY, 1.0]),
        ([0.5 * TINY, 0.25 * TINY], [0.0, 0.0], [1.0, 0.5]),
        ([0.0, 2e200], [0.0, 1e100], [0.0, 1.0]),
        ([0.0, 3.0], [0.0, 3.0], [0.0, 3.0]),
    ],
)
def test_weights_whose_squares_or_inverses_overflow(weights, plain, relative):
    assert read_weights(weights, 2).tolist() == plain
    assert read_weights(weights, 2, relative=True).tolist() == relative


def test_the_first_negative_weight_is_named():
    with pytest.raises(DataError, match=r"Negative values .*: -2 in row 1; weights are >= 0"):
        read_weights([0.0, -2.0, 1.0, -3.0], 4)
    assert read_weights(2, 3).tolist() == [2.0, 2.0, 2.0]
