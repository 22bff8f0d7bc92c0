"""Gibbs sampling of the factorization machine of ordered levels."""

import functools
import warnings
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse, stats
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from skpref import Checkpoint, VariationalFMOrdinal, load, save
from skpref.exceptions import CheckpointError, DataError, DataWarning
from skpref.factorization.machine import moves
from skpref.factorization.machine.chain import check_resumed, start_state, warn_not_stationary
from skpref.factorization.machine.fields import design_of
from skpref.factorization.machine.model import Bias, Machine, Prior
from skpref.factorization.machine.moves import (
    ChainProblem,
    draw_scale_ratio,
    draw_shears,
    draw_shifts,
    draw_slice,
    rescale,
)
from skpref.inference import gibbs
from skpref.inference.gibbs import Chain
from skpref.likelihoods import OrdinalProbit
from tests.unit.callbacks import StopAfter
from tests.unit.factorization.test_fm_ordinal import X, Y, fitted_machine

SHORT = VariationalFMOrdinal(2, inference="gibbs", max_iter=20, burn_in=5, random_state=0)


@functools.cache
def drawn_machine():
    """Draw once, when a test first asks for it."""
    return clone(SHORT).set_params(max_iter=200).fit(X, Y)


def test_probabilities_are_near_those_of_the_variational_fit_and_less_certain():
    p = drawn_machine().predict_proba(X)
    assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
    assert_allclose(p.mean(axis=0), [np.mean(level == Y) for level in drawn_machine().classes_], atol=0.03)
    assert np.corrcoef(p[:, 3], fitted_machine().predict_proba(X)[:, 3])[0, 1] > 0.95
    variances = [model.latent_mean_and_variance(X)[1] for model in (drawn_machine(), fitted_machine())]
    assert np.median(variances[0] / variances[1]) > 1.5


def test_covariance_and_draws_are_those_of_the_moments():
    variance = drawn_machine().latent_mean_and_variance(X[:4])[1]
    assert_allclose(np.diag(drawn_machine().latent_covariance(X[:4])), variance, rtol=1e-10)
    assert drawn_machine().latent_covariance(X[:1]).shape == (1, 1)
    draws = drawn_machine().sample_y(X[:3], 4000)
    shares = np.stack([(draws == level).mean(axis=1) for level in drawn_machine().classes_], axis=1)
    assert_allclose(shares, drawn_machine().predict_proba(X[:3]), atol=0.05)


def test_attributes_are_means_over_the_draws():
    theta = drawn_machine().posterior_.sampled.theta
    assert theta.shape == (195, 50, 3)
    assert_allclose(drawn_machine().weights_, theta[..., 0].mean(axis=0), rtol=1e-5)
    assert drawn_machine().thresholds_.size == 3
    assert np.all(np.diff(drawn_machine().thresholds_) > 0.0)


def test_the_same_seed_gives_the_same_bits_with_any_number_of_threads():
    first = clone(SHORT).fit(X, Y).predict_proba(X)
    assert np.array_equal(clone(SHORT).set_params(n_jobs=1).fit(X, Y).predict_proba(X), first)
    assert not np.array_equal(clone(SHORT).set_params(random_state=1).fit(X, Y).predict_proba(X), first)


def test_a_weight_is_a_number_of_copies():
    weight = np.random.default_rng(0).integers(0, 3, Y.size)
    rows = np.repeat(np.arange(Y.size), weight)
    p = clone(SHORT).fit(X, Y, weight).predict_proba(X)
    assert_allclose(p, clone(SHORT).fit(X[rows], Y[rows]).predict_proba(X), atol=0.01)


def test_unseen_users_have_the_prior_of_their_group():
    seen = X[:, [0]].toarray().ravel() == 0.0
    groups = np.repeat(["user", "item"], [30, 20])
    model = VariationalFMOrdinal(0, groups=groups, inference="gibbs", max_iter=120, random_state=0).fit(
        X[seen], Y[seen]
    )
    assert_allclose(model.weights_std_[0], model.group_priors_["user"]["weight_std"], rtol=0.25)
    assert np.all(model.weights_std_[1:30] < model.weights_std_[0])


def test_levels_without_rows_keep_their_place():
    model = clone(SHORT).set_params(class_order=[0, 1, 2, 3, 4, 5]).fit(X, Y)
    assert model.predict_proba(X).shape == (Y.size, 6)
    assert model.predict_proba(X)[:, 4].max() < 0.2


def test_a_callback_stops_the_chain():
    class Stop(StopAfter):
        def on_iteration(self, estimator, context, iteration):
            assert iteration.fitted().predict(X[:2]).shape == (2,)
            return super().on_iteration(estimator, context, iteration)

    stop = Stop(28)  # after the passes and 13 sweeps, of which 5 are not used
    model = clone(SHORT).set_callbacks(stop).fit(X, Y)
    assert stop.steps == list(range(1, 29))
    assert model.posterior_.sampled.bias.size == 8
    stopped_early = clone(SHORT).set_callbacks(Stop(17)).fit(X, Y)
    assert stopped_early.posterior_.sampled is None
    assert stopped_early.predict(X).shape == Y.shape


def test_diagnostics_are_of_the_log_likelihood_after_burn_in(tmp_path):
    # Thresholds are drawn in sweeps 1, 4, .., 199, of which 7 is the first after burn-in.
    assert drawn_machine().log_likelihoods_.shape == (65,)
    assert np.all(drawn_machine().log_likelihoods_ < 0.0)
    assert drawn_machine().r_hat_ == gibbs.split_rhat(drawn_machine().log_likelihoods_[None])
    assert 1.0 < drawn_machine().effective_sample_size_ < 130.0
    save(drawn_machine(), tmp_path / "model.skpref")
    assert load(tmp_path / "model.skpref").r_hat_ == drawn_machine().r_hat_
    assert np.isnan([fitted_machine().r_hat_, fitted_machine().effective_sample_size_]).all()
    assert fitted_machine().log_likelihoods_.size == 0


def test_a_chain_that_still_drifts_is_warned_of():
    def warned(trace):
        sampled = replace(drawn_machine().posterior_.sampled, log_likelihoods=trace)
        warn_not_stationary(replace(drawn_machine().posterior_, sampled=sampled), "VariationalFMOrdinal")

    with pytest.warns(ConvergenceWarning, match=r"VariationalFMOrdinal is not stationary: .* above 1\.\d\d. Increase"):
        warned(np.arange(400.0))
    with pytest.warns(ConvergenceWarning, match=r"above 2\.00"):  # although chance may explain it
        warned(np.arange(27.0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warned(np.random.default_rng(0).standard_normal(400))
        warned(np.arange(3.0))  # too few to say
        warn_not_stationary(fitted_machine().posterior_, "VariationalFMOrdinal")


def test_an_interrupted_chain_resumes_to_the_same_bits(tmp_path, monkeypatch):
    model = clone(SHORT).set_params(checkpoint=Checkpoint(tmp_path / "chain", 0.0))
    real, n_done = gibbs.advanced, []

    def fragile(*args):
        n_done.append(1)
        if len(n_done) == 13:
            raise KeyboardInterrupt
        return real(*args)

    monkeypatch.setattr(gibbs, "advanced", fragile)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y)
    assert model.checkpoint.path.exists()
    assert not hasattr(model, "posterior_")
    for changed in ({"max_iter": 21}, {"random_state": 1}, {"learn_priors": False}):
        with pytest.raises(CheckpointError, match="other data or parameters"):
            clone(model).set_params(**changed).fit(X, Y)
    with pytest.raises(CheckpointError, match="other data or parameters"):
        clone(model).fit(X, Y[::-1])
    n_before = len(n_done)
    assert np.array_equal(model.fit(X, Y).predict_proba(X), clone(SHORT).fit(X, Y).predict_proba(X))
    assert len(n_done) - n_before == 20 - 12 + 20
    assert not model.checkpoint.path.exists()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("theta", np.zeros((50, 2))),
        ("nu", np.full((2, 3), np.nan)),
        ("thresholds", np.array([0.0, 1.0, 0.5])),
        ("lam", np.zeros((2, 3))),
        ("seed", np.array(4, dtype=np.uint64)),
    ],
)
def test_a_chain_with_other_arrays_is_refused(name, value):
    state = {
        "theta": np.zeros((50, 3)),
        "thresholds": np.arange(3.0),
        "log_p": np.array(0.0),
        "nu": np.zeros((2, 3)),
        "lam": np.ones((2, 3)),
        "seed": np.array(3, dtype=np.uint64),
    }
    sample = {**{key: state[key] for key in ("thresholds", "nu", "lam")}, "theta": np.zeros((50, 3), np.float32)}
    check_resumed(Chain(state), Chain(state, samples=(sample,)))
    with pytest.raises(DataError):
        check_resumed(Chain(state), Chain({**state, name: value}))
    if name in sample:
        with pytest.raises(DataError):
            check_resumed(Chain(state), Chain(state, samples=({**sample, name: value},)))


def test_priors_are_learnt_on_request():
    fixed = clone(SHORT).set_params(learn_priors=False).fit(X, Y)
    assert all(np.all(prior["factor_stds"] == 1.0) for prior in fixed.group_priors_.values())
    first, drawn = drawn_machine().posterior_.last.prior, drawn_machine().posterior_.machine.prior
    assert_allclose(first.nu[:, 1:], drawn.nu[:, 1:], rtol=1e-12)
    multiple = drawn.lam[:, 1:] / first.lam[:, 1:]
    assert_allclose(multiple, np.tile(multiple[:, :1], 2), rtol=1e-12)
    assert not np.any(np.isclose(multiple, 1.0))


def moving_problem(*, learn=True):
    """Five users and four items, with priors whose means are not zero."""
    rng = np.random.default_rng(0)
    X = sparse.csr_array(np.hstack([np.eye(5)[rng.integers(0, 5, 30)], np.eye(4)[rng.integers(0, 4, 30)]]))
    prior = Prior(rng.normal(size=(2, 3)), rng.gamma(2.0, size=(2, 3)), np.repeat([0, 1], [5, 4]))
    unit, likelihood = Bias(0.0, 1.0), OrdinalProbit((-1.0, 0.5))
    machine = Machine(unit, rng.normal(size=(9, 3)), np.ones((9, 3)), unit, prior, likelihood)
    return ChainProblem(design_of(X), rng.integers(0, 3, 30), machine, learn)


@pytest.mark.parametrize("move", [draw_shifts, draw_shears, draw_scale_ratio])
def test_moves_do_not_change_what_rows_know(move):
    problem = moving_problem()
    state = start_state(problem.machine, 0)
    after = move(problem, state, np.random.default_rng(1))
    gaps = [problem.values(s["theta"])[:, None] - s["thresholds"] for s in (state, after)]
    assert_allclose(gaps[1], gaps[0], atol=1e-10)
    assert np.abs(after["theta"] - state["theta"]).max() > 0.05


def log_density(problem, state):
    """Return log p of features and precisions, without the levels, up to a constant."""
    (_, first_lam, group), lam = problem.machine.prior, state["lam"]
    away = state["theta"] - state["nu"][group]
    c = lam[:, 1] / first_lam[:, 1]
    return float(0.5 * (np.log(lam[group]) - lam[group] * away**2).sum() - lam[:, 0].sum() - c.sum())


@pytest.mark.parametrize("move", [draw_shifts, draw_shears])
def test_shifts_and_shears_are_drawn_from_their_conditional_distribution(move):
    """They are linear in two normal numbers: the density of where they lead is that of these."""

    class Fixed:
        def __init__(self, value):
            self.value = value

        def standard_normal(self, n=None):
            return self.value if n is None else np.full(n, self.value)

    problem = moving_problem()
    del problem.sides[1]  # users alone
    state = start_state(problem.machine, 0)
    centre, *others = (log_density(problem, move(problem, state, Fixed(value))) for value in (0.0, 1.0, -1.0, 2.0))
    assert_allclose(np.array(others) - centre, [-1.0, -1.0, -4.0], rtol=1e-9)


def test_slice_sampling_keeps_a_distribution():
    rng = np.random.default_rng(0)
    start = rng.gamma(2.0, size=3000)
    after = [x + draw_slice(lambda u, x=x: np.log(x + u) - x - u if x + u > 0.0 else -np.inf, rng) for x in start]
    assert stats.kstest(after, stats.gamma(2.0).cdf).pvalue > 1e-3
    assert np.mean(np.isclose(after, start)) < 0.01


@pytest.mark.parametrize("two_sided", [True, False])
def test_scaled_features_have_slopes_and_density_of_their_scales(two_sided):
    problem = moving_problem()
    if not two_sided:
        problem.sides.clear()
    state = start_state(problem.machine, 0)
    u = np.array([0.2, -0.3] if two_sided else [0.2, -0.3, 0.4])
    assert problem.blocks.tolist() == ([0, 0] if two_sided else [0, 1])
    before, start = rescale(problem, state, np.zeros(u.size))
    assert_allclose(before["theta"], state["theta"], rtol=1e-12)
    after, here = rescale(problem, state, u)
    for k, step in enumerate(1e-6 * np.eye(u.size)):
        up, down = (rescale(problem, state, u + s * step)[1] for s in (1.0, -1.0))
        assert_allclose(here.slopes[:, k], (up.z - down.z) / 2e-6, rtol=1e-3, atol=1e-3)
        assert_allclose(here.gradient[k], (up.log_prior - down.log_prior) / 2e-6, rtol=1e-6)
        assert_allclose(here.precision[k], -(up.gradient[k] - down.gradient[k]) / 2e-6, rtol=1e-6)
    # Features and scale change volume by exp(size u) and c by exp(-2 u).
    group, by = problem.machine.prior.group, u[1 + problem.blocks]
    volume = 9 * u[0] + 2 * by[group].sum() - 4 * u[0] - 2 * by.sum()
    expected = log_density(problem, after) - log_density(problem, state) + volume
    assert_allclose(here.log_prior - start.log_prior, expected, rtol=1e-9)


def test_the_ratio_of_scales_has_the_density_of_features_and_precisions(monkeypatch):
    problem = moving_problem()
    state, said, found = start_state(problem.machine, 0), [], []
    for u in (0.0, 0.4, -0.7):

        def fixed(log_p, rng, u=u):
            said.append(log_p(u))
            return u

        monkeypatch.setattr(moves, "draw_slice", fixed)
        after = draw_scale_ratio(problem, state, np.random.default_rng(0))
        found.append(log_density(problem, after) + 2 * (5 - 4) * u)  # two factors of five users and of four items
    assert_allclose(np.array(found[1:]) - found[0], np.array(said[1:]) - said[0], rtol=1e-9)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"max_iter": 20, "burn_in": 19}, "burn_in must be at most max_iter - 2; got burn_in=19"),
        ({"max_iter": 0}, "The 'max_iter' parameter"),
    ],
)
def test_wrong_parameters(params, message):
    with pytest.raises(ValueError, match=message):
        clone(SHORT).set_params(**params).fit(X, Y)


def test_rows_without_any_id_have_the_frequencies():
    p = clone(SHORT).fit(np.zeros((60, 2)), Y[:60]).predict_proba([[0.0, 0.0]])
    assert_allclose(p[0], [np.mean(Y[:60] == level) for level in (1, 2, 3, 5)], atol=0.1)


def test_weights_are_whole():
    with pytest.raises(DataError, match=r"sample_weight must be whole numbers .*; got 0\.5"):
        clone(SHORT).fit(X, Y, np.where(Y == 5, 0.5, 1.0))


def test_an_update_continues_from_the_variational_fit_before_the_chain():
    passes = VariationalFMOrdinal(2, inference="variational", max_iter=15, random_state=0).fit(X, Y)
    drawn = clone(SHORT).fit(X, Y).partial_fit(X[:50], Y[:50])
    assert drawn.inference_ == "variational"
    assert np.array_equal(drawn.predict_proba(X), passes.partial_fit(X[:50], Y[:50]).predict_proba(X))


@pytest.mark.parametrize(
    ("options", "weight", "inference"),
    [
        ({}, np.ones(Y.size), "gibbs"),
        ({}, np.where(Y == 5, 0.5, 1.0), "variational"),
        ({}, np.full(Y.size, 1e4), "variational"),  # too many rows
        ({"batch_size": 100}, np.ones(Y.size), "variational"),
        ({"early_stopping": True}, np.ones(Y.size), "variational"),
        ({"max_iter": SHORT.burn_in + 2}, np.ones(Y.size), "gibbs"),
    ],
)
def test_auto_draws_what_a_chain_can_have(options, weight, inference):
    model = clone(SHORT).set_params(inference="auto", **options).fit(X, Y, weight)
    assert model.inference_ == inference
    if inference == "gibbs":
        expected = clone(SHORT).set_params(**options).fit(X, Y)
    else:
        expected = clone(model).set_params(inference="variational").fit(X, Y, weight)
    assert np.array_equal(model.predict_proba(X), expected.predict_proba(X))


def test_auto_warns_where_no_two_sweeps_are_left():
    model = clone(SHORT).set_params(inference="auto", max_iter=SHORT.burn_in + 1)
    with pytest.warns(DataWarning, match=r"max_iter=6 leaves no two sweeps after burn_in=5, .* is variational"):
        assert model.fit(X, Y).inference_ == "variational"
    assert clone(model).fit(0.5 * X, Y).inference_ == "variational"  # measured features have no chain: no warning


def test_auto_is_variational_for_measured_features():
    assert clone(SHORT).set_params(inference="auto").fit(0.5 * X, Y).inference_ == "variational"


def test_auto_is_variational_for_streams_and_does_not_warn_of_short_chains(monkeypatch):
    monkeypatch.setattr("skpref.factorization.fm_ordinal.warn_not_stationary", lambda *_: pytest.fail("a warning"))
    automatic = clone(SHORT).set_params(inference="auto")
    assert clone(automatic).fit(X, Y).inference_ == "gibbs"
    assert clone(automatic).partial_fit(X, Y).inference_ == "variational"
