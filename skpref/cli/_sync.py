"""``skpref mlflow-sync``: send what MLflow could not be told at the time."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skpref.exceptions import DataError

if TYPE_CHECKING:
    import argparse

_SPOOL = Path("mlruns/spool")


def add_sync(commands: Any) -> None:
    """Add the command to a parser."""
    parser = commands.add_parser(
        "mlflow-sync",
        help="send to MLflow what could not be sent when it happened",
        description="When the MLflow store fails, fits go on and what they have to tell is kept in a folder. This "
        "sends it, once: what has arrived is not sent again, and what was sent is deleted from the folder.",
    )
    text = "folder named in the warning (default: mlruns/spool)"
    parser.add_argument("spool", nargs="?", type=Path, default=_SPOOL, metavar="FOLDER", help=text)
    text = "the store (default: that of the time; one with a password is not remembered)"
    parser.add_argument("--tracking-uri", metavar="URI", help=text)
    parser.add_argument("--experiment", metavar="NAME", help="send to this experiment instead, made on demand")
    parser.add_argument("--json", action="store_true", help="print JSON for programs")
    parser.set_defaults(command="mlflow_sync")


def mlflow_sync(arguments: argparse.Namespace) -> int:
    """Send what is kept."""
    from skpref.cli._report import print_json
    from skpref.tracking.spool import sync

    if not arguments.spool.is_dir() and (arguments.spool.exists() or arguments.spool != _SPOOL):
        raise DataError(f"{arguments.spool}: there is no such folder; name the one in the warning (default: {_SPOOL})")
    sent = sync(arguments.spool, arguments.tracking_uri, experiment=arguments.experiment)
    for problem in sent.problems:
        print(f"skpref: note: {problem}", file=sys.stderr)
    if arguments.json:
        print_json({"events": sent.n_events, "files": sent.n_files, "problems": list(sent.problems)})
    elif sent.n_files or not sent.problems:
        print(f"{sent.n_events} events of {sent.n_files} files sent" if sent.n_files else "nothing to send")
    return 1 if sent.problems else 0
