"""Checkpoints from people you do not know: damaged or forged ones are refused, or give a fit that is a fit."""

import io
import json
import warnings
import zipfile
from functools import cache

import numpy as np
import pytest
from sklearn.base import clone

from skpref import GibbsIPM3F, GibbsM3F
from skpref.exceptions import CheckpointError
from skpref.inference import checkpoint, gibbs
from tests.unit.test_persistence_hostile import MUTATIONS, npy, rebuilt

X = np.argwhere(np.random.default_rng(0).random((14, 9)) < 0.7)
Y = np.random.default_rng(1).integers(1, 5, len(X))
SWEEPS = {"max_iter": 8, "burn_in": 3, "n_samples": 4, "random_state": 0}
MODELS = {
    "m3f": GibbsM3F(3, **SWEEPS),
    "chains": GibbsM3F(2, n_chains=2, user_thresholds=False, dtype="float32", **SWEEPS),
    "ipm3f": GibbsIPM3F(**SWEEPS),
    "ipm3f, chains": GibbsIPM3F(n_chains=2, user_thresholds=False, alpha=1.0, **SWEEPS),
}
VALUES = [-1, 0, 1, 10**6, 2**40, 2**63, 0.5, True, None, "x", [], {}, [1], {"users": 0}]


@cache
def sound(name, sweep):
    """Return the checkpoint of a fit that was interrupted after a sweep."""
    import tempfile
    from pathlib import Path

    def stop(writer, chains):
        if sum(chain.sweep for chain in chains) == sweep:
            checkpoint.write_checkpoint(writer._checkpoint, chains)
            raise KeyboardInterrupt

    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        path = Path(folder) / "run"
        patch.setattr(gibbs.Writer, "write", stop)
        with pytest.raises(KeyboardInterrupt):
            clone(MODELS[name]).set_params(checkpoint=path).fit(X, Y)
        return path.read_bytes()


def opened(content):
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(members.pop("schema.json"))
    return header, [np.load(io.BytesIO(members[f"{number}.npy"])) for number in range(len(members))]


def forged(header, arrays):
    """Write parts with the digest that they need."""
    header.pop("digest", None)
    header["digest"] = checkpoint.content_digest(header, arrays)
    return rebuilt({"schema.json": json.dumps(header).encode(), **{f"{i}.npy": npy(a) for i, a in enumerate(arrays)}})


def leaves(part):
    pairs = list(part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ())
    return [(part, key) for key, _ in pairs] + [leaf for _, value in pairs for leaf in leaves(value)]


def mutated(content, rng):
    """Flip bytes, cut the file, or change parts and write all of it anew."""
    kind = rng.choice(["flip", "cut", "array", "entry", "header", "key"], p=[0.2, 0.05, 0.25, 0.2, 0.2, 0.1])
    if kind == "flip":
        damaged = bytearray(content)
        for position in rng.integers(len(content), size=rng.integers(1, 4)):
            damaged[position] ^= 1 << int(rng.integers(8))
        return bytes(damaged)
    if kind == "cut":
        return content[: int(rng.integers(len(content)))]
    header, arrays = opened(content)
    number = int(rng.integers(len(arrays)))
    array = arrays[number]
    if kind == "array":
        change = MUTATIONS[str(rng.choice(sorted(MUTATIONS)))]
        array = change(np.atleast_1d(array))
        array = array.reshape(arrays[number].shape) if array.size == arrays[number].size else array
        arrays[number] = np.asfortranarray(array) if rng.random() < 0.2 else array
    elif kind == "entry" and array.size:
        extremes = [0, 1, 2, -1, 7, 2**31, -(2**63), 2**63 - 1, 1e-300, 1e14, 1e40, 1e300, np.nan, np.inf]
        array.flat[int(rng.integers(array.size))] = np.array([rng.choice(extremes)]).astype(array.dtype)[0]
    else:
        container, key = (pairs := leaves(header["chains"]))[int(rng.integers(len(pairs)))]
        if kind == "key":
            del container[key]
        else:
            container[key] = VALUES[int(rng.integers(len(VALUES)))]
    return forged(header, arrays)


def outcome(name, content, path):
    """Resume from a file; return "refused" or "fitted", having checked what that means."""
    path.write_bytes(content)
    model = clone(MODELS[name]).set_params(checkpoint=path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.filterwarnings("ignore", "The chains of Gibbs.* are not stationary")
            model.fit(X, Y)
    except CheckpointError as error:
        text = str(error)
    else:
        text = ""
    if text:
        assert text.startswith(f"checkpoint: {path} is damaged, or no checkpoint of this fit")
        assert "Delete the file to start afresh" in text
        assert path.read_bytes() == content
        return "refused"
    assert model.risks_.shape == (model.n_chains, 8)
    proba = model.predict_proba([*X.tolist(), [99, 99]])
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, atol=1e-12)
    assert np.isfinite(model.predict_score(X, return_std=True)).all()
    assert np.isin(model.predict(X), model.classes_).all()
    assert np.isfinite(model.risk_)
    return "fitted"


@pytest.mark.parametrize("sweep", [2, 7])
@pytest.mark.parametrize("name", MODELS)
def test_any_mutation_is_refused_or_gives_a_fit(name, sweep, tmp_path):
    content, rng = sound(name, sweep), np.random.default_rng([sweep, len(name)])
    assert outcome(name, content, tmp_path / "run") == "fitted"
    assert outcome(name, forged(*opened(content)), tmp_path / "run") == "fitted"
    with np.errstate(all="ignore"):
        counts = [outcome(name, mutated(content, rng), tmp_path / "run") for _ in range(8)]
    assert "refused" in counts
