"""Comparisons of users with variables of their own, against one dense solve for all variables."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skpref.gp.crowd import blocks as module
from skpref.gp.crowd.blocks import UserBlocks, integrate_out, iterate_users, marginals, personal_moments
from skpref.gp.crowd.users import UserRows
from tests.policies import set_policy


@pytest.mark.parametrize("most", [1, 2**20])  # entries in memory: users one by one, or together
@pytest.mark.parametrize("order", [False, True])
@pytest.mark.parametrize(
    ("n_groups", "n_numbers"),  # what users share differs by group, and by numbers; what is their own does not
    [(1, 0), (2, 0), (1, 2), (2, 1)],
)
def test_moments_are_those_of_the_joint_gaussian(*, order, most, n_groups, n_numbers, monkeypatch):
    monkeypatch.setattr(module, "_MOST_ENTRIES", most)
    set_policy(monkeypatch, "gp.crowd", stack=most)
    # The first user has fewer pairs than items, and all have a pair whose right side is the first of their items.
    user = np.array([0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2])
    left, right = np.array([[3, 1, 3, 1, 0, 2, 2, 1, 1, 2, 3], [1, 3, 1, 0, 2, 1, 0, 0, 2, 0, 0]])
    group = np.arange(user.size) % n_groups
    n, n_users, rng = 4 + order, 3, np.random.default_rng(0)
    n_slopes, L = 4 * n_numbers, 4 * (n_groups + n_numbers) + order
    item = np.concatenate([np.tile(np.arange(4), n_groups), np.full(n_slopes, -1), np.full(int(order), 4)])
    context = rng.normal(size=(user.size, n_numbers))
    roots = rng.normal(size=(L, L)), rng.normal(size=(n, n))
    of_all, of_one = (root @ root.T + np.eye(len(root)) for root in roots)
    tau, nu = rng.uniform(0.5, 2.0, user.size), rng.normal(size=user.size)

    at_places = np.eye(L)[4 * group + left] - np.eye(L)[4 * group + right]
    for k, x in enumerate(context.T):
        at_places[:, 4 * n_groups + k : 4 * n_groups + n_slopes : n_numbers] += x[:, None] * (
            np.eye(4)[left] - np.eye(4)[right]
        )
    at_places[:, 4 * n_groups + n_slopes :] = 1.0
    to_items = np.where(item[:, None] >= 0, np.eye(n)[item], 0.0)
    of_users = np.zeros((user.size, n_users, n))
    of_users[np.arange(user.size), user] = at_places @ to_items
    rows = np.hstack([at_places, of_users.reshape(user.size, -1)])
    prior = np.zeros((L + n_users * n, L + n_users * n))
    prior[:L, :L] = np.linalg.inv(of_all)
    prior[L:, L:] = np.kron(np.eye(n_users), np.linalg.inv(of_one))
    covariance = np.linalg.inv(prior + rows.T @ (tau[:, None] * rows))
    mean = covariance @ rows.T @ nu

    arguments = user, 4 * group + left, 4 * group + right, np.ones((user.size, int(order))), (n_users, 4 * n_groups)
    users = UserRows.from_comparisons(*arguments, item if n_groups > 1 or n_numbers else None, context)
    assert users.by_pairs.any() != order
    assert_allclose(users.design(), at_places)
    for u in range(n_users):
        assert_allclose(users.seen_rows(u) @ users.user_rows(u), at_places[user == u], atol=1e-12)
    S = to_items @ of_one @ to_items.T
    blocks, shift = UserBlocks(users, S, tau, nu), np.zeros(users.first.size)
    assert len(list(blocks)) == (3 if most == 1 else 1 + users.by_pairs.any() - users.by_pairs.all())
    information, linear, log_det, constant = integrate_out(blocks, shift)
    V = np.linalg.inv(np.linalg.inv(of_all) + information)
    m = V @ linear
    assert_allclose(V, covariance[:L, :L], rtol=1e-9)
    assert_allclose(m, mean[:L], rtol=1e-9)
    whole = -np.linalg.slogdet(covariance)[1] - np.linalg.slogdet(prior)[1]
    assert_allclose(log_det - np.linalg.slogdet(V)[1] + np.linalg.slogdet(of_all)[1], whole, rtol=1e-9)
    assert_allclose(constant + linear @ m, mean @ rows.T @ nu, rtol=1e-9)

    got = marginals(blocks, m, V, shift)
    assert_allclose(got[0], rows @ mean, atol=1e-9)
    assert_allclose(got[1], np.diag(rows @ covariance @ rows.T), rtol=1e-9)
    for u, (P, W, D, d) in enumerate(iterate_users(np.arange(n_users), users, S, tau, nu)):
        own = slice(L + u * n, L + (u + 1) * n)
        A = users.user_rows(u)
        alpha = A.T @ got[3][users.starts[u] : users.starts[u + 1]]
        assert_allclose(S @ alpha, to_items @ mean[own], rtol=1e-9)
        assert_allclose(P, A @ S @ A.T, atol=1e-12)
        assert_allclose(W, np.linalg.solve(np.eye(len(D)) + D @ P, D), atol=1e-9)
        assert_allclose(A.T @ d, at_places.T @ (nu * (user == u)), atol=1e-12)

    asked = np.array([0, 0, 0, 2, 2])  # rows of two users, of the first more
    wanted = rng.normal(size=(asked.size, L))
    q = wanted @ S
    added = personal_moments(asked, q, wanted @ V, S, V, users, tau, nu, got[3], explain=True)
    for k, u in enumerate(asked):
        own = slice(L + u * n, L + (u + 1) * n)
        whole = np.zeros(len(mean))
        whole[:L], whole[own] = wanted[k], wanted[k] @ to_items
        assert_allclose(m @ wanted[k] + added[0][k], whole @ mean, rtol=1e-9)
        variance = wanted[k] @ (V + S) @ wanted[k] + added[1][k]
        assert_allclose(variance, whole @ covariance @ whole, rtol=1e-9)
