"""Factorization machines on a cluster: the fit in memory."""

import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from skpref import VariationalFM, VariationalFMClassifier, VariationalFMOrdinal
from skpref.exceptions import DataError
from tests.unit.dask.lazily import lazy
from tests.unit.factorization.machine import test_files
from tests.unit.factorization.machine.test_files import FRAME, LEVELS, assert_near, numbers, stored

array = pytest.importorskip("dask.array")
FAST = test_files.FAST | {"max_iter": 4}
NAMES = ["user", "age", "item", "price", "mood"]
X = FRAME[["user", "item", "price"]]


def assert_same_bits(model, wanted):
    for a, b in zip(numbers(model), numbers(wanted), strict=True):
        assert_array_equal(a, b)


@pytest.mark.usefixtures("client")
def test_the_fit_is_that_of_the_same_rows_in_files(tmp_path):
    rows = lazy(FRAME)
    wanted = VariationalFM(**FAST).fit(stored(tmp_path, *NAMES, "y", "times"), "y", "times")
    by_name = VariationalFM(**FAST).fit(rows[[*NAMES, "y", "times"]], "y", "times")
    apart = VariationalFM(**FAST).fit(rows[NAMES], rows["y"], rows["times"])
    assert_same_bits(by_name, apart)
    assert_near(by_name, wanted)
    assert by_name.feature_names_in_.tolist() == NAMES
    answers = by_name.predict(rows[NAMES])
    assert isinstance(answers, array.Array)
    assert_allclose(answers.compute(), wanted.predict(FRAME[NAMES]), rtol=1e-9, atol=1e-9)
    assert_allclose(
        by_name.score(rows[NAMES], rows["y"], rows["times"]), wanted.score(FRAME[NAMES], FRAME.y, FRAME.times)
    )
    assert_allclose(by_name.predict(FRAME[NAMES], return_std=True)[1], wanted.predict(FRAME[NAMES], return_std=True)[1])
    with pytest.raises(DataError, match="return_std and return_cov need X in memory"):
        by_name.predict(rows[NAMES], return_std=True)


@pytest.mark.usefixtures("client")
def test_two_classes(tmp_path):
    rows, names = lazy(FRAME), ["user", "item"]
    wanted = VariationalFMClassifier(**FAST).fit(stored(tmp_path, *names, "side"), "side")
    model = VariationalFMClassifier(**FAST).fit(rows[names], rows["side"])
    assert_near(model, wanted)
    assert model.classes_.tolist() == ["no", "yes"]
    assert_allclose(model.predict_proba(rows[names]).compute(), wanted.predict_proba(FRAME[names]), rtol=1e-9)
    assert_array_equal(model.predict(rows[names]).compute(), wanted.predict(FRAME[names]))
    assert_allclose(model.score(rows[names], rows["side"]), wanted.score(FRAME[names], FRAME.side))
    with pytest.raises(DataError, match="y must have two classes; got only one class"):
        model.fit(rows[rows["side"] == "yes"][names], rows[rows["side"] == "yes"]["side"])


@pytest.mark.usefixtures("client")
@pytest.mark.parametrize("y", ["stars", "words"])
def test_levels(tmp_path, y):
    rows, names = lazy(LEVELS), ["user", "item"]
    wanted = VariationalFMOrdinal(**FAST).fit(stored(tmp_path, *names, y, "times", frame=LEVELS), y, "times")
    by_name = VariationalFMOrdinal(**FAST).fit(rows[[*names, y, "times"]], y, "times")
    model = VariationalFMOrdinal(**FAST).fit(rows[names], rows[y], rows["times"])
    assert_same_bits(by_name, model)
    assert_near(model, wanted)
    assert_allclose(model.thresholds_, wanted.thresholds_, rtol=1e-12)
    assert_array_equal(model.classes_, wanted.classes_)
    assert_allclose(model.predict_proba(rows[names]).compute(), wanted.predict_proba(LEVELS[names]), rtol=1e-9)
    for loss in ("zero-one", "absolute"):
        answers = model.predict(rows[names], loss)
        assert isinstance(answers, array.Array)
        assert_array_equal(answers.compute(), wanted.predict(LEVELS[names], loss))
    assert_allclose(
        model.score(rows[names], rows[y], rows["times"]), wanted.score(LEVELS[names], LEVELS[y], LEVELS.times)
    )
    with pytest.raises(DataError, match="inference='gibbs' needs all rows in memory"):
        clone(model).set_params(inference="gibbs").fit(rows[names], rows[y])


@pytest.mark.usefixtures("client")
@pytest.mark.parametrize(
    ("options", "arguments", "message"),
    [
        ({}, lambda c: (array.ones((3, 3)), array.ones(3)), "X must be a frame of Dask, whose columns have names"),
        ({"categorical_features": ["film"]}, lambda c: (c, "y"), "names 'film', which is not one of the features"),
        ({"batch_size": 10}, lambda c: (c, "y"), "batch_size=10 needs all rows in memory"),
        ({}, lambda c: (c.assign(price=c["price"].where(c["price"] < 1)), "y"), r"'price' has no value.*\(rows \d+"),
        ({}, lambda c: (c[c["y"] > 99], "y"), r"Found array with 0 sample\(s\)"),
    ],
)
def test_what_cannot_be_fitted_is_refused(options, arguments, message):
    with pytest.raises(DataError, match=message):
        VariationalFM(**FAST | options).fit(*arguments(lazy(FRAME)))
