"""``--context``: utilities that depend on numbers of a row, from the file to the ranking at any number."""

import json

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from skpref import load
from skpref.cli import main
from tests.policies import set_policy

TEAMS = np.array(["ajax", "bari", "como", "derby"])


@pytest.fixture(autouse=True)
def games(tmp_path):
    """Write games of four teams, of which the first is the best in the cold and the last in the heat."""
    rng = np.random.default_rng(0)
    home = rng.integers(0, 4, 300)
    away, heat = (home + rng.integers(1, 4, 300)) % 4, rng.normal(20.0, 8.0, 300).round(2)
    won = rng.random(300) < 1.0 / (1.0 + np.exp(-(home - away) * (heat - 20.0) / 8.0))
    more = {"heat": heat, "day": rng.integers(0, 99, 300), "rest": rng.integers(-2, 3, 300), "label": won.astype(int)}
    frame = pd.DataFrame(
        {"left": TEAMS[home], "right": TEAMS[away], "judge": [f"j{k % 5}" for k in range(300)], **more}
    )
    frame.to_csv("games.csv", index=False)
    return frame


def printed(capsys, *command):
    capsys.readouterr()
    assert main([*command, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("model", [["gppl"], ["crowd", "--user", "judge"]])
@pytest.mark.parametrize("more", [[], ["--covariates", "rest", "--groups", "kind", "--time", "day"]])
def test_items_differ_in_context(model, more, games, capsys, monkeypatch):
    set_policy(monkeypatch, "gp.crowd", most_steps=4)
    games.assign(kind=np.where(games.day > 50, "cup", "league")).to_csv("games.csv", index=False)
    assert main(["fit", "games.csv", "--model", *model, *more, "--context", "heat"]) == 0
    assert "context = heat" in capsys.readouterr().out
    fitted = load("model.skpref")
    assert len(fitted.context_scales_) == 1
    cold, hot = (printed(capsys, "rank", "model.skpref", "--context", f"heat={heat}")[0]["id"] for heat in (2, 38))
    assert (cold, hot) == ("ajax", "derby")
    assert main(["rank", "model.skpref", "--context", "heat=38"]) == 0
    assert "in heat=38" in capsys.readouterr().out
    assert main(["predict", "model.skpref", "games.csv", "--out", "predicted.csv"]) == 0
    games = pd.read_csv("games.csv")
    behind = ["rest", "kind", "day"] if more else []
    asked = games[[*model[2:], "left", "right", *behind, "heat"]].to_numpy(object)
    assert_allclose(pd.read_csv("predicted.csv")["probability_left"], fitted.predict_proba(asked)[:, 1], atol=1e-6)
    assert main(["predict", "model.skpref", "games.csv"]) == 0


def test_choices_have_a_context(games, capsys):
    games.assign(chosen=np.where(games.label == 1, games.left, games.right)).to_csv("choices.csv", index=False)
    options = ["choices.csv", "--offered", "left,right", "--chosen", "chosen", "--context", "heat"]
    for model in (["gppl"], ["crowd", "--user", "judge"]):
        assert main(["fit", *options, "--model", *model]) == 0
        assert printed(capsys, "rank", "model.skpref", "--context", "heat=38")[0]["id"] == "derby"
        assert main(["predict", "model.skpref", "choices.csv", "--out", "predicted.csv"]) == 0
        predicted = pd.read_csv("predicted.csv")
        assert (predicted["choice"] == predicted["chosen"]).mean() > 0.7
    items = pd.DataFrame({"id": TEAMS, "size": range(4)})
    items.to_csv("items.csv", index=False)
    assert main(["fit", *options, "--model", "crowd", "--user", "judge", "--items", "items.csv"]) != 0
    assert "--context is for utilities of items, and part-worths" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--context", "topic"], "there is no column 'topic'. It was asked for by --context"),
        (["--context", "heat,heat"], "--context names a column twice"),
        (["--context", "left"], "this column has another meaning; --context must name another"),
        (["--context", "judge"], "column 'judge'"),
    ],
)
def test_columns_that_are_no_context_are_refused(options, message, capsys):
    assert main(["fit", "games.csv", *options]) != 0
    assert message in capsys.readouterr().err


def test_other_context_is_refused(games, capsys):
    assert main(["fit", "games.csv", "--context", "heat"]) == 0
    for context, message in {
        "rest=1": "--context wants heat=NUMBER; got 'rest=1'",
        "heat=1,heat=2": "--context wants heat=NUMBER, each once; got 'heat=2'",
        "heat=warm": "--context wants numbers; got 'warm'",
    }.items():
        capsys.readouterr()
        assert main(["rank", "model.skpref", "--context", context]) != 0
        assert message in capsys.readouterr().err
    games.drop(columns="heat").to_csv("few.csv", index=False)
    assert main(["predict", "model.skpref", "few.csv"]) != 0
    assert "'heat'" in capsys.readouterr().err
    assert main(["fit", "games.csv"]) == 0
    assert main(["rank", "model.skpref", "--context", "heat=1"]) != 0
    assert "--context wants nothing: the model has no context; got 'heat=1'" in capsys.readouterr().err


def test_a_search_has_a_context(capsys):
    assert main(["tune", "games.csv", "--context", "heat", "--trials", "2", "--no-mlflow", "--out", "out"]) == 0
    assert load("out/model.skpref").context == [2]
