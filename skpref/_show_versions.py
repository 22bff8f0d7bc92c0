"""Versions of the system and of packages for bug reports."""

from __future__ import annotations

import os
import platform
import sys
from importlib import metadata

from skpref._version import __version__

# The dependencies, then the packages of the extras and polars, whose frames are read.
_DEPENDENCIES = ("numpy", "scipy", "scikit-learn", "narwhals", "numba", "llvmlite", "joblib", "threadpoolctl", "skops")
_OPTIONAL = ("mlflow", "optuna", "matplotlib", "dask", "distributed", "pandas", "pyarrow", "polars", "statsmodels")


def show_versions() -> None:
    """Print the versions of Python, of the system, of skpref and of the packages that it can use.

    Paste the output into a bug report. Packages that are not installed are marked as such.

    Examples
    --------
    >>> import skpref
    >>> skpref.show_versions()  # doctest: +ELLIPSIS
    System
            python: ...
    """
    system = {
        "python": sys.version.replace("\n", " "),
        "executable": sys.executable,
        "machine": platform.platform(),
        "cores": str(os.cpu_count()),
    }
    packages = {"skpref": __version__} | {name: _installed(name) for name in (*_DEPENDENCIES, *_OPTIONAL)}
    for title, rows in (("System", system), ("Packages", packages)):
        print(title, *(f"{name:>14}: {value}" for name, value in rows.items()), sep="\n")  # noqa: T201


def _installed(name: str) -> str:
    """Return the version of a package, or that there is none."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"
