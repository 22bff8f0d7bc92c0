"""Sessions in files: questions and answers as JSON."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import numpy as np

from skpref._archive import replacing
from skpref.data.ids import shorten
from skpref.elicitation._strategies import STRATEGIES, Strategy
from skpref.exceptions import DataError

_FORMAT: Final = "skpref session 1"


class SessionRecord(NamedTuple):
    """A session without its model."""

    strategy: Strategy
    min_gain: float
    user: Any
    candidates: Any  # ids or pairs of them; None for rows of features
    asked: list[int]  # rows of the candidates
    answers: list[tuple[int, Any]]  # (row, answer), in the order in which they were given
    generator: Any  # state of the generator of random questions

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the file; it appears under its name when it is complete."""
        ids = isinstance(self.candidates, list) or getattr(self.candidates, "ndim", None) == 1
        fields = self._asdict() | {"candidates": list(self.candidates) if ids else None}
        with replacing(Path(path)) as file:
            file.write(json.dumps({"format": _FORMAT, **fields}, indent=1, default=_plain).encode())

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        """Read and check a file."""
        path = Path(path)
        if path.stat().st_size > (1 << 28):  # bytes of a file that is read
            raise DataError(f"{path}: not a session: it has {path.stat().st_size} bytes")
        try:
            content = json.loads(path.read_text("utf-8"))
        except (ValueError, RecursionError) as error:
            raise DataError(f"{path}: not a session: it cannot be read as JSON ({error})") from error
        if not isinstance(content, dict) or content.pop("format", None) != _FORMAT or set(content) != set(cls._fields):
            raise DataError(f"{path}: not a session that Session.save wrote ({_FORMAT})")
        record = cls(**content)
        pairs = isinstance(record.candidates, list) and any(isinstance(entry, list) for entry in record.candidates)
        entries = record.candidates or []
        sound = isinstance(entries, list) and all(_is_pair(entry) if pairs else _is_id(entry) for entry in entries)
        sound = sound and _is_id(record.user) and record.strategy in STRATEGIES
        if not sound or not isinstance(record.min_gain, float):
            raise DataError(f"{path}: a damaged session: candidates, user, strategy or min_gain is not valid")
        sound = isinstance(record.asked, list) and isinstance(record.answers, list)
        sound = sound and all(map(_is_row, record.asked)) and all(map(_is_pair, record.answers))
        if not sound or not all(_is_row(row) for row, _ in record.answers):
            raise DataError(f"{path}: a damaged session: asked and answers must name rows of the candidates")
        candidates = [tuple(entry) for entry in entries] if pairs else record.candidates
        return record._replace(candidates=candidates, answers=[(row, answer) for row, answer in record.answers])

    def check_size(self, path: str | os.PathLike[str], size: int) -> None:
        """Refuse rows that the candidates do not have."""
        highest = max([*self.asked, *(row for row, _ in self.answers)], default=-1)
        if highest >= size:
            raise DataError(f"{path}: question {highest} was asked, but there are {size} candidates")

    def random_generator(self, path: str | os.PathLike[str]) -> np.random.Generator:
        """Return the generator of random questions."""
        generator = np.random.default_rng()
        try:
            generator.bit_generator.state = self.generator
        except (ValueError, TypeError, KeyError, OverflowError) as error:
            raise DataError(f"{path}: a damaged session: its generator cannot be restored ({error})") from error
        return generator


def _is_id(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str)


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(_is_id, value))


def _is_row(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _plain(value: Any) -> Any:
    """Return a number or text of NumPy as JSON has it."""
    if isinstance(value, np.generic):
        return value.item()
    raise DataError(f"only numbers and texts can be saved; got {shorten(value)}. Pickle the session instead.")
