"""``skpref elicit`` through its standard input."""

import io
import json
import re

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

from skpref import (
    CrowdGPPL,
    GibbsM3F,
    GPOrdinalRegressor,
    GPPLClassifier,
    VariationalFM,
    VariationalFMClassifier,
    load,
    save,
)
from skpref.cli import main
from skpref.data import OneHotDesign
from skpref.datasets import make_crowd

RNG = np.random.default_rng(0)
FILMS = ["Alien", "Brazil", "Casablanca", "Duel", "Evil", "Fargo"]
PAIRS = [(f"user {u}", film) for u in range(15) for film in FILMS]
Z = (RNG.standard_normal((15, 1)) + RNG.standard_normal((15, 2)) @ RNG.standard_normal((2, 6))).ravel()
CROWD = make_crowd(n_users=10, n_items=5, n_comparisons=200, random_state=0)
SHORT = {"n_factors": 2, "max_iter": 20, "random_state": 0}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    save(make_pipeline(OneHotDesign(), VariationalFM(**SHORT)).fit(PAIRS, Z), folder / "numbers")
    words = np.where(Z > 0.0, "seen", "not seen")
    save(make_pipeline(OneHotDesign(), VariationalFMClassifier(**SHORT)).fit(PAIRS, words), folder / "words")
    levels = GibbsM3F(2, C=0.2, max_iter=15, burn_in=5, random_state=0)
    save(levels.fit(PAIRS, 1 + np.digitize(Z, [-1.0, 0.0, 1.0])), folder / "levels")
    save(GPPLClassifier().fit([row[1:] for row in np.asarray(CROWD.comparisons).tolist()], CROWD.y), folder / "pairs")
    save(CrowdGPPL(n_factors=1, random_state=0).fit(CROWD.comparisons, CROWD.y), folder / "crowd")
    save(VariationalFM(**SHORT).fit(np.eye(4), [1.0, 2.0, 3.0, 4.0]), folder / "bare")
    save(GPOrdinalRegressor().fit(np.arange(8.0)[:, None], [1, 1, 1, 2, 2, 3, 3, 3]), folder / "grades")
    save(GPPLClassifier(), folder / "unfitted")
    return folder


def run(arguments, typed, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    return main(["elicit", *map(str, arguments)])


def test_yes_no_skip_and_quit(models, capsys, monkeypatch):
    assert run([models / "words"], "y\nn\nperhaps\ns\n seen \nq\n", monkeypatch) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "VariationalFMClassifier: y = seen, n = not seen; s = skip, u = undo the last answer, q = quit." in out
    assert (
        "'perhaps' is no answer. Answer with y = seen, n = not seen; s = skip, u = undo the last answer, q = quit."
        in out
    )
    assert "Learnt from 3 answers, 1 skipped. Most probable seen:" in out
    assert "[5]" in out
    assert "[6]" not in out
    assert "Next I would ask: " in out
    shown = out.split("Most probable")[1]
    asked = re.findall(r"\[\d\] (\w+)\?", out)
    assert asked[0] not in shown
    # Unanswered ones, skipped ones among them, are recommended.
    assert len(asked) == 6  # the third was asked again
    assert asked[2] == asked[3]
    assert asked[3] in shown
    rows = re.findall(r"^  \w+ +(\S+)  (\S+) and (\S+)$", shown, flags=re.MULTILINE)
    assert rows
    assert all(re.fullmatch(r"[01]\.\d\d", number) for row in rows for number in row)  # probabilities


def test_json_is_all_there_is_on_the_output(models, capsys, monkeypatch):
    assert run([models / "numbers", "--json", "--user", "user 3"], "2.5\nfive\nnan\n-1\n", monkeypatch) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert [answer["answer"] for answer in found["answers"]] == [2.5, -1.0]
    assert found["model"] == "VariationalFM"
    assert found["user"] == "user 3"
    assert found["ended"] == "quit"
    assert {one["item"] for one in found["estimates"]} == set(FILMS)
    assert all(one["low"] < one["estimate"] < one["high"] for one in found["estimates"])
    assert set(found["recommended"]) == set(FILMS) - {answer["question"] for answer in found["answers"]}
    assert found["next_question"] in FILMS
    assert "'five' is no answer" in err
    assert "'nan' is no answer" in err


def test_ratings_until_nothing_is_left(models, capsys, monkeypatch):
    assert run([models / "levels", "--json"], "4\n3.0\n9\n0\n2\n1\n1\n4\n4\n4\n", monkeypatch) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert found["ended"] == "all asked"
    assert len(found["answers"]) == 6
    assert found["next_question"] is None
    assert found["recommended"] == []
    assert "GibbsM3F: one of 1, 2, 3, 4; s = skip, u = undo the last answer, q = quit." in err
    assert run([models / "levels", "--questions", "2"], "4\n4\n4\n", monkeypatch) == 0
    assert "Learnt from 2 answers. Recommended by expected rating:" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "more"), [("pairs", []), ("crowd", ["--user", "3"]), ("crowd", ["--user", "newcomer"])]
)
def test_pairs(models, capsys, monkeypatch, name, more):
    assert run([models / name, *more, "--json"], "1\n2\n=\n3\n1\n", monkeypatch) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert [answer["answer"] for answer in found["answers"]] == [1.0, 0.0, 0.5, 1.0]
    assert "which one? 1 or 2, = for a tie; s = skip" in err
    assert sorted(one["item"] for one in found["estimates"]) == [0, 1, 2, 3, 4]
    assert len(found["next_question"]) == 2
    assert run([models / name, *more], "1\n", monkeypatch) == 0
    assert "Best by utility, from the average:" in capsys.readouterr().out


def test_an_interrupt_prints_what_was_learnt(models, capsys, monkeypatch):
    class Typed:
        lines = iter(["y\n"])

        def readline(self):
            for line in self.lines:
                return line
            raise KeyboardInterrupt

    monkeypatch.setattr("sys.stdin", Typed())
    assert main(["elicit", str(models / "words")]) == 130
    assert "Learnt from 1 answer. Most probable seen:" in capsys.readouterr().out
    assert main(["elicit", str(models / "words"), "--json"]) == 130
    assert json.loads(capsys.readouterr().out)["ended"] == "interrupted"


def test_what_cannot_be_asked_for(models, capsys, monkeypatch):
    for arguments, message in [
        (["bare"], "a VariationalFM alone has no ids of users and items; save a Pipeline"),
        (["grades"], "a GPOrdinalRegressor has no items to ask for"),
        (["unfitted"], "holds a GPPLClassifier that is not fitted"),
        (["levels", "--user", "user 3"], "user 'user 3' has ratings already"),
        (["pairs", "--user", "3"], "has no users; got user"),
        (["levels", "--strategy", "mean"], "strategy 'mean' needs exactly two possible answers"),
        (["nothing"], "No such file"),
    ]:
        assert run([models / arguments[0], *arguments[1:]], "y\n", monkeypatch) == 2
        assert message in capsys.readouterr().err
    for wrong in (["--questions", "0"], ["--strategy", "best"]):
        assert run([models / "words", *wrong], "", monkeypatch) == 2


def test_ids_cannot_steer_the_terminal(tmp_path, capsys, monkeypatch):
    hostile = [("a", "\x1b[2Jred"), ("a", "b" * 500), ("b", "\x1b[2Jred"), ("c", "\u202eevil")]
    model = make_pipeline(OneHotDesign(), VariationalFM(**SHORT)).fit(hostile, [1.0, 2.0, 3.0, 4.0])
    save(model, tmp_path / "m")
    assert run([tmp_path / "m"], "\x1b[31m\n", monkeypatch) == 0
    out = capsys.readouterr().out
    assert not {"\x1b", "\u202e"} & set(out)
    assert "b" * 61 not in out


def test_an_answer_is_taken_back(models, capsys, monkeypatch):
    assert run([models / "pairs", "--json"], "u\n1\nu\n2\n=\n", monkeypatch) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert [answer["answer"] for answer in found["answers"]] == [0.0, 0.5]
    assert "'u' is no answer" in err  # there was none to take back


def test_a_session_resumes_and_its_answers_reach_a_model(models, capsys, monkeypatch, tmp_path):
    command = [models / "crowd", "--session", tmp_path / "s.json", "--out", tmp_path / "m", "--user", "ann", "--json"]
    assert run(command, "1\n2\n", monkeypatch) == 0
    first = json.loads(capsys.readouterr().out)
    assert run(command, "1\n", monkeypatch) == 0
    both = json.loads(capsys.readouterr().out)
    assert both["answers"][:2] == first["answers"]
    assert len(both["answers"]) == 3
    assert "ann" in load(tmp_path / "m").user_ids_.tolist()
    (tmp_path / "s.json").write_text("{}", "utf-8")
    assert run(command, "1\n", monkeypatch) == 2
    assert "s.json: not a session" in capsys.readouterr().err


@pytest.mark.parametrize("name", [int, lambda k: b"%d" % k])
@pytest.mark.parametrize("user", ["1", "--1"])
def test_ids_of_any_type(user, name, tmp_path, capsys, monkeypatch):
    pairs = np.array([[name(u), name(i)] for u in range(4) for i in range(2, 6)], dtype=object)
    save(GibbsM3F(2, max_iter=4, burn_in=1).fit(pairs, [2, 1, 3, 1] * 4), tmp_path / "model")
    asked = [tmp_path / "model", f"--user={user}"]
    assert run(asked, "s\nq\n", monkeypatch) == (2 if user == "1" else 0)  # a known user and a new one
    out, err = capsys.readouterr()
    if user == "1":
        assert "has ratings already" in err
    else:
        assert "Learnt from 0 answers, 1 skipped" in out


def test_tasks_show_all_items_and_grades_are_asked_for(tmp_path, capsys, monkeypatch):
    rng = np.random.default_rng(0)
    shown = np.array([rng.choice(list("abcde"), 3, replace=False) for _ in range(30)])
    save(GPPLClassifier(likelihood="luce").fit(shown, np.sort(shown)[:, 0]), tmp_path / "tasks")
    assert run([tmp_path / "tasks", "--json"], "3\n4\n1\n", monkeypatch) == 0
    out, asked = capsys.readouterr()
    answers = json.loads(out)["answers"]
    assert [answer["answer"] for answer in answers] == [2, 0]
    assert all(len(answer["question"]) == 3 for answer in answers)
    assert "'4' is no answer. Answer with which one? 1 to 3" in asked
    y = np.array([2, -1, 1, 0, -2] * 6)
    save(GPPLClassifier(likelihood="logit-graded").fit(shown[:, :2], y), tmp_path / "grades")
    assert run([tmp_path / "grades", "--json"], "-2\n=\n1\n", monkeypatch) == 0
    out, asked = capsys.readouterr()
    assert [answer["answer"] for answer in json.loads(out)["answers"]] == [-2, 1]
    assert "how much better is the first? 2, 1, 0, -1, -2" in asked
