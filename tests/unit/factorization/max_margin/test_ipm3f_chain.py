"""The Indian buffet process, against customers who choose one after the other."""

from collections import Counter

import numpy as np
import pytest
from scipy.stats import binom, poisson

from skpref.factorization.max_margin.ipm3f_chain import log_ibp


@pytest.mark.parametrize("alpha", [0.4, 2.5])
@pytest.mark.parametrize("seed", range(4))
def test_features_have_the_probability_of_the_customers_choices(seed, alpha):
    rng = np.random.default_rng(seed)
    Z = (rng.random((4, 7)) < 0.5).astype(np.uint8)
    Z = Z[:, Z.any(axis=0)]
    Z = np.hstack([Z, Z[:, :2]])  # dishes that the same customers took cannot be told apart
    total = 0.0
    for i, row in enumerate(Z):
        so_far = Counter(tuple(column) for column in Z[:i].T)
        taken = Counter(tuple(column) for column in Z[:i].T[row == 1])
        for history, n_dishes in so_far.items():
            if any(history):
                total += binom.logpmf(taken[history], n_dishes, sum(history) / (i + 1.0))
        total += poisson.logpmf(taken[(0,) * i], alpha / (i + 1.0))
    assert log_ibp(Z, alpha) == pytest.approx(total)
    assert log_ibp(Z[:, rng.permutation(Z.shape[1])], alpha) == pytest.approx(total)
    assert log_ibp(Z[:, :0], alpha) == pytest.approx(-alpha * (1.0 + 1.0 / 2.0 + 1.0 / 3.0 + 1.0 / 4.0))
