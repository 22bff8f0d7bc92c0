"""What all estimators on a cluster share."""

from __future__ import annotations

import pytest
from sklearn.exceptions import NotFittedError

import skpref.dask

array = pytest.importorskip("dask.array")


@pytest.mark.parametrize("name", skpref.dask.__all__)
@pytest.mark.parametrize("method", ["predict", "predict_proba", "to_local"])
def test_an_estimator_that_is_not_fitted_says_so(name: str, method: str) -> None:
    model = getattr(skpref.dask, name)()
    if hasattr(model, method):
        with pytest.raises(NotFittedError, match=f"This {name} instance is not fitted yet"):
            getattr(model, method)(*[] if method == "to_local" else [array.zeros((4, 3), chunks=2)])
