"""Hyper-parameters of ordinal models: what a search is free to move, priors, and which kernels it prefers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from skpref import LBFGS, GPOrdinalRegressor
from skpref._math.linalg import NotPositiveDefiniteError
from skpref.exceptions import DataError
from skpref.gp.default_kernels import default_kernel, feature_scales, named_kernel
from skpref.gp.hyperpriors import NormalPrior
from skpref.gp.ordinal import families
from skpref.gp.ordinal.evidence import EvidenceValue, ExactEvidence, OrdinalData, SparseEvidence
from skpref.gp.ordinal.families import FamilyFit, SearchRows, weigh_families, with_absent_levels
from skpref.gp.ordinal.hyperparameters import HyperparameterSpace, LogPosterior, search
from skpref.inference.svi import Schedule
from skpref.kernels import Linear
from skpref.likelihoods import OrdinalLogit, OrdinalProbit, OrdinalRobust
from tests.examples import examples

RNG = np.random.default_rng(3)
N = 24
X = RNG.normal(size=(N, 2))
Y = np.digitize(X[:, 0] + 0.3 * RNG.normal(size=N), [-0.6, 0.0, 0.6]).astype(float)
DATA = OrdinalData(X, Y, 1.0 + np.arange(N) % 2)
LIKELIHOOD = OrdinalProbit((-0.9, 0.1, 0.8), 0.7)
KERNELS = [
    (RBF([1.0, 2.0]), None),
    (RBF([1.0, 2.0]), [0, 0]),
    (Matern([1.0, 2.0], nu=1.5) + Linear([0.5, 0.7]), [0, 0, 1, 1]),
    (ConstantKernel(2.0, "fixed") * RBF(1.5), None),
    (RBF(1.0, "fixed"), None),
]


def space(kernel, group=None, priors=()):
    return HyperparameterSpace(kernel, LIKELIHOOD, None if group is None else np.array(group), priors)


def slope(function, at, h=1e-2):
    out = []
    for unit in h * np.eye(at.size):
        values = [function(at + k * unit) for k in (-2, -1, 1, 2)]
        out.append((values[0] - 8.0 * values[1] + 8.0 * values[2] - values[3]) / (12.0 * h))
    return np.array(out)


# ---------------------------------------------------------------------------------------------------------- the spaces
@pytest.mark.parametrize(("kernel", "group"), KERNELS, ids=str)
def test_the_start_is_what_was_given(kernel, group):
    hyper = space(kernel, group)
    there, likelihood = hyper.evaluate(hyper.start)
    assert_allclose(there.theta, kernel.theta)
    assert_allclose(likelihood.theta, LIKELIHOOD.theta)
    assert hyper.bounds.shape == (hyper.start.size, 2)
    assert np.all((hyper.bounds[:, 0] <= hyper.start) & (hyper.start <= hyper.bounds[:, 1]))
    assert np.all((hyper.restart_box[:, 0] <= hyper.start) & (hyper.start <= hyper.restart_box[:, 1]))
    assert_array_equal(
        hyper.restart_box[hyper.n_kernel + 1 :, 0], hyper.start[hyper.n_kernel + 1 :]
    )  # thresholds stay for restarts


def test_tied_parameters_move_together_and_keep_all_bounds():
    kernel = RBF([1.0, 2.0], [(0.1, 10.0), (1.0, 4.0)])
    hyper = space(kernel, [0, 0])
    assert hyper.n_kernel == 1
    there, _ = hyper.evaluate(hyper.start + np.append(0.3, np.zeros(4)))
    assert_allclose(there.theta - kernel.theta, 0.3)
    assert_allclose(hyper.bounds[0], np.log([0.5, 2.0]))  # those of the second


def test_without_a_kernel_there_are_noise_and_thresholds():
    hyper = space(None)
    assert hyper.n_kernel == 0
    assert hyper.start.shape == (4,)
    assert hyper.evaluate(hyper.start)[0] is None


@given(seed=st.integers(0, 2**32 - 1))
def test_priors_are_normal_densities(seed):
    rng = np.random.default_rng(seed)
    priors = tuple(NormalPrior(rng.normal(size=6), rng.normal(), np.exp(rng.normal())) for _ in range(3))
    hyper, theta = space(RBF([1.0, 2.0]), priors=priors), rng.normal(size=6)
    value, gradient = hyper.log_prior(theta)
    wanted = -0.5 * sum(((b.weights @ theta - b.mean) / b.sd) ** 2 for b in priors)
    assert value == pytest.approx(wanted)
    assert_allclose(gradient, slope(lambda t: hyper.log_prior(t)[0], theta), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("method", ["ep", "laplace", "vb"])
@pytest.mark.parametrize(("kernel", "group"), KERNELS, ids=str)
def test_gradients_of_the_objective(method, kernel, group):
    size = kernel.theta.size + 4
    priors = (NormalPrior(np.cos(np.arange(size)), 0.3, 0.8), NormalPrior(np.ones(size), -1.0, 2.0))
    hyper = space(kernel, group, priors)
    evidence = ExactEvidence(DATA, method, tol=1e-9)
    if method == "vb":
        evidence = SparseEvidence(DATA, X[:8], points_are_rows=False, schedule=Schedule(tol=1e-9, max_iter=500))
    objective = LogPosterior(evidence, hyper)
    at = hyper.start + 0.1 * np.sin(np.arange(hyper.start.size))
    tol = 3e-2 if method == "vb" else 1e-4  # within a search the sparse bound is that exact
    value, gradient = objective(at)
    assert_allclose(gradient, slope(lambda free: objective(free)[0], at, 0.05), atol=tol, rtol=tol)
    assert objective.trace[0] == value
    assert objective.best == max(objective.trace)


def test_the_bound_of_the_paper_is_below_the_evidence():
    for kernel, _ in KERNELS:
        ep, bound = (ExactEvidence(DATA, "ep", bound=b)(kernel, LIKELIHOOD).value for b in (False, True))
        assert bound < ep


def test_values_are_reported():
    values = []
    evidence = ExactEvidence(DATA, "laplace", on_value=values.append)
    result = evidence(RBF(1.0), LIKELIHOOD)
    assert values == [result.value]


def test_a_point_without_covariance_is_no_end_of_the_search():
    calls = []

    def evidence(kernel, likelihood):
        calls.append(kernel.theta[0])
        if kernel.theta[0] > 1.0:
            raise NotPositiveDefiniteError("K")
        off = kernel.theta[0] - 0.9
        return EvidenceValue(-off * off, np.array([-2.0 * off]), np.zeros(4), converged=True)

    kernel, _, best = search(LogPosterior(evidence, space(RBF(1.0))))
    assert kernel.theta[0] == pytest.approx(0.9, abs=0.05)
    assert best.value > -1e-2
    with pytest.raises(NotPositiveDefiniteError):  # at the start there is nothing to search from
        search(LogPosterior(evidence, space(RBF(10.0))))


def test_a_search_among_values_without_convergence_ends():
    rng = np.random.default_rng(0)

    def evidence(kernel, likelihood):
        return EvidenceValue(float(rng.normal()), rng.normal(size=1), np.zeros(4), converged=False)

    objective = LogPosterior(evidence, space(RBF(1.0)))
    _, _, best = search(objective, n_restarts=50, rng=np.random.default_rng(0))
    assert best.value == max(objective.trace)
    assert len(objective.trace) == 10
    objective(objective.space.start)  # the limit is that of the search


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_not_finite_is_a_failure(bad):
    objective = LogPosterior(
        lambda kernel, likelihood: EvidenceValue(bad, np.zeros(1), np.zeros(4), True), space(RBF(1.0))
    )
    value, gradient = objective(objective.space.start)
    assert value == -1e10
    assert_array_equal(gradient, 0.0)


# -------------------------------------------------------------------------------------------------------- absent levels
def test_levels_that_all_occur_need_no_prior():
    hyper = space(RBF(1.0))
    assert with_absent_levels(hyper, Y) is hyper


@pytest.mark.parametrize(
    ("y", "undetermined"),
    [([0, 2, 3], [1]), ([0, 3], [1, 2]), ([0, 1, 2], [2]), ([1, 2, 3], [1]), ([1, 2], [1, 2]), ([0, 1], [1, 2])],
    ids=str,
)
def test_widths_of_levels_without_both_ends_have_a_prior(y, undetermined):
    hyper = with_absent_levels(space(RBF(1.0)), np.array(y, dtype=float))
    places = sorted(int(np.flatnonzero(prior.weights)[0]) for prior in hyper.priors)
    assert places == [
        1 + 1 + level for level in undetermined
    ]  # after the kernel's one: log noise, b_1, then the widths
    for prior in hyper.priors:
        assert prior.mean == pytest.approx(float(prior.weights @ np.append(hyper.kernel_theta, LIKELIHOOD.theta)))


@examples(5)
@given(seed=st.integers(0, 2**32 - 1), inference=st.sampled_from(["ep", "laplace"]))
def test_absent_levels_keep_their_place(seed, inference):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(20, 1))
    chosen = rng.permutation(6)[:3]
    y = np.sort(chosen)[np.digitize(rows[:, 0], [-0.4, 0.4])]
    if np.unique(y).size < 2:
        return
    model = GPOrdinalRegressor(inference=inference, class_order=range(6), optimizer=LBFGS(0)).fit(rows, y)
    p = model.predict_proba(rng.normal(size=(5, 1)))
    assert np.all(p >= 0.0)
    assert_allclose(p.sum(axis=1), 1.0, atol=1e-12)
    start = np.diff(OrdinalProbit.start(y.astype(float), 6).thresholds)
    present = np.unique(y)
    absent = [level for level in range(1, 5) if level not in present]
    # Within four standard deviations of the prior: neither closed nor open for ever.
    off = np.log(np.diff(model.thresholds_)[[level - 1 for level in absent]] / start[[level - 1 for level in absent]])
    assert np.all(np.abs(off) < 4.0)


# ------------------------------------------------------------------------------------------------------------ families
def draw(truth, seed, n=90, d=4):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, d))
    if truth == "linear":
        f = rows @ np.array([1.0, -0.7, 0.5, 0.3])
    else:
        scale = [1.0, 1.0, 50.0, 50.0] if truth == "ard" else np.full(d, 2.5)
        K = (Matern(scale, nu=0.5) if truth == "rough" else RBF(scale))(rows)
        f = np.linalg.cholesky(K + 1e-8 * np.eye(n)) @ rng.normal(size=n)
    f = f / f.std() + 0.15 * rng.normal(size=n)
    return rows, np.digitize(f, np.quantile(f, [0.2, 0.4, 0.6, 0.8])).astype(float)


def preferred(truth, seed):
    rows, y = draw(truth, seed)
    evidence = ExactEvidence(OrdinalData(rows, y, np.ones(y.size)), "laplace", tol=1e-3)
    fits = weigh_families(SearchRows(evidence, rows, y), None, OrdinalProbit.start(y, 5), ())
    weights = [fit.weight for fit in fits]
    assert sum(weights) == pytest.approx(1.0)
    assert weights == sorted(weights, reverse=True)
    return fits[0].kernel


def irrelevant_is_longer(kernel):
    length = np.asarray(getattr(kernel, "length_scale", np.ones(4)))
    return np.log(length[2:].mean() / length[:2].mean()) > 0.5


@pytest.mark.parametrize("seeds", [[0], pytest.param(range(3), marks=pytest.mark.statistical)], ids=len)  # of most data
@pytest.mark.parametrize(
    ("truth", "found"),
    [
        ("linear", lambda kernel: isinstance(kernel, Linear)),
        ("rough", lambda kernel: "Matern" in str(kernel)),
        ("ard", irrelevant_is_longer),
    ],
    ids=["linear", "rough", "ard"],
)
def test_the_truth_is_found(truth, found, seeds):
    assert sum(found(preferred(truth, seed)) for seed in seeds) > len(seeds) / 2


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
def test_features_far_from_0_have_no_linear_kernel(convert):
    rows, y = draw("smooth", 0, n=25, d=2)
    assert type(named_kernel("linear-ard", convert(rows + 1e4), np.random.default_rng(0))) is Linear
    far = convert(np.column_stack([rows[:, 0], rows[:, 1] + 3e5, np.full(25, 1e12)]))  # a constant is not far
    with pytest.raises(DataError, match=r"column 1 of X lies more than 100000 standard deviations .* StandardScaler"):
        named_kernel("linear-ard", far, np.random.default_rng(0))
    data = OrdinalData(far, y, np.ones(y.size))
    rows = SearchRows(ExactEvidence(data, "laplace", tol=1e-3), far, y)
    families = weigh_families(rows, None, OrdinalProbit.start(y, 5), ())
    assert "Linear" not in str([fit.kernel for fit in families])


def test_more_rows_choose_another_family_and_go_on_with_its_search():
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(90, 2))
    y = np.digitize(np.sin(4.0 * rows[:, 0]) + 0.1 * rng.normal(size=90), [-0.5, 0.5]).astype(float)

    def of(n):
        data = OrdinalData(rows[:n], y[:n], np.ones(n))
        return SearchRows(ExactEvidence(data, "ep", tol=1e-3), rows[:n], y[:n])

    start = OrdinalProbit.start(y, 3)
    few = weigh_families(of(12), None, start, ())
    more = weigh_families(of(12), of(90), start, ())
    assert few[0].weight < 0.5  # 12 rows do not show the waves
    assert isinstance(more[0].kernel, RBF)
    length_scale = more[0].kernel.length_scale
    assert length_scale[0] < 0.5 * length_scale[1]
    assert sum(fit.weight for fit in more) == pytest.approx(1.0)


def test_the_evidence_tells_labels_at_random_from_noise():
    rng = np.random.default_rng(0)
    rows = rng.uniform(-2.0, 2.0, (150, 1))
    y = np.digitize(rows[:, 0], [-0.7, 0.6]).astype(float)
    wrong = rng.random(150) < 0.05
    y[wrong] = rng.integers(0, 3, wrong.sum())
    data = SearchRows(ExactEvidence(OrdinalData(rows, y, np.ones(150)), "ep", tol=1e-3), rows, y)
    fits = weigh_families(data, None, OrdinalProbit.start(y, 3), (OrdinalLogit, OrdinalRobust))
    assert isinstance(fits[0].likelihood, OrdinalRobust)


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
def test_rare_categories_are_as_far_from_others_as_frequent_ones(convert):
    rng = np.random.default_rng(0)
    X = np.column_stack([np.arange(100) < 2, np.arange(100) < 50, np.zeros(100), rng.normal(size=100)]).astype(float)
    scale = feature_scales(convert(X))
    assert_allclose(scale, [2.0**-0.5, 2.0**-0.5, 1.0, X[:, 3].std()])


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
def test_a_constant_column_does_not_move_the_default_kernel(convert):
    X = 1e-3 * np.random.default_rng(0).normal(size=(50, 3))
    wider = np.column_stack([X, np.full(50, 0.1)])
    start = default_kernel(X, np.random.default_rng(0))
    assert default_kernel(convert(wider), np.random.default_rng(0)).length_scale == pytest.approx(start.length_scale)
    assert default_kernel(np.ones((5, 2)), np.random.default_rng(0)).length_scale == 1.0


def test_limits_of_a_search():
    hyper = HyperparameterSpace(RBF(1.0, (0.5, 8.0)), LIKELIHOOD)
    wanted = np.log([[0.5, 8.0], [1e-3, 1e2], [np.exp(-100.0), np.exp(100.0)], [1e-4, 1e2], [1e-4, 1e2]])
    assert_allclose(hyper.bounds, wanted)
    assert_allclose(hyper.restart_box - hyper.start[:, None], np.array([1.5, 1.5, 0, 0, 0])[:, None] * [-1.0, 1.0])


def test_families_at_more_rows_are_evaluated_and_the_best_is_searched_on():
    calls = []

    def evidence(kernel, likelihood):
        calls.append(kernel)
        off = kernel.theta - 0.3
        return EvidenceValue(-float(off @ off), -2.0 * off, np.zeros(4), converged=True)

    spaces = [space(RBF(scale)) for scale in (2.0, 1.2, 3.0)]
    fits = [FamilyFit(0.0, s.kernel, LIKELIHOOD, [], s) for s in spaces]
    best, *others = families._rescored(evidence, fits)
    assert_allclose([kernel.length_scale for kernel in calls[:4]], [2.0, 1.2, 3.0, 1.2])
    assert best.kernel.length_scale == pytest.approx(np.exp(0.3), rel=0.01)
    assert_allclose([fit.kernel.length_scale for fit in others], [2.0, 3.0])
    assert others[0].evidence == pytest.approx(-((np.log(2.0) - 0.3) ** 2))
