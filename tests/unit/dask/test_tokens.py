"""Tokens of models whose constructor a dataclass makes: Dask must see what was learnt, not the parameters alone."""

import numpy as np
import pytest
from sklearn.base import clone

from skpref import BayesianGPLVM, GibbsM3F, VariationalFM

base = pytest.importorskip("dask.base")

PAIRS, STARS = np.indices((4, 3)).reshape(2, -1).T, np.arange(12) % 4


@pytest.mark.parametrize(
    "model", [VariationalFM(1, random_state=0), GibbsM3F(1, max_iter=4, burn_in=1, random_state=0)]
)
def test_models_of_different_rows_have_different_tokens(model):
    one, same, other = (clone(model).fit(PAIRS, y) for y in (STARS, STARS, STARS[::-1]))
    assert base.tokenize(one) == base.tokenize(one)
    assert base.tokenize(one) == base.tokenize(same)
    assert len({base.tokenize(m) for m in (model, one, other, clone(model).set_params(n_factors=2))}) == 4


def test_two_fits_of_a_latent_model_have_different_tokens():
    model = BayesianGPLVM(1, inducing=5, max_iter=100, random_state=0)
    one, other = (clone(model).fit(np.random.default_rng(seed).standard_normal((12, 3))) for seed in (0, 1))
    assert base.tokenize(one) != base.tokenize(other)
