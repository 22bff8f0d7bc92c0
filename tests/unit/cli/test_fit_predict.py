"""``skpref fit`` and ``predict`` for every kind of model, and JSON for programs."""

import json
import re

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

from skpref import (
    CrowdGPPL,
    GibbsM3F,
    GPPLRegressor,
    OneHotDesign,
    VariationalFM,
    VariationalFMClassifier,
    VariationalFMOrdinal,
    load,
    save,
)
from skpref.cli import main
from tests.unit.cli.answers import rows_of, write


def table(header, rows):
    return "\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n"


RNG = np.random.default_rng(0)
PAIRS = [(a, b) for a, b in RNG.integers(0, 6, (60, 2)).tolist() if a != b]
STARS = [(u, i, min(5, max(1, i // 2 + 1 + u % 2))) for u in range(10) for i in range(8)]
SIZES = [(round(x, 3), int(x > 0) + int(x > 1)) for x in RNG.normal(0.5, 1, 40)]
# What is learnt from, with what, what is asked, and a column of the answer that grows from the first to the last row.
KINDS = {
    "gppl": (
        table("left,right,label", [(f"i{a}", f"i{b}", int(a > b)) for a, b in PAIRS]),
        ("--set", "scale_prior__shape=3.0"),
        "left,right\ni0,i5\ni5,i0\n",
        "probability_left",
    ),
    "crowd": (
        table("user,left,right,label", [(f"u{k % 4}", f"i{a}", f"i{b}", int(a > b)) for k, (a, b) in enumerate(PAIRS)]),
        ("--set", "n_factors=2"),
        "user,left,right\nu1,i0,i5\nsomebody,i5,i0\n",
        "probability_left",
    ),
    "m3f": (
        table("user,item,rating", STARS),
        ("--set", "n_factors=3", "--set", "C=0.5", "--set", "max_iter=20", "--set", "burn_in=4"),
        "user,item\n1,0\n1,7\n",
        "level",
    ),
    "ordinal": (table("size,label", SIZES), ("--set", "optimizer=None"), "size\n-1\n2\n", "level"),
    "svgp": (table("size,label", SIZES), ("--set", "inducing=9"), "size\n-1\n2\n", "prediction"),
    "svgp-classifier": (
        table("size,label", [(x, "big" if level else "a small one") for x, level in SIZES]),
        ("--set", "inducing=8"),
        "size\n2\n-1\n",
        "p_a small one",
    ),
    "fm": (table("user,item,rating", STARS), ("--set", "n_factors=1"), "user,item,old\n1,0,x\n1,7,y\n", "prediction"),
    "fm-ordinal": (
        table("user,item,rating", STARS),
        ("--set", "n_factors=1", "--set", "max_iter=20"),
        "user,item\n1,0\n1,7\n",
        "level",
    ),
    "fm-classifier": (
        table("user,item,rating", [(u, i, int(stars > 2)) for u, i, stars in STARS]),
        (),
        "user,item\n1,0\n1,7\n",
        "probability",
    ),
}


# What is ranked, and what may come last.
RANKED = {
    "fm": (("--user", "1"), {"0", "1"}),
    "fm-classifier": (("--user", "1"), {"0", "1"}),
    "fm-ordinal": (("--user", "1"), {"0", "1"}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_fit_then_predict(kind, tmp_path, capsys, refuses):
    data, options, asked, column = KINDS[kind]
    write(tmp_path / "data.csv", data)
    write(tmp_path / "asked.csv", asked)
    assert main(["fit", "data.csv", "--model", kind, *options, "--out", "m.skpref"]) == 0
    out, _ = capsys.readouterr()
    assert "Written to m.skpref" in out
    assert main(["predict", "m.skpref", "asked.csv"]) == 0
    out, _ = capsys.readouterr()
    assert column in out.splitlines()[0]
    assert main(["predict", "m.skpref", "asked.csv", "--out", "answered.csv"]) == 0
    assert capsys.readouterr().out == "2 rows predicted\n\nWritten to answered.csv\n"
    first, last = rows_of(tmp_path / "answered.csv")
    assert list(first)[: asked.splitlines()[0].count(",") + 1] == asked.splitlines()[0].split(",")
    assert float(first[column]) < float(last[column])
    probabilities = [float(value) for name, value in first.items() if name.startswith("p_")]
    assert not probabilities or sum(probabilities) == pytest.approx(1.0, abs=1e-6)
    assert main(["predict", "m.skpref", "asked.csv", "--json"]) == 0
    answers = json.loads(capsys.readouterr().out)
    assert [str(row[column]) for row in answers] == [first[column], last[column]]
    if kind in RANKED:
        what, last_ones = RANKED[kind]
        assert main(["rank", "m.skpref", *what, "--top", "1", "--out", "ranked.csv"]) == 0
        assert "Ranking" in capsys.readouterr().out
        ranked = rows_of(tmp_path / "ranked.csv")
        by = list(ranked[0])[2]
        assert ranked[-1]["id"] in last_ones
        assert [float(row[by]) for row in ranked] == sorted((float(row[by]) for row in ranked), reverse=True)
        assert main(["rank", "m.skpref", *what, "--json"]) == 0
        assert [str(row["id"]) for row in json.loads(capsys.readouterr().out)] == [row["id"] for row in ranked]
        refuses(["rank", "m.skpref", "--user", "nobody"], "unknown user 'nobody'")
    # The message for a typo names the column and the existing ones.
    write(tmp_path / "typo.csv", re.sub(r"^(\w+)", r"\1s", asked))
    assert main(["predict", "m.skpref", "typo.csv"]) == 2
    err = capsys.readouterr().err
    name = asked.partition(",")[0].partition("\n")[0]
    assert err.startswith(f"skpref: error: typo.csv: there is no column '{name}'; did you mean '{name}s'?")
    assert f"Found: {name}s" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("model", ["m3f", "fm"])
def test_predict_reads_the_columns_of_fit(model, tmp_path, capsys):
    write(tmp_path / "stars.csv", table("who,what,rating", STARS))
    few = ("--set", "max_iter=2") if model == "fm" else ("--set", "max_iter=5", "--set", "burn_in=1")
    assert main(["fit", "stars.csv", "--model", model, "--user", "who", "--item", "what", *few]) == 0
    write(tmp_path / "asked.csv", "who,what\n1,0\n")
    capsys.readouterr()
    assert main(["predict", "model.skpref", "asked.csv", "--json"]) == 0
    seen = capsys.readouterr()
    assert len(json.loads(seen.out)) == 1
    assert "read user from 'who', item from 'what', the columns that the model was learnt from" in seen.err


def test_settings_of_fit(tmp_path, capsys, refuses):
    write(tmp_path / "stars.csv", KINDS["m3f"][0])
    fit = ["fit", "stars.csv", "--model", "m3f", "--set", "n_factors=2", "--set", "max_iter=10", "--set", "burn_in=2"]
    assert main([*fit, "--set", "prediction=median", "--set", "margin=5", "--json"]) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert (found["estimator"], found["file"], found["data.n_ratings"]) == ("GibbsM3F", "model.skpref", 80)
    assert "Written to model.skpref" in err
    model = load(tmp_path / "model.skpref")
    assert isinstance(model, GibbsM3F)
    assert (model.prediction, model.margin, model.n_factors) == ("median", 5, 2)
    for wrong, message in (
        ("sigmma=1", "--set sigmma: a GibbsM3F has no such parameter; did you mean 'sigma'? there are"),
        ("sigma=-1", "'sigma' parameter of GibbsM3F"),
        ("levels=[1, 2]", "--set levels: use --levels"),
        ("n_factors=10000000000000", "Unable to allocate"),
    ):
        assert main([*fit, "--set", wrong]) == 2
        err = capsys.readouterr().err
        assert message in err
        assert err.count("\n") == 1
    refuses([*fit, "--set", "sigma"], "'sigma' is not NAME=VALUE")
    assert main(["predict", "nowhere.skpref", "stars.csv"]) == 2
    save(GPPLRegressor(), tmp_path / "m")
    refuses(["predict", "m", "stars.csv"], "holds no fitted model that predicts rows of a file")


def test_fit_needs_no_rows_for_a_hold_out(tmp_path, refuses):
    write(tmp_path / "six.csv", "winner,loser\n" + "a,b\nb,c\na,c\nc,d\na,d\nd,b\n")
    assert main(["fit", "six.csv"]) == 0
    assert load("model.skpref").rank().id[0] == "a"
    refuses(["tune", "six.csv", "--no-mlflow"], "6 comparisons; at least 10 are needed for a hold-out; `skpref fit`")


@pytest.mark.parametrize("form", ["csv", "parquet", "folder"])
def test_predict_with_a_machine_that_was_fitted_to_files(form, tmp_path, capsys):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(STARS, columns=["who", "film", "stars"]).assign(
        price=RNG.normal(size=len(STARS)), is_new=RNG.random(len(STARS)) < 0.5, shop=[b"a", b"b"] * 40
    )
    frame.to_parquet("trained.parquet")
    model = VariationalFM(n_factors=1, max_iter=3, random_state=0).fit("trained.parquet", "stars")
    save(model, "m.skpref")
    asked = frame.drop(columns="stars").iloc[[3, 70]]
    path = tmp_path / ("asked" if form == "folder" else f"asked.{form}")
    if form == "csv":
        asked.to_csv(path, index=False)
    elif form == "parquet":
        asked.to_parquet(path)
    else:
        path.mkdir()
        for k in range(2):
            asked.iloc[[k]].to_parquet(path / f"{k}.parquet")
    assert main(["predict", "m.skpref", path.name, "--json"]) == 0
    answers, seen = capsys.readouterr()
    assert [[row["prediction"], row["std"]] for row in json.loads(answers)] == np.transpose(
        model.predict(asked, return_std=True)
    ).tolist()
    assert seen == ""
    newcomer = asked.assign(who=77)
    newcomer.to_parquet("new.parquet")
    assert main(["predict", "m.skpref", "new.parquet", "--json"]) == 0
    answers, seen = capsys.readouterr()
    assert [row["prediction"] for row in json.loads(answers)] == model.predict(newcomer).tolist()
    assert "note: new.parquet, row 1, column 'who': the model knows no who '77'; did you mean '7'? (2 " in seen


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize("files", [False, True])
def test_predict_levels_of_a_machine(files, tmp_path, capsys):
    model = VariationalFMOrdinal(n_factors=1, max_iter=3, inference="variational", random_state=0)
    *pairs, stars = np.transpose(STARS)
    if files:
        pandas = pytest.importorskip("pandas")
        pandas.DataFrame(STARS, columns=["user", "item", "stars"]).to_parquet("trained.parquet")
        model.fit("trained.parquet", "stars")
    else:
        model = make_pipeline(OneHotDesign(), model).fit(np.transpose(pairs), stars)
    save(model, "m.skpref")
    write(tmp_path / "asked.csv", "user,item\n1,0\n1,7\n")
    assert main(["predict", "m.skpref", "asked.csv", "--json"]) == 0
    answers = json.loads(capsys.readouterr().out)
    assert list(answers[0]) == ["user", "item", "level", *(f"p_{level}" for level in model.classes_)]
    asked = np.array([[1, 0], [1, 7]], dtype=object)
    assert [row["level"] for row in answers] == model.predict(asked).tolist()
    assert [list(row.values())[3:] for row in answers] == model.predict_proba(asked).tolist()


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("film,price\n1,2\n", "asked.csv: there is no column 'who'. The model was fitted with it. Found: film, price"),
        ("who,price\n1,maybe\n", "line 2, column 'price': expected a number (a number in the fit), got"),
        ("who,price\n1,\n", "line 2, column 'price': a number is missing (a number in the fit)"),
        ("who,price\n,1\n", "line 2, column 'who': a who id is missing"),
    ],
)
def test_what_a_machine_of_files_cannot_predict(asked, message, tmp_path, refuses):
    pandas = pytest.importorskip("pandas")
    pandas.DataFrame({"who": ["1", "2"], "price": [0.5, 1.5], "y": [True, False]}).to_parquet("trained.parquet")
    save(VariationalFMClassifier(n_factors=0, max_iter=1).fit("trained.parquet"), "m.skpref")
    write(tmp_path / "asked.csv", asked)
    refuses(["predict", "m.skpref", "asked.csv"], message)


def test_a_folder_of_files_with_different_types_is_refused(tmp_path, capsys, refuses):
    pandas = pytest.importorskip("pandas")
    votes = pandas.DataFrame({"left": [7, 8] * 4, "right": [8, 9] * 4, "label": [1, 0] * 4})
    votes.astype({"left": "int32"}).to_parquet(tmp_path / "0.parquet")
    (votes + 2**33).assign(label=1).to_parquet(tmp_path / "1.parquet")
    out = ["--out", f"{tmp_path}.skpref", "--set", "max_iter=2", "--set", "tol=1.0"]
    assert main(["fit", str(tmp_path), *out]) == 0
    assert set(load(out[1]).item_ids_) == {*"789", *(str(2**33 + k) for k in (7, 8, 9))}
    votes.astype({"left": str}).to_parquet(tmp_path / "1.parquet")
    capsys.readouterr()
    refuses(["fit", str(tmp_path), *out], "column 'left' of X holds int32 in ")


@pytest.mark.parametrize("name", [int, lambda k: b"%d" % k, str])
def test_rank_takes_ids_of_any_type(name, tmp_path, capsys):
    rows = [(k % 2, 2 + k % 3, 2 + (k + 1) % 3) for k in range(12)]
    ids = np.array([[name(cell) for cell in row] for row in rows], dtype=object)
    save(CrowdGPPL(n_factors=1).fit(ids), tmp_path / "crowd")
    save(GibbsM3F(n_factors=2, max_iter=4, burn_in=1, duplicates="last").fit(ids[:, :2], [1, 2] * 6), tmp_path / "m3f")
    items = write(tmp_path / "items.csv", "id\n2\n3\n")
    capsys.readouterr()
    for model in ("crowd", "m3f"):
        assert main(["rank", str(tmp_path / model), str(items), "--user", "1", "--json"]) == 0
        ranked = json.loads(capsys.readouterr().out)
        if model == "crowd":  # the other recommends what the user has not rated
            assert {str(row["id"]).strip("b'") for row in ranked} == {"2", "3"}
