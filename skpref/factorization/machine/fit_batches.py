"""Mini-batches of the factorization machine: Adam on the features of a batch ([VRK22] section IV C, algorithm 1)."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from skpref._compiled.fm import Compressed, Slopes, feature_gradients, row_moments
from skpref.exceptions import DataError
from skpref.factorization.machine.fit import overflow_message
from skpref.factorization.machine.model import Bias, compress, normal_divergence
from skpref.factorization.policy import POLICY
from skpref.inference.adam import Adam
from skpref.likelihoods import Gaussian, OrdinalProbit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from skpref._typing import Array, Features, IntArray
    from skpref.factorization.machine.fit import FitOptions
    from skpref.factorization.machine.model import Machine


class Batch(NamedTuple):
    """Some rows of X, with the columns that have entries renumbered."""

    by_row: Compressed
    by_column: Compressed
    features: IntArray  # the columns
    counts: IntArray  # N_k^B: entries of each column
    y: Array
    weight: Array


class Sizes(NamedTuple):
    """Sizes of all data."""

    n: int  # rows N
    counts: IntArray  # N_k: rows with an entry in column k
    groups: IntArray | None = None  # (K,): in which the weights of divergences are normalised; None: they are not


class Estimate(NamedTuple):
    """Estimates of the bound and of its gradient."""

    value: float
    in_bias: tuple[float, float]  # gradient in the mean and log standard deviation of w_0
    in_mean: Array  # gradient in the means of the batch's features
    in_log_sd: Array  # gradient in their log standard deviations
    squares: float  # sum of the weighted expected squared residuals, for the noise


def batch_of(X: Features, y: Array, weight: Array) -> Batch:
    """Return rows of X as a batch."""
    features, index, counts = np.unique(X.indices, return_inverse=True, return_counts=True)
    compact = type(X)((X.data, index, X.indptr), shape=(X.shape[0], features.size))
    return Batch(compress(compact), compress(compact.tocsc()), features, counts, y, weight)


def estimate(
    machine: Machine, batch: Batch, sizes: Sizes, rng: np.random.Generator | None = None, n_samples: int = 0
) -> Estimate:
    """Estimate the bound and its gradient from a batch (docs/maths section 9).

    N/|B| (sum_B E_i - sum_{k in B} N_k^B/N_k KL_k) - KL_0: each feature's divergence is divided among its rows, which
    gives no bias. Normalised weights sum to the number of features of each group instead.
    """
    k = batch.features
    q = machine.mean[k], machine.variance[k]
    if n_samples and rng is not None:
        expected, in_bias, in_mean, in_log_sd, squares = _sampled_estimate(machine, q, batch, rng, n_samples)
    else:
        expected, in_bias, in_mean, in_log_sd, squares = _exact_estimate(machine, q, batch)
    scale, share = sizes.n / batch.y.size, (batch.counts / sizes.counts[k])[:, None]
    if sizes.groups is not None:
        share = share * _normaliser(sizes, share[:, 0], k)[:, None] / scale
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


def _normaliser(sizes: Sizes, share: Array, k: IntArray) -> Array:
    """Return by what weights are multiplied so that they sum to the number of features in each group ([VRK22] IV C)."""
    assert sizes.groups is not None  # noqa: S101 - asked by the caller
    n_features = np.bincount(sizes.groups, sizes.counts > 0)
    total = np.bincount(sizes.groups[k], share, n_features.size)
    return np.asarray((n_features / np.where(total > 0.0, total, 1.0))[sizes.groups[k]])


_Expected = tuple[float, tuple[float, float], "Array", "Array", float]


def _moments(batch: Batch, q: tuple[Array, Array], bias: Bias) -> tuple[Array, Array, Array]:
    S = np.empty((batch.y.size, 3, q[0].shape[1] - 1))
    mu, v = row_moments(batch.by_row, *q, S)
    if not (np.isfinite(mu).all() and np.isfinite(v).all()):
        raise DataError(overflow_message(batch.by_row, mu, v))
    return mu + bias.mean, v + bias.variance, S


def _exact_estimate(machine: Machine, q: tuple[Array, Array], batch: Batch) -> _Expected:
    mu, v, S = _moments(batch, q, machine.bias)
    expected, slopes = machine.slopes(batch.y, mu, v, batch.weight)
    in_mean, in_variance = feature_gradients(batch.by_column, q, S, slopes)
    in_bias = float(slopes.pull.sum()), -machine.bias.variance * float(slopes.weight.sum())
    return expected, in_bias, in_mean, 2.0 * q[1] * in_variance, float(batch.weight @ ((batch.y - mu) ** 2 + v))


def _sampled_estimate(
    machine: Machine, q: tuple[Array, Array], batch: Batch, rng: np.random.Generator, n_samples: int
) -> _Expected:
    """Return means over draws theta = mean + sd eps; a draw is a q without variance."""
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


class _Average:
    """Running mean of the parameters, in means and log standard deviations."""

    def __init__(self) -> None:
        self._n = 0

    def add(self, machine: Machine) -> None:
        parameters = (machine.mean, np.log(machine.variance), np.array(machine.bias), np.log(machine.bias.variance))
        self._n += 1
        if self._n == 1:
            self._mean = [np.array(part) for part in parameters]
        self._mean = [mean + (part - mean) / self._n for mean, part in zip(self._mean, parameters, strict=True)]

    def mean_machine(self, machine: Machine) -> Machine:
        if not self._n:
            return machine
        mean, log_variance, bias, log_bias = self._mean
        return replace(
            machine, mean=mean, variance=np.exp(log_variance), bias=Bias(float(bias[0]), float(np.exp(log_bias)))
        )


def adam_ascent(
    machine: Machine,
    data: tuple[Features, Array, Array],
    plan: FitOptions,
    settings: tuple[int, float, int],
    rng: np.random.Generator,
) -> tuple[Machine, Machine, list[float], bool]:
    """Return the last machine, the average machine, the estimated bound after each epoch, and whether it converged.

    The average is of the last half of the epochs, and of those before it in which the bound no longer rose.
    """
    X, y, weight = data
    size, rate, n_samples = settings
    sizes = Sizes(y.size, np.bincount(X.indices, minlength=X.shape[1]), plan.divergence_groups)
    state = _AdamState(machine, rate, plan)
    bounds: list[float] = []
    start_time, average = perf_counter(), _Average()
    n_no_change, min_gain, converged = 0, plan.tol * float(weight.sum()), False
    for epoch in range(plan.max_iter):
        order, value, squares = rng.permutation(y.size), 0.0, 0.0
        for first in range(0, y.size, size):
            rows = np.sort(order[first : first + size])
            batch = batch_of(X[rows], y[rows], weight[rows])
            gradient = estimate(state.machine, batch, sizes, rng, n_samples)
            state.step(batch.features, gradient)
            value += rows.size / y.size * gradient.value
            squares += gradient.squares
        state.learn_noise_and_priors(epoch, squares, float(weight.sum()))
        if plan.learn_likelihood and isinstance(state.machine.likelihood, OrdinalProbit):
            state.machine = state.machine.learn_likelihood(y, *state.machine.moments(compress(X)), weight)
        state.reset_unseen(sizes.counts == 0)
        rises = value + state.machine.log_hyper_prior() > max(bounds, default=-np.inf) + min_gain
        n_no_change = 0 if rises or plan.patience is None else n_no_change + 1
        if n_no_change or 2 * (epoch + 1) > plan.max_iter:
            average.add(state.machine)
        else:
            average = _Average()
        bounds.append(value + state.machine.log_hyper_prior())
        converged = n_no_change == plan.patience
        if plan.stops(bounds, start_time, average.mean_machine(state.machine)) or converged:
            break
    return state.machine, average.mean_machine(state.machine), bounds, converged


class _AdamState:
    """The machine in means and log standard deviations, and Adam's averages."""

    def __init__(self, machine: Machine, rate: float, plan: FitOptions) -> None:
        self._plan, self._log_sd = plan, 0.5 * np.log(machine.variance)
        self._bias = np.array([machine.bias.mean, 0.5 * np.log(machine.bias.variance)])
        self._means, self._log_sds = Adam(machine.mean.shape, rate), Adam(machine.mean.shape, rate)
        self._intercept = Adam((1, 2), rate)
        self.machine = replace(machine, mean=machine.mean.copy(), variance=machine.variance.copy())

    def step(self, features: IntArray, gradient: Estimate) -> None:
        """Take a step with the features of a batch."""
        free = self._plan.free[features]
        k, mean, variance = features[free], self.machine.mean, self.machine.variance
        mean[k] += self._means.step(gradient.in_mean[free], k)
        self._log_sd[k] = np.clip(
            self._log_sd[k] + self._log_sds.step(gradient.in_log_sd[free], k), -POLICY.most_log_sd, POLICY.most_log_sd
        )
        variance[k] = np.exp(2.0 * self._log_sd[k])
        if self._plan.free_bias:
            self._bias += self._intercept.step(np.array([gradient.in_bias]))[0]
            self._bias[1] = np.clip(self._bias[1], -POLICY.most_log_sd, POLICY.most_log_sd)
            self.machine = replace(self.machine, bias=Bias(float(self._bias[0]), float(np.exp(2.0 * self._bias[1]))))

    def learn_noise_and_priors(self, epoch: int, squares: float, weight: float) -> None:
        """Learn noise and priors in closed form, from the residuals of the epoch."""
        machine = self.machine
        if self._plan.learn_likelihood and isinstance(machine.likelihood, Gaussian):
            machine = replace(machine, likelihood=Gaussian(weight / (squares + 2.0)))
        self.machine = (
            machine.learn_priors() if self._plan.learn_priors and epoch >= POLICY.first_prior_pass else machine
        )

    def reset_unseen(self, unseen: NDArray[np.bool_]) -> None:
        """Set features without entries to their prior."""
        k = np.flatnonzero(unseen & self._plan.free)
        nu, lam, group = self.machine.prior
        self.machine.mean[k], self.machine.variance[k] = nu[group[k]], 1.0 / lam[group[k]]
