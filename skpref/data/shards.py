"""Comparisons in shards: what is read of each shard where it is, and what all shards must agree on."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from skpref._checks import check_arrays, check_positive
from skpref.data.comparisons import Comparisons, from_labels
from skpref.data.ids import as_ids, objects, shorten
from skpref.data.labels import classes_of
from skpref.data.vocabulary import Vocabulary
from skpref.exceptions import DataError, MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from numpy.typing import NDArray

    from skpref._typing import Array, IntArray
    from skpref.data.comparisons import OnSelf
    from skpref.data.ids import IdColumn

_SHARD_ROWS = 1_000_000  # of a shard on disk, of which reading takes 400 MB


class ShardColumns(NamedTuple):
    """Names of the columns of comparisons; None where there is none."""

    left: str
    right: str
    y: str | None
    weight: str | None
    user: str | None = None


class ShardOptions(NamedTuple):
    """How the comparisons of a shard are read and merged."""

    on_self: OnSelf
    keep_order: bool
    keep_ties: bool


class ShardSummary(NamedTuple):
    """What all must know of a shard."""

    ids: IdColumn  # distinct ids of its rows
    used: IntArray  # those, by number, that occur in a comparison of positive weight
    component: IntArray  # connected component of each of them
    weight: Array  # total weight of the comparisons of each of them
    n_pairs: int  # merged comparisons
    labels: tuple[float, float] | None  # least and greatest label of positive weight; None without any
    classes: NDArray[Any] | None  # the two sides as the labels write them; None without rows
    users: IdColumn | None = None  # distinct ids of the users
    pairs_of_user: IntArray | None = None  # (n_users,): merged comparisons of each


@dataclass(frozen=True, eq=False)
class ComparisonCounts:
    """What is left of comparisons that were in shards: how often each item was compared."""

    weight: Array  # (n_items,): total weights

    def validate(self) -> None:
        """Raise DataError unless there is a weight of each item."""
        check_arrays(self, weight="N")
        check_positive(self, "weight", zero=True)

    @property
    def n_items(self) -> int:
        """Number of items."""
        return int(self.weight.size)

    def counts(self) -> Array:
        """Return the total weight of the comparisons of each item, shape (n_items,)."""
        return self.weight


def read_shard(
    left: Any,  # array-likes
    right: Any,
    y: Any,
    weight: Any,
    options: ShardOptions,
    user: Any = None,
) -> tuple[ShardSummary, Comparisons]:
    """Return the summary of a shard and its merged comparisons, by the numbers of `used`."""
    left, right = as_ids(left, "the left items"), as_ids(right, "the right items")
    users = user_rows = None
    if user is not None:
        user = as_ids(user, "the users", kind="user")
        users = Vocabulary.from_columns(user)
        user_rows = users.encode(user, kind="user")
    vocabulary = Vocabulary.from_columns(left, right)
    rows = from_labels(
        vocabulary.encode(left),
        vocabulary.encode(right),
        y,
        vocabulary.size,
        sample_weight=weight,
        on_self=options.on_self,
        names=vocabulary.ids,
        user=user_rows,
        n_users=0 if users is None else users.size,
    )
    labels = rows.y[rows.weight > 0.0]
    merged, used = rows.merged(keep_order=options.keep_order, keep_ties=options.keep_ties).compact()
    summary = ShardSummary(
        vocabulary.ids,
        used,
        merged.components()[1][: used.size],
        merged.counts()[: used.size],
        merged.n_pairs,
        (float(labels.min()), float(labels.max())) if labels.size else None,
        classes_of(y) if left.size else None,
        None if users is None else users.ids,
        None if users is None else np.bincount(np.asarray(merged.user), minlength=users.size),
    )
    return summary, merged


def with_shared_ids(summary: Any, ids: dict[Any, Any]) -> Any:  # a summary of a shard
    """Return a summary whose strings are those of `ids`, to which new ones are added: shards share most of them."""
    return type(summary)(*(_shared(value, ids) for value in summary))


def _shared(value: Any, ids: dict[Any, Any]) -> Any:  # a field of a summary
    if isinstance(value, list):
        return [_shared(column, ids) for column in value]
    if not isinstance(value, np.ndarray) or value.dtype != object:
        return value
    return objects([ids.setdefault(one, one) for one in value.tolist()])


def without_repeats(columns: list[IdColumn]) -> list[IdColumn]:
    """Return one column of the distinct ids, where all are objects; shards share most of them."""
    if any(column.dtype != object for column in columns):
        return columns
    return [objects(list(dict.fromkeys(chain.from_iterable(column.tolist() for column in columns))))]


def check_classes(classes: list[NDArray[Any]]) -> NDArray[Any]:
    """Return the two sides as the labels of all shards write them."""
    first = classes[0]
    other = next((c for c in classes if c.tolist() != first.tolist() or c.dtype.kind != first.dtype.kind), None)
    if other is not None:
        raise DataError(
            f"y holds {first.tolist()} in one shard and {other.tolist()} in another: write the labels of all of them "
            "in the same way"
        )
    return first


# ------------------------------------------------------------------------------------------------------------ datasets
def is_stored(X: Any) -> bool:  # anything
    """Tell whether X is a path to Parquet files or a dataset of pyarrow."""
    if isinstance(X, str) or hasattr(X, "__fspath__"):
        return True
    return any(base.__module__.startswith("pyarrow._dataset") for base in type(X).__mro__)


def open_dataset(X: Any) -> Any:  # a path or a dataset of pyarrow
    """Return the dataset of a path to a Parquet file or a folder of them."""
    try:
        from pyarrow import dataset
    except ImportError as error:
        raise MissingExtraError("Parquet files need pyarrow: pip install 'skpref[frames]'") from error
    if isinstance(X, dataset.Scanner):
        raise DataError("X is a Scanner of pyarrow, which can be read only once: pass its dataset, filtered if need be")
    if not (isinstance(X, str) or hasattr(X, "__fspath__")):
        return X
    try:
        folders = "hive" if Path(X).is_dir() else None  # such as day=2026-01-31, which are values of a column
        stored = dataset.dataset(X, format="parquet", partitioning=folders)
    except (OSError, ValueError) as error:
        reason = f"{X} does not exist" if isinstance(error, FileNotFoundError) else error
        if ".csv" in Path(X).suffixes:
            reason = "read a CSV file by pandas.read_csv and pass the frame, or write it by its to_parquet"
        raise DataError(f"X is {shorten(str(X))}, which is no Parquet file and no folder of them: {reason}") from error
    if not stored.files:
        raise DataError(f"X is {shorten(str(X))}, a folder without Parquet files")
    return stored


def check_names(names: list[str], columns: Mapping[str, Any]) -> None:
    """Refuse what is no name of a column of X, which is not in memory; the keys are what the columns are."""
    for parameter, name in columns.items():
        if name is not None and not isinstance(name, str):
            kind = type(name).__name__
            raise DataError(f"{parameter} must be the name of a column of X, which is not in memory; got {kind}")
        if name is not None and name not in names:
            listed = ", ".join(map(str, names[:20]))
            raise DataError(
                f"there is no column {name!r} in X, which has the columns {listed}; name it by {parameter}="
            )


def dataset_columns(names: list[str], columns: ShardColumns, *, labels_are_named: bool) -> ShardColumns:
    """Return the columns that a dataset has; labels may be missing unless they were asked for by name."""
    check_names(names, columns._asdict() | ({} if labels_are_named else {"y": None}))
    return columns if columns.y in names else columns._replace(y=None)


def dataset_shards(dataset: Any, columns: ShardColumns, options: ShardOptions) -> Iterator[Any]:
    """Return an iterator over summary and comparisons of runs of about a million rows of a dataset of pyarrow."""

    def read(table: Any, _: int) -> Any:  # of pyarrow
        y, weight = (None if name is None else column_values(table[name]) for name in (columns.y, columns.weight))
        user = None if columns.user is None else table[columns.user]
        return read_shard(table[columns.left], table[columns.right], y, weight, options, user)

    return read_runs(dataset, columns, read)


def read_runs(dataset: Any, columns: Iterable[str | None], read: Callable[[Any, int], Any]) -> Iterator[Any]:
    """Yield what is read of runs of about a million rows of a dataset and the number of their first row."""
    start = 0
    for table in runs_of_rows(dataset, [name for name in columns if name is not None]):
        try:
            yield read(table, start)
        except ValueError as error:
            raise located(error, f"rows {start} to {start + len(table) - 1} of X") from error
        start += len(table)


def feature_columns(names: list[str], y: Any, weight: Any) -> list[str]:  # checked here
    """Return the names of the columns other than those of targets and weights."""
    check_names(names, {"y": y, "sample_weight": weight})
    features = [name for name in names if name not in {y, weight}]
    if not features:
        raise DataError(f"X has no columns of features, only the named ones: {', '.join(map(str, names[:20]))}")
    return features


def stored_names(dataset: Any) -> list[str]:  # of pyarrow
    """Return the names of the columns of a dataset, without the index that pandas has stored."""
    index = (dataset.schema.pandas_metadata or {}).get("index_columns", [])
    return [name for name in dataset.schema.names if name not in index]


def dataset_rows(
    dataset: Any,  # of pyarrow
    y: str,
    weight: str | None,
    batch_rows: int | None = None,
    group: str | None = None,
) -> Iterator[tuple[Any, NDArray[Any], NDArray[Any] | None, int]]:
    """Yield features as a data frame, targets, weights and the number of the first row, of runs of whole groups."""
    start = 0
    runs = _runs(dataset, stored_names(dataset), batch_rows or _SHARD_ROWS)
    for table in runs if group is None else _whole_groups(runs, group):
        features = table.drop_columns([name for name in (y, weight) if name is not None])
        yield (
            features.to_pandas(),
            column_values(table[y]),
            None if weight is None else column_values(table[weight]),
            start,
        )
        start += len(table)


def located(error: ValueError, place: str) -> DataError:
    """Return an error that says in which shard it was."""
    kind = type(error) if isinstance(error, DataError) else DataError
    return kind(f"{error} ({place})")


def column_values(column: Any) -> NDArray[Any]:  # of pyarrow
    """Return a column of a table of pyarrow as an array."""
    return np.asarray(column.combine_chunks().to_numpy(zero_copy_only=False))


def _batches(dataset: Any, columns: list[str], size: int) -> Iterator[Any]:  # of pyarrow
    """Yield record batches of a dataset, one row group after the other.

    A scan of all files would decode up to 1 GiB ahead of slow readers.
    """
    options = {"columns": columns, "batch_size": size, "batch_readahead": 1, "fragment_readahead": 1}
    schema = shared_schema(dataset, columns)
    fragments = _fragments(dataset)
    if fragments is None:
        yield from dataset.to_batches(**options)
        return
    for fragment in fragments:
        parts = fragment.split_by_row_group() if hasattr(fragment, "split_by_row_group") else [fragment]
        for part in parts:
            yield from part.to_batches(schema=schema, **options)


def shared_schema(dataset: Any, names: list[str]) -> Any:  # of pyarrow
    """Return the schema of a dataset with the types that hold some columns of all its files."""
    fragments = _fragments(dataset)
    schema = _shared_schema(dataset.schema, _unfiltered(dataset) if fragments is None else fragments, names)
    wider = [field for field, own in zip(schema, dataset.schema, strict=True) if field.type != own.type]
    if fragments is None and wider:  # pyarrow reads filtered files with the types of the first one
        raise DataError(
            f"column {wider[0].name!r} of X, a filtered dataset, holds {wider[0].type} in some files and "
            f"{dataset.schema.field(wider[0].name).type} in the first one: state the type {wider[0].type} of this "
            "column before you filter, by schema= of pyarrow.dataset.dataset"
        )
    return schema


def _fragments(dataset: Any) -> list[Any] | None:  # of pyarrow
    """Return the files of a dataset; None if it is filtered."""
    try:
        return list(dataset.get_fragments())
    except ValueError:
        return None


def _unfiltered(dataset: Any) -> list[Any]:  # of pyarrow
    """Return the files of a filtered dataset, all rows of them."""
    children = getattr(dataset, "children", ())
    own = [dataset.format.make_fragment(path, dataset.filesystem) for path in getattr(dataset, "files", ())]
    return [*own, *chain.from_iterable(map(_unfiltered, children))]


def _shared_schema(schema: Any, fragments: list[Any], names: list[str]) -> Any:  # of pyarrow
    """Return a schema with the types that hold a column of all files; refuse a column of which there is none."""
    for place, field in enumerate(schema):
        if field.name not in names:
            continue
        files: dict[Any, str] = {}  # by the type of the column: the first file that has it
        for number, fragment in enumerate(fragments):
            if field.name in fragment.physical_schema.names:
                files.setdefault(
                    fragment.physical_schema.field(field.name).type, getattr(fragment, "path", f"part {number}")
                )
        types = list(files)
        if not types or types[0] != field.type:  # pyarrow takes the first file's type unless the caller stated another
            continue
        shared = types[0]
        for other in types[1:]:
            wider = _shared_type(shared, other)
            if wider is None:
                raise DataError(
                    f"column {field.name!r} of X holds {types[0]} in {files[types[0]]}, and {other} in {files[other]}: "
                    "write all files with one type of this column, such as by astype of pandas or cast of pyarrow"
                )
            shared = wider
        if len(types) > 1:
            schema = schema.set(place, field.with_type(shared))
    return schema


def _shared_type(first: Any, second: Any) -> Any:  # of pyarrow
    """Return the type that holds the values of both as they are, or None."""
    import pyarrow as pa

    kinds = [first, second]
    plain = [kind.value_type if pa.types.is_dictionary(kind) else kind for kind in kinds]
    tests = (
        lambda kind: pa.types.is_integer(kind) or pa.types.is_floating(kind),
        lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind),
        pa.types.is_timestamp,
    )
    if not any(map(pa.types.is_null, plain)) and not any(all(map(test, plain)) for test in tests):
        return None
    ordered = all(pa.types.is_dictionary(kind) and kind.ordered for kind in kinds)
    try:
        columns = [pa.schema([("", kind)]) for kind in (kinds if ordered else plain)]
        return pa.unify_schemas(columns, promote_options="permissive").field(0).type
    except pa.ArrowTypeError:  # of times with a zone and without
        return None


def _whole_groups(runs: Iterator[Any], group: str) -> Iterator[Any]:
    """Yield runs that end where a group ends: rows of a run's last group belong to the next one."""
    import pyarrow as pa

    rest = None
    for run in runs:
        table = run if rest is None else pa.concat_tables([rest, run])
        values = column_values(table[group])
        others = np.flatnonzero(values != values[-1])
        end = int(others[-1]) + 1 if others.size else 0
        if end:
            yield table.slice(0, end)
        rest = table.slice(end)
    if rest is not None:
        yield rest


def runs_of_rows(dataset: Any, names: list[str]) -> Iterator[Any]:  # of pyarrow
    """Yield tables of pyarrow with some columns, of about a million rows each."""
    return _runs(dataset, names, _SHARD_ROWS)


def _runs(dataset: Any, names: list[str], size_of_run: int) -> Iterator[Any]:  # of pyarrow
    import pyarrow as pa

    parts, size = [], 0
    try:
        for batch in _batches(dataset, list(dict.fromkeys(names)), size_of_run):
            parts.append(batch)
            size += len(batch)
            if size >= size_of_run:
                yield pa.Table.from_batches(parts)
                parts, size = [], 0
    except (pa.ArrowException, OSError) as error:
        advice = "all files must be Parquet, and their values must fit into one type of each column"
        raise DataError(f"X cannot be read: {error}; {advice}") from error
    if size:
        yield pa.Table.from_batches(parts)
