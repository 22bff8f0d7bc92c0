"""Random generators from scikit-learn's `random_state`."""

from __future__ import annotations

import numbers

import numpy as np
from sklearn.utils import check_random_state

__all__ = ["as_generator"]


def as_generator(random_state: int | np.random.RandomState | np.random.Generator | None) -> np.random.Generator:
    """Return a `numpy.random.Generator` for anything that scikit-learn calls a random state.

    None is NumPy's global random state, which `numpy.random.seed` sets.
    """
    if isinstance(random_state, np.random.Generator):
        return random_state
    if random_state is None:
        random_state = check_random_state(None)
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(0, 2**32, size=4, dtype=np.uint32))
    if isinstance(random_state, numbers.Integral) and int(random_state) >= 0:
        return np.random.default_rng(int(random_state))
    msg = (
        f"random_state: got {random_state!r}, wanted a non-negative int, a numpy Generator or RandomState, or None; "
        "pass an int for the same result at every call"
    )
    raise ValueError(msg)
