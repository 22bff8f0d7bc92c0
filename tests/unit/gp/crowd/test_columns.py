"""CrowdGPPL reads tables: users, items and weights in columns that parameters name."""

import re

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skpref import CrowdGPPL
from skpref.exceptions import DataError

NAMES = {"user": "judge", "left": "model_a", "right": "model_b"}
IDS = list(NAMES.values())


@pytest.fixture(scope="module")
def battles():
    rng = np.random.default_rng(0)
    n = 150
    a = rng.integers(0, 5, n)
    b = (a + rng.integers(1, 5, n)) % 5
    frame = pd.DataFrame(
        {
            "date": ["2026-01-01"] * n,
            "model_b": np.array(list("vwxyz"))[b],
            "votes": rng.integers(1, 4, n),
            "judge": np.array(["ann", "bob", "cat"])[rng.integers(0, 3, n)],
            "model_a": np.array(list("vwxyz"))[a],
        }
    )
    return frame, (0.8 * (a - b) + rng.standard_normal(n) > 0.0).astype(int)


def quick(**options):
    return CrowdGPPL(n_factors=1, max_iter=20, random_state=0, tol=0.1, **options)


@pytest.fixture(scope="module")
def model(battles):
    return quick(**NAMES).fit(*battles)


def test_a_frame_is_read_by_the_names_of_its_columns(battles, model):
    X, y = battles
    triples = quick().fit(X[IDS].to_numpy(), y)
    assert_array_equal(model.user_ids_, triples.user_ids_)
    assert_allclose(model.utility(users=["ann", "bob"]), triples.utility(users=["ann", "bob"]))
    expected = triples.predict_proba(X[IDS].to_numpy())
    assert_allclose(model.predict_proba(X), expected)
    assert_allclose(model.predict_proba(X[[*IDS[::-1], "date"]]), expected)  # other columns may be missing
    assert_allclose(model.predict_proba(X[IDS[::-1]]), expected)
    assert_allclose(model.predict_proba(X[IDS].to_numpy()), expected)
    assert model.n_features_in_ == 5
    assert model.score(X, y) == triples.score(X[IDS].to_numpy(), y)


def test_columns_by_position(battles, model):
    X, y = battles
    by_position = quick(user=3, left=4, right=1, weight=2).fit(X.to_numpy(), y)
    named = quick(**NAMES, weight="votes").fit(X, y)
    assert_allclose(by_position.utility(), named.utility())
    assert not np.allclose(named.utility(), model.utility())
    assert quick(weight=3).fit(X[[*IDS, "votes"]].to_numpy(), y).utility() == pytest.approx(named.utility())


def test_the_consensus_is_asked_by_rows_of_two_columns(battles, model):
    pairs = battles[0][["model_b", "model_a"]]
    by_name = model.predict_preference(pairs)  # the names say which is the left one
    assert_allclose(by_name, model.predict_preference(pairs[["model_a", "model_b"]].to_numpy()))
    assert_allclose(by_name + model.predict_preference(pairs.to_numpy()), 1.0)
    assert model.predict_preference(battles[0]).shape == by_name.shape


def test_the_covariance_of_one_user(battles, model):
    X = battles[0][battles[0]["judge"] == "ann"][:4]
    assert_allclose(model.latent_covariance(X), model.latent_covariance(X[IDS].to_numpy()))
    with pytest.raises(DataError, match=r"X must be of one user; got '[a-z]+' and others"):
        model.latent_covariance(battles[0])


def test_later_comparisons_come_in_frames(battles):
    X, y = battles
    parts = quick(**NAMES, weight="votes").partial_fit(X[:100], y[:100]).partial_fit(X[100:], y[100:])
    assert parts.annotators(n_samples=2)["n_labels"].sum() == X["votes"].sum()
    new = pd.DataFrame({"model_a": ["v"], "model_b": ["new"], "votes": 1, "judge": "dan"})
    parts.partial_fit(new, [1])
    assert "dan" in parts.user_ids_
    assert "new" in parts.item_ids_


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"user": "judgee"}, "there is no column 'judgee'; did you mean 'judge'?"),
        ({"user": 99}, "there is no column 99 in X, which has 5"),
        ({"user": "model_a"}, "user and left are the same column of X, 'model_a' (user='model_a', left='model_a', "),
        ({"right": 4}, "left and right are the same column of X, 'model_a'"),
        ({"weight": "date"}, "X, row 0, column 'date': expected a number (a weight), got '2026-01-01'"),
    ],
)
def test_columns_that_cannot_be_read_are_named(battles, params, message):
    with pytest.raises(DataError, match=re.escape(message)):
        quick(**{**NAMES, **params}).fit(*battles)


def test_only_the_user_is_named(battles):
    X, y = battles
    with pytest.raises(DataError, match="user and right are the same column of X, 'judge'"):
        quick(user="judge").fit(X[["model_a", "model_b", "judge"]], y)  # left and right would be the 2nd and 3rd


def test_rows_that_cannot_be_read_are_refused(battles, model):
    X, y = battles
    with pytest.raises(DataError, match="X, row 2, column 'judge': a user id is missing"):
        quick(**NAMES).fit(X.assign(judge=X["judge"].where(X.index != 2)), y)
    with pytest.raises(DataError, match="there is no column 'judge'"):
        model.predict_proba(X.drop(columns="judge"))
