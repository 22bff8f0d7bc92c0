"""The hash of the data, by which a search is resumed: any cell that is read changes it, others do not."""

from pathlib import Path

import pytest

from skpref.cli.options import Fit, Tune
from skpref.cli.tasks import comparisons
from skpref.cli.tasks import rows as row_tasks

VOTES = [["left", "right", "label", "weight", "user", "match", "group", "note"]]
VOTES += [
    [f"i{k % 5}", f"i{(k + 1 + k % 3) % 5}", k % 2, 1 + k % 3, f"u{k % 3}", k % 4, k // 2, "x"] for k in range(20)
]
STARS = [["user", "item", "rating", "weight", "note"]]
STARS += [[f"u{u}", f"i{i}", (u + i) % 3 % 2, 1 + u % 2, "x"] for u in range(5) for i in range(5)]
ROWS = [["size", "colour", "label", "weight", "group", "note"]]
ROWS += [[k, k % 7, k % 2, 1 + k % 2, k // 2, "x"] for k in range(20)]
FEATURES = {"weight": "weight", "features": ("size", "colour"), "group": "group"}
KINDS = {
    "gppl": (
        comparisons.read,
        VOTES,
        {"model": "gppl", "weight": "weight", "covariates": ("match",), "group": "group"},
    ),
    "crowd": (comparisons.read, VOTES, {"model": "crowd", "weight": "weight"}),
    "m3f": (row_tasks.read, STARS, {"model": "m3f", "weight": "weight"}),
    "fm": (row_tasks.read, STARS, {"model": "fm", "weight": "weight"}),
    "fm-ordinal": (row_tasks.read, STARS, {"model": "fm-ordinal", "weight": "weight"}),
    "fm-classifier": (row_tasks.read, STARS, {"model": "fm-classifier", "weight": "weight"}),
    "ordinal": (row_tasks.read, ROWS, {"model": "ordinal", **FEATURES}),
    "svgp": (row_tasks.read, ROWS, {"model": "svgp", **FEATURES}),
    "svgp-classifier": (row_tasks.read, ROWS, {"model": "svgp-classifier", **FEATURES}),
}
UNREAD = {"gppl": {"user", "note"}, "crowd": {"match", "group", "note"}}
OTHERS = {"left": "i3", "right": "i4", "label": 0, "rating": 0, "weight": 9, "user": "u9", "item": "i9", "group": 7}


def digest_of(kind, rows):
    read, _, options = KINDS[kind]
    Path("rows.csv").write_text("".join(",".join(map(str, row)) + "\n" for row in rows))
    return str(read(Fit(data=Path("rows.csv"), **options)).facts["data.sha256"])


@pytest.mark.parametrize(("kind", "column"), [(kind, name) for kind, (_, rows, _) in KINDS.items() for name in rows[0]])
def test_every_cell_that_is_read_changes_the_hash(kind, column):
    rows = [list(row) for row in KINDS[kind][1]]
    before = digest_of(kind, rows)
    assert len(before) == 64
    assert digest_of(kind, rows) == before
    place = rows[0].index(column)
    other = OTHERS.get(column, 99)
    row = next(number for number in range(2, len(rows)) if rows[number][place] != other and other not in rows[number])
    rows[row][place] = other
    assert (digest_of(kind, rows) == before) == (column in UNREAD.get(kind, {"note"}))


def test_cells_of_tables_of_items_and_users_change_the_hash(monkeypatch):
    tables = {name: Path(f"{name}.csv") for name in ("items", "users")}
    monkeypatch.setitem(KINDS, "tables", (comparisons.read, VOTES, {"model": "crowd", **tables}))
    found = [digest_of("crowd", VOTES)]
    for size, age in ((4, 2), (5, 2), (4, 3)):
        tables["items"].write_text(f"id,size\ni0,0\ni1,1\ni2,2\ni3,3\ni4,{size}\n", "utf-8")
        tables["users"].write_text(f"user,age\nu0,1\nu1,{age}\nu2,4\n", "utf-8")
        found.append(digest_of("tables", VOTES))
    assert len(set(found)) == 4


def test_a_search_takes_what_a_fit_does():
    Path("rows.csv").write_text("".join(",".join(map(str, row)) + "\n" for row in STARS))
    fit, tune = (row_tasks.read(kind(data=Path("rows.csv"), model="m3f")) for kind in (Fit, Tune))
    assert fit.facts == tune.facts
