"""The gauge of a product: v_d -> c v_d and w_d -> w_d / c change no projection, only what the priors make of them.

Left alone, the two scales of a factor crawl along this direction by ever smaller steps. The best c is known exactly.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from skpref.inference.blocks import DenseBlock
from skpref.inference.problem import divergence
from skpref.inference.scale import GammaScale
from skpref.inference.terms.products import Projection

if TYPE_CHECKING:
    from skpref._typing import Array
    from skpref.inference.problem import Evaluation, Problem, State
    from skpref.inference.terms.products import ProductTerm


def balance(problem: Problem, state: State, evaluation: Evaluation) -> tuple[State, Evaluation]:
    """Move every factor to its best gauge; the bound rises, the projections stay."""
    if not problem.products or not problem.rule.integrates:
        return state, evaluation
    scales, blocks, projections = dict(state.scales), list(state.blocks), list(evaluation.projections)
    n = len(problem.terms)
    for number, product in enumerate(problem.products):
        c = _stretch(product, state)
        for k, side, by in ((n + 2 * number, product.first, c), (n + 2 * number + 1, product.second, 1.0 / c)):
            block = blocks[k]
            assert not isinstance(block, DenseBlock)  # noqa: S101 - sides of products are stacked or diagonal
            blocks[k] = block.stretched(by)
            old = projections[k]
            projections[k] = Projection(old.mean * by[:, None], old.spread * by[:, None] ** 2)
            for name, factor in zip(side.scales, by, strict=True):
                scales[name] = scales[name].moved(-2.0 * float(np.log(factor)))
    state = replace(state, scales=scales, blocks=tuple(blocks))
    bound = float(np.sum(evaluation.sites.value)) - divergence(problem, state)
    return state, replace(evaluation, projections=tuple(projections), bound=bound, objective=bound)


def _stretch(product: ProductTerm, state: State) -> Array:
    """The c of every factor: with x = log c^2 it minimises (a_v - a_w) x + b_v E[s_v] e^-x + b_w E[s_w] e^x."""
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
