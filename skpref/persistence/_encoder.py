"""From Python objects to a tree of JSON values plus arrays; what the tree may hold stands in `_codec`."""

from __future__ import annotations

import dataclasses
import math
import re
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from skpref.data import Table, Vocabulary, pack_ids
from skpref.exceptions import DataError
from skpref.gp.entities import Entities
from skpref.inference.blocks import StackedBlock
from skpref.persistence._archive import storable
from skpref.persistence._registry import ESTIMATORS, KERNELS, RECORDS

if TYPE_CHECKING:
    from numpy.typing import NDArray

Json = Any  # a tree of JSON values

# Attributes of a fitted estimator: scikit-learn's trailing underscore, or a single leading one.
ATTRIBUTE = re.compile(r"[a-z][a-z0-9_]*_|_[a-z][a-z0-9_]*")
CSR = {"csr_array": sparse.csr_array, "csr_matrix": sparse.csr_matrix}
_LONG = 32  # more floats than this in a list are written as an array
_PLAIN = (bool, str, int, float, np.bool_, np.integer, np.floating, type(None))


class Encoder:
    """Turns an estimator into a tree, and collects its arrays."""

    def __init__(self) -> None:
        self.arrays: dict[str, NDArray[Any]] = {}
        self._member: dict[int, str] = {}
        self._path: dict[int, str] = {}
        self._alive: list[Any] = []  # so that no id() is used twice

    def estimator(self, value: Any, path: str = "") -> Json:
        """Encode an estimator."""
        name = type(value).__name__
        if ESTIMATORS.get(name) is not type(value):
            raise DataError(f"cannot save a {type(value).__qualname__}; only {', '.join(ESTIMATORS)} can be saved")
        params = value.get_params(deep=False)
        learnt = (key for key in vars(value) if key not in params and ATTRIBUTE.fullmatch(key))
        fitted = {key: vars(value)[key] for key in learnt if "callback" not in key}  # those are scikit-learn's
        # A data frame or array that the user gave is written as it was read.
        params |= {key: table for key, table in _tables_read(fitted).items() if not isinstance(params[key], Table)}
        parts = [
            {key: self._encode(item, joined(path, key)) for key, item in part.items()} for part in (params, fitted)
        ]
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
        if name in CSR and type(value) is CSR[name]:
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
    tables = {}
    for name in ("items", "users"):
        entities = fitted.get(f"_{name}")
        if isinstance(entities, Entities) and entities.features is not None:
            table = tables[name] = Table.__new__(Table)
            names = ("vocabulary", "features", "feature_names")
            table.__setstate__({part: getattr(entities, part) for part in names})
    return tables


def _fields(record: Any) -> list[tuple[str, Any]]:
    """Names and values of a record's parts."""
    if isinstance(record, StackedBlock):  # two arrays a factor would be more members than a file holds
        return [(name, np.stack([getattr(part, name) for part in record.parts])) for name in ("precision", "linear")]
    return [(name, getattr(record, name)) for name in names_of(type(record))]


def names_of(cls: Any) -> list[str]:
    """Return the names of the parts of a dataclass or of a named tuple."""
    return list(cls._fields) if issubclass(cls, tuple) else [field.name for field in dataclasses.fields(cls)]


def _plain(value: Any) -> Json:
    if isinstance(value, np.bool_ | np.integer | np.floating):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return {"$float": repr(value)}
    return value


def joined(path: str, key: str) -> str:
    """Return where a part stands in the tree."""
    return f"{path}.{key}" if path else key
