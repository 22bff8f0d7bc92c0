"""Which frames each kind of model takes, and whether MLflow's copy of it predicts the same: a table.

    python benchmarks/frames.py [MODEL ...]

Every model is fitted to every kind of frame. Then it is logged with MLflow and registered, with rows of that kind as
example, loaded from the registry as a pyfunc, and asked two rows (a request) and all rows (a batch). MLflow takes data
frames of pandas and arrays alone, so rows are asked as pandas, with the names of the signature.
"""

from __future__ import annotations

import sys
import tempfile
import uuid
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, clone
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import skpref
from skpref.tracking import track

if TYPE_CHECKING:
    from collections.abc import Callable

N = 60
RNG = np.random.default_rng(0)


def rows_of_pairs() -> pd.DataFrame:
    """Return comparisons with covariates and judges."""
    left = RNG.integers(5, size=N)
    right = (left + RNG.integers(1, 5, N)) % 5
    names = np.array(["ale", "gin", "rum", "tea", "port"], dtype=object)
    price = RNG.uniform(1.0, 9.0, (2, N))
    judge = np.array(["ann", "bob", "cay"], dtype=object)[np.arange(N) % 3]
    return pd.DataFrame({"left": names[left], "right": names[right], "p1": price[0], "p2": price[1], "judge": judge})


PAIRS = rows_of_pairs()
WINS = (PAIRS["p1"] + RNG.normal(size=N) > PAIRS["p2"]).astype(int).to_numpy()
TASKS = pd.DataFrame(
    np.array([RNG.permutation(["a", "b", "c", "d"])[:3] for _ in range(N)]), columns=["o0", "o1", "o2"], dtype=object
)
RATED = pd.DataFrame([[user, item] for user in "uvwxyz" for item in "abcde"], columns=["user", "item"])
ROWS = pd.DataFrame(RNG.normal(size=(N, 3)), columns=["x", "y", "z"])
TOWNS = ROWS.assign(town=np.array(["rom", "bonn"], dtype=object)[np.arange(N) % 2])
SUM = ROWS["x"].to_numpy() + 0.1 * RNG.normal(size=N)
FEW: dict[str, Any] = {"random_state": 0}

# The rows, the targets and the estimator by kind of model.
MODELS: dict[str, tuple[pd.DataFrame, Any, Any]] = {
    "GPPL": (PAIRS[["left", "right"]], WINS, skpref.GPPLClassifier()),
    "covariates": (
        PAIRS[["left", "right", "p1", "p2"]],
        WINS,
        skpref.GPPLClassifier(left="left", right="right", covariates={"price": ("p1", "p2")}),
    ),
    "crowd": (
        PAIRS[["judge", "left", "right"]],
        WINS,
        skpref.CrowdGPPL(n_factors=1, max_iter=5, **FEW),
    ),
    "choices": (TASKS, RNG.integers(0, 3, N), skpref.GPPLClassifier(likelihood="luce")),
    "M3F": (RATED, np.arange(len(RATED)) % 3, skpref.GibbsM3F(2, max_iter=8, burn_in=2, **FEW)),
    "machine": (
        RATED,
        np.arange(len(RATED)) % 3 * 1.0,
        make_pipeline(skpref.OneHotDesign(), skpref.VariationalFM(2, **FEW)),
    ),
    "ordinal": (ROWS, np.digitize(SUM, [-0.5, 0.5]), skpref.GPOrdinalRegressor(optimizer=None)),
    "SVGP": (ROWS, SUM, skpref.SVGPRegressor(inducing=10, optimizer=None, **FEW)),
    "pipeline": (
        TOWNS,
        SUM,
        make_pipeline(
            make_column_transformer((OneHotEncoder(), ["town"]), (StandardScaler(), ["x", "y", "z"])),
            skpref.SVGPRegressor(inducing=10, optimizer=None, **FEW),
        ),
    ),
}


# Models of columns without names, and of files, which pass no transformer.
POSITIONS = {
    "covariates": skpref.GPPLClassifier(left=0, right=1, covariates={"price": (2, 3)}),
    "pipeline": make_pipeline(
        make_column_transformer((OneHotEncoder(), [3]), (StandardScaler(), [0, 1, 2])),
        skpref.SVGPRegressor(inducing=10, optimizer=None, **FEW),
    ),
}
FILES = {
    "crowd": skpref.CrowdGPPL(user="judge", left="left", right="right", n_factors=1, max_iter=5, **FEW),
    "machine": skpref.VariationalFM(2, categorical_features=["user", "item"], **FEW),
}


def by_position(frame: pd.DataFrame) -> np.ndarray:
    """Return an array: of numbers where all columns are."""
    return frame.to_numpy(float if all(kind.kind == "f" for kind in frame.dtypes) else object)


def in_a_file(frame: pd.DataFrame) -> Path:
    """Return the path of a Parquet file."""
    path = Path(tempfile.mkdtemp()) / "rows.parquet"
    frame.to_parquet(path)
    return path


def frames() -> dict[str, Callable[[pd.DataFrame], Any]]:
    """Return how a frame of pandas becomes one of each kind."""
    import dask.dataframe as dd
    import polars as pl
    import pyarrow as pa

    def categories(frame: pd.DataFrame) -> pd.DataFrame:
        texts = frame.columns.difference(frame.select_dtypes("number").columns)
        return frame.astype(dict.fromkeys(texts, "category"))

    return {
        "pandas": lambda frame: frame,
        "category": categories,
        "Arrow-backed": lambda frame: frame.convert_dtypes(dtype_backend="pyarrow"),
        "polars": pl.from_pandas,
        "pyarrow": pa.Table.from_pandas,
        "arrays": by_position,
        "Parquet": in_a_file,
        "Dask": lambda frame: dd.from_pandas(frame, npartitions=2),
    }


def try_once(model: BaseEstimator, convert: Callable[[pd.DataFrame], Any], table: pd.DataFrame, y: np.ndarray) -> str:
    """Return "yes", or what differs or fails first."""
    import mlflow

    step, X = "fit", convert(table)
    is_lazy = isinstance(X, Path) or hasattr(X, "to_delayed")
    try:
        if is_lazy:
            X = convert(table.assign(target=y))
            fitted = model.fit(X, "target")
        else:
            fitted = model.fit(X, y)
        step, example = "log", table if is_lazy else X
        name = f"model{uuid.uuid4().hex}"
        with track(name, "frames", mlflow.get_tracking_uri(), plots=False) as run:
            run.log_model(fitted, example[:2], registered_model_name=name)
        step, served = "load", mlflow.pyfunc.load_model(f"models:/{name}/1")
        expected = np.asarray(fitted.predict(example))
        step = "request"
        inputs = served.metadata.signature.inputs
        rows = table.set_axis(inputs.input_names(), axis=1) if inputs.has_input_names() else np.asarray(example)
        if not np.allclose(np.asarray(served.predict(rows[:2]), dtype=float).ravel(), expected[:2]):
            return "request: other numbers"
        step = "batch"
        if not np.allclose(np.asarray(served.predict(rows), dtype=float).ravel(), expected):
            return "batch: other numbers"
    except Exception as error:  # noqa: BLE001 - what fails is what is asked
        return f"{step}: {type(error).__name__}: {str(error).splitlines()[0][:150]}"
    return "yes"


def main(names: list[str]) -> None:
    """Print the table by rows of models, and the reasons of what is not "yes"."""
    import logging

    import mlflow
    from distributed import Client

    warnings.simplefilter("ignore")
    logging.disable(logging.ERROR)
    mlflow.set_tracking_uri(f"sqlite:///{tempfile.mkdtemp()}/mlflow.db")
    kinds = frames()
    client = Client(processes=False, dashboard_address=":0")
    reasons: list[str] = []
    print(f"{'':12}" + "".join(f"{kind:>14}" for kind in kinds))
    for name in names or MODELS:
        table, y, model = MODELS[name]
        cells = []
        for kind, convert in kinds.items():
            special = POSITIONS if kind == "arrays" else FILES if kind in {"Parquet", "Dask"} else {}
            outcome = try_once(clone(special.get(name, model)), convert, table.reset_index(drop=True), y)
            reasons += [] if outcome == "yes" else [f"{len(reasons) + 1}: {name}, {kind}: {outcome}"]
            cells.append(outcome if outcome == "yes" else f"({len(reasons)})")
        print(f"{name:12}" + "".join(f"{cell:>14}" for cell in cells), flush=True)
    print(*reasons, sep="\n")
    client.close()


if __name__ == "__main__":
    main(sys.argv[1:])
