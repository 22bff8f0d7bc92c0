"""The command ``skpref``: tune, run, fit, predict, rank, elicit, demo, mlflow-sync."""

from skpref.cli.main import main

__all__ = ["main"]
