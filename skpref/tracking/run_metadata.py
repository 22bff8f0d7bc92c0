"""Metadata of a run: data, parameters, versions and memory, and the results of fits and searches."""

from __future__ import annotations

import importlib.metadata
import json
import platform
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import numpy as np
from scipy import sparse

from skpref._estimator import digest
from skpref._validation import refuse_collection
from skpref._version import __version__
from skpref.tracking.policy import POLICY

_LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba", "mlflow")


def describe_data(X: Any, y: Any, metadata: Mapping[str, Any] | None) -> tuple[dict[str, str], dict[str, str]]:
    """Return the data of a fit as parameters of a run, and as MLflow's description of a dataset."""
    parts = [part for part in (X, y, *(metadata or {}).values()) if part is not None]
    tables = [table for part in parts for table in _tables(part)]
    names = [str(name) for name in getattr(X, "columns", ())]
    kinds = [(table.shape, str(table.dtype)) for table in tables]
    total = digest((names, kinds), *tables)
    shape = np.shape(X) if hasattr(X, "shape") else tables[0].shape
    params = {"data.shape": " x ".join(map(str, shape)), "data.sha256": total}
    width = shape[1] if len(shape) > 1 else 1
    columns = names[: POLICY.most_columns] or [str(number) for number in range(min(width, POLICY.most_columns))]
    types = _types(X, tables, len(columns))
    schema = [{"name": name, "type": kind, "required": True} for name, kind in zip(columns, types, strict=False)]
    dataset = {
        "name": "data",
        "digest": total[:32],
        "source_type": "skpref",
        "source": json.dumps({"sha256": total}),
        "schema": json.dumps({"mlflow_colspec": schema}),
        "profile": json.dumps({"num_rows": int(shape[0]), "num_elements": int(np.prod(shape))}),
    }
    return params, dataset


def _tables(part: Any) -> list[Any]:
    if hasattr(part, "columns") and hasattr(part, "iloc"):
        return [_plain(part.iloc[:, number]) for number in range(part.shape[1])]
    return [part if sparse.issparse(part) else _plain(part)]


def _plain(values: Any) -> Any:
    refuse_collection(values, "the data")
    try:
        array = np.asarray(values)
    except ValueError:  # rows of several lengths: `fit` raises the error
        array = np.asarray(values, dtype=object)
    return array.astype(object) if array.dtype.hasobject and array.dtype != object else array


def _types(X: Any, tables: list[Any], n: int) -> list[str]:
    kinds = [table.dtype.kind for table in tables[:n]] if hasattr(X, "iloc") else [tables[0].dtype.kind] * n
    return [{"f": "double", "i": "long", "u": "long", "b": "boolean"}.get(kind, "string") for kind in kinds]


def parameters(estimator: Any) -> dict[str, str]:
    """Return the parameters of an estimator as text."""
    return {name: _text(value) for name, value in sorted(estimator.get_params(deep=True).items())}


def _text(value: Any) -> str:
    with np.printoptions(threshold=20, edgeitems=3):
        text = " ".join(repr(value).split()) if not isinstance(value, str) else value
    return text if len(text) <= POLICY.most_text else text[: POLICY.most_text - 3] + "..."


def versions() -> dict[str, str]:
    """Return the versions of Python, of this package and of the libraries, as tags."""
    installed = {"python": platform.python_version(), "skpref": __version__}
    for name in _LIBRARIES:
        with suppress(importlib.metadata.PackageNotFoundError):
            installed[name] = importlib.metadata.version(name)
    return {f"version.{name}": version for name, version in installed.items()}


def peak_memory() -> float:
    """Return the peak memory of this process, in MiB; NaN where the system does not tell."""
    try:
        import resource
    except ImportError:  # Windows
        return float("nan")
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / (2**20 if sys.platform == "darwin" else 2**10)


def outcome(estimator: Any) -> tuple[dict[str, float], dict[str, list[float]]]:
    """Return metrics of a fitted estimator, and curves by iteration."""
    values: dict[str, float] = {}
    for name in ("n_iter_", "converged_", "log_marginal_likelihood_value_", "refit_time_"):
        value = getattr(estimator, name, None)
        if isinstance(value, int | float | np.number | np.bool_):
            values[name.strip("_")] = float(value)
    curves: dict[str, list[float]] = {}
    for name, shown in (("lower_bounds_", "lower_bound"), ("validation_losses_", "validation_loss")):
        curve = np.asarray(getattr(estimator, name, ()), dtype=float)
        if curve.ndim == 1 and curve.size:
            curves[shown] = curve.tolist()
    risks = np.atleast_2d(np.asarray(getattr(estimator, "risks_", ()), dtype=float))
    for number, chain in enumerate(risks if risks.size else ()):
        curves["risk" if len(risks) == 1 else f"risk.{number}"] = chain.tolist()
    return values, curves


def search_outcome(search: Any) -> tuple[dict[str, Any], dict[str, float]]:
    """Return the best parameters of a search, and their mean scores."""
    params = {f"best.{name}": value for name, value in getattr(search, "best_params_", {}).items()}
    if not hasattr(search, "best_index_"):
        return params, {}
    means = {name: column for name, column in search.cv_results_.items() if name.startswith("mean_test_")}
    return params, {f"best.{name}": float(column[search.best_index_]) for name, column in means.items()}


def results_table(search: Any) -> str:
    """Return ``cv_results_`` as CSV, without the column of dicts."""
    columns = {name: column for name, column in search.cv_results_.items() if name != "params"}
    rows = zip(*columns.values(), strict=True)
    return "".join(f"{line}\n" for line in [",".join(columns), *(",".join(map(_cell, row)) for row in rows)])


def fold_scores(search: Any) -> Iterator[dict[str, float]]:
    """Give the finite scores of each fold of each candidate, in scikit-learn's order, with the numbers of both."""
    for candidate in range(len(search.cv_results_["params"])):
        for split in range(search.n_splits_):
            start = f"split{split}_"
            columns = {name: column for name, column in search.cv_results_.items() if name.startswith(start)}
            scores = {name.removeprefix(start): float(column[candidate]) for name, column in columns.items()}
            finite = {name: score for name, score in scores.items() if np.isfinite(score)}
            yield {**finite, "candidate": candidate, "split": split}


def _cell(value: Any) -> str:
    text = repr(value.item() if isinstance(value, np.generic) else value)
    return '"' + text.replace('"', '""') + '"' if "," in text else text
