"""Between Python objects and a tree of JSON values plus arrays.

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

import dataclasses
import math
import re
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from skpref.data import Table, Vocabulary, pack_ids, unpack_ids
from skpref.exceptions import DataError, ModelFormatError, SkprefError
from skpref.gp._roster import Roster
from skpref.inference.blocks import StackedBlock
from skpref.persistence._archive import MANIFEST, storable
from skpref.persistence._checks import BUILDERS, CHECKS, check_csr, check_ids_match
from skpref.persistence._checks_latent import LATENT_CHECKS
from skpref.persistence._checks_machines import MACHINE_CHECKS
from skpref.persistence._checks_ratings import RATING_CHECKS
from skpref.persistence._checks_sparse import SPARSE_CHECKS
from skpref.persistence._registry import ESTIMATORS, KERNELS, RECORDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

Json = Any  # a tree of JSON values

_MAX_DEPTH = 40
_LONG = 32  # more floats than this in a list are written as an array
_FLOATS = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
_CSR = {"csr_array": sparse.csr_array, "csr_matrix": sparse.csr_matrix}
_PLAIN = (bool, str, int, float, np.bool_, np.integer, np.floating, type(None))
# Attributes of a fitted estimator: scikit-learn's trailing underscore, or a single leading one.
_ATTRIBUTE = re.compile(r"[a-z][a-z0-9_]*_|_[a-z][a-z0-9_]*")


class Encoder:
    """Turns an estimator into a tree, and collects its arrays.

    Attributes
    ----------
    arrays : dict of str to ndarray
        Members by name, which is the path of the array's first place in the tree.
    """

    def __init__(self) -> None:
        self.arrays: dict[str, NDArray[Any]] = {}
        self._member: dict[int, str] = {}
        self._path: dict[int, str] = {}
        self._alive: list[Any] = []  # so that no id() is used twice

    def estimator(self, value: Any, path: str = "") -> Json:
        """Encode an estimator.

        Parameters
        ----------
        value : estimator
            Of a class in the list.
        path : str, default=""
            Where it stands in the tree.

        Returns
        -------
        dict
            The tree.
        """
        name = type(value).__name__
        if ESTIMATORS.get(name) is not type(value):
            raise DataError(f"cannot save a {type(value).__qualname__}; only {', '.join(ESTIMATORS)} can be saved")
        params = value.get_params(deep=False)
        learnt = (key for key in vars(value) if key not in params and _ATTRIBUTE.fullmatch(key))
        fitted = {key: vars(value)[key] for key in learnt if "callback" not in key}  # those are scikit-learn's
        # A data frame or array that the user gave is written as it was read.
        params |= {key: table for key, table in _tables_read(fitted).items() if not isinstance(params[key], Table)}
        parts = [{key: self._encode(item, _join(path, key)) for key, item in part.items()} for part in (params, fitted)]
        return {"$estimator": [name, *parts]}

    def _encode(self, value: Any, path: str) -> Json:
        if isinstance(value, _PLAIN):
            return _plain(value)
        if type(value) is list:
            return self._list(value, path)
        if type(value) is tuple:
            return {"$tuple": [self._encode(item, f"{path}.{i}") for i, item in enumerate(value)]}
        if isinstance(value, dict) and all(isinstance(key, str) for key in value):
            return {"$dict": {key: self._encode(item, f"{path}.{key}") for key, item in value.items()}}
        return self._object(value, path)

    def _list(self, value: list[Any], path: str) -> Json:
        if len(value) > _LONG and all(isinstance(item, float) for item in value):
            return {"$floats": self._store(np.array(value, dtype=np.float64), path)}
        return [self._encode(item, f"{path}.{i}") for i, item in enumerate(value)]

    def _object(self, value: Any, path: str) -> Json:
        """Encode what may occur in several places."""
        if id(value) in self._path:
            return {"$same": self._path[id(value)]}
        tree = self._new_object(value, path)
        if set(tree) != {"$array"}:
            self._path[id(value)] = path
            self._alive.append(value)
        return tree

    def _new_object(self, value: Any, path: str) -> dict[str, Json]:
        name = type(value).__name__
        if isinstance(value, np.ndarray):
            return self._array(value, path)
        if name in _CSR and type(value) is _CSR[name]:
            parts = (self._store(getattr(value, part), f"{path}.{part}") for part in ("data", "indices", "indptr"))
            return {"$csr": [name, list(value.shape), *parts]}
        if isinstance(value, Table | Vocabulary):
            return self._table(value, path)
        if RECORDS.get(name) is type(value):
            return {"$record": [name, {key: self._encode(part, f"{path}.{key}") for key, part in _fields(value)}]}
        if KERNELS.get(name) is type(value):
            params = value.get_params(deep=False)
            return {"$kernel": [name, {key: self._encode(item, f"{path}.{key}") for key, item in params.items()}]}
        if ESTIMATORS.get(name) is type(value):
            return dict(self.estimator(value, path))
        raise DataError(
            f"cannot save {path}: a {type(value).__module__}.{type(value).__qualname__} is not among the data that "
            "a model file holds. Set it to something plain (a string, a number, a kernel of skpref) and save again"
        )

    def _array(self, value: NDArray[Any], path: str) -> dict[str, Json]:
        if value.dtype == object:
            return {"$ids": {key: self._store(part, f"{path}.{key}") for key, part in pack_ids(value).items()}}
        return {"$array": self._store(value, path)}

    def _table(self, value: Table | Vocabulary, path: str) -> dict[str, Json]:
        if isinstance(value, Vocabulary):
            ids = self._encode(value.ids, f"{path}.ids")
            return {"$vocabulary": {"ids": ids, "positional": value.positional}}
        names = value.feature_names
        return {
            "$table": {
                "features": self._encode(value.features, f"{path}.features"),
                "vocabulary": self._encode(value.vocabulary, f"{path}.vocabulary"),
                "feature_names": None if names is None else list(names),
            }
        }

    def _store(self, array: NDArray[Any], path: str) -> str:
        """Keep an array as a member; the same array is stored once."""
        if id(array) not in self._member:
            name = re.sub(r"[^A-Za-z0-9_.]", "_", path)[-100:].strip(".") + ".npy"
            while name in self.arrays:
                name = "again_" + name
            data = storable(array)
            if data is None:
                raise DataError(f"cannot save {path}: arrays of dtype {array.dtype} are not part of a model file")
            self.arrays[name] = data
            self._member[id(array)] = name
            self._alive.append(array)
        return self._member[id(array)]


def _tables_read(fitted: dict[str, Any]) -> dict[str, Table]:
    """Parameters that are tables, as `fit` read them."""
    found = {"items": fitted.get("_table")}
    for name in ("items", "users"):
        known = fitted.get(f"_{name}")
        if isinstance(known, Roster) and known.features is not None:
            table = found[name] = Table.__new__(Table)
            parts = {"vocabulary": known.vocabulary, "features": known.features, "feature_names": known.names}
            table.__setstate__(parts)
    return {name: table for name, table in found.items() if table is not None}


def _fields(record: Any) -> list[tuple[str, Any]]:
    """Names and values of a record's parts."""
    if isinstance(record, StackedBlock):  # two arrays a factor would be more members than a file holds
        return [(name, np.stack([getattr(part, name) for part in record.parts])) for name in ("precision", "linear")]
    return [(name, getattr(record, name)) for name in _names(type(record))]


def _names(cls: Any) -> list[str]:
    """Names of the parts of a dataclass or of a named tuple."""
    return list(cls._fields) if issubclass(cls, tuple) else [field.name for field in dataclasses.fields(cls)]


def _plain(value: Any) -> Json:
    if isinstance(value, np.bool_ | np.integer | np.floating):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return {"$float": repr(value)}
    return value


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


class Decoder:
    """Turns a tree and arrays back into an estimator, trusting neither.

    Parameters
    ----------
    arrays : dict of str to ndarray
        Members by name.
    """

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
        """Decode the estimator at the top of a tree.

        Parameters
        ----------
        tree : dict
            What `Encoder.estimator` made, or a stranger.

        Returns
        -------
        estimator
            Checked.
        """
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
        return {key: self._decode(item, _join(path, key)) for key, item in body.items()}

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
        if not isinstance(body, list) or len(body) != 5 or body[0] not in _CSR:
            raise _fault(path, "must be class, shape, data, indices and indptr of a CSR matrix")
        data, indices, indptr = (self._array(member, path) for member in body[2:])
        shape = check_csr(body[1], data, indices, indptr, path)
        return _CSR[body[0]]((data, indices, indptr), shape=shape)

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
        _exactly(parts, set(_names(cls)), path)
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
            if not _ATTRIBUTE.fullmatch(name) or hasattr(cls, name) or name in params:
                raise _fault(path, f"{name!r:.80} is no fitted attribute")
            setattr(estimator, name, value)
        return self._checked(estimator, path)

    def _class_and_parts(self, body: Json, known: dict[str, type[Any]], path: str) -> tuple[type[Any], dict[str, Any]]:
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
