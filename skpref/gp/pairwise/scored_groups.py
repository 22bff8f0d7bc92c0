"""Scores in groups that are not in memory: comparisons within the groups of each shard, and fits by sums over them."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from skpref._math.random import as_generator
from skpref._math.threads import limit_blas_threads
from skpref._sources import become_unfitted
from skpref._validation import validate_data
from skpref.data import Comparisons, unique_rows
from skpref.data.comparisons import from_scores
from skpref.data.ids import shorten
from skpref.data.stored import column_values
from skpref.data.tables import canonical
from skpref.data.weights import read_weights
from skpref.exceptions import DataError
from skpref.gp.entities import Items
from skpref.gp.pairwise.fit import (
    RULES,
    PairData,
    PairFit,
    WarmStart,
    choose_kernel,
    fit_pairs,
    pair_model,
    pair_posterior,
    resumed_state,
    start_kernel,
)
from skpref.gp.pairwise.policy import POLICY
from skpref.inference import svi
from skpref.inference.basis import chunks
from skpref.inference.shards import split_by_shard, summed
from skpref.inference.summed import SummedProblem, empty_problem, pair_sums_over
from skpref.inference.terms.pairs import PairTerm

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray
    from sklearn.gaussian_process.kernels import Kernel

    from skpref._sources import Source, SourceRows
    from skpref._typing import Array, Features, IntArray
    from skpref.gp.pairwise.fit import PairConfig
    from skpref.gp.pairwise.posterior import PairPosterior
    from skpref.inference.basis import InducingBasis
    from skpref.inference.shards import Shards
    from skpref.inference.summed import Sums
    from skpref.likelihoods import Likelihood


Model = tuple["Likelihood", "PairPosterior"] | None  # of a fit; None before the first one


@dataclass(frozen=True, eq=False)
class ScoredPairs:
    """Compared items, of a shard or of all rows, and their comparisons within groups."""

    X: Features  # (N, d)
    pairs: Comparisons
    n_scores: Array  # (N,): scores of each item
    worth: Array  # (P,): what each comparison is worth; it counts as much

    @property
    def columns(self) -> tuple[IntArray, IntArray, Array, Array]:
        """Left and right items, labels, and weights."""
        return self.pairs.left, self.pairs.right, self.pairs.y, self.pairs.weight * self.worth

    @property
    def weighted(self) -> Comparisons:
        """The comparisons, weighted by their worth."""
        return replace(self.pairs, weight=self.pairs.weight * self.worth)

    def weighed(self, model: Model) -> tuple[float, ScoredPairs]:
        """Return the change of the worth, given a fit, and the comparisons with it."""
        if not self.pairs.n_pairs:
            return 0.0, self
        uncertain = np.ones(self.pairs.n_pairs) if model is None else uncertainty(*model, self.X, self.pairs)
        worth = worth_of(self.pairs, self.n_scores, uncertain)
        return float(np.max(np.abs(worth - self.worth), initial=0.0)), replace(self, worth=worth)


class _Summary(NamedTuple):
    """Summary of a shard that is needed before the fit."""

    groups: NDArray[Any]  # distinct, ascending
    n_pairs: int
    n_items: int


@dataclass(frozen=True, eq=False)
class ShardedScores:
    """Comparisons within groups in shards."""

    shards: Shards
    rows: Sequence[Any]  # handles on the `ScoredPairs`
    n_pairs: IntArray  # (n_shards,)
    n_items: IntArray  # (n_shards,)

    def sample(self, rng: np.random.Generator) -> PairData:
        """Bring at most 50,000 comparisons here, with their items."""
        index = np.arange(self.n_pairs.sum())
        if index.size > POLICY.hyper_pairs:
            index = np.sort(rng.choice(index.size, POLICY.hyper_pairs, replace=False))
        parts = list(self.shards.collect(_taken, self.rows, split_by_shard(index, self.n_pairs)))
        first = np.cumsum([0, *(X.shape[0] for X, *_ in parts)])
        X, left, right, y, weight = (np.concatenate(column) for column in zip(*parts, strict=True))
        shift = np.repeat(first[:-1], [part[1].size for part in parts])
        return PairData(X, Comparisons(left + shift, right + shift, y, weight, X.shape[0]))

    def spaced_items(self) -> Features:
        """Bring some items here, evenly spaced."""
        n = int(self.n_items.sum())
        index = np.unique(np.linspace(0, n - 1, min(n, POLICY.averaged_items)).astype(np.int64))
        parts = self.shards.collect(_items, self.rows, split_by_shard(index, self.n_items))
        return np.concatenate(list(parts))

    def average_row(self, basis: InducingBasis) -> Array:
        """Return the average of phi over the items, shape (M,)."""
        totals = self.shards.collect(_total_row, self.rows, shared=(self.shards.share(basis),))
        return np.asarray(summed(totals) / self.n_items.sum())

    def weighed(self, model: Model) -> tuple[float, ShardedScores]:
        """Return the largest change of a weight given a fit, and the comparisons with the new weights."""
        changes, rows = self.shards.keep(_weighed, self.rows, shared=(self.shards.share(model),))
        return max(changes), replace(self, rows=rows)

    def sums(self, template: svi.Problem, state: svi.State) -> Iterator[Sums | None]:
        """Yield the sums over the comparisons of one shard after the other."""
        return self.shards.collect(
            _pair_sums, self.rows, shared=(self.shards.share(template), self.shards.share(state))
        )


def _taken(shard: ScoredPairs, index: IntArray) -> tuple[Features, IntArray, IntArray, Array, Array]:
    left, right, y, weight = (column[index] for column in shard.columns)
    used, place = np.unique(np.concatenate([left, right]), return_inverse=True)
    return shard.X[used], *np.split(place, 2), y, weight


def _items(shard: ScoredPairs, index: IntArray) -> Features:
    return shard.X[index]


def _total_row(shard: ScoredPairs, basis: InducingBasis) -> Array:
    zero = np.zeros(basis.chol.shape[0])
    return np.asarray(sum((basis.rows(shard.X[part]).sum(axis=0) for part in chunks(shard.X.shape[0])), zero))


def _weighed(shard: ScoredPairs, model: Model) -> tuple[float, ScoredPairs]:
    return shard.weighed(model)


def _pair_sums(shard: ScoredPairs, template: svi.Problem, state: svi.State) -> Sums | None:
    return pair_sums_over(template, state, shard.X, shard.columns)


def _read_groups(
    X: Any, y: Any, weight: Any, start: int, shell: Any, qid: str, seed: int
) -> tuple[_Summary, ScoredPairs]:
    """Return the comparisons within the groups of a batch."""
    X = X.to_pandas() if hasattr(X, "to_pandas") else X
    group, X = X[qid].to_numpy(), X.drop(columns=qid)
    width = shell.n_features_in_
    if not len(X):
        nothing, nobody = np.zeros(0), np.zeros(0, dtype=np.int64)
        empty = Comparisons(nobody, nobody, nothing, nothing, 1)
        return _Summary(group, 0, 0), ScoredPairs(np.zeros((0, width)), empty, nothing, nothing)
    options = {"y_numeric": True, "dtype": np.float64, "order": "C", "reset": False}
    features, y = validate_data(shell, X, column_values(y), **options)
    first, item = unique_rows(canonical(features))
    weights = read_weights(weight, len(y))
    draws = {"pairs_per_item": shell.pairs_per_item, "rng": np.random.default_rng([seed, start])}
    pairs = from_scores(y, group, items=item, n_items=first.size, sample_weight=weights, **draws)
    pairs, compared = pairs.merged().compact()
    number = np.unique(group, return_inverse=True)[1][first][compared]
    order = np.argsort(number[pairs.left], kind="stable")  # neighbours share items
    n_scores = np.bincount(item, weights, first.size)[compared].astype(np.float64)
    shard = ScoredPairs(features[first][compared], pairs.take(order), n_scores, np.zeros(order.size))
    return _Summary(np.unique(group), order.size, compared.size), shard


def are_few(rows: SourceRows) -> bool:
    """Tell whether all rows are brought into memory."""
    return rows.n_rows <= POLICY.all_rows


def fit_groups(found: list[Any], shell: Any, qid: str, config: PairConfig) -> PairFit:
    """Fit an estimator to rows in whole groups and names of columns: kernel by a sample, the posterior by sums."""
    source, names = found
    found.clear()
    become_unfitted(shell, [name for name in names if name != qid])
    seed = int(as_generator(shell.random_state).spawn(1)[0].integers(2**62))
    shards, summaries, rows = source.keep(_read_groups, copy(shell), qid, seed)
    del source  # with it the memory of partitions goes
    _check_groups([summary.groups for summary in summaries], qid)
    n_pairs, n_items = (np.array(sizes) for sizes in zip(*((s.n_pairs, s.n_items) for s in summaries), strict=True))
    if not n_pairs.sum():
        raise DataError(
            "at least 1 comparison is required; got none: y has equal values (or zero weights) within every group. "
            "Pass scores that differ."
        )

    def fit(data: ShardedScores, settings: PairConfig, start: WarmStart | None) -> PairFit:
        return _fit(data, shell.kernel, settings, as_generator(shell.random_state), start)

    data = ShardedScores(shards, rows, n_pairs, n_items)
    return fit(stationary_weights(data, fit, config, None), config, None)


def _fit(
    data: ShardedScores, kernel: Kernel | None, config: PairConfig, rng: np.random.Generator, start: WarmStart | None
) -> PairFit:
    """Choose inducing points and length-scales by a sample, and infer the posterior by sums over all comparisons."""
    sample = data.sample(rng)
    kernel = start_kernel(sample.X, kernel if start is None else start.kernel, rng)
    model = pair_model(sample, kernel, config, rng, None if start is None else start.points)
    with limit_blas_threads(model.points.shape[0]):
        kernel = choose_kernel(model, kernel, rng)
        basis = model.basis(kernel)
        assert basis is not None  # noqa: S101 - items have features
        rule = RULES["vb" if config.inference == "auto" else config.inference]
        problem = SummedProblem.from_template(empty_problem(basis, config.likelihood, rule), data.sums)
        state = svi.initial_state(problem, model.scales())
        state = state if start is None else resumed_state(state, start.state)
        result = svi.fit(problem, state, replace(config.schedule, batch_size=None), rng)
        no_pairs = np.zeros(0, dtype=np.int64)
        average = PairTerm(data.average_row(basis)[None, :], no_pairs, no_pairs, 1)
        blocks = [(average, result.state.blocks["f"])]
        posterior = pair_posterior(basis, blocks, dict(result.state.scales), config, data.spaced_items())
    return PairFit(
        posterior, result.state, result.likelihood, kernel, result.bounds, result.bounds[-1], result.converged
    )


def check_columns(source: Source, comparisons: Any, qid: Any) -> None:
    """Refuse comparisons, and groups that are no column."""
    names = source.names or []
    if comparisons is not None:
        raise DataError("comparisons are of rows in memory; name the columns of scores and groups by y= and qid=")
    if not isinstance(qid, str) or qid not in names:
        raise DataError(
            "qid must be the name of the column of groups where X is not in memory, since rows are compared within "
            f"groups; got {qid!r:.80}, and X has the columns {', '.join(map(str, names[:20]))}"
        )
    if any(isinstance(name, str) and name == qid for name in (source.y, source.weight)):
        raise DataError(f"qid={qid!r} is the column of the scores or the weights; name that of the groups")


def _check_groups(groups: list[NDArray[Any]], qid: str) -> None:
    """Refuse a group that is in two shards."""
    distinct, counts = np.unique(np.concatenate([part for part in groups if part.size]), return_counts=True)
    if np.any(counts > 1):
        raise DataError(
            f"rows of the group {shorten(distinct[np.argmax(counts)])} of column {qid!r} are in {counts.max()} places: "
            f"sort the rows of files by {qid!r}; X.shuffle({qid!r}) of Dask puts the rows of a group into one partition"
        )


# ------------- comparisons that come from scores: pairs of one row share the noise of its score (docs/maths section 1)
# k pairs of a row tell less than k independent comparisons: their outcomes share the noise of one score, so posteriors
# that count each of them in full are far too narrow. The likelihood of a pair is therefore weighted by what it is worth
# (a composite likelihood with an adjusted magnitude; Varin, Reid and Firth, Statistica Sinica 2011). Pairs whose
# outcome is certain are worth nothing either way and do not count. How many are certain depends on the posterior, so a
# fit is repeated until the weights stay.


def stationary_weights(
    data: Any, fit: Callable[[Any, PairConfig, WarmStart | None], PairFit], config: PairConfig, start: WarmStart | None
) -> Any:
    """Return `ScoredPairs`, in shards or not, whose weights no longer change from one fit to the next."""
    settings, last = replace(config, schedule=replace(config.schedule, on_iteration=None)), None
    for _ in range(POLICY.most_rounds):
        change, data = data.weighed(None if last is None else (last.likelihood, last.posterior))
        if change < POLICY.weights_stay:
            break
        last = fit(data, settings, start)
        # Later rounds keep the kernel of the first.
        settings = replace(settings, learn_length_scales=False, n_restarts=None)
        basis = last.posterior.basis
        start = WarmStart(last.state, last.kernel, None if basis is None else basis.points)
    return data


def weigh_pairs_of_scores(
    data: PairData,
    n_scores: Array,
    kernel: Kernel | None,
    config: PairConfig,
    start: WarmStart | None,
    rng: Callable[[], np.random.Generator],
) -> Comparisons:
    """Return the comparisons, weighted by their worth; an item has `n_scores` scores, shape (n_items,)."""

    def fit(scores: ScoredPairs, settings: PairConfig, start: WarmStart | None) -> PairFit:
        return fit_pairs(PairData(data.X, scores.weighted), kernel, settings, rng(), start)

    scores = ScoredPairs(data.X, data.comparisons, n_scores, np.zeros(data.comparisons.n_pairs))
    return stationary_weights(scores, fit, config, start).weighted


def worth_of(pairs: Comparisons, n_scores: Array, uncertain: Array) -> Array:
    """Return min(1, 3 / (1 + k)) with k the uncertain pairs a score of either item has, shape (n_pairs,)."""
    counted = pairs.weight * uncertain
    total = np.bincount(pairs.left, counted, pairs.n_items) + np.bincount(pairs.right, counted, pairs.n_items)
    k = total / n_scores
    return np.minimum(1.0, POLICY.worth_of_score / (1.0 + 0.5 * (k[pairs.left] + k[pairs.right])))


def uncertainty(likelihood: Likelihood, posterior: PairPosterior, X: Features, pairs: Comparisons) -> Array:
    """Return 4 p (1 - p) of each pair: 1 where either item may win, near 0 where the outcome is certain."""
    p = likelihood.predict(*posterior.pairs(Items.new(X), pairs.left, pairs.right))
    return np.asarray(4.0 * p * (1.0 - p))
