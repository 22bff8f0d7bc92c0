"""scikit-learn's checks of input, after checks of our own: damaged sparse matrices, dates and missing values.

SciPy and compiled code trust the indices of a sparse matrix, and NumPy turns dates and masked elements into ordinary
numbers. All features enter the package through this module.
"""

from __future__ import annotations

import sys
from collections import Counter
from datetime import date, time, timedelta
from numbers import Number
from os import PathLike
from typing import TYPE_CHECKING, Any, Final

import narwhals as nw
import numpy as np
from scipy import sparse
from sklearn.utils import validation

from skpref.exceptions import DataError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

__all__ = [
    "are_missing",
    "as_frame",
    "as_series",
    "assert_all_finite",
    "check_array",
    "check_numbers",
    "check_sparse",
    "check_structure",
    "column_names",
    "is_missing",
    "refuse_collection",
    "refuse_dates",
    "refuse_repeated_columns",
    "validate_data",
]

# scikit-learn adds up all numbers to find infinities, and NumPy warns where there are some of both signs, and where a
# wider float is none of float64.
_QUIETLY: Final = np.errstate(invalid="ignore", over="ignore")
_DATES: Final = (date, time, timedelta, np.datetime64, np.timedelta64)


@_QUIETLY
def validate_data(estimator: Any, X: Any, y: Any = "no_validation", **options: Any) -> Any:
    """Return what scikit-learn's `validate_data` returns for checked input."""
    refuse_collection(X, "X")
    refuse_collection(y, "y")
    if options.get("y_numeric"):
        y = check_numbers(y, "y")
        _refuse_words(y)
    X = _checked(X, "X", options)
    try:
        checked = validation.validate_data(estimator, X, y, **options)
    except OverflowError as error:
        raise _too_large("X") from error
    except ValueError as error:
        _refuse_text(error, X, "X")
        raise
    if not options.get("y_numeric"):
        return checked
    # scikit-learn looks at objects before None becomes NaN, and leaves other sizes, integers and text as they are.
    X, y = checked
    y = y.astype(np.float64)
    validation.assert_all_finite(y, input_name="y")
    return X, y


@_QUIETLY
def check_array(X: Any, *, input_name: str = "X", **options: Any) -> Any:
    """Return what scikit-learn's `check_array` returns for checked input."""
    X = _checked(X, input_name, options)
    try:
        return validation.check_array(X, input_name=input_name, **options)
    except OverflowError as error:
        raise _too_large(input_name) from error
    except ValueError as error:
        _refuse_text(error, X, input_name)
        raise


@_QUIETLY
def assert_all_finite(X: Any, *, input_name: str) -> None:
    """Raise scikit-learn's error if X holds NaN or infinity."""
    validation.assert_all_finite(X, input_name=input_name)


def _refuse_words(y: Any) -> None:
    """Refuse targets that are text and no numbers."""
    values = np.asarray(y)
    if values.ndim != 1 or values.dtype.kind not in "OUST":
        return
    for row, value in enumerate(values.tolist()):
        try:
            _ = float(value) if isinstance(value, str | bytes) else value
        except ValueError as error:
            raise DataError(
                f"{error} in row {row} of y. Targets are numbers: take a classifier for labels, and GPOrdinalRegressor "
                "or VariationalFMOrdinal for ordered levels."
            ) from None


def _refuse_text(error: ValueError, X: Any, name: str) -> None:
    """Name the column of X that holds text, and say how to encode it, if scikit-learn's error is about one."""
    if "could not convert string to float" not in str(error) or sparse.issparse(X) or np.ndim(X) != 2:
        return
    columns = column_names(X) or range(np.shape(X)[1])
    for label, column in zip(columns, np.asarray(X, dtype=object).T, strict=True):
        try:
            column.astype(np.float64)
        except ValueError as reason:
            raise DataError(
                f"{reason} in column {label!r} of {name}. Features are numbers: encode text by scikit-learn's "
                "OneHotEncoder or by pandas.get_dummies, and ids of users and items by skpref.OneHotDesign."
            ) from error
        except TypeError:  # None, for one: scikit-learn's error is about another column
            continue


def _checked(X: Any, name: str, options: dict[str, Any]) -> Any:
    if isinstance(X, str | PathLike):
        raise DataError(
            f"{name} is {str(X)!r:.200}, but an array or a data frame is required: read a file first, for example by "
            "pandas.read_parquet."
        )
    if not sparse.issparse(X):
        if isinstance(X, dict):
            raise DataError(f"{name} is a dict, but an array or a data frame is required: try pandas.DataFrame({name})")
        return _with_empty_zeros(check_numbers(_as_table(X), name))
    return check_sparse(X, name) if options.get("accept_sparse") else X  # scikit-learn refuses it


def refuse_collection(values: Any, name: str) -> None:
    """Refuse a collection of Dask, which NumPy would load into this process without a word, and a lazy frame."""
    if hasattr(values, "collect_schema") and hasattr(values, "collect") and not hasattr(values, "__len__"):
        raise TypeError(f"{name} is a lazy frame ({type(values).__name__}), not data: pass {name}.collect()")
    if any(base.__module__.partition(".")[0] == "dask" for base in type(values).__mro__):
        raise TypeError(
            f"{name} is a collection of Dask ({type(values).__name__}), but data in memory are required here: pass "
            f"{name}.compute()"
        )


def column_names(frame: Any) -> list[Any] | None:
    """Return the names of the columns of a data frame or a dict of columns; None for anything else."""
    names = getattr(frame, "column_names", None)  # pyarrow
    names = getattr(frame, "columns", None) if names is None else names
    if names is None and hasattr(frame, "keys") and getattr(frame, "ndim", 2) != 1:  # a Series has an index
        names = frame.keys()
    return None if names is None else list(names)


def refuse_repeated_columns(X: Any, name: str) -> None:
    """Refuse a data frame in which two columns have the same name."""
    for column, count in Counter(column_names(X) or []).items():
        if count > 1:
            raise DataError(f"{name} has more than one column {column!r}; give columns different names")


def _as_table(X: Any) -> Any:
    """Return a record batch of pyarrow as a table, whose names scikit-learn stores; other data unchanged."""
    pyarrow = sys.modules.get("pyarrow")
    return pyarrow.Table.from_batches([X]) if pyarrow is not None and isinstance(X, pyarrow.RecordBatch) else X


def as_frame(X: Any) -> nw.DataFrame[Any] | None:
    """Return a data frame of pandas, polars or pyarrow as one of narwhals; None for anything else."""
    frame = nw.from_native(_as_table(X), eager_only=True, pass_through=True)
    return frame if isinstance(frame, nw.DataFrame) else None


def as_series(column: Any) -> nw.Series[Any] | None:
    """Return a column of pandas, polars or pyarrow as one of narwhals; None for anything else."""
    pyarrow = sys.modules.get("pyarrow")
    if pyarrow is not None and isinstance(column, pyarrow.Array):
        column = pyarrow.chunked_array([column])
    series = nw.from_native(column, series_only=True, pass_through=True)
    return series if isinstance(series, nw.Series) else None


def _with_empty_zeros(X: Any) -> Any:
    """Return a data frame whose sparse columns leave zeros out, and not NaN as by default, or another number."""
    if not (hasattr(X, "isetitem") and X.ndim == 2):
        return X
    filled = [k for k, dtype in enumerate(X.dtypes) if getattr(dtype, "fill_value", 0) != 0]
    frame = X.copy(deep=False) if filled else X
    for k in filled:
        values = X.iloc[:, k].array
        frame.isetitem(k, type(values)(np.asarray(values), fill_value=0))
    return frame


def as_array(values: Any, name: str) -> NDArray[Any]:
    """Return an array-like as an array; refuse rows of different lengths."""
    try:
        return np.asarray(values)
    except ValueError as error:
        if isinstance(values, list | tuple):
            raise _ragged(values, name) from error
        raise


def _ragged(rows: Sequence[Any], name: str) -> DataError:
    kinds = [
        f"has length {len(row)}" if hasattr(row, "__len__") and not isinstance(row, str | bytes) else "is one value"
        for row in rows
    ]
    other = next((k for k, kind in enumerate(kinds) if kind != kinds[0]), None)
    shown = "within a row" if other is None else f"row 0 {kinds[0]}, row {other} {kinds[other]}"
    return DataError(
        f"{name} must be an array: the rows of {name} have different lengths or mix numbers and lists ({shown})"
    )


def _too_large(name: str) -> DataError:
    return DataError(f"Input {name} contains infinity or a value too large for dtype('float64'): an integer.")


# --------------------------------------------------------------------------------------------- dates and missing values
def is_missing(cell: Any) -> bool:
    """Tell whether a cell is empty: None, NaN, NaT, pandas.NA or masked."""
    # pandas.NA cannot be compared, so it is recognised by the name of its type.
    if cell is None or type(cell).__name__ in {"NAType", "NaTType", "MaskedConstant"}:
        return True
    return isinstance(cell, Number | np.datetime64 | np.timedelta64) and bool(cell != cell)  # noqa: PLR0124 - NaN


def are_missing(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Tell which cells of an array are empty."""
    if values.dtype.kind in "fcmM":
        return np.asarray(values != values)  # noqa: PLR0124 - NaN and NaT
    cells = values.ravel().tolist() if values.dtype.kind == "O" else []
    if all(issubclass(held, str | bytes | int) for held in set(map(type, cells))):
        return np.zeros(values.shape, dtype=bool)
    return np.fromiter(map(is_missing, cells), dtype=bool, count=len(cells)).reshape(values.shape)


def check_numbers(X: Any, name: str) -> Any:
    """Return an array-like as it is, lists as an array; refuse dates, masked elements and missing values of pandas."""
    refuse_collection(X, name)
    if isinstance(X, list | tuple):
        try:
            X = (np.ma.array if any(map(np.ma.is_masked, X)) else np.asarray)(X)
        except ValueError as error:
            raise _ragged(X, name) from error
    refuse_repeated_columns(X, name)
    if hasattr(X, "iloc"):
        columns = [(None, X)] if X.ndim == 1 else [(label, X.iloc[:, k]) for k, label in enumerate(X.columns)]
        for label, column in columns:
            if not (isinstance(column.dtype, np.dtype) and column.dtype.kind in "biufc"):
                _check_column(column, name, "" if label is None else f" in column {label!r}")
        return X
    if np.ma.is_masked(X):
        _refuse_missing(np.argwhere(np.ma.getmaskarray(X))[0], name, "is masked")
    plain = isinstance(getattr(X, "dtype", None), np.dtype) or not hasattr(X, "__array__")
    refuse_dates(X if plain else np.asarray(X), name)
    return X


def _check_column(column: Any, name: str, where: str) -> None:
    """Check a column of a data frame, or a series, that is not of NumPy's numbers."""
    if column.dtype.kind not in "biufc":
        refuse_dates(np.asarray(column), name, where)
    missing = np.flatnonzero(column.isna())
    if missing.size:
        _refuse_missing(missing[:1], name, "has no value", where)


def refuse_dates(values: Any, name: str, where: str = "") -> None:
    """Refuse dates and durations, and missing values among Python objects."""
    kind = getattr(getattr(values, "dtype", None), "kind", "")
    if kind in {"m", "M"}:
        raise _dates(name, where, str(values.dtype))
    if kind != "O":
        return
    flat = np.asarray(values).ravel().tolist()
    for cls in dict.fromkeys(map(type, flat)):
        absent = cls.__name__ in {"NaTType", "NAType"}
        if absent or issubclass(cls, _DATES) or cls.__name__ == "Period":
            place = np.unravel_index(list(map(type, flat)).index(cls), values.shape)
            if absent:
                _refuse_missing(place, name, "has no value", where)
            raise _dates(name, where or "".join(f" in column {k}" for k in place[1:]), cls.__name__)


def _dates(name: str, where: str, kind: str) -> DataError:
    return DataError(
        f"{name} holds dates or durations ({kind}){where}, without a unit that makes them numbers. Convert them to "
        "numbers first, for example to days: (dates - dates.min()) / numpy.timedelta64(1, 'D')."
    )


def _refuse_missing(place: Any, name: str, what: str, where: str = "") -> None:
    where = where or "".join(f" in column {k}" for k in place[1:])
    raise DataError(
        f"Input {name} contains NaN: row {place[0]}{where} {what}. Fill it in (scikit-learn's SimpleImputer does), or "
        "leave the row out."
    )


# ------------------------------------------------------------------------------------------------------ sparse matrices
def check_sparse(X: Any, name: str = "X") -> sparse.csr_array:
    """Return a sparse matrix of any format as canonical float64 CSR, which may share the arrays of X.

    Its structure is checked in full. X is not changed, and its flags, such as `has_canonical_format`, are not trusted.
    """
    csr = sparse.csr_array(check_structure(X, name).astype(np.float64, copy=False))
    if not csr.has_canonical_format:
        csr = csr.copy()
        csr.sum_duplicates()
    return csr


def check_structure(X: Any, name: str = "X") -> Any:
    """Return a sparse matrix with the same entries and checked indices; entries may be stored twice."""
    if X.ndim != 2:
        raise DataError(f"Expected 2D array, got {X.ndim}D array instead: {name} has the shape {X.shape}.")
    if X.dtype.kind == "c":
        raise DataError(f"Complex data not supported: {name} is a sparse matrix of {X.dtype}.")
    check_numbers(getattr(X, "data", None), name)
    try:
        return _REBUILT[X.format](X)
    except (TypeError, ValueError, IndexError, OverflowError, AttributeError) as error:
        raise DataError(
            f"{name} is a damaged {X.format.upper()} matrix: {error}. Build it anew, for example by "
            "scipy.sparse.coo_array((values, (rows, columns)), shape)."
        ) from error


def _compressed(X: Any) -> Any:
    """Return a CSR, CSC or BSR matrix with the same, checked arrays."""
    data = _entries(X.data, 3 if X.format == "bsr" else 1)
    block = data.shape[1:] or (1, 1)
    if any(step < 1 or size % step for size, step in zip(X.shape, block, strict=True)):
        raise ValueError(f"data holds blocks of shape {block}, which do not tile the shape {X.shape}")
    blocks = [size // step for size, step in zip(X.shape, block, strict=True)]
    n_rows, n_columns = reversed(blocks) if X.format == "csc" else blocks
    indptr, n = _integers(X.indptr, "indptr"), min(len(data), len(X.indices))
    if indptr.size != n_rows + 1:
        raise ValueError(f"indptr has {indptr.size} numbers, wanted {n_rows + 1} for the shape {X.shape}")
    if indptr[0] != 0 or np.any(indptr[1:] < indptr[:-1]) or indptr[-1] > n:
        raise ValueError(f"indptr must ascend from 0 to at most {n}, the number of entries")
    used = slice(int(indptr[-1]))
    indices = _integers(X.indices[used], "indices", n_columns)
    return getattr(sparse, f"{X.format}_array")((data[used], indices, indptr), shape=X.shape)


def _coordinates(X: Any) -> sparse.coo_array:
    data = _entries(X.data, 1)
    coords = tuple(_integers(index, "coords", size, len(data)) for index, size in zip(X.coords, X.shape, strict=True))
    return sparse.coo_array((data, coords), shape=X.shape)


def _diagonals(X: Any) -> sparse.dia_array:
    offsets = _integers(X.offsets, "offsets")
    if np.any((offsets < -X.shape[0]) | (offsets > X.shape[1])):
        raise ValueError(f"offsets holds a diagonal outside the shape {X.shape}")
    return sparse.dia_array((_entries(X.data, 2), offsets), shape=X.shape)


def _lists(X: Any) -> Any:
    if not len(X.rows) == len(X.data) == X.shape[0] or list(map(len, X.rows)) != list(map(len, X.data)):
        raise ValueError("rows and data must be lists of the same lengths")
    return _compressed(X.tocsr())


_REBUILT: Final[dict[str, Callable[[Any], Any]]] = {
    **dict.fromkeys(("csr", "csc", "bsr"), _compressed),
    "coo": _coordinates,
    "dia": _diagonals,
    "lil": _lists,
    "dok": lambda X: _coordinates(X.tocoo()),
}


def _entries(values: Any, ndim: int) -> NDArray[Any]:
    if values.ndim != ndim or values.dtype.kind not in "biuf":
        raise ValueError(f"data must be numbers in {ndim} dimensions, not {values.dtype} in {values.ndim}")
    return np.ascontiguousarray(values)


def _integers(index: Any, name: str, limit: int | None = None, size: int | None = None) -> NDArray[np.signedinteger]:
    """Return a vector of integers, from 0 to `limit` - 1 if there is a limit."""
    if index.ndim != 1 or index.dtype.kind != "i":
        raise ValueError(f"{name} must be a vector of signed integers, not {index.ndim}D of {index.dtype}")
    if size not in {None, index.size}:
        raise ValueError(f"{name} has {index.size} numbers for {size} entries")
    if limit is not None and index.size and (index.min() < 0 or index.max() >= limit):
        place = int(np.argmax((index < 0) | (index >= limit)))
        raise ValueError(f"{name} holds {index[place]} at place {place}, wanted 0 to {limit - 1}")
    return np.ascontiguousarray(index)
