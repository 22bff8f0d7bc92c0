"""What the cases of `same_predictions.py` share: from any result to numbers, simulated data, names of variants."""

# ruff: noqa: ANN401 - estimators and their answers are of any type

from __future__ import annotations

import tempfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.gaussian_process.kernels import Kernel

import skpref
from skpref.exceptions import DataError

Array: TypeAlias = npt.NDArray[np.float64]
Numbers: TypeAlias = dict[str, Any]  # what `numbers` can turn into an array
Case: TypeAlias = Callable[[], Numbers]

LEARNT = (  # public attributes of fitted estimators that are, or hold, numbers
    *(
        "lower_bound_",
        "lower_bounds_",
        "n_iter_",
        "converged_",
        "kernel_",
        "kernels_",
        "factor_kernel_",
        "user_kernel_",
    ),
    *("likelihood_", "inducing_points_", "inducing_users_", "scale_", "order_effect_", "item_ids_", "user_ids_"),
    *("components_", "user_factors_", "item_factors_", "factor_scales_", "thresholds_", "noise_", "n_skipped_"),
    *("log_marginal_likelihood_value_", "relevance_", "classes_", "n_samples_seen_", "y_mean_", "y_scale_"),
    *("embedding_", "embedding_std_", "length_scale_", "amplitude_", "mean_", "risks_", "risk_", "r_hat_"),
    *("effective_sample_size_", "n_factors_", "weights_", "weights_std_", "factors_", "factors_std_", "intercept_"),
    *("groups_", "group_priors_", "validation_losses_", "n_features_in_"),
)


# --------------------------------------------------------------------------------------------- from anything to numbers
def numbers(value: Any) -> Array:
    """All numbers in something, in one row; text counts by its checksum, a kernel by its hyper-parameters."""
    if value is None:
        return np.empty(0)
    if isinstance(value, str | bytes):
        return np.array([zlib.crc32(value.encode() if isinstance(value, str) else value)], dtype=np.float64)
    if isinstance(value, Kernel):
        return numbers([value.theta, value.bounds, type(value).__name__])
    if sparse.issparse(value):
        return numbers(value.toarray())
    if is_dataclass(value):
        return numbers([getattr(value, field.name) for field in fields(value)])
    if isinstance(value, Mapping):
        return numbers([part for pair in value.items() for part in pair])
    if isinstance(value, list | tuple):
        return np.concatenate([numbers(part) for part in value]) if value else np.empty(0)
    array = np.asarray(value)
    return numbers(array.ravel().tolist()) if array.dtype.kind in "OUS" else array.astype(np.float64).ravel()


def learnt(model: Any) -> Numbers:
    """What a fitted estimator shows of what it learnt."""
    return {name: getattr(model, name) for name in LEARNT if hasattr(model, name)}


def through_file(model: Any, ask: Callable[[Any], Any]) -> Any:
    """What the model says after `save` and `load`; None if there is something in it that no file holds."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            skpref.save(model, Path(folder) / "model.skpref")
        except DataError:
            return None
        return ask(skpref.load(Path(folder) / "model.skpref"))


def variants(fit: Callable[..., Numbers], name: str, **options: dict[str, Any]) -> dict[str, Case]:
    """A case for each set of options, named by estimator and variant."""
    return {f"{name} {variant.replace('_', ' ')}": partial(fit, **chosen) for variant, chosen in options.items()}


# ----------------------------------------------------------------------------------------------------------------- data
@cache
def features(n: int = 60, d: int = 3, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=(n, d))


def truth(X: Array) -> Array:
    return 1.5 * np.sin(1.5 * X[:, 0]) + 0.7 * X[:, 1]


def answers(z: Array, rng: np.random.Generator) -> Array:
    """1 = left, 0 = right, 0.5 = a tie."""
    z = z + rng.normal(size=z.size)
    return np.where(np.abs(z) < 0.3, 0.5, (z > 0).astype(np.float64))


@cache
def comparisons(n: int = 400, n_items: int = 60) -> tuple[npt.NDArray[np.int64], Array]:
    """Pairs of all but the last ten items, and the answers, which favour the left side."""
    rng = np.random.default_rng(1)
    left = rng.integers(0, n_items - 10, n)
    right = (left + rng.integers(1, n_items - 10, n)) % (n_items - 10)
    f = truth(features(n_items))
    return np.column_stack([left, right]), answers(f[left] - f[right] + 0.3, rng)


@cache
def crowd(n: int = 700) -> tuple[npt.NDArray[np.int64], Array, Array]:
    """Rows of (user, left, right), answers, and features of 20 users, the last four of whom say nothing."""
    rng = np.random.default_rng(2)
    pairs = comparisons(n)[0] % 30
    pairs[:, 1] = np.where(pairs[:, 0] == pairs[:, 1], (pairs[:, 1] + 1) % 30, pairs[:, 1])
    people, X, user = rng.normal(size=(20, 2)), features(), rng.integers(0, 16, n)
    f = truth(X) + 1.5 * people[:, :1] * X[:, 2]
    y = answers(f[user, pairs[:, 0]] - f[user, pairs[:, 1]] + 0.4, rng)
    return np.column_stack([100 + user, pairs]), y, people


@cache
def ratings() -> tuple[list[tuple[str, int]], npt.NDArray[np.int64]]:
    """Some 500 ratings on five levels: 30 users, named by text, and 40 items."""
    rng = np.random.default_rng(3)
    user, item = np.nonzero(rng.random((30, 40)) < 0.4)
    U, V, b = rng.normal(size=(30, 2)), rng.normal(size=(40, 2)), rng.normal(size=40)
    score = np.sum(U[user] * V[item], axis=1) + b[item] + 0.5 * rng.normal(size=user.size)
    return [(f"u{u}", int(i)) for u, i in zip(user, item, strict=True)], 1 + np.digitize(score, [-1.5, -0.5, 0.5, 1.5])
