"""Teams and groups: forecasts of whole seasons by the utilities of players, against ratings and teams as items.

::

    python benchmarks/teams.py                                                 # a simulated league of doubles
    python benchmarks/teams.py --games doubles.csv --left a,b --right c,d --time day --groups surface

A file has columns of the players of both sides, of the time, and `won`: 1 where the left side won. Every method is
fitted to the games before a season and predicts all of it, for the last half of `--seasons` equal parts of the time.
The step of Elo and the penalty of logistic regression are chosen on the season before these. TrueSkill and Weng-Lin
(openskill) are run at their defaults where they are installed. The table has the mean log-loss in nats, the difference
to the first method with its standard error over games, and CPU seconds of fits and of tuning.
"""

from __future__ import annotations

import argparse
import importlib.util
import warnings
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from _seasons import in_seasons, print_table, tuned
from scipy.sparse import coo_array
from scipy.special import expit, ndtr
from sklearn.linear_model import LogisticRegression

from skpref import GPPLClassifier

if TYPE_CHECKING:
    from _seasons import Method

    from skpref._typing import Array

_STEPS = 0.02, 0.05, 0.1, 0.15, 0.2, 0.3  # of Elo, in logits
_PENALTIES = 0.03, 0.1, 0.3, 1.0  # variances of utilities under logistic regression


def simulated(seed: int = 0) -> pd.DataFrame:
    """Return 3,000 games of doubles of 80 players, whose utilities move and differ on two surfaces."""
    rng, n, n_players = np.random.default_rng(seed), 3_000, 80
    skill = rng.normal(0.0, 0.6, n_players) + np.cumsum(rng.normal(0.0, 0.05, (30, n_players)), axis=0)
    of_surface = rng.normal(0.0, 0.4, (2, n_players))
    when, surface = np.sort(rng.uniform(0.0, 30.0, n)), rng.integers(2, size=n)
    chosen = np.array([rng.choice(n_players, 4, replace=False) for _ in range(n)])
    u = skill[when.astype(int)[:, None], chosen] + of_surface[surface[:, None], chosen]
    games = pd.DataFrame(chosen, columns=["a", "b", "c", "d"]).assign(day=when, surface=surface)
    return games.assign(won=rng.random(n) < expit(u @ [1.0, 1.0, -1.0, -1.0]))


class Games:
    """The columns of games."""

    def __init__(self, left: list[str], right: list[str], groups: list[str]) -> None:
        self.left, self.right, self.groups = left, right, groups

    def ours(self, *, moves: bool, groups: bool = False, as_items: bool = False) -> Method:
        """Return a `GPPLClassifier` of the players, or of whole teams as items."""

        def named(games: pd.DataFrame) -> pd.DataFrame:
            sides = {
                side: ["+".join(sorted(map(str, row))) for row in games[columns].to_numpy()]
                for side, columns in (("one", self.left), ("other", self.right))
            }
            return games.assign(**sides)

        def run(train: pd.DataFrame, test: pd.DataFrame) -> Array:
            left, right = ("one", "other") if as_items else (self.left, self.right)
            more: dict[str, Any] = {"time": "day" if moves else None, "groups": self.groups if groups else None}
            model = GPPLClassifier(left=left, right=right, likelihood="logit", **more)
            return np.asarray(model.fit(named(train), train.won).predict_proba(named(test))[:, 1])

        return run

    def logistic(self, C: float) -> Method:
        """Return logistic regression on indicators of the players."""

        def run(train: pd.DataFrame, test: pd.DataFrame) -> Array:
            columns = [*self.left, *self.right]
            _, place = np.unique(pd.concat([train, test])[columns].to_numpy().astype(str), return_inverse=True)
            place = place.reshape(-1, len(columns))
            sign = np.repeat([1.0, -1.0], [len(self.left), len(self.right)])
            row = np.arange(place.size) // len(columns)
            X = coo_array((np.tile(sign, len(place)), (row, place.ravel()))).tocsr()
            model = LogisticRegression(C=C, fit_intercept=False, max_iter=1_000).fit(X[: len(train)], train.won)
            return np.asarray(model.predict_proba(X[len(train) :])[:, 1])

        return run

    def elo(self, step: float) -> Method:
        """Return Elo, in which a team has the sum of its players' ratings."""

        def run(train: pd.DataFrame, test: pd.DataFrame) -> Array:
            rating: dict[Any, float] = {}

            def ahead(left: list[Any], right: list[Any]) -> float:
                return sum(rating.get(p, 0.0) for p in left) - sum(rating.get(p, 0.0) for p in right)

            for left, right, won in self._rows(train):
                miss = step * (won - expit(ahead(left, right)))
                for team, sign in ((left, 1.0), (right, -1.0)):
                    for player in team:
                        rating[player] = rating.get(player, 0.0) + sign * miss
            return np.asarray(expit(np.array([ahead(left, right) for left, right, _ in self._rows(test)])))

        return run

    def trueskill(self) -> Method:
        """Return TrueSkill at its defaults."""
        import trueskill

        env = trueskill.TrueSkill(draw_probability=0.0)

        def run(train: pd.DataFrame, test: pd.DataFrame) -> Array:
            rating: dict[Any, Any] = {}
            for left, right, won in self._rows(train):
                teams = [[rating.get(p, env.create_rating()) for p in team] for team in (left, right)]
                for team, new in zip((left, right), env.rate(teams, [1 - won, won]), strict=True):
                    rating.update(zip(team, new, strict=True))
            out = []
            for left, right, _ in self._rows(test):
                one, other = ([rating.get(p, env.create_rating()) for p in team] for team in (left, right))
                spread = sum(r.sigma**2 + env.beta**2 for r in [*one, *other])
                out.append((sum(r.mu for r in one) - sum(r.mu for r in other)) / np.sqrt(spread))
            return np.asarray(ndtr(np.array(out)))

        return run

    def weng_lin(self) -> Method:
        """Return the Bradley-Terry model with full pairs of Weng and Lin at its defaults."""
        from openskill.models import BradleyTerryFull

        model = BradleyTerryFull()

        def run(train: pd.DataFrame, test: pd.DataFrame) -> Array:
            rating: dict[Any, Any] = {}

            def team_of(players: list[Any]) -> list[Any]:
                return [rating.setdefault(p, model.rating()) for p in players]

            for left, right, won in self._rows(train):
                new = model.rate([team_of(left), team_of(right)], ranks=[1 - won, won])
                for team, ratings in zip((left, right), new, strict=True):
                    rating.update(zip(team, ratings, strict=True))
            rows = self._rows(test)
            return np.array([model.predict_win([team_of(left), team_of(right)])[0] for left, right, _ in rows])

        return run

    def _rows(self, games: pd.DataFrame) -> list[tuple[list[Any], list[Any], int]]:
        sides = (games[columns].to_numpy().tolist() for columns in (self.left, self.right))
        return list(zip(*sides, games.won.astype(int).tolist(), strict=True))


def compare(table: pd.DataFrame, of: Games, n_seasons: int) -> None:
    """Print a table of the methods."""
    games = in_seasons(table, "day", n_seasons)
    tested = list(range(n_seasons // 2, n_seasons))
    best = partial(tuned, games=games, seasons=[tested[0] - 1])
    is_team = len(of.left) > 1
    methods = {
        "players over time": lambda: of.ours(moves=True),
        "players over time, groups": lambda: of.ours(moves=True, groups=True),
        "players": lambda: of.ours(moves=False),
        "players, groups": lambda: of.ours(moves=False, groups=True),
        **({"teams as items over time": lambda: of.ours(moves=True, as_items=True)} if is_team else {}),
        "logistic regression": lambda: best(of.logistic, [(value,) for value in _PENALTIES]),
        "Elo": lambda: best(of.elo, [(value,) for value in _STEPS]),
        **({"TrueSkill": of.trueskill} if importlib.util.find_spec("trueskill") else {}),
        **({"Weng-Lin": of.weng_lin} if importlib.util.find_spec("openskill") else {}),
    }
    players = np.unique(games[[*of.left, *of.right]].to_numpy().astype(str)).size
    print(f"{len(games)} games of {players} players, {int(np.isin(games.season, tested).sum())} predicted")
    print_table(methods, games, tested)


def main() -> None:
    """Compare on a simulated league, or on the games of a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", help="a CSV file")
    for role, usual in (("left", "a,b"), ("right", "c,d"), ("groups", "surface")):
        parser.add_argument(f"--{role}", default=usual)
    parser.add_argument("--time", default="day")
    parser.add_argument("--seasons", type=int, default=16)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    games = simulated() if options.games is None else pd.read_csv(options.games, parse_dates=[options.time])
    columns = (getattr(options, role).split(",") for role in ("left", "right", "groups"))
    compare(games.rename(columns={options.time: "day"}), Games(*columns), options.seasons)


if __name__ == "__main__":
    main()
