"""What a job leaves behind: text on the screen, CSV files, plots and the model."""

from __future__ import annotations

import csv
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from skpref.persistence import save
from skpref.plots import AnnotatorDisplay, BoundDisplay, PairCalibrationDisplay, RankingDisplay, offscreen_axes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from skpref._typing import Array, IntArray
    from skpref.cli._job import Figures, Outcome
    from skpref.gp.crowd import CrowdGPPL
    from skpref.search import SearchResult, TrialRecord

_TOP = 10
_SHOWN = 20  # items in the plot
_ENDS = 5  # annotators at either end
_MATTERS = 0.01  # standard deviation, in units of the noise, below which a factor changes no answer
_LONGEST_ID = 40


# ---------------------------------------------------------------------------------------------------------------- text
def report(outcome: Outcome) -> str:
    """Return what the command prints.

    Parameters
    ----------
    outcome : Outcome
        Of the job.

    Returns
    -------
    str
        Several tables.
    """
    parts = [
        _search_text(outcome.result),
        _figures_text(outcome),
        _calibration_text(outcome.figures["tuned"]),
        ranking_text(outcome.ranking, _TOP, "Ranking" if outcome.annotators is None else "Ranking by the consensus"),
    ]
    if outcome.annotators is not None:
        parts += [_factors_text(outcome.model), _annotators_text(outcome.annotators)]
    if outcome.problem.profiles is not None:
        profiles = outcome.model.rank(outcome.problem.profiles)
        parts.append(ranking_text(profiles, len(profiles), "Ranking of typical items"))
    return "\n\n".join(parts)


def _search_text(result: SearchResult) -> str:
    states = [trial.state for trial in result.trials]
    counts = ", ".join(
        f"{states.count(state)} {state}" for state in ("complete", "pruned", "failed") if state in states
    )
    best, seconds = result.best, sum(trial.seconds for trial in result.trials)
    stopped = " (stopped by the user)" if result.interrupted else ""
    lines = [
        f"Search{stopped}: {len(states)} trials in {seconds:.0f} s ({counts})",
        f"  best: trial {best.number}, cross-validated log-loss {best.score:.4f}",
        f"  {settings_text(best.settings)}",
    ]
    first_error = next((trial.error for trial in result.trials if trial.error), "")
    return "\n".join([*lines, f"  first failure: {first_error}"] if first_error else lines)


def settings_text(settings: dict[str, Any]) -> str:
    """Return settings on one line.

    Parameters
    ----------
    settings : dict
        By name.

    Returns
    -------
    str
        Numbers with three digits.
    """
    return ", ".join(
        f"{name}={value:.3g}" if isinstance(value, float) else f"{name}={value}" for name, value in settings.items()
    )


def _figures_text(outcome: Outcome) -> str:
    problem = outcome.problem
    seen = "" if problem.user is None else ", of users with other comparisons among the latter"
    unit = seen if problem.group is None else f", split by {problem.group}"
    lines = [f"Hold-out ({outcome.n_test} comparisons, {outcome.n_train} to learn from{unit})"]
    rows = [
        (name, f"{f.accuracy:.3f}", f"{f.log_loss:.4f}", f"{f.calibration.expected_calibration_error:.3f}")
        for name, f in outcome.figures.items()
    ]
    return "\n".join(lines + _table(("", "accuracy", "log-loss", "calibration error"), rows))


def _calibration_text(figures: Figures) -> str:
    c = figures.calibration
    rows = [
        (f"{predicted:.3f}", f"{observed:.3f}", str(count))
        for predicted, observed, count in zip(c.mean_predicted, c.mean_observed, c.count, strict=True)
    ]
    header = ("predicted", "observed", "comparisons")
    return "\n".join(
        ["Calibration on the hold-out (probability that the left item is preferred)", *_table(header, rows)]
    )


def ranking_text(ranking: Any, top: int, title: str = "Ranking") -> str:
    """Return the top of a ranking as a table.

    Parameters
    ----------
    ranking : Ranking
        Best first.
    top : int
        How many items.
    title : str, default="Ranking"
        What stands above it.

    Returns
    -------
    str
        With uncertainties.
    """
    n = min(top, len(ranking))
    rows = [
        (
            str(ranking.rank[i]),
            _cut(str(ranking.id[i])),
            f"{ranking.utility[i]:+.3f} ± {ranking.std[i]:.3f}",
            f"{ranking.probability_best[i]:.3f}",
            f"{ranking.rank_low[i]} - {ranking.rank_high[i]}",
        )
        for i in range(n)
    ]
    title += f", top {n} of {len(ranking)}" if n < len(ranking) else f" ({n})"
    return "\n".join([title, *_table(("rank", "item", "utility ± std", "P(best)", "90 % of ranks"), rows)])


def factor_strengths(model: CrowdGPPL) -> Array:
    """Return what each factor gives to personal utilities.

    Parameters
    ----------
    model : CrowdGPPL
        Fitted.

    Returns
    -------
    ndarray of shape (n_factors,)
        Root mean square over users and items, in units of the answer noise.
    """
    users, items = (np.mean(factors**2, axis=0) for factors in (model.user_factors_, model.item_factors_))
    return np.asarray(np.sqrt(users * items))


def living_factors(model: CrowdGPPL) -> IntArray:
    """Return the factors that matter.

    Parameters
    ----------
    model : CrowdGPPL
        Fitted.

    Returns
    -------
    ndarray of int
        Their numbers, the strongest first.
    """
    strength = factor_strengths(model)
    order = np.argsort(-strength, kind="stable")
    return order[strength[order] > _MATTERS]


def _factors_text(model: CrowdGPPL) -> str:
    living, strength = living_factors(model), factor_strengths(model)
    consensus = np.std(model.utility(model.item_ids_))
    lines = [f"Views: the consensus has standard deviation {consensus:.3f} over items (answer noise = 1)"]
    if living.size:
        what = ", ".join(f"{strength[d]:.3f}" for d in living)
        lines.append(f"  factors by which personal views differ from it: {living.size} of {strength.size}, by {what}")
    else:
        lines.append(f"  none of {strength.size} factors matters: no personal views beside the consensus were found")
    if model.order_effect:
        mean, std = model.order_effect_
        lines.append(f"  advantage of the left side, shared by all: {mean:+.3f} ± {std:.3f}")
    return "\n".join(lines)


def _annotators_text(annotators: dict[str, Any]) -> str:
    n = len(annotators["user"])
    if n <= 2 * _ENDS:
        return "\n".join([f"Annotators ({n})", *_annotator_rows(annotators, range(n))])
    most = [f"Annotators who agree most with the consensus ({_ENDS} of {n})"]
    least = [f"Annotators who agree least with the consensus ({_ENDS} of {n})"]
    most += _annotator_rows(annotators, range(_ENDS))
    least += _annotator_rows(annotators, range(n - 1, n - 1 - _ENDS, -1))
    return "\n".join([*most, "", *least])


def _annotator_rows(annotators: dict[str, Any], rows: Iterable[int]) -> list[str]:
    header = ("user", "labels", "agreement", "P(agrees)", "90 % interval", "distance")
    cells = [
        (
            _cut(str(annotators["user"][i])),
            f"{annotators['n_labels'][i]:g}",
            f"{annotators['agreement'][i]:.3f}",
            f"{annotators['accuracy'][i]:.3f}",
            f"{annotators['accuracy_low'][i]:.3f} - {annotators['accuracy_high'][i]:.3f}",
            f"{annotators['distance'][i]:.3f}",
        )
        for i in rows
    ]
    return _table(header, cells)


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    cells = [tuple(header), *map(tuple, rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    texts = {"", "item", "user"}  # columns that are aligned to the left
    aligned = [
        [
            cell.ljust(width) if name in texts else cell.rjust(width)
            for name, cell, width in zip(header, row, widths, strict=True)
        ]
        for row in cells
    ]
    return ["  " + "  ".join(row) for row in aligned]


def _cut(name: str) -> str:
    return name if len(name) <= _LONGEST_ID else name[: _LONGEST_ID - 3] + "..."


# --------------------------------------------------------------------------------------------------------------- files
def write_files(outcome: Outcome, out: Path) -> list[Path]:
    """Write model, ranking, annotators and plots; the trials were written after the search.

    Parameters
    ----------
    outcome : Outcome
        Of the job.
    out : Path
        Folder.

    Returns
    -------
    list of Path
        What was written.
    """
    model, ranking, trials = out / "model.skpref", out / "ranking.csv", out / "trials.csv"
    save(outcome.model, model)
    write_ranking(outcome.ranking, ranking)
    return [model, ranking, trials, *_write_crowd(outcome, out), *_plots(outcome, out)]


def _write_crowd(outcome: Outcome, out: Path) -> list[Path]:
    """Annotators, and where each user stands on the factors that matter, the strongest first."""
    if outcome.annotators is None:
        return []
    annotators, factors, model = out / "annotators.csv", out / "factors.csv", outcome.model
    columns = {name: column.tolist() for name, column in outcome.annotators.items()}
    _write_csv(annotators, list(columns), zip(*columns.values(), strict=True))
    living = living_factors(model)
    rows = zip(model.user_ids_.tolist(), model.user_factors_[:, living].tolist(), strict=True)
    _write_csv(factors, ["user", *(f"factor_{d}" for d in living)], ([user, *values] for user, values in rows))
    return [annotators, factors]


def write_ranking(ranking: Any, path: Path) -> None:
    """Write a ranking as CSV.

    Parameters
    ----------
    ranking : Ranking
        Best first.
    path : Path
        File.
    """
    columns = ranking.columns()
    _write_csv(path, list(columns), zip(*(column.tolist() for column in columns.values()), strict=True))


def write_trials(trials: Sequence[TrialRecord], path: Path) -> None:
    """Write trials as CSV, a column a setting.

    Parameters
    ----------
    trials : sequence of TrialRecord
        In order.
    path : Path
        File.
    """
    names = list(dict.fromkeys(name for trial in trials for name in trial.settings))
    header = ["trial", "state", "log_loss", "folds", "seconds", *names, "error"]
    rows = (
        [
            t.number,
            t.state,
            t.score,
            len(t.scores),
            round(t.seconds, 3),
            *(t.settings.get(n, "") for n in names),
            t.error,
        ]
        for t in trials
    )
    _write_csv(path, header, rows)


def _write_csv(path: Path, header: Sequence[str], rows: Iterable[Iterable[Any]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def _plots(outcome: Outcome, out: Path) -> list[Path]:
    bounds, tuned = outcome.model.lower_bounds_, outcome.figures["tuned"]
    shown = min(_SHOWN, len(outcome.ranking))
    drawings: dict[str, tuple[float, Callable[[Any], Any]]] = {
        "bound.png": (4.5, lambda ax: BoundDisplay(bounds, "fit of the final model").plot(ax=ax)),
        "ranking.png": (
            1.2 + 0.28 * shown,
            lambda ax: RankingDisplay.from_ranking(outcome.ranking, n_items=shown, ax=ax),
        ),
        "calibration.png": (4.5, lambda ax: PairCalibrationDisplay(tuned.calibration, "hold-out").plot(ax=ax)),
    }
    if outcome.annotators is not None:
        report = SimpleNamespace(**outcome.annotators)
        drawings["annotators.png"] = 4.5, lambda ax: AnnotatorDisplay.from_annotators(report, ax=ax)
    for name, (height, draw) in drawings.items():
        draw(offscreen_axes(height=height)).figure_.savefig(out / name, dpi=120)
    return [out / name for name in drawings]
