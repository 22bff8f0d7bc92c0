"""CrowdGPPL from fit to fit: more comparisons later, warm starts, failures, weights, and what a fit leaves alone."""

import warnings
from types import SimpleNamespace

import joblib
import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF

from skpref import SVI, CrowdGPPL, FactorPrior, Table
from skpref.exceptions import DataError, DataWarning, UnknownIdError
from skpref.gp.crowd import fit as crowd_fit
from skpref.inference.svi import Schedule
from skpref.kernels import Linear
from tests.policies import set_policy

_rng = np.random.default_rng(6)
N, U, P = 8, 8, 320
FEATURES, PEOPLE = _rng.standard_normal((N, 2)), _rng.standard_normal((U, 2))
PEOPLE[:, 0] = np.where(np.arange(U) % 2, 1.5, -1.5)
TASTES = FEATURES[:, 0] + PEOPLE[:, :1] * FEATURES[:, 1]
# The first half is by users 0 to 5 of items 0 to 5, the second by all of all.
HALF = np.arange(P) < P // 2
USER = np.where(HALF, _rng.integers(0, U - 2, P), _rng.integers(0, U, P))
LEFT = np.where(HALF, _rng.integers(0, N - 2, P), _rng.integers(0, N, P))
RIGHT = np.where(HALF, (LEFT + _rng.integers(1, N - 2, P)) % (N - 2), (LEFT + _rng.integers(1, N, P)) % N)
Y = (TASTES[USER, LEFT] - TASTES[USER, RIGHT] + _rng.standard_normal(P) > 0).astype(int)
ITEM, WHO = [f"item {i}" for i in range(N)], [f"user {u}" for u in range(U)]
ROWS = [(WHO[u], ITEM[a], ITEM[b]) for u, a, b in zip(USER, LEFT, RIGHT, strict=True)]
OLD, NEW, Y_OLD, Y_NEW = ROWS[: P // 2], ROWS[P // 2 :], Y[: P // 2], Y[P // 2 :]
LAYOUTS = {"ids": (False, False), "items": (True, False), "users": (False, True), "both": (True, True)}
layouts = pytest.mark.parametrize("layout", LAYOUTS)
extremes = pytest.mark.parametrize("layout", ["ids", "both"])


def tables(layout, part=slice(None)):
    """Features of a part of the items and of the users, where the layout has features."""
    items, users = LAYOUTS[layout]
    return {
        "items": Table(FEATURES[part], ids=ITEM[part]) if items else None,
        "users": Table(PEOPLE[part], ids=WHO[part]) if users else None,
    }


def quick(**options):
    return CrowdGPPL(**{"n_factors": 2, "optimizer": None, "inference": "vb", "random_state": 0, **options})


def state_of(model):
    return str(joblib.hash(vars(model)))


# ----------------------------------------------------------------------------------------------------- more comparisons
@pytest.mark.parametrize(
    ("layout", "order_effect"), [("ids", True), ("items", False), ("users", False), ("both", False), ("both", True)]
)
def test_partial_fit_ends_where_one_fit_does(layout, order_effect):
    options = {"tol": 1e-5, "max_iter": 3000, "order_effect": order_effect}
    both = LAYOUTS[layout]
    if both[0]:  # where kernels start from the median distance, the items at hand would decide
        options["kernel"] = RBF(2.0)
    if both[1]:
        options["factor_prior"] = FactorPrior(user_kernel=RBF(2.0))
    whole = quick(**tables(layout), **options, inducing=FEATURES).fit(ROWS, Y)
    first, later = tables(layout, slice(0, N - 2)), tables(layout, slice(N - 2, None))
    parts = quick(**first, **options, inducing=FEATURES).fit(OLD, Y_OLD)
    assert parts.factor_scales_.max() > 0.05  # there is a factor to start from
    assert parts.partial_fit(NEW, Y_NEW, **later) is parts
    assert sorted(parts.item_ids_) == ITEM
    assert sorted(parts.user_ids_) == WHO
    assert parts.item_ids_[: N - 2].tolist() == ITEM[: N - 2]  # the old ones keep their places
    if not both[1]:  # users' inducing points stay those of the first users, which is another approximation
        np.testing.assert_allclose(parts.lower_bound_, whole.lower_bound_, atol=0.05)
    gap = 0.1 if both[1] else 0.01
    np.testing.assert_allclose(parts.predict_proba(ROWS), whole.predict_proba(ROWS), atol=gap)
    np.testing.assert_allclose(parts.utility(ITEM), whole.utility(ITEM), atol=3.0 * gap)
    np.testing.assert_allclose(parts.utility(ITEM, users=WHO), whole.utility(ITEM, users=WHO), atol=6.0 * gap)
    np.testing.assert_allclose(parts.order_effect_, whole.order_effect_, atol=gap)
    agreement = (parts.annotators(n_samples=20), whole.annotators(n_samples=20))
    by_user = [report.set_index("user").loc[WHO, "n_labels"] for report in agreement]
    np.testing.assert_allclose(*by_user)


@extremes
def test_many_small_steps_end_where_one_does(layout):
    both = tables(layout)
    model = quick(**both, tol=1e-5).fit(OLD, Y_OLD)
    for start in range(0, P // 2, 40):
        model.partial_fit(NEW[start : start + 40], Y_NEW[start : start + 40])
    once = quick(**both, tol=1e-5).fit(OLD, Y_OLD).partial_fit(NEW, Y_NEW)
    np.testing.assert_allclose(model.predict_proba(ROWS), once.predict_proba(ROWS), atol=0.02)


def test_a_first_partial_fit_takes_no_tables():
    with pytest.raises(DataError, match="before the first call, pass them to CrowdGPPL"):
        quick().partial_fit(ROWS, Y, items=Table(FEATURES, ids=ITEM))


def test_what_is_remembered_does_not_grow_with_repetitions():
    model = quick(n_factors=1).fit(OLD, Y_OLD)
    size = model._comparisons.n_pairs
    model.partial_fit(OLD, Y_OLD)
    assert model._comparisons.n_pairs == size
    twice = quick(n_factors=1).fit(OLD, Y_OLD, np.full(P // 2, 2.0))
    np.testing.assert_allclose(model.predict_proba(OLD), twice.predict_proba(OLD), atol=0.02)


@layouts
def test_partial_fit_after_factors_were_dropped(layout):
    model = quick(**tables(layout), n_factors=4).fit(OLD, Y_OLD)
    scales, alive = model.factor_scales_, set(model._alive)
    assert 0 < len(alive) < 4
    model.partial_fit(NEW, Y_NEW)
    assert model.factor_scales_.shape == (4,)
    assert model.item_factors_.shape == (N, 4)
    assert model.user_factors_.shape == (U, 4)
    dropped = sorted(set(range(4)) - set(model._alive))
    np.testing.assert_array_equal(model.item_factors_[:, dropped], 0.0)
    np.testing.assert_array_equal(model.user_factors_[:, dropped], 0.0)
    assert np.all(model.factor_scales_[dropped] < 0.1)
    assert scales.shape == (4,)
    assert model.score(ROWS, Y) > 0.75


@pytest.mark.parametrize("options", [{}, {"consensus": False}], ids=str)
def test_factors_come_back_when_more_comparisons_support_them(options):
    # The first comparisons are too few for a taste; all of them show it clearly.
    whole = quick(**options).fit(ROWS, Y)
    parts = quick(**options).fit(OLD[:24], Y_OLD[:24])
    assert whole.factor_scales_.max() > 0.1
    assert not parts._alive
    parts.partial_fit(ROWS[24:], Y[24:])
    assert parts.lower_bound_ > whole.lower_bound_ - 5.0
    assert parts.score(ROWS, Y) > whole.score(ROWS, Y) - 0.03


@pytest.mark.filterwarnings("ignore:The comparisons form", "ignore:.*did not converge")
def test_many_users_with_one_answer_each(monkeypatch):
    # As above four million numbers users x items, with fewer items than users.
    set_policy(monkeypatch, "gp.crowd", small_svd=0)
    left = np.arange(40) % 6
    rows = np.column_stack([np.arange(40), left, (left + 1 + np.arange(40) % 4) % 6])
    assert np.all(np.isfinite(quick().fit(rows, np.arange(40) % 2).predict_proba(rows)))


def test_ids_of_other_kinds_join_later():
    model = quick().fit(OLD, Y_OLD)
    before = model.item_ids_.tolist()
    model.partial_fit([(("a", 1), 7, ITEM[0]), ("user 0", 2**70, b"bytes"), ("user 0", 7, b"bytes")], [1, 0, 1])
    assert model.item_ids_[: len(before)].tolist() == before
    assert set(model.item_ids_[len(before) :]) == {7, 2**70, b"bytes"}
    assert model.user_ids_[-1] == ("a", 1)
    assert model.utility([7, b"bytes"], users=[("a", 1), "user 0"]).shape == (2, 2)


def test_users_and_items_without_weight_are_unseen():
    model = quick().fit([*OLD, ("nobody", ITEM[0], "nothing")], [*Y_OLD, 1], [1.0] * len(OLD) + [0.0])
    assert "nobody" not in model.user_ids_
    assert "nothing" not in model.item_ids_
    np.testing.assert_allclose(
        model.utility(["nothing"], users=["nobody"]), model.utility(["nothing"])[None], atol=1e-12
    )
    model.partial_fit([("nobody", ITEM[0], "nothing")], [1])
    assert "nobody" in model.user_ids_
    assert model.predict_proba([("nobody", ITEM[0], "nothing")])[0, 1] > 0.5


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"n_factors": 3}, "n_factors differs from that of the fit, which had 2; got 3"),
        ({"consensus": False}, "consensus differs from that of the fit, which had True; got False"),
        ({"order_effect": True}, "order_effect differs from that of the fit, which had False; got True"),
        ({"item_effects": False}, "item_effects differs from that of the fit, which had True; got False"),
        ({"items": None}, "whether items have features differs from that of the fit, which had True"),
        ({"users": None}, "whether users have features differs from that of the fit, which had True"),
    ],
)
def test_parameters_that_make_another_model_must_not_change(change, text):
    model = quick(**tables("both")).fit(OLD, Y_OLD)
    before = model.predict_proba(ROWS)
    with pytest.raises(DataError, match=text):
        model.set_params(**change).partial_fit(NEW, Y_NEW)
    np.testing.assert_array_equal(model.predict_proba(ROWS), before)


def test_parameters_of_the_loop_may_change():
    model = quick(max_iter=500).fit(OLD, Y_OLD)
    model.set_params(inference=SVI(100), tol=1e-2, likelihood="logit", unknown_user="raise")
    assert model.partial_fit(NEW, Y_NEW).score(ROWS, Y) > 0.75
    assert type(model.likelihood_).__name__ == "PairwiseLogit"


@pytest.mark.parametrize("side", ["items", "users"])
def test_features_of_new_items_and_users_are_checked(side):
    row = ("user 0", ITEM[0], "new") if side == "items" else ("new", ITEM[0], ITEM[1])
    kind = side[:-1]
    model = quick(**tables("both")).fit(OLD, Y_OLD)
    before = state_of(model)
    old = ITEM[0] if side == "items" else WHO[0]
    for text, given_ in {
        rf"unknown {kind} 'new' in comparison 1: .*{side}=Table\(features, ids": None,
        rf"unknown {kind} 'new' in comparison 1": Table([[0.0, 0.0]], ids=["someone else"]),
        f"{side} has 3 features, but CrowdGPPL is expecting 2": Table([[0.0] * 3], ids=["new"]),
        f"{kind} '{old}' in row 1 of {side} has features already": Table([[0.0] * 2] * 2, ids=["new", old]),
        f"new {side} need ids": [[0.0, 0.0]],
        f"{side}: Input X contains NaN": [[0.0, np.nan]],
    }.items():
        with pytest.raises(DataError, match=text):
            model.partial_fit([ROWS[0], row], [1, 1], **{side: given_})
        assert state_of(model) == before
    with pytest.raises(DataError, match=f"{side} has 2 features, but CrowdGPPL is expecting 0"):
        quick().fit(OLD, Y_OLD).partial_fit([row], [1], **{side: Table([[0.0, 0.0]], ids=["new"])})
    model.partial_fit([row], [1], **{side: Table([[0.3, 0.4]], ids=["new"])})
    assert "new" in (model.item_ids_ if side == "items" else model.user_ids_)


# ---------------------------------------------------------------------------------------------------------- warm starts
@extremes
def test_a_warm_start_needs_fewer_passes(layout):
    options = {**tables(layout), "tol": 1e-5, "max_iter": 2000}
    warm = quick(**options, warm_start=True).fit(ROWS, Y)
    cold = warm.n_iter_
    proba = warm.predict_proba(ROWS)
    warm.fit(ROWS, Y)
    assert warm.n_iter_ < 0.75 * cold  # some of them try once more the factors that were dropped
    np.testing.assert_allclose(warm.predict_proba(ROWS), proba, atol=1e-2)
    # Other items: a cold start.
    others = [(u, f"{a}!", f"{b}!") for u, a, b in ROWS]
    fresh = quick(warm_start=True).fit(ROWS, Y).fit(others, Y)
    assert fresh.predict_proba(others).tobytes() == quick().fit(others, Y).predict_proba(others).tobytes()


@pytest.mark.parametrize(
    "change",
    [
        {"kernel": RBF(1.0004)},
        {"factor_prior": FactorPrior(Linear())},
        {"factor_prior": FactorPrior(user_kernel=RBF(0.5))},
        {"n_factors": 1},
        {"order_effect": True},
        {"item_effects": False},
        {"inducing": FEATURES[:3]},
        {"inducing": 3},
        {"kernel": None, "optimizer": "auto"},
        {"optimizer": "l-bfgs-b"},
    ],
    ids=lambda change: next(iter(change)),
)
@pytest.mark.filterwarnings("ignore:.*did not converge")
def test_a_warm_start_of_another_model_is_a_cold_one(change):
    options = {**tables("both"), "kernel": RBF(1.0), "max_iter": 4}
    warm = quick(**options, warm_start=True).fit(OLD, Y_OLD).set_params(**change).fit(OLD, Y_OLD)
    cold = quick(**{**options, **change}).fit(OLD, Y_OLD)
    assert warm.predict_proba(ROWS).tobytes() == cold.predict_proba(ROWS).tobytes()


# ------------------------------------------------------------------------------------------------------------- failures


def test_a_failure_late_in_a_fit_leaves_the_earlier_one(monkeypatch):
    model = quick().fit(OLD, Y_OLD)
    before = state_of(model)

    def out_of_memory(*_, **__):
        raise MemoryError

    monkeypatch.setattr("skpref.gp.crowd.base.set_trace", out_of_memory)
    for method in ("fit", "partial_fit"):
        with pytest.raises(MemoryError):
            getattr(model, method)(NEW, Y_NEW)
        assert state_of(model) == before


def test_a_failed_first_fit_leaves_nothing():
    model = quick()
    before = state_of(model)
    for method in ("fit", "partial_fit"):
        with pytest.raises(UnknownIdError):
            getattr(model.set_params(items=FEATURES), method)(ROWS, Y)
        assert state_of(model.set_params(items=None)) == before


def test_warnings():
    with pytest.warns(ConvergenceWarning, match=r"CrowdGPPL did not converge in 1 iterations \(max_iter=1\)"):
        model = quick(max_iter=1).fit(ROWS, Y)
    assert model.converged_ is False
    assert model.n_iter_ == 1
    with pytest.warns(DataWarning, match="2 connected components") as record:
        model = quick(n_factors=1).fit([("u", "a", "b"), ("v", "c", "d")], [1, 0])
    assert record[0].filename == __file__
    assert model.components_.tolist() == [0, 0, 1, 1]
    constant = np.column_stack([PEOPLE, np.ones(U)])
    with pytest.warns(DataWarning, match="1 of 3 features are constant over the users who compared .*columns 2"):
        flat = quick(users=Table(constant, ids=WHO)).fit(ROWS, Y)
    plain = quick(users=Table(PEOPLE, ids=WHO)).fit(ROWS, Y)
    np.testing.assert_allclose(flat.predict_proba(ROWS), plain.predict_proba(ROWS), atol=0.02)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        quick(items=Table(FEATURES, ids=ITEM)).fit(ROWS, Y)


# ---------------------------------------------------------------------------------------------------- sameness, weights


@extremes
def test_any_random_state_ends_nearby(layout):
    model = quick(**tables(layout), random_state=None).fit(ROWS, Y)
    wanted = quick(**tables(layout)).fit(ROWS, Y)
    np.testing.assert_allclose(model.predict_proba(ROWS), wanted.predict_proba(ROWS), atol=0.02)


def test_what_is_done_to_the_input_later_changes_nothing():
    X, y, weight = np.column_stack([USER, LEFT, RIGHT]), Y.astype(float), np.linspace(0.0, 2.0, P)
    features, people = FEATURES.copy(), PEOPLE.copy()
    model = quick(items=features, users=people, order_effect=True).fit(X, y, weight)
    assert model.items is features
    proba = model.predict_proba(X)
    for array in (y, weight, features, people):
        array[...] = 0.0
    np.testing.assert_array_equal(model.predict_proba(X), proba)


# ----------------------------------------------------------------------------------------------------------- life cycle


@pytest.mark.parametrize(("n", "batch_size"), [(2**20, None), (2**20 + 1, 2**19), (2**24, 2**19)])
def test_auto_takes_mini_batches_above_the_largest_number_of_entries(n, batch_size):
    pair = SimpleNamespace(inference="auto", schedule=Schedule())
    model, problem = (
        SimpleNamespace(config=SimpleNamespace(pair=pair), alive=range(8)),
        SimpleNamespace(n_observations=n),
    )
    chosen = crowd_fit._schedule(model, problem).batch_size
    assert chosen == batch_size
    assert isinstance(chosen, int) is (batch_size is not None)


def test_tastes_that_vary_faster_than_the_consensus_get_shorter_length_scales():
    rng = np.random.default_rng(0)
    places = np.sort(rng.uniform(0.0, 10.0, 30))
    user, left = rng.integers(0, 8, 600), rng.integers(0, 30, 600)
    right = (left + rng.integers(1, 30, 600)) % 30
    side = np.where(user % 2, 3.0, -3.0)
    waves, slope = np.sin(3.0 * places), 0.3 * places
    difference = slope[left] - slope[right] + side * (waves[left] - waves[right])
    y = (difference + rng.standard_normal(600) > 0.0).astype(int)
    model = quick(items=Table(places[:, None]), n_factors=1, optimizer="auto")
    model.fit(np.column_stack([user, left, right]), y)
    assert 4.0 * model.factor_kernel_.length_scale < model.kernel_.length_scale


@pytest.mark.parametrize(("shift", "straight"), [(0.0, True), (1e6, False)])
def test_linear_tastes_get_a_linear_kernel_unless_features_are_far_from_zero(shift, *, straight):
    rng = np.random.default_rng(0)
    features, weights = rng.standard_normal((30, 3)), rng.standard_normal((20, 3))
    user, left = rng.integers(0, 20, 500), rng.integers(0, 30, 500)
    right = (left + rng.integers(1, 30, 500)) % 30
    difference = 2.0 * np.einsum("cf,cf->c", features[left] - features[right], weights[user])
    y = (difference + rng.standard_normal(500) > 0.0).astype(int)
    X = np.column_stack([user, left, right])
    for inference in ("ep", "vb"):
        model = CrowdGPPL(Table(features + shift), n_factors=3, inference=inference, random_state=0).fit(X, y)
        assert isinstance(model.factor_kernel_, Linear) is straight
    given = quick(items=Table(features), kernel=model.kernel_, n_factors=3, optimizer="auto").fit(X, y)
    assert not isinstance(given.factor_kernel_, Linear)
