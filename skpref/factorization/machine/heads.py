"""Heads of the factorization machine: how each likelihood reads targets, starts, and measures a validation loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from skpref.data.ids import shorten
from skpref.data.levels import encode_levels, levels_of_parts, ordered_levels
from skpref.exceptions import DataError
from skpref.likelihoods import Gaussian, OrdinalProbit, PairwiseLogit, PairwiseProbit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from skpref._typing import Array
    from skpref.data.shards import RowShard, RowSummary
    from skpref.factorization.machine.posterior import FMPosterior
    from skpref.inference.shards import Shards
    from skpref.likelihoods import Likelihood

_LINKS = {"probit": PairwiseProbit(), "logit": PairwiseLogit()}


@dataclass(frozen=True)
class NumberHead:
    """Numbers with Gaussian noise; they are standardised."""

    likelihoods: ClassVar[tuple[type[Likelihood], ...]] = (Gaussian,)  # that a fitted machine may have
    stratified: ClassVar[bool] = False  # whether rows are held out by class

    def read(self, y: NDArray[Any], used: Any, *_: Any) -> tuple[NDArray[Any], None]:
        """Return the targets of the used rows, and the classes."""
        return y[used], None

    def encode(self, y: NDArray[Any], used: Any, *_: Any) -> NDArray[Any]:
        """Return the targets of the used rows of an update."""
        return y[used]

    def start(self, *_: Any) -> Likelihood:
        """Return the likelihood at the start of a fit."""
        return Gaussian(1.0)

    def units(self, values: Array, weight: Array) -> tuple[float, float]:
        """Return mean and standard deviation of the targets; the latter is 1 if they are constant."""
        largest = float(np.abs(values).max()) or 1.0
        mean = float(np.average(values / largest, weights=weight))
        spread = float(np.sqrt(np.average((values / largest - mean) ** 2, weights=weight)))
        return _checked_units(largest, mean, spread)

    def start_of_shards(self, summaries: Sequence[RowSummary]) -> tuple[Likelihood, list[Any], None]:
        """Return the likelihood, the target of each distinct label of each shard, and the classes."""
        return Gaussian(1.0), [None] * len(summaries), None

    def units_of_shards(
        self, shards: Shards, summaries: Sequence[RowSummary], rows: Sequence[Any]
    ) -> tuple[float, float]:
        """Return mean and standard deviation of the targets in shards."""
        largest = max(summary.largest for summary in summaries) or 1.0
        total = sum(summary.weight for summary in summaries)
        mean = sum(shards.collect(_power_sum, rows, shared=(largest, 0.0, 1))) / total
        squares = sum(shards.collect(_power_sum, rows, shared=(largest, mean, 2)))
        return _checked_units(largest, mean, float(np.sqrt(squares / total)))

    def draw(self, posterior: FMPosterior, values: Array, rng: np.random.Generator) -> NDArray[Any]:
        """Draw numbers given y(x)."""
        return values + posterior.noise * rng.standard_normal(values.shape)

    def loss(self, _likelihood: Likelihood, y: Array, mu: Array, _v: Array, weight: Array) -> float:
        """Return the root mean squared error."""
        return float(np.sqrt(np.average((y - mu) ** 2, weights=weight)))


class LabelHead:
    """Base of the heads of labels, whose y(x) has the units 0 and 1."""

    def units(self, *_: Any) -> tuple[float, float]:
        """Return offset and scale of y(x)."""
        return 0.0, 1.0

    units_of_shards = units


@dataclass(frozen=True)
class ClassHead(LabelHead):
    """Two classes."""

    link: str
    likelihoods: ClassVar[tuple[type[Likelihood], ...]] = (PairwiseProbit, PairwiseLogit)
    stratified: ClassVar[bool] = True

    def read(self, y: NDArray[Any], used: Any, classes: Any, *_: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the targets of the used rows, 0 or 1, and the classes."""
        check_classification_targets(y)
        y = y[used]
        classes = _two_classes(np.unique(y) if classes is None else np.unique(classes), type_of_target(y))
        return self.encode(y, slice(None), classes), classes

    def encode(self, y: NDArray[Any], used: Any, classes: NDArray[Any]) -> Array:
        """Return 1 for the second class, else 0."""
        y = y[used]
        valid = np.isin(y, classes)
        if not valid.all():
            row = int(np.argmin(valid))
            label = shorten(y[row : row + 1].tolist()[0])
            raise DataError(f"label {label} in row {row} is not one of the classes {classes.tolist()}.")
        return (y == classes[1]).astype(np.float64)

    def list_classes(self, classes: Any) -> list[Any]:
        """Return classes in the order of `classes_`."""
        return list(np.unique(classes).tolist())

    def start(self, *_: Any) -> Likelihood:
        """Return the likelihood at the start of a fit."""
        return _LINKS[self.link]

    def start_of_shards(self, summaries: Sequence[RowSummary]) -> tuple[Likelihood, list[Any], NDArray[Any]]:
        """Return the likelihood, the target of each distinct label of each shard, and the classes."""
        labels: list[Any] = [summary.labels for summary in summaries]
        distinct = np.unique(np.concatenate(labels))
        check_classification_targets(distinct)
        classes = _two_classes(distinct, type_of_target(distinct))
        return _LINKS[self.link], [self.encode(own, slice(None), classes) for own in labels], classes

    def draw(self, posterior: FMPosterior, values: Array, rng: np.random.Generator) -> NDArray[Any]:
        """Draw the numbers of classes given y(x)."""
        p = cast("PairwiseProbit", posterior.machine.likelihood).predict(values, np.zeros(values.shape))
        return (rng.random(p.shape) < p).astype(int)

    def loss(self, likelihood: Likelihood, y: Array, mu: Array, v: Array, weight: Array) -> float:
        """Return the log loss."""
        # The probability of the observed label directly: 1 - P would round small ones to 0.
        p = cast("PairwiseProbit", likelihood).predict(np.where(y > 0.5, mu, -mu), v)
        return -float(np.average(np.log(np.maximum(p, np.finfo(float).tiny)), weights=weight))


@dataclass(frozen=True)
class LevelHead(LabelHead):
    """Ordered levels, cut out of y(x) by thresholds."""

    class_order: Any = None
    likelihoods: ClassVar[tuple[type[Likelihood], ...]] = (OrdinalProbit,)
    stratified: ClassVar[bool] = False

    def read(self, y: NDArray[Any], used: Any, classes: Any, column: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the levels of the used rows, and all levels; declared ones need no rows."""
        order, fewest = (self.class_order, 2) if classes is None else (classes, 1)
        classes, level = ordered_levels(y, order, column=column, fewest=fewest)
        level = level[used]
        if np.unique(level).size < fewest or classes.size < 2:
            msg = f"at least 2 classes (levels) must have rows of positive weight; got {np.unique(level).size}."
            raise DataError(msg + " Rows of sample_weight zero do not count.")
        return level.astype(np.float64), classes

    def encode(self, y: NDArray[Any], used: Any, classes: NDArray[Any]) -> Array:
        """Return the numbers of the levels of the used rows."""
        return encode_levels(y, classes)[used].astype(np.float64)

    def list_classes(self, classes: Any) -> list[Any]:
        """Return classes in the order of `classes_`."""
        return list(np.asarray(classes, dtype=object).tolist())

    def start(self, values: Array, weight: Array, classes: NDArray[Any]) -> Likelihood:
        """Return the likelihood with thresholds that give the levels their frequencies."""
        return OrdinalProbit.start(values.astype(np.int64), classes.size, weight)

    def start_of_shards(self, summaries: Sequence[RowSummary]) -> tuple[Likelihood, list[Any], NDArray[Any]]:
        """Return the likelihood, the level of each distinct label of each shard, and all levels."""
        labels: list[Any] = [summary.labels for summary in summaries]
        orders = [order for summary in summaries for order in summary.orders]
        classes, levels = levels_of_parts(labels, orders, self.class_order)
        n = classes.size
        weight = sum(np.bincount(k, s.label_weights, n) for k, s in zip(levels, summaries, strict=True))
        return OrdinalProbit.start(np.arange(n), n, weight), [level.astype(np.float64) for level in levels], classes

    def draw(self, posterior: FMPosterior, values: Array, rng: np.random.Generator) -> NDArray[Any]:
        """Draw the numbers of levels given y(x)."""
        likelihood = cast("OrdinalProbit", posterior.machine.likelihood)
        return np.searchsorted(likelihood.thresholds, values + likelihood.noise * rng.standard_normal(values.shape))

    def loss(self, likelihood: Likelihood, y: Array, mu: Array, v: Array, weight: Array) -> float:
        """Return the log loss."""
        log_p, _, _ = likelihood.tilted(y, mu, v)
        return -float(np.average(log_p, weights=weight))


Head = NumberHead | ClassHead | LevelHead


def _power_sum(rows: RowShard, largest: float, mean: float, power: int) -> float:
    """Return the weighted sum of a power of the deviations of a shard's targets."""
    return float(np.sum((rows.y / largest - mean) ** power * rows.weight))


def _checked_units(largest: float, mean: float, spread: float) -> tuple[float, float]:
    """Return mean and standard deviation of targets, given both after division by the largest target."""
    scale = spread * largest if spread > 1e-14 else 1.0  # constant but for rounding
    if not 1e-150 < scale < 1e150:
        raise DataError(f"y has standard deviation {scale:g}, whose square does not fit into float64; scale y.")
    return mean * largest, scale


def _two_classes(classes: NDArray[Any], kind: str) -> NDArray[Any]:
    if classes.size > 2:
        raise DataError(f"Only binary classification is supported. The type of the target is {kind}.")
    if classes.size < 2:
        raise DataError(f"y must have two classes; got only one class: {classes.tolist()}.")
    return classes
