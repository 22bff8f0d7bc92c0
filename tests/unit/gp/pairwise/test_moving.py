"""`GPPLClassifier` with `time`: utilities that move."""

import datetime as dt
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.metrics import log_loss

from skpref import Fixed, GPPLClassifier, load, save
from skpref.exceptions import DataError, DataWarning
from skpref.likelihoods import Poisson
from tests.policies import set_policy

pd = pytest.importorskip("pandas")
YEAR = 365.25


def league(n=600, n_items=8, seed=0, span=10.0, form=0.8, length=2.0, home=0.4):
    """Return games of items whose utilities are a level and a form, with the true utilities as a function."""
    rng = np.random.default_rng(seed)
    grid = np.linspace(0.0, 1.2 * span, 601)
    phi = np.exp(-np.diff(grid)[0] / length)
    level, steps = rng.normal(0.0, 0.7, n_items), rng.normal(size=(n_items, grid.size))
    walk = np.empty_like(steps)
    walk[:, 0] = steps[:, 0]
    for k in range(1, grid.size):
        walk[:, k] = phi * walk[:, k - 1] + np.sqrt(1.0 - phi**2) * steps[:, k]

    def truth(item, time):
        return level[item] + form * walk[item, np.searchsorted(grid, time)]

    time = np.sort(rng.uniform(0.0, span, n))
    left = rng.integers(n_items, size=n)
    right = (left + rng.integers(1, n_items, n)) % n_items
    at_home = rng.integers(-1, 2, n)
    z = truth(left, time) - truth(right, time) + home * at_home
    y = (rng.uniform(size=n) < 1.0 / (1.0 + np.exp(-z))).astype(int)
    frame = pd.DataFrame({"left": left, "right": right, "week": time, "home": at_home})
    return frame, y, truth


def model(**params):
    return GPPLClassifier(left="left", right="right", time="week", likelihood="logit", **params)


@pytest.fixture(scope="module")
def moved():
    frame, y, _ = league()
    return model(dynamics="drift+form", covariates=["home"]).fit(frame, y)


def test_forecasts_are_better_than_those_of_a_model_that_does_not_move():
    frame, y, _ = league(n=3000, n_items=12)
    train, test = frame[:2500], frame[2500:]
    still = GPPLClassifier(left="left", right="right", likelihood="logit").fit(train, y[:2500])
    moving = model().fit(train, y[:2500])
    losses = [log_loss(y[2500:], each.predict_proba(test)[:, 1]) for each in (moving, still)]
    assert losses[0] < losses[1] - 0.005
    assert moving.dynamics_.name == "drift+form"
    found = moving.dynamics_.log_posteriors
    assert found["drift+form"] > found["constant"] + 10.0


def test_utilities_that_do_not_move_are_found_to_be_constant():
    frame, y, _ = league(form=0.0)
    assert model().fit(frame, y).dynamics_.name == "constant"


@pytest.mark.statistical  # 30 fits
@pytest.mark.parametrize("kind", ["auto", "drift+form"])
def test_intervals_cover_the_past_the_present_and_the_future(kind):
    inside, far = [], []
    for seed in range(30):
        frame, y, truth = league(n=1500, n_items=15, seed=seed)
        fitted = model(dynamics=kind).fit(frame, y)
        for time in (5.0, 10.0, 11.0):
            utility, std = fitted.utility(np.arange(15), at=time, return_std=True)
            true = truth(np.arange(15), time)
            z = (utility - (true - true.mean())) / std
            inside += (np.abs(z) < 1.645).tolist()
            far += (np.abs(z) > 3.5).tolist()
    assert 0.85 < np.mean(inside) < 0.96  # 1,350 of them, 45 a crowd: two standard errors are about .02
    assert np.mean(far) < 0.01


def test_one_node_an_item_is_the_model_that_does_not_move():
    # A path of comparisons is a tree, on which messages are exact.
    X = pd.DataFrame({"left": range(9), "right": range(1, 10), "week": np.linspace(0.0, 1.0, 9)})
    y = [1, 0, 1, 1, 0, 1, 1, 1, 0]
    moving = model(dynamics="constant", optimizer=None, tol=1e-8).fit(X, y)
    precision = 1.0 / moving.dynamics_.start_sd**2
    still = GPPLClassifier(left="left", right="right", likelihood="logit", scale_prior=Fixed(precision), tol=1e-8)
    still.fit(X, y)
    assert_allclose(moving.utility(return_std=True)[0], still.utility(), atol=1e-4)
    assert_allclose(moving.decision_function(X), still.decision_function(X), atol=1e-4)
    # Chains are taken for independent given the comparisons, also those of two items that met.
    assert_allclose(moving.predict_proba(X), still.predict_proba(X), atol=0.01)


def test_dates_are_years(moved):
    frame, y, _ = league()
    dated = frame.assign(week=pd.Timestamp("2010-01-01") + pd.to_timedelta(frame.week * YEAR, unit="D"))
    fitted = model(dynamics="drift+form", covariates=["home"]).fit(dated, y)
    assert_allclose(fitted.predict_proba(dated), moved.predict_proba(frame), atol=1e-4)
    assert_allclose(fitted.dynamics_.form_length, moved.dynamics_.form_length, rtol=1e-3)
    texts = dated.assign(week=dated.week.dt.strftime("%Y-%m-%dT%H:%M:%S.%f"))
    assert_allclose(fitted.predict_proba(texts), fitted.predict_proba(dated), atol=1e-6)
    end = dated.week.iloc[-1]
    assert_allclose(fitted.utility(at=end), fitted.utility(), atol=1e-6)
    assert_array_equal(fitted.utility(at="2015-03-01"), fitted.utility(at=dt.date(2015, 3, 1)))
    with pytest.raises(DataError, match="column 'week', are numbers, and those of fit were dates"):
        fitted.predict(frame)
    with pytest.raises(DataError, match="at must be dates"):
        fitted.utility(at=3.0)


def test_the_future_is_less_certain_and_a_new_item_is_the_prior(moved):
    frame, _, _ = league()
    now = moved.utility([3], return_std=True)[1]
    later = [moved.utility([3], at=10.0 + ahead, return_std=True)[1] for ahead in (1.0, 5.0, 50.0)]
    assert (np.diff(np.concatenate([now, *later])) > 0.0).all()
    rows = frame.iloc[[0]].assign(right=99, home=0)
    _, variance = moved.latent_mean_and_variance(rows)
    prior = moved.dynamics_.start_sd**2 + moved.dynamics_.form_sd**2
    mean, own = moved.moving_posterior_.utility(np.array([rows.left.iloc[0]]), rows.week.to_numpy())
    assert_allclose(variance, own + prior)
    assert_allclose(moved.decision_function(rows), mean)


def test_before_its_first_comparison_an_item_is_as_there(moved):
    early, first = moved.moving_posterior_.first.min() - 5.0, moved.moving_posterior_.first
    for time in (early, first.max() - 1e-9):
        mean, variance = moved.moving_posterior_.utility(np.array([0]), np.array([min(time, first[0])]))
        assert_allclose((mean, variance), moved.moving_posterior_.utility(np.array([0]), first[:1]))


def test_rows_in_any_order_and_of_either_side_are_the_same_model(moved):
    frame, y, _ = league()
    shuffled = np.random.default_rng(0).permutation(len(y))
    other = clone(moved).fit(frame.iloc[shuffled], y[shuffled])
    assert_allclose(other.predict_proba(frame), moved.predict_proba(frame), atol=1e-3)
    turned = frame.rename(columns={"left": "right", "right": "left"}).assign(home=-frame.home)
    assert_allclose(clone(moved).fit(turned, 1 - y).coef_, moved.coef_, atol=1e-3)


def test_predictions_take_the_effects_at_their_times():
    frame, y, _ = league()
    fitted = model(dynamics="drift", covariates=["home"], order_effect=True).fit(frame, y)
    rows = frame.iloc[[5, 300]].assign(home=[1, -1])
    without = rows.assign(home=0)
    effect, _ = fitted.moving_posterior_.effects.moments(np.zeros(2, dtype=int), rows.week.to_numpy())
    per_unit = effect / fitted.moving_posterior_.covariate_scale[0]
    change = fitted.decision_function(rows) - fitted.decision_function(without)
    assert_allclose(change, [per_unit[0], -per_unit[1]], atol=1e-9)
    side, _ = fitted.moving_posterior_.effects.moments(np.ones(2, dtype=int), rows.week.to_numpy())
    means, _ = fitted._moments(without, order=False)
    assert_allclose(fitted.decision_function(without) - means, side, atol=1e-9)
    assert fitted.covariate_table().name.tolist() == ["home", "left side"]
    last = frame["week"].max()
    assert_allclose(fitted.covariate_table(at=last)["effect"], fitted.covariate_table()["effect"], atol=1e-9)
    later = fitted.covariate_table(at=last + 50.0)
    grown = later["std"] - fitted.covariate_table()["std"]
    assert (grown > -1e-12).all()
    assert (grown > 1e-3).any()
    with pytest.raises(DataError, match="fit with time="):
        GPPLClassifier(left="left", right="right").fit(frame[:50], y[:50]).covariate_table(at=1.0)


def test_a_table_says_what_was_tried():
    frame, y, _ = league(n=200)
    fitted = model().fit(frame, y)
    table = fitted.dynamics_table()
    assert set(table["name"]) == {"constant", "drift+form", "drift+form+career"}
    assert table["name"][table["chosen"]].tolist() == [fitted.dynamics_.name]
    assert table["difference"].tolist() == sorted(table["difference"], reverse=True)
    assert table["difference"][0] == 0.0


def test_predictions_of_a_row_do_not_depend_on_the_others(moved):
    frame, _, _ = league()
    early = frame[:3].assign(week=[-50.0, -20.0, 30.0])
    alone = np.concatenate([moved.predict_proba(early[k : k + 1]) for k in range(3)])
    both = moved.predict_proba(pd.concat([early, frame]))
    assert_allclose(both[:3], alone, rtol=1e-9)
    assert_allclose(both[3:], moved.predict_proba(frame), rtol=1e-9)


def test_an_item_whose_comparisons_weigh_nothing_is_no_trouble():
    frame, y, _ = league(n=100)
    ghost = pd.concat([frame, frame[:1].assign(left=99)])
    for params in ({}, {"time": None, "covariates": ["home"]}):
        fitted = model(**params) if not params else model().set_params(**params)
        wanted = clone(fitted).fit(frame, y).predict_proba(frame)
        weighed = fitted.fit(ghost, np.append(y, 1), np.append(np.ones(100), 0.0))
        assert_allclose(weighed.predict_proba(frame), wanted, rtol=1e-9)


def test_ties_are_answers():
    frame, y, _ = league()
    y = np.where(np.arange(y.size) % 4 == 0, 0.5, y)
    fitted = model(dynamics="form").set_params(likelihood="probit-ties").fit(frame, y)
    assert_allclose(fitted.predict_proba(frame, ties=True)[:, 1].mean(), 0.25, atol=0.03)


def test_a_career_is_a_curve_over_ages():
    rng = np.random.default_rng(5)
    debut = rng.uniform(0.0, 8.0, 60)
    left = rng.integers(60, size=2500)
    right = (left + rng.integers(1, 60, 2500)) % 60
    time = np.maximum(debut[left], debut[right]) + rng.uniform(0.0, 4.0, 2500)
    age = time[:, None] - debut[np.column_stack([left, right])]
    skill = 1.5 * np.sqrt(age)
    y = rng.uniform(size=2500) < 1.0 / (1.0 + np.exp(skill[:, 1] - skill[:, 0]))
    X = pd.DataFrame({"left": left, "right": right, "week": time})
    fitted = model().fit(X, y)
    assert fitted.dynamics_.career_sd > 0.1
    assert fitted.dynamics_.log_posteriors["drift+form+career"] > fitted.dynamics_.log_posteriors["drift+form"]
    curve, _ = fitted.moving_posterior_.career.moments(np.zeros(3, dtype=int), np.array([0.0, 1.0, 4.0]))
    assert_allclose(curve[0], 0.0, atol=1e-9)
    assert 0.5 < curve[1] < 2.5
    assert curve[2] > curve[1] + 0.5


def test_a_career_counts_even_where_nothing_else_moves():
    rng = np.random.default_rng(1)
    begin = rng.uniform(0.0, 6.0, 40)
    time = np.sort(rng.uniform(0.5, 9.0, 600))
    active = [np.flatnonzero((begin < t) & (t < begin + 4.0)) for t in time]
    sides = np.array([rng.choice(each, 2, replace=False) for each in active])
    skill = 0.5 * (time[:, None] - begin[sides])
    y = rng.uniform(size=600) < 1.0 / (1.0 + np.exp(skill[:, 1] - skill[:, 0]))
    X = pd.DataFrame({"left": sides[:, 0], "right": sides[:, 1], "week": time})
    fitted = model().fit(X, y)
    assert set(fitted.dynamics_.log_posteriors) == {"constant", "drift+form", "drift+form+career"}
    best = max(fitted.dynamics_.log_posteriors, key=fitted.dynamics_.log_posteriors.get)
    assert fitted.dynamics_.name == best == "drift+form+career"
    # A new item against an old one: the curve at the old one's age is uncertain; against a twin it cancels.
    moving, last = fitted.moving_posterior_, time[-1]
    old = int(sides[-1, 0])
    age = np.array([last - moving.first[np.searchsorted(fitted.item_ids_, old)]])
    spread = moving.career.moments(np.zeros(1, dtype=int), age)[1][0]
    assert_allclose(moving.career.covariance(age)[0, 0], spread, rtol=1e-8)
    row = pd.DataFrame({"left": [old], "right": [99], "week": [last]})
    variance = fitted.latent_mean_and_variance(row)[1][0]
    own = moving.items.moments(np.searchsorted(fitted.item_ids_, [old]), np.array([last]))[1][0]
    assert_allclose(variance, own + spread + moving.items.prior_variance, rtol=0.02)


def test_the_first_comparisons_of_one_time_decide_nothing():
    frame, y, _ = league(n=1500, n_items=12)
    with pytest.warns(DataWarning, match="the same time"):
        fitted = model().fit(frame[:20].assign(week=0.0), y[:20])
    fitted.partial_fit(frame[20:], y[20:])
    assert fitted.dynamics_.name.startswith("drift+form")
    for changed in ({"likelihood": "probit"}, {"dynamics": "constant"}):
        with pytest.raises(DataError, match=r"(likelihood|dynamics) differs from that of the fit"):
            clone(fitted).fit(frame, y).set_params(**changed).partial_fit(frame[:2], y[:2])


def test_heavy_weights_converge():
    frame, y, _ = league(n=60)
    assert model().fit(frame, y, np.full(60, 1000.0)).converged_


def test_ranks_at_a_time_and_of_the_active():
    frame, y, _ = league()
    frame = frame[~((frame.left == 0) | (frame.right == 0)) | (frame.week < 3.0)]
    fitted = model(dynamics="form").fit(frame, y[frame.index])
    assert set(fitted.rank().id) == set(range(8))
    assert set(fitted.rank(active=5.0).id) == set(range(1, 8))
    assert set(fitted.rank(at=2.9, active=2.9).id) == set(range(8))
    early = fitted.rank(at=1.0)
    assert_allclose(np.sort(early.utility), np.sort(fitted.utility(at=1.0)))
    assert_array_equal(np.sort(early.n_comparisons), np.sort(fitted.rank().n_comparisons))
    draws = fitted.sample_utility(at=1.0, n_samples=4000, random_state=0)
    assert_allclose(draws.std(axis=1), fitted.utility(at=1.0, return_std=True)[1], rtol=0.08)
    with pytest.raises(DataError, match="either items or active"):
        fitted.rank([1, 2], active=5.0)
    with pytest.raises(DataError, match="active must be a number >= 0"):
        fitted.rank(active="365D")
    with pytest.raises(DataError, match="no item took part"):
        fitted.rank(at=100.0, active=1.0)
    later = frame.assign(week=frame.week.where(frame.left != 5, frame.week + 20.0))
    late = model(dynamics="form").fit(later, y[frame.index])
    late_items = set(late.item_ids_[late.moving_posterior_.first > 2.0])
    assert set(late.rank(at=2.0).id) == set(range(8)) - late_items
    with pytest.raises(DataError, match="no item had been compared by then"):
        late.rank(at=-1.0)


def test_curves_are_the_utilities_at_their_times(moved):
    frame = moved.curves([2, 5], times=[1.0, 9.0, 30.0])
    assert frame.id.tolist() == [2, 2, 2, 5, 5, 5]
    for time, part in frame.groupby("time"):
        utility, std = moved.utility([2, 5], at=time, return_std=True)
        assert_allclose(part["utility"], utility, atol=1e-9)
        assert_allclose(part["std"], std, rtol=1e-6)
        assert_allclose(part.utility_high - part.utility, 1.6448536 * part["std"])
    assert len(moved.curves()) == 8 * 100
    with pytest.raises(DataError, match="times must be finite numbers"):
        moved.curves(times=["2020-01-01"])
    with pytest.raises(DataError, match="times must be one list"):
        moved.curves(times=[[1.0, 2.0]])


def test_more_comparisons_keep_the_hyperparameters():
    frame, y, _ = league()
    fitted = model(dynamics="drift+form").fit(frame[:400], y[:400])
    before = fitted.dynamics_
    fitted.partial_fit(frame[400:], y[400:])
    assert_allclose(fitted.dynamics_.form_sd, before.form_sd, rtol=1e-12)
    again = clone(fitted).fit(frame[:400], y[:400])
    again.partial_fit(frame[400:], y[400:])
    assert_array_equal(again.predict_proba(frame), fitted.predict_proba(frame))
    assert fitted.item_ids_.size == 8
    fitted.partial_fit(frame[:1].assign(left=50), y[:1])
    assert fitted.item_ids_.size == 9
    with pytest.raises(DataError, match="are dates, and those of fit were numbers"):
        fitted.partial_fit(frame[:2].assign(week=["2020-01-01", "2020-01-02"]), y[:2])
    fitted.set_params(time=None)
    with pytest.raises(DataError, match=r"whether there are time, groups.* differs from"):
        fitted.partial_fit(frame[:2], y[:2])


def test_hyperparameters_of_many_comparisons_are_those_of_a_part(monkeypatch):
    frame, y, _ = league(n=3000)
    whole = model(dynamics="form").fit(frame, y)
    set_policy(monkeypatch, "gp.pairwise", moving_pairs=1500)
    part = model(dynamics="form", random_state=0).fit(frame, y)
    assert part.dynamics_.form_sd != whole.dynamics_.form_sd
    assert_allclose(part.dynamics_.form_sd, whole.dynamics_.form_sd, rtol=0.3)
    assert_allclose(part.utility(), whole.utility(), atol=0.3)
    assert_array_equal(clone(part).fit(frame, y).utility(), part.utility())


def test_a_model_in_a_file_predicts_the_same(moved, tmp_path):
    frame, y, _ = league()
    save(moved, tmp_path / "model")
    again = load(tmp_path / "model")
    assert_array_equal(again.predict_proba(frame), moved.predict_proba(frame))
    assert again.dynamics_.log_posteriors == moved.dynamics_.log_posteriors
    assert_array_equal(
        again.partial_fit(frame[:9], y[:9]).utility(), load(tmp_path / "model").partial_fit(frame[:9], y[:9]).utility()
    )
    broken = clone(moved).fit(frame, y)
    moving = moved.moving_posterior_
    broken.moving_posterior_ = replace(moving, items=replace(moving.items, D=-moving.items.D))
    with pytest.raises(DataError, match="D must be at least 0"):
        load_of(broken, tmp_path)


def load_of(model, tmp_path):
    save(model, tmp_path / "broken")
    return load(tmp_path / "broken")


def test_one_time_is_constant():
    frame, y, _ = league(n=50)
    with pytest.warns(DataWarning, match="all comparisons have the same time"):
        fitted = model().fit(frame.assign(week=3), y)
    assert fitted.dynamics_.name == "constant"


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"scale_prior": Fixed(1.0)}, "scale_prior="),
        ({"inference": "laplace"}, "inference='laplace'"),
        ({"optimizer": "l-bfgs-b"}, "optimizer='l-bfgs-b'"),
        ({"time": None, "dynamics": "drift"}, "dynamics='drift' is not for models without time: use dynamics='auto'"),
        ({"warm_start": True}, "warm_start=True"),
        ({"likelihood": Poisson()}, "likelihood=Poisson: it must be one of comparisons"),
        ({"time": "day"}, "no column 'day'"),
        ({"time": "left"}, "time='left': column 'left' of X holds the ids of left"),
    ],
)
def test_what_has_no_meaning_is_refused(params, message):
    frame, y, _ = league(n=40)
    estimator = model().set_params(**params)
    with pytest.raises(DataError, match=message):
        estimator.fit(frame, y)
    assert not hasattr(estimator, "posterior_")


def test_one_who_always_wins_is_learnt():
    frame, _, _ = league(n=200, n_items=6)
    separable = (frame.left < frame.right).astype(int)
    for X, y in ((frame, separable), (pd.concat([frame[:1]] * 1000), np.ones(1000))):
        fitted = model(dynamics="constant").fit(X, y)
        assert fitted.converged_
        assert fitted.score(X, y) == 1.0


def test_weights_of_any_size_up_to_a_million():
    frame, y, _ = league(n=100)
    weight = np.random.default_rng(0).choice([0.0, 1e-9, 1.0, 1e6], 100)
    fitted = model(max_iter=1000).fit(frame, y, weight)
    assert np.isfinite(fitted.predict_proba(frame)).all()
    with pytest.raises(DataError, match=r"weigh up to 1e\+09 together, and with time at most 1e\+06"):
        model().fit(frame, y, np.full(100, 1e9))


def test_times_that_are_missing_or_words_are_refused():
    frame, y, _ = league(n=40)
    for wrong, message in (
        (frame.week.where(frame.week > frame.week[3]), "a number is missing"),
        (frame.week.astype(object).where(frame.week > frame.week[3], "soon"), "expected a date such as 2024-05-31"),
        (["2020-01-01"] * 39 + ["today"], "expected a date such as 2024-05-31, got 'today'"),
        ([dt.date(2020, 1, 1)] * 39 + [None], "a time is missing"),
    ):
        with pytest.raises(DataError, match=message):
            model().fit(frame.assign(week=wrong), y)


def test_predictions_need_times_and_other_methods_need_a_model_over_time(moved):
    frame, y, _ = league(n=40)
    with pytest.raises(DataError, match="there is no column 'week'"):
        moved.predict(frame[["left", "right", "home"]])
    with pytest.raises(DataError, match="latent_covariance is of rows of one time in the same groups"):
        moved.latent_covariance(frame)
    still = GPPLClassifier(left="left", right="right").fit(frame, y)
    for call in (lambda: still.utility(at=1.0), still.curves, lambda: still.rank(active=1.0)):
        with pytest.raises(DataError, match="needs utilities that move: fit with time="):
            call()
    with pytest.raises(DataError, match="at must be one time"):
        moved.utility(at=[1.0, 2.0])


def test_without_time_a_fit_forgets_what_moved(moved):
    frame, y, _ = league(n=40)
    other = clone(moved).fit(frame, y)
    other.set_params(time=None, dynamics="auto").fit(frame, y)
    assert not hasattr(other, "moving_posterior_")
    assert not hasattr(other, "dynamics_")


@pytest.mark.slow  # seconds for a search of hyperparameters
def test_sites_of_large_weights_do_not_go_to_and_fro():
    rng = np.random.default_rng(0)
    X = [[*rng.choice(8, 2, replace=False).tolist(), row / 10.0] for row in range(80)]
    y = (rng.random(80) < [0.7 if left < right else 0.3 for left, right, _ in X]).astype(int)
    model = GPPLClassifier(time=2, dynamics="drift+form").fit(X, y, np.full(80, 1000.0))  # a warning is an error
    assert model.converged_
    assert model.n_iter_ < 100


@pytest.mark.parametrize("params", [{"dynamics": "drift"}, {"dynamics": "drift+form+career", "order_effect": True}])
def test_draws_have_the_moments_of_covariances_and_new_items_begin_as_any_new_item(params):
    """What all items share, such as the curve of careers, is in both."""
    frame, y, _ = league(n=300, n_items=5)
    frame = frame.assign(week=frame.week + 2.0 * frame[["left", "right"]].max(axis=1))
    fitted = model(covariates=["home"], **params).fit(frame, y)
    ids, at = [0, 1, 2, 3, 4, 50, 60], 16.0
    pairs = [(i, j) for i in range(7) for j in range(i)]
    rows = pd.DataFrame(np.array(ids)[np.array(pairs)], columns=["left", "right"]).assign(week=at, home=1)
    C = fitted.latent_covariance(rows)
    assert_allclose(np.diagonal(C), fitted.latent_mean_and_variance(rows)[1], rtol=1e-9)
    assert np.linalg.eigvalsh(C).min() > -1e-9
    signs = np.array([np.eye(7)[i] - np.eye(7)[j] for i, j in pairs])
    with pytest.warns(
        DataWarning, match=r"unknown item 50 in row 5 \(and 1 more\): it was not seen by fit; its utility is"
    ):
        mean, covariance = fitted.utility(ids, at=at, return_cov=True)
    effects = fitted.covariate_table(at=at)["std"].pow(2).sum()
    assert_allclose(signs @ covariance @ signs.T + effects, C, atol=1e-9)
    assert mean[5] == mean[6]
    curves = fitted.curves(range(5), times=[at])
    assert_allclose(curves["std"], np.sqrt(np.diagonal(covariance)[:5]), rtol=1e-3 if "career" in str(params) else 1e-9)
    with pytest.warns(DataWarning, match="unknown item 50"):
        draws = fitted.sample_utility(ids, 20_000, random_state=0, at=at)
    assert_allclose(draws.mean(axis=1), mean, atol=5.0 * np.sqrt(np.diagonal(covariance).max() / 20_000))
    assert_allclose(np.cov(draws), covariance, atol=0.05 * np.diagonal(covariance).max())
    with pytest.raises(DataError, match="unknown item 50"):  # a misspelt id is in no ranking
        fitted.rank(ids)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 9])
@pytest.mark.parametrize("dynamics", ["constant", "drift", "auto"])
def test_answers_that_contradict_each_other_leave_utilities_equal(n, dynamics):
    X = [["x", "y", time] for time in range(n)] + [["y", "x", n + time] for time in range(n)]
    model = GPPLClassifier(time=2, dynamics=dynamics, order_effect=False).fit(X, np.ones(2 * n, dtype=int))
    assert np.isfinite(model.predict_proba(X)).all()
    if dynamics == "constant":
        np.testing.assert_allclose(model.predict_proba(X), 0.5, atol=1e-6)
