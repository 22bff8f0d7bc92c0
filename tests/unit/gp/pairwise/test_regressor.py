"""GPPLRegressor: what it learns, from what, and how it behaves between fits."""

import joblib
import numpy as np
import pytest
from scipy.special import ndtr
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_selection import SelectFromModel
from sklearn.gaussian_process.kernels import RBF

from skpref import LBFGS, SVI, GPPLRegressor, Inducing
from skpref.exceptions import SkprefError
from skpref.kernels import Linear, ProductMatern

_rng = np.random.default_rng(5)
N = 24
X = _rng.standard_normal((N, 2))
F = X[:, 0] + 0.5 * np.sin(3.0 * X[:, 1])
GRADES = np.digitize(F, np.quantile(F, [0.25, 0.5, 0.75]))


def quick(**options):
    return GPPLRegressor(**{"optimizer": None, "random_state": 0, **options})


@pytest.fixture(scope="module")
def model():
    return quick().fit(X, F)


def test_what_a_fit_leaves(model):
    assert model.converged_ is True
    assert model.n_iter_ == len(model.lower_bounds_) >= 1
    assert model.lower_bound_ == pytest.approx(model.lower_bounds_[-1], rel=1e-3)
    assert model.n_features_in_ == 2
    assert model.inducing_points_.shape == (N, 2)
    assert model.scale_.mean > 0.0
    assert model.kernel_.theta.shape == (2,)
    assert model.score(X, F) > 0.95


@pytest.mark.parametrize("labels", [F, np.round(F)], ids=["no ties", "ties"])
def test_rounding_errors_of_features_do_not_move_utilities(labels):
    rows, y = np.vstack([X, X + 0.3]), np.append(labels, labels)  # more than 21 rows: partners are sampled
    mean = quick().fit(rows, y).predict(rows)
    moved = quick().fit(rows * (1.0 + 1e-12), y).predict(rows)
    assert np.max(np.abs(moved - mean)) < 1e-6 * mean.std()


def test_default_factor_is_learnt():
    assert GPPLRegressor(random_state=0).fit(X, F).lower_bound_ >= quick().fit(X, F).lower_bound_ - 0.1


@pytest.mark.parametrize("kernel", [None, RBF(3.0), Linear() + ProductMatern([3.0, 3.0])], ids=str)
def test_hyper_parameters_are_learnt(kernel):
    start = quick(kernel=kernel).fit(X, F)
    learnt = quick(kernel=kernel, optimizer=LBFGS(1)).fit(X, F)
    assert learnt.lower_bound_ > start.lower_bound_
    assert not np.array_equal(learnt.kernel_.theta, start.kernel_.theta)


@pytest.mark.parametrize(
    ("inference", "likelihood"),
    [("vb", "logit"), ("svi", "probit"), ("laplace", "logit"), ("linearised", "probit"), ("linearised", "logit")],
)
@pytest.mark.filterwarnings("ignore:.*did not converge")  # "linearised" need not
def test_every_inference_orders_the_items(inference, likelihood):
    model = quick(inference=SVI(60) if inference == "svi" else inference, likelihood=likelihood)
    if (inference, likelihood) == ("linearised", "logit"):
        with pytest.raises(SkprefError, match="linearised"):
            model.fit(X, F)
        return
    assert model.fit(X, F).score(X, F) > 0.9
    np.testing.assert_allclose(np.sum(model.predict_preference(X, X[::-1])), N / 2, atol=1e-8)


@pytest.mark.parametrize("inducing", ["kmeans++", "kmeans", "random", "variance", "array"])
def test_fewer_inducing_points(inducing):
    model = quick(inducing=X[:10] if inducing == "array" else Inducing(10, inducing)).fit(X, F)
    assert model.inducing_points_.shape == (10, 2)
    assert model.score(X, F) > 0.85


# ---------------------------------------------------------------------------------------------------------------- input


def test_scores_are_comparisons_of_all_pairs_that_count_for_less():
    a, b = np.triu_indices(12, 1)
    pairs = np.where((F[a] > F[b])[:, None], np.column_stack([a, b]), np.column_stack([b, a]))
    by_pairs, by_scores = quick().fit(X[:12], comparisons=pairs), quick().fit(X[:12], F[:12])
    assert np.corrcoef(by_pairs.predict(X), by_scores.predict(X))[0, 1] > 0.95
    # 66 independent answers fix more than the 12 scores from which they follow.
    (sure, s), (unsure, t) = (model.predict(X[:12], return_std=True) for model in (by_pairs, by_scores))
    assert np.mean(s) / np.std(sure) < np.mean(t) / np.std(unsure)


def test_one_comparison_of_scores_is_one_comparison():
    by_pair, by_scores = quick().fit(X[:2], comparisons=[[1, 0]]), quick().fit(X[:2], [0.0, 1.0])
    np.testing.assert_allclose(by_pair.predict(X), by_scores.predict(X), atol=1e-12)


def test_groups_compare_within_only():
    qid = np.repeat([0, 1], N // 2)
    shifted = np.where(qid == 1, F + 1e6, F)
    wanted, moved = quick().fit(X, F, qid=qid).predict(X), quick().fit(X, shifted, qid=qid)
    np.testing.assert_array_equal(moved.predict(X), wanted)
    names = np.where(qid == 1, "second", "first")
    np.testing.assert_array_equal(quick().fit(X, F, qid=names).predict(X), wanted)
    assert moved.score(X, shifted, qid=qid) > 0.9


def test_sampled_partners_of_large_groups():
    few = quick(pairs_per_item=2).fit(X, F)
    assert 0.7 < few.score(X, F) <= 1.0
    assert few.predict(X).tobytes() == quick(pairs_per_item=2).fit(X, F).predict(X).tobytes()


def test_weights_of_comparisons_are_repetitions():
    pairs = np.array([[0, 1], [1, 2], [2, 0], [3, 1], [4, 0]])
    weight = np.array([2, 1, 1, 3, 0])
    weighted = quick().fit(X, comparisons=pairs, sample_weight=weight)
    repeated = quick().fit(X, comparisons=np.repeat(pairs, weight, axis=0))
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), atol=1e-6)


# ----------------------------------------------------------------------------------------------------------- prediction
def test_moments_agree(model):
    new = _rng.standard_normal((7, 2))
    mean, std = model.predict(new, return_std=True)
    same, cov = model.predict(new, return_cov=True)
    np.testing.assert_allclose(same, mean, atol=1e-10)
    np.testing.assert_allclose(np.sqrt(np.diag(cov)), std, atol=1e-8)
    np.testing.assert_allclose(cov, cov.T, atol=1e-12)
    assert np.linalg.eigvalsh(cov).min() > -1e-8
    np.testing.assert_allclose(model.predict(new), mean, atol=1e-12)


def test_samples_have_the_moments(model):
    mean, cov = model.predict(X[:4], return_cov=True)
    drawn = model.sample_y(X[:4], 20_000, random_state=1)
    assert drawn.shape == (4, 20_000)
    np.testing.assert_allclose(drawn.mean(axis=1), mean, atol=5.0 * np.sqrt(np.diag(cov).max() / 20_000))
    np.testing.assert_allclose(np.cov(drawn), cov, atol=0.06 * np.diag(cov).max())
    np.testing.assert_array_equal(model.sample_y(X, 2, random_state=3), model.sample_y(X, 2, random_state=3))


def test_preferences_follow_from_the_joint_posterior(model):
    mean, cov = model.predict(X[:2], return_cov=True)
    variance = cov[0, 0] + cov[1, 1] - 2.0 * cov[0, 1]
    wanted = ndtr((mean[0] - mean[1]) / np.sqrt(1.0 + variance))
    assert model.predict_preference(X[:1], X[1:2])[0] == pytest.approx(wanted, abs=1e-8)
    np.testing.assert_array_equal(model.predict_preference(X, X), 0.5)
    both = model.predict_preference(X, X[::-1]) + model.predict_preference(X[::-1], X)
    np.testing.assert_allclose(both, 1.0, atol=1e-12)


def test_far_away_is_the_prior(model):
    far = np.full((1, 2), 1e6)
    _, std = model.predict(np.vstack([X[:1], far]), return_std=True)
    assert std[1] > std[0]
    assert model.predict_preference(far, -far)[0] == pytest.approx(0.5, abs=1e-9)


# -------------------------------------------------------------------------------------------------------- between fits
def test_other_seeds_choose_other_points():
    first, other = (quick(random_state=seed, inducing=Inducing(5, "random")).fit(X, F) for seed in (0, 1))
    assert not np.array_equal(first.inducing_points_, other.inducing_points_)


def test_warm_start_needs_fewer_passes():
    model = quick(warm_start=True, max_iter=3, tol=1e-6)
    with pytest.warns(ConvergenceWarning, match="max_iter=3"):
        model.fit(X, F)
    first = model.lower_bound_
    model.set_params(max_iter=500).fit(X, F)
    cold = quick(tol=1e-6, max_iter=500).fit(X, F)
    assert model.lower_bound_ > first
    assert model.n_iter_ < cold.n_iter_
    assert model.lower_bound_ == pytest.approx(cold.lower_bound_, abs=1e-2)


def test_warm_start_with_other_items_or_features_still_fits():
    model = quick(warm_start=True).fit(X[:12], F[:12])
    assert model.fit(X, F).score(X, F) > 0.8
    assert model.fit(np.column_stack([X, F]), F).n_features_in_ == 3


def test_the_bound_rises():
    bounds = np.array(quick(tol=1e-8, max_iter=1000).fit(X, GRADES).lower_bounds_)
    assert np.all(np.diff(bounds) > -1e-9 * np.abs(bounds[1:]))


@pytest.mark.parametrize("warm_start", [False, True])
@pytest.mark.parametrize("failure", ["labels", "interrupt", "late"])
def test_a_failed_fit_leaves_the_earlier_one(warm_start, failure, monkeypatch):
    model = quick(warm_start=warm_start).fit(X, F)
    before, predicted = joblib.hash(vars(model)), model.predict(X).tobytes()
    if failure == "labels":
        with pytest.raises(ValueError, match="NaN"):
            model.fit(np.vstack([X, X]), np.full(2 * N, np.nan))
    elif failure == "interrupt":
        monkeypatch.setattr("builtins.print", _interrupt)
        model.set_params(verbose=1)
        with pytest.raises(KeyboardInterrupt):
            model.fit(X, -F)
        model.set_params(verbose=0)
    else:
        monkeypatch.setattr("skpref.gp.pairwise.base.warn_not_converged", _interrupt)
        model.set_params(max_iter=1)
        with pytest.raises(KeyboardInterrupt):
            model.fit(X, -F)
        model.set_params(max_iter=200)
    assert joblib.hash(vars(model)) == before
    assert model.predict(X).tobytes() == predicted


def _interrupt(*_, **__):
    raise KeyboardInterrupt


def test_a_second_fit_forgets_the_first():
    model = quick().fit(X, -F)
    assert model.fit(X, F).predict(X).tobytes() == clone(model).fit(X, F).predict(X).tobytes()


def test_contradicting_comparisons_are_no_ties():
    comparisons = [(0, 1), (1, 0), (2, 0), (2, 1)] * 5
    X = [[0.0], [1.0], [2.0]]
    ties = GPPLRegressor(likelihood="probit-ties", optimizer=None, random_state=0)
    assert ties.fit(X, comparisons=comparisons).likelihood_.threshold < 0.1


def test_comparisons_of_weight_zero_are_refused():
    with pytest.raises(ValueError, match="all comparisons have weight zero"):
        GPPLRegressor().fit([[0.0], [1.0]], comparisons=[(0, 1)], sample_weight=[0.0])


def test_importances_tell_features_that_matter_from_others():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    model = GPPLRegressor(random_state=0).fit(X, np.sin(2.0 * X[:, 1]))
    assert model.feature_importances_.argmax() == 1
    assert model.feature_importances_[1] > 3.0 * model.feature_importances_[[0, 2]].max()
    assert SelectFromModel(model, prefit=True).get_support().tolist() == [False, True, False]
