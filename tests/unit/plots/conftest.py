"""A small fitted model to draw."""

from __future__ import annotations

import numpy as np
import pytest

from skpref import GPPLClassifier

pytest.importorskip("matplotlib")

X = np.array([(i, j) for i in range(6) for j in range(6) if i != j])
Y = (X[:, 0] > X[:, 1]).astype(float)


@pytest.fixture(scope="session")
def comparisons() -> tuple[np.ndarray, np.ndarray]:
    return X, Y


@pytest.fixture(scope="session")
def model() -> GPPLClassifier:
    return GPPLClassifier(random_state=0).fit(X, Y)
