"""Filtering of further rows into chains over time: an update of their ends, without another fit (docs/maths 12)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from skpref._compiled.chains import filter_rows
from skpref._math.quadrature import gauss_hermite
from skpref.inference.basis import chunks
from skpref.inference.policy import POLICY

if TYPE_CHECKING:
    from skpref._typing import Array, IntArray
    from skpref.inference.trajectories import Trajectories
    from skpref.likelihoods import Likelihood


def filter_chains(
    parts: list[Trajectories],
    slots: list[tuple[int, IntArray, Array]],
    time: Array,
    rest: tuple[Array, Array],
    answers: tuple[Array, Array],
    likelihoods: tuple[list[Likelihood], IntArray],
    of_groups: tuple[Array, Array] | None = None,
    features: Array | None = None,
) -> list[Trajectories]:
    """Return chains with the nodes of rows in the order of time; a slot is the number of a part, chains, coefficients.

    `rest` has the mean and variance of all else in z, and `answers` the labels and weights of the rows; `likelihoods`
    are listed, with the number of each row's. `of_groups` has what differences between groups, which are in `rest`, add
    to means and variances of the first slots, and levels. `features` has by how much all else rises with the
    coefficients of features, shape (N, K), which the chains follow.
    """
    offsets = np.concatenate([[0], np.cumsum([part.n_chains for part in parts])])
    mean, covariance, last = (np.concatenate(each) for each in zip(*(part.ends() for part in parts), strict=True))
    scales = np.repeat([part.scales for part in parts], np.diff(offsets), axis=0)
    chain = np.column_stack([offsets[p] + c for p, c, _ in slots])
    coefficient = np.column_stack([each for *_, each in slots])
    at = np.maximum(time[:, None], last[chain])  # effects, of which all rows tell, may be ahead of a row
    states, (more, level) = (mean, covariance, last), (np.zeros((2, *chain.shape)), None)
    if of_groups is not None:  # of the items, whose slots are the first
        added, level = of_groups
        more[:, :, : added.shape[2]] = added
    reach, step = POLICY.filter_grid
    grid, told = np.arange(-reach, reach + step, step), []
    for few in chunks(time.size, POLICY.filtered_rows):
        labels = np.column_stack([answers[0][few], likelihoods[1][few]])
        levels, answer = np.unique(labels, axis=0, return_inverse=True)
        logs = [likelihoods[0][int(k)].derivatives(np.full(grid.size, level), grid)[0] for level, k in levels]
        rows = (
            chain[few],
            coefficient[few],
            time[few],
            rest[0][few],
            rest[1][few],
            answer.ravel(),
            answers[1][few],
            more[:, few],
        )
        told.append(
            filter_rows(rows, states, scales, (-reach, step, np.array(logs)), gauss_hermite(POLICY.filter_points))
        )
    D, linear = (np.concatenate(each) for each in zip(*told, strict=True))
    linear, out = linear[..., None], []
    if features is not None:
        each = zip(slots, at.T, strict=True)
        falls = np.stack([parts[p].responses(c, times, level) for (p, c, _), times in each], axis=1)
        rises = (features - np.einsum("ns,nsk->nk", coefficient, falls))[:, None]
        share = np.divide(D, coefficient, out=np.zeros(D.shape), where=coefficient != 0.0)
        linear = np.concatenate([linear, D[..., None] * falls + share[..., None] * rises], axis=2)
    for number, part in enumerate(parts):
        mine = np.array([p == number for p, *_ in slots])
        kept = D[:, mine] > 0.0
        nodes = [each[:, mine][kept] for each in (chain - offsets[number], at, D, linear)]
        nodes += [] if level is None or part.groups is None else [level[np.nonzero(kept)[0]]]
        out.append(part.with_nodes(*nodes))
    return out
