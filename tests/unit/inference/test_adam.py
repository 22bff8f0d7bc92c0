"""Adam's steps."""

import numpy as np
from numpy.testing import assert_allclose

from skpref.inference.adam import Adam


def test_the_first_step_has_the_rate_as_its_length_whatever_the_gradient():
    assert_allclose(Adam((3,), 0.1).step(np.array([1e-3, -5.0, 1e6])), [0.1, -0.1, 0.1], rtol=1e-4)


def test_rows_count_their_own_steps():
    adam, gradient = Adam((3, 2), 0.1), np.array([[1.0, -2.0]])
    alone = Adam((1, 2), 0.1)
    adam.step(gradient, np.array([0]))
    adam.step(3.0 * gradient, np.array([2]))
    adam.step(3.0 * gradient, np.array([2]))
    alone.step(gradient)
    assert_allclose(adam.step(-gradient, np.array([0])), alone.step(-gradient))


def test_ascent_ends_at_the_highest_point():
    adam, x, top = Adam((2,), 0.05), np.zeros(2), np.array([1.0, -0.5])
    for _ in range(500):
        x = x + adam.step(top - x)
    assert_allclose(x, top, atol=1e-3)


def test_steps_are_those_of_the_paper():
    gradients, first, second = np.array([1e-8, -3.0, 2.0, 0.5]), 0.0, 0.0
    adam = Adam((1,), 0.1)
    for t, gradient in enumerate(gradients, 1):
        first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient**2
        mean, square = first / (1.0 - 0.9**t), second / (1.0 - 0.999**t)
        assert_allclose(adam.step(np.array([gradient])), 0.1 * mean / (np.sqrt(square) + 1e-8))
