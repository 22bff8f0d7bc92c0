"""Studies in a PostgreSQL server that the test starts, and trials on a Dask cluster."""

import gc
import os
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

import joblib
import numpy as np
import pytest
from scipy import stats
from sklearn.datasets import load_iris
from sklearn.svm import SVC

from skpref.exceptions import DataError
from skpref.search import OptunaSearch

optuna = pytest.importorskip("optuna")

X, Y = load_iris(return_X_y=True)
C = {"C": stats.loguniform(1e-3, 1e3)}


# ----------------------------------------------------------------------------------------------------------- PostgreSQL
def programs():
    """Folder of PostgreSQL's programs."""
    found = [Path(path).resolve().parent for path in [shutil.which("initdb")] if path]
    found += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in found if (folder / "initdb").exists() and (folder / "pg_ctl").exists()), None)


@pytest.fixture(scope="module")
def server():
    """Address of a PostgreSQL server, of this test alone: its own folder, its own port, gone afterwards."""
    pytest.importorskip("psycopg", reason="PostgreSQL's driver is not installed: pip install 'psycopg[binary]'")
    folder = programs()
    if folder is None:
        pytest.skip("PostgreSQL (initdb, pg_ctl) is not installed")
    # The server refuses to run as root; Debian's package brings a user for it.
    user = "postgres" if os.geteuid() == 0 else None
    home = Path(tempfile.mkdtemp(prefix="skpref-postgres-"))
    if user is not None:
        try:
            shutil.chown(home, user)
        except LookupError:
            shutil.rmtree(home)
            pytest.skip("running as root, and there is no user postgres for the server")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]

    def run(program, *arguments):
        command = [str(folder / program), "-D", str(home / "data"), *arguments]
        with (home / f"{program}.log").open("a") as log:
            subprocess.run(command, user=user, cwd=home, stdout=log, stderr=log, check=True, timeout=120)

    try:
        run("initdb", "-A", "trust", "-U", "skpref", "--no-sync")
        options = f"-p {port} -k {home} -c listen_addresses=127.0.0.1 -c fsync=off"
        run("pg_ctl", "start", "-w", "-o", options, "-l", str(home / "data" / "server.log"))
        yield f"postgresql+psycopg://skpref@127.0.0.1:{port}/postgres"
        run("pg_ctl", "stop", "-m", "immediate")
    finally:
        shutil.rmtree(home, ignore_errors=True)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # of the engine's pool, when the study is forgotten
def test_a_study_in_postgresql_goes_on_and_knows_its_data(server):
    asked = {"cv": 2, "storage": server, "study_name": "iris", "random_state": 0, "pruner": None}
    first = OptunaSearch(SVC(), C, n_trials=3, **asked).fit(X, Y)
    second = OptunaSearch(SVC(), C, n_trials=5, **asked).fit(X, Y)
    assert second.cv_results_["params"][:3] == first.cv_results_["params"]
    np.testing.assert_array_equal(second.cv_results_["split1_test_score"][:3], first.cv_results_["split1_test_score"])
    in_memory = OptunaSearch(SVC(), C, n_trials=3, cv=2, random_state=0, pruner=None).fit(X, Y)
    assert in_memory.cv_results_["params"] == first.cv_results_["params"]
    with pytest.raises(DataError, match="is of another estimator or other data"):
        OptunaSearch(SVC(), C, **asked).fit(X[::-1], Y)
    names = optuna.get_all_study_names(server)
    assert names == ["iris"]
    # The driver warns of connections that are collected open; in another test that would be an error.
    del first, second, in_memory
    gc.collect()


# ----------------------------------------------------------------------------------------------------------------- Dask
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Dask's own
def test_folds_run_on_a_dask_cluster(tmp_path):
    distributed = pytest.importorskip("distributed")
    search = {"n_trials": 4, "cv": 3, "random_state": 1, "pruner": None}
    plain = OptunaSearch(SVC(), C, **search).fit(X, Y)
    cluster = distributed.LocalCluster(
        n_workers=1, threads_per_worker=2, processes=True, dashboard_address=":0", local_directory=str(tmp_path)
    )
    with cluster, distributed.Client(cluster) as client, joblib.parallel_config(backend="dask"):
        there = OptunaSearch(SVC(), C, n_jobs=-1, **search).fit(X, Y)
        assert any("fit_and_score" in name for name in client.run_on_scheduler(_names_of_tasks))
    np.testing.assert_array_equal(there.cv_results_["mean_test_score"], plain.cv_results_["mean_test_score"])
    assert there.cv_results_["params"] == plain.cv_results_["params"]


def _names_of_tasks(dask_scheduler):
    """What the scheduler has seen."""
    return list(dask_scheduler.task_prefixes)
