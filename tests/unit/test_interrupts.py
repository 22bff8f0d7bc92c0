"""Interrupts at random moments, in a process of their own: see ``interrupts.py``."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
@pytest.mark.parametrize("selection", ["not nightly", "nightly"])
def test_interrupts(selection):
    file = Path(__file__).with_name("interrupts.py")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", selection, str(file)]
    run = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert run.returncode == 0, run.stdout
