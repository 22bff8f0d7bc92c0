"""Choices of tracking that are not parameters, each with what decided it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Policy:
    """Numbers that could be others; limits that follow from arithmetic or memory stand where they are used."""

    # Waiting
    fit_seconds: int = 3  # seconds that a fit waits for a server, once; MLflow's defaults are 120 s and 7 retries
    sync_seconds: int = 60  # seconds that `sync` and a resumed run wait
    tables_seconds: float = 5.0  # seconds in which another process creates the tables of a new store
    retry_seconds: float = 300.0  # seconds before a store that failed is tried again: each attempt may cost seconds
    buffer_seconds: float = 10.0  # seconds that points wait at most while new ones arrive
    buffer_points: int = 10_000  # points of a run that wait at most
    failures: int = 3  # failures in a row after which `sync` stops

    # Sizes
    most_features: int = 1000  # features of a row that is kept as an example
    most_folds: int = 2000  # folds whose scores are sent one by one
    most_text: int = 500  # characters of a parameter: more is an array or a table
    most_columns: int = 100  # columns named in the schema


POLICY = Policy()
