"""Random small problems in every shape that the loop knows."""

from types import SimpleNamespace

import numpy as np
import pytest

from skpref import kernels
from skpref.inference import svi
from skpref.inference.basis import InducingBasis
from skpref.inference.blocks import DenseBlock, DiagonalBlock, StackedBlock
from skpref.inference.scale import FixedScale, GammaScale, moved_scale
from skpref.inference.terms.entities import EntityTerm
from skpref.inference.terms.pairs import PairTerm
from skpref.inference.terms.products import FactorTerm, ProductTerm
from skpref.likelihoods import PairwiseLogit, PairwiseProbit

LAYOUTS = ("features", "joint", "mean-field", "offsets")


def draw_problem(seed, layout="features", *, sparse=True, order=False, logit=False, fixed=False):
    """Draw items, comparisons with soft labels and uneven weights, and the state at the prior."""
    rng = np.random.default_rng(seed)
    n, p = int(rng.integers(3, 9)), int(rng.integers(1, 21))
    m = int(rng.integers(1, n)) if sparse else n
    X, left = rng.normal(size=(n, 2)), rng.integers(0, n, p)
    right = (left + rng.integers(1, n, p)) % n
    basis = InducingBasis.from_points(kernels.ProductMatern(np.exp(rng.normal(size=2))), X[:m])
    rows = basis.rows(X)
    residual = basis.pair_residual(X, rows, left, right) if sparse else None
    dense = PairTerm(rows, left, right, n, layout == "joint", order, residual)
    alone = PairTerm(None, left, right, n, offsets=True)
    terms = {
        "features": {"f": dense},
        "joint": {"f": dense},
        "mean-field": {"f": dense, "offsets": alone},
        "offsets": {"offsets": alone},
    }[layout]
    y = np.where(rng.random(p) < 0.5, rng.integers(0, 2, p), rng.random(p))
    problem = svi.Problem(terms, PairwiseLogit() if logit else PairwiseProbit(), y, np.exp(rng.normal(size=p)))
    prior = np.exp(rng.normal(size=2))
    learnt = FixedScale(float(prior[0])) if fixed else GammaScale.prior(*prior)
    names = {segment.scale for term in terms.values() for segment in term.segments}
    scales = {name: FixedScale(1.0) if name == "order" else learnt for name in sorted(names)}
    state = svi.initial_state(problem, scales, diagonal={"offsets"})
    return SimpleNamespace(rng=rng, problem=problem, state=state, X=X, basis=basis)


def draw_crowd(
    seed,
    items="ids",
    users="ids",
    *,
    consensus=True,
    order=False,
    sparse=True,
    logit=False,
    fixed=False,
    n_factors=None,
    sizes=((3, 7), (2, 5), (1, 21)),
):
    """Draw items, users, their comparisons, and a state that no fit would end in.

    `items` is "ids", "features", or how offsets stand beside the features in the consensus: "joint" or "mean-field".
    """
    rng = np.random.default_rng(seed)
    n, n_users, p = (int(rng.integers(*size)) for size in sizes)
    D = int(rng.integers(1, 4)) if n_factors is None else n_factors
    left, user = rng.integers(0, n, p), rng.integers(0, n_users, p)
    right = (left + rng.integers(1, n, p)) % n
    X, X_users = rng.normal(size=(n, 2)), rng.normal(size=(n_users, 1))
    rows = residual = phi = open_variance = None
    if items != "ids":
        basis = InducingBasis.from_points(
            kernels.ProductMatern(np.exp(rng.normal(size=2))), X[: max(1, n - 2 * sparse)]
        )
        rows = basis.rows(X)
        residual = basis.pair_residual(X, rows, left, right) if sparse else None
    if users != "ids":
        basis = InducingBasis.from_points(
            kernels.ProductMatern(np.exp(rng.normal(size=1))), X_users[: max(1, n_users - sparse)]
        )
        phi = basis.rows(X_users)
        open_variance = basis.residual(X_users, phi) if sparse else None
    terms, diagonal, local = {}, set(), set()
    if consensus:
        terms["f"] = PairTerm(rows, left, right, n, items in {"ids", "joint"}, order, residual)
        if items == "mean-field":
            terms["offsets"] = PairTerm(None, left, right, n, offsets=True)
            diagonal.add("offsets")
    elif order:
        terms["f"] = PairTerm(None, left, right, n, order=True)
    if order:
        terms["bias"] = EntityTerm(None, user, n_users, "bias")
        local.add("bias")
    if users == "ids":
        local.add("users")
    diagonal |= local | ({"items"} if rows is None else set())
    sides = (
        PairTerm(rows, left, right, n, rows is None, residual=residual),
        EntityTerm(phi, user, n_users, "any", open_variance),
    )
    names = tuple(tuple(f"{side}{d}" for d in range(D)) for side in "vw")
    problem = svi.Problem(
        terms,
        PairwiseLogit() if logit else PairwiseProbit(),
        np.where(rng.random(p) < 0.5, rng.integers(0, 2, p), rng.random(p)),
        np.exp(rng.normal(size=p)),
        products=(ProductTerm(*(FactorTerm(side, which) for side, which in zip(sides, names, strict=True))),),
        local=frozenset(local),
        cluster=user,
        n_clusters=n_users,
    )
    prior = np.exp(rng.normal(size=2))
    learnt = FixedScale(float(prior[0])) if fixed else GammaScale.prior(*prior)
    used = sorted({segment.scale for side in problem.sides.values() for segment in side.segments})
    scales = {name: FixedScale(1.0) if name == "order" else moved_scale(learnt, rng.normal()) for name in used}
    state = svi.initial_state(problem, scales, diagonal=diagonal)
    state = state.with_blocks({name: draw_block(rng, block) for name, block in state.blocks.items()})
    return SimpleNamespace(rng=rng, problem=problem, state=state, n_factors=D)


def draw_block(rng, like):
    """A block of the kind and size of another, anywhere."""
    if isinstance(like, StackedBlock):
        return StackedBlock(tuple(draw_block(rng, part) for part in like.parts))
    mean = rng.normal(size=like.size)
    if isinstance(like, DiagonalBlock):
        return DiagonalBlock.isotropic(np.exp(rng.normal(size=like.size)), mean)
    A = rng.normal(size=(like.size, like.size)) / np.sqrt(like.size)
    precision = A @ A.T + np.exp(rng.normal()) * np.eye(like.size)
    return DenseBlock(precision, precision @ mean)


@pytest.fixture(scope="session")
def draw():
    return draw_problem


@pytest.fixture(scope="session")
def crowd():
    return draw_crowd
