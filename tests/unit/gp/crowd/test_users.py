"""Comparisons in coordinates of each user."""

import numpy as np
import pytest

from skpref.gp.crowd.users import UserRows
from tests.policies import set_policy


@pytest.mark.parametrize("order", [False, True])
@pytest.mark.parametrize("n", [8, 60])
def test_coordinates_give_the_comparisons(n, order):
    rng = np.random.default_rng(n)
    n_users, n_items = 7, 6
    user = np.sort(rng.integers(0, n_users, n))
    left = rng.integers(0, n_items, n)
    right = (left + rng.integers(1, n_items, n)) % n_items
    users = UserRows.from_comparisons(user, left, right, np.ones((user.size, int(order))), (n_users, n_items))
    A = users.incidence(np.ones(users.first.size)).toarray()
    for p, u in enumerate(user):
        start, stop = users.starts[u : u + 2]
        row = A[start + users.a[p]] - (A[start + users.b[p]] if users.b[p] >= 0 else 0.0)
        row = users.sign[p] * row + (A[stop - 1] if order else 0.0)
        wanted = np.zeros(n_items + order)
        wanted[left[p]], wanted[right[p]] = 1.0, -1.0
        if order:
            wanted[-1] = 1.0
        np.testing.assert_array_equal(row, wanted)
    own_items = [len(set(left[user == u]) | set(right[user == u])) for u in range(n_users)]
    own_pairs = [
        len({tuple(sorted(x)) for x in zip(left[user == u], right[user == u], strict=True)}) for u in range(n_users)
    ]
    fewest = own_items if order else np.minimum(own_items, own_pairs)
    np.testing.assert_array_equal(np.diff(users.starts), np.add(fewest, order))


@pytest.mark.parametrize("n_users", [0, 5, 9])
def test_sums_of_some_users_at_a_time(monkeypatch, n_users):
    rng = np.random.default_rng(0)
    user = np.sort(rng.integers(0, max(n_users, 1), 60 if n_users else 0))
    left = rng.integers(0, 6, user.size)
    users = UserRows.from_comparisons(
        user, left, (left + 1 + rng.integers(0, 5, user.size)) % 6, np.ones((user.size, 0)), (n_users, 6)
    )
    weight = rng.normal(size=users.first.size)
    wanted = np.zeros((n_users, 6))
    for u, (low, high) in enumerate(zip(users.starts[:-1], users.starts[1:], strict=True)):
        wanted[u] = users.user_rows(u).T @ weight[low:high]
    whole = users.sum_by_user(weight).toarray()
    set_policy(monkeypatch, "gp.crowd", users_at_once=4)
    np.testing.assert_array_equal(users.sum_by_user(weight).toarray(), whole)
    np.testing.assert_allclose(whole, wanted, atol=1e-12)
