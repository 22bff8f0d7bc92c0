"""Features added one at a time: what they add to the evidence, and that the ones that matter are found."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.stats import multivariate_normal
from sklearn.gaussian_process.kernels import RBF

from skpref import LBFGS, GPOrdinalRegressor
from skpref.gp.default_kernels import linear
from skpref.gp.ordinal import forward
from skpref.gp.ordinal.evidence import ExactEvidence, OrdinalData
from skpref.gp.ordinal.forward import _gains, add_features, has_many_weights
from skpref.kernels import Linear
from skpref.likelihoods import OrdinalProbit


def few_rows(n=40, d=300, seed=0):
    """Three grades by the sum of the first three features."""
    X = np.random.default_rng(seed).standard_normal((n, d))
    return X, np.digitize(X[:, :3].sum(axis=1), [-1.0, 1.0]).astype(float)


def evidence_of(X, y, method="ep"):
    return ExactEvidence(OrdinalData(X, y, np.ones(y.size)), method, tol=1e-8)


@pytest.mark.parametrize("method", ["ep", "laplace"])
def test_gains_are_those_of_the_evidence_of_the_sites(method):
    X, y = few_rows(12, 20)
    kernel, likelihood = Linear(np.full(20, 0.1)), OrdinalProbit((-1.0, 1.0), 0.7)
    K, q = evidence_of(X, y, method).infer(kernel, likelihood)
    target, noise = q.nu / q.tau, 1.0 / q.tau
    gain, variance = _gains(X, q)

    def log_density(feature, a):
        C = K + np.diag(noise) + a * np.outer(X[:, feature], X[:, feature])
        return multivariate_normal.logpdf(target, cov=C)

    assert np.any(gain > 0.0)
    assert np.any(gain == 0.0)
    for j in range(20):
        assert_allclose(log_density(j, variance[j]) - log_density(j, 0.0), gain[j], atol=1e-8)
        for factor in (0.8, 1.25):
            assert log_density(j, factor * variance[j]) <= log_density(j, variance[j])
    assert_allclose(_gains(sparse.csr_array(X), q), (gain, variance))


def test_only_informative_features_get_a_variance_within_the_bounds():
    X, y = few_rows()
    kernel, likelihood = linear(X.std(axis=0), 1.0), OrdinalProbit.start(y, 3)
    start, moved = add_features(evidence_of(X, y), kernel, likelihood)
    raised = np.flatnonzero(start.theta > kernel.bounds[:, 0] + 1e-9)
    assert {0, 1, 2} <= set(raised.tolist())
    assert raised.size < 10
    assert np.all(start.theta <= kernel.bounds[:, 1] + 1e-9)
    assert evidence_of(X, y)(start, moved).value > evidence_of(X, y)(kernel, likelihood).value + 5.0


def test_labels_without_information_leave_all_features_out():
    X, _ = few_rows(20, 30)
    X = np.vstack([X, X])
    y = np.repeat([0.0, 1.0], 20)
    start, _ = add_features(evidence_of(X, y), Linear(np.ones(30)), OrdinalProbit.start(y, 2))
    assert_allclose(start.theta, np.log(1e-5))


def test_the_features_that_matter_are_the_most_relevant():
    X, y = few_rows(seed=2)
    model = GPOrdinalRegressor("linear-ard", optimizer=LBFGS(0), likelihood="probit").fit(X, y)
    assert_array_equal(np.sort(np.argsort(-model.relevance_)[:3]), [0, 1, 2])
    X_new = np.random.default_rng(9).standard_normal((200, 300))
    truth = np.digitize(X_new[:, :3].sum(axis=1), [-1.0, 1.0])
    assert np.mean(model.predict(X_new) == truth) > 0.85


@pytest.mark.parametrize(
    ("kernel", "n_rows", "many"),
    [
        (Linear(np.ones(5)), 4, True),
        (Linear(np.ones(5)), 5, False),
        (Linear(1.0), 0, False),
        (Linear(np.ones(5), "fixed"), 0, False),
        (RBF(np.ones(5)), 4, False),
        (None, 0, False),
    ],
)
def test_what_many_weights_are(kernel, n_rows, many):
    assert has_many_weights(kernel, n_rows) is many


def test_a_feature_at_its_upper_bound_does_not_keep_others_out():
    X = np.random.default_rng(0).standard_normal((60, 90))
    y = np.digitize(3.0 * X[:, 0] + X[:, 1], [-2.0, 2.0]).astype(float)
    kernel = Linear(np.full(90, 0.01), np.tile([1e-6, 0.02], (90, 1)))
    start, _ = add_features(evidence_of(X, y), kernel, OrdinalProbit.start(y, 3))
    raised = np.flatnonzero(start.theta > np.log(1e-6) + 1e-9)
    assert {0, 1} <= set(raised.tolist())


def test_a_feature_that_its_bound_leaves_without_effect_is_tried_once(monkeypatch):
    searched = []
    whole = forward.search
    monkeypatch.setattr(forward, "search", lambda goal: searched.append(goal.evidence.data.X) or whole(goal))
    X = np.random.default_rng(0).standard_normal((60, 90))
    y = np.digitize(1.5 * X[:, 0] + X[:, 1], [-1.0, 1.0]).astype(float)
    bounds = np.tile([1e-6, 1.0], (90, 1))
    bounds[0, 1] = 2e-6  # the gain of feature 0 stays the largest
    start, _ = add_features(evidence_of(X, y), Linear(np.full(90, 1e-6), bounds), OrdinalProbit.start(y, 3))
    raised = np.flatnonzero(start.theta > np.log(1e-6) + 1e-9)
    assert {0, 1} <= set(raised.tolist())
    assert len(searched) > 1
    assert all(np.unique(columns, axis=1).shape == columns.shape for columns in searched)
