"""`GPPLClassifier.update`: later comparisons are filtered into a model over time, without another fit."""

from copy import deepcopy

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import log_loss

from skpref import GPPLClassifier, Table, load, save
from skpref.exceptions import DataError

pd = pytest.importorskip("pandas")


def league(n=4000, n_items=24, seed=0, length=4.0, home=0.4):
    """Return games in the order of time, of items in form, and their features."""
    rng = np.random.default_rng(seed)
    phi, walk = np.exp(-0.02 / length), np.empty((n_items, 601))
    walk[:, 0] = rng.normal(size=n_items)
    for k in range(1, 601):
        walk[:, k] = phi * walk[:, k - 1] + np.sqrt(1.0 - phi**2) * rng.normal(size=n_items)
    X = rng.normal(size=(n_items, 2))
    time = np.sort(rng.uniform(0.0, 12.0, n))
    left = rng.integers(n_items, size=n)
    right = (left + rng.integers(1, n_items, n)) % n_items
    at_home, place = rng.integers(-1, 2, n), np.rint(time * 50.0).astype(int)
    z = X[left, 0] + walk[left, place] - X[right, 0] - walk[right, place] + home * at_home
    y = (rng.uniform(size=n) < 1.0 / (1.0 + np.exp(-z))).astype(int)
    return pd.DataFrame({"left": left, "right": right, "week": time, "home": at_home}), y, X


def model(items=None, **params):
    options = {
        "left": "left",
        "right": "right",
        "time": "week",
        "likelihood": "logit",
        "covariates": ["home"],
        **params,
    }
    return GPPLClassifier(items, **options)


@pytest.fixture(scope="module")
def fitted():
    frame, y, _ = league()
    return model(dynamics="drift+form").fit(frame[:2500], y[:2500])


@pytest.mark.parametrize("kind", ["plain", "career", "features", "ties"])
def test_a_filter_is_nearly_as_good_as_another_fit(kind):
    frame, y, X = league()
    params = {"career": {"dynamics": "drift+form+career", "order_effect": True}, "ties": {"likelihood": "logit-ties"}}
    y = np.where(np.arange(y.size) % 5 == 0, 0.5, y) if kind == "ties" else y
    items = Table(X, ids=np.arange(24)) if kind == "features" else None
    old = model(items, **{"dynamics": "drift+form", **params.get(kind, {})}).fit(frame[:2500], y[:2500])
    new, again = deepcopy(old).update(frame[2500:3500], y[2500:3500]), deepcopy(old)
    again.partial_fit(frame[2500:3500], y[2500:3500])
    late, right = frame[3500:], y[3500:]
    kept = right != 0.5
    losses = [log_loss(right[kept] > 0.5, each.predict_proba(late)[kept, 1]) for each in (old, new, again)]
    assert losses[1] < losses[2] + 0.002
    assert losses[0] > losses[1] + 0.01
    std = [each.utility(return_std=True)[1] for each in (new, again)]
    ratio = np.mean(std[0] / std[1])
    assert 0.95 < ratio < 1.05
    assert_allclose(new.utility(), again.utility(), atol=0.25)
    assert_allclose(new.coef_, again.coef_, atol=0.05)


@pytest.mark.parametrize("more", [{}, {"groups": ["place"], "order_effect": True, "dynamics": "drift+career"}])
def test_new_rows_tell_few_items_with_features_as_much_as_another_fit_does(more):
    """They told less than nothing: utilities were less certain after as many rows as the fit had."""
    frame, y, X = league(400, n_items=10)
    frame["place"] = np.arange(400) % 2
    old = model(Table(X, ids=np.arange(10)), **{"dynamics": "drift", **more}).fit(frame[:200], y[:200])
    new = deepcopy(old).update(frame[200:], y[200:])
    again = deepcopy(old).partial_fit(frame[200:], y[200:])
    rows = frame[:100].assign(week=12.0)
    std = [np.sqrt(each.latent_mean_and_variance(rows)[1]).mean() for each in (old, new, again)]
    assert std[2] < 0.95 * std[0]
    assert_allclose(std[1], std[2], rtol=0.03)


def test_rows_at_once_and_one_after_the_other_are_the_same(fitted):
    frame, y, _ = league()
    once, single = deepcopy(fitted).update(frame[2500:2530], y[2500:2530]), deepcopy(fitted)
    for row in range(2500, 2530):
        single.update(frame[row : row + 1], y[row : row + 1])
    assert_allclose(single.utility(), once.utility(), atol=1e-8)
    assert_allclose(single.predict_proba(frame[3000:]), once.predict_proba(frame[3000:]), atol=1e-8)
    weighed = deepcopy(fitted).update(frame[2500:2530], y[2500:2530], np.ones(30))
    assert_array_equal(weighed.utility(), once.utility())


def test_what_was_before_stays_and_the_record_is_whole(fitted, tmp_path):
    frame, y, _ = league()
    new = deepcopy(fitted).update(frame[2500:2600], y[2500:2600])
    assert new.dynamics_ is not fitted.dynamics_
    assert new.dynamics_.start_sd == fitted.dynamics_.start_sd
    assert new.rank().n_comparisons.sum() == 2 * 2600
    save(new, tmp_path / "model")
    again = load(tmp_path / "model")
    assert_array_equal(again.predict_proba(frame), new.predict_proba(frame))
    fresh = deepcopy(fitted).partial_fit(frame[2500:2600], y[2500:2600])
    fresh.partial_fit(frame[2600:2700], y[2600:2700])
    # A later partial_fit learns from what was filtered, too.
    new.partial_fit(frame[2600:2700], y[2600:2700])
    assert_allclose(new.predict_proba(frame), fresh.predict_proba(frame), atol=2e-3)


def test_new_items_begin_as_any_new_item(fitted):
    frame, y, X = league()
    row = frame[2500:2501].assign(left=50)
    prior = fitted.utility([int(row.right.iloc[0])], at=row.week.iloc[0])
    won = deepcopy(fitted).update(row, [1])
    assert won.item_ids_.size == 25
    assert won.moving_posterior_.first[24] == row.week.iloc[0]
    assert won.utility([50])[0] > 0.0 > won.utility([int(row.right.iloc[0])])[0] - prior[0]
    assert set(won.rank(active=0.0).id) == {50, int(row.right.iloc[0])}
    ghost = deepcopy(fitted).update(row, [1], [0.0])
    assert ghost.item_ids_.size == 24
    with_features = model(Table(X, ids=np.arange(24)), dynamics="form").fit(frame[:500], y[:500])
    with_features.update(row, [1], items=Table(np.array([[1.0, 0.0]]), ids=[50]))
    assert with_features.utility([50], return_std=True)[1][0] > 0.3
    assert_allclose(with_features.curves([50], times=[20.0]).utility, with_features.utility([50], at=20.0), atol=1e-9)


def test_what_a_filter_cannot_do_is_refused(fitted):
    frame, y, _ = league()
    before = fitted.utility()
    for rows, weight, message in (
        (frame[2500:2510][::-1], None, "row 1 of X is earlier than the row before; sort X by 'week'"),
        (frame[100:110], None, "row 0 of X is earlier than the last comparison of one of its items"),
        (frame[2500:2510].assign(week="2020-01-01"), None, "are dates, and those of fit were numbers"),
        (frame[2500:2510], np.full(10, 1e3), "sample_weight is at most 100 in update; use partial_fit"),
    ):
        with pytest.raises(DataError, match=message):
            fitted.update(rows, y[: len(rows)], weight)
    assert_array_equal(fitted.utility(), before)
    still = GPPLClassifier(left="left", right="right").fit(frame[:100], y[:100])
    with pytest.raises(DataError, match="update needs utilities that move: fit with time="):
        still.update(frame[100:110], y[100:110])
    tasks = pd.DataFrame({"a": list("xyz") * 5, "b": list("yzx") * 5, "c": list("zxy") * 5, "day": np.arange(15.0)})
    luce = GPPLClassifier(likelihood="luce", time="day", dynamics="drift").fit(tasks, [0, 1, 2, 1, 0] * 3)
    with pytest.raises(DataError, match="use partial_fit"):
        luce.update(tasks, [0] * 15)
