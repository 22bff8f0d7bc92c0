"""What trackers could not send, sent later: each thing once."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skpref.tracking import spool as _spool
from skpref.tracking.client import Store, first_line
from skpref.tracking.mlflow import DEFAULT_ROOT, store_settings

if TYPE_CHECKING:
    import os

__all__ = ["Synced", "resend", "sync"]

_PATIENCE_EVENTS = 3  # failing one after the other, until `sync` gives up a store


@dataclass
class Synced:
    """What `sync` did.

    Parameters
    ----------
    n_events, n_files : int, default=0
        Events that were sent; files of which nothing is left to send.
    problems : list of str
        Why something is still kept.
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
    """Send what trackers could not send, from all their files in a folder, and delete what has arrived.

    Nothing arrives twice: where an earlier call was stopped half-way, the next one goes on.

    Parameters
    ----------
    folder : path-like, default="mlruns/spool"
        As named in the warning.
    tracking_uri : str, default=None
        The store. None: that of the time; one whose address holds a password is not remembered, so that the environment
        variable MLFLOW_TRACKING_URI takes its place.
    experiment : str, default=None
        Where to send runs that had not begun in the store. None: where they belong.

    Returns
    -------
    Synced
        How much was sent, and what went wrong.

    Examples
    --------
    >>> from skpref.tracking.sending import sync
    >>> sync("no/such/folder")
    Synced(n_events=0, n_files=0, problems=[])
    """
    done = Synced()
    groups: dict[tuple[str, str | None], list[Path]] = {}
    for path in sorted(Path(folder).glob("*.jsonl")) + sorted(Path(folder).glob("*.sending")):
        # Under its new name no running fit goes on writing to it.
        file = path.rename(path.with_suffix(".sending"))
        try:
            head, _ = _spool.read(file)
        except (OSError, ValueError) as error:
            done.problems.append(f"{file}: {first_line(error)}")
            continue
        uri = head.get("tracking_uri") or ""
        store = tracking_uri or (None if "***@" in uri else uri or None)
        groups.setdefault((experiment or head.get("experiment", "skpref"), store), []).append(file)
    for (name, uri), files in groups.items():
        _send_files(files, _store_of(name, uri), done)
    return done


def _store_of(experiment: str, uri: str | None) -> Store:
    """The store that a tracker would use, which knows that it may have seen it all."""
    return Store(experiment, *store_settings(uri)[1:], again=True)


def _send_files(files: list[Path], store: Store, done: Synced) -> None:
    """Send the events of some processes in the order in which they happened."""
    queue: list[tuple[int, int, Path, dict[str, Any]]] = []
    left: dict[Path, list[dict[str, Any]]] = {}
    for file in files:
        head, left[file] = _spool.read(file)
        store.runs |= head.get("runs", {})
        queue += [(event["time"], number, file, event) for number, event in enumerate(left[file])]
    failed: dict[Path, Exception] = {}
    in_a_row = 0
    for _, _, file, event in sorted(queue, key=lambda entry: entry[:2]):
        try:
            store.send(event)
        except Exception as error:  # noqa: BLE001 - as in `_emit`: whatever a store can raise
            failed.setdefault(file, error)
            in_a_row += 1
            if in_a_row == _PATIENCE_EVENTS:  # the store is away, so the rest need not be tried
                failed |= {other: error for other in files if other not in failed}
                break
        else:
            in_a_row = 0
            done.n_events += 1
    for file in files:
        if file in failed:
            done.problems.append(f"{file.rename(file.with_suffix('.jsonl'))}: {first_line(failed[file])}")
        else:
            _spool.discard(file, left[file])
            done.n_files += 1


def resend(spool_file: str | os.PathLike[str], tracking_uri: str | None = None) -> int:
    """Send one file of what a `Tracker` could not send; `sync` sends all.

    Parameters
    ----------
    spool_file : path-like
        The file named in the warning. It is left as it is: delete it when all is well.
    tracking_uri : str, default=None
        As for `Tracker`. Runs that had begun before the store failed are continued in it.

    Returns
    -------
    int
        Number of events sent.

    Raises
    ------
    Exception
        Whatever MLflow raises when the store fails again.

    Examples
    --------
    >>> from skpref.tracking.sending import resend
    >>> resend("mlruns/spool/20261121-081530-4711-12ab34.jsonl")  # doctest: +SKIP
    """
    head, events = _spool.read(Path(spool_file))
    store = _store_of(head["experiment"], tracking_uri)
    store.runs |= head["runs"]
    for event in events:
        store.send(event)
    return len(events)
