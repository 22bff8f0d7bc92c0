"""Rows of the table of bad inputs that are accepted: unusual features, targets and ratings give finite results."""

from collections.abc import Callable
from contextlib import nullcontext
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy import sparse
from sklearn.gaussian_process.kernels import RBF

from skpref import LBFGS, SVGPClassifier, Table
from skpref.data import from_matrix
from skpref.exceptions import DataError, DataWarning
from tests.unit.bad_inputs import places as at
from tests.unit.bad_inputs.places import LEVEL, MAKERS, RATED, RATING, SCORE, N, X, fitted, output


class Learner(NamedTuple):
    """What is predicted after a fit to a table of numbers, a valid table, and how near sparse rows come."""

    learn: Callable[[Any], np.ndarray]
    valid: np.ndarray = X
    sparse_atol: float | None = 1e-5  # another order of sums; None: sparse rows are refused (row 9)


def _of_rows(name, rows, **params):
    return output(MAKERS[name](**params).fit(rows, *at.TRAINING[name][1:]), rows)


def _of_tables(rows, *, users):
    tables = (at.ITEMS, Table(rows, ids=at.USER_NAMES)) if users else (Table(rows, ids=at.ITEM_NAMES), at.USERS)
    return at.crowd(*tables, inference="vb").fit(at.NAMED_TRIPLES, at.PREFERRED).predict_proba(at.NAMED_TRIPLES)


def _of_items(rows):
    table = Table(rows, ids=at.ITEM_NAMES)
    return at.classifier(table).fit(at.NAMED_PAIRS, at.PREFERRED).predict_proba(at.NAMED_PAIRS)


LEARNERS = {
    "GPPLRegressor": Learner(partial(_of_rows, "GPPLRegressor")),
    "GPPLClassifier.items": Learner(_of_items),
    "CrowdGPPL.items": Learner(partial(_of_tables, users=False)),
    "CrowdGPPL.users": Learner(partial(_of_tables, users=True), at.PEOPLE),
    "GPOrdinalRegressor": Learner(partial(_of_rows, "GPOrdinalRegressor"), sparse_atol=1e-6),
    "GPOrdinalRegressor(vb)": Learner(partial(_of_rows, "GPOrdinalRegressor", inference="vb"), sparse_atol=1e-6),
    "SVGPRegressor": Learner(partial(_of_rows, "SVGPRegressor")),
    "SVGPClassifier": Learner(partial(_of_rows, "SVGPClassifier")),
    "BayesianGPLVM": Learner(partial(_of_rows, "BayesianGPLVM"), sparse_atol=None),
    "VariationalFM": Learner(partial(_of_rows, "VariationalFM"), sparse_atol=0.0),
    "VariationalFMClassifier": Learner(partial(_of_rows, "VariationalFMClassifier"), sparse_atol=0.0),
    "VariationalFMOrdinal": Learner(partial(_of_rows, "VariationalFMOrdinal"), sparse_atol=0.0),
}


@cache
def learnt(name):
    """What is predicted after a fit to the valid table."""
    return LEARNERS[name].learn(LEARNERS[name].valid)


# ------------------------------------------------------------------------------------------------- the same numbers
def memmap(X, folder):
    np.save(folder / "X.npy", X)
    return np.load(folder / "X.npy", mmap_mode="r")


def read_only(X):
    X = X.copy()
    X.flags.writeable = False
    return X


CONTAINERS = {
    "row7-object": lambda X, _: X.astype(object),
    "row13-memmap": memmap,
    "row13-fortran": lambda X, _: np.asfortranarray(X),
    "row13-strided": lambda X, _: np.repeat(X, 2, axis=0)[::2],
    "row13-wide": lambda X, _: np.repeat(X, 2, axis=1)[:, ::2],
    "row13-read-only": lambda X, _: read_only(X),
    "row13-list": lambda X, _: X.tolist(),
    "row13-frame": lambda X, _: pytest.importorskip("pandas").DataFrame(X, columns=list("abc")[: X.shape[1]]),
    "row13-csr": lambda X, _: sparse.csr_array(X),
    "row13-coo": lambda X, _: sparse.coo_array(X),
}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        (name, kind)
        for name, learner in LEARNERS.items()
        for kind in CONTAINERS
        if learner.sparse_atol is not None or kind not in {"row13-csr", "row13-coo"}
    ],
)
def test_rows_7_13_14_containers_give_equal_results_and_stay_as_they_are(name, kind, tmp_path):
    learner = LEARNERS[name]
    same = CONTAINERS[kind](learner.valid, tmp_path)
    atol = learner.sparse_atol if sparse.issparse(same) else 0.0
    np.testing.assert_allclose(learner.learn(same), learnt(name), rtol=0.0, atol=atol)
    dense = same.toarray() if sparse.issparse(same) else np.array(same, dtype=float)
    np.testing.assert_array_equal(dense, learner.valid)


@pytest.mark.parametrize("dtype", ["float32", "longdouble"])
@pytest.mark.parametrize("name", ["GPPLRegressor", "SVGPRegressor", "VariationalFM"])
def test_row_20_targets_of_other_floats(name, dtype):
    rows, y = at.TRAINING[name]
    y = np.asarray(y).astype(dtype)
    same = at.MAKERS[name]().fit(rows, y.astype(np.float64))
    np.testing.assert_array_equal(at.MAKERS[name]().fit(rows, y).predict(rows), same.predict(rows))


@pytest.mark.parametrize("dtype", ["float32", "bool", "uint8"])
@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.filterwarnings("ignore:.*constant over")
def test_row_20_small_types_are_computed_in_double(name, dtype):
    learner = LEARNERS[name]
    rows = learner.valid
    small = (rows > 0 if dtype == "bool" else (40 * rows).clip(0 if dtype == "uint8" else -127, 127)).astype(dtype)
    with np.errstate(all="raise", under="ignore"):
        np.testing.assert_array_equal(learner.learn(small), learner.learn(small.astype(np.float64)))


def test_row_14_targets_weights_and_sparse_rows_stay_as_they_are():
    scores, weight, comparisons = SCORE.copy(), np.ones(N), at.PAIRS.copy()
    csr = sparse.csr_array(np.where(X > 0, X, 0.0))
    csr.data[::7] = 0.0
    data = csr.data.copy()
    at.regressor().fit(X, scores, sample_weight=weight)
    with pytest.warns(DataWarning, match="two rows of X with the same features"):  # several are zero
        at.regressor().fit(csr, comparisons=comparisons).predict(csr)
    MAKERS["SVGPRegressor"](optimizer="l-bfgs-b", tol=1.0).fit(X, scores, weight)
    np.testing.assert_array_equal(scores, SCORE)
    np.testing.assert_array_equal(weight, 1.0)
    np.testing.assert_array_equal(csr.data, data)
    np.testing.assert_array_equal(comparisons, at.PAIRS)


# --------------------------------------------------------------------------------------- constant features, equal rows
def test_row_17_constant_features():
    wide = np.column_stack([X, np.full(N, 7.0)])
    with pytest.warns(DataWarning, match=r"1 of 4 features are constant .*columns 3"):
        model = at.regressor(kernel=RBF(2.0)).fit(wide, SCORE)
    np.testing.assert_allclose(model.predict(wide), at.regressor(kernel=RBF(2.0)).fit(X, SCORE).predict(X), atol=1e-8)
    around = [[0, 1], [1, 2], [2, 3]]
    with pytest.warns(DataWarning, match="constant"):
        flat = at.classifier(np.ones((4, 2))).fit(around, [1, 1, 1])
    assert np.all(np.isfinite(flat.predict_proba([[0, 3]])))
    assert np.all(np.isfinite(flat.kernel_.theta))
    with pytest.warns(DataWarning, match="same features"), pytest.warns(DataWarning, match="constant"):
        model = at.regressor().fit(np.ones((4, 2)), comparisons=[[0, 1], [2, 3]])
    np.testing.assert_array_equal(model.predict([[1.0, 1.0], [1.0, 1.0]]), 0.0)


@pytest.mark.filterwarnings("ignore:The kernel has the same scale")
@pytest.mark.parametrize("kernel", [None, "ard"])  # to a linear kernel a constant is an offset
def test_row_17_constant_features_of_levels(kernel):
    options = {"kernel": kernel, "optimizer": LBFGS(0)}
    wide = np.column_stack([X, np.full(N, 7.0)])
    with pytest.warns(DataWarning, match=r"1 of 4 features are constant over all rows \(columns 3\)") as caught:
        model = at.ordinal(**options).fit(wide, LEVEL)
    assert caught[0].filename == __file__
    wanted = at.ordinal(**options).fit(X, LEVEL).predict_proba(X)
    np.testing.assert_allclose(model.predict_proba(wide), wanted, atol=0.01)
    assert model.relevance_[3] == 0.0


@pytest.mark.parametrize("kernel", [None, "auto", "ard", "linear-ard"])
def test_row_17_nothing_but_constant_features(kernel):
    flat = np.ones((N, 2))
    with pytest.warns(DataWarning, match="2 of 2 features are constant"):
        model = at.ordinal(kernel=kernel, optimizer=LBFGS(0)).fit(flat, LEVEL)
    frequency = np.bincount(LEVEL) / N  # all that is there to learn
    np.testing.assert_allclose(model.predict_proba(flat[:1])[0], frequency, atol=0.05)
    assert np.all(np.isfinite(model.kernel_.theta))


def test_row_18_duplicate_items():
    twice = np.vstack([X, X])
    utility = at.regressor().fit(twice, np.concatenate([SCORE, SCORE])).predict(twice)
    np.testing.assert_array_equal(utility[:N], utility[N:])
    table = Table(np.vstack([X[:2], X[:2]]), ids=list("abcd"))
    model = at.classifier(table, item_effects=False).fit([["a", "b"], ["c", "d"], ["a", "d"]], [1, 1, 0])
    assert model.predict_proba([["a", "c"]])[0, 1] == pytest.approx(0.5, abs=1e-9)


# ------------------------------------------------------------------------------------------------------- ordered levels
def test_row_45_labels_of_any_start():
    wanted = fitted("GPOrdinalRegressor").predict_proba(X)
    for values in ([0, 1, 2], [-7, 100, 10**15], [0.0, 1.0, 2.0], ["a", "b", "c"], ["", "a" * 1000, "ä"]):
        order = values if isinstance(values[0], str) else None
        model = at.ordinal(class_order=order).fit(X, np.array(values)[LEVEL])
        np.testing.assert_array_equal(model.predict_proba(X), wanted)
        assert model.classes_.tolist() == values


# ------------------------------------------------------------------------------------------------------------- machines
@pytest.mark.parametrize("name", at.MACHINES)
def test_row_49_explicit_zeros_and_duplicate_indices_are_summed(name):
    rows, columns = np.indices(X.shape)
    # Every number in two halves, out of order, and a zero that is written down.
    twice = np.concatenate([0.5 * X.ravel(), 0.5 * X.ravel(), [0.0]])
    places = np.concatenate([rows.ravel(), rows.ravel(), [4]]), np.concatenate([columns.ravel(), columns.ravel(), [1]])
    order = np.lexsort((-places[1], places[0]))
    start = np.searchsorted(places[0][order], np.arange(N + 1))
    csr = sparse.csr_array((twice[order], places[1][order], start), X.shape)
    before = csr.data.copy(), csr.indices.copy()
    np.testing.assert_allclose(_of_rows(name, csr), _of_rows(name, X), rtol=1e-12)
    np.testing.assert_array_equal(csr.data, before[0])
    np.testing.assert_array_equal(csr.indices, before[1])


@pytest.mark.parametrize("name", at.MACHINES)
def test_row_50_indices_of_64_bits(name):
    csr = sparse.csr_array(X)
    csr.indices, csr.indptr = csr.indices.astype(np.int64), csr.indptr.astype(np.int64)
    np.testing.assert_array_equal(_of_rows(name, csr), _of_rows(name, X))


@pytest.mark.parametrize("name", at.MACHINES)
def test_row_53_a_feature_that_no_training_row_had(name):
    one_hot = sparse.csr_array(np.eye(5)[np.arange(N) % 4])
    mean, variance = MAKERS[name]().fit(one_hot, at.TRAINING[name][1]).latent_mean_and_variance(np.eye(5))
    assert np.isfinite(mean).all()
    assert np.all(variance[4] > variance[:4])


@pytest.mark.parametrize("name", at.MACHINES)
def test_row_55_batches_larger_than_the_data(name):
    with pytest.warns(DataWarning, match="batch_size=31 is more than the 30 rows; a batch has all of them"):
        MAKERS[name](batch_size=31, max_iter=2).fit(*at.TRAINING[name])


def test_row_55_more_inducing_points_than_items_are_clipped():
    assert at.regressor(inducing=5000).fit(X, SCORE).inducing_points_.shape == (N, 3)


# -------------------------------------------------------------------------------------------------------------- ratings
@pytest.mark.parametrize("name", at.GIBBS)
@pytest.mark.parametrize("duplicates", ["mean", "last"])
def test_row_47_duplicates_are_accepted_by_a_stated_rule(name, duplicates):
    model = MAKERS[name](duplicates=duplicates).fit([*RATED, RATED[0]], [*RATING, RATING[0] % 5 + 1])
    assert np.isfinite(model.predict_proba(RATED)).all()


@pytest.mark.parametrize("name", at.GIBBS)
def test_row_48_users_and_items_without_ratings_have_the_prior(name):
    rows = [(0, 77), (77, 0), (77, 77)]
    mean, std = fitted(name).predict_score(rows, return_std=True)
    assert np.isfinite(mean).all()
    assert (std > 0.0).all()
    assert mean[2] == 0.0
    # The level that thresholds give to a score of 0
    average = MAKERS[name](prediction="average").fit(RATED, RATING)
    assert average.predict(rows[2:])[0] == 1 + int((average.thresholds_.mean(axis=0) <= 0.0).sum())


@pytest.mark.parametrize("name", at.GIBBS)
def test_row_48_a_user_whose_ratings_all_have_weight_zero(name):
    model = MAKERS[name]().fit(RATED, RATING, sample_weight=(RATED[:, 0] != 2).astype(float))
    assert 2 not in model.user_ids_
    assert set(model.predict(RATED[RATED[:, 0] == 2])) <= {1, 2, 3, 4, 5}


@pytest.mark.parametrize("name", at.GIBBS)
@pytest.mark.parametrize("kind", ["row49-unsorted", "row50-64-bit"])
def test_sparse_ratings_of_any_layout_are_the_same(name, kind):
    matrix = sparse.csr_array((RATING, (RATED[:, 0], RATED[:, 1])), shape=(12, 10))
    other = matrix.copy()
    if kind == "row50-64-bit":
        other.indices, other.indptr = other.indices.astype(np.int64), other.indptr.astype(np.int64)
    else:
        for start, stop in zip(other.indptr[:-1], other.indptr[1:], strict=True):
            part = slice(start, stop)
            other.indices[part], other.data[part] = other.indices[part][::-1].copy(), other.data[part][::-1].copy()
    a, b = (MAKERS[name]().fit(*from_matrix(form)) for form in (matrix, other))
    np.testing.assert_array_equal(a.predict_proba(RATED), b.predict_proba(RATED))


# ------------------------------------------------------------------------------------------------ sparse classification
def two_classes(y):
    return (y > 0.0).astype(int)


# What must be learnt all the same: rows, classes, weights and the least accuracy on the rows.
NASTY = {
    "huge": (1e6 * X, two_classes(X[:, 0]), None, 0.9),
    "tiny": (1e-6 * X, two_classes(X[:, 0]), None, 0.9),
    "units": (X * [1e6, 1.0, 1e-6], two_classes(X[:, 0]), None, 0.9),
    "far away": (X + 1e8, two_classes(X[:, 0]), None, 0.9),
    "constant column": (np.column_stack([X, np.full(N, 7.0)]), two_classes(X[:, 0]), None, 0.9),
    "conflicting copies": (np.repeat(X[:5], 6, axis=0), np.resize([0, 1], N), None, 0.5),
    "equal rows": (np.ones((N, 3)), np.resize([0, 1, 2], N), None, 1.0 / 3.0),
    "two rows": (X[:2], np.array([0, 1]), None, 1.0),
    "three rows of three classes": (X[:3], np.array([2, 0, 1]), None, 1.0),
    "one row of a class": (X, (np.arange(N) == 5).astype(int), None, 0.9),
    "no weight on a class": (X, np.digitize(X[:, 0], [-0.5, 0.5]), (np.abs(X[:, 0]) > 0.5).astype(float), 0.4),
    "weights of nothing": (X, two_classes(X[:, 0]), np.full(N, 1e-12), 0.0),
    "weights of everything": (X, two_classes(X[:, 0]), np.full(N, 1e12), 0.9),
    "names": (X, np.where(X[:, 0] > 0.0, "up", "down"), None, 0.9),
}


@pytest.mark.filterwarnings("ignore:.*constant over all rows", "ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("case", NASTY)
def test_classes_of_nasty_rows_are_learnt(case):
    rows, y, weight, accuracy = NASTY[case]
    model = SVGPClassifier(inducing=10, tol=1e-2, random_state=0).fit(rows, y, sample_weight=weight)
    with pytest.raises(DataError, match="squares overflow") if model.classes_.size == 2 else nullcontext():
        assert np.all(np.isfinite(model.predict_proba(np.full((2, rows.shape[1]), 1e300))))
    for new in (rows, np.full((2, rows.shape[1]), 1e100)):
        p = model.predict_proba(new)
        assert np.all((p >= 0.0) & (p <= 1.0))
        np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
        assert np.all(np.isfinite(model.predict_latent(new, return_std=True)))
    assert model.score(rows, y) >= accuracy
    if case == "no weight on a class":
        assert np.all(model.predict_proba(rows)[:, 1] < 0.2)
        assert np.array_equal(model.classes_, [0, 1, 2])
    if case == "equal rows":
        np.testing.assert_allclose(model.predict_proba(rows), 1.0 / 3.0, atol=1e-3)


@pytest.mark.parametrize("name", ["GPPLRegressor", "SVGPRegressor", "BayesianGPLVM", "GPOrdinalRegressor"])
def test_whole_numbers_of_other_types_count_inducing_points(name):
    more = {"inference": "vb"} if "Ordinal" in name else {}
    for count in (np.int8(20), True):
        fits_as(at.MAKERS[name], name, {"inducing": count, **more}, {"inducing": int(count), **more})


@pytest.mark.parametrize(
    ("name", "parameter"),
    [
        *((name, "n_factors") for name in ("CrowdGPPL", *at.MACHINES)),
        ("BayesianGPLVM", "n_components"),
        ("GibbsM3F", "n_chains"),
    ],
)
def test_true_counts_as_one(name, parameter):
    fits_as(at.MAKERS[name], name, {parameter: True}, {parameter: 1})


def fits_as(make, name, params, others):
    """Check that two sets of parameters give the same predictions."""
    rows = at.TRAINING[name][0]
    one, other = (at.output(make(**kept).fit(*at.TRAINING[name]), rows) for kept in (params, others))
    np.testing.assert_array_equal(one, other)


def test_predictions_are_those_of_the_fit_whatever_parameters_are_set_later():
    model = at.MAKERS["SVGPClassifier"]().fit(at.X, at.CLASS)
    before = model.predict_proba(at.X)
    np.testing.assert_array_equal(model.set_params(likelihood="logit").predict_proba(at.X), before)


def test_any_tolerance_is_one():
    coarse, default = (at.MAKERS["BayesianGPLVM"](**tol).fit(at.X) for tol in ({"tol": 1e300}, {}))
    assert coarse.n_iter_ < default.n_iter_
    assert np.isfinite(coarse.lower_bound_)
