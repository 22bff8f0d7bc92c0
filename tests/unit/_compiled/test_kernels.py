"""Compiled kernel loops against plain numpy twins, dense and CSR; the same bits for any number of threads."""

import os
import subprocess
import sys
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from skpref._compiled import kernels as dense
from skpref._compiled import kernels_csr as csr
from skpref._compiled.jit import njit

KINDS = range(4)


def twin(X, Z, c, kind, additive):
    """Values and per-feature gradients, by broadcasting."""
    r = np.abs(X[:, None] - Z[None]) * c
    log = [-r, np.log1p(r) - r, np.log1p(r + r * r / 3) - r, -r * r / 2][kind]
    h = [r, r * r / (1 + r), r * r * (1 + r) / (3 + 3 * r + r * r), r * r][kind]
    if additive:
        return np.exp(log).mean(axis=-1), np.exp(log) * h / X.shape[1]
    K = np.exp(log.sum(axis=-1))
    return K, K[..., None] * h


@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(0, 40),
    m=st.integers(0, 40),
    d=st.integers(1, 40),
    kind=st.sampled_from(KINDS),
    additive=st.booleans(),
    sparse_input=st.booleans(),
)
def test_twins(seed, n, m, d, kind, additive, sparse_input):
    rng = np.random.default_rng(seed)
    X, Z, Y = (np.where(rng.random((k, d)) < 0.4, 0.0, rng.normal(size=(k, d))) for k in (n, m, n))
    c = dense.scale_of(rng.uniform(0.5, 2.0, d) * np.sqrt(d), kind, d)
    module, form = (csr, sparse.csr_array) if sparse_input else (dense, np.ascontiguousarray)
    X_, Z_, Y_ = form(X), form(Z), form(Y)
    close = {"rtol": 1e-12, "atol": 1e-12}

    K, dK = twin(X, Z, c, kind, additive)
    G = rng.normal(size=K.shape)
    np.testing.assert_allclose(module.cross(X_, Z_, c, kind, additive=additive), K, **close)
    got = module.cross_vjp(X_, Z_, c, kind, G, additive=additive)
    np.testing.assert_allclose(got, np.einsum("ij,ijf->f", G, dK), rtol=1e-10, atol=1e-11)

    K, dK = twin(Z, Z, c, kind, additive)
    G = rng.normal(size=K.shape)
    gram = module.gram(Z_, c, kind, additive=additive)
    np.testing.assert_array_equal(gram, gram.T)
    np.testing.assert_allclose(gram, K, **close)
    got = module.gram_vjp(Z_, c, kind, G, additive=additive)
    np.testing.assert_allclose(got, np.einsum("ij,ijf->f", G, dK), rtol=1e-10, atol=1e-11)

    K, dK = twin(X, Y, c, kind, additive)
    i, g = np.arange(n), rng.normal(size=n)
    np.testing.assert_allclose(module.paired(X_, Y_, c, kind, additive=additive), K[i, i], **close)
    got = module.paired_vjp(X_, Y_, c, kind, g, additive=additive)
    np.testing.assert_allclose(got, g @ dK[i, i], rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("module", [dense, csr])
def test_parallel_paths_have_the_same_bits_for_any_number_of_threads(kind, module):
    # Large enough for the parallel path, and not a multiple of any block.
    rng = np.random.default_rng(1)
    X, Z = rng.normal(size=(1003, 9)), rng.normal(size=(77, 9))
    pairs = rng.normal(size=(2, 60_001, 9))
    form = sparse.csr_array if module is csr else np.ascontiguousarray
    c = dense.scale_of(4.0, kind, 9)
    G, g = rng.normal(size=(1003, 77)), rng.normal(size=60_001)

    def run(threads):
        before = numba.get_num_threads()
        numba.set_num_threads(threads)
        try:
            return [
                module.cross(form(X), form(Z), c, kind),
                module.cross_vjp(form(X), form(Z), c, kind, G),
                module.gram(form(X[:303]), c, kind),
                module.gram_vjp(form(X[:303]), c, kind, X[:303] @ X[:303].T),
                module.paired(form(pairs[0]), form(pairs[1]), c, kind),
                module.paired_vjp(form(pairs[0]), form(pairs[1]), c, kind, g),
            ]
        finally:
            numba.set_num_threads(before)

    single, all_of_them = run(1), run(numba.config.NUMBA_NUM_THREADS)
    with ThreadPoolExecutor(2) as pool:  # workers take the serial path
        workers = [pool.submit(run, 1) for _ in range(2)]
    for other in (all_of_them, *(worker.result() for worker in workers)):
        for a, b in zip(single, other, strict=True):
            np.testing.assert_array_equal(a, b)
    K, dK = twin(X, Z, c, kind, additive=False)
    np.testing.assert_allclose(single[0], K, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(single[1], np.einsum("ij,ijf->f", G, dK), rtol=1e-9)


def test_exp_to_one_ulp():
    x = np.r_[-np.random.default_rng(2).uniform(0.0, 708.0, 10_000), 0.0, -1e-300, -707.99]
    got = np.array([dense.fast_exp(v) for v in x])
    np.testing.assert_allclose(got, np.exp(x), rtol=2.3e-16)
    assert dense.fast_exp(-np.inf) == dense.fast_exp(-709.0) == 0.0
    assert np.isnan(dense.fast_exp(np.nan))


def test_gradient_memory_does_not_grow_with_pairs_times_features():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(1000, 50))
    G = rng.normal(size=(1000, 1000))
    c = dense.scale_of(10.0, dense.THREE_HALVES, 50)
    dense.gram_vjp(X, c, dense.THREE_HALVES, G)
    tracemalloc.start()
    dense.gram_vjp(X, c, dense.THREE_HALVES, G)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20e6  # the n x n x d tensor takes 400 MB


def test_wrapper_falls_back_when_nothing_can_be_cached():
    # A function without a source file has no place for a cache: numba raises RuntimeError, as for a read-only folder.
    namespace = {"njit": njit}
    exec("@njit()\ndef twice(x):\n    return 2 * x\n", namespace)  # noqa: S102
    assert namespace["twice"](21) == 42


FORK = """
import os
import numpy as np
from skpref._compiled import kernels
X = np.random.default_rng(0).normal(size=(2000, 20))
c = kernels.scale_of(5.0, kernels.THREE_HALVES, 20)
K = kernels.cross(X, X[:100], c, kernels.THREE_HALVES)
child = os.fork()
if child == 0:
    same = np.array_equal(kernels.cross(X, X[:100], c, kernels.THREE_HALVES), K)
    os._exit(0 if same else 1)
assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_computes_the_same():
    # GNU OpenMP would kill the child; Python 3.12 warns of forks beside threads.
    subprocess.run([sys.executable, "-W", "ignore", "-c", FORK], check=True, timeout=300)
