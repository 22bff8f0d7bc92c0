"""Cases of `same_predictions.py`: commands of the command line, and the readers of tables of comparisons."""

# ruff: noqa: ANN401 - what a command prints and what a table holds are of any type

from __future__ import annotations

import csv
import io
import json
import re
import shlex
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import chdir, redirect_stderr, redirect_stdout
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
from _same_numbers import Case, Numbers, features, learnt

import skpref
from skpref import data
from skpref.cli import main

NO_NUMBERS = {"seconds", "error", "file", "files", "data.source", "data.sha256", "session"}  # times, paths, messages


# --------------------------------------------------------------------------------------------------------------- files
Columns = dict[str, list[Any]]


@cache
def battles() -> Columns:
    """Two hundred comparisons of eight models by ten judges, with the answer in all the forms that are read."""
    rng, n = np.random.default_rng(30), 200
    left, judge = rng.integers(0, 8, n), rng.integers(0, 10, n)
    right, length = (left + rng.integers(1, 8, n)) % 8, rng.normal(size=(2, n)).round(2)
    taste = np.where(judge < 7, 1.0, -0.7)
    z = (left - right) / 4 * taste + 0.5 * (length[0] - length[1]) + rng.normal(size=n)
    y = np.where(np.abs(z) < 0.2, 0.5, (z > 0).astype(float))
    name = [f"m{k}" for k in range(8)]
    a, b = [name[k] for k in left], [name[k] for k in right]
    goals = np.column_stack([1 + (y > 0.5), 1 + (y < 0.5)])
    words = {1.0: "model_a", 0.0: "model_b", 0.5: "tie (bothbad)"}
    return {
        "model_a": a,
        "model_b": b,
        "winner": [words[k] for k in y],
        "won": [p if k >= 0.5 else q for p, q, k in zip(a, b, y, strict=True)],
        "lost": [q if k >= 0.5 else p for p, q, k in zip(a, b, y, strict=True)],
        "goals_a": goals[:, 0].tolist(),
        "goals_b": goals[:, 1].tolist(),
        "result": [f"{p}-{q}" for p, q in goals],
        "share": y.tolist(),
        "judge": [f"j{k}" for k in judge],
        "n": (1 + rng.integers(0, 3, n)).tolist(),
        "length_a": length[0].tolist(),
        "length_b": length[1].tolist(),
        "topic": [("code", "prose")[k] for k in rng.integers(0, 2, n)],
        "day": [f"2026-01-{1 + k // 10:02d}" for k in range(n)],
    }


@cache
def models() -> Columns:
    X = features(8, 2, seed=31).round(3)
    return {
        "id": [f"m{k}" for k in range(8)],
        "size": (np.arange(8) / 4 + 0.1 * X[:, 0]).tolist(),
        "cost": X[:, 1].tolist(),
    }


@cache
def judges() -> Columns:
    return {"judge": [f"j{k}" for k in range(10)], "age": [round(float(k >= 7) + k / 50, 2) for k in range(10)]}


@cache
def stars() -> Columns:
    """Ratings of sixteen items by twenty users: levels, numbers, and whether they are high."""
    rng = np.random.default_rng(32)
    user, item = np.nonzero(rng.random((20, 16)) < 0.7)
    z = np.where(user % 2, 15 - item, item) / 4 + 0.5 * rng.normal(size=user.size)
    return {
        "user": [f"u{k}" for k in user],
        "item": [f"i{k}" for k in item],
        "rating": np.clip(1 + z.round(), 1, 5).astype(int).tolist(),
        "amount": z.round(2).tolist(),
        "liked": (z > 2).astype(int).tolist(),
    }


@cache
def grades() -> Columns:
    """Rows of two features with targets of several kinds."""
    rng, X = np.random.default_rng(33), features(90, 2, seed=33).round(3)
    f = np.sin(1.5 * X[:, 0]) + 0.3 * X[:, 1]
    noisy = f + 0.2 * rng.normal(size=90)
    return {
        "id": [f"r{k}" for k in range(90)],
        "size": X[:, 0].tolist(),
        "noise": X[:, 1].tolist(),
        "person": [f"p{k // 3}" for k in range(90)],
        "grade": np.array(["low", "middle", "high"])[np.digitize(noisy, [-0.4, 0.4])].tolist(),
        "price": (20 + 5 * noisy).round(2).tolist(),
        "side": np.where(noisy > 0, "up", "down").tolist(),
    }


@cache
def survey() -> Columns:
    """Forty people: a ranking of four drinks in two layouts, a choice of three, the best and the worst, ratings."""
    rng, drinks = np.random.default_rng(34), np.array(["tea", "milk", "cola", "water"])
    utility = np.array([1.0, 0.3, 0.0, -0.5]) + rng.normal(size=(40, 4))
    order = np.argsort(-utility, axis=1)
    ranks = 1 + np.argsort(order, axis=1)
    shown = np.array([rng.choice(4, 3, replace=False) for _ in range(40)])
    scores = np.take_along_axis(utility, shown, axis=1)
    columns: Columns = {"person": [f"p{k}" for k in range(40)]}
    columns |= {f"place{k + 1}": drinks[order[:, k]].tolist() for k in range(4)}
    columns |= {f"rank_{drink}": ranks[:, k].tolist() for k, drink in enumerate(drinks)}
    columns |= {f"offer{k + 1}": drinks[shown[:, k]].tolist() for k in range(3)}
    for name, place in (("best", np.argmax(scores, axis=1)), ("worst", np.argmin(scores, axis=1))):
        columns[name] = drinks[shown[np.arange(40), place]].tolist()
    rated = np.clip(3 + utility.round(), 1, 5).astype(int)
    return columns | {f"Q3_{drink}": rated[:, k].tolist() for k, drink in enumerate(drinks)}


@cache
def tasks() -> Columns:
    """Choices among three products of a brand and a price: one product in a row, also with their ranks."""
    rng, n = np.random.default_rng(35), 60
    brand = np.array([rng.choice(3, 3, replace=False) for _ in range(n)])
    price = rng.integers(1, 4, (n, 3)) / 2
    z = np.array([0.0, 0.5, 1.0])[brand] - price + 0.7 * rng.normal(size=(n, 3))
    return {
        "task": np.repeat(np.arange(n), 3).tolist(),
        "person": [f"p{k // 6}" for k in np.repeat(np.arange(n), 3)],
        "brand": np.array(["A", "B", "C"])[brand.ravel()].tolist(),
        "price": price.ravel().tolist(),
        "chosen": (z == z.max(axis=1, keepdims=True)).astype(int).ravel().tolist(),
        "rank": (1 + np.argsort(np.argsort(-z, axis=1), axis=1)).ravel().tolist(),
    }


def some(columns: Columns, n: int) -> Columns:
    """The first rows."""
    return {name: column[:n] for name, column in columns.items()}


def with_a_gap(columns: Columns, name: str) -> Columns:
    """The columns, one of which has two empty cells."""
    return columns | {name: ["", *columns[name][1:-1], ""]}


FILES: dict[str, Callable[[], Columns]] = {
    "battles.csv": battles,
    "gaps.csv": lambda: with_a_gap(battles(), "winner"),
    "few.csv": lambda: some(battles(), 80),
    "models.csv": models,
    "judges.csv": judges,
    "stars.csv": stars,
    "grades.csv": grades,
    "survey.csv": survey,
    "tasks.csv": tasks,
    "battles.parquet": battles,
    "stars.json": stars,
}
EXPERIMENT = """
[data]
file = "{file}"
{data}
[model]
name = "{model}"
[search]
trials = {trials}
folds = 2
holdout = 0.25
seed = 3
{space}
[tracking]
mlflow = false
[output]
folder = "out"
"""


def write(name: str) -> None:
    frame, path = pd.DataFrame(FILES[name]()), Path(name)
    if path.suffix == ".parquet":
        frame.to_parquet(path)
    elif path.suffix == ".json":
        frame.to_json(path, orient="records", lines=True)
    else:
        frame.to_csv(path, index=False)


# ------------------------------------------------------------------------------------------------------------ commands
def cell(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def without_times(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: without_times(part) for name, part in value.items() if name not in NO_NUMBERS}
    return [without_times(part) for part in value] if isinstance(value, list) else value


def printed(text: str) -> Any:
    """What JSON holds; or all numbers in the tables of a text but that of trials, which has times."""
    try:
        return without_times(json.loads(text))
    except json.JSONDecodeError:
        blocks = [block for block in text.split("\n\n") if not block.startswith(("Trials", "Search"))]
        lines = [line for block in blocks for line in block.splitlines() if line.startswith("  ")]
        return [float(number) for line in lines for number in re.findall(r"[-+]?\d+(?:\.\d+)?(?:e[-+]\d+)?", line)]


def run(command: str) -> Any:
    """Run a command, which may be followed by what is typed: "elicit m < 1 2 q"; return what it prints."""
    arguments, _, typed = command.partition(" < ")
    out, err, keys = io.StringIO(), io.StringIO(), io.StringIO("".join(f"{word}\n" for word in typed.split()))
    with redirect_stdout(out), redirect_stderr(err), mock.patch("sys.stdin", keys):
        code = main(shlex.split(arguments))
    if code:
        raise RuntimeError(f"skpref {command} ended with {code}: {err.getvalue()}")
    return printed(out.getvalue())


def commanded(*commands: str, toml: Mapping[str, str] | None = None) -> Numbers:
    """What commands print and write, one after the other in a folder with all files, and what each model learnt."""
    found: Numbers = {}
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        for name in FILES:
            if name in " ".join([*commands, *(toml or {}).values()]):
                write(name)
        before = set(Path().rglob("*"))
        if toml is not None:
            Path("experiment.toml").write_text(
                EXPERIMENT.format(**{"data": "", "space": "", "trials": "2"} | dict(toml)), "utf-8"
            )
        for command in commands:
            shown = run(command)
            named = shown if isinstance(shown, dict) else {"table": shown}
            found |= {f"{command} {name}": value for name, value in named.items()}
        for path in sorted(set(Path().rglob("*")) - before):
            found |= read(path)
    return found


def read(path: Path) -> Numbers:
    """The columns of a CSV file; what the model in a file learnt."""
    if path.suffix == ".skpref":
        model = skpref.load(path)
        return {
            f"{path} {name}": value for name, value in learnt(getattr(model, "steps", [("", model)])[-1][1]).items()
        }
    if path.suffix != ".csv":
        return {}
    with path.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    names = [name for name in (rows[0] if rows else ()) if name not in NO_NUMBERS]
    return {f"{path} {name}": [cell(row[name]) for row in rows] for name in names}


# -------------------------------------------------------------------------------------------------------------- readers
def frames(columns: Columns) -> dict[str, Any]:
    """The same table as a dict and as frames of pandas, polars and pyarrow; no cell of a string is empty but None."""
    import polars as pl
    import pyarrow as pa

    cleaned = {name: [None if value == "" else value for value in column] for name, column in columns.items()}
    return {
        "dict": cleaned,
        "pandas": pd.DataFrame(cleaned),
        "polars": pl.DataFrame(cleaned),
        "pyarrow": pa.table(cleaned),
    }


def rows_of(reader: Callable[..., Any], columns: Columns, *arguments: Any, **options: Any) -> Numbers:
    """Pairs, labels, weights and covariates that a reader makes of a table of each kind."""
    found: Numbers = {}
    for kind, frame in frames(columns).items():
        rows = reader(frame, *arguments, **options)
        found |= {f"{kind} {name}": getattr(rows, name) for name in ("X", "y", "sample_weight", "covariates")}
    return found


# --------------------------------------------------------------------------------------------------------------- cases
def use(fit: str, rank: str = "", predict: str = "", elicit: str = "") -> Case:
    """Fit, then rank, predict and elicit where there is what to do it with."""
    commands = [f"fit {fit} --out m.skpref --json"]
    commands += [f"rank m.skpref {rank}", f"rank m.skpref {rank} --out ranks.csv"] if rank != "-" else []
    commands += [f"predict m.skpref {predict} --out predicted.csv"] if predict else []
    commands += [f"elicit m.skpref {elicit}"] if elicit else []
    return partial(commanded, *commands)


def tune(options: str, *more: str, trials: int = 2) -> Case:
    return partial(commanded, f"tune {options} --trials {trials} --folds 2 --seed 1 --no-mlflow --out out", *more)


def command_cases() -> dict[str, Case]:
    left, crowd, drinks = "--left model_a --right model_b", "--model crowd --user judge", "tea,milk,cola,water"
    ranks = "--item-ranks " + ",".join(f"rank_{name}" for name in drinks.split(","))
    levels = "--levels low,middle,high --features size,noise"
    shown = "--offered offer1,offer2,offer3 --chosen best"
    cases: dict[str, Case] = {
        "fit winners": use("battles.csv", predict="battles.csv"),
        "fit losers": use("battles.csv --winner won --loser lost", "--json"),
        "fit names of winners": use("battles.csv --winner won", "--scale elo"),
        "fit labels and weights": use(f"battles.parquet {left} --label share --weight n", "--json"),
        "fit two scores": use("battles.csv --score goals_a,goals_b --set likelihood=logit", "--json"),
        "fit scores in a cell": use("battles.csv --score result --set order_effect=True", "--json"),
        "fit covariates": use("battles.csv --covariates length_a-length_b,n", predict="battles.csv"),
        "fit items": use("battles.csv --items models.csv", "models.csv --json", "battles.csv", "--json < 1 2 1 q"),
        "fit gaps": use("gaps.csv --missing drop", "--json", "gaps.csv --missing drop"),
        "fit ties": use("battles.csv --set likelihood=logit-ties", predict="battles.csv"),
        "fit crowd": use(
            f"battles.csv {crowd}", "--user j8", "battles.csv --user judge", "--user j3 --json < 1 2 s 1 q"
        ),
        "fit crowd of users": use(f"battles.csv {crowd} --users judges.csv --items models.csv", "--json"),
        "fit crowd in groups": use(f"battles.csv {crowd} --groups topic", "--groups topic=code --json"),
        "fit m3f": use(
            "stars.csv --model m3f --set max_iter=8 --set burn_in=1", "--user u3", "stars.csv", "--json < 4 2 q"
        ),
        "fit ipm3f": use(
            "stars.csv --model ipm3f --set max_iter=8 --set burn_in=1 --levels 1,2,3,4,5", "--user u3", "stars.csv"
        ),
        "fit fm": use("stars.csv --model fm --rating amount", "--user u3", "stars.csv", "--json < 4 2 q"),
        "fit fm-classifier": use("stars.csv --model fm-classifier --rating liked", "--user u3", "stars.csv", "< y n q"),
        "fit fm-ordinal": use("stars.json --model fm-ordinal", "--user u3 --json", "stars.json"),
        "fit ordinal": use(f"grades.csv --model ordinal --label grade {levels}", "-", "grades.csv"),
        "fit svgp": use("grades.csv --model svgp --label price --features size,noise", "-", "grades.csv"),
        "fit svgp-classifier": use(
            "grades.csv --model svgp-classifier --label side --features size,noise", "-", "grades.csv"
        ),
        "fit rankings": use("survey.csv --ranking place1,place2,place3,place4", "--json"),
        "fit ranks of items": use(f"survey.csv {ranks} --model crowd --user person", "--user p3 --json"),
        "fit choices": use(f"survey.csv {shown}", "--json", "survey.csv"),
        "fit best and worst": use(f"survey.csv {shown} --worst worst --model crowd --user person", "--json"),
        "fit tasks": use("tasks.csv --contest task --chosen chosen --features brand,price", "--json", "tasks.csv"),
        "fit part-worths": use(
            "tasks.csv --contest task --chosen chosen --features brand,price --model crowd --user person",
            "--json",
            "tasks.csv",
        ),
        "fit contests": use(
            "tasks.csv --contest task --item brand --rank rank --covariates price", "--json", "tasks.csv"
        ),
        "fit a grid": use("survey.csv --model fm-ordinal --user person --item-ratings Q3_*", "--user p3 --json"),
        "fit a grid of comparisons": use("survey.csv --model crowd --user person --item-ratings Q3_*", "--json"),
        "tune pairs": tune("battles.csv", "rank out/model.skpref --json"),
        "tune items and groups": tune("battles.csv --items models.csv --group judge --set inducing=8 --json"),
        "tune by time": tune("battles.csv --time-split day --covariates length_a-length_b"),
        "tune crowd": tune(f"few.csv {crowd}", "rank out/model.skpref --user j8 --json", trials=1),
        "tune m3f": tune(
            "stars.csv --model m3f --set max_iter=8 --set burn_in=1 --set n_factors=3",
            "rank out/model.skpref --user u3 --json",
        ),
        "tune fm-ordinal": tune("stars.csv --model fm-ordinal --json"),
        "tune fm": tune("stars.csv --model fm --rating amount"),
        "tune ordinal": tune(f"grades.csv --model ordinal --label grade --group person {levels}"),
        "tune svgp": tune("grades.csv --model svgp --label price --features size,noise --set inducing=15"),
        "tune best and worst": tune(f"survey.csv {shown} --worst worst --json"),
        "tune a grid": tune(
            "survey.csv --model m3f --user person --item-ratings Q3_* "
            "--set max_iter=8 --set burn_in=1 --set n_factors=2"
        ),
        "demo": partial(
            commanded,
            "demo --trials 2 --folds 2 --seed 1 --set inducing=20 --no-mlflow --out out",
            "rank out/model.skpref",
        ),
    }
    searched = {
        "pairs": "scale_prior__shape = { low = 1.0, high = 3.0 }",
        "ratings": "variationalfmordinal__n_factors = [1, 2]",
    }
    experiments = {
        "pairs": {"file": "battles.csv", "model": "gppl"},
        "crowd": {
            "file": "battles.csv",
            "model": "crowd",
            "trials": "1",
            "data": 'user = "judge"\nitems = "models.csv"',
        },
        "ratings": {"file": "stars.csv", "model": "fm-ordinal"},
        "features": {
            "file": "grades.csv",
            "model": "ordinal",
            "data": 'label = "grade"\nlevels = ["low", "middle", "high"]\nfeatures = ["size", "noise"]',
        },
    }
    for name, toml in experiments.items():
        space = {"space": f"[space]\n{searched[name]}"} if name in searched else {}
        cases[f"run {name}"] = partial(commanded, "run experiment.toml --json", toml=toml | space)
    return {f"command {name}": case for name, case in cases.items()}


def reader_cases() -> dict[str, Case]:
    fights, people, tasks_ = some(battles(), 30), some(survey(), 12), some(tasks(), 30)
    items = ["offer1", "offer2", "offer3"]
    sides, places = ("model_a", "model_b"), [f"place{k}" for k in range(1, 5)]
    short = with_a_gap(people, "place4")
    ranks = {f"rank_{name}": name for name in ("tea", "milk", "cola", "water")}
    more: dict[str, Any] = {"user": "judge", "sample_weight": "n", "covariates": ["n", ("length_a", "length_b")]}
    whose = {"user": "person", "sample_weight": "weight"}
    weighted = people | {"weight": [1 + k % 3 for k in range(12)]}
    choices, rankings = (partial(reader) for reader in (data.from_choices, data.from_rankings))
    calls: dict[str, tuple[Callable[..., Any], Columns, Sequence[Any], dict[str, Any]]] = {
        "winners": (data.from_winners, fights, sides, {}),
        "winners with covariates": (data.from_winners, fights, sides, more),
        "names of winners": (data.from_winners, fights, sides, {"winner": "won"}),
        "winners and losers": (data.from_winners, fights, (), {"winner": "won", "loser": "lost"} | more),
        "winners with gaps": (data.from_winners, with_a_gap(fights, "winner"), sides, {"missing": "drop"} | more),
        "labels as winners": (data.from_winners, fights, sides, {"winner": "share"}),
        "results in a cell": (data.from_results, fights, (*sides, "result"), more),
        "results in two columns": (data.from_results, fights, (*sides, ("goals_a", "goals_b")), more),
        "margins": (data.from_results, fights, (*sides, "length_a"), {"user": "judge"}),
        "results with gaps": (data.from_results, with_a_gap(fights, "result"), (*sides, "result"), {"missing": "drop"}),
        "choices": (choices, people, (items, "best"), {}),
        "choices of users": (choices, weighted, (items, "best"), whose),
        "best and worst": (choices, weighted, (items, "best"), {"worst": "worst"} | whose),
        "choices with gaps": (choices, with_a_gap(people, "best"), (items, "best"), {"missing": "drop"}),
        "rankings": (rankings, short, (places,), {}),
        "rankings of users": (rankings, weighted, (places,), whose),
        "ranks of items": (rankings, people, (), {"item_ranks": list(ranks)}),
        "ranks of named items": (rankings, weighted, (), {"item_ranks": ranks} | whose),
        "contests": (rankings, tasks_, (), {"by": "task", "item": "brand", "rank": "rank", "user": "person"}),
        "contests with gaps": (
            rankings,
            with_a_gap(tasks_, "rank"),
            (),
            {"by": "task", "item": "brand", "missing": "drop"},
        ),
    }
    return {
        f"reader {name}": partial(rows_of, reader, columns, *arguments, **options)
        for name, (reader, columns, arguments, options) in calls.items()
    }
