"""Passes of the nonparametric sampler against dense computations by hand, which draw from the same streams."""

import numpy as np
import pytest

from skpref._compiled import ipm3f, m3f
from skpref._compiled.ipm3f import IBPState, draw_ibp_rows, draw_items, draw_new_users, draw_users, new_feature_weights
from skpref._compiled.jit import limited_threads
from skpref._compiled.m3f import Model, Rows, StreamName, Thresholds, draw_rows
from skpref._compiled.streams import ZIGGURAT, inverse_gaussian_of, normal, open_stream, uniform

R = 3  # thresholds
NAME = StreamName(2**62 + 3, 5, 1)


def table(seed, lengths, n_columns, *, cost=0.3, costs=False):
    """Rows with given numbers of ratings."""
    rng = np.random.default_rng(seed)
    start = np.concatenate([[0], np.cumsum(lengths)])
    column = np.concatenate([np.sort(rng.choice(n_columns, n, replace=False)) for n in lengths])
    level = rng.integers(0, R + 1, start[-1]).astype(np.int16)
    cost = rng.uniform(0.1, 0.9, start[-1]) if costs else np.array([cost])
    return Rows(start, column.astype(np.int32), level, cost, m3f.portions(start, 6))


class Stream:
    """Draws of a row, one by one."""

    def __init__(self, name, row):
        self.counter, self.step = open_stream(np.uint64(name.seed), name.sweep, name.block, row)

    def __call__(self, draw, *more):
        value, self.counter = draw(np.uint64(self.counter), np.uint64(self.step), *more)
        return value

    def normals(self, n):
        return np.array([self(normal, ZIGGURAT) for _ in range(n)])

    def uniforms(self, n):
        return np.array([self(uniform) for _ in range(n)])


@pytest.mark.parametrize("costs", [False, True])
@pytest.mark.parametrize("whose", ["all", "column"])
@pytest.mark.parametrize("width", [1, 8, 70])
def test_items_are_those_of_the_dense_pass(whose, width, costs):
    lengths = [0, 1, 2, width // 2, 75, 90]
    rows = table(1, lengths, 100, costs=costs)
    rng = np.random.default_rng(width)
    Z = (rng.random((100, width)) < 0.4).astype(np.uint8)
    items = rng.standard_normal((6, width))
    theta = 3.0 * rng.standard_normal((1 if whose == "all" else 100, R))
    model, thresholds = Model(1.5, 0.7, np.float64), Thresholds(theta, whose)
    wanted = items.copy()
    assert draw_items(rows, items, Z, thresholds, model, NAME)
    assert draw_rows(rows, wanted, Z.astype(np.float64), thresholds, model, NAME)[0]
    many = 5 * np.array(lengths) > 4 * width  # elsewhere the other form may be taken, with other draws
    active = np.array([Z[rows.column[a:b]].any(axis=0).sum() for a, b in zip(rows.start, rows.start[1:], strict=False)])
    alike = many == (np.array(lengths) > 4 * active // 5)
    assert alike.sum() >= 3
    np.testing.assert_allclose(items[alike], wanted[alike], atol=1e-8)


def test_features_that_no_rater_holds_have_their_prior():
    rows, Z = table(1, [30] * 500, 60), np.zeros((60, 4), np.uint8)
    Z[:, 1] = 1
    items = np.ones((500, 4))
    model = Model(1.5, 0.25, np.float64)
    assert draw_items(rows, items, Z, Thresholds(np.zeros((1, R)), "all"), model, NAME)
    np.testing.assert_allclose(items[:, [0, 2, 3]].std(), 2.0, rtol=0.1)  # 1,500 draws: 5 standard errors
    assert items[:, 1].std() < 1.0


def log_likelihood(x, T, tau, half, theta, margin):
    """Of scores given lambda (equation 21 of the paper): -(Delta + lambda)^2 / (2 lambda), summed over thresholds."""
    delta = half[:, None] * (margin - T * (theta - x[:, None]))
    return -0.5 * (tau * (delta + 1.0 / tau) ** 2).sum(axis=1)


def evidence(k, half, T, tau, theta, x, margin, sigma):
    """Equation 26 for one rating: determinants, quadratic forms and moments from dense matrices of width k."""
    precision = np.eye(k) / sigma**2 + (half**2 * tau).sum() * np.ones((k, k))
    covariance = np.linalg.inv(precision)
    delta = half * (margin - T * (theta - x))
    omega = -(half * (T * (1.0 + delta * tau)).sum()) * covariance @ np.ones(k)
    log_p = 0.5 * np.linalg.slogdet(covariance)[1] - k * np.log(sigma) + 0.5 * omega @ precision @ omega
    return log_p, omega, covariance


def twin(rows, row, Z, items, count, total, theta, alpha, max_new, model, name, *, own):
    """The draw of a row, in place, from dense matrices and the row's stream."""
    stream, entries = Stream(name, row), slice(rows.start[row], rows.start[row + 1])
    column, half = rows.column[entries], np.broadcast_to(rows.cost, rows.level.shape)[entries] / 2
    T = np.where(np.arange(R) >= rows.level[entries][:, None], 1.0, -1.0)
    n, sigma, t = column.size, model.precision**-0.5, theta[row if theta.shape[0] > 1 else 0]

    def scored():
        return items[column] @ Z[row]

    delta = half[:, None] * (model.margin - T * (t - scored()[:, None]))
    z, u = stream.normals(n * R).reshape(n, R), stream.uniforms(n * R).reshape(n, R)
    tau = np.array([[inverse_gaussian_of(abs(delta[e, r]), z[e, r], u[e, r]) for r in range(R)] for e in range(n)])
    tau = tau.reshape(n, R)
    for k in range(Z.shape[1]):
        others = count[k] - own * Z[row, k]
        if others <= 0:
            continue
        log_p = []
        for z_k in (0, 1):
            Z[row, k] = z_k
            share = others / total
            prior = share if z_k else 1.0 - share
            log_p.append(np.log(prior) + log_likelihood(scored(), T, tau, half, t, model.margin).sum())
        Z[row, k] = stream(uniform) < 1.0 / (1.0 + np.exp(log_p[0] - log_p[1]))
        count[k] = others + own * Z[row, k]
    if own:
        single = (Z[row] == 1) & (count == 1)
        Z[row, single], count[single] = 0, 0
        log_p, x = np.zeros(max_new + 1), scored()
        for k in range(max_new + 1):
            log_p[k] = k * np.log(alpha / total) - np.sum(np.log(np.arange(1, k + 1)))
            log_p[k] += sum(
                evidence(k, half[e], T[e], tau[e], t, x[e], model.margin, sigma)[0] for e in range(n if k else 0)
            )
        cumulative = np.cumsum(np.exp(log_p - log_p.max()))
        k = int((cumulative < stream(uniform) * cumulative[-1]).sum())
        room = np.flatnonzero(count == 0)[:k]
        Z[row, room], count[room] = 1, 1
        for slot in room:
            items[:, slot] = sigma * stream.normals(items.shape[0])
        for e in range(n if k else 0):
            _, omega, covariance = evidence(k, half[e], T[e], tau[e], t, x[e], model.margin, sigma)
            ones = np.ones(k)
            spread = ones @ covariance @ ones
            # A prior draw whose sum is replaced has the covariance of equation 27.
            apart = np.eye(k) - np.ones((k, k)) / k
            np.testing.assert_allclose(sigma**2 * apart + spread * np.ones((k, k)) / k**2, covariance, atol=1e-9)
            np.testing.assert_allclose(omega, ones * (ones @ omega) / k, atol=1e-9)
            wanted = ones @ omega + np.sqrt(spread) * stream.normals(1)[0]
            items[column[e], room] += (wanted - items[column[e], room].sum()) / k
    shares, x = half[:, None] ** 2 * tau, scored()
    linear = (half[:, None] * T + shares * (T * model.margin + x[:, None])).sum(axis=0)
    return shares.sum(axis=0), linear, x


@pytest.mark.parametrize("costs", [False, True])
@pytest.mark.parametrize("whose", ["all", "row"])
@pytest.mark.parametrize("seed", range(4))
def test_users_are_those_of_the_dense_computation(whose, costs, seed):
    rng = np.random.default_rng(seed)
    lengths, width, alpha, most = [0, 1, 5, 12, 7, 3], int(rng.integers(0, 9)), 4.0, 3
    rows = table(seed, lengths, 12, cost=0.9, costs=costs)
    Z = (rng.random((6, width)) < 0.4).astype(np.uint8)
    Z[int(rng.integers(6)), Z.sum(axis=0) == 0] = 1
    items, theta = 1.5 * rng.standard_normal((12, width)), 2.0 * rng.standard_normal((1 if whose == "all" else 6, R))
    model = Model(1.5, 0.7, np.float64)
    before = IBPState(Z, items, np.arange(10, 10 + width), 10 + width)
    kept = Z.copy(), items.copy()
    after, sums = draw_users(rows, before, Thresholds(theta, whose), alpha, most, model, NAME)
    np.testing.assert_array_equal(Z, kept[0])
    np.testing.assert_array_equal(items, kept[1])
    wanted_Z, wanted_items = np.pad(Z, ((0, 0), (0, 30))), np.pad(items, ((0, 0), (0, 30)))
    count = wanted_Z.sum(axis=0).astype(float)
    for row in range(6):
        got = twin(rows, row, wanted_Z, wanted_items, count, 6, theta, alpha, most, model, NAME, own=True)
        np.testing.assert_allclose(sums.precision[row], got[0], rtol=1e-10)
        np.testing.assert_allclose(sums.linear[row], got[1], atol=1e-8)
        np.testing.assert_allclose(sums.score[rows.start[row] : rows.start[row + 1]], got[2], atol=1e-9)
    alive = count > 0
    order = np.lexsort(wanted_Z[:, alive])
    order_after = np.lexsort(after.users)
    np.testing.assert_array_equal(after.users[:, order_after], wanted_Z[:, alive][:, order])
    np.testing.assert_allclose(
        np.sort(after.items, axis=1), np.sort(wanted_items[:, alive], axis=1), atol=1e-9
    )  # columns in the order of their names there, of their places here
    assert (np.diff(after.feature) > 0).all()
    assert after.born >= after.feature.max(initial=0)
    old = after.feature < 10 + width
    assert np.isin(after.feature[old], before.feature).all()


def test_followers_are_those_of_the_dense_computation():
    rng = np.random.default_rng(0)
    rows, items, theta = table(5, [0, 4, 9], 12, cost=0.9), rng.standard_normal((12, 5)), rng.standard_normal((3, R))
    holders, model = np.array([3.0, 0.0, 7.5, 0.4, 9.0]), Model(1.5, 0.7, np.float64)
    Z = np.zeros((3, 5), np.uint8)
    wanted = Z.copy()
    sums = draw_new_users(rows, Z, items, holders, 10.0, Thresholds(theta, "row"), model, NAME)
    for row in range(3):
        got = twin(rows, row, wanted, items, holders, 11, theta, 0.0, 0, model, NAME, own=False)
        np.testing.assert_allclose(sums.linear[row], got[1], atol=1e-8)
    np.testing.assert_array_equal(Z, wanted)
    assert not Z[:, 1].any()
    assert Z.any()


def big():
    rng = np.random.default_rng(0)
    users = table(3, rng.integers(0, 60, 80), 70, cost=0.5)
    Z = draw_ibp_rows(7, 5, np.zeros((0, 0), np.uint8), 80, 5.0)
    items = rng.standard_normal((70, Z.shape[1]))
    return users, IBPState(Z, items, np.arange(Z.shape[1]), Z.shape[1])


def test_tables_that_have_to_grow_give_the_same_bits(monkeypatch):
    rows, state = big()
    arguments = Thresholds(np.array([[-9.0, 0.0, 9.0]]), "all"), 200.0, 6, Model(9.0, 1.0, np.float64), NAME
    wanted, _ = draw_users(rows, state, *arguments)
    assert wanted.feature.size > state.feature.size + 6
    monkeypatch.setattr(ipm3f, "_MIN_GROWTH", 0)
    got, _ = draw_users(rows, state, *arguments)
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(a, b)


def test_same_bits_for_any_number_of_threads(monkeypatch):
    monkeypatch.setattr(m3f, "_SMALL", 0)
    rows, state = big()
    turned = table(4, [50] * 70, 80)
    results = []
    for n_threads in (1, 2):
        items = state.items.copy()
        with limited_threads(n_threads):
            arguments = Thresholds(np.array([[-9.0, 0.0, 9.0]]), "all"), Model(9.0, 1.0, np.float64), NAME
            assert draw_items(turned, items, state.users, *arguments)
        results.append(items)
    np.testing.assert_array_equal(*results)
    assert rows.start.size == 81


def test_numbers_of_new_features_do_not_depend_on_their_limit():
    rng = np.random.default_rng(0)
    weight, gain = 10.0 ** rng.uniform(-8, 12, 500), rng.standard_normal(500)
    few, many = np.empty(6), np.empty(21)
    new_feature_weights(500, 0.02, 1.7, weight, gain, few)
    new_feature_weights(500, 0.02, 1.7, weight, gain, many)
    np.testing.assert_array_equal(few, many[:6])
    k = np.arange(1, 21)[:, None] * 1.7
    wanted = 0.5 * (gain**2 * k / (1.0 + k * weight) - np.log1p(k * weight)).sum(axis=1)
    wanted += np.cumsum(np.log(0.02 / np.arange(1, 21)))
    np.testing.assert_allclose(many[1:], wanted, rtol=1e-9)


def test_numbers_out_of_range_are_reported():
    rows = table(4, [50] * 70, 80, cost=1e200)
    _, state = big()
    arguments = Thresholds(np.array([[-9.0, 0.0, 9.0]]), "all"), Model(9.0, 1.0, np.float64), NAME
    assert not draw_items(rows, state.items, state.users, *arguments)
