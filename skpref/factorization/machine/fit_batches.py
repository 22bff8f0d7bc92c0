"""Mini-batches of the factorization machine: Adam on the features of a batch ([VRK22] section IV C, algorithm 1)."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from skpref._compiled.fm import Lines, Slopes, feature_gradients, row_moments
from skpref.exceptions import DataError
from skpref.factorization.machine.fit import UNLEARNT, overflow
from skpref.factorization.machine.model import Bias, lines_of, normal_divergence
from skpref.likelihoods import Gaussian

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from skpref._typing import Array, Features, IntArray
    from skpref.factorization.machine.fit import Plan
    from skpref.factorization.machine.model import Machine

_DECAY = 0.9, 0.999  # of Adam's averages of the gradient and of its square
_TINY = 1e-8
_FAR = 20.0  # of log standard deviations: no step may leave floating point


class Batch(NamedTuple):
    """Some rows of X, with the columns that they have entries in numbered anew."""

    by_row: Lines
    by_column: Lines
    features: IntArray
    counts: IntArray  # N_k^B
    y: Array
    weight: Array


class Sizes(NamedTuple):
    """Of the whole: rows N, and the rows N_k with an entry in each column."""

    n: int
    counts: IntArray


class Estimate(NamedTuple):
    """Of the bound, and its gradient in means and in log standard deviations; of w_0, then of the batch's features."""

    value: float
    in_bias: tuple[float, float]
    in_mean: Array
    in_log_sd: Array
    squares: float  # sum of the weighted expected squared residuals, for the noise


def batch_of(X: Features, y: Array, weight: Array) -> Batch:
    """Return a batch."""
    features, index, counts = np.unique(X.indices, return_inverse=True, return_counts=True)
    compact = type(X)((X.data, index, X.indptr), shape=(X.shape[0], features.size))
    return Batch(lines_of(compact), lines_of(compact.tocsc()), features, counts, y, weight)


def estimate(
    machine: Machine, batch: Batch, sizes: Sizes, rng: np.random.Generator | None = None, n_samples: int = 0
) -> Estimate:
    """Estimate the bound and its gradient from a batch, without bias (docs/maths section 9).

    N/|B| (sum_B E_i - sum_{k in B} N_k^B/N_k KL_k) - KL_0: each feature's divergence is shared out over its rows.
    """
    k = batch.features
    q = machine.mean[k], machine.variance[k]
    if n_samples and rng is not None:
        expected, in_bias, in_mean, in_log_sd, squares = _sampled(machine, q, batch, rng, n_samples)
    else:
        expected, in_bias, in_mean, in_log_sd, squares = _exact(machine, q, batch)
    scale, share = sizes.n / batch.y.size, (batch.counts / sizes.counts[k])[:, None]
    group, bias, prior = machine.prior.group[k], machine.bias, machine.bias_prior
    nu, lam = machine.prior.nu[group], machine.prior.lam[group]
    divergence = share * normal_divergence(*q, nu, lam)
    return Estimate(
        scale * (expected - float(divergence.sum())) - machine.bias_divergence(),
        (
            scale * in_bias[0] - (bias.mean - prior.mean) / prior.variance,
            scale * in_bias[1] - bias.variance / prior.variance + 1.0,
        ),
        scale * (in_mean - share * lam * (q[0] - nu)),
        scale * (in_log_sd - share * (lam * q[1] - 1.0)),
        squares,
    )


_Expected = tuple[float, tuple[float, float], "Array", "Array", float]


def _moments(batch: Batch, q: tuple[Array, Array], bias: Bias) -> tuple[Array, Array, Array]:
    S = np.empty((batch.y.size, 3, q[0].shape[1] - 1))
    mu, v = row_moments(batch.by_row, *q, S)
    if not (np.isfinite(mu).all() and np.isfinite(v).all()):
        raise DataError(overflow(batch.by_row, mu, v))
    return mu + bias.mean, v + bias.variance, S


def _exact(machine: Machine, q: tuple[Array, Array], batch: Batch) -> _Expected:
    mu, v, S = _moments(batch, q, machine.bias)
    expected, slopes = machine.slopes(batch.y, mu, v, batch.weight)
    in_mean, in_variance = feature_gradients(batch.by_column, q, S, slopes)
    in_bias = float(slopes.pull.sum()), -machine.bias.variance * float(slopes.weight.sum())
    return expected, in_bias, in_mean, 2.0 * q[1] * in_variance, float(batch.weight @ ((batch.y - mu) ** 2 + v))


def _sampled(
    machine: Machine, q: tuple[Array, Array], batch: Batch, rng: np.random.Generator, n_samples: int
) -> _Expected:
    """Means over draws theta = mean + sd eps: a draw is a q without variance."""
    sd, bias_sd = np.sqrt(q[1]), np.sqrt(machine.bias.variance)
    value, squares, in_bias = 0.0, 0.0, np.zeros(2)
    in_mean, in_log_sd = np.zeros(sd.shape), np.zeros(sd.shape)
    for _ in range(n_samples):
        eps, bias_eps = rng.standard_normal(sd.shape), rng.standard_normal()
        theta = q[0] + sd * eps, np.zeros(sd.shape)
        z, _, S = _moments(batch, theta, Bias(machine.bias.mean + bias_sd * bias_eps, 0.0))
        l, slope, _ = machine.likelihood.derivatives(batch.y, z)
        slopes = Slopes(batch.weight * slope, np.zeros(z.size))
        gradient, _ = feature_gradients(batch.by_column, theta, S, slopes)
        value += float(batch.weight @ l)
        squares += float(batch.weight @ (batch.y - z) ** 2)
        in_bias += slopes.pull.sum() * np.array([1.0, bias_eps * bias_sd])
        in_mean += gradient
        in_log_sd += gradient * eps * sd
    share = 1.0 / n_samples
    return share * value, (share * in_bias[0], share * in_bias[1]), share * in_mean, share * in_log_sd, share * squares


class _Adam:
    """Steps for rows of a table; each row has seen as many gradients as it has had steps."""

    def __init__(self, shape: tuple[int, ...], rate: float) -> None:
        self._first, self._second = np.zeros(shape), np.zeros(shape)
        self._steps, self._rate = np.zeros((shape[0], 1)), rate

    def step(self, rows: IntArray, gradient: Array) -> Array:
        self._steps[rows] += 1.0
        first = _DECAY[0] * self._first[rows] + (1.0 - _DECAY[0]) * gradient
        second = _DECAY[1] * self._second[rows] + (1.0 - _DECAY[1]) * gradient**2
        self._first[rows], self._second[rows] = first, second
        unbiased = (
            part / (1.0 - decay ** self._steps[rows]) for part, decay in zip((first, second), _DECAY, strict=True)
        )
        mean, square = unbiased
        return self._rate * mean / (np.sqrt(square) + _TINY)


class _Average:
    """Running mean of the parameters: means and log standard deviations."""

    def __init__(self) -> None:
        self._n = 0

    def add(self, machine: Machine) -> None:
        now = (machine.mean, np.log(machine.variance), np.array(machine.bias), np.log(machine.bias.variance))
        self._n += 1
        if self._n == 1:
            self._mean = [np.array(part) for part in now]
        self._mean = [mean + (part - mean) / self._n for mean, part in zip(self._mean, now, strict=True)]

    def of(self, machine: Machine) -> Machine:
        if not self._n:
            return machine
        mean, log_variance, bias, log_bias = self._mean
        return replace(
            machine, mean=mean, variance=np.exp(log_variance), bias=Bias(float(bias[0]), float(np.exp(log_bias)))
        )


def climb(
    machine: Machine,
    data: tuple[Features, Array, Array],
    plan: Plan,
    settings: tuple[int, float, int],
    rng: np.random.Generator,
) -> tuple[Machine, Machine, list[float]]:
    """Raise the bound by its estimates, batch by batch."""
    X, y, weight = data
    size, rate, n_samples = settings
    sizes = Sizes(y.size, np.bincount(X.indices, minlength=X.shape[1]))
    climber = _Climber(machine, rate, plan)
    bounds, began, average = [], perf_counter(), _Average()
    for epoch in range(plan.n_epochs):
        order, value, squares = rng.permutation(y.size), 0.0, 0.0
        for first in range(0, y.size, size):
            rows = np.sort(order[first : first + size])
            batch = batch_of(X[rows], y[rows], weight[rows])
            found = estimate(climber.machine, batch, sizes, rng, n_samples)
            climber.step(batch.features, found)
            value += rows.size / y.size * found.value
            squares += found.squares
        climber.learn(epoch, squares, float(weight.sum()))
        climber.rest(sizes.counts == 0)
        if 2 * (epoch + 1) > plan.n_epochs:
            average.add(climber.machine)
        bounds.append(value + climber.machine.log_hyper_prior())
        if plan.stops(bounds, began, average.of(climber.machine)):
            break
    return climber.machine, average.of(climber.machine), bounds


class _Climber:
    """The machine on its way, in means and log standard deviations."""

    def __init__(self, machine: Machine, rate: float, plan: Plan) -> None:
        self._plan, self._log_sd = plan, 0.5 * np.log(machine.variance)
        self._bias = np.array([machine.bias.mean, 0.5 * np.log(machine.bias.variance)])
        self._means, self._spreads = _Adam(machine.mean.shape, rate), _Adam(machine.mean.shape, rate)
        self._intercept = _Adam((1, 2), rate)
        self.machine = replace(machine, mean=machine.mean.copy(), variance=machine.variance.copy())

    def step(self, features: IntArray, found: Estimate) -> None:
        """Take a step with the features of a batch."""
        free = self._plan.free[features]
        k, mean, variance = features[free], self.machine.mean, self.machine.variance
        mean[k] += self._means.step(k, found.in_mean[free])
        self._log_sd[k] = np.clip(self._log_sd[k] + self._spreads.step(k, found.in_log_sd[free]), -_FAR, _FAR)
        variance[k] = np.exp(2.0 * self._log_sd[k])
        if self._plan.free_bias:
            self._bias += self._intercept.step(np.array([0]), np.array([found.in_bias]))[0]
            self._bias[1] = np.clip(self._bias[1], -_FAR, _FAR)
            self.machine = replace(self.machine, bias=Bias(float(self._bias[0]), float(np.exp(2.0 * self._bias[1]))))

    def learn(self, epoch: int, squares: float, weight: float) -> None:
        """Learn noise and priors in closed form, from the residuals met on the way."""
        machine = self.machine
        if self._plan.learn_noise and isinstance(machine.likelihood, Gaussian):
            machine = replace(machine, likelihood=Gaussian(weight / (squares + 2.0)))
        self.machine = machine.with_learnt_priors() if self._plan.learn_priors and epoch >= UNLEARNT else machine

    def rest(self, unseen: NDArray[np.bool_]) -> None:
        """Give features without entries their prior."""
        k = np.flatnonzero(unseen & self._plan.free)
        nu, lam, group = self.machine.prior
        self.machine.mean[k], self.machine.variance[k] = nu[group[k]], 1.0 / lam[group[k]]
        self._log_sd[k] = -0.5 * np.log(lam[group[k]])
