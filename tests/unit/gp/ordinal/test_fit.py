"""The steps of an ordinal fit: the sample of the search, and inducing points of an earlier fit."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skpref import GPOrdinalRegressor
from skpref.gp.ordinal import fit
from skpref.gp.ordinal.evidence import OrdinalData
from skpref.gp.ordinal.policy import POLICY
from skpref.likelihoods import OrdinalProbit


def draw(n=50):
    rng = np.random.default_rng(0)
    return OrdinalData(np.arange(2.0 * n).reshape(n, 2), rng.integers(0, 3, n), rng.exponential(size=n))


def test_a_search_looks_at_different_rows_with_their_own_weights():
    data, rng = draw(), np.random.default_rng(1)
    assert fit._sample(data, 50, rng) is data
    part = fit._sample(data, 40, rng)
    rows = (part.X[:, 0] / 2.0).astype(int)
    assert part.n == len(set(rows)) == 40
    assert_allclose(part.X, data.X[rows])
    assert_allclose(part.y, data.y[rows])
    assert_allclose(part.weight, data.weight[rows])


def test_a_posterior_at_inducing_points_is_used_again_at_the_same_points_only():
    data, rng, state = draw(), np.random.default_rng(1), object()
    points = data.X[:4].copy()
    config = SimpleNamespace(n_inducing=4, inducing=points)
    for earlier, used in ((points.copy(), True), (points + 1.0, False), (points[:3], False)):
        chosen, again = fit._inducing_points(data, None, config, rng, SimpleNamespace(points=earlier, state=state))
        assert_allclose(chosen, points)
        assert again is (state if used else None)


def test_families_are_searched_by_ep_where_weights_are_below_one():
    # 60 rows are few: the search sees them all, and Laplace's evidence has no say.
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 2))
    y = np.digitize(3.0 * np.sin(2.0 * X[:, 0]) + 0.3 * rng.normal(size=60), [-1.0, 1.0])
    whole, parts = (GPOrdinalRegressor().fit(X, y, sample_weight=np.full(60, weight)) for weight in (1.0, 0.9))
    assert (whole.inference_, parts.inference_) == ("ep", "laplace")
    # Only the start differs, by the half observation that each level counts more.
    assert_allclose(parts.kernel_.theta, whole.kernel_.theta, rtol=1e-3)
    assert_allclose([*parts.thresholds_, parts.noise_], [*whole.thresholds_, whole.noise_], rtol=1e-3)


def test_rows_that_a_search_sees_are_drawn_by_weight_and_level():
    n = 4000
    data = OrdinalData(np.arange(float(n))[:, None], np.arange(n) % 4.0, np.tile([0.1, 0.9, 1.0, 3.0], n // 4))
    seen = fit._seen(data, np.random.default_rng(0))
    assert_allclose(np.bincount(seen.y.astype(int)), [100, 900, 1000, 1000], atol=1)
    assert_allclose(seen.weight, np.where(seen.y == 3, 3.0, 1.0))
    assert fit._seen(seen, np.random.default_rng(0)) is seen
    few = replace(data, weight=np.full(n, 1e-9))
    assert abs(fit._seen(few, np.random.default_rng(0)).n - POLICY.few_rows) <= 1


@pytest.mark.parametrize(
    ("n", "least", "precomputed", "inference", "wanted"),
    [
        (50, 1.0, False, "auto", "ep"),
        (50, 0.9, False, "auto", "laplace"),
        (51, 1.0, False, "auto", "vb"),
        (51, 1.0, True, "auto", "ep"),
        (50, 0.9, True, "auto", "laplace"),
        (51, 1.0, False, "ep", "ep"),
        (10, 0.5, False, "svi", "svi"),
    ],
)
def test_inference_is_exact_for_few_rows_and_laplaces_where_weights_are_parts(n, least, precomputed, inference, wanted):
    weight = np.ones(n)
    weight[n // 2] = least
    data = OrdinalData(
        None if precomputed else np.zeros((n, 2)), np.zeros(n), weight, np.eye(n) if precomputed else None
    )
    model = GPOrdinalRegressor(inference=inference, n_max_exact=50)
    assert model._resolve_inference(data) == wanted


def test_rows_are_merged_with_the_sum_of_their_weights():
    model = GPOrdinalRegressor()
    X = np.array([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0], [1.0, 2.0], [3.0, 4.0]])
    model._rows, model._precomputed = (X, np.array([0, 1, 0, 2, 1]), np.array([1.0, 2.0, 4.0, 8.0, 16.0])), False
    model.classes_ = np.arange(3)
    data = model._data()
    merged = sorted(zip(map(tuple, data.X), data.y, data.weight, strict=True))
    assert merged == [((1.0, 2.0), 0.0, 5.0), ((1.0, 2.0), 2.0, 8.0), ((3.0, 4.0), 1.0, 18.0)]
    model._rows, model._precomputed = (np.eye(5), *model._rows[1:]), True
    assert model._data().K is model._rows[0]
    assert model._data().n == 5


def test_what_all_other_rows_predict_is_an_evidence_of_thresholds_and_noise():
    rng, likelihood = np.random.default_rng(0), OrdinalProbit((-0.5, 0.3, 1.0), 0.8)
    data = OrdinalData(np.zeros((20, 1)), rng.integers(0, 4, 20).astype(float), rng.uniform(0.5, 2.0, 20))
    mean, variance = rng.standard_normal(20), rng.uniform(0.1, 1.0, 20)
    evidence = fit._left_out(data, mean, variance)
    value, in_kernel, slope, converged = evidence(None, likelihood)
    assert converged
    assert in_kernel.size == 0
    assert_allclose(value, data.weight @ likelihood.tilted(data.y, mean, variance)[0])
    for k, direction in enumerate(np.eye(4)):
        ends = [evidence(None, likelihood.with_theta(likelihood.theta + h * direction))[0] for h in (1e-5, -1e-5)]
        assert slope[k] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-5, abs=1e-7)
