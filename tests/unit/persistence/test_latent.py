"""Files of latent variable models: what comes back is what was saved, or is refused."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from skpref import BayesianGPLVM
from skpref.exceptions import ModelFormatError
from skpref.persistence import load, save
from skpref.persistence._archive import read_archive, write_archive

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

T = np.linspace(0.0, 3.0, 20)
X = np.column_stack([np.sin(T), np.cos(T), T])


@pytest.fixture(scope="module")
def fitted() -> BayesianGPLVM:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return BayesianGPLVM(2, n_inducing=6, max_iter=20, warm_start=True, random_state=0).fit(X)


def test_what_comes_back_is_what_was_saved(fitted: BayesianGPLVM, tmp_path: Path) -> None:
    save(fitted, tmp_path / "a")
    after = load(tmp_path / "a")
    assert vars(after).keys() == vars(fitted).keys()
    for name in ("transform", "reconstruct", "score_samples"):
        assert np.array_equal(getattr(after, name)(X), getattr(fitted, name)(X))
    assert np.array_equal(after.inverse_transform(np.zeros((1, 2))), fitted.inverse_transform(np.zeros((1, 2))))
    save(after, tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    save(BayesianGPLVM(3, tol=1.0), tmp_path / "c")
    assert load(tmp_path / "c").get_params() == BayesianGPLVM(3, tol=1.0).get_params()


HOSTILE: dict[str, tuple[Callable[[dict[str, Any], dict[str, Any]], Any], str]] = {
    "weights too few": (
        lambda _, a: a.update({"mapping_.V.npy": a["mapping_.V.npy"][:-1].copy()}),
        r"mapping_\.V: has shape",
    ),
    "a gap of another size": (
        lambda _, a: a.update({"mapping_.gap.npy": a["mapping_.gap.npy"][1:, 1:].copy()}),
        r"mapping_\.gap: has shape",
    ),
    "length-scales of nothing": (
        lambda _, a: a.update({"mapping_.hyper.log_w.npy": a["mapping_.hyper.log_w.npy"] + 1e3}),
        r"log_w: must be logarithms",
    ),
    "coordinates too many": (
        lambda _, a: a.update({"embedding_.npy": np.hstack([a["embedding_.npy"]] * 2)}),
        "embedding_: has shape",
    ),
    "no spread": (
        lambda _, a: a.update({"embedding_std_.npy": 0.0 * a["embedding_std_.npy"]}),
        "embedding_std_: must be positive",
    ),
    "another width": (lambda m, _: m["estimator"]["$estimator"][2].update(n_features_in_=4), "must be 3, and 2"),
    "scale of zero": (lambda m, _: m["estimator"]["$estimator"][2].update(scale_=0.0), "scale_: must be a positive"),
    "no mapping": (lambda m, _: m["estimator"]["$estimator"][2].update(mapping_=None), "mapping_: is no mapping"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_does_not_hang_together_is_refused(fitted: BayesianGPLVM, name: str, tmp_path: Path) -> None:
    damage, text = HOSTILE[name]
    save(fitted, tmp_path / "m")
    manifest, arrays = read_archive(tmp_path / "m", 10**6)
    arrays = dict(arrays)
    damage(manifest, arrays)
    write_archive(tmp_path / "m", manifest, arrays)
    with pytest.raises(ModelFormatError, match=text):
        load(tmp_path / "m")
