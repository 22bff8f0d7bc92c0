"""Models in MLflow's format: written as data, loaded, registered, and asked over HTTP."""

import asyncio
import importlib.util
import json
import pkgutil
import threading
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.compose import make_column_transformer
from sklearn.exceptions import NotFittedError
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

import skpref
from skpref import (
    BayesianGPLVM,
    CrowdGPPL,
    GibbsM3F,
    GPOrdinalRegressor,
    GPPLClassifier,
    OneHotDesign,
    SVGPRegressor,
    Table,
    VariationalFM,
    VariationalFMClassifier,
)
from skpref.exceptions import DataError, DataWarning, MissingExtraError, TrackingWarning
from skpref.tracking import MLflowCallback, log_model, save_model, track
from skpref.tracking.model import requirements

mlflow = pytest.importorskip("mlflow")
pytestmark = pytest.mark.usefixtures("home")

PAIRS, FIRST_WINS = [["tea", "coffee"], ["tea", "water"], ["coffee", "water"]], [1, 1, 1]
X = np.random.default_rng(0).standard_normal((20, 2))
RATED = [[user, item] for user in ("ann", "bob", "cyd") for item in ("tea", "coffee", "water")]
STARS = [3, 1, 2, 3, 2, 1, 3, 1, 2]


def with_features():
    """Items of a table: others are unknown."""
    drinks = Table([[0.0], [0.5], [1.0]], ids=["tea", "coffee", "water"])
    return GPPLClassifier(items=drinks).fit(PAIRS, FIRST_WINS)


def round_trip(estimator, example, folder):
    save_model(estimator, folder / "model", example)
    return mlflow.pyfunc.load_model(str(folder / "model"))


# ------------------------------------------------------------------------------------------------------------- as data
def test_every_file_is_data(tmp_path):
    save_model(GPPLClassifier().fit(PAIRS, FIRST_WINS), tmp_path / "model", PAIRS)
    names = {path.name for path in (tmp_path / "model").rglob("*") if path.is_file()}
    assert not [name for name in names if name.endswith((".pkl", ".pickle", ".joblib", ".cloudpickle"))]
    assert {"MLmodel", "model.skpref", "serve.py", "requirements.txt", "input_example.json"} <= names
    lines = (tmp_path / "model" / "requirements.txt").read_text("utf-8").splitlines()
    assert lines == requirements()
    assert f"mlflow=={mlflow.__version__}" in lines
    assert all("==" in line for line in lines[1:])


@pytest.mark.parametrize(
    ("origin", "line"),
    [
        (None, f"skpref=={skpref.__version__}"),
        ('{"url": "file:///home/me/skpref.whl", "archive_info": {}}', "skpref @ file:///home/me/skpref.whl"),
        ('{"url": "https://a/b", "vcs_info": {"vcs": "git", "commit_id": "c1"}}', "skpref @ git+https://a/b@c1"),
    ],
)
def test_the_package_is_required_from_where_it_came(monkeypatch, origin, line):
    monkeypatch.setattr(
        "importlib.metadata.distribution", lambda _: SimpleNamespace(read_text=lambda _: origin, version="1.0")
    )
    assert requirements()[0] == line


@pytest.mark.parametrize(
    "pipeline",
    [
        make_pipeline(StandardScaler(), SVGPRegressor(random_state=0, inducing=5)),
        make_pipeline(SimpleImputer(), "passthrough", StandardScaler(), VariationalFM(max_iter=3)),
        make_pipeline(make_pipeline(StandardScaler()), VariationalFM(max_iter=3)),
    ],
)
def test_pipelines_with_steps_of_scikit_learn(pipeline, tmp_path):
    y = X[:, 0] + 0.1 * np.random.default_rng(1).standard_normal(20)
    served = round_trip(pipeline.fit(X, y), X, tmp_path)
    np.testing.assert_array_equal(served.predict(X), pipeline.predict(X))
    std = served.predict(X, params={"return_std": True})
    np.testing.assert_allclose(std[["prediction", "std"]].T, pipeline.predict(X, return_std=True))


def test_what_cannot_be_saved_is_refused(tmp_path):
    odd = make_pipeline(FunctionTransformer(np.arctan), VariationalFM(max_iter=3)).fit(X**2, X[:, 0])
    with pytest.raises(DataError, match=r"cannot save a Pipeline.*func: numpy.*arctan is not among"):
        save_model(odd, tmp_path / "model")


# ------------------------------------------------------------------------------------------------------------- params
def test_classes_probabilities_and_latent_values(tmp_path):
    model = GPPLClassifier().fit(PAIRS, FIRST_WINS)
    served = round_trip(model, PAIRS, tmp_path)
    assert [column.name for column in served.metadata.signature.inputs.inputs] == ["left", "right"]
    asked = served.input_example
    np.testing.assert_array_equal(served.predict(asked), model.predict(PAIRS[:2]))
    proba = served.predict(asked, params={"return_proba": True})
    np.testing.assert_array_equal(proba.to_numpy(), model.predict_proba(PAIRS[:2]))
    assert list(proba.columns) == ["0", "1"]
    latent = served.predict(asked, params={"return_std": True})
    mean, variance = model.latent_mean_and_variance(PAIRS[:2])
    np.testing.assert_allclose(latent[["latent", "latent_std"]].to_numpy(), np.c_[mean, np.sqrt(variance)])
    whole = served.predict(asked, params={"return_proba": True, "return_std": True})
    assert list(whole.columns) == ["prediction", "latent", "latent_std", "0", "1"]
    np.testing.assert_array_equal(whole[["0", "1"]], proba)
    np.testing.assert_array_equal(whole[["latent", "latent_std"]], latent[["latent", "latent_std"]])


@pytest.mark.parametrize("return_proba", [False, True])
def test_answers_for_users_in_the_place_of_the_column(tmp_path, return_proba):
    answers = [[user, *pair] for user in ("ann", "bob") for pair in PAIRS]
    model = CrowdGPPL(n_factors=1, random_state=0).fit(answers, [1, 1, 1, 0, 0, 0])
    served = round_trip(model, answers, tmp_path)
    rows = served.input_example.drop(columns="user")
    predictions = served.predict(rows, params={"users": ["bob", "ann"], "return_proba": return_proba})
    assert list(predictions.columns) == ["bob", "ann"]
    for user in ("ann", "bob"):
        asked = [[user, *pair] for pair in PAIRS[:2]]
        expected = model.predict_proba(asked)[:, 1] if return_proba else model.predict(asked)
        np.testing.assert_allclose(predictions[user], expected)
    with_column = served.predict(served.input_example)
    np.testing.assert_array_equal(with_column, model.predict(answers[:2]))


@pytest.mark.parametrize("words", [False, True])
def test_users_have_the_type_of_their_ids(tmp_path, words):
    answers = [[user, *pair] for user in (1, 2) for pair in PAIRS] * 10
    y = np.tile([1, 1, 1, 0, 0, 0], 10)
    model = CrowdGPPL(n_factors=1, random_state=0).fit(answers, np.where(y, "left", "right") if words else y)
    served = round_trip(model, answers, tmp_path)
    rows = served.input_example.drop(columns="user")
    both = served.predict(rows, params={"users": [1, 2], "return_proba": True})
    assert list(both.columns) == [1, 2]
    for user in (1, 2):
        left = model.predict_proba([[user, *pair] for pair in PAIRS[:2]])[:, 0 if words else 1]
        np.testing.assert_allclose(both[user], left)
    assert abs(both[1] - both[2]).min() > 0.1
    with pytest.raises(mlflow.MlflowException, match=r"unknown user 7 in users: the model knows 2 users, such as 1, 2"):
        served.predict(rows, params={"users": [1, 7]})
    with pytest.raises(mlflow.MlflowException):
        served.predict(rows, params={"users": ["ann"]})
    predictor = served.unwrap_python_model().predictor  # without a signature, names may be the text of ids
    assert list(predictor.predict(rows, {"users": ["2"]}).columns) == [2]


def test_users_of_a_table_are_known(tmp_path):
    answers = [[user, *pair] for user in ("ann", "bob") for pair in PAIRS]
    people = Table([[0.0], [1.0], [2.0]], ids=["ann", "bob", "cyd"])
    model = CrowdGPPL(users=people, n_factors=1, random_state=0).fit(answers, [1, 1, 1, 0, 0, 0])
    served = round_trip(model, answers, tmp_path)
    rows = served.input_example.drop(columns="user")
    np.testing.assert_array_equal(
        served.predict(rows, params={"users": ["cyd"]})["cyd"], model.predict([["cyd", *pair] for pair in PAIRS[:2]])
    )
    with pytest.raises(mlflow.MlflowException, match="unknown user 'dan' in users"):
        served.predict(rows, params={"users": ["dan"]})


def test_raters_and_designs(tmp_path):
    chains = GibbsM3F(max_iter=6, burn_in=2, random_state=0).fit(RATED, STARS)
    served = round_trip(chains, RATED, tmp_path / "chains")
    np.testing.assert_array_equal(served.predict(served.input_example), chains.predict(RATED[:2]))
    assert set(served.predict(served.input_example, params={"return_std": True})) == {
        "prediction",
        "latent",
        "latent_std",
    }
    items = served.input_example[["item"]]
    assert list(served.predict(items, params={"users": ["cyd"]})) == ["cyd"]
    machine = make_pipeline(OneHotDesign(), VariationalFMClassifier(max_iter=5, random_state=0))
    served = round_trip(machine.fit(RATED, np.array(STARS) > 1), RATED, tmp_path / "machine")
    np.testing.assert_array_equal(served.predict(served.input_example), machine.predict(RATED[:2]))


def test_levels_whole_numbers_as_ids_and_frames(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["height", "width"])
    grades = GPOrdinalRegressor(random_state=0, optimizer=None).fit(frame, np.arange(20) % 3)
    served = round_trip(grades, frame, tmp_path / "grades")
    turned = frame[["width", "height"]]
    np.testing.assert_array_equal(served.predict(turned), grades.predict(frame))
    numbers = GPPLClassifier().fit([[1, 2], [2, 3]], [1, 1])
    served = round_trip(numbers, [[1, 2], [2, 3]], tmp_path / "numbers")
    assert str(served.metadata.signature.inputs.inputs[0].type) == "DataType.long"
    np.testing.assert_array_equal(served.predict(served.input_example), [1, 1])
    mixed = pandas.DataFrame({"colour": ["red", "blue"] * 10})
    encoded = make_pipeline(OneHotEncoder(), VariationalFM(max_iter=3)).fit(mixed, X[:, 0])
    served = round_trip(encoded, mixed, tmp_path / "colours")
    np.testing.assert_allclose(served.predict(mixed), encoded.predict(mixed))


def test_a_model_that_transforms(tmp_path):
    model = BayesianGPLVM(1, inducing=6, tol=0.1, random_state=0).fit(X)
    served = round_trip(model, X, tmp_path)
    np.testing.assert_array_equal(served.predict(X), model.transform(X))
    with pytest.raises(DataError, match="one that predicts or transforms; got int"):
        save_model(3, tmp_path / "three")


def test_what_a_model_cannot_is_said(tmp_path):
    served = round_trip(GPPLClassifier().fit(PAIRS, FIRST_WINS), PAIRS, tmp_path)
    names = [param.name for param in served.metadata.signature.params.params]
    assert names == ["return_std", "return_proba", "rank"]
    inner = served.unwrap_python_model().predictor
    with pytest.raises(ValueError, match="does not distinguish users"):
        inner.predict(served.input_example, {"users": ["ann"]})
    with pytest.raises(ValueError, match="cannot be asked for together"):
        inner.predict(served.input_example, {"users": ["ann"], "return_std": True})


def test_an_unknown_id_is_named(tmp_path):
    served = round_trip(with_features(), PAIRS, tmp_path)
    with pytest.raises(mlflow.MlflowException, match="unknown item 'milk'"):
        served.predict(served.input_example.assign(left="milk"))


# -------------------------------------------------------------------------------------------------------------- frames
FRAME = {
    "day": list(range(20)),
    "judge": ["ann", "bob"] * 10,
    "a": ["tea", "tea", "coffee", "milk"] * 5,
    "b": ["coffee", "milk", "milk", "water"] * 5,
    "words_a": [number % 7 for number in range(20)],
    "words_b": [number % 5 for number in range(20)],
    "winner": ["a"] * 20,
}
WON = np.arange(20) % 3 > 0
KINDS = ["pandas", "categories", "arrow", "polars", "pyarrow", "objects"]


def framed(kind, *columns):
    """A frame of any library; `day` and `winner` are read by no model."""
    part = {name: FRAME[name] for name in columns or FRAME}
    frame = pytest.importorskip("pandas").DataFrame(part)
    if kind == "categories":
        return frame.astype({name: "category" for name in ("judge", "a", "b") if name in part})
    if kind == "arrow":
        return frame.convert_dtypes(dtype_backend="pyarrow")
    if kind == "objects":
        return frame.astype(object)
    library = {"polars": "polars.DataFrame", "pyarrow": "pyarrow.table"}.get(kind)
    return frame if library is None else pytest.importorskip(kind) and pkgutil.resolve_name(library)(part)


def columns_of(served):
    """Columns of a request, and which are required."""
    return {column.name: column.required for column in served.metadata.signature.inputs.inputs}


@pytest.mark.filterwarnings("ignore:Found extra inputs")
@pytest.mark.parametrize("kind", KINDS)
def test_a_request_has_what_the_model_reads_whatever_frame_it_was_fitted_to(kind, tmp_path):
    model = GPPLClassifier(left="a", right="b", covariates=[("words_a", "words_b")]).fit(framed(kind), WON)
    served = round_trip(model, framed(kind), tmp_path)
    assert columns_of(served) == {"a": True, "b": True, "words_a": False, "words_b": False}
    left = {"return_proba": True}
    whole = framed("pandas")
    np.testing.assert_allclose(served.predict(whole, params=left), model.predict_proba(whole))
    ids = framed("pandas", "a", "b")
    np.testing.assert_allclose(served.predict(ids, params=left), model.predict_proba(ids))
    with pytest.raises(mlflow.MlflowException, match="words_b"):
        served.predict(framed("pandas", "a", "b", "words_a"))


@pytest.mark.parametrize("kind", ["categories", "polars"])
def test_users_replace_the_column_of_a_frame(kind, tmp_path):
    model = CrowdGPPL(user="judge", left="a", right="b", n_factors=1, random_state=0).fit(framed(kind), WON)
    ratings = framed(kind, "judge", "a")
    chains = GibbsM3F(max_iter=4, burn_in=2, duplicates="last", random_state=0).fit(ratings, WON.astype(int))
    for name, estimator, X, items in (("crowd", model, framed(kind), ("a", "b")), ("m3f", chains, ratings, ("a",))):
        served = round_trip(estimator, X, tmp_path / name)
        assert columns_of(served) == {"judge": False, **dict.fromkeys(items, True)}
        both = served.predict(framed("pandas", *items), params={"users": ["bob", "ann"]})
        whole = framed("pandas", "judge", *items)
        np.testing.assert_array_equal(both["ann"], estimator.predict(whole.assign(judge="ann")))
        np.testing.assert_array_equal(served.predict(whole), estimator.predict(whole))
        with pytest.raises(mlflow.MlflowException, match="column 'judge' is missing; users may replace it"):
            served.predict(framed("pandas", *items))


@pytest.mark.parametrize("kind", KINDS)
def test_decimals_are_not_cut_where_the_fit_had_integers(kind, tmp_path):
    X = framed(kind, "words_a", "words_b")
    model = SVGPRegressor(inducing=5, random_state=0, optimizer=None).fit(X, WON.astype(float))
    served = round_trip(model, X, tmp_path)
    numbers = framed("pandas", "words_a", "words_b")
    np.testing.assert_allclose(served.predict(numbers), model.predict(numbers))
    np.testing.assert_allclose(served.predict(numbers + 0.9), model.predict(numbers + 0.9))


def test_a_pipeline_asks_for_the_columns_of_its_transformers(tmp_path):
    whole = framed("polars")
    columns = make_column_transformer((OneHotEncoder(), ["judge"]), (StandardScaler(), ["words_a"]), ("drop", ["day"]))
    model = make_pipeline(columns, VariationalFM(max_iter=2, random_state=0)).fit(whole, WON.astype(float))
    served = round_trip(model, whole, tmp_path)
    assert columns_of(served) == {"judge": True, "words_a": True}
    np.testing.assert_allclose(served.predict(framed("pandas", "judge", "words_a")), model.predict(whole))


def test_columns_by_position_are_served(tmp_path):
    X = np.array(list(zip(*(FRAME[name] for name in ("day", "a", "b", "words_a")), strict=True)), dtype=object)
    with pytest.warns(DataWarning, match="favours the left side"):
        model = GPPLClassifier(left=1, right=2, covariates=[3]).fit(X, WON)
    served = round_trip(model, X, tmp_path)
    assert columns_of(served) == {"left": True, "right": True, "3": False}
    np.testing.assert_array_equal(served.predict(served.input_example), model.predict(X[:2]))
    ids = served.input_example[["left", "right"]]
    np.testing.assert_array_equal(served.predict(ids), model.predict(X[:2, 1:3]))


def test_ties_and_ranks_are_asked_for(tmp_path):
    X, y = framed("pandas", "a", "b"), np.where(np.arange(20) % 4, WON, 0.5)
    model = GPPLClassifier(likelihood="logit-ties").fit(X, y)
    served = round_trip(model, X, tmp_path)
    ties = served.predict(X, params={"ties": True})
    assert list(ties.columns) == ["left", "tie", "right"]
    np.testing.assert_allclose(ties, model.predict_proba(X, ties=True))
    ranks = served.predict(X[:2], params={"rank": True})
    assert list(ranks["id"]) == model.rank(["coffee", "milk", "tea"]).id.tolist()
    inner = served.unwrap_python_model().predictor
    inner._last = SVGPRegressor()  # whose type has no rank
    with pytest.raises(DataError, match="ranks no items"):
        inner.predict(X, {"rank": True})


@pytest.mark.parametrize("dated", [True, False])
def test_a_model_whose_utilities_move_asks_for_the_time(tmp_path, dated):
    X = framed("pandas", "a", "b").assign(when=np.arange(20))
    if dated:
        X["when"] = np.datetime64("2024-01-01") + X["when"].astype("timedelta64[D]")
    model = GPPLClassifier(time="when").fit(X, WON)
    served = round_trip(model, X, tmp_path)
    assert [column.name for column in served.metadata.signature.inputs if column.required] == ["a", "b", "when"]
    np.testing.assert_array_equal(served.predict(X), model.predict(X))
    params = {"return_proba": True}
    later = X.assign(when=X["when"].dt.strftime("%Y-%m-%dT%H:%M:%S.000") if dated else X["when"] + 0.5)  # as in JSON
    np.testing.assert_array_equal(served.predict(later, params=params), model.predict_proba(later))
    for number in (20, 1704153600, 1704153600000) if dated else ():
        with pytest.raises(mlflow.MlflowException, match="'when', are numbers, and those of fit were dates"):
            served.predict(X.assign(when=number))


@pytest.mark.parametrize("named", [False, True])
def test_models_of_tasks_are_served(tmp_path, named):
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    X = np.array([[f"u{u}", *rng.permutation(list("abcd"))[:3]] for u in range(8) for _ in range(4)], dtype=object)
    frame = pd.DataFrame(X, columns=["who", "first", "second", "third"])
    asked = frame if named else X
    for model, rows in (
        (CrowdGPPL(likelihood="luce", random_state=0), asked),
        (GPPLClassifier(likelihood="luce"), frame[["first", "second", "third"]] if named else X[:, 1:]),
    ):
        model.fit(rows, np.arange(32) % 3)
        served = round_trip(model, rows, tmp_path / type(model).__name__)
        names = [column.name for column in served.metadata.signature.inputs]
        table = pd.DataFrame(np.asarray(rows, dtype=object), columns=names)
        np.testing.assert_array_equal(served.predict(table), model.predict(rows))
        shares = served.predict(table, params={"return_proba": True})
        np.testing.assert_allclose(shares, model.predict_proba(rows))
        assert list(shares.columns) == ["0", "1", "2"]
        assert sorted(served.predict(table, params={"rank": True})["id"]) == list("abcd")
        fewer = table.drop(columns=names[-1])  # two items are shown
        np.testing.assert_array_equal(served.predict(fewer), model.predict(fewer if named else fewer.to_numpy()))
        assert set(served.predict(fewer, params={"rank": True})["id"]) <= set("abcd")
    crowd = round_trip(CrowdGPPL(likelihood="luce").fit(X, np.arange(32) % 3), X, tmp_path / "users")
    with pytest.raises(mlflow.MlflowException, match="several probabilities"):
        crowd.predict(crowd.input_example, params={"users": ["u1"], "return_proba": True})


def test_a_model_that_cannot_be_logged_leaves_its_run_finished(stored, monkeypatch):
    def fails(**_):
        raise mlflow.MlflowException("no signature")

    monkeypatch.setattr("mlflow.pyfunc.save_model", fails)
    with pytest.warns(TrackingWarning, match="is not logged: no signature"):
        GPPLClassifier().set_callbacks(MLflowCallback("no model", plots=False)).fit(PAIRS, FIRST_WINS)
    (run,) = stored("no model").runs
    assert run.info.status == "FINISHED"


def test_a_fitted_model_is_logged_with_a_run(stored):
    model = with_features()
    with pytest.raises(DataError, match=r"log_model needs a run: call it in a block of track"):
        log_model(model)
    with track("fitted", "fitted before") as run:
        log_model(model, PAIRS)
        with pytest.raises(NotFittedError):
            run.log_model(GPPLClassifier())
    (logged,) = stored("fitted before").models()
    assert logged.source_run_id == run.run_id
    mlflow.set_tracking_uri(run.tracker.outbox.client.uri)
    try:
        mlflow.set_experiment("chosen in MLflow")
        with mlflow.start_run() as own:
            log_model(model, PAIRS)
        with_features().set_callbacks(MLflowCallback(plots=False, log_model=False)).fit(PAIRS, FIRST_WINS)
        (logged,) = stored("chosen in MLflow").models()
        assert logged.source_run_id == own.info.run_id
        assert len(stored("chosen in MLflow").runs) == 2
    finally:
        mlflow.set_tracking_uri(None)


# ------------------------------------------------------------------------------------------------------------ registry
def test_versions_and_aliases(stored):
    for _ in range(2):
        callback = MLflowCallback("registered", registered_model_name="drinks", plots=False)
        model = GPPLClassifier().set_callbacks(callback).fit(PAIRS, FIRST_WINS)
    client = stored("registered").client
    assert sorted(int(version.version) for version in client.search_model_versions("name = 'drinks'")) == [1, 2]
    client.set_registered_model_alias("drinks", "champion", "2")
    mlflow.set_tracking_uri(callback.tracker.outbox.client.uri)
    try:
        served = mlflow.pyfunc.load_model("models:/drinks@champion")
        (logged, *_) = stored("registered").models()
        by_id = mlflow.pyfunc.load_model(f"models:/{logged.model_id}")
    finally:
        mlflow.set_tracking_uri(None)
    for loaded in (served, by_id):
        np.testing.assert_array_equal(loaded.predict(served.input_example), model.predict(PAIRS[:2]))
    assert served.metadata.run_id in {run.info.run_id for run in stored("registered").runs}


# ------------------------------------------------------------------------------------------------------------- serving
@contextmanager
def answering(folder):
    """The application that ``mlflow models serve`` runs, in a thread."""
    import socket

    import uvicorn
    from mlflow.pyfunc import scoring_server

    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        app = scoring_server.init(mlflow.pyfunc.load_model(str(folder)))
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
        thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[door])), daemon=True)
        thread.start()
        deadline = time.monotonic() + 60.0
        while not server.started:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        try:
            yield lambda body: ask(door.getsockname()[1], body)
        finally:
            server.should_exit = True
            thread.join(timeout=30.0)


def ask(port, body):
    """Status and answer of a request."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/invocations", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=60.0) as answer:  # noqa: S310 - of our own address
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def test_a_server_cuts_no_decimals(tmp_path):
    frame = pytest.importorskip("pandas").DataFrame({"bmi": np.arange(20, 40), "age": np.arange(20)})
    model = SVGPRegressor(inducing=5, random_state=0, optimizer=None).fit(frame, 2.0 * frame.bmi)
    save_model(model, tmp_path / "model", frame)
    asked = [{"bmi": 25.9, "age": 5}]
    with answering(tmp_path / "model") as asking:
        status, answer = asking({"dataframe_records": asked})
    assert status == 200
    np.testing.assert_allclose(answer["predictions"], model.predict(type(frame)(asked)))


def check_served_pairs(asking, model):
    records = [{"left": "tea", "right": "water"}, {"left": "water", "right": "coffee"}]
    assert asking({"dataframe_records": records}) == (200, {"predictions": [1, 0]})
    split = {"columns": ["left", "right"], "data": [["tea", "coffee"]]}
    status, answer = asking({"dataframe_split": split, "params": {"return_proba": True}})
    assert status == 200
    expected = model.predict_proba([["tea", "coffee"]])[0]
    np.testing.assert_allclose(list(answer["predictions"][0].values()), expected)
    status, answer = asking({"dataframe_records": [{"left": "tea", "right": "x-17"}]})
    assert status == 400
    assert "unknown item 'x-17'" in answer["message"]
    status, answer = asking({"dataframe_records": [{"left": "tea"}]})
    assert status == 400
    assert "right" in answer["message"]


def test_a_server_answers_rows_of_ids(tmp_path):
    model = with_features()
    save_model(model, tmp_path / "model", PAIRS)
    with answering(tmp_path / "model") as asking:
        check_served_pairs(asking, model)


def test_without_pandas_a_model_is_refused_and_the_run_goes_on(stored, tmp_path, monkeypatch):
    fitted, find = with_features(), importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pandas" else find(name))
    with pytest.raises(MissingExtraError, match=r"need pandas: pip install 'skpref\[mlflow\]'"):
        save_model(fitted, tmp_path / "model")
    model = GPPLClassifier().set_callbacks(MLflowCallback("drinks", plots=False))
    with pytest.warns(TrackingWarning, match="is not logged: models in MLflow's format need pandas"):
        model.fit(PAIRS, FIRST_WINS)
    (run,) = stored("drinks").runs
    assert run.info.status == "FINISHED"
    assert "not logged" in run.data.tags["model"]
