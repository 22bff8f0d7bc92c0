"""Classes on a cluster: the posterior in memory."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skpref import SVGPClassifier
from skpref.exceptions import DataError
from skpref.gp.sparse import class_sums
from tests.unit.dask.lazily import lazy
from tests.unit.gp.sparse.test_class_sums import FIXED, LEARNT, TABLE, X

distributed = pytest.importorskip("distributed")
array = pytest.importorskip("dask.array")


@pytest.fixture
def _sampled(monkeypatch):
    monkeypatch.setattr(class_sums, "SAMPLE_ROWS", 100)
    monkeypatch.setattr("skpref.gp.sparse.classifier._SEARCH_ROWS", 100)


@pytest.mark.usefixtures("client", "_sampled")
@pytest.mark.parametrize("target", ["side", "third"])
def test_with_the_same_kernel_and_points_it_is_the_posterior_in_memory(target: str) -> None:
    wanted = SVGPClassifier(**FIXED).fit(X, TABLE[target], TABLE.times)
    rows = lazy(TABLE)
    features = rows[["a", "b"]]
    by_name = SVGPClassifier(**FIXED).fit(rows[["a", "b", target, "times"]], target, "times")
    apart = SVGPClassifier(**FIXED).fit(features, rows[target], rows["times"])
    for model in (by_name, apart):
        assert_allclose(model.predict_proba(X), wanted.predict_proba(X), atol=1e-8)
        assert model.feature_names_in_.tolist() == ["a", "b"]
        assert_array_equal(model.classes_, wanted.classes_)
    assert_array_equal(by_name.predict_proba(X), apart.predict_proba(X))
    for method in ("predict", "predict_proba"):
        answers = getattr(by_name, method)(features)
        assert isinstance(answers, array.Array)
        assert_array_equal(answers.compute(), getattr(by_name, method)(X))
    assert by_name.score(features, rows[target]) == by_name.score(X, TABLE[target])
    weighted = by_name.score(features, rows[target], rows["times"])
    assert weighted == pytest.approx(by_name.score(X, TABLE[target], TABLE.times))


@pytest.mark.usefixtures("client")
def test_few_rows_are_fitted_in_the_client_to_the_same_bits() -> None:
    numbers = TABLE.third.to_numpy() > 0
    wanted = SVGPClassifier(**LEARNT).fit(X.to_numpy(), numbers)
    blocks = array.from_array(X.to_numpy(), chunks=(120, 1)), array.from_array(numbers, chunks=120)
    model = SVGPClassifier(**LEARNT).fit(*blocks)
    assert_array_equal(model.predict_proba(X.to_numpy()), wanted.predict_proba(X.to_numpy()))


@pytest.mark.usefixtures("client")
def test_what_a_cluster_cannot_do_is_said() -> None:
    rows = lazy(TABLE)
    for fit, message in (
        (lambda: SVGPClassifier().fit(rows, TABLE.side), "so y must be one, too"),
        (lambda: SVGPClassifier().fit(rows, "sides"), "there is no column 'sides' in X"),
        (lambda: SVGPClassifier(inference="svi").fit(rows, "side"), "inference='svi' needs all rows in memory"),
        (lambda: SVGPClassifier().fit(rows[["a"]].to_dask_array(), "a"), "must be collections of Dask where X is"),
    ):
        with pytest.raises(DataError, match=message):
            fit()


@pytest.mark.usefixtures("client", "_sampled")
def test_a_wrong_value_is_said_with_its_rows() -> None:
    table = TABLE[["a", "b", "third"]].astype(float)
    table.loc[150, "a"] = np.nan
    with pytest.raises(DataError, match=r"Input X contains NaN[^$]*\(rows 100 to 199 of X\)"):
        SVGPClassifier().fit(lazy(table), "third")
