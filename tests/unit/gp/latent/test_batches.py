"""`BayesianGPLVM` by mini-batches: as good as all rows at once, the same for the same seed, stopped by a callback."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skpref import BayesianGPLVM
from skpref.gp.latent import batches
from skpref.gp.latent.bound import Inputs, LatentHyper
from tests.policies import set_policy

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
_rng = np.random.default_rng(3)
T = _rng.uniform(-1.5, 1.5, 600)
CLEAN = np.column_stack([np.sin(2.0 * T), np.cos(2.0 * T), T, np.exp(-T)])
X = CLEAN + 0.05 * _rng.standard_normal(CLEAN.shape)


@pytest.fixture(autouse=True)
def _small_sample(monkeypatch):
    set_policy(monkeypatch, "gp.latent", first_sample=150)


def fitted(**options):
    params = {"n_components": 2, "inducing": 12, "batch_size": 100, "tol": 1e-3, "random_state": 0, **options}
    return BayesianGPLVM(**params).fit(X)


def test_batches_reach_what_all_rows_reach():
    model, whole = fitted(), fitted(batch_size=None)
    assert model.lower_bound_ > whole.lower_bound_ - 0.05 * X.size
    assert_allclose(model.noise_, 0.05, rtol=0.2)
    assert np.sqrt(np.mean((model.reconstruct(X) - CLEAN) ** 2)) < 0.05
    order = np.argsort(np.argsort(model.embedding_[:, 0])), np.argsort(np.argsort(T))
    assert abs(np.corrcoef(*order)[0, 1]) > 0.98
    assert model.embedding_.shape == (600, 2)


def test_passes_improve_on_the_sample():
    from_sample, refined = fitted(max_iter=1), fitted()
    assert from_sample.n_iter_ == 1
    inputs = Inputs(from_sample.embedding_, from_sample.embedding_std_**2)
    Y = (X - from_sample.mean_) / from_sample.scale_
    bound = batches.mapping_of(Y, inputs, from_sample.mapping_.hyper)[1] - X.size * np.log(from_sample.scale_)
    assert_allclose(from_sample.lower_bound_, bound, rtol=1e-9)
    assert refined.n_iter_ > from_sample.n_iter_
    assert refined.lower_bound_ > from_sample.lower_bound_


def test_same_seed_same_bits_and_large_batches_are_no_batches():
    assert_array_equal(fitted(max_iter=2).embedding_, fitted(max_iter=2).embedding_)
    assert_array_equal(fitted(batch_size=600, max_iter=20).embedding_, fitted(batch_size=None, max_iter=20).embedding_)


@pytest.mark.parametrize(
    ("estimates", "n_passes", "converged"),
    [
        ([0.0, 9.0, 18.0, 18.9, 30.0], 4, True),  # less than 1 nat
        ([0.0, 9.0, 18.0, 19.1, 20.3], 5, False),  # more
        ([0.0, 0.1, 9.0, 9.1, 30.0], 4, True),  # the first two passes decide nothing
        ([0.0, 20.0, 10.0, 18.0, 30.0], 3, True),  # from the best so far
    ],
)
def test_passes_end_when_one_gains_less_than_the_tolerance(monkeypatch, estimates, n_passes, *, converged):
    Y, hyper = _start_of_batches()
    inputs = Inputs(Y[:, :2].copy(), np.full((30, 2), 0.5))
    passes = iter(estimates)
    monkeypatch.setattr(batches._Steps, "one_pass", lambda *_: next(passes))
    # 1/120 nats for each of 120 entries.
    end = batches.fit_batches(Y, (inputs, hyper), 10, np.random.default_rng(0), max_iter=5, tol=1 / 120, callback=None)
    assert end.bounds[:-1] == estimates[:n_passes]
    assert end.converged is converged


def test_inducing_inputs_first_move_by_a_thousandth_of_a_length_scale_of_at_most_one():
    Y, hyper = _start_of_batches()
    inputs = Inputs(Y[:, :2].copy(), np.full((30, 2), 0.5))
    steps = batches._Steps(Y, inputs, hyper, 30)
    steps.one_pass(np.random.default_rng(0))
    moved = np.abs(steps.hyper.Z - hyper.Z)
    # Length-scales 20 and 1/5. Adam's first step has the length of its rate wherever the gradient is not zero.
    assert_allclose(moved, np.tile([1e-3, 1e-3 / 5.0], (6, 1)), rtol=1e-2)


def test_a_pass_estimates_the_bound_by_rows_and_functions():
    Y, hyper = _start_of_batches()
    inputs = Inputs(Y[:, :2].copy(), np.full((30, 2), 0.5))
    steps = batches._Steps(Y, inputs, hyper, 30)
    best = batches.collapse(steps._moments(), float(np.exp(hyper.log_beta)))
    mapping = batches.mapping_at(hyper, batches.whitening(hyper)[1], best)
    values = mapping.infer(Y, inputs, max_iter=20, tol=1e-3)[1]
    estimate = steps.one_pass(np.random.default_rng(0))
    assert_allclose(estimate, values.sum() - steps._divergence, rtol=1e-9)


def _start_of_batches():
    rng = np.random.default_rng(0)
    return rng.standard_normal((30, 4)), LatentHyper(rng.standard_normal((6, 2)), np.log([20.0**-2, 25.0]), 0.0, 1.0)


def test_the_divergence_is_that_of_the_functions_from_their_prior():
    Y, hyper = _start_of_batches()
    steps = batches._Steps(Y, Inputs(Y[:, :2].copy(), np.full((30, 2), 0.5)), hyper, 30)
    # q(u) of each output is N(P^-1 beta C, P^-1), P = I + beta G, and p(u) is N(0, I).
    beta = np.exp(hyper.log_beta)
    gram = np.tril(steps._gram) + np.tril(steps._gram, -1).T
    S = np.linalg.inv(np.eye(6) + beta * gram)
    mean = S @ (beta * steps._cross)
    wanted = 0.5 * (4 * (np.trace(S) - 6 - np.linalg.slogdet(S)[1]) + (mean**2).sum())
    assert_allclose(steps._divergence, wanted, rtol=1e-8)
    steps._gram, steps._cross = 0.0 * steps._gram, 0.0 * steps._cross
    assert_allclose(steps._divergence, 0.0, atol=1e-12)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_step_moves_all_hyperparameters_along_their_gradients(sign, monkeypatch):
    Y, hyper = _start_of_batches()
    steps = batches._Steps(Y, Inputs(Y[:, :2].copy(), np.full((30, 2), 0.5)), hyper, 30)
    slope = LatentHyper(np.full((6, 2), sign), np.full(2, sign), sign, sign)
    monkeypatch.setattr(batches, "gradients", lambda *_: (None, slope))
    steps.one_pass(np.random.default_rng(0))
    for after, before in zip(steps.hyper, hyper, strict=True):
        assert np.all(sign * (np.asarray(after) - before) > 0.0)
