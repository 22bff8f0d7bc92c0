"""Models in MLflow's format: a file of data, the code that reads it, and a signature for servers.

Nothing is pickled. The code is three lines that name this module, so that a model and the package that wrote it stay
together by the pinned requirements.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import inspect
import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.compose import ColumnTransformer
from sklearn.utils.validation import check_is_fitted

from skpref._estimator import last_step
from skpref._validation import as_frame, column_names, is_missing
from skpref._version import __version__
from skpref.data.columns import as_cells
from skpref.data.ids import shorten
from skpref.data.labels import left_column
from skpref.exceptions import DataError, MissingExtraError, SkprefError
from skpref.gp.crowd import CrowdGPPL
from skpref.gp.entities import read_table
from skpref.gp.pairwise.comparison import ComparisonClassifier
from skpref.persistence import load, save
from skpref.tracking.client import LOCK, mlflow_call, require_mlflow
from skpref.tracking.policy import POLICY

_CODE = '''"""What MLflow runs to serve this model."""

import mlflow

from skpref.tracking import served_model

mlflow.models.set_model(served_model())
'''
_RATINGS = {"GibbsM3F", "GibbsIPM3F", "OneHotDesign"}  # estimators with the columns user and item
_STD_METHODS = ("predict_latent", "predict_score", "latent_mean_and_variance")


def _is_pipeline(estimator: Any) -> bool:
    return hasattr(estimator, "steps")


def _first_step(estimator: Any) -> Any:
    return estimator.steps[0][1] if _is_pipeline(estimator) else estimator


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
    - ``ties`` : columns of the probabilities of left, tie and right, with a likelihood in which a tie is an answer.
    - ``rank`` : instead of predictions, the ranking of the items in the rows.
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
    check_is_fitted(estimator)
    with tempfile.TemporaryDirectory() as temporary:
        file, code = Path(temporary) / "model.skpref", Path(temporary) / "serve.py"
        save(estimator, file)
        code.write_text(_CODE, "utf-8")
        rows = None if example is None else served_rows(estimator, example_rows(example))
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
    """Return the pinned requirements of a model; this package's is the place that it was installed from, if known."""
    names = ("numpy", "scipy", "scikit-learn", "numba", "pandas", "skops")
    versions = {name: importlib.metadata.version(name) for name in ("mlflow-skinny", *names)}
    versions = {"mlflow": versions.pop("mlflow-skinny")} | versions  # one release has both
    origin = json.loads(importlib.metadata.distribution("skpref").read_text("direct_url.json") or "{}")
    commit = origin.get("vcs_info")
    place = f"{commit['vcs']}+{origin['url']}@{commit['commit_id']}" if commit else origin.get("url")
    ours = f"skpref=={__version__}" if place is None else f"skpref @ {place}"
    return [ours, *(f"{name}=={version}" for name, version in versions.items())]


# ----------------------------------------------------------------------------------------------------------- signature
class _Inputs(NamedTuple):
    """The columns of X by name, and the roles that a model of ids reads."""

    names: list[str]  # all columns, in order
    ids: list[str]  # columns of ids, in the order of X without names
    numbers: list[str]  # columns of covariates
    groups: list[str]  # columns of groups
    time: list[str]  # the column of times, if there is one
    user: str | None  # column of the user, which the parameter `users` replaces
    are_names_known: bool  # whether X had names
    spare: tuple[str, ...] = ()  # columns of ids that a row may lack: of the third item shown, and of players

    @property
    def read(self) -> list[str]:
        """Columns that a prediction reads."""
        return [*self.ids, *self.numbers, *self.groups, *self.time]


def _inputs(estimator: Any) -> _Inputs | None:
    """Return the columns of a model of ids; None where all columns are features."""
    first = _first_step(estimator)
    sides = ("user", "item") if type(first).__name__ in _RATINGS else getattr(first, "_sides", None)
    if sides is None:
        return None
    if getattr(first, "_has_tasks", False):
        return _task_inputs(first)
    roles = first._columns.roles if isinstance(first, ComparisonClassifier) else None  # noqa: SLF001 - of this package
    own = [getattr(roles, side, None) for side in sides]
    places = [place if column is None else column for place, column in enumerate(own)]
    known = getattr(first, "feature_names_in_", None)
    names = list(map(str, range(first.n_features_in_))) if known is None else list(known)
    for side, place in zip(sides, places, strict=True) if known is None else ():
        if not isinstance(place, tuple):
            names[place] = side

    def named(columns: Any) -> list[str]:
        return [column if isinstance(column, str) else names[column] for column in columns]

    parts = [part for place in places for part in (place if isinstance(place, tuple) else (place,))]
    ids, numbers, groups, time = named(parts), [], [], []
    if roles is not None:
        numbers = named(replace(roles, user=None, left=None, right=None, weight=None, groups=(), time=None).columns())
        groups, time = named(roles.groups), named([] if roles.time is None else [roles.time])
    spare = tuple(ids) if getattr(first, "_has_teams", False) else ()
    user = ids[0] if sides[0] == "user" else None
    return _Inputs(names, ids, numbers, groups, time, user, known is not None, spare)


def _task_inputs(first: Any) -> _Inputs:
    """Return the columns of a model of tasks: the user, where it has one, and the items shown."""
    known, asked = getattr(first, "feature_names_in_", None), "user" in first._sides  # noqa: SLF001 - of this package
    shown = [f"item_{k}" for k in range(1, first.classes_.size + 1)]
    names = [*(["user"] * asked), *shown] if known is None else list(map(str, known))
    user = None if not asked else names[first.user or 0] if isinstance(first.user or 0, int) else first.user
    ids = [*([user] if user is not None else []), *(name for name in names if name != user)]
    items = [name for name in ids if name != user]
    return _Inputs(names, ids, [], [], [], user, known is not None, tuple(items[2:]))


def example_rows(X: Any) -> Any:
    """Return the first two rows: columns by name, or an array of shape (2, n_columns)."""
    if sparse.issparse(X):
        return sparse.csr_array(X)[:2].toarray()
    frame = X if isinstance(X, Mapping) else as_frame(X)
    if frame is not None:  # as lists, which have no types of pandas, polars or pyarrow
        return {name: list(frame[name][:2]) for name in column_names(frame) or []}
    rows = np.asarray(X[:2])
    return rows.copy() if rows.dtype.kind in "fiub" else np.asarray(X[:2], dtype=object)


def served_rows(estimator: Any, rows: Any) -> Any:
    """Return any rows as a served model takes them: the columns that it reads by name, or an array of features."""
    import pandas as pd

    inputs = _inputs(estimator)
    if isinstance(rows, Mapping):
        rows = pd.DataFrame(rows)
    first = _first_step(estimator)
    if isinstance(first, ColumnTransformer) and hasattr(first, "feature_names_in_") and hasattr(rows, "columns"):
        places = first._transformer_to_input_indices  # noqa: SLF001 - nothing public has callables as columns
        read = sorted(place for name, step, _ in first.transformers_ if step != "drop" for place in places[name])
        return rows[[name for name in first.feature_names_in_[read] if name in rows.columns]]
    if inputs is None:
        integers = getattr(getattr(rows, "dtype", None), "kind", "") in {"i", "u"}
        return rows.astype(np.float64) if integers else rows  # so that a request may have decimals
    if not set(inputs.read) & set(getattr(rows, "columns", ())):  # the order counts
        cells = np.asarray(rows, dtype=object)
        kinds = (inputs.names, inputs.ids, inputs.ids[1:] if inputs.user else inputs.ids)
        columns = next((names for names in kinds if len(names) == cells.shape[1]), None)
        if columns is None:
            raise DataError(f"rows have the columns {', '.join(inputs.read)}; got {cells.shape[1]} columns")
        rows = pd.DataFrame(cells, columns=columns).infer_objects()
    return rows[[name for name in inputs.read if name in rows.columns]]


def _signature(estimator: Any, table: Any, answer: Any) -> dict[str, Any]:
    """Return the signature and the example of a model."""
    from mlflow.models.signature import ModelSignature, infer_signature
    from mlflow.types import DataType
    from mlflow.types.schema import AnyType, ColSpec, ParamSchema, Schema

    signature, columns = infer_signature(table, answer), _inputs(estimator)
    inputs = signature.inputs
    if hasattr(table, "columns"):
        ids, optional = [], []
        if columns is not None:
            ids, optional = [*columns.ids, *columns.groups], [columns.user, *columns.numbers, *columns.spare]
        specs = []
        for spec in inputs.inputs:
            # MLflow cuts decimals of an integer, refuses integers for a double, and makes dates of numbers.
            free = spec.type in (DataType.long, DataType.integer, DataType.datetime) and spec.name not in ids
            needed = spec.required and spec.name not in optional
            specs.append(ColSpec(AnyType() if free else spec.type, spec.name, required=needed))
        inputs = Schema(specs)
    signature = ModelSignature(inputs=inputs, outputs=signature.outputs, params=ParamSchema(_params(estimator)))
    return {"signature": signature} | ({"input_example": table} if table.shape[1] <= POLICY.most_features else {})


def _params(estimator: Any) -> list[Any]:
    """Return MLflow's description of the parameters of a prediction."""
    from mlflow.types.schema import ParamSpec

    last = last_step(estimator)
    specs = []
    if _std_method(last) is not None:
        specs.append(ParamSpec("return_std", "boolean", default=False))
    if hasattr(last, "predict_proba"):
        specs.append(ParamSpec("return_proba", "boolean", default=False))
    if _has_ties(last):
        specs.append(ParamSpec("ties", "boolean", default=False))
    if isinstance(last, ComparisonClassifier):
        specs.append(ParamSpec("rank", "boolean", default=False))
    users = _users(estimator)
    if users is not None:
        kind = "long" if users.dtype == np.int64 else "string"
        specs.append(ParamSpec("users", kind, default=[], shape=(-1,)))
    return specs


def _has_several(last: Any) -> bool:
    """Return whether rows are tasks or have grades, with more than two probabilities."""
    return isinstance(last, CrowdGPPL) and (getattr(last, "_has_tasks", False) or last.classes_.size > 2)


def _has_ties(last: Any) -> bool:
    """Return whether a tie is an answer of its own."""
    return bool(getattr(getattr(last, "likelihood_", None), "ties_are_answers", False))


def _users(estimator: Any) -> Any:
    """Return the ids of the users that a model knows; None of a model that does not distinguish users."""
    first, inputs = _first_step(estimator), _inputs(estimator)
    if inputs is None or inputs.user is None:
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
        users, table = params.get("users"), served_rows(self._estimator, table)
        if params.get("rank"):
            return self._ranking(table)
        if users is None or not len(users):
            return self._predict_rows(self._rows(table), params)
        if params.get("return_std"):
            raise DataError("users and return_std cannot be asked for together")
        if params.get("return_proba") and _has_several(self._last):
            raise DataError("users and return_proba cannot be asked for together: a row has several probabilities")
        import pandas as pd

        column = getattr(_inputs(self._estimator), "user", None)
        rows = {user: self._rows(table.assign(**{str(column): user})) for user in self._named(users)}
        columns = {user: self._predict_rows(part, params) for user, part in rows.items()}
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
        """Return rows as the estimator takes them."""
        inputs, names = _inputs(self._estimator), getattr(self._estimator, "feature_names_in_", None)
        if inputs is None:
            if names is None or not hasattr(table, "iloc"):
                return np.asarray(table)
            return table[[name for name in names if name in table.columns]]
        needed = [name for name in [*inputs.ids, *inputs.groups, *inputs.time] if name not in inputs.spare]
        missing = [name for name in needed if name not in table.columns]
        if missing:
            raise DataError(
                f"column {missing[0]!r} is missing" + "; users may replace it" * (missing[0] == inputs.user)
            )
        # Rows without any covariate have ids alone; columns that are not read may be missing.
        has_more = set(table.columns) - {*inputs.ids} or inputs.spare
        rows = table.reindex(columns=inputs.names if has_more else inputs.ids)
        return rows if inputs.are_names_known else rows.to_numpy(dtype=object)

    def _ranking(self, table: Any) -> Any:
        """Return the ranking of the items in the rows, the best first."""
        inputs = _inputs(self._estimator)
        if inputs is None or not hasattr(self._last, "rank"):
            raise DataError(f"{type(self._last).__name__} ranks no items; leave rank out")
        shown = [name for name in inputs.ids if name != inputs.user and name in table.columns]
        items = table[shown].to_numpy(dtype=object).ravel().tolist()
        if getattr(_first_step(self._estimator), "_has_teams", False):
            items = [player for cell in items for player in as_cells(cell)]
        return self._last.rank(np.unique([item for item in items if not is_missing(item)])).to_frame()

    def _predict_rows(self, rows: Any, params: Mapping[str, Any]) -> Any:
        import pandas as pd

        columns = self._with_std(rows) if params.get("return_std") else {}
        if params.get("return_proba"):
            if not hasattr(self._last, "predict_proba"):
                raise DataError(f"{type(self._last).__name__} has no probabilities; leave return_proba out")
            proba = np.asarray(self._estimator.predict_proba(rows))
            columns |= dict(zip(map(str, self._last.classes_), proba.T, strict=True))
        if params.get("ties"):
            if not _has_ties(self._last):
                raise DataError("ties needs a likelihood in which a tie is an answer; leave ties out")
            columns |= dict(zip(("left", "tie", "right"), self._last.predict_proba(rows, ties=True).T, strict=True))
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
