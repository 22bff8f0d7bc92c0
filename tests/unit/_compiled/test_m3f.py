"""Passes against dense computations by hand, which draw from the same streams."""

from itertools import pairwise

import numba
import numpy as np
import pytest

from skpref._compiled import m3f
from skpref._compiled.jit import limited_threads
from skpref._compiled.m3f import Model, Rows, StreamName, Thresholds, draw_rows, hinge_losses, scores
from skpref._compiled.streams import ZIGGURAT, inverse_gaussian_of, normal, open_stream, uniform

R = 3  # thresholds


def table(seed, lengths, n_columns, *, costs=False):
    """Rows with given numbers of ratings."""
    rng = np.random.default_rng(seed)
    start = np.concatenate([[0], np.cumsum(lengths)])
    column = np.concatenate([np.sort(rng.choice(n_columns, n, replace=False)) for n in lengths] or [[]])
    level = rng.integers(0, R + 1, start[-1]).astype(np.int16)
    cost = rng.uniform(0.1, 0.9, start[-1]) if costs else np.array([0.3])
    return Rows(start, column.astype(np.int32), level, cost, m3f.portions(start, 6))


def twin(rows, row, U, V, theta, whose, model, name):
    """The draw, and what it gives the thresholds, from dense matrices and the row's stream."""
    width, C = U.shape[1], np.broadcast_to(rows.cost, rows.level.shape)
    entries = range(rows.start[row], rows.start[row + 1])
    counter, step = open_stream(np.uint64(name.seed), name.sweep, name.block, row)
    z, u = [], []
    for _ in range(len(entries) * R):
        value, counter = normal(np.uint64(counter), np.uint64(step), ZIGGURAT)
        z.append(value)
    for _ in range(len(entries) * R):
        value, counter = uniform(np.uint64(counter), np.uint64(step))
        u.append(value)
    prior_mean = np.zeros(width) if model.mean is None else model.mean
    precision, linear = np.eye(width) * model.precision, model.precision * prior_mean
    tau, T = np.zeros((len(entries), R)), np.zeros((len(entries), R))
    columns, weight, pull = np.zeros((len(entries), width)), np.zeros(len(entries)), np.zeros(len(entries))
    for e, place in enumerate(entries):
        j = rows.column[place]
        t = theta[{"all": 0, "row": row, "column": j}[whose]]
        x, c = U[row] @ V[j], C[place]
        T[e] = np.where(np.arange(1, R + 1) >= rows.level[place] + 1, 1.0, -1.0)  # levels and r from 1, as in the paper
        delta = c / 2 * (model.margin - T[e] * (t - x))
        tau[e] = [inverse_gaussian_of(abs(d), z[e * R + r], u[e * R + r]) for r, d in enumerate(delta)]
        # docs/maths section 8, b_j and B_j.
        weight[e] = c**2 / 4 * tau[e].sum()
        pull[e] = -(c / 2 * T[e] + c**2 / 4 * (T[e] * model.margin - t) * tau[e]).sum()
        columns[e] = V[j]
        precision += weight[e] * np.outer(columns[e], columns[e])
        linear += pull[e] * columns[e]
    mean = np.linalg.solve(precision, linear)
    noise = []
    for _ in range(width + (len(entries) if len(entries) <= 4 * width // 5 else 0)):
        value, counter = normal(np.uint64(counter), np.uint64(step), ZIGGURAT)
        noise.append(value)
    noise = np.array(noise)
    if noise.size == width:
        transform = np.linalg.inv(np.linalg.cholesky(precision).T)
        draw = mean + transform @ noise
    else:
        s2, half = 1.0 / model.precision, np.sqrt(weight)[:, None] * columns
        S = np.eye(len(entries)) + s2 * half @ half.T
        gain = s2 * half.T @ np.linalg.inv(S)
        prior, residual = prior_mean + np.sqrt(s2) * noise[:width], noise[width:]
        draw = prior + gain @ (pull / np.sqrt(weight) - half @ prior - residual)
        transform = np.hstack([np.sqrt(s2) * (np.eye(width) - gain @ half), -gain])
    # Whatever the way, the draw is mean + transform noise, and so has the covariance wanted.
    np.testing.assert_allclose(draw, mean + transform @ noise, atol=1e-8)
    np.testing.assert_allclose(transform @ transform.T, np.linalg.inv(precision), atol=1e-8)
    new_x = np.array([draw @ V[rows.column[place]] for place in entries])
    c = np.array([C[place] for place in entries])[:, None]
    shares = c**2 / 4 * tau
    theta_linear = c / 2 * T + shares * (T * model.margin + new_x[:, None])
    return draw, shares.sum(axis=0), theta_linear.sum(axis=0), new_x


@pytest.mark.parametrize("costs", [False, True])
@pytest.mark.parametrize("whose", ["all", "row", "column"])
@pytest.mark.parametrize("mean", [False, True])
@pytest.mark.parametrize("width", [1, 6, 10])
def test_pass_is_the_dense_computation(whose, width, mean, costs):
    lengths = [0, 1, 3, 9, 20, 5]
    rows = table(1, lengths, 20, costs=costs)
    rng = np.random.default_rng(width)
    U, V = rng.standard_normal((6, width)), rng.standard_normal((20, width))
    theta = np.sort(3.0 * rng.standard_normal(({"all": 1, "row": 6, "column": 20}[whose], R)), axis=1)
    model = Model(1.5, 0.7, np.float64, rng.standard_normal(width) if mean else None)
    name, drawn = StreamName(2**62 + 3, 5, 1), U.copy()
    with_sums = whose != "column"
    succeeded, sums = draw_rows(rows, drawn, V, Thresholds(theta, whose), model, name, with_sums=with_sums)
    assert succeeded
    for row in range(6):
        wanted = twin(rows, row, U, V, theta, whose, model, name)
        np.testing.assert_allclose(drawn[row], wanted[0], atol=1e-9)
        if with_sums:
            np.testing.assert_allclose(sums.precision[row], wanted[1], rtol=1e-10)
            np.testing.assert_allclose(sums.linear[row], wanted[2], atol=1e-8)
            np.testing.assert_allclose(sums.score[rows.start[row] : rows.start[row + 1]], wanted[3], atol=1e-9)


def big():
    rng = np.random.default_rng(0)
    rows = table(3, rng.integers(0, 150, 120), 150)
    return rows, rng.standard_normal((120, 20)), rng.standard_normal((150, 20)), np.array([[-9.0, 0.0, 9.0]])


# All is compiled again for single precision, which takes ten seconds.
@pytest.mark.parametrize("dtype", [np.float64, pytest.param(np.float32, marks=pytest.mark.slow)])
def test_same_bits_for_any_number_of_threads_and_in_a_side_thread(dtype, monkeypatch):
    rows, U, V, theta = big()
    results = []
    for n_threads, small in ((1, 0), (2, 0), (None, 1 << 60)):
        monkeypatch.setattr(m3f, "_SMALL", small)
        drawn = U.copy()
        with limited_threads(n_threads):
            model, name = Model(9.0, 1.0, dtype), StreamName(1, 1, 1)
            succeeded, sums = draw_rows(rows, drawn, V, Thresholds(theta, "all"), model, name, with_sums=True)
            score = scores(rows, drawn, V)
        assert succeeded
        results.append((drawn, *sums, score))
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.slow  # compiles for single precision
def test_single_precision_is_near_even_where_a_rating_weighs_a_lot(monkeypatch):
    rows, U, V, theta = big()
    rows = rows._replace(cost=np.where(np.arange(rows.level.size) % 97 == 0, 300.0, 0.05))
    drawn = {}
    for dtype in (np.float64, np.float32):
        drawn[dtype] = U.copy()
        model, name = Model(9.0, 1.0, dtype), StreamName(1, 1, 1)
        assert draw_rows(rows, drawn[dtype], V, Thresholds(theta, "all"), model, name)[0]
    np.testing.assert_allclose(drawn[np.float32], drawn[np.float64], atol=2e-3)


def test_portions_hold_every_row_once_and_are_alike():
    start = np.concatenate([[0], np.cumsum(np.random.default_rng(0).integers(1, 2000, 5000))])
    order, cut, longest = m3f.portions(start, 50)
    assert longest == np.diff(start).max()
    np.testing.assert_array_equal(np.sort(order), np.arange(5000))
    work = [np.diff(start)[order[a:b]].sum() for a, b in pairwise(cut)]
    assert max(work) < 1.05 * min(work)


def test_losses_and_scores_are_those_of_numpy():
    rows = table(5, [4, 0, 7], 9, costs=True)
    rng = np.random.default_rng(2)
    U, V, theta = rng.standard_normal((3, 4)), rng.standard_normal((9, 4)), rng.standard_normal((3, R))
    score = scores(rows, U, V)
    row = np.repeat(np.arange(3), np.diff(rows.start))
    np.testing.assert_allclose(score, np.einsum("nk,nk->n", U[row], V[rows.column]), atol=1e-14)
    for thresholds in (theta, theta[:1]):
        T = np.where(np.arange(R) >= rows.level[:, None], 1.0, -1.0)
        t = thresholds[row if len(thresholds) > 1 else 0 * row]
        loss = rows.cost * np.maximum(0.0, 2.0 - T * (t - score[:, None])).sum(axis=1)
        np.testing.assert_allclose(hinge_losses(rows, score, thresholds, 2.0), np.bincount(row, loss, 3), atol=1e-12)


def test_numbers_out_of_range_are_reported():
    rows, U, V, theta = big()
    rows = rows._replace(cost=np.array([1e200]))
    assert not draw_rows(rows, U, V, Thresholds(theta, "all"), Model(9.0, 1.0, float), StreamName(1, 1, 1))[0]


def test_threads_are_put_back():
    before = numba.get_num_threads()
    with limited_threads(1):
        assert numba.get_num_threads() == 1
    with limited_threads(10**6):
        assert numba.get_num_threads() <= numba.config.NUMBA_NUM_THREADS
    assert numba.get_num_threads() == before
