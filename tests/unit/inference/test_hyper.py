"""The one L-BFGS-B loop."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from skpref.inference.hyper import BudgetSpentError, maximise


def bowl(centre):
    return lambda t: (-float((t - centre) @ (t - centre)), -2.0 * (t - centre))


@given(st.lists(st.floats(-3, 3), min_size=1, max_size=4))
def test_finds_the_top_of_a_bowl_or_the_nearest_bound(centre):
    centre = np.array(centre)
    best = maximise(bowl(centre), np.zeros(centre.size), np.array([[-2.0, 2.0]] * centre.size), tol=1e-10)
    assert_allclose(best.theta, np.clip(centre, -2, 2), atol=1e-4)
    assert (best.converged, best.cut_short) == (True, False)
    assert best.value == bowl(centre)(best.theta)[0]


def test_every_point_asked_for_lies_within_the_bounds():
    seen = []

    def steep(t):
        seen.append(t.copy())
        return float(100.0 * t.sum()), np.full(t.size, 100.0)

    bounds = np.array([[-1.0, 0.5], [0.0, 2.0]])
    best = maximise(steep, np.array([-9.0, 9.0]), bounds, n_restarts=3, rng=np.random.default_rng(0))
    points = np.array(seen)
    assert (points >= bounds[:, 0]).all()
    assert (points <= bounds[:, 1]).all()
    assert_allclose(best.theta, [0.5, 2.0])
    assert best.n_evaluations == len(seen)


def two_tops(t):
    """A low top at -2 and a high one at 2."""
    low, high = np.exp(-((t + 2.0) ** 2)), 2.0 * np.exp(-((t - 2.0) ** 2))
    return float((low + high)[0]), -2.0 * ((t + 2.0) * low + (t - 2.0) * high)


def test_restarts_find_the_higher_top_and_repeat_exactly():
    bounds = np.array([[-4.0, 4.0]])
    alone = maximise(two_tops, np.array([-2.2]), bounds)
    assert_allclose(alone.theta, [-2.0], atol=1e-2)
    ends = [maximise(two_tops, np.array([-2.2]), bounds, n_restarts=8, rng=np.random.default_rng(4)) for _ in range(2)]
    assert_allclose(ends[0].theta, [2.0], atol=1e-2)
    assert_array_equal(ends[0].theta, ends[1].theta)
    assert ends[0].n_evaluations == ends[1].n_evaluations


def test_the_best_point_seen_wins_even_when_the_search_is_cut_short():
    best = maximise(bowl(np.array([1.0])), np.array([-1.9]), np.array([[-2.0, 2.0]]), max_iter=1)
    assert (best.converged, best.cut_short) == (False, True)
    assert best.value >= bowl(np.array([1.0]))(np.array([-1.9]))[0]
    assert best.value == bowl(np.array([1.0]))(best.theta)[0]


@pytest.mark.parametrize("rng", [None, np.random.default_rng(0)])
def test_restarts_need_finite_bounds_and_a_generator(rng):
    bounds = np.array([[-1.0, 1.0 if rng is None else np.inf]])
    with pytest.raises(ValueError, match="n_restarts=2"):
        maximise(bowl(np.zeros(1)), np.zeros(1), bounds, n_restarts=2, rng=rng)


def test_a_scale_from_fewer_rows_makes_the_first_step_newtons():
    curvature = np.array([1e-3, 1.0, 4.0])

    def bowl_of(rows):
        return lambda theta: (-0.5 * rows * float(theta**2 @ curvature), -rows * theta * curvature)

    box = np.tile([-50.0, 50.0], (3, 1))
    first = maximise(bowl_of(1.0), np.array([30.0, 2.0, -1.0]), box, tol=1e-10, max_iter=200)
    assert_allclose(first.scale, curvature**-0.5, rtol=0.6)
    plain, scaled = (
        maximise(bowl_of(1.0), np.array([20.0, 1.0, 2.0]), box, tol=1e-10, max_iter=200, scale=scale)
        for scale in (None, first.scale)
    )
    assert scaled.n_evaluations < plain.n_evaluations
    assert abs(scaled.value) < 1e-6


def test_memory_of_more_steps_saves_evaluations_where_variables_are_many():
    rng = np.random.default_rng(0)
    half = rng.standard_normal((60, 60))
    curvature = half @ half.T + 0.01 * np.eye(60)

    def bowl(theta):
        return -0.5 * float(theta @ curvature @ theta), -curvature @ theta

    box = np.tile([-np.inf, np.inf], (60, 1))
    few, many = (maximise(bowl, np.ones(60), box, max_iter=500, tol=1e-12, memory=m) for m in (5, 60))
    assert many.value > -1e-4
    assert many.n_evaluations < few.n_evaluations


def lie(theta):
    """Promises to rise wherever one goes, and falls."""
    return -float(theta.sum()), np.ones(theta.size)


@pytest.mark.parametrize("most", [1, 4, 20])
def test_a_line_search_that_fails_costs_no_more_looks_than_asked_for(most):
    best = maximise(lie, np.zeros(2), np.tile([-5.0, 5.0], (2, 1)), most_looks=most)
    assert_array_equal(best.theta, np.zeros(2))
    assert (best.converged, best.cut_short) == (False, False)
    assert best.n_evaluations == 1 + most


def test_by_default_a_line_search_looks_twenty_times():
    assert maximise(lie, np.zeros(1), np.array([[-5.0, 5.0]])).n_evaluations == 21


@pytest.mark.parametrize("scale", [[10.0, 3.0], [0.1, 0.3]])
def test_the_first_step_is_newtons_where_the_curvature_is_known(scale):
    # Curvature 1/scale^2, top at a distance below 1: the second point is the top.
    centre, scale, points = np.array([0.5, -0.25]), np.array(scale), []

    def bowl(theta):
        points.append(theta.copy())
        return -0.5 * float((((theta - centre) / scale) ** 2).sum()), -(theta - centre) / scale**2

    maximise(bowl, np.zeros(2), np.tile([-50.0, 50.0], (2, 1)), scale=scale)
    assert_allclose(points[1], centre, rtol=1e-9)


def test_random_starts_are_within_the_box_and_the_bounds():
    starts = []

    def flat(theta):
        starts.append(theta.copy())
        return 0.0, np.zeros(1)

    box, rng = np.array([[1.0, 9.0]]), np.random.default_rng(0)
    maximise(flat, np.zeros(1), np.array([[-2.0, 3.0]]), n_restarts=40, rng=rng, box=box)
    drawn = np.unique(np.ravel(starts[1:]))
    assert (drawn[drawn != 0.0] >= 1.0).all()
    assert drawn.max() <= 3.0
    assert drawn.size > 20


@pytest.mark.parametrize("n_calls", [1, 2, 3])
def test_a_spent_budget_ends_the_search_at_its_best_point(n_calls):
    values = []

    def limited(t):
        if len(values) == n_calls:
            raise BudgetSpentError
        value, gradient = two_tops(t)
        values.append(value)
        return value, gradient

    best = maximise(limited, np.array([-2.9]), np.array([[-4.0, 4.0]]), n_restarts=3, rng=np.random.default_rng(0))
    assert best.value == max(values) == two_tops(best.theta)[0]
    assert best.n_evaluations == n_calls
    assert (best.converged, best.cut_short) == (False, True)


@pytest.mark.parametrize(("size", "longest"), [(0.01, 0.01), (1.0, 1.0), (1000.0, 1.0)])
def test_the_first_step_is_the_gradient_and_at_most_one_long(size, longest):
    points = []

    def plane(theta):  # 0 at the start, whatever the slope
        points.append(theta.copy())
        return size * float(theta[0] - 2.0), size * np.array([1.0, 0.0])

    maximise(plane, np.array([2.0, 1.0]), np.tile([-50.0, 50.0], (2, 1)), max_iter=1)
    assert np.array_equal(points[0], [2.0, 1.0])
    # A gradient beyond 1 is stretched by the root of its size on either side.
    assert_allclose(points[1] - points[0], [longest, 0.0], rtol=1e-9)


def test_where_no_start_is_better_the_given_one_is_kept():
    flat = maximise(
        lambda t: (1.0, np.zeros(t.size)),
        np.array([0.5, -0.5]),
        np.array([[-2.0, 2.0]] * 2),
        n_restarts=3,
        rng=np.random.default_rng(0),
    )
    assert_array_equal(flat.theta, [0.5, -0.5])
