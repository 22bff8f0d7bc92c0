"""`CrowdGPPL` whose consensus depends on numbers of a comparison, such as the length of a prompt."""

import pickle
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import ndtr
from sklearn.base import clone
from sklearn.metrics import log_loss

import skpref
from skpref import CrowdGPPL, Table
from skpref.exceptions import DataError
from skpref.gp.crowd.policy import POLICY
from tests.policies import set_policy

N_ITEMS, N_JUDGES = 6, 12


def prompts(seed, n, sd=0.8, n_items=N_ITEMS):
    """Return comparisons with numbers of mean 50 and standard deviation 20, answers, utilities and slopes."""
    rng = np.random.default_rng(seed)
    u, slope, own = rng.normal(size=n_items), sd * rng.normal(size=n_items), 0.4 * rng.normal(size=(N_JUDGES, n_items))
    judge, left, x = rng.integers(N_JUDGES, size=n), rng.integers(n_items, size=n), rng.normal(size=n)
    right = (left + rng.integers(1, n_items, n)) % n_items
    z = u[left] - u[right] + x * (slope[left] - slope[right]) + own[judge, left] - own[judge, right]
    X = pd.DataFrame(
        {"judge": judge, "a": left, "b": right, "length": 50.0 + 20.0 * x, "kind": rng.integers(2, size=n)}
    )
    X = X.assign(age=rng.normal(size=n), depth=rng.normal(size=n), day=np.sort(rng.random(n)))
    return X, (rng.random(n) < ndtr(z)).astype(float), u, slope


def crowd(**options):
    names = {"user": "judge", "left": "a", "right": "b", "context": ["length"]}
    return CrowdGPPL(**{**names, "n_factors": 2, "random_state": 0, **options})


@pytest.fixture(scope="module", autouse=True)
def few_candidates():
    """Choose between two ways to hold the covariance of tastes down, on one fold: fits take a tenth of the time."""
    with pytest.MonkeyPatch.context() as patch:
        set_policy(patch, "gp.crowd", candidates=POLICY.candidates[:1], held_out=1)
        # S is known, so that the posterior is a joint normal distribution, and sites stay.
        set_policy(patch, "gp.crowd", largest_spread=0.0, spread_passes=1)
        yield


@pytest.fixture(scope="module")
def data():
    return prompts(0, 360)


@pytest.fixture(scope="module")
def model(data):
    return crowd().fit(*data[:2])


def dense_posterior(model):
    """Return mean and covariance of all variables, by the textbook formula, and the function that makes their rows.

    The variables are m, c of each group, slopes on each number, effects of covariates, and b of each user.
    """
    posterior, n = model.posterior_, N_ITEMS
    places, users, scales = posterior.places, posterior.users, posterior.scales
    n_groups, K, E = int(places.n_levels.sum()), int(places.widths.sum()), users.extra.shape[1]
    names = ["offset", *(["offset0"] * n_groups)]
    for kind, width in enumerate(places.widths.tolist()):
        names += [f"offset{places.n_levels.size + kind}"] * width
    shared = np.array([1.0 / scales[name].mean for name in [*np.repeat(names, n), *(["covariate"] * E)]])
    size = shared.size + n * posterior.n_users
    prior = np.zeros((size, size))
    prior[: shared.size, : shared.size] = np.diag(shared)
    for u in range(posterior.n_users):
        own = slice(shared.size + u * n, shared.size + (u + 1) * n)
        prior[own, own] = posterior.S

    def rows(user, left, right, group, numbers, extra):
        out, at = np.zeros((len(left), size)), np.arange(len(left))
        for item, sign in ((left, 1.0), (right, -1.0)):
            out[at, item] += sign
            if n_groups:
                out[at, n * (1 + group) + item] += sign
            for k in range(K):
                out[at, n * (1 + n_groups + k) + item] += sign * numbers[:, k]
            out[at[user >= 0], shared.size + (n * user + item)[user >= 0]] += sign
        out[:, shared.size - E : shared.size] = extra
        return out

    group = places.group[users.left, 0] if n_groups else None
    sides = places.item[users.left], places.item[users.right]
    A = rows(users.user, *sides, group, users.context, users.extra)
    covariance = np.linalg.inv(np.linalg.inv(prior) + A.T @ (posterior.tau[:, None] * A))
    return covariance @ A.T @ posterior.nu, covariance, rows


@pytest.mark.parametrize("options", [{}, {"context": ["length", ["age", "depth"]]}, {"groups": ["kind"]}])
@pytest.mark.parametrize("covariates", [[], ["age"]])
def test_predictions_are_those_of_the_joint_normal_distribution_of_all_parts(data, options, covariates):
    X, y, *_ = data
    model = crowd(covariates=covariates, **options).fit(X, y)
    model._check_fitted()
    model.posterior_.validate()
    mean, covariance, rows = dense_posterior(model)
    T = X[:40]
    numbers = np.column_stack([(T[name] - m) / sd for name, (m, sd) in model._numbers.items()])
    extra = T[covariates].to_numpy() / model.posterior_.consensus.covariate_scale
    A = rows(T["judge"].to_numpy(), T["a"].to_numpy(), T["b"].to_numpy(), T["kind"].to_numpy(), numbers, extra)
    z, variance = model._moments(T)
    assert_allclose(z, A @ mean, atol=1e-6)
    assert_allclose(variance, np.einsum("ij,jk,ik->i", A, covariance, A), atol=1e-6)
    alone = model._moments(T.assign(judge=99))[0]  # of an unseen judge
    A[:, -N_ITEMS * N_JUDGES :] = 0.0
    assert_allclose(alone, A @ mean, atol=1e-6)


def test_utilities_in_a_context_are_those_of_the_joint_normal_distribution(model):
    mean, covariance, rows = dense_posterior(model)
    items, centring = np.arange(N_ITEMS), np.eye(N_ITEMS) - 1.0 / N_ITEMS
    of_length, sd = model._numbers["length"]
    for number, user in [(30.0, None), (75.0, 3), (None, 3)]:
        x = np.full((N_ITEMS, 1), 0.0 if number is None else (number - of_length) / sd)
        who, none = np.full(N_ITEMS, -1 if user is None else user), np.zeros((N_ITEMS, 0))
        A = rows(who, items, np.zeros(N_ITEMS, dtype=int), None, x, none)
        A = centring @ A  # which leaves the right side out
        context, users = None if number is None else {"length": number}, None if user is None else [user]
        utility, std = model.utility(items, users, context=context, return_std=True)
        assert_allclose(np.ravel(utility), A @ mean, atol=1e-6)
        assert_allclose(np.ravel(std) ** 2, np.einsum("ij,jk,ik->i", A, covariance, A), atol=1e-6)


def test_rows_and_utilities_agree_with_features_and_new_items(data):
    X, y, u, _ = data
    rng = np.random.default_rng(1)
    items = Table(np.column_stack([u, rng.normal(size=N_ITEMS)]), ids=np.arange(N_ITEMS))
    users = Table(rng.normal(size=(N_JUDGES, 2)), ids=np.arange(N_JUDGES))
    model = crowd(items=items, users=users, order_effect=True, covariates=["age"], inducing=4).fit(X, y)
    assert {"f", "f0", "offset0"} <= set(model.posterior_.scales)
    model._check_fitted()
    chosen = model._items.select(Table(np.array([[1.0, 0.0], [-1.0, 0.3], [0.2, 0.1]]), ids=["n", "m", "k"]))[1]
    known = model._items.select(np.arange(N_ITEMS))[1]
    left, right = np.array([0, 1, 0]), np.array([1, 2, 2])
    users, number = model._users.select([3])[1], np.zeros(3, dtype=int)
    for pairs in (chosen, known):
        for x in (-1.3, 0.4, 2.0):
            found = model.posterior_.pairs((users, number), pairs, left, right, levels=np.full((3, 1), x))
            view = model.posterior_.select_groups([x])
            wanted = view.pair_covariance(users, pairs, left, right)
            assert_allclose(found[0], view.pairs((users, number), pairs, left, right)[0], atol=1e-9)
            assert_allclose(found[1], np.diag(wanted), rtol=1e-8)


def test_units_names_and_orders_of_rows_change_nothing(model, data):
    X, y, *_ = data
    expected = model.predict_proba(X)[:, 1]
    shuffled = np.random.default_rng(1).permutation(len(X))
    moved = crowd().fit(X.iloc[shuffled], y[shuffled])
    assert_allclose(moved.predict_proba(X)[:, 1], expected, atol=1e-6)
    other = X.assign(length=1e6 - 3e3 * X["length"], a=X["b"], b=X["a"])
    assert_allclose(crowd().fit(other, 1.0 - y).predict_proba(other)[:, 0], expected, atol=1e-6)
    by_place = crowd(user=0, left=1, right=2, context=[3]).fit(X.to_numpy(), y)
    assert_allclose(by_place.predict_proba(X.to_numpy())[:, 1], expected, atol=1e-12)
    assert_allclose(by_place.utility(context={3: 70.0}), model.utility(context={"length": 70.0}), atol=1e-12)


def test_a_number_that_does_not_vary_changes_little(data):
    X, y, *_ = data
    with pytest.warns(UserWarning, match="'length' is the same in every row"):
        constant = crowd().fit(X.assign(length=7.0), y)
    without = crowd(context=None).fit(X, y)
    assert_allclose(constant.predict_proba(X.assign(length=7.0)), without.predict_proba(X), atol=1e-3)
    assert without.context_scales_.size == 0


def test_slopes_of_no_size_change_nothing(data, monkeypatch):
    X, y, *_ = data
    without = crowd(context=None).fit(X, y)
    assert without._comparisons.n_pairs < len(X)  # equal answers are one of a larger weight: folds stay the same
    set_policy(monkeypatch, "gp.crowd", slope_prior=(1.0, 1e-10))
    assert_allclose(crowd().fit(X, y).predict_proba(X), without.predict_proba(X), atol=1e-6)


def test_leaderboards_in_a_context(model, data):
    X, y, u, slope = data
    assert 0.1 < model.context_scales_[0] < 2.0
    ranking = model.rank(context={"length": 90.0}, n_samples=200)
    utility = model.utility(context={"length": 90.0})
    assert ranking["utility"].tolist() == sorted(utility, reverse=True)
    assert ranking.id[0] == np.argmax(u + 2.0 * slope)
    assert list(model.win_matrix(context={"length": 90.0}).id) == list(ranking.id)
    assert model.rank(user=3, context={"length": 90.0}, n_samples=50).id[0] in ranking.id[:3]
    assert_array_equal(model.utility(context={}), model.utility())
    low, middle, high = (model.utility(context={"length": X["length"].mean() + step}) for step in (-30.0, 0.0, 30.0))
    assert_allclose(middle, model.utility(), atol=1e-12)
    assert_allclose(0.5 * (low + high), middle, atol=1e-9)
    report = model.annotators(n_samples=50)
    better = [
        np.subtract(*model.utility([a, b], context={"length": x})) > 0.0
        for a, b, x in X[["a", "b", "length"]].itertuples(index=False)
    ]
    assert report["agreement"][4] == pytest.approx((np.array(better) == y)[X["judge"] == 4].mean())
    assert report["reliability"].between(-1.0, 4.0).all()


def test_accuracies_are_at_the_numbers_of_the_rows():
    X, y, _, slope = prompts(0, 360)
    z = (X["length"] - 50.0) / 20.0 * 3.0 * (slope[X["a"]] - slope[X["b"]])  # items differ by their slopes alone
    y = (np.random.default_rng(1).random(360) < ndtr(z)).astype(float)
    report = crowd().fit(X, y).annotators(n_samples=50)
    true = ndtr(np.abs(z)).mean()  # the pairs at the mean of the numbers: about one half
    assert report["accuracy"].mean() == pytest.approx(true, abs=0.06)


@pytest.mark.statistical  # losses over simulations; 3 of 3 by 0.02 nats, where the mean is 0.06
def test_context_beats_the_pooled_fit():
    covered = []
    for seed in range(3):
        X, y, u, slope = prompts(seed, 1_600)
        fits = [crowd(context=context).fit(X[:400], y[:400]) for context in (["length"], None)]
        losses = [log_loss(y[400:], fit.predict_proba(X[400:])) for fit in fits]
        assert losses[0] < losses[1] - 0.02
        for number in (30.0, 50.0, 70.0):
            utility, std = fits[0].utility(np.arange(N_ITEMS), context={"length": number}, return_std=True)
            true = u + slope * (number - 50.0) / 20.0
            covered.append(np.abs(utility - true + true.mean()) < 1.645 * std)
    assert np.mean(covered) > 0.75  # nominally 0.9


def test_later_answers_and_saved_models(model, data, monkeypatch, tmp_path):
    X, y, *_ = data
    first = ((X["a"] != 5) & (X["b"] != 5)).to_numpy()
    again = crowd().fit(X[first], y[first]).partial_fit(X[~first], y[~first])
    assert_allclose(again.predict_proba(X)[:, 1], model.predict_proba(X)[:, 1], atol=0.08)
    skpref.save(model, tmp_path / "model.skpref")
    loaded = skpref.load(tmp_path / "model.skpref")
    assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    set_policy(monkeypatch, "gp.crowd", few_comparisons=10)
    few = X[:8].assign(judge=0)
    S = loaded.posterior_.S
    loaded.partial_fit(few, np.ones(8))
    assert_array_equal(loaded.posterior_.S, S)  # which a fit would learn
    assert loaded._numbers == model._numbers


def test_context_goes_with_time_ties_groups_and_files(data, tmp_path):
    X, y, *_ = data
    y = np.where(np.arange(len(y)) % 5 == 0, 0.5, y)
    model = crowd(time="day", groups=["kind"], order_effect=True, covariates=["age"]).fit(X, y)
    model._check_fitted()
    assert len(model.context_scales_) == len(model.group_scales_) == 1
    where = {"groups": {"kind": 1}, "context": {"length": 80.0}}
    assert not np.allclose(model.utility(at=0.1, **where), model.utility(at=0.9, **where))
    assert len(model.curves([0, 1], times=[0.2, 0.9], **where)) == 4
    one = X[:3].assign(judge=1, kind=1, length=80.0, day=0.5, age=0.0)
    covariance = model.latent_covariance(one)
    assert_allclose(np.diag(covariance), model.latent_mean_and_variance(one)[1], rtol=1e-6)
    X.assign(y=y).to_parquet(tmp_path / "rows.parquet")
    options = {"time": "day", "groups": ["kind"], "order_effect": True, "covariates": ["age"]}
    stored = crowd(**options).fit(tmp_path / "rows.parquet", "y")
    assert_allclose(stored.predict_proba(X), model.predict_proba(X), atol=1e-9)


def test_context_of_tasks(data):
    X, y, *_ = data
    tasks = X.rename(columns={"judge": "who"})[["who", "a", "b", "length"]]
    model = CrowdGPPL(user="who", context=["length"], likelihood="luce", n_factors=2, random_state=0)
    model.fit(tasks, np.where(y == 1.0, 0, 1))
    p = model.predict_proba(tasks)
    assert p.shape == (len(X), 2)
    assert not np.allclose(p, model.predict_proba(tasks.assign(length=50.0)), atol=0.05)
    pairs = crowd(likelihood="logit").fit(X, y)
    assert np.corrcoef(p[:, 0], pairs.predict_proba(X)[:, 1])[0, 1] > 0.98
    shares = model.shares([0, 1, 2], context={"length": 90.0}, n_samples=50)
    assert shares["share"].sum() == pytest.approx(1.0)
    assert not np.allclose(shares["share"], model.shares([0, 1, 2], n_samples=50)["share"], atol=0.01)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"inference": "vb"}, "inference='vb' is not for models with groups, context or time: use inference='auto'"),
        ({"context": ["topic"]}, "there is no column 'topic'"),
        ({"context": ["judge"]}, "context='judge': column 'judge' of X holds the ids of user"),
        ({"context": ["length", "length"]}, "context names a column twice"),
        ({"context": [[]]}, 'context must be a list of columns of X, such as context=["length"]'),
    ],
)
def test_parameters_that_do_not_go_with_context_are_refused(data, options, message):
    with pytest.raises(DataError, match=re.escape(message)):
        crowd(**options).fit(*data[:2])


def test_other_contexts_are_refused(model, data, monkeypatch):
    X, y, *_ = data
    with pytest.raises(DataError, match=r"names the column 'depth', but the columns of context are \['length'\]"):
        model.rank(context={"depth": 1.0})
    with pytest.raises(DataError, match="the number of 'length' must be finite"):
        model.utility(context={"length": np.nan})
    with pytest.raises(DataError, match="use the unit of the fit"):
        model.predict_proba(X.assign(length=1e300))
    with pytest.raises(DataError, match="row 5"):
        model.predict_proba(X.assign(length=X["length"].where(np.arange(len(X)) != 5)))
    with pytest.raises(DataError, match="was fitted without context"):
        crowd(context=None).fit(X, y).win_matrix(context={"length": 1.0})
    with pytest.raises(DataError, match="of one context, and of one time"):
        model.latent_covariance(X[X["judge"] == 0])
    changed = clone(model).fit(X[:80], y[:80]).set_params(context=["depth"])
    with pytest.raises(DataError, match=r"context differs from that of the fit, which had \['length'\]"):
        changed.partial_fit(X[80:], y[80:])
    items = Table(np.eye(N_ITEMS), ids=np.arange(N_ITEMS))
    with pytest.raises(DataError, match=r"context=.*is not for part-worths"):
        CrowdGPPL(items, user="judge", context=["length"], likelihood="luce").fit(X[["judge", "a", "b", "length"]], y)
    set_policy(monkeypatch, "gp.crowd", most_items=11)
    with pytest.raises(DataError, match="context: 12 items by group and number of context were compared"):
        crowd().fit(X, y)


def test_damaged_models_are_refused(model):
    posterior, held = model.posterior_, model._comparisons
    for damage, message in [
        ({"_numbers": {}}, "must be of 1 columns"),
        ({"_numbers": {"length": (0.0, -1.0)}}, "must be of 1 columns"),
        ({"context_scales_": np.zeros(2)}, "context_scales_"),
        ({"_comparisons": replace(held, context=None)}, "must have the context of the posterior"),
        ({"posterior_": replace(posterior, places=posterior.places.as_items())}, "context_scales_ has shape"),
    ]:
        copy = pickle.loads(pickle.dumps(model))
        copy._check_fitted()
        vars(copy).update(damage)
        with pytest.raises(DataError, match=message):
            copy._check_fitted()
    for damage in ({"context": posterior.context[:, :0]}, {"context": posterior.context[:-1]}):
        with pytest.raises(DataError, match="context"):
            replace(posterior, **damage).validate()
    for widths in (np.array([0]), np.array([2]), np.array([1.0])):
        with pytest.raises(DataError, match=r"widths|the covariates"):
            _validate(places := replace(posterior.places, widths=widths), replace(posterior, places=places))


def _validate(*records):
    for record in records:
        record.validate()
