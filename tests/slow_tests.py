"""The lists of slow tests: slow.txt, how it is measured and written anew, and nightly.txt."""

import os
from collections import defaultdict
from pathlib import Path

import pytest
from numba.core import event

FILE = Path(__file__).with_name("slow.txt")
NIGHTLY = Path(__file__).with_name("nightly.txt")
LIMIT = 0.1  # seconds of processor time; the default run is to take five minutes on two cores, compilation included
UPDATE = 'python -m pytest --update-slow -m "not statistical and not nightly"'
HEADER = f"""\
# Tests that take more than {LIMIT} seconds of processor time without compilation (the mean of their cases), and single
# cases that take twice as long. They run in .ci/run, but not by default. Written by
# {UPDATE}
"""


def _seconds():
    """Return the processor time of this process and of those that it started and that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def function_of(nodeid):
    """Return the name of a test without its case."""
    return nodeid.partition("[")[0]


def listed():
    """Read names of slow tests, with or without a case, and their seconds."""
    lines = [line for line in FILE.read_text("utf-8").splitlines() if not line.startswith("#")]
    return {name: seconds for seconds, name in (line.split(maxsplit=1) for line in lines)}


def nightly():
    """Read names of tests, with or without a case or with the beginning of one, that can wait for the night."""
    return [line for line in NIGHTLY.read_text("utf-8").splitlines() if line and not line.startswith("#")]


def mark(items):
    """Mark the tests of the lists."""
    lists = {"slow": set(listed()), "nightly": set(nightly())}
    begins = tuple(name[:-1] for name in lists["nightly"] if name.endswith("*"))
    for item in items:
        for marker, names in lists.items():
            if item.nodeid in names or function_of(item.nodeid) in names:
                item.add_marker(marker)
        if item.nodeid.startswith(begins):
            item.add_marker("nightly")


class Clock(event.Listener):
    """Measures the processor time of every test that is not marked as slow, and writes the list when all have run."""

    def __init__(self):
        self.seconds = {}
        self.depth, self.compiling = 0, 0.0
        event.register("numba:compile", self)

    def on_start(self, event):
        self.compiling -= _seconds() if self.depth == 0 else 0.0
        self.depth += 1

    def on_end(self, event):
        self.depth -= 1
        self.compiling += _seconds() if self.depth == 0 else 0.0

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item):
        begin = _seconds() - self.compiling
        try:
            return (yield)
        finally:
            if item.get_closest_marker("slow") is None:
                self.seconds[item.nodeid] = _seconds() - self.compiling - begin

    def pytest_sessionfinish(self):
        cases = defaultdict(list)
        for nodeid in self.seconds:
            cases[function_of(nodeid)].append(nodeid)
        # Tests that did not run keep their lines.
        slow = {name: seconds for name, seconds in listed().items() if function_of(name) not in cases}
        for function, nodeids in cases.items():
            mean = sum(self.seconds[nodeid] for nodeid in nodeids) / len(nodeids)
            if mean > LIMIT:
                slow[function] = f"{mean:.1f}"
            else:
                slow |= {n: f"{self.seconds[n]:.1f}" for n in nodeids if self.seconds[n] > 2.0 * LIMIT}
        FILE.write_text(HEADER + "".join(f"{seconds} {name}\n" for name, seconds in sorted(slow.items())), "utf-8")
