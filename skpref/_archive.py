"""Files as bytes: skops archives of models and checkpoints of chains, checked in full before anything is built.

The archive is a zip, not compressed, of ``schema.json``, a tree of typed nodes, and of the ``.npy`` members that its
nodes name. skops checks the types in the tree against a list; what is checked here beside are the kind and size of the
file, the names and sizes of the members, the headers of arrays, and that no node is of another kind than our models
have. `skpref.persistence` says which types these are.
"""

from __future__ import annotations

import errno
import io
import json
import math
import os
import re
import secrets
import stat
import struct
import zipfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from skpref.exceptions import DataError, ModelFormatError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import BinaryIO

    from numpy.typing import NDArray

MAX_BYTES = (1 << 31) - (1 << 20)  # size of a file without zip64, which is refused
MAX_MEMBERS = 10_000  # arrays of a model: some 100, and one for each sample and category
MAX_SCHEMA = 64 << 20  # bytes of schema.json: a vocabulary of 100,000 words takes 30 MB
MAX_TOKENS = 2_000_000  # brackets and commas in schema.json, which bound the memory for parsing
_MAX_HEADER = 1024  # bytes of an array's header
_MAX_LENGTH = 1 << 31  # length of an axis
_MAX_DEPTH = 100  # levels of the tree
_OLDEST_PROTOCOL = 2  # oldest protocol of skops that is read
_SCHEMA = "schema.json"
_MEMBER = re.compile(r"[0-9]{1,6}\.(npy|npz|bin)")
_CSR_PARTS = {"data.npy", "format.npy", "indices.npy", "indptr.npy", "shape.npy", "_is_array.npy"}
_END = struct.Struct("<4s4H2LH")  # end of a zip's central directory


def require(condition: object, where: str, text: str) -> None:
    """Raise a ModelFormatError about a place in the file unless a condition holds."""
    if not condition:
        raise ModelFormatError(f"{where}: {text}")


# --------------------------------------------------------------------------------------------------------------- write
def renumbered(buffer: io.BytesIO, stamp: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return schema and members of a skops archive, addresses in memory replaced by numbers: equal models, equal files.

    Sparse matrices are stored without compression, so that the size of a file bounds what it unpacks to.
    """
    nodes: dict[int, dict[str, Any]] = {}
    members: dict[str, bytes] = {}

    def visit(node: Any) -> None:  # noqa: ANN401 - whatever JSON holds
        if isinstance(node, list):
            for item in node:
                visit(item)
        if not isinstance(node, dict):
            return
        if isinstance(node.get("__id__"), int):  # else it is a key of the user's
            if node["__loader__"] in {"JsonNode", "TypeNode"}:
                del node["__id__"]
            elif node["__id__"] in nodes:  # what an object says of itself may be made anew each time
                first = nodes[node["__id__"]]
                node.clear()
                node.update(first)
                return
            else:
                nodes[node["__id__"]] = node
                node["__id__"] = len(nodes)
        if isinstance(node.get("file"), str):
            old = node["file"]
            node["file"] = new = f"{len(members)}{Path(old).suffix}"
            members[new] = _unpacked(archive.read(old)) if old.endswith(".npz") else archive.read(old)
        for child in node.values():
            visit(child)

    with zipfile.ZipFile(buffer) as archive:
        schema = json.loads(archive.read(_SCHEMA))
        visit(schema)
    schema["skpref"] = dict(stamp)
    return schema, members


def _unpacked(content: bytes) -> bytes:
    """Return a zip archive with its members uncompressed."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(buffer, "w") as new:
        for name in old.namelist():
            new.writestr(zipfile.ZipInfo(name), old.read(name))
    return buffer.getvalue()


def write_archive(path: Path, schema: dict[str, Any], members: dict[str, bytes]) -> None:
    """Write the archive next to its final name, then rename it."""
    text = json.dumps(schema, separators=(",", ":")).encode()
    total = len(text) + sum(map(len, members.values()))
    if total > MAX_BYTES:
        raise DataError(f"cannot save {path.name}: the model takes {total / 2**30:.1f} GiB, a file holds 2 GiB at most")
    if len(members) > MAX_MEMBERS or len(text) > MAX_SCHEMA or _n_tokens(text) > MAX_TOKENS:
        raise DataError(f"cannot save {path.name}: {len(members)} arrays and {len(text)} bytes of names are too many")
    with replacing(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=False) as archive:
        for name, content in {_SCHEMA: text, **members}.items():
            archive.writestr(zipfile.ZipInfo(name), content)  # a fixed date


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Open a file next to a path, which takes its place once it is complete; errors name the path."""
    if not path.parent.exists():
        raise FileNotFoundError(errno.ENOENT, "no such folder; make it first", str(path.parent))
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(6)}.tmp")
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error
    finally:
        temporary.unlink(missing_ok=True)


def remove_leftovers(path: Path) -> None:
    """Remove the files that killed processes left next to a path when they were replacing it."""
    name = re.compile(re.escape(f".{path.name}.") + r"([0-9]{1,9})-[0-9a-f]{12}\.tmp")
    with suppress(OSError):
        for file in path.parent.iterdir():
            # A container starts its processes with the same numbers: one of our own number is an earlier process's.
            if (match := name.fullmatch(file.name)) and (int(match[1]) == os.getpid() or not _runs(int(match[1]))):
                file.unlink(missing_ok=True)


def _runs(process: int) -> bool:
    if os.name != "posix":  # where files in use cannot be removed
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # of another user
        return True
    return True


# ---------------------------------------------------------------------------------------------------------------- read
def _open_nonblocking(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def read_file(path: Path, kind: str = "model") -> bytes:
    """Return the content of a regular file of allowed size; a pipe is not waited for."""
    if path.exists() and not stat.S_ISREG(path.stat().st_mode):
        raise ModelFormatError(f"{path.name}: not a skpref {kind}: it is no regular file")
    with open(path, "rb", opener=_open_nonblocking) as file:
        size = os.fstat(file.fileno()).st_size
        if size > MAX_BYTES + MAX_SCHEMA:
            raise ModelFormatError(f"{path.name}: not a skpref {kind}: {size} bytes, more than the format allows")
        return file.read(size + 1)


def open_zip(content: bytes, kind: str = "model", max_members: int = MAX_MEMBERS) -> dict[str, bytes]:
    """Return the members of a zip whose directory is sound: stored, numbered, none twice, no more than allowed."""
    end = content[-_END.size :]
    if len(end) != _END.size or end[:4] != b"PK\x05\x06":
        raise ModelFormatError(f"not a skpref {kind}: it is not a zip archive, or is truncated")
    _, disk, first, here, entries, size, offset, comment = _END.unpack(end)
    if disk or first or comment or here != entries or offset + size + _END.size != len(content):
        raise ModelFormatError("zip directory: damaged")
    if entries > max_members + 1:
        raise ModelFormatError(f"zip directory: {entries} members; a {kind} has {max_members} at most")
    members: dict[str, bytes] = {}
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        infos = archive.infolist()
        for info in infos:
            name = info.filename
            if name == "manifest.json":
                raise ModelFormatError("written by format 1, which this version does not read. Fit and save again")
            if name not in {_SCHEMA, *_CSR_PARTS} and not _MEMBER.fullmatch(name):
                raise ModelFormatError(f"{name[:80]!r}: not a name that a member of a {kind} can have")
            if name in members:
                raise ModelFormatError(f"{name}: occurs twice")
            if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size or info.flag_bits & 1:
                raise ModelFormatError(f"{name}: compressed or encrypted; members are stored as they are")
            members[name] = b""
        if sum(info.file_size for info in infos) > len(content):
            raise ModelFormatError("zip directory: members overlap")
        members = {info.filename: archive.read(info) for info in infos}  # compares the checksums
    return members


def _n_tokens(text: bytes) -> int:
    """Brackets and commas in a JSON text, also inside strings."""
    return sum(map(text.count, (b"[", b"{", b",")))


def read_schema(members: dict[str, bytes], newest: int, kind: str = "model") -> dict[str, Any]:
    """Take the tree out of the members, once its size, origin and format are checked."""
    text = members.pop(_SCHEMA, b"")
    if not 0 < len(text) <= MAX_SCHEMA or _n_tokens(text) > MAX_TOKENS:
        raise ModelFormatError(f"{_SCHEMA}: {len(text)} bytes, not what a {kind} takes")
    schema = json.loads(text)
    written = schema.get("skpref") if isinstance(schema, dict) else None
    if not isinstance(written, dict) or type(written.get("format")) is not int:
        raise ModelFormatError(f"{_SCHEMA}: not that of a skpref {kind}")
    if written["format"] > newest:
        raise ModelFormatError(
            f"written by format {written['format']}; this version reads up to {newest}. Install a newer skpref"
        )
    return schema


def check_schema(
    schema: dict[str, Any],
    members: Mapping[str, bytes],
    types: Mapping[str, Iterable[str]],
    parts_of: Callable[[str], list[str] | None],
) -> set[str]:
    """Check every node and its member, types by kind of node, all parts of records; return the types that occur."""
    used: set[tuple[str, str]] = set()
    occurring: set[str] = set()
    by_id: dict[int, Any] = {}

    def check(node: dict[str, Any], path: str, depth: int = 0) -> None:
        kind, name = node["__loader__"], f"{node['__module__']}.{node['__class__']}"
        where = path or "estimator"
        require(depth <= _MAX_DEPTH, where, f"nested more than {_MAX_DEPTH} deep")
        require(name in types.get(kind, ()), where, f"{name:.120} is not among the types that a model file holds")
        occurring.add(name)
        # Parts of one number become one object; being equal, none of them can contain itself.
        same = node.get("__id__") is None or by_id.setdefault(node["__id__"], node) == node
        require(same, where, "has the number of another part")
        if "file" in node:
            require(node["file"] in members, where, f"refers to the member {node['file']!r:.80}, which is not there")
            if (name, node["file"]) not in used:
                used.add((name, node["file"]))
                _check_member(kind, node["file"], members[node["file"]])
                if kind == "NdArrayNode" and node["__class__"] != "ndarray":
                    require(b"'shape': ()" in members[node["file"]][:_MAX_HEADER], where, "must be a single number")
        for key, child in _children(node, kind, parts_of(name), where):
            check(child, f"{path}.{key}".strip("."), depth + 1)

    protocol = schema["protocol"]
    require(type(protocol) is int and protocol >= _OLDEST_PROTOCOL, _SCHEMA, f"of skops protocol {protocol!r:.80}")
    check(schema, "")
    for name in sorted(members.keys() - {name for _, name in used}):
        raise ModelFormatError(f"{name}: belongs to no part of the model")
    return occurring


def _children(node: dict[str, Any], kind: str, parts: list[str] | None, where: str) -> list[tuple[Any, dict[str, Any]]]:
    """Check the entries of a node besides its type, and return the nodes that skops builds below it."""
    content = node.get("content")
    if kind == "JsonNode":
        require(not isinstance(json.loads(node["content"]), dict | list), where, "must be a plain value")
    elif kind == "DictNode":
        types = node["key_types"]
        simple = all(key["__loader__"] == "TypeNode" and key["__class__"] in {"str", "int"} for key in types["content"])
        simple = simple and types["__loader__"] == "ListNode" and len(types["content"]) == len(node["content"])
        require(simple, where, "must have keys of text or whole numbers")
        return [("", types), *node["content"].items()]
    elif kind in {"ListNode", "TupleNode", "SetNode"}:
        return list(enumerate(node["content"]))
    elif kind == "NdArrayNode" and node["type"] == "json":
        plain = all(item["__loader__"] in {"JsonNode", "BytesNode"} for item in node["content"])
        arrays = all(item["__loader__"] == "NdArrayNode" and item["type"] == "numpy" for item in node["content"])
        column = (plain or arrays) and len(node["shape"]["content"]) == 1
        require(column, where, "holds Python objects; only columns of integers, strings and bytes, or of arrays, may")
        return [*enumerate(node["content"]), ("", node["shape"])]
    elif kind == "ObjectNode" and content is not None:
        if parts is not None:
            # A list where the class has slots, nothing where it has no field.
            held = content["content"] if content["__loader__"] in {"DictNode", "ListNode"} else ()
            whole = held.keys() == set(parts) if isinstance(held, dict) else len(held) == len(parts)
            require(whole, where, f"must have exactly the parts {', '.join(parts)}")
        return [("", content)]
    elif kind == "DTypeNode":
        return [("", node["content"])]
    return []


def read_array(name: str, content: bytes) -> NDArray[Any]:
    """Return the array of a member, contiguous, its header checked."""
    _check_member("NdArrayNode", name, content)
    return np.array(np.load(io.BytesIO(content), allow_pickle=False), order="C")


def _check_member(kind: str, name: str, content: bytes) -> None:
    """Check an array's header, or the archive of a sparse matrix, before numpy allocates memory for it."""
    if kind == "SparseMatrixNode":
        parts = open_zip(content)
        require(parts.keys() <= _CSR_PARTS, name, "is no sparse matrix")
        for part, array in parts.items():
            _check_member("NdArrayNode", f"{name}/{part}", array)
        require(np.load(io.BytesIO(parts["format.npy"])).item() == b"csr", name, "is no CSR matrix")
    elif kind != "BytesNode":
        file = io.BytesIO(content)
        require(np.lib.format.read_magic(file) == (1, 0), name, "is no array of version 1.0")
        shape, _, dtype = np.lib.format.read_array_header_1_0(file, max_header_size=_MAX_HEADER)
        require(dtype.kind in "fiubSU" and dtype.itemsize, name, f"dtype {dtype} is not allowed")
        size = len(content) - file.tell()
        fits = all(0 <= n < _MAX_LENGTH for n in shape) and math.prod(shape) * dtype.itemsize == size
        require(fits, name, f"has {size} bytes, not those of shape {shape}")
