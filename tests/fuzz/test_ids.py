"""Ids, labels and ratings of any kind: estimators of comparisons and ratings, readers of tables, elicitation."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skpref import OneHotDesign, Table
from skpref.data import Vocabulary, from_matrix
from skpref.data.comparisons import from_labels, from_scores
from skpref.elicitation import Session
from tests.fuzz import strategies as drawn
from tests.fuzz.outcome import again, assert_learns_or_refuses, assert_sound, predict_or_refuse, refusal
from tests.unit.bad_inputs import places as at

pytestmark = pytest.mark.nightly
EXAMPLES = settings.default.max_examples

WIDTH = {"GPPLClassifier": 2, "CrowdGPPL": 3, "GibbsM3F": 2, "GibbsIPM3F": 2}
WITH_TABLES = ["GPPLClassifier(items)", "CrowdGPPL(items, users)", "CrowdGPPL(unknown_user='raise')"]
FITTED = st.sampled_from([*WIDTH, *WITH_TABLES])
METHODS = st.sampled_from(["fit", "fit", "partial_fit", "fold_in"])


def training(name):
    return at.TRAINING[name.split("(", maxsplit=1)[0]]


@st.composite
def ids_of(draw, name, n):
    """Any ids, or those of the training set with some replaced."""
    width = WIDTH[name.split("(", maxsplit=1)[0]]
    if draw(st.booleans()):
        return draw(drawn.id_tables(n, width))
    rows = [list(row) for row in training(name)[0][:n]]
    if drawn.is_unlikely(draw, 2):
        odd = draw(st.sampled_from(drawn.IDS[draw(st.sampled_from(sorted(drawn.IDS)))]))
        rows[draw(st.integers(0, n - 1))][draw(st.integers(0, width - 1))] = odd
    return rows


@settings(max_examples=4 * EXAMPLES)
@given(data=st.data(), name=FITTED, method=METHODS, n=st.integers(1, 8))
def test_any_ids_and_labels_are_learnt_from_or_refused(data, name, method, n):
    model = again(name)
    rows = data.draw(ids_of(name, n), "X")
    y = data.draw(st.sampled_from(["classes", "levels"]).flatmap(lambda kind: drawn.targets(kind, n)), "y")
    named = {"sample_weight": data.draw(drawn.weights(n), "sample_weight")}
    method = method if hasattr(model, method) else "fit"
    assert_learns_or_refuses(model, method, training(name)[0], rows, y, **named)


@settings(max_examples=3 * EXAMPLES)
@given(data=st.data(), name=FITTED, n=st.integers(1, 8))
def test_any_ids_get_probabilities_or_are_refused(data, name, n):
    predict_or_refuse(at.fitted(name), data.draw(ids_of(name, n), "X"))


def size(numbers):
    """Return how many rows to put beside numbers, which may be a single one or none."""
    try:
        return len(numbers)
    except TypeError:
        return 1


# What reads ids, rows or scores without a model, and how many columns of what it reads.
READERS = {
    "Table": lambda ids, numbers: Table(np.ones((size(numbers), 2)), ids).features,
    "Table.rows": lambda ids, numbers: at.ITEMS.rows(ids),
    "Vocabulary": lambda ids, numbers: Vocabulary(ids).encode(ids),
    "Vocabulary.from_columns": lambda ids, numbers: Vocabulary.from_columns(ids).encode(ids),
    "from_labels": lambda ids, numbers: from_labels(ids, [2] * size(numbers), numbers, 3).weight,
    "from_labels(y)": lambda ids, numbers: from_labels([0] * size(numbers), [1] * size(numbers), numbers, 3).y,
    "from_labels(user)": lambda ids, numbers: from_labels([0], [1], [1], 3, user=ids, n_users=3).y,
    "from_labels(n_items)": lambda ids, numbers: from_labels([0], [1], [1], ids).y,
    "from_scores": lambda ids, numbers: from_scores(numbers).weight,
    "from_scores(qid)": lambda ids, numbers: from_scores(numbers, ids).weight,
    "from_matrix(users)": lambda ids, numbers: from_matrix(np.ones((2, 1)), ids)[1],
    "OneHotDesign(users)": lambda ids, numbers: OneHotDesign(users=ids).fit([[0, 1]]).transform([[0, 1]]),
    "Session.user": lambda ids, numbers: Session(at.fitted("CrowdGPPL"), user=ids).ask(),
    "Session.candidates": lambda ids, numbers: Session(at.fitted("GibbsM3F"), ids, random_state=0).ask(),
    "utility": lambda ids, numbers: at.fitted("GPPLClassifier(items)").utility(ids),
    "utility(users)": lambda ids, numbers: at.fitted("CrowdGPPL(items, users)").utility(users=ids),
    "rank": lambda ids, numbers: list(at.fitted("GPPLClassifier").rank(ids, n_samples=5).columns().values())[1:],
    "annotators": lambda ids, numbers: at.fitted("CrowdGPPL").annotators(users=ids, n_samples=3)["accuracy"],
    "similar_users": lambda ids, numbers: at.fitted("CrowdGPPL").similar_users(ids)[1:],
    "similar_items": lambda ids, numbers: at.fitted("CrowdGPPL").similar_items(ids)[1:],
}
TABLE_READERS = {
    "OneHotDesign": lambda rows: OneHotDesign(implicit=True).fit(rows).transform(rows),
    "Session": lambda rows: Session(at.fitted("GPPLClassifier"), rows, random_state=0).ask(2),
    "Session of a crowd": lambda rows: Session(at.fitted("CrowdGPPL"), rows, user="u0", random_state=0).ask(2),
}


@settings(max_examples=3 * EXAMPLES)
@given(data=st.data(), reader=st.sampled_from(sorted(READERS)), n=st.integers(1, 6))
def test_any_column_is_read_or_refused(data, reader, n):
    table = data.draw(drawn.id_tables(n, 1), "ids")
    ids = table[:, 0] if isinstance(table, np.ndarray) and table.ndim == 2 and table.size else table
    if isinstance(table, list):
        ids = [row[0] for row in table]
    if data.draw(st.integers(1, 4)) == 4:
        ids = data.draw(st.sampled_from([value for pool in drawn.IDS.values() for value in pool]), "id")
    numbers = data.draw(drawn.targets("scores", n), "numbers")
    result, _ = refusal(lambda: READERS[reader](ids, numbers), ids, numbers)
    assert_sound(result)


@settings(max_examples=2 * EXAMPLES)
@given(data=st.data(), reader=st.sampled_from(sorted(TABLE_READERS)), n=st.integers(1, 6))
def test_any_pairs_of_ids_are_read_or_refused(data, reader, n):
    rows = data.draw(drawn.id_tables(n, 2), "rows")
    result, _ = refusal(lambda: TABLE_READERS[reader](rows), rows)
    assert_sound(result)


@settings(max_examples=2 * EXAMPLES)
@given(data=st.data(), shape=st.tuples(st.integers(1, 6), st.integers(1, 6)), is_sparse=st.booleans())
def test_any_matrix_of_ratings_is_read_or_refused(data, shape, is_sparse):
    dense = data.draw(drawn.held(data.draw(drawn.arrays(shape))), "dense")
    matrix = data.draw(drawn.sparse_matrices(shape), "sparse") if is_sparse else dense
    result, message = refusal(lambda: from_matrix(matrix), matrix)
    if message is None:
        assert len(result[0]) == len(result[1])
        assert is_sparse or not np.isnan(result[1]).any()


ANSWERED = {"GPPLClassifier": None, "CrowdGPPL": "u0", "GibbsM3F": None, "VariationalFM": None}


@settings(max_examples=EXAMPLES)
@given(data=st.data(), name=st.sampled_from(sorted(ANSWERED)), row=st.integers(-2, 12))
def test_any_answer_is_learnt_from_or_refused(data, name, row):
    candidates = at.X[:8] if name == "VariationalFM" else None
    session = Session(at.fitted(name), candidates, user=ANSWERED[name], random_state=0)
    session.ask(3)
    question = data.draw(st.just(row) | st.sampled_from(list(map(int, session.ask(3)))), "row")
    answer = data.draw(st.sampled_from(drawn.LABELS), "answer")
    _, message = refusal(lambda: session.tell({question: answer}))
    assert (message is None) == bool(session.answers_)
    assert_sound(session.ask(1))
    if candidates is None:
        estimates = session.estimates()
        assert_sound([estimates.value, estimates.low, estimates.high])
