"""Numbers of every estimator that must stay the same when code is moved and nothing else is meant to change.

::

    python benchmarks/same_predictions.py save before.npz
    python benchmarks/same_predictions.py compare before.npz     # ends with 1 where anything has changed
    python benchmarks/same_predictions.py compare before.npz --only CrowdGPPL   # cases whose name contains it
    python benchmarks/same_predictions.py compare before.npz --only Dask files  # or one of several words

Both fit small simulated data with fixed seeds on one thread: in memory (cases named by their estimator), to files of
rows ("files ..."), on a cluster of threads ("Dask ..."), by the command line ("command ..."); and read tables of
comparisons ("reader ..."). All goes through public names but for the limits in `_same_files.SMALL`. `save` stores
predictions, their uncertainty, bounds, numbers of iterations and what was learnt, printed and written (but no times);
`compare` prints, for each case, how far they are from what was stored. Differences are relative to max(1, size of the
number). Another numpy, numba or machine may round otherwise: save and compare on the same one. Code that numba has just
compiled rounds otherwise (1e-14) than the same code from its cache: run twice. Set PYTHONPATH to choose the code; the
folder it comes from is printed.
"""

# ruff: noqa: ANN401 - options of estimators, estimators and their answers are of any type

from __future__ import annotations

import os

os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

import argparse
import sys
import time
import traceback
import warnings
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from _same_commands import command_cases, reader_cases
from _same_files import cluster_cases, file_cases
from _same_numbers import (
    Array,
    Case,
    Numbers,
    comparisons,
    crowd,
    features,
    learnt,
    numbers,
    ratings,
    through_file,
    truth,
    variants,
)
from scipy import sparse
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.pipeline import make_pipeline

import skpref
from skpref import LBFGS, SVI, Inducing, elicitation, kernels

if TYPE_CHECKING:
    from collections.abc import Mapping

TOLERANCE = 1e-12


# ---------------------------------------------------------------------------------------------------------- comparisons
def pairwise_regressor(how: str, again: bool = False, **options: Any) -> Numbers:
    X, (pairs, y) = features(), comparisons()
    winners = np.where((y >= 0.5)[:, None], pairs, pairs[:, ::-1])
    grades, qid = np.round(truth(X)), np.arange(60) % 3
    data: Numbers = {"comparisons": winners} if how == "comparisons" else {"y": grades, "qid": qid}
    model = skpref.GPPLRegressor(random_state=0, **options).fit(X, **data)
    if again:
        model.fit(X, **data)
    X_new = features(25, seed=9)
    return learnt(model) | {
        "predict": model.predict(X_new, return_std=True),
        "covariance": model.predict(X_new[:6], return_cov=True),
        "preference": model.predict_preference(X_new[:12], X_new[12:24]),
        "samples": model.sample_y(X_new[:5], 3, random_state=1),
        "score": model.score(X, grades, qid=qid),
        "file": through_file(model, lambda loaded: loaded.predict(X_new)),
    }


def pairwise_classifier(
    table: bool = True, n_items: int = 60, again: bool = False, soft: bool = False, **options: Any
) -> Numbers:
    pairs, y = comparisons(400 if n_items == 60 else 5000, n_items)
    items = skpref.Table(features(n_items)) if table else None
    weight = np.random.default_rng(4).uniform(0.5, 2.0, y.size) if soft else None
    model = skpref.GPPLClassifier(items, random_state=0, **options)
    model.fit(pairs, 0.1 + 0.8 * y if soft else y, sample_weight=weight)
    if again:
        model.set_params(warm_start=True).fit(pairs, y)
    asked = np.random.default_rng(5).choice(60 if table else 50, (30, 2))
    asked = asked[asked[:, 0] != asked[:, 1]]
    result = learnt(model) | {
        "proba": model.predict_proba(asked),
        "preference": model.predict_preference(asked),
        "decision": model.decision_function(asked),
        "moments": model.latent_mean_and_variance(asked),
        "covariance": model.latent_covariance(asked[:8]),
        "utility": model.utility(return_std=True),
        "rank": model.rank(n_samples=300).columns(),
        "samples": model.sample_utility(n_samples=2, random_state=1),
        "score": model.score(pairs, y),
        "file": through_file(model, lambda loaded: loaded.predict_proba(asked)),
    }
    if table:
        result["utility of features"] = model.utility(item_effects=False, return_std=True)
        result["rank of new features"] = model.rank(features(10, seed=8), n_samples=300).columns()
    return result


def crowd_of_users(items: bool = False, users: bool = False, parts: bool = False, **options: Any) -> Numbers:
    rows, y, people = crowd()
    model = skpref.CrowdGPPL(
        skpref.Table(features()) if items else None,
        skpref.Table(people, ids=100 + np.arange(20)) if users else None,
        random_state=0,
        **{"n_factors": 4} | options,
    )
    model.fit(rows[:500], y[:500]) if parts else model.fit(rows, y)
    if parts:
        model.partial_fit(rows[500:], y[500:])
    asked = np.array([(user, a, 29 - a) for user in (100, 107, 119) for a in range(10)])  # nobody has seen user 119
    report = model.annotators(n_samples=100)
    result = learnt(model) | {
        "proba": model.predict_proba(asked),
        "preference of users": model.predict_preference(asked),
        "preference of all": model.predict_preference(asked[:10, 1:]),
        "moments": model.latent_mean_and_variance(asked),
        "covariance": model.latent_covariance(asked[:10]),
        "consensus": model.utility(return_std=True),
        "personal": model.utility(users=[100, 107, 119], return_std=True),
        "rank": model.rank(n_samples=200).columns(),
        "rank of a user": model.rank(user=103, n_samples=200).columns(),
        "annotators": {name: np.asarray(report[name]) for name in report},
        "score": model.score(rows, y),
        "file": through_file(model, lambda loaded: loaded.predict_proba(asked)),
    }
    if options.get("n_factors", 4):
        result |= {"similar users": model.similar_users(101, 4), "similar items": model.similar_items(5, 4)}
    return result


# ---------------------------------------------------------------------------------------- rows of features and a target
def ordinal(again: bool = False, weights: bool = False, **options: Any) -> Numbers:
    X, X_new = features(120, seed=6), features(25, seed=9)
    y = np.digitize(truth(X) + 0.4 * np.random.default_rng(6).normal(size=120), [-1.0, 0.0, 1.0])
    if options.get("kernel") == "precomputed":
        X, X_new = RBF(1.5)(X), RBF(1.5)(X_new, X)
    model = skpref.GPOrdinalRegressor(random_state=0, **{"optimizer": LBFGS(1)} | options)
    if again:
        model.partial_fit(X[:80], y[:80], classes=range(4)).partial_fit(X[80:], y[80:])
    else:
        model.fit(X, y, sample_weight=np.linspace(0.2, 1.0, 120) if weights else None)
    return learnt(model) | {
        "predict": (model.predict(X_new), model.predict(X_new, loss="absolute")),
        "proba": model.predict_proba(X_new),
        "latent": model.predict_latent(X_new, return_std=True),
        "score": model.score(X, y),
        "ensemble": [numbers([part.weight, part.likelihood]) for part in getattr(model, "ensemble_", ())],
        "evidence": model.log_marginal_likelihood() if model.inference_ in {"ep", "laplace"} else None,
        "file": through_file(model, lambda loaded: loaded.predict_proba(X_new)),
    }


def regression(
    target: str = "number", n: int = 300, parts: int = 1, again: bool = False, csr: bool = False, **options: Any
) -> Numbers:
    rng, X, X_new = np.random.default_rng(7), features(n, seed=7), features(25, seed=9)
    f = truth(X)
    noisy = {"number": 5.0 + f + 0.3 * rng.normal(size=n), "outliers": f + 0.3 * rng.standard_t(2, n)}
    y = rng.poisson(np.exp(0.5 * f)).astype(np.float64) if target == "count" else noisy[target]
    if csr:
        X, X_new = (sparse.csr_array(np.where(np.abs(part) < 0.5, 0.0, part)) for part in (X, X_new))
    model = skpref.SVGPRegressor(random_state=0, **{"max_iter": 60} | options)
    if parts == 1:
        model.fit(X, y, sample_weight=None if again else np.tile([1.0, 2.0], n // 2))
    if again:
        model.set_params(warm_start=True).fit(X, y)
    for rows in np.array_split(np.arange(n), parts) if parts > 1 else ():
        model.partial_fit(X[rows], y[rows])
    result = learnt(model) | {
        "predict": model.predict(X_new, return_std=True),
        "function": model.predict(X_new, return_std=True, noise=False),
        "latent": model.predict_latent(X_new, return_std=True),
        "score": model.score(X, y),
        "file": through_file(model, lambda loaded: loaded.predict(X_new)),
    }
    if target != "count":
        result["covariance"] = model.predict(X_new[:6], return_cov=True)
        result["samples"] = model.sample_y(X_new[:5], 3, random_state=1)
    if model.inference_ == "collapsed":
        theta = np.append(model.kernel_.theta, np.log(model.noise_ / model.y_scale_))
        result["evidence"] = model.log_marginal_likelihood(theta + 0.1, eval_gradient=True)
    return result


def classes(n_classes: int = 2, parts: int = 1, again: bool = False, **options: Any) -> Numbers:
    X, X_new = features(240, seed=7), features(25, seed=9)
    f = truth(X) + 0.5 * np.random.default_rng(8).normal(size=240)
    y = np.array(["low", "middle", "high"])[np.digitize(f, [-0.7, 0.7])] if n_classes == 3 else f > 0
    model = skpref.SVGPClassifier(random_state=0, **{"inducing": 25, "max_iter": 40} | options)
    for rows in np.array_split(np.arange(240), parts) if parts > 1 else ():
        model.partial_fit(X[rows], y[rows], classes=np.unique(y))
    if parts == 1:
        model.fit(X, y)
    if again:
        model.set_params(warm_start=True).fit(X, y)
    return learnt(model) | {
        "proba": model.predict_proba(X_new),
        "latent": model.predict_latent(X_new, return_std=True),
        "score": model.score(X, y),
        "file": through_file(model, lambda loaded: loaded.predict_proba(X_new)),
    }


def latent(again: bool = False, **options: Any) -> Numbers:
    rng, t = np.random.default_rng(10), features(80, 2, seed=10)
    X = np.column_stack([np.sin(t[:, 0]), t[:, 0], np.cos(2 * t[:, 0]), t[:, 1], t.sum(axis=1)])
    X += 0.1 * rng.normal(size=X.shape)
    model = skpref.BayesianGPLVM(random_state=0, **{"inducing": 15, "max_iter": 80} | options).fit(X[:70])
    if again:
        model.set_params(warm_start=True).fit(X[:70])
    place = model.transform(X[70:])
    return learnt(model) | {
        "transform": model.transform(X[70:], return_std=True),
        "inverse": model.inverse_transform(place, return_std=True),
        "reconstruct": model.reconstruct(X[70:], return_std=True),
        "score": (model.score_samples(X[70:]), model.score(X[70:])),
        "file": through_file(model, lambda loaded: loaded.transform(X[70:])),
    }


# -------------------------------------------------------------------------------------------------------- factorization
def rated(estimator: str, later: str = "", **options: Any) -> Numbers:
    X, y = ratings()
    make = getattr(skpref, estimator)
    model = make(random_state=0, **{"C": 0.2, "max_iter": 14, "burn_in": 4, "levels": [1, 2, 3, 4, 5]} | options)
    model.fit(X, y, sample_weight=np.tile([1.0, 2.0], y.size)[: y.size] if later == "weights" else None)
    if later == "warm":
        model.set_params(warm_start=True).fit(X, y)
    if later == "partial":
        model.partial_fit([("u0", 1000), ("new", 3), ("new", 1000)], [5, 1, 4])
    if later == "fold":
        model.fold_in([("new", i) for i in range(0, 40, 4)], np.arange(10) % 5 + 1)
    asked = [(user, item) for user in ("u0", "u7", "new", "stranger") for item in (0, 5, 11, 39, 5000)]
    return learnt(model) | {
        "predict": model.predict(asked),
        "proba": model.predict_proba(asked),
        "score of pairs": model.predict_score(asked, return_std=True),
        "recommend": (model.recommend("u3", 5), model.recommend("u3", 5, optimism=1.0)),
        "score": model.score(X, y),
        "file": through_file(model, lambda loaded: loaded.predict_proba(asked)),
    }


def machine(
    design: str = "ids", kind: str = "number", parts: bool = False, again: bool = False, **options: Any
) -> Numbers:
    """A factorization machine on ids, ids with implicit feedback, or measured features (dense, or CSR with zeros)."""
    pairs, level = ratings()
    X: Any = features(400, 6, seed=11)
    measured = truth(X) + X[:, 3] * X[:, 4] + 0.3 * np.random.default_rng(11).normal(size=400)
    if design in {"ids", "implicit"}:
        encoder = skpref.OneHotDesign(implicit=design == "implicit").fit(pairs)
        X, target = encoder.transform(pairs), level - 3.0
        options = {"groups": encoder.groups_} | options if design == "implicit" else options
        X_new = encoder.transform([("u0", 0), ("u0", 39), ("stranger", 5), ("u7", 5000), ("stranger", 5000)])
    else:
        X = sparse.csr_array(np.where(np.abs(X) < 0.5, 0.0, X)) if design == "csr" else X
        X, X_new, target = X[:350], X[350:], measured[:350]
    make: Any
    make, y = {
        "number": (skpref.VariationalFM, target),
        "class": (skpref.VariationalFMClassifier, np.where(target > 0, "yes", "no")),
        "level": (skpref.VariationalFMOrdinal, np.digitize(target, [-1.0, 0.0, 1.0])),
    }[kind]
    model = make(random_state=0, **{"n_factors": 3, "max_iter": 30} | options)
    half = y.size // 2
    model.fit(X[:half], y[:half]) if parts else model.fit(X, y)
    if parts:
        model.partial_fit(X[half:], y[half:], freeze=1 if design == "ids" else None)
    if again:
        model.set_params(warm_start=True).fit(X, y)
    probable = kind != "number"
    return learnt(model) | {
        "predict": model.predict_proba(X_new) if probable else model.predict(X_new, return_std=True),
        "last": model.predict_last(X_new) if hasattr(model, "predict_last") else None,
        "moments": model.latent_mean_and_variance(X_new),
        "covariance": model.latent_covariance(X_new[:5]),
        "samples": model.sample_y(X_new[:5], 3),
        "score": model.score(X, y),
        "file": through_file(model, lambda loaded: loaded.predict(X_new)),
    }


# ----------------------------------------------------------------------------------------------------------- questions,
@cache
def asked_model(kind: str) -> Any:
    pairs, level = ratings()
    encoder = skpref.OneHotDesign()
    if kind == "numbers":
        return make_pipeline(encoder, skpref.VariationalFM(3, max_iter=30, random_state=0)).fit(pairs, level)
    if kind == "likes":
        return make_pipeline(encoder, skpref.VariationalFMClassifier(3, max_iter=30, random_state=0)).fit(
            pairs, level > 3
        )
    if kind == "levels":
        return skpref.GibbsM3F(4, C=0.2, max_iter=20, burn_in=5, levels=[1, 2, 3, 4, 5], random_state=0).fit(
            pairs, level
        )
    if kind == "pairs":
        return skpref.GPPLClassifier(skpref.Table(features()), random_state=0).fit(*comparisons())
    return skpref.CrowdGPPL(n_factors=2, random_state=0).fit(*crowd()[:2])


def session(kind: str, strategy: str, user: Any = None) -> Numbers:
    """Six questions of somebody whose answers are fixed in advance."""
    asking = elicitation.Session(asked_model(kind), strategy=strategy, user=user, random_state=0)
    replies = {"numbers": np.arange(1.0, 6.0), "levels": np.arange(1, 6), "likes": np.array([False, True])}
    possible = replies.get(kind, np.array([0.0, 1.0, 0.5]))
    rows: list[int] = []
    beliefs = []
    for _ in range(3):
        new = [int(row) for row in asking.ask(2)]
        asking.tell({row: possible[7 * row % possible.size] for row in new})
        beliefs.append((asking.belief_.mean, asking.belief_.variance, asking.belief_.probability))
        rows += new
    told = None  # a GPPLClassifier does not learn from a session
    if kind == "crowd":
        told = asking.model_.utility(return_std=True)
    elif kind != "pairs":
        told = asking.model_.predict([(who, item) for who in ("u0", user or "new") for item in (0, 7, 39)])
    return {"asked": rows, "beliefs": beliefs, "estimates": asking.estimates(), "model": told}


def replayed() -> Numbers:
    likes = (features(10, 40, seed=12) > 0).astype(np.int64)
    asking = elicitation.Session(asked_model("likes"))

    def start(person: int, strategy: str, seed: int) -> elicitation.Session:
        return asking.fresh(strategy, random_state=1000 * seed + person)

    found = elicitation.replay(start, likes > 0, np.arange(40) >= 25, n_questions=4, batch=2)
    return {"scores": found.scores}


# ---------------------------------------------------------------------------------------------------------------- cases
def comparison_cases() -> dict[str, Case]:
    matern, mixed = kernels.ProductMatern([1.0, 2.0, 3.0]), kernels.AdditiveMatern(2.0, nu=2.5)
    columns = kernels.Columns(mixed, [0]) + ConstantKernel(0.5) * kernels.Columns(kernels.Linear(0.5), slice(1, 3))
    compared, ranked = {"how": "comparisons"}, {"how": "scores"}
    fast = {"optimizer": None}
    mini = {"inference": SVI(64), "max_iter": 20}
    large = {"inference": SVI(200), "max_iter": 20}
    features_of_both = {"items": True, "users": True}
    return (
        variants(
            pairwise_regressor,
            "GPPLRegressor",
            comparisons=compared,
            scores=ranked,
            logit=compared | {"likelihood": "logit"},
            ard=compared | {"kernel": matern, "optimizer": "l-bfgs-b"},
            columns=ranked | {"kernel": columns, "optimizer": LBFGS(1)},
            few_inducing=ranked | fast | {"inducing": Inducing(12, "kmeans"), "pairs_per_item": 3},
            svi=compared | fast | mini,
            laplace=compared | fast | {"inference": "laplace"},
            linearised=compared | fast | {"inference": "linearised"},
            warm=ranked | fast | {"again": True, "warm_start": True, "max_iter": 4},
        )
        | variants(
            pairwise_classifier,
            "GPPLClassifier",
            table={},
            no_table={"table": False},
            no_table_logit={"table": False, "likelihood": "logit", "order_effect": True},
            order_effect={"order_effect": True},
            no_item_effects=fast | {"item_effects": False},
            ties=fast | {"likelihood": "probit-ties", "order_effect": True},
            ties_no_table={"table": False, "likelihood": "probit-ties"},
            svi=fast | mini,
            svi_no_table=mini | {"table": False},
            linearised=fast | {"inference": "linearised"},
            ard={"kernel": matern, "optimizer": "l-bfgs-b", "inducing": 20},
            many_items=fast | {"n_items": 1600, "inducing": 60, "max_iter": 15},
            many_items_no_table={"table": False, "n_items": 1600, "max_iter": 15},
            soft_and_weighted=fast | {"soft": True},
            warm=fast | {"again": True, "max_iter": 4},
        )
        | variants(
            crowd_of_users,
            "CrowdGPPL",
            plain={},
            features=features_of_both,
            items_only={"items": True, "item_effects": False},
            order_effect={"order_effect": True},
            order_effect_of_features=features_of_both | fast | {"order_effect": True, "likelihood": "logit"},
            no_factors={"n_factors": 0, "order_effect": True},
            no_consensus={"consensus": False},
            ties={"likelihood": "probit-ties"},
            svi=large,
            svi_features=features_of_both | fast | large | {"inducing": 15},
            linearised={"inference": "linearised"},
            optimizer=features_of_both | {"kernel": matern, "optimizer": "l-bfgs-b", "n_factors": 2, "max_iter": 30},
            partial_fit={"parts": True},
            partial_fit_features=features_of_both | fast | {"parts": True},
        )
    )


def row_cases() -> dict[str, Case]:
    noisy = ConstantKernel(1.0) * RBF(1.0) + kernels.Linear(0.5)
    adam = {"optimizer": "adam", "inference": SVI(60), "max_iter": 15, "inducing": 20}
    svi = {"inference": SVI(60), "optimizer": None, "max_iter": 15, "inducing": 20}
    return (
        variants(
            ordinal,
            "GPOrdinalRegressor",
            default={},
            auto={"kernel": "auto"},
            ard={"kernel": "ard"},
            linear_ard={"kernel": "linear-ard"},
            precomputed={"kernel": "precomputed"},
            bound={"evidence": "bound"},
            laplace={"inference": "laplace"},
            laplace_weighted={"inference": "laplace", "weights": True},
            sparse={"inference": "vb", "inducing": 20, "optimizer": LBFGS(0)},
            svi={"inference": SVI(40), "inducing": 20, "max_iter": 20, "optimizer": None},
            no_search={"optimizer": None, "class_order": range(4)},
            partial_fit={"again": True, "inducing": 20, "optimizer": LBFGS(0)},
        )
        | variants(
            regression,
            "SVGPRegressor",
            default={},
            many_rows={"n": 12000, "inducing": 30, "max_iter": 15},
            few_inducing={"inducing": 20},
            still_inducing={"inducing": Inducing(20, "variance"), "learn_inducing": False},
            sum_of_kernels={"kernel": noisy, "inducing": 30},
            known_noise={"noise": 0.3, "inducing": 30},
            csr={"csr": True, "inducing": 30},
            adam=adam,
            svi=svi,
            student_t={"likelihood": "student-t", "target": "outliers", "inducing": 25, "max_iter": 30},
            poisson={"likelihood": "poisson", "target": "count", "inducing": 25, "max_iter": 30},
            poisson_adam=adam | {"likelihood": "poisson", "target": "count"},
            partial_fit={"parts": 3, "inducing": 20},
            partial_fit_window={"parts": 3, "inducing": 20, "window": 150},
            partial_fit_student_t={"parts": 2, "inducing": 15, "likelihood": "student-t", "max_iter": 20},
            warm={"again": True, "inducing": 20, "max_iter": 5},
        )
        | variants(
            classes,
            "SVGPClassifier",
            two={},
            two_logit={"likelihood": "logit"},
            three={"n_classes": 3},
            three_logit={"n_classes": 3, "likelihood": "logit", "learn_inducing": False},
            adam=adam,
            svi=svi | {"n_classes": 3},
            partial_fit={"parts": 2},
            partial_fit_three={"parts": 2, "n_classes": 3, "learn_inducing": False},
            warm={"again": True, "max_iter": 5},
        )
        | variants(
            latent,
            "BayesianGPLVM",
            default={},
            two_components={"n_components": 2},
            more_components_than_rank={"n_components": 7, "max_iter": 40},
            warm={"n_components": 2, "again": True, "max_iter": 20},
        )
    )


def factor_cases() -> dict[str, Case]:
    gibbs: dict[str, dict[str, Any]] = {
        "default": {},
        "chains": {"n_chains": 2, "n_samples": 5},
        "scores": {"prediction": "scores"},
        "median": {"prediction": "median"},
        "average": {"prediction": "average"},
        "last": {"prediction": "last"},
        "shared_thresholds": {"user_thresholds": False, "sigma": 0.8, "margin": 5.0},
        "weights": {"later": "weights"},
        "warm_start": {"later": "warm"},
        "partial_fit": {"later": "partial"},
        "fold_in": {"later": "fold", "n_chains": 2},
    }
    fm: dict[str, dict[str, Any]] = {
        "ids": {},
        "implicit": {"design": "implicit"},
        "dense": {"design": "dense"},
        "csr": {"design": "csr"},
        "factorised": {"posterior": "factorised"},
        "factorised_dense": {"design": "dense", "posterior": "factorised"},
        "groups": {"design": "dense", "groups": ["a", "a", "a", "b", "b", "b"]},
        "linear": {"n_factors": 0},
        "fixed_priors": {"learn_priors": False, "max_iter": 10},
        "float32": {"dtype": "float32", "design": "implicit", "max_iter": 10},
        "batches": {"batch_size": 64, "max_iter": 15},
        "batches_implicit": {"design": "implicit", "batch_size": 64, "max_iter": 8},
        "batches_dense": {"design": "dense", "batch_size": 64, "average": False, "max_iter": 15},
        "samples": {"batch_size": 64, "n_samples": 3, "max_iter": 10},
        "early_stopping": {"early_stopping": True, "n_iter_no_change": 3},
        "partial_fit": {"parts": True},
        "partial_fit_dense": {"parts": True, "design": "dense", "batch_size": 64, "max_iter": 8},
        "warm": {"again": True, "max_iter": 4},
    }
    return (
        variants(partial(rated, "GibbsM3F", n_factors=4), "GibbsM3F", float32={"dtype": "float32"}, **gibbs)
        | variants(partial(rated, "GibbsIPM3F"), "GibbsIPM3F", sparing={"alpha": 1.0, "max_new": 3}, **gibbs)
        | variants(machine, "VariationalFM", **fm)
        | variants(partial(machine, kind="class"), "VariationalFMClassifier", logit={"link": "logit"}, **fm)
        | variants(
            partial(machine, kind="level"),
            "VariationalFMOrdinal",
            gibbs={"inference": "gibbs", "max_iter": 12, "burn_in": 4},
            gibbs_implicit={"design": "implicit", "inference": "gibbs", "max_iter": 12, "burn_in": 4},
            **{name: options for name, options in fm.items() if name not in {"batches_implicit", "samples", "warm"}},
        )
    )


def session_cases() -> dict[str, Case]:
    plain = tuple(strategy for strategy in elicitation.STRATEGIES if strategy != "mean")  # which is for two answers
    # Comparisons here have ties, which are a third answer.
    strategies = dict.fromkeys(("numbers", "levels", "pairs", "crowd"), plain) | {"likes": elicitation.STRATEGIES}
    known = {"numbers": "u3", "likes": "u3", "crowd": 105}
    sessions = {f"{kind} {how}": partial(session, kind, how) for kind, all_ in strategies.items() for how in all_}
    sessions |= {f"{kind} of a known user": partial(session, kind, "determinant", user) for kind, user in known.items()}
    return {f"Session {name}": case for name, case in sessions.items()} | {"replay": replayed}


# ----------------------------------------------------------------------------------------------------- save and compare
def measured(cases: dict[str, Case]) -> dict[str, Array]:
    """All numbers of all cases, by "case: quantity"; a case that fails is reported and left out."""
    found: dict[str, Array] = {}
    for name, case in cases.items():
        start = time.process_time()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # short fits do not converge
                result = {f"{name}: {quantity}": numbers(value) for quantity, value in case().items()}
        except Exception:  # noqa: BLE001 - the other cases are still of interest
            traceback.print_exc()
            result = {}
        found |= result
        size = sum(values.size for values in result.values())
        print(f"{name:45s} {size:7d} values {time.process_time() - start:6.2f} s", file=sys.stderr, flush=True)
    return found


def differences(old: Array, new: Array) -> tuple[float, float]:
    """Largest relative and absolute difference: 0 between two NaN, infinite where only one is or shapes differ."""
    if old.shape != new.shape:
        return np.inf, np.inf
    with np.errstate(invalid="ignore"):
        gap = np.where((old == new) | (np.isnan(old) & np.isnan(new)), 0.0, np.abs(new - old))
        gap = np.where(np.isnan(gap), np.inf, gap)
        relative = np.where(np.isinf(gap), np.inf, gap / np.fmax(1.0, np.abs(old)))
    return float(np.max(relative, initial=0.0)), float(np.max(gap, initial=0.0))


def compared_with(stored: Mapping[str, Array], found: Mapping[str, Array]) -> int:
    """Print a line for each case; return how many have changed or are missing."""
    by_case: dict[str, list[tuple[float, float, int, str]]] = {}
    for key in dict.fromkeys([*stored, *found]):
        case, quantity = key.split(": ", 1)
        both = key in stored and key in found
        gaps = differences(stored[key], found[key]) if both else (np.inf, np.inf)
        text = quantity if both else f"{quantity} ({'now' if key in stored else 'then'} missing)"
        by_case.setdefault(case, []).append((*gaps, stored[key].size if key in stored else 0, text))
    print(f"{'case':45s} {'values':>7s} {'relative':>9s} {'absolute':>9s}")
    failed = 0
    for case, rows in by_case.items():
        relative, absolute, _, worst = max(rows)
        size, wrong = sum(row[2] for row in rows), relative > TOLERANCE
        failed += wrong
        print(f"{case:45s} {size:7d} {relative:9.1e} {absolute:9.1e}{f'  <- {worst}' if wrong else ''}")
    print(f"{len(by_case)} cases, {failed} of them changed")
    return failed


def main() -> int:
    """Measure; save or compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["save", "compare"])
    parser.add_argument("file", type=Path)
    parser.add_argument(
        "--only", nargs="+", default=[""], metavar="WORD", help="cases whose name contains one of these"
    )
    args = parser.parse_args()
    print(f"skpref of {Path(skpref.__file__).parent}", file=sys.stderr)
    cases = comparison_cases() | row_cases() | factor_cases() | session_cases()
    cases |= file_cases() | cluster_cases() | command_cases() | reader_cases()
    start = time.process_time()
    chosen = {name: case for name, case in cases.items() if any(word in name for word in args.only)}
    found = measured(chosen)
    print(f"{len(chosen)} cases, {time.process_time() - start:.0f} s of CPU", file=sys.stderr)
    complete = len({key.split(": ", 1)[0] for key in found}) == len(chosen)
    if args.action == "save":
        np.savez_compressed(args.file, **found)
        return 0 if complete else 1
    with np.load(args.file) as file:
        names = {key: key.split(": ", 1)[0] for key in file.files}
        stored = {key: file[key] for key, name in names.items() if any(word in name for word in args.only)}
    return 1 if compared_with(stored, found) or not complete else 0


if __name__ == "__main__":
    sys.exit(main())
