"""Every test of the command line works in a folder of its own, and has a word for a command that is refused."""

import pytest

from skpref.cli import main


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


@pytest.fixture
def refuses(capsys):
    """Run a command that ends with one line of error, which says something."""

    def run(command, *words):
        capsys.readouterr()
        assert main([str(word) for word in command]) == 2
        *others, error = capsys.readouterr().err.splitlines()
        assert error.startswith("skpref: error: ")
        assert not [line for line in others if line.startswith(("skpref: error: ", "Traceback"))]
        for word in words:
            assert word in error

    return run
