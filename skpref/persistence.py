"""Models in files that hold data only: `save` and `load`.

A file is a skops archive: a zip, not compressed, of ``schema.json``, a tree of typed nodes, and ``.npy`` members. The
types are a fixed list, and so are the kinds of nodes. Before anything is built, `load` checks the file's kind and
size, the names and sizes of its members, every type in the tree and every header of an array; afterwards every record
and estimator checks itself (``validate()``, ``_check_fitted()``), so that no compiled loop sees an index out of range.
Pickle works on estimators as on any of scikit-learn's, but runs whatever a file's author wished; `load` never accepts
a pickle.
"""

from __future__ import annotations

import io
import re
import warnings
import zipfile
from copy import copy
from dataclasses import fields, is_dataclass
from importlib import import_module
from inspect import isabstract, isclass
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from scipy.interpolate import BSpline
from sklearn.base import BaseEstimator
from sklearn.gaussian_process.kernels import Kernel
from sklearn.model_selection._search import BaseSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, SplineTransformer

from skpref import kernels, likelihoods
from skpref._archive import check_schema, open_zip, read_file, read_schema, renumbered, require, write_archive
from skpref._checks import check_columns
from skpref._math.limits import LARGEST_SQUARED
from skpref._version import __version__
from skpref.data import Table, Vocabulary
from skpref.exceptions import DataError, ModelFormatError
from skpref.gp.entities import Entities
from skpref.kernels.checks import check_parameters
from skpref.settings import Settings

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping
    from types import ModuleType

__all__ = ["FORMAT_VERSION", "load", "save"]

FORMAT_VERSION = 2
_MAX_INTEGER = 1 << 32  # integers of a parameter are smaller: seeds are the largest
# Attributes of a fitted estimator: scikit-learn's trailing underscore, or a single leading one.
_ATTRIBUTE = re.compile(r"(?:[a-z]|[KX]_)[a-z0-9_]*_|_[a-z][a-z0-9_]*X?")
_UNFITTED = {"_sklearn_output_config"}  # attributes that scikit-learn sets before a fit
_NOT_KEPT = re.compile(".*callback.*|_metadata_request")  # attributes that a search around the estimator sets
_DROPPED = {"checkpoint", "memory"}  # parameters that name files: a model file has None for them


# --------------------------------------------------------------------------------------------------------------- types
def _named(homes: Mapping[str, str]) -> dict[str, str]:
    """Full names of classes by module: full name -> module."""
    return {f"{home}.{name}": home for home, names in homes.items() for name in names.split()}


def _public(package: ModuleType) -> dict[str, str]:
    """Return the classes of a package that can have instances, by full name: their modules."""
    classes = [value for name in package.__all__ if isclass(value := getattr(package, name)) and not isabstract(value)]
    return {f"{cls.__module__}.{cls.__name__}": cls.__module__ for cls in classes}


# A class that stands in none of these lists is neither saved nor loaded.
_OURS = _named(
    {
        "skpref.data.design": "OneHotDesign",
        "skpref.factorization.fm": "VariationalFM",
        "skpref.factorization.fm_classifier": "VariationalFMClassifier",
        "skpref.factorization.fm_ordinal": "VariationalFMOrdinal",
        "skpref.factorization.ipm3f": "GibbsIPM3F",
        "skpref.factorization.m3f": "GibbsM3F",
        "skpref.gp.crowd.estimator": "CrowdGPPL",
        "skpref.gp.latent.estimator": "BayesianGPLVM",
        "skpref.gp.ordinal.estimator": "GPOrdinalRegressor",
        "skpref.gp.pairwise.classifier": "GPPLClassifier",
        "skpref.gp.pairwise.regressor": "GPPLRegressor",
        "skpref.gp.sparse.classifier": "SVGPClassifier",
        "skpref.gp.sparse.regressor": "SVGPRegressor",
    }
)
# Their fitted state is arrays and plain values, and none of it is an index that compiled code follows unchecked.
_SCIKIT_LEARN = _named(
    {
        "sklearn.cluster._agglomerative": "FeatureAgglomeration",
        "sklearn.cluster._kmeans": "KMeans MiniBatchKMeans",
        "sklearn.compose._column_transformer": "ColumnTransformer",
        "sklearn.compose._target": "TransformedTargetRegressor",
        "sklearn.decomposition._factor_analysis": "FactorAnalysis",
        "sklearn.decomposition._fastica": "FastICA",
        "sklearn.decomposition._incremental_pca": "IncrementalPCA",
        "sklearn.decomposition._kernel_pca": "KernelPCA",
        "sklearn.decomposition._nmf": "MiniBatchNMF NMF",
        "sklearn.decomposition._pca": "PCA",
        "sklearn.decomposition._sparse_pca": "SparsePCA",
        "sklearn.decomposition._truncated_svd": "TruncatedSVD",
        "sklearn.feature_extraction._dict_vectorizer": "DictVectorizer",
        "sklearn.feature_extraction._hash": "FeatureHasher",
        "sklearn.feature_extraction.text": "CountVectorizer HashingVectorizer TfidfTransformer TfidfVectorizer",
        "sklearn.feature_selection._from_model": "SelectFromModel",
        "sklearn.feature_selection._rfe": "RFE RFECV",
        "sklearn.feature_selection._sequential": "SequentialFeatureSelector",
        "sklearn.feature_selection._univariate_selection": "GenericUnivariateSelect SelectFdr SelectFpr SelectFwe "
        "SelectKBest SelectPercentile",
        "sklearn.feature_selection._variance_threshold": "VarianceThreshold",
        "sklearn.impute._base": "MissingIndicator SimpleImputer",
        "sklearn.impute._iterative": "IterativeImputer",
        "sklearn.impute._knn": "KNNImputer",
        "sklearn.linear_model._bayes": "BayesianRidge",
        "sklearn.kernel_approximation": "AdditiveChi2Sampler Nystroem RBFSampler SkewedChi2Sampler",
        "sklearn.pipeline": "FeatureUnion Pipeline",
        "sklearn.preprocessing._polynomial": "PolynomialFeatures SplineTransformer",
        "sklearn.preprocessing._data": "Binarizer KernelCenterer MaxAbsScaler MinMaxScaler Normalizer PowerTransformer "
        "QuantileTransformer RobustScaler StandardScaler",
        "sklearn.preprocessing._discretization": "KBinsDiscretizer",
        "sklearn.preprocessing._encoders": "OneHotEncoder OrdinalEncoder",
        "sklearn.preprocessing._function_transformer": "FunctionTransformer",
        "sklearn.preprocessing._target_encoder": "TargetEncoder",
        "sklearn.random_projection": "GaussianRandomProjection SparseRandomProjection",
    }
)
_RECORDS = _named(
    {
        "skpref.data.comparisons": "Comparisons",
        "skpref.data.design": "ColumnDesign",
        "skpref.data.ratings": "Ratings",
        "skpref.data.shards": "ComparisonCounts RatingCounts",
        "skpref.factorization.machine.model": "Bias Machine Prior",
        "skpref.factorization.machine.posterior": "FMDraws FMFitted FMPosterior",
        "skpref.factorization.max_margin.fitted": "M3FFitted",
        "skpref.factorization.max_margin.posterior": "Calibration Factors IPM3FPosterior M3FPosterior "
        "RatingVocabularies",
        "skpref.gp.crowd.fit_hierarchy": "Regularisation",
        "skpref.gp.crowd.groups": "GroupPosterior",
        "skpref.gp.crowd.places": "Places",
        "skpref.gp.crowd.personal": "AtS Covariates PersonalPosterior",
        "skpref.gp.crowd.posterior": "CrowdPosterior FactorPosterior",
        "skpref.gp.pairwise.thresholds": "TieThresholds",
        "skpref.gp.crowd.timeline": "Timeline",
        "skpref.gp.entities": "Entities",
        "skpref.gp.latent.bound": "LatentHyper LatentMapping",
        "skpref.gp.ordinal.fit": "OrdinalMember",
        "skpref.gp.pairwise.moving_posterior": "FeaturePosterior MovingPosterior",
        "skpref.gp.pairwise.over_time": "SkillDynamics",
        "skpref.gp.pairwise.posterior": "AverageResidual PairPosterior",
        "skpref.gp.posterior": "ExactLatent SparseLatent",
        "skpref.inference.basis": "InducingBasis",
        "skpref.inference.blocks": "DenseBlock DiagonalBlock StackedBlock",
        "skpref.inference.chain_groups": "GroupDifferences",
        "skpref.inference.trajectories": "Trajectories",
        "skpref.inference.collapsed": "Moments",
        "skpref.inference.gibbs": "Chain",
        "skpref.inference.problem": "State",
        "skpref.inference.scale": "FixedScale GammaScale",
        "skpref.inference.terms.base": "Segment",
    }
) | _public(likelihoods)
_OTHERS = _named(
    {
        "skpref.data.ids": "Vocabulary",
        "skpref.data.tables": "Table",
        "skpref.settings": "LBFGS SVI Adam Checkpoint FactorPrior Fixed Gamma Inducing",
        "sklearn.gaussian_process.kernels": "ConstantKernel DotProduct Exponentiation Matern Product RBF "
        "RationalQuadratic Sum WhiteKernel",
    }
) | _public(kernels)
_ESTIMATORS = {**_OURS, **_SCIKIT_LEARN}
_OBJECTS = {**_OURS, **_SCIKIT_LEARN, **_RECORDS, **_OTHERS}
_OF_NUMPY = (
    "absolute arcsinh cbrt cos deg2rad exp exp2 expm1 log log10 log1p log2 negative rad2deg reciprocal sign sin sqrt "
    "square tanh"
)
_FUNCTIONS = {
    "numpy": f"{_OF_NUMPY} max mean median min",
    "numpy._core._multiarray_umath": _OF_NUMPY,  # where they are with numpy 2.0
    "sklearn.feature_selection._mutual_info": "mutual_info_classif mutual_info_regression",
    "sklearn.feature_selection._univariate_selection": "chi2 f_classif f_regression",
}
_SCALARS = "bool float32 float64 int32 int64 uint8 uint64"
_NODES: dict[str, set[str]] = {
    "ObjectNode": set(_OBJECTS),
    "TupleNode": {"builtins.tuple", "sklearn.impute._iterative._ImputerTriplet", *_RECORDS},
    "DictNode": {"builtins.dict"},
    "ListNode": {"builtins.list"},
    "SetNode": {"builtins.set"},
    "JsonNode": {"builtins.str"},
    "BytesNode": {"builtins.bytes"},
    "SliceNode": {"builtins.slice"},
    "FunctionNode": set(_named(_FUNCTIONS)),
    "TypeNode": {*_named({"builtins": "bool float int str", "numpy": _SCALARS})},
    "DTypeNode": {"numpy.dtype"},
    "NdArrayNode": {"numpy.ndarray", "numpy.str_", *_named({"numpy": _SCALARS})},
    "SparseMatrixNode": {"scipy.sparse._csr.csr_array", "scipy.sparse._csr.csr_matrix"},
}


_TRUSTED = frozenset().union(*_NODES.values())


def saved_classes() -> tuple[str, ...]:
    """Return the names of this package's estimators, which can all be saved."""
    return tuple(name.rpartition(".")[2] for name in _OURS)


# -------------------------------------------------------------------------------------------------------- save and load
def save(estimator: BaseEstimator, path: str | os.PathLike[str]) -> None:
    """Save an estimator, fitted or not, to a file that contains data only.

    The file appears under its name only when it is complete. It replaces an earlier file of that name.

    Parameters
    ----------
    estimator : estimator
        Of this package, or a `Pipeline` or `TransformedTargetRegressor` of its estimators and scikit-learn's usual
        transformers (scaling, encoding, splines, imputing, text, PCA, columns, selection, logarithms by NumPy).
        A `GPPLClassifier` and a `CrowdGPPL` keep their comparisons, by ids, for `partial_fit`. So these are part of the
        file.
    path : str or path-like
        File to write, with any name; the folder must exist. `skpref tune` uses ``model.skpref``.

    Raises
    ------
    DataError
        If the estimator is of another class; if it has something that is not data (a kernel class of your own, a
        function, a `RandomState`) or an id that is not an integer, a string or bytes; or if it is larger than 2 GiB.
    OSError
        If the folder does not exist, or the file cannot be written.

    See Also
    --------
    load : Read such a file.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from skpref import GPPLClassifier
    >>> from skpref.persistence import load, save
    >>> model = GPPLClassifier().fit([["tea", "coffee"], ["tea", "water"]], [1, 1])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(model, pathlib.Path(folder) / "drinks.skpref")
    ...     again = load(pathlib.Path(folder) / "drinks.skpref")
    >>> bool((again.utility() == model.utility()).all())
    True
    """
    save_with_columns(estimator, path, {})


def save_with_columns(estimator: BaseEstimator, path: str | os.PathLike[str], columns: Mapping[str, str]) -> None:
    """Save an estimator with the names of the columns that it was learnt from, by role, such as left, user or item."""
    from skops import io as skops_io

    path, buffer = Path(path), io.BytesIO()
    name = type(estimator).__name__
    if _full_name(estimator) not in _ESTIMATORS:
        if hasattr(estimator, "to_local"):
            raise DataError(f"cannot save a {name}, which belongs to a cluster: save its to_local()")
        if isinstance(estimator, BaseSearchCV):
            raise DataError(f"cannot save a {name}; only its best_estimator_ can be saved")
        raise DataError(
            f"cannot save a {name}; only {', '.join(saved_classes())}, and pipelines of them with scikit-learn's "
            "usual transformers, can be saved; joblib saves others, in files that run code when they are loaded"
        )
    prepared = _prepared(estimator, {})
    try:
        skops_io.dump(prepared, buffer)
        stamp = {"format": FORMAT_VERSION, "version": __version__, **({"columns": dict(columns)} if columns else {})}
        schema, members = renumbered(buffer, stamp)
        check_schema(schema, members, _NODES, _parts_of)
        _check(prepared, {})
    except Exception as error:
        hint = "joblib saves any estimator, in files that run code when they are loaded"
        raise DataError(f"cannot save a {name}: {error}; {hint}") from error
    write_archive(path, schema, members)


def load(path: str | os.PathLike[str]) -> Any:
    """Load an estimator from a file of `save`; safe with files from people you do not know.

    Parameters
    ----------
    path : str or path-like
        The file.

    Returns
    -------
    estimator
        The saved parameters and fitted attributes, except that `checkpoint`, which names a file, is None. With the same
        versions of the libraries its predictions are equal to the bit.

    Raises
    ------
    ModelFormatError
        If the file is not a valid model. The message names the file and the part that is wrong.
    OSError
        If there is no such file, or it cannot be read.

    See Also
    --------
    save : Writes such files.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from skpref.persistence import load
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "unknown.skpref"
    ...     _ = path.write_bytes(b"not a model")
    ...     try:
    ...         load(path)
    ...     except ValueError as error:
    ...         print(error)
    unknown.skpref: not a skpref model: it is not a zip archive, or is truncated
    """
    from skops import io as skops_io

    path = Path(path)
    content = read_file(path)
    try:
        members = open_zip(content)
        occurring = check_schema(read_schema(members, FORMAT_VERSION), members, _NODES, _parts_of)
        estimator = skops_io.loads(content, trusted=sorted(_TRUSTED & occurring))  # the fewer, the faster
        require(isinstance(estimator, BaseEstimator), "estimator", "is none")
        _check(estimator, {})
    except Exception as error:
        text = (
            str(error)
            if isinstance(error, ValueError | zipfile.BadZipFile)
            else f"damaged ({type(error).__name__}: {error})"
        )
        raise ModelFormatError(f"{path.name}: {text:.500}") from error
    return estimator


def columns_of(path: str | os.PathLike[str]) -> dict[str, str]:
    """Return the names of columns, by role, of a file that `load` has read; empty if it has none."""
    written = read_schema(open_zip(read_file(Path(path))), FORMAT_VERSION)["skpref"].get("columns")
    pairs = written.items() if isinstance(written, dict) else ()
    return {role: name for role, name in pairs if isinstance(name, str)}


# ------------------------------------------------------------------------------------------------------- before saving
def _full_name(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__name__}"


def _parts_of(name: str) -> list[str] | None:
    """Return the names of the fields of a record that is a dataclass."""
    cls = getattr(import_module(_RECORDS[name]), name.rpartition(".")[2]) if name in _RECORDS else None
    return [field.name for field in fields(cls)] if cls is not None and is_dataclass(cls) else None


def _prepared(value: Any, memo: dict[int, Any]) -> Any:
    """Return a copy to save: tables as read, records without cached values, counts as integers."""
    if isinstance(value, BaseEstimator):
        if id(value) not in memo:
            memo[id(value)] = other = object.__new__(type(value))
            dropped = dict.fromkeys(vars(value).keys() & _DROPPED)
            parts = vars(value) | _tables_read(value) | _plain_parts(value) | dropped
            kept = {name: part for name, part in parts.items() if not _NOT_KEPT.fullmatch(name)}
            other.__dict__ = {name: _prepared(part, memo) for name, part in kept.items()}
        return memo[id(value)]
    if type(value) in {list, tuple}:
        return type(value)(_prepared(item, memo) for item in value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_prepared(item, memo) for item in value))
    if is_dataclass(value) and not isinstance(value, type) and hasattr(value, "__dict__"):
        if id(value) not in memo:
            memo[id(value)] = copy = object.__new__(type(value))
            kept = {field.name: _prepared(getattr(value, field.name), memo) for field in fields(value)}
            copy.__dict__.update(kept)
        return memo[id(value)]
    if type(value) is dict:
        return {
            key: item.item() if isinstance(item, np.integer) else _prepared(item, memo) for key, item in value.items()
        }
    if not isinstance(value, np.ndarray) and hasattr(value, "__array__") and getattr(value, "ndim", 0) == 1:
        return np.asarray(value)  # a column of a data frame
    return value


def _tables_read(estimator: BaseEstimator) -> dict[str, Table]:
    """Return parameters that are tables, as `fit` read them."""
    held = vars(estimator)
    tables: dict[str, Table] = {}
    for name in ("items", "users"):
        entities = held.get(f"_{name}")
        if isinstance(entities, Entities) and entities.features is not None and not isinstance(held[name], Table):
            tables[name] = Table.__new__(Table)
            parts = ("vocabulary", "features", "feature_names")
            tables[name].__setstate__({part: getattr(entities, part) for part in parts})
    return tables


def _plain_parts(estimator: BaseEstimator) -> dict[str, Any]:
    """Return splines and a generator that scikit-learn's transformers hold, as the values that they are built from."""
    held, parts = vars(estimator), dict[str, Any]()
    if type(estimator).__name__ == "SplineTransformer" and "bsplines_" in held:
        parts["bsplines_"] = [(spline.t, spline.c, spline.k, spline.extrapolate) for spline in held["bsplines_"]]
    if type(estimator).__name__ == "IterativeImputer" and "random_state_" in held:
        parts["random_state_"] = held["random_state_"].get_state()
    return parts


# -------------------------------------------------------------------------------------------------------- after loading
def _check(value: Any, memo: dict[int, Any], where: str = "") -> None:
    """Let every part check itself, parts before the wholes that they belong to."""
    if id(value) in memo:
        return
    memo[id(value)] = value  # kept, so that no other object gets its id
    name = _full_name(value)
    if name in _ESTIMATORS:
        _check_estimator(value, memo, where)
    elif isinstance(value, np.ndarray):
        require(value.dtype.kind != "f" or np.isfinite(value).all(), where, "has NaN or infinite values")
        ragged = value.dtype == object and any(isinstance(item, np.ndarray) for item in value.ravel())
        require(not ragged, where, "holds arrays")
    elif sparse.issparse(value):
        _check_csr(value, where)
    elif isinstance(value, dict):
        _check_all(value, memo, where)
    elif isinstance(value, list | tuple):
        _check_all(dict(enumerate(value)), memo, where)
    elif name in _OBJECTS:
        names = _parts_of(name)
        parts = vars(value) if names is None else {part: getattr(value, part) for part in names}
        for part, number in parts.items() if name in _RECORDS else ():
            is_large = isinstance(number, float) and LARGEST_SQUARED <= abs(number) < np.inf
            require(not is_large, where or name, f"{part} is too large a number")
        _check_all(parts, memo, where)
    _check_itself(value, name, where)


def _check_itself(value: Any, name: str, where: str) -> None:
    """Let a part whose own parts are sound check that they fit together."""
    if isinstance(value, Kernel):
        check_parameters(value)
    elif isinstance(value, Settings):
        require(_check_parameters(value, where) == vars(value).keys(), where, "has more than its parameters")
        value._validate_params()  # noqa: SLF001 - scikit-learn's hook
    elif name in _RECORDS or isinstance(value, Table | Vocabulary):
        getattr(value, "validate", getattr(value, "__post_init__", tuple))()


def _check_all(parts: Mapping[Any, Any], memo: dict[int, Any], where: str) -> None:
    for name, part in parts.items():
        _check(part, memo, f"{where}.{name}".strip("."))


def _check_csr(matrix: Any, where: str) -> None:
    """Check a CSR matrix in full, before any of SciPy's or our compiled code follows its indices."""
    require(matrix.dtype == np.float64 and np.isfinite(matrix.data).all(), where, "must hold finite floats")
    require(max(matrix.shape) < 1 << 31 and matrix.indptr.size == matrix.shape[0] + 1, where, "has too many rows")
    matrix.check_format(full_check=True)
    require(matrix.has_canonical_format, where, "has unsorted or repeated columns")


def _check_estimator(estimator: BaseEstimator, memo: dict[int, Any], where: str) -> None:
    cls, held, params = type(estimator), vars(estimator), _check_parameters(estimator, where)
    for name in params & _DROPPED:
        setattr(estimator, name, None)
    for name in sorted(held.keys() - params):
        fitted = _ATTRIBUTE.fullmatch(name) and not hasattr(cls, name)
        require(fitted, where or cls.__name__, f"{name!r:.80} is no fitted attribute")
    ours = _full_name(estimator) in _OURS
    _check_all(held if ours else dict(enumerate(_inner(list(held.values())))), memo, where)
    if hasattr(cls, "_parameter_constraints"):
        estimator._validate_params()  # noqa: SLF001 - scikit-learn's hook for estimators
    check_columns(estimator)
    if isinstance(estimator, Pipeline):
        estimator._validate_steps()  # noqa: SLF001 - names, and what is a transformer
    if isinstance(estimator, OneHotEncoder) and "categories_" in held:
        _check_encoder(estimator, where)
    if isinstance(estimator, SplineTransformer) and "bsplines_" in held:
        estimator.bsplines_ = [_rebuilt_spline(parts, where) for parts in held["bsplines_"]]
    if isinstance(held.get("random_state_"), tuple):
        estimator.random_state_ = _rebuilt_generator(held["random_state_"], where)
    if not ours:
        return
    if any(name.endswith("_") for name in held.keys() - params):
        estimator._check_fitted()  # noqa: SLF001 - of this package
    else:
        require(held.keys() - params <= _UNFITTED, where or cls.__name__, "is not fitted, but has a state")


def _rebuilt_spline(parts: tuple[Any, ...], where: str) -> BSpline:
    """Return a spline of its parts, which SciPy follows without a check; knots of a constant column are equal."""
    knots, coefficients, degree, extrapolate = parts
    sound = knots.dtype == coefficients.dtype == np.float64 and knots.ndim == 1 and coefficients.ndim == 2
    sound = sound and degree >= 0 and degree < knots.size - degree - 1 <= len(coefficients)
    require(sound and np.isfinite(knots).all() and (np.diff(knots) >= 0.0).all(), where, "bsplines_ must be splines")
    order = np.ascontiguousarray(knots), np.ascontiguousarray(coefficients)
    return BSpline.construct_fast(*order, int(degree), extrapolate=extrapolate)


def _rebuilt_generator(state: tuple[Any, ...], where: str) -> np.random.RandomState:
    """Return the generator of a state, whose position NumPy follows without a check."""
    sound = len(state) == 5 and state[0] == "MT19937" and state[1].shape == (624,) and 0 <= int(state[2]) <= 624
    require(sound, where, "random_state_ must be a state of MT19937")
    generator = np.random.RandomState()
    generator.set_state(state)
    return generator


def _check_parameters(value: BaseEstimator, where: str) -> set[str]:
    """Return the names of the parameters of an estimator or of settings; refuse missing ones and huge numbers."""
    cls, held = type(value), vars(value)
    names = set(cls._get_param_names())
    require(names <= held.keys(), where or cls.__name__, "lacks a parameter")
    for name in names:
        large = isinstance(held[name], Integral) and abs(int(held[name])) >= _MAX_INTEGER
        require(not large, where or cls.__name__, f"{name} is too large a number")
    return names


def _check_encoder(encoder: OneHotEncoder, where: str) -> None:
    """Encode every category: SciPy follows the columns that the encoder's private state gives without a check."""
    widest = max((len(column) for column in encoder.categories_), default=0)
    rows = np.column_stack([np.resize(np.asarray(column, dtype=object), widest) for column in encoder.categories_])
    probe = copy(encoder).set_params(sparse_output=True).set_output(transform="default")
    probe.__dict__.pop("feature_names_in_", None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of categories that are dropped
        encoded = probe.transform(rows)
    encoded.check_format(full_check=True)
    require(encoded.shape[1] == len(encoder.get_feature_names_out()), where, "has columns that no category has")


def _inner(value: Any) -> Iterator[Any]:
    """Yield estimators and kernels in the attributes of another one."""
    if isinstance(value, BaseEstimator | Kernel):
        yield value
    elif isinstance(value, list | tuple | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _inner(item)
