"""The models of the command line: names only, so that ``--help`` need not wait for numba."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from skpref.exceptions import DataError

if TYPE_CHECKING:
    import argparse

    from skpref.cli._task import Task


class Model(NamedTuple):
    """A model that can be tuned."""

    home: str  # module and function that make the task from the arguments
    about: str  # A few words for ``--help``
    options: tuple[str, ...]  # options that not all models have


MOST = 2**32 - 1  # of any whole number that is asked for: as far as seeds go
_PAIRS = ("user", "item", "rating")
_COMPARISONS = ("items", "id", "group", "max_inducing")
_RATINGS = (*_PAIRS, "levels", "duplicates", "sweeps", "factors")

# A model is a line here, a function that reads its data, and its options in the parser.
MODELS = {
    "gppl": Model("skpref.cli._comparisons.read", "comparisons: one view for all", _COMPARISONS),
    "crowd": Model(
        "skpref.cli._comparisons.read",
        "comparisons: a consensus and a view of each user",
        (*_COMPARISONS, "user", "users"),
    ),
    "m3f": Model("skpref.cli._ratings.read", "ratings: factors of users and items", _RATINGS),
    "ipm3f": Model("skpref.cli._ratings.read", "ratings: as many binary features of users as needed", _RATINGS[:-1]),
    "ordinal": Model(
        "skpref.cli._labels.read_ordinal",
        "features with ordered labels: a Gaussian process",
        ("label", "features", "class_order", "group"),
    ),
    "fm": Model("skpref.cli._labels.read_machine", "numbers by user and item: factorization machine", _PAIRS),
    "fm-classifier": Model("skpref.cli._labels.read_machine", "0 or 1 by user and item: the same", _PAIRS),
    "svgp": Model(
        "skpref.cli._sparse.read_sparse",
        "features with a number: a sparse Gaussian process",
        ("label", "features", "group", "max_inducing"),
    ),
    "svgp-classifier": Model(
        "skpref.cli._sparse.read_sparse",
        "features with one of two classes: the same",
        ("label", "features", "group", "max_inducing"),
    ),
}
SPECIAL = tuple(dict.fromkeys(option for model in MODELS.values() for option in model.options))


def read_task(arguments: argparse.Namespace) -> Task:
    """Read the data of a job, after refusing options that are for other models."""
    model = MODELS[arguments.model]
    for option in SPECIAL:
        if option not in model.options and getattr(arguments, option) is not None:
            owners = [name for name, other in MODELS.items() if option in other.options]
            shown = " or ".join(filter(None, [", ".join(owners[:-1]), owners[-1]]))
            raise DataError(f"--{option.replace('_', '-')} is for --model {shown}, not for {arguments.model}")
    module, _, reader = model.home.rpartition(".")
    task: Task = getattr(import_module(module), reader)(arguments)
    return task
