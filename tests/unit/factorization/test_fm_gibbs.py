"""Gibbs sampling of the factorization machine of ordered levels."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse, stats
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from skpref import VariationalFMOrdinal, load, save
from skpref._compiled.fm_draws import row_values
from skpref.exceptions import CheckpointError, DataError
from skpref.factorization.machine.chain import ChainProblem, check_resumed, rescaled, warn_not_stationary
from skpref.factorization.machine.fields import design_of
from skpref.factorization.machine.model import Bias, Machine, Prior
from skpref.inference import gibbs
from skpref.inference.gibbs import Chain
from skpref.likelihoods import OrdinalProbit
from tests.unit.factorization.test_fm_ordinal import FITTED, X, Y

SHORT = VariationalFMOrdinal(2, inference="gibbs", n_sweeps=20, burn_in=5, random_state=0)
DRAWN = clone(SHORT).set_params(n_sweeps=200).fit(X, Y)


def test_probabilities_are_near_those_of_the_variational_fit_and_less_certain() -> None:
    p = DRAWN.predict_proba(X)
    assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
    assert_allclose(p.mean(axis=0), [np.mean(level == Y) for level in DRAWN.classes_], atol=0.03)
    assert np.corrcoef(p[:, 3], FITTED.predict_proba(X)[:, 3])[0, 1] > 0.95
    assert np.median(DRAWN.latent_mean_and_variance(X)[1] / FITTED.latent_mean_and_variance(X)[1]) > 1.5


def test_covariance_and_draws_are_those_of_the_moments() -> None:
    variance = DRAWN.latent_mean_and_variance(X[:4])[1]
    assert_allclose(np.diag(DRAWN.latent_covariance(X[:4])), variance, rtol=1e-10)
    assert DRAWN.latent_covariance(X[:1]).shape == (1, 1)
    draws = DRAWN.sample_y(X[:3], 4000)
    shares = np.stack([(draws == level).mean(axis=1) for level in DRAWN.classes_], axis=1)
    assert_allclose(shares, DRAWN.predict_proba(X[:3]), atol=0.05)


def test_attributes_are_means_over_the_draws() -> None:
    theta = DRAWN.posterior_.sampled.theta
    assert theta.shape == (195, 50, 3)
    assert_allclose(DRAWN.weights_, theta[..., 0].mean(axis=0), rtol=1e-5)
    assert DRAWN.thresholds_.size == 3
    assert np.all(np.diff(DRAWN.thresholds_) > 0.0)


def test_the_same_seed_gives_the_same_bits_with_any_number_of_threads() -> None:
    first = clone(SHORT).fit(X, Y).predict_proba(X)
    assert np.array_equal(clone(SHORT).set_params(n_jobs=1).fit(X, Y).predict_proba(X), first)
    assert not np.array_equal(clone(SHORT).set_params(random_state=1).fit(X, Y).predict_proba(X), first)


def test_a_weight_is_a_number_of_copies() -> None:
    weight = np.random.default_rng(0).integers(0, 3, Y.size)
    rows = np.repeat(np.arange(Y.size), weight)
    p = clone(SHORT).fit(X, Y, weight).predict_proba(X)
    assert_allclose(p, clone(SHORT).fit(X[rows], Y[rows]).predict_proba(X), atol=0.01)


def test_unseen_users_have_the_prior_of_their_group() -> None:
    seen = X[:, [0]].toarray().ravel() == 0.0
    groups = np.repeat(["user", "item"], [30, 20])
    model = VariationalFMOrdinal(0, groups=groups, inference="gibbs", n_sweeps=120, random_state=0).fit(
        X[seen], Y[seen]
    )
    assert_allclose(model.weights_std_[0], model.group_priors_["user"]["weight_std"], rtol=0.25)
    assert np.all(model.weights_std_[1:30] < model.weights_std_[0])


def test_levels_without_rows_keep_their_place() -> None:
    model = clone(SHORT).set_params(class_order=[0, 1, 2, 3, 4, 5]).fit(X, Y)
    assert model.predict_proba(X).shape == (Y.size, 6)
    assert model.predict_proba(X)[:, 4].max() < 0.2


def test_a_callback_stops_the_chain() -> None:
    class Stop:
        def __init__(self, at: int) -> None:
            self.at, self.steps = at, []

        def setup(self, estimator, context) -> None:
            pass

        def teardown(self, estimator, context) -> None:
            pass

        def on_fit_task_begin(self, estimator, context) -> None:
            pass

        def on_fit_task_end(self, estimator, context) -> bool:
            return False

        def on_iteration(self, estimator, context, iteration) -> bool:
            self.steps.append(iteration.step)
            assert iteration.fitted().predict(X[:2]).shape == (2,)
            return iteration.step == self.at

    stop = Stop(28)  # after the passes and 13 sweeps, of which 5 are not used
    model = clone(SHORT).set_callbacks(stop).fit(X, Y)
    assert stop.steps == list(range(1, 29))
    assert model.posterior_.sampled.bias.size == 8
    stopped_early = clone(SHORT).set_callbacks(Stop(17)).fit(X, Y)
    assert stopped_early.posterior_.sampled is None
    assert stopped_early.predict(X).shape == Y.shape


def test_diagnostics_are_of_the_log_likelihood_after_burn_in(tmp_path) -> None:
    # Thresholds are drawn in sweeps 1, 4, .., 199, of which 7 is the first after burn-in.
    assert DRAWN.log_likelihoods_.shape == (65,)
    assert np.all(DRAWN.log_likelihoods_ < 0.0)
    assert DRAWN.r_hat_ == gibbs.split_rhat(DRAWN.log_likelihoods_[None])
    assert 1.0 < DRAWN.effective_sample_size_ < 130.0
    save(DRAWN, tmp_path / "model.skpref")
    assert load(tmp_path / "model.skpref").r_hat_ == DRAWN.r_hat_
    assert np.isnan([FITTED.r_hat_, FITTED.effective_sample_size_]).all()
    assert FITTED.log_likelihoods_.size == 0


def test_a_chain_that_still_drifts_is_warned_of() -> None:
    def warned(trace: np.ndarray) -> None:
        sampled = replace(DRAWN.posterior_.sampled, log_likelihoods=trace)
        warn_not_stationary(replace(DRAWN.posterior_, sampled=sampled), "VariationalFMOrdinal")

    with pytest.warns(ConvergenceWarning, match=r"VariationalFMOrdinal is not stationary: .* above 1\.\d\d. Increase"):
        warned(np.arange(400.0))
    with pytest.warns(ConvergenceWarning, match=r"above 2\.00"):  # although chance may explain it
        warned(np.arange(27.0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warned(np.random.default_rng(0).standard_normal(400))
        warned(np.arange(3.0))  # too few to say
        warn_not_stationary(FITTED.posterior_, "VariationalFMOrdinal")


def test_an_interrupted_chain_resumes_to_the_same_bits(tmp_path, monkeypatch) -> None:
    model = clone(SHORT).set_params(checkpoint=tmp_path / "chain", checkpoint_seconds=0.0)
    real, n_done = gibbs.advanced, []

    def fragile(*args):
        n_done.append(1)
        if len(n_done) == 13:
            raise KeyboardInterrupt
        return real(*args)

    monkeypatch.setattr(gibbs, "advanced", fragile)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y)
    assert model.checkpoint.exists()
    assert not hasattr(model, "posterior_")
    for changed in ({"n_sweeps": 21}, {"random_state": 1}, {"learn_priors": False}):
        with pytest.raises(CheckpointError, match="other data or parameters"):
            clone(model).set_params(**changed).fit(X, Y)
    with pytest.raises(CheckpointError, match="other data or parameters"):
        clone(model).fit(X, Y[::-1])
    n_before = len(n_done)
    assert np.array_equal(model.fit(X, Y).predict_proba(X), clone(SHORT).fit(X, Y).predict_proba(X))
    assert len(n_done) - n_before == 20 - 12 + 20
    assert not model.checkpoint.exists()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("theta", np.zeros((50, 2))),
        ("bias", np.array(np.nan)),
        ("thresholds", np.array([0.0, 1.0, 0.5])),
        ("lam", np.zeros((2, 3))),
        ("seed", np.array(4, dtype=np.uint64)),
    ],
)
def test_a_chain_with_other_arrays_is_refused(name: str, value: np.ndarray) -> None:
    state = {
        "theta": np.zeros((50, 3)),
        "bias": np.array(0.0),
        "thresholds": np.arange(3.0),
        "log_p": np.array(0.0),
        "nu": np.zeros((2, 3)),
        "lam": np.ones((2, 3)),
        "seed": np.array(3, dtype=np.uint64),
    }
    sample = {
        **{key: state[key] for key in ("bias", "thresholds", "nu", "lam")},
        "theta": np.zeros((50, 3), np.float32),
    }
    check_resumed(Chain(state), Chain(state, samples=(sample,)))
    with pytest.raises(DataError):
        check_resumed(Chain(state), Chain({**state, name: value}))
    if name in sample:
        with pytest.raises(DataError):
            check_resumed(Chain(state), Chain(state, samples=({**sample, name: value},)))


def test_priors_are_learnt_on_request() -> None:
    fixed = clone(SHORT).set_params(learn_priors=False).fit(X, Y)
    assert all(np.all(prior["factor_stds"] == 1.0) for prior in fixed.group_priors_.values())
    first, drawn = DRAWN.posterior_.last.prior, DRAWN.posterior_.machine.prior
    assert_allclose(first.nu[:, 1:], drawn.nu[:, 1:], rtol=1e-12)
    multiple = drawn.lam[:, 1:] / first.lam[:, 1:]
    assert_allclose(multiple, np.tile(multiple[:, :1], 2), rtol=1e-12)
    assert not np.any(np.isclose(multiple, 1.0))


def test_a_scale_of_factors_is_drawn_from_its_conditional_distribution() -> None:
    # Two features of group 0 meet in a row, so y(x) is quadratic in their scale; group 1 is at its prior's mean.
    X = sparse.csr_array(np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0], [1.0, 1.0, 0.0]]))
    rng, target, away = np.random.default_rng(0), np.array([0.6, -0.2, 0.9]), np.array([[0.0, 0.8], [0.0, -0.5]])
    prior = Prior(np.array([[0.0, 0.3], [0.0, 1.1]]), np.array([[1.0, 2.0], [1.0, 1.0]]), np.array([0, 0, 1]))
    unit, likelihood = Bias(0.0, 1.0), OrdinalProbit((0.0,))
    machine = Machine(unit, np.zeros((3, 2)), np.ones((3, 2)), unit, prior, likelihood)
    problem = ChainProblem(design_of(X), np.zeros(3, int), machine)

    def scaled(s: float) -> dict[str, np.ndarray]:
        theta = prior.nu[prior.group] + np.vstack([s * away, np.zeros((1, 2))])
        return {"theta": theta, "lam": prior.lam / np.array([[1.0, s * s], [1.0, 1.0]])}

    def values(state: dict[str, np.ndarray]) -> np.ndarray:
        return row_values(problem.design.codes, problem.design.table(state["theta"]))

    grid = np.linspace(0.02, 12.0, 6000)
    log_p = [-0.5 * ((target - values(scaled(s))) ** 2).sum() - s**-2 - 3.0 * np.log(s) for s in grid]
    below = np.cumsum(np.exp(log_p)) / np.exp(log_p).sum()
    before, after = np.interp(rng.random(800), below, grid), []
    for s in before:
        state = scaled(s)
        theta, lam = rescaled(problem, state, values(state), target, rng)
        after.append(np.sqrt(2.0 / lam[0, 1]))
        assert_allclose(theta, scaled(after[-1])["theta"], rtol=1e-10)
    assert np.mean(~np.isclose(before, after)) > 0.2
    assert stats.kstest(np.interp(after, grid, below), "uniform").pvalue > 1e-3


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_sweeps": 20, "burn_in": 19}, "burn_in must leave two sweeps of n_sweeps or more; got burn_in=19"),
        ({"inference": "mcmc"}, "The 'inference' parameter"),
        ({"n_sweeps": 1}, "The 'n_sweeps' parameter"),
        ({"burn_in": -1}, "The 'burn_in' parameter"),
    ],
)
def test_wrong_parameters(params: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        clone(SHORT).set_params(**params).fit(X, Y)


def test_weights_are_whole_and_updates_need_a_variational_posterior() -> None:
    with pytest.raises(DataError, match=r"sample_weight must hold whole numbers .*; got 0\.5"):
        clone(SHORT).fit(X, Y, np.where(Y == 5, 0.5, 1.0))
    with pytest.raises(DataError, match="partial_fit takes a variational posterior as the prior"):
        DRAWN.partial_fit(X, Y)
