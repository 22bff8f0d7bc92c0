"""The reference posteriors, and the engine at their configuration."""

import json
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.linalg import solve_triangular
from sklearn.gaussian_process.kernels import RBF

from skpref import kernels
from skpref.inference import svi
from skpref.inference.basis import InducingBasis
from skpref.inference.blocks import DenseBlock
from skpref.inference.scale import FixedScale
from skpref.inference.sites import VARIATIONAL
from skpref.inference.terms.pairs import PairTerm
from skpref.likelihoods import PairwiseProbit


@dataclass
class Reference:
    """One file of `gppl_probit`, and the engine's view of it; f_m = L v with L the factor of k(Z, Z)."""

    data: dict

    def __getitem__(self, key):
        return self.data[key]

    def config(self, name):
        value = self.data["config"][name]
        return np.array(value, dtype=np.float64) if isinstance(value, list) else value

    @property
    def kernel(self):
        family = {"rbf": RBF, "matern32_product": kernels.ProductMatern}[self.data["config"]["kernel"]]
        return family(self.config("lengthscales"))

    def basis(self, points, kernel=None):
        return InducingBasis.from_points(kernel or self.kernel, np.ascontiguousarray(points))

    def problem(self, basis, *, exact=False, rule=VARIATIONAL):
        X, pairs, y = self.config("X"), np.array(self.data["config"]["pairs"]), self.config("y")
        left, right, rows = pairs[:, 0].copy(), pairs[:, 1].copy(), basis.rows(X)
        residual = None if exact else basis.pair_residual(X, rows, left, right)
        term = PairTerm(rows, left, right, X.shape[0], residual=residual)
        return svi.Problem({"f": term}, PairwiseProbit(), y, np.ones(y.size), rule)

    def state(self, basis, mean, covariance, scale=None):
        """q(f_m) = N(mean, covariance) in whitened natural parameters."""
        L = np.tril(basis.chol)
        half = solve_triangular(np.linalg.cholesky(covariance), L, lower=True)
        precision = half.T @ half
        block = DenseBlock(precision, precision @ solve_triangular(L, mean, lower=True))
        return svi.State({"f": block}, {"f": scale or self.scale})

    @property
    def scale(self):
        return FixedScale(self.config("s"))

    def prior(self, problem):
        return svi.initial_state(problem, {"f": self.scale})


def moments(basis, block):
    """Mean and covariance of f_m = L v."""
    L = np.tril(basis.chol)
    return L @ block.mean, L @ block.solve(np.ascontiguousarray(L.T))


@pytest.fixture(scope="session", params=["rbf", "matern32_product"])
def reference(shared, request):
    return Reference(json.loads((shared / "reference" / "gppl_probit" / f"{request.param}_n4_p6.json").read_text()))


@pytest.fixture(scope="session")
def whitened():
    return moments
