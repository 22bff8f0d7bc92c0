"""Conformance checks of estimators of comparisons."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError

from skpref._typing import Array, IntArray
from skpref.data import Table
from skpref.exceptions import UnknownIdError

# Tolerance between fits that differ in the order of sums only: they may stop one iteration apart.
_SAME = 1e-4
_N_ITEMS, _N_USERS, _N_PAIRS = 6, 3, 48


@dataclass(frozen=True)
class IdColumns:
    """The meaning of the columns of X, for estimators that read more than two items.

    Parameters
    ----------
    n_columns : int, default=2
        Number of columns of X. Columns other than `left` and `right` hold other ids, for example of the users who
        answered.
    left, right : int, default=0, 1
        Columns of the ids of the left and of the right item.
    user : int, default=None
        Column of the ids of the users who answered; if set, the behaviour with users is checked too.

    Examples
    --------
    >>> from skpref.testing import IdColumns
    >>> IdColumns(n_columns=3, left=1, right=2, user=0).others
    (0,)
    """

    n_columns: int = 2
    left: int = 0
    right: int = 1
    user: int | None = None

    @property
    def others(self) -> tuple[int, ...]:
        """Columns without ids of items."""
        return tuple(column for column in range(self.n_columns) if column not in {self.left, self.right})

    def rows(self, left: list[Any], right: list[Any], others: Sequence[Any] | IntArray) -> list[list[Any]]:
        """Return rows with the ids in their columns.

        Parameters
        ----------
        left, right : list of length P
            Ids of items.
        others : sequence or ndarray of shape (P,)
            Ids for the other columns.

        Returns
        -------
        list of list
            P rows.
        """
        ids = others.tolist() if isinstance(others, np.ndarray) else others
        rows = [[other] * self.n_columns for other in ids]
        for row, a, b in zip(rows, left, right, strict=True):
            row[self.left], row[self.right] = a, b
        return rows


@dataclass(frozen=True, eq=False)
class _Case:
    """An estimator, and comparisons of a few items by their numbers and by their ids."""

    estimator: Any
    columns: IdColumns
    ids: list[Any]
    people: list[Any]
    left: IntArray
    right: IntArray
    others: IntArray
    y: IntArray
    weight: IntArray

    @property
    def X(self) -> list[list[Any]]:
        return self.rows(self.left, self.right, self.others)

    def rows(self, left: IntArray, right: IntArray, others: IntArray) -> list[list[Any]]:
        names = self.ids
        people = [self.people[i] for i in others]
        return self.columns.rows([names[i] for i in left], [names[i] for i in right], people)

    def fitted(self, X: Any = None, y: Any = None, **options: Any) -> Any:
        return clone(self.estimator).fit(self.X if X is None else X, self.y if y is None else y, **options)

    @cached_property
    def model(self) -> Any:
        """A fit to the comparisons that checks predict with, and never fit again."""
        return self.fitted()

    @property
    def expected(self) -> Array:
        """Its probabilities."""
        return np.asarray(self.model.predict_proba(self.X))

    def proba(self, X: Any = None, y: Any = None, **options: Any) -> Array:
        return np.asarray(self.fitted(X, y, **options).predict_proba(self.X if X is None else X))


def check_comparison_estimator(estimator: Any, *, columns: IdColumns | None = None, seed: int = 0) -> None:
    """Check that an estimator of comparisons behaves as scikit-learn and preference learning require.

    Parameters
    ----------
    estimator : estimator
        Classifier whose X holds ids of items, such as `skpref.GPPLClassifier`. Its parameter `items`, if set, must have
        at least 6 items, and its parameter `users` at least 3 users; the first 6 and 3 are used. The parameter
        `random_state` is set to `seed`.
    columns : IdColumns, default=None
        Meaning of the columns of X; None means the left and the right item.
    seed : int, default=0
        Seed of the random comparisons.

    Raises
    ------
    AssertionError
        If a check fails; the message names it.

    Notes
    -----
    The checks are: clone; parameters and input unchanged; fit returns the estimator; equal bits for the same
    `random_state`; a weight of 2 equals a repeated comparison, and one of 0 none; left and right swapped; items
    renamed; ids of several types and containers; a batch equals row by row; unknown ids; use before fit; a failed fit
    keeps the earlier one; `partial_fit` if there is one; pickles; `n_features_in_`, `classes_`; probabilities; label
    formats, and no labels (the left item won, or an error); error messages. With users also: users renamed; unseen
    users (an error if the parameter `unknown_user` is "raise"); users whose comparisons all have weight 0; missing ids
    of users.

    scikit-learn's `check_estimator` uses any number of numeric columns, so it cannot check most of this.

    Examples
    --------
    >>> from skpref import GPPLClassifier
    >>> from skpref.testing import check_comparison_estimator
    >>> check_comparison_estimator(GPPLClassifier())

    For an estimator with users in the first column, such as `skpref.CrowdGPPL`:

    >>> from skpref.testing import IdColumns
    >>> with_users = IdColumns(n_columns=3, left=1, right=2, user=0)
    """
    assert is_classifier(estimator), f"{estimator!r} is not a classifier"
    case = _draw(estimator, columns or IdColumns(), seed)
    for check in _CHECKS:
        try:
            check(case)
        except Exception as error:
            raise AssertionError(f"{check.__name__.removeprefix('_')}: {error}") from error


def _draw(estimator: Any, columns: IdColumns, seed: int) -> _Case:
    rng = np.random.default_rng(seed)
    estimator = clone(estimator)
    if "random_state" in estimator.get_params():
        estimator.set_params(random_state=seed)
    ids = _ids(_table(estimator), [f"item {i}" for i in range(_N_ITEMS)], "items")
    people = _ids(None if columns.user is None else _table(estimator, "users"), list(range(_N_USERS)), "users")
    # A ring first, so that all items are compared and connected.
    left = np.concatenate([np.arange(_N_ITEMS), rng.integers(0, _N_ITEMS, _N_PAIRS - _N_ITEMS)])
    step = np.concatenate([np.ones(_N_ITEMS, np.int64), rng.integers(1, _N_ITEMS, _N_PAIRS - _N_ITEMS)])
    right = (left + step) % _N_ITEMS
    utility = rng.standard_normal(_N_ITEMS)
    y = (utility[left] - utility[right] + rng.standard_normal(_N_PAIRS) > 0).astype(np.int64)
    others = rng.integers(0, _N_USERS, _N_PAIRS)
    others[:_N_USERS] = np.arange(_N_USERS)
    weight = rng.integers(0, 3, _N_PAIRS) + (left == 0)
    return _Case(estimator, columns, ids, people, left, right, others, y, weight)


def _table(estimator: Any, parameter: str = "items") -> Table | None:
    table = getattr(estimator, parameter, None)
    return table if table is None or isinstance(table, Table) else Table(table)


def _ids(table: Table | None, default: list[Any], noun: str) -> list[Any]:
    ids = default if table is None else table.ids.tolist()[: len(default)]
    assert len(ids) == len(default), f"the checks need {len(default)} {noun}; the estimator's table has {len(ids)}"
    return ids


# --------------------------------------------------------------------------
# scikit-learn's interface


def _fit_returns_self_and_leaves_parameters(case: _Case) -> None:
    model = clone(case.estimator)
    before = {name: _bytes(value) for name, value in model.get_params(deep=False).items()}
    assert model.fit(case.X, case.y) is model, "fit does not return the estimator"
    after = {name: _bytes(value) for name, value in model.get_params(deep=False).items()}
    assert before == after, "fit changes parameters"
    assert type(clone(model)) is type(model)
    assert not [name for name in vars(clone(model)) if name.endswith("_")], "clone copies fitted attributes"


def _bytes(value: Any) -> bytes:
    return pickle.dumps(value)


def _fitted_attributes(case: _Case) -> None:
    model = case.model
    assert model.n_features_in_ == case.columns.n_columns, f"n_features_in_ = {model.n_features_in_}"
    assert_array_equal(model.classes_, [0, 1], err_msg="classes_")


def _same_random_state_same_bits(case: _Case) -> None:
    assert_array_equal(case.proba(), case.expected, err_msg="two fits differ")
    model = case.fitted()
    first = model.predict_proba(case.X)
    assert_array_equal(model.fit(case.X, case.y).predict_proba(case.X), first, err_msg="a second fit differs")


def _input_is_left_alone(case: _Case) -> None:
    X = np.array(case.X, dtype=object)
    y, weight = case.y.astype(np.float64), case.weight.astype(np.float64)
    copies = X.copy(), y.copy(), weight.copy()
    for array in (X, y, weight):
        array.flags.writeable = False
    case.fitted(X, y, sample_weight=weight).predict_proba(X)
    for array, copy in zip((X, y, weight), copies, strict=True):
        assert_array_equal(array, copy, err_msg="fit or predict changes its input")


def _pickle_predicts_the_same(case: _Case) -> None:
    model = case.model
    again = pickle.loads(pickle.dumps(model))  # noqa: S301 - written one call ago
    assert_array_equal(again.predict_proba(case.X), model.predict_proba(case.X))


def _use_before_fit(case: _Case) -> None:
    for method in ("predict", "predict_proba", "decision_function"):
        if hasattr(case.estimator, method):
            _raises(NotFittedError, "not fitted", partial(getattr(clone(case.estimator), method), case.X))
    _raises(NotFittedError, "not fitted", lambda: clone(case.estimator).score(case.X, case.y))


def _predicting_changes_nothing(case: _Case) -> None:
    model = case.model
    before = set(vars(model)), _bytes({k: v for k, v in vars(model).items() if k.endswith("_")})
    model.predict_proba(case.X), model.predict(case.X), model.score(case.X, case.y)
    assert before == (set(vars(model)), _bytes({k: v for k, v in vars(model).items() if k.endswith("_")}))


def _batch_is_row_by_row(case: _Case) -> None:
    model = case.model
    whole = model.predict_proba(case.X)
    rows = np.vstack([model.predict_proba([row]) for row in case.X])
    assert_allclose(whole, rows, atol=1e-7, err_msg="a batch differs from row by row")
    assert_allclose(model.predict_proba(case.X[::-1]), whole[::-1], atol=1e-7, err_msg="the order of rows matters")


def _failed_fit_keeps_the_earlier(case: _Case) -> None:
    model = case.fitted()
    first, state = model.predict_proba(case.X), set(vars(model))
    for X, y in ((case.X, case.y + 1), (case.X[:-1], case.y), (_with_id(case, None), case.y)):
        _raises(ValueError, "", partial(model.fit, X, y))
        assert set(vars(model)) == state, "a failed fit leaves attributes behind"
        assert_array_equal(model.predict_proba(case.X), first, err_msg="a failed fit changes the earlier one")


# --------------------------------------------------------------------------
# preferences


def _probabilities(case: _Case) -> None:
    model = case.model
    proba = model.predict_proba(case.X)
    assert proba.shape == (_N_PAIRS, 2)
    assert np.all((proba >= 0.0) & (proba <= 1.0)), "probabilities outside [0, 1]"
    assert_allclose(proba.sum(axis=1), 1.0, atol=1e-12, err_msg="probabilities do not sum to 1")
    predicted = model.predict(case.X)
    assert set(predicted.tolist()) <= {0, 1}, "predict returns something that is not in classes_"
    clear = np.abs(proba[:, 1] - 0.5) > 1e-9
    assert_array_equal(predicted[clear], (proba[:, 1] > 0.5)[clear], err_msg="predict contradicts predict_proba")
    if hasattr(model, "decision_function"):
        decided = model.decision_function(case.X)
        assert_array_equal((decided > 0.0)[clear], (proba[:, 1] > 0.5)[clear], err_msg="decision_function")


def _weight_is_repetition(case: _Case) -> None:
    index = np.repeat(np.arange(_N_PAIRS), case.weight)
    X = case.X
    repeated = case.fitted([X[i] for i in index], case.y[index]).predict_proba(X)
    used = np.flatnonzero(case.weight)
    weighted = case.fitted([X[i] for i in used], case.y[used], sample_weight=case.weight[used]).predict_proba(X)
    assert_allclose(weighted, repeated, atol=_SAME, err_msg="a weight of 2 is not a comparison given twice")
    zeros = case.fitted(X, case.y, sample_weight=case.weight).predict_proba(X)
    assert_allclose(zeros, weighted, atol=_SAME, err_msg="a weight of 0 is not a comparison left out")


def _swapping_left_and_right(case: _Case) -> None:
    swapped = case.rows(case.right, case.left, case.others)
    if getattr(case.estimator, "order_effect", False):
        return  # the two sides then differ
    straight = case.expected
    turned = case.model.predict_proba(swapped)
    assert_allclose(turned, straight[:, ::-1], atol=1e-9, err_msg="p(b, a) != 1 - p(a, b)")
    learnt = case.proba(swapped, 1 - case.y)
    assert_allclose(learnt, straight[:, ::-1], atol=_SAME, err_msg="swapped comparisons give another fit")


def _renamed(case: _Case, ids: list[Hashable]) -> _Case:
    """Return the case with other ids of the items, in another order."""
    return replace(case, ids=ids, estimator=_with_ids(case.estimator, "items", ids))


def _renamed_users(case: _Case, people: list[Hashable]) -> _Case:
    if case.columns.user is None:
        return case
    return replace(case, people=people, estimator=_with_ids(case.estimator, "users", people))


def _with_ids(estimator: Any, parameter: str, ids: list[Hashable]) -> Any:
    """Return the estimator with other ids, in another order, in its table, if it has one."""
    table = _table(estimator, parameter)
    if table is None:
        return estimator
    new = [*ids, *(("other", i) for i in range(table.n_items - len(ids)))]
    order = np.arange(table.n_items)[::-1]
    renamed = Table(table.features[order], ids=[new[i] for i in order])
    return clone(estimator).set_params(**{parameter: renamed})


_KINDS: dict[str, list[Hashable]] = {
    "strings": list("fbdaec"),
    "integers": [5, 3, 10, 0, 7, 2],
    "huge integers": [2**63 + i for i in range(_N_ITEMS)],
    "bytes": [bytes([100 - i]) for i in range(_N_ITEMS)],
    "tuples": [("a", i) for i in range(_N_ITEMS)],
    "mixed": ["a", 1, b"c", (0, 1), 2**70, "1"],
}


def _names_do_not_matter(case: _Case) -> None:
    expected = case.expected
    for kind, ids in _KINDS.items():
        assert_allclose(_renamed(case, ids).proba(), expected, atol=_SAME, err_msg=f"ids that are {kind}")


def _containers_do_not_matter(case: _Case) -> None:
    expected, case = case.expected, _renamed_users(_renamed(case, [4, 1, 0, 5, 2, 3]), [2, 0, 1])
    X = np.array(case.X)
    for kind, same in {
        "an int64 array": X,
        "Fortran order": np.asfortranarray(X),
        "a strided array": np.repeat(X, 2, axis=0)[::2],
        "int8": X.astype(np.int8),
        "integral floats": X.astype(np.float64),
        "objects": X.astype(object),
        "tuples": [tuple(row) for row in case.X],
        "a data frame": _frame(X),
    }.items():
        if same is not None:
            assert_allclose(case.proba(same), expected, atol=_SAME, err_msg=f"X is {kind}")


def _frame(X: IntArray) -> Any:
    try:
        import pandas as pd
    except ImportError:
        return None
    return pd.DataFrame({f"column {i}": X[:, i] for i in range(X.shape[1])})


def _label_formats(case: _Case) -> None:
    expected = case.expected
    for y in (case.y.tolist(), case.y.astype(bool), case.y.astype(np.float32), case.y.astype(np.int8)):
        assert_allclose(case.proba(y=y), expected, atol=1e-9, err_msg=f"y as {np.asarray(y).dtype}")
    soft = np.abs(case.y - 0.2)
    assert np.all(np.isfinite(case.proba(y=soft))), "soft labels"
    ties = np.full(_N_PAIRS, 0.5)
    assert_allclose(case.proba(y=ties), 0.5, atol=1e-3, err_msg="all ties")


def _no_labels(case: _Case) -> None:
    """Without y, the left item is preferred in every row, or an error names y."""
    model = clone(case.estimator)
    try:
        model.fit(case.X, None)
    except ValueError as error:
        text = str(error)
    else:
        expected = case.proba(y=np.ones(_N_PAIRS))
        assert_allclose(model.predict_proba(case.X), expected, atol=1e-9, err_msg="y=None is not y=1")
        return
    assert re.search(r"\by\b", text), f"y=None: the message does not name y: {text}"


def _unknown_items(case: _Case) -> None:
    model = case.fitted()
    new = _with_id(case, "never seen")
    if _table(case.estimator) is not None:
        _raises(UnknownIdError, "never seen", lambda: model.predict_proba(new))
        _raises(UnknownIdError, "never seen", lambda: model.fit(new, case.y))
        return
    proba = model.predict_proba(new)
    assert np.all(np.isfinite(proba)), "an unknown id"
    if not getattr(case.estimator, "order_effect", False):
        both = case.columns.rows(["new"], ["newer"], case.people[:1])
        assert_allclose(model.predict_proba(both), 0.5, atol=1e-9, err_msg="two unknown items are alike")


def _with_id(case: _Case, name: Any) -> list[list[Any]]:
    X = case.X
    X[3][case.columns.left] = name
    return X


# --------------------------------------------------------------------------
# users


def _names_of_users_do_not_matter(case: _Case) -> None:
    if case.columns.user is None:
        return
    expected = case.expected
    for kind, ids in _KINDS.items():
        renamed = _renamed_users(case, ids[:_N_USERS])
        assert_allclose(renamed.proba(), expected, atol=_SAME, err_msg=f"users' ids that are {kind}")


def _unknown_users(case: _Case) -> None:
    if case.columns.user is None:
        return
    model, X = case.fitted(), case.X
    unseen = [_assign_user(case, X, name) for name in ("never seen", ("nor", "this one"))]
    if _table(case.estimator, "users") is not None:
        _raises(UnknownIdError, "unknown user 'never seen' in comparison 0", lambda: model.fit(unseen[0], case.y))
    if getattr(case.estimator, "unknown_user", None) == "raise":
        text = "unknown user 'never seen' in comparison 0"
        _raises(UnknownIdError, text, lambda: model.predict_proba(unseen[0]))
        return
    proba, other = (model.predict_proba(rows) for rows in unseen)
    assert np.all((proba >= 0.0) & (proba <= 1.0)), "an unseen user"
    assert_array_equal(proba, other, err_msg="unseen users differ")
    mixed = model.predict_proba([*X, *unseen[0]])
    assert_allclose(mixed, np.vstack([model.predict_proba(X), proba]), atol=1e-12, err_msg="unseen users among others")


def _assign_user(case: _Case, X: list[list[Any]], name: Any) -> list[list[Any]]:
    return [[name if column == case.columns.user else value for column, value in enumerate(row)] for row in X]


def _users_of_weight_zero(case: _Case) -> None:
    """A user whose comparisons have weight 0 changes nothing."""
    user = case.columns.user
    if user is None or _table(case.estimator, "users") is not None:
        return
    X = [*case.X, *_assign_user(case, case.X, "weightless")]
    weight = np.repeat([1.0, 0.0], _N_PAIRS)
    model = case.fitted(X, np.concatenate([case.y, 1 - case.y]), sample_weight=weight)
    assert_allclose(model.predict_proba(case.X), case.expected, atol=_SAME, err_msg="a user of weight zero counts")


def _partial_fit(case: _Case) -> None:
    """The first call is a fit; a failed call changes nothing; others learn from more comparisons."""
    if not hasattr(case.estimator, "partial_fit"):
        return
    model = clone(case.estimator)
    assert model.partial_fit(case.X, case.y) is model, "partial_fit does not return the estimator"
    first = model.predict_proba(case.X)
    assert_array_equal(first, case.expected, err_msg="a first partial_fit is not a fit")
    for X, y in ((case.X, case.y + 1), (case.X[:-1], case.y), (_with_id(case, None), case.y)):
        _raises(ValueError, "", partial(model.partial_fit, X, y))
        assert_array_equal(model.predict_proba(case.X), first, err_msg="a failed partial_fit changes the fit")
    # The less probable answer, many times.
    answer = int(np.argmin(first[0]))
    after = model.partial_fit([case.X[0]] * _N_PAIRS, [answer] * _N_PAIRS).predict_proba(case.X)
    assert after[0, answer] > first[0, answer], "partial_fit does not learn"
    elsewhere = ~np.isin(case.left, [case.left[0], case.right[0]]) & ~np.isin(case.right, [case.left[0], case.right[0]])
    decided, still = (np.abs(p[elsewhere, 1] - 0.5).max() for p in (first, after))
    assert still > 0.3 * decided, "partial_fit forgets what came before"


# --------------------------------------------------------------------------
# errors


def _error_texts(case: _Case) -> None:
    fit = clone(case.estimator).fit
    X, y = case.X, case.y
    itself = [list(row) for row in X]
    itself[5][case.columns.left] = itself[5][case.columns.right]
    strings, outside, missing = y.astype(str), np.where(np.arange(_N_PAIRS) == 7, 2, y), y.astype(np.float64)
    missing[2] = np.nan
    for text, call in {
        r"expected shape": lambda: fit([[*row, 0] for row in X], y),
        r"Expected 2D array, got 1D array": lambda: fit(np.arange(_N_PAIRS), y),
        r"0 sample\(s\)": lambda: fit(np.empty((0, case.columns.n_columns)), []),
        r"missing item id in comparison 3": lambda: fit(_with_id(case, None), y),
        r"compares item .* with itself": lambda: fit(itself, y),
        r"labels must be 0 or 1 .*; got 2 in comparison 7": lambda: fit(X, outside),
        r"Unknown label type": lambda: fit(X, strings),
        r"y contains NaN": lambda: fit(X, missing),
        r"inconsistent numbers of samples": lambda: fit(X, y[:-1]),
        r"Negative values in data passed to `sample_weight`": lambda: fit(X, y, sample_weight=y - 1.0),
        r"sample_weight": lambda: fit(X, y, sample_weight=np.ones(3)),
        r"weight.*zero": lambda: fit(X, y, sample_weight=np.zeros(_N_PAIRS)),
    }.items():
        _raises(ValueError, text, call)
    if case.columns.user is not None:
        for missing_id in (None, np.nan):
            nobody = [*X[:7], *_assign_user(case, X[7:], missing_id)]
            _raises(ValueError, "missing user id in comparison 7", partial(fit, nobody, y))


def _raises(kind: type[Exception], text: str, call: Callable[[], Any]) -> None:
    caught: Exception | None = None
    try:
        call()
    except Exception as error:  # noqa: BLE001 - any error is reported
        caught = error
    wanted = f"wanted {kind.__name__} with the message {text!r}, got {caught!r}"
    assert isinstance(caught, kind), wanted
    assert re.search(text, str(caught)), wanted


_CHECKS: tuple[Callable[[_Case], None], ...] = (
    _fit_returns_self_and_leaves_parameters,
    _fitted_attributes,
    _same_random_state_same_bits,
    _input_is_left_alone,
    _pickle_predicts_the_same,
    _use_before_fit,
    _predicting_changes_nothing,
    _batch_is_row_by_row,
    _failed_fit_keeps_the_earlier,
    _probabilities,
    _weight_is_repetition,
    _swapping_left_and_right,
    _names_do_not_matter,
    _containers_do_not_matter,
    _label_formats,
    _no_labels,
    _unknown_items,
    _names_of_users_do_not_matter,
    _unknown_users,
    _users_of_weight_zero,
    _partial_fit,
    _error_texts,
)
