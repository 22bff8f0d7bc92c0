"""Posterior of a factorization machine, in the units of the target (docs/maths section 9)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from skpref._checks import check_arrays, check_indices, check_positive, check_types, require
from skpref._compiled.fm_draws import row_values
from skpref.data.design import ColumnDesign
from skpref.exceptions import DataError
from skpref.factorization.machine.fields import design_of
from skpref.factorization.machine.fit import overflow_message
from skpref.factorization.machine.model import Machine, compress
from skpref.likelihoods import Gaussian, OrdinalProbit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from skpref._typing import Array, Features, IntArray


@dataclass(frozen=True)
class FMDraws:
    """Draws of all parameters by Gibbs sampling."""

    theta: NDArray[np.float32]  # (S, K, 1 + d): of w_k and v_kf
    bias: Array  # (S,): of w_0
    log_likelihoods: Array  # of the chain after burn-in, each time that the thresholds were drawn

    def validate(self) -> None:
        """Raise DataError unless the parts fit together."""
        n_draws = check_arrays(self, bias="S")["S"]
        require(n_draws >= 2, self, "bias", "must be of two draws at least")
        sound = isinstance(self.theta, np.ndarray) and self.theta.dtype == np.float32 and self.theta.ndim == 3
        require(sound and len(self.theta) == n_draws, self, "theta", f"must be {n_draws} tables of float32")
        check_arrays(self, log_likelihoods="T")

    def values(self, X: Features, numbers: Iterable[int] | None = None) -> Iterator[Array]:
        """Iterate over y(x) of the rows under all or some of the draws, shape (n,) each."""
        design = design_of(X)
        for s in range(self.bias.size) if numbers is None else numbers:
            yield self.bias[s] + row_values(design.codes, design.table(self.theta[s].astype(np.float64)))

    def moments(self, X: Features) -> tuple[Array, Array]:
        """Return mean and variance of y(x) over the draws, shape (n,)."""
        mean, squares = np.zeros(X.shape[0]), np.zeros(X.shape[0])
        for n, value in enumerate(self.values(X), 1):
            change = value - mean
            mean += change / n
            squares += change * (value - mean)
        return mean, squares / self.bias.size


@dataclass(frozen=True)
class FMPosterior:
    """The machine that predicts, the last iterate, and the units of the targets."""

    machine: Machine  # for (y - offset)/scale
    last: Machine  # for (y - offset)/scale
    offset: float  # 0 in classification
    scale: float  # 1 in classification
    sampled: FMDraws | None = None  # what predicts in the machine's place; of ordered levels alone

    def validate(self) -> None:
        """Raise DataError unless the parts fit together."""
        check_types(self, machine=Machine, last=Machine, offset=float)
        check_positive(self, "scale")
        require(1e-150 < self.scale < 1e150, self, "scale", "must have a square in the range of floats")
        shape, kind = self.machine.mean.shape, type(self.machine.likelihood)
        require(self.last.mean.shape == shape, self, "last", f"must be of shape {shape}")
        require(type(self.last.likelihood) is kind, self, "last", "has another likelihood")
        if self.sampled is not None:
            require(isinstance(self.sampled, FMDraws), self, "sampled", "must be draws")
            self.sampled.validate()
            require(self.sampled.theta.shape[1:] == shape, self, "sampled", f"must be of tables of shape {shape}")
            require((self.offset, self.scale) == (0.0, 1.0), self, "sampled", "must have the units 0 and 1")

    @property
    def noise(self) -> float:
        """Standard deviation of the noise of numbers."""
        return self.machine.noise * self.scale

    def moments(self, X: Features, *, last: bool = False) -> tuple[Array, Array]:
        """Return mean and variance of y(x), without noise, shape (n,)."""
        rows = compress(X)
        if self.sampled and not last:
            mu, v = self.sampled.moments(X)
        else:
            mu, v = (self.last if last else self.machine).moments(rows)
        mean, variance = self.offset + self.scale * mu, self.scale**2 * v
        if not (np.isfinite(mean).all() and np.isfinite(variance).all()):
            raise DataError(overflow_message(rows, mean, variance))
        return mean, variance

    def covariance(self, X: Features) -> Array:
        """Return the covariance of y(x) between rows, without noise, shape (n, n)."""
        if self.sampled:
            return np.cov(list(self.sampled.values(X)), rowvar=False, bias=True).reshape(X.shape[0], X.shape[0])
        machine, squares = self.machine, X.multiply(X).tocsr()
        m, C = machine.mean, machine.convert_posterior(full=True).variance
        # x_k (1, Q - q_k), the derivatives of y(x) in the weight and factors of feature k.
        jacobian = [X, *(X.multiply((X @ v)[:, None]).tocsr() - squares * v for v in m.T[1:])]
        total = sparse.csr_array((X.shape[0], X.shape[0]))
        for a, b in product(range(m.shape[1]), repeat=2):
            if not machine.full and a != b:
                continue
            total = total + (jacobian[a] * C[:, a, b]) @ jacobian[b].T
            if a > 0 and b > 0:
                pairs = ((X * C[:, a, b]) @ X.T).toarray() ** 2 - ((squares * C[:, a, b] ** 2) @ squares.T).toarray()
                total = total + sparse.csr_array(0.5 * pairs)
        return self.scale**2 * (total.toarray() + machine.bias.variance)

    def draws(self, X: Features, n_samples: int, rng: np.random.Generator) -> Array:
        """Draw y(x) without noise; each column has one draw of all parameters, shape (n, n_samples)."""
        if self.sampled:
            numbers = rng.integers(self.sampled.bias.size, size=n_samples).tolist()
            return np.stack(list(self.sampled.values(X, numbers)), axis=1)
        out, machine, weights = np.empty((X.shape[0], n_samples)), self.machine, X.multiply(X).tocsr()
        root = np.linalg.cholesky(machine.variance) if machine.full else np.sqrt(machine.variance)
        for s in range(n_samples):
            noise = rng.standard_normal(machine.mean.shape)
            theta = machine.mean + (np.einsum("kab,kb->ka", root, noise) if machine.full else root * noise)
            w, V = theta[:, 0], theta[:, 1:]
            # [VRK22] section III: half the square of the sum, minus the sum of squares.
            pairs = 0.5 * (((X @ V) ** 2).sum(axis=1) - (weights @ V**2).sum(axis=1))
            bias = machine.bias.mean + np.sqrt(machine.bias.variance) * rng.standard_normal()
            out[:, s] = self.offset + self.scale * (bias + X @ w + pairs)
        return out


@dataclass(frozen=True, eq=False)
class FMFitted:
    """All that a fit has learnt; the attributes of the estimator are read from it."""

    posterior: FMPosterior
    groups: NDArray[Any]  # labels
    one_hot_groups: IntArray  # numbers of the groups of which every training row has exactly one column, with a 1
    classes: Any = None  # of shape (n_classes,); None: targets are numbers
    design: ColumnDesign | None = None  # of files
    lower_bounds: Array = field(default_factory=lambda: np.empty(0))  # after each pass
    converged: bool = False
    validation_losses: Array = field(default_factory=lambda: np.empty(0))

    def validate(self) -> None:
        """Raise DataError unless the parts fit together."""
        check_types(self, posterior=FMPosterior, converged=bool)
        check_arrays(self, validation_losses="m")
        machine = self.posterior.machine
        group, n_groups = machine.prior.group, machine.prior.nu.shape[0]
        require(np.shape(self.groups) == (n_groups,), self, "groups", f"must be {n_groups} labels")
        require(check_arrays(self, lower_bounds="n")["n"] >= 1, self, "lower_bounds", "are missing")
        check_indices(self, "one_hot_groups", self.one_hot_groups, 0, n_groups)
        n_columns = np.bincount(group, minlength=n_groups)[self.one_hot_groups]
        require((n_columns > 1).all(), self, "one_hot_groups", "names a group of fewer than two columns")
        if self.design is not None:
            check_types(self, design=ColumnDesign)
            require(np.array_equal(group, self.design.groups), self, "design", "has other features")
            require(int(self.design.starts[-1]) == group.size, self, "design", f"must have {group.size} features")
        n_labels = machine.likelihood.n_levels if isinstance(machine.likelihood, OrdinalProbit) else 2
        if isinstance(machine.likelihood, Gaussian):
            require(self.classes is None, self, "classes", "must be None")
        else:
            require(np.shape(self.classes) == (n_labels,), self, "classes", f"must be {n_labels} labels")
            unit = (self.posterior.offset, self.posterior.scale) == (0.0, 1.0)
            require(unit, self, "posterior", "must have the units 0 and 1 of a classifier")

    def replace_machines(self, best: Machine, last: Machine) -> FMFitted:
        """Return the record with the machine that predicts and the last iterate."""
        return replace(self, posterior=FMPosterior(best, last, self.posterior.offset, self.posterior.scale))

    def finish(
        self,
        best: Machine,
        last: Machine,
        bounds: list[float],
        total_weight: float,
        losses: Sequence[float] = (),
        *,
        converged: bool,
    ) -> FMFitted:
        """Return the record at the end of a fit, with bounds in the units of the targets."""
        return replace(
            self.replace_machines(best, last),
            lower_bounds=np.array(bounds) - total_weight * np.log(self.posterior.scale),
            converged=converged,
            validation_losses=np.array(losses, dtype=np.float64),
        )

    def list_classes(self) -> list[Any]:
        """Return the classes."""
        return [] if self.classes is None else list(self.classes.tolist())
