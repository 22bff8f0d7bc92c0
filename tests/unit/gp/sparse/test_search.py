"""`SparseSearch`: what limits its iterations and the evaluations along a line."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from skpref.gp.hyperpriors import NormalPrior
from skpref.gp.sparse.search import ObjectiveValue, SparseConfig, SparseParameters, SparseSearch, length_scales


def new_search(max_iter=50):
    config = SparseConfig("l-bfgs-b", 2, "kmeans++", "auto", None, max_iter, 1e-9)
    kernel = ConstantKernel(1.0, (1e-3, 1e3)) * RBF(1.0, (1e-3, 1e3))
    return SparseSearch(config, SparseParameters(kernel, 0.1, np.array([[0.0], [1.0]])))


def counted(value):
    calls = []

    def objective(parameters):
        calls.append(parameters)
        return value(parameters)

    return objective, calls


def valley(parameters):
    """Rosenbrock's function of log amplitude and log length-scale, upside down: two dozen iterations to its top."""
    x, y = parameters.kernel.theta
    slope = np.array([400.0 * x * (y - x * x) + 2.0 * (1.0 - x), -200.0 * (y - x * x)])
    log_noise = float(np.log(parameters.noise))
    return ObjectiveValue(-100.0 * (y - x * x) ** 2 - (1.0 - x) ** 2 - log_noise**2, slope, -2.0 * log_noise, None), 1.0


def lie(parameters):
    """Promises to rise wherever one goes, and falls."""
    return ObjectiveValue(-float(np.sum(parameters.kernel.theta)), np.ones(2), 0.0, None), 1.0


def test_a_search_of_planned_length_is_no_failure():
    objective, calls = counted(valley)
    plain = new_search()
    plain.ascend(objective)
    assert plain.converged
    assert np.allclose(plain.parameters.kernel.theta, 1.0, atol=1e-2)
    all_calls = len(calls)
    objective, calls = counted(valley)
    capped = new_search()
    capped.ascend(objective, max_iter=5)
    assert capped.converged
    assert len(calls) < all_calls / 2
    assert max(capped.trace) < max(plain.trace)
    assert valley(capped.parameters)[0].value == max(capped.trace)


def test_the_cap_of_the_settings_is_a_failure_and_holds_for_a_planned_length_too():
    for planned, converged in ((None, False), (30, True)):
        objective, calls = counted(valley)
        search = new_search(max_iter=5)
        search.ascend(objective, max_iter=planned)
        assert (search.converged, search.cut_short) == (converged, not converged)
        assert len(calls) <= 15


@pytest.mark.parametrize(("max_iter", "steps"), [(None, 20), (10, 4)])
def test_evaluations_along_a_line(max_iter, steps):
    objective, calls = counted(lie)
    search = new_search()
    search.ascend(objective, max_iter=max_iter)
    assert len(calls) == 1 + steps
    assert np.all(search.parameters.kernel.theta == 0.0)
    assert (search.converged, search.cut_short) == (max_iter is not None, False)


def test_of_two_reasons_not_to_converge_the_one_that_more_iterations_help_is_named():
    search = new_search(max_iter=1)
    search.ascend(lie)
    assert (search.converged, search.cut_short) == (False, False)
    search.ascend(valley)
    assert (search.converged, search.cut_short) == (False, True)


def two_hills(parameters):
    """Hills at log amplitudes near 1 and -1, the first .6 higher."""
    x, y = parameters.kernel.theta
    slope = np.array([-4.0 * x * (x * x - 1.0) + 0.3, -2.0 * y])
    log_noise = float(np.log(parameters.noise))
    return ObjectiveValue(-((x * x - 1.0) ** 2) + 0.3 * x - y * y - log_noise**2, slope, -2.0 * log_noise, None), 1.0


@pytest.mark.parametrize("higher", [False, True])
def test_of_several_starts_the_higher_end_wins(*, higher):
    search = new_search()
    left, right = (
        SparseParameters(search.parameters.kernel.clone_with_theta(np.array([x, 0.5])), 0.5, search.parameters.points)
        for x in (-1.2, 1.2)
    )
    search.parameters = left if higher else right
    search.ascend(two_hills)
    end, trace, scale = search.parameters, list(search.trace), search.scale
    search.compare([right] if higher else [left], two_hills)
    if not higher:
        assert (search.parameters, search.trace) == (end, trace)
        assert search.scale is scale
        return
    assert search.parameters.kernel.theta[0] == pytest.approx(1.036, abs=1e-2)
    assert search.trace[: len(trace)] == trace
    assert len(search.trace) > len(trace) + 1
    assert max(search.trace) > max(trace) + 0.5
    assert search.converged
    search.compare([], two_hills)
    search.compare([left], two_hills)
    assert search.parameters.kernel.theta[0] == pytest.approx(1.036, abs=1e-2)


def test_points_move_in_units_of_the_shortest_length_scale_of_their_feature():
    points = np.zeros((3, 2))
    assert length_scales(SparseParameters(RBF([1.0, 4.0]) + RBF(2.0), 0.1, points)).tolist() == [1.0, 2.0]
    assert length_scales(SparseParameters(ConstantKernel(3.0), 0.1, points)).tolist() == [1.0, 1.0]


@pytest.mark.parametrize(("priors", "noise"), [((), 1e-7), ((NormalPrior(np.zeros(2), 0.0, 1.0),), 2e-3 / 100.0)])
def test_beside_priors_learnt_noise_does_not_vanish(priors, noise):
    def interpolated(parameters):
        """Log evidence of 100 rows that are explained whatever the noise is."""
        return ObjectiveValue(-50.0 * float(np.log(parameters.noise)), np.zeros(2), -50.0, None), 100.0

    search = new_search()
    search.priors = lambda _: priors
    search.ascend(interpolated)
    assert search.parameters.noise == pytest.approx(noise, rel=1e-2)
