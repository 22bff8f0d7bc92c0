"""Graded answers: how much better the left item is, in levels that are the classes of the classifiers."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import GridSearchCV, cross_val_score

from skpref import CrowdGPPL, GPPLClassifier, save
from skpref.data import from_results
from skpref.data.labels import read_grades
from skpref.elicitation import Session
from skpref.exceptions import DataError, DataWarning
from skpref.gp.pairwise.thresholds import information, learn_ratios, predict_answers, threshold_derivatives
from skpref.likelihoods import PairwiseLogitTies, PairwiseProbitTies
from skpref.metrics import answers_log_loss_scorer
from skpref.plots import PairCalibrationDisplay

N_ITEMS = 6
UTILITIES = np.linspace(-1.5, 1.5, N_ITEMS)
GRADED = PairwiseLogitTies(0.4, (2.5,)), PairwiseProbitTies(0.6, (1.7, 3.0)), PairwiseLogitTies(0.7, (2.0,), tie=False)
graded = pytest.mark.parametrize("likelihood", GRADED, ids=["5", "7", "6"])


def answers(n=300, seed=0, n_users=0, likelihood=GRADED[0]):
    """Return pairs, or pairs of users, and grades."""
    rng = np.random.default_rng(seed)
    left = rng.integers(N_ITEMS, size=n)
    right = (left + rng.integers(1, N_ITEMS, size=n)) % N_ITEMS
    p = likelihood.predict_answers(UTILITIES[left] - UTILITIES[right], np.zeros(n))[:, ::-1]
    level = (p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    half = likelihood.n_levels // 2
    classes = np.array([*range(-half, 0), *([0] if likelihood.tie else []), *range(1, half + 1)])
    sides = [left, right] if n_users == 0 else [rng.integers(n_users, size=n), left, right]
    return np.column_stack(sides), classes[level]


@graded
def test_slopes_of_thresholds_and_gaps_are_those_of_finite_differences(likelihood):
    rng, h = np.random.default_rng(0), 1e-6
    y = np.linspace(0.0, 1.0, likelihood.n_levels)
    mu, v, b = rng.normal(size=y.size), rng.exponential(size=y.size), rng.uniform(0.3, 1.0, y.size)
    at = threshold_derivatives(likelihood, y, mu, v, b)
    more, less = (threshold_derivatives(likelihood, y, mu, v, b + step).value for step in (h, -h))
    assert_allclose(at.slope, (more - less) / (2.0 * h), rtol=1e-5, atol=1e-6)
    more, less = (threshold_derivatives(likelihood, y, mu + step, v, b) for step in (h, -h))
    assert_allclose(at.first, (more.value - less.value) / (2.0 * h), rtol=1e-5, atol=1e-6)
    assert_allclose(at.second, (more.first - less.first) / (2.0 * h), rtol=1e-4, atol=1e-5)
    for gap in range(1, 1 + len(likelihood.ratios)):
        slope = b * threshold_derivatives(likelihood, y, mu, v, b, gap).slope
        more, less = (threshold_derivatives(likelihood.stretched(gap, step), y, mu, v, b).value for step in (h, -h))
        assert_allclose(slope, (more - less) / (2.0 * h), rtol=1e-5, atol=1e-6)


@graded
def test_derivatives_in_the_gaps_are_those_of_finite_differences(likelihood):
    rng, h = np.random.default_rng(1), 1e-4
    y = np.append(np.linspace(0.0, 1.0, likelihood.n_levels), 0.3)  # a soft label, too
    mu, v, weight = rng.normal(size=y.size), rng.exponential(size=y.size), rng.exponential(size=y.size)
    value, slope, bend = likelihood._log_threshold_derivatives(y, mu, v, weight)
    assert_allclose(value, weight @ likelihood.expectation(y, mu, v)[0], rtol=1e-12)
    for gap in range(1 + len(likelihood.ratios)):
        more, less = (likelihood.stretched(gap, step)._log_threshold_derivatives(y, mu, v, weight) for step in (h, -h))
        assert_allclose(slope[gap], (more[0] - less[0]) / (2.0 * h), rtol=1e-5, atol=1e-5)
        assert_allclose(bend[gap], (more[1] - less[1]) / (2.0 * h), rtol=1e-5, atol=1e-5)


def test_few_ties_do_not_slow_the_fit_down():
    X, y = answers(likelihood=PairwiseLogitTies(0.03, (40.0,)))
    assert GPPLClassifier(likelihood="logit-graded").fit(X, y).n_iter_ < 30


@graded
def test_probabilities_sum_to_one_and_are_those_of_log_prob(likelihood):
    z, y = np.array([-40.0, -2.0, 0.0, 0.3, 40.0]), np.linspace(1.0, 0.0, likelihood.n_levels)
    p = likelihood.predict_answers(z, np.zeros(z.size))
    assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
    assert_allclose(p, np.exp([likelihood.log_prob(y, at) for at in z]), rtol=1e-8, atol=1e-12)
    log_b = np.full(z.size, np.log(likelihood.threshold)), np.zeros(z.size)
    assert_allclose(predict_answers(likelihood, z, np.zeros(z.size), log_b), p, atol=1e-12)


@graded
def test_information_is_the_expected_square_of_the_slope(likelihood):
    mu, v, b, h = np.array([-1.0, 0.2, 2.0]), np.array([0.0, 0.5, 1.0]), np.array([0.3, 0.6, 1.0]), 1e-6
    total = np.zeros(3)
    for y in np.linspace(0.0, 1.0, likelihood.n_levels):
        at, more, less = (
            threshold_derivatives(likelihood, np.full(3, y), mu, v, b * np.exp(step)).value for step in (0.0, h, -h)
        )
        total += np.exp(at) * ((more - less) / (2.0 * h)) ** 2
    assert_allclose(information(likelihood, mu, v, b), total, rtol=1e-4)


@graded
@pytest.mark.parametrize("crowd", [False, True])
def test_thresholds_are_recovered(likelihood, *, crowd):
    rng, n = np.random.default_rng(3), 4000
    mu = rng.normal(size=n) * 1.5
    p = likelihood.predict_answers(mu, np.zeros(n))[:, ::-1]
    y = (p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1) / (likelihood.n_levels - 1.0)
    found, rows = type(likelihood).from_levels(likelihood.n_levels), (y, mu, np.zeros(n), np.ones(n))
    for _ in range(30):
        if crowd:
            found = learn_ratios(found, rows, np.full(n, likelihood.threshold))
        else:
            found = found.learnt(*rows)
    assert_allclose(found.ratios, likelihood.ratios, rtol=0.15)
    assert crowd or abs(np.log(found.threshold / likelihood.threshold)) < 0.15


def test_wrong_ratios_are_refused():
    for ratios in [(1.0,), (2.0, 1.5), (np.inf,), (np.nan,), "ab", 2.0]:
        with pytest.raises(DataError, match="ratios must be finite numbers, ascending from above 1"):
            PairwiseLogitTies(0.3, ratios)
    with pytest.raises(DataError, match="tie must be True or False; got 'no'"):
        PairwiseLogitTies(0.3, tie="no")
    with pytest.raises(DataError, match="n_levels must be at least 3; got 2"):
        PairwiseLogitTies.from_levels(2)


# ---------------------------------------------------------------------------------------------------------- estimators
def test_grades_are_the_classes():
    X, y = answers()
    model = GPPLClassifier(likelihood="logit-graded").fit(X, y)
    p = model.predict_proba(X)
    assert model.classes_.tolist() == [-2, -1, 0, 1, 2]
    assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
    assert_array_equal(model.predict(X), model.classes_[p.argmax(axis=1)])
    assert model.score(X, y) == pytest.approx(np.mean(model.predict(X) == y))
    assert_allclose(model.predict_proba(X, ties=True), np.column_stack([p[:, 3:].sum(1), p[:, 2], p[:, :2].sum(1)]))
    assert np.corrcoef(model.utility(range(N_ITEMS)), UTILITIES)[0, 1] > 0.95


def test_three_grades_are_ties():
    X, y = answers(likelihood=PairwiseLogitTies(0.5))
    model = GPPLClassifier(likelihood="logit-graded").fit(X, y)
    ties = GPPLClassifier(likelihood="logit-ties").fit(X, 0.5 + 0.5 * y)
    assert_array_equal(model.utility(range(N_ITEMS)), ties.utility(range(N_ITEMS)))
    assert_array_equal(model.predict_proba(X), ties.predict_proba(X, ties=True)[:, ::-1])


@pytest.mark.parametrize("likelihood", ["logit-graded", "probit-graded"])
def test_exchanged_sides_and_signs_change_nothing(likelihood):
    X, y = answers(150)
    model = GPPLClassifier(likelihood=likelihood).fit(X, y)
    other = GPPLClassifier(likelihood=likelihood).fit(X[:, ::-1], -y)
    assert_allclose(model.utility(range(N_ITEMS)), other.utility(range(N_ITEMS)), rtol=1e-9)
    assert_allclose(model.predict_proba(X), other.predict_proba(X[:, ::-1])[:, ::-1], rtol=1e-9)


def test_grades_tell_more_than_sides():
    errors = []
    for seed in range(8):
        X, y = answers(200, seed)
        sided = y != 0
        models = (
            GPPLClassifier(likelihood="logit-graded").fit(X, y),
            GPPLClassifier(likelihood="logit").fit(X[sided], (y[sided] > 0).astype(int)),
        )
        errors.append([np.sqrt(np.mean((m.utility(range(N_ITEMS)) - UTILITIES) ** 2)) for m in models])
    assert np.mean(errors, axis=0)[0] < 0.95 * np.mean(errors, axis=0)[1]


def test_verdicts_are_read():
    X, y = answers()
    words = np.array(["[[B>>A]]", "B > A", "A=B", "[[A>B]]", "B<<A"])[y + 2]
    other = GPPLClassifier(likelihood="logit-graded").fit(X, y)
    with pytest.warns(DataWarning, match="verdicts, which are read as the grades .* metrics of scikit-learn"):
        model = GPPLClassifier(likelihood="logit-graded").fit(X, words)
    assert_array_equal(model.utility(range(N_ITEMS)), other.utility(range(N_ITEMS)))
    assert model.score(X, words) == other.score(X, y)


def test_results_are_read_as_margins():
    games = {"home": list("abcab"), "away": list("bcaca"), "goals": [5, 0, 1, 2, 0], "against": [0, 1, 1, 0, 4]}
    rows = from_results(games, "home", "away", ("goals", "against"), margins=3)
    assert rows.y.tolist() == [3.0, -1.0, 0.0, 2.0, -3.0]
    assert "margins of goals, against (at most 3)" in str(rows.read_)
    model = GPPLClassifier(likelihood="logit-graded").fit(rows.X, rows.y)
    assert model.classes_.tolist() == [-3, -2, -1, 0, 1, 2, 3]
    assert from_results(games, "home", "away", ("goals", "against"), margins=np.inf).y.tolist() == [5, -1, 0, 2, -4]
    for wrong in (0, -1, "many", np.nan):
        with pytest.raises(DataError, match="margins must be the largest margin"):
            from_results(games, "home", "away", ("goals", "against"), margins=wrong)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0, 1, 2, 3, 4, 3, 2, 1, 0, 4], "as if one side never won"),
        ([1, -1, 1], "grades have two sizes or more"),
        ([0, 0, 0], "grades have two sizes or more"),
        (["A>>B", "B>A", "left"], "'left' in comparison 2 is no grade"),
        (["1", "-1", "0"], "'1' in comparison 0 is no grade"),
        ([True, False, True], "is no grade"),
        ([1.0, np.nan, 0.0], "no grade in comparison 1"),
        ([1.0, np.inf, 0.0], "inf in comparison 1 is no grade"),
        (None, "y is None: pass grades"),
        (np.arange(-20, 21), "grades of 21 sizes"),
        ([1j, -1j, 0j], "Unknown label type: complex"),
    ],
)
def test_other_answers_are_refused(y, message):
    n = 3 if y is None else len(y)
    X = np.column_stack([np.arange(n), np.arange(n) + 1])
    with pytest.raises(DataError, match=message):
        GPPLClassifier(likelihood="logit-graded").fit(X, y)


@pytest.mark.parametrize(
    ("scale", "grades"),
    [
        (lambda y: np.arange(-0.2, 0.21, 0.1)[y + 2], [-0.2, -0.1, 0.0, 0.1, 0.2]),
        (lambda y: (y + 3) / 5.0 - 0.6, [-0.4, -0.2, 0.0, 0.2, 0.4]),
        (lambda y: np.float32(0.1) * y.astype(np.float32), [-0.2, -0.1, 0.0, 0.1, 0.2]),
        (lambda y: 1e300 * y, [-2e300, -1e300, 0.0, 1e300, 2e300]),
        (lambda y: np.where(y == 0, 1e-300, y), [-2, -1, 0, 1, 2]),
        (lambda y: y * 10**7 + np.sign(y), [-20000001, -10000001, 0, 10000001, 20000001]),
    ],
)
def test_errors_of_decimals_are_no_grades(scale, grades):
    _, y = answers()
    labels, classes = read_grades(scale(y))
    assert classes.tolist() == grades
    assert_array_equal(labels, (y + 2) / 4.0)
    assert_array_equal(read_grades(scale(y), classes)[0], labels)


def test_signed_numbers_ask_for_grades():
    X, y = answers()
    with pytest.raises(DataError, match="signed grades need likelihood='logit-graded'"):
        GPPLClassifier(likelihood="logit-ties").fit(X, y)


def test_grades_without_training_rows_are_wrong_answers():
    X, y = answers()
    model, more = GPPLClassifier(likelihood="logit-graded").fit(X, y), np.where(y == 2, 3, y)
    assert model.score(X, more) == pytest.approx(np.mean(model.predict(X) == more))
    assert answers_log_loss_scorer(model, X, more) == answers_log_loss_scorer(model, X, y)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.score(X, y[:1])


def test_calibration_is_of_sides():
    X, y = answers()
    model, sides = GPPLClassifier(likelihood="logit-graded").fit(X, y), 0.5 + 0.5 * np.sign(y)
    left, tie, _ = model.predict_proba(X, ties=True).T
    display = PairCalibrationDisplay.from_estimator(model, X, y)
    wanted = PairCalibrationDisplay.from_predictions(sides, left + 0.5 * tie)
    assert_allclose(display.calibration.mean_observed, wanted.calibration.mean_observed)


@pytest.mark.parametrize("change", [("logit-graded", "logit-ties"), ("logit-ties", "logit-graded")])
@pytest.mark.parametrize("estimator", [GPPLClassifier, CrowdGPPL])
def test_later_answers_are_of_the_same_kind(estimator, change):
    X, y = answers(60, n_users=2 * (estimator is CrowdGPPL))
    kinds = {"logit-graded": y, "logit-ties": 0.5 + 0.5 * np.sign(y)}
    model = estimator(likelihood=change[0]).fit(X, kinds[change[0]])
    with pytest.raises(DataError, match="whether likelihood has grades differs from that of the fit"):
        model.set_params(likelihood=change[1]).partial_fit(X, kinds[change[1]])


def test_two_classes_of_five_levels_are_refused(tmp_path):
    X, y = answers(60)
    model = GPPLClassifier(likelihood="logit-graded").fit(X, y)
    model.classes_ = np.array([0, 1])
    with pytest.raises(DataError, match="classes_ must be 0 and 1"):
        save(model, tmp_path / "model.skpref")


def test_more_answers_have_grades_of_the_fit():
    X, y = answers()
    model = GPPLClassifier(likelihood="logit-graded").fit(X[:200], y[:200])
    with pytest.raises(DataError, match="3 in comparison 1 is no grade of the fit"):
        model.partial_fit(X[:2], [1, 3])
    whole = GPPLClassifier(likelihood="logit-graded").fit(X, y)
    model.partial_fit(X[200:], y[200:])
    assert_allclose(model.utility(range(N_ITEMS)), whole.utility(range(N_ITEMS)), atol=2e-3)
    assert_allclose(model.likelihood_.ratios, whole.likelihood_.ratios, rtol=1e-2)


def test_a_likelihood_with_other_levels_is_refused():
    X, y = answers()
    with pytest.raises(DataError, match="likelihood has 7 levels, and y has 5"):
        GPPLClassifier(likelihood=PairwiseLogitTies(0.3, (2.0, 3.0))).fit(X, y)


def test_files_are_brought_into_memory(tmp_path):
    X, y = answers(200)
    rows = pd.DataFrame(X, columns=["left", "right"])
    rows.assign(y=y).to_parquet(tmp_path / "answers.parquet")
    stored = GPPLClassifier(likelihood="logit-graded").fit(tmp_path / "answers.parquet")
    memory = GPPLClassifier(likelihood="logit-graded").fit(rows, y)
    assert_array_equal(stored.predict_proba(rows), memory.predict_proba(rows))


def test_tools_of_scikit_learn():
    X, y = answers(200)
    search = GridSearchCV(
        GPPLClassifier(), {"likelihood": ["logit-graded", "probit-graded"]}, scoring="neg_log_loss", cv=2
    )
    assert np.isfinite(search.fit(X, y).best_score_)
    model = GPPLClassifier(likelihood="logit-graded")
    assert cross_val_score(model, X, y, cv=2, scoring="accuracy").mean() > 0.3
    assert cross_val_score(model, X, y, cv=2, scoring=answers_log_loss_scorer).mean() > -1.0


def test_they_go_with_covariates_sides_and_time():
    X, y = answers(200)
    rng = np.random.default_rng(0)
    rows = np.column_stack([X, rng.normal(size=200), np.arange(200.0)])
    parameters = {"left": 0, "right": 1, "covariates": {"length": 2}, "order_effect": True}
    for more in ({}, {"time": 3, "dynamics": "drift"}):
        model = GPPLClassifier(likelihood="logit-graded", **parameters, **more).fit(rows, y)
        assert_allclose(model.predict_proba(rows).sum(axis=1), 1.0, rtol=1e-12)
        assert model.score(rows, y) > 0.3


# --------------------------------------------------------------------------------------------------------------- crowd
@pytest.fixture(scope="module")
def crowd():
    X, y = answers(400, n_users=10)
    return CrowdGPPL(likelihood="logit-graded").fit(X, y), X, y


def test_crowds_have_a_scale_of_thresholds_for_each_user(crowd):
    model, X, _ = crowd
    assert model.classes_.tolist() == [-2, -1, 0, 1, 2]
    assert model.tie_thresholds_.shape == (10,)
    assert abs(np.log(model.likelihood_.threshold / 0.4)) < 0.5
    assert model.likelihood_.ratios[0] == pytest.approx(2.5, rel=0.3)
    p = model.predict_proba(X)
    assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
    assert_array_equal(model.predict(X), model.classes_[p.argmax(axis=1)])
    assert model.annotators().reliability.min() > 0.0


def test_few_ties_do_not_slow_crowds_down():
    X, y = answers(150, n_users=3, likelihood=PairwiseLogitTies(0.03, (40.0,)))
    assert CrowdGPPL(likelihood="logit-graded").fit(X, y).n_iter_ < 40


def test_crowds_learn_more(crowd):
    _, X, y = crowd
    model = CrowdGPPL(likelihood="logit-graded").fit(X[:300], y[:300]).partial_fit(X[300:], y[300:])
    assert model.score(X, y) > 0.3
    with pytest.raises(DataError, match="no grade of the fit"):
        model.partial_fit(X[:1], [7])


def test_sessions_ask_for_grades(crowd):
    X, y = answers()
    for model, user in ((GPPLClassifier(likelihood="logit-graded").fit(X, y), None), (crowd[0], 3)):
        session = Session(model, user=user, random_state=0)
        assert session.labels_ == (-2, -1, 0, 1, 2)
        before = dict(zip(session.estimates().ids, session.estimates().value, strict=True))
        row = int(session.ask()[0])
        left = session.candidates_[row][0]
        session.tell({row: 2})
        after = dict(zip(session.estimates().ids, session.estimates().value, strict=True))
        assert after[left] > before[left]
        with pytest.raises(DataError, match="an answer must be one of"):
            session.tell({int(session.ask()[0]): 0.5})
