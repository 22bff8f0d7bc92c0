"""What the factorization machines promise to users."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from scipy.stats import multivariate_normal
from sklearn.compose import make_column_transformer
from sklearn.feature_selection import SelectFromModel
from sklearn.linear_model import BayesianRidge, LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

from skpref import OneHotDesign, VariationalFM, VariationalFMClassifier
from skpref._compiled.jit import limited_threads
from skpref.exceptions import DataError, DataWarning
from skpref.factorization.machine import base
from skpref.factorization.machine.fit import coordinate_ascent

USERS, ITEMS, D = 40, 25, 2
MODELS = VariationalFM, VariationalFMClassifier


def world(seed=0, n=700, noise=0.3):
    """Ratings of items by users: table of ids, one-hot design, ratings, likes."""
    rng = np.random.default_rng(seed)
    u, i = rng.integers(0, USERS, n), rng.integers(0, ITEMS, n)
    U, V = rng.standard_normal((USERS, D)), rng.standard_normal((ITEMS, D))
    z = 0.5 * rng.standard_normal(USERS)[u] + 0.5 * rng.standard_normal(ITEMS)[i] + (U[u] * V[i]).sum(axis=1)
    y = 3.0 + z + noise * rng.standard_normal(n)
    entries = np.ones(2 * n), np.column_stack([u, USERS + i]).ravel(), np.arange(0, 2 * n + 1, 2)
    X = sparse.csr_array(entries, (n, USERS + ITEMS))
    return np.column_stack([u, i]), X, y, np.where(y > 3.0, "like", "leave")


PAIRS, X, Y, LIKES = world()
TRAIN, TEST = slice(0, 550), slice(550, None)
DENSE = np.random.default_rng(5).standard_normal((60, 4))


def target(make):
    return Y if make is VariationalFM else LIKES


def fitted(make, rows=TRAIN, **options):
    return make(**{"n_factors": D, "random_state": 0, **options}).fit(X[rows], target(make)[rows])


def loss(model):
    """Of test rows: squared error, or minus the log probability."""
    predicted = outputs(model, X[TEST])
    if predicted.ndim == 1:
        return np.mean((predicted - Y[TEST]) ** 2)
    return -np.mean(np.log(predicted[np.arange(predicted.shape[0]), (LIKES[TEST] == "like").astype(int)]))


def outputs(model, X=X):
    return model.predict_proba(X) if hasattr(model, "link") else model.predict(X)


# ----------------------------------------------------------------------------------------------------------- predicting
def test_it_finds_the_interactions():
    linear = VariationalFM(n_factors=0).fit(X[TRAIN], Y[TRAIN])
    assert fitted(VariationalFM).score(X[TEST], Y[TEST]) > 0.7
    assert linear.score(X[TEST], Y[TEST]) < 0.5
    classifier = VariationalFMClassifier(n_factors=0).fit(X[TRAIN], LIKES[TRAIN])
    assert fitted(VariationalFMClassifier).score(X[TEST], LIKES[TEST]) > 0.05 + classifier.score(X[TEST], LIKES[TEST])


def test_draws_have_the_moments():
    model = fitted(VariationalFM)
    mean, std = model.predict(X[TEST], return_std=True)
    draws = model.sample_y(X[TEST], 4000, random_state=1)
    assert np.all(np.abs(draws.mean(axis=1) - mean) < 5.0 * std / np.sqrt(4000))
    np.testing.assert_allclose(draws.std(axis=1), std, rtol=0.1)
    classifier = fitted(VariationalFMClassifier)
    labels = classifier.sample_y(X[TEST], 4000, random_state=1)
    np.testing.assert_allclose((labels == "like").mean(axis=1), classifier.predict_proba(X[TEST])[:, 1], atol=0.06)


def test_parameters_explain_the_prediction():
    model = fitted(VariationalFM)
    x = X.toarray()
    V = model.factors_
    wanted = model.intercept_ + x @ model.weights_ + 0.5 * (((x @ V) ** 2).sum(axis=1) - (x**2 @ V**2).sum(axis=1))
    np.testing.assert_allclose(model.predict(X), wanted, rtol=1e-10)
    assert model.weights_std_.shape == (USERS + ITEMS,)
    assert model.factors_std_.shape == (USERS + ITEMS, D)
    priors = model.group_priors_
    assert list(priors) == [0, 1]
    assert set(priors[0]) == {"weight_mean", "weight_std", "factor_means", "factor_stds"}


# --------------------------------------------------------------------------------------------------------- equivalences
def test_without_factors_it_is_bayesian_linear_regression():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((400, 5)) @ np.diag([1.0, 2.0, 0.5, 1.0, 3.0])
    y = A @ [1.0, -2.0, 0.3, 0.0, 0.5] + 2.0 + 0.1 * rng.standard_normal(400)
    model = VariationalFM(n_factors=0, max_iter=2000, tol=0.0).fit(A, y)
    ridge = BayesianRidge().fit(A, y)
    np.testing.assert_allclose(model.weights_, ridge.coef_, atol=5e-3)
    np.testing.assert_allclose(model.predict(A), ridge.predict(A), atol=1e-2)
    # Against the posterior itself, with the prior and noise that were learnt.
    prior, s = model.group_priors_[0], model.noise_
    P = np.eye(5) / prior["weight_std"] ** 2 + A.T @ A / s**2
    b = prior["weight_mean"] / prior["weight_std"] ** 2 + A.T @ (y - model.intercept_) / s**2
    np.testing.assert_allclose(model.weights_, np.linalg.solve(P, b), rtol=1e-6)
    np.testing.assert_allclose(model.weights_std_, 1.0 / np.sqrt(np.diag(P)), rtol=1e-3)


def test_without_factors_it_is_logistic_regression():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((500, 3))
    y = rng.random(500) < 1.0 / (1.0 + np.exp(-(A @ [1.0, -1.5, 0.5] - 0.4)))
    model = VariationalFMClassifier(n_factors=0, link="logit", learn_priors=False).fit(A, y)
    logistic = LogisticRegression(C=1.0).fit(A, y)
    np.testing.assert_allclose(model.weights_, logistic.coef_[0], atol=0.05)


@pytest.mark.parametrize("make", MODELS)
def test_a_feature_that_is_always_zero_changes_nothing(make):
    wide = sparse.hstack([X, sparse.csr_array((X.shape[0], 1))], format="csr")
    groups = np.repeat([0, 1, 2], [USERS, ITEMS, 1])
    y = target(make)[TRAIN]
    options = {"n_factors": 0, "learn_priors": False, "tol": 0.0, "random_state": 0}
    model = make(groups=groups, **options).fit(wide[TRAIN], y)
    without = make(groups=groups[:-1], **options).fit(X[TRAIN], y)
    np.testing.assert_allclose(outputs(model, wide), outputs(without), rtol=1e-6)


@pytest.mark.parametrize("make", MODELS)
def test_many_equal_rows_cost_as_few_and_change_nothing(make, monkeypatch):
    rows, y = np.arange(4000) % 40, target(make)[:40]
    sizes = []

    def counted(machine, data, plan):
        sizes.append(data.y.size)
        return coordinate_ascent(machine, data, plan)

    monkeypatch.setattr(base, "coordinate_ascent", counted)
    repeated = make(n_factors=D, random_state=0).fit(X[rows], y[rows])
    weighted = make(n_factors=D, random_state=0).fit(X[:40], y, sample_weight=np.full(40, 100.0))
    make(n_factors=D, random_state=0).fit(X[TRAIN], target(make)[TRAIN])
    assert sizes == [40, 40, len(target(make)[TRAIN])]
    np.testing.assert_allclose(outputs(repeated), outputs(weighted), rtol=1e-6)


def test_units_of_the_target_do_not_matter():
    model, other = fitted(VariationalFM), VariationalFM(n_factors=D, random_state=0)
    other.fit(X[TRAIN], 1e6 * Y[TRAIN] - 3e7)
    np.testing.assert_allclose(other.predict(X), 1e6 * model.predict(X) - 3e7, rtol=1e-6)
    np.testing.assert_allclose(other.noise_, 1e6 * model.noise_, rtol=1e-6)
    n_rows = X[TRAIN].shape[0]
    np.testing.assert_allclose(other.lower_bound_, model.lower_bound_ - n_rows * np.log(1e6), rtol=1e-8)


@pytest.mark.parametrize("make", MODELS)
def test_threads_change_nothing(make):
    with limited_threads(1):
        single = outputs(fitted(make, n_jobs=1))
    np.testing.assert_array_equal(outputs(fitted(make, n_jobs=2)), single)


@pytest.mark.slow  # all is compiled again for single precision
def test_single_precision_is_near():
    np.testing.assert_allclose(
        fitted(VariationalFM, dtype="float32").predict(X), fitted(VariationalFM).predict(X), atol=0.02
    )


# -------------------------------------------------------------------------------------------------------------- fitting
@pytest.mark.parametrize("make", MODELS)
@pytest.mark.parametrize("seed", [0, 7, 2**31])
def test_the_bound_rises_to_its_end(make, seed):
    model = fitted(make, random_state=seed, max_iter=400)
    assert np.all(np.diff(model.lower_bounds_) >= 0.0)
    assert model.converged_
    assert model.n_iter_ == model.lower_bounds_.size < 400
    assert model.lower_bound_ == model.lower_bounds_[-1]


def test_fields_of_a_one_hot_design_are_groups():
    assert fitted(VariationalFM).posterior_.machine.prior.group.tolist() == [0] * USERS + [1] * ITEMS
    assert VariationalFM().fit(DENSE, DENSE[:, 0]).groups_.tolist() == [0]
    named = VariationalFM(groups=["a", "b", "b", "a"]).fit(DENSE, DENSE[:, 0])
    assert named.groups_.tolist() == ["a", "b"]
    assert set(named.group_priors_) == {"a", "b"}


def test_priors_may_be_given_up():
    model = fitted(VariationalFM, learn_priors=False)
    prior = model.posterior_.machine.prior
    assert np.all(prior.nu == 0.0)
    assert np.all(prior.lam == 1.0)


@pytest.mark.parametrize("make", MODELS)
def test_mini_batches_and_samples(make):
    y = target(make)
    for options in ({"n_samples": 2}, {"batch_size": 100, "n_samples": 1}):
        model = fitted(make, max_iter=80, learning_rate=0.05, **options)
        assert model.score(X[TEST], y[TEST]) > 0.6
        last = fitted(make, max_iter=80, learning_rate=0.05, average=False, **options)
        assert np.any(outputs(model) != outputs(last))
        assert model.n_iter_ == 80
        assert np.array_equal(model.predict_last(X), last.predict(X))
    with pytest.warns(DataWarning, match="batch_size=551 is more than the 550 rows"):
        fitted(make, batch_size=551, max_iter=2)


@pytest.mark.parametrize("make", MODELS)
@pytest.mark.parametrize("batch_size", [None, 100])
def test_early_stopping_keeps_the_best_pass(make, batch_size):
    model = fitted(make, early_stopping=True, n_iter_no_change=3, batch_size=batch_size, learning_rate=0.1)
    losses = model.validation_losses_
    assert losses.size == model.n_iter_
    assert losses.size - 1 - np.argmin(losses) <= 3
    assert model.score(X[TEST], target(make)[TEST]) > 0.6
    if batch_size is None:  # as if it had ended there
        short = fitted(make, early_stopping=True, n_iter_no_change=3, max_iter=int(np.argmin(losses)) + 1)
        np.testing.assert_array_equal(model.posterior_.machine.mean, short.posterior_.machine.mean)


@pytest.mark.parametrize("make", MODELS)
def test_mini_batches_stop_when_the_bound_no_longer_rises(make):
    options = {"batch_size": 100, "learning_rate": 0.1, "max_iter": 60, "tol": 1e-4}
    model = fitted(make, early_stopping=True, validation_fraction=None, n_iter_no_change=4, **options)
    bounds, n = model.lower_bounds_, model.n_iter_
    assert model.converged_
    assert bounds[-4:].max() < bounds[:-4].max() + 1e-4 * 550
    whole = fitted(make, **options)
    assert not whole.converged_
    np.testing.assert_array_equal(whole.lower_bounds_[:n], bounds)
    assert model.validation_losses_.size == 0
    assert model.score(X[TEST], target(make)[TEST]) > 0.6


@pytest.mark.parametrize("make", MODELS)
def test_without_patience_the_first_pass_that_gains_too_little_is_the_last(make):
    options = {"batch_size": 100, "learning_rate": 0.1, "max_iter": 60, "tol": 1e-3}
    model = fitted(make, early_stopping=True, validation_fraction=None, n_iter_no_change=1, **options)
    gain = model.lower_bounds_[1:] - np.maximum.accumulate(model.lower_bounds_)[:-1]
    assert model.converged_
    assert len(gain) > 2
    assert np.all(gain[:-1] > 1e-3 * 550)
    assert gain[-1] <= 1e-3 * 550


@pytest.mark.parametrize("make", MODELS)
def test_normalised_divergences_change_mini_batches_only(make):
    assert not np.allclose(
        *(outputs(fitted(make, batch_size=50, max_iter=4, kl_weights=w)) for w in ("unbiased", "normalised"))
    )
    np.testing.assert_array_equal(
        *(outputs(fitted(make, max_iter=4, kl_weights=w)) for w in ("unbiased", "normalised"))
    )


def test_divergences_are_normalised_within_groups_where_asked_for():
    groups = np.repeat([0, 1], [USERS, ITEMS])
    for weights, wanted in (("unbiased", None), ("normalised", groups)):
        plan = VariationalFM(kl_weights=weights)._plan(groups == 0, groups, learn=True)
        assert plan.divergence_groups is wanted


def test_parameters_are_in_units_of_the_targets():
    model = fitted(VariationalFM, groups=np.repeat(["user", "item"], [USERS, ITEMS]), max_iter=3)
    machine, scale = model.posterior_.machine, model.posterior_.scale
    assert scale > 1.1
    assert model.groups_.tolist() == ["item", "user"]
    unit = scale * np.ones(1 + D)
    unit[1:] **= 0.5  # a product of two factors is in units of the targets
    for g, label in enumerate(model.groups_.tolist()):
        prior = model.group_priors_[label]
        np.testing.assert_allclose([prior["weight_mean"], *prior["factor_means"]], unit * machine.prior.nu[g])
        np.testing.assert_allclose([prior["weight_std"], *prior["factor_stds"]], unit * machine.prior.lam[g] ** -0.5)
    np.testing.assert_allclose(np.column_stack([model.weights_, model.factors_]), unit * machine.mean)
    np.testing.assert_allclose(
        np.column_stack([model.weights_std_, model.factors_std_]), unit * np.sqrt(machine.variances)
    )
    assert model.intercept_ == model.posterior_.offset + scale * machine.bias.mean


@pytest.mark.parametrize("make", MODELS)
def test_warm_start_goes_on(make):
    model = fitted(make, warm_start=True, max_iter=5)
    first = model.lower_bound_
    model.fit(X[TRAIN], target(make)[TRAIN])
    assert model.lower_bounds_[0] >= first
    cold = make(n_factors=D + 1, random_state=0).fit(X[TRAIN], target(make)[TRAIN])
    model.set_params(n_factors=D + 1, max_iter=100).fit(X[TRAIN], target(make)[TRAIN])
    np.testing.assert_array_equal(outputs(model), outputs(cold))


def test_verbose_prints_a_line_a_pass(capsys):
    fitted(VariationalFM, max_iter=3, verbose=1)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert lines[0].startswith("VariationalFM: pass 1/3  bound ")


# --------------------------------------------------------------------------------------------------------- learning on
@pytest.mark.parametrize("make", MODELS)
def test_partial_fit_learns_from_more_rows(make):
    y = target(make)
    model = make(n_factors=D, random_state=0).partial_fit(X[:275], y[:275])
    before = loss(model)
    model.partial_fit(X[275:550], y[275:550])
    assert loss(model) < 0.95 * before
    assert model.score(X[TEST], y[TEST]) > fitted(make).score(X[TEST], y[TEST]) - 0.1


@pytest.mark.parametrize("make", MODELS)
def test_answers_move_the_person_alone_where_items_are_frozen(make):
    y = target(make)
    others = PAIRS[:, 0] < USERS - 1
    model = make(n_factors=D, groups=np.repeat(["user", "item"], [USERS, ITEMS]), random_state=0).fit(
        X[others], y[others]
    )
    answers = np.flatnonzero(~others)
    before, spread = model.posterior_.machine, model.latent_mean_and_variance(X[answers])[1].mean()
    # Without data: the prior of the group of users.
    np.testing.assert_allclose(before.mean[USERS - 1], before.prior.nu[1], atol=1e-2)
    model.partial_fit(X[answers], y[answers], freeze="item")
    after = model.posterior_.machine
    changed = np.any(after.mean != before.mean, axis=1) | np.any(after.variance != before.variance, axis=(1, 2))
    assert np.flatnonzero(changed).tolist() == [USERS - 1]
    assert after.bias == before.bias
    assert model.latent_mean_and_variance(X[answers])[1].mean() < spread
    np.testing.assert_array_equal(after.prior.lam, before.prior.lam)


def test_answers_one_by_one_are_like_answers_at_once():
    y, others = Y, PAIRS[:, 0] < USERS - 1
    groups = np.repeat(["user", "item"], [USERS, ITEMS])
    model = VariationalFM(n_factors=D, groups=groups, random_state=0, tol=0.0, max_iter=300).fit(X[others], y[others])
    answers = np.flatnonzero(~others)
    at_once = pickle.loads(pickle.dumps(model)).partial_fit(X[answers], y[answers], freeze=["item"])
    for row in answers:
        model.partial_fit(X[[row]], y[[row]], freeze=["item"])
    mean, other = model.predict(X[answers]), at_once.predict(X[answers])
    assert np.sqrt(np.mean((mean - other) ** 2)) < 0.35 * np.std(y)


@pytest.mark.parametrize("make", MODELS)
@pytest.mark.parametrize("posterior", ["full", "factorised"])
def test_rows_of_hardly_any_weight_move_nothing(make, posterior):
    """The posterior is the prior of later rows."""
    model = fitted(make, posterior=posterior, tol=0.0, max_iter=5)
    before = model.posterior_.machine
    model.partial_fit(X[TEST], target(make)[TEST], sample_weight=np.full(150, 1e-9))
    np.testing.assert_allclose(model.posterior_.machine.mean, before.mean, atol=1e-5)
    np.testing.assert_allclose(model.posterior_.machine.variance, before.variance, atol=1e-5)
    np.testing.assert_allclose(model.posterior_.machine.bias, before.bias, rtol=1e-5)


@pytest.mark.parametrize(
    "options", [{"posterior": "full"}, {"posterior": "factorised"}, {"batch_size": 20, "tol": 0.0}]
)
def test_the_bound_of_an_update_is_that_of_the_new_rows(options):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((50, 3)), 2.0 + rng.standard_normal(50)
    model = VariationalFM(n_factors=2, random_state=0, max_iter=200, **options).fit(X, y)
    old, scale = model.posterior_.last, model.posterior_.scale
    more = 3.0 + rng.standard_normal(20)  # rows without features leave w_0 alone, whose posterior is exact
    covariance = scale**2 * (old.bias.variance + np.eye(20) / old.likelihood.precision)
    exact = multivariate_normal.logpdf(more, np.full(20, model.posterior_.offset + scale * old.bias.mean), covariance)
    model.partial_fit(np.zeros((20, 3)), more)
    assert model.lower_bound_ == pytest.approx(exact, abs=0.5 if "batch_size" in options else 1e-6)
    assert model.lower_bound_ == model.lower_bounds_[-1]


def test_partial_fit_keeps_the_classes():
    model = VariationalFMClassifier(n_factors=0).partial_fit(X[:1], LIKES[:1], classes=["leave", "like"])
    assert model.classes_.tolist() == ["leave", "like"]
    model.partial_fit(X[:50], LIKES[:50])
    with pytest.raises(DataError, match=r"label 'hate' in row 1 is not one of the classes \['leave', 'like'\]"):
        model.partial_fit(X[:2], ["like", "hate"])
    with pytest.raises(DataError, match="classes must be those of the first call"):
        model.partial_fit(X[:2], ["like", "leave"], classes=["like", "hate"])


# ---------------------------------------------------------------------------------------------------------------- tools
def test_in_a_pipeline_with_unknown_ids():
    model = make_pipeline(OneHotDesign(), VariationalFM(n_factors=D, random_state=0))
    assert cross_val_score(model, PAIRS, Y, cv=3).mean() > 0.6
    model.fit(PAIRS, Y)
    trained, unknown = model.predict(PAIRS[:1], return_std=True), model.predict([[999, PAIRS[0, 1]]], return_std=True)
    assert np.isfinite(unknown).all()
    assert 0.0 < trained[1][0] < unknown[1][0]


@pytest.mark.parametrize("make", MODELS)
def test_ids_that_were_not_encoded_are_warned_of(make):
    ids = np.array([(user, 7 * item) for user in range(30) for item in range(30)])
    with pytest.warns(DataWarning, match=r"two columns of whole numbers. If they are ids, put OneHotDesign\(\) before"):
        make(n_factors=D, max_iter=2, random_state=0).fit(ids, ids[:, 0] % 2)


@pytest.mark.parametrize("groups", [None, np.repeat(["user", "item"], [USERS, ITEMS])], ids=["found", "named"])
@pytest.mark.parametrize("make", MODELS)
def test_rows_without_a_one_in_a_group_are_warned_of(make, groups):
    model = make(n_factors=D, groups=groups, max_iter=3, random_state=0).fit(X, target(make))
    outputs(model, X[:5])  # nothing to say
    unknown = X[:5].tolil()
    unknown[2, :USERS] = 0.0
    name = 0 if groups is None else "'user'"
    with pytest.warns(DataWarning, match=rf"row 2 \(and 0 more\) has a column of zeros where .* of group {name} are 0"):
        outputs(model, unknown.tocsr())
    again = pickle.loads(pickle.dumps(model))
    with pytest.warns(DataWarning, match=r"row 0 \(and 4 more\)"):
        again.latent_mean_and_variance(sparse.csr_array(X[:5].shape))


def test_zeros_say_nothing_where_training_rows_have_them_or_other_numbers():
    one = np.eye(2)[np.arange(60) % 2]
    ones = np.ones((60, 1))
    for part, groups in ((DENSE[:, :2], [0, 0]), (2.0 * one, [0, 0]), (ones, [0]), (np.hstack([one, one]), [0] * 4)):
        model = VariationalFM(1, groups=[*groups, 9], max_iter=2).fit(np.hstack([part, DENSE[:, :1]]), DENSE[:, 2])
        assert np.isfinite(model.predict(np.zeros((1, part.shape[1] + 1)))).all()  # a warning would be an error
    rare = one * (np.arange(60) > 0)[:, None]  # the first row has no one
    model = VariationalFM(1, groups=[0, 0, 9], max_iter=2).fit(np.hstack([rare, DENSE[:, :1]]), DENSE[:, 2])
    assert np.isfinite(model.predict(np.zeros((1, 3)))).all()


def test_intervals_cover_new_users_in_a_column_transformer():
    pairs, _, y, _ = world(3, n=4000)
    new = pairs[:, 0] >= 30
    encoder = make_column_transformer((OneHotDesign(), [0, 1]))
    model = make_pipeline(encoder, VariationalFM(n_factors=D, random_state=0)).fit(pairs[~new], y[~new])
    mean, std = model.predict(pairs[new], return_std=True)
    assert np.mean(np.abs(y[new] - mean) < 1.6449 * std) > 0.8


def test_rows_held_out_differ_between_random_states(monkeypatch):
    seeds, split = [], base.train_test_split

    def recorded(*arrays, random_state, **options):
        seeds.append(random_state)
        return split(*arrays, random_state=random_state, **options)

    monkeypatch.setattr(base, "train_test_split", recorded)
    X, y = np.eye(8)[np.arange(40) % 8], np.arange(40.0)
    for seed in range(40):
        VariationalFM(n_factors=1, max_iter=1, early_stopping=True, random_state=seed).fit(X, y)
    assert len(set(seeds)) == 40


def test_partial_fit_moves_the_intercept_unless_a_group_is_frozen():
    rng = np.random.default_rng(0)
    X, y = np.eye(4)[rng.integers(0, 4, 60)], rng.standard_normal(60)
    model = VariationalFM(n_factors=1, groups=list("aabb"), random_state=0).fit(X, y)
    before = model.posterior_.machine.bias
    frozen = pickle.loads(pickle.dumps(model)).partial_fit(X, y + 3.0, freeze="a").posterior_.machine.bias
    assert frozen == before
    assert model.partial_fit(X, y + 3.0).posterior_.machine.bias.mean > before.mean + 0.1


def test_features_that_matter_alone_or_with_another_are_selected():
    y = DENSE[:, 0] * DENSE[:, 1] + 0.01 * DENSE[:, 3]
    model = VariationalFM(n_factors=2, random_state=0, max_iter=200).fit(DENSE, y)
    V, w = model.factors_, model.weights_
    by_hand = [w[j] ** 2 + sum((V[i] @ V[j]) ** 2 for i in range(4) if i != j) for j in range(4)]
    np.testing.assert_allclose(model.feature_importances_, by_hand, rtol=1e-9, atol=1e-12)
    assert SelectFromModel(model, prefit=True).get_support().tolist() == [True, True, False, False]
