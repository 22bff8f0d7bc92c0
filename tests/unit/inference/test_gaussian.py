"""Mini-batches of Gaussian observations: sums in place of moments, the same steps and the exact bound."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.gaussian_process.kernels import RBF

from skpref.inference import svi
from skpref.inference.basis import InducingBasis
from skpref.inference.blocks import DenseBlock
from skpref.inference.collapsed import Moments, collapse
from skpref.inference.gaussian import Epoch, has_constant_sites
from skpref.inference.scale import FixedScale, GammaScale
from skpref.inference.sites import LAPLACE
from skpref.inference.terms.base import RowTerm, Segment
from skpref.inference.terms.inducing import InducingTerm
from skpref.likelihoods import Gaussian, PairwiseProbit, StudentT
from tests.examples import examples


def make(seed, n=12, m=4, scale=1.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    basis = InducingBasis.from_points(RBF([1.0, 2.0]), X[:m])
    y, weight = rng.normal(size=n), rng.exponential(size=n)
    problem = svi.Problem({"f": InducingTerm(basis, X)}, Gaussian(float(rng.exponential()) + 0.1), y, weight)
    state = svi.initial_state(problem, {"f": FixedScale(scale)})
    half = rng.normal(size=(m, m))
    return rng, problem, replace(state, blocks={"f": DenseBlock(half @ half.T + np.eye(m), rng.normal(size=m))})


@examples(30)
@given(seed=st.integers(0, 2**32 - 1), size=st.integers(1, 12), rho=st.floats(1e-3, 1.0), scale=st.floats(0.1, 10.0))
def test_a_step_is_that_of_the_engine(seed, size, rho, scale):
    rng, problem, state = make(seed, scale=scale)
    batch = problem.batch(rng.permutation(12)[:size])
    wanted, _ = svi.minibatch_step(batch, state, rho)
    got = Epoch(problem).step(batch, state, rho)
    assert got.step == wanted.step
    one, other = got.blocks["f"], wanted.blocks["f"]
    assert_allclose(np.tril(one.precision), np.tril(other.precision), rtol=1e-10, atol=1e-10)
    assert_allclose(one.linear, other.linear, rtol=1e-9, atol=1e-9)


@examples(30)
@given(seed=st.integers(0, 2**32 - 1), n_batches=st.integers(1, 12), scale=st.floats(0.1, 10.0))
def test_the_bound_of_an_epoch_is_that_of_all_observations(seed, n_batches, scale):
    rng, problem, state = make(seed, scale=scale)
    epoch = Epoch(problem)
    for index in np.array_split(rng.permutation(12), n_batches):
        state = epoch.step(problem.batch(index), state, 0.5)
    wanted = svi.evaluate(problem, state).bound
    assert_allclose(epoch.bound(state), wanted, rtol=1e-9, atol=1e-9)


def test_rows_without_a_residual():
    rng, problem, state = make(3)
    term = RowTerm(rng.normal(size=(12, 4)), (Segment("f", 4),))
    problem = replace(problem, terms={"f": term})
    epoch = Epoch(problem)
    epoch.step(problem.batch(np.arange(12)), state, 1.0)
    assert_allclose(epoch.bound(state), svi.evaluate(problem, state).bound, rtol=1e-12)


def test_the_loop_reports_the_bound_at_the_end_of_its_epochs_and_comes_to_the_best():
    _, problem, start = make(5)
    schedule = svi.Schedule(max_iter=400, tol=0.0, batch_size=5, forgetting_rate=1.0)
    run = svi.fit(problem, start, schedule, np.random.default_rng(0))
    assert_allclose(run.bounds[-1], svi.evaluate(problem, run.state).bound, rtol=1e-10)
    term, beta = problem.terms["f"], problem.likelihood.precision
    rows, w, y = term.basis.rows(term.X), problem.weight, problem.y
    prior = float(w.sum())  # the kernel's variance is 1
    best = collapse(Moments(rows.T @ (w[:, None] * rows), (rows.T @ (w * y))[:, None], prior, w @ y**2, w.sum()), beta)
    assert max(run.bounds) <= best.value + 1e-9
    assert_allclose(run.bounds[-1], best.value, atol=1e-3)


def test_only_constant_sites_are_taken_for_such():
    _, problem, state = make(7)
    assert has_constant_sites(problem, state)
    assert not has_constant_sites(replace(problem, likelihood=StudentT()), state)
    assert not has_constant_sites(replace(problem, likelihood=PairwiseProbit()), state)
    assert not has_constant_sites(replace(problem, rule=LAPLACE), state)
    assert not has_constant_sites(problem, replace(state, scales={"f": GammaScale.prior(2.0, 2.0)}))
    two = replace(problem, terms={"f": problem.terms["f"], "g": problem.terms["f"]})
    assert not has_constant_sites(two, svi.initial_state(two, {"f": FixedScale(1.0)}))
    assert not has_constant_sites(problem, svi.initial_state(problem, {"f": FixedScale(1.0)}, diagonal={"f"}))


def test_tuned_steps_take_the_engines_own_way():
    # Hyper-parameters that move between the steps make sums of an epoch worthless.
    _, problem, state = make(9)
    seen = []

    def tune(whole, batch, index, q, evaluation):
        seen.append(len(index))
        return whole

    run = svi.fit(problem, state, svi.Schedule(max_iter=2, batch_size=6, tune=tune), np.random.default_rng(0))
    assert seen == [6] * 4
    assert run.bounds[-1] != pytest.approx(svi.evaluate(problem, run.state).bound, rel=1e-12)
