"""CrowdGPPL: ids of any kind, unseen users, tables, utilities, rankings, neighbours, ablations, labels."""

from functools import cache

import numpy as np
import pytest
from scipy import sparse
from scipy.special import ndtr, ndtri
from sklearn.gaussian_process.kernels import RBF

from skpref import SVI, CrowdGPPL, FactorPrior, Gamma, GPPLClassifier, Table
from skpref.data import Comparisons
from skpref.exceptions import DataError, DataWarning, UnknownIdError

_rng = np.random.default_rng(5)
N, U, P = 10, 9, 400
FEATURES, PEOPLE = _rng.standard_normal((N, 2)), _rng.standard_normal((U, 3))
# All like the first feature. Users differ on the second, as their own first feature says.
PEOPLE[:, 0] = np.where(np.arange(U) % 3, 1.5, -1.5)
TASTES = 1.5 * FEATURES[:, 0] + PEOPLE[:, :1] * FEATURES[:, 1]
USER = _rng.integers(0, U - 1, P)  # the last user says nothing
LEFT = _rng.integers(0, N - 2, P)  # the last two items are never compared
RIGHT = (LEFT + _rng.integers(1, N - 2, P)) % (N - 2)
Y = (TASTES[USER, LEFT] - TASTES[USER, RIGHT] + _rng.standard_normal(P) > 0).astype(int)
X = np.column_stack([USER, LEFT, RIGHT])
ITEM = np.array([f"item {chr(110 - i)}" for i in range(N)], dtype=object)
WHO = np.array(["zoe", "yan", "xia", "wim", "val", "uma", "tom", "sue", "ron"], dtype=object)
NAMED = [(WHO[u], ITEM[a], ITEM[b]) for u, a, b in X]
TABLE, USERS = Table(FEATURES, ids=ITEM), Table(PEOPLE, ids=WHO)
SEEN, SPOKE = ITEM[:-2].tolist(), WHO[:-1].tolist()
LAYOUTS = {"ids": (None, None), "items": (TABLE, None), "users": (None, USERS), "both": (TABLE, USERS)}


def quick(items=None, users=None, **options):
    return CrowdGPPL(items, users, **{"n_factors": 2, "optimizer": None, "random_state": 0, **options})


@cache
def learnt(layout, inference="auto"):
    """A fit that no test changes."""
    return quick(*LAYOUTS[layout], inference=inference).fit(NAMED, Y)


@pytest.fixture(params=LAYOUTS)
def model(request):
    return learnt(request.param)


@pytest.fixture
def ids():
    return learnt("ids")


@pytest.fixture
def both():
    return learnt("both")


def test_what_a_fit_leaves(model):
    assert model.classes_.tolist() == [0, 1]
    assert sorted(model.item_ids_) == sorted(SEEN)
    assert sorted(model.user_ids_) == sorted(SPOKE)
    assert model.components_.tolist() == [0] * (N - 2)
    assert model.item_factors_.shape == (N - 2, 2)
    assert model.user_factors_.shape == (U - 1, 2)
    assert model.factor_scales_.shape == (2,)
    assert model.order_effect_ == (0.0, 0.0)
    assert model.n_features_in_ == 3
    assert model.converged_ is True
    assert model.n_iter_ == len(model.lower_bounds_)
    assert model.lower_bound_ == pytest.approx(model.lower_bounds_[-1], abs=1.0)
    with_items, with_users = model.items is not None, model.users is not None
    assert [x is not None for x in (model.kernel_, model.factor_kernel_, model.inducing_points_)] == [with_items] * 3
    assert (model.user_kernel_ is not None) == with_users
    assert model.inducing_users_ is None  # features of users are covariates as they are


def test_personal_utilities_are_learnt(model):
    alone = GPPLClassifier(random_state=0).fit([row[1:] for row in NAMED], Y)
    assert model.score(NAMED, Y) > alone.score([row[1:] for row in NAMED], Y) + 0.05
    assert max(model.factor_scales_) > 0.1
    personal = model.utility(SEEN, users=SPOKE)
    truth = TASTES[: U - 1, : N - 2]
    for got, wanted in zip(personal, truth, strict=True):
        assert np.corrcoef(got, wanted)[0, 1] > 0.8


# ------------------------------------------------------------------------------------------------------------------ ids


def test_a_user_and_an_item_may_have_the_same_id():
    fitted = quick(n_factors=1).fit([(0, 0, 1), (1, 1, 0), (0, 1, 2), ("0", 2, 0)], [1, 0, 1, 0])
    assert fitted.user_ids_.tolist() == [0, 1, "0"]
    assert fitted.item_ids_.tolist() == [0, 1, 2]


# --------------------------------------------------------------------------------------------------------- unseen users
def test_an_unseen_user_gets_the_consensus_and_wider_uncertainty(model):
    asked = [("unseen", a, b) for a in SEEN for b in SEEN if a != b]
    with pytest.warns(DataWarning, match=r"unknown user 'unseen' in row 0: it .*its utilities are"):
        mean, std = model.utility(SEEN, users=["unseen"], return_std=True)
    consensus, narrow = model.utility(SEEN, return_std=True)
    np.testing.assert_allclose(mean[0], consensus, atol=1e-12)
    assert np.all(std[0] > narrow)
    # Each answer is less sure than the consensus is of it, on the same side.
    p, best = model.predict_preference(asked), model.predict_preference([row[1:] for row in asked])
    assert np.all(np.sign(p - 0.5) == np.sign(best - 0.5))
    assert np.all(np.abs(p - 0.5) < np.abs(best - 0.5))
    np.testing.assert_array_equal(
        model.predict_proba([("another", *row[1:]) for row in asked]), model.predict_proba(asked)
    )


def test_a_misspelt_user_is_no_unseen_one(model):
    assert "zoe" in WHO
    for call in (model.rank, model.win_matrix):
        with pytest.raises(
            UnknownIdError, match=r"^unknown user 'zo' .*; user=None is the consensus; did you mean 'zoe'"
        ):
            call(user="zo")
    with pytest.warns(DataWarning, match=r"'zo' in row 1 \(and 1 more\).*; did you mean 'zoe'\?$"):
        model.utility(users=["zoe", "zo", "x"])


@pytest.mark.filterwarnings("ignore:unknown user")
def test_unseen_users_among_others(model):
    asked = ["nobody", WHO[3], WHO[0], ("no", "body"), WHO[3]]
    for got, alone in (
        (model.utility(SEEN, users=asked), [model.utility(SEEN, users=[u])[0] for u in asked]),
        (
            model.utility(SEEN, users=asked, return_std=True)[1],
            [model.utility(SEEN, users=[u], return_std=True)[1][0] for u in asked],
        ),
        (
            model.predict_proba([(u, *SEEN[:2]) for u in asked]),
            [model.predict_proba([(u, *SEEN[:2])])[0] for u in asked],
        ),
    ):
        np.testing.assert_allclose(got, alone, atol=1e-12)
    assert not np.allclose(model.utility(SEEN, users=asked)[1], model.utility(SEEN, users=asked)[0], atol=0.1)


@pytest.mark.parametrize("layout", ["ids", "users"])
def test_unseen_users_can_be_refused(layout):
    pd, model = pytest.importorskip("pandas"), learnt(layout)
    strict = quick(model.items, model.users, unknown_user="raise").fit(NAMED, Y)
    np.testing.assert_allclose(strict.predict_proba(NAMED), model.predict_proba(NAMED), atol=1e-12)
    asked = [NAMED[0], ("who?", *SEEN[:2]), ("or who?", *SEEN[:2])]
    for call in (strict.predict, strict.predict_proba, strict.decision_function, strict.predict_preference):
        with pytest.raises(UnknownIdError, match=r"unknown user 'who\?' in comparison 1 \(and 1 more\)"):
            call(asked)
    # A series of pandas is read by position and not by its index.
    for users in (["zoe", "who?"], pd.Series(["zoe", "who?"], index=[7, 3])):
        with pytest.raises(UnknownIdError, match=r"unknown user 'who\?' in row 1"):
            strict.utility(users=users)
    with pytest.raises(UnknownIdError, match="unknown user 7"):
        strict.rank(user=7)
    with pytest.raises(UnknownIdError, match="not in the table of users" if model.users else "not seen by fit"):
        strict.rank(user=7)


def test_row_64_ids_of_users_in_another_kind():
    numbered = quick().fit([[1, "a", "b"], [2, "b", "c"], [1, "a", "c"]])
    for call in (
        lambda: numbered.predict_proba([["1", "a", "b"]]),
        lambda: numbered.utility(users=["2"]),
        lambda: numbered.rank(user="1"),
        lambda: numbered.similar_users("1"),
        lambda: numbered.partial_fit([["1", "a", "b"]], [1]),
    ):
        with pytest.raises(UnknownIdError, match=r"unknown user '[12]' in .*are strings, .* are integers; convert"):
            call()
    with pytest.raises(ValueError, match="user must be the id of one user, got list"):
        numbered.rank(user=[1])


def test_row_67_words_stay_the_classes():
    words = np.where(Y == 1, "left", "right")
    plain, model = learnt("ids"), quick().fit(NAMED, words)
    assert model.classes_.tolist() == ["left", "right"]
    np.testing.assert_array_equal(model.predict_proba(NAMED), plain.predict_proba(NAMED)[:, ::-1])
    assert model.score(NAMED, words) == plain.score(NAMED, Y)
    model.partial_fit(NAMED[:3], [1, 0, 1]).partial_fit(NAMED[:2])
    assert model.classes_.tolist() == ["left", "right"]
    assert set(model.predict(NAMED)) == {"left", "right"}


def test_row_66_earlier_comparisons_show_the_side():
    with pytest.raises(ValueError, match="Say which side was shown first"):
        quick(order_effect=True).partial_fit(NAMED)
    model = quick(order_effect=True).fit(NAMED, Y)
    model.partial_fit(NAMED[:1])
    assert np.isfinite(model.order_effect_).all()


# ------------------------------------------------------------------------------------------------------ items and users
def test_items_without_comparisons(ids, both):
    np.testing.assert_allclose(ids.predict_proba([("zoe", "new", "newer"), ("zoe", "new", "new")]), 0.5, atol=1e-12)
    best = ids.rank(user="zoe").id[0]
    forth, back = ids.predict_proba([("zoe", best, "new"), ("zoe", "new", best)])
    assert forth[1] > 0.5
    np.testing.assert_allclose(forth, back[::-1], atol=1e-12)
    p = ids.predict_preference([(best, "new"), ("new", best), ("new", "newer")])
    assert p[0] > 0.5
    np.testing.assert_allclose([p[0] + p[1], p[2]], [1.0, 0.5], atol=1e-12)
    mean, std = both.utility([ITEM[0], ITEM[-1]], users=["zoe"], return_std=True)
    assert np.all(np.isfinite(mean))
    assert std[0, 1] > std[0, 0]
    for asked in ([NAMED[0], ("zoe", "new", ITEM[0])], [(ITEM[1], ITEM[0]), (ITEM[0], "new")]):
        with pytest.raises(UnknownIdError, match="unknown item 'new' in comparison 1"):
            both.predict_preference(asked)
    with pytest.raises(UnknownIdError, match="unknown item 'new' in row 0; in items"):
        ids.utility(["new"])


@pytest.mark.filterwarnings("ignore:unknown user")
def test_users_of_the_table_without_comparisons(both):
    silent, unseen = WHO[-1], "unseen"
    assert silent not in both.user_ids_
    mean, std = both.utility(SEEN, users=[silent, unseen, *SPOKE], return_std=True)
    # Similar users inform the prediction, less than a user's own answers do.
    alike = np.flatnonzero(PEOPLE[:-1, 0] == PEOPLE[-1, 0])
    gap = np.abs(mean[2:] - mean[0]).mean(axis=1)
    assert gap[alike].mean() < np.delete(gap, alike).mean()
    assert max(std[2:].mean(), std[0].mean()) < std[1].mean()
    factorised = learnt("both", "vb")
    std = factorised.utility(SEEN, users=[silent, unseen, *SPOKE], return_std=True)[1]
    assert std[2:].mean() < std[0].mean() < std[1].mean()
    assert both.predict_proba([(silent, *SEEN[:2])])[0, 1] != both.predict_proba([(unseen, *SEEN[:2])])[0, 1]
    with pytest.raises(UnknownIdError, match=f"user '{silent}' is in no comparison"):
        both.similar_users(silent)


def test_users_and_items_by_their_features(both):
    pd = pytest.importorskip("pandas")
    new, people = _rng.standard_normal((3, 2)), _rng.standard_normal((2, 3))
    wanted = both.utility(new, users=people)
    assert wanted.shape == (2, 3)
    for items, users in (
        (new.tolist(), people.tolist()),
        (Table(new, ids=["n1", "n2", "n3"]), Table(people, ids=["p", "q"])),
        (pd.DataFrame(new), pd.DataFrame(people)),
        (sparse.csr_array(new), sparse.csr_array(people)),
    ):
        np.testing.assert_allclose(both.utility(items, users=users), wanted, atol=1e-10)
    # Whoever has a user's features is like that user but for the user's own taste; items have an offset by their id.
    by_features, by_id = both.utility(users=PEOPLE[2:4]), both.utility(users=WHO[2:4])
    np.testing.assert_allclose(by_features, by_id, atol=0.05)
    assert np.all(by_features != by_id)
    factorised = learnt("both", "vb")
    np.testing.assert_allclose(factorised.utility(users=PEOPLE[2:4]), factorised.utility(users=WHO[2:4]), atol=1e-12)
    table = Table(FEATURES[[3, 0]], ids=[ITEM[3], "new"])
    mean, std = both.utility(table, return_std=True)
    by_id, by_id_std = both.utility([ITEM[3], ITEM[0]], return_std=True)
    np.testing.assert_allclose([mean[0], std[0]], [by_id[0], by_id_std[0]], atol=1e-12)
    assert std[1] > by_id_std[1]
    assert both.rank(Table(new, ids=["n1", "n2", "n3"]), user=WHO[0]).id.tolist() == [
        f"n{i + 1}" for i in np.argsort(-both.utility(new, users=[WHO[0]])[0])
    ]


def test_frames_of_features_keep_their_names():
    pd = pytest.importorskip("pandas")
    items, users = pd.DataFrame(FEATURES, columns=list("ab")), pd.DataFrame(PEOPLE, columns=list("cde"))
    fitted = quick(items, users).fit(X, Y)
    assert fitted.utility(items, users=users).shape == (U, N)
    for wrong in ({"items": items[["b", "a"]]}, {"users": users[["d", "c", "e"]]}):
        name = next(iter(wrong))
        with pytest.raises(DataError, match=f"{name}: the feature names should match"):
            fitted.utility(**wrong)


# ------------------------------------------------------------------------------------------------------------ utilities
def test_utilities(model):
    everything, std = model.utility(return_std=True)
    n = N if model.items is not None else N - 2
    assert everything.shape == std.shape == (n,)
    assert np.all(std > 0.0)
    known = model.rank().id
    np.testing.assert_allclose(model.utility(known), np.sort(everything)[::-1], atol=1e-12)
    personal, spread = model.utility(SEEN[2:5], users=WHO[:4], return_std=True)
    assert personal.shape == spread.shape == (4, 3)
    np.testing.assert_allclose(personal[2], model.utility(SEEN[2:5], users=[WHO[2]])[0], atol=1e-12)
    # Measured from the average of the items seen.
    np.testing.assert_allclose(model.utility(SEEN).mean(), 0.0, atol=1e-10)
    np.testing.assert_allclose(model.utility(SEEN, users=SPOKE).mean(axis=1), 0.0, atol=1e-10)


def test_predictions_follow_from_utilities(model):
    asked = NAMED[:40]
    place = {item: i for i, item in enumerate(SEEN)}
    u = {user: model.utility(SEEN, users=[user])[0] for user in SPOKE}
    z = np.array([u[who][place[a]] - u[who][place[b]] for who, a, b in asked])
    np.testing.assert_allclose(model.decision_function(asked), z, atol=1e-10)
    # The preference tells the variance of z, and the answer has the noise 1 besides.
    preference = model.predict_preference(asked)
    clear = (np.abs(preference - 0.5) > 1e-3) & (np.abs(preference - 0.5) < 0.5 - 1e-9)
    variance = (z[clear] / ndtri(preference[clear])) ** 2
    np.testing.assert_allclose(
        model.predict_proba(asked)[clear, 1], ndtr(z[clear] / np.sqrt(1.0 + variance)), atol=1e-6
    )


def test_preferences_of_the_consensus(model):
    pd = pytest.importorskip("pandas")
    u = model.utility(SEEN)
    pairs = [(a, b) for a in SEEN for b in SEEN]
    p = model.predict_preference(pairs).reshape(len(SEEN), -1)
    np.testing.assert_allclose(p + p.T, 1.0, atol=1e-12)
    np.testing.assert_array_equal(np.diag(p), 0.5)
    np.testing.assert_array_equal(p > 0.5, u[:, None] > u[None, :])
    for same in (
        pairs,
        np.array(pairs, dtype=object),
        np.array(pairs),
        pd.DataFrame(pairs),
        [list(row) for row in pairs],
    ):
        np.testing.assert_array_equal(model.predict_preference(same), p.ravel())
    assert model.predict_preference([("zoe", a, a) for a in SEEN]).tolist() == [0.5] * len(SEEN)


def test_preferences_of_items_whose_ids_are_tuples():
    rows = [("u", ("a", 1), ("a", 2)), ("v", ("a", 2), ("a", 3))]
    fitted = quick(n_factors=1).fit(rows, [1, 1])
    assert fitted.predict_preference([(("a", 1), ("a", 2))])[0] > 0.5
    assert fitted.predict_preference(rows[:1])[0] > 0.5
    assert fitted.rank(user="u").id[0] == ("a", 1)


def test_rankings(model):
    for user in (None, WHO[1]):
        ranking = model.rank(user=user)
        mean, std = (x.ravel() for x in model.utility(ranking.id, None if user is None else [user], return_std=True))
        np.testing.assert_allclose(ranking.utility, mean, atol=1e-12)
        np.testing.assert_allclose(ranking.std, std, atol=1e-12)
        assert np.all(np.diff(mean) <= 0.0)
        assert ranking.rank.tolist() == list(range(1, len(ranking) + 1))
        assert ranking.probability_best.sum() == pytest.approx(1.0)
        assert np.all(ranking.rank_low <= ranking.rank_high)
        again = model.rank(user=user)
        np.testing.assert_array_equal(again.probability_best, ranking.probability_best)
        wide, narrow = (model.rank(user=user, credibility=c) for c in (0.99, 0.5))
        assert np.all(wide.rank_high - wide.rank_low >= narrow.rank_high - narrow.rank_low)
        some = model.rank(SEEN[:3], user=user, n_samples=50, random_state=np.random.default_rng(1))
        assert sorted(some.id) == sorted(SEEN[:3])
    for items in ([], [SEEN[0], SEEN[0]]):
        with pytest.raises(DataError, match="items must be distinct, and at least one"):
            model.rank(items, user=WHO[0])


# ----------------------------------------------------------------------------------------------------------- neighbours
def test_neighbours(model):
    personal = model.utility(model.item_ids_, users=model.user_ids_)
    own = personal - model.utility(model.item_ids_)
    for call, names, table in (
        (model.similar_users, model.user_ids_, personal),
        (model.similar_items, model.item_ids_, own.T),
    ):
        near, distance = call(names[2])
        wanted = np.sqrt(np.mean((table - table[2]) ** 2, axis=1))
        assert names[2] not in near
        assert len(near) == len(names) - 1
        place = [names.tolist().index(name) for name in near]
        np.testing.assert_allclose(distance, wanted[place], atol=1e-10)
        assert np.all(np.diff(distance) >= 0.0)
        few, _ = call(names[2], n=2)
        assert few.tolist() == near[:2].tolist()
    # People of one taste are nearer to each other.
    near, _ = model.similar_users(WHO[1], n=4)
    assert np.mean([PEOPLE[WHO.tolist().index(name), 0] for name in near] == PEOPLE[1, 0]) > 0.7


def test_neighbours_need_comparisons(ids, both):
    for fitted in (ids, both):
        with pytest.raises(UnknownIdError, match="unknown user 'nobody' is in no comparison"):
            fitted.similar_users("nobody")
        with pytest.raises(UnknownIdError, match="unknown item 'nothing' is in no comparison"):
            fitted.similar_items("nothing")
        for n in (0, -1, 1.5, "2"):
            with pytest.raises(DataError, match="n must be an integer of at least 1"):
                fitted.similar_users("zoe", n=n)
    with pytest.raises(UnknownIdError, match=f"^item '{ITEM[-1]}' is in no comparison"):
        both.similar_items(ITEM[-1])


def test_without_factors_all_are_neighbours():
    fitted = quick(n_factors=0).fit(NAMED, Y)
    assert fitted.similar_users("zoe")[1].tolist() == [0.0] * (U - 2)


# ------------------------------------------------------------------------------------------------------------- variants
@pytest.mark.filterwarnings("ignore:unknown user")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_without_factors_all_users_have_the_consensus(layout):
    fitted = quick(*LAYOUTS[layout], n_factors=0, scale_prior=Gamma(1.0, 1.0), tol=1e-8).fit(NAMED, Y)
    prior = {"scale_prior": Gamma(1.0, 1.0)}
    alone = GPPLClassifier(LAYOUTS[layout][0], optimizer=None, tol=1e-8, **prior).fit([row[1:] for row in NAMED], Y)
    np.testing.assert_allclose(fitted.utility(SEEN), alone.utility(SEEN), atol=1e-4)
    personal, std = fitted.utility(SEEN, users=[*WHO[:3], "unseen"], return_std=True)
    consensus, wide = fitted.utility(SEEN, return_std=True)
    np.testing.assert_allclose(personal, np.tile(consensus, (4, 1)), atol=1e-12)
    np.testing.assert_allclose(std, np.tile(wide, (4, 1)), atol=1e-12)
    assert fitted.user_factors_.shape == (U - 1, 0)
    assert fitted.factor_scales_.shape == (0,)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_without_consensus_there_are_personal_utilities_only(layout):
    fitted = quick(*LAYOUTS[layout], consensus=False).fit(NAMED, Y)
    np.testing.assert_array_equal(fitted.utility(), 0.0)
    np.testing.assert_array_equal(fitted.predict_preference([SEEN[:2], SEEN[1:3]]), 0.5)
    np.testing.assert_allclose(fitted.predict_proba([("unseen", *SEEN[:2])]), 0.5, atol=1e-12)
    assert fitted.score(NAMED, Y) > 0.75


@pytest.mark.parametrize("layout", LAYOUTS)
def test_order_effects_of_all_and_of_each(layout):
    rng = np.random.default_rng(2)
    user, left = np.repeat(np.arange(U - 1), 200), rng.integers(0, N - 2, 200 * (U - 1))
    right = (left + rng.integers(1, N - 2, left.size)) % (N - 2)
    bias = np.where(np.arange(U - 1) < 4, 1.4, 0.2)
    noise = rng.standard_normal(left.size)
    y = (TASTES[user, left] - TASTES[user, right] + bias[user] + noise > 0).astype(int)
    rows = [(WHO[u], ITEM[a], ITEM[b]) for u, a, b in zip(user, left, right, strict=True)]
    fitted = quick(*LAYOUTS[layout], order_effect=True).fit(rows, y)
    mean, std = fitted.order_effect_
    assert abs(mean - bias.mean()) < 0.4
    assert 0.0 < std < 0.5
    forth, back = (fitted.predict_proba([(who, *pair) for who in SPOKE])[:, 1] for pair in (SEEN[:2], SEEN[1::-1]))
    # Who favours the left side says "left" whichever it is, by what is added to either difference.
    assert np.all(forth + back > 1.0)
    lean = 0.5 * sum(fitted.decision_function([(who, *pair) for who in SPOKE]) for pair in (SEEN[:2], SEEN[1::-1]))
    np.testing.assert_allclose(lean, bias, atol=0.8)
    assert lean[:4].min() > lean[4:].max()
    # And that is no matter of which item is better.
    a, b = (fitted.predict_preference([(who, *pair) for who in SPOKE]) for pair in (SEEN[:2], SEEN[1::-1]))
    np.testing.assert_allclose(a + b, 1.0, atol=1e-12)
    z = fitted.decision_function([("unseen", *SEEN[:2])]) + fitted.decision_function([("unseen", *SEEN[1::-1])])
    assert z[0] == pytest.approx(2.0 * mean)


@pytest.mark.parametrize(
    ("likelihood", "layout"), [("probit", "both"), ("logit", "ids"), ("probit-ties", "ids"), ("logit-ties", "both")]
)
@pytest.mark.filterwarnings("ignore:.*did not converge")
def test_every_likelihood(likelihood, layout):
    fitted = quick(*LAYOUTS[layout], likelihood=likelihood).fit(NAMED, Y)
    assert fitted.score(NAMED, Y) > 0.75
    bounds = quick(*LAYOUTS[layout], likelihood=likelihood, inference="vb", max_iter=25).fit(NAMED, Y).lower_bounds_
    assert np.diff(bounds).min() > -1e-6
    assert type(fitted.likelihood_).__name__.lower() == f"pairwise{likelihood.replace('-', '')}"


@pytest.mark.parametrize(
    ("inference", "layout"),
    [
        *(("ep", "ids"), ("ep", "both"), ("ep", "items"), ("ep", "users")),
        *(("svi", "ids"), ("svi", "both"), ("linearised", "users"), ("linearised", "both")),
    ],
)
@pytest.mark.filterwarnings("ignore:.*did not converge")
def test_every_inference_agrees_roughly(inference, layout):
    wanted = learnt(layout, "vb").predict_proba(NAMED)
    fitted = quick(*LAYOUTS[layout], inference=SVI(150) if inference == "svi" else inference).fit(NAMED, Y)
    gap = np.abs(fitted.predict_proba(NAMED) - wanted)
    assert gap.mean() < (0.08 if inference == "linearised" else 0.06)


@pytest.mark.parametrize("inference", ["vb", "linearised"])
@pytest.mark.parametrize("layout", ["ids", "both"])
@pytest.mark.filterwarnings("ignore:.*did not converge")
def test_opposite_answers_need_not_be_merged(inference, layout, monkeypatch):
    rows, y = NAMED[:60] * 2, [*Y[:60], *(1 - Y[:60])]
    y[60:100] = Y[:40]
    options = {"inference": inference, "max_iter": 20, "tol": 0.0}
    merged = quick(*LAYOUTS[layout], **options).fit(rows, y)
    monkeypatch.setattr(Comparisons, "merged", lambda self, **_: self)
    apart = quick(*LAYOUTS[layout], **options).fit(rows, y)
    np.testing.assert_allclose(merged.decision_function(NAMED), apart.decision_function(NAMED), atol=1e-9)
    np.testing.assert_allclose(merged.utility(SEEN, users=SPOKE), apart.utility(SEEN, users=SPOKE), atol=1e-9)


@pytest.mark.filterwarnings("ignore:.*did not converge")
def test_fewer_inducing_points_than_items_and_users():
    of_users = {"factor_prior": FactorPrior(user_kernel=RBF(3.0)), "max_iter": 3}
    fitted = quick(TABLE, USERS, inducing=4, **of_users).fit(NAMED, Y)
    assert fitted.inducing_points_.shape == (4, 2)
    assert fitted.inducing_users_.shape == (4, 3)
    assert np.all(np.isfinite(fitted.predict_proba(NAMED)))
    given = quick(TABLE, USERS, inducing=FEATURES[:3], max_iter=3).fit(NAMED, Y)
    np.testing.assert_array_equal(given.inducing_points_, FEATURES[:3])
    plenty = quick(TABLE, USERS, inducing=500, **of_users).fit(NAMED, Y)
    assert plenty.inducing_points_.shape == (N - 2, 2)
    assert plenty.inducing_users_.shape == (U - 1, 3)


# --------------------------------------------------------------------------------------------------------------- labels
def test_a_soft_label_is_two_weighted_ones():
    y = np.linspace(0.0, 1.0, P)
    soft = quick(inference="vb").fit(NAMED, y)
    hard = quick(inference="vb").fit(NAMED + NAMED, np.repeat([1, 0], P), sample_weight=np.concatenate([y, 1.0 - y]))
    np.testing.assert_allclose(soft.predict_proba(NAMED), hard.predict_proba(NAMED), atol=1e-9)


def test_ties_draw_together_and_are_not_scored():
    rows = [("u", "a", "b"), ("v", "a", "b")] * 20 + [("u", "a", "c"), ("v", "a", "c")] * 20
    tied = quick().fit(rows, [0.5] * 40 + [1] * 40)
    p = tied.predict_proba([("u", "a", "b"), ("u", "a", "c")])[:, 1]
    assert p[0] == pytest.approx(0.5, abs=0.15)
    assert p[1] > 0.85
    assert tied.score([("u", "a", "c"), ("u", "a", "b")], [1, 0.5]) == 1.0


def test_ties_are_an_answer_of_their_own():
    rng = np.random.default_rng(1)
    z = TASTES[USER, LEFT] - TASTES[USER, RIGHT] + rng.standard_normal(P)
    y = np.where(z > 0.6, 1.0, np.where(z < -0.6, 0.0, 0.5))
    fitted = quick(likelihood="probit-ties").fit(NAMED, y)
    assert abs(fitted.likelihood_.threshold - 0.6) < 0.35
    half = quick(likelihood="probit").fit(NAMED, y)
    # Where a tie is not half a win, utility differences keep their size.
    assert np.ptp(fitted.utility(SEEN)) > np.ptp(half.utility(SEEN))


def test_more_factors_than_users_are_an_upper_limit():
    rows = [(u, a, (a + 1) % 5) for u in "ab" for a in range(5)]
    y = [1, 0] * 5
    fitted = quick(n_factors=5).fit(rows, y)
    assert fitted.factor_scales_.shape == (5,)
    assert fitted.user_factors_.shape == (2, 5)
    assert np.all(np.isfinite(fitted.predict_proba(rows)))
