"""A process beside this one that imports MLflow and talks to its stores, so that a fit need not wait for either.

To import MLflow and to make the tables of a new store takes seconds of Python. A thread would take them from the fit,
and while it worked MLflow's settings, loggers and warnings would be those of the whole process.

Requests and answers are lines of JSON. A request is handed over at once, whatever the process is busy with, and
answered in its turn. When this process ends, however that be, the other one sends what it was told, ends the runs that
nobody has ended as killed, and ends, too.
"""

from __future__ import annotations

import atexit
import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections import deque
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

from skpref.tracking.client import Store, first_line, patiently, quietly

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    Receive = Callable[[str | None, str | None], None]

# What it is told is read from the first moment on, whatever it is busy with: when this process is killed, all is there.
_BOOT = """
import json, os, queue, sys, threading
inbox = queue.SimpleQueue()
def read(lines):
    for line in lines:
        inbox.put(line)
    inbox.put(b"")
threading.Thread(target=read, args=(os.fdopen(os.dup(0), "rb"),), daemon=True).start()
sys.path[:] = json.loads(inbox.get())
from skpref.tracking.worker_process import serve
serve(iter(inbox.get, b""))
"""
_END_SECONDS = 5.0  # for the process to end; it has nothing left to do by then
_PATIENCE_SECONDS = 120.0  # for one answer: MLflow itself gives up a server that never answers after some 20 s
_PATIENCE_FILES_SECONDS = 600.0  # for one with files, which may be large


class BesideStore:
    """An experiment in an MLflow store, used by the process beside this one."""

    def __init__(self, experiment: str, uri: str, root: Path | None) -> None:
        self.experiment = experiment
        self.uri = uri
        self.experiment_id = ""
        self.runs: dict[str, str] = {}
        self._root = root
        self._id = uuid.uuid4().hex

    def post(self, event: Mapping[str, Any], attempt: int, receive: Receive, transit: Path | None = None) -> bool:
        """Hand an event over; return at once."""
        known = {key: self.runs[key] for key in _keys(event) if key in self.runs}
        request: dict[str, Any] = {
            "store": self._id,
            "experiment_id": self.experiment_id,
            "runs": known,
            "event": event,
        }
        request |= {"attempt": attempt, "transit": None if transit is None else str(transit)}

        def answered(answer: Mapping[str, Any]) -> None:
            self.experiment_id = answer.get("experiment_id") or self.experiment_id
            self.runs |= answer.get("runs", {})
            receive(answer.get("error"), answer.get("note"))

        try:
            _Helper.current().post(self._id, self._opening, request, answered)
        except (OSError, TypeError, ValueError) as error:  # no process, or nothing that JSON knows
            receive(first_line(error), None)
            return False
        return True

    def hurry(self) -> None:
        """Give up a process that has not answered for too long."""
        _Helper.hurry()

    def prepare(self) -> None:
        """Let the process import MLflow now; what goes wrong is told when something is to be sent."""
        with suppress(OSError):
            _Helper.current()

    def _opening(self) -> dict[str, Any]:
        settings = [self.experiment, self.uri, None if self._root is None else str(self._root)]
        return {"open": settings, "environment": dict(os.environ), "folder": os.getcwd()}  # noqa: PTH109 - text


def usable(uri: str) -> bool:
    """Tell whether a process beside this one can use a store."""
    return bool(sys.executable) and not getattr(sys, "frozen", False) and not uri.startswith("databricks")


class _Helper:
    """The process, from this side; there is one for all stores.

    Two threads talk to it, so that neither a full pipe nor an interruption by the user gets between a request and its
    answer.
    """

    _one: _Helper | None = None
    _lock = threading.Lock()

    def __init__(self) -> None:
        self.dead = False
        self._heard = time.monotonic()
        self._silent = False
        self._words = ""  # why it ended
        self._stores: set[str] = set()
        self._pending: deque[tuple[float, Callable[[Any], None]]] = deque()
        self._outbox: queue.SimpleQueue[tuple[bytes, float, Callable[[Any], None]] | None] = queue.SimpleQueue()
        self._guard = threading.Lock()
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the process runs
        apart: dict[str, Any] = {"start_new_session": True}  # Ctrl-C is for the fit, which then tells what became of it
        if sys.platform == "win32":
            apart = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
        self._process = subprocess.Popen(  # noqa: S603 - this very interpreter
            [sys.executable, "-c", _BOOT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            bufsize=0,  # a buffer's lock, held by a thread, would be locked for ever in a forked process
            **apart,
        )
        self._writer = threading.Thread(target=self._write_all, name="skpref-tracking", daemon=True)
        self._reader = threading.Thread(target=self._read_all, name="skpref-tracking-answers", daemon=True)
        self._writer.start()
        self._reader.start()

    @classmethod
    def current(cls) -> _Helper:
        """Start it, where there is none."""
        with cls._lock:
            if cls._one is not None and cls._one.dead:
                cls._one.let_go()
                cls._one = None
            cls._one = cls._one or cls()
            return cls._one

    @classmethod
    def end(cls) -> None:
        """Let it go."""
        helper, cls._one = cls._one, None
        if helper is not None:
            helper.close()

    @classmethod
    def forget(cls) -> None:
        """In a forked process: it belongs to the other one."""
        cls._lock = threading.Lock()
        helper, cls._one = cls._one, None
        if helper is not None:
            helper.release()

    @classmethod
    def hurry(cls) -> None:
        helper = cls._one
        if helper is not None:
            helper.end_if_silent()

    def post(self, store: str, opening: Callable[[], Any], request: Any, receive: Callable[[Any], None]) -> None:
        """Hand over a request, which opens its store first where that has not been done."""
        known = store in self._stores
        request = request if known else {**opening(), **request}
        patience = _PATIENCE_SECONDS if request["transit"] is None else _PATIENCE_FILES_SECONDS
        self._outbox.put((_line(request), patience, receive))
        self._stores.add(store)

    def _write_all(self) -> None:
        with suppress(OSError):
            self._write(_line([path for path in sys.path if isinstance(path, str)]))
        for line, patience, receive in iter(self._outbox.get, None):
            with self._guard:
                if not self._pending:
                    self._heard = time.monotonic()
                self._pending.append((patience, receive))
                dead = self.dead
            with suppress(OSError):  # the reader notices that the process has ended
                self._write(line)
            if dead:
                self._refuse_all()
        with suppress(OSError):
            self._process.stdin.close()  # type: ignore[union-attr]  # a pipe, whose end is the process's

    def _write(self, line: bytes) -> None:
        rest = memoryview(line)
        while rest:
            rest = rest[self._process.stdin.write(rest) :]  # type: ignore[union-attr]  # a pipe

    def _read_all(self) -> None:
        with suppress(OSError, ValueError):
            begun = b""
            while part := self._process.stdout.read(1 << 16):  # type: ignore[union-attr]  # a pipe
                *lines, begun = (begun + part).split(b"\n")
                for line in lines:
                    with self._guard:
                        self._heard = time.monotonic()
                        _, receive = self._pending.popleft()
                    receive(json.loads(line))
        self._words = self._last_words()
        with self._guard:
            self.dead = True
        self._refuse_all()
        self.release()

    def _refuse_all(self) -> None:
        while True:
            with self._guard:
                if not self._pending:
                    return
                _, receive = self._pending.popleft()
            receive({"error": self._words})

    def _last_words(self) -> str:
        if self._silent:
            return "the process that sends has not answered for too long"
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_SECONDS)
        self._complaints.seek(0)
        lines = self._complaints.read().decode(errors="replace").strip().splitlines()
        return f"the process that sends ended: {lines[-1] if lines else f'exit code {self._process.returncode}'}"

    def end_if_silent(self) -> None:
        with self._guard:
            waits = bool(self._pending) and time.monotonic() - self._heard > self._pending[0][0]
        if waits:
            self._silent = True
            self._process.kill()

    def let_go(self) -> None:
        self._outbox.put(None)

    def close(self) -> None:
        if not self._stores:  # nobody fitted: what it prepares is not needed
            self._process.kill()
        self.let_go()
        for thread in (self._writer, self._reader):
            thread.join(_END_SECONDS)

    def release(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout, self._complaints):
            with suppress(OSError):
                pipe.close()  # type: ignore[union-attr]
        self._process.returncode = self._process.returncode or 0  # whose it is, waits for it


def _line(value: Any) -> bytes:
    return json.dumps(value).encode() + b"\n"


atexit.register(_Helper.end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_Helper.forget)


# ---------------------------------------------------------------------------------------------------- the other process
def serve(inbox: Iterable[bytes]) -> None:
    """Send what is asked for until nobody is there any more."""
    answers = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)  # whatever else is printed
    _prepare()
    desk = _Desk()
    for line in inbox:
        answer = desk.answer(json.loads(line))
        with suppress(OSError):  # whoever told it may have been killed; it is sent all the same
            answers.write(json.dumps(answer) + "\n")
            answers.flush()
    desk.close()
    os._exit(0)  # all is written; to take MLflow apart would take a while


class _Desk:
    """What the other process has open: stores, and runs that have not ended."""

    def __init__(self) -> None:
        self._stores: dict[str, Store] = {}
        self._failures: dict[str, tuple[int, str]] = {}  # the attempt, and why
        self._running: dict[str, str] = {}  # the store of each run
        self._held: dict[str, list[Any]] = {}

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        if "open" in request:
            self._stores[request["store"]] = _opened(request)
        attempt, error = self._failures.get(request["store"], (-1, ""))
        if attempt == request["attempt"]:  # what came before it is not there: whoever asks keeps all in its order
            return {"error": error}
        try:
            answer = self._sent(self._stores[request["store"]], request)
        except Exception as error:  # noqa: BLE001 - whatever a store can raise is for the other process to hear
            self._failures[request["store"]] = (request["attempt"], first_line(error))
            return {"error": first_line(error)}
        if request["transit"] is not None:
            shutil.rmtree(request["transit"], ignore_errors=True)
        return answer

    def _sent(self, store: Store, request: Mapping[str, Any]) -> dict[str, Any]:
        event = request["event"]
        store.experiment_id = request["experiment_id"] or store.experiment_id
        store.runs |= request["runs"]
        if event["op"] == "hold":
            self._held.setdefault(event["run"], []).extend(event["points"])
            return {}
        note = store.send(event)
        if event["op"] == "start":
            self._running[event["run"]] = request["store"]
        elif event["op"] == "end":
            self._running.pop(event["run"], None)
        if event["op"] in ("metrics", "end"):
            self._held.pop(event["run"], None)
        found = {key: store.runs[key] for key in _keys(event) if key in store.runs}
        return {"experiment_id": store.experiment_id, "runs": found, "note": note}

    def close(self) -> None:
        """End what nobody has ended: it was killed."""
        for run, name in reversed(self._running.items()):
            if name in self._failures:
                continue
            with suppress(Exception):
                if run in self._held:
                    self._stores[name].send({"op": "metrics", "run": run, "points": self._held[run]})
                end = {"op": "end", "run": run, "status": "KILLED", "time": int(time.time() * 1000)}
                self._stores[name].send(end)


def _opened(request: Mapping[str, Any]) -> Store:
    from pathlib import Path

    os.environ.clear()
    os.environ.update(request["environment"])
    with suppress(OSError):
        os.chdir(request["folder"])
    experiment, uri, root = request["open"]
    return Store(experiment, uri, None if root is None else Path(root))


def _prepare() -> None:
    """Import what will be needed, while nobody waits; without it, `Store` will say so."""
    with suppress(Exception), patiently(), quietly():
        import_module("mlflow.pyfunc")
        import_module("mlflow.store.tracking.sqlalchemy_store")
        import_module("skpref.tracking.model").rehearse()


def _keys(event: Mapping[str, Any]) -> list[str]:
    """Of the runs that an event names."""
    return [event[name] for name in ("run", "parent") if event.get(name)]
