"""Products of factors: projections, moments, and each side's view, against docs/maths section 6 written out."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from skpref.inference import svi
from skpref.inference.blocks import DenseBlock, DiagonalBlock, StackedBlock
from skpref.inference.policy import POLICY
from skpref.inference.problem import view
from skpref.inference.terms.base import LinearView
from skpref.inference.terms.products import FactorTerm
from tests.examples import examples
from tests.policies import set_policy

SIDES = [(items, users) for items in ("ids", "features") for users in ("ids", "features")]
LAYOUTS = [*SIDES, ("joint", "ids"), ("mean-field", "features")]
seeds = st.integers(0, 2**32 - 1)
few = examples(15)  # for each of several layouts
flags = st.fixed_dictionaries({name: st.booleans() for name in ("consensus", "order", "sparse", "logit", "fixed")})
each_side = pytest.mark.parametrize(("items", "users"), SIDES, ids=map("-".join, SIDES))
each_layout = pytest.mark.parametrize(("items", "users"), LAYOUTS, ids=map("-".join, LAYOUTS))


def written_out(side):
    """The rows a_i of a side or a term, shape (P, K)."""
    term = side.rows if isinstance(side, FactorTerm) else side
    size = sum(segment.size for segment in term.segments)
    return np.array([term.matvec(unit) for unit in np.eye(size)]).T.reshape(term.n_observations, size)


def parts_of(block, n_factors):
    """Mean and covariance of every factor."""
    if isinstance(block, StackedBlock):
        return [(part.mean, part.solve(np.eye(part.size))) for part in block.parts]
    mean, variance = block.mean.reshape(n_factors, -1), block.covariance_diagonal.reshape(n_factors, -1)
    return [(m, np.diag(s)) for m, s in zip(mean, variance, strict=True)]


def moments_of(side, block, state):
    """Means and variances (D, P) of a side's projections, residual included."""
    A, term = written_out(side), side.rows
    rest = np.zeros(A.shape[0]) if term.residual is None else term.residual
    pairs = zip(parts_of(block, side.n_factors), side.scales, strict=True)
    rows = [(A @ m, np.einsum("ij,jk,ik->i", A, S, A) + rest / state.scales[s].mean) for (m, S), s in pairs]
    return np.array([row[0] for row in rows]), np.array([row[1] for row in rows])


@each_layout
@few
@given(seed=seeds, options=flags)
def test_projections_of_a_side(crowd, items, users, seed, options):
    case = crowd(seed, items, users, **options)
    expected = case.state.expected
    for name, side in case.problem.products[0].sides.items():
        block = case.state.blocks[name]
        seen = side.project(block)
        mean, variance = moments_of(side, block, case.state)
        assert_allclose(seen.mean, mean, rtol=1e-10, atol=1e-11)
        assert_allclose(side.variance(seen, expected), variance, rtol=1e-9, atol=1e-11)
        assert side.stacked(block.mean).shape == (case.n_factors, side.size)
        assert [segment.scale for segment in side.segments] == list(side.scales)
        assert sum(segment.size for segment in side.segments) == block.size


@each_side
@few
@given(seed=seeds, options=flags)
def test_prior_variances(crowd, items, users, seed, options):
    # The rows' own variance at the prior N(0, 1/s), and the residual: k_aa + k_bb - 2 k_ab in all.
    case = crowd(seed, items, users, **options)
    expected, product = case.state.expected, case.problem.products[0]
    wanted = []
    for side in (product.first, product.second):
        rest = 0.0 if side.rows.residual is None else side.rows.residual
        kappa = (written_out(side) ** 2).sum(axis=1) + rest
        wanted.append([kappa / expected[name] for name in side.scales])
        assert_allclose(side.prior_variance(expected), wanted[-1], rtol=1e-10, atol=1e-13)
    assert_allclose(product.prior_variance(expected), np.sum(np.multiply(*wanted), axis=0), rtol=1e-10, atol=1e-13)


@each_side
@few
@given(seed=seeds, options=flags)
def test_views_go_forth_and_back(crowd, items, users, seed, options):
    case = crowd(seed, items, users, **options)
    seen = svi.evaluate(case.problem, case.state)
    for k, block in case.state.blocks.items():
        sight = view(case.problem, seen, case.state.expected, k)
        assert isinstance(sight, LinearView) == (k in case.problem.terms)
        x, g = case.rng.normal(size=block.size), case.rng.normal(size=case.problem.n_observations)
        # What projections add to z has `backward` as its adjoint.
        projected, none = sight.forward(x), np.zeros(case.problem.n_observations)
        assert_allclose(sight.total(projected) @ g, sight.backward(g, none, projected) @ x, rtol=1e-9, atol=1e-9)
        # The current shares add up to this block's part of the mean of z.
        assert_allclose(
            sight.forward(block.mean), seen.projections[k].mean, rtol=1e-12, atol=1e-12, err_msg=f"block {k}"
        )
        if k not in case.problem.terms:
            curvature = case.rng.normal(size=case.problem.n_observations)
            A = written_out(sight.side)
            wanted = (sight.gain * g + sight.gain_variance * curvature * projected) @ A
            assert_allclose(sight.backward(g, curvature, projected), wanted.reshape(-1), rtol=1e-9, atol=1e-10)


@each_layout
@few
@given(seed=seeds, options=flags)
def test_conjugate_updates_are_those_of_maths_section_6(crowd, items, users, seed, options):
    # v_d: weight w_i E[w_d^2], linear term w_i E[w_d] (t_i - rest_d); w_d likewise; t: weight w_i, t_i - the products.
    case = crowd(seed, items, users, **options)
    problem, state = case.problem, case.state
    seen = svi.evaluate(problem, state)
    targets = svi.conjugate_blocks(problem, state, seen)
    w, target = seen.sites.weight, seen.mu + seen.sites.gradient / seen.sites.weight
    for k, block in state.blocks.items():
        side = problem.sides[k]
        A = written_out(side)
        if k in problem.terms:
            gains, mine, parts = [(np.ones(len(w)), np.ones(len(w)))], [A @ block.mean], [targets[k]]
            means = [block.mean]
        else:
            other = problem.partner[k]
            gain, gain_variance = moments_of(problem.sides[other], state.blocks[other], state)
            gains = list(zip(gain, gain**2 + gain_variance, strict=True))
            means = [m for m, _ in parts_of(block, case.n_factors)]
            mine = [g * (A @ m) for g, m in zip(gain, means, strict=True)]
            size = side.size
            parts = (
                targets[k].parts
                if isinstance(block, StackedBlock)
                else [
                    DiagonalBlock(targets[k].precision[d * size :][:size], targets[k].linear[d * size :][:size])
                    for d in range(case.n_factors)
                ]
            )
        priors = np.split(svi.precision_of(side.segments, state.expected), len(parts))
        for (g1, g2), share, part, m, prior in zip(gains, mine, parts, means, priors, strict=True):
            rest = seen.mu - share
            gram, linear = (A.T * (w * g2)) @ A, A.T @ (w * g1 * (target - rest))
            scale = 1.0 + np.abs(gram).max() + np.abs(linear).max()
            if isinstance(part, DenseBlock):
                assert_allclose(np.tril(part.precision), np.tril(np.diag(prior) + gram), rtol=1e-9, atol=1e-9 * scale)
                assert_allclose(part.linear, linear, rtol=1e-8, atol=1e-9 * scale)
            else:
                # One variable at a time: the others of the block stay at their means.
                others = gram @ m - np.diag(gram) * m
                assert_allclose(part.precision, prior + np.diag(gram), rtol=1e-9, atol=1e-9 * scale)
                assert_allclose(part.linear, linear - others, rtol=1e-8, atol=1e-9 * scale)


@each_layout
@few
@given(seed=seeds, options=flags)
def test_joint_means_solve_the_normal_equations_of_a_group(crowd, items, users, seed, options):
    case = crowd(seed, items, users, **options)
    problem, state = case.problem, case.state
    seen = svi.evaluate(problem, state)
    w = seen.sites.weight
    for group in problem.groups:
        with pytest.MonkeyPatch.context() as patch:
            set_policy(
                patch, "inference", mean_tol_of_products=POLICY.mean_tol
            )  # within a fit, a thousandth of the step may be left
            targets = svi.joint_means(problem, state, seen, svi.conjugate_blocks(problem, state, seen, group))
        rows, extra, prior = [], [], []
        for k in group:
            A = written_out(problem.sides[k])
            prior.append(svi.precision_of(problem.sides[k].segments, state.expected))
            if k in problem.terms:
                rows.append(A)
                extra.append(np.zeros((A.shape[1], A.shape[1])))
                continue
            other = problem.partner[k]
            for g, gv in zip(*moments_of(problem.sides[other], state.blocks[other], state), strict=True):
                rows.append(g[:, None] * A)
                extra.append((A.T * (w * gv)) @ A)
        design, at = np.hstack(rows), 0
        normal = np.diag(np.concatenate(prior)) + (design.T * w) @ design
        for block in extra:
            here = slice(at, at + block.shape[0])
            normal[here, here] += block
            at += block.shape[0]
        now = np.concatenate([state.blocks[k].mean for k in group])
        wanted = np.linalg.solve(normal, design.T @ (w * (design @ now) + seen.sites.gradient))
        got = np.concatenate([targets[k].mean for k in group])
        # Conjugate gradients end at a relative residual of 1e-7, which a badly conditioned matrix magnifies.
        slack = 1e-6 * np.linalg.cond(normal) ** 0.5
        assert_allclose(got, wanted, rtol=slack, atol=slack * (1.0 + np.abs(wanted).max()))


@few
@given(seed=seeds)
def test_two_products_add_up(crowd, seed):
    case = crowd(seed, "features", "ids", consensus=False)
    problem, blocks = case.problem, case.state.blocks
    copy = replace(problem.products[0], names=("items again", "users again"))
    twice = replace(problem, products=(*problem.products, copy))
    copied = {f"{name} again": blocks[name] for name in problem.products[0].names}
    state = case.state.with_blocks(copied)
    one, two = svi.evaluate(problem, case.state), svi.evaluate(twice, state)
    assert_allclose(two.mu, 2.0 * one.mu, rtol=1e-12)
    assert_allclose(two.v, 2.0 * one.v, rtol=1e-12)
    first, second = (set(group) for group in twice.groups)
    assert first == set(problem.terms) - problem.local | {"items", "items again"}
    assert second == problem.local | {"users", "users again"}


@each_side
@few
@given(seed=seeds)
def test_a_mini_batch_of_a_product(crowd, items, users, seed):
    case = crowd(seed, items, users)
    product = case.problem.products[0]
    some = case.rng.integers(0, case.problem.n_observations, 3)
    part = product.take(some, {"items": None, "users": None})
    expected = case.state.expected
    for name, side in product.sides.items():
        small, block = part.sides[name], case.state.blocks[name]
        assert small.segments == side.segments
        assert_allclose(small.project(block).mean, side.project(block).mean[:, some], rtol=1e-12, atol=1e-12)
        assert_allclose(small.prior_variance(expected), side.prior_variance(expected)[:, some], rtol=1e-12)
    assert_allclose(part.prior_variance(expected), product.prior_variance(expected)[some], rtol=1e-12)
