"""Other packages of ratings over time: kickscore, TrueSkill Through Time, whole-history rating and openskill."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

import numpy as np
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
    found = {}
    for label, (package, make, values) in of_package.items():
        if importlib.util.find_spec(package) is None:
            print(f"{label} is left out: the package of the module {package} is not installed")
        else:
            found[label] = make(), values
    return found
