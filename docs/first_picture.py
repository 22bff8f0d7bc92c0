"""Draw the three pictures of README.md and of the first page, and simulate the tables they are drawn from.

::

    python docs/first_picture.py               # writes docs/_static/{arena,conjoint,league}.png
    python docs/first_picture.py --tables      # writes docs/examples/{battles,cars,games}.csv
    python docs/first_picture.py --draws 20    # prints the share of intervals that hold the truth, over 20 such arenas

All is simulated, so that the truth is known. In the arena, judges like long answers and the answer on the left, each
has a taste and calls ties in his or her own way, and one model gets worse on 1 July. The people of the conjoint study
have part-worths of their own, and the skills of the clubs of the league move from month to month.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skpref import CrowdGPPL, GPPLClassifier
from skpref.data import from_results, from_tasks, from_winners
from skpref.datasets import make_arena
from skpref.exceptions import DataWarning
from skpref.plots import ShareCurvesDisplay, SharesDisplay, SkillCurvesDisplay

DOCS = Path(__file__).resolve().parent
NAMES = make_arena(6).names
STRENGTHS = make_arena(6).utilities  # before 1 July
CHANGED, CHANGE, FALL = 1, pd.Timestamp("2025-07-01"), 1.0  # the model that gets worse, when, and by how much
BATTLES, STUDY, LEAGUE = 1, 1, 1  # seeds of the tables
HELD, MISSED = "#1f6fb4", "#d1495b"

BRANDS, ENGINES = ["american", "german", "japanese"], ["petrol", "hybrid", "electric"]
OFFERS = {
    "petrol": {"brand": "american", "engine": "petrol", "price": 20, "cost": 12},
    "hybrid": {"brand": "japanese", "engine": "hybrid", "price": 23, "cost": 9},
    "electric": {"brand": "american", "engine": "electric", "price": 30, "cost": 6},
}
PRICES = np.linspace(15.0, 35.0, 11)  # of the electric car, in thousands
CLUBS = np.array(["Alder", "Birch", "Cedar", "Elm", "Hazel", "Maple", "Oak", "Willow"])
MONTHS = pd.date_range("2005-01-01", "2028-01-01", freq="MS")


def strengths(date: pd.Timestamp) -> np.ndarray:
    """Return the true strengths on a date, relative to their average, shape (6,)."""
    now = STRENGTHS - FALL * ((np.arange(NAMES.size) == CHANGED) & (date >= CHANGE))
    return now - now.mean()


def simulate(seed: int, n: int = 1000, n_judges: int = 10) -> pd.DataFrame:
    """Return the battles of a year in the order of time."""
    rng = np.random.default_rng(seed)
    length = rng.permutation(np.linspace(200.0, 400.0, NAMES.size))
    taste = 0.3 * rng.normal(size=(n_judges, NAMES.size))
    bias, threshold = 0.3 + 0.3 * rng.normal(size=n_judges), 0.5 * np.exp(0.5 * rng.normal(size=n_judges))
    a, judge = rng.integers(NAMES.size, size=n), rng.integers(n_judges, size=n)
    b = (a + rng.integers(1, NAMES.size, size=n)) % NAMES.size
    date = pd.Timestamp("2025-01-01") + pd.to_timedelta(np.sort(rng.integers(0, 365, n)), "D")
    words = np.maximum(length[[a, b]] + 80.0 * rng.normal(size=(2, n)), 20.0).round().astype(int)
    left, right = (
        STRENGTHS[side] - FALL * ((side == CHANGED) & (date >= CHANGE)) + taste[judge, side] for side in (a, b)
    )
    z = left - right + 0.005 * (words[0] - words[1]) + bias[judge] + rng.logistic(size=n)
    winner = np.where(np.abs(z) < threshold[judge], "tie", np.where(z > 0.0, "model_a", "model_b"))
    table = {"date": date, "judge": judge, "model_a": NAMES[a], "model_b": NAMES[b], "winner": winner}
    return pd.DataFrame(table | {"words_a": words[0], "words_b": words[1]})


def draw_people(seed: int, n_people: int = 80) -> np.ndarray:
    """Return the part-worths of people: of brands, engines, price and cost a mile, shape (n_people, 8)."""
    mean = np.array([0.3, 0.0, 0.2, 0.6, 0.3, -0.5, -0.12, -0.10])
    spread = np.array([0.6, 0.6, 0.6, 0.8, 0.5, 1.0, 0.06, 0.06])
    return mean + spread * np.random.default_rng(seed).normal(size=(n_people, mean.size))


def prefer(people: np.ndarray, cars: pd.DataFrame) -> np.ndarray:
    """Return the true utilities of cars, shape (n_people, n_cars)."""
    levels = [
        cars[name].to_numpy() == level for name, words in (("brand", BRANDS), ("engine", ENGINES)) for level in words
    ]
    return people @ np.array([*levels, cars["price"], cars["cost"]], dtype=float)


def share(people: np.ndarray, cars: pd.DataFrame) -> np.ndarray:
    """Return the true shares of cars that compete."""
    z = np.exp(prefer(people, cars))
    return np.mean(z / z.sum(axis=1, keepdims=True), axis=0)


def simulate_choices(seed: int, n_tasks: int = 12) -> pd.DataFrame:
    """Return a conjoint study: people who choose among three cars, a row for each car shown."""
    people, rng = draw_people(seed), np.random.default_rng([seed, 1])
    person, task, _ = np.indices((len(people), n_tasks, 3)).reshape(3, -1)
    price = rng.permuted(np.tile(np.arange(15, 36), (len(person) // 3, 1)), axis=1)[:, :3]  # no two cars are equal
    cars = pd.DataFrame({"person": person + 1, "task": task + 1})
    for name, values in (("brand", BRANDS), ("engine", ENGINES), ("cost", range(6, 16))):
        cars[name] = rng.choice(values, len(cars))
    cars["price"] = price.ravel()
    z = prefer(people, cars)[person, np.arange(len(cars))] + rng.gumbel(size=len(cars))
    z = z.reshape(-1, 3)
    return cars.assign(chosen=(z == z.max(axis=1, keepdims=True)).astype(int).ravel())


def skills(seed: int) -> np.ndarray:
    """Return the true skills of clubs in each month, relative to their average, shape (n_clubs, n_months)."""
    rng = np.random.default_rng(seed)
    walks = 0.7 * rng.normal(size=(CLUBS.size, MONTHS.size))
    for k in range(1, MONTHS.size):
        walks[:, k] = 0.99 * walks[:, k - 1] + 0.14 * walks[:, k]
    return walks - walks.mean(axis=0)


def simulate_games(seed: int, n_seasons: int = 20) -> pd.DataFrame:
    """Return the games of a league in the order of time: in each season, each club meets each other one twice."""
    truth, rng = skills(seed), np.random.default_rng([seed, 1])
    left, right = np.tile(np.nonzero(~np.eye(CLUBS.size, dtype=bool)), n_seasons)
    season = np.repeat(np.arange(n_seasons), left.size // n_seasons)
    day = MONTHS[12 * season] + pd.to_timedelta(rng.integers(212, 485, left.size), "D")
    month, home = MONTHS.searchsorted(day, side="right") - 1, (rng.random(left.size) < 0.85).astype(int)
    z = truth[left, month] - truth[right, month] + 0.5 * home + rng.logistic(size=left.size)
    lead = np.sign(z) * np.ceil(np.maximum(np.abs(z) - 0.6, 0.0) / 1.2)  # a tie up to 0.6
    goals = np.array([np.maximum(lead, 0.0), np.maximum(-lead, 0.0)]) + rng.poisson(0.8, left.size)
    games = {"date": day, "team_1": CLUBS[left], "team_2": CLUBS[right], "goals_1": goals[0], "goals_2": goals[1]}
    table = pd.DataFrame(games | {"home": home}).astype({"goals_1": int, "goals_2": int})
    return table.sort_values("date", kind="stable", ignore_index=True)


def fit(battles: pd.DataFrame) -> dict[str, CrowdGPPL | GPPLClassifier]:
    """Return a model of the votes as they are, and one of all that moves them."""
    names = {"left": "model_a", "right": "model_b"}
    everything = CrowdGPPL(
        user="judge",
        time="date",
        covariates=[("words_a", "words_b")],
        order_effect=True,
        likelihood="logit-ties",
        random_state=0,
        **names,
    )
    y = from_winners(battles, "model_a", "model_b").y
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # that the left side wins too often
        plain = GPPLClassifier(likelihood="logit", **names).fit(battles, y)
    return {"Votes as they are": plain, "Judges, style, ties and dates": everything.fit(battles, y)}


def leaderboard(model: CrowdGPPL | GPPLClassifier) -> np.ndarray:
    """Return utilities and the ends of their 90 % intervals, a column for each model."""
    ranking = model.rank()
    order = np.argsort(ranking.id)
    return np.array([ranking.utility, ranking.utility_low, ranking.utility_high])[:, order]


def fit_study(cars: pd.DataFrame) -> CrowdGPPL:
    """Return the model of the choices among cars."""
    X, y, items = from_tasks(cars, features=["brand", "engine", "price", "cost"])
    return CrowdGPPL(items, item_effects=False, random_state=0).fit(X, y)


def fit_league(games: pd.DataFrame) -> GPPLClassifier:
    """Return the model of the league."""
    y = from_results(games, "team_1", "team_2", ("goals_1", "goals_2")).y
    model = GPPLClassifier(left="team_1", right="team_2", time="date", covariates=["home"], likelihood="logit-ties")
    return model.fit(games, y)


def check(seed: int) -> dict[str, np.ndarray]:
    """Return, for an arena, a study and a league, which 90 % intervals hold the truth."""
    battles, held = simulate(seed), {}
    truth = strengths(battles["date"].iloc[-1])
    for title, model in fit(battles).items():
        _, low, high = leaderboard(model)
        held[title] = (low <= truth) & (truth <= high)
    shares = fit_study(simulate_choices(seed)).shares(OFFERS)
    held["Shares of three cars"] = pd.Series(share(draw_people(seed), pd.DataFrame(OFFERS).T)).between(
        shares["share_low"], shares["share_high"]
    )
    months = MONTHS[7:245]  # from the first to the last season
    curves = fit_league(simulate_games(seed)).curves(CLUBS, times=months)
    held["Skills in each month"] = pd.Series(skills(seed)[:, 7:245].ravel()).between(
        curves["utility_low"], curves["utility_high"]
    )
    return held


def count(draws: int) -> None:
    """Print the share of intervals that hold the truth, over draws other than those of the pictures."""
    held = pd.DataFrame(
        [{title: np.mean(few) for title, few in check(seed).items()} for seed in range(100, 100 + draws)]
    )
    for title, share_held in held.mean().items():
        print(f"{title}: {share_held:.0%} of the 90 % intervals hold the truth")


def draw_leaderboard(ax: plt.Axes, title: str, model: CrowdGPPL | GPPLClassifier, truth: np.ndarray) -> None:
    """Draw the utilities of the models with their intervals, red where these miss the truth."""
    utility, low, high = leaderboard(model)
    held, places = (low <= truth) & (truth <= high), np.arange(NAMES.size)
    colours = np.where(held, HELD, MISSED)
    ax.hlines(places, low, high, color=colours, linewidth=6, alpha=0.45)
    ax.scatter(utility, places, color=colours, s=34, zorder=3)
    ax.scatter(truth, places, marker="|", color="black", s=190, linewidth=1.6, zorder=4)
    ax.set_yticks(places, NAMES)
    ax.set(xlabel="utility on 31 December", xlim=(-1.6, 1.9), ylim=(NAMES.size - 0.5, -0.5))
    ax.set_title(title, loc="left", fontsize=12)
    ax.tick_params(length=0)
    print(f"{title}: {held.sum()} of {held.size} intervals hold the truth")


def draw_arena() -> None:
    """Write the picture of the arena."""
    battles = pd.read_csv(DOCS / "examples" / "battles.csv", parse_dates=["date"])
    figure, axes = plt.subplots(1, 3, figsize=(11.0, 3.6), layout="constrained")
    models = fit(battles)
    for ax, (title, model) in zip(axes, models.items(), strict=False):
        draw_leaderboard(ax, title, model, strengths(battles["date"].iloc[-1]))
    name, days = NAMES[CHANGED], pd.date_range("2025-01-01", "2026-01-31")
    curve = models["Judges, style, ties and dates"].curves([name], times=days)
    axes[2].fill_between(days, curve["utility_low"], curve["utility_high"], color=HELD, alpha=0.3, linewidth=0)
    axes[2].plot(days, curve["utility"], color=HELD)
    axes[2].plot(days, [strengths(day)[CHANGED] for day in days], color="black", linewidth=1.2)
    axes[2].set_title(f"{name} over time", loc="left", fontsize=12)
    axes[2].set(ylabel="utility", xticks=pd.to_datetime(["2025-01-01", "2025-07-01", "2026-01-01"]))
    axes[2].xaxis.set_major_formatter(mpl.dates.DateFormatter("%b %Y"))
    write(figure, "arena")


def draw_conjoint() -> None:
    """Write the picture of the choices among cars, with the true shares in black."""
    model, people = fit_study(pd.read_csv(DOCS / "examples" / "cars.csv")), draw_people(STUDY)
    figure, axes = plt.subplots(1, 2, figsize=(9.0, 3.8), layout="constrained", width_ratios=[2, 3])
    shares, offers = model.shares(OFFERS), pd.DataFrame(OFFERS).T
    SharesDisplay.from_shares(shares, ax=axes[0])
    axes[0].scatter(share(people, offers), range(3), marker="|", color="black", s=190, linewidth=1.6, zorder=4)
    axes[0].set_title("Shares of three cars", loc="left", fontsize=12)
    curves = model.sensitivity("price", PRICES, OFFERS, product="electric")
    ShareCurvesDisplay.from_sensitivity(curves, ax=axes[1])
    truth = [share(people, offers.assign(price=[20, 23, price])) for price in PRICES]
    axes[1].plot(PRICES, truth, color="black", linewidth=1.2)
    axes[1].set_title("... by the price of the electric one", loc="left", fontsize=12)
    axes[0].set_xlabel("share, 90 % interval")
    axes[1].set(xlabel="price of the electric car (thousands)", ylabel="share, 90 % interval")
    print(shares.round(4).assign(truth=share(people, offers)))
    write(figure, "conjoint")


def draw_league() -> None:
    """Write the picture of the skills of three clubs, with the true ones in black."""
    model = fit_league(pd.read_csv(DOCS / "examples" / "games.csv"))
    truth = pd.DataFrame(skills(LEAGUE).T, MONTHS, CLUBS)["2005-08-01":]
    figure, axes = plt.subplots(1, 3, figsize=(11.0, 3.4), layout="constrained", sharey=True)
    for ax, club in zip(axes, ["Elm", "Oak", "Willow"], strict=True):
        SkillCurvesDisplay.from_estimator(model, items=[club], times=truth.index, ax=ax)
        ax.plot(truth.index, truth[club], color="black", linewidth=0.9)
        ax.set(xlabel="", ylim=(-1.4, 1.5), ylabel="utility, 90 % interval" if club == "Elm" else "")
        ax.set_title(f"{club} over time", loc="left", fontsize=12)
    print(model.dynamics_, model.covariate_table(), sep="\n")
    write(figure, "league")


def write(figure: mpl.figure.Figure, name: str) -> None:
    """Save a picture and say so."""
    for ax in figure.axes:
        ax.grid(axis="x", color="0.92")
        ax.set_axisbelow(True)
    figure.savefig(DOCS / "_static" / f"{name}.png", dpi=110, facecolor="white")
    print(f"docs/_static/{name}.png")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=0)
    parser.add_argument("--tables", action="store_true")
    options = parser.parse_args()
    if options.draws:
        count(options.draws)
    elif options.tables:
        for name, table in (
            ("battles", simulate(BATTLES)),
            ("cars", simulate_choices(STUDY)),
            ("games", simulate_games(LEAGUE)),
        ):
            table.to_csv(DOCS / "examples" / f"{name}.csv", index=False, lineterminator="\n")
    else:
        mpl.rcParams.update({"font.size": 11, "axes.spines.top": False, "axes.spines.right": False})
        draw_arena()
        draw_conjoint()
        draw_league()
