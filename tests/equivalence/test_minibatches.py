"""G5: mini-batch steps are unbiased, and end where the full data end."""

from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skpref.inference import svi
from skpref.inference.basis import InducingBasis
from skpref.inference.blocks import DenseBlock
from skpref.inference.scale import FixedScale, GammaScale
from skpref.inference.terms.pairs import PairTerm
from skpref.kernels import ProductMatern
from skpref.likelihoods import PairwiseLogit, PairwiseProbit


def make(seed, *, p=6, n=5, m=3, order=True, layout="joint", likelihood=None, scale=None):
    rng = np.random.default_rng(seed)
    X, left = rng.normal(size=(n, 2)), rng.integers(0, n, p)
    right = (left + rng.integers(1, n, p)) % n
    basis = InducingBasis.from_points(ProductMatern([1.0, 2.0]), X[:m])
    rows = basis.rows(X)
    residual = basis.pair_residual(X, rows, left, right)
    terms = {"f": PairTerm(rows, left, right, n, layout == "joint", order, residual)}
    if layout == "mean-field":
        terms["offsets"] = PairTerm(None, left, right, n, offsets=True)
    y = np.where(rng.random(p) < 0.6, rng.integers(0, 2, p), rng.random(p))
    problem = svi.Problem(terms, likelihood or PairwiseProbit(), y, rng.exponential(size=p))
    names = {segment.scale for term in terms.values() for segment in term.segments}
    scales = {name: scale or FixedScale(0.7) for name in sorted(names)}
    return rng, problem, svi.initial_state(problem, scales, diagonal={"offsets"})


def somewhere(rng, state):
    return state.with_blocks(
        {
            name: type(block).isotropic(rng.exponential(size=block.size) + 0.1, rng.normal(size=block.size))
            for name, block in state.blocks.items()
        }
    )


def natural(block):
    precision = np.tril(block.precision) if isinstance(block, DenseBlock) else block.precision
    return np.concatenate([np.ravel(precision), block.linear])


@pytest.mark.parametrize("layout", ["features", "joint", "mean-field"])
@pytest.mark.parametrize("likelihood", [PairwiseProbit(), PairwiseLogit()], ids=["probit", "logit"])
@pytest.mark.parametrize("size", [1, 2, 4])
def test_the_mean_over_all_batches_is_the_full_step(layout, likelihood, size):
    rng, problem, state = make(1, layout=layout, likelihood=likelihood)
    state, rho = somewhere(rng, state), 0.3
    whole, before = svi.minibatch_step(problem.batch(np.arange(6)), state, rho)
    parts = [svi.minibatch_step(problem.batch(np.array(b)), state, rho) for b in combinations(range(6), size)]
    assert_allclose(np.mean([seen.bound for _, seen in parts]), before.bound, rtol=1e-12)
    for name, block in whole.blocks.items():
        mean = np.mean([natural(moved.blocks[name]) for moved, _ in parts], axis=0)
        assert_allclose(mean, natural(block), rtol=1e-12, atol=1e-12)


def test_a_batch_of_everything_is_the_full_step():
    rng, problem, state = make(2)
    state = somewhere(rng, state)
    one, _ = svi.minibatch_step(problem.batch(np.arange(6)), state, 1.0)
    other, _ = svi.minibatch_step(problem.batch(np.arange(6)[::-1].copy()), state, 1.0)
    assert_allclose(natural(one.blocks["f"]), natural(other.blocks["f"]), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("layout", ["features", "mean-field"])
def test_mini_batches_end_within_monte_carlo_error_of_the_full_data(layout):
    # Twelve chains: their mean end is within five of its standard errors (and the bias of order rho) of the optimum.
    _, problem, start = make(3, p=60, n=12, m=6, layout=layout, order=False, scale=GammaScale.prior(2.0, 2.0))
    best = svi.fit(problem, start, svi.Schedule(max_iter=1000, tol=1e-10), np.random.default_rng(0))
    schedule = svi.Schedule(max_iter=60, tol=0.0, batch_size=10, delay=1.0, forgetting_rate=0.9)
    ends = [svi.fit(problem, start, schedule, np.random.default_rng(chain)).state for chain in range(12)]
    mu = np.array([svi.evaluate(problem, end).mu for end in ends])
    error = 5.0 * mu.std(axis=0, ddof=1) / np.sqrt(len(ends)) + 0.02
    assert (np.abs(mu.mean(axis=0) - best.evaluation.mu) < error).all()
    for end in ends:
        assert best.evaluation.bound - 0.5 < svi.evaluate(problem, end).bound <= best.evaluation.bound + 1e-8
