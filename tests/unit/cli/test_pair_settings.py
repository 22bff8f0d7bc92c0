"""Settings of comparisons: what is searched, and the estimators that settings stand for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from skpref import CrowdGPPL, GPPLClassifier, Table, kernels
from skpref.cli.tasks.pair_settings import Crowd, PairEstimator, Pairs
from skpref.search.default_spaces import Distributions

optuna = pytest.importorskip("optuna")

RNG = np.random.default_rng(1)
FEATURES = Table(RNG.normal(size=(120, 4)) * [1.0, 10.0, 0.1, 1.0], np.arange(120))
PLAIN = Pairs(None, n_items=1, max_inducing=500)


def pairs(n_items: int, max_inducing: int = 500) -> Pairs:
    return Pairs(FEATURES, n_items, max_inducing, seed=3)


def crowd(items: Table | None = None, users: Table | None = None, **more: Any) -> Crowd:
    options = {"n_items": 12, "n_users": 5, "has_ties": False, "has_sides": True, "max_inducing": 500, "seed": 3}
    return Crowd(items, users, **options | more)


CROWDS = {
    "plain": crowd(has_sides=False),
    "ties": crowd(n_users=300, has_ties=True),
    "features": crowd(FEATURES, FEATURES, n_items=400, n_users=300, max_inducing=200),
    "few points": crowd(FEATURES, FEATURES, n_items=400, n_users=40, max_inducing=30),
}


def first(kind: Pairs | Crowd) -> dict[str, Any]:
    """The settings of a first trial."""
    space = Distributions(kind.space(), PairEstimator(kind, **kind.defaults()).get_params())
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    study.enqueue_trial(space.encoded(space.default()))
    return kind.resolve(space.suggest(study.ask()))


def drawn(kind: Pairs | Crowd, n: int = 60) -> list[dict[str, Any]]:
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    return [kind.resolve(Distributions(kind.space()).suggest(study.ask())) for _ in range(n)]


# ---------------------------------------------------------------------------------------------------------- comparisons
@pytest.mark.parametrize("kind", [PLAIN, pairs(80), pairs(5000), pairs(5000, 30)])
def test_the_default_is_a_point_of_the_space(kind: Pairs) -> None:
    assert first(kind) == kind.defaults()


def test_every_choice_is_drawn_and_bounded() -> None:
    settings = drawn(pairs(2000, 300))
    assert {s["kernel"].split("-")[0] for s in settings} == {"product", "squared", "additive"}
    assert {s["ard"] for s in settings} == {s["item_effects"] for s in settings} == {False, True}
    assert {s["length_scale"] for s in settings} == {"auto", "factor"}
    assert all(50 <= s["n_inducing"] <= 300 for s in settings)
    assert all(s["length_scale"] == "factor" or s["kernel"] == "product-matern-3/2" for s in settings)
    assert all(("length_scale_factor" in s) == (s["length_scale"] == "factor") for s in settings)


def test_few_items_leave_no_question_of_their_number() -> None:
    assert all("n_inducing" not in s for s in [*drawn(pairs(80)), *drawn(PLAIN)])
    assert all("kernel" not in s for s in drawn(PLAIN))


def test_settings_become_estimators() -> None:
    kind = pairs(120)
    default = kind.build(kind.defaults())
    assert default.items is FEATURES
    plain = GPPLClassifier(FEATURES, random_state=3).get_params(deep=False)
    assert default.get_params(deep=False) == {**plain, "n_inducing": 120}
    for settings in drawn(kind):
        model = kind.build(settings)
        assert model.item_effects == settings["item_effects"]
        assert model.optimizer == ("l-bfgs-b" if settings["ard"] else None)
        assert model.n_inducing == settings["n_inducing"]
        assert (model.kernel is None) == (settings["length_scale"] == "auto")
        if model.kernel is not None:
            assert isinstance(model.kernel, kernels.AdditiveMatern) == settings["kernel"].startswith("additive")
            low, high = model.kernel.bounds.T
            assert ((low < model.kernel.theta) & (model.kernel.theta < high)).all()


def test_length_scales_are_multiples_of_the_median_heuristic() -> None:
    kind = replace(pairs(120), seed=0)
    settings = {**kind.defaults(), "length_scale": "factor", "length_scale_factor": 1.5}
    product = kind.build({**settings, "kernel": "squared-exponential"}).kernel
    additive = kind.build({**settings, "kernel": "additive-matern-5/2"}).kernel
    median = kernels.median_length_scales(FEATURES.features, np.random.default_rng(0))
    assert product.nu == np.inf
    assert product.length_scale == pytest.approx(1.5 * 2.0 * median)
    assert additive.length_scale == pytest.approx(1.5 * median)


def test_an_estimator_by_settings_is_one_of_scikit_learn() -> None:
    kind = Pairs(FEATURES, 120, 20, seed=0)
    model = clone(PairEstimator(kind, **kind.defaults())).set_params(ard=False, shape_s0=3.0)
    again = clone(model)
    assert again.get_params() == {**model.get_params(), "kind": again.kind}
    assert again.kind.items is FEATURES
    X, y = np.array([(0, 1), (1, 2), (0, 2)] * 4), np.array([1.0, 1.0, 0.0] * 4)
    weight = np.arange(1.0, 13.0)
    plain = GPPLClassifier(FEATURES, n_inducing=20, shape_s0=3.0, random_state=0).fit(X, y, sample_weight=weight)
    assert np.array_equal(model.fit(X, y, weight).predict_proba(X), plain.predict_proba(X))
    assert model.lower_bounds_ == list(plain.lower_bounds_)


# ---------------------------------------------------------------------------------------------------------------- crowd
@pytest.mark.parametrize("name", CROWDS)
def test_the_default_of_a_crowd_is_a_point_of_its_space(name: str) -> None:
    kind = CROWDS[name]
    assert first(kind) == kind.resolve(kind.defaults())
    default = kind.build(kind.defaults())
    plain = CrowdGPPL(kind.items, kind.users, random_state=3).get_params(deep=False)
    changed = {key for key, value in default.get_params(deep=False).items() if value is not plain[key]}
    assert changed <= {"n_factors", "n_inducing", "n_inducing_users"}


def test_a_crowd_asks_only_what_its_data_can_answer() -> None:
    plain, ties, features, few = (drawn(kind) for kind in CROWDS.values())
    assert {s["n_factors"] for s in plain} == set(range(6))
    assert {s["likelihood"] for s in plain} == {"probit", "logit"}
    assert {s["likelihood"] for s in ties} == {"probit", "logit", "probit-ties", "logit-ties"}
    assert max(s["n_factors"] for s in ties) == 20
    assert min(s["n_factors"] for s in ties) == 0
    assert {s["order_effect"] for s in ties} == {s["item_effects"] for s in features} == {False, True}
    assert not any({"order_effect", "item_effects", "length_scale", "n_inducing"} & set(s) for s in plain)
    assert {s["length_scale"] for s in features} == {"auto", "factor"}
    assert all(("length_scale_factor" in s) == (s["length_scale"] == "factor") for s in features)
    assert all(50 <= s[name] <= 200 for s in features for name in ("n_inducing", "n_inducing_users"))
    assert all(s["n_inducing"] == 30 and "n_inducing_users" not in s for s in few)
    assert all(s["rate_sd0"] == s["rate_sw0"] for s in features)


def test_settings_become_estimators_of_a_crowd() -> None:
    kind = CROWDS["features"]
    for settings in drawn(kind, 20):
        model = kind.build(settings)
        assert model.items is FEATURES
        assert model.random_state == 3
        params = model.get_params(deep=False)
        assert {name: params[name] for name in settings if name != "length_scale"} == {
            name: value for name, value in settings.items() if name != "length_scale"
        }
        assert (model.length_scale_factor == "auto") == (settings["length_scale"] == "auto")
