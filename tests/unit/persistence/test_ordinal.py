"""Files of ordinal models: what comes back is what was saved, goes on learning, and hangs together or is refused."""

from __future__ import annotations

import copy
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from skpref import GPOrdinalRegressor
from skpref.exceptions import ModelFormatError, SkprefError
from skpref.kernels import Linear
from skpref.persistence import load, save
from skpref.persistence._archive import read_archive, write_archive

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

RNG = np.random.default_rng(0)
N = 18
X = RNG.normal(size=(N, 3))
Y = np.digitize(X[:, 0] + 0.2 * RNG.normal(size=N), [-0.5, 0.5])
NAMES = np.array(["poor", "fair", "good"])
K = RBF(1.3)(X)
CSR = sparse.csr_array(np.where(np.abs(X) > 0.4, X, 0.0))
WEIGHT = np.where(np.arange(N) % 4, 2.0, 0.0)


def fit(rows: Any = X, labels: Any = Y, weight: Any = None, **params: Any) -> GPOrdinalRegressor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        params = {"random_state": 0, "optimizer": None} | params
        return GPOrdinalRegressor(**params).fit(rows, labels, sample_weight=weight)


FITTED: dict[str, Callable[[], GPOrdinalRegressor]] = {
    "exact": fit,
    "learnt": lambda: fit(optimizer="l-bfgs-b", n_restarts_optimizer=0),
    "laplace, strings": lambda: fit(labels=NAMES[Y], inference="laplace", class_order=NAMES),
    "strings by alphabet": lambda: fit(labels=NAMES[Y]),
    "objects": lambda: fit(labels=NAMES[Y].astype(object), class_order=NAMES.astype(object)),
    "booleans": lambda: fit(labels=Y > 0),
    "floats, a level missing": lambda: fit(labels=Y + 0.0, class_order=[-1.0, 0.0, 1.0, 2.0]),
    "precomputed": lambda: fit(K, kernel="precomputed"),
    "precomputed, weights": lambda: fit(K, weight=WEIGHT, kernel="precomputed"),
    "sparse rows": lambda: fit(CSR, kernel=Linear([1.0, 0.5, 2.0])),
    "vb": lambda: fit(inference="vb"),
    "vb, few points": lambda: fit(inference="vb", n_inducing=5, kernel=ConstantKernel(2.0) * RBF(1.0) + Linear()),
    "svi, sparse rows": lambda: fit(CSR, inference="svi", batch_size=5, n_inducing=6, max_iter=4),
    "parts": lambda: fit(X[:9], Y[:9], class_order=[0, 1, 2]).partial_fit(X[9:], Y[9:]),
    "auto": lambda: fit(kernel="auto", optimizer="l-bfgs-b"),
}


@pytest.fixture(scope="module")
def fitted() -> dict[str, GPOrdinalRegressor]:
    return {name: make() for name, make in FITTED.items()}


def outputs(model: GPOrdinalRegressor) -> list[np.ndarray]:
    rows = K if model.kernel == "precomputed" else X + 0.1
    out = [model.predict_proba(rows), model.predict(rows), *model.predict_latent(rows, return_std=True)]
    if model.inference_ in {"ep", "laplace"}:
        out += model.log_marginal_likelihood(eval_gradient=True)
    return out if model.kernel == "precomputed" else [*out, model.relevance_]


def assert_equal(after: GPOrdinalRegressor, before: GPOrdinalRegressor) -> None:
    for got, wanted in zip(outputs(after), outputs(before), strict=True):
        assert np.array_equal(got, wanted)


@pytest.mark.parametrize("name", FITTED)
def test_predictions_are_equal_to_the_bit(fitted: dict[str, Any], name: str, tmp_path: Path) -> None:
    before = fitted[name]
    save(before, tmp_path / "a")
    after = load(tmp_path / "a")
    assert_equal(after, before)
    assert vars(after).keys() == vars(before).keys()
    assert after.classes_.tolist() == before.classes_.tolist()
    assert after.ensemble_[0].latent is after.posterior_
    save(after, tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("name", ["exact", "vb, few points", "parts", "svi, sparse rows"])
def test_a_loaded_model_goes_on_learning(fitted: dict[str, Any], name: str, tmp_path: Path) -> None:
    save(fitted[name], tmp_path / "m")
    after, before = load(tmp_path / "m"), copy.deepcopy(fitted[name])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for model in (after, before):
            model.partial_fit(X[:5], Y[:5])
    assert_equal(after, before)


def test_an_estimator_that_is_not_fitted(tmp_path: Path) -> None:
    before = GPOrdinalRegressor(RBF(2.0, "fixed"), class_order=["a", "b"], inducing=X[:3], inference="vb")
    save(before, tmp_path / "m")
    after = load(tmp_path / "m")
    assert after.kernel == before.kernel
    assert after.class_order == ["a", "b"]
    assert not hasattr(after, "posterior_")


# -------------------------------------------------------------------------------------------------------- hostile files
def attributes(manifest: dict[str, Any]) -> dict[str, Any]:
    return manifest["estimator"]["$estimator"][2]


def record(manifest: dict[str, Any], name: str) -> dict[str, Any]:
    return attributes(manifest)[name]["$record"][1]


def member(manifest: dict[str, Any]) -> dict[str, Any]:
    """The first model of the ensemble, which kernel_, likelihood_ and posterior_ refer to."""
    return attributes(manifest)["ensemble_"][0]["$record"][1]


def other_array(name: str, change: Callable[[np.ndarray], Any]) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    def damage(manifest: dict[str, Any], arrays: dict[str, Any]) -> None:
        arrays[name] = np.ascontiguousarray(change(arrays[name]))

    return damage


def other_tree(change: Callable[[dict[str, Any]], Any]) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    return lambda manifest, arrays: change(manifest)


HOSTILE: dict[str, tuple[str, Callable[[dict[str, Any], dict[str, Any]], None], str]] = {
    "alpha too short": (
        "exact",
        other_array("posterior_.alpha.npy", lambda a: a[:-1]),
        r"posterior_\.root_w: has shape",
    ),
    "alpha of whole numbers": (
        "exact",
        other_array("posterior_.alpha.npy", lambda a: a.astype(np.int64)),
        r"posterior_\.alpha: must be an array",
    ),
    "negative root": ("exact", other_array("posterior_.root_w.npy", lambda a: -a), r"posterior_\.root_w: must be >= 0"),
    "factor not square": (
        "exact",
        other_array("posterior_.chol.npy", lambda a: a[:, 1:]),
        r"posterior_\.chol: has shape",
    ),
    "factor with a zero": (
        "exact",
        other_array("posterior_.chol.npy", lambda a: a * 0.0),
        r"posterior_\.chol: must be positive",
    ),
    "no kernel": (
        "exact",
        other_tree(lambda m: record(m, "posterior_").update(kernel=None)),
        r"posterior_\.X: needs a kernel",
    ),
    "kernel of other features": (
        "exact",
        other_tree(lambda m: record(m, "posterior_")["kernel"]["$kernel"][1].update(length_scale=[1.0, 2.0])),
        "has 2 length-scales for 3 features",
    ),
    "thresholds that fall": (
        "exact",
        other_tree(lambda m: member(m)["likelihood"]["$record"][1].update(thresholds={"$tuple": [1.0, 0.0]})),
        "strictly ascending",
    ),
    "noise of none": (
        "exact",
        other_tree(lambda m: member(m)["likelihood"]["$record"][1].update(noise=-1.0)),
        "noise must be a positive finite number",
    ),
    "one level more": (
        "exact",
        other_array("classes_.npy", lambda a: np.arange(4)),
        "likelihood_: must be of 4 levels",
    ),
    "one level": ("exact", other_array("classes_.npy", lambda a: a[:1]), "classes_: must be at least 2 levels"),
    "levels out of range": (
        "exact",
        other_array("_rows.1.npy", lambda a: a + 1),
        r"_rows\.level: holds an index outside 0 to 2",
    ),
    "levels too few": ("exact", other_array("_rows.1.npy", lambda a: a[:-1]), r"_rows\.level: has shape"),
    "weights of zero": ("exact", other_array("_rows.2.npy", lambda a: a * 0.0), r"_rows\.weight: must be positive"),
    "rows of other features": (
        "exact",
        other_array("_rows.0.npy", lambda a: a[:, :2]),
        r"_rows\.X: must have 3 columns",
    ),
    "other width": (
        "exact",
        other_tree(lambda m: attributes(m).update(n_features_in_=2)),
        r"_rows\.X: must have 2 columns",
    ),
    "no rows": ("exact", other_tree(lambda m: attributes(m).pop("_rows")), "do not fit together"),
    "no ensemble": (
        "exact",
        other_tree(lambda m: attributes(m).update(ensemble_=[])),
        "likelihood_: refers to 'ensemble_.0.likelihood', which did not come before",
    ),
    "weights that do not add up": (
        "exact",
        other_tree(lambda m: attributes(m)["ensemble_"][0]["$record"][1].update(weight=0.5)),
        "ensemble_: has weights that are none",
    ),
    "index of a row that is not there": (
        "precomputed, weights",
        other_array("_used.npy", lambda a: a + N),
        "_used: holds an index outside 0 to 17",
    ),
    "the same row twice": (
        "precomputed, weights",
        other_array("_used.npy", np.zeros_like),
        "_used: names a row twice",
    ),
    "fewer rows used": ("precomputed, weights", other_array("_used.npy", lambda a: a[:-1]), "_used: has shape"),
    "variance of none": (
        "precomputed",
        other_tree(lambda m: record(m, "posterior_").update(prior_variance=-1.0)),
        r"posterior_\.prior_variance: must be >= 0",
    ),
    "given but not": (
        "precomputed",
        other_tree(lambda m: attributes(m).update(_precomputed=False)),
        r"_rows\.X|posterior_|kernel",
    ),
    "mean too long": (
        "vb, few points",
        other_array("posterior_.mean.npy", lambda a: np.append(a, 0.0)),
        r"posterior_\.mean: has shape",
    ),
    "no basis": (
        "vb, few points",
        other_tree(lambda m: record(m, "posterior_").update(basis=None)),
        r"posterior_\.basis: is missing",
    ),
    "points of other features": (
        "vb, few points",
        other_array("posterior_.basis.points.npy", lambda a: a[:, :2]),
        "must (have|be of) 3",
    ),
    "state of other points": (
        "vb, few points",
        other_array("posterior_.basis.points.npy", lambda a: a[:4]),
        r"_state\.blocks: must have 4 variables|basis",
    ),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_files_are_refused(fitted: dict[str, Any], tmp_path: Path, case: str) -> None:
    name, damage, message = HOSTILE[case]
    save(fitted[name], tmp_path / "m")
    manifest, arrays = read_archive(tmp_path / "m", 1)
    arrays = dict(arrays)
    damage(manifest, arrays)
    write_archive(tmp_path / "m", {key: manifest[key] for key in ("version", "libraries", "estimator")}, arrays)
    with pytest.raises(ModelFormatError, match=message):
        load(tmp_path / "m")


@settings(max_examples=60)
@given(data=st.data(), name=st.sampled_from(["exact", "precomputed, weights", "vb, few points", "auto"]))
def test_any_array_of_another_shape_is_refused_or_harmless(
    fitted: dict[str, Any], tmp_path_factory: Any, data: Any, name: str
) -> None:
    path = tmp_path_factory.mktemp("m") / "m"
    save(fitted[name], path)
    manifest, arrays = read_archive(path, 1)
    arrays = dict(arrays)
    member = data.draw(st.sampled_from(sorted(arrays)))
    change = data.draw(st.sampled_from(["cut", "negate", "grow", "zero"]))
    old = arrays[member]
    if old.dtype.kind not in "fi" or old.size == 0:
        return
    new = {"cut": old[:-1], "negate": -old, "grow": np.concatenate([old, old]), "zero": old * 0}[change]
    arrays[member] = np.ascontiguousarray(new)
    write_archive(path, {key: manifest[key] for key in ("version", "libraries", "estimator")}, arrays)
    try:
        after = load(path)
    except ModelFormatError:
        return
    try:  # numbers are numbers: what was let in must compute, or say why not
        p = after.predict_proba(K if after.kernel == "precomputed" else X)
    except SkprefError:
        return
    assert p.shape == (N, 3)
