"""Rows of ids and numbers in Parquet files: the fit of the same features in memory; what needs memory is refused."""

import pickle
import tempfile
from copy import copy
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

import skpref
from skpref import OneHotDesign, VariationalFM, VariationalFMClassifier, VariationalFMOrdinal
from skpref.elicitation import Session
from skpref.exceptions import DataError, UnknownIdError
from skpref.factorization.machine import sharded
from tests.policies import set_policy

pandas = pytest.importorskip("pandas")
dataset = pytest.importorskip("pyarrow.dataset")
FAST = {"n_factors": 2, "max_iter": 5, "random_state": 0}


def table(n=400):
    """Return rows of ids and numbers, some of which are functions of others."""
    rng = np.random.default_rng(0)
    user, item = rng.integers(0, 30, n), rng.integers(0, 20, n)
    columns = {
        "user": [f"user {k}" for k in user],
        "age": rng.normal(size=30)[user],
        "item": item,
        "genre": pandas.Categorical(np.array(["jazz", "pop", "rock"])[item % 3]),
        "price": rng.normal(size=n),
        "weekday": rng.integers(0, 7, n),
        "mood": pandas.Categorical(np.array(["sad", "glad"])[rng.integers(0, 2, n)]),
        "is_new": rng.random(n) < 0.3,
    }
    frame = pandas.DataFrame(columns)
    frame["y"] = rng.normal(size=n) + item % 5 + frame.price * frame.age + 0.5 * frame.is_new
    frame["side"] = np.where(frame.y > frame.y.median(), "yes", "no")
    return frame.assign(times=rng.integers(0, 3, n).astype(float))


FRAME = table()
PAIRS = FRAME[["user", "item"]]


@pytest.fixture(autouse=True)
def _small_shards(monkeypatch):
    set_policy(monkeypatch, "data", batch_rows=90)
    set_policy(monkeypatch, "factorization", own_bytes=0, least_shard_rows=40)


def stored(folder, *names, frame=FRAME, n_files=3):
    folder /= "rows"
    folder.mkdir(exist_ok=True)
    for k, part in enumerate(np.array_split(np.arange(len(frame)), n_files)):
        frame.iloc[part][list(names)].to_parquet(folder / f"{k}.parquet")
    return folder


def numbers(model):
    machine = model.posterior_.machine
    return [machine.mean, machine.variance, *machine.prior[:2], model.lower_bounds_, [model.intercept_]]


def assert_near(model, wanted):
    for a, b in zip(numbers(model), numbers(wanted), strict=True):
        assert_allclose(a, b, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("weight", [None, "times"])
def test_one_shard_has_the_bits_of_pairs_in_memory(tmp_path, weight, monkeypatch):
    design = OneHotDesign()
    X = design.fit_transform(PAIRS)
    groups = design.groups_ == "item"  # in the order of the columns
    in_memory = VariationalFM(groups=groups, **FAST).fit(X, FRAME.y, None if weight is None else FRAME[weight])
    path = stored(tmp_path, "user", "item", "y", *([weight] if weight else []))
    many = VariationalFM(**FAST).fit(path, "y", weight)
    set_policy(monkeypatch, "data", batch_rows=1000)
    one = VariationalFM(**FAST).fit(path, "y", weight)
    for a, b in zip(numbers(one), numbers(in_memory), strict=True):
        assert_array_equal(a, b)
    assert_near(many, in_memory)
    assert_array_equal(one.predict(PAIRS), in_memory.predict(X))
    assert many.design_.get_feature_names_out().tolist() == design.get_feature_names_out(["user", "item"]).tolist()
    assert many.groups_.tolist() == many.feature_names_in_.tolist() == ["user", "item"]


@pytest.mark.parametrize(
    ("names", "weight"),
    [
        (["user"], None),
        (["price", "age"], "times"),
        (["user", "price"], None),
        (["price", "user", "item", "is_new"], "times"),
        (["age", "user", "genre", "item"], None),
        (["user", "item", "weekday"], "times"),
        (["user", "age", "item", "genre", "price", "weekday", "mood", "is_new"], "times"),
    ],
    ids=str,
)
def test_the_fit_is_that_of_the_same_features_in_memory(tmp_path, names, weight):
    path = stored(tmp_path, *names, "y", *([weight] if weight else []))
    model = VariationalFM(**FAST).fit(path, "y", weight)
    X = model.design_.transform(FRAME[names])
    weights = None if weight is None else FRAME[weight]
    wanted = VariationalFM(groups=model.design_.groups, **FAST).fit(X, FRAME.y, weights)
    assert_near(model, wanted)
    assert_allclose(model.predict(FRAME[names]), wanted.predict(X), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("link", ["probit", "logit"])
def test_two_classes(tmp_path, link):
    path, names = stored(tmp_path, "user", "item", "price", "side"), ["user", "item", "price"]
    model = VariationalFMClassifier(link=link, **FAST).fit(path, "side")
    X = model.design_.transform(FRAME[names])
    wanted = VariationalFMClassifier(link=link, groups=model.design_.groups, **FAST).fit(X, FRAME.side)
    assert_near(model, wanted)
    assert model.classes_.tolist() == ["no", "yes"]
    assert_allclose(model.predict_proba(FRAME[names]), wanted.predict_proba(X), rtol=1e-10)
    skpref.save(model, tmp_path / "model.skpref")
    assert_array_equal(skpref.load(tmp_path / "model.skpref").predict(FRAME[names]), model.predict(FRAME[names]))
    with pytest.raises(DataError, match="Only binary classification is supported"):
        model.fit(stored(tmp_path, "user", "genre"), "genre")
    with pytest.raises(DataError, match="y must have two classes; got only one class"):
        model.fit(stored(tmp_path, "user", "side", frame=FRAME[FRAME.side == "yes"]), "side")
    assert model.classes_.tolist() == ["no", "yes"]


LEVELS = FRAME.assign(
    stars=np.digitize(FRAME.y, [-1.0, 1.0, 3.0, 4.0]) / 2.0 + 0.5,
    words=pandas.Categorical.from_codes(
        np.digitize(FRAME.y, [-1.0, 1.0, 3.0, 4.0]), ["awful", "poor", "fair", "good", "best"], ordered=True
    ),
)


@pytest.mark.parametrize(
    ("names", "y", "weight"),
    [
        (["user", "item"], "stars", None),
        (["user", "item"], "words", "times"),
        (["user", "item", "price", "weekday"], "stars", "times"),
    ],
)
def test_levels(tmp_path, names, y, weight, monkeypatch):
    path = stored(tmp_path, *names, y, *([weight] if weight else []), frame=LEVELS)
    many = VariationalFMOrdinal(**FAST).fit(path, y, weight)
    X, weights = many.design_.transform(LEVELS[names]), None if weight is None else LEVELS[weight]
    wanted = VariationalFMOrdinal(groups=many.design_.groups, inference="variational", **FAST).fit(
        X, LEVELS[y], weights
    )
    assert_near(many, wanted)
    assert_allclose(many.thresholds_, wanted.thresholds_, rtol=1e-12)
    assert_array_equal(many.classes_, wanted.classes_)
    assert_allclose(many.predict_proba(LEVELS[names]), wanted.predict_proba(X), rtol=1e-9)
    assert many.score(LEVELS[names], LEVELS[y]) == wanted.score(X, LEVELS[y])
    set_policy(monkeypatch, "data", batch_rows=1000)
    set_policy(monkeypatch, "factorization", least_shard_rows=1000)
    one = VariationalFMOrdinal(**FAST).fit(path, y, weight)
    for a, b in zip([*numbers(one), one.thresholds_], [*numbers(wanted), wanted.thresholds_], strict=True):
        assert_array_equal(a, b)
    skpref.save(one, tmp_path / "model.skpref")
    assert_array_equal(skpref.load(tmp_path / "model.skpref").predict(LEVELS[names]), wanted.predict(X))
    newcomers = LEVELS[names][:3].assign(user="somebody else")
    before, best = one.predict_proba(newcomers)[:, -1], [one.classes_[-1]] * 3
    assert np.all(copy(one).partial_fit(newcomers, best).predict_proba(newcomers)[:, -1] > before)
    assert clone(one).get_params() == one.get_params()


def test_levels_that_shards_lack(tmp_path):
    frame = LEVELS.sort_values("stars")  # a file has some of the levels only
    names, order = ["user", "item"], [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0]
    model = VariationalFMOrdinal(**FAST, class_order=order).fit(stored(tmp_path, *names, "stars", frame=frame), "stars")
    X = model.design_.transform(frame[names])
    plain = VariationalFMOrdinal(groups=model.design_.groups, class_order=order, inference="variational", **FAST)
    wanted = plain.fit(X, frame.stars)
    assert_near(model, wanted)
    assert_allclose(model.thresholds_, wanted.thresholds_, rtol=1e-12)
    assert model.classes_.tolist() == order


@pytest.mark.parametrize("machine", [VariationalFM, VariationalFMOrdinal])
def test_targets_that_are_decimals_are_numbers(tmp_path, machine):
    exact = LEVELS.assign(stars=[Decimal(str(stars)) for stars in LEVELS.stars])
    model = machine(**FAST).fit(stored(tmp_path, "user", "item", "stars", frame=exact), "stars")
    wanted = machine(**FAST).fit(stored(tmp_path, "user", "item", "stars", frame=LEVELS), "stars")
    assert_array_equal(model.factors_, wanted.factors_)
    assert_array_equal(model.predict(PAIRS), wanted.predict(PAIRS))


def test_ordered_categories_of_files_must_agree(tmp_path):
    few = LEVELS[LEVELS.words > "fair"].assign(words=lambda rows: rows.words.cat.remove_unused_categories())
    path = stored(tmp_path, "user", "words", frame=few)
    LEVELS[["user", "words"]].to_parquet(path / "9.parquet")
    model = VariationalFMOrdinal(**FAST).fit(path, "words")
    assert model.classes_.tolist() == LEVELS.words.cat.categories.tolist()
    other = LEVELS.assign(words=LEVELS.words.cat.reorder_categories(["poor", "awful", "fair", "good", "best"]))
    other[["user", "words"]].to_parquet(path / "9.parquet")
    LEVELS[["user", "words"]].to_parquet(path / "8.parquet")
    with pytest.raises(DataError, match=r"order differs between parts of the data: .*state class_order="):
        model.fit(path, "words")
    chosen = model.set_params(class_order=LEVELS.words.cat.categories[::-1]).fit(path, "words")
    assert chosen.classes_.tolist() == LEVELS.words.cat.categories[::-1].tolist()


@pytest.mark.parametrize(
    ("y", "options", "message"),
    [
        ("stars", {"inference": "gibbs"}, "inference='gibbs' needs all rows in memory.*default"),
        ("stars", {"class_order": [1, 2]}, "y holds 0.5, which is not among the levels 1, 2.*Name all levels"),
        ("genre", {"class_order": ["jazz", "pop"]}, "y holds 'rock', which is not among the levels 'jazz', 'pop'"),
        ("user", {}, r"y holds strings, whose order is unknown.*class_order=\["),
        ("y", {}, "Unknown label type: continuous"),
        ("same", {}, r"y must have at least 2 classes \(levels\); got 1 class: 1 "),
        ("gaps", {}, r"Input y contains NaN.*\(rows 0 to "),
        ("stars", {"groups": [0, 1]}, "groups=list needs all rows in memory"),
    ],
)
def test_what_levels_in_files_cannot_be(tmp_path, y, options, message):
    frame = LEVELS.assign(same=1, gaps=LEVELS.stars.where(LEVELS.stars > 1))
    with pytest.raises(ValueError, match=message):
        VariationalFMOrdinal(**FAST | options).fit(stored(tmp_path, "item", y, frame=frame), y)


def test_sources_and_the_default_target_give_the_same_bits(tmp_path):
    path = stored(tmp_path, "user", "item", "y")
    model = VariationalFM(**FAST).fit(path)
    for X in (str(path), dataset.dataset(path, format="parquet")):
        assert_array_equal(VariationalFM(**FAST).fit(X, "y").factors_, model.factors_)


def test_integers_are_ids_unless_others_are_named(tmp_path):
    path = stored(tmp_path, "user", "item", "weekday", "price", "y")
    for names, n_features in ((None, 31 + 21 + 8 + 1), (["user", "item"], 31 + 21 + 2), ("user", 31 + 3)):
        model = VariationalFM(categorical_features=names, **FAST | {"max_iter": 1}).fit(path)
        assert model.design_.get_feature_names_out().size == model.weights_.size == n_features
        assert model.n_features_in_ == 4


def test_rows_in_memory_after_files(tmp_path):
    model = VariationalFM(**FAST).fit(stored(tmp_path, "user", "item", "price", "y"))
    rows = FRAME[["user", "item", "price"]]
    few, all_rows = model.predict(rows.iloc[:3]), model.predict(rows)
    assert_allclose(few, all_rows[:3], rtol=1e-12)
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        assert_array_equal(model.predict(rows.iloc[:3].to_numpy(dtype=object)), few)
    newcomer = rows.iloc[:2].assign(user="somebody else")
    _, variance = model.latent_mean_and_variance(rows.iloc[:2])
    assert np.all(model.latent_mean_and_variance(newcomer)[1] > variance)
    before = model.predict(newcomer)
    other = copy(model).partial_fit(newcomer, [9.0, 9.0])
    assert np.all(other.predict(newcomer) > before)
    assert other.n_features_in_ == 3
    for X, error, message in (
        (rows.drop(columns="price"), ValueError, "feature names should match"),
        (rows.assign(price=np.nan), DataError, "column 'price' holds numbers: Input X contains NaN"),
        (rows.assign(price=1e30), DataError, r"overflow in interactions; scale X: column 'price' holds values up to"),
        (rows.assign(user=None), DataError, "missing user id in row 0 of column 'user'"),
        (rows.assign(item=PAIRS.item.astype(str)), UnknownIdError, "unknown item '.*' in row 0"),
        (str(tmp_path), DataError, "fit takes files, and other methods take rows in memory"),
    ):
        with pytest.raises(error, match=message):
            model.predict(X)
    with pytest.raises(DataError, match="fit takes files"):
        model.partial_fit(str(tmp_path), "y")
    in_memory = model.fit([[1.0, 0.0], [0.0, 1.0]], [1.0, 2.0])
    assert in_memory.design_ is None
    assert in_memory.predict([[1.0, 0.0]]).shape == (1,)


def test_saving_cloning_and_damage(tmp_path):
    model = VariationalFM(categorical_features=["user", "item"], **FAST)
    model.fit(stored(tmp_path, "user", "item", "price", "y"))
    rows = FRAME[["user", "item", "price"]]
    skpref.save(model, tmp_path / "model.skpref")
    for other in (skpref.load(tmp_path / "model.skpref"), pickle.loads(pickle.dumps(model))):
        assert_array_equal(other.predict(rows), model.predict(rows))
        assert other.design_.get_feature_names_out().tolist() == model.design_.get_feature_names_out().tolist()
    assert clone(model).get_params() == model.get_params()
    for wrong in ({"names": ("a", "b")}, {"ids": "damage"}, {"ids": (None, None, None)}):
        damaged = copy(model)
        design = type(model.design_)(**vars(model.design_) | wrong)
        damaged.fitted_ = replace(model.fitted_, design=design)
        with pytest.raises(DataError, match=r"ColumnDesign\.(names|ids)|FMFitted\.design has other features"):
            skpref.save(damaged, tmp_path / "damaged.skpref")


def test_a_warm_start_goes_on(tmp_path):
    path = stored(tmp_path, "user", "item", "y")
    options = FAST | {"tol": 0.0, "warm_start": True}
    model = VariationalFM(**options).fit(path)
    first = model.lower_bound_
    assert model.fit(path).lower_bounds_[0] > first
    assert model.set_params(n_factors=3).fit(path).lower_bounds_[0] < first
    fewer = stored(tmp_path, "user", "item", "y", frame=FRAME[FRAME.item != 3])
    assert_array_equal(model.fit(fewer).factors_, VariationalFM(**options | {"n_factors": 3}).fit(fewer).factors_)


def test_an_interrupted_fit_leaves_the_earlier_one_and_no_files(tmp_path, monkeypatch):
    path, folder = stored(tmp_path, "user", "item", "price", "y"), tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    model = VariationalFM(**FAST).fit(path)
    wanted, design = numbers(model), model.design_
    assert list(folder.iterdir()) == []

    def interrupted(*_):
        assert list(folder.iterdir())
        raise KeyboardInterrupt

    monkeypatch.setattr(sharded, "_slopes", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit(stored(tmp_path, "item", "y"))
    assert list(folder.iterdir()) == []
    assert model.design_ is design
    for a, b in zip(numbers(model), wanted, strict=True):
        assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("options", "y", "weight", "message"),
    [
        ({"posterior": "factorised"}, "y", None, "posterior='factorised' needs all rows in memory"),
        ({"batch_size": 10}, "y", None, "batch_size=10 needs all rows in memory"),
        ({"n_samples": 1}, "y", None, "n_samples=1 needs all rows in memory"),
        ({"early_stopping": True}, "y", None, "early_stopping=True needs all rows in memory"),
        ({"groups": [0, 1, 1]}, "y", None, "groups=list needs all rows in memory"),
        ({}, "user", None, "y must be numbers: could not convert string to float: 'user"),
        ({"categorical_features": ["user", "shop"]}, "y", None, "names 'shop', which is not one of the features"),
        ({"categorical_features": ["item"]}, "y", None, "column 'user' of X holds .*string, and no numbers: name it"),
        ({"categorical_features": ["user", "price"]}, "y", None, "numeric price ids must be integers, got"),
    ],
)
def test_what_files_cannot_do_is_said(tmp_path, options, y, weight, message):
    with pytest.raises(DataError, match=message):
        VariationalFM(**FAST | options).fit(stored(tmp_path, "user", "item", "price", "y"), y, weight)


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("user", None, r"missing user id in row 10 of column 'user' \(rows 90 to 223 of X\)"),
        ("price", np.inf, r"column 'price' holds numbers: Input X contains infinity[^$]*\(rows 90 to 223 of X\)"),
        ("price", np.nan, r"column 'price' has no value in row 10[^$]*\(rows 90 to 223 of X\)"),
        ("price", 1e30, r"column 'price' holds values up to 1e\+30\. \(rows 90 to 223 of X\)"),
        ("y", np.inf, r"Input y contains infinity[^$]*\(rows 90 to 223 of X\)"),
        ("times", -1.0, r"Negative values in data passed to `sample_weight`.*\(rows 90 to 223 of X\)"),
    ],
)
def test_a_wrong_value_is_said_with_its_rows(tmp_path, column, value, message):
    frame = FRAME.copy()
    frame.loc[100, column] = value
    with pytest.raises(DataError, match=message):
        VariationalFM(**FAST).fit(stored(tmp_path, "user", "item", "price", "y", "times", frame=frame), "y", "times")


def test_files_that_lack_rows_or_columns_are_refused(tmp_path):
    model = VariationalFM(**FAST)
    with pytest.raises(DataError, match="a folder without Parquet files"):
        model.fit(tmp_path)
    with pytest.raises(DataError, match=r"Found array with 0 sample\(s\) while a minimum of 1 is required for X"):
        model.fit(stored(tmp_path, "user", "y", frame=FRAME[:0], n_files=1))
    with pytest.raises(DataError, match=r"0 sample\(s\).*none of positive sample_weight"):
        model.fit(stored(tmp_path, "user", "y", "times", frame=FRAME.assign(times=0.0)), "y", "times")
    path = stored(tmp_path, "user", "item", "y")
    FRAME[["user", "y"]].to_parquet(path / "1.parquet")
    with pytest.raises(DataError, match="missing item id in row 44 of column 'item'"):
        model.fit(path)
    FRAME.assign(item="tea")[["user", "item", "y"]].to_parquet(path / "1.parquet")
    with pytest.raises(DataError, match=r"column 'item' of X holds int64 in .*0\.parquet, and (large_)?string in"):
        model.fit(path)
    with pytest.raises(DataError, match=r"which is no Parquet file and no folder of them: .*nowhere does not exist"):
        model.fit(tmp_path / "nowhere")
    FRAME.to_csv(tmp_path / "table.csv")
    with pytest.raises(DataError, match=r"no Parquet file: read it by pandas.read_csv, pass the frame"):
        model.fit(tmp_path / "table.csv")
    with pytest.raises(DataError, match="categorical_features names columns of files; in memory X holds numbers"):
        VariationalFM(categorical_features=["a"]).fit([[1.0], [2.0]], [1.0, 2.0])
    assert not hasattr(model, "posterior_")


def test_sessions_take_rows_with_the_columns_of_the_files(tmp_path):
    model = VariationalFM(**FAST).fit(stored(tmp_path, "user", "item", "y"))
    candidates = PAIRS[:20].assign(user="somebody else")
    by_frame = Session(model, candidates, random_state=0)
    by_features = Session(model, model.design_.transform(candidates), random_state=0)
    assert_array_equal(by_frame.ask(3), by_features.ask(3))
    with pytest.raises(DataError, match=r"a sparse X must hold the 52 features of design_; got 51 columns"):
        model.predict(model.design_.transform(candidates)[:, 1:])
