"""Files of sparse Gaussian processes: what comes back is what was saved, goes on learning, or is refused."""

from __future__ import annotations

import copy
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from skpref import SVGPClassifier, SVGPRegressor
from skpref.exceptions import ModelFormatError
from skpref.gp.sparse import regressor as sparse_regressor
from skpref.persistence import load, save
from skpref.persistence._archive import read_archive, write_archive

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 3))
Y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=30)
COUNTS = RNG.poisson(3.0, 30)
KERNEL = ConstantKernel(1.0) * RBF([1.0, 2.0, 3.0])


def regressor(y: Any = Y, rows: Any = X, **params: Any) -> SVGPRegressor:
    return SVGPRegressor(**{"kernel": KERNEL, "n_inducing": 6, "tol": 1.0, "random_state": 0, **params}).fit(rows, y)


def classifier(y: Any, **params: Any) -> SVGPClassifier:
    return SVGPClassifier(**{"kernel": KERNEL, "n_inducing": 6, "optimizer": None, "tol": 1.0, **params}).fit(X, y)


def dropped() -> SVGPRegressor:
    """A stream whose rows are sums."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sparse_regressor, "_KEPT_ROWS", 10)
        return regressor().partial_fit(X, Y)


FITTED: dict[str, Callable[[], Any]] = {
    "regressor": regressor,
    "given points": lambda: regressor(inducing=X[:4]),
    "sparse rows": lambda: regressor(rows=sparse.csr_array(X), learn_inducing=False),
    "stream": dropped,
    "svi": lambda: regressor(inference="svi", optimizer=None, batch_size=10),
    "counts": lambda: regressor(COUNTS, likelihood="poisson", optimizer=None),
    "heavy tails": lambda: regressor(likelihood="student-t", optimizer=None),
    "two classes": lambda: classifier(np.where(Y > 0, "up", "down")),
    "three classes": lambda: classifier(COUNTS % 3, likelihood="logit"),
}


@pytest.fixture(scope="module")
def fitted() -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {name: make() for name, make in FITTED.items()}


def outputs(model: Any) -> list[np.ndarray]:
    if isinstance(model, SVGPClassifier):
        return [model.predict_proba(X), model.predict(X), *model.predict_latent(X, return_std=True), model.relevance_]
    return [*model.predict(X, return_std=True), *model.predict_latent(X, return_std=True), model.relevance_]


@pytest.mark.parametrize("name", FITTED)
def test_predictions_are_equal_to_the_bit_and_learning_goes_on(fitted: Any, name: str, tmp_path: Path) -> None:
    before = copy.deepcopy(fitted[name])
    save(before, tmp_path / "a")
    after = load(tmp_path / "a")
    assert vars(after).keys() == vars(before).keys()
    for got, wanted in zip(outputs(after), outputs(before), strict=True):
        assert np.array_equal(got, wanted)
    save(after, tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    target = before.classes_[COUNTS[:5] % 2] if isinstance(before, SVGPClassifier) else COUNTS[:5]
    for model in (before, after):
        model.partial_fit(X[:5], target)
    for got, wanted in zip(outputs(after), outputs(before), strict=True):
        assert np.array_equal(got, wanted)


def test_estimators_that_are_not_fitted(tmp_path: Path) -> None:
    for before in (SVGPRegressor(RBF(2.0), noise=0.3, inducing=X[:3]), SVGPClassifier(likelihood="logit")):
        save(before, tmp_path / "m")
        assert load(tmp_path / "m").get_params().keys() == before.get_params().keys()


def attributes(manifest: dict[str, Any]) -> dict[str, Any]:
    return manifest["estimator"]["$estimator"][2]


HOSTILE: dict[str, tuple[str, Callable[[dict[str, Any], dict[str, Any]], Any], str]] = {
    "mean too short": (
        "regressor",
        lambda m, a: a.update({"posterior_.mean.npy": a["posterior_.mean.npy"][:-1].copy()}),
        r"posterior_\.mean: has shape",
    ),
    "factor with a zero": (
        "regressor",
        lambda m, a: a.update({"posterior_.half.npy": 0.0 * a["posterior_.half.npy"]}),
        r"posterior_\.half: must be positive",
    ),
    "scale of zero": ("regressor", lambda m, a: attributes(m).update(y_scale_=0.0), "y_scale_: must be a positive"),
    "noise of none": ("regressor", lambda m, a: attributes(m).update(noise_=-1.0), "noise_: must be a positive"),
    "other width": ("regressor", lambda m, a: attributes(m).update(n_features_in_=4), "must be of 4 features"),
    "targets too few": (
        "regressor",
        lambda m, a: a.update({"_rows.1.npy": a["_rows.1.npy"][:-1].copy()}),
        r"_rows\.y: has shape",
    ),
    "weights of zero": (
        "regressor",
        lambda m, a: a.update({"_rows.2.npy": 0.0 * a["_rows.2.npy"]}),
        r"_rows\.weight: must be positive",
    ),
    "neither rows nor sums": ("regressor", lambda m, a: attributes(m).update(_rows=None), "both missing"),
    "sums of another size": (
        "stream",
        lambda m, a: a.update(
            {"_sums.gram.npy": a["_sums.gram.npy"][1:, 1:].copy(), "_sums.cross.npy": a["_sums.cross.npy"][1:].copy()}
        ),
        "_sums: must be of 6",
    ),
    "a rate of zero": (
        "counts",
        lambda m, a: attributes(m)["likelihood_"]["$record"][1].update(rate=0.0),
        "rate must be a positive",
    ),
    "a class too many": (
        "two classes",
        lambda m, a: a.update({"classes_.npy": np.array(["a", "b", "c"])}),
        "must be 3 of 3 classes",
    ),
    "labels out of range": (
        "two classes",
        lambda m, a: a.update({"_rows.1.npy": a["_rows.1.npy"] + 5}),
        r"_rows\.label: holds an index outside",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_does_not_hang_together_is_refused(fitted: Any, name: str, tmp_path: Path) -> None:
    which, damage, text = HOSTILE[name]
    save(fitted[which], tmp_path / "m")
    manifest, arrays = read_archive(tmp_path / "m", 10**6)
    arrays = dict(arrays)
    damage(manifest, arrays)
    write_archive(tmp_path / "m", manifest, arrays)
    with pytest.raises(ModelFormatError, match=text):
        load(tmp_path / "m")
