"""When a trial is given up: all trials have the same folds, so that each is compared with the best, fold by fold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import stdtrit

if TYPE_CHECKING:
    from skpref._typing import Array

_ALPHA = 0.05  # chance of giving up, at one step, a trial that would have ended level with the best
_FEWEST = 2  # complete trials: the best, and one that shows how far differences move


class RacingPruner:
    """Give up a trial that is further behind the best one than differences to the best one are known to move.

    Two trials on the same folds, or two fits after as many iterations, have much of their luck in common: the
    difference between them says more than either value. At a step, be d the difference of a trial to the best complete
    one, b. Of every other complete trial c it is known by how much its own difference to b changed from this step to
    the end::

        r_c = (end_c - end_b) - (step_c - step_b)

    The trial would end level with b if its difference changed by -d. It is given up where d > t s, with s^2 the mean
    square of all r_c and of one more value: the standard deviation that a difference after as many folds would have if
    the folds of the two trials had nothing in common, from the folds of b. t is the 95 % quantile of Student's t with
    as many degrees of freedom as there are values. Where curves cross, or a first fold tells little, or b was lucky at
    a step, the r_c are large, and nothing is given up there. The additional value speaks as long as few trials are
    complete, and keeps s from zero where many of them are copies of each other.

    Everything is read from the study, so that it holds for studies that are resumed or shared.

    Parameters
    ----------
    per_fold : int
        Steps of a fold: step ``per_fold * k`` is the mean of k finished folds, others are looks into a fit.

    Notes
    -----
    In the manner of races [1]_, which compare candidates on the same instances and drop what is worse beyond chance;
    the spread is learnt from trials that were finished instead of the trial's own differences, so that one look tells.

    References
    ----------
    .. [1] O. Maron and A. W. Moore (1997). The racing algorithm: model selection for lazy learners. Artificial
       Intelligence Review 11, 193-225.
    """

    def __init__(self, per_fold: int) -> None:
        self.per_fold = per_fold

    def prune(self, study: Any, trial: Any) -> bool:
        """Tell whether to give up a trial, as optuna asks for it.

        Parameters
        ----------
        study : optuna.Study
            With the trials so far.
        trial : optuna.trial.FrozenTrial
            With what it reported.

        Returns
        -------
        bool
            Whether it is too far behind.
        """
        step = trial.last_step
        sign = -1.0 if study.direction.name == "MAXIMIZE" else 1.0
        known = [
            one for one in study.get_trials(deepcopy=False) if _is_complete(one) and step in one.intermediate_values
        ]
        if len(known) < _FEWEST:
            return False
        ends = sign * np.array([one.value for one in known])
        here = sign * np.array([one.intermediate_values[step] for one in known])
        best = int(np.argmin(ends))
        moved = np.delete((ends - ends[best]) - (here - here[best]), best)
        spread = np.append(moved, self._unpaired(known[best].intermediate_values, step))
        spread = spread[np.isfinite(spread)]
        behind = sign * trial.intermediate_values[step] - here[best]
        return bool(behind > stdtrit(spread.size, 1.0 - _ALPHA) * np.sqrt(np.mean(np.square(spread))))

    def _unpaired(self, values: dict[int, float], step: int) -> Array:
        """Standard deviation of a difference after these folds, from its value after all, for unrelated trials."""
        means = np.array([values[key] for key in sorted(values) if key % self.per_fold == 0])
        n, done = means.size, max(1, step // self.per_fold)
        if n < 2:
            return np.empty(0)
        folds = np.diff(means * np.arange(1, n + 1), prepend=0.0)
        return np.array([np.std(folds, ddof=1) * np.sqrt(2.0 * (1.0 / done - 1.0 / n))])


def _is_complete(trial: Any) -> bool:
    return bool(trial.state.name == "COMPLETE")
