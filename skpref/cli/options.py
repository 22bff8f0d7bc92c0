"""What can be typed: one table of options, from which the parser is made."""

from __future__ import annotations

import argparse
import ast
import inspect
import sys
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterator, Sequence
from dataclasses import Field, dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from skpref._text import nearest
from skpref._version import __version__
from skpref.exceptions import DataError

MODELS = {  # with a few words for --help
    "gppl": "comparisons: one utility for each item",
    "crowd": "comparisons by users: a consensus and personal utilities",
    "m3f": "ratings: factors of users and items",
    "ipm3f": "ratings: binary features of users; their number is learnt",
    "ordinal": "features with ordered labels: a Gaussian process",
    "fm": "a number by user and item: a factorization machine",
    "fm-classifier": "0 or 1 by user and item: a factorization machine",
    "fm-ordinal": "ratings as levels by user and item: a factorization machine",
    "svgp": "features with a number: a sparse Gaussian process",
    "svgp-classifier": "features with one of two classes: a sparse Gaussian process",
}
_SCALES = "utility", "elo"
_SEPARATORS = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "bar": "|", "space": " "}
STRATEGIES = "random", "mean", "variance", "information", "determinant"
TRAVELLERS = "travellers"
SPOOL = Path("mlruns/spool")
_JSON = "print JSON to standard output, and messages to standard error"
Place = tuple[str | None, ...]


PAIRS, _CHAINS, _ROWS = ("gppl", "crowd"), ("m3f", "ipm3f"), ("ordinal", "svgp", "svgp-classifier")
_STARS, _LEVELS = (*_CHAINS, "fm", "fm-classifier", "fm-ordinal"), (*_CHAINS, "fm-ordinal")
# Places of options: a group of the help (None: no group), and the models that have the option (all, if none is named).
_FILE, _JOB, _ALONE = ("file",), ("job",), (None,)
_COMPARED, _RATED, _LABELLED = ("comparisons", *PAIRS), ("ratings", *_STARS), ("rows with labels", *PAIRS, *_ROWS)


# -------------------------------------------------------------------------------------------------------------- values
def _number(low: float, high: float = sys.float_info.max, *, whole: bool = False) -> Callable[[str], Any]:
    """Return a reader of numbers in a range."""

    def read(text: str) -> float:
        try:
            value = int(text) if whole else float(text)
        except ValueError:
            raise ArgumentTypeError(f"{text[:80]!r} is not a {'whole ' if whole else ''}number") from None
        if not low <= value <= high:
            what = f"less than {low:.15g}" if value < low else f"more than {high:.15g}" if value > high else "no number"
            raise ArgumentTypeError(f"{text[:80]} is {what}")
        return value

    return read


def _read_share(text: str) -> float:
    """Read a share that is held out; 0 stands for one rating of each user."""
    return 0.0 if text == "one" else float(_number(0.05, 0.5)(text))


def _read_text(text: str) -> str:
    """Read a text that is not empty."""
    if not text.strip():
        raise ArgumentTypeError("is empty")
    if "\0" in text:
        raise ArgumentTypeError("holds a zero byte")
    return text


def _read_path(text: str) -> Path:
    """Read a path."""
    return Path(_read_text(text))


def _read_names(text: str) -> tuple[str, ...]:
    """Read names with commas between them."""
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise ArgumentTypeError(f"{text!r} is not a list of names with commas between them")
    return names


def _read_setting(text: str) -> tuple[str, Any]:
    """Read NAME=VALUE, the value as Python writes it, or a word."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    try:
        return name, ast.literal_eval({"true": "True", "false": "False"}.get(value, value))
    except (SyntaxError, ValueError):
        return name, value  # a word
    except (MemoryError, RecursionError):
        raise ArgumentTypeError(f"{text[:80]!r} ... is nested too deeply") from None


def _read_separator(text: str) -> str:
    """Read the one character between cells, or its name, or ::."""
    separator = _SEPARATORS.get(text.lower(), text)
    if (len(separator) != 1 or separator in '"\r\n\0') and separator != "::":
        raise ArgumentTypeError(f"{text[:80]!r} is not one character, nor one of {', '.join(_SEPARATORS)}, ::")
    return separator


def _read_encoding(text: str) -> str:
    """Read the name of an encoding of text."""
    try:
        "".encode(text)
    except (LookupError, ValueError):
        raise ArgumentTypeError(f"{text[:80]!r} is no encoding; try utf-8, latin-1, cp1252, utf-16") from None
    return text


# ------------------------------------------------------------------------------------------------------------- options
def _option(text: str, place: Place = _ALONE, default: Any = None, **more: Any) -> Any:
    """Return a field with an option; further entries are argparse's."""
    return field(default=default, kw_only=True, metadata={"help": text, "place": place, **more})


def _argument(text: str, metavar: str, **more: Any) -> Any:
    """Return a field that is typed without its name."""
    return field(metadata={"help": text, "place": _ALONE, "type": _read_path, "metavar": metavar, **more})


_name = partial(_option, type=_read_text, metavar="COLUMN")
_names = partial(_option, type=_read_names, metavar="A,B,...")
_path = partial(_option, type=_read_path, metavar="FILE")
_flag = partial(_option, default=False, action="store_true")


def _whole(text: str, low: int, place: Place = _ALONE, default: int | None = None) -> Any:
    return _option(text, place, default, type=_number(low, 2**32 - 1, whole=True), metavar="N")  # the largest seed


def _choice(text: str, place: Place, *choices: str) -> Any:
    """Return an option of words, the first of which is what happens without it."""
    return _option(f"{text} (default: {choices[0]})", place, choices=choices)


Names = tuple[str, ...] | None


@dataclass(frozen=True)
class Text:
    """How text is written, and what is done with cells that hold nothing."""

    separator: str | None = _option(
        "character between cells, or a word such as tab (default: detected)", _FILE, type=_read_separator
    )
    decimal: str | None = _choice("decimal separator of all text files", _FILE, ".", ",")
    encoding: str | None = _option("encoding of all text files (default: utf-8)", _FILE, type=_read_encoding)
    missing: str | None = _choice("rows with an empty cell, or text such as NA for a number", _FILE, "error", "drop")
    columns: Names = field(default=None, kw_only=True)  # names, where no line of the file has them


@dataclass(frozen=True)
class File(Text):
    """The same, and the columns of the items; of `tune`, `fit` and `predict`."""

    left: str | None = _name(
        "column of the left items (default: left, or model_a); of teams, A,B,... of the players", ("file", *PAIRS)
    )
    right: str | None = _name("the same of the right side (default: right, or model_b)", ("file", *PAIRS))
    columns: Names = _names("names of the columns, if the file has no header", _FILE)


@dataclass(frozen=True)
class Data(File):
    """Where the data are and what they mean; of `tune`, `run`, `demo` and `fit`."""

    data: Path | None = _argument("file of comparisons, ratings or rows", "DATA")  # None: the choices of travellers
    model: str = _option("model, see tune --help (default: gppl)", default="gppl", choices=tuple(MODELS))
    winner: str | None = _name("column of the winner: an id, or a word for its side", _COMPARED)
    loser: str | None = _name("column of the loser; rows are then (winner, loser)", _COMPARED)
    score: Names = _names("column of 2-1, or of left minus right; or both scores, A,B; the higher wins", _COMPARED)
    counts: Names = _names("columns of the wins of left, the wins of right, and ties", _COMPARED, metavar="A,B[,C]")
    mirrored: str | None = _choice(
        "games listed for both sides: read once or twice", _COMPARED, "error", "drop", "keep"
    )
    rest: str | None = _option(
        "items that a ranking does not name (default: error if it names one)", _COMPARED, choices=("unknown", "lost")
    )
    unranked: Names = _names("ranks that mean `not ranked`, such as 0,99,DNF; none: all are ranks", _COMPARED)
    ranking: Names = _names("columns of rankings, the best first; cells at the end may be empty", _COMPARED)
    item_ranks: Names = _names("columns of ranks, one for each item, with its name; 1 is the best", _COMPARED)
    contest: Names = _names(
        "column (or columns) of the ranking or task, where a row is one --item with its --rank, or --chosen (1 or 0)",
        _COMPARED,
        metavar="A[,B]",
    )
    rank: str | None = _name("column of ranks, with --contest (default: rank)", _COMPARED)
    offered: Names = _names("columns of items of which one was chosen, see --chosen", _COMPARED)
    chosen: str | None = _name("column of the choice: its id or column; with --contest, 1 or 0", _COMPARED)
    worst: str | None = _name("column of the worst item: best-worst scaling (MaxDiff); see --chosen", _COMPARED)
    on_self: str | None = _choice("rows that compare an item with itself", _COMPARED, "error", "drop")
    covariates: Names = _names(
        "columns, or differences of two, whose effects are learnt: home,length_a-length_b; positive favours left; in "
        'rows of several items, patterns of a column for each: "price_*"',
        _COMPARED,
    )
    groups: Names = _names("columns of groups with utilities of their own; see rank --groups", _COMPARED)
    context: Names = _names("columns of numbers on which utilities depend; see rank --context", _COMPARED)
    time: str | None = _name("column of dates or numbers: utilities move in time", _COMPARED)
    weight: str | None = _name("column of weights, of any kind of rows (default: all weights are 1)", ("comparisons",))
    items: Path | None = _path("file of the items' features", _COMPARED, metavar="ITEMS")
    id: str | None = _name("column of ids in ITEMS (default: id)", _COMPARED)
    users: Path | None = _path("file of ids and features of the users", ("comparisons", "crowd"), metavar="USERS")
    group: str | None = _name("column of groups that splits keep whole, such as persons", ("job", *PAIRS, *_ROWS))
    time_split: str | None = _name("column of dates or numbers: the latest rows are held out", _COMPARED)
    user: str | None = _name("column of the users (default: user)", ("ratings", "crowd", *_STARS))
    item: str | None = _name("column of the rated or ranked items (default: item)", (*_RATED, *PAIRS))
    rating: str | None = _name("column of the ratings (default: rating)", _RATED)
    item_ratings: Names = _names(
        'columns of ratings, one for each item, where a row is one person; or a pattern: "Q3_*"', (*_RATED, *PAIRS)
    )
    levels: Names = _names("all levels, low to high (default: the numbers)", ("ratings", *_LEVELS, "ordinal"))
    duplicates: str | None = _choice(
        "different ratings of an item by one user", ("ratings", *_CHAINS), "error", "mean", "last"
    )
    label: str | None = _name("column of the labels (default: label)", _LABELLED)
    features: Names = _names(
        "columns of features (default: all others but id); with --contest, attributes of what was shown, such as "
        'brand,price; in a table with a row for each choice, patterns such as "price_*,brand_*"',
        _LABELLED,
    )
    none: str | None = _name("word in an attribute, or in --chosen, for none of the others", _COMPARED, metavar="WORD")
    settings: Sequence[tuple[str, Any]] | None = _option(
        "a parameter of the estimator, such as C=0.1; for a search also a list of values; may be repeated",
        _JOB,
        type=_read_setting,
        action="append",
        flag="--set",
        metavar="NAME=VALUE",
    )
    seed: int = _whole("random seed (default: 0)", 0, _JOB, 0)
    json: bool = _flag(_JSON, _JOB)

    @property
    def has_wide_features(self) -> bool:
        """Whether --features names the columns of all positions by patterns."""
        is_pattern = ["*" in name for name in self.features or ()]
        return bool(is_pattern) and all(is_pattern) and self.model in PAIRS and not self.contest

    @property
    def sources(self) -> tuple[Path | None, ...]:
        """Return the files that are read."""
        return self.data, self.items, self.users

    def __post_init__(self) -> None:
        for option in options_of(type(self)):
            models = option.metadata["place"][1:]
            if models and self.model not in models and getattr(self, option.name) is not None:
                owners = [name for name in MODELS if name in models]
                shown = " or ".join(filter(None, [", ".join(owners[:-1]), owners[-1]]))
                raise DataError(f"{flag_of(option.name)} is for --model {shown}, not for {self.model}")
        if self.time_split is not None and self.group is not None:
            raise DataError("--time-split and --group are two ways to split; give one of them")
        if self.features is not None and self.model in PAIRS:
            if self.items or self.item or not (self.contest or self.has_wide_features):
                wanted = '--contest, where a row is one item, or patterns such as "price_*", and no --item or --items'
                raise DataError(f"--features are attributes of the items in each choice: they need {wanted}")
        elif self.none is not None:
            raise DataError("--none needs --features, the attributes of what was shown")


@dataclass(frozen=True)
class Tune(Data):
    """Tune a model on a file: search for settings, test on held-out rows, write report, plots and model.

    models:
    {models}

    Files are CSV, JSON (a list, or one record in each line) or Parquet, and may be compressed by gzip.
    - is standard input.
    A file of comparisons has the columns left, right, label (1 = left preferred, 0 = right, 0.5 = tie);
    or model_a, model_b, winner (an id, or words such as model_a, b, tie, both bad); or winner, loser.
    --model crowd also needs a column user. For columns with other names use --left, --right, --label,
    --winner, --loser, --score, --counts, --user; --weight names a column of weights. A line says which
    column was taken for what, and which were not used.
    With --model crowd some comparisons of each user are held out, and annotators.csv says how far each
    user agrees with the consensus. ITEMS has a column id; all its other columns are numeric features.
    A file of ratings has the columns user, item and rating. Some ratings of each user are held out.
    A grid of ratings has one row for each person and one column for each item: --item-ratings "Q3_*"
    --user PERSON.
    A row of choices has several items: --offered A,B,C --chosen COLUMN, for MaxDiff also --worst COLUMN.
    Or a row is one of the items of a task: --contest PERSON,TASK --item COLUMN --chosen COLUMN.
    A file of rows has a column label and numeric features.
    """

    trials: int = _whole("trials of the search (default: 30)", 1, _JOB, 30)
    timeout: float | None = _option("seconds after which no trial begins", _JOB, type=_number(0.0), metavar="S")
    out: Path = _path("folder of results (default: skpref-out)", _JOB, Path("skpref-out"), metavar="DIR")
    folds: int | None = _whole("folds (default: 4; with ratings, one split that holds out some of each user)", 2, _JOB)
    holdout: float = _option(
        "share that is held out (default: 0.2); with ratings, of each user's; 'one': one rating of each user",
        *(_JOB, 0.2),
        type=_read_share,
        metavar="SHARE",
    )
    storage: str | None = _option("file or database of finished trials, to resume from", _JOB, type=_read_text)
    experiment: str = _option("MLflow experiment (default: skpref)", _JOB, "skpref", type=_read_text)
    mlflow: bool = _option("do not track", _JOB, default=True, action="store_false")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.holdout and self.model not in _CHAINS:
            raise DataError("--holdout one is for ratings (m3f, ipm3f); other models hold out a share, such as 0.2")


@dataclass(frozen=True)
class Demo(Tune):
    """Run `tune` on simulated battles of language models whose judges like long answers.

    Or, in one to two minutes, on the choices of 210 travellers among air, train, bus and car (Greene and Hensher;
    statsmodels' modechoice), holding out whole travellers.
    """

    data: Path | None = field(default=None, kw_only=True)
    dataset: str = _option("default: arena", default="arena", choices=("arena", TRAVELLERS))
    model: str = _option("model (default: gppl)", default="gppl", choices=("gppl",))
    trials: int = _whole("trials of the search (default: 10)", 1, _JOB, 10)


@dataclass(frozen=True)
class Run:
    """Do what `tune` does, with the options in a TOML file.

    Its sections are [data], [model], [search], [space], [tracking] and [output]. Keys are the options
    of `tune`. In [space], a setting has one value, a list of values, or
    {{ low = ..., high = ..., log = true }}. Paths are relative to the folder of the file. The same
    file gives the same numbers. With storage in [search], a run that was stopped or killed resumes
    from its finished trials when it is started again.

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
      mlflow = false
    """

    file: Path = _argument("", "EXPERIMENT.toml")
    out: Path | None = _path("folder of results, instead of the one in the file", metavar="DIR")
    json: bool = _flag(_JSON)


@dataclass(frozen=True)
class Fit(Data):
    """Fit one model to a whole file, with default or other settings, and save it.

    Files and models are the same as for `tune`.
    """

    out: Path = _path("model file (default: model.skpref)", _JOB, Path("model.skpref"))


@dataclass(frozen=True)
class Saved:
    """A saved model, and what is done with the result."""

    model: Path = _argument("file that `tune`, `run`, `fit` or skpref.save wrote", "MODEL")
    out: Path | None = _path("write all rows to this CSV file")
    json: bool = _flag(_JSON)


@dataclass(frozen=True)
class Predict(File, Saved):
    """Add columns of predictions to a file.

    These are the probability that left is preferred (from columns left, right and, for a crowd, user), the item that
    is chosen and the probabilities of all that are shown, the rating of an item by a user (from user, item), or the
    label of features.
    """

    data: Path = _argument("CSV, JSON or Parquet file (or folder) of rows to predict; - is standard input", "DATA")
    user: str | None = _name("column of users (default: user)")
    item: str | None = _name("column of items (default: item)")
    offered: Names = _names("columns of the items that a row shows (default: those that the model was learnt from)")
    contest: Names = _names("column (or columns) of the task, where a row is one --item (default: the same)")
    time: str | None = _name("column of times, of a model that was learnt with --time (default: the same column)")
    top: int = _whole("rows to print (default: 20)", 1, default=20)
    features: Names = field(default=None, kw_only=True)  # as `fit` had them, of a model of attributes
    covariates: Names = field(default=None, kw_only=True)
    context: Names = field(default=None, kw_only=True)
    none: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.offered and self.contest:
            raise DataError("--offered is of rows that show several items, --contest of one item in a row: give one")


@dataclass(frozen=True)
class Rank(Text, Saved):
    """Rank items by their features.

    ITEMS has a column id and the features that the model was tuned with, in any order; other columns are ignored. A
    model without features ranks the items of its data. A model of a crowd ranks by the consensus, or by the utilities
    of one user. A model of ratings ranks items for one user; m3f and ipm3f leave out what the user has rated.
    """

    items: Path | None = _argument("what to rank; default: all known items", "ITEMS", nargs="?")
    id: str | None = _name("column of ids in ITEMS (default: id)")
    groups: Names = _names("groups in which to rank, with --groups of the fit", metavar="COLUMN=GROUP,...")
    context: Names = _names("numbers at which to rank, with --context of the fit", metavar="COLUMN=NUMBER,...")
    user: str | None = _name("user for whom items are ranked, in a crowd or of ratings", metavar="ID")
    at: str | None = _name("time of the ranking, with --time of the fit (default: the last comparison)", metavar="TIME")
    active: str | None = _name("leave out items without a comparison in this time before, such as 365D", metavar="TIME")
    scale: str = _option("unit: the answer noise, or Elo (default: utility)", _ALONE, "utility", choices=_SCALES)
    top: int = _whole("items to print (default: 20)", 1, default=20)


@dataclass(frozen=True)
class Shares(Text, Saved):
    """Predict the shares of products that compete, the average over people of what each would choose.

    MODEL is a CrowdGPPL of choices or rankings, as --model crowd fits it. PRODUCTS has a row for each product and
    the attributes of the model; of a model without features, a column id. A column id or product names the products,
    and a column scenario tells several markets apart. A note lists other columns, which are not used.
    """

    products: Path = _argument("CSV, JSON or Parquet file of products; - is standard input", "PRODUCTS")
    none: bool = _flag("people may choose none of the products")
    rule: Any = _option(
        "noisy choices, or always the best (default: logit)", default="logit", choices=("logit", "first choice")
    )
    credibility: float = _option(
        "probability of the intervals (default: 0.9)", _ALONE, 0.9, type=_number(0.01, 0.999), metavar="P"
    )


@dataclass(frozen=True)
class Elicit(Saved):
    """Ask questions in the terminal, and print what follows from the answers.

    That is: estimates, their uncertainty, recommendations, the next question. MODEL is a model of comparisons (answers
    1 or 2), of ratings, or a Pipeline of OneHotDesign and a factorization machine (answers y or n, or a number). s
    skips a question, u takes the last answer back, q quits. The file of the model is not changed.
    """

    user: str | None = _name("the user who answers, if the model has several (default: a new one)", metavar="ID")
    strategy: Any = _option("how to choose questions (default: determinant)", _ALONE, "determinant", choices=STRATEGIES)
    questions: int = _whole("largest number of questions (default: 20)", 1, default=20)
    session: Path | None = _path("JSON file for questions and answers: the same command resumes from it")
    out: Path | None = _path("write a copy of the model that has learnt from the answers")
    top: int = _whole("items to print (default: 10)", 1, default=10)
    json: bool = _flag("print the result as JSON, and questions to standard error")
    seed: int = _whole("random seed (default: 0)", 0, default=0)


@dataclass(frozen=True)
class Sync:
    """Send runs that MLflow could not receive earlier.

    If the MLflow store fails, fits continue and their runs are kept in a folder. This command sends them. Nothing is
    sent twice, and what has arrived is deleted from the folder.
    """

    spool: Path = _argument(f"folder named in the warning (default: {SPOOL})", "FOLDER", nargs="?", default=SPOOL)
    tracking_uri: str | None = _option("the store (default: that of the run; passwords are not remembered)")
    experiment: str | None = _option("send to this experiment instead (created if necessary)")
    json: bool = _flag(_JSON)


# ------------------------------------------------------------------------------------------------------------- commands
# A command has options, whose docstring is its description, the function that runs it (by name: --help and --version
# need not wait for numba), and a line in the list of commands.
COMMANDS: dict[str, tuple[Any, str, str]] = {
    "tune": (Tune, "tune:tune", "tune a model on a file of comparisons, ratings or labelled rows"),
    "run": (Run, "experiment:run", "tune a model with the options in a TOML file"),
    "demo": (Demo, "tune:demo", "tune a model on simulated battles, or on real data with --dataset"),
    "fit": (Fit, "tune:fit", "fit a model with given settings, without a search"),
    "predict": (Predict, "predict:predict", "predict the rows of a file with a saved model"),
    "rank": (Rank, "rank:rank", "rank items with a saved model, or recommend items to a user"),
    "shares": (Shares, "shares:shares", "predict the shares of products that compete, with a saved model of choices"),
    "elicit": (Elicit, "elicit:elicit", "ask a person the most informative questions, and learn from the answers"),
    "mlflow-sync": (Sync, "sync:sync", "send runs that MLflow could not receive earlier"),
}


def flag_of(name: str) -> str:
    """Return the option of a field as it is typed."""
    return f"--{name.replace('_', '-')}"


def options_of(kind: type[Any]) -> Iterator[Field[Any]]:
    """Yield the fields of a command that can be typed; of `demo`, its own and those of any search."""
    for option in fields(kind):
        own = kind is not Demo or option.name in Demo.__annotations__ or option.metadata.get("place") == _JOB
        if own and option.metadata:
            yield option


# --------------------------------------------------------------------------------------------------------------- parser


class _Parser(argparse.ArgumentParser):
    """A parser without abbreviations, whose complaints are those of other input."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs, allow_abbrev=False)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Refuse unknown arguments where they are found, as the subcommand knows its options."""
        namespace, unknown = super().parse_known_args(args, namespace)
        if unknown:
            hint = nearest(unknown[0].partition("=")[0], list(self._option_string_actions))
            self.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
        return namespace, unknown

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            error.message += nearest(value, list(action.choices or ()))
            raise

    def error(self, message: str) -> NoReturn:
        """Refuse what was typed in one line, as other input is refused."""
        raise DataError(f"{message}; see `{self.prog} --help`")


def parse(argv: Sequence[str]) -> Any:
    """Return the options of the command that was typed."""
    parser = _Parser(
        prog="skpref",
        description="Bayesian preference learning: from comparisons or ratings to a tuned, tracked model.",
        epilog="`skpref COMMAND --help` lists all options. Exit codes: 0 = done, also if a search was stopped after a "
        "trial; 1 = mlflow-sync could not send everything; 2 = the input cannot be used, and a message says why; "
        "130 = stopped before there was a result.",
    )
    parser.add_argument("--version", action="version", version=f"skpref {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, (kind, _, about) in COMMANDS.items():
        _add_command(commands, name, kind, about)
    values = vars(parser.parse_args(argv))
    return values.pop("kind")(**values)


def _add_command(commands: Any, name: str, kind: type[Any], about: str) -> None:
    models = "\n".join(f"  {model:<15} {what}" for model, what in MODELS.items())
    description = (inspect.getdoc(kind) or "").format(models=models)
    form = argparse.RawDescriptionHelpFormatter if "\n  " in description else argparse.HelpFormatter
    parser = commands.add_parser(name, help=about, description=description, formatter_class=form)
    parser.set_defaults(kind=kind)
    groups: dict[str | None, Any] = {None: parser}
    for option in options_of(kind):
        more = {key: value for key, value in option.metadata.items() if key not in {"place", "flag"}}
        group = option.metadata["place"][0]
        if group not in groups:
            groups[group] = parser.add_argument_group(group)
        if not option.kw_only:
            groups[group].add_argument(option.name, **more)
            continue
        off = more.get("action") == "store_false"
        flag = option.metadata.get("flag") or flag_of(f"no_{option.name}" if off else option.name)
        groups[group].add_argument(flag, dest=option.name, default=option.default, **more)
