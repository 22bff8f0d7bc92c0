"""Which question to ask a person next, and the session that asks and learns (maths.md section 10).

A question is a row of features, for factorization machines the one-hot columns of the person and of an item. After each
answer the person is learnt anew while the items stay as they are.
"""

from __future__ import annotations

from copy import deepcopy
from numbers import Integral
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from scipy import sparse

from skpref._math.quadrature import expectation
from skpref._math.random import as_generator
from skpref.exceptions import DataError
from skpref.factorization.fm import VariationalFM, VariationalFMClassifier

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skpref._typing import Array, IntArray
    from skpref.likelihoods import Likelihood

__all__ = ["STRATEGIES", "Session", "information_gain", "select"]

#: What a question may be chosen by.
STRATEGIES: Final = ("random", "mean", "variance", "information", "determinant")


class _Belief(NamedTuple):
    """About the answers to the candidates."""

    mean: Array
    variance: Array
    probability: Array | None  # of the second class
    gain: Array  # in nats
    precision: Array  # what an answer would tell about y(x), the Fisher information at its mean


def select(model: Any, candidates: Any, n: int = 1, strategy: str = "variance", random_state: Any = None) -> IntArray:
    """Choose questions.

    Parameters
    ----------
    model : VariationalFM or VariationalFMClassifier
        Fitted.
    candidates : {array-like, sparse matrix} of shape (n_candidates, n_features)
        Rows that may be asked for.
    n : int, default=1
        How many to choose; all of them if there are fewer.
    strategy : {"random", "mean", "variance", "information", "determinant"}, default="variance"
        At random; the probability nearest 1/2 (classification only); the largest variance of y(x), not of the answer;
        the largest mutual information of answer and y(x); or a batch that tells most together, greedily: the largest
        log det(I + w A S A^T), so that a question whose answer follows from the others' is not asked.
    random_state : int, RandomState, Generator or None, default=None
        Seed of "random".

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
    if strategy not in STRATEGIES:
        raise DataError(f"strategy must be one of {', '.join(STRATEGIES)}; got {strategy!r}.")
    if not isinstance(n, Integral) or n < 1:
        raise DataError(f"n must be an integer of at least 1; got {n!r}.")
    if not np.shape(candidates)[0]:
        raise DataError("no candidate left: all questions have been asked, or none was given.")
    size = np.shape(candidates)[0]
    if strategy == "random":
        return as_generator(random_state).permutation(size)[:n]
    belief = _belief(model, candidates)
    if strategy == "determinant":
        return _most_together(model.latent_covariance(candidates), belief.precision, int(n))
    if strategy == "mean":
        if belief.probability is None:
            raise DataError("strategy 'mean' asks where the probability is nearest 1/2; a regression has none.")
        value = -np.abs(belief.probability - 0.5)
    else:
        value = belief.variance if strategy == "variance" else belief.gain
    return np.argsort(-value, kind="stable")[:n]


def information_gain(likelihood: Likelihood, mean: Array, variance: Array) -> Array:
    """Return the mutual information of a binary answer and z ~ N(mean, variance): H(E p) - E H(p).

    Parameters
    ----------
    likelihood : Likelihood
        p(y = 1 | z).
    mean, variance : ndarray of shape (n,)
        Of z.

    Returns
    -------
    ndarray of shape (n,)
        In nats: 0 where z is known, log 2 at most.

    Examples
    --------
    >>> import numpy as np
    >>> from skpref.elicitation import information_gain
    >>> from skpref.likelihoods import PairwiseProbit
    >>> information_gain(PairwiseProbit(), np.zeros(2), np.array([0.0, 1e4])).round(2)
    array([0.  , 0.69])
    """

    def inside(z: Array) -> tuple[Array, ...]:
        return (_entropy(likelihood.log_prob(1.0, z), likelihood.log_prob(0.0, z)),)

    mean, variance = np.asarray(mean, dtype=np.float64), np.asarray(variance, dtype=np.float64)
    with np.errstate(divide="ignore"):
        logs = np.log(likelihood.predict(mean, variance)), np.log(likelihood.predict(-mean, variance))
    return np.clip(_entropy(*logs) - expectation(inside, mean, variance)[0], 0.0, np.log(2.0))


def _entropy(log_p: Array, log_q: Array) -> Array:
    """-p log p - q log q; nothing where a probability is 0."""
    low = np.finfo(np.float64).min
    return np.asarray(-np.exp(log_p) * np.maximum(log_p, low) - np.exp(log_q) * np.maximum(log_q, low))


def _belief(model: Any, X: Any) -> _Belief:
    if not isinstance(model, (VariationalFM, VariationalFMClassifier)):
        raise DataError(f"model must be a VariationalFM or a VariationalFMClassifier; got {type(model).__name__}.")
    mean, variance = model.latent_mean_and_variance(X)
    if isinstance(model, VariationalFM):
        precision = np.full(mean.shape, model.noise_**-2)
        return _Belief(mean, variance, None, 0.5 * np.log1p(precision * variance), precision)
    likelihood = model.posterior_.machine.likelihood
    _, slope, _ = likelihood.derivatives(np.ones(mean.shape), mean)
    _, other, _ = likelihood.derivatives(np.zeros(mean.shape), mean)
    # E[(dl/dz)^2] = p a^2 + (1 - p) b^2, and p a + (1 - p) b = 0.
    precision = -slope * other
    return _Belief(
        mean, variance, likelihood.predict(mean, variance), information_gain(likelihood, mean, variance), precision
    )


def _most_together(covariance: Array, precision: Array, n: int) -> IntArray:
    """Greedy log det(I + W^1/2 C W^1/2): each choice conditions the covariance on a noisy look at it."""
    C, chosen = covariance.copy(), list[int]()
    for _ in range(min(n, C.shape[0])):
        value = np.log1p(precision * np.maximum(np.diagonal(C), 0.0))
        value[chosen] = -1.0
        best = int(np.argmax(value))
        chosen.append(best)
        C -= np.outer(C[best], C[best]) * (precision[best] / (1.0 + precision[best] * max(C[best, best], 0.0)))
    return np.array(chosen, dtype=np.int64)


class Session:
    """Ask a person, learn from the answers, ask what is best to ask then.

    Parameters
    ----------
    model : VariationalFM or VariationalFMClassifier
        Fitted; it is copied, not changed.
    candidates : {array-like, sparse matrix} of shape (n_candidates, n_features)
        Questions: rows of this person.
    strategy : {"random", "mean", "variance", "information", "determinant"}, default="variance"
        See `select`.
    freeze : label or array-like of labels, default=None
        Groups that stay as they are while the person is learnt, such as that of the items.
    random_state : int, RandomState, Generator or None, default=None
        Seed of "random".

    Attributes
    ----------
    model_ : estimator
        What is believed by now.
    answers_ : dict
        Answers by row of `candidates`.

    Examples
    --------
    >>> import numpy as np
    >>> from skpref import VariationalFM
    >>> from skpref.elicitation import Session
    >>> X = np.hstack([np.eye(3)[[0, 0, 1, 1]], np.eye(2)[[0, 1, 0, 1]]])
    >>> model = VariationalFM(n_factors=1, groups=["user"] * 3 + ["item"] * 2, random_state=0).fit(X, [5, 1, 4, 2])
    >>> mine = np.hstack([np.eye(3)[[2, 2]], np.eye(2)])
    >>> session = Session(model, mine, freeze="item")
    >>> question = int(session.ask()[0])
    >>> session.tell({question: 5.0}).ask().size
    1
    """

    def __init__(
        self, model: Any, candidates: Any, strategy: str = "variance", *, freeze: Any = None, random_state: Any = None
    ) -> None:
        self.model_ = deepcopy(model)
        self.answers_: dict[int, Any] = {}
        self._rows = sparse.csr_array(candidates)
        self._strategy, self._freeze, self._rng = strategy, freeze, as_generator(random_state)
        self._asked: set[int] = set()

    def ask(self, n: int = 1) -> IntArray:
        """Choose questions that were not asked before.

        Parameters
        ----------
        n : int, default=1
            How many at most.

        Returns
        -------
        ndarray of shape (at most n,)
            Rows of the candidates, the best first.

        Raises
        ------
        DataError
            If no candidate is left.
        """
        left = np.setdiff1d(np.arange(self._rows.shape[0]), sorted(self._asked))
        if not left.size:
            raise DataError("no candidate left: all questions have been asked.")
        chosen = left[select(self.model_, self._rows[left], n, self._strategy, self._rng)]
        self._asked.update(chosen.tolist())
        return np.asarray(chosen)

    def tell(self, answers: Mapping[int, Any]) -> Session:
        """Learn from answers.

        Parameters
        ----------
        answers : mapping of int to rating or label
            By row of the candidates, as `ask` gave it.

        Returns
        -------
        Session
            Itself.

        Raises
        ------
        DataError
            If a question was not asked, or was answered before.
        """
        for row in answers:
            if row not in self._asked:
                raise DataError(f"question {row!r} was not asked.")
            if row in self.answers_:
                raise DataError(f"question {row!r} was answered before, with {self.answers_[row]!r}.")
        if answers:
            rows = [int(row) for row in answers]
            self.model_.partial_fit(self._rows[rows], np.array(list(answers.values())), freeze=self._freeze)
            self.answers_.update({int(row): answer for row, answer in answers.items()})
        return self
