"""Random generators from scikit-learn's `random_state`."""

from __future__ import annotations

import numbers

import numpy as np

__all__ = ["as_generator"]


def as_generator(random_state: int | np.random.RandomState | np.random.Generator | None) -> np.random.Generator:
    """Return a `numpy.random.Generator` for anything that scikit-learn calls a random state.

    Parameters
    ----------
    random_state : int, RandomState, Generator or None
        An int gives the same stream at every call; a `RandomState` is advanced by one draw of 128 bits, which seed
        the generator, so two calls give two streams; a `Generator` is returned as it is (shared, not copied); None
        takes fresh entropy from the system.

    Returns
    -------
    numpy.random.Generator
        The generator.

    Raises
    ------
    ValueError
        For anything else, and for a negative int.

    Examples
    --------
    >>> from skpref._math.random import as_generator
    >>> bool(as_generator(0).random() == as_generator(0).random())
    True
    """
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(0, 2**32, size=4, dtype=np.uint32))
    if random_state is None:
        return np.random.default_rng()
    if isinstance(random_state, numbers.Integral) and int(random_state) >= 0:
        return np.random.default_rng(int(random_state))
    msg = (
        f"random_state: got {random_state!r}, wanted a non-negative int, a numpy Generator or RandomState, or None; "
        "pass an int for the same result at every call"
    )
    raise ValueError(msg)
