"""CrowdGPPL learns utilities of groups, such as categories, beside those of users."""

import pickle
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import ndtr
from sklearn.base import clone

from skpref import CrowdGPPL, GPPLClassifier, Table
from skpref.exceptions import DataError, UnknownIdError
from skpref.gp.crowd import fit_hierarchy, hierarchy, spread
from skpref.gp.crowd.places import Places

N_ITEMS, CATEGORIES, N_JUDGES = 6, ["chat", "code", "maths"], 12
ITEMS = [f"i{k}" for k in range(N_ITEMS)]


def draw(seed, n, n_items=N_ITEMS, n_judges=N_JUDGES, spread=0.8):
    """Return comparisons, answers, and the true utilities of the items in each category."""
    rng = np.random.default_rng(seed)
    truth = 0.8 * rng.normal(size=n_items) + spread * rng.normal(size=(len(CATEGORIES), n_items))
    own = 0.4 * rng.normal(size=(n_judges, n_items))
    judge, category, left = (rng.integers(0, size, n) for size in (n_judges, len(CATEGORIES), n_items))
    right = (left + rng.integers(1, n_items, n)) % n_items
    z = truth[category, left] - truth[category, right] + own[judge, left] - own[judge, right]
    columns = {"judge": judge, "category": np.array(CATEGORIES)[category], "a": left, "b": right}
    X = pd.DataFrame(columns)
    X["a"], X["b"] = ("i" + X[side].astype(str) for side in ("a", "b"))
    return X, (rng.random(n) < ndtr(z)).astype(int), truth - truth.mean(axis=1, keepdims=True)


def crowd(**options):
    names = {"user": "judge", "left": "a", "right": "b", "groups": ["category"]}
    return CrowdGPPL(**{**names, "n_factors": 2, "random_state": 0, **options})


@pytest.fixture(scope="module", autouse=True)
def few_candidates():
    """Choose between two ways to hold the covariance of tastes down, on one fold: fits take a tenth of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fit_hierarchy, "_CANDIDATES", fit_hierarchy._CANDIDATES[:1])
        patch.setattr(fit_hierarchy, "_HELD_OUT", 1)
        patch.setattr(spread, "_LARGEST", 0.0)  # S is known, so that the posterior is a joint normal distribution
        patch.setattr(spread, "_PASSES", 1)  # and sites stay
        yield


@pytest.fixture(scope="module")
def data():
    return draw(0, 240)


@pytest.fixture(scope="module")
def model(data):
    return crowd().fit(*data[:2])


def dense_posterior(  # noqa: C901 - one loop for each kind of variable
    model, levels
):
    """Return mean and covariance of all variables, by the textbook formula, and the function that makes their rows.

    The variables are m, c of each column and group, and b of each user, with the left side as one more item, and the
    effects of covariates.
    """
    posterior, kinds = model.posterior_, len(levels)
    places, users, order = posterior.places, posterior.users, posterior.consensus.has_order
    n = len(posterior.S)
    starts = np.cumsum([n, *(n_levels * N_ITEMS for n_levels in places.n_levels.tolist())])
    scale = posterior.consensus.covariate_scale
    size = starts[-1] + n * posterior.n_users + scale.size
    prior = np.zeros((size, size))
    prior[:n, :n] = np.eye(n) / posterior.scales["offset"].mean
    if order:
        prior[n - 1, n - 1] = 1.0 / posterior.scales["order"].mean
    for kind in range(kinds):
        block = slice(starts[kind], starts[kind + 1])
        prior[block, block] = np.eye(starts[kind + 1] - starts[kind]) / posterior.scales[f"offset{kind}"].mean
    for u in range(posterior.n_users):
        block = slice(starts[-1] + u * n, starts[-1] + (u + 1) * n)
        prior[block, block] = posterior.S
    for k in range(size - scale.size, size):
        prior[k, k] = 1.0 / posterior.scales["covariate"].mean

    def rows(user, left, right, group, covariates=()):
        out = np.zeros((len(left), size))
        if len(covariates):
            out[:, size - scale.size :] = covariates / scale
        for r, (u, a, b, of_row) in enumerate(zip(user, left, right, group, strict=True)):
            for item, sign in ((a, 1.0), (b, -1.0), *(((n - 1, 1.0),) if order else ())):
                out[r, item] += sign
                if u >= 0:
                    out[r, starts[-1] + u * n + item] += sign
                for kind, level in enumerate(of_row):
                    if item < N_ITEMS and level >= 0:
                        out[r, starts[kind] + level * N_ITEMS + item] += sign
        return out

    covariates = users.extra[:, : scale.size] * scale
    A = rows(users.user, places.item[users.left], places.item[users.right], places.group[users.left], covariates)
    covariance = np.linalg.inv(np.linalg.inv(prior) + A.T @ (posterior.tau[:, None] * A))
    return covariance @ A.T @ posterior.nu, covariance, rows


@pytest.mark.parametrize("order", [False, True])
@pytest.mark.parametrize("names", [[], ["length", "age"]])
def test_predictions_are_those_of_the_joint_normal_distribution_of_all_parts(data, names, *, order):
    X, y, _ = data
    rng = np.random.default_rng(1)
    X = X.assign(language=np.where(np.arange(len(X)) % 3 == 0, "de", "en"), age=rng.normal(size=len(X)))
    X["length"] = 50.0 * (2 * y - 1) + 200.0 * rng.normal(size=len(X))
    model = crowd(groups=["category", "language"], order_effect=order, covariates=names).fit(X, y)
    if names:
        assert 0.0005 < model.coef_[0] < 0.01
    places = model.posterior_.places
    assert (places.n_levels == [3, 2]).all()
    model.posterior_.validate()
    if order:
        first = replace(places, item=np.concatenate([places.item[:-1], [0]]))
        with pytest.raises(DataError, match="must end with the left side"):
            replace(model.posterior_, places=first).validate()
    mean, covariance, rows = dense_posterior(model, [[0, 1, 2], [0, 1]])
    T = X.iloc[:40]
    columns = zip(model.group_ids_, ("category", "language"), strict=True)
    numbers = [pd.Index(ids).get_indexer(T[name]) for ids, name in columns]
    sides = [pd.Index(model.item_ids_).get_indexer(T[side]) for side in ("a", "b")]
    user = pd.Index(model.user_ids_).get_indexer(T["judge"])
    A = rows(user, *sides, np.column_stack(numbers), T[names])
    z, variance = model._moments(T)
    assert_allclose(z, A @ mean, atol=1e-6)
    assert_allclose(variance, np.einsum("ij,jk,ik->i", A, covariance, A), atol=1e-6)
    one = pd.DataFrame({"judge": 0, "category": "code", "language": "en", "a": ["i0", "i2"], "b": ["i1", "i1"]})
    one[["length", "age"]] = [[100.0, 0.3], [-50.0, 1.0]]
    sides = [pd.Index(model.item_ids_).get_indexer(one[side]) for side in ("a", "b")]
    A = rows([0] * len(one), *sides, [[1, 1]] * len(one), one[names])
    assert_allclose(model.latent_covariance(one), A @ covariance @ A.T, atol=1e-6)


def test_utilities_of_a_group_are_those_of_the_joint_normal_distribution(model):
    mean, covariance, _ = dense_posterior(model, [[0, 1, 2]])
    n, centring = N_ITEMS, np.eye(N_ITEMS) - 1.0 / N_ITEMS
    for level, name in [(0, "chat"), (2, "maths"), (None, None)]:
        for user in (None, 3):
            A = np.zeros((n, len(mean)))
            A[:, :n] = np.eye(n)
            if level is not None:
                A[:, n * (1 + level) : n * (2 + level)] = np.eye(n)
            if user is not None:
                A[:, n * (4 + user) : n * (5 + user)] = np.eye(n)
            A = centring @ A
            groups = None if level is None else {"category": name}
            users = None if user is None else [user]
            utility, std = model.utility(ITEMS, users, groups=groups, return_std=True)
            assert_allclose(np.ravel(utility), A @ mean, atol=1e-6)
            assert_allclose(np.ravel(std) ** 2, np.einsum("ij,jk,ik->i", A, covariance, A), atol=1e-6)
            posterior = model.posterior_.select_groups([-2 if level is None else level])
            if user is not None:
                chosen = model._users.select([user])[1], model._items.select(ITEMS)[1]
                draws = posterior.sample(*chosen, 4000, np.random.default_rng(0))
                assert_allclose(draws[:, 0].mean(axis=0), A @ mean, atol=0.06)
                assert_allclose(np.cov(draws[:, 0].T), A @ covariance @ A.T, atol=0.06)


def test_rankings_of_groups(model, data):
    X, _, _ = data
    ranking = model.rank(groups={"category": "code"}, n_samples=200)
    assert ranking["utility"].tolist() == sorted(model.utility(groups={"category": "code"}), reverse=True)
    assert ranking["n_comparisons"].sum() == 2 * (X["category"] == "code").sum()
    assert list(ranking.to_frame()["id"]) != list(model.rank(n_samples=200)["id"])
    of_user = model.rank(user=3, groups={"category": "code"}, n_samples=200)
    rows = (X["category"] == "code") & (X["judge"] == 3)
    assert of_user["n_comparisons"].sum() == 2 * rows.sum()
    matrix = model.win_matrix(groups={"category": "code"})
    assert list(matrix.id) == list(ranking["id"])
    assert model.group_ids_[0].tolist() == CATEGORIES
    assert model.group_scales_ == pytest.approx([1.0 / model.posterior_.scales["offset0"].mean])


def test_an_unseen_group_has_the_consensus_and_the_variance_of_groups(model, data):
    X = data[0][:20]
    mean, variance = model._moments(X.assign(category="poetry", judge=99))
    pairs = [pd.Index(model.item_ids_).get_indexer(X[side]) for side in ("a", "b")]
    of_all = model.posterior_.consensus.pairs(model._items.rows(np.arange(N_ITEMS)), *pairs)
    S = model.posterior_.S_new
    own = S[pairs[0], pairs[0]] + S[pairs[1], pairs[1]] - 2.0 * S[pairs[0], pairs[1]]
    assert_allclose(mean, of_all[0], atol=1e-12)
    assert_allclose(variance, of_all[1] + own + 2.0 * model.group_scales_[0], rtol=1e-9)


def test_groups_and_rows_have_no_order_and_names_do_not_matter(model, data):
    X, y, _ = data
    expected = model.predict_proba(X)[:, 1]
    shuffled = np.random.default_rng(1).permutation(len(X))
    moved = crowd().fit(X.iloc[shuffled], y[shuffled])
    assert_allclose(moved.predict_proba(X)[:, 1], expected, atol=1e-6)
    renamed = X.assign(category=X["category"].map({"chat": 7, "code": 3, "maths": 5}))
    assert_allclose(crowd().fit(renamed, y).predict_proba(renamed)[:, 1], expected, atol=1e-6)
    by_place = crowd(user=0, groups=[1], left=2, right=3).fit(X.to_numpy(dtype=object), y)
    assert_array_equal(by_place.predict_proba(X.to_numpy(dtype=object))[:, 1], expected)
    by_name = crowd(user=0, groups={"kind": 1}, left=2, right=3).fit(X.to_numpy(dtype=object), y)
    assert_array_equal(by_name.utility(groups={"kind": "chat"}), by_place.utility(groups={1: "chat"}))


def test_one_group_is_no_group(data):
    X, y, _ = data
    X = X.assign(category="all")
    without, with_one = crowd(groups=None).fit(X, y), crowd().fit(X, y)
    assert_allclose(with_one.predict_proba(X)[:, 1], without.predict_proba(X)[:, 1], atol=0.02)
    of_group = with_one.utility(groups={"category": "all"})
    assert_allclose(of_group, without.utility(), atol=0.05)
    empty = crowd(groups=[]).fit(X, y)
    assert_array_equal(empty.predict_proba(X), without.predict_proba(X))
    assert empty.group_ids_ == []


@pytest.mark.statistical  # losses over simulations
def test_groups_beat_the_pooled_fit_and_separate_fits():
    log_loss, distance, of_few, covered = np.zeros(2), np.zeros(2), np.zeros(2), []
    for seed in range(4):
        X, y, truth = draw(seed, 1200, spread=0.5)
        (X, T), (y, t) = ((rows[:300], rows[300:]) for rows in (X, y))
        pooled, grouped, few = crowd(groups=None).fit(X, y), crowd().fit(X, y), crowd().fit(X[:150], y[:150])
        for k, model in enumerate((grouped, pooled)):
            p = model.predict_proba(T)[:, 1]
            log_loss[k] -= np.log(np.where(t == 1, p, 1.0 - p)).mean()
        for category, utility in zip(CATEGORIES, truth, strict=True):
            rows = np.flatnonzero(X["category"][:150] == category)
            alone = GPPLClassifier(left="a", right="b").fit(X.iloc[rows], y[rows]).utility(ITEMS)
            of_few += [np.std(u - utility) for u in (few.utility(ITEMS, groups={"category": category}), alone)]
            mean, std = grouped.utility(ITEMS, groups={"category": category}, return_std=True)
            distance += [np.std(u - utility) for u in (mean, pooled.utility(ITEMS))]
            covered.append(np.abs(mean - utility) < 1.645 * std)
    assert log_loss[0] < log_loss[1] - 0.06
    assert distance[0] < 0.8 * distance[1]
    assert of_few[0] < 0.9 * of_few[1]
    assert 0.8 < np.mean(covered) < 0.97  # nominally 0.9


def test_what_groups_do_not_differ_in_is_not_told_apart():
    X, y, _ = draw(3, 600, spread=0.0)
    model = crowd().fit(X, y)
    assert model.group_scales_[0] < 0.1
    assert crowd().fit(*draw(3, 600)[:2]).group_scales_[0] > 0.3


def test_later_answers_may_be_of_new_groups_items_and_users(data):
    X, y, _ = data
    first = (X["category"] != "maths").to_numpy() & (X["a"] != "i5").to_numpy() & (X["b"] != "i5").to_numpy()
    model = crowd().fit(X[first], y[first]).partial_fit(X[~first], y[~first])
    assert model.group_ids_[0].tolist() == CATEGORIES
    whole = crowd().fit(X, y)
    assert_allclose(model.predict_proba(X)[:, 1], whole.predict_proba(X)[:, 1], atol=0.08)
    for groups in (None, ["a"]):
        model.set_params(groups=groups)
        with pytest.raises(DataError, match=r"groups differs from that of the fit, which had \['category'\]"):
            model.partial_fit(X, y)


def test_a_few_new_answers_move_the_users_who_gave_them(data, monkeypatch):
    X, y, _ = data
    monkeypatch.setattr(hierarchy, "_FEW", 10)
    later = pd.DataFrame({"judge": [0] * 8, "category": "art", "a": ["i1", "i2"] * 4, "b": ["i0", "i3"] * 4})
    model = crowd().fit(X, y)
    before, S = model.predict_proba(X)[:, 1], model.posterior_.S
    model.partial_fit(later, [1] * 8)
    assert_array_equal(model.posterior_.S, S)  # which a fit would learn
    assert model.group_ids_[0].tolist() == [*CATEGORIES, "art"]
    assert_allclose(model.predict_proba(X)[X["judge"] != 0, 1], before[X["judge"] != 0], atol=0.06)
    assert (model.predict_proba(later)[:, 1] > crowd().fit(X, y).predict_proba(later)[:, 1]).all()


def test_groups_go_with_features_of_items_and_users(data):
    X, y, truth = data
    rng = np.random.default_rng(0)
    items = Table(np.column_stack([truth[0], rng.normal(size=N_ITEMS)]), ids=ITEMS)
    users = Table(rng.normal(size=(N_JUDGES, 2)), ids=np.arange(N_JUDGES))
    model = crowd(items=items, users=users, order_effect=True).fit(X, y)
    assert {"f", "f0", "offset0"} <= set(model.posterior_.scales)
    assert model.score(X, y) > 0.65
    new = Table(np.array([[1.0, 0.0], [-1.0, 0.0]]), ids=["new", "newer"])
    utility, std = model.utility(new, groups={"category": "chat"}, return_std=True)
    assert (std > model.utility(["i0"], groups={"category": "chat"}, return_std=True)[1]).all()
    assert utility[0] > utility[1]
    assert len(model.annotators(n_samples=20)) == N_JUDGES


def test_reports_on_users_compare_within_groups(model, data):
    X, y, _ = data
    report = model.annotators(n_samples=50)
    utility = {
        name: dict(zip(ITEMS, model.utility(ITEMS, groups={"category": name}), strict=True)) for name in CATEGORIES
    }
    better = [utility[c][a] > utility[c][b] for c, a, b in zip(X["category"], X["a"], X["b"], strict=True)]
    agreement = (np.array(better) == y)[X["judge"] == 4].mean()
    assert report["agreement"][4] == pytest.approx(agreement)
    assert report["accuracy"].between(0.4, 1.0).all()
    assert model.similar_users(0, 3)[0].size == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"inference": "vb"}, "inference='vb' is not for models with groups or time: use inference='auto' or 'ep', or"),
        ({"optimizer": "l-bfgs-b"}, "optimizer='l-bfgs-b' is not for models with groups or time"),
        ({"consensus": False}, "consensus=False is not for models with groups or time: use consensus=True"),
        ({"groups": ["topic"]}, "there is no column 'topic'"),
        ({"groups": ["judge"]}, "user and groups='judge' are the same column of X"),
        ({"groups": ["category", "category"]}, "groups names a column twice"),
        ({"groups": [None]}, 'groups must be a list of columns of X, such as groups=["category"]'),
        ({"weight": "category"}, "category"),
        ({"groups": [9]}, "there is no column 9 in X"),
    ],
)
def test_parameters_that_do_not_go_with_groups_are_refused(data, options, message):
    with pytest.raises(DataError, match=re.escape(message)):
        crowd(**options).fit(data[0].assign(age=np.arange(len(data[0]))), data[1])


def test_rows_without_a_group_are_refused(model, data):
    X, y, _ = data
    holed = X.assign(category=X["category"].where(np.arange(len(X)) != 5, None))
    for call in (lambda: crowd().fit(holed, y), lambda: model.predict(holed)):
        with pytest.raises(DataError, match=r"row 5, column 'category': a group id is missing"):
            call()
    with pytest.raises(DataError, match=r"there is no column 'category'"):
        model.predict(X.drop(columns="category"))
    with pytest.raises(DataError, match=r"X must be of one group in each column of groups"):
        model.latent_covariance(X[X["judge"] == 0])
    assert model.predict_preference(X[["a", "b"]][:3]).shape == (3,)


def test_names_of_groups_are_checked(model, data):
    with pytest.raises(
        DataError, match=r"groups names the column 'topic', but the columns of groups are \['category'\]"
    ):
        model.rank(groups={"topic": "code"})
    with pytest.raises(DataError, match=r'groups must be a dict such as \{"category": "coding"\}; got \'code\''):
        model.utility(groups="code")
    for call in (model.utility, model.rank, model.win_matrix):
        with pytest.raises(UnknownIdError, match=r"unknown group 'cod' of .*; did you mean 'code'\?$"):
            call(groups={"category": "cod"})
    with pytest.raises(DataError, match="the model was fitted without groups"):
        crowd(groups=None).fit(*data[:2]).win_matrix(groups={"category": "code"})
    strict = clone(model).set_params(unknown_user="raise").fit(*data[:2])
    with pytest.raises(UnknownIdError, match="unknown group 'poetry' of groups='category': fit has seen"):
        strict.rank(groups={"category": "poetry"})
    with pytest.raises(UnknownIdError, match="unknown group 'poetry'"):
        strict.predict(data[0].assign(category="poetry"))


def test_too_many_groups_are_refused(data, monkeypatch):
    monkeypatch.setattr("skpref.gp.crowd.consensus.MOST_ITEMS", 20)
    with pytest.raises(DataError, match="18 items by group were compared, and utilities have 24 variables"):
        crowd().fit(*data[:2])


def test_damaged_models_are_refused(model):
    posterior, held = model.posterior_, model._comparisons
    places = posterior.places
    for damage, message in [
        ({"_groups": {}}, "must be of 1 kinds"),
        ({"_groups": {"category": 1}}, "must be ids of groups"),
        ({"_groups": (1,)}, "_groups must not be of type tuple"),
        ({"group_ids_": [np.array(["a", "b", "c"], dtype=object)]}, "must be the ids of the groups"),
        ({"_comparisons": replace(held, group=None)}, "disagree on groups"),
        ({"_comparisons": replace(held, group=np.hstack([held.group, held.group]))}, "must have 1 columns of groups"),
        ({"_comparisons": replace(held, group=held.group + 1)}, "leaves out groups of comparisons"),
        ({"posterior_": replace(posterior, places=places.as_items())}, "must be of 0 kinds"),
    ]:
        copy = pickle.loads(pickle.dumps(model))
        copy._check_fitted()
        vars(copy).update(damage)
        with pytest.raises(DataError, match=message):
            copy._check_fitted()
    for part, message in [
        (replace(places, item=places.item + 1), "holds an index outside"),
        (replace(places, item=places.item[:-1], group=places.group[:-1]), "has"),
    ]:
        with pytest.raises(DataError, match=message):
            _validate(part, replace(posterior, places=part))


def _validate(*records):
    for record in records:
        record.validate()


def test_a_damaged_record_of_places_is_refused():
    sound = Places(np.array([0, 1]), np.array([[0], [1]]), np.array([2]))
    sound.validate()
    for item, group, n_levels in [
        (sound.item, sound.group + 1, sound.n_levels),
        (sound.item, sound.group[:, :0], sound.n_levels),
        (sound.item[:1], sound.group, sound.n_levels),
        (-sound.item, sound.group, sound.n_levels),
    ]:
        with pytest.raises(DataError, match="Places"):
            Places(item, group, n_levels).validate()
