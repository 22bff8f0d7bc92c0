"""When a trial is pruned: all trials have the same folds, so that each is compared with the best, fold by fold."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import stdtrit

from skpref._math.limits import LARGEST
from skpref._typing import Array, BoolArray
from skpref.search.policy import POLICY


class Race(NamedTuple):
    """How complete trials moved from a step to the end."""

    best: Any  # the best one
    others: list[Any]  # the other complete ones
    end: float  # its value, and what it had reported at the step; the less the better
    here: float  # its value, and what it had reported at the step; the less the better
    at_step: Array  # differences of the others to the best one
    at_end: Array  # differences of the others to the best one

    @property
    def moved(self) -> Array:
        """How far each difference changed from the step to the end."""
        return self.at_end - self.at_step


def sign_of(study: Any) -> float:
    """Return -1 for a study that maximises and 1 for one that minimises."""
    return -1.0 if study.direction.name == "MAXIMIZE" else 1.0


def compare_with_best(trials: list[Any], step: int, sign: float) -> Race | None:
    """Compare complete trials at a step."""
    complete = [t for t in trials if _is_complete(t) and abs(t.intermediate_values.get(step, np.nan)) < LARGEST]
    complete = [trial for trial in complete if abs(trial.value) < LARGEST]
    if not complete:
        return None
    ends = sign * np.array([trial.value for trial in complete])
    here = sign * np.array([trial.intermediate_values[step] for trial in complete])
    best = int(np.argmin(ends))
    others = [k for k in range(len(complete)) if k != best]
    differences = (here - here[best])[others], (ends - ends[best])[others]
    return Race(complete[best], [complete[k] for k in others], float(ends[best]), float(here[best]), *differences)


class RacingPruner:
    """Prune a trial whose gap to the best complete trial b is larger than gaps usually change until the end.

    Two trials on the same folds share much of their luck, so their difference says more than either value. For each
    complete rival c as near to b as this trial, at this step or at the end, the change of its gap is known::

        r_c = (end_c - end_b) - (step_c - step_b)

    The trial is pruned where its gap d > t s. s^2 is the mean square of all r_c and of e, the change expected from the
    folds alone after k of n of them: e^2 = (1 / k - 1 / n) mean(var(b), var(c - b), ...), with variances over folds.
    t is the 90 % quantile of Student's t with as many degrees of freedom as values, inside a fit the 95 % quantile.

    Where curves cross or a first fold says little, the r_c are large and nothing is pruned. With few complete trials,
    or near-copies, e keeps s from being too small. Inside a fit nothing is pruned before eight trials have ended. All
    of it is read from the study, so resumed and shared studies behave alike.
    """

    def __init__(self, per_fold: int) -> None:
        self.per_fold = per_fold

    def prune(self, study: Any, trial: Any) -> bool:
        """Return whether to prune a trial, as optuna asks for it."""
        step, sign = trial.last_step, sign_of(study)
        if step is None:  # nothing was reported
            return False
        trials = study.get_trials(deepcopy=False)
        inside = step % self.per_fold > 0
        if inside and sum(other.state.is_finished() for other in trials) < POLICY.first_trials:
            return False
        race = compare_with_best(trials, step, sign)
        if race is None or not race.moved.size:  # others than the best show how far differences move
            return False
        behind = sign * trial.intermediate_values[step] - race.here
        near = np.minimum(np.abs(race.at_step), np.abs(race.at_end)) <= behind
        spread = np.append(race.moved[near], self._expected(race, near, step))
        if not behind > 0.0 or not spread.size:
            return False
        alpha = POLICY.alpha_inside if inside else POLICY.alpha
        return bool(behind > stdtrit(spread.size, 1.0 - alpha) * np.sqrt(np.mean(np.square(spread))))

    def _expected(self, race: Race, near: BoolArray, step: int) -> Array:
        """Standard deviation of a difference after these folds from its value after all folds."""
        best = self._folds(race.best)
        n, done = best.size, max(1, step // self.per_fold)
        if n < 2:
            return np.empty(0)
        rivals = (self._folds(race.others[k]) for k in np.flatnonzero(near))
        others = [folds - best for folds in rivals if folds.size == n]
        variances = np.array([np.var(scores, ddof=1) for scores in (best, *others)])
        usable = variances[variances > 1e-12 * variances[0]]  # what rounding leaves between two copies
        return np.sqrt(np.mean(usable, keepdims=True) * (1.0 / done - 1.0 / n)) if usable.size else usable

    def _folds(self, trial: Any) -> Array:
        """Scores of the folds of a trial, from the means that it reported."""
        values = trial.intermediate_values
        means = np.array([values[step] for step in sorted(values) if step % self.per_fold == 0])
        return np.diff(means * np.arange(1, means.size + 1), prepend=0.0)


def _is_complete(trial: Any) -> bool:
    return bool(trial.state.name == "COMPLETE")
