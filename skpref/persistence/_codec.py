"""What a tree of JSON values plus arrays may hold, and from it to Python objects; `_encoder` writes it.

JSON's null, booleans, integers, finite floats, strings and lists stand for themselves. Every JSON object has one key
that starts with a dollar sign and says what it is:

========== =========================================================================
$float     "inf", "-inf" or "nan"
$tuple     list of its elements
$dict      object of its values, keys as they are
$array     name of a member
$floats    name of a member that is a list of floats
$ids       packed ids (`skpref.data.pack_ids`): members kind, end and text
$csr       sparse matrix: [class, shape, data, indices, indptr]
$vocabulary, $table   their parts
$record, $kernel      [class, parts by name]
$estimator            [class, parameters, fitted attributes]
$same      path of an object that came before and is the same one
========== =========================================================================
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from skpref.data import Table, Vocabulary, unpack_ids
from skpref.exceptions import DataError, ModelFormatError, SkprefError
from skpref.persistence._archive import MANIFEST
from skpref.persistence._checks import BUILDERS, CHECKS, check_csr, check_ids_match
from skpref.persistence._checks_latent import LATENT_CHECKS
from skpref.persistence._checks_machines import MACHINE_CHECKS
from skpref.persistence._checks_ratings import RATING_CHECKS
from skpref.persistence._checks_sparse import SPARSE_CHECKS
from skpref.persistence._encoder import ATTRIBUTE, CSR, Json, joined, names_of
from skpref.persistence._registry import ESTIMATORS, KERNELS, RECORDS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

_MAX_DEPTH = 40
_FLOATS = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


class Decoder:
    """Turns a tree and arrays back into an estimator, trusting neither."""

    def __init__(self, arrays: dict[str, NDArray[Any]]) -> None:
        self._arrays = arrays
        self._used: set[str] = set()
        self._seen: dict[str, Any] = {}
        self._depth = 0
        self._readers: dict[str, Callable[[Any, str], Any]] = {
            "$float": self._float,
            "$tuple": lambda body, path: tuple(self._items(body, path)),
            "$dict": self._parts,
            "$array": self._array,
            "$floats": lambda body, path: _vector(self._array(body, path), path).tolist(),
            "$ids": self._ids,
            "$csr": self._csr,
            "$vocabulary": self._vocabulary,
            "$table": self._table,
            "$record": self._record,
            "$kernel": self._kernel,
            "$estimator": self._estimator,
            "$same": self._same,
        }

    def estimator(self, tree: Json) -> Any:
        """Decode the estimator at the top of a tree."""
        if not isinstance(tree, dict) or set(tree) != {"$estimator"}:
            raise ModelFormatError(f"{MANIFEST}: holds no estimator")
        return self._estimator(tree["$estimator"], "")

    def check_all_used(self) -> None:
        """Refuse members that stand in the manifest's list but are part of nothing."""
        for name in sorted(set(self._arrays) - self._used):
            raise ModelFormatError(f"{name}: belongs to no part of the model")

    def _decode(self, tree: Json, path: str) -> Any:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise _fault(path, f"nested more than {_MAX_DEPTH} deep")
        try:
            if isinstance(tree, list):
                return self._items(tree, path)
            if not isinstance(tree, dict):
                return _finite(tree, path)
            return self._tagged(tree, path)
        finally:
            self._depth -= 1

    def _tagged(self, tree: dict[str, Json], path: str) -> Any:
        tag, body = next(iter(tree.items())) if len(tree) == 1 else ("", None)
        if tag not in self._readers:
            raise _fault(path, f"unknown kind of object {list(tree)!r:.80}")
        value = self._readers[tag](body, path)
        if tag not in {"$array", "$same"}:
            self._seen[path] = value
        return value

    def _items(self, body: Json, path: str) -> list[Any]:
        if not isinstance(body, list):
            raise _fault(path, "must be a list")
        return [self._decode(item, f"{path}.{i}") for i, item in enumerate(body)]

    def _parts(self, body: Json, path: str) -> dict[str, Any]:
        if not isinstance(body, dict):
            raise _fault(path, "must be an object of parts by name")
        return {key: self._decode(item, joined(path, key)) for key, item in body.items()}

    def _float(self, body: Json, path: str) -> float:
        if not isinstance(body, str) or body not in _FLOATS:
            raise _fault(path, f"{body!r:.80} is no float")
        return _FLOATS[body]

    def _array(self, body: Json, path: str) -> NDArray[Any]:
        if not isinstance(body, str) or body not in self._arrays:
            raise _fault(path, f"refers to the member {body!r:.80}, which is not there")
        self._used.add(body)
        return self._arrays[body]

    def _ids(self, body: Json, path: str) -> NDArray[Any]:
        parts = _exactly(body, {"kind", "end", "text"}, path)
        arrays = {key: _vector(self._array(parts[key], path), f"{path}.{key}") for key in parts}
        if arrays["end"].dtype != np.int64 or any(arrays[key].dtype != np.uint8 for key in ("kind", "text")):
            raise _fault(path, "packed ids have the wrong dtype")
        try:
            ids = unpack_ids(arrays)
        except DataError as error:
            raise _fault(path, str(error)) from error
        # Packed were objects: integers among them are objects again, not a column of int64.
        return ids.astype(object)

    def _csr(self, body: Json, path: str) -> Any:
        if not isinstance(body, list) or len(body) != 5 or body[0] not in CSR:
            raise _fault(path, "must be class, shape, data, indices and indptr of a CSR matrix")
        data, indices, indptr = (self._array(member, path) for member in body[2:])
        shape = check_csr(body[1], data, indices, indptr, path)
        return CSR[body[0]]((data, indices, indptr), shape=shape)

    def _vocabulary(self, body: Json, path: str) -> Vocabulary:
        parts = self._parts(_exactly(body, {"ids", "positional"}, path), path)
        ids = _vector(parts["ids"], f"{path}.ids")
        if parts["positional"] is not True:
            return self._built(lambda: Vocabulary(ids), path)
        if ids.dtype != np.int64 or not np.array_equal(ids, np.arange(ids.size)):
            raise _fault(path, "row numbers must be 0, 1, 2, ...")
        return Vocabulary.range(ids.size)

    def _table(self, body: Json, path: str) -> Table:
        parts = self._parts(_exactly(body, {"features", "vocabulary", "feature_names"}, path), path)
        check_ids_match(parts, path)
        table = Table.__new__(Table)
        table.__setstate__(parts)
        return table

    def _record(self, body: Json, path: str) -> Any:
        cls, parts = self._class_and_parts(body, RECORDS, path)
        if cls in BUILDERS:
            return self._checked(self._built(lambda: BUILDERS[cls](parts, path), path), path)
        _exactly(parts, set(names_of(cls)), path)
        return self._checked(self._built(lambda: cls(**parts), path), path)

    def _kernel(self, body: Json, path: str) -> Any:
        cls, parts = self._class_and_parts(body, KERNELS, path)
        return self._checked(self._built(lambda: cls(**parts), path), path)

    def _estimator(self, body: Json, path: str) -> Any:
        if not isinstance(body, list) or len(body) != 3:
            raise _fault(path, "an estimator is its class, parameters and attributes")
        cls, params = self._class_and_parts(body[:2], ESTIMATORS, path)
        unknown = set(params) - set(cls._get_param_names())
        if unknown:
            raise _fault(path, f"{cls.__name__} has no parameter {min(unknown)!r:.80}")
        estimator = self._built(lambda: cls(**params), path)
        self._built(estimator._validate_params, path)  # noqa: SLF001 - scikit-learn's hook for estimators
        for name, value in self._parts(body[2], path).items():
            if not ATTRIBUTE.fullmatch(name) or hasattr(cls, name) or name in params:
                raise _fault(path, f"{name!r:.80} is no fitted attribute")
            setattr(estimator, name, value)
        return self._checked(estimator, path)

    def _class_and_parts(
        self, body: Json, known: Mapping[str, type[Any]], path: str
    ) -> tuple[type[Any], dict[str, Any]]:
        if not isinstance(body, list) or len(body) != 2 or not isinstance(body[0], str):
            raise _fault(path, "must be a class and its parts")
        if body[0] not in known:
            raise _fault(path, f"class {body[0]!r:.80} is not one that this version can load")
        return known[body[0]], self._parts(body[1], path)

    def _same(self, body: Json, path: str) -> Any:
        if not isinstance(body, str) or body not in self._seen:
            raise _fault(path, f"refers to {body!r:.80}, which did not come before")
        return self._seen[body]

    def _built(self, build: Callable[[], Any], path: str) -> Any:
        try:
            return build()
        except ModelFormatError:
            raise
        except (SkprefError, ValueError, TypeError, AttributeError) as error:
            raise _fault(path, str(error)) from error

    def _checked(self, value: Any, path: str) -> Any:
        for cls, check in (CHECKS | RATING_CHECKS | MACHINE_CHECKS | SPARSE_CHECKS | LATENT_CHECKS).items():
            if isinstance(value, cls):
                try:
                    check(value, path)
                except (AttributeError, TypeError, IndexError) as error:
                    raise _fault(path, f"its parts do not fit together ({error})") from error
        return value


def _fault(path: str, text: str) -> ModelFormatError:
    return ModelFormatError(f"{MANIFEST}: {path or 'estimator'}: {text}")


def _finite(value: Any, path: str) -> Any:
    if isinstance(value, float) and not math.isfinite(value):  # 1e999 is JSON
        raise _fault(path, "is too large a number")
    return value


def _exactly(body: Json, keys: set[str], path: str) -> dict[str, Json]:
    if not isinstance(body, dict) or set(body) != keys:
        raise _fault(path, f"must have exactly the parts {', '.join(sorted(keys))}")
    return body


def _vector(value: Any, path: str) -> NDArray[Any]:
    if not isinstance(value, np.ndarray) or value.ndim != 1:
        raise _fault(path, "must be a one-dimensional array")
    return value
