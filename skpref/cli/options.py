"""What can be typed: the parser, the TOML file of ``skpref run``, and one record of options for each command."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, get_args

from skpref._text import nearest
from skpref._version import __version__
from skpref.cli.experiment import PAIRS, SIDES, by_key, read_arguments
from skpref.cli.values import (
    at_least,
    read_encoding,
    read_gain,
    read_names,
    read_path,
    read_positive,
    read_separator,
    read_setting,
    read_share,
    read_text,
)
from skpref.exceptions import DataError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Model(NamedTuple):
    """A model that can be tuned."""

    reader: str  # function that makes the task from the options; by name, since --help need not wait for numba
    about: str  # a few words for --help
    options: tuple[str, ...]  # options that not all models have


_COMPARISONS = (
    *SIDES,
    "item",
    "item_ratings",
    "features",
    "covariates",
    "label",
    "items",
    "id",
    "group",
    "time_split",
    "max_inducing",
)
_RATINGS = (*PAIRS, "levels", "duplicates", "sweeps", "factors")
_FEATURES = ("label", "features", "group")

# A model is a line here, a function that reads its data, and its options in the parser.
MODELS = {
    "gppl": Model("skpref.cli.tasks.comparisons:read", "comparisons: one utility for each item", _COMPARISONS),
    "crowd": Model(
        "skpref.cli.tasks.comparisons:read",
        "comparisons by users: a consensus and personal utilities",
        (*_COMPARISONS, "user", "users", "groups"),
    ),
    "m3f": Model("skpref.cli.tasks.ratings:read", "ratings: factors of users and items", _RATINGS),
    "ipm3f": Model(
        "skpref.cli.tasks.ratings:read", "ratings: binary features of users; their number is learnt", _RATINGS[:-1]
    ),
    "ordinal": Model(
        "skpref.cli.tasks.features:read_ordinal",
        "features with ordered labels: a Gaussian process",
        (*_FEATURES, "class_order"),
    ),
    "fm": Model("skpref.cli.tasks.labels:read", "a number by user and item: a factorization machine", PAIRS),
    "fm-classifier": Model("skpref.cli.tasks.labels:read", "0 or 1 by user and item: a factorization machine", PAIRS),
    "fm-ordinal": Model(
        "skpref.cli.tasks.labels:read",
        "ratings as levels by user and item: a factorization machine",
        (*PAIRS, "levels"),
    ),
    "svgp": Model(
        "skpref.cli.tasks.features:read_sparse",
        "features with a number: a sparse Gaussian process",
        (*_FEATURES, "max_inducing"),
    ),
    "svgp-classifier": Model(
        "skpref.cli.tasks.features:read_sparse",
        "features with one of two classes: a sparse Gaussian process",
        (*_FEATURES, "max_inducing"),
    ),
}
_SPECIAL = tuple(dict.fromkeys(option for model in MODELS.values() for option in model.options))
Strategy = Literal["random", "mean", "variance", "information", "determinant"]


# ------------------------------------------------------------------------------------------------------------- options
@dataclass(frozen=True)
class Data:
    """Where the data are and what they mean; of `tune`, `run`, `demo` and `fit`."""

    data: Path | None  # file of comparisons, ratings or rows; None: the choices of travellers
    model: str = "gppl"
    items: Path | None = None
    id: str | None = None
    users: Path | None = None
    group: str | None = None
    time_split: str | None = None
    max_inducing: int | None = None
    user: str | None = None
    item: str | None = None
    rating: str | None = None
    item_ratings: tuple[str, ...] | None = None
    levels: tuple[str, ...] | None = None
    duplicates: str | None = None
    sweeps: int | None = None
    factors: int | None = None
    left: str | None = None
    right: str | None = None
    winner: str | None = None
    loser: str | None = None
    score: tuple[str, ...] | None = None
    counts: tuple[str, ...] | None = None
    ranking: tuple[str, ...] | None = None
    contest: tuple[str, ...] | None = None
    rank: str | None = None
    offered: tuple[str, ...] | None = None
    chosen: str | None = None
    worst: str | None = None
    item_ranks: tuple[str, ...] | None = None
    missing: str | None = None
    on_self: str | None = None
    mirrored: str | None = None
    rest: str | None = None
    unranked: tuple[str, ...] | None = None
    covariates: tuple[str, ...] | None = None
    groups: tuple[str, ...] | None = None
    label: str | None = None
    weight: str | None = None
    separator: str | None = None
    encoding: str | None = None
    decimal: str | None = None
    columns: tuple[str, ...] | None = None
    features: tuple[str, ...] | None = None
    class_order: tuple[str, ...] | None = None
    seed: int = 0
    holdout: float = 0.2  # share that is held out; 0: one rating of each user
    json: bool = False

    @property
    def sources(self) -> tuple[Path | None, ...]:
        """Return the files that are read."""
        return self.data, self.items, self.users

    def __post_init__(self) -> None:
        for option in _SPECIAL:
            if option not in MODELS[self.model].options and getattr(self, option) is not None:
                owners = [name for name, model in MODELS.items() if option in model.options]
                shown = " or ".join(filter(None, [", ".join(owners[:-1]), owners[-1]]))
                raise DataError(f"--{option.replace('_', '-')} is for --model {shown}, not for {self.model}")
        if self.time_split is not None and self.group is not None:
            raise DataError("--time-split and --group are two ways to split; give one of them")
        if self.features is not None and self.model in {"gppl", "crowd"} and (self.items or not self.contest):
            raise DataError("--features of items needs --contest, where a row is one item, and no --items")
        if not self.holdout and self.model not in {"m3f", "ipm3f"}:
            raise DataError(
                "--holdout one is for ratings (m3f, ipm3f); of other rows, a share is held out, such as 0.2"
            )


@dataclass(frozen=True)
class Tune(Data):
    """`tune`, `run` and `demo`."""

    trials: int = 30
    timeout: float | None = None
    out: Path = Path("skpref-out")
    folds: int | None = None  # None: as many as the task has by default
    storage: str | None = None
    experiment: str = "skpref"
    mlflow: bool = True
    space: Mapping[str, Any] = field(default_factory=dict)  # [space] of the TOML file
    file: Path | None = None  # the TOML file

    @property
    def again(self) -> str:
        """Return what the same command does after it was stopped."""
        more = "starts from the first trial; with --storage FILE (in a TOML file, storage in [search]) it would resume"
        return "resumes from there" if self.storage is not None else more


@dataclass(frozen=True)
class Demo(Tune):
    """`demo`."""

    dataset: Literal["arena", "travellers"] = "arena"


@dataclass(frozen=True)
class Fit(Data):
    """`fit`."""

    settings: tuple[tuple[str, Any], ...] = ()  # parameters of the estimator
    out: Path = Path("model.skpref")


@dataclass(frozen=True)
class Predict:
    """`predict`."""

    model: Path
    data: Path
    user: str | None
    item: str | None
    left: str | None
    right: str | None
    separator: str | None
    encoding: str | None
    decimal: str | None
    columns: tuple[str, ...] | None
    missing: str | None
    top: int
    out: Path | None
    json: bool


@dataclass(frozen=True)
class Rank:
    """`rank`."""

    model: Path
    items: Path | None
    id: str | None
    user: str | None
    scale: Literal["utility", "elo"]
    top: int
    out: Path | None
    json: bool
    groups: tuple[str, ...] | None = None
    separator: str | None = None
    encoding: str | None = None
    decimal: str | None = None
    missing: str | None = None


@dataclass(frozen=True)
class Elicit:
    """`elicit`."""

    model: Path
    user: str | None
    candidates: Path | None
    strategy: Strategy
    questions: int
    min_gain: float
    session: Path | None
    out: Path | None
    top: int
    json: bool
    seed: int


@dataclass(frozen=True)
class Sync:
    """`mlflow-sync`."""

    DEFAULT: ClassVar[Path] = Path("mlruns/spool")
    spool: Path
    tracking_uri: str | None
    experiment: str | None
    json: bool


def parse(argv: Sequence[str]) -> Any:
    """Return the options of the command that was typed."""
    values = vars(_parser().parse_args(argv))
    kind = values.pop("kind")
    return _read_experiment(**values) if kind is None else kind(**values)


# --------------------------------------------------------------------------------------------------------------- parser
_MODEL = "file that `tune`, `run`, `fit` or skpref.save wrote"
_JSON = "print JSON to standard output, and messages to standard error"
_MAX_INDUCING = "largest number of inducing points; time grows with its square (default: {})"
_ABOUT_TUNE = """Tune a model on a file: search for settings, test on held-out rows, write report, plots and model.

models:
{models}

Files are CSV, JSON (a list, or one record in each line) or Parquet, and may be compressed by gzip.
- is standard input.
A file of comparisons has the columns left, right, label (1 = left preferred, 0 = right, 0.5 = tie);
or model_a, model_b, winner (an id, or words such as model_a, b, tie, both bad); or winner, loser. A
column weight is optional. --model crowd also needs a column user. For columns with other names use
--left, --right, --label, --winner, --loser, --score, --weight, --user. Further columns are ignored.
With --model crowd some comparisons of each user are held out, and annotators.csv says how far each
user agrees with the consensus. ITEMS has a column id; all its other columns are numeric features.
A file of ratings has the columns user, item, rating and, optionally, weight. Some ratings of each
user are held out. A grid of ratings has one row for each person and one column for each item:
--item-ratings "Q3_*" --user PERSON.
A row of choices has several items: --offered A,B,C --chosen COLUMN, for MaxDiff also --worst COLUMN.
Or a row is one of the items of a task: --contest PERSON,TASK --item COLUMN --chosen COLUMN.
A file of rows has a column label and numeric features."""
_ABOUT_RUN = """Do what `tune` does, with the options in a TOML file. Its sections are [data], [model], [search],
[space], [tracking] and [output]. Keys are the options of `tune`. In [space], a setting has one
value, a list of values, or { low = ..., high = ..., log = true }. Paths are relative to the folder
of the file. The same file gives the same numbers. With storage in [search], a run that was stopped
or killed resumes from its finished trials when it is started again.

example:
  [data]
  file = "comparisons.csv"
  items = "items.csv"
  [model]
  name = "gppl"
  [search]
  trials = 30
  seed = 1
  storage = "study.journal"
  [tracking]
  mlflow = false"""


_ABOUT_SET = "; --set is an option of `skpref fit`; a search takes settings from the section [space] of `skpref run`"


class _Parser(argparse.ArgumentParser):
    """A parser without abbreviations, which suggests an option in place of an unknown one."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs, allow_abbrev=False)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Refuse unknown arguments where they are found, as the subcommand knows its options."""
        first = args[0].partition("=")[0] if args else ""
        if first[:1] == "-" and first.strip("-") and first not in self._option_string_actions:
            self._refuse(args[:1])  # before argparse asks for what is missing
        namespace, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self._refuse(unknown)
        return namespace, unknown

    def _refuse(self, unknown: list[str]) -> None:
        name, options = unknown[0].partition("=")[0], list(self._option_string_actions)
        longer = [option for option in options if len(name) > 2 and option.startswith(name)]
        hint = f"; did you mean {min(longer, key=len)!r}?" if longer else nearest(name, options)
        hint = _ABOUT_SET if name == "--set" else hint
        self.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")


def _parser(parser_class: type[_Parser] = _Parser) -> argparse.ArgumentParser:
    parser = parser_class(
        prog="skpref",
        description="Bayesian preference learning: from comparisons or ratings to a tuned, tracked model.",
        epilog="`skpref COMMAND --help` lists all options. Exit codes: 0 = done, also if a search was stopped after a "
        "trial; 1 = mlflow-sync could not send everything; 2 = the input cannot be used, and a message says why; "
        "130 = stopped before there was a result.",
    )
    parser.add_argument("--version", action="version", version=f"skpref {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for add in (_add_tune, _add_run, _add_demo, _add_fit, _add_predict, _add_rank, _add_elicit, _add_sync):
        add(commands)
    return parser


def _add_tune(commands: Any) -> None:
    models = "\n".join(f"  {name:<15} {model.about}" for name, model in MODELS.items())
    tune = commands.add_parser(
        "tune",
        usage="%(prog)s [OPTIONS] DATA",  # the whole list would hide the line that says what is wrong
        help="tune a model on a file of comparisons, ratings or labelled rows",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description=_ABOUT_TUNE.format(models=models),
    )
    _add_data_options(tune)
    _add_job_options(tune, trials=30)
    tune.set_defaults(kind=Tune)


def _add_run(commands: Any) -> None:
    run = commands.add_parser(
        "run",
        help="tune a model with the options in a TOML file",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description=_ABOUT_RUN,
    )
    run.add_argument("file", type=read_path, metavar="EXPERIMENT.toml")
    run.add_argument("--out", type=read_path, metavar="DIR", help="folder of results, instead of the one in the file")
    run.add_argument("--json", action="store_true", help=_JSON)
    run.set_defaults(kind=None)


def _add_data_options(parser: argparse.ArgumentParser) -> None:
    """Add where the data are, and what they mean: of `tune` and of `fit`."""
    parser.add_argument("data", type=read_path, metavar="DATA", help="file of comparisons, ratings or rows")
    parser.add_argument(
        "--model", choices=list(MODELS), default="gppl", help="kind of model, see `skpref tune --help` (default: gppl)"
    )
    _add_file_options(parser)
    add = parser.add_argument_group("comparisons").add_argument
    add("--winner", type=read_text, metavar="COLUMN", help="column of the winner: an id, or a word for its side")
    add("--loser", type=read_text, metavar="COLUMN", help="column of the loser; rows are then (winner, loser)")
    text = (
        "column of scores such as 2-1, or of the left score minus the right one; or two columns, A,B; the higher wins"
    )
    add("--score", type=read_names, metavar="A[,B]", help=text)
    text = "columns of counts: wins of the left item, of the right one, and ties"
    add("--counts", type=read_names, metavar="A,B[,C]", help=text)
    text = "games that are all listed for both sides: read them once, or as two answers (default: error)"
    add("--mirrored", choices=["error", "drop", "keep"], help=text)
    text = "items that a ranking does not name: nothing is known about them, or they lost against those it names"
    add("--rest", choices=["unknown", "lost"], help=text)
    text = "ranks that mean that an item was not ranked, such as 0,99; none: all are ranks"
    add("--unranked", type=read_names, metavar="A,B,...|none", help=text)
    text = "columns of rankings, the best first; cells at the end may be empty"
    add("--ranking", type=read_names, metavar="A,B,...", help=text)
    text = "columns of ranks, one for each item, with the name of the item; 1 is the best"
    add("--item-ranks", type=read_names, metavar="A,B,...", help=text)
    text = "column that tells rankings or choices apart, such as the race or the task, where a row is one --item: with "
    text += "--rank (1 is the best) or --chosen (1 or 0); several columns, A,B, tell them apart together"
    add("--contest", type=read_names, metavar="A[,B]", help=text)
    add("--rank", type=read_text, metavar="COLUMN", help="column of ranks, with --contest (default: rank)")
    text = "columns of items of which one was chosen; --chosen names the column of its id, or of its column"
    add("--offered", type=read_names, metavar="A,B,...", help=text)
    text = "column of the choice (default: chosen); with --contest, 1 for the item that was chosen and 0 for the others"
    add("--chosen", type=read_text, metavar="COLUMN", help=text)
    text = "column of the worst item, as --chosen has the best one: best-worst scaling (MaxDiff)"
    add("--worst", type=read_text, metavar="COLUMN", help=text)
    text = "what to do with rows that compare an item with itself (default: error)"
    add("--on-self", choices=["error", "drop"], help=text)
    text = "columns, or differences of two, whose effects are learnt: home,length_a-length_b; positive favours left"
    add("--covariates", type=read_names, metavar="A,B-C,...", help=text)
    text = "columns of groups with utilities of their own, such as a category, for --model crowd; see rank --groups"
    add("--groups", type=read_names, metavar="A,B,...", help=text)
    add("--weight", type=read_text, metavar="COLUMN", help="column of weights, of any kind of rows (default: weight)")
    add("--items", type=read_path, help="file of the items' features")
    add("--id", type=read_text, metavar="COLUMN", help="column of ids in ITEMS (default: id)")
    text = "file of the users' features, for --model crowd; its column of ids is named as in DATA, or id, person, ..."
    add("--users", type=read_path, help=text)
    text = "column of groups, such as persons, that are not divided in splits, so that tests are on unseen groups"
    add("--group", type=read_text, metavar="COLUMN", help=f"{text}; also for rows with labels")
    text = "column of dates or numbers: the latest rows are held out, and folds are tested on later rows"
    add("--time-split", type=read_text, metavar="COLUMN", help=text)
    add("--max-inducing", type=at_least(1), metavar="M", help=_MAX_INDUCING.format(500))
    add = parser.add_argument_group("ratings").add_argument
    text = "column of the users (default: user); also for --model crowd"
    add("--user", type=read_text, metavar="COLUMN", help=text)
    add("--item", type=read_text, metavar="COLUMN", help="column of the rated or ranked items (default: item)")
    add("--rating", type=read_text, metavar="COLUMN", help="column of the ratings (default: rating)")
    text = "columns of ratings, one for each item, where a row is one person; a * stands for any text, as in "
    text += '"Q3_*"; also for comparisons, where the higher rating wins'
    add("--item-ratings", type=read_names, metavar="A,B,...", help=text)
    add(
        "--levels",
        type=read_names,
        metavar="A,B,...",
        help="all levels, low to high (default: the numbers in the file)",
    )
    text = "what to do with different ratings of an item by one user (default: error)"
    add("--duplicates", choices=["error", "mean", "last"], help=text)
    add("--sweeps", type=at_least(2), metavar="N", help="sweeps of a chain, a fifth of them burn-in (default: 50)")
    add("--factors", type=at_least(1), metavar="K", help="largest number of factors, for --model m3f (default: 100)")
    add = parser.add_argument_group("rows with labels").add_argument
    add("--label", type=read_text, metavar="COLUMN", help="column of the labels, also of comparisons (default: label)")
    text = (
        "columns of features (default: all columns except label, id, weight and group); with --contest, those of the "
    )
    text += "items, such as brand,price; words become columns of 0 and 1"
    add("--features", type=read_names, metavar="A,B,...", help=text)
    add(
        "--class-order",
        type=read_names,
        metavar="A,B,...",
        help="all labels, low to high (default: numbers as they are)",
    )


def _add_file_options(parser: argparse.ArgumentParser) -> None:
    """Add how the file is written, and its columns of items: of `tune`, `fit` and `predict`."""
    add = parser.add_argument_group("file").add_argument
    add("--left", type=read_text, metavar="COLUMN", help="column of the left items (default: left, or model_a)")
    add("--right", type=read_text, metavar="COLUMN", help="column of the right items (default: right, or model_b)")
    text = "names of the columns, if the file has no header"
    add("--columns", type=read_names, metavar="A,B,...", help=text)
    _add_text_options(add)


def _add_text_options(add: Any) -> None:
    """Add how text is written, and what is done with cells that hold nothing."""
    text = "separator of cells: one character, ::, or tab, comma, semicolon, bar, space (default: detected)"
    add("--separator", type=read_separator, metavar="CHARACTER", help=text)
    add("--decimal", choices=[".", ","], help="decimal separator of numbers in all text files (default: .)")
    add("--encoding", type=read_encoding, metavar="NAME", help="encoding of all text files (default: utf-8)")
    text = "what to do with incomplete rows, where a cell is empty or has text such as NA for a number (default: error)"
    add("--missing", choices=["error", "drop"], help=text)


def _add_job_options(parser: argparse.ArgumentParser, trials: int) -> None:
    add = parser.add_argument_group("job").add_argument
    add("--trials", type=at_least(1), default=trials, metavar="N", help=f"trials of the search (default: {trials})")
    add("--timeout", type=read_positive, metavar="S", help="seconds after which no further trial begins")
    add(
        "--out",
        type=read_path,
        default=Path("skpref-out"),
        metavar="DIR",
        help="folder of results (default: skpref-out)",
    )
    add("--seed", type=at_least(0), default=0, metavar="N", help="random seed (default: 0)")
    text = "folds of the cross-validation (default: 4; with ratings, one split that holds out some of each user)"
    add("--folds", type=at_least(2), metavar="N", help=text)
    text = "share that is held out (default: 0.2); with ratings, of each user's; 'one': one rating of each user"
    add("--holdout", type=read_share, default=0.2, metavar="SHARE", help=text)
    text = "file, or address of a database, for finished trials: the same command resumes from them"
    add("--storage", type=read_text, metavar="FILE", help=text)
    add("--experiment", type=read_text, default="skpref", metavar="NAME", help="MLflow experiment (default: skpref)")
    add("--no-mlflow", action="store_false", dest="mlflow", help="do not track")
    add("--json", action="store_true", help=_JSON)


def _add_demo(commands: Any) -> None:
    demo = commands.add_parser(
        "demo",
        help="tune a model on simulated battles, or on real data with --dataset",
        description="Run `tune` on simulated battles of language models whose judges like long answers; or, in one to "
        "two minutes, on the choices of 210 travellers among air, train, bus and car (Greene and Hensher; "
        "statsmodels' modechoice), holding out whole travellers.",
    )
    demo.add_argument("--dataset", choices=["arena", "travellers"], default="arena", help="default: arena")
    demo.add_argument("--model", choices=["gppl"], default="gppl", help="model (default: gppl)")
    demo.add_argument("--max-inducing", type=at_least(1), metavar="M", help=_MAX_INDUCING.format(150))
    _add_job_options(demo, trials=10)
    demo.set_defaults(kind=Demo, data=None)


def _add_fit(commands: Any) -> None:
    fit = commands.add_parser(
        "fit",
        usage="%(prog)s [OPTIONS] DATA",
        help="fit a model with given settings, without a search",
        description="Fit one model to a whole file, with default or other settings, and save it. Files and models are "
        "the same as for `tune`.",
    )
    _add_data_options(fit)
    add = fit.add_argument_group("fit").add_argument
    text = "a parameter of the estimator, such as C=0.1 or kernel=auto; repeat the option for several"
    add("--set", type=read_setting, action="append", default=[], dest="settings", metavar="NAME=VALUE", help=text)
    add(
        "--out", type=read_path, default=Path("model.skpref"), metavar="FILE", help="model file (default: model.skpref)"
    )
    add("--seed", type=at_least(0), default=0, metavar="N", help="random seed (default: 0)")
    add("--json", action="store_true", help=_JSON)
    fit.set_defaults(kind=Fit)


def _add_predict(commands: Any) -> None:
    predict = commands.add_parser(
        "predict",
        help="predict the rows of a file with a saved model",
        description="Add columns of predictions to a file: the probability that left is preferred (from columns left, "
        "right and, for a crowd, user), the rating of an item by a user (from user, item), or the label of features.",
    )
    add = predict.add_argument
    add("model", type=read_path, metavar="MODEL", help=_MODEL)
    add(
        "data",
        type=read_path,
        metavar="DATA",
        help="CSV, JSON or Parquet file (or folder) of rows to predict; - is standard input",
    )
    add("--user", type=read_text, metavar="COLUMN", help="column of users (default: user)")
    add("--item", type=read_text, metavar="COLUMN", help="column of items (default: item)")
    _add_file_options(predict)
    add("--top", type=at_least(1), default=20, metavar="N", help="rows to print (default: 20)")
    add("--out", type=read_path, metavar="FILE", help="write all rows to this CSV file")
    add("--json", action="store_true", help=_JSON)
    predict.set_defaults(kind=Predict)


def _add_rank(commands: Any) -> None:
    rank = commands.add_parser(
        "rank",
        help="rank items with a saved model, or recommend items to a user",
        description="Rank items by their features. ITEMS has a column id and the features that the model was tuned "
        "with, in any order; other columns are ignored. A model without features ranks the items of its data. A model "
        "of a crowd ranks by the consensus, or by the utilities of one user. A model of ratings ranks items for one "
        "user; m3f and ipm3f leave out what the user has rated. A model of features ranks the rows of ITEMS by their "
        "predictions.",
    )
    add = rank.add_argument
    add("model", type=read_path, metavar="MODEL", help=_MODEL)
    add("items", type=read_path, metavar="ITEMS", nargs="?", help="what to rank; default: all known items")
    add("--id", type=read_text, metavar="COLUMN", help="column of ids in ITEMS (default: id)")
    text = "groups in which to rank, with a model that was learnt with --groups, such as category=code"
    add("--groups", type=read_names, metavar="COLUMN=GROUP,...", help=text)
    text = "id of the user for whom items are ranked, with a model of a crowd or of ratings"
    add("--user", type=read_text, metavar="ID", help=text)
    text = "of a model of comparisons: utility in units of the answer noise (default), or elo points with average 1500"
    add("--scale", choices=["utility", "elo"], default="utility", help=text)
    _add_text_options(add)
    add("--top", type=at_least(1), default=20, metavar="N", help="items to print (default: 20)")
    add("--out", type=read_path, metavar="FILE", help="write the whole ranking to this CSV file")
    add("--json", action="store_true", help=_JSON)
    rank.set_defaults(kind=Rank)


def _add_elicit(commands: Any) -> None:
    elicit = commands.add_parser(
        "elicit",
        help="ask a person the most informative questions, and print what follows from the answers",
        description="Ask questions in the terminal, and print what follows from the answers: estimates, their "
        "uncertainty, recommendations, the next question. MODEL is a model of comparisons (answers 1 or 2), of "
        "ratings, or a Pipeline of OneHotDesign and a factorization machine (answers y or n, or a number). s skips a "
        "question, u takes the last answer back, q quits. The file of the model is not changed.",
    )
    add = elicit.add_argument
    add("model", type=read_path, metavar="MODEL", help=_MODEL)
    text = "id of the user who answers, with a model of several users (default: a new user)"
    add("--user", type=read_text, metavar="ID", help=text)
    text = "file of possible questions: a column item, or left and right for comparisons (default: all items)"
    add("--candidates", type=read_path, metavar="FILE", help=text)
    add(
        "--strategy",
        choices=get_args(Strategy),
        default="determinant",
        help="how to choose questions (default: determinant)",
    )
    add("--questions", type=at_least(1), default=20, metavar="N", help="largest number of questions (default: 20)")
    text = "stop when the expected information gain of every question is below this, in nats (default: 0)"
    add("--min-gain", type=read_gain, default=0.0, metavar="G", help=text)
    text = "JSON file for questions and answers: the same command resumes from it"
    add("--session", type=read_path, metavar="FILE", help=text)
    add("--out", type=read_path, metavar="FILE", help="write a copy of the model that has learnt from the answers")
    add("--top", type=at_least(1), default=10, metavar="N", help="items to print (default: 10)")
    add("--json", action="store_true", help="print the result as JSON, and questions to standard error")
    add("--seed", type=at_least(0), default=0, metavar="N", help="random seed (default: 0)")
    elicit.set_defaults(kind=Elicit)


def _add_sync(commands: Any) -> None:
    sync = commands.add_parser(
        "mlflow-sync",
        help="send runs that MLflow could not receive earlier",
        description="If the MLflow store fails, fits continue and their runs are kept in a folder. This command sends "
        "them. Nothing is sent twice, and what has arrived is deleted from the folder.",
    )
    text = "folder named in the warning (default: mlruns/spool)"
    sync.add_argument("spool", nargs="?", type=read_path, default=Sync.DEFAULT, metavar="FOLDER", help=text)
    text = "the store (default: the store of the run; an address with a password is not remembered)"
    sync.add_argument("--tracking-uri", metavar="URI", help=text)
    sync.add_argument("--experiment", metavar="NAME", help="send to this experiment instead (created if necessary)")
    sync.add_argument("--json", action="store_true", help="print JSON for programs")
    sync.set_defaults(kind=Sync)


# ----------------------------------------------------------------------------------------------------------- experiment
class _Strict(_Parser):
    """A parser that raises its complaints."""

    def error(self, message: str) -> Any:
        raise DataError(message)


def _read_experiment(file: Path, out: Path | None, *, json: bool) -> Tune:
    """Read a TOML file as options of `skpref tune`."""
    argv, space, has_file = read_arguments(file)
    try:
        values = vars(_parser(_Strict).parse_args(argv))
        del values["kind"]
        options = Tune(**values)
    except DataError as error:
        raise DataError(f"{file}: {by_key(str(error))}") from error
    data = options.data if has_file else None
    return replace(options, data=data, space=space, file=file, json=json, out=options.out if out is None else out)
