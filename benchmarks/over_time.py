"""Skills that move: forecasts of whole seasons, against the model that does not move, decayed weights and Elo.

::

    python benchmarks/over_time.py                                            # four simulated leagues
    python benchmarks/over_time.py --games nfl.csv --left team1 --right team2 --time date --winner result1

Every method is fitted to the games before a season and predicts all of that season, for the last three of `--seasons`
equal parts of the time. Half-lives, the step of Elo and, with ``--peers``, the parameters of Glicko-2 and of other
packages that are installed (kickscore, TrueSkill Through Time, whole-history rating, openskill) are chosen on the two
seasons before these. The table has the mean log-loss in nats, the difference to the first method with its standard
error over games, and CPU seconds of the fits to the seasons that are tested, and of tuning.
"""

from __future__ import annotations

import argparse
import warnings
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from _over_time_peers import peers
from _seasons import in_seasons, print_table, tuned
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from skpref import GPPLClassifier
from skpref.data import from_winners
from skpref.data.columns import Columns
from skpref.data.times import read_times

if TYPE_CHECKING:
    from _seasons import Method

    from skpref._typing import Array

_TESTED = 3  # seasons
_HALF_LIVES = 0.05, 0.1, 0.2, 0.5, 1.0  # of the time of all games
_STEPS = 0.02, 0.05, 0.1, 0.2, 0.4  # of Elo, in logits


def simulated(form: float, drift: float, n_items: int, career: float, seed: int) -> pd.DataFrame:
    """Return 6,000 games over 10 years of items that come and go where there is a career."""
    rng, n = np.random.default_rng(seed), 6_000
    grid = np.linspace(0.0, 10.0, 1_001)
    step = np.diff(grid)[0]
    phi, noise = np.exp(-step / 1.5), rng.normal(size=(2, n_items, grid.size))
    walk, ups = np.cumsum(noise[0], axis=1) * drift * np.sqrt(step), noise[1].copy()
    for k in range(1, grid.size):
        ups[:, k] = phi * ups[:, k - 1] + np.sqrt(1.0 - phi**2) * noise[1][:, k]
    debut = rng.uniform(0.0, 8.0, n_items) if career else np.zeros(n_items)
    age = np.maximum(grid - debut[:, None], 0.0)
    u = rng.normal(0.0, 0.7, (n_items, 1)) + walk + form * ups + career * (np.sqrt(age) - 0.2 * age)
    when = np.sort(rng.uniform(0.0, 10.0, n))
    active = [np.flatnonzero((debut <= t) & (t < debut + (3.0 if career else np.inf))) for t in when]
    kept = np.array([len(each) > 1 for each in active])
    left, right = np.array([rng.choice(active[k], 2, replace=False) for k in np.flatnonzero(kept)]).T
    at = np.searchsorted(grid, when[kept])
    won = rng.random(left.size) < expit(u[left, at] - u[right, at] + 0.3)
    return pd.DataFrame({"left": left, "right": right, "when": when[kept], "won": won.astype(float)})


def moving(time: str | None = None) -> Method:
    """Return a method that fits and predicts a `GPPLClassifier`."""

    def run(train: pd.DataFrame, test: pd.DataFrame) -> Array:
        model = GPPLClassifier(left="left", right="right", likelihood="logit", order_effect=True, time=time)
        return model.fit(train, train.won).predict_proba(test)[:, 1]

    return run


def decayed(half_life: float) -> Method:
    """Return logistic regression on indicators of the items, with weights that fall by half in a share of the time."""

    def design(games: pd.DataFrame, items: Array) -> Array:
        out = np.zeros((len(games), items.size))
        for side, sign in (("left", 1.0), ("right", -1.0)):
            place = np.searchsorted(items, games[side])
            known = (place < items.size) & (items[np.minimum(place, items.size - 1)] == games[side])
            out[np.flatnonzero(known), place[known]] += sign
        return out

    def run(train: pd.DataFrame, test: pd.DataFrame) -> Array:
        items = np.unique(train[["left", "right"]])
        weight = 0.5 ** ((train.when.max() - train.when) / half_life)
        model = LogisticRegression(C=1.0, max_iter=1_000).fit(design(train, items), train.won, weight)
        return np.asarray(model.predict_proba(design(test, items))[:, 1])

    return run


def elo(step: float) -> Method:
    """Return Elo with a learnt advantage of the left side."""

    def run(train: pd.DataFrame, test: pd.DataFrame) -> Array:
        rating: dict[Any, float] = {}
        side = 0.0
        for left, right, won in zip(train.left, train.right, train.won, strict=True):
            miss = won - expit(rating.get(left, 0.0) - rating.get(right, 0.0) + side)
            rating[left] = rating.get(left, 0.0) + step * miss
            rating[right] = rating.get(right, 0.0) - step * miss
            side += 0.1 * step * miss
        z = [rating.get(a, 0.0) - rating.get(b, 0.0) + side for a, b in zip(test.left, test.right, strict=True)]
        return np.asarray(expit(np.array(z)))

    return run


def compare(name: str, games: pd.DataFrame, n_seasons: int, *, with_peers: bool) -> None:
    """Print a table of the methods."""
    start, span = games.when.min(), games.when.max() - games.when.min()
    games = in_seasons(games, "when", n_seasons)
    tested = list(range(n_seasons - _TESTED, n_seasons))
    shares = [(span * share,) for share in _HALF_LIVES]
    to_tune = {"logistic regression, decayed": (decayed, shares), "Elo": (elo, [(step,) for step in _STEPS])}
    to_tune |= peers(span, start) if with_peers else {}
    methods = {"GPPLClassifier(time=)": lambda: moving(time="when"), "GPPLClassifier": moving}
    methods |= {
        label: partial(tuned, make, values, games, [tested[0] - 2, tested[0] - 1])
        for label, (make, values) in to_tune.items()
    }
    print(f"{name}: {len(games)} games, {np.unique(games[['left', 'right']]).size} items")
    print_table(methods, games, tested)


def main() -> None:
    """Compare on simulated leagues, or on the games of a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", help="a CSV file")
    for role in ("left", "right", "time", "winner"):
        parser.add_argument(f"--{role}", default=role)
    parser.add_argument("--seasons", type=int, default=15)
    parser.add_argument("--peers", action="store_true", help="also other packages, of which fits may take minutes")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.games is None:
        leagues = {
            "level": (0.0, 0.0, 20, 0.0),
            "form": (0.8, 0.0, 20, 0.0),
            "drift and form": (0.5, 0.3, 60, 0.0),
            "careers": (0.3, 0.1, 300, 1.5),
        }
        for seed, (name, numbers) in enumerate(leagues.items()):
            compare(name, simulated(*numbers, seed), options.seasons, with_peers=options.peers)
        return
    table = pd.read_csv(options.games)
    rows = from_winners(table, options.left, options.right, options.winner)
    when, _ = read_times(Columns.of(table), options.time)
    games = pd.DataFrame({"left": rows.X[:, 0], "right": rows.X[:, 1], "when": when, "won": rows.y})
    compare(options.games, games[games.won != 0.5], options.seasons, with_peers=options.peers)


if __name__ == "__main__":
    main()
