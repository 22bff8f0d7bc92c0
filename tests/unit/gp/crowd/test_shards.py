"""A hierarchy in shards: the sums of the hierarchy in memory, up to rounding."""

import itertools
from dataclasses import fields, replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skpref.data import Comparisons
from skpref.gp.crowd.hierarchy import Hierarchy, fit_hierarchy, start_state
from skpref.gp.crowd.places import Places
from skpref.gp.crowd.shards import ShardedAnswers, shard_of
from skpref.gp.crowd.users import order_by_user
from skpref.inference.scale import GammaScale
from skpref.inference.shards import OnDisk, Shards
from skpref.likelihoods import PairwiseProbit, PairwiseProbitTies

BOUNDS = np.array([0, 3, 7, 12])  # first users of the shards
N_ITEMS = 5


def answers(*, order=False, ties=False, rows=False, n=240):
    """Answers of 12 users; `rows` have covariates and groups."""
    rng = np.random.default_rng(0)
    left = rng.integers(0, N_ITEMS, n)
    right = (left + rng.integers(1, N_ITEMS, n)) % N_ITEMS
    user = np.concatenate([np.arange(12), rng.integers(0, 12, n - 12)])
    z = np.linspace(-1.0, 1.0, N_ITEMS)
    difference = z[left] - z[right] + rng.normal(size=n)
    y = np.where(np.abs(difference) < 0.3, 0.5, difference > 0.0) if ties else (difference > 0.0).astype(float)
    more = (rng.normal(size=(n, 2)), rng.integers(0, 2, (n, 1))) if rows else (None, None)
    c = Comparisons(left, right, y, np.ones(n), N_ITEMS, user, 12, *more).merged(keep_order=order, keep_ties=ties)
    return c.take(order_by_user(c))


def both(*, order=False, with_covariates=False, on_disk=False, ties=False, rows=False):
    """The same model in memory and in three shards."""
    c = answers(order=order, ties=ties, rows=rows)
    places, scale = Places.from_comparisons(c, order=order), np.ones(2) if rows else np.ones(0)
    plain = shard_of(c, places, scale)
    n = N_ITEMS + order
    parts = (("offset", places.item.size),)
    x = np.random.default_rng(1).normal(size=(12, 2)) if with_covariates else None
    plain = replace(
        plain,
        consensus=np.eye(places.item.size),
        parts=parts,
        shape=np.eye(n),
        covariates=x,
        floor=0.3,
        penalty=0.5,
        max_rank=2,
        own_thresholds=ties,
    )
    shards = OnDisk() if on_disk else Shards()
    kept, sizes = [], []
    user = np.asarray(c.user)
    for low, high in itertools.pairwise(BOUNDS):
        part = c.take((user >= low) & (user < high))
        part = replace(part, user=np.asarray(part.user) - low, n_users=int(high - low))
        kept.append(shards.store(shard_of(part, places, scale)))
        sizes.append(part.n_pairs)
    weight, component = np.ones(N_ITEMS), np.zeros(N_ITEMS, dtype=np.int64)
    columns = np.array(sizes), N_ITEMS, weight, component, scale, BOUNDS, c, places
    sharded = ShardedAnswers(shards, kept, *columns)
    empty = shard_of(sharded.empty(), places, scale)
    model = replace(plain, users=empty.users, y=empty.y, weight=empty.weight)
    return plain, sharded.hierarchy(model)


def first_state(model):
    return start_state(
        model,
        {"offset": GammaScale.prior(2.0, 2.0)},
        PairwiseProbitTies(0.3) if model.own_thresholds else PairwiseProbit(),
        0.5,
    )


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"order": True},
        {"with_covariates": True},
        {"on_disk": True, "with_covariates": True},
        {"ties": True},
        {"rows": True},
        {"rows": True, "order": True, "ties": True, "with_covariates": True, "on_disk": True},
    ],
    ids=["plain", "order effect", "users' features", "disk", "ties", "covariates and groups", "all"],
)
def test_a_fit_to_shards_is_that_in_memory(options):
    plain, sharded = both(**options)
    here, there = (fit_hierarchy(m, first_state(m), max_iter=9, tol=0.0) for m in (plain, sharded))
    assert_allclose(there.bounds, here.bounds, rtol=1e-12)
    assert_allclose(there.mean, here.mean, atol=1e-12)
    assert_allclose(there.state.S, here.state.S, atol=1e-12)
    assert_allclose(there.state.B, here.state.B, atol=1e-12)
    if plain.own_thresholds:
        assert_allclose(there.state.thresholds.mean, here.state.thresholds.mean, atol=1e-12)
        assert np.ptp(here.state.thresholds.variance) > 0.0
    (users, *mine), (wanted, *others) = sharded.columns(there), plain.columns(here)
    for field in fields(wanted):
        assert_array_equal(getattr(users, field.name), getattr(wanted, field.name))
    for values, other in zip(mine, others, strict=True):
        assert_allclose(values, other, atol=1e-10)


@pytest.mark.parametrize("order", [False, True])
def test_some_users_and_some_comparisons_come_here(*, order):
    plain, sharded = both(order=order, with_covariates=True)
    chosen = np.isin(np.arange(12), [1, 3, 4, 11])
    for mine, other in (
        (sharded.select_users(chosen), plain.select_users(chosen)),
        (sharded.select_users(~chosen), plain.select_users(~chosen)),
    ):
        assert type(mine) is Hierarchy
        for name in ("user", "left", "right", "starts", "a", "b"):
            assert_array_equal(getattr(mine.users, name), getattr(other.users, name))
        assert_array_equal(mine.y, other.y)
        assert_array_equal(mine.covariates, other.covariates)
    index = np.array([0, 5, 6, 50, 80])
    taken = sharded.answers.take(index)
    columns = plain.users.user, plain.users.left, plain.users.right, plain.y
    for mine, other in zip((taken.user, taken.left, taken.right, taken.y), columns, strict=True):
        assert_array_equal(mine, other[index])
    assert sharded.n_users == plain.n_users == 12
    assert sharded.users.rows[-1] == plain.y.size
