"""Rows of the table of bad inputs (shared/bad-inputs.md) that concern the factorization machines, by row number."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.utils._param_validation import InvalidParameterError

from skpref import VariationalFM, VariationalFMClassifier
from skpref.exceptions import DataError, DataWarning

_rng = np.random.default_rng(7)
X = _rng.standard_normal((30, 3))
Y = X @ [1.0, -1.0, 0.5] + X[:, 0] * X[:, 1]
LABELS = (Y > 0.0).astype(int)
V, T = ValueError, TypeError
MODELS = VariationalFM, VariationalFMClassifier


def target(make):
    return Y if make is VariationalFM else LABELS


def with_entry(value, kind=float):
    array = X.astype(kind)
    array[3, 1] = value
    return array


def outputs(model, X=X):
    return model.predict_proba(X) if hasattr(model, "link") else model.predict(X)


class Bad(NamedTuple):
    row: int
    X: Any
    error: type[Exception]
    text: str


BAD = [
    Bad(1, with_entry(np.nan), V, "Input X contains NaN"),
    Bad(2, with_entry(np.inf), V, "Input X contains infinity or a value too large"),
    Bad(3, X[:0], V, r"Found array with 0 sample\(s\)"),
    Bad(4, X[:, :0], V, r"Found array with 0 feature\(s\)"),
    Bad(5, X[:, 0], V, "Expected 2D array, got 1D array"),
    Bad(6, with_entry("red", object), V, "could not convert string to float"),
    Bad(8, X.astype(complex), V, "Complex data not supported"),
    Bad(54, with_entry(1e200), V, "overflow in interactions; scale X: row 3 holds values up to 1e\\+200"),
]


@pytest.mark.parametrize("make", MODELS)
@pytest.mark.parametrize("bad", BAD, ids=lambda bad: str(bad.row))
def test_bad_features(make, bad):
    y = target(make)[: len(bad.X)]
    with pytest.raises(bad.error, match=bad.text):
        make().fit(bad.X, y)
    if bad.row not in {3, 4}:
        model = make(random_state=0).fit(X, target(make))
        with pytest.raises(bad.error, match=bad.text):
            model.predict(bad.X)
        with pytest.raises(bad.error, match=bad.text):
            model.partial_fit(bad.X, y)


@pytest.mark.parametrize("make", MODELS)
def test_a_failure_leaves_the_model_as_it_was(make):
    model = make(random_state=0).fit(X, target(make))
    before = outputs(model)
    for call in (model.fit, model.partial_fit):
        with pytest.raises(ValueError, match="overflow"):
            call(with_entry(1e200), target(make))
        np.testing.assert_array_equal(outputs(model), before)


@pytest.mark.parametrize("make", MODELS)
def test_rows_7_13_14_20_forms_of_the_same_numbers(make, tmp_path):
    path = tmp_path / "x.npy"
    np.save(path, X)
    wanted = outputs(make(random_state=0).fit(X, target(make)))
    wide = np.zeros((30, 6))
    wide[:, ::2] = X
    frozen = X.copy()
    frozen.flags.writeable = False
    for form in (
        X.astype(object),
        X.tolist(),
        np.asfortranarray(X),
        wide[:, ::2],
        np.load(path, mmap_mode="r"),
        frozen,
        sparse.csr_matrix(X),
        sparse.coo_array(X),
    ):
        before = None if isinstance(form, list) or sparse.issparse(form) else np.array(form)
        np.testing.assert_array_equal(outputs(make(random_state=0).fit(form, target(make)), form), wanted)
        if before is not None:
            np.testing.assert_array_equal(np.array(form), before)
    for dtype in (np.int8, bool, np.float32):
        few = (100 * (X > 0)).astype(dtype)
        model = make(random_state=0).fit(few, target(make))
        np.testing.assert_array_equal(outputs(model, few), outputs(model, few.astype(float)))


@pytest.mark.parametrize("make", MODELS)
def test_rows_10_11_12_wrong_width_and_no_fit(make):
    with pytest.raises(NotFittedError, match="is not fitted yet"):
        make().predict(X)
    with pytest.raises(NotFittedError, match="is not fitted yet"):
        make().weights_  # noqa: B018
    model = make().fit(X, target(make))
    text = f"X has 2 features, but {make.__name__} is expecting 3 features as input"
    for call in (model.predict, model.sample_y, lambda A: model.partial_fit(A, target(make))):
        with pytest.raises(ValueError, match=text):
            call(X[:, :2])
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=list("abc"))
    model = make().fit(frame, target(make))
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame[["b", "a", "c"]])


@pytest.mark.parametrize("make", MODELS)
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_factors", -1),
        ("n_factors", 2.5),
        ("batch_size", 0),
        ("n_epochs", 0),
        ("learning_rate", 0.0),
        ("n_samples", -1),
        ("validation_fraction", 1.0),
        ("n_iter_no_change", 0),
        ("tol", -1.0),
        ("learn_priors", "yes"),
        ("random_state", "a"),
        ("warm_start", 3),
    ],
)
def test_rows_15_16_parameters_out_of_range(make, name, value):
    with pytest.raises(InvalidParameterError, match=re.escape(f"The '{name}' parameter of {make.__name__} must be")):
        make(**{name: value}).fit(X, target(make))


def test_row_15_other_parameters():
    with pytest.raises(InvalidParameterError, match="'link' parameter"):
        VariationalFMClassifier(link="cauchit").fit(X, LABELS)
    with pytest.raises(DataError, match="dtype must be float64 or float32; got 'float16'"):
        VariationalFM(dtype="float16").fit(X, Y)
    with pytest.raises(DataError, match=r"groups must name the group of each of 3 features; got shape \(2,\)"):
        VariationalFM(groups=[0, 1]).fit(X, Y)
    model = VariationalFM(groups=["a", "b", "b"]).fit(X, Y)
    with pytest.raises(DataError, match=r"freeze names group 'c', which is not one of \['a', 'b'\]"):
        model.partial_fit(X, Y, freeze="c")
    with pytest.raises(DataError, match="n_factors is 2, but the model was fitted with 5"):
        model.set_params(n_factors=2).partial_fit(X, Y)
    with pytest.raises(DataError, match="n_samples must be an integer of at least 1; got 0"):
        model.sample_y(X, 0)


@pytest.mark.parametrize("make", MODELS)
def test_rows_17_18_constant_features_and_equal_rows(make):
    for A in (np.ones((30, 2)), np.zeros((30, 2)), np.repeat(X[:3], 10, axis=0)):
        assert np.isfinite(outputs(make(random_state=0).fit(A, target(make)), A)).all()


@pytest.mark.parametrize("make", MODELS)
def test_rows_29_38_lengths_and_weights(make):
    y = target(make)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        make().fit(X, y[:-1])
    for weight, text in (
        (-np.ones(30), "Negative values in data passed to `sample_weight`: -1 in row 0"),
        (np.full(30, np.nan), "sample_weight must be numbers, one per row: Input sample_weight contains NaN"),
        (np.ones(29), r"sample_weight.shape == \(29,\), expected \(30,\)"),
        (np.ones((30, 1)), "Sample weights must be 1D array or scalar"),
        (np.zeros(30), "at least 1 row of positive weight is required"),
    ):
        with pytest.raises(ValueError, match=text):
            make().fit(X, y, sample_weight=weight)


@pytest.mark.parametrize("make", MODELS)
def test_row_49_explicit_zeros_and_duplicate_indices(make):
    wanted = make(random_state=0).fit(X, target(make))
    rows, columns = np.indices(X.shape)
    # Every number in two halves, out of order, and a zero that is written down.
    twice = np.concatenate([0.5 * X.ravel(), 0.5 * X.ravel(), [0.0]])
    at = np.concatenate([rows.ravel(), rows.ravel(), [4]]), np.concatenate([columns.ravel(), columns.ravel(), [1]])
    order = np.lexsort((-at[1], at[0]))
    start = np.searchsorted(at[0][order], np.arange(31))
    A = sparse.csr_array((twice[order], at[1][order], start), X.shape)
    before = A.data.copy(), A.indices.copy()
    model = make(random_state=0).fit(A, target(make))
    np.testing.assert_allclose(outputs(model, A), outputs(wanted), rtol=1e-12)
    np.testing.assert_array_equal(A.data, before[0])
    np.testing.assert_array_equal(A.indices, before[1])


@pytest.mark.parametrize("make", MODELS)
def test_row_50_indices_of_64_bits(make):
    A = sparse.csr_array(X)
    A.indices, A.indptr = A.indices.astype(np.int64), A.indptr.astype(np.int64)
    model = make(random_state=0).fit(A, target(make))
    np.testing.assert_array_equal(outputs(model, A), outputs(make(random_state=0).fit(X, target(make))))


def test_row_52_labels():
    with pytest.raises(ValueError, match=r"only one class: \['a'\]"):
        VariationalFMClassifier().fit(X, ["a"] * 30)
    with pytest.raises(ValueError, match=r"Only binary classification is supported. The type of the target is multi"):
        VariationalFMClassifier().fit(X, np.arange(30) % 3)
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        VariationalFMClassifier().fit(X, Y)
    with pytest.raises(ValueError, match="Input y contains NaN"):
        VariationalFM().fit(X, np.where(np.arange(30) == 3, np.nan, Y))


@pytest.mark.parametrize("make", MODELS)
def test_row_53_a_feature_that_no_training_row_held(make):
    one_hot = sparse.csr_array(np.eye(5)[np.arange(30) % 4])
    model = make(random_state=0).fit(one_hot, target(make))
    mean, variance = model.latent_mean_and_variance(np.eye(5))
    assert np.isfinite(mean).all()
    assert np.all(variance[4] > variance[:4])


@pytest.mark.parametrize("make", MODELS)
def test_row_55_batches_larger_than_the_data(make):
    with pytest.warns(DataWarning, match="batch_size=31 is more than the 30 rows; a batch has all of them"):
        make(batch_size=31, n_epochs=2).fit(X, target(make))


@settings(max_examples=25)
@given(
    make=st.sampled_from(MODELS),
    seed=st.integers(0, 2**32 - 1),
    shape=st.tuples(st.integers(2, 12), st.integers(1, 5)),
    exponent=st.integers(-200, 200),
    dtype=st.sampled_from([np.float64, np.float32, np.int8, bool]),
    in_csr=st.booleans(),
    batch_size=st.sampled_from([None, 2]),
)
def test_a_clear_error_or_a_finite_result(make, seed, shape, exponent, dtype, in_csr, batch_size):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal(shape)
    if dtype in {np.int8, bool}:
        A = (20 * A).astype(dtype)
    else:
        # scikit-learn itself warns where it meets infinities of both signs.
        largest = 30 if dtype is np.float32 else 200
        with np.errstate(under="ignore"):
            A = (A * 10.0 ** min(exponent, largest)).astype(dtype)
    y = np.arange(shape[0]) % 2 if make is VariationalFMClassifier else rng.standard_normal(shape[0])
    model = make(n_factors=2, n_epochs=5, batch_size=batch_size, random_state=0)
    try:
        model.fit(sparse.csr_array(A) if in_csr else A, y)
        found = outputs(model, A)
    except ValueError as error:
        assert re.search("overflow in interactions; scale X", str(error))  # noqa: PT017
    else:
        assert np.isfinite(found).all()
