"""Models in MLflow's format: a file of data, the code that reads it, and a signature for servers.

Nothing is pickled. The code is three lines that name this module, so that a model and the package that wrote it stay
together by the pinned requirements.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import inspect
import tempfile
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from skpref._version import __version__
from skpref.data.ids import shorten
from skpref.data.labels import left_column
from skpref.exceptions import DataError, MissingExtraError, SkprefError
from skpref.gp.crowd import CrowdGPPL
from skpref.gp.entities import read_table
from skpref.persistence import load, save
from skpref.tracking.client import LOCK, mlflow_call, require_mlflow

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from numpy.typing import ArrayLike

__all__ = ["save_model", "served_model"]

_CODE = '''"""What MLflow runs to serve this model."""

import mlflow

from skpref.tracking import served_model

mlflow.models.set_model(served_model())
'''
_PAIRS = {"GPPLClassifier": ("left", "right"), "CrowdGPPL": ("user", "left", "right")}  # columns of ids
_RATINGS = ("user", "item")  # columns of `GibbsM3F`, `GibbsIPM3F` and of pipelines that begin with `OneHotDesign`
_WITH_USERS = {"CrowdGPPL", "GibbsM3F", "GibbsIPM3F", "OneHotDesign"}  # estimators whose rows begin with a user
_MAX_FEATURES = 1000  # features of a row that is kept as an example
_STD_METHODS = ("predict_latent", "predict_score", "latent_mean_and_variance")


def _is_pipeline(estimator: Any) -> bool:
    return hasattr(estimator, "steps")


def _first_step(estimator: Any) -> Any:
    return estimator.steps[0][1] if _is_pipeline(estimator) else estimator


def last_step(estimator: Any) -> Any:
    """Return the estimator that predicts, of a search or a Pipeline."""
    estimator = getattr(estimator, "best_estimator_", estimator)
    return estimator.steps[-1][1] if _is_pipeline(estimator) else estimator


# -------------------------------------------------------------------------------------------------------------- saving
def save_model(estimator: Any, path: str | os.PathLike[str], example: ArrayLike | None = None) -> None:
    """Write a fitted estimator as a folder in MLflow's format, which serves, loads and registers like any other model.

    Parameters
    ----------
    estimator : estimator
        Fitted estimator that `skpref.save` can write: of this package, or a Pipeline with scikit-learn's steps. Of a
        search, the best estimator is saved.
    path : path-like
        The folder; it must not exist.
    example : {array-like, CSR, DataFrame} of shape (n, n_columns), default=None
        A few rows of the X of `fit`, from which the signature is read; the first two are kept with the model. None: no
        signature, and a server accepts whatever the estimator accepts.

    Raises
    ------
    DataError
        If it is not an estimator, or `skpref.save` cannot write it.
    MissingExtraError
        If mlflow or pandas is not installed.

    Notes
    -----
    The model takes these `params`, if its estimator supports them:

    - ``return_std`` : standard deviations, too; of a classifier, mean and standard deviation of its latent function.
    - ``return_proba`` : a column of probabilities for each class instead of the class; with ``return_std``, both.
    - ``users`` : a list of users that the model knows, instead of the column ``user``; a column of predictions for
      each, with ``return_proba`` those of the left item or of the last class. Its type is that of the ids of the users:
      integers, or else text. An unknown user is an error; rows with a column ``user`` follow the estimator's rule.

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
    require_mlflow()
    if importlib.util.find_spec("pandas") is None:  # mlflow-skinny comes without
        raise MissingExtraError("models in MLflow's format need pandas: pip install 'skpref[mlflow]'")
    estimator = getattr(estimator, "best_estimator_", estimator)
    if not (hasattr(estimator, "predict") or hasattr(estimator, "transform")):
        raise DataError(f"estimator must be one that predicts or transforms; got {type(estimator).__name__}.")
    with tempfile.TemporaryDirectory() as temporary:
        file, code = Path(temporary) / "model.skpref", Path(temporary) / "serve.py"
        save(estimator, file)
        code.write_text(_CODE, "utf-8")
        rows = None if example is None else example_rows(example)
        answer = None if rows is None else _Predictor(estimator).predict(rows, {})
        with LOCK, mlflow_call():
            import mlflow

            mlflow.pyfunc.save_model(
                path=str(path),
                python_model=str(code),
                artifacts={"model": str(file)},
                pip_requirements=requirements(),
                **({} if rows is None else _signature(estimator, rows, answer)),
            )


def requirements() -> list[str]:
    """Return the pinned requirements of a model."""
    names = ("numpy", "scipy", "scikit-learn", "numba", "pandas", "skops")
    versions = {name: importlib.metadata.version(name) for name in ("mlflow-skinny", *names)}
    versions = {"skpref": __version__, "mlflow": versions.pop("mlflow-skinny")} | versions  # one release has both
    return [f"{name}=={version}" for name, version in versions.items()]


# ----------------------------------------------------------------------------------------------------------- signature
def _signature(estimator: Any, rows: Any, answer: Any) -> dict[str, Any]:
    """Return the signature and the example of a model."""
    from mlflow.models.signature import ModelSignature, infer_signature
    from mlflow.types.schema import ColSpec, ParamSchema

    columns = _columns(estimator, rows)
    table = rows if columns is None or hasattr(rows, "iloc") else _as_frame(rows, columns)
    inferred = infer_signature(table, answer)
    if table is not rows and table.columns[0] == "user":
        # The parameter `users` may replace this column.
        inferred.inputs.inputs[0] = ColSpec(inferred.inputs.inputs[0].type, "user", required=False)
    signature = ModelSignature(inputs=inferred.inputs, outputs=inferred.outputs, params=ParamSchema(_params(estimator)))
    return {"signature": signature} | ({"input_example": table} if table.shape[1] <= _MAX_FEATURES else {})


def example_rows(X: Any) -> Any:
    """Return the first two rows, shape (2, n_columns)."""
    if hasattr(X, "iloc"):
        return X.iloc[:2].copy()
    if sparse.issparse(X):
        return sparse.csr_array(X)[:2].toarray()
    rows = np.asarray(X[:2])
    return rows.copy() if rows.dtype.kind in "fiub" else np.asarray(X[:2], dtype=object)


def _columns(estimator: Any, rows: Any) -> tuple[str, ...] | None:
    """Return the names of columns of ids, None where columns are features."""
    name = type(_first_step(estimator)).__name__
    if name in {"GibbsM3F", "GibbsIPM3F"} or (name == "OneHotDesign" and rows.shape[1] == 2):
        return _RATINGS
    return _PAIRS.get(name)


def _as_frame(rows: Any, columns: tuple[str, ...]) -> Any:
    """Return rows of ids as a data frame whose columns have the types of the ids."""
    import pandas as pd

    table = pd.DataFrame(np.asarray(rows, dtype=object), columns=list(columns))
    for name in columns:
        if all(isinstance(value, Integral) for value in table[name]):
            table[name] = table[name].astype("int64")
        elif all(isinstance(value, Real) for value in table[name]):
            table[name] = table[name].astype("float64")
    return table


def _params(estimator: Any) -> list[Any]:
    """Return MLflow's description of the parameters of a prediction."""
    from mlflow.types.schema import ParamSpec

    last = last_step(estimator)
    specs = []
    if _std_method(last) is not None:
        specs.append(ParamSpec("return_std", "boolean", default=False))
    if hasattr(last, "predict_proba"):
        specs.append(ParamSpec("return_proba", "boolean", default=False))
    users = _users(estimator)
    if users is not None:
        kind = "long" if users.dtype == np.int64 else "string"
        specs.append(ParamSpec("users", kind, default=[], shape=(-1,)))
    return specs


def _users(estimator: Any) -> Any:
    """Return the ids of the users that a model knows; None of a model that does not distinguish users."""
    first = _first_step(estimator)
    if type(first).__name__ not in _WITH_USERS:
        return None
    table = first.users if isinstance(first, CrowdGPPL) else None
    return first.user_ids_ if table is None else read_table(table, "users").ids


def _std_method(last: Any) -> str | None:
    """Return the name of the method that gives standard deviations or variances."""
    if hasattr(last, "predict") and "return_std" in inspect.signature(last.predict).parameters:
        return "predict"
    return next((name for name in _STD_METHODS if hasattr(last, name)), None)


# ---------------------------------------------------------------------------------------------------------- predicting
class _Predictor:
    """The predictions of a served model."""

    def __init__(self, estimator: Any) -> None:
        self._estimator = estimator
        self._last = last_step(estimator)

    def predict(self, table: Any, params: Mapping[str, Any]) -> Any:
        """Return predictions for the rows of a request."""
        users = params.get("users")
        if users is None or not len(users):
            return self._predict_rows(self._rows(table), params)
        if params.get("return_std"):
            raise DataError("users and return_std cannot be asked for together")
        import pandas as pd

        columns = {user: self._predict_rows(self._rows_of_user(table, user), params) for user in self._named(users)}
        # Of a pair, the probability of the left item is enough.
        place = left_column(self._last.classes_) if isinstance(self._last, CrowdGPPL) else -1
        return pd.DataFrame(
            {user: out.iloc[:, place] if hasattr(out, "iloc") else out for user, out in columns.items()}
        )

    def _named(self, users: Any) -> list[Any]:
        """Return the ids of users, which may be their text."""
        ids = _users(self._estimator)
        if ids is None:
            raise DataError(f"{type(self._last).__name__} does not distinguish users; leave users out")
        by_name = {str(user): user for user in ids.tolist()} | {user: user for user in ids.tolist()}
        users = users.tolist() if isinstance(users, np.ndarray) else users
        for user in users:
            if user not in by_name:
                msg = f"unknown user {shorten(user)} in users: the model knows {ids.size} users, such as "
                msg += ", ".join(map(shorten, ids[:3].tolist()))
                raise DataError(f"{msg}; for others, leave users out and give rows with the column user")
        return [by_name[user] for user in users]

    def _rows(self, table: Any) -> Any:
        names = getattr(self._estimator, "feature_names_in_", None)
        return table[list(names)] if names is not None and hasattr(table, "iloc") else np.asarray(table)

    def _rows_of_user(self, table: Any, user: Any) -> Any:
        """Return rows that begin with a user instead of the column of users, which may be missing."""
        first = type(_first_step(self._estimator)).__name__
        rows = np.asarray(table, dtype=object)
        if rows.shape[1] == len(_PAIRS.get(first, _RATINGS)):
            rows = rows[:, 1:]
        return np.insert(rows, 0, user, axis=1)

    def _predict_rows(self, rows: Any, params: Mapping[str, Any]) -> Any:
        import pandas as pd

        columns = self._with_std(rows) if params.get("return_std") else {}
        if params.get("return_proba"):
            if not hasattr(self._last, "predict_proba"):
                raise DataError(f"{type(self._last).__name__} has no probabilities; leave return_proba out")
            proba = np.asarray(self._estimator.predict_proba(rows))
            columns |= dict(zip(map(str, self._last.classes_), proba.T, strict=True))
        if columns:
            return pd.DataFrame(columns)
        predict = self._estimator.predict if hasattr(self._last, "predict") else self._estimator.transform
        return np.asarray(predict(rows))

    def _with_std(self, rows: Any) -> dict[str, Any]:
        method = _std_method(self._last)
        if method is None:
            raise DataError(f"{type(self._last).__name__} has no standard deviations; leave return_std out")
        inner = self._estimator[:-1].transform(rows) if _is_pipeline(self._estimator) else rows
        if method == "latent_mean_and_variance":
            mean, variance = self._last.latent_mean_and_variance(inner)
            std = np.sqrt(variance)
        else:
            mean, std = getattr(self._last, method)(inner, return_std=True)
        if method == "predict":
            return {"prediction": mean, "std": std}
        return {"prediction": np.asarray(self._estimator.predict(rows)), "latent": mean, "latent_std": std}


def served_model() -> Any:
    """Return what MLflow runs to serve a model: the code that `save_model` writes calls it.

    Returns
    -------
    mlflow.pyfunc.PythonModel
        It reads its estimator from the files of the model.
    """
    import mlflow
    import pandas as pd
    from mlflow.protos.databricks_pb2 import INVALID_PARAMETER_VALUE

    def load_context(self: Any, context: Any) -> None:
        self.predictor = _Predictor(load(context.artifacts["model"]))

    def predict(self: Any, context: Any, model_input: Any, params: Any = None) -> Any:  # noqa: ARG001 - MLflow's names
        try:
            return self.predictor.predict(model_input, params or {})
        except (SkprefError, ValueError, TypeError, KeyError) as error:
            # A server answers 400 with this message, not 500.
            raise mlflow.MlflowException(str(error), error_code=INVALID_PARAMETER_VALUE) from error

    # The signature describes a row. Without this hint, and with any other, MLflow logs a page about hints.
    predict.__annotations__ = {"model_input": pd.DataFrame}
    methods = {"load_context": load_context, "predict": predict}
    return type("ServedModel", (mlflow.pyfunc.PythonModel,), methods)()
