"""Simulated crowds: valid data, the law they are drawn from, and what the arguments change.

Statistics are compared with five standard errors: a false alarm in 1.7 million. Each is a plain mean, a variance of
Gaussians (standard error sqrt(2/n) of its value) or a count.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr

from skpref.data.columns import read_ids
from skpref.data.comparisons import from_labels
from skpref.datasets import _crowd, make_crowd
from skpref.exceptions import DataError

seeds = st.integers(0, 2**32 - 1)
INDEPENDENT = {"n_features": 0, "n_user_features": 0}


def signal(data):
    """Differences of utility without noise."""
    user, left, right = data.comparisons.T
    return data.utilities[user, left] - data.utilities[user, right]


def z_score(y, p, weight=1.0):
    """How many standard errors the weighted sum of labels lies from its expectation."""
    return np.sum(weight * (y - p)) / np.sqrt(np.sum(weight**2 * p * (1 - p)))


def assert_variance(draws, variance, mean=0.0):
    """Independent Gaussians down the first axis, of this mean and variance."""
    n = len(draws)
    assert np.abs(draws.mean(axis=0) - mean).max() < 5 * np.sqrt(np.max(variance) / n)
    assert np.abs(((draws - mean) ** 2).mean(axis=0) / variance - 1.0).max() < 5 * np.sqrt(2 / n)


# ------------------------------------------------------------------------------------------------------------- shapes


@given(
    st.integers(1, 9),
    st.integers(2, 12),
    st.integers(1, 60),
    st.integers(0, 3),
    st.integers(0, 2),
    st.integers(0, 2),
    st.floats(0, 1),
    st.floats(0, 1),
    seeds,
)
def test_crowds_are_valid(n_users, n_items, n_comparisons, n_factors, n_features, n_user_features, ties, share, seed):
    sizes = (n_users, n_items, n_comparisons, n_factors, n_features, n_user_features)
    given = {"ties": ties, "share_random": share, "order_effect": (0.5, 1.0), "random_state": seed}
    data = make_crowd(*sizes, **given)
    user, left, right = read_ids(data.comparisons, ("user", "left", "right"))
    pairs = from_labels(left, right, data.y, n_items, user=user, n_users=n_users)
    assert (pairs.n_pairs, data.comparisons.dtype, data.y.dtype) == (n_comparisons, np.int64, np.float64)
    assert (data.item_factors.shape, data.user_factors.shape) == ((n_items, n_factors), (n_users, n_factors))
    assert (data.consensus.shape, data.utilities.shape) == ((n_items,), (n_users, n_items))
    assert (data.position_bias.shape, data.random_users.shape) == ((n_users,), (n_users,))
    assert np.count_nonzero(data.y == 0.5) == round(ties * n_comparisons)
    assert np.count_nonzero(data.random_users) == round(share * n_users)
    for table, rows, columns in ((data.table, n_items, n_features), (data.user_table, n_users, n_user_features)):
        assert (table is None) if columns == 0 else (table.n_items, table.n_features) == (rows, columns)
    again = make_crowd(*sizes, **given)
    for name in ("comparisons", "y", "utilities", "position_bias", "random_users"):
        np.testing.assert_array_equal(again[name], data[name])


def test_another_seed_is_another_crowd():
    one, two = make_crowd(random_state=0), make_crowd(random_state=1)
    assert not np.array_equal(one.utilities, two.utilities)
    assert not np.array_equal(one.comparisons, two.comparisons)
    rng = np.random.default_rng(0)
    assert not np.array_equal(make_crowd(random_state=rng).y, make_crowd(random_state=rng).y)


@given(seeds)
def test_utilities_are_the_sum_of_their_parts(seed):
    data = make_crowd(5, 4, 1, 3, random_state=seed)
    for u in range(5):
        for i in range(4):
            taste = sum(data.user_factors[u, d] * data.item_factors[i, d] for d in range(3))
            assert data.utilities[u, i] == pytest.approx(data.consensus[i] + taste, rel=1e-12, abs=1e-12)


def test_utilities_that_would_fill_the_memory_are_left_out(monkeypatch):
    monkeypatch.setattr(_crowd, "_MOST_UTILITIES", 99)
    assert make_crowd(10, 10, 5).utilities is None
    assert make_crowd(11, 9, 5).utilities.shape == (11, 9)


def test_features_may_be_given():
    grid = np.stack(np.meshgrid(np.arange(4.0), np.arange(3.0)), axis=-1).reshape(-1, 2)
    ages = [[20], [30], [40]]
    data = make_crowd(item_features=grid, user_features=ages, n_features=7, n_user_features=0, random_state=0)
    np.testing.assert_array_equal(data.table.features, grid)
    assert data.user_table.features.tolist() == ages
    assert data.utilities.shape == (3, 12)
    assert set(data.comparisons[:, 0]) == {0, 1, 2}
    assert data.comparisons[:, 1:].max() == 11
    assert grid.flags.writeable


# -------------------------------------------------------------------------------------------------------------- truth


def test_independent_entities_have_the_scales_variances():
    s, s_d, s_w = 0.5, np.array([1.0, 4.0, 0.25]), np.array([2.0, 1.0, 10.0])
    data = make_crowd(
        40_000, 40_000, 1, 3, **INDEPENDENT, scale=s, factor_scale=s_d, user_factor_scale=s_w, random_state=3
    )
    assert_variance(data.consensus, 1 / s)
    assert_variance(data.item_factors, 1 / s_d)
    assert_variance(data.user_factors, 1 / s_w)
    # Neither factors nor neighbours go together: correlations are 0 with the standard error 1/sqrt(n).
    together = np.column_stack([data.consensus, data.item_factors, data.user_factors])
    assert np.abs(np.corrcoef(together.T) - np.eye(7)).max() < 5 / np.sqrt(40_000)
    for column in together.T:
        assert abs(np.corrcoef(column[1:], column[:-1])[0, 1]) < 5 / np.sqrt(40_000)


def test_functions_of_features_have_the_kernels_covariance():
    # 3000 factors are 3000 draws at 4 points; the standard error of a covariance K_ij of unit Gaussians is
    # sqrt((1 + K_ij^2) / n), and 2000 waves a draw add a thousandth of it.
    X = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 3.0], [6.0, -6.0]])
    lengths, scales = {"item": np.array([2.0, 3.0]), "user": np.array([4.0, 1.5])}, {"item": 4.0, "user": 2.0}
    data = make_crowd(
        n_factors=3000,
        item_features=X,
        user_features=X,
        length_scale=lengths["item"],
        user_length_scale=lengths["user"],
        factor_scale=scales["item"],
        user_factor_scale=scales["user"],
        random_state=5,
    )
    for side in ("item", "user"):
        draws = np.sqrt(scales[side]) * data[f"{side}_factors"]
        r = np.sqrt(3.0) * np.abs(X[:, None] - X[None]) / lengths[side]
        K = np.prod((1 + r) * np.exp(-r), axis=2)
        assert np.all(np.abs(draws @ draws.T / 3000 - K) < 5 * np.sqrt((1 + K**2) / 3000))
        assert np.abs(draws.mean(axis=1)).max() < 5 / np.sqrt(3000)


def test_without_factors_all_agree():
    data = make_crowd(4, 6, 10, 0, random_state=0)
    np.testing.assert_array_equal(data.utilities, np.tile(data.consensus, (4, 1)))


def test_infinite_scales_kill():
    data = make_crowd(n_factors=3, factor_scale=[1, np.inf, 1], user_factor_scale=[1, 1, np.inf], random_state=0)
    assert data.item_factors.any(axis=0).tolist() == [True, False, True]
    assert data.user_factors.any(axis=0).tolist() == [True, True, False]
    assert np.linalg.matrix_rank(data.utilities - data.consensus) == 1
    assert not make_crowd(scale=np.inf, random_state=0).consensus.any()


@pytest.mark.parametrize(
    ("argument", "name", "ratio"),
    [("scale", "consensus", 0.5), ("factor_scale", "item_factors", 0.5), ("user_factor_scale", "user_factors", 0.5)],
)
def test_scales_change_no_draw(argument, name, ratio):
    one, four = make_crowd(random_state=0), make_crowd(random_state=0, **{argument: 4.0})
    np.testing.assert_array_equal(four.comparisons, one.comparisons)
    for part in ("consensus", "item_factors", "user_factors"):
        np.testing.assert_allclose(four[part], one[part] * (ratio if part == name else 1.0), rtol=1e-14)


def test_what_spoils_answers_changes_nothing_else():
    plain = make_crowd(random_state=0)
    for spoilt in ({"noise": 0.1}, {"ties": 0.4}, {"order_effect": (1.0, 2.0)}, {"share_random": 0.5}):
        data = make_crowd(random_state=0, **spoilt)
        assert data.table.digest == plain.table.digest
        assert data.user_table.digest == plain.user_table.digest
        for name in ("comparisons", "consensus", "utilities"):
            np.testing.assert_array_equal(data[name], plain[name])
        assert not np.array_equal(data.y, plain.y)


# -------------------------------------------------------------------------------------------------------- comparisons


def test_users_and_pairs_are_drawn_uniformly():
    data = make_crowd(7, 5, 84_000, random_state=0)
    user, left, right = data.comparisons.T
    counts = np.zeros((7, 5, 5))
    np.add.at(counts, (user, left, right), 1)
    assert not counts[:, range(5), range(5)].any()
    cells = counts[:, ~np.eye(5, dtype=bool)]  # 140 cells of 600; chi-square(139) has the variance 278
    chi2 = np.sum((cells - 600) ** 2 / 600)
    assert abs(chi2 - 139) < 5 * np.sqrt(278)


def test_comparisons_per_user():
    assert np.bincount(make_crowd(6, comparisons_per_user=4, random_state=0).comparisons[:, 0]).tolist() == [4] * 6
    counts = [0, 500, 1, 20, 0]
    data = make_crowd(5, n_comparisons=7, comparisons_per_user=counts, random_state=0)
    user = data.comparisons[:, 0]
    assert np.bincount(user, minlength=5).tolist() == counts
    assert data.y.shape == (521,)
    assert np.any(np.diff(user) < 0)  # shuffled, so the first n rows are a sample


# ------------------------------------------------------------------------------------------------------------- labels


def test_answers_without_noise_are_the_truth():
    data = make_crowd(20, 30, 3000, 3, noise=0.0, random_state=0)
    np.testing.assert_array_equal(data.y, signal(data) > 0)


@pytest.mark.parametrize("noise", [1.0, 0.3])
def test_labels_follow_the_probit_model(noise):
    data = make_crowd(30, 40, 40_000, noise=noise, random_state=1)
    p = ndtr(signal(data) / noise)
    assert abs(z_score(data.y, p)) < 5
    assert abs(z_score(data.y, p, p)) < 5
    assert abs(z_score(data.y, p, signal(data))) < 5


def test_each_user_has_a_noise():
    noise = np.array([0.1, 1.0, 5.0])
    data = make_crowd(3, 40, 30_000, noise=noise, random_state=2)
    user, p = data.comparisons[:, 0], ndtr(signal(data) / noise[data.comparisons[:, 0]])
    for u in range(3):
        rows = user == u
        assert abs(z_score(data.y[rows], p[rows], signal(data)[rows])) < 5
        assert np.count_nonzero(rows) > 9000


def test_position_bias_is_gaussian_over_users():
    bias = make_crowd(40_000, 2, 1, **INDEPENDENT, order_effect=(0.7, 0.2), random_state=0).position_bias
    assert_variance(bias, 0.04, 0.7)
    assert make_crowd(5, order_effect=(-0.3, 0.0)).position_bias.tolist() == [-0.3] * 5
    assert not make_crowd(5).position_bias.any()


def test_position_bias_moves_the_labels_to_the_left():
    data = make_crowd(4, 30, 40_000, order_effect=(1.0, 0.5), random_state=0)
    user = data.comparisons[:, 0]
    p = ndtr(signal(data) + data.position_bias[user])
    for u in range(4):
        rows = user == u
        assert abs(z_score(data.y[rows], p[rows])) < 5
    assert z_score(data.y, ndtr(signal(data))) > 20  # not the model without the bias


def test_random_users_toss_coins():
    spoilt = {"share_random": 0.5, "order_effect": (2.0, 0.0)}
    data = make_crowd(20, 30, 40_000, scale=0.1, random_state=0, **spoilt)
    user = data.comparisons[:, 0]
    coin = data.random_users[user]
    half = np.full(np.count_nonzero(coin), 0.5)
    for weight in (1.0, signal(data)[coin]):  # neither a side nor an item draws them
        assert abs(z_score(data.y[coin], half, weight)) < 5
    p = ndtr(signal(data) + data.position_bias[user])[~coin]
    assert abs(z_score(data.y[~coin], p)) < 5
    errorless = make_crowd(20, 30, 4000, scale=0.1, noise=0.0, random_state=0, share_random=0.5)
    coin = errorless.random_users[errorless.comparisons[:, 0]]
    assert abs(z_score(errorless.y[coin], np.full(np.count_nonzero(coin), 0.5))) < 5


def test_random_users_are_any_users():
    # How often each of 10 users is among the 3: 0.3 with a standard error of 0.0145 over 1000 crowds.
    often = np.mean(
        [make_crowd(10, 2, 1, 0, 0, 0, share_random=0.3, random_state=i).random_users for i in range(1000)], 0
    )
    assert np.abs(often - 0.3).max() < 5 * np.sqrt(0.21 / 1000)


def test_ties_are_the_closest_answers():
    plain, tied = (make_crowd(10, 20, 2000, noise=0.0, ties=ties, random_state=0) for ties in (0.0, 0.25))
    tie = tied.y == 0.5
    assert np.count_nonzero(tie) == 500
    np.testing.assert_array_equal(tied.y[~tie], plain.y[~tie])
    assert np.abs(signal(tied)[tie]).max() <= np.abs(signal(tied)[~tie]).min()


# ------------------------------------------------------------------------------------------ what it is to be used for


# ------------------------------------------------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_users": 0}, "n_users must be at least 1, got 0"),
        ({"n_items": 1}, "n_items must be at least 2, got 1"),
        ({"n_comparisons": 0}, "n_comparisons must be at least 1, got 0"),
        ({"n_factors": -1}, "n_factors must be at least 0, got -1"),
        ({"n_features": -1}, "n_features must be at least 0, got -1"),
        ({"n_user_features": -1}, "n_user_features must be at least 0, got -1"),
        ({"item_features": [[1.0]]}, r"a minimum of 2 is required by make_crowd"),
        ({"item_features": [[1.0], [np.nan]]}, "Input item_features contains NaN"),
        ({"user_features": [1.0, 2.0]}, "Expected 2D array, got 1D array"),
        ({"length_scale": [1.0, 1.0, 1.0]}, r"length_scale must be positive, one number or 2, got \[1\.0, 1\.0"),
        ({"user_length_scale": [-1.0, 1.0]}, "user_length_scale must be positive"),
        ({"scale": "a"}, "scale must be positive, one number or 1, got 'a'"),
        ({"noise": 1e308}, r"noise must be from 0 to 1e\+100, one number or .*, got 1e\+308"),
        ({"order_effect": (1e308, 0.0)}, r"order_effect must be two numbers up to 1e\+100, a mean"),
        ({"order_effect": "a"}, r"order_effect must be two numbers .*, got 'a'"),
        ({"share_random": "a"}, r"share_random must be a share in \[0, 1\], got 'a'"),
        ({"factor_scale": [1.0]}, r"factor_scale must be positive, one number or 2, got \[1\.0\]"),
        ({"user_factor_scale": [1.0, 0.0]}, "user_factor_scale must be positive, one number or 2"),
        ({"noise": -1.0}, r"noise must be from 0 to 1e\+100, one number or 50, one per user, got -1\.0"),
        ({"noise": [1.0, 2.0]}, r"noise must be from 0 to 1e\+100, one number or 50"),
        ({"ties": 1.5}, r"ties must be a share in \[0, 1\], got 1.5"),
        ({"share_random": -0.1}, r"share_random must be a share in \[0, 1\], got -0.1"),
        ({"order_effect": (0.0, -1.0)}, r"order_effect must be two numbers .* got \(0\.0, -1\.0\)"),
        ({"order_effect": 0.5}, r"order_effect must be two numbers up to 1e\+100, a mean and a standard deviation >="),
        ({"comparisons_per_user": 0}, "comparisons_per_user must be integers >= 0, .* and not all 0, got 0"),
        ({"n_users": 2, "comparisons_per_user": [5, -1]}, r"comparisons_per_user must be integers >= 0, .* got \[5"),
        ({"comparisons_per_user": 1.5}, "comparisons_per_user must be integers"),
        ({"comparisons_per_user": [1, 2]}, r"comparisons_per_user must be integers .* got \[1, 2\]"),
    ],
)
def test_crowd_refuses(arguments, message):
    with pytest.raises(ValueError, match=message) as caught:
        make_crowd(**arguments)
    if not {"item_features", "user_features"} & set(arguments):
        assert isinstance(caught.value, DataError)


def test_long_arguments_make_no_long_message():
    with pytest.raises(DataError) as caught:
        make_crowd(3, noise=[1.0] * 100_000)
    assert len(str(caught.value)) < 300
