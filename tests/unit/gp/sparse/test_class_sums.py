"""Classes in Parquet files: the fit in memory, a batch at a time."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

import skpref
from skpref import SVGPClassifier
from skpref.exceptions import DataError
from skpref.gp.sparse import class_sums
from tests.policies import set_policy
from tests.unit.gp.sparse.test_sums import stored

pandas = pytest.importorskip("pandas")

_rng = np.random.default_rng(0)
N = 300
TABLE = pandas.DataFrame({"a": _rng.uniform(-2, 2, N), "b": _rng.normal(size=N)})
TABLE["side"] = np.where(np.sin(2 * TABLE.a) + 0.3 * _rng.normal(size=N) > 0, "up", "down")
TABLE["third"] = np.digitize(TABLE.a + 0.1 * TABLE.b, [-1.0, 1.2])
TABLE["times"] = _rng.integers(0, 3, N).astype(float)
X = TABLE[["a", "b"]]
FIXED = {
    "kernel": ConstantKernel(2.0) * RBF([0.8, 3.0]),
    "inducing": _rng.uniform(-2, 2, (15, 2)),
    "optimizer": None,
    "multi_class": "one_vs_rest",
}
LEARNT = {"inducing": 8, "tol": 1e-2, "learn_inducing": False, "random_state": 0}


def columns(folder, *names):
    """Return a folder with the features and some other columns."""
    return stored(folder, TABLE[["a", "b", *names]])


@pytest.fixture
def _small_batches(monkeypatch):
    set_policy(monkeypatch, "gp.sparse", sample_rows=150)
    set_policy(monkeypatch, "data", batch_rows=110)


def test_few_rows_give_the_bits_of_the_fit_in_memory(tmp_path):
    wanted = SVGPClassifier(**LEARNT).fit(X, TABLE.side, TABLE.times)
    model = SVGPClassifier(**LEARNT).fit(columns(tmp_path, "side", "times"), "side", "times")
    assert_array_equal(model.predict_proba(X), wanted.predict_proba(X))
    assert model.feature_names_in_.tolist() == ["a", "b"]


@pytest.mark.usefixtures("_small_batches")
@pytest.mark.parametrize("target", ["side", "third"])
@pytest.mark.parametrize(("weight", "likelihood"), [(None, "probit"), ("times", "logit")])
def test_with_the_same_kernel_and_points_it_is_the_posterior_in_memory(tmp_path, target, weight, likelihood):
    wanted = SVGPClassifier(**FIXED, likelihood=likelihood).fit(
        X, TABLE[target], None if weight is None else TABLE[weight]
    )
    named = [target] if weight is None else [target, weight]
    model = SVGPClassifier(**FIXED, likelihood=likelihood).fit(columns(tmp_path, *named), target, weight)
    for value, expected in zip(model.predict_latent(X, True), wanted.predict_latent(X, True), strict=True):
        assert_allclose(value, expected, atol=1e-8)
    assert_allclose(model.lower_bounds_, wanted.lower_bounds_, rtol=1e-9)
    assert_array_equal(model.classes_, wanted.classes_)
    assert model.inference_ == wanted.inference_ == "vb"


@pytest.mark.usefixtures("_small_batches")
@pytest.mark.parametrize("target", ["side", "third"])
def test_kernels_of_a_sample_serve_all_rows(tmp_path, target, monkeypatch):
    set_policy(monkeypatch, "gp.sparse", sample_rows=150, shared_rows=300, least_shared_rows=100)
    path = columns(tmp_path, target)
    model, again = (SVGPClassifier(**LEARNT).fit(path, target) for _ in range(2))
    assert_array_equal(model.predict_proba(X), again.predict_proba(X))
    assert model.score(X, TABLE[target]) > 0.85
    assert model._can_resume()  # a warm start begins where it ended
    skpref.save(model, tmp_path / "model.skpref")
    loaded = skpref.load(tmp_path / "model.skpref")
    assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    with pytest.raises(DataError, match="partial_fit needs the rows of the fit"):
        loaded.partial_fit(X, TABLE[target])
    assert loaded.set_params(warm_start=True).fit(X, TABLE[target]).converged_


@pytest.mark.parametrize(
    ("options", "y", "weight", "message"),
    [
        ({"inference": "svi"}, "side", None, "inference='svi' needs all rows in memory"),
        ({"optimizer": "adam"}, "side", None, "optimizer='adam' needs all rows in memory"),
        ({"window": 5}, "side", None, "window=5 needs all rows in memory"),
    ],
)
def test_what_files_cannot_do_is_said(tmp_path, options, y, weight, message):
    with pytest.raises(DataError, match=message):
        SVGPClassifier(**options).fit(stored(tmp_path, TABLE), y, weight)


@pytest.mark.usefixtures("_small_batches")
def test_the_softmax_needs_all_rows(tmp_path):
    path, model = columns(tmp_path, "third"), SVGPClassifier(**FIXED | {"multi_class": "softmax"})
    with pytest.raises(DataError, match=r"multi_class='softmax' needs all rows in memory.*'one_vs_rest'"):
        model.fit(path, "third")
    assert not hasattr(model, "classes_")


@pytest.mark.usefixtures("_small_batches")
@pytest.mark.parametrize(
    ("column", "rows", "value", "message"),
    [
        ("a", [120], np.nan, r"Input X contains NaN[^$]*\(rows 110 to 219 of X\)"),
        ("third", [120], np.nan, r"Input y contains NaN[^$]*\(rows 110 to 219 of X\)"),
        ("third", [120], 0.5, r"Unknown label type: continuous[^$]*\(rows 110 to 219 of X\)"),
        ("third", range(N), 1.0, "at least 2 classes must have rows of positive weight; got 1 class"),
        ("times", [120], -1.0, r"sample_weight[^$]*\(rows 110 to 219 of X\)"),
        ("times", range(N), 0.0, "at least 2 classes must have rows of positive weight; got 0 classes"),
    ],
)
def test_a_wrong_value_is_said_with_its_rows_and_the_last_fit_stays(tmp_path, column, rows, value, message):
    table = TABLE[["a", "b", "third", "times"]].astype(float)
    table.loc[rows, column] = value
    model = SVGPClassifier(**FIXED).fit(X, TABLE.side)
    before = model.predict_proba(X)
    with pytest.raises(DataError, match=message):
        model.fit(stored(tmp_path, table, 1), "third", "times")
    assert_array_equal(model.predict_proba(X), before)


@pytest.mark.usefixtures("_small_batches")
def test_the_index_of_a_stored_frame_is_no_feature(tmp_path):
    table = TABLE[["a", "b", "side"]].sort_values("side")  # pandas stores the order as a column
    table.to_parquet(tmp_path / "sorted.parquet")
    model = SVGPClassifier(**FIXED).fit(tmp_path, "side")
    assert model.feature_names_in_.tolist() == ["a", "b"]
    wanted = SVGPClassifier(**FIXED).fit(X, TABLE.side)
    assert_allclose(model.predict_proba(X), wanted.predict_proba(X), atol=1e-8)
    table[["side"]].to_parquet(tmp_path / "sorted.parquet")
    with pytest.raises(DataError, match="X has no columns of features, only the named ones: side"):
        model.fit(tmp_path, "side")


def test_labels_of_one_type_in_all_batches():
    numbers, names = np.array([0, 1]), np.array(["no", "yes"], dtype=object)
    with pytest.raises(DataError, match=r"y holds \[0, 1\] in one batch and \['no', 'yes'\] in another: use one type"):
        class_sums._joint_classes([numbers, names])
    assert class_sums._joint_classes([names[1:], names]).tolist() == ["no", "yes"]


def test_a_sample_draws_half_of_the_rarer_class_from_all_batches():
    counts = np.array([[500, 30], [0, 0], [400, 70]])
    wanted, factors = class_sums._draw(counts, 120, np.random.default_rng(0))
    assert [[part.size for part in batch] for batch in wanted][1] == [0, 0]
    assert sum(batch[1].size for batch in wanted) == 60
    assert sum(part.size for batch in wanted for part in batch) == 120
    for batch, sizes in zip(wanted, counts, strict=True):
        for part, size in zip(batch, sizes, strict=True):
            assert set(part) <= set(range(size))
            assert len(set(part)) == part.size
    assert_allclose(factors * [60, 60] / [900, 100], factors[0] * 60 / 900)  # classes weigh as in all rows
    everything, ones = class_sums._draw(counts, 1000, np.random.default_rng(0))
    assert [[part.size for part in batch] for batch in everything] == counts.tolist()
    assert_array_equal(ones, 1.0)
