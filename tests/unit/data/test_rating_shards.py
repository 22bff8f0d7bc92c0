"""Reading ratings of a shard: ids and levels by numbers, rows named in messages, what all shards agree on."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skpref._sources import as_source
from skpref.data import Ratings
from skpref.data.shards import RatingColumns, RatingCounts, levels_of_all, rating_columns, read_rating_shard
from skpref.exceptions import DataError
from tests.policies import set_policy

pandas = pytest.importorskip("pandas")
pyarrow = pytest.importorskip("pyarrow")
USERS, ITEMS, STARS = ["bob", "ann", "bob", "cleo"], [7, 7, 5, 9], [4.0, 1.0, 2.0, 4.0]


def read_shard(users, items, y, weight, levels, start=0):
    return read_rating_shard({"user": users, "item": items}, y, weight, start, ("user", "item"), levels)


@pytest.mark.parametrize(
    "column",
    [lambda ids: ids, np.array, pandas.Series, lambda ids: pandas.Series(ids, dtype="category"), pyarrow.array],
)
def test_ids_and_levels_become_numbers(column):
    summary, rows = read_shard(column(USERS), column(ITEMS), STARS, None, None)
    assert summary.users[rows.user].tolist() == USERS
    assert summary.items[rows.item].tolist() == ITEMS
    assert summary.levels[rows.level].tolist() == STARS
    assert (summary.user_counts.tolist(), summary.item_counts.tolist()) == ([1, 2, 1], [1, 2, 1])
    assert (rows.user.dtype, rows.item.dtype, rows.level.dtype, rows.weight) == (np.int32, np.int32, np.int16, None)


@pytest.mark.parametrize("column", [np.array, lambda ids: pandas.Series(ids, dtype="category")])
def test_rows_of_weight_zero_do_not_count(column):
    summary, rows = read_shard(column(USERS), column(ITEMS), pandas.Series(STARS), [1, 0, 2, 0], None)
    assert (summary.users.tolist(), summary.items.tolist(), summary.levels.tolist()) == (["bob"], [5, 7], [2.0, 4.0])
    assert (summary.n_rows, rows.weight.tolist()) == (2, [1.0, 2.0])
    nothing, _ = read_shard(USERS, ITEMS, STARS, np.zeros(4), [1, 2])
    assert nothing.n_rows == nothing.users.size == 0


def test_messages_name_the_row():
    with pytest.raises(DataError, match=r"y holds 4.0 \(user 'bob', item 7, row 100, and 1 more\), .*levels 1..3"):
        read_shard(USERS, ITEMS, STARS, None, [1, 2, 3], 100)
    with pytest.raises(DataError, match=r"Input y contains NaN \(user 'cleo', item 9, row 3\)"):
        read_shard(USERS, ITEMS, [1.0, 2.0, 3.0, np.nan], [1, 0, 1, 1], None)
    with pytest.raises(DataError, match="column 'user', row 1: a user id is missing"):
        read_shard(pyarrow.array(["ann", None]), pyarrow.array([1, 2]), [1, 2], None, None)
    with pytest.raises(DataError, match="there are 4 users and items, and 3 ratings"):
        read_shard(USERS, ITEMS, STARS[:3], None, None)
    with pytest.raises(DataError, match=r"y has 1500 distinct values, more than the 1000 levels"):
        read_shard(np.arange(1500), np.arange(1500), np.arange(1500), None, None)


def summaries(*ratings, levels=None):
    return [read_shard(np.arange(len(y)), np.arange(len(y)), y, None, levels)[0] for y in ratings]


def test_levels_are_those_of_all_shards():
    assert levels_of_all(summaries([3, 3], [1], [], [5, 3])).tolist() == [1, 3, 5]
    assert levels_of_all(summaries([3, 3], [], levels=[1, 2, 3])).tolist() == [1, 2, 3]
    words = [pandas.Categorical(["low"], ["low", "high"], ordered=True), pandas.Categorical(["a"], ["a"], ordered=True)]
    assert levels_of_all(summaries(words[0], words[0])).tolist() == ["low", "high"]
    for wrong, message in (
        (summaries([3], [3, 3]), "at least 2 levels of ratings are needed; got 1 class: every rating is 3"),
        (summaries([], []), r"Found array with 0 sample\(s\)"),
        (summaries(*words), r"y holds \['low', 'high'\] in one shard and \['a'\] in another: list all levels"),
    ):
        with pytest.raises(DataError, match=message):
            levels_of_all(wrong)


def test_columns_are_checked_by_name():
    names = ["user", "item", "stars", "times"]
    columns = RatingColumns("user", "item", "stars", "times")
    assert rating_columns(names, columns) == columns
    for wrong, message in (
        (columns._replace(y="star"), "no column 'star' in X, which has the columns user, item, stars, times; name it"),
        (columns._replace(item="user"), "must be different columns of X; got user, user, stars, times"),
        (columns._replace(weight=np.ones(3)), "sample_weight must be the name of a column .* got ndarray"),
    ):
        with pytest.raises(DataError, match=message):
            rating_columns(names, wrong)


def test_a_dataset_is_read_in_runs_that_messages_name(tmp_path, monkeypatch):
    set_policy(monkeypatch, "data", batch_rows=3)
    stars = pandas.Categorical(["good", "bad", "fair", "good"], ["bad", "fair", "good"], ordered=True)
    frame = pandas.DataFrame({"who": USERS, "what": ITEMS, "y": stars})
    frame.to_parquet(tmp_path / "ratings.parquet")

    def read(levels):
        rows = as_source(tmp_path / "ratings.parquet", "y", None).rows(["who", "what"], "y", None)
        return list(rows.collect(read_rating_shard, ("who", "what"), levels))

    (first, _), (second, rows) = read(None)
    assert first.levels.tolist() == second.levels.tolist() == ["bad", "fair", "good"]
    assert (second.users.tolist(), rows.level.tolist()) == (["cleo"], [2])
    frame.assign(y=[1, 2, 1, 4]).to_parquet(tmp_path / "ratings.parquet")
    with pytest.raises(DataError, match=r"y holds 4 \(user .*, row 3\), .*levels 1, 2\. .* \(rows 3 to 3 of X\)"):
        read([1, 2])


def test_counts_are_what_is_left_of_ratings():
    counts = RatingCounts(2, 3, 5, 10)
    counts.validate()
    more = Ratings(np.array([2]), np.array([0]), np.array([1]), np.ones(1), 3, 3, 5)
    assert vars(counts.followed_by(more)) == {"n_users": 3, "n_items": 3, "n_levels": 5, "size": 11}
    with pytest.raises(DataError, match=r"RatingCounts.size must be a whole number"):
        RatingCounts(2, 3, 5, -1).validate()
    assert_array_equal([counts.n_users, counts.size], [2, 10])
