"""Callbacks that follow a fit: scikit-learn's hooks, our two, and the same where scikit-learn has none."""

import importlib.util
import re

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skpref import (
    LBFGS,
    BayesianGPLVM,
    GibbsM3F,
    GPOrdinalRegressor,
    GPPLClassifier,
    OneHotDesign,
    SVGPClassifier,
    SVGPRegressor,
    VariationalFM,
    _callbacks,
    load,
    save,
)
from skpref._callbacks import notify
from skpref._events import Iteration
from skpref.exceptions import DataError

sklearn_callback = pytest.importorskip("sklearn.callback", reason="scikit-learn 1.8 has no callbacks")
PAIRS, FIRST_WINS = [["tea", "coffee"], ["tea", "water"], ["coffee", "water"]], [1, 1, 0]


class Listener:
    """Remembers what it was told."""

    max_propagation_depth = None

    def __init__(self, stop_at=None):
        self.heard = []
        self.iterations = []
        self.stop_at = stop_at

    def setup(self, estimator, context):
        self.heard.append("setup")

    def teardown(self, estimator, context):
        self.heard.append("teardown")

    def on_fit_task_begin(self, estimator, context, *, X=None, y=None):
        self.heard.append(("begin", type(estimator).__name__, context.parent is not None))

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        self.heard.append(("end", type(estimator).__name__, context.parent is not None))

    def on_iteration(self, estimator, context, iteration):
        self.iterations.append(iteration)
        return iteration.step == self.stop_at

    def on_notify(self, context, **news):
        self.heard.append(news)


class Ticks:
    """Counts tasks, as a bar of progress does: it has scikit-learn's hooks alone."""

    max_propagation_depth = None
    n_ended = 0

    def setup(self, estimator, context): ...

    def teardown(self, estimator, context): ...

    def on_fit_task_begin(self, estimator, context): ...

    def on_fit_task_end(self, estimator, context):
        self.n_ended += 1


def test_a_fit_is_followed_from_begin_to_end():
    listener = Listener()
    model = GPPLClassifier().set_callbacks(listener).fit(PAIRS, FIRST_WINS)
    assert listener.heard == ["setup", ("begin", "GPPLClassifier", False), ("end", "GPPLClassifier", False), "teardown"]
    assert [event.step for event in listener.iterations] == list(range(1, model.n_iter_ + 1))
    assert [event.bound for event in listener.iterations] == model.lower_bounds_


def test_a_callback_changes_no_bit_and_can_be_taken_off():
    listener = Listener()
    plain = GPPLClassifier().fit(PAIRS, FIRST_WINS)
    followed = GPPLClassifier().set_callbacks(listener).fit(PAIRS, FIRST_WINS)
    assert followed.utility().tobytes() == plain.utility().tobytes()
    assert set(vars(followed)) - set(vars(plain)) == {"_skl_callbacks"}
    n_heard = len(listener.heard)
    assert set(vars(followed.set_callbacks().fit(PAIRS, FIRST_WINS))) == set(vars(plain))
    assert len(listener.heard) == n_heard


def test_a_true_answer_stops_the_fit():
    X = np.random.default_rng(0).standard_normal((40, 3))
    model = VariationalFM(max_iter=50, tol=0.0, random_state=0).set_callbacks(Listener(stop_at=3)).fit(X, X[:, 0])
    assert model.n_iter_ == 3


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("model", "n_levels"),
    [(SVGPRegressor(inducing=5), 0), (SVGPClassifier(inducing=5), 3), (GPOrdinalRegressor(optimizer=LBFGS()), 3)],
    ids=["rows", "classes", "levels"],
)
def test_searches_say_how_many_evaluations_are_done_of_how_many(model, n_levels, capsys):
    X = np.random.default_rng(0).standard_normal((40, 2))
    y = np.digitize(X[:, 0], [-0.5, 0.5]) if n_levels else np.sin(X[:, 0])
    plain = clone(model).set_params(random_state=0).fit(X, y)
    listener = Listener()
    shown = clone(model).set_params(random_state=0, verbose=1).set_callbacks(listener).fit(X, y)
    assert np.array_equal(shown.predict(X), plain.predict(X))
    first, *others = capsys.readouterr().out.splitlines()
    assert re.search(rf": evaluation 1/{shown.max_iter}  .* ETA \d+ s$", first)
    assert len(others) + 1 == len(listener.iterations)
    assert all(event.step <= event.n_max for event in listener.iterations)
    clone(model).set_params(random_state=0).set_callbacks(ticks := Ticks()).fit(X, y)
    assert ticks.n_ended == len(listener.iterations) + 1  # and the fit


def test_a_printer_and_a_callback_both_hear(capsys):
    listener = Listener()
    model = GPPLClassifier(verbose=1).set_callbacks(listener).fit(PAIRS, FIRST_WINS)
    assert capsys.readouterr().out.count("GPPLClassifier: pass ") == len(listener.iterations) == model.n_iter_


def test_a_failure_is_told_and_what_was_fitted_stays():
    listener = Listener()
    model = GPPLClassifier().fit(PAIRS, FIRST_WINS).set_callbacks(listener)
    before = vars(model).copy()
    with pytest.raises(DataError, match="compares item"):
        model.fit([["tea", "tea"]], [1])
    assert vars(model) == before
    setup, begin, told, teardown = listener.heard
    assert (setup, begin, teardown) == ("setup", ("begin", "GPPLClassifier", False), "teardown")
    assert told["status"] == "FAILED"
    assert isinstance(told["error"], DataError)


def test_an_interruption_is_told_as_such(monkeypatch):
    listener = Listener()
    monkeypatch.setattr(GPPLClassifier, "_read", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        GPPLClassifier().set_callbacks(listener).fit(PAIRS, FIRST_WINS)
    assert listener.heard[2]["status"] == "KILLED"


def test_callbacks_go_through_searches_and_pipelines():
    X = np.random.default_rng(0).standard_normal((30, 2))
    listener = Listener()
    pipeline = make_pipeline(StandardScaler(), VariationalFM(max_iter=3, random_state=0))
    search = GridSearchCV(pipeline, {"variationalfm__n_factors": [1, 2]}, cv=2).set_callbacks(listener)
    search.fit(X, X[:, 0])
    ends = [event[1:] for event in listener.heard if event[0] == "end"]
    assert ends.count(("VariationalFM", True)) == 5
    assert ends.count(("Pipeline", True)) == 5
    assert listener.heard.count("setup") == listener.heard.count("teardown") == 1
    assert len(listener.iterations) == 5 * 3


def test_a_design_in_a_pipeline_takes_callbacks_too():
    listener = Listener()
    rated = [["ann", "tea"], ["ann", "coffee"], ["bob", "tea"]]
    pipeline = make_pipeline(OneHotDesign(), VariationalFM(max_iter=2)).set_callbacks(listener)
    pipeline.fit(rated, [1.0, 2.0, 3.0])  # scikit-learn warns of steps that do not, and warnings are errors here
    assert [event[1] for event in listener.heard if event[0] == "end"] == ["OneHotDesign", "VariationalFM", "Pipeline"]


def test_scikit_learns_own_callbacks_follow_our_fits():
    X = np.random.default_rng(0).standard_normal((30, 2))
    monitor = sklearn_callback.ScoringMonitor(scoring="r2")
    model = VariationalFM(max_iter=4, tol=0.0, random_state=0).set_callbacks(monitor).fit(X, X[:, 0])
    log = monitor.get_logs()
    assert [row["task_name"] for row in log.data] == ["fit"]
    assert log.data[0]["r2"] == pytest.approx(model.score(X, X[:, 0]))


def test_whoever_knows_no_iterations_gets_tasks():
    Plain = type("Plain", (), {name: value for name, value in vars(Listener).items() if name != "on_iteration"})
    plain = Plain()
    model = VariationalFM(max_iter=4, tol=0.0, random_state=0).set_callbacks(plain)
    model.fit(np.eye(4), [1.0, 2.0, 3.0, 4.0])
    assert plain.heard.count(("begin", "VariationalFM", True)) == model.n_iter_


@pytest.mark.parametrize(
    ("model", "n"),
    [
        (VariationalFM(max_iter=4), 4),
        (GibbsM3F(max_iter=5, burn_in=2, random_state=0), 5),
        (BayesianGPLVM(1, max_iter=3, inducing=4, tol=1.0, random_state=0), 3),
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_progress_bars_hear_how_many_iterations_come(model, n):
    heard = []
    Spy = type("Spy", (), {name: value for name, value in vars(Listener).items() if name != "on_iteration"})
    spy = Spy()
    spy.on_fit_task_begin = lambda estimator, context: heard.append((context.task_name, context.max_subtasks))
    X = [[user, item] for user in range(3) for item in range(3)]
    model.set_callbacks(spy).fit(X, np.arange(9) % 3)
    assert heard[0] == ("fit", n)


def test_partial_fit_has_nobody_to_tell():
    listener = Listener()
    X = np.random.default_rng(0).standard_normal((30, 2))
    model = SVGPRegressor(random_state=0).set_callbacks(listener).partial_fit(X, X[:, 0])
    model.partial_fit(X, X[:, 0])
    assert listener.heard == []


def test_clones_share_callbacks_and_files_leave_them_out(tmp_path):
    listener = Listener()
    model = GPPLClassifier().set_callbacks(listener)
    assert clone(model)._skl_callbacks == [listener]
    save(model.fit(PAIRS, FIRST_WINS), tmp_path / "model.skpref")
    assert "_skl_callbacks" not in vars(load(tmp_path / "model.skpref"))


def test_nobody_is_told_where_nobody_listens():
    heard = []
    listener = type("Told", (), {"on_notify": lambda _, context, **news: heard.append({"of": context, **news})})()
    context = type("Context", (), {"_callbacks": [object(), listener]})()
    notify(None, params={"a": 1})
    assert heard == []
    notify(context, params={"a": 1})
    assert heard == [{"of": context, "params": {"a": 1}}]


def test_the_same_hooks_where_scikit_learn_has_none(monkeypatch):
    monkeypatch.delattr(sklearn_callback, "CallbackSupportMixin")
    spec = importlib.util.spec_from_file_location("callbacks_of_1_8", _callbacks.__file__)
    old = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(old)
    assert old.CallbackSupportMixin is None

    class Counts(old.CallbackMixin, BaseEstimator):
        """Fits in five iterations; fails without data."""

        def fit(self, X, y=None):
            with old.fit_callbacks(self, X, y):
                notify_all = old.iteration_hook(self)
                steps = (
                    step for step in range(1, 6) if notify_all is not None and notify_all(Iteration(step, 5, X[0], 0.1))
                )
                self.stopped_at_ = next(steps, None)
            return self

    class Early(Listener):
        def on_fit_task_begin(self, estimator, context, *, X=None, y=None, metadata=None):
            self.heard.append((context.estimator_name, context.task_name, len(X), list(context) == [context]))

        def on_fit_task_end(self, estimator, context, *, y=None):
            self.heard.append(context.root_uuid)

    listener = Early(stop_at=3)
    model = clone(Counts().set_callbacks(listener))
    assert model.fit([1.0]).stopped_at_ == 3
    with pytest.raises(IndexError):
        model.fit([])
    one, two, three, four, five, six, told, eight = listener.heard
    assert (one, two, four) == ("setup", ("Counts", "fit", 1, True), "teardown")
    assert (five, six, eight) == ("setup", ("Counts", "fit", 0, True), "teardown")
    assert three is not None
    assert told["status"] == "FAILED"
    assert [event.step for event in listener.iterations] == [1, 2, 3]
    assert not hasattr(model, "_callback_fit_ctx")
    assert Counts().fit([1.0]).stopped_at_ is None
    assert not hasattr(model.set_callbacks(), "_skl_callbacks")
    old.set_everywhere([listener])
    assert Counts().fit([1.0]).stopped_at_ == 3
    assert vars(clone(Counts()))["_skl_callbacks"] == [listener]
    old.set_everywhere(None)
    assert Counts().fit([1.0]).stopped_at_ is None
