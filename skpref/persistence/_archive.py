"""The zip archive: written in one go, read with every size checked before a byte of it is trusted."""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import stat
import struct
import zipfile
from contextlib import contextmanager
from math import prod
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from skpref.exceptions import DataError, ModelFormatError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

MANIFEST = "manifest.json"
FORMAT_NAME = "skpref-model"
MAX_MEMBERS = 128  # the largest model, of a crowd with sparse features on both sides, has some 80
MAX_MANIFEST = 1 << 20  # as Python objects, 1 MiB of hostile JSON takes less than 30 MiB
_MAX_NODES = 20_000  # lists and objects in it: more of them would keep the garbage collector busy
MAX_BYTES = (1 << 31) - (1 << 20)  # below what needs zip64, which is refused
_MAX_HEADER = 1024
_MEMBER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.]{0,120}\.npy")
_KEYS = {"format", "version", "libraries", "members", "estimator"}
# Little-endian on every machine. Strings have a width in place of the question mark.
_DTYPES = {"<f8", "<f4", "<i8", "<u8", "<i4", "|u1", "|b1"}
_STRING_DTYPE = re.compile(r"<U[1-9][0-9]{0,5}")
_MAGIC = b"\x93NUMPY\x01\x00"
# A .npy header is a Python literal; read as what it is, an expression could be anything. This reads only our own.
_HEADER = re.compile(
    rb"\{'descr': '([<|\w]{3,9})', 'fortran_order': (True|False), "
    rb"'shape': \(((?:[0-9]{1,10}, ){0,2}(?:[0-9]{1,10},?)?)\), \} *\n"
)
_END = struct.Struct("<4s4H2LH")  # end of central directory


# ---------------------------------------------------------------------------------------------------------------- write
def write_archive(path: Path, manifest: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    """Write the archive beside its final name, then rename it."""
    parts = {name: _npy_parts(name, array) for name, array in arrays.items()}
    members = {name: _describe(arrays[name], *parts[name]) for name in arrays}
    whole = {"format": FORMAT_NAME, **manifest, "members": members}
    text = json.dumps(whole, allow_nan=False, ensure_ascii=True, indent=1).encode("ascii")
    _check_writable(path, text, parts)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    try:
        with temporary.open("xb") as file:
            _write_zip(file, text, parts)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _write_zip(file: BinaryIO, text: bytes, parts: dict[str, tuple[bytes, memoryview]]) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=False) as archive:
        archive.writestr(zipfile.ZipInfo(MANIFEST), text)
        for name, (header, body) in parts.items():
            with archive.open(zipfile.ZipInfo(name), "w") as member:  # a fixed date: equal models give equal files
                member.write(header)
                member.write(body)


def _check_writable(path: Path, text: bytes, parts: dict[str, tuple[bytes, memoryview]]) -> None:
    total = len(text) + sum(len(header) + body.nbytes for header, body in parts.values())
    if total > MAX_BYTES:
        raise DataError(f"cannot save {path.name}: the model takes {total / 2**30:.1f} GiB, a file holds 2 GiB at most")
    if len(parts) > MAX_MEMBERS:
        raise DataError(f"cannot save {path.name}: {len(parts)} arrays, a file holds {MAX_MEMBERS} at most")
    if len(text) > MAX_MANIFEST:
        raise DataError(f"cannot save {path.name}: its parameters take {len(text)} bytes, at most {MAX_MANIFEST} fit")
    if _n_nodes(text) > _MAX_NODES:
        raise DataError(
            f"cannot save {path.name}: its parameters have {_n_nodes(text)} parts, at most {_MAX_NODES} fit"
        )


def _npy_parts(name: str, array: NDArray[Any]) -> tuple[bytes, memoryview]:
    """Header and body of a .npy member; `array` is contiguous in C or Fortran order and little-endian."""
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise DataError(f"cannot save {name.removesuffix('.npy')}: it has NaN or infinite values")
    fortran = array.flags.f_contiguous and not array.flags.c_contiguous
    text = f"{{'descr': {array.dtype.str!r}, 'fortran_order': {fortran}, 'shape': {array.shape!r}, }}"
    text += " " * (-(len(_MAGIC) + 2 + len(text) + 1) % 64) + "\n"  # the format aligns the data to 64 bytes
    return _MAGIC + len(text).to_bytes(2, "little") + text.encode("ascii"), _bytes_of(array)


def _describe(array: NDArray[Any], header: bytes, body: memoryview) -> dict[str, Any]:
    digest = hashlib.sha256(header)
    digest.update(body)
    return {"dtype": array.dtype.str, "shape": list(array.shape), "sha256": digest.hexdigest()}


def _bytes_of(array: NDArray[Any]) -> memoryview:
    """The memory of a contiguous array, in the order in which it lies there."""
    flat = array.ravel(order="K")  # a view
    return (flat.view(np.uint8) if flat.size else np.zeros(0, np.uint8)).data


def storable(array: NDArray[Any]) -> NDArray[Any] | None:
    """Return the array as it can be stored, None if it cannot be: contiguous, little-endian, of a listed dtype."""
    array = array.astype(array.dtype.newbyteorder("<"), copy=False)
    if array.dtype.str not in _DTYPES and not _STRING_DTYPE.fullmatch(array.dtype.str):
        return None
    return array if array.flags.c_contiguous or array.flags.f_contiguous else np.ascontiguousarray(array)


# ----------------------------------------------------------------------------------------------------------------- read
@contextmanager
def _blamed_on(member: str) -> Iterator[None]:
    """Turn whatever a damaged member makes Python's readers raise into one error that names it."""
    try:
        yield
    except ModelFormatError:
        raise
    except (zipfile.BadZipFile, ValueError, EOFError, RuntimeError, NotImplementedError, struct.error) as error:
        raise ModelFormatError(f"{member}: {error}") from error
    except (RecursionError, MemoryError, SyntaxError, TypeError, KeyError) as error:
        raise ModelFormatError(f"{member}: damaged ({type(error).__name__})") from error


def read_archive(path: Path, max_version: int) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Read manifest and members."""
    with path.open("rb") as file:
        _check_end(file)
        with _blamed_on("zip directory"):
            archive = zipfile.ZipFile(file)
        with archive:
            infos = _check_directory(archive)
            manifest = _read_manifest(archive, infos, max_version)
            members = manifest["members"]
            arrays = {name: _read_member(archive, infos[name], members[name]) for name in members}
    return manifest, arrays


def _check_end(file: BinaryIO) -> None:
    """Check the end record, before `zipfile` takes its word for the number of members."""
    status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode):
        raise ModelFormatError("not a skpref model: it is no regular file")
    if status.st_size > MAX_BYTES + MAX_MANIFEST:
        raise ModelFormatError(f"not a skpref model: {status.st_size} bytes, more than the format allows")
    file.seek(max(status.st_size - _END.size, 0))
    tail = file.read()
    if len(tail) != _END.size or tail[:4] != b"PK\x05\x06":
        raise ModelFormatError("not a skpref model: it is no zip archive, or was cut off")
    _, disk, first_disk, here, entries, size, offset, comment = _END.unpack(tail)
    if disk or first_disk or comment or here != entries or offset + size + _END.size != status.st_size:
        raise ModelFormatError("zip directory: damaged")
    if entries > MAX_MEMBERS + 1 or size > 256 * (MAX_MEMBERS + 1):
        raise ModelFormatError(f"zip directory: {entries} members; a model has {MAX_MEMBERS} at most")
    file.seek(0)


def _check_directory(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    infos: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        name = info.filename
        if name != MANIFEST and not _MEMBER.fullmatch(name):
            raise ModelFormatError(f"{name[:80]!r}: not a name that a model's member can have")
        if name in infos:
            raise ModelFormatError(f"{name}: occurs twice")
        if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size or info.flag_bits & 1:
            raise ModelFormatError(f"{name}: compressed or encrypted; members are stored as they are")
        infos[name] = info
    if MANIFEST not in infos:
        raise ModelFormatError(f"{MANIFEST}: missing")
    if sum(info.file_size for info in infos.values()) > archive.start_dir:
        raise ModelFormatError("zip directory: members overlap")
    return infos


def _read_manifest(archive: zipfile.ZipFile, infos: dict[str, zipfile.ZipInfo], max_version: int) -> dict[str, Any]:
    if infos[MANIFEST].file_size > MAX_MANIFEST:
        raise ModelFormatError(f"{MANIFEST}: {infos[MANIFEST].file_size} bytes; at most {MAX_MANIFEST} are read")
    with _blamed_on(MANIFEST):
        text = archive.read(MANIFEST)
        if _n_nodes(text) > _MAX_NODES:
            raise ModelFormatError(f"{MANIFEST}: {_n_nodes(text)} lists and objects; at most {_MAX_NODES} are read")
        manifest = json.loads(text, parse_constant=_no_constant, object_pairs_hook=_no_duplicates)
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT_NAME:
        raise ModelFormatError(f"{MANIFEST}: not that of a skpref model")
    _check_version(manifest.get("version"), max_version)
    if set(manifest) != _KEYS or not isinstance(manifest["members"], dict):
        raise ModelFormatError(f"{MANIFEST}: must have exactly the keys {', '.join(sorted(_KEYS))}")
    _check_names(set(manifest["members"]), set(infos) - {MANIFEST})
    return manifest


def _n_nodes(text: bytes) -> int:
    """Lists and objects in a JSON text, at most: brackets in strings count too."""
    return text.count(b"[") + text.count(b"{")


def _check_version(version: object, newest: int) -> None:
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise ModelFormatError(f"{MANIFEST}: version {version!r:.80} is no format version")
    if version > newest:
        raise ModelFormatError(
            f"{MANIFEST}: written by format {version}; this version reads up to {newest}. Install a newer skpref"
        )


def _check_names(declared: set[str], present: set[str]) -> None:
    for name in sorted(present - declared):
        raise ModelFormatError(f"{name}: not in the manifest")
    for name in sorted(declared - present):
        raise ModelFormatError(f"{name[:80]}: in the manifest, but not in the file")


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} is not JSON")


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key occurs twice in one object")
    return found


def _read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, declared: object) -> NDArray[Any]:
    name = info.filename
    dtype, shape, sha256 = _declared(name, declared)
    with _blamed_on(name), archive.open(info) as member:
        header, found_dtype, fortran, found_shape = _read_header(member, name)
        digest = hashlib.sha256(header)
        if found_dtype != dtype.str or found_shape != shape:
            raise ModelFormatError(f"{name}: has {found_dtype} {found_shape}, the manifest says {dtype.str} {shape}")
        body = prod(shape) * dtype.itemsize
        if info.file_size != len(header) + body:
            raise ModelFormatError(f"{name}: {info.file_size} bytes in the file, its shape {shape} needs {body}")
        array = np.empty(shape, dtype, order="F" if fortran else "C")
        _fill(member, array, digest)
    if digest.hexdigest() != sha256:
        raise ModelFormatError(f"{name}: sha256 differs from the manifest's; the file is damaged")
    if dtype.kind == "f" and not np.isfinite(array).all():
        raise ModelFormatError(f"{name}: has NaN or infinite values")
    return array


def _declared(name: str, declared: object) -> tuple[np.dtype[Any], tuple[int, ...], str]:
    if not isinstance(declared, dict) or set(declared) != {"dtype", "shape", "sha256"}:
        raise ModelFormatError(f"{name}: the manifest must give dtype, shape and sha256")
    dtype, shape, sha256 = declared["dtype"], declared["shape"], declared["sha256"]
    if not isinstance(dtype, str) or (dtype not in _DTYPES and not _STRING_DTYPE.fullmatch(dtype)):
        raise ModelFormatError(f"{name}: dtype {dtype!r:.80} is not allowed")
    sizes = shape if isinstance(shape, list) and len(shape) <= 3 else [None]
    if not all(type(n) is int and 0 <= n <= MAX_BYTES for n in sizes) or not isinstance(sha256, str):
        raise ModelFormatError(f"{name}: shape {shape!r:.80} is not allowed")
    return np.dtype(dtype), tuple(sizes), sha256


def _read_header(member: Any, name: str) -> tuple[bytes, str, bool, tuple[int, ...]]:
    """The bytes of a header, and the dtype, order and shape that it tells."""
    start = member.read(10)
    if len(start) != 10 or start[:8] != _MAGIC:
        raise ModelFormatError(f"{name}: not a .npy array of version 1.0")
    length = int.from_bytes(start[8:10], "little")
    rest = member.read(length) if length <= _MAX_HEADER else b""
    found = _HEADER.fullmatch(rest)
    if found is None or len(rest) != length:
        raise ModelFormatError(f"{name}: its header is damaged, or not of numbers and text alone")
    shape = tuple(int(n) for n in re.findall(rb"[0-9]+", found[3]))
    return start + rest, found[1].decode("ascii"), found[2] == b"True", shape


def _fill(member: Any, array: NDArray[Any], digest: Any) -> None:
    buffer = _bytes_of(array)
    done = 0
    while done < buffer.nbytes:
        count = member.readinto(buffer[done : done + (1 << 20)])
        if not count:
            raise EOFError("cut off")
        digest.update(buffer[done : done + count])
        done += count
    member.read(1)  # at the end zipfile compares the checksum
