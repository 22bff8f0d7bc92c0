"""Compiled functions: what all of them need for equal bits in every process."""

import pkgutil
import resource
import threading
import time
import types
from importlib import import_module

import pytest
from numba.core.dispatcher import Dispatcher

import skpref._compiled
from skpref._compiled import jit, kernels

MODULES = [import_module(f"skpref._compiled.{info.name}") for info in pkgutil.iter_modules(skpref._compiled.__path__)]
COMPILED = {
    f"{module.__name__.rpartition('.')[2]}.{name}": value
    for module in MODULES
    for name, value in vars(module).items()
    if isinstance(value, Dispatcher) and value.py_func.__module__ == module.__name__
} | {f"kernels.{name}": value(0, False) for name, value in vars(kernels).items() if name.endswith("_loop")}


def add(a, b):
    return a + b


def called_by(function):
    names = function.py_func.__code__.co_names
    values = [function.py_func.__globals__.get(name) for name in names]
    return [value for value in values if isinstance(value, Dispatcher)]


@pytest.mark.parametrize("name", COMPILED)
def test_sums_in_any_order_are_inlined_into_their_callers(name):
    # Else the process that compiles a function and those that load it from the cache have other bits (`jit.njit`).
    for function in called_by(COMPILED[name]):
        options = function.targetoptions
        if "reassoc" in (options.get("fastmath") or ()):
            assert options.get("forceinline") or options.get("inline") == "always", function.py_func.__name__


def test_the_functions_that_call_others_are_seen():
    called = {function.py_func.__name__ for value in COMPILED.values() for function in called_by(value)}
    assert {"_fill_primal", "add_gram", "factor_upper", "_product_slopes"} <= called
    assert len(COMPILED) > 100


def test_a_full_disk_costs_the_cache_and_not_the_result(tmp_path, monkeypatch):
    monkeypatch.setattr("numba.core.config.CACHE_DIR", str(tmp_path))
    jit._warn_of.cache_clear()
    functions = [jit.njit()(types.FunctionType(add.__code__, {}, f"add_{i}")) for i in range(2)]
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300, hard))
    try:
        with pytest.warns(UserWarning, match="cannot be saved in .*: File too large") as caught:
            results = [function(1, 2) for function in functions]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert results == [3, 3]
    assert len(caught) == 1
    assert not list(tmp_path.rglob("*.nbc"))


@pytest.mark.parametrize("n_threads", [1, 3])
def test_tasks_give_their_results_in_order(n_threads):
    assert jit.run_tasks(lambda i: i * i, 7, n_threads) == [0, 1, 4, 9, 16, 25, 36]
    assert jit.run_tasks(lambda i: i, 0, n_threads) == []


@pytest.mark.parametrize("failing", ["the caller", "a helper"])
def test_a_failure_in_any_thread_is_raised_and_ends_the_work(failing):
    begun, both = [], threading.Barrier(2)

    def task(i):
        begun.append(i)
        both.wait(timeout=30)  # one task in each thread
        if (threading.current_thread() is threading.main_thread()) == (failing == "the caller"):
            raise KeyboardInterrupt
        time.sleep(0.2)

    with pytest.raises(KeyboardInterrupt):
        jit.run_tasks(task, 2 if failing == "a helper" else 100, 2)
    assert len(begun) == 2


def test_parts_cover_all_numbers(monkeypatch):
    monkeypatch.setattr(jit, "n_threads", lambda: 2)
    for n in (0, 1, 5, 100):
        for large in (False, True):
            parts = []
            jit.run_parts(lambda a, b, parts=parts: parts.append((a, b)), n, large=large)
            assert [i for a, b in sorted(parts) for i in range(a, b)] == list(range(n))
            assert (len(parts) > 1) == (large and n > 1)
