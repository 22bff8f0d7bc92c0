"""Names, files and disks that must not cost a job its results, nor steer a terminal or a spreadsheet."""

import csv
import gzip
import json
import time
from pathlib import Path

import pytest

from skpref.cli import main
from skpref.cli.files import read_sheet
from skpref.cli.output import write_csv

NAMES = ["Juice $5 (\\50% off $2)", "=cmd|' /C calc'!A0", "-x", "-5", "\x1b[31mred", "two\nlines", "'=quoted", "@x"]
TUNE = ["tune", "votes.csv", "--trials", "1", "--folds", "2", "--no-mlflow", "--out", "out"]
FILES = {"model.skpref", "trials.csv", "ranking.csv", "ranking.png", "calibration.png"}


@pytest.fixture
def folder(tmp_path):
    n = len(NAMES)
    rows = [(NAMES[k % n], NAMES[(k + 1 + k // n) % n], int(k % 3 > 0)) for k in range(3 * n)]
    write_csv(Path("votes.csv"), ["left", "right", "label"], rows)
    return tmp_path


def written(folder):
    return {path.name for path in (folder / "out").iterdir()}


# ---------------------------------------------------------------------------------------------------------------- names
def test_names_are_drawn_printed_and_written_literally(folder, capsys):
    assert main(TUNE) == 0
    out, err = capsys.readouterr()
    assert written(folder) == FILES
    assert "not written" not in err
    assert "\x1b" not in out + err
    assert "\\x1b[31mred" in out
    with Path("out/ranking.csv").open(encoding="utf-8", newline="") as file:
        cells = {row["id"] for row in csv.DictReader(file)}
    assert {NAMES[0], "'=cmd|' /C calc'!A0", "'-x", "-5", "''=quoted", "'@x"} <= cells
    assert main(["rank", "out/model.skpref", "out/ranking.csv", "--json"]) == 0  # what we wrote can be read
    assert {row["id"] for row in json.loads(capsys.readouterr().out)} == set(NAMES)


def test_messages_do_not_steer_the_terminal(folder, capsys):
    (folder / "bad.csv").write_text('"a\x1b[2J\nb",right,label\nx,y,1\n', "utf-8")
    assert main(["fit", "bad.csv"]) == 2
    err = capsys.readouterr().err
    assert "\x1b" not in err
    assert err.count("\n") == 1
    assert main(["fit", "--\x1b[31m"]) == 2
    assert "\x1b" not in capsys.readouterr().err


@pytest.mark.parametrize("cell", [*NAMES, "", "'", "''-x", "'-5", "+1e3", "+49 170", "\tx", "=", "o'neil", "\uff1dx"])
def test_cells_that_a_spreadsheet_would_run_come_back(tmp_path, cell):
    write_csv(tmp_path / "a.csv", [cell or "a", "b"], [[cell, 1.5], ["y", -2]])
    sheet = read_sheet(tmp_path / "a.csv")
    assert sheet.names == [(cell or "a").strip(), "b"]
    assert sheet.values[sheet.names[0]] == [cell, "y"]
    assert sheet.values["b"] == ["1.5", "-2"]
    with (tmp_path / "a.csv").open(encoding="utf-8", newline="") as file:
        raw = list(csv.reader(file))[1][0]
    assert raw in {"-5", "+1e3"} or raw[:1] not in tuple("=+-@\t\uff1d")


# ------------------------------------------------------------------------------------------------------------ failures
def test_a_full_disk_is_named_and_a_replaced_model_is_told(folder, capsys):
    assert main(["fit", "votes.csv"]) == 0
    assert "in the place of" not in capsys.readouterr().out
    assert main(["fit", "votes.csv"]) == 0
    assert "Written to model.skpref, in the place of the file that was there" in capsys.readouterr().out
    if Path("/dev/full").exists():
        for command in (["predict", "model.skpref", "votes.csv"], ["rank", "model.skpref"]):
            assert main([*command, "--json", "--out", "/dev/full"]) == 2
            out, err = capsys.readouterr()
            assert json.loads(out)
            assert err == "skpref: error: /dev/full: No space left on device\n"


# ---------------------------------------------------------------------------------------------------------------- files
def test_a_header_of_a_hundred_thousand_columns_is_no_hang(tmp_path):
    names = [f"c{k}" for k in range(100_000)]
    path = tmp_path / "wide.csv"
    path.write_text(f"{','.join(names)}\n{','.join('1' for _ in names)}\n", "utf-8")
    began = time.process_time()
    sheet = read_sheet(path)
    assert time.process_time() - began < 20.0  # 0.4 s measured; each name compared with all others took minutes
    assert len(sheet.names) == 100_000


def test_gzip_is_read_by_what_it_holds(folder, refuses):
    packed = gzip.compress(Path("votes.csv").read_bytes())
    for name in ("votes.csv.gz", "votes.txt"):
        Path(name).write_bytes(packed)
        assert read_sheet(Path(name)).values == read_sheet(Path("votes.csv")).values
    Path("cut.csv.gz").write_bytes(packed[:-12])
    Path("bad.csv.gz").write_bytes(packed[:20] + b"\0" * 20 + packed[40:])
    for name in ("cut.csv.gz", "bad.csv.gz"):
        refuses(["fit", name], f"{name}: cannot be read as gzip")


def test_tables_nested_too_deeply_are_one_line(folder, capsys, refuses):
    Path("deep.toml").write_text("a = " + "[" * 3000 + "]" * 3000, "utf-8")
    assert main(["run", "deep.toml"]) == 2
    assert capsys.readouterr().err == "skpref: error: deep.toml: lists or tables are nested too deeply\n"
    refuses(["fit", "votes.csv", "--set", f"C={'-' * 100_000}1"], "nested too deeply")


# -------------------------------------------------------------------------------------------------------------- options
@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        (
            ["tune", "votes.csv", "--timeou", "3"],
            "--timeou 3; did you mean '--timeout'?; see `skpref tune --help`",
        ),
        (["tune", "votes.csv", "--duplicate=last"], "--duplicate=last; did you mean '--duplicates'?"),
        (["rank", "m", "--jsn"], "unrecognized arguments: --jsn; did you mean '--json'?"),
    ],
)
def test_options_are_not_abbreviated_but_suggested(typed, hint, refuses):
    refuses(typed, hint)
