"""G7: what may not change a fit, asked of the estimators."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process.kernels import RBF

from skpref import GPPLClassifier, GPPLRegressor
from skpref.kernels import AdditiveMatern, ProductMatern
from tests.examples import examples

pytestmark = pytest.mark.filterwarnings("ignore:The comparisons form", "ignore:.*constant")


@dataclass
class Case:
    X: np.ndarray  # features of n items
    pairs: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    options: dict

    def fit(self, X=None, pairs=None, y=None, weight=None, **options):
        features, wanted = (self.X if X is None else X), {"kernel": ProductMatern([0.9, 1.6]), **options}
        if not self.options["features"]:
            features, wanted = None, {}
        model = GPPLClassifier(features, tol=1e-10, max_iter=3000, **self.model_options, **wanted)
        return model.fit(
            self.pairs if pairs is None else pairs,
            self.y if y is None else y,
            self.weight if weight is None else weight,
        )

    @property
    def model_options(self):
        return {name: value for name, value in self.options.items() if name != "features"}


def draw(seed, terms, order_effect, likelihood):
    rng = np.random.default_rng(seed)
    n, p = int(rng.integers(3, 8)), int(rng.integers(2, 20))
    left = rng.integers(0, n, p)
    pairs = np.column_stack([left, (left + rng.integers(1, n, p)) % n])
    y = np.where(rng.random(p) < 0.6, rng.integers(0, 2, p), rng.random(p))
    features, item_effects = terms
    options = {
        "features": features,
        "item_effects": item_effects,
        "order_effect": order_effect,
        "likelihood": likelihood,
    }
    return Case(rng.normal(size=(n, 2)), pairs, y, rng.exponential(size=p) + 0.1, options)


cases = st.builds(
    draw,
    st.integers(0, 2**32 - 1),
    terms=st.sampled_from([(True, True), (True, False), (False, True)]),  # features, item effects; not neither
    order_effect=st.booleans(),
    likelihood=st.sampled_from(["probit", "logit"]),
)
few = examples(6)


def assert_same(a, b, pairs_a, pairs_b):
    """The same bound, probabilities, and utilities of the compared items."""
    assert_allclose(a.lower_bound_, b.lower_bound_, rtol=1e-6)
    assert_allclose(a.predict_proba(pairs_a), b.predict_proba(pairs_b), atol=1e-5)
    assert_allclose(a.decision_function(pairs_a), b.decision_function(pairs_b), atol=1e-4)
    assert_allclose(a.scale_.mean, b.scale_.mean, rtol=1e-3)


@few
@given(case=cases, seed=st.integers(0, 2**32 - 1))
def test_relabelling_items(case, seed):
    order = np.random.default_rng(seed).permutation(case.X.shape[0])
    renamed = np.argsort(order)[case.pairs]
    assert_same(case.fit(), case.fit(X=case.X[order], pairs=renamed), case.pairs, renamed)


@few
@given(case=cases)
def test_swapping_left_and_right(case):
    # The order effect changes its sign with the sides, and so does every projection.
    swapped = case.pairs[:, ::-1]
    a, b = case.fit(), case.fit(pairs=swapped, y=1.0 - case.y)
    assert_allclose(a.lower_bound_, b.lower_bound_, rtol=1e-6)
    assert_allclose(a.predict_proba(case.pairs), b.predict_proba(swapped)[:, ::-1], atol=1e-5)
    assert_allclose(a.order_effect_[0], -b.order_effect_[0], atol=1e-4)


@few
@given(case=cases, seed=st.integers(0, 2**32 - 1))
def test_the_order_of_comparisons(case, seed):
    order = np.random.default_rng(seed).permutation(case.y.size)
    other = case.fit(pairs=case.pairs[order], y=case.y[order], weight=case.weight[order])
    assert_same(case.fit(), other, case.pairs, case.pairs)


@few
@given(case=cases)
def test_a_comparison_twice_is_a_weight_of_two(case):
    pairs, y = np.vstack([case.pairs, case.pairs[:1]]), np.append(case.y, case.y[0])
    heavy = case.weight.copy()
    heavy[0] *= 2.0
    twice = case.fit(pairs=pairs, y=y, weight=np.append(case.weight, case.weight[0]))
    assert_same(case.fit(weight=heavy), twice, case.pairs, case.pairs)


@few
@given(case=cases)
def test_a_weight_of_zero_is_no_comparison(case):
    pairs, y = np.vstack([case.pairs, case.pairs[:1]]), np.append(case.y, 1.0 - case.y[0])
    assert_same(case.fit(), case.fit(pairs=pairs, y=y, weight=np.append(case.weight, 0.0)), case.pairs, case.pairs)


@few
@given(case=cases)
def test_an_item_nobody_compared(case):
    case.options["features"] = True
    more = np.vstack([case.X, [[0.1, 0.2]]])
    assert_same(case.fit(), case.fit(X=more), case.pairs, case.pairs)


@few
@given(case=cases, shift=st.floats(-5, 5), scale=st.floats(0.1, 10))
def test_moving_and_scaling_features(case, shift, scale):
    case.options["features"] = True
    there = case.fit(X=scale * case.X + shift, kernel=ProductMatern(scale * np.array([0.9, 1.6])))
    assert_same(case.fit(), there, case.pairs, case.pairs)


@few
@given(case=cases, kernel=st.sampled_from([ProductMatern(0.9), RBF(0.9)]), constant=st.floats(-3, 3))
def test_a_constant_feature(case, kernel, constant):
    case.options["features"] = True
    wide = np.column_stack([case.X, np.full(case.X.shape[0], constant)])
    assert_same(case.fit(kernel=kernel), case.fit(X=wide, kernel=kernel), case.pairs, case.pairs)


@few
@given(case=cases, kernel=st.sampled_from([ProductMatern(0.9), AdditiveMatern(0.9), None]))
def test_probabilities_of_the_two_answers(case, kernel):
    model = case.fit(kernel=kernel)
    forth, back = model.predict_proba(case.pairs), model.predict_proba(case.pairs[:, ::-1])
    assert_allclose(forth.sum(axis=1), 1.0, rtol=0, atol=1e-15)
    assert ((forth > 0.0) & (forth < 1.0)).all()
    itself = np.repeat(case.pairs[:, :1], 2, axis=1)
    if not case.options["order_effect"]:
        assert_array_equal(forth[:, 0] + back[:, 0], 1.0)
        assert_array_equal(model.predict_proba(itself), 0.5)


@few
@given(seed=st.integers(0, 2**32 - 1))
def test_rows_of_the_regressor(seed):
    rng = np.random.default_rng(seed)
    X, grades = rng.normal(size=(8, 2)), rng.integers(0, 4, 8).astype(float)
    grades[:2] = 0.0, 1.0
    options = {"kernel": ProductMatern([0.9, 1.6]), "tol": 1e-11, "max_iter": 3000, "random_state": 0}
    model = GPPLRegressor(**options).fit(X, grades)
    order, new = rng.permutation(8), rng.normal(size=(5, 2))
    other = GPPLRegressor(**options).fit(X[order], grades[order])
    assert_allclose(model.lower_bound_, other.lower_bound_, rtol=1e-6)
    assert_allclose(model.predict(new), other.predict(new), atol=1e-4)
    # Only the order of grades counts.
    steep = GPPLRegressor(**options).fit(X, np.exp(3.0 * grades))
    assert_allclose(model.predict(new), steep.predict(new), atol=1e-6)
    forth, back = model.predict_preference(new, new[::-1].copy()), model.predict_preference(new[::-1].copy(), new)
    assert_array_equal(forth + back, 1.0)
    assert_array_equal(model.predict_preference(new, new), 0.5)


@pytest.mark.parametrize("likelihood", ["probit", "logit"])
def test_finite_however_strong_the_answers_are(likelihood):
    pairs = np.array([[0, 1], [1, 2], [0, 2]])
    for weight in (1e-8, 1.0, 1e8):
        model = GPPLClassifier(likelihood=likelihood).fit(pairs, [1, 1, 1], np.full(3, weight))
        assert np.isfinite(model.lower_bound_)
        probability = model.predict_proba(pairs)
        assert np.isfinite(probability).all()
        assert (probability[:, 1] >= 0.5).all()


@pytest.mark.parametrize("likelihood", ["probit", "logit"])
def test_probabilities_are_finite_for_utilities_up_to_a_million(likelihood):
    from skpref.gp.pairwise.base import as_likelihood

    mean = np.array([-1e6, -1e3, -10.0, 0.0, 10.0, 1e3, 1e6])
    for variance in (0.0, 1.0, 1e6):
        p = as_likelihood(likelihood).predict(mean, np.full(7, variance))
        assert ((p >= 0.0) & (p <= 1.0)).all()
        assert_array_equal(p + p[::-1], 1.0)
        assert (np.diff(p) >= 0.0).all()
