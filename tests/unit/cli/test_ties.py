"""Likelihoods with and without ties are scored on the same loss, in which a tie is half a win."""

import json
from pathlib import Path

import numpy as np
import pytest

from skpref.cli import main
from skpref.cli.options import parse
from skpref.cli.predict import predictions
from skpref.cli.tasks.comparisons import read
from skpref.metrics import answers_log_loss, cross_entropy


def write_league(n=120, *, user=False):
    rng = np.random.default_rng(0)
    lines = ["left,right,label" + (",user" if user else "")]
    for k in range(n):
        a, b = rng.choice(6, 2, replace=False)
        label = 0.5 if rng.random() < 0.4 else float(rng.random() < 1 / (1 + np.exp(b - a)))
        lines.append(f"t{a},t{b},{label}" + (f",u{k % 5}" if user else ""))
    Path("league.csv").write_text("\n".join(lines), "utf-8")


@pytest.mark.parametrize(("model", "likelihood"), [("gppl", "logit-ties"), ("gppl", "logit"), ("crowd", "probit-ties")])
def test_half_of_a_tie_counts_for_either_side_by_every_likelihood(model, likelihood):
    write_league(user=model == "crowd")
    task = read(parse(["tune", "league.csv", "--model", model]))
    fitted = task.estimator.set_params(likelihood=likelihood, order_effect=False).fit(task.rows.X, task.rows.y)
    p = fitted.predict_proba(task.rows.X)[:, 1]
    figures = task.report.figures(fitted, task.rows).values
    if likelihood == "logit":
        assert "answers_log_loss" not in figures
    else:
        answers = fitted.predict_proba(task.rows.X, ties=True)
        assert figures["answers_log_loss"] == pytest.approx(answers_log_loss(task.rows.y, answers))
        assert p == pytest.approx(answers[:, 0] + answers[:, 1] / 2)
        conditional = answers[:, 0] / (answers[:, 0] + answers[:, 2])
        assert cross_entropy(task.rows.y, p) < cross_entropy(task.rows.y, conditional) - 0.001
    assert task.loss(fitted, task.rows) == pytest.approx(cross_entropy(task.rows.y, p))
    assert figures["log_loss"] == task.loss(fitted, task.rows)


@pytest.mark.parametrize("likelihood", ["logit-ties", "logit"])
def test_the_report_says_who_predicts_ties(likelihood, capsys):
    write_league()
    Path("league.toml").write_text(
        f'[data]\nfile = "league.csv"\n[search]\ntrials = 1\nfolds = 2\n[space]\nlikelihood = "{likelihood}"\n'
        "[tracking]\nmlflow = false\n",
        "utf-8",
    )
    assert main(["run", "league.toml", "--json"]) == 0
    tuned = json.loads(capsys.readouterr().out)["holdout"]["tuned"]
    assert main(["run", "league.toml"]) == 0
    out = capsys.readouterr().out
    if likelihood == "logit":
        assert "Log-loss of the three answers" not in out
        assert "answers_log_loss" not in tuned
    else:
        assert f"Log-loss of the three answers left, tie and right: {tuned['answers_log_loss']:.4f}" in out


def test_the_line_of_what_was_read_counts_ties(capsys):
    write_league()
    n_ties = Path("league.csv").read_text("utf-8").count(",0.5")
    assert main(["fit", "league.csv", "--out", "league.skpref"]) == 0
    read = f"answer = label, weights = none; {n_ties} rows are ties, a third answer with likelihood=auto\n"
    assert read in capsys.readouterr().out


def test_nothing_is_said_of_ties_where_there_are_none(capsys):
    write_league()
    text = Path("league.csv").read_text("utf-8").splitlines()
    Path("league.csv").write_text("\n".join(line for line in text if "0.5" not in line), "utf-8")
    assert main(["tune", "league.csv", "--trials", "1", "--folds", "2", "--no-mlflow"]) == 0
    assert "tie" not in capsys.readouterr().out


def test_margins_are_read_and_predicted():
    rng = np.random.default_rng(0)
    lines = ["left,right,label"]
    for _ in range(60):
        a, b = rng.choice(5, 2, replace=False)
        lines.append(f"t{a},t{b},{round(3 * (a - b) + 4 * rng.normal())}")
    Path("games.csv").write_text("\n".join(lines), "utf-8")
    task = read(parse(["tune", "games.csv", "--set", "likelihood=margin"]))
    model = task.estimator.set_params(likelihood="margin").fit(task.rows.X, task.rows.y)
    predicted = predictions(model, task.rows.X)
    assert np.corrcoef(predicted["margin"], task.rows.y)[0, 1] > 0.5
    assert np.allclose(predicted["p_left"] + predicted["p_tie"] + predicted["p_right"], 1.0)
    assert task.loss(model, task.rows) < np.log(2.0)
