"""Random small problems in every shape that the loop knows."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from skpref import kernels
from skpref.inference import svi
from skpref.inference.basis import InducingBasis
from skpref.inference.scale import FixedScale, GammaScale
from skpref.inference.terms import PairTerm
from skpref.likelihoods import PairwiseLogit, PairwiseProbit

LAYOUTS = ("features", "joint", "mean-field", "offsets")


def draw_problem(seed, layout="features", *, sparse=True, order=False, logit=False, fixed=False):
    """Draw items, comparisons with soft labels and uneven weights, and the state at the prior."""
    rng = np.random.default_rng(seed)
    n, p = int(rng.integers(3, 9)), int(rng.integers(1, 21))
    m = int(rng.integers(1, n)) if sparse else n
    X, left = rng.normal(size=(n, 2)), rng.integers(0, n, p)
    right = (left + rng.integers(1, n, p)) % n
    basis = InducingBasis.at(kernels.ProductMatern(np.exp(rng.normal(size=2))), X[:m])
    rows = basis.rows(X)
    residual = basis.pair_residual(X, rows, left, right) if sparse else None
    dense = PairTerm(rows, left, right, n, layout == "joint", order, residual)
    alone = PairTerm(None, left, right, n, offsets=True)
    terms, diagonal = {
        "features": ((dense,), (False,)),
        "joint": ((dense,), (False,)),
        "mean-field": ((dense, alone), (False, True)),
        "offsets": ((alone,), (True,)),
    }[layout]
    y = np.where(rng.random(p) < 0.5, rng.integers(0, 2, p), rng.random(p))
    problem = svi.Problem(terms, PairwiseLogit() if logit else PairwiseProbit(), y, np.exp(rng.normal(size=p)))
    prior = np.exp(rng.normal(size=2))
    learnt = FixedScale(float(prior[0])) if fixed else GammaScale.prior(*prior)
    names = {segment.scale for term in terms for segment in term.segments}
    scales = {name: FixedScale(1.0) if name == "order" else learnt for name in sorted(names)}
    state = svi.initial_state(problem, scales, diagonal=diagonal)
    return SimpleNamespace(rng=rng, problem=problem, state=state, X=X, basis=basis)


@pytest.fixture(scope="session")
def draw():
    return draw_problem
