"""What a session needs of a model: the person whom it asks. One small class a kind of model."""

from __future__ import annotations

from copy import copy, deepcopy
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
from scipy import sparse
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from skpref._estimator import last_step
from skpref.data import OneHotDesign, as_ids, read_pairs
from skpref.data.ids import shorten
from skpref.elicitation._beliefs import NINETY, Estimates, believed, labels_of, told
from skpref.elicitation._machines import population_of
from skpref.elicitation._samples import rated
from skpref.exceptions import DataError
from skpref.factorization.fm import VariationalFM, VariationalFMClassifier
from skpref.factorization.max_margin.base import MaxMarginFactorization
from skpref.gp.crowd import CrowdGPPL
from skpref.gp.pairwise import GPPLClassifier
from skpref.likelihoods import Gaussian

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skpref._typing import Array, Features, IntArray
    from skpref.elicitation._beliefs import Belief
    from skpref.likelihoods import Likelihood

_MOST_PAIRS: Final = 2000
_MOST_TOGETHER: Final = 5000  # candidates of which all covariances are kept: 0.2 GB


class Person(Protocol):
    """What a session needs.

    Attributes
    ----------
    candidates : sequence of length n
        Questions.
    labels : tuple
        Answers there are to choose from; empty where any number is one.

    Examples
    --------
    >>> from skpref.elicitation import Person
    >>> sorted(name for name in vars(Person) if not name.startswith("_"))
    ['belief', 'estimates', 'read', 'updated']
    """

    candidates: Any
    labels: tuple[Any, ...]

    def __len__(self) -> int:
        """Return the number of candidates."""
        ...

    def read(self, answer: Any) -> float:
        """Return an answer as a number.

        Parameters
        ----------
        answer : rating, label or preference
            As a caller gave it.

        Returns
        -------
        float
            What `belief` and `updated` get.

        Raises
        ------
        DataError
            If the model knows no such answer.
        """
        ...

    def belief(self, answers: Mapping[int, float]) -> Belief:
        """Return what is believed of all candidates.

        Parameters
        ----------
        answers : mapping of int to float
            All answers so far, by candidate.

        Returns
        -------
        Belief
            After them.
        """
        ...

    def estimates(self, belief: Belief) -> Estimates:
        """Return what a belief says of every item.

        Parameters
        ----------
        belief : Belief
            Of this person.

        Returns
        -------
        Estimates
            Of the candidates, or of the items that they compare.
        """
        ...

    def updated(self, answers: Mapping[int, float]) -> Any:
        """Return a copy of the model that has learnt.

        Parameters
        ----------
        answers : mapping of int to float
            All answers so far, by candidate.

        Returns
        -------
        estimator
            Of the same class.
        """
        ...


def person_of(model: Any, candidates: Any, user: Any, freeze: Any, rng: np.random.Generator) -> Person:
    """Return the person whom a session asks."""
    last = last_step(model)
    person = next((person for cls, person in _PEOPLE.items() if isinstance(last, cls)), None)
    if person is None or (last is not model and person is not Machine):
        known = ", ".join(cls.__name__ for cls in _PEOPLE)
        raise DataError(
            f"model must be one of {known}, or a Pipeline that ends in a VariationalFM; got {type(last).__name__}."
        )
    if freeze is not None and person is not Machine:
        raise DataError(f"freeze is for factorization machines, whose features have groups; got {freeze!r:.80}.")
    check_is_fitted(last)
    found = person.of(model, candidates, user, freeze, rng)
    if not len(found):
        raise DataError("no candidate left: all questions have been asked, or none was given.")
    return found


class _Joint:
    """A person whose latent values are normal: mean and covariance before any answer, and a likelihood of answers."""

    model: Any
    rows: Any
    candidates: Any
    likelihood: Likelihood
    labels: tuple[Any, ...]

    def __len__(self) -> int:
        return int(np.shape(self.rows)[0])

    @cached_property
    def _moments(self) -> tuple[Array, Array]:
        """Mean and variance before any answer."""
        mean, variance = self.model.latent_mean_and_variance(self.rows)
        return mean, variance

    @cached_property
    def _covariance(self) -> Array:
        """Covariance before any answer."""
        if len(self) > _MOST_TOGETHER:
            need = 8e-9 * len(self) ** 2
            raise DataError(
                f"the covariance of {len(self)} candidates needs {need:.1f} GB; give at most {_MOST_TOGETHER} of them, "
                "say those of largest information by `select`"
            )
        return np.asarray(self.model.latent_covariance(self.rows))

    @cached_property
    def _before(self) -> Belief:
        """What is believed before any answer."""
        return believed(self.likelihood, *self._moments, lambda: self._covariance)

    def belief(self, answers: Mapping[int, float]) -> Belief:
        """Return what is believed after answers."""
        return told(self.likelihood, self._moments[0], self._covariance, answers) if answers else self._before


class Machine(_Joint):
    """A person of a factorization machine: rows of features."""

    def __init__(self, whole: Any, model: Any, rows: Features, candidates: Any, freeze: Any) -> None:
        self.whole, self.model, self.rows, self.candidates, self._freeze = whole, model, rows, candidates, freeze
        regression = isinstance(model, VariationalFM)
        self.likelihood = _normal(model.noise_) if regression else model.posterior_.machine.likelihood
        self.labels = () if regression else tuple(model.classes_.tolist())

    @classmethod
    def of(cls, whole: Any, candidates: Any, user: Any, freeze: Any, rng: np.random.Generator) -> Machine:
        """Read the candidates."""
        del rng
        model = last_step(whole)
        design = whole.steps[0][1] if isinstance(whole, Pipeline) else None
        if isinstance(design, OneHotDesign) and (user is not None or candidates is None or _is_column(candidates)):
            candidates = design.item_ids_ if candidates is None else as_ids(candidates, "candidates", "candidate")
            # Who is not named is nobody that the design knows.
            pairs = [(("somebody new",) if user is None else user, item) for item in candidates.tolist()]
        elif user is not None or candidates is None:
            given = "user" if user is not None else "no candidates"
            raise DataError(
                f"{given}: a machine without a OneHotDesign in front of it needs rows of features as candidates"
            )
        else:
            pairs = None
        if not np.shape(candidates)[0]:
            raise DataError("no candidate left: none was given.")
        rows = candidates if pairs is None else pairs
        if design is not None:
            rows = whole[:-1].transform(rows)
        rows = sparse.csr_array(rows)
        if pairs is not None and freeze is None:
            freeze = _groups_but_that_of(model, int(rows.indices[0]))
        groups = model.groups_.tolist()
        unknown = [label for label in np.ravel(np.asarray(freeze, dtype=object)).tolist() if label not in groups]
        if freeze is not None and unknown:
            raise DataError(f"freeze names group {unknown[0]!r}, which is none of {groups}.")
        return cls(whole, model, rows, candidates, freeze)

    @cached_property
    def _moments(self) -> tuple[Array, Array]:
        mean, variance = self.model.latent_mean_and_variance(self.rows)
        people = population_of(self.model.posterior_, self.rows)
        return (mean, variance) if people is None else people.moments(mean, variance)

    @cached_property
    def _covariance(self) -> Array:
        people, C = population_of(self.model.posterior_, self.rows), super()._covariance
        return C if people is None else people.covariance(C)

    def read(self, answer: Any) -> float:
        """Return a label's number, or a rating."""
        if not self.labels:
            return _number(answer)
        return float(_place(answer, self.labels))

    def estimates(self, belief: Belief) -> Estimates:
        """Return ratings, or probabilities of the second label."""
        ids = self.candidates.tolist() if isinstance(self.candidates, np.ndarray) else list(range(len(self)))
        reach = NINETY * np.sqrt(belief.variance)
        low, high = belief.mean - reach, belief.mean + reach
        if belief.probability is None:
            return Estimates(ids, belief.mean, low, high)
        known = np.zeros(low.shape)
        low, high = (self.likelihood.predict(z, known) for z in (low, high))
        return Estimates(ids, belief.probability[:, 1], low, high)

    def updated(self, answers: Mapping[int, float]) -> Any:
        """Return the machine with the features that are not frozen learnt."""
        learnt = deepcopy(self.model)
        if answers:
            y = [self.labels[int(value)] if self.labels else value for value in answers.values()]
            learnt.partial_fit(self.rows[list(answers)], np.array(y), freeze=self._freeze)
        if learnt is None or self.whole is self.model:
            return learnt
        whole = copy(self.whole)
        whole.steps = [*self.whole.steps[:-1], (self.whole.steps[-1][0], learnt)]
        return whole


class _Pairs(_Joint):
    """A person who compares items."""

    def read(self, answer: Any) -> float:
        """Return a preference."""
        value = _number(answer)
        if not 0.0 <= value <= 1.0:
            raise DataError(f"an answer about a pair is 1 (left), 0 (right) or 0.5 (a tie); got {answer!r:.80}.")
        return value

    def estimates(self, belief: Belief) -> Estimates:
        """Return utilities that fit the pairs best, from the average of the items."""
        ids = list(dict.fromkeys(item for pair in self.candidates for item in pair))
        place = {item: row for row, item in enumerate(ids)}
        D = np.zeros((len(self), len(ids)))
        for row, (left, right) in enumerate(self.candidates):
            D[row, place[left]] += 1.0
            D[row, place[right]] -= 1.0
        back = np.linalg.pinv(D)
        # The covariance knows the order effect's, which no utility should; its mean is taken out.
        value = back @ (belief.mean - self.model.order_effect_[0])
        reach = NINETY * np.sqrt(np.maximum(np.einsum("ij,ij->i", back @ belief.covariance(), back), 0.0))
        return Estimates(ids, value, value - reach, value + reach)

    @staticmethod
    def pairs(candidates: Any, ids: Any, rng: np.random.Generator) -> list[tuple[Any, Any]]:
        """Read the candidates, or make them."""
        if candidates is None:
            n = len(ids)
            total = n * (n - 1) // 2
            if total <= _MOST_PAIRS:
                return list(combinations(ids.tolist(), 2))
            left, right = _pairs_numbered(np.sort(rng.choice(total, _MOST_PAIRS, replace=False)), n)
            return list(zip(ids[left].tolist(), ids[right].tolist(), strict=True))
        left, right = read_pairs(candidates, "candidates")
        same = [row for row, (a, b) in enumerate(zip(left.tolist(), right.tolist(), strict=True)) if a == b]
        if same:
            raise DataError(f"candidate {same[0]} compares item {shorten(left[same[0]])} with itself.")
        return list(zip(left.tolist(), right.tolist(), strict=True))


class Comparer(_Pairs):
    """The person whose utilities a `GPPLClassifier` holds."""

    def __init__(self, model: GPPLClassifier, pairs: list[tuple[Any, Any]]) -> None:
        self.model, self.candidates, self.rows = model, pairs, pairs
        self.likelihood = model.likelihood_
        self.labels = labels_of(self.likelihood)

    @classmethod
    def of(cls, model: Any, candidates: Any, user: Any, freeze: Any, rng: np.random.Generator) -> Comparer:
        """Read the candidates."""
        del freeze
        if user is not None:
            raise DataError(f"a GPPLClassifier does not tell users apart; got user {shorten(user)}. See CrowdGPPL")
        return cls(model, cls.pairs(candidates, model.item_ids_, rng))

    def updated(self, answers: Mapping[int, float]) -> Any:
        """Refuse: it would take the comparisons of the fit."""
        del answers
        raise DataError(
            "a GPPLClassifier does not keep its comparisons: fit it again with them and with `answers_`; see `belief_`"
        )


class Member(_Pairs):
    """A member of a `CrowdGPPL`'s crowd, or somebody new."""

    def __init__(self, model: CrowdGPPL, pairs: list[tuple[Any, Any]], user: Any) -> None:
        self.model, self.candidates, self.rows = model, pairs, [(user, *pair) for pair in pairs]
        self.likelihood = model.likelihood_
        self.labels = labels_of(self.likelihood)

    @classmethod
    def of(cls, model: Any, candidates: Any, user: Any, freeze: Any, rng: np.random.Generator) -> Member:
        """Read the candidates."""
        del freeze
        user = _somebody_new(model.user_ids_) if user is None else user
        return cls(model, cls.pairs(candidates, model.item_ids_, rng), user)

    def updated(self, answers: Mapping[int, float]) -> Any:
        """Return the model after `partial_fit`."""
        learnt = deepcopy(self.model)
        return learnt.partial_fit([self.rows[row] for row in answers], list(answers.values())) if answers else learnt


class Rater:
    """Somebody new who rates items of a `GibbsM3F` or `GibbsIPM3F`."""

    def __init__(self, model: Any, items: Any, user: Any) -> None:
        self.model, self.candidates, self._user = model, items, user
        self.labels = tuple(model.classes_.tolist())

    def __len__(self) -> int:
        return len(self.candidates)

    @classmethod
    def of(cls, model: Any, candidates: Any, user: Any, freeze: Any, rng: np.random.Generator) -> Rater:
        """Read the candidates."""
        del freeze, rng
        known = model.item_ids_ if candidates is None else as_ids(candidates, "candidates", "candidate")
        if user is None:
            user = _somebody_new(model.user_ids_)
        elif user in model.user_ids_.tolist():
            raise DataError(f"user {shorten(user)} has ratings already: fold_in adds new users only; see partial_fit")
        return cls(model, known, user)

    def read(self, answer: Any) -> float:
        """Return the number of a level."""
        return float(_place(answer, self.labels))

    def belief(self, answers: Mapping[int, float]) -> Belief:
        """Return what samples of the person say."""
        model = self.updated(answers)
        return rated(model, self._user if answers else None, self.candidates)

    def estimates(self, belief: Belief) -> Estimates:
        """Return expected ratings; of levels that are no numbers, their places among the levels, from 0."""
        numeric = all(isinstance(label, int | float) for label in self.labels)
        levels = np.array(self.labels if numeric else range(len(self.labels)), dtype=np.float64)
        p = np.asarray(belief.probability)
        low, high = (levels[np.argmax(np.cumsum(p, axis=1) >= q - 1e-12, axis=1)] for q in (0.05, 0.95))
        ids = self.candidates.tolist() if isinstance(self.candidates, np.ndarray) else list(self.candidates)
        return Estimates(ids, p @ levels, low, high)

    def updated(self, answers: Mapping[int, float]) -> Any:
        """Return the model with the person folded in."""
        if not answers:
            return self.model
        pairs = [(self._user, self.candidates[row]) for row in answers]
        return copy(self.model).fold_in(pairs, [self.labels[int(level)] for level in answers.values()])


_PEOPLE: Final[dict[type, Any]] = {
    VariationalFM: Machine,
    VariationalFMClassifier: Machine,
    MaxMarginFactorization: Rater,
    GPPLClassifier: Comparer,
    CrowdGPPL: Member,
}


def _normal(noise: float) -> Gaussian:
    with np.errstate(over="ignore", divide="ignore"):
        precision = float(np.float64(noise) ** -2)
    if not 0.0 < precision < np.inf:
        raise DataError(f"the model's noise has the standard deviation {noise:g}, whose square leaves float64; scale y")
    return Gaussian(precision)


def _is_column(candidates: Any) -> bool:
    """Whether they are ids, and not rows."""
    if hasattr(candidates, "ndim"):
        return bool(candidates.ndim == 1)
    return isinstance(candidates, list | tuple) and not any(
        isinstance(one, list | tuple | np.ndarray) for one in candidates
    )


def _pairs_numbered(number: IntArray, n: int) -> tuple[IntArray, IntArray]:
    """The pairs (a, b), a < b < n, that stand at places in their lexicographic order."""
    starts = np.concatenate([[0], np.cumsum(np.arange(n - 1, 0, -1))])
    a = np.searchsorted(starts, number, side="right") - 1
    return a, a + 1 + number - starts[a]


def _groups_but_that_of(model: Any, column: int) -> list[Any]:
    mine = model.posterior_.machine.prior.group[column]
    return [label for code, label in enumerate(model.groups_.tolist()) if code != mine]


def _somebody_new(ids: Any) -> Any:
    """An id that nobody has, of the kind of the others."""
    known = set(ids.tolist())
    if known and all(isinstance(one, int) for one in known):
        return max(known) + 1
    return next(
        name for name in ("somebody new", *(f"somebody new {i}" for i in range(len(known)))) if name not in known
    )


def _number(answer: Any) -> float:
    try:
        value = float(answer)
    except (TypeError, ValueError):
        raise DataError(f"an answer must be a number; got {answer!r:.80}.") from None
    if not np.isfinite(value):
        raise DataError(f"an answer must be a finite number; got {answer!r:.80}.")
    return value


def _place(answer: Any, labels: tuple[Any, ...]) -> int:
    try:
        return labels.index(answer)
    except ValueError:
        raise DataError(f"an answer must be one of {', '.join(map(repr, labels))}; got {answer!r:.80}.") from None
