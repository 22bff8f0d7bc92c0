"""Utilities that depend on numbers of a comparison, such as the length of a prompt, in `GPPLClassifier`."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.metrics import log_loss

import skpref
from skpref import GPPLClassifier, Table
from skpref.exceptions import DataError

N_ITEMS = 15


def prompts(n=1200, sd=0.7, seed=0, width=1):
    """Comparisons whose answers depend on numbers x of mean 50 and standard deviation 20."""
    rng = np.random.default_rng(seed)
    u, slope = rng.normal(size=N_ITEMS), sd * rng.normal(size=(N_ITEMS, width))
    x, left = rng.normal(size=(n, width)), rng.integers(N_ITEMS, size=n)
    right = (left + rng.integers(1, N_ITEMS, n)) % N_ITEMS
    z = u[left] - u[right] + (x * (slope[left] - slope[right])).sum(axis=1)
    frame = pd.DataFrame({"left": left, "right": right}).join(
        pd.DataFrame(50.0 + 20.0 * x, columns=[f"x_{k}" for k in range(width)])
    )
    return frame.assign(day=np.sort(rng.random(n))), (rng.random(n) < 1.0 / (1.0 + np.exp(-z))).astype(float), u, slope


@pytest.fixture(scope="module")
def fitted():
    frame, y, u, slope = prompts()
    return GPPLClassifier(context=["x_0"], likelihood="logit").fit(frame, y), frame, y, u, slope


def test_items_differ_in_context(fitted):
    model, frame, y, u, slope = fitted
    assert 0.4 < np.sqrt(model.context_scales_[0]) < 1.1
    inside = 0
    for number in (20.0, 50.0, 80.0):
        utility, std = model.utility(range(N_ITEMS), context={"x_0": number}, return_std=True)
        true = u + slope[:, 0] * (number - 50.0) / 20.0
        inside += np.sum(np.abs(utility - true + true.mean()) < 1.645 * std)
    assert 34 <= inside <= 45
    # Without context: at the mean of the fit; and utilities are linear in between.
    mean = frame.x_0.mean()
    low, middle, high = (model.utility(range(N_ITEMS), context={"x_0": mean + step}) for step in (-30.0, 0.0, 30.0))
    assert_allclose(middle, model.utility(range(N_ITEMS)), atol=1e-12)
    assert_allclose(0.5 * (low + high), middle, atol=1e-9)
    best = int(np.argmax(u + 1.5 * slope[:, 0]))
    ranking = model.rank(context={"x_0": 80.0})
    assert ranking.id[0] == best
    assert list(model.win_matrix(context={"x_0": 80.0}).id) == list(ranking.id)
    drawn = model.sample_utility(range(N_ITEMS), 4000, random_state=0, context={"x_0": 80.0})
    assert_allclose(drawn.mean(axis=1), model.utility(range(N_ITEMS), context={"x_0": 80.0}), atol=0.06)
    new, answers, *_ = prompts(n=6000)  # of the same items
    pooled = GPPLClassifier(likelihood="logit").fit(frame[["left", "right"]], y)
    loss = log_loss(answers, model.predict_proba(new))
    assert loss < log_loss(answers, pooled.predict_proba(new[["left", "right"]])) - 0.02


def test_units_sides_and_splits_change_nothing(fitted):
    model, frame, y, *_ = fitted
    wanted = model.predict_proba(frame)
    scaled = clone(model).fit(frame.assign(x_0=-3.0 * frame.x_0 + 7.0), y)
    assert_allclose(scaled.predict_proba(frame.assign(x_0=-3.0 * frame.x_0 + 7.0)), wanted, rtol=1e-6)
    other = clone(model).fit(frame.assign(left=frame.right, right=frame.left), 1.0 - y)
    assert_allclose(other.predict_proba(frame), wanted, rtol=1e-6)
    rows = np.repeat(np.arange(len(frame)), 2)
    split = clone(model).fit(frame.iloc[rows], y[rows], np.full(rows.size, 0.5))
    assert_allclose(split.predict_proba(frame), wanted, rtol=1e-6)
    rows = np.concatenate([np.arange(len(frame)), np.arange(400), np.arange(400)])
    weight = np.where(np.arange(len(frame)) < 400, 3.0, 1.0)
    more = pd.concat([frame, frame[:1].assign(x_0=1e6)])
    weighted = clone(model).fit(more, np.append(y, 1.0), np.append(weight, 0.0))
    repeated = clone(model).fit(frame.iloc[rows], y[rows])
    assert_allclose(weighted.predict_proba(frame), repeated.predict_proba(frame), rtol=1e-6)


def test_slopes_vanish_where_items_do_not_differ():
    frame, y, *_ = prompts(sd=0.0, seed=3)
    model = GPPLClassifier(context=["x_0"], likelihood="logit").fit(frame, y)
    assert model.context_scales_[0] < 0.05


def test_a_vector_has_one_scale():
    frame, y, _, slope = prompts(n=2500, sd=0.3, width=6)
    names = [f"x_{k}" for k in range(6)]
    model = GPPLClassifier(context=["day", names], likelihood="logit").fit(frame, y)
    assert model.context_scales_.shape == (2,)
    assert 0.15 < np.sqrt(model.context_scales_[1]) < 0.45
    mean = {name: frame[name].mean() for name in names}
    found = [
        model.utility(range(N_ITEMS), context=mean | {name: mean[name] + 20.0}) - model.utility(range(N_ITEMS))
        for name in names
    ]
    assert np.corrcoef(np.ravel(found), (slope - slope.mean(axis=0)).T.ravel())[0, 1] > 0.85


def test_context_with_everything(tmp_path):
    """Times, groups, features, ties, an order effect and covariates in one model, kept by a file."""
    frame, y, *_ = prompts(n=400)
    rng = np.random.default_rng(1)
    frame["group"], frame["home"] = rng.choice(["a", "b"], 400), rng.choice([-1.0, 1.0], 400)
    y[::9] = 0.5
    model = GPPLClassifier(
        Table(rng.normal(size=(N_ITEMS + 1, 2)), ids=range(N_ITEMS + 1)),
        left="left",
        right="right",
        time="day",
        dynamics="drift",
        groups=["group"],
        context=["x_0"],
        covariates=["home"],
        order_effect=True,
        likelihood="logit-ties",
    ).fit(frame[:300], y[:300])
    wanted = model.predict_proba(frame, ties=True)
    assert_allclose(wanted.sum(axis=1), 1.0)
    where = {"groups": {"group": "a"}, "context": {"x_0": 90.0}}
    assert np.isfinite(model.curves([0, 1], **where).to_numpy()[:, 2:].astype(float)).all()
    # An item that nobody compared is less certain away from the mean.
    near, far = (model.utility([N_ITEMS], context={"x_0": x}, return_std=True)[1][0] for x in (50.0, 150.0))
    assert far > near + 0.1
    skpref.save(model, tmp_path / "model.skpref")
    kept = skpref.load(tmp_path / "model.skpref")
    assert_allclose(kept.predict_proba(frame, ties=True), wanted, rtol=1e-12)
    whole = model.partial_fit(frame[300:], y[300:])
    assert_allclose(whole._numbers["x_0"][0], frame.x_0[:300].mean())  # units stay


def test_update_learns_slopes():
    """It is near a refit: intervals get narrower, and items follow their answers."""
    frame, y, *_ = prompts(n=1600)
    model = GPPLClassifier(context=["x_0"], likelihood="logit", time="day", dynamics="constant")
    asked = frame.assign(day=1.0)
    before = model.fit(frame[:400], y[:400]).latent_mean_and_variance(asked)
    both = clone(model).fit(frame[:400], y[:400]).partial_fit(frame[400:], y[400:])
    mean, variance = both.latent_mean_and_variance(asked)
    found, spread = model.update(frame[400:], y[400:]).latent_mean_and_variance(asked)
    assert variance.mean() < 0.6 * before[1].mean()
    assert_allclose(spread.mean(), variance.mean(), rtol=0.1)
    assert np.mean((found - mean) ** 2) < 0.05 * np.mean((before[0] - mean) ** 2)


def test_context_of_tasks_and_teams():
    frame, y, *_ = prompts(n=600)
    tasks = pd.DataFrame({"x": frame.x_0, "one": frame.left, "two": frame.right})
    model = GPPLClassifier(context=["x"], likelihood="luce").fit(tasks, np.where(y == 1.0, 0, 1))
    pairs = GPPLClassifier(context=["x_0"], likelihood="logit").fit(frame[["left", "right", "x_0"]], y)
    assert_allclose(
        model.predict_proba(tasks)[:, 0], pairs.predict_proba(frame[["left", "right", "x_0"]])[:, 1], atol=1e-3
    )
    teams = GPPLClassifier(left=["left"], right=["right"], context=["x_0"], likelihood="logit").fit(frame, y)
    assert_allclose(
        teams.predict_proba(frame)[:, 1], pairs.predict_proba(frame[["left", "right", "x_0"]])[:, 1], rtol=1e-6
    )


def test_odd_context_is_refused(fitted):
    model, frame, y, *_ = fitted
    for bad, words in (([["x_0", []]], "context must be a list of columns"), (["x_0", "x_0"], "names a column twice")):
        with pytest.raises(DataError, match=words):
            clone(model).set_params(context=bad).fit(frame, y)
    with pytest.raises(DataError, match="context='left': column 'left' of X holds the ids of left"):
        GPPLClassifier(left="left", right="right", context=["left"]).fit(frame, y)
    with pytest.raises(DataError, match=r"column 'x_0'"):
        clone(model).fit(frame.assign(x_0="long"), y)
    with pytest.raises(DataError, match=r"names the column 'y_0', but the columns of context are \['x_0'\]"):
        model.utility(context={"y_0": 1.0})
    for bad in (np.nan, "long"):
        with pytest.raises(DataError, match="the number of 'x_0' must be finite"):
            model.rank(context={"x_0": bad})
    for ask in (lambda: model.rank(context={"x_0": 1e200}), lambda: model.predict_proba(frame.assign(x_0=1e200))):
        with pytest.raises(DataError, match=r"a number of column 'x_0' is 1e.100 standard deviations or more"):
            ask()
    with pytest.raises(DataError, match=r"context must be a dict such as"):
        model.rank(context=["x_0"])
    with pytest.raises(DataError, match="was fitted without context"):
        GPPLClassifier(likelihood="logit").fit(frame[["left", "right"]], y).rank(context={"x_0": 1.0})
    changed = clone(model).fit(frame[:50], y[:50]).set_params(context=["day"])
    with pytest.raises(DataError, match=r"context differs from that of the fit, which had \['x_0'\]"):
        changed.predict_proba(frame)
    with pytest.raises(DataError, match="context differs from that of the fit"):
        changed.partial_fit(frame, y)
    vector = clone(model).set_params(context=[["x_0", "day"]]).fit(frame[:50], y[:50])
    with pytest.raises(DataError, match=r"context differs from that of the fit, which had \[2\]; got \[1, 1\]"):
        vector.set_params(context=["x_0", "day"]).partial_fit(frame[50:], y[50:])
    with pytest.warns(UserWarning, match="column 'x_0' is the same in every row"):
        clone(model).fit(frame[:50].assign(x_0=3.0), y[:50])
