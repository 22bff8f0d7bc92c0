"""Other values of a package's policy within a test."""

import importlib
from dataclasses import replace


def set_policy(patch, package, **fields):
    """Set fields of the `POLICY` of a package, such as "gp.sparse", until the MonkeyPatch is undone.

    All modules of the package see it.
    """
    policy = importlib.import_module(f"skpref.{package}.policy").POLICY
    replace(policy, **fields)  # refuses a name that is no field
    for name, value in fields.items():
        patch.setitem(vars(policy), name, value)
