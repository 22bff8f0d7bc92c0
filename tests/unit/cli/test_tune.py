"""The command: files in, tables and files out, and complaints that say where."""

import csv
import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import skpref
from skpref import GPPLClassifier, GPPLRegressor, load, save
from skpref._text import nearest
from skpref.cli import main
from skpref.cli.files import counted, read_sheet
from skpref.cli.ids import read_table
from skpref.cli.options import Tune, parse
from skpref.cli.tasks import figures as scores
from skpref.cli.tasks.base import Rows, hold_out, make_folds
from skpref.cli.tasks.comparisons import read, read_travellers
from skpref.exceptions import DataError, MissingExtraError
from tests.unit.cli.answers import assert_refused, write

ROOT = Path(__file__).resolve().parents[3]

QUICK = ("--trials", "2", "--folds", "2")


def items_text(n=12):
    rng = np.random.default_rng(0)
    rows = [f"i{i},{i / 10:.1f},{rng.normal():.3f},{rng.normal():.3f}" for i in range(n)]
    return "id,size,colour,noise\n" + "\n".join(rows) + "\n"


def comparisons_text(n=60, header="left,right,label", *, people=False):
    rng = np.random.default_rng(1)
    lines = [header + (",person" if people else "")]
    for k in range(n):
        a, b = rng.choice(12, 2, replace=False)
        wins = a > b if rng.random() < 0.9 else a < b
        if header.startswith("winner"):
            a, b = (a, b) if wins else (b, a)
            cells = [f"i{a}", f"i{b}"]
        else:
            cells = [f"i{a}", f"i{b}", str(int(wins))]
        lines.append(",".join(cells + ([f"p{k // 4}"] if people else [])))
    return "\n".join(lines) + "\n"


@pytest.fixture
def folder(tmp_path):
    write(tmp_path / "items.csv", items_text())
    write(tmp_path / "votes.csv", comparisons_text())
    return tmp_path


# -------------------------------------------------------------------------------------------------------- the whole way
def test_tune_with_features_then_rank(folder, capsys):
    arguments = ["tune", "votes.csv", "--items", "items.csv", *QUICK, "--out", "out", "--no-mlflow", "--seed", "3"]
    assert main(arguments) == 0
    out, err = capsys.readouterr()
    for expected in (
        r"60 comparisons of 12 items, 3 features; sha256 [0-9a-f]{12}",
        r"Search: 2 trials in \d+ s \(.*complete",
        r"Hold-out \(12 comparisons, 48 to learn from\)",
        r"tuned +[01]\.\d{3} +\d\.\d{4} +0\.\d{3}",
        r"coin flip +[01]\.\d{3} +0\.6931",
        r"predicted +observed +rows",
        r"Ranking, top 10 of 12",
        r"1  i1[01] +\+\d\.\d{3} ± \d\.\d{3}",
        r"skpref rank out.model.skpref ITEMS.csv",
    ):
        assert re.search(expected, out), expected
    assert "mlflow" not in out
    assert "ETA" in err
    names = {path.name for path in (folder / "out").iterdir()}
    assert names >= {"model.skpref", "ranking.csv", "trials.csv"}
    with (folder / "out" / "ranking.csv").open(encoding="utf-8") as file:
        ranking = list(csv.DictReader(file))
    assert len(ranking) == 12
    assert ranking[0]["rank"] == "1"
    assert set(ranking[0]) == {
        *("id", "utility", "std", "utility_low", "utility_high", "rank", "probability_best"),
        *("rank_low", "rank_high", "tied_rank", "n_comparisons"),
    }
    with (folder / "out" / "trials.csv").open(encoding="utf-8") as file:
        assert [row["trial"] for row in csv.DictReader(file)] == ["0", "1"]
    assert isinstance(load(folder / "out" / "model.skpref"), GPPLClassifier)

    # New items, features in another order, one more column.
    write(folder / "new.csv", "noise;size;colour;price;name\n0.1;5.0;0.2;9;big\n0.1;-5.0;0.2;cheap;small\n")
    assert main(["rank", "out/model.skpref", "new.csv", "--id", "name", "--out", "new-ranking.csv"]) == 0
    out, _ = capsys.readouterr()
    assert out.index("big") < out.index("small")
    assert (folder / "new-ranking.csv").read_text("utf-8").splitlines()[1].startswith("big,")


def test_winners_without_features_by_person(folder, capsys, refuses):
    write(folder / "wins.csv", comparisons_text(header="winner,loser", people=True))
    assert main(["tune", "wins.csv", "--group", "person", *QUICK, "--no-mlflow"]) == 0
    out, _ = capsys.readouterr()
    assert "no features, 15 groups" in out
    assert "split by person" in out
    assert (folder / "skpref-out" / "model.skpref").exists()
    write(folder / "two.csv", "id\ni3\ni11\n")
    assert main(["rank", "skpref-out/model.skpref", "two.csv"]) == 0
    out, _ = capsys.readouterr()
    assert out.index("i11") < out.index("i3 ")
    write(folder / "two.csv", "id\ni3\nother\n")
    refuses(["rank", "skpref-out/model.skpref", "two.csv"], "the model knows no item 'other'")


def test_the_demo(folder, capsys):
    options = ["--trials", "2", "--folds", "2", "--out", "arena", "--no-mlflow"]
    assert main(["demo", *options]) == 0
    out, _ = capsys.readouterr()
    assert "5000 comparisons of 10 items" in out
    assert " 1  Ada " in out
    assert "words_a-words_b  +0.00" in out
    tuned, without = (
        float(re.search(rf"  {name} +\S+ +(\S+) ", out)[1]) for name in ("tuned", "without words_a-words_b")
    )
    assert tuned < without - 0.01
    by_hand = re.search(r"The same by hand: skpref (.*)", out)
    assert by_hand is not None
    assert main([*by_hand[1].split(), *options[2:4], "--no-mlflow", "--out", "by-hand"]) == 0
    assert (folder / "arena/ranking.csv").read_bytes() == (folder / "by-hand/ranking.csv").read_bytes()


def test_the_demo_on_travellers(folder, capsys):
    options = ["--dataset", "travellers", "--trials", "1", "--folds", "2", "--set", "inducing=15", "--no-mlflow"]
    assert main(["demo", *options]) == 0
    out, _ = capsys.readouterr()
    assert "210 choices among 840 items, up to 4 at a time, 15 features" in out
    assert re.search(r"equal shares +[01]\.\d{3} +1\.3863", out)  # the logarithm of four
    assert "Ranking of typical items (4)" in out
    assert "average car" in out


def test_the_demo_leaves_out_what_gives_the_answer_away():
    data = read_travellers()
    assert data.items is not None
    assert data.items.feature_names is not None
    assert "ttme" not in data.items.feature_names


def test_who_is_terminated_ends_in_order(folder, monkeypatch):
    def terminated(*_):
        signal.raise_signal(signal.SIGTERM)
        return 0.0

    monkeypatch.setattr(scores, "cross_entropy", terminated)
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as stop:
        main(["tune", "votes.csv", *QUICK, "--no-mlflow"])
    assert stop.value.code == 128 + signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_tracking_server_that_is_not_there(folder, capsys, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:1")
    assert main(["tune", "votes.csv", *QUICK]) == 0
    out, err = capsys.readouterr()
    assert err.count("cannot be used") == 1
    assert "Ranking, top 10 of 12" in out
    assert "could not be sent and are kept in" in out
    (spool,) = (folder / "skpref-out" / "spool").glob("*.jsonl")
    events = [json.loads(line) for line in spool.read_text("utf-8").splitlines()]
    starts, ends = ([event["op"] for event in events].count(op) for op in ("start", "end"))
    assert starts == ends > 3  # a parent, a search, its trials and their fits
    assert {Path(event["path"]).name for event in events if event["op"] == "artifact"} >= {
        "model.skpref",
        "ranking.csv",
    }
    raw = spool.read_text("utf-8")
    assert "i11" not in raw  # figures and settings are tracked, never the data


def test_an_installed_command_has_no_traceback(folder):
    write(folder / "bad.csv", "lefft,right,label\na,b,1\n")
    done = subprocess.run(
        [sys.executable, "-m", "skpref", "tune", "bad.csv", "--no-mlflow"],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 2
    assert done.stderr.startswith("skpref: error: bad.csv: there is no column 'left'; did you mean 'lefft'?")
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_version(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--version"])
    assert stop.value.code == 0
    assert capsys.readouterr().out == f"skpref {skpref.__version__}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["tune"],
        ["tune", "x.csv", "--trials", "0"],
        ["tune", "x.csv", "--holdout", "0.9"],
        ["demo", "--timeout", "-1"],
    ],
)
def test_wrong_usage(arguments, capsys):
    assert main(arguments) == 2
    assert capsys.readouterr().err.endswith(" --help`\n")


def test_a_search_takes_settings(folder, capsys, refuses):
    more = ["--set", "likelihood=logit", "--set", "scale_prior__shape=[1.0,2.0]", "--no-mlflow", "--json"]
    assert main(["tune", "votes.csv", *QUICK, *more]) == 0
    settings = [trial["settings"] for trial in json.loads(capsys.readouterr().out)["trials"]]
    assert all(one["likelihood"] == "logit" and one["scale_prior__shape"] in {1.0, 2.0} for one in settings)
    refuses(
        ["tune", "votes.csv", "--no-mlflow", "--set", "kernal=ard"],
        "--set kernal: a GPPLClassifier has no such parameter; did you mean 'kernel'?",
    )


def test_missing_packages_are_all_named_before_the_work(folder, monkeypatch, refuses):
    monkeypatch.setattr("skpref.cli.tune.importlib.util.find_spec", lambda name: None)
    refuses(["tune", "votes.csv"], "needs optuna, matplotlib, mlflow: pip install 'skpref[demo]'; --no-mlflow goes")
    refuses(["demo", "--no-mlflow"], "needs optuna, matplotlib: pip install 'skpref[demo]'")


# ----------------------------------------------------------------------------------------------------------- complaints
GOOD = comparisons_text()
# What stands in votes.csv and items.csv, and what is said of it.
BAD = {
    "typo": ("left,rigth,label\na,b,1\n", None, r"there is no column 'right'; did you mean 'rigth'\?.*Found: left"),
    "no loser": ("winner,second\na,b\n", None, "there is no column 'loser'"),
    "label word": (GOOD + "i1,i2,yes\n", None, r"line 62, column 'label': winner 'yes' is neither of the items 'i1'"),
    "id missing": (GOOD + " ,i2,1\n", None, "line 62, column 'left': an item id is missing"),
    "with itself": (GOOD + "i2,i2,1\n", None, "line 62: item 'i2' is compared with itself"),
    "blank lines count": ("left,right,label\n\n\ni2,i2,1\n", None, "line 4: item 'i2'"),
    "too few": ("left,right,label\na,b,1\n", None, "1 comparison; at least 10 are needed"),
    "negative weight": (GOOD.replace("label", "label,weight").replace(",1\n", ",1,-1\n"), None, "line .*: "),
    "unknown item": (GOOD + "i1,i77,1\n", items_text(), r"line 62, .*: unknown item 'i77', not in items\.csv"),
    "misspelt item": (GOOD + "i1,I11,1\n", items_text(), "unknown item 'I11'.*did you mean 'i11'"),
    "items: no id": (GOOD, "name,size\na,1\n", r"items\.csv: there is no column 'id'"),
    "items: no features": (GOOD, "id\ni1\n", "there are no features, only 'id'"),
    "items: text": (GOOD, items_text() + "i99,big,1,1\n", r"items\.csv, line 14, column 'size': expected a number"),
    "items: twice": (GOOD, items_text() + "i0,1,1,1\n", r"line 14, .*: item 'i0' occurs twice \(first on line 2\)"),
}


@pytest.mark.parametrize("case", BAD)
def test_complaints_name_file_line_and_column(folder, case, capsys):
    votes, items, message = BAD[case]
    write(folder / "votes.csv", votes)
    extra = []
    if items is not None:
        write(folder / "items.csv", items)
        extra = ["--items", "items.csv"]
    assert_refused(["tune", "votes.csv", *extra, "--no-mlflow", "--trials", "1"], message, capsys)


def test_too_few_groups(folder, refuses):
    write(folder / "votes.csv", comparisons_text(12, people=True))
    refuses(["tune", "votes.csv", "--group", "person", "--no-mlflow"], "3 groups; at least 5 are needed")


def test_rank_refuses_what_is_no_model(folder, refuses):
    write(folder / "m.skpref", "no model")
    refuses(["rank", "m.skpref", "items.csv"], "m.skpref: not a skpref model")
    for other in (GPPLRegressor(), GPPLClassifier()):
        save(other, folder / "m.skpref")
        refuses(["rank", "m.skpref", "items.csv"], "holds no fitted model of comparisons")


def test_rank_needs_the_features_by_name(folder, refuses):
    assert main(["fit", "votes.csv", "--items", "items.csv", "--set", "max_iter=3", "--set", "tol=1.0"]) == 0
    write(folder / "new.csv", "id,size,color,noise\na,1,1,1\n")
    refuses(["rank", "model.skpref", "new.csv"], "no column 'colour'; did you mean 'color'?")
    nameless = load("model.skpref")
    nameless.set_params(items=skpref.Table(nameless.items.features, nameless.items.ids))
    nameless._items = replace(nameless._items, feature_names=None)
    save(nameless, folder / "nameless.skpref")
    refuses(["rank", "nameless.skpref", "new.csv"], "has no names of its features")


# ---------------------------------------------------------------------------------------------------------------- files


def test_winners_stand_on_either_side(folder):
    path = write(folder / "w.csv", comparisons_text(200, "winner,loser"))
    rows = read(Tune(path)).rows
    assert 60 < rows.y.sum() < 140
    winners = [row.split(",")[0] for row in path.read_text("utf-8").splitlines()[1:]]
    side = np.where(rows.y == 1.0, rows.X[:, 0], rows.X[:, 1])
    assert side.tolist() == winners
    assert np.array_equal(rows.X, read(Tune(path)).rows.X)


def test_parquet_is_the_same_as_csv(folder):
    pd = pytest.importorskip("pandas")
    for name in ("votes", "items"):
        pd.read_csv(folder / f"{name}.csv").to_parquet(folder / f"{name}.parquet")
    one = read(Tune(folder / "votes.csv", items=folder / "items.csv"))
    two = read(Tune(folder / "votes.parquet", items=folder / "items.parquet"))
    assert one.digest == two.digest
    frame = pd.read_csv(folder / "items.csv")
    frame.loc[2, "size"] = np.nan
    frame.to_parquet(folder / "items.parquet")
    with pytest.raises(DataError, match=r"items\.parquet, row 3, column 'size': a number is missing"):
        read_table(read_sheet(folder / "items.parquet"), "id", "item")
    (folder / "broken.parquet").write_bytes(b"PAR1 and nothing more")
    with pytest.raises(DataError, match=r"broken\.parquet: cannot be read as Parquet"):
        read_sheet(folder / "broken.parquet")


def test_whole_numbers_are_one_id_in_both_kinds_of_file(tmp_path):
    pd = pytest.importorskip("pandas")
    pd.DataFrame({"id": [1, 2], "x": [0.5, 1.5]}).to_parquet(tmp_path / "a.parquet")
    assert read_sheet(tmp_path / "a.parquet").ids("id").tolist() == ["1", "2"]


def test_csv_needs_no_pandas(folder, monkeypatch):
    pytest.importorskip("sklearn.callback", reason="scikit-learn 1.8 takes a module that is None for pandas")
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert read(Tune(folder / "votes.csv", items=folder / "items.csv")).rows.size == 60
    with pytest.raises(MissingExtraError, match=r"skpref\[frames\]"):
        read_sheet(write(folder / "a.parquet", "x"))


def test_the_nearest_name():
    assert nearest("lefft", ["left", "right"]) == "; did you mean 'left'?"
    assert nearest("LEFT", ["left", "right"]) == "; did you mean 'left'?"
    assert nearest("xyz", ["left", "right"]) == ""


# ---------------------------------------------------------------------------------------------------------------- parts
def test_a_split_by_groups_keeps_them_whole():
    groups = np.repeat(np.arange(20), 3)
    rows = Rows(np.zeros((60, 2)), np.tile([0.0, 1.0, 1.0], 20), np.ones(60), groups)
    train, test = map(rows.take, hold_out(rows, 0.2, 4, 3))
    assert train.groups is not None
    assert test.groups is not None
    assert not set(train.groups) & set(test.groups)
    assert len(set(test.groups)) == 4


@pytest.mark.parametrize(
    "y", [np.repeat([0.0, 1.0], [40, 10]), np.ones(50), np.linspace(0, 1, 50), np.repeat([0.0, 0.5, 1.0], [30, 10, 10])]
)
def test_a_split_is_stratified_where_that_makes_sense(y):
    rows = Rows(np.zeros((50, 2)), y, np.ones(50))
    train, test = map(rows.take, hold_out(rows, 0.2, 0, 3))
    assert (train.size, test.size) == (40, 10)
    if np.unique(y).size in {2, 3}:
        assert test.y.mean() == pytest.approx(y.mean())


def test_the_coin_flip():
    rows = Rows(np.zeros((4, 2)), np.array([0.0, 1.0, 1.0, 0.0]), np.ones(4))
    figures = scores.score_chances(rows, np.full(4, 0.5))
    assert figures.values == {"accuracy": 0.5, "log_loss": pytest.approx(np.log(2)), "ece": 0.0}


def test_accuracy_of_ties_is_undefined_and_no_error():
    figures = scores.score_chances(Rows(np.zeros((2, 2)), np.full(2, 0.5), np.ones(2)), np.array([0.4, 0.6]))
    assert np.isnan(figures.values["accuracy"])


def test_one_has_no_plural():
    said = [counted(n, what) for n, what in ((1, "users"), (2, "users"), (0, "trials"), (1, "ratings of some weight"))]
    assert said == ["1 user", "2 users", "0 trials", "1 rating of some weight"]


def test_share_of_left_wins_is_a_baseline_where_sides_mean_something(folder, capsys):
    rows = [f"i{k % 5},i{(k + 1 + k % 3) % 5},{int(k % 10 < 8)}" for k in range(100)]
    write(folder / "home.csv", "\n".join(["left,right,label", *rows]) + "\n")
    assert main(["tune", "home.csv", *QUICK, "--no-mlflow", "--json"]) == 0
    holdout = json.loads(capsys.readouterr().out)["holdout"]
    assert holdout["share of left wins"]["log_loss"] == pytest.approx(-0.8 * np.log(0.8) - 0.2 * np.log(0.2), abs=0.01)
    task = read(parse(["tune", "home.csv"]))
    sure = replace(task.rows, y=np.ones(100))
    assert np.isfinite(task.report.baselines(sure, task.rows)["share of left wins"].values["log_loss"])
    write(folder / "home.csv", comparisons_text(40, "winner,loser"))
    task = read(parse(["tune", "home.csv"]))
    assert list(task.report.baselines(task.rows, task.rows)) == ["coin flip"]


# ------------------------------------------------------------------------------------------------------------ by time
def timed(time):
    n = len(time)
    return Rows(np.arange(n), np.arange(n) % 2.0, np.ones(n), np.arange(n) // 2, np.array(time, dtype=float))


def test_a_hold_out_by_time_is_of_the_latest_rows_and_keeps_equal_times_together():
    train, test = hold_out(timed([5, 1, 3, 2, 4, 9, 8, 7, 6, 10]), 0.2, 0, 3)
    assert (train.tolist(), test.tolist()) == ([0, 1, 2, 3, 4, 6, 7, 8], [5, 9])
    _, test = hold_out(timed([1, 1, 2, 3, 3, 3, 3, 3, 3, 3]), 0.2, 0, 3)
    assert test.tolist() == [3, 4, 5, 6, 7, 8, 9]
    rows = timed([1, 2, 3]).take(np.array([2, 0]))
    assert rows.time is not None
    assert rows.time.tolist() == [3.0, 1.0]


def test_folds_by_time_test_what_comes_after_their_training():
    time = np.random.default_rng(0).integers(0, 20, 200).astype(float)
    folds = make_folds(timed(time.tolist()), 4, 0)
    assert len(folds) == 4
    for train, test in folds:
        assert time[train].max() < time[test].min()
        assert train.size
    tested = np.concatenate([test for _, test in folds])
    assert np.unique(tested).size == tested.size == 200 - folds[0][0].size
    ((train, test),) = make_folds(timed([1, 1, 1, 1, 1, 1, 1, 1, 1, 2]), 3, 0)
    assert (train.size, test.tolist()) == (9, [9])
    assert len(make_folds(timed([5.0] * 12), 3, 0)) == 3  # of one time only: as without times


@pytest.mark.parametrize("day", ["2026-01-{:02d}", "2026-01-{:02d}T12:00:00+02:00", "{}", '"{},5"'])
def test_time_split(folder, capsys, day):
    rows = comparisons_text(60).splitlines()
    days = [day.format(1 + k // 2) for k in range(60)]
    write(folder / "timed.csv", "\n".join([rows[0] + ",day", *map(",".join, zip(rows[1:], days, strict=True))]) + "\n")
    decimal = ("--decimal", ",") if "," in day else ()
    task = read(parse(["tune", "timed.csv", "--time-split", "day", *decimal]))
    assert [part.tolist() for part in task.hold_out(0.2, 0)] == [list(range(48)), list(range(48, 60))]
    assert "timezone" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (["2026-01-01", "soon"], "line 3, column 'day': expected a date such as 2024-05-31 or 31.05.2024"),
        (["2026-01-01", "NaT"], "line 3, column 'day': a time is missing, got 'NaT'; --missing drop leaves such rows"),
        (["3", "4 pm"], "line 3, column 'day': expected a number (a time), got '4 pm'"),
        (["3", "3"], "column 'day': --time-split needs different times; this column has one"),
    ],
)
def test_what_is_no_time(folder, cells, message, refuses):
    rows = comparisons_text(20).splitlines()
    lines = [f"{row},{cells[k % 2]}" for k, row in enumerate(rows[1:])]
    write(folder / "timed.csv", "\n".join([rows[0] + ",day", *lines]) + "\n")
    refuses(["tune", "timed.csv", "--time-split", "day", "--no-mlflow", *QUICK], message)


def test_incomplete_times_are_left_out_and_groups_are_another_split(folder, capsys, refuses):
    rows = comparisons_text(40).splitlines()
    lines = [f"{row},{'' if k == 7 else k}" for k, row in enumerate(rows[1:])]
    write(folder / "timed.csv", "\n".join([rows[0] + ",day", *lines]) + "\n")
    options = ["tune", "timed.csv", "--time-split", "day", "--no-mlflow", *QUICK]
    assert main([*options, "--missing", "drop"]) == 0
    out, err = capsys.readouterr()
    assert "1 row of timed.csv is incomplete and left out" in err
    assert "39 comparisons" in out
    refuses([*options, "--group", "left"], "--time-split and --group are two ways to split; give one of them")
