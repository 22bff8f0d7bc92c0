"""`class_weight` of the classifiers: the same as weights of the rows, and refused where it has no meaning."""

import re

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.utils.class_weight import compute_sample_weight

from skpref import GPOrdinalRegressor, SVGPClassifier, VariationalFMClassifier, VariationalFMOrdinal
from skpref.exceptions import DataError

X = np.random.default_rng(0).normal(size=(80, 2))
Y = np.where(X[:, 0] + X[:, 1] > 1.0, "yes", "no")
MODELS = [
    SVGPClassifier(inducing=5, optimizer=None, random_state=0),
    VariationalFMClassifier(random_state=0),
    GPOrdinalRegressor(None, inference="vb", optimizer=None, class_order=["no", "yes"], random_state=0),
    VariationalFMOrdinal(2, class_order=["no", "yes"], random_state=0),
]
models = pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)


@models
@pytest.mark.parametrize("class_weight", ["balanced", {"yes": 3.0}])
def test_it_is_a_weight_of_rows(model, class_weight):
    weight = compute_sample_weight(class_weight, Y)
    expected = model.set_params(class_weight=None).fit(X, Y, weight).predict_proba(X)
    found = model.set_params(class_weight=class_weight).fit(X, Y).predict_proba(X)
    assert_array_equal(found, expected)


@models
def test_balanced_classes_have_equal_weights_after_those_of_the_rows(model):
    copies = np.where(np.arange(80) < 20, 2, 1)
    model.set_params(class_weight="balanced")
    weighted = model.fit(X, Y, copies).predict_proba(X)
    repeated = model.fit(np.repeat(X, copies, axis=0), np.repeat(Y, copies)).predict_proba(X)
    np.testing.assert_allclose(weighted, repeated, atol=1e-6)


@models
@pytest.mark.parametrize(
    ("class_weight", "message"),
    [
        ({"maybe": 1.0}, "class_weight must be numbers by class, of ['no', 'yes']"),
        ({"yes": "x"}, "class_weight must be numbers by class"),
        ({"yes": -1.0}, "class_weight must be numbers >= 0; got {'yes': -1.0}"),
        ({"yes": np.nan}, "class_weight must be numbers >= 0"),
    ],
)
def test_bad_weights_are_refused(model, class_weight, message):
    with pytest.raises(DataError, match=re.escape(message)):
        model.set_params(class_weight=class_weight).fit(X, Y)


@models
def test_parts_of_the_rows_have_no_balance(model):
    with pytest.raises(DataError, match="class_weight='balanced' needs all rows"):
        model.set_params(class_weight="balanced").partial_fit(X, Y)


@pytest.mark.parametrize("model", [model for model in MODELS if not isinstance(model, GPOrdinalRegressor)])
def test_rows_elsewhere_are_refused(model, tmp_path):
    pandas = pytest.importorskip("pandas")
    pandas.DataFrame(X, columns=["a", "b"]).assign(y=Y).to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(DataError, match=r"class_weight=\{'yes': 2.0\}"):
        model.set_params(class_weight={"yes": 2.0}).fit(tmp_path / "rows.parquet", "y")
