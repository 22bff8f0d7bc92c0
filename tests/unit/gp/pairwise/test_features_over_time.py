"""`GPPLClassifier` with `time` and features of items: a function of features beside utilities that move."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.metrics import log_loss

from skpref import GPPLClassifier, Inducing, Table, kernels, load, save
from skpref.exceptions import DataError
from skpref.likelihoods import PairwiseLogit

pd = pytest.importorskip("pandas")
NAMES = {"left": "left", "right": "right", "time": "week"}


def league(n=800, n_items=12, n_new=6, seed=0, size=1.2, own=0.4, form=0.6, length=2.0, home=0.4):
    """Return features, games of items in ten weeks, and games of others in the week after these."""
    rng = np.random.default_rng(seed)
    n_all = n_items + n_new
    X = rng.normal(size=(n_all, 2))
    f = size * np.sin(1.5 * X[:, 0])
    phi, walk = np.exp(-0.02 / length), np.empty((n_all, 601))
    walk[:, 0] = rng.normal(size=n_all)
    for k in range(1, 601):
        walk[:, k] = phi * walk[:, k - 1] + np.sqrt(1.0 - phi**2) * rng.normal(size=n_all)
    level = f + rng.normal(0.0, own, n_all)

    def games(n, low, high, first, last):
        time = np.sort(rng.uniform(low, high, n))
        left = rng.integers(first, last, n)
        right = first + (left - first + rng.integers(1, last - first, n)) % (last - first)
        at_home, place = rng.integers(-1, 2, n), np.rint(time * 50.0).astype(int)
        z = level[left] + form * walk[left, place] - level[right] - form * walk[right, place] + home * at_home
        y = (rng.uniform(size=n) < 1.0 / (1.0 + np.exp(-z))).astype(int)
        return pd.DataFrame({"left": left, "right": right, "week": time, "home": at_home}), y

    table = Table(X, ids=np.arange(n_all))
    return table, *games(n, 0.0, 10.0, 0, n_items), *games(600, 10.0, 11.0, n_items, n_all)


def model(items, **params):
    options = {**NAMES, "likelihood": "logit", "covariates": ["home"], **params}
    return GPPLClassifier(items, **options)


@pytest.fixture(scope="module")
def data():
    return league(n=400)


@pytest.fixture(scope="module")
def fitted(data):
    return model(data[0], dynamics="drift+form", max_iter=500, tol=1e-7).fit(data[1], data[2])


def dense(fitted, train, y, test):
    """Return means and covariance of z of rows of `test`, and a utility minus the average, of the dense Gaussian."""
    d, moving, X = fitted.dynamics_, fitted.moving_posterior_, fitted.items.features
    rows = pd.concat([train, test])
    n, time = len(train), rows.week.to_numpy()
    gap = np.abs(time[:, None] - time)
    first = np.full(len(X), np.inf)
    np.minimum.at(first, np.concatenate([train.left, train.right]), np.tile(train.week, 2))

    def utilities(items, times, others, other_times):
        began = np.where(np.isfinite(first[items]), first[items], times)
        a, b = np.maximum(times, began)[:, None], np.maximum(other_times, first[others])
        b = np.where(np.isfinite(b), b, other_times)
        since = np.minimum(a, b) - began[:, None]
        own = d.start_sd**2 + d.form_sd**2 * np.exp(-np.abs(a - b) / d.form_length) + d.drift_sd**2 * since
        shared = d.feature_sd**2 * kernels.cross(fitted.kernel_, X[items], X[others])
        return shared + np.where(items[:, None] == others, own, 0.0)

    K, sides = np.zeros((len(rows), len(rows))), (rows.left.to_numpy(), rows.right.to_numpy())
    for a, sign in zip(sides, (1.0, -1.0), strict=True):
        for b, other in zip(sides, (1.0, -1.0), strict=True):
            K += sign * other * utilities(a, time, b, time)
    home = rows.home.to_numpy() / moving.covariate_scale[0]
    effect = d.effect_start_sd**2 + d.effect_drift_sd**2 * (np.minimum(time[:, None], time) - train.week.min())
    K += home[:, None] * home * effect
    assert gap.shape == K.shape
    tau, nu, likelihood = np.full(n, 0.2), y - 0.5, PairwiseLogit()
    for _ in range(60):
        root = np.sqrt(tau)
        B = np.eye(n) + root[:, None] * K[:n, :n] * root
        half = np.linalg.solve(np.linalg.cholesky(B), root[:, None] * K[:n])
        S = K - half.T @ half
        mean = S[:, :n] @ nu
        _, gradient, curvature = likelihood.expectation(y, mean[:n], np.diag(S)[:n].copy())
        tau = -2.0 * curvature
        nu = tau * mean[:n] + gradient
    return mean[n:], S[n:, n:]


def test_predictions_are_those_of_a_dense_gaussian(data, fitted):
    _, train, y, new, _ = data
    test = pd.concat([train[::40], train[::40].assign(week=12.0), new[:30], new[:20].assign(left=np.arange(20) % 12)])
    mean, covariance = dense(fitted, train, y.astype(float), test)
    got_mean, got_variance = fitted.latent_mean_and_variance(test)
    assert_allclose(got_mean, mean, atol=4e-3)
    ratio = np.sqrt(got_variance / np.diag(covariance))
    assert_allclose(ratio.mean(), 1.0, atol=0.02)
    assert_allclose(ratio, 1.0, atol=0.1)


def test_utilities_at_a_time_are_those_of_a_dense_gaussian(data, fitted):
    _, train, y, _, _ = data
    # Rows of an item against itself at another time do not exist, so that differences to one item tell all utilities.
    others = np.delete(np.arange(18), 3)
    test = pd.DataFrame({"left": others, "right": 3, "week": 7.0, "home": 0})
    mean, covariance = dense(fitted, train, y.astype(float), test)
    whole, wanted = np.insert(mean, 3, 0.0), np.zeros((18, 18))
    wanted[np.ix_(others, others)] = covariance
    centre = np.eye(18) - np.where(np.arange(18) < 12, 1.0 / 12, 0.0)
    got, of_all = fitted.utility(at=7.0, return_cov=True)
    assert_allclose(got, centre @ whole, atol=4e-3)
    wanted = centre @ wanted @ centre.T
    assert_allclose(np.sqrt(np.diag(of_all)), np.sqrt(np.diag(wanted)), rtol=0.06)
    sd = np.sqrt(np.diag(wanted))
    assert_allclose(of_all / np.outer(sd, sd), wanted / np.outer(sd, sd), atol=0.08)
    std = fitted.utility(at=7.0, return_std=True)[1]
    assert_allclose(std, np.sqrt(np.diag(of_all)), rtol=1e-9)
    curves = fitted.curves(np.arange(18), times=[2.0, 7.0, 30.0])
    assert_allclose(curves.utility[curves.time == 7.0], got, atol=1e-9)
    assert_allclose(curves["std"][curves.time == 7.0], std, rtol=1e-9)
    draws = fitted.sample_utility(at=7.0, n_samples=4000, random_state=0)
    assert_allclose(draws.std(axis=1), std, rtol=0.08)
    order = np.argsort(fitted.rank(np.arange(18), at=7.0).id)
    assert_allclose(fitted.rank(np.arange(18), at=7.0).utility[order], got, atol=1e-9)
    row = pd.DataFrame({"left": [0], "right": [15], "week": [7.0], "home": [0]})
    assert_allclose(fitted.latent_mean_and_variance(row)[0], got[0] - got[15], atol=1e-9)
    variance = of_all[0, 0] + of_all[15, 15] - 2.0 * of_all[0, 15]
    assert_allclose(fitted.latent_mean_and_variance(row)[1], variance, rtol=1e-9)


@pytest.mark.statistical  # a mean over data sets of 2,500 games
def test_forecasts_are_best_with_features_and_time():
    losses = []
    for seed in range(2):
        table, games, y, new, of_new = league(n=2500, n_items=40, n_new=30, seed=seed, length=3.0)
        train, late = games[:2000], games[2000:]
        models = model(table), model(None), model(table, time=None)
        for each in models:
            each.fit(train, y[:2000])
        held = (late, y[2000:]), (new, of_new)
        losses.append([[log_loss(right, each.predict_proba(X)[:, 1]) for X, right in held] for each in models])
        found = models[0].dynamics_
        assert found.log_posteriors["drift+form"] > found.log_posteriors["drift+form, no features"] + 2.0
        assert found.name == "drift+form"
    (late, new), time, features = np.mean(losses, axis=0)
    assert late < min(time[0] + 0.001, features[0] - 0.002)
    assert new < min(time[1] - 0.02, features[1] + 0.003)


def test_features_that_do_not_matter_do_no_harm():
    table, train, y, new, of_new = league(n=1500, n_items=20, size=0.0)
    both, time = model(table).fit(train, y), model(None).fit(train, y)
    found = both.dynamics_.log_posteriors
    assert found["drift+form"] < found["drift+form, no features"] + 2.0
    losses = [log_loss(of_new, each.predict_proba(new)[:, 1]) for each in (both, time)]
    assert losses[0] < losses[1] + 0.01


def test_few_inducing_points_leave_the_rest_to_the_items(data, fitted):
    _, train, y, new, _ = data
    few = model(data[0], dynamics="drift+form", inducing=Inducing(4)).fit(train, y)
    assert few.inducing_points_.shape == (4, 2)
    assert_allclose(few.predict_proba(train), fitted.predict_proba(train), atol=0.06)
    # Two ways to the same variance: of new items, features leave a rest, and of the others none.
    for pair in ((0, 5), (0, 15), (14, 15)):
        row = pd.DataFrame({"left": [pair[0]], "right": [pair[1]], "week": [10.0], "home": [0]})
        covariance = few.utility(list(pair), at=10.0, return_cov=True)[1]
        wanted = covariance[0, 0] + covariance[1, 1] - 2.0 * covariance[0, 1]
        assert_allclose(few.latent_mean_and_variance(row)[1], wanted, rtol=1e-9)
        at_end = few.moving_posterior_.snapshot(10.0, few.posterior_.scales)
        items, left, right = few._items.pairs([pair[0]], [pair[1]])
        assert_allclose(at_end.pairs(items, left, right, order=False)[1], wanted, rtol=1e-9)
    assert_allclose(
        few.latent_mean_and_variance(new[:1].assign(right=new.left[:1]))[1],
        np.square(few.coef_std_[0] * new.home.iloc[0]),
        atol=0.05,
    )


def test_everything_else_works_with_features_over_time(data, tmp_path):
    table, train, y, new, of_new = data
    both = model(table, dynamics="drift+form+career", likelihood="logit-ties", order_effect=True)
    both.fit(train, np.where(np.arange(y.size) % 5 == 0, 0.5, y))
    assert_allclose(both.predict_proba(train, ties=True)[:, 1].mean(), 0.2, atol=0.03)
    assert both.covariate_table().name.tolist() == ["home", "left side"]
    save(both, tmp_path / "model")
    again = load(tmp_path / "model")
    assert_array_equal(again.predict_proba(new), both.predict_proba(new))
    assert_array_equal(again.curves().utility, both.curves().utility)
    before = both.dynamics_
    both.partial_fit(pd.concat([new, new[:1].assign(left=0)]), np.append(of_new, 1))
    assert both.dynamics_.feature_sd == pytest.approx(before.feature_sd, rel=1e-12)
    assert both.item_ids_.size == 18
    both.partial_fit(new[:1].assign(left=50), of_new[:1], items=Table(np.ones((1, 2)), ids=[50]))
    assert both.item_ids_.size == 19
    assert both.utility(Table(np.ones((2, 2)), ids=[50, 51]), return_std=True)[1][1] > 0.3
    alone = np.concatenate([both.predict_proba(new[k : k + 1]) for k in range(3)])
    assert_allclose(both.predict_proba(new)[:3], alone, rtol=1e-9)


def test_a_kernel_of_ones_own_stays_and_the_dynamics_are_learnt(data):
    table, train, y, _, _ = data
    own = kernels.ProductMatern(1.5)
    learnt = model(table, dynamics="form", kernel=own).fit(train, y)
    fixed = clone(learnt).set_params(optimizer=None).fit(train, y)
    assert learnt.kernel_ == fixed.kernel_ == own
    assert learnt.dynamics_.log_posteriors["form"] > fixed.dynamics_.log_posteriors["form"] + 0.1
    assert learnt.dynamics_.feature_sd != fixed.dynamics_.feature_sd == 1.0


def test_choices_over_time_use_features(data):
    table = data[0]
    rng = np.random.default_rng(0)
    shown = np.array([rng.choice(18, 4, replace=False) for _ in range(300)])
    worth = 1.5 * np.sin(1.5 * table.features[:, 0])
    chosen = np.argmax(worth[shown] + rng.gumbel(size=shown.shape), axis=1)
    tasks = pd.DataFrame(shown, columns=["a", "b", "c", "d"]).assign(day=np.linspace(0.0, 1.0, 300))
    seen = tasks[(shown < 14).all(axis=1)]
    luce = GPPLClassifier(table, likelihood="luce", time="day", dynamics="drift").fit(seen, chosen[seen.index])
    unseen = tasks[~(shown < 14).all(axis=1)]
    share = luce.predict_proba(unseen)[np.arange(len(unseen)), chosen[unseen.index]]
    assert np.log(share).mean() > np.log(0.25) + 0.15


def test_what_has_no_meaning_is_refused(data, fitted, tmp_path):
    table, train, y, _, _ = data
    with pytest.raises(DataError, match="item_effects=False is not for models with time"):
        model(table, item_effects=False).fit(train, y)
    with pytest.raises(DataError, match="unknown item"):
        fitted.predict(train[:1].assign(left=77))
    moving = fitted.moving_posterior_
    broken = clone(fitted).fit(train, y)
    broken.moving_posterior_ = replace(moving, items=replace(moving.items, response=None))
    with pytest.raises(DataError, match="items must have the responses to features"):
        save(broken, tmp_path / "broken")
