"""Ratings in a search: honest splits, chains that are looked at on their way, spaces of plain distributions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.model_selection import ParameterSampler
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skpref
from skpref import GibbsIPM3F, GibbsM3F, GPOrdinalRegressor, GPPLClassifier, Table
from skpref.exceptions import DataError
from skpref.search import Distributions, LogInteger, Rated, default_space, search

optuna = pytest.importorskip("optuna")

OWNERS = st.lists(st.integers(0, 5), min_size=2, max_size=40)


def rated(users: list[int]) -> Rated:
    X = np.column_stack([users, np.arange(len(users))])
    return Rated(X, np.arange(len(users)) % 5, np.ones(len(users)), levels=np.arange(5))


# --------------------------------------------------------------------------------------------------------------- splits
@given(OWNERS, st.floats(0.0, 0.5), st.integers(0, 9))
def test_a_hold_out_has_a_share_of_each_users_ratings(users: list[int], share: float, seed: int) -> None:
    data, count = rated(users), np.bincount(users)
    if (count < 2).all():
        with pytest.raises(DataError, match="no user has two ratings"):
            data.split(share, seed)
        return
    train, test = data.split(share, seed)
    assert np.array_equal(np.sort(np.concatenate([train, test])), np.arange(data.size))
    held = np.bincount(data.X[test, 0], minlength=count.size)
    for n, out in zip(count.tolist(), held.tolist(), strict=True):
        assert out == (0 if n < 2 else min(max(int(share * n + 0.5), 1), n - 1))
    assert np.array_equal(data.split(share, seed)[1], test)


@given(OWNERS, st.integers(2, 5), st.integers(0, 9))
def test_folds_test_every_rating_of_users_with_others_once(users: list[int], n_folds: int, seed: int) -> None:
    data, count = rated(users), np.bincount(users)
    if (count < 2).all():
        with pytest.raises(DataError, match="no user has two ratings"):
            data.folds(n_folds, seed)
        return
    parts = data.folds(n_folds, seed)
    for train, test in parts:
        assert set(data.X[test, 0]) <= set(data.X[train, 0])
        assert np.array_equal(np.sort(np.concatenate([train, test])), np.arange(data.size))
    tested = np.sort(np.concatenate([test for _, test in parts]))
    assert np.array_equal(tested, np.flatnonzero(count[users] > 1))


def test_one_fold_holds_out_one_rating_of_each_of_many_users() -> None:
    many = np.repeat(np.arange(1200), 6).tolist()
    ((train, test),) = rated(many).folds(1)
    assert (train.size, test.size) == (6000, 1200)
    few = np.repeat(np.arange(10), 60).tolist()
    ((train, test),) = rated(few).folds(1)
    assert (train.size, test.size) == (480, 120)


# --------------------------------------------------------------------------------------------------------------- chains
def stars() -> Rated:
    rng = np.random.default_rng(0)
    X = np.array([(u, i) for u in range(20) for i in rng.choice(15, 10, replace=False)])
    y = np.clip(np.round(X[:, 1] / 4 + rng.normal(0, 0.3, len(X))), 0, 4).astype(int)
    return Rated(X, y, np.ones(len(X)), levels=np.arange(5))


@pytest.mark.parametrize(("n_sweeps", "burn_in"), [(50, 10), (10, 2), (7, 5), (3, 2), (9, 0)])
def test_a_chain_that_is_looked_at_goes_where_it_goes_anyway(n_sweeps: int, burn_in: int) -> None:
    data = stars()
    train, test = (data.take(rows) for rows in data.split(0.2))
    model = GibbsM3F(3, n_sweeps=n_sweeps, burn_in=burn_in, levels=range(5), random_state=1)
    looked = list(train.stages(model, test))
    whole = GibbsM3F(**model.get_params()).fit(train.X, train.y)
    assert looked[-1].value == -whole.score(test.X, test.y)
    assert looked[-1].trace == tuple(whole.risks_[0])
    assert len(looked) == train.n_stages(lambda: model) == min(4, n_sweeps - burn_in)
    assert not hasattr(model, "risks_")


def test_poor_chains_are_given_up_on_their_way() -> None:
    data, template = stars(), GibbsM3F(3, n_sweeps=10, burn_in=2, levels=range(5), random_state=1)
    built: list[dict[str, Any]] = []

    def build(settings: dict[str, Any]) -> GibbsM3F:
        built.append(settings)
        return GibbsM3F(**{**template.get_params(), **settings, "C": 1.0 if len(built) < 10 else 1e-9})

    space = Distributions({"sigma": stats.loguniform(0.9, 1.1)}, template.get_params())
    result = search(data, build, space, n_trials=9, n_folds=1)
    assert [trial.state for trial in result.trials][-1] == "pruned"
    assert len(result.trials[-1].bounds) < 10
    assert built[0] == {"sigma": 1.0}  # to tell how many stages there are
    assert built[1] == {"sigma": 1.0}  # the first trial


# --------------------------------------------------------------------------------------------------------------- spaces
ESTIMATORS = [
    skpref.GPPLClassifier(),
    skpref.GPPLClassifier(Table(np.eye(3))),
    skpref.GPPLRegressor(),
    skpref.CrowdGPPL(),
    skpref.GPOrdinalRegressor(),
    skpref.GibbsM3F(),
    skpref.GibbsIPM3F(),
    skpref.VariationalFM(),
    skpref.VariationalFMClassifier(),
    skpref.SVGPRegressor(),
    skpref.SVGPClassifier(),
    skpref.BayesianGPLVM(),
]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_a_default_space_fits_its_estimator_and_scikit_learns_search(estimator: Any) -> None:
    space = default_space(estimator)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    known = Distributions(space, estimator.get_params())
    start = known.default()
    assert set(start) == set(space)
    drawn = [Distributions(space).suggest(study.ask()) for _ in range(10)]
    for settings in [start, *drawn, *ParameterSampler(space, 2, random_state=0)]:
        type(estimator)(**{**estimator.get_params(deep=False), **settings})._validate_params()
    study.enqueue_trial(known.encoded(start))  # of kernels, their places in the list
    assert Distributions(space).suggest(study.ask()) == start


def test_spaces_compose_through_pipelines() -> None:
    pipe = make_pipeline(StandardScaler(), GPOrdinalRegressor())
    assert set(default_space(pipe)) == {"gpordinalregressor__kernel"}
    outer = make_pipeline(pipe)
    assert set(default_space(outer)) == {"pipeline__gpordinalregressor__kernel"}
    with pytest.raises(DataError, match=r"no default space for StandardScaler.*param_distributions"):
        default_space(StandardScaler())


def test_spaces_know_what_does_not_matter() -> None:
    assert "item_effects" not in default_space(GPPLClassifier())
    assert "n_factors" not in default_space(GibbsIPM3F())
    assert "alpha" not in default_space(GibbsM3F())


class Dice:
    """A distribution that can only be drawn from."""

    def rvs(self, random_state: Any = None) -> int:
        return int(np.random.default_rng(random_state).integers(1, 7))


OBJECTS = [StandardScaler(), None]
ANY = {
    "list": ["a", "b"],
    "objects": OBJECTS,
    "array": np.array([0.5, 1.5]),
    "log": stats.loguniform(0.1, 10.0),
    "flat": stats.uniform(2.0, 3.0),
    "whole": stats.randint(3, 6),
    "normal": stats.norm(5.0, 0.1),
    "drawn": Dice(),
    "own": LogInteger(2, 9),
    "optuna": optuna.distributions.IntDistribution(1, 3),
}


def test_every_kind_of_distribution_is_drawn_from() -> None:
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    drawn = [Distributions(ANY).suggest(study.ask()) for _ in range(60)]
    assert {s["list"] for s in drawn} == {"a", "b"}
    assert {id(s["objects"]) for s in drawn} == {id(one) for one in OBJECTS}
    assert {s["array"] for s in drawn} == {0.5, 1.5}
    assert np.median([s["log"] for s in drawn]) == pytest.approx(1.0, rel=1.0)  # the median of 60 logs: sd 0.3
    assert all(2.0 <= s["flat"] <= 5.0 for s in drawn)
    assert {s["whole"] for s in drawn} == {3, 4, 5}
    assert np.mean([s["normal"] for s in drawn]) == pytest.approx(5.0, abs=0.1)
    assert {s["drawn"] for s in drawn} <= set(range(1, 7))
    assert {s["own"] for s in drawn} <= set(range(2, 10))
    assert {s["optuna"] for s in drawn} == {1, 2, 3}
    assert all(type(s["own"]) is type(s["whole"]) is int for s in drawn)


def test_the_start_is_taken_to_the_space() -> None:
    start = {"list": "c", "objects": None, "log": 50.0, "whole": 9, "own": 4, "optuna": 2, "normal": 5.0}
    assert Distributions(ANY, start).default() == {"objects": None, "log": 10.0, "whole": 5, "own": 4, "optuna": 2}
    assert Distributions({"flag": [True, False]}, {"flag": 1}).default() == {}  # 1 is not True
    assert Distributions({"low": LogInteger(2, 9)}, {"low": True}).default() == {}


def test_whole_numbers_by_their_logarithm() -> None:
    drawn = LogInteger(1, 100).rvs(4000, random_state=0)
    assert (drawn.min(), drawn.max()) == (1, 100)
    assert np.mean(drawn <= 10) == pytest.approx(np.log(10.5 / 0.5) / np.log(100.5 / 0.5), abs=0.04)  # 5 sd
