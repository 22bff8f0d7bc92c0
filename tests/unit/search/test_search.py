"""The search: what is tried, how it is scored, and that nothing but the user ends it."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.base import BaseEstimator

from skpref import CrowdGPPL, GPPLClassifier, Table, kernels
from skpref.exceptions import DataError, MissingExtraError, SkprefError
from skpref.search import (
    Answers,
    Builder,
    CrowdBuilder,
    CrowdSpace,
    SearchResult,
    Space,
    TrialRecord,
    folds,
    hold_out_of_users,
    search,
)

if TYPE_CHECKING:
    from pathlib import Path

optuna = pytest.importorskip("optuna")

RNG = np.random.default_rng(1)
X = np.array([("ab", "cd"), ("cd", "ef"), ("ab", "ef"), ("cd", "ab")] * 6, dtype=object)
Y = np.array([1.0, 1.0, 1.0, 0.0] * 6)
ANSWERS = Answers(X, Y, np.ones(24))
FEATURES = Table(RNG.normal(size=(120, 4)) * [1.0, 10.0, 0.1, 1.0], np.arange(120))
PLAIN = Space(has_features=False)


class Guess(BaseEstimator):
    """Answers p to everything, or does what it is told to."""

    def __init__(self, p: float = 0.6, act: Any = None) -> None:
        self.p = p
        self.act = act

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Guess:
        if self.act is not None:
            self.act()
        self.lower_bounds_ = [-2.0, -1.0]
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        return np.tile([1.0 - self.p, self.p], (len(X), 1))


@dataclass
class Script:
    """Builds guesses by a script: the p of each trial, or an exception of it."""

    steps: list[Any]
    built: list[dict[str, Any]] = field(default_factory=list)

    def __call__(self, settings: dict[str, Any]) -> Guess:
        step = self.steps[len(self.built) % len(self.steps)]
        self.built.append(settings)
        return Guess(step) if isinstance(step, float) else Guess(act=lambda: self.fail(step))

    @staticmethod
    def fail(error: BaseException) -> None:
        raise error


# ---------------------------------------------------------------------------------------------------------------- space
def drawn(space: Space | CrowdSpace, n: int = 60) -> list[dict[str, Any]]:
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    return [space.suggest(study.ask()) for _ in range(n)]


@pytest.mark.parametrize("space", [PLAIN, Space(n_items=80), Space(n_items=5000), Space(n_items=5000, max_inducing=30)])
def test_the_default_is_a_point_of_the_space(space: Space) -> None:
    study = optuna.create_study()
    study.enqueue_trial(space.default())
    assert space.suggest(study.ask()) == space.default()


def test_every_choice_is_drawn_and_bounded() -> None:
    settings = drawn(Space(n_items=2000, max_inducing=300))
    assert {s["kernel"].split("-")[0] for s in settings} == {"product", "squared", "additive"}
    assert {s["ard"] for s in settings} == {s["item_effects"] for s in settings} == {False, True}
    assert {s["length_scale"] for s in settings} == {"auto", "factor"}
    assert all(50 <= s["n_inducing"] <= 300 for s in settings)
    assert all(s["length_scale"] == "factor" or s["kernel"] == "product-matern-3/2" for s in settings)


def test_few_items_leave_no_question_of_their_number() -> None:
    assert all("n_inducing" not in s for s in [*drawn(Space(n_items=80)), *drawn(PLAIN)])
    assert all("kernel" not in s for s in drawn(PLAIN))


def test_settings_become_estimators() -> None:
    build = Builder(FEATURES, seed=3)
    default = build(Space(n_items=120).default())
    assert default.items is FEATURES
    plain = GPPLClassifier(FEATURES, random_state=3).get_params(deep=False)
    assert default.get_params(deep=False) == {**plain, "n_inducing": 120}
    for settings in drawn(Space(n_items=120)):
        model = build(settings)
        assert model.item_effects == settings["item_effects"]
        assert model.optimizer == ("l-bfgs-b" if settings["ard"] else None)
        assert model.n_inducing == settings["n_inducing"]
        assert (model.kernel is None) == (settings["length_scale"] == "auto")
        if model.kernel is not None:
            assert isinstance(model.kernel, kernels.AdditiveMatern) == settings["kernel"].startswith("additive")
            low, high = model.kernel.bounds.T
            assert ((low < model.kernel.theta) & (model.kernel.theta < high)).all()


def test_length_scales_are_multiples_of_the_median_heuristic() -> None:
    settings = {**Space(n_items=120).default(), "length_scale": "factor", "length_scale_factor": 1.5}
    product = Builder(FEATURES)({**settings, "kernel": "squared-exponential"}).kernel
    additive = Builder(FEATURES)({**settings, "kernel": "additive-matern-5/2"}).kernel
    median = kernels.median_length_scales(FEATURES.features, np.random.default_rng(0))
    assert product.nu == np.inf
    assert product.length_scale == pytest.approx(1.5 * 2.0 * median)
    assert additive.length_scale == pytest.approx(1.5 * median)


CROWDS = {
    "plain": CrowdSpace(n_items=12, n_users=5, has_features=False, has_sides=False),
    "ties": CrowdSpace(n_items=12, n_users=300, has_features=False, has_ties=True),
    "features": CrowdSpace(n_items=400, n_users=300, has_user_features=True, max_inducing=200),
    "few points": CrowdSpace(n_items=400, n_users=40, has_user_features=True, max_inducing=30),
}


@pytest.mark.parametrize("name", CROWDS)
def test_the_default_of_a_crowd_is_a_point_of_its_space(name: str) -> None:
    space = CROWDS[name]
    study = optuna.create_study()
    study.enqueue_trial(space.default())
    assert space.suggest(study.ask()) == space.default()
    users = None if not space.has_user_features else Table(np.ones((space.n_users, 1)))
    default = CrowdBuilder(FEATURES if space.has_features else None, users, seed=3)(space.default())
    plain = CrowdGPPL(default.items, users, random_state=3).get_params(deep=False)
    changed = {key for key, value in default.get_params(deep=False).items() if value is not plain[key]}
    assert changed <= {"n_factors", "n_inducing", "n_inducing_users"}


def test_a_crowd_asks_only_what_its_data_can_answer() -> None:
    plain, ties, features, few = (drawn(space) for space in CROWDS.values())
    assert {s["n_factors"] for s in plain} == set(range(6))
    assert {s["likelihood"] for s in plain} == {"probit", "logit"}
    assert {s["likelihood"] for s in ties} == {"probit", "logit", "probit-ties"}
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
    for settings in drawn(CROWDS["features"], 20):
        model = CrowdBuilder(FEATURES, None, seed=3)(settings)
        assert model.items is FEATURES
        assert model.random_state == 3
        params = model.get_params(deep=False)
        assert {name: params[name] for name in settings if name != "length_scale"} == {
            name: value for name, value in settings.items() if name != "length_scale"
        }
        assert (model.length_scale_factor == "auto") == (settings["length_scale"] == "auto")


# ---------------------------------------------------------------------------------------------------------------- folds
def test_folds_cover_everything_once_and_stay_the_same() -> None:
    first, second = folds(ANSWERS, 5, seed=1), folds(ANSWERS, 5, seed=1)
    assert sorted(np.concatenate([test for _, test in first])) == list(range(24))
    assert all(np.array_equal(a, b) for x, y in zip(first, second, strict=True) for a, b in zip(x, y, strict=True))


def test_groups_are_never_split() -> None:
    groups = np.array([f"person {i // 3}" for i in range(24)], dtype=object)
    for train, test in folds(Answers(X, Y, np.ones(24), groups), 4):
        assert not set(groups[train]) & set(groups[test])


def test_there_are_no_more_folds_than_groups() -> None:
    assert len(folds(Answers(X, Y, np.ones(24), np.repeat([0, 1], 12)), 4)) == 2


TRIPLES = st.lists(
    st.tuples(st.sampled_from("uvwxyz"), st.integers(0, 4), st.integers(0, 4)).filter(lambda row: row[1] != row[2]),
    min_size=2,
    max_size=60,
)


def crowd(rows: list[tuple[str, int, int]]) -> Answers:
    return Answers(np.array(rows, dtype=object), np.ones(len(rows)), np.ones(len(rows)))


def units(answers: Answers, rows: np.ndarray) -> set[tuple[str, frozenset[int]]]:
    return {(user, frozenset(pair)) for user, *pair in answers.X[rows].tolist()}


def pairs_of_users(rows: list[tuple[str, int, int]]) -> dict[str, set[frozenset[int]]]:
    return {user: {frozenset(row[1:]) for row in rows if row[0] == user} for user in {row[0] for row in rows}}


def assert_honest(answers: Answers, train: np.ndarray, test: np.ndarray) -> None:
    assert sorted([*train, *test]) == list(range(answers.size))
    assert test.size
    assert set(answers.X[test, 0]) <= set(answers.X[train, 0])  # whoever is tested was learnt from
    assert not units(answers, train) & units(answers, test)  # but never about the same pair


@given(TRIPLES, st.floats(0.05, 0.5), st.integers(0, 9))
def test_a_hold_out_of_users_is_honest(rows: list[tuple[str, int, int]], share: float, seed: int) -> None:
    pairs = pairs_of_users(rows)
    answers = crowd(rows)
    if all(len(found) == 1 for found in pairs.values()):
        with pytest.raises(DataError, match="no user has compared two pairs of items"):
            hold_out_of_users(answers, share, seed)
        return
    train, test = hold_out_of_users(answers, share, seed)
    assert_honest(answers, train, test)
    n_units = sum(map(len, pairs.values()))
    free = n_units - len(pairs)
    assert len(units(answers, test)) == min(max(1, round(share * n_units)), free)
    again = hold_out_of_users(answers, share, seed)
    assert np.array_equal(again[1], test)


@given(TRIPLES, st.integers(2, 5), st.integers(0, 9))
def test_folds_of_users_are_honest(rows: list[tuple[str, int, int]], n_folds: int, seed: int) -> None:
    pairs = pairs_of_users(rows)
    assume(any(len(found) > 1 for found in pairs.values()))
    answers = crowd(rows)
    parts = folds(answers, n_folds, seed)
    assert 1 <= len(parts) <= n_folds
    for train, test in parts:
        assert_honest(answers, train, test)
    tested = np.concatenate([test for _, test in parts])
    assert len(set(tested.tolist())) == tested.size
    assert set(tested.tolist()) == {k for k, row in enumerate(rows) if len(pairs[row[0]]) > 1}


def test_folds_of_users_are_of_equal_size() -> None:
    rng = np.random.default_rng(0)
    rows = [(f"u{k % 30}", *sorted(rng.choice(400, 2, replace=False).tolist())) for k in range(1200)]
    sizes = [len(test) for _, test in folds(crowd(rows), 4)]
    assert min(sizes) > 250


def test_groups_come_before_users() -> None:
    rows = [(f"u{k % 3}", k % 4, 4) for k in range(24)]
    answers = crowd(rows)
    answers = Answers(answers.X, answers.y, answers.weight, answers.X[:, 0])
    for train, test in folds(answers, 3):
        assert not set(answers.X[train, 0]) & set(answers.X[test, 0])


# --------------------------------------------------------------------------------------------------------------- search
def test_the_lowest_loss_wins_and_the_default_is_tried_first() -> None:
    script = Script([0.55, 0.75, 0.65])
    ticks: list[tuple[int, int, int]] = []
    records: list[TrialRecord] = []
    result = search(
        ANSWERS,
        script,
        PLAIN,
        n_trials=3,
        n_folds=3,
        on_fold=lambda *tick: ticks.append(tick),
        on_trial=records.append,
    )
    assert script.built[0] == PLAIN.default()
    assert result.best.number == 1
    assert result.best.score == pytest.approx(-0.75 * np.log(0.75) - 0.25 * np.log(0.25), rel=0.2)
    assert result.trials == records
    assert ticks[:4] == [(0, 0, 3), (0, 1, 3), (0, 2, 3), (0, 3, 3)]
    assert result.best.bounds == (-2.0, -1.0)
    assert not result.interrupted


def test_equal_seeds_give_equal_trials() -> None:
    one, two = (search(ANSWERS, Script([0.6]), PLAIN, n_trials=4, n_folds=2, seed=5) for _ in range(2))
    assert [t.settings for t in one.trials] == [t.settings for t in two.trials]
    other = search(ANSWERS, Script([0.6]), PLAIN, n_trials=4, n_folds=2, seed=6)
    assert [t.settings for t in one.trials] != [t.settings for t in other.trials]


def test_a_trial_that_fails_is_recorded_and_the_search_goes_on() -> None:
    result = search(ANSWERS, Script([ValueError("no such thing"), 0.7]), PLAIN, n_trials=4, n_folds=2)
    assert [t.state for t in result.trials] == ["failed", "complete", "failed", "complete"]
    assert result.trials[0].error == "ValueError: no such thing"
    assert np.isnan(result.trials[0].score)
    assert result.best.number == 1


def test_an_infinite_loss_is_a_failure() -> None:
    result = search(ANSWERS, Script([1.0, 0.7]), PLAIN, n_trials=2, n_folds=2)
    assert [t.state for t in result.trials] == ["failed", "complete"]
    assert "log-loss of a fold is inf" in result.trials[0].error


def test_if_all_fail_the_first_error_is_shown() -> None:
    result = search(ANSWERS, Script([ValueError("first"), ValueError("second")]), PLAIN, n_trials=2, n_folds=2)
    with pytest.raises(SkprefError, match="none of 2 trials succeeded; the first error was: ValueError: first"):
        _ = result.best


def test_ctrl_c_keeps_what_is_finished() -> None:
    result = search(ANSWERS, Script([0.6, 0.7, KeyboardInterrupt()]), PLAIN, n_trials=9, n_folds=2)
    assert result.interrupted
    assert [t.state for t in result.trials] == ["complete", "complete"]
    assert result.best.number == 1


def test_ctrl_c_while_a_trial_is_reported_keeps_that_trial() -> None:
    def stop(_: TrialRecord) -> None:
        raise KeyboardInterrupt

    result = search(ANSWERS, Script([0.6]), PLAIN, n_trials=9, n_folds=2, on_trial=stop)
    assert result.interrupted
    assert len(result.trials) == 1


def test_ctrl_c_before_the_first_result_says_so() -> None:
    result = search(ANSWERS, Script([KeyboardInterrupt()]), PLAIN, n_trials=9, n_folds=2)
    with pytest.raises(SkprefError, match="stopped before the first trial"):
        _ = result.best


def test_poor_trials_are_given_up() -> None:
    result = search(ANSWERS, Script([0.7] * 6 + [0.01]), PLAIN, n_trials=7, n_folds=4)
    last = result.trials[-1]
    assert last.state == "pruned"
    assert len(last.scores) < 4
    assert result.best.state == "complete"


def test_no_trial_begins_after_the_timeout() -> None:
    def slow(_: dict[str, Any]) -> Guess:
        return Guess(act=lambda: time.sleep(0.03))

    result = search(ANSWERS, slow, PLAIN, n_trials=1000, timeout=0.2, n_folds=2)
    assert 1 <= len(result.trials) < 10
    assert not result.interrupted


def test_the_journal_holds_the_study(tmp_path: Path) -> None:
    journal = tmp_path / "study.journal"
    search(ANSWERS, Script([0.6]), PLAIN, n_trials=2, n_folds=2, journal=journal)
    storage = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(journal)))
    (name,) = optuna.get_all_study_names(storage)
    assert len(optuna.load_study(study_name=name, storage=storage).trials) == 2


def test_weights_count() -> None:
    weight = np.where(Y == 1.0, 3.0, 1.0)
    p = 0.9
    result = search(Answers(X, Y, weight), Script([p]), PLAIN, n_trials=1, n_folds=2)
    plain = search(ANSWERS, Script([p]), PLAIN, n_trials=1, n_folds=2)
    assert result.best.score < plain.best.score


def test_the_real_model_with_features() -> None:
    rng = np.random.default_rng(0)
    pairs = np.array([rng.choice(120, 2, replace=False) for _ in range(40)])
    y = (FEATURES.features[pairs[:, 0], 0] > FEATURES.features[pairs[:, 1], 0]).astype(float)
    space = Space(n_items=120, max_inducing=20)
    result = search(Answers(pairs, y, np.ones(40)), Builder(FEATURES), space, n_trials=2, n_folds=2)
    assert [t.state for t in result.trials] == ["complete", "complete"], [t.error for t in result.trials]
    assert result.trials[0].bounds


def test_the_real_model_of_a_crowd() -> None:
    rng = np.random.default_rng(0)
    rows = np.array([(u, *rng.choice(6, 2, replace=False)) for u in range(6) for _ in range(24)])
    y = np.where(rows[:, 0] % 2, rows[:, 1] > rows[:, 2], rows[:, 1] < rows[:, 2]).astype(float)
    space = CrowdSpace(n_items=6, n_users=6, has_features=False)
    result = search(Answers(rows, y, np.ones(len(y))), CrowdBuilder(None, None), space, n_trials=2, n_folds=2)
    assert [t.state for t in result.trials] == ["complete", "complete"], [t.error for t in result.trials]
    assert result.trials[0].score < 0.6  # no consensus exists: only personal views are better than a coin
    assert result.trials[0].bounds


def test_best_of_nothing_complete() -> None:
    assert SearchResult([TrialRecord(0, "complete", {}, (0.5,), 0.1)]).best.number == 0


def test_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(MissingExtraError, match=r"skpref\[optuna\]"):
        search(ANSWERS, Script([0.6]), PLAIN, n_trials=1)
