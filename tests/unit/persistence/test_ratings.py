"""Files of models of ratings: what comes back is what was saved, goes on learning, and hangs together or is refused."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skpref import GibbsIPM3F, GibbsM3F
from skpref.exceptions import ModelFormatError, SkprefError
from skpref.persistence import load, save
from skpref.persistence._archive import read_archive, write_archive

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

RNG = np.random.default_rng(0)
X = np.argwhere(RNG.random((14, 9)) < 0.6)
Y = RNG.integers(1, 4, len(X))
NAMED = [(f"user {u:02d}", int(i)) for u, i in X]
WORDS = np.array(["bad", "fair", "good"], dtype=object)
ROWS = [*X[:20].tolist(), [0, 99], [99, 0], [99, 99]]
SHORT = {"n_sweeps": 8, "burn_in": 3, "n_samples": 4, "random_state": 0}


def m3f(rows: Any = X, y: Any = Y, **params: Any) -> Any:
    return GibbsM3F(**{"n_factors": 3, **SHORT, **params}).fit(rows, y)


def ipm3f(rows: Any = X, y: Any = Y, **params: Any) -> Any:
    return GibbsIPM3F(**{"C": 0.3, **SHORT, **params}).fit(rows, y)


FITTED: dict[str, Callable[[], Any]] = {
    "m3f": m3f,
    "m3f, names and words": lambda: m3f(NAMED, WORDS[Y - 1], levels=WORDS.tolist()),
    "m3f, shared thresholds, chains": lambda: m3f(user_thresholds=False, n_chains=3, dtype="float32"),
    "m3f, folded": lambda: m3f().fold_in([(50, 0), (50, 1)], [1, 3]),
    "ipm3f": ipm3f,
    "ipm3f, names, chains": lambda: ipm3f(NAMED, n_chains=2, levels=[1, 2, 3, 4]),
    "ipm3f, many sweeps": lambda: ipm3f(n_sweeps=40),
    "ipm3f, nothing held": lambda: ipm3f(alpha=1e-12, C=0.0),
}


@pytest.fixture(scope="module")
def fitted() -> dict[str, Any]:
    return {name: make() for name, make in FITTED.items()}


def outputs(model: Any) -> list[np.ndarray]:
    rows = ROWS if model.user_ids_.dtype.kind == "i" else [(NAMED[k][0], row[1]) for k, row in enumerate(ROWS)]
    mean, std = model.predict_score(rows, return_std=True)
    some = model.recommend(model.user_ids_[3], 4, exclude_seen=False)
    return [model.predict(rows), model.predict_proba(rows), mean, std, *some, model.risks_]


def assert_equal(after: Any, before: Any) -> None:
    for got, wanted in zip(outputs(after), outputs(before), strict=True):
        assert np.array_equal(got, wanted)


@pytest.mark.parametrize("name", FITTED)
def test_predictions_are_equal_to_the_bit(fitted: dict[str, Any], name: str, tmp_path: Path) -> None:
    before = fitted[name]
    save(before, tmp_path / "a")
    after = load(tmp_path / "a")
    assert_equal(after, before)
    assert vars(after).keys() == vars(before).keys()
    save(after, tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("name", FITTED)
def test_a_loaded_model_goes_on_learning(fitted: dict[str, Any], name: str, tmp_path: Path) -> None:
    save(fitted[name], tmp_path / "m")
    after, before = load(tmp_path / "m"), copy.deepcopy(fitted[name])
    for model in (after, before):
        user, item, level = model.user_ids_[0], model.item_ids_[0], model.classes_[0]
        model.set_params(duplicates="last", n_sweeps=5)
        model.partial_fit([(user, item), ("new" if isinstance(user, str) else 77, item)], [level, level])
        model.fold_in([("newer" if isinstance(user, str) else 78, item)], [level])
    assert_equal(after, before)


def test_a_warm_start_goes_on(fitted: dict[str, Any], tmp_path: Path) -> None:
    for name in ("m3f", "ipm3f"):
        save(fitted[name], tmp_path / "m")
        after = load(tmp_path / "m").set_params(warm_start=True, n_sweeps=12).fit(X, Y)
        whole = FITTED[name]().set_params(n_sweeps=20, warm_start=False).fit(X, Y)
        assert np.array_equal(after.risks_, whole.risks_)


def test_an_estimator_that_is_not_fitted(tmp_path: Path) -> None:
    for before in (GibbsM3F(7, levels=["a", "b"]), GibbsIPM3F(alpha=2.0, threshold_means=[-1.0, 1.0])):
        save(before, tmp_path / "m")
        after = load(tmp_path / "m")
        assert after.get_params() == before.get_params()
        assert not hasattr(after, "posterior_")


# -------------------------------------------------------------------------------------------------------- hostile files
Damage = "Callable[[dict[str, Any], dict[str, Any]], Any]"


def attributes(manifest: dict[str, Any]) -> dict[str, Any]:
    return manifest["estimator"]["$estimator"][2]


def record(tree: Any) -> dict[str, Any]:
    return tree["$record"][1]


def chain(manifest: dict[str, Any]) -> dict[str, Any]:
    return record(attributes(manifest)["_chains"][0])


def other_array(name: str, change: Callable[[np.ndarray], Any]) -> Any:
    def damage(manifest: dict[str, Any], arrays: dict[str, Any]) -> None:
        arrays[name] = np.ascontiguousarray(change(arrays[name])).reshape(np.shape(change(arrays[name])))

    return damage


HOSTILE: dict[str, tuple[str, Any, str]] = {
    "users too few": ("m3f", other_array("posterior_.average.users.npy", lambda a: a[:, 1:]), "users"),
    "a factor too few": ("m3f", other_array("posterior_.samples.items.npy", lambda a: a[:, :, 1:]), "3 factors"),
    "items too few": ("m3f", other_array("posterior_.last.items.npy", lambda a: a[:, 1:]), "different users, items"),
    "a threshold too few": ("m3f", other_array("posterior_.last.thresholds.npy", lambda a: a[..., 1:]), "levels"),
    "no samples": ("m3f", other_array("posterior_.samples.users.npy", lambda a: a[:0]), "samples"),
    "samples of one kind": ("m3f", other_array("posterior_.samples.items.npy", lambda a: a[:2]), "samples"),
    "whole numbers": ("m3f", other_array("posterior_.last.users.npy", lambda a: a.astype(np.uint8)), "out of place"),
    "flat table": ("m3f", other_array("posterior_.last.users.npy", lambda a: a[0]), "each chain or sample"),
    "rating of nobody": ("m3f", other_array("_ratings.user.npy", lambda a: a + 5), "user must lie in"),
    "rating of no level": ("m3f", other_array("_ratings.level.npy", lambda a: a - 1), "level must lie in"),
    "negative weight": (
        "m3f",
        other_array("_ratings.weight.npy", lambda a: -a),
        "Negative values in data passed to `sample_weight`",
    ),
    "other numbers of users": (
        "m3f",
        lambda m, _: record(attributes(m)["_ratings"]).update(n_users=99),
        r"_ratings: are of \(99",
    ),
    "seed of none": ("m3f", lambda m, _: chain(m)["state"]["$dict"].pop("seed"), "seed"),
    "sweeps that were not": ("m3f", lambda m, _: chain(m).update(n_averaged=99), "n_averaged: must be among"),
    "sweeps of none": ("m3f", lambda m, _: chain(m).update(sweep=-1), "whole numbers"),
    "no trace": ("m3f", lambda m, _: chain(m).update(trace={"$dict": {}}), "trace"),
    "two chains": (
        "m3f",
        lambda m, _: attributes(m)["_chains"].append(attributes(m)["_chains"][0]),
        "_chains: must be 1 chains",
    ),
    "margin of none": ("m3f", lambda m, _: record(attributes(m)["posterior_"]).update(margin=-1.0), "margin"),
    "cost of none": ("m3f", lambda m, _: record(attributes(m)["posterior_"]).update(cost=-1.0), "cost"),
    "thresholds of all": (
        "m3f",
        lambda m, _: record(attributes(m)["posterior_"]).update(varsigma=0.0),
        "not as many as varsigma says",
    ),
    "levels of others": ("m3f", lambda m, _: attributes(m).update(classes_=[1, 2]), "classes_: must be the levels"),
    "ids that are attributes": ("m3f", lambda m, _: attributes(m).update(user_ids_=[1]), "is no fitted attribute"),
    "no ratings": ("m3f", lambda m, _: attributes(m).pop("_ratings"), "do not fit together"),
    "levels that fall": (
        "m3f",
        other_array("_vocabularies.levels.npy", lambda a: a[::-1]),
        "levels: must be in ascending order",
    ),
    "another posterior": (
        "m3f",
        lambda m, _: attributes(m)["posterior_"]["$record"].__setitem__(0, "IPM3FPosterior"),
        "alpha",
    ),
    "twos in Z": ("ipm3f", other_array("posterior_.last.users.npy", lambda a: a * 2), "last.users: are out of place"),
    "names that fall": ("ipm3f", other_array("_chains.0.state.feature.npy", lambda a: a[::-1]), "must ascend below"),
    "names not born": ("ipm3f", other_array("_chains.0.state.born.npy", lambda a: a * 0), "must ascend below 0"),
    "names of nothing": (
        "ipm3f",
        other_array("_chains.0.average.feature.npy", lambda a: np.arange(-99, 0)),
        "more features than there are",
    ),
    "samples of another feature": (
        "ipm3f",
        other_array("_chains.0.samples.1.feature.npy", lambda a: a - 99),
        "samples.1.feature: must ascend below",
    ),
    "samples that lack": ("ipm3f", lambda m, _: chain(m)["samples"]["$tuple"].pop(), "samples: must be 4"),
    "samples without names": (
        "ipm3f",
        lambda m, _: chain(m)["samples"]["$tuple"][0]["$dict"].clear(),
        "samples: has other parts",
    ),
    "samples of no kind": ("m3f", lambda m, _: chain(m).update(samples=3), "samples: must be a tuple"),
    "no names": ("ipm3f", lambda m, _: chain(m)["average"]["$dict"].clear(), "average: has other parts"),
    "rate of none": ("ipm3f", lambda m, _: record(attributes(m)["posterior_"]).update(alpha=0.0), "alpha"),
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
@given(data=st.data(), name=st.sampled_from(["m3f", "m3f, shared thresholds, chains", "ipm3f", "ipm3f, names, chains"]))
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
    new = {"cut": old[:-1], "negate": 0 - old, "grow": np.concatenate([old, old]), "zero": old * 0}[change]
    arrays[member] = np.ascontiguousarray(new)
    write_archive(path, {key: manifest[key] for key in ("version", "libraries", "estimator")}, arrays)
    try:
        after = load(path)
    except ModelFormatError:
        return
    try:  # numbers are numbers: what was let in must compute, or say why not
        p = after.predict_proba(ROWS)
        after.set_params(duplicates="last", n_sweeps=4).partial_fit([(after.user_ids_[0], 0)], [after.classes_[0]])
    except SkprefError:
        return
    assert p.shape == (len(ROWS), after.classes_.size)
