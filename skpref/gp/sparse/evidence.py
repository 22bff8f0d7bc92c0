"""The collapsed bound of rows and targets, and its gradient in kernel, noise and inducing points, in chunks of rows.

One pass over the chunks gives the sums of `skpref.inference.collapsed`, a second one carries their gradients back.
Threads share the chunks: numpy's products and the compiled kernels both let go of Python's lock, BLAS itself runs on
one thread each. Chunks do not depend on the number of threads and are added in order, so neither do the bits.

A few inducing points can call everything noise that the rows themselves explain: on ``pumadyn32nm`` (1,000 rows, 32
features) the bound of 300 points has its optimum at pure noise, where the rows see two features that explain 96 % of
the variance. So a search may begin with `evidence`, the exact evidence of a few rows.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from scipy.linalg.blas import dger

from skpref import kernels
from skpref._compiled.jit import n_threads
from skpref._math.linalg import (
    cholesky_precision,
    congruent,
    inverse_lower,
    log_det,
    product,
    solve_lower,
    solve_lower_t,
    times_lower_t,
)
from skpref.inference.basis import chunks
from skpref.inference.collapsed import Collapsed, Moments, collapse
from skpref.inference.exact import inverse_spd

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sklearn.gaussian_process.kernels import Kernel

    from skpref._typing import Array, Features
    from skpref.inference.basis import InducingBasis

_CHUNK: Final = 1 << 19  # numbers of a chunk's kernel matrix (4 MiB)
_LOG_TWO_PI: Final = float(np.log(2.0 * np.pi))
_KEPT_BYTES: Final = 2**28  # of kernel values that are kept from the first pass for the second


@dataclass(frozen=True, eq=False)
class GaussianRows:
    """Distinct rows with their mean targets."""

    X: Features  # (n, d): rows
    y: Array  # (n,): means of the standardised targets of each
    weight: Array  # (n,): sums of weights, > 0
    scatter: float = 0.0  # sum_i w_i (y_i - mean of its row)^2, which no function can explain

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.y.shape[0])

    def sample(self, size: int, rng: np.random.Generator) -> GaussianRows:
        """Return some of the rows, scatter in proportion."""
        if size >= self.n:
            return self
        index = np.sort(rng.choice(self.n, size, replace=False))
        return replace(
            self, X=self.X[index], y=self.y[index], weight=self.weight[index], scatter=self.scatter * size / self.n
        )


class _Chunk(NamedTuple):
    """Kernel values of some rows, and the way back."""

    K: Array
    pull: Callable[[Array], tuple[Array, Array | None]]


def _in_order(parts: list[Any], work: Callable[[Any], Any]) -> Iterator[Any]:
    """Results of `work` for all parts, in their order."""
    threads = min(n_threads(), len(parts))
    if threads < 2:
        yield from map(work, parts)
        return
    with ThreadPoolExecutor(threads) as pool:
        yield from pool.map(work, parts)


def _moments_of(rows: GaussianRows, part: slice, K: Array, basis: InducingBasis, inverse: Array) -> Moments:
    y, weight = rows.y[part], rows.weight[part]
    phi = times_lower_t(K, inverse)
    if not np.all(weight == 1.0):
        root = np.sqrt(weight)
        phi *= root[:, None]
        y = root * y
    prior = float(weight @ kernels.diagonal(basis.kernel, rows.X[part]))
    return Moments(phi.T @ phi, (phi.T @ y)[:, None], prior, float(y @ y), float(weight.sum()))


def moments(rows: GaussianRows, basis: InducingBasis) -> Moments:
    """Return the sums over all rows that the bound is a function of."""
    total, _ = _sums(rows, basis, inverse_lower(basis.chol), keep=False)
    return total


def _sums(
    rows: GaussianRows, basis: InducingBasis, inverse: Array, *, keep: bool
) -> tuple[Moments, list[_Chunk | None]]:
    def work(part: slice) -> tuple[Moments, _Chunk | None]:
        chunk = _Chunk(*kernels.cross_pullback(basis.kernel, rows.X[part], basis.points))
        return _moments_of(rows, part, chunk.K, basis, inverse), chunk if keep else None

    size, kept = basis.chol.shape[0], []
    total = Moments(np.zeros((size, size)), np.zeros((size, 1)), 0.0, rows.scatter, 0.0)
    for some, chunk in _in_order(_parts(rows.n, size), work):
        total = _added(total, some)
        kept.append(chunk)
    return total, kept


def _added(total: Moments, some: Moments) -> Moments:
    """The sum of both, in the memory of the first."""
    total.gram.__iadd__(some.gram)
    total.cross.__iadd__(some.cross)
    square, weight = total.square + some.square, total.weight + some.weight
    return Moments(total.gram, total.cross, total.prior + some.prior, square, weight)


def _parts(n: int, width: int) -> list[slice]:
    return chunks(n, max(64, _CHUNK // width))


class Gradient(NamedTuple):
    """Value and gradients of the bound, and the sums behind it."""

    value: float
    theta: Array
    log_noise: float
    points: Array | None
    moments: Moments
    collapsed: Collapsed


def bound(rows: GaussianRows, basis: InducingBasis, noise: float, *, gradient: bool = True) -> Gradient:
    """Return the collapsed bound, with its gradients if asked."""
    size, beta = basis.chol.shape[0], 1.0 / noise
    keep = gradient and 8 * rows.n * size <= _KEPT_BYTES
    inverse = inverse_lower(basis.chol)
    sums, kept = _sums(rows, basis, inverse, keep=keep)
    seen = collapse(sums, beta)
    if not gradient:
        return Gradient(seen.value, np.zeros(0), -seen.log_beta, None, sums, seen)
    theta, points = _through_rows(rows, basis, inverse, seen, beta, kept)
    # Through Phi = K L^-T. The bound is the same for any square root of k(Z, Z), so the sum over rows of the gradient
    # in phi times phi^T is symmetric, and the way back is that through the inverse of the matrix.
    inner = product(seen.gram, sums.gram)
    inner *= -1.0
    inner -= product(0.5 * seen.cross, sums.cross.T)
    own, moved = basis.gram_pullback(congruent(inner, inverse))
    points = None if points is None or moved is None else points + moved
    return Gradient(seen.value, theta + own, -seen.log_beta, points, sums, seen)


def _through_rows(
    rows: GaussianRows, basis: InducingBasis, inverse: Array, seen: Collapsed, beta: float, kept: list[_Chunk | None]
) -> tuple[Array, Array | None]:
    """Gradients in theta and points through the rows of the kernel matrix and the prior variances."""
    back = congruent(2.0 * seen.gram, inverse)
    linear = product(inverse.T, seen.cross)[:, 0]
    size = basis.chol.shape[0]

    def work(task: tuple[slice, _Chunk | None]) -> tuple[Array, Array, Array | None]:
        part, chunk = task
        if chunk is None:
            chunk = _Chunk(*kernels.cross_pullback(basis.kernel, rows.X[part], basis.points))
        weight = rows.weight[part]
        G = chunk.K @ back
        dger(1.0, linear, rows.y[part], a=G.T, overwrite_a=1)  # G += y linear^T, where it stands
        if not np.all(weight == 1.0):
            G *= weight[:, None]
        own = kernels.diagonal_vjp(basis.kernel, rows.X[part], -0.5 * beta * weight)
        return (own, *chunk.pull(G))

    theta, points = np.zeros(basis.kernel.n_dims), None
    for own, through, moved in _in_order(list(zip(_parts(rows.n, size), kept, strict=True)), work):
        theta = theta + own + through
        points = moved if points is None else points + moved
    return theta, points


def evidence(rows: GaussianRows, kernel: Kernel, noise: float) -> tuple[float, Array, float]:
    """Return the log evidence, its gradient in the kernel's theta and that in the log of the noise variance.

    With C = K + noise / w on the diagonal, it is log N(y; 0, C) plus what copies of a row say of the noise alone:
    a row that stands for w of them has (w - 1) deviations from its mean.
    """
    n, own = rows.n, noise / rows.weight
    moves = kernels.moves_points(kernel, rows.X)
    K, pull = kernels.cross_pullback(kernel, rows.X, rows.X) if moves else (kernels.gram(kernel, rows.X), None)
    C = K.copy()
    C.flat[:: n + 1] += own
    chol = cholesky_precision(C)
    alpha = solve_lower_t(chol, solve_lower(chol, rows.y))
    adjoint = inverse_spd(chol)
    adjoint *= -0.5
    adjoint += (0.5 * alpha)[:, None] * alpha
    copies = float(rows.weight.sum()) - n
    value = -0.5 * (float(rows.y @ alpha) + log_det(chol) + n * _LOG_TWO_PI + float(np.sum(np.log(rows.weight))))
    value -= 0.5 * (copies * (_LOG_TWO_PI + np.log(noise)) + rows.scatter / noise)
    log_noise = float(np.diagonal(adjoint) @ own) - 0.5 * (copies - rows.scatter / noise)
    theta = kernels.gram_vjp(kernel, rows.X, adjoint) if pull is None else pull(np.ascontiguousarray(adjoint))[0]
    return float(value), theta, log_noise
