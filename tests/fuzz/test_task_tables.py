"""Tables of choices and rankings of any cells: refused in words, or tasks in which an item was chosen."""

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skpref.data import from_choices, from_rankings, from_tasks
from skpref.exceptions import DataError

pytestmark = pytest.mark.nightly

ODD = [None, np.nan, "", " ", "NA", 0, 1, 2, 3, -1, 1.0, 1.5, "1", "1.0", "a", "A", "b", "x", True, False, np.inf, b"x"]
ODD += [2**70, (1,), ["x"], {}, np.datetime64("2024-01-01"), pd.NaT, pd.NA, "none", 1j]
CELLS = st.sampled_from(ODD)
SOUND = {
    "user": ["ann", "ann", "ann", "bob", "bob"],
    "task": [1, 1, 1, 2, 2],
    "item": ["x", "y", "z", "y", "x"],
    "flag": [0, 1, 0, 0, 1],
    "last": [1, 0, 0, 1, 0],
    "rank": [2, 1, 3, 2, 1],
    "a": ["x", "y", "z", "x", "y"],
    "b": ["y", "z", "x", "z", "x"],
    "c": ["z", "x", None, "y", "z"],
    "best": ["x", "z", "z", "x", "z"],
    "worst": ["y", "x", "x", "z", "y"],
    "p": [1, 2, 3, 1, 2],
    "q": [2, 3, 1, 3, 2],
    "r": [3, 1, None, 2, 1],
    "place": [1, 2, 2, 1, 2],
    "w": [1.0, 2.0, 0.5, 1.0, 1.0],
}


@st.composite
def tables(draw):
    """Draw a sound table, or one with up to three odd cells."""
    columns = {name: list(cells) for name, cells in SOUND.items()}
    for _ in range(draw(st.integers(0, 3))):
        columns[draw(st.sampled_from(list(columns)))][draw(st.integers(0, 4))] = draw(CELLS)
    return pd.DataFrame(columns) if draw(st.booleans()) else columns


def refused_or_tasks(read):
    """Fail on another error than ours, and on tasks without an item, an answer, or a finite covariate."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rows = read()
    except DataError:
        return
    n = len(rows.X)
    assert n == len(rows.y) > 0
    assert (np.not_equal(rows.X, None).sum(axis=1) >= 2).all()
    if rows.y.dtype.kind == "f":
        assert not np.isnan(rows.y).all(axis=1).any()
        assert np.nanmin(rows.y) >= 1.0
    covariates = getattr(rows, "covariates", None)
    assert covariates is None or (np.isfinite(covariates).all() and covariates.shape[0] == n)


COVARIATES = st.sampled_from([None, {"price": ["p", "q", "r"]}])
COMMON = {"user": st.sampled_from([None, "user"]), "missing": st.sampled_from(["raise", "drop"])}
MORE = COMMON | {"covariates": COVARIATES, "sample_weight": st.sampled_from([None, "w"])}
LAYOUTS = {
    "columns": MORE,
    "item_ranks": MORE,
    "item_ratings": MORE,
    "by": COMMON | {"covariates": st.sampled_from([None, ["p"], [("p", "q")]])},
}
EXAMPLES = max(100, settings.default.max_examples)


@settings(max_examples=EXAMPLES)
@given(
    tables(),
    st.fixed_dictionaries(MORE | {"worst": st.sampled_from([None, "worst"])}),
    st.sampled_from(["best", "place"]),
)
def test_any_choices(table, options, chosen):
    refused_or_tasks(lambda: from_choices(table, ["a", "b", "c"], chosen, **options))


@pytest.mark.parametrize("layout", LAYOUTS)
@settings(max_examples=EXAMPLES)
@given(data=st.data(), table=tables())
def test_any_rankings(data, layout, table):
    options = data.draw(st.fixed_dictionaries(LAYOUTS[layout]))
    options |= {"rest": data.draw(st.sampled_from([None, "lost", "unknown"]))}
    options |= {"unranked": data.draw(st.sampled_from([None, [], [0], ["NA"]]))}
    names = ["a", "b", "c"] if layout == "columns" else ["p", "q", "r"]
    named = {"by": "task"} if layout == "by" else {layout: names}
    refused_or_tasks(lambda: from_rankings(table, **named, **options))


@settings(max_examples=EXAMPLES)
@given(
    tables(),
    st.sampled_from(
        [{"features": ["p"]}, {"features": ["p", "a"]}, {"item": "item"}, {"features": ["b"], "item": "item"}]
    ),
    st.sampled_from([{"chosen": "flag"}, {"chosen": "flag", "worst": "last"}, {"rank": "rank"}]),
    st.sampled_from([None, "none", 0, "x"]),
)
def test_any_long_tasks(table, items, answers, none):
    refused_or_tasks(lambda: from_tasks(table, user="user", **items, **answers, none=none))


@settings(max_examples=EXAMPLES)
@given(
    tables(),
    st.sampled_from(
        [{"x": ["p", "q"]}, {"x": ["p", "q"], "y": ["a", "b"]}, {"x": ["p", "q", "r"], "y": ["a", "b", "c"]}]
    ),
    st.sampled_from([None, "none", 0, "x"]),
    st.sampled_from([None, "rank"]),
)
def test_any_wide_tasks(table, features, none, worst):
    refused_or_tasks(lambda: from_tasks(table, user="user", features=features, chosen="place", worst=worst, none=none))
