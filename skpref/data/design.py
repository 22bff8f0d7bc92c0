"""Sparse designs of (user, item) pairs for factorization machines, and which group a feature belongs to."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin, _fit_context
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from skpref._callbacks import CallbackMixin, fit_callbacks
from skpref.data.ids import read_rated
from skpref.data.vocabulary import Vocabulary
from skpref.exceptions import DataError

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from numpy.typing import ArrayLike, NDArray
    from sklearn.utils import Tags

    from skpref._typing import IntArray
    from skpref.data.ids import IdColumn

__all__ = ["OneHotDesign", "feature_groups", "one_hot_design"]

_GROUPS = ("user", "item", "implicit")


class OneHotDesign(TransformerMixin, CallbackMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn is untyped
    """Rows of (user id, item id) as a sparse matrix with a column for every user and every item.

    Two more columns stand for users and items that `fit` did not see. No row of the training pairs has a one there, so
    that a factorization machine predicts for a stranger from the prior of its group, with its larger variance; and a
    session of `skpref.elicitation` learns the stranger in that column. The implicit-feedback block says which items a
    user rated in the training pairs, whatever the rating ([Kor08]): 1/sqrt(n) in the columns of the user's n items,
    so that taste is known of users with few ratings, too. Since it is learnt by `fit` and looked up by `transform`,
    nothing of the test pairs gets into it.

    Parameters
    ----------
    implicit : bool, default=False
        Whether to add the implicit-feedback block. A row then has as many entries as its user has items.
    users, items : array-like of shape (n_users,) and (n_items,), default=None
        All ids that get a column, in their order. None: those of the training pairs. Where the folds of a
        cross-validation hold different users, a list keeps the columns, and so `groups_`, the same.
    unknown : {"column", "raise"}, default="column"
        What `transform` does with an id that has no column: the column of unseen ones, or an error.

    Attributes
    ----------
    user_ids_, item_ids_ : ndarray of shape (n_users,) and (n_items,)
        Ids that have a column.
    groups_ : ndarray of shape (n_features_out,)
        Group of each column, "user", "item" or "implicit": what the parameter `groups` of `VariationalFM` asks for.
    rated_ : csr_array of shape (n_users + 1, n_items), or None
        Rows of the implicit-feedback block; the last, empty one is of unseen users.
    n_features_in_ : int
        2.

    See Also
    --------
    one_hot_design : The same in one call.
    feature_groups : Groups of what scikit-learn's encoders make.

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
    >>> bool(model.predict([["cleo", "milk"]])[0] < model.predict([["a stranger", "tea"]])[0])
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

    @_fit_context(prefer_skip_nested_validation=True)  # type: ignore[untyped-decorator]
    def fit(self, X: object, y: object = None) -> Self:
        """Learn the ids, and who rated what.

        Parameters
        ----------
        X : array-like of shape (n, 2)
            Ids of user and item: integers, strings or any hashables; an array, a list of pairs or a data frame with
            two columns.
        y : Ignored
            For pipelines.

        Returns
        -------
        OneHotDesign
            Itself, fitted.

        Raises
        ------
        ValueError
            If an id is missing, or is not among `users` or `items` where these are given.
        """
        with fit_callbacks(self, X, y):
            self._learn(X)
        return self

    def _learn(self, X: object) -> None:
        columns = self._read(X, reset=True)
        known = [
            Vocabulary.from_columns(column) if given is None else Vocabulary(given, name)
            for column, given, name in zip(columns, (self.users, self.items), ("users", "items"), strict=True)
        ]
        user, item = (
            one.encode(column, noun="row", kind=kind)
            for one, column, kind in zip(known, columns, _GROUPS[:2], strict=True)
        )
        self._users, self._items = known
        self.rated_ = _rated(user, item, (known[0].size + 1, known[1].size)) if self.implicit else None

    def _read(self, X: object, *, reset: bool) -> tuple[IdColumn, IdColumn]:
        columns = read_rated(X)
        validate_data(self, X, reset=reset, skip_check_array=True)
        return columns

    def transform(self, X: object) -> sparse.csr_array:
        """Return the design of pairs, those of `fit` or others.

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
        columns = self._read(X, reset=False)
        user, item = (
            self._rows(one, column, kind)
            for one, column, kind in zip((self._users, self._items), columns, _GROUPS[:2], strict=True)
        )
        # A user's rows differ in the item alone: theirs is put in the place of the first one's.
        n_users, n_items = self._users.size + 1, self._items.size + 1
        place = np.ones(n_users), np.zeros(n_users, dtype=np.int32), np.arange(n_users + 1, dtype=np.int32)
        parts = [sparse.eye_array(n_users, format="csr"), sparse.csr_array(place, (n_users, n_items))]
        design = sparse.hstack(parts if self.rated_ is None else [*parts, self.rated_], format="csr")[user]
        design.indices[design.indptr[:-1] + 1] = n_users + item
        return design

    def _rows(self, known: Vocabulary, column: IdColumn, kind: str) -> IntArray:
        rows = known.encode(column, unknown="raise" if self.unknown == "raise" else "mark", noun="row", kind=kind)
        return np.where(rows < 0, known.size, rows)

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
            Names of the two columns of X, which must be those of `fit`; the names made do not depend on them.

        Returns
        -------
        ndarray of str of shape (n_features_out,)
            "user_<id>", "user (unseen)", "item_<id>", "item (unseen)", "implicit_<id>". Where the text of two ids is
            the same (1 and "1"), as they are written in Python.
        """
        check_is_fitted(self)
        if input_features is not None and len(input_features) != 2:
            got = len(input_features)
            raise DataError(f"input_features should have length equal to number of features (2); got {got}.")
        seen = getattr(self, "feature_names_in_", None)
        if input_features is not None and seen is not None and list(input_features) != list(seen):
            raise DataError("input_features is not equal to feature_names_in_")
        users, items = _texts(self._users.ids), _texts(self._items.ids)
        names = [f"user_{name}" for name in users] + ["user (unseen)"]
        names += [f"item_{name}" for name in items] + ["item (unseen)"]
        if self.rated_ is not None:
            names += [f"implicit_{name}" for name in items]
        return np.array(names, dtype=object)


def _rated(user: IntArray, item: IntArray, shape: tuple[int, int]) -> sparse.csr_array:
    """1/sqrt(n_u) where user u rated an item, once for each of them."""
    index = sparse.get_index_dtype(maxval=max(user.size, *shape))
    rated = sparse.csr_array((np.ones(user.size), (user.astype(index), item.astype(index))), shape)
    rated.sum_duplicates()
    rated.data[:] = np.repeat(1.0 / np.sqrt(np.maximum(np.diff(rated.indptr), 1)), np.diff(rated.indptr))
    return rated


def _texts(ids: NDArray[Any]) -> list[str]:
    texts = [str(one) for one in ids.tolist()]
    return texts if len(set(texts)) == len(texts) else [repr(one) for one in ids.tolist()]


def one_hot_design(
    users: Iterable[Hashable], items: Iterable[Hashable], *, implicit: bool = False
) -> tuple[sparse.csr_array, OneHotDesign]:
    """Encode two columns of ids, and return what encodes others alike.

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
        Its `transform` makes rows of other pairs, unseen ids included; its `groups_` are those of the columns.

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
    """Return the group of each feature that a fitted encoder makes, for the parameter `groups` of `VariationalFM`.

    Parameters
    ----------
    transformer : OneHotEncoder, OneHotDesign, ColumnTransformer or Pipeline
        Fitted. The columns that a `OneHotEncoder` makes of one feature are a group, named like it. Those of any other
        part of a `ColumnTransformer` are a group, named like the part. Of a `Pipeline` its last transformer counts.

    Returns
    -------
    ndarray of str of shape (n_features_out,)
        Labels; inside a `ColumnTransformer` with the name of the part in front: "part__feature".

    Raises
    ------
    DataError
        If it is none of these.
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
            f"{what}. Give VariationalFM an array of groups, one label a feature"
        )
    return groups


def _groups(transformer: object) -> NDArray[np.str_] | None:
    """None where nothing is known of what it makes."""
    from sklearn.compose import ColumnTransformer
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import OneHotEncoder

    if isinstance(transformer, Pipeline):
        last = [step for _, step in transformer.steps if hasattr(step, "transform")]
        return _groups(last[-1]) if last else None
    if isinstance(transformer, OneHotDesign):
        return transformer.groups_
    if isinstance(transformer, OneHotEncoder):
        check_is_fitted(transformer)
        # A name of nothing but the feature; the encoder itself keeps the names it was given.
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
