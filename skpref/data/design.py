"""Sparse designs of columns of ids and numbers for factorization machines, and the groups of their features."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from skpref._callbacks import CallbackMixin, fit_callbacks, fit_context
from skpref._checks import are_names, check_types, require
from skpref._typing import AnyArray, Array, IdRows, IntArray
from skpref._validation import assert_all_finite, check_numbers, column_names
from skpref.data.columns import read_ids
from skpref.data.ids import IdColumn, Vocabulary, shorten
from skpref.data.stored import is_stored
from skpref.exceptions import DataError

_LARGEST = 1e25  # limit on numbers: their eighth powers must fit into float64


@dataclass(frozen=True, eq=False)
class ColumnDesign:
    """Columns as features: a feature for each id and one for unseen ids, or the number itself."""

    names: tuple[str, ...]
    ids: tuple[Vocabulary | None, ...]  # of each column; None: numbers

    def validate(self) -> None:
        """Raise DataError unless there are ids or numbers of each column."""
        sound = bool(self.names) and are_names(self.names, len(self.ids)) and isinstance(self.ids, tuple)
        require(sound, self, "names", "must be a name of each column")
        require(all(isinstance(ids, Vocabulary | None) for ids in self.ids), self, "ids", "must be ids or None")

    @property
    def widths(self) -> list[int]:
        """Number of the features of each column."""
        return [1 if ids is None else ids.size + 1 for ids in self.ids]

    @property
    def starts(self) -> IntArray:
        """First feature of each column, and their number, shape (n_columns + 1,)."""
        return np.concatenate([[0], np.cumsum(self.widths)]).astype(np.int64)

    @property
    def groups(self) -> IntArray:
        """Column of each feature."""
        return np.repeat(np.arange(len(self.names)), self.widths)

    def same_as(self, other: ColumnDesign | None) -> bool:
        """Tell whether another design has the same features."""
        if other is None or self.names != other.names:
            return False
        ids = zip(self.ids, other.ids, strict=True)
        return all(a is b or (a is not None and b is not None and np.array_equal(a.ids, b.ids)) for a, b in ids)

    def matrix(self, columns: Sequence[AnyArray | None]) -> sparse.csr_array:
        """Return the features of rows of numbers and of places of ids; columns that are None have no entries."""
        starts = self.starts
        held = [(k, column) for k, column in enumerate(columns) if column is not None]
        n = held[0][1].size if held else 0
        index, value = np.empty((n, len(held)), dtype=np.int64), np.ones((n, len(held)))
        for entry, (k, column) in enumerate(held):
            index[:, entry] = starts[k]
            if self.ids[k] is None:
                value[:, entry] = column
            else:
                index[:, entry] += column
        index = index.astype(sparse.get_index_dtype(maxval=max(value.size, int(starts[-1]))), copy=False)
        start = np.arange(n + 1, dtype=index.dtype) * index.dtype.type(len(held))
        X = sparse.csr_array((value.ravel(), index.ravel(), start), (n, int(starts[-1])))
        X.eliminate_zeros()
        return X

    def transform(self, X: Any) -> sparse.csr_array:  # any table
        """Return the features of rows in memory: a data frame with these columns, or rows of as many entries."""
        names = column_names(X)
        rows = None if names is not None else _as_rows(X, len(self.names))
        return self.matrix([self.column(k, X[n] if rows is None else rows[:, k]) for k, n in enumerate(self.names)])

    def column(self, k: int, values: Any, *, unknown: str = "column") -> AnyArray:  # of a table
        """Return the numbers of a column, or the places of its ids; unseen ids come last, or are refused."""
        name, ids = self.names[k], self.ids[k]
        if ids is None:
            return checked_numbers(values, name)
        mark: Literal["raise", "mark"] = "raise" if unknown == "raise" else "mark"
        place = ids.encode(values, f"column {name!r}", unknown=mark, noun="row", kind=name)
        return np.asarray(np.where(place < 0, ids.size, place))

    def get_feature_names_out(self) -> NDArray[np.object_]:
        """Return the names of the features: "user_ann", "user (unseen)", "price"."""
        names: list[str] = []
        for name, ids in zip(self.names, self.ids, strict=True):
            names += [name] if ids is None else [*(f"{name}_{one}" for one in _texts(ids.ids)), f"{name} (unseen)"]
        return np.array(names, dtype=object)


def _as_rows(X: Any, width: int) -> AnyArray:  # any table
    if is_stored(X):
        raise DataError(f"X is {shorten(str(X))}; fit takes files, and other methods take rows in memory: read them")
    rows = X if isinstance(X, np.ndarray) else np.array(X, dtype=object)
    if rows.ndim != 2 or rows.shape[1] != width:
        raise DataError(f"X must have the {width} columns of the files of fit; got the shape {rows.shape}")
    return rows


def checked_numbers(values: Any, name: str) -> Array:  # array-like
    """Return a column of numbers that are not too large."""
    try:
        numbers = np.asarray(check_numbers(values, "X"), dtype=np.float64)
        assert_all_finite(numbers, input_name="X")
    except (TypeError, ValueError) as error:
        raise DataError(f"column {name!r} holds numbers: {error}") from error
    largest = float(np.abs(numbers).max(initial=0.0))
    if largest > _LARGEST:
        raise DataError(f"overflow in interactions; scale X: column {name!r} holds values up to {largest:g}.")
    return numbers


# Its output is always sparse: as scikit-learn's text vectorizers, it has no output as a data frame.
class OneHotDesign(TransformerMixin, CallbackMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[call-arg, misc]
    """One-hot encode pairs (user id, item id) as a sparse matrix with a column for every user and every item.

    Two more columns represent unseen users and unseen items. They are zero in all training rows, so a factorization
    machine predicts an unseen user from the prior of the user group, with a larger variance. `skpref.elicitation`
    learns a new user in that column.

    The implicit-feedback block shows which items a user rated in the training pairs, whatever the rating ([Kor08]):
    1/sqrt(n) in the columns of the user's n items. It helps to predict users with few ratings. `fit` stores the block
    and `transform` looks it up, so no information of test pairs leaks into it.

    Parameters
    ----------
    implicit : bool, default=False
        Whether to add the implicit-feedback block. A row then has as many entries as its user has items.
    users, items : array-like of shape (n_users,) and (n_items,), default=None
        Ids that get a column, in this order. None: those of the training pairs. In cross-validation, folds have
        different users: a list keeps the columns and `groups_` the same in all folds.
    unknown : {"column", "raise"}, default="column"
        What `transform` does with an id that has no column: use the column of unseen ids, or raise an error.

    Attributes
    ----------
    user_ids_, item_ids_ : ndarray of shape (n_users,) and (n_items,)
        Ids that have a column.
    groups_ : ndarray of shape (n_features_out,)
        Group of each column, "user", "item" or "implicit": pass it as the parameter `groups` of `VariationalFM`.
    rated_ : csr_array of shape (n_users + 1, n_items), or None
        Rows of the implicit-feedback block; the last row, for unseen users, is empty.
    n_features_in_ : int
        2.

    See Also
    --------
    feature_groups : Groups of the features of scikit-learn's encoders.

    References
    ----------
    .. [Kor08] Koren: Factorization meets the neighborhood: a multifaceted collaborative filtering model. KDD 2008.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from skpref import VariationalFM
    >>> from skpref.data import OneHotDesign
    >>> pairs = [["ann", "tea"], ["ann", "milk"], ["bob", "tea"], ["bob", "milk"], ["cleo", "tea"]]
    >>> model = make_pipeline(OneHotDesign(), VariationalFM(n_factors=2, random_state=0))
    >>> model = model.fit(pairs, [5, 1, 5, 1, 5])
    >>> bool(model.predict([["cleo", "milk"]])[0] < model.predict([["dave", "tea"]])[0])
    True
    >>> design = OneHotDesign(implicit=True).fit(pairs)
    >>> design.get_feature_names_out()[[0, 3, 4, 7]].tolist()
    ['user_ann', 'user (unseen)', 'item_milk', 'implicit_milk']
    >>> design.transform([["ann", "tea"]]).toarray().round(2).tolist()
    [[1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.71, 0.71]]
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "implicit": ["boolean"],
        "users": ["array-like", None],
        "items": ["array-like", None],
        "unknown": [StrOptions({"column", "raise"})],
    }

    def __init__(
        self,
        *,
        implicit: bool = False,
        users: ArrayLike | None = None,
        items: ArrayLike | None = None,
        unknown: str = "column",
    ) -> None:
        self.implicit = implicit
        self.users = users
        self.items = items
        self.unknown = unknown

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags

    @fit_context
    def fit(self, X: IdRows, y: object = None) -> Self:
        """Learn the ids, and with `implicit` the items that each user rated.

        Parameters
        ----------
        X : array-like of shape (n, 2)
            Ids of user and item: integers, strings or other hashables, as an array, a list of pairs or a data frame
            with two columns.
        y : Ignored
            For pipelines.

        Returns
        -------
        OneHotDesign
            Itself, fitted.

        Raises
        ------
        ValueError
            If an id is missing, or is not among the `users` or `items` passed to the constructor.
        """
        with fit_callbacks(self, X, y):
            self._learn(X)
        return self

    def _learn(self, X: IdRows) -> None:
        columns = self._read(X, reset=True)
        users, items = (
            Vocabulary.from_columns(column) if ids is None else Vocabulary(ids, name)
            for column, ids, name in zip(columns, (self.users, self.items), ("users", "items"), strict=True)
        )
        self._design = ColumnDesign(("user", "item"), (users, items))
        user, item = (self._design.column(k, column, unknown="raise") for k, column in enumerate(columns))
        self.rated_ = _rated(user, item, (users.size + 1, items.size)) if self.implicit else None

    def _check_fitted(self) -> None:
        """Raise DataError unless the fitted attributes fit together."""
        check_types(self, _design=ColumnDesign)
        sizes = [0 if ids is None else ids.size for ids in self._design.ids]
        require(len(sizes) == 2 and min(sizes) >= 1, self, "_design", "must have ids of users and items")
        require(self.n_features_in_ == 2, self, "n_features_in_", "must be 2")
        if self.rated_ is not None:
            shape = sizes[0] + 1, sizes[1]
            sound = sparse.issparse(self.rated_) and self.rated_.shape == shape
            require(sound, self, "rated_", f"must have shape {shape}")
            require(self.rated_[[-1]].nnz == 0, self, "rated_", "has items of unseen users")

    def _read(self, X: IdRows, *, reset: bool) -> list[IdColumn]:
        columns = read_ids(X, ("user", "item"), noun="rating")
        if reset or column_names(X) is not None:  # pairs of ids need no names, so no warning
            validate_data(self, X, reset=reset, skip_check_array=True)
        return columns

    def transform(self, X: IdRows) -> sparse.csr_array:
        """Return the design of pairs, which need not be those of `fit`.

        Parameters
        ----------
        X : array-like of shape (n, 2)
            Ids of user and item.

        Returns
        -------
        csr_array of shape (n, n_features_out)
            float64; n_users + 1 columns, n_items + 1, and n_items more with the implicit-feedback block.

        Raises
        ------
        ValueError
            If an id is missing, or is unknown and `unknown` is "raise".
        """
        check_is_fitted(self)
        places = [self._design.column(k, ids, unknown=self.unknown) for k, ids in enumerate(self._read(X, reset=False))]
        design = self._design.matrix(places)
        if self.rated_ is None:
            return design
        # The sum of two matrices of equal width is faster than their columns side by side.
        n_before, n_after = design.shape[1], design.shape[1] + self.rated_.shape[1]
        design.resize(design.shape[0], n_after)
        before = sparse.csr_array((self.rated_.shape[0], n_before))
        return sparse.csr_array(design + sparse.hstack([before, self.rated_], format="csr")[places[0]])

    @property
    def _vocabularies(self) -> tuple[Vocabulary, ...]:
        check_is_fitted(self)
        return tuple(ids for ids in self._design.ids if ids is not None)

    @property
    def user_ids_(self) -> AnyArray:
        """Ids of the users that have a column."""
        return self._vocabularies[0].ids

    @property
    def item_ids_(self) -> AnyArray:
        """Ids of the items that have a column."""
        return self._vocabularies[1].ids

    @property
    def groups_(self) -> NDArray[np.str_]:
        """Group of each column."""
        n_implicit = self.item_ids_.size * (self.rated_ is not None)
        return np.array([*np.take(self._design.names, self._design.groups), *["implicit"] * n_implicit])

    def get_feature_names_out(self, input_features: Sequence[str] | None = None) -> NDArray[np.object_]:
        """Return the names of the columns.

        Parameters
        ----------
        input_features : array-like of shape (2,), default=None
            Names of the two columns of X as in `fit`. The result does not depend on them.

        Returns
        -------
        ndarray of str of shape (n_features_out,)
            "user_<id>", "user (unseen)", "item_<id>", "item (unseen)", "implicit_<id>". If two ids have the same text,
            such as 1 and "1", ids are shown as in Python source.
        """
        check_is_fitted(self)
        if input_features is not None and len(input_features) != 2:
            got = len(input_features)
            raise DataError(f"input_features should have length equal to number of features (2); got {got}.")
        names_in = getattr(self, "feature_names_in_", None)
        if input_features is not None and names_in is not None and list(input_features) != list(names_in):
            raise DataError("input_features is not equal to feature_names_in_")
        names = self._design.get_feature_names_out().tolist()
        if self.rated_ is not None:
            names += [f"implicit_{name}" for name in _texts(self.item_ids_)]
        return np.array(names, dtype=object)


def _rated(user: IntArray, item: IntArray, shape: tuple[int, int]) -> sparse.csr_array:
    """Return the matrix with 1/sqrt(n_u) for each of the n_u items that user u rated."""
    index = sparse.get_index_dtype(maxval=max(user.size, *shape))
    rated = sparse.csr_array((np.ones(user.size), (user.astype(index), item.astype(index))), shape)
    rated.sum_duplicates()
    rated.data[:] = np.repeat(1.0 / np.sqrt(np.maximum(np.diff(rated.indptr), 1)), np.diff(rated.indptr))
    return rated


def _texts(ids: AnyArray) -> list[str]:
    texts = [str(value) for value in ids.tolist()]
    return texts if len(set(texts)) == len(texts) else [repr(value) for value in ids.tolist()]


def feature_groups(transformer: object) -> NDArray[np.str_]:
    """Return the group of each output feature of a fitted encoder, for the parameter `groups` of `VariationalFM`.

    Parameters
    ----------
    transformer : OneHotEncoder, OneHotDesign, ColumnTransformer or Pipeline
        A fitted encoder. All columns that a `OneHotEncoder` makes from one feature are one group with that feature's
        name. The columns of any other part of a `ColumnTransformer` are one group with the name of the part. For a
        `Pipeline`, the last transformer counts.

    Returns
    -------
    ndarray of str of shape (n_features_out,)
        Labels; in a `ColumnTransformer` with the name of the part as a prefix, "part__feature".

    Raises
    ------
    DataError
        If the transformer is of another type.
    NotFittedError
        If it is not fitted.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.compose import make_column_transformer
    >>> from sklearn.preprocessing import OneHotEncoder
    >>> from skpref.data import feature_groups
    >>> X = np.array([[0, 5, 20.0], [1, 5, 30.0], [1, 6, 40.0]])
    >>> encoder = make_column_transformer((OneHotEncoder(), [0, 1]), remainder="passthrough").fit(X)
    >>> feature_groups(encoder).tolist()
    ['onehotencoder__x0', 'onehotencoder__x0', 'onehotencoder__x1', 'onehotencoder__x1', 'remainder']
    """
    groups = _groups(transformer)
    if groups is None:
        wanted = "a OneHotEncoder, OneHotDesign, ColumnTransformer or a Pipeline that ends in one"
        advice = "Pass VariationalFM an array of groups with one label per feature"
        raise DataError(f"transformer must be {wanted}; got {type(transformer).__name__}. {advice}")
    return groups


def _groups(transformer: object) -> NDArray[np.str_] | None:
    """Return the groups of a transformer's output; None for unsupported types."""
    from sklearn.compose import ColumnTransformer
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import OneHotEncoder

    if isinstance(transformer, Pipeline):
        last = [step for _, step in transformer.steps if hasattr(step, "transform")]
        return _groups(last[-1]) if last else None
    if isinstance(transformer, OneHotDesign):
        return transformer.groups_
    if isinstance(transformer, OneHotEncoder):
        # The name of the feature without the category; a copy, since the encoder must keep its own combiner.
        plain = copy(transformer).set_params(feature_name_combiner=lambda feature, _: str(feature))
        return np.asarray(plain.get_feature_names_out().astype(str))
    if not isinstance(transformer, ColumnTransformer):
        return None
    check_is_fitted(transformer)
    parts = dict(transformer.named_transformers_)
    ends = transformer.output_indices_
    groups = np.full(max((part.stop for part in ends.values()), default=0), "", dtype=object)
    for name, where in ends.items():
        inner = _groups(parts.get(name))
        groups[where] = name if inner is None else [f"{name}__{label}" for label in inner]
    return np.asarray(groups.astype(str))
