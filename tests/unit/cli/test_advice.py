"""Advice of the library in the words of the command line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from skpref.cli import main
from skpref.cli.advice import as_options


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Learn it by order_effect=True. Or", "Learn it by --set order_effect=True. Or"),
        ("set likelihood='logit-ties', or", "--set likelihood='logit-ties', or"),
        ("in 3 iterations (max_iter=3). Increase", "in 3 iterations (max_iter=3). Increase"),
        ("by --set max_iter=3", "by --set max_iter=3"),
        ("remove them or set on_self='drop'", "remove them or --on-self drop"),
        ("leave such rows out by missing='drop'", "leave such rows out by --missing drop"),
        ("name it by items=Table(...) or items=x", "name it by items=Table(...) or items=x"),
        ("color=red is no parameter", "color=red is no parameter"),
    ],
)
def test_parameters_become_options(text: str, wanted: str) -> None:
    assert as_options(text, ["order_effect", "likelihood", "max_iter", "items", "on_self"]) == wanted


def test_a_warning_of_a_fit_names_the_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    pairs = [rng.choice(list("abcd"), 2, replace=False) for _ in range(200)]
    rows = [f"{a},{b},{int(k % 10 > 0)}\n" for k, (a, b) in enumerate(pairs)]
    Path("games.csv").write_text("left,right,label\n" + "".join(rows), "utf-8")
    assert main(["fit", "games.csv"]) == 0
    assert "Learn the advantage by --set order_effect=True." in capsys.readouterr().err
    assert main(["tune", "games.csv", "--trials", "1", "--no-mlflow"]) == 0
    assert "Learn the advantage by skpref fit --set order_effect=True." in capsys.readouterr().err
    Path("wins.csv").write_text("left,right,label\n" + "a,b,1\nb,c,1\n" * 5, "utf-8")
    assert main(["fit", "wins.csv", "--set", "order_effect=True"]) == 2
    assert "leave the order effect out: --set order_effect=False" in capsys.readouterr().err
