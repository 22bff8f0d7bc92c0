"""Files of PrefLib: orders of numbered alternatives, and how many voters gave each."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from skpref.exceptions import DataError

if TYPE_CHECKING:
    from collections.abc import Iterable

_ALTERNATIVE = re.compile(r"#\s*ALTERNATIVE NAME\s+([0-9]+)\s*:(.*)", re.DOTALL)
_PLACE = r"\s*(?:[0-9]+|\{[0-9,\s]*\})\s*"  # 4, or {2,3} of equal rank, or {} of an empty category
_ORDER = re.compile(rf"\s*([0-9]+)\s*:({_PLACE}(?:,{_PLACE})*)")


def read_preflib(lines: Iterable[str]) -> tuple[dict[str, list[int | None]], list[int]]:
    """Return columns of ranks by alternative and one of numbers of voters, `count`; and the line of each order."""
    names: dict[int, str] = {}
    counts: list[int | None] = []
    orders: list[dict[int, int]] = []
    places: list[int] = []
    for number, line in enumerate(lines, 1):
        if match := _ALTERNATIVE.match(line):
            names[int(match[1])] = match[2].strip()
        elif line.strip() and not line.startswith("#"):
            count, ranks = _order(line, number, names)
            counts.append(count)
            orders.append(ranks)
            places.append(number)
    columns: dict[str, list[int | None]] = {}
    for alternative, name in names.items():
        if not name or name in {*columns, "count"}:
            raise DataError(f"alternative {alternative}: the name {name!r} is empty, or has another meaning; change it")
        columns[name] = [ranks.get(alternative) for ranks in orders]
    return {**columns, "count": counts}, places


def _order(line: str, number: int, names: dict[int, str]) -> tuple[int, dict[int, int]]:
    """Return the number of voters of a line, and the rank of each alternative that they ranked."""
    match = _ORDER.fullmatch(line)
    if match is None:
        got = repr(line.strip()[:60])
        raise DataError(f"line {number}: expected a number of voters and their order, such as 5: 1,{{2,3}}; got {got}")
    ranks: dict[int, int] = {}
    for rank, place in enumerate(re.findall(r"\{[^}]*\}|[0-9]+", match[2]), 1):
        for alternative in map(int, re.findall("[0-9]+", place)):
            if alternative not in names or alternative in ranks:
                why = "is ranked twice" if alternative in names else "has no line # ALTERNATIVE NAME"
                raise DataError(f"line {number}: alternative {alternative} {why}")
            ranks[alternative] = rank
    return int(match[1]), ranks
