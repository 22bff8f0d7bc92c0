"""The user of a session: one class for each kind of model."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy, deepcopy
from dataclasses import replace
from functools import cached_property
from itertools import combinations
from typing import Any, Final, Protocol

import numpy as np
from scipy import sparse
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from skpref._estimator import last_step
from skpref._typing import Array, Features, IntArray
from skpref._validation import check_array
from skpref.data import OneHotDesign, Vocabulary, as_ids
from skpref.data.columns import read_ids
from skpref.data.ids import shorten
from skpref.data.levels import numbers_of_levels
from skpref.elicitation._beliefs import (
    Z_90,
    Belief,
    Estimates,
    belief_of,
    conditioned_belief,
    ignore_missing_names,
    labels_of,
)
from skpref.elicitation._machines import draws_of_population, population_of
from skpref.elicitation._raters import Newcomers, belief_from_draws, belief_from_samples
from skpref.elicitation._tasks import TaskUser
from skpref.elicitation.policy import POLICY
from skpref.exceptions import DataError
from skpref.factorization.fm import VariationalFM
from skpref.factorization.fm_classifier import VariationalFMClassifier
from skpref.factorization.fm_ordinal import VariationalFMOrdinal
from skpref.factorization.max_margin.base import MaxMarginFactorization
from skpref.factorization.max_margin.posterior import IPM3FPosterior
from skpref.gp.crowd import CrowdGPPL
from skpref.gp.pairwise import GPPLClassifier
from skpref.likelihoods import Gaussian, Likelihood, OrdinalProbit, PairwiseMargin, PairwiseTies


class Person(Protocol):
    """Protocol of the user whom a session asks.

    `Session` chooses the class that fits its model. Each kind of model has one.

    Attributes
    ----------
    candidates : sequence of length n
        Questions.
    labels : tuple
        Possible answers; empty if answers are real numbers.

    Examples
    --------
    A session shows what its person knows: `candidates` and `labels` are attributes of the session, `belief` gives
    `Session.belief_`, and `updated` gives `Session.model_`:

    >>> from skpref import GPPLClassifier
    >>> from skpref.elicitation import Session
    >>> session = Session(GPPLClassifier().fit([("tea", "milk"), ("tea", "water")]))
    >>> session.candidates_
    [('milk', 'tea'), ('milk', 'water'), ('tea', 'water')]
    >>> session.labels_  # right is better, left is better
    (0.0, 1.0)
    >>> session.ask(2).size, type(session.model_).__name__
    (2, 'GPPLClassifier')
    """

    candidates: Any
    labels: tuple[Any, ...]

    def __len__(self) -> int:
        """Return the number of candidates."""

    def read(self, answer: Any) -> float:
        """Return an answer as a number.

        Parameters
        ----------
        answer : rating, label or preference
            The answer, as passed to `Session.tell`.

        Returns
        -------
        float
            The number that `belief` and `updated` take.

        Raises
        ------
        DataError
            If it is not a possible answer.
        """

    def belief(self, answers: Mapping[int, float]) -> Belief:
        """Return the belief about all candidates.

        Parameters
        ----------
        answers : mapping of int to float
            All answers so far, by row of the candidates.

        Returns
        -------
        Belief
            The posterior given these answers.
        """

    def estimates(self, belief: Belief) -> Estimates:
        """Return estimates for every item.

        Parameters
        ----------
        belief : Belief
            A belief about this user's answers.

        Returns
        -------
        Estimates
            Estimates for the candidates, or for the items that they compare.
        """

    def updated(self, answers: Mapping[int, float]) -> Any:
        """Return a copy of the model, updated with the answers.

        Parameters
        ----------
        answers : mapping of int to float
            All answers so far, by row of the candidates.

        Returns
        -------
        estimator
            The updated copy.
        """


def person_of(model: Any, candidates: Any, user: Any, freeze: Any, rng: np.random.Generator) -> Person:
    """Return the user of a session with a fitted model."""
    last = last_step(model)
    person = next((person for cls, person in _PERSONS.items() if isinstance(last, cls)), None)
    if person is None or (last is not model and person is not MachineUser):
        raise DataError(
            "model must be one of VariationalFM, VariationalFMClassifier, VariationalFMOrdinal, GibbsM3F, GibbsIPM3F, "
            "GPPLClassifier and CrowdGPPL, or a Pipeline that ends in one of the first three; got "
            f"{type(last).__name__}."
        )
    if freeze is not None and person is not MachineUser:
        raise DataError(f"freeze is for factorization machines, whose features have groups; got {freeze!r:.80}.")
    check_is_fitted(last)
    if hasattr(last, "dynamics_"):
        raise DataError(
            "questions have no times, groups, context or teams: they need a model that was fitted without these"
        )
    asked = person.from_model(model, candidates, user, freeze, rng)
    if not len(asked):
        raise DataError("no candidate left: candidates is empty.")
    return asked


class _NormalUser:
    """A user with normal latent values, and a likelihood of answers."""

    model: Any
    rows: Any
    candidates: Any
    likelihood: Likelihood
    labels: tuple[Any, ...]

    def __len__(self) -> int:
        return int(np.shape(self.rows)[0])

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without values that can be computed again."""
        computed = {"_moments", "_covariance", "_prior_belief", "_draws"}
        return {name: value for name, value in self.__dict__.items() if name not in computed}

    @cached_property
    @ignore_missing_names()
    def _moments(self) -> tuple[Array, Array]:
        """Prior mean and variance of the candidates."""
        mean, variance = self.model.latent_mean_and_variance(self.rows)
        return mean, variance

    @cached_property
    @ignore_missing_names()
    def _covariance(self) -> Array:
        """Prior covariance of the candidates."""
        if len(self) > POLICY.most_covariances:
            need = 8e-9 * len(self) ** 2
            raise DataError(
                f"the covariance of {len(self)} candidates needs {need:.1f} GB; give at most {POLICY.most_covariances} "
                "of them, for example those that `select` chooses with strategy='information'"
            )
        return np.asarray(self.model.latent_covariance(self.rows))

    @cached_property
    def _prior_belief(self) -> Belief:
        return belief_of(self.likelihood, *self._moments, lambda: self._covariance)

    def belief(self, answers: Mapping[int, float]) -> Belief:
        """Return the belief after answers."""
        if not answers:
            return self._prior_belief
        return conditioned_belief(self.likelihood, self._moments[0], self._covariance, answers)


class MachineUser(_NormalUser):
    """A user of a factorization machine: the candidates are rows of features."""

    def __init__(self, whole: Any, model: Any, rows: Features, candidates: Any, freeze: Any) -> None:
        self.whole, self.model, self.rows, self.candidates, self._freeze = whole, model, rows, candidates, freeze
        regression = isinstance(model, VariationalFM)
        self.likelihood = _normal(model.noise_) if regression else model.posterior_.machine.likelihood
        self.labels = () if regression else tuple(model.classes_.tolist())

    @classmethod
    def from_model(cls, whole: Any, candidates: Any, user: Any, freeze: Any, rng: np.random.Generator) -> MachineUser:
        """Return the user of a session, with the candidates checked."""
        del rng
        model, pairs = last_step(whole), None
        design = whole.steps[0][1] if isinstance(whole, Pipeline) else None
        if isinstance(design, OneHotDesign) and (user is not None or candidates is None or _is_id_column(candidates)):
            candidates = design.item_ids_ if candidates is None else as_ids(candidates, "candidates", "candidate")
            # A tuple is never an id of the design: an unseen user.
            pairs = [(("new user",) if user is None else user, item) for item in candidates.tolist()]
        elif user is not None or candidates is None:
            got = "a user id" if user is not None else "none"
            raise DataError(
                "a factorization machine without a OneHotDesign before it in a Pipeline needs rows of features as "
                f"candidates; got {got}."
            )
        if not np.shape(candidates)[0]:
            raise DataError("no candidate left: candidates is empty.")
        rows = candidates if pairs is None else pairs
        if design is not None:
            rows = whole[:-1].transform(rows)
        elif model.design_ is not None and not sparse.issparse(rows):
            rows = model.design_.transform(rows)
        rows = sparse.csr_array(check_array(rows, accept_sparse="csr", dtype=np.float64, input_name="candidates"))
        if pairs is not None and freeze is None:
            freeze = _other_groups(model, int(rows.indices[0]))
        _check_groups(freeze, model.groups_.tolist())
        return cls(whole, model, rows, candidates, freeze)

    @cached_property
    def _draws(self) -> Array | None:
        """Draws of the candidates for an unseen user, if the model has draws."""
        return draws_of_population(self.model.posterior_, self.rows)

    @cached_property
    @ignore_missing_names()
    def _moments(self) -> tuple[Array, Array]:
        if self._draws is not None:
            return self._draws.mean(axis=0), self._draws.var(axis=0)
        mean, variance = self.model.latent_mean_and_variance(self.rows)
        population = population_of(self.model.posterior_, self.rows)
        return (mean, variance) if population is None else population.moments(mean, variance)

    @cached_property
    def _covariance(self) -> Array:
        if self._draws is not None:
            return np.cov(self._draws, rowvar=False, bias=True).reshape(len(self), len(self))
        population, C = population_of(self.model.posterior_, self.rows), super()._covariance
        return C if population is None else population.covariance(C)

    def read(self, answer: Any) -> float:
        """Return the number of a label, or the rating itself."""
        if not self.labels:
            return _finite_number(answer)
        return float(_label_number(answer, self.labels))

    def estimates(self, belief: Belief) -> Estimates:
        """Return ratings, expected levels, or probabilities of the second label."""
        ids = self.candidates.tolist() if isinstance(self.candidates, np.ndarray) else list(range(len(self)))
        if isinstance(self.likelihood, OrdinalProbit) and len(self.labels) > 2:
            return _expected_levels(ids, self.labels, belief)
        half_width = Z_90 * np.sqrt(belief.variance)
        low, high = belief.mean - half_width, belief.mean + half_width
        if belief.probability is None:
            return Estimates(ids, belief.mean, low, high)
        no_variance = np.zeros(low.shape)
        low, high = (self.likelihood.predict(z, no_variance) for z in (low, high))
        return Estimates(ids, belief.probability[:, 1], low, high)

    @ignore_missing_names()
    def updated(self, answers: Mapping[int, float]) -> Any:
        """Return a copy of the model after `partial_fit`, with the other groups frozen."""
        model = deepcopy(self.model)
        if answers:
            y = [self.labels[int(value)] if self.labels else value for value in answers.values()]
            model.partial_fit(self.rows[list(answers)], np.array(y), freeze=self._freeze)
        if self.whole is self.model:
            return model
        whole = copy(self.whole)
        whole.steps = [*self.whole.steps[:-1], (self.whole.steps[-1][0], model)]
        return whole


class PairUser(_NormalUser):
    """A user who compares items: of a `CrowdGPPL`, trained or unseen; of a `GPPLClassifier`, nobody in particular."""

    def __init__(self, model: GPPLClassifier | CrowdGPPL, pairs: list[tuple[Any, Any]], user: Any) -> None:
        self.model, self.candidates, self.likelihood = model, pairs, model.likelihood_
        self.rows = [(user, *pair) for pair in pairs] if isinstance(model, CrowdGPPL) else pairs
        ids = model.user_ids_.tolist() if isinstance(model, CrowdGPPL) else []
        if isinstance(self.likelihood, PairwiseTies) and user in ids:
            thresholds: Any = model.tie_thresholds_
            self.likelihood = replace(self.likelihood, threshold=float(thresholds[ids.index(user)]))
        self.labels = tuple(model.classes_.tolist()) if model.classes_.size > 2 else labels_of(self.likelihood)

    @classmethod
    def from_model(cls, model: Any, candidates: Any, user: Any, freeze: Any, rng: np.random.Generator) -> Person:
        """Return the user of a session, with the candidates checked."""
        del freeze
        if isinstance(model.likelihood_, PairwiseMargin):
            raise DataError("a session asks for preferences, and likelihood='margin' is of margins: fit another model")
        if isinstance(model, GPPLClassifier) and user is not None:
            raise DataError(f"a GPPLClassifier has no users; got user {shorten(user)}. Use CrowdGPPL")
        if isinstance(model, CrowdGPPL):
            if model.groups:
                raise DataError(
                    f"a session asks for no group, and the model has groups={list(model.groups)}: fit a CrowdGPPL "
                    "without groups, or one with the groups as its users, such as user='category'"
                )
            user = _new_user_id(model.user_ids_) if user is None else user
        ids = getattr(model.items, "ids", model.item_ids_)  # of the table, compared or not, if there is one
        if model._has_tasks:  # noqa: SLF001 - of this package
            return TaskUser.from_model(model, candidates, user, ids, rng)
        return cls(model, _pairs_of(candidates, ids, rng), user)

    def read(self, answer: Any) -> float:
        """Return a preference between 0 and 1."""
        if self.model.classes_.size > 2:
            return _label_number(answer, self.labels) / (len(self.labels) - 1.0)
        value = _finite_number(answer)
        if not 0.0 <= value <= 1.0:
            raise DataError(f"an answer about a pair must be 1 (left), 0 (right) or 0.5 (a tie); got {answer!r:.80}.")
        return value

    @ignore_missing_names()
    def updated(self, answers: Mapping[int, float]) -> Any:
        """Return a copy of the model after `partial_fit`."""
        model, y = deepcopy(self.model), list(answers.values())
        if model.classes_.size > 2:
            y = [self.labels[round(value * (len(self.labels) - 1))] for value in y]
        return model.partial_fit([self.rows[row] for row in answers], y) if answers else model

    def estimates(self, belief: Belief) -> Estimates:
        """Return the utilities that fit the pairs best, relative to their mean over items."""
        ids = list(dict.fromkeys(item for pair in self.candidates for item in pair))
        place = {item: row for row, item in enumerate(ids)}
        D = np.zeros((len(self), len(ids)))
        for row, (left, right) in enumerate(self.candidates):
            D[row, place[left]] += 1.0
            D[row, place[right]] -= 1.0
        inverse = np.linalg.pinv(D)
        # The mean of the order effect is subtracted; its variance stays in the covariance.
        value = inverse @ (belief.mean - self.model.order_effect_[0])
        variance = np.einsum("ij,ij->i", inverse @ belief.covariance(), inverse)
        half_width = Z_90 * np.sqrt(np.maximum(variance, 0.0))
        return Estimates(ids, value, value - half_width, value + half_width)


class RatingUser:
    """An unseen user of a `GibbsM3F` or `GibbsIPM3F`, who rates items."""

    def __init__(self, model: Any, items: Any, user: Any) -> None:
        self.model, self.candidates, self._user = model, items, user
        self.labels = tuple(model.classes_.tolist())

    def __len__(self) -> int:
        return len(self.candidates)

    @classmethod
    def from_model(cls, model: Any, candidates: Any, user: Any, freeze: Any, rng: np.random.Generator) -> RatingUser:
        """Return the user of a session, with the candidates checked."""
        del freeze, rng
        items = model.item_ids_ if candidates is None else as_ids(candidates, "candidates", "candidate")
        if user is None:
            user = _new_user_id(model.user_ids_)
        elif user in model.user_ids_.tolist():
            raise DataError(f"user {shorten(user)} has ratings already: fold_in adds new users only; see partial_fit")
        return cls(model, items, user)

    def read(self, answer: Any) -> float:
        """Return the number of a level."""
        return float(_label_number(answer, self.labels))

    def belief(self, answers: Mapping[int, float]) -> Belief:
        """Return the belief from samples of the user; the prior of his factors is the distribution of the others'."""
        if answers and self._newcomers is not None:
            item, level = self._item_rows[list(answers)], np.array(list(answers.values()), dtype=np.int64)
            draws = self._newcomers.draw(self.model.posterior_, item, level)
            return belief_from_draws(self.model.posterior_, draws, self._item_rows)
        posterior = self.updated(answers).posterior_
        # fold_in appends the user to the others.
        user = posterior.samples.users.shape[1] - 1 if answers else None
        return belief_from_samples(posterior, user, self._item_rows)

    @cached_property
    def _newcomers(self) -> Newcomers | None:
        """Distribution of the users; None of binary features, whose prior is the Indian buffet process."""
        posterior = self.model.posterior_
        return None if isinstance(posterior, IPM3FPosterior) else Newcomers.from_posterior(posterior)

    @cached_property
    def _item_rows(self) -> IntArray:
        return Vocabulary(self.model.item_ids_).encode(self.candidates, "candidates", noun="candidate")

    def estimates(self, belief: Belief) -> Estimates:
        """Return expected ratings."""
        ids = self.candidates.tolist() if isinstance(self.candidates, np.ndarray) else list(self.candidates)
        return _expected_levels(ids, self.labels, belief)

    @ignore_missing_names()
    def updated(self, answers: Mapping[int, float]) -> Any:
        """Return a copy of the model with the user folded in."""
        if not answers:
            return self.model
        pairs = [(self._user, self.candidates[row]) for row in answers]
        return copy(self.model).fold_in(pairs, [self.labels[int(level)] for level in answers.values()])


_PERSONS: Final[dict[type, Any]] = {
    VariationalFM: MachineUser,
    VariationalFMClassifier: MachineUser,
    VariationalFMOrdinal: MachineUser,
    MaxMarginFactorization: RatingUser,
    GPPLClassifier: PairUser,
    CrowdGPPL: PairUser,
}


def _expected_levels(ids: list[Any], labels: tuple[Any, ...], belief: Belief) -> Estimates:
    """Return expected ratings; levels that are not ascending numbers count from 0."""
    numeric, p = numbers_of_levels(labels), np.asarray(belief.probability)
    levels = np.arange(len(labels), dtype=np.float64) if numeric is None else numeric
    low, high = (levels[np.argmax(np.cumsum(p, axis=1) >= q - 1e-12, axis=1)] for q in (0.05, 0.95))
    return Estimates(ids, p @ levels, low, high)


def _pairs_of(candidates: Any, ids: Any, rng: np.random.Generator) -> list[tuple[Any, Any]]:
    """Return the candidates; by default all pairs of the items, or 2,000 random ones."""
    if candidates is None:
        n = len(ids)
        total = n * (n - 1) // 2
        if total <= POLICY.most_pairs:
            return list(combinations(ids.tolist(), 2))
        left, right = _pairs_at(np.sort(rng.choice(total, POLICY.most_pairs, replace=False)), n)
        return list(zip(ids[left].tolist(), ids[right].tolist(), strict=True))
    left, right = read_ids(candidates, ("left", "right"), "candidates")
    pairs = list(zip(left.tolist(), right.tolist(), strict=True))
    same = next((row for row, (a, b) in enumerate(pairs) if a == b), None)
    if same is not None:
        raise DataError(f"candidate {same} compares item {shorten(left[same])} with itself.")
    return pairs


def _normal(noise: float) -> Gaussian:
    with np.errstate(over="ignore", divide="ignore"):
        precision = float(np.float64(noise) ** -2)
    if not 0.0 < precision < np.inf:
        raise DataError(f"the model's noise has standard deviation {noise:g}, whose square overflows float64; scale y")
    return Gaussian(precision)


def _is_id_column(candidates: Any) -> bool:
    """Return whether candidates are ids of items, not rows."""
    if hasattr(candidates, "ndim"):
        return bool(candidates.ndim == 1)
    return isinstance(candidates, list | tuple) and not any(
        isinstance(candidate, list | tuple | np.ndarray) for candidate in candidates
    )


def _pairs_at(position: IntArray, n: int) -> tuple[IntArray, IntArray]:
    """Return the pairs (a, b), a < b < n, at these positions of the lexicographic order."""
    starts = np.concatenate([[0], np.cumsum(np.arange(n - 1, 0, -1))])
    a = np.searchsorted(starts, position, side="right") - 1
    return a, a + 1 + position - starts[a]


def _check_groups(freeze: Any, groups: list[Any]) -> None:
    unknown = [label for label in np.ravel(np.asarray(freeze, dtype=object)).tolist() if label not in groups]
    if freeze is not None and unknown:
        raise DataError(f"freeze names group {unknown[0]!r}, which is not one of {groups}.")


def _other_groups(model: Any, column: int) -> list[Any]:
    """Return the labels of all groups except the group of a column."""
    own = model.posterior_.machine.prior.group[column]
    return [label for code, label in enumerate(model.groups_.tolist()) if code != own]


def _new_user_id(ids: Any) -> Any:
    """Return an unused id, of the type of the others."""
    used = set(ids.tolist())
    if used and all(isinstance(user, int) for user in used):
        return max(used) + 1
    return next(name for name in ("new user", *(f"new user {i}" for i in range(len(used)))) if name not in used)


def _finite_number(answer: Any) -> float:
    try:
        value = float(answer)
    except (TypeError, ValueError, OverflowError):
        raise DataError(f"an answer must be a number; got {answer!r:.80}.") from None
    if not np.isfinite(value):
        raise DataError(f"an answer must be a finite number; got {answer!r:.80}.")
    return value


def _label_number(answer: Any, labels: tuple[Any, ...]) -> int:
    try:
        return labels.index(answer)
    except (ValueError, TypeError):  # pandas.NA cannot be compared
        raise DataError(f"an answer must be one of {', '.join(map(repr, labels))}; got {answer!r:.80}.") from None
