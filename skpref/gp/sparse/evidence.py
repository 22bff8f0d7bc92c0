"""The collapsed bound and its gradient in kernel, noise and inducing points, in chunks of rows; the exact evidence.

One pass over the chunks gives the sums of `skpref.inference.collapsed`, a second one carries their gradients back.
Threads share the chunks: numpy's products and the compiled kernels release Python's lock, and BLAS runs on one thread
in each. Chunks do not depend on the number of threads and are added in order, so neither do the bits.

The bound of few inducing points can have its optimum at pure noise: on ``pumadyn32nm`` (1,000 rows, 32 features, 300
points) it has, where the exact evidence finds two features that explain 96 % of the variance. So a fit begins with
`evidence` on a subset of the rows.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

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
from skpref._math.special import LOG_TWO_PI
from skpref.gp.sparse.policy import POLICY
from skpref.inference.basis import chunks
from skpref.inference.collapsed import Collapsed, Moments, collapse
from skpref.inference.exact import inverse_spd

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sklearn.gaussian_process.kernels import Kernel

    from skpref._typing import Array, Features
    from skpref.inference.basis import InducingBasis


@dataclass(frozen=True, eq=False)
class GaussianRows:
    """Distinct rows with the means of their standardised targets."""

    X: Features  # (n, d): rows
    y: Array  # (n,) or (n, K): mean target of each row, or one for each of K functions
    weight: Array  # (n,): sum of its weights, > 0
    scatter: float = 0.0  # sum of w (y - mean of its row)^2 over the targets, which no function can explain

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.y.shape[0])

    @property
    def n_functions(self) -> int:
        """Number of functions, each with targets of its own."""
        return 1 if self.y.ndim == 1 else int(self.y.shape[1])

    def sample(self, size: int, rng: np.random.Generator) -> GaussianRows:
        """Draw rows without replacement, with their share of the scatter; all if there are no more."""
        if size >= self.n:
            return self
        index = np.sort(rng.choice(self.n, size, replace=False))
        return replace(
            self, X=self.X[index], y=self.y[index], weight=self.weight[index], scatter=self.scatter * size / self.n
        )


class _Chunk(NamedTuple):
    """Kernel values of a chunk of rows with the inducing points, and their vector-Jacobian product."""

    K: Array
    pull: Callable[[Array], tuple[Array, Array | None]]


def _map_in_order(work: Callable[[Any], Any], tasks: list[Any]) -> Iterator[Any]:
    """Yield the results of all tasks in their order, computed by threads."""
    threads = min(n_threads(), len(tasks))
    if threads < 2:
        yield from map(work, tasks)
        return
    with ThreadPoolExecutor(threads) as pool:
        yield from pool.map(work, tasks)


def _chunk_moments(rows: GaussianRows, part: slice, K: Array, basis: InducingBasis, inverse: Array) -> Moments:
    """Return the sums over a chunk of rows."""
    y, weight = rows.y[part], rows.weight[part]
    phi = times_lower_t(K, inverse)
    if not np.all(weight == 1.0):
        root = np.sqrt(weight)
        phi *= root[:, None]
        y = root * y
    prior = float(weight @ kernels.diagonal(basis.kernel, rows.X[part]))
    return Moments(phi.T @ phi, (phi.T @ y)[:, None], prior, float(y @ y), float(weight.sum()))


def moments(rows: GaussianRows, basis: InducingBasis) -> Moments:
    """Return the sums over all rows that determine the bound."""
    total, _ = _moments_and_chunks(rows, basis, inverse_lower(basis.chol), keep=False)
    return total


def _moments_and_chunks(
    rows: GaussianRows, basis: InducingBasis, inverse: Array, *, keep: bool
) -> tuple[Moments, list[_Chunk | None]]:
    """Return the sums over all rows, and the kernel values of every chunk where they are to be kept."""

    def work(part: slice) -> tuple[Moments, _Chunk | None]:
        chunk = _Chunk(*kernels.cross_pullback(basis.kernel, rows.X[part], basis.points))
        return _chunk_moments(rows, part, chunk.K, basis, inverse), chunk if keep else None

    size, kept = basis.chol.shape[0], []
    total = Moments(np.zeros((size, size)), np.zeros((size, 1)), 0.0, rows.scatter, 0.0)
    for part, chunk in _map_in_order(work, _row_chunks(rows.n, size)):
        total = _accumulate(total, part)
        kept.append(chunk)
    return total, kept


def _accumulate(total: Moments, part: Moments) -> Moments:
    """Return the sum of both, in the memory of the first."""
    total.gram.__iadd__(part.gram)
    total.cross.__iadd__(part.cross)
    square, weight = total.square + part.square, total.weight + part.weight
    return Moments(total.gram, total.cross, total.prior + part.prior, square, weight)


def _row_chunks(n: int, width: int) -> list[slice]:
    """Cut n rows of `width` kernel values each into chunks."""
    return chunks(n, max(64, POLICY.chunk // width))


class BoundResult(NamedTuple):
    """The bound with its gradients, the sums over the rows and the optimal posterior."""

    value: float
    theta: Array
    log_noise: float
    points: Array | None
    moments: Moments
    collapsed: Collapsed


def bound(rows: GaussianRows, basis: InducingBasis, noise: float, *, gradient: bool = True) -> BoundResult:
    """Return the collapsed bound, with its gradients in theta and points if `gradient`."""
    size, beta = basis.chol.shape[0], 1.0 / noise
    keep = gradient and 8 * rows.n * size <= POLICY.kept_bytes
    inverse = inverse_lower(basis.chol)
    sums, kept = _moments_and_chunks(rows, basis, inverse, keep=keep)
    optimum = collapse(sums, beta)
    if not gradient:
        return BoundResult(optimum.value, np.zeros(0), -optimum.log_beta, None, sums, optimum)
    theta, points = _row_gradients(rows, basis, inverse, optimum, beta, kept)
    # Through Phi = K L^-T. The bound is the same for any square root of k(Z, Z), so the sum over rows of the gradient
    # in phi times phi^T is symmetric, and its pullback is that through the inverse of the matrix.
    inner = product(optimum.gram, sums.gram)
    inner *= -1.0
    inner -= product(0.5 * optimum.cross, sums.cross.T)
    in_gram, moved = basis.gram_pullback(congruent(inner, inverse))
    points = None if points is None or moved is None else points + moved
    return BoundResult(optimum.value, theta + in_gram, -optimum.log_beta, points, sums, optimum)


def _row_gradients(
    rows: GaussianRows, basis: InducingBasis, inverse: Array, optimum: Collapsed, beta: float, kept: list[_Chunk | None]
) -> tuple[Array, Array | None]:
    """Return gradients in theta and points through the rows of the kernel matrix and the prior variances."""
    back = congruent(2.0 * optimum.gram, inverse)
    linear = product(inverse.T, optimum.cross)[:, 0]
    size = basis.chol.shape[0]

    def work(task: tuple[slice, _Chunk | None]) -> tuple[Array, Array, Array | None]:
        part, chunk = task
        if chunk is None:
            chunk = _Chunk(*kernels.cross_pullback(basis.kernel, rows.X[part], basis.points))
        weight = rows.weight[part]
        G = chunk.K @ back
        dger(1.0, linear, rows.y[part], a=G.T, overwrite_a=1)  # G += y linear^T, in place
        if not np.all(weight == 1.0):
            G *= weight[:, None]
        diagonal = kernels.diagonal_vjp(basis.kernel, rows.X[part], -0.5 * beta * weight)
        return (diagonal, *chunk.pull(G))

    theta, points = np.zeros(basis.kernel.n_dims), None
    tasks = list(zip(_row_chunks(rows.n, size), kept, strict=True))
    for diagonal, cross, moved in _map_in_order(work, tasks):
        theta = theta + diagonal + cross
        points = moved if points is None else points + moved
    return theta, points


def evidence(rows: GaussianRows, kernel: Kernel, noise: float) -> tuple[float, Array, float]:
    """Return the log evidence, its gradient in the kernel's theta and that in the log of the noise variance.

    With C = K + diag(noise / w) it is log N(y; 0, C), plus the likelihood of the noise given the w - 1 deviations of
    the targets of a row of weight w from their mean. Several functions are independent and share kernel and noise.
    """
    n, n_functions, row_noise = rows.n, rows.n_functions, noise / rows.weight
    moves = kernels.moves_points(kernel, rows.X)
    K, pull = kernels.cross_pullback(kernel, rows.X, rows.X) if moves else (kernels.gram(kernel, rows.X), None)
    C = K.copy()
    C.flat[:: n + 1] += row_noise
    chol = cholesky_precision(C)
    alpha = solve_lower_t(chol, solve_lower(chol, rows.y))
    adjoint = inverse_spd(chol)
    adjoint *= -0.5 * n_functions
    adjoint += product(0.5 * alpha.reshape(n, -1), alpha.reshape(n, -1).T)
    copies = n_functions * (float(rows.weight.sum()) - n)
    log_weights = float(np.sum(np.log(rows.weight)))
    fit = float(np.vdot(rows.y, alpha))
    value = -0.5 * (fit + n_functions * log_det(chol) + n_functions * n * LOG_TWO_PI + n_functions * log_weights)
    value -= 0.5 * (copies * (LOG_TWO_PI + np.log(noise)) + rows.scatter / noise)
    log_noise = float(np.diagonal(adjoint) @ row_noise) - 0.5 * (copies - rows.scatter / noise)
    theta = kernels.gram_vjp(kernel, rows.X, adjoint) if pull is None else pull(np.ascontiguousarray(adjoint))[0]
    return float(value), theta, log_noise
