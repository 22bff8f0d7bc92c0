"""Compiled functions: what all of them need for equal bits in every process."""

from __future__ import annotations

import pkgutil
from importlib import import_module

import pytest
from numba.core.dispatcher import Dispatcher

import skpref._compiled

MODULES = [import_module(f"skpref._compiled.{info.name}") for info in pkgutil.iter_modules(skpref._compiled.__path__)]
COMPILED = {
    f"{module.__name__.rpartition('.')[2]}.{name}": value
    for module in MODULES
    for name, value in vars(module).items()
    if isinstance(value, Dispatcher) and value.py_func.__module__ == module.__name__
}


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
