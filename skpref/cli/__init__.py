"""The command ``skpref``: tune, run, fit, predict, rank, elicit, demo, mlflow-sync."""

from __future__ import annotations

import argparse
import ast
import difflib
import os
import signal
import sys
import threading
import warnings
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, cast

import skpref
from skpref.cli._experiment import add_run
from skpref.cli._models import MODELS, MOST
from skpref.cli._outputs import Patient, to_nowhere
from skpref.cli._sync import add_sync
from skpref.exceptions import SkprefError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = ["main"]

_WRITE = "tune", "run", "demo", "fit"
_MODEL = "file that `tune`, `run`, `fit` or skpref.save wrote"
_JSON = "print JSON for programs, and all else to the standard error"
_MAX_INDUCING = "inducing points at most: time grows with their square (default: {})"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # an id that the terminal has no letters for is no reason to fail
            stream.reconfigure(errors="backslashreplace")
    arguments = _parser().parse_args(argv)
    with _in_order(), warnings.catch_warnings():
        warnings.simplefilter("default", UserWarning)
        warnings.showwarning = _show_warning  # type: ignore[assignment]  # the stub wants all six names
        try:
            from skpref.cli import _commands  # only now: --help and --version need not wait for numba

            with _listened_to(arguments.command):
                code = int(getattr(_commands, arguments.command)(arguments))
            _flush()
        except BrokenPipeError:  # `skpref ... | head`: the reader has seen enough
            for stream in (sys.stdout, sys.stderr):
                to_nowhere(stream)
            return 0
        except MemoryError as error:
            print(f"skpref: error: there is too little memory: {error}", file=sys.stderr)
            return 2
        except (SkprefError, OSError) as error:
            print(f"skpref: error: {_first_words(error)}", file=sys.stderr)
            return 2
        except KeyboardInterrupt as stop:
            print(f"skpref: {str(stop) or 'stopped'}", file=sys.stderr)
            return 130
    return code


@contextmanager
def _listened_to(command: str) -> Iterator[None]:
    """Of a command that writes files, the work is done even if nobody listens any more."""
    if command not in _WRITE or sys.stdout is None or sys.stderr is None:
        yield
        return
    out, err = cast("TextIO", Patient(sys.stdout)), cast("TextIO", Patient(sys.stderr))
    with redirect_stdout(out), redirect_stderr(err):
        yield


def _flush() -> None:
    """Write all that was printed now, not at the end of Python, where an error would be a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # closed by who started the command
            stream.flush()


@contextmanager
def _in_order() -> Iterator[None]:
    """Whoever is terminated ends at once, but in order: what is tracked is sent, and runs are ended."""

    def end(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _first_words(error: Exception) -> str:
    if isinstance(error, SkprefError) or not isinstance(error, OSError) or error.filename is None:
        return str(error)
    hint = ""
    if isinstance(error, FileNotFoundError):
        path = Path(os.fsdecode(error.filename))
        there = [one.name for one in path.parent.iterdir()] if path.parent.is_dir() else []
        near = difflib.get_close_matches(path.name, there[:5000], n=1, cutoff=0.8)
        hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"{error.filename}: {error.strerror}{hint}"


def _show_warning(message: Warning | str, category: type[Warning], *_: Any) -> None:
    if issubclass(category, UserWarning):  # ours and scikit-learn's; deprecations are not for users of a command
        print(f"skpref: note: {message}", file=sys.stderr)


# --------------------------------------------------------------------------------------------------------------- parser
def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="skpref",
        description="Bayesian preference learning: from comparisons or ratings to a tuned, tracked model.",
        epilog="`skpref COMMAND --help` tells more. Exit codes: 0 = done, even if a search was stopped after a trial; "
        "1 = mlflow-sync could not send all; 2 = the input cannot be used, and one line says why; 130 = stopped "
        "before there was a result.",
    )
    parser.add_argument("--version", action="version", version=f"skpref {skpref.__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_tune(commands)
    add_run(commands, lambda: parser.parse_args(["tune", ""]))
    _add_demo(commands)
    _add_fit(commands)
    _add_predict(commands)
    _add_rank(commands)
    _add_elicit(commands)
    add_sync(commands)
    return parser


def _add_tune(commands: Any) -> None:
    models = "\n".join(f"  {name:<15} {model.about}" for name, model in MODELS.items())
    tune = commands.add_parser(
        "tune",
        help="learn from a file of comparisons, ratings or labelled rows",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Learn from a file: hold-out, search for settings, report, plots, model.\n\n"
        f"models:\n{models}\n\n"
        "Files are CSV or Parquet. A file of comparisons has the columns left, right, label (1 = left\n"
        "preferred, 0 = right, 0.5 = tie) or winner, loser; perhaps weight; for crowd, user too. The\n"
        "hold-out is then of users who are learnt from, and annotators.csv tells how far each of them\n"
        "agrees with the consensus. ITEMS has a column id; all its other columns are numeric features.\n"
        "A file of ratings has the columns user, item, rating; perhaps weight. The hold-out has some of\n"
        "each user's ratings. A file of rows has a column label and numeric features.",
    )
    _add_data_options(tune)
    _add_job_options(tune, trials=30)
    tune.set_defaults(command="tune")


def _add_data_options(parser: argparse.ArgumentParser) -> None:
    """Where the data are, and what they mean: of `tune` and of `fit`."""
    parser.add_argument("data", type=Path, metavar="DATA", help="file of comparisons, ratings or rows")
    parser.add_argument("--model", choices=list(MODELS), default="gppl", help="what to learn (default: gppl)")
    add = parser.add_argument_group("comparisons").add_argument
    add("--items", type=Path, help="file of the items' features")
    add("--id", type=_text, metavar="COLUMN", help="column of ids in ITEMS (default: id)")
    text = "file of the users' features, for --model crowd; its ids are in a column named as in DATA, or id"
    add("--users", type=Path, help=text)
    text = "column whose values stay together in splits, such as a person: the hold-out is then of people never seen"
    add("--group", type=_text, metavar="COLUMN", help=f"{text}; of rows with labels, too")
    add("--max-inducing", type=_at_least(1), metavar="M", help=_MAX_INDUCING.format(500))
    add = parser.add_argument_group("ratings").add_argument
    add(
        "--user",
        type=_text,
        metavar="COLUMN",
        help="column of who answered or rated (default: user); for --model crowd too",
    )
    add("--item", type=_text, metavar="COLUMN", help="column of what was rated (default: item)")
    add("--rating", type=_text, metavar="COLUMN", help="column of the ratings (default: rating)")
    add("--levels", type=_names, metavar="A,B,...", help="all levels, low to high (default: the numbers in the file)")
    text = "what to do where a user rated an item twice, and differently (default: error)"
    add("--duplicates", choices=["error", "mean", "last"], help=text)
    add("--sweeps", type=_at_least(2), metavar="N", help="sweeps of a chain, a fifth of them burn-in (default: 50)")
    add("--factors", type=_at_least(1), metavar="K", help="factors at most, for --model m3f (default: 100)")
    add = parser.add_argument_group("rows with labels").add_argument
    add("--label", type=_text, metavar="COLUMN", help="column of the labels (default: label)")
    text = "columns of features (default: all others but id, weight and the group)"
    add("--features", type=_names, metavar="A,B,...", help=text)
    add("--class-order", type=_names, metavar="A,B,...", help="all labels, low to high (default: numbers as they are)")


def _add_fit(commands: Any) -> None:
    fit = commands.add_parser(
        "fit",
        help="fit a model with given settings, without a search",
        description="Fit one model to a whole file, with its default settings or others, and write it. Files and "
        "models are those of `tune`.",
    )
    _add_data_options(fit)
    add = fit.add_argument_group("fit").add_argument
    text = "a parameter of the estimator, such as C=0.1 or kernel=auto; several times for several"
    add("--set", type=_setting, action="append", metavar="NAME=VALUE", help=text)
    add("--out", type=Path, default=Path("model.skpref"), metavar="FILE", help="the model (default: model.skpref)")
    add("--seed", type=_at_least(0), default=0, metavar="N", help="seed of everything random (default: 0)")
    add("--json", action="store_true", help=_JSON)
    fit.set_defaults(command="fit", holdout=0.2)


def _add_predict(commands: Any) -> None:
    predict = commands.add_parser(
        "predict",
        help="predict the rows of a file with a saved model",
        description="Put predictions behind the columns of a file: the probability that left is preferred (left, "
        "right; of a crowd, user too), the level that a user gives to an item (user, item), or what follows from "
        "features.",
    )
    predict.add_argument("model", type=Path, metavar="MODEL", help=_MODEL)
    predict.add_argument("data", type=Path, metavar="DATA", help="CSV or Parquet file of what is asked")
    predict.add_argument("--user", type=_text, metavar="COLUMN", help="column of users (default: user)")
    predict.add_argument("--item", type=_text, metavar="COLUMN", help="column of items (default: item)")
    predict.add_argument("--top", type=_at_least(1), default=20, metavar="N", help="rows to print (default: 20)")
    predict.add_argument("--out", type=Path, metavar="FILE", help="write all rows to this CSV file")
    predict.add_argument("--json", action="store_true", help=_JSON)
    predict.set_defaults(command="predict")


def _add_demo(commands: Any) -> None:
    demo = commands.add_parser(
        "demo",
        help="the same on real data: 210 travellers choosing among air, train, bus and car",
        description="Run `tune` on the choices of 210 travellers (Greene and Hensher; statsmodels' modechoice), "
        "holding out whole travellers.",
    )
    demo.add_argument("--model", choices=["gppl"], default="gppl", help="what to learn (default: gppl)")
    demo.add_argument("--max-inducing", type=_at_least(1), metavar="M", help=_MAX_INDUCING.format(150))
    _add_job_options(demo, trials=10)
    demo.set_defaults(command="demo")


def _add_job_options(parser: argparse.ArgumentParser, trials: int) -> None:
    add = parser.add_argument_group("job").add_argument
    add("--trials", type=_at_least(1), default=trials, metavar="N", help=f"trials of the search (default: {trials})")
    add("--timeout", type=_positive, metavar="S", help="seconds after which no further trial begins")
    add("--out", type=Path, default=Path("skpref-out"), metavar="DIR", help="folder of results (default: skpref-out)")
    add("--seed", type=_at_least(0), default=0, metavar="N", help="seed of everything random (default: 0)")
    text = "folds of the cross-validation (default: 4; of ratings, some of each user's are held out once)"
    add("--folds", type=_at_least(2), metavar="N", help=text)
    text = "share that is held out (default: 0.2); of ratings, a share of each user's, or the word one"
    add("--holdout", type=_share, default=0.2, metavar="SHARE", help=text)
    text = "file, or address of a database, that keeps finished trials: the same command goes on from them"
    add("--storage", type=_text, metavar="FILE", help=text)
    add("--experiment", type=_text, default="skpref", metavar="NAME", help="MLflow experiment (default: skpref)")
    add("--no-mlflow", action="store_true", help="do not track")
    add("--json", action="store_true", help=_JSON)


def _add_rank(commands: Any) -> None:
    rank = commands.add_parser(
        "rank",
        help="rank items, known or new, with a saved model",
        description="Rank items by their features. ITEMS has a column id and the features that the model was tuned "
        "with, in any order; other columns are left alone. A model without features ranks the ids it knows. A model of "
        "a crowd ranks by the consensus, or by the view of one user; one of users and items ranks all items for a "
        "user; one of features the rows of ITEMS, by what it predicts of them.",
    )
    rank.add_argument("model", type=Path, metavar="MODEL", help=_MODEL)
    rank.add_argument("items", type=Path, metavar="ITEMS", nargs="?", help="what to rank; default: all known items")
    rank.add_argument("--id", type=_text, metavar="COLUMN", help="column of ids in ITEMS (default: id)")
    rank.add_argument(
        "--user", type=_text, metavar="ID", help="whose view to rank by, with a model of a crowd or of users and items"
    )
    rank.add_argument("--top", type=_at_least(1), default=20, metavar="N", help="items to print (default: 20)")
    rank.add_argument("--out", type=Path, metavar="FILE", help="write the whole ranking to this CSV file")
    rank.add_argument("--json", action="store_true", help=_JSON)
    rank.set_defaults(command="rank")


def _add_elicit(commands: Any) -> None:
    elicit = commands.add_parser(
        "elicit",
        help="ask a person what a saved model wants to know, and print what it learnt",
        description="Ask on the terminal, and tell what the answers say: estimates, their uncertainty, what to "
        "recommend, what to ask next. MODEL holds preferences (which one? 1 or 2), ratings, or a Pipeline of "
        "OneHotDesign and a factorization machine (y or n, or a number). s skips a question, q quits. The file is not "
        "changed.",
    )
    add = elicit.add_argument
    add("model", type=Path, metavar="MODEL", help=_MODEL)
    add(
        "--user",
        type=_text,
        metavar="ID",
        help="who answers, with a model that tells users apart (default: somebody new)",
    )
    text = "what may be asked: a column item, or left and right for preferences (default: all known)"
    add("--candidates", type=Path, metavar="FILE", help=text)
    choices = ["random", "mean", "variance", "information", "determinant"]
    add("--strategy", choices=choices, default="determinant", help="how to choose questions (default: determinant)")
    add("--questions", type=_at_least(1), default=20, metavar="N", help="questions at most (default: 20)")
    add("--top", type=_at_least(1), default=10, metavar="N", help="items to print (default: 10)")
    add("--json", action="store_true", help="print what was learnt as JSON, and questions to the standard error")
    add("--seed", type=_at_least(0), default=0, metavar="N", help="seed of everything random (default: 0)")
    elicit.set_defaults(command="elicit")


def _at_least(low: int) -> Callable[[str], int]:
    def whole_number(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text[:80]!r} is not a whole number") from None
        if not low <= value <= MOST:
            what = f"less than {low}" if value < low else f"more than {MOST}"
            raise argparse.ArgumentTypeError(f"{text[:80]} is {what}")
        return value

    return whole_number


def _text(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError("is empty")
    return text


def _names(text: str) -> str:
    if not all(name.strip() for name in text.split(",")):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of names with commas between them")
    return text


def _setting(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    try:
        return name, ast.literal_eval(value)
    except (SyntaxError, ValueError):
        return name, value  # a word


def _positive(text: str) -> float:
    value = _number(text)
    if not 0.0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text[:80]} is not a positive number")
    return value


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text[:80]!r} is not a number") from None


def _share(text: str) -> float:
    if text == "one":
        return 0.0
    value = _number(text)
    if not 0.05 <= value <= 0.5:
        raise argparse.ArgumentTypeError(f"{text[:80]} is not between 0.05 and 0.5")
    return value
