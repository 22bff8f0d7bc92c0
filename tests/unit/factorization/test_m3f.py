import importlib.util
import pickle
import warnings

import numpy as np
import pytest
from scipy.stats import f
from sklearn.base import clone, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold, cross_val_score
from sklearn.utils._param_validation import InvalidParameterError

from skpref import Checkpoint
from skpref.exceptions import CheckpointError, DataError, UnknownIdError
from skpref.factorization.ipm3f import GibbsIPM3F
from skpref.factorization.m3f import GibbsM3F
from skpref.factorization.max_margin import base
from skpref.factorization.policy import POLICY
from skpref.inference import gibbs
from tests.unit.callbacks import StopAfter


def simulated(n_users=40, n_items=30, seed=0, share=0.6):
    rng = np.random.default_rng(seed)
    U, V = 4.0 * rng.standard_normal((n_users, 2)), 4.0 * rng.standard_normal((n_items, 2))
    X = np.argwhere(rng.random((n_users, n_items)) < share)
    score = np.einsum("nk,nk->n", U[X[:, 0]], V[X[:, 1]]) + 3.0 * rng.standard_normal(len(X))
    return X, 1 + np.searchsorted([-20.0, -6.0, 6.0, 20.0], score)


# Short chains are quick, and no matter here.
pytestmark = pytest.mark.filterwarnings("ignore:The chains of Gibbs.* are not stationary")

X, Y = simulated()
SMALL = GibbsM3F(n_factors=4, max_iter=12, burn_in=4, n_samples=5, random_state=0)
BUFFET = GibbsIPM3F(C=0.2, sigma=5.0, max_iter=12, burn_in=4, n_samples=5, random_state=0)
both = pytest.mark.parametrize("small", [SMALL, BUFFET], ids=["m3f", "ipm3f"])
WELL = clone(SMALL).set_params(max_iter=60, burn_in=20, C=0.2)  # the fewer ratings, the larger a C they want


def same(a, b):
    for tables, others in ((a.posterior_.average, b.posterior_.average), (a.posterior_.samples, b.posterior_.samples)):
        for table, other in zip(tables, others, strict=True):
            np.testing.assert_array_equal(table, other)
    np.testing.assert_array_equal(a.risks_, b.risks_)
    assert a.temperature_ == b.temperature_
    np.testing.assert_array_equal(a.user_factors_, b.user_factors_)


@pytest.fixture(scope="module")
def fitted():
    return clone(WELL).fit(X, Y)


def test_the_number_of_factors_may_be_any_integer():
    for number in (True, np.int8(1)):
        same(clone(SMALL).set_params(n_factors=number).fit(X, Y), clone(SMALL).set_params(n_factors=1).fit(X, Y))


def test_ratings_in_a_buffer_are_ratings_with_weights_too():
    weight = (np.arange(len(Y)) % 3 > 0).astype(float)
    wanted = clone(SMALL).fit(X, Y, sample_weight=weight)
    same(clone(SMALL).fit(X, memoryview(Y), sample_weight=weight), wanted)


def test_it_learns(fitted):
    assert fitted.score(X, Y) > -0.4
    rng = np.random.default_rng(1)
    test = rng.random(len(Y)) < 0.2
    model = clone(WELL).fit(X[~test], Y[~test])
    always = np.abs(np.median(Y[~test]) - Y[test]).mean()
    for rule in ("scores", "median", "average", "last"):
        assert -model.set_params(prediction=rule).score(X[test], Y[test]) < 0.6 * always
    p = model.predict_proba(X[test])[np.arange(test.sum()), Y[test] - 1]
    share = np.bincount(Y[~test])[1:] / (~test).sum()
    assert -np.log(p).mean() < -np.log(share[Y[test] - 1]).mean() - 0.4


def test_attributes(fitted):
    n_users, n_items = 40, 30
    assert fitted.user_factors_.shape == (n_users, 4)
    assert fitted.item_factors_.shape == (n_items, 4)
    assert fitted.thresholds_.shape == (n_users, 4)
    assert fitted.classes_.tolist() == [1, 2, 3, 4, 5]
    assert fitted.user_ids_.tolist() == list(range(n_users))
    assert fitted.item_ids_.tolist() == list(range(n_items))
    assert fitted.risks_.shape == (1, 60)
    assert fitted.n_iter_ == 60
    assert fitted.n_features_in_ == 2
    assert fitted.risks_[0, -1] < fitted.risks_[0, 0]
    assert fitted.risk_ < fitted.risks_[:, 20:].min()  # figure 1 (a) of the paper
    assert 0.9 < fitted.r_hat_ < 3.0
    assert 1.0 < fitted.effective_sample_size_ < 200.0
    assert is_classifier(fitted)


def test_predictions_are_those_of_the_formulas(fitted):
    score = np.einsum("nk,nk->n", fitted.user_factors_[X[:, 0]], fitted.item_factors_[X[:, 1]])
    level = (score[:, None] >= fitted.thresholds_[X[:, 0]]).sum(axis=1)
    average = clone(fitted).set_params(prediction="average").fit(X, Y)
    np.testing.assert_array_equal(average.predict(X), fitted.classes_[level])
    samples = fitted.posterior_.samples
    each = np.array([(u[X[:, 0]].astype(float) * v[X[:, 1]]).sum(axis=1) for u, v in zip(*samples[:2], strict=True)])
    level = (each.mean(axis=0)[:, None] >= samples.thresholds.mean(axis=0)[X[:, 0]]).sum(axis=1)
    np.testing.assert_array_equal(fitted.predict(X), fitted.classes_[level])
    mean, std = fitted.predict_score(X, return_std=True)
    np.testing.assert_allclose(mean, each.mean(axis=0), atol=1e-4)
    np.testing.assert_allclose(std, each.std(axis=0, ddof=1), atol=1e-4)
    np.testing.assert_array_equal(fitted.predict_score(X), mean)
    total = np.zeros((len(X), 5))
    for s, theta in zip(each, samples.thresholds, strict=True):
        t = theta[X[:, 0]].astype(float)
        T = np.where(np.arange(1, 5) >= np.arange(1, 6)[:, None], 1.0, -1.0)
        loss = np.maximum(0.0, 9.0 - T * (t[:, None] - s[:, None, None])).sum(axis=2)
        p = fitted.level_weights_ * np.exp(-fitted.C * loss / fitted.temperature_)
        total += p / p.sum(axis=1, keepdims=True) / len(each)
    np.testing.assert_allclose(fitted.predict_proba(X), total, atol=1e-5)
    median = clone(fitted).set_params(prediction="median").fit(X, Y)
    wanted = (np.cumsum(total, axis=1) < 0.5).sum(axis=1)
    np.testing.assert_array_equal(median.predict(X), median.classes_[wanted])
    error = np.abs(fitted.predict(X) - Y)
    weight = np.arange(1.0, len(Y) + 1)
    assert fitted.score(X, Y) == pytest.approx(-error.mean())
    assert fitted.score(X, Y, weight) == pytest.approx(-np.average(error, weights=weight))


def test_long_chains_predict_as_well_as_short_ones():
    """Factors rotate from sweep to sweep: an average of them shrinks, one of scores does not."""
    rows, y = simulated(80, 50, share=0.5)
    test = np.random.default_rng(0).random(len(y)) < 0.4
    errors = {}
    for max_iter in (40, 400):
        model = GibbsM3F(40, C=0.1, max_iter=max_iter, random_state=0).fit(rows[~test], y[~test])
        errors[max_iter] = -model.score(rows[test], y[test])
    assert errors[400] < 1.05 * errors[40]
    assert errors[400] < 0.8 * -model.set_params(prediction="average").score(rows[test], y[test])


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize(("small", "more"), [(SMALL, {}), (SMALL, {"dtype": np.float32}), (BUFFET, {})])
def test_same_seed_same_bits_whatever_the_threads(small, more, own):
    model = clone(small).set_params(user_thresholds=own, n_chains=2, **more)
    first = model.fit(X, Y)
    same(first, clone(model).set_params(n_jobs=1).fit(X, Y))
    other = clone(model).set_params(random_state=1).fit(X, Y)
    assert not np.array_equal(first.risks_, other.risks_)
    # The order of the ratings changes nothing.
    order = np.random.default_rng(0).permutation(len(Y))
    same(first, clone(model).fit(X[order], Y[order]))


def test_ids_and_names_of_levels_change_nothing():
    named = [(f"user {u:03d}", (i, "item")) for u, i in X]
    words = np.array(["a", "b", "c", "d", "e"], dtype=object)
    model = clone(SMALL).fit(X, Y)
    other = clone(SMALL).set_params(levels=words.tolist()).fit(named, words[Y - 1])
    same(model, other)
    assert other.predict(named).tolist() == words[model.predict(X) - 1].tolist()


def test_data_frames():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"user": [f"u{u:02d}" for u in X[:, 0]], "film": X[:, 1]})
    model = clone(SMALL).fit(frame, pd.Series(Y))
    same(model, clone(SMALL).fit(X, Y))
    assert model.feature_names_in_.tolist() == ["user", "film"]
    with pytest.raises(ValueError, match="column 'user' of X would be read as the item ids"):
        model.predict(frame[["film", "user"]])
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame.rename(columns={"film": "series"}))


@both
def test_weights_are_repetitions(small):
    weight = np.random.default_rng(0).integers(0, 3, len(Y))
    repeated = np.repeat(np.arange(len(Y)), weight)
    same(clone(small).fit(X[repeated], Y[repeated]), clone(small).fit(X, Y, sample_weight=weight))


def test_two_levels_are_binary_hinges():
    likes = np.where(Y >= 3, 1, -1)
    model = clone(WELL).fit(X, likes)
    assert model.classes_.tolist() == [-1, 1]
    assert model.thresholds_.shape == (40, 1)
    assert -model.score(X, likes) < 0.25
    assert model.predict_proba(X).shape == (len(X), 2)


def test_a_level_without_ratings():
    kept = Y != 3
    model = clone(SMALL).set_params(levels=[1, 2, 3, 4, 5]).fit(X[kept], Y[kept])
    assert model.predict_proba(X).shape == (len(X), 5)
    assert (model.predict_proba(X) > 0.0).all()


@pytest.mark.parametrize("own", [True, False])
def test_unseen_users_and_items_get_the_prior(own):
    model = clone(SMALL).set_params(user_thresholds=own, sigma=1.5).fit(X, Y)
    rows = [(0, 999), (999, 0), (999, 999)]
    mean, std = model.predict_score(rows, return_std=True)
    samples = model.posterior_.samples
    # Where each user has thresholds, the mean of the users' factors is learnt, with a prior that counts for 3 users.
    user_mean = samples.users.astype(float).sum(axis=1) / (40 + 3) * own
    score = (user_mean * samples.items[:, 0]).sum(axis=1)
    np.testing.assert_allclose(mean, [0.0, score.mean(), 0.0], rtol=1e-5)
    square = [(part[:, 0].astype(float) ** 2).sum(axis=1).mean() for part in (samples.users, samples.items)]
    both = 1.5**4 * 4 + 1.5**2 * (user_mean**2).sum(axis=1).mean()
    wanted = [1.5**2 * square[0], 1.5**2 * square[1] + score.var(ddof=1), both]
    np.testing.assert_allclose(std**2, wanted, rtol=1e-5)
    theta = samples.thresholds.mean(axis=0)
    cuts = np.array([theta[0], theta.mean(axis=0), theta.mean(axis=0)])
    np.testing.assert_array_equal(model.predict(rows), model.classes_[(mean[:, None] >= cuts).sum(axis=1)])
    p = model.predict_proba(rows)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert (p > 0.0).all()
    strict = clone(model).set_params(unknown="raise").fit(X, Y)
    with pytest.raises(UnknownIdError, match="unknown item 999 in row 0"):
        strict.predict(rows[:1])
    with pytest.raises(UnknownIdError, match="unknown user 999 in row 1"):
        strict.predict_proba([(0, 0), *rows[1:]])


def test_recommendations(fitted, monkeypatch):
    best = fitted.recommend(3, 6)
    rated = set(X[X[:, 0] == 3, 1])
    assert not set(best["item"]) & rated
    assert np.all(np.diff(best["score"]) <= 0.0)
    pairs = np.column_stack([np.full(6, 3), best["item"]])
    np.testing.assert_array_equal(best["rating"], fitted.predict(pairs))
    np.testing.assert_allclose(best["expected_rating"], fitted.predict_proba(pairs) @ fitted.classes_)
    np.testing.assert_allclose([best["score"], best["std"]], fitted.predict_score(pairs, return_std=True))
    everything = np.array([(3, i) for i in range(30)])
    mean, std = fitted.predict_score(everything, return_std=True)
    best = fitted.recommend(3, 100, exclude_seen=False, optimism=2.0)
    assert best.columns.tolist() == ["item", "rating", "expected_rating", "score", "std"]
    np.testing.assert_array_equal(best["item"], np.argsort(-(mean + 2.0 * std), kind="stable"))
    words = clone(fitted).set_params(levels=list("abcde"), max_iter=3, burn_in=0).fit(X, np.array(list("abcde"))[Y - 1])
    assert words.recommend(3, 1).columns.tolist() == ["item", "rating", "score", "std"]
    with pytest.raises(UnknownIdError, match=r"unknown user 99 has no ratings.*fold_in"):
        fitted.recommend(99)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)  # as without pandas
    record = fitted.recommend(3, 100, exclude_seen=False, optimism=2.0)
    assert len(record) == 30
    for name in best.columns:
        np.testing.assert_array_equal(record[name], best[name])
    with pytest.raises(DataError, match="n must be an integer of at least 1"):
        fitted.recommend(3, 0)
    for optimism in (np.nan, np.inf, -1e308, "x", None, [1.0, 2.0]):
        with pytest.raises(DataError, match="optimism must be a number of standard deviations, up to 1e6; got"):
            fitted.recommend(3, optimism=optimism)


# --------------------------------------------------------------------------
# updates


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize(("well", "share"), [(WELL, 0.7), (BUFFET, 0.8)], ids=["m3f", "ipm3f"])
def test_folded_users_leave_the_others_alone_and_are_predicted(well, share, own):
    new, options = X[:, 0] >= 30, {"max_iter": 60, "burn_in": 20, "C": 0.3, "n_chains": 2}
    model = clone(well).set_params(user_thresholds=own, **options).fit(X[~new], Y[~new])
    before = pickle.loads(pickle.dumps(model))
    rng = np.random.default_rng(0)
    test = new & (rng.random(len(Y)) < 0.3)
    model.fold_in(X[new & ~test], Y[new & ~test])
    for name in ("items", "users", "thresholds"):
        for part in ("average", "samples", "last"):
            old, now = (getattr(getattr(m.posterior_, part), name) for m in (before, model))
            np.testing.assert_array_equal(old, now[:, : old.shape[1]])
    np.testing.assert_array_equal(before.predict(X[~new]), model.predict(X[~new]))
    always = np.abs(np.median(Y[~new]) - Y[test]).mean()
    assert -model.score(X[test], Y[test]) < share * always
    assert model.user_ids_.tolist() == list(range(40))
    assert model.predict_score(X[test], return_std=True)[1].min() > 0.0
    again = before.fold_in(X[new & ~test], Y[new & ~test])
    same(again, model)
    with pytest.raises(DataError, match="user 31 has ratings already"):
        model.fold_in([(31, 0)], [3])
    with pytest.raises(UnknownIdError, match="unknown item 77: fold_in"):
        model.fold_in([(99, 77)], [3])
    assert model.partial_fit([(99, 77)], [3]).user_factors_.shape[0] == 41


def test_fold_in_needs_sweeps_after_burn_in():
    new = X[:, 0] >= 30
    model = clone(SMALL).fit(X[~new], Y[~new]).set_params(burn_in=12)
    with pytest.raises(ValueError, match="burn_in=12 must be less than max_iter=12"):
        model.fold_in(X[new], Y[new])
    assert model.user_ids_.size == 30


def test_a_fit_that_a_callback_stops_keeps_the_complete_chains():
    with pytest.raises(DataError, match="stopped the fit during burn-in"):
        clone(SMALL).set_callbacks(StopAfter(3)).fit(X, Y)
    early = clone(SMALL).set_callbacks(StopAfter(9)).fit(X, Y)
    assert early.risks_.shape == (1, 9)
    one_chain = clone(SMALL).set_params(n_chains=2).set_callbacks(StopAfter(20)).fit(X, Y)
    assert one_chain.risks_.shape == (1, 12)
    assert np.isfinite(one_chain.predict_proba(X)).all()


@both
def test_partial_fit_learns_more(small):
    first = np.arange(len(Y)) < len(Y) // 2
    model = clone(small).partial_fit(X[first], Y[first])
    same(model, clone(small).fit(X[first], Y[first]))
    model.partial_fit([*X[~first].tolist(), (50, 50)], [*Y[~first], 5])
    assert model.user_ids_.tolist()[-1] == 50
    assert model.risks_.shape == (1, 12)
    assert -model.score(X, Y) < -clone(small).fit(X[first], Y[first]).score(X, Y)


def test_partial_fit_replaces_a_rating_if_it_is_to():
    model = clone(SMALL).fit(X, Y)
    other = [6 - Y[0]] if Y[0] != 3 else [1]
    with pytest.raises(DataError, match="duplicate ratings that differ"):
        model.partial_fit(X[:1], other)
    model.set_params(duplicates="last").partial_fit(X[:1], other)
    assert model.fitted_.ratings.size == len(Y) + 1


@both
def test_a_warm_start_continues_the_chains(small):
    whole = clone(small).set_params(max_iter=24).fit(X, Y)
    model = clone(small).set_params(warm_start=True, max_iter=14).fit(X, Y).set_params(max_iter=10).fit(X, Y)
    np.testing.assert_array_equal(model.risks_, whole.risks_)
    np.testing.assert_allclose(model.user_factors_, whole.user_factors_, atol=1e-12)
    model.set_params(C=0.03).fit(X, Y)  # another distribution: the average starts anew, from the last state
    assert model.n_iter_ == 10
    assert model.fitted_.chains[0].n_averaged == 6
    assert abs(model.risks_[0, 0] - model.risks_[0, -1]) < 0.3 * model.risks_[0, -1]
    kept = X[:, 0] != 0
    same(model.fit(X[kept], Y[kept]), clone(model).fit(X[kept], Y[kept]))  # other users: a cold start


def test_several_chains_are_averaged_in_their_predictions():
    model = clone(SMALL).set_params(n_chains=3).fit(X, Y)
    average = model.posterior_.average
    each = [(u[X[:, 0]] * v[X[:, 1]]).sum(axis=1) for u, v in zip(*average[:2], strict=True)]
    np.testing.assert_allclose(
        (model.user_factors_[X[:, 0]] * model.item_factors_[X[:, 1]]).sum(axis=1), np.mean(each, axis=0), atol=1e-10
    )
    assert model.posterior_.samples.users.shape[0] == 15
    assert model.risks_.shape == (3, 12)


@both
def test_an_interrupted_fit_resumes_to_the_same_bits(small, tmp_path, monkeypatch):
    path = tmp_path / "chains"
    model = clone(small).set_params(checkpoint=Checkpoint(path, 0.0), n_chains=2)
    real, done = gibbs.advanced, []

    def fragile(*args):
        done.append(1)
        if len(done) == 17:
            raise KeyboardInterrupt
        return real(*args)

    monkeypatch.setattr(gibbs, "advanced", fragile)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y)
    assert path.exists()
    assert not hasattr(model, "posterior_")
    with pytest.raises(CheckpointError, match="other data or parameters"):
        clone(model).set_params(C=0.1).fit(X, Y)
    with pytest.raises(CheckpointError, match="other data or parameters"):
        clone(model).set_params(random_state=5).fit(X, Y)
    before = len(done)  # of which one fold is held out
    model.fit(X, Y)
    assert len(done) - before == 24 - 16 + POLICY.forgetting_sweeps + POLICY.calibration_sweeps
    same(model, clone(small).set_params(n_chains=2).fit(X, Y))
    assert not path.exists()


# --------------------------------------------------------------------------
# scikit-learn


def test_levels_that_no_training_rating_has_are_scored():
    rare = Y.copy()
    rare[0] = 7
    model = clone(SMALL).fit(X[1:], Y[1:])
    level = np.searchsorted([1, 2, 3, 4, 5, 7], rare)
    place = model.predict(X) - 1
    assert model.score(X, rare) == pytest.approx(-np.abs(place - level).mean())
    gap = clone(SMALL).fit(X[Y != 3], Y[Y != 3])  # 2 and 4 are two levels apart
    assert gap.score(X, Y) == pytest.approx(-np.abs(gap.predict(X) - Y).mean())
    assert np.isfinite(cross_val_score(clone(SMALL), X, rare, cv=KFold(3), error_score="raise")).all()
    for y, message in ((np.append(rare[:-1], np.nan), "contains NaN"), (np.append(rare[:-1], np.inf), "infinite")):
        with pytest.raises(DataError, match=message):
            model.score(X, y)
    with pytest.raises(DataError, match=r"y holds 7 .*not among the levels 1\.\.5"):  # which was declared
        model.set_params(levels=[1, 2, 3, 4, 5]).score(X, rare)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        *(({name: 1e-300}, f"'{name}' parameter .* in the range") for name in ("margin", "sigma", "threshold_scale")),
        *(({name: 1e300}, f"'{name}' parameter .* in the range") for name in ("margin", "sigma", "threshold_scale")),
        ({"n_factors": 0}, "'n_factors' parameter"),
        ({"threshold_means": [-1.0, 1.0, 0.5, 2.0]}, "threshold_means must be 4 ascending numbers"),
        ({"threshold_means": [-1.0, 1.0]}, "threshold_means must be 4 ascending numbers"),
        ({"burn_in": 12}, "burn_in=12 must be less than max_iter=12: set burn_in=2, or a larger max_iter"),
        ({"dtype": int}, "dtype must be float64 or float32"),
    ],
)
def test_parameters_that_cannot_be(params, message):
    with pytest.raises(InvalidParameterError, match=message):
        clone(SMALL).set_params(**params).fit(X, Y)


@both
def test_numbers_out_of_range(small):
    with pytest.raises(DataError, match="left the range of floating-point numbers"):
        clone(small).set_params(C=1e200).fit(X, Y)
    for params in ({"margin": 1e9, "threshold_scale": 1e9, "sigma": 1e-9}, {"margin": 1e-9, "threshold_scale": 1e-9}):
        assert np.isfinite(clone(small).set_params(**params).fit(X, Y).predict_proba(X)).all()
    for params in ({"C": 0.0}, {"sigma": 1e-8}, {"sigma": 1e6}, {"C": 1e-9}, {"margin": 1e-6}, {"C": 50.0}):
        model = clone(small).set_params(**params).fit(X, Y)
        assert np.isfinite(model.predict_proba(X)).all()


def test_bad_rows():
    with pytest.raises(DataError, match="every sample_weight is zero"):
        clone(SMALL).fit(X, Y, sample_weight=np.zeros(len(Y)))
    with pytest.raises(DataError, match=r"y holds 7 \(user 3, item 9, row \d+\), .*levels 1\.\.5"):
        clone(SMALL).set_params(levels=[1, 2, 3, 4, 5]).fit([(3, 9), (3, 8)], [7, 2])
    with pytest.raises(DataError, match="user 3 rated item 9 2 times: 1, 2"):
        clone(SMALL).fit([(3, 9), (3, 9)], [1, 2])
    single = clone(SMALL).set_params(levels=[1, 2], C=1.0).fit([("a", "b")], [2])
    assert single.predict([("a", "b")]).tolist() == [2]


def test_verbose_prints_a_line_a_sweep(capsys):
    clone(SMALL).set_params(verbose=1).fit(X, Y)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 12
    assert lines[-1].startswith("GibbsM3F: sweep 12/12  risk ")


# --------------------------------------------------------------------------
# chains that have not converged


def ratings_of(seed):
    """Return X and y of a table that five levels and three factors describe."""
    rng = np.random.default_rng(seed)
    U, V = rng.standard_normal((60, 3)), rng.standard_normal((40, 3))
    rows = np.argwhere(rng.random((60, 40)) < 0.3)
    score = np.einsum("nk,nk->n", U[rows[:, 0]], V[rows[:, 1]]) + rng.standard_normal(len(rows))
    return rows, 1 + np.searchsorted(np.quantile(score, [0.2, 0.4, 0.6, 0.8]), score)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("n_chains", [1, 3])
def test_default_fits_of_healthy_data_do_not_warn(n_chains):
    for seed in range(3):
        GibbsM3F(5, n_chains=n_chains, random_state=seed).fit(*ratings_of(seed))


@pytest.mark.parametrize("n_chains", [1, 2])
def test_chains_that_are_not_stationary_warn(n_chains):
    model = GibbsM3F(5, n_chains=n_chains, C=10.0, random_state=0)  # the larger C, the smaller the steps
    with pytest.warns(ConvergenceWarning, match=r"R-hat of the risk is \d.* Increase max_iter and burn_in") as caught:
        model.fit(*ratings_of(0))
    assert len(caught) == 1
    assert caught[0].filename == __file__


def test_the_first_part_of_a_stream_has_the_levels_of_the_model_or_of_the_call():
    model = clone(SMALL).set_params(levels=[1, 2, 3, 4, 5])
    assert model.partial_fit([(3, 9), (3, 8)], [2, 4]).classes_.tolist() == [1, 2, 3, 4, 5]
    assert clone(model).partial_fit([(3, 9), (3, 8)], [2, 4], classes=[2, 3, 4]).classes_.tolist() == [2, 3, 4]


def test_a_running_fit_shows_what_it_would_be_if_it_ended_now(monkeypatch):
    shown = []
    monkeypatch.setattr(base, "iteration_callback", lambda *_, **__: lambda event: shown.append(event.fitted()))
    model = clone(SMALL).fit(X, Y)
    assert shown[: SMALL.burn_in] == [None] * SMALL.burn_in
    assert len(shown) == SMALL.max_iter
    assert shown[-1] is not model
    np.testing.assert_array_equal(shown[-1].predict_proba(X[:5]), model.predict_proba(X[:5]))


@pytest.mark.parametrize(("model", "tau"), [(GibbsM3F(3), 2.0), (GibbsIPM3F(), 20.0)])
@pytest.mark.parametrize(("n_averaged", "most"), [(20, np.inf), (39, np.inf), (40, 2.0)])
def test_a_single_chain_warns_where_its_halves_differ_by_more_than_chance(monkeypatch, model, tau, n_averaged, most):
    half = n_averaged // 2
    limit = min(np.sqrt(1.0 + tau / half * f.ppf(0.999, 1, 2 * (half - 1))), most)
    model = clone(model).set_params(max_iter=n_averaged + 3, burn_in=3, n_samples=2, random_state=0)
    for value, warns in ((0.999 * limit, False), (1.001 * limit, True)):
        monkeypatch.setattr(gibbs, "split_rhat", lambda _, value=value: value)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(*(part[:60] for part in ratings_of(0)))
        assert model.r_hat_ == value
        assert [w.category for w in caught] == [ConvergenceWarning] * warns


@pytest.mark.parametrize("method", ["partial_fit", "fold_in"])
@pytest.mark.parametrize("kind", [GibbsM3F, GibbsIPM3F])
def test_what_chains_cannot_change_is_set_back_first(kind, method):
    X, y = (part[:60] for part in ratings_of(0))
    model = kind(max_iter=4, burn_in=1, n_samples=2, random_state=0).fit(X, y)
    changes = {"user_thresholds": (False, True), "n_chains": (2, 1)} | (
        {"n_factors": (7, 100)} if kind is GibbsM3F else {}
    )
    before = model.predict(X)
    for name, (value, fitted) in changes.items():
        model.set_params(**{name: value})
        with pytest.raises(
            DataError, match=f"^{name} is {value}, but the model was fitted with {name}={fitted}; set {name}"
        ):
            getattr(model, method)(X + np.array([1000, 0]), y)
        model.set_params(**{name: fitted})
    np.testing.assert_array_equal(model.predict(X), before)
    assert len(getattr(model, method)(X + np.array([1000, 0]), y).user_ids_) > len(set(X[:, 0]))


def test_lengths_differ_also_where_ratings_weigh_nothing():
    rows, weight = [[0, 0], [0, 1], [1, 0], [1, 1], [2, 0]], [1.0, 1.0, 0.0, 1.0, 1.0]
    for y in ([1, 2, 1, 2, 1, 2], [1, 2, 1, 2]):
        with pytest.raises(ValueError, match="inconsistent numbers of samples"):
            GibbsM3F(1, max_iter=2, burn_in=1).fit(rows, y, sample_weight=weight)
