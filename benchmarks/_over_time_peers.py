"""Others that rate over time: Glicko-2, kickscore, TrueSkill Through Time, whole-history rating and openskill."""

from __future__ import annotations

import importlib.util
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    import pandas as pd
    from _seasons import Method

    from skpref._typing import Array

_STEPS = 3_650  # steps of time of whole-history rating in all games
_SIDE = "the left side"  # an item that plays with every left one
_DEVIATION, _TAU = 350.0 / 173.7178, 0.5  # of Glicko-2: deviation of a new item, and of changes of log volatilities


def kickscore_method(span: float) -> Callable[..., Method]:
    """Return a constant plus Ornstein-Uhlenbeck process of each item, with a constant of the left side."""
    import kickscore

    def make(deviation: float, share: float) -> Method:
        def run(train: pd.DataFrame, test: pd.DataFrame) -> Array:
            model = kickscore.BinaryModel(obs_type="logit")
            for item in np.unique(np.concatenate([train[["left", "right"]], test[["left", "right"]]])).tolist():
                parts = kickscore.kernel.Exponential(var=deviation**2, lscale=share * span)
                model.add_item(item, kickscore.kernel.Constant(var=0.5) + parts)
            model.add_item(_SIDE, kickscore.kernel.Constant(var=0.5))
            for left, right, when, won in _rows(train):
                sides = [left, _SIDE], [right]
                model.observe(*(sides if won else sides[::-1]), t=when)
            model.fit()
            rows = zip(test.left.tolist(), test.right.tolist(), test.when.tolist(), strict=True)
            return np.array([model.probabilities([left, _SIDE], [right], t=when)[0] for left, right, when in rows])

        return run

    return make


def through_time_method(span: float) -> Callable[..., Method]:
    """Return TrueSkill Through Time, with a player beside every left item who does not move."""
    import trueskillthroughtime as ttt

    def make(sigma: float, drift: float) -> Method:
        gamma = drift / np.sqrt(span)

        def run(train: pd.DataFrame, test: pd.DataFrame) -> Array:
            games = [[[left, _SIDE], [right]] for left, right in zip(train.left, train.right, strict=True)]
            results = [[1, 0] if won else [0, 1] for won in train.won]
            side = {_SIDE: ttt.Player(ttt.Gaussian(0.0, 1.0), 0.0, 0.0)}
            more = {"priors": side, "mu": 0.0, "sigma": sigma, "beta": 1.0, "gamma": gamma, "p_draw": 0.0}
            history = ttt.History(games, results, train.when.tolist(), **more)
            history.convergence(verbose=False, iterations=10)
            last = {item: curve[-1] for item, curve in history.learning_curves().items()}

            def skill(item: Hashable, when: float) -> tuple[float, float]:
                if item not in last:
                    return 0.0, sigma**2
                at, found = last[item]
                return found.mu, found.sigma**2 + gamma**2 * (when - at)

            out, (of_side, spread) = [], (last[_SIDE][1].mu, last[_SIDE][1].sigma ** 2)
            for left, right, when in zip(test.left, test.right, test.when, strict=True):
                (one, v), (other, w) = skill(left, when), skill(right, when)
                out.append((one - other + of_side) / np.sqrt(2.0 + v + w + spread))
            return norm.cdf(out)

        return run

    return make


def whole_history_method(span: float, start: float) -> Callable[..., Method]:
    """Return whole-history rating, which learns an advantage of the left side."""
    import whr

    def make(w2: float) -> Method:
        def run(train: pd.DataFrame, test: pd.DataFrame) -> Array:
            base = whr.WHR({"w2": w2, "uncased": False})
            for left, right, when, won in _rows(train):
                step = int((when - start) / span * _STEPS)
                base.create_game(str(left), str(right), "B" if won else "W", step, "left")
            base.auto_iterate(time_limit=60)
            known, out = {str(item) for item in np.unique(train[["left", "right"]])}, []
            sides = LogisticRegression(C=100.0).fit(np.ones((len(train), 1)), train.won)
            usual = float(sides.predict_proba([[1.0]])[0, 1])
            for left, right in zip(map(str, test.left), map(str, test.right), strict=True):
                both = {left, right} <= known
                more = {"handicap_key": "left", "account_for_uncertainty": True}
                out.append(base.probability_future_match(left, right, **more)[0] if both else usual)
            return np.array(out)

        return run

    return make


def glicko_method(span: float, start: float) -> Callable[..., Method]:
    """Return Glicko-2 by the equations of Glickman (2013); slope and advantage of the left side are as in openskill.

    The package glicko2 2.1.0 is not used: it finds volatilities with the square of a rating in place of its deviation.
    """

    def make(share: float, volatility: float) -> Method:
        def run(train: pd.DataFrame, test: pd.DataFrame) -> Array:
            skill, before = dict[Any, tuple[float, float, float, int]](), []
            new = 0.0, _DEVIATION, volatility

            def at(item: Hashable, period: int) -> tuple[float, float, float]:
                mean, deviation, sigma, last = skill.get(item, (*new, period))
                return mean, float(np.sqrt(deviation**2 + max(period - last - 1, 0) * sigma**2)), sigma

            def ahead(left: Hashable, right: Hashable, period: int) -> float:
                (one, v, _), (other, w, _) = at(left, period), at(right, period)
                return (one - other) * _flattening(np.hypot(v, w))

            rows = [(left, right, int((when - start) / (share * span)), won) for left, right, when, won in _rows(train)]
            for period, games in groupby(rows, lambda row: row[2]):
                met: dict[Any, list[tuple[Any, float]]] = {}
                for left, right, _, won in games:
                    before.append(ahead(left, right, period))
                    met.setdefault(left, []).append((right, float(won)))
                    met.setdefault(right, []).append((left, 1.0 - won))
                then = {item: at(item, period) for item in met}
                skill |= {item: (*_rated(item, then, own), period) for item, own in met.items()}
            later = len(before) // 2
            z = np.array(before)[later:, None]
            scale = LogisticRegression(C=100.0).fit(z, train.won.to_numpy()[later:])
            periods = ((test.when - start) / (share * span)).astype(int)
            asked = zip(test.left, test.right, periods, strict=True)
            return expit(scale.decision_function([[ahead(*row)] for row in asked]))

        return run

    return make


def _flattening(deviation: Any) -> Any:  # noqa: ANN401 - a number or an array
    return 1.0 / np.sqrt(1.0 + 3.0 * deviation**2 / np.pi**2)


def _rated(
    item: Hashable, then: dict[Any, tuple[float, float, float]], games: list[tuple[Any, float]]
) -> tuple[float, float, float]:
    """Return rating, deviation and volatility of an item after the games of a period, steps 3 to 7 of Glicko-2."""
    mean, deviation, sigma = then[item]
    others, won = np.array([then[other][:2] for other, _ in games]), np.array([score for _, score in games])
    g = _flattening(others[:, 1])
    expected = expit(g * (mean - others[:, 0]))
    v, miss = 1.0 / np.sum(g**2 * expected * (1.0 - expected)), np.sum(g * (won - expected))
    spread, surprise, a = deviation**2 + v, (v * miss) ** 2, np.log(sigma**2)

    def slope(x: float) -> float:
        size = np.exp(x)
        return size * (surprise - spread - size) / (2.0 * (spread + size) ** 2) - (x - a) / _TAU**2

    low, high = (
        next(a + sign * k * _TAU for k in range(1, 99) if sign * slope(a + sign * k * _TAU) < 0.0) for sign in (-1, 1)
    )
    sigma = float(np.exp(0.5 * brentq(slope, low, high)))
    deviation = float(1.0 / np.sqrt(1.0 / (deviation**2 + sigma**2) + 1.0 / v))
    return mean + deviation**2 * float(miss), deviation, sigma


def openskill_method() -> Callable[..., Method]:
    """Return the filter of Weng and Lin; slope and advantage of the left side are learnt from its own forecasts."""
    from openskill.models import BradleyTerryFull

    def make(tau: float) -> Method:
        def run(train: pd.DataFrame, test: pd.DataFrame) -> Array:
            model, rating = BradleyTerryFull(tau=tau), dict[Any, Any]()

            def ahead(left: Hashable, right: Hashable) -> float:
                one, other = (rating.setdefault(item, model.rating()) for item in (left, right))
                return (one.mu - other.mu) / np.sqrt(one.sigma**2 + other.sigma**2 + 2.0 * model.beta**2)

            before = []
            for left, right, _, won in _rows(train):
                before.append(ahead(left, right))
                teams = [[rating[left]], [rating[right]]]
                new = model.rate(teams, ranks=[0, 1] if won else [1, 0])
                rating[left], rating[right] = new[0][0], new[1][0]
            later = len(before) // 2
            z = np.array(before)[later:, None]
            scale = LogisticRegression(C=100.0).fit(z, train.won.to_numpy()[later:])
            asked = [[ahead(left, right)] for left, right in zip(test.left, test.right, strict=True)]
            return expit(scale.decision_function(asked))

        return run

    return make


def _rows(games: pd.DataFrame) -> list[tuple[Any, Any, float, bool]]:
    """Return left, right, time and whether the left one won."""
    columns = games.left.tolist(), games.right.tolist(), games.when.tolist(), (games.won > 0.5).tolist()
    return list(zip(*columns, strict=True))


def peers(span: float, start: float) -> dict[str, tuple[Callable[..., Method], list[tuple[float, ...]]]]:
    """Return how the packages that are installed make a method, and values to try; say which are not."""
    of_package: dict[str, tuple[str, Callable[[], Callable[..., Method]], list[tuple[float, ...]]]] = {
        "kickscore": (
            "kickscore",
            lambda: kickscore_method(span),
            [(g, l) for g in (0.4, 0.8) for l in (0.05, 0.15, 0.5)],
        ),
        "TrueSkill Through Time": (
            "trueskillthroughtime",
            lambda: through_time_method(span),
            [(s, w) for s in (0.4, 1.0) for w in (0.3, 1.0, 2.5)],
        ),
        "whole-history rating": (
            "whr",
            lambda: whole_history_method(span, start),
            [(3.0,), (10.0,), (30.0,), (100.0,)],
        ),
        "openskill": ("openskill", openskill_method, [(0.02,), (0.1,), (0.3,), (0.8,)]),
    }
    of_glicko = [(share, volatility) for share in (0.003, 0.01, 0.03) for volatility in (0.03, 0.06, 0.15, 0.3)]
    found = {"Glicko-2": (glicko_method(span, start), of_glicko)}
    for label, (package, make, values) in of_package.items():
        if importlib.util.find_spec(package) is None:
            print(f"{label} is left out: the package of the module {package} is not installed")
        else:
            found[label] = make(), values
    return found
