"""The design of the consensus: which variables add up to it at each place, and how it moves in time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from skpref.exceptions import DataError
from skpref.gp.crowd.groups import prior_scales
from skpref.gp.crowd.hierarchy import start_state
from skpref.gp.crowd.shape import CHOICE_TOL, fit_to_choose
from skpref.gp.crowd.users import UserRows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skpref._typing import Array
    from skpref.data import Comparisons
    from skpref.gp.crowd.hierarchy import Hierarchy
    from skpref.gp.crowd.model import CrowdConfig, CrowdData
    from skpref.gp.crowd.places import Places
    from skpref.inference.scale import Scale
    from skpref.likelihoods import Likelihood

MOST_ITEMS = 2_000  # items that "ep" accepts: 32 MB a matrix, seconds a pass
# Weight of the answers of a user about an item: rounding errors of the evidence grow with its square. On simulated
# crowds they are up to 1e-5 of it up to here, near the tolerance of passes, and .003 at 9e5, where fits never end.
MAX_WEIGHT = 3e5
# Share of entries of the design below which it is sparse, and entries up to which that saves nothing.
_FEW_ENTRIES, _SMALL = 0.1, 10_000


def design_of(
    places: Places, of_items: Mapping[str, Array], n_effects: int
) -> tuple[Array | sparse.csr_array, list[tuple[str, int]]]:
    """Return the rows of the consensus at the places, shape (L, K), and the sizes of its parts but the effects.

    `of_items` has the columns of each part, shape (n_items, size); groups have the same parts.
    """
    names, columns, n, n_kinds = list(of_items), list(of_items.values()), len(places.group), places.n_levels.size
    if n_kinds:
        names = [*prior_scales(names, n_kinds), *names]
        columns = [*places.columns(columns), *(rows[places.compared] for rows in columns)]
        _check_size(places, sum(rows.shape[1] for rows in columns))
    width = sum(rows.shape[1] for rows in columns)
    rows = np.zeros((places.item.size, width + n_effects))
    if columns:
        rows[:n, :width] = np.hstack(columns)
    rows[n:, width:] = np.eye(n_effects)
    parts = [(name, column.shape[1]) for name, column in zip(names, columns, strict=True)]
    few = np.count_nonzero(rows) < _FEW_ENTRIES * rows.size
    return (sparse.csr_array(rows) if few and rows.size > _SMALL else rows), parts


def choose_timeline(
    model: Hierarchy, of_items: Mapping[str, Array], scales: dict[str, Scale], likelihood: Likelihood
) -> Places:
    """Return the places with the way of moving in time that has the largest evidence."""
    places, state, evidence = model.places, None, []
    assert places.timeline is not None  # noqa: S101 - type narrowing
    candidates = [replace(places, timeline=each) for each in places.timeline.candidates()]
    for each in candidates:
        rows, _ = design_of(each, of_items, places.item.size - len(places.group))
        moving = replace(model, places=each, consensus=rows)
        start = start_state(moving, scales, likelihood, 1.0)
        state = start if state is None else replace(start, S=state.S, tau=state.tau, nu=state.nu)
        fit = fit_to_choose(moving, state, CHOICE_TOL)
        state = fit.state
        evidence.append(fit.evidence)
    return candidates[int(np.argmax(np.nan_to_num(evidence, nan=-np.inf)))]


def take_fewer_steps(model: Hierarchy, of_items: Mapping[str, Array]) -> Hierarchy:
    """Return the model with fewer, longer steps of time."""
    places, place = model.places.coarser(sum(rows.shape[1] for rows in of_items.values()))
    users, n_effects = model.users, places.item.size - len(places.group)
    sizes = (model.n_users, len(places.group)), places.items_or_none
    rows = UserRows.from_comparisons(users.user, place[users.left], place[users.right], users.extra, *sizes)
    consensus, parts = design_of(places, of_items, n_effects)
    return replace(model, users=rows, places=places, consensus=consensus, parts=(*parts, *model.parts[len(parts) :]))


def _check_size(places: Places, n_variables: int) -> None:
    """Refuse groups of items that would take matrices too large."""
    n_places, name, what = len(places.group), "groups", "by group"
    advice = "Use columns with fewer groups, or leave out items; a column of many groups can be `user`."
    if places.timeline is not None:
        name, what, advice = "time", "by step of time and group", "Leave out time or groups, or leave out items."
    if max(n_places, n_variables) > MOST_ITEMS:
        raise DataError(
            f"{name}: {n_places} items {what} were compared, and utilities have {n_variables} variables, one at least "
            f"for each item in each of them; at most {MOST_ITEMS} of either are learnt. {advice}"
        )


def check_data(data: CrowdData, config: CrowdConfig) -> None:
    """Refuse more coordinates than a covariance can have, and weights that rounding does not bear."""
    c, n, what = data.comparisons, data.comparisons.n_items, "compared items"
    if config.part_worths and data.items is not None:
        n, what = data.items.shape[1], "features of items"
    if n > MOST_ITEMS:
        advice = "Use inference='vb'" if c.stage is None else "Use fewer"
        raise DataError(
            f"inference={config.pair.inference!r} learns a covariance of all {what} and takes at most {MOST_ITEMS} "
            f"{what}; got {n}. {advice}."
        )
    if (heaviest := heaviest_user(c)) > MAX_WEIGHT:
        advice = "Divide the weights" + (", or use inference='vb'." if c.stage is None else ".")
        raise DataError(
            f"sample_weight: the answers of a user about an item weigh up to {heaviest:.3g} together; "
            f"inference={config.pair.inference!r} takes at most {MAX_WEIGHT:.0e}. {advice}"
        )


def heaviest_user(c: Comparisons) -> float:
    """Return the largest weight of the answers of a user about an item, or more if it is no more than allowed."""
    user, weight = np.asarray(c.user), c.weight
    most = float(np.bincount(user, weight).max(initial=0.0))
    if most <= MAX_WEIGHT:
        return most
    about = np.concatenate([user, user]) * c.n_items + np.concatenate([c.left, c.right])
    return float(np.bincount(np.unique(about, return_inverse=True)[1], np.tile(weight, 2)).max())
