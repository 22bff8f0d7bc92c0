"""A store that fails costs one warning, never a fit; what it has missed arrives later, once."""

import json
import resource
import sys
import warnings

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skpref import GPPLClassifier, VariationalFM
from skpref.cli import main
from skpref.exceptions import TrackingWarning
from skpref.tracking import MLflowCallback, sync, track
from tests.policies import set_policy

mlflow = pytest.importorskip("mlflow")
pytest.importorskip("sklearn.callback", reason="scikit-learn 1.8 does not hand callbacks on")
pytestmark = pytest.mark.usefixtures("home")

PAIRS, FIRST_WINS = [["tea", "coffee"], ["tea", "water"], ["coffee", "water"]], [1, 1, 1]
X = np.random.default_rng(0).standard_normal((24, 2))
FM = VariationalFM(max_iter=3, tol=0.0, random_state=7)


@pytest.fixture
def default(home):
    return f"sqlite:///{home}/mlruns/mlflow.db"


def kept(spool):
    return [json.loads(line) for file in spool.glob("*.jsonl") for line in file.read_text("utf-8").splitlines()]


def test_a_search_without_a_server_is_sent_later_and_once(closed_port, default, tmp_path, stored):
    callback = MLflowCallback("no server", closed_port, spool=tmp_path)
    search = GridSearchCV(make_pipeline(StandardScaler(), FM), {"variationalfm__n_factors": [1, 2]}, cv=2)
    with pytest.warns(TrackingWarning, match=r"cannot be used.*`skpref mlflow-sync .*` sends them later") as caught:
        search.set_callbacks(callback).fit(X, X[:, 0])
    assert len(caught) == 1
    search.set_callbacks(callback).fit(X, X[:, 0])  # a second warning would be an error here
    assert [event["op"] for event in kept(tmp_path)].count("start") == 2 * 11
    (file,) = tmp_path.glob("*.jsonl")
    again = file.read_bytes()
    copies = {path.relative_to(tmp_path): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    done = sync(tmp_path, default)
    assert (done.n_files, done.problems) == (1, [])
    assert not tmp_path.exists()  # nothing is left, not even the folder
    folds = [[f"Pipeline {number}", ["VariationalFM"]] for number in range(4)]
    tree = ["GridSearchCV", *folds, ["Pipeline refit", ["VariationalFM"]]]
    store = stored("no server")
    assert store.tree() == [tree, tree]
    assert {run.info.status for run in store.runs} == {"FINISHED"}
    assert len(store.models()) == 2
    first = store.children()[0]
    assert first.data.metrics["best.mean_test_score"] == pytest.approx(search.best_score_)
    fold = next(run for run in store.children(first) if run.info.run_name == "Pipeline 3")
    assert fold.data.metrics["test_score"] == pytest.approx(search.cv_results_["split1_test_score"][1])
    served = mlflow.pyfunc.load_model(store.models()[0].artifact_location)
    np.testing.assert_array_equal(served.predict(X), search.predict(X))
    # As if the first attempt had been stopped just before it deleted what it had sent.
    for name, content in copies.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    file.rename(file.with_suffix(".sending"))
    assert file.with_suffix(".sending").read_bytes() == again
    sync(tmp_path, default)
    assert (stored("no server").tree(), len(stored("no server").models())) == ([tree, tree], 2)
    assert len(stored("no server").curve(store.children(fold)[0], "lower_bound")) == 3


def test_a_store_that_cannot_be_written(home, default, tmp_path, stored):
    FM.set_callbacks(MLflowCallback("can be read", log_model=False)).fit(X, X[:, 0])  # so that there is a store
    readable = f"sqlite:///file:{home}/mlruns/mlflow.db?mode=ro&uri=true"
    callback = MLflowCallback("can be read", readable, spool=tmp_path, log_model=False)
    with pytest.warns(TrackingWarning, match="readonly database") as caught:
        model = VariationalFM(max_iter=3, tol=0.0).set_callbacks(callback).fit(X, X[:, 0])
    FM.set_callbacks()
    assert len(caught) == 1
    assert model.n_iter_ == 3
    assert sync(tmp_path, default).problems == []
    assert [run.info.status for run in stored("can be read").runs] == ["FINISHED", "FINISHED"]


@pytest.mark.parametrize("uri", ["nonsense://nowhere", "sqlite:////dev/null/store.db", "not a store"])
def test_an_address_that_is_not_valid(uri, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a name without a scheme is a folder for MLflow
    callback = MLflowCallback(tracking_uri=uri, spool=tmp_path / "spool", log_model=False, plots=False)
    with pytest.warns(TrackingWarning, match="cannot be used") as caught:
        model = GPPLClassifier().set_callbacks(callback).fit(PAIRS, FIRST_WINS)
    assert len(caught) == 1
    assert model.n_iter_ > 0
    assert kept(tmp_path / "spool")[0]["op"] == "store"


def test_an_experiment_that_was_deleted(default, tmp_path, stored):
    client = mlflow.MlflowClient(default)
    client.delete_experiment(client.create_experiment("deleted"))
    with pytest.warns(TrackingWarning, match="the experiment 'deleted' was deleted; restore it, or name another"):
        VariationalFM(max_iter=2).set_callbacks(MLflowCallback("deleted", spool=tmp_path)).fit(X, X[:, 0])
    done = sync(tmp_path)
    assert "was deleted" in done.problems[0]
    assert (done.n_events, done.n_files) == (0, 0)
    assert sync(tmp_path, experiment="another").problems == []
    assert stored("another").tree() == [["VariationalFM"]]


def test_a_full_disk_costs_two_warnings(closed_port, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # else what is first imported here is cut off for ever
    VariationalFM(max_iter=2).fit(X, X[:, 0])  # numba keeps what it compiles
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    callback = MLflowCallback("full", closed_port, spool=tmp_path)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        resource.setrlimit(resource.RLIMIT_FSIZE, (300, hard))  # what a disk with 300 bytes left does to every file
        try:
            model = VariationalFM(max_iter=2).set_callbacks(callback).fit(X, X[:, 0])
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    messages = [str(warning.message) for warning in caught if issubclass(warning.category, TrackingWarning)]
    assert model.n_iter_ == 2
    assert any(message.startswith("A file is not tracked") for message in messages)
    assert any(message.startswith("Events for MLflow are lost") for message in messages)
    assert len(messages) <= 3, messages


def test_a_spool_that_cannot_be_created_moves_to_the_temporary_folder(closed_port, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way", "utf-8")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    callback = MLflowCallback("elsewhere", closed_port, spool=tmp_path / "file" / "spool", log_model=False)
    with pytest.warns(TrackingWarning, match=r"kept in .*skpref-spool"):
        VariationalFM(max_iter=2).set_callbacks(callback).fit(X, X[:, 0])
    assert kept(tmp_path / "temporary" / "skpref-spool")


def test_a_run_continues_in_a_new_file_when_sync_has_taken_the_old_one(closed_port, default, tmp_path, stored):

    def work():
        with track("two files", "taken", closed_port, spool=tmp_path) as run:
            run.log_metrics({"first": 1.0})
            run.tracker.outbox.flush(run.key)
            assert sync(tmp_path, default).n_files == 1
            run.log_metrics({"second": 2.0})

    with pytest.warns(TrackingWarning, match="cannot be used"):
        work()
    assert sync(tmp_path, default).n_files == 1
    (run,) = stored("taken").runs
    assert run.data.metrics == {"first": 1.0, "second": 2.0}
    assert run.info.status == "FINISHED"


def test_a_store_that_comes_back_is_asked_again(closed_port, tmp_path, monkeypatch, stored):
    callback = MLflowCallback("back", spool=tmp_path, log_model=False)

    def away(*_, **__):
        raise OSError("away")

    with monkeypatch.context() as patch:
        patch.setattr("skpref.tracking.client.Client._connect", away)
        with pytest.warns(TrackingWarning, match="away"):
            VariationalFM(max_iter=2).set_callbacks(callback).fit(X, X[:, 0])
    VariationalFM(max_iter=2).set_callbacks(callback).fit(X, X[:, 0])  # too early
    assert stored("back").experiment is None
    set_policy(monkeypatch, "tracking", retry_seconds=0.0)
    VariationalFM(max_iter=2).set_callbacks(callback).fit(X, X[:, 0])
    assert stored("back").tree() == [["VariationalFM"]]
    sync(tmp_path)
    assert stored("back").tree() == 3 * [["VariationalFM"]]


def test_the_command_sends_and_reports_what_it_could_not_send(
    closed_port, default, tmp_path, stored, capsys, monkeypatch
):
    spool = tmp_path / "spool"
    with pytest.warns(TrackingWarning):
        VariationalFM(max_iter=2).set_callbacks(MLflowCallback("by command", closed_port, spool=spool)).fit(X, X[:, 0])
    assert main(["mlflow-sync", str(spool), "--json"]) == 1
    out, err = capsys.readouterr()
    assert json.loads(out)["events"] == 0
    assert "skpref: note: " in err
    assert main(["mlflow-sync", str(spool), "--tracking-uri", default]) == 0
    assert "events of 1 file sent" in capsys.readouterr().out
    monkeypatch.chdir(tmp_path)  # where the default folder is not
    assert main(["mlflow-sync"]) == 0
    assert capsys.readouterr().out == "nothing to send\n"
    assert stored("by command").tree() == [["VariationalFM"]]


def test_a_line_that_was_cut_off_and_a_file_that_is_none(tmp_path, default, closed_port):
    with pytest.warns(TrackingWarning):
        VariationalFM(max_iter=2).set_callbacks(MLflowCallback("cut", closed_port, spool=tmp_path)).fit(X, X[:, 0])
    (file,) = tmp_path.glob("*.jsonl")
    file.write_bytes(file.read_bytes()[:-10])
    (tmp_path / "0.jsonl").write_text("no line\nof ours\n", "utf-8")
    done = sync(tmp_path, default)
    assert done.n_files == 1
    assert len(done.problems) == 1
    assert "0.sending" in done.problems[0]


def test_passwords_are_not_written(tmp_path, closed_port):
    uri = closed_port.replace("http://", "http://me:secret@")
    with pytest.warns(TrackingWarning) as caught:
        VariationalFM(max_iter=2).set_callbacks(MLflowCallback("safe", uri, spool=tmp_path)).fit(X, X[:, 0])
    assert "secret" not in str(caught[0].message)
    assert "secret" not in "".join(path.read_text("utf-8") for path in tmp_path.glob("*.jsonl"))


# ------------------------------------------------------------------------------------------------------------- servers
@pytest.mark.slow
def test_a_server_that_is_killed_half_way(home, default, tmp_path, stored, mlflow_server, monkeypatch, capfd):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "60")  # for a busy machine
    artifacts = str(home / "mlruns" / "artifacts")
    arguments = ["server", "--backend-store-uri", default, "--no-serve-artifacts", "--default-artifact-root", artifacts]
    iterations = []
    with mlflow_server(arguments, "/health") as server:
        VariationalFM(max_iter=2).set_callbacks(MLflowCallback("by server", server.uri)).fit(X, X[:, 0])
        assert stored("by server").runs[0].info.status == "FINISHED"
        assert capfd.readouterr() == ("", "")  # MLflow would print where to look

        class Killer:
            def setup(self, estimator, context): ...
            def teardown(self, estimator, context): ...
            def on_fit_task_begin(self, estimator, context): ...
            def on_fit_task_end(self, estimator, context): ...
            def on_iteration(self, estimator, context, iteration):
                iterations.append(iteration.step)
                if iteration.step == 2:
                    (run,) = stored("killed").runs  # the run has arrived
                    assert run.info.status == "RUNNING"
                    server.kill()

        callback = MLflowCallback("killed", server.uri, spool=tmp_path / "spool")
        model = VariationalFM(max_iter=5, tol=0.0, random_state=0).set_callbacks(callback, Killer())
        with pytest.warns(TrackingWarning, match="cannot be used") as caught:
            model.fit(X, X[:, 0])
    assert len(caught) == 1
    assert iterations == [1, 2, 3, 4, 5]
    plain = VariationalFM(max_iter=5, tol=0.0, random_state=0).fit(X, X[:, 0])
    np.testing.assert_array_equal(model.predict(X), plain.predict(X))
    assert sync(tmp_path / "spool", default).problems == []
    (run,) = stored("killed").runs
    assert run.info.status == "FINISHED"
    assert stored("killed").curve(run, "lower_bound") == list(enumerate(model.lower_bounds_.tolist(), 1))
    assert len(stored("killed").models()) == 1
