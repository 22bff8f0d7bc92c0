"""Files of text as people have them: what is read from each, what is said, and in which words others are refused."""

import gzip
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from skpref import load
from skpref.cli import main
from skpref.cli.files import read_sheet
from skpref.cli.options import Text
from skpref.exceptions import DataError

PAIRS = Text(columns=("winner", "loser"))
RATED = Text(columns=("user", "item", "rating"))
PREFLIB = "# FILE NAME: 1.toi\n# DATA TYPE: toi\n# ALTERNATIVE NAME 1: tea\n# ALTERNATIVE NAME 2: milk, cold\n"
PREFLIB += "# ALTERNATIVE NAME 3: cola\n"

# Text, columns that are read, lines of the rows, what is noted, and the form if it is not found out.
READ = {
    "football-data: columns at the end are nameless and empty": (
        "Div,Home,Away,FTR,,,\nE0,a,b,H,,,\nE0,b,c,D,,,\n",
        {"Div": ["E0", "E0"], "Home": ["a", "b"], "Away": ["b", "c"], "FTR": ["H", "D"]},
        [2, 3],
        "note: 3 columns of FILE without a name are empty and left out",
    ),
    "football-data: rows are longer than the header": (
        "Home,Away,goals\na,b,1,,,,\nb,c,2\nc,a,3, ,\n",
        {"Home": ["a", "b", "c"], "Away": ["b", "c", "a"], "goals": ["1", "2", "3"]},
        [2, 3, 4],
        "",
    ),
    "nameless columns of the header that rows do not have": (
        "left,right,label,,\na,b,1\nb,c,0,\n",
        {"left": ["a", "b"], "right": ["b", "c"], "label": ["1", "0"]},
        [2, 3],
        "2 columns of FILE without a name are empty",
    ),
    "a nameless empty column in the middle": (
        "left,,right\na, ,b\nb,,c\n",
        {"left": ["a", "b"], "right": ["b", "c"]},
        [2, 3],
        "1 column of FILE without a name is empty and left out",
    ),
    "a nameless empty column at the start": (
        ",left,label\n,a,1\n,b,0\n",
        {"left": ["a", "b"], "label": ["1", "0"]},
        [2, 3],
        "1 column of FILE without a name is empty and left out",
    ),
    "index of pandas": (
        ",left,label\n0,a,1\n1,b,0\n",
        {"unnamed": ["0", "1"], "left": ["a", "b"], "label": ["1", "0"]},
        [2, 3],
        "",
    ),
    "rows of nothing but separators": (
        "left,right,label\na,b,1\n,,\n \nb,c,0\n",
        {"left": ["a", "b"], "right": ["b", "c"], "label": ["1", "0"]},
        [2, 5],
        "",
    ),
    "a semicolon at the end of every line": (
        "left;right;label;\na;b;1;\nb;c;0;\n",
        {"left": ["a", "b"], "right": ["b", "c"], "label": ["1", "0"]},
        [2, 3],
        "1 column of FILE without a name is empty and left out",
    ),
    "a semicolon at the end of every line but the first": (
        "left;right;label\na;b;1;\nb;c;0;\n",
        {"left": ["a", "b"], "right": ["b", "c"], "label": ["1", "0"]},
        [2, 3],
        "",
    ),
    "sep= of Excel": (
        "sep=;\r\nleft;right, or top;label\r\na;b,c,d,e;1\r\n",
        {"left": ["a"], "right, or top": ["b,c,d,e"], "label": ["1"]},
        [3],
        "",
    ),
    "sep= in quotes, behind a byte order mark": (
        '\ufeff"sep=|"\nleft|label\na|1\n',
        {"left": ["a"], "label": ["1"]},
        [3],
        "",
    ),
    "sep= of a tab": ("sep=\t\na b\tlabel\nx,y,z\t1\n", {"a b": ["x,y,z"], "label": ["1"]}, [3], ""),
    "sep= and --separator": (
        "sep=;\na,b;label\n1,2;3\n",
        {"a": ["1"], "b;label": ["2;3"]},
        [3],
        "",
        Text(separator=","),
    ),
    "comments at the top": (
        "# made by hand in 2024, by me\n#\n\n# left, right\nleft,right,label\n#1,#2,1\n#2,#1,0\n",
        {"left": ["#1", "#2"], "right": ["#2", "#1"], "label": ["1", "0"]},
        [6, 7],
        "note: FILE: skipped 3 lines of comments, which begin with #",
    ),
    "a comment with a quote": ('# 5" wide\nitem,label\na,1\n', {"item": ["a"], "label": ["1"]}, [3], "1 line of"),
    "a comment above data": (
        "# of 2024\nu,i,3\nu,j,4\n",
        {"user": ["u", "u"], "item": ["i", "j"], "rating": ["3", "4"]},
        [2, 3],
        "skipped 1 line of comments",
        RATED,
    ),
    "# as the name of a column of numbers": (
        "#,name,label\n1,a,1\n2,b,0\n",
        {"#": ["1", "2"], "name": ["a", "b"], "label": ["1", "0"]},
        [2, 3],
        "",
    ),
    "ids with # in a file without header": (
        "#1,#2\n#2,#3\n",
        {"winner": ["#1", "#2"], "loser": ["#2", "#3"]},
        [1, 2],
        "note: FILE: line 1 is the first row, as --columns names the columns: winner = '#1', loser = '#2'",
        PAIRS,
    ),
    "ratings.dat of MovieLens": (
        "1::1193::5::978300760\n1::661::3::978302109\n",
        {"user": ["1", "1"], "item": ["1193", "661"], "rating": ["5", "3"], "time": ["978300760", "978302109"]},
        [1, 2],
        "line 1 is the first row",
        Text(columns=("user", "item", "rating", "time")),
    ),
    "movies.dat of MovieLens": (
        "1::Toy Story (1995)::Animation|Children's|Comedy\n2::\"burbs, The::Comedy\n",
        {
            "item": ["1", "2"],
            "title": ["Toy Story (1995)", '"burbs, The'],
            "genres": ["Animation|Children's|Comedy", "Comedy"],
        },
        [1, 2],
        "line 1 is the first row",
        Text(columns=("item", "title", "genres")),
    ),
    ":: with names, by --separator": (
        "left::right::label\na:b::c,d::1\n",
        {"left": ["a:b"], "right": ["c,d"], "label": ["1"]},
        [2],
        "",
        Text(separator="::"),
    ),
    ":: in names of C++ is no separator": (
        "std::map,std::set\nstd::map,std::list\n",
        {"winner": ["std::map", "std::map"], "loser": ["std::set", "std::list"]},
        [1, 2],
        "line 1 is the first row",
        PAIRS,
    ),
    "decimal commas between semicolons, without names": (
        "1,5;2,5;4\n2,5;1,5;3\n",
        {"user": ["1,5", "2,5"], "item": ["2,5", "1,5"], "rating": ["4", "3"]},
        [1, 2],
        "line 1 is the first row",
        replace(RATED, decimal=","),
    ),
    "u.data of MovieLens": (
        "196\t242\t3\n186\t302\t3\n",
        {"user": ["196", "186"], "item": ["242", "302"], "rating": ["3", "3"]},
        [1, 2],
        "user = '196', item = '242', rating = '3'",
        RATED,
    ),
    "blank lines before the names": (
        "\n \nleft;label\na;1\n\n\nb;0\n\n",
        {"left": ["a", "b"], "label": ["1", "0"]},
        [4, 7],
        "",
    ),
    "a byte order mark, line ends of Windows and blanks": (
        "\ufeffleft , right\t,label \r\na,b ,1\r\n",
        {"left": ["a"], "right": ["b "], "label": ["1"]},
        [2],
        "",
    ),
    "line ends of old Macs": ("left,label\ra,1\rb,0\r", {"left": ["a", "b"], "label": ["1", "0"]}, [2, 3], ""),
    "quotes, also behind a blank": (
        '"left", "right", "a ""label"""\n"a,b", "c\nd",1\ne, f,0\n',
        {"left": ["a,b", "e"], "right": ["c\nd", "f"], 'a "label"': ["1", "0"]},
        [3, 4],
        "",
    ),
    "commas in quotes do not count": ('"a, b, c";label\nx;1\n', {"a, b, c": ["x"], "label": ["1"]}, [2], ""),
    "names that are numbers above words": ("1,2\na,b\nb,a\n", {"1": ["a", "b"], "2": ["b", "a"]}, [2, 3], ""),
    "a grid whose items are numbers": (
        "person,1,2\nann,1,2\nbob,2,1\n",
        {"person": ["ann", "bob"], "1": ["1", "2"], "2": ["2", "1"]},
        [2, 3],
        "",
    ),
    "a column of check marks has its own name": (
        "respondent,cola,tea\n1,cola,\n2,,tea\n",
        {"respondent": ["1", "2"], "cola": ["cola", ""], "tea": ["", "tea"]},
        [2, 3],
        "",
    ),
    "one row": ("left,right\na,b\n", {"left": ["a"], "right": ["b"]}, [2], ""),
    "PrefLib: orders with ties and without some items": (
        PREFLIB + "5: 1,{2,3}\n2: 3, 1\n1: 2\n",
        {"tea": [1, 2, None], "milk, cold": [2, None, 1], "cola": [2, 1, None], "count": [5, 2, 1]},
        [6, 7, 8],
        "note: FILE: 3 rankings of PrefLib with the columns tea, milk, cold, cola, count; --item-ranks",
    ),
    "PrefLib: categories": (
        PREFLIB + "7: {}, {1,2}, 3\n4: {1, 2, 3},{},{}\n",
        {"tea": [2, 1], "milk, cold": [2, 1], "cola": [3, 1], "count": [7, 4]},
        [6, 7],
        "2 rankings of PrefLib",
    ),
}

# Text, the words in which it is refused, and the form.
ASKED = "if the file has no line of names, add one, or name the columns of the data by --columns A,B,..."
REFUSED = {
    "cells behind the last column": (
        "left,right,label\na,b,1,x\n",
        "FILE, line 2: 4 cells, but there are 3 columns; name the column of 'x' (write.table of R does not name the",
    ),
    "row names of R": (
        '"left" "label"\n"1" "a" 1\n"2" "b" 0\n',
        "line 2: 3 cells, but there are 2 columns; name the column of '1' (write.table of R does not name the first",
        Text(separator=" "),
    ),
    "nameless columns at the end with a cell": ("left,label,,\na,1,,\nb,0,,late\n", "line 3: 4 cells, but there are"),
    "a nameless column with a cell": (
        "left,,right\na,,b\n\nb,x,c\n",
        "FILE, line 1: column 2 has no name, but 'x' in line 4; name it",
    ),
    "a row that is cut off": (
        "left,right,label\na,b,1\nb,c\n",
        "FILE, line 3: 2 cells, but there are 3 columns; the line may be cut off; if only empty cells are missing, add",
    ),
    "a row of fewer cells than --columns": ("u,i,3\nu,i\n", "FILE, line 2: 2 cells, but there are 3 columns", RATED),
    "a first row that repeats a value": (
        "a,b,a\nb,c,b\n",
        f"line 1: there are two columns 'a'; rename one, or {ASKED}",
    ),
    "two columns of one name": ("left,right, left\na,b,c\n", "there are two columns 'left'; rename one, or if the"),
    "two columns of one name in --columns": ("a,b\n", "--columns: there are two columns", Text(columns=("x", "x"))),
    "the index of pandas, and a column unnamed": (",unnamed\n1,2\n", "there are two columns 'unnamed'"),
    "a first row of numbers": (
        "196\t242\t3\t881250949\n186\t302\t3\t891717742\n",
        f"FILE, line 1: looks like data and not like names of columns (it has numbers only); {ASKED}",
    ),
    "ratings.dat of MovieLens without names": (
        "1::1193::5::978300760\n1::661::3::978302109\n",
        "(it has numbers only)",
    ),
    "numbers as names above numbers": ("0,1,2\n5,4,3\n", "(it has numbers only)"),
    "a file of one row of numbers": ("1,2,0\n", "(it has numbers only)"),
    "a first row of ids that come again": (
        "ann,bob,1\nbob,ann,0\nann,eve,1\n",
        "line 1: looks like data and not like names of columns ('ann' occurs again in its column); if the file has no",
    ),
    "a first row with a winner": ("a,b,left\nc,d,right\ne,f,left\n", "('left' occurs again in its column)"),
    "the names once more": ("left,right,label\na,b,1\nleft,right,label\nb,c,0\n", "line 3: has the names of the"),
    "the names in spite of --columns": ("winner,loser\na,b\n", "FILE, line 1: has the names of the columns", PAIRS),
    "names behind # as numpy.savetxt writes them": (
        "# left,right,label\na,b,1\nb,a,0\n",
        "FILE, line 1: begins with # and has as many cells as the first line without; remove the # if these are the",
    ),
    "a comment of as many cells": ("# of ann, in 2024\nleft,label\na,1\n", "or the line if it is a comment"),
    "nothing but comments": ("# left\n# right\n", "FILE: the file is empty; expected a line of column names and"),
    "nothing": ("", "FILE: the file is empty"),
    "nothing but a separator": ("sep=;\n", "FILE: the file is empty"),
    "names only": ("left,right\n", "FILE: there are column names, but no rows"),
    "a quote that does not end": ('# x\nleft,label\n"a,1\nb,0\n', "FILE, line 4: cannot be read as CSV"),
    "a zero byte": ("left,label\na,1\nb,\0\n", "FILE, line 3: there is a zero byte; save it as CSV UTF-8"),
    "PrefLib: no order": (PREFLIB + "5: 1,2\n5, 1, 1.0\n", "FILE, line 7: expected a number of voters and their order"),
    "PrefLib: braces that do not end": (PREFLIB + "5: 1,{2,3\n", "such as 5: 1,{2,3}; got '5: 1,{2,3'"),
    "PrefLib: an unknown alternative": (PREFLIB + "5: 1,4\n", "line 6: alternative 4 has no line # ALTERNATIVE NAME"),
    "PrefLib: an alternative twice": (PREFLIB + "5: 1,{2,1}\n", "FILE, line 6: alternative 1 is ranked twice"),
    "PrefLib: two of one name": (
        PREFLIB + "# ALTERNATIVE NAME 4: tea\n1: 1\n",
        "FILE, alternative 4: the name 'tea' is empty, or has another meaning; change it",
    ),
    "PrefLib: no orders": (PREFLIB, "FILE: there are column names, but no rows"),
    "nothing but empty cells": (",,\n,,\n", "FILE: the file is empty"),
    "nothing, with --columns": ("\n", "FILE: there are column names, but no rows", PAIRS),
}


@pytest.fixture
def file(tmp_path):
    return Path("FILE")


@pytest.mark.parametrize("packed", [False, True], ids=["text", "gzip"])
@pytest.mark.parametrize("case", READ)
def test_it_is_read(case, packed, file, capsys):
    text, columns, lines, note, *form = READ[case]
    file.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    sheet = read_sheet(file, *form)
    assert sheet.values == columns
    assert sheet.names == list(columns)
    assert (sheet.lines, sheet.unit) == (lines, "line")
    said = capsys.readouterr().err
    assert (note in said) if note else not said


@pytest.mark.parametrize("case", REFUSED)
def test_it_is_refused(case, file):
    text, words, *form = REFUSED[case]
    file.write_bytes(text.encode())
    with pytest.raises(DataError) as refused:
        read_sheet(file, *form)
    assert words in str(refused.value)


def test_a_long_list_of_numbers_ends_in_a_word(file):
    rows = "".join(f"{k},{k % 7}\n" for k in range(5000))
    file.write_text("id,rank\n" + rows + "5000,DNF\nid,0\n", "utf-8")
    assert len(read_sheet(file).lines) == 5002  # a word above a thousand numbers is a name, though it occurs again


# -------------------------------------------------------------------------------------------------- from file to model
FAST = ("--set", "max_iter=2", "--set", "tol=1.0")


def test_a_season_of_football_data_is_fitted_as_it_is_downloaded(file, capsys):
    season = "Div,HomeTeam,AwayTeam,FTR,,,\nE0,a,b,H,,,\nE0,b,c,H,,,,,\nE0,a,c,D,,,\n,,,,,,\n"
    file.write_text(season, "utf-8")
    assert main(["fit", "FILE", "--left", "HomeTeam", "--right", "AwayTeam", "--winner", "FTR", *FAST]) == 0
    assert load("model.skpref").rank().id[0] == "a"
    assert "3 columns of FILE without a name are empty" in capsys.readouterr().err


def test_a_file_with_double_colons_is_fitted(file):
    file.write_text("a::b\na::c\nb::c\n", "utf-8")
    for separator in ((), ("--separator", "::")):
        assert main(["fit", "FILE", "--columns", "winner,loser", *separator, *FAST]) == 0
        assert load("model.skpref").rank().id.tolist() == ["a", "b", "c"]


def test_rankings_of_preflib_are_fitted_with_their_counts(file):
    names = "".join(f"# ALTERNATIVE NAME {k}: {name}\n" for k, name in enumerate("abc", 1))
    file.write_text(names + "5: 1,2,3\n2: 2,3\n2: 2,1\n", "utf-8")
    assert main(["fit", "FILE", "--item-ranks", "a,b,c", "--weight", "count", *FAST]) == 0
    weighted = load("model.skpref").utility()
    rows = [(1, 2, 3)] * 5 + [("", 1, 2)] * 2 + [(2, 1, "")] * 2
    Path("long.csv").write_text("a,b,c\n" + "".join(",".join(map(str, row)) + "\n" for row in rows), "utf-8")
    assert main(["fit", "long.csv", "--item-ranks", "a,b,c", *FAST]) == 0
    assert np.allclose(weighted, load("model.skpref").utility(), atol=1e-6)
