from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import f

from skpref.exceptions import DataError
from skpref.inference import gibbs
from skpref.inference.gibbs import (
    Chain,
    Info,
    Plan,
    effective_sample_size,
    is_kept,
    rhat_limit,
    run,
    running_mean,
    split_rhat,
    thinned,
    warning_limit,
)


def step(state, sweep):
    """An autoregression whose noise is named by the sweep."""
    x = 0.9 * state["x"] + np.random.default_rng([int(state["seed"]), sweep]).standard_normal(3)
    return {"x": x, "seed": state["seed"]}, Info(-float(x @ x), {"square": float(x @ x)}, {"x": x})


def starts(n=1):
    return [Chain({"x": np.zeros(3), "seed": np.array(seed)}) for seed in range(n)]


def states(n_sweeps, seed=0):
    state, seen = starts(seed + 1)[seed].state, []
    for sweep in range(1, n_sweeps + 1):
        state, _ = step(state, sweep)
        seen.append(state["x"])
    return np.array(seen)


def same(a, b):
    assert (a.sweep, a.begin, a.n_averaged, a.trace) == (b.sweep, b.begin, b.n_averaged, b.trace)
    pairs = zip((a.state, a.average or {}, *a.samples), (b.state, b.average or {}, *b.samples), strict=True)
    for one, other in pairs:
        assert one.keys() == other.keys()
        for name, value in one.items():
            np.testing.assert_array_equal(value, other[name])


def test_a_run_averages_and_keeps_what_comes_after_burn_in():
    (chain,) = run(starts(), lambda _: step, Plan(30, 10, n_samples=4))
    seen = states(30)
    np.testing.assert_array_equal(chain.state["x"], seen[-1])
    np.testing.assert_allclose(chain.average["x"], seen[10:].mean(axis=0), atol=1e-14)
    np.testing.assert_array_equal([s["x"] for s in chain.samples], seen[[14, 19, 24, 29]])
    assert chain.n_averaged == 20
    np.testing.assert_allclose(chain.trace["square"], (seen**2).sum(axis=1), rtol=1e-14)


@pytest.mark.parametrize(
    ("change", "sound"),
    [
        ({}, True),
        ({"n_averaged": 1}, True),
        ({"n_averaged": 0}, False),
        ({"n_averaged": 4}, False),
        ({"trace": {"risk": [0.5]}}, True),
        ({"trace": {"risk": []}}, False),
        ({"trace": {"risk": [0.5] * 4}}, False),
        ({"trace": {"risk": [0.5], "square": [0.5, 0.5]}}, False),
        ({"trace": {"square": [0.5]}}, False),
        ({"trace": {"risk": [1]}}, False),
        ({"trace": {"risk": (0.5,)}}, False),
        ({"state": {}}, False),
        ({"state": {"seed": np.zeros(1, np.uint64)}}, False),
        ({"state": {"seed": np.array(3)}}, False),
        ({"average": None}, False),
        ({"begin": 6}, False),
    ],
)
def test_a_chain_of_a_file_reports_the_sweeps_that_it_made(change, sound):
    seed = {"seed": np.array(3, np.uint64)}
    chain = Chain(seed, 5, 2, {}, 3, ({},), {"risk": [0.5] * 3})
    if sound:
        replace(chain, **change).validate()
    else:
        with pytest.raises(DataError):
            replace(chain, **change).validate()


def test_the_state_is_averaged_where_there_is_no_estimate():
    (chain,) = run(starts(), lambda _: lambda s, i: (step(s, i)[0], Info(0.0, {})), Plan(9, 4))
    np.testing.assert_allclose(chain.average["x"], states(9)[4:].mean(axis=0), atol=1e-14)


def test_a_chain_that_goes_on_is_one_that_never_stopped():
    (first,) = run(starts(), lambda _: step, Plan(20, 5, n_samples=40))
    (second,) = run([first], lambda _: step, Plan(15, 5, n_samples=40))
    (whole,) = run(starts(), lambda _: step, Plan(35, 5, n_samples=40))
    same(second, whole)
    assert len(first.trace["square"]) == 20  # what was returned is left alone


def test_a_redirected_chain_starts_anew_with_numbers_not_used_yet():
    (first,) = run(starts(), lambda _: step, Plan(20, 5, n_samples=3))
    (second,) = run([first.redirected(first.state)], lambda _: step, Plan(10, 6, n_samples=9))
    seen = states(30)[20:]
    np.testing.assert_allclose(second.average["x"], seen[6:].mean(axis=0), atol=1e-14)
    assert (second.sweep, second.n_averaged, len(second.samples), len(second.trace["square"])) == (30, 4, 4, 10)


def test_samples_are_evenly_spaced_and_end_with_the_last():
    for n, most in ((40, 20), (40, 7), (3, 9), (5, 1), (5, 0)):
        kept = [i for i in range(1, n + 1) if is_kept(i, n, most)]
        assert len(kept) == min(n, most)
        if kept:
            assert kept[-1] == n
            assert np.ptp(np.diff([0, *kept])) <= 1
    assert thinned(tuple({"x": i} for i in range(6)), 3) == ({"x": 1}, {"x": 3}, {"x": 5})


def test_seconds_of_a_resumed_run_count_those_before_it_at_the_same_pace(monkeypatch):
    events, now = [], iter([100.0, 102.0, 104.0])
    monkeypatch.setattr(gibbs.time, "perf_counter", lambda: next(now))
    clock = gibbs._Clock(Plan(5, 1, on_iteration=events.append), -4, 2)  # 6 of 10 sweeps were done before
    for _ in range(2):
        clock.tell(0.0, [])
    assert [(e.step, e.n_max, e.seconds) for e in events] == [(7, 10, 14.0), (8, 10, 16.0)]


def test_events_count_the_sweeps_of_all_chains_and_can_stop_them():
    events = []
    chains = run(starts(2), lambda _: step, Plan(5, 1, on_iteration=events.append))
    assert [e.step for e in events] == list(range(1, 11))
    assert {e.n_max for e in events} == {10}
    assert events[-1].bound == -chains[1].trace["square"][-1]
    stopped = run(starts(2), lambda _: step, Plan(5, 1, on_iteration=lambda e: e.step == 3))
    assert [c.sweep for c in stopped] == [3, 0]


# --------------------------------------------------------------------------
# averages and diagnostics


def test_running_mean_is_the_mean():
    values = np.random.default_rng(0).standard_normal((9, 4))
    mean = None
    for n, value in enumerate(values, 1):
        mean = running_mean(mean, {"x": value}, n)
    np.testing.assert_allclose(mean["x"], values.mean(axis=0), atol=1e-15)


def autoregression(phi, n_chains, n, seed):
    noise = np.random.default_rng(seed).standard_normal((n_chains, n))
    x = noise.copy()
    x[:, 0] /= np.sqrt(1.0 - phi**2)
    for t in range(1, n):
        x[:, t] += phi * x[:, t - 1]
    return x


# The standard deviation of the estimate was measured as below 6 % of these numbers; five of them.
@pytest.mark.parametrize("phi", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("n_chains", [1, 4])
def test_effective_sample_size_of_an_autoregression(phi, n_chains):
    n = 40_000
    wanted = n_chains * n * (1.0 - phi) / (1.0 + phi)
    assert effective_sample_size(autoregression(phi, n_chains, n, 1)) == pytest.approx(wanted, rel=0.3)


def test_rhat_tells_chains_that_agree_from_those_that_do_not():
    x = autoregression(0.3, 4, 2000, 2)
    assert split_rhat(x) == pytest.approx(1.0, abs=0.01)
    assert split_rhat(x + 2.0 * np.arange(4)[:, None]) > 2.0
    assert split_rhat(x[:1] + np.linspace(0.0, 9.0, 2000)) > 2.0  # one chain that drifts
    assert effective_sample_size(x + 9.0 * np.arange(4)[:, None]) < 20.0


def test_rhat_is_the_formula():
    x = np.array([[1.0, 2.0, 4.0, 3.0], [0.0, 1.0, 5.0, 2.0]])
    halves = np.array([[1.0, 2.0], [0.0, 1.0], [4.0, 3.0], [5.0, 2.0]])
    within, between = halves.var(axis=1, ddof=1).mean(), 2 * halves.mean(axis=1).var(ddof=1)
    assert split_rhat(x) == pytest.approx(np.sqrt((within / 2 + between / 2) / within))


def test_diagnostics_have_no_unit_and_take_any_number():
    draws = np.random.default_rng(0).standard_normal((3, 50))
    huge = np.where(np.arange(50) == 7, 1e308, draws)
    with np.errstate(over="raise", invalid="raise"):
        for measure in (split_rhat, effective_sample_size):
            assert measure(draws * 2.0**1000) == measure(draws)
            assert np.isfinite(measure(huge))


def test_diagnostics_of_nothing_are_no_numbers():
    for draws in (np.zeros((1, 50)), np.zeros((2, 3))):
        assert np.isnan(split_rhat(draws))
        assert np.isnan(effective_sample_size(draws))


@pytest.mark.parametrize(("tau", "phi"), [(1.0, 0.0), (3.0, 0.5)])
def test_the_halves_of_a_single_stationary_chain_are_rarely_above_the_limit(tau, phi):
    for n in (4, 12, 40, 200, 2000):
        draws = autoregression(phi, 1000, n, n)
        limit = rhat_limit(1, n, tau)
        # One is expected; of a Poisson variable of mean 1, one in a billion is above 10.
        assert sum(split_rhat(chain[None]) > limit for chain in draws) <= 10
    assert rhat_limit(2, 40, tau) == rhat_limit(1, 100_000, tau) == 1.1


def test_a_continued_plan_keeps_its_own_sweeps_evenly():
    # Which sweeps are kept depends on the sweeps of this run alone, where burn-in is over when it starts.
    plan = {"burn_in": 5, "keep": lambda state: {"sweep": state["sweep"]}}

    def counted(state, sweep):
        return {**step(state, sweep)[0], "sweep": np.array(sweep)}, Info(0.0, {})

    def kept(chain):
        return [int(sample["sweep"]) for sample in chain.samples]

    (first,) = run(starts(), lambda _: counted, Plan(21, n_samples=4, **plan))
    assert kept(first) == [9, 13, 17, 21]
    (second,) = run([replace(first, samples=())], lambda _: counted, Plan(12, n_samples=3, **plan))
    assert kept(second) == [25, 29, 33]


@pytest.mark.parametrize("n", [4, 7, 40])
@pytest.mark.parametrize("n_chains", [1, 3])
@pytest.mark.parametrize("phi", [0.8, 0.0, -0.9])
def test_effective_sample_size_is_geyers_formula(n, n_chains, phi):
    rng = np.random.default_rng(n)
    draws = rng.standard_normal((n_chains, n))
    for t in range(1, n):
        draws[:, t] += phi * draws[:, t - 1]
    draws += 0.3 * np.arange(n_chains)[:, None]
    covariance = np.zeros(n)
    for lag in range(n):
        for chain in draws - draws.mean(axis=1, keepdims=True):
            covariance[lag] += chain[: n - lag] @ chain[lag:] / n / n_chains
    unbiased = covariance * n / (n - 1)
    between = draws.mean(axis=1).var(ddof=1) if n_chains > 1 else 0.0
    rho = 1.0 - (unbiased[0] - unbiased) / (covariance[0] + between) if n_chains > 1 else covariance / covariance[0]
    rho[0] = 1.0
    total, least = -1.0, np.inf
    for k in range(n // 2):
        pair = rho[2 * k] + rho[2 * k + 1]
        if pair < 0.0:
            break
        least = min(least, pair)
        total += 2.0 * least
    wanted = n_chains * n / max(total, 1.0 / np.log10(n_chains * n))
    assert effective_sample_size(draws) == pytest.approx(wanted)
    assert np.isnan(effective_sample_size(draws[:, :3]))  # too few to tell


def test_the_limit_of_rhat_is_that_of_one_in_a_thousand():
    assert rhat_limit(2, 10, 5.0) == rhat_limit(1, 10**7, 1.0) == 1.1
    for n_draws, tau in ((40, 3.0), (41, 3.0), (2, 1.0), (5, 1.0)):
        half = max(n_draws // 2, 2)
        quantile = f.ppf(0.999, 1, 2 * (half - 1))
        assert rhat_limit(1, n_draws, tau) == pytest.approx(np.sqrt(1.0 + tau / half * quantile))


def test_after_forty_sweeps_chance_explains_no_rhat_above_two():
    assert rhat_limit(1, 20, 8.0) > 2.0
    assert warning_limit(1, 39, 20, 8.0) == rhat_limit(1, 20, 8.0)
    assert warning_limit(1, 40, 20, 8.0) == 2.0
    assert warning_limit(1, 4000, 2000, 1.0) == warning_limit(2, 40, 20, 8.0) == 1.1
