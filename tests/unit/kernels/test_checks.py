"""What the hyper-parameters of a kernel from a file must be."""

import numpy as np
import pytest
from sklearn.gaussian_process import kernels as sk

from skpref.exceptions import DataError
from skpref.kernels import ProductMatern
from skpref.kernels.checks import check_parameters

LEGAL = [sk.DotProduct(0.0), sk.DotProduct(1.0), sk.Matern([1.0, 2.0], nu=np.inf), ProductMatern(1e-3) + sk.RBF(2.0)]
ILLEGAL = [sk.DotProduct(-1.0), sk.RBF(0.0), sk.RBF([1.0, -1.0]), sk.ConstantKernel(np.inf), sk.WhiteKernel(np.nan)]


@pytest.mark.parametrize("kernel", LEGAL, ids=repr)
def test_legal_parameters_pass(kernel):
    check_parameters(kernel)


@pytest.mark.parametrize("kernel", ILLEGAL, ids=repr)
def test_parameters_are_positive_and_finite(kernel):
    with pytest.raises(DataError, match=r"must be (positive|finite)"):
        check_parameters(kernel)
