"""The command ``skpref``: tune, demo, rank."""

from __future__ import annotations

import argparse
import importlib.util
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import skpref
from skpref._cli.inputs import demo_problem, read_ids, read_items, read_problem
from skpref._cli.job import Job, Options
from skpref._cli.progress import Bar
from skpref._cli.report import ranking_text, report, write_files, write_ranking
from skpref.exceptions import DataError, MissingExtraError, SkprefError
from skpref.gp.pairwise import GPPLClassifier
from skpref.persistence import load
from skpref.tracking.mlflow import Tracker

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from skpref._cli.inputs import Problem

__all__ = ["main"]

_EXTRAS = {"optuna": "optuna", "matplotlib": "plots", "mlflow": "mlflow"}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    Parameters
    ----------
    argv : sequence of str, default=None
        Arguments; None: those of the process.

    Returns
    -------
    int
        0 = done; 2 = the input cannot be used, or a package is missing; 130 = stopped before there was a result.

    Examples
    --------
    >>> from skpref.cli import main
    >>> main(["rank", "no-such-model", "items.csv"])
    2
    """
    arguments = _parser().parse_args(argv)
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        try:
            return int(arguments.run(arguments))
        except (SkprefError, OSError) as error:
            print(f"skpref: error: {_first_words(error)}", file=sys.stderr)
            return 2
        except KeyboardInterrupt:
            print("skpref: stopped", file=sys.stderr)
            return 130


def _first_words(error: Exception) -> str:
    if isinstance(error, OSError) and not isinstance(error, SkprefError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def _show_warning(message: Warning | str, category: type[Warning], *_: Any) -> None:
    if issubclass(category, UserWarning):  # ours and scikit-learn's; deprecations are not for users of a command
        print(f"skpref: note: {message}", file=sys.stderr)


# --------------------------------------------------------------------------------------------------------------- parser
def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="skpref", description="Bayesian preference learning: from comparisons to a tuned, tracked ranking."
    )
    parser.add_argument("--version", action="version", version=f"skpref {skpref.__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_tune(commands)
    _add_demo(commands)
    _add_rank(commands)
    return parser


def _add_tune(commands: Any) -> None:
    tune = commands.add_parser(
        "tune",
        help="learn a ranking from a file of comparisons",
        description="Learn from comparisons: hold-out, search for settings, ranking, plots, model. Files are CSV or "
        "Parquet. COMPARISONS has the columns left, right, label (1 = left preferred, 0 = right, 0.5 = tie) or winner, "
        "loser, and perhaps weight. ITEMS has a column id; all its other columns are numeric features.",
    )
    tune.add_argument("comparisons", type=Path, metavar="COMPARISONS")
    tune.add_argument("--items", type=Path, help="file of the items' features")
    tune.add_argument("--id", default="id", metavar="COLUMN", help="column of ids in ITEMS (default: id)")
    tune.add_argument("--group", metavar="COLUMN", help="column whose values stay together in splits, such as a person")
    _add_job_options(tune, trials=30, max_inducing=500)
    tune.set_defaults(run=_tune)


def _add_demo(commands: Any) -> None:
    demo = commands.add_parser(
        "demo",
        help="the same on real data: 210 travellers choosing among air, train, bus and car",
        description="Run `tune` on the choices of 210 travellers (Greene and Hensher; statsmodels' modechoice), "
        "holding out whole travellers.",
    )
    _add_job_options(demo, trials=8, max_inducing=150)
    demo.set_defaults(run=_demo)


def _add_job_options(parser: argparse.ArgumentParser, trials: int, max_inducing: int) -> None:
    add = parser.add_argument
    add("--model", choices=["gppl"], default="gppl", help="what to learn (default: gppl)")
    add("--trials", type=_at_least(1), default=trials, metavar="N", help=f"trials of the search (default: {trials})")
    add("--timeout", type=_positive, metavar="S", help="seconds after which no further trial begins")
    add("--out", type=Path, default=Path("skpref-out"), metavar="DIR", help="folder of results (default: skpref-out)")
    add("--seed", type=_at_least(0), default=0, metavar="N", help="seed of everything random (default: 0)")
    add("--folds", type=_at_least(2), default=4, metavar="N", help="folds of the cross-validation (default: 4)")
    add("--holdout", type=_share, default=0.2, metavar="SHARE", help="share that is held out (default: 0.2)")
    text = f"inducing points at most: time grows with their square (default: {max_inducing})"
    add("--max-inducing", type=_at_least(1), default=max_inducing, metavar="M", help=text)
    add("--experiment", default="skpref", metavar="NAME", help="MLflow experiment (default: skpref)")
    add("--no-mlflow", action="store_true", help="do not track")


def _add_rank(commands: Any) -> None:
    rank = commands.add_parser(
        "rank",
        help="rank new items with a saved model",
        description="Rank items by their features. ITEMS has a column id and the features that the model was tuned "
        "with, in any order; other columns are left alone. A model without features ranks the ids it knows.",
    )
    rank.add_argument("model", type=Path, metavar="MODEL")
    rank.add_argument("items", type=Path, metavar="ITEMS")
    rank.add_argument("--id", default="id", metavar="COLUMN", help="column of ids in ITEMS (default: id)")
    rank.add_argument("--top", type=_at_least(1), default=20, metavar="N", help="items to print (default: 20)")
    rank.add_argument("--out", type=Path, metavar="FILE", help="write the whole ranking to this CSV file")
    rank.set_defaults(run=_rank)


def _at_least(low: int) -> Callable[[str], int]:
    def whole_number(text: str) -> int:
        value = int(text)
        if value < low:
            raise argparse.ArgumentTypeError(f"{value} is less than {low}")
        return value

    return whole_number


def _positive(text: str) -> float:
    value = float(text)
    if not 0.0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return value


def _share(text: str) -> float:
    value = float(text)
    if not 0.05 <= value <= 0.5:
        raise argparse.ArgumentTypeError(f"{text} is not between 0.05 and 0.5")
    return value


# ------------------------------------------------------------------------------------------------------------- commands
def _tune(arguments: argparse.Namespace) -> int:
    _check_extras(arguments)
    problem = read_problem(arguments.comparisons, arguments.items, arguments.group, arguments.id, arguments.seed)
    return _run_job(problem, arguments)


def _demo(arguments: argparse.Namespace) -> int:
    _check_extras(arguments)
    return _run_job(demo_problem(), arguments)


def _check_extras(arguments: argparse.Namespace) -> None:
    """Complain before the work, not after it."""
    wanted = [name for name in _EXTRAS if not (name == "mlflow" and arguments.no_mlflow)]
    missing = [name for name in wanted if importlib.util.find_spec(name) is None]
    if missing:
        extras = ",".join(_EXTRAS[name] for name in missing)
        raise MissingExtraError(
            f"this command needs {' and '.join(missing)}: pip install 'skpref[{extras}]', or 'skpref[all]' for everything"
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


def _rank(arguments: argparse.Namespace) -> int:
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


if __name__ == "__main__":
    sys.exit(main())
