"""Classes in files or on a cluster: kernels by a sample, posteriors by sums over all rows (`SVGPClassifier`)."""

from __future__ import annotations

from abc import abstractmethod
from copy import copy
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from sklearn.utils.multiclass import check_classification_targets

from skpref._estimator import check_memory, digest
from skpref._math.random import as_generator
from skpref._sources import become_unfitted, feature_columns, read_batch, refuse_parameters
from skpref.data.levels import check_labels
from skpref.data.stored import column_values
from skpref.data.weights import read_weights
from skpref.exceptions import DataError
from skpref.gp.sparse.base import SparseGP
from skpref.gp.sparse.fit_general import Observations, balanced_sizes, fit_by_sums
from skpref.gp.sparse.policy import POLICY
from skpref.gp.sparse.targets import distinct_targets
from skpref.inference.shards import split_by_shard
from skpref.inference.summed import sums_over
from skpref.settings import inference_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from skpref._sources import Source, SourceRows
    from skpref._typing import Array, Features, IntArray
    from skpref.gp.posterior import WarmStart
    from skpref.gp.sparse.fit_general import GeneralConfig, GeneralFit
    from skpref.inference.summed import Sums
    from skpref.inference.svi import Problem, State
    from skpref.likelihoods import Likelihood


class _BatchClasses(NamedTuple):
    """The classes of a batch."""

    start: int  # number of its first row
    classes: NDArray[Any]  # ascending
    counts: IntArray  # rows of positive weight of each


class SummedClassifier(SparseGP):
    """A classifier that can be fitted by sums over the rows: each class against all others."""

    _takes_collections: ClassVar[bool] = True
    inference: str
    multi_class: str
    random_state: Any
    classes_: NDArray[Any]
    likelihood_: Likelihood

    @abstractmethod
    def _read(
        self, X: Any, y: Any, sample_weight: Any, classes: Any, *, reset: bool = True
    ) -> tuple[Features, IntArray, Array]:
        """Return rows of positive weight, numbers of their classes and weights."""

    @abstractmethod
    def _learn(self, warm_starts: list[WarmStart] | None) -> None:
        """Fit all rows that are kept."""

    @abstractmethod
    def _config(self, n_distinct: int | None = None, *, by_softmax: bool = False) -> GeneralConfig:
        """Return the settings of searches and inference."""

    @abstractmethod
    def _store(self, fits: list[GeneralFit]) -> None:
        """Set the attributes of a fit."""

    @abstractmethod
    def _initial_likelihood(self) -> Likelihood:
        """Return the likelihood of a class against the others."""

    def _fit_source(self, source: Source) -> None:
        """Fit to rows that are elsewhere: kernels and points to samples, posteriors to sums over all rows."""
        self._check_sums_suffice()
        rows, names = feature_columns(source)
        if rows.n_rows <= POLICY.sample_rows:
            self._rows = self._read(*rows.everything(), None)
            self._learn(None)
            return
        become_unfitted(self, names)
        batches = [batch for batch in rows.collect(_classes_of_batch) if batch is not None]
        self.classes_ = _joint_classes([batch.classes for batch in batches])
        counts = _counts(batches, self.classes_)
        n_present = int(np.count_nonzero(counts.sum(axis=0)))
        if n_present < 2:
            raise too_few_classes(n_present)
        by_softmax = {"multi_class='softmax'": self.multi_class == "softmax"}
        refuse_parameters(by_softmax, "by multi_class='one_vs_rest'")
        likelihood, config = self._initial_likelihood(), self._config()
        check_memory(1, config.sparse.n_inducing, whose="rows")
        positive_classes = [1] if self.classes_.size == 2 else list(range(self.classes_.size))
        rngs = as_generator(self.random_state).spawn(len(positive_classes))
        samples = self._samples(rows, [batch.start for batch in batches], counts, positive_classes, rngs)
        shell = copy(self)

        def fit(positive: int, sample: Observations, rng: np.random.Generator) -> GeneralFit:
            def collect(template: Problem, state: State) -> Iterator[Sums | None]:
                return rows.collect(_batch_sums, shell, positive, template, state)

            return fit_by_sums(sample, likelihood, self.kernel, config, rng, collect)

        self._store([fit(*model) for model in zip(positive_classes, samples, rngs, strict=True)])
        self._rows, self.likelihood_ = None, likelihood
        self._warm_key = digest(self._settings())

    def _samples(
        self,
        rows: SourceRows,
        starts: list[int],
        counts: IntArray,
        positive_classes: list[int],
        rngs: list[np.random.Generator],
    ) -> list[Observations]:
        """Return the rows that the search of each class looks at; `counts` are by batch and class."""
        size, total = self._config().search_rows, counts.sum(axis=1)
        draws = [
            _draw(np.column_stack([total - counts[:, positive], counts[:, positive]]), size, rng)
            for positive, rng in zip(positive_classes, rngs, strict=True)
        ]
        wanted = {start: [indices[k] for indices, _ in draws] for k, start in enumerate(starts)}
        parts = [part for part in rows.collect(_sample_of_batch, copy(self), positive_classes, wanted) if part]
        samples = []
        for columns, (_, factors) in zip(zip(*parts, strict=True), draws, strict=True):
            X, is_positive, weight = (np.concatenate(column) for column in zip(*columns, strict=True))
            targets = distinct_targets(X, is_positive.astype(np.float64), weight * factors[is_positive])
            samples.append(Observations(targets.rows, targets.y, targets.weight))
        return samples

    def _check_sums_suffice(self) -> None:
        """Refuse models that need the rows themselves."""
        refuse_parameters(
            {
                f"inference={self.inference!r}": inference_name(self.inference) == "svi",
                f"optimizer={self.optimizer!r}": self._uses_adam(),
                f"window={self.window!r}": self.window is not None,
                f"class_weight={self.class_weight!r}": self.class_weight is not None,
            },
            "in full passes, by inference='auto' and optimizer='l-bfgs-b' or None, without window and class_weight",
        )


def too_few_classes(n_present: int) -> DataError:
    """Return the error for rows of fewer than two classes."""
    return DataError(
        "The number of classes has to be greater than one: at least 2 classes must have rows of positive weight; got "
        f"{n_present} class{'' if n_present == 1 else 'es'}. Rows of weight zero do not count."
    )


def _classes_of_batch(X: Any, y: Any, weight: Any, start: int) -> _BatchClasses | None:
    """Return the classes of a batch with the number of their rows; None without rows."""
    if not len(X):
        return None
    labels = np.asarray(check_labels(column_values(y)))
    check_classification_targets(labels)
    used = read_weights(weight, len(X)) > 0.0
    classes, label = np.unique(labels, return_inverse=True)
    return _BatchClasses(start, classes, np.bincount(label[used], minlength=classes.size))


def _joint_classes(classes: list[NDArray[Any]]) -> NDArray[Any]:
    """Return the classes of all batches, ascending."""
    other = next((c for c in classes if c.dtype.kind != classes[0].dtype.kind), None)
    if other is not None:
        raise DataError(
            f"y holds {classes[0].tolist()!r:.80} in one batch and {other.tolist()!r:.80} in another: use one type"
        )
    return np.unique(np.asarray(check_labels(np.concatenate(classes))))


def _counts(batches: list[_BatchClasses], classes: NDArray[Any]) -> IntArray:
    """Return the number of rows of each class in each batch, shape (n_batches, n_classes)."""
    counts = np.zeros((len(batches), classes.size), dtype=np.int64)
    for row, batch in zip(counts, batches, strict=True):
        row[np.searchsorted(classes, batch.classes)] = batch.counts
    return counts


def _draw(counts: IntArray, size: int, rng: np.random.Generator) -> tuple[list[list[IntArray]], Array]:
    """Return which rows of each of two classes a sample takes from each batch, and the factors on their weights.

    `counts` has the rows of the two classes in each batch; rows are numbered within their class and batch.
    """
    total = counts.sum(axis=0)
    if total.sum() <= size or not total.all():
        sizes, factors = np.minimum(total, size), np.ones(2)
    else:
        sizes, factors = balanced_sizes(total, size)
    by_class = []
    for number, drawn, count in zip(total, sizes, counts.T, strict=True):
        by_class.append(split_by_shard(np.sort(rng.choice(number, drawn, replace=False)), count))
    return [list(pair) for pair in zip(*by_class, strict=True)], factors


def _sample_of_batch(
    X: Any,
    y: Any,
    weight: Any,
    start: int,
    shell: Any,
    positive_classes: list[int],
    wanted: dict[int, list[list[IntArray]]],
) -> list[tuple[Features, NDArray[np.int64], Array]] | None:
    """Return the rows of a batch for the search of each class: rows, 1 for the class and 0 for others, weights."""
    batch = read_batch(X, y, weight, shell, shell.classes_)
    if batch is None:
        return None
    rows, label, used_weight = batch
    samples = []
    for positive, parts in zip(positive_classes, wanted[start], strict=True):
        is_positive = (label == positive).astype(np.int64)
        index = np.concatenate([np.flatnonzero(is_positive == k)[part] for k, part in enumerate(parts)])
        index.sort()
        samples.append((rows[index], is_positive[index], used_weight[index]))
    return samples


def _batch_sums(
    X: Any, y: Any, weight: Any, start: int, shell: Any, positive: int, template: Problem, state: State
) -> Sums | None:
    """Return the sums over a batch at a posterior of one class against all others."""
    del start
    batch = read_batch(X, y, weight, shell, shell.classes_)
    if batch is None:
        return None
    targets = distinct_targets(*batch)
    labels = (targets.y == positive).astype(np.float64)
    return sums_over(template, state, targets.rows, labels, targets.weight)
