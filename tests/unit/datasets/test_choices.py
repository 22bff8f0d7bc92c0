"""Simulated choices: valid tasks, the law that they are drawn from, and what is refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skpref.data.tasks import read_answers
from skpref.datasets import make_choices
from skpref.exceptions import DataError
from tests.unit.data.stages import tasks_of


@given(st.integers(1, 5), st.integers(1, 6), st.integers(2, 7), st.booleans(), st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=30)
def test_choices_are_valid(n_users, n_tasks, n_shown, none, seed):
    data = make_choices(n_users, n_tasks, n_shown, none=none, random_state=seed)
    tasks = tasks_of(data.X)
    assert data.X.shape == (n_users * n_tasks, 1 + n_shown + none)
    assert tasks.present.all()
    assert read_answers(data.y, tasks).first.shape == (n_users * n_tasks,)
    assert (data.table.rows(data.X[:, 1:].ravel()) >= 0).all()
    assert data.part_worths.shape == (n_users, 4)
    assert ("none" in data.table.feature_names) == none
    again = make_choices(n_users, n_tasks, n_shown, none=none, random_state=seed)
    assert data.X.tolist() == again.X.tolist()
    assert data.y.tolist() == again.y.tolist()


def test_choices_follow_the_part_worths():
    data = make_choices(400, 10, 4, none=True, random_state=0)
    names = ["brand=x", "brand=y", "brand=z", "price"]
    columns = [data.table.feature_names.index(name) for name in names]
    features = data.table.features[data.table.rows(data.X[:, 1:].ravel())].reshape(4000, 5, -1)
    z = np.einsum("tkd,td->tk", features[:, :, columns], np.repeat(data.part_worths, 10, axis=0))
    z += np.where(features[:, :, data.table.feature_names.index("none")] == 1.0, -2.0, 0.0)
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    chosen = (data.X[:, 1:] == data.y[:, None]).astype(float)
    # Five standard errors of sums of choices, in each position and where the probability is high.
    for mask in (*np.eye(5, dtype=bool)[:, None], p > 0.5):
        weight = np.broadcast_to(mask, p.shape)
        assert abs(np.sum(weight * (chosen - p))) < 5.0 * np.sqrt(np.sum(weight * p * (1.0 - p)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_users": 0}, "n_users must be at least 1, got 0"),
        ({"n_tasks": 2.5}, "n_tasks must be a whole number, got 2.5"),
        ({"n_shown": 1}, "n_shown must be at least 2, got 1"),
        ({"n_shown": 8}, "n_shown must be at most 7, got 8"),
        ({"none": "yes"}, "none must be True or False, got 'yes'"),
    ],
)
def test_what_is_refused(options, message):
    with pytest.raises(DataError, match=message):
        make_choices(**options)
