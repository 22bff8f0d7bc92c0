"""One-hot designs of users and items: columns, unseen ids, the implicit-feedback block, groups."""

import pickle
import re

import numpy as np
import pandas as pd
import pytest
import sklearn
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils._param_validation import InvalidParameterError

from skpref import GibbsM3F, VariationalFM, load, save
from skpref.data import OneHotDesign, feature_groups
from skpref.exceptions import DataError, UnknownIdError

PAIRS = [["ann", "tea"], ["ann", "milk"], ["bob", "tea"], ["ann", "tea"]]


# -------------------------------------------------------------------------------------------------------------- columns
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 4)), min_size=1, max_size=30), st.booleans())
def test_design_is_what_it_says(pairs, implicit):
    design = OneHotDesign(implicit=implicit).fit(pairs)
    X = design.transform(pairs)
    users, items = sorted({u for u, _ in pairs}), sorted({i for _, i in pairs})
    wanted = np.zeros((len(pairs), len(users) + 1 + len(items) + 1 + implicit * len(items)))
    for row, (u, i) in enumerate(pairs):
        wanted[row, users.index(u)] = wanted[row, len(users) + 1 + items.index(i)] = 1.0
        mine = {j for v, j in pairs if v == u}
        for j in mine if implicit else ():
            wanted[row, len(users) + len(items) + 2 + items.index(j)] = 1.0 / np.sqrt(len(mine))
    np.testing.assert_allclose(X.toarray(), wanted)
    assert X.has_canonical_format
    assert len(design.get_feature_names_out()) == design.groups_.size == X.shape[1]


def test_unseen_ids_have_columns_that_no_training_row_holds():
    design = OneHotDesign(implicit=True).fit(PAIRS)
    names = design.get_feature_names_out().tolist()
    wanted = ["user_ann", "user_bob", "user (unseen)", "item_milk", "item_tea", "item (unseen)"]
    assert names == [*wanted, "implicit_milk", "implicit_tea"]
    assert design.groups_.tolist() == ["user"] * 3 + ["item"] * 3 + ["implicit"] * 2
    X = design.transform([["cleo", "tea"], ["bob", "water"]]).toarray()
    assert X.tolist() == [[0, 0, 1, 0, 1, 0, 0, 0], [0, 1, 0, 0, 0, 1, 0, 1]]
    assert not design.transform(PAIRS).toarray()[:, [2, 5]].any()
    with pytest.raises(UnknownIdError, match=r"unknown user 'cleo' in row 0"):
        OneHotDesign(unknown="raise").fit(PAIRS).transform([["cleo", "tea"]])


def test_names_of_ids_that_look_alike_differ():
    with pytest.raises(NotFittedError):
        OneHotDesign().get_feature_names_out()
    names = OneHotDesign().fit([[1, "a"], ["1", "b"]]).get_feature_names_out().tolist()
    assert names == ["user_1", "user_'1'", "user (unseen)", "item_a", "item_b", "item (unseen)"]


def test_lists_of_ids_keep_the_columns():
    design = OneHotDesign(users=["bob", "ann", "zoe"], items=["milk", "tea"])
    assert design.fit(PAIRS).transform([["bob", "tea"]]).toarray().tolist() == [[1, 0, 0, 0, 0, 1, 0]]
    with pytest.raises(UnknownIdError, match=r"unknown item 'rum' in row 0"):
        design.fit([["ann", "rum"]])
    with pytest.raises(DataError, match="users"):
        OneHotDesign(users=["ann", "ann"]).fit(PAIRS)


def test_tools_of_scikit_learn():
    rng = np.random.default_rng(0)
    pairs = np.column_stack([rng.integers(12, size=200), rng.integers(8, size=200)])
    y = rng.standard_normal(12)[pairs[:, 0]] + rng.standard_normal(8)[pairs[:, 1]]
    before = pairs.copy()
    model = make_pipeline(OneHotDesign(), VariationalFM(n_factors=1, max_iter=30, random_state=0))
    assert cross_val_score(model, pairs, y, cv=3).min() > 0.8
    lists = OneHotDesign(users=range(12), items=range(8))
    groups = lists.fit(pairs[:1]).groups_
    named = make_pipeline(lists, VariationalFM(n_factors=1, groups=groups, max_iter=30, random_state=0))
    assert cross_val_score(named, pairs, y, cv=3).min() > 0.8
    np.testing.assert_array_equal(pairs, before)
    design = OneHotDesign(implicit=True).fit(pairs)
    again = pickle.loads(pickle.dumps(design))
    assert (again.transform(pairs) != design.transform(pairs)).nnz == 0
    assert not hasattr(clone(design), "_design")
    # Nothing of the pairs that are transformed gets into the block: it is the training pairs' alone.
    part = OneHotDesign(implicit=True).fit(pairs[:100])
    assert part.rated_[:-1].toarray().sum() == pytest.approx(
        sum(np.sqrt(len(set(pairs[:100][pairs[:100, 0] == u][:, 1]))) for u in set(pairs[:100, 0]))
    )


def test_a_machine_finds_the_fields_of_the_design():
    pairs = [["a", "x"], ["a", "y"], ["b", "x"], ["c", "y"]]
    design = OneHotDesign().fit(pairs)
    X = design.transform(pairs)
    model = VariationalFM(n_factors=1, random_state=0).fit(X, [1.0, 2.0, 3.0, 4.0])
    code = model.posterior_.machine.prior.group
    assert code.tolist() == np.repeat([0, 1], [4, 3]).tolist()
    # A stranger has the prior's moments: larger variance than anybody known.
    known, stranger = (model.latent_mean_and_variance(design.transform([[u, "x"]]))[1] for u in ("a", "z"))
    assert stranger > known


def test_data_frames_keep_their_names():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(PAIRS, columns=["who", "what"])
    design = OneHotDesign().fit(frame)
    assert design.get_feature_names_out(["who", "what"]).size == design.groups_.size
    with pytest.raises(ValueError, match="input_features is not equal to feature_names_in_"):
        design.get_feature_names_out(["what", "who"])
    with pytest.raises(ValueError, match=r"feature names should match"):
        design.transform(frame[["what", "who"]])


def test_pairs_of_ids_need_no_names_after_a_fit_to_a_frame(recwarn):
    frame = pd.DataFrame({"user": ["ann", "bob", "ann"], "film": ["Alien", "Alien", "Brazil"]})
    OneHotDesign().fit(frame).transform([("ann", "Alien")])
    options = {"n_factors": 1, "max_iter": 2, "burn_in": 0, "random_state": 0}
    GibbsM3F(**options).fit(frame, [1, 2, 2]).predict([("bob", "Brazil")])
    assert not [warning for warning in recwarn if "feature names" in str(warning.message)]
    with pytest.raises(ValueError, match="feature names should match"):
        OneHotDesign().fit(frame).transform(frame.rename(columns={"film": "book"}))


def test_in_a_column_transformer():
    pd = pytest.importorskip("pandas")
    users, items = np.array(["ann", "ann", "bob"]), np.array([3, 1, 3])
    frame = pd.DataFrame({"item": items, "user": users, "age": [30.0, 30.0, 40.0]})
    encoder = make_column_transformer((OneHotDesign(), ["user", "item"]), (StandardScaler(), ["age"]))
    names = [f"onehotdesign__{name}" for name in ("user_ann", "user_bob", "user (unseen)", "item_1", "item_3")]
    assert sparse.issparse(encoder.fit(frame[["item", "age", "user"]]).transform(frame)) is False  # 3 in 7 are no zeros
    assert encoder.get_feature_names_out().tolist() == [*names, "onehotdesign__item (unseen)", "standardscaler__age"]
    assert feature_groups(encoder).tolist() == ["onehotdesign__user"] * 3 + ["onehotdesign__item"] * 3 + [
        "standardscaler"
    ]
    unknown = frame.assign(user=["cleo", "ann", "bob"], item=[1.0, 7.0, 3.0])  # as pandas makes ids with gaps
    design = encoder.transform(unknown)[:, :6]
    np.testing.assert_array_equal(design, [[0, 0, 1, 1, 0, 0], [1, 0, 0, 0, 0, 1], [0, 1, 0, 0, 1, 0]])
    by_position = make_column_transformer((OneHotDesign(), [1, 0]), sparse_threshold=1.0)
    X = by_position.fit_transform(frame.to_numpy(dtype=object))
    np.testing.assert_array_equal(X.toarray(), encoder.transform(frame)[:, :6])
    with pytest.raises(ValueError, match="Unable to configure output for OneHotDesign"):
        clone(encoder).set_output(transform="pandas")
    with sklearn.config_context(transform_output="pandas"):  # as of scikit-learn's text vectorizers
        assert sparse.issparse(OneHotDesign().fit_transform(frame[["user", "item"]]))


def test_bad_input():
    for X, message in [
        ([["ann", None]], "missing item id in row 0|missing item id"),
        ([["ann"]], r"expected shape \(n_ratings, 2\)"),
        (["ann"], "Expected 2D array, got 1D array"),
        (np.empty((0, 2)), r"Found array with 0 sample\(s\)"),
        (np.array([[1.5, 2.0]]), "must be integers"),
        (np.array([[np.nan, 2.0]]), "missing"),
    ]:
        with pytest.raises(ValueError, match=message):
            OneHotDesign().fit(X)
    with pytest.raises(TypeError, match="Sparse data was passed"):
        OneHotDesign().fit(sparse.eye_array(3, 2, format="csr"))
    with pytest.raises(NotFittedError):
        OneHotDesign().transform(PAIRS)
    for wrong in ({"implicit": "yes"}, {"unknown": "ignore"}, {"users": 3}):
        with pytest.raises(InvalidParameterError, match=next(iter(wrong))):
            OneHotDesign(**wrong).fit(PAIRS)
    with pytest.raises(DataError, match=re.escape("equal to number of features (2); got 3")):
        OneHotDesign().fit(PAIRS).get_feature_names_out(["a", "b", "c"])


# --------------------------------------------------------------------------------------------------------------- groups
def test_groups_of_scikit_learns_encoders():
    X = np.array([[0, 5, 20.0], [1, 5, 30.0], [2, 6, 40.0]])
    encoder = OneHotEncoder(drop="if_binary", feature_name_combiner=lambda f, c: f"{f}={c}").fit(X)
    names = encoder.get_feature_names_out().tolist()
    assert feature_groups(encoder).tolist() == [name.split("=")[0] for name in names]
    assert encoder.get_feature_names_out().tolist() == names
    assert feature_groups(make_pipeline(OneHotEncoder(), VariationalFM()).fit(X, [1, 2, 3])).tolist()[:4] == [
        "x0",
        "x0",
        "x0",
        "x1",
    ]
    parts = ColumnTransformer(
        [("who", OneHotEncoder(), [0]), ("gone", "drop", [1]), ("age", StandardScaler(), [2])], sparse_threshold=1.0
    ).fit(X)
    assert feature_groups(parts).tolist() == ["who__x0"] * 3 + ["age"]
    nested = make_column_transformer((make_pipeline(OneHotEncoder()), [0, 1]), remainder="passthrough").fit(X)
    assert feature_groups(nested).tolist() == ["pipeline__x0"] * 3 + ["pipeline__x1"] * 2 + ["remainder"]
    assert feature_groups(OneHotDesign().fit(PAIRS)).tolist() == ["user"] * 3 + ["item"] * 3


def test_groups_tell_features_apart_whose_names_begin_alike():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"user": ["age_1", "b"], "user_age": ["1", "2"]})
    assert feature_groups(OneHotEncoder().fit(frame)).tolist() == ["user", "user", "user_age", "user_age"]


def test_groups_of_what_has_none():
    for wrong in (StandardScaler(), "encoder", None, make_pipeline(StandardScaler())):
        with pytest.raises(DataError, match="transformer must be a OneHotEncoder, OneHotDesign, ColumnTransformer"):
            feature_groups(wrong)
    for unfitted in (OneHotEncoder(), OneHotDesign(), make_column_transformer((OneHotEncoder(), [0]))):
        with pytest.raises(NotFittedError):
            feature_groups(unfitted)


def test_a_design_of_one_user_or_one_item_is_saved(tmp_path):
    for pairs in ([["ann", "tea"], ["ann", "milk"]], [["ann", "tea"], ["bob", "tea"]], [["ann", "tea"]]):
        for implicit in (False, True):
            design = OneHotDesign(implicit=implicit).fit(pairs)
            save(design, tmp_path / "design")
            assert (load(tmp_path / "design").transform(pairs) != design.transform(pairs)).nnz == 0


def test_the_block_of_rated_items_belongs_to_users_and_items():
    design = OneHotDesign(implicit=True).fit(PAIRS)
    design._check_fitted()
    rated, unseen = design.rated_, design.rated_.tolil()
    unseen[-1, 0] = 1.0
    for damaged in (rated[1:], rated[:, 1:], rated.toarray(), unseen.tocsr()):
        design.rated_ = damaged
        with pytest.raises(DataError, match="rated_"):
            design._check_fitted()
