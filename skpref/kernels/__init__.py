"""Covariance functions: values and vector-Jacobian products.

Kernels are scikit-learn kernels (theta in logs, bounds, ``+``, ``*``, ``clone_with_theta``), so ours work in
`GaussianProcessRegressor` and scikit-learn's work here. The functions evaluate any of them at dense or CSR rows:

============  ======================  ==========  =====================
layout        pairs of rows           values      gradient in theta
============  ======================  ==========  =====================
all pairs     (x_i, z_j)              `cross`     `cross_vjp`
one table     (z_i, z_j)              `gram`      `gram_vjp`
each row      (x_i, x_i)              `diagonal`  `diagonal_vjp`
row by row    (x_i, y_i)              `paired`    `paired_vjp`
============  ======================  ==========  =====================

`Columns` restricts a kernel to some columns, so a sum can have one kernel for each kind of features. `Warped` moves
skewed features halfway to their ranks.

White noise (`WhiteKernel`) belongs to a row, so it is in `gram` (on the diagonal) and `diagonal` only.
"""

from skpref.kernels.columns import Columns
from skpref.kernels.evaluate import (
    cross,
    cross_pullback,
    cross_vjp,
    diagonal,
    diagonal_vjp,
    gram,
    gram_vjp,
    moves_points,
    paired,
    paired_vjp,
)
from skpref.kernels.identity import Identity
from skpref.kernels.lengthscales import median_length_scales
from skpref.kernels.linear import Linear
from skpref.kernels.matern import AdditiveMatern, ProductMatern
from skpref.kernels.warped import Warped

__all__ = [
    "AdditiveMatern",
    "Columns",
    "Identity",
    "Linear",
    "ProductMatern",
    "Warped",
    "cross",
    "cross_pullback",
    "cross_vjp",
    "diagonal",
    "diagonal_vjp",
    "gram",
    "gram_vjp",
    "median_length_scales",
    "moves_points",
    "paired",
    "paired_vjp",
]
