"""Mini-batches for `BayesianGPLVM` (docs/maths section 11; [HFL13] section 4.3).

The bound depends on the rows through sums of their psi statistics, and q(x_n) matters through row n alone. Each step
infers q(x_n) of a batch given the functions; moves running sums towards those of the batch, which is a natural-gradient
step of q(u), since its natural parameters are linear in the sums; and moves hyperparameters and inducing inputs by Adam
along the gradient of the bound at that q(u). Memory: q(x_n) of all rows, and what a batch needs.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from skpref._events import Iteration
from skpref._math.linalg import cholesky_precision, log_det
from skpref.gp.latent.bound import (
    Inputs,
    LatentHyper,
    LatentMapping,
    gradients,
    mapping_at,
    mapping_of,
    moments_of,
    whitening,
)
from skpref.gp.latent.policy import POLICY
from skpref.inference.adam import Adam
from skpref.inference.basis import chunks
from skpref.inference.collapsed import Moments, collapse
from skpref.inference.exact import inverse_spd

if TYPE_CHECKING:
    from skpref._events import OnIteration
    from skpref._typing import Array, IntArray


@dataclass(frozen=True, eq=False)
class LatentFit:
    """The end of a fit."""

    inputs: Inputs
    mapping: LatentMapping
    bounds: list[float]  # the bound at the end, after estimates of each mini-batch pass
    n_iter: int
    converged: bool


def fit_batches(
    Y: Array,
    start: tuple[Inputs, LatentHyper],
    batch_size: int,
    rng: np.random.Generator,
    max_iter: int,
    tol: float,
    callback: OnIteration | None,
) -> LatentFit:
    """Run passes over the rows until a pass gains less than `tol` nats per entry over the one before."""
    inputs, hyper = start
    began, bounds, converged = time.perf_counter(), [], False
    state = _Steps(Y, inputs, hyper, batch_size)
    for step in range(1, max_iter + 1):
        bounds.append(state.one_pass(rng))
        stop = callback is not None and callback(Iteration(step, max_iter, bounds[-1], time.perf_counter() - began))
        converged = len(bounds) > 2 and bounds[-1] - max(bounds[:-1]) < tol * Y.size
        if stop or converged:
            break
    inputs = state.inputs
    for _ in range(POLICY.final_passes):
        mapping, _ = mapping_of(Y, inputs, state.hyper)
        inputs = infer_rows(Y, inputs, mapping)
    mapping, bound = mapping_of(Y, inputs, state.hyper)
    return LatentFit(inputs, mapping, [*bounds, bound], len(bounds), converged)


def infer_rows(Y: Array, inputs: Inputs, mapping: LatentMapping) -> Inputs:
    """Return q(x_n) of all rows, chunk by chunk."""
    parts = [
        mapping.infer(Y[part], Inputs(inputs.mu[part], inputs.s[part]), *POLICY.known_row)[0]
        for part in chunks(Y.shape[0])
    ]
    return Inputs(np.concatenate([part.mu for part in parts]), np.concatenate([part.s for part in parts]))


class _Steps:
    """The state that steps change: q(x_n), hyperparameters, running sums."""

    def __init__(self, Y: Array, inputs: Inputs, hyper: LatentHyper, size: int) -> None:
        self.inputs, self.hyper = Inputs(inputs.mu.copy(), inputs.s.copy()), hyper
        self._Y, self._size = Y, min(size, Y.shape[0])
        self._adam = Adam((hyper.Z.size + hyper.log_w.size + 2,), POLICY.adam_rate)
        self._square = float(np.sum(Y**2))
        exact = moments_of(Y, inputs, hyper, whitening(hyper)[1])
        self._gram, self._cross = exact.gram, exact.cross

    def _sums(self, index: IntArray, root: Array) -> tuple[Array, Array]:
        """Return an estimate of the sums over all rows from the sums of a batch."""
        of_batch, times = moments_of(self._Y[index], self._rows(index), self.hyper, root), self._Y.shape[0] / index.size
        return times * of_batch.gram, times * of_batch.cross

    def _moments(self) -> Moments:
        """Return the running sums, with exact values for the sums that are known."""
        n = float(self._Y.shape[0])
        return Moments(self._gram, self._cross, n * float(np.exp(self.hyper.log_a)), self._square, n)

    def _rows(self, index: IntArray) -> Inputs:
        return Inputs(self.inputs.mu[index], self.inputs.s[index])

    def one_pass(self, rng: np.random.Generator) -> float:
        """Take one step for each batch; return the estimate of the bound."""
        n, total = self._Y.shape[0], 0.0
        for index in np.array_split(rng.permutation(n), max(1, round(n / self._size))):
            total += self._step(np.sort(index))
        return total - self._divergence

    def _step(self, index: IntArray) -> float:
        """Infer the inputs of a batch, move q(u) and the hyperparameters; return the sum of the rows' bounds."""
        hyper, share = self.hyper, index.size / self._Y.shape[0]
        K, root = whitening(hyper)
        beta = float(np.exp(hyper.log_beta))
        moments = self._moments()
        best = collapse(moments, beta)
        mapping = mapping_at(hyper, root, best)
        rows, values = mapping.infer(self._Y[index], self._rows(index), *POLICY.known_row)
        self.inputs.mu[index], self.inputs.s[index] = rows
        gram, cross = self._sums(index, root)
        # Both ways to the gradient see the same rows, else their noise would not cancel.
        of_batch = replace(moments, gram=gram, cross=cross)
        _, slope = gradients(self._Y[index], rows, hyper, (K, root), of_batch, best, share)
        # The running sums forget a pass ago.
        self._gram += share * (gram - self._gram)
        self._cross += share * (cross - self._cross)
        length = np.minimum(np.exp(-0.5 * hyper.log_w), 1.0)
        gradient = np.concatenate([(slope.Z * length).ravel(), slope.log_w, [slope.log_a, slope.log_beta]])
        step = self._adam.step(gradient / self._Y.size)
        in_Z, in_w, (in_a, in_beta) = np.split(step, np.cumsum([slope.Z.size, length.size]))
        Z = hyper.Z + in_Z.reshape(hyper.Z.shape) * length
        self.hyper = LatentHyper(Z, hyper.log_w + in_w, hyper.log_a + float(in_a), hyper.log_beta + float(in_beta))
        return float(values.sum())

    @property
    def _divergence(self) -> float:
        """KL(q(u) || p(u)) at the running sums."""
        best = collapse(self._moments(), float(np.exp(self.hyper.log_beta)))
        chol = cholesky_precision(best.precision)
        M, D = best.mean.shape
        return 0.5 * (D * (float(np.trace(inverse_spd(chol))) - M + log_det(chol)) + float(np.sum(best.mean**2)))
