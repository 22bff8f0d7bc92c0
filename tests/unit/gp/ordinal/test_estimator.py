"""GPOrdinalRegressor: what it learns, from what, and how it behaves between fits."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, ExpSineSquared, Matern, WhiteKernel
from sklearn.model_selection import cross_val_predict, cross_val_score

from skpref import LBFGS, SVI, GPOrdinalRegressor, Inducing
from skpref.exceptions import DataError, DataWarning
from skpref.gp.posterior import ExactLatent, SparseLatent
from skpref.kernels import AdditiveMatern, Identity, Linear, ProductMatern
from tests.examples import examples
from tests.policies import set_policy

_rng = np.random.default_rng(7)
N = 40
X = _rng.standard_normal((N, 2))
F = X[:, 0] + 0.4 * np.sin(2.0 * X[:, 1])
Y = np.digitize(F + 0.3 * _rng.standard_normal(N), [-0.8, 0.0, 0.8])
_first = np.unique(Y, return_index=True)[1]  # so that small parts hold all levels
_order = np.append(_first, np.setdiff1d(np.arange(N), _first))
X, F, Y = X[_order], F[_order], Y[_order]
NEW = _rng.standard_normal((9, 2))
NAMES = np.array(["poor", "fair", "good", "great"])  # their order is not the alphabet's
GRADES = NAMES[Y]
KERNEL = RBF([1.2, 1.2])


def fixed(**options):
    """Hyper-parameters as given: a hundredth of a second a fit."""
    return GPOrdinalRegressor(**{"kernel": KERNEL, "optimizer": None, "random_state": 0, **options})


def learning(**options):
    return GPOrdinalRegressor(**{"kernel": None, "optimizer": LBFGS(0), "random_state": 0, **options})


@pytest.fixture(scope="module")
def model():
    return learning().fit(X, Y)


def assert_same(first, second, atol=1e-6):
    assert_allclose(first.predict_proba(NEW), second.predict_proba(NEW), atol=atol)
    assert_allclose(first.log_marginal_likelihood_value_, second.log_marginal_likelihood_value_, atol=100 * atol)


# ------------------------------------------------------------------------------------------------------ what is learnt
def test_what_a_fit_leaves(model):
    assert_array_equal(model.classes_, [0, 1, 2, 3])
    assert model.inference_ == "ep"
    assert model.converged_ is True
    assert 0 <= model.n_iter_ <= model.max_iter
    assert model.n_skipped_ == 0
    assert np.all(np.diff(model.thresholds_) > 0.0)
    assert model.thresholds_.shape == (3,)
    assert model.noise_ == model.likelihood_.noise > 0.0
    assert isinstance(model.posterior_, ExactLatent)
    assert model.lower_bound_ <= model.log_marginal_likelihood_value_
    assert max(model.lower_bounds_) == pytest.approx(model.log_marginal_likelihood_value_, abs=1e-3)
    assert model.n_features_in_ == 2
    assert len(model.ensemble_) == 1
    assert model.score(X, Y) > -0.3


def test_learning_raises_the_evidence(model):
    start = learning(optimizer=None).fit(X, Y)
    assert model.log_marginal_likelihood_value_ > start.log_marginal_likelihood_value_ + 1.0
    assert start.noise_ == 1.0
    assert_allclose(start.lower_bounds_, [])


@pytest.mark.parametrize("inference", ["ep", "laplace", "vb", "svi"])
def test_every_inference_predicts_much_the_same(model, inference):
    other = learning(inference=SVI(20) if inference == "svi" else inference).fit(X, Y)
    assert other.inference_ == inference
    assert isinstance(other.posterior_, ExactLatent if inference in {"ep", "laplace"} else SparseLatent)
    assert_allclose(other.predict_proba(NEW), model.predict_proba(NEW), atol=0.06)
    assert other.lower_bound_ == pytest.approx(model.lower_bound_, abs=0.5)
    assert other.lower_bound_ <= other.log_marginal_likelihood_value_ + 1e-9


@pytest.mark.parametrize(
    "kernel",
    [
        ProductMatern(1.0, nu=0.5),
        ProductMatern([1.0, 2.0], nu=np.inf),
        AdditiveMatern(1.0),
        Linear(),
        Linear([1.0, 1.0]) + ProductMatern([1.0, 2.0]),
        Linear() + Identity(),
        Matern([1.0, 2.0], nu=2.5),
        ConstantKernel(2.0) * RBF([1.0, 1.0]) + WhiteKernel(0.1),
        DotProduct() ** 2,
        "ard",
        "linear",
        "linear-ard",
        "auto",
    ],
    ids=str,
)
def test_kernels_of_ours_and_of_scikit_learn(kernel):
    for inference in ("ep", "vb"):
        fit = fixed(kernel=kernel, inference=inference).fit(X, Y)
        assert_allclose(fit.predict_proba(NEW).sum(axis=1), 1.0, atol=1e-12)
        assert fit.score(X, Y) > -0.7
        assert fit.kernel_ is not kernel
        mean, std = fit.predict_latent(NEW, return_std=True)
        assert np.all(np.isfinite(mean))
        assert np.all(std > 0.0)


def test_a_kernel_that_is_none_everywhere_ends_where_it_is_one():
    # exp(-sin^2) of distances in the plane is no covariance for most periods.
    flat = X[:, :1]
    fit = learning(kernel=ExpSineSquared(1.0, 20.0, periodicity_bounds=(0.5, 40.0))).fit(flat, Y)
    assert np.all(np.isfinite(fit.predict_proba(flat)))


def test_restarts_are_never_worse():
    values = [
        learning(optimizer=LBFGS(k), inference="laplace").fit(X[:20], Y[:20]).log_marginal_likelihood_value_
        for k in range(3)
    ]
    assert np.all(np.diff(values) > -1e-3)  # within a search the inference is that exact


def test_the_bound_as_objective(model):
    other = learning(evidence="bound").fit(X, Y)
    # Its gradient is that at a frozen posterior ([CG05] eq. 28): the end is near the highest bound, not at it.
    assert other.lower_bound_ >= model.lower_bound_ - 0.02
    assert other.log_marginal_likelihood_value_ <= model.log_marginal_likelihood_value_ + 1e-3
    assert other.log_marginal_likelihood() == pytest.approx(other.lower_bound_, abs=1e-6)


@pytest.mark.parametrize("inference", ["ep", "laplace"])
@pytest.mark.parametrize("kernel", [KERNEL, Linear([1.0, 0.5]) + RBF(1.3), "precomputed"], ids=str)
def test_gradients_of_the_evidence(inference, kernel, central_slope):
    rows = KERNEL(X) if kernel == "precomputed" else X
    fit = fixed(kernel=kernel, inference=inference).fit(rows, Y)
    theta = np.concatenate([[] if fit.kernel_ is None else fit.kernel_.theta, fit.likelihood_.theta])
    value, gradient = fit.log_marginal_likelihood(eval_gradient=True)
    assert value == pytest.approx(fit.log_marginal_likelihood_value_, abs=1e-6)
    assert value == pytest.approx(fit.log_marginal_likelihood(theta), abs=1e-6)
    theta = theta + 0.2 * np.cos(np.arange(theta.size))  # away from where anything is special
    gradient = fit.log_marginal_likelihood(theta, eval_gradient=True)[1]
    for unit, own in zip(np.eye(theta.size), gradient, strict=True):
        slope = central_slope(lambda t, unit=unit: fit.log_marginal_likelihood(theta + t * unit))
        assert own == pytest.approx(slope, abs=2e-4)


@pytest.fixture
def central_slope():
    def slope(function, step=1e-2):
        far_left, left, right, far_right = (function(k * step) for k in (-2, -1, 1, 2))
        return (far_left - 8.0 * left + 8.0 * right - far_right) / (12.0 * step)

    return slope


def test_evidence_at_the_fit_whatever_is_set_afterwards():
    fit = fixed().fit(X, Y)
    wanted, latent = fit.log_marginal_likelihood_value_, fit.predict_latent(NEW)
    fit.set_params(inference="vb", n_max_exact=3, kernel="precomputed")
    assert fit.log_marginal_likelihood() == pytest.approx(wanted, abs=1e-6)
    assert_array_equal(fit.predict_latent(NEW), latent)


@pytest.mark.parametrize("theta", [[0.0], np.zeros((2, 3)), [np.nan] * 6, [np.inf] * 6])
def test_evidence_wants_one_number_a_parameter(theta):
    with pytest.raises(DataError, match=r"theta must be 6 finite numbers \(2 of the kernel, then 4\)"):
        fixed().fit(X, Y).log_marginal_likelihood(theta)


def test_evidence_is_of_exact_inference():
    with pytest.raises(DataError, match="Use lower_bound_"):
        fixed(inference="vb").fit(X, Y).log_marginal_likelihood()


# ---------------------------------------------------------------------------------------------------------------- auto
def test_auto_averages_over_families():
    fit = GPOrdinalRegressor("auto", random_state=0).fit(X, Y)
    weights = [member.weight for member in fit.ensemble_]
    assert sum(weights) == pytest.approx(1.0)
    assert weights == sorted(weights, reverse=True)
    assert fit.ensemble_[0].latent is fit.posterior_
    parts = [member.weight * member.likelihood.probabilities(*member.latent.latent(NEW)) for member in fit.ensemble_]
    assert_allclose(fit.predict_proba(NEW), np.sum(parts, axis=0), atol=1e-12)
    assert_allclose(fit.predict_proba(NEW).sum(axis=1), 1.0, atol=1e-12)
    scaled = GPOrdinalRegressor("auto", random_state=0).fit(X * [1e3, 1e-2] + [5.0, 0.0], Y)
    assert_allclose(scaled.predict_proba(NEW * [1e3, 1e-2] + [5.0, 0.0]), fit.predict_proba(NEW), atol=5e-3)


def test_auto_chooses_the_inference(monkeypatch):
    assert fixed().fit(X, Y).inference_ == "ep"
    assert fixed().fit(X, Y, sample_weight=np.full(N, 0.5)).inference_ == "laplace"
    assert fixed(n_max_exact=N - 1).fit(X, Y).inference_ == "vb"
    set_policy(monkeypatch, "inference", pass_bytes=16 * N * 10 - 1)
    assert fixed(n_max_exact=N - 1, inducing=10, max_iter=400).fit(X, Y).inference_ == "svi"
    # Distinct rows count.
    assert fixed(n_max_exact=N).fit(np.vstack([X, X]), np.append(Y, Y)).inference_ == "ep"


# -------------------------------------------------------------------------------------------------------------- labels
def test_strings_in_a_given_order():
    numbers, names = fixed().fit(X, Y), fixed(class_order=NAMES).fit(X, GRADES)
    assert names.classes_.tolist() == NAMES.tolist()
    assert names.predict_proba(NEW).tobytes() == numbers.predict_proba(NEW).tobytes()
    assert_array_equal(names.predict(NEW), NAMES[numbers.predict(NEW)])
    assert names.score(X, GRADES) == numbers.score(X, Y)
    assert names.score(X.tolist(), GRADES.tolist(), np.ones(N)) == numbers.score(X, Y)


def test_booleans_are_two_levels():
    fit = fixed().fit(X, Y > 1)
    assert fit.classes_.tolist() == [False, True]
    assert fit.predict(NEW).dtype == bool


@pytest.mark.parametrize("container", ["Categorical", "Series", "CategoricalIndex", "DataFrame"])
def test_categories_of_pandas_are_the_levels(container):
    pd = pytest.importorskip("pandas")
    levels = ["awful", *NAMES]  # the first does not occur
    values = pd.Categorical(GRADES, categories=levels, ordered=True)
    if container == "DataFrame":
        with pytest.warns(match="column-vector y"):
            fit = fixed().fit(X, pd.DataFrame({"grade": values}))
    else:
        values = values if container == "Categorical" else getattr(pd, container)(values)
        fit = fixed().fit(X, values)
    assert fit.classes_.tolist() == levels
    wanted = fixed(class_order=levels).fit(X, GRADES)
    assert fit.predict_proba(NEW).tobytes() == wanted.predict_proba(NEW).tobytes()
    assert np.all(fit.predict_proba(NEW) >= 0.0)
    assert fit.thresholds_.shape == (4,)


def test_the_order_that_is_taken_for_few_names_is_said():
    with pytest.warns(DataWarning, match="low to high: 'good', 'poor'") as caught:
        fit = fixed().fit(X, np.where(Y > 1, "good", "poor"))
    assert caught[0].filename == __file__
    assert fit.classes_.tolist() == ["good", "poor"]


def test_score_counts_levels_that_training_rows_lack():
    fit = fixed().fit(X[Y != 2], Y[Y != 2])
    predicted = fit.predict(X, loss="absolute")
    assert fit.score(X, Y) == -np.mean(np.abs(predicted - Y))
    with pytest.raises(DataError, match="which is not among the levels"):
        fixed(class_order=[0, 1, 3]).fit(X[Y != 2], Y[Y != 2]).score(X, Y)


@pytest.mark.parametrize(
    ("options", "missing"),
    [({}, [0]), ({}, [1]), ({}, [3]), ({}, [1, 2])]
    + [(options, [1, 2]) for options in ({"inference": "laplace"}, {"inference": "vb"}, {"kernel": "auto"})],
    ids=str,
)
def test_a_level_that_does_not_occur_keeps_its_place(options, missing):
    rows = ~np.isin(Y, missing)
    fit = learning(class_order=[0, 1, 2, 3], **options).fit(X[rows], Y[rows])
    p = fit.predict_proba(NEW)
    assert p.shape == (9, 4)
    assert np.all(p >= 0.0)
    assert_allclose(p.sum(axis=1), 1.0, atol=1e-12)
    assert np.all(np.isfinite(fit.thresholds_))
    assert np.all(np.diff(fit.thresholds_) > 0.0)
    # An inner level that nobody gave has less of the mass than one that was given, but not nothing.
    inner = [level for level in missing if 0 < level < 3]
    gaps = np.diff(fit.thresholds_)
    assert all(1e-3 < gaps[level - 1] < 10.0 for level in inner)


# --------------------------------------------------------------------------------------------------------------- input


@examples(8)
@given(
    weight=st.lists(st.integers(0, 3), min_size=N, max_size=N).filter(lambda w: len(set(Y[np.array(w) > 0])) > 1),
    inference=st.sampled_from(["ep", "laplace", "vb"]),
)
def test_a_weight_is_a_repetition(weight, inference):
    index = np.repeat(np.arange(N), weight)
    options = {"inference": inference, "class_order": range(4), "tol": 1e-9, "max_iter": 1000}
    weighted = fixed(**options).fit(X, Y, sample_weight=weight)
    repeated = fixed(**options).fit(X[index], Y[index])
    assert_same(weighted, repeated, atol=1e-5)


def test_weights_of_a_half_twice_are_ones():
    halves = fixed().fit(np.vstack([X, X]), np.append(Y, Y), sample_weight=np.full(2 * N, 0.5))
    assert halves.inference_ == "ep"  # of equal rows with equal labels the weights add up
    assert_same(halves, fixed().fit(X, Y))
    thirds = fixed().fit(X, Y, sample_weight=np.full(N, 1.0 / 3.0))
    assert thirds.inference_ == "laplace"
    ones = fixed(inference="laplace").fit(X, Y)
    assert np.all(thirds.predict_latent(NEW, return_std=True)[1] > ones.predict_latent(NEW, return_std=True)[1])


def test_ep_refuses_weights_below_one():
    with pytest.raises(DataError, match=r"weights of 0 or at least 1.*or use Laplace"):
        fixed(inference="ep").fit(X, Y, sample_weight=np.full(N, 0.5))


@examples(6)
@given(seed=st.integers(0, 2**32 - 1), inference=st.sampled_from(["ep", "laplace", "vb", "svi"]))
def test_rows_in_another_order_give_the_same_bits(seed, inference):
    order = np.random.default_rng(seed).permutation(N)
    weight = 1.0 + np.arange(N) % 3
    options = {
        "inference": SVI(10) if inference == "svi" else inference,
        "inducing": Inducing(10, "kmeans"),
        "max_iter": 30,
    }
    first, second = (
        quietly(fixed(**options).fit, X[rows], Y[rows], sample_weight=weight[rows]) for rows in (np.arange(N), order)
    )
    assert first.predict_proba(NEW).tobytes() == second.predict_proba(NEW).tobytes()
    assert first.lower_bound_ == second.lower_bound_


def quietly(call, *args, **kwargs):
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return call(*args, **kwargs)


def test_answers_that_contradict_each_other():
    rows, labels = np.repeat(X[:5], 4, axis=0), np.tile([0, 1, 2, 3], 5)
    for inference in ("ep", "laplace", "vb"):
        fit = fixed(inference=inference).fit(rows, labels)
        assert_allclose(fit.predict_latent(rows), 0.0, atol=1e-5)


def test_n_max_exact_and_memory_are_limits(monkeypatch):
    for inference in ("ep", "laplace"):
        with pytest.raises(DataError, match=r"n_max_exact=39 distinct rows at most; got 40.*raise n_max_exact"):
            fixed(inference=inference, n_max_exact=39).fit(X, Y)
    monkeypatch.setattr("skpref._estimator._MAX_DENSE_BYTES", 8 * N * N - 1)
    with pytest.raises(DataError, match=r"needs 0\.0 GB.* set inference='vb', or n_max_exact"):
        fixed().fit(X, Y)
    assert fixed(inference="vb", inducing=10).fit(X, Y).posterior_.mean.shape == (10,)


# --------------------------------------------------------------------------------------------------------- precomputed
@pytest.mark.parametrize("inference", ["ep", "laplace"])
@pytest.mark.parametrize("optimizer", [None, "l-bfgs-b"])
def test_a_precomputed_covariance_is_that_of_the_kernel(inference, optimizer):
    kernel = RBF([1.2, 1.2], "fixed")
    options = {"inference": inference, "optimizer": optimizer}
    own, precomputed = (
        fixed(kernel=kernel, **options).fit(X, Y),
        fixed(kernel="precomputed", **options).fit(kernel(X), Y),
    )
    assert_allclose(precomputed.predict_proba(kernel(NEW, X)), own.predict_proba(NEW), atol=2e-5)
    assert precomputed.log_marginal_likelihood_value_ == pytest.approx(own.log_marginal_likelihood_value_, abs=1e-4)
    assert precomputed.kernel_ is None
    assert not hasattr(precomputed, "relevance_")
    assert not hasattr(precomputed, "feature_importances_")


def test_a_precomputed_covariance_is_sliced_by_folds():
    K = KERNEL(X)
    for method in ("predict_proba", "predict"):
        by_rows = cross_val_predict(fixed(), X, Y, cv=4, method=method)
        by_covariance = cross_val_predict(fixed(kernel="precomputed"), K, Y, cv=4, method=method)
        assert_allclose(by_covariance, by_rows, atol=1e-6)
    scores = cross_val_score(fixed(kernel="precomputed"), K, Y, cv=4, error_score="raise")
    assert_allclose(scores, cross_val_score(fixed(), X, Y, cv=4, error_score="raise"))


def test_rows_without_weight_leave_a_precomputed_covariance():
    weight = np.where(np.arange(N) % 3, 1.0, 0.0)
    few, K = np.flatnonzero(weight), KERNEL(X)
    first = fixed(kernel="precomputed", class_order=range(4)).fit(K, Y, sample_weight=weight)
    second = fixed(kernel="precomputed", class_order=range(4)).fit(K[np.ix_(few, few)], Y[few])
    cross = KERNEL(NEW, X)
    assert_array_equal(first.predict_proba(cross), second.predict_proba(cross[:, few]))
    with pytest.raises(ValueError, match=r"X has 26 features.*expecting 40 features"):
        first.predict(cross[:, few])


def test_a_covariance_need_not_have_full_rank():
    K = X @ X.T
    fit, own = fixed(kernel="precomputed").fit(K, Y), fixed(kernel=Linear(1.0)).fit(X, Y)
    assert_allclose(fit.predict_latent(NEW @ X.T), own.predict_latent(NEW), atol=1e-6)


# ---------------------------------------------------------------------------------------------------------- prediction
def test_predictions_follow_from_the_probabilities(model):
    p = model.predict_proba(NEW)
    assert p.shape == (9, 4)
    assert_array_equal(model.predict(NEW), model.classes_[p.argmax(axis=1)])
    median = model.predict(NEW, loss="absolute")
    cumulative = np.cumsum(p, axis=1)
    for k, level in enumerate(median):
        assert cumulative[k, level] >= 0.5 - 1e-12
        assert level == 0 or cumulative[k, level - 1] < 0.5


@examples(30)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_median_minimises_the_expected_distance(seed):
    p = np.random.default_rng(seed).dirichlet(np.ones(4), 20)
    fit = fixed(class_order=NAMES).fit(X, GRADES)
    fit.predict_proba = lambda rows: p
    chosen = fit.predict(None, loss="absolute")
    cost = p @ np.abs(np.subtract.outer(np.arange(4), np.arange(4)))
    rank = np.array([NAMES.tolist().index(name) for name in chosen])
    assert_allclose(cost[np.arange(20), rank], cost.min(axis=1), atol=1e-12)


def test_a_tie_of_the_median_is_the_lower_level():
    fit = fixed().fit(X, Y > 1)
    fit.predict_proba = lambda rows: np.array([[0.5, 0.5], [0.5 - 1e-14, 0.5 + 1e-14], [0.4, 0.6]])
    assert fit.predict(None, loss="absolute").tolist() == [False, False, True]


@pytest.mark.parametrize("loss", ["squared", None, [], 1])
def test_other_losses_are_refused(model, loss):
    with pytest.raises(DataError, match="loss must be 'zero-one' or 'absolute'"):
        model.predict(NEW, loss=loss)


@pytest.mark.parametrize("inference", ["ep", "laplace", "vb"])
def test_the_latent_function_is_known_where_data_are(inference):
    fit = fixed(inference=inference).fit(X, Y)
    far = np.full((1, 2), 1e3)
    mean, std = fit.predict_latent(np.vstack([X, far]), return_std=True)
    assert_array_equal(fit.predict_latent(X), mean[:N])
    assert std[-1] == pytest.approx(1.0, abs=1e-9)  # the prior's
    assert mean[-1] == pytest.approx(0.0, abs=1e-9)
    assert np.all(std[:N] < 0.8)
    assert np.corrcoef(mean[:N], F)[0, 1] > 0.9


def test_score_is_minus_the_mean_absolute_error_in_ranks(model):
    off = np.abs(model.predict(X, loss="absolute") - Y)
    assert model.score(X, Y) == pytest.approx(-off.mean())
    weight = np.arange(N)
    assert model.score(X, Y, sample_weight=weight) == pytest.approx(-np.average(off, weights=weight))
    with pytest.raises(DataError, match=r"y holds 9 \(row 0, and 39 more\), which is not among the levels 0\.\.3"):
        fixed(class_order=range(4)).fit(X, Y).score(X, np.full(N, 9))


# ----------------------------------------------------------------------------------------------------------- relevance
WIDE = np.column_stack([X, _rng.standard_normal((N, 3))])


@pytest.mark.parametrize("kernel", ["ard", "linear-ard", RBF(np.ones(5)), Linear(np.ones(5))], ids=str)
def test_relevance_finds_the_features(kernel):
    fit = learning(kernel=kernel).fit(WIDE, Y)
    relevance = fit.relevance_
    assert relevance.shape == (5,)
    assert np.all(relevance >= 0.0)
    assert relevance.argmax() == 0
    assert_array_equal(fit.feature_importances_, relevance)


def test_a_relevance_that_says_nothing_about_labels_gives_a_warning():
    fit = learning(kernel="linear").fit(WIDE, Y)
    with pytest.warns(DataWarning, match="same scale for all features.* kernel='ard' learns"):
        assert fit.relevance_.min() > 0.0


def test_linear_features_share_a_weight_variance_in_their_own_units():
    fit = learning(kernel="linear").fit(WIDE, Y)
    assert fit.kernel_.theta.size == 1
    scaled = learning(kernel="linear").fit(WIDE * [1e3, 1.0, 1e-2, 1.0, 1.0], Y)
    assert scaled.kernel_.theta == pytest.approx(fit.kernel_.theta, abs=1e-4)


def test_relevance_of_a_linear_kernel_is_weight_variance_times_variance():
    kernel = Linear([0.5, 2.0])
    both = np.column_stack([np.tile([-1.0, 1.0], N // 2), np.repeat([-3.0, 3.0], N // 2)])
    fit = fixed(kernel=kernel).fit(both + 1e-9 * X, Y)
    assert_allclose(fit.relevance_, kernel.variance * both.var(axis=0))


@pytest.mark.parametrize("inference", ["ep", "vb"])
def test_a_feature_that_the_kernel_ignores(inference):
    fit = fixed(kernel=RBF([1.0, 1e8]), inference=inference).fit(X, Y)
    assert fit.relevance_[0] > 0.1
    assert fit.relevance_[1] == pytest.approx(0.0, abs=1e-12)


# --------------------------------------------------------------------------------------------------------- between fits
def test_the_same_random_state_gives_the_same_bits():
    options = {"inducing": Inducing(9, "kmeans"), "inference": SVI(15), "max_iter": 20}
    for seed in (0, np.random.RandomState(3), np.random.default_rng(3)):
        first, again = (
            quietly(fixed(random_state=pickle.loads(pickle.dumps(seed)), **options).fit, X, Y) for _ in range(2)
        )
        assert first.predict_proba(X).tobytes() == again.predict_proba(X).tobytes()
    one, two = (learning(optimizer=LBFGS(1), inference="laplace").fit(X[:20], Y[:20]).predict_proba(NEW) for _ in "ab")
    assert one.tobytes() == two.tobytes()


@pytest.mark.parametrize("inference", ["ep", "vb"])
def test_warm_start_resumes(inference):
    model = learning(warm_start=True, inference=inference).fit(X, Y)
    cold = len(learning(inference=inference).fit(X, Y).lower_bounds_)
    first = model.lower_bound_
    model.fit(X, Y)
    assert model.lower_bound_ >= first - 1e-4
    assert model.lower_bound_ == pytest.approx(first, abs=1e-2)
    assert len(model.lower_bounds_) < cold or inference == "vb"


@pytest.mark.parametrize(
    ("kernel", "inference"), [(None, "vb"), ("auto", "laplace"), ("ard", "laplace"), ("ard", "vb")], ids=str
)
def test_warm_start_with_other_data_still_fits(kernel, inference):
    model = learning(kernel=kernel, warm_start=True, inference=inference).fit(X[:20], Y[:20])
    assert model.fit(X[15:], Y[15:]).score(X, Y) > -0.7
    wide = np.column_stack([X, F])
    assert model.fit(wide[:20], Y[:20]).n_features_in_ == 3
    model.set_params(class_order=NAMES)
    assert model.fit(X[:20, :1], GRADES[:20]).classes_.size == 4
    model.set_params(inference="vb" if inference == "laplace" else "ep").fit(X[:20, :1], GRADES[:20])
    assert np.all(np.isfinite(model.predict_proba(NEW[:, :1])))


def test_warm_start_with_auto_keeps_the_priors():
    model = GPOrdinalRegressor("auto", warm_start=True, random_state=0).fit(X[:20], Y[:20])
    first = model.predict_proba(NEW)
    assert_array_equal(model.fit(X[:20], Y[:20]).predict_proba(NEW), first)


def test_a_second_fit_forgets_the_first():
    model = fixed().fit(X, 3 - Y)
    assert model.fit(X, Y).predict_proba(NEW).tobytes() == clone(model).fit(X, Y).predict_proba(NEW).tobytes()


@pytest.mark.parametrize("inference", ["ep", "laplace", "vb", "svi"])
def test_not_converged_is_a_warning(inference):
    with pytest.warns(ConvergenceWarning, match=r"GPOrdinalRegressor did not converge in 1 iterations") as caught:
        model = fixed(inference=SVI(10) if inference == "svi" else inference, max_iter=1).fit(X, Y)
    assert caught[0].filename == __file__
    assert model.converged_ is False
    assert model.n_iter_ == 1
    assert_allclose(model.predict_proba(NEW).sum(axis=1), 1.0, atol=1e-12)
    with pytest.warns(ConvergenceWarning, match="did not converge in 1 iterations"):
        model.partial_fit(X, Y)


def test_verbose_prints_a_line_an_evaluation_or_a_pass(capsys):
    model = learning(verbose=1).fit(X[:15], Y[:15])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(model.lower_bounds_) > 1
    assert lines[-1].startswith(f"GPOrdinalRegressor: evaluation {len(lines)}/200  log evidence -")
    model = fixed(verbose=1, inference="vb").fit(X, Y)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == model.n_iter_
    assert lines[0].startswith("GPOrdinalRegressor: pass 1/200  bound -")


def test_half_grades_are_levels():
    X = np.linspace(-2.0, 2.0, 60)[:, None]
    y = np.round(X[:, 0] + 2.5) / 2.0
    model = GPOrdinalRegressor().fit(X, y)
    assert_array_equal(model.classes_, np.unique(y))
    assert model.score(X, y) > -0.2  # minus the mean absolute error, in levels
