"""Classes on a cluster: the posterior in memory."""

import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skpref import SVGPClassifier
from tests.policies import set_policy
from tests.unit.dask.lazily import lazy
from tests.unit.gp.sparse.test_class_sums import FIXED, TABLE, X

array = pytest.importorskip("dask.array")


@pytest.fixture
def _sampled(monkeypatch):
    set_policy(monkeypatch, "gp.sparse", sample_rows=100)


@pytest.mark.usefixtures("client", "_sampled")
@pytest.mark.parametrize("target", ["side", "third"])
def test_with_the_same_kernel_and_points_it_is_the_posterior_in_memory(target):
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
