"""The models of the command line: names only, so that ``--help`` need not wait for numba."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from skpref.exceptions import DataError

if TYPE_CHECKING:
    import argparse

    from skpref.cli._task import Task


class Model(NamedTuple):
    """A model that can be tuned.

    Parameters
    ----------
    home : str
        Module whose `read` makes the task.
    about : str
        A few words for ``--help``.
    options : tuple of str
        Options that not all models have.
    """

    home: str
    about: str
    options: tuple[str, ...]


_RATINGS = ("user", "item", "rating", "levels", "duplicates", "sweeps", "factors")

# A model is a line here, a module with `read`, and its options in the parser.
MODELS = {
    "gppl": Model("skpref.cli._comparisons", "comparisons: one view for all", ("items", "id", "group", "max_inducing")),
    "crowd": Model(
        "skpref.cli._comparisons",
        "comparisons: a consensus and a view of each user",
        ("items", "id", "group", "max_inducing", "user", "users"),
    ),
    "m3f": Model("skpref.cli._ratings", "ratings: factors of users and items", _RATINGS),
    "ipm3f": Model("skpref.cli._ratings", "ratings: as many binary features of users as needed", _RATINGS[:-1]),
}
SPECIAL = tuple(dict.fromkeys(option for model in MODELS.values() for option in model.options))


def read_task(arguments: argparse.Namespace) -> Task:
    """Read the data of a job, after refusing options that are for other models.

    Parameters
    ----------
    arguments : Namespace
        Of the command line.

    Returns
    -------
    Task
        Ready.

    Raises
    ------
    DataError
        If an option is for other models.
    """
    model = MODELS[arguments.model]
    for option in SPECIAL:
        if option not in model.options and getattr(arguments, option) is not None:
            owners = [name for name, other in MODELS.items() if option in other.options]
            shown = " or ".join(filter(None, [", ".join(owners[:-1]), owners[-1]]))
            raise DataError(f"--{option.replace('_', '-')} is for --model {shown}, not for {arguments.model}")
    home: Any = import_module(model.home)
    task: Task = home.read(arguments)
    return task
