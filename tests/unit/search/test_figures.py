"""Plots of a study: names as they are, and one that cannot be drawn costs a warning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from skpref.exceptions import TrackingWarning
from skpref.search import figures
from skpref.search.figures import figures_of

if TYPE_CHECKING:
    from pathlib import Path

optuna = pytest.importorskip("optuna")
pytest.importorskip("matplotlib")
PRICES = ["$5 (\\50% off $2)", "a\nb", "$\\frac{$"]


@pytest.fixture(scope="module")
def study() -> Any:
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    for _ in range(8):
        trial = study.ask()
        study.tell(trial, trial.suggest_float("$x$ ^{", 0.1, 1.0) + len(trial.suggest_categorical("p", PRICES)))
    return study


def test_names_and_settings_are_drawn_literally(study: Any, tmp_path: Path) -> None:
    drawn = figures_of(study)
    assert set(drawn) == {"history.png", "slices.png", "importances.png"}
    for name, figure in drawn.items():
        figure.savefig(tmp_path / name)
    axes = {ax.get_xlabel(): ax for ax in drawn["slices.png"].axes}
    assert set(axes) == {"$x$ ^{", "p"}
    labels = {tick.get_text() for tick in axes["p"].get_xticklabels()}
    assert labels <= {"$5 (\\50% off $2)", "a\\nb", "$\\frac{$"}
    (importances,) = drawn["importances.png"].axes
    assert {tick.get_text() for tick in importances.get_yticklabels()} == {"$x$ ^{", "p"}


def test_a_plot_that_fails_costs_a_warning(study: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise ValueError("no such font")

    monkeypatch.setattr(figures, "_slices", fails)
    with pytest.warns(TrackingWarning, match=r"slices\.png of the search is not drawn: no such font"):
        assert set(figures_of(study)) == {"history.png", "importances.png"}
