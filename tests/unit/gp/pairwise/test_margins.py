"""Margins as numbers: what they say of utilities, of who wins, and of the next margin."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm
from sklearn.model_selection import KFold, cross_val_score

from skpref import CrowdGPPL, Fixed, GPPLClassifier, load, save
from skpref.elicitation import Session
from skpref.exceptions import DataError
from skpref.likelihoods import PairwiseMargin
from skpref.metrics import answers_log_loss_scorer, log_loss_scorer, ranked_probability_scorer
from skpref.search import OptunaSearch
from skpref.testing import _likelihoods as kit

N_ITEMS, SCALE = 6, 12.0
UTILITIES = np.linspace(-1.0, 1.0, N_ITEMS)


def games(n=200, seed=0, utilities=UTILITIES, step=0.0, n_users=0):
    """Return pairs, or pairs of users, and margins."""
    rng = np.random.default_rng(seed)
    left = rng.integers(utilities.size, size=n)
    right = (left + rng.integers(1, utilities.size, size=n)) % utilities.size
    margin = SCALE * (utilities[left] - utilities[right] + rng.normal(size=n))
    margin = np.rint(margin / step) * step if step else margin
    return np.column_stack([left, right] if not n_users else [rng.integers(n_users, size=n), left, right]), margin


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("scale", [0.1, 1.0, 20.0])
def test_the_likelihood_conforms_to_the_kit(scale, seed):
    rng = np.random.default_rng(seed)
    labels = PairwiseMargin.labels_of(scale * rng.normal(size=8))
    for check in kit._CHECKS:
        check(PairwiseMargin(scale), labels, rng)


def test_labels_are_margins_and_swap_with_the_sides():
    margin = np.array([0.0, 0.3, 1.0, 27.0, 1e6])
    label = PairwiseMargin.labels_of(margin)
    assert_allclose(PairwiseMargin(2.0)._scaled(label), margin / 2.0, rtol=1e-9)
    assert_allclose(PairwiseMargin.labels_of(-margin), 1.0 - label, rtol=1e-15, atol=1e-16)


def test_the_scale_is_the_best_one():
    rng = np.random.default_rng(0)
    y, mu = PairwiseMargin.labels_of(3.0 * rng.normal(size=50)), rng.normal(size=50)
    v, weight = np.ones(50), rng.random(50)
    best = PairwiseMargin().learnt(y, mu, v, weight)
    values = [weight @ PairwiseMargin(best.scale * f).expectation(y, mu, v)[0] for f in (0.999, 1.0, 1.001)]
    assert values[1] == max(values)
    ties = np.full(50, 0.5)
    assert best.learnt(ties, mu, v, weight) is best  # draws say nothing of the scale


def test_utilities_have_the_exact_posterior():
    X, margin = games(40)
    likelihood = PairwiseMargin(SCALE)
    model = GPPLClassifier(likelihood="margin", scale_prior=Fixed(1.0), tol=1e-9).fit(X, margin)
    scale = model.likelihood_.scale
    D = np.eye(N_ITEMS)[X[:, 0]] - np.eye(N_ITEMS)[X[:, 1]]
    V = np.linalg.inv(np.eye(N_ITEMS) + D.T @ D)
    pairs = np.array([(0, 5), (2, 3)])
    rows = np.eye(N_ITEMS)[pairs[:, 0]] - np.eye(N_ITEMS)[pairs[:, 1]]
    mean, variance = model.latent_mean_and_variance(pairs)
    assert_allclose(mean, rows @ V @ D.T @ (margin / scale), rtol=1e-5)
    assert_allclose(variance, np.einsum("ij,jk,ik->i", rows, V, rows), rtol=1e-5)
    expected, std = model.predict_margin(pairs)
    assert_allclose(expected, scale * mean)
    assert_allclose(std, scale * np.sqrt(1.0 + variance))
    assert abs(np.log(scale / likelihood.scale)) < 4.0 / np.sqrt(2 * 40)
    assert_allclose(model.predict_proba(pairs)[:, 2], norm.cdf(expected / std), rtol=1e-9)


@pytest.mark.parametrize("cls", [GPPLClassifier, CrowdGPPL])
def test_results_follow_from_margins(cls, tmp_path):
    X, margin = games(600, step=4.0, n_users=8 * (cls is CrowdGPPL))
    model = cls(likelihood="margin").fit(X, margin / 4.0)
    assert_array_equal(model.classes_, [-1, 0, 1])
    p = model.predict_proba(X)
    assert_allclose(p.sum(axis=1), 1.0)
    assert_allclose(model.predict_proba(X, ties=True), p[:, ::-1], atol=1e-12)
    assert_allclose(p[:, 1].mean(), np.mean(margin == 0.0), atol=0.05)
    assert_array_equal(model.predict(X), np.array([-1, 0, 1])[p.argmax(axis=1)])
    assert model.score(X, margin) > 0.6
    inside = np.abs(margin / 4.0 - model.predict_margin(X)[0]) < 1.645 * model.predict_margin(X)[1]
    assert 0.85 < inside.mean() < 0.96
    save(model, tmp_path / "model")
    assert_array_equal(load(tmp_path / "model").predict_margin(X), model.predict_margin(X))


def test_margins_say_more_than_results():
    X, margin = games(80, seed=1)
    truth = norm.cdf(np.subtract(*UTILITIES[X.T]))
    errors = []
    for likelihood, y in (("margin", margin), ("probit", (margin > 0.0).astype(float))):
        p = GPPLClassifier(likelihood=likelihood).fit(X, y).predict_proba(X)[:, -1]
        errors.append(np.mean((p - truth) ** 2))
    assert errors[0] < errors[1]


@pytest.mark.parametrize("scorer", [answers_log_loss_scorer, log_loss_scorer, ranked_probability_scorer])
def test_scorers_take_margins(scorer):
    scores = cross_val_score(GPPLClassifier(likelihood="margin"), *games(), scoring=scorer, cv=KFold(3))
    assert np.all((scores > -1.2) & (scores < 0.0))


def test_margins_go_with_times_covariates_and_further_rows():
    X, margin = games(300)
    rows = np.column_stack([X, np.arange(300) / 100.0, np.where(np.arange(300) % 2, 1.0, -1.0)])
    model = GPPLClassifier(likelihood="margin", time=2, covariates=[3]).fit(rows, margin + 6.0 * rows[:, 3])
    assert model.coef_[0] == pytest.approx(6.0 / SCALE, abs=5.0 * model.coef_std_[0])
    assert 0.5 < model.likelihood_.scale / SCALE < 1.5
    first = GPPLClassifier(likelihood="margin").fit(X[:150], margin[:150])
    first.partial_fit(X[150:], margin[150:])
    both = GPPLClassifier(likelihood="margin").fit(X, margin)
    assert_allclose(first.predict_margin(X[:9]), both.predict_margin(X[:9]), rtol=1e-2)


@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_the_unit_of_margins_does_not_matter(unit):
    X, margin = games()
    a, b = (GPPLClassifier(likelihood="margin", tol=1e-9).fit(X, factor * margin) for factor in (1.0, unit))
    assert b.likelihood_.scale == pytest.approx(unit * a.likelihood_.scale, rel=1e-5)  # fits stop within this
    assert_allclose(b.predict_margin(X), unit * np.array(a.predict_margin(X)), rtol=1e-5, atol=1e-5 * unit)
    assert np.diff(b.lower_bounds_).min() > -1e-6 * abs(b.lower_bound_)


def test_sides_may_be_exchanged():
    X, margin = games()
    a, b = (GPPLClassifier(likelihood="margin", tol=1e-9).fit(*data) for data in ((X, margin), (X[:, ::-1], -margin)))
    assert_allclose(a.predict_margin(X), b.predict_margin(X), rtol=1e-6)


def test_what_is_refused():
    X, margin = games(20)
    model = GPPLClassifier(likelihood="margin").fit(X, margin)
    for fault, y in (("as if one side never won", np.abs(margin)), ("all margins are 0", 0.0 * margin)):
        with pytest.raises(DataError, match=fault):
            GPPLClassifier(likelihood="margin").fit(*((X[:9], y[:9]) if "all" in fault else (X, y)))
    with pytest.raises(DataError, match="a session asks for preferences"):
        Session(model)
    with pytest.raises(DataError, match="margins need likelihood='margin'"):
        GPPLClassifier().fit(X, (margin > 0.0).astype(float)).predict_margin(X)
    for wrong in ({"scale": 0.0}, {"scale": np.inf}, {"step": -1.0}):
        with pytest.raises(DataError, match=f"{next(iter(wrong))} must be a"):
            PairwiseMargin(**wrong)


def test_a_search_keeps_the_likelihood():
    search = OptunaSearch(GPPLClassifier(likelihood="margin"), n_trials=1, cv=KFold(2), random_state=0)
    assert search.fit(*games(60)).best_estimator_.likelihood == "margin"


@pytest.mark.statistical
def test_intervals_cover():
    inside = []
    for seed in range(60):
        utilities = np.random.default_rng(seed).normal(size=10)
        X, margin = games(60, seed, utilities)
        model = GPPLClassifier(likelihood="margin", scale_prior=Fixed(1.0)).fit(X, margin)
        ids = model.item_ids_.astype(int)
        mean, std = model.utility(return_std=True)
        inside.append(np.abs(utilities[ids] - utilities[ids].mean() - mean) < 1.645 * std)
    assert 0.84 < np.concatenate(inside).mean() < 0.96
