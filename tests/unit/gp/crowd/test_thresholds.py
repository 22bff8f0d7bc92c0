"""Thresholds of ties of each user: derivatives, the shared limit, the truth of a simulation, files, refusals."""

from copy import copy
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp

from skpref import CrowdGPPL, save
from skpref.elicitation._people import PairUser
from skpref.exceptions import DataError
from skpref.gp.crowd import annotators
from skpref.gp.pairwise import thresholds
from skpref.gp.pairwise.thresholds import TieThresholds, information, predict_answers, threshold_derivatives
from skpref.likelihoods import PairwiseLogitTies, PairwiseProbitTies
from skpref.likelihoods.ties import share_of_left
from skpref.metrics import answers_log_loss
from tests.policies import set_policy

PLAIN = {"n_factors": 0, "inference": "ep", "likelihood": "logit-ties"}  # without tastes
LIKELIHOODS = [PairwiseLogitTies(0.4), PairwiseProbitTies(0.4)]


def answers(n=120, seed=0):
    """Answers of all kinds, cavities and thresholds."""
    rng = np.random.default_rng(seed)
    y = rng.choice([0.0, 0.5, 1.0, 0.3], n)
    return y, rng.normal(0.0, 2.0, n), rng.gamma(1.0, 0.5, n), np.exp(rng.normal(-0.5, 0.5, n))


def crowd(seed, spread, n_users=30, n_answers=30, n_items=8):
    """Triples, answers and log thresholds of users who agree on the items."""
    rng = np.random.default_rng(seed)
    utility, log_b = rng.standard_normal(n_items), -0.4 + spread * rng.standard_normal(n_users)
    user = np.repeat(np.arange(n_users), n_answers)
    left = rng.integers(0, n_items, user.size)
    right = (left + rng.integers(1, n_items, user.size)) % n_items
    apart, b = utility[left] - utility[right] + rng.logistic(size=user.size), np.exp(log_b)[user]
    return np.column_stack([user, left, right]), np.where(np.abs(apart) < b, 0.5, (apart > 0.0) * 1.0), log_b


@pytest.fixture(scope="module")
def fitted():
    X, y, log_b = crowd(0, 0.8)
    return CrowdGPPL(n_factors=1, likelihood="logit-ties", random_state=0).fit(X, y), X, y, log_b


# ------------------------------------------------------------------------------------------------------ answers of rows
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_derivatives_are_those_of_finite_differences(likelihood):
    y, mu, v, b = answers()
    at, step = threshold_derivatives(likelihood, y, mu, v, b), 1e-5
    more, less = (threshold_derivatives(likelihood, y, mu, v, b + sign * step) for sign in (1.0, -1.0))
    assert_allclose(at.slope, (more.value - less.value) / (2.0 * step), rtol=1e-5, atol=1e-6)
    more, less = (threshold_derivatives(likelihood, y, mu + sign * step, v, b) for sign in (1.0, -1.0))
    assert_allclose(at.first, (more.value - less.value) / (2.0 * step), rtol=1e-5, atol=1e-6)
    assert_allclose(at.second, (more.first - less.first) / (2.0 * step), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_information_is_the_expected_square_of_the_slope(likelihood):
    _, mu, v, b = answers()
    p = np.column_stack(
        [np.exp(threshold_derivatives(likelihood, np.full(mu.size, y), mu, v, b).value) for y in (1.0, 0.5, 0.0)]
    )
    assert_allclose(p.sum(axis=1), 1.0)
    slopes = [b * threshold_derivatives(likelihood, np.full(mu.size, y), mu, v, b).slope for y in (1.0, 0.5, 0.0)]
    assert_allclose(information(likelihood, mu, v, b), (p * np.column_stack(slopes) ** 2).sum(axis=1), rtol=1e-8)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_equal_thresholds_are_the_shared_likelihood(likelihood):
    y, mu, v, _ = answers()
    y = np.where(y == 0.3, 1.0, y)  # logarithms of soft labels are mixed after the average, not before it
    shared = TieThresholds.start(0.4, 5)
    rows = shared.derivatives(likelihood, np.arange(y.size) % 5)
    for own, wanted in zip(rows(y, mu, v)[:3], likelihood.tilted(y, mu, v), strict=True):
        assert_allclose(own, wanted, rtol=1e-7, atol=1e-8)
    predicted = predict_answers(likelihood, mu, v, shared.moments(np.full(y.size, -1)))
    assert_allclose(predicted, likelihood.predict_answers(mu, v), atol=1e-9)
    assert_allclose(share_of_left(predicted), likelihood.predict(mu, v), atol=1e-9)


def test_a_tie_of_items_far_apart_keeps_its_digits():
    far = threshold_derivatives(
        PairwiseLogitTies(), np.full(2, 0.5), np.array([-60.0, 60.0]), np.zeros(2), np.full(2, 0.5)
    )
    assert_allclose(far.value, PairwiseLogitTies(0.5).log_prob([0.5, 0.5], [-60.0, 60.0]), rtol=1e-9)
    assert_allclose(far.first, [1.0, -1.0])
    assert share_of_left(np.array([[0.0, 1.0, 0.0]])).tolist() == [0.5]


# ------------------------------------------------------------------------------------------------------------- learning
def test_users_who_are_equal_share_their_threshold():
    start = TieThresholds(np.full(400, -1.0), np.zeros(400), -1.0, 0.0)
    rng = np.random.default_rng(0)
    measured = 0.5 + 0.2 * rng.standard_normal(400)  # errors of measurement only
    learnt = start.updated(25.0 * (measured + 1.0), np.full(400, 25.0))
    assert learnt.spread < 0.08
    assert learnt.first_spread < 0.08
    assert_allclose(learnt.centre, measured.mean(), atol=1e-3)
    different = start.updated(25.0 * (measured + np.resize([-0.6, 0.6], 400) + 1.0), np.full(400, 25.0))
    assert 0.5 < different.spread < 0.7
    assert_allclose(different.variance, different.spread**2 / (1.0 + 25.0 * different.spread**2), rtol=0.1)


@pytest.mark.parametrize(("widths", "rtol"), [((1.0, 1.0), 1e-6), ((1.0, 4.0), 0.05)])
def test_posteriors_are_those_of_an_average_over_the_spread(monkeypatch, widths, rtol):
    # By sums over a grid of the centre and the spread, given measurements with errors; the last user is far from all.
    monkeypatch.setattr(thresholds, "_WIDTHS", np.array(widths))
    measured, error = np.array([-0.2, 0.2, 0.5, 0.1, 0.0, 3.0]), np.array([0.3, 0.4, 0.25, 0.1, 0.1, 0.2])
    learnt = TieThresholds.start(1.0, 6)
    for _ in range(5):
        before, at = learnt, measured - learnt.mean
        learnt = learnt.updated(at / error**2, 1.0 / error**2)
    # By centre, share and spread, kind and user.
    m, s = np.linspace(-4.0, 4.0, 2001)[:, None, None, None], np.tile(thresholds._SPREADS, 2)[:, None, None]
    squared = (s * np.array(widths)[:, None]) ** 2
    log_p = -0.5 * ((measured - m) ** 2 / (squared + error**2) + np.log(1.0 + squared / error**2))
    log_joint = np.log(np.repeat(thresholds._SHARES, thresholds._SPREADS.size, axis=0))[:, :, None] + log_p
    of_user = logsumexp(log_joint, axis=2)
    log_p = of_user.sum(axis=2) - 0.125 * (m[:, 0, 0] + 1.0) ** 2  # the prior of the centre is N(-1, 2^2)
    p = np.kron(thresholds._LIKELY, thresholds._PRIOR) * np.exp(log_p)
    evidence, p = p.sum() * (m[1, 0, 0, 0] - m[0, 0, 0, 0]) / np.sqrt(2.0 * np.pi), p / p.sum()
    kind = p[:, :, None, None] * np.exp(log_joint - of_user[:, :, None])
    share = squared / (squared + error**2)
    mean = m + share * (measured - m)
    wanted = np.einsum("msku,msku->u", kind, mean)
    variance = np.einsum("msku,msku->u", kind, share * error**2 + (mean - wanted) ** 2)
    assert_allclose(learnt.mean, wanted, rtol=rtol, atol=rtol * 0.5)
    assert_allclose(learnt.variance, variance, rtol=2.0 * rtol)
    assert_allclose(learnt.centre, np.einsum("ms,m->", p, m[:, 0, 0, 0]), rtol=rtol, atol=rtol * 0.5)
    doubt = np.einsum("ms,m->", p, (m[:, 0, 0, 0] - learnt.centre) ** 2)
    assert_allclose(learnt.spread**2, np.mean(variance + (wanted - learnt.centre) ** 2) + doubt, rtol=2.0 * rtol)
    at_start = 0.5 * np.sum((measured - before.mean) ** 2 / error**2)
    assert_allclose(learnt.log_evidence, np.log(evidence) + at_start, atol=0.3 if rtol > 1e-3 else 1e-5)
    if widths[1] > 1.0:
        assert abs(learnt.mean[-1] - 3.0) < 0.1  # with one kind it is pulled towards the others by more


@pytest.mark.parametrize("answer", [0.5, 1.0])
def test_answers_without_ties_or_of_nothing_else_have_probabilities(answer):
    X, y, _ = crowd(6, 0.0, n_users=5)
    y = np.full(y.size, 0.5) if answer == 0.5 else (y > 0.5) * 1.0
    model = CrowdGPPL(**PLAIN, random_state=0).fit(X, y)
    p = model.predict_proba(X[:5], ties=True)
    assert_allclose(p.sum(axis=1), 1.0)
    assert (p[:, 1] > 0.95).all() if answer == 0.5 else (p[:, 1] < 0.05).all()
    assert model._thresholds.spread < 3.0


def test_a_spread_of_zero_leaves_all_at_the_centre():
    start = TieThresholds(np.zeros(3), np.zeros(3), 0.0, 0.0)
    assert start.log_evidence == 0.0
    kept = start.updated(np.array([3.0, -2.0, 0.5]), np.full(3, 4.0), learn_prior=False)
    assert_array_equal(kept.mean, 0.0)
    assert_array_equal(kept.variance, 0.0)


def test_thresholds_of_a_simulation_are_recovered(fitted):
    model, _, _, log_b = fitted
    own = model._thresholds
    assert np.corrcoef(own.mean, log_b)[0, 1] > 0.75  # with the errors of 30 answers each
    assert 0.5 < own.spread < 1.1
    assert np.mean(np.abs(own.mean - log_b) < 1.645 * np.sqrt(own.variance)) > 0.75
    assert_array_equal(model.tie_thresholds_, np.exp(own.mean))
    assert_allclose(model.likelihood_.threshold, np.exp(own.centre))


def test_own_thresholds_predict_better_where_users_differ():
    X, y, _ = crowd(1, 0.9, n_answers=40)
    train = np.arange(y.size) % 2 == 0
    losses = []
    for kind in ("vb", "ep"):  # the factorised posterior has one threshold for all
        model = CrowdGPPL(n_factors=0, likelihood="probit-ties", inference=kind, random_state=0)
        model.fit(X[train], y[train])
        losses.append(answers_log_loss(y[~train], model.predict_proba(X[~train], ties=True)))
    assert losses[1] < losses[0] - 0.03


def test_more_answers_make_the_threshold_more_certain():
    X, y, _ = crowd(2, 0.8)
    kept = (X[:, 0] != 3) | (np.arange(y.size) % 10 == 0)
    few = CrowdGPPL(**PLAIN, random_state=0).fit(X[kept], y[kept])._thresholds
    assert few.variance[3] > 2.0 * np.median(few.variance)
    assert abs(few.mean[3] - few.centre) < few.spread


# ---------------------------------------------------------------------------------------------------------- predictions
def test_probabilities_are_of_the_users_own_threshold(fitted):
    model, X, _, log_b = fitted
    pair = X[0, 1:].tolist()
    often, seldom = int(np.argmax(log_b)), int(np.argmin(log_b))
    rows = [(often, *pair), (seldom, *pair), ("nobody", *pair)]
    p = model.predict_proba(np.array(rows, dtype=object), ties=True)
    assert_allclose(p.sum(axis=1), 1.0)
    assert p[0, 1] > p[2, 1] > p[1, 1]
    sides = model.predict_proba(np.array(rows, dtype=object))
    assert_allclose(sides[:, 1], p[:, 0] + 0.5 * p[:, 1])
    wins = model.win_matrix([int(item) for item in pair], user=often)
    assert_allclose(wins.predicted[0, 1], sides[0, 1])
    unseen = model.win_matrix([int(item) for item in pair])
    assert_allclose(unseen.predicted[0, 1], sides[2, 1])


def test_the_report_on_users_has_their_thresholds(fitted):
    model = fitted[0]
    report = model.annotators(credibility=0.8, n_samples=20)
    assert_allclose(np.asarray(report["tie_threshold"]), model.tie_thresholds_)
    assert (np.asarray(report["tie_threshold_low"]) < model.tie_thresholds_).all()
    assert (np.asarray(report["tie_threshold_high"]) > model.tie_thresholds_).all()


def test_reliability_uses_the_threshold_of_each_user():
    y, z, _, _ = answers(40)
    z = np.vstack([z, -z])
    for likelihood in LIKELIHOODS:
        own = TieThresholds(np.log([0.2, 1.3]), np.zeros(2), 0.0, 0.5)
        of_user = annotators._user_log_probs(likelihood, y, own)
        for u, b in enumerate((0.2, 1.3)):
            wanted = replace(likelihood, threshold=b).log_prob(np.broadcast_to(y, z.shape), z)
            assert_allclose(of_user(u)(y, z, np.ones((2, 40))), wanted, rtol=1e-8, atol=1e-9)
            # Tastes are noise beside that of the answers, in which thresholds are measured.
            wanted = replace(likelihood, threshold=0.5 * b).log_prob(np.broadcast_to(y, z.shape), 0.5 * z)
            assert_allclose(of_user(u)(y, z, np.full((2, 40), 0.5)), wanted, rtol=1e-8, atol=1e-9)


def test_sessions_ask_with_the_users_own_threshold(fitted):
    model = fitted[0]
    assert PairUser(model, [(0, 1)], 7).likelihood.threshold == model.tie_thresholds_[7]
    assert PairUser(model, [(0, 1)], "nobody").likelihood.threshold == model.likelihood_.threshold


# ------------------------------------------------------------------------------------------------------ life of a model
def test_damaged_thresholds_are_refused(fitted, tmp_path):
    model = copy(fitted[0])
    model._thresholds = replace(model._thresholds, mean=model._thresholds.mean[:3], variance=np.zeros(3))
    with pytest.raises(DataError, match="must be of the users"):
        save(model, tmp_path / "damaged.skpref")


def test_more_answers_move_the_thresholds_of_those_who_gave_them(monkeypatch):
    set_policy(monkeypatch, "gp.crowd", few_comparisons=100)
    X, y, _ = crowd(3, 0.8)
    model = CrowdGPPL(**PLAIN, random_state=0).fit(X, y)
    before = model._thresholds
    new = np.array([(2, a, b) for a in range(6) for b in range(a)] + [(99, 0, 1)] * 2)
    model.partial_fit(new, np.full(len(new), 0.5))  # one user calls ties, and a new one joins
    after = model._thresholds
    assert after.mean.size == before.mean.size + 1
    assert after.mean[2] > before.mean[2] + 0.1
    others = np.delete(np.arange(before.mean.size), 2)
    assert_array_equal(after.mean[others], before.mean[others])
    assert (after.centre, after.spread) == (before.centre, before.spread)
    assert after.mean[-1] > after.centre
    whole = CrowdGPPL(**PLAIN, random_state=0).fit(np.vstack([X, new]), np.append(y, np.full(len(new), 0.5)))
    assert_allclose(after.mean, whole._thresholds.mean, atol=0.3)


def test_groups_have_them_too():
    X, y, log_b = crowd(4, 0.9, n_users=12)
    X = np.column_stack([X, np.arange(y.size) % 2])
    model = CrowdGPPL(n_factors=0, user=0, left=1, right=2, groups=[3], likelihood="logit-ties", random_state=0)
    assert np.corrcoef(model.fit(X, y)._thresholds.mean, log_b)[0, 1] > 0.8
    assert model.predict_proba(X[:3], ties=True).shape == (3, 3)


# ------------------------------------------------------------------------------------------------------------- refusals
def test_where_they_cannot_be_learnt_they_are_shared():
    X, y, _ = crowd(5, 0.5, n_users=4, n_answers=10)
    vb = {"inference": "vb", "n_factors": 1, "random_state": 0}
    shared = CrowdGPPL(likelihood="logit-ties", **vb).fit(X, y)
    assert_array_equal(shared.tie_thresholds_, np.full(4, shared.likelihood_.threshold))
    assert "tie_threshold" not in shared.annotators(n_samples=10)
    plain = CrowdGPPL(likelihood="probit", n_factors=1, random_state=0).fit(X, y)
    assert plain.tie_thresholds_ is None
