"""What differs from `GibbsM3F`; all they share is tested there."""

import pickle
import warnings

import numpy as np
import pytest
from scipy.stats import poisson
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import InvalidParameterError

from skpref.data.ratings import Ratings
from skpref.exceptions import DataError
from skpref.factorization.ipm3f import GibbsIPM3F
from skpref.factorization.max_margin import m3f_chain
from skpref.factorization.max_margin.ipm3f_chain import aligned_mean, fold_in_of, log_ibp, start_state


def simulated(n_users=60, n_items=30, seed=0, share=0.6):
    """Users hold some of four features."""
    rng = np.random.default_rng(seed)
    Z, V = rng.random((n_users, 4)) < 0.5, 9.0 * rng.standard_normal((n_items, 4))
    X = np.argwhere(rng.random((n_users, n_items)) < share)
    score = np.einsum("nk,nk->n", Z[X[:, 0]], V[X[:, 1]]) + 2.0 * rng.standard_normal(len(X))
    return X, 1 + np.searchsorted([-20.0, -6.0, 6.0, 20.0], score)


# Short chains are quick, and no matter here.
pytestmark = pytest.mark.filterwarnings("ignore:The chains of Gibbs.* are not stationary")

X, Y = simulated()
SMALL = GibbsIPM3F(C=0.2, sigma=5.0, max_iter=12, burn_in=4, n_samples=5, random_state=0)
WELL = clone(SMALL).set_params(max_iter=60, burn_in=30)


@pytest.fixture(scope="module")
def fitted():
    return clone(WELL).fit(X, Y)


def test_it_learns():
    rng = np.random.default_rng(1)
    test = rng.random(len(Y)) < 0.2
    model = clone(WELL).fit(X[~test], Y[~test])
    always = np.abs(np.median(Y[~test]) - Y[test]).mean()
    for rule in ("median", "scores", "average", "last"):
        assert -model.set_params(prediction=rule).score(X[test], Y[test]) < 0.7 * always, rule
    p = model.predict_proba(X[test])[np.arange(test.sum()), Y[test] - 1]
    share = np.bincount(Y[~test])[1:] / (~test).sum()
    assert -np.log(p).mean() < -np.log(share[Y[test] - 1]).mean() - 0.3


def test_attributes(fitted):
    last, K = fitted.posterior_.last, fitted.n_factors_
    assert K.shape == fitted.risks_.shape == (1, 60)
    assert K.dtype == np.int64
    assert last.users.shape == (1, 60, K[0, -1])
    assert last.users.dtype == fitted.posterior_.samples.users.dtype == np.uint8
    assert set(np.unique(last.users)) == {0, 1}
    assert last.users.any(axis=1).all()
    assert fitted.user_factors_.shape[1] == fitted.item_factors_.shape[1] >= K[0, -1]
    assert 0.0 <= fitted.user_factors_.min() <= fitted.user_factors_.max() <= 1.0 + 1e-12
    assert fitted.thresholds_.shape == (60, 4)
    assert np.isfinite(fitted.risk_)


def test_less_loss_means_fewer_features(fitted):
    poor = clone(WELL).set_params(C=0.005).fit(X, Y)
    assert poor.n_factors_[0, 30:].mean() < fitted.n_factors_[0, 30:].mean()
    generous = clone(WELL).set_params(alpha=30.0, C=1e-6).fit(X, Y)
    # 30 H_60 = 140 features are expected, and their number is Poisson
    assert generous.n_factors_[0, -1] > 80


def test_averages_are_aligned():
    def state(feature, holders, value):
        Z = np.zeros((3, len(feature)), np.uint8)
        for k, n in enumerate(holders):
            Z[:n, k] = 1
        theta = np.full((3, 1), value)
        return {
            "users": Z,
            "items": np.full((2, len(feature)), value),
            "thresholds": theta,
            "feature": np.array(feature),
        }

    mean = aligned_mean(None, state([1, 4], [3, 1], 1.0), 1)
    mean = aligned_mean(mean, state([1, 7], [2, 2], 3.0), 2)
    assert mean["feature"].tolist() == [1, 4, 7]  # feature 4 had half a holder on average
    assert mean["users"].sum(axis=0).tolist() == [2.5, 0.5, 1.0]
    assert mean["items"][0].tolist() == [2.0, 0.5, 1.5]
    mean = aligned_mean(mean, state([7], [1], 0.0), 3)
    assert mean["feature"].tolist() == [1, 7]
    np.testing.assert_allclose(mean["users"].sum(axis=0), [5.0 / 3, 1.0])
    np.testing.assert_allclose(mean["thresholds"], 4.0 / 3)


def test_folded_users_keep_features_that_live_from_sample_to_sample(fitted):
    ratings = Ratings(np.zeros(2, np.int64), np.array([0, 1]), np.array([0, 4]), np.ones(2), 1, 30, 5)
    fold = fold_in_of(fitted._problem(ratings), 0)
    theta, old_users = np.zeros((4, 4)), np.ones((4, 3), np.uint8)
    sample = {"users": old_users, "items": np.zeros((30, 3)), "thresholds": theta, "feature": np.array([2, 5, 8])}
    state = {**fold.start(sample, None), "users": np.array([[1, 0, 1]], np.uint8)}
    after = fold.start({**sample, "feature": np.array([5, 7, 8])}, state)
    np.testing.assert_array_equal(after["users"], [[0, 0, 1]])
    np.testing.assert_array_equal(after["holders"], 4.0)


def test_a_state_with_more_users_and_items_keeps_what_it_has():
    problem = clone(SMALL).fit(X, Y).set_params(alpha=20.0)._problem
    few, many = (problem(_encoded(X[X[:, 0] < n], Y[X[:, 0] < n]).merged()) for n in (30, 60))
    first = start_state(few, 3)
    second = start_state(many, 3, first)
    K = first["feature"].size
    for name in ("users", "items"):
        n, k = first[name].shape
        np.testing.assert_array_equal(second[name][:n, :k], first[name])
    assert second["users"][:30, K:].sum() == 0
    # New features have the next numbers.
    n_born = int(first["born"]) + second["users"].shape[1] - K
    assert second["feature"].tolist() == [*first["feature"], *range(int(first["born"]), n_born)]
    assert second["born"] == n_born > first["born"]


def _encoded(rows, levels):
    from skpref.data import Vocabulary
    from skpref.factorization.max_margin.posterior import RatingVocabularies

    user, item = rows.T
    vocabularies = RatingVocabularies(Vocabulary.from_columns(user), Vocabulary.from_columns(item), np.arange(1, 6))
    return vocabularies.encode(user, item, levels - 1)


def test_no_features():
    model = clone(SMALL).set_params(alpha=1e-12, C=0.0, n_chains=2).fit(X, Y)
    assert (model.n_factors_ == 0).all()
    assert model.user_factors_.shape == (60, 0)
    np.testing.assert_array_equal(model.predict_score(X), 0.0)
    np.testing.assert_allclose(model.predict_proba([(0, 0), (99, 0)]).sum(axis=1), 1.0)


@pytest.mark.parametrize(
    "params",
    [
        {"alpha": 0.0},
        {"alpha": -1.0},
        {"alpha": 1e300},
        {"max_new": -1},
        {"max_new": 1.5},
        {"margin": 0.0},
        {"C": -1.0},
    ],
)
def test_bad_parameters(params):
    with pytest.raises(InvalidParameterError, match=next(iter(params))):
        clone(SMALL).set_params(**params).fit(X, Y)


def test_new_users_whose_loss_overflows_leave_the_model_as_it_was(monkeypatch):
    model = clone(SMALL).fit(X, Y)
    before = pickle.dumps(model.posterior_)
    monkeypatch.setattr(m3f_chain, "hinge_losses", lambda *_: np.array(np.inf))
    with pytest.raises(DataError, match="left the range of floating-point numbers"):
        model.fold_in([("new", X[0][1])], [Y[0]])
    assert pickle.dumps(model.posterior_) == before


def test_small_tables():
    single = GibbsIPM3F(C=1.0, levels=[1, 2], max_iter=200, n_samples=100, random_state=0).fit([("a", "b")], [2])
    assert single.predict([("a", "b")]).tolist() == [2]
    best = clone(SMALL).fit(X, Y).recommend(3, 5)
    assert not set(best["item"]) & set(X[X[:, 0] == 3, 1])


@pytest.mark.parametrize("alpha", [0.3, 2.0])
def test_the_buffet_process_of_one_user_is_a_poisson_number_and_of_none_its_rate(alpha):
    for k in range(4):
        np.testing.assert_allclose(log_ibp(np.ones((1, k), dtype=bool), alpha), poisson(alpha).logpmf(k), rtol=1e-12)
    # Without features: user i tastes Poisson(alpha / i) new ones.
    np.testing.assert_allclose(log_ibp(np.zeros((4, 0), dtype=bool), alpha), -alpha * (1 + 1 / 2 + 1 / 3 + 1 / 4))
    # Two users who share one feature: the first tastes it alone, the second takes it with probability 1/2.
    both = poisson(alpha).logpmf(1) + np.log(0.5) + poisson(alpha / 2).logpmf(0)
    np.testing.assert_allclose(log_ibp(np.ones((2, 1), dtype=bool), alpha), both, rtol=1e-12)


@pytest.mark.filterwarnings("default:The chains of Gibbs.* are not stationary")
def test_a_single_default_chain_whose_risk_still_falls_warns():
    """Several such chains have an R-hat of 2."""
    rng = np.random.default_rng(0)
    U, V = rng.standard_normal((120, 3)), rng.standard_normal((60, 3))
    rows = np.argwhere(rng.random((120, 60)) < 0.2)
    score = np.einsum("nk,nk->n", U[rows[:, 0]], V[rows[:, 1]]) + rng.standard_normal(len(rows))
    levels = np.searchsorted(np.quantile(score, [0.2, 0.4, 0.6, 0.8]), score)
    model = GibbsIPM3F(random_state=0)
    with pytest.warns(
        ConvergenceWarning, match=r"R-hat of the risk is \d.*, above 2.00. Increase max_iter and burn_in"
    ):
        model.fit(rows, levels)
    assert model.r_hat_ > 2.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clone(model).set_params(max_iter=49).fit(rows, levels)  # too few sweeps to judge by
