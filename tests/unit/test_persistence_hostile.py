"""Files of models from people you do not know: damaged, forged or hostile ones are refused, and nothing is executed."""

import io
import json
import os
import pickle
import time
import tracemalloc
import warnings
import zipfile
from functools import cache
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from scipy import sparse
from skops import io as skops_io

from skpref._archive import MAX_MEMBERS, _check_member, renumbered, write_archive
from skpref.exceptions import ModelFormatError
from skpref.inference.blocks import StackedBlock
from skpref.likelihoods import PairwiseProbit, PairwiseProbitTies
from skpref.persistence import _prepared, load, save
from tests.unit.test_persistence import LEVELS, fitted


class Bomb:
    """What would make a folder if it were unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    path = tmp_path_factory.mktemp("sound") / "m"
    save(fitted("pairs, few points"), path)
    load(path)  # so that no first call is timed below
    return path


def members(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def rebuilt(parts, compression=zipfile.ZIP_STORED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, content in parts.items():
            archive.writestr(zipfile.ZipInfo(name), content, compress_type=compression)
    return file.getvalue()


def with_schema(parts, change):
    schema = json.loads(parts["schema.json"])
    change(schema)
    return rebuilt(parts | {"schema.json": json.dumps(schema).encode()})


def npy(array):
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


def header(text):
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


def twice(parts):
    file = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(file, "w") as archive:
        warnings.simplefilter("ignore")
        for name in [*parts, next(iter(parts))]:
            archive.writestr(zipfile.ZipInfo(name), parts[name])
    return file.getvalue()


def attributes(schema):
    return schema["content"]["content"]


def node(loader, module, name, content=None, **more):
    return {"__loader__": loader, "__module__": module, "__class__": name, "content": content} | more


def plain(value):
    return node("JsonNode", "builtins", "str", json.dumps(value), is_json=True)


def nested(schema, depth):
    part = plain(1)
    for _ in range(depth):
        part = node("ListNode", "builtins", "list", [part])
    attributes(schema)["tol"] = part


def billion(schema):
    """Lists of lists, each of which occurs twice under one number: 2**60 of them unless numbers are checked."""
    part = node("ListNode", "builtins", "list", [plain(1)], __id__=10**6)
    for number in range(60):
        again = {**part, "content": []}
        part = node("ListNode", "builtins", "list", [part, again], __id__=10**6 + 1 + number)
    attributes(schema)["tol"] = part


FIRST = "0.npy"
REDUCE = node("ConstructorFromReduceNode", "os", "mkdir", node("TupleNode", "builtins", "tuple", [plain("BOMB")]))
# What is done to a sound file, and what is said of it. No loading may make a folder of the name BOMB.
FILES = {
    "empty": (lambda p: b"", "not a skpref model"),
    "truncated": (lambda p: rebuilt(p)[:-30], "not a skpref model"),
    "truncated inside": (lambda p: rebuilt(p)[:900] + rebuilt(p)[1000:], "zip directory"),
    "trailing bytes": (lambda p: rebuilt(p) + b"x", "not a skpref model"),
    "leading bytes": (lambda p: b"#!/bin/sh\n" + rebuilt(p), "zip directory"),
    "more members": (lambda p: rebuilt(p | {"9999.npy": npy(np.ones(2))}), "9999.npy: belongs to no part"),
    "member missing": (lambda p: rebuilt({k: v for k, v in p.items() if k != FIRST}), "refers to the member '0.npy'"),
    "too many members": (
        lambda p: rebuilt(p | {f"{i}.bin": b"" for i in range(MAX_MEMBERS)}),
        f"{MAX_MEMBERS} at most",
    ),
    "member twice": (twice, "occurs twice"),
    "parent folder": (lambda p: rebuilt(p | {"../x": b"x"}), r"'\.\./x': not a name"),
    "absolute path": (lambda p: rebuilt(p | {"/etc/1.npy": b"x"}), "not a name"),
    "drive letter": (lambda p: rebuilt(p | {"C:1.npy": b"x"}), "not a name"),
    "folder": (lambda p: rebuilt(p | {"a/": b""}), "not a name"),
    "compressed": (lambda p: rebuilt(p, zipfile.ZIP_DEFLATED), "compressed"),
    "zip bomb": (lambda p: rebuilt({**p, "1.bin": bytes(10**7)}, zipfile.ZIP_DEFLATED), "compressed"),
    "our first format": (lambda p: rebuilt({"manifest.json": b"{}"}), "written by format 1"),
    "newer format": (
        lambda p: with_schema(p, lambda s: s["skpref"].update(format=3)),
        "written by format 3; this version reads up to 2",
    ),
    "plain skops": (lambda p: with_schema(p, lambda s: s.pop("skpref")), "not that of a skpref model"),
    "old skops": (lambda p: with_schema(p, lambda s: s.update(protocol=0)), "of skops protocol 0"),
    "no schema": (lambda p: rebuilt({FIRST: p[FIRST]}), "schema.json: 0 bytes"),
    "schema is no JSON": (lambda p: rebuilt(p | {"schema.json": b"{"}), "line 1 column 2"),
    "schema of brackets": (lambda p: rebuilt(p | {"schema.json": b"[" * 500_000}), "damaged"),
    "schema of commas": (
        lambda p: rebuilt(p | {"schema.json": b"[" + b"[]," * 1_100_000 + b"1]"}),
        "not what a model takes",
    ),
    "schema is a list": (lambda p: rebuilt(p | {"schema.json": b"[]"}), "not that of a skpref model"),
    "deep tree": (lambda p: with_schema(p, lambda s: nested(s, 200)), "nested more than 100 deep"),
    "billion parts": (lambda p: with_schema(p, billion), "has the number of another part"),
    "changed array": (lambda p: rebuilt(p).replace(p[FIRST], p[FIRST][:-1] + b"\x01", 1), "Bad CRC"),
    "array cut": (lambda p: rebuilt(p | {FIRST: p[FIRST][:-8]}), "not those of shape"),
    "object dtype": (lambda p: rebuilt(p | {FIRST: npy(np.array([None, 1], dtype=object))}), "is not allowed"),
    "pickle in a member": (lambda p: rebuilt(p | {FIRST: pickle.dumps(Bomb("BOMB"))}), "magic"),
    "header of code": (
        lambda p: rebuilt(p | {FIRST: header(b"__import__('os').mkdir('BOMB')")}),
        "malformed|header|damaged",
    ),
    "deep header": (lambda p: rebuilt(p | {FIRST: header(b"(" * 900)}), "malformed|header|damaged"),
    "huge shape": (
        lambda p: rebuilt(
            p | {FIRST: header(b"{'descr': '<f8', 'fortran_order': False, 'shape': (1099511627776,), }\n")}
        ),
        "not those of shape",
    ),
    "huge empty shape": (
        lambda p: rebuilt(
            p | {FIRST: header(b"{'descr': '<f8', 'fortran_order': False, 'shape': (8589934592, 0), }\n")}
        ),
        "not those of shape",
    ),
    "unknown type": (
        lambda p: with_schema(p, lambda s: attributes(s).update(tol=node("ObjectNode", "os", "system"))),
        "tol: os.system is not among the types",
    ),
    "call": (lambda p: with_schema(p, lambda s: attributes(s).update(tol=REDUCE)), "tol: os.mkdir is not among"),
    "function": (
        lambda p: with_schema(p, lambda s: attributes(s).update(tol=node("FunctionNode", "numpy", "load"))),
        "numpy.load is not among",
    ),
    "tree that skops trusts": (
        lambda p: with_schema(
            p,
            lambda s: attributes(s).update(
                kernel=node("ObjectNode", "sklearn.tree._classes", "DecisionTreeClassifier")
            ),
        ),
        "DecisionTreeClassifier is not among",
    ),
    "method": (
        lambda p: with_schema(p, lambda s: attributes(s).update(tol=node("MethodNode", "builtins", "list", {}))),
        "builtins.list is not among",
    ),
    "random state": (
        lambda p: with_schema(
            p,
            lambda s: attributes(s).update(random_state=node("RandomStateNode", "numpy.random.mtrand", "RandomState")),
        ),
        "RandomState is not among",
    ),
    "array of estimators": (
        lambda p: with_schema(
            p,
            lambda s: attributes(s).update(
                tol=node("NdArrayNode", "numpy", "ndarray", [attributes(s)["kernel_"]], type="json", shape=plain(1))
            ),
        ),
        "holds Python objects",
    ),
    "keys that are called": (
        lambda p: with_schema(p, lambda s: s["content"]["key_types"]["content"][0].update(__class__="bool")),
        "must have keys of text",
    ),
    "list in a plain value": (lambda p: with_schema(p, lambda s: attributes(s).update(tol=plain([1]))), "plain value"),
    "root of another kind": (lambda p: with_schema(p, lambda s: s.update(plain(1), __id__=None)), "belongs to no part"),
    "parameter missing": (
        lambda p: with_schema(p, lambda s: attributes(s).update(x=attributes(s).pop("tol"))),
        "lacks",
    ),
    "method hidden": (lambda p: with_schema(p, lambda s: rename(s, "scale_", "predict")), "'predict' is no fitted"),
    "private method hidden": (
        lambda p: with_schema(p, lambda s: rename(s, "scale_", "_check_fitted")),
        "no fitted attribute",
    ),
}


def rename(schema, old, new):
    schema["content"]["content"] = {new if key == old else key: part for key, part in attributes(schema).items()}


@pytest.mark.parametrize("case", FILES)
def test_hostile_files_are_refused_fast_and_small(sound, tmp_path, monkeypatch, case):
    damage, message = FILES[case]
    path = tmp_path / "unknown.skpref"
    path.write_bytes(damage(members(sound)))
    monkeypatch.chdir(tmp_path)
    began = time.process_time()
    with pytest.raises(ModelFormatError, match=message) as caught:
        load(path)
    assert time.process_time() - began < 5.0  # 0.02 to 0.5 s measured: more is a hang
    assert str(caught.value).startswith("unknown.skpref: ")
    tracemalloc.start()
    with pytest.raises(ModelFormatError):
        load(path)
    assert tracemalloc.get_traced_memory()[1] < 50e6
    tracemalloc.stop()
    assert [found.name for found in tmp_path.iterdir()] == ["unknown.skpref"]


def test_a_pickle_is_refused(tmp_path):
    (tmp_path / "m").write_bytes(pickle.dumps(Bomb(tmp_path / "bomb")))
    with pytest.raises(ModelFormatError, match="not a skpref model"):
        load(tmp_path / "m")
    assert not (tmp_path / "bomb").exists()


def test_only_regular_files_are_read(sound, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    os.mkfifo(tmp_path / "pipe")  # nobody writes to it: who waits, waits for ever
    for path in (tmp_path / "folder", tmp_path / "link", tmp_path / "pipe", os.devnull):
        with pytest.raises(ModelFormatError, match="no regular file"):
            load(path)
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nothing")
    with (tmp_path / "large").open("wb") as file:
        file.truncate(1 << 32)  # no disk is used
    with pytest.raises(ModelFormatError, match="more than the format allows"):
        load(tmp_path / "large")
    (tmp_path / "model").symlink_to(sound)
    load(tmp_path / "model")


# -------------------------------------------------------------------------------------------- parts that do not fit
def changed(value, path, change):
    """Change a part of a model in place, its frozen records and tuples included."""
    if not path:
        return change(value)
    name, rest = path[0], path[1:]
    if isinstance(value, dict):
        value[name] = changed(value[name], rest, change)
    elif isinstance(value, list):
        value[int(name)] = changed(value[int(name)], rest, change)
    elif hasattr(value, "_fields"):
        return value._replace(**{name: changed(getattr(value, name), rest, change)})
    elif isinstance(value, tuple):
        index = int(name)
        return (*value[:index], changed(value[index], rest, change), *value[index + 1 :])
    elif hasattr(value, "__dict__"):
        value.__dict__[name] = changed(value.__dict__[name], rest, change)
    else:
        object.__setattr__(value, name, changed(getattr(value, name), rest, change))
    return value


def forge(model, path):
    """Write a model that was not checked."""
    file = io.BytesIO()
    skops_io.dump(model, file)
    write_archive(path, *renumbered(file, {"format": 2, "version": "0"}))
    return path


@cache
def reread(case):
    """Return the pickle of a model as a file has it: no more than the parts of a record."""
    with TemporaryDirectory() as folder:
        save(fitted(case), f"{folder}/m")
        return pickle.dumps(load(f"{folder}/m"))


def forged(case, where, change, path):
    model = _prepared(pickle.loads(reread(case)), {})
    changed(model, where.split("."), change)
    return forge(model, path)


def always(value):
    return lambda _: value


def cut(a):
    return a[:-1]


def narrow(a):
    return np.ascontiguousarray(a[..., 1:])


def minus(a):
    return -a


def one(value):
    """Change the first entry of an array."""

    def change(a):
        a = a.copy()
        a.flat[0] = value
        return a

    return change


def bad_csr(name, change):
    def damage(matrix):
        other = sparse.csr_array(matrix, copy=True)
        array = np.ascontiguousarray(change(getattr(other, name))).astype(getattr(other, name).dtype)
        setattr(other, name, array)
        return other

    return damage


PARTS = [
    # parameters and what scikit-learn notes
    ("pairs", "inducing", always(-3), "'inducing' parameter"),
    ("pairs", "max_iter", always(2**40), "max_iter is too large a number"),
    ("crowd, svi", "inference.batch_size", always(2**63), "batch_size is too large a number"),
    ("m3f", "max_iter", always(2**40), "max_iter is too large a number"),
    ("svgp", "n_features_in_", always(0.5), "n_features_in_ must be a whole number"),
    ("pairs", "n_features_in_", always(None), "n_features_in_ must be 2"),
    ("crowd", "n_features_in_", always(None), "n_features_in_ must be 3"),
    ("ranks", "n_features_in_", always(4), "n_features_in_ does not fit"),
    ("pairs, table", "item_ids_", lambda a: np.array([a[0]] * 12, dtype=object), "item_ids_ must be different"),
    ("crowd, text", "user_ids_", one("nobody"), "user_ids_ must be the ids"),
    ("pairs", "classes_", always(np.array([0, 2])), "classes_ must be 0 and 1"),
    # kernels
    ("pairs, columns", "kernel_.k1.kernel.length_scale", always("x"), "length_scale must be a number"),
    ("pairs, columns", "kernel.k1.kernel.length_scale", always(-1.0), "length_scale must be positive"),
    ("ranks, sums", "kernel.k2.noise_level_bounds", always([[1.0, 2.0], [1.0]]), "inhomogeneous"),
    ("ranks, sums", "kernel.k2.noise_level_bounds", always((2.0, 1.0)), r"must be pairs \(low, high\)"),
    ("svgp", "kernel_.k2.length_scale", always([1.0, 2.0]), "does not fit 3 features"),
    ("pairs, columns", "kernel_.k1.columns", always(slice(1, 9)), "does not fit|bounds|columns"),
    # ids and tables
    ("pairs, table", "items.features", lambda a: a[:5], "features has 5 rows, expected 12"),
    ("pairs, table", "items.features", lambda a: a * np.nan, "has NaN or infinite values"),
    ("pairs, table", "items.vocabulary.ids", lambda a: np.array([a[0]] * 12, dtype=object), "duplicate item id"),
    ("pairs", "_items.vocabulary.ids", lambda a: a.astype(float), "ids must be a vector of ids"),
    ("pairs, sparse", "_items.features", bad_csr("indices", lambda a: a + 10), "column|indices|index"),
    ("pairs, sparse", "_items.features", bad_csr("indices", lambda a: -a - 1), "column|indices|index"),
    ("pairs, sparse", "_items.features", bad_csr("indices", np.zeros_like), "unsorted or repeated"),
    ("pairs, sparse", "_items.features", bad_csr("indptr", lambda a: a[::-1]), "index pointer|indptr|damaged"),
    ("pairs, table", "_items.seen", one(99), "seen holds an index outside 0 to 11"),
    ("crowd, both", "_items.seen", lambda a: one(a[1])(a), "seen names an entity twice"),
    ("crowd, both", "_users", always(None), "_users must not be of type NoneType"),
    # posteriors of comparisons
    ("pairs, few points", "posterior_.half", narrow, r"half has shape \(\d+, \d+\), expected"),
    ("pairs, few points", "posterior_.half", minus, "half must have a positive diagonal"),
    ("pairs, few points", "posterior_.mean", always("x"), "mean must be an array of floats"),
    ("pairs, few points", "posterior_.mean", lambda a: a * np.nan, "has NaN or infinite values"),
    ("pairs, few points", "posterior_.scales.f.rate", always(-1.0), "GammaScale.rate must be positive"),
    ("pairs, few points", "posterior_.scales", always({}), "must hold the scales f"),
    ("pairs, few points", "_state", always(None), "_state must not be of type NoneType"),
    ("pairs, few points", "_state.blocks", always({}), "_state must have"),
    ("pairs, few points", "components_", one(99), "components_ holds an index outside"),
    # crowds
    ("crowd, both", "_comparisons.user", one(7), "refers to user 7, but there are 7"),
    ("crowd, both", "_comparisons.left", one(-1), "negative item index -1"),
    ("crowd, both", "_comparisons.y", one(2.0), "labels must be 0 or 1"),
    ("crowd, both", "_comparisons.weight", minus, "Negative values"),
    ("crowd, both", "_comparisons.n_items", always(2**62), "must be of 9 items"),
    ("crowd, both", "_users.seen", lambda a: a[1:], "leaves out some"),
    ("crowd, factorised", "posterior_.items.mean", narrow, "does not fit the inducing points"),
    ("crowd, factorised", "posterior_.items.inverse_scale", cut, r"inverse_scale has shape \(1,\)"),
    ("crowd, factorised", "posterior_.users.variance", always(np.ones((2, 7))), "variance has shape"),
    ("crowd, both", "posterior_.consensus.centre_mean", always(float("nan")), "centre_mean must be finite"),
    ("crowd, both", "posterior_.points.0.consensus.centre_mean", always(1e300), "centre_mean is too large a number"),
    ("crowd, both", "_users.has_own", always(True), "needs features of items"),
    ("crowd, ties", "_thresholds.spread", always(1e300), "spread is too large a number"),
    ("pairs, sparse", "_items.has_own", always(True), "_items must have"),
    ("m3f", "fitted_.posterior.sigma", always(1e300), "sigma is too large a number"),
    ("crowd, both", "lower_bounds_", always([float("nan")]), "lower_bounds_ must be finite"),
    ("crowd, both", "posterior_.consensus", always(1.0), "consensus must not be of type float"),
    ("crowd, factorised", "posterior_.centre", cut, "centre has shape"),
    ("crowd, factorised", "posterior_.bias_variance", minus, "bias_variance must be positive"),
    ("crowd, factorised", "kernel_", always(None), "disagree on features"),
    ("crowd, both", "kernel_", always(None), "kernel_ must go with features"),
    ("crowd, both", "posterior_.S", narrow, "S has shape"),
    ("crowd, both", "posterior_.S", lambda a: 0.0 * a - np.eye(len(a)), "S must be a covariance"),
    ("crowd, both", "posterior_.left", one(99), "left holds an index outside"),
    ("crowd, both", "posterior_.user", lambda a: a[::-1].copy(), "user must be sorted"),
    ("crowd, both", "posterior_.tau", minus, "tau must be positive"),
    ("crowd, both", "posterior_.alpha", cut, "alpha must have"),
    ("crowd, both", "posterior_.n_users", always(3), "x has shape"),
    ("crowd, both", "posterior_.covariates", always(None), "covariates must be of 3 columns"),
    ("crowd, both", "posterior_.covariates.spread", lambda a: 0.0 * a, "spread must be positive"),
    ("crowd, both", "posterior_.extension", narrow, "extension has shape"),
    ("crowd, both", "posterior_.basis", always(None), "shape_rows has shape"),
    ("crowd, both", "_state.0.prior_weight", always(-1.0), "prior_weight must be positive"),
    ("crowd, both", "_state.0.own", always(0.0), "own must be positive"),
    ("crowd, both", "_state", always(()), "must be regularisations"),
    ("crowd, factorised", "_alive", always((0, 0)), "must name 2 of 2 factors"),
    ("crowd, factorised", "_segments", always("x"), "must be runs of variables"),
    ("crowd, factorised", "_state.blocks.items", always(StackedBlock(())), "must be blocks of one size"),
    ("crowd, factorised", "_state.blocks.f.precision", minus, "must have a positive diagonal"),
    ("crowd, factorised ids", "posterior_.users.variance", narrow, "variance has shape"),
    ("crowd", "user_factors_", lambda a: a[1:], "user_factors_ has shape"),
    # ordinal models, sparse Gaussian processes, latent coordinates
    ("ordinal", "posterior_.alpha", cut, "root_w has shape"),
    ("ordinal", "posterior_.chol", lambda a: 0.0 * a, "chol must have a positive diagonal"),
    ("ordinal", "posterior_.kernel", always(None), "X needs a kernel"),
    ("ordinal", "likelihood_.thresholds", always((1.0, 0.0)), "strictly ascending"),
    ("ordinal", "classes_", always(np.arange(4)), "likelihood_ must be of 4 levels"),
    ("ordinal", "_rows.1", lambda a: a + 1, "_rows holds an index outside 0 to 2"),
    ("ordinal", "_rows.2", lambda a: 0.0 * a, "positive weight"),
    ("ordinal", "ensemble_", always([]), "must be a list of models"),
    ("ordinal", "ensemble_.0.weight", always(0.5), "do not add up to 1"),
    ("ordinal, given covariance", "_used", np.zeros_like, "names a row twice"),
    ("ordinal, given covariance", "_used", lambda a: a + LEVELS.size, "_used holds an index outside"),
    ("ordinal, vb", "posterior_.mean", cut, "mean has shape"),
    ("ordinal, vb", "_state.blocks.f.linear", cut, "precision has shape"),
    ("svgp", "posterior_.half", lambda a: 0.0 * a, "half must have a positive diagonal"),
    ("svgp", "y_mean_", always(float("nan")), "y_mean_ must be finite"),
    ("svgp", "y_scale_", always(0.0), "y_scale_ must be positive"),
    ("svgp", "noise_", always(0.0), "noise_ must be positive"),
    ("svgp", "_rows", always(None), "both missing"),
    ("classes, two", "_rows.1", lambda a: a + 5, "_rows holds an index outside"),
    ("classes, two", "classes_", always(np.array(["a", "b", "c"])), "must be 3 of 3 classes"),
    ("latent", "mapping_.gap", lambda a: a[1:, 1:], "gap has shape"),
    ("latent", "mapping_.hyper.log_w", lambda a: a + 1e3, "must be logarithms"),
    ("latent", "embedding_std_", lambda a: 0.0 * a, "embedding_std_ must be positive"),
    # ratings and machines
    ("m3f", "fitted_.posterior.last.users", lambda a: a.astype(np.uint8), "users of the wrong kind"),
    ("m3f", "fitted_.posterior.samples.items", narrow, "must have 3 factors"),
    ("m3f", "fitted_.ratings.user", lambda a: a + 5, "user must lie in"),
    ("m3f", "fitted_.vocabularies.levels", lambda a: a[::-1].copy(), "ascending order"),
    ("m3f", "fitted_.chains.0.sweep", always(-1), "sweep must be a whole number"),
    ("m3f", "fitted_.chains.0.trace", always({}), "trace must hold lists"),
    ("m3f", "fitted_.chains.0.state", always({}), "must have a seed"),
    ("m3f", "fitted_.posterior.cost", always(-1.0), "cost must be >= 0"),
    ("ipm3f", "fitted_.posterior.last.users", lambda a: a * 2, "users of the wrong kind"),
    ("ipm3f", "fitted_.chains.0.state.feature", lambda a: a[::-1].copy(), "in order"),
    ("ipm3f", "fitted_.chains.0.average.feature", always(np.arange(-99, 0)), "holds an index outside"),
    ("machine", "fitted_.posterior.machine.mean", narrow, "mean has shape"),
    ("machine", "fitted_.posterior.machine.variance", minus, "variance must be positive|positive definite"),
    ("machine", "fitted_.posterior.machine.prior.group", lambda a: a + 7, "group holds an index outside"),
    ("machine", "fitted_.posterior.machine.prior.group", np.zeros_like, "names a group of fewer than two columns"),
    ("machine", "fitted_.posterior.machine.likelihood", always(PairwiseProbit()), "another|must be 2 labels"),
    ("machine, words", "fitted_.posterior.machine.likelihood", always(PairwiseProbitTies()), "must not be of type"),
    ("machine, words", "fitted_.posterior.scale", always(2.0), "units 0 and 1"),
    ("machine, design", "steps.1.1.fitted_.one_hot_groups", lambda a: a.astype(float), "must be a vector of int64"),
    ("machine, design", "steps.0.1._design", always(None), "_design must not be of type"),
    ("machine, design", "steps.0.1._design.ids.0", always(None), "must have ids of users and items"),
    ("machine, design", "steps.0.1.rated_", bad_csr("indices", lambda a: a + 100), "column|indices|index"),
    # scikit-learn's
    ("machine, design", "steps.1.1.fitted_.posterior.scale", always(1e-200), "square in the range"),
    ("pipe, texts", "steps.0.1.transformers_.0.1._tfidf.idf_", cut, "idf_ must be of 4 features"),
    ("pipe, columns", "steps.0.1.transformers_.0.1.steps.1.1.mean_", cut, "mean_ must be of 3 features"),
    ("pipe, reduced", "steps.1", always(("both", "passthrough")), "not unique"),
    ("pipe, filled", "steps.1.1.bsplines_.0.0", lambda t: t[:4], "must be splines"),
    ("pipe, filled", "steps.1.1.bsplines_.0.0", lambda t: t[::-1].copy(), "must be splines"),
    ("pipe, filled", "steps.1.1.bsplines_.0.1", lambda c: c[1:].copy(), "must be splines"),
    ("pipe, filled", "steps.1.1.bsplines_.0.1", lambda c: c.astype(np.float32), "must be splines"),
    ("pipe, filled", "steps.1.1.bsplines_.0.2", always(-1), "must be splines"),
    ("pipe, filled", "steps.1.1.bsplines_.0.2", always(9), "must be splines"),
    ("pipe, filled", "steps.0.1.random_state_", lambda state: (*state[:2], 10**6, *state[3:]), "a state of MT19937"),
    ("pipe, filled", "steps.0.1.random_state_", lambda state: ("PCG64", *state[1:]), "a state of MT19937"),
    ("pipe, texts", "steps.0.1.transformers_.0.1.vocabulary_.apple", always(10**6), "must number its words"),
]


def test_a_number_is_no_array_of_one(tmp_path):
    save(fitted("machine"), tmp_path / "m")
    parts = members(tmp_path / "m")
    single = next(name for name, part in parts.items() if name.endswith(".npy") and np.load(io.BytesIO(part)).ndim == 0)
    (tmp_path / "m").write_bytes(rebuilt(parts | {single: npy(np.ones(1))}))
    with pytest.raises(ModelFormatError, match="must be a single number"):
        load(tmp_path / "m")


@pytest.mark.parametrize(("case", "where", "change", "message"), PARTS, ids=[f"{c}-{w}" for c, w, _, _ in PARTS])
def test_parts_that_do_not_fit_are_refused_when_loaded(case, where, change, message, tmp_path):
    path = forged(case, where, change, tmp_path / "m")
    with pytest.raises(ModelFormatError, match=message):
        load(path)


# What is done to arrays of files (tests/fuzz).
MUTATIONS = {
    "cut": lambda a: a[: len(a) // 2],
    "longer": lambda a: np.concatenate([a, a]),
    "empty": lambda a: a[:0],
    "flat": np.ravel,
    "floats": lambda a: a.astype(np.float64),
    "integers": lambda a: a.astype(np.int64),
    "small floats": lambda a: a.astype(np.float32),
    "negative": lambda a: 0 - a,
    "zero": lambda a: a * 0,
    "shifted": lambda a: a + 1,
    "large": lambda a: a * a.dtype.type(100),
    "backwards": lambda a: a[::-1],
}


HARMS = {
    "huge": b"{'descr': '<f8', 'fortran_order': False, 'shape': (1099511627776,), }\n",
    "objects": b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }\n",
    "negative": b"{'descr': '<f8', 'fortran_order': False, 'shape': (-1,), }\n",
    "no header": b"no header",
}


@pytest.mark.parametrize("part", ["indices.npy", "indptr.npy", "format.npy", "shape.npy", "data.npy"])
@pytest.mark.parametrize("harm", HARMS)
def test_every_array_of_a_sparse_matrix_is_checked_before_it_is_read(part, harm):
    file, hostile = io.BytesIO(), io.BytesIO()
    sparse.save_npz(file, sparse.csr_array(np.eye(3)), compressed=False)
    with zipfile.ZipFile(file) as archive, zipfile.ZipFile(hostile, "w") as other:
        assert part in archive.namelist()
        for name in archive.namelist():
            other.writestr(name, header(HARMS[harm]) if name == part else archive.read(name))
    _check_member("SparseMatrixNode", "features", file.getvalue())
    tracemalloc.start()
    # What is no header is refused by NumPy, of which the caller makes our error.
    with pytest.raises(ValueError, match="header" if harm == "no header" else f"features/{part}: "):
        _check_member("SparseMatrixNode", "features", hostile.getvalue())
    assert tracemalloc.get_traced_memory()[1] < 2**20
    tracemalloc.stop()
