"""Rescaling of a product: projections stay, the bound is at its best along v -> c v, w -> w / c."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from skpref.inference import svi
from skpref.inference.scale import FixedScale, moved_scale
from skpref.inference.sites import LAPLACE
from skpref.inference.svi import balance
from tests.examples import examples

LAYOUTS = [(items, users) for items in ("ids", "features") for users in ("ids", "features")]
each_layout = pytest.mark.parametrize(("items", "users"), LAYOUTS, ids=map("-".join, LAYOUTS))
seeds = st.integers(0, 2**32 - 1)
few = examples(20)  # for each of several layouts
flags = st.fixed_dictionaries({name: st.booleans() for name in ("consensus", "order", "sparse", "logit")})


def along(case, state, c):
    """The state with v_d -> c_d v_d, w_d -> w_d / c_d, and scales that follow."""
    product = case.problem.products[0]
    blocks, scales = dict(state.blocks), dict(state.scales)
    for k, side, by in (("items", product.first, c), ("users", product.second, 1.0 / c)):
        blocks[k] = blocks[k].stretched(by)
        for name, factor in zip(side.scales, by, strict=True):
            scales[name] = moved_scale(scales[name], -2.0 * np.log(factor))
    return replace(state, blocks=blocks, scales=scales)


@each_layout
@few
@given(seed=seeds, options=flags)
def test_rescaling_leaves_the_projections_and_raises_the_bound(crowd, items, users, seed, options):
    case = crowd(seed, items, users, **options)
    before = svi.evaluate(case.problem, case.state)
    state, tracked = balance(case.problem, case.state, before)
    after = svi.evaluate(case.problem, state)
    for seen in (tracked, after):
        assert_allclose(seen.mu, before.mu, rtol=1e-9, atol=1e-10)
        assert_allclose(seen.v, before.v, rtol=1e-9, atol=1e-10)
    assert after.bound >= before.bound - 1e-10 * (1.0 + abs(before.bound))
    assert_allclose(tracked.bound, after.bound, rtol=1e-10, atol=1e-9)
    assert tracked.objective == tracked.bound
    for name, projection in after.projections.items():
        assert_allclose(tracked.projections[name].mean, projection.mean, rtol=1e-9, atol=1e-10)
        assert_allclose(tracked.projections[name].spread, projection.spread, rtol=1e-9, atol=1e-10)
    # Blocks outside the product stay as they are.
    product = case.problem.products[0]
    scales_of_product = set(product.first.scales) | set(product.second.scales)
    for k in case.problem.terms:
        assert state.blocks[k] is case.state.blocks[k]
    for name in state.scales.keys() - scales_of_product:
        assert state.scales[name] is case.state.scales[name]


@each_layout
@few
@given(seed=seeds, options=flags)
def test_it_is_the_best_of_its_direction(crowd, items, users, seed, options):
    case = crowd(seed, items, users, **options)
    state, seen = balance(case.problem, case.state, svi.evaluate(case.problem, case.state))
    slack = 1e-10 * (1.0 + abs(seen.bound))
    for size in (1e-3, 0.1, 2.0):
        c = np.exp(size * case.rng.normal(size=case.n_factors))
        for other in (c, 1.0 / c):
            assert svi.evaluate(case.problem, along(case, state, other)).bound <= seen.bound + slack
    # So a second time changes nothing, and every point of the direction leads to the same one.
    again, _ = balance(case.problem, state, seen)
    assert_allclose(again.log_scales, state.log_scales, atol=1e-9)
    far = along(case, case.state, np.exp(case.rng.normal(size=case.n_factors)))
    there, _ = balance(case.problem, far, svi.evaluate(case.problem, far))
    assert_allclose(there.log_scales, state.log_scales, atol=1e-8)


@few
@given(seed=seeds)
def test_known_scales_fix_the_rescaling(crowd, seed):
    case = crowd(seed, fixed=True)
    state, seen = balance(case.problem, case.state, svi.evaluate(case.problem, case.state))
    for name, block in state.blocks.items():
        assert_allclose(block.mean, case.state.blocks[name].mean, rtol=1e-15)
    assert_allclose(seen.bound, svi.evaluate(case.problem, case.state).bound, rtol=1e-12)
    # One known scale is enough.
    name = case.problem.products[0].first.scales[0]
    mixed = crowd(seed)
    half = replace(mixed.state, scales={**mixed.state.scales, name: FixedScale(2.0)})
    moved, _ = balance(mixed.problem, half, svi.evaluate(mixed.problem, half))
    partner = mixed.problem.products[0].second.scales[0]
    assert moved.scales[name] == half.scales[name]
    assert_allclose(moved.scales[partner].mean, half.scales[partner].mean, rtol=1e-14)


def test_without_products_or_a_bound_there_is_nothing_to_do(crowd, draw):
    linear = draw(0)
    seen = svi.evaluate(linear.problem, linear.state)
    assert balance(linear.problem, linear.state, seen) == (linear.state, seen)
    case = crowd(0)
    mode = replace(case.problem, rule=LAPLACE)
    seen = svi.evaluate(mode, case.state)
    assert balance(mode, case.state, seen) == (case.state, seen)


@few
@given(seed=seeds, ratio=st.floats(1e-8, 1e8))
def test_no_cancellation_however_far_the_two_sides_are_apart(crowd, seed, ratio):
    case = crowd(seed, n_factors=1)
    v, w = (side.scales[0] for side in (case.problem.products[0].first, case.problem.products[0].second))
    prior = replace(case.state.scales[v], shape0=50.0, rate0=ratio)
    for scales in ({v: prior}, {w: prior}):
        state = replace(case.state, scales={**case.state.scales, **scales})
        best, seen = balance(case.problem, state, svi.evaluate(case.problem, state))
        assert np.isfinite(best.log_scales).all()
        # Stationary: (a_v - a_w) + b_w E[s_w] - b_v E[s_v] = 0 (up to rounding of its largest part).
        sv, sw = best.scales[v], best.scales[w]
        parts = np.array([sv.shape0, -sw.shape0, sw.rate0 * sw.mean, -sv.rate0 * sv.mean])
        assert abs(parts.sum()) <= 1e-9 * np.abs(parts).max()
        assert np.isfinite(seen.bound)
