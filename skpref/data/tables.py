"""The table of items: features and ids, shared by clones of an estimator."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Literal

import narwhals as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from skpref._checks import are_names, check_features, check_indices, check_types, require
from skpref._typing import AnyArray, Array, Features, IntArray
from skpref._validation import as_frame, check_array, column_names, refuse_collection, refuse_repeated_columns
from skpref.data.ids import Frozen, IdColumn, Vocabulary, mixed, shorten
from skpref.data.policy import POLICY
from skpref.exceptions import DataError


class Table(Frozen):
    """Table of features of items or users, with their ids (immutable).

    A table is a parameter of an estimator and not an argument of `fit`, so
    cross-validation never slices it. It has no length and no shape, its arrays
    are read-only, and `clone` and `deepcopy` return the table itself.

    Parameters
    ----------
    features : array-like or sparse matrix of shape (n_items, n_features)
        One row per item: an array, nested lists, a data frame (the index is
        ignored) or a sparse matrix, which stays sparse (CSR). Values are stored
        as float64, as a copy unless the array is read-only already.
    ids : array-like of shape (n_items,), default=None
        Distinct hashable ids: integers, strings, bytes or a mixture. None
        means that the id of an item is its row, 0 to n_items - 1.
    feature_names : sequence of str of length n_features, default=None
        Names of the columns; None takes them from a data frame.
    missing : {"raise", "item effect"}, default="raise"
        What to do with an item that lacks a feature (NaN or an empty cell): raise an error, or ignore its other
        features and give it an effect of its own, which only its comparisons tell, as BradleyTerry2 does. Its row is
        put so far from all others that its utility is independent of theirs a priori, with the variance of the kernel.
        That needs a stationary kernel (the default of `GPPLClassifier`; `CrowdGPPL` with factors must name one), and a
        dense table of the items of `fit`, of which three quarters have all features.

    Attributes
    ----------
    features : ndarray or csr_array of shape (n_items, n_features)
        The values.
    ids : ndarray of shape (n_items,), dtype int64 or object
        The ids.
    n_items, n_features : int
        Number of rows and of columns.
    feature_names : tuple of str or None
        Names of the columns; None if there are none.
    vocabulary : Vocabulary
        The map from ids to rows.
    incomplete : ndarray of shape (n,), dtype int64
        Rows that lack a feature; empty unless `missing="item effect"`.
    digest : str
        SHA-256 of ids and values, 64 hexadecimal digits, computed on demand.

    Raises
    ------
    ValueError
        The features are not a finite real matrix with at least one row and
        one column.
    DataError
        A feature is missing (the message names item and column), an id is missing, occurs twice or is not hashable, or
        the number of ids or names differs from that of rows or columns.

    Examples
    --------
    >>> from skpref.data import Table
    >>> fruits = Table([[1.0, 0.2], [0.3, 0.9], [0.5, 0.5]], ids=["apple", "banana", "cherry"])
    >>> fruits
    Table(n_items=3, n_features=2)
    >>> fruits.rows(["cherry", "apple"])
    array([2, 0])
    """

    features: Features
    vocabulary: Vocabulary
    feature_names: tuple[str, ...] | None
    incomplete: IntArray

    def __init__(
        self,
        features: ArrayLike,
        ids: ArrayLike | None = None,
        feature_names: Sequence[str] | None = None,
        *,
        missing: Literal["raise", "item effect"] = "raise",
    ) -> None:
        if missing not in {"raise", "item effect"}:
            raise DataError(f"missing must be 'raise' or 'item effect'; got {missing!r:.80}")
        values = _read_features(features)
        vocabulary = _read_ids(ids, int(values.shape[0]))
        names = _read_names(feature_names, features, values.shape[1])
        values, incomplete = _without_gaps(values, vocabulary.ids, names, missing)
        self.__setstate__(
            {"features": values, "vocabulary": vocabulary, "feature_names": names, "incomplete": incomplete}
        )

    @property
    def ids(self) -> IdColumn:
        """The ids, a read-only array of shape (n_items,)."""
        return self.vocabulary.ids

    @property
    def n_items(self) -> int:
        """The number of items."""
        return int(self.features.shape[0])

    @property
    def n_features(self) -> int:
        """The number of features."""
        return int(self.features.shape[1])

    @cached_property
    def digest(self) -> str:
        """SHA-256 of ids and values as 64 hexadecimal digits."""
        return _digest(self.features, self.ids)

    def rows(self, ids: ArrayLike, name: str = "X", noun: str = "comparison") -> IntArray:
        """Return the row of every id.

        Parameters
        ----------
        ids : array-like of shape (n,)
            Ids of items.
        name : str, default="X"
            Name of the argument in error messages.
        noun : str, default="comparison"
            Noun for an entry of `ids` in error messages.

        Returns
        -------
        ndarray of shape (n,), dtype int64
            Row numbers.

        Raises
        ------
        UnknownIdError
            An id is not in the table.
        """
        return self.vocabulary.encode(ids, name, noun=noun)

    def __repr__(self) -> str:
        """Return a description of one line."""
        kind = ", sparse" if sparse.issparse(self.features) else ""
        return f"Table(n_items={self.n_items}, n_features={self.n_features}{kind})"

    def __sklearn_clone__(self) -> Table:
        """Return the table itself: it is frozen."""
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickle and skops: arrays, the vocabulary and names."""
        return {name: getattr(self, name) for name in ("features", "vocabulary", "feature_names", "incomplete")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the state, with read-only arrays."""
        names, incomplete = state["feature_names"], state.get("incomplete", np.zeros(0, dtype=np.int64))
        frozen = {"features": _freeze(state["features"]), "incomplete": _freeze(incomplete)}
        self.__dict__.update(frozen, vocabulary=state["vocabulary"], feature_names=names and tuple(names))

    def validate(self) -> None:
        """Raise DataError unless the parts fit together."""
        check_types(self, vocabulary=Vocabulary)
        width = check_features(self, "features", self.features, self.vocabulary.size)
        require(are_names(self.feature_names, width), self, "feature_names", f"must be {width} names")
        check_indices(self, "incomplete", self.incomplete, 0, self.vocabulary.size)


def _read_features(features: Any) -> Features:  # any array-like
    """Return features as float64 with NaN where one is missing."""
    refuse_collection(features, "X")
    refuse_repeated_columns(features, "X")
    columns = [] if (frame := as_frame(features)) is None else list(frame.iter_columns())
    if any(column.null_count() for column in columns) and all(column.dtype.is_numeric() for column in columns):
        features = np.column_stack([column.cast(nw.Float64).to_numpy() for column in columns])
    options: dict[str, Any] = {"accept_sparse": "csr", "ensure_all_finite": "allow-nan", "input_name": "X"}
    values = check_array(features, dtype=np.float64, order="C", **options)
    if sparse.issparse(values):
        values = sparse.csr_array(values, copy=True)
        values.sum_duplicates()
        values.eliminate_zeros()
    elif values.flags.writeable and np.may_share_memory(values, np.asarray(features)):
        values = values.copy()
    return _freeze(values)


def _without_gaps(
    values: Features, ids: IdColumn, names: tuple[str, ...] | None, missing: str
) -> tuple[Features, IntArray]:
    """Return features, of which rows that lack one lie far from all others, and the numbers of these rows."""
    is_sparse = sparse.issparse(values)
    if is_sparse:
        entries = values.tocoo()
        row, column = (index[np.isnan(entries.data)] for index in (entries.row, entries.col))
    else:
        row, column = np.nonzero(np.isnan(values))
    incomplete = np.unique(row).astype(np.int64)
    if not incomplete.size:
        return values, incomplete
    if missing == "raise" or is_sparse or incomplete.size > POLICY.most_incomplete * values.shape[0]:
        where = f"item {shorten(ids[row[0]])} (row {row[0]}) has no value in column {column[0]}"
        where += "" if names is None else f", {names[column[0]]!r}"
        more = f", and {incomplete.size - 1} more items lack one" if incomplete.size > 1 else ""
        advice = "Fill it in (scikit-learn's SimpleImputer does), leave the item or the column out, or pass"
        more += f". {advice} missing='item effect' to a dense Table"
        raise DataError(f"Input X contains NaN: {where}{more}, at most a quarter of whose items lack a feature")
    values, others = values.copy(), np.delete(values, incomplete, axis=0)
    spread = others.std(axis=0)
    steps = POLICY.far_items * np.arange(1.0, incomplete.size + 1.0)[:, None]
    values[incomplete] = others.mean(axis=0) + steps * np.where(spread > 0.0, spread, 1.0)
    return values, incomplete


def _freeze(values: Any) -> Any:  # features or row numbers
    if sparse.issparse(values):
        for part in (values.data, values.indices, values.indptr):
            part.flags.writeable = False
    else:
        values.flags.writeable = False
    return values


def _read_ids(ids: Any, n_items: int) -> Vocabulary:  # any array-like
    if ids is None:
        return Vocabulary.range(n_items)
    if isinstance(ids, str | bytes) or not hasattr(ids, "__len__"):
        raise DataError(f"ids must be a sequence of {n_items} ids, one per row of features, got {type(ids).__name__}")
    vocabulary = Vocabulary(ids)
    if vocabulary.size != n_items:
        raise DataError(
            f"ids and features have inconsistent numbers of samples: {vocabulary.size} ids for {n_items} rows"
        )
    return vocabulary


def _read_names(names: Any, features: object, n_features: int) -> tuple[str, ...] | None:
    """Return the names of the columns, which a data frame may have; None if there are none."""
    if names is None:
        own = column_names(features) or ()
        return tuple(own) if own and all(isinstance(name, str) for name in own) else None
    read = tuple(map(str, names))
    if isinstance(names, str) or len(read) != n_features:
        raise DataError(f"feature_names must be {n_features} names, one per column of features; got {len(read)}")
    return read


# --------------------------------------------------------------------------
# content


def _digest(features: Features, ids: IdColumn) -> str:
    digest = hashlib.sha256()
    if sparse.issparse(features):
        _feed(digest, "csr", np.array(features.shape), features.indptr, features.indices, features.data)
    else:
        _feed(digest, "dense", np.array(features.shape), features)
    if ids.dtype == object:
        for value in ids.tolist():
            _feed_id(digest, value)
    else:
        _feed(digest, "ids", ids)
    return digest.hexdigest()


def _feed(digest: Any, tag: str, *arrays: AnyArray) -> None:  # hashlib's type is private
    digest.update(tag.encode())
    for array in arrays:
        # One width and byte order, so that the digest is the same everywhere.
        wide = array.astype(np.dtype("<f8" if array.dtype.kind == "f" else "<i8"), copy=False)
        digest.update(np.ascontiguousarray(wide).data)


def _feed_id(digest: Any, value: Any) -> None:  # an id may be anything
    if isinstance(value, str):
        content = value.encode("utf-8", "surrogatepass")
    else:
        content = value if isinstance(value, bytes) else repr(value).encode("utf-8", "surrogatepass")
    digest.update(f"{type(value).__name__}:{len(content)}:".encode())
    digest.update(content)


def unique_rows(X: Features) -> tuple[IntArray, IntArray]:
    """Find the distinct rows of a feature matrix.

    Rows are grouped by a 64-bit hash and then compared, so the result is exact
    and needs a sort of n numbers only. Their order looks random, but rounding
    errors in X leave it as it is, and with it all that is drawn by number.
    """
    _, first, inverse = np.unique(_row_hashes(X), return_index=True, return_inverse=True)
    if not _same(X, first[inverse]):  # a collision of hashes: once in 2**64 / n**2 tables
        keys = _row_bytes(X)
        _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    place = _along_a_direction(X)[first]
    order = np.lexsort((place, _mix(_rounded(place))))
    number = np.empty_like(order)
    number[order] = np.arange(order.size)
    return first[order].astype(np.int64, copy=False), number[inverse].astype(np.int64, copy=False)


def _along_a_direction(X: Features) -> Array:
    """Return the projection of each row on a fixed direction, shape (n,), to the bit the same wherever the row is."""
    direction = np.random.default_rng(0xD1CE).uniform(0.5, 1.0, X.shape[1])
    with np.errstate(over="ignore", invalid="ignore"):
        if sparse.issparse(X):
            row = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
            return np.bincount(row, X.data * direction[X.indices], X.shape[0]).astype(np.float64, copy=False)
        total = np.zeros(X.shape[0])
        for feature in range(X.shape[1]):
            total += X[:, feature] * direction[feature]
        return total


def _rounded(values: Array) -> Array:
    """Return the values to 5 digits, so that rounding errors almost never change them."""
    mantissa, exponent = np.frexp(values)
    with np.errstate(over="ignore"):
        return np.ldexp(np.round(mantissa * 2.0**POLICY.kept_bits) / 2.0**POLICY.kept_bits, exponent)


def _row_hashes(X: Features) -> NDArray[np.uint64]:
    """Return sum over features of mix(value) * odd constant modulo 2**64, shape (n,); zeros add nothing."""
    odd = np.random.default_rng(0x5EED).integers(0, 2**64, size=X.shape[1], dtype=np.uint64) | np.uint64(1)
    if sparse.issparse(X):
        total = np.concatenate([np.zeros(1, np.uint64), np.cumsum(_mix(X.data) * odd[X.indices], dtype=np.uint64)])
        return np.asarray(total[X.indptr[1:]] - total[X.indptr[:-1]])
    hashes = np.zeros(X.shape[0], dtype=np.uint64)
    for feature in range(X.shape[1]):
        hashes += _mix(X[:, feature]) * odd[feature]
    return hashes


def _mix(values: Array) -> NDArray[np.uint64]:
    """Return the mixed bits of floats, shape (n,); zeros are 0."""
    return mixed((values + 0.0).view(np.uint64))  # the sum turns -0.0 into 0.0


def _same(X: Features, representative: IntArray) -> bool:
    """Return whether every row equals its representative."""
    moved = np.flatnonzero(representative != np.arange(X.shape[0]))
    if sparse.issparse(X):
        return bool((X[moved] != X[representative[moved]]).nnz == 0)
    return bool(np.array_equal(X[moved], X[representative[moved]]))


def _row_bytes(X: Features) -> AnyArray:
    dense = [X[[row]].toarray() if sparse.issparse(X) else X[row] for row in range(X.shape[0])]
    return np.array([bytes(np.ascontiguousarray(values + 0.0).data).hex() for values in dense])


def canonical(X: Features) -> Features:
    """Return a sparse table with duplicate entries summed and without explicit zeros, a copy if need be."""
    if isinstance(X, np.ndarray) or (X.has_canonical_format and np.all(X.data)):
        return X
    X = X.copy()
    X.sum_duplicates()
    X.eliminate_zeros()
    return X


def stack(a: Features, b: Features) -> Features:
    """Return the rows of both tables."""
    return (
        np.vstack([a, b]) if isinstance(a, np.ndarray) and isinstance(b, np.ndarray) else sparse.vstack([a, b], "csr")
    )


def same_rows(a: Features, b: Features) -> bool:
    """Return whether two tables of distinct rows hold the same rows, in any order."""
    return a.shape == b.shape and bool(unique_rows(stack(a, b))[0].size == a.shape[0])
