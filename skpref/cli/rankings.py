"""Rankings of items and views of a crowd: text on the screen, and CSV files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from skpref.cli.output import write_csv
from skpref.cli.report import titled_table
from skpref.data.records import columns_of_report

if TYPE_CHECKING:
    from pathlib import Path

    from skpref._typing import Array, IntArray
    from skpref.gp.crowd import CrowdGPPL
    from skpref.gp.pairwise import GPPLClassifier

_ENDS = 5  # annotators at either end
_TIES = "  A tie counts as half a win here and in the log-loss; the accuracy leaves ties out."
_SAME = 1e-3  # distance from the consensus below which a user has no utilities of the user's own
_WITHOUT_RELIABILITY = (
    "  With covariates, reliabilities of users are not learnt; fit without --covariates to compare users."
)
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
_MATTERS = 0.01  # standard deviation, in units of the noise, below which a factor changes no answer


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
    columns = {**annotators, "n_labels": np.round(annotators["n_labels"], 1)}
    if n <= 2 * _ENDS:
        return "\n".join([titled_table(f"Annotators ({n})", _ANNOTATORS, columns), *without])
    most, least = (f"Annotators who agree {end} with the consensus ({_ENDS} of {n})" for end in ("most", "least"))
    first = titled_table(most, _ANNOTATORS, columns, range(_ENDS))
    last = titled_table(least, _ANNOTATORS, columns, range(n - 1, n - 1 - _ENDS, -1))
    return "\n".join([first, "", last, *without])


# --------------------------------------------------------------------------------------------------------------- files
def write_factors(model: CrowdGPPL, path: Path) -> None:
    """Write where each user stands on the factors that matter, the strongest first."""
    living = living_factors(model)
    rows = zip(model.user_ids_.tolist(), model.user_factors_[:, living].tolist(), strict=True)
    write_csv(path, ["user", *(f"factor_{d}" for d in living)], ([user, *values] for user, values in rows))
