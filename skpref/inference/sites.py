"""Sites: Gaussian approximations of the likelihood terms ([SG20] section 4, docs/maths section 3).

A rule turns (y, mean, variance) of every projection into a site of precision ``w`` and pseudo-target ``t``. It is
kept as (value, gradient, weight) with ``w t = w mu + gradient``, so that a term without curvature (w = 0) needs no
division. Inference methods differ in their rule alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from skpref._typing import Array
    from skpref.likelihoods import Likelihood


@dataclass(frozen=True, eq=False)
class Sites:
    """Sites of P observations, already multiplied by the observations' weights."""

    value: Array  # (P,): the term of the objective: E[log p] (variational rules) or log p at the mode (Laplace)
    gradient: Array  # (P,): its derivative in the mean of the projection
    weight: Array  # (P,): site precision w >= 0

    def pseudo_linear(self, mu: Array) -> Array:
        """Return w_i t_i, the site's natural linear parameter, shape (P,)."""
        return self.weight * mu + self.gradient


SiteFunction = Callable[["Likelihood", "Array", "Array", "Array", "Array"], Sites]


@dataclass(frozen=True)
class Rule:
    """How sites are formed, and what the loop may assume about them."""

    name: str  # "vb", "laplace" or "linearised"
    form: SiteFunction  # (likelihood, y, mu, v, prior_variance) -> Sites, unweighted
    integrates: bool  # whether the objective is the variational bound (True) or the log joint at the mean (False)
    monotone: bool  # whether the loop halves steps that lower the objective

    def __call__(self, likelihood: Likelihood, y: Array, moments: tuple[Array, Array, Array], weight: Array) -> Sites:
        """Form the weighted sites."""
        mu, v, prior_variance = moments
        sites = self.form(likelihood, y, mu, v, prior_variance)
        return Sites(weight * sites.value, weight * sites.gradient, weight * sites.weight)


def _variational(likelihood: Likelihood, y: Array, mu: Array, v: Array, _prior_variance: Array) -> Sites:
    value, gradient, curvature = likelihood.expectation(y, mu, v)
    return Sites(value, gradient, -2.0 * curvature)


def _laplace(likelihood: Likelihood, y: Array, mu: Array, _v: Array, _prior_variance: Array) -> Sites:
    value, gradient, curvature = likelihood.derivatives(y, mu)
    return Sites(value, gradient, np.maximum(-curvature, 0.0))


def _linearised(likelihood: Likelihood, y: Array, mu: Array, v: Array, prior_variance: Array) -> Sites:
    # The rule has no bound, so the exact bound is reported.
    weight, gradient = likelihood.linearised(y, mu, v, prior_variance)
    value, _, _ = likelihood.expectation(y, mu, v)
    return Sites(value, gradient, weight)


VARIATIONAL = Rule("vb", _variational, integrates=True, monotone=True)
LAPLACE = Rule("laplace", _laplace, integrates=False, monotone=True)
LINEARISED = Rule("linearised", _linearised, integrates=True, monotone=False)
