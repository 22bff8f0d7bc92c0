"""Compiled functions: what all of them need for equal bits in every process."""

from __future__ import annotations

import pkgutil
import resource
import types
from importlib import import_module

import pytest
from numba.core.dispatcher import Dispatcher

import skpref._compiled
from skpref._compiled import jit

MODULES = [import_module(f"skpref._compiled.{info.name}") for info in pkgutil.iter_modules(skpref._compiled.__path__)]
COMPILED = {
    f"{module.__name__.rpartition('.')[2]}.{name}": value
    for module in MODULES
    for name, value in vars(module).items()
    if isinstance(value, Dispatcher) and value.py_func.__module__ == module.__name__
}


def add(a, b):
    return a + b


def called_by(function: Dispatcher) -> list[Dispatcher]:
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
    assert {"augment", "add_gram", "factor_upper", "_squared_rows"} <= called
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
