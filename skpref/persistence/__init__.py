"""Models in files that hold data only: `save` and `load` (``shared/bad-inputs.md``, rule R1).

A file is a zip archive, not compressed, of ``manifest.json`` and ``.npy`` members. The manifest says which class of a
fixed list was saved, its parameters and fitted attributes as a tree of plain values, and the dtype, shape and SHA-256
of each member. Nothing in it is code: `load` imports nothing by name, unpickles nothing, and checks every size before
it reads and every shape, index and sign before it returns. Pickle works on estimators as on any of scikit-learn's, but
runs whatever a file's author wished; `load` never accepts a pickle.
"""

from __future__ import annotations

import platform
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy
import sklearn

from skpref.exceptions import ModelFormatError
from skpref.persistence._archive import read_archive, write_archive
from skpref.persistence._encoder import Encoder
from skpref.persistence._registry import ESTIMATORS

if TYPE_CHECKING:
    import os

__all__ = ["FORMAT_VERSION", "load", "save"]

FORMAT_VERSION = 1


def save(estimator: Any, path: str | os.PathLike[str]) -> None:
    """Write an estimator, fitted or not, to a file of data.

    The file appears under its name only when it is complete; an earlier one is replaced.

    Parameters
    ----------
    estimator : estimator of skpref, or Pipeline of `OneHotDesign` and one
        What to save. A `CrowdGPPL` remembers its comparisons, by ids, so that `partial_fit` can go on: they are part
        of the file.
    path : str or path-like
        Where to; the folder must exist. Any name will do; `skpref tune` uses ``model.skpref``.

    Raises
    ------
    DataError
        If the estimator is not of this package, holds something that is not data (a kernel class of the user's own, a
        `RandomState`), an id that is neither integer, string nor bytes, or more than 2 GiB.

    See Also
    --------
    load : The way back.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from skpref import GPPLClassifier
    >>> from skpref.persistence import load, save
    >>> model = GPPLClassifier().fit([["tea", "coffee"], ["tea", "water"]], [1, 1])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(model, pathlib.Path(folder) / "drinks.skpref")
    ...     again = load(pathlib.Path(folder) / "drinks.skpref")
    >>> bool((again.utility() == model.utility()).all())
    True
    """
    encoder = Encoder()
    tree = encoder.estimator(estimator)
    manifest = {"version": FORMAT_VERSION, "libraries": _libraries(), "estimator": tree}
    write_archive(Path(path), manifest, encoder.arrays)


def load(path: str | os.PathLike[str]) -> Any:
    """Read an estimator that `save` wrote; safe with files of strangers.

    Parameters
    ----------
    path : str or path-like
        The file.

    Returns
    -------
    estimator
        With the parameters and fitted attributes that were saved. With the same versions of the libraries its
        predictions are equal to the bit.

    Raises
    ------
    ModelFormatError
        If the file is anything but a sound model: the message names the member at fault.
    OSError
        If there is no such file, or it cannot be read.

    See Also
    --------
    save : Writes such files.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from skpref.persistence import load
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "stranger.skpref"
    ...     _ = path.write_bytes(b"not a model")
    ...     try:
    ...         load(path)
    ...     except ValueError as error:
    ...         print(error)
    stranger.skpref: not a skpref model: it is no zip archive, or was cut off
    """
    path = Path(path)
    try:
        manifest, arrays = read_archive(path, FORMAT_VERSION)
        from skpref.persistence._codec import Decoder  # with the checks of all estimators

        decoder = Decoder(arrays)
        estimator = decoder.estimator(manifest["estimator"])
        decoder.check_all_used()
    except ModelFormatError as error:
        raise ModelFormatError(f"{path.name}: {error}") from error.__cause__
    return estimator


def _libraries() -> dict[str, str]:
    """Versions for whoever wonders later; `load` does not read them."""
    modules = {"numpy": np, "scipy": scipy, "scikit-learn": sklearn}
    return {"python": platform.python_version()} | {name: module.__version__ for name, module in modules.items()}


def saved_classes() -> tuple[str, ...]:
    """Return the names of the classes that can be saved."""
    return tuple(ESTIMATORS)
