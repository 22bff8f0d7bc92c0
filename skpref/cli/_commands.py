"""What each command does."""

from __future__ import annotations

import importlib.util
import sys
from typing import TYPE_CHECKING

from skpref.cli._inputs import demo_problem, read_ids, read_items, read_problem
from skpref.cli._job import Job, Options
from skpref.cli._progress import Bar
from skpref.cli._report import ranking_text, report, write_files, write_ranking
from skpref.exceptions import DataError, MissingExtraError
from skpref.gp.pairwise import GPPLClassifier
from skpref.persistence import load
from skpref.tracking.mlflow import Tracker

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from skpref.cli._inputs import Problem

_EXTRAS = {"optuna": "optuna", "matplotlib": "plots", "mlflow": "mlflow"}


def tune(arguments: argparse.Namespace) -> int:
    """Learn from files.

    Parameters
    ----------
    arguments : Namespace
        Of the command line.

    Returns
    -------
    int
        0.
    """
    _check_extras(arguments)
    problem = read_problem(arguments.comparisons, arguments.items, arguments.group, arguments.id, arguments.seed)
    return _run_job(problem, arguments)


def demo(arguments: argparse.Namespace) -> int:
    """Learn from the choices of travellers.

    Parameters
    ----------
    arguments : Namespace
        Of the command line.

    Returns
    -------
    int
        0.
    """
    _check_extras(arguments)
    return _run_job(demo_problem(), arguments)


def _check_extras(arguments: argparse.Namespace) -> None:
    """Complain before the work, not after it."""
    wanted = [name for name in _EXTRAS if not (name == "mlflow" and arguments.no_mlflow)]
    missing = [name for name in wanted if importlib.util.find_spec(name) is None]
    if missing:
        extras = ",".join(_EXTRAS[name] for name in missing)
        raise MissingExtraError(
            f"this command needs {' and '.join(missing)}: pip install 'skpref[{extras}]', or 'skpref[all]'"
        )


def _run_job(problem: Problem, arguments: argparse.Namespace) -> int:
    arguments.out.mkdir(parents=True, exist_ok=True)
    names = ("trials", "timeout", "out", "seed", "folds", "max_inducing", "holdout")
    options = Options(**{name: getattr(arguments, name) for name in names})
    tracker = None if arguments.no_mlflow else Tracker(arguments.experiment, spool=arguments.out / "spool")
    print(_headline(problem))
    sys.stdout.flush()
    job = Job(problem, options, tracker, Bar(sys.stderr, options.trials, options.timeout))
    outcome = job.run()
    print("\n" + report(outcome))
    files = write_files(outcome, options.out)
    job.finish(files)
    print(_last_lines(files, options.out, tracker))
    return 0


def _headline(problem: Problem) -> str:
    facts = problem.describe()
    features = f"{facts['data.n_features']} features" if problem.items is not None else "no features"
    groups = f", {facts['data.n_groups']} groups" if facts["data.n_groups"] else ""
    return (
        f"Data: {facts['data.source']}: {facts['data.n_comparisons']} comparisons of {facts['data.n_items']} items, "
        f"{features}{groups}; sha256 {facts['data.sha256'][:12]}"
    )


def _last_lines(files: list[Path], out: Path, tracker: Tracker | None) -> str:
    lines = [f"\nWritten to {out}/: {', '.join(path.name for path in files)}"]
    lines.append(f"Rank new items:   skpref rank {out / 'model.skpref'} ITEMS.csv")
    if tracker is not None and tracker.online:
        lines.append(f"Look at the runs: {tracker.how_to_look()}")
    elif tracker is not None:
        lines.append(f"The runs could not be sent and are kept in {tracker.spool_file}")
    return "\n".join(lines)


def rank(arguments: argparse.Namespace) -> int:
    """Rank new items.

    Parameters
    ----------
    arguments : Namespace
        Of the command line.

    Returns
    -------
    int
        0.
    """
    model = load(arguments.model)
    if not isinstance(model, GPPLClassifier) or not hasattr(model, "posterior_"):
        raise DataError(f"{arguments.model}: holds no fitted GPPLClassifier, which is what `skpref tune` writes")
    if model.items is None:
        ranking = model.rank(read_ids(arguments.items, arguments.id))
    else:
        ranking = model.rank(read_items(arguments.items, arguments.id, _feature_names(model, arguments.model)))
    print(ranking_text(ranking, arguments.top))
    if arguments.out is not None:
        write_ranking(ranking, arguments.out)
        print(f"\nWritten to {arguments.out}")
    return 0


def _feature_names(model: GPPLClassifier, path: Path) -> tuple[str, ...]:
    names = model.items.feature_names
    if names is None:
        raise DataError(f"{path}: does not know the names of its features; rank with GPPLClassifier.rank in Python")
    return tuple(names)
