"""A space in which some settings have other values or ranges, or one value, than they have by default."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from skpref.exceptions import DataError
from skpref.search.loop import quietly, require_optuna

if TYPE_CHECKING:
    from skpref.search.loop import Settings, Space

_DRAWS = 100  # of a space, to know all of its settings: some are asked for by some draws only
_RANGE = {"low", "high", "log"}


class NarrowedSpace:
    """A space in which some settings are chosen by the user."""

    def __init__(self, space: Space, chosen: Mapping[str, Any]) -> None:
        optuna = require_optuna()
        self.space = space
        self.chosen = dict(chosen)
        names: dict[str, None] = {}
        with quietly():
            whole, narrow = (optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0)) for _ in range(2))
            for _ in range(_DRAWS):
                names |= dict.fromkeys(space.suggest(whole.ask()))
            for name in self.chosen:
                if name not in names:
                    near = difflib.get_close_matches(name, names, n=1)
                    hint = f"; did you mean {near[0]!r}?" if near else ";"
                    raise DataError(f"there is no setting {name!r}{hint} there are {', '.join(names)}")
            for _ in range(_DRAWS):
                self.suggest(narrow.ask())

    def default(self) -> Settings:
        """Return the settings that are tried first: the space's own, where the choice has them."""
        return {
            name: _first(self.chosen[name], value) if name in self.chosen else value
            for name, value in self.space.default().items()
        }

    def encoded(self, settings: Settings) -> Settings:
        """Return settings as a trial has them."""
        encoded = getattr(self.space, "encoded", dict)
        return {
            **encoded({k: v for k, v in settings.items() if k not in self.chosen}),
            **{k: v for k, v in settings.items() if k in self.chosen},
        }

    def suggest(self, trial: Any) -> Settings:
        """Draw settings."""
        return self.space.suggest(_Chosen(trial, self.chosen))


class _Chosen:
    """A trial that draws some parameters from what was chosen."""

    def __init__(self, trial: Any, chosen: Mapping[str, Any]) -> None:
        self._trial = trial
        self._chosen = chosen

    def suggest_categorical(self, name: str, choices: list[Any]) -> Any:
        """Draw one of some values."""
        if name not in self._chosen:
            return self._trial.suggest_categorical(name, choices)
        values = _listed(self._chosen[name])
        for value in values:
            if isinstance(value, Mapping) or not any(type(value) is type(one) and value == one for one in choices):
                raise DataError(f"{name} must be one of {choices}, or a list of some; got {value!r}")
        return self._trial.suggest_categorical(name, values)

    def suggest_float(self, name: str, low: float, high: float, *, log: bool = False) -> float:
        """Draw a number."""
        if name not in self._chosen:
            return float(self._trial.suggest_float(name, low, high, log=log))
        return float(self._number(name, (low, high, log), whole=False))

    def suggest_int(self, name: str, low: int, high: int, *, log: bool = False) -> int:
        """Draw a whole number."""
        if name not in self._chosen:
            return int(self._trial.suggest_int(name, low, high, log=log))
        return int(self._number(name, (low, high, log), whole=True))

    def _number(self, name: str, space: tuple[float, float, bool], *, whole: bool) -> Any:
        known = self._chosen[name]
        what = "a whole number" if whole else "a number"
        wanted = f"{what}, a list of them, or {{ low = {space[0]}, high = {space[1]}, log = {str(space[2]).lower()} }}"
        right = (int,) if whole else (int, float)
        problem = DataError(f"{name} must be {wanted}; got {known!r}")
        given = known if isinstance(known, Mapping) else {}
        numbers: list[Any] = [given.get("low"), given.get("high")] if given or known == {} else _listed(known)
        usable = [isinstance(one, right) and not isinstance(one, bool) and math.isfinite(one) for one in numbers]
        if not all(usable) or not set(given) <= _RANGE:
            raise problem
        if not given:
            return self._trial.suggest_categorical(name, numbers)
        low, high = numbers
        log = given.get("log", space[2])
        if not isinstance(log, bool) or low > high or (log and low <= 0):
            raise problem
        return (self._trial.suggest_int if whole else self._trial.suggest_float)(name, low, high, log=log)


def _listed(known: Any) -> list[Any]:
    """The values of a list that is not empty, or the one value."""
    if isinstance(known, list) and not known:
        raise DataError("a list of values is empty")
    return list(known) if isinstance(known, list) else [known]


def _first(known: Any, value: Any) -> Any:
    """The default where the choice has it, else what is nearest to it or the first of a list."""
    if isinstance(known, Mapping):
        return min(max(value, known["low"]), known["high"]) if isinstance(value, int | float) else known["low"]
    values = _listed(known)
    return value if value in values else values[0]
