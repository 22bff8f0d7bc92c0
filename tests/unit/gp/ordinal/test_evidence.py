"""Which precomputed covariances are taken, and where searches through inducing points start."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from skpref.exceptions import DataError
from skpref.gp.ordinal import evidence, fit
from skpref.gp.ordinal.evidence import ExactEvidence, OrdinalData, check_covariance
from skpref.likelihoods import OrdinalProbit

RNG = np.random.default_rng(0)
PROBIT = OrdinalProbit((-0.5, 0.5))
ROOT = np.linalg.qr(RNG.standard_normal((6, 6)))[0]


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e6])
def test_rounding_errors_of_a_covariance_are_in_its_own_units(scale):
    def covariance(lowest):
        K = (ROOT * [lowest, 1.0, 1.0, 1.0, 2.0, 2.0]) @ ROOT.T
        return scale * 0.5 * (K + K.T)

    size = float(np.abs(np.diagonal(covariance(0.0))).max()) / scale
    unit = max(1.0 / scale, size)  # covariances below 1 are measured in units of 1
    check_covariance(covariance(0.0))
    check_covariance(covariance(-0.9e-8 * unit * 6))
    with pytest.raises(DataError, match="must be positive semi-definite; its lowest eigenvalue is -"):
        check_covariance(covariance(-1.1e-8 * unit * 6))
    for share, refused in ((0.9e-8, False), (1.1e-8, True)):
        K = covariance(1.0)
        K[1, 4] += share * max(1.0, float(np.abs(K).max()))
        if not refused:
            check_covariance(K)
            continue
        with pytest.raises(DataError, match=r"must be symmetric; got K\[(1, 4|4, 1)\]"):
            check_covariance(K)
    with pytest.raises(DataError, match=r"must be square.*got shape \(6, 5\)"):
        check_covariance(covariance(1.0)[:, :5])


def test_inducing_points_are_chosen_in_length_scales_where_a_kernel_has_finite_ones(monkeypatch):
    scales = []
    monkeypatch.setattr(fit.inducing, "choose", lambda *args, **_: scales.append(args[4]))
    data = SimpleNamespace(X=np.zeros((3, 2)))
    config = SimpleNamespace(n_inducing=2, inducing="random")
    for kernel in (RBF(2.0), RBF([1.0, 3.0]), RBF([1.0, np.inf]), ConstantKernel(2.0) * RBF(1.0), None):
        fit._choose_points(data, kernel, config, RNG)
    assert scales == [2.0, [1.0, 3.0], None, None, None]


@pytest.mark.parametrize("method", ["ep", "laplace"])
def test_an_inference_starts_at_the_last_that_converged(method, monkeypatch):
    starts = []
    name = "laplace" if method == "laplace" else "expectation_propagation"
    infer = getattr(evidence, name)
    monkeypatch.setattr(evidence, name, lambda *args, **kw: starts.append(args[4]) or infer(*args, **kw))
    X, y = RNG.standard_normal((20, 1)), np.repeat([0.0, 1.0, 2.0, 1.0], 5)
    one = ExactEvidence(OrdinalData(X, y, np.ones(20)), method)
    first = one.infer(RBF(1.0), PROBIT)[1]
    assert first.converged
    second = one.infer(RBF(1.0), PROBIT)[1]
    one.max_iter = 1
    failed = one.infer(RBF(0.2), PROBIT)[1]
    assert not failed.converged
    one.infer(RBF(0.2), PROBIT)
    assert [start is q for start, q in zip(starts, (None, first, second, None), strict=True)] == [True] * 4
