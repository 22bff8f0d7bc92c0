"""`OptunaSearch`: the surface of scikit-learn's searches over the one loop; studies that survive."""

import sys
from typing import Any

import joblib
import numpy as np
import pytest
import sklearn
from scipy import sparse, stats
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_iris
from sklearn.exceptions import FitFailedWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from skpref import GPPLRegressor
from skpref.exceptions import DataError, MissingExtraError
from skpref.search import LogInteger, OptunaSearch

optuna = pytest.importorskip("optuna")

X, Y = load_iris(return_X_y=True)
C = {"C": stats.loguniform(1e-3, 1e3)}


class Guess(ClassifierMixin, BaseEstimator):
    """Scores `value` in every fold, or raises; counts what it is fitted with."""

    seen: list[Any] = []  # noqa: RUF012 - of all clones

    def __init__(self, value=0.5, fail=2.0):
        self.value = value
        self.fail = fail

    def fit(self, X, y, sample_weight=None):
        if self.value > self.fail:
            msg = "too much"
            raise RuntimeError(msg)
        self.seen.append((self.value, len(y), None if sample_weight is None else np.asarray(sample_weight)))
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.zeros(len(X))

    def score(self, X, y, sample_weight=None):
        return self.value


# -------------------------------------------------------------------------------------------------------------- surface
def test_all_of_a_list_are_tried_once_and_scored_as_by_a_grid():
    values = [0.01, 0.1, 1.0, 10.0]
    search = OptunaSearch(SVC(), {"C": values}, n_trials=30, pruner=None, return_train_score=True).fit(X, Y)
    grid = GridSearchCV(SVC(), {"C": values}, return_train_score=True).fit(X, Y)
    assert search.best_params_ == grid.best_params_
    assert search.best_score_ == grid.best_score_
    ours, theirs = search.cv_results_, grid.cv_results_
    order = np.argsort(ours["param_C"].data.astype(float))
    for name in theirs:
        if "time" not in name and name != "params":
            np.testing.assert_array_equal(np.asarray(ours[name])[order], np.asarray(theirs[name]), err_msg=name)
    assert set(ours) == {*theirs, "state"}
    assert ours["params"][0] == {"C": 1.0}  # the estimator's own
    assert search.n_splits_ == 5
    np.testing.assert_array_equal(search.predict(X), grid.predict(X))
    assert search.score(X, Y) == grid.score(X, Y)


def test_several_metrics_threads_and_clones():
    metrics = ["accuracy", "neg_log_loss"]
    searches = [
        OptunaSearch(
            make_pipeline(StandardScaler(), LogisticRegression()),
            {"logisticregression__C": C["C"]},
            n_trials=6,
            scoring=metrics,
            refit="neg_log_loss",
            pruner=None,
            n_jobs=n_jobs,
            random_state=3,
        )
        for n_jobs in (None, 2)
    ]
    with joblib.parallel_config(backend="threading"):
        one, two = (clone(search).fit(X, Y) for search in searches)
    for metric in metrics:
        np.testing.assert_array_equal(one.cv_results_[f"mean_test_{metric}"], two.cv_results_[f"mean_test_{metric}"])
    assert one.best_index_ == int(np.argmax(one.cv_results_["mean_test_neg_log_loss"]))
    assert one.study_.best_value == one.best_score_
    assert one.multimetric_
    assert "neg_log_loss" in one.scorer_
    assert "StandardScaler" in one._repr_html_()
    with pytest.raises(DataError, match=r"refit must name the metric of \['accuracy', 'neg_log_loss'\]"):
        OptunaSearch(SVC(), C, scoring=metrics).fit(X, Y)


def test_weights_are_sliced_and_groups_split():
    Guess.seen.clear()
    weight, groups = np.arange(12.0), np.repeat(np.arange(4), 3)
    search = OptunaSearch(Guess(), {"value": [0.5]}, cv=GroupKFold(4))
    search.fit(np.zeros((12, 1)), np.arange(12) % 2, sample_weight=weight, groups=groups)
    *folds, final = Guess.seen
    assert [n for _, n, _ in folds] == [9] * 4
    assert sorted(w.sum() for _, _, w in folds) == sorted(66 - weight[groups == g].sum() for g in range(4))
    assert final[2].tolist() == weight.tolist()


def test_a_damaged_matrix_is_refused_before_it_is_cut_into_folds():
    rows, search = sparse.csr_array(X), OptunaSearch(Ridge(), {"alpha": [1.0]}, n_trials=1, cv=2)
    assert search.fit(rows, Y).best_params_ == {"alpha": 1.0}
    rows.indices[5] = 10**9
    with pytest.raises(DataError, match="X is a damaged CSR matrix: indices holds 1000000000 at place 5"):
        search.fit(rows, Y)


def test_groups_of_comparisons_are_routed():
    rng = np.random.default_rng(0)
    rows, qid = rng.normal(size=(40, 2)), np.repeat(np.arange(8), 5)
    with sklearn.config_context(enable_metadata_routing=True):
        model = GPPLRegressor(random_state=0).set_fit_request(qid=True).set_score_request(qid=True)
        search = OptunaSearch(
            model, {"scale_prior__shape": [1.0, 2.0]}, cv=GroupKFold(2).set_split_request(groups=True)
        )
        search.fit(rows, rows[:, 0], qid=qid, groups=qid)
    assert search.best_score_ > 0.8


def test_the_default_space_goes_through_pipelines():
    model = make_pipeline(StandardScaler(), GPPLRegressor(random_state=0, max_iter=20))
    search = OptunaSearch(model, n_trials=2, cv=2, random_state=0)
    space = search._space().distributions
    assert {"gpplregressor__likelihood", "gpplregressor__inducing"} < set(space)
    with pytest.raises(DataError, match="no default space for Ridge"):
        OptunaSearch(Ridge()).fit(X, Y)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"param_distributions": {}}, "param_distributions must be 'default' or a dict that is not empty"),
        ({"param_distributions": {"C": 3.0}}, r"param_distributions\['C'\] must be a list, a distribution"),
        ({"param_distributions": {"C": stats.loguniform}}, r"\['C'\] has no parameters yet: call it"),
        ({"param_distributions": {"C": stats.uniform(5, -4)}}, r"\['C'\] is not a range: it goes from nan to nan"),
        ({"param_distributions": {"C": stats.randint(5, 2)}}, r"\['C'\] is not a range"),
        ({"param_distributions": {"C": stats.loguniform(0, 1)}}, r"\['C'\] is not a range"),
        ({"pruner": "hyperband"}, "pruner must be 'racing', a pruner of optuna, .* got 'hyperband'"),
        ({"pruner": optuna.pruners.MedianPruner}, "pruner must be 'racing', a pruner of optuna, .* or None; got"),
        ({"sampler": "tpe"}, "sampler must be a sampler of optuna, .* got 'tpe'"),
        ({"storage": 3}, "storage must be a file, the address of a database, .* got 3"),
        ({"callbacks": [3]}, r"callbacks must be functions of \(study, trial\); got 3"),
        ({"cv": []}, r"cv=\[\] has no folds"),
        ({"n_trials": None}, "n_trials and timeout are both None"),
        ({"n_trials": 0}, r"'n_trials' parameter .* must be an int in the range \[1, inf\)"),
    ],
)
def test_what_is_no_search(params, message):
    with pytest.raises(ValueError, match=message):
        OptunaSearch(SVC(), **{"param_distributions": C, **params}).fit(X, Y)


@pytest.mark.parametrize("ends", [(0, 5), (9, 5), (1.5, 5), (True, 5)])
def test_whole_numbers_without_a_logarithm(ends):
    with pytest.raises(DataError, match="LogInteger wants whole numbers, 1 <= low <= high"):
        LogInteger(*ends)


# --------------------------------------------------------------------------------------------------------------- trials
def test_the_first_trial_is_the_estimator_itself_and_equal_seeds_are_equal_trials():
    one, two, other = (OptunaSearch(SVC(C=5.0), C, n_trials=4, cv=2, random_state=s).fit(X, Y) for s in (1, 1, 2))
    assert one.cv_results_["params"][0] == {"C": 5.0}
    assert one.cv_results_["params"] == two.cv_results_["params"]
    assert one.cv_results_["params"][1:] != other.cv_results_["params"][1:]
    assert one.best_score_ == pytest.approx(cross_val_score(one.best_estimator_, X, Y, cv=2).mean())


def test_poor_trials_are_given_up_between_folds():
    pytest.importorskip("sklearn.callback", reason="scikit-learn 1.8 runs all folds of a trial at once")
    Guess.seen.clear()
    space = {"value": optuna.distributions.FloatDistribution(0.0, 1.0)}
    sampler = optuna.samplers.GridSampler({"value": [0.9, 0.8, 0.85, 0.95, 0.7, 0.6, 0.1]}, seed=0)
    search = OptunaSearch(Guess(), space, n_trials=8, cv=4, sampler=sampler).fit(np.zeros((20, 1)), np.arange(20) % 2)
    results = search.cv_results_
    pruned = results["state"] == "pruned"
    assert pruned.any()
    assert np.isnan(results["mean_test_score"][pruned]).all()
    assert np.isfinite(results["split0_test_score"]).all()
    assert np.isnan(results["split3_test_score"][pruned]).all()
    assert len(Guess.seen) - 1 < 8 * 4
    assert results["rank_test_score"][search.best_index_] == 1
    assert (results["rank_test_score"][pruned] == results["rank_test_score"].max()).all()


def test_trials_that_fail_are_kept_as_such(capsys):
    data = np.zeros((8, 1)), np.arange(8) % 2
    search = OptunaSearch(Guess(fail=0.6), {"value": [0.5, 0.7, 0.55]}, cv=2)
    with pytest.warns(FitFailedWarning, match="1 of 3 trials failed; their scores are nan"):
        search.fit(*data)
    assert sorted(search.cv_results_["state"]) == ["complete", "complete", "failed"]
    assert search.best_params_ == {"value": 0.55}
    with pytest.raises(RuntimeError, match="too much"):
        clone(search).set_params(error_score="raise").fit(*data)
    message = r"^none of 2 trials succeeded; the first error was: .*too much; error_score='raise' gives its traceback$"
    with pytest.raises(ValueError, match=message):
        OptunaSearch(Guess(fail=0.6), {"value": [0.8, 0.7]}, cv=2, verbose=1).fit(*data)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("trial 0: failed, ")
    assert "score" not in lines[0]


@pytest.mark.parametrize("stored", [False, True])
def test_an_interrupted_search_keeps_its_trials(stored, tmp_path):
    def stop(_, trial):
        if trial.number == 2:
            raise KeyboardInterrupt

    data = np.zeros((8, 1)), np.arange(8) % 2
    search = OptunaSearch(Guess(), {"value": [0.5, 0.7, 0.6, 0.4]}, cv=2).fit(*data)
    assert search.best_params_ == {"value": 0.7}
    search.set_params(callbacks=[stop], storage=tmp_path / "study.log" if stored else None)
    with pytest.raises(KeyboardInterrupt):
        search.fit(*data)
    assert len(search.cv_results_["params"]) == 3
    assert len([trial for trial in search.study_.trials if trial.state.is_finished()]) == 3
    assert not hasattr(search, "best_params_")


def test_a_pruner_that_leaves_no_trial_is_an_error():
    class Every(optuna.pruners.BasePruner):
        def prune(self, *_):
            return True

    data = np.zeros((8, 1)), np.arange(8) % 2
    with pytest.raises(DataError, match=r"none of 2 trials is complete: pruner=<.*Every.* pruned too many"):
        OptunaSearch(Guess(), {"value": [0.5, 0.7]}, cv=2, pruner=Every()).fit(*data)


def test_lines_say_the_best_and_the_time_left(capsys):
    data = np.zeros((8, 1)), np.arange(8) % 2
    search = OptunaSearch(Guess(), {"value": [0.5, 0.7, 0.6]}, cv=2, verbose=1, random_state=0).fit(*data)
    lines = capsys.readouterr().out.splitlines()
    best = np.maximum.accumulate(search.cv_results_["mean_test_score"])
    assert [line.partition("best ")[2].partition(",")[0] for line in lines] == [f"{score:.4f}" for score in best]
    assert lines[-1].endswith(", ETA 0 s")


def test_time_callbacks_and_lines(capsys):
    calls = []
    data = np.zeros((8, 1)), np.arange(8) % 2
    search = OptunaSearch(
        Guess(), {"value": stats.uniform(0, 1)}, n_trials=None, timeout=0.3, callbacks=[lambda *e: calls.append(e)]
    )
    search.set_params(verbose=1, cv=2, random_state=0).fit(*data)
    n = len(search.cv_results_["params"])
    assert len(calls) == n >= 1
    assert all(study is calls[0][0] and trial.number == k for k, (study, trial) in enumerate(calls))
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(",")[0] for line in lines[:2]] == ["trial 0: complete", "trial 1: complete"]
    assert lines[0].startswith("trial 0: complete, score 0.5000, ")
    assert len(lines) == n
    search.set_params(timeout=1e-9, callbacks=None).fit(*data)
    assert search.cv_results_["state"].tolist() == ["complete"]


def test_callbacks_of_scikit_learn_see_every_fold():
    callback = pytest.importorskip("sklearn.callback")

    class Ear:
        def __init__(self):
            self.names = []

        def setup(self, *_, **__):
            pass

        def teardown(self, *_, **__):
            pass

        def on_fit_task_begin(self, estimator, context):
            self.names.append(context.task_name)

        def on_fit_task_end(self, estimator, context):
            return False

    assert isinstance(Ear(), callback.FitCallback)
    ear = Ear()
    OptunaSearch(Ridge(), {"alpha": [0.1, 1.0]}, cv=3).set_callbacks(ear).fit(X, Y)
    assert ear.names.count("candidate-split-evaluation") == 6
    assert ear.names.count("search") == ear.names.count("refit-with-best-params") == 1


# -------------------------------------------------------------------------------------------------------------- studies
def test_a_study_goes_on_where_it_was_left(tmp_path):
    asked = OptunaSearch(SVC(), C, cv=2, storage=tmp_path / "study.journal", random_state=0, pruner=None)
    first = clone(asked).set_params(n_trials=3).fit(X, Y)
    second = clone(asked).set_params(n_trials=5).fit(X, Y)
    assert second.cv_results_["params"][:3] == first.cv_results_["params"]
    np.testing.assert_array_equal(second.cv_results_["split1_test_score"][:3], first.cv_results_["split1_test_score"])
    assert len({params["C"] for params in second.cv_results_["params"]}) == 5  # nothing is asked for again
    third = clone(asked).set_params(n_trials=5).fit(X, Y)  # nothing is left to do
    np.testing.assert_array_equal(third.cv_results_["mean_test_score"], second.cv_results_["mean_test_score"])
    assert third.best_params_ == second.best_params_
    np.testing.assert_array_equal(third.predict(X), second.predict(X))
    with pytest.raises(DataError, match=r"is of another estimator or other data; give another study_name"):
        clone(asked).fit(X[::-1], Y)
    with pytest.raises(DataError, match=r"is of another estimator or other data"):
        clone(asked).set_params(estimator=SVC(kernel="linear")).fit(X, Y)
    assert clone(asked).set_params(study_name="other", n_trials=1).fit(X[::-1], Y).n_splits_ == 2


@pytest.mark.parametrize(
    ("storage", "message"),
    [
        ("none/study.journal", r"storage none/study.journal cannot be used: .*No such file or directory"),
        ("oracle://me:secret@nowhere/x", r"storage oracle://me:\*\*\*@nowhere/x cannot be used: "),
        ("sqlite:////none/at/all.db", r"storage sqlite:////none/at/all.db cannot be used: .*unable to open"),
    ],
)
def test_a_storage_that_cannot_be_used_is_named(storage, message):
    with pytest.raises(DataError, match=message) as caught:
        OptunaSearch(SVC(), C, cv=2, storage=storage).fit(X, Y)
    assert "secret" not in str(caught.value)


def test_trials_that_were_added_by_hand_are_learnt_from():
    storage = optuna.storages.InMemoryStorage()
    study = optuna.create_study(storage=storage, study_name="mine", direction="maximize")
    known = OptunaSearch(SVC(), C, n_trials=2, cv=2, random_state=0).fit(X, Y)
    study.add_trials(known.study_.trials)
    more = OptunaSearch(SVC(), C, n_trials=3, cv=2, storage=storage, study_name="mine", random_state=0).fit(X, Y)
    assert more.cv_results_["params"][:2] == known.cv_results_["params"]
    assert more.cv_results_["params"][2] != {"C": 1.0}  # the estimator's own parameters were tried before
    with pytest.raises(DataError, match="is of another estimator or other data"):
        more.fit(X[::-1], Y)


def test_a_smaller_space_of_lists_is_completed():
    values = {"C": [0.1, 1.0, 10.0, 100.0]}
    storage = optuna.storages.InMemoryStorage()
    asked = OptunaSearch(SVC(), values, cv=2, storage=storage, random_state=0, pruner=None)
    asked.set_params(n_trials=2).fit(X, Y)
    search = asked.set_params(n_trials=9).fit(X, Y)
    assert sorted(params["C"] for params in search.cv_results_["params"]) == values["C"]


def test_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(MissingExtraError, match=r"skpref\[optuna\]"):
        OptunaSearch(SVC(), C).fit(X, Y)
