"""Parquet files and datasets of pyarrow: their columns, and tables of some rows at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from skpref._text import nearest
from skpref._typing import AnyArray
from skpref._warn import importing
from skpref.data.ids import shorten
from skpref.data.policy import POLICY
from skpref.exceptions import DataError

_ARROW = "pyarrow._dataset", "pyarrow.lib.RecordBatchReader"  # homes of what is no table in memory


def is_stored(X: Any) -> bool:  # anything
    """Tell whether X is a path to Parquet files or a dataset of pyarrow, or is read as one but once."""
    if isinstance(X, str) or hasattr(X, "__fspath__"):
        return True
    return any(f"{base.__module__}.{base.__name__}".startswith(_ARROW) for base in type(X).__mro__)


def open_dataset(X: Any) -> Any:  # a path or a dataset of pyarrow
    """Return the dataset of a path to a Parquet file or a folder of them."""
    path = Path(X) if isinstance(X, str) or hasattr(X, "__fspath__") else None
    if path is not None and ".csv" in path.suffixes and path.suffix not in {".parquet", ".pq"} and not path.is_dir():
        raise DataError(f"X is {shorten(str(X))}, which is no Parquet file: read it by pandas.read_csv, pass the frame")
    with importing("Parquet files need pyarrow: pip install 'skpref[frames]'"):
        from pyarrow import dataset
    if path is None and not isinstance(X, dataset.Dataset):
        what = f"X is a {type(X).__name__} of pyarrow, which can be read only once"
        files = "write it to files by pyarrow.dataset.write_dataset(X, 'rows', format='parquet') and pass 'rows'"
        raise DataError(f"{what}: pass its dataset, filtered if need be, or {files}")
    if path is None:
        return X
    try:
        folders = "hive" if path.is_dir() else None  # such as day=2026-01-31, which are values of a column
        stored = dataset.dataset(X, format="parquet", partitioning=folders)
    except (OSError, ValueError) as error:
        reason = f"{X} does not exist" if isinstance(error, FileNotFoundError) else error
        raise DataError(f"X is {shorten(str(X))}, which is no Parquet file and no folder of them: {reason}") from error
    if not stored.files:
        raise DataError(f"X is {shorten(str(X))}, a folder without Parquet files")
    return stored


def refuse_too_many(n_rows: int, what: str) -> None:
    """Refuse to bring many rows into memory."""
    if n_rows > POLICY.most_stored:
        raise DataError(
            f"X has {n_rows} rows; {what} of files or a cluster are brought into memory, at most {POLICY.most_stored}: "
            "fit to a part of the rows"
        )


def whole_table(table: Any) -> Any:
    """Return the rows of Parquet files or a dataset of pyarrow as a frame of pandas; other tables as they are."""
    if not is_stored(table):
        return table
    dataset = open_dataset(table)
    import pyarrow as pa

    refuse_too_many(dataset.count_rows(), "tables")
    parts = list(read_tables(dataset, stored_names(dataset)))
    return pa.concat_tables(parts or [dataset.schema.empty_table()]).to_pandas()


def check_names(names: list[str], columns: Mapping[str, Any]) -> None:
    """Refuse what is no name of a column of X, which is not in memory; the keys are what the columns are."""
    for parameter, name in columns.items():
        if name is not None and not isinstance(name, str):
            kind = type(name).__name__
            what = f"{parameter} must be the name of a column of X, which is not in memory; got {kind}"
            advice = "; from_choices and from_rankings take a path, too, and read answers of several columns"
            raise DataError(what + advice * (parameter == "y" and kind == "list"))
        if name is not None and name not in names:
            listed = ", ".join(map(str, names[:20]))
            hint = f"name it by {parameter}={nearest(name, names)}"
            raise DataError(f"there is no column {name!r} in X, which has the columns {listed}; {hint}")


def stored_names(dataset: Any) -> list[str]:  # of pyarrow
    """Return the names of the columns of a dataset, without the index that pandas has stored."""
    index = (dataset.schema.pandas_metadata or {}).get("index_columns", [])
    return [name for name in dataset.schema.names if name not in index]


def located(error: ValueError, place: str) -> DataError:
    """Return an error that says in which shard it was."""
    kind = type(error) if isinstance(error, DataError) else DataError
    return kind(f"{error} ({place})")


def column_values(column: Any) -> AnyArray:  # of any table
    """Return a column as an array."""
    if hasattr(column, "combine_chunks"):  # of pyarrow
        column = column.combine_chunks().to_numpy(zero_copy_only=False)
    return np.asarray(column)


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
    schema, fragments = dataset.schema, _fragments(dataset)
    for place, field in enumerate(dataset.schema):
        if field.name not in names:
            continue
        kind = _type_in_all(field, _unfiltered(dataset) if fragments is None else fragments)
        if fragments is None and kind != field.type:  # pyarrow reads filtered files with the types of the first one
            types = f"{kind} in some files and {field.type} in the first one"
            advice = f"state the type {kind} before you filter, by schema= of pyarrow.dataset.dataset"
            raise DataError(f"column {field.name!r} of X, a filtered dataset, holds {types}: {advice}")
        schema = schema.set(place, field.with_type(kind))
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


def _type_in_all(field: Any, fragments: list[Any]) -> Any:  # of pyarrow
    """Return the type that holds a column of all files; refuse a column of which there is none."""
    files: dict[Any, str] = {}  # by the type of the column: the first file that has it
    for number, fragment in enumerate(fragments):
        own = fragment.physical_schema
        if field.name in own.names:
            files.setdefault(own.field(field.name).type, getattr(fragment, "path", f"part {number}"))
    first = next(iter(files), None)
    shared = field.type
    for other in (
        files if first == shared else ()
    ):  # pyarrow takes the first file's type unless the caller stated another
        wider = _shared_type(shared, other)
        if wider is None:
            types = f"{first} in {files[first]}, and {other} in {files[other]}"
            raise DataError(f"column {field.name!r} of X holds {types}: write it with one type, as by cast of pyarrow")
        shared = wider
    return shared


def _shared_type(first: Any, second: Any) -> Any:  # of pyarrow
    """Return the type that holds the values of both as they are, or None."""
    if first == second:
        return first
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


def read_tables(dataset: Any, names: list[str], group: str | None = None) -> Iterator[Any]:  # of pyarrow
    """Yield tables of about a million rows with some columns; with a column of groups, tables of whole groups."""
    tables = _tables(dataset, list(dict.fromkeys(names)), POLICY.batch_rows)
    return tables if group is None else _whole_groups(tables, group)


def _tables(dataset: Any, names: list[str], rows: int) -> Iterator[Any]:  # of pyarrow
    import pyarrow as pa

    parts, size = [], 0
    try:
        for batch in _batches(dataset, names, rows):
            parts.append(batch)
            size += len(batch)
            if size >= rows:
                yield pa.Table.from_batches(parts)
                parts, size = [], 0
    except (pa.ArrowException, OSError) as error:
        advice = "all files must be Parquet, and their values must fit into one type of each column"
        raise DataError(f"X cannot be read: {error}; {advice}") from error
    if size:
        yield pa.Table.from_batches(parts)


def _whole_groups(tables: Iterator[Any], group: str) -> Iterator[Any]:
    """Yield tables that end where a group ends: rows of a table's last group belong to the next one."""
    import pyarrow as pa

    rest = None
    for table in tables:
        whole = table if rest is None else pa.concat_tables([rest, table])
        values = column_values(whole[group])
        others = np.flatnonzero(values != values[-1])
        end = int(others[-1]) + 1 if others.size else 0
        if end:
            yield whole.slice(0, end)
        rest = whole.slice(end)
    if rest is not None:
        yield rest
