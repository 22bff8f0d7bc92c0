import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.exceptions import DataConversionWarning

from skpref.data.columns import read_ids
from skpref.data.levels import format_levels
from skpref.data.ratings import Ratings, fingerprint, from_matrix, rating_levels
from skpref.exceptions import DataError
from tests.policies import set_policy

IDS = ["ann", "bob", "cleo"]


def ratings(rows, n_users=4, n_items=5, n_levels=6):
    columns = np.array(rows, dtype=np.float64).reshape(-1, 4)
    user, item, level = columns[:, :3].T.astype(np.int64)
    return Ratings(user, item, level, columns[:, 3], n_users, n_items, n_levels)


def as_rows(r):
    return [tuple(map(float, row)) for row in zip(r.user, r.item, r.level, r.weight, strict=True)]


ROWS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 4), st.integers(0, 5), st.sampled_from([0.0, 0.5, 1.0, 2.0])),
    max_size=40,
)


def by_pair(rows):
    """Ratings of each pair in the order given, those of weight zero left out."""
    pairs = {}
    for user, item, level, weight in rows:
        if weight:
            pairs.setdefault((user, item), []).append((level, weight))
    return dict(sorted(pairs.items()))


@given(ROWS)
def test_merging_by_the_last(rows):
    wanted = [(u, i, *given[-1]) for (u, i), given in by_pair(rows).items()]
    assert as_rows(ratings(rows).merged("last")) == wanted


@given(ROWS)
def test_merging_by_the_mean(rows):
    wanted = []
    for (u, i), pairs in by_pair(rows).items():
        level, weight = np.array(pairs).T
        wanted.append((u, i, np.floor((level @ weight) / weight.sum() + 0.5), weight.sum()))
    assert as_rows(ratings(rows).merged("mean")) == wanted


@given(ROWS)
def test_differing_duplicates_are_refused_and_equal_ones_add_up(rows):
    pairs = by_pair(rows)
    if any(len({level for level, _ in given}) > 1 for given in pairs.values()):
        with pytest.raises(DataError, match="duplicate ratings that differ"):
            ratings(rows).merged()
    else:
        wanted = [(u, i, given[0][0], sum(w for _, w in given)) for (u, i), given in pairs.items()]
        assert as_rows(ratings(rows).merged()) == wanted


@given(ROWS)
def test_both_orders_hold_the_same_ratings(rows):
    merged = ratings(rows).merged("last")
    users, items = merged.by_user(), merged.by_item()
    assert users.start.size == 5
    assert items.start.size == 6
    row = np.repeat(np.arange(5), np.diff(items.start))
    np.testing.assert_array_equal(row, merged.item[items.position])
    np.testing.assert_array_equal(items.column, merged.user[items.position])
    np.testing.assert_array_equal(items.level, merged.level[items.position])
    np.testing.assert_array_equal(items.weight, merged.weight[items.position])
    np.testing.assert_array_equal(np.sort(items.position), np.arange(merged.size))
    np.testing.assert_array_equal(np.repeat(np.arange(4), np.diff(users.start)), merged.user)
    np.testing.assert_array_equal(users.column, merged.item)


def test_the_message_names_user_item_and_ratings():
    twice = ratings([(2, 1, 3, 1), (0, 0, 1, 1), (2, 1, 0, 1)])
    with pytest.raises(DataError, match=r"user 'cleo' rated item 11 2 times: 4, 1; keep one .* duplicates='mean'"):
        twice.merged("error", (np.array([*IDS, "dan"], object), np.arange(10, 15), np.arange(1, 7)))


def test_ratings_are_checked_and_frozen():
    good = ratings([(0, 0, 0, 1)])
    with pytest.raises(ValueError, match="read-only"):
        good.level[0] = 2
    for row, message in (
        ((4, 0, 0, 1), "user must lie in 0..3"),
        ((0, -1, 0, 1), "item must lie in 0..4"),
        ((0, 0, 6, 1), "level must lie in 0..5"),
        ((0, 0, 0, -1), "Negative values in data passed to `sample_weight`: -1 in row 0"),
        ((0, 0, 0, np.nan), "sample_weight contains NaN"),
        ((0, 0, 0, np.inf), "sample_weight contains infinity"),
    ):
        with pytest.raises(DataError, match=message):
            ratings([row])
    with pytest.raises(DataError, match="more than the maximum of 2147483647"):
        ratings([(0, 0, 0, 1)], n_users=2**31)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        Ratings(np.zeros(2, int), np.zeros(1, int), np.zeros(1, int), np.ones(1), 1, 1, 2)


# --------------------------------------------------------------------------
# levels


@pytest.mark.parametrize(
    ("y", "declared", "levels", "numbers"),
    [
        ([5, 3, 4], None, [3, 4, 5], [2, 0, 1]),
        ([0.5, 4.5, 3.0], None, [0.5, 3.0, 4.5], [0, 2, 1]),
        ([5, 3, 3], [1, 2, 3, 4, 5], [1, 2, 3, 4, 5], [4, 2, 2]),
        ([5.0, 3.0, 3.0], range(1, 6), [1, 2, 3, 4, 5], [4, 2, 2]),
        (["good", "bad", "bad"], ["bad", "good"], ["bad", "good"], [1, 0, 0]),
        ([True, False, True], None, [False, True], [1, 0, 1]),
        (np.array([2, 1, 2], dtype=object), None, [1, 2], [1, 0, 1]),
    ],
)
def test_levels(y, declared, levels, numbers):
    found, level = rating_levels(y, declared, IDS, IDS)
    assert found.tolist() == levels
    assert level.tolist() == numbers


def test_levels_of_a_categorical():
    pd = pytest.importorskip("pandas")
    y = pd.Series(pd.Categorical(["low", "high", "low"], ["low", "mid", "high"], ordered=True))
    for given_y in (y, y.array):
        levels, level = rating_levels(given_y, None, IDS, IDS)
        assert levels.tolist() == ["low", "mid", "high"]
        assert level.tolist() == [0, 2, 0]
    with pytest.raises(DataError, match="no natural order"):
        rating_levels(y.cat.as_unordered(), None, IDS, IDS)


@pytest.mark.parametrize(
    ("y", "declared", "message"),
    [
        ([1, 7, 2], [1, 2, 3, 4, 5], r"y holds 7 \(user 'bob', item 'bob', row 1\), .* 1\.\.5\. Name all levels in"),
        ([0, 1, 2], [1, 2, 3, 4, 5], r"y holds 0 \(user 'ann', item 'ann', row 0\), .*levels 1\.\.5"),
        ([0, 0, 2], [1, 2], r"row 0, and 1 more\), which"),
        ([1.5, 1, 2], [1, 2], r"y holds 1\.5 .*not among the levels 1, 2\."),
        ([1, np.inf, 2], None, r"infinite rating \(user 'bob', item 'bob', row 1\)"),
        ([1, 2, np.nan], [1, 2], r"Input y contains NaN \(user 'cleo', item 'cleo', row 2\)"),
        ([1, None, 2], None, r"Input y contains NaN \(user 'bob', item 'bob', row 1\)"),
        (["a", "b", "c"], None, "no natural order"),
        (["a", "b", "c"], ["a", "b"], r"y holds 'c' .*not among the levels 'a', 'b'"),
        ([3, 3, 3], None, "at least 2 levels of ratings are needed; got 1 class: every rating is 3"),
        ([3, 3, 3], [3], "at least 2 levels"),
        ([1, 2, 1], [1, 2, 2], "levels must list every level once"),
        ([1, 2, 1], [2, 1], "levels must be in ascending order"),
        ([1j, 2, 3], None, "Complex data not supported"),
        (np.ones((3, 2)), None, "y should be a 1d array"),
        ([1, 2], None, "inconsistent numbers of samples"),
        (None, None, "the target y is None"),
    ],
)
def test_levels_that_cannot_be_used(y, declared, message):
    with pytest.raises(ValueError, match=message):
        rating_levels(y, declared, IDS, IDS)


def test_too_many_levels():
    n = np.arange(2000)
    with pytest.raises(DataError, match="2000 distinct values"):
        rating_levels(n * 0.1, None, n, n)


def test_spelt():
    assert format_levels(np.array([1.0, 2.0, 3.0])) == "1..3"
    assert format_levels(np.array(["a", "b"])) == "a, b"
    assert format_levels(np.arange(0, 40, 2)).endswith("18, ...")
    assert format_levels(np.arange(0, 22, 2)).endswith(", 18, ...")
    assert format_levels(np.arange(0, 20, 2)).endswith(", 16, 18")


# --------------------------------------------------------------------------
# ids and matrices


def read_rated(X):
    return read_ids(X, ("user", "item"), noun="rating")


def test_columns_of_ids():
    user, item = read_rated([("ann", 7), ("bob", 7.0)])
    assert user.tolist() == ["ann", "bob"]
    assert item.tolist() == [7, 7]


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([[1, 2, 3]], r"X holds ratings and has shape \(1, 3\), expected shape \(n_ratings, 2\)"),
        ([1, 2], "Expected 2D array, got 1D array"),
        (np.zeros((0, 2)), r"Found array with 0 sample\(s\).*at least 1 rating is required"),
        ([(None, 2)], "missing user id in rating 0"),
        ([(1, np.nan)], "missing item id in rating 0"),
        ([(1, 1.5)], "numeric item ids must be integers"),
    ],
)
def test_columns_that_are_none(X, message):
    with pytest.raises(DataError, match=message):
        read_rated(X)


def test_a_sparse_matrix_is_told_where_to_go():
    with pytest.raises(TypeError, match=r"Sparse data was passed.*from_matrix"):
        read_rated(sparse.csr_array(np.eye(2)))


@pytest.mark.parametrize("form", [sparse.csr_array, sparse.csc_matrix, sparse.coo_array, sparse.lil_array])
def test_matrix(form):
    dense = np.array([[5.0, 0.0, 1.0], [0.0, 2.0, 0.0]])
    X, y = from_matrix(form(dense))
    assert sorted(zip(*X.T.tolist(), y.tolist(), strict=True)) == [(0, 0, 5.0), (0, 2, 1.0), (1, 1, 2.0)]
    X, y = from_matrix(np.where(dense == 0.0, np.nan, dense), users=["ann", "bob"])
    assert X.tolist() == [["ann", 0], ["ann", 2], ["bob", 1]]
    assert y.tolist() == [5.0, 1.0, 2.0]


def test_matrix_with_unsorted_and_wide_indices():
    data, indices, start = np.array([1.0, 5.0, 2.0]), np.array([2, 0, 1], dtype=np.int64), np.array([0, 2, 3])
    X, y = from_matrix(sparse.csr_array((data, indices, start), shape=(2, 3)))
    assert sorted(zip(*X.T.tolist(), y.tolist(), strict=True)) == [(0, 0, 5.0), (0, 2, 1.0), (1, 1, 2.0)]


def test_matrices_that_cannot_be_read():
    with pytest.raises(DataError, match="explicit zero in row 0, column 1"):
        from_matrix(sparse.csr_array((np.array([3.0, 0.0]), np.array([0, 1]), np.array([0, 2])), shape=(1, 2)))
    with pytest.raises(DataError, match="stores an entry twice"):
        from_matrix(sparse.coo_array((np.array([3.0, 4.0]), (np.array([0, 0]), np.array([1, 1]))), shape=(1, 2)))
    with pytest.raises(DataError, match="users must have one id for each of the 1 users of the matrix; got 2 ids"):
        from_matrix([[1.0, 2.0]], users=["a", "b"])
    with pytest.raises(DataError, match="Expected 2D array"):
        from_matrix([1.0, 2.0])
    with pytest.raises(DataError, match="Complex data not supported"):
        from_matrix([[1.0 + 2.0j]])
    with pytest.raises(DataError, match="an integer that is too large"):
        from_matrix([[10**400]])
    assert from_matrix(np.ma.array([[1.0, 2.0]], mask=[[0, 1]], dtype=np.float16))[1].tolist() == [1.0]


def test_a_frame_of_categories_with_a_missing_one():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": [1, 2], "b": [2, 3]}, dtype="int8").astype("category")
    frame.iloc[-1, -1] = None
    _, y = from_matrix(frame)[:2]
    assert list(y) == [1.0, 2.0, 2.0]


def test_ids_of_a_matrix_keep_their_kinds():
    stars = [[5.0, np.nan], [np.nan, 3.0]]
    for users, items in (([7, 8], ["x", "y"]), (["ann", "bob"], [1, 2])):
        X, y = from_matrix(stars, users, items)
        assert X.dtype == object
        assert X.tolist() == [[users[0], items[0]], [users[1], items[1]]]
        assert y.tolist() == [5.0, 3.0]
    assert from_matrix(stars, [7, 8], [1, 2])[0].dtype.kind == "i"


@pytest.mark.parametrize(("n", "shown"), [(2, "0, 1"), (5, "0, 1, 2, 0, 1"), (6, "0, 1, 2, 0, 1")])
def test_five_of_several_ratings_are_shown(n, shown):
    user, level = np.append(np.zeros(n, dtype=np.int64), [1, 1]), np.append(np.arange(n) % 3, [0, 2])
    ratings = Ratings(user, np.zeros(n + 2, dtype=np.int64), level, np.ones(n + 2), 2, 1, 3)
    text = rf"user 0 rated item 0 {n} times: {shown} \(and 1 more such pairs\); keep one"
    with pytest.raises(DataError, match=text):
        ratings.merged("error")


def test_a_fingerprint_is_of_the_ratings_in_any_order_and_of_nothing_else():
    rng = np.random.default_rng(0)
    columns = [rng.integers(0, 5, 40), rng.integers(0, 7, 40), rng.integers(0, 3, 40), rng.random(40)]
    whole = fingerprint(*columns)
    order = rng.permutation(40)
    np.testing.assert_array_equal(fingerprint(*(column[order] for column in columns)), whole)
    parts = [fingerprint(*(column[rows] for column in columns)) for rows in (slice(13), slice(13, None))]
    np.testing.assert_array_equal(parts[0] + parts[1], whole)
    np.testing.assert_array_equal(fingerprint(*(column.astype(np.int32) for column in columns[:3]), columns[3]), whole)
    for number in range(4):
        for row in (0, 39):
            changed = [column.copy() for column in columns]
            changed[number][row] += 1
            assert (fingerprint(*changed) != whole).all()
    exchanged = [columns[1], columns[0], *columns[2:]]
    assert (fingerprint(*exchanged) != whole).all()


def test_a_fingerprint_of_many_rows_adds_their_runs_up(monkeypatch):
    columns = np.arange(10), np.arange(10.0)
    whole = fingerprint(*columns)
    set_policy(monkeypatch, "data", rows_at_once=3)
    np.testing.assert_array_equal(fingerprint(*columns), whole)


def test_ratings_in_a_column_are_taken_with_the_warning_of_scikit_learn():
    ids = np.arange(3)
    with pytest.warns(DataConversionWarning, match="column-vector y"):
        ordered, level = rating_levels(np.array([[1], [5], [2]]), None, ids, ids)
    assert (ordered.tolist(), level.tolist()) == ([1, 2, 5], [0, 2, 1])
