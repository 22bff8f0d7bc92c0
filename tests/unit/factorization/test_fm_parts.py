"""Coordinate ascent and mini-batches: the bound never falls, estimates are unbiased, gradients are derivatives."""

from dataclasses import replace
from itertools import chain, repeat

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse

from skpref.exceptions import DataError
from skpref.factorization.fm import VariationalFM
from skpref.factorization.machine import fit, fit_batches
from skpref.factorization.machine.base import TrainingRows, _EarlyStopping, canonical_features
from skpref.factorization.machine.fields import one_hot_groups
from skpref.factorization.machine.fit import FitOptions, coordinate_ascent, overflow_message
from skpref.factorization.machine.fit_batches import Sizes, adam_ascent, batch_of, estimate
from skpref.factorization.machine.model import Bias, Machine, Prior, compress, start_machine
from skpref.factorization.machine.posterior import FMPosterior
from skpref.likelihoods import Gaussian, PairwiseLogit, PairwiseProbit
from tests.examples import examples

LIKELIHOODS = [Gaussian(2.0), PairwiseProbit(), PairwiseLogit()]


def problem(seed, likelihood, n=12, K=7, d=2, scale=1.0):
    """A machine somewhere, and data that know nothing of it."""
    rng = np.random.default_rng(seed)
    X = sparse.random_array((n, K), density=0.5, rng=rng, data_sampler=rng.standard_normal, format="csr") * scale
    y = rng.standard_normal(n) if isinstance(likelihood, Gaussian) else rng.integers(0, 2, n).astype(float)
    weight, group = rng.uniform(0.2, 3.0, n), np.arange(K) % 2
    machine = start_machine(compress(X), weight, group, d, likelihood, rng)
    prior = Prior(rng.standard_normal((2, 1 + d)), rng.uniform(0.3, 3.0, (2, 1 + d)), group)
    shape = K, 1 + d
    machine = replace(
        machine,
        bias=Bias(0.4, 0.3),
        bias_prior=Bias(-0.7, 0.2),
        mean=rng.standard_normal(shape),
        variance=rng.uniform(0.1, 1.0, shape),
        prior=prior,
    )
    return machine, X, y, weight


def plan_of(machine, **options):
    free = np.ones(machine.mean.shape[0], dtype=bool)
    start = FitOptions(
        max_iter=30,
        tol=0.0,
        learn_priors=True,
        learn_likelihood=True,
        free=free,
        free_bias=True,
        dtype=np.dtype(np.float64),
    )
    return replace(start, **options)


def evidence_bound(machine, X, y, weight):
    mu, v = machine.moments(compress(X))
    return machine.bound(machine.slopes(y, mu, v, weight)[0])


@examples(15)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(LIKELIHOODS),
    st.integers(0, 3),
    st.sampled_from([0.1, 1.0, 10.0]),
    st.booleans(),
    st.booleans(),
)
def test_the_bound_never_falls(seed, likelihood, d, scale, learn, full):
    machine, X, y, weight = problem(seed, likelihood, d=d, scale=scale)
    machine = machine.convert_posterior(full=full)
    before = evidence_bound(machine, X, y, weight)
    plan = plan_of(machine, learn_priors=learn, learn_likelihood=learn)
    after, bounds, _ = coordinate_ascent(machine, (X, y, weight), plan)
    assert np.all(np.diff([before, *bounds]) >= 0.0)
    np.testing.assert_allclose(evidence_bound(after, X, y, weight), bounds[-1], rtol=1e-10)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_ascent_ends_where_the_gradient_is_zero(likelihood):
    machine, X, y, weight = problem(4, likelihood, n=40)
    after, _, _ = coordinate_ascent(machine, (X, y, weight), plan_of(machine, max_iter=20_000, learn_likelihood=False))
    gradient = estimate(after, batch_of(X, y, weight), Sizes(y.size, np.bincount(X.indices, minlength=X.shape[1])))
    scale = np.abs(weight).sum()
    assert np.abs(gradient.in_mean).max() < 1e-5 * scale
    assert np.abs(gradient.in_log_sd).max() < 1e-5 * scale
    assert np.abs(gradient.in_bias).max() < 1e-5 * scale


@examples(15)
@given(st.integers(0, 2**32 - 1), st.sampled_from(LIKELIHOODS), st.integers(0, 3))
def test_gradients_are_central_differences(seed, likelihood, d):
    machine, X, y, weight = problem(seed, likelihood, d=d)
    sizes = Sizes(y.size, np.bincount(X.indices, minlength=X.shape[1]))
    batch = batch_of(X, y, weight)
    estimated, step = estimate(machine, batch, sizes), 1e-4
    k = batch.features

    def value(mean, log_sd, bias):
        moved = replace(machine, mean=mean, variance=np.exp(2.0 * log_sd), bias=Bias(bias[0], np.exp(2.0 * bias[1])))
        return estimate(moved, batch, sizes).value

    start = [machine.mean, 0.5 * np.log(machine.variance), np.array([0.4, 0.5 * np.log(0.3)])]
    for part, gradient in enumerate((estimated.in_mean, estimated.in_log_sd, np.array(estimated.in_bias))):
        rng = np.random.default_rng(seed)
        direction = rng.standard_normal(gradient.shape)
        full = np.zeros(start[part].shape)
        full[k if part < 2 else slice(None)] = direction
        ends = [
            value(*(table + sign * step * full if p == part else table for p, table in enumerate(start)))
            for sign in (1.0, -1.0)
        ]
        numeric = (ends[0] - ends[1]) / (2.0 * step)
        scale = np.abs(gradient * direction).sum() + 1.0
        assert abs(np.sum(gradient * direction) - numeric) < 1e-5 * scale


@examples(15)
@given(st.integers(0, 2**32 - 1), st.sampled_from(LIKELIHOODS), st.sampled_from([1, 2, 3, 4, 6]))
def test_mean_over_a_partition_is_the_full_bound_and_gradient(seed, likelihood, size):
    machine, X, y, weight = problem(seed, likelihood)
    sizes = Sizes(y.size, np.bincount(X.indices, minlength=X.shape[1]))
    whole = batch_of(X, y, weight)
    full = estimate(machine, whole, sizes)
    order, n_batches = np.random.default_rng(seed).permutation(y.size), y.size // size
    value, bias = 0.0, np.zeros(2)
    in_mean, in_log_sd = np.zeros(machine.mean.shape), np.zeros(machine.mean.shape)
    for rows in order.reshape(n_batches, size):
        batch = batch_of(X[rows], y[rows], weight[rows])
        part = estimate(machine, batch, sizes)
        value += part.value / n_batches
        bias += np.array(part.in_bias) / n_batches
        in_mean[batch.features] += part.in_mean / n_batches
        in_log_sd[batch.features] += part.in_log_sd / n_batches
    np.testing.assert_allclose(value, full.value, rtol=1e-10)
    np.testing.assert_allclose(bias, full.in_bias, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(in_mean[whole.features], full.in_mean, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(in_log_sd[whole.features], full.in_log_sd, rtol=1e-9, atol=1e-9)


@examples(15)
@given(st.integers(0, 2**32 - 1), st.sampled_from(LIKELIHOODS))
def test_normalised_weights_of_divergences_sum_to_the_features_of_each_group(seed, likelihood):
    machine, X, y, weight = problem(seed, likelihood)
    sizes = Sizes(y.size, np.bincount(X.indices, minlength=X.shape[1]), machine.prior.group)
    whole = batch_of(X, y, weight)
    np.testing.assert_allclose(
        estimate(machine, whole, sizes).value, estimate(machine, whole, sizes._replace(groups=None)).value, rtol=1e-12
    )
    rows = slice(0, 4)
    batch = batch_of(X[rows], y[rows], weight[rows])
    k, group = batch.features, machine.prior.group
    alpha = np.zeros(X.shape[1])
    alpha[k] = batch.counts / sizes.counts[k]
    for g in np.unique(group[k]):
        alpha[group == g] *= (sizes.counts[group == g] > 0).sum() / alpha[group == g].sum()
    expected = machine.slopes(batch.y, *machine.moments(compress(X[rows])), batch.weight)[0]
    wanted = y.size / 4 * expected - alpha @ machine.divergences().sum(axis=1) - machine.bias_divergence()
    np.testing.assert_allclose(estimate(machine, batch, sizes).value, wanted, rtol=1e-10)


@given(st.integers(0, 2**32 - 1), st.sampled_from(LIKELIHOODS))
def test_nothing_depends_on_the_order_of_features_or_rows(seed, likelihood):
    machine, X, y, weight = problem(seed, likelihood)
    rng = np.random.default_rng(seed)
    features, rows = rng.permutation(X.shape[1]), rng.permutation(y.size)
    moved = replace(
        machine,
        mean=machine.mean[features],
        variance=machine.variance[features],
        prior=machine.prior._replace(group=machine.prior.group[features]),
    )
    Y = sparse.csr_array(X[rows][:, features])
    Y.sort_indices()
    value = evidence_bound(machine, X, y, weight)
    np.testing.assert_allclose(evidence_bound(moved, Y, y[rows], weight[rows]), value, rtol=1e-11)
    # Factors may be permuted, and their signs turned.
    turned = replace(
        machine,
        mean=machine.mean[:, [0, 2, 1]] * [1.0, -1.0, 1.0],
        variance=machine.variance[:, [0, 2, 1]],
        prior=machine.prior._replace(
            nu=machine.prior.nu[:, [0, 2, 1]] * [1.0, -1.0, 1.0], lam=machine.prior.lam[:, [0, 2, 1]]
        ),
    )
    np.testing.assert_allclose(evidence_bound(turned, X, y, weight), value, rtol=1e-11)


def test_learnt_priors_and_noise_are_the_best():
    machine, X, y, weight = problem(2, Gaussian(1.0), n=30)
    mu, v = machine.moments(compress(X))
    for _ in range(200):
        machine = machine.learn_likelihood(y, mu, v, weight).learn_priors()
    best, rng = evidence_bound(machine, X, y, weight), np.random.default_rng(0)
    for _ in range(20):
        nu = machine.prior.nu + 0.05 * rng.standard_normal(machine.prior.nu.shape)
        lam = machine.prior.lam * np.exp(0.05 * rng.standard_normal(machine.prior.lam.shape))
        alpha = machine.likelihood.precision * np.exp(0.05 * rng.standard_normal())
        other = replace(machine, prior=machine.prior._replace(nu=nu, lam=lam), likelihood=Gaussian(alpha))
        assert evidence_bound(other, X, y, weight) <= best


def test_features_without_entries_get_their_prior():
    machine, X, y, weight = problem(1, Gaussian(1.0), n=20)
    X = sparse.csr_array(X.toarray() * (np.arange(7) != 3))
    ascended, _, _ = coordinate_ascent(machine, (X, y, weight), plan_of(machine))
    last, *_ = adam_ascent(machine, (X, y, weight), plan_of(machine), (5, 0.05, 0), np.random.default_rng(0))
    group = last.prior.group[3]
    np.testing.assert_allclose(last.mean[3], last.prior.nu[group])
    np.testing.assert_allclose(last.variance[3], 1.0 / last.prior.lam[group])
    # The priors moved once more after the last update.
    np.testing.assert_allclose(ascended.variance[3], 1.0 / ascended.prior.lam[ascended.prior.group[3]], rtol=0.05)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_draws_of_a_certain_machine_are_its_expectations(likelihood):
    machine, X, y, weight = problem(3, likelihood, n=30)
    machine = replace(machine, bias=Bias(0.4, 1e-26), variance=np.full_like(machine.variance, 1e-26))
    batch, sizes = batch_of(X, y, weight), Sizes(60, np.diff(X.tocsc().indptr))
    drawn, exact = (estimate(machine, batch, sizes, np.random.default_rng(0), n) for n in (5, 0))
    np.testing.assert_allclose(drawn.value, exact.value, rtol=1e-9)
    np.testing.assert_allclose(drawn.in_bias, exact.in_bias, rtol=1e-9)
    np.testing.assert_allclose(drawn.in_mean, exact.in_mean, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(drawn.squares, exact.squares, rtol=1e-9)


def test_predictions_are_of_the_average_over_passes_unless_the_last_is_asked_for():
    _, X, y, _ = problem(5, Gaussian(1.0), n=40)
    model = VariationalFM(n_factors=2, batch_size=8, max_iter=4, random_state=0).fit(X, y)
    q = model.posterior_
    for machine, predicted in ((q.machine, model.predict(X)), (q.last, model.predict_last(X))):
        np.testing.assert_allclose(predicted, q.offset + q.scale * machine.moments(compress(X))[0], rtol=1e-12)
    assert np.abs(model.predict(X) - model.predict_last(X)).max() > 1e-6


@pytest.mark.parametrize("posterior", ["full", "factorised"])
def test_precisions_without_an_inverse_are_no_overflow(posterior):
    rows = np.insert(np.random.default_rng(1).standard_normal((40, 3)), 0, 1e12, axis=1)
    wanted = (
        r"no posterior in float64; scale X or sample_weight: .* to 1e\+12 in size and weights up to 1 the precisions"
    )
    with pytest.raises(DataError, match=wanted):
        VariationalFM(posterior=posterior, random_state=1).fit(rows, rows[:, 1] + rows[:, 2] * rows[:, 3])
    scaled = rows / [1e12, 1.0, 1.0, 1.0]
    model = VariationalFM(posterior=posterior, random_state=1).fit(scaled, rows[:, 1] + rows[:, 2] * rows[:, 3])
    assert np.isfinite(model.predict(scaled)).all()


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_covariances_are_symmetric_up_to_rounding_of_their_size(scale):
    machine = problem(0, Gaussian(2.0))[0].convert_posterior(full=True)
    skew = np.zeros((3, 3))
    skew[0, 1] = 1.0
    for asymmetry, sound in ((1e-12, True), (1e-8, False)):
        variance = scale * (np.eye(3) + asymmetry * skew) * np.ones((7, 1, 1))
        damaged = replace(machine, variance=variance)
        if sound:
            damaged.validate()
        else:
            with pytest.raises(DataError, match="variance must be symmetric"):
                damaged.validate()


@pytest.mark.parametrize(("scale", "sound"), [(1.5e-150, True), (1e-150, False), (0.9e150, True), (1e150, False)])
def test_units_of_targets_have_a_square(scale, sound):
    machine, *_ = problem(0, Gaussian(2.0))
    posterior = FMPosterior(machine, machine, 0.0, scale)
    if sound:
        posterior.validate()
        return
    with pytest.raises(DataError, match="scale must have a square in the range of floats"):
        posterior.validate()


@pytest.mark.parametrize(
    ("group", "sound"), [([0, 1, 0, 1, 0, 1, 0], True), ([0, -1] * 3 + [0], False), ([2] * 7, False)]
)
def test_groups_of_features_are_numbers_of_groups(group, sound):
    machine, *_ = problem(0, Gaussian(2.0))
    prior = machine.prior._replace(group=np.array(group))
    if sound:
        prior.validate()
        return
    with pytest.raises(DataError, match="group"):
        prior.validate()


@pytest.mark.parametrize(("n_distinct", "merges"), [(3, True), (4, True), (5, False), (8, False)])
def test_rows_of_which_most_are_repeated_are_merged(n_distinct, merges):
    number = np.arange(8) % n_distinct
    weight = np.linspace(0.5, 4.0, 8)
    # Rows 0 and 1 differ in y alone, rows 1 and 2 in X alone.
    X, y = sparse.csr_array(np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 2.0]])[np.minimum(number, 2)]), number // 1.0
    y[number == 2] = 1.0
    rows = TrainingRows(X, y, weight)
    merged = rows.merge_repeats()
    if not merges:
        assert merged is rows
        return
    assert merged.y.size == n_distinct
    for row, target, total in zip(merged.X.toarray(), merged.y, merged.weight, strict=True):
        same = (X.toarray() == row).all(axis=1) & (y == target)
        np.testing.assert_allclose(total, weight[same].sum())
    assert merged.weight.dtype == np.float64


def test_the_machine_with_the_least_loss_is_kept_until_patience_ends():
    losses = {1: 3.0, 2: 1.0, 3: 2.0, 4: 1.0, 5: 0.5, 6: 0.7, 7: 0.6}
    stopping = _EarlyStopping(None, lambda machine, _: losses[machine], patience=3)
    stops, best = zip(*[(stopping(machine), stopping.best) for machine in losses], strict=True)
    # An equal loss is no better one.
    assert stops == (False, False, False, False, False, False, False)
    assert best == (1, 2, 2, 2, 5, 5, 5)
    assert stopping.losses == list(losses.values())
    losses[8] = 0.5
    assert stopping(8)
    assert stopping.best == 5


def in_steps(machine, X, y, weight, plan, shares):
    """The machine after passes with these shares of a full step, each from sums of its own."""
    plan = replace(plan, free_bias=False)  # which moves here
    for share in shares:
        sweep = (fit._FullSweep if machine.full else fit._FactorisedSweep)((X, y, weight), machine, plan)
        mu, v = sweep.moments(machine)
        slopes = machine.slopes(y, mu, v, weight)[1]
        bias, prior = machine.bias, machine.bias_prior
        # Natural parameters move a share of the way, with the curvature of the start.
        precision = slopes.weight.sum() + 1.0 / prior.variance
        step = share * (slopes.pull.sum() + (prior.mean - bias.mean) / prior.variance) / precision
        moved = replace(machine, bias=Bias(bias.mean + step, 1.0 / ((1.0 - share) / bias.variance + share * precision)))
        slopes = slopes._replace(pull=slopes.pull - slopes.weight * step)
        machine = sweep.update(moved, slopes, (mu + step, v), share)
    return machine


@pytest.mark.parametrize(
    ("bounds", "wanted", "tried", "taken"),
    [
        ([0.0, -1.0, -1.0, 1.0, 2.0, 3.0], [1.0, 2.0, 3.0], [1.0, 0.5, 0.25, 0.5, 1.0, 1.0], [0.25, 0.5, 1.0]),
        ([0.0], [0.0], [1.0, 0.5, 0.25, 0.125], []),
    ],
)
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("likelihood", LIKELIHOODS[:2])
def test_a_pass_that_lowers_the_bound_is_repeated_with_half_the_step(
    monkeypatch, bounds, wanted, tried, taken, full, likelihood
):
    machine, X, y, weight = problem(3, likelihood)
    machine = machine.convert_posterior(full=full)
    plan = plan_of(machine, learn_priors=False, learn_likelihood=False)
    after = in_steps(machine, X, y, weight, plan, taken)
    values, shares = chain(bounds, repeat(-1.0)), []
    monkeypatch.setattr(Machine, "bound", lambda *_: next(values))
    kind = fit._FullSweep if full else fit._FactorisedSweep
    update = kind.update
    monkeypatch.setattr(kind, "update", lambda *args: shares.append(args[-1]) or update(*args))
    last, path, converged = coordinate_ascent(machine, (X, y, weight), plan)
    assert path == wanted
    assert converged
    assert shares[: len(tried)] == tried
    # Where no step raises the bound the search ends with what it has.
    assert len(shares) < 30
    np.testing.assert_allclose(last.mean, after.mean, rtol=1e-9)
    np.testing.assert_allclose(last.variance, after.variance, rtol=1e-9)
    np.testing.assert_allclose([last.bias.mean, last.bias.variance], [after.bias.mean, after.bias.variance])


@pytest.mark.parametrize(
    ("values", "max_iter", "patience", "averaged", "converged"),
    [
        ([0.0] * 6, 6, None, [3, 4, 5], False),  # the last half
        ([0.0] * 5, 5, None, [2, 3, 4], False),
        # From where the bound gains no more than .1 nats a unit of weight for the first time in a row.
        ([0.0, 2.0, 2.9, 4.5, 4.5, 4.5, 9.0], 20, 2, [4, 5], True),
        ([0.0, 2.0, 3.1, 4.5, 4.5, 4.5, 9.0], 20, 2, [4, 5], True),
        ([0.0, 2.0, 2.9, 2.8, 9.0, 9.0], 20, 2, [2, 3], True),
        ([0.0, -1.0, 5.0, 9.0], 4, 3, [1, 2, 3], False),
    ],
)
def test_mini_batches_average_the_last_half_or_what_no_longer_rises(
    monkeypatch, values, max_iter, patience, averaged, converged
):
    machine, X, y, _ = problem(5, LIKELIHOODS[0])
    weight, script = np.full(y.size, 10.0 / y.size), iter(values)
    nothing = np.zeros(machine.mean.shape)
    monkeypatch.setattr(
        fit_batches, "batch_of", lambda *_: fit_batches.Batch(None, None, np.arange(7), None, y, weight)
    )
    monkeypatch.setattr(
        fit_batches, "estimate", lambda *_: fit_batches.Estimate(next(script), (0.0, 0.0), nothing, nothing, 1.0)
    )
    monkeypatch.setattr(Machine, "log_hyper_prior", lambda _: 0.5)
    events, added = [], []
    add = fit_batches._Average.add
    monkeypatch.setattr(fit_batches._Average, "__init__", lambda self: added.clear() or setattr(self, "_n", 0))
    monkeypatch.setattr(fit_batches._Average, "add", lambda self, m: added.append(len(events)) or add(self, m))
    options = {"max_iter": max_iter, "patience": patience, "tol": 0.1, "learn_priors": False, "learn_likelihood": False}
    plan = plan_of(machine, on_iteration=events.append, **options)
    last, average, bounds, ended = adam_ascent(
        machine, (X, y, weight), plan, (y.size, 0.1, 0), np.random.default_rng(0)
    )
    assert added == averaged
    assert ended is converged
    assert bounds == [value + 0.5 for value in values[: len(bounds)]]
    assert len(bounds) == averaged[-1] + 1
    np.testing.assert_allclose(average.mean, last.mean)
    assert average.bias.variance == pytest.approx(last.bias.variance)


def test_the_average_is_of_means_and_of_logarithms_of_variances():
    machine = problem(5, LIKELIHOODS[0])[0]
    others = [
        replace(machine, mean=machine.mean + k, variance=machine.variance * 4.0**k, bias=Bias(k, 9.0**k))
        for k in range(3)
    ]
    average = fit_batches._Average()
    assert average.mean_machine(machine) is machine
    for other in others:
        average.add(other)
    mean = average.mean_machine(others[0])
    np.testing.assert_allclose(mean.mean, machine.mean + 1.0)
    np.testing.assert_allclose(mean.variance, machine.variance * 4.0)
    assert mean.bias == pytest.approx((1.0, 9.0))


@pytest.mark.parametrize(("full", "full_prior"), [(False, False), (True, False), (True, True)])
def test_divergences_are_those_of_normal_distributions(full, full_prior):
    machine, rng = problem(9, LIKELIHOODS[0])[0], np.random.default_rng(1)
    machine = machine.convert_posterior(full=full)
    assert machine.convert_posterior(full=full) is machine
    roots = rng.standard_normal((2, 7, 3, 3)) + 2.0 * np.eye(3)
    if full:
        machine = replace(machine, variance=roots[0] @ roots[0].transpose(0, 2, 1))
    if full_prior:
        lam = roots[1][:2] @ roots[1][:2].transpose(0, 2, 1)
        machine = replace(machine, prior=machine.prior._replace(lam=lam))
    if not full_prior:
        machine.validate()
    got = np.asarray(machine.divergences()).reshape(7, -1).sum(axis=1)
    for k, g in enumerate(machine.prior.group):
        C = machine.variance[k] if full else np.diag(machine.variance[k])
        P = machine.prior.lam[g] if full_prior else np.diag(machine.prior.lam[g])
        apart = machine.mean[k] - machine.prior.nu[g]
        wanted = 0.5 * (np.trace(P @ C) + apart @ P @ apart - 3.0 - np.linalg.slogdet(P @ C)[1])
        assert got[k] == pytest.approx(wanted)
    np.testing.assert_allclose(machine.variances, [np.diag(c) if full else c for c in machine.variance])
    factorised = machine.convert_posterior(full=False)
    assert factorised.prior.lam.ndim == 2
    np.testing.assert_allclose(factorised.variance, machine.variances)
    if full_prior:
        np.testing.assert_allclose(factorised.prior.lam, np.diagonal(machine.prior.lam, axis1=1, axis2=2))
    bias, prior = machine.bias, machine.bias_prior
    ratio = bias.variance / prior.variance
    apart = (bias.mean - prior.mean) ** 2 / prior.variance
    assert machine.bias_divergence() == pytest.approx(0.5 * (ratio + apart - 1.0 - np.log(ratio)))


@pytest.mark.parametrize(("size", "scale"), [(1.0, 0.1), (3.0, 0.1 / 3.0), (1e-4, 10.0), (0.0, 0.1)])
def test_interactions_of_two_ones_have_a_tenth_as_standard_deviation_at_the_start(size, scale):
    X = size * sparse.csr_array(np.tile([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]], (3, 1)))
    group = np.array([0, 2, 2])
    rng = np.random.default_rng(0)
    machine = start_machine(compress(X), np.linspace(0.5, 2.0, 6), group, 4000, Gaussian(1.0), rng)
    machine.validate()
    np.testing.assert_array_equal(machine.mean[:, 0], 0.0)
    np.testing.assert_allclose(machine.mean[:, 1:].std(), scale, rtol=0.03)
    np.testing.assert_allclose(machine.variance, scale**2)
    assert (machine.bias, machine.bias_prior) == (Bias(0.0, 1.0), Bias(0.0, 1.0))
    np.testing.assert_array_equal(machine.prior.nu, np.zeros((3, 4001)))
    np.testing.assert_array_equal(machine.prior.lam, np.ones((3, 4001)))


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("zero", [False, True])
def test_rows_are_read_without_duplicates_and_zeros_and_stay_as_they_are(*, double, zero):
    data, column = np.array([2.0, 0.0 if zero else 3.0, 4.0, 5.0]), np.array([1, 0, 0 if double else 2, 1])
    X = sparse.csr_array((data, column, [0, 1, 3, 4]), shape=(3, 3))
    parts = data.copy(), column.copy()
    read = canonical_features(X)
    assert_array_equal(read.toarray(), X.toarray())
    assert read.nnz == np.count_nonzero(X.toarray())
    for part, before in zip((X.data, X.indices), parts, strict=True):
        assert_array_equal(part, before)
    assert canonical_features(X.toarray()).nnz == read.nnz


@pytest.mark.parametrize(("mu", "v"), [(np.inf, 0.0), (0.0, np.nan)])
def test_the_row_that_overflows_is_named(mu, v):
    rows = compress(sparse.csr_array(np.diag([9.0, 2.0, 3.0])))
    at = np.arange(3) == 2
    assert "row 2 holds values up to 3" in overflow_message(rows, np.where(at, mu, 0.0), np.where(at, v, 0.0))


def test_a_group_without_features_keeps_its_prior():
    machine, *_ = problem(2, Gaussian(1.0), n=30)
    nu, lam, group = machine.prior
    more = Prior(np.vstack([nu, np.full_like(nu[:1], 0.0)]), np.vstack([lam, np.full_like(lam[:1], 7.0)]), group)
    learnt = replace(machine, prior=more).learn_priors().prior
    np.testing.assert_array_equal(learnt.lam[-1], 7.0)
    wanted = machine.learn_priors().prior
    np.testing.assert_array_equal(learnt.lam[:-1], wanted.lam)
    np.testing.assert_array_equal(learnt.nu[:-1], wanted.nu)


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ([[1, 0, 0, 1, 0], [0, 1, 0, 0, 1], [0, 1, 1, 1, 0]], [0]),  # the last row has both, so group 1 is not one-hot
        ([[1, 0, 0, 1, 0], [0, 1, 0, 0, 1], [0, 1, 0, 1, 0]], [0, 1]),
        ([[1, 0, 0, 1, 0], [1, 1, 0, 0, 1], [0, 0, 0, 1, 0]], [1]),  # as many entries as rows, but two in one of them
        ([[2, 0, 0, 1, 0], [0, 1, 0, 0, 1], [0, 1, 0, 1, 0]], [1]),
        ([[0, 0, 0, 1, 0], [0, 0, 0, 1, 0], [0, 0, 0, 1, 0]], [1]),
        ([[1, 0, 1, 1, 1]], [0]),
    ],
)
def test_one_hot_groups(table, expected):
    X = sparse.csr_array(np.array(table, dtype=np.float64))
    assert one_hot_groups(X, np.array([0, 0, 1, 1, 1])).tolist() == expected
