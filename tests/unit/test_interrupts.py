"""Ctrl-C at any moment of a fit is KeyboardInterrupt, and searches stop."""

from __future__ import annotations

import signal
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV

from skpref import CrowdGPPL, GibbsM3F, GPOrdinalRegressor, GPPLClassifier, SVGPRegressor, VariationalFM
from skpref.datasets import make_crowd

if TYPE_CHECKING:
    from collections.abc import Iterator

# Fits of tenths of a second that are interrupted eight times each.
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs setitimer")]
RNG = np.random.default_rng(0)
CROWD = make_crowd(random_state=0)
PAIRS = RNG.permuted(np.tile(np.arange(40), (5_000, 1)), axis=1)[:, :2]
X = RNG.normal(size=(300, 4))
RATINGS = np.column_stack([RNG.integers(0, 60, 2_000), RNG.integers(0, 40, 2_000)])
FITS: dict[str, tuple[Any, Any, Any]] = {
    "crowd": (CrowdGPPL(random_state=0), CROWD.comparisons[:300], CROWD.y[:300]),
    "pairs": (GPPLClassifier(likelihood="logit", tol=1e-10), PAIRS, None),
    "levels": (GPOrdinalRegressor(), X[:50], np.digitize(X[:50, 0], [-0.5, 0.5])),
    "rows": (SVGPRegressor(inducing=30, random_state=0), X[:150], X[:150, 0] ** 2),
    "ratings": (
        GibbsM3F(max_iter=20, burn_in=5, duplicates="last", random_state=0),
        RATINGS,
        RNG.integers(1, 6, 2_000),
    ),
    "machine": (VariationalFM(max_iter=50, tol=0.0, random_state=0), X, X[:, 0] * X[:, 1]),
}


@contextmanager
def interrupted_after(seconds: float) -> Iterator[None]:
    """Raise KeyboardInterrupt, as Ctrl-C does, once some time of the processor has passed, however busy it is."""
    before = signal.signal(signal.SIGPROF, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


@pytest.mark.filterwarnings("ignore::Warning")
@pytest.mark.parametrize("name", FITS)
def test_an_interrupt_at_any_moment_is_one(name: str) -> None:
    model, rows, y = FITS[name]
    model.fit(rows, y)
    began = time.process_time()
    model.fit(rows, y)
    whole = time.process_time() - began
    n_interrupted = 0
    for share in np.linspace(0.02, 0.9, 8):
        try:
            with interrupted_after(share * whole):
                model.fit(rows, y)
        except KeyboardInterrupt:
            n_interrupted += 1
    assert n_interrupted >= 4  # the others had ended


@pytest.mark.filterwarnings("ignore::Warning")
def test_a_search_stops() -> None:
    model = FITS["crowd"][0]
    search = GridSearchCV(model, {"tol": [1e-2, 1e-3, 1e-4]}, cv=2)
    for seconds in (0.2, 0.5, 0.9):
        with pytest.raises(KeyboardInterrupt), interrupted_after(seconds):
            search.fit(CROWD.comparisons[:600], CROWD.y[:600])
