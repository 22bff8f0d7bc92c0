"""The stages of a fit of factors: their number, which factors are dropped, and their priors; inference is scripted."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from skpref._events import Iteration
from skpref.gp.crowd import fit
from skpref.gp.crowd.model import negligible_factors
from skpref.inference.scale import FixedScale, GammaScale
from skpref.inference.svi import Schedule


def test_factors_are_checked_after_few_passes_and_then_after_every_eight():
    passes = [fit._passes_to_check(n) for n in (0, 1, 2, 3, 4, 5, 8, 15, 16)]
    assert passes == [1, 1, 2, 1, 4, 3, 8, 1, 8]


@pytest.mark.parametrize(
    ("inference", "n_comparisons", "n_factors", "wanted"),
    [
        ("auto", 2**21, 20, 4),  # four times these are the most entries of a full pass
        ("auto", 2**21 + 1, 20, 20),  # three are too few to be worth it
        ("auto", 2**20, 20, 8),
        ("auto", 2**20, 8, 8),
        ("auto", 2**20, 9, 8),
        ("auto", 10, 20, 20),
        ("vb", 2**21, 20, 20),
    ],
)
def test_factors_start_all_together_or_as_many_as_full_passes_allow(inference, n_comparisons, n_factors, wanted):
    config = SimpleNamespace(pair=SimpleNamespace(inference=inference), n_factors=n_factors)
    assert fit._n_start_factors(config, n_comparisons) == wanted


def test_priors_of_an_earlier_fit_are_kept_where_it_kept_factors():
    @dataclass
    class Config:
        prior_v: tuple[float, float] = (1.0, 2.0)
        prior_w: tuple[float, float] = (3.0, 4.0)

    v, w = GammaScale(5.0, 6.0, 50.0, 60.0), GammaScale(7.0, 8.0, 70.0, 80.0)
    for scales, wanted in (
        ({"v3": v, "w3": w, "order": GammaScale.prior(9.0, 9.0)}, Config((5.0, 6.0), (7.0, 8.0))),
        ({"f": v, "offset": w}, Config()),
        ({"v0": v, "w0": FixedScale(2.0)}, Config((5.0, 6.0))),
    ):
        assert fit._with_priors_of(SimpleNamespace(scales=scales), Config()) == wanted


def test_factors_of_little_effect_are_negligible():
    effects = np.array([[0.02, -0.02, 0.0, 0.0], [0.009, 0.009, 0.009, 0.009], [0.011, 0.011, -0.011, 0.011]])

    def side(values):
        return SimpleNamespace(rows=SimpleNamespace(matvec=lambda x: x), stacked=lambda x: x.reshape(values.shape))

    signs = np.array([[1.0], [-1.0], [2.0]])
    values = {"items": effects / signs, "users": np.ones_like(effects) * signs}
    problem = SimpleNamespace(products=[SimpleNamespace(sides={k: side(x) for k, x in values.items()})])
    state = SimpleNamespace(blocks={k: SimpleNamespace(mean=x.ravel()) for k, x in values.items()})
    assert negligible_factors(problem, state) == [1]
    assert negligible_factors(SimpleNamespace(products=()), state) == []


@dataclass(frozen=True)
class Model:
    alive: tuple[int, ...]

    def problem(self, _bases):
        return Problem(), frozenset()

    def scales(self):
        return {}


@dataclass(frozen=True)
class Problem:
    likelihood: str = "start"
    sides: Any = None

    def __post_init__(self):
        object.__setattr__(self, "sides", {})


def in_stages(monkeypatch, negligible, converged, **options):
    """The fit, and for each stage its most passes, the likelihood it starts with and its factors' state."""
    log = []

    def fitted(problem, state, schedule, _rng):
        k = len(log)
        log.append((schedule.max_iter, problem.likelihood, state))
        done = options.get("stops", {}).get(k, schedule.max_iter)
        for step in range(1, done + 1):
            if schedule.on_iteration:
                schedule.on_iteration(Iteration(step, schedule.max_iter, -1.0, 0.0))
        evaluation = SimpleNamespace(bound=7.0) if options.get("evaluates") else None
        bounds = [float(k)] * done
        return SimpleNamespace(
            bounds=bounds, state=state, converged=converged[k], likelihood=f"of stage {k}", evaluation=evaluation
        )

    found = iter(negligible)
    monkeypatch.setattr(fit.svi, "fit", fitted)
    monkeypatch.setattr(fit, "negligible_factors", lambda *_: next(found))
    monkeypatch.setattr(fit, "drop_factors", lambda _problem, state, dropped: f"{state} without {dropped}")
    monkeypatch.setattr(fit.svi, "evaluate", lambda *_: SimpleNamespace(sites=SimpleNamespace(gradient="slope")))
    monkeypatch.setattr(fit.svi, "initial_state", lambda *_, **__: "prior")
    monkeypatch.setattr(fit, "add_factors", lambda _p, state, prior, slope, _r: f"{state} and {prior} along {slope}")
    monkeypatch.setattr(fit, "_posterior", lambda *_: "posterior")
    schedule = Schedule(max_iter=options.get("max_iter", 30), on_iteration=options.get("on_iteration"))
    monkeypatch.setattr(fit, "_schedule", lambda *_: schedule)
    model = Model(options.get("alive", (0, 1, 2)))
    bases = None
    rng = np.random.default_rng(0)
    return fit._fit_in_stages(model, bases, Problem(), "start", options.get("waiting", ()), rng), log


def test_stages_go_on_until_nothing_is_negligible_and_all_converged(monkeypatch):
    end, log = in_stages(monkeypatch, [[], [1], [], [0]] + [[]] * 3, [False] * 4 + [True, False, True])
    assert [passes for passes, _, _ in log] == [1, 1, 2, 4, 8]
    assert [likelihood for _, likelihood, _ in log][1:] == [f"of stage {k}" for k in range(4)]
    assert log[2][2] == "start without [1]"
    assert log[4][2] == end.state == "start without [1] without [0]"
    assert end.alive == (2,)
    assert end.bounds == [0.0, 1.0, 2.0, 2.0, *[3.0] * 4, *[4.0] * 8]
    assert (end.bound, end.converged, end.likelihood) == (4.0, True, "of stage 4")


def test_waiting_factors_are_added_where_none_is_negligible(monkeypatch):
    end, log = in_stages(monkeypatch, [[]] * 5, [False, False, False, False, True], waiting=(3, 4), evaluates=True)
    assert [passes for passes, _, _ in log] == [1, 1, 2, 4, 8]
    assert [state for _, _, state in log] == ["start"] * 3 + ["start and prior along slope"] * 2
    assert end.alive == (0, 1, 2, 3, 4)
    assert end.bound == 7.0
    # At once where the first have converged; never where one of them is negligible.
    end, log = in_stages(monkeypatch, [[]] * 2, [True, True], waiting=(3,))
    assert [state for _, _, state in log] == ["start", "start and prior along slope"]
    end, log = in_stages(monkeypatch, [[2], []], [False, True], waiting=(3,))
    assert end.alive == (0, 1)


def test_a_fit_ends_at_its_most_passes_or_where_it_is_stopped(monkeypatch):
    events = []
    seconds = []
    end, log = in_stages(
        monkeypatch,
        [[]] * 9,
        [False] * 9,
        max_iter=6,
        on_iteration=lambda event: events.append((event.step, event.n_max)) or seconds.append(event.seconds),
    )
    assert [passes for passes, _, _ in log] == [1, 1, 2, 2]
    assert events == [(step, 6) for step in range(1, 7)]
    assert 0.0 <= min(seconds) <= max(seconds) < 60.0
    assert not end.converged
    end, log = in_stages(monkeypatch, [[]] * 9, [False] * 9, stops={2: 1})
    assert len(end.bounds) == 3
    # Without factors there is nothing to check.
    end, log = in_stages(monkeypatch, [[]], [True], alive=())
    assert [passes for passes, _, _ in log] == [30]
