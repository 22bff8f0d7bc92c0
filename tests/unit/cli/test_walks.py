"""What new users of the command meet: files as they are, and words that say what to type next."""

import re
from pathlib import Path

import numpy as np
import pytest

from skpref import load
from skpref.cli import main
from skpref.cli.options import parse
from skpref.cli.tasks import comparisons
from skpref.exceptions import DataError

FAST = ("--set", "max_iter=3", "--set", "tol=1.0")
NAMES = "ant", "bee", "cat", "dog"


def write(names, *rows, name="data.csv"):
    Path(name).write_text("\n".join([names, *rows]) + "\n")
    return name


def battles(*more, answers=("model_a", "model_b")):
    """Return rows of two items and the winner, with further cells that depend on the row."""
    rng = np.random.default_rng(1)
    pairs = [sorted(rng.choice(4, 2, replace=False), key=lambda _: rng.random()) for _ in range(40)]
    cells = [[NAMES[i], NAMES[j], answers[int(i > j)]] for i, j in pairs]
    return [",".join([*own, *(m.format(k) for m in more)]) for k, own in enumerate(cells)]


# ----------------------------------------------------------------------------------------------- attributes by position
def products(positions):
    """Return names of columns, and rows of two products and the position of the cheaper one."""
    names = [f"{name}_{k}" for k in positions for name in ("brand", "price")]
    rows = []
    for row in range(12):
        prices = (5, 1 + row % 3) if row % 2 == 0 else (1 + row % 3, 5)
        cells = [cell for k, price in enumerate(prices) for cell in ("xyz"[(row + k) % 3], str(price))]
        rows.append(",".join([*cells, str(1 + (row % 2 == 0))]))
    return names, rows


def in_order(names, rows, order):
    cells = [dict(zip([*names, "chosen"], row.split(","), strict=True)) for row in rows]
    return write(",".join([*order, "chosen"]), *(",".join(row[name] for name in [*order, "chosen"]) for row in cells))


@pytest.mark.parametrize(
    ("positions", "order"),
    [
        (("1", "2"), ["price_2", "brand_1", "brand_2", "price_1"]),
        (("1", "2"), ["price_2", "brand_2", "brand_1", "price_1"]),  # and 1 is still the first product
        (("9", "10"), ["price_10", "brand_10", "price_9", "brand_9"]),
        (("left", "right"), ["price_right", "brand_left", "price_left", "brand_right"]),
    ],
)
def test_columns_of_attributes_stand_in_any_order(positions, order):
    names, rows = products(positions)
    command = ["fit", "data.csv", "--chosen", "chosen", "--features", "brand_*,price_*"]
    in_order(names, rows, names)
    wanted = comparisons.read(parse(command)).data
    in_order(names, rows, order)
    found = comparisons.read(parse(command)).data
    assert (found.rows.X == wanted.rows.X).all()
    assert (found.rows.y == wanted.rows.y).all()


def test_columns_of_attributes_that_fit_no_position_are_refused():
    names, rows = products(("left", "right"))
    in_order(names, rows, names)
    Path("data.csv").write_text(Path("data.csv").read_text().replace("price_left", "price_first"))
    with pytest.raises(
        DataError, match=r"the columns price_\* have first, right for \*, and the first attribute left, r"
    ):
        comparisons.read(parse(["fit", "data.csv", "--chosen", "chosen", "--features", "brand_*,price_*"]))


def test_covariates_of_positions_stand_in_any_order():
    plain = write("a,b,best,price_1,price_2", *(f"i{k % 3},i{(k + 1) % 3},i{k % 3},{k},{k % 5}" for k in range(12)))
    command = ["fit", plain, "--offered", "a,b", "--chosen", "best", "--covariates", "price_*"]
    wanted = comparisons.read(parse(command)).rows.X
    write("a,b,best,price_2,price_1", *(f"i{k % 3},i{(k + 1) % 3},i{k % 3},{k % 5},{k}" for k in range(12)))
    assert (wanted == comparisons.read(parse(command)).rows.X).all()


def test_an_attribute_that_all_products_share_is_refused_where_none_may_be_chosen():
    rows = [f"x,a,y,a,{('1', '2', 'no')[k % 3]}" for k in range(12)]
    file = write("brand_1,size_1,brand_2,size_2,chosen", *rows)
    command = ["fit", file, "--chosen", "chosen", "--none", "no", "--features", "brand_*,size_*"]
    with pytest.raises(DataError, match="all items shown have the same 'size': it has no effect to learn"):
        comparisons.read(parse(command))
    assert comparisons.read(parse([*command[:-1], "brand_*"])).rows.size == 12


# -------------------------------------------------------------------------------------------------------- what is said
def test_a_fit_to_comparisons_prints_their_ranking(capsys):
    assert main(["fit", write("model_a,model_b,winner", *battles())]) == 0
    printed = capsys.readouterr().out
    lines = printed[printed.index("Ranking (4)") :].splitlines()
    assert lines[1].split() == ["rank", "item", "utility", "±", "std", "P(best)", "90", "%", "of", "ranks"]
    assert [line.split()[1] for line in lines[2:6]] == load("model.skpref").rank().id.tolist() == list(NAMES)
    rows = [f"{row},u{k % 3}" for k, row in enumerate(battles())]
    assert main(["fit", write("model_a,model_b,winner,judge", *rows), "--model", "crowd", *FAST]) == 0
    assert "Ranking by the consensus (4)" in capsys.readouterr().out


def test_a_fit_says_whether_utilities_move(capsys, refuses):
    days = write("model_a,model_b,winner,day", *battles("2024-02-{0:02d}")[1:29])
    for dynamics in ("constant", "drift"):
        assert main(["fit", days, "--time", "day", "--set", f"dynamics={dynamics}"]) == 0
        printed = capsys.readouterr().out
        assert f"Movement in time: dynamics={dynamics}" in printed
        assert ("the same at all times; --set dynamics=drift lets them move" in printed) == (dynamics == "constant")
    refuses(["rank", "model.skpref", "--at", "10 March"], "--at must be a date such as 2024-05-31")


def test_notes_on_answers_that_may_mean_the_opposite(capsys):
    rows = battles(answers=("1", "0"))
    assert main(["fit", write("model_a,model_b,winner", *rows), *FAST]) == 0
    assert "1 in 'winner' is the left item and 0 the right one" in capsys.readouterr().err
    assert main(["fit", write("model_a,model_b,label", *rows), *FAST]) == 0
    assert "the left item and 0" not in capsys.readouterr().err
    stars = [f"u{k % 4},i{k},{1 + k % 5}" for k in range(20)]
    assert main(["fit", write("user,item,stars", *stars), "--contest", "user", "--rank", "stars", *FAST]) == 0
    assert "'stars' is read as ranks, of which 1 is the best" in capsys.readouterr().err
    assert main(["fit", write("user,item,place", *stars), "--contest", "user", "--rank", "place", *FAST]) == 0
    assert "read as ranks" not in capsys.readouterr().err


def test_a_ranking_by_a_machine_says_that_it_has_what_was_rated(capsys):
    file = write("userId,movieId,rating", *(f"{k % 5},{k % 7},{1 + k % 3}" for k in range(30)))
    assert main(["fit", file, "--model", "fm", "--set", "max_iter=3"]) == 0
    assert "Rank the items:   skpref rank model.skpref --user ID" in capsys.readouterr().out
    assert main(["rank", "model.skpref", "--user", "2"]) == 0
    assert "Ranking for user '2', also of what the user has rated (7)" in capsys.readouterr().out


OFFERS = "a,b,chosen"


@pytest.mark.parametrize(
    ("command", "rows", "message"),
    [
        ("fit dat.csv", (), r"dat\.csv: No such file or directory; did you mean 'data\.csv'\?"),
        ("rank no/model.skpref", (), r"no/model\.skpref: No such file or directory$"),
        ("fiit data.csv", (), r"invalid choice: 'fiit' .*; did you mean 'fit'\?"),
        ("fit data.csv --model crowds", (), r"invalid choice: 'crowds' .*; did you mean 'crowd'\?"),
        (
            "fit data.csv",
            ("userId,movieId,rating", "1,2,3"),
            "choices and rankings by --offered, .* ratings need a --model",
        ),
        (
            "fit data.csv --winner verdict",
            ("model_a,model_b,verdict", "a,b,A>>B", "b,a,B>A"),
            "winner 'A>>B' is a graded verdict: --set likelihood=logit-graded learns from grades",
        ),
        (
            "fit data.csv --offered a,b --chosen chosen",
            (OFFERS, "x,y,1", "y,z,2", "x,z,none"),
            "line 4, column 'chosen': 'none' is none of the items offered",
        ),
        (
            "fit data.csv --contest task --features brand --none 1",
            ("task,brand,chosen", "1,x,1", "1,y,0"),
            "--none 1 is a number, as attributes are; write a word such as none in the attributes",
        ),
    ],
)
def test_messages_say_what_to_write(command, rows, message, capsys):
    write(*(rows or ("left,right,label", "a,b,1")))
    assert main(command.split()) == 2
    assert re.search(message, capsys.readouterr().err.strip())


def test_an_advantage_of_a_side_is_named_as_it_is_typed(capsys):
    rows = [f"{NAMES[k % 4]},{NAMES[(k + 1 + k // 4 % 3) % 4]},{int(k % 9 > 0)}" for k in range(60)]
    assert main(["fit", write("left,right,label", *rows)]) == 0
    assert "by --set order_effect=True" in capsys.readouterr().err


@pytest.mark.parametrize("names", [("model_1", "model_2"), ("home team", "away team")])
def test_two_sides_of_other_names_are_asked_for(names, capsys, refuses):
    file = write(",".join([*names, "winner"]), *battles(answers=("left", "right")))
    assert main(["fit", file]) == 2
    left, right = names
    wanted = f"which columns are the two sides? If {left} and {right}: --left {left} --right {right}"
    assert wanted in capsys.readouterr().err
    assert main(["fit", file, "--left", left, "--right", right, *FAST]) == 0
    refuses(["fit", write("winner,other", *(row.rpartition(",")[0] for row in battles()))], "no column 'loser'")


def brands(third):
    """Return rows of tasks of three brands, one of them chosen."""
    cells = [(task, k, brand) for task in range(12) for k, brand in enumerate(("x", "y", third))]
    return [f"{task},{brand},{1 + k % 2},{int(task % 3 == k)}" for task, k, brand in cells]


def test_a_level_called_none_is_noted(capsys):
    command = ["--contest", "task", "--features", "brand", *FAST]
    for third, more, noted in (("None", [], True), ("None", ["--none", "None"], False), ("z", [], False)):
        assert main(["fit", write("task,brand,price,chosen", *brands(third)), *command, *more]) == 0
        assert ("stands for none of the others, --none None says so" in capsys.readouterr().err) == noted


def test_products_of_one_task_are_told_apart_by_attributes(capsys):
    assert (
        main(["fit", write("task,brand,price,chosen", *brands("x")), "--contest", "task", "--features", "brand"]) == 0
    )
    assert (
        "If they are different items, give them ids, or an attribute, that tell them apart" in capsys.readouterr().err
    )


def test_covariates_of_words_keep_the_order_of_the_fit():
    rng, prices = np.random.default_rng(0), ("price_left", "price_mid", "price_right")
    rows = [",".join([*rng.permutation(["x", "y", "z"]), *map(str, rng.integers(1, 9, 3)), "123"[k % 3]])
            for k in range(40)]  # fmt: skip
    file = write(",".join(["a", "b", "c", *prices, "chosen"]), *rows)
    assert main(["fit", file, "--offered", "a,b,c", "--covariates", "price_*", *FAST]) == 0
    assert main(["predict", "model.skpref", file, "--out", "wanted.csv"]) == 0
    moved = [",".join([*row[:3], row[5], row[3], row[4]]) for row in (line.split(",") for line in rows)]
    asked = write(",".join(["a", "b", "c", prices[2], *prices[:2]]), *moved, name="moved.csv")
    assert main(["predict", "model.skpref", asked, "--out", "found.csv"]) == 0
    found, wanted = (np.genfromtxt(f"{name}.csv", delimiter=",", names=True) for name in ("found", "wanted"))
    for name in ("p_a", "p_b", "p_c"):
        np.testing.assert_array_equal(found[name], wanted[name])


def test_covariates_of_words_belong_to_the_items_that_end_with_them(capsys):
    rng = np.random.default_rng(0)
    rows = [[*rng.permutation(["x", "y", "z"])[:2], *rng.integers(1, 9, 2)] for _ in range(60)]
    effects = []
    for heads, sides in (("opt_left,opt_right", ("left", "right")), ("opt_left,opt_right", ("right", "left")),
                         ("a,b", ("left", "right")), ("a,b", ("right", "left"))):  # fmt: skip
        cheaper = [row[int(row[2] > row[3])] for row in rows]
        prices = [[row[2], row[3]] if sides[0] == "left" else [row[3], row[2]] for row in rows]
        lines = [",".join(map(str, [*row[:2], *p, c])) for row, p, c in zip(rows, prices, cheaper, strict=True)]
        file = write(f"{heads},price_{sides[0]},price_{sides[1]},chosen", *lines)
        assert main(["fit", file, "--offered", heads, "--covariates", "price_*", *FAST]) == 0
        out, err = capsys.readouterr()
        effects.append(float(out.split("price_*  ")[1].split()[0]))
        assert ("are taken for a, b, in the order of the file" in err) == (heads == "a,b")
    assert effects[0] == effects[1] == effects[2] == -effects[3] < 0.0
