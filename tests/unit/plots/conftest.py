"""A small fitted model to draw."""

import numpy as np
import pytest

from skpref import GPPLClassifier

X = np.array([(i, j) for i in range(6) for j in range(6) if i != j])
Y = (X[:, 0] > X[:, 1]).astype(float)


@pytest.fixture(scope="session")
def comparisons():
    return X, Y


@pytest.fixture(scope="session")
def model():
    return GPPLClassifier(random_state=0).fit(X, Y)
