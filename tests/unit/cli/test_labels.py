"""The command with labelled rows: ordered levels of features, numbers and classes of pairs."""

import io
import json
import re

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from skpref import GPOrdinalRegressor, load
from skpref.cli import main
from skpref.cli.tasks.base import Rows, make_folds
from skpref.cli.tasks.figures import ChanceReport, LevelReport, Report
from skpref.gp.default_kernels import linear, stationary
from skpref.gp.relevance import features_share_scales
from skpref.kernels import Linear
from tests.unit.cli.answers import assert_refused, rows_of, write

QUICK = ("--trials", "1", "--folds", "2", "--no-mlflow")
WORDS = ("low", "middle", "high")


def grades_text(label="label", words=("1", "2", "3"), n=45):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 2))
    level = np.digitize(x[:, 0], [-0.5, 0.5])
    rows = [f"r{k},{a:.3f},{b:.3f},p{k // 3},{words[y]}" for k, ((a, b), y) in enumerate(zip(x, level, strict=True))]
    return f"id,size,noise,person,{label}\n" + "\n".join(rows) + "\n"


def pairs_text(*, binary=False):
    rng = np.random.default_rng(0)
    lines = ["user,item,rating"]
    for u in range(12):
        for i in rng.choice(10, 7, replace=False):
            value = i / 3 + u / 6 + rng.normal(0, 0.1)
            lines.append(f"u{u},i{i},{int(value > 2.5) if binary else round(value, 2)}")
    return "\n".join(lines) + "\n"


@pytest.fixture
def folder(tmp_path):
    write(tmp_path / "grades.csv", grades_text())
    return tmp_path


def test_ordered_levels(folder, capsys):
    write(folder / "grades.csv", grades_text("grade", WORDS))
    asked = ["tune", "grades.csv", "--model", "ordinal", "--label", "grade", "--levels", ",".join(WORDS)]
    assert main([*asked, "--group", "person", *QUICK]) == 0
    out, err = capsys.readouterr()
    assert re.search(r"note: The kernel has the same scale for all features.* kernel='ard' learns", err)
    for expected in (
        r"grades\.csv: 45 rows of 2 columns, labels low, middle, high, 15 groups; sha256 [0-9a-f]{12}",
        r"Search: 1 trial in .*\n  best: trial 0, cross-validated MAE 0\.\d{4}\n  kernel=auto",
        r"Hold-out \(9 rows, 36 to learn from, split by person\)",
        r"median level +\d\.\d{4}",
        r"feature +relevance\n.+\n.+\n",
        r"skpref predict skpref-out.model.skpref DATA.csv",
    ):
        assert re.search(expected, out), expected
    model = load(folder / "skpref-out" / "model.skpref")
    assert isinstance(model, GPOrdinalRegressor)
    assert model.classes_.tolist() == list(WORDS)
    assert model.feature_names_in_.tolist() == ["size", "noise"]
    assert len(rows_of(folder / "skpref-out" / "relevance.csv")) == 2
    assert main(["fit", *asked[1:], "--features", "size,noise", "--set", "kernel=ard"]) == 0
    relevance = load(folder / "model.skpref").relevance_
    assert relevance[0] > 2.0 * relevance[1]


@pytest.mark.parametrize(
    ("kernel", "shared"),
    [
        (RBF(2.0), True),
        (stationary(1.5, np.array([1.0, 3.0])), True),
        (linear(np.array([1.0, 3.0]), 0.5), True),
        (ConstantKernel(2.0) * Linear(np.array([1.0, 3.0]), "fixed"), True),
        (ConstantKernel(2.0) * RBF([1.0, 2.0]) + Linear(np.array([2.0, 2.0])), False),
        (stationary(1.5, np.array([1.0, 3.0])).clone_with_theta(np.array([0.3, 0.4])), False),
        (Linear(np.array([1.0]), "fixed"), True),
    ],
)
def test_kernels_that_learn_nothing_about_single_features(kernel, *, shared):
    assert features_share_scales(kernel) is shared


def test_constant_features_and_learnt_scales_are_not_said_to_be_shared(folder, capsys):
    rows = [(1, 2, k % 3) for k in range(30)], [(k % 7, k % 7, 0.1 * k) for k in range(30)]
    for model, lines in zip(("ordinal", "svgp"), rows, strict=True):
        write(folder / "alike.csv", "a,b,label\n" + "".join(f"{a},{b},{y}\n" for a, b, y in lines))
        assert main(["tune", "alike.csv", "--model", model, *QUICK]) == 0
        out, err = capsys.readouterr()
        assert re.search(r"a +(\d\.\d+)\n  b +\1", out)
        assert "The kernel has" not in err


def test_half_grades_are_levels(folder, capsys):
    write(folder / "grades.csv", grades_text(words=("1", "1.5", "2")))
    assert main(["tune", "grades.csv", "--model", "ordinal", "--label", "label", "--group", "person", *QUICK]) == 0
    assert "labels 1.0, 1.5, 2.0," in capsys.readouterr().out


@pytest.mark.slow
def test_few_settings_are_tried_once_each(folder):
    options = ["--trials", "30", "--folds", "2", "--no-mlflow", "--features", "size, noise"]
    assert main(["tune", "grades.csv", "--model", "ordinal", *options]) == 0
    trials = rows_of(folder / "skpref-out" / "trials.csv")
    assert [row["kernel"] for row in trials] == ["auto", "", "ard", "linear-ard"]


@pytest.mark.parametrize("binary", [False, True])
def test_machines(folder, capsys, *, binary):
    write(folder / "pairs.csv", pairs_text(binary=binary))
    assert main(["tune", "pairs.csv", "--model", "fm-classifier" if binary else "fm", *QUICK]) == 0
    out, _ = capsys.readouterr()
    found = {
        name: float(value)
        for name, value in re.findall(rf"^  (tuned|mean) +{'[.0-9]+ +' * binary}(\d\.\d+)", out, re.MULTILINE)
    }
    assert found["tuned"] < 0.8 * found["mean"]  # the log-loss, or the error
    assert "84 rows of 2 columns" in out
    model = load(folder / "skpref-out" / "model.skpref")
    assert model.predict([["u1", "i9"], ["an unseen user", "i0"]]).shape == (2,)


def test_machines_of_levels(folder, capsys):
    rng = np.random.default_rng(0)
    pairs = [(u, i, 0.5 * round(2 * min(max(3 + 0.8 * (u % 3 - i % 4) + 0.5 * rng.normal(), 2), 4)))
             for u in range(14) for i in range(10)]  # fmt: skip
    write(folder / "stars.csv", "user,item,rating\n" + "".join(f"u{u},i{i},{stars}\n" for u, i, stars in pairs))
    assert main(["tune", "stars.csv", "--model", "fm-ordinal", *QUICK]) == 0
    out, _ = capsys.readouterr()
    assert re.search(r"cross-validated log-loss \d\.\d{4}", out)
    assert re.search(r"labels 2\.0, 2\.5, 3\.0, 3\.5, 4\.0", out)
    assert re.search(r"Levels on the hold-out", out)
    found = {
        name: float(mae) for name, mae in re.findall(r"^  (tuned|median level) +(\d\.\d+)", out, flags=re.MULTILINE)
    }
    assert found["tuned"] < 0.8 * found["median level"]
    model = load(folder / "skpref-out" / "model.skpref")
    assert model.classes_.tolist() == [2.0, 2.5, 3.0, 3.5, 4.0]
    assert main(["rank", "skpref-out/model.skpref", "--user", "u1", "--json"]) == 0
    ranked = json.loads(capsys.readouterr().out)
    expected = [row["expected_level"] for row in ranked]
    assert expected == sorted(expected, reverse=True)
    assert len(set(expected)) == 10
    assert 2.0 < expected[-1] < expected[0] < 4.0  # in stars
    p = model.predict_proba([["u1", ranked[0]["id"]]])[0]
    assert expected[0] == pytest.approx(p @ model.classes_)
    assert ranked[0]["std"] == pytest.approx(np.sqrt(p @ (model.classes_ - expected[0]) ** 2))


def test_levels_of_machines_may_be_words(folder, capsys, monkeypatch, refuses):
    rows = [(u, i, ("bad", "fair", "good")[(u + i) % 3]) for u in range(6) for i in range(6)]
    write(folder / "words.csv", "user,item,rating\n" + "".join(f"u{u},i{i},{word}\n" for u, i, word in rows))
    asked = ["fit", "words.csv", "--model", "fm-ordinal", "--set", "inference=gibbs", "--set", "max_iter=10"]
    asked += ["--set", "burn_in=2", "--out", "m.skpref"]
    refuses(asked, "expected a number (or name all levels, low to high, by --levels), got 'bad'")
    assert main([*asked, "--levels", "bad,fair,good"]) == 0
    assert load(folder / "m.skpref").classes_.tolist() == ["bad", "fair", "good"]
    monkeypatch.setattr("sys.stdin", io.StringIO("good\nbad\nq\n"))
    assert main(["elicit", "m.skpref", "--out", "learnt.skpref"]) == 0
    inferences = [load(folder / name)[-1].inference_ for name in ("m.skpref", "learnt.skpref")]
    assert inferences == ["gibbs", "variational"]
    capsys.readouterr()
    assert main(["rank", "m.skpref", "--user", "u1", "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)[0]) == {"rank", "id", "expected_place", "std"}  # 1 is the lowest
    refuses([*asked, "--levels", "bad,fair,good", "--set", "class_order=good,bad"], "--set class_order: use --levels")


BAD = {
    "typo": (grades_text("lable"), (), "there is no column 'label'; did you mean 'lable'.*Found: id, size"),
    "text": (grades_text(), (), r"line 2, column 'person': expected a number \(features are numeric; choose by --feat"),
    "words": (
        grades_text(words=WORDS),
        ("--group", "person"),
        "expected a number \\(or name all levels, low to high, by --levels\\), got '",
    ),
    "a word": (
        grades_text(words=WORDS),
        ("--group", "person", "--levels", "low,high"),
        "'middle' is none of the levels low, high \\(--levels\\)",
    ),
    "numbers": (
        grades_text() + "".join(f"s{k},1,{k},p,{k + 0.37}\n" for k in range(40)),
        ("--group", "person"),
        "numbers with fractions, and at most",
    ),
    "missing": (grades_text() + "r,1,1,p,\n", ("--group", "person"), "line 47, column 'label': a number is missing"),
    "few": (grades_text(n=9), ("--group", "person"), "9 rows; at least 10 are needed"),
    "no weight": ("x,label,weight\n" + "1,1,0\n2,2,0\n", ("--weight", "weight"), "column 'weight': all weights are"),
    "one": (grades_text(), ("--holdout", "one"), "--holdout one is for ratings"),
}


@pytest.mark.parametrize("case", BAD)
def test_complaints_name_file_line_and_column(folder, case, capsys):
    text, more, message = BAD[case]
    write(folder / "grades.csv", text)
    assert_refused(["tune", "grades.csv", "--model", "ordinal", *QUICK, *more], message, capsys)


class Constant:
    """Predicts one value, or one probability."""

    def __init__(self, value):
        self.value = value

    def predict(self, X):
        return np.full(len(X), self.value)

    def predict_proba(self, X):
        return np.tile([1 - self.value, self.value], (len(X), 1))


def test_losses_by_hand():
    X, weight = np.zeros((3, 1)), np.array([1.0, 1.0, 2.0])
    levels, numbers, classes = np.array([0, 1, 3]), np.array([0.0, 1.0, 3.0]), np.array([0, 1, 1])
    for report, value, y, loss in (
        (LevelReport(np.arange(4)), 1, levels, (1 + 0 + 2 * 2) / 4),
        (Report(), 1, numbers, np.sqrt((1 + 0 + 2 * 4) / 4)),
        (ChanceReport(), 0.8, classes, -(np.log(0.2) + 3 * np.log(0.8)) / 4),
    ):
        figures = report.figures(Constant(value), Rows(X, y, weight))
        assert figures.values[report.metric] == pytest.approx(loss)


def folds_of(rows):
    return make_folds(rows, 4, 0, are_levels=True)


def test_folds_of_levels_have_them_in_proportion():
    y = np.repeat([0, 1, 2], [20, 8, 1])  # the last one is too rare for a part of its own in each fold
    parts = folds_of(Rows(np.zeros((29, 1)), y, np.ones(29)))
    assert [np.bincount(y[test], minlength=3)[:2].tolist() for _, test in parts] == [[5, 2]] * 4
    whole = folds_of(Rows(np.zeros((29, 1)), y, np.ones(29), np.arange(29) // 3))
    assert all(not set(train // 3) & set(test // 3) for train, test in whole)
    assert len(folds_of(Rows(np.zeros((3, 1)), np.arange(3), np.ones(3)))) == 3


# --------------------------------------------------------------------------------------------------------------- sparse
@pytest.mark.parametrize("model", ["svgp", "svgp-classifier"])
def test_numbers_and_classes_of_features(folder, capsys, model):
    rng = np.random.default_rng(0)
    # A line without noise would hardly tell which feature it depends on: nothing but a long length-scale fits it.
    numbers = [(a, b, round(2.0 * a + 0.3 * e, 3)) for a, b, e in rng.normal(size=(60, 3))]
    rows = [(a, b, a > 0 if model == "svgp-classifier" else y) for a, b, y in numbers]
    write(folder / "rows.csv", "size,noise,label\n" + "\n".join(f"{a:.3f},{b:.3f},{y}" for a, b, y in rows) + "\n")
    job = ("--trials", "2", "--folds", "2", "--no-mlflow", "--out", model)
    assert main(["tune", "rows.csv", "--model", model, "--set", "inducing=20", *job]) == 0
    out, _ = capsys.readouterr()
    assert "Relevance of the features, 2 of 2" in out
    assert ("RMSE" if model == "svgp" else "Calibration on the hold-out") in out
    assert [row["feature"] for row in rows_of(folder / model / "relevance.csv")] == ["size", "noise"]
    assert max(int(row["inducing"]) for row in rows_of(folder / model / "trials.csv")) <= 20
    assert main(["predict", f"{model}/model.skpref", "rows.csv", "--out", "predicted.csv"]) == 0
    assert len(rows_of(folder / "predicted.csv")) == 60


def test_three_classes_are_too_many(folder, capsys):
    assert main(["tune", "grades.csv", "--model", "svgp-classifier", *QUICK, "--features", "size,noise"]) == 2
    assert re.search(
        r"column 'label': two classes are needed; got 3: 1, 2, 3; for ordered levels", capsys.readouterr().err
    )
