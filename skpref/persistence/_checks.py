"""What must hold between the parts of a model before anything is computed with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from sklearn.gaussian_process.kernels import Exponentiation, Kernel, KernelOperator

from skpref.data import Comparisons, Vocabulary
from skpref.exceptions import ModelFormatError
from skpref.gp.crowd import CrowdGPPL
from skpref.gp.crowd.posterior import CrowdPosterior, FactorPosterior
from skpref.gp.entities import Entities
from skpref.gp.ordinal import GPOrdinalRegressor
from skpref.gp.ordinal.fit import OrdinalMember
from skpref.gp.pairwise import GPPLClassifier
from skpref.gp.pairwise.base import PairwiseGP
from skpref.gp.pairwise.posterior import PairPosterior
from skpref.gp.posterior import ExactLatent, SparseLatent
from skpref.inference.basis import InducingBasis
from skpref.inference.blocks import DenseBlock, DiagonalBlock, StackedBlock
from skpref.inference.scale import FixedScale, GammaScale
from skpref.inference.svi import State
from skpref.inference.terms.base import Segment
from skpref.likelihoods import Likelihood, OrdinalProbit

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

Shape = tuple[int | None, ...]
_MAX_INTEGER = 1 << 31


# -------------------------------------------------------------------------------------------------------- small parts
def _require(condition: object, where: str, text: str) -> None:
    if not condition:
        raise ModelFormatError(f"{where}: {text}")


def _array(value: Any, where: str, shape: Shape, dtype: type = np.float64) -> NDArray[Any]:
    """Check dtype and shape (None = any length); that floats are finite was checked when they were read."""
    _require(isinstance(value, np.ndarray) and value.dtype == dtype, where, f"must be an array of {dtype.__name__}")
    fits = len(value.shape) == len(shape) and all(
        wanted in {None, got} for wanted, got in zip(shape, value.shape, strict=True)
    )
    _require(fits, where, f"has shape {value.shape}, expected {shape}")
    return value


def _positive_array(value: Any, where: str, shape: Shape) -> None:
    _require((_array(value, where, shape) > 0.0).all(), where, "must be positive")


def _triangular(value: Any, where: str, shape: Shape) -> None:
    """A lower Cholesky factor, or the inverse of one, or several of them."""
    diagonals = np.diagonal(_array(value, where, shape), axis1=-2, axis2=-1)
    _positive_array(diagonals, where, shape[:-1])


def _positive(value: Any, where: str) -> None:
    number = isinstance(value, float | int) and not isinstance(value, bool)
    _require(number and 0.0 < value < np.inf, where, "must be a positive number")


def _features(value: Any, where: str, n_rows: int | None = None) -> int:
    """Return the number of columns of a feature table, dense or CSR (whose parts were checked before)."""
    if not sparse.issparse(value):
        _array(value, where, (n_rows, None))
    _require(n_rows is None or value.shape[0] == n_rows, where, f"has {value.shape[0]} rows, expected {n_rows}")
    _require(value.shape[0] >= 1 and value.shape[1] >= 1, where, "has no rows or no columns")
    return int(value.shape[1])


def _indices(value: Any, where: str, low: int, high: int, shape: Shape) -> None:
    rows = _array(value, where, shape, np.int64)
    inside = not rows.size or (int(rows.min()) >= low and int(rows.max()) < high)
    _require(inside, where, f"holds an index outside {low} to {high - 1}")


def check_csr(
    shape: Any,
    data: NDArray[Any],
    indices: NDArray[Any],
    indptr: NDArray[Any],
    where: str,
) -> tuple[int, int]:
    """Check the parts of a CSR matrix before SciPy's compiled code sees them."""
    sound = isinstance(shape, list) and len(shape) == 2 and all(type(n) is int and 0 <= n < _MAX_INTEGER for n in shape)
    _require(sound, where, f"shape {shape!r:.80} is not allowed")
    index = indptr.dtype
    _require(index in {np.dtype(np.int32), np.dtype(np.int64)} and indices.dtype == index, where, "indices are not int")
    _array(data, f"{where}.data", (None,))
    _array(indptr, f"{where}.indptr", (shape[0] + 1,), index.type)
    _array(indices, f"{where}.indices", data.shape, index.type)
    steps = np.diff(indptr)
    ends = indptr[0] == 0 and indptr[-1] == data.size and (steps >= 0).all()
    _require(ends, f"{where}.indptr", "does not count the entries")
    inside = not indices.size or (int(indices.min()) >= 0 and int(indices.max()) < shape[1])
    _require(inside, f"{where}.indices", f"holds a column outside 0 to {shape[1] - 1}")
    row = np.repeat(np.arange(shape[0]), steps)
    ascending = (np.diff(indices) > 0) | (np.diff(row) > 0)
    _require(ascending.all(), f"{where}.indices", "must ascend within every row")
    return shape[0], shape[1]


def check_ids_match(parts: dict[str, Any], where: str) -> None:
    """Check features, vocabulary and names of a table against each other."""
    vocabulary, names = parts["vocabulary"], parts["feature_names"]
    _require(isinstance(vocabulary, Vocabulary), f"{where}.vocabulary", "is missing")
    width = _features(parts["features"], f"{where}.features", vocabulary.size)
    named = names is None or (
        isinstance(names, list) and len(names) == width and all(isinstance(name, str) for name in names)
    )
    _require(named, f"{where}.feature_names", f"must be {width} names")


# ------------------------------------------------------------------------------------------------------------- records
def _check_dense(block: DenseBlock, where: str) -> None:
    size = _array(block.linear, f"{where}.linear", (None,)).size
    _triangular(block.precision, f"{where}.precision", (size, size))


def _check_diagonal(block: DiagonalBlock, where: str) -> None:
    _positive_array(block.precision, f"{where}.precision", (None,))
    _array(block.linear, f"{where}.linear", block.precision.shape)


def _stacked(parts: dict[str, Any], where: str) -> StackedBlock:
    """Build the block from one array a quantity: precisions (D, K, K) and linear parts (D, K)."""
    _require(set(parts) == {"precision", "linear"}, where, "must have exactly the parts linear, precision")
    n_factors, size = _array(parts["linear"], f"{where}.linear", (None, None)).shape
    _require(n_factors >= 1 and size >= 1, f"{where}.linear", "is empty")
    precision = _array(parts["precision"], f"{where}.precision", (n_factors, size, size))
    _triangular(precision, f"{where}.precision", precision.shape)
    return StackedBlock(tuple(DenseBlock(*part) for part in zip(precision, parts["linear"], strict=True)))


def _comparisons(parts: dict[str, Any], where: str) -> Comparisons:
    """Build the record; it checks ranges, labels and weights itself."""
    names = {"left": np.int64, "right": np.int64, "user": np.int64, "y": np.float64, "weight": np.float64}
    _require(set(parts) == {*names, "n_items", "n_users"}, where, "must have exactly the parts of comparisons")
    size = np.shape(parts["left"])[:1]
    for name, dtype in names.items():
        _array(parts[name], f"{where}.{name}", size or (None,), dtype)
    for name in ("n_items", "n_users"):
        _require(type(parts[name]) is int and parts[name] >= 0, f"{where}.{name}", "must be a whole number >= 0")
    return Comparisons(**parts)


def _check_segment(segment: Segment, where: str) -> None:
    sound = isinstance(segment.scale, str) and type(segment.size) is int and segment.size >= 1
    _require(sound, where, "must be the name of a scale and a number of variables")


def _check_entities(entities: Entities, where: str) -> None:
    _require(isinstance(entities.vocabulary, Vocabulary), f"{where}.vocabulary", "is missing")
    if entities.features is not None:
        names = None if entities.feature_names is None else list(entities.feature_names)
        parts = {"vocabulary": entities.vocabulary, "features": entities.features, "feature_names": names}
        check_ids_match(parts, where)
    named = isinstance(entities.estimator, str) and entities.kind in {"item", "user"}
    _require(named, f"{where}.kind", "must be item or user")
    _indices(entities.seen, f"{where}.seen", 0, entities.vocabulary.size, (None,))
    _require(np.unique(entities.seen).size == entities.seen.size, f"{where}.seen", "names an entity twice")


def _check_gamma(scale: GammaScale, where: str) -> None:
    for name in ("shape0", "rate0", "shape", "rate"):
        _positive(getattr(scale, name), f"{where}.{name}")


def _check_fixed(scale: FixedScale, where: str) -> None:
    _positive(scale.mean, f"{where}.mean")


def _check_scales(scales: Any, where: str, needed: set[str]) -> None:
    sound = isinstance(scales, dict) and all(isinstance(scale, GammaScale | FixedScale) for scale in scales.values())
    _require(sound and needed <= set(scales), where, f"must hold the scales {', '.join(sorted(needed))}")


def _check_state(state: State, where: str) -> None:
    kinds = DenseBlock | DiagonalBlock | StackedBlock
    blocks = isinstance(state.blocks, dict) and all(isinstance(block, kinds) for block in state.blocks.values())
    _require(blocks, f"{where}.blocks", "must be blocks by name")
    _check_scales(state.scales, f"{where}.scales", set())
    step = state.step
    _require(isinstance(step, int) and step >= 0, f"{where}.step", "must be a whole number >= 0")


def _check_basis(basis: InducingBasis, where: str) -> None:
    width = _features(basis.points, f"{where}.points")
    size = basis.points.shape[0]
    _triangular(basis.chol, f"{where}.chol", (size, size))
    _check_kernel_width(basis.kernel, f"{where}.kernel", width)


def _check_posterior(posterior: PairPosterior, where: str) -> None:
    _require(posterior.basis is None or isinstance(posterior.basis, InducingBasis), f"{where}.basis", "is no basis")
    for name in ("has_offsets", "has_order"):
        _require(isinstance(getattr(posterior, name), bool), f"{where}.{name}", "must be true or false")
    n_seen = _array(posterior.offset_mean, f"{where}.offset_mean", (None,)).size
    joint = posterior.has_offsets and posterior.offset_variance is None
    size = posterior.n_basis + (n_seen if joint else 0) + int(posterior.has_order)
    _array(posterior.mean, f"{where}.mean", (size,))
    _triangular(posterior.half, f"{where}.half", (size, size))
    _array(posterior.centre_half, f"{where}.centre_half", (size,))
    _require(isinstance(posterior.centre_mean, float), f"{where}.centre_mean", "must be a number")
    if posterior.offset_variance is not None:
        _positive_array(posterior.offset_variance, f"{where}.offset_variance", (n_seen,))
    needed = {"f"} if posterior.basis is not None else set()
    needed |= {"offset"} if posterior.has_offsets else set()
    _check_scales(posterior.scales, f"{where}.scales", needed)


def _check_factors(factors: FactorPosterior, where: str) -> None:
    n_factors, size = _array(factors.mean, f"{where}.mean", (None, None)).shape
    _positive_array(factors.inverse_scale, f"{where}.inverse_scale", (n_factors,))
    if factors.basis is None:
        _array(factors.half, f"{where}.half", (0, 0, 0))
        _positive_array(factors.variance, f"{where}.variance", (n_factors, size))
        return
    _require(isinstance(factors.basis, InducingBasis), f"{where}.basis", "is no basis")
    _require(size == factors.basis.chol.shape[0], f"{where}.mean", "does not fit the inducing points")
    _triangular(factors.half, f"{where}.half", (n_factors, size, size))
    _array(factors.variance, f"{where}.variance", (0, size))


def _check_crowd_posterior(posterior: CrowdPosterior, where: str) -> None:
    _require(isinstance(posterior.consensus, PairPosterior), f"{where}.consensus", "is no posterior")
    for name in ("items", "users"):
        _require(isinstance(getattr(posterior, name), FactorPosterior), f"{where}.{name}", "are no factors")
    n_factors = posterior.items.n_factors
    same = posterior.users.n_factors == n_factors
    _require(same, f"{where}.users", f"has {posterior.users.n_factors} factors, expected {n_factors}")
    _array(posterior.centre, f"{where}.centre", (n_factors,))
    n_biases = _array(posterior.bias_mean, f"{where}.bias_mean", (None,)).size
    _positive_array(posterior.bias_variance, f"{where}.bias_variance", (n_biases,))
    _check_scales(posterior.scales, f"{where}.scales", set())


def _check_exact_latent(latent: ExactLatent, where: str) -> None:
    n = _array(latent.alpha, f"{where}.alpha", (None,)).size
    root = _array(latent.root_w, f"{where}.root_w", (n,))
    _require((root >= 0.0).all(), f"{where}.root_w", "must be >= 0")
    _triangular(latent.chol, f"{where}.chol", (n, n))
    if latent.kernel is None:
        _require(latent.X is None, f"{where}.X", "needs a kernel")
        own = latent.prior_variance
        _require(isinstance(own, float) and 0.0 <= own < np.inf, f"{where}.prior_variance", "must be >= 0")
    else:
        _check_kernel_width(latent.kernel, f"{where}.kernel", _features(latent.X, f"{where}.X", n))


def _check_sparse_latent(latent: SparseLatent, where: str) -> None:
    _require(isinstance(latent.basis, InducingBasis), f"{where}.basis", "is missing")
    size = latent.basis.chol.shape[0]
    _array(latent.mean, f"{where}.mean", (size,))
    _triangular(latent.half, f"{where}.half", (size, size))


def _check_member(member: OrdinalMember, where: str) -> None:
    _positive(member.weight, f"{where}.weight")
    _require(isinstance(member.latent, ExactLatent | SparseLatent), f"{where}.latent", "is no posterior")
    _require(isinstance(member.likelihood, OrdinalProbit), f"{where}.likelihood", "is missing")


def _check_inducing_state(state: Any, latent: Any, where: str) -> None:
    """Refuse a state other than that of the inducing points of a posterior."""
    _require(isinstance(state, State), where, "is no state")
    _require(isinstance(latent, SparseLatent), where, "needs inducing points")
    blocks, size = state.blocks, latent.basis.points.shape[0]
    block = blocks.get("f")
    fits = len(blocks) == 1 and isinstance(block, DenseBlock) and block.size == size
    _require(fits, f"{where}.blocks", f"must have {size} variables")
    _check_scales(state.scales, f"{where}.scales", {"f"})


# ------------------------------------------------------------------------------------------------------------- kernels
def _check_kernel(kernel: Kernel, where: str) -> None:
    for name, value in kernel.get_params(deep=False).items():
        if name in {"k1", "k2", "kernel"}:
            _require(isinstance(value, Kernel), f"{where}.{name}", "must be a kernel")
        elif name == "nu":  # infinity is the squared exponential
            _require(isinstance(value, float | int) and value > 0.0, f"{where}.nu", "must be positive")
        elif name.endswith("_bounds"):
            _check_bounds(value, f"{where}.{name}")
        elif isinstance(value, np.ndarray):
            _positive_array(value, f"{where}.{name}", (None,))
        elif isinstance(value, list | tuple):
            for item in value:
                _positive(item, f"{where}.{name}")
        elif name == "sigma_0":  # a dot product may have no constant
            _require(isinstance(value, float | int) and 0.0 <= value < np.inf, f"{where}.{name}", "must be >= 0")
        else:
            _positive(value, f"{where}.{name}")


def _check_bounds(value: Any, where: str) -> None:
    if isinstance(value, str):
        _require(value == "fixed", where, "must be pairs of numbers or 'fixed'")
        return
    bounds = np.asarray(value)
    numbers = bounds.dtype.kind in "fi" and bounds.ndim in {1, 2} and bounds.shape[-1] == 2
    _require(numbers and (bounds[..., 0] <= bounds[..., 1]).all(), where, "must be pairs (low, high)")


def _check_kernel_width(kernel: Any, where: str, width: int) -> None:
    """Every vector of length-scales or weight variances must be as wide as the features."""
    _require(isinstance(kernel, Kernel), where, "must be a kernel")
    if isinstance(kernel, KernelOperator | Exponentiation):
        for name, part in kernel.get_params(deep=False).items():
            if isinstance(part, Kernel):
                _check_kernel_width(part, f"{where}.{name}", width)
        return
    for name, what in (("length_scale", "length-scales"), ("variance", "variances")):
        size = np.size(getattr(kernel, name, 1.0))
        _require(size in {1, width}, where, f"has {size} {what} for {width} features")


# ---------------------------------------------------------------------------------------------------------- estimators
def _check_pairwise(estimator: PairwiseGP, where: str) -> None:
    if not hasattr(estimator, "posterior_"):
        return  # saved before it was fitted
    prefix = f"{where}." if where else ""
    posterior = estimator.posterior_
    _require(isinstance(getattr(estimator, "_state", None), State), f"{prefix}_state", "is missing")
    _require(isinstance(getattr(estimator, "likelihood_", None), Likelihood), f"{prefix}likelihood_", "is missing")
    if isinstance(estimator, CrowdGPPL):
        _check_crowd(estimator, prefix)
        return
    _require(isinstance(posterior, PairPosterior), f"{prefix}posterior_", "is no posterior")
    if isinstance(estimator, GPPLClassifier):
        _check_classifier(estimator, prefix)
        return
    width = getattr(estimator, "n_features_in_", None)
    _require(width == _width(posterior), f"{prefix}n_features_in_", "does not fit the inducing points")


def _width(posterior: PairPosterior) -> int | None:
    return None if posterior.basis is None else int(posterior.basis.points.shape[1])


def _check_classifier(estimator: GPPLClassifier, prefix: str) -> None:
    posterior, items = estimator.posterior_, estimator._items  # noqa: SLF001
    _require(isinstance(items, Entities), f"{prefix}_items", "must be entities")
    n_seen = items.seen.size
    sound = np.array_equal(estimator.item_ids_, items.seen_ids)
    _require(sound, f"{prefix}item_ids_", "differ from those that were seen")
    _indices(estimator.components_, f"{prefix}components_", 0, n_seen, (n_seen,))
    _require(np.array_equal(estimator.classes_, [0, 1]), f"{prefix}classes_", "must be 0 and 1")
    if posterior.has_offsets:
        _array(posterior.offset_mean, f"{prefix}posterior_.offset_mean", (n_seen,))
    width = _width(posterior) or 0
    _require(items.n_features == width, f"{prefix}_items.features", f"must have {width} columns")


def _check_crowd(estimator: CrowdGPPL, prefix: str) -> None:
    posterior, items, users = estimator.posterior_, estimator._items, estimator._users  # noqa: SLF001
    _require(isinstance(posterior, CrowdPosterior), f"{prefix}posterior_", "is no posterior")
    for name, entities in (("items", items), ("users", users)):
        _require(isinstance(entities, Entities), f"{prefix}_{name}", "must be entities")
    _require(np.array_equal(estimator.classes_, [0, 1]), f"{prefix}classes_", "must be 0 and 1")
    _check_answers(estimator, prefix)
    item_kernels, where = (estimator.kernel_, estimator.factor_kernel_), f"{prefix}posterior_"
    _check_side(items, posterior.items, item_kernels, estimator.inducing_points_, f"{where}.items")
    _check_side(users, posterior.users, (estimator.user_kernel_,), estimator.inducing_users_, f"{where}.users")
    _check_consensus(posterior, items, f"{where}.consensus")
    n_biases = users.seen.size if "bias" in posterior.scales else 0
    _array(posterior.bias_mean, f"{where}.bias_mean", (n_biases,))
    _check_blocks(estimator, n_biases, prefix)
    _check_numbers(estimator, prefix)
    _indices(estimator.components_, f"{prefix}components_", 0, items.seen.size, (items.seen.size,))


def _check_numbers(estimator: CrowdGPPL, prefix: str) -> None:
    """What is told of all factors, against those that are alive."""
    posterior, alive = estimator.posterior_, estimator._alive  # noqa: SLF001
    scales = _array(estimator.factor_scales_, f"{prefix}factor_scales_", (None,))
    _require((scales >= 0.0).all(), f"{prefix}factor_scales_", "must be >= 0")
    numbers = isinstance(alive, tuple) and all(type(d) is int and 0 <= d < scales.size for d in alive)
    distinct = numbers and len(set(alive)) == len(alive) == posterior.items.n_factors
    _require(distinct, f"{prefix}_alive", f"must name {posterior.items.n_factors} of {scales.size} factors")
    _check_scales(posterior.scales, f"{prefix}posterior_.scales", {f"{side}{d}" for side in "vw" for d in alive})
    for name, entities in (("item", estimator._items), ("user", estimator._users)):  # noqa: SLF001
        _array(getattr(estimator, f"{name}_factors_"), f"{prefix}{name}_factors_", (entities.seen.size, scales.size))
        sound = np.array_equal(getattr(estimator, f"{name}_ids_"), entities.seen_ids)
        _require(sound, f"{prefix}{name}_ids_", "differ from those that were seen")


def _check_answers(estimator: CrowdGPPL, prefix: str) -> None:
    """Comparisons must be of known users and items, and whoever is in them must have been seen."""
    answers, where = estimator._comparisons, f"{prefix}_comparisons"  # noqa: SLF001
    _require(isinstance(answers, Comparisons), where, "are missing")
    used = answers.weight > 0.0
    for name, entities, columns in (
        ("items", estimator._items, (answers.left, answers.right)),  # noqa: SLF001
        ("users", estimator._users, (np.asarray(answers.user),)),  # noqa: SLF001
    ):
        size = getattr(answers, f"n_{name}")
        _require(size == entities.vocabulary.size, f"{where}.n_{name}", f"must be {entities.vocabulary.size}")
        seen = all((entities.position[column[used]] >= 0).all() for column in columns)
        _require(seen, f"{prefix}_{name}.seen", "leaves out some who were compared or who compared")


def _check_side(
    entities: Entities, factors: FactorPosterior, kernels: tuple[Any, ...], points: Any, where: str
) -> None:
    """Factors, kernels and inducing points of one side against its features."""
    featureless = entities.features is None
    together = all((part is None) == featureless for part in (*kernels, points))
    _require(together, where, "has features, kernels and inducing points that do not fit together")
    if featureless:
        _require(factors.basis is None, f"{where}.basis", "needs features")
    else:
        width = _features(points, f"{where}: inducing points")
        _require(width == entities.n_features, where, f"has {entities.n_features} features, inducing points {width}")
        for kernel in kernels:
            _check_kernel_width(kernel, f"{where}: kernel", width)
        _require(factors.n_factors == 0 or factors.basis is not None, f"{where}.basis", "is missing")
    if factors.basis is None:
        n_seen = entities.seen.size
        _require(factors.mean.shape[1] == n_seen, f"{where}.mean", f"must have {n_seen} columns")
    else:
        _require(factors.basis.points.shape == points.shape, f"{where}.basis", "differs from the inducing points")


def _check_consensus(posterior: CrowdPosterior, items: Entities, where: str) -> None:
    consensus = posterior.consensus
    if consensus.basis is not None:
        _require(consensus.basis.points.shape[1] == items.n_features, f"{where}.basis", "does not fit the features")
    if consensus.has_offsets:
        _array(consensus.offset_mean, f"{where}.offset_mean", (items.seen.size,))


def _check_blocks(estimator: CrowdGPPL, n_biases: int, prefix: str) -> None:
    """The state from which a fit goes on: its blocks against the posterior that was made of them."""
    posterior, state, segments = estimator.posterior_, estimator._state, estimator._segments  # noqa: SLF001
    where, consensus = f"{prefix}_state.blocks", estimator.posterior_.consensus
    offsets = 0 if consensus.offset_variance is None else consensus.offset_mean.size
    sides = {"items": posterior.items, "users": posterior.users}
    sizes = {"f": consensus.mean.size, "offsets": offsets, "bias": n_biases}
    sizes |= {name: factors.mean.size for name, factors in sides.items()}
    wanted = {name: size for name, size in sizes.items() if size}
    sizes = {name: block.size for name, block in state.blocks.items()}
    _require(sizes == wanted, where, f"must have {wanted} variables")
    for name in sides.keys() & wanted.keys():
        stacked, wants_stacked = isinstance(state.blocks[name], StackedBlock), sides[name].basis is not None
        _require(stacked == wants_stacked, where, "are of the wrong kind")
    runs = isinstance(segments, dict) and all(
        isinstance(run, tuple) and all(isinstance(segment, Segment) for segment in run) for run in segments.values()
    )
    _require(runs, f"{prefix}_segments", "must be runs of variables")
    sizes = {name: sum(segment.size for segment in run) for name, run in segments.items()}
    _require(sizes == wanted, f"{prefix}_segments", f"must add up to {wanted}")
    needed = {segment.scale for run in segments.values() for segment in run}
    _check_scales(state.scales, f"{prefix}_state.scales", needed)


def _check_ordinal(estimator: GPOrdinalRegressor, where: str) -> None:
    if not hasattr(estimator, "posterior_"):
        return  # saved before it was fitted
    prefix = f"{where}." if where else ""
    r, width = np.size(estimator.classes_), estimator.n_features_in_
    _require(np.ndim(estimator.classes_) == 1 and r >= 2, f"{prefix}classes_", "must be at least 2 levels")
    _require(type(width) is int and width >= 1, f"{prefix}n_features_in_", "must be a whole number >= 1")
    members = estimator.ensemble_
    sound = isinstance(members, list) and members and all(isinstance(one, OrdinalMember) for one in members)
    _require(sound, f"{prefix}ensemble_", "must be a list of models")
    _require(abs(sum(one.weight for one in members) - 1.0) < 1e-6, f"{prefix}ensemble_", "has weights that are none")
    likelihoods = [one.likelihood for one in members] + [estimator.likelihood_]
    levels = all(isinstance(one, OrdinalProbit) and one.n_levels == r for one in likelihoods)
    _require(levels, f"{prefix}likelihood_", f"must be of {r} levels")
    _array(estimator.thresholds_, f"{prefix}thresholds_", (r - 1,))
    latents = [one.latent for one in members] + [estimator.posterior_]
    n = _check_ordinal_rows(estimator, r, width, prefix)
    for latent in latents:
        _check_latent_fits(latent, n, None if estimator._precomputed else width, f"{prefix}posterior_")  # noqa: SLF001
    if estimator._state is not None:  # noqa: SLF001
        _check_inducing_state(estimator._state, estimator.posterior_, f"{prefix}_state")  # noqa: SLF001
    if estimator._precomputed:  # noqa: SLF001
        _require(estimator.kernel_ is None, f"{prefix}kernel_", "must be None for a precomputed covariance")
        return
    _check_kernel_width(estimator.kernel_, f"{prefix}kernel_", width)


def _check_ordinal_rows(estimator: GPOrdinalRegressor, r: int, width: int, prefix: str) -> int:
    """Rows that a fit goes on from: their number."""
    _require(isinstance(estimator._precomputed, bool), f"{prefix}_precomputed", "must be true or false")  # noqa: SLF001
    rows, where = estimator._rows, f"{prefix}_rows"  # noqa: SLF001
    _require(isinstance(rows, tuple) and len(rows) == 3, where, "must be rows, levels and weights")
    X, level, weight = rows
    n = _array(weight, f"{where}.weight", (None,)).size
    _positive_array(weight, f"{where}.weight", (n,))
    _indices(level, f"{where}.level", 0, r, (n,))
    columns = _features(X, f"{where}.X", n)
    if estimator._precomputed:  # noqa: SLF001
        used = estimator._used  # noqa: SLF001
        _indices(used, f"{prefix}_used", 0, width, (n,))
        _require(np.unique(used).size == n, f"{prefix}_used", "names a row twice")
        _array(X, f"{where}.X", (n, n))
    else:
        _require(columns == width, f"{where}.X", f"must have {width} columns")
    return n


def _check_latent_fits(latent: Any, n: int, width: int | None, where: str) -> None:
    """Posterior of f against the rows and features of the estimator; no width for a given covariance."""
    _require(isinstance(latent, ExactLatent | SparseLatent), where, "is no posterior")
    if width is None:
        _require(isinstance(latent, ExactLatent) and latent.kernel is None, where, "must be of a given covariance")
        _array(latent.alpha, f"{where}.alpha", (n,))
        return
    points = latent.X if isinstance(latent, ExactLatent) else latent.basis.points
    _require(points is not None and points.shape[1] == width, where, f"must be of {width} features")


# What checks in other files start from.
require, array, positive = _require, _array, _positive
features, indices, kernel_width = _features, _indices, _check_kernel_width

# Records that are not made of their parts as they stand.
BUILDERS: dict[type[Any], Callable[[dict[str, Any], str], Any]] = {
    Comparisons: _comparisons,
    StackedBlock: _stacked,
}
CHECKS: dict[type[Any], Callable[[Any, str], None]] = {
    DenseBlock: _check_dense,
    DiagonalBlock: _check_diagonal,
    Segment: _check_segment,
    Entities: _check_entities,
    GammaScale: _check_gamma,
    FixedScale: _check_fixed,
    State: _check_state,
    InducingBasis: _check_basis,
    PairPosterior: _check_posterior,
    FactorPosterior: _check_factors,
    CrowdPosterior: _check_crowd_posterior,
    ExactLatent: _check_exact_latent,
    SparseLatent: _check_sparse_latent,
    OrdinalMember: _check_member,
    Kernel: _check_kernel,
    PairwiseGP: _check_pairwise,
    GPOrdinalRegressor: _check_ordinal,
}
