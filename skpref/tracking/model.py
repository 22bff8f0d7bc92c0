"""Models in MLflow's format: our files of data, the code that reads them, and what a server should know of them.

Nothing is pickled. Estimators of this package are written by `skpref.save`, scikit-learn's by skops, pipelines step by
step. The code is three lines that name this module, so that a model and the package that made it stay together by the
pinned requirements.
"""

from __future__ import annotations

import copy
import importlib.metadata
import inspect
import json
import tempfile
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from skpref.exceptions import DataError, ModelFormatError, SkprefError

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

_CODE = '''"""What MLflow runs to serve this model."""

import mlflow

from skpref.tracking import served_model

mlflow.models.set_model(served_model())
'''
_INDEX = "pipeline.json"
_CARD = "card.json"
_IDS = {"GPPLClassifier": ("left", "right"), "CrowdGPPL": ("user", "left", "right")}
_RATED = ("user", "item")  # columns of `GibbsM3F`, `GibbsIPM3F` and of whatever begins with `OneHotDesign`
_WIDEST = 1000  # features a row of the example may have
_TRUSTED = {"numpy.dtype"}  # beside what skops trusts by itself
_TRUSTED_ROOM = "sklearn.feature_selection."
_LATENT = ("predict_latent", "predict_score")


# ------------------------------------------------------------------------------------------------------------- files
def write_parts(estimator: Any, folder: Path) -> list[str]:
    """Write an estimator as files of data."""
    if _is_ours(estimator):
        from skpref.persistence import save

        save(estimator, folder / "model.skpref")
        return []
    if _is_pipeline(estimator):
        index: list[Any] = []
        needs: set[str] = set()
        for number, (name, step) in enumerate(estimator.steps):
            part = None if step is None or isinstance(step, str) else str(number)
            if part is not None:
                (folder / part).mkdir()
                needs |= set(write_parts(step, folder / part))
            index.append([name, part])
        (folder / _INDEX).write_text(json.dumps(index), "utf-8")
        return sorted(needs)
    from skops import io

    path = folder / "model.skops"
    try:
        io.dump(_without_callbacks(copy.deepcopy(estimator)), path)
    except Exception as error:
        raise DataError(f"cannot write a {type(estimator).__name__} as data: {error}") from error
    _refuse_strangers(path)
    return ["skops"]


def read_parts(folder: Path) -> Any:
    """Read what `write_parts` wrote."""
    if (folder / _INDEX).exists():
        index = json.loads((folder / _INDEX).read_text("utf-8"))
        if not all(part is None or str(part).isdecimal() for _, part in index):
            raise ModelFormatError(f"{_INDEX}: a part is not a number")
        from sklearn.pipeline import Pipeline

        return Pipeline([(name, "passthrough" if part is None else read_parts(folder / part)) for name, part in index])
    if (folder / "model.skpref").exists():
        from skpref.persistence import load

        return load(folder / "model.skpref")
    from skops import io

    path = folder / "model.skops"
    return io.load(path, trusted=_refuse_strangers(path))


def _is_ours(estimator: Any) -> bool:
    steps = [step for _, step in estimator.steps] if _is_pipeline(estimator) else [estimator]
    if not all(type(step).__module__.startswith("skpref.") for step in steps):
        return False
    from skpref.persistence import saved_classes

    return all(type(step).__name__ in saved_classes() for step in steps)


def _is_pipeline(estimator: Any) -> bool:
    from sklearn.pipeline import Pipeline

    return isinstance(estimator, Pipeline)


def _first_of(estimator: Any) -> Any:
    return estimator.steps[0][1] if _is_pipeline(estimator) else estimator


def _last_of(estimator: Any) -> Any:
    return estimator.steps[-1][1] if _is_pipeline(estimator) else estimator


def _without_callbacks(value: Any) -> Any:
    """Take off what scikit-learn leaves on the parts of an estimator whose fit is followed."""
    if isinstance(value, list | tuple):
        for part in value:
            _without_callbacks(part)
    elif isinstance(value, dict):
        _without_callbacks(list(value.values()))
    elif hasattr(value, "get_params") and not isinstance(value, type):
        for name in [name for name in vars(value) if "callback" in name]:
            delattr(value, name)
        _without_callbacks(vars(value))
    return value


def _refuse_strangers(path: Path) -> list[str]:
    from skops import io

    found = io.get_untrusted_types(file=path)
    strange = [name for name in found if name not in _TRUSTED and not name.startswith(_TRUSTED_ROOM)]
    if strange:
        raise ModelFormatError(f"{path.name}: holds {', '.join(strange)}, which is not known to be harmless")
    return list(found)


def save_model(estimator: Any, path: str | os.PathLike[str], example: Any = None) -> None:
    """Write a fitted estimator as a folder in MLflow's format, which serves, loads and registers like any other model.

    Parameters
    ----------
    estimator : estimator
        Fitted: of this package, or a Pipeline of its and scikit-learn's steps. A search gives its best estimator.
    path : path-like
        The folder; it must not exist.
    example : {array-like, CSR, DataFrame} of shape (n, n_columns), default=None
        A few rows as in `fit`, from which the signature is read; the first two are kept with the model. None: there is
        no signature, and a server takes whatever the estimator takes.

    Raises
    ------
    DataError
        If it is no estimator, or a step is neither ours nor one that can be written as data.
    MissingExtraError
        If mlflow is not installed.

    Notes
    -----
    A model so written understands these `params`, as far as its estimator does:

    - ``return_std`` : standard deviations, too; of a classifier, mean and standard deviation of its latent function.
    - ``return_proba`` : a column of probabilities for each class in the place of the class.
    - ``users`` : a list of users in the place of the column ``user``; a column of answers for each.

    Examples
    --------
    >>> from skpref import GPPLClassifier
    >>> from skpref.tracking import save_model
    >>> pairs = [["tea", "coffee"], ["tea", "water"]]
    >>> model = GPPLClassifier().fit(pairs, [1, 1])
    >>> save_model(model, "drinks", pairs)  # doctest: +SKIP
    >>> import mlflow
    >>> served = mlflow.pyfunc.load_model("drinks")  # doctest: +SKIP
    """
    from skpref.tracking.client import require_mlflow

    require_mlflow()
    with tempfile.TemporaryDirectory() as temporary:
        prepare(estimator, Path(temporary) / "prepared", example)
        complete(Path(temporary) / "prepared", path)


def prepare(estimator: Any, folder: Path, example: Any = None) -> None:
    """Write what of a model only its own process knows; nothing of MLflow is imported."""
    estimator = getattr(estimator, "best_estimator_", estimator)
    if not (hasattr(estimator, "predict") or hasattr(estimator, "transform")):
        raise DataError(f"estimator must be one that predicts or transforms; got {type(estimator).__name__}.")
    (folder / "parts").mkdir(parents=True)
    card: dict[str, Any] = {"requirements": requirements(*write_parts(estimator, folder / "parts"))}
    if example is not None:
        rows = example_rows(example)
        card["rows"], card["columns"] = _as_json(rows), _columns(estimator, rows)
        card["answer"], card["params"] = _as_json(_Answers(estimator).answer(rows, {})), _params(estimator)
    (folder / _CARD).write_text(json.dumps(card, default=_cell), "utf-8")


def rehearse() -> None:
    """Complete a model of nothing, so that MLflow has imported what it needs when a fit waits for its model."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "prepared"
        (folder / "parts").mkdir(parents=True)
        row = {"dtype": "float64", "values": [[0.0]]}
        card = {"requirements": requirements(), "rows": row, "columns": ["x"], "answer": row, "params": []}
        (folder / _CARD).write_text(json.dumps(card), "utf-8")
        complete(folder, Path(temporary) / "model")


def complete(folder: Path, path: str | os.PathLike[str]) -> None:
    """Make of a prepared model a folder in MLflow's format."""
    from skpref.tracking.client import LOCK, patiently, quietly, require_mlflow

    mlflow = require_mlflow()
    card = json.loads((folder / _CARD).read_text("utf-8"))
    with tempfile.TemporaryDirectory() as temporary, LOCK, patiently(), quietly():
        code = Path(temporary) / "serve.py"
        code.write_text(_CODE, "utf-8")
        mlflow.pyfunc.save_model(
            path=str(path),
            python_model=str(code),
            artifacts={"model": str(folder / "parts")},
            pip_requirements=card["requirements"],
            **(_described(card) if "rows" in card else {}),
        )


def requirements(*more: str) -> list[str]:
    """Return pinned requirements of a model."""
    names = ("skpref", "mlflow", "numpy", "scipy", "scikit-learn", "numba", "pandas", *more)
    found = []
    for name in names:
        try:
            found.append(f"{name}=={importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            if name == "skpref":  # run from a copy of the repository
                from skpref import __version__

                found.append(f"skpref=={__version__}")
    return found


# --------------------------------------------------------------------------------------------------------- signature
def _described(card: Mapping[str, Any]) -> dict[str, Any]:
    """Signature and example, as far as they can be told."""
    from mlflow.models.signature import ModelSignature, infer_signature
    from mlflow.types.schema import ColSpec, ParamSchema, ParamSpec

    rows, columns = _from_json(card["rows"]), card["columns"]
    asked = _with_columns(rows, columns)
    shapes: dict[str, Any] = {"users": (-1,)}
    params = [ParamSpec(name, kind, default=default, shape=shapes.get(name)) for name, kind, default in card["params"]]
    inferred = infer_signature(asked, _from_json(card["answer"]))
    if columns is not None and not hasattr(rows, "iloc") and columns[0] == "user":
        # `users` takes the place of this column.
        inferred.inputs.inputs[0] = ColSpec(inferred.inputs.inputs[0].type, "user", required=False)
    signature = ModelSignature(inputs=inferred.inputs, outputs=inferred.outputs, params=ParamSchema(params))
    if asked.shape[1] > _WIDEST:
        return {"signature": signature}
    return {"signature": signature, "input_example": asked}


def _as_json(rows: Any) -> dict[str, Any]:
    """A table for JSON, with its types."""
    if hasattr(rows, "iloc"):
        columns = [rows.iloc[:, number] for number in range(rows.shape[1])]
        return {"frame": [[column.name, str(column.dtype), column.tolist()] for column in columns]}
    return {"dtype": str(rows.dtype), "values": rows.tolist()}


def _from_json(table: Mapping[str, Any]) -> Any:
    if "frame" in table:
        import pandas as pd

        return pd.DataFrame({name: pd.Series(values, dtype=dtype) for name, dtype, values in table["frame"]})
    return np.asarray(table["values"], dtype=table["dtype"])


def _cell(value: Any) -> Any:
    """What JSON does not know: scalars of numpy's; of missing values, times and whatever else, the text."""
    return value.item() if isinstance(value, np.generic) else str(value)


def example_rows(X: Any) -> Any:
    """Return the first two rows, shape (2, n_columns)."""
    if hasattr(X, "iloc"):
        return X.iloc[:2].copy()
    if sparse.issparse(X):
        return sparse.csr_array(X)[:2].toarray()
    rows = np.asarray(X[:2])
    return rows.copy() if rows.dtype.kind in "fiub" else np.asarray(X[:2], dtype=object)


def _columns(estimator: Any, rows: Any) -> tuple[str, ...] | None:
    """Names of columns of ids; None where columns are features."""
    first = _first_of(estimator)
    if type(first).__name__ in _IDS:
        return _IDS[type(first).__name__]
    if type(first).__name__ in {"GibbsM3F", "GibbsIPM3F"}:
        return _RATED
    return _RATED if type(first).__name__ == "OneHotDesign" and rows.shape[1] == 2 else None


def _with_columns(rows: Any, columns: tuple[str, ...] | None) -> Any:
    if columns is None or hasattr(rows, "iloc"):
        return rows if hasattr(rows, "iloc") else np.asarray(rows)
    import pandas as pd

    table = pd.DataFrame(np.asarray(rows, dtype=object), columns=list(columns))
    for name in columns:
        kinds = {type(one) for one in table[name]}
        if all(issubclass(kind, Integral) for kind in kinds):
            table[name] = table[name].astype("int64")
        elif all(issubclass(kind, Real) for kind in kinds):
            table[name] = table[name].astype("float64")
    return table


def _params(estimator: Any) -> list[tuple[str, str, Any]]:
    """Name, type and default of each."""
    last = _last_of(estimator)
    known: list[tuple[str, str, Any]] = []
    if _std_of(last) is not None:
        known.append(("return_std", "boolean", False))
    if hasattr(last, "predict_proba"):
        known.append(("return_proba", "boolean", False))
    if _place_of_user(estimator) is not None:
        known.append(("users", "string", []))
    return known


def _std_of(last: Any) -> str | None:
    """Name of the method that gives standard deviations."""
    if hasattr(last, "predict") and "return_std" in inspect.signature(last.predict).parameters:
        return "predict"
    names = (*_LATENT, "latent_mean_and_variance")
    return next((name for name in names if hasattr(last, name)), None)


def _place_of_user(estimator: Any) -> int | None:
    first = _first_of(estimator)
    return 0 if type(first).__name__ in {"CrowdGPPL", "GibbsM3F", "GibbsIPM3F", "OneHotDesign"} else None


# ------------------------------------------------------------------------------------------------------------ answers
class _Answers:
    """What a served model answers."""

    def __init__(self, estimator: Any) -> None:
        self._estimator = estimator
        self._last = _last_of(estimator)

    def answer(self, asked: Any, params: Mapping[str, Any]) -> Any:
        """Answer the rows of a request."""
        users = params.get("users")
        if users is None or not len(users):
            return self._plain(self._rows(asked), params)
        if params.get("return_std"):
            raise DataError("users and return_std cannot be asked for together")
        import pandas as pd

        columns = {user: self._plain(self._rows(asked, user), params) for user in users}
        # Of a pair, the probability of 1 says all.
        values = {user: one.iloc[:, -1] if hasattr(one, "iloc") else one for user, one in columns.items()}
        return pd.DataFrame(values)

    def _rows(self, asked: Any, user: Any = None) -> Any:
        names = getattr(self._estimator, "feature_names_in_", None)
        if user is None:
            return asked[list(names)] if names is not None and hasattr(asked, "iloc") else np.asarray(asked)
        place = _place_of_user(self._estimator)
        if place is None:
            raise DataError(f"{type(self._last).__name__} does not tell users apart; leave users out")
        first = _first_of(self._estimator)
        rows = np.asarray(asked, dtype=object)
        if rows.shape[1] == len(_IDS.get(type(first).__name__, _RATED)):
            rows = np.delete(rows, place, axis=1)
        return np.insert(rows, place, user, axis=1)

    def _plain(self, rows: Any, params: Mapping[str, Any]) -> Any:
        if not (params.get("return_proba") or params.get("return_std")):
            answer = self._estimator.predict if hasattr(self._last, "predict") else self._estimator.transform
            return np.asarray(answer(rows))
        import pandas as pd

        if params.get("return_proba"):
            if not hasattr(self._last, "predict_proba"):
                raise DataError(f"{type(self._last).__name__} has no probabilities; leave return_proba out")
            names = [str(one) for one in self._last.classes_]
            return pd.DataFrame(self._estimator.predict_proba(rows), columns=names)
        name = _std_of(self._last)
        if name is None:
            raise DataError(f"{type(self._last).__name__} has no standard deviations; leave return_std out")
        inner = self._estimator[:-1].transform(rows) if _is_pipeline(self._estimator) else rows
        if name == "latent_mean_and_variance":
            mean, variance = self._last.latent_mean_and_variance(inner)
            std = np.sqrt(variance)
        else:
            mean, std = getattr(self._last, name)(inner, return_std=True)
        if name == "predict":
            return pd.DataFrame({"prediction": mean, "std": std})
        prediction = np.asarray(self._estimator.predict(rows))
        return pd.DataFrame({"prediction": prediction, "latent": mean, "latent_std": std})


def served_model() -> Any:
    """Return what MLflow runs to serve a model: the code that `save_model` leaves calls it.

    Returns
    -------
    mlflow.pyfunc.PythonModel
        It reads its estimator when MLflow tells where that is.
    """
    import mlflow
    import pandas as pd
    from mlflow.protos.databricks_pb2 import INVALID_PARAMETER_VALUE

    def load_context(self: Any, context: Any) -> None:
        self.answers = _Answers(read_parts(Path(context.artifacts["model"])))

    def predict(self: Any, context: Any, model_input: Any, params: Any = None) -> Any:  # noqa: ARG001 - MLflow's names
        try:
            return self.answers.answer(model_input, params or {})
        except (SkprefError, ValueError, TypeError, KeyError) as error:
            # To whoever asks the server, this is 400 with our words, not 500.
            raise mlflow.MlflowException(str(error), error_code=INVALID_PARAMETER_VALUE) from error

    # The signature says what a row is. Without this hint, and with any other, MLflow writes a page on hints.
    predict.__annotations__ = {"model_input": pd.DataFrame}
    methods = {"load_context": load_context, "predict": predict}
    return type("ServedModel", (mlflow.pyfunc.PythonModel,), methods)()


# ------------------------------------------------------------------------------------------------------------- sending
def upload(client: Any, experiment_id: str, run_id: str, event: Mapping[str, Any], *, again: bool) -> None:
    """Send a model to the store."""
    name, path = event["name"], Path(event["path"])
    if again:
        found = client.search_logged_models([experiment_id], f"source_run_id = '{run_id}' AND name = '{name}'")
        if any(str(model.status) == "READY" for model in found):
            return
    with tempfile.TemporaryDirectory() as temporary:
        if (path / _CARD).exists():
            complete(path, Path(temporary) / "model")
            path = Path(temporary) / "model"
        _upload(client, experiment_id, run_id, path, event)


def _upload(client: Any, experiment_id: str, run_id: str, path: Path, event: Mapping[str, Any]) -> None:
    from mlflow.entities import LoggedModelOutput
    from mlflow.models import Model

    logged = client.create_logged_model(experiment_id, name=event["name"], source_run_id=run_id, model_type="pyfunc")
    manifest = Model.load(str(path))
    manifest.run_id, manifest.model_id, manifest.model_uuid = run_id, logged.model_id, logged.model_id
    manifest.artifact_path = logged.artifact_location
    manifest.save(str(path / "MLmodel"))
    client.log_model_artifacts(logged.model_id, str(path))
    client.finalize_logged_model(logged.model_id, "READY")
    client.log_outputs(run_id, [LoggedModelOutput(logged.model_id, step=0)])
    if event.get("registered"):
        _register(client, event["registered"], logged, run_id)


def _register(client: Any, name: str, logged: Any, run_id: str) -> None:
    import mlflow

    try:
        client.create_registered_model(name)
    except mlflow.MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise
    client.create_model_version(name, logged.artifact_location, run_id, model_id=logged.model_id)
