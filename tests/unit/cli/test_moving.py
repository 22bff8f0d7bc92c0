"""``--time``: utilities that move in time, from the file to the ranking at any date."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from skpref import GPPLClassifier, load, save
from skpref.cli import main
from skpref.cli.options import parse
from skpref.cli.tasks.comparisons import read
from skpref.search import default_space
from tests.policies import set_policy

SIDES = ["--left", "home", "--right", "away", "--score", "score"]


@pytest.fixture(autouse=True)
def games(tmp_path):
    """Write games of four teams, of which the first becomes the last."""
    rng = np.random.default_rng(0)
    home = rng.integers(0, 4, 300)
    away, day, rest = (home + rng.integers(1, 4, 300)) % 4, rng.integers(0, 600, 300), rng.integers(-2, 3, 300)
    z = (home - away) * (day / 300 - 1.0) + 0.4 * rest
    won = rng.random(300) < 1.0 / (1.0 + np.exp(-z))
    date = (pd.Timestamp("2022-01-01") + pd.to_timedelta(day, "D")).strftime("%Y-%m-%d")
    teams = np.array(["ajax", "bari", "como", "derby"])
    score = np.where(won, "1-0", "0-1")
    frame = pd.DataFrame(
        {"home": teams[home], "away": teams[away], "date": date, "day": day, "rest": rest, "score": score}
    )
    frame.to_csv("games.csv", index=False)
    return frame


def fit(*more):
    assert main(["fit", "games.csv", *SIDES, *more, "--set", "dynamics=drift"]) == 0
    model = load("model.skpref")
    return model


def printed(capsys, *command):
    capsys.readouterr()
    assert main([*command, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    return rows


@pytest.mark.parametrize("time", ["date", "day"])
def test_the_consensus_of_a_crowd_moves(time, games, capsys, monkeypatch):
    set_policy(monkeypatch, "gp.crowd", most_steps=6)
    games.assign(judge=[f"j{k % 5}" for k in range(300)]).to_csv("judged.csv", index=False)
    assert main(["fit", "judged.csv", *SIDES, "--user", "judge", "--time", time, "--model", "crowd"]) == 0
    early = {"date": "2022-01-15", "day": "10"}[time]
    first, last = (printed(capsys, "rank", "model.skpref", *at)[0]["id"] for at in (["--at", early], []))
    assert (first, last) == ("ajax", "derby")
    assert main(["predict", "model.skpref", "judged.csv", "--out", "predicted.csv"]) == 0
    expected = load("model.skpref").predict_proba(
        pd.read_csv("judged.csv")[["judge", "home", "away", time]].to_numpy(object)
    )
    assert np.allclose(pd.read_csv("predicted.csv")["probability_left"], expected[:, 1], atol=1e-4)


@pytest.mark.parametrize(("time", "active"), [("date", "100D"), ("day", "100")])
def test_items_that_ended_can_be_left_out_of_a_ranking(time, active, games, capsys, refuses):
    early = games["day"] < games["day"].max() - 200
    games[early | ~(games[["home", "away"]] == "ajax").any(axis=1)].to_csv("games.csv", index=False)
    fit("--time", time)
    assert "ajax" in [row["id"] for row in printed(capsys, "rank", "model.skpref")]
    assert len(printed(capsys, "rank", "model.skpref", "--active", active)) == 3
    assert main(["rank", "model.skpref", "--active", active]) == 0
    assert f"Ranking, active within {active} (3)" in capsys.readouterr().out
    refuses(["rank", "model.skpref", "--active", "often"], "active")
    assert main(["fit", "games.csv", *SIDES]) == 0
    refuses(["rank", "model.skpref", "--active", active], "--at and --active are for models that were learnt with")


@pytest.mark.parametrize("time", ["date", "day"])
def test_fit_predict_and_rank_are_those_of_python(time, games, capsys):
    fit("--time", time, "--covariates", "rest")
    assert f"time = {time}" in capsys.readouterr().out
    columns = {"left": "home", "right": "away", "time": time, "covariates": ["rest"]}
    model = GPPLClassifier(**columns, dynamics="drift", random_state=0).fit(games, games.score == "1-0")
    new = games.head(5).assign(day=[0, 100, 300, 599, 900], date=["2022-01-01", "2022-06-01", *["2024-09-01"] * 3])
    new = new.assign(away=["ajax", "nobody", *new.away[2:]]).drop(columns="score")
    new.to_csv("new.csv", index=False)
    p = [row["probability_left"] for row in printed(capsys, "predict", "model.skpref", "new.csv")]
    np.testing.assert_allclose(p, model.predict_proba(new)[:, 1], atol=1e-9)
    at = "2022-01-20" if time == "date" else "20"
    for more, ranking in (([], model.rank()), (["--at", at], model.rank(at=at if time == "date" else 20))):
        rows = printed(capsys, "rank", "model.skpref", *more)
        assert [row["id"] for row in rows] == ranking.id.tolist()
        np.testing.assert_allclose([row["utility"] for row in rows], ranking.utility, atol=1e-9)
    assert model.rank(at=at if time == "date" else 20).id[0] == "ajax" != model.rank().id[0]
    assert main(["rank", "model.skpref", "--at", at]) == 0
    assert f"Ranking at {at} (4)" in capsys.readouterr().out


def test_a_year_is_its_first_day(games, capsys, refuses):
    fit("--time", "date")
    assert printed(capsys, "rank", "model.skpref", "--at", "2023") == printed(
        capsys, "rank", "model.skpref", "--at", "2023-01-01"
    )
    assert main(["rank", "model.skpref", "--at", "2023"]) == 0
    assert "Ranking at 2023-01-01 (4)" in capsys.readouterr().out
    refuses(["rank", "model.skpref", "--at", "20.5"], "--at must be a date such as 2024-05-31")


def test_a_file_without_covariates_is_predicted_without_differences(games, capsys):
    fit("--time", "date", "--covariates", "rest")
    games.assign(rest=0).head().to_csv("zeros.csv", index=False)
    games[["home", "away", "date"]].rename(columns={"date": "when"}).head().to_csv("few.csv", index=False)
    zeros = printed(capsys, "predict", "model.skpref", "zeros.csv")
    few = printed(capsys, "predict", "model.skpref", "few.csv", "--time", "when")
    assert [row["probability_left"] for row in few] == [row["probability_left"] for row in zeros]


def test_tune_searches_what_moving_utilities_have(games):
    options = ["tune", "games.csv", *SIDES, "--covariates", "rest", "--time", "date"]
    task = read(parse(options))
    assert task.names == ("home", "away", "rest", "date")
    assert (task.estimator.time, task.estimator.dynamics) == (3, "auto")
    assert [f"{cell:%Y-%m-%d}" for cell in task.rows.X[:, 3]] == games.date.tolist()
    assert task.rows.time is None  # the hold-out is drawn as ever
    assert set(task.space) == {"likelihood", "order_effect"}
    assert set(default_space(GPPLClassifier(time="date"))) == {"likelihood", "order_effect"}
    assert "scale_prior__rate" in default_space(GPPLClassifier())


def test_dates_of_files_have_the_day_first(games, capsys):
    wanted = fit("--time", "date")
    games.assign(date=pd.to_datetime(games.date).dt.strftime("%d.%m.%Y")).to_csv("games.csv", index=False)
    capsys.readouterr()
    found = fit("--time", "date")
    text = capsys.readouterr()
    assert "column 'date' has the day first" in text.err
    assert "time = date (dates)" in text.out + text.err
    np.testing.assert_allclose(found.utility(), wanted.utility(), rtol=1e-9)


def test_tune_to_rank(capsys):
    options = ["--time", "date", "--set", "dynamics=drift", "--time-split", "date", "--trials", "1", "--folds", "2"]
    assert main(["tune", "games.csv", *SIDES, *options, "--no-mlflow"]) == 0
    assert Path("skpref-out/curves.png").exists()
    assert "the latest" in capsys.readouterr().out
    first = printed(capsys, "rank", "skpref-out/model.skpref", "--at", "2022-02-01")[0]
    last = printed(capsys, "rank", "skpref-out/model.skpref")[0]
    assert (first["id"], last["id"]) == ("ajax", "derby")


def test_rankings_of_one_row_have_its_time():
    Path("races.csv").write_text("first,second,third,day\nx,y,z,1\ny,x,z,2\nz,x,y,4\n", "utf-8")
    task = read(parse(["fit", "races.csv", "--ranking", "first,second,third", "--time", "day"]))
    assert task.rows.X.tolist() == [["x", "y", "z", 1.0], ["y", "x", "z", 2.0], ["z", "x", "y", 4.0]]
    assert task.estimator.time == 3


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["fit", "games.csv", *SIDES, "--time", "dat"], "no column 'dat'; did you mean 'date'? It was asked for by"),
        (["fit", "games.csv", *SIDES, "--time", "home"], "column 'home': this column has another meaning; --time must"),
        (["fit", "games.csv", *SIDES, "--time", "score"], "column 'score': this column has another meaning; --time"),
        (["fit", "games.csv", "--time", "day", "--model", "svgp"], "--time is for --model gppl or crowd"),
        (["fit", "games.csv", *SIDES, "--time", "day", "--set", "time=day"], "--set time: use --time"),
        (["fit", "bad.csv", "--time", "date"], "bad.csv, line 3, column 'date': expected a date such as 2024-05-31"),
        (["fit", "gap.csv", "--time", "date"], "gap.csv, line 3, column 'date': a time is missing"),
        (["predict", "model.skpref", "none.csv"], "The model was learnt with --time; name the column of times by"),
        (["predict", "model.skpref", "games.csv", "--time", "day"], "are numbers, and those of fit were dates"),
        (["rank", "model.skpref", "--at", "31.12.2022"], "--at must be a date"),
        (["rank", "still.skpref", "--at", "2022-12-31"], "--at and --active are for models that were learnt with"),
        (["elicit", "model.skpref"], "questions have no times, groups, context or teams"),
    ],
)
def test_mistakes_are_named(command, message, refuses):
    if command[0] != "fit":
        fit("--time", "date")
    assert main(["fit", "games.csv", *SIDES, "--out", "still.skpref"]) == 0
    Path("bad.csv").write_text("left,right,label,date\nx,y,1,2024-01-01\ny,x,1,31.13.2024\n", "utf-8")
    Path("gap.csv").write_text("left,right,label,date\nx,y,1,2024-01-01\ny,x,1,\n", "utf-8")
    Path("none.csv").write_text("home,away\najax,bari\n", "utf-8")
    refuses(command, message)


@pytest.mark.parametrize(("form", "early"), [("%d/%m/%Y", "08/02/2022"), ("%m/%d/%Y", "02/08/2022")])
def test_the_order_of_day_and_month_is_that_of_the_fit(form, early, games, capsys, refuses):
    wanted = fit("--time", "date")
    few = games.assign(date="2022-02-08").head(3)
    few.to_csv("few.csv", index=False)
    p, ranking = printed(capsys, "predict", "model.skpref", "few.csv"), wanted.rank(at="2022-02-08")
    refuses(["rank", "model.skpref", "--at", early], "--at must be a date such as 2024-05-31")
    games.assign(date=pd.to_datetime(games.date).dt.strftime(form)).to_csv("games.csv", index=False)
    few.assign(date=early).to_csv("few.csv", index=False)
    refuses(["predict", "model.skpref", "few.csv"], "no date of the column tells which; write dates as 2024-05-31")
    fit("--time", "date")
    again = printed(capsys, "predict", "model.skpref", "few.csv")
    assert [row["probability_left"] for row in again] == [row["probability_left"] for row in p]
    for at in (early, "8 Feb 2022", "2022-02-08"):
        rows = printed(capsys, "rank", "model.skpref", "--at", at)
        np.testing.assert_allclose([row["utility"] for row in rows], ranking.utility, rtol=1e-9)
    refuses(["rank", "model.skpref", "--at", "31/31/2022"], "--at must be a date such as 2024-05-31")


def test_the_order_of_day_and_month_is_noted(games, capsys):
    games.assign(date=pd.to_datetime(games.date).dt.strftime("%d/%m/%Y")).to_csv("games.csv", index=False)
    fit("--time", "date")
    games.head(3).assign(when="08/09/2022").drop(columns="date").to_csv("few.csv", index=False)
    capsys.readouterr()
    assert main(["predict", "model.skpref", "few.csv", "--time", "when"]) == 0
    assert "column 'when' has the day first, as in the data of the model" in capsys.readouterr().err
    games.head(3).assign(date="08/25/2022").to_csv("few.csv", index=False)
    assert main(["predict", "model.skpref", "few.csv"]) == 0  # what the file shows comes first
    assert "column 'date' has the month first, as 08/25/2022 shows" in capsys.readouterr().err


def test_a_model_with_context_is_for_python(games, capsys):
    model = GPPLClassifier(left="home", right="away", context=["rest"]).fit(games, games.score == "1-0")
    save(model, "model.skpref")
    assert main(["predict", "model.skpref", "games.csv"]) != 0
    assert "has context and was fitted in Python; predict with it there" in capsys.readouterr().err
