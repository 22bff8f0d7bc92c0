"""What is different where rows of X are tasks: several items that were shown together, and one was chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from skpref._warn import warn
from skpref.data.tasks import ID, Answers, Tasks, as_comparisons, pairs_of_tasks, read_answers, shown_twice
from skpref.exceptions import DataWarning
from skpref.gp.capabilities import Capabilities
from skpref.inference.choices import shares_of
from skpref.likelihoods import Luce

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from skpref._typing import Array, IntArray
    from skpref.data import Comparisons
    from skpref.gp.entities import Entities

# Tasks have likelihood="luce", whatever they are given.
TASKS = Capabilities(
    "tasks, which show several items",
    {
        "likelihood": ("luce", "auto", "probit", "logit", Luce),
        "inference": ("auto", "vb"),
        "left": (None,),
        "right": (None,),
    },
    "pass comparisons of two items",
)


def add_positions(tasks: Tasks, n_positions: int) -> Array:
    """Return the covariates of the alternatives and indicators of positions but the last, shape (n, K, q)."""
    n, K = tasks.present.shape
    place = np.broadcast_to(np.eye(K, n_positions - 1), (n, K, n_positions - 1))
    return place if tasks.covariates is None else np.concatenate([tasks.covariates, place], axis=2)


def encode_tasks(
    sides: Sequence[str], items: Entities, tasks: Tasks, y: Any, sample_weight: Any, **more: Any
) -> tuple[Comparisons, Answers]:
    """Return choices by rows of the vocabularies, with more columns of tasks, and the answers they follow from."""
    has_profiles = items.features is not None
    numbers = tasks.numbers(items.vocabulary, profiles=has_profiles)
    answers = read_answers(y, tasks)
    if (twice := shown_twice(numbers)).any():
        warn(
            f"{int(twice.sum())} tasks show an item more than once, first task {int(np.argmax(twice))}: each copy "
            "counts as an alternative. If they are different items, give them ids of their own.",
            DataWarning,
        )
    shown = [set(ids.tolist()) for ids in tasks.shown]
    alike = [any(own & other for other in shown if other is not own) for own in shown]
    # Fewer may share no id by chance.
    if not has_profiles and len(numbers) >= 10 and any(alike) and not all(alike):
        place = alike.index(False) + ("user" in sides)
        warn(
            f"Column {place} of X has ids that no other column has: if it holds no items, leave it out of X.",
            DataWarning,
        )
    alone = int(np.count_nonzero(tasks.present.sum(axis=1) < 2))
    if alone:
        warn(f"{alone} tasks of X show fewer than two items and say nothing: they are left out.", DataWarning)
    return as_comparisons(answers, numbers, items.vocabulary.size, sample_weight, **more), answers


def predict_shares(
    tasks: Tasks, items: Entities, covariates: Array | None, moments: Callable[..., tuple[Array, Array]]
) -> Array:
    """Return the probability that each position is chosen, 0 where nothing was shown, shape (n, K).

    `moments` are posterior means and variances of pairs, each of one task.
    """
    has_profiles = items.features is not None
    numbers = tasks.numbers(items.vocabulary, "raise" if has_profiles else "mark", profiles=has_profiles)
    # Items that the fit does not know are different ones, of which nothing is known but the prior.
    known = np.where(numbers == -2, -3 - np.arange(numbers.size).reshape(numbers.shape), numbers)
    left, right, task, order = pairs_of_tasks(tasks.present)
    distinct = np.unique(known[known != -1])
    sides = (np.searchsorted(distinct, known[task, side]) for side in (left, right))
    pairs = items.rows(np.maximum(distinct, -1)), *sides
    of_pairs = moments(task, pairs, None if covariates is None else covariates[task, left] - covariates[task, right])
    sizes = tasks.present[order].sum(axis=1)
    out, several = np.zeros(numbers.shape), sizes > 1
    starts = np.concatenate([[0], np.cumsum((sizes * (sizes - 1) // 2)[several])])
    out[order[~several]] = np.where(tasks.present[order[~several]], 1.0, 0.0)
    shares = np.zeros((int(several.sum()), numbers.shape[1]))
    shares[tasks.present[order[several]]] = shares_of(starts, *of_pairs)
    out[order[several]] = shares
    return out


def chosen_items(tasks: Tasks, place: IntArray, form: str | None) -> NDArray[Any]:
    """Return what was chosen in each task in the form of the answers: the position, or the id there."""
    if form != ID:
        return place
    chosen = tasks.ids[np.arange(place.size), place]
    plain = all(isinstance(value, str | int) for value in chosen.tolist())
    return np.array(chosen.tolist()) if plain else chosen
