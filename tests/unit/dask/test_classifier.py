"""Comparisons on a cluster: the results in memory."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skpref import GPPLClassifier, Table
from skpref.dask.shards import Parcel
from skpref.exceptions import DataError, DataWarning
from skpref.tracking.run_metadata import describe_data
from tests.policies import set_policy
from tests.unit.dask.lazily import lazy, left_on_cluster, tasks

distributed = pytest.importorskip("distributed")
dask = pytest.importorskip("dask")
array = pytest.importorskip("dask.array")
frames = pytest.importorskip("dask.dataframe")
pandas = pytest.importorskip("pandas")
IDS = np.array([f"item {k}" for k in range(8)])
TOL = 0.1  # few passes: rounds cost 30 ms each


@pytest.fixture
def _separate_offsets(monkeypatch):
    # Offsets in a block of their own take rounds of conjugate gradients, as those of many items do.
    set_policy(monkeypatch, "gp.pairwise", joint_size=0)
    set_policy(monkeypatch, "inference", brought_rows=0)


def rows(seed=0, n=200):
    rng = np.random.default_rng(seed)
    left = rng.integers(0, IDS.size, n)
    right = (left + rng.integers(1, IDS.size, n)) % IDS.size
    z = np.linspace(-1, 1, IDS.size)
    y = (z[left] - z[right] + rng.normal(size=n) > 0).astype(int)
    return pandas.DataFrame({"left": IDS[left], "right": IDS[right], "y": y, "times": rng.integers(0, 3, n)})


@pytest.mark.usefixtures("client")
@pytest.mark.filterwarnings("ignore:covariate .* is never negative")
def test_covariates_ties_and_times_are_those_in_memory():
    frame = rows().assign(when=np.arange(200.0), y=np.arange(200) % 3 / 2)
    options = {"time": "when", "covariates": ["times"], "likelihood": "logit-ties", "dynamics": "drift"}
    model = GPPLClassifier(left="left", right="right", random_state=0, tol=TOL, **options).fit(lazy(frame), "y")
    here = GPPLClassifier(left="left", right="right", random_state=0, tol=TOL, **options).fit(frame, frame.y)
    assert_allclose(model.predict_proba(frame), here.predict_proba(frame), rtol=1e-9)
    assert_allclose(
        model.predict_proba(lazy(frame), ties=True).compute(), here.predict_proba(frame, ties=True), rtol=1e-9
    )


@pytest.mark.usefixtures("client")
def test_labels_are_the_column_y_as_in_parquet_files_unless_it_is_a_side():
    frame = rows()
    named = GPPLClassifier(random_state=0, tol=TOL).fit(lazy(frame), "y")
    found = GPPLClassifier(random_state=0, tol=TOL).fit(lazy(frame))
    assert_array_equal(found.utility()[0], named.utility()[0])
    sides = frame.loc[frame.y == 1, ["left", "right"]]
    won = GPPLClassifier(random_state=0, tol=TOL).fit(lazy(sides))
    renamed = GPPLClassifier(random_state=0, tol=TOL).fit(lazy(sides.rename(columns={"right": "y"})))
    assert_array_equal(renamed.utility()[0], won.utility()[0])


def fitted(frame, **options):
    collection = frame if hasattr(frame, "to_delayed") else lazy(frame)
    return GPPLClassifier(random_state=0, tol=TOL, **options).fit(collection[["left", "right"]], collection["y"])


@pytest.mark.usefixtures("_separate_offsets")
@pytest.mark.parametrize(
    "options",
    [
        {"order_effect": True, "likelihood": "logit"},
        {"items": Table(np.random.default_rng(1).normal(size=(8, 2)), ids=IDS), "inducing": 5},
    ],
    ids=["order effect", "features"],
)
def test_the_result_is_that_of_a_fit_in_memory(client, options):
    frame = rows()
    pairs = frame[["left", "right"]]
    here, there = GPPLClassifier(random_state=0, tol=TOL, **options).fit(pairs, frame.y), fitted(frame, **options)
    for a, b in zip(here.utility(return_std=True), there.utility(return_std=True), strict=True):
        assert_allclose(a, b, atol=1e-8)
    assert_allclose(there.lower_bounds_, here.lower_bounds_, rtol=1e-9)
    for name in ("item_ids_", "components_", "classes_", "feature_names_in_", "n_features_in_"):
        assert_array_equal(getattr(there, name), getattr(here, name))
    for method in ("predict", "predict_proba", "decision_function", "predict_preference"):
        answers = getattr(there, method)(lazy(frame)[["left", "right"]])
        assert isinstance(answers, array.Array)
        assert_allclose(answers.compute(), getattr(here, method)(pairs), atol=1e-8)
        assert_allclose(getattr(there, method)(pairs), getattr(here, method)(pairs), atol=1e-8)


def test_weights_and_labels_as_columns_or_arrays(client):
    frame, collection = rows(), lazy(rows())
    wanted = GPPLClassifier(tol=TOL).fit(frame[["left", "right"]], frame.y, frame.times).utility()
    named = GPPLClassifier(tol=TOL, weight="times").fit(collection, "y")
    apart = GPPLClassifier(tol=TOL).fit(collection[["left", "right"]], collection["y"], collection["times"])
    ids = collection[["left", "right"]].to_dask_array(lengths=True)
    arrays = GPPLClassifier(tol=TOL).fit(ids, collection["y"].to_dask_array(), collection["times"].to_dask_array())
    for model in (named, apart, arrays):
        assert_allclose(model.utility(), wanted, atol=1e-8)
    assert not hasattr(arrays, "feature_names_in_")
    assert_allclose(arrays.predict_proba(ids).compute(), arrays.predict_proba(frame[["left", "right"]].to_numpy()))


def test_columns_of_parquet_files_fit_together(client, tmp_path):
    for number, part in enumerate(np.array_split(np.arange(200), 3)):
        rows().iloc[part].to_parquet(tmp_path / f"{number}.parquet")
    stored = frames.read_parquet(tmp_path)
    sides = stored[["left", "right"]]
    assert len(sides.to_delayed()) != len(stored["y"].to_delayed())  # Dask joins partitions of few columns
    model = GPPLClassifier(tol=TOL).fit(sides, stored["y"], stored["times"])
    wanted = GPPLClassifier(tol=TOL).fit(rows()[["left", "right"]], rows().y, rows().times)
    assert_allclose(model.utility(), wanted.utility(), atol=1e-8)


def test_scores_of_collections(client):
    frame = rows()
    collection, pairs = lazy(frame), frame[["left", "right"]]
    model = fitted(frame)
    wanted = model.score(pairs, frame.y), model.score(pairs, frame.y, frame.times)
    assert 0.5 < wanted[0] != wanted[1]
    lazy_pairs = collection[["left", "right"]]
    assert model.score(lazy_pairs, collection["y"]) == pytest.approx(wanted[0])
    assert model.score(lazy_pairs, collection["y"], collection["times"]) == pytest.approx(wanted[1])
    with pytest.raises(DataError, match="ties=True needs a likelihood in which a tie is an answer"):
        model.predict_proba(lazy_pairs, ties=True).compute()


@pytest.mark.usefixtures("client")
def test_no_key_has_two_graphs(caplog, tmp_path):
    for number, part in enumerate(np.array_split(np.arange(200), 3)):
        rows().assign(z=1).iloc[part].to_parquet(tmp_path / f"{number}.parquet")
    stored = frames.read_parquet(tmp_path).query("times < 9")
    sides = stored[["left", "right"]]
    with ThreadPoolExecutor(1) as threads:
        model = GPPLClassifier(tol=TOL).fit(sides, stored["y"])
        running = threads.submit(GPPLClassifier(tol=TOL).fit, sides, stored["y"])
        while not running.done():
            model.predict(sides).compute()
        running.result()
    probability = model.predict_proba(sides)
    kept = probability.persist()
    dask.compute(probability, probability[:, 1].sum())
    assert kept.compute().shape == (200, 2)
    assert "different `run_spec`" not in caplog.text


@pytest.mark.usefixtures("client")
def test_predictions_for_arrays_of_known_length_have_it():
    pairs = rows()[["left", "right"]].to_numpy()
    blocks = array.from_array(pairs, chunks=(60, 1))
    model = GPPLClassifier(tol=TOL).fit(blocks, array.from_array(rows().y.to_numpy(), chunks=60))
    assert model.predict_proba(blocks).shape == (200, 2)
    assert_array_equal(model.predict(blocks)[50:70].compute(), model.predict(pairs)[50:70])


@pytest.mark.parametrize(
    ("options", "arguments", "message"),
    [
        ({}, lambda c: (c, rows().y), "X is a collection of Dask, so y must be one, too.*got Series"),
        ({}, lambda c: (c, c["y"].repartition(npartitions=2)), "X has 4 partitions and y has 2"),
        ({}, lambda c: (c, "answer"), "no column 'answer' in X, which has the columns left, right"),
        ({}, lambda c: (c[["left"]], c["y"]), "no column 'a second column' in X"),
        ({}, lambda c: (c, c["times"]), r"labels must be 0 or 1.*\(rows .* of X\)"),
        ({"items": Table(np.eye(7), ids=IDS[:7])}, lambda c: (c, c["y"]), "unknown item 'item 7'"),
        ({"weight": "times"}, lambda c: (c, c["y"], c["times"]), "weights are given twice: by weight='times'"),
    ],
)
def test_what_cannot_be_fitted_is_refused(client, options, arguments, message):
    with pytest.raises(DataError, match=message):
        GPPLClassifier(**options).fit(*arguments(lazy(rows())))


def test_warnings_name_the_line_of_the_caller(client):
    collection = lazy(pandas.DataFrame({"left": ["a", "c"] * 20, "right": ["b", "d"] * 20}))
    with pytest.warns(DataWarning, match="2 connected components") as caught:
        GPPLClassifier(tol=TOL).fit(collection)
    assert caught[0].filename == __file__


@pytest.mark.parametrize("values", [array.ones((3, 2)), lazy(rows())], ids=["array", "frame"])
def test_tracking_does_not_load_a_collection(values):
    with pytest.raises(TypeError, match="the data is a collection of Dask"):
        describe_data(values, None, None)


def test_a_fit_leaves_nothing_on_the_cluster_even_where_it_fails(client):
    before = client.run_on_scheduler(tasks)  # errors of other tests may refer to futures
    model = fitted(rows(7))
    with pytest.raises(DataError, match="labels must be 0 or 1"):
        GPPLClassifier().fit(lazy(rows(8)), "times")
    assert model.n_iter_
    assert left_on_cluster(client, before) == set()


def test_without_a_client_the_message_says_how_to_start_one(monkeypatch):
    def missing():
        raise ValueError("No clients found")

    monkeypatch.setattr(distributed, "default_client", missing)
    with pytest.raises(DataError, match="there is no client of a cluster: start one by"):
        GPPLClassifier().fit(lazy(rows()))


def test_parcels_know_their_size_and_arrive_aligned():
    parcel = Parcel({"x": np.arange(1000.0), "y": "text"})
    assert 8000 < parcel.__sizeof__() < 9000
    copy = pickle.loads(pickle.dumps(parcel, protocol=5)).value
    assert_array_equal(copy["x"], parcel.value["x"])
    assert (copy["x"].ctypes.data % 64, copy["x"].flags.writeable, copy["y"]) == (0, True, "text")
