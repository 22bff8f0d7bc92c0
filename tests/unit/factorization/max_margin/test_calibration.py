"""Predictive probabilities hold what they promise on ratings that the pseudo-likelihood is no model of."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.base import clone

from skpref import Checkpoint, GibbsIPM3F, GibbsM3F, load, save
from skpref.data.ratings import Ratings
from skpref.exceptions import DataError
from skpref.factorization.max_margin import calibration
from skpref.factorization.max_margin.posterior import Calibration, Factors, level_probabilities
from skpref.factorization.policy import POLICY
from skpref.inference import gibbs
from tests.policies import set_policy

pytestmark = [
    pytest.mark.filterwarnings("ignore:The chains of Gibbs.* are not stationary"),
    pytest.mark.usefixtures("all_candidates"),
]


def stars(n_users=60, n_items=50, n=1800, n_test=600, seed=0):
    """Ordinal probit of three factors, with thresholds of each user."""
    rng = np.random.default_rng(seed)
    X = np.column_stack(np.divmod(rng.permutation(n_users * n_items)[: n + n_test], n_items))
    user, item = X.T
    U, V = rng.standard_normal((n_users, 3)), rng.standard_normal((n_items, 3)) / np.sqrt(3.0)
    z = np.einsum("nk,nk->n", U[user], V[item]) + 0.7 * rng.standard_normal(n_items)[item]
    cuts = np.array([-1.8, -0.6, 0.4, 1.6]) + 0.4 * rng.standard_normal((n_users, 1))[user]
    y = ((z + rng.standard_normal(z.size))[:, None] > cuts).sum(axis=1)
    return X[:n], y[:n], X[n:], y[n:]


def fold_of(samples, held, cost, margin=9.0):
    return calibration.Fold(held, cost * calibration.held_losses(samples, held, margin))


X, Y, NEW, ANSWERS = stars()
SMALL = GibbsM3F(4, C=0.2, levels=[0, 1, 2, 3, 4], max_iter=12, burn_in=4, n_samples=5, random_state=0)


@pytest.mark.parametrize("model", [GibbsM3F(20, C=0.2), GibbsIPM3F(C=0.1, sigma=1.0)], ids=["m3f", "ipm3f"])
def test_intervals_of_ratings_cover(model):
    model.set_params(levels=range(5), random_state=0).fit(X, Y)
    p, row = model.predict_proba(NEW), np.arange(len(ANSWERS))
    below = np.column_stack([np.zeros(len(p)), np.cumsum(p, axis=1)])[row, ANSWERS]
    rank = below + np.random.default_rng(0).random(len(p)) * p[row, ANSWERS]
    covered = np.abs(rank - 0.5) <= 0.475
    assert 0.92 < covered.mean() < 0.98  # at temperature 1 .84 and .83; standard error .01
    posterior = model.posterior_
    plain = posterior.probabilities(*model._rows(NEW), Calibration(1.0, np.zeros(5)))
    assert -np.log(p[row, ANSWERS]).mean() < -np.log(plain[row, ANSWERS]).mean() - 0.1
    assert model.temperature_ > 1.5


def test_the_weights_of_simulated_levels_are_found():
    rng, n = np.random.default_rng(0), 4000
    samples = Factors(10.0 * rng.standard_normal((1, n, 1)), np.ones((1, 1, 1)), np.array([[[-20.0, -5.0, 5.0, 20.0]]]))
    user, item = np.arange(n), np.zeros(n, dtype=np.int64)
    truth = Calibration(2.0, np.array([1.0, -1.0, 0.5, -1.0, 0.5]))
    p = level_probabilities(samples.scores(user, item), samples.thresholds_of(user), 0.1, 9.0, truth)[0]
    level = (rng.random((n, 1)) > np.cumsum(p, axis=1)).sum(axis=1).clip(0, 4)
    held = Ratings(user, item, level, np.ones(n), n, 1, 5)
    found = calibration.best_calibration([fold_of(samples, held, 0.1)], 1)
    assert found.temperature == pytest.approx(2.0, rel=0.15)
    np.testing.assert_allclose(found.log_weights, truth.log_weights, atol=0.25)


@pytest.mark.statistical  # losses of simulated ratings
@pytest.mark.parametrize("model", [GibbsM3F(10), GibbsIPM3F()], ids=["m3f", "ipm3f"])
def test_half_stars_are_predicted_better_than_by_the_shares_of_the_levels(model):
    """Most of eight levels are high, as half stars are, and few ratings are of a user."""
    rng, n = np.random.default_rng(0), 3000
    X = np.column_stack([rng.integers(0, 200, n), rng.integers(0, 100, n)])
    X = np.unique(X, axis=0)
    z = 0.6 * rng.standard_normal(200)[X[:, 0]] + 0.5 * rng.standard_normal(100)[X[:, 1]] + rng.standard_normal(len(X))
    y = np.searchsorted(np.quantile(z, np.cumsum([0.02, 0.03, 0.05, 0.08, 0.12, 0.2, 0.2])), z)
    test = rng.random(len(y)) < 0.25
    p = model.set_params(random_state=0).fit(X[~test], y[~test]).predict_proba(X[test])
    share = np.bincount(y[~test]) / np.sum(~test)
    assert -np.log(p[np.arange(test.sum()), y[test]]).mean() < -np.log(share[y[test]]).mean() - 0.02
    assert np.abs(p.mean(axis=0) - np.bincount(y[test]) / test.sum()).sum() < 0.2


def test_few_samples_are_corrected_for_what_more_will_average():
    rng, n = np.random.default_rng(0), 1000
    fixed = np.zeros((1, 1, 4)) + np.array([-20.0, -5.0, 5.0, 20.0])
    score = 6.0 * rng.standard_normal(n)
    # Predictions average many draws around the mean score; only 4 or 8 are there to learn from.
    draws = score + 8.0 * rng.standard_normal((200, n))
    p = level_probabilities(draws, np.broadcast_to(fixed, (200, n, 4)), 0.1, 9.0).mean(axis=0)
    level = (rng.random((n, 1)) > np.cumsum(p, axis=1)).sum(axis=1).clip(0, 4)
    held = Ratings(np.arange(n), np.zeros(n, dtype=np.int64), level, np.ones(n), n, 1, 5)

    def learnt(n_draws, n_samples):
        samples = Factors(draws[:n_draws, :, None], np.ones((n_draws, 1, 1)), np.repeat(fixed, n_draws, axis=0))
        return calibration.best_calibration([fold_of(samples, held, 0.1)], n_samples).temperature

    assert abs(np.log(learnt(8, 200))) < abs(np.log(learnt(8, 8)))
    assert learnt(200, 200) == pytest.approx(1.0, rel=0.15)
    assert learnt(8, 200) == pytest.approx(1.0, rel=0.2)


@pytest.mark.parametrize(("n_draws", "n_samples"), [(1, 1), (4, 4), (4, 12)])
def test_the_calibration_is_the_most_probable_one(n_draws, n_samples):
    rng, n = np.random.default_rng(3), 60
    theta = np.sort(3.0 * rng.standard_normal((n_draws, n, 2)), axis=-1)
    samples = Factors(4.0 * rng.standard_normal((n_draws, n, 1)), np.ones((n_draws, 1, 1)), theta)
    user, item = np.arange(n), np.zeros(n, dtype=np.int64)
    held = Ratings(user, item, rng.integers(0, 3, n), rng.uniform(0.2, 3.0, n), n, 1, 3)

    def loss(logs):
        p = level_probabilities(samples.users[..., 0], theta, 0.3, 2.0, Calibration(np.exp(logs[0]), logs[1:]))
        p = p[:, user, held.level]
        mean = p.mean(axis=0)
        variance = p.var(axis=0, ddof=1) / mean**2 if n_draws > 1 else 0.0
        log_p = np.log(mean) + 0.5 * variance * (1.0 / n_draws - 1.0 / n_samples)
        return 0.5 * logs @ logs - held.weight @ log_p

    best = minimize(loss, np.zeros(4), bounds=[(-1.5, 4.0)] + [(None, None)] * 3, options={"ftol": 1e-14}).x
    found = calibration.best_calibration([fold_of(samples, held, 0.3, 2.0)], n_samples)
    np.testing.assert_allclose([np.log(found.temperature), *found.log_weights], best, atol=2e-3)


def test_chains_do_not_change_and_few_ratings_leave_probabilities_uncalibrated(monkeypatch):
    model = clone(SMALL).fit(X, Y)
    assert clone(SMALL).fit(X[:9], Y[:9]).temperature_ == 1.0
    assert clone(SMALL).set_params(C=0.0).fit(X, Y).temperature_ == 1.0
    set_policy(monkeypatch, "factorization", calibration_share=len(Y) + 1)
    plain = clone(SMALL).fit(X, Y)
    assert plain.temperature_ == 1.0
    np.testing.assert_array_equal(plain.posterior_.samples.items, model.posterior_.samples.items)
    np.testing.assert_array_equal(plain.predict(NEW), model.predict(NEW))


def test_the_calibration_is_saved_kept_by_fold_in_and_checked(tmp_path):
    old = X[:, 0] < 50
    model = clone(SMALL).fit(X[old], Y[old])
    learnt = model.temperature_
    save(model, tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.temperature_ == learnt != 1.0
    np.testing.assert_array_equal(again.level_weights_, model.level_weights_)
    np.testing.assert_array_equal(again.predict_proba(NEW), model.predict_proba(NEW))
    assert model.fold_in(X[~old], Y[~old]).temperature_ == learnt
    for wrong in (0.0, -1.0, np.nan, np.inf, 2):
        with pytest.raises(DataError, match="temperature"):
            Calibration(wrong, np.zeros(5)).validate()
    for wrong in (np.zeros(4), np.array([0.0, 0.0, np.nan, 0.0, 0.0]), [0.0] * 5):
        with pytest.raises(DataError, match="log_weights"):
            replace(model.posterior_, calibration=Calibration(1.0, wrong)).validate()


def test_a_fit_killed_while_it_learns_the_temperature_resumes(tmp_path, monkeypatch):
    path = tmp_path / "chain"
    model = clone(SMALL).set_params(checkpoint=Checkpoint(path, 0.0), random_state=None)
    real, done = gibbs.advanced, []

    def fragile(*args):
        done.append(1)
        if len(done) == 12 + 7:
            raise KeyboardInterrupt
        return real(*args)

    monkeypatch.setattr(gibbs, "advanced", fragile)
    with pytest.raises(KeyboardInterrupt):
        clone(model).set_params(random_state=0).fit(X, Y)
    resumed = clone(model).set_params(random_state=0).fit(X, Y)
    assert len(done) == 12 + 7 + 10 * (POLICY.forgetting_sweeps + POLICY.calibration_sweeps)
    monkeypatch.setattr(gibbs, "advanced", real)
    assert resumed.temperature_ == clone(SMALL).fit(X, Y).temperature_
    assert not path.exists()


def test_ratings_are_held_out_at_random(monkeypatch):
    orders = []
    hold_out = calibration.hold_out

    def spied(ratings, order, n_held):
        orders.append((order.copy(), n_held))
        return hold_out(ratings, order, n_held)

    monkeypatch.setattr(calibration, "hold_out", spied)
    clone(SMALL).set_params(random_state=1).fit(X, Y)
    clone(SMALL).set_params(random_state=2).fit(X, Y)
    assert len(orders) == 20
    for order, n_held in orders:
        np.testing.assert_array_equal(np.sort(order), np.arange(order.size))
        assert order[:n_held].max() > order.size // 2 > order[:n_held].min()
    assert not np.array_equal(orders[0][0], orders[10][0])
    held = np.concatenate([order[:n_held] for order, n_held in orders[:10]])
    np.testing.assert_array_equal(np.sort(held), np.arange(len(Y)))  # each once


def test_of_many_ratings_no_more_are_held_out_than_weights_need(monkeypatch):
    set_policy(monkeypatch, "factorization", least_calibration=400)
    folds, real = [], calibration.best_calibration
    monkeypatch.setattr(calibration, "best_calibration", lambda *args: folds.extend(args[0]) or real(*args))
    clone(SMALL).fit(X, Y)
    assert [fold.held.size for fold in folds] == [180, 180]


@pytest.mark.statistical  # losses over simulations
def test_few_ratings_are_predicted_as_well_as_by_the_shares_of_the_levels():
    """Levels at random: weights of levels learnt from the 36 ratings of a single tenth lose .07."""
    rng, losses = np.random.default_rng(0), []
    for seed in range(6):
        pairs, levels = np.column_stack(np.divmod(rng.permutation(60 * 20)[:1200], 20)), rng.integers(0, 5, 1200)
        p = GibbsM3F(10, levels=range(5), random_state=seed).fit(pairs[:360], levels[:360]).predict_proba(pairs[360:])
        losses.append(-np.log(p[np.arange(840), levels[360:]]).mean() - np.log(5.0))
    assert np.mean(losses) < 0.02
