"""Ordered levels of Chu & Ghahramani (2005): two published partitions as a guard; the table is in benchmarks/."""

import csv
import gzip

import numpy as np
import pytest

from skpref import LBFGS, GPOrdinalRegressor
from skpref.exceptions import DataWarning
from skpref.metrics import ordinal_mae


def partition(folder, number=0):
    """Standardised features and levels of the training and the test rows, five bins."""
    with gzip.open(folder / "data.csv.gz", "rt", newline="") as stream:
        header, *rows = csv.reader(stream)
    values = np.array(rows, dtype=np.float64)
    X = values[:, [k for k, name in enumerate(header) if name.startswith("x")]]
    y = values[:, header.index("y5")].astype(int)
    with gzip.open(folder / "splits5.csv.gz", "rt", newline="") as stream:
        train = np.array(list(csv.reader(stream))[number], dtype=int)
    test = np.setdiff1d(np.arange(y.size), train)
    spread = X[train].std(axis=0)
    X = (X - X[train].mean(axis=0)) / np.where(spread > 0.0, spread, 1.0)
    return X[train], y[train], X[test], y[test]


# Zero-one error and mean absolute error of a constant on these partitions, and of EP with the paper's kernel.
@pytest.mark.parametrize(
    ("name", "inference", "error", "distance"),
    [("pyrimidines", "ep", 0.55, 0.75), ("pyrimidines", "vb", 0.55, 0.75), ("bostonhousing", "laplace", 0.32, 0.36)],
)
@pytest.mark.filterwarnings("ignore::skpref.exceptions.DataWarning")  # pyrimidines has a constant column
def test_published_partitions(shared, name, inference, error, distance):
    X, y, X_test, y_test = partition(shared / "data" / "ordinal" / name)
    model = GPOrdinalRegressor(inference=inference, optimizer=LBFGS(0), random_state=0).fit(X, y)
    majority = np.full(y_test.size, np.bincount(y).argmax())
    assert np.mean(model.predict(X_test) != y_test) < min(error, np.mean(majority != y_test))
    assert ordinal_mae(y_test, model.predict(X_test, loss="absolute")) < min(distance, ordinal_mae(y_test, majority))
    p = model.predict_proba(X_test)
    log_loss = -np.mean(np.log(p[np.arange(y_test.size), y_test - 1]))
    constant = -np.mean(np.log(np.bincount(y, minlength=6)[1:][y_test - 1] / y.size))
    assert log_loss < constant - 0.1


def test_a_constant_column_is_said(shared):
    X, y, _, _ = partition(shared / "data" / "ordinal" / "pyrimidines")
    with pytest.warns(DataWarning, match="of 27 features are constant"):
        GPOrdinalRegressor(optimizer=None).fit(X, y)
