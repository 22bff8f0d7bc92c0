"""Fits to Parquet files: the result of the same comparisons in memory, and what needs memory refused in words."""

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from sklearn.base import clone

import skpref
from skpref import GPPLClassifier, Table
from skpref.data import shards
from skpref.exceptions import DataError, DataWarning, UnknownIdError
from skpref.gp.pairwise import sharded
from tests.policies import set_policy

pandas = pytest.importorskip("pandas")
IDS = np.array([f"item {k}" for k in range(12)])


@pytest.fixture(autouse=True)
def _small_shards(monkeypatch):
    set_policy(monkeypatch, "data", batch_rows=70)


def frame(seed=0, n=300, *, ids=IDS):
    rng = np.random.default_rng(seed)
    left = rng.integers(0, len(ids), n)
    right = (left + rng.integers(1, len(ids), n)) % len(ids)
    z = np.linspace(-1, 1, len(ids))
    y = (z[left] - z[right] + rng.normal(size=n) > 0).astype(int)
    return pandas.DataFrame({"left": ids[left], "right": ids[right], "y": y, "times": rng.integers(0, 3, n)})


@pytest.fixture
def stored(tmp_path):
    rows = frame()
    rows.to_parquet(tmp_path / "rows.parquet")
    return rows, tmp_path / "rows.parquet"


def both(rows, path, **options):
    """Fit in memory and to the file; the same comparisons count."""
    weight = rows[options["weight"]] if "weight" in options else None
    here = GPPLClassifier(random_state=0, **{**options, "weight": None})
    return here.fit(rows[["left", "right"]], rows.y, weight), GPPLClassifier(random_state=0, **options).fit(path)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"weight": "times"},
        {"order_effect": True},
        {"likelihood": "logit", "inference": "laplace"},
        {"items": Table(np.random.default_rng(1).normal(size=(12, 2)), ids=IDS), "inducing": 5},
    ],
    ids=["plain", "weights", "order effect", "laplace", "features"],
)
def test_a_fit_to_a_file_is_the_fit_in_memory(stored, options):
    here, there = both(*stored, **options)
    for a, b in zip(here.utility(return_std=True), there.utility(return_std=True), strict=True):
        assert_allclose(a, b, atol=1e-10)
    assert_allclose(there.lower_bounds_, here.lower_bounds_, rtol=1e-10)
    assert_allclose(there.order_effect_, here.order_effect_, atol=1e-10)
    columns = ("feature_names_in_", "n_features_in_") if "weight" not in options else ()
    for name in ("item_ids_", "components_", "classes_", *columns):
        np.testing.assert_array_equal(getattr(there, name), getattr(here, name))
    np.testing.assert_array_equal(there.rank().n_comparisons, here.rank().n_comparisons)
    pairs = stored[0][["left", "right"]]
    assert_allclose(there.predict_proba(pairs), here.predict_proba(pairs), atol=1e-10)


def test_independent_offsets_and_a_sample_for_the_length_scales(stored, monkeypatch):
    set_policy(monkeypatch, "gp.pairwise", joint_size=0)
    here, there = both(*stored)
    assert_allclose(there.utility(), here.utility(), atol=1e-8)
    set_policy(monkeypatch, "gp.pairwise", hyper_pairs=40)
    items = Table(np.linspace(-1, 1, 12)[:, None], ids=IDS)
    fits = [GPPLClassifier(items, random_state=0).fit(stored[1]) for _ in range(2)]
    assert fits[0].lower_bounds_ == fits[1].lower_bounds_
    assert np.corrcoef(fits[0].utility(IDS), here.utility(IDS))[0, 1] > 0.9


def test_a_folder_a_dataset_and_named_columns(stored, tmp_path):
    from pyarrow import dataset

    rows, path = stored
    folder = tmp_path / "parts"
    folder.mkdir()
    rows.iloc[:100].to_parquet(folder / "0.parquet")
    rows.iloc[100:100].to_parquet(folder / "1.parquet")
    rows.iloc[100:].to_parquet(folder / "2.parquet")
    renamed = tmp_path / "renamed.parquet"
    rows.rename(columns={"left": "a", "right": "b", "y": "won"}).to_parquet(renamed)
    wanted = GPPLClassifier().fit(path).utility()
    named = GPPLClassifier(left="a", right="b").fit(str(renamed), "won")
    for other in (GPPLClassifier().fit(str(folder)), GPPLClassifier().fit(dataset.dataset(path)), named):
        assert_allclose(other.utility(), wanted, atol=1e-10)


def test_rows_without_labels_are_winner_and_loser(stored, tmp_path):
    rows, _ = stored
    swap = rows.y == 0
    won = pandas.DataFrame({"left": rows.left.where(~swap, rows.right), "right": rows.right.where(~swap, rows.left)})
    won.to_parquet(tmp_path / "won.parquet")
    wanted = GPPLClassifier().fit(stored[1]).utility()
    assert_allclose(GPPLClassifier().fit(tmp_path / "won.parquet").utility(), wanted, atol=1e-10)


def test_components_join_across_shards(tmp_path):
    pairs = [("a", "b"), ("c", "d"), ("e", "f"), ("b", "c")]
    rows = pandas.DataFrame([pair for pair in pairs for _ in range(70)], columns=["left", "right"])
    rows.to_parquet(tmp_path / "rows.parquet")
    with pytest.warns(DataWarning, match="2 connected components") as caught:
        model = GPPLClassifier().fit(tmp_path / "rows.parquet")
    assert caught[0].filename == __file__
    assert model.components_.tolist() == [0, 0, 0, 0, 1, 1]


@pytest.mark.parametrize("seed", range(20))
def test_components_of_shards_are_those_of_all_comparisons(seed):
    rng = np.random.default_rng(seed)
    n_items, sizes = 12, rng.integers(0, 5, 4)
    parts = [rng.integers(0, n_items, (size, 2)) for size in sizes]

    def components(pairs, n):
        graph = coo_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(n, n))
        return connected_components(graph.tocsr(), directed=False)[1]

    summaries, number = [], []
    for pairs in parts:
        used, inverse = np.unique(pairs, return_inverse=True)
        within = components(inverse.reshape(-1, 2), max(used.size, 1))[: used.size]
        summaries.append(SimpleNamespace(component=within))
        number.append(used)
    np.testing.assert_array_equal(
        sharded._components(summaries, number, n_items), components(np.concatenate(parts), n_items)
    )


def test_a_fit_to_a_file_is_cloned_saved_and_loaded(stored, tmp_path):
    model = GPPLClassifier(weight="times").fit(stored[1])
    skpref.save(model, tmp_path / "model.skpref")
    loaded = skpref.load(tmp_path / "model.skpref")
    np.testing.assert_array_equal(loaded.utility(), model.utility())
    np.testing.assert_array_equal(loaded.rank().n_comparisons, model.rank().n_comparisons)
    np.testing.assert_array_equal(clone(model).fit(stored[1]).utility(), model.utility())


@pytest.mark.parametrize("dated", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        {"covariates": ["home"]},
        {"likelihood": "logit-ties"},
        {"covariates": ["home"], "likelihood": "probit-ties", "order_effect": True, "weight": "times"},
        {"inference": "svi", "likelihood": "logit", "max_iter": 30, "tol": 0.1},
        {"inference": "linearised", "likelihood": "probit"},
        {"time": "when", "dynamics": "drift"},
        {"time": "when", "dynamics": "form", "covariates": ["home"], "likelihood": "logit-ties"},
    ],
)
def test_what_needs_all_comparisons_brings_them_here(tmp_path, options, dated):
    rows, rng = frame(), np.random.default_rng(3)
    rows = rows.assign(home=rng.integers(-1, 2, len(rows)), y=np.where(rng.random(len(rows)) < 0.2, 0.5, rows.y))
    rows["when"] = np.arange(len(rows)) // 7
    if dated:
        rows["when"] = np.datetime64("2024-01-01") + rows["when"].to_numpy().astype("timedelta64[D]")
    rows.to_parquet(tmp_path / "rows.parquet")
    model = GPPLClassifier(left="left", right="right", random_state=0, **options)
    here, there = clone(model).fit(rows, rows.y), clone(model).fit(tmp_path / "rows.parquet")
    assert_allclose(there.predict_proba(rows), here.predict_proba(rows), rtol=1e-12)
    assert there.item_ids_.tolist() == here.item_ids_.tolist()
    assert_allclose(there.partial_fit(rows[:5], rows.y[:5]).utility(), here.partial_fit(rows[:5], rows.y[:5]).utility())


def test_shards_agree_on_what_times_are(tmp_path):
    rows = frame(n=40)
    for name, when in (("a", np.arange(40)), ("b", np.datetime64("2024-01-01") + np.arange(40))):
        rows.assign(when=when).to_parquet(tmp_path / f"{name}.parquet")
    with pytest.raises(DataError):
        GPPLClassifier(left="left", right="right", time="when").fit(tmp_path)


@pytest.mark.parametrize("method", ["partial_fit", "win_matrix"])
def test_what_needs_the_comparisons_is_refused(stored, method):
    model = GPPLClassifier().fit(stored[1])
    arguments = (stored[0][["left", "right"]], stored[0].y) if method == "partial_fit" else ()
    with pytest.raises(DataError, match=f"{method} needs the comparisons of the fit"):
        getattr(model, method)(*arguments)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"left": "home"}, "no column 'home' in X, which has the columns left, right, y, times"),
        ({"right": 1}, "right must be the name of a column of X, which is not in memory; got int"),
        ({"left": 0}, "left must be the name of a column of X, which is not in memory; got int"),
        ({"weight": "much"}, "no column 'much'"),
    ],
)
def test_parameters_that_a_file_cannot_have(stored, options, message):
    with pytest.raises(DataError, match=message):
        GPPLClassifier(**options).fit(stored[1])


def test_arguments_that_a_file_cannot_have(stored, tmp_path):
    with pytest.raises(DataError, match="y must be the name of a column of X, which is not in memory; got Series"):
        GPPLClassifier().fit(stored[1], stored[0].y)
    with pytest.raises(DataError, match="no column 'answer'"):
        GPPLClassifier().fit(stored[1], "answer")
    with pytest.raises(DataError, match="no Parquet file"):
        GPPLClassifier().fit(str(stored[1]) + "x")
    with pytest.raises(DataError, match="weights are given twice: by weight='times' and by sample_weight"):
        GPPLClassifier(weight="times").fit(stored[1], "y", "times")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="empty', a folder without Parquet files"):
        GPPLClassifier().fit(tmp_path / "empty")


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("left", None, r"column 'left', row 10: an item id is missing \(rows 140 to 209 of X\)"),
        ("left", "item 3", r"compares item 'item 3' with itself.* \(rows 140 to 209 of X\)"),
        ("y", 7, r"labels must be 0 or 1.*\(rows 140 to 209 of X\)"),
        ("y", np.nan, r"Input y contains NaN.*\(rows 140 to 209 of X\)"),
        ("times", -1, r"Negative values.*\(rows 140 to 209 of X\)"),
    ],
)
def test_rows_that_no_fit_can_use_are_named(tmp_path, column, value, message):
    rows = frame()
    rows.loc[150, "right"] = "item 3"
    rows.loc[150, column] = value
    rows.to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(DataError, match=message):
        GPPLClassifier(weight="times").fit(tmp_path / "rows.parquet")


def test_files_that_cannot_be_read_are_refused(tmp_path):
    folder = tmp_path / "rows"
    folder.mkdir()
    frame().to_parquet(folder / "1.parquet")
    frame().assign(y="left").to_parquet(folder / "2.parquet")
    with pytest.raises(
        DataError, match=r"column 'y' of X holds int64 in .*1\.parquet, and (large_)?string in .*2\.parq"
    ):
        GPPLClassifier().fit(folder)
    (folder / "2.parquet").write_text("no table")
    with pytest.raises(DataError, match=r"X cannot be read: .*2\.parquet"):
        GPPLClassifier().fit(folder)
    frame().assign(left=[[1]] * 300).to_parquet(tmp_path / "lists.parquet")
    with pytest.raises(DataError, match=r"item ids must be hashable, got .1. in row 0 of column 'left'"):
        GPPLClassifier().fit(tmp_path / "lists.parquet")


def test_shards_that_disagree_are_refused(tmp_path, stored):
    with pytest.raises(UnknownIdError, match="unknown item 'item 11'"):
        GPPLClassifier(Table(np.eye(11), ids=IDS[:11])).fit(stored[1])
    won = frame().assign(y=1)
    won.to_parquet(tmp_path / "won.parquet")
    with pytest.raises(DataError, match="order_effect=True, but every label says that the left item won"):
        GPPLClassifier(order_effect=True).fit(tmp_path / "won.parquet")
    won.iloc[:0].to_parquet(tmp_path / "empty.parquet")
    with pytest.raises(DataError, match="it has no rows"):
        GPPLClassifier().fit(tmp_path / "empty.parquet")
    won.assign(times=0).to_parquet(tmp_path / "zero.parquet")
    with pytest.raises(DataError, match="at least 2 items with a comparison of positive weight"):
        GPPLClassifier(weight="times").fit(tmp_path / "zero.parquet")
    with pytest.raises(DataError, match=r"\[0, 1\] in one shard and \[False, True\] in another"):
        shards.check_classes([np.array([0, 1]), np.array([False, True])])
