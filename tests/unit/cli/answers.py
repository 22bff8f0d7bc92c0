"""What a task of choices or rankings says, in words; and what a command writes, for tests to compare."""

import csv
import re
from collections import Counter
from itertools import groupby
from typing import Any

import numpy as np

from skpref.cli import main


def answer(shown, y):
    """Return "x | y z" where x was chosen, "x | y | z" with the worst behind, "x > y = z | w" of a ranking."""
    here = [item for item in shown if item is not None]
    if np.ndim(y) and np.asarray(y).dtype.kind == "f":
        rank = dict(zip(shown, y, strict=True))
        named = sorted((item for item in here if rank[item] == rank[item]), key=rank.__getitem__)
        text = " > ".join(" = ".join(sorted(tied)) for _, tied in groupby(named, rank.__getitem__))
        named_and_rest = [text, " ".join(sorted(item for item in here if rank[item] != rank[item]))]
    else:
        best, *worst = np.atleast_1d(y).tolist()
        named_and_rest = [best, " ".join(sorted(item for item in here if item not in {best, *worst})), *worst]
    return " | ".join(filter(None, named_and_rest))


def answers(task):
    """Return the weight of each answer; of a crowd, by the user and the answer."""
    first, rows, found = task.data.first, task.rows, Counter[Any]()
    for row, y, weight in zip(rows.X.tolist(), rows.y, rows.weight.tolist(), strict=True):
        text = answer(row[first : first + task.data.n_shown], y)
        found[(row[0], text) if first else text] += weight
    return dict(found)


def write(path, text):
    """Write a file."""
    path.write_text(text, "utf-8")
    return path


def rows_of(path):
    """Return the rows of a file."""
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def assert_refused(command, message, capsys):
    """Run a command that ends with one line, which says what is wrong."""
    assert main(command) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("skpref: error: ")
    assert err.count("\n") == 1
    assert re.search(message, err), err
