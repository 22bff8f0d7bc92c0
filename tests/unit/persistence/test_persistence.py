"""Files of models: what comes back is what was saved, and nothing else gets in."""

from __future__ import annotations

import io
import json
import os
import pickle
import time
import tracemalloc
import warnings
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern, WhiteKernel

import skpref
from skpref import GPPLClassifier, GPPLRegressor, Table, kernels
from skpref.exceptions import DataError, ModelFormatError
from skpref.gp.pairwise import fit as pair_fit
from skpref.likelihoods import PairwiseLogit
from skpref.persistence import load, save, saved_classes
from skpref.persistence._archive import MAX_MEMBERS, read_archive, write_archive
from skpref.persistence._codec import Decoder
from skpref.persistence._encoder import Encoder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

RNG = np.random.default_rng(0)
X = RNG.normal(size=(12, 3))
PAIRS = np.array([(i, j) for i in range(12) for j in range(i) if (i + j) % 3])
Y = (X[PAIRS[:, 0], 0] > X[PAIRS[:, 1], 0]).astype(float)
NAMES = np.array([f"item {i}" for i in range(12)], dtype=object)
MIXED = np.array([7, "seven", b"7", 2**70, "", "x" * 300, *range(20, 26)], dtype=object)


def quick(model: Any, *data: Any, **more: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.set_params(max_iter=5).fit(*data, **more)


def classifier(items: Any = None, names: Any = None, **params: Any) -> GPPLClassifier:
    ids = PAIRS if names is None else names[PAIRS]
    return quick(GPPLClassifier(items, random_state=0, **params), ids, Y)


def outputs(model: Any) -> list[np.ndarray]:
    if isinstance(model, GPPLRegressor):
        points = model.inducing_points_
        return [*model.predict(points, return_std=True), model.sample_y(points, 2, random_state=0)]
    pairs = model.item_ids_[PAIRS]
    ranking = model.rank(n_samples=50)
    return [*model.utility(return_std=True), model.predict_proba(pairs), ranking.probability_best, ranking.rank_low]


class _Items:  # neither an array nor a Table, as a data frame is
    def __init__(self, values: np.ndarray) -> None:
        self.values, self.columns, self.iloc = values, ["a", "b", "c"], None

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.asarray(self.values, dtype=dtype)

    def __len__(self) -> int:
        return len(self.values)


CSR = sparse.csr_array(np.where(X > 0.3, X, 0.0))
FITTED: dict[str, Callable[[], Any]] = {
    "no features, whole numbers": classifier,
    "no features, text": lambda: classifier(names=NAMES),
    "no features, mixed ids": lambda: classifier(names=MIXED),
    "table": lambda: classifier(Table(X, NAMES), NAMES),
    "table, fewer inducing points": lambda: classifier(Table(X, NAMES), NAMES, n_inducing=5),
    "array": lambda: classifier(X, item_effects=False, likelihood="logit"),
    "frame": lambda: classifier(_Items(X)),
    "sparse": lambda: classifier(Table(CSR), likelihood=PairwiseLogit()),
    "order effect": lambda: classifier(X, order_effect=True, kernel=kernels.AdditiveMatern(nu=2.5)),
    "ties": lambda: classifier(likelihood="probit-ties"),
    "svi": lambda: classifier(X, inference="svi", batch_size=16),
    "regressor": lambda: quick(GPPLRegressor(random_state=0), X, X[:, 0]),
    "regressor, sparse": lambda: quick(
        GPPLRegressor(kernels.ProductMatern(nu=np.inf), random_state=0), sparse.csr_matrix(CSR), X[:, 0]
    ),
    "scikit-learn's kernels": lambda: quick(
        GPPLRegressor(ConstantKernel(2.0) * RBF([1.0, 2.0, 1.0]) + Matern(nu=np.inf) + WhiteKernel(0.1), n_inducing=6),
        X,
        comparisons=PAIRS,
    ),
    "power of a kernel": lambda: quick(GPPLRegressor(DotProduct() ** 2 + kernels.Identity()), X, X[:, 0]),
}


@pytest.fixture(scope="module")
def fitted() -> dict[str, Any]:
    return {name: make() for name, make in FITTED.items()}


@pytest.fixture
def model(fitted: dict[str, Any]) -> GPPLClassifier:
    return fitted["table, fewer inducing points"]


# ---------------------------------------------------------------------------------------------------------- round trips
@pytest.mark.parametrize("name", FITTED)
def test_predictions_are_equal_to_the_bit(fitted: dict[str, Any], name: str, tmp_path: Path) -> None:
    before = fitted[name]
    save(before, tmp_path / "m")
    after = load(tmp_path / "m")
    assert type(after) is type(before)
    for got, wanted in zip(outputs(after), outputs(before), strict=True):
        assert np.array_equal(got, wanted)
    assert vars(after).keys() == vars(before).keys()


@pytest.mark.parametrize("name", FITTED)
def test_files_of_equal_models_are_equal(fitted: dict[str, Any], name: str, tmp_path: Path) -> None:
    save(fitted[name], tmp_path / "a")
    save(load(tmp_path / "a"), tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_offsets_in_a_diagonal_block(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(pair_fit.PairModel.__init__.__kwdefaults__, "joint_size", 0)
    before = classifier(X)
    assert before.posterior_.offset_variance is not None
    save(before, tmp_path / "m")
    after = load(tmp_path / "m")
    for got, wanted in zip(outputs(after), outputs(before), strict=True):
        assert np.array_equal(got, wanted)


def test_params_and_new_items(model: GPPLClassifier, tmp_path: Path) -> None:
    save(model, tmp_path / "m")
    after = load(tmp_path / "m")
    params, wanted = after.get_params(deep=False), model.get_params(deep=False)
    assert {k: v for k, v in params.items() if k != "items"} == {k: v for k, v in wanted.items() if k != "items"}
    assert after._items.vocabulary is after.items.vocabulary
    assert after._items.features is after.items.features
    new = Table(X[:4] + 0.1, NAMES[:4])
    assert np.array_equal(after.utility(new), model.utility(new))


def test_a_warm_start_goes_on_as_before(fitted: dict[str, Any], tmp_path: Path) -> None:
    save(fitted["array"], tmp_path / "m")
    first, second = load(tmp_path / "m"), load(tmp_path / "m")
    first.set_params(warm_start=True)
    second.set_params(warm_start=True)
    quick(first, PAIRS, Y)
    again = pickle.loads(pickle.dumps(second))
    quick(again, PAIRS, Y)
    assert np.array_equal(first.utility(), again.utility())


def test_an_estimator_that_is_not_fitted(tmp_path: Path) -> None:
    before = GPPLClassifier(Table(X, NAMES), kernel=RBF(length_scale_bounds="fixed"), inducing=X[:3], n_inducing=7)
    save(before, tmp_path / "m")
    after = load(str(tmp_path / "m"))
    assert after.n_inducing == 7
    assert after.kernel == before.kernel
    assert np.array_equal(after.inducing, X[:3])
    assert not hasattr(after, "posterior_")


def test_names_of_features_come_back(fitted: dict[str, Any], tmp_path: Path) -> None:
    save(fitted["frame"], tmp_path / "m")
    assert load(tmp_path / "m").items.feature_names == ("a", "b", "c")


LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | hnp.arrays(
        st.sampled_from(["<f8", "<i8", "<u8", "|b1", "|u1", "<i4", ">f8"]),
        hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=4),
    ).filter(lambda a: a.dtype.kind != "f" or bool(np.isfinite(a).all()))
    | hnp.arrays("<U5", st.integers(0, 4))
    | st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=40, max_size=60)
)
TREES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)


def same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and a.dtype == b.dtype.newbyteorder("<") and np.array_equal(a, b)
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return bool(a == b or (a != a and b != b))  # noqa: PLR0124 - NaN


@given(TREES)
def test_any_tree_of_data_comes_back(tree: Any) -> None:
    encoder = Encoder()
    text = json.dumps(encoder._encode(tree, "root"), allow_nan=False)
    arrays = {name: array.copy(order="K") for name, array in encoder.arrays.items()}
    assert same(Decoder(arrays)._decode(json.loads(text), "root"), tree)


@settings(max_examples=20)
@given(
    hnp.arrays(
        st.sampled_from(["<f8", "<i8", "|b1"]),
        hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=5),
        fill=st.nothing(),
    ).filter(lambda a: a.dtype.kind != "f" or bool(np.isfinite(a).all())),
    st.booleans(),
)
def test_any_array_comes_back_in_its_order(tmp_path_factory: Any, array: np.ndarray, fortran: bool) -> None:
    path = tmp_path_factory.mktemp("m") / "a"
    array = np.asfortranarray(array) if fortran else array
    tree = {"version": 1, "libraries": {}, "estimator": None}
    write_archive(path, tree, {"a.npy": array})
    (found,) = read_archive(path, 1)[1].values()
    assert found.dtype == array.dtype
    assert np.array_equal(found, array)
    assert found.flags.f_contiguous == array.flags.f_contiguous
    assert found.flags.writeable


def test_members_are_plain_npy_files(model: GPPLClassifier, tmp_path: Path) -> None:
    save(model, tmp_path / "m")
    content = members(tmp_path / "m")
    assert np.array_equal(np.load(io.BytesIO(content["posterior_.mean.npy"])), model.posterior_.mean)
    for name in content.keys() - {"manifest.json"}:
        np.load(io.BytesIO(content[name]), allow_pickle=False)


# --------------------------------------------------------------------------------------------------------------- saving
class _Own(RBF):
    """A kernel that a file cannot name."""


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"random_state": np.random.RandomState(0)}, "random_state: a numpy.random.*RandomState is not among"),
        ({"kernel": _Own()}, "kernel: a .*_Own is not among"),
        ({"kernel": RBF(1.0) + _Own()}, "kernel.k2"),
        ({"inducing": np.array([[np.nan]])}, "cannot save inducing: it has NaN"),
    ],
)
def test_what_is_no_data_is_refused_by_name(params: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        save(GPPLClassifier(**params), tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


def test_only_our_own_estimators_are_saved(tmp_path: Path) -> None:
    class Derived(GPPLClassifier):
        pass

    for stranger in (Derived(), RBF(), {"a": 1}):
        with pytest.raises(DataError, match=r"only .* can be saved") as caught:
            save(stranger, tmp_path / "m")
        known = str(caught.value).partition("only ")[2].removesuffix(" can be saved").split(", ")
        # Every public estimator, the design for its ids, and pipelines of them.
        assert set(known) == {name for name in skpref.__all__ if name not in {"Table", "load", "save"}} | {"Pipeline"}
    assert set(saved_classes()) >= {"GPPLClassifier", "GPPLRegressor"}


def test_ids_of_other_kinds_are_refused(tmp_path: Path) -> None:
    pairs = [[(1, 2), (3, 4)], [(3, 4), (5, 6)], [(1, 2), (5, 6)]]
    left, right = (np.fromiter((pair[side] for pair in pairs), dtype=object, count=3) for side in (0, 1))
    model = quick(GPPLClassifier(), np.column_stack([left, right]), [1, 1, 1])
    with pytest.raises(DataError, match=r"only ids that are integers, strings or bytes"):
        save(model, tmp_path / "m")


def test_a_save_that_fails_leaves_the_earlier_file(
    model: GPPLClassifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(GPPLClassifier(), tmp_path / "m")
    before = (tmp_path / "m").read_bytes()

    def full(_: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="disk full"):
        save(model, tmp_path / "m")
    assert (tmp_path / "m").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_a_missing_file_is_no_format_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "m")


# -------------------------------------------------------------------------------------------------------- hostile files
def members(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def rebuilt(parts: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, content in parts.items():
            archive.writestr(zipfile.ZipInfo(name), content, compress_type=compression)
    return file.getvalue()


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def with_manifest(parts: dict[str, bytes], change: Callable[[dict[str, Any]], None]) -> bytes:
    manifest = json.loads(parts["manifest.json"])
    change(manifest)
    return rebuilt(parts | {"manifest.json": json.dumps(manifest).encode()})


def with_array(parts: dict[str, bytes], name: str, array: np.ndarray, **declared: Any) -> bytes:
    """Replace a member soundly: only its content can be found fault with."""
    from hashlib import sha256

    content = npy(array)
    entry = {"dtype": array.dtype.str, "shape": list(array.shape), "sha256": sha256(content).hexdigest()} | declared
    return with_manifest(parts | {name: content}, lambda m: m["members"].update({name: entry}))


def attributes(manifest: dict[str, Any]) -> dict[str, Any]:
    return manifest["estimator"]["$estimator"][2]


def posterior(manifest: dict[str, Any]) -> dict[str, Any]:
    return attributes(manifest)["posterior_"]["$record"][1]


class _Bomb:
    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (self.path,)


def header(text: bytes, body: bytes = b"") -> bytes:
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + body


def stored(parts: dict[str, bytes], name: str) -> np.ndarray:
    return np.load(io.BytesIO(parts[name]))


HALF, MEAN, SEEN = "posterior_.half.npy", "posterior_.mean.npy", "_items.seen.npy"
HUGE = header(b"{'descr': '<f8', 'fortran_order': False, 'shape': (1099511627776,), }\n")
Parts = dict[str, bytes]
# What is done to a sound file, and what the complaint must name. {bomb} is a path that no loading may create.
HOSTILE: dict[str, tuple[Callable[[Parts, bytes], bytes], str]] = {
    "empty file": (lambda p, b: b"", "not a skpref model"),
    "pickle": (lambda p, b: b"PICKLE", "not a skpref model"),
    "truncated": (lambda p, b: rebuilt(p)[:-30], "not a skpref model"),
    "truncated inside": (lambda p, b: rebuilt(p)[:900] + rebuilt(p)[1000:], "zip directory"),
    "trailing bytes": (lambda p, b: rebuilt(p) + b"x", "not a skpref model"),
    "leading bytes": (lambda p, b: b"#!/bin/sh\n" + rebuilt(p), "zip directory"),
    "extra member": (lambda p, b: rebuilt(p | {"more.npy": npy(np.ones(2))}), "more.npy: not in the manifest"),
    "extra declared member": (lambda p, b: with_array(p, "more.npy", np.ones(2)), "more.npy: belongs to no part"),
    "missing member": (lambda p, b: rebuilt({k: v for k, v in p.items() if k != HALF}), f"{HALF}: in the manifest"),
    "too many members": (
        lambda p, b: rebuilt(p | {f"m{i}.npy": b"" for i in range(MAX_MEMBERS)}),
        f"{MAX_MEMBERS} at most",
    ),
    "parent folder": (lambda p, b: rebuilt(p | {"../x": b"x"}), r"'\.\./x': not a name"),
    "absolute path": (lambda p, b: rebuilt(p | {"/etc/x.npy": b"x"}), "not a name"),
    "folder": (lambda p, b: rebuilt(p | {"a/": b""}), "not a name"),
    "compressed": (lambda p, b: rebuilt(p, zipfile.ZIP_DEFLATED), "compressed"),
    "zip bomb": (
        lambda p, b: rebuilt({"manifest.json": p["manifest.json"], "a.npy": bytes(10**7)}, zipfile.ZIP_DEFLATED),
        "compressed",
    ),
    "wrong sha256": (
        lambda p, b: with_manifest(p, lambda m: m["members"][HALF].update(sha256="0" * 64)),
        f"{HALF}: sha256",
    ),
    "other content": (lambda p, b: rebuilt(p | {HALF: p[HALF][:-1] + b"\x01"}), f"{HALF}: sha256"),
    "cut content": (lambda p, b: rebuilt(p | {HALF: p[HALF][:-8]}), f"{HALF}: .* bytes in the file"),
    "object dtype": (
        lambda p, b: with_array(p, HALF, np.array([_Bomb(b.decode())], dtype=object)),
        rf"{HALF}: dtype '\|O' is not allowed",
    ),
    "object dtype in the header": (
        lambda p, b: rebuilt(p | {HALF: npy(np.array([_Bomb(b.decode())], dtype=object))}),
        f"{HALF}: its header is damaged, or not of numbers",
    ),
    "pickle as a member": (lambda p, b: rebuilt(p | {HALF: pickle.dumps(_Bomb(b.decode()))}), f"{HALF}: not a .npy"),
    "header of code": (
        lambda p, b: rebuilt(p | {HALF: header(b"__import__('os').mkdir('" + b + b"')")}),
        HALF,
    ),
    "deep header": (lambda p, b: rebuilt(p | {HALF: header(b"(" * 900)}), HALF),
    "huge shape": (
        lambda p, b: with_manifest(p, lambda m: m["members"][HALF].update(shape=[2**40])),
        f"{HALF}: shape .* is not allowed",
    ),
    "huge shape in the header": (lambda p, b: rebuilt(p | {HALF: HUGE}), f"{HALF}: its header is damaged"),
    "large shape in both": (
        lambda p, b: with_array(p, HALF, np.ones(1), shape=[2**30, 1]),
        f"{HALF}: has <f8",
    ),
    "negative shape": (
        lambda p, b: with_manifest(p, lambda m: m["members"][HALF].update(shape=[-1, 2])),
        f"{HALF}: shape",
    ),
    "empty strings without end": (
        lambda p, b: with_manifest(p, lambda m: m["members"][HALF].update(dtype="<U0")),
        f"{HALF}: dtype",
    ),
    "no manifest": (lambda p, b: rebuilt({HALF: p[HALF]}), "manifest.json: missing"),
    "manifest is no JSON": (lambda p, b: rebuilt(p | {"manifest.json": b"{"}), "manifest.json"),
    "manifest of brackets": (lambda p, b: rebuilt(p | {"manifest.json": b"[" * 500_000}), "manifest.json"),
    "manifest of empty lists": (
        lambda p, b: rebuilt(p | {"manifest.json": b"[" + b"[]," * 340_000 + b"[]]"}),
        "manifest.json",
    ),
    "manifest too long": (lambda p, b: rebuilt(p | {"manifest.json": b" " * (2 << 20)}), "manifest.json: .* bytes"),
    "manifest with NaN": (lambda p, b: rebuilt(p | {"manifest.json": b'{"format": NaN}'}), "manifest.json: NaN"),
    "key twice": (
        lambda p, b: rebuilt(p | {"manifest.json": b'{"version": 1, "version": 2}'}),
        "manifest.json: a key occurs twice",
    ),
    "other format": (lambda p, b: with_manifest(p, lambda m: m.update(format="zip")), "manifest.json: not that of"),
    "newer format": (
        lambda p, b: with_manifest(p, lambda m: m.update(version=3)),
        "manifest.json: written by format 3; this version reads up to 1",
    ),
    "version true": (lambda p, b: with_manifest(p, lambda m: m.update(version=True)), "no format version"),
    "more keys": (lambda p, b: with_manifest(p, lambda m: m.update(code="x")), "exactly the keys"),
    "unknown class": (
        lambda p, b: with_manifest(p, lambda m: m["estimator"]["$estimator"].__setitem__(0, "os.system")),
        "class 'os.system' is not one",
    ),
    "record for estimator": (
        lambda p, b: with_manifest(p, lambda m: m.update(estimator={"$record": ["FixedScale", {"mean": 1.0}]})),
        "holds no estimator",
    ),
    "unknown kernel": (
        lambda p, b: with_manifest(
            p, lambda m: m["estimator"]["$estimator"][1].update(kernel={"$kernel": ["PairwiseKernel", {}]})
        ),
        "kernel: class 'PairwiseKernel'",
    ),
    "kernel of nonsense": (
        lambda p, b: with_manifest(
            p,
            lambda m: m["estimator"]["$estimator"][1].update(
                kernel={"$kernel": ["RBF", {"length_scale": "x", "length_scale_bounds": "fixed"}]}
            ),
        ),
        "kernel.length_scale",
    ),
    "unknown parameter": (
        lambda p, b: with_manifest(p, lambda m: m["estimator"]["$estimator"][1].update(program="ls")),
        "has no parameter 'program'",
    ),
    "bad parameter": (
        lambda p, b: with_manifest(p, lambda m: m["estimator"]["$estimator"][1].update(n_inducing=-3)),
        "'n_inducing' parameter",
    ),
    "infinite number": (
        lambda p, b: rebuilt(p | {"manifest.json": p["manifest.json"].replace(b'"tol": 0.0001', b'"tol": 1e999')}),
        "tol: is too large",
    ),
    "method as attribute": (
        lambda p, b: with_manifest(p, lambda m: attributes(m).update(predict=1)),
        "'predict' is no fitted attribute",
    ),
    "private method": (
        lambda p, b: with_manifest(p, lambda m: attributes(m).update(_infer=1)),
        "'_infer' is no fitted attribute",
    ),
    "class as attribute": (
        lambda p, b: with_manifest(p, lambda m: attributes(m).update(__class__=1)),
        "is no fitted attribute",
    ),
    "unknown kind": (
        lambda p, b: with_manifest(p, lambda m: attributes(m).update(scale_={"$pickle": "x"})),
        "scale_: unknown kind",
    ),
    "deep tree": (
        lambda p, b: with_manifest(p, lambda m: attributes(m).update(scale_=json.loads("[" * 60 + "]" * 60))),
        "nested more than",
    ),
    "reference to nothing": (
        lambda p, b: with_manifest(p, lambda m: attributes(m).update(_items={"$same": "later"})),
        "did not come before",
    ),
    "member of nothing": (
        lambda p, b: with_manifest(p, lambda m: posterior(m).update(half={"$array": "x.npy"})),
        "posterior_.half: refers to the member 'x.npy'",
    ),
    "fields missing": (
        lambda p, b: with_manifest(p, lambda m: posterior(m).pop("half")),
        "posterior_: must have exactly",
    ),
    "text for an array": (
        lambda p, b: with_manifest(p, lambda m: posterior(m).update(mean="x")),
        r"posterior_\.mean: must be an array",
    ),
    "not square": (lambda p, b: with_array(p, HALF, np.ones((3, 4))), r"posterior_\.half: has shape \(3, 4\)"),
    "not finite": (
        lambda p, b: with_array(p, MEAN, stored(p, MEAN) * np.nan),
        "posterior_.mean.npy: has NaN",
    ),
    "not positive": (lambda p, b: with_array(p, HALF, -stored(p, HALF)), r"posterior_\.half: must be positive"),
    "negative scale": (
        lambda p, b: with_manifest(p, lambda m: posterior(m)["scales"]["$dict"]["f"]["$record"][1].update(rate=-1.0)),
        "rate: must be a positive number",
    ),
    "index out of range": (
        lambda p, b: with_array(p, SEEN, np.full(12, 99)),
        "_items.seen: holds an index outside 0 to 11",
    ),
    "index of the wrong kind": (
        lambda p, b: with_array(p, SEEN, np.zeros(12)),
        "_items.seen: must be an array of int64",
    ),
    "too few rows of features": (
        lambda p, b: with_array(p, "items.features.npy", np.ones((3, 3))),
        r"items\.features: has",
    ),
    "too few columns": (
        lambda p, b: with_array(p, "items.features.npy", np.ones((12, 2))),
        r"_items\.features: must have 3 columns",
    ),
    "same id twice": (
        lambda p, b: with_array(p, "items.vocabulary.ids.text.npy", np.zeros(74, np.uint8)),
        r"items\.vocabulary",
    ),
    "ids that do not add up": (
        lambda p, b: with_array(p, "items.vocabulary.ids.end.npy", np.arange(12)),
        r"items\.vocabulary\.ids: damaged ids",
    ),
}


@pytest.fixture(scope="module")
def sound(fitted: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sound") / "m"
    save(fitted["table, fewer inducing points"], path)
    load(path)  # so that no first call is timed below
    return path


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_files_are_refused_fast_and_small(sound: Path, tmp_path: Path, case: str) -> None:
    damage, message = HOSTILE[case]
    bomb, path = tmp_path / "bomb", tmp_path / "stranger.skpref"
    content = damage(members(sound), str(bomb).encode())
    path.write_bytes(pickle.dumps(_Bomb(str(bomb))) if content == b"PICKLE" else content)
    began = time.process_time()
    with pytest.raises(ModelFormatError, match=message) as caught:
        load(path)
    assert time.process_time() - began < 0.1
    assert str(caught.value).startswith("stranger.skpref: ")
    assert not bomb.exists()
    tracemalloc.start()
    with pytest.raises(ModelFormatError):
        load(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50e6


def test_csr_parts_are_checked_before_scipy_sees_them(fitted: dict[str, Any], tmp_path: Path) -> None:
    save(fitted["sparse"], tmp_path / "m")
    parts = members(tmp_path / "m")
    indices = np.load(io.BytesIO(parts["items.features.indices.npy"]))
    indptr = np.load(io.BytesIO(parts["items.features.indptr.npy"]))
    for name, array, message in (
        ("indices", indices + 10, "holds a column outside"),
        ("indices", -indices - 1, "holds a column outside"),
        ("indices", np.zeros_like(indices), "must ascend"),
        ("indptr", indptr[::-1].copy(), "does not count"),
        ("indptr", indptr[:-1].copy(), "has shape"),
    ):
        (tmp_path / "m").write_bytes(with_array(parts, f"items.features.{name}.npy", array))
        with pytest.raises(ModelFormatError, match=message):
            load(tmp_path / "m")


def test_a_folder_or_a_pipe_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="directory"):
        load(tmp_path)
    with pytest.raises(ModelFormatError, match="no regular file"):
        load(os.devnull)


@settings(max_examples=60)
@given(where=st.floats(0, 1, exclude_max=True), flip=st.integers(1, 255))
def test_a_changed_byte_is_found_or_harmless(
    sound: Path, tmp_path_factory: Any, fitted: dict[str, Any], where: float, flip: int
) -> None:
    content = bytearray(sound.read_bytes())
    content[int(where * len(content))] ^= flip
    path = tmp_path_factory.mktemp("m") / "m"
    path.write_bytes(content)
    try:
        after = load(path)
    except ModelFormatError:
        return
    wanted = fitted["table, fewer inducing points"]
    if after.random_state == wanted.random_state and after.item_effects:  # a parameter is data like another
        assert after.utility().shape == wanted.utility().shape


@settings(max_examples=30)
@given(st.floats(0, 1, exclude_max=True))
def test_a_file_cut_off_anywhere_is_refused(sound: Path, tmp_path_factory: Any, where: float) -> None:
    content = sound.read_bytes()
    path = tmp_path_factory.mktemp("m") / "m"
    path.write_bytes(content[: int(where * len(content))])
    with pytest.raises(ModelFormatError):
        load(path)
