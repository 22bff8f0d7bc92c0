"""Plots of a study: names as they are, and one that cannot be drawn costs a warning."""

import pytest

from skpref.exceptions import TrackingWarning
from skpref.search import figures
from skpref.search.figures import figures_of

optuna = pytest.importorskip("optuna")
PRICES = ["$5 (\\50% off $2)", "a\nb", "$\\frac{$"]


@pytest.fixture(scope="module")
def study():
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    for _ in range(8):
        trial = study.ask()
        study.tell(trial, trial.suggest_float("$x$ ^{", 0.1, 1.0) + len(trial.suggest_categorical("p", PRICES)))
    return study


def test_names_and_settings_are_drawn_literally(study, tmp_path):
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


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
def test_plots_show_all_trials(direction):
    study = optuna.create_study(direction=direction, sampler=optuna.samplers.RandomSampler(seed=0))
    log, plain = (optuna.distributions.FloatDistribution(1.0, 100.0, log=log) for log in (True, False))
    choice, flag = (optuna.distributions.CategoricalDistribution(c) for c in (["b", "a", "c"], [True, False]))
    space = {"log": log, "plain": plain, "choice": choice, "flag": flag, "same": plain}
    rows = [(2.0, 3.0, "b", True, 4), (8.0, 5.0, "c", False, 2), (1.0, 4.0, "a", True, 9), (3.0, 1.0, "b", True, 3)]
    for log_value, plain_value, kind, is_on, score in rows:
        params = {"log": log_value, "plain": plain_value, "choice": kind, "flag": is_on, "same": 2.0}
        if kind == "a":  # a parameter of other choices only
            del params["plain"]
        study.add_trial(
            optuna.trial.create_trial(params=params, distributions={k: space[k] for k in params}, value=score)
        )
        pruned = {"state": optuna.trial.TrialState.PRUNED, "intermediate_values": {1: 0.5 + score}}
        study.add_trial(optuna.trial.create_trial(**pruned, value=0.5 + score))
    drawn = figures_of(study)
    (history,) = drawn["history.png"].axes
    best = [4, 4, 9, 9] if direction == "maximize" else [4, 2, 2, 2]
    assert [(list(line.get_xdata()), list(line.get_ydata())) for line in history.lines] == [
        ([0, 2, 4, 6], [4, 2, 9, 3]),
        ([1, 3, 5, 7], [4.5, 2.5, 9.5, 3.5]),
        ([0, 2, 4, 6], best),
    ]
    assert history.lines[2].get_drawstyle() == "steps-post"
    assert [text.get_text() for text in history.get_legend().get_texts()] == [
        "complete",
        "pruned, so far",
        "best so far",
    ]
    axes = drawn["slices.png"].axes
    points = {ax.get_xlabel(): [list(map(float, xy)) for xy in ax.lines[0].get_xydata()] for ax in axes}
    assert points == {
        "log": [[2.0, 4.0], [8.0, 2.0], [1.0, 9.0], [3.0, 3.0]],
        "plain": [[3.0, 4.0], [5.0, 2.0], [1.0, 3.0]],
        "choice": [[1.0, 4.0], [2.0, 2.0], [0.0, 9.0], [1.0, 3.0]],  # a, b, c
        "flag": [[1.0, 4.0], [0.0, 2.0], [1.0, 9.0], [1.0, 3.0]],
    }
    assert [ax.get_xscale() for ax in axes] == ["log", "linear", "linear", "linear"]
    assert [tick.get_text() for tick in axes[2].get_xticklabels()] == ["a", "b", "c"]
    assert axes[0].get_subplotspec().get_gridspec().get_geometry() == (2, 3)
    (importances,) = drawn["importances.png"].axes
    widths = [bar.get_width() for bar in importances.patches]
    assert widths == sorted(widths, reverse=True)
    assert len(widths) == 4
    assert importances.yaxis_inverted()


def test_few_trials_have_a_history_alone():
    study = optuna.create_study()
    assert figures_of(study) == {}
    space = {"x": optuna.distributions.FloatDistribution(0.0, 9.0)}
    for k in range(4):
        study.add_trial(optuna.trial.create_trial(params={"x": float(k)}, distributions=space, value=float(k)))
        assert set(figures_of(study)) == (
            {"history.png"} if k < 3 else {"history.png", "slices.png", "importances.png"}
        )


def test_a_plot_that_fails_costs_a_warning(study, monkeypatch):
    def fails(*_):
        raise ValueError("no such font")

    figures_of(study)  # the first text of matplotlib 3.9 warns of pyparsing
    monkeypatch.setattr(figures, "_slices", fails)
    with pytest.warns(TrackingWarning, match=r"slices\.png of the search is not drawn: no such font"):
        assert set(figures_of(study)) == {"history.png", "importances.png"}
