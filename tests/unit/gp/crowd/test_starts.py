"""Where the factorised posterior of CrowdGPPL starts: from a short consensus, and from an earlier fit."""

import numpy as np
import pytest

from skpref import SVI, CrowdGPPL
from skpref.gp.crowd import fit as crowd_fit
from skpref.gp.crowd import model as crowd_model

_rng = np.random.default_rng(0)
ROWS = np.column_stack([_rng.integers(0, 4, 60), (left := _rng.integers(0, 5, 60)), (left + 1 + left % 4) % 5])
Y = (ROWS[:, 1] + _rng.standard_normal(60) > ROWS[:, 2]).astype(int)


class StopHereError(Exception):
    """What a test needs has been recorded."""


def crowd(**options):
    defaults = {"n_factors": 4, "optimizer": None, "inference": "vb", "max_iter": 2, "random_state": 0}
    return CrowdGPPL(**{**defaults, **options})


@pytest.mark.parametrize(("options", "passes"), [({}, 5), ({"inference": SVI(20)}, 1)], ids=str)
def test_factors_are_added_after_a_few_passes_of_the_consensus(monkeypatch, options, passes):
    """One pass where there are many rows, for each then has many steps."""
    starts = []

    def record(problem, _state, schedule, _rng):
        assert not problem.products
        starts.append(schedule)
        raise StopHereError

    monkeypatch.setattr(crowd_model.svi, "fit", record)
    with pytest.raises(StopHereError):
        crowd(**options).fit(ROWS, Y)
    assert starts[0].max_iter == passes
    assert starts[0].on_iteration is None


@pytest.mark.filterwarnings("ignore:.*did not converge")
@pytest.mark.parametrize(("n_start", "n_waiting"), [(0, 0), (1, 0), (2, 0), (3, 1), (4, 2)])
def test_factors_wait_for_more_data_while_a_start_has_enough(monkeypatch, n_start, n_waiting):
    model = crowd().fit(ROWS, Y)
    model._alive = (0, 2)
    monkeypatch.setattr(crowd_fit, "_n_start_factors", lambda *_: n_start)
    waiting = []

    def record(*args):
        waiting.append(args[4])
        raise StopHereError

    monkeypatch.setattr(crowd_fit, "_fit_in_stages", record)
    monkeypatch.setattr(crowd_fit, "extend_state", lambda state, *_: state)
    with pytest.raises(StopHereError):
        model.partial_fit(ROWS[:5], Y[:5])
    assert waiting == [(1, 3)[:n_waiting]]
