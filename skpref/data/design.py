"""Sparse designs of (user, item) pairs for factorization machines, and the groups of their features."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from skpref._callbacks import CallbackMixin, fit_callbacks, fit_context
from skpref._checks import check_types, require
from skpref._validation import column_names
from skpref.data.columns import read_ids
from skpref.data.vocabulary import Vocabulary
from skpref.exceptions import DataError

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from numpy.typing import ArrayLike, NDArray
    from sklearn.utils import Tags

    from skpref._typing import IdRows, IntArray
    from skpref.data.ids import IdColumn

__all__ = ["OneHotDesign", "feature_groups", "one_hot_design"]

_GROUPS = ("user", "item", "implicit")


class OneHotDesign(TransformerMixin, CallbackMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn is untyped
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
    one_hot_design : The same in one call.
    feature_groups : Groups of the features of scikit-learn's encoders.

    References
    ----------
    .. [Kor08] Y. Koren: Factorization meets the neighborhood: a multifaceted collaborative filtering model. KDD 2008.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from skpref import VariationalFM
    >>> from skpref.data import OneHotDesign
    >>> pairs = [["ann", "tea"], ["ann", "milk"], ["bob", "tea"], ["bob", "milk"], ["cleo", "tea"]]
    >>> model = make_pipeline(OneHotDesign(), VariationalFM(n_factors=2, random_state=0)).fit(pairs, [5, 1, 5, 1, 5])
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
        user = users.encode(columns[0], noun="row", kind="user")
        item = items.encode(columns[1], noun="row", kind="item")
        self._users, self._items = users, items
        self.rated_ = _rated(user, item, (users.size + 1, items.size)) if self.implicit else None

    def _check_fitted(self) -> None:
        """Raise DataError unless the fitted attributes fit together."""
        check_types(self, _users=Vocabulary, _items=Vocabulary)
        require(min(self._users.size, self._items.size) >= 1, self, "_users", "and _items must be ids")
        require(self.n_features_in_ == 2, self, "n_features_in_", "must be 2")
        if self.rated_ is not None:
            shape = self._users.size + 1, self._items.size
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
        users, items = self._read(X, reset=False)
        user, item = self._rows(self._users, users, "user"), self._rows(self._items, items, "item")
        # The rows of a user differ in the item only, so one row a user is built, and its item replaced.
        n_users, n_items = self._users.size + 1, self._items.size + 1
        place = np.ones(n_users), np.zeros(n_users, dtype=np.int32), np.arange(n_users + 1, dtype=np.int32)
        parts = [sparse.eye_array(n_users, format="csr"), sparse.csr_array(place, (n_users, n_items))]
        design = sparse.hstack(parts if self.rated_ is None else [*parts, self.rated_], format="csr")[user]
        design.indices[design.indptr[:-1] + 1] = n_users + item
        return design

    def _rows(self, vocabulary: Vocabulary, column: IdColumn, kind: str) -> IntArray:
        """Return the number of each id, the next free one for unseen ids, shape (n,)."""
        unknown: Literal["raise", "mark"] = "raise" if self.unknown == "raise" else "mark"
        rows = vocabulary.encode(column, unknown=unknown, noun="row", kind=kind)
        return np.where(rows < 0, vocabulary.size, rows)

    @property
    def user_ids_(self) -> NDArray[Any]:
        """Ids of the users that have a column."""
        check_is_fitted(self)
        return self._users.ids

    @property
    def item_ids_(self) -> NDArray[Any]:
        """Ids of the items that have a column."""
        check_is_fitted(self)
        return self._items.ids

    @property
    def groups_(self) -> NDArray[np.str_]:
        """Group of each column."""
        check_is_fitted(self)
        sizes = self._users.size + 1, self._items.size + 1, 0 if self.rated_ is None else self._items.size
        return np.repeat(_GROUPS, sizes)

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
        users, items = _texts(self._users.ids), _texts(self._items.ids)
        names = [f"user_{name}" for name in users] + ["user (unseen)"]
        names += [f"item_{name}" for name in items] + ["item (unseen)"]
        if self.rated_ is not None:
            names += [f"implicit_{name}" for name in items]
        return np.array(names, dtype=object)


def _rated(user: IntArray, item: IntArray, shape: tuple[int, int]) -> sparse.csr_array:
    """Return the matrix with 1/sqrt(n_u) for each of the n_u items that user u rated."""
    index = sparse.get_index_dtype(maxval=max(user.size, *shape))
    rated = sparse.csr_array((np.ones(user.size), (user.astype(index), item.astype(index))), shape)
    rated.sum_duplicates()
    rated.data[:] = np.repeat(1.0 / np.sqrt(np.maximum(np.diff(rated.indptr), 1)), np.diff(rated.indptr))
    return rated


def _texts(ids: NDArray[Any]) -> list[str]:
    texts = [str(value) for value in ids.tolist()]
    return texts if len(set(texts)) == len(texts) else [repr(value) for value in ids.tolist()]


def one_hot_design(
    users: Iterable[Hashable], items: Iterable[Hashable], *, implicit: bool = False
) -> tuple[sparse.csr_array, OneHotDesign]:
    """Encode two columns of ids; return the matrix and the fitted encoder.

    Parameters
    ----------
    users, items : array-like of shape (n,)
        Ids of the user and of the item of each rating.
    implicit : bool, default=False
        Whether to add the implicit-feedback block, see `OneHotDesign`.

    Returns
    -------
    X : csr_array of shape (n, n_features)
        The design.
    design : OneHotDesign
        The encoder: `transform` encodes other pairs, unseen ids included; `groups_` has the groups of the columns.

    Raises
    ------
    ValueError
        If an id is missing or the lengths differ.

    Examples
    --------
    >>> from skpref import VariationalFM
    >>> from skpref.data import one_hot_design
    >>> X, design = one_hot_design(["ann", "ann", "bob"], ["tea", "milk", "tea"], implicit=True)
    >>> model = VariationalFM(n_factors=1, groups=design.groups_, random_state=0).fit(X, [5.0, 1.0, 5.0])
    >>> model.predict(design.transform([["cleo", "tea"]])).shape
    (1,)
    """
    columns = list(users), list(items)
    check_consistent_length(*columns)
    pairs = list(zip(*columns, strict=True))
    design = OneHotDesign(implicit=implicit).fit(pairs)
    return design.transform(pairs), design


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
        what = type(transformer).__name__
        raise DataError(
            f"transformer must be a OneHotEncoder, OneHotDesign, ColumnTransformer or a Pipeline that ends in one; got "
            f"{what}. Pass VariationalFM an array of groups with one label per feature"
        )
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
