"""What a user may get wrong: one line says what, where and what to try; exit code 2, and nothing is left behind."""

import io
import json
import os
import re
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from skpref import GibbsM3F, GPOrdinalRegressor, GPPLClassifier, Table, load, save
from skpref.cli import main
from skpref.cli.files import read_sheet
from skpref.cli.main import Output
from skpref.cli.output import check_no_source, complete
from skpref.exceptions import DataError

RNG = np.random.default_rng(0)
VOTES = "left,right,label\n" + "".join(f"i{k % 5},i{(k + 1 + k % 3) % 5},{k % 2}\n" for k in range(20))
STARS = "user,item,rating\n" + "".join(f"u{u},{i},{(u + i) % 3 + 1}\n" for u in range(5) for i in range(5))
ROWS = "size,colour,label\n" + "".join(f"{k},{k % 7},{k % 3}\n" for k in range(20))
ITEMS = "id,size\n" + "".join(f"i{k},{k}\n" for k in range(5))


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    table = Table(np.arange(5.0)[:, None], [f"i{k}" for k in range(5)], feature_names=["size"])
    pairs = np.array([line.split(",")[:2] for line in VOTES.split()[1:]], dtype=object)
    save(GPPLClassifier(table, max_iter=20, tol=1.0, random_state=0).fit(pairs, np.arange(20) % 2), folder / "items")
    rated = np.array([(u, i) for u in range(5) for i in range(5)])
    save(
        GibbsM3F(n_factors=2, max_iter=4, burn_in=1, random_state=0).fit(rated, rated.sum(axis=1) % 3), folder / "stars"
    )
    X = RNG.normal(size=(20, 2))
    grades = GPOrdinalRegressor(optimizer=None, max_iter=2, tol=1.0, random_state=0).fit(X, np.arange(20) % 2)
    grades.feature_names_in_ = np.array(["size", "colour"], dtype=object)
    save(grades, folder / "grades")
    return folder


@pytest.fixture
def folder(models, tmp_path):
    files = {"votes": VOTES, "stars": STARS, "rows": ROWS, "items": ITEMS, "asked": "user,item\n1,2\n"}
    for name, text in files.items():
        Path(f"{name}.csv").write_text(text, "utf-8")
    for path in models.iterdir():
        Path(path.name).write_bytes(path.read_bytes())
    Path("made").mkdir()
    return tmp_path


def contents(folder):
    return {str(path): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


FIT = ["fit", "bad.csv"]
# What is typed, what stands in bad.csv, and what is said.
BAD = {
    "another name": (["fit", "vote.csv"], "", r"vote\.csv: No such file or directory"),
    "folder": (["fit", "made"], "", r"made: a folder without Parquet files; expected .*: name one file"),
    "zero byte": (FIT, VOTES + "i1,i\0,1\n", r"bad\.csv, line 22: there is a zero byte; save it as CSV UTF-8"),
    "separator": (FIT, VOTES.replace(",", ":"), "Found: left:right:label; are its cells separated by commas"),
    "half a yes": (
        [*FIT, "--model", "fm-classifier"],
        re.sub(r"\d$", "0", STARS, flags=re.MULTILINE) + "u0,9,0.5\n",
        "line 27, column 'rating': expected 0 or 1, got 0.5; --model fm takes any number",
    ),
    "no no": ([*FIT, "--model", "fm-classifier"], re.sub(r"\d$", "1", STARS, flags=re.MULTILINE), "both 0 and 1 are"),
    "one level": (
        [*FIT, "--model", "ordinal"],
        re.sub(r"\d$", "7", ROWS, flags=re.MULTILINE),
        "column 'label': at least 2 levels of ratings are needed; got 1 class: every rating is 7",
    ),
    "label nan": (
        [*FIT, "--model", "ordinal"],
        ROWS + "1,1,nan\n",
        "line 22, column 'label': a number is missing .*, got 'nan'; --miss",
    ),
    "one star": (
        [*FIT, "--model", "m3f"],
        re.sub(r"\d$", "1", STARS, flags=re.MULTILINE),
        r"bad\.csv, column 'rating': at least 2 levels of ratings are needed",
    ),
    "feature twice": (
        ["fit", "rows.csv", "--model", "svgp", "--features", "size,size"],
        "",
        "'size': --features names",
    ),
    "group": (["fit", "rows.csv", "--model", "svgp", "--group", "colr"], "", "did you mean 'colour'.*asked for by"),
    "out: folder": (["fit", "votes.csv", "--out", "made"], "", "--out made: is a folder; name a file, such as made"),
    "out: nowhere": (["predict", "stars", "asked.csv", "--out", "no/x.csv"], "", "there is no folder no; make it"),
    "out: device": (["fit", "votes.csv", "--out", os.devnull], "", "is no file; a model is written to a file"),
    "out: file": (
        ["tune", "votes.csv", "--no-mlflow", "--out", "items.csv/x"],
        "",
        r"folder of results items\.csv/x: cannot be made \(Not a directory\); name another folder by --out",
    ),
    "storage: file": (
        ["tune", "votes.csv", "--no-mlflow", "--storage", "items.csv"],
        "",
        r"storage items\.csv is a file, but not the journal of a search; choose another path",
    ),
    "storage: nowhere": (["tune", "votes.csv", "--no-mlflow", "--storage", "no/x"], "", "storage no/x cannot be"),
    "unknown item": (
        ["predict", "items", "bad.csv"],
        "left,right\ni0,i1\ni0,i11\n",
        r"bad\.csv, line 3, column 'right': the model knows no item 'i11'; did you mean 'i1'\?",
    ),
    "rows": (["rank", "grades", "rows.csv"], "", "holds no fitted model of comparisons, or of users and items"),
    "model cut off": (["rank", "bad.csv"], b"PK\3\4", "not a skpref model: it is not a zip archive, or is truncated"),
    "spool": (["mlflow-sync", "nowhere"], "", r"nowhere: there is no such folder.*default: mlruns.spool"),
    "overflow": (["fit", "votes.csv", "--set", "scale_prior__shape=1e300"], "", "'shape' parameter of Gamma.*in the"),
    "nested": (["fit", "votes.csv", "--set", "kernel__nu=3"], "", "--set kernel__nu: a GPPLClassifier has no such"),
    "data lost": (["fit", "bad.csv", "--out", "made/../bad.csv"], VOTES, r"is what is read \(bad\.csv\) and would be"),
    "rows lost": (["predict", "items", "bad.csv", "--out", "bad.csv"], VOTES, r"bad\.csv: is what is read.*by --out"),
    "model lost": (["predict", "items", "bad.csv", "--out", "items"], VOTES, r"items: is what is read \(items\)"),
    "model ranked over": (["rank", "items", "--out", "items"], "", r"items: is what is read \(items\)"),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.filterwarnings("ignore")
def test_one_line_says_what_is_wrong(folder, case, capsys):
    command, text, message = BAD[case]
    Path("bad.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    before = contents(folder)
    assert main(command) == 2
    err = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("skpref: note: ")]
    assert len(err) == 1
    assert err[0].startswith("skpref: error: ")
    assert re.search(message, err[0]), err[0]
    assert contents(folder) == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--trials", "8.0"], "argument --trials: '8.0' is not a whole number"),
        (["--trials", "0"], "argument --trials: 0 is less than 1"),
        (["--seed", "4294967296"], "argument --seed: 4294967296 is more than 4294967295"),
        (["--timeout", "soon"], "argument --timeout: 'soon' is not a number"),
        (["--holdout", "nan"], "argument --holdout: nan is no number"),
        (["--experiment", " "], "argument --experiment: is empty"),
        (["--features", "a,,b"], "argument --features: 'a,,b' is not a list of names with commas between them"),
    ],
)
def test_options_say_what_they_want(options, message, refuses):
    refuses(["tune", "votes.csv", *options], message)


def test_unseen_users_are_named_and_ids_are_those_of_the_model(folder, capsys):
    Path("bad.csv").write_text("user,item\n1,2\nme,2\nyou,2\n", "utf-8")
    assert main(["predict", "stars", "bad.csv", "--json"]) == 0  # its users are numbers, those of a file texts
    out, err = capsys.readouterr()
    scores = [row["score"] for row in json.loads(out)]
    assert scores[0] == load("stars").predict_score(np.array([(1, 2)]))[0]
    assert scores[1] == scores[2] != scores[0]
    assert err == (
        "skpref: note: bad.csv, line 3, column 'user': the model knows no user 'me' (2 such cells); "
        "the prediction is that for an unseen user\n"
    )


def test_nobody_to_ask(folder, monkeypatch, refuses):
    monkeypatch.setattr(sys, "stdin", None)
    refuses(["elicit", "stars"], "the standard input is closed; answers may come from a file")


class Gone(io.StringIO):
    """A pipe whose reader has left after so many lines."""

    def __init__(self, n_lines):
        super().__init__()
        self.n_lines = n_lines

    def write(self, text):
        if self.getvalue().count("\n") >= self.n_lines:
            raise BrokenPipeError
        return super().write(text)


def test_a_reader_who_leaves_costs_no_model(folder, monkeypatch):
    monkeypatch.setattr(sys, "stdout", Gone(0))
    assert main(["fit", "votes.csv", "--set", "max_iter=2", "--set", "tol=1.0"]) == 0
    assert Path("model.skpref").exists()
    monkeypatch.setattr(sys, "stdout", Gone(1))
    assert main(["predict", "stars", "asked.csv"]) == 0
    stream = Output(Gone(1))
    print("one", file=stream)
    print("two", file=stream, flush=True)
    assert stream.getvalue() == "one\n"


def test_letters_that_the_terminal_does_not_have(folder, monkeypatch):
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, "ascii"))
    assert main(["rank", "items"]) == 0
    assert b"utility \\xb1 std" in raw.getvalue()


def write_half(path):
    with complete(path) as file:
        file.write(b"half")
        raise OSError(28, "No space left on device")


def test_a_file_appears_when_it_is_complete(tmp_path):
    target = tmp_path / "target.csv"
    target.write_text("old", "utf-8")
    link = tmp_path / "link.csv"
    link.symlink_to(target)
    with pytest.raises(OSError, match="No space") as full:
        write_half(link)
    assert full.value.filename == str(link)
    assert target.read_text("utf-8") == "old"
    with complete(link) as file:
        file.write(b"new")
        assert target.read_text("utf-8") == "old"
    assert link.is_symlink()
    assert target.read_text("utf-8") == "new"
    assert {path.name for path in tmp_path.iterdir()} == {"target.csv", "link.csv"}
    with complete(Path(os.devnull)) as file:
        assert file.name == os.devnull


def test_a_result_does_not_replace_what_was_read(tmp_path):
    votes = tmp_path / "ranking.csv"
    votes.write_text(VOTES, "utf-8")
    with pytest.raises(DataError, match=r"ranking\.csv: is what is read .* and would be lost"):
        check_no_source(votes, (None, tmp_path / "no.csv", votes))


def test_a_broken_link_is_not_proposed_in_its_own_place(folder, capsys):
    Path("lost.csv").symlink_to("nowhere")
    assert main(["fit", "lost.csv"]) == 2
    assert capsys.readouterr().err == "skpref: error: lost.csv: No such file or directory\n"


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="Linux only")
def test_a_failed_read_names_the_file(folder, capsys):
    assert main(["fit", "/proc/self/mem"]) == 2
    assert capsys.readouterr().err == "skpref: error: /proc/self/mem: Input/output error\n"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes in folders are POSIX's")
def test_a_pipe_is_read_once(folder):
    os.mkfifo("pipe")
    writer = threading.Thread(target=Path("pipe").write_text, args=("user,item\n1,2\n", "utf-8"))
    writer.start()
    assert read_sheet(Path("pipe")).values == {"user": ["1"], "item": ["2"]}
    writer.join()


def test_whole_numbers_that_pandas_wrote_as_floats(tmp_path):
    file = tmp_path / "pairs.csv"
    file.write_text("left,right,label,version\n1,2.0,1,1.0\n2,3.0,1,1.1\n3,1.0,0,a\n", "utf-8")
    sheet = read_sheet(file)
    assert [sheet.ids(name).tolist() for name in ("left", "right")] == [["1", "2", "3"], ["2", "3", "1"]]
    assert sheet.ids("version").tolist() == ["1.0", "1.1", "a"]
