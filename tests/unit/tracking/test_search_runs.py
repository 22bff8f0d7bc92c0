"""Runs that `OptunaSearch` leaves in a real store: a trial each, in them their folds, pruned and failed ones too."""

import numpy as np
import pytest
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline

from skpref import OneHotDesign, VariationalFM
from skpref.search import OptunaSearch
from skpref.tracking import MLflowCallback

optuna = pytest.importorskip("optuna")
pytest.importorskip("sklearn.callback", reason="scikit-learn 1.8 does not hand callbacks on")
pytestmark = pytest.mark.usefixtures("home")

RNG = np.random.default_rng(0)
X = np.array([(u, i) for u in range(8) for i in RNG.choice(6, 4, replace=False)])
Y = X[:, 1] + RNG.normal(0.0, 0.3, len(X))
NAME = "variationalfm__n_factors"


class Third(optuna.pruners.BasePruner):
    """Gives up trial 2 at the first look into its first fold."""

    def prune(self, study, trial):
        return bool(trial.number == 2)


@pytest.mark.filterwarnings("ignore:The estimator OneHotDesign does not support callbacks")
def test_every_trial_is_a_run_with_its_folds_in_it(stored):
    model = make_pipeline(OneHotDesign(), VariationalFM(max_iter=8, tol=0.0, random_state=0))
    cv = KFold(2, shuffle=True, random_state=0)
    # -1 is refused by the estimator: a trial that fails.
    search = OptunaSearch(model, {NAME: [1, 2, 3, -1]}, cv=cv, pruner=Third(), random_state=0)
    with pytest.warns(FitFailedWarning, match="1 of 4 trials failed"):
        search.set_callbacks(MLflowCallback("search", log_model=False)).fit(X, Y)
    states = search.cv_results_["state"].tolist()
    assert sorted(states) == ["complete", "complete", "failed", "pruned"]
    store = stored("search")
    (parent,) = store.children()
    assert parent.info.run_name == "OptunaSearch"
    trials = {run.info.run_name: run for run in store.children(parent)}
    assert set(trials) == {"trial 0", "trial 1", "trial 2", "trial 3", *(n for n in trials if n.endswith("refit"))}
    assert len(trials) == 5
    n_folds = {"complete": 2, "pruned": 1, "failed": 1}
    for number, (state, params) in enumerate(zip(states, search.cv_results_["params"], strict=True)):
        run = trials[f"trial {number}"]
        assert run.data.tags["state"] == state
        assert run.info.status == ("FAILED" if state == "failed" else "FINISHED")
        assert run.data.params[NAME] == str(params[NAME])
        assert len(store.children(run)) == n_folds[state]
        scores = [search.cv_results_[f"split{fold}_test_score"][number] for fold in range(2)]
        folds = {run.info.run_name: run.data.metrics for run in store.children(run)}
        assert set(folds) == {f"Pipeline {fold}" for fold in range(n_folds[state])}
        for fold, score in enumerate(scores):
            metrics = folds.get(f"Pipeline {fold}", {})
            assert metrics.get("test_score") == (score if np.isfinite(score) else None)
            assert metrics.get("split", fold) == fold
        finished = [(step, score) for step, score in enumerate(scores, 1) if np.isfinite(score)]
        assert store.curve(run, "fold_score") == finished
        assert ("mean_test_score" in run.data.metrics) == (state == "complete")
        if state == "complete":
            assert run.data.metrics["mean_test_score"] == search.cv_results_["mean_test_score"][number]
        if state == "failed":
            assert "n_factors" in run.data.tags["error"]
    pruned = trials["trial 2"]
    (fold,) = store.children(pruned)
    (fit,) = store.children(fold)
    assert [step for step, _ in store.curve(fit, "lower_bound")] == [1, 2]  # of 8
    assert {"history.png", "cv_results.csv"} <= store.files(parent)
    assert parent.data.metrics["best.mean_test_score"] == search.best_score_
    assert parent.data.params[f"best.{NAME}"] == str(search.best_params_[NAME])


@pytest.mark.slow
def test_importances_and_slices_are_drawn_when_there_are_trials_enough(stored):
    space = {"n_factors": optuna.distributions.IntDistribution(0, 4), "learn_priors": [True, False]}
    design = OneHotDesign().fit_transform(X)
    model = VariationalFM(max_iter=3, random_state=0)
    search = OptunaSearch(model, space, n_trials=5, cv=2, pruner=None, random_state=0)
    search.set_callbacks(MLflowCallback("plots")).fit(design, Y)
    store = stored("plots")
    (parent,) = store.children()
    assert {"history.png", "importances.png", "slices.png"} <= store.files(parent)
    assert len(store.children(parent)) == 6
    assert [model.source_run_id for model in store.models()] == [parent.info.run_id]  # the best one
