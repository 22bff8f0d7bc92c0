"""What each command does."""

from __future__ import annotations

import importlib.util
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from skpref._estimator import last_step
from skpref.cli._comparisons import read_demo
from skpref.cli._elicit import interview
from skpref.cli._experiment import read_experiment
from skpref.cli._files import nearest
from skpref.cli._inputs import read_ids, read_items
from skpref.cli._job import Job
from skpref.cli._models import read_task
from skpref.cli._outputs import check_file, check_folder
from skpref.cli._predict import predict as predict_rows
from skpref.cli._progress import Bar
from skpref.cli._rank_rows import rank_rows, ranks_rows
from skpref.cli._rankings import ranking_text, write_ranking
from skpref.cli._ratings import recommend
from skpref.cli._report import print_json, report, summary, write_files
from skpref.cli._sync import mlflow_sync  # noqa: F401 - a command
from skpref.cli._task import Options
from skpref.exceptions import DataError, MissingExtraError, SkprefError
from skpref.factorization.max_margin.base import MaxMarginFactorization
from skpref.gp.crowd import CrowdGPPL
from skpref.gp.pairwise import GPPLClassifier
from skpref.persistence import load, save
from skpref.search._narrowed import NarrowedSpace
from skpref.search.loop import quietly, require_optuna
from skpref.tracking.mlflow import Tracker

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from skpref.cli._task import Outcome, Task

_DRAWS = 10  # of a space, to see whether estimators take its values
# Parameters that are said otherwise.
_OPTIONS = {
    "items": "--items",
    "users": "--users",
    "levels": "--levels",
    "class_order": "--class-order",
    "random_state": "--seed",
}
_EXTRAS = {"optuna": "optuna", "matplotlib": "plots", "mlflow": "mlflow"}


def tune(arguments: argparse.Namespace) -> int:
    """Learn from files."""
    _check_extras(arguments)
    return _run_job(read_task(arguments), arguments)


def run(arguments: argparse.Namespace) -> int:
    """Run the experiment of a TOML file."""
    options = read_experiment(arguments, arguments.tune_defaults())
    _check_extras(options)
    task = read_task(options) if options.dataset is None else read_demo(options)
    if options.space:
        try:
            _check_space(task, NarrowedSpace(task.space(), options.space))
        except ValueError as error:
            raise DataError(f"{arguments.file}: [space] {error}") from error
    return _run_job(task, options, arguments.file)


def _check_space(task: Task, space: NarrowedSpace) -> None:
    """Let estimators complain of values before the work, not in every trial."""
    optuna = require_optuna()
    with quietly():
        study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
        for _ in range(_DRAWS):
            last_step(task.build(space.suggest(study.ask())))._validate_params()  # noqa: SLF001 - what `fit` does first


def fit(arguments: argparse.Namespace) -> int:
    """Fit a model with settings that are given, without a search."""
    check_file(arguments.out, regular=True)
    task = read_task(arguments)
    _say(arguments, task.headline())
    settings, params = task.space().default(), dict(arguments.set or ())
    _check_settings(last_step(task.build(settings)), params)
    try:
        model = task.final(settings, params)
    except KeyboardInterrupt as stop:
        raise KeyboardInterrupt(f"stopped during the fit; {arguments.out} was not written") from stop
    except (ValueError, TypeError, ArithmeticError, MemoryError) as error:
        if isinstance(error, SkprefError):
            raise
        # A value that the estimator does not take, or cannot work with.
        raise DataError((str(error) or type(error).__name__).splitlines()[0]) from error
    save(model, arguments.out)
    if arguments.json:
        last = last_step(model)
        print_json({**task.describe(), "estimator": type(last).__name__, "file": str(arguments.out)})
    _say(arguments, f"Written to {arguments.out}\n{task.next_command(arguments.out)}")
    return 0


def _check_settings(model: Any, params: dict[str, Any]) -> None:
    """Complain of parameters that there are not, or that have an option of their own."""
    known = model.get_params(deep=False)
    for name in params:
        if name in _OPTIONS:
            raise DataError(f"--set {name}: say it by {_OPTIONS[name]}")
        if name not in known and "__" not in name:
            what = f"a {type(model).__name__} has no such parameter{nearest(name, list(known)) or ';'}"
            raise DataError(f"--set {name}: {what} there are {', '.join(known)}")


def predict(arguments: argparse.Namespace) -> int:
    """Predict the rows of a file."""
    check_file(arguments.out)
    return predict_rows(load(arguments.model), arguments)


def _say(arguments: argparse.Namespace, text: str) -> None:
    """Print for people, beside what is for programs."""
    print(text, file=sys.stderr if arguments.json else sys.stdout, flush=True)


def demo(arguments: argparse.Namespace) -> int:
    """Learn from the choices of travellers."""
    _check_extras(arguments)
    return _run_job(read_demo(arguments), arguments)


def _check_extras(arguments: argparse.Namespace) -> None:
    """Complain before the work, not after it."""
    wanted = [name for name in _EXTRAS if not (name == "mlflow" and arguments.no_mlflow)]
    missing = [name for name in wanted if importlib.util.find_spec(name) is None]
    if missing:
        extras = ",".join(_EXTRAS[name] for name in missing)
        raise MissingExtraError(
            f"this command needs {' and '.join(missing)}: pip install 'skpref[{extras}]', or 'skpref[all]'"
        )


def _run_job(task: Task, arguments: argparse.Namespace, experiment: Path | None = None) -> int:
    names = ("model", "trials", "timeout", "out", "seed", "folds", "holdout", "storage")
    space = getattr(arguments, "space", {})
    options = Options(**{name: getattr(arguments, name) for name in names}, space=space)
    tracker = None if arguments.no_mlflow else Tracker(arguments.experiment, spool=arguments.out / "spool")
    bar = Bar(sys.stderr, options.trials, options.timeout, task.data.metric.title)

    def write(outcome: Outcome) -> list[Path]:
        if not arguments.json:
            print("\n" + report(outcome), flush=True)
        files = write_files(outcome, options.out)
        if experiment is not None:
            files.append(_copied(experiment, options.out / "experiment.toml"))
        return files

    new = check_folder(options.out)
    try:
        job = Job(task, options, tracker, bar)
        _say(arguments, task.headline())
        outcome, files = job.run(write)
    except BaseException:
        with suppress(OSError):
            if new:
                options.out.rmdir()  # if nothing is in it
        raise
    if arguments.json:
        print_json(summary(outcome, files))
    _say(arguments, _last_lines(files, task, options.out, tracker))
    if outcome.result.interrupted:
        _say(arguments, f"Stopped early: all of this is of the trials until then. The same command {options.again}")
    return 0


def _copied(experiment: Path, target: Path) -> Path:
    """The experiment beside its results."""
    if not (target.exists() and target.samefile(experiment)):
        target.write_bytes(experiment.read_bytes())
    return target


def _last_lines(files: list[Path], task: Task, out: Path, tracker: Tracker | None) -> str:
    lines = [f"\nWritten to {out}/: {', '.join(path.name for path in files)}", task.next_command(out / "model.skpref")]
    if tracker is not None and tracker.online:
        lines.append(f"Look at the runs: {tracker.how_to_look()}")
    elif tracker is not None:
        lines.append(f"The runs could not be sent and are kept in {tracker.spool_file}")
    return "\n".join(lines)


def rank(arguments: argparse.Namespace) -> int:
    """Rank items, known or new."""
    check_file(arguments.out)
    model = load(arguments.model)
    if isinstance(model, MaxMarginFactorization) and hasattr(model, "posterior_"):
        return recommend(model, arguments)
    if ranks_rows(model):
        return rank_rows(model, arguments)
    if not isinstance(model, GPPLClassifier | CrowdGPPL) or not hasattr(model, "posterior_"):
        kinds = "GPPLClassifier or CrowdGPPL (or model of ratings, labels or numbers)"
        raise DataError(f"{arguments.model}: holds no fitted {kinds}, as `skpref tune` writes them")
    _check_user(model, arguments)
    items: Any = None
    if arguments.items is None:
        pass
    elif model.items is None:
        items = read_ids(arguments.items, arguments.id or "id")
    else:
        items = read_items(arguments.items, arguments.id or "id", _feature_names(model, arguments.model))
    ranking = model.rank(items, arguments.user) if isinstance(model, CrowdGPPL) else model.rank(items)
    title = "Ranking" if arguments.user is None else f"Ranking by user {arguments.user[:80]!r}"
    if arguments.json:
        columns = ranking.columns()
        rows = zip(*(column.tolist()[: arguments.top] for column in columns.values()), strict=True)
        print_json([dict(zip(columns, row, strict=True)) for row in rows])
    else:
        print(ranking_text(ranking, arguments.top, title))
    if arguments.out is not None:
        write_ranking(ranking, arguments.out)
        _say(arguments, f"\nWritten to {arguments.out}")
    return 0


def elicit(arguments: argparse.Namespace) -> int:
    """Ask a person."""
    return interview(load(arguments.model), arguments)


def _check_user(model: GPPLClassifier | CrowdGPPL, arguments: argparse.Namespace) -> None:
    """Whoever names a user wants that user's view, not the consensus that strangers get."""
    user = arguments.user
    if user is None:
        return
    if not isinstance(model, CrowdGPPL):
        raise DataError(f"{arguments.model}: the model does not tell users apart; leave --user out")
    known = [str(one) for one in (model.user_ids_ if model.users is None else model.users.ids)]
    if user not in known:
        more = nearest(user, known[:5000]) or "."
        raise DataError(f"{arguments.model}: unknown user {user[:80]!r}{more} Without --user, the consensus ranks")


def _feature_names(model: GPPLClassifier | CrowdGPPL, path: Path) -> tuple[str, ...]:
    names = model.items.feature_names
    if names is None:
        name = type(model).__name__
        raise DataError(f"{path}: does not know the names of its features; rank with {name}.rank in Python")
    return tuple(names)
