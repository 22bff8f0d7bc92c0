"""G6: the gradient of the bound against differences of the bound at re-converged q, kernel x likelihood x layout."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern, WhiteKernel

from skpref.data import Comparisons
from skpref.gp.pairwise import fit as pair_fit
from skpref.gp.pairwise.fit import PairConfig, PairData
from skpref.inference import svi
from skpref.inference.scale import GammaScale
from skpref.kernels import AdditiveMatern, Linear, ProductMatern
from skpref.likelihoods import PairwiseLogit, PairwiseProbit
from tests.differences import central
from tests.examples import examples

ARD = [0.8, 1.5]
KERNELS = {
    "matern12": ProductMatern(ARD, nu=0.5),
    "matern32": ProductMatern(ARD, nu=1.5),
    "matern32-isotropic": ProductMatern(0.9),
    "matern52": ProductMatern(ARD, nu=2.5),
    "squared-exponential": ProductMatern(ARD, nu=np.inf),
    "additive": AdditiveMatern(ARD),
    "additive-isotropic": AdditiveMatern(0.9, nu=2.5),
    "linear": Linear() + 0.5 * ProductMatern(1.2),
    "rbf": RBF(ARD),
    "sklearn-matern": Matern(0.9, nu=1.5),
    "constant-rbf": ConstantKernel(1.7) * RBF(0.9),
    "sum": ConstantKernel(0.6) * ProductMatern(ARD) + DotProduct(0.7),
    "product": ProductMatern(ARD) * Matern(1.3, nu=2.5),
    "white": ProductMatern(ARD) + WhiteKernel(0.3),
    "fixed-part": ConstantKernel(0.6, "fixed") * ProductMatern(ARD),
}
LAYOUTS = {
    "features": {"offsets": False, "order": False},
    "joint": {"offsets": True, "order": True},
    "mean-field": {"offsets": True, "order": False, "joint_size": 0},
    "order": {"offsets": False, "order": True},
    "covariates": {"offsets": True, "order": True, "n_covariates": 2},
}
TIGHT = svi.Schedule(max_iter=3000, tol=1e-12)


def make_model(
    seed, likelihood, *, n_inducing, offsets, order, n_covariates=0, joint_size=2500, form=np.asarray, n=7, p=18
):
    rng = np.random.default_rng(seed)
    left = rng.integers(0, n, p)
    right = (left + rng.integers(1, n, p)) % n
    y = np.where(rng.random(p) < 0.7, rng.integers(0, 2, p), rng.random(p))
    comparisons = Comparisons(left, right, y, rng.exponential(size=p) + 0.1, n)
    if n_covariates:
        comparisons = replace(comparisons, covariates=rng.normal(size=(p, n_covariates)))
    config = PairConfig(
        likelihood=likelihood,
        inference="vb",
        n_inducing=n_inducing,
        inducing="random",
        schedule=TIGHT,
        scale=GammaScale.prior(2.0, 1.0),
        offsets=offsets,
        order=order,
        learn_length_scales=False,
        n_restarts=None,
    )
    data = PairData(form(rng.normal(size=(n, 2))), comparisons)
    return replace(pair_fit.pair_model(data, RBF(1.0), config, rng, None), joint_size=joint_size)


def converged(model, kernel):
    """Bound at the optimal q, and its gradient there; q starts from the last one."""
    basis = model.basis(kernel)
    problem, diagonal = model.problem(basis)
    start = model.last[-1] if model.last else svi.initial_state(problem, model.scales(), diagonal=diagonal)
    result = svi.fit(problem, start, TIGHT, np.random.default_rng(0))
    model.last[:] = [result.state]
    return result.evaluation.bound, pair_fit._kernel_gradient(model, basis, problem, result)


def check_gradient(model, kernel, directions):
    _, gradient = converged(model, kernel)
    assert gradient.shape == kernel.theta.shape
    for direction in directions:

        def along(shift, direction=direction):
            return converged(model, kernel.clone_with_theta(kernel.theta + shift * direction))[0]

        slope = central(along, step=3e-3)
        assert_allclose(gradient @ direction, slope, rtol=2e-6, atol=2e-6 * (1.0 + np.abs(gradient).max()))


@pytest.mark.parametrize(
    ("n_inducing", "likelihood"), [(7, PairwiseProbit()), (4, PairwiseLogit())], ids=["M=N, probit", "M<N, logit"]
)
@pytest.mark.parametrize("name", KERNELS)
def test_every_kernel_and_likelihood(name, likelihood, n_inducing):
    kernel = KERNELS[name]
    model = make_model(11, likelihood, n_inducing=n_inducing, offsets=False, order=False)
    check_gradient(model, kernel, np.eye(kernel.theta.size))


@pytest.mark.parametrize("n_inducing", [7, 4], ids=["M=N", "M<N"])
@pytest.mark.parametrize("layout", LAYOUTS)
@examples(4)
@given(seed=st.integers(0, 2**32 - 1))
def test_every_layout_at_random_points(layout, n_inducing, seed):
    rng = np.random.default_rng(seed)
    kernel = ConstantKernel(0.8) * ProductMatern(ARD)
    kernel = kernel.clone_with_theta(kernel.theta + 0.5 * rng.normal(size=3))
    model = make_model(seed, PairwiseProbit(), n_inducing=n_inducing, **LAYOUTS[layout])
    check_gradient(model, kernel, [rng.normal(size=3)])


@pytest.mark.parametrize("name", ["matern32", "additive", "linear", "rbf", "sum"])
def test_sparse_features_give_the_same_numbers(name):
    kernel = KERNELS[name]
    results = [
        converged(make_model(5, PairwiseProbit(), n_inducing=4, form=form, **LAYOUTS["joint"]), kernel)
        for form in (np.asarray, sparse.csr_array)
    ]
    assert_allclose(results[0][0], results[1][0], rtol=1e-9)
    assert_allclose(results[0][1], results[1][1], rtol=1e-6, atol=1e-8)


def test_bound_and_gradient_of_the_search_is_near_the_converged_one():
    kernel = KERNELS["matern32"]
    model = make_model(3, PairwiseProbit(), n_inducing=4, **LAYOUTS["joint"])
    bound, gradient = converged(replace(model, last=[]), kernel)
    value, slope = pair_fit.bound_and_gradient(model, kernel)
    assert value <= bound + 1e-9
    # Stops when a pass gains less than 1e-5 (1 + |bound|).
    assert value > bound - 1e-3 * (1.0 + abs(bound))
    assert_allclose(slope, gradient, atol=0.1 * (1.0 + np.abs(gradient).max()))
    for _ in range(60):  # each call starts from the last q
        value, slope = pair_fit.bound_and_gradient(model, kernel)
    assert_allclose(value, bound, rtol=1e-8)
    assert_allclose(slope, gradient, rtol=1e-3, atol=1e-4)
