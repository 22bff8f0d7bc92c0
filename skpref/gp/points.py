"""Whether inducing points stand for the rows that they were chosen from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from skpref import kernels
from skpref.data.tables import same_rows, unique_rows

if TYPE_CHECKING:
    from sklearn.gaussian_process.kernels import Kernel

    from skpref._typing import Features


def determine_rows(points: Features, X: Features, kernel: Kernel | None) -> bool:
    """Tell whether inducing points are all distinct rows, so that they determine the function at the rows."""
    if not same_rows(points, X[unique_rows(X)[0]]):
        return False
    # White noise is in the covariance of the inducing points but not in that with the rows, so that a residual remains.
    return np.array_equal(kernels.diagonal(kernel, points), kernels.paired(kernel, points, points))
