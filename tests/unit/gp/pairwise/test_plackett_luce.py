"""GPPLRegressor(likelihood="plackett-luce"): the scores of a group are one ranking."""

import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF
from sklearn.model_selection import GridSearchCV, GroupKFold

from skpref import SVI, CrowdGPPL, Fixed, GPPLClassifier, GPPLRegressor, Table, load, save
from skpref.exceptions import DataError
from skpref.likelihoods import Luce
from skpref.search import default_space
from tests.policies import set_policy

_rng = np.random.default_rng(7)
G, K = 10, 5
X = _rng.standard_normal((G * K, 2))
QID = np.repeat(np.arange(G), K)
SCORE = 2.0 * X[:, 0] - X[:, 1] + _rng.gumbel(size=G * K)
TOP = (SCORE.reshape(G, K) == SCORE.reshape(G, K).max(axis=1, keepdims=True)).ravel().astype(int)
SHOWN = np.arange(G * K).reshape(G, K)
EXACT = {"kernel": RBF(2.0, "fixed"), "tol": 1e-10, "max_iter": 500, "random_state": 0}


def ranked(**options):
    return GPPLRegressor(**{"likelihood": "plackett-luce"} | EXACT | options)


@pytest.fixture(scope="module")
def model():
    return ranked().fit(X, SCORE, qid=QID)


def assert_same(model, other, atol=1e-8):
    for value, wanted in zip(model.predict(X, return_std=True), other.predict(X, return_std=True), strict=True):
        assert_allclose(value, wanted, atol=atol)


# ------------------------------------------------------------------------------------------------------------ the model
@pytest.mark.filterwarnings("ignore:The comparisons form")
@pytest.mark.parametrize("scores", [SCORE, TOP], ids=["rankings", "choices"])
def test_it_is_the_fit_of_a_classifier_to_tasks_of_the_same_items(scores):
    ranks = 1.0 + np.argsort(np.argsort(-scores.reshape(G, K), axis=1), axis=1)
    answers = scores.reshape(G, K).argmax(axis=1) if scores is TOP else ranks
    tasks = GPPLClassifier(Table(X), item_effects=False, likelihood="luce", **EXACT).fit(SHOWN, answers)
    model = ranked().fit(X, scores, qid=QID)
    for value, wanted in zip(
        model.predict(X, return_std=True), tasks.utility(np.arange(G * K), return_std=True), strict=True
    ):
        assert_allclose(value, wanted, atol=1e-8)
    assert model.lower_bound_ == pytest.approx(tasks.lower_bound_, abs=1e-8)
    assert (model.likelihood_, model.converged_) == (Luce(), True)


def test_groups_of_two_are_comparisons():
    pairs = np.arange(G * K) // 2
    assert_same(ranked().fit(X, SCORE, qid=pairs), ranked(likelihood="logit").fit(X, SCORE, qid=pairs), 1e-6)


def test_learnt_length_scales_and_the_order_of_rows(model):
    rows = np.random.default_rng(0).permutation(G * K)
    learnt = ranked(kernel=None, tol=1e-4)
    wanted = learnt.fit(X, SCORE, qid=QID).predict(X)
    assert_allclose(learnt.fit(X[rows], SCORE[rows], qid=QID[rows]).predict(X), wanted, atol=1e-8)
    assert np.corrcoef(wanted, model.predict(X))[0, 1] > 0.9
    later = (G - 1 - QID)[rows]  # groups in the reverse order
    assert_same(ranked().fit(X[rows], SCORE[rows], qid=later), model)
    assert_array_equal(ranked(likelihood=Luce()).fit(X, np.exp(SCORE), qid=QID).predict(X), model.predict(X))


def test_the_best_of_a_group_says_less_than_its_ranking():
    top, whole = (ranked(scale_prior=Fixed(0.2)).fit(X, scores, qid=QID) for scores in (TOP, SCORE))
    assert_same(ranked(scale_prior=Fixed(0.2)).fit(X, np.where(TOP, SCORE, -9.0), qid=QID), top)
    assert top.predict(X, return_std=True)[1].mean() > 1.2 * whole.predict(X, return_std=True)[1].mean()
    assert top.score(X, TOP, qid=QID) > 0.7


def test_equal_scores_before_the_last_place():
    # Each of m equal rows is chosen before lower ones, and of two of them each with the weight 1.5 / (m + 1).
    rows, y, w = X[:4], np.array([2.0, 2.0, 2.0, 1.0]), 1.5 / 4.0
    before = [(0, 3, 1.0), (1, 3, 1.0), (2, 3, 1.0)]
    before += [(a, b, w) for a in range(3) for b in range(3) if a != b]
    pairs = ranked().fit(
        rows[[k for a, b, _ in before for k in (a, b)]],
        np.tile([1, 0], len(before)),
        qid=np.repeat(np.arange(len(before)), 2),
        sample_weight=np.repeat([weight for *_, weight in before], 2),
    )
    assert_same(ranked().fit(rows, y), pairs, 1e-6)
    assert_same(ranked().fit(rows[[2, 0, 3, 1]], y[[2, 0, 3, 1]]), pairs, 1e-6)


@pytest.mark.filterwarnings("ignore:The comparisons form")
def test_equal_rows_of_a_group_are_alternatives_of_their_own():
    rows, distinct = X.copy(), np.setdiff1d(np.arange(G * K), [1, 2])
    rows[[1, 2]] = rows[0]
    ranks = 1.0 + np.argsort(np.argsort(-SCORE.reshape(G, K), axis=1), axis=1)
    points = {"inducing": rows[distinct]}
    tasks = GPPLClassifier(Table(rows), item_effects=False, likelihood="luce", **EXACT | points).fit(SHOWN, ranks)
    fitted = ranked(**points).fit(rows, SCORE, qid=QID)
    assert_allclose(fitted.predict(rows), tasks.utility(np.arange(G * K)), atol=1e-8)
    order = np.r_[np.arange(3)[::-1], 3 : G * K]
    assert_same(ranked(**points).fit(rows[order], SCORE[order], qid=QID), fitted)
    assert_allclose(np.diff(fitted.predict(rows)[:3]), 0.0, atol=1e-12)


def test_weights_of_groups(model):
    weight = np.where(np.arange(G) < 3, 2.0, 1.0)
    twice = np.r_[np.arange(G * K), np.flatnonzero(QID < 3)]
    names = np.r_[QID, QID[QID < 3] + G]
    weighted = ranked().fit(X, SCORE, qid=QID, sample_weight=weight[QID])
    assert_same(weighted, ranked().fit(X[twice], SCORE[twice], qid=names), 1e-6)
    some = QID > 0
    assert_same(
        ranked().fit(X, SCORE, qid=QID, sample_weight=some * 1.0), ranked().fit(X[some], SCORE[some], qid=QID[some])
    )
    assert_same(ranked().fit(X, SCORE, qid=QID, sample_weight=np.ones(G * K)), model)


def test_groups_that_say_nothing_are_left_out(model):
    more = np.vstack([X, X[:3] + 5.0])
    fitted = ranked().fit(more, np.r_[SCORE, 1.0, 4.0, 4.0], qid=np.r_[QID, 77, 78, 78])
    assert_same(fitted, model)
    assert_same(ranked().fit(X[:K], SCORE[:K]), ranked().fit(X[:K], SCORE[:K], qid=["a"] * K))


# ---------------------------------------------------------------------------------------------------- what it refuses
@pytest.mark.parametrize(
    ("options", "given", "message"),
    [
        ({}, {}, "y without qid has 60 rows.*at most 50.*default likelihood"),
        ({}, {"qid": ["a"] * 55 + ["b"] * 5}, "group 'a' of qid has 55 rows"),
        ({}, {"qid": np.arange(60) // 6, "sample_weight": np.r_[np.ones(59), 0.0]}, "has 1 and 0 in group 9 of qid"),
        ({}, {"qid": np.arange(60) // 6, "sample_weight": np.zeros(60)}, "at least 1 comparison is required"),
        ({}, {"qid": np.arange(60)}, "at least 1 comparison is required"),
        ({}, {"qid": np.arange(59)}, "inconsistent numbers of samples"),
        (
            {},
            {"y": None, "comparisons": [[0, 1]]},
            "comparisons=.* not for rankings.*comparisons=None.*'logit'",
        ),
        (
            {"inference": "laplace"},
            {"qid": np.arange(60) // 6},
            "='laplace' is not for rankings.*'auto' or 'vb'",
        ),
        ({"inference": SVI()}, {"qid": np.arange(60) // 6}, "inference=SVI.* is not for rankings"),
        ({"likelihood": "luce"}, {"qid": np.arange(60) // 6}, "plackett-luce"),
    ],
)
def test_what_rankings_cannot_be_is_refused_in_words(options, given, message):
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match=message):
        ranked(**options).fit(rng.standard_normal((60, 2)), **{"y": rng.standard_normal(60)} | given)


@pytest.mark.parametrize("likelihood", ["plackett-luce", Luce()], ids=str)
def test_files_are_brought_into_memory(likelihood, tmp_path, monkeypatch):
    set_policy(monkeypatch, "gp.pairwise", all_rows=10)
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"a": X[:, 0], "b": X[:, 1], "score": SCORE, "query": QID})
    table.to_parquet(tmp_path / "items.parquet")
    there = ranked(likelihood=likelihood).fit(tmp_path / "items.parquet", "score", qid="query")
    assert_allclose(there.predict(table[["a", "b"]]), ranked(likelihood=likelihood).fit(X, SCORE, qid=QID).predict(X))
    set_policy(monkeypatch, "data", most_stored=20)
    with pytest.raises(DataError, match=r"X has 50 rows; .* at most 20: fit to a part"):
        ranked(likelihood=likelihood).fit(tmp_path / "items.parquet", "score", qid="query")


@pytest.mark.parametrize("estimator", [GPPLClassifier, CrowdGPPL])
def test_estimators_of_tasks_have_one_name_for_it(estimator):
    with pytest.raises(ValueError, match="'luce'"):
        estimator(likelihood="plackett-luce").fit([[0, 1, 2]], [0])


# ------------------------------------------------------------------------------------------------- tools around a model
def test_files_keep_it_and_predictions_are_those_of_a_logit(model, tmp_path):
    save(model, tmp_path / "model.skpref")
    assert_array_equal(load(tmp_path / "model.skpref").predict(X), model.predict(X))
    better, worse = np.argmax(model.predict(X)), np.argmin(model.predict(X))
    p = model.predict_preference(X[[better]], X[[worse]])[0]
    assert 0.5 < p < expit(np.ptp(model.predict(X)))  # averaged over the posterior
    assert model.rank(X[:4], scale="elo").rank.tolist() == [1, 2, 3, 4]
    assert model.score(X, SCORE, qid=QID) > 0.75
    assert_same(ranked().fit(sparse.csr_array(X), SCORE, qid=QID), model)


def test_a_warm_start_goes_on(model):
    warm = ranked(warm_start=True).fit(X, SCORE, qid=QID)
    passes = warm.n_iter_
    assert warm.fit(X, SCORE, qid=QID).n_iter_ < passes
    assert_same(warm, model, 1e-5)
    with pytest.warns(ConvergenceWarning):
        ranked(max_iter=2).fit(X, SCORE, qid=QID)


def test_searches_choose_the_likelihood_by_whole_groups():
    names = ["probit", "logit", "plackett-luce"]
    space = default_space(ranked())
    assert space["likelihood"] == default_space(ranked(likelihood=Luce()))["likelihood"] == names
    assert default_space(GPPLRegressor())["likelihood"] == names[:2]
    with sklearn.config_context(enable_metadata_routing=True):
        search = GridSearchCV(ranked(tol=1e-4), {"likelihood": names}, cv=GroupKFold(2))
        search.fit(X, SCORE, qid=QID, groups=QID)
    assert search.cv_results_["mean_test_score"].min() > 0.6
    assert search.predict(X).shape == (G * K,)
