"""Runs in an MLflow store, by hand: what `skpref tune` and `track` use."""

from __future__ import annotations

import importlib.util
import os
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from skpref.tracking.client import DEFAULT_ROOT, DEFAULT_URI, Client, remove_password, require_mlflow, store_settings
from skpref.tracking.outbox import Outbox, texts

__all__ = ["DEFAULT_URI", "Tracker"]


class Tracker:
    """Writes runs to MLflow.

    Errors of the store are not raised: the first one gives a `TrackingWarning`, and later events are kept in a folder
    for `sync`. Threads may share a tracker. It can be pickled; its copies in other processes write to the same runs.

    Parameters
    ----------
    experiment : str, default="skpref"
        Name of the experiment; created if it does not exist.
    tracking_uri : str, default=None
        MLflow store. None: what ``mlflow.set_tracking_uri`` set, else the environment variable MLFLOW_TRACKING_URI,
        else ``sqlite:///mlruns/mlflow.db`` with files in ``mlruns/artifacts``, both created in the working folder.
    spool : path-like, default="mlruns/spool"
        Folder for events that cannot be sent.

    Attributes
    ----------
    tracking_uri : str
        The store.

    Raises
    ------
    MissingExtraError
        If mlflow is not installed.

    Examples
    --------
    >>> from skpref.tracking import Tracker
    >>> Tracker(tracking_uri="sqlite:///mlruns/mlflow.db").how_to_look()
    'mlflow ui --backend-store-uri sqlite:///mlruns/mlflow.db'
    """

    def __init__(
        self,
        experiment: str = "skpref",
        tracking_uri: str | None = None,
        spool: str | os.PathLike[str] = DEFAULT_ROOT / "spool",
    ) -> None:
        require_mlflow()
        self.tracking_uri, uri, root = store_settings(tracking_uri)
        self.outbox = Outbox(Client(experiment, uri, root), Path.cwd() / spool)

    @property
    def online(self) -> bool:
        """Whether everything could be sent so far."""
        return self.outbox.online

    @property
    def spool_file(self) -> Path | None:
        """File in which this process keeps unsent events, if there is one."""
        return self.outbox.spool.file

    def start(
        self, name: str, parent: str | None = None, tags: Mapping[str, Any] | None = None, key: str | None = None
    ) -> str:
        """Start a run.

        Parameters
        ----------
        name : str
            Name that MLflow shows.
        parent : str, default=None
            Key of the run in which this one is nested.
        tags : mapping of str, default=None
            Tags.
        key : str, default=None
            Key by which all processes know the run. Up to the first dot, the keys of a fit's runs are the same.
            None: a new key.

        Returns
        -------
        str
            Key of the run, for the other methods.
        """
        key = key or uuid.uuid4().hex
        self.outbox.send("start", key, parent=parent, name=name, tags=texts(tags or {}))
        return key

    def end(self, run: str, status: str = "FINISHED") -> None:
        """End a run, after sending the rest of its metrics.

        Parameters
        ----------
        run : str
            Key of a run.
        status : {"FINISHED", "FAILED", "KILLED"}, default="FINISHED"
            How it ended.
        """
        self.outbox.end(run, status)

    def log_params(self, run: str, params: Mapping[str, Any]) -> None:
        """Log parameters.

        Parameters
        ----------
        run : str
            Key of a run.
        params : mapping of str
            Values, written as text.
        """
        self.outbox.send_values("params", run, params)

    def set_tags(self, run: str, tags: Mapping[str, Any]) -> None:
        """Set tags.

        Parameters
        ----------
        run : str
            Key of a run.
        tags : mapping of str
            Values, written as text.
        """
        self.outbox.send_values("tags", run, tags)

    def log_metrics(self, run: str, metrics: Mapping[str, float], step: int = 0) -> None:
        """Log metrics. They are sent in batches, at the latest when the run ends.

        Parameters
        ----------
        run : str
            Key of a run.
        metrics : mapping of str to float
            Values. A value that is not finite is skipped, with one warning.
        step : int, default=0
            Step on the curve.
        """
        self.outbox.add_points(run, ((name, value, step) for name, value in metrics.items()))

    def log_curve(self, run: str, name: str, values: Iterable[float]) -> None:
        """Log a whole curve, such as the bound after each iteration.

        Parameters
        ----------
        run : str
            Key of a run.
        name : str
            Name of the metric.
        values : iterable of float
            Its values at the steps 1, 2, ...
        """
        self.outbox.add_points(run, ((name, value, step) for step, value in enumerate(values, 1)))

    def log_artifact(self, run: str, path: str | os.PathLike[str], folder: str | None = None) -> None:
        """Store a copy of a file or folder with the run.

        Parameters
        ----------
        run : str
            Key of a run.
        path : path-like
            The file or folder.
        folder : str, default=None
            Folder of the run for it. None: its root.
        """
        if os.access(path, os.R_OK):
            self.outbox.send("artifact", run, path=str(Path(path).resolve()), folder=folder)
        else:
            self.outbox.warn("files", f"A file is not tracked: {path} cannot be read. The fit continues.")

    def log_figure(self, run: str, name: str, figure: Any) -> None:
        """Store a figure with the run.

        Parameters
        ----------
        run : str
            Key of a run.
        name : str
            Name of the file, whose suffix chooses the format.
        figure : matplotlib Figure
            It is left open.
        """
        self.outbox.send_file(run, name, lambda path: figure.savefig(path, dpi=120))

    def log_model(
        self, run: str, path: str | os.PathLike[str], name: str = "model", registered: str | None = None
    ) -> None:
        """Log a model.

        Parameters
        ----------
        run : str
            Key of a run.
        path : path-like
            Folder in MLflow's format, as `skpref.tracking.save_model` writes it.
        name : str, default="model"
            Name of the model in the run.
        registered : str, default=None
            Name in the registry under which it becomes a new version. None: it is not registered.
        """
        self.outbox.send("model", run, path=str(Path(path).resolve()), name=name, registered=registered)

    def run_id(self, run: str) -> str | None:
        """Return MLflow's id of a run.

        Parameters
        ----------
        run : str
            Key of a run.

        Returns
        -------
        str or None
            None if the store does not have the run.
        """
        return self.outbox.client.runs.get(run)

    def how_to_look(self) -> str:
        """Return how to see the runs: a command, or an address.

        Returns
        -------
        str
            Without passwords.
        """
        shown = remove_password(self.tracking_uri)
        if shown.startswith("http"):
            return f"open {shown}"
        # mlflow-skinny, which the extra `demo` installs, has no pages.
        first = "" if importlib.util.find_spec("flask") else "pip install 'mlflow<4' && "
        return f"{first}mlflow ui --backend-store-uri {shown}"
