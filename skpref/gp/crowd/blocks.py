"""Users who each have a latent vector g ~ N(shift, P) of their own that few comparisons inform, many users at a time.

The coordinates of g are rows A of the items: the pairs that the user compared, or the items in them, whichever are
fewer. Coordinates that are the same item in several groups share what is the user's own: E maps r own parts to n
coordinates (None: they are the same). The own parts' covariance P is gathered from the covariance S of items. With D
the precision and d the linear term of the sites, F = D E, K = (I + P E^T F)^-1 and M = K P, the own parts have the
covariance M given what all users share, and W = (I + D E P E^T)^-1 D = D - F M F^T is what the sites say of that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from skpref._compiled.users import add_by_item, add_products, quadratic_forms
from skpref.gp.crowd.policy import POLICY
from skpref.gp.crowd.users import Stack, iterate_stacks, split_by_size, stack_users, sum_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skpref._typing import Array, IntArray
    from skpref.gp.crowd.users import UserRows

_MOST_ENTRIES = 2**22  # entries of one matrix of all users that are in memory together, 32 MB


class _Block(NamedTuple):
    """The matrices of a stack of users."""

    stack: Stack
    P: Array  # (m, r, r)
    tau: Array  # (q,)
    d: Array  # (m, n)
    F: Array  # (m, n, r), or its diagonals
    own_D: Array  # (m, r, r): E^T D E, or its diagonals
    K: Array  # (m, r, r)
    W: Array  # (m, n, n)

    def prior_times(self, x: Array) -> Array:
        """Return E P E^T x, shape (m, n)."""
        return self.stack.expanded(_times(self.P, self.stack.summed(x)))

    def D_times(self, x: Array) -> Array:
        """Return D x, shape (m, n)."""
        if self.stack.part is None:
            return _times(self.own_D, x)
        at = self.stack.owner[:, None], self.stack.at
        seen = self.stack.by * (self.tau * np.sum(self.stack.by * x[at], axis=1))[:, None]
        return sum_at(x.shape, at, seen)

    def log_det(self) -> float:
        """Return the sum of log |I + D E P E^T|."""
        return float(np.linalg.slogdet(_inverse_of_K(self.P, self.own_D))[1].sum())


class UserBlocks:
    """The matrices of users, some at a time; if they are few, they are made once."""

    def __init__(self, users: UserRows, S: Array, tau: Array, nu: Array) -> None:
        self.users = users
        self._sites = _padded(S), tau, nu
        self._all: list[_Block] = []

    def __iter__(self) -> Iterator[_Block]:
        if self._all:
            yield from self._all
            return
        keep = max(int(np.sum(np.diff(self.users.starts) ** 2)), self.users.a.size) <= _MOST_ENTRIES
        for stack in self.users.stacks if keep else iterate_stacks(self.users):
            block = _fill(stack, *self._sites)
            if keep:
                self._all.append(block)
            yield block


def _product(M: Array, X: Array) -> Array:
    """Return M X of stacks of matrices, where M may be diagonals."""
    return M[:, :, None] * X if M.ndim == X.ndim - 1 else M @ X


def _times(M: Array, x: Array) -> Array:
    """Return M x of stacks of matrices, or diagonals, and vectors."""
    return np.asarray(_product(M, x[..., None])[..., 0])


def _padded(S: Array, axis: int = 0) -> Array:
    """Return an array of items with zeros for none at the end of the axes from this one on."""
    out = np.zeros((*S.shape[:axis], *(n + 1 for n in S.shape[axis:])))
    out[tuple(slice(n) for n in S.shape)] = S
    return out


def _symmetric(G: Array) -> Array:
    """Return a matrix of the items without the row and column of none, exactly symmetric."""
    return np.asarray(0.5 * (G + G.T)[:-1, :-1])


def _fill(stack: Stack, S: Array, tau: Array, nu: Array) -> _Block:
    """Return the matrices of a stack of users."""
    (m, n), r = stack.first.shape, stack.own[0].shape[1]
    tau, e = tau[stack.rows], stack.parts_of(stack.at)
    P, d = stack.own_covariance(S), sum_at((m, n), (stack.owner[:, None], stack.at), stack.by * nu[stack.rows, None])
    if stack.single:
        own_D = sum_at((m, r), (stack.owner[:, None], e), stack.by**2 * tau[:, None])
    else:
        own_D = _precisions(stack, tau, e, r, e, r)
    K = np.asarray(np.linalg.inv(_inverse_of_K(P, own_D)), dtype=np.float64)
    if stack.part is None:
        return _Block(stack, P, tau, d, own_D, own_D, K, _product(own_D, K))
    F = _precisions(stack, tau, stack.at, n, e, r)
    W = _precisions(stack, tau, stack.at, n, stack.at, n) - F @ (K @ P) @ F.mT
    return _Block(stack, P, tau, d, F, own_D, K, W)


def _precisions(stack: Stack, tau: Array, left: IntArray, n: int, right: IntArray, r: int) -> Array:
    """Return the precisions of the sites in coordinates, or own parts, that comparisons see, shape (m, n, r)."""
    D = np.zeros((len(stack.first), n, r))
    add_products(stack.owner, left, right, stack.by, tau, D)
    return D


def _inverse_of_K(P: Array, own_D: Array) -> Array:
    """Return I + P E^T D E."""
    T = np.asarray(_product(own_D, P).mT)
    np.einsum("mrr->mr", T)[...] += 1.0
    return T


def iterate_users(
    positions: IntArray, users: UserRows, S: Array, tau: Array, nu: Array
) -> Iterator[tuple[Array, Array, Array, Array]]:
    """Yield E P E^T, W, D and d of each user."""
    S = _padded(S)
    for low in range(0, positions.size, POLICY.blocks_at_once):
        some = positions[low : low + POLICY.blocks_at_once]
        sizes, found = users.starts[some + 1] - users.starts[some], {}
        for chosen in split_by_size(sizes, users.by_pairs[some]):
            stack = stack_users(users, some[chosen])
            block = _fill(stack, S, tau, nu)
            n = block.d.shape[1]
            D = _precisions(stack, block.tau, stack.at, n, stack.at, n)
            for k, user in enumerate(chosen.tolist()):
                n = int(sizes[user])
                part = np.arange(n) if stack.part is None else stack.part[k, :n]
                found[user] = block.P[k][np.ix_(part, part)], block.W[k, :n, :n], D[k, :n, :n], block.d[k, :n]
        yield from (found[user] for user in range(some.size))


def integrate_out(blocks: UserBlocks, shift: Array) -> tuple[Array, Array, float, float]:
    """Return the terms of the sites in a vector m that all users share, z = A (m + b_u), with the b_u integrated out.

    Sum of A^T W A (n, n); sum of A^T (I - W P) d (n,); sum of log |I + D P|; and the constant of the exponent, twice.
    """
    n = blocks.users.n_items
    G, h, log_det, constant = np.zeros((n + 1, n + 1)), np.zeros(n + 1), 0.0, 0.0
    for block in blocks:
        stack, mean = block.stack, shift[block.stack.number]
        residual = block.d - block.D_times(mean)
        through = block.prior_times(residual)
        g = residual - _times(block.W, through)
        h += np.bincount(stack.first.ravel(), g.ravel(), minlength=n + 1)
        h -= np.bincount(stack.second.ravel(), g.ravel(), minlength=n + 1)
        add_by_item(block.W, stack.first, stack.second, stack.paired, G)
        log_det += block.log_det()
        constant += float(np.sum(g * through + (block.d + residual) * mean))
    return _symmetric(G), h[:n], log_det, constant


def marginals(blocks: UserBlocks, m: Array, V: Array, shift: Array) -> tuple[Array, Array, Array, Array, float]:
    """Return moments of the comparisons' z (P,), the sum of A^T E[alpha alpha^T - W] A, E[alpha], sum of tr (P W)^2.

    The posterior mean of b_u is S A^T alpha, and m ~ N(m, V) is what all users share.
    """
    users, V, m = blocks.users, _padded(V), _padded(m)
    mean, variance, G, alpha = np.empty(users.a.size), np.empty(users.a.size), np.zeros_like(V), np.empty(shift.size)
    squared = 0.0
    for block in blocks:
        stack, K, M = block.stack, block.K, block.K @ block.P
        common = stack.differences(m) + shift[stack.number]
        residual = block.d - block.D_times(common)
        own = residual - _times(block.W, block.prior_times(residual))
        alpha[stack.number[stack.there]] = own[stack.there]
        value = common + block.prior_times(own)
        # Q is the covariance of what is common, B = E^T W, and E P E^T W = E H^T.
        Q, H, B = stack.covariance(V), _product(block.F, M), _product(block.F, K).mT
        X, own = H.mT @ Q, stack.summed(own)
        moment = B @ Q @ B.mT - _product(block.own_D, K) + own[:, :, None] * own[:, None, :]
        add_by_item(moment, *stack.own, stack.paired, G)
        squared += float(np.einsum("mrs,msr->", K, K)) + float(np.sum(1.0 - 2.0 * np.einsum("mrr->mr", K)))
        mean[stack.rows] = np.sum(stack.by * value[stack.owner[:, None], stack.at], axis=1)
        variance[stack.rows] = _variances(stack, Q, M, X, H)
    return mean, variance, _symmetric(G), alpha, squared


def _variances(stack: Stack, Q: Array, M: Array, X: Array, H: Array) -> Array:
    """Return the variances of z of the comparisons, given their covariance E M E^T + Q + E X H E^T - E X - X^T E^T."""
    u, at, e = stack.owner[:, None], stack.at, stack.parts_of(stack.at)
    if stack.single:  # comparisons are single coordinates: the diagonals of the covariances are enough
        rest = np.einsum("mrr->mr", M) + np.einsum("mrn,mnr->mr", X, H)
        return np.asarray(stack.by**2 * (Q[u, at, at] + rest[u, e] - 2.0 * X[u, e, at]))[:, 0]
    rest = M + X @ H
    if stack.part is None:
        return np.asarray(quadratic_forms(stack.owner, at, at, stack.by, Q + rest - X - X.mT))
    parts = (at, at, Q), (e, e, rest), (e, at, -2.0 * X)
    return np.asarray(sum(quadratic_forms(stack.owner, left, right, stack.by, C) for left, right, C in parts))


def personal_moments(
    user: IntArray,
    own: Array,
    common: Array,
    S: Array,
    V: Array,
    users: UserRows,
    tau: Array,
    nu: Array,
    alpha: Array,
    *,
    explain: bool,
) -> tuple[Array, Array, Array]:
    """Return the user's part of mean and variance of rows (n,), and A^T W times the rows (n, n_items), else zeros.

    The rows of a user are together. `own` (n, n_items) is the prior covariance of a row's personal part with the items'
    b, `common` its posterior covariance with the items' m.
    """
    n, none = user.size, S.shape[0]
    mean, variance, explained = np.zeros(n), np.zeros(n), np.zeros((n, none + 1))
    own, common, S, V = _padded(own, 1), _padded(common, 1), _padded(S), _padded(V)
    low = np.append(np.flatnonzero(np.diff(user, prepend=-1)), n)
    who, n_rows = user[low[:-1]], np.diff(low)
    doubled = np.ceil(np.log2(np.maximum(n_rows, 1))).astype(np.int64)
    for part in split_by_size(np.diff(users.starts)[who], users.by_pairs[who], doubled):
        block = _fill(stack_users(users, who[part]), S, tau, nu)
        stack = block.stack
        there = np.arange(n_rows[part].max(initial=0)) < n_rows[part, None]
        row = np.where(there, low[part, None] + np.arange(there.shape[1]), 0)
        at = row[:, :, None], stack.first[:, None, :]
        minus = row[:, :, None], stack.second[:, None, :]
        q, c = own[at] - own[minus], common[at] - common[minus]
        Wq = q @ block.W
        added = np.einsum("mrn,mrn->mr", Wq @ stack.covariance(V), Wq) - np.einsum("mrn,mrn->mr", Wq, q + 2.0 * c)
        mean[row[there]] = _times(q, alpha[stack.number])[there]
        variance[row[there]] = added[there]
        if explain:
            Wq[~there] = 0.0
            np.add.at(explained, at, Wq)
            np.subtract.at(explained, minus, Wq)
    return mean, variance, explained[:, :none]
