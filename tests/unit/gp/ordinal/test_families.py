"""Weights of kernel families: evidences that Laplace's method has exactly, priors, and which families are kept."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal
from sklearn.gaussian_process.kernels import RBF

from skpref.gp.hyperpriors import NormalPrior, log_density
from skpref.gp.ordinal import families
from skpref.gp.ordinal.evidence import EvidenceValue
from skpref.gp.ordinal.families import FamilyFit
from skpref.gp.ordinal.hyperparameters import HyperparameterSpace
from skpref.kernels import Linear
from skpref.likelihoods import OrdinalLogit, OrdinalProbit

PROBIT = OrdinalProbit((-0.9, 0.1, 0.8), 0.7)
SCALE = np.array([0.5, 2.0, 3.0])
Y = np.arange(4.0)


class Quadratic:
    """An evidence that is quadratic in the kernel's theta and log noise, whatever the thresholds are."""

    def __init__(self, peak, precision):
        self.peak, self.precision = peak, precision

    def __call__(self, kernel, likelihood):
        off = np.append(kernel.theta, likelihood.theta[0]) - self.peak
        slope = -self.precision @ off
        in_likelihood = np.append(slope[-1], np.zeros(likelihood.n_levels - 1))
        return EvidenceValue(float(0.5 * off @ slope), slope[:-1], in_likelihood, converged=True)


def normals(space):
    """Return place, mean and standard deviation of the priors of single hyper-parameters."""
    return [(int(np.argmax(prior.weights)), prior.mean, prior.sd) for prior in space.priors]


def fit_of(evidence):
    return FamilyFit(evidence, RBF(1.0), PROBIT, [], HyperparameterSpace(RBF(1.0), PROBIT))


def test_the_evidence_of_a_family_is_the_integral_over_its_hyper_parameters():
    A = np.array([[3.0, 0.5, 0.2], [0.5, 2.0, -0.4], [0.2, -0.4, 4.0]])
    W = np.array([[1.0, 0.0, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 1.0]]) / [[1.0], [0.6], [1.5]]
    sds, means = np.array([1.0, 0.6, 1.5]), np.array([0.3, -0.2, -1.0])
    weights = np.hstack([W * sds[:, None], np.zeros((3, 3))])
    priors = tuple(NormalPrior(w, float(m), float(s)) for w, m, s in zip(weights, means, sds, strict=True))
    space = HyperparameterSpace(RBF([1.0, 2.0]), PROBIT, None, priors)
    covariance = np.linalg.inv(A)
    at = multivariate_normal(np.linalg.solve(W, means / sds), covariance + np.linalg.inv(W.T @ W))

    def integral(peak):
        """Of exp(-(t - peak)^T A (t - peak) / 2) under the prior."""
        return float(at.logpdf(peak) + 0.5 * np.linalg.slogdet(2.0 * np.pi * covariance)[1])

    peak = np.array([0.4, 0.1, -0.6])
    fit = families._fit_family(Quadratic(peak, A), space, Y)
    assert fit.evidence == pytest.approx(integral(peak), abs=1e-3)
    assert families._fit_family(Quadratic(peak, A), space, Y, 1.0).evidence == pytest.approx(fit.evidence - 1.0)
    assert families._continued(Quadratic(peak, A), fit, 0).evidence == pytest.approx(fit.evidence)
    further = families._continued(Quadratic(peak + 1.0, A), fit)
    assert further.evidence == pytest.approx(integral(peak + 1.0), abs=1e-3)
    assert further.trace[: len(fit.trace)] == fit.trace
    assert len(further.trace) > len(fit.trace)


def test_a_direction_without_information_is_ten_e_folds_wide():
    flat = Quadratic(np.zeros(2), np.diag([0.0, 4.0]))
    priors = NormalPrior(np.eye(5)[0], 0.0, 1e6), NormalPrior(np.eye(5)[1], 0.0, 1.0)
    fit = families._fit_family(flat, HyperparameterSpace(RBF(1.0), PROBIT, None, priors), Y)
    # Densities of the priors at 0, times sqrt(2 pi) and the widths of both directions.
    assert fit.occam == pytest.approx(np.log(10.0 / 1e6 / np.sqrt(5.0)), abs=1e-6)


def test_priors_of_the_families():
    smooth = families._one_scale_space(families.stationary(1.5, SCALE), PROBIT)
    centre = 0.5 + np.log(np.sqrt(3.0) * SCALE)
    assert_allclose(normals(smooth), [(0, centre[0], 1.0), (3, -1.0, 1.5)])
    assert smooth.n_kernel == 1
    line = families._linear_space(SCALE, PROBIT)
    weight = np.log(1.0 / 3.0 / SCALE[0] ** 2)  # a third of the variance, 1, for each feature
    assert_allclose(normals(line), [(3, -1.0, 1.5), (0, weight, 0.01)])
    assert line.kernel(SCALE[None] * [1, 0, 0])[0, 0] == pytest.approx(1.0 / 3.0)
    assert (line.n_kernel, line.kernel_theta.size) == (1, 3)
    fit = FamilyFit(0.0, smooth.kernel, PROBIT, [], smooth)
    both = families._linear_part_space(fit, SCALE)
    assert_allclose(normals(both), [(0, centre[0], 1.0), (3, weight - 0.7, 1.5), (6, -1.0, 1.5)])
    assert both.n_kernel == 2
    assert both.kernel_theta[3] == pytest.approx(weight - 0.7)
    single = families._single_scales_space(fit, SCALE)
    assert normals(single)[-1] == (3, -1.0, 1.5)
    assert single.n_kernel == 3
    shared = np.append(centre + 0.3, np.zeros(4))
    assert log_density(single.priors[:-1], shared)[0] == pytest.approx(-0.5 * 0.3**2)
    logit = families._one_scale_space(families.stationary(1.5, SCALE), OrdinalLogit(PROBIT.thresholds))
    assert normals(logit)[1][1] == pytest.approx(-1.0 - np.log(1.7))  # a logistic scale of 1 is a noise of 1.7


def test_families_of_small_weight_are_left_out_and_the_others_share_it():
    evidences = np.log([0.2, 0.5, 0.019, 0.281]) - 700.0
    kept = families._weigh([fit_of(e) for e in evidences], 0.02)
    assert_allclose([fit.weight for fit in kept], np.array([0.5, 0.281, 0.2]) / 0.981)
    assert [fit.evidence for fit in kept] == sorted(evidences[[0, 1, 3]], reverse=True)
    assert len(families._weigh([fit_of(0.0)] * 4, 0.25)) == 4


@pytest.mark.parametrize(("behind", "searched"), [(2.9, True), (3.1, False)])
def test_another_likelihood_is_searched_unless_its_start_is_hopeless(behind, searched):
    noise = NormalPrior(np.eye(5)[1], -1.0, 1.5)
    space = HyperparameterSpace(RBF(1.0), PROBIT, None, (noise,))
    calls = []

    def evidence(kernel, likelihood):
        calls.append(likelihood)
        off = kernel.theta[0] - 0.2
        return EvidenceValue(0.04 - behind - off * off, np.array([-2.0 * off]), np.zeros(4), converged=True)

    value = log_density([noise], np.append(0.0, PROBIT.theta))[0]
    other = families._with_other_likelihood(evidence, FamilyFit(value, RBF(1.0), PROBIT, [], space), OrdinalLogit)
    assert (len(calls) > 1) == searched
    assert calls[0].thresholds == pytest.approx(PROBIT.thresholds)
    assert calls[0].noise == pytest.approx(0.7 / 1.7)  # as wide, where its prior is the same
    assert other.space.priors[0].mean == pytest.approx(-1.0 - np.log(1.7))


def test_the_prior_of_a_level_that_does_not_occur_has_its_width_at_the_start():
    space = HyperparameterSpace(RBF(1.0), PROBIT)
    (prior,) = families.with_absent_levels(space, np.array([0.0, 1.0, 3.0])).priors
    assert (int(np.argmax(prior.weights)), prior.sd) == (4, 1.0)
    assert prior.mean == pytest.approx(np.log(0.7))


@pytest.mark.parametrize(("n_features", "single"), [(1, False), (2, True), (256, True), (257, False)])
def test_single_length_scales_are_tried_for_2_to_256_features(n_features, single):
    def no_information(kernel, likelihood):
        return EvidenceValue(0.0, np.zeros(kernel.theta.size), np.zeros(4), converged=True)

    X = np.random.default_rng(0).normal(size=(9, n_features))
    rows = families.SearchRows(no_information, X, Y)
    fits = families._search_families(rows, PROBIT)
    assert [getattr(fit.kernel, "nu", None) for fit in fits[:3]] == [1.5, None, 0.5]
    assert isinstance(fits[3].kernel, Linear)
    assert isinstance(fits[4].kernel.k2, Linear)
    assert len(families._with_single_scales(rows, fits, rows)) == 5 + single
    # Equal evidence under every prior, but for directions wider than ten e-folds and the odds against linear parts.
    assert fits[0].evidence - fits[4].evidence == pytest.approx(1.0, abs=1e-6)


def test_single_length_scales_start_half_way_to_those_of_few_rows():
    kernel, scale = RBF([2.0, 3.0]), np.array([2.0, 3.0])
    best = FamilyFit(0.0, kernel, PROBIT, [], HyperparameterSpace(kernel, PROBIT))
    starts = []

    class More(Quadratic):
        def __call__(self, kernel, likelihood):
            starts.append(kernel.theta)
            return super().__call__(kernel, likelihood)

    strong = 1e6 * np.eye(3)
    few = families.SearchRows(Quadratic(np.array([3.0, -1.0, -0.5]), strong), scale[None], Y)
    more = families.SearchRows(More(np.array([0.5, 0.0, -0.5]), strong), np.eye(2), Y)
    *others, found = families._with_single_scales(more, [best], few)
    assert others == [best]
    assert_allclose(starts[0], 0.5 * (kernel.theta + np.array([3.0, -1.0])), atol=1e-4)
    assert_allclose(found.kernel.theta, [0.5, 0.0], atol=1e-4)
