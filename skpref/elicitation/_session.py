"""Sessions of questions and answers with a user."""

from __future__ import annotations

import os
from collections.abc import Mapping
from copy import copy
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from skpref._math.random import as_generator
from skpref._typing import IntArray, MatrixLike, RandomState
from skpref.elicitation._beliefs import Belief, Estimates
from skpref.elicitation._people import Person, person_of
from skpref.elicitation._records import SessionRecord
from skpref.elicitation._strategies import Strategy, check_number, check_strategy, choose
from skpref.exceptions import DataError


def select(
    model: Any,
    candidates: MatrixLike | None = None,
    n: int = 1,
    strategy: Strategy = "determinant",
    *,
    user: Any = None,
    random_state: RandomState = None,
) -> IntArray:
    """Choose the best questions to ask a user.

    Parameters
    ----------
    model : estimator
        A fitted model; see `Session`.
    candidates : array-like or sparse matrix, default=None
        Possible questions; see `Session`.
    n : int, default=1
        Number of questions; all of them if there are fewer.
    strategy : {"random", "mean", "variance", "information", "determinant"}, default="determinant"
        "random"; "mean", the probability nearest 1/2 (two possible answers only); "variance", the largest variance of
        the latent value, not of the answer; "information", the largest mutual information between answer and latent
        value; "determinant", the batch with the largest log det(I + W^1/2 C W^1/2), chosen greedily, which avoids
        questions whose answers follow from each other. The user guide compares them.
    user : id, default=None
        The user; see `Session`.
    random_state : int, RandomState, Generator or None, default=None
        Seed of "random", and of random pairs if there are too many.

    Returns
    -------
    ndarray of shape (at most n,)
        Rows of `candidates`, best first; ties in their order.

    Raises
    ------
    DataError
        If there is no candidate, `n` is not a positive integer, or the strategy is unknown.

    Examples
    --------
    All others like tea, and they differ about milk. So ask a new user about milk first:

    >>> from sklearn.pipeline import make_pipeline
    >>> from skpref import OneHotDesign, VariationalFMClassifier
    >>> from skpref.elicitation import select
    >>> pairs = [(user, item) for user in ("ann", "bob", "cleo", "dan") for item in ("milk", "tea")]
    >>> likes = [1, 1, 0, 1, 1, 1, 0, 1]
    >>> model = make_pipeline(OneHotDesign(), VariationalFMClassifier(n_factors=0)).fit(pairs, likes)
    >>> items = ["tea", "milk"]
    >>> [items[row] for row in select(model, items, 2, "information")]
    ['milk', 'tea']
    """
    return Session(model, candidates, strategy, user=user, random_state=random_state).ask(n)


class Session:
    """Session of questions to a user (active learning): choose questions, learn from answers, choose again.

    The prior of an unseen user is the distribution of the model's users. Answers update it by expectation propagation
    over the latent values of all candidates; models of ratings use `fold_in`. All answers are used at once, so their
    order does not matter.

    Parameters
    ----------
    model : estimator
        A fitted model, which is not changed: a `VariationalFM`, `VariationalFMClassifier` or `VariationalFMOrdinal`, a
        `Pipeline` that ends in one, a `GibbsM3F`, a `GibbsIPM3F`, a `GPPLClassifier` or a `CrowdGPPL`.
    candidates : array-like or sparse matrix, default=None
        Possible questions. For a factorization machine: rows of features of this user, of shape (n, n_features). For a
        pipeline: its input; or item ids, of shape (n,), if its first step is a `OneHotDesign`. For models of ratings:
        item ids, of shape (n,). For models of comparisons: pairs of item ids, of shape (n, 2). For models of tasks:
        lists of the item ids that are shown, as many as in `fit` or fewer. If None, all trained items; or all pairs of
        them, and if these are more than 2,000, a random 2,000; or 500 random tasks.
    strategy : {"random", "mean", "variance", "information", "determinant"}, default="determinant"
        See `select`.
    user : id, default=None
        The user who answers, for models with user ids. If None, an unseen user.
    freeze : label or array-like of labels, default=None
        For factorization machines: groups that `model_` leaves unchanged, such as the items. If None and candidates
        are items, all groups but the users.
    min_gain : float, default=0.0
        Smallest expected information gain of a question, in nats; see `gain_`. A question with two possible answers has
        at most log 2 = 0.69.
    random_state : int, RandomState, Generator or None, default=None
        Seed of "random", and of random pairs if there are too many.

    Attributes
    ----------
    candidates_ : sequence of length n
        Possible questions: the argument, or item ids, or pairs of them.
    labels_ : tuple
        Possible answers; empty if answers are real numbers.
    answers_ : dict
        Answers so far, by row of `candidates_`, in the order in which they were given.
    belief_ : Belief
        Posterior of all candidates, given the answers so far.
    gain_ : float
        Largest expected information gain of the questions that were not asked, in nats; 0 if none is left.
    model_ : estimator
        A copy of the model, updated with all answers so far by its `partial_fit`.

    Raises
    ------
    DataError
        If the model is not supported, a candidate is invalid, or there is none.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from skpref import VariationalFM
    >>> from skpref.data import OneHotDesign
    >>> from skpref.elicitation import Session
    >>> pairs = [["ann", "tea"], ["ann", "milk"], ["bob", "tea"], ["bob", "milk"]]
    >>> model = make_pipeline(OneHotDesign(), VariationalFM(n_factors=1, random_state=0))
    >>> model = model.fit(pairs, [5, 1, 4, 2])
    >>> session = Session(model, user="cleo")
    >>> question = int(session.ask()[0])
    >>> session.candidates_[question]
    'milk'
    >>> before = session.estimates()
    >>> after = session.tell({question: 5.0}).estimates()
    >>> after.ids, bool(after.value[0] > before.value[0])  # cleo likes milk more than expected
    (['milk', 'tea'], True)
    """

    candidates_: Any
    labels_: tuple[Any, ...]
    answers_: dict[int, Any]

    def __init__(
        self,
        model: Any,
        candidates: MatrixLike | None = None,
        strategy: Strategy = "determinant",
        *,
        user: Any = None,
        freeze: ArrayLike | None = None,
        min_gain: float = 0.0,
        random_state: RandomState = None,
    ) -> None:
        check_strategy(strategy)
        if not isinstance(min_gain, Real) or isinstance(min_gain, bool) or not 0.0 <= min_gain < np.inf:
            raise DataError(f"min_gain must be a number of at least 0, in nats; got {min_gain!r:.80}.")
        rng = as_generator(random_state)
        self._user: Any = user
        self._min_gain: float = float(min_gain)
        self._person: Person = person_of(model, candidates, user, freeze, rng)
        self.candidates_, self.labels_ = self._person.candidates, self._person.labels
        self._begin(strategy, rng)

    def _begin(self, strategy: Strategy, rng: np.random.Generator) -> None:
        """Set the attributes of a session before its first question."""
        self._strategy, self._rng = strategy, rng
        self.answers_ = {}
        self._values: dict[int, float] = {}  # the answers as numbers
        self._asked: set[int] = set()
        self._belief: Belief | None = None  # None: not computed yet
        self._model: Any = None  # None: not computed yet

    def fresh(self, strategy: Strategy | None = None, random_state: RandomState = None) -> Session:
        """Return a session with the same user and questions, without answers.

        Computations before the first answer are shared, so a new session for each visitor of a site takes little time.

        Parameters
        ----------
        strategy : str, default=None
            See `select`. If None, the strategy of this session.
        random_state : int, RandomState, Generator or None, default=None
            Seed of "random".

        Returns
        -------
        Session
            The new session.
        """
        chosen: Strategy = self._strategy if strategy is None else strategy
        check_strategy(chosen)
        session = copy(self)
        Session._begin(session, chosen, as_generator(random_state))
        return session

    @property
    def belief_(self) -> Belief:
        """Posterior of all candidates, given the answers so far."""
        if self._belief is None:
            self._belief = self._person.belief(self._values)
        return self._belief

    @property
    def gain_(self) -> float:
        """Largest expected information gain of the questions that were not asked, in nats; 0 if none is left."""
        return float(self.belief_.gain[self._remaining(np.arange(len(self._person)))].max(initial=0.0))

    @property
    def model_(self) -> Any:
        """A copy of the model, updated with all answers so far."""
        if self._model is None:
            self._model = self._person.updated(self._values)
        return self._model

    def estimates(self) -> Estimates:
        """Return estimates for every item, with 90 % credible intervals.

        Returns
        -------
        Estimates
            Estimates for the candidates; if these are pairs, for the items in them.
        """
        return self._person.estimates(self.belief_)

    def ask(self, n: int = 1, among: ArrayLike | None = None) -> IntArray:
        """Choose the best questions that were not asked before.

        Parameters
        ----------
        n : int, default=1
            Number of questions, at most.
        among : array-like of int, default=None
            Rows of the candidates to choose from. If None, all.

        Returns
        -------
        ndarray of shape (at most n,)
            Rows of the candidates, best first. They count as asked, even without an answer.

        Raises
        ------
        DataError
            If no candidate is left, none has a gain of at least `min_gain`, or `n` is not a positive integer.
        """
        check_number("n", n)
        size = len(self._person)
        rows = np.arange(size) if among is None else _rows_among(among, size)
        remaining = self._remaining(rows)
        if not remaining.size:
            raise DataError("no candidate left: all questions have been asked.")
        if self._min_gain:
            remaining = remaining[self.belief_.gain[remaining] >= self._min_gain]
        if not remaining.size:
            raise DataError(f"no candidate left with an expected gain of at least min_gain={self._min_gain:g} nats.")
        if self._strategy == "random":
            chosen = self._rng.permutation(remaining)[: int(n)]
        else:
            chosen = choose(self.belief_, remaining, int(n), self._strategy)
        self._asked.update(chosen.tolist())
        return np.asarray(chosen)

    def tell(self, answers: Mapping[int, Any], *, unasked: bool = False) -> Session:
        """Add answers, and update the belief.

        Parameters
        ----------
        answers : mapping of int to rating, label or preference
            Answers, by row of the candidates as returned by `ask`. For a pair: 1 = left, 0 = right, 0.5 = tie, or a
            grade. For a task: the position of the item chosen, from 0.
        unasked : bool, default=False
            Whether to accept answers to questions that `ask` has not chosen, for example from elsewhere.

        Returns
        -------
        Session
            The same session.

        Raises
        ------
        DataError
            If a question was not asked or was answered before, or an answer is not possible. Then no answer is added.
        """
        values = self._read(answers)
        for row in answers:
            if row not in self._asked and not (unasked and row in range(len(self._person))):
                advice = "" if unasked else " tell(answers, unasked=True) adds answers to other questions."
                raise DataError(f"question {row!r} was not asked.{advice}")
            if row in self.answers_:
                before = f"question {row!r} was answered before, with {self.answers_[row]!r}"
                raise DataError(f"{before}; use correct to change it.")
        if values:
            self._set(self._values | values, self.answers_ | {int(row): answer for row, answer in answers.items()})
            self._asked.update(values)
        return self

    def correct(self, answers: Mapping[int, Any]) -> Session:
        """Replace answers by the right ones, as if these had been given at first.

        Parameters
        ----------
        answers : mapping of int to rating, label or preference
            The right answers, by row of the candidates.

        Returns
        -------
        Session
            The same session.

        Raises
        ------
        DataError
            If a question was not answered, or an answer is not possible. Then no answer is replaced.
        """
        values = self._read(answers)
        for row in answers:
            if row not in self.answers_:
                raise DataError(f"question {row!r} was not answered; use tell.")
        self._set(self._values | values, self.answers_ | {int(row): answer for row, answer in answers.items()})
        return self

    def undo(self, n: int = 1) -> Session:
        """Forget the last answers; their questions may be asked again.

        Parameters
        ----------
        n : int, default=1
            Number of answers.

        Returns
        -------
        Session
            The same session.

        Raises
        ------
        DataError
            If there are fewer answers than `n`, or `n` is not a positive integer.
        """
        check_number("n", n)
        if n > len(self.answers_):
            raise DataError(f"n is {n}, but there are {len(self.answers_)} answers to undo.")
        forgotten = list(self.answers_)[-int(n) :]
        kept = {row: answer for row, answer in self.answers_.items() if row not in forgotten}
        self._set({row: self._values[row] for row in kept}, kept)
        self._asked.difference_update(forgotten)
        return self

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write questions and answers to a file of JSON, which holds data only; the model is saved by `skpref.save`.

        Parameters
        ----------
        path : str or path-like
            File to write; it replaces an earlier one.

        Raises
        ------
        DataError
            If an id or an answer is not a number, a text or None.
        OSError
            If the file cannot be written.
        """
        asked = sorted(int(row) for row in self._asked)
        record = SessionRecord(
            strategy=self._strategy,
            min_gain=self._min_gain,
            user=self._user,
            candidates=self.candidates_,
            asked=asked,
            answers=list(self.answers_.items()),
            generator=self._rng.bit_generator.state,
        )
        record.write(path)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        model: Any,
        candidates: MatrixLike | None = None,
        *,
        freeze: ArrayLike | None = None,
    ) -> Session:
        """Resume a session that was saved.

        Parameters
        ----------
        path : str or path-like
            The file that `save` wrote.
        model : estimator
            The fitted model of the session, or a newer model of the same items.
        candidates : array-like or sparse matrix, default=None
            Rows of features, if they were the candidates: ids and pairs are in the file, rows are not.
        freeze : label or array-like of labels, default=None
            As for `Session`.

        Returns
        -------
        Session
            A session with the same questions and answers. The strategy "random" continues with the same draws.

        Raises
        ------
        DataError
            If the file is not one that `save` wrote, or does not fit the model or the candidates.
        OSError
            If the file cannot be read.
        """
        record = SessionRecord.read(path)
        if (record.candidates is None) == (candidates is None):
            what = "pass the rows of features as candidates" if candidates is None else "candidates are in the file"
            raise DataError(f"{path}: {what}.")
        given = record.candidates if candidates is None else candidates
        session = cls(model, given, record.strategy, user=record.user, freeze=freeze, min_gain=record.min_gain)
        record.check_size(path, len(session._person))
        session.__dict__["_rng"] = record.random_generator(path)
        session._asked.update(record.asked)
        return session.tell(dict(record.answers), unasked=True)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without values that can be computed again."""
        return self.__dict__ | {"_belief": None, "_model": None}

    def _remaining(self, rows: IntArray) -> IntArray:
        """Return the candidates that were not asked, shape (n,)."""
        return np.setdiff1d(rows, np.array(sorted(self._asked), dtype=np.int64))

    def _read(self, answers: Mapping[int, Any]) -> dict[int, float]:
        """Return answers as numbers, by row."""
        if not isinstance(answers, Mapping):
            raise DataError(f"answers must be a mapping of rows to answers, such as {{3: 5.0}}; got {answers!r:.80}.")
        for row in answers:
            if not isinstance(row, Integral):
                raise DataError(f"question {row!r} was not asked.")
        return {int(row): self._person.read(answer) for row, answer in answers.items()}

    def _set(self, values: dict[int, float], answers: dict[int, Any]) -> None:
        """Replace all answers, after the belief could be computed."""
        belief = self._person.belief(values)
        self._values, self.answers_ = values, answers
        self._belief, self._model = belief, None


def _rows_among(among: Any, size: int) -> IntArray:
    rows = np.asarray(among)
    if rows.ndim != 1 or (rows.size and rows.dtype.kind not in "iu"):
        raise DataError(f"among must be a list of rows of the candidates; got {among!r:.80}.")
    if rows.size and not 0 <= rows.min() <= rows.max() < size:
        raise DataError(f"among must be rows 0..{size - 1} of the candidates; got {rows.min()}..{rows.max()}.")
    return rows.astype(np.int64)
