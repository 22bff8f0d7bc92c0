"""Every likelihood keeps the promises of the exported kit, and the kit notices those that do not."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skpref.likelihoods import Gaussian, PairwiseLogit, PairwiseProbit
from skpref.testing import _likelihoods
from skpref.testing._likelihoods import check_likelihood
from tests.examples import examples

LIKELIHOODS = [PairwiseProbit(), PairwiseLogit(), Gaussian(), Gaussian(precision=7.3)]


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=repr)
@examples(5)
@given(seed=st.integers(0, 2**32 - 1))
def test_conforms(likelihood, seed):
    check_likelihood(likelihood, seed=seed)


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=repr)
def test_conforms_for_given_observations(likelihood):
    check_likelihood(likelihood, y=[0.0, 1.0, 0.25, 1.0])


@dataclass(frozen=True)
class FlooredTail(PairwiseProbit):
    # A floor under a probability, as others have it.
    def _derivatives(self, y, z):
        value, first, second = super()._derivatives(y, z)
        return np.maximum(value, np.log(1e-6)), first, second


@dataclass(frozen=True)
class Careless(PairwiseProbit):
    def _expectation(self, y, mu, v):
        result = super()._expectation(y, mu, v)
        mu *= 0.0
        return result


class Forgetful(PairwiseProbit):
    def __eq__(self, other):
        return self is other

    __hash__ = object.__hash__


@pytest.mark.parametrize(
    ("mutant", "complaint"), [(FlooredTail(), "derivatives: first"), (Forgetful(), "differs from its own copy")]
)
def test_notices_a_broken_likelihood(mutant, complaint):
    with pytest.raises(AssertionError, match=complaint):
        check_likelihood(mutant, seed=1)


def scaled(part, factor=1.0001):
    """Make one part of a result a bit too large."""
    return lambda result, *_: tuple(value * (factor if k == part else 1.0) for k, value in enumerate(result))


def far_out(result, y, at, *_):
    return np.where(np.abs(at) > 9e5, np.nan, result)


def without_variance(part):
    return lambda result, y, mu, v: tuple(
        value + (1e-9 if k == part else 0.0) * (np.asarray(v) == 0.0) for k, value in enumerate(result)
    )


def of_one(result, y, mu, v):
    """Wrong where labels are neither 0 nor 1."""
    return tuple(value + 1e-9 * np.abs(np.asarray(y) - np.round(y)) for value in result)


def to_the_left(part):
    return lambda result, y, mu, v: tuple(
        value + (1e-8 if k == part else 0.0) * np.asarray(mu) for k, value in enumerate(result)
    )


@pytest.mark.parametrize(
    ("method", "change", "check", "complaint"),
    [
        ("log_prob", lambda p, *_: p * (1.0 + 1e-12), "_check_derivatives", "value is not log_prob"),
        ("derivatives", scaled(1), "_check_derivatives", "derivatives: first"),
        ("derivatives", scaled(2), "_check_derivatives", "derivatives: second"),
        ("expectation", scaled(0), "_check_expectation", "expectation: value"),
        ("expectation", scaled(1), "_check_expectation", "expectation: derivative in mu"),
        ("expectation", scaled(2), "_check_expectation", "derivative in v"),
        ("expectation", without_variance(0), "_check_no_variance", "expectation at v = 0"),
        ("expectation", without_variance(1), "_check_no_variance", "expectation at v = 0"),
        ("expectation", without_variance(2), "_check_no_variance", "expectation at v = 0"),
        ("tilted", without_variance(0), "_check_no_variance", "tilted at v = 0"),
        ("tilted", scaled(0), "_check_tilted", "tilted: log Z"),
        ("tilted", scaled(1), "_check_tilted", "tilted: first derivative"),
        ("tilted", scaled(2), "_check_tilted", "tilted: second"),
        ("tilted", lambda t, y, *_: (t[0], t[1] + 1e-9 * np.size(y), t[2]), "_check_shapes", "batch != row by row"),
        ("expectation", lambda e, *_: (e[0] + 0.2, *e[1:]), "_check_concavity", "against Jensen"),
        ("expectation", lambda e, *_: (e[0], e[1], 0.0 - e[2]), "_check_concavity", "for a concave"),
        ("predict", lambda _, m, v: PairwiseLogit().predict(m, 0.0 * v), "_check_prediction", "predict: not the mean"),
        ("derivatives", far_out, "_check_far_out", "derivatives are not finite at z = -1e"),
        ("expectation", far_out, "_check_far_out", "expectation is not finite at mu = -1e"),
        ("tilted", far_out, "_check_far_out", "tilted is not finite at mu = -1e"),
        ("predict", lambda p, mu, v: far_out(p, 0, mu), "_check_far_out", "predict is not finite at mu = -1e"),
        ("predict", lambda p, mu, v: p + 1e-9 * np.size(mu), "_check_shapes", "batch != row by row"),
        ("expectation", lambda e, *_: [p if p.ndim < 2 else p.ravel() for p in e], "_check_shapes", "do not broadcast"),
        ("log_prob", lambda p, y, z: p + (np.asarray(z).dtype.kind == "i"), "_check_input", "integers and floats"),
        ("tilted", lambda t, y, *_: np.add(t, isinstance(y, list)), "_check_input", "lists and arrays"),
        ("log_prob", lambda p, *_: p + 1e-9, "_check_pair_probabilities", "is not 1"),
        ("predict", lambda p, mu, v: p + 1e-12 * (np.asarray(mu) < 0.0), "_check_pair_probabilities", "exactly 1"),
        ("expectation", to_the_left(0), "_check_pair_swap", r"\[0\]: left/right"),
        ("tilted", lambda t, *_: np.add(t, [[0.0], [1e-8], [0.0]]), "_check_pair_swap", r"\[1\]: left/right"),
        ("tilted", to_the_left(2), "_check_pair_swap", r"\[2\]: left/right"),
        ("expectation", of_one, "_check_pair_soft_labels", "not linear"),
    ],
)
def test_each_check_notices_its_fault(method, change, check, complaint):
    def faulty(self, *args):
        return change(getattr(PairwiseLogit, method)(self, *args), *args)

    check_of_kit, rng = getattr(_likelihoods, check), np.random.default_rng(1)
    y = _likelihoods._observations(rng, paired=True)
    check_of_kit(PairwiseLogit(), y, rng)
    assert check_of_kit in (*_likelihoods._CHECKS, *_likelihoods._PAIR_CHECKS)
    with pytest.raises(AssertionError, match=complaint):
        check_of_kit(type("Faulty", (PairwiseLogit,), {method: faulty})(), y, rng)


def test_notices_changed_arguments():
    # Where arguments are read-only numpy itself complains; a mean given as a writable array is changed for good.
    with pytest.raises((AssertionError, ValueError)):
        check_likelihood(Careless())


def test_refuses_what_is_no_likelihood():
    with pytest.raises(AssertionError, match="is not a Likelihood"):
        check_likelihood("probit")
