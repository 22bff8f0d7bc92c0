"""The inverse scale s of a Gaussian-process prior (docs/maths section 4)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import digamma, gammaln

from skpref._checks import check_positive, require

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True)
class FixedScale:
    """An inverse variance that is known."""

    value: float

    def validate(self) -> None:
        """Raise DataError unless the value is positive."""
        check_positive(self, "value")

    @property
    def mean(self) -> float:
        """The value."""
        return float(self.value)

    @property
    def mean_log(self) -> float:
        """Log of the value."""
        return float(np.log(self.value))

    @property
    def kl(self) -> float:
        """No uncertainty, no divergence."""
        return 0.0


@dataclass(frozen=True)
class GammaScale:
    """q(s) = Gamma(shape, rate) under the prior Gamma(shape0, rate0); rates, not scales."""

    shape0: float  # prior
    rate0: float  # prior
    shape: float  # posterior; the prior when not given
    rate: float  # posterior; the prior when not given

    def validate(self) -> None:
        """Raise DataError unless all numbers are positive."""
        check_positive(self, "shape0", "rate0", "shape", "rate")

    @classmethod
    def prior(cls, shape0: float, rate0: float) -> GammaScale:
        """Start at the prior."""
        return cls(shape0, rate0, shape0, rate0)

    @property
    def mean(self) -> float:
        """E[s] = alpha / beta."""
        return self.shape / self.rate

    @property
    def mean_log(self) -> float:
        """E[log s] = digamma(alpha) - log beta."""
        return float(digamma(self.shape) - np.log(self.rate))

    @property
    def kl(self) -> float:
        """KL(q(s) || p(s)) (docs/maths section 5)."""
        a, b, a0, b0 = self.shape, self.rate, self.shape0, self.rate0
        gain = (a - a0) * self.mean_log + (b0 - b) * self.mean
        return float(gain + a * np.log(b) - a0 * np.log(b0) - gammaln(a) + gammaln(a0))


Scale = FixedScale | GammaScale


def learnt_scale(scale: Scale, size: float, second_moment: float, pull: float = 0.0) -> Scale:
    """Return the q(s) that is stationary given q(v) (docs/maths section 4); a fixed scale as it is."""
    if isinstance(scale, FixedScale):
        return scale
    alpha = scale.shape0 + 0.5 * size
    beta = scale.rate0 + 0.5 * second_moment
    g = pull / alpha
    root = float(np.sqrt(alpha**2 + 4.0 * g * alpha * beta))
    return replace(scale, shape=alpha, rate=float(2.0 * alpha * beta / (alpha + root)))


def moved_scale(scale: Scale, shift: float) -> Scale:
    """Shift log E[s], the relative uncertainty kept; a fixed scale as it is."""
    return scale if isinstance(scale, FixedScale) else replace(scale, rate=scale.rate * float(np.exp(-shift)))


def mixed_scale(scale: Scale, target: Scale, rho: float) -> Scale:
    """Move a fraction rho towards `target` in natural parameters; a fixed scale as it is."""
    if isinstance(scale, FixedScale):
        return scale
    if isinstance(target, FixedScale):
        raise TypeError("target must be a GammaScale like the scale; got FixedScale")
    shape = (1.0 - rho) * scale.shape + rho * target.shape
    return replace(scale, shape=shape, rate=(1.0 - rho) * scale.rate + rho * target.rate)


def check_scales(record: object, name: str, scales: Mapping[str, Scale], needed: Iterable[str] = ()) -> None:
    """Check that a part of a record holds scales by name, and all the needed ones."""
    sound = isinstance(scales, dict) and all(isinstance(scale, Scale) for scale in scales.values())
    require(sound and set(needed) <= set(scales), record, name, f"must hold the scales {', '.join(sorted(needed))}")
