"""Events to be sent: to the store or, after a failure, to the spool; curves wait in a buffer."""

from __future__ import annotations

import math
import re
import tempfile
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skpref._text import error_line
from skpref._warn import warn
from skpref.exceptions import TrackingWarning
from skpref.tracking.client import LOCK, Client, hold_interrupts, remove_password
from skpref.tracking.policy import POLICY
from skpref.tracking.spool import Spool

if TYPE_CHECKING:
    Point = tuple[str, float, int, int]  # name, value, time in milliseconds since 1970, step

_CALL_POINTS = 1000  # metrics in one call: MLflow's limit
_CALL_VALUES = 100  # parameters or tags in one call: MLflow's limit
_NOT_IN_NAMES = re.compile(r"[^\w\-./: ]")  # characters that MLflow refuses
_OUTBOXES: dict[str, Outbox] = {}  # copies of an outbox in one process are one outbox


@dataclass
class Buffer:
    """Points of a run that wait, since when, and whether earlier points of the run were sent."""

    points: list[Point] = field(default_factory=list)
    since: float = field(default_factory=time.monotonic)
    is_live: bool = False

    @property
    def is_full(self) -> bool:
        """Whether there are many points, or old ones."""
        return len(self.points) >= POLICY.buffer_points or time.monotonic() - self.since > POLICY.buffer_seconds


class Outbox:
    """Sends events to a store; after a failure of the store, warns once and keeps the events in a spool file."""

    def __init__(self, client: Client, folder: Path) -> None:
        self.online = True
        self._buffers: defaultdict[str, Buffer] = defaultdict(Buffer)  # by run
        self.spool = Spool(folder)
        self.client = client
        self._identity = uuid.uuid4().hex
        self._failed_at = 0.0
        self._warned: set[str] = set()

    def __reduce__(self) -> tuple[Any, ...]:
        _OUTBOXES[self._identity] = self
        client = self.client
        made = client.experiment, client.uri, client.root
        state = {"_identity": self._identity, "online": self.online, "_warned": set(self._warned)}
        state["_failed_at"] = self._failed_at
        return _restore, (made, self.spool.folder, state, client.experiment_id, dict(client.runs))

    def send(self, op: str, run: str | None = None, **values: Any) -> None:
        """Send an event now or, if the store has failed, keep it."""
        event = {"op": op, "time": unix_milliseconds(), "run": run, **values}
        with LOCK, hold_interrupts():
            if self.online:
                try:
                    note = self.client.send(event)
                except Exception as error:  # noqa: BLE001 - no error of a store may stop the fit
                    self._keep(event)
                    self._report(error)
                except BaseException:  # the second Ctrl-C: the event may have arrived or not
                    self._keep(event)
                    raise
                else:
                    if note is not None:
                        self.warn("note", note)
            else:
                self._keep(event)

    def send_values(self, op: str, run: str, values: Mapping[str, Any]) -> None:
        """Send parameters or tags as texts, in as many calls as MLflow needs."""
        items = list(texts(values).items())
        for first in range(0, len(items), _CALL_VALUES):
            self.send(op, run, values=dict(items[first : first + _CALL_VALUES]))

    def add_points(self, run: str, points: Iterable[tuple[str, float, int]]) -> None:
        """Put points (name, value, step) into the buffer; values that are not finite are skipped."""
        when, finite = unix_milliseconds(), []
        for name, value, step in points:
            if math.isfinite(value):
                finite.append((clean_name(name), float(value), when, int(step)))
            else:
                message = f"metric {name!r} is {value} at step {step}; values that are not finite are skipped"
                self.warn("values", message)
        self._buffers[run].points += finite
        if self._buffers[run].is_full:
            self.flush(run)

    def drop_points(self, run: str, name: str) -> None:
        """Forget the points of a metric unless points of the run were sent before, which would leave half a curve."""
        if not self._buffers[run].is_live:
            self._buffers[run].points = [point for point in self._buffers[run].points if point[0] != name]

    def flush(self, run: str) -> None:
        """Send the points of a run that wait."""
        points = self._buffers[run].points
        self._buffers[run] = Buffer(is_live=True)
        for first in range(0, len(points), _CALL_POINTS):
            self.send("metrics", run, points=points[first : first + _CALL_POINTS])

    def end(self, run: str, status: str) -> None:
        """Send the rest of a run and its end."""
        self.flush(run)
        del self._buffers[run]
        self.send("end", run, status=status)

    @contextmanager
    def folder(self) -> Iterator[Path]:
        """Give a temporary folder for files to send; a file that cannot be written there costs one warning."""
        try:
            with tempfile.TemporaryDirectory(prefix="skpref-") as folder:
                yield Path(folder)
        except OSError as error:
            self.warn("files", f"A file is not tracked: {error}. The fit continues.")

    def send_file(self, run: str, name: str, write: Callable[[Path], Any]) -> None:
        """Send a file of a run that a function writes to a path; one that cannot be written costs one warning."""
        folder = Path(name).parent.as_posix()
        with self.folder() as temporary:
            path = temporary / Path(name).name
            try:
                write(path)
            except OSError:  # `folder` warns
                raise
            except Exception as error:  # noqa: BLE001 - such as of fonts
                self.warn(name, f"{name} is not tracked: {error_line(error)}. The fit continues.")
            else:
                self.send("artifact", run, path=str(path), folder=None if folder == "." else folder)

    def reconnect(self, parent: str | None) -> None:
        """Use a failed store again after five minutes, if it has the parent of the next run."""
        is_time = time.monotonic() - self._failed_at > POLICY.retry_seconds
        self.online = self.online or (is_time and (parent is None or parent in self.client.runs))

    def warn(self, kind: str, message: str) -> None:
        """Warn, once of each kind."""
        if kind not in self._warned:
            self._warned.add(kind)
            warn(message, TrackingWarning)

    def _keep(self, event: Mapping[str, Any]) -> None:
        client = self.client
        head = {"experiment": client.experiment, "tracking_uri": remove_password(client.uri), "runs": client.runs}
        try:
            self.spool.write(event, head)
        except (OSError, TypeError, ValueError) as error:
            message = (
                f"Events for MLflow are lost: they cannot be kept in {self.spool.folder}: {error}. The fit continues."
            )
            self.warn("loss", message)

    def _report(self, error: Exception) -> None:
        self.online, self._failed_at = False, time.monotonic()
        message = f"MLflow at {remove_password(self.client.uri)} cannot be used: {error_line(error)}. "
        if self.spool.file is not None:
            message += (
                f"The fit continues; its runs are kept in {self.spool.file}, and "
                f"`skpref mlflow-sync {self.spool.file.parent}` sends them later."
            )
        self.warn("store", message)


def _restore(
    made: tuple[Any, ...], folder: Path, state: Mapping[str, Any], experiment_id: str, runs: Mapping[str, str]
) -> Outbox:
    """Return the outbox of this process that a pickled one stands for."""
    with LOCK:
        outbox = _OUTBOXES.get(state["_identity"])
        if outbox is None:
            outbox = _OUTBOXES[state["_identity"]] = Outbox(Client(*made), folder)
            vars(outbox).update(state)
        outbox.client.learn(experiment_id, runs)
        return outbox


def unix_milliseconds() -> int:
    """Return the time in milliseconds since 1970."""
    return int(time.time() * 1000)


def texts(values: Mapping[str, Any]) -> dict[str, str]:
    """Return parameters or tags as MLflow accepts them."""
    # MLflow's limit; a parameter may have 6000.
    return {clean_name(name): str(value)[:5000] for name, value in values.items()}


def clean_name(name: object) -> str:
    """Return a name that MLflow accepts, which may become a file name."""
    clean = _NOT_IN_NAMES.sub("_", str(name))[:250]  # MLflow's limit
    return "/".join(part for part in clean.split("/") if part.strip(".")) or "_"
