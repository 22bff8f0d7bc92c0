"""One object is fitted by one thread at a time."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import numba
import numpy as np
import pytest
from numba.np.ufunc import parallel
from sklearn.base import BaseEstimator, clone

import skpref
from skpref import GibbsM3F
from skpref._exclusive import _FITTING, one_fit_at_a_time
from skpref.persistence import saved_classes

PAIRS = np.array([[0, 1], [1, 2], [2, 0], [0, 2]])
BUSY = "is being fitted in another thread; give each thread an object of its own"


def elsewhere(function, *args):
    """Call a function in another thread."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function, *args).result()


@pytest.mark.parametrize("name", sorted({*saved_classes()} - {"OneHotDesign"}))  # which runs no inference
def test_every_fit_refuses_a_second_thread(name):
    model = getattr(skpref, name)()
    with one_fit_at_a_time(model), pytest.raises(RuntimeError, match=f"this {name} {BUSY}"):
        elsewhere(model.fit, PAIRS, [0, 1, 0, 1])


def test_copies_and_the_same_thread_are_not_refused():
    model, y = GibbsM3F(2, max_iter=3, burn_in=1), [0, 1, 0, 1]
    with one_fit_at_a_time(model):
        for other in (clone(model), copy.copy(model), pickle.loads(pickle.dumps(model))):
            elsewhere(other.fit, PAIRS, y)
        model.fit(PAIRS, y)  # the same thread, as a method that calls another one
        with pytest.raises(RuntimeError, match=BUSY):
            elsewhere(model.partial_fit, PAIRS, y)
    elsewhere(model.fit, PAIRS, y)
    assert not _FITTING


def test_the_mark_goes_with_a_failure():
    model = BaseEstimator()
    with pytest.raises(KeyboardInterrupt), one_fit_at_a_time(model):
        raise KeyboardInterrupt
    assert not _FITTING


def test_an_interrupt_inside_compiled_code_is_one():
    failure = SystemError("CPUDispatcher(<function>) returned a result with an exception set")
    with pytest.raises(SystemError), one_fit_at_a_time(object()):
        raise failure
    failure.__cause__ = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt), one_fit_at_a_time(object()):
        raise failure


def test_an_interrupt_leaves_no_lock_of_numba():
    numba.get_num_threads()
    lock = parallel._backend_init_process_lock

    def interrupted():
        with one_fit_at_a_time(lock):
            lock.acquire()
            raise KeyboardInterrupt("again")

    with pytest.raises(KeyboardInterrupt, match="again"):
        interrupted()
    assert elsewhere(lambda: lock.acquire(block=False) and lock.release() is None)


def test_an_interrupt_is_one_where_numba_has_no_lock(monkeypatch):
    monkeypatch.setattr(parallel, "_backend_init_process_lock", parallel._nop())  # as where processes are not forked
    with pytest.raises(KeyboardInterrupt), one_fit_at_a_time(monkeypatch):
        raise KeyboardInterrupt
