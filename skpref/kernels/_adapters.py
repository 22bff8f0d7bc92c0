"""Values and vector-Jacobian products of any kernel.

scikit-learn's kernel classes have rules here. Kernels with `value_at` and `vjp_at`, such as those of this package, use
their own. All other kernels (subclasses, kernels of users) are evaluated by `__call__` and its gradient tensor, in
chunks. scikit-learn's kernels take dense input only, so CSR rows are densified in chunks of at most 16 MiB, except
where a rule needs no dense rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
from scipy import sparse
from scipy.spatial.distance import cdist
from scipy.special import gamma, kv
from sklearn.gaussian_process import kernels as sk

from skpref._compiled import kernels as compiled
from skpref.kernels._layouts import Cross, Diagonal, Gram, Paired, densify, one_or_each, row_chunks
from skpref.kernels.linear import inner_products
from skpref.kernels.matern import PerFeature

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from skpref._typing import Array
    from skpref.kernels._layouts import Layout

# Rows of a chunk of the generic gradient: scikit-learn returns (2 rows)^2 n_theta numbers for it.
_ROWS = 64


@runtime_checkable
class LayoutKernel(Protocol):
    """A kernel that evaluates itself at a layout; define both methods to make your own kernel fast."""

    def value_at(self, at: Layout) -> Array:
        """Kernel values, shape at.shape."""

    def vjp_at(self, at: Layout, G: Array) -> Array:
        """Gradient of sum(G * values) in theta, shape (n_theta,)."""


def value(kernel: sk.Kernel, at: Layout) -> Array:
    """Return kernel values at a layout, shape at.shape."""
    rule: Callable[..., Array] | None = _RULES.get(type(kernel), (None,))[0]
    if rule is not None:  # checked first, since the check of a protocol takes ten times as long
        return rule(kernel, at)
    return kernel.value_at(at) if isinstance(kernel, LayoutKernel) else _generic(kernel, at)


def vjp(kernel: sk.Kernel, at: Layout, G: Array) -> Array:
    """Return the gradient of sum(G * value) in the kernel's theta, shape (n_theta,)."""
    if isinstance(kernel, LayoutKernel):
        return kernel.vjp_at(at, G)
    if kernel.n_dims == 0:
        return np.zeros(0)
    rule: Callable[..., Array] = _RULES.get(type(kernel), (_generic, _generic_vjp))[1]
    return rule(kernel, at, G)


def _sum(kernel: sk.Sum, at: Layout) -> Array:
    return value(kernel.k1, at) + value(kernel.k2, at)


def _sum_vjp(kernel: sk.Sum, at: Layout, G: Array) -> Array:
    return np.concatenate([vjp(kernel.k1, at, G), vjp(kernel.k2, at, G)])


def _product(kernel: sk.Product, at: Layout) -> Array:
    for factor, other in ((kernel.k1, kernel.k2), (kernel.k2, kernel.k1)):
        if type(factor) is sk.ConstantKernel:  # needs no matrix of its own
            scaled = value(other, at)
            scaled *= float(factor.constant_value)
            return scaled
    return value(kernel.k1, at) * value(kernel.k2, at)


def _product_vjp(kernel: sk.Product, at: Layout, G: Array) -> Array:
    first = vjp(kernel.k1, at, G * value(kernel.k2, at))
    return np.concatenate([first, vjp(kernel.k2, at, G * value(kernel.k1, at))])


def _power(kernel: sk.Exponentiation, at: Layout) -> Array:
    return np.asarray(value(kernel.kernel, at) ** kernel.exponent)


def _power_vjp(kernel: sk.Exponentiation, at: Layout, G: Array) -> Array:
    K = value(kernel.kernel, at)
    p = kernel.exponent
    # Where K underflows to 0, so does its derivative, for every power.
    slope = p * np.power(K, p - 1.0, out=np.zeros_like(K), where=K != 0.0)
    return vjp(kernel.kernel, at, G * slope)


def _constant(kernel: sk.ConstantKernel, at: Layout) -> Array:
    return np.full(at.shape, float(kernel.constant_value))


def _constant_vjp(kernel: sk.ConstantKernel, _at: Layout, G: Array) -> Array:
    return np.array([float(kernel.constant_value) * G.sum()])


def _white(kernel: sk.WhiteKernel, at: Layout) -> Array:
    if isinstance(at, Gram):
        return float(kernel.noise_level) * np.eye(at.shape[0])
    return np.full(at.shape, float(kernel.noise_level) if isinstance(at, Diagonal) else 0.0)


def _white_vjp(kernel: sk.WhiteKernel, at: Layout, G: Array) -> Array:
    noise = float(kernel.noise_level)
    if isinstance(at, Gram):
        return np.array([noise * np.trace(G)])
    return np.array([noise * G.sum() if isinstance(at, Diagonal) else 0.0])


def _dot(kernel: sk.DotProduct, at: Layout) -> Array:
    return inner_products(at) + float(kernel.sigma_0) ** 2


def _dot_vjp(kernel: sk.DotProduct, _at: Layout, G: Array) -> Array:
    return np.array([2.0 * float(kernel.sigma_0) ** 2 * G.sum()])


def _rbf(kernel: sk.RBF, at: Layout) -> Array:
    return PerFeature(_length_scale(kernel, at), compiled.SQUARED).value(at)


def _rbf_vjp(kernel: sk.RBF, at: Layout, G: Array) -> Array:
    gradient = PerFeature(_length_scale(kernel, at), compiled.SQUARED).vjp(at, G)
    return gradient if kernel.anisotropic else np.atleast_1d(gradient.sum())


def _length_scale(kernel: sk.RBF, at: Layout) -> Array:
    return one_or_each("length_scale", kernel.length_scale, at.sides[0].shape[1])


def _matern(kernel: sk.Matern, at: Layout) -> Array:
    l = _length_scale(kernel, at)
    return _blockwise(at, lambda block: _matern_value(_squared_distance(block, l), kernel.nu))


def _matern_vjp(kernel: sk.Matern, at: Layout, G: Array) -> Array:
    l = _length_scale(kernel, at)
    total = np.zeros(kernel.n_dims)
    for key, block in _blocks(at):
        d2 = _squared_distance(block, l)
        W = G[key] * _matern_slope(d2, kernel.nu)
        total += _weighted_squares(block, l, W) if kernel.anisotropic else np.sum(W * d2)
    return total


def _matern_value(d2: Array, nu: float) -> Array:
    """Return the Matern kernel of the scaled squared distance d2."""
    if nu == np.inf:
        return np.asarray(np.exp(-0.5 * d2))
    t = np.minimum(np.sqrt(2.0 * nu * d2), 1e3)  # an infinite one times 0 would be NaN
    if nu in {0.5, 1.5, 2.5}:
        polynomial = {0.5: 1.0, 1.5: 1.0 + t, 2.5: 1.0 + t + t * t / 3.0}[nu]
        return np.asarray(polynomial * np.exp(-t))
    inner = t > 0.0
    safe = np.where(inner, t, 1.0)
    return np.where(inner, 2.0 ** (1.0 - nu) / gamma(nu) * safe**nu * kv(nu, safe), 1.0)


def _matern_slope(d2: Array, nu: float) -> Array:
    """Return w such that dk/dlog l_f = w (x_f - z_f)^2 / l_f^2; from d(t^nu K_nu(t))/dt = -t^nu K_{nu-1}(t)."""
    if nu == np.inf:
        return np.asarray(np.exp(-0.5 * d2))
    t = np.sqrt(2.0 * nu * d2)
    if nu == 1.5:
        return np.asarray(3.0 * np.exp(-t))
    if nu == 2.5:
        return np.asarray(5.0 / 3.0 * (1.0 + t) * np.exp(-t))
    inner = t > 0.0  # where t = 0 all differences are 0, so any finite w is right
    safe = np.where(inner, t, 1.0)
    if nu == 0.5:
        return np.where(inner, np.exp(-safe) / safe, 0.0)
    return np.where(inner, 2.0 ** (2.0 - nu) * nu / gamma(nu) * safe ** (nu - 1.0) * kv(nu - 1.0, safe), 0.0)


def _rational(kernel: sk.RationalQuadratic, at: Layout) -> Array:
    l, alpha = np.asarray(float(kernel.length_scale)), float(kernel.alpha)
    return _blockwise(at, lambda block: (1.0 + _squared_distance(block, l) / (2.0 * alpha)) ** -alpha)


def _rational_vjp(kernel: sk.RationalQuadratic, at: Layout, G: Array) -> Array:
    l, alpha = np.asarray(float(kernel.length_scale)), float(kernel.alpha)
    total = np.zeros(2)
    for key, block in _blocks(at):
        d2 = _squared_distance(block, l)
        base = 1.0 + d2 / (2.0 * alpha)
        W = G[key] * base**-alpha
        total += np.array([np.sum(W * (0.5 * d2 / base - alpha * np.log(base))), np.sum(W * d2 / base)])
    return total[[not kernel.hyperparameter_alpha.fixed, not kernel.hyperparameter_length_scale.fixed]]


def _squared_distance(block: Layout, l: Array) -> Array:
    """Return sum_f (x_f - z_f)^2 / l_f^2 at a dense layout."""
    if isinstance(block, Diagonal):
        return np.zeros(block.shape)
    left, right = block.sides
    if isinstance(block, Paired):
        return np.asarray(np.sum(((left - right) / l) ** 2, axis=1))
    return np.asarray(cdist(left / l, right / l, metric="sqeuclidean"))


def _weighted_squares(block: Layout, l: Array, W: Array) -> Array:
    """Return sum W (x_f - z_f)^2 / l_f^2 for every feature f at a dense layout."""
    left, right = block.sides
    if isinstance(block, Diagonal | Paired):
        return np.asarray(W @ ((left - right) / l) ** 2)
    c = compiled.scale_of(l, compiled.SQUARED, left.shape[1])
    return compiled.cross_vjp(left, right, c, compiled.SQUARED, W, weighted=True)


def _blocks(at: Layout, most: int = 1024) -> Iterator[tuple[tuple[slice, ...], Layout]]:
    """Yield dense parts of a layout of bounded size, each with its place in the result.

    A `Gram` gives `Gram` blocks on the diagonal and `Cross` blocks elsewhere.
    """
    if isinstance(at, Diagonal | Paired):
        for part in row_chunks(at.X, most):
            yield (part,), type(at)(*(densify(table[part]) for table in at.tables))
        return
    left, right = at.sides
    columns = row_chunks(right, most)
    for part in row_chunks(left, most):
        X = densify(left[part])
        for other in columns:
            same = isinstance(at, Gram) and part == other
            yield (part, other), Gram(X) if same else Cross(X, densify(right[other]))


def _blockwise(at: Layout, function: Callable[[Layout], Array], most: int = 1024) -> Array:
    out = np.empty(at.shape)
    for key, block in _blocks(at, most):
        out[key] = function(block)
    return out


def _generic(kernel: sk.Kernel, at: Layout) -> Array:
    """Return the values of a kernel that has `__call__` only, shape at.shape."""
    if isinstance(at, Paired):
        return _blockwise(at, lambda block: np.diagonal(kernel(*block.tables)), _ROWS)
    if sparse.issparse(at.sides[0]):
        return _blockwise(at, lambda block: _generic(kernel, block))
    if isinstance(at, Diagonal):
        return np.array(kernel.diag(at.X), dtype=np.float64)
    K = np.asarray(kernel(*at.tables), dtype=np.float64)
    if K.shape != at.shape:
        msg = (
            f"kernel: got values of shape {K.shape} from {type(kernel).__name__}, wanted {at.shape}; "
            "a CompoundKernel (several kernels at once) cannot be used here"
        )
        raise ValueError(msg)
    return K


def _generic_vjp(kernel: sk.Kernel, at: Layout, G: Array) -> Array:
    """Return the gradient by scikit-learn's gradient tensor, which exists for K(X, X) only, in chunks."""
    total = np.zeros(kernel.n_dims)
    for key, block in _blocks(at, _ROWS):
        tensor, n = kernel(np.vstack(block.tables), eval_gradient=True)[1], block.shape[0]
        tensor = tensor[:n, -block.sides[1].shape[0] :]
        if isinstance(block, Diagonal | Paired):
            total += G[key] @ tensor[np.arange(n), np.arange(n)]
        else:
            total += np.tensordot(G[key], tensor, axes=2)
    return total


_RULES: dict[type, tuple[Callable[..., Array], Callable[..., Array]]] = {
    sk.Sum: (_sum, _sum_vjp),
    sk.Product: (_product, _product_vjp),
    sk.Exponentiation: (_power, _power_vjp),
    sk.ConstantKernel: (_constant, _constant_vjp),
    sk.WhiteKernel: (_white, _white_vjp),
    sk.DotProduct: (_dot, _dot_vjp),
    sk.RBF: (_rbf, _rbf_vjp),
    sk.Matern: (_matern, _matern_vjp),
    sk.RationalQuadratic: (_rational, _rational_vjp),
}
