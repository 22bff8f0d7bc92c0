"""What is chosen before the inference of a hierarchy: folds, users, candidates, and covariances that grow."""

from dataclasses import replace
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm
from sklearn.gaussian_process.kernels import RBF
from sklearn.metrics import log_loss

from skpref import CrowdGPPL, GPPLClassifier
from skpref.datasets import make_crowd
from skpref.gp.crowd import fit_hierarchy, held_out
from skpref.gp.crowd import shape as of_shape
from skpref.gp.crowd.fit_hierarchy import Regularisation
from skpref.gp.crowd.hierarchy import start_state
from skpref.gp.crowd.model import Kernels
from skpref.gp.crowd.personal import Covariates
from skpref.gp.crowd.places import Places
from skpref.gp.crowd.policy import POLICY
from skpref.gp.crowd.shape import Shape
from skpref.gp.crowd.users import UserRows
from skpref.gp.entities import Items
from skpref.inference.basis import InducingBasis
from skpref.inference.scale import GammaScale
from skpref.kernels import Linear
from tests.policies import set_policy
from tests.unit.gp.crowd.test_hierarchy import crowd_model

pytestmark = pytest.mark.usefixtures("all_candidates")


def test_folds_are_of_equal_size_and_keep_users_and_pairs_apart():
    model, start = crowd_model(penalty=None)
    fit = fit_hierarchy.fit_hierarchy(model, start, max_iter=5, tol=0.0)
    fold = fit_hierarchy.folds_of(model, fit)
    counts = np.bincount(fold)
    assert counts.size == 5
    assert np.abs(counts - 120).max() < 5 * np.sqrt(120)
    code = model.users.user * 25 + np.minimum(model.users.left, model.users.right) * 5
    code += np.maximum(model.users.left, model.users.right)
    pairs = np.unique(code)
    assert all(np.unique(fold[code == pair]).size == 1 for pair in pairs)  # answers about a pair are held out together
    same_pair = [fold[code == pair][0] for pair in pairs if pair % 25 == 1]
    assert np.unique(same_pair).size > 1  # but not those of all users


def test_a_part_of_the_comparisons_has_the_same_users_and_items():
    model, _ = crowd_model(penalty=None)
    rows = model.users.user % 2 == 0
    part = model.select_rows(rows)
    assert (part.n_users, part.users.n_items, part.y.size) == (30, 5, rows.sum())
    assert_array_equal(part.users.left, model.users.left[rows])
    assert_array_equal(part.weight, model.weight[rows])
    assert part.covariates is model.covariates


def test_a_part_of_the_users_has_their_comparisons_and_covariates():
    model, _ = crowd_model(penalty=None)
    drawn = np.isin(np.arange(30), [2, 5, 29])
    part = model.select_users(drawn)
    rows = drawn[model.users.user]
    assert part.n_users == 3
    assert_array_equal(part.users.user, np.searchsorted([2, 5, 29], model.users.user[rows]))
    assert_array_equal(part.users.right, model.users.right[rows])
    assert_array_equal(part.y, model.y[rows])
    assert_array_equal(part.covariates, model.covariates[drawn])


@pytest.mark.parametrize("most", [1, 200, 599, 600])
def test_users_are_drawn_until_they_have_enough_comparisons(most):
    model, _ = crowd_model(penalty=None)
    part = held_out.some_users(model, most, np.random.default_rng(0))
    if most == 600:
        assert part is model
        return
    largest = np.bincount(model.users.user).max()
    assert most - largest <= part.y.size <= max(most, largest)
    assert 1 <= part.n_users < 30


def test_of_many_comparisons_the_personal_covariance_is_learnt_from_some_first(monkeypatch):
    set_policy(monkeypatch, "gp.crowd", most_averaged=300)
    model, start = crowd_model(penalty=1.0)
    given, rng = 0.1 * model.shape, np.random.default_rng(0)
    S = fit_hierarchy._learn_from_more_users(model, start, given, rng)
    part = held_out.some_users(model, 300, np.random.default_rng(0))
    first = replace(start_state(part, start.scales, start.likelihood, 1.0), S=given)
    assert_array_equal(S, fit_hierarchy.fit_to_choose(part, first).state.S)
    assert fit_hierarchy._learn_from_more_users(replace(model, max_rank=0), start, given, rng) is given
    set_policy(monkeypatch, "gp.crowd", most_averaged=600)
    assert fit_hierarchy._learn_from_more_users(model, start, given, rng) is given


def test_candidates_are_in_units_of_the_scale_and_of_the_items():
    many, few = (Regularisation.candidate(1, 3.0, n) for n in (10, 1))
    assert (many.floor, many.prior_weight, many.penalty) == (12.0, 5.0, 0.1)
    assert few.prior_weight == 0.5
    assert Regularisation.candidate(3, 3.0, 10).prior_weight == 0.5  # without a prior of a weight of its own
    candidates = [Regularisation.candidate(k, 1.0, 10) for k in range(len(POLICY.candidates))]
    assert [part.penalty for part in candidates] == [0.3, 0.1, 0.3, 2.0, 0.3]
    assert [part.floor for part in candidates] == [1.0, 4.0, 1.0, 0.3, 0.1]
    assert [part.prior_weight for part in candidates] == [20.0, 5.0, 5.0, 0.5, 5.0]


@pytest.mark.parametrize("order", [False, True])
def test_a_covariance_grows_by_the_prior_given_the_old_items(order):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((6 + order, 9))
    prior = A @ A.T
    old = np.append(np.arange(4), 6) if order else np.arange(4)
    B = rng.standard_normal((len(old), 9))
    S = B @ B.T
    grown = fit_hierarchy._grown(S, prior, order=order)
    assert_allclose(grown[np.ix_(old, old)], S)
    assert_array_equal(grown, grown.T)
    new = np.setdiff1d(np.arange(6 + order), old)
    gain = prior[np.ix_(new, old)] @ np.linalg.inv(prior[np.ix_(old, old)])
    rest = prior[np.ix_(new, new)] - gain @ prior[np.ix_(old, new)]
    assert_allclose(grown[np.ix_(new, old)], gain @ S)
    assert_allclose(grown[np.ix_(new, new)], gain @ S @ gain.T + rest)


@pytest.mark.parametrize("scale", [2.0, [2.0, 3.0]])
def test_kernels_are_stretched_where_they_have_length_scales(scale):
    kernel = RBF(scale)
    assert_allclose(of_shape._stretched(kernel, 0.5).length_scale, 0.5 * np.asarray(scale))
    assert_allclose(kernel.length_scale, scale)
    linear = Linear()
    assert of_shape._stretched(linear, 0.5) is linear


@pytest.mark.parametrize("with_covariates", [False, True])
@pytest.mark.parametrize("order", [False, True])
def test_held_out_comparisons_are_predicted_as_by_the_posterior(*, order, with_covariates):
    model, start = ordered_model(order=order)
    model = model if with_covariates else replace(model, covariates=None)
    start = start_state(model, start.scales, start.likelihood, 0.5)
    model = replace(model, weight=np.linspace(0.5, 2.0, model.y.size))
    fold = np.arange(model.y.size) % 3 == 0
    part, held = model.select_rows(~fold), model.select_rows(fold)
    first = start_state(part, start.scales, start.likelihood, 0.5)
    fit = fit_hierarchy.fit_hierarchy(part, first, max_iter=8, tol=0.0)
    shape = Shape(model.shape, None, np.zeros((0, len(model.shape))), 1.0)
    covariates = Covariates(None, np.zeros(2), np.ones(2)) if with_covariates else None
    posterior = fit_hierarchy._posterior(part, fit, None, None, shape, covariates, part.y.size, np.ones(0))
    posterior.validate()
    users = Items(model.covariates, np.arange(30))
    pairs = (users, held.users.user), Items(None, np.arange(5)), held.users.left, held.users.right
    log_p = fit.state.likelihood.tilted(held.y, *posterior.pairs(*pairs))[0]
    assert_allclose(fit_hierarchy.log_likelihood(part, fit, held), held.weight @ log_p, rtol=1e-9)
    assert posterior.rest_scale == np.trace(fit.state.S[:5, :5]) / np.trace(model.shape[:5, :5])


def ordered_model(*, order):
    """The crowd of 30 users, on request with an order effect."""
    model, start = crowd_model(penalty=None)
    users, n = model.users, 5 + order
    users = UserRows.from_comparisons(
        users.user, users.left, users.right, np.ones((users.user.size, int(order))), (30, 5)
    )
    parts = (("offset", 5), ("order", 1)) if order else (("offset", 5),)
    scales = dict(start.scales) | ({"order": GammaScale.prior(2.0, 3.0)} if order else {})
    places = Places.from_items(5, 0, order=order)
    model = replace(model, users=users, places=places, shape=np.eye(n) + 0.3, consensus=np.eye(n), parts=parts)
    return model, start_state(model, scales, start.likelihood, 0.5)


@pytest.mark.parametrize(
    ("gains", "n_held", "n_folds", "wanted"),
    [
        ([5.0, 1.0, 2.0, 3.0, 4.0, 0.0], 600, 5, None),
        ([5.0, 1.0, 2.0, 3.0, 9.0, 0.0], 240, 2, 3),
        ([5.0, 5.0, 2.0, 3.0, 4.0, 0.0], 600, 5, None),
        ([np.nan, np.nan, 2.0, 3.0, 4.0, 8.0], 1, 1, 4),
        ([np.nan] * 6, 1, 1, None),
        ([5.0, -6.0, 2.0, -4.0, 6.0, -20.0], 600, 5, 3),
    ],
)
def test_the_regularisation_that_predicts_best_is_chosen(monkeypatch, gains, n_held, n_folds, wanted):
    model, start = crowd_model(penalty=None)
    isotropic = fit_hierarchy.fit_hierarchy(model, start, max_iter=2, tol=0.0)
    scale = np.trace(isotropic.state.S) / np.trace(model.shape)
    # A fit ends where it starts, and moves S where it has no candidate: so candidates are in units of that fit.
    settings = ("floor", "prior_weight", "penalty")
    candidates = [
        {name: getattr(Regularisation.candidate(number, 2.0 * scale, 5), name) for name in settings}
        for number in range(5)
    ]
    looked = []
    set_policy(monkeypatch, "gp.crowd", held_out=n_held)
    monkeypatch.setattr(
        fit_hierarchy,
        "fit_to_choose",
        lambda part, state: replace(
            isotropic, state=replace(state, S=state.S * (2.0 if part.penalty is None else 1.0 + part.penalty))
        ),
    )

    def predicted(part, fit, held):
        assert part.y.size + held.y.size == 600
        assert 60 < held.y.size < 180
        own = {name: getattr(part, name) for name in settings}
        looked.append(0 if part.penalty is None else 1 + candidates.index(own))
        return gains[looked[-1]]

    monkeypatch.setattr(fit_hierarchy, "log_likelihood", predicted)
    config = SimpleNamespace(pair=SimpleNamespace(likelihood=start.likelihood))
    chosen, S = fit_hierarchy._regularise(model, isotropic, start.scales, config)
    # In units of the fit to all folds.
    for part, of_part in zip(chosen, S, strict=True):
        assert_allclose(of_part, isotropic.state.S * (1.0 + (part.penalty or 0.0)))
    none = Regularisation(scale)
    best = none if wanted is None else Regularisation.candidate(wanted, scale, 5)
    assert vars(replace(chosen[0], share=1.0)) == vars(best)
    if np.isfinite(gains).all():  # half of the nats count
        shares = np.exp(0.5 * n_folds * (np.array(gains) - max(gains)))
        shares = shares[shares > 0.05 * shares.sum()]
        assert_allclose(sorted(part.share for part in chosen), np.sort(shares / shares.sum()))
    # What is ten nats behind after some folds is not looked at in the next one.
    top = np.nanmax([0.0, *gains]) if np.any(np.isfinite(gains)) else 0.0
    behind = [0.0 if number == 0 else top - gain for number, gain in enumerate(gains)]
    counts = [n_folds if not lag > 0.0 else min(n_folds, int(10.0 // lag) + 1) for lag in behind]
    assert [looked.count(number) for number in range(6)] == counts
    (nothing,), _ = fit_hierarchy._regularise(replace(model, max_rank=0), isotropic, start.scales, start.likelihood)
    assert (nothing.floor, nothing.penalty) == (1e-6, 1.0)
    looked.clear()
    few = model.select_rows(np.arange(600) < 4)  # fewer comparisons than items
    (plain,), _ = fit_hierarchy._regularise(few, isotropic, start.scales, start.likelihood)
    assert (vars(plain), looked) == (vars(none), [])


def test_covariances_of_several_regularisations_are_averaged(monkeypatch):
    chosen = Regularisation(0.3, 4.0, 0.5, share=0.75), Regularisation(0.9, share=0.25)
    members = []
    fit = fit_hierarchy.fit_to_choose

    def fitted(model, state, *tol):
        members.append(fit(model, state, *tol))
        return members[-1]

    of_folds = np.diag([3.0, 1.0, 0.1, 0.1, 0.1])
    monkeypatch.setattr(fit_hierarchy, "_regularise", lambda *_: (chosen, [of_folds, np.eye(5)]))
    monkeypatch.setattr(fit_hierarchy, "fit_to_choose", fitted)
    monkeypatch.setattr(fit_hierarchy, "correction_of_scale", lambda *_: 0.0)
    data = make_crowd(12, 5, 200, n_features=0, n_user_features=0, random_state=1)
    model = CrowdGPPL(random_state=0).fit(data.comparisons, data.y)

    def average(isotropic, S):
        assert_allclose(isotropic, np.diag(np.full(5, isotropic[0, 0])), atol=1e-12)
        # A shape has trace 1; the sizes are averaged as ratios. S = scale * shape is one of the two.
        sizes = np.trace(S), np.trace(isotropic)
        shape = 0.75 * S / sizes[0] + 0.25 * isotropic / sizes[1]
        return sizes[0] ** (0.6 * 0.75) * sizes[1] ** (0.6 * 0.25 + 0.4) * shape

    assert_allclose(model.posterior_.S, average(members[-1].state.S, of_folds))
    # A warm start moves them, until answers are so many that the best is enough, and then that its size is, too.
    before = len(members)
    model.set_params(warm_start=True).fit(data.comparisons, data.y)
    isotropic, again = [member.state.S for member in members[before:]]
    assert not np.allclose(again, of_folds)
    assert_allclose(model.posterior_.S, average(isotropic, again))
    set_policy(monkeypatch, "gp.crowd", most_choice=50)
    members.clear()
    model.fit(data.comparisons, data.y)
    isotropic, S = [member.state.S for member in members]
    assert_allclose(model.posterior_.S, S * (np.trace(isotropic) / np.trace(S)) ** 0.4)
    set_policy(monkeypatch, "gp.crowd", most_averaged=50)
    members.clear()
    model.fit(data.comparisons, data.y)
    assert not members
    assert [part.share for part in model._state] == [1.0]
    assert model._state[0].floor == 0.3


def test_the_parts_of_the_consensus_are_basis_offsets_and_side():
    X = np.random.default_rng(0).standard_normal((5, 2))
    basis = InducingBasis.from_points(RBF(1.0), X[:3])
    c = SimpleNamespace(
        group=None,
        stage=None,
        covariates=None,
        user=np.array([0, 0, 1]),
        left=np.array([0, 1, 4]),
        right=np.array([1, 2, 3]),
        n_users=2,
        n_items=5,
    )
    c.y, c.weight, c.context = np.array([1.0, 0.0, 1.0]), np.ones(3), None
    phi = basis.rows(X)
    for consensus, offsets, order in product([False, True], repeat=3):
        config = SimpleNamespace(
            consensus=consensus,
            n_factors=3,
            own_thresholds=order,
            part_worths=False,
            pair=SimpleNamespace(order=order, offsets=offsets),
        )
        pair = SimpleNamespace(data=SimpleNamespace(X=X, comparisons=c), covariate_scale=np.ones(0))
        model = fit_hierarchy._hierarchy(c, Places.from_items(5, 0, order=order), pair, basis, None, config)
        columns = [phi, np.eye(5)] if offsets else [phi]
        items = np.hstack(columns) if consensus else np.zeros((5, 0))
        wanted = np.zeros((5 + order, items.shape[1] + order))
        wanted[:5, : items.shape[1]] = items
        if order:
            wanted[5, -1] = 1.0
        assert_array_equal(model.consensus, wanted)
        names = (["f", "offset"] if offsets else ["f"]) if consensus else []
        sizes = {"f": 3, "offset": 5, "order": 1}
        assert model.parts == tuple((name, sizes[name]) for name in [*names, *["order"] * order])
        assert (model.max_rank, model.shape.shape) == (3, (5 + order, 5 + order))
        assert model.own_thresholds is order
        no_basis = fit_hierarchy._hierarchy(c, Places.from_items(5, 0, order=order), pair, None, None, config)
        assert no_basis.consensus.shape[1] == 5 * (consensus and offsets) + order


@pytest.mark.parametrize("factor", [1.0, 1e-290, 1e305])  # differences of the last would overflow
def test_a_rare_category_of_users_has_the_unit_of_a_common_one(factor):
    rare, common = np.arange(100) < 2, np.arange(100) < 50
    age = np.random.default_rng(1).standard_normal(100)
    config = SimpleNamespace(n_factors=2, pair=SimpleNamespace(n_inducing=6))
    users = factor * np.column_stack([rare, common, age])
    plain, _ = fit_hierarchy._covariates(users, None, config, np.random.default_rng(0), None)
    # The standard deviation of the rare one is .14: its two users would lie seven units from the others.
    assert_allclose(plain.spread, factor * np.array([0.5, 0.5, age.std()]))


def test_features_of_users_are_standardised_or_seen_by_a_kernel():
    rng = np.random.default_rng(0)
    users = 3.0 + rng.standard_normal((40, 4)) * [1.0, 10.0, 0.1, 0.0]
    config = SimpleNamespace(n_factors=2, pair=SimpleNamespace(n_inducing=6))

    def of(users, kernel=None, config=config):
        return fit_hierarchy._covariates(users, kernel, config, np.random.default_rng(0), None)

    plain, kernel = of(users)
    assert (plain.basis, kernel) == (None, Linear())
    rows = plain.rows(users)
    assert_allclose(rows.mean(axis=0), 0.0, atol=1e-12)
    assert_allclose(rows[:, :3].std(axis=0), 1.0)
    assert_array_equal(rows[:, 3], 0.0)
    by_kernel, kernel = of(users, RBF(2.0))
    assert kernel == RBF(2.0) == by_kernel.basis.kernel
    assert_allclose(by_kernel.rows(users), by_kernel.basis.rows(users) - by_kernel.basis.rows(users).mean(axis=0))
    for width, reduced in ((100, False), (101, True)):
        wide, kernel = of(rng.standard_normal((40, width)))
        assert kernel == Linear()
        assert (wide.basis is not None) is reduced
        assert wide.centre.size == (6 if reduced else 100)
    assert of(None) == (None, None)
    start = SimpleNamespace(posterior=SimpleNamespace(covariates=plain), kernels=SimpleNamespace(users="kernel"))
    assert fit_hierarchy._covariates(users, None, config, rng, start) == (plain, "kernel")


@pytest.mark.parametrize(("best", "given"), [(0, False), (3, False), (8, False), (1, True), (2, True), (None, False)])
def test_the_shape_of_the_largest_evidence_is_chosen(monkeypatch, best, *, given):
    X = np.random.default_rng(0).standard_normal((5, 2))
    model, start = ordered_model(order=True)
    config = SimpleNamespace(n_factors=2, pair=SimpleNamespace(order=True, likelihood=start.likelihood))
    data = SimpleNamespace(comparisons=SimpleNamespace(n_items=5), items=X)
    tried = []

    def fitted(candidate, first):
        tried.append((candidate.shape, first.S))
        behind = len(tried) - 1 - (np.inf if best is None else best)
        evidence = -1.0 if behind == 0 else -2.0 if behind % 2 == 0 else np.nan  # a fit that fails is not chosen
        return SimpleNamespace(state=replace(first, S=3.0 * first.S), evidence=evidence)

    monkeypatch.setattr(of_shape, "fit_to_choose", fitted)
    pair = SimpleNamespace(points=X)
    kernels = Kernels(None, RBF(0.8) if given else None, None)
    chosen = of_shape.choose_shape(model, data, RBF(2.0), kernels, start.scales, config, pair)
    straight = Linear(1.0 / (2.0 * X.var(axis=0)))
    tastes = [RBF(0.8)] if given else [RBF(1.0), RBF(2.0), RBF(4.0), straight]
    wanted = [(kernel, share) for kernel in tastes for share in (0.03, 0.3)]
    wanted.append((tastes[0 if given else 1], 1.0))
    for (shape, S), (kernel, share) in zip(tried, wanted, strict=True):
        assert_allclose(shape[:5, :5], (1.0 - share) * kernel(X) + share * np.eye(5), atol=1e-7)
        assert_array_equal(shape[5], np.eye(6)[5])
        assert_allclose(S, shape * (S[0, 0] / shape[0, 0]))
    # Each starts with the size at which the one before ended.
    assert_allclose([S[0, 0] / shape[0, 0] for shape, S in tried], 3.0 ** np.arange(len(tried)), rtol=1e-6)
    kernel, share = wanted[best or 0]
    assert type(chosen.basis.kernel) is type(kernel)
    assert_allclose(chosen.basis.kernel(X), kernel(X))
    assert chosen.share == share
    none = Kernels(None, None, None)
    tried.clear()
    far = SimpleNamespace(comparisons=data.comparisons, items=X + 1e6)  # where a linear kernel is rounding error
    of_shape.choose_shape(model, far, RBF(2.0), none, start.scales, config, pair)
    of_shape.choose_shape(model, data, RBF(2.0), Kernels(RBF(2.0), None, None), start.scales, config, pair)
    assert len(tried) == 2 * 7  # without it, as with a kernel of the caller's
    plain = of_shape.choose_shape(model, data, None, none, start.scales, config, pair)
    config.n_factors = 0
    for shape in (plain, of_shape.choose_shape(model, data, RBF(2.0), none, start.scales, config, pair)):
        assert (shape.basis, shape.share) == (None, 1.0)
        assert_array_equal(shape.matrix, np.eye(6))


def test_a_few_judges_of_many_items_who_agree_are_predicted_by_the_consensus():
    # With folds that start from what the fold before learnt, which has seen what they hold out, this gave .56.
    rng = np.random.default_rng([36, 3])
    utility, n = rng.normal(size=100), 2_500
    user, left = rng.integers(8, size=n), rng.integers(100, size=n)
    right = (left + rng.integers(1, 100, size=n)) % 100
    y, rows = rng.random(n) < norm.cdf(utility[left] - utility[right]), np.column_stack([user, left, right])
    crowd = CrowdGPPL(random_state=0).fit(rows[:500], y[:500]).predict_proba(rows[500:])
    pooled = GPPLClassifier(random_state=0).fit(rows[:500, 1:], y[:500]).predict_proba(rows[500:, 1:])
    assert log_loss(y[500:], crowd) < log_loss(y[500:], pooled) + 0.01
