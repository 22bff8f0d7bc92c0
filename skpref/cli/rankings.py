"""Rankings of items and views of a crowd: text on the screen, CSV files, plots."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from skpref.cli.output import complete, write_csv
from skpref.cli.report import cut, table
from skpref.plots import AnnotatorDisplay, BoundDisplay, PairCalibrationDisplay, RankingDisplay, offscreen_axes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from skpref._typing import Array, IntArray
    from skpref.cli.tasks.figures import Files
    from skpref.gp.crowd import CrowdGPPL
    from skpref.gp.pairwise import GPPLClassifier
    from skpref.metrics import Calibration

_SHOWN = 20  # items in the plot
_ENDS = 5  # annotators at either end
_TIES = "  A tie counts as half a win here and in the log-loss; the accuracy leaves ties out."
_SAME = 1e-3  # distance from the consensus below which a user has no utilities of the user's own
_WITHOUT_RELIABILITY = (
    "  With covariates, reliabilities of users are not learnt; fit without --covariates to compare users."
)
_NO_TIES = "Ties: P(tie) is predicted only by likelihoods with ties: skpref fit with --set likelihood=logit-ties"
_MATTERS = 0.01  # standard deviation, in units of the noise, below which a factor changes no answer


def ties_text(answers: float | None) -> str:
    """Return how ties are scored; `answers` is the log-loss of left, tie and right, if P(tie) is predicted."""
    more = _NO_TIES if answers is None else f"Log-loss of the three answers left, tie and right: {answers:.4f}"
    return f"{_TIES}\n  {more}"


def ranking_text(ranking: Any, top: int, title: str = "Ranking") -> str:
    """Return the top of a ranking as a table."""
    n, elo = min(top, len(ranking)), ranking.scale == "elo"
    form = "{:.0f} ± {:.0f}" if elo else "{:+.3f} ± {:.3f}"
    rows = [
        (
            str(ranking.rank[i]),
            cut(ranking.id[i]),
            form.format(ranking.utility[i], ranking.std[i]),
            f"{ranking.probability_best[i]:.3f}",
            f"{ranking.rank_low[i]} - {ranking.rank_high[i]}",
        )
        for i in range(n)
    ]
    title += f", top {n} of {len(ranking)}" if n < len(ranking) else f" ({n})"
    unit = "Elo points ± std" if elo else "utility ± std"
    return "\n".join([title, *table(("rank", "item", unit, "P(best)", "90 % of ranks"), rows)])


def effects_text(model: GPPLClassifier | CrowdGPPL) -> str:
    """Return the effects of covariates and of the order as a table."""
    columns = effects_of(model)
    names = ("name", "effect", "std", "effect_low", "effect_high", "odds_ratio")
    rows = [
        (cut(name), f"{effect:+.4g} ± {std:.2g}", f"{low:+.4g} to {high:+.4g}", f"{ratio:.3f}")
        for name, effect, std, low, high, ratio in zip(*(columns[name] for name in names), strict=True)
    ]
    return "\n".join(
        [
            "Effects of one unit more on the left side",
            *table(("covariate", "effect ± std", "90 % interval", "odds ratio"), rows),
        ]
    )


def columns_of_report(report: Any) -> dict[str, Any]:
    """Return the columns of a data frame, which a report is where pandas is installed, or of a record."""
    return dict(report.columns()) if callable(report.columns) else {name: report[name] for name in report.columns}


def effects_of(model: GPPLClassifier | CrowdGPPL) -> dict[str, Any]:
    """Return the columns of the table of effects."""
    return columns_of_report(model.covariate_table())


def factor_strengths(model: CrowdGPPL) -> Array:
    """Return what each factor gives to personal utilities, shape (n_factors,)."""
    users, items = (np.mean(factors**2, axis=0) for factors in (model.user_factors_, model.item_factors_))
    return np.asarray(np.sqrt(users * items))


def living_factors(model: CrowdGPPL) -> IntArray:
    """Return the factors that matter."""
    strength = factor_strengths(model)
    order = np.argsort(-strength, kind="stable")
    return order[strength[order] > _MATTERS]


def factors_text(model: CrowdGPPL) -> str:
    """Return how much tastes differ from the consensus."""
    living, strength = living_factors(model), factor_strengths(model)
    consensus = np.std(model.utility(model.item_ids_))
    lines = ["Standard deviations of utilities (answer noise = 1)", f"  consensus, over items: {consensus:.3f}"]
    if living.size:
        what = ", ".join(f"{strength[d]:.3f}" for d in living)
        lines.append(f"  factors of personal taste, {living.size} of {strength.size} in use: {what}")
    else:
        lines.append(f"  factors of personal taste: none of {strength.size} in use")
    return "\n".join(lines)


def annotators_text(annotators: dict[str, Any], *, covariates: bool = False, factors: bool = True) -> str:
    """Return the users nearest to the consensus and farthest from it; nobody where the model tells none apart."""
    n = len(annotators["user"])
    without = [_WITHOUT_RELIABILITY] if covariates and "reliability" not in annotators else []
    same = not factors or np.max(annotators["distance"], initial=0.0) < _SAME
    if same and "reliability" not in annotators:
        return "\n".join([f"Annotators ({n}): no personal differences were learnt, so they are not compared", *without])
    if n <= 2 * _ENDS:
        return "\n".join([f"Annotators ({n})", *_annotator_rows(annotators, range(n)), *without])
    most = [f"Annotators who agree most with the consensus ({_ENDS} of {n})"]
    least = [f"Annotators who agree least with the consensus ({_ENDS} of {n})"]
    most += _annotator_rows(annotators, range(_ENDS))
    least += _annotator_rows(annotators, range(n - 1, n - 1 - _ENDS, -1))
    return "\n".join([*most, "", *least, *without])


def _annotator_rows(annotators: dict[str, Any], rows: Iterable[int]) -> list[str]:
    header = ("user", "labels", "agreement", "P(agrees)", "90 % interval", "distance")
    cells = [
        (
            cut(annotators["user"][i]),
            f"{round(annotators['n_labels'][i], 1):g}",
            f"{annotators['agreement'][i]:.3f}",
            f"{annotators['accuracy'][i]:.3f}",
            f"{annotators['accuracy_low'][i]:.3f} - {annotators['accuracy_high'][i]:.3f}",
            f"{annotators['distance'][i]:.3f}",
        )
        for i in rows
    ]
    return table(header, cells)


# --------------------------------------------------------------------------------------------------------------- files
def write_factors(model: CrowdGPPL, path: Path) -> None:
    """Write where each user stands on the factors that matter, the strongest first."""
    living = living_factors(model)
    rows = zip(model.user_ids_.tolist(), model.user_factors_[:, living].tolist(), strict=True)
    write_csv(path, ["user", *(f"factor_{d}" for d in living)], ([user, *values] for user, values in rows))


def write_plot(display: Any, path: Path) -> None:
    """Write a plot that was drawn."""
    with complete(path) as whole:
        display.figure_.savefig(whole, dpi=120, format="png")


def plots(bounds: list[float], ranking: Any, calibration: Calibration, annotators: dict[str, Any] | None) -> Files:
    """Return what draws the fit, the ranking, the calibration and the annotators, by the name of the file."""
    shown = min(_SHOWN, len(ranking))
    drawings: dict[str, tuple[float, Callable[[Any], Any]]] = {
        "bound.png": (4.5, lambda ax: BoundDisplay(bounds, "fit of the final model").plot(ax=ax)),
        "ranking.png": (
            1.2 + 0.28 * shown,
            lambda ax: RankingDisplay.from_ranking(ranking, n_items=shown, ax=ax),
        ),
        "calibration.png": (4.5, lambda ax: PairCalibrationDisplay(calibration, "hold-out").plot(ax=ax)),
    }
    if annotators is not None:
        report = SimpleNamespace(**annotators)
        drawings["annotators.png"] = 4.5, lambda ax: AnnotatorDisplay.from_annotators(report, ax=ax)
    return {name: partial(_write_drawing, *drawing) for name, drawing in drawings.items()}


def _write_drawing(height: float, draw: Callable[[Any], Any], path: Path) -> None:
    write_plot(draw(offscreen_axes(height=height)), path)
