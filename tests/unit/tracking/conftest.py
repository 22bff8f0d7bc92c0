"""One MLflow store for all tests: making its tables costs seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def _home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mlflow")


@pytest.fixture
def home(_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working folder with the default store, and no settings of the user's."""
    pytest.importorskip("mlflow")
    monkeypatch.chdir(_home)
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_HTTP_REQUEST_TIMEOUT", "MLFLOW_HTTP_REQUEST_MAX_RETRIES"):
        monkeypatch.delenv(name, raising=False)
    return _home
