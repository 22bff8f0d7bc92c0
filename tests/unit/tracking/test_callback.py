"""Runs that fits leave in a real store: how many, how nested, and what stands in them."""

import hashlib
import json
import os
import pickle
import sys

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning, FitFailedWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skpref import BayesianGPLVM, CrowdGPPL, GibbsM3F, GPPLClassifier, SVGPRegressor, VariationalFM
from skpref._callbacks import notify
from skpref.exceptions import DataError, TrackingWarning
from skpref.tracking import MLflowCallback, autolog, callback, track
from skpref.tracking.run_metadata import describe_data
from tests.policies import set_policy

mlflow = pytest.importorskip("mlflow")
pytest.importorskip("sklearn.callback", reason="scikit-learn 1.8 does not hand callbacks on")
pytestmark = pytest.mark.usefixtures("home")

PAIRS, FIRST_WINS = [["tea", "coffee"], ["tea", "water"], ["coffee", "water"]], [1, 1, 1]
X = np.random.default_rng(0).standard_normal((24, 2))
FM = VariationalFM(max_iter=3, tol=0.0, random_state=7)
GRID = {"variationalfm__n_factors": [1, 2]}


@pytest.fixture(autouse=True)
def _autolog_off():
    yield
    autolog(disable=True)


def test_a_fit_is_a_run_with_parameters_curve_data_figure_and_model(stored):
    model = GPPLClassifier(random_state=3).set_callbacks(MLflowCallback("one fit", tags={"who": "test"}))
    model.fit(PAIRS, FIRST_WINS)
    store = stored("one fit")
    (run,) = store.runs
    assert (run.info.run_name, run.info.status) == ("GPPLClassifier", "FINISHED")
    assert run.data.params["random_state"] == "3"
    assert run.data.params["data.shape"] == "3 x 2"
    assert len(run.data.params["data.sha256"]) == 64
    assert {"version.skpref", "version.numpy", "version.scikit-learn", "who"} <= set(run.data.tags)
    assert store.curve(run, "lower_bound") == list(enumerate(model.lower_bounds_, 1))
    assert len(model.lower_bounds_) == model.n_iter_
    assert run.data.metrics["n_iter"] == model.n_iter_
    assert run.data.metrics["converged"] == 1.0
    assert run.data.metrics["process_peak_memory_mb"] > 50.0
    assert 0.0 < run.data.metrics["fit_seconds"] < 60.0
    assert "objective" not in run.data.metrics
    (data,) = run.inputs.dataset_inputs
    assert data.dataset.digest == run.data.params["data.sha256"][:32]
    assert json.loads(data.dataset.profile) == {"num_rows": 3, "num_elements": 6}
    assert store.files(run) == {"ranking.png"}
    (logged,) = store.models()
    assert logged.source_run_id == run.info.run_id


@pytest.mark.parametrize(
    "broken",
    ["skpref.plots.RankingDisplay.from_estimator", "matplotlib.figure.Figure.savefig"],
    ids=["drawn", "written"],
)
def test_a_figure_that_fails_costs_a_warning_and_no_model(stored, monkeypatch, broken):
    def fails(*_, **__):
        raise ValueError("no such font")

    monkeypatch.setattr(broken, fails)
    name = f"no font {len(broken)}"
    with pytest.warns(TrackingWarning, match=r"ranking\.png is not tracked: no such font\. The fit continues"):
        GPPLClassifier(random_state=3).set_callbacks(MLflowCallback(name)).fit(PAIRS, FIRST_WINS)
    store = stored(name)
    (run,) = store.runs
    assert run.info.status == "FINISHED"
    assert store.files(run) == set()
    assert len(store.models()) == 1


def test_a_run_that_is_interrupted_while_it_starts_is_killed(stored, monkeypatch):
    mlflow_callback = MLflowCallback("interrupted start")
    start = mlflow_callback.tracker.start

    def interrupted(*arguments):
        start(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(mlflow_callback.tracker, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        GPPLClassifier().set_callbacks(mlflow_callback).fit(PAIRS, FIRST_WINS)
    (run,) = stored("interrupted start").runs
    assert run.info.status == "KILLED"


def test_a_pipeline_nests_its_last_step(stored):
    make_pipeline(StandardScaler(), FM).set_callbacks(MLflowCallback("pipeline")).fit(X, X[:, 0])
    store = stored("pipeline")
    assert store.tree() == [["Pipeline", ["VariationalFM"]]]
    (pipeline,) = store.children()
    (inner,) = store.children(pipeline)
    assert pipeline.data.params["variationalfm__max_iter"] == inner.data.params["max_iter"] == "3"
    assert [step for step, _ in store.curve(inner, "lower_bound")] == [1, 2, 3]
    # What the last step sees is not what the pipeline was given.
    assert pipeline.data.params["data.sha256"] != inner.data.params["data.sha256"]


def check_search(store, search, name):
    folds = [[f"Pipeline {number}", ["VariationalFM"]] for number in range(4)]
    assert store.tree() == [[name, *folds, ["Pipeline refit", ["VariationalFM"]]]]
    assert {run.info.status for run in store.runs} == {"FINISHED"}
    (parent,) = store.children()
    assert parent.data.metrics["best.mean_test_score"] == pytest.approx(search.best_score_)
    best = search.best_params_["variationalfm__n_factors"]
    assert parent.data.params["best.variationalfm__n_factors"] == str(best)
    for run in store.children(parent):
        if run.info.run_name != "Pipeline refit":
            candidate, split = divmod(int(run.info.run_name.split()[1]), 2)
            score = search.cv_results_[f"split{split}_test_score"][candidate]
            assert run.data.metrics["test_score"] == pytest.approx(score)
            expected = search.cv_results_["params"][candidate]["variationalfm__n_factors"]
            assert run.data.params["variationalfm__n_factors"] == str(expected)
        (fit,) = store.children(run)
        assert [step for step, _ in store.curve(fit, "lower_bound")] == [1, 2, 3]
    assert "cv_results.csv" in store.files(parent)
    assert [model.source_run_id for model in store.models()] == [parent.info.run_id]


def test_a_grid_search_nests_candidates_and_folds(stored):
    search = GridSearchCV(make_pipeline(StandardScaler(), FM), GRID, cv=2)
    check_search(stored_after(search, "grid", stored), search, "GridSearchCV")


def stored_after(search, experiment, stored):
    search.set_callbacks(MLflowCallback(experiment)).fit(X, X[:, 0])
    return stored(experiment)


@pytest.mark.slow
def test_two_processes_write_the_same_runs_as_one(stored):
    search = GridSearchCV(make_pipeline(StandardScaler(), FM), GRID, cv=2, n_jobs=2)
    check_search(stored_after(search, "grid by processes", stored), search, "GridSearchCV")
    with track("validation", "validation"):  # the processes are warm
        cross_validate(make_pipeline(StandardScaler(), FM), X, X[:, 0], cv=2, n_jobs=2)
    assert stored("validation").tree() == [
        ["validation", ["Pipeline", ["VariationalFM"]], ["Pipeline", ["VariationalFM"]]]
    ]


def test_two_threads_write_the_same_runs_as_one(stored):
    import joblib

    search = RandomizedSearchCV(make_pipeline(StandardScaler(), FM), GRID, n_iter=2, cv=2, n_jobs=2, random_state=0)
    with joblib.parallel_config(backend="threading"):
        store = stored_after(search, "random by threads", stored)
    check_search(store, search, "RandomizedSearchCV")


def test_each_fit_of_a_cross_validation_is_a_run(stored):
    pipeline = make_pipeline(StandardScaler(), FM).set_callbacks(MLflowCallback("folds", log_model=False))
    cross_validate(pipeline, X, X[:, 0], cv=3)
    assert stored("folds").tree() == 3 * [["Pipeline", ["VariationalFM"]]]
    assert stored("folds").models() == []


def test_autolog_is_on_all_estimators_and_off_again(stored):
    autolog("automatic", log_model=False)
    FM.fit(X, X[:, 0])
    search = GridSearchCV(make_pipeline(StandardScaler(), FM), GRID, cv=2).fit(X, X[:, 0])
    LogisticRegression().fit(X, X[:, 0] > 0.0)  # nothing of ours
    make_pipeline(StandardScaler(), LogisticRegression()).fit(X, X[:, 0] > 0.0)
    autolog(disable=True)
    FM.fit(X, X[:, 0])
    search.best_estimator_.fit(X, X[:, 0])  # a clone that was made while it was on
    folds = [[f"Pipeline {number}", ["VariationalFM"]] for number in range(4)]
    refit = ["Pipeline refit", ["VariationalFM"]]
    assert stored("automatic").tree() == [["GridSearchCV", *folds, refit], ["VariationalFM"]]
    assert {run.info.status for run in stored("automatic").runs} == {"FINISHED"}


def test_a_callback_of_its_own_replaces_autolog(stored):
    autolog("by autolog", log_model=False)
    pipeline = make_pipeline(StandardScaler(), FM).set_callbacks(MLflowCallback("by hand", log_model=False))
    pipeline.fit(X, X[:, 0])
    assert stored("by autolog").runs == []
    assert stored("by hand").tree() == [["Pipeline", ["VariationalFM"]]]


def test_what_was_cloned_in_one_block_is_tracked_in_the_next(stored):
    with track("first", "two blocks", log_model=False):
        search = GridSearchCV(make_pipeline(StandardScaler(), FM), {"variationalfm__n_factors": [1]}, cv=2)
        best = search.fit(X, X[:, 0]).best_estimator_
    kept = pickle.dumps(best)
    with track("second", "two blocks", log_model=False):
        best.fit(X, X[:, 0])
        pickle.loads(kept).fit(X, X[:, 0])
    best.fit(X, X[:, 0])
    second = stored("two blocks").tree()[1]
    assert second == ["second", ["Pipeline", ["VariationalFM"]], ["Pipeline", ["VariationalFM"]]]


def test_a_block_is_a_run_around_its_fits(stored, tmp_path):
    (tmp_path / "words.txt").write_text("kept", "utf-8")
    with track("outer", "blocks", log_model=False) as outer:
        FM.fit(X, X[:, 0])
        with track("inner", log_model=False) as inner:
            GPPLClassifier().set_callbacks(MLflowCallback(log_model=False, plots=False)).fit(PAIRS, FIRST_WINS)
            inner.log_metrics({"accuracy": 0.5})
        FM.fit(X, X[:, 0])
        outer.log_params({"fold": 3})
        outer.log_artifact(tmp_path / "words.txt")
    FM.fit(X, X[:, 0])
    store = stored("blocks")
    assert store.tree() == [["outer", ["VariationalFM"], ["VariationalFM"], ["inner", ["GPPLClassifier"]]]]
    (run,) = store.children()
    assert run.info.run_id == outer.run_id
    assert run.data.params == {"fold": "3"}
    assert store.files(run) == {"words.txt"}
    (nested,) = [run for run in store.runs if run.info.run_name == "inner"]
    assert nested.data.metrics == {"accuracy": 0.5}


def test_a_block_that_raises_fails(stored):
    with pytest.raises(ZeroDivisionError), track("breaks", "failing blocks"):
        1 / 0  # noqa: B018
    (run,) = stored("failing blocks").runs
    assert run.info.status == "FAILED"
    assert run.data.tags["error"].startswith("ZeroDivisionError")


def test_fits_nest_in_a_run_of_mlflow_itself(home, stored):
    mlflow.set_tracking_uri(f"sqlite:///{home}/mlruns/mlflow.db")
    model, callback = VariationalFM(max_iter=2), MLflowCallback("named", log_model=False)
    model.set_callbacks(callback)
    try:
        mlflow.set_experiment("by mlflow")
        with mlflow.start_run(run_name="mine"):
            model.fit(X, X[:, 0])
            GridSearchCV(FM, {"n_factors": [1]}, cv=2).set_callbacks(callback).fit(X, X[:, 0])
        model.fit(X, X[:, 0])
    finally:
        mlflow.set_tracking_uri(None)
    folds = ["VariationalFM 0"], ["VariationalFM 1"], ["VariationalFM refit"]
    assert stored("by mlflow").tree() == [["mine", ["GridSearchCV", *folds], ["VariationalFM"]]]
    assert stored("named").tree() == [["VariationalFM"]]  # the experiment of the callback again


def test_a_fit_that_raises_is_a_run_that_failed(stored):
    model = GPPLClassifier().set_callbacks(MLflowCallback("fails"))
    with pytest.raises(DataError):
        model.fit([["tea", "tea"]], [1])
    (run,) = stored("fails").runs
    assert run.info.status == "FAILED"
    assert run.data.tags["error"].startswith("DataError: ")
    assert stored("fails").models() == []


def test_what_is_no_table_is_left_to_the_fit(stored):
    with pytest.raises(ValueError, match="the rows of X have different lengths"):
        VariationalFM().set_callbacks(MLflowCallback("ragged")).fit([[1.0, 2.0], [3.0]], [1.0, 2.0])
    assert [run.info.status for run in stored("ragged").runs] == ["FAILED"]


def test_an_interrupted_fit_was_killed(stored, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("skpref.gp.pairwise.classifier.infer", stop)
    pipeline = make_pipeline(GPPLClassifier()).set_callbacks(MLflowCallback("interrupted"))
    with pytest.raises(KeyboardInterrupt):
        pipeline.fit(np.array(PAIRS), FIRST_WINS)
    runs = stored("interrupted").runs
    assert [run.info.status for run in runs] == ["KILLED", "KILLED"]
    assert all(run.data.tags["error"].startswith("KeyboardInterrupt") for run in runs)


def check_failing_folds(experiment, stored, n_jobs=None):
    pipeline = make_pipeline(StandardScaler(), VariationalFM(max_iter=2, random_state=0))
    grid = {"variationalfm__groups": [[0, 0], [0, 0, 0]]}  # the second is of three features
    search = GridSearchCV(pipeline, grid, cv=2, n_jobs=n_jobs).set_callbacks(
        MLflowCallback(experiment, log_model=False)
    )
    with pytest.warns(FitFailedWarning), pytest.warns(UserWarning, match="One or more of the test scores"):
        search.fit(X, X[:, 0])
    store = stored(experiment)
    (parent,) = store.children()
    status = {run.info.run_name: run.info.status for run in store.children(parent)}
    failed = {"Pipeline 2", "Pipeline 3"}
    assert status == {name: "FAILED" if name in failed else "FINISHED" for name in status}
    assert failed < set(status)
    assert parent.info.status == "FINISHED"
    errors = [run.data.tags.get("error", "") for run in store.runs if run.info.status == "FAILED"]
    assert sum(error.startswith("DataError: groups must name") for error in errors) == 2


def test_folds_that_fail_do_not_stop_a_search(stored):
    check_failing_folds("some fail", stored)


def test_chains_have_a_curve_each_and_levels_may_be_few(stored):
    ratings = np.unique(np.random.default_rng(0).integers(0, 8, (60, 2)), axis=0)
    model = GibbsM3F(max_iter=6, burn_in=2, n_chains=2, random_state=0).set_callbacks(MLflowCallback("chains"))
    model.fit(ratings, np.arange(len(ratings)) % 3)
    (run,) = stored("chains").runs
    for chain in (0, 1):
        assert stored("chains").curve(run, f"risk.{chain}") == list(enumerate(model.risks_[chain].tolist(), 1))


def test_a_model_without_a_curve_has_that_of_its_iterations(stored):
    model = BayesianGPLVM(1, inducing=6, max_iter=5, random_state=0)
    with pytest.warns(ConvergenceWarning):
        model.set_callbacks(MLflowCallback("latent")).fit(X)
    assert len(stored("latent").models()) == 1
    (run,) = stored("latent").runs
    assert [step for step, _ in stored("latent").curve(run, "objective")][:2] == [1, 2]


def test_a_long_fit_can_be_watched(stored, monkeypatch):
    set_policy(monkeypatch, "tracking", buffer_seconds=0.0)
    looks = []

    class Look:
        def setup(self, estimator, context): ...
        def teardown(self, estimator, context): ...
        def on_fit_task_begin(self, estimator, context): ...
        def on_fit_task_end(self, estimator, context): ...
        def on_iteration(self, estimator, context, iteration):
            (run,) = stored("watched").runs
            looks.append(len(stored("watched").curve(run, "objective")))

    callback = MLflowCallback("watched", log_model=False)
    VariationalFM(max_iter=3, tol=0.0).set_callbacks(callback, Look()).fit(X, X[:, 0])
    assert looks == [1, 2, 3]


def test_figures_of_a_crowd(stored):
    answers = [[user, *pair] for user in ("ann", "bob") for pair in PAIRS]
    CrowdGPPL(n_factors=0).set_callbacks(MLflowCallback("crowd", log_model=False)).fit(answers, 2 * FIRST_WINS)
    (run,) = stored("crowd").runs
    assert stored("crowd").files(run) == {"ranking.png", "annotators.png"}


class Task:
    """A task of a search, as scikit-learn's contexts are."""

    def __init__(self, parent, name, number, callbacks):
        self.parent, self.task_name, self.task_id, self.source_task_name = parent, name, number, None
        self._callbacks = callbacks
        self.root_uuid = parent.root_uuid if parent is not None else __import__("uuid").uuid4()

    def __iter__(self):
        yield self


def test_trials_are_runs_of_what_they_report(stored, tmp_path):
    from matplotlib.figure import Figure

    callback = MLflowCallback("trials", log_model=False)
    search, root = FM, Task(None, "fit", 0, [callback])
    callback.on_fit_task_begin(search, root)
    (tmp_path / "words.txt").write_text("kept", "utf-8")
    for number, status in enumerate(["FINISHED", "FAILED"]):
        trial = Task(root, "trial", number, [callback])
        notify(trial, name=f"trial {number}", params={"C": number})
        callback.on_fit_task_begin(search, trial)
        notify(trial, metrics={"mean": 0.5, "fold_score": [0.4, 0.6]}, tags={"state": "pruned"}, status=status)
        callback.on_fit_task_end(search, trial)
    notify(root, files={"a.png": Figure(), "b/trials.csv": "n\n1\n", "words.txt": tmp_path / "words.txt"})
    callback.on_fit_task_end(search, root)
    store = stored("trials")
    assert store.tree() == [["VariationalFM", ["trial 0"], ["trial 1"]]]
    (parent,) = store.children()
    assert store.files(parent) == {"a.png", "b", "words.txt"}
    first, second = sorted(store.children(parent), key=lambda run: run.info.run_name)
    assert (first.info.status, second.info.status) == ("FINISHED", "FAILED")
    assert (first.data.params, second.data.params) == ({"C": "0"}, {"C": "1"})
    assert first.data.tags["state"] == "pruned"
    assert store.curve(first, "fold_score") == [(1, 0.4), (2, 0.6)]


def test_no_fault_of_tracking_costs_a_fit(monkeypatch):
    monkeypatch.setattr("skpref.tracking.run_metadata.parameters", lambda _: 1 / 0)
    with pytest.warns(TrackingWarning, match=r"Tracking failed: ZeroDivisionError.*The fit continues") as caught:
        model = VariationalFM(max_iter=2).set_callbacks(MLflowCallback("faulty", log_model=False)).fit(X, X[:, 0])
    assert len(caught) == 1
    assert model.n_iter_ == 2


def test_a_model_with_an_untrusted_step_is_not_logged_but_the_run_is(stored):
    class Odd(StandardScaler):
        """No part of scikit-learn."""

    with pytest.warns(TrackingWarning, match="The model of Pipeline is not logged: cannot save a Pipeline: .*Odd"):
        make_pipeline(Odd(), FM).set_callbacks(MLflowCallback("strange")).fit(X, X[:, 0])
    (pipeline,) = stored("strange").children()
    assert pipeline.info.status == "FINISHED"
    assert "not logged" in pipeline.data.tags["model"]


# ------------------------------------------------------------------------------------------------------------ the data
def sha(*data):
    return describe_data(*data)[0]["data.sha256"]


def test_the_digest_covers_every_row_the_labels_and_the_weights():
    table = np.arange(3000.0).reshape(1000, 3)
    middle = table.copy()
    middle[500, 1] = np.nextafter(middle[500, 1], 1e9)
    y, weight = np.zeros(1000), {"sample_weight": np.ones(1000)}
    digests = {sha(table, None, None), sha(middle, None, None), sha(table, y, None), sha(table, y, weight)}
    digests |= {sha(table.astype(np.float32), None, None), sha(table.reshape(500, 6), None, None)}
    assert len(digests) == 6
    assert sha(table, y, weight) == sha(table.copy(), list(y), weight)
    assert len(hashlib.sha256().hexdigest()) == len(sha(table, None, None))


def test_frames_ids_and_sparse_tables_have_digests():
    from scipy import sparse

    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [1, 2], "b": ["x", "y"]})
    assert sha(frame, None, None) != sha(frame.rename(columns={"a": "c"}), None, None)
    assert sha(frame, None, None) != sha(frame.assign(b=["x", "z"]), None, None)
    params, dataset = describe_data(frame, None, None)
    assert params["data.shape"] == "2 x 2"
    types = [(column["name"], column["type"]) for column in json.loads(dataset["schema"])["mlflow_colspec"]]
    assert types == [("a", "long"), ("b", "string")]
    eye = sparse.csr_array(np.eye(3))
    assert sha(eye, None, None) != sha(2 * eye, None, None)
    assert sha([["a", "b"]], None, None) != sha([["a", "c"]], None, None)


def test_a_stream_makes_no_run(stored):
    SVGPRegressor(random_state=0).set_callbacks(MLflowCallback("stream")).partial_fit(X, X[:, 0])
    assert stored("stream").experiment is None


@pytest.mark.parametrize(("code", "status"), [(0, "FINISHED"), (None, "FINISHED"), (2, "FAILED")])
def test_a_script_may_leave_a_block_by_exit(code, status, stored):
    name = f"exit {code}"
    with pytest.raises(SystemExit), track(name, name):
        sys.exit(code)
    (run,) = stored(name).runs
    assert run.info.status == status
    assert ("error" in run.data.tags) == (status == "FAILED")


def test_a_worker_tracks_where_its_parent_does_and_a_loaded_model_nowhere():
    recorder = object()
    assert callback._restore_everywhere(os.getpid(), recorder) is callback._EVERYWHERE
    assert callback._restore_everywhere(os.getppid(), recorder).current is recorder
    assert callback._restore_everywhere(-1, recorder).current is None
