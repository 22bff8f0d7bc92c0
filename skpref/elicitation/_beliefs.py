"""Beliefs about the answers to candidate questions, before and after some answers (docs/maths section 10)."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from skpref._math.linalg import product, solve_lower
from skpref._math.quadrature import expectation
from skpref._typing import Array
from skpref.inference.ep import expectation_propagation
from skpref.likelihoods import Gaussian, OrdinalProbit
from skpref.likelihoods.base import Likelihood, Triple


@contextmanager
def ignore_missing_names() -> Iterator[None]:
    """Pass rows of ids to a model that was fitted to a data frame, without scikit-learn's warning."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names", UserWarning)
        yield


Z_90: Final = 1.6448536269514722  # half the width of a 90 % credible interval, in standard deviations


class Belief(NamedTuple):
    """Posterior of the answers to all candidate questions, on which strategies base their choice.

    Parameters
    ----------
    mean, variance : ndarray of shape (n,)
        Moments of the latent value z of each candidate: y(x), x_ij, or a difference of utilities.
    covariance : callable
        Returns the covariance of z between candidates, shape (n, n). Computed only if a strategy needs it.
    probability : ndarray of shape (n, n_answers), or None
        Predictive probability of each possible answer; None if answers are real numbers.
    gain : ndarray of shape (n,)
        Information gain: mutual information between the answer and z, in nats.
    precision : ndarray of shape (n,)
        Fisher information of an answer about z, at the mean of z.
    items : Estimates, default=None
        Estimates of the items that tasks show; None of other questions, whose latent values they follow from.

    Examples
    --------
    Tea won ten times against milk and once against water. Milk or water is the question with the largest gain:

    >>> from skpref import GPPLClassifier
    >>> from skpref.elicitation import Session
    >>> session = Session(GPPLClassifier().fit([("tea", "milk")] * 10 + [("tea", "water")]))
    >>> session.candidates_
    [('milk', 'tea'), ('milk', 'water'), ('tea', 'water')]
    >>> belief = session.belief_
    >>> belief.probability[0].round(1).tolist()  # tea is better than milk, milk is better than tea
    [1.0, 0.0]
    >>> session.candidates_[belief.gain.argmax()]
    ('milk', 'water')
    """

    mean: Array
    variance: Array
    covariance: Callable[[], Array]
    probability: Array | None
    gain: Array
    precision: Array
    items: Estimates | None = None


class Estimates(NamedTuple):
    """Estimates for every item, with 90 % credible intervals.

    Parameters
    ----------
    ids : list of length n
        Ids of the items, or numbers of the rows.
    value : ndarray of shape (n,)
        Expected rating; or probability of the second label; or utility relative to the mean of the items.
    low, high : ndarray of shape (n,)
        Ends of the credible interval: quantiles at 5 % and 95 %.

    Examples
    --------
    >>> from skpref import GPPLClassifier
    >>> from skpref.elicitation import Session
    >>> model = GPPLClassifier().fit([("tea", "milk")] * 10)
    >>> estimates = Session(model).estimates()
    >>> dict(zip(estimates.ids, estimates.value.round(1).tolist()))
    {'milk': -1.2, 'tea': 1.2}
    >>> bool((estimates.low < estimates.value).all())
    True
    """

    ids: list[Any]
    value: Array
    low: Array
    high: Array


def labels_of(likelihood: Likelihood) -> tuple[float, ...]:
    """Return the possible answers of a likelihood; none if answers are real numbers."""
    if isinstance(likelihood, Gaussian):
        return ()
    if isinstance(likelihood, OrdinalProbit):
        return tuple(map(float, range(likelihood.n_levels)))
    return tuple(np.linspace(0.0, 1.0, getattr(likelihood, "n_levels", 2)).tolist())


def information_gain(likelihood: Likelihood, mean: ArrayLike, variance: ArrayLike) -> Array:
    """Return the mutual information of an answer and z ~ N(mean, variance): H(E p) - E H(p).

    Parameters
    ----------
    likelihood : Likelihood
        p(y | z), for two answers, three answers (with ties), ordered levels or real numbers.
    mean, variance : ndarray of shape (n,)
        Moments of z.

    Returns
    -------
    ndarray of shape (n,)
        Information gain in nats: 0 if z has no variance, at most log 2 for two answers, log r for r levels.

    Examples
    --------
    The answer tells nothing if z is known, and most if z is very uncertain; less if the answer is foreseeable:

    >>> from skpref.elicitation import information_gain
    >>> from skpref.likelihoods import PairwiseProbit
    >>> information_gain(PairwiseProbit(), mean=[0.0, 0.0, 3.0], variance=[0.0, 1e4, 1.0]).round(2)
    array([0.  , 0.69, 0.03])
    """
    mean, variance = np.asarray(mean, dtype=np.float64), np.asarray(variance, dtype=np.float64)
    if isinstance(likelihood, Gaussian):
        return np.asarray(0.5 * np.log1p(likelihood.precision * variance))
    labels = labels_of(likelihood)

    def integrand(z: Array) -> tuple[Array, ...]:
        return (_entropy([likelihood.log_prob(y, z) for y in labels]),)

    with np.errstate(divide="ignore"):
        logs = [np.log(p) for p in probabilities(likelihood, mean, variance).T]
    gain = _entropy(logs) - expectation(integrand, mean, variance)[0]
    return np.clip(gain, 0.0, np.log(len(labels)))


def probabilities(likelihood: Likelihood, mean: Array, variance: Array) -> Array:
    """Return the predictive probability of each possible answer, shape (n, n_answers)."""
    if isinstance(likelihood, OrdinalProbit):
        return likelihood.probabilities(mean, variance)
    if not likelihood.ties_are_answers:
        return np.column_stack([likelihood.predict(-mean, variance), likelihood.predict(mean, variance)])

    def integrand(z: Array) -> tuple[Array, ...]:
        return tuple(np.exp(likelihood.log_prob(y, z)) for y in labels_of(likelihood))

    return np.column_stack(expectation(integrand, mean, variance))


def _entropy(logs: list[Array]) -> Array:
    """Return -sum p log p, from log p; terms with p = 0 are 0."""
    low = np.finfo(np.float64).min
    return -np.sum([np.exp(log_p) * np.maximum(log_p, low) for log_p in logs], axis=0)


def belief_of(likelihood: Likelihood, mean: Array, variance: Array, covariance: Callable[[], Array]) -> Belief:
    """Return the belief about answers for normal z."""
    gain, labels = information_gain(likelihood, mean, variance), labels_of(likelihood)
    if isinstance(likelihood, Gaussian):
        return Belief(mean, variance, covariance, None, gain, np.full(mean.shape, likelihood.precision))
    precision = np.zeros(mean.shape)
    for y in labels:
        log_p, slope, _ = likelihood.derivatives(y, mean)
        precision += np.exp(log_p) * slope**2
    return Belief(mean, variance, covariance, probabilities(likelihood, mean, variance), gain, precision)


@dataclass(frozen=True, eq=False)
class _Shifted(Likelihood):
    """The likelihood of f = z - mean: expectation propagation assumes a zero mean."""

    likelihood: Likelihood  # p(y | z)
    mean: Array  # (n,)

    def _derivatives(self, y: Array, z: Array) -> Triple:
        return self.likelihood.derivatives(y, z + self.mean)

    def _expectation(self, y: Array, mu: Array, v: Array) -> Triple:
        return self.likelihood.expectation(y, mu + self.mean, v)

    def _tilted(self, y: Array, mu: Array, v: Array) -> Triple:
        return self.likelihood.tilted(y, mu + self.mean, v)

    def _predict(self, mu: Array, v: Array) -> Array:
        return self.likelihood.predict(mu + self.mean, v)


def conditioned_belief(likelihood: Likelihood, mean: Array, covariance: Array, answers: Mapping[int, float]) -> Belief:
    """Return the belief after answers, by expectation propagation; exact for a Gaussian likelihood."""
    rows = np.array(sorted(answers), dtype=np.int64)
    y = np.array([answers[row] for row in rows.tolist()], dtype=np.float64)
    shifted, across = _Shifted(likelihood, mean[rows]), covariance[rows]
    posterior = expectation_propagation(np.ascontiguousarray(across[:, rows]), shifted, y, np.ones(rows.size))
    half = solve_lower(posterior.chol, posterior.root_w[:, None] * across)
    variance = np.maximum(np.diagonal(covariance) - np.einsum("ij,ij->j", half, half), 0.0)
    covariance_after = partial(_conditioned, covariance, half)
    return belief_of(likelihood, mean + posterior.alpha @ across, variance, covariance_after)


def _conditioned(covariance: Array, half: Array) -> Array:
    return covariance - product(half.T, half)
