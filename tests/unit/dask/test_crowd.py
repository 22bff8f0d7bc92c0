"""Crowds on a cluster: the results in memory."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skpref import CrowdGPPL, Table
from skpref.gp.crowd import fit_hierarchy
from skpref.gp.crowd.fit_hierarchy import Regularisation
from tests.policies import set_policy
from tests.unit.dask.lazily import lazy

array = pytest.importorskip("dask.array")
pandas = pytest.importorskip("pandas")
ITEMS, USERS = np.array([f"item {k}" for k in range(6)]), np.array([f"user {k:02d}" for k in range(12)])
COLUMNS = ["user", "left", "right"]
OPTIONS = {"random_state": 0, "tol": 10.0}  # few passes: rounds cost 30 ms each


@pytest.fixture(autouse=True)
def _shards_where_there_are_many(monkeypatch):
    set_policy(monkeypatch, "gp.crowd", most_choice=100)
    # Fits that choose take most of the time.
    chosen = (Regularisation(0.3, 1.0, 0.5),)
    monkeypatch.setattr(fit_hierarchy, "_regularise", lambda _, isotropic, *__: (chosen, [isotropic.state.S]))


def rows(seed=0, n=200):
    rng = np.random.default_rng(seed)
    left, user = rng.integers(0, 6, n), rng.integers(0, 12, n)
    right = (left + rng.integers(1, 6, n)) % 6
    z, own = np.linspace(-1, 1, 6), np.random.default_rng(9).normal(size=(12, 6))
    y = (z[left] - z[right] + own[user, left] - own[user, right] + rng.normal(size=n) > 0).astype(int)
    columns = {"user": USERS[user], "left": ITEMS[left], "right": ITEMS[right], "y": y}
    return pandas.DataFrame(columns | {"times": rng.integers(0, 3, n), "topic": rng.choice(["p", "q"], n)})


def fitted(frame, **options):
    collection = lazy(frame)
    return CrowdGPPL(**OPTIONS | options).fit(collection[columns_of(options)], collection["y"])


def columns_of(options):
    return [*COLUMNS, *options.get("covariates", ()), *options.get("groups", ())]


FEATURES = Table(np.random.default_rng(1).normal(size=(12, 2)), ids=USERS)


@pytest.mark.parametrize(
    "options",
    [
        {"order_effect": True, "users": FEATURES},
        {"covariates": ["times"], "groups": ["topic"], "likelihood": "probit-ties", "order_effect": True},
    ],
    ids=["order effect and features", "all of a comparison"],
)
@pytest.mark.filterwarnings("ignore:covariate .* is never negative")
def test_the_result_is_that_of_a_fit_in_memory(client, options):
    frame, names = rows(), columns_of(options)
    here, there = CrowdGPPL(**OPTIONS | options).fit(frame[names], frame.y), fitted(frame, **options)
    for users in (None, USERS):
        for a, b in zip(
            here.utility(users=users, return_std=True), there.utility(users=users, return_std=True), strict=True
        ):
            assert_allclose(a, b, atol=1e-8)
    assert_allclose(there.lower_bounds_, here.lower_bounds_, rtol=1e-9)
    for name in ("item_ids_", "user_ids_", "components_", "classes_", "feature_names_in_", "n_features_in_"):
        assert_array_equal(getattr(there, name), getattr(here, name))
    asked = frame[names]
    for method in ("predict", "predict_proba", "decision_function", "predict_preference"):
        answers = getattr(there, method)(lazy(frame)[names])
        assert isinstance(answers, array.Array)
        assert_allclose(answers.compute(), getattr(here, method)(asked), atol=1e-8)
        assert_allclose(getattr(there, method)(asked), getattr(here, method)(asked), atol=1e-8)
