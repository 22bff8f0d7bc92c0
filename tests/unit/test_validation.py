"""The one gate that features pass: sparse matrices are checked and made canonical, what is no number is refused."""

from datetime import date

import numpy as np
import pytest
from scipy import sparse

import skpref
from skpref import SVGPRegressor
from skpref._validation import as_array, check_array, check_numbers, check_sparse
from skpref.data import from_matrix
from skpref.data.columns import read_ids
from skpref.exceptions import DataError

X = np.array([[1.0, 0.0, 2.0, 0.0], [0.0, 3.0, 0.0, 0.0], [4.0, 0.0, 5.0, 6.0], [0.0, 0.0, 0.0, 7.0]])
FORMATS = ["csr", "csc", "bsr", "coo", "dia", "lil", "dok"]


def built(kind, **parts):
    """Return X in a format, with parts replaced."""
    matrix = getattr(sparse, f"{kind}_array")(X)
    for name, value in parts.items():
        setattr(matrix, name, value(getattr(matrix, name)) if callable(value) else value)
    return matrix


def replaced(place, value):
    def part(values):
        values = values.copy()
        values[place] = value
        return values

    return part


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("as_matrix", [False, True])
def test_sound_matrices_of_any_format_become_csr(kind, as_matrix):
    matrix = built(kind)
    csr = check_sparse(getattr(sparse, f"{kind}_matrix")(matrix) if as_matrix else matrix)
    assert isinstance(csr, sparse.csr_array)
    assert csr.has_canonical_format
    np.testing.assert_array_equal(csr.toarray(), X)
    np.testing.assert_array_equal(matrix.toarray(), X)


@pytest.mark.parametrize(
    ("kind", "parts"),
    [
        ("csr", {"indices": replaced(2, 10**9)}),
        ("csr", {"indices": replaced(2, -1)}),
        ("csr", {"indices": lambda indices: indices.astype(float)}),
        ("csr", {"indices": lambda indices: indices[:3]}),
        ("csr", {"indptr": replaced(0, -1)}),
        ("csr", {"indptr": replaced(2, 99)}),
        ("csr", {"indptr": np.array([0, 2**63 - 1, -(2**63), 6, 7])}),
        ("csr", {"indptr": lambda indptr: indptr[:-1]}),
        ("csr", {"indptr": lambda indptr: indptr[:0]}),
        ("csr", {"data": np.ones(3)}),
        ("csr", {"data": np.ones((7, 1))}),
        ("csr", {"data": np.array(["a"] * 7)}),
        ("csc", {"indices": replaced(2, 4)}),
        ("bsr", {"indices": replaced(0, 4)}),
        ("bsr", {"data": lambda data: np.ones((data.size, 3, 3))}),
        ("bsr", {"data": lambda data: np.ones((data.size, 0, 0))}),
        ("bsr", {"data": lambda data: data.ravel()}),
        ("coo", {"row": replaced(0, 4)}),
        ("coo", {"col": replaced(0, -1)}),
        ("coo", {"coords": lambda coords: (coords[0][:2], coords[1])}),
        ("coo", {"coords": lambda coords: coords[:1]}),
        ("dia", {"offsets": lambda offsets: replaced(0, 10**12)(offsets.astype(np.int64))}),
        ("dia", {"offsets": lambda offsets: offsets[:1]}),
        ("dia", {"offsets": lambda offsets: offsets * 0}),
        ("lil", {"rows": replaced(0, [10**9, 0])}),
        ("lil", {"rows": replaced(0, [2**40, 0])}),
        ("lil", {"rows": replaced(0, [0])}),
        ("lil", {"rows": replaced(0, ["a", "b"])}),
        ("lil", {"data": lambda data: data[:2]}),
        ("dok", {"_dict": {(10**9, 0): 1.0}}),
        ("dok", {"_dict": {(0, -1): 1.0}}),
    ],
)
def test_damaged_matrices_are_refused(kind, parts):
    with pytest.raises(DataError, match=rf"candidates is a damaged {kind.upper()} matrix: .* Build it anew"):
        check_sparse(built(kind, **parts), "candidates")


def test_what_is_wrong_with_an_index_is_said():
    with pytest.raises(DataError, match="indices holds -3 at place 2, wanted 0 to 3"):
        check_sparse(built("csr", indices=replaced(2, -3)))


def test_flags_are_not_trusted_and_duplicates_are_summed_in_double():
    matrix = sparse.csr_array((np.array([100, 100, 1], np.int8), [2, 2, 0], [0, 3]), (1, 4))
    matrix.has_canonical_format = True
    parts = [part.copy() for part in (matrix.data, matrix.indices, matrix.indptr)]
    np.testing.assert_array_equal(check_sparse(matrix).toarray(), [[1.0, 0.0, 200.0, 0.0]])
    for part, before in zip((matrix.data, matrix.indices, matrix.indptr), parts, strict=True):
        np.testing.assert_array_equal(part, before)
    for kind in ("coo", "csc"):
        twice = matrix.asformat(kind)
        np.testing.assert_array_equal(check_sparse(twice).toarray(), [[1.0, 0.0, 200.0, 0.0]])


def test_the_sum_of_duplicates_must_be_finite():
    matrix = sparse.csr_array((np.array([1e308, 1e308]), [1, 1], [0, 2]), (1, 2))
    with pytest.raises(ValueError, match="Input X contains infinity"):
        check_array(matrix, accept_sparse="csr")


def test_entries_after_the_end_and_indices_of_64_bits():
    matrix = built(
        "csr", indices=lambda part: np.append(part, 99).astype(np.int64), data=lambda part: np.append(part, 9.0)
    )
    np.testing.assert_array_equal(check_sparse(matrix).toarray(), X)
    assert matrix.data.size == 8


@pytest.mark.parametrize("shape", [(4,), (2, 2, 1)])
def test_sparse_arrays_of_other_dimensions(shape):
    with pytest.raises(DataError, match=f"Expected 2D array, got {len(shape)}D array instead"):
        check_sparse(sparse.coo_array(np.ones(shape)))


def test_complex_sparse_matrices():
    with pytest.raises(DataError, match="Complex data not supported"):
        check_sparse(sparse.csr_array(X.astype(complex)))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([[1, date(2020, 1, 1)]], r"X holds dates or durations \(date\) in column 1"),
        ([[1.5, np.datetime64("2020-01-01")]], r"X holds dates or durations \(datetime64\) in column 1"),
        ([[1, np.timedelta64(3, "s")]], r"X holds dates or durations \(timedelta64\[s\]\)"),
        ([np.ma.array([1.0, 2.0], mask=[0, 1]), [1.0, 2.0]], "Input X contains NaN: row 0 in column 1 is masked"),
        ([[10**400, 1]], "Input X contains infinity or a value too large"),
    ],
)
def test_lists(values, message):
    with pytest.raises(DataError, match=message):
        check_array(values, dtype=np.float64)


def test_frames():
    pd = pytest.importorskip("pandas")
    x, days = np.arange(3.0), pd.to_datetime(["2020-01-01", "2020-01-02", "2020-01-03"])
    for column, message in (
        (days.tz_localize("UTC"), r"X holds dates or durations \(Timestamp\) in column 'when'"),
        (days - days[0], r"X holds dates or durations \(timedelta64.* in column 'when'"),
        (days.to_period("D"), r"X holds dates or durations \(Period\) in column 'when'"),
        (pd.Categorical(days), r"X holds dates or durations \(datetime64.* in column 'when'"),
        ([1, pd.NA, 3], "Input X contains NaN: row 1 in column 'when' has no value"),
        ([1, pd.NaT, date(2020, 1, 1)], "Input X contains NaN: row 1 in column 'when' has no value"),
    ):
        with pytest.raises(DataError, match=message):
            check_array(pd.DataFrame({"x": x, "when": column}), dtype=np.float64)
    numbers = pd.DataFrame({"x": x, "category": pd.Categorical([3, 1, 3]), "whole": pd.array([1, 2, 3], dtype="Int64")})
    np.testing.assert_array_equal(check_array(numbers, dtype=np.float64).T, [x, [3, 1, 3], [1, 2, 3]])


def test_the_index_of_a_series_is_no_name_of_columns():
    pd = pytest.importorskip("pandas")
    weights = pd.Series([1.0, 2.0], index=[0, 0])
    np.testing.assert_array_equal(check_numbers(weights, "sample_weight"), [1.0, 2.0])


def test_masked_arrays_without_a_mask_are_numbers():
    values = np.ma.array(X)
    assert check_numbers(values, "X") is values


def test_masked_ratings_are_no_ratings():
    matrix = np.ma.array([[5, 1], [2, 3]], mask=[[0, 1], [0, 0]])
    rated, ratings = from_matrix(matrix)
    assert (rated.tolist(), ratings.tolist()) == ([[0, 0], [1, 0], [1, 1]], [5.0, 2.0, 3.0])
    with pytest.raises(DataError, match="matrix holds dates"):
        from_matrix(np.array([["2020-01-01", "NaT"]], "M8[D]"))


# --------------------------------------------------------------------------------------------------- Dask collections
PLACES = {
    "X of comparisons": lambda rows, one: read_ids(rows, ("left", "right")),
    "y of comparisons": lambda rows, one: skpref.GPPLClassifier().fit([(0, 1), (1, 2), (0, 2)], one),
    "weights": lambda rows, one: skpref.GPPLClassifier().fit([(0, 1), (1, 2), (0, 2)], [1, 0, 1], one),
    "X of rows": lambda rows, one: skpref.GPOrdinalRegressor().fit(rows, [0, 1, 2]),
    "y of rows": lambda rows, one: skpref.SVGPRegressor().fit([[0.0], [1.0], [2.0]], one),
    "y of classes": lambda rows, one: skpref.SVGPClassifier().fit([[0.0], [1.0], [2.0]], one),
    "y of grades": lambda rows, one: skpref.GPOrdinalRegressor().fit([[0.0], [1.0], [2.0]], one),
    "y of ratings": lambda rows, one: skpref.GibbsM3F().fit([(0, 1), (1, 2), (0, 2)], one),
    "features": lambda rows, one: skpref.Table(rows),
    "ids": lambda rows, one: skpref.Table(np.eye(3), ids=one),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", ["array", "frame"])
def test_dask_collections_are_refused_and_not_loaded(place, kind):
    array, frame = pytest.importorskip("dask.array"), pytest.importorskip("dask.dataframe")
    rows, one = array.ones((3, 2)), array.ones(3)
    if kind == "frame":
        rows, one = frame.from_dask_array(rows), frame.from_dask_array(one)
    with pytest.raises(TypeError, match=r"of Dask.*\.compute\(\)"):
        PLACES[place](rows, one)


@pytest.mark.parametrize("place", [*(place for place in PLACES if place != "ids"), "table"])
def test_lazy_frames_are_refused(place):
    polars = pytest.importorskip("polars")
    rows, one = polars.LazyFrame({"a": [1.0, 2.0, 3.0], "b": [2.0, 3.0, 4.0]}), polars.LazyFrame({"c": [1, 0, 1]})
    learn = PLACES.get(place, lambda rows, _: skpref.data.from_winners(rows, left="a", right="b", winner="b"))
    with pytest.raises(TypeError, match=r" is a lazy frame \(LazyFrame\), not data: pass .*\.collect\(\)$"):
        learn(rows, one)


ESTIMATORS = [cls for cls in (getattr(skpref, name) for name in skpref.__all__) if hasattr(cls, "fit")]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda cls: cls.__name__)
def test_estimators_take_collections_or_say_that_they_do_not(estimator):
    rows = pytest.importorskip("dask.array").ones((3, 2))
    takes = getattr(estimator, "_takes_collections", False)
    wanted = "there is no client of a cluster" if takes else r"X is a collection of Dask.*pass X\.compute\(\)$"
    options = {"qid": "query"} if estimator is skpref.GPPLRegressor else {}
    with pytest.raises(DataError if takes else TypeError, match=wanted):
        estimator().fit(rows, rows[:, 0], **options)


@pytest.mark.parametrize("shape", [(2, 5), (5, 2)])
def test_diagonals_are_those_of_the_shape(shape):
    for offset in range(-8, 9):
        X = sparse.dia_array((np.ones((1, 5)), [0]), shape=shape)
        X.offsets = np.array([offset])
        if -shape[0] <= offset <= shape[1]:
            np.testing.assert_array_equal(check_sparse(X).toarray(), np.eye(*shape, offset))
        else:
            with pytest.raises(DataError, match="a diagonal outside the shape"):
                check_sparse(X)


@pytest.mark.parametrize("dtype", ["int8", "U8", "S8"])
def test_targets_of_any_kind_are_numbers(dtype):
    X, y = np.arange(8.0)[:, None], np.arange(-128, -120)
    wanted = skpref.VariationalFM(max_iter=3, random_state=0).fit(X, y.astype(np.float64)).predict(X)
    assert np.array_equal(skpref.VariationalFM(max_iter=3, random_state=0).fit(X, y.astype(dtype)).predict(X), wanted)
    with pytest.raises(ValueError, match="could not convert string to float"):
        skpref.VariationalFM().fit(X, np.array(["one"] * 8))


def test_a_dict_is_told_to_become_a_frame():
    with pytest.raises(DataError, match=r"X is a dict, .*required: try pandas.DataFrame\(X\)"):
        SVGPRegressor().fit({"a": [1.0, 2.0]}, [1.0, 2.0])


def test_text_among_features_names_its_column_and_the_encoder():
    pairs, stars = np.array([["ann", "Alien"], ["bob", "Brazil"]], dtype=object), [5, 2]
    for model in (skpref.VariationalFMOrdinal(), skpref.VariationalFM()):
        with pytest.raises(DataError, match=r"'ann' in column 0 of X\. .* ids of users .* by skpref.OneHotDesign"):
            model.fit(pairs, stars)
    with pytest.raises(DataError, match="'Alien' in column 1 of X"):
        check_array(np.array([[None, "Alien"]], dtype=object), dtype=np.float64)
    with pytest.raises(DataError, match="X is 'ratings/', but an array or a data frame is required"):
        skpref.GPOrdinalRegressor().fit("ratings/", "rating")


FRAME = {"size": [1.0, 2.0, 3.0], "colour": ["red", "blue", "red"]}
TEXT = "could not convert string to float: 'red' in column 'colour' of X"


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_text_in_a_column_of_any_frame_is_named(library):
    frames = pytest.importorskip(library)
    make = frames.Table.from_pydict if library == "pyarrow" else frames.DataFrame
    with pytest.raises(DataError, match=TEXT):
        SVGPRegressor().fit(make(FRAME), [1.0, 2.0, 3.0])


def test_text_in_files_is_named(tmp_path):
    pandas = pytest.importorskip("pandas")
    pandas.DataFrame({**FRAME, "y": [1.0, 2.0, 3.0]}).to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(DataError, match=TEXT):
        SVGPRegressor().fit(tmp_path / "rows.parquet", "y")


@pytest.mark.parametrize("dtype", [object, "U4", "S4"])
@pytest.mark.parametrize("container", [np.array, sparse.csr_array])
def test_text_among_targets_is_named(container, dtype):
    message = r"could not convert string to float: b?'red' in row 1 of y\. Targets are numbers: take a classifier"
    with pytest.raises(DataError, match=message):
        SVGPRegressor().fit(container([[1.0], [2.0]]), np.array(["1.5", "red"], dtype=dtype))


@pytest.mark.parametrize("fill", [np.nan, 0.0, 1.0])
def test_sparse_frames_are_the_same_whatever_they_leave_out(fill):
    pandas = pytest.importorskip("pandas")
    columns = {"a": [0.0, 1.0, 1.0, 3.0], "b": [1.0, 0.0, 5.0, 1.0]}
    frame = pandas.DataFrame(
        {name: pandas.arrays.SparseArray(cells, fill_value=fill) for name, cells in columns.items()}
    )
    before = frame.copy()
    checked = check_array(frame, accept_sparse=True)
    np.testing.assert_array_equal(checked.toarray(), pandas.DataFrame(columns).to_numpy())
    pandas.testing.assert_frame_equal(frame, before)
    assert SVGPRegressor().fit(frame, [1.0, 2.0, 3.0, 4.0]).feature_names_in_.tolist() == ["a", "b"]


def test_a_record_batch_has_the_names_of_a_table():
    pyarrow = pytest.importorskip("pyarrow")
    batch = pyarrow.RecordBatch.from_pydict({"a": [0.0, 1.0, 1.0, 3.0], "b": [1.0, 0.0, 5.0, 1.0]})
    model = SVGPRegressor(random_state=0).fit(batch, [1.0, 2.0, 3.0, 4.0])
    assert model.feature_names_in_.tolist() == ["a", "b"]
    np.testing.assert_array_equal(model.predict(batch), model.predict(pyarrow.Table.from_batches([batch])))
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(batch.select(["b", "a"]))


@pytest.mark.parametrize(
    ("rows", "shown"),
    [
        ([[1, 2], [3]], r"row 0 has length 2, row 1 has length 1"),
        ([1, [2]], "row 0 is one value, row 1 has length 1"),
        ([[1, [2]], [3, 4]], r"\(within a row\)"),
    ],
)
@pytest.mark.parametrize("read", [check_numbers, as_array])
def test_ragged_rows_are_shown(read, rows, shown):
    with pytest.raises(DataError, match=f"the rows of X have different lengths or mix numbers and lists .*{shown}"):
        read(rows, "X")
