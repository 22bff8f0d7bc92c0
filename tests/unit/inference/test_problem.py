"""Problems with products: moments and bound written out, steps that never lower it, mini-batches of whole clusters."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import digamma, gammaln

from skpref.exceptions import DataError
from skpref.inference import svi
from skpref.inference.blocks import DenseBlock, DiagonalBlock, StackedBlock
from skpref.inference.problem import State, second_moments
from skpref.inference.scale import FixedScale, GammaScale, mixed_scale, moved_scale
from skpref.inference.sites import LINEARISED
from skpref.inference.svi import balance
from skpref.inference.terms.products import FactorTerm
from tests.examples import examples

LAYOUTS = [
    ("ids", "ids"),
    ("ids", "features"),
    ("features", "ids"),
    ("features", "features"),
    ("joint", "features"),
    ("mean-field", "ids"),
]
each_layout = pytest.mark.parametrize(("items", "users"), LAYOUTS, ids=map("-".join, LAYOUTS))
seeds = st.integers(0, 2**32 - 1)
few = examples(12)  # for each of several layouts
flags = st.fixed_dictionaries({name: st.booleans() for name in ("consensus", "order", "sparse", "logit", "fixed")})
# Products rise slowly where a factor is hardly needed: one draw in 1,700 took 6,500 iterations, all others under 2,000.
TIGHT = svi.Schedule(max_iter=50_000, tol=1e-11)


def rises(before, after, slack=1e-10):
    return after >= before - slack * (1.0 + abs(before))


# ---------------------------------------------------------------------------------------------------- what is evaluated
def parts_of(block):
    """Mean and covariance of every independent part."""
    parts = block.parts if isinstance(block, StackedBlock) else (block,)
    return [
        (p.mean, p.solve(np.eye(p.size)) if isinstance(p, DenseBlock) else np.diag(p.covariance_diagonal))
        for p in parts
    ]


def draws_of(side, block, state, rng, n):
    """Draws of a block's projections, what inducing points leave open included, shape (n, D or 1, P)."""
    v = np.hstack([m + rng.standard_normal((n, m.size)) @ np.linalg.cholesky(S).T for m, S in parts_of(block)])
    product = isinstance(side, FactorTerm)
    rows, names = (side.rows, side.scales) if product else (side, (side.residual_scale,))
    z = rows.matvec(v.reshape(n * len(names), -1)).reshape(n, len(names), -1)
    if rows.residual is None:
        return z
    inverse = np.array([1.0 / state.scales[name].mean for name in names])
    return z + rng.standard_normal(z.shape) * np.sqrt(inverse[:, None] * rows.residual)


@each_layout
def test_moments_of_z_are_those_of_draws_from_q(crowd, items, users):
    # 40,000 draws; five standard errors for each of 8 observations.
    case, n = crowd(7, items, users, order=True, n_factors=2, sizes=((4, 5), (3, 4), (8, 9))), 40_000
    problem, state = case.problem, case.state
    draws = {k: draws_of(side, state.blocks[k], state, case.rng, n) for k, side in problem.sides.items()}
    z = sum(draws[k][:, 0] for k in problem.terms) + (draws["items"] * draws["users"]).sum(axis=1)
    seen, square = svi.evaluate(problem, state), (z - z.mean(axis=0)) ** 2
    assert (np.abs(z.mean(axis=0) - seen.mu) < 5.0 * z.std(axis=0) / np.sqrt(n)).all()
    assert (np.abs(square.mean(axis=0) - seen.v) < 5.0 * square.std(axis=0) / np.sqrt(n)).all()


def bound_written_out(problem, state):
    """sum_i E[log p] - sum KL, every block and scale by its definition (docs/maths section 5)."""
    seen = svi.evaluate(problem, state)
    total = float(problem.weight @ problem.likelihood.expectation(problem.y, seen.mu, seen.v)[0])
    for name, side in problem.sides.items():
        block = state.blocks[name]
        mean = np.concatenate([m for m, _ in parts_of(block)])
        variance = np.concatenate([np.diag(S) for _, S in parts_of(block)])
        total += 0.5 * (mean.size + sum(np.linalg.slogdet(S)[1] for _, S in parts_of(block)))
        at = 0
        for segment in side.segments:
            here, s = slice(at, at + segment.size), state.scales[segment.scale]
            log_mean = np.log(s.mean) if isinstance(s, FixedScale) else digamma(s.shape) - np.log(s.rate)
            total -= 0.5 * (s.mean * (mean[here] @ mean[here] + variance[here].sum()) - segment.size * log_mean)
            at += segment.size
    for s in state.scales.values():
        if isinstance(s, GammaScale):
            total -= (s.shape - s.shape0) * digamma(s.shape) - gammaln(s.shape) + gammaln(s.shape0)
            total -= s.shape0 * np.log(s.rate / s.rate0) + s.shape * (s.rate0 - s.rate) / s.rate
    return total


@each_layout
@few
@given(seed=seeds, options=flags)
def test_the_bound_is_fit_minus_divergence(crowd, items, users, seed, options):
    case = crowd(seed, items, users, **options)
    seen = svi.evaluate(case.problem, case.state)
    assert_allclose(seen.bound, bound_written_out(case.problem, case.state), rtol=1e-9, atol=1e-9)
    assert seen.objective == seen.bound


@each_layout
@few
@given(seed=seeds, options=flags)
def test_what_moved_is_evaluated_anew_and_nothing_else(crowd, items, users, seed, options):
    case, other = crowd(seed, items, users, **options), crowd(seed, items, users, **{**options, "fixed": True})
    before = svi.evaluate(case.problem, case.state)
    for group in case.problem.groups:
        moved = case.state.with_blocks({k: case.state.blocks[k].mixed(other.state.blocks[k], 0.5) for k in group})
        moved = moved.with_blocks({group[0]: moved.blocks[group[0]].with_mean(moved.blocks[group[0]].mean + 0.3)})
        some, whole = case.problem.evaluate(moved, before, group), svi.evaluate(case.problem, moved)
        assert_allclose(some.mu, whole.mu, rtol=1e-12, atol=1e-12)
        assert_allclose(some.bound, whole.bound, rtol=1e-12)
        for k in set(case.state.blocks) - set(group):
            assert some.projections[k] is before.projections[k]


@each_layout
@few
@given(seed=seeds, options=flags)
def test_given_the_other_group_the_mean_of_z_is_linear(crowd, items, users, seed, options):
    case = crowd(seed, items, users, **options)
    assert sorted(k for group in case.problem.groups for k in group) == sorted(case.problem.sides)
    for group in case.problem.groups:
        steps = {k: case.rng.normal(size=case.state.blocks[k].size) for k in group}
        mu = []
        for size in (-1.0, 0.0, 1.0):
            blocks = {k: case.state.blocks[k].with_mean(case.state.blocks[k].mean + size * d) for k, d in steps.items()}
            mu.append(svi.evaluate(case.problem, case.state.with_blocks(blocks)).mu)
        assert_allclose(mu[0] + mu[2], 2.0 * mu[1], rtol=1e-9, atol=1e-9)
    assert case.problem.local <= set(case.problem.groups[-1])


# ------------------------------------------------------------------------------------------------ the bound never falls
@each_layout
@few
@given(seed=seeds, options=flags)
def test_no_step_lowers_the_bound(crowd, items, users, seed, options):
    case = crowd(seed, items, users, **options)
    problem, state = case.problem, case.state
    seen = svi.evaluate(problem, state)
    for _ in range(4):
        for group in problem.groups:
            before = seen.bound
            state, seen = svi._group_step(problem, state, seen, group)
            assert rises(before, seen.bound), group
        for step in (svi._scale_step, balance):
            before = seen.bound
            state, seen = step(problem, state, seen)
            assert rises(before, seen.bound), step.__name__
    assert_allclose(svi.evaluate(problem, state).bound, seen.bound, rtol=1e-10, atol=1e-9)


def scaled(block, factor):
    """The block with a wider or narrower covariance."""
    if isinstance(block, StackedBlock):
        return StackedBlock(tuple(scaled(part, factor) for part in block.parts))
    return type(block)(block.precision * factor, block.linear * factor)


@each_layout
@examples(3)
@given(seed=seeds, options=flags)
def test_the_loop_rises_and_ends_where_the_bound_is_stationary(crowd, items, users, seed, options):
    case = crowd(seed, items, users, **options, sizes=((3, 6), (2, 4), (1, 12)))
    fit = svi.fit(case.problem, case.state, TIGHT, case.rng)
    assert fit.converged
    assert all(rises(a, b) for a, b in zip(fit.bounds[:-1], fit.bounds[1:], strict=True))
    best, size = fit.evaluation.bound, 1e-2
    assert_allclose(svi.evaluate(case.problem, fit.state).bound, best, rtol=1e-10, atol=1e-9)
    # Means of one block at a time (of two at once the bound is not concave), precisions, scales.
    slack = 1e-7 * (1.0 + abs(best))
    for k, block in fit.state.blocks.items():
        for factor in (1.0 - size, 1.0 + size):
            wide = scaled(block, factor).with_mean(block.mean)
            assert svi.evaluate(case.problem, fit.state.with_blocks({k: wide})).bound <= best + slack
        for _ in range(3):
            shift = block.with_mean(block.mean + size * case.rng.normal(size=block.size))
            assert svi.evaluate(case.problem, fit.state.with_blocks({k: shift})).bound <= best + slack
    for name, scale in fit.state.scales.items():
        for by in (-size, size):
            aside = replace(fit.state, scales={**fit.state.scales, name: moved_scale(scale, by)})
            assert svi.evaluate(case.problem, aside).bound <= best + slack


@few
@given(seed=seeds, options=flags)
def test_the_linearised_rule_runs_on_products(crowd, seed, options):
    case = crowd(seed, "features", "features", **{**options, "logit": False})  # the rule is the probit's alone
    problem = replace(case.problem, rule=LINEARISED)
    seen = svi.evaluate(problem, case.state)
    state, after = svi.full_step(problem, case.state, seen)
    assert np.isfinite(after.bound)
    # It is not halved: the first group is at its targets.
    group = problem.groups[0]
    targets = svi.joint_means(problem, case.state, seen, svi.conjugate_blocks(problem, case.state, seen, group))
    moved, _ = svi._group_step(problem, case.state, seen, group)
    for k in group:
        assert_allclose(moved.blocks[k].mean, targets[k].mean, rtol=1e-12, atol=1e-12)
    assert set(state.scales) == set(case.state.scales)


# ----------------------------------------------------------------------------------------------------------- C7: scales
@each_layout
@examples(10)
@given(seed=seeds, options=flags)
def test_updates_of_the_scales_are_stationary(crowd, items, users, seed, options):
    # At fixed blocks. The residual's pull depends on E[s], so that it is iterated to its fixed point first.
    case = crowd(seed, items, users, **{**options, "fixed": False})
    problem, state = case.problem, case.state
    for _ in range(200):
        before = state.log_scales
        state = replace(state, scales=svi.conjugate_scales(problem, state, svi.evaluate(problem, state)))
        if not options["sparse"] or np.abs(state.log_scales - before).max() < 1e-10:
            break
    best = svi.evaluate(problem, state).bound
    slack = 1e-9 * (1.0 + abs(best))
    for name, scale in state.scales.items():
        if isinstance(scale, FixedScale):
            continue
        for size in (1e-3, 0.5):
            for factor in (np.exp(-size), np.exp(size)):
                for moved in (replace(scale, rate=scale.rate * factor), replace(scale, shape=scale.shape * factor)):
                    aside = replace(state, scales={**state.scales, name: moved})
                    assert svi.evaluate(problem, aside).bound <= best + slack, name


@each_layout
@few
@given(seed=seeds, options=flags)
def test_second_moments_by_scale(crowd, items, users, seed, options):
    case = crowd(seed, items, users, **options)
    totals = second_moments(case.problem, case.state)
    assert set(totals) == set(case.state.scales)
    assert sum(size for size, _, _ in totals.values()) == sum(block.size for block in case.state.blocks.values())
    squares = sum(float(block.mean @ block.mean) for block in case.state.blocks.values())
    assert_allclose(sum(square for _, square, _ in totals.values()), squares, rtol=1e-12)
    traces = sum(float(block.covariance_diagonal.sum()) for block in case.state.blocks.values())
    assert_allclose(sum(trace for _, _, trace in totals.values()), traces, rtol=1e-12)


# --------------------------------------------------------------------------------------------------------- mini-batches
def natural(block):
    if isinstance(block, StackedBlock):
        return np.concatenate([natural(part) for part in block.parts])
    precision = np.tril(block.precision).ravel() if isinstance(block, DenseBlock) else block.precision
    return np.concatenate([precision, block.linear])


def one_by_one(problem, state, rho):
    """Groups one after the other by their conjugate targets, then the scales: a step without local blocks."""
    seen = svi.evaluate(problem, state)
    first = seen
    for group in problem.groups:
        seen = svi.evaluate(problem, state)
        targets = svi.conjugate_blocks(problem, state, seen, group)
        state = state.with_blocks({k: state.blocks[k].mixed(target, rho) for k, target in targets.items()})
    targets = svi.conjugate_scales(problem, state, first)
    return replace(state, scales={name: mixed_scale(scale, targets[name], rho) for name, scale in state.scales.items()})


@pytest.mark.parametrize(("items", "users"), LAYOUTS, ids=map("-".join, LAYOUTS))
@pytest.mark.parametrize("rho", [0.3, 1.0])
def test_a_batch_of_everything_is_a_full_step(crowd, items, users, rho):
    case = crowd(3, items, users)
    problem = replace(case.problem, local=frozenset())
    backwards = np.arange(problem.n_observations)[::-1].copy()
    wanted = one_by_one(problem, case.state, rho)
    for part in (problem.batch(backwards[::-1].copy()), problem.batch(backwards)):
        got, seen = svi.minibatch_step(part, case.state, rho)
        for name, block in wanted.blocks.items():
            assert_allclose(natural(got.blocks[name]), natural(block), rtol=1e-9, atol=1e-9)
        assert_allclose(got.log_scales, wanted.log_scales, rtol=1e-10, atol=1e-12)
        assert_allclose(seen.bound, svi.evaluate(problem, case.state).bound, rtol=1e-11)
        assert got.step == case.state.step + 1


@each_layout
@pytest.mark.parametrize("size", [1, 2, 4])
def test_the_mean_over_all_batches_is_the_full_step(crowd, items, users, size):
    # Without local blocks: exact for the first group; the second one sees how far the batch has moved the first, so
    # that its mean is off by O(rho^2).
    case = crowd(5, items, users, sizes=((4, 5), (3, 4), (6, 7)))
    problem = replace(case.problem, local=frozenset())
    batches = [problem.batch(np.array(batch)) for batch in combinations(range(6), size)]
    errors = []
    for rho in (1e-4, 5e-5):
        whole, before = svi.minibatch_step(problem.batch(np.arange(6)), case.state, rho)
        parts = [svi.minibatch_step(batch, case.state, rho) for batch in batches]
        assert_allclose(np.mean([seen.bound for _, seen in parts]), before.bound, rtol=1e-11)
        first, second = problem.groups
        means = [np.mean([natural(moved.blocks[k]) for moved, _ in parts], axis=0) for k in first + second]
        for k, mean in zip(first, means[: len(first)], strict=True):
            assert_allclose(mean, natural(whole.blocks[k]), rtol=1e-10, atol=1e-10)
        errors.append(
            sum(
                float(np.abs(mean - natural(whole.blocks[k])).sum())
                for k, mean in zip(second, means[len(first) :], strict=True)
            )
        )
    assert errors[0] / errors[1] == pytest.approx(4.0, rel=0.05)


@few
@given(seed=seeds, options=flags)
def test_a_mini_batch_holds_its_members_alone(crowd, seed, options):
    case = crowd(seed, "ids", "ids", **options, sizes=((3, 7), (2, 6), (6, 21)))
    problem = case.problem
    members = case.rng.permutation(problem.n_clusters)[: int(case.rng.integers(1, problem.n_clusters + 1))]
    index = np.flatnonzero(np.isin(problem.cluster, members))
    if not index.size:
        return
    part = problem.batch(index)
    assert_array_equal(part.members, np.unique(problem.cluster[index]))
    assert part.inflation == problem.n_observations / index.size
    for name in problem.sides:
        share = problem.n_clusters / part.members.size if name in problem.local else 1.0
        assert part.multiplicity(name) == share
        assert problem.multiplicity(name) == 1.0
    small = part.restrict(case.state)
    seen, whole = svi.evaluate(part, small), svi.evaluate(problem, case.state)
    assert_allclose(seen.mu, whole.mu[index], rtol=1e-12, atol=1e-12)
    assert_allclose(seen.v, whole.v[index], rtol=1e-12, atol=1e-12)
    back = part.expand(small, case.state)
    for name, block in case.state.blocks.items():
        assert_array_equal(natural(back.blocks[name]), natural(block))


@each_layout
@few
@given(seed=seeds, options=flags, rho=st.floats(0.01, 1.0))
def test_local_variables_of_other_clusters_stay(crowd, items, users, seed, options, rho):
    case = crowd(seed, items, users, **options)
    problem = case.problem
    index = np.flatnonzero(problem.cluster == problem.cluster[0])
    state, _ = svi.minibatch_step(problem.batch(index), case.state, rho)
    others = np.setdiff1d(np.arange(problem.n_clusters), problem.cluster[0])
    for k in problem.local:
        for name in ("precision", "linear"):
            before, after = (getattr(s.blocks[k], name).reshape(-1, problem.n_clusters) for s in (case.state, state))
            assert_array_equal(before[:, others], after[:, others])
    for k, block in state.blocks.items():
        assert block.size == case.state.blocks[k].size


@few
@given(seed=seeds, options=flags)
def test_the_bound_of_batches_of_like_clusters_averages_to_the_full_one(crowd, seed, options):
    # Every user made three comparisons: P / B is then the inverse of the share of users.
    case = crowd(seed, "features", "ids", **options, sizes=((3, 7), (4, 5), (12, 13)))
    user = case.rng.permutation(np.repeat(np.arange(4), 3))
    problem = with_users(case.problem, user)
    for size in (1, 2):
        batches = [problem.batch(np.flatnonzero(np.isin(user, some))) for some in combinations(range(4), size)]
        bounds = [svi.evaluate(batch, batch.restrict(case.state)).bound for batch in batches]
        assert_allclose(np.mean(bounds), svi.evaluate(problem, case.state).bound, rtol=1e-10)


def with_users(problem, user):
    """The same problem of comparisons made by other users."""
    terms = {
        name: replace(term, index=user) if hasattr(term, "index") else term for name, term in problem.terms.items()
    }
    product = problem.products[0]
    second = replace(product.second, rows=replace(product.second.rows, index=user))
    return replace(problem, terms=terms, products=(replace(product, second=second),), cluster=user)


@pytest.mark.parametrize("rows", [(3, 3, 3, 3), (1, 2, 3, 6), (1, 40, 40, 40)], ids=str)
def test_local_variables_are_solved_for_however_much_their_user_said(crowd, rows):
    # Given the global variables, a user's own factors depend on the user's comparisons alone: mini-batch steps of step
    # size (almost) zero must lead where steps on the full data lead.
    case = crowd(11, "features", "ids", sizes=((5, 6), (4, 5), (sum(rows), sum(rows) + 1)))
    problem = with_users(case.problem, np.repeat(np.arange(4), rows))
    k = next(iter(problem.local))
    full = case.state
    for _ in range(30):
        full, _ = svi._group_step(problem, full, svi.evaluate(problem, full), (k,))
    for user in range(4):
        part, state = problem.batch(np.flatnonzero(problem.cluster == user)), case.state
        for _ in range(30):
            state, _ = svi.minibatch_step(part, state, 1e-300)
        got, wanted = (s.blocks[k].mean.reshape(-1, 4)[:, user] for s in (state, full))
        assert_allclose(got, wanted, atol=1e-4, err_msg=f"mean of user {user}")
        got, wanted = (s.blocks[k].precision.reshape(-1, 4)[:, user] for s in (state, full))
        assert_allclose(got, wanted, rtol=1e-4, err_msg=f"precision of user {user}")


@few
@given(seed=seeds, size=st.integers(1, 25))
def test_batches_of_an_epoch_hold_whole_clusters(crowd, seed, size):
    case = crowd(seed, sizes=((3, 7), (2, 9), (5, 30)))
    problem = case.problem
    batches = list(svi._batches(problem, size, case.rng))
    assert_array_equal(np.sort(np.concatenate(batches)), np.arange(problem.n_observations))
    owners = [np.unique(problem.cluster[batch]) for batch in batches]
    assert sum(map(len, owners)) == np.unique(problem.cluster).size
    assert all(batch.size for batch in batches)
    largest = np.bincount(problem.cluster).max()
    assert max(batch.size for batch in batches) < size + largest


@pytest.mark.parametrize("items", ["ids", "features"])
@pytest.mark.parametrize("users", ["ids", "features"])
def test_mini_batches_end_near_the_full_data(crowd, items, users):
    sizes = ((6, 7), (8, 9), (160, 161))
    case = crowd(2, items, users, n_factors=1, sizes=sizes)
    start = svi.full_step(case.problem, case.state, svi.evaluate(case.problem, case.state))[0]
    best = svi.fit(case.problem, start, TIGHT, case.rng)
    schedule = svi.Schedule(max_iter=30, tol=0.0, batch_size=40)
    end = svi.fit(case.problem, best.state, schedule, np.random.default_rng(0)).state
    bound = svi.evaluate(case.problem, end).bound
    assert best.evaluation.bound - 1.0 < bound <= best.evaluation.bound + 1e-8


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ({"blocks": []}, "blocks"),
        ({"blocks": {"f": 3}}, "blocks must be blocks"),
        ({"scales": {"f": 1.0}}, "scales must hold the scales"),
        ({"scales": [1.0]}, "scales"),
        ({"step": -1}, "step must be a whole number >= 0"),
        ({"step": 1.0}, "step"),
    ],
)
def test_states_hold_blocks_scales_and_a_count(damage, message):
    sound = State({"f": DiagonalBlock(np.ones(2), np.zeros(2))}, {"f": GammaScale.prior(1.0, 2.0)})
    sound.validate()
    with pytest.raises(DataError, match=message):
        replace(sound, **damage).validate()
