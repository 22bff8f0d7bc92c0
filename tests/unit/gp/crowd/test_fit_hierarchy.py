"""What is chosen before the inference of a hierarchy: folds, users, candidates, and covariances that grow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process.kernels import RBF

from skpref.gp.crowd import fit_hierarchy
from skpref.gp.crowd.fit_hierarchy import Regularisation
from skpref.kernels import Linear
from tests.unit.gp.crowd.test_hierarchy import crowd_model


def test_folds_are_of_equal_size_and_keep_users_and_pairs_apart() -> None:
    model, start = crowd_model(penalty=None)
    fit = fit_hierarchy.fit_hierarchy(model, start, max_iter=5, tol=0.0)
    fold = fit_hierarchy._folds(model, fit)
    counts = np.bincount(fold)
    assert counts.size == 5
    assert np.abs(counts - 120).max() < 5 * np.sqrt(120)
    code = model.users.user * 25 + np.minimum(model.users.left, model.users.right) * 5
    code += np.maximum(model.users.left, model.users.right)
    pairs = np.unique(code)
    assert all(np.unique(fold[code == pair]).size == 1 for pair in pairs)  # answers about a pair are held out together
    same_pair = [fold[code == pair][0] for pair in pairs if pair % 25 == 1]
    assert np.unique(same_pair).size > 1  # but not those of all users


def test_a_part_of_the_comparisons_has_the_same_users_and_items() -> None:
    model, _ = crowd_model(penalty=None)
    rows = model.users.user % 2 == 0
    part = fit_hierarchy._subset(model, rows)
    assert (part.n_users, part.users.n_items, part.y.size) == (30, 5, rows.sum())
    assert_array_equal(part.users.left, model.users.left[rows])
    assert_array_equal(part.weight, model.weight[rows])
    assert part.covariates is model.covariates


def test_a_part_of_the_users_has_their_comparisons_and_covariates() -> None:
    model, _ = crowd_model(penalty=None)
    drawn = np.isin(np.arange(30), [2, 5, 29])
    part = model.of_users(drawn)
    rows = drawn[model.users.user]
    assert part.n_users == 3
    assert_array_equal(part.users.user, np.searchsorted([2, 5, 29], model.users.user[rows]))
    assert_array_equal(part.users.right, model.users.right[rows])
    assert_array_equal(part.y, model.y[rows])
    assert_array_equal(part.covariates, model.covariates[drawn])


@pytest.mark.parametrize("most", [1, 200, 599, 600])
def test_users_are_drawn_until_they_have_enough_comparisons(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit_hierarchy, "_MAX_CHOICE", most)
    model, _ = crowd_model(penalty=None)
    part = fit_hierarchy._some_users(model, np.random.default_rng(0))
    if most == 600:
        assert part is model
        return
    largest = np.bincount(model.users.user).max()
    assert most - largest <= part.y.size <= max(most, largest)
    assert 1 <= part.n_users < 30


def test_candidates_are_in_units_of_the_scale_and_of_the_items() -> None:
    many, few = (Regularisation.candidate(1, 3.0, n) for n in (10, 1))
    assert (many.floor, many.prior_weight, many.penalty) == (12.0, 20.0, 0.1)
    assert few.prior_weight == 2.0
    for number in (5, 6):  # without a prior of a weight of its own
        assert Regularisation.candidate(number, 3.0, 10).prior_weight == 0.5
    penalties = [Regularisation.candidate(k, 1.0, 10).penalty for k in range(7)]
    assert penalties == [0.3, 0.1, 0.1, 0.3, 1.0, 2.0, 8.0]
    floors = [Regularisation.candidate(k, 1.0, 10).floor for k in range(7)]
    assert floors == [1.0, 4.0, 4.0, 1.0, 1.0, 0.3, 0.3]


@pytest.mark.parametrize("order", [False, True])
def test_a_covariance_grows_by_the_prior_given_the_old_items(order: bool) -> None:
    rng = np.random.default_rng(0)
    A = rng.standard_normal((6 + order, 9))
    prior = A @ A.T
    old = np.append(np.arange(4), 6) if order else np.arange(4)
    B = rng.standard_normal((len(old), 9))
    S = B @ B.T
    grown = fit_hierarchy._grown(S, prior, order=order)
    assert_allclose(grown[np.ix_(old, old)], S)
    assert_array_equal(grown, grown.T)
    new = np.setdiff1d(np.arange(6 + order), old)
    gain = prior[np.ix_(new, old)] @ np.linalg.inv(prior[np.ix_(old, old)])
    rest = prior[np.ix_(new, new)] - gain @ prior[np.ix_(old, new)]
    assert_allclose(grown[np.ix_(new, old)], gain @ S)
    assert_allclose(grown[np.ix_(new, new)], gain @ S @ gain.T + rest)


@pytest.mark.parametrize("scale", [2.0, [2.0, 3.0]])
def test_kernels_are_stretched_where_they_have_length_scales(scale: Any) -> None:
    kernel = RBF(scale)
    assert_allclose(fit_hierarchy._stretched(kernel, 0.5).length_scale, 0.5 * np.asarray(scale))
    assert_allclose(kernel.length_scale, scale)
    linear = Linear()
    assert fit_hierarchy._stretched(linear, 0.5) is linear
