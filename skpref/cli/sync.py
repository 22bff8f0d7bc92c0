"""``skpref mlflow-sync``: send what could not be sent to MLflow at the time."""

from __future__ import annotations

from skpref.cli.files import counted, say_note
from skpref.cli.options import SPOOL, Sync
from skpref.cli.report import print_json
from skpref.exceptions import DataError


def sync(options: Sync) -> int:
    """Send what is kept."""
    from skpref.tracking.spool import sync as send

    if not options.spool.is_dir() and (options.spool.exists() or options.spool != SPOOL):
        raise DataError(f"{options.spool}: there is no such folder; name the one in the warning (default: {SPOOL})")
    sent = send(options.spool, options.tracking_uri, experiment=options.experiment)
    for problem in sent.problems:
        say_note(problem)
    if options.json:
        print_json({"events": sent.n_events, "files": sent.n_files, "problems": list(sent.problems)})
    elif sent.n_files or not sent.problems:
        events, files = counted(sent.n_events, "events"), counted(sent.n_files, "files")
        print(f"{events} of {files} sent" if sent.n_files else "nothing to send")
    return 1 if sent.problems else 0
