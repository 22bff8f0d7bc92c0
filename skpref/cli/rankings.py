"""Rankings of items and views of a crowd: text on the screen, and plots."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from skpref.cli.output import complete
from skpref.cli.report import titled_table
from skpref.cli.tasks.figures import Files
from skpref.data.records import columns_of_report
from skpref.gp.crowd import CrowdGPPL
from skpref.gp.pairwise import GPPLClassifier
from skpref.metrics import Calibration
from skpref.plots import AnnotatorDisplay, PairCalibrationDisplay, RankingDisplay, SkillCurvesDisplay, offscreen_axes

_ENDS = 5  # annotators at either end
_TIES = "  A tie counts as half a win here and in the log-loss; the accuracy leaves ties out."
_NO_TIES = "Ties: P(tie) is predicted only by likelihoods with ties: skpref fit with --set likelihood=logit-ties"
_EFFECTS = {
    "covariate": "{name}",
    "effect ± std": "{effect:+.4g} ± {std:.2g}",
    "90 % interval": "{effect_low:+.4g} to {effect_high:+.4g}",
    "odds ratio": "{odds_ratio:.3f}",
}
_ANNOTATORS = {
    "user": "{user}",
    "labels": "{n_labels:g}",
    "agreement": "{agreement:.3f}",
    "P(agrees)": "{accuracy:.3f}",
    "90 % interval": "{accuracy_low:.3f} - {accuracy_high:.3f}",
    "distance": "{distance:.3f}",
}


def ties_text(answers: float | None) -> str:
    """Return how ties are scored; `answers` is the log-loss of left, tie and right, if P(tie) is predicted."""
    more = _NO_TIES if answers is None else f"Log-loss of the three answers left, tie and right: {answers:.4f}"
    return f"{_TIES}\n  {more}"


def ranking_text(ranking: Any, top: int, title: str = "Ranking") -> str:
    """Return the top of a ranking as a table."""
    n, elo = min(top, len(ranking)), ranking.scale == "elo"
    forms = {
        "rank": "{rank}",
        "item": "{id}",
        "Elo points ± std" if elo else "utility ± std": "{utility:.0f} ± {std:.0f}"
        if elo
        else "{utility:+.3f} ± {std:.3f}",
        "P(best)": "{probability_best:.3f}",
        "90 % of ranks": "{rank_low} - {rank_high}",
    }
    title += f", top {n} of {len(ranking)}" if n < len(ranking) else f" ({n})"
    return titled_table(title, forms, ranking.columns(), range(n))


def effects_text(model: GPPLClassifier | CrowdGPPL, title: str = "Effects of one unit more on the left side") -> str:
    """Return the effects of covariates and of the order as a table."""
    return titled_table(title, _EFFECTS, effects_of(model))


def effects_of(model: GPPLClassifier | CrowdGPPL) -> dict[str, Any]:
    """Return the columns of the table of effects."""
    return columns_of_report(model.covariate_table())


def factors_text(model: CrowdGPPL) -> str:
    """Return how much tastes differ from the consensus."""
    users, items = (np.mean(factors**2, axis=0) for factors in (model.user_factors_, model.item_factors_))
    strength = -np.sort(-np.sqrt(users * items))
    what = [f"{one:.3f}" for one in strength if one > 0.01]  # less changes no answer, in units of the noise
    lines = ["Standard deviations of utilities (answer noise = 1)"]
    lines.append(f"  consensus, over items: {np.std(model.utility(model.item_ids_)):.3f}")
    used = f"{len(what)} of {strength.size} in use: {', '.join(what)}" if what else f"none of {strength.size} in use"
    return "\n".join([*lines, f"  factors of personal taste{',' if what else ':'} {used}"])


def annotators_text(annotators: dict[str, Any]) -> str:
    """Return the users nearest to the consensus and farthest from it."""
    n, columns = len(annotators["user"]), {**annotators, "n_labels": np.round(annotators["n_labels"], 1)}
    # Users who are so near to the consensus have no utilities of their own.
    if "reliability" not in annotators and np.max(annotators["distance"], initial=0.0) < 1e-3:
        return f"Annotators ({n}): no personal differences were learnt, so they are not compared"
    if n <= 2 * _ENDS:
        return titled_table(f"Annotators ({n})", _ANNOTATORS, columns)
    most, least = (f"Annotators who agree {end} with the consensus ({_ENDS} of {n})" for end in ("most", "least"))
    first = titled_table(most, _ANNOTATORS, columns, range(_ENDS))
    return f"{first}\n\n{titled_table(least, _ANNOTATORS, columns, range(n - 1, n - 1 - _ENDS, -1))}"


# --------------------------------------------------------------------------------------------------------------- plots
def plots(
    model: GPPLClassifier | CrowdGPPL, ranking: Any, calibration: Calibration | None, annotators: dict[str, Any] | None
) -> Files:
    """Return what draws the ranking, the curves over time, the calibration and the annotators, by the file's name."""
    drawings: dict[str, tuple[float, Callable[[Any], Any]]] = {}
    if ranking is not None:
        n = min(20, len(ranking))  # items in the plot
        drawings["ranking.png"] = 1.2 + 0.28 * n, lambda ax: RankingDisplay.from_ranking(ranking, n_items=n, ax=ax)
    if model.time is not None:
        drawings["curves.png"] = 4.5, lambda ax: SkillCurvesDisplay.from_estimator(model, ax=ax)
    if calibration is not None:
        drawings["calibration.png"] = 4.5, lambda ax: PairCalibrationDisplay(calibration, "hold-out").plot(ax=ax)
    if annotators is not None:
        report = SimpleNamespace(**annotators)
        drawings["annotators.png"] = 4.5, lambda ax: AnnotatorDisplay.from_annotators(report, ax=ax)
    return {name: partial(_write_drawing, *drawing) for name, drawing in drawings.items()}


def _write_drawing(height: float, draw: Callable[[Any], Any], path: Path) -> None:
    with complete(path) as file:
        draw(offscreen_axes(height=height)).figure_.savefig(file, dpi=120, format="png")
