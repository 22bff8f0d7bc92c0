"""What Hypothesis draws: tables of numbers in all containers, sparse matrices, targets, weights, ids, parameters.

Most of what is drawn is valid but unusual; the rest is broken in one place. A drawn value is printed when a test fails.
"""

import datetime as dt
import decimal
import tempfile
import warnings
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import strategies as st
from scipy import sparse

pd, pa = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
try:
    import polars as pl
except ImportError:  # no extra of skpref needs it
    pl = None

# ------------------------------------------------------------------------------------------------------------ numbers
SPECIAL = [np.nan, np.inf, -np.inf, 1e308, -1e308, 1e160, 5e-324, 1e-200, 2.0**63, -0.0]
DTYPES = [
    *("float64", "float32", "float16", "longdouble", ">f8", "int8", "int16", "int32", "int64", ">i4", "uint8"),
    *("uint64", "bool", "object", "complex128", "U", "S", "M8[s]", "m8[D]"),
]


def is_unlikely(draw, one_in):
    return draw(st.integers(1, one_in)) == one_in


@st.composite
def arrays(draw, shape):
    """Numbers of some scale, perhaps with constant columns, equal rows, or one special number, of some dtype."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    values = rng.standard_normal(shape) * 10.0 ** draw(st.sampled_from([0] * 8 + [1, -12, 12, 150, 300, -150, -300]))
    if is_unlikely(draw, 8):
        values[..., 0] = draw(st.sampled_from([0.0, 1.0, -3.5]))
    if is_unlikely(draw, 8):
        values[:] = values[0]
    if is_unlikely(draw, 6):
        values[tuple(rng.integers(shape))] = draw(st.sampled_from(SPECIAL))
    dtype = draw(st.just("float64") | st.sampled_from(DTYPES))
    with np.errstate(all="ignore"):
        values = np.round(3 * values) if np.dtype(dtype).kind in "biuMm" else values
        return (np.clip(values, -(2.0**62), 2.0**62).astype(np.int64) if dtype[0] in "Mm" else values).astype(dtype)


def memmap(array):
    if array.dtype.hasobject:
        return array
    with tempfile.TemporaryFile() as file:
        mapped = np.memmap(file, dtype=array.dtype, mode="w+", shape=array.shape)
    mapped[:] = array
    return mapped


def read_only(array):
    array = array.copy()
    array.flags.writeable = False
    return array


def masked(array):
    mask = np.zeros(array.shape, dtype=bool)
    mask.flat[-1] = True
    return np.ma.masked_array(array, mask)


def columns_of(array):
    return {f"c{i}": array[:, i] for i in range(array.shape[1])}


def frame(array):
    """Return a frame, or a series of a vector; pandas knows no float16 index, no longdouble and no big endian."""
    if array.dtype.kind in "SV" or not array.dtype.isnative or array.dtype == np.longdouble:
        array = array.astype(object)
    return pd.Series(array) if array.ndim == 1 else pd.DataFrame(columns_of(array))


def frame_of(dtype, *, missing=False):
    def convert(array):
        converted = frame(array).astype(dtype)
        if missing:
            converted.iloc[(-1,) * array.ndim] = pd.NA if dtype != "category" else None
        return converted

    return convert


def polars_frame(array):
    if pl is None:
        return array
    return pl.Series(array) if array.ndim == 1 else pl.DataFrame(columns_of(array))


def arrow_table(array):
    return pa.array(array) if array.ndim == 1 else pa.table(columns_of(array))


class Duck:
    """What numpy can convert, and nothing more."""

    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        return np.array(self.array, dtype=dtype)

    def __len__(self):
        return len(self.array)


# The same numbers in another container; those below are no table of numbers, or not one of that shape.
HELD = {
    "list": lambda a: a.tolist(),
    "list of arrays": list,
    "tuple": lambda a: tuple(a.tolist()),
    "Fortran": np.asfortranarray,
    "strided": lambda a: np.repeat(a, 2, axis=0)[::2],
    "backwards": lambda a: a[::-1].copy()[::-1],
    "read-only": read_only,
    "memmap": memmap,
    "duck": Duck,
    "frame": frame,
    "Float64": frame_of("Float64"),
    "Int64": frame_of("Int64"),
    "boolean": frame_of("boolean"),
    "category": frame_of("category"),
    "string": frame_of("string"),
    "arrow frame": frame_of("double[pyarrow]"),
    "sparse frame": frame_of("Sparse[float64]"),
    "polars": polars_frame,
    "arrow": arrow_table,
    "unmasked": np.ma.masked_array,
}
ODD = {
    "masked": masked,
    "Float64 with NA": frame_of("Float64", missing=True),
    "Int64 with NA": frame_of("Int64", missing=True),
    "category with NA": frame_of("category", missing=True),
    "string with NA": frame_of("string", missing=True),
    "arrow with NA": frame_of("double[pyarrow]", missing=True),
    "datetimes": lambda a: a.astype("float32").astype("int64").astype("M8[s]"),
    "matrix": np.asmatrix,
    "flat": np.ravel,
    "deep": lambda a: a[..., None],
    "cut": lambda a: a[:-1],
    "narrow": lambda a: a[..., :-1],
    "empty": lambda a: a[:0],
    "ragged": lambda a: [*a.tolist(), [0.0]],
    "named": lambda a: np.array([tuple(row) for row in np.atleast_2d(a)], dtype="f8," * np.atleast_2d(a).shape[1]),
    "dict": lambda a: dict(enumerate(a.tolist())),
    "set": lambda a: set(map(str, a.tolist())),
    "generator": lambda a: (row for row in a.tolist()),
    "text": lambda a: "1, 2, 3",
    "bytes": lambda a: a.tobytes(),
    "memory": lambda a: memoryview(np.ascontiguousarray(a, dtype=float)),
    "number": lambda a: 1.5,
    "None": lambda a: None,
    "object": lambda a: object(),
    "class": lambda a: Duck,
    "array of nothing": lambda a: np.array(None),
}


@st.composite
def held(draw, array, odd=6):
    """The array in some container; one in `odd` is no valid one."""
    names = st.sampled_from(sorted(ODD)) if is_unlikely(draw, odd) else st.just("array") | st.sampled_from(sorted(HELD))
    name = draw(names)
    if name == "array":
        return array
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
            return {**HELD, **ODD}[name](array)
    # There is no such container of this dtype.
    except (ValueError, TypeError, OverflowError, NotImplementedError, pa.ArrowException):
        return array


# ------------------------------------------------------------------------------------------------------------- sparse
def with_parts(change):
    """Change the arrays of a compressed matrix as nobody but a bug or a foe would: SciPy does not look at them."""

    def damage(matrix):
        parts = {name: getattr(matrix, name).copy() for name in ("data", "indices", "indptr")}
        if parts["data"].size:
            change(parts)
        other = matrix.copy()
        for name, part in parts.items():
            setattr(other, name, part)
        return other

    return damage


def entry(name, place, value):
    return with_parts(lambda p: p[name].__setitem__(place, value))


def part(name, change):
    return with_parts(lambda p: p.__setitem__(name, change(p[name])))


def reverse_rows(parts):
    for start, stop in pairwise(parts["indptr"]):
        for name in ("data", "indices"):
            parts[name][start:stop] = parts[name][start:stop][::-1]


def double(parts):
    """Store every entry in two halves."""
    parts["data"] = np.repeat(parts["data"] * 0.5, 2)
    parts["indices"], parts["indptr"] = np.repeat(parts["indices"], 2), 2 * parts["indptr"]


def widen(parts):
    parts["indices"], parts["indptr"] = parts["indices"].astype(np.int64), parts["indptr"].astype(np.int64)


def lock(parts):
    for array in parts.values():
        array.flags.writeable = False


SOUND_CSR = {
    "unsorted": with_parts(reverse_rows),
    "duplicates": with_parts(double),
    "64-bit": with_parts(widen),
    "read-only": with_parts(lock),
    "explicit zero": entry("data", 0, 0),
}
BROKEN_CSR = {
    "index 10**9": entry("indices", -1, 10**9),
    "index 10**6": entry("indices", 0, 10**6),
    "index just outside": part("indices", lambda a: a + 1),
    "index -3": entry("indices", 0, -3),
    "indices cut": part("indices", lambda a: a[:-1]),
    "data cut": part("data", lambda a: a[:-1]),
    "data longer": part("data", lambda a: np.concatenate([a, a])),
    "indptr falls": part("indptr", lambda a: a[::-1].copy()),
    "indptr begins late": entry("indptr", 0, 1),
    "indptr negative": entry("indptr", 0, -1),
    "indptr ends late": entry("indptr", -1, 10**6),
    "indptr jumps": entry("indptr", 1, 10**6),
    "indptr cut": part("indptr", lambda a: a[:-1]),
    "indptr empty": part("indptr", lambda a: a[:0]),
    "floats": part("indices", lambda a: a + 0.5),
    "NaN": entry("data", 0, np.nan),
}


@st.composite
def sparse_matrices(draw, shape, *, broken=None):
    """A sparse matrix of any format; one in three is broken in one place, unless it is said whether it is."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    values = np.where(rng.random(shape) < 0.6, np.round(rng.standard_normal(shape), 2), 0.0)
    broken = is_unlikely(draw, 3) if broken is None else broken
    if not broken and is_unlikely(draw, 2):
        name = draw(st.sampled_from(["coo", "csc", "lil", "dok", "bsr", "dia", "csr"]))
        dtype = draw(st.sampled_from(["f8", "f4", "longdouble", "i1", "i8", "u8", "bool", "complex128"]))
        family = draw(st.sampled_from(["array", "matrix"]))
        return getattr(sparse, f"{name}_{family}")(np.abs(np.rint(values)).astype(dtype))
    matrix = draw(st.sampled_from([sparse.csr_array, sparse.csr_matrix, sparse.csc_array]))(values)
    return draw(st.sampled_from(list((BROKEN_CSR if broken else SOUND_CSR).values())))(matrix)


# ---------------------------------------------------------------------------------------------------- targets, weights
LABELS = [0, 1, 2, 3, -1, 0.5, 0.25, 1.0, True, "a", "b", "", "1", b"a", None, np.nan, np.inf, 2**70, 10**400, (1,)]
LABELS += [pd.NA, pd.NaT, decimal.Decimal("0.5"), 1j, [1], {}, np.float32(1.0), np.datetime64("2020-01-01")]
WEIGHTS = [0.0, 1.0, 2.0, 5e-324, 1e-200, 1e300, 1e308, -1.0, -5e-324, np.nan, np.inf, "a", None, "1", 10**400, 1j]


def listed(pool, n):
    """As many values as rows, of at most three different ones; sometimes one too many."""
    few = st.lists(st.sampled_from(pool), min_size=1, max_size=3)
    return few.flatmap(lambda some: st.lists(st.sampled_from(some), min_size=n, max_size=n + 1))


@st.composite
def targets(draw, kind, n):
    """Targets of a kind: scores, classes, levels (most are fit for use) or any values."""
    if is_unlikely(draw, 4):
        return draw(listed(LABELS, n))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    if kind == "scores":
        return draw(held(draw(arrays((n,))), odd=12))
    most = 2 if kind == "classes" else 4
    return draw(held(rng.integers(0, draw(st.integers(1, most)), n), odd=12))


@st.composite
def weights(draw, n):
    """None (mostly), a list of any weights, or positive ones in a container."""
    how = draw(st.sampled_from(["none", "none", "any", "held", "number"]))
    if how == "any":
        return draw(listed(WEIGHTS, n))
    if how == "held":
        return draw(held(np.linspace(0.0, 2.0, n)))
    return draw(st.sampled_from(WEIGHTS)) if how == "number" else None


# ----------------------------------------------------------------------------------------------------------------- ids
class Odd:
    """An id that is equal to nothing, not even itself, and shows itself badly."""

    def __eq__(self, other):
        return False

    def __hash__(self):
        return 1

    def __repr__(self):
        return "<odd>" * 50


DAY = dt.date(2020, 1, 1)
IDS = {  # of one kind, so that most columns are of one kind
    "integers": [0, 1, 2, 3, -5],
    "integral floats": [0.0, 1.0, 2.0, -3.0, 1],
    "numpy numbers": [np.int8(1), np.uint64(2**64 - 1), np.float32(2.0), np.int64(3), True, np.True_],
    "huge": [2**63 - 1, 2**63, 2**64, -(2**63), 2**70, 10**400, 1e300],
    "strings": ["a", "b", "", " ", "a ", "x" * 200, "A", "\0", "a\0", "\ud800", "e\u0301", "\u00e9", "1", "nan"],
    "bytes": [b"a", b"", b"a\0", "a", np.bytes_(b"b"), np.str_("c")],
    "tuples": [(1,), (1, 2), (), ("a", None), frozenset({1}), ((),)],
    "times": [DAY, dt.datetime(2020, 1, 1, tzinfo=dt.UTC), np.datetime64("2020-01-01"), pd.Timestamp(0)],
    "numbers": [decimal.Decimal(1), decimal.Decimal("NaN"), 1.5, 1j, np.nan, np.inf, -0.0],
    "missing": [None, pd.NA, pd.NaT, np.nan, "a", 1, np.datetime64("NaT", "s")],
    "unhashable": [[1], {}, np.array([1, 2]), np.array(1), {1}, "a"],
    "objects": [Odd(), object(), int, len, "a", ...],
}


@st.composite
def id_tables(draw, n, width):
    """A table of ids, mostly of one kind each column, as a list of rows, an array, or a frame."""
    kinds = draw(st.lists(st.sampled_from(sorted(IDS)), min_size=1, max_size=2))
    if is_unlikely(draw, 2):
        kinds = ["integers", "strings"][: 1 + is_unlikely(draw, 4)]
    pools = [IDS[draw(st.sampled_from(kinds))] for _ in range(width)]
    rows = [[draw(st.sampled_from(pool)) for pool in pools] for _ in range(n)]
    array = np.empty((n, width), dtype=object)
    for at in np.ndindex(array.shape):
        array[at] = rows[at[0]][at[1]]
    if is_unlikely(draw, 2):
        return rows if is_unlikely(draw, 2) else [tuple(row) for row in rows]
    if is_unlikely(draw, 3):  # as numpy makes of it
        try:
            array = np.array(rows)
        except ValueError:
            return rows
    return draw(held(array)) if array.ndim == 2 else array


# ---------------------------------------------------------------------------------------------------------- parameters
# No large counts: a million sweeps are legal, and slow.
PARAMETERS = [
    *("auto", "logit", "probit-ties", "vb", "svi", "laplace", "kmeans", "median", "last", "raise", "drop", "float32"),
    *(None, True, False, 0, 1, 2, 3, -1, -1.5, 0.0, 0.5, 1e-300, 5e-324, 1e300, np.nan, np.inf, -np.inf, "", "x", b"x"),
    *([], [1.0], [2.0, 1.0], [1, 2, 3, 4, 5], [np.nan], [[0.0]], ["a", "b"], (), {}, {"a": 1}, np.array(2), np.int8(2)),
    *(np.float32(0.5), np.array([1.0, 2.0]), np.zeros((2, 2)), np.zeros((0, 3)), np.ones((4, 3)), 1j),
    *(object(), int, len, decimal.Decimal(1), sparse.csr_array(np.eye(3)), pd.DataFrame({"a": [1.0]})),
]
