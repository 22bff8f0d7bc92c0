"""Mini-batches of Gaussian observations of one block: their sites do not depend on q (docs/maths section 11).

A natural-gradient step therefore needs no moments of q and no matrix factor: it adds the sums over a batch to the
natural parameters. The sums of all batches of an epoch give the exact bound of all observations at its end.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from skpref._math.special import LOG_TWO_PI
from skpref.inference.blocks import DenseBlock
from skpref.inference.collapsed import Moments
from skpref.inference.exact import inverse_spd
from skpref.inference.problem import divergence
from skpref.inference.scale import FixedScale
from skpref.inference.sites import VARIATIONAL
from skpref.inference.terms.base import precision_of
from skpref.likelihoods import Gaussian

if TYPE_CHECKING:
    from skpref.inference.problem import MiniBatch, Problem, State


def has_constant_sites(problem: Problem, state: State) -> bool:
    """Return whether the sites are constant: Gaussian observations of one dense block with a fixed scale."""
    if len(problem.sides) != 1:
        return False
    dense = all(isinstance(block, DenseBlock) for block in state.blocks.values())
    fixed = all(isinstance(scale, FixedScale) for scale in state.scales.values())
    return dense and fixed and problem.rule is VARIATIONAL and isinstance(problem.likelihood, Gaussian)


@dataclass(eq=False)
class Epoch:
    """Steps on mini-batches that hold every observation once."""

    problem: Problem  # all observations, with constant sites
    sums: Moments | None = None  # over the observations of the steps so far; of the Gram matrix the lower triangle

    def step(self, batch: MiniBatch, state: State, rho: float) -> State:
        """Move towards the q that is conjugate to a mini-batch."""
        ((name, term),), expected = batch.terms.items(), state.expected
        weight, beta = batch.weight / batch.inflation, batch.inflation * _beta(batch)
        gram, cross = term.gram(weight), term.rmatvec(weight * batch.y)
        residual = 0.0 if term.residual is None else float(weight @ term.residual) / expected[term.residual_scale]
        prior, square = residual + float(np.trace(gram)), float(weight @ batch.y**2)
        batch_sums = Moments(gram, cross[:, None], prior, square, float(weight.sum()))
        self.sums = batch_sums if self.sums is None else self.sums + batch_sums
        # As `DenseBlock.mixed` without temporary matrices, which would take a fifth of the step.
        block = state.blocks[name]
        assert isinstance(block, DenseBlock)  # noqa: S101 - `has_constant_sites` was asked
        precision = (1.0 - rho) * block.precision
        precision += np.multiply(rho * beta, gram)
        precision.flat[:: precision.shape[0] + 1] += rho * precision_of(term.segments, expected)
        moved = DenseBlock(precision, (1.0 - rho) * block.linear + (rho * beta) * cross)
        return replace(state.with_blocks({name: moved}), step=state.step + 1)

    def bound(self, state: State) -> float:
        """Return the bound of all observations, once there has been a step on each."""
        assert self.sums is not None  # noqa: S101
        (block,), beta, sums = state.blocks.values(), _beta(self.problem), self.sums
        assert isinstance(block, DenseBlock)  # noqa: S101
        gram = sums.gram + np.tril(sums.gram, -1).T
        second = inverse_spd(block.chol) + np.outer(block.mean, block.mean)
        square = sums.square - 2.0 * float(sums.cross[:, 0] @ block.mean) + float(np.vdot(gram, second))
        square += sums.prior - float(np.trace(gram))
        fit = sums.weight * (np.log(beta) - LOG_TWO_PI) - beta * square
        return float(0.5 * fit - divergence(self.problem, state))


def _beta(problem: Problem) -> float:
    assert isinstance(problem.likelihood, Gaussian)  # noqa: S101 - `has_constant_sites` was asked
    return problem.likelihood.precision
