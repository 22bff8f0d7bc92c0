"""Inducing points that are all distinct rows determine the function there, and others do not."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

from skpref.data.tables import same_rows
from skpref.gp.points import determine_rows

ROWS = np.array([[0.0, 1.0], [2.0, 0.0], [0.0, 1.0], [3.0, 3.0]])
DISTINCT = ROWS[[3, 0, 1]]


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_all_distinct_rows_in_any_order_determine_the_function(form):
    assert determine_rows(form(DISTINCT), form(ROWS), RBF())
    assert determine_rows(form(ROWS[:2]), form(ROWS[:3]), RBF())


@pytest.mark.parametrize(
    "points", [DISTINCT[:2], np.vstack([DISTINCT, [[9.0, 9.0]]]), np.vstack([DISTINCT[:2], [[9.0, 9.0]]])]
)
def test_fewer_more_or_other_points_do_not(points):
    assert not determine_rows(points, ROWS, RBF())


def test_white_noise_leaves_a_residual():
    assert not determine_rows(DISTINCT, ROWS, RBF() + WhiteKernel())


def test_tables_of_other_shapes_have_other_rows():
    assert same_rows(DISTINCT, DISTINCT[::-1])
    assert not same_rows(DISTINCT, DISTINCT[:2])
    assert not same_rows(DISTINCT[:2], DISTINCT)
    assert not same_rows(DISTINCT, DISTINCT[:, :1])
