"""What the command ``skpref tune`` leaves in an MLflow store."""

import json

import numpy as np
import pytest

from skpref import load
from skpref.cli import main

mlflow, pd = pytest.importorskip("mlflow"), pytest.importorskip("pandas")


def test_a_parent_a_run_a_trial_curves_and_files(home, stored, capsys):
    rows = [
        f"{a},{b},{int(a < b) if (i + a) % 5 else int(a > b)}"
        for i in range(3)
        for a in range(5)
        for b in range(5)
        if a != b
    ]
    (home / "votes.csv").write_text("left,right,label\n" + "\n".join(rows) + "\n", "utf-8")
    assert main(["tune", "votes.csv", "--trials", "3", "--folds", "2", "--experiment", "job", "--out", "out"]) == 0
    assert "mlflow ui --backend-store-uri sqlite:///mlruns/mlflow.db" in capsys.readouterr().out
    store = stored("job")
    runs = {run.info.run_name: run for run in store.runs}
    assert {"tune", "OptunaSearch", "trial 0", "trial 1", "trial 2", "GPPLClassifier"} <= set(runs)
    parent = runs["tune"]
    assert parent.info.status == "FINISHED"
    assert len(parent.data.params["data.sha256"]) == 64
    assert parent.data.params["data.n_comparisons"] == "60"
    assert parent.data.params["job.trials"] == "3"
    assert "best.likelihood" in parent.data.params
    (data,) = parent.inputs.dataset_inputs
    assert json.loads(data.dataset.profile) == {"num_rows": 60, "num_elements": 120}
    metrics = parent.data.metrics
    assert {"holdout.tuned.log_loss", "holdout.tuned.ece", "holdout.coin_flip.accuracy"} <= set(metrics)
    for number in range(3):
        trial = runs[f"trial {number}"]
        assert trial.data.tags["mlflow.parentRunId"] == runs["OptunaSearch"].info.run_id
        assert trial.data.tags["state"] in {"complete", "pruned"}
        assert "scale_prior__shape" in trial.data.params
        assert trial.data.metrics.keys() >= {"fold_score"}
    assert runs["OptunaSearch"].data.tags["mlflow.parentRunId"] == parent.info.run_id
    assert "lower_bound" in runs["GPPLClassifier"].data.metrics
    artifacts = {file.path for file in store.client.list_artifacts(parent.info.run_id)}
    assert artifacts >= {"model.skpref", "ranking.csv", "trials.csv"}
    load(home / "out" / "model.skpref")
    # The names of a search in Python, and a model that can be served.
    assert "best.mean_test_score" in runs["OptunaSearch"].data.metrics
    served = mlflow.pyfunc.load_model(store.models()[0].artifact_location)
    assert [column["name"] for column in served.metadata.signature.inputs.to_dict()] == ["left", "right"]
    answer = served.predict(pd.DataFrame({"left": ["0", "4"], "right": ["1", "2"]}), params={"return_proba": True})
    assert np.allclose(answer.sum(axis=1), 1.0)
