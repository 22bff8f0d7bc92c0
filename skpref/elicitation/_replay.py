"""Replays: sessions with users whose answers are on record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from skpref._typing import Array, IntArray
from skpref.elicitation._beliefs import Belief
from skpref.elicitation._session import Session
from skpref.elicitation._strategies import STRATEGIES, check_number, check_strategy
from skpref.exceptions import DataError


@dataclass(frozen=True, eq=False)
class Replay:
    """Score of each strategy against the number of questions.

    Parameters
    ----------
    asked : ndarray of shape (n_steps + 1,)
        Numbers of questions per user, from 0.
    scores : dict of str to ndarray of shape (n_seeds, n_steps + 1)
        Scores after these numbers of questions, by strategy.

    Examples
    --------
    `replay` returns such scores. Here are those of one strategy with two seeds, before and after four questions:

    >>> import numpy as np
    >>> from skpref.elicitation import Replay
    >>> result = Replay(asked=np.array([0, 4]), scores={"random": np.array([[0.5, 0.7], [0.5, 0.9]])})
    >>> dict(zip(result.asked.tolist(), result.mean()["random"].tolist()))
    {0: 0.5, 4: 0.8}
    """

    asked: IntArray
    scores: dict[str, Array]

    def mean(self) -> dict[str, Array]:
        """Return the mean scores over seeds.

        Returns
        -------
        dict of str to ndarray of shape (n_steps + 1,)
            Mean scores, by strategy.
        """
        return {strategy: scores.mean(axis=0) for strategy, scores in self.scores.items()}

    def std(self) -> dict[str, Array]:
        """Return the standard deviations of the scores over seeds.

        Returns
        -------
        dict of str to ndarray of shape (n_steps + 1,)
            Standard deviations, by strategy; 0 for a single seed.
        """
        return {strategy: scores.std(axis=0) for strategy, scores in self.scores.items()}


def replay(
    start: Callable[[int, str, int], Session],
    truth: NDArray[Any],
    held: NDArray[np.bool_],
    *,
    n_questions: int = 20,
    batch: int = 4,
    strategies: Sequence[str] = STRATEGIES,
    seeds: Sequence[int] = (0,),
    score: Callable[[NDArray[Any], list[Belief]], float] | None = None,
) -> Replay:
    """Compare strategies: ask users with recorded answers, and score predictions of their held-out answers.

    Parameters
    ----------
    start : callable
        ``start(person, strategy, seed)`` returns a `Session` for the user in row ``person`` of `truth`, with one
        candidate for each column.
    truth : ndarray of shape (n_people, n_candidates)
        Recorded answers.
    held : ndarray of shape (n_candidates,), dtype bool
        Held-out candidates: predicted, and never asked.
    n_questions : int, default=20
        Number of questions to each user.
    batch : int, default=4
        Number of questions asked at once.
    strategies : sequence of str, default=STRATEGIES
        Strategies to compare.
    seeds : sequence of int, default=(0,)
        Seeds. The comparison is run once for each of them.
    score : callable, default=None
        ``score(answers, beliefs)`` returns a number, higher is better, from the held-out answers of all users, of shape
        (n_people, n_held), and the list of their beliefs about all candidates. If None, the area under the ROC curve
        over all users if there are two possible answers, else the negative root mean squared error of the means.

    Returns
    -------
    Replay
        Scores after 0, ``batch``, 2 ``batch``, ... questions.

    Raises
    ------
    DataError
        If `held` does not fit `truth`, or a strategy or number is invalid.

    Examples
    --------
    A model learns from the likes of twenty users. Ten others are asked about six of the ten items, and their likes of
    the other four are predicted:

    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from skpref import VariationalFMClassifier
    >>> from skpref.data import OneHotDesign
    >>> from skpref.elicitation import Session, replay
    >>> rng = np.random.default_rng(0)
    >>> liking = rng.normal(size=(30, 1)) + rng.normal(size=10) + rng.normal(size=(30, 10))
    >>> likes = (liking > 0).astype(int)
    >>> pairs = np.argwhere(np.ones((20, 10)))
    >>> machine = VariationalFMClassifier(n_factors=0, max_iter=20)
    >>> model = make_pipeline(OneHotDesign(), machine).fit(pairs, likes[:20].ravel())
    >>> session = Session(model)
    >>> def start(person, strategy, seed):
    ...     return session.fresh(strategy, random_state=1000 * seed + person)
    >>> held_out = np.arange(10) >= 6
    >>> result = replay(start, likes[20:], held_out, n_questions=4, batch=2, strategies=["information"])
    >>> result.asked.tolist(), result.scores["information"].shape
    ([0, 2, 4], (1, 3))
    """
    truth, held = np.asarray(truth), np.asarray(held)
    if truth.ndim != 2 or held.shape != truth.shape[1:] or held.dtype != bool:
        raise DataError(
            f"held must be a boolean for each of the columns of truth, shape {truth.shape[1:]}; "
            f"got dtype {held.dtype} and shape {held.shape}."
        )
    if not held.any() or held.all():
        raise DataError("held must be True for some candidates, to predict, and False for others, to ask.")
    for name, number in (("n_questions", n_questions), ("batch", batch)):
        check_number(name, number)
    for strategy in strategies:
        check_strategy(strategy)
    pool, steps = np.flatnonzero(~held), -(-min(n_questions, int((~held).sum())) // batch)
    asked = np.minimum(batch * np.arange(steps + 1), min(n_questions, pool.size))
    measure = _default_score(held) if score is None else score
    scores = {strategy: np.empty((len(seeds), steps + 1)) for strategy in strategies}
    for strategy, table in scores.items():
        for run, seed in enumerate(seeds):
            beliefs: list[list[Belief]] = [[] for _ in asked]
            for person, answers in enumerate(truth):
                session = start(person, strategy, seed)
                beliefs[0].append(session.belief_)
                for step, n in enumerate(np.diff(asked).tolist(), 1):
                    session.tell({row: answers[row] for row in session.ask(n, among=pool).tolist()})
                    beliefs[step].append(session.belief_)
            table[run] = [measure(truth[:, held], step) for step in beliefs]
    return Replay(asked, scores)


def _default_score(held: NDArray[np.bool_]) -> Callable[[NDArray[Any], list[Belief]], float]:
    def score(answers: NDArray[Any], beliefs: list[Belief]) -> float:
        if beliefs[0].probability is None or beliefs[0].probability.shape[1] != 2:
            mean = np.array([belief.mean[held] for belief in beliefs])
            return -float(np.sqrt(np.mean((mean - answers) ** 2)))
        p = np.array([belief.probability[held, 1] for belief in beliefs if belief.probability is not None])
        return float(roc_auc_score(answers.ravel(), p.ravel()))

    return score
