"""Goal differences as grades and as numbers: win, draw and loss of matches, beside ties alone and plain rivals.

::

    python benchmarks/margins.py --folder DATA

DATA has holland.csv (data-raw/ of github.com/jalapic/engsoccerdata), results.csv (github.com/martj42/
international_results) and nfl_games.csv (data/ of github.com/fivethirtyeight/nfl-elo-game). Of the Dutch league,
seasons 2000 to 2009, a random half of each season is learnt from and the other half predicted; of national teams, 2012
to 2015 are learnt from and 2016 is predicted; of American football, a random half of each season from 2000 to 2019 is
learnt from, with grades that end at 4, 8 and 15 points, and the winners of the others are predicted. The figure is the
mean log loss of win, draw and loss, in nats a match, and the difference from ``likelihood="logit-ties"`` with its
standard error. The double Poisson model has an attack and a defence of each team and a home advantage, with a ridge by
cross-validation.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.stats import poisson
from sklearn.linear_model import LogisticRegressionCV, PoissonRegressor
from sklearn.model_selection import GridSearchCV

from skpref import GPPLClassifier

Array = npt.NDArray[Any]
COLUMNS = {"left": "home", "right": "away", "covariates": ["at_home"]}
MOST_GOALS = 16


def double_poisson(matches: pd.DataFrame, rows: Array, goals: Array) -> Array:
    """Return the probabilities of win, draw and loss of the other matches, by goals of either side."""
    n, size = int(matches[["home", "away"]].to_numpy().max()) + 1, len(matches)
    design, row = np.zeros((2 * size, 2 * n + 1)), np.arange(size)
    design[row, matches.home] = design[row, n + matches.away] = 1.0
    design[size + row, matches.away] = design[size + row, n + matches.home] = 1.0
    design[row, -1] = matches.at_home
    learnt = np.tile(rows, 2)
    search = GridSearchCV(PoissonRegressor(max_iter=300), {"alpha": [0.003, 0.01, 0.03, 0.1, 0.3, 1.0]}, cv=5)
    mean = search.fit(design[learnt], goals.T.ravel()[learnt]).predict(design[~learnt]).reshape(2, -1)
    home, away = (poisson.pmf(np.arange(MOST_GOALS), part[:, None]) for part in mean)
    joint = home[:, :, None] * away[:, None, :]
    win, draw = (joint * np.tri(MOST_GOALS, k=-1)).sum(axis=(1, 2)), np.einsum("nkk->n", joint)
    return np.column_stack([win, draw, 1.0 - win - draw])


def losses(table: pd.DataFrame, rows: Array) -> dict[str, Array]:
    """Return the log loss of each match that is not learnt from, by model."""
    teams = np.unique(table[["home", "away"]])
    X = pd.DataFrame({side: np.searchsorted(teams, table[side]) for side in ("home", "away")})
    X["at_home"] = 1.0 - table.neutral.to_numpy(dtype=float)
    goals = table[["home_goals", "away_goals"]].to_numpy()
    margin = goals[:, 0] - goals[:, 1]
    answer = 1 - np.sign(margin)
    share = np.bincount(answer[rows], minlength=3) + 1.0
    p = {"shares": np.tile(share / share.sum(), (int(np.sum(~rows)), 1))}
    ties = GPPLClassifier(likelihood="logit-ties", **COLUMNS).fit(X[rows], 0.5 + 0.5 * np.sign(margin[rows]))
    p["logit-ties"] = ties.predict_proba(X[~rows], ties=True)
    for most in (2, 3, 4):
        graded = GPPLClassifier(likelihood="logit-graded", **COLUMNS).fit(X[rows], np.clip(margin[rows], -most, most))
        p[f"logit-graded, up to {most} goals"] = graded.predict_proba(X[~rows], ties=True)
    margins = GPPLClassifier(likelihood="margin", **COLUMNS).fit(X[rows], margin[rows])
    p["margin"] = margins.predict_proba(X[~rows], ties=True)
    sides = np.zeros((len(X), teams.size + 1))
    sides[np.arange(len(X)), X.home], sides[np.arange(len(X)), X.away], sides[:, -1] = 1.0, -1.0, X.at_home
    logistic = LogisticRegressionCV(Cs=np.logspace(-3, 1, 9), cv=5, scoring="neg_log_loss", max_iter=500)
    p["multinomial logistic regression"] = logistic.fit(sides[rows], answer[rows]).predict_proba(sides[~rows])
    p["double Poisson"] = double_poisson(X, rows, goals)
    return {name: -np.log(values[np.arange(len(values)), answer[~rows]]) for name, values in p.items()}


def league(folder: Path) -> dict[str, Array]:
    """Return losses of the Dutch league."""
    names = {"visitor": "away", "hgoal": "home_goals", "vgoal": "away_goals"}
    table = pd.read_csv(folder / "holland.csv").rename(columns=names).assign(neutral=0)
    seasons = [season.reset_index(drop=True) for _, season in table[table.Season.between(2000, 2009)].groupby("Season")]
    halves = [np.random.default_rng(int(season.Season[0])).random(len(season)) < 0.5 for season in seasons]
    parts = [losses(season, rows) for season, rows in zip(seasons, halves, strict=True)]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def nations(folder: Path) -> dict[str, Array]:
    """Return losses of national teams that played before 2016."""
    table = pd.read_csv(folder / "results.csv").dropna()
    table.columns = table.columns.str.replace("_team", "").str.replace("_score", "_goals")
    table = table[table.date.between("2012", "2017")].astype({"home_goals": int, "away_goals": int})
    rows = (table.date < "2016").to_numpy()
    kept = rows | table[["home", "away"]].isin(np.unique(table.loc[rows, ["home", "away"]])).all(axis=1).to_numpy()
    return losses(table[kept].reset_index(drop=True), rows[kept])


def american_football(folder: Path) -> dict[str, Array]:
    """Return losses of the seasons of the NFL, play-offs left out."""
    table = pd.read_csv(folder / "nfl_games.csv").rename(columns={"team1": "home", "team2": "away"})
    table = table[table.season.between(2000, 2019) & (table.playoff == 0)].assign(at_home=1.0 - table.neutral)
    parts: dict[str, list[Array]] = {}
    for number, season in table.groupby("season"):
        rows = np.random.default_rng(number).random(len(season)) < 0.5
        margin = (season.score1 - season.score2).to_numpy()
        sign, X = np.sign(margin), season[["home", "away", "at_home"]]
        test = ~rows & (sign != 0)  # most halves of a season have no tie to learn from
        parts.setdefault("shares", []).append(np.full(test.sum(), np.log(2.0)))
        grades = sign * (np.digitize(abs(margin), [4, 8, 15]) + 1)
        for name, y in (("logit-ties", 0.5 + 0.5 * sign), ("logit-graded", grades), ("margin", margin)):
            p = GPPLClassifier(likelihood=name, **COLUMNS).fit(X[rows], y[rows]).predict_proba(X[test], ties=True)
            p = p[:, ::2] / p[:, ::2].sum(axis=1, keepdims=True)
            parts.setdefault(name, []).append(-np.log(np.where(sign[test] > 0, p[:, 0], p[:, 1])))
    return {name: np.concatenate(part) for name, part in parts.items()}


def main(arguments: list[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True)
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    for title, read in (("Dutch league", league), ("national teams", nations), ("NFL", american_football)):
        found = read(options.folder)
        print(f"{title}, {len(found['shares'])} matches")
        for name, loss in found.items():
            worse = loss - found["logit-ties"]
            print(f"  {name:34s} {loss.mean():.4f}  {worse.mean():+.4f} ({worse.std() / np.sqrt(loss.size):.4f})")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
