"""What a row of the table of bad inputs is, and what rows are written with: edits of valid inputs, lists of places."""

from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy import sparse

from tests.unit.bad_inputs import places as at
from tests.unit.bad_inputs.places import Place, fitted


class Row(NamedTuple):
    """One bad input, the places that must refuse it, and how: a pattern in the error's text, and its type.

    Where the package itself raises the error, the pattern is the name of what is wrong; messages.txt has the wording.
    """

    number: int
    what: str
    places: list[Place]
    value: Any
    text: str
    error: type[Exception] = ValueError


class Case(NamedTuple):
    """A row at one of its places."""

    row: Row
    place: Place

    @property
    def key(self):
        return str(self.row.number), self.row.what

    @property
    def expected(self):
        return self.place.names_input + ".*" + self.row.text.replace("ESTIMATOR", self.place.estimator)

    def run(self):
        value = self.row.value
        return self.place.call(value(self.place.valid) if callable(value) else value)

    def __str__(self):
        return f"row{self.row.number}-{self.row.what}-{self.place.name}"


def cases(rows):
    return (Case(row, place) for row in rows for place in row.places)


# ---------------------------------------------------------------------------------------------------- inputs and places
def entry(where, value):
    """Return the valid input with one entry replaced (or several, by one index)."""

    def replaced(valid):
        if isinstance(valid, list):
            rows = [list(row) for row in valid]
            rows[where[0]][where[1]] = value
            return rows
        array = np.array(valid, dtype=np.result_type(valid, value) if isinstance(value, int | float) else object)
        array[where] = value
        return array

    return replaced


def call(name, function):
    """Return the one place of a row that has its own call."""
    return [Place(name, None, lambda _: function())]


def pick(places, *words, without="\0"):
    """Return the places whose names hold one of the words, and not the other."""
    return [p for p in places if any(word in p.name for word in words or ("",)) and without not in p.name]


def methods(name, *args, names):
    """Return methods of a fitted estimator, each with its own valid arguments."""
    return [
        Place(f"{name}.{m}", None, lambda value, m=m: getattr(fitted(name), m)(value, *args)) for m in names.split()
    ]


def frame(columns, values):
    return pytest.importorskip("pandas").DataFrame(np.asarray(values), columns=list(columns))


def renamed(name, method, columns, other):
    """Return the place that gets a frame with other columns than fit did."""
    data = at.TRAINING[name]

    def run():
        model = at.MAKERS[name]().fit(frame(columns, data[0]), *data[1:])
        return getattr(model, method)(frame(other, data[0]), *(data[1:] if method == "partial_fit" else ()))

    return call(f"{name}.{method}", run)


def many(name, n):
    """Return a fit that would need more memory than there is."""
    numbers, zero, column = np.arange(n), np.zeros(n, dtype=int), np.arange(n, dtype=float)[:, None]
    around = np.column_stack([numbers, np.roll(numbers, 1)])
    return {
        "GPPLRegressor": lambda: at.regressor(inducing=n).fit(column, comparisons=numbers.reshape(-1, 2)),
        "GPPLClassifier": lambda: at.classifier(column, inducing=n).fit(around, np.ones(n)),
        "CrowdGPPL.items": lambda: at.crowd(column, inducing=n).fit(np.column_stack([zero, around]), np.ones(n)),
        "CrowdGPPL.users": lambda: at.crowd(None, column, inducing=n).fit(
            np.column_stack([numbers, zero, zero + 1]), np.ones(n)
        ),
        "GPOrdinalRegressor": lambda: at.ordinal(n_max_exact=10**6).fit(column, numbers % 3),
        "GPOrdinalRegressor.inducing": lambda: at.ordinal(inducing=10**6).fit(column, numbers % 3),
        "SVGPRegressor": lambda: at.MAKERS["SVGPRegressor"](inducing=10**6).fit(column, column[:, 0]),
        "SVGPClassifier": lambda: at.MAKERS["SVGPClassifier"](inducing=10**6).fit(column, numbers % 2),
    }[name]


def damaged(kind, part, value):
    """Return the valid input as a sparse matrix with one number of its structure replaced."""

    def sparse_with_damage(valid):
        matrix = getattr(sparse, f"{kind}_array")(valid)
        getattr(matrix, part)[5] = value
        return matrix

    return sparse_with_damage


def masked(valid):
    """Mask one entry, in row 3."""
    array = np.ma.array(valid)
    array[(3, 1)[: array.ndim]] = np.ma.masked
    return array


def no_y(name):
    return at.MAKERS[name]().fit(at.RATED, None, np.ones(len(at.RATED)))


def both_infinities(valid):
    array = valid.copy()
    array[:2, 1] = -np.inf, np.inf
    return array


def column(dtype):
    """Return the valid input as a data frame whose column b lacks a value in row 3."""

    def table(valid):
        pd = pytest.importorskip("pandas")
        values = [None if row == 3 else row % 3 for row in range(len(valid))]
        return frame("abc"[: valid.shape[1]], valid).assign(b=pd.Series(values).astype("Int64").astype(dtype))

    return table


def with_zero():
    matrix = sparse.csr_array(np.array([[5.0, 3.0], [0.0, 1.0]]))
    matrix.data[1] = 0.0
    return matrix


def precomputed(K=at.K, **params):
    return at.ordinal(kernel="precomputed", **params).fit(K, at.LEVEL)


FLOATS = at.TRIPLES.astype(float)
NAMES = np.where(at.LEVEL == 0, "poor", "good").tolist()
GRADES = np.array(["poor", "fair", "good"])[at.LEVEL]
HUGE = "z" * 10_000_000
SPARSE = "Sparse data was passed for X, but dense data is required"
NO_Y = "requires y to be passed, but the target y is None"
FIVE = np.array(["very poor", "poor", "fair", "good", "very good"])[np.arange(at.N) % 5]
CLASSIFIED = [*pick(at.CLASSES, "fit", without="FMClassifier.partial_fit"), *at.LEVELS]
NEED_FIT = {p.name for p in at.ROWS if ".fit" not in p.name} - {
    "Table",
    "GPPLClassifier.items",
    "CrowdGPPL.items",
    "CrowdGPPL.users",
}
SPARSE_ROWS = [p for p in at.ROWS if "utility" not in p.name and "GPLVM" not in p.name]
TARGETS = [*at.NUMBERS, *at.CLASSES, *at.LABELS, *at.LEVELS]
EVERY_TARGET = [*TARGETS, *at.RATINGS]
