"""Files of factorization machines and of their designs: the same bits, or refused."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skpref import VariationalFM, VariationalFMClassifier
from skpref.data import OneHotDesign
from skpref.exceptions import DataError, ModelFormatError, SkprefError
from skpref.persistence import load, save
from skpref.persistence._archive import read_archive, write_archive

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

RNG = np.random.default_rng(0)
IDS = np.argwhere(RNG.random((9, 6)) < 0.7)
NAMED = [(f"user {u}", f"item {i}") for u, i in IDS]
Y = RNG.standard_normal(9)[IDS[:, 0]] + RNG.standard_normal(6)[IDS[:, 1]]
X = OneHotDesign().fit(IDS).transform(IDS)
SHORT = {"n_factors": 2, "n_epochs": 6, "random_state": 0}

FITTED: dict[str, Callable[[], Any]] = {
    "regressor": lambda: VariationalFM(**SHORT).fit(X, Y),
    "named groups": lambda: VariationalFM(**SHORT, groups=["user"] * 10 + ["item"] * 7).fit(X, Y),
    "linear": lambda: VariationalFM(**{**SHORT, "n_factors": 0}).fit(X, Y),
    "mini-batches": lambda: VariationalFM(**SHORT, batch_size=8).fit(X, Y),
    "early stopping": lambda: VariationalFM(**SHORT, early_stopping=True, groups=np.arange(17) > 9).fit(X, Y),
    "learnt on": lambda: VariationalFM(**SHORT).fit(X, Y).partial_fit(X[:5], Y[:5], freeze=1),
    "classifier": lambda: VariationalFMClassifier(**SHORT).fit(X, Y > 0.0),
    "words": lambda: VariationalFMClassifier(**SHORT, link="logit").fit(X, np.where(Y > 0.0, "yes", "no")),
    "pipeline": lambda: make_pipeline(OneHotDesign(implicit=True), VariationalFM(**SHORT)).fit(NAMED, Y),
    "pipeline of ids": lambda: make_pipeline(
        OneHotDesign(users=list(range(12)), unknown="raise"), VariationalFMClassifier(**SHORT)
    ).fit(IDS, Y > 0.0),
}


@pytest.fixture(scope="module")
def fitted() -> dict[str, Any]:
    return {name: make() for name, make in FITTED.items()}


def outputs(name: str, model: Any) -> list[Any]:
    rows = X if not name.startswith("pipeline") else (IDS if "ids" in name else [*NAMED, ("cleo", "rum")])
    last = model[-1] if name.startswith("pipeline") else model
    found = [model.predict(rows), last.lower_bounds_, last.weights_std_, last.factors_, last.validation_losses_]
    return [*found, model.predict_proba(rows)] if hasattr(model, "predict_proba") else found


@pytest.mark.parametrize("name", FITTED)
def test_predictions_are_equal_to_the_bit(fitted: dict[str, Any], name: str, tmp_path: Path) -> None:
    before = fitted[name]
    save(before, tmp_path / "a")
    after = load(tmp_path / "a")
    for got, wanted in zip(outputs(name, after), outputs(name, before), strict=True):
        assert np.array_equal(got, wanted)
    assert vars(after).keys() == vars(before).keys()
    save(after, tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_loaded_machine_goes_on_learning(fitted: dict[str, Any], tmp_path: Path) -> None:
    for name in ("regressor", "words"):
        save(fitted[name], tmp_path / "m")
        y = Y[:4] if name == "regressor" else np.where(Y[:4] > 0.0, "yes", "no")
        again, same = (load(tmp_path / "m").partial_fit(X[:4], y, freeze=0) for _ in range(2))
        assert np.array_equal(again.predict(X), same.predict(X))
        assert not np.array_equal(again.weights_, fitted[name].weights_)


def test_designs_alone_and_what_is_not_fitted(tmp_path: Path) -> None:
    design = OneHotDesign(implicit=True).fit(NAMED)
    save(design, tmp_path / "m")
    after = load(tmp_path / "m")
    assert (after.transform(NAMED) != design.transform(NAMED)).nnz == 0
    assert after.get_feature_names_out().tolist() == design.get_feature_names_out().tolist()
    for before in (OneHotDesign(items=["a"]), VariationalFM(3), make_pipeline(OneHotDesign(), VariationalFM(3))):
        save(before, tmp_path / "m")
        assert load(tmp_path / "m").get_params(deep=False).keys() == before.get_params(deep=False).keys()


def test_steps_of_others_are_not_saved(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"cannot save steps.0.1: a sklearn.preprocessing._data.StandardScaler"):
        save(make_pipeline(StandardScaler(), VariationalFM()), tmp_path / "m")
    with pytest.raises(DataError, match="cannot save memory"):
        save(make_pipeline(VariationalFM(), memory=Cache()), tmp_path / "m")
    assert not (tmp_path / "m").exists()


class Cache:
    def cache(self, function: Any) -> Any:
        return function


# -------------------------------------------------------------------------------------------------------- hostile files
def attributes(manifest: dict[str, Any]) -> dict[str, Any]:
    return manifest["estimator"]["$estimator"][2]


def steps(manifest: dict[str, Any]) -> list[Any]:
    return manifest["estimator"]["$estimator"][1]["steps"]


def record(tree: Any) -> dict[str, Any]:
    return tree["$record"][1]


def machine(manifest: dict[str, Any]) -> dict[str, Any]:
    return record(record(attributes(manifest)["posterior_"])["machine"])


def other_array(name: str, change: Callable[[np.ndarray], Any]) -> Any:
    def damage(manifest: dict[str, Any], arrays: dict[str, Any]) -> None:
        del manifest
        arrays[name] = np.ascontiguousarray(change(arrays[name]))

    return damage


Q = "posterior_.machine"
HOSTILE: dict[str, tuple[str, Any, str]] = {
    "a feature too few": ("regressor", other_array(f"{Q}.mean.npy", lambda a: a[1:]), "machine.mean: has shape"),
    "a factor too few": ("regressor", other_array(f"{Q}.mean.npy", lambda a: a[:, 1:]), "machine.mean: has shape"),
    "negative variance": ("regressor", other_array(f"{Q}.variance.npy", lambda a: -a), "machine.variance: must be"),
    "flat variance": ("regressor", other_array(f"{Q}.variance.npy", lambda a: a.reshape(-1)), "machine.variance"),
    "group that is none": (
        "regressor",
        other_array(f"{Q}.prior.group.npy", lambda a: a + 7),
        "group: must be numbers of 2 groups",
    ),
    "group below 0": ("regressor", other_array(f"{Q}.prior.group.npy", lambda a: a - 1), "group: must be numbers"),
    "groups of real numbers": ("regressor", other_array(f"{Q}.prior.group.npy", lambda a: a * 1.0), "prior.group"),
    "precision of none": ("regressor", other_array(f"{Q}.prior.lam.npy", lambda a: a * 0.0), "lam: must be positive"),
    "bias of no variance": (
        "regressor",
        lambda m, _: record(machine(m)["bias"]).update(variance=-1.0),
        "bias.variance",
    ),
    "bias that is text": ("regressor", lambda m, _: record(machine(m)["bias"]).update(mean="1"), "bias.mean"),
    "noise of none": ("regressor", lambda m, _: record(machine(m)["likelihood"]).update(precision=0.0), "precision"),
    "likelihood of pairs with ties": (
        "classifier",
        lambda m, _: machine(m).update(likelihood={"$record": ["PairwiseProbitTies", {"threshold": 0.3}]}),
        "likelihood: is not one",
    ),
    "a classifier's likelihood": (
        "regressor",
        lambda m, _: machine(m).update(likelihood={"$record": ["PairwiseProbit", {}]}),
        "likelihood",
    ),
    "units of a classifier": (
        "classifier",
        lambda m, _: record(attributes(m)["posterior_"]).update(scale=2.0),
        "has units, but classifies",
    ),
    "scale of none": ("regressor", lambda m, _: record(attributes(m)["posterior_"]).update(scale=0.0), "scale"),
    "other features": ("regressor", lambda m, _: attributes(m).update(n_features_in_=3), "n_features_in_: must be 17"),
    "groups too many": ("regressor", other_array("groups_.npy", lambda a: np.append(a, 9)), "groups_: must be 2"),
    "one class": ("classifier", other_array("classes_.npy", lambda a: a[:1]), "classes_: must be two labels"),
    "equal classes": ("classifier", other_array("classes_.npy", lambda a: a | True), "classes_: must be two labels"),
    "no classes": ("classifier", lambda m, a: (attributes(m).pop("classes_"), a.pop("classes_.npy")), "likelihood"),
    "no bounds": ("regressor", lambda m, _: attributes(m).pop("n_iter_"), "do not fit together"),
    "posterior of another": (
        "regressor",
        lambda m, _: attributes(m).update(posterior_=attributes(m)["lower_bounds_"]),
        "must be an FMPosterior",
    ),
    "a cache that unpickles": (
        "pipeline",
        lambda m, _: m["estimator"]["$estimator"][1].update(memory="/tmp/evil"),  # noqa: S108
        "memory: must be None",
    ),
    "a step that is none": ("pipeline", lambda m, _: steps(m)[0]["$tuple"].__setitem__(1, "passthrough"), "steps"),
    "steps of one name": (
        "pipeline",
        lambda m, _: steps(m)[0]["$tuple"].__setitem__(0, steps(m)[1]["$tuple"][0]),
        "names|steps",
    ),
    "no steps": ("pipeline", lambda m, a: (steps(m).clear(), a.clear()), "steps"),
    "a step in a step": (
        "pipeline",
        lambda m, _: steps(m)[0]["$tuple"].__setitem__(
            1, {"$estimator": ["Pipeline", {"steps": [copy.deepcopy(steps(m)[0])]}, {}]}
        ),
        "steps",
    ),
    "columns that do not fit": (
        "pipeline",
        lambda m, a: (
            steps(m)[0]["$tuple"][1]["$estimator"][2].update(rated_=None),
            [a.pop(name) for name in list(a) if "rated_" in name],
        ),
        "have other columns",
    ),
    "implicit items of none": (
        "pipeline",
        other_array("steps.0.1.rated_.indices.npy", lambda a: a + 100),
        "indices|rated_",
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


@settings(max_examples=30)
@given(data=st.data(), name=st.sampled_from(["regressor", "classifier", "pipeline"]))
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
    if old.dtype.kind not in "fiu" or old.ndim == 0 or old.size == 0:
        return
    arrays[member] = {"cut": old[:-1], "negate": 0 - old, "grow": np.concatenate([old, old]), "zero": old * 0}[change]
    write_archive(path, {key: manifest[key] for key in ("version", "libraries", "estimator")}, arrays)
    try:
        after = load(path)
    except ModelFormatError:
        return
    try:
        mean, variance = (after[-1] if name == "pipeline" else after).latent_mean_and_variance(
            after[0].transform(NAMED) if name == "pipeline" else sparse.csr_array(X)
        )
    except SkprefError:
        return
    assert mean.shape == variance.shape == (len(NAMED),)
