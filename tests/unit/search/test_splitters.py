"""Splitters of users: everyone who is tested has other rows to learn from, and one answer is never on both sides."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.model_selection import cross_val_score

from skpref import GibbsM3F
from skpref.exceptions import DataError
from skpref.search import WithinUserKFold, WithinUserShuffleSplit

USERS = st.lists(st.integers(0, 5), min_size=2, max_size=40)
TRIPLES = st.lists(
    st.tuples(st.sampled_from("uvwxyz"), st.integers(0, 4), st.integers(0, 4)).filter(lambda row: row[1] != row[2]),
    min_size=2,
    max_size=60,
)


def rated(users):
    return np.column_stack([users, np.arange(len(users))])


def compared(rows):
    return np.array(rows, dtype=object)


def units(X, rows):
    return {(user, frozenset(pair)) for user, *pair in X[rows].tolist()}


def pairs_of_users(rows):
    return {user: {frozenset(row[1:]) for row in rows if row[0] == user} for user in {row[0] for row in rows}}


def assert_honest(X, train, test):
    assert sorted([*train, *test]) == list(range(len(X)))
    assert test.size
    assert set(X[test, 0]) <= set(X[train, 0])  # every tested user has other rows
    if X.shape[1] == 3:
        assert not units(X, train) & units(X, test)  # but never about the same pair


# -------------------------------------------------------------------------------------------------------------- ratings
@given(USERS, st.floats(0.0, 0.5), st.integers(0, 9))
def test_a_hold_out_has_a_share_of_each_users_ratings(users, share, seed):
    X, count = rated(users), np.bincount(users)
    splitter = WithinUserShuffleSplit(test_size=share, random_state=seed)
    if (count < 2).all():
        with pytest.raises(DataError, match="every user has one rating; a hold-out needs users with two"):
            next(splitter.split(X))
        return
    ((train, test),) = splitter.split(X)
    assert_honest(X, train, test)
    held = np.bincount(X[test, 0], minlength=count.size)
    for n, out in zip(count.tolist(), held.tolist(), strict=True):
        assert out == (0 if n < 2 else min(max(int(share * n + 0.5), 1), n - 1))
    assert np.array_equal(next(splitter.split(X))[1], test)


@given(USERS, st.integers(2, 5), st.integers(0, 9))
def test_folds_test_every_rating_of_users_with_others_once(users, n_folds, seed):
    X, count = rated(users), np.bincount(users)
    splitter = WithinUserKFold(n_folds, random_state=seed)
    if (count < 2).all():
        with pytest.raises(DataError, match="every user has one rating"):
            list(splitter.split(X))
        return
    parts = list(splitter.split(X))
    assert splitter.get_n_splits(X) == len(parts) <= n_folds == splitter.get_n_splits()
    for train, test in parts:
        assert_honest(X, train, test)
    tested = np.sort(np.concatenate([test for _, test in parts]))
    assert np.array_equal(tested, np.flatnonzero(count[users] > 1))


# ---------------------------------------------------------------------------------------------------------- comparisons
@given(TRIPLES, st.floats(0.05, 0.5), st.integers(0, 9))
def test_a_hold_out_of_comparisons_is_honest(rows, share, seed):
    pairs, X = pairs_of_users(rows), compared(rows)
    splitter = WithinUserShuffleSplit(test_size=share, random_state=seed)
    if all(len(of_user) == 1 for of_user in pairs.values()):
        with pytest.raises(DataError, match=r"every user compared one pair of items; .* pass them as groups"):
            next(splitter.split(X))
        return
    train, test = next(splitter.split(X))
    assert_honest(X, train, test)
    n_units = sum(map(len, pairs.values()))
    assert len(units(X, test)) == min(max(1, round(share * n_units)), n_units - len(pairs))
    assert np.array_equal(next(splitter.split(X))[1], test)


@given(TRIPLES, st.integers(2, 5), st.integers(0, 9))
def test_folds_of_comparisons_are_honest(rows, n_folds, seed):
    pairs, X = pairs_of_users(rows), compared(rows)
    assume(any(len(of_user) > 1 for of_user in pairs.values()))
    parts = list(WithinUserKFold(n_folds, random_state=seed).split(X))
    assert 1 <= len(parts) <= n_folds
    for train, test in parts:
        assert_honest(X, train, test)
    tested = np.concatenate([test for _, test in parts])
    assert len(set(tested.tolist())) == tested.size
    assert set(tested.tolist()) == {k for k, row in enumerate(rows) if len(pairs[row[0]]) > 1}


def test_folds_are_of_equal_size():
    rng = np.random.default_rng(0)
    rows = [(f"u{k % 30}", *sorted(rng.choice(400, 2, replace=False).tolist())) for k in range(1200)]
    assert min(len(test) for _, test in WithinUserKFold(4, random_state=0).split(compared(rows))) > 250


# ------------------------------------------------------------------------------------------------------------ splitters
def test_hold_outs_differ_and_a_generator_is_drawn_from():
    X = rated(np.repeat(np.arange(6), 10).tolist())
    splitter = WithinUserShuffleSplit(3, random_state=0)
    tests = [test.tolist() for _, test in splitter.split(X)]
    assert splitter.get_n_splits() == len(tests) == 3
    assert tests[0] != tests[1] != tests[2]
    rng = np.random.default_rng(0)
    one, two = (next(WithinUserShuffleSplit(random_state=rng).split(X))[1].tolist() for _ in range(2))
    assert one == tests[0]
    assert one != two


def test_they_work_with_scikit_learn():
    rng = np.random.default_rng(0)
    X = np.array([(u, i) for u in range(10) for i in rng.choice(8, 5, replace=False)])
    model = GibbsM3F(2, max_iter=4, burn_in=1, random_state=0)
    assert cross_val_score(model, X, X[:, 1] // 2, cv=WithinUserKFold(3, random_state=0)).shape == (3,)
    assert repr(WithinUserKFold(3)) == "WithinUserKFold(n_splits=3, random_state=None)"


@pytest.mark.parametrize(
    ("splitter", "X", "message"),
    [
        (WithinUserKFold(1), np.zeros((4, 2)), "n_splits must be at least 2, got 1; for one split"),
        (WithinUserKFold(), np.zeros((4, 4)), r"X has shape \(4, 4\); wanted columns user, item or user, left, right"),
        (WithinUserShuffleSplit(test_size=1.5), np.zeros((4, 2)), "test_size must be a share from 0 to 1.*got 1.5"),
    ],
)
def test_what_cannot_be_split(splitter, X, message):
    with pytest.raises(DataError, match=message):
        list(splitter.split(X))
