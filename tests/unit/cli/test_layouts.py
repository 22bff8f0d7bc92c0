"""Files of comparisons as they are downloaded: layouts, names of columns, compression, JSON, encodings."""

import gzip
import io
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skpref import GPPLClassifier, load, save
from skpref.cli import main
from skpref.cli.files import read_sheet
from skpref.cli.options import Text, parse
from skpref.cli.tasks.comparisons import read

MODELS = ["gpt", "llama", "claude", "gemma"]
# (left, right, label): claude beats gpt beats llama beats gemma, but for some ties.
PAIRS = [(a, b) for a in MODELS for b in MODELS if a != b]
STRENGTH = {"claude": 3, "gpt": 2, "llama": 1, "gemma": 0}
LABELS = [0.5 if abs(STRENGTH[a] - STRENGTH[b]) == 1 and a > b else float(STRENGTH[a] > STRENGTH[b]) for a, b in PAIRS]


def csv_text(names, rows, separator=","):
    lines = [names.split(","), *rows]
    return "".join(separator.join(map(str, line)) + "\n" for line in lines)


def rows_of(*words, more=""):
    """Comparisons with words for left, right and tie."""
    by_label = dict(zip((1.0, 0.0, 0.5), words, strict=True))
    return [(a, b, by_label[y], more) for (a, b), y in zip(PAIRS, LABELS, strict=True)]


def fit(text, *options, name="votes.csv"):
    """Return the model that the command fits to a file."""
    Path(name).write_bytes(text if isinstance(text, bytes) else text.encode())
    assert main(["fit", name, "--set", "max_iter=9", "--set", "tol=1.0", *options]) == 0
    return load("model.skpref")


@pytest.fixture
def utilities():
    return fit(csv_text("left,right,label", [(a, b, y) for (a, b), y in zip(PAIRS, LABELS, strict=True)])).utility()


LAYOUTS = {
    "arena": ("model_a,model_b,winner,turn", rows_of("model_a", "model_b", "tie (bothbad)"), ()),
    "capitals": ("model_a,model_b,winner,turn", rows_of("MODEL_A", "Model_B", "Both Bad"), ()),
    "names": (
        "one,two,best,x",
        [
            (a, b, (a, b, "tie")[int(2 - 2 * y) if y != 0.5 else 2] if y else b, "")
            for (a, b), y in zip(PAIRS, LABELS, strict=True)
        ],
        ("--left", "one", "--right", "two", "--winner", "best"),
    ),
    "letters": (
        "HomeTeam,AwayTeam,FTR,referee",
        rows_of("H", "A", "D"),
        ("--left", "HomeTeam", "--right", "AwayTeam", "--winner", "FTR"),
    ),
    "words": (
        "home,away,result,referee",
        rows_of("Home win", "Away win", "Draw"),
        ("--left", "home", "--right", "away", "--winner", "result"),
    ),
    "label in words": ("left,right,Result,x", rows_of("left", "right", "tie"), ("--label", "Result")),
    "scores": (
        "home,away,goals,date",
        [(a, b, f"{int(y > 0)},{int(y < 1)}", "2024-01-01") for (a, b), y in zip(PAIRS, LABELS, strict=True)],
        ("--left", "home", "--right", "away", "--score", "hg,ag"),
    ),
    "margin": (
        "home,away,margin,x",
        [(a, b, 6 * y - 3, "") for (a, b), y in zip(PAIRS, LABELS, strict=True)],
        ("--left", "home", "--right", "away", "--score", "margin"),
    ),
    "both scores in a cell": (
        "home,away,result,x",
        rows_of("2-1", "0 : 3", "1\u20131"),
        ("--left", "home", "--right", "away", "--score", "result"),
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_same_model(layout, utilities):
    names, rows, options = LAYOUTS[layout]
    names = names.replace("goals", "hg,ag")
    assert np.array_equal(fit(csv_text(names, rows), *options).utility(), utilities)


def test_users_and_weights_have_other_names():
    rows = [(*row[:3], f"judge{k % 3}", 1 + k % 2) for k, row in enumerate(rows_of("a", "b", "tie"))]
    text = csv_text("model_a,model_b,winner,judge,n", rows)
    model = fit(text, "--model", "crowd", "--user", "judge", "--weight", "n")
    assert model.user_ids_.tolist() == ["judge0", "judge1", "judge2"]
    bad = csv_text("model_a,model_b,winner,judge,n", [*rows, ("gpt", "llama", "a", "judge0", -1)])
    Path("votes.csv").write_text(bad, "utf-8")
    assert main(["fit", "votes.csv", "--weight", "n"]) == 2


def test_json_and_gzip_and_standard_input(utilities, monkeypatch):
    records = [{"model_a": a, "model_b": b, "winner": w, "turns": [1]} for a, b, w, _ in rows_of("a", "b", "tie")]
    lines = "".join(json.dumps(record) + "\n" for record in records)
    assert np.array_equal(fit(lines, name="votes.jsonl").utility(), utilities)
    assert np.array_equal(fit(json.dumps(records), name="votes.json").utility(), utilities)
    assert np.array_equal(fit(gzip.compress(lines.encode()), name="votes.jsonl.gz").utility(), utilities)
    text = csv_text("model_a,model_b,winner,x", rows_of("a", "b", "tie"))
    assert np.array_equal(fit(gzip.compress(text.encode()), name="votes.csv.gz").utility(), utilities)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert main(["fit", "-", "--set", "max_iter=9", "--set", "tol=1.0"]) == 0
    assert np.array_equal(load("model.skpref").utility(), utilities)


def test_files_without_names_with_other_separators_and_encodings(utilities):
    rows = [
        (a.replace("claude", "clâude"), b.replace("claude", "clâude"), *rest) for a, b, *rest in rows_of("1", "2", "x")
    ]
    text = csv_text("", rows, "^").split("\n", 1)[1]
    options = ("--columns", "left,right,winner,rest", "--separator", "^", "--encoding", "latin-1")
    model = fit(text.encode("latin-1"), *options)
    assert "clâude" in model.item_ids_.tolist()
    assert np.sort(model.utility()) == pytest.approx(np.sort(utilities))
    sheet = read_sheet(
        Path("votes.csv"), Text(separator="^", encoding="latin-1", columns=("left", "right", "winner", "rest"))
    )
    assert sheet.lines[0] == 1


def test_predict_remembers_the_columns_that_the_model_was_learnt_from(capsys):
    rows = [(*row[:3], f"judge {i % 3}") for i, row in enumerate(rows_of("one", "two", "tie"))]
    text = csv_text("one,two,winner,judge", rows)
    fit(text, "--left", "one", "--right", "two", "--model", "crowd", "--user", "judge")
    capsys.readouterr()
    assert main(["predict", "model.skpref", "votes.csv", "--json"]) == 0
    seen = capsys.readouterr()
    note = "note: read left from 'one', right from 'two', user from 'judge', the columns that the model was learnt from"
    assert note in seen.err
    answers = json.loads(seen.out)
    named = ["--left", "two", "--right", "one", "--user", "judge", "--json"]
    assert main(["predict", "model.skpref", "votes.csv", *named]) == 0  # options come first
    seen = capsys.readouterr()
    assert "note: read" not in seen.err
    turned = [1.0 - row["probability_left"] for row in json.loads(seen.out)]
    assert_allclose([row["probability_left"] for row in answers], turned)
    Path("votes.csv").write_text(text.replace("one,two,winner,judge", "left,right,winner,user"), "utf-8")
    assert main(["predict", "model.skpref", "votes.csv", "--json"]) == 0  # a file that has the usual names
    seen = capsys.readouterr()
    assert (json.loads(seen.out)[0]["probability_left"], seen.err) == (answers[0]["probability_left"], "")
    save(load("model.skpref"), "plain.skpref")  # which knows no columns
    assert main(["predict", "plain.skpref", "votes.csv", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["probability_left"] == answers[0]["probability_left"]


def test_exports_of_qualtrics_have_two_more_lines_of_names(capsys, refuses):
    rows = [(a, b, y) for (a, b), y in zip(PAIRS, LABELS, strict=True)]
    plain = fit(csv_text("left,right,label", rows)).utility()
    head = 'left,right,label\n"First, ""A""\nor B?",B,Which?\n"{""ImportId"":""QID1""}","{""ImportId"":""Q2""}",x\n'
    text = head + csv_text("left,right,label", rows).partition("\n")[2]
    capsys.readouterr()
    assert_allclose(fit(text).utility(), plain)
    note = "note: votes.csv: questions and ImportIds of a Qualtrics export, up to line 4, are no answers and skipped"
    assert note in capsys.readouterr().err
    assert main(["predict", "model.skpref", "votes.csv", "--json"]) == 0
    seen = capsys.readouterr()
    assert len(json.loads(seen.out)) == len(rows)
    assert note in seen.err
    Path("votes.csv").write_text(head, "utf-8")
    refuses(["fit", "votes.csv"], "no rows")


def test_predict_has_the_probability_of_a_tie(capsys):
    fit(csv_text("model_a,model_b,winner,x", rows_of("a", "b", "tie")), "--set", "likelihood=probit-ties")
    capsys.readouterr()
    assert main(["predict", "model.skpref", "votes.csv", "--json"]) == 0
    for row in json.loads(capsys.readouterr().out):
        assert row["p_left"] + row["p_tie"] + row["p_right"] == pytest.approx(1.0)
        assert row["probability_left"] == pytest.approx(row["p_left"] + 0.5 * row["p_tie"])


def test_ranks_are_printed_in_elo_points(capsys):
    fit(csv_text("model_a,model_b,winner,turn", rows_of("a", "b", "tie")))
    capsys.readouterr()
    assert main(["rank", "model.skpref", "--scale", "elo"]) == 0
    assert "Elo points ± std" in capsys.readouterr().out
    assert main(["rank", "model.skpref", "--scale", "elo", "--json"]) == 0
    points = [row["utility"] for row in json.loads(capsys.readouterr().out)]
    assert np.mean(points) == pytest.approx(1500.0)


HOME = csv_text(
    "model_a,model_b,winner,home,length_a,length_b,x-y",
    [(*row[:3], (-1) ** k, 10 * (k % 3), 10 * (k % 2), k % 4) for k, row in enumerate(rows_of("a", "b", "tie"))],
)


@pytest.mark.filterwarnings("ignore:covariate .* is never negative")
def test_covariates_are_columns_or_differences(capsys):
    names = "home,length_a-length_b,x-y"
    model = fit(HOME, "--covariates", names)
    table = capsys.readouterr().out.split("Effects of one unit more on the left side")[1].splitlines()
    assert [line.split()[0] for line in table[2:5]] == names.split(",")
    assert model.covariate_names_.tolist() == names.split(",")
    rows = np.genfromtxt("votes.csv", delimiter=",", names=True, dtype=None, encoding="utf-8", deletechars="")
    X = np.column_stack([rows["model_a"], rows["model_b"]]).astype(object)
    C = np.column_stack([rows["home"], rows["length_a"] - rows["length_b"], rows["x-y"]])
    direct = GPPLClassifier(covariates=[2, 3, 4], random_state=0, max_iter=9, tol=1.0).fit(
        np.hstack([X, C.astype(object)]), LABELS
    )
    assert_allclose(model.coef_, direct.coef_, rtol=1e-9)
    capsys.readouterr()
    assert main(["predict", "model.skpref", "votes.csv", "--json"]) == 0
    predicted = [row["probability_left"] for row in json.loads(capsys.readouterr().out)]
    assert_allclose(predicted, direct.predict_proba(np.hstack([X, C.astype(object)]))[:, 1], rtol=1e-9)
    # Without any of them: for no difference. With some of them: an error.
    lines = Path("votes.csv").read_text("utf-8").splitlines()
    for columns, code in ((2, 0), (4, 2)):
        Path("next.csv").write_text("\n".join(",".join(line.split(",")[:columns]) for line in lines) + "\n", "utf-8")
        assert main(["predict", "model.skpref", "next.csv", "--json"]) == code
    out, err = capsys.readouterr()
    predicted = [row["probability_left"] for row in json.loads(out)]
    assert_allclose(predicted, direct.predict_proba(X)[:, 1], rtol=1e-9)
    assert "note: the file has no covariates; predictions are for no difference in home, length_a-length_b, x-y" in err
    assert "there is no column 'length_a-length_b'" in err


def test_a_crowd_has_covariates(capsys):
    lines = HOME.splitlines()
    text = "\n".join(f"{line},{'user' if k == 0 else f'j{k % 3}'}" for k, line in enumerate(lines)) + "\n"
    model = fit(text, "--model", "crowd", "--covariates", "home,length_a-length_b", "--set", "n_factors=0")
    out = capsys.readouterr().out
    assert "Effects of one unit more on the left side" in out
    assert "Annotators (3): no personal differences were learnt, so they are not compared" in out
    assert "P(agrees)" not in out
    assert model.covariate_names_.tolist() == ["home", "length_a-length_b"]
    assert model.user_ids_.size == 3
    assert main(["predict", "model.skpref", "votes.csv", "--json"]) == 0
    with_home = json.loads(capsys.readouterr().out)
    Path("votes.csv").write_text(text.replace(",-1,", ",1,"), "utf-8")
    assert main(["predict", "model.skpref", "votes.csv", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) != with_home


def test_a_crowd_has_groups(capsys):
    lines = HOME.splitlines()
    names = ["user,category", *(f"j{k % 3},{'code' if k % 2 else 'chat'}" for k in range(1, len(lines)))]
    text = "\n".join(f"{line},{more}" for line, more in zip(lines, names, strict=True)) + "\n"
    model = fit(text, "--model", "crowd", "--groups", "category")
    assert [ids.tolist() for ids in model.group_ids_] == [["chat", "code"]]
    assert model.groups == {"category": 3}
    capsys.readouterr()
    assert main(["rank", "model.skpref", "--groups", "category=code", "--json"]) == 0
    in_code = json.loads(capsys.readouterr().out)
    ranking = model.rank(groups={"category": "code"})
    assert [row["id"] for row in in_code] == ranking["id"].tolist()
    assert [row["utility"] for row in in_code] == pytest.approx(ranking["utility"].tolist())
    assert main(["rank", "model.skpref", "--groups", "category=code"]) == 0
    assert "Ranking in category=code" in capsys.readouterr().out
    assert main(["predict", "model.skpref", "votes.csv", "--json"]) == 0
    predicted = json.loads(capsys.readouterr().out)
    Path("votes.csv").write_text(text.replace(",chat", ",code"), "utf-8")
    assert main(["predict", "model.skpref", "votes.csv", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) != predicted
    for groups, message in {
        "category=coed": "unknown group of 'category': 'coed'; did you mean 'code'?",
        "topic=code": "--groups wants category=GROUP; got 'topic=code'",
        "category=code,category=chat": "--groups wants category=GROUP, each once; got 'category=chat'",
        "code": "--groups wants category=GROUP; got 'code'",
    }.items():
        assert main(["rank", "model.skpref", "--groups", groups]) != 0
        assert message in capsys.readouterr().err


def test_groups_and_covariates_are_learnt_together(capsys):
    rows = [(*row[:3], f"j{k % 3}", "ab"[k % 2], (k % 5) - 2) for k, row in enumerate(rows_of("a", "b", "tie"))]
    text = csv_text("model_a,model_b,winner,judge,kind,home", rows)
    options = ("--model", "crowd", "--user", "judge", "--groups", "kind", "--covariates", "home")
    model = fit(text, *options)
    assert (model.covariates, model.groups) == ({"home": 3}, {"kind": 4})
    capsys.readouterr()
    assert main(["predict", "model.skpref", "votes.csv", "--json"]) == 0
    p = [row["probability_left"] for row in json.loads(capsys.readouterr().out)]
    X = np.array([(judge, a, b, home, kind) for a, b, _, judge, kind, home in rows], dtype=object)
    assert_allclose(p, model.predict_proba(X)[:, 1], rtol=1e-9)


def test_covariates_of_winners_follow_the_sides():
    rows = [("a", "b", 1), ("b", "a", 1), ("a", "c", 2), ("c", "b", 3)] * 10
    Path("votes.csv").write_text(csv_text("winner,loser,home", rows), "utf-8")
    read_rows = read(parse(["tune", "votes.csv", "--covariates", "home"])).rows
    signed = np.where(read_rows.y == 1.0, 1.0, -1.0) * read_rows.X[:, 2].astype(float)
    assert signed.tolist() == [1.0, 1.0, 2.0, 3.0] * 10
    assert 0 < read_rows.y.sum() < 40
    Path("votes.csv").write_text(csv_text("winner,loser,home,user", [(*row, "ann") for row in rows]), "utf-8")
    of_crowd = read(parse(["tune", "votes.csv", "--covariates", "home", "--model", "crowd"]))
    signed = np.where(of_crowd.rows.y == 1.0, 1.0, -1.0) * of_crowd.rows.X[:, 3].astype(float)
    assert signed.tolist() == [1.0, 1.0, 2.0, 3.0] * 10
    assert of_crowd.estimator.covariates == {"home": 3}
    assert len(of_crowd.folds(of_crowd.rows, 2, 0)) == 2


def test_tune_tries_the_order_effect_and_ties_and_keeps_covariates(capsys):
    Path("votes.csv").write_text(HOME + HOME.split("\n", 1)[1], "utf-8")
    options = ["--covariates", "home", "--trials", "2", "--folds", "2", "--no-mlflow", "--out", "out"]
    task = read(parse(["tune", "votes.csv", *options]))
    assert task.space["order_effect"] == [False, True]
    assert "covariates" not in task.space
    assert task.estimator.covariates == {"home": 2}
    assert "logit-ties" in task.space["likelihood"]
    assert main(["tune", "votes.csv", *options]) == 0
    out = capsys.readouterr().out
    assert "Effects of one unit more on the left side" in out
    assert "A tie counts as half a win here and in the log-loss; the accuracy leaves ties out." in out
    assert Path("out/effects.csv").read_text("utf-8").startswith("name,effect,std,effect_low")


ARENA = csv_text("model_a,model_b,winner,turn", rows_of("a", "b", "tie"))
REFUSED = {
    "neither": (
        ARENA + "gpt,llama,gpt-9,\n",
        (),
        "votes.csv, line 14, column 'winner': winner 'gpt-9' is neither of the items 'gpt' and 'llama'",
    ),
    "a score": (ARENA + "gpt,llama,2:1,\n", (), "winner '2:1' is a score; --score reads scores"),
    "no score": (
        "left,right,result\na,b,2-1\nb,a,\n",
        ("--score", "result"),
        "line 3, column 'result': a score is missing; --missing drop leaves such rows out",
    ),
    "typo": (ARENA, ("--winner", "winer"), "there is no column 'winer'; did you mean 'winner'?"),
    "two answers": (ARENA, ("--winner", "winner", "--score", "turn"), "--score says what a row holds; leave --winner"),
    "loser and left": (ARENA, ("--loser", "model_b", "--left", "model_a"), "leave --left out"),
    "no contest": (ARENA, ("--rank", "turn"), "--rank needs --contest COLUMN, which tells rankings"),
    "contest and winner": (ARENA, ("--contest", "turn", "--winner", "winner"), "--contest says what a row holds"),
    "no ranks": ("race,item,place\n1,a,1\n", ("--contest", "race"), "there is no column 'rank'"),
    "no offer": (ARENA, ("--chosen", "winner"), "--chosen needs --offered A,B"),
    "three scores": (ARENA, ("--score", "a,b,c"), "--score takes one or two columns; got 3"),
    "covariates": (HOME, ("--covariates", "hom"), "there is no column 'hom'; did you mean 'home'? It was asked for by"),
    "difference": (HOME, ("--covariates", "home-away"), "there is no column 'home-away'"),
    "words": (HOME, ("--covariates", "winner"), "column 'winner': this column has another meaning; --covariates must"),
    "of rankings": (
        HOME,
        ("--covariates", "home", "--ranking", "model_a,model_b"),
        '--covariates home: expected a pattern of 2 columns, one for each of model_a, model_b, such as "price_*"',
    ),
    "encoding": (ARENA.replace("gpt", "gépt").encode("latin-1"), (), "name its encoding by --encoding, such as"),
    "no encoding": (ARENA, ("--encoding", "klingon"), "'klingon' is no encoding"),
    "separator": (ARENA, ("--separator", "ab"), "'ab' is not one character, nor one of tab"),
    "json": ('{"left": 1}\n{"left"\n', (), "votes.csv, line 2: cannot be read as JSON"),
    "json list": ("[1, 2]", (), "votes.csv, record 1: expected an object of JSON, such as {'left': 'a'}"),
    "for comparisons": (ARENA, ("--model", "m3f", "--winner", "x"), "is for --model gppl or crowd, not for m3f"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_read_is_refused_in_a_line(case, refuses):
    text, options, message = REFUSED[case]
    Path("votes.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    refuses(["fit", "votes.csv", *options], message)


def test_rows_that_cannot_be_used_are_left_out_on_request(capsys, utilities, refuses):
    rows = [(*row[:3], 10 * k, k % 5) for k, row in enumerate(rows_of("a", "b", "tie"))]
    incomplete = [("gpt", "", "a", 1, 1), ("gpt", "llama", "", 1, 1), ("gpt", "llama", "a", "", 1)]
    text = csv_text("model_a,model_b,winner,length_a,length_b", [*rows, *incomplete, ("gpt", "gpt", "tie", 1, 2)])
    options = ("--missing", "drop", "--on-self", "drop")
    assert fit(text, *options, "--covariates", "length_a-length_b").rank().n_comparisons.sum() == 2 * len(rows)
    ties = "3 rows are ties, a third answer with likelihood=auto"
    read = f"length_b, weights = none; {ties}; 4 rows left out: 3 incomplete, 1 with one item twice"
    assert (
        f"Read: left = model_a, right = model_b, answer = winner, covariates = length_a - {read}"
        in capsys.readouterr().out
    )
    assert np.array_equal(fit(text.replace("gpt,llama,a,,1\n", ""), *options).utility(), utilities)
    for name, message in (
        ("--missing", "line 14, column 'model_b': an item id is missing; --missing drop leaves such rows out"),
        ("--on-self", "is compared with itself (columns 'model_a' and 'model_b'); --on-self drop leaves such rows out"),
    ):
        capsys.readouterr()
        refuses(["fit", "votes.csv", "--on-self" if name == "--missing" else "--missing", "drop"], message)
    Path("votes.csv").write_text(csv_text("model_a,model_b,winner", [("x", "x", "tie")]), "utf-8")
    refuses(["fit", "votes.csv", *options], "all rows are left out: 1 with one item twice")


def test_numbers_with_a_decimal_comma(refuses):
    numbers = ["1,5", "-0,25", "1.234,5", "2", "1.234", "1,5E-02"]
    Path("votes.csv").write_text("x;label\n" + "".join(f"{number};{k % 2}\n" for k, number in enumerate(numbers)))
    sheet = read_sheet(Path("votes.csv"), Text(decimal=","))
    assert sheet.numbers("x").tolist() == [1.5, -0.25, 1234.5, 2.0, 1234.0, 0.015]
    refuses(["fit", "votes.csv", "--model", "ordinal"], "got '1,5'; a comma before the decimals is read by --decimal ,")
    Path("votes.csv").write_text("x;label\n1.5;1\n2;0\n")
    refuses(["fit", "votes.csv", "--model", "ordinal", "--decimal", ","], "got '1.5'; by --decimal , a comma is")


def test_a_decimal_comma_in_all_files(refuses):
    labels = [str(y).replace(".", ",") for y in LABELS]
    text = csv_text("left;right;label", [(f"{a};{b};{y}",) for (a, b), y in zip(PAIRS, labels, strict=True)])
    items = csv_text("id;price", [(f"{name};{price}",) for name, price in STRENGTH.items()])
    Path("items.csv").write_text(items.replace("3", "-2,5"))
    model = fit(text, "--items", "items.csv", "--decimal", ",")
    assert model.items.features.min() == -2.5
    assert main(["rank", "model.skpref", "items.csv", "--decimal", ","]) == 0
    refuses(["rank", "model.skpref", "items.csv"], "got '-2,5'; a comma before the decimals is read by --decimal ,")
    contests = csv_text("race;item;rank", [("1;gpt;1,5",), ("1;llama;2,5",), ("1;claude;dnf",)])
    model = fit(contests, "--contest", "race", "--decimal", ",", "--missing", "drop")
    assert model.rank().id.tolist() == ["gpt", "llama"]
    ranks = csv_text("gpt;llama", [("1,5;2,5",), ("1,5;2,5",)])
    assert fit(ranks, "--item-ranks", "gpt,llama", "--decimal", ",", "--unranked", "none").rank().id.tolist() == [
        "gpt",
        "llama",
    ]
    rows = csv_text("left;right;label;note", [(f"{a};{b};{y};-2,5",) for (a, b), y in zip(PAIRS, LABELS, strict=True)])
    fit(rows)
    assert main(["predict", "model.skpref", "votes.csv", "--out", "answered.csv"]) == 0
    assert ',"-2,5",' in Path("answered.csv").read_text().splitlines()[1]  # no formula, hence no apostrophe


def test_what_to_do_next_names_items_only_where_they_have_features(capsys):
    fit(csv_text("model_a,model_b,winner,turn", rows_of("a", "b", "tie")))
    assert "Rank the items:   skpref rank model.skpref\n" in capsys.readouterr().out


TEAMS = "home 1,home 2,away 1,away 2,won,when\n" + "".join(
    f"{a},{b},{c},{d},{int(len(a + b) > len(c + d))},2024-0{1 + k % 9}-01\n"
    for k, (a, b, c, d) in enumerate(
        [("gpt", "claude", "llama", ""), ("llama", "gemma", "gpt", "claude"), ("gemma", "", "claude", "")] * 5
    )
)
SIDES = "--left", "home 1,home 2", "--right", "away 1, away 2", "--label", "won"


def test_sides_may_be_teams(capsys):
    model = fit(TEAMS, *SIDES, "--time", "when")
    cells = [line.split(",") for line in TEAMS.splitlines()[1:]]
    frame = np.array([[*line[:4], line[5]] for line in cells], dtype=object)
    frame[frame == ""] = None
    same = GPPLClassifier(left=[0, 1], right=[2, 3], time=4, max_iter=9, tol=1.0, random_state=0)
    same.fit(frame, [int(line[4]) for line in cells])
    assert_allclose(model.utility(MODELS), same.utility(MODELS), atol=1e-9)
    capsys.readouterr()
    assert main(["rank", "model.skpref", "--json"]) == 0
    assert {row["id"] for row in json.loads(capsys.readouterr().out)} == set(MODELS)
    assert main(["predict", "model.skpref", "votes.csv", "--json"]) == 0  # the model knows the columns
    rows = json.loads(capsys.readouterr().out)
    assert_allclose([row["probability_left"] for row in rows], same.predict_proba(frame)[:, 1], atol=1e-9)
    new = TEAMS.replace("gemma", "mistral")
    Path("new.csv").write_text(new, "utf-8")
    assert main(["predict", "model.skpref", "new.csv"]) == 0
    assert "the model knows no item 'mistral'" in capsys.readouterr().err


def test_features_and_mistakes_of_teams(capsys, refuses):
    Path("items.csv").write_text("id,size\ngpt,3\nclaude,6\nllama,\ngemma,5\n", "utf-8")
    model = fit(TEAMS, *SIDES, "--items", "items.csv", "--missing", "drop")
    assert "10 comparisons are of items without features" in capsys.readouterr().err
    assert sorted(model.item_ids_.tolist()) == ["claude", "gemma"]
    Path("items.csv").write_text("id,size\ngpt,3\nclaude,6\ngemma,5\n", "utf-8")
    for more, message in (
        (("--items", "items.csv"), "line 3, column 'home 1,home 2': unknown item 'llama', not in items.csv"),
        (("--model", "crowd", "--user", "when"), "names the players of teams, which are for --model gppl"),
        (("--right", "away 1,away 3"), "there is no column 'away 3'"),
    ):
        refuses(["fit", "votes.csv", *SIDES, *more], message)
