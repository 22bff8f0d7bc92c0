"""Events on disk, a line of JSON each, until they can be sent; files that belong to them are copied beside."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_PAYLOAD = "files"  # folder of copies, beside the lines


class Spool:
    """Where events are kept."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file: Path | None = None

    def write(self, event: Mapping[str, Any], head: Mapping[str, Any]) -> None:
        """Keep an event."""
        file = self._opened(head)
        event = {"time": int(time.time() * 1000), **event}
        if "path" in event:
            event["path"] = self._copied(Path(event["path"]))
        with file.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(event) + "\n")

    def _opened(self, head: Mapping[str, Any]) -> Path:
        # `sync` may have taken the file away in the meantime.
        if self.file is not None and self.file.exists():
            return self.file
        name = f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}-{uuid.uuid4().hex[:6]}.jsonl"
        line = json.dumps({"op": "store", **head}) + "\n"
        try:
            self.file = _begun(self.folder / name, line)
        except OSError:
            self.folder = Path(tempfile.gettempdir()) / "skpref-spool"
            self.file = _begun(self.folder / name, line)
        return self.file

    def _copied(self, path: Path) -> str:
        """Copy what is to be sent, since the original may change or go."""
        relative = Path(_PAYLOAD) / uuid.uuid4().hex / path.name
        target = self.folder / relative
        target.parent.mkdir(parents=True)
        if path.is_dir():
            shutil.copytree(path, target)
        else:
            shutil.copy2(path, target)
        return relative.as_posix()


def _begun(file: Path, line: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(line, "utf-8")
    return file


def read(file: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Read a file of events."""
    lines = file.read_text("utf-8").splitlines()
    parsed: list[dict[str, Any]] = []
    for number, line in enumerate(lines, 1):
        try:
            parsed.append(json.loads(line))
        except json.JSONDecodeError:
            if number < len(lines):
                raise
    head, *events = parsed or [{}]
    events.sort(key=lambda event: event.get("number", 0))  # those that failed on their way come after later ones
    for event in events:
        if "path" in event:
            event["path"] = str(file.parent / event["path"])
    return head, events


def discard(file: Path, events: list[dict[str, Any]]) -> None:
    """Delete a file of events that were sent, and the copies that belong to it."""
    copies = (file.parent / _PAYLOAD).resolve()
    for event in events:
        folder = Path(event.get("path", "")).resolve().parent
        if folder.parent == copies:
            shutil.rmtree(folder, ignore_errors=True)
    file.unlink(missing_ok=True)
    for folder in (copies, file.parent):
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
