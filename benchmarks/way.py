"""The way of a warm second call through the package: distinct files, and pairs (caller's file, callee's file).

Wanted: GPPLClassifier.fit with a Table at most 30 files and 45 pairs, predict_proba 14 and 18, VariationalFMOrdinal.fit
20 and 30, `skpref tune` 45 and 90.

    python benchmarks/way.py
"""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import skpref
from skpref.cli.main import main as command

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

HOME = str(Path(skpref.__file__).parent)


def way(call: Callable[[], Any]) -> tuple[int, int]:
    """Numbers of files of the package and of pairs of them that a second call goes through."""
    call()
    files: set[str] = set()
    pairs: set[tuple[str, str]] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        here = frame.f_code.co_filename
        if event != "call" or not here.startswith(HOME):
            return
        files.add(here)
        above = frame.f_back
        while above is not None and not above.f_code.co_filename.startswith(HOME):
            above = above.f_back
        if above is not None and above.f_code.co_filename != here:
            pairs.add((above.f_code.co_filename, here))

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return len(files), len(pairs)


def main() -> None:
    """Measure and print."""
    rng = np.random.default_rng(0)
    table = skpref.Table(rng.normal(size=(12, 3)))
    left = rng.integers(0, 12, 60)
    pairs = np.column_stack([left, (left + rng.integers(1, 12, 60)) % 12])
    y, users = rng.integers(0, 2, 60), rng.integers(0, 6, 60)
    triples, features = np.column_stack([users, pairs]), rng.normal(size=(60, 3))
    ids, plain = skpref.GPPLClassifier(random_state=0), skpref.GPPLClassifier(table, random_state=0)
    crowd = skpref.CrowdGPPL(random_state=0)
    machine = skpref.VariationalFMOrdinal(n_factors=2, random_state=0)
    svgp = skpref.SVGPRegressor(inducing=10, random_state=0)
    temporary = tempfile.TemporaryDirectory()
    folder = Path(temporary.name)
    rows = "\n".join(f"{a},{b},{a if won else b}" for (a, b), won in zip(pairs, y, strict=True))
    (folder / "battles.csv").write_text(f"left,right,winner\n{rows}\n", "utf-8")
    tune = ["tune", str(folder / "battles.csv"), "--trials", "2", "--no-mlflow", "--out", str(folder / "out")]

    def tuned() -> None:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            command(tune)

    calls: dict[str, Callable[[], Any]] = {
        "GPPLClassifier.fit, ids": lambda: ids.fit(pairs, y),
        "GPPLClassifier.fit, Table": lambda: plain.fit(pairs, y),
        "GPPLClassifier.predict_proba": lambda: plain.predict_proba(pairs),
        "CrowdGPPL.fit": lambda: crowd.fit(triples, y),
        "CrowdGPPL.predict_proba": lambda: crowd.predict_proba(triples),
        "VariationalFMOrdinal.fit": lambda: machine.fit(features, y),
        "VariationalFMOrdinal.predict_proba": lambda: machine.predict_proba(features),
        "SVGPRegressor.fit": lambda: svgp.fit(features, features[:, 0]),
        "skpref tune": tuned,
    }
    warnings.simplefilter("ignore")
    for name, call in calls.items():
        n_files, n_pairs = way(call)
        print(f"{name:36}{n_files:4} files {n_pairs:4} pairs")
    temporary.cleanup()


if __name__ == "__main__":
    main()
