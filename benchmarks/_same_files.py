"""Cases of `same_predictions.py`: fits to Parquet and CSV files, and to collections of Dask in threads of this process.

Rows are few, so each estimator is also fitted with small limits: several shards, and samples in the place of all rows.
These limits stand in the policies of packages. `SMALL` names them: a case fails where one has moved.
"""

# ruff: noqa: ANN401 - options of estimators, estimators and their answers are of any type

from __future__ import annotations

import importlib
import tempfile
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest import mock

import numpy as np
import pandas as pd
from _same_numbers import Case, Numbers, features, learnt, through_file, variants

import skpref

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

ITEMS, USERS = np.array([f"item {k}" for k in range(8)]), np.array([f"user {k:02d}" for k in range(12)])


# ----------------------------------------------------------------------------------------------------------------- rows
@cache
def judgements() -> pd.DataFrame:
    """Comparisons of eight items by twelve users, three of whom have a taste of their own."""
    rng, n = np.random.default_rng(20), 240
    left, user = rng.integers(0, 8, n), rng.integers(0, 12, n)
    right = (left + rng.integers(1, 8, n)) % 8
    z = np.linspace(-1, 1, 8) * np.where(user < 9, 1.0, -1.5)[:, None]
    y = (z[np.arange(n), left] - z[np.arange(n), right] + rng.normal(size=n) + 0.3 > 0).astype(int)
    columns = {"user": USERS[user], "left": ITEMS[left], "right": ITEMS[right], "y": y}
    return pd.DataFrame(columns | {"times": rng.choice([0.0, 1.0, 2.5], n)})


@cache
def grades() -> pd.DataFrame:
    """Rows of two features in groups of six, with targets of several kinds."""
    rng, n = np.random.default_rng(21), 300
    frame = pd.DataFrame({"a": rng.uniform(-2, 2, n), "query": np.repeat(np.arange(n // 6), 6)})
    frame["b"] = rng.normal(size=n)
    f = np.sin(2 * frame.a) + 0.5 * frame.b
    frame["grade"] = np.round(2 * f + 0.3 * rng.normal(size=n))
    frame["price"] = 50.0 + 7.0 * f + 0.5 * rng.normal(size=n)
    frame["count"] = rng.poisson(np.exp(f)).astype(np.float64)
    frame["side"] = np.where(f + 0.3 * rng.normal(size=n) > 0, "up", "down")
    frame["third"] = np.digitize(frame.a + 0.1 * frame.b, [-1.0, 1.2])
    return frame.assign(times=rng.integers(0, 3, n).astype(np.float64))


@cache
def sales() -> pd.DataFrame:
    """Ids, categories and numbers, with targets of several kinds; no user rates an item twice."""
    rng, n = np.random.default_rng(22), 360
    cell = rng.permutation(30 * 20)[:n]
    user, item = cell // 20, cell % 20
    frame = pd.DataFrame({"user": [f"user {k}" for k in user], "item": item, "age": rng.normal(size=30)[user]})
    frame["price"] = rng.normal(size=n)
    frame["mood"] = pd.Categorical(np.array(["sad", "glad"])[rng.integers(0, 2, n)])
    frame["is_new"] = rng.random(n) < 0.3
    frame["y"] = rng.normal(size=n) + item % 5 + frame.price * frame.age + 0.5 * frame.is_new
    frame["side"] = np.where(frame.y > frame.y.median(), "yes", "no")
    frame["stars"] = 1 + np.digitize(frame.y, [0.0, 1.5, 2.5, 4.0])
    words = np.array(["awful", "bad", "fair", "good", "great"])
    frame["word"] = pd.Categorical(words[frame.stars - 1], categories=words, ordered=True)
    return frame.assign(times=rng.integers(0, 3, n).astype(np.float64))


# ------------------------------------------------------------------------------------------------------------- answers
def of_pairs(model: Any) -> Numbers:
    asked = judgements()[["left", "right"]].to_numpy()[:25]
    return {
        "utility": model.utility(return_std=True),
        "proba": model.predict_proba(asked),
        "moments": model.latent_mean_and_variance(asked),
        "rank": model.rank(n_samples=200).columns(),
        "file": through_file(model, lambda loaded: loaded.predict_proba(asked)),
    }


def of_crowd(model: Any) -> Numbers:
    asked = judgements()[["user", "left", "right"]].to_numpy()[:25]
    report = model.annotators(n_samples=50)
    return {
        "consensus": model.utility(return_std=True),
        "personal": model.utility(users=USERS[:4], return_std=True),
        "proba": model.predict_proba(asked),
        "annotators": {name: np.asarray(report[name]) for name in report},
        "file": through_file(model, lambda loaded: loaded.predict_proba(asked)),
    }


def of_groups(model: Any) -> Numbers:
    X = grades()[["a", "b"]][:25]
    return {
        "predict": model.predict(X, return_std=True),
        "preference": model.predict_preference(X[:12], X[12:24]),
        "file": through_file(model, lambda loaded: loaded.predict(X)),
    }


def of_features(model: Any) -> Numbers:
    X = grades()[["a", "b"]][:25]
    ask = "predict_proba" if hasattr(model, "classes_") else "predict"
    return {
        ask: getattr(model, ask)(X),
        "latent": model.predict_latent(X, return_std=True),
        "file": through_file(model, lambda loaded: getattr(loaded, ask)(X)),
    }


def of_ratings(model: Any) -> Numbers:
    asked = [(user, item) for user in ("user 1", "user 17", "stranger") for item in (0, 7, 19, 5000)]
    return {
        "predict": model.predict(asked),
        "proba": model.predict_proba(asked),
        "score of pairs": model.predict_score(asked, return_std=True),
        "recommend": model.recommend("user 3", 5, exclude_seen=False),
        "file": through_file(model, lambda loaded: loaded.predict_proba(asked)),
    }


def of_machine(model: Any) -> Numbers:
    X = sales()[[*model.feature_names_in_]][:25]
    ask = "predict_proba" if hasattr(model, "classes_") else "predict"
    return {
        ask: getattr(model, ask)(X),
        "moments": model.latent_mean_and_variance(X),
        "file": through_file(model, lambda loaded: getattr(loaded, ask)(X)),
    }


# ---------------------------------------------------------------------------------------------------------------- fits
class Kind(NamedTuple):
    """How an estimator is fitted to rows that are not in memory, and what it is asked afterwards."""

    rows: Callable[[], pd.DataFrame]
    answers: Callable[[Any], Numbers]
    options: Mapping[str, Any]


FM = {"n_factors": 2, "max_iter": 8}
KINDS = {
    "GPPLClassifier": Kind(judgements, of_pairs, {}),
    "CrowdGPPL": Kind(judgements, of_crowd, {"n_factors": 2, "tol": 1.0}),
    "GPPLRegressor": Kind(grades, of_groups, {"inducing": 12, "optimizer": None, "tol": 1e-2}),
    "SVGPRegressor": Kind(grades, of_features, {"inducing": 12, "max_iter": 40}),
    "SVGPClassifier": Kind(grades, of_features, {"inducing": 8, "tol": 1e-2, "learn_inducing": False}),
    "GibbsM3F": Kind(sales, of_ratings, {"n_factors": 3, "C": 0.5, "max_iter": 6, "burn_in": 2}),
    "VariationalFM": Kind(sales, of_machine, FM),
    "VariationalFMClassifier": Kind(sales, of_machine, FM),
    "VariationalFMOrdinal": Kind(sales, of_machine, FM),
}
SMALL = {
    "data": {"batch_rows": 90},  # of a shard of files
    "factorization": {
        "forgetting_sweeps": 1,
        "calibration_sweeps": 2,
        "least_calibration": 80,
        "shard_ratings": 150,
        "own_bytes": 0,
        "least_shard_rows": 40,
    },
    "gp.crowd": {"most_choice": 100, "held_out": 10},  # comparisons that choose the prior of tastes
    "gp.pairwise": {"hyper_pairs": 100, "all_rows": 40},  # that choose length-scales, and that are fitted in memory
    "gp.sparse": {"sample_rows": 150},
}


def parts(rows: pd.DataFrame) -> list[pd.DataFrame]:
    """Three runs of rows that keep groups of six together."""
    return [rows.iloc[6 * part[0] : 6 * part[-1] + 6] for part in np.array_split(np.arange(len(rows) // 6), 3)]


def stored(rows: pd.DataFrame, how: str, folder: Path) -> Any:
    """Rows as a file, a folder of files, or a dataset of pyarrow that is filtered or of CSV files."""
    from pyarrow import dataset

    if how == "file":
        rows.to_parquet(folder / "rows.parquet", row_group_size=100)
        return str(folder / "rows.parquet")
    for k, part in enumerate(parts(rows)):
        part.to_csv(folder / f"{k}.csv", index=False) if how == "csv" else part.to_parquet(folder / f"{k}.parquet")
    if how == "folder":
        return folder
    files = dataset.dataset(folder, format="csv" if how == "csv" else "parquet")
    return files if how == "csv" else files.filter(dataset.field(rows.columns[1]) != rows.iloc[0, 1])


@cache
def client() -> Any:
    """A cluster of threads in this process, until the process ends."""
    from distributed import Client

    return Client(processes=False, n_workers=2, threads_per_worker=1, dashboard_address=":0")


def lazy(rows: pd.DataFrame) -> Any:
    """Rows in four partitions, the second of which is empty."""
    from dask import dataframe

    first, *others = parts(rows)
    every = [dataframe.from_pandas(part, npartitions=1) for part in (first, rows[:0], *others)]
    return dataframe.concat(every, interleave_partitions=False)


@contextmanager
def limits(small: bool) -> Iterator[ExitStack]:
    """A stack of contexts in which limits are small."""
    with ExitStack() as stack:
        for package, fields in SMALL.items() if small else ():
            policy = importlib.import_module(f"skpref.{package}.policy").POLICY
            stack.enter_context(mock.patch.dict(vars(policy), vars(replace(policy, **fields))))
        yield stack


def kept(
    estimator: str,
    columns: Sequence[str],
    how: str = "folder",
    small: bool = True,
    names: Mapping[str, str] | None = None,
    fit: Mapping[str, str] | None = None,
    **options: Any,
) -> Numbers:
    """A fit to columns of rows in files; or on a cluster, by the names of y and weights or, `apart`, by collections.

    `names` are other names of columns; `fit` are columns that are named to `fit`.
    """
    kind, named = KINDS[estimator], dict(fit or {})
    rows = kind.rows()[list(columns)].rename(columns=dict(names or {}))
    settings = {"random_state": 0} | dict(kind.options) | options
    with limits(small) as stack:
        if how in {"cluster", "apart"}:
            client()
            X, given = lazy(rows), dict[str, Any](named)
            if how == "apart":
                given |= {argument: X[named[argument]] for argument in ("y", "sample_weight") if argument in named}
                X = X[[name for name in rows if name not in {named.get("y"), named.get("sample_weight")}]]
            model = getattr(skpref, estimator)(**settings).fit(X, **given)
        else:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            model = getattr(skpref, estimator)(**settings).fit(stored(rows, how, folder), **named)
    return learnt(model) | kind.answers(model)


def asked_lazily(estimator: str, methods: Sequence[str], columns: Sequence[str], y: str) -> Numbers:
    """Answers to a collection of Dask by a model that was fitted on the cluster."""
    client()
    rows = lazy(KINDS[estimator].rows()[[*columns, y]])
    X = rows[list(columns)]
    with limits(small=True):
        model = getattr(skpref, estimator)(random_state=0, **KINDS[estimator].options).fit(X, rows[y])
    return {method: getattr(model, method)(X).compute() for method in methods}


# --------------------------------------------------------------------------------------------------------------- cases
PAIR, TRIPLE, ROW = ["left", "right", "y"], ["user", "left", "right", "y"], ["a", "b"]
SALE = ["user", "age", "item", "price", "mood", "is_new"]


def tables() -> dict[str, dict[str, Any]]:
    of_items = skpref.Table(features(8, 2, seed=23), ids=ITEMS)
    of_users = skpref.Table(features(12, 2, seed=24), ids=USERS)
    other = {"left": "one", "right": "two"}
    return {
        "pairs": {"items": of_items, "inducing": 5},
        "crowd of items": {"items": of_items},
        "crowd of users": {"users": of_users},
        "named pairs": {"names": other} | other,
        "named crowd": {"names": other | {"user": "judge"}, "user": "judge"} | other,
    }


ONE_FILE: dict[str, Any] = {"how": "file", "small": False}


def file_cases() -> dict[str, Case]:
    return comparison_files() | feature_files() | rating_files()


def comparison_files() -> dict[str, Case]:
    of, weighted = tables(), {"weight": "times"}
    return variants(
        partial(kept, "GPPLClassifier"),
        "files GPPLClassifier",
        file={"columns": PAIR} | ONE_FILE,
        shards={"columns": PAIR},
        filtered={"columns": PAIR, "how": "filtered"},
        csv={"columns": PAIR, "how": "csv"},
        winners={"columns": PAIR[:2]},
        weights={"columns": [*PAIR, "times"]} | weighted,
        order_effect={"columns": PAIR, "order_effect": True},
        laplace={"columns": PAIR, "inference": "laplace", "likelihood": "logit"},
        features={"columns": PAIR} | of["pairs"],
        names={"columns": [*PAIR, "times"], "fit": {"y": "y"}} | weighted | of["named pairs"],
    ) | variants(
        partial(kept, "CrowdGPPL"),
        "files CrowdGPPL",
        file={"columns": TRIPLE} | ONE_FILE,
        shards={"columns": TRIPLE},
        csv={"columns": TRIPLE, "how": "csv"},
        weights={"columns": [*TRIPLE, "times"]} | weighted,
        logit={"columns": TRIPLE, "likelihood": "logit", "order_effect": True},
        items={"columns": TRIPLE} | of["crowd of items"],
        users={"columns": TRIPLE} | of["crowd of users"],
        names={"columns": [*TRIPLE, "times"], "fit": {"y": "y"}} | weighted | of["named crowd"],
    )


def feature_files() -> dict[str, Case]:
    by_name = {"y": "price", "sample_weight": "times"}
    return (
        variants(
            partial(kept, "GPPLRegressor", fit={"y": "grade", "qid": "query"}),
            "files GPPLRegressor",
            file={"columns": [*ROW, "query", "grade"]} | ONE_FILE,
            shards={"columns": [*ROW, "query", "grade"]},
            laplace={"columns": [*ROW, "query", "grade"], "inference": "laplace"},
            weights={
                "columns": [*ROW, "query", "grade", "times"],
                "fit": {"y": "grade", "qid": "query", "sample_weight": "times"},
                "likelihood": "logit",
            },
        )
        | variants(
            partial(kept, "SVGPRegressor", fit={"y": "price"}),
            "files SVGPRegressor",
            file={"columns": [*ROW, "price"]} | ONE_FILE,
            shards={"columns": [*ROW, "price"]},
            csv={"columns": [*ROW, "price"], "how": "csv"},
            weights={"columns": ["times", "a", "price", "b"], "fit": by_name},
            weights_in_a_file={"columns": ["times", "a", "price", "b"], "fit": by_name} | ONE_FILE,
            poisson={"columns": [*ROW, "count"], "fit": {"y": "count"}, "likelihood": "poisson"},
        )
        | variants(
            partial(kept, "SVGPClassifier", fit={"y": "side"}),
            "files SVGPClassifier",
            file={"columns": [*ROW, "side"]} | ONE_FILE,
            shards={"columns": [*ROW, "side"]},
            three={"columns": [*ROW, "third"], "fit": {"y": "third"}},
            weights={
                "columns": [*ROW, "side", "times"],
                "fit": {"y": "side", "sample_weight": "times"},
                "likelihood": "logit",
            },
        )
    )


def rating_files() -> dict[str, Case]:
    fm: dict[str, dict[str, Any]] = {
        "file": ONE_FILE,
        "shards": {},
        "filtered": {"how": "filtered"},
        "linear": {"n_factors": 0},
        "numbers are ids": {"categorical_features": ["user", "item"], "columns": ["user", "item", "age", "price"]},
        "weights": {"fit": {"sample_weight": "times"}},
    }

    def machine(y: str, columns: Sequence[str] = SALE, fit: Mapping[str, str] | None = None, **more: Any) -> Numbers:
        named = {"y": y} | dict(fit or {})
        estimators = {"y": "VariationalFM", "side": "VariationalFMClassifier"}
        estimator = estimators.get(y, "VariationalFMOrdinal")
        return kept(estimator, [*columns, *named.values()], fit=named, **more)

    cases = variants(
        partial(kept, "GibbsM3F", fit={"y": "stars"}),
        "files GibbsM3F",
        file={"columns": ["user", "item", "stars"]} | ONE_FILE,
        shards={"columns": ["user", "item", "stars"]},
        filtered={"columns": ["user", "item", "stars"], "how": "filtered"},
        csv={"columns": ["user", "item", "stars"], "how": "csv"},
        words={"columns": ["user", "item", "word"], "fit": {"y": "word"}},
        levels={"columns": ["user", "item", "stars"], "levels": range(7)},
        chains={"columns": ["user", "item", "stars"], "n_chains": 2, "dtype": "float32"},
        shared_thresholds={"columns": ["user", "item", "stars"], "user_thresholds": False},
        names={
            "columns": ["price", "item", "stars", "user", "times"],
            "names": {"user": "who", "item": "what"},
            "user": "who",
            "item": "what",
            "fit": {"y": "stars", "sample_weight": "times"},
        },
    )
    for estimator, y in (
        ("VariationalFM", "y"),
        ("VariationalFMClassifier", "side"),
        ("VariationalFMOrdinal", "stars"),
    ):
        cases |= variants(partial(machine, y), f"files {estimator}", **fm)
    return cases | variants(machine, "files VariationalFMOrdinal", words={"y": "word"})


def cluster_cases() -> dict[str, Case]:
    of, in_client = tables(), {"few rows": {"small": False}}
    by_name: dict[str, tuple[list[str], dict[str, str]]] = {
        "GPPLClassifier": (["left", "right"], {"y": "y"}),
        "CrowdGPPL": (["user", "left", "right"], {"y": "y"}),
        "GPPLRegressor": ([*ROW, "query"], {"y": "grade", "qid": "query"}),
        "SVGPRegressor": (ROW, {"y": "price"}),
        "SVGPClassifier": (ROW, {"y": "side"}),
        "GibbsM3F": (["user", "item"], {"y": "stars"}),
        "VariationalFM": (SALE, {"y": "y"}),
        "VariationalFMClassifier": (SALE, {"y": "side"}),
        "VariationalFMOrdinal": (SALE, {"y": "word"}),
    }
    more: dict[str, dict[str, dict[str, Any]]] = {
        "GPPLClassifier": {
            "order effect": {"order_effect": True, "likelihood": "logit"},
            "laplace": {"inference": "laplace"},
            "features": of["pairs"],
            "names": of["named pairs"],
            "weights": {"columns": [*PAIR, "times"], "weight": "times"},
        },
        "CrowdGPPL": in_client
        | {
            "order effect of users": {"order_effect": True} | of["crowd of users"],
            "names": of["named crowd"],
        },
        "GPPLRegressor": in_client | {"laplace": {"inference": "laplace"}},
        "SVGPRegressor": in_client | {"student t": {"likelihood": "student-t"}},
        "SVGPClassifier": in_client | {"logit": {"likelihood": "logit"}},
        "GibbsM3F": {"shared thresholds": {"user_thresholds": False, "dtype": "float32"}},
        "VariationalFM": {"linear": {"n_factors": 0}},
    }
    cases: dict[str, Case] = {}
    for estimator, (columns, fit) in by_name.items():
        y, weighted = fit["y"], fit | {"sample_weight": "times"}
        plain = partial(kept, estimator, columns=[*columns, y], how="cluster", fit=fit)
        apart = {"columns": [*columns, y, "times"], "how": "apart", "fit": weighted}
        cases |= variants(plain, f"Dask {estimator}", shards={}, weights_apart=apart, **more.get(estimator, {}))
    lazily = {
        "GPPLClassifier": ["predict", "predict_proba", "decision_function", "predict_preference"],
        "CrowdGPPL": ["predict", "predict_proba", "decision_function", "predict_preference"],
        "SVGPRegressor": ["predict"],
        "SVGPClassifier": ["predict", "predict_proba"],
        "GibbsM3F": ["predict", "predict_proba", "predict_score"],
        "VariationalFM": ["predict"],
        "VariationalFMClassifier": ["predict", "predict_proba"],
        "VariationalFMOrdinal": ["predict", "predict_proba"],
    }
    for estimator, methods in lazily.items():
        columns, fit = by_name[estimator]
        cases[f"Dask {estimator} asked lazily"] = partial(asked_lazily, estimator, methods, columns, fit["y"])
    return cases
