"""Random states of every kind become generators."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skpref._math.random import as_generator


@given(seed=st.integers(0, 2**63))
def test_an_int_gives_the_same_stream_every_time(seed):
    np.testing.assert_array_equal(as_generator(seed).random(5), as_generator(np.uint64(seed)).random(5))


def test_a_random_state_is_advanced():
    state = np.random.RandomState(3)
    first, second = as_generator(state).random(5), as_generator(state).random(5)
    assert not np.array_equal(first, second)
    np.testing.assert_array_equal(first, as_generator(np.random.RandomState(3)).random(5))


def test_a_random_state_gives_streams_that_differ():
    # Of 10000 numbers with 53 random bits two are equal with a chance of 6e-9.
    state = np.random.RandomState(0)
    assert len({as_generator(state).random() for _ in range(10_000)}) == 10_000


def test_a_generator_is_itself():
    rng = np.random.default_rng(0)
    assert as_generator(rng) is rng


def test_none_is_fresh():
    assert as_generator(None).random() != as_generator(None).random()


@pytest.mark.parametrize("bad", [-1, 1.5, "seed", [1, 2]])
def test_other_things_are_refused(bad):
    with pytest.raises(ValueError, match="random_state: got"):
        as_generator(bad)
