"""Ids in files and options, as models and tables of items or users have them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from skpref._text import nearest
from skpref._typing import AnyArray
from skpref.data import Table
from skpref.data.columns import Columns, as_text
from skpref.data.ids import objects
from skpref.exceptions import DataError


def by_text(ids: AnyArray) -> dict[str, Any]:
    """Return ids of a model by their text: as Python writes them, and as files have them, where bytes are text."""
    return {text(own): own for text in (str, as_text) for own in ids.tolist()}


def known_id(text: str, ids: AnyArray, what: str, more: str = "") -> Any:
    """Return the id with this text; refuse a text that no id has, with `what` in front and `more` behind."""
    texts = by_text(ids)
    if text not in texts:
        raise DataError(f"{what} {text[:80]!r}{nearest(text, list(texts)) or ('.' if more else '')}{more}")
    return texts[text]


def unknown_id(
    sheet: Columns,
    cells: AnyArray,
    known: Iterable[str],
    noun: str,
    column: str | None = None,
    rows: Any = None,
    where: str = "",
) -> DataError | None:
    """Return the error of the first id that the model, or `where`, does not know; `rows` are the rows of the ids."""
    texts = dict.fromkeys(known)
    unknown = [place for place, cell in enumerate(cells.tolist()) if cell not in texts]
    if not unknown:
        return None
    cell, row = cells[unknown[0]], unknown[0] if rows is None else int(rows[unknown[0]])
    more = f" ({len(unknown)} such cells)" if len(unknown) > 1 else ""
    what = (
        f"{'unknown' if where else 'the model knows no'} {noun} {cell[:80]!r}{where}{nearest(cell, list(texts))}{more}"
    )
    return sheet.fault(what, row, column)


def read_ids(sheet: Columns, name: str, ids: AnyArray, noun: str = "item", *, strict: bool = False) -> AnyArray:
    """Return a column of ids as the model has them, shape (n,)."""
    return own_ids(sheet, sheet.ids(name, noun), ids, noun, name, strict=strict)


def own_ids(
    sheet: Columns, cells: AnyArray, ids: AnyArray, noun: str, name: Any, rows: Any = None, *, strict: bool = False
) -> AnyArray:
    """Return ids of a file as the model has them; unseen ones are refused, or predicted with a note."""
    texts = by_text(ids)
    problem = unknown_id(sheet, cells, texts, noun, name, rows)
    if problem is not None and strict:
        raise problem
    if problem is not None:
        sheet.notes.append(f"{problem}; the prediction is that for an unseen {noun}")
    return objects([texts.get(cell, cell) for cell in cells.tolist()])


def known_ids(model: Any, noun: str) -> AnyArray:
    """Return the ids of items or users in the table of a model, or else in the data of its fit."""
    table = getattr(model, f"{noun}s", None)
    ids: AnyArray = getattr(model, f"{noun}_ids_") if table is None else table.ids
    return ids


def refuse_repeated(sheet: Columns, ids: AnyArray, column: str | None, noun: str = "item") -> None:
    """Refuse an id that occurs twice."""
    first: dict[str, int] = {}
    for row, name in enumerate(ids.tolist()):
        if first.setdefault(name, row) != row:
            line = f"{sheet.unit} {sheet.lines[first[name]]}"
            raise sheet.fault(f"{noun} {str(name)[:80]!r} occurs twice (first on {line})", row, column)


def read_table(
    sheet: Columns, column: str, noun: str, names: tuple[str, ...] | None = None, purpose: str = ""
) -> Table:
    """Return ids and features of a file of items or users."""
    usual = f"A file of items has the column {column} (or another one, named by --id) and numeric features"
    sheet.require((column, *(names or ())), purpose or usual)
    wanted = names or tuple(name for name in sheet.names if name != column)
    if not wanted:
        raise sheet.fault(f"there are no features, only {column!r}; without features, leave --{noun}s out")
    ids = sheet.ids(column, noun)
    refuse_repeated(sheet, ids, column, noun)
    return Table(sheet.matrix(wanted, "features are numeric"), ids, feature_names=wanted)


def read_levels(sheet: Columns, name: str, levels: Sequence[str]) -> list[str]:
    """Return a column of words that are levels of an attribute of the model."""
    texts = sheet.texts(name)
    sheet.refuse_empty("an attribute is missing", [not text for text in texts], name)
    for row, text in enumerate(texts):
        if text not in levels:
            raise sheet.fault(f"{text[:80]!r} is no level of the model, which has {', '.join(levels)[:200]}", row, name)
    return texts
