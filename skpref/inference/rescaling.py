"""Rescaling of a product: v_d -> c v_d and w_d -> w_d / c change no projection, only the prior densities.

Without it the two scales of a factor converge slowly along this direction. The best c has a closed form.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from skpref.inference.blocks import DenseBlock
from skpref.inference.problem import divergence
from skpref.inference.scale import GammaScale, moved_scale
from skpref.inference.terms.base import Projection

if TYPE_CHECKING:
    from skpref._typing import Array
    from skpref.inference.problem import Evaluation, Problem, State
    from skpref.inference.terms.products import ProductTerm


def balance(problem: Problem, state: State, evaluation: Evaluation) -> tuple[State, Evaluation]:
    """Rescale every factor optimally: the bound rises, and z keeps its moments."""
    if not problem.products or not problem.rule.integrates:
        return state, evaluation
    scales, blocks, projections = dict(state.scales), dict(state.blocks), dict(evaluation.projections)
    for product in problem.products:
        c = _stretch(product, state)
        for (block_name, side), by in zip(product.sides.items(), (c, 1.0 / c), strict=True):
            block = blocks[block_name]
            assert not isinstance(block, DenseBlock)  # noqa: S101 - sides of products are stacked or diagonal
            blocks[block_name] = block.stretched(by)
            old = projections[block_name]
            projections[block_name] = Projection(old.mean * by[:, None], old.spread * by[:, None] ** 2)
            for name, factor in zip(side.scales, by, strict=True):
                scales[name] = moved_scale(scales[name], -2.0 * float(np.log(factor)))
    state = replace(state, scales=scales, blocks=blocks)
    bound = float(np.sum(evaluation.sites.value)) - divergence(problem, state)
    return state, replace(evaluation, projections=projections, bound=bound, objective=bound)


def _stretch(product: ProductTerm, state: State) -> Array:
    """Return the best c of every factor, shape (D,).

    With x = log c^2 it minimises (a_v - a_w) x + b_v E[s_v] e^-x + b_w E[s_w] e^x.
    """
    c = np.ones(product.first.n_factors)
    for d, names in enumerate(zip(product.first.scales, product.second.scales, strict=True)):
        v, w = (state.scales[name] for name in names)
        if isinstance(v, GammaScale) and isinstance(w, GammaScale):
            tilt = v.shape0 - w.shape0
            a, b = v.rate0 * v.mean, w.rate0 * w.mean
            root = np.sqrt(tilt**2 + 4.0 * a * b)
            # The positive root of b e^x + tilt - a e^-x = 0, without cancellation.
            c[d] = np.sqrt(2.0 * a / (root + tilt) if tilt > 0.0 else (root - tilt) / (2.0 * b))
    return c
