"""How much each feature matters to a Gaussian-process prior, whatever its kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from skpref import kernels

if TYPE_CHECKING:
    from sklearn.gaussian_process.kernels import Kernel

    from skpref._typing import Array, Features

_WORK = 2e8  # numbers that kernels look at in all: a second or two
_FEWEST, _MOST = 16, 1024  # rows


def prior_relevance(kernel: Kernel, X: Features) -> Array:
    """Return E[(f(x) - f(x'))^2]/2 under the prior, x' a row x with one feature taken from another row, shape (d,)."""
    n, d = X.shape
    size = int(min(n, np.clip(_WORK / max(d, 1) ** 2, _FEWEST, _MOST)))
    some = X[np.linspace(0, n - 1, size).astype(np.int64)]
    rows: Array = np.ascontiguousarray(some.toarray() if sparse.issparse(some) else some)
    # Each row takes the feature of the row half the sample away.
    partner = np.roll(rows, size // 2, axis=0)
    before = kernels.paired(kernel, rows, rows)
    out, changed = np.empty(d), rows.copy()
    for feature in range(d):
        changed[:, feature] = partner[:, feature]
        after = kernels.paired(kernel, changed, changed)
        out[feature] = np.mean(0.5 * (before + after) - kernels.paired(kernel, rows, changed))
        changed[:, feature] = rows[:, feature]
    return np.maximum(out, 0.0)
