"""Files of crowd models: what comes back is what was saved, goes on learning, and hangs together or is refused."""

from __future__ import annotations

import copy
import time
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from skpref import CrowdGPPL, Table
from skpref.exceptions import ModelFormatError, SkprefError
from skpref.inference.blocks import DenseBlock, StackedBlock
from skpref.persistence import load, save
from skpref.persistence._archive import MAX_MEMBERS, read_archive, write_archive

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

RNG = np.random.default_rng(0)
N_ITEMS, N_USERS = 9, 7
ITEMS, USERS = RNG.normal(size=(N_ITEMS, 2)), RNG.normal(size=(N_USERS, 3))
ROWS = np.array([(u, *RNG.choice(N_ITEMS, 2, replace=False)) for u in range(N_USERS) for _ in range(20)])
# Users like or dislike either feature: two factors are alive.
SIGNS = np.array([(-1.0) ** np.arange(N_USERS), (-1.0) ** (np.arange(N_USERS) // 2)]).T
TASTE = np.sum(SIGNS[ROWS[:, 0]] * (ITEMS[ROWS[:, 1]] - ITEMS[ROWS[:, 2]]), axis=1)
Y = (TASTE + 0.3 * RNG.normal(size=len(ROWS)) > 0.0).astype(float)
ITEM_NAMES = np.array([f"item {i}" for i in range(N_ITEMS)], dtype=object)
MIXED = np.array([7, "seven", 2**70, "", "x" * 300, *range(20, 24)], dtype=object)
PEOPLE = np.array([f"user {u}" for u in range(N_USERS)], dtype=object)
CSR = sparse.csr_array(np.where(np.abs(USERS) > 0.3, USERS, 0.0))


class _Frame:  # neither an array nor a Table, as a data frame is
    def __init__(self, values: np.ndarray) -> None:
        self.values, self.columns, self.iloc = values, [f"f{d}" for d in range(values.shape[1])], None

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.asarray(self.values, dtype=dtype)

    def __len__(self) -> int:
        return len(self.values)


def fit(
    items: Any = None, users: Any = None, item_names: Any = None, user_names: Any = None, y: Any = Y, **params: Any
) -> CrowdGPPL:
    X = named(ROWS, item_names, user_names)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        params = {"n_factors": 2, "random_state": 0, "max_iter": 8, "length_scale_factor": 1.0} | params
        return CrowdGPPL(items, users, **params).fit(X, y)


def named(rows: np.ndarray, items: Any = None, users: Any = None) -> np.ndarray:
    if items is None and users is None:
        return rows
    items = np.arange(N_ITEMS) if items is None else items
    users = np.arange(N_USERS) if users is None else users
    return np.column_stack([users[rows[:, 0]], items[rows[:, 1:]]]).astype(object)


def quietly(learn: Any, *data: Any, **more: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return learn(*data, **more)


def outputs(model: CrowdGPPL) -> list[np.ndarray]:
    items, users = model.item_ids_, model.user_ids_
    asked = np.array([(u, items[0], i) for u in [*users[:3].tolist(), "a stranger"] for i in items[1:4]], dtype=object)
    everybody = model.utility(users=users, return_std=True)
    rankings = model.rank(n_samples=30), model.rank(user=users[1], n_samples=30)
    report = model.annotators(n_samples=20)
    columns = report.columns() if callable(report.columns) else {name: report[name] for name in report.columns}
    return [
        *model.utility(return_std=True),
        *everybody,
        model.predict_proba(asked),
        model.predict_preference(asked),
        *(part for ranking in rankings for part in ranking.columns().values()),
        *(np.asarray(column) for column in columns.values()),
        *model.similar_users(users[0]),
        *model.similar_items(items[0]),
        *model.order_effect_,
    ]


def assert_equal(after: CrowdGPPL, before: CrowdGPPL) -> None:
    for got, wanted in zip(outputs(after), outputs(before), strict=True):
        assert np.array_equal(got, wanted, equal_nan=np.asarray(wanted).dtype.kind == "f")


TIES = np.where(np.arange(len(Y)) % 7, Y, 0.5)
FITTED: dict[str, Callable[[], CrowdGPPL]] = {
    "no features": fit,
    "text": lambda: fit(item_names=ITEM_NAMES, user_names=PEOPLE),
    "mixed ids": lambda: fit(item_names=MIXED, user_names=PEOPLE),
    "items": lambda: fit(Table(ITEMS, ITEM_NAMES), None, ITEM_NAMES),
    "users": lambda: fit(None, Table(USERS, PEOPLE), None, PEOPLE),
    "both": lambda: fit(Table(ITEMS, ITEM_NAMES), Table(USERS, PEOPLE), ITEM_NAMES, PEOPLE, order_effect=True),
    "few inducing points": lambda: fit(ITEMS, USERS, n_inducing=4, n_inducing_users=3),
    "frames": lambda: fit(_Frame(ITEMS), _Frame(USERS), item_effects=False),
    "sparse": lambda: fit(None, CSR),
    "order effect": lambda: fit(order_effect=True),
    "ties": lambda: fit(y=TIES, likelihood="probit-ties"),
    "some factors dropped": lambda: fit(n_factors=6, max_iter=60),
    "no factors": lambda: fit(n_factors=0),
    "no factors, features": lambda: fit(ITEMS, USERS, n_factors=0),
    "no consensus": lambda: fit(ITEMS, consensus=False),
    "no consensus, order effect": lambda: fit(consensus=False, order_effect=True),
    "mini-batches": lambda: fit(inference="svi", batch_size=40),
    "length-scales learnt": lambda: fit(ITEMS, USERS, optimizer="l-bfgs-b", max_iter=3),
}


@pytest.fixture(scope="module")
def fitted() -> dict[str, CrowdGPPL]:
    return {name: make() for name, make in FITTED.items()}


# ---------------------------------------------------------------------------------------------------------- round trips
@pytest.mark.parametrize("name", FITTED)
def test_predictions_are_equal_to_the_bit(fitted: dict[str, CrowdGPPL], name: str, tmp_path: Path) -> None:
    before = fitted[name]
    save(before, tmp_path / "m")
    after = load(tmp_path / "m")
    assert type(after) is CrowdGPPL
    assert vars(after).keys() == vars(before).keys()
    assert_equal(after, before)


@pytest.mark.parametrize("name", FITTED)
def test_files_of_equal_models_are_equal(fitted: dict[str, CrowdGPPL], name: str, tmp_path: Path) -> None:
    save(fitted[name], tmp_path / "a")
    save(load(tmp_path / "a"), tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_the_cases_are_what_they_say(fitted: dict[str, CrowdGPPL]) -> None:
    assert fitted["both"]._alive == fitted["order effect"]._alive == (0, 1)
    assert 0 < len(fitted["some factors dropped"]._alive) < 6
    assert fitted["few inducing points"].inducing_points_.shape[0] == 4


@pytest.mark.parametrize("name", FITTED)
def test_learning_goes_on_after_loading(fitted: dict[str, CrowdGPPL], name: str, tmp_path: Path) -> None:
    save(fitted[name], tmp_path / "m")
    first, second, kept = load(tmp_path / "m"), load(tmp_path / "m"), copy.deepcopy(fitted[name])
    ids = kept.item_ids_, kept.user_ids_
    more = np.column_stack([ids[1][ROWS[:9, 0]], ids[0][ROWS[:9, 1:]]]).astype(object)
    for model in (first, second, kept):
        model.set_params(inference="vb", tol=1e-8, max_iter=300)
        quietly(model.partial_fit, more, 1.0 - Y[:9])
    assert_equal(first, second)
    assert first._comparisons.n_pairs >= kept._comparisons.n_pairs
    np.testing.assert_allclose(first.utility(users=ids[1]), kept.utility(users=ids[1]), atol=1e-4)
    assert not np.array_equal(first.utility(), load(tmp_path / "m").utility()) or not kept.consensus


def test_new_users_and_items_join_after_loading(fitted: dict[str, CrowdGPPL], tmp_path: Path) -> None:
    save(fitted["both"], tmp_path / "m")
    model = load(tmp_path / "m")
    names = np.array(["new item", "new user"], dtype=object)
    X = np.array([["new user", "new item", "item 0"], ["user 1", "item 2", "new item"]], dtype=object)
    quietly(model.partial_fit, X, [1, 0], items=Table(ITEMS[:1] + 0.1, names[:1]), users=Table(USERS[:1], names[1:]))
    assert "new user" in model.user_ids_
    save(model, tmp_path / "m")
    again = load(tmp_path / "m")
    assert_equal(again, model)
    assert again.items.n_items == N_ITEMS  # the parameter is what it was; what was added is part of the fit
    assert again.utility().shape == (N_ITEMS + 1,)


def test_tables_are_shared_and_stored_once(fitted: dict[str, CrowdGPPL], tmp_path: Path) -> None:
    save(fitted["frames"], tmp_path / "m")
    after = load(tmp_path / "m")
    assert after.items.feature_names == ("f0", "f1")
    assert after.users.feature_names == ("f0", "f1", "f2")
    assert after._items.vocabulary is after.items.vocabulary
    assert after._users.features is after.users.features
    names = read_archive(tmp_path / "m", 1)[1].keys()
    assert {"items.features.npy", "users.features.npy"} < names
    assert not {"_items.features.npy", "_users.features.npy"} & names


def test_many_factors_are_few_members(tmp_path: Path) -> None:
    model = fit(ITEMS, USERS, n_factors=40, order_effect=True, max_iter=1)  # idle ones are dropped after the first pass
    save(model, tmp_path / "m")
    assert len(read_archive(tmp_path / "m", 1)[1]) < MAX_MEMBERS - 32
    after = load(tmp_path / "m")
    assert isinstance(after._state.blocks["users"], StackedBlock)
    assert len(after._state.blocks["users"].parts) == 40
    assert_equal(after, model)


def test_many_users_fit_in_a_file(tmp_path: Path) -> None:
    n = 30_000
    X = np.column_stack([[f"judge number {u:028d}" for u in range(n)], np.tile([["a", "b"], ["b", "c"]], (n // 2, 1))])
    model = CrowdGPPL(n_factors=1, max_iter=1)
    quietly(model.fit, X.astype(object), np.ones(n))
    save(model, tmp_path / "m")
    assert np.array_equal(load(tmp_path / "m").user_ids_, model.user_ids_)


def test_ids_of_bytes(tmp_path: Path) -> None:
    model = fit(user_names=np.array([f"{u}".encode() for u in range(N_USERS)], dtype=object))
    save(model, tmp_path / "m")
    assert_equal(load(tmp_path / "m"), model)


def test_an_estimator_that_is_not_fitted(tmp_path: Path) -> None:
    save(CrowdGPPL(Table(ITEMS), USERS, n_factors=3, unknown_user="raise"), tmp_path / "m")
    after = load(tmp_path / "m")
    assert (after.n_factors, after.unknown_user) == (3, "raise")
    assert np.array_equal(after.users, USERS)
    assert not hasattr(after, "posterior_")
    assert hasattr(quietly(after.fit, ROWS, Y), "posterior_")


def test_a_stack_of_blocks_comes_back_block_by_block() -> None:
    from skpref.persistence._codec import Decoder
    from skpref.persistence._encoder import Encoder

    parts = tuple(DenseBlock(np.eye(3) * (d + 1.0), np.arange(3.0)) for d in range(2))
    encoder = Encoder()
    tree = encoder._encode(StackedBlock(parts), "block")
    assert {name: array.shape for name, array in encoder.arrays.items()} == {
        "block.precision.npy": (2, 3, 3),
        "block.linear.npy": (2, 3),
    }
    again = Decoder(encoder.arrays)._decode(tree, "block")
    assert np.array_equal(again.mean, StackedBlock(parts).mean)


# -------------------------------------------------------------------------------------------------------- hostile files
Arrays = dict[str, np.ndarray]
Change = "Callable[[dict[str, Any], Arrays], object]"


@pytest.fixture(scope="module")
def sound(fitted: dict[str, CrowdGPPL], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sound") / "m"
    save(fitted["both"], path)
    load(path)  # so that no first call is timed below
    return path


@pytest.fixture(scope="module")
def plain(fitted: dict[str, CrowdGPPL], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plain") / "m"
    save(fitted["order effect"], path)
    return path


def forged(source: Path, target: Path, change: Callable[[dict[str, Any], Arrays], object]) -> Path:
    """A file that is sound in all its checksums, but whose parts were changed."""
    manifest, arrays = read_archive(source, 1)
    change(manifest["estimator"]["$estimator"][2], arrays)
    write_archive(target, {name: manifest[name] for name in ("version", "libraries", "estimator")}, arrays)
    return target


def record(tree: dict[str, Any], *path: str) -> dict[str, Any]:
    for name in path:
        tree = tree[name]["$record"][1]
    return tree


def put(arrays: Arrays, name: str, value: Any) -> None:
    assert name in arrays, sorted(arrays)
    arrays[name] = np.asarray(value)


def cut(arrays: Arrays, name: str, *cuts: slice) -> None:
    put(arrays, name, np.ascontiguousarray(arrays[name][cuts]))


def edited(arrays: Arrays, name: str, value: float) -> None:
    array = arrays[name].copy()
    array.flat[0] = value
    put(arrays, name, array)


HALF, FACTORS = "posterior_.items.half.npy", "posterior_.items.mean.npy"
LEFT, WHO = "_comparisons.left.npy", "_comparisons.user.npy"
# What is changed in a file of a model with features on both sides, and what is said of it.
HOSTILE: dict[str, tuple[Callable[[dict[str, Any], Arrays], object], str]] = {
    "negative user": (lambda t, a: edited(a, WHO, -1), "negative user index -1"),
    "user out of range": (lambda t, a: edited(a, WHO, N_USERS), "refers to user 7, but there are 7"),
    "item out of range": (lambda t, a: edited(a, LEFT, N_ITEMS), "refers to item 9, but there are 9"),
    "negative item": (lambda t, a: edited(a, LEFT, -1), "negative item index -1"),
    "items as floats": (lambda t, a: put(a, LEFT, a[LEFT].astype(float)), r"left: must be an array of int64"),
    "fewer users": (lambda t, a: cut(a, WHO, slice(5)), r"_comparisons\.user: has shape"),
    "label of 2": (lambda t, a: edited(a, "_comparisons.y.npy", 2.0), "labels must be 0 or 1"),
    "negative weight": (lambda t, a: edited(a, "_comparisons.weight.npy", -1.0), "Negative values"),
    "labels in a column": (
        lambda t, a: put(a, "_comparisons.y.npy", a["_comparisons.y.npy"][:, None]),
        r"_comparisons\.y: has shape",
    ),
    "more items than there are": (lambda t, a: record(t, "_comparisons").update(n_items=2**62), "n_items: must be 9"),
    "more users than there are": (lambda t, a: record(t, "_comparisons").update(n_users=8), "n_users: must be 7"),
    "items uncounted": (lambda t, a: record(t, "_comparisons").update(n_items=9.5), "n_items: must be a whole number"),
    "no comparisons": (lambda t, a: t.update(_comparisons=None), "_comparisons: are missing"),
    "users unknown": (
        lambda t, a: record(t, "_comparisons").update(user=None),
        r"_comparisons\.user: must be an array",
    ),
    "one not seen": (lambda t, a: cut(a, "_users.seen.npy", slice(1, None)), r"_users\.seen: leaves out"),
    "one seen twice": (lambda t, a: edited(a, "_items.seen.npy", a["_items.seen.npy"][1]), "names an entity twice"),
    "seen out of range": (lambda t, a: edited(a, "_items.seen.npy", 99), "holds an index outside 0 to 8"),
    "seen negative": (lambda t, a: edited(a, "_users.seen.npy", -1), "holds an index outside 0 to 6"),
    "other ids": (
        lambda t, a: edited(a, "user_ids_.text.npy", 65),
        "user_ids_: differ from those that were seen",
    ),
    "factors too narrow": (
        lambda t, a: cut(a, FACTORS, slice(None), slice(3)),
        r"posterior_\.items\.mean: does not fit",
    ),
    "one factor less": (lambda t, a: cut(a, FACTORS, slice(1)), r"posterior_\.items\.inverse_scale: has shape"),
    "no factors of items": (
        lambda t, a: [cut(a, name, slice(0)) for name in (FACTORS, HALF, "posterior_.items.inverse_scale.npy")],
        r"posterior_\.users: has 2 factors, expected 0",
    ),
    "flat covariance": (lambda t, a: put(a, HALF, a[HALF][0]), r"posterior_\.items\.half: has shape"),
    "negative covariance": (lambda t, a: put(a, HALF, -a[HALF]), r"posterior_\.items\.half: must be positive"),
    "zero scale": (
        lambda t, a: edited(a, "posterior_.users.inverse_scale.npy", 0.0),
        r"posterior_\.users\.inverse_scale: must be positive",
    ),
    "variances beside a basis": (
        lambda t, a: put(a, "posterior_.users.variance.npy", np.ones((2, N_USERS))),
        r"posterior_\.users\.variance: has shape",
    ),
    "short centre": (lambda t, a: cut(a, "posterior_.centre.npy", slice(1)), r"posterior_\.centre: has shape"),
    "biases of others": (
        lambda t, a: [cut(a, f"posterior_.bias_{name}.npy", slice(3)) for name in ("mean", "variance")],
        r"posterior_\.bias_mean: has shape \(3,\), expected \(7,\)",
    ),
    "negative variance of a bias": (
        lambda t, a: edited(a, "posterior_.bias_variance.npy", -1.0),
        r"posterior_\.bias_variance: must be positive",
    ),
    "a scale less": (
        lambda t, a: record(t, "posterior_")["scales"]["$dict"].pop("w1"),
        r"scales: must hold the scales",
    ),
    "consensus is a number": (
        lambda t, a: record(t, "posterior_").update(consensus=1.0),
        "did not come before|consensus: is no",
    ),
    "factors are a number": (lambda t, a: record(t, "posterior_").update(items=1.0), r"posterior_\.items: are no"),
    "offsets of others": (
        lambda t, a: cut(a, "posterior_.consensus.offset_mean.npy", slice(4)),
        r"posterior_\.consensus\.mean: has shape",
    ),
    "posterior of another model": (
        lambda t, a: t.update(posterior_=record(t, "posterior_")["consensus"]),
        "did not come before|is no posterior",
    ),
    "no users": (lambda t, a: t.update(_users=None), "must be entities"),
    "features too few": (lambda t, a: cut(a, "items.features.npy", slice(5)), r"items\.features: has shape"),
    "features too narrow": (
        lambda t, a: cut(a, "items.features.npy", slice(None), slice(1)),
        "has 1 features, inducing points 2",
    ),
    "no kernel": (lambda t, a: t.update(kernel_=None), r"posterior_\.items: .* do not fit together"),
    "no inducing points": (lambda t, a: t.update(inducing_users_=None), r"posterior_\.users: .* do not fit together"),
    "personal factors of fewer": (lambda t, a: cut(a, "user_factors_.npy", slice(3)), "user_factors_: has shape"),
    "factor scales below zero": (
        lambda t, a: put(a, "factor_scales_.npy", -a["factor_scales_.npy"]),
        "factor_scales_: must be >= 0",
    ),
    "a factor twice": (lambda t, a: t.update(_alive={"$tuple": [0, 0]}), "_alive: must name 2 of 2 factors"),
    "a factor that is not there": (lambda t, a: t.update(_alive={"$tuple": [0, 2]}), "_alive: must name 2 of 2"),
    "a factor less than there are": (lambda t, a: t.update(_alive={"$tuple": [0]}), "_alive: must name 2 of 2"),
    "factors by name": (lambda t, a: t.update(_alive="v0"), "_alive: must name"),
    "other factors": (
        lambda t, a: [t.update(_alive={"$tuple": [0, 3]}), put(a, "factor_scales_.npy", np.ones(4))],
        r"scales: must hold the scales v0, v3, w0, w3",
    ),
    "component out of range": (lambda t, a: edited(a, "components_.npy", 99), "components_: holds an index"),
    "blocks gone": (lambda t, a: record(t, "_state").update(blocks={"$dict": {}}), "belongs to no part|must have"),
    "stack of nothing": (
        lambda t, a: [
            put(a, f"_state.blocks.items.{name}.npy", np.zeros((2**31, *more)))
            for name, more in (("precision", (0, 0)), ("linear", (0,)))
        ],
        r"_state\.blocks\.items\.precision.npy: shape .* is not allowed",
    ),
    "stack of empty blocks": (
        lambda t, a: [
            put(a, f"_state.blocks.items.{name}.npy", np.zeros((2**30, *more)))
            for name, more in (("precision", (0, 0)), ("linear", (0,)))
        ],
        r"_state\.blocks\.items\.linear: is empty",
    ),
    "stack that is not square": (
        lambda t, a: cut(a, "_state.blocks.items.precision.npy", slice(None), slice(2)),
        r"_state\.blocks\.items\.precision: has shape",
    ),
    "stack of text": (
        lambda t, a: t["_state"]["$record"][1]["blocks"]["$dict"]["items"]["$record"][1].update(precision="x" * 1000),
        r"precision: must be an array|belongs to no part",
    ),
    "negative precision": (
        lambda t, a: put(a, "_state.blocks.items.precision.npy", -a["_state.blocks.items.precision.npy"]),
        r"_state\.blocks\.items\.precision: must be positive",
    ),
    "segment of nothing": (
        lambda t, a: t["_segments"]["$dict"]["items"]["$tuple"][0]["$record"][1].update(size=0),
        "must be the name of a scale and a number",
    ),
    "segment too long": (
        lambda t, a: t["_segments"]["$dict"]["items"]["$tuple"][0]["$record"][1].update(size=50),
        "_segments: must add up to",
    ),
    "segment of an unknown scale": (
        lambda t, a: t["_segments"]["$dict"]["items"]["$tuple"][0]["$record"][1].update(scale="x"),
        r"_state\.scales: must hold the scales",
    ),
    "segments are text": (lambda t, a: t.update(_segments="x"), "_segments: must be runs"),
    "no segments": (lambda t, a: t.pop("_segments"), "do not fit together"),
    "classes": (lambda t, a: put(a, "classes_.npy", np.array([0, 2])), "classes_: must be 0 and 1"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_parts_that_do_not_fit_are_refused(sound: Path, tmp_path: Path, case: str) -> None:
    change, message = HOSTILE[case]
    path = forged(sound, tmp_path / "stranger.skpref", change)
    began = time.process_time()
    with pytest.raises(ModelFormatError, match=message) as caught:
        load(path)
    assert time.process_time() - began < 0.1
    assert str(caught.value).startswith("stranger.skpref: ")


PLAIN: dict[str, tuple[Callable[[dict[str, Any], Arrays], object], str]] = {
    "variances of fewer": (
        lambda t, a: cut(a, "posterior_.users.variance.npy", slice(None), slice(3)),
        r"posterior_\.users\.variance: has shape",
    ),
    "negative variance": (
        lambda t, a: edited(a, "posterior_.items.variance.npy", -1.0),
        r"posterior_\.items\.variance: must be positive",
    ),
    "factors of fewer users": (
        lambda t, a: [cut(a, f"posterior_.users.{name}.npy", slice(None), slice(3)) for name in ("mean", "variance")],
        r"posterior_\.users\.mean: must have 7 columns",
    ),
    "offsets of fewer items": (
        lambda t, a: [
            cut(a, f"posterior_.consensus.{name}.npy", *[slice(1, None)] * dimensions)
            for name, dimensions in (("offset_mean", 1), ("mean", 1), ("half", 2), ("centre_half", 1))
        ],
        r"posterior_\.consensus\.offset_mean: has shape \(8,\), expected \(9,\)",
    ),
    "kernel without features": (
        lambda t, a: t.update(kernel_={"$kernel": ["RBF", {"length_scale": 1.0, "length_scale_bounds": "fixed"}]}),
        r"posterior_\.items: .* do not fit together",
    ),
    "block of fewer users": (
        lambda t, a: [cut(a, f"_state.blocks.bias.{name}.npy", slice(3)) for name in ("precision", "linear")],
        r"_state\.blocks: must have .*'bias': 7, .* variables",
    ),
    "block of another kind": (
        lambda t, a: [
            put(a, "_state.blocks.items.precision.npy", np.stack([np.eye(9), np.eye(9)])),
            put(a, "_state.blocks.items.linear.npy", np.zeros((2, 9))),
            t["_state"]["$record"][1]["blocks"]["$dict"]["items"]["$record"].__setitem__(0, "StackedBlock"),
        ],
        r"_state\.blocks: are of the wrong kind",
    ),
}


@pytest.mark.parametrize("case", PLAIN)
def test_parts_without_features_that_do_not_fit_are_refused(plain: Path, tmp_path: Path, case: str) -> None:
    change, message = PLAIN[case]
    with pytest.raises(ModelFormatError, match=message):
        load(forged(plain, tmp_path / "m", change))


@settings(max_examples=30)
@given(data=st.data())
def test_any_array_of_another_shape_is_refused_or_harmless(sound: Path, tmp_path_factory: Any, data: Any) -> None:
    """Whatever array is cut, lengthened or retyped: a format error, or a model that answers without a crash."""
    arrays = read_archive(sound, 1)[1]
    name = data.draw(st.sampled_from(sorted(arrays)))
    old = arrays[name]
    kind = data.draw(st.sampled_from(["cut", "double", "float", "int", "flat", "empty"]))
    new = {
        "cut": lambda: old[: len(old) // 2],
        "double": lambda: np.concatenate([old, old]),
        "float": lambda: old.astype(np.float64),
        "int": lambda: old.astype(np.int64),
        "flat": old.ravel,
        "empty": lambda: old[:0],
    }[kind]()
    path = tmp_path_factory.mktemp("m") / "m"
    forged(sound, path, lambda _, a: put(a, name, np.ascontiguousarray(new)))
    try:
        model = load(path)
    except ModelFormatError:
        return
    assert_sound(model)


def assert_sound(model: CrowdGPPL) -> None:
    assert np.isfinite(model.utility(users=model.user_ids_)).all()
    assert (model.predict_proba(named(ROWS, ITEM_NAMES, PEOPLE)) > 0.0).all()
    try:
        quietly(model.partial_fit, named(ROWS[:3], ITEM_NAMES, PEOPLE), Y[:3])
    except (SkprefError, ValueError):
        return
    assert np.isfinite(model.utility()).all()
