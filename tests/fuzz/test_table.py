"""Fits and predictions: an input is refused with a message of the table of bad inputs, or the results are finite."""

from __future__ import annotations

import re
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from tests.unit.bad_inputs import places as at
from tests.unit.bad_inputs.places import MAKERS, output
from tests.unit.bad_inputs.table import ROWS

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.nightly
# The messages of the table, of any row, id and number.
MESSAGES = re.compile(
    "|".join(
        {re.sub(r"'[^']*'|(?<![\\\w{])-?\d+(\.\d+)?", ".+?", row.text) for row in ROWS if "ESTIMATOR" not in row.text}
    ),
    re.DOTALL,
)

DTYPES = ["float64", "float32", "int64", "int32", "int8", "uint64", "bool", "object", "complex128", "U8"]
CELLS = st.one_of(st.integers(-3, 6), st.sampled_from([0.5, np.nan, np.inf, -np.inf, 1e308, 1e-320, 2.0**63, -0.0]))
IDS = st.one_of(
    st.integers(0, 5), st.sampled_from(["a", "b", "", "x" * 200, b"a", None, np.nan, 1.5, 2.0, 2**70, (1,)])
)
LABELS = st.one_of(st.sampled_from([0, 1, 0.5, 0.25]), st.sampled_from([2, -1, np.nan, "1", True, None]))
CLASSES = st.one_of(st.integers(0, 3), st.sampled_from(["a", "b", "", 1.0, 0.5, True, None, np.nan, 2**70, b"a", (1,)]))


def laid_out(values: Any, dtype: str, order: str, *, writeable: bool) -> np.ndarray:
    with np.errstate(all="ignore"):
        array = np.asarray(values, dtype=object).astype(dtype)
    if order != "C":
        array = np.asfortranarray(array) if order == "F" else np.repeat(array, 2, axis=0)[::2]
    array.flags.writeable = writeable
    return array


def refused_by_the_table_or_finite(call: Callable[[], Any]) -> None:
    """Fail on another error than those of the table, and on a result that is not finite."""
    try:
        results = call()
    except (ValueError, TypeError) as error:
        assert MESSAGES.search(str(error)), f"{type(error).__name__}: {error}"  # noqa: PT017
        return
    for result in results if isinstance(results, tuple) else (results,):
        assert np.all(np.isfinite(result))


@pytest.mark.filterwarnings("ignore")  # overflow of the drawn values in numpy's own conversions
@settings(max_examples=max(40, settings.default.max_examples))
@given(
    data=st.data(), dtype=st.sampled_from(DTYPES), order=st.sampled_from(["C", "F", "strided"]), writeable=st.booleans()
)
def test_any_features_give_finite_utilities(data: Any, dtype: str, order: str, writeable: bool) -> None:
    n, d = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 3))
    cells = data.draw(st.lists(st.lists(CELLS, min_size=d, max_size=d), min_size=n, max_size=n))
    scores = data.draw(st.lists(CELLS, min_size=n, max_size=n))
    try:
        features = laid_out(cells, dtype, order, writeable=writeable)
    except (OverflowError, ValueError):
        return  # numpy itself cannot make such an array
    refused_by_the_table_or_finite(lambda: at.regressor(max_iter=20).fit(features, scores).predict(features))


def object_array(rows: list[tuple[Any, ...]]) -> np.ndarray:
    """Return ids as an array of objects: NumPy would unpack a tuple and turn numbers among names into names."""
    array = np.empty((len(rows), len(rows[0])), dtype=object)
    for place in np.ndindex(array.shape):
        array[place] = rows[place[0]][place[1]]
    return array


@pytest.mark.filterwarnings("ignore::skpref.exceptions.DataWarning", "ignore::sklearn.exceptions.ConvergenceWarning")
@settings(max_examples=max(60, settings.default.max_examples))
@given(
    rows=st.lists(st.tuples(IDS, IDS, LABELS), min_size=1, max_size=8),
    container=st.sampled_from(["list", "C", "F", "strided"]),
    writeable=st.booleans(),
)
def test_any_pairs_give_probabilities(rows: Any, container: str, writeable: bool) -> None:
    pairs: Any = [row[:2] for row in rows]
    if container != "list":
        pairs = laid_out(object_array(pairs), "object", container, writeable=writeable)
    labels = [row[2] for row in rows]
    refused_by_the_table_or_finite(lambda: at.classifier(max_iter=20).fit(pairs, labels).predict_proba(pairs))


@pytest.mark.filterwarnings("ignore::skpref.exceptions.DataWarning", "ignore::sklearn.exceptions.ConvergenceWarning")
@settings(max_examples=max(40, settings.default.max_examples))
@given(rows=st.lists(st.tuples(IDS, IDS, IDS, LABELS), min_size=1, max_size=8), as_array=st.booleans())
def test_any_comparisons_of_users_give_probabilities(rows: Any, as_array: bool) -> None:
    triples: Any = [row[:3] for row in rows]
    triples = object_array(triples) if as_array else triples

    def results() -> tuple[Any, ...]:
        model = at.crowd(max_iter=20).fit(triples, [row[3] for row in rows])
        accuracy = model.annotators(n_samples=3)["accuracy"]
        return model.predict_proba(triples), model.utility(users=model.user_ids_), accuracy

    refused_by_the_table_or_finite(results)


@settings(max_examples=max(60, settings.default.max_examples))
@given(
    data=st.data(),
    dtype=st.sampled_from([dtype for dtype in DTYPES if dtype != "int32"]),
    inference=st.sampled_from(["ep", "laplace", "vb"]),
    wild_labels=st.booleans(),
)
def test_any_levels_give_probabilities(data: Any, dtype: str, inference: str, wild_labels: bool) -> None:
    n, d = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 3))
    cells = data.draw(st.lists(st.lists(CELLS, min_size=d, max_size=d), min_size=n, max_size=n))
    y = data.draw(st.lists(CLASSES if wild_labels else st.integers(0, 3), min_size=n, max_size=n))
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            rows = laid_out(cells, dtype, "C", writeable=False)
        except (OverflowError, ValueError):
            return  # numpy itself cannot make such an array
        refused_by_the_table_or_finite(lambda: at.ordinal(inference=inference).fit(rows, y).predict_proba(rows))


@pytest.mark.parametrize("size", [1e160, 1e300, 1e-300])
@pytest.mark.parametrize("kernel", [None, "auto", "ard"])
@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value", "ignore:divide by zero", "ignore:underflow")
def test_features_whose_squares_overflow(size: float, kernel: Any) -> None:
    model, rows = at.ordinal(kernel=kernel, optimizer="l-bfgs-b"), size * at.X
    refused_by_the_table_or_finite(lambda: model.fit(rows, at.LEVEL).predict_proba(rows))


@settings(max_examples=max(25, settings.default.max_examples))
@given(
    name=st.sampled_from(at.MACHINES),
    seed=st.integers(0, 2**32 - 1),
    shape=st.tuples(st.integers(2, 12), st.integers(1, 5)),
    exponent=st.integers(-200, 200),
    dtype=st.sampled_from([np.float64, np.float32, np.int8, bool]),
    in_csr=st.booleans(),
    batch_size=st.sampled_from([None, 2]),
)
def test_any_size_of_features_gives_finite_predictions(
    name: str, seed: int, shape: tuple[int, int], exponent: int, dtype: type, in_csr: bool, batch_size: int | None
) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal(shape)
    if dtype in {np.int8, bool}:
        rows = (20 * rows).astype(dtype)
    else:
        # scikit-learn itself warns where it meets infinities of both signs.
        largest = 30 if dtype is np.float32 else 200
        with np.errstate(under="ignore"):
            rows = (rows * 10.0 ** min(exponent, largest)).astype(dtype)
    y = np.arange(shape[0]) % 2 if name == "VariationalFMClassifier" else rng.standard_normal(shape[0])
    model = MAKERS[name](n_factors=2, max_iter=5, batch_size=batch_size)
    try:
        prediction = output(model.fit(sparse.csr_array(rows) if in_csr else rows, y), rows)
    except ValueError as error:
        assert re.search("overflow in interactions; scale X|no posterior in float64; scale X", str(error))  # noqa: PT017
    else:
        assert np.isfinite(prediction).all()
