"""Events that could not be sent: kept on disk, one line of JSON each, until `sync` sends them, each once."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from skpref._text import error_line
from skpref.tracking.client import DEFAULT_ROOT, Client, store_settings
from skpref.tracking.policy import POLICY

__all__ = ["Synced", "sync"]

_COPIES = "files"  # folder of the copied files, next to the files of events


class Spool:
    """A folder with one file of events for each process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file: Path | None = None
        self._process = 0

    def write(self, event: Mapping[str, Any], head: Mapping[str, Any]) -> None:
        """Append an event to the file of this process, which begins with the head; files of the event are copied."""
        file = self._open(head)
        if "path" in event:
            event = {**event, "path": self._copy(Path(event["path"]))}
        with file.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(event) + "\n")

    def _open(self, head: Mapping[str, Any]) -> Path:
        if self.file is not None and self._process == os.getpid() and self.file.exists():  # `sync` may have taken it
            return self.file
        name = f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}-{uuid.uuid4().hex[:6]}.jsonl"
        line = json.dumps({"op": "store", **head}) + "\n"
        try:
            self.file = _create(self.folder / name, line)
        except OSError:
            self.folder = Path(tempfile.gettempdir()) / "skpref-spool"
            self.file = _create(self.folder / name, line)
        self._process = os.getpid()
        return self.file

    def _copy(self, path: Path) -> str:
        """Copy a file or folder, which may change or go, and return the relative path of the copy."""
        relative = Path(_COPIES) / uuid.uuid4().hex / path.name
        (self.folder / relative).parent.mkdir(parents=True)
        (shutil.copytree if path.is_dir() else shutil.copy2)(path, self.folder / relative)
        return relative.as_posix()


def _create(file: Path, line: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(line, "utf-8")
    return file


def _read(file: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the head and the events of a file; the last line may be incomplete."""
    lines = file.read_text("utf-8").splitlines()
    parsed: list[dict[str, Any]] = []
    for number, line in enumerate(lines, 1):
        try:
            parsed.append(json.loads(line))
        except json.JSONDecodeError:
            if number < len(lines):
                raise
    head, *events = parsed or [{}]
    for event in events:
        if "path" in event:
            event["path"] = str(file.parent / event["path"])
    return head, events


def _discard(file: Path, events: list[dict[str, Any]]) -> None:
    """Delete a file of events that were sent, the copies that belong to it, and folders that are empty then."""
    copies = (file.parent / _COPIES).resolve()
    for event in events:
        folder = Path(event.get("path", "")).resolve().parent
        if folder.parent == copies:
            shutil.rmtree(folder, ignore_errors=True)
    file.unlink(missing_ok=True)
    for folder in (copies, file.parent):
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


@dataclass
class Synced:
    """Result of `sync`.

    Parameters
    ----------
    n_events, n_files : int, default=0
        Number of events that were sent, and of files of which all events were sent.
    problems : list of str
        Reasons why the other files were not sent.
    """

    n_events: int = 0
    n_files: int = 0
    problems: list[str] = field(default_factory=list)


def sync(
    folder: str | os.PathLike[str] = DEFAULT_ROOT / "spool",
    tracking_uri: str | None = None,
    *,
    experiment: str | None = None,
) -> Synced:
    """Send to MLflow the runs that could not be sent during the fits, and delete the ones that arrived.

    An interrupted call can be repeated: each event arrives only once.

    Parameters
    ----------
    folder : path-like, default="mlruns/spool"
        Folder that the warning names.
    tracking_uri : str, default=None
        MLflow store. None: the store of the fit. An address with a password is not written to disk; then the
        environment variable MLFLOW_TRACKING_URI takes its place.
    experiment : str, default=None
        Experiment for the runs that are not in the store yet. None: that of the fit.

    Returns
    -------
    Synced
        How much was sent, and what went wrong.

    Examples
    --------
    >>> from skpref.tracking import sync
    >>> sync("no/such/folder")
    Synced(n_events=0, n_files=0, problems=[])
    """
    done = Synced()
    groups: dict[tuple[str, str | None], dict[Path, Any]] = {}
    for path in sorted(Path(folder).glob("*.jsonl")) + sorted(Path(folder).glob("*.sending")):
        file = path.rename(path.with_suffix(".sending"))  # a running fit no longer appends to it
        try:
            head, events = _read(file)
        except (OSError, ValueError) as error:
            done.problems.append(f"{file}: {error_line(error)}")
            continue
        uri = head.get("tracking_uri") or ""
        store = tracking_uri or (None if "***@" in uri else uri or None)
        groups.setdefault((experiment or head.get("experiment", "skpref"), store), {})[file] = head, events
    for (name, store), files in groups.items():
        _send_files(files, Client(name, *store_settings(store)[1:], resumes=True), done)
    return done


def _send_files(files: Mapping[Path, Any], client: Client, done: Synced) -> None:
    """Send the events of several processes in the order in which they happened."""
    queue = []
    for file, (head, events) in files.items():
        client.runs |= head.get("runs", {})
        queue += [(event["time"], number, file, event) for number, event in enumerate(events)]
    failed: dict[Path, Exception] = {}
    in_a_row = 0
    for _, _, file, event in sorted(queue, key=lambda entry: entry[:2]):
        try:
            client.send(event)
        except Exception as error:  # noqa: BLE001 - any error of a store: the file stays
            failed.setdefault(file, error)
            in_a_row += 1
            if in_a_row == POLICY.failures:
                failed |= {other: error for other in files if other not in failed}
                break
        else:
            in_a_row = 0
            done.n_events += 1
    for file, (_, events) in files.items():
        if file in failed:
            done.problems.append(f"{file.rename(file.with_suffix('.jsonl'))}: {error_line(failed[file])}")
        else:
            _discard(file, events)
            done.n_files += 1
