"""Global state that a test may change, and that must be as before when it ends.

Filters of warnings are not here: pytest gives every test its own.
"""

import os
import random
import sys
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

# Settings of a process in MLflow. Its public functions answer with defaults where nothing is set.
MLFLOW = {
    "mlflow.tracking._tracking_service.utils": "_tracking_uri",
    "mlflow.tracking._model_registry.utils": "_registry_uri",
    "mlflow.tracking.fluent": "_active_experiment_id",
}


def _environment():
    """Environment variables, without the one in which pytest writes what it does."""
    return {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}


def dask_client():
    """Return the client of Dask that computes what names none; None if no client is open."""
    distributed = sys.modules.get("distributed.client")
    return None if distributed is None else distributed._get_global_client()


class GlobalState(NamedTuple):
    """The state at one time, of values that can be compared."""

    folder: str
    environment: dict[str, str]
    python_random: tuple[Any, ...]
    numpy_random: tuple[Any, ...]
    mlflow: dict[str, str | None]
    dask_client: str | None  # id of the default client, which the estimators would fit on

    @classmethod
    def now(cls):
        kind, key, *rest = np.random.get_state()  # noqa: NPY002 - the global generator is what is watched
        settings = {name: getattr(sys.modules.get(module), name, None) for module, name in MLFLOW.items()}
        client = getattr(dask_client(), "id", None)
        numpy_random = (kind, key.tobytes(), *rest)
        return cls(os.getcwd(), _environment(), random.getstate(), numpy_random, settings, client)  # noqa: PTH109

    def restore(self):
        os.chdir(self.folder)
        for name in _environment().keys() - self.environment.keys():
            del os.environ[name]
        os.environ.update(self.environment)
        random.setstate(self.python_random)
        kind, key, *rest = self.numpy_random
        np.random.set_state((kind, np.frombuffer(key, np.uint32), *rest))  # noqa: NPY002
        for module, name in MLFLOW.items():
            if module in sys.modules:
                setattr(sys.modules[module], name, self.mlflow[name])
        client = dask_client()
        if client is not None and client.id != self.dask_client:
            client.close()

    def differences(self, other):
        """Name what is otherwise in the other state: fields, and of dictionaries the keys."""
        found = []
        for name, mine, others in zip(self._fields, self, other, strict=True):
            if isinstance(mine, dict):
                found += sorted({key for key, _ in mine.items() ^ others.items()})
            elif mine != others:
                found.append(name)
        return found


@contextmanager
def restored():
    """Restore the state when the block ends; the list then names what the block had changed."""
    before, left = GlobalState.now(), []
    try:
        yield left
    finally:
        after = GlobalState.now()
        if before != after:
            left += before.differences(after)
            before.restore()
