"""Sessions in which the questions are tasks: several items are shown, and one is chosen."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.special import entr, softmax

from skpref import CrowdGPPL, GPPLClassifier
from skpref.datasets import make_choices
from skpref.elicitation import Session, select
from skpref.exceptions import DataError

N_ITEMS, K = 8, 4


def maxdiff(n_users=20, n_tasks=8, seed=0, spread=1.5):
    """Return tasks of a crowd, positions of what was chosen, and the utilities of all users and one newcomer."""
    rng = np.random.default_rng(seed)
    utilities = np.linspace(-spread, spread, N_ITEMS) + rng.normal(size=(n_users + 1, N_ITEMS))
    user = np.repeat(np.arange(n_users), n_tasks)
    shown = np.array([rng.choice(N_ITEMS, K, replace=False) for _ in user])
    z = utilities[user[:, None], shown] + rng.gumbel(size=shown.shape)
    items = np.array([f"item {k}" for k in range(N_ITEMS)], dtype=object)
    return np.column_stack([user.astype(object), items[shown]]), z.argmax(axis=1), utilities


@pytest.fixture(scope="module")
def crowd():
    X, y, _ = maxdiff()
    return CrowdGPPL(random_state=0).fit(X, y)


@pytest.fixture(scope="module")
def everybody():
    X, y, _ = maxdiff()
    return GPPLClassifier(likelihood="luce").fit(X[:, 1:], y)


def test_gains_are_the_mutual_information(everybody):
    tasks = [("item 0", "item 1", "item 2"), ("item 6", "item 7")]
    session = Session(everybody, tasks)
    draws = everybody.sample_utility([f"item {k}" for k in range(N_ITEMS)], 20_000, random_state=1)
    for row, rows in enumerate(([0, 1, 2], [6, 7])):
        p = softmax(draws[rows].T, axis=1)
        assert_allclose(session.belief_.probability[row, : len(rows)], p.mean(axis=0), atol=0.02)
        gain = entr(p.mean(axis=0)).sum() - entr(p).sum(axis=1).mean()
        assert session.belief_.gain[row] == pytest.approx(gain, rel=0.2, abs=1e-3)
    assert session.belief_.probability[1, 2:].tolist() == [0.0, 0.0]


def test_answers_move_utilities_of_the_person_alone(crowd):
    session = Session(crowd, random_state=0)
    before = dict(zip(session.estimates().ids, session.estimates().value, strict=True))
    row = int(session.ask()[0])
    task = session.candidates_[row]
    after = session.tell({row: 1}).estimates()
    value = dict(zip(after.ids, after.value, strict=True))
    assert value[task[1]] > before[task[1]]
    assert value[task[0]] < before[task[0]]
    assert (after.low < after.high).all()
    assert session.model_.user_ids_.size == crowd.user_ids_.size + 1
    assert crowd.user_ids_.size == 20  # the model of the session is a copy


@pytest.mark.statistical  # an average over simulated sessions
def test_chosen_questions_tell_more_than_random_ones():
    # Of items that far apart, many tasks have an answer that is known before it is given.
    X, y, utilities = maxdiff(n_users=40, n_tasks=10, spread=4.0)
    crowd, widths = CrowdGPPL(random_state=0).fit(X, y), {}
    for strategy in ("information", "random"):
        found = []
        for seed in range(3):
            rng, session = np.random.default_rng(seed), Session(crowd, strategy=strategy, random_state=seed)
            truth = utilities[-1] + 0.5 * rng.normal(size=N_ITEMS)
            for _ in range(4):
                row = int(session.ask()[0])
                shown = [int(item[-1]) for item in session.candidates_[row]]
                session.tell({row: int((truth[shown] + rng.gumbel(size=K)).argmax())})
            found.append(np.mean(session.estimates().high - session.estimates().low))
        widths[strategy] = np.mean(found)
    assert widths["information"] < widths["random"] - 0.02


def test_sessions_of_two_items_and_of_part_worths():
    rng = np.random.default_rng(0)
    X = np.array([rng.choice(5, 2, replace=False) for _ in range(60)])
    model = GPPLClassifier(likelihood="luce").fit(X.astype(str), X.argmax(axis=1))
    session = Session(model, [("0", "1"), ("3", "4")]).tell({0: 0}, unasked=True)
    assert session.estimates().ids == ["0", "1", "3", "4"]
    data = make_choices(n_users=10, random_state=0)
    model = CrowdGPPL(data.table, random_state=0).fit(data.X, data.y)
    rows = select(model, n=3, random_state=0)
    assert len(set(rows.tolist())) == 3


@pytest.mark.parametrize(
    ("candidates", "message"),
    [
        ([("item 0",)], "candidate 0 must show 2 to 4 items"),
        ([("item 0", "item 1"), tuple(f"item {k}" for k in range(5))], "candidate 1 must show 2 to 4 items"),
        (["item 0"], "candidate 0 must show 2 to 4 items"),
        ([("item 0", "item 99")], "unknown item 'item 99'"),
        ([("item 0", "item 0")], "shows an item twice"),
        ([], "no candidate left"),
        ("item 0", "candidates must be lists"),
        (3, "candidates must be lists"),
        ([("item 0", "item 1")] * 5001, "too many candidates"),
    ],
)
def test_wrong_candidates_are_refused(everybody, candidates, message):
    with pytest.raises(DataError, match=message):
        Session(everybody, candidates)


def test_candidates_may_be_an_array_or_a_frame(everybody):
    tasks = np.array([["item 0", "item 1", "item 2"], ["item 3", "item 4", "item 5"]], dtype=object)
    for candidates in (tasks, pd.DataFrame(tasks)):
        session = Session(everybody, candidates)
        assert session.candidates_ == [tuple(task) for task in tasks.tolist()]


@pytest.mark.parametrize("answer", [4, -1, "item 0", True, None, 0.5, np.nan])
def test_wrong_answers_are_refused(everybody, answer):
    session = Session(everybody, random_state=0)
    with pytest.raises(DataError, match="an answer must be the position of the item chosen"):
        session.tell({int(session.ask()[0]): answer})


def test_strategies_of_two_answers_are_refused(everybody):
    with pytest.raises(DataError, match="needs exactly two possible answers"):
        Session(everybody, strategy="mean").ask()
