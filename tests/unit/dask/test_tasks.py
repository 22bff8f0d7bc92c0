"""Tasks and grades in collections of Dask, which are brought into memory."""

import pandas as pd
from numpy.testing import assert_array_equal

from skpref import CrowdGPPL
from skpref.datasets import make_choices


def test_tasks_of_a_collection_are_those_in_memory(client):
    import dask.dataframe as dd

    data = make_choices(n_users=12, n_tasks=6, random_state=0)
    frame = pd.DataFrame(data.X, columns=[str(k) for k in range(data.X.shape[1])])
    lazy = dd.from_pandas(frame.assign(chosen=data.y), npartitions=3)
    stored = CrowdGPPL(data.table, likelihood="luce").fit(lazy, "chosen")
    assert_array_equal(
        stored.predict_proba(frame), CrowdGPPL(data.table, likelihood="luce").fit(frame, data.y).predict_proba(frame)
    )
