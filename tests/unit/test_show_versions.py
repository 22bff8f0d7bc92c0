"""`show_versions` names what a bug report needs."""

import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import numpy as np

import skpref


def test_show_versions_names_python_the_package_and_its_dependencies(capsys):
    skpref.show_versions()
    rows = dict(line.strip().split(": ", 1) for line in capsys.readouterr().out.splitlines() if ": " in line)
    assert rows["python"].startswith(sys.version.split()[0])
    assert rows["skpref"] == skpref.__version__
    assert rows["numpy"] == np.__version__
    project = tomllib.loads((Path(__file__).resolve().parents[2] / "pyproject.toml").read_text("utf-8"))["project"]
    assert {re.split("[<>=]", line)[0] for line in project["dependencies"]} <= set(rows)


def test_packages_that_are_absent_are_marked(monkeypatch, capsys):
    def version(name):
        if name == "mlflow":
            raise metadata.PackageNotFoundError(name)
        return "1.0"

    monkeypatch.setattr(metadata, "version", version)
    skpref.show_versions()
    printed = capsys.readouterr().out
    assert "mlflow: not installed" in printed
    assert "numpy: 1.0" in printed
