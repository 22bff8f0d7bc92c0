"""Every likelihood keeps the promises of the exported kit, and the kit notices those that do not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skpref.likelihoods import Gaussian, PairwiseLogit, PairwiseProbit
from skpref.testing._likelihoods import check_likelihood

LIKELIHOODS = [PairwiseProbit(), PairwiseLogit(), Gaussian(), Gaussian(precision=7.3)]


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=repr)
@settings(max_examples=5)
@given(seed=st.integers(0, 2**32 - 1))
def test_conforms(likelihood, seed: int) -> None:
    check_likelihood(likelihood, seed=seed)


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=repr)
def test_conforms_for_given_observations(likelihood) -> None:
    check_likelihood(likelihood, y=[0.0, 1.0, 0.25, 1.0])


@dataclass(frozen=True)
class WrongSlope(PairwiseProbit):
    def _derivatives(self, y, z):
        value, first, second = super()._derivatives(y, z)
        return value, 1.01 * first, second


@dataclass(frozen=True)
class WrongExpectation(PairwiseLogit):
    def _expectation(self, y, mu, v):
        value, first, second = super()._expectation(y, mu, v)
        return value - 1e-6, first, second


@dataclass(frozen=True)
class WholeCurvature(PairwiseLogit):
    # The factor 1/2 of dE/dv = E[l'']/2 forgotten.
    def _expectation(self, y, mu, v):
        value, first, second = super()._expectation(y, mu, v)
        return value, first, 2.0 * second


@dataclass(frozen=True)
class WrongTilted(Gaussian):
    def _tilted(self, y, mu, v):
        log_z, first, second = super()._tilted(y, mu, v)
        return log_z, first, 1.001 * second


@dataclass(frozen=True)
class FlooredTail(PairwiseProbit):
    # A floor under a probability, as others have it.
    def _derivatives(self, y, z):
        value, first, second = super()._derivatives(y, z)
        return np.maximum(value, np.log(1e-6)), first, second


@dataclass(frozen=True)
class PlugInPrediction(PairwiseProbit):
    def _predict(self, mu, v):
        return super()._predict(mu, 0.0 * v)


@dataclass(frozen=True)
class LeftBias(PairwiseLogit):
    def _predict(self, mu, v):
        return np.clip(super()._predict(mu, v) + 1e-9, 0.0, 1.0)


@dataclass(frozen=True)
class Careless(PairwiseProbit):
    def _expectation(self, y, mu, v):
        result = super()._expectation(y, mu, v)
        mu *= 0.0
        return result


@dataclass(frozen=True)
class Coupled(PairwiseProbit):
    def _tilted(self, y, mu, v):
        log_z, first, second = super()._tilted(y, mu, v)
        return log_z, first + 1e-9 * y.size, second


class Forgetful(PairwiseProbit):
    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__


@pytest.mark.parametrize(
    ("mutant", "complaint"),
    [
        (WrongSlope(), "derivatives: first"),
        (WrongExpectation(), "expectation: value"),
        (WholeCurvature(), "derivative in v"),
        (WrongTilted(), "tilted: second"),
        (FlooredTail(), "derivatives: first"),
        (PlugInPrediction(), "predict: not the mean"),
        (LeftBias(), "is not exactly 1"),
        (Coupled(), "batch != row by row"),
        (Forgetful(), "differs from its own copy"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_notices_a_broken_likelihood(mutant, complaint: str) -> None:
    with pytest.raises(AssertionError, match=complaint):
        check_likelihood(mutant, seed=1)


def test_notices_changed_arguments() -> None:
    # Where arguments are read-only numpy itself complains; a mean given as a writable array is changed for good.
    with pytest.raises((AssertionError, ValueError)):
        check_likelihood(Careless())


def test_refuses_what_is_no_likelihood() -> None:
    with pytest.raises(AssertionError, match="is not a Likelihood"):
        check_likelihood("probit")
