"""Tasks and grades in collections of Dask, which are brought into memory."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from skpref import CrowdGPPL, GPPLClassifier
from skpref.datasets import make_choices
from skpref.exceptions import DataError

DATA = make_choices(n_users=12, n_tasks=6, random_state=0)
FRAME = pd.DataFrame(DATA.X, columns=["who", *"abc"])
PLACE = (DATA.X[:, 1:] == DATA.y[:, None]).argmax(axis=1)


@pytest.mark.parametrize("y", [DATA.y, PLACE], ids=["ids", "positions"])
@pytest.mark.parametrize("model", [CrowdGPPL(DATA.table), GPPLClassifier(DATA.table)], ids=["crowd", "one utility"])
def test_tasks_in_memory_in_files_and_in_partitions_have_the_same_bits(client, tmp_path, model, y):
    """The tasks of each person are in both files and in all partitions; nothing says that rows are tasks."""
    import dask.dataframe as dd

    frame = FRAME if isinstance(model, CrowdGPPL) else FRAME.drop(columns="who")
    order = np.argsort(np.arange(len(frame)) % 6, kind="stable")  # the first task of everybody, then the second, ...
    frame, y = frame.iloc[order].reset_index(drop=True), y[order]
    table = frame.assign(chosen=y)
    for k, part in enumerate((table[:40], table[40:])):
        part.to_parquet(tmp_path / f"{k}.parquet")
    lazy = dd.from_pandas(table, npartitions=4)
    wanted = model.fit(frame, y).predict_proba(frame)
    for X, answer in ((tmp_path, "chosen"), (lazy, "chosen"), (lazy[list(frame)], lazy["chosen"])):
        assert_array_equal(type(model)(DATA.table).fit(X, answer).predict_proba(frame), wanted)


def test_more_columns_than_comparisons_have_are_not_read_by_their_places(client, tmp_path):
    """The first two positions as answers may be labels; the first three columns were read as comparisons."""
    import dask.dataframe as dd

    table = FRAME.assign(y=PLACE % 2)
    table.to_parquet(tmp_path / "rows.parquet")
    for X in (dd.from_pandas(table, npartitions=2), tmp_path / "rows.parquet"):
        with pytest.raises(
            DataError, match=r"no column 'user' in X, .* shows several items.* likelihood='luce' says so"
        ):
            CrowdGPPL().fit(X, "y")
    named = table.rename(columns={"c": "user", "b": "left", "a": "right"})
    model = CrowdGPPL().fit(dd.from_pandas(named, npartitions=2), "y")
    assert_array_equal(model.feature_names_in_, ["user", "left", "right"])


def test_answers_of_several_columns_in_files_are_for_readers(tmp_path):
    FRAME.assign(best="x", worst="y").to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(DataError, match=r"y must be the name of a column .*got list; from_choices and from_rankings"):
        CrowdGPPL(likelihood="luce").fit(tmp_path / "rows.parquet", ["best", "worst"])


def test_predictions_of_tasks_in_a_collection_are_lazy(client):
    import dask.dataframe as dd

    frame = FRAME.drop(columns="who")
    model = GPPLClassifier(DATA.table).fit(frame, DATA.y)
    lazy = dd.from_pandas(frame, npartitions=2)
    assert_array_equal(model.predict_proba(lazy).compute(), model.predict_proba(frame))
    assert_array_equal(model.predict(lazy).compute(), model.predict(frame))
    assert model.score(lazy, DATA.y) == model.score(frame, DATA.y)
