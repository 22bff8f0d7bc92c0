"""Products and means over features of one-dimensional Matern kernels (docs/maths sections 2 and 5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse
from sklearn.gaussian_process.kernels import Hyperparameter, NormalizedKernelMixin, StationaryKernelMixin

from skpref._compiled import kernels as dense
from skpref._compiled import kernels_csr as csr
from skpref._compiled.kernels import FIVE_HALVES, HALF, KIND_OF_NU, THREE_HALVES
from skpref.kernels._base import LayoutKernelBase
from skpref.kernels._layouts import Diagonal, one_or_each

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from skpref._typing import Array, Features
    from skpref.kernels._layouts import Layout


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
        return self._loop(at, "")(*at.tables, self.scale(at.sides[0]), self.kind, additive=self.additive)

    def vjp(self, at: Layout, G: Array) -> Array:
        """Return the gradient of sum(G * value) in log l_f, shape (d,)."""
        if isinstance(at, Diagonal):
            return np.zeros(at.X.shape[1])
        return self._loop(at, "_vjp")(*at.tables, self.scale(at.sides[0]), self.kind, G, additive=self.additive)

    @staticmethod
    def _loop(at: Layout, suffix: str) -> Callable[..., Array]:
        """Return the compiled loop over the pairs of a layout, for dense or for CSR features."""
        loop: Callable[..., Array] = getattr(csr if sparse.issparse(at.sides[0]) else dense, at.loop + suffix)
        return loop


class _FeaturewiseMatern(StationaryKernelMixin, NormalizedKernelMixin, LayoutKernelBase):
    """Base class of the product and the mean, which differ in one flag."""

    _additive = False

    def __init__(
        self,
        length_scale: float | npt.ArrayLike = 1.0,
        length_scale_bounds: tuple[float, float] | str | npt.ArrayLike = (1e-5, 1e5),
        nu: float = 1.5,
    ) -> None:
        self.length_scale = length_scale
        self.length_scale_bounds = length_scale_bounds
        self.nu = nu

    @property
    def anisotropic(self) -> bool:
        """Whether every feature has a length-scale of its own (ARD)."""
        return np.iterable(self.length_scale) and len(np.asarray(self.length_scale)) > 1

    @property
    def hyperparameter_length_scale(self) -> Hyperparameter:
        """The length-scale(s), as scikit-learn's optimisers see them."""
        size = len(np.asarray(self.length_scale)) if self.anisotropic else 1
        return Hyperparameter("length_scale", "numeric", self.length_scale_bounds, size)

    def __repr__(self) -> str:
        """Show the length-scale(s) and nu."""
        l = np.atleast_1d(np.asarray(self.length_scale, dtype=np.float64))
        shown = f"[{', '.join(f'{v:.3g}' for v in l)}]" if self.anisotropic else f"{l[0]:.3g}"
        return f"{type(self).__name__}(length_scale={shown}, nu={self.nu:.3g})"

    def _rule(self, X: Features) -> PerFeature:
        if self.nu not in KIND_OF_NU:
            msg = f"nu: got {self.nu!r}, wanted 0.5, 1.5, 2.5 or inf (squared exponential)"
            raise ValueError(msg)
        l = one_or_each("length_scale", self.length_scale, X.shape[1])
        if not np.all(l > 0.0):
            msg = f"length_scale: got {l.min():.3g}, wanted positive numbers; drop a feature instead of scaling it by 0"
            raise ValueError(msg)
        return PerFeature(l, KIND_OF_NU[self.nu], self._additive)

    def value_at(self, at: Layout) -> Array:
        return self._rule(at.sides[0]).value(at)

    def vjp_at(self, at: Layout, G: Array) -> Array:
        if self.hyperparameter_length_scale.fixed:
            return np.zeros(0)
        gradient = self._rule(at.sides[0]).vjp(at, G)
        return gradient if self.anisotropic else np.atleast_1d(gradient.sum())

    def _gradient(self, X: Array, K: Array) -> Array:
        """Return dK/d theta, shape (n, n, n_theta)."""
        n, d = X.shape
        if self.hyperparameter_length_scale.fixed:
            return np.empty((n, n, 0))
        rule = self._rule(X)
        out = np.zeros((n, n, d if self.anisotropic else 1))
        for f, c in enumerate(rule.scale(X)):
            r = np.abs(X[:, f, None] - X[:, f]) * c
            out[:, :, f if self.anisotropic else 0] += _share(r, K, d, rule)
        return out


def _share(r: Array, K: Array, d: int, rule: PerFeature) -> Array:
    """Return the derivative of K in log l_f, given r_f and, for a product, K."""
    with np.errstate(over="ignore", invalid="ignore"):
        slope, value = _slope_and_value(r, rule.kind)
    # Where the kernel of this feature has underflowed the slope may be inf; 0 inf must give 0.
    return np.where(value > 0.0, slope, 0.0) * (value / d if rule.additive else K)


def _slope_and_value(r: Array, kind: int) -> tuple[Array, Array]:
    """Return h(r) and g(r) of `skpref._compiled.kernels`."""
    if kind == HALF:
        return r, np.exp(-r)
    if kind == THREE_HALVES:
        return r * r / (1.0 + r), (1.0 + r) * np.exp(-r)
    if kind == FIVE_HALVES:
        return r * r * (1.0 + r) / (3.0 + r * (3.0 + r)), (1.0 + r * (1.0 + r / 3.0)) * np.exp(-r)
    return r * r, np.exp(-0.5 * r * r)


class ProductMatern(_FeaturewiseMatern):
    """Product over features of one-dimensional Matern kernels: the default kernel of this package.

    k(x, z) = prod_f g(``|x_f - z_f|`` / l_f), with g the Matern kernel of smoothness nu; for nu = 1.5,
    g = (1 + r) exp(-r) with r = sqrt(3) ``|x_f - z_f|`` / l_f. For nu = inf it equals scikit-learn's `RBF`; for one
    feature, its `Matern`. With several features, scikit-learn's `Matern` is a function of the Euclidean distance
    instead.

    Parameters
    ----------
    length_scale : float or array-like of shape (d,), default=1.0
        Length-scale l in the units of the features, one for all or one each (ARD). The product becomes smaller with
        every feature, so with d features start from `median_length_scales` times sqrt(d) or more. 1.0, as in
        scikit-learn.
    length_scale_bounds : pair of floats, array-like of shape (d, 2) or "fixed", default=(1e-5, 1e5)
        Bounds of the length-scale(s); "fixed" leaves them out of the fit. As in scikit-learn.
    nu : {0.5, 1.5, 2.5, inf}, default=1.5
        Smoothness; inf is the squared exponential. 1.5 as in [SG20].

    Notes
    -----
    The kernel of [SG20]; see docs/maths sections 2 and 5. The product is computed in logs, so any number of features
    and any length-scale is safe. Values below 1e-307 are 0.

    Examples
    --------
    >>> import numpy as np
    >>> from skpref.kernels import ProductMatern
    >>> X = np.array([[0.0, 0.0], [1.0, 2.0]])
    >>> ProductMatern(length_scale=[1.0, 2.0])(X).round(4)
    array([[1.    , 0.2336],
           [0.2336, 1.    ]])
    """


class AdditiveMatern(_FeaturewiseMatern):
    """Mean over features of one-dimensional Matern kernels: additive functions of the features.

    k(x, z) = (1/d) sum_f g(``|x_f - z_f|`` / l_f), so the amplitude is 1 for any number of
    features. It cannot learn interactions.

    Parameters
    ----------
    length_scale : float or array-like of shape (d,), default=1.0
        Length-scale l in the units of the features, one for all or one each (ARD). 1.0, as in scikit-learn.
    length_scale_bounds : pair of floats, array-like of shape (d, 2) or "fixed", default=(1e-5, 1e5)
        Bounds of the length-scale(s); "fixed" leaves them out of the fit. As in scikit-learn.
    nu : {0.5, 1.5, 2.5, inf}, default=1.5
        Smoothness; inf is the squared exponential. 1.5, as `ProductMatern`.

    Notes
    -----
    A constant feature adds 1/d to every value. docs/maths section 5.

    Examples
    --------
    >>> import numpy as np
    >>> from skpref.kernels import AdditiveMatern
    >>> X = np.array([[0.0, 0.0], [1.0, 2.0]])
    >>> AdditiveMatern(length_scale=[1.0, 2.0])(X).round(4)
    array([[1.    , 0.4834],
           [0.4834, 1.    ]])
    """

    _additive = True
