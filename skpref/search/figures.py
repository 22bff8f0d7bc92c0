"""Plots of a study: its history, which parameters mattered, and what each did."""

from __future__ import annotations

import importlib.util
import warnings
from numbers import Real
from typing import Any

import numpy as np

from skpref.plots import offscreen_axes
from skpref.search.loop import quietly, require_optuna

_FEWEST = 4  # complete trials before anything can be said of parameters
_MOST = 12  # parameters that are shown
_COLOUR, _PALE = "#1f5fa8", "#9fbfe0"


def figures_of(study: Any) -> dict[str, Any]:
    """Return plots of a study, which nobody sees on a screen."""
    complete = [trial for trial in study.get_trials(deepcopy=False) if trial.state.name == "COMPLETE"]
    if importlib.util.find_spec("matplotlib") is None or not complete:
        return {}
    figures = {"history.png": _history(study, complete)}
    varied = [name for name in complete[0].params if len({str(one.params.get(name)) for one in complete}) > 1][:_MOST]
    if varied and len(complete) >= _FEWEST:
        figures["slices.png"] = _slices(complete, varied)
        figures["importances.png"] = _importances(study, varied)
    return figures


def _history(study: Any, complete: list[Any]) -> Any:
    """Score of every trial, and the best so far."""
    ax = offscreen_axes()
    numbers, values = [one.number for one in complete], [one.value for one in complete]
    pruned = [one for one in study.get_trials(deepcopy=False) if one.state.name == "PRUNED" and one.value is not None]
    best = (np.maximum if study.direction.name == "MAXIMIZE" else np.minimum).accumulate(values)
    ax.plot(numbers, values, "o", color=_COLOUR, label="complete")
    if pruned:
        ax.plot([one.number for one in pruned], [one.value for one in pruned], "x", color=_PALE, label="pruned, so far")
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
        known = [one for one in complete if name in one.params]
        where, values = [one.params[name] for one in known], [one.value for one in known]
        numeric = all(isinstance(one, Real) and not isinstance(one, bool) for one in where)
        ax.plot(where if numeric else [str(one) for one in where], values, "o", color=_COLOUR, alpha=0.6)
        if numeric and getattr(known[0].distributions[name], "log", False):
            ax.set_xscale("log")
        ax.set(xlabel=name)
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
        found = optuna.importance.get_param_importances(study, evaluator=evaluator, params=varied)
    ax = offscreen_axes(7.0, 1.2 + 0.35 * len(found))
    names = list(found)[::-1]
    ax.barh(names, [found[name] for name in names], color=_COLOUR)
    ax.set(xlabel="share", title="Importance of the parameters (PED-ANOVA)")
    return ax.figure
