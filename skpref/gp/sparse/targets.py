"""Targets of regression: standardised, merged over equal rows, checked for counts; the noise of the likelihoods."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from skpref._math.limits import LARGEST
from skpref._math.quadrature import expectation
from skpref._validation import check_numbers
from skpref._warn import warn
from skpref.data.tables import unique_rows
from skpref.exceptions import DataError, DataWarning
from skpref.gp.hyperpriors import count_priors, regression_priors
from skpref.gp.sparse.evidence import GaussianRows
from skpref.gp.sparse.policy import POLICY
from skpref.likelihoods import Gaussian, Likelihood, NegativeBinomial, Poisson, StudentT

if TYPE_CHECKING:
    from collections.abc import Callable

    from sklearn.gaussian_process.kernels import Kernel

    from skpref._typing import Array, Features, IntArray
    from skpref.gp.hyperpriors import Priors
    from skpref.gp.posterior import SparseLatent
    from skpref.gp.sparse.fit_general import Observations


class TargetScale(NamedTuple):
    """The model sees (y - mean) / deviation."""

    mean: float
    deviation: float
    step: float = 0.0  # by which targets are rounded

    @property
    def rounding(self) -> float:
        """Variance of the error of rounding, in variances of the targets: noise below it cannot be told from it."""
        return (self.step / self.deviation) ** 2 / 12.0

    @classmethod
    def from_moments(cls, mean: float, deviation: float, largest: float) -> TargetScale:
        """Return the scale of targets of at most this size; if all are equal, 1 or the least number above rounding."""
        rounding = 1e-12 * largest  # where all targets are equal
        return cls(mean, deviation if deviation > rounding else max(1.0, rounding))


class DistinctTargets(NamedTuple):
    """Distinct pairs of row and target, sorted, so that the order of a sample does not change the bits of a fit."""

    X: Features  # (n, d): distinct rows
    row: IntArray  # (m,): row of each pair
    y: Array  # (m,): its target
    weight: Array  # (m,): sum of its weights
    offset: Array | None = None  # (m,): what is added to f; pairs with other offsets are other pairs

    @property
    def rows(self) -> Features:
        """The row of each pair, shape (m, d); no copy if every row has one target."""
        return self.X if self.row.size == self.X.shape[0] else self.X[self.row]


def distinct_targets(X: Features, y: Array, weight: Array, offset: Array | None = None) -> DistinctTargets:
    """Merge equal pairs of row and target, with their offsets if there are any."""
    if not np.all(used := weight > 0.0):
        X, y, weight, offset = X[used], y[used], weight[used], None if offset is None else offset[used]
    first, row = unique_rows(X)
    if offset is None:
        values, place = np.unique(y, return_inverse=True)
    else:
        values, place = np.unique(np.column_stack([y, offset]), axis=0, return_inverse=True)
    n_values = len(values)
    cell, inverse = np.unique(row * n_values + place.ravel(), return_inverse=True)
    total, kept = np.bincount(inverse, weight).astype(np.float64), values[cell % n_values]
    columns = (kept, total) if offset is None else (kept[:, 0], total, kept[:, 1])
    return DistinctTargets(X[first], cell // n_values, *columns)


def target_scale(targets: DistinctTargets) -> TargetScale:
    """Return mean and standard deviation of the targets."""
    # Squares of targets near the end of the floating-point range would overflow.
    largest = float(np.max(np.abs(targets.y), initial=0.0)) or 1.0
    y, share = targets.y / largest, targets.weight / targets.weight.sum()
    mean = float(share @ y)
    deviation = float(np.sqrt(share @ (y - mean) ** 2))
    scale = TargetScale.from_moments(mean * largest, deviation * largest, largest)
    return scale._replace(step=rounding_step(y) * largest)


def rounding_step(y: Array) -> float:
    """Return the least difference of numbers that repeat, which are therefore rounded; 0 for others and for few."""
    values = np.unique(y)
    return float(np.diff(values).min()) if POLICY.repeated_rows <= values.size < y.size else 0.0


def standardised(targets: DistinctTargets, scale: TargetScale) -> Array:
    """Return (y - mean) / deviation; refuse targets whose squares would overflow, shape (m,)."""
    with np.errstate(over="ignore"):
        y = (targets.y - scale.mean) / scale.deviation
    if y.size and np.abs(y).max() > LARGEST:
        largest = targets.y[np.argmax(np.abs(y))]
        raise DataError(
            f"y must be within {LARGEST:g} standard deviations of the first targets ({scale.deviation:g}); got "
            f"{largest:g}. Use another unit, or call fit"
        )
    return np.asarray(y)


def gaussian_rows(targets: DistinctTargets, scale: TargetScale) -> GaussianRows:
    """Return distinct rows with the means of their standardised targets."""
    n = targets.X.shape[0]
    y = standardised(targets, scale)
    weight = np.bincount(targets.row, targets.weight, n).astype(np.float64)
    mean = np.bincount(targets.row, targets.weight * y, n) / weight
    scatter = float(targets.weight @ (y - mean[targets.row]) ** 2)
    return GaussianRows(targets.X, mean, weight, scatter)


def check_counts(likelihood: str | Likelihood, y: Array) -> None:
    """Refuse targets other than counts for a likelihood of counts."""
    wrong = (y < 0.0) | (y != np.floor(y))
    if isinstance(initial_likelihood(likelihood, None, 1.0), Poisson | NegativeBinomial) and np.any(wrong):
        msg = (
            f"y must be counts 0, 1, 2, ... for likelihood={likelihood!r}; got {float(y[wrong][0])!r} "
            f"({int(wrong.sum())} values of this kind). Use likelihood='gaussian' or 'student-t' for other numbers."
        )
        raise DataError(msg)


def read_exposure(exposure: object, n_rows: int, likelihood: str | Likelihood) -> Array | None:
    """Return the exposures of the rows, finite and positive, shape (n_rows,), or None if there are none."""
    if exposure is None:
        return None
    if likelihood not in ("poisson", "negative-binomial") and not isinstance(likelihood, Poisson | NegativeBinomial):
        raise DataError(
            f"exposure needs likelihood='poisson' or 'negative-binomial'; got likelihood={likelihood!r}, which takes "
            "no exposure"
        )
    check_numbers(exposure, "exposure")
    if getattr(getattr(exposure, "dtype", None), "kind", None) == "c":  # NumPy would drop the imaginary part
        raise DataError(f"exposure must be numbers, one per row of {n_rows}: they are complex")
    try:
        values = np.asarray(exposure, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"exposure must be numbers, one per row of {n_rows}: {error}") from error
    if values.shape not in {(), (n_rows,)}:
        raise DataError(f"exposure must be numbers, one per row of {n_rows}; got an array of shape {values.shape}")
    values = np.broadcast_to(values, n_rows)
    wrong = np.flatnonzero(~((values > 0.0) & np.isfinite(values)))
    if wrong.size:
        msg = f"exposure must be positive and finite; got {values[wrong[0]]:g} in row {wrong[0]}. Leave out such rows."
        raise DataError(msg)
    if n_rows and (values.max() > LARGEST or values.min() < 1.0 / LARGEST):
        raise DataError(
            f"exposure must be from {1.0 / LARGEST:g} to {LARGEST:g}; got {values.min():g} to "
            f"{values.max():g}. Use another unit"
        )
    return values


def scale_by_exposure(y: Array, weight: Array, exposure: Array, likelihood: str | Likelihood) -> tuple[Array, ...]:
    """Return targets, weights and, for a negative binomial, offsets of counts with these exposures.

    A Poisson count y of exposure e is a count y / e of weight e: the log likelihoods differ by a constant. A negative
    binomial has no such rule: its f is log e larger.
    """
    if likelihood == "poisson" or isinstance(likelihood, Poisson):
        return y / exposure, weight * exposure
    return y, weight, np.log(exposure)


def initial_likelihood(
    likelihood: str | Likelihood, noise: float | None, mean: float, *, rounding: float = 0.0
) -> Likelihood:
    """Return the likelihood at its initial parameters, given the mean target and the variance of rounding."""
    if isinstance(likelihood, Likelihood):
        return likelihood
    if likelihood == "gaussian":
        return Gaussian(1.0 / (POLICY.initial_noise if noise is None else noise))
    if likelihood == "student-t":
        return StudentT(float(np.sqrt(POLICY.initial_noise)), least=max(StudentT.least, float(np.sqrt(rounding))))
    return (Poisson if likelihood == "poisson" else NegativeBinomial)(max(mean, POLICY.least_rate))


def kernel_priors(likelihood: Likelihood) -> Callable[[Features, Kernel], Priors]:
    """Return the priors of the default kernel."""
    return count_priors if isinstance(likelihood, Poisson | NegativeBinomial) else regression_priors


def warn_of_repeats(targets: DistinctTargets) -> None:
    """Warn of numbers among which one is so frequent that normal noise does not explain it."""
    values, place = np.unique(targets.y, return_inverse=True)
    share = np.bincount(place, targets.weight) / targets.weight.sum()
    if values.size >= POLICY.repeated_rows and share.max() > POLICY.repeated_share:
        value = values[np.argmax(share)]
        warn(
            f"y: {share.max():.0%} of the targets are {value:g}. Normal noise does not explain that, and intervals may "
            f"be far too narrow. Learn by SVGPClassifier whether y is {value:g}, and fit the other rows; for counts "
            "try likelihood='negative-binomial'",
            DataWarning,
        )


def warn_of_spread(likelihood: Poisson, latent: SparseLatent, data: Observations) -> None:
    """Warn of counts that vary more than a Poisson distribution about their posterior means."""
    rows = np.linspace(0, data.n - 1, min(data.n, POLICY.sample_rows)).astype(np.int64)
    y, weight = data.y[rows], data.weight[rows]
    f, variance = latent.latent(data.X[rows], variance=True)
    mean = np.maximum(likelihood.predict(f, variance), POLICY.least_rate)
    total = float(weight.sum())
    # A flexible f follows part of the noise: rows less their leverages are left.
    freedom = max(total - float(weight @ (mean * variance)), POLICY.least_freedom * total)
    spread = float(weight @ ((y - mean) ** 2 / mean)) / freedom
    error = float(np.sqrt(weight @ (2.0 + 1.0 / mean))) / freedom
    if spread > POLICY.spread + POLICY.spread_errors * error:
        what = f"counts vary {spread:.1f} times as much as a Poisson distribution allows, so intervals are too narrow"
        advice = "set likelihood='negative-binomial', which learns how much they vary"
        warn(f"{what}: {advice}", DataWarning)


def noise_of(likelihood: Likelihood) -> float | None:
    """Return the scale of the noise in units of the standardised targets, None for likelihoods without noise."""
    if isinstance(likelihood, Gaussian):
        return float(likelihood.precision**-0.5)
    return likelihood.scale if isinstance(likelihood, StudentT) else None


def variance_rule(likelihood: Likelihood) -> Callable[[Array, Array], Array]:
    """Return the likelihood's rule for the variance of a new y."""
    rule: Callable[[Array, Array], Array] | None = getattr(likelihood, "predictive_variance", None)
    if rule is None:
        msg = f"{type(likelihood).__name__} has no variance of a new y: use noise=False or predict_latent."
        raise DataError(msg)
    return rule


def function_variance(likelihood: Likelihood, mean: Array, variance: Array) -> Array:
    """Return the variance of E[y | f], which is f only if y is f plus noise, shape (n,)."""

    def powers(f: Array) -> tuple[Array, Array]:
        expected = likelihood.predict(f, np.zeros_like(f))
        return expected, expected**2

    first, second = expectation(powers, mean, variance)
    return np.maximum(second - first**2, 0.0)


def noise_variance(likelihood: Likelihood) -> float:
    """Return the variance of the noise, in variances of the targets."""
    if isinstance(likelihood, Gaussian):
        return 1.0 / likelihood.precision
    return float(variance_rule(likelihood)(np.zeros(1), np.zeros(1))[0])


def draw_noise(likelihood: Likelihood, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Draw the noise that is added to f."""
    scale = noise_of(likelihood) or 0.0
    standard = rng.standard_t(likelihood.df, shape) if isinstance(likelihood, StudentT) else rng.standard_normal(shape)
    return np.asarray(scale * standard)
