"""Ratings in Parquet files: the bits of the same ratings in memory, for any shards; what needs memory is refused."""

import copy
import pickle
import tempfile

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import skpref
from skpref import Checkpoint, GibbsM3F
from skpref.exceptions import DataError, UnknownIdError
from skpref.factorization.max_margin import sharded
from tests.policies import set_policy

pandas = pytest.importorskip("pandas")
FAST = {"n_factors": 3, "C": 0.5, "max_iter": 6, "burn_in": 2, "random_state": 0}


def ratings(seed=0, n=400):
    """Return ratings of 30 users, strings, and 20 items, integers, in any order."""
    rng = np.random.default_rng(seed)
    cell = rng.permutation(600)[:n]
    columns = {"user": [f"user {k}" for k in cell // 20], "item": cell % 20}
    return pandas.DataFrame({**columns, "y": rng.integers(1, 6, n), "times": rng.integers(0, 3, n).astype(float)})


FRAME = ratings()
X = FRAME[["user", "item"]]


@pytest.fixture(autouse=True)
def _small_shards(monkeypatch):
    set_policy(monkeypatch, "data", batch_rows=90)
    set_policy(monkeypatch, "factorization", shard_ratings=150)


@pytest.fixture
def path(tmp_path):
    FRAME.to_parquet(tmp_path / "ratings.parquet")
    return tmp_path / "ratings.parquet"


def numbers(model):
    posterior = model.posterior_
    tables = *posterior.average, *posterior.last, *posterior.samples
    return [*tables, posterior.calibration.log_weights, model.temperature_, model.risks_, model.risk_, model.r_hat_]


def assert_same_bits(model, wanted):
    for a, b in zip(numbers(model), numbers(wanted), strict=True):
        assert_array_equal(a, b)
    for name in ("user_ids_", "item_ids_", "classes_", "feature_names_in_", "n_features_in_", "thresholds_"):
        assert_array_equal(getattr(model, name), getattr(wanted, name))


@pytest.mark.parametrize(
    ("options", "weight"),
    [
        ({"dtype": "float32", "n_chains": 2, "max_iter": 5}, "times"),
        ({"user_thresholds": False}, "times"),
        ({"threshold_means": "symmetric", "n_factors": 30}, None),
        ({"levels": [0, 1, 2, 3, 4, 5]}, None),
    ],
    ids=["float32", "shared thresholds", "many factors", "levels"],
)
def test_the_bits_are_those_of_a_fit_in_memory(path, options, weight):
    wanted = GibbsM3F(**FAST | options).fit(X, FRAME.y, None if weight is None else FRAME[weight])
    assert_same_bits(GibbsM3F(**FAST | options).fit(path, "y", weight), wanted)


def test_the_shards_change_no_bit(path, monkeypatch):
    wanted = GibbsM3F(**FAST).fit(path)
    set_policy(monkeypatch, "data", batch_rows=1000)
    set_policy(monkeypatch, "factorization", shard_ratings=20)  # a user or an item in each
    assert_same_bits(GibbsM3F(**FAST).fit(path), wanted)


@pytest.mark.parametrize("duplicates", ["mean", "last"])
def test_ratings_of_the_same_pair_are_merged_in_their_order(tmp_path, duplicates):
    table = pandas.concat([FRAME, ratings(1).assign(user=FRAME.user, item=FRAME.item)])
    table.to_parquet(tmp_path / "ratings.parquet")
    model = GibbsM3F(duplicates=duplicates, **FAST).fit(tmp_path, "y", "times")
    assert_same_bits(model, GibbsM3F(duplicates=duplicates, **FAST).fit(table[["user", "item"]], table.y, table.times))
    message = r"duplicate ratings that differ: user 'user \d+' rated item \d+ 2 times"
    with pytest.raises(DataError, match=message):
        GibbsM3F(**FAST).fit(tmp_path)


def test_a_folder_and_named_columns(tmp_path):
    named = FRAME.rename(columns={"user": "userId", "item": "movieId", "y": "rating"})
    for number, part in enumerate((named.iloc[:100], named.iloc[100:100], named.iloc[100:])):
        part.to_parquet(tmp_path / f"{number}.parquet")
    model = GibbsM3F(user="userId", item="movieId", **FAST).fit(str(tmp_path), "rating")
    in_memory = GibbsM3F(user="userId", item="movieId", **FAST).fit(named, named.rating)
    assert_same_bits(model, in_memory)
    assert model.feature_names_in_.tolist() == ["userId", "movieId"]
    assert_array_equal(model.predict(named), in_memory.predict(named[["userId", "movieId"]]))
    with pytest.raises(DataError, match="there is no column 'userId' in X, which has the columns user, item"):
        model.predict(X)


def test_predictions_new_users_and_saving(path, tmp_path):
    model, wanted = GibbsM3F(**FAST).fit(path), GibbsM3F(**FAST).fit(X, FRAME.y)
    newcomer = pandas.DataFrame({"user": ["new", "new"], "item": [3, 4]})
    skpref.save(model, tmp_path / "m.skpref")
    for other in (model, skpref.load(tmp_path / "m.skpref"), pickle.loads(pickle.dumps(model))):
        assert_array_equal(other.predict_proba(X), wanted.predict_proba(X))
        best = (m.recommend("user 3", exclude_seen=False) for m in (other, wanted))
        pandas.testing.assert_frame_equal(*best)
        other.fold_in(newcomer, [5, 1])
    wanted.fold_in(newcomer, [5, 1])
    assert_array_equal(model.predict_proba(newcomer), wanted.predict_proba(newcomer))
    skpref.save(model, tmp_path / "m.skpref")
    assert_array_equal(skpref.load(tmp_path / "m.skpref").predict(X), wanted.predict(X))


def test_what_needs_the_ratings_is_refused(path):
    model = GibbsM3F(**FAST).fit(path)
    with pytest.raises(DataError, match=r"partial_fit needs the ratings of the fit, and a fit to files .* keeps none"):
        model.partial_fit(X, FRAME.y)
    with pytest.raises(DataError, match=r"exclude_seen=True needs the ratings .*: set exclude_seen=False"):
        model.recommend("user 3")
    with pytest.raises(DataError, match=r"user 'user \d+' has ratings already"):
        model.fold_in(X.iloc[:1], [2])
    with pytest.raises(UnknownIdError, match="unknown item 99"):
        model.fold_in(X.iloc[:1].assign(item=99), [2])


def test_a_warm_start_and_a_checkpoint_resume_chains(path, tmp_path):
    def interrupt(_):
        raise KeyboardInterrupt

    options = FAST | {"checkpoint": Checkpoint(tmp_path / "chains", 0.0)}
    model = GibbsM3F(**options)
    plan = model._plan
    model._plan = lambda *parts: plan(*parts).__class__(
        **vars(plan(*parts)) | {"on_iteration": lambda event: interrupt(event) if event.step == 4 else None}
    )
    with pytest.raises(KeyboardInterrupt):
        model.fit(path)
    assert (tmp_path / "chains").exists()
    assert not hasattr(model, "posterior_")
    of_file, in_memory = (GibbsM3F(warm_start=True, **FAST).fit(*data) for data in ((path,), (X, FRAME.y)))
    assert_same_bits(GibbsM3F(**options).fit(path), of_file)
    # Averages and samples continue from files to memory and back: it is the same distribution.
    longer = copy.deepcopy(in_memory).fit(X, FRAME.y)
    for model in (copy.deepcopy(of_file).fit(path), of_file.fit(X, FRAME.y), in_memory.fit(path)):
        assert_same_bits(model, longer)


def test_a_failed_fit_leaves_the_earlier_one_and_no_files(path, tmp_path, monkeypatch):
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    model = GibbsM3F(**FAST).fit(path)
    wanted = numbers(model)
    assert list(folder.iterdir()) == []

    def interrupted(*_, **__):
        assert list(folder.iterdir())
        raise KeyboardInterrupt

    monkeypatch.setattr(sharded.ShardedProblem, "losses", interrupted)
    with pytest.raises(KeyboardInterrupt) as caught:
        model.fit(path)
    assert list(folder.iterdir()) == []
    assert caught.tb  # which refers to the shards
    for a, b in zip(numbers(model), wanted, strict=True):
        assert_array_equal(a, b)


def test_what_cannot_be_fitted_is_refused(tmp_path):
    def stored(table):
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.parquet"
        table.to_parquet(path)
        return path

    for arguments, message in (
        ((stored(FRAME), "star"), "no column 'star' in X, which has the columns user, item, y, times; name it by y="),
        ((stored(FRAME), FRAME.y), "y must be the name of a column of X, which is not in memory; got Series"),
        ((stored(FRAME.drop(columns="user")),), "there is no column 'user' in X"),
        ((stored(FRAME.iloc[:0]),), r"Found array with 0 sample\(s\).*no ratings"),
        ((tmp_path / "nowhere",), "which is no Parquet file and no folder of them: .*nowhere"),
        ((stored(FRAME.assign(y=3)),), "at least 2 levels of ratings are needed; got 1 class: every rating is 3"),
    ):
        with pytest.raises(DataError, match=message):
            GibbsM3F(**FAST).fit(*arguments)
    wrong = FRAME.assign(y=FRAME.y.where(FRAME.index != 93, 9))
    with pytest.raises(DataError, match=r"y holds 9 \(user 'user \d+', item \d+, row 93\), .*levels 1..5\."):
        GibbsM3F(levels=range(1, 6), **FAST).fit(stored(wrong))
    with pytest.raises(ValueError, match="user"):
        GibbsM3F(user=3).fit(tmp_path)


def test_shards_hold_about_equal_numbers_of_ratings():
    cuts = sharded._cuts([np.arange(100)], [np.full(100, 5)], 100, 4)
    assert cuts.tolist() == [0, 24, 49, 74, 100]
    assert sharded._cuts([np.arange(3)], [np.array([1, 900, 1])], 3, 8).tolist() == [0, 1, 3]
