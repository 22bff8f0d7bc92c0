"""Warnings name the line of the user at any depth."""

import pytest

from skpref._warn import warn
from skpref.exceptions import DataWarning

LAYERS = """
def deepest(): warn("too deep", DataWarning)
def through(call, *calls): call(*calls)
"""


def layer(module):
    names = {"__name__": module, "warn": warn, "DataWarning": DataWarning}
    exec(LAYERS, names)  # noqa: S102
    return names


@pytest.mark.parametrize(
    "modules", [["skpref.gp"], ["skpref.gp", "skpref.data", "skpref"], ["sklearn.base", "skpref.gp", "contextlib"]]
)
def test_the_line_is_that_of_the_caller_of_the_package(modules):
    calls = [layer(module)["through"] for module in modules]
    with pytest.warns(DataWarning, match="^too deep$") as record:
        calls[0](*calls[1:], layer("skpref.inference")["deepest"])
    assert record[0].filename == __file__


def test_another_package_is_a_user():
    user = layer("skpref_users.gp")["through"]
    with pytest.warns(DataWarning) as record:
        user(layer("skpref.gp")["deepest"])
    assert record[0].filename == "<string>"
