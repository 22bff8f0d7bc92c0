"""Blocks of factors that are started, added, dropped and made longer, by hand."""

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skpref.gp.crowd import model
from skpref.inference.blocks import DenseBlock, DiagonalBlock, StackedBlock
from skpref.inference.scale import GammaScale
from skpref.inference.svi import State
from skpref.inference.terms.base import Segment
from skpref.inference.terms.entities import EntityTerm
from skpref.inference.terms.pairs import PairTerm
from skpref.inference.terms.products import FactorTerm, ProductTerm
from tests.policies import set_policy

RNG = np.random.default_rng(0)
N_USERS, N_ITEMS, P = 4, 6, 40
USER, LEFT = RNG.integers(0, N_USERS, P), RNG.integers(0, N_ITEMS, P)
RIGHT = (LEFT + RNG.integers(1, N_ITEMS, P)) % N_ITEMS
SLOPE = RNG.standard_normal(P)
SILENT = SimpleNamespace(standard_normal=np.zeros)


def product(*numbers, bases=(None, None)):
    items = PairTerm(bases[0], LEFT, RIGHT, N_ITEMS, offsets=bases[0] is None)
    users = EntityTerm(bases[1], USER, N_USERS, "w")
    return ProductTerm(
        FactorTerm(items, tuple(f"v{d}" for d in numbers)), FactorTerm(users, tuple(f"w{d}" for d in numbers))
    )


def of_users_and_items(slope):
    matrix = np.zeros((N_USERS, N_ITEMS))
    np.add.at(matrix, (USER, LEFT), slope)
    np.add.at(matrix, (USER, RIGHT), -slope)
    return matrix


@pytest.mark.parametrize("with_features", [False, True])
@pytest.mark.parametrize("small", [0, 4_000_000])
def test_factors_start_along_the_steepest_slope(monkeypatch, small, *, with_features):
    set_policy(monkeypatch, "gp.crowd", small_svd=small)  # 0: randomised, which is exact for so few
    bases = (RNG.standard_normal((N_ITEMS, 5)), RNG.standard_normal((N_USERS, 3))) if with_features else (None, None)
    silent = SimpleNamespace(standard_normal=np.zeros, integers=lambda _: 0)
    v, w = model._leading_factors(product(0, 1, bases=bases), SLOPE, 2, silent)
    matrix = of_users_and_items(SLOPE)
    if with_features:
        matrix = bases[1].T @ matrix @ bases[0]
    left, values, right = np.linalg.svd(matrix, full_matrices=False)
    best = (left[:, :2] * values[:2]) @ right[:2]
    assert_allclose(values[0] * w.T @ v / np.sqrt(matrix.size), best, atol=1e-9)
    strength = np.sqrt(values[:2] / values[0])
    assert_allclose(np.sqrt(np.mean(v**2, axis=1)), strength)
    assert_allclose(np.sqrt(np.mean(w**2, axis=1)), strength)
    many = model._leading_factors(product(*range(9), bases=bases), SLOPE, 9, silent)
    assert_array_equal(many[0][min(matrix.shape) :], 0.0)
    assert_allclose(np.abs(many[0][:2]), np.abs(v), atol=1e-9)
    for part in model._leading_factors(product(0, 1, bases=bases), 0.0 * SLOPE, 2, silent):
        assert_array_equal(part, 0.0)
    noise = model._leading_factors(product(0, 1), 0.0 * SLOPE, 2, np.random.default_rng(0))[0]
    assert 0.002 < noise.std() < 0.02


@pytest.mark.parametrize("stacked", [False, True])
def test_factors_are_added_beside_those_there_are_and_dropped_again(*, stacked):
    bases = (np.eye(N_ITEMS), None) if stacked else (None, None)
    both, problem = product(0, 1, bases=bases), SimpleNamespace(terms={"f": None})
    problem.products = [both]
    prior_of_items = np.linspace(1.0, 2.0, 2 * N_ITEMS)
    items = StackedBlock.isotropic(prior_of_items, np.zeros(2 * N_ITEMS), 2) if stacked else None
    items = items or DiagonalBlock(prior_of_items, np.zeros(2 * N_ITEMS))
    users = DiagonalBlock(np.full(2 * N_USERS, 3.0), np.zeros(2 * N_USERS))
    scales = {name: GammaScale.prior(2.0, 6.0) for name in ("f", "v0", "v1", "w0", "w1")}
    prior = State({"f": DiagonalBlock(np.ones(2), np.ones(2)), "items": items, "users": users}, scales)
    alone = State({"f": prior.blocks["f"]}, {"f": scales["f"]})
    both_new = model.add_factors(problem, alone, prior, SLOPE, SILENT)
    means = model._leading_factors(both, SLOPE, 2, SILENT)
    for name, mean, precision in (("items", means[0], prior_of_items), ("users", means[1], np.full(2 * N_USERS, 3.0))):
        block = both_new.blocks[name]
        assert type(block) is type(prior.blocks[name])
        assert_allclose(block.mean, 0.5 * mean.ravel())
        assert_allclose(block.covariance_diagonal, 0.3**2 / precision)
    assert both_new.blocks["f"] is prior.blocks["f"]
    # Scales start at 1, as uncertain as their priors.
    assert_allclose([both_new.scales[name].mean for name in ("v0", "v1", "w0", "w1")], 1.0)
    assert {both_new.scales[name].shape for name in scales} == {2.0}
    assert both_new.scales["f"] is scales["f"]
    first = model.drop_factors(problem, both_new, [1])
    assert set(first.scales) == {"f", "v0", "w0"}
    for name, size in (("items", N_ITEMS), ("users", N_USERS)):
        assert first.blocks[name].size == size
        assert_allclose(first.blocks[name].mean, both_new.blocks[name].mean[:size])
        assert_allclose(first.blocks[name].covariance_diagonal, both_new.blocks[name].covariance_diagonal[:size])
    again = model.add_factors(problem, first, prior, -2.0 * SLOPE, SILENT)
    strongest = model._leading_factors(both, -2.0 * SLOPE, 1, SILENT)
    for name, mean, size in (("items", strongest[0], N_ITEMS), ("users", strongest[1], N_USERS)):
        block = again.blocks[name]
        assert_allclose(block.mean[:size], first.blocks[name].mean)
        assert_allclose(block.mean[size:], 0.5 * mean.ravel())
    assert again.scales["v0"] is first.scales["v0"]
    nothing = model.drop_factors(problem, both_new, [0, 1])
    assert set(nothing.blocks) == set(nothing.scales) == {"f"}


def test_blocks_grow_by_the_prior_of_new_variables():
    old, new = (Segment("f", 2), Segment("offset", 2)), (Segment("f", 3), Segment("offset", 3))
    root = RNG.standard_normal((4, 4))
    dense = DenseBlock(root @ root.T + np.eye(4), RNG.standard_normal(4))
    prior = DenseBlock(np.diag(np.arange(1.0, 7.0)), np.arange(6.0))
    kept = [0, 1, 3, 4]
    grown = model._extend_block(dense, old, new, prior)
    assert_allclose(grown.mean[kept], dense.mean)
    assert_allclose(grown.precision[np.ix_(kept, kept)], dense.precision)
    assert_allclose(grown.mean[[2, 5]], prior.mean[[2, 5]])
    assert_allclose(np.diagonal(grown.precision)[[2, 5]], [3.0, 6.0])
    assert_array_equal(grown.precision[[2, 5]][:, kept], 0.0)
    diagonal = DiagonalBlock(np.arange(1.0, 5.0), np.ones(4))
    wide = DiagonalBlock(np.full(6, 7.0), np.full(6, 0.7))
    grown = model._extend_block(diagonal, old, new, wide)
    assert_allclose(grown.precision, [1.0, 2.0, 7.0, 3.0, 4.0, 7.0])
    assert_allclose(grown.mean, [1.0, 0.5, 0.1, 1.0 / 3.0, 0.25, 0.1])
    assert model._extend_block(diagonal, old, old, wide) is diagonal
    # Other scales or another kind of block: all starts anew.
    assert model._extend_block(diagonal, old, new, prior) is prior
    assert model._extend_block(diagonal, old, (new[1], new[0]), wide) is wide


def test_a_longer_state_keeps_the_scales_that_were_learnt():
    sides = {"f": SimpleNamespace(segments=(Segment("f", 3),)), "users": SimpleNamespace(segments=(Segment("w", 1),))}
    problem = SimpleNamespace(sides=sides)
    learnt = {"f": GammaScale(2.0, 6.0, 9.0, 3.0), "w": GammaScale(2.0, 6.0, 4.0, 1.0)}
    start = State({"f": DiagonalBlock(np.full(2, 5.0), np.ones(2))}, learnt)
    scales = {name: GammaScale.prior(2.0, 6.0) for name in ("f", "w")}
    blocks = {"f": DiagonalBlock(np.ones(3), np.zeros(3)), "users": DiagonalBlock(np.ones(1), np.zeros(1))}
    state = model.extend_state(start, {"f": (Segment("f", 2),)}, problem, State(blocks, scales))
    assert_allclose(state.blocks["f"].precision, [5.0, 5.0, 1.0])
    assert state.blocks["users"] is blocks["users"]
    assert state.scales["f"].mean == pytest.approx(3.0)
    assert state.scales["f"].shape == 2.0
    assert state.scales["w"].mean == pytest.approx(4.0)
