"""Comparisons of users with variables of their own, against one dense solve for all variables."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skpref._compiled import users as compiled
from skpref._compiled.users import UserBlocks, integrate_out, marginals, with_covariates
from skpref.gp.crowd.users import UserRows


@pytest.mark.parametrize("most", [1, 2**20])  # entries in memory: users one by one, or together
@pytest.mark.parametrize("order", [False, True])
def test_moments_are_those_of_the_joint_gaussian(*, order: bool, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "_MOST_ENTRIES", most)
    # The first user has fewer pairs than items, and all have a pair whose right side is the first of their items.
    user = np.array([0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2])
    left, right = np.array([[3, 1, 3, 1, 0, 2, 2, 1, 1, 2, 3], [1, 3, 1, 0, 2, 1, 0, 0, 2, 0, 0]])
    n, n_users, rng = 4 + order, 3, np.random.default_rng(0)
    roots = rng.normal(size=(2, n, n))
    of_all, of_one = roots @ roots.transpose(0, 2, 1) + np.eye(n)
    tau, nu = rng.uniform(0.5, 2.0, user.size), rng.normal(size=user.size)

    contrasts = np.eye(n)[left] - np.eye(n)[right]
    contrasts[:, 4:] = 1.0
    rows = np.zeros((user.size, 1 + n_users, n))
    rows[:, 0], rows[np.arange(user.size), 1 + user] = contrasts, contrasts
    rows = rows.reshape(user.size, -1)
    precision = rows.T @ (tau[:, None] * rows)
    for k, prior in enumerate([of_all, *[of_one] * n_users]):
        precision[k * n : (k + 1) * n, k * n : (k + 1) * n] += np.linalg.inv(prior)
    covariance = np.linalg.inv(precision)
    mean = covariance @ rows.T @ nu

    users = UserRows.from_comparisons(user, left, right, np.ones((user.size, int(order))), (n_users, 4))
    assert users.by_pairs.any() != order
    blocks, shift = UserBlocks(of_one, users.coordinates, users.places, tau, nu), np.zeros(users.first.size)
    assert len(list(blocks)) == (3 if most == 1 else 1)
    information, linear, _, _ = integrate_out(blocks, n, users.coordinates, shift)
    V = np.linalg.inv(np.linalg.inv(of_all) + information)
    m = V @ linear
    assert_allclose(V, covariance[:n, :n], rtol=1e-9)
    assert_allclose(m, mean[:n], rtol=1e-9)
    got = marginals(blocks, m, V, users.coordinates, users.places, shift)
    assert_allclose(got[0], rows @ mean, rtol=1e-9)
    assert_allclose(got[1], np.diag(rows @ covariance @ rows.T), rtol=1e-9)
    x = rng.normal(size=(n_users, 2))
    expected = sum(
        np.outer(users.user_rows(u).T @ got[3][users.starts[u] : users.starts[u + 1]], x[u]) for u in range(3)
    )
    assert_allclose(with_covariates(x, n, users.coordinates, got[3]), expected, atol=1e-12)
