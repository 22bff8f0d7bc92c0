"""The command with a crowd: users in, consensus, views and annotators out."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from skpref import CrowdGPPL, GPPLClassifier, load, save
from skpref.cli import main
from skpref.cli.options import Tune, parse
from skpref.cli.rankings import annotators_text
from skpref.cli.tasks import comparisons
from skpref.cli.tasks.comparisons import make_task
from tests.unit.cli.answers import assert_refused, rows_of, write

QUICK = ("--model", "crowd", "--trials", "1", "--folds", "2", "--no-mlflow")
N_ITEMS, N_USERS = 8, 12


def votes_text(header="user,left,right,label", *, ties=False):
    """Users 0 to 8 like high numbers, 9 to 11 like low ones; now and then somebody errs."""
    rng = np.random.default_rng(2)
    lines = [header]
    for k in range(15 * N_USERS):
        u, (a, b) = k % N_USERS, rng.choice(N_ITEMS, 2, replace=False)
        label = int((a > b) == (u < 9)) if rng.random() < 0.9 else int(rng.random() < 0.5)
        lines.append(f"j{u},i{a},i{b},{0.5 if ties and k % 10 == 0 else label}")
    return "\n".join(lines) + "\n"


def items_text():
    rng = np.random.default_rng(0)
    return "id,size,noise\n" + "\n".join(f"i{i},{i / 5:.1f},{rng.normal():.3f}" for i in range(N_ITEMS)) + "\n"


def users_text(column="user"):
    return f"{column},age\n" + "\n".join(f"j{u},{float(u >= 9) + u / 100:.2f}" for u in range(N_USERS)) + "\n"


@pytest.fixture
def folder(tmp_path):
    write(tmp_path / "votes.csv", votes_text())
    write(tmp_path / "items.csv", items_text())
    write(tmp_path / "users.csv", users_text())
    return tmp_path


# -------------------------------------------------------------------------------------------------------- the whole way
def test_tune_a_crowd_then_rank(folder, capsys, refuses):
    assert main(["tune", "votes.csv", *QUICK, "--out", "out"]) == 0
    out, err = capsys.readouterr()
    for expected in (
        r"180 comparisons by 12 users of 8 items, no features; sha256 [0-9a-f]{12}",
        r"Hold-out \(\d+ comparisons, \d+ to learn from; each user also has comparisons to learn from\)",
        r"tuned +[01]\.\d{3} +\d\.\d{4} +0\.\d{3}",
        r"coin flip +[01]\.\d{3} +0\.6931",
        r"predicted +observed +rows",
        r"Ranking by the consensus \(8\)",
        r"1  i[67] +\+\d\.\d{3} ± \d\.\d{3}",
        r"factors of personal taste, [1-9]\d? of \d+ in use: \d\.\d{3}",
        r"Annotators who agree most with the consensus \(5 of 12\)\n +user +labels +agreement",
        r"Annotators who agree least with the consensus \(5 of 12\)\n.*\n  j(9|10|11) +15 +0\.[0-4]",
        r"skpref rank out.model.skpref \[--user ID\]",
    ):
        assert re.search(expected, out), expected
    assert "note:" not in err
    names = {path.name for path in (folder / "out").iterdir()}
    plots = {"ranking.png", "calibration.png", "annotators.png"}
    assert names >= {"model.skpref", "ranking.csv", "trials.csv", "annotators.csv"} | plots
    annotators = rows_of(folder / "out" / "annotators.csv")
    assert {row["user"] for row in annotators[-3:]} == {"j9", "j10", "j11"}
    accuracies = [float(row["accuracy"]) for row in annotators]
    assert accuracies == sorted(accuracies, reverse=True)
    assert list(annotators[0])[:3] == ["user", "n_labels", "agreement"]

    model = load(folder / "out" / "model.skpref")
    assert isinstance(model, CrowdGPPL)

    write(folder / "ask.csv", "id\ni0\ni7\n")
    assert main(["rank", "out/model.skpref", "ask.csv", "--out", "r.csv"]) == 0
    out, _ = capsys.readouterr()
    assert "Ranking (2)" in out
    assert [row["id"] for row in rows_of(folder / "r.csv")] == ["i7", "i0"]
    assert main(["rank", "out/model.skpref", "ask.csv", "--user", "j10", "--out", "r.csv"]) == 0
    out, _ = capsys.readouterr()
    assert "Ranking by user 'j10' (2)" in out
    assert [row["id"] for row in rows_of(folder / "r.csv")] == ["i0", "i7"]
    capsys.readouterr()
    assert main(["rank", "out/model.skpref", "--user", "j10"]) == 0  # all known items
    assert "(8)" in capsys.readouterr().out
    refuses(["rank", "out/model.skpref", "ask.csv", "--user", "J1"], "unknown user 'J1'; did you mean 'j1'?")

    # Equal seeds give equal files.
    assert main(["tune", "votes.csv", *QUICK, "--out", "again"]) == 0
    for name in ("ranking.csv", "annotators.csv", "model.skpref"):
        assert Path("out", name).read_bytes() == Path("again", name).read_bytes()


def test_features_on_both_sides(folder, capsys):
    write(folder / "users.csv", users_text() + "silent,1.2\n")
    arguments = ["tune", "votes.csv", "--items", "items.csv", "--users", "users.csv", *QUICK]
    assert main(arguments) == 0
    out, _ = capsys.readouterr()
    assert "votes.csv + items.csv + users.csv: 180 comparisons by 12 users (1 feature) of 8 items, 2 features" in out
    assert len(rows_of(folder / "skpref-out" / "annotators.csv")) == 12  # of those who answered
    write(folder / "new.csv", "noise;name;size\n0.0;big;1.4\n0.0;small;0.0\n")
    asked = ["rank", "skpref-out/model.skpref", "new.csv", "--id", "name"]
    assert main(asked) == 0
    out, _ = capsys.readouterr()
    assert out.index("big") < out.index("small")
    assert main([*asked, "--user", "silent"]) == 0  # known by features alone
    assert "Ranking by user 'silent' (2)" in capsys.readouterr().out


def test_ties_and_sides_widen_the_search(folder):
    write(folder / "votes.csv", votes_text(ties=True))
    space = comparisons.read(parse(["tune", "votes.csv", *QUICK])).space
    assert space["order_effect"] == [False, True]
    assert "logit-ties" in space["likelihood"]
    wins = "person,winner,loser\n" + "\n".join(line.rsplit(",", 1)[0] for line in votes_text().splitlines()[1:])
    write(folder / "wins.csv", wins)
    space = comparisons.read(parse(["tune", "wins.csv", *QUICK, "--user", "person"])).space
    assert "order_effect" not in space  # sides drawn for winners and losers mean nothing


def test_fit_reports_the_order_effect_and_the_judges(folder, capsys):
    fit = ["fit", "votes.csv", "--model", "crowd", "--out", "m.skpref", "--set", "n_factors=0"]
    assert main([*fit, "--set", "order_effect=True"]) == 0
    out, _ = capsys.readouterr()
    assert re.search(r"covariate +effect ± std +90 % interval +odds ratio\n +left side +[+-][\d.]+ ± [\d.]+ ", out)
    assert "none of 0 in use" in out
    assert "Annotators (12): no personal differences were learnt, so they are not compared" in out
    fit = fit[:-2]
    assert main([*fit, "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["estimator"] == "CrowdGPPL"
    assert "left side" not in err
    assert "Annotators who agree least" in err


def test_numbers_of_weighted_answers_are_rounded():
    names = "accuracy", "accuracy_low", "accuracy_high", "agreement", "distance"
    report = {"user": ["ann"], "n_labels": [68 / 3], **{name: [0.5] for name in names}}
    text = annotators_text(report)
    assert re.search(r"ann +22\.7 +0\.500", text)


def test_users_are_compared_only_where_something_tells_them_apart():
    names = "n_labels", "accuracy", "accuracy_low", "accuracy_high", "agreement"
    report = {"user": [f"u{k}" for k in range(30)], **{name: np.full(30, 0.5) for name in names}}
    same = "Annotators (30): no personal differences were learnt, so they are not compared"
    assert annotators_text({**report, "distance": np.full(30, 5e-4)}) == same
    for told in ({"distance": np.full(30, 0.02)}, {"distance": np.zeros(30), "reliability": np.arange(30.0)}):
        assert "Annotators who agree most with the consensus (5 of 30)" in annotators_text(report | told)


def test_whole_users_can_be_held_out_and_a_crowd_is_tracked_without_its_data(folder, capsys, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:1")
    assert main(["tune", "votes.csv", *QUICK[:-1], "--group", "user"]) == 0
    out, _ = capsys.readouterr()
    assert "12 groups" in out
    assert re.search(r"Hold-out \(\d+ comparisons, \d+ to learn from, split by user\)", out)
    (spool,) = (folder / "skpref-out" / "spool").glob("*.jsonl")
    raw = spool.read_text("utf-8")
    events = [json.loads(line) for line in raw.splitlines()]
    files = {Path(event["path"]).name for event in events if event["op"] == "artifact"}
    assert files >= {"model.skpref", "annotators.csv"}
    for known in ('"data.n_users"', '"job.model"', '"best.n_factors"', "holdout.tuned.log_loss"):
        assert known in raw
    assert "j10" not in raw


# ----------------------------------------------------------------------------------------------------------- complaints
GOOD = votes_text()
BAD = {
    "no user column": (
        votes_text("usr,left,right,label"),
        None,
        (),
        r"votes\.csv: there is no column 'user'; did you mean 'usr'\? --model crowd needs a column.*--user",
    ),
    "misnamed": (GOOD, None, ("--user", "judge"), "there is no column 'judge'. --model crowd needs.*: judge, or"),
    "an item's column": (GOOD, None, ("--user", "left"), "column 'left': this column has another meaning"),
    "the label's column": (GOOD, None, ("--user", "label"), "column 'label': this column has another meaning"),
    "no such group": (GOOD, None, ("--groups", "topic"), "there is no column 'topic'. It was asked for by --groups"),
    "user missing": (GOOD + " ,i1,i2,1\n", None, (), "line 182, column 'user': a user id is missing"),
    "unknown user": (
        GOOD + "J3,i1,i2,1\n",
        users_text(),
        (),
        r"line 182, column 'user': unknown user 'J3', not in users\.csv; did you mean 'j3'\?",
    ),
    "users: no ids": (GOOD, users_text("x"), (), r"users\.csv: there is no column 'user'\. A file of users has"),
    "users: no features": (GOOD, "user\nj1\n", (), "there are no features, only 'user'; without features, leave"),
    "nobody answered twice": (
        "user,left,right,label\n" + "".join(f"p{k},i1,i2,1\np{k},i2,i1,{k % 2}\n" for k in range(9)),
        None,
        (),
        "every user compared one pair of items; a hold-out needs users with two.*--group",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_complaints_name_file_line_and_column(folder, case, capsys):
    votes, users, more, message = BAD[case]
    write(folder / "votes.csv", votes)
    if users is not None:
        write(folder / "users.csv", users)
        more = (*more, "--users", "users.csv")
    assert_refused(["tune", "votes.csv", *QUICK, *more], message, capsys)


@pytest.mark.parametrize("option", ["--user", "--users"])
def test_users_are_for_crowds(folder, option, refuses):
    refuses(["tune", "votes.csv", option, "users.csv", "--no-mlflow"], f"{option} is for --model crowd")


def test_a_model_without_users_has_no_views(folder, refuses):
    save(GPPLClassifier().fit(np.array([["i1", "i2"], ["i2", "i3"]], dtype=object), [1, 1]), folder / "m")
    write(folder / "ask.csv", "id\ni1\ni2\n")
    refuses(["rank", "m", "ask.csv", "--user", "j1"], "m: the model has one view for all users; leave --user out")
    save(CrowdGPPL(), folder / "m")
    refuses(["rank", "m", "ask.csv"], "holds no fitted model of comparisons")


# ---------------------------------------------------------------------------------------------------------------- parts
def read(folder, **more):
    data = comparisons.read(Tune(folder / "votes.csv", model="crowd", **more)).data
    return data


def test_users_are_the_first_column(folder):
    data = read(folder, users=folder / "users.csv")
    assert data.rows.X[0].tolist() == GOOD.splitlines()[1].split(",")[:3]
    assert (data.n_users, data.n_items) == (12, 8)
    assert data.users is not None
    assert data.users.feature_names == ("age",)
    facts = make_task(data).facts
    assert (facts["data.n_users"], facts["data.n_user_features"]) == (12, 1)
    write(folder / "users.csv", users_text("id"))
    again = read(folder, users=folder / "users.csv")
    assert again.digest == data.digest  # the column may be named id
