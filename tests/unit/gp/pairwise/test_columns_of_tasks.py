"""Tasks whose rows have more than items: covariates of the alternatives, positions, times, weights, groups."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skpref import CrowdGPPL, GPPLClassifier
from skpref.data import from_choices, from_rankings
from skpref.exceptions import DataError, DataWarning
from skpref.persistence import load, save

ITEMS = np.array([f"item {k}" for k in range(7)])
UTILITY = np.linspace(-1.2, 1.2, 7)
PRICES = {"price": [f"price_{k}" for k in range(1, 5)]}


def choices(n=300, *, slope=-0.8, advantage=0.7, seed=0):
    """Return tasks of four items with prices, whose first position has an advantage, and the positions chosen."""
    rng = np.random.default_rng(seed)
    shown = np.argsort(rng.random((n, ITEMS.size)), axis=1)[:, :4]
    price = rng.normal(size=(n, 4))
    z = UTILITY[shown] + slope * price + advantage * (np.arange(4) == 0) + rng.gumbel(size=(n, 4))
    X = pd.DataFrame(ITEMS[shown], columns=[f"shown_{k}" for k in range(1, 5)])
    return X.assign(**dict(zip(PRICES["price"], price.T, strict=True))), np.argmax(z, axis=1)


X, y = choices()


def test_effects_of_the_alternatives_and_of_positions_are_found():
    table = (
        GPPLClassifier(likelihood="luce", covariates=PRICES, order_effect=True)
        .fit(X, y)
        .covariate_table(credibility=0.99)
    )
    assert table["name"].tolist() == ["price", "position 1", "position 2", "position 3"]
    truth = np.array([-0.8, 0.7, 0.0, 0.0])
    assert ((table["effect_low"] < truth) & (truth < table["effect_high"])).all()
    assert table["effect_high"][0] < 0.0 < table["effect_low"][1]


def test_columns_by_position_and_by_name_are_one_fit():
    named = GPPLClassifier(likelihood="luce", covariates=PRICES).fit(X, y)
    placed = GPPLClassifier(likelihood="luce", covariates={"price": range(4, 8)}).fit(X.to_numpy(dtype=object), y)
    assert_array_equal(placed.predict_proba(X.to_numpy(dtype=object)), named.predict_proba(X))
    turned, prices = X[X.columns[::-1]], {"price": PRICES["price"][::-1]}
    again = GPPLClassifier(likelihood="luce", covariates=prices).fit(turned, 3 - y)
    assert_allclose(again.predict_proba(turned)[:, ::-1], named.predict_proba(X), atol=1e-8)


def test_two_items_with_covariates_are_comparisons():
    """A task of two items is a comparison, whose covariate is a difference."""
    pairs = X[["shown_1", "shown_2", "price_1", "price_2"]]
    left = (np.random.default_rng(1).random(len(X)) < 0.6).astype(int)
    covariates = {"price": ["price_1", "price_2"]}
    options = {"covariates": covariates, "inference": "vb", "tol": 1e-9}
    tasks = GPPLClassifier(likelihood="luce", **options).fit(pairs, 1 - left)
    compared = GPPLClassifier(left="shown_1", right="shown_2", likelihood="logit", **options).fit(pairs, left)
    assert_allclose(tasks.predict_proba(pairs), compared.predict_proba(pairs)[:, ::-1], atol=1e-6)
    assert_allclose(tasks.covariate_table()["effect"], compared.covariate_table()["effect"], atol=1e-5)


def test_a_covariate_that_all_alternatives_share_changes_nothing():
    base = GPPLClassifier(likelihood="luce", covariates=PRICES).fit(X, y).predict_proba(X)
    shift = np.random.default_rng(2).normal(size=len(X))
    moved = X.assign(**{name: X[name] + shift for name in PRICES["price"]})
    assert_allclose(
        GPPLClassifier(likelihood="luce", covariates=PRICES).fit(moved, y).predict_proba(moved), base, atol=1e-8
    )
    same = X.assign(**dict.fromkeys(PRICES["price"], 3.0))
    with pytest.warns(DataWarning, match="covariate 'price' is 0 in every comparison"):
        GPPLClassifier(likelihood="luce", covariates=PRICES).fit(same, y)


def test_weights_in_a_column_are_sample_weights():
    weight = np.random.default_rng(3).uniform(0.5, 2.0, len(X))
    beside = GPPLClassifier(likelihood="luce", covariates=PRICES).fit(X, y, sample_weight=weight)
    within = GPPLClassifier(likelihood="luce", covariates=PRICES, weight="w").fit(X.assign(w=weight), y)
    assert_array_equal(within.predict_proba(X.assign(w=1.0)), beside.predict_proba(X))
    with pytest.raises(DataError, match="weights are given twice"):
        within.fit(X.assign(w=weight), y, sample_weight=weight)


def moving(n=600, seed=0):
    """Return rankings of four of seven items; the first item rises from the worst to the best."""
    rng = np.random.default_rng(seed)
    time = np.sort(rng.uniform(0.0, 10.0, n))
    shown = np.argsort(rng.random((n, ITEMS.size)), axis=1)[:, :4]
    utility = np.where(shown == 0, -2.0 + 0.4 * time[:, None], UTILITY[shown])
    ranks = np.argsort(np.argsort(-(utility + rng.gumbel(size=(n, 4))), axis=1), axis=1) + 1.0
    return pd.DataFrame(ITEMS[shown], columns=list("abcd")).assign(time=time), ranks


def test_utilities_of_tasks_move_in_time():
    rows, ranks = moving()
    model = GPPLClassifier(likelihood="luce", time="time", dynamics="drift", random_state=0).fit(rows, ranks)
    first, last = model.utility(["item 0"], at=0.5)[0], model.utility(["item 0"], at=9.5)[0]
    assert last - first > 2.0
    early, late = (model.rank(at=at).id.tolist().index("item 0") for at in (0.5, 9.5))
    assert early > late
    asked = rows.iloc[[0, 0]].assign(a="item 0", b="item 6", c="item 1", d="item 2", time=[0.5, 9.5])
    p = model.predict_proba(asked)
    assert_allclose(p.sum(axis=1), 1.0)
    assert p[1, 0] > 2.0 * p[0, 0]
    with pytest.raises(DataError, match="there is no column 'time'"):
        model.predict_proba(rows[list("abcd")])
    model.partial_fit(rows[:5], ranks[:5])
    assert model.dynamics_.name == "drift"


def test_a_constant_model_over_time_is_the_model_without_times():
    """The prior of the start is learnt by both; nothing moves."""
    rows, ranks = moving(200)
    constant = GPPLClassifier(likelihood="luce", time="time", dynamics="constant", tol=1e-8).fit(rows, ranks)
    plain = GPPLClassifier(likelihood="luce", tol=1e-8).fit(rows[list("abcd")], ranks)
    assert_allclose(constant.predict_proba(rows), plain.predict_proba(rows[list("abcd")]), atol=0.02)


def test_crowds_have_covariates_positions_and_groups(tmp_path):
    rng = np.random.default_rng(5)
    rows = X.assign(who=[f"user {k}" for k in rng.integers(0, 15, len(X))], place=rng.choice(["home", "shop"], len(X)))
    model = CrowdGPPL(
        likelihood="luce", user="who", covariates=PRICES, order_effect=True, groups=["place"], random_state=0
    ).fit(rows, y)
    effects = model.covariate_table(credibility=0.99).set_index("name")
    assert effects.loc["price", "effect_low"] < -0.8 < effects.loc["price", "effect_high"]
    assert effects.loc["position 1", "effect_low"] < 0.7 < effects.loc["position 1", "effect_high"]
    p = model.predict_proba(rows)
    assert_allclose(p.sum(axis=1), 1.0)
    assert not np.allclose(p, model.predict_proba(rows.assign(place=np.where(rows.place == "home", "shop", "home"))))
    shares = model.shares(ITEMS[:3].tolist(), n_samples=100)
    assert shares["share"].sum() == pytest.approx(1.0)
    assert shares["share"].is_monotonic_increasing  # as utilities are
    save(model, tmp_path / "model.skpref")
    assert_array_equal(load(tmp_path / "model.skpref").predict_proba(rows), p)
    more = model.partial_fit(rows[:20], y[:20]).predict_proba(rows)
    assert np.abs(more - p).max() < 0.2


def test_part_worths_have_covariates_beside_them():
    from skpref.data import Table

    rng = np.random.default_rng(6)
    table = Table(rng.normal(size=(ITEMS.size, 2)), ITEMS, feature_names=["size", "speed"])
    rows = X.assign(who=[f"user {k}" for k in rng.integers(0, 15, len(X))])
    model = CrowdGPPL(table, likelihood="luce", user="who", covariates=PRICES, random_state=0).fit(rows, y)
    assert model.part_worths()["feature"].tolist() == ["size", "speed"]
    assert model.covariate_table()["effect_high"][0] < 0.0
    with pytest.raises(DataError, match="is not for part-worths, which are the same in all groups"):
        CrowdGPPL(table, likelihood="luce", user="who", groups=["place"]).fit(rows.assign(place="home"), y)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"covariates": ["price_1"]}, r"a column for each of the 7 positions.*got the column 'price_1', the same for"),
        ({"covariates": {"price": ["price_1", "price_2"]}}, "a column for each of the 6 positions.*got 2 columns"),
        ({"covariates": {"price": [*PRICES["price"][:3], "price_1"]}}, "names a column twice"),
        ({"covariates": {"price": [*PRICES["price"][:3], "prices_4"]}}, "there is no column 'prices_4'"),
        (
            {"covariates": PRICES, "left": "shown_1"},
            "left='shown_1' is not for tasks.*: use left=None",
        ),
        ({"covariates": PRICES, "weight": "price_1"}, "."),
    ],
)
def test_wrong_columns_are_refused_in_words(change, message):
    with pytest.raises(DataError, match=message):
        GPPLClassifier(likelihood="luce", **change).fit(X, y)


def test_cells_of_absent_items_are_not_read():
    rows = X.copy()
    rows.loc[::3, ["shown_4", "price_4"]] = None
    chosen = np.minimum(y, 2)
    assert (
        GPPLClassifier(likelihood="luce", covariates=PRICES).fit(rows, chosen).predict_proba(rows)[::3, 3] == 0.0
    ).all()
    rows.loc[1, "price_4"] = None
    with pytest.raises(DataError, match=r"row 1.*a number is missing \(a covariate\)"):
        GPPLClassifier(likelihood="luce", covariates=PRICES).fit(rows, chosen)


def test_readers_give_what_estimators_take():
    wide = X.assign(chosen=[X.iloc[row, k] for row, k in enumerate(y)])
    rows = from_choices(wide, list(X.columns[:4]), covariates=PRICES)
    assert rows.covariates is not None
    model = GPPLClassifier(likelihood="luce", covariates={"price": range(4, 8)})
    read = np.column_stack([rows.X, rows.covariates])
    direct = GPPLClassifier(likelihood="luce", covariates=PRICES).fit(X, y)
    assert_array_equal(model.fit(read, rows.y).predict_proba(read), direct.predict_proba(X))


def test_races_have_places_at_the_start_and_dates():
    """The whole way from a long table of races to a ranking at a date."""
    rng = np.random.default_rng(8)
    table = {name: [] for name in ("race", "driver", "place", "grid", "date")}
    for race in range(60):
        drivers, grid = rng.permutation(6), rng.permutation(6) + 1.0
        finish = np.argsort(np.argsort(-(UTILITY[drivers] - 0.3 * grid + rng.gumbel(size=6)))) + 1
        values = [race] * 6, ITEMS[drivers], finish, grid, [np.datetime64("2020-01-05") + 14 * race] * 6
        for name, column in zip(table, values, strict=True):
            table[name] += list(column)
    rows = from_rankings(table, by="race", item="driver", rank="place", covariates=["grid"])
    assert rows.covariates is not None
    dates = np.array(table["date"])[rows.origin].astype(object)
    read = np.column_stack([rows.X, rows.covariates, dates])
    model = GPPLClassifier(likelihood="luce", covariates={"grid": range(6, 12)}, time=12, dynamics="drift")
    model.fit(read, rows.y)
    effect = model.covariate_table(credibility=0.99)
    assert effect["effect_low"][0] < -0.3 < effect["effect_high"][0]
    assert model.rank(at="2022-01-01").id[0] == "item 5"


def test_the_worst_alone_mirrors_choices():
    rng = np.random.default_rng(0)
    X = rng.permuted(np.tile(np.arange(5), (60, 1)), axis=1)[:, :3]
    worst = np.take_along_axis(X, rng.integers(3, size=(60, 1)), 1)
    best = GPPLClassifier(likelihood="luce").fit(X, worst[:, 0])
    y = np.column_stack([np.full(60, None), worst])
    model = GPPLClassifier(likelihood="luce").fit(X, y)
    ids = np.arange(5)
    assert_allclose(model.utility(ids), -best.utility(ids), atol=1e-6)
    people = np.column_stack([np.arange(60) % 6, X])
    crowds = [CrowdGPPL(random_state=0).fit(people, answers).utility(ids) for answers in (worst[:, 0], y)]
    assert_allclose(crowds[1], -crowds[0], atol=1e-6)
    with pytest.raises(DataError, match="task 0 has no best item"):
        model.score(X, y)
    first = np.where(X[:, :1] == worst, X[:, 1:2], X[:, :1])  # the best of every second task
    both = np.column_stack([np.where(np.arange(60)[:, None] % 2, first, None), worst])
    assert GPPLClassifier(likelihood="luce").fit(X, both).posterior_.n_seen == 5
