"""Tracking of fits in MLflow, and the events that a running fit sends out.

Public names are loaded at first use, and MLflow when the first run begins: importing this costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skpref._events import Iteration, OnIteration
    from skpref.tracking.callback import MLflowCallback, TrackedRun, autolog, log_model, track
    from skpref.tracking.mlflow import Tracker
    from skpref.tracking.model import save_model, served_model
    from skpref.tracking.spool import sync

__all__ = [
    "Iteration",
    "MLflowCallback",
    "OnIteration",
    "TrackedRun",
    "Tracker",
    "autolog",
    "log_model",
    "save_model",
    "served_model",
    "sync",
    "track",
]

_NAMES = {
    "skpref._events": ("Iteration", "OnIteration"),
    "skpref.tracking.callback": ("MLflowCallback", "TrackedRun", "autolog", "log_model", "track"),
    "skpref.tracking.mlflow": ("Tracker",),
    "skpref.tracking.model": ("save_model", "served_model"),
    "skpref.tracking.spool": ("sync",),
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'skpref.tracking' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
