"""Graded answers: verdicts of judges and signed numbers, by --set likelihood=logit-graded."""

import csv
import re
from pathlib import Path

import numpy as np
import pytest

from skpref import GPPLClassifier, load
from skpref.cli import main

GRADED = ("--set", "likelihood=logit-graded")
WORDS = {2: "A>>B", 1: "[[A>B]]", 0: "A=B", -1: "B>A", -2: "[[B>>A]]"}
QUALITY = {"ant": 0.0, "bee": 1.0, "cat": 2.0}


def verdicts(n=60):
    rng, names = np.random.default_rng(0), list(QUALITY)
    pairs = [tuple(rng.choice(names, 2, replace=False).tolist()) for _ in range(n)]
    grades = [int(np.clip(np.rint(QUALITY[a] - QUALITY[b] + rng.normal()), -2, 2)) for a, b in pairs]
    return pairs, grades


def write(answers, *more):
    names = ["model_a", "model_b", "verdict", *(f"more_{k}" for k in range(len(more)))]
    rows = [names, *([*own] for own in zip(*zip(*verdicts(len(answers))[0], strict=True), answers, *more, strict=True))]
    Path("data.csv").write_text("\n".join(map(",".join, rows)) + "\n")
    return "data.csv"


@pytest.mark.parametrize("zero", ["A=B", "tie", "Tie (bothbad)", "0"])
def test_verdicts_are_learnt_as_in_python(zero, capsys):
    pairs, grades = verdicts()
    assert main(["fit", write([{**WORDS, 0: zero}[g] for g in grades]), "--label", "verdict", *GRADED]) == 0
    printed = capsys.readouterr().out
    assert "answer = verdict (grades)" in printed
    assert re.search(r"1\s+'?cat", printed)
    model, wanted = load("model.skpref"), GPPLClassifier(likelihood="logit-graded", random_state=0).fit(pairs, grades)
    assert model.classes_.tolist() == [-2, -1, 0, 1, 2]
    assert model.utility(list(QUALITY)).tolist() == wanted.utility(list(QUALITY)).tolist()


def test_predictions_have_the_chances_of_sides_and_of_grades():
    pairs, grades = verdicts()
    file = write([str(g) for g in grades])
    assert main(["fit", file, "--winner", "verdict", *GRADED]) == 0
    assert main(["predict", "model.skpref", file, "--out", "predicted.csv"]) == 0
    with Path("predicted.csv").open() as lines:
        table = {name: np.array(column) for name, *column in zip(*csv.reader(lines), strict=True)}
    model = load("model.skpref")
    sides = np.column_stack([table[name].astype(float) for name in ("p_left", "p_tie", "p_right")])
    np.testing.assert_allclose(sides, model.predict_proba(pairs, ties=True), rtol=1e-9)
    np.testing.assert_allclose(table["probability_left"].astype(float), sides[:, 0] + 0.5 * sides[:, 1])
    of_grades = np.column_stack([table[f"p_{g}"].astype(float) for g in (-2, -1, 0, 1, 2)])
    np.testing.assert_allclose(of_grades, model.predict_proba(pairs), rtol=1e-9)


def test_a_search_scores_the_sides(capsys):
    file = write([WORDS[g] for g in verdicts()[1]])
    command = ["tune", file, "--label", "verdict", "--trials", "2", "--no-mlflow", *GRADED, "--set", "max_iter=20"]
    assert main([*command, "--out", "results"]) == 0
    printed = capsys.readouterr().out
    losses = {name: float(loss) for name, loss in re.findall(r"(tuned|coin flip)\s+[0-9.]+\s+([0-9.]+)", printed)}
    assert losses["coin flip"] == pytest.approx(np.log(2.0), abs=1e-4)
    assert losses["tuned"] < 0.6
    assert str(load("results/model.skpref").likelihood) == "logit-graded"


def test_users_grade():
    grades = verdicts()[1]
    file = write([WORDS[g] for g in grades], [f"u{k % 3}" for k in range(len(grades))])
    assert main(["fit", file, "--label", "verdict", "--model", "crowd", "--user", "more_0", *GRADED]) == 0
    assert load("model.skpref").classes_.tolist() == [-2, -1, 0, 1, 2]
    assert main(["predict", "model.skpref", file, "--out", "predicted.csv"]) == 0
    assert "p_-2" in Path("predicted.csv").read_text().partition("\n")[0]


@pytest.mark.parametrize(
    ("answers", "options", "message"),
    [
        (["A>>B", "B>A", "maybe"], ["--label", "verdict"], r"line 4, column 'verdict': 'maybe' is no grade; grades"),
        (["A>>B", "B>A", ""], ["--label", "verdict"], r"line 4, column 'verdict': the grade is missing"),
        (["A>>B", "B>A"], ["--winner", "model_a", "--loser", "model_b"], "grades stand in one column beside two items"),
        (["1", "2"], ["--counts", "verdict,verdict"], "grades stand in one column beside two items"),
    ],
)
def test_what_is_no_grade_is_refused(answers, options, message, capsys):
    assert main(["fit", write(answers), *options, *GRADED]) == 2
    assert re.search(message, capsys.readouterr().err)
