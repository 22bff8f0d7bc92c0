"""Choosing questions, and the session that asks and learns."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np

from skpref._math.random import as_generator
from skpref.elicitation._people import person_of
from skpref.elicitation._strategies import check_number, check_strategy, choose
from skpref.exceptions import DataError

if TYPE_CHECKING:
    from skpref._typing import IntArray
    from skpref.elicitation._beliefs import Belief, Estimates
    from skpref.elicitation._people import Person


def select(
    model: Any,
    candidates: Any = None,
    n: int = 1,
    strategy: str = "determinant",
    *,
    user: Any = None,
    random_state: Any = None,
) -> IntArray:
    """Choose questions.

    Parameters
    ----------
    model : estimator
        Fitted; see `Session`.
    candidates : array-like or sparse matrix, default=None
        What may be asked; see `Session`.
    n : int, default=1
        How many to choose; all of them if there are fewer.
    strategy : {"random", "mean", "variance", "information", "determinant"}, default="determinant"
        At random; the probability nearest 1/2 (of two answers only); the largest variance of the latent value, not of
        the answer; the largest mutual information of answer and latent value; or a batch that tells most together,
        greedily: the largest log det(I + W^1/2 C W^1/2), so that a question whose answer follows from the others' is
        not asked. See the user guide for which to take.
    user : id, default=None
        Who is asked; see `Session`.
    random_state : int, RandomState, Generator or None, default=None
        Seed of "random", and of the pairs where there are too many to ask.

    Returns
    -------
    ndarray of shape (at most n,)
        Rows of `candidates`, the best first; of equal ones, the first.

    Raises
    ------
    DataError
        If there is no candidate, `n` is no positive integer, or there is no such strategy.

    Examples
    --------
    >>> import numpy as np
    >>> from skpref import VariationalFMClassifier
    >>> from skpref.elicitation import select
    >>> X = np.eye(3)[[0, 0, 0, 0, 0, 0, 1, 1, 2]]
    >>> model = VariationalFMClassifier(n_factors=0).fit(X, [1, 1, 1, 1, 1, 1, 0, 0, 1])
    >>> select(model, np.eye(3), 2, "variance").tolist()
    [2, 1]
    """
    return Session(model, candidates, strategy, user=user, random_state=random_state).ask(n)


class Session:
    """Ask a person, learn from the answers, ask what is best to ask then.

    Before any answer the person is one of the model's people; answers are held against that by expectation propagation
    over the latent values of all candidates (with ratings, by `fold_in`). Their order does not matter: what is believed
    follows from all of them at once, and not from one after the other.

    Parameters
    ----------
    model : estimator
        Fitted; it is not changed. A `VariationalFM`, a `VariationalFMClassifier` or a `Pipeline` that ends in one;
        `GibbsM3F` or `GibbsIPM3F`; `GPPLClassifier` or `CrowdGPPL`.
    candidates : array-like or sparse matrix, default=None
        Questions. Of a factorization machine: rows of this person, of shape (n, n_features); of a pipeline what it
        reads, or items, of shape (n,), if its first step is a `OneHotDesign`. Of ratings: items, of shape (n,).
        Of comparisons: pairs of items, of shape (n, 2). None: all items known; all pairs of them, or 2,000 drawn at
        random where there are more.
    strategy : {"random", "mean", "variance", "information", "determinant"}, default="determinant"
        See `select`.
    user : id, default=None
        Who answers, in a model that tells users apart by id; None: somebody new.
    freeze : label or array-like of labels, default=None
        Of a factorization machine: groups that stay as they are in `model_`, such as that of the items. With `user`,
        None stands for all groups but the user's.
    random_state : int, RandomState, Generator or None, default=None
        Seed of "random", and of the pairs where there are too many to ask.

    Attributes
    ----------
    candidates_ : sequence of length n
        What may be asked: what was given, or ids of items, or pairs.
    labels_ : tuple
        Answers there are to choose from; empty where any number is one.
    answers_ : dict
        Answers by row of `candidates_`.
    belief_ : Belief
        What is believed by now of all candidates.
    model_ : estimator
        A copy of the model that has learnt from the answers, the first of them as well as the last.

    Raises
    ------
    DataError
        If the model cannot be asked for, a candidate cannot be read, or there is none.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from skpref import VariationalFM
    >>> from skpref.data import OneHotDesign
    >>> from skpref.elicitation import Session
    >>> pairs = [["ann", "tea"], ["ann", "milk"], ["bob", "tea"], ["bob", "milk"]]
    >>> model = make_pipeline(OneHotDesign(), VariationalFM(n_factors=1, random_state=0)).fit(pairs, [5, 1, 4, 2])
    >>> session = Session(model, user="cleo")
    >>> session.candidates_.tolist()
    ['milk', 'tea']
    >>> question = int(session.ask()[0])
    >>> session.tell({question: 5.0}).ask().size
    1
    """

    def __init__(
        self,
        model: Any,
        candidates: Any = None,
        strategy: str = "determinant",
        *,
        user: Any = None,
        freeze: Any = None,
        random_state: Any = None,
    ) -> None:
        check_strategy(strategy)
        rng = as_generator(random_state)
        self._begin(person_of(model, candidates, user, freeze, rng), strategy, rng)

    def _begin(self, person: Person, strategy: str, rng: np.random.Generator) -> None:
        self._person, self._strategy, self._rng = person, strategy, rng
        self.candidates_, self.labels_ = person.candidates, person.labels
        self.answers_: dict[int, Any] = {}
        self._values: dict[int, float] = {}
        self._asked: set[int] = set()
        self._belief: Belief | None = None
        self._model: Any = None

    def fresh(self, strategy: str | None = None, random_state: Any = None) -> Session:
        """Return a session with the same questions for somebody else of whom as much is known.

        What was found out about the candidates before any answer is shared, so that a session for each visitor of a
        site costs next to nothing to begin.

        Parameters
        ----------
        strategy : str, default=None
            See `select`. None: that of this session.
        random_state : int, RandomState, Generator or None, default=None
            Seed of "random".

        Returns
        -------
        Session
            Without answers.
        """
        strategy = self._strategy if strategy is None else strategy
        check_strategy(strategy)
        session = copy(self)
        session._begin(self._person, strategy, as_generator(random_state))  # noqa: SLF001 - its own class
        return session

    @property
    def belief_(self) -> Belief:
        """What is believed by now of all candidates."""
        if self._belief is None:
            self._belief = self._person.belief(self._values)
        return self._belief

    @property
    def model_(self) -> Any:
        """A copy of the model that has learnt from the answers."""
        if self._model is None:
            self._model = self._person.updated(self._values)
        return self._model

    def estimates(self) -> Estimates:
        """Return what is expected of every item, with its uncertainty.

        Returns
        -------
        Estimates
            Of the candidates; of the items compared, where candidates are pairs.
        """
        return self._person.estimates(self.belief_)

    def ask(self, n: int = 1, among: Any = None) -> IntArray:
        """Choose questions that were not asked before.

        Parameters
        ----------
        n : int, default=1
            How many at most.
        among : array-like of int, default=None
            Rows of the candidates that may be asked now. None: all.

        Returns
        -------
        ndarray of shape (at most n,)
            Rows of the candidates, the best first. They count as asked, whether they are answered or not.

        Raises
        ------
        DataError
            If no candidate is left, or `n` is no positive integer.
        """
        check_number("n", n)
        size = len(self._person)
        rows = np.arange(size) if among is None else _rows_among(among, size)
        left = np.setdiff1d(rows, sorted(self._asked))
        if not left.size:
            raise DataError("no candidate left: all questions have been asked.")
        if self._strategy == "random":
            chosen = self._rng.permutation(left)[: int(n)]
        else:
            chosen = choose(self.belief_, left, int(n), self._strategy)
        self._asked.update(chosen.tolist())
        return np.asarray(chosen)

    def tell(self, answers: Mapping[int, Any]) -> Session:
        """Learn from answers.

        Parameters
        ----------
        answers : mapping of int to rating, label or preference
            By row of the candidates, as `ask` gave it. Of a pair: 1 = the left one, 0 = the right one, 0.5 = a tie.

        Returns
        -------
        Session
            Itself.

        Raises
        ------
        DataError
            If a question was not asked, was answered before, or an answer is none that the model knows; nothing is
            learnt then.
        """
        if not isinstance(answers, Mapping):
            raise DataError(f"answers must be a mapping of rows to answers, such as {{3: 5.0}}; got {answers!r:.80}.")
        values = {}
        for row, answer in answers.items():
            if row not in self._asked:
                raise DataError(f"question {row!r} was not asked.")
            if row in self.answers_:
                raise DataError(f"question {row!r} was answered before, with {self.answers_[row]!r}.")
            values[int(row)] = self._person.read(answer)
        if values:
            belief = self._person.belief(self._values | values)
            self._values |= values
            self.answers_ |= {int(row): answer for row, answer in answers.items()}
            self._belief, self._model = belief, None
        return self


def _rows_among(among: Any, size: int) -> IntArray:
    rows = np.asarray(among)
    if rows.ndim != 1 or (rows.size and rows.dtype.kind not in "iu"):
        raise DataError(f"among must be a list of rows of the candidates; got {among!r:.80}.")
    if rows.size and not 0 <= rows.min() <= rows.max() < size:
        raise DataError(f"among must be rows 0..{size - 1} of the candidates; got {rows.min()}..{rows.max()}.")
    return rows.astype(np.int64)
