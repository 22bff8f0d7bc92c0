"""What must hold between the parts of a model of ratings before anything is computed with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from skpref.data import Vocabulary
from skpref.data.ratings import Ratings
from skpref.factorization.ipm3f import GibbsIPM3F
from skpref.factorization.max_margin.base import MaxMarginFactorization
from skpref.factorization.max_margin.posterior import Factors, IPM3FPosterior, M3FPosterior, RatingVocabularies
from skpref.inference.gibbs import Chain
from skpref.persistence._checks import array, positive, require

if TYPE_CHECKING:
    from collections.abc import Callable


def _check_tables(tables: Factors, where: str) -> None:
    users, items, theta = tables
    for name, table in zip(Factors._fields, tables, strict=True):
        sound = isinstance(table, np.ndarray) and table.ndim == 3 and table.dtype.str in {"<f8", "<f4", "|u1"}
        require(sound, f"{where}.{name}", "must be a table of each chain or sample")
        require(table.shape[0] == users.shape[0] >= 1, f"{where}.{name}", f"must be of {users.shape[0]} samples")
    require(items.shape[2] == users.shape[2], f"{where}.items", f"must have {users.shape[2]} factors")
    require(theta.shape[1] in {1, users.shape[1]}, f"{where}.thresholds", f"must be of {users.shape[1]} users, or one")
    require(theta.shape[2] >= 1, f"{where}.thresholds", "are missing")
    for name, table in (("items", items), ("thresholds", theta)):
        require(table.dtype.kind == "f", f"{where}.{name}", "must be real numbers")


def _check_posterior(posterior: M3FPosterior, where: str) -> None:
    parts = posterior.average, posterior.last, posterior.samples
    require(all(isinstance(part, Factors) for part in parts), where, "must have average, last and samples")
    shapes = {(part.users.shape[1], part.items.shape[1], part.thresholds.shape[1:]) for part in parts}
    require(len(shapes) == 1, where, "is of different users, items or levels")
    n_chains, n_samples = posterior.average.users.shape[0], posterior.samples.users.shape[0]
    require(posterior.last.users.shape[0] == n_chains, f"{where}.last", f"must be of {n_chains} chains")
    require(n_samples % n_chains == 0, f"{where}.samples", f"must be as many of each of {n_chains} chains")
    require(posterior.average.users.dtype == np.float64, f"{where}.average.users", "must be float64")
    for name in ("margin", "sigma"):
        positive(getattr(posterior, name), f"{where}.{name}")
    for name in ("cost", "varsigma"):
        value = getattr(posterior, name)
        require(isinstance(value, float) and 0.0 <= value < np.inf, f"{where}.{name}", "must be >= 0")
    own = posterior.varsigma > 0.0
    n_users, found = posterior.average.users.shape[1], posterior.average.thresholds.shape[1]
    require(found == (n_users if own else 1), f"{where}.thresholds", "are not as many as varsigma says")
    binary = isinstance(posterior, IPM3FPosterior)
    for part, name in ((posterior.last, "last"), (posterior.samples, "samples")):
        zeros_and_ones = part.users.dtype == np.uint8 and not (part.users > 1).any()
        require(zeros_and_ones if binary else part.users.dtype.kind == "f", f"{where}.{name}.users", "are out of place")
    if isinstance(posterior, IPM3FPosterior):
        positive(posterior.alpha, f"{where}.alpha")


def _check_chain(chain: Chain, where: str) -> None:
    counts = chain.begin, chain.sweep, chain.n_averaged
    require(all(type(n) is int and 0 <= n < 1 << 40 for n in counts), where, "sweeps must be whole numbers >= 0")
    done = chain.sweep - chain.begin
    require(done >= chain.n_averaged >= 1, f"{where}.n_averaged", f"must be among {done} sweeps")
    require(isinstance(chain.samples, tuple), f"{where}.samples", "must be a tuple")
    states = chain.state, chain.average, *chain.samples
    require(all(isinstance(state, dict) for state in states), where, "must have state, average and samples")
    array(chain.state.get("seed"), f"{where}.state.seed", (), np.uint64)
    lists = isinstance(chain.trace, dict) and all(
        isinstance(values, list) and 1 <= len(values) <= done and all(isinstance(value, float) for value in values)
        for values in chain.trace.values()
    )
    require(lists and "risk" in chain.trace, f"{where}.trace", f"must be numbers of at most {done} sweeps")
    require(len({len(values) for values in chain.trace.values()}) == 1, f"{where}.trace", "has gaps")


def _check_vocabularies(known: RatingVocabularies, where: str) -> None:
    for name in ("users", "items"):
        require(isinstance(getattr(known, name), Vocabulary), f"{where}.{name}", "must be ids")
    levels = known.levels
    sound = isinstance(levels, np.ndarray) and levels.ndim == 1 and len(set(levels.tolist())) == levels.size >= 2
    require(sound, f"{where}.levels", "must be at least 2 levels")
    if levels.dtype.kind in "biuf":
        require((np.diff(levels.astype(np.float64)) > 0.0).all(), f"{where}.levels", "must be in ascending order")


def _check_estimator(estimator: MaxMarginFactorization, where: str) -> None:
    if not hasattr(estimator, "posterior_"):
        return  # saved before it was fitted
    prefix = f"{where}." if where else ""
    posterior, known, ratings = estimator.posterior_, estimator._vocabularies, estimator._ratings  # noqa: SLF001
    binary = isinstance(estimator, GibbsIPM3F)
    kind: type[Any] = IPM3FPosterior if binary else M3FPosterior
    require(type(posterior) is kind, f"{prefix}posterior_", f"must be a {kind.__name__}")
    require(isinstance(known, RatingVocabularies), f"{prefix}_vocabularies", "must be users, items and levels")
    require(isinstance(ratings, Ratings), f"{prefix}_ratings", "must be ratings")
    sizes = known.users.size, known.items.size, known.levels.size
    average = posterior.average
    fitted = average.users.shape[1], average.items.shape[1], posterior.n_levels
    require(fitted == sizes, f"{prefix}posterior_", f"is of {fitted} users, items and levels, known are {sizes}")
    given = ratings.n_users, ratings.n_items, ratings.n_levels
    require(given == sizes and ratings.size, f"{prefix}_ratings", f"are of {given} users, items and levels")
    require(estimator.classes_ is known.levels, f"{prefix}classes_", "must be the levels of _vocabularies")
    n_chains, width = average.users.shape[0], n_factors(average)
    array(estimator.user_factors_, f"{prefix}user_factors_", (sizes[0], width))
    array(estimator.item_factors_, f"{prefix}item_factors_", (sizes[1], width))
    shape = (sizes[0], sizes[2] - 1) if posterior.varsigma > 0.0 else (sizes[2] - 1,)
    array(estimator.thresholds_, f"{prefix}thresholds_", shape)
    chains = estimator._chains  # noqa: SLF001
    sound = isinstance(chains, list) and len(chains) == n_chains and all(isinstance(one, Chain) for one in chains)
    require(sound, f"{prefix}_chains", f"must be {n_chains} chains")
    for i, chain in enumerate(chains):
        _check_features(chain, posterior, f"{prefix}_chains.{i}", binary=binary)
    require(estimator.n_features_in_ == 2, f"{prefix}n_features_in_", "must be 2")


def n_factors(average: Factors) -> int:
    """Return the number of factors of all chains, side by side."""
    return int(average.users.shape[0] * average.users.shape[2])


def _check_features(chain: Chain, posterior: M3FPosterior, where: str, *, binary: bool) -> None:
    """Names of features against the tables, the posterior's, whose columns they name."""
    average = chain.average or {}
    n_samples = posterior.samples.users.shape[0] // posterior.average.users.shape[0]
    require(len(chain.samples) == n_samples, f"{where}.samples", f"must be {n_samples}")
    names = {"seed", "feature", "born"} if binary else {"seed"}
    require(set(chain.state) == names, f"{where}.state", f"must have {', '.join(sorted(names))}")
    for part, name in ((average, "average"), *((sample, "samples") for sample in chain.samples)):
        require(set(part) == names - {"seed", "born"}, f"{where}.{name}", "has other parts than its model")
    if not binary:
        return
    born = int(array(chain.state["born"], f"{where}.state.born", (), np.int64))
    samples = ((sample, posterior.samples, f"samples.{i}") for i, sample in enumerate(chain.samples))
    others = (chain.state, posterior.last, "state"), (average, posterior.average, "average")
    for part, tables, name in (*others, *samples):
        feature = array(part["feature"], f"{where}.{name}.feature", (None,), np.int64)
        require(feature.size <= tables.items.shape[2], f"{where}.{name}.feature", "names more features than there are")
        ascending = (np.diff(feature) > 0).all() and (not feature.size or 0 <= feature[0] <= feature[-1] < born)
        require(ascending, f"{where}.{name}.feature", f"must ascend below {born}")


RATING_CHECKS: dict[type[Any], Callable[[Any, str], None]] = {
    Factors: _check_tables,
    M3FPosterior: _check_posterior,
    Chain: _check_chain,
    RatingVocabularies: _check_vocabularies,
    MaxMarginFactorization: _check_estimator,
}
