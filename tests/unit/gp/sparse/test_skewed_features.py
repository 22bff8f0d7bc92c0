"""Features halfway to their ranks: a default kernel has them where the evidence is larger."""

import numpy as np
import pytest

from skpref import SVGPClassifier, SVGPRegressor
from skpref.gp.sparse import fit_general
from skpref.kernels import Warped
from tests.policies import set_policy


def is_warped(model):
    return any(isinstance(part, Warped) for part in model.kernel_.get_params().values())


def rows(seed, n, *, skewed):
    """Return two features, and a function that follows the logarithm of skewed ones."""
    Z = np.random.default_rng(seed).normal(size=(n, 2))
    return np.exp(2.0 * Z) if skewed else Z, np.sin(2.0 * Z[:, 0]) + Z[:, 1]


@pytest.mark.parametrize("likelihood", ["gaussian", "student-t"])
@pytest.mark.parametrize("skewed", [True, False])
def test_skewed_features_of_a_regression_are_warped(likelihood, skewed):
    X, f = rows(0, 150, skewed=skewed)
    y = f + 0.2 * np.random.default_rng(1).normal(size=f.size)
    model = SVGPRegressor(likelihood=likelihood, random_state=0).fit(X, y)
    assert is_warped(model) == skewed
    if skewed:
        raw = SVGPRegressor(model.kernel_.k1 * model.kernel_.k2.kernel, likelihood=likelihood).fit(X, y)
        assert raw.lower_bound_ < model.lower_bound_ - 10.0
        X_new, f_new = rows(2, 500, skewed=True)
        errors = [np.mean((each.predict(X_new) - f_new) ** 2) for each in (model, raw)]
        assert errors[0] < 0.7 * errors[1]


@pytest.mark.parametrize("skewed", [True, False])
def test_of_many_rows_a_part_chooses_the_kernel(monkeypatch, skewed):
    sizes, bound = [], fit_general._OptimalBound.__call__

    def counted(self, parameters):
        sizes.append(self.data.n)
        return bound(self, parameters)

    monkeypatch.setattr(fit_general._OptimalBound, "__call__", counted)
    set_policy(monkeypatch, "gp.sparse", subset_rows=100, ep_rows=120, cold_start_rows=250)
    X, f = rows(0, 300, skewed=skewed)
    y = f + 0.2 * np.random.default_rng(1).standard_t(4.0, size=f.size)
    assert is_warped(SVGPRegressor(likelihood="student-t", random_state=0).fit(X, y)) == skewed
    assert sizes == sorted(sizes)
    assert set(sizes) == {120, 300}


@pytest.mark.parametrize("n", [150, 700])  # by the bound, and by the evidence of a subset
@pytest.mark.parametrize("skewed", [True, False])
def test_skewed_features_of_two_classes_are_warped(n, skewed):
    X, f = rows(0, n, skewed=skewed)
    y = 2.0 * f + np.random.default_rng(1).normal(size=n) > 0.0
    model = SVGPClassifier(random_state=0).fit(X, y)
    assert is_warped(model) == skewed


def test_few_values_and_given_kernels_stay():
    X, f = rows(0, 150, skewed=True)
    few = np.digitize(X, [0.1, 1.0, 10.0]).astype(float)
    assert not is_warped(SVGPRegressor(random_state=0).fit(few, f))
    given = SVGPRegressor(random_state=0).fit(X, f).kernel_.k1
    assert not is_warped(SVGPRegressor(given, random_state=0).fit(X, f))


def test_a_warped_fit_resumes_at_its_end():
    X, f = rows(0, 120, skewed=True)
    model = SVGPRegressor(warm_start=True, random_state=0).fit(X, f)
    before = model.predict(X)
    assert is_warped(model.fit(X, f))
    np.testing.assert_allclose(model.predict(X), before, atol=0.02 * np.std(f))
