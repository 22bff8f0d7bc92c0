"""GPPLClassifier: ids of any kind, features and offsets, ties, order effect, utilities."""

import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit, logit, ndtr
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score

from skpref import SVI, Gamma, GPPLClassifier, GPPLRegressor, Table, load, save
from skpref.exceptions import DataError, DataWarning
from skpref.gp.pairwise.fit import NAMED_KERNELS
from skpref.kernels import ProductMatern, median_length_scales
from tests.policies import set_policy

_rng = np.random.default_rng(8)
N, P = 14, 160
FEATURES = _rng.standard_normal((N, 2))
UTILITY = 1.5 * FEATURES[:, 0] + 0.5 * _rng.standard_normal(N)
LEFT = _rng.integers(0, N - 2, P)  # the last two items are never compared
RIGHT = (LEFT + _rng.integers(1, N - 2, P)) % (N - 2)
Y = (UTILITY[LEFT] - UTILITY[RIGHT] + _rng.standard_normal(P) > 0).astype(int)
PAIRS = np.column_stack([LEFT, RIGHT])
NAMES = [f"item {chr(110 - i)}" for i in range(N)]
NAMED = [[NAMES[a], NAMES[b]] for a, b in PAIRS]
TABLE = Table(FEATURES, ids=NAMES)


def quick(items=None, **options):
    return GPPLClassifier(items, **{"optimizer": None, "random_state": 0, **options})


@pytest.fixture(scope="module")
def ids():
    return quick().fit(NAMED, Y)


@pytest.fixture(scope="module")
def table():
    return quick(TABLE).fit(NAMED, Y)


@pytest.mark.parametrize("name", sorted(NAMED_KERNELS))
def test_a_kernel_by_name_learns_its_length_scales(name):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 2)) * [1.0, 50.0]
    pairs = np.array([rng.choice(20, 2, replace=False) for _ in range(80)])
    y = (np.sin(X[pairs, 0]) @ [1.0, -1.0] > 0).astype(float)
    cls, nu = NAMED_KERNELS[name]
    if name == "product-matern-3/2":  # the default
        model, same = (GPPLClassifier(Table(X), *one, random_state=0).fit(pairs, y) for one in ((name,), ()))
        scales = model.kernel_.length_scale / [1.0, 50.0]
        assert scales[0] < scales[1]  # the second feature is noise
        assert same.lower_bound_ == model.lower_bound_
    fixed = GPPLClassifier(Table(X), name, optimizer=None, random_state=0).fit(pairs, y)
    assert (type(fixed.kernel_), fixed.kernel_.nu) == (cls, nu)
    wide = 1.0 if name.startswith("additive") else np.sqrt(2.0)
    assert fixed.kernel_.length_scale == pytest.approx(wide * median_length_scales(X, np.random.default_rng(0)))


def test_what_a_fit_leaves(ids, table):
    for model in (ids, table):
        assert model.classes_.tolist() == [0, 1]
        assert sorted(model.item_ids_) == sorted(NAMES[:-2])
        assert model.components_.tolist() == [0] * (N - 2)
        assert model.order_effect_ == (0.0, 0.0)
        assert model.n_features_in_ == 2
        assert model.converged_ is True
        assert model.n_iter_ == len(model.lower_bounds_)
        assert model.score(NAMED, Y) > 0.75
    assert ids.kernel_ is None
    assert ids.inducing_points_ is None
    assert table.inducing_points_.shape == (N - 2, 2)


# ------------------------------------------------------------------------------------------------------------------ ids


def test_row_64_a_frame_of_strings_and_integers():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"left": [1, 2, 3, 1], "right": [2.0, 3.0, 1.0, 3.0]})
    model = quick().fit(frame, [1, 1, 0, 1])
    assert model.item_ids_.tolist() == [1, 2, 3]
    np.testing.assert_array_equal(model.predict_proba(frame.astype(float)), model.predict_proba(frame))
    with pytest.raises(ValueError, match=r"integers such as 1, another strings such as '2'; convert one"):
        quick().fit(frame.assign(right=["2", "3", "1", "3"]), [1, 1, 0, 1])
    with pytest.raises(
        ValueError, match=r"unknown item '1' in comparison 0: .*are strings, .* such as 1, are integers"
    ):
        model.predict_proba(frame.astype(int).astype(str))
    assert quick().fit([[1, "a"], ["b", 1], ["a", "b"]], [1, 1, 0]).item_ids_.tolist() == [1, "b", "a"]


# --------------------------------------------------------------------------------------------------------------- labels
WORDS = np.where(Y == 1, "left", "right")


def test_without_labels_the_left_item_won():
    model = quick().fit(NAMED)
    np.testing.assert_array_equal(
        model.predict_proba(NAMED), quick().fit(NAMED, np.ones(len(NAMED))).predict_proba(NAMED)
    )
    assert model.classes_.tolist() == [0, 1]
    assert model.score(NAMED) == model.score(NAMED, np.ones(len(NAMED)))


@pytest.mark.parametrize("y", [np.ones(len(NAMED)), np.zeros(len(NAMED)), ["left"] * len(NAMED), None], ids=str)
def test_row_66_an_order_effect_needs_the_side_shown_first(y):
    with pytest.raises(ValueError, match="Say which side was shown first"):
        quick(order_effect=True).fit(NAMED, y)
    quick(order_effect=True).fit(NAMED, np.full(len(NAMED), 0.5))


def test_row_67_words_and_booleans_are_answered_in_kind():
    plain = quick().fit(NAMED, Y)
    for y, classes, order in (
        (Y == 1, [False, True], [0, 1]),
        (WORDS, ["left", "right"], [1, 0]),
        (np.char.upper(WORDS), ["LEFT", "RIGHT"], [1, 0]),
    ):
        model = quick().fit(NAMED, y)
        assert model.classes_.tolist() == classes
        np.testing.assert_array_equal(model.predict_proba(NAMED), plain.predict_proba(NAMED)[:, order])
        assert set(model.predict(NAMED).tolist()) <= set(classes)
        np.testing.assert_array_equal(model.predict(NAMED) == np.asarray(y), plain.predict(NAMED) == Y)
        assert model.score(NAMED, y) == model.score(NAMED, Y) == plain.score(NAMED, Y)


@pytest.mark.parametrize("scoring", [None, "accuracy", "neg_log_loss", "roc_auc"])
@pytest.mark.parametrize("y", [WORDS, Y == 1], ids=["words", "booleans"])
def test_row_67_scorers_read_words_and_booleans(y, scoring):
    expected = cross_val_score(quick(), NAMED, Y, scoring=scoring, cv=2, error_score="raise")
    scores = cross_val_score(quick(), NAMED, y, scoring=scoring, cv=2, error_score="raise")
    np.testing.assert_allclose(scores, expected)


def test_unseen_ids_without_features_are_the_prior(ids):
    np.testing.assert_allclose(ids.predict_proba([["new", "newer"], ["new", "new"]]), 0.5, atol=1e-12)
    best = ids.rank().id[0]
    against = ids.predict_proba([[best, "new"], ["new", best]])
    assert against[0, 1] > 0.5
    np.testing.assert_allclose(against[0], against[1, ::-1], atol=1e-12)


def test_items_of_the_table_without_comparisons_are_predicted(table):
    mean, std = table.utility([NAMES[0], NAMES[-1]], return_std=True)
    assert np.all(np.isfinite(mean))
    assert std[1] > std[0]
    _, without = table.utility([NAMES[0], NAMES[-1]], return_std=True, item_effects=False)
    assert without[1] < std[1]


# --------------------------------------------------------------------------------------------------------------- labels
@pytest.mark.parametrize("items", [None, TABLE], ids=["ids", "table"])
def test_a_soft_label_is_two_weighted_ones(items):
    y = np.linspace(0.0, 1.0, P)
    soft = quick(items).fit(NAMED, y)
    hard = quick(items).fit(NAMED + NAMED, np.repeat([1, 0], P), sample_weight=np.concatenate([y, 1.0 - y]))
    np.testing.assert_allclose(soft.predict_proba(NAMED), hard.predict_proba(NAMED), atol=1e-9)


def test_ties_draw_together():
    tied = quick().fit([["a", "b"]] * 20 + [["a", "c"]] * 20, [0.5] * 20 + [1] * 20)
    p = tied.predict_proba([["a", "b"], ["a", "c"]])[:, 1]
    assert p[0] == pytest.approx(0.5, abs=0.15)
    assert p[1] > 0.85
    assert tied.score([["a", "c"], ["a", "b"]], [1, 0.5]) == 1.0  # ties are left out


# ---------------------------------------------------------------------------------------------------------------- order
def test_order_effect():
    y = (UTILITY[LEFT] - UTILITY[RIGHT] + 1.0 + np.random.default_rng(2).standard_normal(P) > 0).astype(int)
    model = quick(TABLE, order_effect=True).fit(NAMED, y)
    mean, std = model.order_effect_
    assert abs(mean - 1.0) < 4.0 * std
    assert 0.05 < std < 0.5
    forth, back = model.predict_proba([["item n", "item m"], ["item m", "item n"]])[:, 1]
    assert forth + back > 1.1
    z = model.decision_function([["item n", "item m"]])[0] + model.decision_function([["item m", "item n"]])[0]
    assert z == pytest.approx(2.0 * mean)


# ------------------------------------------------------------------------------------------------------- what is learnt
def test_features_alone_equal_the_regressor():
    kernel = ProductMatern(1.0)
    winners = np.where((Y == 1)[:, None], PAIRS, PAIRS[:, ::-1])
    pairs = quick(FEATURES, kernel=kernel, item_effects=False).fit(PAIRS, Y)
    rows = GPPLRegressor(kernel, random_state=0).fit(FEATURES, comparisons=winners)
    np.testing.assert_allclose(pairs.utility(), rows.predict(FEATURES), atol=1e-6)
    p = rows.predict_preference(FEATURES[LEFT], FEATURES[RIGHT])
    np.testing.assert_allclose(pairs.predict_proba(PAIRS)[:, 1], p, atol=1e-6)


def test_probabilities_follow_from_the_joint_posterior(table):
    mean, cov = table.utility(NAMES[:2], return_cov=True)
    variance = cov[0, 0] + cov[1, 1] - 2.0 * cov[0, 1]
    wanted = ndtr((mean[0] - mean[1]) / np.sqrt(1.0 + variance))
    assert table.predict_proba([NAMES[:2]])[0, 1] == pytest.approx(wanted, abs=1e-8)
    assert table.decision_function([NAMES[:2]])[0] == pytest.approx(mean[0] - mean[1], abs=1e-9)


def test_logit_probabilities():
    model = quick(likelihood="logit").fit(NAMED, Y)
    mean, cov = model.utility(NAMES[:2], return_cov=True)
    sd = np.sqrt(cov[0, 0] + cov[1, 1] - 2.0 * cov[0, 1])
    draws = expit(mean[0] - mean[1] + sd * np.random.default_rng(0).standard_normal(200_000))
    assert model.predict_proba([NAMES[:2]])[0, 1] == pytest.approx(draws.mean(), abs=3e-3)


@pytest.mark.parametrize("inference", ["vb", "svi", "laplace", "linearised"])
@pytest.mark.parametrize("items", [None, TABLE], ids=["ids", "table"])
@pytest.mark.filterwarnings("ignore:.*did not converge")
def test_every_inference_agrees_roughly(inference, items):
    options = {"scale_prior": Gamma(1.0, 1.0)}  # under a weaker one, small batches need far more passes
    wanted = quick(items, **options).fit(NAMED, Y).predict_proba(NAMED)
    model = quick(items, inference=SVI(50) if inference == "svi" else inference, **options).fit(NAMED, Y)
    np.testing.assert_allclose(model.predict_proba(NAMED), wanted, atol=0.2 if inference == "linearised" else 0.1)


# ------------------------------------------------------------------------------------------------------------ utilities
def test_utilities_of_ids_tables_rows_and_all(table):
    everything = table.utility()
    assert everything.shape == (N,)
    np.testing.assert_allclose(table.utility(NAMES[3:5]), everything[3:5], atol=1e-12)
    new = _rng.standard_normal((3, 2))
    by_rows = table.utility(new)
    np.testing.assert_allclose(table.utility(Table(new, ids=list("xyz"))), by_rows, atol=1e-12)
    np.testing.assert_allclose(table.utility(sparse.csr_array(new)), by_rows, atol=1e-10)
    assert table.rank(Table(new, ids=list("xyz"))).id.tolist() == [list("xyz")[i] for i in np.argsort(-by_rows)]
    assert table.rank(new).id.tolist() == np.argsort(-by_rows).tolist()
    drawn = table.sample_utility(NAMES[:4], 9, random_state=0)
    assert drawn.shape == (4, 9)
    np.testing.assert_array_equal(drawn, table.sample_utility(NAMES[:4], 9, random_state=0))


def test_frames_of_new_items_keep_their_names():
    pd = pytest.importorskip("pandas")
    items = pd.DataFrame(FEATURES, columns=["size", "age"])
    model = quick(items).fit(PAIRS, Y)
    np.testing.assert_allclose(model.utility(items, item_effects=False).shape, (N,))
    with pytest.raises(ValueError, match="feature names should match"):
        model.utility(items[["age", "size"]])


def test_new_rows_of_known_features_have_no_offset(table):
    seen, new = table.utility([NAMES[0]], return_std=True), table.utility(FEATURES[:1], return_std=True)
    assert new[1][0] > seen[1][0]
    assert seen[0][0] != new[0][0]


def test_samples_have_the_moments(ids):
    mean, cov = ids.utility(NAMES[:3], return_cov=True)
    drawn = ids.sample_utility(NAMES[:3], 20_000, random_state=0)
    np.testing.assert_allclose(drawn.mean(axis=1), mean, atol=5.0 * np.sqrt(np.diag(cov).max() / 20_000))
    np.testing.assert_allclose(np.cov(drawn), cov, atol=0.06 * np.diag(cov).max())


@pytest.mark.parametrize("both", [{"return_std": True, "return_cov": True}])
def test_one_of_std_and_cov(ids, both):
    with pytest.raises(ValueError, match="At most one"):
        ids.utility(**both)


# -------------------------------------------------------------------------------------------------------- between fits


def test_warm_start_with_more_comparisons():
    model = quick(TABLE, warm_start=True).fit(NAMED[:100], Y[:100])
    model.fit(NAMED, Y)
    cold = quick(TABLE).fit(NAMED, Y)
    np.testing.assert_allclose(model.predict_proba(NAMED), cold.predict_proba(NAMED), atol=0.02)


def test_not_converged_warns():
    with pytest.warns(ConvergenceWarning, match=r"GPPLClassifier did not converge in 1 iterations \(max_iter=1\)"):
        quick(max_iter=1).fit(NAMED, Y)


def test_known_ids_of_another_table_keep_their_offsets():
    pairs, y = [["a", "b"], ["b", "c"], ["a", "c"], ["c", "a"]] * 3, [1, 1, 1, 0] * 3
    features = np.arange(3.0).reshape(-1, 1)
    model = GPPLClassifier(Table(features, ids=["a", "b", "c"]), optimizer=None, random_state=0).fit(pairs, y)
    mean, std = model.utility(Table(features[[2, 0, 1]], ids=["c", "a", "new"]), return_std=True)
    by_id, by_id_std = model.utility(["c", "a"], return_std=True)
    np.testing.assert_allclose(mean[:2], by_id, rtol=1e-10)
    np.testing.assert_allclose(std[:2], by_id_std, rtol=1e-10)
    assert std[2] > model.utility(["b"], return_std=True)[1][0]


def test_preference_is_free_of_answer_noise_and_order_effect():
    rng = np.random.default_rng(0)
    pairs = rng.integers(0, 6, (400, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    y = (rng.normal(size=len(pairs)) < (pairs[:, 1] - pairs[:, 0]) + 1.0).astype(int)
    model = GPPLClassifier(order_effect=True).fit(pairs, y)
    asked = [[0, 5], [5, 0], [2, 3], [3, 2], [4, 4]]
    preference = model.predict_preference(asked)
    np.testing.assert_allclose(preference[:4:2] + preference[1:4:2], 1.0, rtol=1e-12)
    assert preference[4] == 0.5
    assert model.order_effect_[0] > 0.5
    # Many answers leave little doubt about the utilities, whatever a single answer says.
    assert preference[0] > model.predict_proba(asked)[0, 1] - 0.02
    assert preference[0] > 0.999


def test_ties_are_an_answer_of_their_own():
    rng = np.random.default_rng(1)
    pairs = rng.integers(0, 8, (1500, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    z = 0.4 * (pairs[:, 0] - pairs[:, 1]) + rng.normal(size=len(pairs))
    y = np.where(z > 0.5, 1.0, np.where(z < -0.5, 0.0, 0.5))
    model = GPPLClassifier(likelihood="probit-ties").fit(pairs, y)
    assert abs(model.likelihood_.threshold - 0.5) < 0.1
    assert np.diff(model.lower_bounds_).min() > -1e-8
    slope = np.polyfit(np.arange(8.0), model.utility(list(range(8))), 1)[0]
    assert abs(slope - 0.4) < 0.08
    half = GPPLClassifier(likelihood="probit").fit(pairs, y)
    assert np.polyfit(np.arange(8.0), half.utility(list(range(8))), 1)[0] < slope


def test_rare_ties_survive_mini_batches():
    rng = np.random.default_rng(3)
    pairs = rng.integers(0, 10, (3000, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    y = (rng.normal(size=len(pairs)) < 0.3 * (pairs[:, 0] - pairs[:, 1])).astype(float)
    y[rng.choice(len(y), 12, replace=False)] = 0.5
    full = GPPLClassifier(likelihood="probit-ties").fit(pairs, y)
    batches = GPPLClassifier(likelihood="probit-ties", inference=SVI(200), random_state=0).fit(pairs, y)
    assert abs(np.log(batches.likelihood_.threshold / full.likelihood_.threshold)) < 0.3


@pytest.mark.parametrize("change", [{"scale_prior": Gamma(50.0, 5.0)}, {"item_effects": False}, {"inducing": 3}])
def test_a_warm_start_ends_where_a_cold_one_does(change):
    rng = np.random.default_rng(0)
    features = rng.normal(size=(9, 2))
    pairs = rng.integers(0, 9, (60, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    y = (features[pairs[:, 0], 0] > features[pairs[:, 1], 0]).astype(int)
    options = {"optimizer": None, "random_state": 0, "tol": 1e-8, "max_iter": 1000}
    warm = GPPLClassifier(Table(features), warm_start=True, **options).fit(pairs, y)
    warm.set_params(**change).fit(pairs, y)
    cold = GPPLClassifier(Table(features), **options, **change).fit(pairs, y)
    np.testing.assert_allclose(warm.lower_bound_, cold.lower_bound_, rtol=1e-6)
    np.testing.assert_allclose(warm.utility(), cold.utility(), atol=1e-3)


def test_an_item_asked_for_twice_is_one_item_in_either_layout(monkeypatch):
    rng = np.random.default_rng(0)
    pairs = np.array([[a, b] for a in range(6) for b in range(6) if a != b])
    y = rng.integers(0, 2, len(pairs))
    for size in (1500, 0):
        set_policy(monkeypatch, "gp.pairwise", joint_size=size)
        _, cov = GPPLClassifier().fit(pairs, y).utility([5, 5], return_cov=True)
        np.testing.assert_allclose(cov, cov[0, 0], rtol=1e-12)


def test_what_cannot_be_ranked_is_refused():
    model = GPPLClassifier().fit([["a", "b"], ["b", "c"]], [1, 1])
    for items in ([], ["a", "a"]):
        with pytest.raises(DataError, match="items must be distinct, and at least one"):
            model.rank(items)


# --------------------------------------------------------------------------------------------------------- partial fits
TWO_PARTS = [(a, b) for a in "abcde" for b in "abcde" if a < b] * 2
ANSWERS = [1, 1, 0, 1, 1, 1, 0, 1, 1, 1, 0, 1, 1, 1, 0, 1, 1, 0.5, 1, 1]


@pytest.mark.parametrize("parameters", [{}, {"order_effect": True}, {"likelihood": "probit-ties"}])
def test_parts_give_what_one_fit_gives(parameters):
    whole = GPPLClassifier(tol=1e-8, **parameters).fit(TWO_PARTS, ANSWERS)
    parts = GPPLClassifier(tol=1e-8, **parameters)
    for rows in (slice(5), slice(5, 12), slice(12, 20)):
        assert parts.partial_fit(TWO_PARTS[rows], ANSWERS[rows]) is parts
    assert parts.item_ids_.tolist() == whole.item_ids_.tolist()
    for mine, theirs in zip(parts.utility(return_std=True), whole.utility(return_std=True), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=2e-3)
    np.testing.assert_array_equal(parts.win_matrix(list("abcde")).observed, whole.win_matrix(list("abcde")).observed)


def test_partial_fit_with_features_keeps_the_kernel():
    table = Table(np.arange(5.0)[:, None], ids=list("abcde"))
    model = GPPLClassifier(table, random_state=0).fit(TWO_PARTS[:9], ANSWERS[:9])
    theta, points = model.kernel_.theta, model.inducing_points_
    before = model.n_iter_
    model.partial_fit(TWO_PARTS[:1], ANSWERS[:1])
    np.testing.assert_array_equal(model.kernel_.theta, theta)
    np.testing.assert_array_equal(model.inducing_points_, points)
    assert model.n_iter_ <= before
    model.partial_fit([("f", "a")], [1], items=Table([[6.0]], ids=["f"]))
    assert "f" in model.item_ids_.tolist()


def test_partial_fit_refuses_what_makes_another_model(tmp_path):
    model = GPPLClassifier().fit(TWO_PARTS, ANSWERS)
    utility = model.utility()
    with pytest.raises(DataError, match="order_effect differs from that of the fit"):
        model.set_params(order_effect=True).partial_fit(TWO_PARTS, ANSWERS)
    model.set_params(order_effect=False)
    with pytest.raises(ValueError, match="labels must be 0 or 1"):
        model.partial_fit(TWO_PARTS[:1], [2])
    with pytest.raises(DataError, match="items of partial_fit are for new ones"):
        GPPLClassifier().partial_fit(TWO_PARTS, ANSWERS, items=Table(np.eye(2)))
    np.testing.assert_array_equal(model.utility(), utility)
    save(model, tmp_path / "model")
    again = load(tmp_path / "model").partial_fit([("a", "z")], [0])
    assert again.rank().id[0] == model.partial_fit([("a", "z")], [0]).rank().id[0]


def test_six_comparisons_are_enough():
    model = GPPLClassifier().fit([("a", "b"), ("b", "c"), ("a", "c"), ("c", "d"), ("a", "d"), ("d", "b")])
    assert model.converged_
    assert model.rank().id[0] == "a"


def test_offsets_fade_where_features_say_all():
    # The slope of the truth on predicted logits, over data sets without offsets: 0.79 with the prior of f for offsets.
    slopes = []
    for seed in range(200, 204):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(40, 2))
        K = ProductMatern([1.5, 1.5])(X) + 1e-8 * np.eye(40)
        utility = np.linalg.cholesky(K) @ rng.normal(size=40)
        left = rng.integers(0, 40, 200)
        right = (left + rng.integers(1, 40, 200)) % 40
        y = (utility[left] - utility[right] + rng.normal(size=200) > 0.0).astype(int)
        model = GPPLClassifier(items=Table(X)).fit(np.column_stack([left, right]), y)
        pairs = np.argwhere(~np.eye(40, dtype=bool))
        predicted = logit(model.predict_proba(pairs)[:, 1])
        p = ndtr(utility[pairs[:, 0]] - utility[pairs[:, 1]])
        logistic = LogisticRegression(C=np.inf, fit_intercept=False)
        answers = np.repeat([1, 0], p.size)
        logistic.fit(np.tile(predicted, 2)[:, None], answers, sample_weight=np.concatenate([p, 1.0 - p]))
        slopes.append(logistic.coef_[0, 0])
    assert np.mean(slopes) > 0.85


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
def test_features_that_are_constant_are_named(convert):
    X = convert(np.column_stack([np.full(4, 2.0), np.arange(4.0)]))
    pairs = [[0, 1], [1, 2], [2, 3], [1, 0], [3, 2]]
    wanted = r"1 of 2 features are constant over the compared items \(columns 0\)"
    for fit in (lambda: GPPLClassifier(Table(X)).fit(pairs), lambda: GPPLRegressor().fit(X, np.arange(4.0))):
        with pytest.warns(DataWarning, match=wanted) as record:
            fit()
        assert record[0].filename == __file__


@pytest.mark.parametrize("inference", ["svi", "vb"])
def test_the_bound_is_that_of_the_last_pass(inference):
    model = quick(inference=SVI(40) if inference == "svi" else inference, max_iter=4, tol=0.0)
    with pytest.warns(ConvergenceWarning):
        model.fit(NAMED, Y)
    assert len(set(model.lower_bounds_)) == 4
    assert model.lower_bound_ == pytest.approx(model.lower_bounds_[-1], rel=1e-12)
