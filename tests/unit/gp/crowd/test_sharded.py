"""Crowds in Parquet files: the result of the same comparisons in memory, and what needs memory refused in words."""

import gc
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

import skpref
from skpref import CrowdGPPL, Table
from skpref.data import Comparisons
from skpref.exceptions import DataError, DataWarning, UnknownIdError
from skpref.gp.crowd import fit_hierarchy
from skpref.gp.crowd.consensus import heaviest_user
from skpref.gp.crowd.fit_hierarchy import Regularisation
from skpref.gp.crowd.posterior import CrowdPosterior
from skpref.gp.crowd.sharded import bounds_of
from skpref.inference.shards import OnDisk
from tests.policies import set_policy

pandas = pytest.importorskip("pandas")
ITEMS, USERS = np.array([f"item {k}" for k in range(6)]), np.array([f"user {k:02d}" for k in range(15)])
COLUMNS = ["user", "left", "right"]


@pytest.fixture(autouse=True)
def _small_shards(monkeypatch):
    set_policy(monkeypatch, "data", batch_rows=90)
    set_policy(monkeypatch, "gp.crowd", most_choice=100)
    # Fits that choose take most of the time.
    chosen = (Regularisation(0.3, 1.0, 0.5),)
    monkeypatch.setattr(fit_hierarchy, "_regularise", lambda _, isotropic, *__: (chosen, [isotropic.state.S]))


def frame(seed=0, n=300):
    rng = np.random.default_rng(seed)
    left = rng.integers(0, 6, n)
    right, user = (left + rng.integers(1, 6, n)) % 6, rng.integers(0, 15, n)
    z, own = np.linspace(-1, 1, 6), np.random.default_rng(9).normal(size=(15, 6))
    y = (z[left] - z[right] + own[user, left] - own[user, right] + rng.normal(size=n) > 0).astype(int)
    columns = {"user": USERS[user], "left": ITEMS[left], "right": ITEMS[right], "y": y}
    columns["times"] = rng.choice([0.0, 1.0, 2.5], n)
    return pandas.DataFrame(
        columns | {"topic": rng.choice(["x", "y", "z"], n), "words": 40.0 * (y + rng.normal(size=n))}
    )


@pytest.fixture
def stored(tmp_path):
    rows = frame()
    rows.to_parquet(tmp_path / "rows.parquet")
    return rows, tmp_path / "rows.parquet"


FEATURES = np.random.default_rng(1)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"weight": "times"},
        {"order_effect": True, "likelihood": "logit"},
        {"items": Table(FEATURES.normal(size=(6, 2)), ids=ITEMS)},
        {"users": Table(FEATURES.normal(size=(15, 2)), ids=USERS)},
        {"covariates": ["words"], "groups": ["topic"], "order_effect": True, "likelihood": "logit-ties"},
    ],
    ids=["plain", "weights", "order effect", "features of items", "features of users", "all of a comparison"],
)
def test_a_fit_to_a_file_is_the_fit_in_memory(stored, options):
    rows, path = stored
    weight = rows.times if "weight" in options else None
    names = [*COLUMNS, *options.get("covariates", ()), *options.get("groups", ())]
    here = CrowdGPPL(random_state=0, **{**options, "weight": None}).fit(rows[names], rows.y, weight)
    there = CrowdGPPL(random_state=0, **options).fit(path)
    assert_allclose(there.lower_bounds_, here.lower_bounds_, rtol=1e-10)
    for users in (None, USERS):
        for a, b in zip(
            there.utility(users=users, return_std=True), here.utility(users=users, return_std=True), strict=True
        ):
            assert_allclose(a, b, atol=1e-9)
    for name in ("item_ids_", "user_ids_", "components_", "classes_"):
        assert_array_equal(getattr(there, name), getattr(here, name))
    assert_allclose(there.factor_scales_, here.factor_scales_, atol=1e-9)
    assert_array_equal(there.rank().n_comparisons, here.rank().n_comparisons)
    assert_array_equal(there.rank(user="user 03").n_comparisons, here.rank(user="user 03").n_comparisons)
    asked = rows.assign(user=rows.user.where(rows.user != "user 01", "nobody"))
    columns = names if names == COLUMNS and "weight" not in options else list(rows.columns)
    assert_allclose(there.predict_proba(asked[columns]), here.predict_proba(asked[names]), atol=1e-9)
    if "covariates" in options:
        assert_allclose(there.coef_, here.coef_, atol=1e-9)
    if "groups" in options:
        assert_array_equal(there.group_ids_[0], ["x", "y", "z"])
    report, wanted = (model.annotators(n_samples=20) for model in (there, here))
    assert_allclose(report["agreement"], wanted["agreement"], atol=1e-12)


def test_few_comparisons_give_the_bits_of_a_fit_in_memory(stored, monkeypatch):
    set_policy(monkeypatch, "gp.crowd", most_choice=1000)
    rows, path = stored
    here, there = CrowdGPPL(random_state=0).fit(rows[COLUMNS], rows.y), CrowdGPPL(random_state=0).fit(path)
    assert there.lower_bounds_ == here.lower_bounds_
    assert_array_equal(there.utility(users=USERS), here.utility(users=USERS))
    assert_array_equal(there.feature_names_in_, here.feature_names_in_)


def test_kernels_are_learnt_from_a_sample_where_comparisons_are_many(stored, monkeypatch):
    set_policy(monkeypatch, "gp.pairwise", hyper_pairs=120)
    items = Table(np.linspace(-1, 1, 6)[:, None], ids=ITEMS)
    fits = [CrowdGPPL(items, random_state=0).fit(stored[1]) for _ in range(2)]
    assert fits[0].lower_bounds_ == fits[1].lower_bounds_
    here = CrowdGPPL(items, random_state=0).fit(stored[0][COLUMNS], stored[0].y)
    assert np.corrcoef(fits[0].utility(ITEMS), here.utility(ITEMS))[0, 1] > 0.99


def test_more_shards_than_users_and_users_without_weight(tmp_path):
    rows = frame(n=400)
    rows["user"] = rows.user.where(rows.user < "user 03", "user 00")
    rows["times"] = np.where(rows.user == "user 01", 0.0, 1.0)
    rows.to_parquet(tmp_path / "rows.parquet")
    here = CrowdGPPL(random_state=0).fit(rows[COLUMNS], rows.y, rows.times)
    there = CrowdGPPL(weight="times", random_state=0).fit(tmp_path / "rows.parquet")
    assert there.user_ids_.tolist() == ["user 00", "user 02"]
    # One of two users is drawn for the choices, by shards and in memory alike.
    assert_allclose(there.utility(users=["user 00", "user 01"]), here.utility(users=["user 00", "user 01"]), atol=1e-9)


def test_a_folder_and_named_columns(stored, tmp_path):
    rows, path = stored
    folder = tmp_path / "parts"
    folder.mkdir()
    renamed = rows.rename(columns={"user": "judge", "left": "a", "right": "b", "y": "won"})
    renamed.iloc[:100].to_parquet(folder / "0.parquet")
    renamed.iloc[100:].to_parquet(folder / "1.parquet")
    model = CrowdGPPL(user="judge", left="a", right="b", random_state=0).fit(str(folder), "won")
    assert_allclose(model.utility(), CrowdGPPL(random_state=0).fit(path).utility(), atol=1e-9)
    assert model.predict_proba(renamed).shape == (300, 2)


def test_a_fit_to_a_file_is_cloned_saved_loaded_and_continued(stored, tmp_path):
    rows, path = stored
    model = CrowdGPPL(random_state=0).fit(path)
    skpref.save(model, tmp_path / "model.skpref")
    loaded = skpref.load(tmp_path / "model.skpref")
    assert_array_equal(loaded.utility(users=USERS), model.utility(users=USERS))
    assert_array_equal(clone(model).fit(path).utility(users=USERS), model.utility(users=USERS))
    more = frame(seed=1, n=30)
    here = CrowdGPPL(random_state=0).fit(rows[COLUMNS], rows.y).partial_fit(more[COLUMNS], more.y)
    assert_allclose(loaded.partial_fit(more[COLUMNS], more.y).utility(), here.utility(), atol=1e-8)


def test_a_warm_start_and_a_fit_that_fails(stored, monkeypatch):
    model = CrowdGPPL(warm_start=True, random_state=0).fit(stored[1])
    wanted = model.utility()
    monkeypatch.setattr(fit_hierarchy, "_regularise", None)  # chosen already
    model.fit(stored[1])
    assert_allclose(model.utility(), wanted, atol=0.02)
    wanted = model.utility()
    model.set_params(max_iter=0, weight="nothing")
    with pytest.raises(ValueError, match="max_iter"):
        model.fit(stored[1])
    model.set_params(max_iter=9)
    with pytest.raises(DataError, match="no column 'nothing'"):
        model.fit(stored[1])
    assert_array_equal(model.utility(), wanted)


@pytest.mark.parametrize(
    "options",
    [
        {"inference": "svi"},
        {"inference": "vb"},
        {"inference": "linearised"},
        {"n_factors": 0},
        {"likelihood": "davidson"},
        {"optimizer": "l-bfgs-b", "items": Table(np.linspace(0, 1, 6)[:, None], ids=ITEMS)},
    ],
    ids=str,
)
def test_a_fit_that_needs_all_comparisons_is_the_fit_in_memory(stored, options):
    rows, path = stored
    options = {"random_state": 0, "max_iter": 20, "tol": 0.1} | options
    here, there = CrowdGPPL(**options).fit(rows[COLUMNS], rows.y), CrowdGPPL(**options).fit(path)
    assert_allclose(there.lower_bounds_, here.lower_bounds_, rtol=1e-10)
    assert_allclose(there.predict_proba(rows[COLUMNS]), here.predict_proba(rows[COLUMNS]), atol=1e-10)
    assert type(there.posterior_) is type(here.posterior_)


def test_more_items_or_larger_weights_than_a_covariance_takes_are_fitted_in_memory(tmp_path, monkeypatch):
    rows, path = frame(), tmp_path / "rows.parquet"
    rows.loc[150, "times"] = 1e10
    rows.to_parquet(path)
    model = CrowdGPPL(weight="times", random_state=0, tol=0.1).fit(path)
    assert isinstance(model.posterior_, CrowdPosterior)
    with pytest.raises(DataError, match=r"weigh up to 1e\+10 together; inference='ep' takes at most 3e\+05"):
        CrowdGPPL(weight="times", inference="ep").fit(path)
    set_policy(monkeypatch, "gp.crowd", most_items=5)
    assert isinstance(CrowdGPPL(random_state=0, tol=0.1).fit(path).posterior_, CrowdPosterior)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"covariates": ["word"]}, "no column 'word' in X.*; name it by covariates=; did you mean 'words'"),
        ({"covariates": ["words"], "groups": ["words"]}, "holds the ids of groups='words'.*and set groups= if"),
        ({"groups": ["user"]}, "user and groups='user' are the same column of X"),
        ({"items": Table(np.eye(5), ids=ITEMS[:5])}, "unknown item 'item 5'"),
        ({"users": Table(np.eye(14), ids=USERS[:14])}, "unknown user 'user 14'"),
    ],
)
def test_parameters_that_a_file_cannot_have(stored, options, message):
    with pytest.raises((DataError, UnknownIdError), match=message):
        CrowdGPPL(**options).fit(stored[1])


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("user", None, r"column 'user', row 60: a user id is missing \(rows 90 to 179 of X\)"),
        ("left", "item 3", r"compares item 'item 3' with itself.* \(rows 90 to 179 of X\)"),
        ("y", 7, r"labels must be 0 or 1.*\(rows 90 to 179 of X\)"),
    ],
)
def test_rows_that_no_fit_can_use_are_named(tmp_path, column, value, message):
    rows = frame()
    rows.loc[150, "right"] = "item 3"
    rows.loc[150, column] = value
    rows.to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(DataError, match=message):
        CrowdGPPL(weight="times").fit(tmp_path / "rows.parquet")


def test_data_that_no_fit_can_use(tmp_path):
    path = tmp_path / "rows.parquet"
    frame().assign(times=0).to_parquet(path)
    with pytest.raises(DataError, match="at least 2 items with a comparison of positive weight"):
        CrowdGPPL(weight="times").fit(path)
    frame().iloc[:0].to_parquet(path)
    with pytest.raises(DataError, match="it has no rows"):
        CrowdGPPL().fit(path)


def test_components_join_across_shards(tmp_path):
    pairs = [("a", "b"), ("c", "d"), ("e", "f"), ("b", "c")]
    rows = pandas.DataFrame([pair for pair in pairs for _ in range(50)], columns=["left", "right"])
    rows.assign(user=np.arange(200) % 50).to_parquet(tmp_path / "rows.parquet")
    with pytest.warns(DataWarning, match="2 connected components") as caught:
        model = CrowdGPPL(random_state=0).fit(tmp_path / "rows.parquet")
    assert [warning.filename for warning in caught] == [__file__]
    assert model.components_.tolist() == [0, 0, 0, 0, 1, 1]


def test_shards_have_about_as_many_comparisons():
    rng = np.random.default_rng(0)
    counts = rng.integers(1, 10, 1000)
    bounds = bounds_of(counts, 8)
    sums = np.add.reduceat(counts, bounds[:-1])
    assert (bounds[0], bounds[-1], bounds.size) == (0, 1000, 9)
    assert np.abs(sums - sums.mean()).max() <= 10
    assert bounds_of(np.array([100, 1, 1]), 5).tolist() == [0, 1, 3]


def test_an_interrupted_fit_leaves_the_earlier_one_and_no_files(stored, tmp_path, monkeypatch):
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    model = CrowdGPPL(random_state=0, tol=10.0).fit(stored[1])
    wanted, keep, rounds = model.utility(users=USERS), OnDisk.keep, []

    def interrupted(self, *args, **options):
        rounds.append(keep(self, *args, **options))
        if len(rounds) == 6:
            raise KeyboardInterrupt
        return rounds[-1]

    with monkeypatch.context() as patch:
        patch.setattr(OnDisk, "keep", interrupted)
        with pytest.raises(KeyboardInterrupt):
            model.fit(stored[1])
    assert len(list((tmp_path / "temporary").iterdir())) == 1
    rounds.clear()
    gc.collect()
    assert list((tmp_path / "temporary").iterdir()) == []
    assert_array_equal(model.utility(users=USERS), wanted)


def test_the_heaviest_user_is_the_one_with_most_answers_about_an_item():
    answers = Comparisons([0, 1, 0], [1, 0, 2], [1.0, 0.0, 1.0], [1e5, 2e5, 1e5], 3, user=[0, 0, 1], n_users=2)
    assert heaviest_user(answers) == 3e5
    apart = replace(answers, weight=2.0 * answers.weight, user=np.array([0, 1, 0]))
    assert heaviest_user(apart) == 4e5
    assert heaviest_user(replace(answers, weight=np.ones(3))) <= 3.0
