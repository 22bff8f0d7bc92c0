"""Users with posteriors of their own: against the joint Gaussian, against exact sums, under renaming."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import ndtr

from skpref import CrowdGPPL, Table
from skpref.datasets import make_crowd
from skpref.exceptions import DataError
from skpref.gp.crowd import hierarchy, tastes
from skpref.gp.crowd.hierarchy import Hierarchy, fit_hierarchy, start_state
from skpref.gp.crowd.places import Places
from skpref.gp.crowd.posterior import UNSEEN_USER
from skpref.gp.crowd.users import UserRows
from skpref.inference.scale import FixedScale, GammaScale, moved_scale
from skpref.likelihoods import PairwiseProbit
from tests.policies import set_policy

DATA = make_crowd(n_users=12, n_items=6, n_comparisons=200, n_factors=1, random_state=2)
LAYOUTS = {
    "ids": {},
    "order": {"order_effect": True},
    "users": {"users": DATA.user_table},
    "items": {"items": DATA.table},
    "all": {"items": DATA.table, "users": DATA.user_table, "order_effect": True},
}


@pytest.fixture(autouse=True)
def _known_covariance(monkeypatch):
    """Take S for known, so that the posterior is one joint normal distribution."""
    set_policy(monkeypatch, "gp.crowd", largest_spread=0.0, spread_passes=1)  # sites stay


def joint(posterior):
    """Mean and covariance of (consensus variables, b of each user) by one dense solve; rows of the consensus."""
    consensus, n = posterior.consensus, posterior.S.shape[0]
    rows = posterior.half_rows @ np.linalg.inv(consensus.half.T)
    sizes = {"f": consensus.n_basis, "offset": consensus.n_seen, "order": int(consensus.has_order)}
    prior = [np.full(size, posterior.scales[name].mean) for name, size in sizes.items() if size]
    K = consensus.mean.size
    precision = np.zeros((K + n * posterior.n_users,) * 2)
    precision[:K, :K] = np.diag(np.concatenate(prior))
    linear = np.zeros(len(precision))
    for u in range(posterior.n_users):
        own = slice(K + u * n, K + (u + 1) * n)
        precision[own, own] = np.linalg.inv(posterior.S)
    for p, u in enumerate(posterior.user):
        a = contrast(posterior, posterior.left[p], posterior.right[p])
        row = np.zeros(len(precision))
        row[:K], row[K + u * n : K + (u + 1) * n] = a @ rows, a
        precision += posterior.tau[p] * np.outer(row, row)
        linear += row * (posterior.nu[p] - posterior.tau[p] * (a @ posterior.B @ posterior.x[u]))
    covariance = np.linalg.inv(precision)
    return covariance @ linear, covariance, rows


def of_effects(posterior, u, row):
    """Variance of a row of u's utilities that the uncertainty of B leaves, given what u's answers explain."""
    own, n = posterior.user == u, posterior.S.shape[0]
    A = np.array([contrast(posterior, a, b) for a, b in zip(posterior.left[own], posterior.right[own], strict=True)])
    D = A.T @ np.diag(posterior.tau[own]) @ A
    left = row @ np.linalg.inv(np.eye(n) + posterior.S @ D)
    of_basis = posterior.effect_variance @ (posterior.x[u] @ posterior.effect_rotation) ** 2
    return float((left @ posterior.effect_rows) ** 2 @ of_basis)


def contrast(posterior, left, right):
    a = np.zeros(posterior.S.shape[0])
    a[left], a[right] = 1.0, -1.0
    if posterior.consensus.has_order:
        a[-1] = 1.0
    return a


@pytest.mark.parametrize("layout", LAYOUTS)
def test_predictions_are_those_of_the_joint_gaussian(layout):
    model = CrowdGPPL(**LAYOUTS[layout], random_state=0).fit(DATA.comparisons, DATA.y)
    posterior = model.posterior_
    mean, covariance, of_consensus = joint(posterior)
    n, K = posterior.S.shape[0], posterior.consensus.mean.size
    asked = [(u, a, b) for u in (0, 3) for a, b in ((0, 1), (2, 4), (5, 0))]
    wanted = []
    for u, a, b in asked:
        row, c = np.zeros(len(mean)), contrast(posterior, a, b)
        row[:K], row[K + u * n : K + (u + 1) * n] = c @ of_consensus, c
        variance = row @ covariance @ row + of_effects(posterior, u, c)
        wanted.append((row @ mean + c @ posterior.B @ posterior.x[u], variance))
    named = [(model.user_ids_[u], model.item_ids_[a], model.item_ids_[b]) for u, a, b in asked]
    np.testing.assert_allclose(model.latent_mean_and_variance(named), np.transpose(wanted), rtol=1e-9)
    centred = np.eye(n)[: posterior.n_seen]
    centred[:, : posterior.n_seen] -= 1.0 / posterior.n_seen
    got = model.utility(model.item_ids_, users=model.user_ids_[:2], return_std=True)
    for u in range(2):
        T = np.zeros((posterior.n_seen, len(mean)))
        T[:, :K], T[:, K + u * n : K + (u + 1) * n] = centred @ of_consensus, centred
        np.testing.assert_allclose(got[0][u], T @ mean + centred @ posterior.B @ posterior.x[u], atol=1e-9)
        variance = np.diag(T @ covariance @ T.T) + [of_effects(posterior, u, row) for row in centred]
        np.testing.assert_allclose(got[1][u], np.sqrt(variance), rtol=1e-9)


@pytest.mark.filterwarnings("ignore:unknown user")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_new_users_are_like_those_who_answered(layout):
    """Not like what predicts these best: their tastes vary as E[b b^T] does on average."""
    rows = DATA.comparisons[:, 0] < 9
    model = CrowdGPPL(**LAYOUTS[layout], random_state=0).fit(DATA.comparisons[rows], DATA.y[rows])
    posterior = model.posterior_
    mean, covariance, of_consensus = joint(posterior)
    n, K, n_users = posterior.S.shape[0], posterior.consensus.mean.size, posterior.n_users
    wanted = np.zeros((n, n))
    for u in range(n_users):
        own = slice(K + u * n, K + (u + 1) * n)
        wanted += (np.outer(mean[own], mean[own]) + covariance[own, own]) / n_users
    np.testing.assert_allclose(posterior.S_new, wanted, atol=1e-9)
    # All that is asked of new users goes by it: a pair, utilities, several pairs, draws.
    c, ids = contrast(posterior, 2, 4), model.item_ids_
    of_pair = c @ (of_consensus @ covariance[:K, :K] @ of_consensus.T + wanted) @ c
    if not posterior.B.shape[1]:
        assert model.latent_mean_and_variance([(99, ids[2], ids[4])])[1] == pytest.approx([of_pair])
        pair = np.array([2]), np.array([4])
        items = model._items.rows(np.arange(len(ids)))
        assert posterior.pair_covariance(UNSEEN_USER, items, *pair) == pytest.approx(np.array([[of_pair]]))
        std = np.ravel(model.utility(ids, users=[99], return_std=True)[1])
        draws = posterior.sample(UNSEEN_USER, items, 4000, np.random.default_rng(0))[:, 0]
        assert_allclose(draws.std(axis=0), std, rtol=0.08)
        centred = np.eye(n)[: posterior.n_seen]
        centred[:, : posterior.n_seen] -= 1.0 / posterior.n_seen
        V = of_consensus @ covariance[:K, :K] @ of_consensus.T + wanted
        assert_allclose(std**2, np.diag(centred @ V @ centred.T), rtol=1e-9)


def test_evidence_is_near_the_exact_one():
    # One user and two items: p(y) is one integral over the difference, whose prior variance is 2 / s + 2 S.
    users = UserRows.from_comparisons(np.zeros(2, int), np.array([0, 1]), np.array([1, 0]), np.ones((2, 0)), (1, 2))
    y = np.array([1.0, 1.0])
    model = Hierarchy(
        users,
        y,
        np.ones(2),
        np.eye(2),
        (("offset", 2),),
        Places.from_items(2, 0, order=False),
        np.eye(2),
        None,
        1.0,
        1.0,
        None,
        2,
    )
    state = start_state(model, {"offset": FixedScale(2.0)}, PairwiseProbit(), 0.5)
    fit = fit_hierarchy(model, state, max_iter=2, tol=0.0)  # the sites move, S not yet
    z, w = np.polynomial.hermite_e.hermegauss(60)
    z = z * np.sqrt(2.0 / 2.0 + 2.0 * 0.5)
    exact = np.log(w @ (ndtr(z) * ndtr(-z)) / w.sum())
    assert fit.evidence == pytest.approx(exact, abs=0.02)


def test_learnt_tastes_predict_better_than_the_consensus_and_stay_out_where_there_are_none():
    gain = []
    for n_factors in (2, 0):
        data = make_crowd(
            60, 10, n_factors=n_factors, n_features=0, n_user_features=0, comparisons_per_user=40, random_state=5
        )
        test = np.arange(len(data.y)) % 4 == 0
        loss = []
        for rank in (20, 0):
            model = CrowdGPPL(n_factors=rank, random_state=0).fit(data.comparisons[~test], data.y[~test])
            p = model.predict_proba(data.comparisons[test])[:, 1]
            loss.append(-np.mean(np.log(np.where(data.y[test] == 1, p, 1.0 - p))))
        gain.append(loss[1] - loss[0])
    assert gain[0] > 0.05
    assert gain[1] > -0.01


def test_names_sides_and_order_of_rows_do_not_matter():
    rng = np.random.default_rng(0)
    data = make_crowd(15, 8, 150, n_factors=2, n_features=0, n_user_features=0, random_state=1)
    X, y = data.comparisons, data.y
    plain = CrowdGPPL(random_state=0).fit(X, y).predict_proba(X)[:, 1]
    items, users, order = rng.permutation(8), rng.permutation(15), rng.permutation(len(y))
    renamed = np.column_stack([users[X[:, 0]], items[X[:, 2]], items[X[:, 1]]])
    other = CrowdGPPL(random_state=7).fit(renamed[order], 1 - y[order])
    np.testing.assert_allclose(1.0 - other.predict_proba(renamed)[:, 1], plain, atol=1e-6)


def test_a_new_user_and_a_new_item_join():
    model = CrowdGPPL(random_state=0).fit(DATA.comparisons, DATA.y)
    assert model.lower_bound_ == model.lower_bounds_[-1]
    before = model.predict_proba([("new", 0, 1)])[0, 1]
    new = [("new", 0, 1)] * 20 + [("new", 0, "item")] * 20
    model.partial_fit(new, [1] * 40)
    asked = [("new", 0, 1), ("new", 0, "item"), ("nobody", 0, "item")]
    p = model.predict_proba(asked)[:, 1]
    whole = CrowdGPPL(random_state=0).fit([*map(tuple, DATA.comparisons.tolist()), *new], [*DATA.y, *[1] * 40])
    np.testing.assert_allclose(p, whole.predict_proba(asked)[:, 1], atol=1e-6)  # few answers: all is learnt again
    assert before < 0.2
    assert p[0] > 0.8
    assert p[1] > 0.6
    assert p[2] < p[1]


@pytest.mark.filterwarnings("ignore:.*did not converge")
def test_weights_that_leave_floating_point_are_refused():
    weight = np.where(np.arange(len(DATA.y)) == 3, 1e10, 1.0)
    with pytest.raises(DataError, match="sample_weight: the answers of a user about an item weigh up to 1e"):
        CrowdGPPL(inference="ep").fit(DATA.comparisons, DATA.y, weight)
    assert np.isfinite(CrowdGPPL(max_iter=5).fit(DATA.comparisons, DATA.y, weight).lower_bound_)


def test_weights_in_which_rounding_hides_the_evidence_have_the_simpler_posterior():
    weight = np.full(len(DATA.y), 1e6)  # with "ep", passes differ by 1 % of the evidence without end
    assert CrowdGPPL(random_state=0).fit(DATA.comparisons, DATA.y, weight).converged_
    with pytest.raises(DataError, match=r"takes at most 3e\+05\. Divide the weights, or use inference='vb'"):
        CrowdGPPL(inference="ep").fit(DATA.comparisons, DATA.y, weight)


def test_huge_weights_and_features_are_used_or_refused_without_a_warning_of_numpy():
    rng = np.random.default_rng(0)
    left = rng.integers(0, 8, 120)
    rows = np.column_stack([rng.integers(0, 5, 120), left, (left + rng.integers(1, 8, 120)) % 8])
    y = rng.random(120) < 0.5
    sure = CrowdGPPL(random_state=0).fit(rows, y, np.full(120, 1e7))
    assert np.isfinite(sure.predict_proba(rows)).all()
    feature = np.arange(5.0)[:, None]
    fits = [CrowdGPPL(users=Table(unit * feature, ids=range(5)), random_state=0).fit(rows, y) for unit in (1.0, 1e200)]
    assert_allclose(fits[1].utility(), fits[0].utility(), rtol=1e-6, atol=1e-8)


def test_more_items_than_a_covariance_can_have_are_refused():
    rows = [("u", i, i + 1) for i in range(2001)]
    with pytest.raises(DataError, match=r"takes at most 2000 compared items; got 2002\. Use inference='vb'"):
        CrowdGPPL(inference="ep").fit(rows)


def test_a_posterior_that_is_not_finite_is_refused(monkeypatch):
    wrong = PairwiseProbit()
    monkeypatch.setattr(PairwiseProbit, "_tilted", lambda _, y, mu, v: (y * np.nan, mu, -v))
    with pytest.raises(DataError, match="The posterior left floating point"):
        CrowdGPPL(likelihood=wrong, inference="ep", random_state=0).fit(DATA.comparisons, DATA.y)


def test_effects_of_rare_features_do_not_overshoot():
    # Two users of 100 share a feature: what their answers say of its effects is far from that of average users.
    rng = np.random.default_rng(0)
    taste, rare = rng.standard_normal((100, 30)), np.arange(100) < 2
    rows = np.array([[u, *rng.choice(30 if u > 1 else 4, 2, replace=False)] for u in range(100) for _ in range(6)])
    u, a, b = rows.T
    X = np.column_stack([rng.standard_normal((100, 3)), rare])
    model = CrowdGPPL(users=X, random_state=0).fit(rows, taste[u, a] > taste[u, b])
    plain = CrowdGPPL(random_state=0).fit(rows, taste[u, a] > taste[u, b])
    assert np.all(np.diff(model.lower_bounds_[4:]) > -1e-3 * abs(model.lower_bound_))
    assert np.abs(model.predict_proba(rows) - plain.predict_proba(rows)).mean() < 0.05


def crowd_model(*, penalty, max_rank=20):
    """A crowd of 30 users with two covariates, who compare 5 items, and where its inference starts."""
    rng = np.random.default_rng(4)
    x, m, n = rng.standard_normal((30, 2)), rng.standard_normal(5), 600
    g = m + x @ rng.standard_normal((2, 5)) + 0.7 * rng.standard_normal((30, 5))
    user, left = np.sort(rng.integers(0, 30, n)), rng.integers(0, 5, n)
    right = (left + rng.integers(1, 5, n)) % 5
    y = (rng.random(n) < ndtr(g[user, left] - g[user, right])).astype(float)
    users = UserRows.from_comparisons(user, left, right, np.ones((user.size, 0)), (30, 5))
    shape = np.eye(5) + 0.3
    parts = (("offset", 5),)
    model = Hierarchy(
        users,
        y,
        np.ones(n),
        np.eye(5),
        parts,
        Places.from_items(5, 0, order=False),
        shape,
        x,
        0.4,
        3.0,
        penalty,
        max_rank,
    )
    return model, start_state(model, {"offset": GammaScale.prior(2.0, 3.0)}, PairwiseProbit(), 0.5)


def test_the_curvature_along_effects_is_that_of_the_dense_evidence():
    model, state = crowd_model(penalty=None)
    rng, users = np.random.default_rng(1), model.users
    state, B, wanted = replace(state, tau=rng.uniform(0.1, 1.0, 600)), rng.standard_normal((5, 2)), 0.0
    for u in range(30):
        own = users.user == u
        A = np.eye(5)[users.left[own]] - np.eye(5)[users.right[own]]
        z = A @ B @ model.covariates[u]
        wanted += z @ np.linalg.solve(np.diag(1.0 / state.tau[own]) + A @ state.S @ A.T, z)
    assert model.effect_curvature(state, B) == pytest.approx(wanted)


@pytest.mark.parametrize("penalty", [None, 0.7])
def test_hyperparameters_end_where_the_penalised_evidence_has_no_slope(penalty):
    model, start = crowd_model(penalty=penalty)
    fit = fit_hierarchy(model, start, max_iter=300, tol=1e-9)
    state, n = fit.state, 5
    assert fit.converged
    assert fit.bounds[-1] > fit.bounds[3]

    def slope(moved, h=1e-3):
        ends = [fit_hierarchy(model, moved(step), max_iter=1, tol=0.0).bounds[0] for step in (-h, h)]
        return (ends[1] - ends[0]) / (2.0 * h)

    def effects(E):
        basis, rotation = state.effect_bases
        return replace(state, effects=E, B=basis @ E @ rotation.T)

    def precision(p):
        information = 1.0 / state.effect_variance - state.effect_precision
        return replace(state, effect_precision=p, effect_variance=1.0 / (information + p))

    def covariance(S):
        # The information that the average user has about an effect, (S + 1 / sites)^-1, follows S.
        basis, rotation = state.effect_bases
        spread = np.diag(rotation.T @ model.covariate_moment() @ rotation)
        known = (1.0 / state.effect_variance - state.effect_precision)[:, -1] / spread[-1]
        of_user = np.linalg.inv(basis).T @ (known[:, None] * np.linalg.inv(basis))
        moved = of_user @ np.linalg.inv(np.eye(n) + (S - state.S) @ of_user)

        def log_det(information):
            prior = state.effect_precision * np.linalg.inv(model.shape)
            return float(sum(np.linalg.slogdet(prior + size * information)[1] for size in spread))

        share = np.exp((log_det(of_user) - log_det(moved)) / state.effect_variance.size)
        return replace(state, S=S, effect_variance=state.effect_variance * share)

    rng = np.random.default_rng(0)
    in_scale = slope(lambda h: replace(state, scales={"offset": moved_scale(state.scales["offset"], h)}))
    assert in_scale == pytest.approx(0.0, abs=1e-3)
    D = rng.standard_normal((n, 2))
    assert slope(lambda h: effects(state.effects + h * D)) == pytest.approx(0.0, abs=2e-3)
    assert slope(lambda h: precision(state.effect_precision * np.exp(h))) == pytest.approx(0.0, abs=1e-3)
    in_size = slope(lambda h: covariance(state.S * np.exp(h)))
    assert in_size == pytest.approx(0.0, abs=1e-3)
    if penalty is None:
        return
    L = np.linalg.cholesky(state.S)
    for _ in range(3):
        M = rng.standard_normal((n, n))
        M = 0.5 * (M + M.T)
        assert slope(lambda h, M=M: covariance(L @ (np.eye(n) + h * M) @ L.T)) == pytest.approx(0.0, abs=2e-3)


@pytest.mark.parametrize("learn_S", [False, True])
def test_the_variance_of_biases_ends_where_the_evidence_has_no_slope(*, learn_S):
    rng = np.random.default_rng(5)
    b, n = rng.normal(0.3, 0.6, 40), 1200
    user, left = np.sort(rng.integers(0, 40, n)), rng.integers(0, 5, n)
    right = (left + rng.integers(1, 5, n)) % 5
    y = (rng.random(n) < ndtr(0.5 * (left - right) + b[user])).astype(float)
    users, S = (
        UserRows.from_comparisons(user, left, right, np.ones((user.size, 1)), (40, 5)),
        np.diag([0.3] * 5 + [0.01]),
    )
    S[0, -1] = S[-1, 0] = 0.0 if learn_S else 0.02
    parts, scales = (("offset", 5), ("order", 1)), {name: GammaScale.prior(2.0, 3.0) for name in ("offset", "order")}
    penalty = None if learn_S else 0.7  # S = scale * shape, or an S that stays
    model = Hierarchy(
        users,
        y,
        np.ones(n),
        np.eye(6),
        parts,
        Places.from_items(5, 0, order=True),
        np.eye(6),
        None,
        0.4,
        3.0,
        penalty,
        20,
        learn_S=learn_S,
    )
    start = replace(start_state(model, scales, PairwiseProbit(), 0.3), S=S)
    fit = fit_hierarchy(model, start, max_iter=300, tol=1e-9)

    def bound(left, items):
        factor = np.exp([items] * 5 + [left])
        return fit_hierarchy(
            model, replace(fit.state, S=factor[:, None] * fit.state.S * factor), max_iter=1, tol=0.0
        ).bounds[0]

    assert fit.converged
    assert bound(1e-3, 0.0) - bound(-1e-3, 0.0) == pytest.approx(0.0, abs=5e-6)
    if learn_S:
        assert bound(0.0, 1e-3) - bound(0.0, -1e-3) == pytest.approx(0.0, abs=5e-6)
    else:
        assert_allclose(fit.state.S[:-1, :-1], S[:-1, :-1])
        assert_allclose(fit.state.S[0, -1] / np.sqrt(fit.state.S[-1, -1]), S[0, -1] / 0.1)
    assert 0.15 < fit.state.S[-1, -1] < 0.8


def test_directions_beyond_the_rank_stay_at_the_floor():
    model, start = crowd_model(penalty=0.7, max_rank=1)
    S = fit_hierarchy(model, start, max_iter=100, tol=1e-4).state.S
    L = np.linalg.cholesky(model.shape)
    sizes = np.linalg.eigvalsh(np.linalg.solve(L, np.linalg.solve(L, S).T))
    assert np.sum(sizes > 0.4 * (1.0 + 1e-9)) == 1
    free = fit_hierarchy(crowd_model(penalty=0.7)[0], start, max_iter=100, tol=1e-4).state.S
    assert np.sum(np.linalg.eigvalsh(np.linalg.solve(L, np.linalg.solve(L, free).T)) > 0.4) > 1


def scripted(monkeypatch, bounds, penalty=0.0, **options):
    """A fit whose penalised evidence is scripted; also the shares that sites moved, and the radii of the steps of S."""
    model, start = crowd_model(penalty=0.7)
    values, shares, radii, last = iter(bounds), [], [], []
    consensus, scored = hierarchy._consensus, tastes._scored

    def sites(model, state, *_):
        if last:
            shares.append(float((state.tau - last[-1])[0]))
        last.append(state.tau)
        return state.tau + 1.0, state.nu, next(values), state.likelihood, None

    def steps(*args):
        radii.append(args[-1])
        return scored(*args)

    monkeypatch.setattr(hierarchy, "_consensus", lambda *args: replace(consensus(*args), log_integral=0.0))
    monkeypatch.setattr(hierarchy, "_sites", sites)
    monkeypatch.setattr(tastes, "_scored", steps)
    monkeypatch.setattr(hierarchy, "_penalty", lambda *_: penalty)
    return fit_hierarchy(model, start, **({"max_iter": len(bounds), "tol": 1e-9} | options)), shares, radii


def test_steps_are_shorter_where_the_objective_falls_and_grow_again(monkeypatch):
    bounds = [-100.0, -90.0, -91.0, -92.0, -93.0, -80.0, -79.0, -78.0, -77.0]
    fit, shares, radii = scripted(monkeypatch, bounds)
    assert fit.bounds == bounds
    assert fit.evidence == -77.0
    assert not fit.converged
    fallen = [0.9 * 0.6, 0.9 * 0.36, 0.2]
    assert_allclose(shares, [0.9, 0.9, *fallen, 0.22, 0.242, 0.2662])
    # S waits for two passes.
    assert_allclose(radii, [0.5, 0.25, 0.125, 0.15, 0.18, 0.216])
    _, shares, radii = scripted(monkeypatch, [-1.0, -2.0, -2.0 - 1e-6, *np.linspace(-1.0, 9.0, 40)])
    assert shares[-1] == pytest.approx(0.9)
    assert shares[2] > shares[1]  # a fall by rounding is no fall
    assert radii[-1] == 1.0
    _, shares, radii = scripted(monkeypatch, list(-np.arange(1.0, 30.0)))
    assert shares[-1] == pytest.approx(0.2)
    assert radii[-1] == 1e-3


FALLING = np.linspace(-80.0, -50.0, 6).tolist()


@pytest.mark.parametrize(
    ("bounds", "n_iter", "converged"),
    [
        ([-80.0] * 10, 8, True),  # not before the rank is limited
        ([*FALLING, -40.0, -40.0 + 1.9e-4, -40.0], 9, True),  # .01 times .0005 of 40, twice
        ([*FALLING, -40.0, -40.0 + 1.9e-4, -40.0 - 1e-4], 9, False),
        ([*FALLING, -40.0, -40.0 + 2.1e-4, -40.0], 9, False),
        ([*FALLING, -40.0, -40.0, -39.0, -39.0, -39.0, -39.0], 11, True),
        ([*FALLING, 0.0, 4.9e-5, 0.0], 9, True),  # of at least 10 nats
        ([*FALLING, 0.0, 5.1e-5, 0.0], 9, False),
        ([-8.0, np.nan, -6.0], 2, False),
    ],
)
def test_a_fit_ends_where_the_objective_hardly_changes(monkeypatch, bounds, n_iter, *, converged):
    for penalty in (0.0, 1e4):  # whose constants are arbitrary
        fit, _, _ = scripted(monkeypatch, bounds, penalty, tol=5e-4)
        assert (len(fit.bounds), fit.converged) == (n_iter, converged)
    events = []
    fit, _, _ = scripted(
        monkeypatch, [-5.0, -4.0, -3.0], on_iteration=lambda event: events.append(event) or len(events) == 2
    )
    assert [(event.step, event.bound) for event in events] == [(1, -5.0), (2, -4.0)]
    assert (len(fit.bounds), fit.converged) == (2, False)


@pytest.mark.parametrize("penalty", [None, 0.7])
def test_a_weight_of_two_is_two_answers(penalty):
    model, start = crowd_model(penalty=penalty)
    users = model.users
    twice = UserRows.from_comparisons(
        *(np.repeat(x, 2) for x in (users.user, users.left, users.right)), np.ones((1200, 0)), (30, 5)
    )
    weighted = replace(model, weight=np.full(600, 2.0))
    copies = replace(model, users=twice, y=np.repeat(model.y, 2), weight=np.ones(1200))
    ends = [
        fit_hierarchy(m, start_state(m, start.scales, start.likelihood, 0.5), max_iter=12, tol=0.0)
        for m in (weighted, copies)
    ]
    assert_allclose(ends[0].bounds, ends[1].bounds, rtol=1e-9)
    assert_allclose(ends[0].mean, ends[1].mean, atol=1e-9)
    assert_allclose(ends[0].state.S, ends[1].state.S, rtol=1e-7)
    assert_allclose(ends[0].state.tau, 2.0 * ends[1].state.tau[::2], rtol=1e-7)
