"""Values and gradients of products and means of one-dimensional kernels, for dense and CSR rows alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from scipy import sparse

from skpref._compiled import kernels as dense
from skpref._compiled import kernels_csr as csr
from skpref.kernels._layouts import Cross, Diagonal, Gram

if TYPE_CHECKING:
    from skpref._typing import Array, Features
    from skpref.kernels._layouts import Layout

__all__ = ["PerFeature"]


class _Loops(Protocol):
    """Interface of the compiled modules for dense and for CSR features."""

    def cross(self, X: Features, Z: Features, c: Array, kind: int, *, additive: bool = ...) -> Array: ...
    def gram(self, Z: Features, c: Array, kind: int, *, additive: bool = ...) -> Array: ...
    def paired(self, X: Features, Y: Features, c: Array, kind: int, *, additive: bool = ...) -> Array: ...
    def cross_vjp(self, X: Features, Z: Features, c: Array, kind: int, G: Array, *, additive: bool = ...) -> Array: ...
    def gram_vjp(self, Z: Features, c: Array, kind: int, G: Array, *, additive: bool = ...) -> Array: ...
    def paired_vjp(self, X: Features, Y: Features, c: Array, kind: int, g: Array, *, additive: bool = ...) -> Array: ...


def _loops(X: Features) -> _Loops:
    return csr if sparse.issparse(X) else dense


@dataclass(frozen=True, eq=False)
class PerFeature:
    """A product (or mean) over features of kernels g(|x_f - z_f| c_f)."""

    length_scale: Array | float  # (d,): l
    kind: int  # from `KIND_OF_NU`
    additive: bool = False  # mean over features instead of their product

    def scale(self, X: Features) -> Array:
        """Return c_f for every feature of X, shape (d,)."""
        return dense.scale_of(self.length_scale, self.kind, X.shape[1])

    def value(self, at: Layout) -> Array:
        """Return kernel values at a layout, shape at.shape."""
        if isinstance(at, Diagonal):
            return np.ones(at.shape)
        first = at.Z if isinstance(at, Gram) else at.X
        module = _loops(first)
        c = self.scale(first)
        if isinstance(at, Gram):
            return module.gram(at.Z, c, self.kind, additive=self.additive)
        if isinstance(at, Cross):
            return module.cross(at.X, at.Z, c, self.kind, additive=self.additive)
        return module.paired(at.X, at.Y, c, self.kind, additive=self.additive)

    def vjp(self, at: Layout, G: Array) -> Array:
        """Return the gradient of sum(G * value) in log l_f, shape (d,)."""
        if isinstance(at, Diagonal):
            return np.zeros(at.X.shape[1])
        first = at.Z if isinstance(at, Gram) else at.X
        module = _loops(first)
        c = self.scale(first)
        if isinstance(at, Gram):
            return module.gram_vjp(at.Z, c, self.kind, G, additive=self.additive)
        if isinstance(at, Cross):
            return module.cross_vjp(at.X, at.Z, c, self.kind, G, additive=self.additive)
        return module.paired_vjp(at.X, at.Y, c, self.kind, G, additive=self.additive)
