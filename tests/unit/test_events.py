"""Events are plain Python."""

from skpref._events import Iteration


def test_time_left_at_the_rate_so_far():
    assert Iteration(step=4, n_max=10, bound=-1.0, seconds=2.0).eta == 3.0
    assert Iteration(step=10, n_max=10, bound=-1.0, seconds=2.0).eta == 0.0
