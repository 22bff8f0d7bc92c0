"""A process beside this one that imports MLflow and talks to its stores, so that a fit need not wait for either.

To import MLflow and to make the tables of a new store takes seconds of Python. A thread would take them from the fit,
and while it worked MLflow's settings, loggers and warnings would be those of the whole process.

Requests and answers are lines of JSON, one at a time. The process ends when this one does, however that ends; runs
that nobody has ended until then were killed.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

from skpref.tracking._store import Store, first_line, patiently, quietly

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.stdin.readline()); "
    "from skpref.tracking._beside import serve; serve()"
)
_END_SECONDS = 5.0  # for the process to end; it has nothing left to do by then


class BesideStore:
    """An experiment in an MLflow store, used by the process beside this one.

    Parameters
    ----------
    experiment, uri, root : object
        As for `Store`.

    Attributes
    ----------
    experiment_id, runs : str, dict of str to str
        As of `Store`, as far as answers have told.
    """

    def __init__(self, experiment: str, uri: str, root: Path | None) -> None:
        self.experiment = experiment
        self.uri = uri
        self.experiment_id = ""
        self.runs: dict[str, str] = {}
        self._root = root
        self._id = uuid.uuid4().hex

    def send(self, event: Mapping[str, Any]) -> None:
        """Send one event; return when it has arrived.

        Parameters
        ----------
        event : mapping
            As in a spool file.

        Raises
        ------
        RuntimeError
            If the store failed, or the process ended.
        """
        known = {key: self.runs[key] for key in _keys(event) if key in self.runs}
        request = {"store": self._id, "experiment_id": self.experiment_id, "runs": known, "event": event}
        answer = _Helper.current().ask(self._id, self._opening, request)
        if "error" in answer:
            raise RuntimeError(answer["error"])
        self.experiment_id = answer["experiment_id"]
        self.runs |= answer["runs"]

    def prepare(self) -> None:
        """Let the process import MLflow now; what goes wrong is told when something is to be sent."""
        with suppress(OSError):
            _Helper.current()

    def _opening(self) -> dict[str, Any]:
        settings = [self.experiment, self.uri, None if self._root is None else str(self._root)]
        return {"open": settings, "environment": dict(os.environ), "folder": os.getcwd()}  # noqa: PTH109 - text


def usable(uri: str) -> bool:
    """Tell whether a process beside this one can use a store.

    Parameters
    ----------
    uri : str
        Address of the store.

    Returns
    -------
    bool
        False where Python cannot be started, or the right to use the store is only this process's (a notebook of
        Databricks).
    """
    return bool(sys.executable) and not getattr(sys, "frozen", False) and not uri.startswith("databricks")


class _Helper:
    """The process, from this side; there is one for all stores."""

    _one: _Helper | None = None
    _lock = threading.Lock()

    def __init__(self) -> None:
        self.dead = False
        self._stores: set[str] = set()
        self._asking = threading.Lock()
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the process runs
        apart: dict[str, Any] = {"start_new_session": True}  # Ctrl-C is for the fit, which then tells what became of it
        if sys.platform == "win32":
            apart = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
        self._process = subprocess.Popen(  # noqa: S603 - this very interpreter
            [sys.executable, "-c", _BOOT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            **apart,
        )
        self._write([path for path in sys.path if isinstance(path, str)])

    @classmethod
    def current(cls) -> _Helper:
        """Start it, where there is none."""
        with cls._lock:
            if cls._one is not None and cls._one.dead:
                cls.end()
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

    def ask(self, store: str, opening: Any, request: Mapping[str, Any]) -> Any:
        """Return the answer to a request, which opens its store first where that has not been done."""
        with self._asking:
            try:
                if store not in self._stores:
                    request = {**opening(), **request}
                self._write(request)
                answer = self._process.stdout.readline()  # type: ignore[union-attr]  # a pipe
            except OSError:
                answer = b""
            if not answer.endswith(b"\n"):
                self.dead = True
                return {"error": f"the process that sends ended: {self._last_words()}"}
            self._stores.add(store)
            return json.loads(answer)

    def _write(self, value: Any) -> None:
        self._process.stdin.write(json.dumps(value).encode() + b"\n")  # type: ignore[union-attr]  # a pipe
        self._process.stdin.flush()  # type: ignore[union-attr]

    def _last_words(self) -> str:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_SECONDS)
        self._complaints.seek(0)
        lines = self._complaints.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"exit code {self._process.returncode}"

    def close(self) -> None:
        with suppress(OSError):
            self._process.stdin.close()  # type: ignore[union-attr]  # a pipe
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_SECONDS)
        self.release()

    def release(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout, self._complaints):
            with suppress(OSError):
                pipe.close()  # type: ignore[union-attr]
        self._process.returncode = self._process.returncode or 0  # whose it is, waits for it


atexit.register(_Helper.end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_Helper.forget)


# ---------------------------------------------------------------------------------------------------- the other process
def serve() -> None:
    """Send what is asked for until nobody is there any more."""
    answers = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)  # whatever else is printed
    _prepare()
    stores: dict[str, Store] = {}
    running: dict[str, Store] = {}
    for line in sys.stdin:
        request = json.loads(line)
        if "open" in request:
            stores[request["store"]] = _opened(request)
        try:
            answer = _answered(stores[request["store"]], request, running)
        except Exception as error:  # noqa: BLE001 - whatever a store can raise is for the other process to hear
            answer = {"error": first_line(error)}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
    for run, store in running.items():
        with suppress(Exception):
            store.send({"op": "end", "run": run, "status": "KILLED", "time": int(time.time() * 1000)})
    os._exit(0)  # all is written; to take MLflow apart would take a while


def _opened(request: Mapping[str, Any]) -> Store:
    from pathlib import Path

    os.environ.clear()
    os.environ.update(request["environment"])
    with suppress(OSError):
        os.chdir(request["folder"])
    experiment, uri, root = request["open"]
    return Store(experiment, uri, None if root is None else Path(root))


def _answered(store: Store, request: Mapping[str, Any], running: dict[str, Store]) -> dict[str, Any]:
    event = request["event"]
    store.experiment_id = request["experiment_id"] or store.experiment_id
    store.runs |= request["runs"]
    store.send(event)
    if event["op"] == "start":
        running[event["run"]] = store
    elif event["op"] == "end":
        running.pop(event["run"], None)
    found = {key: store.runs[key] for key in _keys(event) if key in store.runs}
    return {"experiment_id": store.experiment_id, "runs": found}


def _prepare() -> None:
    """Import what will be needed, while nobody waits; without it, `Store` will say so."""
    with suppress(Exception), patiently(), quietly():
        import_module("mlflow.pyfunc")
        import_module("mlflow.store.tracking.sqlalchemy_store")
        import_module("skpref.tracking._model").rehearse()


def _keys(event: Mapping[str, Any]) -> list[str]:
    """Of the runs that an event names."""
    return [event[name] for name in ("run", "parent") if event.get(name)]
