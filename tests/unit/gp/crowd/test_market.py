"""Shares of products, part-worths, willingness to pay, importances and scores, and what they refuse."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.exceptions import NotFittedError

from skpref import CrowdGPPL, kernels
from skpref.data import Table
from skpref.datasets import make_choices
from skpref.exceptions import DataError

DATA = make_choices(n_users=12, n_tasks=6, none=True, random_state=0)
OURS, THEIRS = {"brand": "x", "price": 2.0}, {"brand": "y", "price": 3.0}
PRODUCTS = {"ours": OURS, "theirs": THEIRS}
FEATURES = DATA.table.features
IDS = DATA.table.ids.tolist()


@pytest.fixture(scope="module")
def model():
    return CrowdGPPL(DATA.table, random_state=0).fit(DATA.X, DATA.y)


@pytest.fixture(scope="module")
def of_items():
    """Fit items without features: three of them and the option none."""
    ids = np.array(["a", "b", "c", "none"], dtype=object)
    rng = np.random.default_rng(0)
    shown = np.array([rng.permutation(ids)[:3] for _ in range(60)])
    X = np.column_stack([np.repeat([f"u{k}" for k in range(10)], 6).astype(object), shown])
    best = np.where((shown == "a").any(axis=1) & (rng.random(60) < 0.8), "a", shown[:, 0])
    return CrowdGPPL(random_state=0).fit(X, best)


def fit(features, names=None, **options):
    return CrowdGPPL(Table(features, ids=IDS, feature_names=names), random_state=0, **options).fit(DATA.X, DATA.y)


def share(frame, product):
    return frame["share"][frame["product"] == product].to_numpy()


# -------------------------------------------------------------------------------------------------------------- shares
@pytest.mark.parametrize("rule", ["logit", "first choice"])
@pytest.mark.parametrize("new_people", [False, True])
def test_shares_add_up_to_one(model, rule, new_people):
    frame = model.shares(PRODUCTS, none=True, rule=rule, new_people=new_people)
    assert list(frame["product"]) == ["ours", "theirs", "none"]
    assert frame["share"].sum() == pytest.approx(1.0)
    assert ((frame["share_low"] <= frame["share"]) & (frame["share"] <= frame["share_high"])).all()
    pd.testing.assert_frame_equal(frame, model.shares(PRODUCTS, none=True, rule=rule, new_people=new_people))


def test_shares_are_mean_probabilities_of_people(model):
    task = ["brand=x, price=2", "brand=y, price=3", "none", None]
    P = model.predict_proba([[user, *task] for user in model.user_ids_])
    frame = model.shares(task[:3], n_samples=4000)
    # Probabilities of draws have a standard deviation of .1 of people together: five standard errors.
    assert_allclose(frame["share"], P.mean(axis=0)[:3], atol=0.008)
    assert_allclose(model.shares(PRODUCTS, none=True, n_samples=4000)["share"], frame["share"])


def test_prices_lower_shares_and_curves_are_scenarios(model):
    prices = [1.0, 2.0, 3.0, 4.0]
    curve = model.sensitivity("price", prices, PRODUCTS, none=True)
    assert (np.diff(share(curve, "ours")) < 0.0).all()
    assert (np.diff(share(curve, "theirs")) > 0.0).all()
    scenarios = model.shares([PRODUCTS | {"ours": OURS | {"price": price}} for price in prices], none=True)
    assert list(scenarios["scenario"]) == np.repeat(range(4), 3).tolist()
    assert list(curve["price"]) == np.repeat(prices, 3).tolist()
    for name in ("product", "share", "std", "share_low", "share_high"):
        assert list(curve[name]) == list(scenarios[name])
    assert_allclose(scenarios.groupby("scenario")["share"].sum(), 1.0)
    other = model.sensitivity("brand", ["y", "z"], PRODUCTS, product="theirs", by=dict.fromkeys(model.user_ids_, "all"))
    assert list(other.columns[:3]) == ["segment", "brand", "product"]


def test_a_copy_takes_most_from_its_twin():
    data = make_choices(n_users=40, n_tasks=10, random_state=1)
    rng = np.random.default_rng(0)
    favourite = rng.integers(3, size=40)  # each person wants one brand
    brands = data.table.features[data.table.rows(data.X[:, 1:].ravel()), :3].reshape(-1, 3, 3)
    wanted = brands[np.arange(400)[:, None], np.arange(3), np.repeat(favourite, 10)[:, None]]
    y = data.X[np.arange(400), 1 + np.argmax(wanted + 0.1 * rng.random(wanted.shape), axis=1)]
    model = CrowdGPPL(data.table, random_state=0).fit(data.X, y)
    products = {brand: {"brand": brand, "price": 2.0} for brand in "xyz"}
    before, after = model.shares(products), model.shares(products | {"copy": products["x"]})
    lost = {brand: float((share(before, brand) - share(after, brand))[0]) for brand in "xyz"}
    assert lost["x"] > 3.0 * max(lost["y"], lost["z"])
    assert share(after, "copy")[0] == pytest.approx(share(after, "x")[0], rel=1e-6)


def test_segments_are_shares_of_their_people(model):
    people = model.user_ids_.tolist()
    by = {person: "first" if k < 5 else "rest" for k, person in enumerate(people[:9])} | {people[9]: None, "other": "x"}
    for segments in (by, pd.Series(by)):
        frame = model.shares(PRODUCTS, by=segments)
        assert list(frame["segment"]) == ["first"] * 2 + ["rest"] * 2
        assert_allclose(frame.groupby("segment")["share"].sum(), 1.0)
    first = model.shares(PRODUCTS, users=people[:5])
    assert list(frame["share"][:2]) == list(first["share"])


@pytest.mark.parametrize(
    "make",
    [
        lambda rows: pd.DataFrame(rows, index=["ours", "theirs"]),
        lambda rows: pd.DataFrame(rows).astype({"brand": "category"}),
        pl.DataFrame,
        pa.Table.from_pylist,
        lambda rows: dict(enumerate(map(pd.Series, rows))),
        lambda rows: {"ours": rows[0], "theirs": "brand=y, price=3"},
        lambda rows: {"ours": {"brand=x": 1, "brand=y": 0, "brand=z": 0, "price": "2"}, "theirs": rows[1]},
        lambda rows: ["brand=x, price=2", "brand=y, price=3"],
        lambda rows: [["brand=x, price=2", "brand=y, price=3"]],
        lambda rows: [pd.DataFrame(rows)],
    ],
)
def test_products_in_other_forms(model, make):
    assert_allclose(model.shares(make([OURS, THEIRS]))["share"], model.shares(PRODUCTS)["share"])


def test_products_without_features(of_items):
    frame = of_items.shares(["a", "b"], none=True)
    assert list(frame["product"]) == ["a", "b", "none"]
    assert frame["share"].sum() == pytest.approx(1.0)
    assert frame["share"][0] > 0.4
    named = of_items.shares({"first": "a", "second": "b", "third": "none"})
    assert list(named["share"]) == list(frame["share"])
    with pytest.raises(DataError, match="product 'first' must be the id of an item"):
        of_items.shares({"first": OURS})
    with pytest.raises(DataError, match="no part-worths"):
        of_items.part_worths()


def test_products_by_id_have_the_effects_of_these_items():
    small = make_choices(n_users=10, n_tasks=6, random_state=0)
    kernel = kernels.ProductMatern(np.ones(small.table.n_features))
    model = CrowdGPPL(small.table, kernel=kernel, max_iter=20, random_state=0).fit(small.X, small.y)
    rows = np.array([[user, *small.X[0, 1:]] for user in model.user_ids_], dtype=object)
    frame = model.shares(small.X[0, 1:].tolist(), n_samples=2000)
    assert_allclose(frame["share"], model.predict_proba(rows).mean(axis=0), atol=0.02)


@pytest.mark.parametrize(
    ("products", "message"),
    [
        (None, "products must be a dict, a data frame, a list of ids, or a list of these; got None"),
        ([], "products must be a dict"),
        ({}, r"products of scenario 0 must have different names; got \[\]"),
        ([PRODUCTS, {}], "products of scenario 1 must have different names"),
        ([PRODUCTS, IDS[0]], "a list of products has ids alone, or scenarios alone"),
        ([IDS[0], IDS[0]], "products of scenario 0 must have different names"),
        (pd.DataFrame([OURS, THEIRS], index=["a", "a"]), "must have different names"),
        (pd.DataFrame([[1, 2]], columns=["price", "price"]), "products has more than one column 'price'"),
        ([OURS, THEIRS], "product 'brand' must be a dict of its attributes, or the id of an item"),
        ({"a": None}, "product 'a' must be a dict of its attributes, or the id of an item, .* got None"),
        ({"a": [1.0, 2.0], "b": IDS[0]}, r"product 'a' must be a dict .* got \[1.0, 2.0\]"),
        ({"a": "nix"}, "unknown item 'nix'"),
        ({"a": {"brand": "x"}}, "product 'a': the attribute 'price' is missing"),
        ({"a": OURS | {"brand": "q"}}, "product 'a': 'brand=q' is no level that fit has seen; those of brand are"),
        ({"a": OURS | {"price": None}}, "product 'a': the attribute 'price' is missing"),
        ({"a": OURS | {"price": np.inf}}, "product 'a': 'price' must be a number of at most"),
        (pd.DataFrame({"brand": ["x", None], "price": [1, 2]}), "product 1: the attribute 'brand' is missing"),
    ],
)
def test_products_that_are_refused(model, products, message):
    with pytest.raises(DataError, match=message):
        model.shares(products)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rule": ["logit"]}, r"rule must be 'logit' or 'first choice'; got \['logit'\]"),
        ({"credibility": 1.0}, "credibility must be a probability between 0 and 1"),
        ({"n_samples": 1.5}, "n_samples must be an integer of at least 1"),
        ({"users": []}, "users names nobody"),
        ({"users": ["nobody"]}, "unknown user 'nobody' in row 0"),
        ({"users": "person 0"}, "users must hold one-dimensional columns of ids"),
        ({"by": ["a"] * 30}, "by must be a dict from users to segments"),
        ({"by": {"nobody": "s"}}, "by names none of the users, whose ids are such as 'person 0'"),
        ({"by": {"person 0": ["s"]}}, r"by: the segment of user 'person 0' must be hashable; got \['s'\]"),
        ({"by": {"person 0": "s"}, "users": ["person 1"]}, "by names none of the users"),
        ({"new_people": True, "by": {}}, "new_people=True is about people who did not answer"),
    ],
)
def test_options_that_are_refused(model, options, message):
    with pytest.raises(DataError, match=message):
        model.shares(PRODUCTS, **options)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("price", [1.0], {}), "products must be a dict of the attributes of each product"),
        (("price", [1.0], [PRODUCTS]), "products must be a dict of the attributes"),
        (("price", [], PRODUCTS), "values must be one value of an attribute or more"),
        ((["price"], [1.0], PRODUCTS), "values must be one value"),
        (("colour", [1.0], PRODUCTS), "product 'ours': 'colour' is no attribute of the model"),
        (("price", ["dear"], PRODUCTS), "product 'ours': 'price' must be a number"),
        (("brand", ["x", "q"], PRODUCTS), "'brand=q' is no level that fit has seen"),
    ],
)
def test_curves_that_are_refused(model, arguments, message):
    with pytest.raises(DataError, match=message):
        model.sensitivity(*arguments)
    with pytest.raises(DataError, match="product 'nix' is none of the products"):
        model.sensitivity("price", [1.0], PRODUCTS, product="nix")


# --------------------------------------------------------------------------------------------------------- part-worths
def test_part_worths_of_levels_add_up_to_zero(model):
    population, people = model.part_worths(), model.part_worths(users=model.user_ids_[:2])
    assert list(population["feature"]) == list(DATA.table.feature_names)
    for frame in (population, people[people["user"] == model.user_ids_[0]]):
        assert frame["mean"][frame["feature"].str.startswith("brand=")].sum() == pytest.approx(0.0, abs=1e-9)
        assert (frame["low"] < frame["mean"]).all()
        assert frame["mean"].to_numpy()[3] < 0.0
    assert (population["between_people"] > 0.0).all()


def test_part_worths_are_differences_of_utilities(model):
    worths = model.part_worths().set_index("feature")["mean"]
    utility = dict(zip(IDS, model.utility(IDS), strict=True))
    assert utility["brand=x, price=2"] - utility["brand=x, price=1"] == pytest.approx(worths["price"])
    assert utility["brand=x, price=2"] - utility["brand=y, price=2"] == pytest.approx(
        worths["brand=x"] - worths["brand=y"]
    )
    none = utility["none"] - np.mean([utility[f"brand={b}, price=2"] for b in "xyz"]) - 2.0 * -worths["price"]
    assert none == pytest.approx(worths["none"])


def test_willingness_to_pay_by_hand(model):
    frame = model.willingness_to_pay("price", n_samples=40)
    B = model._part_worth_draws(40, 0)
    ratio = -(B[:, :, 1] - B[:, :, 0]) / B[:, :, 3]
    assert list(frame["feature"]) == ["brand=y against x", "brand=z against x"]
    assert frame["median"][0] == pytest.approx(np.median(np.median(ratio, axis=0)))
    assert frame["median_low"][0] == pytest.approx(np.quantile(np.median(ratio, axis=0), 0.05))
    assert frame["people_25"][0] == pytest.approx(np.quantile(ratio, 0.25))
    assert frame["wrong_sign"][0] == pytest.approx(np.mean(B[:, :, 3] > 0.0))
    assert (model.willingness_to_pay("price", n_samples=40) == frame).all(axis=None)


def test_importances_by_hand_leave_the_option_none_out(model):
    frame = model.importances(n_samples=40)
    B = model._part_worth_draws(40, 0)
    ranges = np.array([np.ptp(B[:, :, :3], axis=2), np.abs(B[:, :, 3]) * 3.0])  # prices are 1 to 4
    assert list(frame["attribute"]) == ["brand", "price"]
    assert_allclose(frame["importance"], (ranges / ranges.sum(axis=0)).mean(axis=(1, 2)))
    assert frame["importance"].sum() == pytest.approx(1.0)


def test_levels_against_one_that_is_left_out_are_features():
    """Levels of which items have one or none, since the first was left out, are no differences from their mean."""
    model = fit(FEATURES[:, 1:], ["brand=y", "brand=z", "price", "none"])
    assert list(model.importances(n_samples=20)["attribute"]) == ["brand=y", "brand=z", "price"]
    assert list(model.willingness_to_pay("price", n_samples=20)["feature"]) == ["brand=y", "brand=z"]
    worths, utility = model.part_worths()["mean"], model.shares({"x": {"brand=y": 0, "brand=z": 0, "price": 1}})
    assert abs(worths[:2].sum()) > 1e-3
    assert utility["share"][0] == 1.0


def test_sparse_features_are_the_same(model):
    other = fit(sparse.csr_array(FEATURES), DATA.table.feature_names)
    for method, arguments in (
        ("shares", (PRODUCTS,)),
        ("shares", (IDS[:3],)),
        ("part_worths", ()),
        ("willingness_to_pay", ("price",)),
        ("importances", ()),
        ("scores", (IDS[:3],)),
    ):
        numbers = (getattr(m, method)(*arguments).select_dtypes("number") for m in (model, other))
        assert_allclose(*numbers, rtol=1e-5, atol=1e-7)


def test_a_feature_with_the_name_of_a_column():
    model = fit(FEATURES[:, 3:], ["share", "none"])
    with pytest.raises(DataError, match="the result has a column 'share', too"):
        model.sensitivity("share", [1.0, 2.0], {"a": {"share": 1.0}, "b": {"share": 2.0}})


def test_features_without_names():
    model = fit(FEATURES)
    assert list(model.part_worths()["feature"]) == ["x0", "x1", "x2", "x3", "x4"]
    product = dict(zip(["x0", "x1", "x2", "x3", "x4"], [1, 0, 0, 2.0, 0], strict=True))
    assert model.shares({"a": product, "b": IDS[0]})["share"].sum() == pytest.approx(1.0)
    with pytest.raises(DataError, match="none=True needs 'none' in the model"):
        model.shares({"a": product}, none=True)


@pytest.mark.parametrize("price", ["nix", "brand", "brand=x", "none", None, ["price"]])
def test_prices_are_features_that_are_numbers(model, price):
    with pytest.raises(DataError, match=r"price must be a feature that is a number, \['price'\]; got"):
        model.willingness_to_pay(price)


# -------------------------------------------------------------------------------------------------------------- scores
def test_scores_add_up_to_100(model, of_items):
    for fitted in (model, of_items):
        frame = fitted.scores()
        assert frame["score"].sum() == pytest.approx(100.0)
        assert (np.diff(frame["score"]) <= 0.0).all()
        assert sorted(frame["item"]) == sorted(fitted.item_ids_)
    assert frame["item"][0] == "a"
    assert list(model.scores(IDS[:2], ["person 0"], random_state=3)["score"]) == list(
        model.scores(IDS[:2], ["person 0"], random_state=3)["score"]
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"items": []}, "items names no item"),
        ({"items": ["nix"]}, "unknown item 'nix'"),
        ({"users": []}, "users names nobody"),
        ({"credibility": 2}, "credibility must be a probability"),
        ({"n_samples": 0}, "n_samples must be an integer of at least 1"),
    ],
)
def test_scores_that_are_refused(model, options, message):
    with pytest.raises(DataError, match=message):
        model.scores(**options)


METHODS = [
    ("shares", (PRODUCTS,)),
    ("sensitivity", ("price", [1.0], PRODUCTS)),
    ("part_worths", ()),
    ("willingness_to_pay", ("price",)),
    ("importances", ()),
    ("scores", ()),
]


@pytest.mark.parametrize(("method", "arguments"), METHODS)
def test_models_of_comparisons_refuse(method, arguments):
    with pytest.raises(NotFittedError):
        getattr(CrowdGPPL(), method)(*arguments)
    pairs = CrowdGPPL(random_state=0).fit([["u", "a", "b"], ["v", "b", "a"], ["u", "b", "c"]], [1, 0, 1])
    with pytest.raises(DataError, match=f"{method} is for models of tasks, but this one was fitted to comparisons"):
        getattr(pairs, method)(*arguments)


def test_people_with_features():
    ids = np.unique(DATA.X[:, 0])
    users = Table(np.random.default_rng(0).standard_normal((ids.size, 2)), ids=ids)
    model = CrowdGPPL(DATA.table, users=users, random_state=0).fit(DATA.X, DATA.y)
    with pytest.raises(DataError, match="new_people=True needs a model without features of users"):
        model.shares(PRODUCTS, new_people=True)
    assert model.shares(PRODUCTS, users=np.zeros((2, 2)))["share"].sum() == pytest.approx(1.0)


def test_people_stand_for_others(model):
    kept = {user: float(k % 3 == 0) for k, user in enumerate(model.user_ids_.tolist())}
    weighted = model.shares(PRODUCTS, weights=kept, n_samples=2000)
    chosen = model.shares(PRODUCTS, users=[user for user, weight in kept.items() if weight], n_samples=2000)
    assert_allclose(weighted["share"], chosen["share"], atol=0.01)
    assert_allclose(model.shares(PRODUCTS, weights=dict.fromkeys(kept, 7.0))["share"], model.shares(PRODUCTS)["share"])
    for wrong, message in (
        ({"nobody": 1.0}, "weights must be a dict from all users"),
        (dict.fromkeys(kept, 0.0), "all users in a segment are 0"),
        (dict.fromkeys(kept, -1.0), "Negative values"),
    ):
        with pytest.raises(ValueError, match=message):
            model.shares(PRODUCTS, weights=wrong)
    with pytest.raises(DataError, match="leave users, by and weights out"):
        model.shares(PRODUCTS, weights=kept, new_people=True)
