"""Plots of a study: its history, which parameters mattered, and what each did."""

from __future__ import annotations

import importlib.util
import warnings
from numbers import Real
from typing import Any

import numpy as np

from skpref._text import printable
from skpref._warn import warn
from skpref.exceptions import TrackingWarning
from skpref.plots import offscreen_axes
from skpref.search.loop import quietly, require_optuna
from skpref.search.policy import POLICY

_COLOUR, _PALE = "#1f5fa8", "#9fbfe0"


def figures_of(study: Any) -> dict[str, Any]:
    """Return plots of a study without a screen; a plot that cannot be drawn causes a warning."""
    complete = [trial for trial in study.get_trials(deepcopy=False) if trial.state.name == "COMPLETE"]
    if importlib.util.find_spec("matplotlib") is None or not complete:
        return {}
    names = complete[0].params
    varied = [name for name in names if len({str(trial.params.get(name)) for trial in complete}) > 1]
    varied = varied[: POLICY.shown_parameters]
    drawings = {"history.png": lambda: _history(study, complete)}
    if varied and len(complete) >= POLICY.fewest_trials:
        drawings["slices.png"] = lambda: _slices(complete, varied)
        drawings["importances.png"] = lambda: _importances(study, varied)
    figures = {}
    for name, draw in drawings.items():
        try:
            figures[name] = draw()
        except Exception as error:  # noqa: BLE001 - no plot is worth a search
            warn(f"{name} of the search is not drawn: {error}", TrackingWarning)
    return figures


def _history(study: Any, complete: list[Any]) -> Any:
    """Score of every trial, and the best so far."""
    ax = offscreen_axes()
    numbers, values = [trial.number for trial in complete], [trial.value for trial in complete]
    trials = study.get_trials(deepcopy=False)
    pruned = [trial for trial in trials if trial.state.name == "PRUNED" and trial.value is not None]
    best = (np.maximum if study.direction.name == "MAXIMIZE" else np.minimum).accumulate(values)
    ax.plot(numbers, values, "o", color=_COLOUR, label="complete")
    if pruned:
        points = [trial.number for trial in pruned], [trial.value for trial in pruned]
        ax.plot(*points, "x", color=_PALE, label="pruned, so far")
    ax.step(numbers, best, where="post", color=_COLOUR, label="best so far")
    ax.set(xlabel="trial", ylabel="score", title="History")
    ax.legend()
    return ax.figure


def _slices(complete: list[Any], varied: list[str]) -> Any:
    """Score by each parameter."""
    columns = min(len(varied), 3)
    rows = -(-len(varied) // columns)
    figure = offscreen_axes(3.2 * columns, 2.6 * rows).figure
    figure.clear()
    for ax, name in zip(np.ravel(figure.subplots(rows, columns, sharey=True, squeeze=False)), varied, strict=False):
        trials = [trial for trial in complete if name in trial.params]
        settings, scores = [trial.params[name] for trial in trials], [trial.value for trial in trials]
        if all(isinstance(setting, Real) and not isinstance(setting, bool) for setting in settings):
            ax.plot(settings, scores, "o", color=_COLOUR, alpha=0.6)
            if getattr(trials[0].distributions[name], "log", False):
                ax.set_xscale("log")
        else:
            labels, places = np.unique([printable(setting) for setting in settings], return_inverse=True)
            ax.plot(places, scores, "o", color=_COLOUR, alpha=0.6)
            ax.set_xticks(range(len(labels)), labels.tolist(), parse_math=False)
        ax.set_xlabel(printable(name), parse_math=False)
    for ax in figure.axes[len(varied) :]:
        ax.remove()
    figure.supylabel("score")
    return figure


def _importances(study: Any, varied: list[str]) -> Any:
    """How much of being among the best each parameter explains."""
    optuna = require_optuna()
    with warnings.catch_warnings(), quietly():
        warnings.simplefilter("ignore")
        evaluator = optuna.importance.PedAnovaImportanceEvaluator()
        importances = optuna.importance.get_param_importances(study, evaluator=evaluator, params=varied)
    ax = offscreen_axes(7.0, 1.2 + 0.35 * len(importances))
    ax.barh(range(len(importances)), list(importances.values()), color=_COLOUR)
    ax.set_yticks(range(len(importances)), list(map(printable, importances)), parse_math=False)
    ax.invert_yaxis()  # the most important on top
    ax.set(xlabel="share", title="Importance of the parameters (PED-ANOVA)")
    return ax.figure
