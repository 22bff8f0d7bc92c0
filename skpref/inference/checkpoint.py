"""Checkpoints: files in the container of model files, checked in full before a run resumes from them.

The members are arrays, and ``schema.json`` says which belongs to which state, with a digest of all of them.
"""

from __future__ import annotations

import errno
import hashlib
import json
import time
import zipfile
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from skpref._archive import (
    MAX_BYTES,
    open_zip,
    read_array,
    read_file,
    read_schema,
    remove_leftovers,
    replacing,
    require,
)
from skpref._warn import warn
from skpref.exceptions import CheckpointError, CheckpointWarning

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from skpref.inference.gibbs import Chain, State

_FORMAT = 2
_STAMP = {"format": _FORMAT, "kind": "checkpoint"}
_MAX_MEMBERS = 65_000  # files in an archive: a zip has at most 65,535


@dataclass(frozen=True)
class Checkpoint:
    """File of a run's state, and how often it is saved."""

    path: Path  # the file
    key: str  # digest of the model and its data: another run's file is refused
    seconds: float = 30.0  # time between two writings


class Writer:
    """Writes chains from time to time; a failure costs a warning, not the run."""

    def __init__(self, checkpoint: Checkpoint | None) -> None:
        self._checkpoint = checkpoint
        self._written = time.perf_counter()
        self._has_warned = False

    def is_due(self) -> bool:
        """Tell whether it is time to write."""
        return self._checkpoint is not None and time.perf_counter() - self._written >= self._checkpoint.seconds

    def write(self, chains: Sequence[Chain]) -> None:
        """Write the chains if it is time to."""
        if self._checkpoint is not None and self.is_due():
            self._written = time.perf_counter()
            with self._warned_once("could not be written", "the fit continues, and an earlier checkpoint is kept"):
                write_checkpoint(self._checkpoint, chains)

    def finish(self) -> None:
        """Remove the file of a run that is complete."""
        if self._checkpoint is not None:
            with self._warned_once("could not be removed", "the fit is complete and does not need it"):
                self._checkpoint.path.unlink(missing_ok=True)

    @contextmanager
    def _warned_once(self, problem: str, outcome: str) -> Iterator[None]:
        try:
            yield
        except (OSError, MemoryError) as error:
            if not self._has_warned and self._checkpoint is not None:
                reason = getattr(error, "strerror", None) or repr(error)
                msg = f"checkpoint: {self._checkpoint.path} {problem} ({reason}); {outcome}"
                warn(msg, CheckpointWarning)
            self._has_warned = True


def write_checkpoint(checkpoint: Checkpoint, chains: Sequence[Chain]) -> None:
    """Write chains to a file atomically: an interrupted write leaves the earlier file."""
    arrays: list[NDArray[Any]] = []

    def numbered(parts: Mapping[str, Any]) -> dict[str, int]:
        arrays.extend(np.asarray(value) for value in parts.values())
        return dict(zip(parts, range(len(arrays) - len(parts), len(arrays)), strict=True))

    about = [
        {
            **{name: getattr(chain, name) for name in ("sweep", "begin", "n_averaged")},
            "state": numbered(chain.state),
            "average": None if chain.average is None else numbered(chain.average),
            "samples": [numbered(sample) for sample in chain.samples],
            "trace": numbered({name: np.array(values) for name, values in chain.trace.items()}),
        }
        for chain in chains
    ]
    if len(arrays) > _MAX_MEMBERS or sum(array.nbytes + 256 for array in arrays) > MAX_BYTES:
        raise OSError(errno.EFBIG, "the chains take more than 2 GiB", str(checkpoint.path))
    header = {"skpref": _STAMP, "key": checkpoint.key, "chains": about}
    text = json.dumps(header | {"digest": content_digest(header, arrays)}, separators=(",", ":"))
    with replacing(checkpoint.path) as file, zipfile.ZipFile(file, "w", allowZip64=False) as archive:
        archive.writestr(zipfile.ZipInfo("schema.json"), text)
        for number, array in enumerate(arrays):
            with archive.open(zipfile.ZipInfo(f"{number}.npy"), "w") as member:
                np.lib.format.write_array(member, array, version=(1, 0), allow_pickle=False)


def read_checkpoint(
    checkpoint: Checkpoint, starts: Sequence[Chain], check: Callable[[Chain, Chain], None]
) -> list[Chain] | None:
    """Return the chains of a file, each checked against its start; None if there is no file."""
    path = checkpoint.path
    if not path.parent.is_dir():
        raise CheckpointError(f"checkpoint: the folder {path.parent} does not exist; make it first")
    if path.is_dir():
        msg = f"The parameter checkpoint is the path of a file, got the folder {str(path)!r}; add a name"
        raise CheckpointError(msg)
    try:
        return _read(checkpoint, starts, check)
    except FileNotFoundError:
        return None
    except Exception as error:
        raise refusal(path, error) from error


def _read(checkpoint: Checkpoint, starts: Sequence[Chain], check: Callable[[Chain, Chain], None]) -> list[Chain]:
    remove_leftovers(checkpoint.path)
    members = open_zip(read_file(checkpoint.path, "checkpoint"), "checkpoint", _MAX_MEMBERS)
    header = read_schema(members, _FORMAT, "checkpoint")
    require(header["skpref"] == _STAMP, "header", "not that of a skpref checkpoint")
    same = header["key"] == checkpoint.key and len(header["chains"]) == len(starts)
    require(same, "header", "of a fit with other data or parameters")
    arrays = [read_array(f"{number}.npy", members[f"{number}.npy"]) for number in range(len(members))]
    require(header.pop("digest") == content_digest(header, arrays), "digest", "not that of the arrays")
    chains = [_chain(start, about, arrays) for start, about in zip(starts, header["chains"], strict=True)]
    for start, chain in zip(starts, chains, strict=True):
        check(start, chain)
    return chains


def refusal(path: Path, error: Exception) -> CheckpointError:
    """Return the error for a file from which a run cannot resume."""
    text = str(error) if isinstance(error, ValueError | OSError | zipfile.BadZipFile) else repr(error)
    return CheckpointError(
        f"checkpoint: {path} is damaged, or no checkpoint of this fit ({text:.300}). Delete the file to start afresh, "
        "or give another path"
    )


def _chain(start: Chain, about: Mapping[str, Any], arrays: Sequence[NDArray[Any]]) -> Chain:
    def part(numbers: Mapping[str, int]) -> State:
        return {name: arrays[number] for name, number in numbers.items()}

    return replace(
        start,
        **{name: about[name] for name in ("sweep", "begin", "n_averaged")},
        state=part(about["state"]),
        average=None if about["average"] is None else part(about["average"]),
        samples=tuple(part(numbers) for numbers in about["samples"]),
        trace={name: values.tolist() for name, values in part(about["trace"]).items()},
    )


def content_digest(header: Mapping[str, Any], arrays: Sequence[NDArray[Any]]) -> str:
    """Return a digest of a file's parts."""
    total = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for array in arrays:
        total.update(f"{array.dtype.str}{array.shape}".encode())
        total.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return total.hexdigest()
